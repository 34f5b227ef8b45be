//! Keys: texts that must not repeat in a scope, as the names of an object or the items of an array without repetitions.
//!
//! | file | contents |
//! |---|---|
//! | `keys` | keys, their prefixes, and sets of used keys |
//! | `persistent_map` | maps that keep every version |
//! | `key_effects` | the effects of used keys on the prefixes of others |
//! | `follow_check` | the check that the byte after a key shows its end |

pub(crate) mod follow_check;
pub(crate) mod key_effects;
pub(crate) mod keys;
pub(crate) mod persistent_map;
