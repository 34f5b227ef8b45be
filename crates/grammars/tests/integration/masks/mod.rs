//! Masks of grammars against the oracle, and the work of computing them.

mod ambiguous;
mod analysis;
mod contexts;
mod corpus;
mod deep;
mod dense;
mod membership;
mod oracle_itself;
pub(crate) mod random;
mod touching;
mod work;
