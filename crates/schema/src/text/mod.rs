//! The texts of values as automata: strings, numbers, patterns and formats.
//!
//! | file | contents |
//! |---|---|
//! | `characters` | an automaton over text, read by characters |
//! | `string` | from an automaton over text to one over its spellings as a string of JSON |
//! | `number` | bounds, multiples and equality over decimal digits |
//! | `pattern`, `look` | patterns of ECMA-262, and those that look ahead |
//! | `format` | formats of strings |
//! | `standard` | the automata that nearly every schema needs, made once in a process |
//! | `languages` | the automata of one schema, made once each and counted together |
//! | `enumerated` | the texts of an automaton that has few |

pub(crate) mod characters;
pub(crate) mod enumerated;
pub(crate) mod format;
pub(crate) mod languages;
pub(crate) mod look;
pub(crate) mod number;
pub(crate) mod pattern;
pub(crate) mod standard;
pub(crate) mod string;
