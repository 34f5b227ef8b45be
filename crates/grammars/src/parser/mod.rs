//! The parser, and the configurations of sequences in a grammar.
//!
//! | file | contents |
//! |---|---|
//! | `continuations` | sets of frames: the open rules, each set once |
//! | `states` | a general parser as an automaton over terminals; its states are created when they are reached |
//! | `prediction` | the terminals that follow a parser state, and the continuations of the rules that are called |
//! | `truncation` | parser states without the continuations that enclose them |
//! | `hypotheses` | how a text may be cut into terminals, and how a byte is read |
//! | `tracking` | hypotheses of keys, where used keys are tracked |
//! | `configurations` | sets of hypotheses, each with an id |
//! | `meter` | the work of one mask or token, in steps |
//! | `snapshot` | configurations without the tables of a scratch: the state of a sequence |
//! | `state_keys` | hashes of snapshots |
//! | `erasure` | from the parser that tracks keys to the parser that does not |

pub(crate) mod configurations;
pub(crate) mod continuations;
pub(crate) mod erasure;
pub(crate) mod hypotheses;
pub(crate) mod meter;
mod prediction;
pub(crate) mod snapshot;
mod state_keys;
pub(crate) mod states;
mod tracking;
pub(crate) mod truncation;
