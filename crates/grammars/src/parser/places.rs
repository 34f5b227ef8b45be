//! Where a sequence is: the readings of its text that are still open, kept once.
//!
//! A **reading** is a terminal, how far its text is read, and what is left to do behind it. All readings of a text are kept:
//! there is no lexer that decides for the longest match, so `listed` may be `"list"` and `"ed"` or `"listed"` for as long as
//! the grammar allows both. Readings that are equal but for what is left to do are one; readings whose terminal must end
//! here are one, the *boundary*. A **place** is a set of readings, named by a number: equal places are one number, so a mask
//! that was made once is found again, and going on by a byte is a look into a table, filled when it is first asked for.
//!
//! Under [maximal munch](crate::munch) the readings of a place have begun at the same byte. Where any of them goes on, the others
//! are left out, the boundary too.
//!
//! Places are what a walk over the vocabulary steps through; so a token that ends a terminal, or five of them, is nothing
//! special.

use hashbrown::HashMap;
use smallvec::SmallVec;
use unskew_core::TokenId;
use unskew_trie::ByteSet;

use super::engine::{Parser, Pending, Todo};
use crate::{
    ids::Ids,
    ids::NONE,
    network::{
        rules::Rules,
        terminals::{Scanner, Terminals},
    },
    terminal::remaining::MANY,
    unique::{
        distinct::{Begun, Texts, Used},
        used_ways::{Of, UsedWays},
    },
};

/// A set of readings.
pub(crate) type Place = u32;

/// There is no place behind this byte: no reading goes on with it.
pub(crate) const DEAD: Place = u32::MAX;

/// Not looked up yet.
const UNKNOWN: Place = u32::MAX - 3;

/// The terminal of the reading that is between two terminals.
pub(crate) const BOUNDARY: u32 = u32::MAX;

/// A terminal that is being read. Literals with a common beginning are read together: the terminal is then the first of
/// them, the state the length of what is read, and `todo` what was left to do before. That is so too for a text that is
/// tracked; its state is the [beginning](Begun) that was read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Reading {
    pub(crate) terminal: u32,
    pub(crate) state: u32,
    /// How many terminals ended since the token began, plus one; zero at the beginning of a token, and wherever nobody
    /// counts.
    pub(crate) ended: u32,
    /// What is left to do behind the terminal; of literals and texts that are tracked, before them.
    pub(crate) todo: Todo,
}

/// What does not change: the grammar, compiled.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) rules: Rules,
    pub(crate) terminals: Terminals,
    pub(crate) start: u32,
    /// At most so many terminals may end inside a token.
    pub(crate) lookahead: Option<u32>,
    /// Whether terminals end only in front of bytes with which none of them goes on; see [`munch`](crate::munch).
    pub(crate) munches: bool,
}

/// All places that were made so far, and the parser's tables behind them.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) parser: Parser,
    readings: Vec<Reading>,
    first: Vec<u32>,
    ids: Ids,
    /// By place: its row, or [`NONE`].
    row: Vec<u32>,
    /// By place: whether the output may end there, once it was asked for.
    may_end: Vec<Option<bool>>,
    /// By row and class: the place behind the byte.
    next: Vec<Place>,
    width: usize,
    /// By what is left to do: the bytes with which it may begin.
    first_bytes: Vec<Option<ByteSet>>,
    /// By terminal and state: the bytes with which it goes on.
    next_bytes: HashMap<(u32, u32), ByteSet>,
    buffers: (Vec<Reading>, Vec<Reading>),
    /// Where texts that may not come twice are tracked.
    tracked: Option<Tracked>,
    pub(crate) work: Work,
}

#[derive(Debug, Default)]
struct Tracked {
    texts: Texts,
    ways: UsedWays,
    /// By what is pending: the bytes that it may begin with.
    behind: HashMap<Pending, ByteSet>,
}

impl Tracked {
    fn memory_usage(&self) -> usize {
        const ENTRY: usize = 80;
        self.texts.memory_usage() + self.ways.memory_usage() + self.behind.len() * ENTRY
    }
}

/// Measures of work that are the same on every machine; see [`GrammarStats`](crate::GrammarStats).
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Work {
    pub(crate) reads: u64,
    pub(crate) steps: u64,
    pub(crate) readings: u64,
}

impl Places {
    pub(crate) fn new(compiled: &Compiled) -> Self {
        Self::with(compiled, None)
    }

    /// Places in which it is known what texts may not come again; for texts and not for walks over the vocabulary. How many
    /// terminals end inside a token is not counted.
    pub(crate) fn tracking(compiled: &Compiled) -> Self {
        Self::with(compiled, Some(Tracked::default()))
    }

    fn with(compiled: &Compiled, tracked: Option<Tracked>) -> Self {
        let parser = match &tracked {
            Some(_) => Parser::tracking(&compiled.rules, compiled.start),
            None => Parser::new(&compiled.rules, compiled.start),
        };
        let mut places = Self {
            parser,
            readings: Vec::new(),
            first: vec![0],
            ids: Ids::default(),
            row: Vec::new(),
            may_end: Vec::new(),
            next: Vec::new(),
            width: compiled.terminals.width(),
            first_bytes: Vec::new(),
            next_bytes: HashMap::new(),
            buffers: Default::default(),
            tracked,
            work: Work::default(),
        };
        let start = places.boundary(Parser::START);
        debug_assert_eq!(start, Self::START);
        places
    }

    /// Before anything was read.
    pub(crate) const START: Place = 0;

    /// The number of places.
    pub(crate) fn len(&self) -> usize {
        self.row.len()
    }

    /// The place between two terminals, with this left to do.
    pub(crate) fn boundary(&mut self, todo: Todo) -> Place {
        self.insert(&[Reading { terminal: BOUNDARY, state: 0, ended: 0, todo }])
    }

    /// The place of one reading.
    pub(crate) fn single(&mut self, reading: Reading) -> Place {
        self.insert(&[reading])
    }

    /// The place behind `byte` where it begins one of `edges`, none of which reads literals; or [`DEAD`].
    pub(crate) fn begin(&mut self, compiled: &Compiled, edges: &[(u32, Todo)], byte: u8) -> Place {
        let terminals = &compiled.terminals;
        let class = terminals.class(byte);
        let begun = edges.iter().filter_map(|(terminal, todo)| {
            let state = terminals.first(*terminal, class);
            (state != NONE).then_some(Reading { terminal: *terminal, state, ended: 0, todo: *todo })
        });
        let mut readings: Vec<Reading> = begun.collect();
        if readings.is_empty() { DEAD } else { self.place(&mut readings, compiled) }
    }

    /// The bytes with which what is left to do may begin.
    pub(crate) fn first_bytes(&mut self, compiled: &Compiled, todo: Todo) -> ByteSet {
        let at = todo as usize;
        if self.first_bytes.len() <= at {
            self.first_bytes.resize(at + 1, None);
        }
        if let Some(bytes) = self.first_bytes[at] {
            return bytes;
        }
        let followers = self.parser.followers(todo, &compiled.rules);
        let bytes = compiled.terminals.first_bytes_of(self.parser.edges(followers));
        self.first_bytes[at] = Some(bytes);
        bytes
    }

    /// The bytes with which `reading` may go on.
    fn next_bytes(&mut self, compiled: &Compiled, reading: Reading) -> ByteSet {
        let terminals = &compiled.terminals;
        let mut bytes = match self.behind(compiled, reading) {
            Some(todo) => self.first_bytes(compiled, todo),
            None => ByteSet::default(),
        };
        if reading.terminal == BOUNDARY {
            return bytes;
        }
        if terminals.is_literal(reading.terminal) {
            let followers = self.parser.followers(reading.todo, &compiled.rules);
            let literals = terminals.literals(self.parser.edges(followers));
            let depth = reading.state as usize;
            terminals.add_next_bytes(terminals.sharing(literals, reading.terminal, depth), depth, &mut bytes);
        } else {
            let next = self
                .next_bytes
                .entry((reading.terminal, reading.state))
                .or_insert_with(|| terminals.next_bytes(reading.terminal, reading.state));
            bytes.union(next);
        }
        bytes
    }

    /// The place of all readings of `place` but the one at this index; or [`DEAD`].
    pub(crate) fn without(&mut self, place: Place, index: usize) -> Place {
        let mut readings: SmallVec<[Reading; 8]> = self.readings(place).into();
        readings.remove(index);
        if readings.is_empty() { DEAD } else { self.insert(&readings) }
    }

    /// The readings of `place`, in ascending order, no two equal but for what is left to do.
    #[inline]
    pub(crate) fn readings(&self, place: Place) -> &[Reading] {
        &self.readings[self.first[place as usize] as usize..self.first[place as usize + 1] as usize]
    }

    /// The place of `readings`, which may be in any order and repeat.
    pub(crate) fn place(&mut self, readings: &mut Vec<Reading>, compiled: &Compiled) -> Place {
        self.merge(readings, compiled);
        self.insert(readings)
    }

    /// Puts `readings` in order, in which those that are equal but for what is left to do are one.
    fn merge(&mut self, readings: &mut Vec<Reading>, compiled: &Compiled) {
        let terminals = &compiled.terminals;
        let tracks = self.tracked.is_some();
        let begins_before = |terminal: u32| {
            terminal != BOUNDARY
                && (terminals.is_literal(terminal) || tracks && terminals.is_distinct(terminal))
        };
        for reading in readings.iter_mut() {
            if reading.terminal != BOUNDARY
                && !begins_before(reading.terminal)
                && terminals.is_final(reading.terminal, reading.state)
            {
                (reading.terminal, reading.state) = (BOUNDARY, 0);
            }
        }
        readings.sort_unstable();
        let mut kept: usize = 0;
        for at in 0..readings.len() {
            let reading = readings[at];
            let same = |last: &Reading| {
                *last == reading
                    || (!begins_before(reading.terminal)
                        && (last.terminal, last.state, last.ended)
                            == (reading.terminal, reading.state, reading.ended))
            };
            match kept.checked_sub(1).filter(|last| same(&readings[*last])) {
                Some(last) => {
                    readings[last].todo =
                        self.parser.union(readings[last].todo, reading.todo, &compiled.rules);
                }
                None => {
                    readings[kept] = reading;
                    kept += 1;
                }
            }
        }
        readings.truncate(kept);
    }

    /// The place behind `byte`, or [`DEAD`]; kept for the next time, for walks over the vocabulary. Not where texts are tracked.
    #[inline]
    pub(crate) fn step(&mut self, compiled: &Compiled, place: Place, byte: u8) -> Place {
        let class = compiled.terminals.class(byte);
        let row = self.row[place as usize];
        if row != NONE {
            let next = self.next[row as usize * self.width + usize::from(class)];
            if next != UNKNOWN {
                return next;
            }
        }
        self.look_up(compiled, place, class)
    }

    /// The place behind `bytes`, or [`DEAD`]. No places are made on the way to it.
    pub(crate) fn run(&mut self, compiled: &Compiled, place: Place, bytes: &[u8]) -> Place {
        let (mut at, behind) = self.read_all(compiled, place, bytes);
        if compiled.lookahead.is_some() && self.tracked.is_none() {
            // The next token counts anew.
            at.iter_mut().for_each(|reading| reading.ended = 0);
            self.merge(&mut at, compiled);
        }
        let place = if at.is_empty() { DEAD } else { self.insert(&at) };
        self.buffers = (at, behind);
        place
    }

    /// Whether anything is behind `bytes`. No places are made.
    pub(crate) fn reads(&mut self, compiled: &Compiled, place: Place, bytes: &[u8]) -> bool {
        let (at, behind) = self.read_all(compiled, place, bytes);
        let reads = !at.is_empty();
        self.buffers = (at, behind);
        reads
    }

    /// The readings behind `bytes`; and a buffer. Both are to be put back.
    fn read_all(
        &mut self,
        compiled: &Compiled,
        place: Place,
        mut bytes: &[u8],
    ) -> (Vec<Reading>, Vec<Reading>) {
        let (mut at, mut behind) = std::mem::take(&mut self.buffers);
        at.clear();
        at.extend_from_slice(self.readings(place));
        loop {
            if let [reading] = &mut at[..] {
                bytes = self.read_alone(compiled, reading, bytes);
            }
            let Some((byte, rest)) = bytes.split_first().filter(|_| !at.is_empty()) else { break };
            self.read(compiled, &at, *byte, &mut behind);
            std::mem::swap(&mut at, &mut behind);
            self.merge(&mut at, compiled);
            bytes = rest;
        }
        (at, behind)
    }

    /// Reads on in the only reading there is for as long as its terminal goes on and cannot end, which is nearly all of a text.
    /// Answers what is left of `bytes`: it may go on there.
    fn read_alone<'b>(&mut self, compiled: &Compiled, reading: &mut Reading, bytes: &'b [u8]) -> &'b [u8] {
        let (state, len) = match reading.terminal {
            BOUNDARY => return bytes,
            terminal if compiled.terminals.is_literal(terminal) => {
                self.read_literal(compiled, *reading, bytes)
            }
            _ => self.read_other(compiled, *reading, bytes),
        };
        if len > 0 {
            reading.state = state;
            if compiled.lookahead.is_some() && self.tracked.is_none() {
                reading.ended = reading.ended.max(1);
            }
            self.work.steps += len as u64;
            self.work.readings += len as u64;
        }
        &bytes[len..]
    }

    /// How many of `bytes` are those of the only literal of `reading`, its last one not counted, and the state behind them.
    fn read_literal(&mut self, compiled: &Compiled, reading: Reading, bytes: &[u8]) -> (u32, usize) {
        let Reading { terminal, state, todo, .. } = reading;
        let terminals = &compiled.terminals;
        let followers = self.parser.followers(todo, &compiled.rules);
        let literals = terminals.literals(self.parser.edges(followers));
        let depth = state as usize;
        let [_] = terminals.sharing(literals, terminal, depth) else { return (state, 0) };
        let Some((_, left)) = terminals.literal(terminal)[depth..].split_last() else { return (state, 0) };
        let len = left.iter().zip(bytes).take_while(|(byte, other)| byte == other).count();
        (state + u32::try_from(len).expect("limited"), len)
    }

    /// With how many of `bytes` the terminal of `reading`, no literal, goes on and cannot end, and the state behind them.
    fn read_other(&mut self, compiled: &Compiled, reading: Reading, bytes: &[u8]) -> (u32, usize) {
        let Reading { terminal, mut state, .. } = reading;
        let terminals = &compiled.terminals;
        let mut texts = self.tracked.as_mut().filter(|_| terminals.is_distinct(terminal));
        let may_end = |texts: &Option<&mut Tracked>, state: u32| {
            let state = texts.as_ref().map_or(state, |tracked| tracked.texts.state(state));
            terminals.is_accepting(terminal, state)
        };
        // Where few texts are left, each byte is looked at.
        let is_scarce = || terminals.remaining(terminal).is_some_and(|(_, remaining)| remaining.is_scarce);
        if may_end(&texts, state) || texts.is_some() && is_scarce() {
            return (state, 0);
        }
        for (len, byte) in bytes.iter().enumerate() {
            let next = match &mut texts {
                Some(tracked) => tracked.texts.step(terminals, state, *byte),
                None => terminals.step(terminal, state, terminals.class(*byte)),
            };
            if next == NONE || may_end(&texts, next) {
                return (state, len);
            }
            state = next;
        }
        (state, bytes.len())
    }

    /// The place after `token`, read by its id and not by its text; or [`DEAD`].
    pub(crate) fn by_id(&mut self, compiled: &Compiled, place: Place, token: TokenId) -> Place {
        let mut after: Vec<Reading> = Vec::new();
        self.each_of_tokens(compiled, place, |terminal, todo| {
            if compiled.terminals.reads_token(terminal, token) {
                after.push(Reading { terminal: BOUNDARY, state: 0, ended: 0, todo });
            }
        });
        if after.is_empty() { DEAD } else { self.place(&mut after, compiled) }
    }

    /// Calls `each` with the terminals that may follow and are tokens, and the work that is left after them.
    pub(crate) fn each_of_tokens(
        &mut self,
        compiled: &Compiled,
        place: Place,
        mut each: impl FnMut(u32, Todo),
    ) {
        for todo in self.ended(compiled, place) {
            let followers = self.parser.followers(todo, &compiled.rules);
            for (terminal, todo) in compiled.terminals.others(self.parser.edges(followers)) {
                if let Scanner::Token(_) | Scanner::OneOf(_) = compiled.terminals.scanner(*terminal) {
                    each(*terminal, *todo);
                }
            }
        }
    }

    /// The place of the readings of both, either of which may be [`DEAD`].
    pub(crate) fn both(&mut self, compiled: &Compiled, first: Place, second: Place) -> Place {
        match (first, second) {
            (DEAD, only) | (only, DEAD) => only,
            _ => {
                let mut readings = [self.readings(first), self.readings(second)].concat();
                self.place(&mut readings, compiled)
            }
        }
    }

    /// Whether what is left to do at `place` has more than `limit` items.
    pub(crate) fn has_more_than(&self, limit: usize, place: Place) -> bool {
        self.parser.are_more_than(limit, self.readings(place).iter().map(|reading| reading.todo))
    }

    /// Whether the output may end here.
    pub(crate) fn may_end(&mut self, compiled: &Compiled, place: Place) -> bool {
        if let Some(known) = self.may_end[place as usize] {
            return known;
        }
        let ended = self.ended(compiled, place);
        let may_end = ended.into_iter().any(|todo| {
            let followers = self.parser.followers(todo, &compiled.rules);
            let others = compiled.terminals.others(self.parser.edges(followers));
            let is_end = |(terminal, _): &(u32, Todo)| compiled.terminals.is_end(*terminal);
            followers.ends || compiled.terminals.has_end() && others.iter().any(is_end)
        });
        self.may_end[place as usize] = Some(may_end);
        may_end
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.parser.memory_usage()
            + self.readings.len() * size_of::<Reading>()
            + self.first.len() * (3 * size_of::<u32>() + Ids::ENTRY)
            + self.next.len() * size_of::<Place>()
            + (self.first_bytes.len() + 2 * self.next_bytes.len()) * size_of::<ByteSet>()
            + self.tracked.as_ref().map_or(0, Tracked::memory_usage)
    }

    /// The texts that are tracked.
    pub(crate) fn texts(&self) -> Option<&Texts> {
        self.tracked.as_ref().map(|tracked| &tracked.texts)
    }

    /// The same, to add to.
    pub(crate) fn texts_mut(&mut self) -> Option<&mut Texts> {
        self.tracked.as_mut().map(|tracked| &mut tracked.texts)
    }

    /// What used texts do to the beginnings of others, and what it is found with.
    pub(crate) fn used_ways<'a>(&'a mut self, compiled: &'a Compiled) -> Option<(Of<'a>, &'a mut UsedWays)> {
        let Tracked { texts, ways, .. } = self.tracked.as_mut()?;
        Some((Of { terminals: &compiled.terminals, texts, sets: &self.parser.used }, ways))
    }

    /// How many texts that were used were looked at.
    pub(crate) fn looks(&self) -> u64 {
        self.parser.used.looks + self.tracked.as_ref().map_or(0, |tracked| tracked.ways.looks)
    }

    /// What is pending behind a text of `terminal` that was begun where `todo` is left to do.
    pub(crate) fn pending(&mut self, compiled: &Compiled, todo: Todo, terminal: u32) -> Option<Pending> {
        let followers = self.parser.followers(todo, &compiled.rules);
        let edges = self.parser.edges(followers);
        let found = edges.binary_search_by_key(&terminal, |(terminal, _)| *terminal).ok()?;
        Some(edges[found].1)
    }

    /// The terminals that may begin behind `bytes`, literals not counted. No places are made.
    pub(crate) fn beginning(
        &mut self,
        compiled: &Compiled,
        place: Place,
        bytes: &[u8],
    ) -> SmallVec<[u32; 8]> {
        let (at, behind) = self.read_all(compiled, place, bytes);
        let mut terminals = SmallVec::new();
        for reading in at.iter().copied() {
            if let Some(todo) = self.behind(compiled, reading) {
                let followers = self.parser.followers(todo, &compiled.rules);
                let others = compiled.terminals.others(self.parser.edges(followers)).iter();
                terminals.extend(others.map(|(terminal, _)| *terminal));
            }
        }
        self.buffers = (at, behind);
        terminals
    }

    /// Whether texts of `terminal` are tracked here.
    fn tracks(&self, compiled: &Compiled, terminal: u32) -> bool {
        self.tracked.is_some() && compiled.terminals.is_distinct(terminal)
    }

    /// Adds the reading of `begun`, a beginning of a text of `terminal` in front of which `todo` was left to do, if it can
    /// come to a text that was not used.
    fn add_begun(
        &mut self,
        compiled: &Compiled,
        behind: &mut Vec<Reading>,
        (terminal, begun): (u32, Begun),
        todo: Todo,
    ) {
        let terminals = &compiled.terminals;
        let Some(tracked) = self.tracked.as_mut().filter(|_| begun != NONE) else { return };
        if terminals.is_final(terminal, tracked.texts.state(begun)) {
            let text = tracked.texts.whole(begun);
            let Some(pending) = self.pending(compiled, todo, terminal) else { return };
            if let Some(todo) = self.parser.behind_text(pending, text, &compiled.rules) {
                behind.push(Reading { terminal: BOUNDARY, state: 0, ended: 0, todo });
            }
        } else if self.goes_on(compiled, (terminal, begun), todo) {
            behind.push(Reading { terminal, state: begun, ended: 0, todo });
        }
    }

    /// Whether `begun` can come to a text that was not used: it can, but where few texts are left.
    fn goes_on(&mut self, compiled: &Compiled, (terminal, begun): (u32, Begun), todo: Todo) -> bool {
        let Some((except, remaining)) = compiled.terminals.remaining(terminal) else { return true };
        if !remaining.is_scarce {
            return true;
        }
        let Some(texts) = self.texts() else { return true };
        if remaining.of(except.state(texts.state(begun))) == MANY {
            return true;
        }
        let Some(pending) = self.pending(compiled, todo, terminal) else { return false };
        let sets: SmallVec<[Used; 4]> = self.parser.used_before(pending).collect();
        let Some((mut of, ways)) = self.used_ways(compiled) else { return true };
        sets.into_iter().any(|used| !ways.is_exhausted(&mut of, terminal, used, begun))
    }

    /// What is left to do behind the readings that may end here.
    fn ended(&mut self, compiled: &Compiled, place: Place) -> SmallVec<[Todo; 4]> {
        let mut ended = SmallVec::new();
        for at in self.first[place as usize]..self.first[place as usize + 1] {
            ended.extend(self.behind(compiled, self.readings[at as usize]));
        }
        ended
    }

    /// Whether a text that is tracked may end here, and anything behind it begin with `byte`; true for all others. Of thousands of texts that tokens go on
    /// in, none has to be added to those that were used.
    fn may_begin_behind(&mut self, compiled: &Compiled, reading: Reading, byte: u8) -> bool {
        if reading.terminal == BOUNDARY || !self.tracks(compiled, reading.terminal) {
            return true;
        }
        let Some(texts) = self.texts() else { return true };
        if !compiled.terminals.is_accepting(reading.terminal, texts.state(reading.state)) {
            return false;
        }
        let Some(pending) = self.pending(compiled, reading.todo, reading.terminal) else { return false };
        if let Some(bytes) = self.tracked.as_ref().and_then(|tracked| tracked.behind.get(&pending)) {
            return bytes.contains(byte);
        }
        let todo = self.parser.behind_any(pending, &compiled.rules);
        let bytes = self.first_bytes(compiled, todo);
        if let Some(tracked) = &mut self.tracked {
            tracked.behind.insert(pending, bytes);
        }
        bytes.contains(byte)
    }

    /// What is left to do behind `reading`, if it may end here.
    fn behind(&mut self, compiled: &Compiled, reading: Reading) -> Option<Todo> {
        let Reading { terminal, state, todo, .. } = reading;
        if terminal == BOUNDARY {
            return Some(todo);
        }
        let terminals = &compiled.terminals;
        if self.tracks(compiled, terminal) {
            let tracked = self.tracked.as_mut()?;
            if !terminals.is_accepting(terminal, tracked.texts.state(state)) {
                return None;
            }
            let text = tracked.texts.whole(state);
            let pending = self.pending(compiled, todo, terminal)?;
            return self.parser.behind_text(pending, text, &compiled.rules);
        }
        if terminals.is_literal(terminal) {
            if terminals.literal_len(terminal) != state as usize {
                return None;
            }
            let followers = self.parser.followers(todo, &compiled.rules);
            let literals = terminals.literals(self.parser.edges(followers));
            let found = literals.binary_search_by_key(&terminal, |(terminal, _)| *terminal);
            return found.ok().map(|at| literals[at].1);
        }
        terminals.is_accepting(terminal, state).then_some(todo)
    }

    #[cold]
    fn look_up(&mut self, compiled: &Compiled, place: Place, class: u8) -> Place {
        if self.row[place as usize] == NONE {
            self.add_row(compiled, place);
            if self.next[self.row[place as usize] as usize * self.width + usize::from(class)] == DEAD {
                return DEAD;
            }
        }
        let (mut at, mut behind) = std::mem::take(&mut self.buffers);
        at.clear();
        at.extend_from_slice(self.readings(place));
        self.read(compiled, &at, compiled.terminals.bytes()[usize::from(class)], &mut behind);
        let next = if behind.is_empty() { DEAD } else { self.place(&mut behind, compiled) };
        self.buffers = (at, behind);
        self.next[self.row[place as usize] as usize * self.width + usize::from(class)] = next;
        next
    }

    /// What is behind `byte` where these are `readings`, in any order. Where texts are not tracked, that is so for all bytes of its
    /// class.
    fn read(&mut self, compiled: &Compiled, readings: &[Reading], byte: u8, behind: &mut Vec<Reading>) {
        self.work.steps += 1;
        self.work.readings += readings.len() as u64;
        let terminals = &compiled.terminals;
        let class = terminals.class(byte);
        let lookahead = compiled.lookahead.filter(|_| self.tracked.is_none());
        let mut begun: SmallVec<[(u32, Todo); 4]> = SmallVec::new();
        behind.clear();
        // What goes on and what is begun, at once or, with maximal munch, the second only if there is nothing of the first.
        let turns: &[(bool, bool)] =
            if compiled.munches { &[(true, false), (false, true)] } else { &[(true, true)] };
        for (may_go_on, may_begin) in turns.iter().copied() {
            if !behind.is_empty() {
                break;
            }
            for reading in readings.iter().copied() {
                let (mut goes_on, mut begins) = (0, 0);
                if let Some(limit) = lookahead {
                    // The end of a terminal in front of the first byte of a token is free.
                    goes_on = reading.ended.max(1);
                    begins = reading.ended + 1;
                    if begins > limit.saturating_add(1) {
                        begins = NONE;
                    }
                }
                if may_go_on && reading.terminal != BOUNDARY {
                    if terminals.is_literal(reading.terminal) {
                        let followers = self.parser.followers(reading.todo, &compiled.rules);
                        let literals = terminals.literals(self.parser.edges(followers));
                        let depth = reading.state as usize;
                        let sharing = terminals.sharing(literals, reading.terminal, depth);
                        let literals = terminals.going_on(sharing, depth, class);
                        behind.extend(literal(terminals, literals, depth + 1, goes_on, reading.todo));
                    } else if let Some(tracked) =
                        self.tracked.as_mut().filter(|_| terminals.is_distinct(reading.terminal))
                    {
                        let next = tracked.texts.step(terminals, reading.state, byte);
                        self.add_begun(compiled, behind, (reading.terminal, next), reading.todo);
                    } else {
                        let state = terminals.step(reading.terminal, reading.state, class);
                        if state != NONE {
                            behind.push(Reading { state, ended: goes_on, ..reading });
                        }
                    }
                }
                if begins == NONE || !may_begin || !self.may_begin_behind(compiled, reading, byte) {
                    continue;
                }
                if let Some(todo) = self.behind(compiled, reading) {
                    let followers = self.parser.followers(todo, &compiled.rules);
                    let edges = self.parser.edges(followers);
                    let literals = terminals.going_on(terminals.literals(edges), 0, class);
                    behind.extend(literal(terminals, literals, 1, begins, todo));
                    for (terminal, next) in terminals.others(edges) {
                        if self.tracked.is_some() && terminals.is_distinct(*terminal) {
                            begun.push((*terminal, todo));
                            continue;
                        }
                        let state = terminals.first(*terminal, class);
                        if state != NONE {
                            behind.push(Reading { terminal: *terminal, state, ended: begins, todo: *next });
                        }
                    }
                }
                for (terminal, todo) in begun.drain(..) {
                    let first = self.tracked.as_mut();
                    let first = first.map_or(NONE, |tracked| tracked.texts.first(terminals, terminal, byte));
                    self.add_begun(compiled, behind, (terminal, first), todo);
                }
            }
        }
    }

    /// Makes the row of `place`, in which it says at once with which bytes nothing goes on: most.
    fn add_row(&mut self, compiled: &Compiled, place: Place) {
        let mut bytes = ByteSet::default();
        for at in self.first[place as usize]..self.first[place as usize + 1] {
            let next = self.next_bytes(compiled, self.readings[at as usize]);
            bytes.union(&next);
        }
        self.row[place as usize] = u32::try_from(self.next.len() / self.width).expect("bounded memory");
        let goes_on = compiled.terminals.bytes().iter().map(|byte| bytes.contains(*byte));
        self.next.extend(goes_on.map(|goes_on| if goes_on { UNKNOWN } else { DEAD }));
    }

    fn insert(&mut self, readings: &[Reading]) -> Place {
        let (all, first) = (&self.readings, &self.first);
        let get = |place: Place| &all[first[place as usize] as usize..first[place as usize + 1] as usize];
        let next = u32::try_from(self.row.len()).expect("bounded memory");
        let place = self.ids.get_or_insert(self.ids.hash(readings), next, |place| get(place) == readings);
        if place == next {
            self.readings.extend_from_slice(readings);
            self.first.push(u32::try_from(self.readings.len()).expect("bounded memory"));
            self.row.push(NONE);
            self.may_end.push(None);
        }
        place
    }
}

/// The reading of `literals`, which are edges of `todo` and agree in their first `depth` bytes.
fn literal(
    terminals: &Terminals,
    literals: &[(u32, Todo)],
    depth: usize,
    ended: u32,
    todo: Todo,
) -> Option<Reading> {
    let (first, behind) = *literals.first()?;
    if literals.len() == 1 && terminals.literal_len(first) == depth {
        return Some(Reading { terminal: BOUNDARY, state: 0, ended, todo: behind });
    }
    Some(Reading { terminal: first, state: u32::try_from(depth).expect("limited"), ended, todo })
}
