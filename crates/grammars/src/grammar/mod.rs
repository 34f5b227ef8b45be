//! A context-free grammar as data, and the facts about it that are computed before it is used.
//!
//! Everything here works on the grammar alone. Nothing depends on a vocabulary, so the front ends, the
//! analysis and every constraint over the grammar share it.
//!
//! | file | contents |
//! |---|---|
//! | `data` | rules over terminals: [`Grammar`](crate::Grammar) |
//! | `builder`, `counted` | [`GrammarBuilder`](crate::GrammarBuilder), and its terminals of counted units |
//! | `choices` | which members of a group may be read together |
//! | `import` | a grammar as a part of another |
//! | `near` | the bytes that may stand beside a part |
//! | `fixpoint` | least fixpoints: productive and nullable expressions |
//! | `alike` | whether two grammars have the same rules |
//! | `calls`, `size` | the graph of calls, and sizes |
//! | `analysis` | useless rules, left recursion |
//! | `token_set` | sets of tokens by id and name: [`TokenSet`](crate::TokenSet) |
//! | `budget` | terminals with a budget of tokens, written out for a vocabulary |
//! | `regular` | a grammar without recursion as one automaton |
//! | `within` | a grammar with those texts of its terminals alone that a regular language has |

mod alike;
pub(crate) mod analysis;
pub(crate) mod budget;
pub(crate) mod builder;
mod calls;
pub(crate) mod choices;
mod counted;
pub(crate) mod data;
pub(crate) mod fixpoint;
pub(crate) mod import;
pub(crate) mod near;
pub(crate) mod regular;
mod reports;
pub(crate) mod size;
pub(crate) mod token_set;
pub(crate) mod within;
