//! A schema as a document: the values of its text, its draft, and the targets of its references.
//!
//! | file | contents |
//! |---|---|
//! | `json` | JSON text as a flat document, with exact numbers |
//! | `dialect` | the keywords of a draft, or of a metaschema |
//! | `metaschema` | the values that each keyword may have |
//! | `places` | the positions of a text at which schemas are |
//! | `registry` | schemas that others may refer to, by their URI |
//! | `schemas` | a document as schemas, with its references |
//! | `dynamic` | dynamic references, which depend on the referring schema |

pub(crate) mod dialect;
pub(crate) mod dynamic;
pub(crate) mod json;
pub(crate) mod metaschema;
pub(crate) mod places;
pub(crate) mod registry;
pub(crate) mod schemas;
