//! Maximal munch: a text is cut into terminals in one way only. This module decides for which grammars that
//! causes no dead end.
//!
//! # Meaning
//!
//! A text is cut from left to right. All terminals that the parser allows at a boundary are read in parallel from
//! there. Before a byte with which any of them continues, none of them ends. Before any other byte, every
//! terminal with a complete text ends, and the terminals that may follow one of these begin. Terminals that end
//! together, such as a keyword and a name, are all kept: there are no priorities. At the end of the output, every
//! terminal with a complete text ends. Nothing is undone: where `"list" | "listen"` and then `"ed"` may follow,
//! `listed` is not a word, because after `list` the `e` continues `listen`. This is a contextual scanner (Van Wyk
//! and Schwerdfeger, "Context-aware scanning for parsing extensible languages", 2007) without backtracking.
//!
//! Terminals begin together and end together, so the configurations of a walk (`parser/places.rs`) need only
//! this rule: if any hypothesis continues with a byte, the boundary is left out.
//!
//! # Dead ends
//!
//! Under this rule, a text may be cut so that it cannot be completed: where only `"b"` may follow a name, `b`
//! continues the name. The rule is about bytes and not characters: letters of three bytes share their first
//! byte with punctuation, so `/\p{L}+/` never ends before `。`. Whether a grammar has such a text is a
//! question about many stacks in parallel, and about *none* of their hypotheses continuing with a byte. So
//! [`check`] proves a sufficient condition, and rejects every grammar for which it cannot prove it:
//!
//! 1. **Beside** (`beside.rs`). For every position, a superset of the terminals that may begin together with
//!    those of the position.
//! 2. **Exits** (`scanned.rs`). Let a terminal *T* be read at a position, and let *q* be a state in which its
//!    text is complete. A byte is *taken* in *q* if *T* continues with it, or if a terminal beside *T*
//!    continues with it after a text that leads *T* to *q*. *T* **exits** before a terminal *U* if every
//!    state of *T* can reach some *q* in which some first byte of *U* is not taken.
//! 3. **Completions.** For a position and the terminal *T* read before it: the terminals that may be the last ones of
//!    the rule, over all ways on which each terminal exits before the next. A least fixpoint: such a way is finite.
//! 4. **Returns.** For a rule: the last terminals after which all of its callers, and their callers, can be
//!    completed. A greatest fixpoint, over the calls around a position, of which there are finitely many in
//!    every text.
//!
//! A grammar passes if, after every terminal of every position, the sets of 3 and 4 have a common member. It
//! also passes if another terminal with that property **covers** the terminal: it continues with every byte
//! with which the terminal continues, as `"listen"` covers `list`. The other terminal belongs to the same
//! position, or to a rule called there.
//!
//! *Proof that there is no dead end.* Take any reading of a text that is not cut off: *T*, in a state, with its
//! position and the calls around it. If *T* is covered, take the covering terminal instead: it began with *T* and
//! is still read. By 4, and by 3 for each of these calls, there are terminals *U1*, ..., *Un* that complete the
//! reading, and each one before the next exits before it. Continue *T* to the *q* of step 2. *T* itself continues
//! with each of these bytes, so it is not cut off by any terminal read beside it. Before the first byte of
//! *U1* no terminal continues, because step 1 counted all terminals that are read beside *T*. So all terminals with
//! a complete text end, *T* among them, and *U1* begins. The same argument applies to *U1*, and so on up to *Un*,
//! where the output ends. The first terminals of a text begin where nothing was read, so no byte is taken there.
//!
//! The condition is not necessary: step 1 assumes more than is possible, step 2 requires an exit from every
//! state, and step 4 requires completion for all callers. A rejected grammar may be free of dead ends. An
//! example is a grammar in which `" "` follows `":"` in one place, `": "` occurs in another, and expressions
//! between them can be read in two ways, as in Python's.
//!
//! Distinct terminals and bounded repetitions make an exit depend on earlier texts. They, differences, and
//! members in any order come from JSON Schema and from programs alone, and never from the text of a grammar.
//! They are rejected by name.
//!
//! Tried instead: reachable sets of readings, as a lexer generator builds them, with stacks cut off at some
//! depth. Two bracketed expressions have thousands of sets. A superfluous reading also makes the set of
//! possible exits *smaller*, so approximate sets prove nothing.

mod beside;
mod scanned;

use std::collections::{HashMap, HashSet};

use unskew_core::Vocabulary;
use unskew_trie::TokenTrie;

use self::{
    beside::{Beside, Layout},
    scanned::Scanned,
};
use crate::{
    GrammarError, GrammarLimits,
    grammar::{
        data::{Expr, Grammar, RuleId, Terminal, TerminalId},
        fixpoint::nullable,
    },
    ids::{Id, Table},
    network::{
        rules::{Position, Rules},
        terminals::{Numbering, ScanTerminal, Terminals, numbering},
    },
};

/// The remaining work of a check.
struct Budget {
    left: u64,
    limit: u64,
}

/// The cost of a stored entry, in steps. Counting entries bounds the memory of a check too.
const ENTRY: u64 = 64;

impl Budget {
    fn spend(&mut self, steps: u64) -> Result<(), GrammarError> {
        self.left = self.left.checked_sub(steps).ok_or(GrammarError::MunchTooCostly { limit: self.limit })?;
        Ok(())
    }
}

/// A set of [classes](Classes).
type ClassSet = u128;

/// The greatest number of classes.
const CLASSES: usize = ClassSet::BITS as usize;

/// Terminals at positions, in classes: two are in one class if they exit before the same beginnings.
struct Classes {
    /// By class: the [beginnings](Scanned::beginnings) before which its members exit. Class 0 exits before
    /// all of them. It is also the class of the beginning of the output.
    rows: Vec<Vec<u64>>,
    /// By position: the classes of its terminals, in their order.
    of: Vec<Vec<u8>>,
}

impl Classes {
    fn new(
        rules: &Rules,
        beside: &Beside,
        scanned: &mut Scanned<'_>,
        budget: &mut Budget,
    ) -> Result<Self, GrammarError> {
        let mut classes = Self { rows: vec![scanned.all()], of: Vec::with_capacity(rules.len()) };
        let mut known: HashMap<(ScanTerminal, Vec<ScanTerminal>), u8> = HashMap::new();
        for position in positions(rules) {
            let terminals = rules.terminals(position);
            let others: Vec<ScanTerminal> =
                if terminals.is_empty() { Vec::new() } else { beside.of(position).collect() };
            let mut of = Vec::with_capacity(terminals.len());
            for (terminal, _) in terminals {
                let rivals = scanned.rivals(*terminal, &others);
                budget.spend(1 + rivals.len() as u64)?;
                let class = match known.get(&(*terminal, rivals.clone())) {
                    Some(class) => *class,
                    None => {
                        let row = scanned.exits(*terminal, &rivals, budget)?;
                        let class = classes.class(row);
                        known.insert((*terminal, rivals), class);
                        class
                    }
                };
                of.push(class);
            }
            classes.of.push(of);
        }
        Ok(classes)
    }

    /// The class of the terminals that exit before `row`.
    fn class(&mut self, row: Vec<u64>) -> u8 {
        let found = self.rows.iter().position(|known| *known == row);
        let class = found.unwrap_or_else(|| {
            if self.rows.len() < CLASSES {
                self.rows.push(row);
            } else if let Some(last) = self.rows.last_mut() {
                // The remaining terminals share the last class. It exits before the common beginnings of them all.
                last.iter_mut().zip(row).for_each(|(last, row)| *last &= row);
            }
            self.rows.len() - 1
        });
        u8::try_from(class).expect("few classes")
    }
}

/// By position and class of the terminal read before it: the classes of the terminals that may be the last
/// ones of the rule.
struct Completions<'a> {
    rules: &'a Rules,
    scanned: &'a Scanned<'a>,
    classes: &'a Classes,
    /// By position and class.
    last: HashMap<(Position, u8), ClassSet>,
    /// By position and class: the entries that use the result of this one.
    used_by: HashMap<(Position, u8), Vec<(Position, u8)>>,
    uses: HashSet<((Position, u8), (Position, u8))>,
    open: Vec<(Position, u8)>,
}

impl Completions<'_> {
    /// The result for `of` so far. It grows until [`settle`](Self::settle) has been called.
    fn ask(&mut self, of: (Position, u8), by: Option<(Position, u8)>) -> ClassSet {
        if let Some(by) = by
            && self.uses.insert((of, by))
        {
            self.used_by.entry(of).or_default().push(by);
        }
        *self.last.entry(of).or_insert_with(|| {
            self.open.push(of);
            0
        })
    }

    fn settle(&mut self, budget: &mut Budget) -> Result<(), GrammarError> {
        while let Some(of) = self.open.pop() {
            let found = self.find(of, budget)?;
            let last = self.last.entry(of).or_insert(0);
            if *last != found {
                *last = found;
                let users = self.used_by.get(&of).map_or(&[][..], |users| &users[..]);
                budget.spend(users.len() as u64)?;
                self.open.extend_from_slice(users);
            }
        }
        Ok(())
    }

    fn find(&mut self, of: (Position, u8), budget: &mut Budget) -> Result<ClassSet, GrammarError> {
        let (rules, scanned, classes) = (self.rules, self.scanned, self.classes);
        let (position, before) = of;
        let mut found = if rules.is_accepting(position) { 1 << before } else { 0 };
        let row = &classes.rows[usize::from(before)];
        let terminals = rules.terminals(position);
        budget.spend(1 + (terminals.len() + rules.calls(position).len()) as u64)?;
        let asked = self.uses.len();
        // Of a thousand literals that lead to one position, most are of one class.
        let mut seen = None;
        for ((terminal, to), class) in terminals.iter().zip(&classes.of[position.index()]) {
            if scanned.allows(row, *terminal) && seen != Some((*to, *class)) {
                seen = Some((*to, *class));
                found |= self.ask((*to, *class), Some(of));
            }
        }
        for (callee, to) in rules.calls(position) {
            let ends = self.ask((rules.start(*callee), before), Some(of));
            for class in members(ends) {
                budget.spend(1)?;
                found |= self.ask((*to, class), Some(of));
            }
        }
        budget.spend((self.uses.len() - asked) as u64 * ENTRY)?;
        Ok(found)
    }
}

/// By rule: the classes of the last terminals after which all of its callers can be completed.
fn returns(
    layout: &Layout,
    completions: &mut Completions<'_>,
    budget: &mut Budget,
) -> Result<Table<RuleId, ClassSet>, GrammarError> {
    let rules = completions.rules;
    let classes = completions.classes.rows.len();
    for (_, back) in layout.callers.entries().iter().flatten() {
        budget.spend(classes as u64 * ENTRY)?;
        for class in 0..classes {
            completions.ask((*back, u8::try_from(class).expect("few classes")), None);
        }
    }
    completions.settle(budget)?;
    let mut called: Table<RuleId, Vec<(RuleId, Position)>> = Table::filled(layout.callers.len(), Vec::new());
    for (callee, callers) in layout.callers.iter() {
        for (from, back) in callers {
            let caller = layout.rule_of(*from).expect("the end calls no rule");
            called[caller].push((callee, *back));
        }
    }
    let mut returns = Table::filled(layout.callers.len(), ClassSet::MAX);
    let all = layout.callers.iter().map(|(rule, _)| rule);
    let mut open: Vec<RuleId> = all.filter(|rule| rules.is_reached(*rule)).collect();
    while let Some(rule) = open.pop() {
        for (callee, back) in &called[rule] {
            budget.spend(1 + classes as u64)?;
            let mut good = 0;
            for class in 0..classes {
                let last = completions.ask((*back, u8::try_from(class).expect("few classes")), None);
                good |= ClassSet::from(last & returns[rule] != 0) << class;
            }
            let of_callee = &mut returns[*callee];
            if *of_callee & !good != 0 {
                *of_callee &= good;
                open.push(*callee);
            }
        }
    }
    Ok(returns)
}

impl Grammar {
    /// Whether [`GrammarConstraint::with_maximal_munch`](crate::GrammarConstraint::with_maximal_munch)
    /// accepts the grammar, over a vocabulary with all bytes and with its control tokens. The cost is bounded
    /// by [`GrammarLimits::munch_steps`].
    ///
    /// # Errors
    ///
    /// As for `with_maximal_munch`.
    pub fn check_maximal_munch(&self, limits: &GrammarLimits) -> Result<(), GrammarError> {
        let mut vocabulary = Vocabulary::builder();
        (0..=255u8).for_each(|byte| {
            vocabulary.text(&[byte]);
        });
        for terminal in self.terminals() {
            match self.terminal(terminal) {
                Terminal::Token(name) => {
                    vocabulary.control(name);
                }
                Terminal::Tokens(_) | Terminal::OneOf(_) | Terminal::TokenBudget(_) => {
                    let what =
                        format!("terminal `{}`, tokens that are no text", self.terminal_name(terminal));
                    return Err(GrammarError::NoMunch { what });
                }
                _ => {}
            }
        }
        let vocabulary = vocabulary.build().expect("grammars are smaller than vocabularies may be");
        let trie = TokenTrie::new(vocabulary).expect("the texts are bytes");
        let numbering = numbering(self);
        let rules = Rules::new(self, &numbering, limits)?;
        let used = rules.used_terminals(numbering.len());
        let terminals = Terminals::new(self, &numbering, &used, &trie)?;
        check(self, &numbering, &rules, &terminals, limits)
    }
}

/// Checks that no text of the grammar reaches a dead end under maximal munch, by the sufficient condition above.
///
/// # Errors
///
/// [`GrammarError::MunchDeadEnd`], [`GrammarError::NoMunch`] and [`GrammarError::MunchTooCostly`].
pub(crate) fn check(
    grammar: &Grammar,
    names: &Numbering,
    rules: &Rules,
    terminals: &Terminals,
    limits: &GrammarLimits,
) -> Result<(), GrammarError> {
    let used = rules.used_terminals(names.len());
    refuse_others(grammar, names, rules, &used)?;
    let mut budget = Budget { left: limits.munch_steps, limit: limits.munch_steps };
    let start = grammar.start();
    let nullable = nullable(grammar);
    let layout =
        Layout::new(rules, grammar.rules().map(|rule| nullable[grammar.body(rule).index()]).collect());
    let mut scanned = Scanned::new(terminals, &used);
    let beside = Beside::new(rules, &layout, &mut scanned, start, &mut budget)?;
    let classes = Classes::new(rules, &beside, &mut scanned, &mut budget)?;
    let mut completions = Completions {
        rules,
        scanned: &scanned,
        classes: &classes,
        last: HashMap::new(),
        used_by: HashMap::new(),
        uses: HashSet::new(),
        open: Vec::new(),
    };
    completions.ask((rules.start(start), 0), None);
    for position in positions(rules) {
        for ((_, to), class) in rules.terminals(position).iter().zip(&classes.of[position.index()]) {
            completions.ask((*to, *class), None);
        }
    }
    let returns = returns(&layout, &mut completions, &mut budget)?;

    // Positions with an edge for which no completion was found, each with a flag per terminal: whether one was found.
    let mut lost: Vec<(Position, Vec<bool>)> = Vec::new();
    for position in positions(rules) {
        let back = layout.rule_of(position).map_or(0, |rule| returns[rule]);
        let edges = rules.terminals(position).iter().zip(&classes.of[position.index()]);
        let found: Vec<bool> =
            edges.map(|((_, to), class)| completions.ask((*to, *class), None) & back != 0).collect();
        if found.contains(&false) {
            lost.push((position, found));
        }
    }
    let mut failed: Option<Failed> = None;
    let lost_at: HashMap<Position, Vec<bool>> = lost.iter().cloned().collect();
    for (position, mut found) in lost {
        cover(rules, position, &mut found, &lost_at, &mut scanned, &mut budget)?;
        let edges = rules.terminals(position).iter().zip(&classes.of[position.index()]);
        for (((terminal, to), class), _) in edges.zip(found).filter(|(_, found)| !found) {
            let followers = followers(rules, &layout, *to, &mut budget)?;
            let row = &classes.rows[usize::from(*class)];
            // The most informative failure is one where no terminal can follow at all.
            let says_most = !followers.is_empty() && followers.iter().all(|next| !scanned.allows(row, *next));
            let rule = layout.rule_of(position).expect("nothing follows the end");
            let this = Failed { rule, terminal: *terminal, followers };
            if says_most {
                return Err(this.into_error(grammar, names));
            }
            failed.get_or_insert(this);
        }
    }
    match failed {
        Some(failed) => Err(failed.into_error(grammar, names)),
        None => Ok(()),
    }
}

/// Sets the flag in `found` for every edge of `position` that is covered by an edge with a completion, of the
/// position or of rules called there: the covering terminal never ends first. `lost` has, by position, the
/// flags of the edges, unless all are set.
fn cover(
    rules: &Rules,
    position: Position,
    found: &mut [bool],
    lost: &HashMap<Position, Vec<bool>>,
    scanned: &mut Scanned<'_>,
    budget: &mut Budget,
) -> Result<(), GrammarError> {
    let edges = rules.terminals(position);
    let mut left: Vec<usize> = (0..edges.len()).filter(|at| !found[*at]).collect();
    let mut marked: Vec<ScanTerminal> = Vec::new();
    let mut called = vec![position];
    let mut seen: HashSet<Position> = called.iter().copied().collect();
    let mut next = 0;
    while !left.is_empty() {
        let by: Vec<ScanTerminal> = match marked.pop() {
            Some(by) => vec![by],
            None => {
                let Some(from) = called.get(next).copied() else { break };
                next += 1;
                let starts = rules.calls(from).iter().map(|(callee, _)| rules.start(*callee));
                called.extend(starts.filter(|start| seen.insert(*start)));
                budget.spend(1 + (rules.calls(from).len() + rules.terminals(from).len()) as u64)?;
                let is_found = |at: usize| lost.get(&from).is_none_or(|found| found[at]);
                let edges = rules.terminals(from).iter().enumerate();
                edges.filter(|(at, _)| is_found(*at)).map(|(_, (terminal, _))| *terminal).collect()
            }
        };
        for by in by {
            let mut still = Vec::new();
            for at in left {
                budget.spend(1)?;
                found[at] = scanned.covers(by, edges[at].0, budget)?;
                match found[at] {
                    true => marked.push(edges[at].0),
                    false => still.push(at),
                }
            }
            left = still;
        }
    }
    Ok(())
}

/// A terminal of a rule after which no completion was found.
struct Failed {
    rule: RuleId,
    terminal: ScanTerminal,
    followers: Vec<ScanTerminal>,
}

impl Failed {
    fn into_error(self, grammar: &Grammar, names: &Numbering) -> GrammarError {
        /// The number of followers in the message.
        const TOLD: usize = 4;
        let name = |name: ScanTerminal| {
            let found = grammar.terminals().find(|terminal| names[*terminal] == name);
            found.map_or("", |terminal: TerminalId| grammar.terminal_name(terminal)).to_owned()
        };
        let mut next: Vec<String> =
            self.followers.iter().take(TOLD).map(|follower| format!("`{}`", name(*follower))).collect();
        if self.followers.len() > TOLD {
            next.push(format!("{} more", self.followers.len() - TOLD));
        }
        GrammarError::MunchDeadEnd {
            rule: grammar.rule_name(self.rule).to_owned(),
            terminal: name(self.terminal),
            next: if next.is_empty() { "nothing".to_owned() } else { next.join(", ") },
        }
    }
}

/// The FOLLOW set of `position`, over all callers, in ascending order.
fn followers(
    rules: &Rules,
    layout: &Layout,
    position: Position,
    budget: &mut Budget,
) -> Result<Vec<ScanTerminal>, GrammarError> {
    // Positions, each with a flag: whether its rule may return there. A rule that was called on the way may not.
    let mut open = vec![(position, true)];
    let mut seen: HashSet<(Position, bool)> = open.iter().copied().collect();
    let mut found: HashSet<ScanTerminal> = HashSet::new();
    while let Some((position, returns)) = open.pop() {
        budget.spend(1 + (rules.terminals(position).len() + rules.calls(position).len()) as u64)?;
        found.extend(rules.terminals(position).iter().map(|(terminal, _)| *terminal));
        let mut add = |next| {
            if seen.insert(next) {
                open.push(next);
            }
        };
        for (callee, to) in rules.calls(position) {
            add((rules.start(*callee), false));
            if layout.nullable[*callee] {
                add((*to, returns));
            }
        }
        if returns && rules.is_accepting(position) {
            layout.callers_around(position).iter().for_each(|(_, back)| add((*back, true)));
        }
    }
    let mut found: Vec<ScanTerminal> = found.into_iter().collect();
    found.sort_unstable();
    Ok(found)
}

/// Rejects terminals and groups that are not read as an automaton of their own.
fn refuse_others(
    grammar: &Grammar,
    names: &Numbering,
    rules: &Rules,
    used: &Table<ScanTerminal, bool>,
) -> Result<(), GrammarError> {
    let no = |what: String| Err(GrammarError::NoMunch { what });
    for terminal in grammar.terminals().filter(|terminal| used[names[*terminal]]) {
        let kind = match grammar.terminal(terminal) {
            Terminal::Literal(_) | Terminal::Automaton(_) | Terminal::Token(_) => continue,
            Terminal::Difference(_) => "a difference of texts",
            Terminal::BoundedRepetition(_) => "a bounded repetition",
            Terminal::BoundedLength(_) => "an automaton with a bounded length",
            Terminal::Distinct(_) => "distinct texts",
            Terminal::Tokens(_) | Terminal::OneOf(_) | Terminal::TokenBudget(_) => "tokens that are no text",
        };
        return no(format!("terminal `{}`, {kind}", grammar.terminal_name(terminal)));
    }
    let is_group = |rule: &RuleId| {
        rules.is_reached(*rule) && matches!(grammar.expr(grammar.body(*rule)), Expr::Unordered(_))
    };
    match grammar.rules().find(is_group) {
        Some(rule) => no(format!("rule `{}`, members in any order", grammar.rule_name(rule))),
        None => Ok(()),
    }
}

fn positions(rules: &Rules) -> impl Iterator<Item = Position> + use<> {
    (0..rules.len()).map(Position::from_index)
}

/// The classes in a set.
fn members(mut set: ClassSet) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros())?;
        set &= set - 1;
        u8::try_from(bit).ok()
    })
}
