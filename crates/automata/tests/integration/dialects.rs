//! Regexes in Python's dialect, judged by CPython's own module `re`, and the table of the dialects.
//!
//! Patterns and texts are random: pieces that the dialects read differently, in all orders. What one side refuses and
//! the other does not is counted by its reason, and each reason must be known.

#![allow(clippy::print_stdout, reason = "a skipped or counted test says so")]

use std::{
    collections::BTreeMap,
    io::Write,
    process::{Command, Stdio},
};

use proptest::{
    prelude::*,
    sample::select,
    strategy::ValueTree,
    test_runner::{Config, TestRng, TestRunner},
};
use unskew_automata::{Construct, Dfa, Dialect, Limits, RegexError, dfa::DfaAlgebra};

/// Reads lines `[pattern, [text, ...]]`; writes the answers of `fullmatch`, or what is wrong with the pattern.
const JUDGE: &str = r#"
import json, re, sys, warnings
warnings.simplefilter("ignore")
print(json.dumps(list(sys.version_info[:2])))
for line in sys.stdin:
    pattern, texts = json.loads(line)
    try:
        made = re.compile(pattern)
        print(json.dumps([made.fullmatch(text) is not None for text in texts]))
    except (re.error, OverflowError, ValueError) as error:
        print(json.dumps(str(error)))
"#;

/// The same for ECMA-262: whether the pattern has a match in a text.
const ECMA_JUDGE: &str = r#"
console.log(JSON.stringify(process.versions.node.split(".").slice(0, 2).map(Number)));
for (const line of require("fs").readFileSync(0, "utf8").split("\n").filter(line => line)) {
    const [pattern, texts] = JSON.parse(line);
    try {
        const made = new RegExp(pattern, "u");
        console.log(JSON.stringify(texts.map(text => made.test(text))));
    } catch (error) {
        console.log(JSON.stringify(String(error)));
    }
}
"#;

type Version = (u64, u64);

/// The answers of a judge, and its version. `None` where it is not installed.
fn judged(
    [program, option, script]: [&str; 3],
    cases: &[(String, Vec<String>)],
) -> Option<(Version, Vec<serde_json::Value>)> {
    let mut judge = Command::new(program)
        .args([option, script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = judge.stdin.take().unwrap();
    let lines: Vec<String> = cases.iter().map(|case| serde_json::to_string(case).unwrap() + "\n").collect();
    let writer =
        std::thread::spawn(move || lines.iter().try_for_each(|line| stdin.write_all(line.as_bytes())));
    let output = judge.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let mut answers = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut next = || answers.next().map(|line| serde_json::from_slice::<serde_json::Value>(line).unwrap());
    let version = next().unwrap();
    let answers: Vec<_> = std::iter::from_fn(next).collect();
    assert_eq!(answers.len(), cases.len(), "the judge answers each line");
    Some(((version[0].as_u64().unwrap(), version[1].as_u64().unwrap()), answers))
}

/// Parts of patterns in which the dialects differ, or of which Python has rules of its own.
fn piece() -> impl Strategy<Value = String> {
    let plain = select(vec![
        "a",
        "b",
        "A",
        "1",
        "_",
        " ",
        "-",
        "é",
        "ſ",
        "i",
        "İ",
        "\n",
        "<",
        ">",
        "&",
        "~",
        "#",
        "{",
        "}",
        "]",
        "{}",
        "{,",
        "{a}",
        "{1",
        "/",
        "\"",
        ",",
        ".",
        r"\.",
        r"\-",
        r"\<",
        r"\>",
        r"\/",
        r"\&",
        r"\ ",
        r"\#",
        r"\{",
        r"\]",
        r"\n",
        r"\t",
        r"\x41",
        r"\u0061",
        r"\U00000041",
        r"\101",
        r"\0",
        r"\07",
        r"\d",
        r"\D",
        r"\w",
        r"\W",
        r"\s",
        r"\S",
        r"\_",
        r"\é",
    ]);
    let classes = select(vec![
        "[ab]",
        "[^a]",
        "[]]",
        "[^]a]",
        "[[]",
        r"[^[\]]",
        "[a-c]",
        "[a-]",
        "[-a]",
        "[+--]",
        "[a&&b]",
        "[!~~#]",
        "[a||b]",
        r"[\w-]",
        r"[\d_]",
        r"[\s\S]",
        r"[^\W_]",
        r"[\b]",
        r"[\101]",
        r"[\0]",
        r"[\]\-]",
        "[a^]",
        "[(|)]",
        "[{}]",
        "[.]",
        r"[\x41-\x43]",
        "[A-z]",
        "[é-ü]",
        "[#a ]",
        "[i]",
        "[sk]",
    ]);
    let looks = select(vec![
        "^", "$", r"\A", r"\Z", r"\b", r"\B", "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?=a|$)", r"(?!\w)",
        r"(?<=\n)", r"(?!.*b)", "(?=.)", "(?!)",
    ]);
    let odd = select(vec![
        "(?#c)",
        "(?:)",
        "()",
        "a++",
        "a*+",
        "a?+",
        "[ab]{1,2}+",
        "(?>a)",
        "(?>a+)",
        "(?P<n>a)",
        "(?i:a)",
        "(?-i:a)",
        "(?s:.)",
        "(?m:^)",
        "(?m:$)",
        "(?x: a b )",
        "(?a:\\w)",
        "(?i:[a-c])",
        "(?i:s)",
        "(?i:é)",
        r"(?i:\u212a)",
        "(?ai:k)",
        "a{2}",
        "a{,2}",
        "a{1,}",
        "a{,}",
        "b{1,2}?",
        "a*?",
        "(?s-i:.)",
        // What is refused by one side or by both.
        r"\1",
        r"(a)\1",
        "(?P=n)",
        "(?(1)a|b)",
        "(?R)",
        "(?P>n)",
        "a**",
        "a{2}{3}",
        "*",
        "{2}",
        "(",
        ")",
        "[",
        "[b-a]",
        r"[a-\d]",
        r"[\d-a]",
        r"\q",
        r"[\q]",
        r"\8",
        r"\400",
        r"\x4",
        "(?i)",
        "(?<=a*)",
        "(?>a|ab)",
        "(?:ab)++",
        r"\ud800",
        "[[:alpha:]]",
        r"\N{DIGIT ONE}",
        "a{3,1}",
        "(?",
        "(?P<1>a)",
    ]);
    prop_oneof![6 => plain, 3 => classes, 2 => looks, 2 => odd].prop_map(str::to_owned)
}

fn pattern() -> impl Strategy<Value = String> {
    let quantifier = || {
        prop_oneof![
            4 => Just(""),
            3 => select(vec!["*", "+", "?", "{2}", "{0,2}", "{,2}", "{1,}", "*?", "+?", "??"]),
            1 => select(vec!["++", "*+", "?+", "{1,2}+", "{", "{,2", "{x}"]),
        ]
    };
    let item = piece().prop_recursive(2, 12, 4, move |inner| {
        let part = (inner, quantifier()).prop_map(|(item, times)| item + times);
        let sequence = prop::collection::vec(part, 1..4).prop_map(|parts| parts.concat());
        let opening = select(vec!["(", "(?:", "(?i:", "(?s:", "(?=", "(?!", "(?<=", "(?<!", "(?x:", "(?m:"]);
        (opening, prop::collection::vec(sequence, 1..3))
            .prop_map(|(open, ways)| format!("{open}{})", ways.join("|")))
    });
    let sequence = prop::collection::vec((item, quantifier()), 0..5)
        .prop_map(|parts| parts.into_iter().map(|(item, times)| item + times).collect::<String>());
    let flags = prop_oneof![6 => Just(""), 1 => select(vec!["(?i)", "(?s)", "(?m)", "(?x)", "(?a)", "(?ims)", "(?ia)"])];
    (flags, prop::collection::vec(sequence, 1..3))
        .prop_map(|(flags, ways)| format!("{flags}{}", ways.join("|")))
}

fn text() -> impl Strategy<Value = String> {
    let char = select(
        [
            "a", "b", "c", "A", "1", "_", " ", "-", "é", "É", "ſ", "s", "i", "ı", "İ", "K", "k", "\n", "\r",
            "\u{1c}", "\u{85}", "<",
        ]
        .into_iter()
        .chain([
            ">", "&", "~", "#", "{", "}", "[", "]", "/", "\"", ",", ".", "²", "\u{301}", "日", "\u{8}", "\0",
            "|", "(", "+",
        ])
        .collect::<Vec<_>>(),
    );
    prop::collection::vec(char, 0..5).prop_map(|chars| chars.concat())
}

/// The reason of a refusal, without its place.
fn reason(error: &RegexError) -> String {
    match error {
        RegexError::Unsupported { construct, .. } => construct.to_string(),
        RegexError::Syntax { message, .. } => message.clone(),
        error => panic!("{error}"),
    }
}

/// The verdicts of a judge and of this crate on the same patterns.
#[derive(Default)]
struct Comparison {
    compared: usize,
    accepted: usize,
    /// Patterns that one side alone refuses, by the reason.
    refused: BTreeMap<String, usize>,
    differ: Vec<String>,
}

/// Compares the answers of a judge with the automata that `make` makes. `lenient` gives the reason for which a pattern
/// that the judge alone refuses may be read here, and `strict` whether an error here is known. `skips` are texts that
/// are not compared.
fn compare(
    drawn: &[(String, Vec<String>)],
    answers: &[serde_json::Value],
    make: impl Fn(&str) -> Result<Dfa, RegexError>,
    lenient: impl Fn(&str, &str) -> Option<&'static str>,
    strict: impl Fn(&RegexError) -> bool,
    skips: impl Fn(&str, &str) -> bool,
) -> Comparison {
    let mut found = Comparison::default();
    for ((pattern, texts), answer) in drawn.iter().zip(answers) {
        let made = make(pattern);
        let verdicts = match (answer, &made) {
            (
                serde_json::Value::String(_),
                Err(RegexError::Syntax { .. } | RegexError::Unsupported { .. }),
            ) => continue,
            (serde_json::Value::String(why), _) => {
                match lenient(pattern, why) {
                    Some(known) => *found.refused.entry(format!("there: {known}")).or_default() += 1,
                    None => found.differ.push(format!("{pattern:?}: refused there ({why})")),
                }
                continue;
            }
            (serde_json::Value::Array(verdicts), _) => verdicts,
            (answer, _) => panic!("{answer}"),
        };
        let dfa = match made {
            Ok(dfa) => Some(dfa),
            Err(RegexError::MatchesNothing) => None,
            Err(error) => {
                *found.refused.entry(reason(&error)).or_default() += 1;
                if !strict(&error) {
                    found.differ.push(format!("{pattern:?}: read there, here {error}"));
                }
                continue;
            }
        };
        for (text, verdict) in texts.iter().zip(verdicts).filter(|(text, _)| !skips(pattern, text)) {
            let accepts = dfa.as_ref().is_some_and(|dfa| dfa.accepts(text.as_bytes()));
            found.compared += 1;
            found.accepted += usize::from(accepts);
            if accepts != *verdict {
                found.differ.push(format!("{pattern:?} {text:?}: there {verdict}, here {accepts}"));
            }
        }
    }
    let Comparison { compared, accepted, refused, differ } = &found;
    println!("{compared} verdicts, {accepted} accepted; patterns that one side refuses: {refused:#?}");
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ[..differ.len().min(40)].join("\n"));
    found
}

#[test]
fn python_agrees() {
    let cases = std::env::var("UNSKEW_CASES").map_or(1_500, |cases| cases.parse().unwrap());
    let mut runner =
        TestRunner::new_with_rng(Config::default(), TestRng::from_seed(Default::default(), &[7; 32]));
    let mut draw = || {
        let texts = prop::collection::vec(text(), 20);
        let short = ["", "a", "b", "1", "\n", "a\n", "ab", "aa", "é", "<", "]", "{"].map(str::to_owned);
        let (pattern, texts) = (pattern(), texts).new_tree(&mut runner).unwrap().current();
        // Pieces of the pattern itself are likely to be matched.
        let own = pattern.chars().collect::<Vec<_>>();
        let own = own.chunks(2).map(|chars| chars.iter().collect()).collect::<Vec<String>>();
        (pattern, short.into_iter().chain(texts).chain(own).collect::<Vec<_>>())
    };
    let drawn: Vec<(String, Vec<String>)> = (0..cases).map(|_| draw()).collect();
    let Some((version, answers)) = judged(["python3", "-c", JUDGE], &drawn) else {
        assert!(std::env::var_os("CI").is_none(), "CI has Python");
        println!("not judged: there is no python3");
        return;
    };
    let found = compare(
        &drawn,
        &answers,
        |pattern| Dfa::from_pattern(Dialect::Python.pattern(pattern), &Limits::default()),
        // Look-behind is of one length in Python.
        |_, why| {
            let known = ["look-behind requires", "redefinition of group name"];
            known.into_iter().find(|known| why.starts_with(known))
        },
        |error| {
            matches!(
                error,
                RegexError::Unsupported {
                    construct: Construct::BackReference
                        | Construct::Condition
                        | Construct::Atomic
                        | Construct::AheadInBehind
                        | Construct::Escape,
                    ..
                }
            ) || ["surrogates", "POSIX"].iter().any(|known| reason(error).contains(known))
        },
        // Until 3.13, `\B` did not match the empty text.
        |pattern, text| text.is_empty() && pattern.contains(r"\B") && version < (3, 14),
    );
    assert!(found.accepted > found.compared / 50);
}

/// What ECMA-262 has of its own, or reads in its own way, and what it refuses.
fn ecma_piece() -> impl Strategy<Value = &'static str> {
    select(vec![
        "a",
        "b",
        "A",
        "1",
        "_",
        "-",
        "é",
        "\n",
        "<",
        ".",
        r"\.",
        r"\/",
        r"\d",
        r"\D",
        r"\w",
        r"\W",
        r"\s",
        r"\S",
        r"\n",
        r"\cJ",
        r"\x41",
        r"\u0061",
        r"\u{61}",
        r"\ud83d\ude00",
        r"\0",
        "[ab]",
        "[^a]",
        "[^]",
        "[[]",
        "[a&&b]",
        "[a-c]",
        "[a-]",
        r"[^\w-]",
        r"[\b]",
        r"[\s\S]",
        "[+--]",
        r"\p{L}",
        r"\P{L}",
        r"\p{Lu}",
        r"\p{gc=Nd}",
        r"\p{Letter}",
        r"\p{Script=Greek}",
        r"\p{sc=Han}",
        r"[\p{L}_]",
        r"\p{Alphabetic}",
        r"\p{Extended_Pictographic}",
        "^",
        "$",
        r"\b",
        r"\B",
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?<!a)",
        r"(?<=\b)",
        "(?=.*b)",
        "(?!.*b$)",
        "(?:a|b)",
        "(a)",
        "(?<n>a)",
        "a{2}",
        "a{1,}",
        "(?:a(?=b)|b)",
        "(?:(?!a).)",
        "(?:\\ba|-)",
        // What is refused by one side or by both.
        r"\1",
        "a**",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "a{,2}",
        "[b-a]",
        r"[a-\d]",
        r"\q",
        r"\A",
        "(?i)",
        "(?>a)",
        "*",
        r"\p{Greek}",
        r"\p{Nope}",
        r"\pL",
        "(?=a)*",
        r"\ud83d",
        "(?P<n>a)",
        r"\-",
    ])
}

#[test]
fn ecma_agrees() {
    let cases = std::env::var("UNSKEW_CASES").map_or(1_000, |cases| cases.parse().unwrap());
    let mut runner =
        TestRunner::new_with_rng(Config::default(), TestRng::from_seed(Default::default(), &[5; 32]));
    let times = || prop_oneof![3 => Just(""), 1 => select(vec!["*", "+", "?", "{2}", "{0,2}", "*?", "+?"])];
    let sequence = prop::collection::vec((ecma_piece(), times()), 0..4);
    let pattern = prop::collection::vec(sequence, 1..3).boxed();
    let mut draw = || {
        let (ways, texts) =
            (pattern.clone(), prop::collection::vec(text(), 20)).new_tree(&mut runner).unwrap().current();
        let way = |way: &Vec<(&str, &str)>| {
            way.iter().map(|(item, times)| format!("{item}{times}")).collect::<String>()
        };
        let short = ["", "a", "ab", "ba", "α", "日", "😀", "\u{2028}", "b\n"].map(str::to_owned);
        (
            ways.iter().map(way).collect::<Vec<_>>().join("|"),
            short.into_iter().chain(texts).collect::<Vec<_>>(),
        )
    };
    let drawn: Vec<(String, Vec<String>)> = (0..cases).map(|_| draw()).collect();
    let Some((_, answers)) = judged(["node", "-e", ECMA_JUDGE], &drawn) else {
        println!("not judged: there is no node");
        return;
    };
    compare(
        &drawn,
        &answers,
        |pattern| DfaAlgebra::new(&Limits::default()).search(Dialect::Ecma.pattern(pattern)),
        // Braces are characters, and some constructs of other dialects are read.
        |pattern, _| {
            let known = ["{", "}", "]", r"\A", "(?i)", "(?>", "(?P<", r"\-", r"[^\w-]", "(?<n>"];
            known.into_iter().find(|known| pattern.contains(known))
        },
        |error| {
            matches!(
                error,
                RegexError::Unsupported {
                    construct: Construct::BackReference | Construct::AheadInBehind | Construct::Script,
                    ..
                }
            ) || reason(error).contains("surrogates")
        },
        |_, _| false,
    );
}

/// A text, and whether each dialect accepts it; `None` where the dialect refuses the pattern.
#[test]
fn one_text_has_the_meaning_of_its_dialect() {
    let dialects = [Dialect::Python, Dialect::Rust, Dialect::Ecma, Dialect::Xgrammar];
    let rows: [(&str, &str, [Option<bool>; 4]); 21] = [
        (r"\<think\>", "<think>", [Some(true), Some(false), Some(true), Some(true)]),
        ("[+--]", ",", [Some(true), Some(false), Some(true), Some(true)]),
        ("[a&&b]", "&", [Some(true), Some(false), Some(true), Some(true)]),
        ("[[a]", "[", [Some(true), None, Some(true), Some(true)]),
        (r#"{"a": \d}"#, r#"{"a": 1}"#, [Some(true), None, Some(true), None]),
        ("a{,3}", "aa", [Some(true), None, Some(false), None]),
        ("a++a", "aa", [Some(false), Some(true), None, Some(true)]),
        (r"\d", "٣", [Some(true), Some(true), Some(false), Some(false)]),
        (r"\w", "½", [Some(true), Some(false), Some(false), Some(false)]),
        (r"\s", "\u{1c}", [Some(true), Some(false), Some(false), Some(false)]),
        (".", "\n", [Some(false), Some(false), Some(false), Some(true)]),
        (".", "\u{2028}", [Some(true), Some(true), Some(false), Some(true)]),
        ("a$\n?", "a\n", [Some(true), Some(false), Some(false), None]),
        ("(?i)i", "ı", [Some(true), Some(false), Some(false), Some(false)]),
        ("(?i)k", "\u{212a}", [Some(true), Some(true), Some(true), Some(false)]),
        (r"a\Z", "a", [Some(true), None, None, None]),
        (r"(?a)\w", "é", [Some(false), None, None, None]),
        ("(?#b)a", "a", [Some(true), None, None, None]),
        (r"\p{Script=Han}", "日", [Some(true), Some(true), Some(true), None]),
        (r"\/", "/", [Some(true), Some(true), Some(true), Some(true)]),
        (r"[^\x00-\ud7ff\ue000-\uffff]", "\u{e000}", [Some(false), Some(true), Some(false), Some(false)]),
    ];
    for (pattern, text, expected) in rows {
        let found =
            dialects.map(|dialect| match Dfa::from_pattern(dialect.pattern(pattern), &Limits::default()) {
                Ok(dfa) => Some(dfa.accepts(text.as_bytes())),
                Err(RegexError::MatchesNothing) => Some(false),
                Err(_) => None,
            });
        assert_eq!(found, expected, "{pattern:?} {text:?}");
    }
}
