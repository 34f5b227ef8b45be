//! Terminals as the scanner reads them: automata over bytes, and the classes of bytes that none of them distinguishes.
//!
//! Nothing is copied and no automaton is determinised again: the automaton of a terminal is minimal and shared, and a
//! literal is its own bytes. One automaton over all terminals, as lexers have it, would consist of sets of terminals
//! that never follow the same position; the sets that do occur are those of the parser's states.

use std::{ops::Range, sync::Arc};

use hashbrown::{HashMap, HashSet};
use unskew_automata::{Dfa, dfa::Cuts};
use unskew_core::{TokenId, TokenMask};
use unskew_grammar::{
    Difference, Grammar, GrammarError, Terminal, TerminalId, TokenSet,
    kit::terminal::{
        ScanState,
        reading::{Scan, first_bytes},
        remaining::Remaining,
    },
};
use unskew_trie::{ByteSet, TokenTrie};

use super::token_sets::{Resolved, resolve};
use crate::ids::{COUNTS, Id, Table, id};

id! {
    /// A terminal as it is scanned: one of [`Terminals`], whose order is not that of the grammar.
    ScanTerminal
}

/// The scanned terminal of each terminal of a grammar.
pub(crate) type Numbering = Table<TerminalId, ScanTerminal>;

/// A terminal that is no literal.
#[derive(Debug)]
pub(crate) enum Scanner {
    /// A terminal that is [scanned](Scan), and by state of its automaton whether a text must end there.
    Text(Terminal, Box<[bool]>),
    Token(TokenId),
    /// The tokens of a set that a mask may hold.
    OneOf(Arc<TokenMask>),
    /// A control token that ends a sequence: it is the end of the output and no token of it.
    End,
}

/// By terminal that is no literal: the first bytes of its texts.
type FirstBytes = Vec<ByteSet>;

/// The terminals of a grammar over a vocabulary. They have numbers of their own: literals come first, in the order of
/// their texts, so that literals with a common prefix are neighbours, and a sorted list of them is a trie.
#[derive(Debug)]
pub(crate) struct Terminals {
    literals: Table<ScanTerminal, Box<[u8]>>,
    /// By byte: the first literal that begins with it or a higher byte; and the number of literals.
    beginning: Box<[ScanTerminal; 257]>,
    /// The terminals after the literals.
    scanners: Vec<Scanner>,
    /// By the same index: of a terminal whose texts are keys, how many texts there are.
    distinct: Vec<Option<Arc<Remaining>>>,
    first_bytes: FirstBytes,
    /// Whether a terminal is the end of the output.
    has_end: bool,
    /// Whether one of them is a set of tokens, so that a token of text may count as itself.
    has_sets: bool,
    /// The class of each byte.
    classes: Box<[u8; 256]>,
    /// A byte of each class.
    bytes: Vec<u8>,
}

/// The scanned terminals of `grammar`.
pub(crate) fn numbering(grammar: &Grammar) -> Numbering {
    let mut order: Vec<TerminalId> = grammar.terminals().collect();
    order.sort_by_key(|terminal| match grammar.terminal(*terminal) {
        Terminal::Literal(text) => (false, &text[..]),
        _ => (true, [].as_slice()),
    });
    let mut numbering = Table::filled(ScanTerminal::of(0), order.len());
    for (index, terminal) in order.into_iter().enumerate() {
        numbering[terminal] = ScanTerminal::from_index(index);
    }
    numbering
}

impl Terminals {
    /// The bytes of the terminals and their automata, each counted once.
    pub(crate) fn memory_usage(&self) -> usize {
        let mut seen: HashSet<*const Dfa> = HashSet::new();
        let mut automaton = |dfa: &Arc<Dfa>| {
            let is_new = seen.insert(Arc::as_ptr(dfa));
            if is_new { dfa.memory_usage() + size_of::<Dfa>() + COUNTS } else { 0 }
        };
        let scanners = self.scanners.iter().map(|scanner| match scanner {
            Scanner::Text(text, ends) => Scan::of(text).map_or(0, |Scan { dfa, count, except }| {
                let count = count.map_or(0, |count| automaton(count.unit()) + count.memory_usage());
                automaton(dfa) + count + except.map_or(0, Difference::memory_usage) + ends.len()
            }),
            Scanner::OneOf(tokens) => size_of_val(tokens.words()),
            Scanner::Token(_) | Scanner::End => 0,
        });
        let remaining = self.distinct.iter().flatten().map(|remaining| remaining.memory_usage());
        let literals = self.literals.entries().iter().map(|text| text.len());
        scanners.sum::<usize>()
            + remaining.sum::<usize>()
            + literals.sum::<usize>()
            + self.literals.memory_usage()
            + self.scanners.capacity() * size_of::<Scanner>()
            + self.distinct.capacity() * size_of::<Option<Arc<Remaining>>>()
            + self.first_bytes.capacity() * size_of::<ByteSet>()
            + self.bytes.capacity()
            + size_of_val(&*self.beginning)
            + size_of_val(&*self.classes)
    }

    /// The terminals of `grammar` with this `numbering`.
    ///
    /// # Errors
    ///
    /// [`GrammarError::UnknownToken`].
    pub(crate) fn new(
        grammar: &Grammar,
        numbering: &Numbering,
        is_used: &Table<ScanTerminal, bool>,
        trie: &TokenTrie,
    ) -> Result<Self, GrammarError> {
        let mut controls: Option<HashMap<String, TokenId>> = None;
        let mut literals: Table<ScanTerminal, Box<[u8]>> = Table::default();
        let (mut scanners, mut distinct) = (Vec::new(), Vec::new());
        let mut first: FirstBytes = Vec::new();
        let (mut has_sets, mut written) = (false, None);
        let mut cuts = Cuts::default();
        // By the address of an automaton.
        let mut remaining: HashMap<usize, Arc<Remaining>> = HashMap::new();
        let mut order: Vec<TerminalId> = grammar.terminals().collect();
        order.sort_unstable_by_key(|terminal| numbering[*terminal]);
        for terminal in order {
            let is_used = is_used[numbering[terminal]];
            match grammar.terminal(terminal) {
                Terminal::Literal(text) => {
                    if is_used {
                        cuts.bytes(text);
                    }
                    literals.push(text.clone());
                }
                text @ (Terminal::Automaton(_)
                | Terminal::Counted(_)
                | Terminal::Difference(_)
                | Terminal::Distinct(_)) => {
                    let Scan { dfa, except, .. } = Scan::of(text).expect("it is text");
                    if is_used {
                        cuts.classes(dfa.classes());
                        except.into_iter().flat_map(Difference::texts).for_each(|text| cuts.bytes(text));
                    }
                    scanners.push(Scanner::Text(text.clone(), ends(dfa)));
                }
                Terminal::Token(name) => {
                    let controls = controls.get_or_insert_with(|| {
                        let names = trie.vocabulary().control_tokens();
                        names.map(|(token, name)| (name.into_owned(), token)).collect()
                    });
                    scanners.push(match controls.get(&**name) {
                        Some(token) if trie.vocabulary().is_end_of_sequence(*token) => Scanner::End,
                        Some(token) => Scanner::Token(*token),
                        None => match resolve(&TokenSet::of_name(name), name, trie.vocabulary())? {
                            Resolved::End => Scanner::End,
                            Resolved::Tokens(tokens) => Scanner::OneOf(Arc::new(tokens)),
                        },
                    });
                }
                Terminal::TokenBudget(_) => unreachable!("it is written out before"),
                Terminal::Tokens(set) => {
                    let resolved = resolve(set, grammar.terminal_name(terminal), trie.vocabulary())?;
                    scanners.push(match resolved {
                        Resolved::End => Scanner::End,
                        Resolved::Tokens(tokens) => Scanner::OneOf(Arc::new(tokens)),
                    });
                }
                Terminal::OneOf(tokens) => {
                    let vocabulary = trie.vocabulary();
                    if tokens.len() != vocabulary.len() {
                        let (tokens, vocabulary) = (tokens.len(), vocabulary.len());
                        return Err(GrammarError::OtherVocabulary { tokens, vocabulary });
                    }
                    let written = written.get_or_insert_with(|| vocabulary.mask_tokens());
                    let mut tokens = TokenMask::clone(tokens);
                    tokens.as_mut().intersect(TokenMask::as_ref(written));
                    if tokens.none() {
                        let name = grammar.terminal_name(terminal).to_owned();
                        return Err(GrammarError::UnknownToken { name });
                    }
                    scanners.push(Scanner::OneOf(Arc::new(tokens)));
                }
            }
            has_sets |= matches!(scanners.last(), Some(Scanner::OneOf(_)));
            first.resize_with(scanners.len(), || first_bytes(grammar.terminal(terminal)));
            distinct.resize_with(scanners.len(), || match grammar.terminal(terminal) {
                Terminal::Distinct(difference) => {
                    let base = difference.base();
                    let known = remaining.entry(Arc::as_ptr(base).addr());
                    Some(Arc::clone(known.or_insert_with(|| Arc::clone(difference.remaining()))))
                }
                _ => None,
            });
        }
        let firsts: Vec<u8> = literals.entries().iter().map(|literal| literal[0]).collect();
        let begin = |byte: usize| {
            let first = firsts.partition_point(|first| usize::from(*first) < byte);
            ScanTerminal::from_index(first)
        };
        let ranges = cuts.ranges();
        let has_end = scanners.iter().any(|scanner| matches!(scanner, Scanner::End));
        let mut terminals = Self {
            beginning: Box::new(std::array::from_fn(begin)),
            literals,
            scanners,
            distinct,
            first_bytes: first,
            has_end,
            has_sets,
            classes: Box::new([0; 256]),
            bytes: ranges.iter().map(|range| *range.start()).collect(),
        };
        for (class, range) in (0..=255).zip(ranges) {
            range.for_each(|byte| terminals.classes[usize::from(byte)] = class);
        }
        Ok(terminals)
    }

    /// The number of classes.
    pub(crate) fn width(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub(crate) fn class(&self, byte: u8) -> u8 {
        self.classes[usize::from(byte)]
    }

    #[inline]
    pub(crate) fn is_literal(&self, terminal: ScanTerminal) -> bool {
        terminal.index() < self.literals.len()
    }

    /// The edges that read literals. `edges` ascend.
    #[inline]
    pub(crate) fn literals<'e, T>(&self, edges: &'e [(ScanTerminal, T)]) -> &'e [(ScanTerminal, T)] {
        &edges[..edges.partition_point(|(terminal, _)| self.is_literal(*terminal))]
    }

    /// The edges that read no literals. `edges` ascend.
    #[inline]
    pub(crate) fn others<'e, T>(&self, edges: &'e [(ScanTerminal, T)]) -> &'e [(ScanTerminal, T)] {
        &edges[self.literals(edges).len()..]
    }

    /// The range of the edges that read literals which begin with `byte`. `edges` ascend.
    #[inline]
    pub(crate) fn beginning<T>(&self, edges: &[(ScanTerminal, T)], byte: u8) -> Range<usize> {
        let [begin, end] = [0, 1].map(|more| self.beginning[usize::from(byte) + more]);
        if begin == end {
            return 0..0;
        }
        let first = edges.partition_point(|(terminal, _)| *terminal < begin);
        first..first + edges[first..].partition_point(|(terminal, _)| *terminal < end)
    }

    /// The literals that agree with `terminal`, the first of them, in its first `depth` bytes. `literals` are edges.
    pub(crate) fn sharing<'e, T>(
        &self,
        literals: &'e [(ScanTerminal, T)],
        terminal: ScanTerminal,
        depth: usize,
    ) -> &'e [(ScanTerminal, T)] {
        let prefix = &self.literals[terminal][..depth];
        let first = literals.partition_point(|(other, _)| *other < terminal);
        let shares = |other: ScanTerminal| self.literals[other].starts_with(prefix);
        let len = literals[first..].partition_point(|(other, _)| shares(*other));
        &literals[first..first + len]
    }

    /// The literals that continue with a byte of `class`. `sharing` are edges of literals that agree in their first
    /// `depth` bytes.
    pub(crate) fn going_on<'e, T>(
        &self,
        sharing: &'e [(ScanTerminal, T)],
        depth: usize,
        class: u8,
    ) -> &'e [(ScanTerminal, T)] {
        let byte = self.bytes[usize::from(class)];
        let next = |terminal: ScanTerminal| self.literals[terminal].get(depth).copied();
        let first = sharing.partition_point(|(terminal, _)| next(*terminal) < Some(byte));
        let len = sharing[first..].partition_point(|(terminal, _)| next(*terminal) == Some(byte));
        &sharing[first..first + len]
    }

    /// The first bytes of texts of `terminal`, no literal; more of them if it is a difference.
    #[inline]
    pub(crate) fn first_bytes(&self, terminal: ScanTerminal) -> &ByteSet {
        &self.first_bytes[terminal.index() - self.literals.len()]
    }

    /// The first bytes of the terminals of `edges`.
    pub(crate) fn first_bytes_of<T>(&self, edges: &[(ScanTerminal, T)]) -> ByteSet {
        let mut bytes = ByteSet::default();
        self.add_next_bytes(self.literals(edges), 0, &mut bytes);
        for (terminal, _) in self.others(edges) {
            let more = self.first_bytes(*terminal);
            bytes.union(more);
        }
        bytes
    }

    /// The bytes that `terminal`, no literal, may read in `state`; more of them if it is a difference.
    pub(crate) fn next_bytes(&self, terminal: ScanTerminal, state: ScanState) -> ByteSet {
        let mut bytes = ByteSet::default();
        if let Some(scan) = self.scan(terminal) {
            scan.next_bytes(state, |byte| bytes.insert(byte));
        }
        bytes
    }

    /// Adds the next bytes of `sharing`, literals that agree in their first `depth` bytes.
    pub(crate) fn add_next_bytes<T>(&self, sharing: &[(ScanTerminal, T)], depth: usize, bytes: &mut ByteSet) {
        let next = |(terminal, _): &(ScanTerminal, T)| self.literals[*terminal].get(depth).copied();
        let mut at = 0;
        while let Some(byte) = sharing.get(at).map(next) {
            byte.into_iter().for_each(|byte| bytes.insert(byte));
            at += sharing[at..].partition_point(|literal| next(literal) == byte);
        }
    }

    /// A byte of each class.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The difference that `terminal`, no literal, is, if it is one.
    pub(crate) fn difference(&self, terminal: ScanTerminal) -> Option<&Difference> {
        self.scan(terminal)?.except
    }

    /// Whether texts of `terminal` are [keys](crate::unique::keys).
    #[inline]
    pub(crate) fn is_distinct(&self, terminal: ScanTerminal) -> bool {
        terminal.index().checked_sub(self.literals.len()).is_some_and(|at| self.distinct[at].is_some())
    }

    /// The language of a terminal whose texts are keys, and how many texts there are.
    pub(crate) fn remaining(&self, terminal: ScanTerminal) -> Option<(&Difference, &Remaining)> {
        let at = terminal.index().checked_sub(self.literals.len())?;
        Some((self.difference(terminal)?, self.distinct[at].as_ref()?))
    }

    /// How `terminal`, no literal, is scanned; `None` for tokens.
    #[inline]
    pub(crate) fn scan(&self, terminal: ScanTerminal) -> Option<Scan<'_>> {
        match self.scanner(terminal) {
            Scanner::Text(text, _) => Scan::of(text),
            Scanner::Token(_) | Scanner::OneOf(_) | Scanner::End => None,
        }
    }

    /// The scanner of `terminal`, no literal.
    pub(crate) fn scanner(&self, terminal: ScanTerminal) -> &Scanner {
        &self.scanners[terminal.index() - self.literals.len()]
    }

    /// The numbers of literals and of other terminals.
    pub(crate) fn len(&self) -> (usize, usize) {
        (self.literals.len(), self.scanners.len())
    }

    /// The terminals that are no literals.
    pub(crate) fn without_literals(&self) -> impl Iterator<Item = ScanTerminal> + use<> {
        (self.literals.len()..self.literals.len() + self.scanners.len()).map(ScanTerminal::from_index)
    }

    /// The texts of the literals, in ascending order.
    pub(crate) fn texts(&self) -> &[Box<[u8]>] {
        self.literals.entries()
    }

    /// The text of a literal.
    #[inline]
    pub(crate) fn literal(&self, terminal: ScanTerminal) -> &[u8] {
        &self.literals[terminal]
    }

    /// The length of a literal.
    #[inline]
    pub(crate) fn literal_len(&self, terminal: ScanTerminal) -> usize {
        self.literals[terminal].len()
    }

    /// The state of `terminal`, no literal, after the first byte of a text, if there is one.
    #[inline]
    pub(crate) fn first(&self, terminal: ScanTerminal, class: u8) -> Option<ScanState> {
        let scan = self.scan(terminal)?;
        scan.step(scan.start(), self.bytes[usize::from(class)])
    }

    /// The state of `terminal`, no literal, after one more byte, if there is one.
    #[inline]
    pub(crate) fn step(&self, terminal: ScanTerminal, state: ScanState, class: u8) -> Option<ScanState> {
        self.scan(terminal)?.step(state, self.bytes[usize::from(class)])
    }

    /// Whether a text of `terminal`, no literal, may end in `state`, after at least one byte.
    #[inline]
    pub(crate) fn is_accepting(&self, terminal: ScanTerminal, state: ScanState) -> bool {
        self.scan(terminal).is_some_and(|scan| scan.accepts(state))
    }

    /// Whether a text of `terminal`, no literal, must end in `state`.
    #[inline]
    pub(crate) fn is_final(&self, terminal: ScanTerminal, state: ScanState) -> bool {
        let Scanner::Text(text, ends) = self.scanner(terminal) else { return false };
        Scan::of(text).is_some_and(|scan| ends[scan.at(state).index()] && scan.accepts(state))
    }

    /// Whether any terminal is the end of the output.
    #[inline]
    pub(crate) fn has_end(&self) -> bool {
        self.has_end
    }

    /// Whether `terminal`, no literal, is the end of the output.
    #[inline]
    pub(crate) fn is_end(&self, terminal: ScanTerminal) -> bool {
        matches!(self.scanner(terminal), Scanner::End)
    }

    /// Whether any terminal is a set of tokens.
    #[inline]
    pub(crate) fn has_sets(&self) -> bool {
        self.has_sets
    }

    /// Whether `terminal`, no literal, reads `token` by its id.
    #[inline]
    pub(crate) fn reads_token(&self, terminal: ScanTerminal, token: TokenId) -> bool {
        match self.scanner(terminal) {
            Scanner::Token(own) => *own == token,
            Scanner::OneOf(tokens) => tokens.contains(token),
            _ => false,
        }
    }
}

/// By state: whether a text must end there.
fn ends(dfa: &Dfa) -> Box<[bool]> {
    let bytes: Vec<u8> = dfa.classes().representatives().collect();
    let ends = |state| dfa.is_accepting(state) && bytes.iter().all(|byte| dfa.step(state, *byte).is_none());
    dfa.states().map(ends).collect()
}
