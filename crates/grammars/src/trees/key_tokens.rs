//! The tokens that contain a text of a terminal whose texts are [keys](crate::unique::keys).

use hashbrown::HashMap;
use smallvec::SmallVec;
use unskew_automata::Dfa;
use unskew_core::{MaskRef, TokenId};
use unskew_grammar::kit::terminal::remaining::{MANY, Remaining};

pub(crate) type TokensByText = HashMap<Box<[u8]>, Vec<TokenId>>;

/// The tokens in which some key begins, and ends or reaches a prefix of few keys.
#[derive(Default, Debug)]
pub(crate) struct KeyTokens {
    pub(crate) all: SparseTokens,
    /// Those in which a key ends and another one begins.
    pub(crate) twice: SparseTokens,
    /// By key: the tokens that contain it.
    pub(crate) by_text: TokensByText,
    /// By prefix of few keys: the tokens that end with it.
    pub(crate) by_prefix: TokensByText,
    /// By token: the offsets at which such keys begin, in ascending order.
    pub(crate) begins: HashMap<TokenId, SmallVec<[u32; 4]>>,
}

/// A set of few tokens, as the words of a mask.
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct SparseTokens {
    /// The indices of the words that are not zero, and these words.
    words: Box<[(u32, u32)]>,
    /// All words, up to the last one that is not zero.
    bits: Box<[u32]>,
}

impl SparseTokens {
    pub(crate) fn new(mut tokens: Vec<TokenId>) -> Self {
        tokens.sort_unstable();
        let word = |token: &TokenId| u32::try_from(token.index() / 32).expect("ids are u32");
        let words = tokens.chunk_by(|left, right| word(left) == word(right)).map(|tokens| {
            let bits = tokens.iter().fold(0u32, |bits, token| bits | 1 << (token.index() % 32));
            (word(&tokens[0]), bits)
        });
        let words: Box<[(u32, u32)]> = words.collect();
        let mut bits = vec![0; words.last().map_or(0, |(last, _)| *last as usize + 1)];
        words.iter().for_each(|(word, set)| bits[*word as usize] = *set);
        Self { words, bits: bits.into() }
    }

    pub(crate) fn contains(&self, token: TokenId) -> bool {
        let bits = self.bits.get(token.index() / 32).copied().unwrap_or(0);
        bits >> (token.index() % 32) & 1 != 0
    }

    /// Adds the tokens that are also in a mask of these words.
    pub(crate) fn add_common(&self, mask: &[u32], found: &mut Vec<TokenId>) {
        for (word, bits) in &self.words {
            let mut common = bits & mask[*word as usize];
            while common != 0 {
                found.push(TokenId(word * 32 + common.trailing_zeros()));
                common &= common - 1;
            }
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = TokenId> {
        MaskRef::new(&self.bits, self.bits.len() * 32).into_ids()
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.words[..]) + size_of_val(&self.bits[..])
    }
}

/// The range of a text in a token; one that ends at [`OPEN`] is a prefix of few texts, with which the token ends.
pub(crate) type Span = (usize, usize);

const OPEN: usize = usize::MAX;

/// The texts of an automaton in `text` that end there, and the prefixes of few texts. An offset from which the
/// automaton reads to the end of `text` and may read many texts is left out: used keys make no difference there.
pub(crate) fn spans(dfa: &Dfa, remaining: &Remaining, text: &[u8]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for from in 0..text.len() {
        let (known, mut at) = (spans.len(), Some(dfa.start()));
        for (end, byte) in (from + 1..).zip(&text[from..]) {
            at = at.and_then(|at| dfa.step(at, *byte));
            let Some(at) = at else { break };
            if dfa.is_accepting(at) {
                spans.push((from, end));
            }
        }
        if let Some(at) = at.filter(|at| dfa.edges(*at).next().is_some()) {
            spans.truncate(known);
            spans.extend((remaining.of(at) < MANY).then_some((from, OPEN)));
        }
    }
    spans
}

/// Whether one span is after another.
pub(crate) fn holds_two(spans: &[Span]) -> bool {
    let first_end = spans.iter().map(|(_, end)| *end).min();
    let last_begin = spans.iter().map(|(from, _)| *from).max();
    first_end.zip(last_begin).is_some_and(|(end, begin)| end <= begin)
}

impl KeyTokens {
    /// For the automaton `base`. `tokens` include all that contain a text of it or
    /// reach a prefix of few texts. O(b) steps for b bytes of these tokens, and more where a text may begin with
    /// every byte.
    pub(crate) fn new<'v>(
        base: &Dfa,
        remaining: &Remaining,
        tokens: impl Iterator<Item = (TokenId, &'v [u8])>,
    ) -> Self {
        let (mut all, mut twice) = (Vec::new(), Vec::new());
        let (mut by_text, mut by_prefix) = (TokensByText::new(), TokensByText::new());
        let mut begins: HashMap<TokenId, SmallVec<[u32; 4]>> = HashMap::new();
        for (token, text) in tokens {
            let spans = spans(base, remaining, text);
            if spans.is_empty() {
                continue;
            }
            all.push(token);
            if holds_two(&spans) {
                twice.push(token);
            }
            let mut from_here: SmallVec<[u32; 4]> =
                spans.iter().map(|(from, _)| u32::try_from(*from).expect("tokens are short")).collect();
            from_here.dedup();
            begins.insert(token, from_here);
            for (from, end) in spans {
                let (lists, text) = match end {
                    OPEN => (&mut by_prefix, &text[from..]),
                    end => (&mut by_text, &text[from..end]),
                };
                let tokens = lists.entry(text.into()).or_default();
                if tokens.last() != Some(&token) {
                    tokens.push(token);
                }
            }
        }
        Self { all: SparseTokens::new(all), twice: SparseTokens::new(twice), by_text, by_prefix, begins }
    }

    /// The tokens that contain this key, and those that end with a prefix of it that few keys have.
    pub(crate) fn of(&self, text: &[u8]) -> impl Iterator<Item = TokenId> {
        // Without such prefixes none is looked up: a key may be long.
        let prefixes = 1..if self.by_prefix.is_empty() { 1 } else { text.len() };
        let ending = prefixes.filter_map(|len| self.by_prefix.get(&text[..len]));
        self.by_text.get(text).into_iter().chain(ending).flatten().copied()
    }

    pub(crate) fn memory_usage(&self) -> usize {
        const ENTRY: usize = 64;
        let lists = || [&self.by_text, &self.by_prefix].into_iter().flatten();
        let tokens: usize = lists().map(|(_, tokens)| tokens.len()).sum();
        let texts: usize = lists().map(|(text, _)| text.len()).sum();
        self.all.memory_usage()
            + self.twice.memory_usage()
            + (lists().count() + self.begins.len()) * ENTRY
            + tokens * size_of::<TokenId>()
            + texts
    }
}

/// The byte with which all texts of an automaton begin and the byte with which they all end, if there are such bytes
/// and all texts have at least two bytes.
pub(crate) fn marks(dfa: &Dfa) -> Option<(u8, u8)> {
    let mut first = dfa.edges(dfa.start()).map(|edge| (edge.bytes, edge.target));
    let (bytes, target) = first.next()?;
    if first.next().is_some() || bytes.start() != bytes.end() || dfa.is_accepting(target) {
        return None;
    }
    let mut last: Option<u8> = None;
    for edge in dfa.states().flat_map(|state| dfa.edges(state)).filter(|edge| dfa.is_accepting(edge.target)) {
        if edge.bytes.start() != edge.bytes.end() || last.is_some_and(|last| last != *edge.bytes.start()) {
            return None;
        }
        last = Some(*edge.bytes.start());
    }
    Some((*bytes.start(), last?))
}

#[cfg(test)]
mod tests {
    use unskew_automata::Limits;

    use super::*;

    #[test]
    fn marks_are_bytes_around_all_texts() {
        for (pattern, expected) in [
            (r#""[a-z]*""#, Some((b'"', b'"'))),
            ("a(bc|dc)", Some((b'a', b'c'))),
            ("ab*", None),
            ("ab*[cd]", None),
            ("[ab]c", None),
            ("a|bc", None),
            ("ab+", Some((b'a', b'b'))),
        ] {
            let dfa = Dfa::from_pattern(pattern, &Limits::default()).unwrap();
            assert_eq!(marks(&dfa), expected, "{pattern}");
        }
    }

    /// After `n` there is one key, `null`: the token is in question where that is used, and no other token with an `n`
    /// is.
    #[test]
    fn prefixes_of_few_keys_end_tokens() {
        let dfa = Dfa::from_pattern(r#""[a-c]*"|null"#, &Limits::default()).unwrap();
        let texts = ["an", "\"a\"", "and", "\"a\", n", "\"a", "nu"];
        let tokens = texts.iter().zip(0..).map(|(text, id)| (TokenId(id), text.as_bytes()));
        let found = KeyTokens::new(&dfa, &Remaining::new(&dfa), tokens);
        let ids = |tokens: &SparseTokens| tokens.ids().map(|token| texts[token.index()]).collect::<Vec<_>>();
        assert_eq!(ids(&found.all), ["an", "\"a\"", "\"a\", n", "nu"]);
        assert_eq!(ids(&found.twice), ["\"a\", n"]);
        let of = |key: &str| {
            let mut tokens: Vec<_> = found.of(key.as_bytes()).map(|token| texts[token.index()]).collect();
            tokens.sort_unstable();
            tokens
        };
        assert_eq!(of("null"), ["\"a\", n", "an", "nu"]);
        assert_eq!(of("\"a\""), ["\"a\"", "\"a\", n"]);
    }

    #[test]
    fn two_texts_are_one_behind_the_other() {
        assert!(holds_two(&[(0, 2), (2, 4)]) && holds_two(&[(3, 4), (0, 1), (1, 9)]));
        assert!(!holds_two(&[(0, 3), (2, 4)]) && !holds_two(&[(0, 2)]) && !holds_two(&[]));
    }
}
