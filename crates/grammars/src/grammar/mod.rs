//! A context-free grammar as data, and what can be said of it before it is used.
//!
//! | file | contents |
//! |---|---|
//! | `data` | rules over terminals, as the front ends leave them: [`Grammar`](crate::Grammar) and its builder |
//! | `import` | a grammar as a part of another |
//! | `fixpoint` | least fixpoints: the expressions that are nullable, and those that can be completed |
//! | `analysis` | rules that do nothing, left recursion, sizes |
//! | `regular` | a grammar without recursion as one automaton |

pub(crate) mod analysis;
pub(crate) mod data;
pub(crate) mod fixpoint;
pub(crate) mod import;
pub(crate) mod regular;
