//! Rules as automata over terminals and rules: what the parser walks.
//!
//! A body is a regular expression over symbols, so it becomes an automaton (a recursive transition network, Woods 1970): a
//! loop stays a loop, alternatives with a common beginning share it, and equal endings are one place. A **position** is a
//! state of one of these automata. Productions with dots, as textbooks have them, would give a position for each symbol of
//! each alternative, and a rule of its own for each loop.
//!
//! Most bodies are alternatives and sequences in each other: a member of an object, the branches of a value. Their automata are
//! made at once, from the ends ([`Builder::straight`]). Any other body, and any in which alternatives begin alike, is written out
//! with empty edges, determined and merged, which takes some ten times as long.
//!
//! Only what can be completed is built: alternatives that have no text are left out, and so are rules that the start does
//! not reach. From every position some text leads to the end of its rule.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::unordered::{Group, is_of_group};
use crate::{
    GrammarError, GrammarLimits,
    grammar::{
        analysis::no_text,
        data::{Expr, ExprId, Grammar, RuleId, Terminal, Unordered},
        fixpoint::productive_and_nullable,
    },
    ids::NONE,
};

/// A place inside a rule.
pub(crate) type Position = u32;

/// The position behind everything: the output may end. It belongs to no rule and has no edges.
pub(crate) const END: Position = 0;

/// The automata of all rules that the start reaches.
#[derive(Debug)]
pub(crate) struct Rules {
    /// By rule: where it begins, or [`NONE`] if it is not reached.
    starts: Vec<Position>,
    /// By position: whether the rule may end here.
    accepting: Vec<bool>,
    terminals: Edges,
    calls: Edges,
    /// By rule: its place in an order in which a rule comes behind those that may begin with it, and rules that may begin
    /// with each other have the same one.
    pub(crate) order: Vec<u32>,
    /// Rules whose members come in any order have positions of their own; see [`crate::network::unordered`].
    pub(crate) groups: Vec<Group>,
    /// By rule: whether it is a scope of texts that may not come twice.
    scopes: Vec<bool>,
    /// By terminal: whether its texts may not.
    distinct: Vec<bool>,
    /// The first of the [holes](crate::parser::local), which come last.
    holes: Position,
}

/// By position: pairs of a symbol and the position behind it, in ascending order.
#[derive(Debug)]
struct Edges {
    first: Vec<u32>,
    edges: Vec<(u32, Position)>,
}

impl Edges {
    fn of(&self, position: Position) -> &[(u32, Position)] {
        let at = position as usize;
        &self.edges[self.first[at] as usize..self.first[at + 1] as usize]
    }
}

impl Rules {
    /// The automata of `grammar`, in which the terminals have the numbers `names`.
    ///
    /// # Errors
    ///
    /// [`GrammarError::Empty`], [`GrammarError::TooManyPositions`] and [`GrammarError::EmptyMember`].
    pub(crate) fn new(
        grammar: &Grammar,
        names: &[u32],
        limits: &GrammarLimits,
    ) -> Result<Self, GrammarError> {
        let (productive, nullable) = productive_and_nullable(grammar);
        if !productive[grammar.body(grammar.start()).index()] {
            return Err(GrammarError::Empty { reason: no_text(grammar, &productive) });
        }
        let mut rules = Self {
            starts: vec![NONE; grammar.rules().len()],
            accepting: vec![false],
            terminals: Edges { first: vec![0, 0], edges: Vec::new() },
            calls: Edges { first: vec![0, 0], edges: Vec::new() },
            order: Vec::new(),
            groups: Vec::new(),
            scopes: grammar.rules().map(|rule| grammar.is_scope(rule)).collect(),
            distinct: vec![false; names.len()],
            holes: NONE,
        };
        for terminal in grammar.terminals() {
            let is_distinct = matches!(grammar.terminal(terminal), Terminal::Distinct(_));
            rules.distinct[names[terminal.index()] as usize] = is_distinct;
        }
        let known = HashMap::new();
        let mut builder = Builder { grammar, names, limits, productive, nullable, done: 1, known };
        let mut open = vec![grammar.start()];
        let mut at = 0;
        rules.starts[grammar.start().index()] = END;
        while let Some(rule) = open.get(at).copied() {
            if let Expr::Unordered(unordered) = grammar.expr(grammar.body(rule)) {
                let group = builder.group(unordered, rules.groups.last())?;
                rules.starts[rule.index()] = group.start();
                let callees = group.members.iter().map(|(member, _)| *member);
                let callees: Vec<u32> = callees.chain(group.others).chain(group.separator).collect();
                rules.groups.push(group);
                callees.into_iter().for_each(|callee| rules.reach(callee, &mut open));
            } else {
                let network = builder.rule(rule)?;
                let base = rules.add(rule, &network);
                for position in base..base + u32::try_from(network.states.len()).expect("limited") {
                    for edge in 0..rules.calls.of(position).len() {
                        let (callee, _) = rules.calls.of(position)[edge];
                        rules.reach(callee, &mut open);
                    }
                }
            }
            at += 1;
        }
        rules.add_holes();
        let recursive;
        (rules.order, recursive) = rules.left_order();
        match grammar.rules().find(|rule| grammar.is_scope(*rule) && recursive[rule.index()]) {
            Some(rule) => Err(GrammarError::RecursiveScope { rule: grammar.rule_name(rule).to_owned() }),
            None => Ok(rules),
        }
    }

    /// How many holes there are.
    pub(crate) const HOLES: u32 = 64;

    fn add_holes(&mut self) {
        let len = self.accepting.len();
        self.holes = u32::try_from(len).expect("limited");
        self.accepting.resize(len + Self::HOLES as usize, false);
        for edges in [&mut self.terminals, &mut self.calls] {
            edges.first.resize(
                edges.first.len() + Self::HOLES as usize,
                u32::try_from(edges.edges.len()).expect("limited"),
            );
        }
    }

    /// The position of this hole. It has no edges and is the end of nothing.
    pub(crate) fn hole(&self, hole: u32) -> Position {
        self.holes + hole
    }

    /// The hole that `position` is.
    #[inline]
    pub(crate) fn hole_of(&self, position: Position) -> Option<u32> {
        position.checked_sub(self.holes).filter(|hole| *hole < Self::HOLES)
    }

    /// Marks `callee` as reached; `open` are the rules to be built.
    fn reach(&mut self, callee: u32, open: &mut Vec<RuleId>) {
        let start = &mut self.starts[callee as usize];
        if *start == NONE {
            // Anything but `NONE` marks it as seen until it is built.
            *start = END;
            open.push(RuleId(callee));
        }
    }

    /// Whether texts that may not come twice are another matter in `rule` than around it.
    #[inline]
    pub(crate) fn is_scope(&self, rule: u32) -> bool {
        self.scopes[rule as usize]
    }

    /// Whether texts of `terminal` may not come twice in a scope.
    #[inline]
    pub(crate) fn is_distinct(&self, terminal: u32) -> bool {
        self.distinct[terminal as usize]
    }

    /// The number of positions, those of groups and holes not counted.
    pub(crate) fn len(&self) -> usize {
        self.holes as usize
    }

    /// The rules that the start reaches, and where they begin; not those whose members come in any order.
    pub(crate) fn built(&self) -> impl Iterator<Item = (u32, Position)> {
        let starts = (0u32..).zip(self.starts.iter().copied());
        starts.filter(|(_, start)| *start != NONE && !is_of_group(*start))
    }

    /// The number of rules, reached or not.
    pub(crate) fn all(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn start(&self, rule: u32) -> Position {
        self.starts[rule as usize]
    }

    #[inline]
    pub(crate) fn is_accepting(&self, position: Position) -> bool {
        self.accepting[position as usize]
    }

    /// Terminals and the positions behind them.
    #[inline]
    pub(crate) fn terminals(&self, position: Position) -> &[(u32, Position)] {
        self.terminals.of(position)
    }

    /// Rules and the positions behind them.
    #[inline]
    pub(crate) fn calls(&self, position: Position) -> &[(u32, Position)] {
        self.calls.of(position)
    }

    /// Whether nothing but the end of the rule follows.
    #[inline]
    pub(crate) fn is_final(&self, position: Position) -> bool {
        self.is_accepting(position) && self.terminals(position).is_empty() && self.calls(position).is_empty()
    }

    /// By terminal, of which there are `len`: whether some rule that is reached reads it.
    pub(crate) fn used_terminals(&self, len: usize) -> Vec<bool> {
        let mut used = vec![false; len];
        self.terminals.edges.iter().for_each(|(terminal, _)| used[*terminal as usize] = true);
        used
    }

    /// Adds all that rules without members in any order are, as numbers.
    pub(crate) fn spell(&self, spelled: &mut Vec<u32>) {
        let id = |index: usize| u32::try_from(index).expect("limited");
        spelled.push(id(self.starts.len()));
        spelled.extend_from_slice(&self.starts);
        for position in 0..id(self.len()) {
            spelled.push(u32::from(self.is_accepting(position)));
            for edges in [self.terminals(position), self.calls(position)] {
                spelled.push(id(edges.len()));
                spelled.extend(edges.iter().flat_map(|(symbol, to)| [*symbol, *to]));
            }
        }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let numbers = [&self.starts, &self.order, &self.terminals.first, &self.calls.first];
        let edges = [&self.terminals.edges, &self.calls.edges];
        let members = self.groups.iter().map(|group| group.members.capacity() * size_of::<(u32, bool)>());
        numbers.iter().map(|numbers| numbers.capacity() * size_of::<u32>()).sum::<usize>()
            + edges.iter().map(|edges| edges.capacity() * size_of::<(u32, Position)>()).sum::<usize>()
            + [&self.accepting, &self.scopes, &self.distinct]
                .iter()
                .map(|bits| bits.capacity())
                .sum::<usize>()
            + self.groups.capacity() * size_of::<Group>()
            + members.sum::<usize>()
    }

    fn add(&mut self, rule: RuleId, network: &Network) -> Position {
        let base = u32::try_from(self.accepting.len()).expect("limited");
        self.starts[rule.index()] = base;
        for state in &network.states {
            self.accepting.push(state.accepting);
            for (symbol, to) in &state.edges {
                match symbol {
                    Symbol::Terminal(terminal) => self.terminals.edges.push((*terminal, base + to)),
                    Symbol::Rule(callee) => self.calls.edges.push((*callee, base + to)),
                }
            }
            self.terminals.first.push(u32::try_from(self.terminals.edges.len()).expect("limited"));
            self.calls.first.push(u32::try_from(self.calls.edges.len()).expect("limited"));
        }
        base
    }

    /// See [`order`](Self::order); and by rule, whether it may begin with itself.
    fn left_order(&self) -> (Vec<u32>, Vec<bool>) {
        let mut graph = petgraph::graph::DiGraph::<(), ()>::with_capacity(self.starts.len(), 0);
        let nodes: Vec<_> = self.starts.iter().map(|_| graph.add_node(())).collect();
        for (rule, start) in self.starts.iter().enumerate().filter(|(_, start)| **start != NONE) {
            let mut add = |callee: u32| graph.add_edge(nodes[rule], nodes[callee as usize], ());
            if is_of_group(*start) {
                let group = self.groups.binary_search_by_key(start, Group::start).expect("it was built");
                let group = &self.groups[group];
                group.members.iter().map(|(member, _)| *member).chain(group.others).for_each(|callee| {
                    add(callee);
                });
            } else {
                for (callee, _) in self.calls(*start) {
                    add(*callee);
                }
            }
        }
        // Kosaraju's algorithm does not recurse; it answers the called before their callers.
        let components = petgraph::algo::kosaraju_scc(&graph);
        let mut order = vec![0; self.starts.len()];
        let mut recursive = vec![false; self.starts.len()];
        for (place, component) in components.iter().rev().enumerate() {
            for node in component {
                order[node.index()] = u32::try_from(place).expect("limited");
                recursive[node.index()] = component.len() > 1 || graph.contains_edge(*node, *node);
            }
        }
        (order, recursive)
    }
}

/// What an edge reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Symbol {
    Terminal(u32),
    Rule(u32),
}

/// The automaton of one rule. State 0 is the start.
#[derive(Default)]
struct Network {
    states: Vec<State>,
}

#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct State {
    accepting: bool,
    /// In ascending order. Most have one or two.
    edges: SmallVec<[(Symbol, u32); 2]>,
}

/// An automaton with empty edges, as an expression is written out.
#[derive(Default)]
struct Draft {
    edges: Vec<Vec<(Symbol, u32)>>,
    empty: Vec<Vec<u32>>,
}

/// The states of [`Builder::straight`], and how much may still be spent on them.
struct Straight {
    states: Vec<State>,
    left: usize,
}

struct Builder<'g> {
    grammar: &'g Grammar,
    names: &'g [u32],
    limits: &'g GrammarLimits,
    productive: Vec<bool>,
    nullable: Vec<bool>,
    /// Positions of the rules before.
    done: usize,
    /// The states of [`straight`](Self::straight), but the start.
    known: HashMap<State, u32>,
}

impl Builder<'_> {
    fn rule(&mut self, rule: RuleId) -> Result<Network, GrammarError> {
        let too_many = || GrammarError::TooManyPositions {
            rule: self.grammar.rule_name(rule).to_owned(),
            limit: self.limits.positions,
        };
        let left = self.limits.positions.saturating_sub(self.done);
        let body = self.grammar.body(rule);
        let network = match self.straight(body, left) {
            Some(network) => network,
            None => {
                let draft = self.draft(body, left).ok_or_else(too_many)?;
                draft.determined(left).ok_or_else(too_many)?.merged()
            }
        };
        self.done += network.states.len();
        Ok(network)
    }

    /// The automaton of alternatives and sequences in each other, without repetitions but such as may be left out, if no two
    /// alternatives begin alike. `None` also if it might take more than `limit` states or edges.
    fn straight(&mut self, body: ExprId, limit: usize) -> Option<Network> {
        self.known.clear();
        // In the place of the start, which is made last.
        let mut straight = Straight { states: vec![State::default()], left: limit };
        let end = State { accepting: true, edges: SmallVec::new() };
        let start = self.before(body, end, &mut straight, 0)?;
        straight.states[0] = start;
        Some(Network { states: straight.states })
    }

    /// The state in front of `expr`, behind which is `next`.
    fn before(&mut self, expr: ExprId, next: State, straight: &mut Straight, depth: u32) -> Option<State> {
        // What is nested deeper than people write it is not worth a stack of its own.
        const DEPTH: u32 = 8;
        if depth > DEPTH {
            return None;
        }
        straight.left = straight.left.checked_sub(1 + next.edges.len())?;
        let symbol = match self.grammar.expr(expr) {
            Expr::Empty => return Some(next),
            Expr::Terminal(terminal) => Symbol::Terminal(self.names[terminal.index()]),
            Expr::Rule(RuleId(rule)) => Symbol::Rule(rule),
            Expr::Sequence(parts) => {
                let mut parts = parts.iter().rev();
                return parts.try_fold(next, |next, part| self.before(*part, next, straight, depth + 1));
            }
            Expr::Choice(alternatives) => {
                let alternatives = alternatives.iter().copied();
                return self.either(alternatives, State::default(), &next, straight, depth);
            }
            Expr::Repeat { item, min: 0, max: Some(1) } => {
                return self.either([item].into_iter(), next.clone(), &next, straight, depth);
            }
            Expr::Repeat { .. } | Expr::Unordered(_) => return None,
        };
        // Where the symbol may be empty, what is behind it may come at once.
        let mut state = if self.nullable[expr.index()] { next.clone() } else { State::default() };
        let behind = *self.known.entry(next).or_insert_with_key(|next| {
            straight.states.push(next.clone());
            id(straight.states.len() - 1)
        });
        state.edges.push((symbol, behind));
        state.is_sure().then_some(state)
    }

    /// The state in front of `alternatives`, behind each of which is `next`, and of `other`.
    fn either(
        &mut self,
        alternatives: impl Iterator<Item = ExprId>,
        other: State,
        next: &State,
        straight: &mut Straight,
        depth: u32,
    ) -> Option<State> {
        let mut either = other;
        for alternative in alternatives {
            if self.productive[alternative.index()] {
                let state = self.before(alternative, next.clone(), straight, depth + 1)?;
                either.accepting |= state.accepting;
                either.edges.extend(state.edges);
            }
        }
        // All at once: a list of words has thousands of alternatives.
        either.is_sure().then_some(either)
    }

    /// What of `unordered` can be completed, its positions behind those of `before`.
    fn group(&mut self, unordered: &Unordered, before: Option<&Group>) -> Result<Group, GrammarError> {
        let body = |rule: RuleId| self.grammar.body(rule).index();
        for rule in unordered.rules().filter(|rule| Some(*rule) != unordered.separator) {
            if self.nullable[body(rule)] {
                return Err(GrammarError::EmptyMember { rule: self.grammar.rule_name(rule).to_owned() });
            }
        }
        let is_productive = |rule: &RuleId| self.productive[body(*rule)];
        let members = unordered.members.iter().filter(|(rule, _)| is_productive(rule));
        let mut group = Group {
            members: members.map(|(rule, required)| (rule.0, *required)).collect(),
            others: unordered.others.filter(is_productive).map(|rule| rule.0),
            separator: unordered.separator.filter(is_productive).map(|rule| rule.0),
            min: unordered.min,
            max: unordered.max,
            base: before.map_or(0, |before| before.base + before.width()),
        };
        if group.separator.is_none() && unordered.separator.is_some() {
            group.max = Some(1.min(group.max.unwrap_or(1)));
        }
        let all = id(group.members.len());
        group.max = group.max.filter(|max| group.others.is_some() || *max < all);
        Ok(group)
    }

    /// `body` written out, from state 0 to state 1. `None` if it takes more than `limit` states or edges.
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
                // Without a text. Where it is repeated, it may still be left out altogether.
                if let Expr::Repeat { min: 0, .. } = self.grammar.expr(expr) {
                    draft.empty[from].push(id(to));
                }
                continue;
            }
            match self.grammar.expr(expr) {
                Expr::Empty => draft.empty[from].push(id(to)),
                Expr::Terminal(terminal) => {
                    let symbol = Symbol::Terminal(self.names[terminal.index()]);
                    draft.edges[from].push((symbol, id(to)));
                    if self.nullable[expr.index()] {
                        draft.empty[from].push(id(to));
                    }
                }
                Expr::Rule(RuleId(symbol)) => {
                    draft.edges[from].push((Symbol::Rule(symbol), id(to)));
                    if self.nullable[expr.index()] {
                        draft.empty[from].push(id(to));
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
                        draft.empty[from].push(id(to));
                        continue;
                    }
                    // Each copy is an entry of `open` and costs at least one step.
                    let copies = max.unwrap_or(min) as usize;
                    if copies > limit - spent {
                        return None;
                    }
                    let mut at = from;
                    for copy in 0..copies {
                        if copy >= min as usize {
                            draft.empty[at].push(id(to));
                        }
                        let next = draft.state();
                        open.push((item, at, next));
                        at = next;
                    }
                    if max.is_none() {
                        let turn = draft.state();
                        draft.empty[at].push(id(turn));
                        open.push((item, turn, turn));
                        at = turn;
                    }
                    draft.empty[at].push(id(to));
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

    /// The states that empty edges lead to from `states`, which are among them; in ascending order.
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

    /// The same without empty edges: by sets of states where they are few, else state by state. `None` if it takes more
    /// than `limit` states and edges.
    fn determined(&self, limit: usize) -> Option<Network> {
        let sets = self.edges.len() + 16;
        self.by_sets(sets.min(limit), limit).or_else(|| self.by_states(limit))
    }

    fn by_sets(&self, most: usize, limit: usize) -> Option<Network> {
        let mut seen = vec![false; self.edges.len()];
        let start = self.closure([0], &mut seen);
        let mut ids: HashMap<Vec<u32>, u32> = HashMap::from([(start.clone(), 0)]);
        let mut sets = vec![start];
        let mut network = Network::default();
        let mut spent = 0;
        while let Some(set) = sets.get(network.states.len()).cloned() {
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
                let next = id(sets.len());
                let target = *ids.entry(target).or_insert_with_key(|set| {
                    sets.push(set.clone());
                    next
                });
                merged.push((group[0].0, target));
            }
            if sets.len() > most || spent > limit {
                return None;
            }
            network.states.push(State { accepting: set.contains(&1), edges: merged });
        }
        Some(network)
    }

    fn by_states(&self, limit: usize) -> Option<Network> {
        let mut seen = vec![false; self.edges.len()];
        let mut ids = vec![NONE; self.edges.len()];
        ids[0] = 0;
        let mut states = vec![0u32];
        let mut network = Network::default();
        let mut spent = 0;
        while let Some(state) = states.get(network.states.len()).copied() {
            let closure = self.closure([state], &mut seen);
            let mut edges: SmallVec<[(Symbol, u32); 2]> =
                closure.iter().flat_map(|state| &self.edges[*state as usize]).copied().collect();
            spent += closure.len() + edges.len();
            if spent > limit {
                return None;
            }
            for (_, to) in &mut edges {
                let new = &mut ids[*to as usize];
                if *new == NONE {
                    *new = id(states.len());
                    states.push(*to);
                }
                *to = *new;
            }
            edges.sort_unstable();
            edges.dedup();
            network.states.push(State { accepting: closure.contains(&1), edges });
        }
        Some(network)
    }
}

impl Network {
    /// With equal states as one, as far as that shows from the ends: the places behind `x` and behind `, x` in a list are
    /// one afterwards. Not minimal where loops are equal only as wholes.
    fn merged(self) -> Self {
        /// What one round leaves, the next may find; targets mostly have higher numbers, so two do nearly always.
        const ROUNDS: usize = 4;
        let mut same: Vec<u32> = (0..id(self.states.len())).collect();
        for _ in 0..ROUNDS {
            let mut ids: HashMap<State, u32> = HashMap::new();
            ids.reserve(self.states.len());
            let mut changed = false;
            for (at, state) in self.states.iter().enumerate().rev() {
                if same[at] != id(at) {
                    continue;
                }
                let found = *ids.entry(state.renamed(&same)).or_insert(id(at));
                changed |= found != id(at);
                same[at] = found;
            }
            // What led to a state that is now another leads there too.
            for at in 0..same.len() {
                while same[same[at] as usize] != same[at] {
                    same[at] = same[same[at] as usize];
                }
            }
            if !changed {
                break;
            }
        }
        // The start keeps its place: it comes first among those that are reached from it.
        let mut new = vec![NONE; same.len()];
        let mut kept = vec![same[0]];
        new[same[0] as usize] = 0;
        let mut states: Vec<State> = Vec::new();
        while let Some(at) = kept.get(states.len()).copied() {
            let mut state = self.states[at as usize].renamed(&same);
            for (_, to) in &mut state.edges {
                let number = &mut new[*to as usize];
                if *number == NONE {
                    *number = id(kept.len());
                    kept.push(*to);
                }
                *to = *number;
            }
            state.edges.sort_unstable();
            states.push(state);
        }
        Self { states }
    }
}

impl State {
    /// Whether no symbol leads to two places. The edges ascend afterwards.
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

fn id(index: usize) -> u32 {
    u32::try_from(index).expect("limited")
}
