//! Formats of strings, each as the automaton of its grammar.
//!
//! A format is two languages: the texts that are written for it, all of which have the format, and the possible
//! texts, which include every text that has the format and are used for its negation. The two are equal if the
//! grammar of the format is regular and small. They differ here:
//!
//! | format | texts that are written |
//! |---|---|
//! | `time`, `date-time` | leap seconds only at offsets of whole quarters of an hour, as all offsets in use are: all 2,879 offsets make 66,000 states and take 100 ms |
//! | `hostname`, `email` | names as `host` describes; quoted local parts of 20 characters, without ` <` and escaped blanks, which some readers reject |
//! | `idn-hostname`, `idn-email` | names as for `hostname`, and four labels as `international` describes; local parts of 64 ASCII characters or 16 of any kind |
//! | `contentEncoding` `base64`, in draft 7 | one line, with unused bits zero |
//! | `regex` | groups nested at most three deep, no look-around in a group, groups in look-around one deep; no names and no back-references |
//!
//! A name that no draft defines, such as `int32`, is an annotation, as the specification requires. A format that is
//! newer than the draft of the schema is still written, and its negation is not decided.

mod grammars;
mod host;
mod international;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError},
};

use unskew_automata::{Dfa, Limits, RegexError, dfa::DfaAlgebra};

use crate::{SchemaLimits, draft::Draft};

/// The formats of the specification, each with the first draft that has it.
const FORMATS: [(&str, Draft); 19] = [
    ("date-time", Draft::Draft4),
    ("date", Draft::Draft7),
    ("time", Draft::Draft7),
    ("duration", Draft::Draft201909),
    ("email", Draft::Draft4),
    ("idn-email", Draft::Draft7),
    ("hostname", Draft::Draft4),
    ("idn-hostname", Draft::Draft7),
    ("ipv4", Draft::Draft4),
    ("ipv6", Draft::Draft4),
    ("uri", Draft::Draft4),
    ("uri-reference", Draft::Draft6),
    ("iri", Draft::Draft7),
    ("iri-reference", Draft::Draft7),
    ("uri-template", Draft::Draft6),
    ("uuid", Draft::Draft201909),
    ("json-pointer", Draft::Draft6),
    ("relative-json-pointer", Draft::Draft7),
    ("regex", Draft::Draft7),
];

/// Whether `draft` defines the format; `None` if no draft does.
pub(crate) fn known(name: &str, draft: Draft) -> Option<bool> {
    FORMATS.iter().find(|(known, _)| *known == name).map(|(_, since)| *since <= draft)
}

/// The restriction on the written texts of a format, in words.
pub(crate) fn written(name: &str) -> &'static str {
    match name {
        "time" | "date-time" => "leap seconds are written at offsets of whole quarters of an hour alone",
        "hostname" => {
            "names of up to seven labels of 31 characters, or three of 63 and one of 31, are written, without `xn--`"
        }
        HOST_1123 => {
            "names of up to seven labels of 31 characters, or three of 63 and one of 31, are written"
        }
        "email" => {
            "quoted local parts of up to 20 characters are written, and hosts of up to seven labels of 31 characters, or three of \
             63 and one of 31, without `xn--`"
        }
        "idn-hostname" => {
            "names of up to four labels of 8 characters of common scripts, or of 31 of ASCII, are written, without `xn--`"
        }
        "idn-email" => {
            "local parts of up to 64 characters of ASCII or 16 of any kind are written, and hosts of up to four labels of 8 characters \
             of common scripts, or of 31 of ASCII, without `xn--`"
        }
        "regex" => {
            "groups are nested up to three deep, without names, back-references and look-around in them"
        }
        BASE64 => "texts are written on one line, with unused bits zero",
        _ => "only texts that later drafts count to this format are written, and this draft allows others",
    }
}

/// The name in [`format()`] of the format that a draft calls `name`.
pub(crate) fn of_draft(name: &str, draft: Draft) -> &str {
    if name == "hostname" && draft <= Draft::Draft6 { HOST_1123 } else { name }
}

/// `hostname` of drafts without A-labels: names of RFC 1123, with hyphens at any inner position.
const HOST_1123: &str = "hostname of RFC 1123";

/// A format as two languages.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    /// The texts that are written; all of them have the format.
    pub(crate) written: Arc<Dfa>,
    /// A superset of all texts that have the format; `None` if the texts without the format are not known.
    pub(crate) possible: Option<Arc<Dfa>>,
    /// The JSON spellings of `written`, raw and in ASCII, built at their first use.
    pub(crate) spelled: Arc<[OnceLock<Arc<Dfa>>; 2]>,
}

impl Format {
    fn new(written: Dfa, possible: Option<Dfa>) -> Self {
        Self { written: Arc::new(written), possible: possible.map(Arc::new), spelled: Arc::default() }
    }
}

/// The format `name`, one of those that are [`known`].
///
/// Under the default limits each format is built once in a process, because some of them take milliseconds. Nobody
/// cancels that, and it takes no fuel, so that the first one who asks pays no more than the next.
///
/// # Errors
///
/// [`RegexError`] for a limit.
pub(crate) fn format(name: &str, limits: &Limits) -> Result<Format, RegexError> {
    static MADE: LazyLock<(Limits, Mutex<HashMap<String, Format>>)> =
        LazyLock::new(|| (SchemaLimits::default().automata, Mutex::default()));
    let (default, made) = &*MADE;
    if limits != default {
        return make(name, limits);
    }
    // A poisoned map is still consistent, because only finished formats are inserted.
    if let Some(known) = made.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
        return Ok(known.clone());
    }
    let format = make(name, default)?;
    made.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), format.clone());
    Ok(format)
}

fn make(name: &str, limits: &Limits) -> Result<Format, RegexError> {
    let mut builder = DfaAlgebra::new(limits);
    let builder = &mut builder;
    let (written, possible) = match name {
        "email" => {
            let domain = host::names(false, limits)?;
            let short = builder.pattern(r#"[^"](?s:.{0,63})|"(?s:.{0,20})""#)?;
            let address = mailbox(builder, "", &short, &domain)?;
            (
                address,
                Some(builder.pattern(&format!(
                    "({})@({}|{})",
                    grammars::local_part("", " -~"),
                    host::OUTER,
                    grammars::literal()
                ))?),
            )
        }
        "idn-email" => {
            // In RFC 6531, section 3.3, the only dot is the ASCII one.
            let domain = international::names(builder, r"\.")?;
            let short = builder.pattern(r"[\x00-\x7f]{1,64}|(?s:.{1,16})")?;
            (mailbox(builder, r"\x{80}-\x{10ffff}", &short, &domain)?, None)
        }
        "hostname" => (host::names(false, limits)?, Some(builder.pattern(host::OUTER)?)),
        HOST_1123 => (host::names(true, limits)?, Some(builder.pattern(host::OUTER)?)),
        "idn-hostname" => (international::names(builder, international::DOTS)?, None),
        "time" => (builder.pattern(&grammars::time())?, Some(builder.pattern(grammars::TIME)?)),
        "date-time" => {
            let (date, time, any) = (grammars::date(), grammars::time(), grammars::TIME);
            let written = builder.pattern(&format!("({date})[Tt]({time})"))?;
            (written, Some(builder.pattern(&format!("({date})[Tt]({any})"))?))
        }
        "regex" => (builder.pattern(&grammars::ecma())?, None),
        // In RFC 2045, section 6.8, readers skip all other characters, so any text may have the format.
        BASE64 => (builder.pattern(grammars::DIGITS_OF_64)?, None),
        _ => {
            let exact = builder.pattern(&grammars::pattern(name))?;
            (exact.clone(), Some(exact))
        }
    };
    Ok(Format::new(written, possible))
}

/// The name of the format of `contentEncoding`, which is no value of `format`.
pub(crate) const BASE64: &str = "base64";

/// RFC 5321, section 4.1.2: `Mailbox`, with local parts restricted to `short` and host names to `domain`.
fn mailbox(builder: &mut DfaAlgebra, more: &str, short: &Dfa, domain: &Dfa) -> Result<Dfa, RegexError> {
    let local = builder.pattern(&grammars::local_part(more, "!-~"))?;
    let local = builder.intersection(&local, short)?;
    let plain = builder.pattern(r"(?s:([^ ]| +[^ <])* *)")?;
    let local = builder.intersection(&local, &plain)?;
    let (at, literal) = (builder.pattern("@")?, builder.pattern(&grammars::literal())?);
    let domain = builder.union([domain, &literal])?;
    builder.concatenation([&local, &at, &domain])
}
