//! A schema as a document: the values of its text, its draft, and the targets of its references.
//!
//! | file | contents |
//! |---|---|
//! | `json` | JSON text as a flat document, with exact numbers |
//! | `dialect` | the keywords of a draft, or of a metaschema |
//! | `metaschema` | the values that each keyword may have |
//! | `roles` | the positions of a text at which schemas are |
//! | `registry` | schemas that others may refer to, by their URI |
//! | `literal` | a schema or its negation |
//! | `copies` | copies of a document, for dynamic references |
//! | `equal` | schemas that occur several times |
//! | `schemas` | a document as schemas, with its references |
//! | `in_place` | references in a circle for the same value |
//! | `dynamic` | dynamic references, which depend on the referring schema |
//! | `wrapper` | objects around a schema, such as a tool |
//! | `loader` | reads a schema and the documents that it refers to |

mod copies;
pub(crate) mod dialect;
mod dynamic;
mod equal;
mod in_place;
pub(crate) mod json;
pub(crate) mod literal;
mod loader;
pub(crate) mod metaschema;
pub(crate) mod registry;
pub(crate) mod roles;
pub(crate) mod schemas;
mod wrapper;
