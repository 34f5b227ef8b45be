//! Parts that several tests share: oracles, grammars, and vocabularies.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod corpus;
pub(crate) mod enumeration;
pub(crate) mod lazy;
pub(crate) mod oracle;
pub(crate) mod published;
pub(crate) mod random;
pub(crate) mod texts;
pub(crate) mod vocabularies;

/// JSON with white space between parts, in Lark.
pub(crate) const JSON: &str = r##"
start: value
value: object | array | STRING | NUMBER | "true" | "false" | "null"
object: "{" [member ("," member)*] "}"
member: STRING ":" value
array: "[" [value ("," value)*] "]"
STRING: /"([^"\\\x00-\x1F]|\\["\\\/bfnrt]|\\u[0-9a-fA-F]{4})*"/
NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/
WS: /[ \t\n\r]+/
%ignore WS
"##;
