//! Terminals with conditions on the text around them: look-ahead at the end of a terminal, look-behind at its
//! beginning.
//!
//! ```text
//! start: (IF | NAME | ASSIGN | EQUAL | " ")*
//! IF: /if\b/
//! ASSIGN: /=(?!=)/
//! ```
//!
//! # Meaning
//!
//! A condition of a terminal is a language of texts that may come before or after it, up to the beginning or the end
//! of the whole output. An output is in the language of the grammar if some reading of it fulfils the conditions of
//! all its terminals. Ignored text counts, and a control token has no text.
//!
//! # Method
//!
//! The result is a plain grammar again, so masks, trees and libraries need no support for it. It is the product of
//! the rules with an automaton over terminals ([`machine`]), as for the intersection of a context-free with a regular
//! language (Bar-Hillel, Perles and Shamir, 1961). A state has two parts:
//!
//! - **Pending** conditions on the text that follows, each as a state of its automaton. A byte steps them all. A
//!   condition that every text fulfils from there on is dropped, which most are after one character.
//! - A **promise** about the text before: for each condition on it, the states of its automaton that the text before
//!   may have led to. A promise is made by a terminal that is not yet there and follows from it backwards, so exactly
//!   one promise is right at each place.
//!
//! A part of a rule is written once for each state in which an output can enter it, and each set of states in which
//! it can leave it with the same rest ([`product`], [`parts`]). Where nothing is pending and nothing is promised, a
//! part without conditional terminals stays as it is, with all that it calls. A terminal that is read under a
//! condition is divided by the states after its texts.
//!
//! Tokens by their ids, and members in any order, have no automaton of their text here. A condition that reaches into
//! one is an error.
//!
//! Tried instead: to look at the next byte alone, in the hypotheses of the parser. It enforces `\b` and leaves dead
//! ends where no other byte may follow, and a mask would depend on what is pending in every hypothesis.

mod follow;
mod machine;
mod parts;
mod product;

use std::{collections::HashMap, sync::Arc};

use unskew_automata::Dfa;
use unskew_grammar::{ExprId, Grammar, GrammarError, GrammarLimits, Location, SyntaxError, SyntaxErrorKind};

use self::product::Product;

/// The whole texts that may come before and after a use of a terminal; `None` for any.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) before: Option<Arc<Dfa>>,
    pub(crate) after: Option<Arc<Dfa>>,
    /// The offset of the terminal in the text of the grammar.
    pub(crate) at: usize,
}

/// The uses of conditional terminals: their expressions.
pub(crate) type Looks = HashMap<ExprId, Condition>;

/// Why conditions cannot be carried through the rules.
enum Stop {
    TooCostly,
    /// The condition of the terminal at this offset reaches into a text without an automaton.
    Opaque(usize),
    Grammar(GrammarError),
}

impl From<GrammarError> for Stop {
    fn from(error: GrammarError) -> Self {
        Self::Grammar(error)
    }
}

/// The grammar of the outputs that fulfil all conditions.
///
/// # Errors
///
/// [`GrammarError::LooksTooCostly`], [`GrammarError::Empty`] if no output fulfils them, [`GrammarError::Syntax`] if a
/// condition reaches into a text without an automaton, and the limits of automata and nodes.
pub(crate) fn resolve(
    grammar: &Grammar,
    looks: &Looks,
    limits: &GrammarLimits,
    location: impl Fn(usize) -> Location,
) -> Result<Grammar, GrammarError> {
    let product = |shares| Product::new(grammar, looks, limits, shares).and_then(Product::grammar);
    // Sets of states are fewer than single ones in grammars that people write, and many more in some others.
    let made = match product(true) {
        Err(Stop::TooCostly | Stop::Grammar(GrammarError::TooManyNodes { .. })) => product(false),
        made => made,
    };
    made.map_err(|stop| match stop {
        Stop::TooCostly => GrammarError::LooksTooCostly { limit: limits.positions },
        Stop::Opaque(at) => {
            let construct =
                "look-around that reaches into a token by its id, or into a schema or another grammar,"
                    .to_owned();
            let way_out = "put a text between the two, such as a bracket";
            let kind = SyntaxErrorKind::Unsupported { construct, way_out };
            SyntaxError { kind, location: location(at) }.into()
        }
        Stop::Grammar(error) => error,
    })
}
