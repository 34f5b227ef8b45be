//! Patterns with look-around and lazy repetitions, as automata.
//!
//! # Meaning
//!
//! A pattern matches a part of a text, from one position to another. A look-around is a condition on the whole text
//! before or after its position, so it may be about text outside of the part. Two questions have exact answers:
//!
//! - [`DfaAlgebra::whole`](crate::dfa::DfaAlgebra::whole): the texts that the pattern matches from the beginning to the
//!   end, with nothing before or after them. A lazy repetition changes nothing here, as in Python's `re.fullmatch`.
//! - [`DfaAlgebra::in_context`](crate::dfa::DfaAlgebra::in_context): the texts of the pattern together with the
//!   conditions on the text before and after. Here [`Reading::First`] takes the match that an engine with
//!   backtracking finds first, as Python's `re.match` does: a text is in the language if an engine that is given no
//!   more than this text to read takes all of it. Alternatives count in their order and repetitions by their greed;
//!   so `".*?"` ends at the first quote, and `a|ab` has only the text `a`. [`Reading::Any`] takes every match.
//!
//! `\b` and the other anchors are look-arounds: `^` is `(?<!` any byte `)`, and `\b` is a word character on one side
//! alone.
//!
//! # Method
//!
//! A machine ([`machine`]) reads the text once, from left to right. It assumes an answer for each look-ahead that is
//! asked for, and carries the assumption as a claim about the text to come. Sets of its configurations are the states
//! of a deterministic automaton. The claims that are left where the pattern ends are a condition on the text after:
//! the machine goes on without the pattern and gives its automaton. Look-behind is deterministic: one set of states
//! has all answers. The possible sets at the beginning of the pattern divide the texts before; those with the same
//! result are joined.
//!
//! Order is kept as in a Pike VM: a configuration has the states of the pattern as a list, and the end of the pattern
//! cuts off all that comes later.
//!
//! Tried instead: languages of continuations, from the end of the pattern to its beginning, with an intersection for
//! each look-ahead (patterns of JSON Schema were made so). A repetition that contains a look-ahead would be a
//! fixpoint of languages, so it was unrolled up to eight rounds, and look-behind and order had no place.
//!
//! | file | contents |
//! |---|---|
//! | `tree` | patterns as a list of nodes, read from texts or put together: [`Patterns`] |
//! | `alphabet` | what the machine reads in a step: bytes, or characters by their atoms |
//! | `program` | a pattern as an NFA that asks |
//! | `machine` | configurations, and their steps |
//! | `texts` | the deterministic automata |

mod alphabet;
mod machine;
mod program;
mod texts;
mod tree;

pub use texts::{InContext, Reading};
pub use tree::{LookAround, PatternId, Patterns};
