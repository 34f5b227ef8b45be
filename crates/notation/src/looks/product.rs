//! The product of the rules with the machine: where each part of a rule can be left, and the grammar of these parts.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    rc::Rc,
    sync::Arc,
};

use indexmap::IndexSet;
use unskew_core::ids::number;
use unskew_grammar::{
    Expr, ExprId, Grammar, GrammarBuilder, GrammarError, GrammarLimits, RuleId, Terminal, TerminalId,
    kit::{
        fixpoint::{containing, productive_and_nullable, wholes},
        near::Begins,
    },
};

use super::{
    Looks, Stop,
    follow::Facts,
    machine::{FREE, Machine, Marks, State},
};

/// A part of a rule, entered in a state.
type Entry = (ExprId, State);
/// A part of a rule, entered in one state and left in any of a set of states.
pub(super) type Part = (ExprId, State, Exits);

/// A set of states: an index of [`Product::sets`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Exits(u32);

pub(super) struct Product<'g> {
    pub(super) grammar: &'g Grammar,
    pub(super) limits: &'g GrammarLimits,
    pub(super) machine: Machine<'g>,
    /// By use of a terminal.
    marks: HashMap<ExprId, Marks>,
    productive: Vec<bool>,
    /// By expression: whether some conditional terminal is in it, or in a rule that it calls.
    conditional: Vec<bool>,
    nullable: Vec<bool>,
    /// By entry: whether what is pending there changes its texts or its exits.
    affected: HashMap<Entry, bool>,
    exits: HashMap<Entry, BTreeSet<State>>,
    /// By entry: the entries whose exits depend on its own.
    users: HashMap<Entry, HashSet<Entry>>,
    changed: Vec<Entry>,
    pub(super) builder: GrammarBuilder,
    sets: IndexSet<Rc<BTreeSet<State>>>,
    pub(super) made: HashMap<Part, ExprId>,
    rules: HashMap<(RuleId, State, Exits), RuleId>,
    /// Rules without a body so far.
    open: Vec<(RuleId, State, Exits)>,
    cuts: HashMap<(TerminalId, Marks, State, Exits), ExprId>,
    bytes: usize,
    /// Whether states with the same rest are one exit.
    pub(super) shares: bool,
}

impl<'g> Product<'g> {
    pub(super) fn new(
        grammar: &'g Grammar,
        looks: &Looks,
        limits: &'g GrammarLimits,
        shares: bool,
    ) -> Result<Self, Stop> {
        let mut uses: Vec<_> = looks.iter().collect();
        uses.sort_unstable_by_key(|(expr, _)| **expr);
        let terminal = |expr: ExprId| match grammar.expr(expr) {
            Expr::Terminal(terminal) => terminal,
            _ => unreachable!("only terminals have conditions"),
        };
        // A state costs less than a position that is written out. Single states are the second attempt.
        let most = if shares { limits.positions.saturating_mul(2) } else { limits.positions };
        let (productive, nullable) = productive_and_nullable(grammar);
        let wholes = wholes(grammar);
        let begins = Begins { grammar, productive: &productive, nullable: &nullable };
        let facts = Facts { begins, wholes: &wholes };
        let (mut work, mut conditions) = (0, vec![]);
        for (expr, condition) in &uses {
            // Only conditions on the text after a terminal ask for it.
            let (follow, own) = condition.after.as_ref().map(|_| facts.follow(**expr)).unwrap_or_default();
            work += own;
            if work > most {
                return Err(Stop::TooCostly);
            }
            conditions.push((terminal(**expr), *condition, follow));
        }
        let (machine, marks) = Machine::new(grammar, conditions.into_iter(), most)?;
        Ok(Self {
            grammar,
            limits,
            machine,
            marks: uses.iter().map(|(expr, _)| **expr).zip(marks).collect(),
            productive,
            nullable,
            affected: HashMap::new(),
            conditional: containing(&wholes, looks.keys().copied()),
            exits: HashMap::new(),
            users: HashMap::new(),
            changed: vec![],
            builder: grammar.extended(limits),
            sets: IndexSet::new(),
            made: HashMap::new(),
            rules: HashMap::new(),
            open: vec![],
            cuts: HashMap::new(),
            bytes: 0,
            shares,
        })
    }

    /// The product.
    pub(super) fn grammar(mut self) -> Result<Grammar, Stop> {
        let body = self.grammar.body(self.grammar.start());
        let mut ways = vec![];
        for start in self.machine.starts() {
            self.settle((body, start))?;
            let mut ends = self.settled(body, start);
            ends.retain(|end| self.machine.may_end(*end));
            if !self.shares {
                for end in ends {
                    ways.push((start, self.set(BTreeSet::from([end]))));
                }
            } else if !ends.is_empty() {
                ways.push((start, self.set(ends)));
            }
        }
        if ways.is_empty() {
            let reason = "no output fulfils the conditions of look-around".to_owned();
            return Err(GrammarError::Empty { reason }.into());
        }
        let start = self.grammar.start();
        let calls: Vec<RuleId> = ways.into_iter().map(|(from, to)| self.rule(start, from, to)).collect();
        while let Some((rule, from, to)) = self.open.pop() {
            let body = self.part((self.grammar.body(rule), from, to))?;
            let made = self.rules[&(rule, from, to)];
            self.builder.define(made, body);
            if self.builder.size() > self.limits.nodes {
                return Err(GrammarError::TooManyNodes { limit: self.limits.nodes }.into());
            }
        }
        let start = match calls[..] {
            [only] => only,
            _ => {
                let whole = self.builder.rule(self.grammar.rule_name(start));
                let calls: Vec<ExprId> = calls.iter().map(|rule| self.builder.call(*rule)).collect();
                let body = self.builder.choice(calls);
                self.builder.define(whole, body);
                whole
            }
        };
        Ok(self.builder.build(start)?)
    }

    /// The set of these states.
    pub(super) fn set(&mut self, states: BTreeSet<State>) -> Exits {
        Exits(number(self.sets.insert_full(Rc::new(states)).0))
    }

    pub(super) fn states(&self, exits: Exits) -> Rc<BTreeSet<State>> {
        Rc::clone(&self.sets[exits.0 as usize])
    }

    /// The entry with the same texts and exits as `entry` for which nothing is pending, if there is one: most
    /// conditions do not concern the terminals with which a part begins. Else `entry` itself.
    pub(super) fn entered(&mut self, (part, state): Entry) -> Result<Entry, Stop> {
        let base = self.machine.without_pending(state);
        if base == state || self.is_affected((part, state))? { Ok((part, state)) } else { Ok((part, base)) }
    }

    /// Whether what is pending reaches beyond the first terminals of `entry`, or forbids some of their texts.
    fn is_affected(&mut self, entry: Entry) -> Result<bool, Stop> {
        if let Some(known) = self.affected.get(&entry) {
            return Ok(*known);
        }
        let (whole, state) = entry;
        let begins = Begins { grammar: self.grammar, productive: &self.productive, nullable: &self.nullable };
        let (leaves, seen) = begins.leaves([whole]);
        self.machine.spend(seen)?;
        let mut affected = self.nullable[whole.index()];
        for leaf in leaves {
            affected = affected
                || match self.grammar.expr(leaf) {
                    Expr::Terminal(terminal) => self.machine.is_affected(terminal, state)?,
                    _ => true,
                };
        }
        self.affected.insert(entry, affected);
        Ok(affected)
    }

    /// Finds the states in which `entry` can be left, with all that they depend on.
    fn settle(&mut self, entry: Entry) -> Result<(), Stop> {
        let entry = self.entered(entry)?;
        self.demand(entry);
        while let Some(entry) = self.changed.pop() {
            let found = self.leave(entry)?;
            let known = self.exits.entry(entry).or_default();
            let before = known.len();
            known.extend(found);
            if known.len() > before
                && let Some(users) = self.users.get(&entry)
            {
                self.changed.extend(users.iter().copied());
            }
        }
        Ok(())
    }

    fn demand(&mut self, entry: Entry) {
        if let std::collections::hash_map::Entry::Vacant(new) = self.exits.entry(entry) {
            new.insert(BTreeSet::new());
            self.changed.push(entry);
        }
    }

    /// Whether the part stays as it is where nothing is pending and nothing promised.
    fn is_plain(&self, expr: ExprId) -> bool {
        !self.conditional[expr.index()]
    }

    /// The known exits of `part` from all of `from`, on which those of `user` depend.
    fn exits(&mut self, part: ExprId, from: &BTreeSet<State>, user: Entry) -> Result<BTreeSet<State>, Stop> {
        let mut found = BTreeSet::new();
        self.machine.spend(from.len())?;
        for state in from {
            let entry = self.entered((part, *state))?;
            self.demand(entry);
            self.users.entry(entry).or_default().insert(user);
            found.extend(self.exits[&entry].iter().copied());
        }
        Ok(found)
    }

    /// The states in which `entry` is left, as far as the exits of its parts are known.
    fn leave(&mut self, entry: Entry) -> Result<BTreeSet<State>, Stop> {
        let (expr, from) = entry;
        let start = BTreeSet::from([from]);
        if !self.productive[expr.index()] {
            return Ok(BTreeSet::new());
        }
        if from == FREE && self.is_plain(expr) && !self.machine.has_befores() {
            return Ok(start);
        }
        let grammar = self.grammar;
        Ok(match grammar.expr(expr) {
            Expr::Empty => start,
            Expr::Terminal(terminal) => {
                let marks = self.marks.get(&expr).copied().unwrap_or_default();
                self.machine.steps(terminal, marks, from)?.iter().map(|(to, _)| *to).collect()
            }
            Expr::Rule(rule) => self.exits(grammar.body(rule), &start, entry)?,
            Expr::Sequence(parts) => {
                let mut at = start;
                for part in parts {
                    at = self.exits(*part, &at, entry)?;
                }
                at
            }
            Expr::Choice(parts) => {
                let mut found = BTreeSet::new();
                for part in parts {
                    found.extend(self.exits(*part, &start, entry)?);
                }
                found
            }
            Expr::Repeat { item, min, max } => {
                let mut at = start;
                for _ in 0..min {
                    let next = self.exits(item, &at, entry)?;
                    if next == at {
                        break;
                    }
                    at = next;
                }
                let (mut found, mut round) = (at.clone(), min);
                // Rounds from known states lead to known states.
                while max.is_none_or(|max| round < max) {
                    at = self.exits(item, &at, entry)?;
                    if at.is_subset(&found) {
                        break;
                    }
                    found.extend(at.iter().copied());
                    round += 1;
                }
                found
            }
            Expr::Unordered(_) => self.machine.opaque(from)?.iter().map(|(to, _)| *to).collect(),
        })
    }

    /// The rule for `rule` from one state to others.
    fn rule(&mut self, rule: RuleId, from: State, to: Exits) -> RuleId {
        let (grammar, builder, open) = (self.grammar, &mut self.builder, &mut self.open);
        *self.rules.entry((rule, from, to)).or_insert_with(|| {
            open.push((rule, from, to));
            builder.rule_like(grammar, rule)
        })
    }

    /// The expression of a part. Parts precede their whole, and nothing recurses.
    fn part(&mut self, whole: Part) -> Result<ExprId, Stop> {
        let mut open = vec![whole];
        while let Some(part) = open.last().copied() {
            if self.made.contains_key(&part) {
                open.pop();
                continue;
            }
            self.machine.spend(1)?;
            let mut missing = vec![];
            match self.compose(part, &mut missing)? {
                Some(made) => {
                    self.made.insert(part, made);
                    open.pop();
                }
                None => open.append(&mut missing),
            }
        }
        Ok(self.made[&whole])
    }

    /// The known exits of a settled entry.
    pub(super) fn settled(&self, part: ExprId, from: State) -> BTreeSet<State> {
        let base = self.machine.known_without_pending(from);
        let is_base = self.affected.get(&(part, from)) == Some(&false);
        let entry = (part, if is_base { base } else { from });
        self.exits.get(&entry).cloned().unwrap_or_default()
    }

    /// The part of `part` from `from` to `to`, entered where nothing is pending if that is the same.
    pub(super) fn part_of(&mut self, part: ExprId, from: State, to: BTreeSet<State>) -> Result<Part, Stop> {
        let (part, from) = self.entered((part, from))?;
        Ok((part, from, self.set(to)))
    }

    fn compose(&mut self, part: Part, missing: &mut Vec<Part>) -> Result<Option<ExprId>, Stop> {
        let (expr, from, exits) = part;
        let (grammar, to) = (self.grammar, self.states(exits));
        // From here to other states it has no other texts.
        if from == FREE && to.contains(&FREE) && self.is_plain(expr) {
            return Ok(Some(expr));
        }
        Ok(match grammar.expr(expr) {
            Expr::Empty => Some(expr),
            Expr::Terminal(terminal) => Some(self.cut(terminal, expr, from, exits)?),
            Expr::Rule(rule) => {
                let rule = self.rule(rule, from, exits);
                Some(self.builder.call(rule))
            }
            Expr::Sequence(parts) => {
                let (plan, start) = self.sequence(parts, from, &to)?;
                self.built(&plan, start, missing)?
            }
            Expr::Choice(parts) => {
                let mut ways = vec![];
                for part in parts {
                    let own: BTreeSet<State> = self.settled(*part, from).intersection(&to).copied().collect();
                    if !own.is_empty() {
                        ways.push(self.part_of(*part, from, own)?);
                    }
                }
                missing.extend(ways.iter().filter(|way| !self.made.contains_key(*way)));
                let ways: Vec<ExprId> = ways.iter().filter_map(|way| self.made.get(way).copied()).collect();
                missing.is_empty().then(|| self.builder.choice(ways))
            }
            Expr::Repeat { item, min, max } => self.repeat(item, (min, max), from, &to, missing)?,
            Expr::Unordered(_) => {
                return Err(Stop::Opaque(self.machine.place_of(*to.first().unwrap_or(&from))));
            }
        })
    }

    /// The texts of a use of `terminal` that lead from one state to others.
    fn cut(&mut self, terminal: TerminalId, expr: ExprId, from: State, exits: Exits) -> Result<ExprId, Stop> {
        let marks = self.marks.get(&expr).copied().unwrap_or_default();
        let key = (terminal, marks, from, exits);
        if let Some(known) = self.cuts.get(&key) {
            return Ok(*known);
        }
        let to = self.states(exits);
        let steps = self.machine.steps(terminal, marks, from)?;
        let own: Vec<_> = steps.iter().filter(|(next, _)| to.contains(next)).collect();
        let mut classes: Vec<usize> =
            own.iter().filter_map(|(_, classes)| classes.as_ref()).flatten().copied().collect();
        classes.sort_unstable();
        classes.dedup();
        // A text without an automaton is all texts of its terminal, or cannot be told.
        if own.iter().all(|(_, classes)| classes.is_none()) {
            return Err(Stop::Opaque(self.machine.place_of(own[0].0)));
        }
        let (name, own) = (self.grammar.terminal_name(terminal).to_owned(), self.grammar.terminal(terminal));
        let pending = self.machine.pending(from);
        let parts = self.machine.paths(terminal, &pending)?.filter(|paths| !paths.is_whole(&classes));
        let made = match parts {
            None => self.builder.known_terminal(own.clone(), &name),
            Some(paths) => {
                let dfa = paths.automaton(&classes, &self.limits.regex);
                let dfa = Arc::new(dfa.map_err(|source| self.machine.error(terminal, source))?);
                self.bytes += dfa.memory_usage();
                if self.bytes > self.limits.automata_bytes {
                    return Err(Stop::TooCostly);
                }
                let is_empty = dfa.is_accepting(dfa.start()) && dfa.edges(dfa.start()).next().is_none();
                match own {
                    _ if is_empty => self.builder.empty(),
                    Terminal::TokenBudget(budget) => self.builder.token_budget(&name, dfa, budget.tokens),
                    _ => self.builder.shared_automaton(&name, &dfa),
                }
            }
        };
        self.cuts.insert(key, made);
        Ok(made)
    }
}
