//! The parser, and the places of sequences in a grammar.
//!
//! | file | contents |
//! |---|---|
//! | `ids` | numbers of things that are kept once |
//! | `returns` | sets of frames: the rules that are open, each once |
//! | `engine` | a general parser as an automaton over terminals, whose states are made when they are reached |
//! | `local` | what is left to do without what encloses it |
//! | `places` | the readings of a text that are still open |
//! | `portable` | places without the tables of a scratch: the state of a sequence |

pub(crate) mod engine;
pub(crate) mod ids;
pub(crate) mod local;
pub(crate) mod places;
pub(crate) mod portable;
pub(crate) mod returns;
