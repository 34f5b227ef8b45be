//! The grammars of formats as patterns, each with its source. Every pattern is exact unless its comment says
//! otherwise.

/// The exact pattern of a format that has one.
pub(super) fn pattern(name: &str) -> String {
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

/// RFC 4648, section 4, on one line, with unused bits zero (section 3.5).
pub(super) const DIGITS_OF_64: &str =
    "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?";

/// RFC 6901, section 3.
const POINTER: &str = "(?s:/([^/~]|~[01])*)*";

/// RFC 5321, section 4.1.2: `Local-part`; `more` holds the additional characters of RFC 6531, section 3.3.
pub(super) fn local_part(more: &str, escaped: &str) -> String {
    let atom = format!("[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{more}-]+");
    format!(r#"{atom}(\.{atom})*|"([ !#-\[\]-~{more}]|\\[{escaped}])*""#)
}

/// RFC 5321, section 4.1.3: `address-literal`. The only registered tag is `IPv6`.
pub(super) fn literal() -> String {
    format!(r"\[({}|[Ii][Pp][Vv]6:({}))\]", ipv4(), ipv6())
}

/// RFC 3339, section 5.6: `full-date`, with the right number of days for each month (section 5.7).
pub(super) fn date() -> String {
    let leap = "[0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00";
    format!(
        "[0-9]{{4}}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))\
         |({leap})-02-29"
    )
}

/// RFC 3339, section 5.6: `full-time`, with a leap second at every time that the grammar allows.
pub(super) const TIME: &str =
    r"([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";

/// RFC 3339, section 5.6: `full-time`. A leap second is the last second of a day in UTC (section 5.7), so each
/// offset has one minute with a leap second.
pub(super) fn time() -> String {
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
pub(super) fn ecma() -> String {
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
