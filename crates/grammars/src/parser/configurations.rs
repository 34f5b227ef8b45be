//! Configurations: the hypotheses about the text of a sequence that are still open, kept once.
//!
//! A [hypothesis](super::hypotheses) is a terminal, how far its text is read, and the parser state after it. A
//! **configuration** is a set of hypotheses with an id: equal sets have one id, so a mask that was made once is found
//! again. The configuration after a byte is looked up in a table, whose entries are filled when they are first asked
//! for.
//!
//! Walks over the vocabulary step through configurations. So a token that ends one terminal, or five, is no special
//! case.

use hashbrown::HashMap;
use smallvec::SmallVec;
use unskew_automata::StateId;
use unskew_core::TokenId;
use unskew_grammar::{
    RuleId,
    kit::terminal::{ScanState, reading::Scan},
};
use unskew_trie::{ByteSet, SafeBytes};

use super::{
    hypotheses::Hypothesis,
    states::{Parser, ParserState},
    tracking::Tracked,
};
use crate::{
    ids::{Id, Lists, Table, id},
    network::{
        rules::Rules,
        safe::safe_bytes,
        terminals::{ScanTerminal, Scanner, Terminals},
    },
    tuning::Tuning,
};

id! {
    /// A set of hypotheses.
    Configuration
}

id! {
    /// A row of the table of bytes.
    Row
}

id! {
    /// Safe bytes.
    SafeId
}

/// The steps of a configuration, beside those of its parser states.
const CONFIGURATION: usize = 8;

/// An entry of a row: the configuration after a byte, none, or unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Next(u32);

impl Next {
    /// No hypothesis reads the byte.
    const DEAD: Self = Self(u32::MAX);

    /// Not computed yet.
    const UNKNOWN: Self = Self(u32::MAX - 1);

    /// Of a computed entry.
    #[inline]
    fn configuration(self) -> Option<Configuration> {
        (self != Self::DEAD).then(|| Configuration::of(self.0))
    }
}

impl From<Option<Configuration>> for Next {
    fn from(next: Option<Configuration>) -> Self {
        next.map_or(Self::DEAD, |next| Self(next.raw()))
    }
}

/// The rows, in pages: one table would be copied whole as it grows, and that took 15 ms of a mask now and then.
#[derive(Debug)]
struct Rows {
    /// The number of classes.
    width: usize,
    pages: Vec<Vec<Next>>,
}

impl Rows {
    /// The rows of a page.
    const PAGE: usize = 256;

    #[inline]
    fn get(&self, row: Row, class: u8) -> Next {
        self.pages[row.index() / Self::PAGE][row.index() % Self::PAGE * self.width + usize::from(class)]
    }

    fn set(&mut self, row: Row, class: u8, next: Next) {
        self.pages[row.index() / Self::PAGE][row.index() % Self::PAGE * self.width + usize::from(class)] =
            next;
    }

    /// Adds a row, whose number follows that of the last one.
    fn push(&mut self, row: Row, nexts: impl Iterator<Item = Next>) {
        if row.index().is_multiple_of(Self::PAGE) {
            // The first page grows with its rows: most scratches have few.
            let rows = if row.index() == 0 { 0 } else { Self::PAGE };
            self.pages.push(Vec::with_capacity(rows * self.width));
        }
        self.pages[row.index() / Self::PAGE].extend(nexts);
    }

    fn memory_usage(&self) -> usize {
        self.pages.iter().map(|page| page.len() * size_of::<Next>()).sum()
    }
}

/// A compiled grammar, which does not change.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) rules: Rules,
    pub(crate) terminals: Terminals,
    pub(crate) start: RuleId,
    pub(crate) tuning: Tuning,
}

/// All configurations that were created so far, and the parser's tables.
#[derive(Debug)]
pub(crate) struct Configurations {
    pub(crate) parser: Parser,
    pub(super) hypotheses: Lists<Configuration, Hypothesis>,
    /// By configuration: the items of its parser states, each once, with the frames of their continuations.
    weights: Table<Configuration, u32>,
    /// By configuration: its row, once it has one.
    row: Table<Configuration, Option<Row>>,
    /// By row: what it takes to find the followers of the parser states that are asked for them.
    row_steps: Table<Row, u32>,
    /// By configuration: the last mask that has paid for it, and in the lowest bit whether for its row too.
    paid: Table<Configuration, u32>,
    /// By configuration: whether the output may end there, once it was asked for.
    may_end: Table<Configuration, Option<bool>>,
    /// By configuration: the safe bytes, once they were asked for.
    safe: Table<Configuration, Option<SafeId>>,
    /// The first is none.
    safe_bytes: Table<SafeId, Option<SafeBytes>>,
    /// By terminal and state of its scanner.
    safe_in_terminal: HashMap<(ScanTerminal, ScanState), SafeId>,
    /// By row and class of bytes.
    next: Rows,
    /// By parser state: the bytes with which the rest may begin.
    first_bytes: Table<ParserState, Option<ByteSet>>,
    /// By terminal and state of its scanner: the bytes that it may read.
    pub(super) next_bytes: HashMap<(ScanTerminal, ScanState), ByteSet>,
    pub(super) buffers: (Vec<Hypothesis>, Vec<Hypothesis>),
    /// Where keys are tracked.
    pub(super) tracked: Option<Tracked>,
    pub(crate) work: Work,
}

/// Measures of work that are the same on every machine; see [`GrammarStats`](crate::GrammarStats).
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Work {
    pub(crate) reads: u64,
    pub(crate) steps: u64,
    pub(crate) hypotheses: u64,
}

impl Configurations {
    pub(crate) fn new(compiled: &Compiled) -> Self {
        Self::with(compiled, None)
    }

    /// Configurations that track used keys, for the text of a sequence and not for walks over the vocabulary.
    pub(crate) fn tracking(compiled: &Compiled) -> Self {
        Self::with(compiled, Some(Tracked::default()))
    }

    fn with(compiled: &Compiled, tracked: Option<Tracked>) -> Self {
        let parser = match &tracked {
            Some(_) => Parser::tracking(&compiled.rules, compiled.start, compiled.tuning),
            None => Parser::new(&compiled.rules, compiled.start, compiled.tuning),
        };
        let mut configurations = Self {
            parser,
            hypotheses: Lists::default(),
            weights: Table::default(),
            row: Table::default(),
            row_steps: Table::default(),
            paid: Table::default(),
            may_end: Table::default(),
            safe: Table::default(),
            safe_bytes: Table::from(vec![None]),
            safe_in_terminal: HashMap::new(),
            next: Rows { width: compiled.terminals.width(), pages: Vec::new() },
            first_bytes: Table::default(),
            next_bytes: HashMap::new(),
            buffers: Default::default(),
            tracked,
            work: Work::default(),
        };
        let start = configurations.single(Hypothesis::boundary(Parser::START));
        debug_assert_eq!(start, Self::START);
        configurations
    }

    /// The configuration before anything was read.
    pub(crate) const START: Configuration = Configuration::of(0);

    /// The number of configurations.
    pub(crate) fn len(&self) -> usize {
        self.hypotheses.len()
    }

    /// The configuration of one hypothesis.
    fn single(&mut self, hypothesis: Hypothesis) -> Configuration {
        self.insert(&[hypothesis])
    }

    /// The bytes with which the rest may begin in a parser state.
    pub(crate) fn first_bytes(&mut self, compiled: &Compiled, state: ParserState) -> ByteSet {
        let followers = self.parser.followers(state, &compiled.rules);
        if let Some(bytes) = *self.first_bytes.grown_to(state) {
            return bytes;
        }
        let bytes = compiled.terminals.first_bytes_of(self.parser.edges(followers));
        self.first_bytes[state] = Some(bytes);
        bytes
    }

    /// The configuration of all hypotheses of `configuration` but the one at this index, if there are others.
    pub(crate) fn without(&mut self, configuration: Configuration, index: usize) -> Option<Configuration> {
        let mut hypotheses: SmallVec<[Hypothesis; 8]> = self.hypotheses(configuration).into();
        hypotheses.remove(index);
        if hypotheses.is_empty() { None } else { Some(self.insert(&hypotheses)) }
    }

    /// The hypotheses of a configuration, in ascending order. No two differ in their parser state alone.
    #[inline]
    pub(crate) fn hypotheses(&self, configuration: Configuration) -> &[Hypothesis] {
        self.hypotheses.get(configuration)
    }

    /// The configuration of `hypotheses`, which may be in any order and repeat; if there are any.
    pub(crate) fn configuration(
        &mut self,
        hypotheses: &mut Vec<Hypothesis>,
        compiled: &Compiled,
    ) -> Option<Configuration> {
        self.merge(hypotheses, compiled);
        if hypotheses.is_empty() { None } else { Some(self.insert(hypotheses)) }
    }

    /// The configuration after `byte`, if there is one; kept for the next time, for walks over the vocabulary. Not
    /// where keys are tracked.
    #[inline]
    pub(crate) fn step(
        &mut self,
        compiled: &Compiled,
        configuration: Configuration,
        byte: u8,
    ) -> Option<Configuration> {
        let class = compiled.terminals.class(byte);
        if let Some(row) = self.row[configuration] {
            let next = self.next.get(row, class);
            if next != Next::UNKNOWN {
                return next.configuration();
            }
        }
        self.compute_step(compiled, configuration, class)
    }

    /// The configuration after `bytes`, if there is one. None is created on the way.
    pub(crate) fn run(
        &mut self,
        compiled: &Compiled,
        configuration: Configuration,
        bytes: &[u8],
    ) -> Option<Configuration> {
        let (at, next) = self.read_all(compiled, configuration, bytes);
        let configuration = if at.is_empty() { None } else { Some(self.insert(&at)) };
        self.buffers = (at, next);
        configuration
    }

    /// Whether some hypothesis reads `bytes`. No configuration is created.
    pub(crate) fn reads(&mut self, compiled: &Compiled, configuration: Configuration, bytes: &[u8]) -> bool {
        let (at, next) = self.read_all(compiled, configuration, bytes);
        let reads = !at.is_empty();
        self.buffers = (at, next);
        reads
    }

    /// The number of bytes that some hypothesis reads.
    pub(crate) fn reach(&mut self, compiled: &Compiled, configuration: Configuration, bytes: &[u8]) -> usize {
        // Nearly all tokens end at one of the first bytes.
        let (mut read, mut refused) = (0, bytes.len() + 1);
        let mut step = 1;
        while read + 1 < refused {
            let next =
                if refused > bytes.len() { (read + step).min(bytes.len()) } else { read.midpoint(refused) };
            if self.reads(compiled, configuration, &bytes[..next]) {
                (read, step) = (next, 2 * step);
            } else {
                refused = next;
            }
        }
        read
    }

    /// The configuration after `token`, read by its id and not by its text, if there is one.
    pub(crate) fn by_id(
        &mut self,
        compiled: &Compiled,
        configuration: Configuration,
        token: TokenId,
    ) -> Option<Configuration> {
        let mut after: Vec<Hypothesis> = Vec::new();
        self.each_of_tokens(compiled, configuration, |terminal, state| {
            if compiled.terminals.reads_token(terminal, token) {
                after.push(Hypothesis::boundary(state));
            }
        });
        self.configuration(&mut after, compiled)
    }

    /// Calls `each` with the terminals that may follow and are tokens, and the parser state after each.
    pub(crate) fn each_of_tokens(
        &mut self,
        compiled: &Compiled,
        configuration: Configuration,
        mut each: impl FnMut(ScanTerminal, ParserState),
    ) {
        for state in self.ended(compiled, configuration) {
            let followers = self.parser.followers(state, &compiled.rules);
            for (terminal, target) in compiled.terminals.others(self.parser.edges(followers)) {
                if let Scanner::Token(_) | Scanner::OneOf(_) = compiled.terminals.scanner(*terminal) {
                    each(*terminal, target.state());
                }
            }
        }
    }

    /// The configuration of the hypotheses of both.
    pub(crate) fn both(
        &mut self,
        compiled: &Compiled,
        first: Option<Configuration>,
        second: Option<Configuration>,
    ) -> Option<Configuration> {
        let (Some(left), Some(right)) = (first, second) else { return first.or(second) };
        let mut hypotheses = [self.hypotheses(left), self.hypotheses(right)].concat();
        self.configuration(&mut hypotheses, compiled)
    }

    /// The items of the parser states of a configuration, each once, with the frames of their continuations. O(1).
    #[inline]
    pub(crate) fn weight(&self, configuration: Configuration) -> usize {
        self.weights[configuration] as usize
    }

    fn weight_of(&self, hypotheses: &[Hypothesis]) -> usize {
        // Hypotheses of keys have the state before the key, which is one for all kinds of keys.
        let mut states: SmallVec<[ParserState; 4]> = hypotheses.iter().map(|one| one.parser_state).collect();
        states.sort_unstable();
        states.dedup();
        states.into_iter().map(|state| self.parser.weight(state)).sum()
    }

    /// As [`step`](Self::step), for a mask, which pays for the configurations that it comes to.
    #[inline]
    pub(crate) fn step_of_mask(
        &mut self,
        compiled: &Compiled,
        configuration: Configuration,
        byte: u8,
    ) -> Option<Configuration> {
        if self.parser.meter.is_over() {
            return None;
        }
        let next = self.step(compiled, configuration, byte);
        let mark = self.parser.meter.scope() << 1;
        if self.paid[configuration] != mark | 1 {
            self.paid[configuration] = mark | 1;
            if let Some(row) = self.row[configuration] {
                self.parser.meter.add(self.row_steps[row] as usize);
            }
        }
        if let Some(next) = next
            && self.paid[next] & !1 != mark
        {
            self.paid[next] = mark;
            let weight = self.weight(next);
            self.parser.meter.add(CONFIGURATION + weight);
        }
        next
    }

    /// Whether the output may end here.
    pub(crate) fn may_end(&mut self, compiled: &Compiled, configuration: Configuration) -> bool {
        if let Some(known) = self.may_end[configuration] {
            return known;
        }
        let ended = self.ended(compiled, configuration);
        let may_end = ended.into_iter().any(|state| {
            let followers = self.parser.followers(state, &compiled.rules);
            let mut others = compiled.terminals.others(self.parser.edges(followers)).iter();
            followers.ends
                || compiled.terminals.has_end()
                    && others.any(|(terminal, _)| compiled.terminals.is_end(*terminal))
        });
        self.may_end[configuration] = Some(may_end);
        may_end
    }

    /// Bytes that lead to no dead end: those of the hypothesis that has the most. It reads them, and other hypotheses
    /// change nothing about that.
    #[inline]
    pub(crate) fn safe(&mut self, compiled: &Compiled, configuration: Configuration) -> Option<SafeBytes> {
        let id = match self.safe[configuration] {
            Some(id) => id,
            None => self.find_safe(compiled, configuration),
        };
        self.safe_bytes[id]
    }

    #[cold]
    fn find_safe(&mut self, compiled: &Compiled, configuration: Configuration) -> SafeId {
        let Self { safe_bytes: known, safe_in_terminal, .. } = self;
        let mut best = SafeId::of(0);
        for hypothesis in self.hypotheses.get(configuration) {
            let literal = |terminal: &ScanTerminal| compiled.terminals.is_literal(*terminal);
            let Some(terminal) = hypothesis.terminal.filter(|terminal| !literal(terminal)) else { continue };
            let scan = compiled.terminals.scan(terminal);
            let Some(Scan { dfa, count: None, except: None }) = scan else { continue };
            let state = hypothesis.progress.state();
            let id = *safe_in_terminal.entry((terminal, state)).or_insert_with(|| {
                known.push(safe_bytes(dfa, StateId::from_index(state.index()), &compiled.tuning))
            });
            let count = |id: SafeId| known[id].map_or(0, SafeBytes::count);
            if count(id) > count(best) {
                best = id;
            }
        }
        self.safe[configuration] = Some(best);
        best
    }

    /// The terminals that may begin after `bytes`, without literals. No configuration is created.
    pub(crate) fn beginning(
        &mut self,
        compiled: &Compiled,
        configuration: Configuration,
        bytes: &[u8],
    ) -> SmallVec<[ScanTerminal; 8]> {
        let (at, next) = self.read_all(compiled, configuration, bytes);
        let mut terminals = SmallVec::new();
        for hypothesis in at.iter().copied() {
            if let Some(state) = self.after(compiled, hypothesis) {
                let followers = self.parser.followers(state, &compiled.rules);
                let others = compiled.terminals.others(self.parser.edges(followers)).iter();
                terminals.extend(others.map(|(terminal, _)| *terminal));
            }
        }
        self.buffers = (at, next);
        terminals
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.parser.memory_usage()
            + self.hypotheses.memory_usage()
            + (self.hypotheses.len() * 5 + self.row_steps.len()) * size_of::<u32>()
            + self.next.memory_usage()
            + (self.first_bytes.len() + 2 * (self.next_bytes.len() + self.safe_in_terminal.len()))
                * size_of::<ByteSet>()
            + self.tracked.as_ref().map_or(0, Tracked::memory_usage)
    }

    /// The parser states after the hypotheses that may end here.
    fn ended(&mut self, compiled: &Compiled, configuration: Configuration) -> SmallVec<[ParserState; 4]> {
        let mut ended = SmallVec::new();
        for at in 0..self.hypotheses(configuration).len() {
            ended.extend(self.after(compiled, self.hypotheses(configuration)[at]));
        }
        ended
    }

    #[cold]
    fn compute_step(
        &mut self,
        compiled: &Compiled,
        configuration: Configuration,
        class: u8,
    ) -> Option<Configuration> {
        // The mask pays once for a configuration, and not for what is computed here.
        let spent = self.parser.meter.spent();
        let row = match self.row[configuration] {
            Some(row) => row,
            None => {
                let row = self.add_row(compiled, configuration);
                if self.next.get(row, class) == Next::DEAD {
                    self.parser.meter.reset_to(spent);
                    return None;
                }
                row
            }
        };
        let (mut at, mut after) = std::mem::take(&mut self.buffers);
        at.clear();
        at.extend_from_slice(self.hypotheses(configuration));
        self.read(compiled, &at, compiled.terminals.bytes()[usize::from(class)], &mut after);
        let next = self.configuration(&mut after, compiled);
        self.buffers = (at, after);
        self.next.set(row, class, next.into());
        self.parser.meter.reset_to(spent);
        next
    }

    /// Adds the row of a configuration. It marks at once the bytes that no hypothesis reads, which are most.
    fn add_row(&mut self, compiled: &Compiled, configuration: Configuration) -> Row {
        let mut bytes = ByteSet::default();
        let mut steps = 0u32;
        for at in 0..self.hypotheses(configuration).len() {
            let hypothesis = self.hypotheses(configuration)[at];
            let next = self.next_bytes(compiled, hypothesis);
            bytes.union(&next);
            let is_literal =
                hypothesis.terminal.is_some_and(|terminal| compiled.terminals.is_literal(terminal));
            let before = is_literal.then_some(hypothesis.parser_state);
            for state in before.into_iter().chain(self.after(compiled, hypothesis)) {
                steps = steps.saturating_add(self.parser.followers(state, &compiled.rules).steps);
            }
        }
        let row = self.row_steps.push(steps);
        self.row[configuration] = Some(row);
        let is_read = compiled.terminals.bytes().iter().map(|byte| bytes.contains(*byte));
        self.next.push(row, is_read.map(|is_read| if is_read { Next::UNKNOWN } else { Next::DEAD }));
        row
    }

    fn insert(&mut self, hypotheses: &[Hypothesis]) -> Configuration {
        let (configuration, is_new) = self.hypotheses.insert(hypotheses);
        if is_new {
            let weight = self.weight_of(hypotheses);
            self.weights.push(weight.try_into().unwrap_or(u32::MAX));
            self.row.push(None);
            self.paid.push(0);
            self.may_end.push(None);
            self.safe.push(None);
        }
        configuration
    }
}
