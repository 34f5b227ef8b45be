//! A grammar as a text in GBNF, which llama.cpp reads, and with it every program that embeds llama.cpp.
//!
//! | file | contents |
//! |---|---|
//! | `forms` | rules over texts, classes of characters and other rules, each kept once |
//! | `automata` | the texts of an automaton as forms |
//! | `members` | members in any order as rules |
//! | `translate` | a grammar as forms, and what is lost on the way |
//! | `recursion` | forms without left recursion and without empty repetitions |
//! | `shorten` | rules in the place of their calls, and common beginnings of alternatives |
//! | `text` | forms as a text |
//!
//! The text describes the same outputs, or some more: each [`Loosening`] says where and why. What llama.cpp does with
//! a text decides its form:
//!
//! - It keeps one stack for each way to read an output, and looks at each token of the vocabulary once for each. So
//!   automata are written as they are, state by state, and alternatives have no common beginning.
//! - A call at the end of a rule leaves nothing on the stack. So repetition is a rule that calls itself last.
//! - It refuses left recursion and names with other characters than letters, digits and `-`.
//! - A bound above 2,000 is no bound there, without a word, and the bounds of a group multiply. So a repeated group
//!   is a rule of its own, and greater bounds are products.
//! - A token that ends inside a character is refused before `[^…]` if some character that it may become is among the
//!   excluded ones. So a class excludes nothing beyond ASCII.

mod automata;
mod forms;
mod members;
mod recursion;
mod shorten;
mod text;
mod translate;

use std::fmt;

use unskew_automata::Limits;
use unskew_grammar::{Grammar, GrammarError};

use self::translate::{Effort, Translation};

/// How a grammar is written in GBNF.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GbnfOptions {
    /// The greatest length of the text, in bytes. A grammar that is longer is loosened, where that makes it shorter.
    /// Default: 200,000.
    pub max_bytes: usize,
    /// The limits of the automata on the way.
    pub limits: Limits,
}

impl Default for GbnfOptions {
    fn default() -> Self {
        Self { max_bytes: 200_000, limits: Limits::default() }
    }
}

/// A grammar in GBNF.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Gbnf {
    /// The text. The start rule is `root`.
    pub text: String,
    /// The places where the text allows more than the grammar; none: both have the same outputs.
    pub loosened: Vec<Loosening>,
}

/// A place at which a text in GBNF allows more than its grammar.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Loosening {
    /// What is not enforced there.
    pub kind: LooseningKind,
    /// The rule, or the schema as a JSON pointer.
    pub place: String,
}

/// What a text in GBNF does not enforce.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum LooseningKind {
    /// Names of undeclared members, or items of `uniqueItems`, may repeat.
    Repeats,
    /// Undeclared members may have the names of declared ones: the text would be too long.
    Exclusions,
    /// A text with another condition may be longer: the text of the grammar would be too long.
    Lengths,
    /// Members in any order may repeat or be missing, and conditions between them are not enforced.
    Members,
    /// Texts may take more tokens than their budget.
    Tokens,
    /// All token sequences of a text are allowed.
    Canonical,
    /// Captures are not reported.
    Captures,
    /// Temperatures are not applied.
    Temperatures,
}

impl LooseningKind {
    /// One word for the kind.
    pub fn word(self) -> &'static str {
        match self {
            Self::Repeats => "repeats",
            Self::Exclusions => "exclusions",
            Self::Lengths => "lengths",
            Self::Members => "members",
            Self::Tokens => "tokens",
            Self::Canonical => "canonical",
            Self::Captures => "captures",
            Self::Temperatures => "temperatures",
        }
    }

    /// What is not enforced, and why.
    pub fn why(self) -> &'static str {
        match self {
            Self::Repeats => "texts that may not repeat may repeat: GBNF does not remember them",
            Self::Exclusions => {
                "other members may have the names of declared ones: the text would be too long"
            }
            Self::Lengths => {
                "a text may be longer than its bound beside another condition: the text would be too long"
            }
            Self::Members => "members in any order may repeat or be missing: there are too many orders",
            Self::Tokens => "a text may take more tokens than its budget: GBNF does not count tokens",
            Self::Canonical => "all token sequences of a text are allowed: GBNF describes texts",
            Self::Captures => "captures are not reported: GBNF has none",
            Self::Temperatures => "temperatures are not applied: GBNF has none",
        }
    }
}

impl Loosening {
    /// A loosening of `kind` at a rule or a schema.
    pub fn new(kind: LooseningKind, place: impl Into<String>) -> Self {
        Self { kind, place: place.into() }
    }
}

impl fmt::Display for Loosening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.kind.why())
    }
}

/// `grammar` in GBNF, which llama.cpp reads. The text has the outputs of the grammar, and those of each
/// [`Loosening`].
///
/// A token by its name or id is written as llama.cpp writes it. One that ends sequences in a model is never read
/// there, because outputs end where the grammar does: leave it out.
///
/// Cost: O(n) for the size of the text, four times at most, and the automata of terminals that leave out texts.
///
/// # Example
///
/// ```
/// use unskew_grammar::GrammarLimits;
/// use unskew_notation::{GbnfOptions, GrammarOptions, from_lark, to_gbnf};
///
/// let lark = "start: start \"+\" NUMBER | NUMBER\nNUMBER: /[0-9]{1,3}/";
/// let grammar = from_lark(lark, &GrammarOptions::default(), &GrammarLimits::default())?;
/// let gbnf = to_gbnf(&grammar, &GbnfOptions::default())?;
/// assert_eq!(gbnf.text, "root ::= [0-9]{1,3} (\"+\" [0-9]{1,3})*\n");
/// assert!(gbnf.loosened.is_empty());
/// # Ok::<(), unskew_grammar::GrammarError>(())
/// ```
///
/// # Errors
///
/// [`GrammarError::NotInGbnf`] for a terminal whose texts are not UTF-8, or which is a set of tokens that GBNF does
/// not describe; [`GrammarError::GbnfTooLarge`]; [`GrammarError::Empty`] for a grammar without a text; and
/// [`GrammarError::Terminal`] for a limit on automata.
pub fn to_gbnf(grammar: &Grammar, options: &GbnfOptions) -> Result<Gbnf, GrammarError> {
    let too_large = GrammarError::GbnfTooLarge { limit: options.max_bytes };
    // Each form that is read takes a byte, and several are made on the way to it.
    let most = options.max_bytes.saturating_mul(4).saturating_add(1 << 16);
    for effort in Effort::EACH {
        let mut made = Translation::new(effort, &options.limits, most);
        let start = match made.grammar(grammar) {
            Err(GrammarError::GbnfTooLarge { .. }) => continue,
            start => start?,
        };
        made.forms.without_left_recursion(start);
        let Translation { mut forms, mut names, loosened, .. } = made;
        forms.shorten(start, &mut names);
        if let Some(text) = forms.printed(start, &names, options.max_bytes) {
            return Ok(Gbnf { text, loosened });
        }
    }
    Err(too_large)
}
