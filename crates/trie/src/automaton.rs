//! Automata over bytes that a walk runs over all tokens at once: the trait, and an automaton given as a table.
//!
//! States are plain `u32` numbers, because automata are tables of numbers. The numbers at the upper end are reserved:
//! [`DEAD`] is public, and the walk uses the others for results of its own.

use unskew_core::TokenId;

use crate::safe::SafeBytes;

/// No state: a [`ByteAutomaton`] has no transition there.
pub const DEAD: u32 = u32::MAX;

/// Not all characters of a symbol lead to one state.
pub(crate) const MIXED: u32 = u32::MAX - 1;

/// The target was not looked up yet.
pub(crate) const UNKNOWN: u32 = u32::MAX - 2;

/// The tokens that are allowed among those that end in a state of a [`ByteAutomaton`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(
    clippy::exhaustive_enums,
    reason = "an automaton answers with one of them, and the walk reads all of them"
)]
pub enum Verdict {
    /// All tokens.
    All,
    /// No token. Longer tokens may be allowed.
    None,
    /// Some tokens: [`ByteAutomaton::admits`] decides for each.
    Each,
    /// All tokens, as tokens of this kind: see [`TokenTrie::fill_kinds`](crate::TokenTrie::fill_kinds). Elsewhere the
    /// same as [`All`](Self::All).
    Kind(u8),
}

impl Verdict {
    /// The kind of all tokens, if all are allowed.
    #[inline]
    pub(crate) fn kind(self) -> Option<u8> {
        match self {
            Self::All => Some(0),
            Self::Kind(kind) => Some(kind),
            Self::None | Self::Each => None,
        }
    }
}

/// An automaton over bytes that tells which tokens are allowed, for [`TokenTrie::fill`](crate::TokenTrie::fill).
///
/// States are numbers below `u32::MAX - 2`. The methods may change the automaton, since an automaton that is built
/// during the walk needs that. The same question must have the same answer for the duration of a walk, except that a
/// verdict of [`Each`](Verdict::Each) may become another.
pub trait ByteAutomaton {
    /// The class of `byte`: the automaton never distinguishes bytes of one class. Classes matter only for speed, so
    /// every byte may be a class of its own.
    fn class(&self, byte: u8) -> u8;

    /// The state after `byte`, or [`DEAD`] if no token with these bytes is allowed.
    fn step(&mut self, state: u32, byte: u8) -> u32;

    /// The tokens that are allowed among those that end in `state`.
    fn verdict(&mut self, state: u32) -> Verdict {
        let _ = state;
        Verdict::All
    }

    /// Bytes that lead to no dead end: in `state`, and in every state that texts of these bytes lead to, each of them
    /// leads on, and the verdict is [`Verdict::All`]. `None` if the automaton cannot tell. Only speed depends on it:
    /// the walk allows the tokens of such bytes without a step.
    #[inline]
    fn safe(&mut self, state: u32) -> Option<SafeBytes> {
        let _ = state;
        None
    }

    /// Whether `token`, which ends in `state`, is allowed. The walk calls this only where the verdict is
    /// [`Verdict::Each`], and may call it for the same token more than once.
    fn admits(&mut self, state: u32, token: TokenId) -> bool {
        let _ = (state, token);
        true
    }
}

/// A table as a [`ByteAutomaton`]: a token is allowed if it is read to its end.
///
/// # Example
///
/// ```
/// use unskew_core::{TokenId, TokenMask, Vocabulary};
/// use unskew_trie::{DEAD, DenseTable, TokenTrie};
///
/// let mut builder = Vocabulary::builder();
/// for text in ["a", "ab", "b", "ba"] {
///     builder.text(text.as_bytes());
/// }
/// let trie = TokenTrie::new(builder.build()?)?;
///
/// // `a` and then any number of `b`. The classes are: anything else, `a`, `b`.
/// let mut classes = [0; 256];
/// (classes[usize::from(b'a')], classes[usize::from(b'b')]) = (1, 2);
/// let mut table = DenseTable { classes: &classes, width: 3, next: &[DEAD, 1, DEAD, DEAD, DEAD, 1] };
/// let mut mask = TokenMask::new(4);
/// trie.fill(&mut table, 0, mask.as_mut());
/// assert_eq!(mask.ids().collect::<Vec<_>>(), [TokenId(0), TokenId(1)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs, reason = "it is made by naming its fields")]
pub struct DenseTable<'a> {
    /// The class of each byte.
    pub classes: &'a [u8; 256],
    /// The number of classes.
    pub width: usize,
    /// `next[state * width + class]` is a state or [`DEAD`].
    pub next: &'a [u32],
}

impl ByteAutomaton for DenseTable<'_> {
    #[inline]
    fn class(&self, byte: u8) -> u8 {
        self.classes[usize::from(byte)]
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        self.next[state as usize * self.width + usize::from(self.class(byte))]
    }
}
