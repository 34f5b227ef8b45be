//! Structural tags beside a slow reader of texts, on random tags and texts.

use std::{collections::BTreeSet, sync::Arc};

use crate::common::{Random, accepts, bytes, spec};
use unskew_engine::{Compiler, Error};

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
    /// Whether a number follows in the beginning, which is a regex then.
    numbered: bool,
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
        then(&self.read_begin(text, at, &self.begin), |at| self.read_rest(text, at))
    }

    /// The beginning, or what is left of it.
    fn read_begin(&self, text: &str, at: usize, left: &str) -> Places {
        let begun = literal(text, at, left);
        if self.numbered { then(&begun, |at| Format::Digits.read(text, at, &[])) } else { begun }
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
        let begin = match self.numbered {
            true => format!(r#"{{"type":"regex","pattern":"{}[0-9]+"}}"#, self.begin),
            false => format!("{:?}", self.begin),
        };
        format!(r#"{{"type":"tag","begin":{begin},"content":{},"end":{end}}}"#, self.content.json())
    }
}

/// Free text from `at` on up to each first trigger: the trigger, and the place after it.
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
                            then(&tag.read_begin(text, at, &tag.begin[trigger.len()..]), |at| {
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
        if self.numbered {
            into.push_str(random.text(&["1", "12", "20"]));
        }
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
    Tag {
        begin,
        numbered: random.below(4) == 0,
        content: format(random, depth),
        ends: some_texts(random, 1, 2),
    }
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
