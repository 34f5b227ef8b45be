//! What the tests share: oracles of grammars, grammars, and vocabularies.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod corpus;
pub(crate) mod enumeration;
pub(crate) mod munch;
pub(crate) mod oracle;
pub(crate) mod random;
pub(crate) mod vocabularies;
