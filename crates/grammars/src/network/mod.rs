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
//! | `end_tokens` | control tokens that end the sequence, which nothing may follow |

mod automaton;
pub(crate) mod end_tokens;
pub(crate) mod last_bytes;
pub(crate) mod rules;
pub(crate) mod terminals;
pub(crate) mod unordered;
pub(crate) mod written;
