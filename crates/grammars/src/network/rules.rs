//! The automata of all rules, as tables: the network that the parser walks.
//!
//! A **position** is a state of the automaton of a rule; [`automaton`](super::automaton) builds these automata. From
//! every position some text leads to the end of its rule: alternatives that have no text are left out, and so are
//! rules that the start does not reach.

use unskew_grammar::{
    Expr, Grammar, GrammarError, GrammarLimits, RuleId, Terminal,
    kit::{fixpoint::productive_and_nullable, no_text},
};

use super::{
    automaton::{Builder, RuleAutomaton, Symbol},
    terminals::{Numbering, ScanTerminal},
    unordered::{GroupId, UnorderedGroup, is_of_group},
};
use crate::ids::{Id, Table, id, number};

id! {
    /// A state of the automaton of a rule, a position of a [group](crate::network::unordered), or a placeholder.
    Position
}

id! {
    /// The number of a [placeholder](crate::parser::truncation).
    Placeholder
}

/// The position after the whole output, where it may end. It belongs to no rule and has no edges.
pub(crate) const END: Position = Position::of(0);

/// The automata of all rules that the start reaches.
#[derive(Debug)]
pub(crate) struct Rules {
    /// By rule: its first position, if the start reaches the rule.
    starts: Table<RuleId, Option<Position>>,
    /// By position: whether the rule may end here.
    accepting: Table<Position, bool>,
    terminals: Edges<ScanTerminal>,
    calls: Edges<RuleId>,
    /// By rule: its rank in an order in which a rule comes after those that may begin with it. Rules that may begin
    /// with each other have the same rank.
    pub(crate) order: Table<RuleId, u32>,
    /// Rules whose members come in any order; they have [positions of their own](super::unordered).
    pub(crate) groups: Table<GroupId, UnorderedGroup>,
    /// By rule: whether it is a scope of [keys](crate::unique::keys).
    scopes: Table<RuleId, bool>,
    /// By terminal: whether its texts are keys.
    distinct: Table<ScanTerminal, bool>,
    /// By rule: whether every text begins with a literal, which the rule reads itself.
    begins_with_literals: Table<RuleId, bool>,
    /// The first of the [placeholders](crate::parser::truncation), which come last.
    placeholders: Position,
}

/// By position: pairs of a symbol and the position after it, in ascending order.
#[derive(Debug)]
struct Edges<S> {
    first: Vec<u32>,
    edges: Vec<(S, Position)>,
}

impl<S> Edges<S> {
    /// The edges of no position.
    fn none() -> Self {
        Self { first: vec![0], edges: Vec::new() }
    }

    fn of(&self, position: Position) -> &[(S, Position)] {
        let at = position.index();
        &self.edges[self.first[at] as usize..self.first[at + 1] as usize]
    }

    /// Ends the edges of `positions` positions: of the next one, and of more that have none.
    fn end(&mut self, positions: usize) {
        self.first.resize(self.first.len() + positions, number(self.edges.len()));
    }

    fn memory_usage(&self) -> usize {
        self.first.capacity() * size_of::<u32>() + self.edges.capacity() * size_of::<(S, Position)>()
    }
}

impl Rules {
    /// The automata of `grammar`. `numbering` has the scanned terminal of each terminal.
    ///
    /// # Errors
    ///
    /// [`GrammarError::Empty`], [`GrammarError::TooManyPositions`] and [`GrammarError::EmptyMember`].
    pub(crate) fn new(
        grammar: &Grammar,
        numbering: &Numbering,
        limits: &GrammarLimits,
    ) -> Result<Self, GrammarError> {
        let (productive, nullable) = productive_and_nullable(grammar);
        if !productive[grammar.body(grammar.start()).index()] {
            return Err(GrammarError::Empty { reason: no_text(grammar, &productive) });
        }
        let mut rules = Self {
            starts: Table::filled(None, grammar.rules().len()),
            accepting: Table::filled(false, 1),
            terminals: Edges::none(),
            calls: Edges::none(),
            order: Table::default(),
            groups: Table::default(),
            scopes: grammar.rules().map(|rule| grammar.is_scope(rule)).collect(),
            distinct: Table::filled(false, numbering.len()),
            begins_with_literals: Table::default(),
            placeholders: END,
        };
        rules.end(1);
        let mut is_literal = Table::filled(false, numbering.len());
        for terminal in grammar.terminals() {
            let (text, at) = (grammar.terminal(terminal), numbering[terminal]);
            rules.distinct[at] = matches!(text, Terminal::Distinct(_));
            is_literal[at] = matches!(text, Terminal::Literal(_));
        }
        let mut builder = Builder::new(grammar, numbering, limits, productive, nullable);
        let mut open = vec![grammar.start()];
        let mut at = 0;
        rules.starts[grammar.start()] = Some(END);
        while let Some(rule) = open.get(at).copied() {
            if let Expr::Unordered(unordered) = grammar.expr(grammar.body(rule)) {
                let group = builder.group(unordered, rules.groups.entries().last())?;
                rules.starts[rule] = Some(group.start());
                let callees = group.members.iter().map(|(member, _)| *member);
                let callees: Vec<RuleId> = callees.chain(group.others).chain(group.separator).collect();
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
        rules.begins_with_literals =
            rules.starts.entries().iter().map(|start| rules.reads_literals(*start, &is_literal)).collect();
        rules.add_placeholders();
        let recursive;
        (rules.order, recursive) = rules.left_order();
        match grammar.rules().find(|rule| grammar.is_scope(*rule) && recursive[*rule]) {
            Some(rule) => Err(GrammarError::RecursiveScope { rule: grammar.rule_name(rule).to_owned() }),
            None => Ok(rules),
        }
    }

    /// The number of placeholders.
    pub(crate) const PLACEHOLDERS: u32 = 64;

    fn add_placeholders(&mut self) {
        let len = self.accepting.len();
        self.placeholders = Position::from_index(len);
        (0..Self::PLACEHOLDERS).for_each(|_| {
            self.accepting.push(false);
        });
        self.end(Self::PLACEHOLDERS as usize);
    }

    fn end(&mut self, positions: usize) {
        self.terminals.end(positions);
        self.calls.end(positions);
    }

    /// The position of a placeholder. It has no edges, and no rule ends there.
    pub(crate) fn placeholder(&self, placeholder: Placeholder) -> Position {
        Position::of(self.placeholders.raw() + placeholder.raw())
    }

    /// The placeholder of a position, if it is one.
    #[inline]
    pub(crate) fn placeholder_of(&self, position: Position) -> Option<Placeholder> {
        position
            .raw()
            .checked_sub(self.placeholders.raw())
            .filter(|placeholder| *placeholder < Self::PLACEHOLDERS)
            .map(Placeholder::of)
    }

    /// Marks `callee` as reached; `open` are the rules to be built.
    fn reach(&mut self, callee: RuleId, open: &mut Vec<RuleId>) {
        let start = &mut self.starts[callee];
        if start.is_none() {
            // Any position marks the rule as seen until it is built.
            *start = Some(END);
            open.push(callee);
        }
    }

    /// Whether `rule` is a scope of keys.
    #[inline]
    pub(crate) fn is_scope(&self, rule: RuleId) -> bool {
        self.scopes[rule]
    }

    /// Whether texts of `terminal` are keys.
    #[inline]
    pub(crate) fn is_distinct(&self, terminal: ScanTerminal) -> bool {
        self.distinct[terminal]
    }

    /// The number of positions, without those of groups and placeholders.
    pub(crate) fn len(&self) -> usize {
        self.placeholders.index()
    }

    /// The rules that the start reaches and their first positions, without rules whose members come in any order.
    pub(crate) fn built(&self) -> impl Iterator<Item = (RuleId, Position)> {
        let starts = self.starts.iter();
        starts.filter_map(|(rule, start)| Some((rule, (*start)?))).filter(|(_, start)| !is_of_group(*start))
    }

    /// The number of rules, reached or not.
    pub(crate) fn all(&self) -> usize {
        self.starts.len()
    }

    /// The first position of a rule that the start reaches.
    #[inline]
    pub(crate) fn start(&self, rule: RuleId) -> Position {
        self.starts[rule].expect("the rule is reached")
    }

    #[inline]
    pub(crate) fn is_accepting(&self, position: Position) -> bool {
        self.accepting[position]
    }

    /// Whether every text of the rule begins with a literal, which the rule reads itself.
    #[inline]
    pub(crate) fn begins_with_literals(&self, rule: RuleId) -> bool {
        self.begins_with_literals[rule]
    }

    /// Whether literals alone are read at the start of a rule.
    fn reads_literals(&self, start: Option<Position>, is_literal: &Table<ScanTerminal, bool>) -> bool {
        start.filter(|start| !is_of_group(*start)).is_some_and(|start| {
            !self.is_accepting(start)
                && self.calls(start).is_empty()
                && self.terminals(start).iter().all(|(terminal, _)| is_literal[*terminal])
        })
    }

    /// Terminals and the positions after them.
    #[inline]
    pub(crate) fn terminals(&self, position: Position) -> &[(ScanTerminal, Position)] {
        self.terminals.of(position)
    }

    /// Called rules and the positions after the calls.
    #[inline]
    pub(crate) fn calls(&self, position: Position) -> &[(RuleId, Position)] {
        self.calls.of(position)
    }

    /// Whether the rule ends here and has no edges.
    #[inline]
    pub(crate) fn is_final(&self, position: Position) -> bool {
        self.is_accepting(position) && self.terminals(position).is_empty() && self.calls(position).is_empty()
    }

    /// By terminal, of which there are `len`: whether some reached rule reads it.
    pub(crate) fn used_terminals(&self, len: usize) -> Table<ScanTerminal, bool> {
        let mut used = Table::filled(false, len);
        self.terminals.edges.iter().for_each(|(terminal, _)| used[*terminal] = true);
        used
    }

    /// Adds the numbers that define all rules without members in any order.
    pub(crate) fn spell(&self, spelled: &mut Vec<u32>) {
        spelled.push(number(self.starts.len()));
        spelled.extend(self.starts.entries().iter().map(|start| start.map_or(u32::MAX, Id::raw)));
        for position in (0..number(self.len())).map(Position::of) {
            spelled.push(u32::from(self.is_accepting(position)));
            spell_edges(self.terminals(position), spelled);
            spell_edges(self.calls(position), spelled);
        }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let members = self.groups.entries().iter().map(UnorderedGroup::memory_usage);
        self.starts.memory_usage()
            + self.accepting.memory_usage()
            + self.terminals.memory_usage()
            + self.calls.memory_usage()
            + self.order.memory_usage()
            + self.scopes.memory_usage()
            + self.distinct.memory_usage()
            + self.begins_with_literals.memory_usage()
            + self.groups.memory_usage()
            + members.sum::<usize>()
    }

    /// Adds the positions of a rule, and answers the number of the first one.
    fn add(&mut self, rule: RuleId, automaton: &RuleAutomaton) -> u32 {
        let base = number(self.accepting.len());
        self.starts[rule] = Some(Position::of(base));
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
            self.end(1);
        }
        base
    }

    /// The [`order`](Self::order); and by rule, whether it may begin with itself.
    fn left_order(&self) -> (Table<RuleId, u32>, Table<RuleId, bool>) {
        let mut graph = petgraph::graph::DiGraph::<(), ()>::with_capacity(self.starts.len(), 0);
        let nodes: Table<RuleId, _> = self.starts.iter().map(|_| graph.add_node(())).collect();
        for (rule, start) in self.starts.iter().filter_map(|(rule, start)| Some((rule, (*start)?))) {
            let mut add = |callee: RuleId| graph.add_edge(nodes[rule], nodes[callee], ());
            if is_of_group(start) {
                let groups = self.groups.entries();
                let group = groups.binary_search_by_key(&start, UnorderedGroup::start).expect("it was built");
                let group = &groups[group];
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
        let mut order = Table::filled(0, self.starts.len());
        let mut recursive = Table::filled(false, self.starts.len());
        for (rank, component) in components.iter().rev().enumerate() {
            for node in component {
                // Nodes were added in the order of rules.
                let rule = RuleId::from_index(node.index());
                order[rule] = number(rank);
                recursive[rule] = component.len() > 1 || graph.contains_edge(*node, *node);
            }
        }
        (order, recursive)
    }
}

/// Adds the number of `edges`, and each edge.
fn spell_edges<S: Id>(edges: &[(S, Position)], spelled: &mut Vec<u32>) {
    spelled.push(number(edges.len()));
    spelled.extend(edges.iter().flat_map(|(symbol, to)| [symbol.raw(), to.raw()]));
}
