//! Texts that may not come twice: names of an object, items of an array without repetitions.
//!
//! | file | contents |
//! |---|---|
//! | `distinct` | terminals of such texts, and the sets of those that were used |
//! | `versions` | maps of which every version stays |
//! | `used_ways` | what used texts do to the beginnings of others |
//! | `ends` | where such texts end: the next byte must say so |

pub(crate) mod distinct;
pub(crate) mod ends;
pub(crate) mod used_ways;
pub(crate) mod versions;
