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
//! | `idn-hostname`, `idn-email` | names as for `hostname`, and four labels as `wide` describes; local parts of 64 ASCII characters or 16 of any kind |
//! | `contentEncoding` `base64`, in draft 7 | one line, with unused bits zero |
//! | `regex` | groups nested at most three deep, no look-around in a group, groups in look-around one deep; no names and no back-references |
//!
//! A name that no draft defines, such as `int32`, is an annotation, as the specification requires. A format that is
//! newer than the draft of the schema is still written, and its negation is not decided.

mod host;
mod wide;

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError},
};

use unskew_automata::{Dfa, DfaBuilder, Limits, RegexError};

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
        BASE64 => "texts are written on one line, without bits that say nothing",
        _ => "texts that later drafts have as this format are written, and this draft allows others",
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
/// Under the default limits each format is built once in a process, because some of them take milliseconds.
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
    let format = make(name, limits)?;
    made.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), format.clone());
    Ok(format)
}

fn make(name: &str, limits: &Limits) -> Result<Format, RegexError> {
    let mut builder = DfaBuilder::new(limits);
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
                    local_part("", " -~"),
                    host::OUTER,
                    literal()
                ))?),
            )
        }
        "idn-email" => {
            // In RFC 6531, section 3.3, the only dot is the ASCII one.
            let domain = wide::names(builder, r"\.")?;
            let short = builder.pattern(r"[\x00-\x7f]{1,64}|(?s:.{1,16})")?;
            (mailbox(builder, r"\x{80}-\x{10ffff}", &short, &domain)?, None)
        }
        "hostname" => (host::names(false, limits)?, Some(builder.pattern(host::OUTER)?)),
        HOST_1123 => (host::names(true, limits)?, Some(builder.pattern(host::OUTER)?)),
        "idn-hostname" => (wide::names(builder, wide::DOTS)?, None),
        "time" => (builder.pattern(&time())?, Some(builder.pattern(TIME)?)),
        "date-time" => {
            let (date, time, any) = (date(), time(), TIME);
            let written = builder.pattern(&format!("({date})[Tt]({time})"))?;
            (written, Some(builder.pattern(&format!("({date})[Tt]({any})"))?))
        }
        "regex" => (builder.pattern(&ecma())?, None),
        // In RFC 2045, section 6.8, readers skip all other characters, so any text may have the format.
        BASE64 => (builder.pattern(DIGITS_OF_64)?, None),
        _ => {
            let exact = builder.pattern(&pattern(name))?;
            (exact.clone(), Some(exact))
        }
    };
    Ok(Format::new(written, possible))
}

/// The exact pattern of a format that has one.
fn pattern(name: &str) -> String {
    match name {
        "date" => date(),
        "duration" => duration(),
        "ipv4" => ipv4(),
        "ipv6" => ipv6(),
        // RFC 9562, section 4.
        "uuid" => "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}".to_owned(),
        "uri" => Identifier::URI.absolute(),
        "uri-reference" => Identifier::URI.reference(),
        "iri" => Identifier::IRI.absolute(),
        "iri-reference" => Identifier::IRI.reference(),
        "uri-template" => template(),
        "json-pointer" => POINTER.to_owned(),
        // draft-bhutton-relative-json-pointer-00, section 3, without the index change, which older drafts do not
        // have.
        "relative-json-pointer" => format!("(0|[1-9][0-9]*)(#|{POINTER})"),
        _ => unreachable!("{name:?} is no format of the list"),
    }
}

/// The name of the format of `contentEncoding`, which is no value of `format`.
pub(crate) const BASE64: &str = "base64";

/// RFC 4648, section 4, on one line, with unused bits zero (section 3.5).
const DIGITS_OF_64: &str = "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?";

/// RFC 6901, section 3.
const POINTER: &str = "(?s:/([^/~]|~[01])*)*";

/// RFC 5321, section 4.1.2: `Local-part`; `more` holds the additional characters of RFC 6531, section 3.3.
fn local_part(more: &str, escaped: &str) -> String {
    let atom = format!("[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{more}-]+");
    format!(r#"{atom}(\.{atom})*|"([ !#-\[\]-~{more}]|\\[{escaped}])*""#)
}

/// RFC 5321, section 4.1.3: `address-literal`. The only registered tag is `IPv6`.
fn literal() -> String {
    format!(r"\[({}|[Ii][Pp][Vv]6:({}))\]", ipv4(), ipv6())
}

/// RFC 5321, section 4.1.2: `Mailbox`, with local parts restricted to `short` and host names to `domain`.
fn mailbox(builder: &mut DfaBuilder, more: &str, short: &Dfa, domain: &Dfa) -> Result<Dfa, RegexError> {
    let local = builder.pattern(&local_part(more, "!-~"))?;
    let local = builder.intersection(&local, short)?;
    let plain = builder.pattern(r"(?s:([^ ]| +[^ <])* *)")?;
    let local = builder.intersection(&local, &plain)?;
    let (at, literal) = (builder.pattern("@")?, builder.pattern(&literal())?);
    let domain = builder.union([domain, &literal])?;
    builder.concatenation([&local, &at, &domain])
}

/// RFC 3339, section 5.6: `full-date`, with the right number of days for each month (section 5.7).
fn date() -> String {
    let leap = "[0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00";
    format!(
        "[0-9]{{4}}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))\
         |({leap})-02-29"
    )
}

/// RFC 3339, section 5.6: `full-time`, with a leap second at every time that the grammar allows.
const TIME: &str =
    r"([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";

/// RFC 3339, section 5.6: `full-time`. A leap second is the last second of a day in UTC (section 5.7), so each
/// offset has one minute with a leap second.
fn time() -> String {
    const DAY: usize = 24 * 60;
    const QUARTER: usize = 15;
    let clock = |minutes: usize| format!("{:02}:{:02}", minutes / 60, minutes % 60);
    let mut ways = vec![
        r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
            .to_owned(),
        r"23:59:60(\.[0-9]+)?[Zz]".to_owned(),
    ];
    for offset in (0..DAY).step_by(QUARTER) {
        let (ahead, behind) = (clock(offset), clock((DAY - offset) % DAY));
        let minute = clock((offset + DAY - 1) % DAY);
        ways.push(format!(r"{minute}:60(\.[0-9]+)?(\+{ahead}|-{behind})"));
    }
    ways.join("|")
}

/// RFC 3339, appendix A.
fn duration() -> String {
    let time = "T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S)";
    let date = "([0-9]+Y([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D)";
    format!("P({date}({time})?|{time}|[0-9]+W)")
}

/// RFC 2673, section 3.2, in decimal.
fn ipv4() -> String {
    let octet = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    format!(r"({octet}\.){{3}}{octet}")
}

/// RFC 4291, section 2.2, in the grammar of RFC 3986.
fn ipv6() -> String {
    let group = "[0-9a-fA-F]{1,4}";
    let last = format!("({group}:{group}|{})", ipv4());
    let mut ways = vec![format!("({group}:){{6}}{last}")];
    for after in (0..=5).rev() {
        // `::` replaces at least one group.
        let before = 5 - after;
        let front =
            if before == 0 { String::new() } else { format!("(({group}:){{0,{}}}{group})?", before - 1) };
        ways.push(format!("{front}::({group}:){{{after}}}{last}"));
    }
    ways.push(format!("(({group}:){{0,5}}{group})?::{group}"));
    ways.push(format!("(({group}:){{0,6}}{group})?::"));
    ways.join("|")
}

/// RFC 3986, appendix A, and RFC 3987, section 2.2, which has the same grammar with more characters.
struct Identifier {
    /// Characters in addition to the unreserved ones.
    more: &'static str,
    /// Characters of a query in addition to `more`.
    private: &'static str,
}

/// RFC 3987, section 2.2: `ucschar`.
const UCS: &str = concat!(
    r"\x{a0}-\x{d7ff}\x{f900}-\x{fdcf}\x{fdf0}-\x{ffef}\x{10000}-\x{1fffd}\x{20000}-\x{2fffd}\x{30000}-\x{3fffd}",
    r"\x{40000}-\x{4fffd}\x{50000}-\x{5fffd}\x{60000}-\x{6fffd}\x{70000}-\x{7fffd}\x{80000}-\x{8fffd}",
    r"\x{90000}-\x{9fffd}\x{a0000}-\x{afffd}\x{b0000}-\x{bfffd}\x{c0000}-\x{cfffd}\x{d0000}-\x{dfffd}",
    r"\x{e1000}-\x{efffd}"
);

/// RFC 3987, section 2.2: `iprivate`.
const PRIVATE: &str = r"\x{e000}-\x{f8ff}\x{f0000}-\x{ffffd}\x{100000}-\x{10fffd}";

impl Identifier {
    const URI: Self = Self { more: "", private: "" };
    const IRI: Self = Self { more: UCS, private: PRIVATE };

    /// One of the unreserved characters, `sub-delims`, escapes and `others`.
    fn chars(&self, others: &str) -> String {
        format!("([A-Za-z0-9._~!$&'()*+,;={}{others}-]|%[0-9A-Fa-f]{{2}})", self.more)
    }

    fn authority(&self) -> String {
        let future = r"[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+";
        let (user, host) = (self.chars(":"), self.chars(""));
        format!(r"({user}*@)?(\[({}|{future})\]|{host}*)(:[0-9]*)?", ipv6())
    }

    fn end(&self) -> String {
        let (query, fragment) = (self.chars(&format!(":@/?{}", self.private)), self.chars(":@/?"));
        format!(r"(\?{query}*)?(#{fragment}*)?")
    }

    /// `URI`, `IRI`.
    fn absolute(&self) -> String {
        let c = self.chars(":@");
        let path = format!("//{}(/{c}*)*|/({c}+(/{c}*)*)?|{c}+(/{c}*)*|", self.authority());
        format!("[A-Za-z][A-Za-z0-9+.-]*:({path}){}", self.end())
    }

    /// `URI-reference`, `IRI-reference`.
    fn reference(&self) -> String {
        let (c, without_colon) = (self.chars(":@"), self.chars("@"));
        let path = format!("//{}(/{c}*)*|/({c}+(/{c}*)*)?|{without_colon}+(/{c}*)*|", self.authority());
        format!("{}|({path}){}", self.absolute(), self.end())
    }
}

/// RFC 6570, section 2: `URI-Template`, with `'` as a literal by erratum 6937.
fn template() -> String {
    let literal = format!(r"[!#$&-;=?-\[\]_a-z~{UCS}{PRIVATE}]|%[0-9A-Fa-f]{{2}}");
    let char = "([A-Za-z0-9_]|%[0-9A-Fa-f]{2})";
    let variable = format!(r"{char}(\.?{char})*(:[1-9][0-9]{{0,3}}|\*)?");
    format!(r"({literal}|\{{[+#./;?&=,!@|]?{variable}(,{variable})*\}})*")
}

/// ECMA-262, section 22.2.1: a subset of `Pattern` with the flag `u`. Groups nest, so the full language is not
/// regular.
fn ecma() -> String {
    let common = r"[dDwWsStnvfr^$\\.*+?()\[\]{}|/]|c[A-Za-z]|x[0-9A-Fa-f]{2}|u([0-9A-CE-Fa-ce-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2})";
    // Both ends of a range are of the same kind, and the second is not less than the first.
    let mut ranges = vec![];
    for last in [b'9', b'Z', b'z'] {
        let first = match last {
            b'9' => b'0',
            b'Z' => b'A',
            _ => b'a',
        };
        ranges.extend((first..=last).map(|from| {
            let (from, last) = (char::from(from), char::from(last));
            format!("{from}-[{from}-{last}]")
        }));
    }
    let ranges = ranges.join("|");
    let class = format!(r"\[\^?-?([^\\\[\]^-]|{ranges}|\\({common}|-|b))*-?\]");
    // Bounds in ascending order, by the number of digits or by the first digit.
    let mut bounds = vec![r"[0-9]+,?".to_owned(), "[0-9],[1-9][0-9]+".to_owned()];
    bounds.extend(('0'..='9').map(|from| format!("{from},[{from}-9]")));
    let repeat = format!(r"([*+?]|\{{({})\}})\??", bounds.join("|"));
    let atom = format!(r"[^\^$\\.*+?()\[\]{{}}|]|\.|\\({common})|{class}");
    let terms = |look: &str, group: &str| format!(r"(\||\^|\$|\\[bB]{look}|({atom}{group})({repeat})?)*");
    let group = |inner: &str| format!(r"|\((\?:)?{inner}\)");
    let one = terms("", &group(&terms("", "")));
    let two = terms("", &group(&one));
    // Under the flag `u`, look-around is not repeated.
    terms(&format!(r"|\(\?<?[=!]{one}\)"), &group(&two))
}

#[cfg(test)]
mod tests {
    use crate::SchemaLimits;

    /// Texts of each format, valid and invalid by its grammar, have the same verdict as in `jsonschema`.
    #[test]
    fn formats_are_those_of_the_judge() {
        let cases: &[(&str, &[&str])] = &[
            (
                "date",
                &[
                    "2024-02-29",
                    "2023-02-29",
                    "1900-02-29",
                    "2000-02-29",
                    "2024-04-31",
                    "2024-12-31",
                    "2024-13-01",
                    "2024-00-01",
                    "0000-02-29",
                    "24-01-01",
                    "2024-1-1",
                    "",
                ],
            ),
            (
                "time",
                &[
                    "12:00:00Z",
                    "12:00:00",
                    "23:59:60Z",
                    "22:59:60Z",
                    "01:29:60+01:30",
                    "01:30:60+01:30",
                    "15:59:60-08:00",
                    "24:00:00Z",
                    "12:00:00.123z",
                    "12:00:00.Z",
                    "12:00:00+24:00",
                    "12:00:00+23:59",
                ],
            ),
            (
                "date-time",
                &[
                    "2024-02-29T12:00:00Z",
                    "2024-02-29t12:00:00z",
                    "2024-02-29 12:00:00Z",
                    "2023-02-29T12:00:00Z",
                    "2016-12-31T23:59:60Z",
                    "2024-01-01T00:00:00+01:00",
                ],
            ),
            (
                "duration",
                &[
                    "P1D",
                    "P1Y2M3DT4H5M6S",
                    "PT1H",
                    "P1W",
                    "P",
                    "PT",
                    "P1YT",
                    "P1Y1W",
                    "P1Y3D",
                    "PT1H6S",
                    "P2M1Y",
                    "1D",
                ],
            ),
            (
                "email",
                &[
                    "joe@example.com",
                    "a.b+c@x-y.org",
                    "joe",
                    "joe@",
                    "@x",
                    "a..b@x.org",
                    ".a@x.org",
                    "a@-x.org",
                    "a@x-.org",
                    "\"joe bloggs\"@example.com",
                    "joe@[127.0.0.1]",
                    "joe@[IPv6:::1]",
                    "a@b@c",
                    "é",
                    "te~st@example.com",
                    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa@x.org",
                    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa@x.org",
                ],
            ),
            (
                "ipv4",
                &["1.2.3.4", "255.255.255.255", "256.1.1.1", "01.2.3.4", "1.2.3", "1.2.3.4.5", "0.0.0.0"],
            ),
            (
                "ipv6",
                &[
                    "::",
                    "::1",
                    "1::",
                    "1:2:3:4:5:6:7:8",
                    "1:2:3:4:5:6:7::",
                    "::2:3:4:5:6:7:8",
                    "1::3:4:5:6:7:8",
                    "1:2:3:4:5:6:7:8:9",
                    "1::2::3",
                    "::ffff:1.2.3.4",
                    "1:2:3:4:5:6:1.2.3.4",
                    "1:2:3:4:5:6:7:1.2.3.4",
                    "12345::",
                    "::1.2.3",
                    ":1",
                    "1:2:3:4:5::1.2.3.4",
                ],
            ),
            (
                "uuid",
                &[
                    "123e4567-e89b-12d3-a456-426614174000",
                    "123E4567-E89B-12D3-A456-426614174000",
                    "123e4567e89b12d3a456426614174000",
                    "123e4567-e89b-12d3-a456-42661417400g",
                ],
            ),
            (
                "uri",
                &[
                    "http://a.b/c?d#e",
                    "urn:x:y",
                    "mailto:a@b",
                    "//a/b",
                    "a/b",
                    "http://[::1]:80/",
                    "http://[::1",
                    "http://a b",
                    "a:",
                    ":a",
                    "http://a/%zz",
                    "http://a/%20",
                    "http://é",
                    "http://u:p@h:1/x",
                    "tel:+1-816-555-1212",
                    "ldap://[2001:db8::7]/c=GB?objectClass?one",
                ],
            ),
            ("uri-reference", &["", "/a", "//a/b", "a/b", "a:b/c", "1:b", "?q", "#f", "a b", "%zz"]),
            ("json-pointer", &["", "/a", "/a~0~1b", "/~", "/~2", "a", "/", "//"]),
            (
                "hostname",
                &[
                    "a",
                    "example.com",
                    "a.b.c",
                    "",
                    ".",
                    "a.",
                    ".a",
                    "a..b",
                    "-a",
                    "a-",
                    "a_b",
                    "1.2.3.4",
                    "a b",
                    "é",
                ],
            ),
            (
                "iri",
                &[
                    "http://é/ü?ö#ä",
                    "urn:x",
                    "é",
                    "http://\u{e000}/",
                    "http://a/?\u{e000}",
                    "http://a b",
                    "é:a",
                ],
            ),
            ("iri-reference", &["", "é", "/é", "//é/a", "é:a", "?\u{e000}", "#\u{e000}", " ", "\u{9f}"]),
            (
                "uri-template",
                &[
                    "",
                    "a{b}",
                    "{",
                    "}",
                    "{}",
                    "{+a,b*}",
                    "{a:3}",
                    "{a:0}",
                    "{a:12345}",
                    "{a.b}",
                    "{a..b}",
                    "{.a}",
                    "{?a,b}",
                    "%41",
                    "%4",
                    "é{é}",
                    "{%41}",
                    "{a:3*}",
                    "a b",
                    "<",
                    "{=a}",
                    "{a,}",
                ],
            ),
            (
                "regex",
                &[
                    "",
                    "^a*$",
                    "a**",
                    "*",
                    "(a",
                    "a)",
                    "(a|b)+?",
                    "(?:a)",
                    "[a-z0-9_-]",
                    "[z-a]",
                    "a{2,1}",
                    "a{2}",
                    "a{1,10}",
                    "a{",
                    "\\d+\\.",
                    "\\q",
                    "[^\\w-]",
                    "\\u0041",
                    "\\x4",
                    "^*",
                    "a|",
                    "||",
                    "[]",
                    "[a",
                    "((a)b)",
                    "\\",
                    "\\/",
                    "a{2}{3}",
                    "(?=a)b",
                    "(?<!a)(?!bc)d",
                    "(?<=a+)b",
                    "(?<1>x)",
                    "(?<n>x",
                    "\n",
                ],
            ),
            ("relative-json-pointer", &["0", "1/a", "0#", "01", "1#a", "/a", ""]),
        ];
        for (format, texts) in cases {
            let made = super::format(format, &SchemaLimits::default().automata).unwrap();
            let judge = jsonschema::options()
                .should_validate_formats(true)
                .build(&serde_json::json!({"format": format}))
                .unwrap();
            for text in *texts {
                let valid = judge.is_valid(&serde_json::json!(text));
                assert_eq!(made.written.accepts(text.as_bytes()), valid, "{format} {text}");
                let possible =
                    made.possible.as_ref().is_none_or(|possible| possible.accepts(text.as_bytes()));
                assert!(possible || !valid, "{format} {text}");
            }
        }
    }

    /// Cases where the tables, the judge and the RFC differ: a written text has the format for all three, and an
    /// impossible text for none.
    #[test]
    fn where_the_judge_differs() {
        // Written, possible, valid for the judge.
        let cases: &[(&str, &str, [bool; 3])] = &[
            // RFC 3339 allows leap seconds at any offset.
            ("time", "00:00:60+00:01", [false, true, true]),
            ("time", "05:44:60+05:45", [true, true, true]),
            ("time", "05:45:60+05:45", [false, true, false]),
            ("date-time", "2016-12-31T18:59:60.5-05:00", [true, true, true]),
            // RFC 5891 reserves these hyphens; RFC 1123 does not.
            ("hostname", "ab--c", [false, true, false]),
            ("hostname", "xn--bcher-kva.de", [false, true, true]),
            ("email", "a@ab--c", [false, true, false]),
            // `email_address` rejects an escaped blank in quotes, and texts that look like a display name.
            ("email", "\"a\\ b\"@x.org", [false, true, false]),
            ("email", "\"a <b\"@x.org", [false, true, false]),
            // An erratum of RFC 6570 allows it.
            ("uri-template", "it's", [true, true, true]),
            // Control characters of the second block are no literals, but the judge accepts them.
            ("uri-template", "\u{85}", [false, false, true]),
            ("regex", "((((a))))", [false, true, true]),
            // Names must be unique, and back-references must refer to existing groups.
            ("regex", "(?<n>a)\\k<n>", [false, true, true]),
            ("regex", "(a)\\1", [false, true, true]),
            ("regex", "((?=a)b)", [false, true, true]),
            ("regex", "(?!a(?=b))", [false, true, true]),
        ];
        for (format, text, [written, possible, judged]) in cases {
            let made = super::format(format, &SchemaLimits::default().automata).unwrap();
            let judge = jsonschema::options()
                .should_validate_formats(true)
                .build(&serde_json::json!({"format": format}))
                .unwrap();
            assert_eq!(made.written.accepts(text.as_bytes()), *written, "{format} {text}");
            let outer = made.possible.as_ref().is_none_or(|possible| possible.accepts(text.as_bytes()));
            assert_eq!(outer, *possible, "{format} {text}");
            assert_eq!(judge.is_valid(&serde_json::json!(text)), *judged, "{format} {text}");
        }
    }

    /// The judge has these formats only in features that are not enabled here, so the expected values follow the
    /// RFCs.
    #[test]
    fn international_names() {
        for (format, text, written) in [
            ("idn-hostname", "bücher.example", true),
            ("idn-hostname", "例え.jp", true),
            ("idn-hostname", "Bücher.de", false),
            ("idn-hostname", "a-b.de", true),
            ("idn-hostname", "-a.de", false),
            ("idn-hostname", "ü-.de", false),
            ("idn-hostname", "a..b", false),
            ("idn-hostname", "aü\u{301}", false),
            ("idn-hostname", "\u{640}", false),
            ("idn-hostname", "a\u{3002}b\u{ff0e}c\u{ff61}d", true),
            ("idn-email", "a@a\u{3002}b", false),
            ("idn-email", "jürgen@bücher.example", true),
            ("idn-email", "a@b", true),
            ("idn-email", "\"é b\"@x.org", true),
            ("idn-email", "é@@x", false),
            ("idn-email", "éééééééééééééééééé@x", false),
            ("idn-email", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa@x", true),
        ] {
            let made = super::format(format, &SchemaLimits::default().automata).unwrap();
            assert_eq!(made.written.accepts(text.as_bytes()), written, "{format} {text}");
            assert!(made.possible.is_none());
        }
    }

    /// Random texts of the automata: the judge accepts every written text, and rejects every impossible one.
    #[test]
    fn drawn_texts_have_the_format() {
        let mut seed = 1u64;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % below
        };
        for (format, _) in super::FORMATS {
            let made = super::format(format, &SchemaLimits::default().automata).unwrap();
            let judge = jsonschema::options()
                .should_validate_formats(true)
                .build(&serde_json::json!({"format": format}))
                .unwrap();
            for _ in 0..300 {
                let (mut text, mut state) = (vec![], made.written.start());
                loop {
                    let edges: Vec<_> = made.written.edges(state).collect();
                    let ends = made.written.is_accepting(state);
                    if edges.is_empty() || (ends && next(12) == 0) || text.len() > 300 {
                        break;
                    }
                    let edge = &edges[next(edges.len())];
                    let (first, last) = (*edge.bytes.start(), *edge.bytes.end());
                    text.push(first + u8::try_from(next(usize::from(last - first) + 1)).unwrap());
                    state = edge.target;
                }
                if !made.written.is_accepting(state) {
                    continue;
                }
                let text = String::from_utf8(text).unwrap();
                assert!(judge.is_valid(&serde_json::json!(text)), "{format} {text:?}");
                // A text with one character added or removed rarely still has the format.
                let mut chars: Vec<char> = text.chars().collect();
                let place = next(chars.len() + 1);
                match next(2) {
                    0 if place < chars.len() => drop(chars.remove(place)),
                    _ => chars.insert(place, ['a', '0', '-', '.', ':', '%', 'é', ']'][next(8)]),
                }
                let text: String = chars.into_iter().collect();
                let valid = judge.is_valid(&serde_json::json!(text));
                assert!(valid || !made.written.accepts(text.as_bytes()), "{format} {text:?}");
                let possible =
                    made.possible.as_ref().is_none_or(|possible| possible.accepts(text.as_bytes()));
                assert!(possible || !valid, "{format} {text:?}");
            }
        }
    }
}
