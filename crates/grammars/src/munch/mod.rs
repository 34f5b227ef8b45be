//! Maximal munch: one way only to cut a text into terminals, and which grammars come to no dead end by it.
//!
//! # Meaning
//!
//! A text is cut from left to right. All terminals that the parser allows where one is begun are read side by side from
//! there. In front of a byte with which any of them goes on, none of them ends; in front of any other byte, all of them end
//! whose text is complete, and those that may follow one of them are begun. So of several that end together, a keyword and a
//! name, all are kept: there are no priorities. The end of the output ends a terminal wherever its text may end. Nothing is taken
//! back: where `"list" | "listen"` and then `"ed"` may follow, `listed` is no word, for behind `list` the `e` goes on with
//! `listen`. That is a contextual scanner (Van Wyk and Schwerdfeger, "Context-aware scanning for parsing extensible languages",
//! 2007) without backtracking.
//!
//! Terminals are begun together and end together, so the places of a walk (`places.rs`) need no more than this rule: if any
//! reading goes on with a byte, the boundary is left out.
//!
//! # Dead ends
//!
//! Under this rule a text may be cut so that it can never be completed: where only `"b"` may follow a name, `b` goes on with the
//! name. Bytes count, and not characters: letters of three bytes share the first with punctuation, so `/\p{L}+/` never ends
//! in front of `。`. Whether a grammar has such texts is a question about many stacks side by side, and about *none* of their
//! readings going on with a byte. So [`check`] proves what is enough, and refuses what it cannot prove:
//!
//! 1. **Beside** (`beside.rs`). For every position, at least the terminals that may be begun where its own are.
//! 2. **Exits** (`scanned.rs`). Let a terminal *T* be read at a position, and let *q* be a state in which its text is complete.
//!    *Taken* in *q* are the bytes with which *T* goes on, and those with which any terminal beside it goes on behind a text that
//!    leads *T* to *q*. *T* **exits** in front of a terminal *U* if from every state of *T* some *q* is reached in which a
//!    byte with which *U* begins is not taken.
//! 3. **Completions.** For a position and what *T* was read before it: the terminals that may be read last before its rule ends,
//!    where each exits in front of the next. A least fixpoint: such a way has an end.
//! 4. **Returns.** For a rule: the terminals behind which all of its callers can be completed, and theirs. A greatest
//!    fixpoint, over calls, which are finitely many in every text.
//!
//! A grammar passes if behind every terminal of every position 3 and 4 have something in common; or if another terminal of the
//! position, or of rules that are called there, for which it is so **covers** it: goes on with every byte with which it does, as
//! `"listen"` with `list`.
//!
//! *Proof that then there is no dead end.* Take any reading of a text that is not cut off: *T*, in a state, with its position
//! and the calls around it. If *T* is covered, take what covers it: it was begun with *T* and is still read. By 4, and 3 for
//! each of these calls, there are terminals *U1*, ..., *Un* that complete it, each of which the one before exits in front of.
//! Read *T* on to the *q* of 2; it goes on with each of these bytes itself, so it is not cut off, whatever goes on beside it. In
//! front of the byte that *U1* begins with nothing goes on, for by 1 all that is read beside *T* was counted; so all that may
//! end ends, *T* among them, and *U1* is begun. It is a reading of a text in its turn, and so on to *Un*; there the output
//! ends. The first terminals are begun where nothing was read, so nothing is taken there.
//!
//! It is enough and not needed: step 1 takes more for possible than is, 2 asks for a way out of every state and 4 for one
//! behind all callers. A grammar that is refused may be without dead ends: where `":"` is followed by `" "` in one place and `": "`
//! stands in another, and expressions in between can be read in two ways, as those of Python can.
//!
//! Kinds of terminals that an exit depends on earlier texts for (distinct texts, bounded units), differences and members in
//! any order come from JSON Schema and from programs alone, not from the text of a grammar; they are refused by name.
//!
//! Tried instead: reachable sets of readings, as a lexer generator makes them, with stacks cut off at some depth. Two
//! expressions in brackets and it has thousands of sets; and a reading too many makes such a set *smaller*, so it proves
//! nothing.

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
    ids::NONE,
    network::{
        rules::{Position, Rules},
        terminals::{Terminals, names},
    },
};

/// What is left of the work that a check may take.
struct Budget {
    left: u64,
    limit: u64,
}

/// What something that is kept costs of it, so that it bounds memory too.
const ENTRY: u64 = 64;

impl Budget {
    fn spend(&mut self, steps: u64) -> Result<(), GrammarError> {
        self.left = self.left.checked_sub(steps).ok_or(GrammarError::MunchTooCostly { limit: self.limit })?;
        Ok(())
    }
}

/// A set of [classes](Classes).
type ClassSet = u128;

/// So many classes there may be at most.
const CLASSES: usize = ClassSet::BITS as usize;

/// Terminals at positions, by what they exit in front of: those that agree are one class.
struct Classes {
    /// By class, the [beginnings](Scanned::beginnings) in front of which it exits. Class 0 exits in front of all; it is that
    /// of the beginning of the output too.
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
        let mut known: HashMap<(u32, Vec<u32>), u8> = HashMap::new();
        for position in positions(rules) {
            let terminals = rules.terminals(position);
            let others: Vec<u32> =
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

    /// The class of what exits in front of `row`.
    fn class(&mut self, row: Vec<u64>) -> u8 {
        let found = self.rows.iter().position(|known| *known == row);
        let class = found.unwrap_or_else(|| {
            if self.rows.len() < CLASSES {
                self.rows.push(row);
            } else if let Some(last) = self.rows.last_mut() {
                // All that are left over share one, which exits in front of less than each of them.
                last.iter_mut().zip(row).for_each(|(last, row)| *last &= row);
            }
            self.rows.len() - 1
        });
        u8::try_from(class).expect("few classes")
    }
}

/// By position and class of what was read before it: the classes of what may be read last before its rule ends.
struct Completions<'a> {
    rules: &'a Rules,
    scanned: &'a Scanned<'a>,
    classes: &'a Classes,
    /// By position and class.
    last: HashMap<(Position, u8), ClassSet>,
    /// By position and class, those in whose answer its own is used.
    used_by: HashMap<(Position, u8), Vec<(Position, u8)>>,
    uses: HashSet<((Position, u8), (Position, u8))>,
    open: Vec<(Position, u8)>,
}

impl Completions<'_> {
    /// What is found for this so far. It grows until [`settle`](Self::settle) has been called.
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
        // Of a thousand literals that lead to one place most are of one class.
        let mut seen = None;
        for ((terminal, to), class) in terminals.iter().zip(&classes.of[position as usize]) {
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

/// By rule, the classes of what may be read last in it so that all of its callers can be completed.
fn returns(
    layout: &Layout,
    completions: &mut Completions<'_>,
    budget: &mut Budget,
) -> Result<Vec<ClassSet>, GrammarError> {
    let rules = completions.rules;
    let classes = completions.classes.rows.len();
    for (_, back) in layout.callers.iter().flatten() {
        budget.spend(classes as u64 * ENTRY)?;
        for class in 0..classes {
            completions.ask((*back, u8::try_from(class).expect("few classes")), None);
        }
    }
    completions.settle(budget)?;
    let mut called: Vec<Vec<(u32, Position)>> = vec![Vec::new(); layout.callers.len()];
    for (callee, callers) in (0u32..).zip(&layout.callers) {
        for (from, back) in callers {
            called[layout.rule_of[*from as usize] as usize].push((callee, *back));
        }
    }
    let mut returns = vec![ClassSet::MAX; layout.callers.len()];
    let mut open: Vec<u32> = (0u32..).take(returns.len()).filter(|rule| rules.start(*rule) != NONE).collect();
    while let Some(rule) = open.pop() {
        for (callee, back) in &called[rule as usize] {
            budget.spend(1 + classes as u64)?;
            let mut good = 0;
            for class in 0..classes {
                let last = completions.ask((*back, u8::try_from(class).expect("few classes")), None);
                good |= ClassSet::from(last & returns[rule as usize] != 0) << class;
            }
            let of_callee = &mut returns[*callee as usize];
            if *of_callee & !good != 0 {
                *of_callee &= good;
                open.push(*callee);
            }
        }
    }
    Ok(returns)
}

impl Grammar {
    /// Whether [`GrammarConstraint::with_maximal_munch`](crate::GrammarConstraint::with_maximal_munch) takes the grammar, over
    /// a vocabulary that has its bytes and control tokens.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn check_maximal_munch(&self, limits: &GrammarLimits) -> Result<(), GrammarError> {
        let mut vocabulary = Vocabulary::builder();
        (0..=255u8).for_each(|byte| {
            vocabulary.text(&[byte]);
        });
        for terminal in self.terminals() {
            if let Terminal::Token(name) = self.terminal(terminal) {
                vocabulary.control(name);
            }
        }
        let vocabulary = vocabulary.build().expect("grammars are smaller than vocabularies may be");
        let trie = TokenTrie::new(vocabulary).expect("the texts are bytes");
        let names = names(self);
        let rules = Rules::new(self, &names, limits)?;
        let used = rules.used_terminals(names.len());
        let terminals = Terminals::new(self, &names, &used, &trie)?;
        check(self, &names, &rules, &terminals, limits)
    }
}

/// Whether no text of the grammar comes to a dead end under maximal munch, as far as that is found by the way above.
///
/// # Errors
///
/// [`GrammarError::MunchDeadEnd`], [`GrammarError::NoMunch`] and [`GrammarError::MunchTooCostly`].
pub(crate) fn check(
    grammar: &Grammar,
    names: &[u32],
    rules: &Rules,
    terminals: &Terminals,
    limits: &GrammarLimits,
) -> Result<(), GrammarError> {
    let used = rules.used_terminals(names.len());
    refuse_others(grammar, names, rules, &used)?;
    let mut budget = Budget { left: limits.munch_steps, limit: limits.munch_steps };
    let start = grammar.start().0;
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
        for ((_, to), class) in rules.terminals(position).iter().zip(&classes.of[position as usize]) {
            completions.ask((*to, *class), None);
        }
    }
    let returns = returns(&layout, &mut completions, &mut budget)?;

    // Positions, the places of terminals among their edges, and whether a way to the end was found behind each.
    let mut lost: Vec<(Position, Vec<bool>)> = Vec::new();
    for position in positions(rules) {
        let back = returns.get(layout.rule_of[position as usize] as usize).copied().unwrap_or(0);
        let edges = rules.terminals(position).iter().zip(&classes.of[position as usize]);
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
        let edges = rules.terminals(position).iter().zip(&classes.of[position as usize]);
        for (((terminal, to), class), _) in edges.zip(found).filter(|(_, found)| !found) {
            let followers = followers(rules, &layout, *to, &mut budget)?;
            let row = &classes.rows[usize::from(*class)];
            // Of the places where it fails, one says most in which nothing at all may follow.
            let says_most = !followers.is_empty() && followers.iter().all(|next| !scanned.allows(row, *next));
            let this = Failed { rule: layout.rule_of[position as usize], terminal: *terminal, followers };
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

/// Marks the edges of `position` as `found` that are covered by another one which is, of the position or of rules that are
/// called there: what is read by it never ends first. `lost`: by position, what was found for its edges, if not all.
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
    let mut marked: Vec<u32> = Vec::new();
    let mut called = vec![position];
    let mut seen: HashSet<Position> = called.iter().copied().collect();
    let mut next = 0;
    while !left.is_empty() {
        let by: Vec<u32> = match marked.pop() {
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

/// A terminal of a rule behind which no way to the end was found.
struct Failed {
    rule: u32,
    terminal: u32,
    followers: Vec<u32>,
}

impl Failed {
    fn into_error(self, grammar: &Grammar, names: &[u32]) -> GrammarError {
        /// More of them are not told.
        const TOLD: usize = 4;
        let name = |name: u32| {
            let found = grammar.terminals().find(|terminal| names[terminal.index()] == name);
            found.map_or("", |terminal: TerminalId| grammar.terminal_name(terminal)).to_owned()
        };
        let mut next: Vec<String> =
            self.followers.iter().take(TOLD).map(|follower| format!("`{}`", name(*follower))).collect();
        if self.followers.len() > TOLD {
            next.push(format!("{} more", self.followers.len() - TOLD));
        }
        GrammarError::MunchDeadEnd {
            rule: grammar.rule_name(RuleId(self.rule)).to_owned(),
            terminal: name(self.terminal),
            next: if next.is_empty() { "nothing".to_owned() } else { next.join(", ") },
        }
    }
}

/// The terminals that may follow where `position` is, by any caller; in ascending order.
fn followers(
    rules: &Rules,
    layout: &Layout,
    position: Position,
    budget: &mut Budget,
) -> Result<Vec<u32>, GrammarError> {
    // Positions, and whether their rule may end there for them: not where it was called on the way.
    let mut open = vec![(position, true)];
    let mut seen: HashSet<(Position, bool)> = open.iter().copied().collect();
    let mut found: HashSet<u32> = HashSet::new();
    while let Some((position, returns)) = open.pop() {
        let rule = layout.rule_of[position as usize];
        budget.spend(1 + (rules.terminals(position).len() + rules.calls(position).len()) as u64)?;
        found.extend(rules.terminals(position).iter().map(|(terminal, _)| *terminal));
        let mut add = |next| {
            if seen.insert(next) {
                open.push(next);
            }
        };
        for (callee, to) in rules.calls(position) {
            add((rules.start(*callee), false));
            if layout.nullable[*callee as usize] {
                add((*to, returns));
            }
        }
        if returns && rules.is_accepting(position) {
            layout.callers[rule as usize].iter().for_each(|(_, back)| add((*back, true)));
        }
    }
    let mut found: Vec<u32> = found.into_iter().collect();
    found.sort_unstable();
    Ok(found)
}

/// Refuses what is not read as an automaton of its own.
fn refuse_others(grammar: &Grammar, names: &[u32], rules: &Rules, used: &[bool]) -> Result<(), GrammarError> {
    let no = |what: String| Err(GrammarError::NoMunch { what });
    for terminal in grammar.terminals().filter(|terminal| used[names[terminal.index()] as usize]) {
        let kind = match grammar.terminal(terminal) {
            Terminal::Literal(_) | Terminal::Automaton(_) | Terminal::Token(_) => continue,
            Terminal::Except(_) => "a language but for some texts",
            Terminal::Counted(_) => "a bounded number of units",
            Terminal::Distinct(_) => "texts that may not come twice",
        };
        return no(format!("terminal `{}`, {kind}", grammar.terminal_name(terminal)));
    }
    let is_group = |rule: &RuleId| {
        rules.start(rule.0) != NONE && matches!(grammar.expr(grammar.body(*rule)), Expr::Unordered(_))
    };
    match grammar.rules().find(is_group) {
        Some(rule) => no(format!("rule `{}`, members in any order", grammar.rule_name(rule))),
        None => Ok(()),
    }
}

fn positions(rules: &Rules) -> impl Iterator<Item = Position> + use<> {
    0..u32::try_from(rules.len()).expect("limited")
}

/// The classes of a set.
fn members(mut set: ClassSet) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros())?;
        set &= set - 1;
        u8::try_from(bit).ok()
    })
}
