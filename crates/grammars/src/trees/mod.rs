//! Subterminal trees (DOMINO): which tokens read which sequence of terminals, found once for a vocabulary.
//!
//! | file | contents |
//! |---|---|
//! | `nodes` | the nodes of the trees |
//! | `library` | the trees of a vocabulary: [`TreeLibrary`](crate::TreeLibrary) |
//! | `suffixes` | suffix tries of the tokens that leave a path of terminals |
//! | `permissive` | roots in states that refuse few bytes |
//! | `fused` | concatenated terminals, as one automaton |
//! | `by_count` | trees of counted units |
//! | `points` | points of paths through trees |
//! | `fragments` | fragments of masks, as a library keeps them |
//! | `key_tokens` | the tokens that contain a key |
//! | `cache` | the entries of a library, within a limit in bytes |

pub(crate) mod by_count;
pub(crate) mod cache;
pub(crate) mod fragments;
pub(crate) mod fused;
pub(crate) mod key_tokens;
pub(crate) mod library;
pub(crate) mod nodes;
pub(crate) mod permissive;
pub(crate) mod points;
pub(crate) mod suffixes;
