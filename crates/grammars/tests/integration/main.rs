//! One program for the tests of this crate, so that they are linked once. Tests that measure the heap of the
//! process are programs of their own next to this folder.

mod abnf;
mod ambiguous;
mod analysis;
mod bad_grammars;
mod budgets;
mod captures;
mod common;
mod contexts;
mod corpus;
mod deep;
mod distinct;
mod end_tokens;
mod formats;
mod imports;
mod lark_files;
mod layout;
mod lazy;
mod lazy_verdicts;
mod looks;
mod membership;
mod munch;
mod nested;
mod one_of;
mod oracle_itself;
mod parameters;
mod random;
mod texts;
mod token_sets;
mod touching;
mod w3c;
mod work;
mod xgrammar;
