//! Terminals as the scanner reads them: automata over bytes, and the classes of bytes that none of them tells apart.
//!
//! Nothing is copied and nothing determinised anew: a terminal's automaton is minimal already and shared, and a literal is
//! its own bytes. One automaton over all terminals at once, as lexers have it, would be made of sets of terminals that never
//! follow the same place; the sets that do occur come out of the parser's states.

use std::{ops::Range, sync::Arc};

use hashbrown::{HashMap, HashSet};
use unskew_automata::{Dfa, StateId};
use unskew_core::{TokenId, TokenMask, Vocabulary};
use unskew_trie::{ByteSet, TokenTrie};

use crate::{
    Counted, Except, GrammarError,
    grammar::data::{Grammar, Terminal, TerminalId},
    ids::COUNTS,
    ids::NONE,
    terminal::remaining::Remaining,
};

/// A terminal that is no literal.
#[derive(Debug)]
pub(crate) enum Scanner {
    /// The automaton, and by state whether a text must end there.
    Automaton(Arc<Dfa>, Box<[bool]>),
    /// As of its automaton.
    Except(Arc<Except>, Box<[bool]>),
    Counted(Arc<Counted>),
    Token(TokenId),
    /// The tokens of a set that a mask may hold.
    OneOf(Arc<TokenMask>),
    /// A control token that ends a sequence: the end of the output, and no token of it.
    End,
}

/// By terminal that is no literal: the bytes that its texts begin with.
type FirstBytes = Vec<ByteSet>;

/// The terminals of a grammar over a vocabulary. They have numbers of their own: literals first, in the order of their
/// texts, so that literals with a common beginning are neighbours, and a sorted list of them is a trie.
#[derive(Debug)]
pub(crate) struct Terminals {
    literals: Vec<Box<[u8]>>,
    /// By byte: the first literal that begins with it or a higher one; and their number.
    beginning: Box<[u32; 257]>,
    /// The terminals behind the literals.
    scanners: Vec<Scanner>,
    /// The same: of those whose texts may not come twice, how many texts there are.
    distinct: Vec<Option<Arc<Remaining>>>,
    first_bytes: FirstBytes,
    /// Whether one of them is the end of the output.
    has_end: bool,
    /// Whether one of them is a set of tokens, so that a token of text may count as itself.
    has_sets: bool,
    /// The class of each byte.
    classes: Box<[u8; 256]>,
    /// A byte of each class.
    bytes: Vec<u8>,
}

/// The number of each terminal of `grammar` among [`Terminals`].
pub(crate) fn names(grammar: &Grammar) -> Vec<u32> {
    let mut order: Vec<TerminalId> = grammar.terminals().collect();
    order.sort_by_key(|terminal| match grammar.terminal(*terminal) {
        Terminal::Literal(text) => (false, &text[..]),
        _ => (true, [].as_slice()),
    });
    let mut names = vec![0; order.len()];
    for (terminal, name) in order.iter().zip(0u32..) {
        names[terminal.index()] = name;
    }
    names
}

impl Terminals {
    /// What the terminals take with their automata, each counted once, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        let mut seen: HashSet<*const Dfa> = HashSet::new();
        let mut automaton = |dfa: &Arc<Dfa>| {
            let is_new = seen.insert(Arc::as_ptr(dfa));
            if is_new { dfa.memory_usage() + size_of::<Dfa>() + COUNTS } else { 0 }
        };
        let scanners = self.scanners.iter().map(|scanner| match scanner {
            Scanner::Automaton(dfa, ends) => automaton(dfa) + ends.len(),
            Scanner::Except(except, ends) => automaton(except.base()) + except.memory_usage() + ends.len(),
            Scanner::Counted(counted) => automaton(counted.unit()) + counted.memory_usage(),
            Scanner::OneOf(tokens) => size_of_val(tokens.words()),
            Scanner::Token(_) | Scanner::End => 0,
        });
        let remaining = self.distinct.iter().flatten().map(|remaining| remaining.memory_usage());
        let literals = self.literals.iter().map(|text| text.len());
        scanners.sum::<usize>()
            + remaining.sum::<usize>()
            + literals.sum::<usize>()
            + self.literals.capacity() * size_of::<Box<[u8]>>()
            + self.scanners.capacity() * size_of::<Scanner>()
            + self.distinct.capacity() * size_of::<Option<Arc<Remaining>>>()
            + self.first_bytes.capacity() * size_of::<ByteSet>()
            + self.bytes.capacity()
            + size_of_val(&*self.beginning)
            + size_of_val(&*self.classes)
    }

    /// The terminals of `grammar` with these `names`.
    ///
    /// # Errors
    ///
    /// [`GrammarError::UnknownToken`] and [`GrammarError::UnspelledByte`].
    pub(crate) fn new(
        grammar: &Grammar,
        names: &[u32],
        is_used: &[bool],
        trie: &TokenTrie,
    ) -> Result<Self, GrammarError> {
        let mut controls: Option<HashMap<String, TokenId>> = None;
        let mut used = [false; 256];
        let (mut literals, mut scanners, mut distinct) = (Vec::new(), Vec::new(), Vec::new());
        let mut first: FirstBytes = Vec::new();
        let (mut has_sets, mut written) = (false, None);
        let mut begins = [false; 257];
        // By the address of an automaton.
        let mut remaining: HashMap<usize, Arc<Remaining>> = HashMap::new();
        let mut order: Vec<TerminalId> = grammar.terminals().collect();
        order.sort_unstable_by_key(|terminal| names[terminal.index()]);
        for terminal in order {
            let is_used = is_used[names[terminal.index()] as usize];
            match grammar.terminal(terminal) {
                Terminal::Literal(text) => {
                    if is_used {
                        text.iter().for_each(|byte| used[usize::from(*byte)] = true);
                        begin_at_each(text, &mut begins);
                    }
                    literals.push(text.clone());
                }
                Terminal::Automaton(dfa) => {
                    if is_used {
                        use_automaton(dfa, &mut used, &mut begins);
                    }
                    scanners.push(Scanner::Automaton(Arc::clone(dfa), ends(dfa)));
                }
                Terminal::Except(except) | Terminal::Distinct(except) => {
                    if is_used {
                        use_automaton(except.base(), &mut used, &mut begins);
                        except.texts().for_each(|text| begin_at_each(text, &mut begins));
                    }
                    scanners.push(Scanner::Except(Arc::clone(except), ends(except.base())));
                }
                Terminal::Counted(counted) => {
                    if is_used {
                        use_automaton(counted.unit(), &mut used, &mut begins);
                        let (open, close) = counted.marks();
                        for mark in [open, close] {
                            mark.iter().for_each(|byte| used[usize::from(*byte)] = true);
                            begin_at_each(mark, &mut begins);
                        }
                    }
                    scanners.push(Scanner::Counted(Arc::clone(counted)));
                }
                Terminal::Token(name) => {
                    let controls = controls.get_or_insert_with(|| {
                        let names = trie.vocabulary().control_tokens();
                        names.map(|(token, name)| (name.into_owned(), token)).collect()
                    });
                    let Some(token) = controls.get(&**name) else {
                        return Err(GrammarError::UnknownToken { name: name.to_string() });
                    };
                    scanners.push(match trie.vocabulary().is_end_of_sequence(*token) {
                        true => Scanner::End,
                        false => Scanner::Token(*token),
                    });
                }
                Terminal::OneOf(tokens) => {
                    let vocabulary = trie.vocabulary();
                    if tokens.len() != vocabulary.len() {
                        let (tokens, vocabulary) = (tokens.len(), vocabulary.len());
                        return Err(GrammarError::OtherVocabulary { tokens, vocabulary });
                    }
                    let written = written.get_or_insert_with(|| written_tokens(vocabulary));
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
                Terminal::Distinct(except) => {
                    let base = except.base();
                    let known = remaining.entry(Arc::as_ptr(base).addr());
                    Some(Arc::clone(known.or_insert_with(|| Arc::new(Remaining::new(base)))))
                }
                _ => None,
            });
        }
        // Where every byte is a token by itself, every text is spelled by tokens.
        if let Some(byte) = (0..=255).find(|byte| used[usize::from(*byte)] && !trie.spells(*byte)) {
            return Err(GrammarError::UnspelledByte { byte });
        }
        let firsts: Vec<u8> = literals.iter().map(|literal| literal[0]).collect();
        let begin = |byte: usize| {
            let first = firsts.partition_point(|first| usize::from(*first) < byte);
            u32::try_from(first).expect("limited")
        };
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
            bytes: vec![0],
        };
        for byte in 1..=255u8 {
            if begins[usize::from(byte)] {
                terminals.bytes.push(byte);
            }
            let class = terminals.bytes.len() - 1;
            terminals.classes[usize::from(byte)] = u8::try_from(class).expect("256 bytes, 256 classes");
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
    pub(crate) fn is_literal(&self, terminal: u32) -> bool {
        (terminal as usize) < self.literals.len()
    }

    /// Of `edges`, which ascend, those that read literals.
    #[inline]
    pub(crate) fn literals<'e, T>(&self, edges: &'e [(u32, T)]) -> &'e [(u32, T)] {
        &edges[..edges.partition_point(|(terminal, _)| self.is_literal(*terminal))]
    }

    /// Of `edges`, those that read no literals.
    #[inline]
    pub(crate) fn others<'e, T>(&self, edges: &'e [(u32, T)]) -> &'e [(u32, T)] {
        &edges[self.literals(edges).len()..]
    }

    /// Where in `edges`, which ascend, those are that read literals which begin with `byte`.
    #[inline]
    pub(crate) fn beginning<T>(&self, edges: &[(u32, T)], byte: u8) -> Range<usize> {
        let [begin, end] = [0, 1].map(|more| self.beginning[usize::from(byte) + more]);
        if begin == end {
            return 0..0;
        }
        let first = edges.partition_point(|(terminal, _)| *terminal < begin);
        first..first + edges[first..].partition_point(|(terminal, _)| *terminal < end)
    }

    /// Of `literals`, which are edges, those that begin as `terminal`, the first of them, does in its first `depth` bytes.
    pub(crate) fn sharing<'e, T>(
        &self,
        literals: &'e [(u32, T)],
        terminal: u32,
        depth: usize,
    ) -> &'e [(u32, T)] {
        let prefix = &self.literals[terminal as usize][..depth];
        let first = literals.partition_point(|(other, _)| *other < terminal);
        let shares = |other: u32| self.literals[other as usize].starts_with(prefix);
        let len = literals[first..].partition_point(|(other, _)| shares(*other));
        &literals[first..first + len]
    }

    /// Of `sharing`, which agree in their first `depth` bytes, those that go on with a byte of `class`.
    pub(crate) fn going_on<'e, T>(&self, sharing: &'e [(u32, T)], depth: usize, class: u8) -> &'e [(u32, T)] {
        let byte = self.bytes[usize::from(class)];
        let next = |terminal: u32| self.literals[terminal as usize].get(depth).copied();
        let first = sharing.partition_point(|(terminal, _)| next(*terminal) < Some(byte));
        let len = sharing[first..].partition_point(|(terminal, _)| next(*terminal) == Some(byte));
        &sharing[first..first + len]
    }

    /// The bytes that texts of `terminal`, no literal, begin with, or more of them where it leaves some out.
    #[inline]
    pub(crate) fn first_bytes(&self, terminal: u32) -> &ByteSet {
        &self.first_bytes[terminal as usize - self.literals.len()]
    }

    /// The bytes that texts of `edges` begin with.
    pub(crate) fn first_bytes_of<T>(&self, edges: &[(u32, T)]) -> ByteSet {
        let mut bytes = ByteSet::default();
        self.add_next_bytes(self.literals(edges), 0, &mut bytes);
        for (terminal, _) in self.others(edges) {
            let more = self.first_bytes(*terminal);
            bytes.union(more);
        }
        bytes
    }

    /// The bytes with which `terminal`, no literal, goes on in `state`, or more of them where it leaves some out.
    pub(crate) fn next_bytes(&self, terminal: u32, state: u32) -> ByteSet {
        let mut bytes = ByteSet::default();
        match self.scanner(terminal) {
            Scanner::Automaton(dfa, _) => add_edges(dfa, StateId::from_index(state as usize), &mut bytes),
            Scanner::Except(except, _) => add_edges(except.base(), except.state(state), &mut bytes),
            Scanner::Counted(counted) => counted.next_bytes(state, |byte| bytes.insert(byte)),
            Scanner::Token(_) | Scanner::OneOf(_) | Scanner::End => {}
        }
        bytes
    }

    /// Adds the bytes with which `sharing`, literals that agree in their first `depth` bytes, go on.
    pub(crate) fn add_next_bytes<T>(&self, sharing: &[(u32, T)], depth: usize, bytes: &mut ByteSet) {
        let next = |(terminal, _): &(u32, T)| self.literals[*terminal as usize].get(depth).copied();
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

    /// What `terminal`, no literal, leaves out.
    pub(crate) fn except(&self, terminal: u32) -> Option<&Arc<Except>> {
        match self.scanner(terminal) {
            Scanner::Except(except, _) => Some(except),
            _ => None,
        }
    }

    /// Whether texts of `terminal` may not come twice in a scope.
    #[inline]
    pub(crate) fn is_distinct(&self, terminal: u32) -> bool {
        (terminal as usize).checked_sub(self.literals.len()).is_some_and(|at| self.distinct[at].is_some())
    }

    /// Of a terminal whose texts may not come twice: what it is, and how many there are.
    pub(crate) fn remaining(&self, terminal: u32) -> Option<(&Arc<Except>, &Remaining)> {
        let at = (terminal as usize).checked_sub(self.literals.len())?;
        Some((self.except(terminal)?, self.distinct[at].as_ref()?))
    }

    /// What `terminal`, no literal, is read by.
    pub(crate) fn scanner(&self, terminal: u32) -> &Scanner {
        &self.scanners[terminal as usize - self.literals.len()]
    }

    /// The number of literals, and of other terminals.
    pub(crate) fn len(&self) -> (usize, usize) {
        (self.literals.len(), self.scanners.len())
    }

    /// The text of a literal.
    #[inline]
    pub(crate) fn literal(&self, terminal: u32) -> &[u8] {
        &self.literals[terminal as usize]
    }

    /// The length of a literal.
    #[inline]
    pub(crate) fn literal_len(&self, terminal: u32) -> usize {
        self.literals[terminal as usize].len()
    }

    /// The state of `terminal`, no literal, behind the first byte of a text, or [`NONE`].
    #[inline]
    pub(crate) fn first(&self, terminal: u32, class: u8) -> u32 {
        match self.scanner(terminal) {
            Scanner::Automaton(dfa, _) => step(dfa, dfa.start(), self.bytes[usize::from(class)]),
            Scanner::Except(except, _) => except.step(except.start(), self.bytes[usize::from(class)]),
            Scanner::Counted(counted) => counted.step(counted.start(), self.bytes[usize::from(class)]),
            Scanner::Token(_) | Scanner::OneOf(_) | Scanner::End => NONE,
        }
    }

    /// The state of `terminal`, no literal, behind one more byte, or [`NONE`].
    #[inline]
    pub(crate) fn step(&self, terminal: u32, state: u32, class: u8) -> u32 {
        match self.scanner(terminal) {
            Scanner::Automaton(dfa, _) => {
                step(dfa, StateId::from_index(state as usize), self.bytes[usize::from(class)])
            }
            Scanner::Except(except, _) => except.step(state, self.bytes[usize::from(class)]),
            Scanner::Counted(counted) => counted.step(state, self.bytes[usize::from(class)]),
            Scanner::Token(_) | Scanner::OneOf(_) | Scanner::End => NONE,
        }
    }

    /// Whether a text of `terminal`, no literal, may end in `state`, which is behind at least one byte.
    #[inline]
    pub(crate) fn is_accepting(&self, terminal: u32, state: u32) -> bool {
        match self.scanner(terminal) {
            Scanner::Automaton(dfa, _) => dfa.is_accepting(StateId::from_index(state as usize)),
            Scanner::Except(except, _) => except.is_accepting(state),
            Scanner::Counted(counted) => counted.is_accepting(state),
            Scanner::Token(_) | Scanner::OneOf(_) | Scanner::End => false,
        }
    }

    /// Whether a text of `terminal`, no literal, must end in `state`.
    #[inline]
    pub(crate) fn is_final(&self, terminal: u32, state: u32) -> bool {
        match self.scanner(terminal) {
            Scanner::Automaton(_, ends) => ends[state as usize],
            Scanner::Except(except, ends) => except.is_accepting(state) && ends[except.state(state).index()],
            Scanner::Counted(counted) => counted.is_accepting(state),
            Scanner::Token(_) | Scanner::OneOf(_) | Scanner::End => false,
        }
    }

    /// Whether any terminal is the end of the output.
    #[inline]
    pub(crate) fn has_end(&self) -> bool {
        self.has_end
    }

    /// Whether `terminal`, no literal, is the end of the output.
    #[inline]
    pub(crate) fn is_end(&self, terminal: u32) -> bool {
        matches!(self.scanner(terminal), Scanner::End)
    }

    /// Whether any terminal is a set of tokens.
    #[inline]
    pub(crate) fn has_sets(&self) -> bool {
        self.has_sets
    }

    /// Whether `terminal`, no literal, reads `token` by its id.
    #[inline]
    pub(crate) fn reads_token(&self, terminal: u32, token: TokenId) -> bool {
        match self.scanner(terminal) {
            Scanner::Token(own) => *own == token,
            Scanner::OneOf(tokens) => tokens.contains(token),
            _ => false,
        }
    }
}

/// The tokens that a mask may hold.
fn written_tokens(vocabulary: &Vocabulary) -> TokenMask {
    let mut written = TokenMask::new(vocabulary.len());
    let texts = vocabulary.text_tokens().filter(|(_, text)| !text.is_empty()).map(|(token, _)| token);
    let controls = vocabulary.control_tokens().map(|(token, _)| token);
    texts
        .chain(controls.filter(|token| !vocabulary.is_end_of_sequence(*token)))
        .for_each(|token| written.as_mut().insert(token));
    written
}

/// The bytes that texts of `terminal` begin with, or more of them where it leaves some out.
pub(crate) fn first_bytes(terminal: &Terminal) -> ByteSet {
    let mut first = ByteSet::default();
    match terminal {
        Terminal::Literal(text) => first.insert(text[0]),
        Terminal::Automaton(dfa) => add_edges(dfa, dfa.start(), &mut first),
        Terminal::Except(except) | Terminal::Distinct(except) => {
            add_edges(except.base(), except.base().start(), &mut first);
        }
        Terminal::Counted(counted) => counted.next_bytes(counted.start(), |byte| first.insert(byte)),
        Terminal::Token(_) | Terminal::OneOf(_) => {}
    }
    first
}

/// Adds the bytes of the edges of `state`.
fn add_edges(dfa: &Dfa, state: StateId, bytes: &mut ByteSet) {
    for edge in dfa.edges(state) {
        edge.bytes.for_each(|byte| bytes.insert(byte));
    }
}

/// Tells each byte of `text` apart from its neighbours.
fn begin_at_each(text: &[u8], begins: &mut [bool; 257]) {
    for byte in text {
        begins[usize::from(*byte)] = true;
        begins[usize::from(*byte) + 1] = true;
    }
}

/// Marks the bytes that `dfa` uses, and those with which a class of it begins.
fn use_automaton(dfa: &Dfa, used: &mut [bool; 256], begins: &mut [bool; 257]) {
    dfa.bytes().for_each(|byte| used[usize::from(byte)] = true);
    let classes = dfa.classes();
    for byte in 1..=255u8 {
        begins[usize::from(byte)] |= classes.get(byte) != classes.get(byte - 1);
    }
}

#[inline]
fn step(dfa: &Dfa, state: StateId, byte: u8) -> u32 {
    dfa.step(state, byte).map_or(NONE, |next| u32::try_from(next.index()).expect("limited"))
}

/// By state: whether nothing follows it.
fn ends(dfa: &Dfa) -> Box<[bool]> {
    let bytes: Vec<u8> = dfa.classes().representatives().collect();
    let ends = |state| dfa.is_accepting(state) && bytes.iter().all(|byte| dfa.step(state, *byte).is_none());
    dfa.states().map(ends).collect()
}
