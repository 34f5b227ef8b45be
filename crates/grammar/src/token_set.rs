//! A set of tokens as a grammar writes it, for any vocabulary: ranges of ids and names, or all tokens but those.
//!
//! A grammar knows no vocabulary, so a set is resolved when a constraint is compiled. A mask of one vocabulary
//! ([`Terminal::OneOf`](crate::Terminal::OneOf)) would bind the text of a grammar to the tokenizer that reads it.

/// A set of tokens by their ids and names, such as `<[128000-128009]>` or all tokens but `<|end|>`.
///
/// Tokens that end a sequence belong to a set only if the set is that one token: no mask holds them. Ids that the
/// vocabulary lacks belong to no set.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct TokenSet {
    /// Ranges of ids, first and last.
    pub ranges: Vec<(u32, u32)>,
    /// The names of control tokens, or the texts of other tokens.
    pub names: Vec<Box<str>>,
    /// Whether the set has all other tokens instead.
    pub complement: bool,
}

impl TokenSet {
    /// The tokens with the ids of `ranges`, first and last.
    pub fn of_ids(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        Self { ranges: ranges.into_iter().collect(), ..Self::default() }
    }

    /// The control token of this name, or else the token of this text.
    pub fn of_name(name: &str) -> Self {
        Self { names: vec![name.into()], ..Self::default() }
    }

    /// All other tokens.
    #[must_use]
    pub fn complement(mut self) -> Self {
        self.complement ^= true;
        self
    }
}
