//! Rules as automata over terminals and rules: the network that the parser walks.
//!
//! | file | contents |
//! |---|---|
//! | `rules` | the automaton of each rule |
//! | `unordered` | groups whose members come in any order, with positions that are made when they are reached |

pub(crate) mod rules;
pub(crate) mod unordered;
