//! The product of the rules with the machine: where each part of a rule can be left, and the grammar of these parts.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::{
    Looks, Stop,
    machine::{FREE, Machine, Marks, State},
};
use crate::{
    Expr, ExprId, Grammar, GrammarBuilder, GrammarError, GrammarLimits, RuleId, Terminal, TerminalId,
    grammar::fixpoint::productive,
};

/// A part of a rule, entered in a state.
type Entry = (ExprId, State);
/// A part of a rule, entered in one state and left in another.
type Part = (ExprId, State, State);

pub(super) struct Product<'g> {
    grammar: &'g Grammar,
    limits: &'g GrammarLimits,
    machine: Machine<'g>,
    /// By use of a terminal.
    marks: HashMap<ExprId, Marks>,
    productive: Vec<bool>,
    /// By expression: whether some conditional terminal is in it, or in a rule that it calls.
    conditional: Vec<bool>,
    exits: HashMap<Entry, BTreeSet<State>>,
    /// By entry: the entries whose exits depend on its own.
    users: HashMap<Entry, HashSet<Entry>>,
    changed: Vec<Entry>,
    builder: GrammarBuilder,
    made: HashMap<Part, ExprId>,
    rules: HashMap<(RuleId, State, State), RuleId>,
    /// Rules without a body so far.
    open: Vec<(RuleId, State, State)>,
    cuts: HashMap<(TerminalId, Marks, State, State), ExprId>,
    bytes: usize,
}

impl<'g> Product<'g> {
    pub(super) fn new(grammar: &'g Grammar, looks: &Looks, limits: &'g GrammarLimits) -> Result<Self, Stop> {
        let mut uses: Vec<_> = looks.iter().collect();
        uses.sort_unstable_by_key(|(expr, _)| **expr);
        let terminal = |expr: ExprId| match grammar.expr(expr) {
            Expr::Terminal(terminal) => terminal,
            _ => unreachable!("only terminals have conditions"),
        };
        let conditions = uses.iter().map(|(expr, condition)| (terminal(**expr), *condition));
        let (machine, marks) = Machine::new(grammar, conditions, limits.positions)?;
        Ok(Self {
            grammar,
            limits,
            machine,
            marks: uses.iter().map(|(expr, _)| **expr).zip(marks).collect(),
            productive: productive(grammar),
            conditional: conditional(grammar, looks),
            exits: HashMap::new(),
            users: HashMap::new(),
            changed: vec![],
            builder: grammar.extended(limits),
            made: HashMap::new(),
            rules: HashMap::new(),
            open: vec![],
            cuts: HashMap::new(),
            bytes: 0,
        })
    }

    /// The product.
    pub(super) fn grammar(mut self) -> Result<Grammar, Stop> {
        let body = self.grammar.body(self.grammar.start());
        let mut ways = vec![];
        for start in self.machine.starts() {
            self.settle((body, start))?;
            for end in self.exits[&(body, start)].clone() {
                if self.machine.may_end(end) {
                    ways.push((start, end));
                }
            }
        }
        if ways.is_empty() {
            let reason = "no output fulfils the conditions of look-around".to_owned();
            return Err(GrammarError::Empty { reason }.into());
        }
        let start = self.grammar.start();
        let calls: Vec<RuleId> = ways.iter().map(|(from, to)| self.rule(start, *from, *to)).collect();
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

    /// Finds the states in which `entry` can be left, with all that they depend on.
    fn settle(&mut self, entry: Entry) -> Result<(), Stop> {
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
            let entry = (part, *state);
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

    /// The rule for `rule` from one state to another.
    fn rule(&mut self, rule: RuleId, from: State, to: State) -> RuleId {
        let (grammar, builder, open) = (self.grammar, &mut self.builder, &mut self.open);
        *self.rules.entry((rule, from, to)).or_insert_with(|| {
            open.push((rule, from, to));
            let made = builder.rule(grammar.rule_name(rule));
            if let Some(place) = grammar.rule_location(rule) {
                builder.locate(made, place);
            }
            if grammar.is_scope(rule) {
                builder.scope(made);
            }
            builder.captures_of(made, grammar, rule);
            made
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
            let made = self.compose(part, &mut missing)?;
            match made {
                Some(made) if missing.is_empty() => {
                    self.made.insert(part, made);
                    open.pop();
                }
                _ => open.append(&mut missing),
            }
        }
        Ok(self.made[&whole])
    }

    /// The expression of a known part; else it is added to `missing`.
    fn known(&self, part: Part, missing: &mut Vec<Part>) -> Option<ExprId> {
        let known = self.made.get(&part).copied();
        if known.is_none() {
            missing.push(part);
        }
        known
    }

    /// The known exits of a settled entry.
    fn settled(&self, part: ExprId, from: State) -> BTreeSet<State> {
        self.exits.get(&(part, from)).cloned().unwrap_or_default()
    }

    fn compose(&mut self, part: Part, missing: &mut Vec<Part>) -> Result<Option<ExprId>, Stop> {
        let (expr, from, to) = part;
        let grammar = self.grammar;
        if from == FREE && to == FREE && self.is_plain(expr) {
            return Ok(Some(expr));
        }
        Ok(match grammar.expr(expr) {
            Expr::Empty => Some(expr),
            Expr::Terminal(terminal) => Some(self.cut(terminal, expr, from, to)?),
            Expr::Rule(rule) => {
                let rule = self.rule(rule, from, to);
                Some(self.builder.call(rule))
            }
            Expr::Sequence(parts) => {
                let layers = self.layers(parts, from, to)?;
                self.sequence(parts, &layers, missing)
            }
            Expr::Choice(parts) => {
                let ways = parts.iter().filter(|part| self.settled(**part, from).contains(&to));
                let ways: Vec<ExprId> =
                    ways.filter_map(|way| self.known((*way, from, to), missing)).collect();
                missing.is_empty().then(|| self.builder.choice(ways))
            }
            Expr::Repeat { item, min, max } => self.repeat(item, (min, max), from, to, missing)?,
            Expr::Unordered(_) => return Err(Stop::Opaque(self.machine.place_of(to.max(from)))),
        })
    }

    /// By position in a sequence: the states on a way from `from` to `to`.
    fn layers(&mut self, parts: &[ExprId], from: State, to: State) -> Result<Vec<BTreeSet<State>>, Stop> {
        let mut layers = vec![BTreeSet::from([from])];
        for part in parts {
            let last = layers.last().expect("the first");
            layers.push(last.iter().flat_map(|state| self.settled(*part, *state)).collect());
            self.machine.spend(layers[layers.len() - 1].len())?;
        }
        *layers.last_mut().expect("the last") = BTreeSet::from([to]);
        for (at, part) in parts.iter().enumerate().rev() {
            let (before, after) = layers.split_at_mut(at + 1);
            before[at].retain(|state| !self.settled(*part, *state).is_disjoint(&after[0]));
        }
        Ok(layers)
    }

    fn sequence(
        &mut self,
        parts: &[ExprId],
        layers: &[BTreeSet<State>],
        missing: &mut Vec<Part>,
    ) -> Option<ExprId> {
        if layers.iter().all(|layer| layer.len() == 1) {
            let only = |at: usize| *layers[at].first().expect("one state");
            let made =
                (0..parts.len()).filter_map(|at| self.known((parts[at], only(at), only(at + 1)), missing));
            let made: Vec<ExprId> = made.collect();
            return missing.is_empty().then(|| self.builder.sequence(made));
        }
        let mut rest: HashMap<State, Option<ExprId>> =
            layers[parts.len()].iter().map(|end| (*end, None)).collect();
        for (at, part) in parts.iter().enumerate().rev() {
            let mut made: HashMap<State, Option<ExprId>> = HashMap::new();
            for state in &layers[at] {
                let mut ways = vec![];
                for next in self.settled(*part, *state).intersection(&layers[at + 1]) {
                    let Some(first) = self.known((*part, *state, *next), missing) else { continue };
                    // While parts are missing, nothing is built.
                    if missing.is_empty() {
                        ways.push(self.builder.sequence([first].into_iter().chain(rest[next])));
                    }
                }
                made.insert(*state, missing.is_empty().then(|| self.builder.choice(ways)));
            }
            rest = made;
        }
        missing.is_empty().then(|| rest.values().next().copied().flatten()).flatten()
    }

    fn repeat(
        &mut self,
        item: ExprId,
        (min, max): (u32, Option<u32>),
        from: State,
        to: State,
        missing: &mut Vec<Part>,
    ) -> Result<Option<ExprId>, Stop> {
        // The graph of rounds, of the states that reach `to`.
        let mut reached: BTreeSet<State> = [from].into();
        let mut open = vec![from];
        while let Some(state) = open.pop() {
            self.machine.spend(1)?;
            open.extend(self.settled(item, state).into_iter().filter(|next| reached.insert(*next)));
        }
        let mut useful: BTreeSet<State> = [to].into();
        loop {
            let more: Vec<State> = reached.difference(&useful).copied().collect();
            let more = more.into_iter().filter(|state| !self.settled(item, *state).is_disjoint(&useful));
            let more: Vec<State> = more.collect();
            if more.is_empty() {
                break;
            }
            useful.extend(more);
        }
        useful.retain(|state| reached.contains(state));
        let rounds: HashMap<State, Vec<State>> = useful
            .iter()
            .map(|state| (*state, self.settled(item, *state).intersection(&useful).copied().collect()))
            .collect();
        if useful.len() == 1 {
            if rounds[&from].is_empty() {
                return Ok(Some(self.builder.empty()));
            }
            let item = self.known((item, from, from), missing);
            return Ok(item.map(|item| self.builder.repeat(item, min, max)));
        }
        let parts = rounds.iter().flat_map(|(state, nexts)| nexts.iter().map(|next| (item, *state, *next)));
        missing.extend(parts.filter(|part| !self.made.contains_key(part)));
        if !missing.is_empty() {
            return Ok(None);
        }
        // By state: the expression of the rounds that are left; none if `to` is not reached in them.
        let mut rest: HashMap<State, Option<ExprId>> = HashMap::new();
        let layers = match max {
            // The rest of the rounds is a loop of rules.
            None => {
                let name = self.grammar.rule_name(self.grammar.start()).to_owned();
                let rules: HashMap<State, RuleId> =
                    useful.iter().map(|state| (*state, self.builder.rule(&name))).collect();
                for (state, nexts) in &rounds {
                    let mut ways = vec![];
                    if *state == to {
                        ways.push(self.builder.empty());
                    }
                    for next in nexts {
                        let (first, call) =
                            (self.made[&(item, *state, *next)], self.builder.call(rules[next]));
                        ways.push(self.builder.sequence([first, call]));
                    }
                    let body = self.builder.choice(ways);
                    self.builder.define(rules[state], body);
                }
                for (state, rule) in &rules {
                    rest.insert(*state, Some(self.builder.call(*rule)));
                }
                min
            }
            Some(max) => {
                for state in &useful {
                    let end = (*state == to).then(|| self.builder.empty());
                    rest.insert(*state, end);
                }
                max
            }
        };
        for round in (0..layers).rev() {
            self.machine.spend(rounds.len())?;
            let mut made = HashMap::new();
            for (state, nexts) in &rounds {
                let mut ways = vec![];
                if round >= min && *state == to {
                    ways.push(self.builder.empty());
                }
                for next in nexts {
                    if let Some(rest) = rest[next] {
                        let first = self.made[&(item, *state, *next)];
                        ways.push(self.builder.sequence([first, rest]));
                    }
                }
                made.insert(*state, (!ways.is_empty()).then(|| self.builder.choice(ways)));
            }
            rest = made;
            if self.builder.size() > self.limits.nodes {
                return Err(GrammarError::TooManyNodes { limit: self.limits.nodes }.into());
            }
        }
        Ok(Some(rest[&from].expect("the exits have it")))
    }

    /// The texts of a use of `terminal` that lead from one state to another.
    fn cut(&mut self, terminal: TerminalId, expr: ExprId, from: State, to: State) -> Result<ExprId, Stop> {
        let marks = self.marks.get(&expr).copied().unwrap_or_default();
        let key = (terminal, marks, from, to);
        if let Some(known) = self.cuts.get(&key) {
            return Ok(*known);
        }
        let steps = self.machine.steps(terminal, marks, from)?;
        let classes = steps.iter().find(|(next, _)| *next == to).map(|(_, classes)| classes.clone());
        let Some(classes) = classes.expect("the exits have it") else {
            return Err(Stop::Opaque(self.machine.place_of(to)));
        };
        let (name, own) = (self.grammar.terminal_name(terminal).to_owned(), self.grammar.terminal(terminal));
        let pending = self.machine.pending(from);
        let whole = self.machine.paths(terminal, &pending)?.filter(|paths| !paths.is_whole(&classes));
        let made = match whole {
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

/// By expression: whether some conditional terminal is in it, or in a rule that it calls.
fn conditional(grammar: &Grammar, looks: &Looks) -> Vec<bool> {
    let mut wholes: Vec<Vec<ExprId>> = vec![vec![]; grammar.expressions()];
    let mut callers: HashMap<RuleId, Vec<ExprId>> = HashMap::new();
    for expr in grammar.expression_ids() {
        match grammar.expr(expr) {
            Expr::Sequence(parts) | Expr::Choice(parts) => {
                parts.iter().for_each(|part| wholes[part.index()].push(expr));
            }
            Expr::Repeat { item, .. } => wholes[item.index()].push(expr),
            Expr::Rule(rule) => callers.entry(rule).or_default().push(expr),
            Expr::Unordered(group) => {
                group.rules().for_each(|rule| callers.entry(rule).or_default().push(expr));
            }
            Expr::Empty | Expr::Terminal(_) => {}
        }
    }
    for rule in grammar.rules() {
        wholes[grammar.body(rule).index()].extend(callers.remove(&rule).unwrap_or_default());
    }
    let mut found = vec![false; grammar.expressions()];
    let mut open: Vec<ExprId> = looks.keys().copied().collect();
    while let Some(expr) = open.pop() {
        if !std::mem::replace(&mut found[expr.index()], true) {
            open.extend(wholes[expr.index()].iter().copied());
        }
    }
    found
}
