//! Subterminal trees (DOMINO): which tokens read which sequence of terminals, found once for a vocabulary.
//!
//! | file | contents |
//! |---|---|
//! | `nodes` | the trees and their library: [`TreeLibrary`](crate::TreeLibrary) |
//! | `remainders` | what is left of tokens that leave a path of terminals, as tries |
//! | `wide` | roots in states that refuse little |
//! | `joined` | terminals that flow into each other, as one automaton |
//! | `bodies` | trees of counted units |
//! | `holding` | the tokens that hold a text which may not come twice |
//! | `kept` | the entries of a library, within a limit in bytes |

pub(crate) mod bodies;
pub(crate) mod holding;
pub(crate) mod joined;
pub(crate) mod kept;
pub(crate) mod nodes;
pub(crate) mod remainders;
pub(crate) mod wide;
