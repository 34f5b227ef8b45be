//! What can be said of a grammar before it is used: which rules do nothing, which call themselves, and where.
//!
//! Nothing of this is needed to read texts by a grammar: the parser takes every form of recursion, and builds only what can
//! be completed. It is for people who write grammars, and for programs that make them: a rule that can never end is nearly
//! always a mistake, and one that no output uses often is.
//!
//! All of it is linear in the size of the grammar, and nothing recurses. Rules that call each other are the strongly
//! connected components of a graph (Kosaraju's algorithm of `petgraph`, which keeps its own stack; Tarjan's recurses there).

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use petgraph::{algo::kosaraju_scc, graph::DiGraph};

use super::fixpoint::{productive, productive_and_nullable};
use crate::{Expr, ExprId, Grammar, GrammarError, GrammarLimits, Location, RuleId, Terminal, Unordered};

/// How a rule may begin with itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum LeftRecursion {
    /// An alternative begins with the rule.
    Direct,
    /// The rule begins with another that begins with it.
    Indirect,
    /// As either, but only behind a rule or terminal that may be empty. Behind what may be left out (`x?`) it is not hidden.
    Hidden,
}

/// Facts about a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RuleFacts {
    /// Whether some output uses it, or could if all rules ended.
    pub reachable: bool,
    /// Whether it has a text at all.
    pub productive: bool,
    /// Whether the empty text is one of its texts.
    pub nullable: bool,
    /// Whether it contains itself, by way of other rules perhaps.
    pub recursive: bool,
    /// Whether and how it may begin with itself.
    pub left_recursion: Option<LeftRecursion>,
    /// Whether it may stand for itself and nothing else, so that texts have endlessly many readings.
    pub cyclic: bool,
    /// Uses of terminals and rules in its body once repetitions are written out. [`u64::MAX`] stands for any number beyond.
    pub places: u64,
}

/// Something that is probably not meant. The grammar can be used all the same.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The rule in which it is.
    pub rule: RuleId,
    /// The name of the rule.
    pub name: String,
    /// Where the text of the grammar defines the rule, if it comes from a text.
    pub location: Option<Location>,
    /// What it is.
    pub kind: FindingKind,
}

/// What is probably not meant.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FindingKind {
    /// No output uses the rule.
    Unreachable,
    /// The rule has no text: the rules of `cycle` call each other, and none can end without the next.
    NeverEnds {
        /// The names, the first again at the end.
        cycle: Vec<String>,
    },
    /// So many alternatives can never be completed, because they use rules without a text.
    DeadAlternatives {
        /// How many.
        count: usize,
    },
    /// So many alternatives repeat others.
    RepeatedAlternatives {
        /// How many.
        count: usize,
    },
    /// The rule may stand for itself and nothing else.
    Cyclic,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = self.location {
            write!(f, "{location}: ")?;
        }
        write!(f, "the rule `{}`: {}", self.name, self.kind)
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable => f.write_str("no output uses it"),
            Self::NeverEnds { cycle } => write!(f, "it has no text, since {}", never_ends(cycle)),
            Self::DeadAlternatives { count: 1 } => f.write_str("an alternative can never be completed"),
            Self::DeadAlternatives { count } => write!(f, "{count} alternatives can never be completed"),
            Self::RepeatedAlternatives { count: 1 } => f.write_str("an alternative repeats another"),
            Self::RepeatedAlternatives { count } => write!(f, "{count} alternatives repeat others"),
            Self::Cyclic => f.write_str("it may stand for itself alone, which adds readings and no text"),
        }
    }
}

/// Why the rules of `cycle` have no text.
fn never_ends(cycle: &[String]) -> String {
    /// Longer cycles are cut.
    const SHOWN: usize = 6;
    match cycle {
        [only, _] => format!("each alternative of `{only}` needs `{only}` itself"),
        cycle => {
            let shown: Vec<_> = cycle.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
            let more = if cycle.len() > SHOWN { " and so on" } else { "" };
            format!("{}{more}, without end", shown.join(" needs "))
        }
    }
}

/// What can be said of a grammar.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// By rule.
    facts: Vec<RuleFacts>,
    findings: Vec<Finding>,
}

impl Analysis {
    /// The facts about `rule`.
    pub fn rule(&self, rule: RuleId) -> &RuleFacts {
        &self.facts[rule.index()]
    }

    /// What is probably not meant, in the order of the rules.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }
}

impl Grammar {
    /// What can be said of this grammar. O(n) for n expressions and rules, but for sharing: expressions that several rules
    /// use are looked at for each.
    pub fn analysis(&self) -> Analysis {
        Analyser::new(self).run()
    }

    /// The same language without what adds nothing to it: alternatives that cannot be completed, rules and terminals that
    /// no output uses. So some text leads from every place of every rule to its end.
    ///
    /// # Errors
    ///
    /// [`GrammarError::Empty`] if there is no text at all, with the rules that never end.
    ///
    /// # Example
    ///
    /// ```
    /// use unskew_grammars::{Grammar, GrammarLimits};
    ///
    /// let text = r#"
    /// root  ::= "a" | "b" never
    /// never ::= "c" never
    /// other ::= "d"
    /// "#;
    /// let grammar = Grammar::from_gbnf(text, &GrammarLimits::default())?.trimmed()?;
    /// assert_eq!(grammar.rules().map(|rule| grammar.rule_name(rule)).collect::<Vec<_>>(), ["root"]);
    /// assert_eq!(grammar.terminals().len(), 1);
    /// # Ok::<(), unskew_grammars::GrammarError>(())
    /// ```
    pub fn trimmed(&self) -> Result<Self, GrammarError> {
        let productive = productive(self);
        if !productive[self.body(self.start()).index()] {
            return Err(GrammarError::Empty { reason: no_text(self, &productive) });
        }
        let (used_rules, used) = reach(self, |expr| productive[expr.index()]);

        let limits = GrammarLimits { nodes: usize::MAX, ..GrammarLimits::default() };
        let mut builder = Self::builder(&limits);
        let mut rules: Vec<Option<RuleId>> = vec![None; self.rules().len()];
        for rule in self.rules().filter(|rule| used_rules[rule.index()]) {
            let new = builder.rule(self.rule_name(rule));
            if let Some(place) = self.rule_place(rule) {
                builder.place(new, place);
            }
            if self.is_scope(rule) {
                builder.scope(new);
            }
            rules[rule.index()] = Some(new);
        }
        let mut made: Vec<Option<ExprId>> = vec![None; self.expressions()];
        for expr in self.expression_ids().filter(|expr| used[expr.index()]) {
            let part = |part: &ExprId| made[part.index()];
            let new = match self.expr(expr) {
                Expr::Empty => builder.empty(),
                Expr::Terminal(terminal) => {
                    let name = self.terminal_name(terminal);
                    builder.known_terminal(self.terminal(terminal).clone(), name)
                }
                Expr::Rule(rule) => builder.call(rules[rule.index()].expect("used rules are kept")),
                Expr::Sequence(parts) => builder.sequence(parts.iter().filter_map(part)),
                Expr::Choice(parts) => builder.choice(parts.iter().filter_map(part)),
                Expr::Repeat { item, min, max } => match part(&item) {
                    Some(item) => builder.repeat(item, min, max),
                    // It can only be left out.
                    None => builder.empty(),
                },
                Expr::Unordered(group) => {
                    let new =
                        |rule: RuleId| rules[rule.index()].filter(|_| productive[self.body(rule).index()]);
                    let members = group.members.iter();
                    let members = members.filter_map(|(rule, required)| Some((new(*rule)?, *required)));
                    let separator = group.separator.and_then(new);
                    let lonely = separator.is_none() && group.separator.is_some();
                    builder.unordered_body(Unordered {
                        members: members.collect(),
                        others: group.others.and_then(new),
                        separator,
                        min: group.min,
                        max: if lonely { Some(group.max.unwrap_or(1).min(1)) } else { group.max },
                    })
                }
            };
            made[expr.index()] = Some(new);
        }
        for rule in self.rules() {
            if let Some(new) = rules[rule.index()] {
                builder.define(new, made[self.body(rule).index()].expect("bodies of used rules are made"));
            }
        }
        builder.build(rules[self.start().index()].expect("the start is used"))
    }
}

/// By rule and by expression: whether the start leads there, over expressions for which `enter` holds.
fn reach(grammar: &Grammar, enter: impl Fn(ExprId) -> bool) -> (Vec<bool>, Vec<bool>) {
    let mut rules = vec![false; grammar.rules().len()];
    let mut expressions = vec![false; grammar.expressions()];
    rules[grammar.start().index()] = true;
    let mut open = vec![grammar.body(grammar.start())];
    while let Some(expr) = open.pop() {
        if !enter(expr) || std::mem::replace(&mut expressions[expr.index()], true) {
            continue;
        }
        match grammar.expr(expr) {
            Expr::Empty | Expr::Terminal(_) => {}
            Expr::Rule(rule) => {
                if !std::mem::replace(&mut rules[rule.index()], true) {
                    open.push(grammar.body(rule));
                }
            }
            Expr::Sequence(parts) | Expr::Choice(parts) => open.extend(parts),
            Expr::Repeat { item, .. } => open.push(item),
            Expr::Unordered(group) => {
                for rule in group.rules().filter(|rule| enter(grammar.body(*rule))) {
                    if !std::mem::replace(&mut rules[rule.index()], true) {
                        open.push(grammar.body(rule));
                    }
                }
            }
        }
    }
    (rules, expressions)
}

/// Why the start of `grammar` has no text, where it has none.
pub(crate) fn no_text(grammar: &Grammar, productive: &[bool]) -> String {
    never_ends(&unproductive_cycle(grammar, productive, grammar.start()))
}

/// Rules that need each other without end, of which `rule` needs the first; the first again at the end.
fn unproductive_cycle(grammar: &Grammar, productive: &[bool], rule: RuleId) -> Vec<String> {
    let mut path = vec![rule];
    let mut seen: HashMap<RuleId, usize> = HashMap::from([(rule, 0)]);
    loop {
        // Whatever has no text has a part without one; a rule is the last.
        let mut expr = grammar.body(*path.last().expect("it begins with a rule"));
        let next = loop {
            let dead = |part: &&ExprId| !productive[part.index()];
            expr = match grammar.expr(expr) {
                Expr::Rule(rule) => break rule,
                Expr::Sequence(parts) | Expr::Choice(parts) => {
                    *parts.iter().find(dead).expect("a part has no text")
                }
                Expr::Repeat { item, .. } => item,
                Expr::Unordered(group) => {
                    // Of too few or too many members each may have a text.
                    let dead = |rule: &RuleId| !productive[grammar.body(*rule).index()];
                    break group.rules().find(dead).unwrap_or(*path.last().expect("it begins with a rule"));
                }
                Expr::Empty | Expr::Terminal(_) => unreachable!("these have texts"),
            };
        };
        path.push(next);
        if let Some(begin) = seen.insert(next, path.len() - 1) {
            return path[begin..].iter().map(|rule| grammar.rule_name(*rule).to_owned()).collect();
        }
    }
}

/// A graph of rules.
struct Calls {
    graph: DiGraph<(), ()>,
    /// The edges, for facts about neighbours.
    direct: Vec<bool>,
}

impl Calls {
    fn new(rules: usize) -> Self {
        let mut graph = DiGraph::with_capacity(rules, rules);
        for _ in 0..rules {
            graph.add_node(());
        }
        Self { graph, direct: vec![false; rules] }
    }

    fn add(&mut self, from: RuleId, to: RuleId) {
        self.graph.add_edge(node(from), node(to), ());
        self.direct[from.index()] |= from == to;
    }

    /// By rule: whether a path leads from it to itself.
    fn in_cycles(&self) -> Vec<bool> {
        let mut found = self.direct.clone();
        for component in kosaraju_scc(&self.graph).iter().filter(|component| component.len() > 1) {
            component.iter().for_each(|node| found[node.index()] = true);
        }
        found
    }
}

fn node(rule: RuleId) -> petgraph::graph::NodeIndex {
    petgraph::graph::NodeIndex::new(rule.index())
}

struct Analyser<'g> {
    grammar: &'g Grammar,
    productive: Vec<bool>,
    nullable: Vec<bool>,
    /// By expression: whether nothing is one of the ways to write it out as terminals and rules.
    vanishes: Vec<bool>,
    /// By expression: uses of terminals and rules, written out.
    places: Vec<u64>,
    /// By expression: the first one that is written alike.
    alike: Vec<ExprId>,
    /// Every call of a rule; those that may be first, behind what may be empty too; those before which nothing stands; and
    /// those that may be alone.
    calls: Calls,
    left: Calls,
    plain_left: Calls,
    alone: Calls,
}

impl<'g> Analyser<'g> {
    fn new(grammar: &'g Grammar) -> Self {
        let rules = grammar.rules().len();
        let [calls, left, plain_left, alone] = [(); 4].map(|()| Calls::new(rules));
        let (productive, nullable) = productive_and_nullable(grammar);
        Self {
            grammar,
            productive,
            nullable,
            vanishes: vanishes(grammar),
            places: places(grammar),
            alike: alike(grammar),
            calls,
            left,
            plain_left,
            alone,
        }
    }

    fn run(mut self) -> Analysis {
        let grammar = self.grammar;
        let mut counts = Vec::with_capacity(grammar.rules().len());
        for rule in grammar.rules() {
            counts.push(self.rule(rule));
        }
        let (reachable, _) = reach(grammar, |_| true);
        let recursive = self.calls.in_cycles();
        let (left, plain) = (self.left.in_cycles(), self.plain_left.in_cycles());
        let cyclic = self.alone.in_cycles();
        let facts: Vec<RuleFacts> = grammar
            .rules()
            .map(|rule| {
                let (body, at) = (grammar.body(rule).index(), rule.index());
                let how = match (plain[at], self.plain_left.direct[at]) {
                    (true, true) => LeftRecursion::Direct,
                    (true, false) => LeftRecursion::Indirect,
                    (false, _) => LeftRecursion::Hidden,
                };
                RuleFacts {
                    reachable: reachable[at],
                    productive: self.productive[body],
                    nullable: self.nullable[body],
                    recursive: recursive[at],
                    left_recursion: left[at].then_some(how),
                    cyclic: cyclic[at],
                    places: self.places[body],
                }
            })
            .collect();
        let findings = self.findings(&facts, &counts);
        Analysis { facts, findings }
    }

    fn findings(&self, facts: &[RuleFacts], counts: &[(usize, usize)]) -> Vec<Finding> {
        let grammar = self.grammar;
        let mut findings = vec![];
        // The cycle of many rules is looked for once; a chain of rules that lead to it would have it as many times.
        let mut told = false;
        for (rule, facts) in grammar.rules().zip(facts) {
            let mut add = |kind| {
                let name = grammar.rule_name(rule).to_owned();
                findings.push(Finding { rule, name, location: grammar.rule_place(rule), kind });
            };
            let (dead, repeated) = counts[rule.index()];
            if !facts.reachable {
                add(FindingKind::Unreachable);
            }
            if !facts.productive && !std::mem::replace(&mut told, true) {
                add(FindingKind::NeverEnds { cycle: unproductive_cycle(grammar, &self.productive, rule) });
            }
            if facts.productive && dead > 0 {
                add(FindingKind::DeadAlternatives { count: dead });
            }
            if repeated > 0 {
                add(FindingKind::RepeatedAlternatives { count: repeated });
            }
            if facts.cyclic {
                add(FindingKind::Cyclic);
            }
        }
        findings
    }

    /// Enters the calls of `rule` into the graphs, and counts its dead and its repeated alternatives.
    fn rule(&mut self, rule: RuleId) -> (usize, usize) {
        /// How an expression stands in its rule: only behind what may be empty, only behind what may be left out, and
        /// whether it may be all that the rule stands for.
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        struct Stand {
            first: bool,
            behind_nothing: bool,
            alone: bool,
        }
        let grammar = self.grammar;
        let (mut dead, mut repeated) = (0, 0);
        let mut seen: HashSet<(ExprId, Stand)> = HashSet::new();
        let mut counted: HashSet<ExprId> = HashSet::new();
        let start = Stand { first: true, behind_nothing: true, alone: true };
        let mut open = vec![(grammar.body(rule), start)];
        while let Some((expr, stand)) = open.pop() {
            match grammar.expr(expr) {
                Expr::Empty | Expr::Terminal(_) => continue,
                Expr::Rule(to) => {
                    self.calls.add(rule, to);
                    for (graph, holds) in [
                        (&mut self.left, stand.first),
                        (&mut self.plain_left, stand.first && stand.behind_nothing),
                        (&mut self.alone, stand.alone),
                    ] {
                        if holds {
                            graph.add(rule, to);
                        }
                    }
                    continue;
                }
                Expr::Unordered(group) => {
                    // None is empty, so nothing is hidden, and one is alone if no other must come.
                    let others = group.others.map(|other| (other, false));
                    for (member, required) in group.members.iter().copied().chain(others) {
                        self.calls.add(rule, member);
                        self.left.add(rule, member);
                        self.plain_left.add(rule, member);
                        if stand.alone && group.required() == u32::from(required) && group.min <= 1 {
                            self.alone.add(rule, member);
                        }
                    }
                    group.separator.iter().for_each(|separator| self.calls.add(rule, *separator));
                    continue;
                }
                _ => {}
            }
            // Parts may be shared.
            if !seen.insert((expr, stand)) {
                continue;
            }
            match grammar.expr(expr) {
                Expr::Sequence(parts) => {
                    let filled = parts.iter().filter(|part| !self.nullable[part.index()]).count();
                    let mut inside = stand;
                    for part in parts {
                        let empty = self.nullable[part.index()];
                        let others = filled - usize::from(!empty);
                        open.push((*part, Stand { alone: stand.alone && others == 0, ..inside }));
                        inside.first &= empty;
                        inside.behind_nothing &= self.vanishes[part.index()];
                    }
                }
                Expr::Choice(parts) => {
                    if counted.insert(expr) {
                        dead += parts.iter().filter(|part| !self.productive[part.index()]).count();
                        let mut alike: Vec<ExprId> =
                            parts.iter().map(|part| self.alike[part.index()]).collect();
                        alike.sort_unstable();
                        alike.dedup();
                        repeated += parts.len() - alike.len();
                    }
                    open.extend(parts.iter().map(|part| (*part, stand)));
                }
                Expr::Repeat { item, min, .. } => {
                    // Other rounds may be left out, or be empty.
                    let others_empty = min <= 1 || self.nullable[item.index()];
                    open.push((item, Stand { alone: stand.alone && others_empty, ..stand }));
                }
                Expr::Empty | Expr::Terminal(_) | Expr::Rule(_) | Expr::Unordered(_) => {
                    unreachable!("seen to above")
                }
            }
        }
        (dead, repeated)
    }
}

/// By expression: whether nothing is one of the ways to write it out as terminals and rules.
fn vanishes(grammar: &Grammar) -> Vec<bool> {
    let mut vanishes: Vec<bool> = Vec::with_capacity(grammar.expressions());
    for expr in grammar.expression_ids() {
        let of = |part: &ExprId| vanishes[part.index()];
        let this = match grammar.expr(expr) {
            Expr::Empty => true,
            Expr::Terminal(_) | Expr::Rule(_) => false,
            Expr::Sequence(parts) => parts.iter().all(of),
            Expr::Choice(parts) => parts.iter().any(of),
            Expr::Repeat { item, min, .. } => min == 0 || of(&item),
            Expr::Unordered(group) => group.required() == 0 && group.min == 0,
        };
        vanishes.push(this);
    }
    vanishes
}

/// By expression: uses of terminals and rules once repetitions are written out. An endless repetition has one more copy
/// than it must have, or one.
fn places(grammar: &Grammar) -> Vec<u64> {
    let mut places: Vec<u64> = Vec::with_capacity(grammar.expressions());
    for expr in grammar.expression_ids() {
        let sum =
            |parts: &[ExprId]| parts.iter().fold(0u64, |sum, part| sum.saturating_add(places[part.index()]));
        let count = match grammar.expr(expr) {
            Expr::Empty => 0,
            Expr::Terminal(_) | Expr::Rule(_) => 1,
            Expr::Sequence(parts) | Expr::Choice(parts) => sum(parts),
            Expr::Repeat { item, min, max } => {
                places[item.index()].saturating_mul(u64::from(max.unwrap_or(min).max(1)))
            }
            Expr::Unordered(group) => group.rules().count() as u64,
        };
        places.push(count);
    }
    places
}

/// By expression: the first one that is written alike, part by part. Parts come first, so one pass finds them.
fn alike(grammar: &Grammar) -> Vec<ExprId> {
    #[derive(PartialEq, Eq, Hash)]
    enum Key {
        Empty,
        Terminal(crate::TerminalId),
        Rule(RuleId),
        Sequence(Vec<ExprId>),
        Choice(Vec<ExprId>),
        Repeat(ExprId, u32, Option<u32>),
        Unordered(Unordered),
    }
    let mut firsts: HashMap<Key, ExprId> = HashMap::new();
    let mut alike: Vec<ExprId> = Vec::with_capacity(grammar.expressions());
    for expr in grammar.expression_ids() {
        let parts = |parts: &[ExprId]| parts.iter().map(|part| alike[part.index()]).collect();
        let key = match grammar.expr(expr) {
            Expr::Empty => Key::Empty,
            Expr::Terminal(terminal) => Key::Terminal(terminal),
            Expr::Rule(rule) => Key::Rule(rule),
            Expr::Sequence(of) => Key::Sequence(parts(of)),
            Expr::Choice(of) => Key::Choice(parts(of)),
            Expr::Repeat { item, min, max } => Key::Repeat(alike[item.index()], min, max),
            Expr::Unordered(group) => Key::Unordered(group.clone()),
        };
        let first = *firsts.entry(key).or_insert(expr);
        alike.push(first);
    }
    alike
}

/// A summary for people: how many rules, terminals and places there are, and how large the automata are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GrammarSize {
    /// Rules.
    pub rules: usize,
    /// Distinct terminals.
    pub terminals: usize,
    /// Uses of terminals and rules in all bodies once repetitions are written out.
    pub places: u64,
    /// States of the automata of terminals together.
    pub states: usize,
}

impl Grammar {
    /// How large this grammar is. O(n).
    pub fn size(&self) -> GrammarSize {
        let places = places(self);
        let states = self.terminals().map(|terminal| match self.terminal(terminal) {
            Terminal::Automaton(dfa) => dfa.len(),
            Terminal::Except(except) | Terminal::Distinct(except) => except.base().len(),
            Terminal::Counted(counted) => counted.unit().len(),
            Terminal::Literal(_) | Terminal::Token(_) => 0,
        });
        GrammarSize {
            rules: self.rules().len(),
            terminals: self.terminals().len(),
            places: self.rules().fold(0, |sum, rule| sum.saturating_add(places[self.body(rule).index()])),
            states: states.sum(),
        }
    }
}
