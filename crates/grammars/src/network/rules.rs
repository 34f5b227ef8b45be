//! The automata of all rules, as tables: the network that the parser walks.
//!
//! A **position** is a state of the automaton of a rule; [`automaton`](super::automaton) builds these automata. From
//! every position some text leads to the end of its rule: alternatives that have no text are left out, and so are
//! rules that the start does not reach.

use super::{
    automaton::{Builder, RuleAutomaton, Symbol},
    unordered::{UnorderedGroup, is_of_group},
};
use crate::{
    GrammarError, GrammarLimits,
    grammar::{
        analysis::no_text,
        data::{Expr, Grammar, RuleId, Terminal},
        fixpoint::productive_and_nullable,
    },
    ids::{Id, id, number},
};

id! {
    /// A state of the automaton of a rule, a position of a [group](crate::network::unordered), or a placeholder.
    Position
}

/// The position after the whole output, where it may end. It belongs to no rule and has no edges.
pub(crate) const END: Position = Position::of(0);

/// The automata of all rules that the start reaches.
#[derive(Debug)]
pub(crate) struct Rules {
    /// By rule: its first position, if the start reaches the rule.
    starts: Vec<Option<Position>>,
    /// By position: whether the rule may end here.
    accepting: Vec<bool>,
    terminals: Edges,
    calls: Edges,
    /// By rule: its rank in an order in which a rule comes after those that may begin with it. Rules that may begin
    /// with each other have the same rank.
    pub(crate) order: Vec<u32>,
    /// Rules whose members come in any order; they have [positions of their own](super::unordered).
    pub(crate) groups: Vec<UnorderedGroup>,
    /// By rule: whether it is a scope of [keys](crate::unique::keys).
    scopes: Vec<bool>,
    /// By terminal: whether its texts are keys.
    distinct: Vec<bool>,
    /// The first of the [placeholders](crate::parser::truncation), which come last.
    placeholders: Position,
}

/// By position: pairs of a symbol and the position after it, in ascending order.
#[derive(Debug)]
struct Edges {
    first: Vec<u32>,
    edges: Vec<(u32, Position)>,
}

impl Edges {
    fn of(&self, position: Position) -> &[(u32, Position)] {
        let at = position.index();
        &self.edges[self.first[at] as usize..self.first[at + 1] as usize]
    }
}

impl Rules {
    /// The automata of `grammar`. `numbering` has the number of each terminal.
    ///
    /// # Errors
    ///
    /// [`GrammarError::Empty`], [`GrammarError::TooManyPositions`] and [`GrammarError::EmptyMember`].
    pub(crate) fn new(
        grammar: &Grammar,
        numbering: &[u32],
        limits: &GrammarLimits,
    ) -> Result<Self, GrammarError> {
        let (productive, nullable) = productive_and_nullable(grammar);
        if !productive[grammar.body(grammar.start()).index()] {
            return Err(GrammarError::Empty { reason: no_text(grammar, &productive) });
        }
        let mut rules = Self {
            starts: vec![None; grammar.rules().len()],
            accepting: vec![false],
            terminals: Edges { first: vec![0, 0], edges: Vec::new() },
            calls: Edges { first: vec![0, 0], edges: Vec::new() },
            order: Vec::new(),
            groups: Vec::new(),
            scopes: grammar.rules().map(|rule| grammar.is_scope(rule)).collect(),
            distinct: vec![false; numbering.len()],
            placeholders: END,
        };
        for terminal in grammar.terminals() {
            let is_distinct = matches!(grammar.terminal(terminal), Terminal::Distinct(_));
            rules.distinct[numbering[terminal.index()] as usize] = is_distinct;
        }
        let mut builder = Builder::new(grammar, numbering, limits, productive, nullable);
        let mut open = vec![grammar.start()];
        let mut at = 0;
        rules.starts[grammar.start().index()] = Some(END);
        while let Some(rule) = open.get(at).copied() {
            if let Expr::Unordered(unordered) = grammar.expr(grammar.body(rule)) {
                let group = builder.group(unordered, rules.groups.last())?;
                rules.starts[rule.index()] = Some(group.start());
                let callees = group.members.iter().map(|(member, _)| *member);
                let callees: Vec<u32> = callees.chain(group.others).chain(group.separator).collect();
                rules.groups.push(group);
                callees.into_iter().for_each(|callee| rules.reach(callee, &mut open));
            } else {
                let automaton = builder.rule(rule)?;
                let base = rules.add(rule, &automaton);
                for position in (base..).take(automaton.states.len()).map(Position::of) {
                    for edge in 0..rules.calls.of(position).len() {
                        let (callee, _) = rules.calls.of(position)[edge];
                        rules.reach(callee, &mut open);
                    }
                }
            }
            at += 1;
        }
        rules.add_placeholders();
        let recursive;
        (rules.order, recursive) = rules.left_order();
        match grammar.rules().find(|rule| grammar.is_scope(*rule) && recursive[rule.index()]) {
            Some(rule) => Err(GrammarError::RecursiveScope { rule: grammar.rule_name(rule).to_owned() }),
            None => Ok(rules),
        }
    }

    /// The number of placeholders.
    pub(crate) const PLACEHOLDERS: u32 = 64;

    fn add_placeholders(&mut self) {
        let len = self.accepting.len();
        self.placeholders = Position::from_index(len);
        self.accepting.resize(len + Self::PLACEHOLDERS as usize, false);
        for edges in [&mut self.terminals, &mut self.calls] {
            edges.first.resize(edges.first.len() + Self::PLACEHOLDERS as usize, number(edges.edges.len()));
        }
    }

    /// The position of a placeholder. It has no edges, and no rule ends there.
    pub(crate) fn placeholder(&self, placeholder: u32) -> Position {
        Position::of(self.placeholders.raw() + placeholder)
    }

    /// The placeholder of a position, if it is one.
    #[inline]
    pub(crate) fn placeholder_of(&self, position: Position) -> Option<u32> {
        position
            .raw()
            .checked_sub(self.placeholders.raw())
            .filter(|placeholder| *placeholder < Self::PLACEHOLDERS)
    }

    /// Marks `callee` as reached; `open` are the rules to be built.
    fn reach(&mut self, callee: u32, open: &mut Vec<RuleId>) {
        let start = &mut self.starts[callee as usize];
        if start.is_none() {
            // Any position marks the rule as seen until it is built.
            *start = Some(END);
            open.push(RuleId(callee));
        }
    }

    /// Whether `rule` is a scope of keys.
    #[inline]
    pub(crate) fn is_scope(&self, rule: u32) -> bool {
        self.scopes[rule as usize]
    }

    /// Whether texts of `terminal` are keys.
    #[inline]
    pub(crate) fn is_distinct(&self, terminal: u32) -> bool {
        self.distinct[terminal as usize]
    }

    /// The number of positions, without those of groups and placeholders.
    pub(crate) fn len(&self) -> usize {
        self.placeholders.index()
    }

    /// The rules that the start reaches and their first positions, without rules whose members come in any order.
    pub(crate) fn built(&self) -> impl Iterator<Item = (u32, Position)> {
        let starts = (0u32..).zip(self.starts.iter().copied());
        starts.filter_map(|(rule, start)| Some((rule, start?))).filter(|(_, start)| !is_of_group(*start))
    }

    /// The number of rules, reached or not.
    pub(crate) fn all(&self) -> usize {
        self.starts.len()
    }

    /// The first position of a rule that the start reaches.
    #[inline]
    pub(crate) fn start(&self, rule: u32) -> Position {
        self.starts[rule as usize].expect("the rule is reached")
    }

    /// Whether the start reaches the rule.
    pub(crate) fn is_reached(&self, rule: u32) -> bool {
        self.starts[rule as usize].is_some()
    }

    #[inline]
    pub(crate) fn is_accepting(&self, position: Position) -> bool {
        self.accepting[position.index()]
    }

    /// Terminals and the positions after them.
    #[inline]
    pub(crate) fn terminals(&self, position: Position) -> &[(u32, Position)] {
        self.terminals.of(position)
    }

    /// Called rules and the positions after the calls.
    #[inline]
    pub(crate) fn calls(&self, position: Position) -> &[(u32, Position)] {
        self.calls.of(position)
    }

    /// Whether the rule ends here and has no edges.
    #[inline]
    pub(crate) fn is_final(&self, position: Position) -> bool {
        self.is_accepting(position) && self.terminals(position).is_empty() && self.calls(position).is_empty()
    }

    /// By terminal, of which there are `len`: whether some reached rule reads it.
    pub(crate) fn used_terminals(&self, len: usize) -> Vec<bool> {
        let mut used = vec![false; len];
        self.terminals.edges.iter().for_each(|(terminal, _)| used[*terminal as usize] = true);
        used
    }

    /// Adds the numbers that define all rules without members in any order.
    pub(crate) fn spell(&self, spelled: &mut Vec<u32>) {
        spelled.push(number(self.starts.len()));
        spelled.extend(self.starts.iter().map(|start| start.map_or(u32::MAX, Id::raw)));
        for position in (0..number(self.len())).map(Position::of) {
            spelled.push(u32::from(self.is_accepting(position)));
            for edges in [self.terminals(position), self.calls(position)] {
                spelled.push(number(edges.len()));
                spelled.extend(edges.iter().flat_map(|(symbol, to)| [*symbol, to.raw()]));
            }
        }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let numbers = [&self.order, &self.terminals.first, &self.calls.first];
        let edges = [&self.terminals.edges, &self.calls.edges];
        let members = self.groups.iter().map(|group| group.members.capacity() * size_of::<(u32, bool)>());
        numbers.iter().map(|numbers| numbers.capacity() * size_of::<u32>()).sum::<usize>()
            + self.starts.capacity() * size_of::<Option<Position>>()
            + edges.iter().map(|edges| edges.capacity() * size_of::<(u32, Position)>()).sum::<usize>()
            + [&self.accepting, &self.scopes, &self.distinct]
                .iter()
                .map(|bits| bits.capacity())
                .sum::<usize>()
            + self.groups.capacity() * size_of::<UnorderedGroup>()
            + members.sum::<usize>()
    }

    /// Adds the positions of a rule, and answers the number of the first one.
    fn add(&mut self, rule: RuleId, automaton: &RuleAutomaton) -> u32 {
        let base = number(self.accepting.len());
        self.starts[rule.index()] = Some(Position::of(base));
        for state in &automaton.states {
            self.accepting.push(state.accepting);
            for (symbol, to) in &state.edges {
                match symbol {
                    Symbol::Terminal(terminal) => {
                        self.terminals.edges.push((*terminal, Position::of(base + to)));
                    }
                    Symbol::Rule(callee) => self.calls.edges.push((*callee, Position::of(base + to))),
                }
            }
            self.terminals.first.push(number(self.terminals.edges.len()));
            self.calls.first.push(number(self.calls.edges.len()));
        }
        base
    }

    /// The [`order`](Self::order); and by rule, whether it may begin with itself.
    fn left_order(&self) -> (Vec<u32>, Vec<bool>) {
        let mut graph = petgraph::graph::DiGraph::<(), ()>::with_capacity(self.starts.len(), 0);
        let nodes: Vec<_> = self.starts.iter().map(|_| graph.add_node(())).collect();
        for (rule, start) in
            self.starts.iter().enumerate().filter_map(|(rule, start)| Some((rule, (*start)?)))
        {
            let mut add = |callee: u32| graph.add_edge(nodes[rule], nodes[callee as usize], ());
            if is_of_group(start) {
                let group =
                    self.groups.binary_search_by_key(&start, UnorderedGroup::start).expect("it was built");
                let group = &self.groups[group];
                group.members.iter().map(|(member, _)| *member).chain(group.others).for_each(|callee| {
                    add(callee);
                });
            } else {
                for (callee, _) in self.calls(start) {
                    add(*callee);
                }
            }
        }
        // Kosaraju's algorithm does not recurse. It yields called rules before their callers.
        let components = petgraph::algo::kosaraju_scc(&graph);
        let mut order = vec![0; self.starts.len()];
        let mut recursive = vec![false; self.starts.len()];
        for (rank, component) in components.iter().rev().enumerate() {
            for node in component {
                order[node.index()] = number(rank);
                recursive[node.index()] = component.len() > 1 || graph.contains_edge(*node, *node);
            }
        }
        (order, recursive)
    }
}
