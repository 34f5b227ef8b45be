//! The cases: a command and its files, by a number.
//!
//! Three sources: shapes that are known to be hard (long chains of empty parts, deep nests, wide lists, ambiguity,
//! products of repetitions, numbers at the edges of their types), scraps of syntax in random order, and good files with
//! damage.

use std::path::Path;

use super::random::Random;

/// The kinds of input.
pub(crate) const KINDS: [&str; 10] =
    ["regex", "lark", "gbnf", "ebnf", "schema", "tokenizer", "table", "checkpoint", "set", "flags"];

pub(crate) struct Case {
    /// Index of [`KINDS`].
    pub(crate) kind: usize,
    pub(crate) args: Vec<String>,
    pub(crate) files: Vec<(&'static str, Vec<u8>)>,
}

/// The case of this number.
pub(crate) fn case(number: u64, root: &Path) -> Case {
    let mut random = Random::new(number);
    let random = &mut random;
    let kind = (number % KINDS.len() as u64) as usize;
    let (mut args, files) = match KINDS[kind] {
        "regex" => constrained(random, "--regex-file", "r.txt", regex),
        "lark" => constrained(random, "--grammar", "g.lark", lark),
        "gbnf" => constrained(random, "--grammar", "g.gbnf", gbnf),
        "ebnf" => constrained(random, "--grammar", "g.ebnf", ebnf),
        "schema" => constrained(random, "--json-schema", "s.json", schema),
        "tokenizer" => tokenizer(random, root),
        "table" => table(random),
        "checkpoint" => checkpoint(random, root),
        "set" => set(random),
        _ => flags(random),
    };
    if matches!(KINDS[kind], "regex" | "lark" | "gbnf" | "ebnf" | "schema") && random.below(4) == 0 {
        args.push("--canonical".to_owned());
    }
    Case { kind, args, files }
}

type Command = (Vec<String>, Vec<(&'static str, Vec<u8>)>);

fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

/// A command with a constraint from a file.
fn constrained(
    random: &mut Random,
    option: &str,
    file: &'static str,
    make: fn(&mut Random) -> Vec<u8>,
) -> Command {
    let content = make(random);
    let content = if random.below(6) == 0 { damaged(random, content) } else { content };
    let mut args = match random.below(4) {
        0 => words(&["mask", "--list"]),
        1 => {
            let text = text(random, 400);
            words(&["check", "--text", &text])
        }
        2 => words(&["explain"]),
        _ => words(&["generate", "--sampler", "masked", "-n", "1", "--max-tokens", "12", "--seed", "1"]),
    };
    args.extend(words(&[option, file]));
    (args, vec![(file, content)])
}

/// A text without a zero byte.
fn text(random: &mut Random, most: usize) -> String {
    let scraps = [
        "a",
        "n",
        "+",
        "(",
        ")",
        "\"",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        "1",
        "é",
        "\u{202e}",
        "\u{1b}[2J",
        "😀",
        "\u{300}",
    ];
    (0..random.length(most)).map(|_| random.one_of(&scraps)).collect()
}

fn scraps(random: &mut Random, scraps: &[&str], most: usize) -> String {
    (0..random.length(most)).map(|_| random.one_of(scraps)).collect()
}

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    [&open.repeat(depth), inner, &close.repeat(depth)].concat()
}

fn regex(random: &mut Random) -> Vec<u8> {
    let n = random.length(500_000);
    let small = 1 + random.length(2_000);
    let text = match random.below(12) {
        0 => random.one_of(&["a?", "(a|)", "a?b?", "a*b*", "(a*)*", "a{0,3}", "[ab]?", "\\w?"]).repeat(n),
        1 => nested("(", "a", ")", n),
        2 => nested("(a|", "b", ")*", n.min(50_000)),
        3 => format!("\\w{{0,{small}}}x\\w{{0,{small}}}"),
        4 => format!("((a{{{small}}}){{{small}}}){{{small}}}"),
        5 => format!("(?s).*{}(?s).*", "[^a]{2}".repeat(small)),
        6 => (0..small).map(|i| format!("w{i}|")).collect::<String>() + "end",
        7 => format!("(a|b)*a(a|b){{{}}}", small.min(200)),
        8 => ["\\p{L}", "\\p{Han}", "[^\\x00-\\x7f]", "\\pM"]
            .map(|class| format!("{class}{{1,{small}}}"))
            .concat(),
        9 => "[".to_owned() + &"a-z".repeat(n.min(100_000)) + "]",
        _ => {
            let all = [
                "a",
                "b",
                "(",
                ")",
                "|",
                "*",
                "+",
                "?",
                "{2,3}",
                "{9999999999}",
                "[",
                "]",
                "^",
                "$",
                "\\",
                ".",
                "(?i)",
                "(?=",
                "\\b",
                "\\1",
                "\\p{L}",
                "[^",
                "-",
                "é",
                "\\u{10ffff}",
                "{,",
                "(?P<n>",
            ];
            scraps(random, &all, 300)
        }
    };
    text.into_bytes()
}

/// Written alike in the three notations of grammars.
const OPERATORS: &[&str] = &["\n", "a", "(", ")", "|", "?", "*", "+"];

fn lark(random: &mut Random) -> Vec<u8> {
    let n = random.length(50_000);
    let small = 1 + random.length(500);
    let text = match random.below(10) {
        0 => "start: start \"+\" start | start \"*\" start | \"n\" | \"(\" start \")\"".to_owned(),
        1 => "start: s\ns: s s | s s s | \"a\" |".to_owned(),
        2 => format!("start: {}", nested("(", "\"a\"", ")", n)),
        3 => format!("start: {}", "\"a\"? ".repeat(n)),
        4 => {
            (0..small)
                .map(|i| format!("r{i}: r{} r{} | \"x\"\n", (i + 1) % small, (i * 7) % small))
                .collect::<String>()
                + "start: r0"
        }
        5 => format!("start: /{}/ \"x\"~{small}..{}", "a?".repeat(small), small * 1_000),
        6 => format!("start: \"{}\"", "\\u0061é".repeat(n)),
        7 => format!(
            "start: A{}\n{}",
            small - 1,
            (0..small)
                .map(|i| format!("A{i}: \"a\" | A{} A{}\n", i.saturating_sub(1), i.saturating_sub(1)))
                .collect::<String>()
        ),
        8 => format!("start: a*\na: {}\n%ignore /[ a]*/", "(\"a\" | /a+/) ".repeat(small)),
        _ => scraps(
            random,
            &[
                OPERATORS,
                &[
                    "start",
                    ": ",
                    "B",
                    "\"x\"",
                    "/y+/",
                    "[",
                    "]",
                    "~3",
                    "..",
                    "%ignore ",
                    "%import common.INT",
                    "<|endoftext|>",
                    "{",
                    "}",
                    "-> x",
                    "[lazy]",
                    "suffix=",
                    "//",
                    "\\",
                    "é",
                ],
            ]
            .concat(),
            300,
        ),
    };
    text.into_bytes()
}

fn gbnf(random: &mut Random) -> Vec<u8> {
    let n = random.length(50_000);
    let text = match random.below(6) {
        0 => format!("root ::= {}", nested("(", "\"a\"", ")", n)),
        1 => format!("root ::= [a-z]{{0,{n}}} root | \"\""),
        2 => format!("root ::= {}", "\"a\"? ".repeat(n)),
        3 => format!("root ::= (\"a\"{{{n}}}){{{n}}}"),
        4 => "root ::= root root | \"a\" | root".to_owned(),
        _ => scraps(
            random,
            &[OPERATORS, &["root", " ::= ", "\"x\"", "[a-z]", "[^", "]", "{3}", "{,", "}", "#", "\\x", "é"]]
                .concat(),
            300,
        ),
    };
    text.into_bytes()
}

fn ebnf(random: &mut Random) -> Vec<u8> {
    let n = random.length(50_000);
    let text = match random.below(4) {
        0 => format!("root ::= {}", nested("(", "'a'", ")", n)),
        1 => format!("root ::= {}", "'a'? ".repeat(n)),
        2 => format!("root ::= {}", "[#x20-#x10FFFF]* ".repeat(n.min(3_000))),
        _ => scraps(
            random,
            &[
                OPERATORS,
                &["root", " ::= ", "'x'", "[#x20-#xD7FF]", "[^", "]", " - ", "/*", "*/", "#x", "\\"],
            ]
            .concat(),
            300,
        ),
    };
    text.into_bytes()
}

fn schema(random: &mut Random) -> Vec<u8> {
    let n = random.length(20_000);
    let small = 1 + random.length(300);
    let text = match random.below(14) {
        0 => nested(r#"{"items":"#, "true", "}", n),
        1 => nested(r#"{"not":"#, "{}", "}", n.min(2_000)),
        2 => format!(r#"{{"enum":[{}0]}}"#, (0..n).map(|i| format!("\"v{i}\",")).collect::<String>()),
        3 => format!(
            r#"{{"type":"object","properties":{{{}"z":true}},"minProperties":{small}}}"#,
            (0..small).map(|i| format!("\"p{i}\":{{\"type\":\"string\"}},")).collect::<String>()
        ),
        4 => format!(
            r#"{{"const":1e{}}}"#,
            random.one_of(&["400", "-400", "999999999", "-999999999", "99999999999999999999"])
        ),
        5 => format!(
            r#"{{"type":"string","pattern":"{}"}}"#,
            String::from_utf8_lossy(&regex(random)).replace('\\', "\\\\").replace('"', "\\\"")
        ),
        6 => format!(
            r##"{{"$ref":"#/$defs/a0","$defs":{{{}"z":{{}}}}}}"##,
            (0..small)
                .map(|i| format!("\"a{i}\":{{\"$ref\":\"#/$defs/a{}\"}},", (i + 1) % small))
                .collect::<String>()
        ),
        7 => format!(
            r##"{{"anyOf":[{}false]}}"##,
            r##"{"allOf":[{"$ref":"#"},{"type":"array"}]},"##.repeat(small)
        ),
        8 => format!(
            r#"{{"type":"array","uniqueItems":true,"items":{{"type":"integer","minimum":0,"maximum":{n}}},"minItems":{small}}}"#
        ),
        9 => format!(r#"{{"type":"number","multipleOf":1e-{small},"minimum":{n},"maximum":1e{small}}}"#),
        10 => format!(
            r#"{{"type":"string","minLength":{n},"maxLength":{}}}"#,
            random.one_of(&["3", "99999", "1e30", "18446744073709551616", "-1", "1.5"])
        ),
        11 => format!(
            r#"{{"patternProperties":{{{}"z":true}},"additionalProperties":false}}"#,
            (0..small.min(60)).map(|i| format!("\"^a.*{i}\":{{\"minimum\":{i}}},")).collect::<String>()
        ),
        12 => "[".repeat(n),
        _ => {
            let all = [
                "{",
                "}",
                "[",
                "]",
                ",",
                ":",
                "\"type\"",
                "\"object\"",
                "\"string\"",
                "\"properties\"",
                "\"required\"",
                "\"allOf\"",
                "\"anyOf\"",
                "\"$ref\"",
                "\"#\"",
                "\"if\"",
                "\"then\"",
                "1",
                "-1e999",
                "true",
                "null",
                "\"\\ud800\"",
                "\"pattern\"",
                "\"(\"",
                " ",
            ];
            scraps(random, &all, 200)
        }
    };
    text.into_bytes()
}

/// Some bytes of a good file changed, left out, or repeated.
fn damaged(random: &mut Random, mut content: Vec<u8>) -> Vec<u8> {
    for _ in 0..1 + random.below(4) {
        if content.is_empty() {
            break;
        }
        let at = random.below(content.len());
        match random.below(5) {
            0 => content[at] = random.next() as u8,
            1 => content[at] ^= 1 << random.below(8),
            2 => content.truncate(at),
            3 => {
                let end = (at + random.length(64)).min(content.len());
                content.drain(at..end);
            }
            _ => {
                let end = (at + random.length(64)).min(content.len());
                let part = content[at..end].to_vec();
                content.splice(at..at, part);
            }
        }
    }
    content
}

fn embedded(root: &Path, name: &str) -> Vec<u8> {
    std::fs::read(root.join("crates/tiny-model/model").join(name)).unwrap_or_default()
}

fn tokenizer(random: &mut Random, root: &Path) -> Command {
    let good = embedded(root, "tokenizer.json");
    let content = match random.below(4) {
        0 => {
            // As many added tokens as there is patience for.
            let many = random.length(100_000);
            let added: String = (0..many)
                .map(|i| format!(r#"{{"id":{},"content":"<extra_{i}>","single_word":false,"lstrip":false,"rstrip":false,"normalized":{},"special":{}}},"#, 1_000_000 + i, i % 2 == 0, i % 3 == 0))
                .collect();
            let text = String::from_utf8_lossy(&good).into_owned();
            text.replacen("\"added_tokens\":[", &format!("\"added_tokens\":[{added}"), 1)
                .replacen("\"added_tokens\": [", &format!("\"added_tokens\": [{added}"), 1)
                .into_bytes()
        }
        1 => {
            let patterns = ["(a*)*b", "(?=a)", "\\\\p{L}{0,99999}", "[", "(?<=x)y", ""];
            let pattern = random.one_of(&patterns);
            let text = String::from_utf8_lossy(&good).into_owned();
            let split = format!(
                r#""pre_tokenizer":{{"type":"Split","pattern":{{"Regex":"{pattern}"}},"behavior":"Isolated","invert":false}},"x":"#
            );
            text.replacen("\"pre_tokenizer\":", &split, 1).into_bytes()
        }
        _ => damaged(random, good),
    };
    let mut args = words(&["check", "--tokenizer", "t.json", "--text", "a b <extra_3> ab"]);
    if random.below(2) == 0 {
        args.push("--canonical".to_owned());
    }
    (args, vec![("t.json", content)])
}

fn table(random: &mut Random) -> Command {
    let n = random.length(20_000);
    let good = r#"{"tokens":["0","1"],"eos":2,"default":[0.45,0.45,0.10],"contexts":{"":[0.5,0.5,0.0],"0 0":[0.9,0.05,0.05]}}"#;
    let content = match random.below(6) {
        0 => format!(r#"{{"tokens":[{}"z"],"eos":{},"default":[]}}"#, "\"a\",".repeat(n), n + 1),
        1 => good.replace("0.45", random.one_of(&["1e999", "-0.5", "NaN", "1e-320", "null", "\"x\""])),
        2 => good.replace(
            "\"eos\":2",
            random.one_of(&["\"eos\":-1", "\"eos\":99999999999", "\"eos\":0", "\"end\":2"]),
        ),
        3 => "[".repeat(n),
        4 => good.to_owned(),
        _ => String::from_utf8_lossy(&damaged(random, good.as_bytes().to_vec())).into_owned(),
    };
    let model = if random.below(12) == 0 { "table:/dev/zero" } else { "table:t.json" };
    let args = words(&["generate", "--model", model, "--sampler", "masked", "-n", "2", "--max-tokens", "8"]);
    (args, vec![("t.json", content.into_bytes())])
}

fn checkpoint(random: &mut Random, root: &Path) -> Command {
    let mut config = embedded(root, "draft/config.json");
    let mut tokenizer = embedded(root, "tokenizer.json");
    let mut weights = embedded(root, "draft/model.safetensors");
    match random.below(4) {
        0 => config = damaged(random, config),
        1 => {
            // The header says where the tensors are.
            let header = weights.len().min(4_096);
            let tail = weights.split_off(header);
            weights = damaged(random, weights);
            weights.extend(tail);
        }
        2 => {
            let text = String::from_utf8_lossy(&config).into_owned();
            let digits: Vec<usize> =
                text.match_indices(|c: char| c.is_ascii_digit()).map(|(at, _)| at).collect();
            let at = if digits.is_empty() { 0 } else { random.one_of(&digits) };
            let number = random.one_of(&["99999999999", "-1", "0", "1e308", "7"]);
            config = [&text[..at], number, &text[(at + 1).min(text.len())..]].concat().into_bytes();
        }
        _ => tokenizer = damaged(random, tokenizer),
    }
    let args = words(&["generate", "--model", "m", "--sampler", "masked", "-n", "1", "--max-tokens", "3"]);
    (args, vec![("m/config.json", config), ("m/tokenizer.json", tokenizer), ("m/model.safetensors", weights)])
}

fn set(random: &mut Random) -> Command {
    let mut lines = Vec::new();
    for _ in 0..random.length(2_000) {
        let line = match random.below(5) {
            0 => random.next().to_le_bytes()[..random.below(8)].to_vec(),
            1 => b"common beginning ".repeat(1 + random.length(40)),
            _ => text(random, 30).into_bytes(),
        };
        lines.extend(line);
        lines.push(if random.below(30) == 0 { 0 } else { b'\n' });
    }
    let args = match random.below(4) {
        0 => words(&[
            "set",
            "build",
            "items.txt",
            "-o",
            random.one_of(&["out.set", "items.txt", "/dev/null", ".", "no/such/out.set"]),
        ]),
        1 => words(&["set", "info", "items.txt"]),
        2 => words(&["check", "--set", "items.txt", "--text", "common beginning "]),
        _ => words(&["mask", "--list", "--exclude-set", "items.txt", "--prefix", "common"]),
    };
    (args, vec![("items.txt", lines)])
}

/// A sampler and the numbers that it reads.
const SAMPLERS: [(&str, &[&str]); 11] = [
    ("auto", &["--temperature"]),
    ("masked", &["--temperature", "--batch"]),
    ("rejection", &["tries", "--temperature"]),
    ("ars", &["tries"]),
    ("cars", &["tries"]),
    ("disc", &["k", "top_m"]),
    ("asap", &["iterations"]),
    ("smc", &["n", "threshold"]),
    ("mcmc", &["steps"]),
    ("beam", &["n"]),
    ("mentored", &["kl", "length"]),
];

fn flags(random: &mut Random) -> Command {
    let values = [
        "0",
        "1",
        "3",
        "1000",
        "-1",
        "1000000000",
        "18446744073709551615",
        "18446744073709551616",
        "1e-320",
        "0.5",
        "nan",
        "inf",
        "",
        "\u{202e}",
    ];
    let (sampler, options) = random.one_of(&SAMPLERS);
    let mut args = words(&["generate", "--regex", "[ab]{1,4}", "--seed", "1", "--sampler"]);
    let option = if random.below(3) == 0 {
        random.one_of(&["-n", "--max-tokens", "--top-k", "--with", "--nonsense"])
    } else {
        random.one_of(options)
    };
    let value = random.one_of(&values);
    match option.starts_with('-') {
        true => args.extend(words(&[sampler, option, value])),
        false => args.push(format!("{sampler}:{option}={value}")),
    }
    for (option, value) in [("-n", "1"), ("--max-tokens", "6")] {
        if !args.iter().any(|arg| arg == option) {
            args.extend(words(&[option, value]));
        }
    }
    (args, Vec::new())
}
