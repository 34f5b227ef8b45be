//! The texts of an automaton as forms.
//!
//! A state with several edges into it is a rule whose alternatives each read a part and call the next state's rule
//! last. Such rules are read side by side with nothing: the automaton is deterministic, and a call at the end of a
//! rule leaves nothing on the reader's stack. All else is written in place:
//!
//! 1. A state that one other state follows, and no end, is a part of the edges around it. So the four digits of an
//!    escape are one form, and a character of a JSON string is a class or an escape.
//! 2. A loop is a repetition.
//! 3. In a large automaton, a state from which one only comes where one comes without it is a part of the edges around
//!    it too, if the text is shorter then: a backslash, before escapes of characters that lead to several states.
//! 4. States in a row, each with the same step to the next and the same edges otherwise, are a count: strings of at
//!    most 63 characters are not 63 rules.
//!
//! Tried instead: regular expressions by elimination of all states, which double with a state, and are ambiguous.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use indexmap::IndexSet;
use unskew_automata::{
    Dfa, Limits, RegexError,
    dfa::{Characters, DfaAlgebra},
};

use super::forms::{Form, FormId, Forms, MAX_COUNT, Range, Written};

/// The fewest states in a row that are a count although the last of them has other edges than the rest.
const LONG_ROW: u32 = 8;

/// The fewest states of an automaton that is written in two ways, of which the shorter one stays.
const LARGE: usize = 40;

#[derive(Clone, Default)]
struct Node {
    is_accepting: bool,
    /// One for each target, which are distinct.
    edges: Vec<(FormId, usize)>,
}

impl Node {
    /// All but the edge at this index.
    fn but_for(&self, edge: usize) -> (bool, Vec<(FormId, usize)>) {
        let mut edges = self.edges.clone();
        edges.remove(edge);
        edges.sort_unstable();
        (self.is_accepting, edges)
    }
}

/// Whether all texts of `dfa` are valid UTF-8.
pub(super) fn is_text(dfa: &Dfa, limits: &Limits) -> Result<bool, RegexError> {
    if dfa.bytes().all(|byte| byte.is_ascii()) {
        return Ok(true);
    }
    let mut algebra = DfaAlgebra::new(limits);
    let all = algebra.pattern("(?s:.*)")?;
    match algebra.difference(dfa, &all) {
        Ok(_) => Ok(false),
        Err(RegexError::MatchesNothing) => Ok(true),
        Err(error) => Err(error),
    }
}

impl Forms {
    /// The texts of `dfa`, which are valid UTF-8. `name` is that of its rules.
    pub(super) fn automaton(&mut self, name: &str, dfa: &Arc<Dfa>) -> FormId {
        let mut nodes = self.nodes(dfa);
        self.pass_through(&mut nodes);
        let made = self.written(name, &nodes);
        if nodes.iter().filter(|node| !node.edges.is_empty()).count() < LARGE {
            return made;
        }
        // Characters with escapes become one form where each of them leads where its escape does.
        self.merge_detours(&mut nodes);
        self.pass_through(&mut nodes);
        let other = self.written(name, &nodes);
        if self.whole_size(other) < self.whole_size(made) { other } else { made }
    }

    /// The number of parts of `form`, and of the rules that it calls, each once.
    fn whole_size(&self, form: FormId) -> usize {
        let (mut rules, mut seen, mut done) = (vec![], HashSet::<Written>::new(), HashSet::new());
        let (mut size, mut next) = (0, Some(form));
        while let Some(form) = next {
            for form in self.inside([form], &mut done) {
                size += 1 + self.parts(form).len();
                if let Form::Rule(rule) = self.form(form)
                    && seen.insert(*rule)
                {
                    rules.push(*rule);
                }
            }
            next = rules.pop().map(|rule| self.body(rule));
        }
        size
    }

    /// Leaves out each state that leads, from wherever it is entered, only where one comes without it too.
    fn merge_detours(&mut self, nodes: &mut [Node]) {
        let mut before = sources(nodes);
        for at in (1..nodes.len()).rev() {
            let targets: Vec<usize> = nodes[at].edges.iter().map(|(_, target)| *target).collect();
            let leads = |from: usize, to: usize| {
                from == to || nodes[from].edges.iter().any(|(_, target)| *target == to)
            };
            let is_detour = !nodes[at].is_accepting
                && !targets.is_empty()
                && !targets.contains(&at)
                && before[at].iter().all(|from| targets.iter().all(|target| leads(*from, *target)));
            if !is_detour {
                continue;
            }
            let steps = std::mem::take(&mut nodes[at].edges);
            for (from, into) in detached(nodes, &mut before, at) {
                for (step, target) in &steps {
                    let whole = self.sequence([into, *step]);
                    self.add_edge(&mut nodes[from], whole, *target);
                    before[*target].remove(&at);
                    before[*target].insert(from);
                }
            }
        }
    }

    fn add_edge(&mut self, node: &mut Node, step: FormId, target: usize) {
        match node.edges.iter_mut().find(|(_, known)| *known == target) {
            Some((known, _)) => *known = self.choice([*known, step]),
            None => node.edges.push((step, target)),
        }
    }

    /// The states of `dfa` between characters, the start first.
    fn nodes(&mut self, dfa: &Dfa) -> Vec<Node> {
        let mut characters = Characters::new(dfa);
        let (mut states, mut nodes) = (IndexSet::from([dfa.start()]), vec![]);
        while let Some(state) = states.get_index(nodes.len()).copied() {
            let mut classes: Vec<(usize, Vec<Range>)> = vec![];
            let mut of_target: HashMap<usize, usize> = HashMap::new();
            for piece in characters.pieces(state) {
                let (target, _) = states.insert_full(piece.target);
                let at = *of_target.entry(target).or_insert_with(|| {
                    classes.push((target, vec![]));
                    classes.len() - 1
                });
                classes[at].1.push((piece.first, piece.last));
            }
            let edges = classes.into_iter().map(|(target, ranges)| (self.class(ranges), target)).collect();
            nodes.push(Node { is_accepting: dfa.is_accepting(state), edges });
        }
        nodes
    }

    /// Leaves out each state that one other state follows, and no end.
    fn pass_through(&mut self, nodes: &mut [Node]) {
        let mut before = sources(nodes);
        // The last states first, so that rows of characters join from their end.
        let mut open: Vec<usize> = (1..nodes.len()).collect();
        while let Some(at) = open.pop() {
            let others: Vec<(FormId, usize)> =
                nodes[at].edges.iter().copied().filter(|(_, target)| *target != at).collect();
            let &[(step, next)] = &others[..] else { continue };
            if nodes[at].is_accepting || before[at].is_empty() {
                continue;
            }
            let own = nodes[at].edges.iter().find(|(_, target)| *target == at).map(|(step, _)| *step);
            let own = own.map(|own| self.repeat(own, 0, None));
            let rest = self.sequence(own.into_iter().chain([step]));
            // The last state of a row goes on as those before it do, which a count needs to see.
            if before[at].iter().any(|from| nodes[*from].edges.contains(&(rest, next))) {
                continue;
            }
            nodes[at].edges.clear();
            before[next].remove(&at);
            for (from, into) in detached(nodes, &mut before, at) {
                let whole = self.sequence([into, rest]);
                self.add_edge(&mut nodes[from], whole, next);
                before[next].insert(from);
                if from > 0 {
                    open.push(from);
                }
            }
        }
    }

    fn written(&mut self, name: &str, nodes: &[Node]) -> FormId {
        let mut entries = vec![0u32; nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            node.edges
                .iter()
                .filter(|(_, target)| *target != at)
                .for_each(|(_, target)| entries[*target] += 1);
        }
        let is_end = |at: usize| nodes[at].edges.is_empty();
        let rules: Vec<Option<Written>> = (0..nodes.len())
            .map(|at| {
                let is_shared = if at == 0 { entries[0] > 0 } else { entries[at] > 1 };
                (is_shared && !is_end(at)).then(|| self.rule(name))
            })
            .collect();
        let rows = Rows { nodes, entries: &entries };
        let mut made: Vec<Option<FormId>> = vec![None; nodes.len()];
        // The start and the rules; then the states that are written in place, which lie in no cycle.
        let mut open: Vec<usize> = (0..nodes.len()).filter(|at| *at == 0 || rules[*at].is_some()).collect();
        while let Some(&at) = open.last() {
            let row = rows.of(at);
            let missing: Vec<usize> = row
                .targets(nodes, at)
                .filter(|target| rules[*target].is_none() && made[*target].is_none())
                .collect();
            if !missing.is_empty() {
                open.extend(missing);
                continue;
            }
            open.pop();
            if made[at].is_some() {
                continue;
            }
            let rest = |forms: &mut Self, target: usize| match rules[target] {
                Some(rule) => forms.call(rule),
                None => made[target].expect("it was made before"),
            };
            let ways = |forms: &mut Self, edges: &[(FormId, usize)], is_accepting: bool| {
                let mut ways: Vec<FormId> = vec![];
                for (step, target) in edges {
                    let rest = rest(forms, *target);
                    ways.push(forms.sequence([*step, rest]));
                }
                if is_accepting {
                    ways.push(forms.empty());
                }
                forms.choice(ways)
            };
            let node = &nodes[at];
            let form = match row {
                Row::None => {
                    let (own, others): (Vec<_>, Vec<_>) =
                        node.edges.iter().partition(|(_, target)| *target == at);
                    let own = own.first().map(|(step, _)| self.repeat(*step, 0, None));
                    let others = ways(self, &others, node.is_accepting);
                    self.sequence(own.into_iter().chain([others]))
                }
                Row::Whole { edge, count } => {
                    let (is_accepting, others) = node.but_for(edge);
                    let others = ways(self, &others, is_accepting);
                    let count = self.repeat(node.edges[edge].0, 0, Some(count));
                    self.sequence([count, others])
                }
                Row::Into { edge, count, last } => {
                    let (is_accepting, others) = node.but_for(edge);
                    let others = ways(self, &others, is_accepting);
                    let few = self.repeat(node.edges[edge].0, 0, Some(count - 1));
                    let all = self.repeat(node.edges[edge].0, count, Some(count));
                    let last = match rules[last] {
                        Some(rule) => self.call(rule),
                        None => made[last].expect("it was made before"),
                    };
                    let (few, all) = (self.sequence([few, others]), self.sequence([all, last]));
                    self.choice([few, all])
                }
            };
            made[at] = Some(form);
            if let Some(rule) = rules[at] {
                self.define(rule, form);
            }
        }
        match rules[0] {
            Some(rule) => self.call(rule),
            None => made[0].expect("it is made"),
        }
    }
}

/// States in a row from one on.
enum Row {
    None,
    /// The edge leads to a state like this one, and so on, `count` times; the last has no such edge.
    Whole {
        edge: usize,
        count: u32,
    },
    /// The same, but the last state has edges of its own.
    Into {
        edge: usize,
        count: u32,
        last: usize,
    },
}

impl Row {
    /// The states that are written behind the one at `at`.
    fn targets<'n>(&'n self, nodes: &'n [Node], at: usize) -> impl Iterator<Item = usize> + use<'n> {
        let (edge, last) = match self {
            Self::None => (None, None),
            Self::Whole { edge, .. } => (Some(*edge), None),
            Self::Into { edge, last, .. } => (Some(*edge), Some(*last)),
        };
        let others = nodes[at].edges.iter().enumerate().filter(move |(index, _)| Some(*index) != edge);
        others.map(|(_, (_, target))| *target).filter(move |target| *target != at).chain(last)
    }
}

struct Rows<'n> {
    nodes: &'n [Node],
    /// By state, the number of edges into it from others.
    entries: &'n [u32],
}

impl Rows<'_> {
    /// The longest row from the state at `at` on.
    fn of(&self, at: usize) -> Row {
        let edges = &self.nodes[at].edges;
        let rows = (0..edges.len()).filter(|edge| edges[*edge].1 != at).map(|edge| self.along(at, edge));
        let longest = rows.max_by_key(|(_, count, _, _)| *count);
        match longest {
            Some((edge, count, _, true)) if count > 1 => Row::Whole { edge, count },
            Some((edge, count, last, false)) if count > LONG_ROW => Row::Into { edge, count, last },
            _ => Row::None,
        }
    }

    /// The row along one edge: the number of its steps, its last state, and whether that is like the others.
    fn along(&self, at: usize, edge: usize) -> (usize, u32, usize, bool) {
        let step = self.nodes[at].edges[edge].0;
        let others = self.nodes[at].but_for(edge);
        let (mut last, mut count) = (self.nodes[at].edges[edge].1, 1);
        loop {
            let node = &self.nodes[last];
            // Another way into the state needs it as a rule.
            if self.entries[last] > 1 || last == 0 || count == MAX_COUNT {
                return (edge, count, last, false);
            }
            let mut own = node.edges.clone();
            own.sort_unstable();
            if (node.is_accepting, own) == others {
                return (edge, count, last, true);
            }
            let next = node.edges.iter().position(|(own, target)| *own == step && *target != last);
            match next {
                Some(next) if node.but_for(next) == others => {
                    (last, count) = (node.edges[next].1, count + 1);
                }
                _ => return (edge, count, last, false),
            }
        }
    }
}

/// By state: the states with an edge to it.
fn sources(nodes: &[Node]) -> Vec<HashSet<usize>> {
    let mut sources: Vec<HashSet<usize>> = vec![HashSet::new(); nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        node.edges.iter().for_each(|(_, target)| _ = sources[*target].insert(at));
    }
    sources
}

/// Takes off all edges to `at`: the states that they begin at, in ascending order, each with the step.
fn detached(nodes: &mut [Node], before: &mut [HashSet<usize>], at: usize) -> Vec<(usize, FormId)> {
    let mut all: Vec<usize> = std::mem::take(&mut before[at]).into_iter().collect();
    all.sort_unstable();
    let detach = |from: usize| {
        let edges = &mut nodes[from].edges;
        let edge = edges.iter().position(|(_, target)| *target == at)?;
        Some((from, edges.remove(edge).0))
    };
    all.into_iter().filter_map(detach).collect()
}
