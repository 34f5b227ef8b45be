//! Every bound on the cost of a pattern, in one place.
//!
//! A pattern comes from outside. Each stage therefore stops at a limit, and its error names the value, the limit and
//! the field to raise. A bound on the length of the pattern alone is not enough: `a{1000}{1000}{1000}` is short. A
//! bound on time is not enough either: the same pattern would then compile on one machine and not on another. So work
//! is bounded by counting steps.

use unskew_core::Cancel;

use crate::RegexError;

/// Bounds on the cost of compiling a pattern. The defaults keep every pattern below about 2 seconds and 512 MiB.
///
/// Two limits are equal if their numbers are equal; the [`cancel`](#structfield.cancel) flag is not compared.
///
/// The struct may get further fields, so another crate changes the default, field by field or with the method of the
/// field's name.
///
/// # Example
///
/// ```
/// use unskew_automata::{Dfa, Limits, RegexError};
///
/// let limits = Limits::default().dfa_states(100);
/// let error = Dfa::from_pattern("(a|b)*a(a|b){10}", &limits).unwrap_err();
/// assert!(matches!(error, RegexError::TooManyDfaStates { limit: 100, .. }));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The length of the pattern, in bytes. Default: 1 MiB.
    ///
    /// The syntax tree takes up to about 400 bytes for each byte of the pattern, so this bounds memory too.
    pub pattern_bytes: usize,
    /// How deep groups, classes, repetitions, concatenations and alternations may nest. Default: 250, and values
    /// above [`MAX_NEST`](Self::MAX_NEST) count as that.
    pub nest: u32,
    /// Elementary operations (about 5 ns each) for reading the pattern and expanding its character classes. They are
    /// estimated from the syntax before they are spent. Default: 100 million.
    ///
    /// This bounds work that the other limits cannot see: `(?i)[\x00-\u{10ffff}]` costs 5 ms each time it occurs.
    pub syntax_steps: u64,
    /// States and transitions of the NFA together, counted before it is built. Default: 4 million (at most 48 MiB).
    pub nfa_size: u64,
    /// States of the DFA while it is built; minimising may leave fewer. Default: 2^18.
    pub dfa_states: usize,
    /// Memory of the DFA while it is built, the sets of NFA states included, in bytes. Default: 96 MiB.
    ///
    /// Minimising takes up to twice as much again.
    pub dfa_bytes: usize,
    /// Steps of the subset construction, which builds the DFA: one for every NFA state or transition that it visits.
    /// Default: 150 million.
    pub dfa_steps: u64,
    /// Steps through the token trie for finding the states that tokens can complete. No steps are spent if the
    /// vocabulary has a token for each single byte that the pattern uses. Default: 200 million.
    pub spelling_steps: u64,
    /// States of the product of a constraint with a tokenizer's splitting, for canonical sequences. They are counted
    /// only if a mask might have to search through more than 2^24 of them, or if the tokenizer may write no token for
    /// a text of the constraint. Default: 2^19.
    pub product_states: usize,
    /// Memory for cached masks, in bytes. The mask of a state beyond the limit is computed on each request. Default:
    /// 64 MiB.
    pub mask_cache_bytes: usize,
    /// Memory for the states and masks that one scratch of a [`LazyRegexConstraint`](crate::LazyRegexConstraint)
    /// caches, in bytes. Beyond it older entries are dropped, and computed again when they are needed. It also bounds
    /// the cache of one scratch of a [`CanonicalConstraint`](crate::CanonicalConstraint), masks not included. A single
    /// step may exceed it by its own entries. Default: 32 MiB.
    pub lazy_bytes: usize,
    /// Ends the work from another thread: it then fails with [`RegexError::Cancelled`]. The flag is checked wherever
    /// states or steps of an automaton are counted, but not while a pattern is read or an automaton is minimised.
    /// Clones of the limits share it.
    pub cancel: Cancel,
}

/// Declares a method of each field's name, which sets the field and returns the limits.
macro_rules! setters {
    ($limits:ident { $($field:ident: $type:ty,)* }) => {
        impl $limits {
            $(
                #[doc = concat!("These limits with another [`", stringify!($field), "`](#structfield.", stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}
#[cfg(feature = "published")]
pub(crate) use setters;

setters! {
    Limits {
        pattern_bytes: usize,
        nest: u32,
        syntax_steps: u64,
        nfa_size: u64,
        dfa_states: usize,
        dfa_bytes: usize,
        dfa_steps: u64,
        spelling_steps: u64,
        product_states: usize,
        mask_cache_bytes: usize,
        lazy_bytes: usize,
        cancel: Cancel,
    }
}

impl PartialEq for Limits {
    fn eq(&self, other: &Self) -> bool {
        self.numbers() == other.numbers()
    }
}

impl Eq for Limits {}

impl Limits {
    /// The largest effective value of [`nest`](#structfield.nest). Parts of the syntax tree are compared recursively;
    /// at this depth the recursion fits in any thread's stack.
    pub const MAX_NEST: u32 = 1_000;

    /// [`RegexError::Cancelled`] if the flag is set.
    #[inline]
    pub(crate) fn check_cancelled(&self) -> Result<(), RegexError> {
        if self.cancel.is_cancelled() { Err(RegexError::Cancelled) } else { Ok(()) }
    }

    /// The same after work of `steps`, which takes as much fuel.
    #[inline]
    pub(crate) fn spend(&self, steps: u64) -> Result<(), RegexError> {
        self.cancel.take_fuel(steps);
        self.check_cancelled()
    }

    /// All limits as numbers, for comparison.
    fn numbers(&self) -> [u64; 11] {
        let Self {
            pattern_bytes,
            nest,
            syntax_steps,
            nfa_size,
            dfa_states,
            dfa_bytes,
            dfa_steps,
            spelling_steps,
            product_states,
            mask_cache_bytes,
            lazy_bytes,
            cancel: _,
        } = *self;
        let of = |size: usize| size as u64;
        [
            of(pattern_bytes),
            u64::from(nest),
            syntax_steps,
            nfa_size,
            of(dfa_states),
            of(dfa_bytes),
            dfa_steps,
            spelling_steps,
            of(product_states),
            of(mask_cache_bytes),
            of(lazy_bytes),
        ]
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pattern_bytes: 1 << 20,
            nest: 250,
            syntax_steps: 100_000_000,
            nfa_size: 4_000_000,
            dfa_states: 1 << 18,
            dfa_bytes: 96 << 20,
            dfa_steps: 150_000_000,
            spelling_steps: 200_000_000,
            product_states: 1 << 19,
            mask_cache_bytes: 64 << 20,
            lazy_bytes: 32 << 20,
            cancel: Cancel::default(),
        }
    }
}
