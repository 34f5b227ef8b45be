//! Patterns of ECMA-262, the syntax of `pattern` and `patternProperties`: the languages of texts in which they match.
//!
//! Patterns are read by the reader of all dialects, in `unskew_automata`. Tried instead: a reader of this crate and an
//! automaton for each part that looks around, from the end of the pattern to its beginning. It had no look-behind,
//! and no look-around in repetitions.

use unskew_automata::{Bounded, Counted, Dialect, Limits, RegexError};

use super::languages::{Language, Languages};

/// A construct that is not supported, with a way out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UnsupportedConstruct {
    pub(crate) construct: String,
    pub(crate) way_out: &'static str,
}

impl UnsupportedConstruct {
    /// The construct for which `pattern` is refused, or the limit.
    fn of(pattern: &str, error: RegexError) -> Result<Self, RegexError> {
        match error {
            RegexError::Unsupported { construct, place, .. } => {
                let text = pattern.get(place.span).unwrap_or_default();
                Ok(Self { construct: format!("{construct} (`{text}`)"), way_out: construct.advice() })
            }
            RegexError::Syntax { message, .. } => {
                let fault = message.split_once(": ").map_or(&*message, |(fault, _)| fault);
                Ok(Self { construct: fault.to_owned(), way_out: "write a pattern of ECMA-262" })
            }
            error => Err(error),
        }
    }
}

/// The reason why `pattern` is no pattern of ECMA-262, if it is none.
pub(crate) fn broken(pattern: &str) -> Option<UnsupportedConstruct> {
    match Dialect::Ecma.pattern(pattern).counted(&Limits::default()) {
        Err(error @ RegexError::Syntax { .. }) => UnsupportedConstruct::of(pattern, error).ok(),
        _ => None,
    }
}

/// The class and the numbers of a pattern `^[class]{min,max}$`.
pub(crate) fn counted(pattern: &str) -> Option<Counted> {
    Dialect::Ecma.pattern(pattern).counted(&Limits::default()).ok().flatten()
}

/// The length that a look-ahead at the beginning of a pattern asks for, and its rest.
pub(crate) fn bounded(pattern: &str) -> Option<Bounded> {
    Dialect::Ecma.pattern(pattern).bounded(&Limits::default()).ok().flatten()
}

impl Languages {
    /// The texts in which `pattern`, a pattern of ECMA-262, has a match; or the construct that is not supported.
    pub(crate) fn search(
        &mut self,
        pattern: &str,
    ) -> Result<Result<Language, UnsupportedConstruct>, RegexError> {
        if let Some(known) = self.searches.get(pattern) {
            return Ok(known.clone());
        }
        let made = match self.made(|builder| builder.search(Dialect::Ecma.pattern(pattern))) {
            Ok(language) => Ok(language),
            Err(error) => Err(UnsupportedConstruct::of(pattern, error)?),
        };
        self.searches.insert(pattern.to_owned(), made.clone());
        Ok(made)
    }
}
