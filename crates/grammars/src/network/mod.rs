//! Rules and terminals as automata: the network that the parser walks.
//!
//! | file | contents |
//! |---|---|
//! | `terminals` | terminals as the scanner reads them, and the classes of bytes that none of them distinguishes |
//! | `automaton` | the automaton of a rule |
//! | `rules` | the automata of all rules, as tables |
//! | `unordered` | groups with members in any order, whose positions are created when they are reached |
//! | `last_bytes` | the bytes with which outputs end |
//! | `written` | a grammar without what a vocabulary cannot write |
//! | `token_sets` | sets of tokens over the vocabulary |
//! | `extending`, `safe` | the bytes that may continue a text of a terminal, and those with which it comes to no dead end |
//! | `end_tokens` | control tokens that end the sequence, which nothing may follow |

mod automaton;
pub(crate) mod end_tokens;
pub(crate) mod extending;
pub(crate) mod last_bytes;
pub(crate) mod rules;
pub(crate) mod safe;
pub(crate) mod terminals;
pub(crate) mod token_sets;
pub(crate) mod unordered;
pub(crate) mod written;
