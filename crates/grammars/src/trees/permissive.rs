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

use unskew_automata::{Dfa, StateId};
use unskew_core::{TokenId, TokenMask, Vocabulary};

use super::suffixes::Exit;
use crate::{network::safe::reads_many, tuning::Tuning};

/// The tokens of a vocabulary by their bytes.
#[derive(Debug)]
pub(crate) struct ByteLists {
    /// By byte of ASCII: the tokens that contain it.
    having: Box<[Box<[TokenId]>]>,
    /// The tokens with other bytes.
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
        let mut having: Vec<Vec<TokenId>> = vec![Vec::new(); 128];
        let (mut beyond_ascii, mut odd) = (Vec::new(), Vec::new());
        let mut whole = TokenMask::new(vocabulary.len());
        for (token, text) in vocabulary.text_tokens().filter(|(_, text)| !text.is_empty()) {
            let (mut utf8, mut is_ascii) = (Some(0), true);
            for byte in text {
                if byte.is_ascii() {
                    let tokens = &mut having[usize::from(*byte)];
                    if tokens.last() != Some(&token) {
                        tokens.push(token);
                    }
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
        Closure { states, safe, beyond_ascii }: Closure,
        vocabulary: &Vocabulary,
        tuning: &Tuning,
    ) -> Option<Permissive> {
        let unsafe_bytes = (0..128u8).filter(|byte| !safe[usize::from(*byte)]);
        let out: Vec<&[TokenId]> = unsafe_bytes
            .clone()
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
    /// By byte of ASCII: whether it leads from each of these states to one of them.
    safe: [bool; 128],
    /// Whether these states read all other characters; if not, they read none of their bytes.
    beyond_ascii: bool,
}

impl Closure {
    /// `None` if there are too many states, or few safe bytes, or another character leads to a state that may
    /// end, or the states read some other characters and not all.
    ///
    /// `weight` says how many tokens have a byte of ASCII. A byte is not safe where it leads to a state in which bytes
    /// with more weight are dead ends.
    fn new(dfa: &Dfa, start: StateId, tuning: &Tuning, weight: impl Fn(u8) -> usize) -> Option<Self> {
        let mut safe: [bool; 128] = std::array::from_fn(|byte| {
            let byte = u8::try_from(byte).expect("there are 128");
            dfa.step(start, byte).is_some()
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
        let beyond_ascii = (0xC2..=0xF4).any(|byte| dfa.step(start, byte).is_some());
        let mut states: Vec<StateId> = Vec::new();
        // By state: a bit for each state of UTF-8.
        let mut seen: Vec<u8> = vec![0; dfa.len()];
        let mut open = Vec::new();
        let mut reach = |open: &mut Vec<(StateId, u8)>, next: StateId, utf8: u8| {
            if seen[next.index()] >> utf8 & 1 == 0 {
                seen[next.index()] |= 1 << utf8;
                open.push((next, utf8));
            }
        };
        reach(&mut open, start, 0);
        while let Some((state, utf8)) = open.pop() {
            if utf8 == 0 {
                if states.len() == tuning.permissive_states || dead_ends(state) == usize::MAX {
                    return None;
                }
                states.push(state);
                for (byte, is_safe) in (0..128u8).zip(&mut safe).filter(|(_, is_safe)| **is_safe) {
                    let is_cheap = |next: &StateId| match dead_ends(*next) {
                        usize::MAX => false,
                        dead_ends => dead_ends <= weight(byte),
                    };
                    match dfa.step(state, byte).filter(is_cheap) {
                        Some(next) => reach(&mut open, next, 0),
                        None => *is_safe = false,
                    }
                }
                if safe.iter().filter(|is_safe| **is_safe).count() < tuning.permissive_bytes {
                    return None;
                }
            }
            for (first, last, next_utf8) in CHARACTERS[usize::from(utf8)] {
                let mut class = None;
                for byte in *first..=*last {
                    let this = dfa.classes().get(byte);
                    if class == Some(this) {
                        continue;
                    }
                    class = Some(this);
                    match (dfa.step(state, byte), beyond_ascii) {
                        (Some(next), true) => reach(&mut open, next, *next_utf8),
                        (None, false) => {}
                        (Some(_), false) | (None, true) => return None,
                    }
                }
            }
        }
        Some(Self { states, safe, beyond_ascii })
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
