//! Which tokenizer a saved automaton belongs to: a number of all that decides which sequences it writes.
//!
//! A file of an automaton ([`super::file`]) holds tables and not what they were made from. A number of 64 bits tells tokenizers
//! apart where one was changed by accident; it is no protection against an author of files who looks for an equal one. Tried
//! instead: a hash of the `tokenizer.json`, which changes with white space and names of steps that mean the same.

use std::hash::Hasher;

use twox_hash::XxHash3_64;
use unskew_core::{
    Merge, Normalizer, PrependScheme, SplitBehavior, SplitPattern, Symbols, Tokenization, UnicodeForm,
    Vocabulary,
};

use super::file::count;
use crate::canonical::{MergeOrder, merges::derivation::NONE};

/// How many bytes are gathered before they are hashed: they stay in the nearest cache.
const BLOCK: usize = 1 << 14;

/// A number that tells tokenizers apart: XXH3 of all that decides which sequences one writes.
///
/// Unused ids leave no trace, so that a vocabulary may be padded, nor does which ids end a sequence.
pub(crate) fn fingerprint(vocabulary: &Vocabulary, tokenization: &Tokenization, order: MergeOrder) -> u64 {
    let Tokenization { normalizers, splits, merges, whole_pieces, symbols, added, unwritten, .. } =
        tokenization;
    let mut facts = Facts { bytes: Vec::with_capacity(BLOCK), hasher: XxHash3_64::new() };
    facts.number(match order {
        MergeOrder::LowestRank => 0,
        MergeOrder::Passes => 1,
    });
    let used = vocabulary.used_len();
    let (texts, offsets) = vocabulary.flat();
    facts.number(count(used));
    facts.words(&offsets[..=used], |offset| [*offset]);
    facts.write(texts);
    for (token, name) in vocabulary.control_tokens() {
        facts.number(token.0);
        facts.text(name.as_bytes());
    }
    facts.number(NONE);
    for token in vocabulary.holes() {
        facts.number(token.0);
    }
    facts.number(NONE);
    facts.number(count(merges.len()));
    facts.words(merges.merges(), |Merge { left, right, result }| [left.0, right.0, result.0]);
    facts.number(u32::from(*whole_pieces));
    facts.number(count(normalizers.len()));
    normalizers.iter().for_each(|normalizer| facts.normalizer(normalizer));
    facts.number(count(splits.len()));
    splits.iter().for_each(|split| facts.split(split));
    match symbols {
        Symbols::Bytes => facts.number(0),
        Symbols::Characters { fallback } => {
            facts.numbers([1, count(fallback.len())]);
            fallback.iter().for_each(|(byte, token)| facts.numbers([u32::from(*byte), token.0]));
        }
    }
    facts.number(count(added.len()));
    for token in added {
        facts.number(token.id.0);
        facts.text(token.content.as_bytes());
        let flags = [token.special, token.single_word, token.lstrip, token.rstrip, token.normalized];
        facts.numbers(flags.map(u32::from));
    }
    facts.number(count(unwritten.len()));
    facts.words(unwritten, |token| [token.0]);
    facts.finish()
}

/// Numbers and texts, each of which can be told from the next.
struct Facts {
    /// What is not hashed yet: hashing it in large blocks is faster.
    bytes: Vec<u8>,
    hasher: XxHash3_64,
}

impl Facts {
    fn number(&mut self, number: u32) {
        self.numbers([number]);
    }

    fn numbers<const N: usize>(&mut self, numbers: [u32; N]) {
        self.words(&numbers, |number| [*number]);
    }

    /// `N` numbers of each item.
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

    /// Bytes whose number is known.
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
            // No automaton is built for these.
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
            // No automaton is built for these.
            other => {
                self.number(NONE);
                self.text(format!("{other:?}").as_bytes());
            }
        }
    }

    /// Makes room for `len` bytes, at most [`BLOCK`], and answers where it begins.
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

pub(crate) const FORMS: [UnicodeForm; 4] =
    [UnicodeForm::Nfc, UnicodeForm::Nfd, UnicodeForm::Nfkc, UnicodeForm::Nfkd];

/// From 1 on.
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
