//! Hypotheses: how a text may be cut into terminals, and how they read a byte.
//!
//! All hypotheses of a text are kept. No lexer decides for the longest match: `listed` may be `"list"` and `"ed"`,
//! or `"listed"`, as long as the grammar allows both. Hypotheses that differ in their parser state alone are merged,
//! and so are those whose terminals must end here: these form the *boundary* between two terminals. So a
//! configuration has at most one hypothesis for each state of a scanner and each length of a literal, and the parser
//! states hold all else: where `"*"` and `"**"` may both follow, each way to cut `****` would else be one more
//! hypothesis, with a state that has as many items as there are bytes before.
//!
//! Tried instead: maximal munch, where a hypothesis that reads the next byte drops all others. It has dead ends that
//! a check must exclude, and that check refused grammars such as Python's.

use std::cmp::Ordering;

use smallvec::SmallVec;
use unskew_grammar::kit::terminal::ScanState;
use unskew_trie::ByteSet;

use super::{
    configurations::{Compiled, Configuration, Configurations},
    states::{Edge, ParserState, Target},
};
use crate::{
    ids::{Id, number},
    network::terminals::{ScanTerminal, Terminals},
    unique::keys::KeyPrefix,
};

/// A terminal that is being read.
///
/// Literals with a common prefix are read together: the terminal is then the first of them, and the parser state is
/// the one before them. The parser state of a key that is [tracked](super::tracking) is also the one before it, for
/// the state after it depends on the whole key. For all other terminals it is the state after the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Hypothesis {
    /// `None` between two terminals.
    pub(crate) terminal: Option<ScanTerminal>,
    pub(crate) progress: Progress,
    pub(crate) parser_state: ParserState,
}

const _: () = assert!(size_of::<Hypothesis>() == 12);

impl Ord for Hypothesis {
    /// By terminal; a hypothesis between two terminals comes last.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |hypothesis: &Self| {
            let terminal = hypothesis.terminal.map_or(u32::MAX, Id::raw);
            (terminal, hypothesis.progress, hypothesis.parser_state)
        };
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Hypothesis {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// How far the terminal of a hypothesis is read. The terminal decides which of three it is: of a literal, the length
/// of the prefix that was read; of a tracked key, its prefix; of any other terminal, the state of its scanner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Progress(u32);

impl Progress {
    const NONE: Self = Self(0);

    pub(crate) fn of_literal(depth: usize) -> Self {
        Self(number(depth))
    }

    #[inline]
    pub(crate) fn of_scanner(state: ScanState) -> Self {
        Self(state.raw())
    }

    pub(crate) fn of_key(prefix: KeyPrefix) -> Self {
        Self(prefix.raw())
    }

    /// The length of the prefix of a literal.
    #[inline]
    pub(crate) fn depth(self) -> usize {
        self.0 as usize
    }

    /// The state of a scanner.
    #[inline]
    pub(crate) fn state(self) -> ScanState {
        ScanState::of(self.0)
    }

    /// The prefix of a tracked key.
    #[inline]
    pub(crate) fn prefix(self) -> KeyPrefix {
        KeyPrefix::of(self.0)
    }

    /// A number that identifies the progress of a terminal.
    pub(crate) fn raw(self) -> u32 {
        self.0
    }
}

impl Hypothesis {
    /// The hypothesis between two terminals.
    pub(crate) fn boundary(parser_state: ParserState) -> Self {
        Self { terminal: None, progress: Progress::NONE, parser_state }
    }

    /// The hypothesis of a terminal that is no literal and no tracked key, with the parser state after it.
    #[inline]
    pub(crate) fn scanning(terminal: ScanTerminal, state: ScanState, after: ParserState) -> Self {
        Self { terminal: Some(terminal), progress: Progress::of_scanner(state), parser_state: after }
    }
}

impl Configurations {
    /// The bytes that a hypothesis may read.
    pub(crate) fn next_bytes(&mut self, compiled: &Compiled, hypothesis: Hypothesis) -> ByteSet {
        let terminals = &compiled.terminals;
        let Hypothesis { terminal, progress, parser_state } = hypothesis;
        let mut bytes = match self.after(compiled, hypothesis) {
            Some(state) => self.first_bytes(compiled, state),
            None => ByteSet::default(),
        };
        let Some(terminal) = terminal else { return bytes };
        if terminals.is_literal(terminal) {
            let followers = self.parser.followers(parser_state, &compiled.rules);
            let literals = terminals.literals(self.parser.edges(followers));
            let depth = progress.depth();
            terminals.add_next_bytes(terminals.sharing(literals, terminal, depth), depth, &mut bytes);
        } else {
            let state = progress.state();
            let next = self
                .next_bytes
                .entry((terminal, state))
                .or_insert_with(|| terminals.next_bytes(terminal, state));
            bytes.union(next);
        }
        bytes
    }

    /// Puts `hypotheses` in order and merges those that differ in their parser state alone, and literals of which as
    /// many bytes were read: these began at the same byte, and are literals of one state before it.
    pub(super) fn merge(&mut self, hypotheses: &mut Vec<Hypothesis>, compiled: &Compiled) {
        let terminals = &compiled.terminals;
        let tracks = self.tracked.is_some();
        let is_literal = |hypothesis: &Hypothesis| {
            hypothesis.terminal.is_some_and(|terminal| terminals.is_literal(terminal))
        };
        for at in 0..hypotheses.len() {
            let hypothesis = hypotheses[at];
            let Some(terminal) = hypothesis.terminal else { continue };
            if terminals.is_literal(terminal) {
                let alike = hypotheses.iter().filter(|other| is_literal(other));
                let alike = alike.filter(|other| other.progress == hypothesis.progress);
                hypotheses[at].terminal = alike.filter_map(|other| other.terminal).min();
            } else if !(tracks && terminals.is_distinct(terminal))
                && terminals.is_final(terminal, hypothesis.progress.state())
            {
                hypotheses[at] = Hypothesis::boundary(hypothesis.parser_state);
            }
        }
        hypotheses.sort_unstable();
        let mut kept: usize = 0;
        for at in 0..hypotheses.len() {
            let hypothesis = hypotheses[at];
            let same = |last: &Hypothesis| {
                (last.terminal, last.progress) == (hypothesis.terminal, hypothesis.progress)
            };
            match kept.checked_sub(1).filter(|last| same(&hypotheses[*last])) {
                Some(last) => {
                    let (one, other) = (hypotheses[last].parser_state, hypothesis.parser_state);
                    hypotheses[last].parser_state = self.parser.union(one, other, &compiled.rules);
                }
                None => {
                    hypotheses[kept] = hypothesis;
                    kept += 1;
                }
            }
        }
        hypotheses.truncate(kept);
    }

    /// The hypotheses after `bytes`, and a buffer. The caller puts both back into `buffers`.
    pub(super) fn read_all(
        &mut self,
        compiled: &Compiled,
        configuration: Configuration,
        mut bytes: &[u8],
    ) -> (Vec<Hypothesis>, Vec<Hypothesis>) {
        let (mut at, mut after) = std::mem::take(&mut self.buffers);
        at.clear();
        at.extend_from_slice(self.hypotheses(configuration));
        loop {
            if let [hypothesis] = &mut at[..] {
                bytes = self.read_alone(compiled, hypothesis, bytes);
            }
            if self.parser.meter.is_over() {
                at.clear();
            }
            let Some((byte, rest)) = bytes.split_first().filter(|_| !at.is_empty()) else { break };
            self.parser.meter.add(at.len());
            self.read(compiled, &at, *byte, &mut after);
            std::mem::swap(&mut at, &mut after);
            self.merge(&mut at, compiled);
            bytes = rest;
        }
        (at, after)
    }

    /// Reads with a single hypothesis as long as its terminal reads the bytes and cannot end, which is so for nearly
    /// all of a text. Answers the rest of `bytes`, whose first byte the terminal may still read.
    fn read_alone<'b>(
        &mut self,
        compiled: &Compiled,
        hypothesis: &mut Hypothesis,
        bytes: &'b [u8],
    ) -> &'b [u8] {
        let (progress, len) = match hypothesis.terminal {
            None => return bytes,
            Some(terminal) if compiled.terminals.is_literal(terminal) => {
                self.read_literal(compiled, terminal, *hypothesis, bytes)
            }
            Some(terminal) if self.tracks(compiled, terminal) => {
                self.read_key(compiled, terminal, *hypothesis, bytes)
            }
            Some(terminal) => read_other(&compiled.terminals, terminal, hypothesis.progress, bytes),
        };
        if len > 0 {
            hypothesis.progress = progress;
            self.work.steps += len as u64;
            self.work.hypotheses += len as u64;
        }
        &bytes[len..]
    }

    /// The number of `bytes` that the only literal of `hypothesis` reads before its last byte, and the progress after
    /// them.
    fn read_literal(
        &mut self,
        compiled: &Compiled,
        terminal: ScanTerminal,
        hypothesis: Hypothesis,
        bytes: &[u8],
    ) -> (Progress, usize) {
        let Hypothesis { progress, parser_state, .. } = hypothesis;
        let terminals = &compiled.terminals;
        let followers = self.parser.followers(parser_state, &compiled.rules);
        let literals = terminals.literals(self.parser.edges(followers));
        let depth = progress.depth();
        let [_] = terminals.sharing(literals, terminal, depth) else { return (progress, 0) };
        let Some((_, left)) = terminals.literal(terminal)[depth..].split_last() else {
            return (progress, 0);
        };
        let len = left.iter().zip(bytes).take_while(|(byte, other)| byte == other).count();
        (Progress::of_literal(depth + len), len)
    }

    /// The parser state after a hypothesis, if its terminal may end here.
    pub(crate) fn after(&mut self, compiled: &Compiled, hypothesis: Hypothesis) -> Option<ParserState> {
        let Hypothesis { terminal, progress, parser_state } = hypothesis;
        let Some(terminal) = terminal else { return Some(parser_state) };
        let terminals = &compiled.terminals;
        if self.tracks(compiled, terminal) {
            return self.after_key(compiled, terminal, hypothesis);
        }
        if terminals.is_literal(terminal) {
            if terminals.literal_len(terminal) != progress.depth() {
                return None;
            }
            let followers = self.parser.followers(parser_state, &compiled.rules);
            let literals = terminals.literals(self.parser.edges(followers));
            let found = literals.binary_search_by_key(&terminal, |(terminal, _)| *terminal);
            let target = literals[found.ok()?].1;
            return Some(self.parser.made(target, &compiled.rules));
        }
        terminals.is_accepting(terminal, progress.state()).then_some(parser_state)
    }

    /// The hypothesis after the bytes of a literal.
    fn begun(&mut self, compiled: &Compiled, begun: Result<Hypothesis, Target>) -> Hypothesis {
        begun.unwrap_or_else(|target| Hypothesis::boundary(self.parser.made(target, &compiled.rules)))
    }

    /// Sets `after` to the hypotheses after `byte`, in any order. Without tracked keys they are the same for all
    /// bytes of its class.
    pub(super) fn read(
        &mut self,
        compiled: &Compiled,
        hypotheses: &[Hypothesis],
        byte: u8,
        after: &mut Vec<Hypothesis>,
    ) {
        self.work.steps += 1;
        self.work.hypotheses += hypotheses.len() as u64;
        let terminals = &compiled.terminals;
        let class = terminals.class(byte);
        let mut begun: SmallVec<[(ScanTerminal, ParserState); 4]> = SmallVec::new();
        after.clear();
        for hypothesis in hypotheses.iter().copied() {
            let Hypothesis { terminal, progress, parser_state } = hypothesis;
            if let Some(terminal) = terminal {
                if terminals.is_literal(terminal) {
                    let followers = self.parser.followers(parser_state, &compiled.rules);
                    let literals = terminals.literals(self.parser.edges(followers));
                    let depth = progress.depth();
                    let sharing = terminals.sharing(literals, terminal, depth);
                    let literals = terminals.going_on(sharing, depth, class);
                    let begun = literal(terminals, literals, depth + 1, parser_state);
                    after.extend(begun.map(|begun| self.begun(compiled, begun)));
                } else if self.tracks(compiled, terminal) {
                    self.step_key(compiled, after, terminal, hypothesis, byte);
                } else if let Some(state) = terminals.step(terminal, progress.state(), class) {
                    after.push(Hypothesis::scanning(terminal, state, parser_state));
                }
            }
            if !self.may_begin_after(compiled, hypothesis, byte) {
                continue;
            }
            if let Some(state) = self.after(compiled, hypothesis) {
                let followers = self.parser.followers(state, &compiled.rules);
                let edges = self.parser.edges(followers);
                let literals = terminals.going_on(terminals.literals(edges), 0, class);
                let begun_literal = literal(terminals, literals, 1, state);
                for (terminal, target) in terminals.others(edges) {
                    if self.tracked.is_some() && terminals.is_distinct(*terminal) {
                        begun.push((*terminal, state));
                    } else if let Some(first) = terminals.first(*terminal, class) {
                        after.push(Hypothesis::scanning(*terminal, first, target.state()));
                    }
                }
                after.extend(begun_literal.map(|begun| self.begun(compiled, begun)));
            }
            for (terminal, state) in begun.drain(..) {
                self.begin_key(compiled, after, terminal, state, byte);
            }
        }
    }
}

/// The number of `bytes` that `terminal`, no literal and no tracked key, reads from `progress` on without reaching an
/// end, and the progress after them.
fn read_other(
    terminals: &Terminals,
    terminal: ScanTerminal,
    progress: Progress,
    bytes: &[u8],
) -> (Progress, usize) {
    let mut state = progress.state();
    let mut len = 0;
    if !terminals.is_accepting(terminal, state) {
        for byte in bytes {
            match terminals.step(terminal, state, terminals.class(*byte)) {
                Some(next) if !terminals.is_accepting(terminal, next) => state = next,
                _ => break,
            }
            len += 1;
        }
    }
    (Progress::of_scanner(state), len)
}

/// The hypothesis of `literals`, which are edges of a parser state and agree in their first `depth` bytes; or what
/// comes after the only one, which ends there.
fn literal(
    terminals: &Terminals,
    literals: &[Edge],
    depth: usize,
    parser_state: ParserState,
) -> Option<Result<Hypothesis, Target>> {
    let (first, target) = *literals.first()?;
    if literals.len() == 1 && terminals.literal_len(first) == depth {
        return Some(Err(target));
    }
    Some(Ok(Hypothesis { terminal: Some(first), progress: Progress::of_literal(depth), parser_state }))
}
