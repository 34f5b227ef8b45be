//! The tokens of a vocabulary by their texts, where the tokens that begin with a text are neighbours; and the places
//! at which a text cuts a word.

use std::{fmt, sync::Arc};

use crate::{TokenId, Vocabulary};

/// The text tokens of a vocabulary in the order of their bytes.
pub struct TextOrder {
    vocabulary: Arc<Vocabulary>,
    tokens: Box<[TokenId]>,
    /// Where the tokens begin that begin with each byte, and the end.
    begins: Box<[usize; 257]>,
    /// By byte: the places in the order of the tokens that have it in front of a place where no word is cut.
    before_cuts: Box<[Vec<u32>]>,
    /// Whether each byte is a token, so that tokens spell any text.
    spells_all: bool,
}

impl TextOrder {
    /// Sorts the tokens.
    pub fn new(vocabulary: Arc<Vocabulary>) -> Self {
        let texts = vocabulary.text_tokens().filter(|(_, text)| !text.is_empty());
        let mut tokens: Vec<(&[u8], TokenId)> = texts.map(|(token, text)| (text, token)).collect();
        tokens.sort_unstable();
        let mut single = [false; 256];
        for (text, _) in &tokens {
            if let [byte] = text {
                single[usize::from(*byte)] = true;
            }
        }
        let begins =
            std::array::from_fn(|byte| tokens.partition_point(|(text, _)| usize::from(text[0]) < byte));
        let mut before_cuts = vec![Vec::new(); 256];
        for ((text, _), place) in tokens.iter().zip(0..) {
            for at in (1..text.len()).filter(|at| !cuts_word(text, *at)) {
                let places: &mut Vec<u32> = &mut before_cuts[usize::from(text[at - 1])];
                if places.last() != Some(&place) {
                    places.push(place);
                }
            }
        }
        let tokens = tokens.into_iter().map(|(_, token)| token).collect();
        let spells_all = single.iter().all(|spelled| *spelled);
        Self { tokens, begins: Box::new(begins), before_cuts: before_cuts.into(), spells_all, vocabulary }
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// The tokens that begin with each byte that begins some.
    pub(super) fn by_first_byte(&self) -> impl Iterator<Item = (u8, &[TokenId])> {
        let group = |byte: u8| {
            let at = usize::from(byte);
            (byte, &self.tokens[self.begins[at]..self.begins[at + 1]])
        };
        (0..=u8::MAX).map(group).filter(|(_, tokens)| !tokens.is_empty())
    }

    /// The tokens, by their bytes, that have one of `bytes` in front of a place where no word is cut.
    pub(super) fn before_cuts(&self, bytes: impl Iterator<Item = u8>) -> Box<[TokenId]> {
        let mut places: Vec<u32> =
            bytes.flat_map(|byte| &self.before_cuts[usize::from(byte)]).copied().collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|place| self.tokens[place as usize]).collect()
    }

    /// The memory of the order, in bytes; the vocabulary is not counted.
    pub fn memory_usage(&self) -> usize {
        let places = self.before_cuts.iter().map(|places| size_of_val(&places[..]));
        size_of_val(&self.tokens[..]) + places.sum::<usize>()
    }

    pub(super) fn text(&self, token: TokenId) -> &[u8] {
        self.vocabulary.text(token).unwrap_or_default()
    }

    /// The tokens whose texts begin with `prefix`, as a range of all.
    pub(super) fn beginning_with(&self, prefix: &[u8]) -> &[TokenId] {
        let cut = |token: &TokenId| {
            let text = self.text(*token);
            &text[..text.len().min(prefix.len())]
        };
        let first = self.tokens.partition_point(|token| cut(token) < prefix);
        let len = self.tokens[first..].partition_point(|token| cut(token) == prefix);
        &self.tokens[first..first + len]
    }

    /// The fewest tokens that spell a text; of several spellings, the one whose last tokens are longest. O(n^2)
    /// look-ups for n bytes.
    ///
    /// # Errors
    ///
    /// The number of bytes that tokens spell, where they do not spell all.
    pub fn spell(&self, text: &[u8]) -> Result<Vec<TokenId>, usize> {
        // For each place: the fewest tokens up to there, and the last of them.
        let mut best: Vec<Option<(usize, TokenId)>> = vec![None; text.len() + 1];
        let mut reached = 0;
        for start in 0..text.len() {
            let count = match best[start] {
                Some((count, _)) => count,
                None if start == 0 => 0,
                None => continue,
            };
            for end in start + 1..=text.len() {
                // Of the tokens that begin with a text, the shortest comes first.
                let Some(token) = self.beginning_with(&text[start..end]).first() else { break };
                let is_whole = self.text(*token).len() == end - start;
                if is_whole && best[end].is_none_or(|(fewest, _)| count + 1 < fewest) {
                    best[end] = Some((count + 1, *token));
                    reached = reached.max(end);
                }
            }
        }
        let mut tokens = Vec::new();
        let mut end = text.len();
        while end > 0 {
            let (_, token) = best[end].ok_or(reached)?;
            end -= self.text(token).len();
            tokens.push(token);
        }
        tokens.reverse();
        Ok(tokens)
    }

    pub(super) fn can_spell(&self, text: &[u8]) -> bool {
        self.spells_all || self.spell(text).is_ok()
    }
}

impl fmt::Debug for TextOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextOrder").field("tokens", &self.tokens.len()).finish_non_exhaustive()
    }
}

/// Whether a word is cut between the bytes before `at` and those after: the characters on both sides are letters,
/// digits (of any script) or underscores. A character that the text has in part counts as one of these.
pub fn cuts_word(text: &[u8], at: usize) -> bool {
    let is_word = |character: Option<char>| {
        character.is_none_or(|character| character.is_alphanumeric() || character == '_')
    };
    let (before, after) = text.split_at(at);
    let last = (1..=before.len().min(4)).find_map(|len| char_of(&before[before.len() - len..]));
    let first = (1..=after.len().min(4)).find_map(|len| char_of(&after[..len]));
    is_word(last) && is_word(first)
}

/// The character that some bytes are.
fn char_of(bytes: &[u8]) -> Option<char> {
    let mut characters = std::str::from_utf8(bytes).ok()?.chars();
    characters.next().filter(|_| characters.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(texts: &[&[u8]]) -> TextOrder {
        let mut builder = Vocabulary::builder();
        texts.iter().for_each(|text| _ = builder.text(text));
        TextOrder::new(Arc::new(builder.build().unwrap()))
    }

    #[test]
    fn a_text_is_spelled_with_the_fewest_tokens() {
        let order = order(&[b"a", b"b", b"ab", b"abc", b"c", b"bc"]);
        let numbers = |tokens: &[TokenId]| tokens.iter().map(|id| id.0).collect::<Vec<_>>();
        let spelled = |text: &[u8]| order.spell(text).map(|tokens| numbers(&tokens));
        assert_eq!(spelled(b"abc"), Ok(vec![3]));
        assert_eq!(spelled(b"abbc"), Ok(vec![2, 5]));
        assert_eq!(spelled(b""), Ok(vec![]));
        assert_eq!(spelled(b"ad"), Err(1));
        assert!(!order.can_spell(b"d") && order.can_spell(b"cab"));
        assert_eq!(numbers(order.beginning_with(b"ab")), [2, 3]);
    }

    #[test]
    fn words_are_cut_between_letters_and_digits() {
        for (text, at, cuts) in [
            ("Answer", 1, true),
            ("A:", 1, false),
            ("}\n", 1, false),
            ("12", 1, true),
            ("1.5", 1, false),
            ("a_", 1, true),
            ("\u{e9}t\u{e9}", 2, true),
            ("\u{e9} ", 2, false),
            ("\u{6e29}\u{5ea6}", 3, true),
            ("5\u{20ac}", 1, false),
        ] {
            assert_eq!(cuts_word(text.as_bytes(), at), cuts, "{text} {at}");
        }
        // A part of a character may be that of a letter.
        assert!(cuts_word(b"a\xc3", 1) && !cuts_word(b" \xc3", 1) && cuts_word(b"\xa9t", 1));
    }
}
