//! The parser, and the places of sequences in a grammar.
//!
//! | file | contents |
//! |---|---|
//! | `returns` | sets of frames: the rules that are open, each once |
//! | `engine` | a general parser as an automaton over terminals, whose states are made when they are reached |
//! | `local` | what is left to do without what encloses it |
//! | `places` | the readings of a text that are still open |
//! | `portable` | places without the tables of a scratch: the state of a sequence |
//! | `untracked` | from the parser that tracks used texts to the one that does not |

pub(crate) mod engine;
pub(crate) mod local;
pub(crate) mod places;
pub(crate) mod portable;
pub(crate) mod returns;
pub(crate) mod untracked;
