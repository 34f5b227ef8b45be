//! Patterns of ECMA-262, the syntax of `pattern` and `patternProperties`.
//!
//! A pattern without look-ahead and word boundaries becomes a pattern of the `regex` crate. The two syntaxes look
//! alike and differ in details: `\d` is ten digits in one and all Unicode digits in the other, `.` excludes four
//! line ends or one, `[[a]&&b]` is a set operation in the `regex` crate only, and `\/` and `\cJ` are escapes in
//! ECMA-262 only. So a pattern is read character by character and written anew; an unknown construct is an error
//! and is never passed on. Characters are whole code points (the flag `u`), and single braces are literals, as in
//! browsers.
//!
//! A pattern with look-around is read into a tree, which [`lookaround`](crate::text::lookaround) turns into an
//! automaton.

/// A construct that is not supported, with a way out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UnsupportedConstruct {
    pub(crate) construct: String,
    pub(crate) way_out: &'static str,
}

const DIGIT: &str = "0-9";
const WORD: &str = "A-Za-z0-9_";
const SPACE: &str =
    r"\t\n\x0b\x0c\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}";
const ANY: &str = r"[^\n\r\x{2028}\x{2029}]";

/// Constructs that are errors in ECMA-262 too.
const BROKEN: [&str; 7] =
    [UNOPENED_GROUP, UNCLOSED_GROUP, UNCLOSED_CLASS, REPEATED_NOTHING, BOUNDS, RANGE, BACKSLASH];
const UNOPENED_GROUP: &str = "a `)` without `(`";
const UNCLOSED_GROUP: &str = "a `(` without `)`";
const REPEATED_NOTHING: &str = "a repetition of nothing or of a repetition";
const BOUNDS: &str = "a repetition whose bounds are not in their order";
const UNCLOSED_CLASS: &str = "a `[` without `]`";
const RANGE: &str = "a range from a higher to a lower character";
const BACKSLASH: &str = "a backslash at the end";

/// The largest nesting of groups, because the tree is walked recursively.
const NEST: usize = 200;

/// A pattern after reading.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) alternatives: Alternatives,
    /// Whether it contains look-around and therefore has no counterpart in the `regex` crate.
    pub(crate) has_lookaround: bool,
}

/// Alternatives, each a sequence.
pub(crate) type Alternatives = Vec<Vec<Part>>;

/// A part of a pattern. A part without anchors and look-around is `Text`.
#[derive(Debug)]
pub(crate) enum Part {
    /// A self-contained pattern of the `regex` crate.
    Text(String),
    /// `^`.
    Start,
    /// `$`.
    End,
    /// `\b` if true, `\B` if false.
    Boundary(bool),
    /// `(?=…)` if true, `(?!…)` if false.
    Ahead(bool, Alternatives),
    Group(Alternatives),
    Repeat {
        inner: Box<Part>,
        min: u32,
        max: Option<u32>,
    },
}

/// The reason why `pattern` is no pattern of ECMA-262, if it is none.
pub(crate) fn broken(pattern: &str) -> Option<UnsupportedConstruct> {
    read(pattern).err().filter(|found| BROKEN.contains(&found.construct.as_str()))
}

/// Reads `pattern`.
pub(crate) fn read(pattern: &str) -> Result<Parsed, UnsupportedConstruct> {
    let mut translator = Translator { chars: pattern.chars().collect(), at: 0, has_lookaround: false };
    let alternatives = translator.read()?;
    Ok(Parsed { alternatives, has_lookaround: translator.has_lookaround })
}

impl Parsed {
    /// The pattern of the `regex` crate that matches exactly the texts in which an unanchored search of the
    /// original has a match. The original must not contain look-around.
    pub(crate) fn searched(&self) -> String {
        let ways: Vec<String> = self.alternatives.iter().map(|sequence| searched(sequence)).collect();
        format!("(?s:.*)(?:{})(?s:.*)", ways.join("|"))
    }
}

/// A pattern that matches the texts of `min` to `max` characters of one class, and nothing else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CountedClass {
    /// A pattern of the `regex` crate, one character long.
    pub(crate) class: String,
    pub(crate) min: u32,
    pub(crate) max: u32,
}

impl Parsed {
    /// The class of `^[class]{min,max}$`, if the pattern is one like that.
    pub(crate) fn counted_class(&self) -> Option<CountedClass> {
        let [sequence] = &self.alternatives[..] else { return None };
        let [Part::Start, Part::Text(text), Part::End] = &sequence[..] else { return None };
        let (class, bounds) = text.strip_suffix('}')?.rsplit_once('{')?;
        let (min, max) = bounds.split_once(',')?;
        // A class of this crate begins with a bracket that ends with its last character.
        let mut depth = 0u32;
        let mut chars = class.char_indices();
        while let Some((at, char)) = chars.next() {
            match char {
                '\\' => drop(chars.next()),
                '[' => depth += 1,
                ']' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 && at + char.len_utf8() < class.len() {
                return None;
            }
        }
        let is_class = class.starts_with('[') && depth == 0;
        is_class.then_some(())?;
        Some(CountedClass { class: class.to_owned(), min: min.parse().ok()?, max: max.parse().ok()? })
    }
}

/// A sequence between any texts. There, a repetition at its beginning or end matches if the fewest copies match,
/// which are all that is left of it: `\p{L}{1,2000}` matches where `\p{L}` does.
fn searched(sequence: &[Part]) -> String {
    let mut parts: Vec<String> = sequence.iter().map(part_text).collect();
    for end in [Some(0), sequence.len().checked_sub(1)].into_iter().flatten() {
        if let Some(Part::Text(text)) = sequence.get(end)
            && let Some((inner, bounds)) = text.strip_suffix('}').and_then(|text| text.rsplit_once('{'))
            && let Some((min, _)) = bounds.split_once(',')
            && min.bytes().all(|byte| byte.is_ascii_digit())
        {
            parts[end] = if min == "0" { String::new() } else { format!("{inner}{{{min}}}") };
        }
    }
    parts.concat()
}

fn pattern_text(alternatives: &Alternatives) -> String {
    let one = |sequence: &Vec<Part>| sequence.iter().map(part_text).collect::<String>();
    alternatives.iter().map(one).collect::<Vec<_>>().join("|")
}

fn part_text(node: &Part) -> String {
    match node {
        Part::Text(text) => text.clone(),
        Part::Start => "^".to_owned(),
        Part::End => "$".to_owned(),
        Part::Boundary(_) | Part::Ahead(..) => unreachable!("a pattern that looks around is not rendered"),
        Part::Group(ways) => format!("(?:{})", pattern_text(ways)),
        Part::Repeat { inner, min, max } => {
            let max = max.map_or_else(String::new, |max| max.to_string());
            format!("{}{{{min},{max}}}", part_text(inner))
        }
    }
}

/// A group that is open.
struct OpenGroup {
    /// For a look-ahead, whether it is positive; `None` for a plain group.
    ahead: Option<bool>,
    ways: Alternatives,
}

struct Translator {
    chars: Vec<char>,
    at: usize,
    has_lookaround: bool,
}

/// The meaning of an escape.
enum Escape {
    Char(char),
    /// The inside of a class, and whether the class is that set (true) or its complement (false).
    Class(String, bool),
}

pub(super) fn unsupported(construct: impl Into<String>, way_out: &'static str) -> UnsupportedConstruct {
    UnsupportedConstruct { construct: construct.into(), way_out }
}

/// `char` as a literal inside and outside of classes.
fn literal(char: char) -> String {
    format!("\\x{{{:x}}}", u32::from(char))
}

impl Translator {
    fn read(&mut self) -> Result<Alternatives, UnsupportedConstruct> {
        let mut open: Vec<OpenGroup> = vec![];
        let mut ways: Alternatives = vec![vec![]];
        // Whether the previous part may be repeated.
        let mut repeatable = false;
        while let Some(char) = self.next() {
            let mut may_repeat = true;
            let node = match char {
                '^' | '$' => {
                    may_repeat = false;
                    if char == '^' { Part::Start } else { Part::End }
                }
                '|' => {
                    ways.push(vec![]);
                    repeatable = false;
                    continue;
                }
                '(' => {
                    let ahead = self.group()?;
                    if open.len() >= NEST {
                        return Err(unsupported(
                            format!("groups nested more than {NEST} deep"),
                            "simplify it",
                        ));
                    }
                    open.push(OpenGroup { ahead, ways: std::mem::replace(&mut ways, vec![vec![]]) });
                    repeatable = false;
                    continue;
                }
                ')' => {
                    let outer =
                        open.pop().ok_or_else(|| unsupported(UNOPENED_GROUP, "balance the groups"))?;
                    let inner = std::mem::replace(&mut ways, outer.ways);
                    may_repeat = outer.ahead.is_none();
                    match outer.ahead {
                        Some(positive) => Part::Ahead(positive, inner),
                        None if inner.iter().flatten().all(|node| matches!(node, Part::Text(_))) => {
                            Part::Text(format!("(?:{})", pattern_text(&inner)))
                        }
                        None => Part::Group(inner),
                    }
                }
                '*' => self.repeat(&mut ways, repeatable, 0, None)?,
                '+' => self.repeat(&mut ways, repeatable, 1, None)?,
                '?' => self.repeat(&mut ways, repeatable, 0, Some(1))?,
                '{' => match self.braces()? {
                    Some((min, max)) => self.repeat(&mut ways, repeatable, min, max)?,
                    None => Part::Text(literal('{')),
                },
                '.' => Part::Text(ANY.to_owned()),
                '[' => Part::Text(self.class()?),
                '\\' if matches!(self.peek(), Some('b' | 'B')) => {
                    self.has_lookaround = true;
                    may_repeat = false;
                    Part::Boundary(self.next() == Some('b'))
                }
                '\\' => Part::Text(match self.escape(false)? {
                    Escape::Char(char) => literal(char),
                    Escape::Class(inside, true) => format!("[{inside}]"),
                    Escape::Class(inside, false) => format!("[^{inside}]"),
                }),
                char if char.is_ascii_alphanumeric() => Part::Text(char.into()),
                char => Part::Text(literal(char)),
            };
            let repeated = matches!(char, '*' | '+' | '?') || (char == '{' && self.chars[self.at - 1] != '{');
            repeatable = may_repeat && !repeated;
            if let Some(way) = ways.last_mut() {
                way.push(node);
            }
        }
        if open.is_empty() { Ok(ways) } else { Err(unsupported(UNCLOSED_GROUP, "balance the groups")) }
    }

    /// Repeats the last part. A lazy repetition matches the same texts.
    fn repeat(
        &mut self,
        ways: &mut Alternatives,
        repeatable: bool,
        min: u32,
        max: Option<u32>,
    ) -> Result<Part, UnsupportedConstruct> {
        self.eat("?");
        let last = if repeatable { ways.last_mut().and_then(Vec::pop) } else { None };
        let inner = last.ok_or_else(|| unsupported(REPEATED_NOTHING, "put the repeated part in a group"))?;
        if max.is_some_and(|max| max < min) {
            return Err(unsupported(BOUNDS, "swap them"));
        }
        let text = matches!(inner, Part::Text(_));
        let node = Part::Repeat { inner: Box::new(inner), min, max };
        Ok(if text { Part::Text(part_text(&node)) } else { node })
    }

    fn next(&mut self) -> Option<char> {
        let char = self.chars.get(self.at).copied();
        self.at += usize::from(char.is_some());
        char
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.chars[self.at..].iter().copied().take(text.chars().count()).eq(text.chars());
        self.at += if found { text.chars().count() } else { 0 };
        found
    }

    /// Reads the rest of a group's opening after `(`. For a look-ahead, returns whether it is positive.
    fn group(&mut self) -> Result<Option<bool>, UnsupportedConstruct> {
        if self.peek() != Some('?') || self.eat("?:") {
            return Ok(None);
        }
        for look in ["?=", "?!"] {
            if self.eat(look) {
                self.has_lookaround = true;
                return Ok(Some(look == "?="));
            }
        }
        if self.eat("?<=") || self.eat("?<!") {
            return Err(unsupported("look-behind", "list the texts that may precede as alternatives"));
        }
        if self.eat("?<") {
            while let Some(char) = self.next() {
                match char {
                    '>' => return Ok(None),
                    char if char.is_alphanumeric() || char == '_' || char == '$' => {}
                    _ => break,
                }
            }
        }
        Err(unsupported("a group with flags or with a name that is none", "use a plain group"))
    }

    /// Reads bounds after `{`, if there are any.
    fn braces(&mut self) -> Result<Option<(u32, Option<u32>)>, UnsupportedConstruct> {
        let Some(length) = self.chars[self.at..].iter().position(|char| *char == '}') else {
            return Ok(None);
        };
        let inside: String = self.chars[self.at..self.at + length].iter().collect();
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (min, max) = inside.split_once(',').map_or((&*inside, Some(&*inside)), |(min, max)| {
            (min, if max.is_empty() { None } else { Some(max) })
        });
        if !digits(min) || !max.is_none_or(digits) {
            return Ok(None);
        }
        self.at += length + 1;
        let number = |text: &str| {
            text.parse()
                .map_err(|_| unsupported(format!("the bound {text}"), "use a number that can be counted out"))
        };
        Ok(Some((number(min)?, max.map(number).transpose()?)))
    }

    /// Reads a class after `[`.
    fn class(&mut self) -> Result<String, UnsupportedConstruct> {
        let negated = self.eat("^");
        let mut inside = String::new();
        loop {
            let first = match self.next() {
                None => return Err(unsupported(UNCLOSED_CLASS, "close the class")),
                Some(']') => break,
                Some('\\') => self.escape(true)?,
                Some(char) => Escape::Char(char),
            };
            let first = match first {
                Escape::Char(char) => char,
                Escape::Class(class, true) => {
                    inside.push_str(&class);
                    continue;
                }
                Escape::Class(class, false) => {
                    inside.push_str(&format!("[^{class}]"));
                    continue;
                }
            };
            let range =
                self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|char| *char != ']');
            if !range {
                inside.push_str(&literal(first));
                continue;
            }
            self.at += 1;
            let last = match self.next() {
                Some('\\') => self.escape(true)?,
                Some(char) => Escape::Char(char),
                None => return Err(unsupported(UNCLOSED_CLASS, "close the class")),
            };
            match last {
                Escape::Char(last) if first <= last => {
                    inside.push_str(&format!("{}-{}", literal(first), literal(last)));
                }
                Escape::Char(_) => {
                    return Err(unsupported(RANGE, "swap them"));
                }
                Escape::Class(..) => {
                    return Err(unsupported(
                        "a range that ends in a class",
                        "write the `-` at the end of the class",
                    ));
                }
            }
        }
        Ok(match (inside.is_empty(), negated) {
            (true, true) => "(?s:.)".to_owned(),
            (true, false) => return Err(unsupported("an empty class", "leave the class out")),
            (false, true) => format!("[^{inside}]"),
            (false, false) => format!("[{inside}]"),
        })
    }

    /// Reads an escape after its backslash.
    fn escape(&mut self, in_class: bool) -> Result<Escape, UnsupportedConstruct> {
        let class = |inside: &str, meant| Ok(Escape::Class(inside.to_owned(), meant));
        let char = self.next().ok_or_else(|| unsupported(BACKSLASH, "escape it"))?;
        Ok(Escape::Char(match char {
            'd' => return class(DIGIT, true),
            'D' => return class(DIGIT, false),
            'w' => return class(WORD, true),
            'W' => return class(WORD, false),
            's' => return class(SPACE, true),
            'S' => return class(SPACE, false),
            'p' | 'P' => return Ok(Escape::Class(self.property()?, char == 'p')),
            'b' if in_class => '\u{8}',
            't' => '\t',
            'n' => '\n',
            'v' => '\u{b}',
            'f' => '\u{c}',
            'r' => '\r',
            '0' if !self.peek().is_some_and(|char| char.is_ascii_digit()) => '\0',
            'c' => match self.next() {
                Some(letter @ ('a'..='z' | 'A'..='Z')) => char::from(letter as u8 & 0x1f),
                _ => return Err(unsupported("`\\c` without a letter", "write `\\x` and two digits")),
            },
            'x' => self
                .hex(2)
                .and_then(char::from_u32)
                .ok_or_else(|| unsupported("`\\x` without two digits", "add them"))?,
            'u' => self.unicode()?,
            '0'..='9' | 'k' => {
                return Err(unsupported(
                    "a back-reference",
                    "list the texts that may repeat as alternatives",
                ));
            }
            char if char.is_ascii_alphabetic() => {
                return Err(unsupported(format!("the escape `\\{char}`"), "leave out the backslash"));
            }
            char => char,
        }))
    }

    fn hex(&mut self, digits: usize) -> Option<u32> {
        let text: String = self.chars.get(self.at..self.at + digits)?.iter().collect();
        if !text.chars().all(|char| char.is_ascii_hexdigit()) {
            return None;
        }
        self.at += digits;
        u32::from_str_radix(&text, 16).ok()
    }

    fn unicode(&mut self) -> Result<char, UnsupportedConstruct> {
        let wrong = || {
            unsupported(
                "`\\u` without a character",
                "write `\\u` and four digits of a character or of a pair",
            )
        };
        if self.eat("{") {
            let mut text = String::new();
            while let Some(char) = self.next().filter(|char| *char != '}') {
                text.push(char);
            }
            let hex = text.chars().all(|char| char.is_ascii_hexdigit());
            let point = u32::from_str_radix(&text, 16).ok().filter(|_| hex);
            return point.and_then(char::from_u32).ok_or_else(wrong);
        }
        let unit = self.hex(4).ok_or_else(wrong)?;
        if (0xd800..0xdc00).contains(&unit) && self.eat("\\u") {
            let low = self.hex(4).and_then(|low| low.checked_sub(0xdc00)).filter(|low| *low < 0x400);
            let low = low.ok_or_else(wrong)?;
            return char::from_u32(0x10000 + ((unit - 0xd800) << 10) + low).ok_or_else(wrong);
        }
        char::from_u32(unit).ok_or_else(wrong)
    }

    /// Reads a property after `\p`.
    fn property(&mut self) -> Result<String, UnsupportedConstruct> {
        const CATEGORIES: [&str; 37] = [
            "L", "Lu", "Ll", "Lt", "LC", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc",
            "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "C",
            "Cc", "Cf", "Letter", "Co",
        ];
        let mut name = String::new();
        if self.eat("{") {
            while let Some(char) = self.next().filter(|char| *char != '}') {
                name.push(char);
            }
        }
        if CATEGORIES.contains(&name.as_str()) {
            return Ok(format!("\\p{{{name}}}"));
        }
        Err(unsupported(format!("the property `{name}`"), "use a general category such as `\\p{L}`"))
    }
}

#[cfg(test)]
mod tests {
    use unskew_automata::{Dfa, Limits};

    use super::*;

    fn finds(pattern: &str, text: &str) -> bool {
        let searched = read(pattern).unwrap().searched();
        Dfa::from_pattern(&searched, &Limits::default()).unwrap().accepts(text.as_bytes())
    }

    #[test]
    fn patterns_find_what_ecma_finds() {
        for (pattern, found, not_found) in [
            ("b", &["abc", "b"][..], &["", "ac"][..]),
            ("^a|b$", &["ax", "xb"], &["xa", "bx"]),
            (r"^\d+$", &["12"], &["", "1a", "\u{661}"]),
            (r"^\w$", &["_", "Z"], &["é", "-"]),
            (r"^\s\S$", &["\u{feff}a", "\u{2028}é"], &["a ", "\u{85}a"]),
            ("^.$", &["a", "😀", "\u{85}"], &["\n", "\r", "\u{2028}", "ab"]),
            (r"^[\w.-]+$", &["a.b-c"], &["a b"]),
            (r"^[^\d\-]$", &["a"], &["1", "-"]),
            (r"^[[a&&b]$", &["[", "a", "&"], &["c", "]"]),
            (r"^\/\u00e9\uD83D\uDE00\u{1F600}\x41\cJ\0$", &["/é😀😀A\n\0"], &["/"]),
            (r"^a{2,3}?{x}$", &["aa{x}"], &["a{x}"]),
            ("^{a}$", &["{a}"], &["a"]),
            ("^a{,2}$", &["a{,2}"], &["aa"]),
            ("^(?<n>a)+?(?:b){2}$", &["abb", "aabb"], &["ab"]),
            ("^[^]$", &["\n", "x"], &[""]),
            (r"^\p{Lu}\P{L}$", &["É1"], &["é1", "ÉA"]),
            (r"^[\b]$", &["\u{8}"], &["b"]),
            ("^(|a)$", &["", "a"], &["b"]),
            ("", &["", "x"], &[]),
        ] {
            for text in found {
                assert!(finds(pattern, text), "{pattern} {text:?}");
            }
            for text in not_found {
                assert!(!finds(pattern, text), "{pattern} {text:?}");
            }
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for pattern in [
            "(?<=a)",
            "(?<!a)",
            r"(a)\1",
            "(?i)a",
            "(?P<n>a)",
            "a**",
            "*a",
            "^*",
            "(",
            ")",
            "[a",
            "[b-a]",
            r"[a-\d]",
            r"\q",
            r"\x1",
            r"\u12",
            r"\ud800",
            "[]",
            r"\p{Greek}",
            "a\\",
            r"\01",
            r"\A",
            r"\z",
            "a{2}{3}",
            "a{3,2}",
            "a{99999999999}",
            "(?=a)*",
            r"\b?",
            "{2}",
        ] {
            assert!(read(pattern).is_err(), "{pattern}");
        }
    }
}
