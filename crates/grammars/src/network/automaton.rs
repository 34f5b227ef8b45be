//! The automaton of a rule.
//!
//! A body is a regular expression over symbols, so it becomes an automaton (a recursive transition network, Woods
//! 1970): a loop stays a loop, alternatives with a common prefix share it, and equal suffixes are one state.
//! Productions with dots, as textbooks have them, would give a position for each symbol of each alternative, and a
//! rule of its own for each loop.
//!
//! Most bodies are alternatives and sequences in each other: a member of an object, the branches of a value. Their
//! automata are built directly, from the ends ([`Builder::straight`]). All other bodies, and those in which
//! alternatives begin with the same symbol, are drafted with empty edges, determinised and merged, which takes about
//! ten times as long.

use hashbrown::HashMap;
use smallvec::SmallVec;
use unskew_grammar::{Expr, ExprId, Grammar, GrammarError, GrammarLimits, RuleId, Unordered};

use super::{
    terminals::{Numbering, ScanTerminal},
    unordered::UnorderedGroup,
};
use crate::ids::number;

/// The symbol of an edge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Symbol {
    Terminal(ScanTerminal),
    Rule(RuleId),
}

/// The automaton of one rule. State 0 is the start.
#[derive(Default)]
pub(super) struct RuleAutomaton {
    pub(super) states: Vec<RuleState>,
}

#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct RuleState {
    pub(super) accepting: bool,
    /// In ascending order. Most have one or two.
    pub(super) edges: SmallVec<[(Symbol, u32); 2]>,
}

/// An automaton with empty edges.
#[derive(Default)]
struct Draft {
    edges: Vec<Vec<(Symbol, u32)>>,
    empty: Vec<Vec<u32>>,
}

/// The states of [`Builder::straight`], and the number of states and edges that may still be added.
struct Straight {
    states: Vec<RuleState>,
    left: usize,
}

pub(super) struct Builder<'g> {
    grammar: &'g Grammar,
    numbering: &'g Numbering,
    limits: &'g GrammarLimits,
    productive: Vec<bool>,
    nullable: Vec<bool>,
    /// The number of positions of the rules before.
    done: usize,
    /// The states of [`straight`](Self::straight) without the start.
    known: HashMap<RuleState, u32>,
}

impl<'g> Builder<'g> {
    pub(super) fn new(
        grammar: &'g Grammar,
        numbering: &'g Numbering,
        limits: &'g GrammarLimits,
        productive: Vec<bool>,
        nullable: Vec<bool>,
    ) -> Self {
        Self { grammar, numbering, limits, productive, nullable, done: 1, known: HashMap::new() }
    }

    /// The automaton of a rule.
    pub(super) fn rule(&mut self, rule: RuleId) -> Result<RuleAutomaton, GrammarError> {
        let too_many = || GrammarError::TooManyPositions {
            rule: self.grammar.rule_name(rule).to_owned(),
            limit: self.limits.positions,
        };
        let left = self.limits.positions.saturating_sub(self.done);
        let body = self.grammar.body(rule);
        let automaton = match self.straight(body, left) {
            Some(automaton) => automaton,
            None => {
                let draft = self.draft(body, left).ok_or_else(too_many)?;
                draft.determined(left).ok_or_else(too_many)?.merged()
            }
        };
        self.done += automaton.states.len();
        Ok(automaton)
    }

    /// The automaton of a body of alternatives and sequences in each other, and of options but no other repetitions,
    /// if no two alternatives begin with the same symbol. `None` also if it might take more than `limit` states or
    /// edges.
    fn straight(&mut self, body: ExprId, limit: usize) -> Option<RuleAutomaton> {
        self.known.clear();
        // The first state is replaced by the start, which is built last.
        let mut straight = Straight { states: vec![RuleState::default()], left: limit };
        let end = RuleState { accepting: true, edges: SmallVec::new() };
        let start = self.before(body, end, &mut straight, 0)?;
        straight.states[0] = start;
        Some(RuleAutomaton { states: straight.states })
    }

    /// The state before `expr`, where `next` is the state after it.
    fn before(
        &mut self,
        expr: ExprId,
        next: RuleState,
        straight: &mut Straight,
        depth: u32,
    ) -> Option<RuleState> {
        // Deeper nesting than people write is left to the other way, which does not recurse.
        const DEPTH: u32 = 8;
        if depth > DEPTH {
            return None;
        }
        straight.left = straight.left.checked_sub(1 + next.edges.len())?;
        let symbol = match self.grammar.expr(expr) {
            Expr::Empty => return Some(next),
            Expr::Terminal(terminal) => Symbol::Terminal(self.numbering[terminal]),
            Expr::Rule(rule) => Symbol::Rule(rule),
            Expr::Sequence(parts) => {
                let mut parts = parts.iter().rev();
                return parts.try_fold(next, |next, part| self.before(*part, next, straight, depth + 1));
            }
            Expr::Choice(alternatives) => {
                let alternatives = alternatives.iter().copied();
                return self.either(alternatives, RuleState::default(), &next, straight, depth);
            }
            Expr::Repeat { item, min: 0, max: Some(1) } => {
                return self.either([item].into_iter(), next.clone(), &next, straight, depth);
            }
            Expr::Repeat { .. } | Expr::Unordered(_) => return None,
        };
        // If the symbol may be empty, the edges after it are edges here too.
        let mut state = if self.nullable[expr.index()] { next.clone() } else { RuleState::default() };
        let after = *self.known.entry(next).or_insert_with_key(|next| {
            straight.states.push(next.clone());
            number(straight.states.len() - 1)
        });
        state.edges.push((symbol, after));
        state.is_sure().then_some(state)
    }

    /// The union of `other` and the states before `alternatives`, where `next` is the state after each.
    fn either(
        &mut self,
        alternatives: impl Iterator<Item = ExprId>,
        other: RuleState,
        next: &RuleState,
        straight: &mut Straight,
        depth: u32,
    ) -> Option<RuleState> {
        let mut either = other;
        for alternative in alternatives {
            if self.productive[alternative.index()] {
                let state = self.before(alternative, next.clone(), straight, depth + 1)?;
                either.accepting |= state.accepting;
                either.edges.extend(state.edges);
            }
        }
        // One sort for all: a list of words has thousands of alternatives.
        either.is_sure().then_some(either)
    }

    /// The members of `unordered` that have a text; their positions come after those of `before`.
    pub(super) fn group(
        &mut self,
        unordered: &Unordered,
        before: Option<&UnorderedGroup>,
    ) -> Result<UnorderedGroup, GrammarError> {
        let body = |rule: RuleId| self.grammar.body(rule).index();
        for rule in unordered.rules().filter(|rule| Some(*rule) != unordered.separator) {
            if self.nullable[body(rule)] {
                return Err(GrammarError::EmptyMember { rule: self.grammar.rule_name(rule).to_owned() });
            }
        }
        let kept = unordered.with_rules(|rule| self.productive[body(rule)].then_some(rule));
        let mut group = UnorderedGroup::new(kept, before);
        if group.separator.is_none() && unordered.separator.is_some() {
            group.max = Some(1.min(group.max.unwrap_or(1)));
        }
        let all = number(group.members.len());
        group.max = group.max.filter(|max| group.others.is_some() || *max < all);
        Ok(group)
    }

    /// The draft of `body`, from state 0 to state 1. `None` if it takes more than `limit` states or edges.
    fn draft(&self, body: ExprId, limit: usize) -> Option<Draft> {
        let mut draft = Draft { edges: vec![Vec::new(); 2], empty: vec![Vec::new(); 2] };
        let mut spent = 2;
        let mut open = vec![(body, 0, 1)];
        while let Some((expr, from, to)) = open.pop() {
            spent += 1;
            if spent > limit {
                return None;
            }
            if !self.productive[expr.index()] {
                // The expression has no text. A repetition of it may still be empty.
                if let Expr::Repeat { min: 0, .. } = self.grammar.expr(expr) {
                    draft.empty[from].push(number(to));
                }
                continue;
            }
            match self.grammar.expr(expr) {
                Expr::Empty => draft.empty[from].push(number(to)),
                Expr::Terminal(terminal) => {
                    let symbol = Symbol::Terminal(self.numbering[terminal]);
                    draft.edges[from].push((symbol, number(to)));
                    if self.nullable[expr.index()] {
                        draft.empty[from].push(number(to));
                    }
                }
                Expr::Rule(rule) => {
                    draft.edges[from].push((Symbol::Rule(rule), number(to)));
                    if self.nullable[expr.index()] {
                        draft.empty[from].push(number(to));
                    }
                }
                Expr::Unordered(_) => unreachable!("the builder makes it a rule of its own"),
                Expr::Choice(alternatives) => {
                    spent += alternatives.len();
                    open.extend(alternatives.iter().map(|alternative| (*alternative, from, to)));
                }
                Expr::Sequence(parts) => {
                    spent += parts.len();
                    let mut at = from;
                    for (index, part) in parts.iter().enumerate() {
                        let next = if index + 1 == parts.len() { to } else { draft.state() };
                        open.push((*part, at, next));
                        at = next;
                    }
                }
                Expr::Repeat { item, min, max } => {
                    if !self.productive[item.index()] {
                        draft.empty[from].push(number(to));
                        continue;
                    }
                    // Each copy is an entry of `open` and takes at least one step.
                    let copies = max.unwrap_or(min) as usize;
                    if copies > limit - spent {
                        return None;
                    }
                    let mut at = from;
                    for copy in 0..copies {
                        if copy >= min as usize {
                            draft.empty[at].push(number(to));
                        }
                        let next = draft.state();
                        open.push((item, at, next));
                        at = next;
                    }
                    if max.is_none() {
                        let turn = draft.state();
                        draft.empty[at].push(number(turn));
                        open.push((item, turn, turn));
                        at = turn;
                    }
                    draft.empty[at].push(number(to));
                }
            }
        }
        Some(draft)
    }
}

impl Draft {
    fn state(&mut self) -> usize {
        self.edges.push(Vec::new());
        self.empty.push(Vec::new());
        self.edges.len() - 1
    }

    /// `states` and all that empty edges reach from them, in ascending order.
    fn closure(&self, states: impl IntoIterator<Item = u32>, seen: &mut [bool]) -> Vec<u32> {
        let mut found: Vec<u32> = Vec::new();
        for state in states {
            if !std::mem::replace(&mut seen[state as usize], true) {
                found.push(state);
            }
        }
        let mut at = 0;
        while let Some(state) = found.get(at).copied() {
            for next in &self.empty[state as usize] {
                if !std::mem::replace(&mut seen[*next as usize], true) {
                    found.push(*next);
                }
            }
            at += 1;
        }
        found.iter().for_each(|state| seen[*state as usize] = false);
        found.sort_unstable();
        found
    }

    /// The automaton without empty edges: by sets of states where they are few, else state by state. `None` if it
    /// takes more than `limit` states and edges.
    fn determined(&self, limit: usize) -> Option<RuleAutomaton> {
        let sets = self.edges.len() + 16;
        self.by_sets(sets.min(limit), limit).or_else(|| self.by_states(limit))
    }

    fn by_sets(&self, most: usize, limit: usize) -> Option<RuleAutomaton> {
        let mut seen = vec![false; self.edges.len()];
        let start = self.closure([0], &mut seen);
        let mut ids: HashMap<Vec<u32>, u32> = HashMap::from([(start.clone(), 0)]);
        let mut sets = vec![start];
        let mut automaton = RuleAutomaton::default();
        let mut spent = 0;
        while let Some(set) = sets.get(automaton.states.len()).cloned() {
            let mut edges: Vec<(Symbol, u32)> =
                set.iter().flat_map(|state| &self.edges[*state as usize]).copied().collect();
            edges.sort_unstable();
            edges.dedup();
            spent += set.len() + edges.len();
            if spent > limit {
                return None;
            }
            let mut merged = SmallVec::new();
            for group in edges.chunk_by(|left, right| left.0 == right.0) {
                let target = self.closure(group.iter().map(|(_, to)| *to), &mut seen);
                spent += target.len();
                let next = number(sets.len());
                let target = *ids.entry(target).or_insert_with_key(|set| {
                    sets.push(set.clone());
                    next
                });
                merged.push((group[0].0, target));
            }
            if sets.len() > most || spent > limit {
                return None;
            }
            automaton.states.push(RuleState { accepting: set.contains(&1), edges: merged });
        }
        Some(automaton)
    }

    fn by_states(&self, limit: usize) -> Option<RuleAutomaton> {
        let mut seen = vec![false; self.edges.len()];
        let mut ids: Vec<Option<u32>> = vec![None; self.edges.len()];
        ids[0] = Some(0);
        let mut states = vec![0u32];
        let mut automaton = RuleAutomaton::default();
        let mut spent = 0;
        while let Some(state) = states.get(automaton.states.len()).copied() {
            let closure = self.closure([state], &mut seen);
            let mut edges: SmallVec<[(Symbol, u32); 2]> =
                closure.iter().flat_map(|state| &self.edges[*state as usize]).copied().collect();
            spent += closure.len() + edges.len();
            if spent > limit {
                return None;
            }
            for (_, to) in &mut edges {
                let old = *to;
                *to = *ids[old as usize].get_or_insert_with(|| {
                    states.push(old);
                    number(states.len() - 1)
                });
            }
            edges.sort_unstable();
            edges.dedup();
            automaton.states.push(RuleState { accepting: closure.contains(&1), edges });
        }
        Some(automaton)
    }
}

impl RuleAutomaton {
    /// Merges states that are equal, beginning at the ends: the states after `x` and after `, x` in a list become
    /// one. The result is not minimal where whole loops are equal.
    fn merged(self) -> Self {
        /// Each round may find more. Targets mostly have higher numbers, so two rounds nearly always suffice.
        const ROUNDS: usize = 4;
        let mut same: Vec<u32> = (0..number(self.states.len())).collect();
        for _ in 0..ROUNDS {
            let mut ids: HashMap<RuleState, u32> = HashMap::new();
            ids.reserve(self.states.len());
            let mut changed = false;
            for (at, state) in self.states.iter().enumerate().rev() {
                if same[at] != number(at) {
                    continue;
                }
                let found = *ids.entry(state.renamed(&same)).or_insert(number(at));
                changed |= found != number(at);
                same[at] = found;
            }
            // Follows chains of merged states to their last one.
            for at in 0..same.len() {
                while same[same[at] as usize] != same[at] {
                    same[at] = same[same[at] as usize];
                }
            }
            if !changed {
                break;
            }
        }
        // States are renumbered in the order in which they are reached, so the start stays first.
        let mut new: Vec<Option<u32>> = vec![None; same.len()];
        let mut kept = vec![same[0]];
        new[same[0] as usize] = Some(0);
        let mut states: Vec<RuleState> = Vec::new();
        while let Some(at) = kept.get(states.len()).copied() {
            let mut state = self.states[at as usize].renamed(&same);
            for (_, to) in &mut state.edges {
                let old = *to;
                *to = *new[old as usize].get_or_insert_with(|| {
                    kept.push(old);
                    number(kept.len() - 1)
                });
            }
            state.edges.sort_unstable();
            states.push(state);
        }
        Self { states }
    }
}

impl RuleState {
    /// Whether no symbol leads to two states. The edges ascend afterwards.
    fn is_sure(&mut self) -> bool {
        self.edges.sort_unstable();
        self.edges.dedup();
        self.edges.array_windows().all(|[left, right]| left.0 != right.0)
    }

    fn renamed(&self, names: &[u32]) -> Self {
        let mut edges: SmallVec<[(Symbol, u32); 2]> =
            self.edges.iter().map(|(symbol, to)| (*symbol, names[*to as usize])).collect();
        edges.sort_unstable();
        edges.dedup();
        Self { accepting: self.accepting, edges }
    }
}
