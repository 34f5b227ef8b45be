//! The options of llguidance that stand in a schema itself, as its `x-guidance`.
//!
//! | option | meaning here |
//! |---|---|
//! | `whitespace_flexible` | `true`: any amount of white space; `false`: none |
//! | `whitespace_pattern` | white space by a pattern, once in each place |
//! | `item_separator`, `key_separator` | patterns in the place of `,` and `:` |
//! | `json_allowed_escapes` | the letters that may follow a backslash in a string; after `u`, control characters alone |
//! | `json_allow_general_unicode_escapes` | whether any character may be written with `\u`. Names of members have needless escapes in no case |
//! | `coerce_one_of`, `lenient` | read, and without effect: `oneOf` is enforced, and so is each keyword |
//!
//! Without the two options of escapes, strings have every spelling of JSON; llguidance writes `\u` for control
//! characters alone then.
//!
//! Escapes are a regular condition on strings, and each string is a terminal, so the condition is put on the grammar
//! of the schema ([`Grammar::within`](unskew_grammar::Grammar::within)) and not on each step towards it.

use serde::Deserialize;
use unskew_schema::{Separators, Whitespace};

use crate::{Error, Result};

/// The options that the `x-guidance` of a schema asks for.
#[derive(Default)]
pub(crate) struct Guidance {
    pub(crate) whitespace: Option<Whitespace>,
    pub(crate) separators: Separators,
    /// A pattern of the texts that terminals may have; `None`: of all.
    pub(crate) texts: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    item_separator: Option<String>,
    key_separator: Option<String>,
    whitespace_flexible: Option<bool>,
    whitespace_pattern: Option<String>,
    #[serde(rename = "coerce_one_of")]
    _coerce_one_of: Option<bool>,
    #[serde(rename = "lenient")]
    _lenient: Option<bool>,
    json_allowed_escapes: Option<String>,
    json_allow_general_unicode_escapes: Option<bool>,
}

/// The options of the text of a schema.
///
/// # Errors
///
/// [`Error::Combination`] for an option that this project does not have.
pub(crate) fn of(schema: &str) -> Result<Guidance> {
    #[derive(Deserialize)]
    struct Root {
        #[serde(rename = "x-guidance")]
        options: Option<Options>,
    }
    if !schema.contains("\"x-guidance\"") {
        return Ok(Guidance::default());
    }
    // A schema that cannot be read so has its error elsewhere.
    let Ok(Root { options: Some(options) }) = serde_json::from_str(schema) else {
        return match serde_json::from_str::<serde_json::Value>(schema) {
            Ok(value) if value.get("x-guidance").is_some_and(serde_json::Value::is_object) => {
                let known = "`item_separator`, `key_separator`, `whitespace_flexible`, `whitespace_pattern`, `coerce_one_of`, \
                             `lenient`, `json_allowed_escapes` and `json_allow_general_unicode_escapes`";
                Err(Error::combination(format!("`x-guidance` has another option than {known}; leave it out")))
            }
            _ => Ok(Guidance::default()),
        };
    };
    let texts = texts(&options)?;
    let Options {
        item_separator: item, key_separator: name, whitespace_flexible, whitespace_pattern, ..
    } = options;
    // That is one form of white space, in which equal items have equal texts.
    let is_spaced = (item.as_deref(), name.as_deref()) == (Some(", "), Some(": "));
    if is_spaced && whitespace_flexible == Some(false) && whitespace_pattern.is_none() {
        return Ok(Guidance {
            whitespace: Some(Whitespace::Spaced),
            separators: Separators::default(),
            texts,
        });
    }
    let whitespace = |flexible| if flexible { Whitespace::Flexible } else { Whitespace::Compact };
    let mut separators = Separators::default();
    separators.item = item.filter(|separator| separator != ",");
    separators.name = name.filter(|separator| separator != ":");
    separators.space = whitespace_pattern;
    Ok(Guidance { whitespace: whitespace_flexible.map(whitespace), separators, texts })
}

/// The pattern of texts with the allowed escapes alone.
fn texts(options: &Options) -> Result<Option<String>> {
    const LETTERS: &str = "\"\\/bfnrtu";
    let (letters, general) = match (&options.json_allowed_escapes, options.json_allow_general_unicode_escapes)
    {
        (None, None | Some(true)) => return Ok(None),
        (None, Some(false)) => (LETTERS, false),
        (Some(letters), general) => (&**letters, general.unwrap_or(false)),
    };
    if let Some(other) = letters.chars().find(|letter| !LETTERS.contains(*letter)) {
        return Err(Error::combination(format!(
            "`x-guidance`: `json_allowed_escapes` has {other:?}, and an escape of JSON is a backslash and one of {LETTERS}"
        )));
    }
    let mut pattern = String::from(r"(?s:[^\\]");
    for letter in letters.chars() {
        pattern.push_str(r"|\\");
        match letter {
            'u' if general => pattern.push_str("u[0-9A-Fa-f]{4}"),
            'u' => pattern.push_str("u00[01][0-9A-Fa-f]"),
            '\\' => pattern.push_str(r"\\"),
            letter => pattern.push(letter),
        }
    }
    pattern.push_str(")*");
    Ok(Some(pattern))
}
