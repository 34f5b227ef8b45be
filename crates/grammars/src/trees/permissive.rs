//! Permissive states: fast path for roots of subterminal trees in states that accept almost every token, as inside a
//! string that a pattern searches, or anywhere in a text that must not contain a word.
//!
//! Such an automaton distinguishes many characters, and a walk over the vocabulary follows all of them, to find that
//! nearly every token is inside. So this path first looks for a set of safe bytes with which the automaton never
//! reaches a dead end, from any state that they reach. All tokens of safe bytes are inside. Only the tokens with
//! another byte that the automaton may read are read one by one: a closing quote, a backslash. Where the set is small,
//! or the automaton tells few kinds of bytes apart, the walk is the better way.
//!
//! Names without `drv_[a-z]` in them: after `drv_` each letter is a dead end, and nearly all tokens have a letter. A
//! token without `_` does not come there. So where letters make too many tokens, the bytes that lead to such a state
//! are the ones that are not safe, if fewer tokens have them.
//!
//! A character beyond ASCII is known by its first byte. The `.` of a pattern leaves out U+2028, and so `E2` is not
//! safe; Llama 3 has six hundred tokens with it, which are read. Tried before: all such characters or none, and a walk
//! of 3 ms in each state of each pattern with a `.`.
//!
//! Ten words of at most 100 characters: each character leads to another state, and after the last one there is a dead
//! end. So only the states are followed that some number of characters reaches, and the tokens of more bytes are read.

use std::ops::RangeInclusive;

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;
use unskew_automata::{Dfa, StateId};
use unskew_core::{TokenId, TokenMask, Vocabulary};

use super::suffixes::Exit;
use crate::tuning::Tuning;

/// The tokens of a vocabulary by their bytes.
#[derive(Debug)]
pub(crate) struct ByteLists {
    /// By first byte of a character: the tokens that contain it.
    having: Box<[Box<[TokenId]>]>,
    /// The tokens with other bytes than those of ASCII.
    beyond_ascii: Box<[TokenId]>,
    /// The tokens that are whole characters, perhaps with the first bytes of one more.
    whole: TokenMask,
    /// All other tokens.
    odd: Box<[TokenId]>,
    /// All tokens, the longest first.
    longest: Box<[TokenId]>,
    /// By number of bytes: how many tokens have more.
    longer: Box<[usize]>,
    /// By token: how many characters begin in it.
    characters: Box<[u32]>,
}

/// The automaton of UTF-8 (RFC 3629, section 4) without ASCII: by state, ranges of bytes and the next state. State 0
/// is between characters.
const CHARACTERS: [&[(u8, u8, u8)]; 8] = [
    &[
        (0xC2, 0xDF, 1),
        (0xE0, 0xE0, 4),
        (0xE1, 0xEC, 2),
        (0xED, 0xED, 5),
        (0xEE, 0xEF, 2),
        (0xF0, 0xF0, 6),
        (0xF1, 0xF3, 3),
        (0xF4, 0xF4, 7),
    ],
    &[(0x80, 0xBF, 0)],
    &[(0x80, 0xBF, 1)],
    &[(0x80, 0xBF, 2)],
    &[(0xA0, 0xBF, 1)],
    &[(0x80, 0x9F, 1)],
    &[(0x90, 0xBF, 2)],
    &[(0x80, 0x8F, 2)],
];

/// The tokens that end inside an automaton, and those that leave it.
#[derive(Debug)]
pub(crate) struct Permissive {
    pub(crate) inside: TokenMask,
    pub(crate) exits: Vec<Exit>,
}

impl ByteLists {
    pub(crate) fn memory_usage(&self) -> usize {
        let having = self.having.iter().map(|tokens| size_of_val(tokens) + size_of_val(&tokens[..]));
        having.sum::<usize>()
            + size_of_val(&self.beyond_ascii[..])
            + size_of_val(self.whole.words())
            + size_of_val(&self.odd[..])
            + size_of_val(&self.longest[..])
            + size_of_val(&self.longer[..])
            + size_of_val(&self.characters[..])
    }

    /// O(b) for b bytes of tokens.
    pub(crate) fn new(vocabulary: &Vocabulary) -> Self {
        let mut having: Vec<Vec<TokenId>> = vec![Vec::new(); 256];
        let (mut beyond_ascii, mut odd) = (Vec::new(), Vec::new());
        let mut whole = TokenMask::new(vocabulary.len());
        let mut by_len: Vec<Vec<TokenId>> = Vec::new();
        let mut characters = vec![0; vocabulary.len()];
        for (token, text) in vocabulary.text_tokens().filter(|(_, text)| !text.is_empty()) {
            let (mut utf8, mut is_ascii) = (Some(0), true);
            if by_len.len() <= text.len() {
                by_len.resize_with(text.len() + 1, Vec::new);
            }
            by_len[text.len()].push(token);
            for byte in text {
                characters[token.index()] += u32::from(!(0x80..0xC0).contains(byte));
                if !(0x80..0xC2).contains(byte) {
                    let tokens = &mut having[usize::from(*byte)];
                    if tokens.last() != Some(&token) {
                        tokens.push(token);
                    }
                }
                if byte.is_ascii() {
                    utf8 = utf8.filter(|utf8| *utf8 == 0);
                } else {
                    is_ascii = false;
                    utf8 = utf8.and_then(|utf8: u8| {
                        let mut ways = CHARACTERS[usize::from(utf8)].iter();
                        ways.find(|(first, last, _)| (first..=last).contains(&byte)).map(|(.., next)| *next)
                    });
                }
            }
            match utf8 {
                Some(_) => whole.as_mut().insert(token),
                None => odd.push(token),
            }
            if !is_ascii {
                beyond_ascii.push(token);
            }
        }
        let longer = by_len.iter().rev().scan(0, |longer, tokens| {
            let here = *longer;
            *longer += tokens.len();
            Some(here)
        });
        let mut longer: Vec<usize> = longer.collect();
        longer.reverse();
        Self {
            longest: by_len.into_iter().rev().flatten().collect(),
            longer: longer.into(),
            characters: characters.into(),
            having: having.into_iter().map(Vec::into_boxed_slice).collect(),
            beyond_ascii: beyond_ascii.into(),
            whole,
            odd: odd.into(),
        }
    }

    /// The tokens of more than so many bytes.
    pub(crate) fn longer(&self, bytes: usize) -> &[TokenId] {
        &self.longest[..self.longer.get(bytes).copied().unwrap_or(0)]
    }

    /// The tokens that contain a byte of ASCII, or one with which a longer character begins.
    pub(crate) fn having(&self, byte: u8) -> &[TokenId] {
        &self.having[usize::from(byte)]
    }

    /// The number of characters that begin in a token.
    pub(crate) fn characters(&self, token: TokenId) -> u32 {
        self.characters[token.index()]
    }

    /// The tokens that have one of the bytes, those being bytes of ASCII or first bytes of longer characters; and the
    /// tokens that are no whole characters.
    pub(crate) fn having_any(&self, has: impl Fn(u8) -> bool) -> impl Iterator<Item = TokenId> {
        let lists = (0..=u8::MAX).filter(move |byte| has(*byte)).map(|byte| self.having(byte));
        lists.chain([&self.odd[..]]).flatten().copied()
    }

    /// The tokens of `dfa` from `start` on; `None` if a walk is the better way. A token leaves the automaton where it
    /// cannot be read and the automaton may end, but not before its first byte.
    ///
    /// Cost: about 0.1 ms; a few microseconds if the walk is found to be better.
    pub(crate) fn root(
        &self,
        dfa: &Dfa,
        start: StateId,
        vocabulary: &Vocabulary,
        tuning: &Tuning,
    ) -> Option<Permissive> {
        if dfa.classes().len() < tuning.permissive_classes {
            return None;
        }
        let depth = self.longer.partition_point(|longer| *longer > tuning.permissive_long);
        let having = |byte: u8| self.having[usize::from(byte)].len();
        let to_read = |closure: &Closure| self.to_read(dfa, closure).map(<[TokenId]>::len).sum::<usize>();
        let mut closure = Closure::new(dfa, start, depth, tuning, |_| 0);
        if closure.as_ref().is_none_or(|closure| to_read(closure) > tuning.permissive_read) {
            let other = Closure::new(dfa, start, depth, tuning, having);
            closure = closure.into_iter().chain(other).min_by_key(to_read);
        }
        let closure = closure?;
        let longer = self.longer_than(&closure);
        // A walk comes to the dead ends soon.
        if longer.len() > tuning.permissive_read {
            return None;
        }
        let mut read = TokenMask::new(vocabulary.len());
        self.to_read(dfa, &closure).flatten().for_each(|token| read.as_mut().insert(*token));
        let beyond_ascii = closure.safe[128..].iter().any(|is_safe| *is_safe);
        let out = closure
            .unsafe_bytes()
            .filter(|byte| byte.is_ascii() || beyond_ascii)
            .map(|byte| self.having(byte))
            .chain((!beyond_ascii).then_some(&self.beyond_ascii[..]))
            .chain([longer]);
        let mut permissive = Permissive { inside: self.whole.clone(), exits: Vec::new() };
        out.flatten().for_each(|token| permissive.inside.as_mut().remove(*token));
        'tokens: for token in read.ids() {
            let text = vocabulary.text(token).unwrap_or_default();
            let mut state = start;
            for (at, byte) in text.iter().enumerate() {
                match dfa.step(state, *byte) {
                    Some(next) => state = next,
                    None => {
                        if at > 0 && dfa.is_accepting(state) {
                            let left = u32::try_from(text.len() - at).expect("tokens are short");
                            permissive.exits.push((*byte, token, left));
                        }
                        continue 'tokens;
                    }
                }
            }
            permissive.inside.as_mut().insert(token);
        }
        Some(permissive)
    }

    /// The tokens that are longer than the states of a closure were followed.
    fn longer_than(&self, closure: &Closure) -> &[TokenId] {
        closure.depth.map_or(&[], |depth| self.longer(depth))
    }

    /// The tokens that a closure does not tell, some of them twice.
    fn to_read<'a>(&'a self, dfa: &Dfa, closure: &Closure) -> impl Iterator<Item = &'a [TokenId]> {
        let goes_on = |byte: &u8| closure.states.iter().any(|state| dfa.step(*state, *byte).is_some());
        let lists = closure.unsafe_bytes().filter(goes_on).map(|byte| self.having(byte));
        lists.chain([&self.odd[..], self.longer_than(closure)])
    }
}

/// The states that safe bytes reach.
struct Closure {
    /// The states between characters.
    states: Vec<StateId>,
    /// By first byte of a character: whether all its characters lead from each of these states to one of them.
    safe: [bool; 256],
    /// If these are not all states that safe bytes reach: those that fewer characters reach.
    depth: Option<usize>,
}

/// Bytes of ASCII between which an automaton does not distinguish.
struct Bytes {
    /// One of them.
    byte: u8,
    /// How many there are.
    len: usize,
    weight: usize,
    is_safe: bool,
}

impl Closure {
    fn unsafe_bytes(&self) -> impl Iterator<Item = u8> + use<> {
        let safe = self.safe;
        (0..=u8::MAX).filter(move |byte| !safe[usize::from(*byte)])
    }

    /// `None` if there are few safe bytes of ASCII at the start. The states are followed for `depth` characters, and
    /// not to one after which safe bytes are few, or which may end, or beyond
    /// [`permissive_states`](Tuning::permissive_states).
    ///
    /// `weight` says how many tokens have a byte of ASCII. A byte is not safe where it leads to a state in which bytes
    /// with more weight are dead ends.
    fn new(
        dfa: &Dfa,
        start: StateId,
        depth: usize,
        tuning: &Tuning,
        weight: impl Fn(u8) -> usize,
    ) -> Option<Self> {
        let mut ascii: SmallVec<[Bytes; 24]> = SmallVec::new();
        for byte in 0..128 {
            let is_same = |other: &&mut Bytes| dfa.classes().get(other.byte) == dfa.classes().get(byte);
            match ascii.iter_mut().rev().find(is_same) {
                Some(bytes) => {
                    bytes.len += 1;
                    bytes.weight += weight(byte);
                }
                None if dfa.step(start, byte).is_some() => {
                    ascii.push(Bytes { byte, len: 1, weight: weight(byte), is_safe: true });
                }
                None => {}
            }
        }
        let mut others: [bool; 128] = std::array::from_fn(|byte| {
            let byte = u8::try_from(byte + 128).expect("there are 256");
            byte >= 0xC2 && dfa.step(start, byte).is_some()
        });
        let few = |ascii: &[Bytes]| {
            let safe = ascii.iter().filter(|bytes| bytes.is_safe).map(|bytes| bytes.len);
            safe.sum::<usize>() < tuning.permissive_bytes
        };
        // After a closing quote or a backslash the automaton ends or reads few bytes.
        let dead_ends = |ascii: &[Bytes], state: StateId| {
            let (mut read, mut dead) = (0, 0);
            for bytes in ascii {
                match dfa.step(state, bytes.byte) {
                    Some(_) => read += bytes.len,
                    None => dead += bytes.weight,
                }
            }
            (read >= tuning.permissive_bytes && !dfa.is_accepting(state)).then_some(dead)
        };
        dead_ends(&ascii, start)?;
        let mut known: HashMap<StateId, Option<usize>> = HashMap::new();
        let (mut states, mut level, mut next_level) = (Vec::new(), vec![start], Vec::new());
        let mut seen: HashSet<StateId> = HashSet::from([start]);
        let mut inside = Inside::default();
        let mut at = 0;
        let is_whole = loop {
            if level.is_empty() {
                break true;
            }
            if at == depth || states.len() + level.len() > tuning.permissive_states {
                break false;
            }
            let before = (ascii.iter().map(|bytes| bytes.is_safe).collect::<SmallVec<[bool; 24]>>(), others);
            for state in &level {
                for at in 0..ascii.len() {
                    if ascii[at].is_safe {
                        let weight = ascii[at].weight;
                        let mut is_cheap = |next: &StateId| {
                            let dead = known.entry(*next).or_insert_with(|| dead_ends(&ascii, *next));
                            dead.is_some_and(|dead| dead <= weight)
                        };
                        match dfa.step(*state, ascii[at].byte).filter(&mut is_cheap) {
                            Some(next) => next_level.extend(seen.insert(next).then_some(next)),
                            None => ascii[at].is_safe = false,
                        }
                    }
                }
                if others.iter().any(|is_safe| *is_safe) {
                    inside.read(dfa, (*state, 0), |bytes, is_read| {
                        bytes.for_each(|byte| others[usize::from(byte) - 128] &= is_read);
                    });
                    next_level.extend(inside.ends.drain(..).filter(|next| seen.insert(*next)));
                }
            }
            if few(&ascii) || level.iter().any(|state| dfa.is_accepting(*state)) {
                ascii.iter_mut().zip(before.0).for_each(|(bytes, is_safe)| bytes.is_safe = is_safe);
                others = before.1;
                break false;
            }
            states.append(&mut level);
            std::mem::swap(&mut level, &mut next_level);
            at += 1;
        };
        if at == 0 {
            return None;
        }
        let mut safe = [false; 256];
        for byte in 0..=u8::MAX {
            let is_same = |bytes: &&Bytes| dfa.classes().get(bytes.byte) == dfa.classes().get(byte);
            safe[usize::from(byte)] = match byte.checked_sub(128) {
                None => ascii.iter().find(is_same).is_some_and(|bytes| bytes.is_safe),
                Some(byte) => others[usize::from(byte)],
            };
        }
        Some(Self { states, safe, depth: (!is_whole).then_some(at) })
    }
}

/// By byte beyond ASCII: whether all characters that begin with it lead from `at` back to `at`. None does if one of
/// them leads to another state, or comes by a state that is not `inside` of it.
pub(crate) fn returning(dfa: &Dfa, at: StateId, inside: impl Fn(StateId) -> bool) -> [bool; 128] {
    let mut returning = [false; 128];
    let mut read = Inside::default();
    read.read(dfa, (at, 0), |bytes, is_read| {
        bytes.for_each(|byte| returning[usize::from(byte) - 128] = is_read);
    });
    let is_one = read.ends.iter().all(|end| *end == at) && read.known.keys().all(|(state, _)| inside(*state));
    if is_one { returning } else { [false; 128] }
}

/// The states of an automaton inside of characters beyond ASCII.
#[derive(Default)]
struct Inside {
    /// By state of the automaton and state of UTF-8: whether all rests of characters are read.
    known: HashMap<(StateId, u8), bool>,
    /// The states that were reached between characters.
    ends: Vec<StateId>,
}

impl Inside {
    /// Tells for ranges of the bytes that UTF-8 reads in a state whether all that begins with them is read.
    fn read(
        &mut self,
        dfa: &Dfa,
        (state, utf8): (StateId, u8),
        mut told: impl FnMut(RangeInclusive<u8>, bool),
    ) {
        for (first, last, next) in CHARACTERS[usize::from(utf8)] {
            let class = |byte: u8| dfa.classes().get(byte);
            let mut begin = *first;
            for byte in *first..=*last {
                if byte == *last || class(byte + 1) != class(begin) {
                    let is_read = dfa.step(state, begin).is_some_and(|to| self.is_read(dfa, (to, *next)));
                    told(begin..=byte, is_read);
                    begin = byte.saturating_add(1);
                }
            }
        }
    }

    fn is_read(&mut self, dfa: &Dfa, at: (StateId, u8)) -> bool {
        if at.1 == 0 {
            self.ends.push(at.0);
            return true;
        }
        if let Some(known) = self.known.get(&at) {
            return *known;
        }
        let mut all = true;
        self.read(dfa, at, |_, is_read| all &= is_read);
        self.known.insert(at, all);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unskew_automata::Limits;
    use unskew_trie::TokenTrie;

    use super::*;
    use crate::TreeLibrary;

    /// Over tokens of several kinds of bytes, this path finds the tokens that a walk finds.
    #[test]
    fn roots_are_those_of_walks() {
        let mut builder = Vocabulary::builder();
        let parts: [&[u8]; 16] = [
            b"a",
            b"bit",
            b"map",
            b" ",
            b"\"",
            b"\\",
            b"n",
            b"\n",
            b"Z9",
            "é".as_bytes(),
            "中".as_bytes(),
            "😀".as_bytes(),
            b"\xE4",
            b"\xB8\xAD",
            b"\xF0\x9F",
            b",",
        ];
        for first in parts {
            builder.text(first);
            for second in parts {
                builder.text(&[first, second].concat());
                for third in parts {
                    builder.text(&[first, second, third].concat());
                }
            }
        }
        let vocabulary = Arc::new(builder.build().unwrap());
        let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
        let library = TreeLibrary::new(trie, 1 << 28);
        let lists = ByteLists::new(&vocabulary);
        // After a Z most tokens cannot be read.
        const WITHOUT_LETTERS: &str = r#""([^"\\Z]|Z[^a-y"\\])*""#;
        // With these, tokens with a letter are too many.
        let tight = Tuning {
            permissive_classes: 0,
            permissive_read: 1 << 9,
            permissive_long: 1 << 5,
            ..Tuning::default()
        };
        // The states of this one reach a dead end.
        const COUNTED: &str = r#""([^"\\ \n]{1,30} ){0,2}[^"\\ \n]{1,30}""#;
        let (mut found, mut found_tight, mut found_counted) = (0, 0, 0);
        for pattern in [
            r#""([^"\\\n]|\\n)*bitmap([^"\\\n]|\\n)*""#,
            r#""[^"\\]*""#,
            r#""([ -!#-\[\]-~])*9""#,
            r#"([^"\\\n]|\\n)*bitmap"#,
            r#""([^"\\ab]|a[^"\\b])*b?""#,
            r#"[a-z]+"|[a-z ]+,"#,
            r#"([^"\\é]|\\n)*""#,
            WITHOUT_LETTERS,
            COUNTED,
            // Without one character of three bytes: all tokens with the first of them are read.
            r#""[^"\\中]*""#,
            r#""([^"\\\n\u{2028}]|\\n)*a([^"\\\n\u{2028}]|\\n)*""#,
        ] {
            let dfa = Dfa::from_pattern(pattern, &Limits::default()).unwrap();
            let default = Tuning { permissive_classes: 0, ..Tuning::default() };
            for (state, tuning) in dfa.states().flat_map(|state| [(state, &default), (state, &tight)]) {
                let Some(mut permissive) = lists.root(&dfa, state, &vocabulary, tuning) else {
                    continue;
                };
                found += 1;
                found_tight += usize::from(*tuning == tight && pattern == WITHOUT_LETTERS);
                found_counted += usize::from(pattern == COUNTED);
                let (inside, mut exits) = library.walked(&dfa, state);
                assert_eq!(permissive.inside.ids().collect::<Vec<_>>(), inside, "{pattern} {state:?}");
                permissive.exits.sort_unstable();
                exits.sort_unstable();
                assert_eq!(permissive.exits, exits, "{pattern} {state:?}");
            }
        }
        let all = [found, found_tight, found_counted];
        assert!(found > 20 && !all.contains(&0), "{all:?} states were permissive");
    }
}
