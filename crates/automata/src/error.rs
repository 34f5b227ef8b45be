//! The errors of patterns and lists of choices.
//!
//! One enum with public fields and not an opaque struct: a caller can react to most variants (raise the limit that is
//! named, point at the place, fall back to another constraint). Every message is one line: the fault, its place, the
//! value and the limit, and a way out. The error does not keep the pattern, which may be a megabyte and which the
//! caller has; [`Place::caret`] takes it as an argument and draws the line with a caret.

use std::{fmt, ops::Range};

use regex_syntax::ast::Span;
use unskew_trie::TokenTooLong;

/// A range of a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Place {
    /// Byte offsets into the pattern.
    pub span: Range<usize>,
    /// The line on which the range begins, from 1.
    pub line: usize,
    /// The column at which the range begins, in characters, from 1.
    pub column: usize,
}

impl Place {
    /// The line of `pattern` on which the place begins, cut to its surroundings if it is long, and below it carets
    /// under the range. Two lines without a newline at the end.
    ///
    /// A `pattern` other than the one that the place belongs to gives an arbitrary answer, but never a panic.
    ///
    /// # Example
    ///
    /// ```
    /// use unskew_automata::{Dfa, Limits};
    ///
    /// let error = Dfa::from_pattern(r"([a-z]+)\1!", &Limits::default()).unwrap_err();
    /// assert_eq!(error.place().unwrap().caret(r"([a-z]+)\1!"), "([a-z]+)\\1!\n        ^^");
    /// ```
    pub fn caret(&self, pattern: &str) -> String {
        /// Characters shown before and after the start of the place.
        const AROUND: usize = 60;
        let line = pattern.lines().nth(self.line.saturating_sub(1)).unwrap_or("");
        let start = self.column.saturating_sub(1);
        let skipped = start.saturating_sub(AROUND);
        let shown: String = line.chars().skip(skipped).take(2 * AROUND).collect();
        let length = pattern.get(self.span.clone()).map_or(1, |text| text.chars().count());
        let visible = shown.chars().count().saturating_sub(start - skipped);
        let carets = length.min(visible).max(1);
        format!("{shown}\n{}{}", " ".repeat(start - skipped), "^".repeat(carets))
    }
}

impl From<&Span> for Place {
    fn from(span: &Span) -> Self {
        Self { span: span.start.offset..span.end.offset, line: span.start.line, column: span.start.column }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A construct of regex syntax that is recognised but cannot be enforced exactly.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Construct {
    /// `(?=…)`, `(?!…)`, `(?<=…)`, `(?<!…)`.
    LookAround,
    /// `\1` and the like.
    BackReference,
    /// `\b`, `\B`, `\<`, `\>`, `\b{start}` and their kin.
    WordBoundary,
    /// `^` and `$` under the flag `m`, where they match at line ends.
    LineAnchor,
    /// Look-ahead, `$` or a word boundary inside look-behind.
    AheadInBehind,
    /// `a++` and `(?>a|ab)`, but for those of single characters.
    Atomic,
    /// `(?(1)a|b)`.
    Condition,
    /// `(?R)`, `(?1)`, `(?&name)`, `(?P>name)`.
    Recursion,
    /// A backslash in front of a letter or digit that has no meaning there.
    Escape,
    /// A property that Unicode does not have.
    Property,
    /// `\p{Greek}`, which is `\p{Script=Greek}` in ECMA-262.
    Script,
}

impl Construct {
    /// The way out, as the message of the error has it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::LookAround => "write the alternatives out",
            Self::BackReference => "list the texts that may repeat as alternatives",
            Self::WordBoundary => "write out which characters may stand on both sides",
            Self::LineAnchor => "drop the flag `m` and write `\\n` where a line ends",
            Self::AheadInBehind => "put it next to the look-behind",
            Self::Atomic => {
                "leave out the `+` or the `?>`, which cut no text off where what follows begins otherwise"
            }
            Self::Condition => "write both cases as alternatives",
            Self::Recursion => "use a grammar",
            Self::Escape => {
                "leave out the backslash for the character alone, or write its number; the end of the text is `$`"
            }
            Self::Property => {
                "use a general category, a script or a binary property: `\\p{L}`, `\\p{Script=Han}`"
            }
            Self::Script => "put `Script=` in front of the name",
        }
    }
}

impl fmt::Display for Construct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LookAround => "look-around",
            Self::BackReference => "a back-reference",
            Self::WordBoundary => "a word boundary",
            Self::LineAnchor => "a line anchor under the flag `m`",
            Self::AheadInBehind => "look-ahead, `$` or a word boundary inside look-behind",
            Self::Atomic => "a possessive repetition or an atomic group",
            Self::Condition => "a condition on a group",
            Self::Recursion => "recursion",
            Self::Escape => "this escape",
            Self::Property => "this property of Unicode",
            Self::Script => "a script without `Script=`",
        })
    }
}

/// The reason for which a pattern or a list of choices does not become a constraint.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegexError {
    /// The text of the pattern is too long. It was not read.
    #[error(
        "the regex is {bytes} bytes long; the limit is {limit} (Limits::pattern_bytes): shorten it, or raise the limit"
    )]
    #[non_exhaustive]
    PatternTooLong {
        /// The length of the pattern, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// Not a regex, or a regex that matches bytes that are not UTF-8.
    #[error("{message}, at {place}")]
    #[non_exhaustive]
    Syntax {
        /// The fault.
        message: String,
        /// Its place.
        place: Place,
    },
    /// A construct that cannot be enforced exactly.
    #[error("{construct} is not supported, at {place}: {}", construct.advice())]
    #[non_exhaustive]
    Unsupported {
        /// The construct.
        construct: Construct,
        /// Its place.
        place: Place,
    },
    /// Groups, classes or repetitions are nested too deep.
    #[error(
        "the regex nests deeper than {limit} levels (Limits::nest), at {place}: flatten it, or raise the limit"
    )]
    #[non_exhaustive]
    NestTooDeep {
        /// The limit.
        limit: u32,
        /// The place where the limit is exceeded.
        place: Place,
    },
    /// Reading the pattern would take too long.
    #[error(
        "the character classes and group names of the regex need about {steps} steps to read; the limit is {limit} \
         (Limits::syntax_steps), passed at {place}: use fewer of them, or raise the limit"
    )]
    #[non_exhaustive]
    SyntaxTooCostly {
        /// The steps up to the place.
        steps: u64,
        /// The limit.
        limit: u64,
        /// The place where the limit is exceeded.
        place: Place,
    },
    /// The NFA would be too large. It was not built.
    #[error(
        "the regex needs an NFA of {size} states and transitions; the limit is {limit} (Limits::nfa_size): lower its \
         repetition counts, or raise the limit"
    )]
    #[non_exhaustive]
    NfaTooLarge {
        /// The size, in states and transitions; `u64::MAX` means that or more.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// The DFA has too many states.
    #[error(
        "the DFA has more than {limit} states (Limits::dfa_states): lower the repetition counts after ambiguous parts \
         of the pattern, or raise the limit"
    )]
    #[non_exhaustive]
    TooManyDfaStates {
        /// The limit, which the next state would have exceeded.
        limit: usize,
    },
    /// The DFA takes too much memory.
    #[error(
        "the DFA needs more than {bytes} bytes; the limit is {limit} (Limits::dfa_bytes): lower the repetition counts, \
         use smaller character classes, or raise the limit"
    )]
    #[non_exhaustive]
    DfaTooLarge {
        /// The memory at the point where the construction stopped, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// Building the DFA takes too long.
    #[error(
        "making the DFA takes more than {limit} steps (Limits::dfa_steps), {states} states into it: lower the \
         repetition counts of nested repetitions, or raise the limit"
    )]
    #[non_exhaustive]
    DfaTooCostly {
        /// The limit.
        limit: u64,
        /// How many states the DFA had by then.
        states: usize,
    },
    /// Many optional parts follow one another, so that each state of the NFA can reach most others without reading.
    #[error(
        "the closures over optional parts of the regex take more than {limit} steps (Limits::dfa_steps), {states} states of \
         the NFA into it: put fewer optional parts one after another, or raise the limit"
    )]
    #[non_exhaustive]
    ClosuresTooCostly {
        /// The limit.
        limit: u64,
        /// How many states of the NFA had their closure.
        states: usize,
    },
    /// The [`Cancel`](unskew_core::Cancel) flag of the limits was set.
    #[error("the work was cancelled")]
    Cancelled,
    /// No text matches at all, not even the empty one.
    #[error(
        "the regex matches nothing, not even the empty text: look for an empty class or for `$` before text"
    )]
    MatchesNothing,
    /// A list of choices that has no choice.
    #[error("there is no choice to choose from: give at least one")]
    NoChoices,
    /// A choice that is the empty text.
    #[error("choice {index} (counted from 0) is empty: remove it, or use a regex that ends in `?`")]
    #[non_exhaustive]
    EmptyChoice {
        /// Its position, from 0.
        index: usize,
    },
    /// No sequence of tokens spells a match.
    #[error(
        "the vocabulary cannot spell any match: no sequence of its text tokens is accepted, and {} of the bytes that \
         matches use have no token of their own", missing.len()
    )]
    #[non_exhaustive]
    Unspellable {
        /// The bytes that occur in matches and have no token of their own, in ascending order.
        missing: Vec<u8>,
    },
    /// Finding the states that tokens can complete takes too long.
    #[error(
        "finding out which matches the vocabulary can spell takes more than {limit} steps (Limits::spelling_steps), \
         because {missing} of the bytes that matches use have no token of their own: add them to the vocabulary, or \
         raise the limit"
    )]
    #[non_exhaustive]
    SpellingTooCostly {
        /// The limit.
        limit: u64,
        /// How many bytes occur in matches and have no token of their own.
        missing: usize,
    },
    /// A token is longer than a trie can hold.
    #[error(transparent)]
    TokenTooLong(#[from] TokenTooLong),
}

impl RegexError {
    /// [`TooManyDfaStates`](Self::TooManyDfaStates), for the crates that build automata of their own under these
    /// limits.
    #[doc(hidden)]
    pub fn too_many_dfa_states(limit: usize) -> Self {
        Self::TooManyDfaStates { limit }
    }

    /// [`DfaTooLarge`](Self::DfaTooLarge), as [`too_many_dfa_states`](Self::too_many_dfa_states).
    #[doc(hidden)]
    pub fn dfa_too_large(bytes: usize, limit: usize) -> Self {
        Self::DfaTooLarge { bytes, limit }
    }

    /// The place in the pattern, for the variants that have one.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Syntax { place, .. }
            | Self::Unsupported { place, .. }
            | Self::NestTooDeep { place, .. }
            | Self::SyntaxTooCostly { place, .. } => Some(place),
            _ => None,
        }
    }
}
