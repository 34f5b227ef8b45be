//! The regexes that engines are compared on, with texts that match them.
//!
//! They are meant to look like the constraints of users: fields, records, lines of files, lists, and the shapes that
//! are known to be hard for one engine or another (bounded repetitions of wide classes, large alternations, Unicode
//! classes, ambiguity). Patterns keep to syntax that every engine reads in the same way: no look-around, no `\d`,
//! which is ASCII for some and Unicode for others, and no anchors, since all engines match whole outputs.
//!
//! The samples are written for this file. They are walked token by token, so that masks are measured where outputs go
//! and not only at the start.

use std::borrow::Cow;

/// One regex and texts that match it.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name in reports.
    pub name: &'static str,
    /// The regex.
    pub pattern: Cow<'static, str>,
    /// Texts that match as a whole.
    pub samples: Vec<Cow<'static, str>>,
    /// Whether its texts are JSON, most of which is punctuation that the pattern forces.
    pub json: bool,
}

/// How many words [`words`] makes.
const WORDS: usize = 1_000;

const BODY: &str = r#"([^"\\\x00-\x1f\x7f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})"#;
const OCTET: &str = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
const NUMBER: &str = r"-?(0|[1-9][0-9]{0,8})(\.[0-9]{1,6})?";

/// All regexes, in the order in which reports list them.
#[allow(clippy::too_many_lines, reason = "a list")]
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        // Fields.
        case(
            "date",
            "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
            &["2026-11-20", "1999-01-31", "2040-12-09"],
        ),
        case(
            "time",
            "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?",
            &["07:30", "23:59:59", "00:00", "19:05:41"],
        ),
        case(
            "date-time",
            "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\
             (\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])",
            &["2026-11-20T07:30:00Z", "1987-04-12T23:20:50.52+02:00", "2031-02-28T00:00:01.000001-11:30"],
        ),
        case("year-range", "(1[89]|20)[0-9]{2}-(1[89]|20)[0-9]{2}", &["1914-1918", "2026-2030"]),
        case(
            "email",
            r"[a-zA-Z0-9._%+-]{1,64}@([a-zA-Z0-9-]{1,30}\.){1,4}[a-zA-Z]{2,12}",
            &["mara.lind@example.org", "q7+lists@mail.sub.example.co.uk", "INFO@EXAMPLE.MUSEUM"],
        ),
        case(
            "uuid",
            "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            &["3f2b8c1e-90ad-4c7f-8e21-5d6a7b8c9d0e", "00000000-0000-4000-a000-000000000001"],
        ),
        case("ipv4", format!(r"({OCTET}\.){{3}}{OCTET}"), &["192.168.0.1", "8.8.4.4", "255.255.255.0"]),
        case(
            "ipv6",
            "([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|([0-9a-f]{1,4}:){1,6}:[0-9a-f]{1,4}|\
             ([0-9a-f]{1,4}:){1,5}(:[0-9a-f]{1,4}){2}|([0-9a-f]{1,4}:){1,4}(:[0-9a-f]{1,4}){3}|::([0-9a-f]{1,4})?",
            &["2001:db8:0:0:8:800:200c:417a", "fe80::1", "2001:db8::2:1", "::1"],
        ),
        case(
            "mac-address",
            "([0-9A-F]{2}:){5}[0-9A-F]{2}",
            &["00:1B:44:11:3A:B7", "FF:FF:FF:FF:FF:FF", "0A:00:27:5E:90:C4"],
        ),
        case(
            "url",
            r"https?://([a-z0-9-]{1,30}\.){1,3}[a-z]{2,10}(:[0-9]{2,5})?(/[a-zA-Z0-9._~-]{1,40}){0,8}/?(\?[a-z]+=[a-zA-Z0-9%+]*(&[a-z]+=[a-zA-Z0-9%+]*)*)?(#[a-zA-Z0-9_-]+)?",
            &[
                "https://example.org",
                "http://docs.example.com:8080/guide/first-steps.html#install",
                "https://shop.example.net/search?q=red+shoes&page=2&sort=price",
            ],
        ),
        case(
            "semver",
            r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
            &["1.0.0", "0.14.2-beta.3", "12.0.7-rc.1+build.5114f85", "2.3.4+exp.sha"],
        ),
        case("phone-us", r"(\([0-9]{3}\) |[0-9]{3}-)[0-9]{3}-[0-9]{4}", &["(555) 010-4477", "212-555-0198"]),
        case(
            "phone-international",
            r"\+[1-9][0-9]{0,2}( [0-9]{2,5}){2,4}",
            &["+49 30 90182", "+1 555 010 4477", "+358 40 123 4567 89"],
        ),
        case(
            "card-number",
            "[0-9]{4}([ -]?[0-9]{4}){3}",
            &["4000 1234 5678 9010", "5100-0000-0000-0008", "6011000990139424"],
        ),
        case("hex-colour", "#([0-9a-fA-F]{6}|[0-9a-fA-F]{3})", &["#ff8800", "#0AF", "#C0FFEE"]),
        case(
            "base64",
            "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
            &["aGVsbG8gd29ybGQ=", "VGhlIHF1aWNrIGJyb3duIGZveA==", "QUJDREVGR0hJSktM"],
        ),
        case(
            "number",
            r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?",
            &["0", "-273.15", "6.02214076e23", "1E-9"],
        ),
        case("byte", OCTET, &["0", "42", "199", "255"]),
        case(
            "currency",
            r"(\$|€|£)[1-9][0-9]{0,2}(,[0-9]{3}){0,3}(\.[0-9]{2})?",
            &["$5", "€1,299.00", "£12,345,678.90"],
        ),
        case(
            "roman-numeral",
            "M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})",
            &["MCMXCIV", "XLII", "MMXXVI", "III"],
        ),
        case(
            "coordinates",
            r"-?[0-9]{1,2}\.[0-9]{4}, -?[0-9]{1,3}\.[0-9]{4}",
            &["52.5200, 13.4050", "-33.8688, 151.2093"],
        ),
        case("identifier", "[a-zA-Z_][a-zA-Z0-9_]*", &["snake_case_name", "CamelCase2", "_private", "x"]),
        case("choice", "(Yes|No|Unsure)", &["Yes", "No", "Unsure"]),
        case("multiple-choice", r"The answer is \([A-E]\)\.", &["The answer is (B).", "The answer is (E)."]),
        // JSON.
        json(
            "json-string",
            format!(r#""{BODY}*""#),
            &[
                r#""""#,
                r#""A line with \"quotes\", a tab\t and a snowman \u2603.""#,
                r#""Grüße aus Köln, 東京 and São Paulo""#,
            ],
        ),
        json(
            "json-string-bounded",
            format!(r#""{BODY}{{0,100}}""#),
            &[
                r#""short""#,
                r#""The quick brown fox jumps over the lazy dog, twice, and then rests in the shade.""#,
            ],
        ),
        json(
            "json-person",
            r#"\{"name": "[A-Z][A-Za-z' -]{0,40}", "age": [1-9]?[0-9], "city": "[A-Z][A-Za-z' -]{0,40}"\}"#,
            &[
                r#"{"name": "Ada Lovelace", "age": 36, "city": "London"}"#,
                r#"{"name": "Niels O'Brien", "age": 7, "city": "Baden-Baden"}"#,
            ],
        ),
        json(
            "json-product",
            format!(
                r#"\{{"id": [1-9][0-9]{{0,9}}, "title": "{BODY}{{1,80}}", "price": {NUMBER}, "currency": "(EUR|USD|GBP|JPY)", "in_stock": (true|false), "tags": \[("[a-z-]{{1,20}}"(, "[a-z-]{{1,20}}"){{0,4}})?\]\}}"#
            ),
            &[
                r#"{"id": 4711, "title": "Walnut desk lamp", "price": 89.5, "currency": "EUR", "in_stock": true, "tags": ["light", "home-office"]}"#,
                r#"{"id": 12, "title": "\"Pocket\" atlas", "price": 12, "currency": "JPY", "in_stock": false, "tags": []}"#,
            ],
        ),
        json(
            "json-matrix",
            format!(r"\[(\[{NUMBER}(, {NUMBER}){{1,3}}\])(, \[{NUMBER}(, {NUMBER}){{1,3}}\]){{0,3}}\]"),
            &["[[1, 0], [0, 1]]", "[[0.5, -2, 3.25], [10, 20, 30]]"],
        ),
        json(
            "json-function-call",
            r#"\{"tool": "(get_weather|send_mail|search|none)", "arguments": \{"place": "[A-Za-z ,]{1,50}", "unit": "(celsius|fahrenheit)", "days": [1-9]\}\}"#,
            &[
                r#"{"tool": "get_weather", "arguments": {"place": "Oslo, Norway", "unit": "celsius", "days": 3}}"#,
                r#"{"tool": "none", "arguments": {"place": "here", "unit": "fahrenheit", "days": 1}}"#,
            ],
        ),
        json(
            "json-optional-fields",
            format!(
                r#"\{{"user": "[a-z0-9_]{{3,16}}"(, "email": "[a-z.]{{1,20}}@[a-z]{{1,15}}\.[a-z]{{2,4}}")?(, "score": {NUMBER})?(, "role": "(admin|editor|reader)")?(, "note": (null|"{BODY}{{0,40}}"))?\}}"#
            ),
            &[
                r#"{"user": "mlind"}"#,
                r#"{"user": "k_9000", "score": -3.5, "role": "reader"}"#,
                r#"{"user": "ana", "email": "ana.b@example.org", "role": "admin", "note": "on leave"}"#,
            ],
        ),
        json(
            "json-enum-array",
            r#"\[("(north|east|south|west)"(, "(north|east|south|west)"){0,9})?\]"#,
            &[r#"["north", "north", "west"]"#, "[]", r#"["south"]"#],
        ),
        json(
            "json-pretty",
            "\\{\n  \"title\": \"[^\"\\\\\n]{1,60}\",\n  \"year\": (19|20)[0-9]{2},\n  \"genres\": \\[\n(    \"[a-z]{3,12}\",\n){0,3}    \"[a-z]{3,12}\"\n  \\]\n\\}",
            &[
                "{\n  \"title\": \"The Salt Road\",\n  \"year\": 1998,\n  \"genres\": [\n    \"drama\",\n    \"travel\"\n  ]\n}",
                "{\n  \"title\": \"Nine\",\n  \"year\": 2021,\n  \"genres\": [\n    \"thriller\"\n  ]\n}",
            ],
        ),
        // Lines of files.
        case(
            "yaml",
            "(  )?[a-z_]{1,20}: ([a-zA-Z0-9 ./-]{1,40}|\"[^\"\n]{0,40}\")(\n(  )?[a-z_]{1,20}: ([a-zA-Z0-9 ./-]{1,40}|\"[^\"\n]{0,40}\")){0,5}",
            &["name: build\n  image: debian/12\n  retries: 3", "path: \"C: drive, twice\"\nmode: fast"],
        ),
        case(
            "csv-row",
            "([^,\"\n\r]{0,30}|\"([^\"]|\"\"){0,30}\")(,([^,\"\n\r]{0,30}|\"([^\"]|\"\"){0,30}\")){3}",
            &["17,Lind,\"Oslo, Norway\",2026-11-20", "a,b,,\"say \"\"hi\"\"\""],
        ),
        case(
            "key-values",
            "[a-z][a-z0-9_]{0,15}=[^;=\n]{1,30}(; [a-z][a-z0-9_]{0,15}=[^;=\n]{1,30}){0,7}",
            &["host=db1.internal; port=5432; user=app", "theme=dark", "a=1; b=two words; c=3.5"],
        ),
        case(
            "log-line",
            r"\[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\] (DEBUG|INFO|WARN|ERROR) [a-z_]+(::[a-z_]+)*: [ -~]{1,120}",
            &[
                "[2026-11-20 07:30:00] INFO server::http: listening on port 8080",
                "[2026-11-20 07:31:12] ERROR store: cannot open 'cache.db': permission denied (13)",
            ],
        ),
        case(
            "markdown-heading",
            "#{1,6} [^\n#]{1,80}",
            &["# Getting started", "### 2.4 Why masks are exact", "###### Überblick"],
        ),
        case(
            "markdown-list",
            "(- [^\n]{1,60}\n){1,9}- [^\n]{1,60}",
            &["- eggs\n- two litres of milk\n- bread", "- first, read the manual\n- then *call* me"],
        ),
        case(
            "html-tag",
            "<(a|p|div|span|em|strong)( [a-z-]{2,12}=\"[^\"<>]{0,40}\"){0,3}>[^<>]{0,80}</(a|p|div|span|em|strong)>",
            &["<a href=\"/index.html\" class=\"nav\">Home</a>", "<p>Nothing to see here.</p>"],
        ),
        case(
            "sql-select",
            r"SELECT (\*|[a-z_]{1,20}(, [a-z_]{1,20}){0,5}) FROM [a-z_]{1,20}( WHERE [a-z_]{1,20} (=|<|>|<=|>=|<>) ([0-9]{1,9}|'[^']{0,20}')( (AND|OR) [a-z_]{1,20} (=|<|>|<=|>=|<>) ([0-9]{1,9}|'[^']{0,20}')){0,3})?( ORDER BY [a-z_]{1,20}( (ASC|DESC))?)?( LIMIT [1-9][0-9]{0,3})?;",
            &[
                "SELECT * FROM users;",
                "SELECT name, city FROM customers WHERE age >= 18 AND country = 'NO' ORDER BY name DESC LIMIT 10;",
            ],
        ),
        case(
            "python-imports",
            "from [a-z_]{1,20}(\\.[a-z_]{1,20}){0,3} import [a-zA-Z_][a-zA-Z0-9_]{0,20}(, [a-zA-Z_][a-zA-Z0-9_]{0,20}){0,5}",
            &["from os.path import join, exists", "from collections import OrderedDict"],
        ),
        case(
            "think-then-answer",
            "<think>\n(.{0,100}\n){1,3}</think>\nAnswer: [A-D]",
            &[
                "<think>\nTwo of the four are odd, so B or D.\nD is too large.\n</think>\nAnswer: B",
                "<think>\nA gas.\n</think>\nAnswer: A",
            ],
        ),
        case(
            "chess-moves",
            "1\\. ([KQRBN]?[a-h]?x?[a-h][1-8][+#]?|O-O(-O)?)( ([KQRBN]?[a-h]?x?[a-h][1-8][+#]?|O-O(-O)?)){1,9}",
            &["1. e4 e5 Nf3 Nc6 Bb5 a6", "1. d4 d5 O-O exd5 Qh5#"],
        ),
        // Unicode, and shapes that are known to be hard.
        case("letters", r"\p{L}+", &["Straße", "данные", "naïve", "変換"]),
        case(
            "capitalised-words",
            r"\p{Lu}\p{Ll}+( \p{Lu}\p{Ll}+){0,5}",
            &["Élise Martin", "New South Wales", "Санкт Петербург"],
        ),
        case("han", r"\p{Han}{1,40}", &["東京都渋谷区", "机器学习", "漢字"]),
        case("word-characters", r"\w+(-\w+)*", &["well-known", "état_2", "x86-64"]),
        case(
            "sentences",
            r"(\p{L}+[ ,.])*\p{L}+\.",
            &["It rained all day.", "Bien sûr que oui dit Anna.", "Es war einmal ein König."],
        ),
        case(
            "anything-bounded",
            ".{0,200}",
            &["Anything at all may stand here: ☃, 4711, or (nothing).", "x", "The end of the line"],
        ),
        case(
            "lower-case-bounded",
            "[a-z]{1,200}",
            &["constraint", "thequickbrownfoxjumpsoverthelazydog", "a"],
        ),
        case(
            "one-sentence",
            "[A-Z][^.!?\n]{0,200}[.!?]",
            &["Masks are cheap where texts are narrow, and dear where they are wide!", "Is it?"],
        ),
        case(
            "repeated-pairs",
            "([a-z]{2}[0-9];){3,50}",
            &["ab1;cd2;ef3;", "aa0;bb1;cc2;dd3;ee4;ff5;gg6;hh7;"],
        ),
        case("ambiguous-repeat", "((a|aa|aaa)b?){1,30}", &["aaaaaaaaab", "abaabaaab", "a"]),
        case("ambiguous-suffix", "(a|b)*a(a|b){8}", &["ababbabaabb", "aaaaaaaaaaaa", "babababababa"]),
        case("run-then-run", "(a|b)*c{10,50}", &["abbacccccccccccccccc", "cccccccccc"]),
    ];
    let words = words();
    let alternation = words.join("|");
    let sample = |indices: &[usize]| indices.iter().map(|index| words[*index].as_str()).collect::<Vec<_>>();
    cases.push(Case {
        name: "words",
        samples: sample(&[3, 500, 999]).into_iter().map(|word| Cow::Owned(word.to_owned())).collect(),
        pattern: alternation.clone().into(),
        json: false,
    });
    cases.push(Case {
        name: "words-list",
        samples: vec![sample(&[17, 801, 402, 4]).join(", ").into(), words[77].clone().into()],
        pattern: format!("({alternation})(, ({alternation})){{0,4}}").into(),
        json: false,
    });
    cases
}

fn case(name: &'static str, pattern: impl Into<Cow<'static, str>>, samples: &[&'static str]) -> Case {
    let samples = samples.iter().map(|sample| Cow::Borrowed(*sample)).collect();
    Case { name, pattern: pattern.into(), samples, json: false }
}

fn json(name: &'static str, pattern: impl Into<Cow<'static, str>>, samples: &[&'static str]) -> Case {
    Case { json: true, ..case(name, pattern, samples) }
}

/// Pseudo-words of two to five syllables, all different, the same in every run.
fn words() -> Vec<String> {
    let (mut state, mut words) = (7u32, Vec::with_capacity(WORDS));
    let mut next = |below: u32| {
        // The generator of Numerical Recipes; its upper bits are good enough for syllables.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    while words.len() < WORDS {
        let mut word = String::new();
        for _ in 0..2 + next(4) {
            word.push(char::from(b"bdfgklmnprstvw"[next(14) as usize]));
            word.push(char::from(b"aeiou"[next(5) as usize]));
        }
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use unskew_automata::{Dfa, Limits};

    use super::*;

    #[test]
    fn samples_match() {
        for case in cases() {
            let dfa = Dfa::from_pattern(&case.pattern, &Limits::default())
                .unwrap_or_else(|error| panic!("{}: {error}", case.name));
            for sample in &case.samples {
                assert!(dfa.accepts(sample.as_bytes()), "{}: {sample:?}", case.name);
            }
        }
    }

    #[test]
    fn names_are_unique_and_every_regex_has_a_sample() {
        let cases = cases();
        let names: HashSet<_> = cases.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases.len());
        assert!(cases.len() >= 40 && cases.iter().all(|case| !case.samples.is_empty()));
    }

    #[test]
    fn words_are_reproducible() {
        assert_eq!(words(), words());
    }
}
