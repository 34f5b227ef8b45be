//! How much a file or a text may ask for: every stage that grows with its input has a limit, and an error that names
//! the value and the limit.

/// The limits of loading and of encoding. Change the fields of [`Limits::default`] where they do not fit.
///
/// # Example
///
/// ```
/// let mut limits = unskew_vocab::Limits::default();
/// limits.text_bytes = 1 << 20; // prompts of at most 1 MiB
/// # let _ = limits;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The size of a file, in bytes. 256 MiB by default; the largest known `tokenizer.json` are about 35 MiB.
    pub file_bytes: usize,
    /// The number of ids, holes included: an id at or beyond it is an error. 2^22 by default, sixteen times the
    /// largest known vocabularies.
    pub ids: usize,
    /// The length of one token, in bytes as the file spells it. 2^16 by default, which is also the limit of a
    /// `TokenTrie` of `unskew-trie`.
    pub token_bytes: usize,
    /// The length of one text to encode, in bytes. 64 MiB by default. The encoder needs 40 to 130 bytes of
    /// memory per byte of text while it works.
    pub text_bytes: usize,
}

impl Limits {
    /// The limits unless others are given.
    pub const DEFAULT: Self =
        Self { file_bytes: 256 << 20, ids: 1 << 22, token_bytes: 1 << 16, text_bytes: 64 << 20 };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
