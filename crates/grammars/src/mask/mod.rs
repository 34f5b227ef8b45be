//! Masks: the union of the tokens of all paths through subterminal trees that the parser can take.
//!
//! | file | contents |
//! |---|---|
//! | `maker` | from the places of a sequence to a mask |
//! | `paths` | nodes of trees, opened as far as the parser follows |
//! | `contexts` | parts of masks that are the same in every context |
//! | `pieces` | a mask in pieces: sets that lie ready, and single tokens |
//! | `tracked` | what a mask has too much where texts may not come twice |
//! | `shared` | parts of masks for the next scratch of the same grammar |

pub(crate) mod contexts;
pub(crate) mod maker;
pub(crate) mod paths;
pub(crate) mod pieces;
pub(crate) mod shared;
pub(crate) mod tracked;
