//! The place for the tokens that a walk allows: one mask, or a set for each kind.

use unskew_core::{TokenId, TokenMask, WORD_BITS};

/// The place for the tokens that a walk allows.
pub(crate) trait Sink {
    /// Adds tokens of this kind.
    fn insert(&mut self, kind: u8, tokens: impl Iterator<Item = TokenId>);

    /// The words of the mask of this kind's tokens, where it is worth one: for many tokens at once.
    fn words(&mut self, kind: u8) -> &mut [u32];
}

/// Sets the bits of `tokens`.
#[inline]
pub(super) fn insert(words: &mut [u32], tokens: impl Iterator<Item = TokenId>) {
    for token in tokens {
        words[token.index() / WORD_BITS] |= 1 << (token.index() % WORD_BITS);
    }
}

/// Whether the bit of `token` is set.
#[inline]
pub(super) fn contains(words: &[u32], token: TokenId) -> bool {
    words[token.index() / WORD_BITS] >> (token.index() % WORD_BITS) & 1 != 0
}

/// Sets the bits of `more`.
pub(super) fn unite(words: &mut [u32], more: &[u32]) {
    words.iter_mut().zip(more).for_each(|(word, more)| *word |= more);
}

/// One mask for all kinds.
impl Sink for &mut [u32] {
    #[inline]
    fn insert(&mut self, _kind: u8, tokens: impl Iterator<Item = TokenId>) {
        insert(self, tokens);
    }

    #[inline]
    fn words(&mut self, _kind: u8) -> &mut [u32] {
        self
    }
}

/// The tokens of one kind: see [`TokenTrie::fill_kinds`](crate::TokenTrie::fill_kinds).
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_enums, reason = "few and many")]
pub enum KindTokens {
    /// The tokens in no order; a token may occur several times.
    Few(Vec<TokenId>),
    /// Many tokens, as a mask.
    Many(TokenMask),
}

impl KindTokens {
    /// The mask of the tokens, over `len` ids.
    ///
    /// # Panics
    ///
    /// If a token of a list is beyond `len`, rounded up to a whole word.
    pub fn into_mask(self, len: usize) -> TokenMask {
        match self {
            Self::Many(mask) => mask,
            Self::Few(tokens) => {
                let mut mask = TokenMask::new(len);
                insert(mask.as_mut().into_words(), tokens.into_iter());
                mask
            }
        }
    }
}

/// The tokens of each kind. Most kinds have few tokens, and passing over a mask for each of these kinds would be much
/// of the work.
pub(crate) struct Kinds {
    sets: Vec<KindTokens>,
    /// The mask that tokens were added to last, taken out of its place in `sets`, with its kind: mostly the next
    /// token is of the same kind.
    last: TokenMask,
    kind: Option<u8>,
    /// The number of ids.
    len: usize,
    /// The most tokens of a kind that are kept as a list.
    few: usize,
}

impl Kinds {
    /// No tokens yet, over `len` ids, with lists of at most `few` tokens.
    pub(crate) fn new(len: usize, few: usize) -> Self {
        Self { sets: Vec::new(), last: TokenMask::new(0), kind: None, len, few }
    }

    /// The tokens of each kind, with the last mask in its place.
    pub(crate) fn into_sets(mut self) -> Vec<KindTokens> {
        self.put_back();
        self.sets
    }

    fn put_back(&mut self) {
        if let Some(kind) = self.kind.take() {
            self.sets[usize::from(kind)] =
                KindTokens::Many(std::mem::replace(&mut self.last, TokenMask::new(0)));
        }
    }

    /// The tokens of a kind, unless its mask is the last one.
    fn set(&mut self, kind: u8) -> &mut KindTokens {
        let at = usize::from(kind);
        if at >= self.sets.len() {
            self.sets.resize(at + 1, KindTokens::Few(Vec::new()));
        }
        &mut self.sets[at]
    }

    /// Makes the mask of this kind the last one.
    #[cold]
    fn turn_to(&mut self, kind: u8) {
        self.put_back();
        let set = std::mem::replace(self.set(kind), KindTokens::Few(Vec::new()));
        (self.last, self.kind) = (set.into_mask(self.len), Some(kind));
    }

    /// Adds tokens of a kind whose mask is not the last one.
    #[inline(never)]
    fn insert_elsewhere(&mut self, kind: u8, tokens: impl Iterator<Item = TokenId>) {
        let most = self.few;
        match self.set(kind) {
            KindTokens::Few(few) => {
                if few.capacity() == 0 {
                    few.reserve(most / 4);
                }
                few.extend(tokens);
                if few.len() > most {
                    self.turn_to(kind);
                }
            }
            KindTokens::Many(_) => {
                self.turn_to(kind);
                insert(self.last.as_mut().into_words(), tokens);
            }
        }
    }
}

impl Sink for &mut Kinds {
    #[inline(always)]
    fn insert(&mut self, kind: u8, tokens: impl Iterator<Item = TokenId>) {
        if self.kind == Some(kind) {
            insert(self.last.as_mut().into_words(), tokens);
        } else {
            self.insert_elsewhere(kind, tokens);
        }
    }

    #[inline]
    fn words(&mut self, kind: u8) -> &mut [u32] {
        if self.kind != Some(kind) {
            self.turn_to(kind);
        }
        self.last.as_mut().into_words()
    }
}
