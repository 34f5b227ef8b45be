//! Emits shapes as rules of a grammar.
//!
//! | file | contents |
//! |---|---|
//! | `emitter` | the state of a grammar under construction: a rule for each set of schemas |
//! | `layout` | white space, separators and brackets |
//! | `values` | the rules of values by type: strings, numbers, constants |
//! | `objects` | the rules of objects |
//! | `factored` | objects with independent choices about their members |
//! | `names` | members with names that the schema does not list |
//! | `members` | the ways to write a member, and the witnesses that it then serves as |
//! | `chain` | the states of an object with counted members or witnesses |
//! | `arrays` | the rules of arrays |
//! | `elements` | members and items as elements, and the texts of strings in them |
//! | `distinct_items` | `uniqueItems` |
//! | `one_text` | values with one text each, which `uniqueItems` compares |
//!
//! The rule of a value needs the rules of its parts. [`Emitter::rule`](emitter::Emitter::rule) only puts them on a
//! work list, so nothing recurses.

mod arrays;
mod chain;
mod distinct_items;
mod elements;
pub(crate) mod emitter;
mod factored;
mod layout;
mod members;
mod names;
mod objects;
mod one_text;
mod values;
