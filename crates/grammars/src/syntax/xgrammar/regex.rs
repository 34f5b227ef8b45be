//! Regular expressions of XGrammar, rewritten in the syntax of the automata.
//!
//! The two syntaxes agree in groups, alternatives and repetitions, and differ in the rest. So the pattern is
//! rewritten from left to right, and each class and escape becomes a set of code points. Reading the pattern as it is
//! would give `\d` the digits of all scripts, and `[[a]` another meaning.
//!
//! | | XGrammar | regexes of the automata |
//! |---|---|---|
//! | `\d`, `\w`, `\s` | ASCII | all of Unicode |
//! | `.` | any character; with flags but without `s`, any but a newline | any but a newline |
//! | flag `i` | letters of ASCII | all letters |
//! | `[`, `&&`, `--` and `~~` in a class | characters | nested classes and operators |
//! | `\0`, `\e`, `\cA`, `\/`, `\"` | a character | an error |
//! | `{ 1 , 2 }` | a repetition | an error or characters |
//! | `^` at the beginning, `$` at the end | no effect | no effect on a whole text |
//! | `^` and `$` elsewhere, look-ahead | ignored, with a warning | here an error: the output would not obey the regex |

use super::super::chars::CharSet;

/// The flags of a regex.
#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    /// The case of letters of ASCII does not count.
    pub(super) any_case: bool,
    /// `.` is no newline.
    pub(super) dot_ends: bool,
}

/// A fault of a pattern: its offset, and the fault.
pub(super) type Fault = (usize, String);

/// The pattern in the syntax of the automata, of at most `most` bytes. O(n) for n bytes, apart from sorting the
/// ranges of classes.
pub(super) fn rewrite(pattern: &str, flags: Flags, most: usize) -> Result<String, Fault> {
    let mut rewriter = Rewriter { pattern, at: 0, flags, made: String::new(), open: vec![], repeats: false };
    if pattern.starts_with("(?i)") {
        rewriter.at = 4;
        rewriter.flags.any_case = true;
    }
    let first = rewriter.at;
    while let Some(char) = rewriter.peek() {
        rewriter.part(char, first)?;
        if rewriter.made.len() > most {
            let at = rewriter.at.min(pattern.len());
            return Err((
                at,
                format!("a regex that takes more than {most} bytes with its classes written out: shorten it"),
            ));
        }
    }
    match rewriter.open.pop() {
        Some(open) => Err((open, "a group that is not closed".to_owned())),
        None => Ok(rewriter.made),
    }
}

struct Rewriter<'p> {
    pattern: &'p str,
    at: usize,
    flags: Flags,
    made: String,
    /// The offsets of open groups.
    open: Vec<usize>,
    /// Whether a part precedes that can be repeated.
    repeats: bool,
}

/// A character, or a set of them.
enum Item {
    One(u32),
    Set(CharSet),
}

impl Rewriter<'_> {
    fn rest(&self) -> &str {
        &self.pattern[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn eat(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        self.at += if found { expected.len() } else { 0 };
        found
    }

    fn fault<T>(&self, message: &str) -> Result<T, Fault> {
        Err((self.at.min(self.pattern.len()), message.to_owned()))
    }

    /// Reads the part that begins with `char`. The pattern begins at `first`.
    fn part(&mut self, char: char, first: usize) -> Result<(), Fault> {
        let after = self.at + char.len_utf8();
        match char {
            '^' if self.at == first => self.at = after,
            '$' if after == self.pattern.len() => self.at = after,
            '^' | '$' => {
                return self
                    .fault("an anchor inside of a regex has no effect in XGrammar: remove it, or write `\\^` or `\\$`");
            }
            '[' => {
                let set = self.class()?;
                self.atom(&set);
            }
            ']' => return self.fault("`]` without `[`; a bracket is `\\]`"),
            '*' | '+' | '?' => {
                self.repeated()?;
                self.at = after;
                self.made.push(char);
                self.shortest();
            }
            '{' => self.bounds()?,
            '(' => self.group()?,
            ')' => {
                if self.open.pop().is_none() {
                    return self.fault("`)` without `(`; a bracket is `\\)`");
                }
                self.at = after;
                self.made.push(')');
                self.repeats = true;
            }
            '|' => {
                self.at = after;
                self.made.push('|');
                self.repeats = false;
            }
            '.' => {
                self.at = after;
                self.made.push_str(if self.flags.dot_ends { "." } else { "(?s:.)" });
                self.repeats = true;
            }
            '\\' => {
                let set = match self.escape(false)? {
                    Item::One(char) => self.folded(vec![(char, char)]),
                    Item::Set(set) => set,
                };
                self.atom(&set);
            }
            _ if !(self.flags.any_case && char.is_ascii_alphabetic()) => {
                self.at = after;
                if regex_syntax::is_meta_character(char) {
                    self.made.push('\\');
                }
                self.made.push(char);
                self.repeats = true;
            }
            _ => {
                self.at = after;
                let set = self.folded(vec![(char.into(), char.into())]);
                self.atom(&set);
            }
        }
        Ok(())
    }

    fn atom(&mut self, set: &CharSet) {
        self.made.push_str(&match set.single() {
            Some(char) => regex_syntax::escape(char.encode_utf8(&mut [0; 4])),
            None => set.pattern(),
        });
        self.repeats = true;
    }

    fn repeated(&self) -> Result<(), Fault> {
        if self.repeats {
            Ok(())
        } else {
            self.fault("nothing to repeat before the operator; a character is `\\*`")
        }
    }

    /// Skips the mark of a repetition that matches as little as it can: whole texts are the same.
    fn shortest(&mut self) {
        self.eat("?");
    }

    fn bounds(&mut self) -> Result<(), Fault> {
        self.repeated()?;
        let begin = self.at;
        self.at += 1;
        let min = self.number()?;
        let one = !self.eat(",");
        let max = if one { min } else { self.number()? };
        let Some(min) = min else { return self.fault("a number of repetitions is needed, `0` for no least") };
        if !self.eat("}") {
            return self.fault("expected `,` or `}` in the bounds of a repetition");
        }
        if max.is_some_and(|max| max < min) {
            self.at = begin;
            return self.fault("the bounds of a repetition are in the wrong order");
        }
        self.made.push_str(&match (one, max) {
            (true, _) => format!("{{{min}}}"),
            (false, None) => format!("{{{min},}}"),
            (false, Some(max)) => format!("{{{min},{max}}}"),
        });
        self.shortest();
        Ok(())
    }

    /// Reads a number between blanks, if there is one.
    fn number(&mut self) -> Result<Option<u32>, Fault> {
        let blank = |rest: &str| rest.len() - rest.trim_start_matches(' ').len();
        self.at += blank(self.rest());
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let number = &self.rest()[..digits];
        let value = match number.parse() {
            Ok(value) => Some(value),
            Err(_) if number.is_empty() => None,
            Err(_) => return self.fault("a number of repetitions that is too large; leave the bound out"),
        };
        self.at += digits;
        self.at += blank(self.rest());
        Ok(value)
    }

    fn group(&mut self) -> Result<(), Fault> {
        let begin = self.at;
        self.at += 1;
        if self.eat("?") && !self.eat(":") {
            let is_named = self.eat("P<") || self.eat("<");
            let name =
                self.rest().bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
            if !is_named || name == 0 || !self.rest()[name..].starts_with('>') {
                self.at = begin;
                return self.fault(
                    "look-around and modifiers of groups are not supported: write the texts that are allowed",
                );
            }
            self.at += name + 1;
        }
        self.open.push(begin);
        self.made.push_str("(?:");
        self.repeats = false;
        Ok(())
    }

    /// Reads a class.
    fn class(&mut self) -> Result<CharSet, Fault> {
        let begin = self.at;
        self.at += 1;
        let negated = self.eat("^");
        let mut ranges = vec![];
        while !self.rest().starts_with(']') {
            if self.rest().is_empty() {
                return Err((begin, "a class that is not closed; a bracket is `\\[`".to_owned()));
            }
            let at = self.at;
            let first = match self.member()? {
                Item::One(first) => first,
                Item::Set(set) => {
                    ranges.extend(set.into_ranges());
                    continue;
                }
            };
            let mut last = first;
            if self.rest().starts_with('-') && !self.rest().starts_with("-]") {
                self.at += 1;
                let Item::One(end) = self.member()? else {
                    return Err((at, "a range of a class ends in one character; a dash is `\\-`".to_owned()));
                };
                last = end;
            }
            if last < first {
                return Err((at, "a range that ends before it begins".to_owned()));
            }
            ranges.push((first, last));
        }
        self.at += 1;
        if ranges.is_empty() {
            return Err((begin, "a class without characters; write `.` for any character".to_owned()));
        }
        let set = self.folded(ranges);
        let set = if negated { set.negated() } else { set };
        if set.is_empty() {
            return Err((begin, "a class that leaves out every character".to_owned()));
        }
        Ok(set)
    }

    fn member(&mut self) -> Result<Item, Fault> {
        match self.peek() {
            Some('\\') => self.escape(true),
            char => {
                let char = char.expect("the caller has looked");
                self.at += char.len_utf8();
                Ok(Item::One(char.into()))
            }
        }
    }

    /// The set of these ranges, with both cases of letters if their case does not count.
    fn folded(&self, mut ranges: Vec<(u32, u32)>) -> CharSet {
        if self.flags.any_case {
            for at in 0..ranges.len() {
                let (first, last) = ranges[at];
                for (a, z, other) in [(0x41, 0x5a, 0x61), (0x61, 0x7a, 0x41)] {
                    let (first, last) = (first.max(a), last.min(z));
                    if first <= last {
                        ranges.push((first - a + other, last - a + other));
                    }
                }
            }
        }
        CharSet::new(ranges)
    }

    /// Reads an escape. The cursor is at its backslash.
    fn escape(&mut self, in_class: bool) -> Result<Item, Fault> {
        let begin = self.at;
        self.at += 1;
        let Some(char) = self.peek() else {
            self.at = begin;
            return self.fault("a backslash at the end; a backslash is `\\\\`");
        };
        self.at += char.len_utf8();
        let refused = |message: &str| Err((begin, message.to_owned()));
        let set = |ranges: &[(u32, u32)], negated: bool| {
            let set = CharSet::new(ranges.to_vec());
            Ok(Item::Set(if negated { set.negated() } else { set }))
        };
        let one = match char {
            'n' => 0xa,
            't' => 0x9,
            'r' => 0xd,
            'f' => 0xc,
            'v' => 0xb,
            'a' => 0x7,
            'e' => 0x1b,
            '0' => 0,
            'b' if in_class => 0x8,
            'b' | 'B' => {
                return refused("a boundary of words is not supported: write the characters around it");
            }
            'p' | 'P' => return refused("a class by its property is not supported: list the characters"),
            'k' | '1'..='9' => return refused("a back reference is not supported: it is not regular"),
            'd' | 'D' => return set(&[(0x30, 0x39)], char == 'D'),
            'w' | 'W' => return set(&[(0x30, 0x39), (0x41, 0x5a), (0x5f, 0x5f), (0x61, 0x7a)], char == 'W'),
            's' | 'S' => return set(&[(0x9, 0xd), (0x20, 0x20)], char == 'S'),
            'x' => self.hexadecimal(2)?,
            'u' if self.eat("{") => {
                let digits = self.rest().bytes().take_while(u8::is_ascii_hexdigit).count();
                let value = self.hexadecimal(digits.clamp(1, 6))?;
                if !self.eat("}") {
                    return self.fault("expected `}` after at most six hexadecimal digits");
                }
                value
            }
            'u' => self.hexadecimal(4)?,
            'c' => {
                let letter = self.peek().filter(char::is_ascii_alphabetic);
                let Some(letter) = letter else { return self.fault("expected a letter after `\\c`") };
                self.at += 1;
                u32::from(letter) & 0x1f
            }
            letter if letter.is_ascii_alphanumeric() => {
                return Err((
                    begin,
                    format!("`\\{letter}` is no escape: write `{letter}` for the character alone"),
                ));
            }
            other => other.into(),
        };
        match char::from_u32(one) {
            Some(_) => Ok(Item::One(one)),
            None => refused("no character has this number: surrogates and numbers above 10FFFF are none"),
        }
    }

    fn hexadecimal(&mut self, digits: usize) -> Result<u32, Fault> {
        let text =
            self.rest().get(..digits).filter(|text| text.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let Some(text) = text else { return self.fault(&format!("expected {digits} hexadecimal digits")) };
        let value = u32::from_str_radix(text, 16).expect("these are hexadecimal digits");
        self.at += digits;
        Ok(value)
    }
}
