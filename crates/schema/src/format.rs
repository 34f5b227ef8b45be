//! Formats of strings, each as the pattern of its grammar.
//!
//! Only those that a regular language says exactly. `hostname` needs Punycode for its international labels, `regex` is not
//! regular, and the `idn-` and `iri` formats follow tables of Unicode: these are refused by name.

/// Patterns (as the `regex` crate reads them) all of which the texts of a format match as a whole, if it is one that is
/// enforced.
pub(crate) fn patterns(name: &str) -> Option<Vec<String>> {
    let pattern = match name {
        "email" => return Some(vec![mailbox(), LOCAL_PART.to_owned()]),
        "date" => date(),
        "time" => time(),
        "date-time" => format!("(?:{})[Tt](?:{})", date(), time()),
        "duration" => duration(),
        "ipv4" => ipv4(),
        "ipv6" => ipv6(),
        "uuid" => "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}".to_owned(),
        "uri" => uri(),
        "uri-reference" => format!("{}|{}", uri(), relative()),
        "json-pointer" => POINTER.to_owned(),
        "relative-json-pointer" => format!("(0|[1-9][0-9]*)(#|{POINTER})"),
        _ => return None,
    };
    Some(vec![pattern])
}

/// RFC 5321, section 4.5.3.1.1: at most 64 characters in front of the `@`.
const LOCAL_PART: &str = r#"([^@"]{1,64}|"(?s:.)*")@(?s:.)*"#;

/// RFC 5321, section 4.1.2: `Mailbox`, with labels of at most 63 characters. The only tag that is registered for literal
/// addresses is `IPv6`.
fn mailbox() -> String {
    let atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
    let quoted = r#""([ !#-\[\]-~]|\\[ -~])*""#;
    let label = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
    let literal = format!(r"\[({}|[Ii][Pp][Vv]6:({}))\]", ipv4(), ipv6());
    format!(r"({atom}(\.{atom})*|{quoted})@({label}(\.{label})*|{literal})")
}

const POINTER: &str = "(?s:/([^/~]|~[01])*)*";

/// RFC 3339, section 5.6: `full-date`, with the days that a month has (5.7).
fn date() -> String {
    let leap = "[0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00";
    format!(
        "[0-9]{{4}}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))\
         |({leap})-02-29"
    )
}

/// RFC 3339, section 5.6: `full-time`. A leap second is the last one of a day in UTC, so at each offset it has its minute.
fn time() -> String {
    const DAY: usize = 24 * 60;
    let clock = |minutes: usize| format!("{:02}:{:02}", minutes / 60, minutes % 60);
    let mut ways = vec![
        r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
            .to_owned(),
        r"23:59:60(\.[0-9]+)?[Zz]".to_owned(),
    ];
    for minute in 0..DAY {
        let (ahead, behind) = ((minute + 1) % DAY, DAY - 1 - minute);
        ways.push(format!(r"{}:60(\.[0-9]+)?(\+{}|-{})", clock(minute), clock(ahead), clock(behind)));
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

/// RFC 4291, section 2.2, as the grammar of RFC 3986 has it.
fn ipv6() -> String {
    let group = "[0-9a-fA-F]{1,4}";
    let last = format!("({group}:{group}|{})", ipv4());
    let mut ways = vec![format!("({group}:){{6}}{last}")];
    for after in (0..=5).rev() {
        // `::` stands for at least one group.
        let before = 5 - after;
        let front =
            if before == 0 { String::new() } else { format!("(({group}:){{0,{}}}{group})?", before - 1) };
        ways.push(format!("{front}::({group}:){{{after}}}{last}"));
    }
    ways.push(format!("(({group}:){{0,5}}{group})?::{group}"));
    ways.push(format!("(({group}:){{0,6}}{group})?::"));
    ways.join("|")
}

const PATH_CHAR: &str = "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";

fn authority() -> String {
    let host_char = "([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})";
    let future = r"[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+";
    let user = "([A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*";
    format!(r"({user}@)?(\[({}|{future})\]|{host_char}*)(:[0-9]*)?", ipv6())
}

fn end_of_uri() -> String {
    format!(r"(\?({PATH_CHAR}|[/?])*)?(#({PATH_CHAR}|[/?])*)?")
}

/// RFC 3986, appendix A: `URI`.
fn uri() -> String {
    let c = PATH_CHAR;
    let path = format!("//{}(/{c}*)*|/({c}+(/{c}*)*)?|{c}+(/{c}*)*|", authority());
    format!("[A-Za-z][A-Za-z0-9+.-]*:({path}){}", end_of_uri())
}

/// RFC 3986, appendix A: `relative-ref`.
fn relative() -> String {
    let (c, without_colon) = (PATH_CHAR, "([A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})");
    let path = format!("//{}(/{c}*)*|/({c}+(/{c}*)*)?|{without_colon}+(/{c}*)*|", authority());
    format!("({path}){}", end_of_uri())
}

#[cfg(test)]
mod tests {
    use unskew_automata::{Dfa, Limits};

    /// Texts of each format and others, right and wrong by its grammar, are judged as by `jsonschema`.
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
            ("relative-json-pointer", &["0", "1/a", "0#", "01", "1#a", "/a", ""]),
        ];
        for (format, texts) in cases {
            let patterns = super::patterns(format).unwrap();
            let dfas: Vec<_> =
                patterns.iter().map(|one| Dfa::from_pattern(one, &Limits::default()).unwrap()).collect();
            let judge = jsonschema::options()
                .should_validate_formats(true)
                .build(&serde_json::json!({"format": format}))
                .unwrap();
            for text in *texts {
                assert_eq!(
                    dfas.iter().all(|dfa| dfa.accepts(text.as_bytes())),
                    judge.is_valid(&serde_json::json!(text)),
                    "{format} {text}"
                );
            }
        }
        for format in ["hostname", "regex", "idn-email", "int32", ""] {
            assert_eq!(super::patterns(format), None);
        }
    }
}
