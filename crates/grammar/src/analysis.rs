//! Facts about a grammar that are computed before it is used: useless rules, recursion, sizes, and their locations.
//!
//! The engine needs none of this: the parser takes every form of recursion and builds only the parts that can
//! be completed. The analysis is for people who write grammars and for programs that generate them. A rule
//! that can never end is nearly always a mistake, and an unused rule often is.
//!
//! Everything is linear in the size of the grammar, and nothing recurses. Mutually recursive rules are the
//! strongly connected components of a graph, found by Kosaraju's algorithm in `petgraph`, which keeps its own
//! stack. `petgraph`'s version of Tarjan's algorithm recurses.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use crate::{
    Expr, ExprId, Grammar, GrammarError, GrammarLimits, Location, RuleId, Unordered,
    calls::Calls,
    fixpoint::{productive, productive_and_nullable},
    import::reach,
};

/// The way in which a rule may begin with itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum LeftRecursion {
    /// An alternative begins with the rule itself.
    Direct,
    /// The rule begins with another rule that begins with it.
    Indirect,
    /// Direct or indirect, but only after a rule or terminal that is nullable. An optional item (`x?`) before
    /// the call does not make the recursion hidden.
    Hidden,
}

/// Facts about a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RuleFacts {
    /// Whether an output uses the rule, or would if all rules ended.
    pub reachable: bool,
    /// Whether the rule has a text.
    pub productive: bool,
    /// Whether the empty text is one of its texts.
    pub nullable: bool,
    /// Whether the rule contains itself, directly or through other rules.
    pub recursive: bool,
    /// The form of left recursion, if the rule may begin with itself.
    pub left_recursion: Option<LeftRecursion>,
    /// Whether the rule may derive itself and nothing else, so that a text may have infinitely many readings.
    pub cyclic: bool,
    /// The number of uses of terminals and rules in its body once repetitions are written out. The count
    /// saturates at [`u64::MAX`].
    pub places: u64,
}

/// A probable mistake. The grammar is usable all the same.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The rule that contains it.
    pub rule: RuleId,
    /// The name of the rule.
    pub name: String,
    /// The location at which the text of the grammar defines the rule, if the grammar was read from a text.
    pub location: Option<Location>,
    /// The kind of the mistake.
    pub kind: FindingKind,
}

/// The kind of a probable mistake.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FindingKind {
    /// No output uses the rule.
    Unreachable,
    /// The rule has no text: each rule of `cycle` needs the next one and cannot end without it.
    #[non_exhaustive]
    NeverEnds {
        /// The names of the rules. The first name is repeated at the end.
        cycle: Vec<String>,
    },
    /// Alternatives that can never be completed, because they use rules without a text.
    #[non_exhaustive]
    DeadAlternatives {
        /// The number of these alternatives.
        count: usize,
    },
    /// Alternatives that repeat other alternatives.
    #[non_exhaustive]
    RepeatedAlternatives {
        /// The number of these alternatives.
        count: usize,
    },
    /// The rule may derive itself and nothing else.
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
            Self::Cyclic => f.write_str("it may derive itself alone, which adds readings and no text"),
        }
    }
}

/// The reason why the rules of `cycle` have no text.
fn never_ends(cycle: &[String]) -> String {
    /// The number of names in a message; longer cycles are cut.
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

/// The result of [`Grammar::analysis`].
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

    /// The probable mistakes, in the order of the rules.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }
}

impl Grammar {
    /// Analyses this grammar. O(n) for n expressions and rules, except that an expression shared by several
    /// rules is visited for each.
    pub fn analysis(&self) -> Analysis {
        Analyser::new(self).run()
    }

    /// The same language without useless parts: alternatives that cannot be completed, and rules and
    /// terminals that no output uses. From every position of every rule, some text then reaches the end of
    /// the rule. O(n) for n expressions and rules.
    ///
    /// # Errors
    ///
    /// [`GrammarError::Empty`] if the grammar has no text. The error names the rules that never end.
    ///
    /// # Example
    ///
    /// ```
    /// use unskew_grammar::GrammarLimits;
    /// use unskew_notation::from_gbnf;
    ///
    /// let text = r#"
    /// root  ::= "a" | "b" never
    /// never ::= "c" never
    /// other ::= "d"
    /// "#;
    /// let grammar = from_gbnf(text, &GrammarLimits::default())?.trimmed()?;
    /// assert_eq!(grammar.rules().map(|rule| grammar.rule_name(rule)).collect::<Vec<_>>(), ["root"]);
    /// assert_eq!(grammar.terminals().len(), 1);
    /// # Ok::<(), unskew_grammar::GrammarError>(())
    /// ```
    pub fn trimmed(&self) -> Result<Self, GrammarError> {
        let productive = productive(self);
        if !productive[self.body(self.start()).index()] {
            return Err(GrammarError::Empty { reason: no_text(self, &productive) });
        }
        let limits = GrammarLimits { nodes: usize::MAX, ..GrammarLimits::default() };
        self.kept(|expr| productive[expr.index()], &limits)
    }
}

/// The reason why the start rule of `grammar` has no text.
pub fn no_text(grammar: &Grammar, productive: &[bool]) -> String {
    never_ends(&unproductive_cycle(grammar, productive, grammar.start()))
}

/// A cycle of rules without a text, each of which needs the next one, reachable from `rule`. The first rule
/// is repeated at the end.
fn unproductive_cycle(grammar: &Grammar, productive: &[bool], rule: RuleId) -> Vec<String> {
    let mut path = vec![rule];
    let mut seen: HashMap<RuleId, usize> = HashMap::from([(rule, 0)]);
    loop {
        // An expression without a text has a part without a text. The descent ends at a rule.
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
                    // All members of a group may have texts if the bounds of the group exclude every number
                    // of members.
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

struct Analyser<'g> {
    grammar: &'g Grammar,
    productive: Vec<bool>,
    nullable: Vec<bool>,
    /// By expression: whether it can be written out as no terminals and no rules.
    vanishes: Vec<bool>,
    /// By expression: the number of uses of terminals and rules, written out.
    places: Vec<u64>,
    /// By expression: the first expression with the same structure.
    alike: Vec<ExprId>,
    /// Four relations between a rule and the rules that it calls: `calls` has every call. `left` has the
    /// calls that may come first, possibly after nullable parts. `plain_left` has the calls that may come
    /// first with no terminal or rule before them. `alone` has the calls that may be the whole derivation.
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
        // Only one cycle is reported. Otherwise a chain of rules that leads to a cycle would report it once per rule.
        let mut told = false;
        for (rule, facts) in grammar.rules().zip(facts) {
            let mut add = |kind| {
                let name = grammar.rule_name(rule).to_owned();
                findings.push(Finding { rule, name, location: grammar.rule_location(rule), kind });
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

    /// Adds the calls of `rule` to the graphs. Returns the numbers of its dead and of its repeated alternatives.
    fn rule(&mut self, rule: RuleId) -> (usize, usize) {
        /// The context of an expression in its rule: whether everything before it is nullable, whether
        /// everything before it can be left out, and whether everything beside it is nullable.
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
                    // No member is nullable, so no call is hidden. A member can be alone if no other member
                    // is required.
                    let others = group.others.map(|other| (other, false));
                    for ((member, _), index) in group.members.iter().copied().chain(others).zip(0..) {
                        self.calls.add(rule, member);
                        self.left.add(rule, member);
                        self.plain_left.add(rule, member);
                        if stand.alone && group.may_be_left(Some(index)) {
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
                    // Other repetitions can be left out or be empty.
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

/// By expression: whether it can be written out as no terminals and no rules.
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
            Expr::Unordered(group) => group.may_be_left(None),
        };
        vanishes.push(this);
    }
    vanishes
}

/// By expression: the number of uses of terminals and rules once repetitions are written out. A repetition
/// counts as `max` copies, an unbounded one as `min` copies, and each as at least one.
pub(super) fn places(grammar: &Grammar) -> Vec<u64> {
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

/// By expression: the first expression with the same structure. Parts precede their whole, so one pass suffices.
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
