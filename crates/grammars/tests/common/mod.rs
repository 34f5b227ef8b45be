//! What the tests share: the oracle of grammars, and what it is compared with.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod enumeration;
pub(crate) mod oracle;
pub(crate) mod random;
