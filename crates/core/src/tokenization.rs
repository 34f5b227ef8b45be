//! The rules by which a tokenizer turns text into tokens, as data: normaliser, split pattern, merge table.
//!
//! Engines that enforce canonical token sequences build automata from these facts. A loader reads them from a
//! `tokenizer.json`. The types live here and not with the loader, so that an engine depends on no tokenizer library.

use std::collections::HashMap;

use crate::TokenId;

/// One merge of a byte-pair encoding: `left` followed by `right` becomes `result`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Merge {
    /// The token on the left.
    pub left: TokenId,
    /// The token on the right.
    pub right: TokenId,
    /// The token that replaces the two.
    pub result: TokenId,
}

/// The merges of a byte-pair encoding, by rank: rank 0 is applied first.
///
/// The pairs are distinct; several merges may have one result (tables converted from rank files or from SentencePiece
/// list every split of a token).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MergeTable {
    merges: Vec<Merge>,
    ranks: HashMap<(TokenId, TokenId), u32>,
}

/// Two merges of one pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the pair of tokens {left} and {right} is merged twice, at ranks {first} and {second}")]
#[non_exhaustive]
pub struct DuplicateMerge {
    /// The token on the left.
    pub left: TokenId,
    /// The token on the right.
    pub right: TokenId,
    /// The lower rank.
    pub first: usize,
    /// The higher rank.
    pub second: usize,
}

impl MergeTable {
    /// The table of `merges`, in order of rank.
    ///
    /// # Errors
    ///
    /// [`DuplicateMerge`] when a pair occurs twice.
    pub fn new(merges: Vec<Merge>) -> Result<Self, DuplicateMerge> {
        let mut ranks = HashMap::with_capacity(merges.len());
        for (rank, merge) in merges.iter().enumerate() {
            let rank32 = u32::try_from(rank).expect("fewer than 2^32 merges");
            if let Some(first) = ranks.insert((merge.left, merge.right), rank32) {
                let Merge { left, right, .. } = *merge;
                return Err(DuplicateMerge { left, right, first: first as usize, second: rank });
            }
        }
        Ok(Self { merges, ranks })
    }

    /// All merges, by rank.
    #[inline]
    pub fn merges(&self) -> &[Merge] {
        &self.merges
    }

    /// The rank of the merge of `left` and `right`, if there is one.
    pub fn rank(&self, left: TokenId, right: TokenId) -> Option<usize> {
        self.ranks.get(&(left, right)).map(|rank| *rank as usize)
    }

    /// The number of merges.
    pub fn len(&self) -> usize {
        self.merges.len()
    }

    /// Whether there is no merge.
    pub fn is_empty(&self) -> bool {
        self.merges.is_empty()
    }
}

/// One step of a normaliser, which rewrites the text before it is split.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Normalizer {
    /// A Unicode normalisation form.
    Unicode(UnicodeForm),
    /// Puts a string before a text that is not empty.
    Prepend(String),
    /// Replaces every occurrence of a literal string.
    Replace {
        /// The string that is replaced.
        from: String,
        /// The string that replaces it.
        to: String,
    },
    /// Replaces every match of a regex, in the syntax of `fancy-regex`.
    ReplaceRegex {
        /// The regex.
        pattern: String,
        /// The string that replaces a match.
        to: String,
    },
    /// Removes white space from the ends of the text.
    Strip {
        /// From the beginning.
        left: bool,
        /// From the end.
        right: bool,
    },
    /// Looks at each character alone: it leaves some characters as they are, and rewrites or drops all others.
    Characters {
        /// The name that the step's source gives it.
        step: String,
        /// The characters that stay, as ascending ranges, both ends included.
        kept: Vec<(char, char)>,
        /// The characters that the step writes in place of others, as ascending ranges, both ends included.
        writes: Vec<(char, char)>,
    },
    /// Spells the text in GPT-2's alphabet of bytes ([`byte_to_alphabet`]). No step may follow.
    ByteLevel,
    /// A step that this data does not express, with the name that its source gives it.
    Other(String),
}

/// A Unicode normalisation form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnicodeForm {
    /// Canonical composition.
    Nfc,
    /// Canonical decomposition.
    Nfd,
    /// Compatibility composition.
    Nfkc,
    /// Compatibility decomposition.
    Nfkd,
}

/// The treatment of the text that a split pattern matches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SplitBehavior {
    /// Each match is a piece of its own.
    Isolated,
    /// Matches are dropped.
    Removed,
    /// A match ends the piece before it.
    MergedWithPrevious,
    /// A match begins the piece after it.
    MergedWithNext,
    /// Adjacent matches form one piece.
    Contiguous,
}

/// One step of a pre-tokenizer, which splits the text into pieces that merges never cross.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SplitPattern {
    /// Split at the matches of a regex, in the syntax of `fancy-regex` (look-ahead occurs in practice).
    Regex {
        /// The regex, as its source spells it.
        pattern: String,
        /// The treatment of the matches.
        behavior: SplitBehavior,
        /// Whether matches and the text between them change roles.
        invert: bool,
    },
    /// Split at the occurrences of a literal string.
    Literal {
        /// The string.
        text: String,
        /// The treatment of the matches.
        behavior: SplitBehavior,
        /// As for `Regex`.
        invert: bool,
    },
    /// A space is put before a text that does not begin with one.
    PrefixSpace,
    /// From here on the text is spelled in GPT-2's alphabet of bytes ([`byte_to_alphabet`]): later patterns read one
    /// character for each byte, and may split inside a character of the text.
    ByteLevel,
    /// SentencePiece's escape: spaces are spelled `replacement`, one may be put before the text, and the text may be
    /// split before each.
    Metaspace {
        /// The character that spells a space, normally U+2581.
        replacement: char,
        /// Whether a space is put before the text.
        prepend: PrependScheme,
        /// Whether the text is split before each space.
        split: bool,
    },
    /// A step that this data does not express, with the name that its source gives it.
    Other(String),
}

/// The places at which a metaspace step puts a space before the text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PrependScheme {
    /// Nowhere.
    Never,
    /// Before the first piece of the text.
    First,
    /// Before every piece between special tokens.
    Always,
}

/// The tokens that a piece consists of before the first merge.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Symbols {
    /// Bytes: each byte is the model's token of that one byte.
    #[default]
    Bytes,
    /// Characters: each character is the model's token of that one character. A character without a token is spelled
    /// by the fallback tokens of its bytes.
    Characters {
        /// The fallback tokens, by byte (`byte_fallback`); empty where the model has none. They may share their bytes
        /// with other tokens, and a character that has a token of its own is never spelled with them.
        fallback: Vec<(u8, TokenId)>,
    },
}

/// A token that the encoder matches on the text itself, before it normalises and splits the text between such tokens.
///
/// Where several tokens match, the leftmost match wins, and of those the longest. The token takes part in no merge,
/// even where the model has a token of the same text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddedToken {
    /// The token's id.
    pub id: TokenId,
    /// The text that the token matches: normalised text if [`normalized`](Self::normalized) is set.
    pub content: String,
    /// Whether the token is a control token; otherwise it is text.
    pub special: bool,
    /// Whether the token matches only whole words.
    pub single_word: bool,
    /// Whether the token swallows the white space before it.
    pub lstrip: bool,
    /// Whether the token swallows the white space after it.
    pub rstrip: bool,
    /// Whether the token is matched on the normalised text.
    pub normalized: bool,
}

/// All rules that decide which token sequence a byte-pair tokenizer gives a text.
///
/// The encoder matches added tokens, normalises the text between them, splits it into pieces, and applies to each
/// piece the lowest-ranked merge that occurs, leftmost first, until no merge applies.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Tokenization {
    /// The steps of the normaliser, in order.
    pub normalizers: Vec<Normalizer>,
    /// The steps of the pre-tokenizer, in order. Without steps, merges run over the whole text.
    pub splits: Vec<SplitPattern>,
    /// The merges.
    pub merges: MergeTable,
    /// Whether a piece that is a token as a whole becomes that token without any merge (`ignore_merges`).
    pub whole_pieces: bool,
    /// The tokens of a piece before the first merge.
    pub symbols: Symbols,
    /// The tokens that are matched on the text before all these steps.
    pub added: Vec<AddedToken>,
    /// Text tokens that the model itself never writes, in ascending order: they are added to the vocabulary from
    /// outside, or their spelling has a character that no piece has.
    pub unwritten: Vec<TokenId>,
}

/// The character that stands for `byte` in the alphabet of byte-level tokenizers (GPT-2's). Printable Latin-1 stands
/// for itself, and the rest is moved, in order, to the code points from U+0100 on, so that no token holds white space
/// or a control character.
pub fn byte_to_alphabet(byte: u8) -> char {
    let moved = |code: u32| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    match byte {
        0..=0x20 => moved(0x100 + u32::from(byte)),
        0x7f..=0xa0 => moved(0x121 + u32::from(byte) - 0x7f),
        0xad => moved(0x143),
        _ => char::from(byte),
    }
}

/// The byte that `character` stands for in that alphabet, if the alphabet has it.
pub fn alphabet_to_byte(character: char) -> Option<u8> {
    let code = u32::from(character);
    let byte = match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => code,
        0x100..=0x120 => code - 0x100,
        0x121..=0x142 => code - 0x121 + 0x7f,
        0x143 => 0xad,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_a_bijection_without_white_space() {
        let mut seen = std::collections::HashSet::new();
        for byte in 0..=255 {
            let character = byte_to_alphabet(byte);
            assert!(seen.insert(character));
            assert!(!character.is_whitespace() && !character.is_control());
            assert_eq!(alphabet_to_byte(character), Some(byte));
        }
        assert_eq!(byte_to_alphabet(b' '), 'Ġ');
        assert_eq!(byte_to_alphabet(b'\n'), 'Ċ');
        for outside in [' ', '\u{ad}', '\u{7f}', '\u{144}', '▁'] {
            assert_eq!(alphabet_to_byte(outside), None);
        }
    }

    #[test]
    fn ranks_are_positions_and_pairs_are_distinct() {
        let merge = |left, right, result| Merge {
            left: TokenId(left),
            right: TokenId(right),
            result: TokenId(result),
        };
        let table = MergeTable::new(vec![merge(0, 1, 2), merge(2, 1, 3), merge(0, 4, 3)]).unwrap();
        assert_eq!(table.rank(TokenId(2), TokenId(1)), Some(1));
        assert_eq!(table.rank(TokenId(1), TokenId(2)), None);
        let error = MergeTable::new(vec![merge(0, 1, 2), merge(0, 1, 3)]).unwrap_err();
        assert_eq!(error.to_string(), "the pair of tokens 0 and 1 is merged twice, at ranks 0 and 1");
    }
}
