//! The automata that nearly every schema needs, built once in a process: any text, any number, and the spellings of
//! strings.
//!
//! That saves time, and schemas that share an automaton share its subterminal trees. Other automata belong to their
//! schema and are not kept here.

use std::sync::{Arc, OnceLock};

use unskew_automata::{Dfa, RegexError, dfa::DfaAlgebra};

use super::{number, string};
use crate::{SchemaLimits, Whitespace};

/// Any text.
pub(crate) const TEXT: &str = "(?s:.)*";

/// One character.
const CHARACTER: &str = "(?s:.)";

/// An automaton that is built at its first use and kept.
#[derive(Debug)]
struct Shared(OnceLock<Arc<Dfa>>);

impl Shared {
    const fn new() -> Self {
        Self(OnceLock::new())
    }

    fn get(&self, make: impl FnOnce() -> Result<Dfa, RegexError>) -> Result<Arc<Dfa>, RegexError> {
        match self.0.get() {
            Some(known) => Ok(Arc::clone(known)),
            None => {
                let made = Arc::new(make()?);
                Ok(Arc::clone(self.0.get_or_init(|| made)))
            }
        }
    }
}

fn builder() -> DfaAlgebra {
    // The limits are the defaults and not those of a caller. These automata have some twenty states and never reach
    // a limit.
    DfaAlgebra::new(&SchemaLimits::default().automata)
}

/// The language of `pattern`, if it is one of the kept patterns.
pub(crate) fn pattern(pattern: &str) -> Option<Result<Arc<Dfa>, RegexError>> {
    const PATTERNS: [&str; 9] = [
        TEXT,
        CHARACTER,
        "",
        number::ANY,
        number::PLAIN,
        number::WHOLE,
        number::WHOLE_WITHOUT_POINT,
        number::INTEGER,
        number::WITHOUT_NEGATIVE_ZERO,
    ];
    static SHARED: [Shared; 9] = [const { Shared::new() }; 9];
    let at = PATTERNS.iter().position(|known| *known == pattern)?;
    Some(SHARED[at].get(|| builder().pattern(pattern)))
}

/// Whether `dfa` is the automaton of any text, or of any number, from [`pattern`]. A language never mixes texts and
/// numbers.
pub(crate) fn is_all(dfa: &Arc<Dfa>) -> bool {
    let is = |all: &str| pattern(all).and_then(Result::ok).is_some_and(|all| Arc::ptr_eq(&all, dfa));
    is(TEXT) || is(number::ANY)
}

/// The white space of one place, if it is of a kind that is kept.
pub(crate) fn space(whitespace: Whitespace) -> Option<Result<Arc<Dfa>, RegexError>> {
    static SHARED: [Shared; 3] = [const { Shared::new() }; 3];
    let kept = [Whitespace::Flexible, Whitespace::Printed, Whitespace::default()];
    let at = kept.iter().position(|known| *known == whitespace)?;
    let pattern = whitespace.pattern()?;
    Some(SHARED[at].get(|| builder().pattern(&pattern)))
}

/// The JSON strings of `texts`, if `texts` is the automaton of any text from [`pattern`].
pub(crate) fn strings(texts: &Arc<Dfa>, ascii: bool) -> Option<Result<Arc<Dfa>, RegexError>> {
    static SHARED: [Shared; 2] = [const { Shared::new() }; 2];
    let all = pattern(TEXT)?;
    let is_all = all.is_ok_and(|all| Arc::ptr_eq(&all, texts));
    let make = || string::spelled(texts, true, ascii, &SchemaLimits::default().automata);
    is_all.then(|| SHARED[usize::from(ascii)].get(make))
}

/// The spellings of one character inside a string.
///
/// # Errors
///
/// None in practice: no limit is reached.
pub(crate) fn character(ascii: bool) -> Result<Arc<Dfa>, RegexError> {
    static SHARED: [Shared; 2] = [const { Shared::new() }; 2];
    SHARED[usize::from(ascii)].get(|| {
        let any = builder().pattern(CHARACTER)?;
        string::spelled(&any, false, ascii, &SchemaLimits::default().automata)
    })
}

/// All JSON strings in the spelling of [`string::to_json`]: each text has exactly one.
///
/// # Errors
///
/// None in practice: no limit is reached.
pub(crate) fn spelled_once(ascii: bool) -> Result<Arc<Dfa>, RegexError> {
    /// `PLAIN` is raw ASCII characters, short escapes, and other control characters. `RAW` and `ESCAPED` are the
    /// characters beyond ASCII.
    const PLAIN: &str = r#"[ !#-\[\]-\x7f]|\\["\\bfnrt]|\\u00(0[0-7be-f]|1[0-9a-f])"#;
    const RAW: &str = r"[^\x00-\x7f]";
    const ESCAPED: &str = r"\\u(00[89a-f][0-9a-f]|0[1-9a-f][0-9a-f]{2}|[1-9a-cef][0-9a-f]{3}|d[0-7][0-9a-f]{2}|d[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})";
    static SHARED: [Shared; 2] = [const { Shared::new() }; 2];
    let beyond = if ascii { ESCAPED } else { RAW };
    SHARED[usize::from(ascii)].get(|| builder().pattern(&format!("\"({PLAIN}|{beyond})*\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_written_in_one_way() {
        let mut texts: Vec<String> = (0..0x250u32)
            .chain([0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10_ffff])
            .map(|point| char::from_u32(point).unwrap().to_string())
            .collect();
        texts.extend(["".to_owned(), "a \"b\\/".to_owned(), "é😀\u{7f}\n".to_owned()]);
        for ascii in [false, true] {
            let written = spelled_once(ascii).unwrap();
            for text in &texts {
                let one = string::to_json(text, ascii);
                assert!(written.accepts(one.as_bytes()), "{one}");
                // This spelling is the only one of the text in `written`.
                let mut builder = builder();
                let text = builder
                    .literals([text.as_bytes()].into_iter().filter(|text| !text.is_empty()))
                    .or_else(|_| builder.pattern(""))
                    .unwrap();
                let all = string::spelled(&text, true, ascii, &SchemaLimits::default().automata).unwrap();
                let common = builder.intersection(&all, &written).unwrap();
                assert_eq!(common, builder.literals([one.as_bytes()]).unwrap(), "{one}");
            }
        }
        let names = spelled_once(false).unwrap();
        for (text, accepted) in [
            (r#""""#, true),
            (r#""a b~""#, true),
            (r#""\"\\""#, true),
            (r#""/""#, true),
            (r#""\/""#, false),
            (r#""\u0061""#, false),
            (r#""é\n😀\u000b""#, true),
            (r#""\u00e9""#, false),
            (r#""\u000a""#, false),
            (r#""\u000B""#, false),
            (r#""\ud83d\ude00""#, false),
            (r#""\ud83d""#, false),
            ("\"\n\"", false),
            (r#"""""#, false),
        ] {
            assert_eq!(names.accepts(text.as_bytes()), accepted, "{text}");
        }
    }
}
