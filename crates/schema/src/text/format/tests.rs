//! Formats against the judge, and against the RFCs where the judge differs.

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
        ("ipv4", &["1.2.3.4", "255.255.255.255", "256.1.1.1", "01.2.3.4", "1.2.3", "1.2.3.4.5", "0.0.0.0"]),
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
            &["http://é/ü?ö#ä", "urn:x", "é", "http://\u{e000}/", "http://a/?\u{e000}", "http://a b", "é:a"],
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
            let possible = made.possible.as_ref().is_none_or(|possible| possible.accepts(text.as_bytes()));
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
            let possible = made.possible.as_ref().is_none_or(|possible| possible.accepts(text.as_bytes()));
            assert!(possible || !valid, "{format} {text:?}");
        }
    }
}
