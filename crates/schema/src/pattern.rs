//! Patterns of ECMA-262, as `pattern` and `patternProperties` have them, in the syntax of the `regex` crate.
//!
//! The two look alike and differ in corners: `\d` is ten digits in one and all of Unicode's in the other, `.` stops at four
//! line ends or at one, `[[a]&&b]` is a set operation in one only, `\/` and `\cJ` are escapes in one only. So a pattern is
//! read character by character and written anew; what is not known here is an error, never passed on. Characters are whole code points
//! (the flag `u`), and single braces mean themselves, as browsers have it.

/// A construct that is not supported, with what to do.
pub(crate) type Refused = (String, &'static str);

const DIGIT: &str = "0-9";
const WORD: &str = "A-Za-z0-9_";
const SPACE: &str =
    r"\t\n\x0b\x0c\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}";
const ANY: &str = r"[^\n\r\x{2028}\x{2029}]";

/// `pattern` as one of the `regex` crate that matches the same whole texts as the unanchored search of the original
/// finds something in.
pub(crate) fn searched(pattern: &str) -> Result<String, Refused> {
    Ok(format!("(?s:.*)(?:{})(?s:.*)", Translator { chars: pattern.chars().collect(), at: 0 }.translate()?))
}

struct Translator {
    chars: Vec<char>,
    at: usize,
}

/// What an escape stands for.
enum Escape {
    Char(char),
    /// The inside of a class, and whether it is meant or all else.
    Class(String, bool),
}

fn refused(construct: impl Into<String>, way_out: &'static str) -> Refused {
    (construct.into(), way_out)
}

/// `char` so that it means itself inside and outside of classes.
fn literal(char: char) -> String {
    format!("\\x{{{:x}}}", u32::from(char))
}

impl Translator {
    fn translate(mut self) -> Result<String, Refused> {
        let mut out = String::new();
        // Whether something stands before that may be repeated.
        let mut repeatable = false;
        let mut depth = 0usize;
        while let Some(char) = self.next() {
            match char {
                '^' | '$' => {
                    out.push(char);
                    repeatable = false;
                    continue;
                }
                '|' => {
                    out.push('|');
                    repeatable = false;
                    continue;
                }
                '(' => {
                    self.group()?;
                    out.push_str("(?:");
                    depth += 1;
                    repeatable = false;
                    continue;
                }
                ')' => {
                    depth = depth
                        .checked_sub(1)
                        .ok_or_else(|| refused("a `)` without `(`", "balance the groups"))?;
                    out.push(')');
                }
                '*' | '+' | '?' => {
                    self.check(repeatable)?;
                    out.push(char);
                    self.lazy();
                    repeatable = false;
                    continue;
                }
                '{' => match self.braces() {
                    Some(bounds) => {
                        self.check(repeatable)?;
                        out.push_str(&bounds);
                        self.lazy();
                        repeatable = false;
                        continue;
                    }
                    None => out.push_str(&literal('{')),
                },
                '.' => out.push_str(ANY),
                '[' => out.push_str(&self.class()?),
                '\\' => match self.escape(false)? {
                    Escape::Char(char) => out.push_str(&literal(char)),
                    Escape::Class(inside, true) => out.push_str(&format!("[{inside}]")),
                    Escape::Class(inside, false) => out.push_str(&format!("[^{inside}]")),
                },
                char if char.is_ascii_alphanumeric() => out.push(char),
                char => out.push_str(&literal(char)),
            }
            repeatable = true;
        }
        if depth > 0 {
            return Err(refused("a `(` without `)`", "balance the groups"));
        }
        Ok(out)
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

    fn check(&self, repeatable: bool) -> Result<(), Refused> {
        if repeatable {
            return Ok(());
        }
        Err(refused("a repetition of nothing or of a repetition", "put what is repeated in a group"))
    }

    /// A lazy repetition finds the same texts.
    fn lazy(&mut self) {
        self.eat("?");
    }

    /// Behind `(`.
    fn group(&mut self) -> Result<(), Refused> {
        if self.peek() != Some('?') || self.eat("?:") {
            return Ok(());
        }
        for look in ["?=", "?!", "?<=", "?<!"] {
            if self.eat(look) {
                return Err(refused("look-around", "write the alternatives out"));
            }
        }
        if self.eat("?<") {
            while let Some(char) = self.next() {
                match char {
                    '>' => return Ok(()),
                    char if char.is_alphanumeric() || char == '_' || char == '$' => {}
                    _ => break,
                }
            }
        }
        Err(refused("a group with flags or with a name that is none", "use a plain group"))
    }

    /// Behind `{`: bounds, if they are.
    fn braces(&mut self) -> Option<String> {
        let length = self.chars[self.at..].iter().position(|char| *char == '}')?;
        let inside: String = self.chars[self.at..self.at + length].iter().collect();
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let valid = match inside.split_once(',') {
            None => number(&inside),
            Some((min, max)) => number(min) && (max.is_empty() || number(max)),
        };
        self.at += if valid { length + 1 } else { 0 };
        valid.then(|| format!("{{{inside}}}"))
    }

    /// Behind `[`.
    fn class(&mut self) -> Result<String, Refused> {
        let negated = self.eat("^");
        let mut inside = String::new();
        loop {
            let first = match self.next() {
                None => return Err(refused("a `[` without `]`", "close the class")),
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
                None => return Err(refused("a `[` without `]`", "close the class")),
            };
            match last {
                Escape::Char(last) if first <= last => {
                    inside.push_str(&format!("{}-{}", literal(first), literal(last)));
                }
                Escape::Char(_) => {
                    return Err(refused("a range from a higher to a lower character", "swap them"));
                }
                Escape::Class(..) => {
                    return Err(refused(
                        "a range that ends in a class",
                        "write the `-` at the end of the class",
                    ));
                }
            }
        }
        Ok(match (inside.is_empty(), negated) {
            (true, true) => "(?s:.)".to_owned(),
            (true, false) => return Err(refused("an empty class", "leave out what can never match")),
            (false, true) => format!("[^{inside}]"),
            (false, false) => format!("[{inside}]"),
        })
    }

    /// Behind a backslash.
    fn escape(&mut self, in_class: bool) -> Result<Escape, Refused> {
        let class = |inside: &str, meant| Ok(Escape::Class(inside.to_owned(), meant));
        let char = self.next().ok_or_else(|| refused("a backslash at the end", "escape it"))?;
        Ok(Escape::Char(match char {
            'd' => return class(DIGIT, true),
            'D' => return class(DIGIT, false),
            'w' => return class(WORD, true),
            'W' => return class(WORD, false),
            's' => return class(SPACE, true),
            'S' => return class(SPACE, false),
            'p' | 'P' => return Ok(Escape::Class(self.property()?, char == 'p')),
            'b' if in_class => '\u{8}',
            'b' | 'B' => {
                return Err(refused("a word boundary", "write out which characters may stand on both sides"));
            }
            't' => '\t',
            'n' => '\n',
            'v' => '\u{b}',
            'f' => '\u{c}',
            'r' => '\r',
            '0' if !self.peek().is_some_and(|char| char.is_ascii_digit()) => '\0',
            'c' => match self.next() {
                Some(letter @ ('a'..='z' | 'A'..='Z')) => char::from(letter as u8 & 0x1f),
                _ => return Err(refused("`\\c` without a letter", "write `\\x` and two digits")),
            },
            'x' => self
                .hex(2)
                .and_then(char::from_u32)
                .ok_or_else(|| refused("`\\x` without two digits", "add them"))?,
            'u' => self.unicode()?,
            '0'..='9' | 'k' => {
                return Err(refused("a back-reference", "list the texts that may repeat as alternatives"));
            }
            char if char.is_ascii_alphabetic() => {
                return Err(refused(format!("the escape `\\{char}`"), "leave out the backslash"));
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

    fn unicode(&mut self) -> Result<char, Refused> {
        let wrong = || {
            refused("`\\u` without a character", "write `\\u` and four digits of a character or of a pair")
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

    /// Behind `\p`.
    fn property(&mut self) -> Result<String, Refused> {
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
        Err(refused(format!("the property `{name}`"), "use a general category such as `\\p{L}`"))
    }
}

#[cfg(test)]
mod tests {
    use unskew_automata::{Dfa, Limits};

    use super::*;

    fn finds(pattern: &str, text: &str) -> bool {
        Dfa::from_pattern(&searched(pattern).unwrap(), &Limits::default()).unwrap().accepts(text.as_bytes())
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
            r"\bfoo",
            "(?=a)",
            "(?!a)",
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
        ] {
            assert!(searched(pattern).is_err(), "{pattern}");
        }
    }
}
