//! Why a text is not a grammar, or a grammar no constraint.

use unskew_automata::RegexError;

use crate::{Location, SyntaxError};

/// Why a text is not a grammar, or a grammar no constraint. Every message is one line: what, where, and a way out.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrammarError {
    /// The text of a grammar does not follow its language.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// A rule is used and has no body.
    #[error("rule `{name}` is used but not defined")]
    #[non_exhaustive]
    UndefinedRule {
        /// The rule.
        name: String,
    },
    /// The pattern of a terminal is no constraint.
    #[error("{}terminal `{name}`: {source}", before(*location, source))]
    #[non_exhaustive]
    Terminal {
        /// The terminal.
        name: String,
        /// Where the text of the grammar has the part that is meant, if it comes from a text. If `source` has a place,
        /// that is a place in this text too, and is nearer.
        location: Option<Location>,
        /// What is the matter with it.
        source: RegexError,
    },
    /// The terminals need too large automata.
    #[error(
        "{location}: the terminals take more than {limit} bytes of tables (GrammarLimits::automata_bytes): use fewer and \
         smaller ones, or raise the limit"
    )]
    #[non_exhaustive]
    AutomataTooLarge {
        /// Where the limit was reached.
        location: Location,
        /// The limit, in bytes.
        limit: usize,
    },
    /// To take the ends of lazy terminals away from the others takes too many states.
    #[error(
        "to take the ends of lazy terminals away from the others takes more than {limit} states: make fewer rules compete \
         with them, or raise `GrammarLimits::positions`"
    )]
    #[non_exhaustive]
    LazyTooCostly {
        /// The limit.
        limit: usize,
    },
    /// Rules, terminals and nodes of expressions are too many.
    #[error("the grammar has more than {limit} nodes; raise `GrammarLimits::nodes`")]
    #[non_exhaustive]
    TooManyNodes {
        /// The limit.
        limit: usize,
    },
    /// Written out, the repetitions are too long.
    #[error(
        "the rules have more than {limit} places once repetitions are written out (rule `{rule}`); lower the bounds of \
         repetitions or raise `GrammarLimits::positions`"
    )]
    #[non_exhaustive]
    TooManyPositions {
        /// The rule in which the limit was reached.
        rule: String,
        /// The limit.
        limit: usize,
    },
    /// Units between two marks that cannot be told apart by reading on.
    #[error("terminal `{name}`: {reason}; use a repetition of rules instead")]
    #[non_exhaustive]
    Uncountable {
        /// The terminal.
        name: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A terminal whose texts may not come twice has too few of them.
    #[error(
        "terminal `{name}`, no text of which may come twice, has an empty text, or so few texts that a scope might run out of \
         them: list them as members in any order instead, or bound their number"
    )]
    #[non_exhaustive]
    FewTexts {
        /// The terminal.
        name: String,
    },
    /// A text that may not come twice may end in front of a byte with which it also goes on.
    #[error(
        "terminal `{name}`, no text of which may come twice, may end in front of `{}` and go on with it too: put a mark behind \
         it that is no part of it", byte.escape_ascii()
    )]
    #[non_exhaustive]
    AmbiguousEnd {
        /// The terminal.
        name: String,
        /// The byte.
        byte: u8,
    },
    /// A scope begins with itself.
    #[error(
        "rule `{rule}` is a scope and may begin with itself: put something in front, as an opening bracket"
    )]
    #[non_exhaustive]
    RecursiveScope {
        /// The rule.
        rule: String,
    },
    /// A member of a group in any order may be empty.
    #[error("`{rule}`, a member of a group in any order, may be empty: make it optional instead")]
    #[non_exhaustive]
    EmptyMember {
        /// The rule that the member is.
        rule: String,
    },
    /// The grammar is no regular language that can be built, where one is needed.
    #[error(
        "rule `{rule}` {reason}, so the grammar has no automaton, which canonical sequences need: ask for any \
         sequences, or write the rule without recursion and shorter"
    )]
    #[non_exhaustive]
    NotRegular {
        /// The rule.
        rule: String,
        /// What is the matter with it.
        reason: String,
    },
    /// Under maximal munch a text may come to a dead end, or it was not found that it cannot.
    #[error(
        "rule `{rule}`: under maximal munch a text may not be completed behind `{terminal}`, for what may follow ({next}) may \
         go on with it or with what is read beside it: put a mark or white space between them, or read without maximal munch"
    )]
    #[non_exhaustive]
    MunchDeadEnd {
        /// The rule.
        rule: String,
        /// The terminal of the rule behind which it is.
        terminal: String,
        /// What may follow, in words.
        next: String,
    },
    /// Something that maximal munch is not defined for here.
    #[error(
        "{what}: that does not go with maximal munch; write it as a regular expression, or read without maximal munch"
    )]
    #[non_exhaustive]
    NoMunch {
        /// What it is.
        what: String,
    },
    /// To find out that a grammar has no dead ends under maximal munch takes too much work.
    #[error(
        "to check that maximal munch comes to no dead end takes more than {limit} steps: raise `GrammarLimits::munch_steps`, \
         or read without maximal munch"
    )]
    #[non_exhaustive]
    MunchTooCostly {
        /// The limit.
        limit: u64,
    },
    /// No text is a word of the grammar.
    #[error("the grammar accepts no text: {reason}")]
    #[non_exhaustive]
    Empty {
        /// Why.
        reason: String,
    },
    /// The grammar names a control token that the vocabulary does not have.
    #[error("the vocabulary has no control token `{name}`")]
    #[non_exhaustive]
    UnknownToken {
        /// The name.
        name: String,
    },
    /// Something may follow a control token that ends the sequence.
    #[error(
        "{}rule `{rule}`: {next} may follow `{name}`, which ends the sequence in this vocabulary, and nothing comes behind the end \
         of an output: put it last, or leave it out, for an output may end wherever the grammar does",
        place(*location)
    )]
    #[non_exhaustive]
    EndInside {
        /// The rule that names the token.
        rule: String,
        /// Where the text of the grammar defines the rule, if it comes from a text.
        location: Option<Location>,
        /// The control token.
        name: String,
        /// What may follow it, in words.
        next: String,
    },
    /// The grammar uses a byte that no token spells by itself, so that not every text can be written.
    #[error(
        "the grammar uses the byte {byte:#04x}, which no token of the vocabulary spells by itself: leave it out, or use a \
         vocabulary with all bytes"
    )]
    #[non_exhaustive]
    UnspelledByte {
        /// The byte.
        byte: u8,
    },
}

impl GrammarError {
    /// Where in the text of the grammar, for the errors that have a place there.
    pub fn location(&self) -> Option<Location> {
        match self {
            Self::Syntax(error) => Some(error.location),
            Self::Terminal { location, .. } | Self::EndInside { location, .. } => *location,
            Self::AutomataTooLarge { location, .. } => Some(*location),
            _ => None,
        }
    }
}

/// The place of a terminal, where its error has none of its own.
fn before(location: Option<Location>, source: &RegexError) -> String {
    place(location.filter(|_| source.place().is_none()))
}

/// A place in front of a message.
fn place(location: Option<Location>) -> String {
    location.map(|location| format!("{location}: ")).unwrap_or_default()
}
