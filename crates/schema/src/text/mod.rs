//! The texts of values as automata: strings, numbers, patterns and formats.
//!
//! | file | contents |
//! |---|---|
//! | `composed` | objects whose members come in one order |
//! | `run` | languages of a number of characters of one class |
//! | `string` | lifts an automaton over text to its spellings as a JSON string |
//! | `number` | bounds, multiples and equality over decimal digits |
//! | `pattern` | patterns of ECMA-262 |
//! | `format` | formats of strings |
//! | `standard` | the automata that nearly every schema needs, built once in a process |
//! | `languages` | the automata of one schema, built once each and counted together |
//! | `enumerated` | the number, the lengths and the list of the texts of a finite automaton |

pub(crate) mod composed;
pub(crate) mod enumerated;
pub(crate) mod format;
pub(crate) mod languages;
pub(crate) mod number;
pub(crate) mod pattern;
pub(crate) mod run;
pub(crate) mod standard;
pub(crate) mod string;
