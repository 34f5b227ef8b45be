//! Errors of reading and compiling a grammar.
//!
//! One enum covers both stages. An error about the text of a grammar carries its location there.

use unskew_automata::RegexError;

use crate::{Location, SyntaxError};

/// Why a text is no grammar, or a grammar cannot be compiled. Each message is one line: the fault, its
/// location, and a way out.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrammarError {
    /// The text of a grammar violates the syntax of its language.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// A rule is used and has no body.
    #[error("rule `{name}` is used but not defined")]
    UndefinedRule {
        /// The name of the rule.
        name: String,
    },
    /// The pattern of a terminal cannot be compiled.
    #[error("{}terminal `{name}`: {source}", before(*location, source))]
    Terminal {
        /// The name of the terminal.
        name: String,
        /// The location in the text of the grammar, if the grammar was read from a text. A location inside
        /// `source` is in the same text and is more precise.
        location: Option<Location>,
        /// The error of the pattern.
        source: RegexError,
    },
    /// The automata of the terminals exceed a limit.
    #[error(
        "{location}: the terminals take more than {limit} bytes of tables (GrammarLimits::automata_bytes): use fewer and \
         smaller ones, or raise the limit"
    )]
    AutomataTooLarge {
        /// The location at which the limit was reached.
        location: Location,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The sets of tokens of a terminal with a budget of tokens exceed a limit.
    #[error(
        "terminal `{name}` with a budget of tokens takes more than {limit} bytes for its sets of tokens (GrammarLimits::budget_bytes): \
         give it a pattern with fewer states or fewer tokens, bound its characters instead, or raise the limit"
    )]
    BudgetTooLarge {
        /// The name of the terminal.
        name: String,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The captures of a grammar that was rewritten for lazy terminals or look-around, with a budget of tokens for a
    /// part that recurs.
    #[error(
        "captures are not read beside lazy terminals or look-around where `{name}`, which recurs, has a budget of tokens: leave out one of them"
    )]
    BudgetUnread {
        /// The name of the terminal.
        name: String,
    },
    /// A file that the grammar imports has an error.
    #[error("in `{path}`: {error}")]
    Imported {
        /// The path of the file.
        path: String,
        /// The error, with its location in that file.
        error: Box<GrammarError>,
    },
    /// Removing the ends of lazy terminals from competing readings takes too many states.
    #[error(
        "computing the effect of lazy terminals on competing terminals takes more than {limit} states: let fewer rules compete \
         with them, or raise `GrammarLimits::positions`"
    )]
    LazyTooCostly {
        /// The limit, in states.
        limit: usize,
    },
    /// Carrying the conditions of look-around through the rules takes too many states.
    #[error(
        "carrying the conditions of look-around through the rules takes more states than {limit} positions (GrammarLimits::positions) \
         allow: let terminals look around at fewer characters, or raise the limit, for example to {}, and `nodes` alike",
        limit.saturating_mul(8)
    )]
    LooksTooCostly {
        /// The limit, in states.
        limit: usize,
    },
    /// The grammar has too many rules, terminals and expression nodes.
    #[error("the grammar has more than {limit} nodes: raise `GrammarLimits::nodes`, for example to {}", limit.saturating_mul(8))]
    TooManyNodes {
        /// The limit, in nodes.
        limit: usize,
    },
    /// The rules are too long once repetitions are written out.
    #[error(
        "the rules have more than {limit} positions once repetitions are written out (rule `{rule}`); lower the bounds of \
         repetitions or raise `GrammarLimits::positions`"
    )]
    TooManyPositions {
        /// The rule in which the limit was reached.
        rule: String,
        /// The limit, in positions.
        limit: usize,
    },
    /// The boundaries of the units of a [bounded repetition](crate::GrammarBuilder::bounded_repetition) cannot be
    /// found one byte at a time.
    #[error("terminal `{name}`: {reason}; use a repetition of rules instead")]
    Uncountable {
        /// The name of the terminal.
        name: String,
        /// The condition that the unit or a mark violates.
        reason: &'static str,
    },
    /// A [distinct](crate::GrammarBuilder::distinct) terminal accepts the empty text, or has too few texts.
    #[error(
        "the distinct terminal `{name}` has an empty text, or so few texts that a scope might run out of them: list the texts as \
         members in any order instead, or bound their number"
    )]
    FewTexts {
        /// The name of the terminal.
        name: String,
    },
    /// A text of a distinct terminal may end before a byte that may also continue it.
    #[error(
        "a text of the distinct terminal `{name}` may end before `{}` and may also continue with it: put a mark after the \
         terminal that none of its texts contains", byte.escape_ascii()
    )]
    AmbiguousEnd {
        /// The name of the terminal.
        name: String,
        /// The byte.
        byte: u8,
    },
    /// A scope may begin with itself.
    #[error(
        "rule `{rule}` is a scope and may begin with itself: put a text before it, such as an opening bracket"
    )]
    RecursiveScope {
        /// The name of the rule.
        rule: String,
    },
    /// A member of a group in any order accepts the empty text.
    #[error("`{rule}`, a member of a group in any order, may be empty: make it optional instead")]
    EmptyMember {
        /// The rule of the member.
        rule: String,
    },
    /// The grammar has no automaton, or none within the limits, and one is required.
    #[error(
        "rule `{rule}` {reason}, so the grammar has no automaton: write the rule without recursion and shorter"
    )]
    NotRegular {
        /// The name of the rule.
        rule: String,
        /// The reason, as the predicate of a sentence about the rule.
        reason: String,
    },
    /// A terminal has texts that GBNF does not describe.
    #[error("terminal `{name}` cannot be written in GBNF: it {reason}; {way_out}")]
    NotInGbnf {
        /// The name of the terminal.
        name: String,
        /// The reason, as the predicate of a sentence about the terminal.
        reason: &'static str,
        /// What to do.
        way_out: &'static str,
    },
    /// The text of a grammar in GBNF would be too long.
    #[error("in GBNF the grammar takes more than {limit} bytes: write a smaller one, or raise `max_bytes`")]
    GbnfTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The grammar accepts no text.
    #[error("the grammar accepts no text: {reason}")]
    Empty {
        /// The reason, in words.
        reason: String,
    },
    /// The grammar names a token that the vocabulary does not have.
    #[error(
        "the vocabulary has no token `{name}`: give one that it has by its name, text or id, or write a text in quotes"
    )]
    UnknownToken {
        /// The name of the token.
        name: String,
    },
    /// The grammar has a set of tokens of another vocabulary.
    #[error(
        "the grammar has a set of tokens of a vocabulary of {tokens}, and this one has {vocabulary}: make the grammar for this \
         vocabulary"
    )]
    OtherVocabulary {
        /// The length of the set.
        tokens: usize,
        /// The length of the vocabulary.
        vocabulary: usize,
    },
    /// Of texts that may not come twice some were taken away, and few are left.
    #[error(
        "terminal `{name}`: its texts may not come twice, and so few are left within the language that they run out: allow more of \
         them, or take the terminal out"
    )]
    TooFewLeft {
        /// The terminal.
        name: String,
    },
    /// A terminal may follow a control token that ends the sequence.
    #[error(
        "{}rule `{rule}`: {next} may follow `{name}`, which ends the sequence in this vocabulary, and nothing may follow the end \
         of an output: put it last, or leave it out, because an output may end where the grammar ends",
        place(*location)
    )]
    EndInside {
        /// The rule that names the token.
        rule: String,
        /// The location at which the text of the grammar defines the rule, if the grammar was read from a text.
        location: Option<Location>,
        /// The name of the control token.
        name: String,
        /// The terminals that may follow it, in words.
        next: String,
    },
    /// No text of the grammar can be written with the tokens of the vocabulary.
    #[error(
        "{}no text is left that the tokens of the vocabulary write: terminal `{terminal}` needs {character:?} (U+{:04X}), \
         which they do not write", place(*location), u32::from(*character)
    )]
    Unwritten {
        /// The name of a terminal that no tokens write.
        terminal: String,
        /// A character that it needs.
        character: char,
        /// The location of a rule that uses it, if the grammar was read from a text.
        location: Option<Location>,
    },
}

impl GrammarError {
    /// The location in the text of the grammar, for errors that have one.
    pub fn location(&self) -> Option<Location> {
        match self {
            Self::Syntax(error) => Some(error.location),
            Self::Terminal { location, .. }
            | Self::EndInside { location, .. }
            | Self::Unwritten { location, .. } => *location,
            Self::AutomataTooLarge { location, .. } => Some(*location),
            _ => None,
        }
    }
}

/// The location of a terminal as the beginning of a message, unless its error has a location of its own.
fn before(location: Option<Location>, source: &RegexError) -> String {
    place(location.filter(|_| source.place().is_none()))
}

/// A location as the beginning of a message.
fn place(location: Option<Location>) -> String {
    location.map(|location| format!("{location}: ")).unwrap_or_default()
}
