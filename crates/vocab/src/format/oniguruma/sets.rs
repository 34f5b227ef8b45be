//! The sets of characters of a regex: escapes, properties, classes and POSIX classes.

use super::{Refusal, Translator, push, refusal};

/// The characters of `\w`. Within a class the last six are no word characters, as Oniguruma has it.
pub(super) const WORD: &str = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}²³¹¼½¾";
const WORD_IN_CLASS: &str = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}";
const HEX: &str = "0-9A-Fa-f";

/// A member of a class.
pub(super) enum Member {
    Char(char),
    /// Members as `regex-syntax` writes them.
    Set(String),
}

impl Translator<'_> {
    /// A character or a set, behind the backslash at `from`. `word`: the characters of words here.
    pub(super) fn member(&mut self, from: usize, word: &str) -> Result<Member, Refusal> {
        let Some(char) = self.next() else { return Err(refusal(from, "a backslash at the end")) };
        Ok(match char {
            'w' => Member::Set(word.to_owned()),
            'W' => Member::Set(format!("[^{word}]")),
            'h' => Member::Set(HEX.to_owned()),
            'H' => Member::Set(format!("[^{HEX}]")),
            's' | 'S' | 'd' | 'D' => Member::Set(self.text[from..self.at].to_owned()),
            'p' | 'P' => Member::Set(self.property(from, char == 'P', word)?),
            'n' => Member::Char('\n'),
            'r' => Member::Char('\r'),
            't' => Member::Char('\t'),
            'f' => Member::Char('\x0c'),
            'v' => Member::Char('\x0b'),
            'a' => Member::Char('\x07'),
            'e' => Member::Char('\x1b'),
            'x' | 'u' => Member::Char(self.number(from, char)?),
            '0'..='9' => return Err(refusal(from, "a back-reference or an octal number")),
            char if char.is_ascii_alphabetic() => {
                return Err(refusal(from, "an escape for something else than a known set of characters"));
            }
            char => Member::Char(char),
        })
    }

    /// The number behind `\x` or `\u`.
    fn number(&mut self, from: usize, kind: char) -> Result<char, Refusal> {
        let rest = self.rest();
        let hex = |text: &str| text.bytes().take_while(u8::is_ascii_hexdigit).count();
        let (digits, len, most) = match rest.strip_prefix('{') {
            Some(inner) if kind == 'x' && inner[hex(inner)..].starts_with('}') => {
                (&inner[..hex(inner)], hex(inner) + 2, u32::MAX)
            }
            // A byte, which by itself is no character beyond ASCII.
            _ if kind == 'x' => (&rest[..hex(rest).min(2)], hex(rest).min(2), 0x7f),
            _ if hex(rest) >= 4 => (&rest[..4], 4, u32::MAX),
            _ => ("", 0, 0),
        };
        let number = u32::from_str_radix(digits, 16).ok().filter(|number| *number <= most);
        self.at += len;
        number.and_then(char::from_u32).ok_or_else(|| refusal(from, "not the number of one character"))
    }

    /// `\p{..}`, behind its first letter.
    fn property(&mut self, from: usize, negated: bool, word: &str) -> Result<String, Refusal> {
        let rest = self.rest();
        let inner = rest.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let (inner, _) = inner.ok_or_else(|| refusal(from, "a property without braces"))?;
        self.at += inner.len() + 2;
        let (name, negated) = match inner.strip_prefix('^') {
            Some(name) => (name, !negated),
            None => (inner, negated),
        };
        let loose: String = name.chars().filter(|char| !matches!(char, ' ' | '_' | '-')).collect();
        let loose = loose.to_ascii_lowercase();
        if let Some(set) = posix(&loose, word, r"\p{P}") {
            return Ok(if negated { format!("[^{set}]") } else { set.to_owned() });
        }
        // `regex-syntax` also reads `isL` and `sc=Latin`, which are no properties of Oniguruma.
        if !loose.bytes().all(|byte| byte.is_ascii_alphanumeric())
            || loose.starts_with("is")
            || loose.is_empty()
        {
            return Err(refusal(from, "a property that is not known here"));
        }
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        Ok(format!("\\{}{{{}}}", if negated { 'P' } else { 'p' }, if plain { name } else { &loose }))
    }

    /// A class, behind its bracket at `from`.
    pub(super) fn class(&mut self, from: usize) -> Result<(), Refusal> {
        self.deeper(from)?;
        self.out.push('[');
        if self.eat("^") {
            if self.ignores_case {
                return Err(refusal(from, "a negated class where case is ignored"));
            }
            self.out.push('^');
        }
        // Whether there is a member since the beginning or the last `&&`.
        let mut has_member = false;
        loop {
            let at = self.at;
            let Some(char) = self.next() else { return Err(refusal(from, "a class without an end")) };
            match char {
                ']' | '&' if char == ']' || self.rest().starts_with('&') => {
                    if !has_member {
                        return Err(refusal(at, "a class with nothing on one side"));
                    }
                    if char == ']' {
                        break;
                    }
                    self.at += 1;
                    self.out.push_str("&&");
                    has_member = false;
                    continue;
                }
                '-' if has_member && !self.rest().starts_with(']') => {
                    return Err(refusal(at, "a hyphen in the middle of a class"));
                }
                '[' => {
                    if self.ignores_case {
                        return Err(refusal(at, "a class in a class where case is ignored"));
                    }
                    if self.rest().starts_with(':') {
                        let set = self.bracket(at)?;
                        self.out.push_str(&set);
                    } else {
                        self.class(at)?;
                    }
                }
                char => self.member_or_range(char, at)?,
            }
            has_member = true;
        }
        self.out.push(']');
        self.depth -= 1;
        Ok(())
    }

    /// A member of a class that begins with `first` at `from`, or a range from it.
    fn member_or_range(&mut self, first: char, from: usize) -> Result<(), Refusal> {
        let low = match self.class_char(first, from)? {
            Member::Char(char) => char,
            Member::Set(set) => {
                if self.ignores_case && !matches!(set.as_str(), r"\s" | r"\d" | HEX) {
                    return Err(refusal(from, "a set in a class where case is ignored"));
                }
                self.out.push_str(&set);
                return Ok(());
            }
        };
        if self.ignores_case && !low.is_ascii() {
            return Err(refusal(from, "a character beyond ASCII whose case is ignored"));
        }
        self.out.push_str(&self.in_class(low, from));
        if first == '-' || !self.rest().starts_with('-') || self.rest().starts_with("-]") {
            return Ok(());
        }
        self.at += 1;
        let at = self.at;
        let high = match self.next() {
            Some(char) if !matches!(char, '[' | ']') => self.class_char(char, at)?,
            _ => return Err(refusal(from, "a range without an end")),
        };
        match high {
            Member::Char(high) if high >= low && (high.is_ascii() || !self.ignores_case) => {
                self.out.push('-');
                let high = self.in_class(high, at);
                self.out.push_str(&high);
                Ok(())
            }
            _ => Err(refusal(from, "a range that is not one of characters")),
        }
    }

    fn class_char(&mut self, char: char, from: usize) -> Result<Member, Refusal> {
        if char != '\\' {
            return Ok(Member::Char(char));
        }
        if self.eat("b") {
            return Ok(Member::Char('\x08'));
        }
        self.member(from, WORD_IN_CLASS)
    }

    /// A character of a class, whose source begins at `from` and ends here.
    fn in_class(&self, char: char, from: usize) -> String {
        let source = &self.text[from..self.at];
        // As it stands, where both read it so.
        if matches!(source, r"\n" | r"\r" | r"\t" | r"\f" | r"\v") {
            return source.to_owned();
        }
        let mut text = String::new();
        // Doubled, `~` is an operator of `regex-syntax`.
        let special = if source.len() > 1 || self.rest().starts_with('~') { r"\[]^-&~" } else { r"\[]-" };
        push(&mut text, char, special);
        text
    }

    /// `[:alpha:]`, behind its first bracket.
    fn bracket(&mut self, from: usize) -> Result<String, Refusal> {
        let known = self.rest()[1..].split_once(":]").and_then(|(inner, _)| {
            let name = inner.strip_prefix('^').unwrap_or(inner);
            Some((inner, posix(name, WORD_IN_CLASS, r"\p{P}\p{S}")?))
        });
        let (inner, set) = known.ok_or_else(|| refusal(from, "a POSIX class that is not one"))?;
        self.at += inner.len() + 3;
        Ok(if inner.starts_with('^') { format!("[^{set}]") } else { set.to_owned() })
    }
}

/// The set of a POSIX class, which Unicode's tables decide.
fn posix<'a>(name: &str, word: &'a str, punctuation: &'a str) -> Option<&'a str> {
    Some(match name {
        "alnum" => r"\p{Alphabetic}\p{Nd}",
        "alpha" => r"\p{Alphabetic}",
        "ascii" => r"\x00-\x7f",
        "blank" => r"\t\p{Zs}",
        "cntrl" => r"\p{Cc}",
        "digit" => r"\p{Nd}",
        "graph" => r"[\S&&\P{Cc}&&\P{Cn}]",
        "lower" => r"\p{Lowercase}",
        "print" => r"[[\p{Zs}\S]&&\P{Cc}&&\P{Cn}]",
        "punct" => punctuation,
        "space" => r"\s",
        "upper" => r"\p{Uppercase}",
        "word" => word,
        "xdigit" => HEX,
        _ => return None,
    })
}
