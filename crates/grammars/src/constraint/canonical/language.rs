//! A grammar as the automaton that the canonical engine reads: its states are the configurations of the parser.
//!
//! Where keys must not repeat, they are those of the parser that tracks keys: a key under way may end in a used one
//! alone, and only that parser knows it.
//!
//! A mask is not a walk over the vocabulary. The grammar's own mask says which tokens can be read, and it is made
//! from subterminal trees. Most of these tokens stay in the terminal in which they begin, and those are
//! [certain](unskew_automata::canonical::TextPart) by the terminal alone, for all grammars. The rest, such as tokens
//! that close a string, are read one by one.
//!
//! Tried instead: the parser without keys, with the tokens of used keys taken away. A token that ends inside of a
//! key is then judged by the keys that are used already.

use std::{cell::RefCell, sync::Arc};

use hashbrown::HashMap;
use smallvec::SmallVec;
use unskew_automata::{
    StateId,
    canonical::{CanonicalIndex, LazyDfa, PartTokens, Safety, TokensByLookahead},
};
use unskew_core::{TokenId, TokenKind, TokenMask};
use unskew_grammar::kit::terminal::{ScanState, reading::Scan};
use unskew_trie::ByteSet;

use super::{
    super::{GrammarConstraint, GrammarScratch},
    facts::{FAR, GrammarFacts, TerminalFacts, Ways},
};
use crate::{
    ids::Id,
    network::terminals::{ScanTerminal, Scanner},
    parser::{
        configurations::{Compiled, Configuration, Configurations},
        continuations::Continuation,
        hypotheses::Hypothesis,
        states::{ParserState, Target},
    },
};

/// The most positions that a search visits.
const POSITIONS: usize = 1 << 12;

/// The number of tokens from which on a walk over the vocabulary takes less time than reading each of them.
const WALK: usize = 4_096;

/// What was found of the configurations of a scratch.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Of the parser of texts, and, if that tracks keys, of the one that does not.
    pub(super) parsers: [OfParser; 2],
    /// The state after a byte, where keys are tracked.
    steps: HashMap<(Configuration, u8), Option<StateId>>,
    /// The tokens of terminals with a count.
    pub(super) counted: HashMap<(ScanTerminal, ScanState), Parts>,
    /// Whether a step was not taken, since a mask may take no more.
    pub(super) is_beyond: bool,
}

/// The tokens of terminals.
pub(super) type Parts = SmallVec<[Arc<PartTokens>; 2]>;

#[derive(Debug, Default)]
pub(super) struct OfParser {
    states: HashMap<Configuration, StateFacts>,
    /// The rests of the rules that have called.
    pub(super) ways: HashMap<Continuation, Ways>,
    pub(super) callers: HashMap<Continuation, u32>,
    /// The bytes to the end of the output.
    pub(super) distances: HashMap<Configuration, u32>,
    /// Whether each completion of a character is read, by its UTF-8 state.
    pub(super) completes: HashMap<(Configuration, u8), bool>,
}

impl Found {
    pub(super) fn memory_usage(&self) -> usize {
        let counted: usize = self.counted.values().flatten().map(|tokens| tokens.memory_usage()).sum();
        let of_parser = |found: &OfParser| {
            let OfParser { states, ways, callers, distances, completes } = found;
            states.len() * 2 * size_of::<(Configuration, StateFacts)>()
                + (ways.len() + callers.len() + distances.len() + completes.len()) * 16
        };
        self.parsers.iter().map(of_parser).sum::<usize>()
            + self.steps.len() * 2 * size_of::<((Configuration, u8), Option<StateId>)>()
            + counted
    }
}

#[derive(Clone, Copy, Debug)]
struct StateFacts {
    read: ByteSet,
    live: ByteSet,
    safety: Safety,
    places: u8,
    may_end: bool,
}

/// A grammar with the tables of one scratch.
pub(super) struct GrammarLanguage<'a> {
    pub(super) constraint: &'a GrammarConstraint,
    pub(super) facts: &'a GrammarFacts,
    pub(super) index: &'a CanonicalIndex,
    tables: RefCell<Tables<'a>>,
}

struct Tables<'a> {
    scratch: &'a mut GrammarScratch,
    found: &'a mut Found,
}

/// A configuration, of the parser of texts or of the one that does not track keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    pub(super) configuration: Configuration,
    pub(super) is_erased: bool,
}

/// The state of a configuration of the parser of texts.
pub(super) fn state_of(configuration: Configuration) -> StateId {
    StateId::from_index(configuration.index())
}

pub(super) fn configuration_of(state: StateId) -> Configuration {
    Configuration::from_index(state.index())
}

impl<'a> GrammarLanguage<'a> {
    /// Begins a question, which may take the steps of a mask.
    pub(super) fn new(
        constraint: &'a GrammarConstraint,
        facts: &'a GrammarFacts,
        index: &'a CanonicalIndex,
        scratch: &'a mut GrammarScratch,
        found: &'a mut Found,
    ) -> Self {
        found.is_beyond = false;
        begin(scratch, constraint.mask_steps);
        Self { constraint, facts, index, tables: RefCell::new(Tables { scratch, found }) }
    }

    /// Ends the question. Whether it took more than its steps, so that its answer may be wrong.
    pub(super) fn end(self) -> bool {
        let Tables { scratch, found } = self.tables.into_inner();
        let tracking = scratch.tracking.as_mut();
        let is_over = tracking.is_some_and(|tracking| tracking.configurations.parser.meter.end());
        scratch.configurations.parser.meter.end() || is_over || std::mem::take(&mut found.is_beyond)
    }

    pub(super) fn compiled(&self) -> &'a Compiled {
        &self.constraint.compiled
    }

    fn facts<T>(&self, state: StateId, read: impl FnOnce(&StateFacts) -> T) -> T {
        let Tables { scratch, found } = &mut *self.tables.borrow_mut();
        let at = self.facts_at(scratch, state);
        let found = &mut found.parsers[usize::from(at.is_erased)];
        if let Some(known) = found.states.get(&at.configuration) {
            return read(known);
        }
        let facts = self.find(configurations(scratch, at.is_erased), found, at.configuration);
        found.states.insert(at.configuration, facts);
        read(&facts)
    }

    /// The facts of a configuration: those of any of its hypotheses.
    fn find(
        &self,
        configurations: &mut Configurations,
        found: &mut OfParser,
        configuration: Configuration,
    ) -> StateFacts {
        let compiled = self.compiled();
        let terminals = &compiled.terminals;
        let may_end = configurations.may_end(compiled, configuration);
        let mut facts = StateFacts {
            read: ByteSet::default(),
            live: ByteSet::default(),
            safety: if may_end { Safety::Always } else { Safety::Unknown },
            places: u8::MAX,
            may_end,
        };
        for at in 0..configurations.hypotheses(configuration).len() {
            let hypothesis = configurations.hypotheses(configuration)[at];
            let tracks = hypothesis.terminal.is_some_and(|terminal| self.tracks(configurations, terminal));
            if !tracks {
                let read = configurations.next_bytes(compiled, hypothesis);
                facts.read.union(&read);
            }
            if let Some(state) = configurations.after(compiled, hypothesis) {
                facts.read.union(&configurations.first_bytes(compiled, state));
                self.add_boundary(configurations, found, state, &mut facts);
                facts.places &= 1;
            }
            let Hypothesis { terminal, progress, parser_state } = hypothesis;
            let Some(terminal) = terminal else { continue };
            if terminals.is_literal(terminal) {
                let followers = configurations.parser.followers(parser_state, &compiled.rules);
                let edges = terminals.literals(configurations.parser.edges(followers));
                let depth = progress.depth();
                let edges: SmallVec<[_; 8]> = terminals.sharing(edges, terminal, depth).into();
                facts.places &= place_after(&terminals.literal(terminal)[..depth]);
                for (literal, target) in edges {
                    let TerminalFacts::Literal(safety, ends_calm) = self.facts.of(literal) else { continue };
                    let Some(after) = safety.get(depth + 1) else { continue };
                    let state = configurations.parser.made(target, &compiled.rules);
                    let rest = self.rest_of(configurations, found, state);
                    facts.add(Ways::of(safety[depth], *ends_calm).then(rest));
                    let byte = terminals.literal(literal)[depth];
                    if self.is_live_in_literal(byte, *after, *ends_calm, depth + 2 > safety.len() - 1, rest) {
                        facts.live.insert(byte);
                    }
                }
                continue;
            }
            let Some(scan) = terminals.scan(terminal) else { continue };
            let Some((rest, state)) = self.inside(configurations, hypothesis) else { continue };
            if let TerminalFacts::Text(part, _) | TerminalFacts::Counted(part, ..) = self.facts.of(terminal) {
                facts.places &= part.places(scan.at(state));
            }
            let rest = self.rest_of(configurations, found, rest);
            if tracks {
                scan.next_bytes(state, |byte| facts.read.insert(byte));
            }
            facts.add(self.facts.ways(terminal, scan, state).then(rest));
            self.add_live(&mut facts.live, (terminal, scan, state), rest);
        }
        facts
    }

    /// Adds what follows a terminal that has ended.
    fn add_boundary(
        &self,
        configurations: &mut Configurations,
        found: &mut OfParser,
        state: ParserState,
        facts: &mut StateFacts,
    ) {
        let compiled = self.compiled();
        let terminals = &compiled.terminals;
        facts.add(self.rest_of(configurations, found, state));
        for (terminal, rest) in self.followers(configurations, state) {
            let rest = self.rest_of(configurations, found, rest);
            if terminals.is_literal(terminal) {
                let TerminalFacts::Literal(safety, ends_calm) = self.facts.of(terminal) else { continue };
                let byte = terminals.literal(terminal)[0];
                if self.is_live_in_literal(byte, safety[1], *ends_calm, safety.len() == 2, rest) {
                    facts.live.insert(byte);
                }
            } else if let Some(scan) = terminals.scan(terminal) {
                self.add_live(&mut facts.live, (terminal, scan, scan.start()), rest);
            }
        }
    }

    /// Whether a literal is certain to go on with `byte`, after which it has this safety, and `rest` follows it.
    fn is_live_in_literal(
        &self,
        byte: u8,
        after: Safety,
        ends_calm: bool,
        is_last: bool,
        rest: Ways,
    ) -> bool {
        let ways = match is_last {
            true => rest,
            false => Ways::of(after, ends_calm).then(rest),
        };
        self.index.is_live(byte, ways.safety())
    }

    /// Adds the bytes with which a terminal is certain to go on, where `rest` follows it.
    fn add_live(
        &self,
        live: &mut ByteSet,
        (terminal, scan, state): (ScanTerminal, Scan<'_>, ScanState),
        rest: Ways,
    ) {
        match self.facts.of(terminal) {
            TerminalFacts::Text(part, ends_calm) if Ways::leads(*ends_calm, rest) => {
                live.union(&part.live(scan.at(state)));
            }
            TerminalFacts::Counted(_, ends_calm, _) if Ways::leads(*ends_calm, rest) => {
                for byte in 0..0x80u8 {
                    if let Some(next) = scan.step(state, byte)
                        && self.index.is_live(byte, self.facts.safety(terminal, scan, next))
                    {
                        live.insert(byte);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether texts of `terminal` are keys that are tracked here.
    fn tracks(&self, configurations: &Configurations, terminal: ScanTerminal) -> bool {
        configurations.texts().is_some() && self.compiled().terminals.is_distinct(terminal)
    }

    /// The configuration that has the facts of a state. Where no key is under way it is one of the parser that does
    /// not track keys: these recur, and there are keys enough for whatever follows. Steps are those of the parser of
    /// texts: what the tokenizer writes next may be a key that is used.
    fn facts_at(&self, scratch: &mut GrammarScratch, state: StateId) -> At {
        let own = At { configuration: configuration_of(state), is_erased: false };
        let Some(tracking) = scratch.tracking.as_ref().filter(|_| self.facts.keys_are_many) else {
            return own;
        };
        let terminals = &self.compiled().terminals;
        let hypotheses = tracking.configurations.hypotheses(own.configuration).iter();
        let mut read = hypotheses.filter_map(|hypothesis| hypothesis.terminal);
        if read.any(|terminal| terminals.is_distinct(terminal)) {
            return own;
        }
        let configuration = self.constraint.pair_of(scratch, own.configuration).for_mask;
        At { configuration, is_erased: true }
    }

    /// The parser state after the terminal of a hypothesis, no literal, and the state of its scanner.
    pub(super) fn inside(
        &self,
        configurations: &mut Configurations,
        Hypothesis { terminal, progress, parser_state }: Hypothesis,
    ) -> Option<(ParserState, ScanState)> {
        let terminal = terminal?;
        if !self.tracks(configurations, terminal) {
            return Some((parser_state, progress.state()));
        }
        let pending = configurations.pending(self.compiled(), parser_state, terminal)?;
        let state = configurations.texts()?.state(progress.prefix());
        Some((configurations.parser.after_any_key(pending, &self.compiled().rules), state))
    }

    /// The terminals that may follow in a parser state, each with the state after it.
    pub(super) fn followers(
        &self,
        configurations: &mut Configurations,
        state: ParserState,
    ) -> SmallVec<[(ScanTerminal, ParserState); 8]> {
        let rules = &self.compiled().rules;
        let parser = &mut configurations.parser;
        let followers = parser.followers(state, rules);
        let edges: SmallVec<[(ScanTerminal, Target); 8]> = parser.edges(followers).into();
        let after = |(terminal, target): (ScanTerminal, Target)| match target.pending() {
            Some(pending) => (terminal, parser.after_any_key(pending, rules)),
            None => (terminal, parser.made(target, rules)),
        };
        edges.into_iter().map(after).collect()
    }
}

impl StateFacts {
    fn add(&mut self, ways: Ways) {
        self.safety = match (self.safety, ways.safety()) {
            (Safety::Always, _) | (_, Safety::Always) => Safety::Always,
            (Safety::WhenCalm, _) | (_, Safety::WhenCalm) => Safety::WhenCalm,
            _ => Safety::Unknown,
        };
    }
}

/// The configurations of texts, or those without keys.
pub(super) fn configurations(scratch: &mut GrammarScratch, is_erased: bool) -> &mut Configurations {
    if is_erased { &mut scratch.configurations } else { scratch.of_text().0 }
}

/// Begins a question that may take `most` steps in each parser.
fn begin(scratch: &mut GrammarScratch, most: u64) {
    scratch.configurations.parser.meter.begin(most);
    if let Some(tracking) = &mut scratch.tracking {
        tracking.configurations.parser.meter.begin(most);
    }
}

/// The UTF-8 state after `text`, as a bit.
fn place_after(text: &[u8]) -> u8 {
    1 << unskew_automata::canonical::utf8_state(text)
}

impl LazyDfa for GrammarLanguage<'_> {
    fn start(&self) -> StateId {
        state_of(Configurations::START)
    }

    fn step(&self, state: StateId, byte: u8) -> Option<StateId> {
        let Tables { scratch, found } = &mut *self.tables.borrow_mut();
        let (compiled, configuration) = (self.compiled(), configuration_of(state));
        if scratch.tracking.is_none() {
            return scratch.configurations.step_of_mask(compiled, configuration, byte).map(state_of);
        }
        if let Some(known) = found.steps.get(&(configuration, byte)) {
            return *known;
        }
        let configurations = configurations(scratch, false);
        let next = configurations.run(compiled, configuration, &[byte]).map(state_of);
        if configurations.parser.meter.is_over() {
            return None;
        }
        found.steps.insert((configuration, byte), next);
        next
    }

    fn run(&self, state: StateId, bytes: &[u8]) -> Option<StateId> {
        if self.constraint.distinct.is_none() {
            return bytes.iter().try_fold(state, |state, byte| self.step(state, *byte));
        }
        let Tables { scratch, .. } = &mut *self.tables.borrow_mut();
        configurations(scratch, false).run(self.compiled(), configuration_of(state), bytes).map(state_of)
    }

    fn is_accepting(&self, state: StateId) -> bool {
        self.facts(state, |facts| facts.may_end)
    }

    fn class(&self, byte: u8) -> u8 {
        // Each byte is a key of its own.
        if self.constraint.distinct.is_some() { byte } else { self.compiled().terminals.class(byte) }
    }

    fn bytes(&self) -> ByteSet {
        self.facts.bytes
    }

    fn read(&self, state: StateId) -> ByteSet {
        self.facts(state, |facts| facts.read)
    }

    fn live(&self, state: StateId) -> ByteSet {
        self.facts(state, |facts| facts.live)
    }

    fn safety(&self, state: StateId) -> Safety {
        self.facts(state, |facts| facts.safety)
    }

    fn distance(&self, state: StateId) -> u32 {
        let Tables { scratch, found } = &mut *self.tables.borrow_mut();
        let At { configuration, is_erased } = self.facts_at(scratch, state);
        let (compiled, configurations) = (self.compiled(), configurations(scratch, is_erased));
        let found = &mut found.parsers[usize::from(is_erased)];
        let terminals = &compiled.terminals;
        if let Some(known) = found.distances.get(&configuration) {
            return *known;
        }
        let mut nearest = FAR;
        for at in 0..configurations.hypotheses(configuration).len() {
            let hypothesis = configurations.hypotheses(configuration)[at];
            if let Some(state) = configurations.after(compiled, hypothesis) {
                nearest = nearest.min(self.bytes_to_end(configurations, found, state));
            }
            let Hypothesis { terminal, progress, parser_state } = hypothesis;
            let Some(terminal) = terminal else { continue };
            let (left, rest) = if terminals.is_literal(terminal) {
                // The state before it is less far than the rest of the literal is long, and that is near enough.
                let left = terminals.literal_len(terminal) - progress.depth();
                (u32::try_from(left).unwrap_or(FAR), parser_state)
            } else {
                let (Some(scan), Some((rest, state))) =
                    (terminals.scan(terminal), self.inside(configurations, hypothesis))
                else {
                    continue;
                };
                let (TerminalFacts::Text(part, _) | TerminalFacts::Counted(part, ..)) =
                    self.facts.of(terminal)
                else {
                    continue;
                };
                (part.to_end(scan.at(state)), rest)
            };
            let rest = self.bytes_to_end(configurations, found, rest);
            nearest = nearest.min(left.min(FAR) + rest);
        }
        found.distances.insert(configuration, nearest);
        nearest
    }

    fn places(&self, state: StateId) -> u8 {
        self.facts(state, |facts| facts.places)
    }

    fn most_positions(&self) -> usize {
        POSITIONS
    }

    fn completes(&self, state: StateId, place: u8) -> Option<bool> {
        let Tables { scratch, found } = &mut *self.tables.borrow_mut();
        let At { configuration, is_erased } = self.facts_at(scratch, state);
        let found = &mut found.parsers[usize::from(is_erased)];
        if let Some(known) = found.completes.get(&(configuration, place)) {
            return Some(*known);
        }
        let configurations = configurations(scratch, is_erased);
        let completes = (0..configurations.hypotheses(configuration).len()).any(|at| {
            let hypothesis = configurations.hypotheses(configuration)[at];
            // A count may leave no room for another character.
            let (Some(terminal), Some((rest, state))) =
                (hypothesis.terminal, self.inside(configurations, hypothesis))
            else {
                return false;
            };
            let TerminalFacts::Text(part, _) = self.facts.of(terminal) else { return false };
            let rest = self.rest_of(configurations, found, rest);
            let Some(scan) = self.certain_scan(terminal, rest) else { return false };
            self.index.part_completes(part, scan.at(state), place)
        });
        found.completes.insert((configuration, place), completes);
        Some(completes)
    }

    fn has_ids(&self) -> bool {
        self.facts.has_ids
    }

    fn by_id(&self, state: StateId) -> Vec<(TokenId, StateId)> {
        let Tables { scratch, .. } = &mut *self.tables.borrow_mut();
        let compiled = self.compiled();
        let configuration = configuration_of(state);
        let configurations = configurations(scratch, false);
        let mut tokens: Vec<TokenId> = Vec::new();
        configurations.each_of_tokens(compiled, configuration, |terminal, _| {
            match compiled.terminals.scanner(terminal) {
                Scanner::Token(token) => tokens.push(*token),
                Scanner::OneOf(set) => tokens.extend(set.ids()),
                _ => {}
            }
        });
        tokens.sort_unstable();
        tokens.dedup();
        let after = |token| Some((token, state_of(configurations.by_id(compiled, configuration, token)?)));
        tokens.into_iter().filter_map(after).collect()
    }

    fn tokens(&self, state: StateId) -> Option<TokensByLookahead> {
        let (parts, others) = {
            let Tables { scratch, found } = &mut *self.tables.borrow_mut();
            let configuration = configuration_of(state);
            found.is_beyond |= configurations(scratch, false).parser.meter.is_over();
            let mut mask = self.readable(scratch, found, configuration);
            // The mask was a question of its own.
            begin(scratch, self.constraint.mask_steps);
            let at = self.facts_at(scratch, state);
            let parts = self.parts(scratch, found, at);
            let mut certain = TokenMask::new(mask.len());
            parts.iter().for_each(|part| part.add_to(&mut certain.as_mut()));
            let words = mask.as_mut().into_words();
            words.iter_mut().zip(certain.words()).for_each(|(word, certain)| *word &= !certain);
            let vocabulary = &self.constraint.vocabulary;
            let is_text = |token: &TokenId| {
                vocabulary.kind(*token) == TokenKind::Text
                    && vocabulary.text(*token).is_some_and(|text| !text.is_empty())
            };
            let others: Vec<TokenId> = mask.ids().filter(is_text).collect();
            (parts, others)
        };
        if others.len() > WALK && self.constraint.distinct.is_none() {
            return None;
        }
        let after = |token: TokenId| Some((token, self.run(state, self.constraint.vocabulary.text(token)?)?));
        Some(TokensByLookahead::new(parts, others.into_iter().filter_map(after)))
    }
}
