//! A schema as a document: what stands where, in which draft, and what its references mean.
//!
//! | file | contents |
//! |---|---|
//! | `json` | JSON text as a flat document, with exact numbers |
//! | `dialect` | the keywords of a draft, or of a metaschema |
//! | `metaschema` | the values that each keyword may have |
//! | `places` | where in a text schemas stand |
//! | `registry` | schemas that others may refer to, by their URI |
//! | `schemas` | a document as schemas, with its references |
//! | `dynamic` | dynamic references, which depend on who refers |

pub(crate) mod dialect;
pub(crate) mod dynamic;
pub(crate) mod json;
pub(crate) mod metaschema;
pub(crate) mod places;
pub(crate) mod registry;
pub(crate) mod schemas;
