//! Grammars as text: each notation, its errors, and grammars in grammars.

mod abnf;
mod bnf;
mod formats;
mod imports;
mod lark_files;
mod lark_reading;
mod nested;
mod published;
mod texts;
mod to_gbnf;
mod w3c;
mod xgrammar;
