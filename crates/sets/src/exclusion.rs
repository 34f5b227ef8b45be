//! Excludes the outputs whose text is one of some items.
//!
//! **The constraint excludes whole outputs by their bytes.** An output is excluded if its text is an item, however its
//! tokens divide the text. A text that only contains an item, or begins with one, is allowed. Every token of text is
//! therefore allowed everywhere, and the items only decide whether the output may end: after an item it may not.
//!
//! Items are bytes, so they are a set over an alphabet of 256. The constraint follows an output byte by byte until
//! the output is no beginning of an item any more; from then on the output is free. No state is a dead end, because
//! the number of items is finite: with any one token an output can grow beyond all of them.

use std::{io::BufRead, sync::Arc};

use unskew_core::{Constraint, MaskMut, MaskRef, Rejected, TokenId, TokenMask, Vocabulary, hashed_key};

use crate::{Cursor, ItemSet, SetBuilder, SetError, SetLimits, lines::read_lines};

/// Any text of a vocabulary but the items.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use unskew_core::{Constraint, TokenId, Vocabulary};
/// use unskew_sets::ExclusionConstraint;
///
/// let mut builder = Vocabulary::builder();
/// let [a, b, ab] = ["a", "b", "ab"].map(|text| builder.text(text.as_bytes()));
/// let constraint = ExclusionConstraint::new(["ab"], Arc::new(builder.build().unwrap()))?;
/// let accepts = |tokens: &[TokenId]| {
///     let mut state = constraint.start();
///     tokens.iter().for_each(|token| constraint.advance(&mut (), &mut state, *token).unwrap());
///     constraint.is_accepting(&state)
/// };
/// assert!(!accepts(&[ab]) && !accepts(&[a, b])); // both spell it
/// assert!(accepts(&[]) && accepts(&[a]) && accepts(&[ab, a]));
/// # Ok::<(), unskew_sets::SetError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ExclusionConstraint {
    /// The items as bytes.
    items: Arc<ItemSet>,
    vocabulary: Arc<Vocabulary>,
    /// Every token with text.
    mask: TokenMask,
}

impl ExclusionConstraint {
    /// Any text but `items`.
    ///
    /// # Errors
    ///
    /// [`SetError::TooLong`] for an item of more than a mebibyte; [`SetError::NothingLeft`] where the empty text is
    /// an item and the vocabulary has no token with text.
    pub fn new<T: AsRef<[u8]>>(
        items: impl IntoIterator<Item = T>,
        vocabulary: Arc<Vocabulary>,
    ) -> Result<Self, SetError> {
        let mut builder = Self::builder();
        for item in items {
            Self::push(&mut builder, item.as_ref())?;
        }
        Self::from_builder(builder, vocabulary)
    }

    /// Any text but the lines of a text; lines without text are dropped.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and [`SetError`] with the line where a line is not UTF-8 or is too long.
    pub fn from_lines(text: impl BufRead, vocabulary: Arc<Vocabulary>) -> Result<Self, SetError> {
        let mut builder = Self::builder();
        let line_bytes = SetLimits::default().line_bytes;
        read_lines(text, line_bytes, |line| Self::push(&mut builder, line.as_bytes()))?;
        Self::from_builder(builder, vocabulary)
    }

    fn builder() -> SetBuilder {
        let limits = SetLimits::default();
        SetBuilder::new(256).limits(SetLimits { item_tokens: limits.line_bytes, ..limits })
    }

    fn push(builder: &mut SetBuilder, text: &[u8]) -> Result<(), SetError> {
        let bytes: Vec<TokenId> = text.iter().map(|byte| TokenId(u32::from(*byte))).collect();
        builder.push(&bytes)
    }

    fn from_builder(builder: SetBuilder, vocabulary: Arc<Vocabulary>) -> Result<Self, SetError> {
        let items = Arc::new(builder.build()?.0);
        let mut mask = TokenMask::new(vocabulary.len());
        for (token, _) in vocabulary.text_tokens().filter(|(_, text)| !text.is_empty()) {
            mask.as_mut().insert(token);
        }
        if mask.none() && items.start().item().is_some() {
            return Err(SetError::NothingLeft);
        }
        Ok(Self { items, vocabulary, mask })
    }

    /// The texts that are excluded, in the order of their bytes.
    pub fn texts(&self) -> impl Iterator<Item = Vec<u8>> {
        self.items.items().map(|item| item.iter().map(|byte| byte.0 as u8).collect())
    }

    /// The memory of the items and of the mask, in bytes. The vocabulary is shared and not counted.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>() + size_of::<ItemSet>() + self.items.memory_usage() + size_of_val(self.mask.words())
    }
}

impl Constraint for ExclusionConstraint {
    /// The output as a beginning of items; `None` once no item begins with the output.
    type State = Option<Cursor>;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        self.mask.len()
    }

    fn start(&self) -> Option<Cursor> {
        Some(self.items.start())
    }

    fn scratch(&self) {}

    fn advance(&self, (): &mut (), state: &mut Option<Cursor>, token: TokenId) -> Result<(), Rejected> {
        if !self.mask.contains(token) {
            return Err(Rejected::new(token));
        }
        let text = self.vocabulary.text(token).unwrap_or_default();
        let step = |cursor: Cursor, byte: &u8| self.items.step(&cursor, TokenId(u32::from(*byte)));
        *state = state.and_then(|cursor| text.iter().try_fold(cursor, step));
        Ok(())
    }

    fn is_accepting(&self, state: &Option<Cursor>) -> bool {
        state.is_none_or(|cursor| cursor.item().is_none())
    }

    fn fill_mask(&self, (): &mut (), _state: &Option<Cursor>, mut mask: MaskMut<'_>) {
        mask.copy_from(self.mask.as_ref());
    }

    /// A hash of the prefix of items.
    fn state_key(&self, (): &mut (), state: &Option<Cursor>) -> Option<u64> {
        Some(hashed_key(state))
    }

    fn ready_mask<'a>(&'a self, (): &'a (), _state: &Option<Cursor>) -> Option<MaskRef<'a>> {
        Some(self.mask.as_ref())
    }
}
