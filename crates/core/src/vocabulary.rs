//! A vocabulary: the meaning of every token id.
//!
//! A vocabulary is data and not a trait: it has one meaning, it must be flat to reach a GPU, and a trait parameter
//! would spread into every type that uses it. Sources (a `tokenizer.json`, a rank file, a table) convert into a
//! vocabulary.
//!
//! Three decisions that other projects make differently:
//! - **Control tokens are a kind**, not a magic byte in front of their text. The bytes of `<|endoftext|>` are its name;
//!   no constraint over text ever matches them.
//! - **Ids may share bytes.** Real vocabularies hold two spellings of one byte (`<0x41>` and `A`); both stay.
//! - **Ids may be unused.** Real vocabularies have holes, and checkpoints pad their last dimension. An unused id is
//!   never allowed by any mask.

use std::fmt;

use bitvec::{order::Lsb0, slice::BitSlice, vec::BitVec};
use twox_hash::XxHash3_64;

use crate::{MaskRef, TokenId, TokenMask};

/// The kind of thing that a token id stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TokenKind {
    /// A piece of text, as bytes: not necessarily valid UTF-8 by itself.
    Text,
    /// A control token (end of sequence, a role marker): it has a name, and no text.
    Control,
    /// No token: a hole in the ids, or padding.
    Unused,
}

/// Token bytes, flat, with the kind of every id and the ids that end a sequence. Immutable once built.
///
/// # Example
///
/// ```
/// use unskew_core::{TokenId, TokenKind, Vocabulary};
///
/// let mut builder = Vocabulary::builder();
/// let a = builder.text(b"a");
/// let end = builder.control("<end>");
/// builder.end_of_sequence(end);
/// let vocabulary = builder.build()?;
///
/// assert_eq!(vocabulary.text(a), Some(&b"a"[..]));
/// assert_eq!(vocabulary.text(end), None); // a control token has a name, and no text
/// assert_eq!(vocabulary.name(end), "<end>");
/// assert_eq!(vocabulary.end_of_sequence(), &[end]);
/// assert_eq!(vocabulary.kind(TokenId(1)), TokenKind::Control);
/// # Ok::<(), unskew_core::VocabularyError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Vocabulary {
    /// The bytes (of a control token: the name) of all ids, one after the other.
    bytes: Vec<u8>,
    /// `bytes[offsets[i]..offsets[i + 1]]` belongs to id `i`; `len() + 1` entries.
    offsets: Vec<u32>,
    /// Bit `i`: id `i` is a text token.
    text: BitVec<u32, Lsb0>,
    /// Bit `i`: id `i` is a control token. Disjoint from `text`; an id in neither is unused.
    control: BitVec<u32, Lsb0>,
    /// Sorted, without duplicates, each a control token.
    end_of_sequence: Vec<TokenId>,
}

impl Vocabulary {
    /// Starts an empty vocabulary.
    pub fn builder() -> VocabularyBuilder {
        VocabularyBuilder::default()
    }

    /// The number of ids, unused ones included: the length of every mask and of every row of logits.
    #[inline]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is no id.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The kind of `id`; an id beyond the end is unused.
    pub fn kind(&self, id: TokenId) -> TokenKind {
        let set = |bits: &BitSlice<u32, Lsb0>| bits.get(id.index()).is_some_and(|bit| *bit);
        if set(&self.text) {
            TokenKind::Text
        } else if set(&self.control) {
            TokenKind::Control
        } else {
            TokenKind::Unused
        }
    }

    /// The bytes of a text token; `None` for control tokens, unused ids and ids beyond the end.
    #[inline]
    pub fn text(&self, id: TokenId) -> Option<&[u8]> {
        // This is called often, and finding the bit is most of its cost.
        let word = self.text.as_raw_slice().get(id.index() / u32::BITS as usize)?;
        (word >> (id.0 % u32::BITS) & 1 != 0).then(|| self.slice(id))
    }

    /// The name of `id` for a reader: its text, or the control token's name, with invalid UTF-8 replaced.
    pub fn name(&self, id: TokenId) -> std::borrow::Cow<'_, str> {
        match self.kind(id) {
            TokenKind::Unused => format!("<unused {id}>").into(),
            TokenKind::Text | TokenKind::Control => String::from_utf8_lossy(self.slice(id)),
        }
    }

    /// The ids that end a sequence, in ascending order. Each is a control token.
    pub fn end_of_sequence(&self) -> &[TokenId] {
        &self.end_of_sequence
    }

    /// Whether `id` ends a sequence.
    pub fn is_end_of_sequence(&self, id: TokenId) -> bool {
        self.end_of_sequence.binary_search(&id).is_ok()
    }

    /// The tokens that a mask may hold: those of a text, and control tokens that end no sequence. O(n) for n ids.
    pub fn mask_tokens(&self) -> TokenMask {
        let texts = self.text_tokens().filter(|(_, text)| !text.is_empty()).map(|(id, _)| id);
        let controls = self.control_tokens().map(|(id, _)| id).filter(|id| !self.is_end_of_sequence(*id));
        let mut tokens = TokenMask::new(self.len());
        texts.chain(controls).for_each(|id| tokens.as_mut().insert(id));
        tokens
    }

    /// Every text token with its bytes, by id.
    pub fn text_tokens(&self) -> impl Iterator<Item = (TokenId, &[u8])> {
        // Word by word: a search for each next bit takes several times as long.
        MaskRef::new(self.text.as_raw_slice(), self.len()).into_ids().map(|id| (id, self.slice(id)))
    }

    /// Every control token with its name, by id.
    pub fn control_tokens(&self) -> impl Iterator<Item = (TokenId, std::borrow::Cow<'_, str>)> {
        self.control.iter_ones().map(|index| {
            let id = TokenId::from_index(index);
            (id, String::from_utf8_lossy(self.slice(id)))
        })
    }

    /// The unused ids below [`used_len`](Self::used_len), in ascending order.
    pub fn holes(&self) -> impl Iterator<Item = TokenId> {
        let used = self.used_len();
        let unused = self.text.iter_zeros().filter(|index| !self.control[*index]);
        unused.take_while(move |index| *index < used).map(TokenId::from_index)
    }

    /// One more than the last id that is a text or control token: the ids after it are padding.
    pub fn used_len(&self) -> usize {
        let last = self.text.last_one().max(self.control.last_one());
        last.map_or(0, |last| last + 1)
    }

    /// The bytes of all ids (of control tokens: their names), one after the other; and the [`len`](Self::len)` + 1`
    /// offsets at which those of each id begin and end. Code that hashes or copies a whole vocabulary then needs no
    /// look at each token.
    pub fn flat(&self) -> (&[u8], &[u32]) {
        (&self.bytes, &self.offsets)
    }

    /// A number that distinguishes vocabularies by their tokens: XXH3 of the bytes and the kind of every id, never 0.
    /// Padding does not change it, nor do the ids that end a sequence, nor the way in which a tokenizer chooses among
    /// its tokens. Data that is made for one vocabulary and kept in a file names the vocabulary by this number.
    ///
    /// O(b) for b bytes of tokens.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint_of_first(self.len())
    }

    /// The [fingerprint](Self::fingerprint) of a vocabulary of the first `ids` ids alone, or of all ids if there are
    /// fewer. It shows whether two vocabularies begin with the same tokens.
    pub fn fingerprint_of_first(&self, ids: usize) -> u64 {
        let ids = ids.min(self.len());
        let last = self.text[..ids].last_one().max(self.control[..ids].last_one());
        let used = last.map_or(0, |last| last + 1);
        let (texts, offsets) = self.flat();
        let texts = &texts[..offsets[used] as usize];
        let mut bytes = Vec::with_capacity(texts.len() + 5 * used);
        for (id, range) in (0..used).map(TokenId::from_index).zip(offsets.windows(2)) {
            bytes.push(match self.kind(id) {
                TokenKind::Text => 0,
                TokenKind::Control => 1,
                TokenKind::Unused => 2,
            });
            bytes.extend((range[1] - range[0]).to_le_bytes());
        }
        bytes.extend(texts);
        XxHash3_64::oneshot(&bytes).max(1)
    }

    /// The text that `ids` spell; control tokens and unused ids add nothing.
    pub fn decode(&self, ids: &[TokenId]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for id in ids {
            bytes.extend_from_slice(self.text(*id).unwrap_or_default());
        }
        bytes
    }

    /// The number of bytes of the longest text token.
    pub fn longest_text(&self) -> usize {
        self.text_tokens().map(|(_, bytes)| bytes.len()).max().unwrap_or(0)
    }

    /// The same vocabulary with unused ids appended up to `len`, for a model whose rows of logits are longer than its
    /// tokenizer's vocabulary. A `len` at or below the present one changes nothing.
    #[must_use]
    pub fn padded(mut self, len: usize) -> Self {
        while self.len() < len {
            self.offsets.push(self.offsets[self.offsets.len() - 1]);
            self.text.push(false);
            self.control.push(false);
        }
        self
    }

    /// The same vocabulary without the ids from `len` on, for a model whose rows of logits are shorter than its
    /// tokenizer's vocabulary. A `len` at or above the present one changes nothing.
    #[must_use]
    pub fn truncated(mut self, len: usize) -> Self {
        if len < self.len() {
            self.offsets.truncate(len + 1);
            self.bytes.truncate(self.offsets[len] as usize);
            for bits in [&mut self.text, &mut self.control] {
                bits.truncate(len);
                // Whole words are read, without a look at the length.
                bits.set_uninitialized(false);
            }
            self.end_of_sequence.retain(|id| id.index() < len);
        }
        self
    }

    /// The same vocabulary with other end-of-sequence ids, as a checkpoint's configuration names them.
    ///
    /// # Errors
    ///
    /// [`VocabularyError`] when an id is not a control token.
    pub fn with_end_of_sequence(mut self, ids: &[TokenId]) -> Result<Self, VocabularyError> {
        self.end_of_sequence = checked_end_of_sequence(ids.to_vec(), &self.control)?;
        Ok(self)
    }

    /// The memory of the tables, in bytes; the struct itself is not counted.
    pub fn memory_usage(&self) -> usize {
        self.bytes.len() + size_of_val(&self.offsets[..]) + self.text.capacity() / 4
    }

    #[inline]
    fn slice(&self, id: TokenId) -> &[u8] {
        let range = self.offsets[id.index()] as usize..self.offsets[id.index() + 1] as usize;
        &self.bytes[range]
    }
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary")
            .field("len", &self.len())
            .field("text", &self.text.count_ones())
            .field("control", &self.control.count_ones())
            .field("end_of_sequence", &self.end_of_sequence)
            .finish()
    }
}

/// Builds a [`Vocabulary`] id by id.
#[derive(Clone, Debug, Default)]
pub struct VocabularyBuilder {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    text: BitVec<u32, Lsb0>,
    control: BitVec<u32, Lsb0>,
    end_of_sequence: Vec<TokenId>,
    overflow: bool,
}

impl VocabularyBuilder {
    /// Adds a text token; its id is the number of ids before it.
    pub fn text(&mut self, bytes: &[u8]) -> TokenId {
        self.push(bytes, TokenKind::Text)
    }

    /// Adds a control token.
    pub fn control(&mut self, name: &str) -> TokenId {
        self.push(name.as_bytes(), TokenKind::Control)
    }

    /// Adds an unused id.
    pub fn unused(&mut self) -> TokenId {
        self.push(&[], TokenKind::Unused)
    }

    /// Marks a control token as one that ends a sequence.
    pub fn end_of_sequence(&mut self, id: TokenId) -> &mut Self {
        self.end_of_sequence.push(id);
        self
    }

    /// The finished vocabulary.
    ///
    /// # Errors
    ///
    /// [`VocabularyError`] when an end-of-sequence id is not a control token, or when the bytes of all tokens
    /// together pass 4 GiB.
    pub fn build(self) -> Result<Vocabulary, VocabularyError> {
        if self.overflow {
            return Err(VocabularyError::TooLarge);
        }
        let end_of_sequence = checked_end_of_sequence(self.end_of_sequence, &self.control)?;
        let mut offsets = self.ends;
        offsets.insert(0, 0);
        let mut text = self.text;
        text.set_uninitialized(false);
        Ok(Vocabulary { bytes: self.bytes, offsets, text, control: self.control, end_of_sequence })
    }

    fn push(&mut self, bytes: &[u8], kind: TokenKind) -> TokenId {
        let id = TokenId::from_index(self.ends.len());
        match u32::try_from(self.bytes.len() + bytes.len()) {
            Ok(end) if id.0 < u32::MAX => {
                self.bytes.extend_from_slice(bytes);
                self.ends.push(end);
                self.text.push(kind == TokenKind::Text);
                self.control.push(kind == TokenKind::Control);
            }
            _ => self.overflow = true,
        }
        id
    }
}

fn checked_end_of_sequence(
    mut ids: Vec<TokenId>,
    control: &BitSlice<u32, Lsb0>,
) -> Result<Vec<TokenId>, VocabularyError> {
    ids.sort_unstable();
    ids.dedup();
    match ids.iter().find(|id| !control.get(id.index()).is_some_and(|bit| *bit)) {
        Some(id) => Err(VocabularyError::EndOfSequenceNotControl { id: *id }),
        None => Ok(ids),
    }
}

/// The reasons why a [`Vocabulary`] could not be built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VocabularyError {
    /// An end-of-sequence id is not a control token of the vocabulary.
    #[error("end-of-sequence id {id} is not a control token of the vocabulary; name a special token instead")]
    EndOfSequenceNotControl {
        /// The id.
        id: TokenId,
    },
    /// The tokens are too many or too long.
    #[error("the vocabulary is too large: the bytes of all tokens together may be at most 4 GiB")]
    TooLarge,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_kind_and_their_bytes() {
        let mut builder = Vocabulary::builder();
        let a = builder.text(b"a");
        let hole = builder.unused();
        let again = builder.text(b"a");
        let end = builder.control("</s>");
        let part = builder.text(&[0xe6]);
        builder.end_of_sequence(end).end_of_sequence(end);
        let vocabulary = builder.build().unwrap();

        assert_eq!(vocabulary.len(), 5);
        assert_eq!(vocabulary.text(a), vocabulary.text(again));
        assert_eq!(vocabulary.kind(hole), TokenKind::Unused);
        assert_eq!(vocabulary.text(hole), None);
        assert_eq!(vocabulary.text(TokenId(99)), None);
        assert_eq!(vocabulary.name(part), "\u{fffd}");
        assert_eq!(vocabulary.end_of_sequence(), &[end]);
        assert_eq!(vocabulary.decode(&[a, end, hole, part]), [b'a', 0xe6]);
        assert_eq!(vocabulary.text_tokens().count(), 3);
        assert_eq!(vocabulary.flat(), (&b"aa</s>\xe6"[..], &[0, 1, 1, 2, 6, 7][..]));

        let padded = vocabulary.padded(40);
        assert_eq!(padded.len(), 40);
        assert_eq!(padded.kind(TokenId(39)), TokenKind::Unused);
        assert_eq!(padded.text(part), Some(&[0xe6][..]));
        assert_eq!((padded.used_len(), padded.holes().collect::<Vec<_>>()), (5, vec![hole]));
        assert_eq!(Vocabulary::builder().build().unwrap().padded(2).used_len(), 0);

        let short = padded.clone().truncated(4);
        assert_eq!((short.len(), short.used_len(), short.end_of_sequence()), (4, 4, &[end][..]));
        assert_eq!(
            (short.text(part), short.text(TokenId(39)), short.kind(part)),
            (None, None, TokenKind::Unused)
        );
        assert_eq!((short.text_tokens().count(), short.decode(&[a, part])), (2, vec![b'a']));
        let shorter = short.truncated(3);
        assert_eq!(
            (shorter.len(), shorter.control_tokens().count(), shorter.end_of_sequence()),
            (3, 0, &[][..])
        );
        assert_eq!(padded.clone().truncated(40).flat(), padded.flat());
        assert_eq!(padded.truncated(0).flat(), (&b""[..], &[0][..]));
    }

    #[test]
    fn a_text_token_cannot_end_a_sequence() {
        let mut builder = Vocabulary::builder();
        let a = builder.text(b"a");
        builder.end_of_sequence(a);
        assert_eq!(builder.build().unwrap_err(), VocabularyError::EndOfSequenceNotControl { id: a });
    }
}
