//! Writes rules out into one nondeterministic automaton over terminals, and has facts about the rules that
//! are not written out.
//!
//! A right-recursive call becomes an edge to the entry of the rule, and a left-recursive call an edge from
//! its exit, so recursive lists become loops. A call in the middle cannot be written out.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap, HashSet},
    rc::Rc,
};

use unskew_core::{id, ids::Table};
use unskew_grammar::{
    Expr, ExprId, Grammar, RuleId, Terminal, TerminalId,
    kit::{fixpoint::containing, near::Begins, terminal::reading::first_bytes},
};
use unskew_trie::ByteSet;

use super::Lazy;

/// The symbol of an edge of a net.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Symbol {
    Terminal(TerminalId),
    /// A terminal that ends at its first possible end.
    Lazy(TerminalId),
    /// A rule that is not written out.
    Rule(RuleId),
}

impl Symbol {
    /// The terminal, lazy or not.
    pub(super) fn terminal(self) -> Option<TerminalId> {
        match self {
            Self::Terminal(terminal) | Self::Lazy(terminal) => Some(terminal),
            Self::Rule(_) => None,
        }
    }

    pub(super) fn lazy(self) -> Option<TerminalId> {
        if let Self::Lazy(terminal) = self { Some(terminal) } else { None }
    }
}

/// The terminals that are possible at a position.
#[derive(Default, Debug)]
pub(super) struct Leaves {
    pub(super) leaves: HashSet<Symbol>,
    /// Their first bytes.
    pub(super) bytes: ByteSet,
    /// The first bytes of the lazy terminals among them.
    pub(super) lazy_bytes: ByteSet,
}

impl Leaves {
    pub(super) fn add(&mut self, other: &Self) {
        self.leaves.extend(&other.leaves);
        self.bytes.union(&other.bytes);
        self.lazy_bytes.union(&other.lazy_bytes);
    }
}

/// Facts about the rules of a grammar.
pub(super) struct Facts<'g> {
    pub(super) grammar: &'g Grammar,
    lazy: &'g Lazy,
    /// By expression.
    productive: Vec<bool>,
    nullable: Vec<bool>,
    /// By rule: a lazy terminal in the rule, or in a rule that it calls.
    some_lazy: Vec<Option<TerminalId>>,
    /// By rule: whether the rule, or one that it calls, has members in any order or keys. No automaton over terminals
    /// has its language.
    is_opaque: Vec<bool>,
    begins: RefCell<HashMap<RuleId, Rc<Leaves>>>,
}

impl<'g> Facts<'g> {
    pub(super) fn new(
        grammar: &'g Grammar,
        lazy: &'g Lazy,
        productive: Vec<bool>,
        nullable: Vec<bool>,
    ) -> Self {
        let mut facts = Self {
            grammar,
            lazy,
            productive,
            nullable,
            some_lazy: vec![None; grammar.rules().len()],
            is_opaque: vec![false; grammar.rules().len()],
            begins: RefCell::default(),
        };
        let mut callers: Vec<Vec<RuleId>> = vec![Vec::new(); grammar.rules().len()];
        let mut open: Vec<RuleId> = Vec::new();
        for rule in grammar.rules() {
            let mut exprs = vec![grammar.body(rule)];
            let mut seen: HashSet<ExprId> = HashSet::new();
            while let Some(expr) = exprs.pop() {
                if !facts.productive[expr.index()] || !seen.insert(expr) {
                    continue;
                }
                match grammar.expr(expr) {
                    Expr::Terminal(terminal) if lazy.contains_key(&expr) => {
                        facts.some_lazy[rule.index()].get_or_insert(terminal);
                    }
                    Expr::Rule(callee) => callers[callee.index()].push(rule),
                    Expr::Unordered(group) => {
                        facts.is_opaque[rule.index()] = true;
                        group.rules().for_each(|callee| callers[callee.index()].push(rule));
                    }
                    Expr::Terminal(terminal)
                        if matches!(grammar.terminal(terminal), Terminal::Distinct(_)) =>
                    {
                        facts.is_opaque[rule.index()] = true;
                    }
                    whole => exprs.extend_from_slice(parts(&whole)),
                }
            }
            if facts.some_lazy[rule.index()].is_some() {
                open.push(rule);
            }
        }
        let opaque: Vec<RuleId> = grammar.rules().filter(|rule| facts.is_opaque[rule.index()]).collect();
        facts.is_opaque = containing(&callers, opaque);
        while let Some(rule) = open.pop() {
            for caller in &callers[rule.index()] {
                if facts.some_lazy[caller.index()].is_none() {
                    facts.some_lazy[caller.index()] = facts.some_lazy[rule.index()];
                    open.push(*caller);
                }
            }
        }
        facts
    }

    /// Whether `rule`, or a rule that it calls, contains a lazy terminal.
    pub(super) fn has_lazy(&self, rule: RuleId) -> bool {
        self.some_lazy[rule.index()].is_some()
    }

    /// Whether `rule` cannot be written out.
    pub(super) fn is_opaque(&self, rule: RuleId) -> bool {
        self.is_opaque[rule.index()]
    }

    pub(super) fn some_lazy(&self, rule: RuleId) -> Option<TerminalId> {
        self.some_lazy[rule.index()]
    }

    pub(super) fn is_nullable(&self, rule: RuleId) -> bool {
        self.nullable[self.grammar.body(rule).index()]
    }

    pub(super) fn first_bytes(&self, terminal: TerminalId) -> ByteSet {
        first_bytes(self.grammar.terminal(terminal))
    }

    /// The FIRST set of `symbol`.
    pub(super) fn leaves(&self, symbol: Symbol) -> Rc<Leaves> {
        let (terminal, is_lazy) = match symbol {
            Symbol::Rule(rule) => return self.begin(rule),
            Symbol::Terminal(terminal) => (terminal, false),
            Symbol::Lazy(terminal) => (terminal, true),
        };
        let bytes = self.first_bytes(terminal);
        let lazy_bytes = if is_lazy { bytes } else { ByteSet::default() };
        Rc::new(Leaves { leaves: [symbol].into(), bytes, lazy_bytes })
    }

    /// The FIRST set of `rule`.
    pub(super) fn begin(&self, rule: RuleId) -> Rc<Leaves> {
        if let Some(known) = self.begins.borrow().get(&rule) {
            return Rc::clone(known);
        }
        let mut leaves = Leaves::default();
        let begins = Begins { grammar: self.grammar, productive: &self.productive, nullable: &self.nullable };
        let (mut open, mut groups) = (vec![self.grammar.body(rule)], HashSet::new());
        while let Some(expr) = open.pop() {
            for leaf in begins.leaves([expr]).0 {
                match self.grammar.expr(leaf) {
                    Expr::Terminal(terminal) => {
                        let bytes = self.first_bytes(terminal);
                        leaves.bytes.union(&bytes);
                        if self.lazy.contains_key(&leaf) {
                            leaves.lazy_bytes.union(&bytes);
                            leaves.leaves.insert(Symbol::Lazy(terminal));
                        } else {
                            leaves.leaves.insert(Symbol::Terminal(terminal));
                        }
                    }
                    Expr::Unordered(group) if groups.insert(leaf) => {
                        open.extend(group.rules().map(|rule| self.grammar.body(rule)));
                    }
                    _ => {}
                }
            }
        }
        let leaves = Rc::new(leaves);
        self.begins.borrow_mut().insert(rule, Rc::clone(&leaves));
        leaves
    }
}

/// The parts of an expression.
fn parts<'e>(expr: &'e Expr<'_>) -> &'e [ExprId] {
    match expr {
        Expr::Sequence(parts) | Expr::Choice(parts) => parts,
        Expr::Repeat { item, .. } => std::slice::from_ref(item),
        _ => &[],
    }
}

/// Why a rule was not written out.
pub(super) enum Unbuilt {
    /// This rule calls itself in the middle.
    Recursive(RuleId),
    TooLarge,
}

id! {
    /// A node of a [`Net`].
    NodeId
}

/// A nondeterministic automaton.
pub(super) struct Net {
    /// By node: the targets of its silent edges.
    silent: Table<NodeId, Vec<NodeId>>,
    edges: Table<NodeId, Vec<(Symbol, NodeId)>>,
    /// By node: whether it can reach the end.
    ends: Table<NodeId, bool>,
}

/// A rule that is being written out.
struct Frame {
    rule: RuleId,
    entry: NodeId,
    exit: NodeId,
    /// The node that follows the exit in the calling rule.
    to: NodeId,
    parent: usize,
}

impl Net {
    pub(super) const START: NodeId = NodeId::of(0);
    pub(super) const END: NodeId = NodeId::of(1);

    /// Writes out `rule` and the rules that it calls, except those for which `is_symbol` holds. `limit`
    /// bounds the number of nodes and edges.
    pub(super) fn new(
        facts: &Facts<'_>,
        rule: RuleId,
        is_symbol: impl Fn(RuleId) -> bool,
        limit: usize,
    ) -> Result<Self, Unbuilt> {
        let grammar = facts.grammar;
        let mut net = Self {
            silent: Table::filled(Vec::new(), 2),
            edges: Table::filled(Vec::new(), 2),
            ends: Table::default(),
        };
        let frame = Frame { rule, entry: Self::START, exit: Self::END, to: Self::END, parent: 0 };
        let mut frames = vec![frame];
        let mut tasks = vec![(grammar.body(rule), Self::START, Self::END, 0)];
        let mut work = 0;
        while let Some((expr, from, to, frame)) = tasks.pop() {
            work += 1;
            if work > limit {
                return Err(Unbuilt::TooLarge);
            }
            if !facts.productive[expr.index()] {
                continue;
            }
            match grammar.expr(expr) {
                Expr::Empty => net.silent(from, to),
                Expr::Terminal(terminal) => {
                    if facts.nullable[expr.index()] {
                        net.silent(from, to);
                    }
                    let is_lazy = facts.lazy.contains_key(&expr);
                    let symbol = if is_lazy { Symbol::Lazy(terminal) } else { Symbol::Terminal(terminal) };
                    net.edges[from].push((symbol, to));
                }
                Expr::Rule(callee) if is_symbol(callee) => {
                    if facts.is_nullable(callee) {
                        net.silent(from, to);
                    }
                    net.edges[from].push((Symbol::Rule(callee), to));
                }
                Expr::Rule(callee) => {
                    if let Some(entry) = begins_again(&frames, callee, to, frame) {
                        net.silent(from, entry);
                        continue;
                    }
                    let own = &frames[frame];
                    if own.rule == callee && own.entry == from {
                        net.silent(own.exit, to);
                        continue;
                    }
                    let mut around = frame;
                    loop {
                        if frames[around].rule == callee {
                            return Err(Unbuilt::Recursive(callee));
                        }
                        if around == 0 {
                            break;
                        }
                        around = frames[around].parent;
                    }
                    let (entry, exit) = (net.node(), net.node());
                    net.silent(from, entry);
                    net.silent(exit, to);
                    frames.push(Frame { rule: callee, entry, exit, to, parent: frame });
                    tasks.push((grammar.body(callee), entry, exit, frames.len() - 1));
                }
                Expr::Sequence(parts) => {
                    let mut before = from;
                    for (at, part) in parts.iter().enumerate() {
                        let behind = if at + 1 == parts.len() { to } else { net.node() };
                        tasks.push((*part, before, behind, frame));
                        before = behind;
                    }
                }
                Expr::Choice(parts) => tasks.extend(parts.iter().map(|part| (*part, from, to, frame))),
                Expr::Repeat { item, min: 0, max: Some(1) } => {
                    net.silent(from, to);
                    tasks.push((item, from, to, frame));
                }
                Expr::Repeat { item, min, max } => {
                    let copies = max.unwrap_or(min) as usize;
                    if work + copies > limit {
                        return Err(Unbuilt::TooLarge);
                    }
                    // A fresh node, so that no other edge leads back to the beginning of the repetition.
                    let mut before = net.node();
                    net.silent(from, before);
                    for at in 0..copies {
                        if at >= min as usize {
                            net.silent(before, to);
                        }
                        let behind = net.node();
                        tasks.push((item, before, behind, frame));
                        before = behind;
                    }
                    if max.is_none() {
                        let around = net.node();
                        net.silent(before, around);
                        tasks.push((item, around, around, frame));
                        before = around;
                    }
                    net.silent(before, to);
                }
                // Members in any order and number: more than the group has. Such a net is asked for facts alone.
                Expr::Unordered(group) => {
                    let around = net.node();
                    net.silent(from, around);
                    net.silent(around, to);
                    let edges = group.rules().map(|rule| (Symbol::Rule(rule), around));
                    net.edges[around].extend(edges);
                }
            }
        }
        net.ends = net.ending();
        Ok(net)
    }

    fn node(&mut self) -> NodeId {
        self.silent.push(Vec::new());
        self.edges.push(Vec::new())
    }

    fn silent(&mut self, from: NodeId, to: NodeId) {
        self.silent[from].push(to);
    }

    pub(super) fn len(&self) -> usize {
        self.edges.len()
    }

    /// By node: whether it can reach the end.
    fn ending(&self) -> Table<NodeId, bool> {
        let mut before: Table<NodeId, Vec<NodeId>> = Table::filled(Vec::new(), self.len());
        for ((from, silent), edges) in self.silent.iter().zip(self.edges.entries()) {
            let behind = silent.iter().chain(edges.iter().map(|(_, to)| to));
            behind.for_each(|to| before[*to].push(from));
        }
        containing(before.entries(), [Self::END]).into()
    }

    /// The edges of `node` that can reach the end.
    pub(super) fn edges(&self, node: NodeId) -> impl Iterator<Item = &(Symbol, NodeId)> {
        self.edges[node].iter().filter(|(_, to)| self.ends[*to])
    }

    /// The nodes reachable from `nodes` over silent edges that have edges of their own, and the end.
    pub(super) fn closure(&self, nodes: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
        let mut open: Vec<NodeId> = nodes.into_iter().collect();
        let mut seen: BTreeSet<NodeId> = open.iter().copied().collect();
        while let Some(node) = open.pop() {
            for to in &self.silent[node] {
                if self.ends[*to] && seen.insert(*to) {
                    open.push(*to);
                }
            }
        }
        seen.retain(|node| *node == Self::END || self.edges(*node).next().is_some());
        seen.into_iter().collect()
    }
}

/// The entry of `callee`, if it is being written out and the call is its last part: nothing follows `to` in it.
fn begins_again(frames: &[Frame], callee: RuleId, mut to: NodeId, mut frame: usize) -> Option<NodeId> {
    loop {
        let own = &frames[frame];
        if to != own.exit {
            return None;
        }
        if own.rule == callee {
            return Some(own.entry);
        }
        if frame == 0 {
            return None;
        }
        (to, frame) = (own.to, own.parent);
    }
}
