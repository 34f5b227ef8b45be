//! Permissive states: fast path for roots of subterminal trees in states that accept almost every token, as inside a
//! string that a pattern searches, or anywhere in a text that must not contain a word.
//!
//! Such an automaton distinguishes many characters, and a walk over the vocabulary follows all of them, to find that
//! nearly every token is inside. So this path first looks for a set of safe bytes with which the automaton never
//! reaches a dead end, from any state that they reach. All tokens of safe bytes are inside. Only the tokens with
//! another byte that the automaton may read are read one by one: a closing quote, a backslash. Where the set is small
//! or these tokens are many, the walk is the better way.
//!
//! Names without `drv_[a-z]` in them: after `drv_` each letter is a dead end, and nearly all tokens have a letter. A
//! token without `_` does not come there. So where letters make too many tokens, the bytes that lead to such a state
//! are the ones that are not safe, if fewer tokens have them.
//!
//! A character beyond ASCII is known by its first byte. The `.` of a pattern leaves out U+2028, and so `E2` is not safe;
//! Llama 3 has six hundred tokens with it, which are read. Tried before: all such characters or none, and a walk
//! of 3 ms in each state of each pattern with a `.`.

use std::ops::RangeInclusive;

use hashbrown::HashMap;
use unskew_automata::{Dfa, StateId};
use unskew_core::{TokenId, TokenMask, Vocabulary};

use super::suffixes::Exit;
use crate::{network::safe::reads_many, tuning::Tuning};

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
    }

    /// O(b) for b bytes of tokens.
    pub(crate) fn new(vocabulary: &Vocabulary) -> Self {
        let mut having: Vec<Vec<TokenId>> = vec![Vec::new(); 256];
        let (mut beyond_ascii, mut odd) = (Vec::new(), Vec::new());
        let mut whole = TokenMask::new(vocabulary.len());
        for (token, text) in vocabulary.text_tokens().filter(|(_, text)| !text.is_empty()) {
            let (mut utf8, mut is_ascii) = (Some(0), true);
            for byte in text {
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
        Self {
            having: having.into_iter().map(Vec::into_boxed_slice).collect(),
            beyond_ascii: beyond_ascii.into(),
            whole,
            odd: odd.into(),
        }
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
        let having = |byte: u8| self.having[usize::from(byte)].len();
        let tokens_of = |closure: Closure| self.read(dfa, start, closure, vocabulary, tuning);
        Closure::new(dfa, start, tuning, |_| 0)
            .and_then(tokens_of)
            .or_else(|| Closure::new(dfa, start, tuning, having).and_then(tokens_of))
    }

    /// As [`root`](Self::root), with these safe bytes.
    fn read(
        &self,
        dfa: &Dfa,
        start: StateId,
        Closure { states, safe }: Closure,
        vocabulary: &Vocabulary,
        tuning: &Tuning,
    ) -> Option<Permissive> {
        let unsafe_bytes = (0..=u8::MAX).filter(|byte| !safe[usize::from(*byte)]);
        let beyond_ascii = safe[128..].iter().any(|is_safe| *is_safe);
        let out: Vec<&[TokenId]> = unsafe_bytes
            .clone()
            .filter(|byte| byte.is_ascii() || beyond_ascii)
            .map(|byte| &self.having[usize::from(byte)][..])
            .chain((!beyond_ascii).then_some(&self.beyond_ascii[..]))
            .collect();
        if out.iter().map(|tokens| tokens.len()).sum::<usize>() > tuning.permissive_out {
            return None;
        }
        let goes_on = |byte: u8| states.iter().any(|state| dfa.step(*state, byte).is_some());
        let mut read = TokenMask::new(vocabulary.len());
        let mut len = 0;
        for tokens in unsafe_bytes
            .filter(|byte| goes_on(*byte))
            .map(|byte| &self.having[usize::from(byte)])
            .chain([&self.odd])
        {
            len += tokens.len();
            if len > tuning.permissive_read {
                return None;
            }
            tokens.iter().for_each(|token| read.as_mut().insert(*token));
        }
        let mut permissive = Permissive { inside: self.whole.clone(), exits: Vec::new() };
        out.into_iter().flatten().for_each(|token| permissive.inside.as_mut().remove(*token));
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
}

/// The states that safe bytes reach.
struct Closure {
    /// The states between characters.
    states: Vec<StateId>,
    /// By first byte of a character: whether all its characters lead from each of these states to one of them.
    safe: [bool; 256],
}

impl Closure {
    /// `None` if there are too many states, or few safe bytes of ASCII, or another character leads to a state that may
    /// end.
    ///
    /// `weight` says how many tokens have a byte of ASCII. A byte is not safe where it leads to a state in which bytes
    /// with more weight are dead ends.
    fn new(dfa: &Dfa, start: StateId, tuning: &Tuning, weight: impl Fn(u8) -> usize) -> Option<Self> {
        let mut safe: [bool; 256] = std::array::from_fn(|byte| {
            let byte = u8::try_from(byte).expect("there are 256");
            !(0x80..0xC2).contains(&byte) && dfa.step(start, byte).is_some()
        });
        let begun = safe;
        // By state: the weight of its dead ends. After a closing quote or a backslash the automaton ends or reads few
        // bytes.
        let mut known: Vec<Option<usize>> = vec![None; dfa.len()];
        let mut dead_ends = |state: StateId| {
            *known[state.index()].get_or_insert_with(|| {
                if dfa.is_accepting(state) || !reads_many(dfa, state, tuning) {
                    return usize::MAX;
                }
                let dead = (0..128u8)
                    .zip(&begun)
                    .filter(|(byte, begun)| **begun && dfa.step(state, *byte).is_none());
                dead.map(|(byte, _)| weight(byte)).sum()
            })
        };
        let mut states: Vec<StateId> = Vec::new();
        let mut seen = vec![false; dfa.len()];
        let mut open = vec![start];
        seen[start.index()] = true;
        let mut reach = |open: &mut Vec<StateId>, next: StateId| {
            if !std::mem::replace(&mut seen[next.index()], true) {
                open.push(next);
            }
        };
        let mut inside = Inside::default();
        while let Some(state) = open.pop() {
            if states.len() == tuning.permissive_states || dead_ends(state) == usize::MAX {
                return None;
            }
            states.push(state);
            let (ascii, others) = safe.split_at_mut(128);
            for (byte, is_safe) in (0..128u8).zip(&mut *ascii).filter(|(_, is_safe)| **is_safe) {
                let is_cheap = |next: &StateId| match dead_ends(*next) {
                    usize::MAX => false,
                    dead_ends => dead_ends <= weight(byte),
                };
                match dfa.step(state, byte).filter(is_cheap) {
                    Some(next) => reach(&mut open, next),
                    None => *is_safe = false,
                }
            }
            if ascii.iter().filter(|is_safe| **is_safe).count() < tuning.permissive_bytes {
                return None;
            }
            if others.iter().any(|is_safe| *is_safe) {
                inside.read(dfa, (state, 0), |bytes, is_read| {
                    bytes.for_each(|byte| others[usize::from(byte) - 128] &= is_read);
                });
                inside.ends.drain(..).for_each(|next| reach(&mut open, next));
            }
        }
        Some(Self { states, safe })
    }
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
        let tight = Tuning { permissive_out: 3500, permissive_read: 3500, ..Tuning::default() };
        let (mut found, mut found_tight) = (0, 0);
        for pattern in [
            r#""([^"\\\n]|\\n)*bitmap([^"\\\n]|\\n)*""#,
            r#""[^"\\]*""#,
            r#""([ -!#-\[\]-~])*9""#,
            r#"([^"\\\n]|\\n)*bitmap"#,
            r#""([^"\\ab]|a[^"\\b])*b?""#,
            r#"[a-z]+"|[a-z ]+,"#,
            r#"([^"\\é]|\\n)*""#,
            WITHOUT_LETTERS,
            // Without one character of three bytes: all tokens with the first of them are read.
            r#""[^"\\中]*""#,
            r#""([^"\\\n\u{2028}]|\\n)*a([^"\\\n\u{2028}]|\\n)*""#,
        ] {
            let dfa = Dfa::from_pattern(pattern, &Limits::default()).unwrap();
            let default = Tuning::default();
            for (state, tuning) in dfa.states().flat_map(|state| [(state, &default), (state, &tight)]) {
                let Some(mut permissive) = lists.root(&dfa, state, &vocabulary, tuning) else {
                    continue;
                };
                found += 1;
                found_tight += usize::from(*tuning == tight && pattern == WITHOUT_LETTERS);
                let (inside, mut exits) = library.walked(&dfa, state);
                assert_eq!(permissive.inside.ids().collect::<Vec<_>>(), inside, "{pattern} {state:?}");
                permissive.exits.sort_unstable();
                exits.sort_unstable();
                assert_eq!(permissive.exits, exits, "{pattern} {state:?}");
            }
        }
        assert!(found > 20 && found_tight > 0, "{found} and {found_tight} states were permissive");
    }
}
