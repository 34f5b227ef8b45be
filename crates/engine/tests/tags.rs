//! Structural tags beside a slow reader of texts, on random tags and texts; and the parts that randomness does not reach.

mod common;

use std::{collections::BTreeSet, sync::Arc};

use common::{Random, bytes};
use unskew_core::TokenId;
use unskew_engine::{Compiler, Error, Matcher, Spec, TokenSpace};

/// A format, as the oracle reads it.
#[derive(Clone, Debug)]
enum Format {
    Const(String),
    Any {
        excludes: Vec<String>,
        max_chars: Option<usize>,
    },
    /// One digit or more.
    Digits,
    Sequence(Vec<Format>),
    Or(Vec<Format>),
    Repeat(usize, Option<usize>, Box<Format>),
    Tag(Box<Tag>),
    Triggered {
        triggers: Vec<String>,
        tags: Vec<Tag>,
        excludes: Vec<String>,
        at_least_one: bool,
        stop_after_first: bool,
    },
    Separated {
        tags: Vec<Tag>,
        separator: String,
        at_least_one: bool,
        stop_after_first: bool,
    },
    Dispatch {
        rules: Vec<(String, Format)>,
        excludes: Vec<String>,
        loops: bool,
    },
}

#[derive(Clone, Debug)]
struct Tag {
    begin: String,
    content: Format,
    ends: Vec<String>,
}

/// The places where something may end.
type Places = BTreeSet<usize>;

/// Those of one after the other, from each of `from`.
fn then(from: &Places, read: impl Fn(usize) -> Places) -> Places {
    from.iter().flat_map(|at| read(*at)).collect()
}

/// From `from`, any number of times.
fn many(from: Places, read: impl Fn(usize) -> Places) -> Places {
    let (mut all, mut open) = (from.clone(), from);
    while !open.is_empty() {
        let next = then(&open, &read);
        open = next.difference(&all).copied().collect();
        all.extend(&open);
    }
    all
}

fn literal(text: &str, at: usize, of: &str) -> Places {
    if text[at..].starts_with(of) { [at + of.len()].into() } else { [].into() }
}

fn contains(text: &str, excludes: &[&[String]]) -> bool {
    excludes.iter().any(|list| list.iter().any(|excluded| text.contains(excluded.as_str())))
}

impl Tag {
    fn read(&self, text: &str, at: usize) -> Places {
        then(&literal(text, at, &self.begin), |at| self.read_rest(text, at))
    }

    fn read_rest(&self, text: &str, at: usize) -> Places {
        let excluded: Vec<String> = self.ends.iter().filter(|end| !end.is_empty()).cloned().collect();
        then(&self.content.read(text, at, &excluded), |at| {
            self.ends.iter().flat_map(|end| literal(text, at, end)).collect()
        })
    }

    fn json(&self) -> String {
        let end = match &self.ends[..] {
            [end] => format!("{end:?}"),
            ends => format!("{ends:?}"),
        };
        format!(r#"{{"type":"tag","begin":{:?},"content":{},"end":{end}}}"#, self.begin, self.content.json())
    }
}

/// Free text from `at` on up to each first trigger: the trigger, and the place behind it.
fn triggers(text: &str, at: usize, triggers: &[String], excludes: &[&[String]]) -> Option<(String, usize)> {
    // The first place where one ends; of several the longest.
    let end =
        (at + 1..=text.len()).find(|end| triggers.iter().any(|t| text[at..*end].ends_with(t.as_str())))?;
    let longest = triggers.iter().filter(|t| text[at..end].ends_with(t.as_str())).max_by_key(|t| t.len())?;
    (!contains(&text[at..end], excludes)).then(|| (longest.clone(), end))
}

/// Free text to its end.
fn free(text: &str, at: usize, excludes: &[&[String]]) -> Places {
    (at..=text.len()).filter(|end| !contains(&text[at..*end], excludes)).collect()
}

impl Format {
    fn read(&self, text: &str, at: usize, ends: &[String]) -> Places {
        match self {
            Self::Const(of) => literal(text, at, of),
            Self::Any { excludes, max_chars } => {
                let all = free(text, at, &[excludes, ends]);
                all.into_iter().filter(|end| max_chars.is_none_or(|max| end - at <= max)).collect()
            }
            Self::Digits => {
                let digits = text[at..].bytes().take_while(u8::is_ascii_digit).count();
                (at + 1..=at + digits).collect()
            }
            Self::Sequence(parts) => {
                parts.iter().fold([at].into(), |from, part| then(&from, |at| part.read(text, at, ends)))
            }
            Self::Or(parts) => parts.iter().flat_map(|part| part.read(text, at, ends)).collect(),
            Self::Repeat(min, max, item) => {
                let read = |at| item.read(text, at, ends);
                let mut from: Places = [at].into();
                for _ in 0..*min {
                    from = then(&from, read);
                }
                match max {
                    None => many(from, read),
                    Some(max) => {
                        let mut all = from.clone();
                        for _ in *min..*max {
                            from = then(&from, read);
                            all.extend(&from);
                        }
                        all
                    }
                }
            }
            Self::Tag(tag) => tag.read(text, at),
            Self::Triggered { triggers: all, tags, excludes, at_least_one, stop_after_first } => {
                let behind = |at| {
                    let found = triggers(text, at, all, &[excludes, ends]);
                    found.map_or([].into(), |(trigger, at)| {
                        let tags = tags.iter().filter(|tag| tag.begin.starts_with(&trigger));
                        tags.flat_map(|tag| {
                            then(&literal(text, at, &tag.begin[trigger.len()..]), |at| {
                                tag.read_rest(text, at)
                            })
                        })
                        .collect()
                    })
                };
                let tail = |at| free(text, at, &[excludes, ends, all]);
                if *at_least_one {
                    let first = tags.iter().flat_map(|tag| tag.read(text, at)).collect();
                    return if *stop_after_first { first } else { then(&many(first, behind), tail) };
                }
                match stop_after_first {
                    false => then(&many([at].into(), behind), tail),
                    true => behind(at).union(&tail(at)).copied().collect(),
                }
            }
            Self::Separated { tags, separator, at_least_one, stop_after_first } => {
                let any = |at| -> Places { tags.iter().flat_map(|tag| tag.read(text, at)).collect() };
                let first = any(at);
                let mut all = match stop_after_first {
                    true => first,
                    false => many(first, |at| then(&literal(text, at, separator), any)),
                };
                if !at_least_one {
                    all.insert(at);
                }
                all
            }
            Self::Dispatch { rules, excludes, loops } => {
                let all: Vec<String> = rules.iter().map(|(trigger, _)| trigger.clone()).collect();
                let behind = |at| {
                    let found = triggers(text, at, &all, &[excludes]);
                    found.map_or([].into(), |(trigger, at)| {
                        let of = rules.iter().filter(|(other, _)| *other == trigger);
                        of.flat_map(|(_, format)| format.read(text, at, ends)).collect()
                    })
                };
                let tail = |at| free(text, at, &[excludes, &all]);
                match loops {
                    true => then(&many([at].into(), behind), tail),
                    false => behind(at).union(&tail(at)).copied().collect(),
                }
            }
        }
    }

    fn json(&self) -> String {
        let list = |parts: &[Self]| parts.iter().map(Self::json).collect::<Vec<_>>().join(",");
        let tags = |tags: &[Tag]| tags.iter().map(Tag::json).collect::<Vec<_>>().join(",");
        match self {
            Self::Const(value) => format!(r#"{{"type":"const_string","value":{value:?}}}"#),
            Self::Any { excludes, max_chars: None } => {
                format!(r#"{{"type":"any_text","excludes":{excludes:?}}}"#)
            }
            Self::Any { excludes, max_chars: Some(max) } => {
                format!(r#"{{"type":"any_text","excludes":{excludes:?},"max_chars":{max}}}"#)
            }
            Self::Digits => r#"{"type":"regex","pattern":"[0-9]+"}"#.to_owned(),
            Self::Sequence(parts) => format!(r#"{{"type":"sequence","elements":[{}]}}"#, list(parts)),
            Self::Or(parts) => format!(r#"{{"type":"or","elements":[{}]}}"#, list(parts)),
            Self::Repeat(0, Some(1), item) => format!(r#"{{"type":"optional","content":{}}}"#, item.json()),
            Self::Repeat(1, None, item) => format!(r#"{{"type":"plus","content":{}}}"#, item.json()),
            Self::Repeat(0, None, item) => format!(r#"{{"type":"star","content":{}}}"#, item.json()),
            Self::Repeat(min, max, item) => {
                let max = max.map_or(-1, |max| i64::try_from(max).unwrap());
                format!(r#"{{"type":"repeat","min":{min},"max":{max},"content":{}}}"#, item.json())
            }
            Self::Tag(tag) => tag.json(),
            Self::Triggered { triggers, tags: all, excludes, at_least_one, stop_after_first } => format!(
                r#"{{"type":"triggered_tags","triggers":{triggers:?},"tags":[{}],"excludes":{excludes:?},"at_least_one":{at_least_one},"stop_after_first":{stop_after_first}}}"#,
                tags(all)
            ),
            Self::Separated { tags: all, separator, at_least_one, stop_after_first } => format!(
                r#"{{"type":"tags_with_separator","tags":[{}],"separator":{separator:?},"at_least_one":{at_least_one},"stop_after_first":{stop_after_first}}}"#,
                tags(all)
            ),
            Self::Dispatch { rules, excludes, loops } => {
                let rules = rules.iter().map(|(trigger, format)| format!("[{trigger:?},{}]", format.json()));
                format!(
                    r#"{{"type":"dispatch","rules":[{}],"excludes":{excludes:?},"loop":{loops}}}"#,
                    rules.collect::<Vec<_>>().join(",")
                )
            }
        }
    }

    /// A text that it might have, or nearly.
    fn text(&self, random: &mut Random, into: &mut String) {
        match self {
            Self::Const(of) => into.push_str(of),
            Self::Any { .. } => noise(random, into),
            Self::Digits => into.push_str(random.text(&["1", "12", "20"])),
            Self::Sequence(parts) => parts.iter().for_each(|part| part.text(random, into)),
            Self::Or(parts) => random.pick(parts).text(random, into),
            Self::Repeat(min, max, item) => {
                let most = max.unwrap_or(min + 2).min(min + 2);
                for _ in 0..min + random.below(most - min + 1) {
                    item.text(random, into);
                }
            }
            Self::Tag(tag) => tag.text(random, into),
            Self::Triggered { tags, at_least_one, .. } => {
                if !at_least_one {
                    noise(random, into);
                }
                for _ in 0..random.below(3) {
                    random.pick(tags).text(random, into);
                    if random.below(2) == 0 {
                        noise(random, into);
                    }
                }
            }
            Self::Separated { tags, separator, .. } => {
                for at in 0..random.below(3) {
                    if at > 0 {
                        into.push_str(separator);
                    }
                    random.pick(tags).text(random, into);
                }
            }
            Self::Dispatch { rules, .. } => {
                for _ in 0..random.below(3) {
                    noise(random, into);
                    let (trigger, format) = random.pick(rules);
                    into.push_str(trigger);
                    format.text(random, into);
                }
                noise(random, into);
            }
        }
    }
}

impl Tag {
    fn text(&self, random: &mut Random, into: &mut String) {
        into.push_str(&self.begin);
        self.content.text(random, into);
        into.push_str(random.pick(&self.ends[..]).as_str());
    }
}

const TEXTS: &[&str] = &["a", "b", "ab", "<", "<a", "<ab", ">", "a>", "ba", "aba", "<b", "b>", "aa"];

fn noise(random: &mut Random, into: &mut String) {
    for _ in 0..random.below(4) {
        into.push_str(random.text(&["a", "b", "<", ">", "ab", "1", "x"]));
    }
}

fn some_texts(random: &mut Random, least: usize, most: usize) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for _ in 0..least + random.below(most - least + 1) {
        let text = (*random.pick(TEXTS)).to_owned();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

fn tag(random: &mut Random, depth: usize, begin: Option<&str>) -> Tag {
    let begin = match begin {
        Some(trigger) => format!("{trigger}{}", random.pick(&["", "a", "b", ">"])),
        None => (*random.pick(TEXTS)).to_owned(),
    };
    Tag { begin, content: format(random, depth), ends: some_texts(random, 1, 2) }
}

fn format(random: &mut Random, depth: usize) -> Format {
    let kind = if depth == 0 { random.below(4) } else { random.below(14) };
    match kind {
        0 | 1 => Format::Const((*random.pick(TEXTS)).to_owned()),
        2 => Format::Any {
            excludes: some_texts(random, 0, 1),
            max_chars: if random.below(3) == 0 { Some(random.below(4)) } else { None },
        },
        3 => Format::Digits,
        4 | 5 => Format::Sequence((0..1 + random.below(3)).map(|_| format(random, depth - 1)).collect()),
        6 => Format::Or((0..1 + random.below(3)).map(|_| format(random, depth - 1)).collect()),
        7 => {
            let (min, max) =
                *random.pick(&[(0, Some(1)), (1, None), (0, None), (1, Some(2)), (2, None), (0, Some(0))]);
            Format::Repeat(min, max, Box::new(format(random, depth - 1)))
        }
        8 => Format::Separated {
            tags: (0..1 + random.below(2)).map(|_| tag(random, depth - 1, None)).collect(),
            separator: (*random.pick(&["", ",", "a", "<"])).to_owned(),
            at_least_one: random.below(2) == 0,
            stop_after_first: random.below(3) == 0,
        },
        9 => {
            let rules = some_texts(random, 1, 2);
            Format::Dispatch {
                rules: rules.into_iter().map(|trigger| (trigger, format(random, depth - 1))).collect(),
                excludes: some_texts(random, 0, 1),
                loops: random.below(3) > 0,
            }
        }
        10 | 11 => {
            let triggers = some_texts(random, 1, 2);
            let tags: Vec<Tag> = triggers
                .iter()
                .flat_map(|trigger| {
                    (0..1 + random.below(2))
                        .map(|_| tag(random, depth - 1, Some(trigger)))
                        .collect::<Vec<_>>()
                })
                .collect();
            Format::Triggered {
                triggers,
                tags,
                excludes: some_texts(random, 0, 1),
                at_least_one: random.below(3) == 0,
                stop_after_first: random.below(3) == 0,
            }
        }
        _ => Format::Tag(Box::new(tag(random, depth - 1, None))),
    }
}

/// Whether the matcher takes `text`, in a random spelling.
fn accepts(random: &mut Random, space: &TokenSpace, matcher: &mut Matcher, text: &str) -> bool {
    matcher.reset();
    let mut at = 0;
    while at < text.len() {
        let trie = space.trie().unwrap();
        let spellings: Vec<TokenId> = (at + 1..=text.len())
            .flat_map(|end| {
                let of = &text.as_bytes()[at..end];
                let ids = trie.beginning_with(of).iter().copied();
                ids.filter(|id| space.vocabulary().text(*id) == Some(of)).collect::<Vec<_>>()
            })
            .collect();
        let token = *random.pick(&spellings);
        if !matcher.accept(token).unwrap() {
            return false;
        }
        at += space.vocabulary().text(token).unwrap().len();
    }
    matcher.is_accepting()
}

fn spec(format: &str) -> Spec {
    Spec::structural_tag(format!(r#"{{"type":"structural_tag","format":{format}}}"#))
}

#[test]
fn random_tags_are_what_the_oracle_says() {
    let space = bytes();
    let compiler = Compiler::new(Arc::clone(&space));
    let (mut compiled, mut refused, mut taken, mut not_taken) = (0, 0, 0, 0);
    let mut random = Random::new(29);
    for _ in 0..800 {
        let depth = random.below(4);
        let format = format(&mut random, depth);
        let mut matcher = match compiler.compile(&spec(&format.json())) {
            Ok(compiled) => compiled.matcher(),
            Err(error) => {
                // Triggers that cannot fire, and texts that no word has.
                assert!(matches!(*error, Error::Constraint(_)), "{error}");
                let text = error.to_string();
                let is_known = ["can never fire", "several triggers", "accepts no text"]
                    .iter()
                    .any(|known| text.contains(known));
                assert!(is_known, "{text}: {}", format.json());
                refused += 1;
                continue;
            }
        };
        compiled += 1;
        for _ in 0..12 {
            let mut text = String::new();
            match random.below(5) {
                0 => noise(&mut random, &mut text),
                _ => format.text(&mut random, &mut text),
            }
            if random.below(4) == 0 && !text.is_empty() {
                text.remove(random.below(text.len()));
            }
            let expected = format.read(&text, 0, &[]).contains(&text.len());
            let found = accepts(&mut random, &space, &mut matcher, &text);
            assert_eq!(found, expected, "{text:?} {}", format.json());
            *if expected { &mut taken } else { &mut not_taken } += 1;
        }
    }
    assert!(compiled > 500 && taken > 1500 && not_taken > 700, "{compiled} {refused} {taken} {not_taken}");
}

fn check(tag: &str, taken: &[&str], refused: &[&str]) {
    let space = bytes();
    let compiled = Compiler::new(Arc::clone(&space))
        .compile(&spec(tag))
        .unwrap_or_else(|error| panic!("{tag}: {error}"));
    let (mut matcher, mut random) = (compiled.matcher(), Random::new(1));
    for (texts, expected) in [(taken, true), (refused, false)] {
        for text in texts {
            assert_eq!(accepts(&mut random, &space, &mut matcher, text), expected, "{tag}: {text:?}");
        }
    }
}

#[test]
fn schemas_grammars_and_expressions() {
    let tool = r#"{"type":"tag","begin":"<f1>","end":"</f>","content":{"type":"json_schema","max_whitespace_cnt":1,"json_schema":{"type":"object","properties":{"a":{"type":"integer"},"ab":{"enum":["</f>"]}},"required":["ab"],"additionalProperties":false}}}"#;
    check(
        &format!(r#"{{"type":"triggered_tags","triggers":["<f"],"tags":[{tool}]}}"#),
        &[
            "",
            "x <",
            "é<f1>{\"ab\":\"</f>\"}</f>",
            "a<f1>{ \"a\":12,\"ab\": \"</f>\"}</f> b <f1>{\"ab\":\"</f>\"}</f>",
        ],
        &["<f", "<f1>{}</f>", "<f1>{\"ab\":\"</f>\"}", "<f1>{  \"ab\":\"</f>\"}</f>", "<f2>"],
    );
    // The parts of a grammar have nothing to do with each other: names are their own.
    let grammar = r#"{"type":"sequence","elements":[{"type":"grammar","grammar":"root ::= \"(\" x \")\"\nx ::= [a-c]+"},{"type":"grammar","grammar":"root ::= \"[\" x* \"]\"\nx ::= \"(\" x? \")\""}]}"#;
    check(grammar, &["(abc)[]", "(a)[(())()]"], &["(a)[", "()[]", "(a)[(a)]"]);
    check(r#"{"type":"regex","pattern":"a+|b"}"#, &["aa", "b"], &["ab", ""]);
    // Members in any order.
    let any = r#"{"type":"json_schema","any_order":true,"json_schema":{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"required":["a"],"additionalProperties":false}}"#;
    check(any, &["{\"a\":1}", "{\"b\":2,\"a\":1}"], &["{\"b\":2}", "{\"a\":1,\"a\":1}"]);
}

#[test]
fn older_form() {
    let text = r#"{"structures":[{"begin":"<f1>","schema":{"const":1},"end":"</f>"},{"begin":"<f2>","schema":"{\"const\":2}","end":"</f>"}],"triggers":["<f"]}"#;
    let space = bytes();
    let (mut matcher, mut random) = (
        Compiler::new(Arc::clone(&space)).compile(&Spec::structural_tag(text)).unwrap().matcher(),
        Random::new(1),
    );
    for (text, expected) in [("a<f1>1</f>b<f2>2</f>", true), ("", true), ("<f1>2</f>", false)] {
        assert_eq!(accepts(&mut random, &space, &mut matcher, text), expected, "{text}");
    }
}

#[test]
fn control_tokens() {
    let space = bytes();
    let compiler = Compiler::new(Arc::clone(&space));
    let id = |name: &str| space.vocabulary().control_tokens().find(|(_, other)| other == name).unwrap().0;
    let (call, other, end) = (id("<|call|>"), id("<|other|>"), id("<end>"));
    let accepts = |tag: &str, tokens: &[TokenId]| {
        let mut matcher =
            compiler.compile(&spec(tag)).unwrap_or_else(|error| panic!("{tag}: {error}")).matcher();
        matcher.accept_all(tokens).unwrap() == tokens.len() && matcher.is_accepting()
    };
    let [a, b] = [TokenId(97), TokenId(98)];
    let token = format!(
        r#"{{"type":"sequence","elements":[{{"type":"token","token":{}}},{{"type":"token","token":"<|other|>"}}]}}"#,
        call.0
    );
    assert!(accepts(&token, &[call, other]) && !accepts(&token, &[call]) && !accepts(&token, &[a]));
    let any = r#"{"type":"any_tokens","exclude_tokens":["<|other|>"]}"#;
    assert!(accepts(any, &[]) && accepts(any, &[a, call, call, b]) && !accepts(any, &[a, other]));
    let tag = |content: &str| {
        format!(
            r#"{{"type":"tag","begin":{{"type":"token","token":"<|call|>"}},"content":{content},"end":{{"type":"token","token":"<|other|>"}}}}"#
        )
    };
    let inside = tag(r#"{"type":"any_tokens"}"#);
    assert!(accepts(&inside, &[call, a, call, other]) && !accepts(&inside, &[call, other, other]));
    let triggered = format!(
        r#"{{"type":"token_triggered_tags","trigger_tokens":["<|call|>"],"tags":[{}]}}"#,
        tag(r#"{"type":"const_string","value":"b"}"#)
    );
    assert!(accepts(&triggered, &[a, call, b, other, a]) && accepts(&triggered, &[other, a]));
    assert!(!accepts(&triggered, &[a, call, a, other]) && !accepts(&triggered, &[call]));
    let dispatch = r#"{"type":"token_dispatch","loop":false,"rules":[["<|call|>",{"type":"const_string","value":"b"}]],"exclude_tokens":["<|other|>"]}"#;
    assert!(accepts(dispatch, &[a, call, b]) && accepts(dispatch, &[a]));
    assert!(!accepts(dispatch, &[other]) && !accepts(dispatch, &[call, b, a]));
    // A token that ends the sequence is the end of the output.
    let ended = r#"{"type":"sequence","elements":[{"type":"const_string","value":"a"},{"type":"token","token":"<end>"}]}"#;
    assert!(accepts(ended, &[a]) && accepts(ended, &[a, end]));
}

#[test]
fn parameters_as_elements() {
    let schema = r##"{"type":"object","properties":{"s":{"type":"string","maxLength":3},"n":{"type":"integer"},"e":{"enum":["x<y",true]},"r":{"$ref":"#/$defs/r"},"l":{"type":["array","null"],"items":{"$ref":"#/$defs/r"}}},"required":["s","n"],"additionalProperties":false,"$defs":{"r":{"anyOf":[{"type":"boolean"},{"type":"string"}]}}}"##;
    let tag = |style: &str, more: &str| {
        format!(
            r#"{{"type":"json_schema","style":"{style}","max_whitespace_cnt":1{more},"json_schema":{schema}}}"#
        )
    };
    let p = |name: &str, value: &str| format!("<parameter={name}>{value}</parameter>");
    check(
        &tag("qwen_xml", ""),
        &[
            &(p("s", "a<b") + &p("n", "12")),
            &(p("s", " a ")
                + "\n"
                + &p("n", " 12 ")
                + &p("e", "x<y")
                + &p("r", "<")
                + &p("l", "[true, \"s\"]")
                + " "),
            &(p("s", "") + &p("n", "-1") + &p("e", "true") + &p("l", "null")),
        ],
        &[
            &p("s", "a"),
            &(p("n", "1") + &p("s", "a")),
            &(p("s", "four") + &p("n", "1")),
            &(p("s", "a") + &p("n", "1.5")),
            &(p("s", "a") + &p("n", "1") + &p("z", "1")),
            &(p("s", "a") + &p("n", "1") + &p("e", "\"x<y\"")),
        ],
    );
    check(
        &tag("qwen_xml", r#","any_order":true"#),
        &[&(p("n", "1") + &p("r", "true") + &p("s", "a"))],
        &[&p("n", "1")],
    );
    check(
        &tag("minimax_xml", ""),
        &["<parameter name=\"s\">a</parameter> <parameter name=\"n\">1</parameter>"],
        &[],
    );
    check(
        &tag("glm_xml", ""),
        &["<arg_key>s</arg_key>\n<arg_value>a</arg_value><arg_key>n</arg_key><arg_value>1</arg_value>"],
        &["<arg_key>s</arg_key>"],
    );
    let deepseek = |s: &str| {
        format!(
            "<\u{ff5c}DSML\u{ff5c}parameter name=\"s\" string=\"true\">a</\u{ff5c}DSML\u{ff5c}parameter><\u{ff5c}DSML\u{ff5c}parameter name=\"n\" string=\"{s}\">1</\u{ff5c}DSML\u{ff5c}parameter>"
        )
    };
    check(&tag("deepseek_xml", ""), &[&deepseek("false")], &[&deepseek("true")]);
    let spaced = deepseek("false").replace("\u{ff5c}parameter", "\u{ff5c} parameter");
    check(&tag("deepseek_v4_1_xml", ""), &[&spaced], &[&deepseek("false")]);
    let kimi = |of: &str| {
        format!(
            "<|open|>argument key=\"s\" type=\"string\"<|sep|>a<|close|>argument<|sep|><|open|>argument key=\"n\" type=\"{of}\"<|sep|>1<|close|>argument<|sep|>"
        )
    };
    check(&tag("kimi_k3_xml", ""), &[&kimi("number")], &[&kimi("string")]);
    check(
        r#"{"type":"qwen_xml_parameter","json_schema":{"type":"object","properties":{"s":{}},"required":["s"]}}"#,
        &[&p("s", "any <x> text")],
        &[&p("s", "</parameter>x")],
    );
}

#[test]
fn errors_name_their_place() {
    let compiler = Compiler::new(bytes());
    for (tag, pointer, message) in [
        (r#"{"type":"const_strin","value":"a"}"#, "/format", "no format"),
        (r#"{"type":"const_string","value":"a","valu":"b"}"#, "/format/valu", "no field"),
        (r#"{"type":"const_string","value":"a","value":"b"}"#, "/format", "comes twice"),
        (r#"{"type":"const_string"}"#, "/format", "`value` is missing"),
        (
            r#"{"type":"sequence","elements":[{"type":"or","elements":[]}]}"#,
            "/format/elements/0/elements",
            "at least one",
        ),
        (r#"{"type":"any_text","max_tokens":3}"#, "/format/max_tokens", "use `max_chars`"),
        (r#"{"type":"any_text","excludes":[""]}"#, "/format/excludes", "empty text"),
        (r#"{"type":"exclude_token","exclude_tokens":[]}"#, "/format", "one token of any text"),
        (r#"{"type":"token","token":97}"#, "/format/token", "has a text"),
        (r#"{"type":"token","token":"<|nobody|>"}"#, "/format/token", "no control token"),
        (r#"{"type":"token","token":100000}"#, "/format/token", "no token 100000"),
        (r#"{"type":"regex","pattern":"("}"#, "/format/pattern", "unclosed"),
        (r#"{"type":"grammar","grammar":"root ::= x"}"#, "/format/grammar", "x"),
        (r#"{"type":"json_schema","json_schema":{"type":"strin"}}"#, "/format/json_schema", "name of a type"),
        (r#"{"type":"json_schema","json_schema":true,"excludes":["a"]}"#, "/format/excludes", "not excluded"),
        (
            r#"{"type":"json_schema","json_schema":{"type":"object"},"style":"cohere_xml"}"#,
            "/format/style",
            "not supported",
        ),
        (
            r#"{"type":"json_schema","json_schema":{"properties":{"a":{"type":"string","format":"date"}}},"style":"qwen_xml"}"#,
            "/format/json_schema/properties/a/format",
            "does not enforce",
        ),
        (
            r#"{"type":"json_schema","json_schema":{"properties":{},"minProperties":1},"style":"qwen_xml"}"#,
            "/format/json_schema/minProperties",
            "does not enforce",
        ),
        (
            r##"{"type":"json_schema","json_schema":{"properties":{"a":{"type":"array","items":{"$ref":"#/properties/a"}}}},"style":"qwen_xml"}"##,
            "/format/json_schema/properties/a",
            "leads out of",
        ),
        (r#"{"type":"repeat","min":3,"max":2,"content":{"type":"any_text"}}"#, "/format", "less than"),
        (
            r#"{"type":"repeat","min":3000000,"max":-1,"content":{"type":"any_text"}}"#,
            "/format",
            "repetitions",
        ),
        (
            r#"{"type":"triggered_tags","triggers":["a"],"tags":[{"type":"tag","begin":"b","content":{"type":"any_text"},"end":"c"}]}"#,
            "/format/tags/0",
            "begins with no trigger",
        ),
        (
            r#"{"type":"triggered_tags","triggers":["a","b"],"tags":[{"type":"tag","begin":"b","content":{"type":"any_text"},"end":"c"}]}"#,
            "/format",
            "no tag begins with",
        ),
        (
            r#"{"type":"dispatch","rules":[["a",{"type":"any_text"}],["ab",{"type":"any_text"}]]}"#,
            "/format",
            "can never fire",
        ),
    ] {
        let error = compiler.compile(&spec(tag)).expect_err(tag).to_string();
        let place = format!("structural tag, {pointer}: ");
        assert!(error.starts_with(&place) && error.contains(message), "{tag}: {error}");
    }
    // Deep nesting ends in an error, and in time.
    let mut deep = r#"{"type":"any_text"}"#.to_owned();
    for _ in 0..1000 {
        deep = format!(r#"{{"type":"star","content":{deep}}}"#);
    }
    assert!(compiler.compile(&spec(&deep)).is_err());
    let wrong = [r#"{"type":"structural_tag"}"#, "[]", "7", "{", r#"{"type":"tag","format":{}}"#];
    for text in wrong {
        assert!(compiler.compile(&Spec::structural_tag(text)).is_err(), "{text}");
    }
}

#[test]
fn explained() {
    let tag = r#"{"type":"sequence","elements":[{"type":"any_text"},{"type":"exclude_token"}]}"#;
    let fates: Vec<_> = spec(tag)
        .explain()
        .unwrap()
        .into_iter()
        .map(|fate| (fate.pointer.unwrap(), fate.fate, fate.construct))
        .collect();
    let expected = [
        ("/format/elements/0", "enforced", "any_text"),
        ("/format/elements/1", "rejected", "structural tag"),
    ];
    assert_eq!(
        fates,
        expected.map(|(pointer, fate, construct)| (pointer.to_owned(), fate, construct.to_owned()))
    );
    assert!(Spec::structural_tag("{").explain().is_err());
}
