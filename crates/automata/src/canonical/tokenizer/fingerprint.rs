//! The fingerprint of a tokenizer: a number that depends on everything that decides which sequences it writes.
//!
//! A Vegas library, in memory or in a file, belongs to one tokenizer. The 64-bit fingerprint detects accidental changes
//! of the tokenizer. It does not protect against an author of files who searches for a collision. Tried instead: a
//! hash of the `tokenizer.json`, which changes with white space and with step names that mean the same.

use std::hash::Hasher;

use twox_hash::XxHash3_64;
use unskew_core::{
    Merge, Normalizer, PrependScheme, SplitBehavior, SplitPattern, Symbols, Tokenization, UnicodeForm,
    Vocabulary,
};

use crate::canonical::{MergeOrder, merges::derivation::NONE};

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("states, tokens and merges are numbered with 32 bits")
}

/// The number of bytes that are gathered before they are hashed. They fit the first-level cache.
const BLOCK: usize = 1 << 14;

/// The fingerprint: XXH3 of everything that decides which sequences the tokenizer writes.
///
/// Unused ids do not affect it, so a vocabulary may be padded. Nor do the ids that end a sequence.
pub(crate) fn fingerprint(vocabulary: &Vocabulary, tokenization: &Tokenization, order: MergeOrder) -> u64 {
    let Tokenization { normalizers, splits, merges, whole_pieces, symbols, added, unwritten, .. } =
        tokenization;
    let mut hasher = FingerprintHasher { bytes: Vec::with_capacity(BLOCK), hasher: XxHash3_64::new() };
    hasher.number(match order {
        MergeOrder::LowestRank => 0,
        MergeOrder::Passes => 1,
    });
    let used = vocabulary.used_len();
    let (texts, offsets) = vocabulary.flat();
    hasher.number(count(used));
    hasher.words(&offsets[..=used], |offset| [*offset]);
    hasher.write(texts);
    for (token, name) in vocabulary.control_tokens() {
        hasher.number(token.0);
        hasher.text(name.as_bytes());
    }
    hasher.number(NONE);
    for token in vocabulary.holes() {
        hasher.number(token.0);
    }
    hasher.number(NONE);
    hasher.number(count(merges.len()));
    hasher.words(merges.merges(), |Merge { left, right, result }| [left.0, right.0, result.0]);
    hasher.number(u32::from(*whole_pieces));
    hasher.number(count(normalizers.len()));
    normalizers.iter().for_each(|normalizer| hasher.normalizer(normalizer));
    hasher.number(count(splits.len()));
    splits.iter().for_each(|split| hasher.split(split));
    match symbols {
        Symbols::Bytes => hasher.number(0),
        Symbols::Characters { fallback } => {
            hasher.numbers([1, count(fallback.len())]);
            fallback.iter().for_each(|(byte, token)| hasher.numbers([u32::from(*byte), token.0]));
        }
    }
    hasher.number(count(added.len()));
    for token in added {
        hasher.number(token.id.0);
        hasher.text(token.content.as_bytes());
        let flags = [token.special, token.single_word, token.lstrip, token.rstrip, token.normalized];
        hasher.numbers(flags.map(u32::from));
    }
    hasher.number(count(unwritten.len()));
    hasher.words(unwritten, |token| [token.0]);
    hasher.finish()
}

/// Hashes numbers and texts with unambiguous borders.
struct FingerprintHasher {
    /// The bytes that are not hashed yet. Hashing in large blocks is faster.
    bytes: Vec<u8>,
    hasher: XxHash3_64,
}

impl FingerprintHasher {
    fn number(&mut self, number: u32) {
        self.numbers([number]);
    }

    fn numbers<const N: usize>(&mut self, numbers: [u32; N]) {
        self.words(&numbers, |number| [*number]);
    }

    /// Adds `N` numbers of each item.
    fn words<T, const N: usize>(&mut self, items: &[T], numbers: impl Fn(&T) -> [u32; N]) {
        for items in items.chunks(BLOCK / (4 * N)) {
            let begin = self.make_room(items.len() * 4 * N);
            let (words, _) = self.bytes[begin..].as_chunks_mut::<4>();
            for (words, item) in words.chunks_exact_mut(N).zip(items) {
                words.iter_mut().zip(numbers(item)).for_each(|(word, number)| *word = number.to_le_bytes());
            }
        }
    }

    fn text(&mut self, text: &[u8]) {
        self.number(count(text.len()));
        self.write(text);
    }

    /// Adds bytes; the reader knows their number.
    fn write(&mut self, bytes: &[u8]) {
        self.flush();
        self.hasher.write(bytes);
    }

    fn normalizer(&mut self, normalizer: &Normalizer) {
        match normalizer {
            Normalizer::Unicode(form) => self.numbers([0, form_number(*form) - 1]),
            Normalizer::Prepend(text) => {
                self.number(1);
                self.text(text.as_bytes());
            }
            Normalizer::Replace { from, to } => {
                self.number(2);
                self.text(from.as_bytes());
                self.text(to.as_bytes());
            }
            Normalizer::ReplaceRegex { pattern, to } => {
                self.number(3);
                self.text(pattern.as_bytes());
                self.text(to.as_bytes());
            }
            Normalizer::Strip { left, right } => self.numbers([4, u32::from(*left), u32::from(*right)]),
            Normalizer::Characters { step: _, kept, writes } => {
                self.number(5);
                for ranges in [kept, writes] {
                    self.number(count(ranges.len()));
                    self.words(ranges, |(low, high)| [u32::from(*low), u32::from(*high)]);
                }
            }
            Normalizer::ByteLevel => self.number(6),
            // No automaton is built for these steps.
            other => {
                self.number(NONE);
                self.text(format!("{other:?}").as_bytes());
            }
        }
    }

    fn split(&mut self, split: &SplitPattern) {
        match split {
            SplitPattern::Regex { pattern, behavior, invert } => {
                self.numbers([0, behavior_number(*behavior), u32::from(*invert)]);
                self.text(pattern.as_bytes());
            }
            SplitPattern::Literal { text, behavior, invert } => {
                self.numbers([1, behavior_number(*behavior), u32::from(*invert)]);
                self.text(text.as_bytes());
            }
            SplitPattern::PrefixSpace => self.number(2),
            SplitPattern::Metaspace { replacement, prepend, split } => {
                let prepend = match prepend {
                    PrependScheme::Never => 0,
                    PrependScheme::First => 1,
                    PrependScheme::Always => 2,
                };
                self.numbers([3, u32::from(*replacement), prepend, u32::from(*split)]);
            }
            SplitPattern::ByteLevel => self.number(4),
            // No automaton is built for these steps.
            other => {
                self.number(NONE);
                self.text(format!("{other:?}").as_bytes());
            }
        }
    }

    /// Makes room for `len` bytes, at most [`BLOCK`], and returns the offset at which it begins.
    fn make_room(&mut self, len: usize) -> usize {
        if self.bytes.len() + len > BLOCK {
            self.flush();
        }
        let begin = self.bytes.len();
        self.bytes.resize(begin + len, 0);
        begin
    }

    fn flush(&mut self) {
        self.hasher.write(&self.bytes);
        self.bytes.clear();
    }

    fn finish(mut self) -> u64 {
        self.flush();
        self.hasher.finish()
    }
}

/// The form's number in the fingerprint, from 1 on.
pub(crate) fn form_number(form: UnicodeForm) -> u32 {
    match form {
        UnicodeForm::Nfc => 1,
        UnicodeForm::Nfd => 2,
        UnicodeForm::Nfkc => 3,
        UnicodeForm::Nfkd => 4,
    }
}

fn behavior_number(behavior: SplitBehavior) -> u32 {
    match behavior {
        SplitBehavior::Isolated => 0,
        SplitBehavior::Removed => 1,
        SplitBehavior::MergedWithPrevious => 2,
        SplitBehavior::MergedWithNext => 3,
        SplitBehavior::Contiguous => 4,
    }
}
