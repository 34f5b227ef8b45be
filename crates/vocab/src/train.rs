//! Learns a byte-level byte-pair encoding from texts and writes it as a `tokenizer.json` (feature `train`).
//!
//! The texts are split exactly as the finished tokenizer will split them, by the `tokenizers` crate. The merges are
//! learned here and not by that crate's trainer, for one reason: the same texts must give the same bytes. Its queue
//! can hold one pair twice with different sets of places (a token that two merges produce makes an old pair new
//! again); which entry comes out first then depends on a randomly seeded hash, and the pair is listed at two ranks.
//! Its counts are also 32 bits wide. Here nothing iterates over a hash map.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap, HashSet},
};

use serde::{Serialize, Serializer, ser::SerializeMap};
use tokenizers::{
    PreTokenizer,
    pre_tokenizers::byte_level::ByteLevel,
    tokenizer::{OffsetReferential, OffsetType, PreTokenizedString},
};

use unskew_core::byte_to_alphabet;

/// Why a tokenizer could not be trained.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The vocabulary has no room for the bytes and the special tokens.
    #[error(
        "a vocabulary of {size} ids has no room for 256 bytes and {special} special tokens; ask for at least {least}"
    )]
    VocabularyTooSmall {
        /// The size that was asked for.
        size: usize,
        /// The number of special tokens.
        special: usize,
        /// The smallest size that is possible.
        least: usize,
    },
    /// The vocabulary is larger than a loader would accept.
    #[error("a vocabulary of {size} ids is beyond the limit of {limit}; ask for fewer")]
    VocabularyTooLarge {
        /// The size that was asked for.
        size: usize,
        /// The largest size that is possible.
        limit: usize,
    },
    /// A special token that is empty, given twice, or the spelling of a single byte.
    #[error("{token:?} cannot be a special token: it is {reason}; name it otherwise")]
    SpecialToken {
        /// The token.
        token: String,
        /// The reason.
        reason: &'static str,
    },
    /// A text could not be split.
    #[error("text {index} could not be split: {reason}")]
    Split {
        /// Which text, counted from zero.
        index: usize,
        /// The splitter's reason.
        reason: String,
    },
}

type Pair = (u32, u32);

/// Learns a byte-level byte-pair encoding and returns it as the bytes of a `tokenizer.json`.
///
/// Ids are: the special tokens in the given order, the 256 bytes, then one token per merge, the most frequent pair
/// first and, among equals, the pair of lowest ids. Text is split by GPT-2's pattern, without a space in front; no
/// merge crosses a piece. The first special token, if there is one, is put in front of a sequence that is encoded
/// with special tokens. The result has `vocab_size` ids, or fewer where the texts hold no further pair.
///
/// The same texts in any order give the same bytes. Time is about O(n log n) for n bytes of distinct pieces, after
/// splitting; memory is proportional to the distinct pieces.
///
/// # Errors
///
/// [`TrainError`] when the size is too small or too large, or a special token is empty, doubled or a single byte's
/// spelling.
///
/// # Example
///
/// ```
/// use unskew_vocab::{Tokenizer, train_byte_level_bpe};
///
/// let texts = ["low lower lowest", "new newer newest"].map(str::to_owned);
/// let file = train_byte_level_bpe(texts.into_iter(), 264, &["<|endoftext|>"])?;
/// let tokenizer = Tokenizer::from_bytes(&file)?;
/// assert_eq!(tokenizer.vocabulary().len(), 264);
/// assert!(tokenizer.encode("lowest", false)?.len() < 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn train_byte_level_bpe(
    texts: impl Iterator<Item = String>,
    vocab_size: usize,
    special_tokens: &[&str],
) -> Result<Vec<u8>, TrainError> {
    let mut spelling = initial_spelling(vocab_size, special_tokens)?;
    let special = special_tokens.len();
    let id_of: HashMap<char, u32> =
        spelling.iter().enumerate().skip(special).map(|(id, name)| (first(name), id32(id))).collect();

    let mut words = Words::new(
        count_pieces(texts)?
            .into_iter()
            .map(|(piece, count)| (piece.chars().map(|character| id_of[&character]).collect(), count))
            .collect(),
    );

    let mut known: HashMap<String, u32> =
        spelling.iter().enumerate().map(|(id, name)| (name.clone(), id32(id))).collect();
    let mut merges: Vec<Pair> = Vec::new();
    let mut merged: HashSet<Pair> = HashSet::new();
    while spelling.len() < vocab_size
        && let Some(pair) = words.most_frequent()
    {
        let name = format!("{}{}", spelling[pair.0 as usize], spelling[pair.1 as usize]);
        let result = match known.get(&name) {
            // Text never becomes a special token.
            Some(id) if (*id as usize) < special => {
                words.forbid(pair);
                continue;
            }
            Some(id) => *id,
            None => {
                let id = id32(spelling.len());
                known.insert(name.clone(), id);
                spelling.push(name);
                id
            }
        };
        // A pair comes back when a later merge gives one of its sides a second origin; it has its rank already.
        if merged.insert(pair) {
            merges.push(pair);
        }
        words.merge(pair, result);
    }
    Ok(to_json(&spelling, &merges, special_tokens))
}

/// The special tokens, then the 256 bytes in the order of the alphabet's characters.
fn initial_spelling(vocab_size: usize, special_tokens: &[&str]) -> Result<Vec<String>, TrainError> {
    let (special, least) = (special_tokens.len(), special_tokens.len() + 256);
    if vocab_size < least {
        return Err(TrainError::VocabularyTooSmall { size: vocab_size, special, least });
    }
    if vocab_size > crate::Limits::DEFAULT.ids {
        return Err(TrainError::VocabularyTooLarge { size: vocab_size, limit: crate::Limits::DEFAULT.ids });
    }
    let mut alphabet: Vec<char> = (0..=255).map(byte_to_alphabet).collect();
    alphabet.sort_unstable();
    let mut seen: HashSet<String> = alphabet.iter().map(char::to_string).collect();
    for token in special_tokens {
        let error = |reason| TrainError::SpecialToken { token: (*token).to_owned(), reason };
        if token.is_empty() {
            return Err(error("empty"));
        }
        if token.chars().count() == 1 && seen.contains(*token) {
            return Err(error("the spelling of a single byte"));
        }
        if !seen.insert((*token).to_owned()) {
            return Err(error("given twice"));
        }
    }
    Ok(special_tokens.iter().map(ToString::to_string).chain(alphabet.iter().map(char::to_string)).collect())
}

/// The pieces of all texts, in the alphabet of bytes, with the number of times each occurs.
fn count_pieces(texts: impl Iterator<Item = String>) -> Result<BTreeMap<String, u64>, TrainError> {
    let splitter = ByteLevel::new(false, true, true);
    let mut counts: HashMap<String, u64> = HashMap::new();
    for (index, text) in texts.enumerate() {
        let mut text = PreTokenizedString::from(text);
        splitter
            .pre_tokenize(&mut text)
            .map_err(|error| TrainError::Split { index, reason: error.to_string() })?;
        for (piece, _, _) in text.get_splits(OffsetReferential::Normalized, OffsetType::Byte) {
            match counts.get_mut(piece) {
                Some(count) => *count += 1,
                None => {
                    counts.insert(piece.to_owned(), 1);
                }
            }
        }
    }
    Ok(counts.into_iter().collect())
}

/// The distinct pieces as token ids, and how often every pair of neighbours occurs in the texts.
struct Words {
    words: Vec<(Vec<u32>, u64)>,
    counts: HashMap<Pair, u64>,
    /// The words in which a pair occurs, and perhaps some in which it no longer does.
    places: HashMap<Pair, Vec<u32>>,
    /// For every pair an entry with its count or a higher one: counts that fall are corrected when they come out.
    queue: BinaryHeap<(u64, Reverse<Pair>)>,
    forbidden: HashSet<Pair>,
}

impl Words {
    fn new(words: Vec<(Vec<u32>, u64)>) -> Self {
        let mut counts: HashMap<Pair, u64> = HashMap::new();
        let mut places: HashMap<Pair, Vec<u32>> = HashMap::new();
        for (index, (word, count)) in words.iter().enumerate() {
            for pair in pairs(word) {
                *counts.entry(pair).or_default() += *count;
                let places = places.entry(pair).or_default();
                if places.last() != Some(&id32(index)) {
                    places.push(id32(index));
                }
            }
        }
        // The entries are distinct: the order in which they go in does not matter.
        let queue = counts.iter().map(|(pair, count)| (*count, Reverse(*pair))).collect();
        Self { words, counts, places, queue, forbidden: HashSet::new() }
    }

    /// Takes the most frequent pair out of the queue.
    fn most_frequent(&mut self) -> Option<Pair> {
        loop {
            let (queued, Reverse(pair)) = self.queue.pop()?;
            match self.counts.get(&pair).copied().unwrap_or(0) {
                _ if self.forbidden.contains(&pair) => {}
                0 => {}
                count if count == queued => return Some(pair),
                count if count < queued => self.queue.push((count, Reverse(pair))),
                // The entry is older than another one, which came out or will come out with the higher count.
                _ => {}
            }
        }
    }

    fn forbid(&mut self, pair: Pair) {
        self.forbidden.insert(pair);
    }

    /// Replaces `pair` by `result` in every word.
    fn merge(&mut self, pair: Pair, result: u32) {
        let mut places = self.places.remove(&pair).unwrap_or_default();
        places.sort_unstable();
        places.dedup();
        let mut grown = Vec::new();
        for place in places {
            let (word, count) = &mut self.words[place as usize];
            let mut shorter = Vec::with_capacity(word.len());
            let mut at = 0;
            while at < word.len() {
                if word[at] == pair.0 && word.get(at + 1) == Some(&pair.1) {
                    shorter.push(result);
                    at += 2;
                } else {
                    shorter.push(word[at]);
                    at += 1;
                }
            }
            for old in pairs(word) {
                *self.counts.get_mut(&old).expect("every pair of a word is counted") -= *count;
            }
            for new in pairs(&shorter) {
                *self.counts.entry(new).or_default() += *count;
                if new.0 == result || new.1 == result {
                    self.places.entry(new).or_default().push(place);
                    grown.push(new);
                }
            }
            *word = shorter;
        }
        grown.sort_unstable();
        grown.dedup();
        for pair in grown {
            self.queue.push((self.counts[&pair], Reverse(pair)));
        }
    }
}

fn pairs(word: &[u32]) -> impl Iterator<Item = Pair> {
    word.windows(2).map(|pair| (pair[0], pair[1]))
}

fn first(name: &str) -> char {
    name.chars().next().expect("a byte is spelled by one character")
}

fn id32(id: usize) -> u32 {
    u32::try_from(id).expect("fewer than 2^32 distinct pieces")
}

/// The file, its fields in the order in which they are usually written.
#[derive(Serialize)]
struct File<'a> {
    version: &'static str,
    truncation: Option<()>,
    padding: Option<()>,
    added_tokens: Vec<Added<'a>>,
    normalizer: Option<()>,
    pre_tokenizer: Step,
    post_processor: Option<Template<'a>>,
    decoder: Step,
    model: Model<'a>,
}

#[derive(Serialize)]
struct Added<'a> {
    id: usize,
    content: &'a str,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
    normalized: bool,
    special: bool,
}

#[derive(Serialize)]
struct Step {
    r#type: &'static str,
    add_prefix_space: bool,
    trim_offsets: bool,
    use_regex: bool,
}

#[derive(Serialize)]
struct Template<'a> {
    r#type: &'static str,
    single: Vec<Part<'a>>,
    pair: Vec<Part<'a>>,
    special_tokens: BTreeMap<&'a str, Special<'a>>,
}

#[derive(Serialize)]
enum Part<'a> {
    SpecialToken { id: &'a str, type_id: u8 },
    Sequence { id: &'static str, type_id: u8 },
}

#[derive(Serialize)]
struct Special<'a> {
    id: &'a str,
    ids: [u32; 1],
    tokens: [&'a str; 1],
}

#[derive(Serialize)]
struct Model<'a> {
    r#type: &'static str,
    dropout: Option<f32>,
    unk_token: Option<&'a str>,
    continuing_subword_prefix: Option<&'a str>,
    end_of_word_suffix: Option<&'a str>,
    fuse_unk: bool,
    byte_fallback: bool,
    ignore_merges: bool,
    #[serde(serialize_with = "by_id")]
    vocab: &'a [String],
    merges: Vec<(&'a str, &'a str)>,
}

/// A map from spelling to id, in the order of ids.
fn by_id<S: Serializer>(spelling: &&[String], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(spelling.len()))?;
    for (id, name) in spelling.iter().enumerate() {
        map.serialize_entry(name, &id)?;
    }
    map.end()
}

fn to_json(spelling: &[String], merges: &[Pair], special_tokens: &[&str]) -> Vec<u8> {
    let byte_level =
        Step { r#type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
    let file = File {
        version: "1.0",
        truncation: None,
        padding: None,
        added_tokens: special_tokens
            .iter()
            .enumerate()
            .map(|(id, content)| Added {
                id,
                content,
                single_word: false,
                lstrip: false,
                rstrip: false,
                normalized: false,
                special: true,
            })
            .collect(),
        normalizer: None,
        post_processor: special_tokens.first().map(|begin| Template {
            r#type: "TemplateProcessing",
            single: vec![
                Part::SpecialToken { id: begin, type_id: 0 },
                Part::Sequence { id: "A", type_id: 0 },
            ],
            pair: vec![
                Part::SpecialToken { id: begin, type_id: 0 },
                Part::Sequence { id: "A", type_id: 0 },
                Part::SpecialToken { id: begin, type_id: 1 },
                Part::Sequence { id: "B", type_id: 1 },
            ],
            special_tokens: BTreeMap::from([(*begin, Special { id: begin, ids: [0], tokens: [begin] })]),
        }),
        decoder: Step { ..byte_level },
        pre_tokenizer: byte_level,
        model: Model {
            r#type: "BPE",
            dropout: None,
            unk_token: None,
            continuing_subword_prefix: None,
            end_of_word_suffix: None,
            fuse_unk: false,
            byte_fallback: false,
            ignore_merges: false,
            vocab: spelling,
            merges: merges
                .iter()
                .map(|(left, right)| (&*spelling[*left as usize], &*spelling[*right as usize]))
                .collect(),
        },
    };
    serde_json::to_vec(&file).expect("a tree of strings and numbers is always JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trained_tokenizer_encodes_and_decodes() {
        let texts =
            ["the cat sat on the mat, the cat", "caf\u{e9} na\u{ef}ve \u{1f600}  x\n\n", "aaaaaaa aaa"];
        let train = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
            train_byte_level_bpe(texts.into_iter(), 285, &["<|endoftext|>", "<|user|>"]).unwrap()
        };
        let bytes = train(&texts);
        let mut reversed = texts;
        reversed.reverse();
        assert_eq!(bytes, train(&reversed));

        let tokenizer = tokenizers::Tokenizer::from_bytes(&bytes).unwrap();
        let text = "the cat\u{0} \u{1f600}\u{200d} \t<|user|> the";
        let encoding = tokenizer.encode(text, true).unwrap();
        assert_eq!(encoding.get_ids()[0], 0);
        assert_eq!(tokenizer.decode(&encoding.get_ids()[1..], false).unwrap(), text);
        assert_eq!(tokenizer.encode("the", false).unwrap().get_ids().len(), 1);
        assert_eq!(tokenizer.get_vocab_size(true), 285);
    }

    #[test]
    fn sizes_and_special_tokens_are_checked() {
        let error = |size, special: &[&str]| {
            train_byte_level_bpe(std::iter::once("a b".to_owned()), size, special).unwrap_err().to_string()
        };
        assert_eq!(
            error(257, &["<a>", "<b>"]),
            "a vocabulary of 257 ids has no room for 256 bytes and 2 special tokens; ask for at least 258"
        );
        assert!(error(usize::MAX, &[]).contains("beyond the limit of 4194304"));
        assert_eq!(
            error(300, &["<a>", "<a>"]),
            "\"<a>\" cannot be a special token: it is given twice; name it otherwise"
        );
        assert!(error(300, &[""]).contains("it is empty"));
        assert!(error(300, &["a"]).contains("the spelling of a single byte"));
        // Text that spells a special token is never merged into it.
        let file = train_byte_level_bpe(std::iter::repeat_n("<a><a>".to_owned(), 9), 270, &["<a>"]).unwrap();
        let tokenizer = tokenizers::Tokenizer::from_bytes(&file).unwrap();
        assert_eq!(tokenizer.token_to_id("<a>"), Some(0));
    }
}
