//! Rules and terminals as automata: the network that the parser walks.
//!
//! | file | contents |
//! |---|---|
//! | `terminals` | terminals as the scanner reads them, and the classes of bytes that none of them tells apart |
//! | `rules` | the automaton of each rule |
//! | `unordered` | groups whose members come in any order, with positions that are made when they are reached |
//! | `end_tokens` | control tokens that end the sequence, which nothing may follow |

pub(crate) mod end_tokens;
pub(crate) mod rules;
pub(crate) mod terminals;
pub(crate) mod unordered;
