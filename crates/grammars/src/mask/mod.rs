//! Masks: the union of the tokens of all paths through subterminal trees that the parser can take.
//!
//! | file | contents |
//! |---|---|
//! | `builder` | from a configuration to a mask |
//! | `paths` | nodes of trees, opened as far as the parser follows |
//! | `fusion` | terminals that overlap become one automaton |
//! | `fragments` | fragments of masks that are the same in every context |
//! | `shared_fragments` | fragments for the next scratch of the same grammar |
//! | `grammar_trees` | a library of trees, as one grammar uses it |
//! | `walks` | walks over the vocabulary through configurations |
//! | `union` | a mask as a union of shared sets and single tokens |
//! | `repeats` | the tokens that would repeat a used key |

pub(crate) mod builder;
pub(crate) mod fragments;
pub(crate) mod fusion;
pub(crate) mod grammar_trees;
pub(crate) mod paths;
pub(crate) mod repeats;
pub(crate) mod shared_fragments;
pub(crate) mod union;
pub(crate) mod walks;
