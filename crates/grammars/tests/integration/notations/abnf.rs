//! Grammars in ABNF: each construct, and grammars of RFCs as published.

use GrammarFormat::Abnf;
use unskew_grammar::{Fate, GrammarLimits};
use unskew_notation::{GrammarFormat, GrammarOptions, explain};

use crate::common::texts::{check, check_from};

#[test]
fn abnf_has_the_constructs_of_rfc_5234() {
    check(Abnf, "a = \"x\" / \"y\" \"z\"", &["x", "X", "yz", "Yz"], &[("", 0), ("y", 1), ("xz", 1)]);
    check(
        Abnf,
        "a = *b 2c 1*d *2e\nb = %x62\nc = %d99\nd = %b1100100\ne = %x65",
        &["bccd", "ccddddee", "ccd"],
        &[("bcd", 2), ("cc", 2), ("ccdeee", 5)],
    );
    check(
        Abnf,
        "a = 1*2( %x61 [%s\"b\"] ) 0%x63",
        &["a", "ab", "aab", "abab"],
        &[("", 0), ("aB", 1), ("ac", 1)],
    );
    check(
        Abnf,
        "a = %x61.62 %d99-101 %x2603 %X1f600-1F601",
        &["abc☃😀", "abe☃😁"],
        &[("abf", 2), ("abc☃😂", 9)],
    );
    check(Abnf, "a = \"\" / *\"-1\" / \"\\\"", &["", "-1-1", "\\"], &[("-", 1), ("\\-", 1)]);
    check(
        Abnf,
        "; one\r\na = b ; two\r\n\r\n  / c\r\nB = %x62\r\nC = %x63\r\nb =/ %x64\r\n",
        &["b", "c", "d"],
        &[("bc", 1)],
    );
    check(Abnf, "  a = <b>\n   b\n  b = %x62 / \"[\" A \"]\"\n", &["bb", "[bb]b"], &[("b", 1), ("[b]", 2)]);
    // The rules of a text in one line each, without indentation.
    check(Abnf, "a=b/c\nb=%x62\nc=%x63", &["b", "c"], &[("a", 0)]);
}

#[test]
fn texts_of_rfc_7405_have_their_case() {
    let grammar = "a = \"k1\" / %s\"Key\" / %i\"s\"";
    check(
        Abnf,
        grammar,
        &["k1", "K1", "Key", "s", "S"],
        &[("key", 1), ("KEY", 1), ("\u{212a}1", 0), ("\u{17f}", 0)],
    );
}

#[test]
fn core_rules_are_defined() {
    let all = "a = ALPHA BIT char CR CRLF CTL DIGIT DQUOTE HEXDIG HTAB LF LWSP SP VCHAR WSP";
    check(
        Abnf,
        all,
        &["a1\u{1}\r\r\n\u{7f}9\"f\t\n \r\n\t !\t", "Z0~\r\r\n\u{0}0\"A\t\n ~ "],
        &[("a2", 1), ("a1\u{0}", 2), ("a1x\r\r\nx", 6), ("a1x\r\r\n\u{1}9\"g", 9)],
    );
    // A rule of the grammar takes the place of a core rule, and further alternatives add to the rule of the grammar.
    check(Abnf, "a = 2digit\nDIGIT = %x61\ndigit =/ \"b\"", &["aa", "aB"], &[("1", 0)]);
}

#[test]
fn start_rules_are_named_in_any_case() {
    let grammar = "a = Bee \"x\"\nbee = %x62";
    check_from(Abnf, grammar, Some("BEE"), &["b"], &[("bx", 1)]);
    check_from(Abnf, grammar, Some("a"), &["bx"], &[("b", 1)]);
    let options = GrammarOptions::default().with_start("be");
    let error = unskew_notation::parse(grammar, Abnf, &options, &GrammarLimits::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 1, column 1: start rule `be` is not defined: `--start` (`start` in a spec) names another rule, such as `Bee`, `a`"
    );
}

#[test]
fn numbers_above_ascii_have_a_fate() {
    let fates = explain("a = %xE9 %x80-FF %x41", Abnf, &GrammarOptions::default(), &GrammarLimits::default());
    let notes: Vec<_> = fates.iter().filter(|fate| fate.construct.starts_with("numbers")).collect();
    assert_eq!(notes.len(), 2);
    assert!(notes.iter().all(|note| note.fate == Fate::Enforced));
    check(Abnf, "a = %xE9 %x80-FF", &["éÿ"], &[("\u{e9}x", 2)]);
}

#[test]
fn uris_of_rfc_3986() {
    check(
        Abnf,
        include_str!("../../rfcs/rfc3986.abnf"),
        &[
            "ftp://ftp.is.co.za/rfc/rfc1808.txt",
            "http://www.ietf.org/rfc/rfc2396.txt",
            "ldap://[2001:db8::7]/c=GB?objectClass?one",
            "mailto:John.Doe@example.com",
            "news:comp.infosystems.www.servers.unix",
            "tel:+1-816-555-1212",
            "telnet://192.0.2.16:80/",
            "urn:oasis:names:specification:docbook:dtd:xml:4.1.2",
            "foo://example.com:8042/over/there?name=ferret#nose",
            "x:",
            "x://[v1F.a:b]/%aF",
            "x://[::ffff:1.2.3.255]",
        ],
        &[
            ("", 0),
            ("1x:", 0),
            ("http", 4),
            ("http://a b", 8),
            ("http://[2001:db8", 16),
            ("http://[1:2:3:4:5:6:7:8:9]", 23),
            ("http://a/%4", 11),
            ("http://a/%4g", 11),
            ("http://a#b#c", 10),
            ("x://[::256.1.1.1]", 10),
        ],
    );
    let relative = ["", "//a/b", "/a//b", "a/b:c?d", "?q", "#f", "x:y"];
    check_from(
        Abnf,
        include_str!("../../rfcs/rfc3986.abnf"),
        Some("uri-reference"),
        &relative,
        &[("a b", 1), ("[", 0)],
    );
}

#[test]
fn abnf_of_rfc_5234_and_7405() {
    check(
        Abnf,
        include_str!("../../rfcs/rfc5234.abnf"),
        &[
            "a = b\r\n",
            "a=\"x\"/%s\"y\"\r\n",
            "rule = 1*2( %x41-5A / [%d1.2.3] ) ; text\r\n  <words> *b\r\nrule =/ %b01\r\n",
            "\r\n; only\r\na = 3x 2*y *4z\r\n",
        ],
        &[
            ("a = b", 5),
            ("a = \r\n", 6),
            ("1a = b\r\n", 0),
            ("a = \"x\r\n", 6),
            ("a = %x\r\n", 6),
            ("a = |\r\n", 4),
            ("a :", 2),
        ],
    );
}

#[test]
fn json_of_rfc_8259() {
    check(
        Abnf,
        include_str!("../../rfcs/rfc8259.abnf"),
        &[
            "{}",
            " [1, -0.5e+3 ,\"a\\n\\u00e9☃\",true,null]\n",
            "{\"a\": {\"b\": [[], {}]}, \"\": false}",
            "12",
            "\"\u{10ffff}\u{7f}\"",
        ],
        &[
            ("", 0),
            ("01", 1),
            ("[1,]", 3),
            ("True", 0),
            ("\"\n\"", 1),
            ("\"\\x\"", 2),
            ("{\"a\"}", 4),
            ("1.", 2),
            ("{a", 1),
        ],
    );
}

#[test]
fn times_of_rfc_3339() {
    check_from(
        Abnf,
        include_str!("../../rfcs/rfc3339.abnf"),
        Some("date-time"),
        &[
            "1985-04-12T23:20:50.52Z",
            "1996-12-19T16:39:57-08:00",
            "1990-12-31t23:59:60z",
            "1937-01-01T12:00:27.87+00:20",
        ],
        &[
            ("1985-4", 6),
            ("1985-04-12 ", 10),
            ("1985-04-12T23:20:50", 19),
            ("1985-04-12T23:20:50.Z", 20),
            ("1985-04-12T23:20:50+0800", 22),
        ],
    );
}

#[test]
fn addresses_of_rfc_5322() {
    check(
        Abnf,
        include_str!("../../rfcs/rfc5322.abnf"),
        &[
            "john.doe@example.com",
            "\"john doe\"@example.com",
            "a(comment (nested))@[127.0.0.1]",
            "john . doe@example",
            "\"a\\\"b\"@[IPv6:::1]",
            "x@y\r\n ",
        ],
        &[
            ("", 0),
            ("john", 4),
            ("john@", 5),
            ("@a", 0),
            (".a@b", 0),
            ("a..b@c", 2),
            ("a@b@c", 3),
            ("a(@b", 4),
            ("\"a@b", 4),
            ("é@a", 0),
        ],
    );
}
