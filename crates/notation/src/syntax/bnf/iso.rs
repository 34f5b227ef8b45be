//! The EBNF of ISO/IEC 14977.
//!
//! ```text
//! (* a comment (* and one inside *) *)
//! order = verb, " ", thing, { ", ", thing }, [ "!" ] ;
//! verb  = "buy" | "sell" ;
//! thing = "tea" | 'salt' | 2 * "x" ;
//! ```
//!
//! | here | meaning |
//! |---|---|
//! | `A , B` | A and then B. In a file without a comma a blank is one, and names have no blanks |
//! | `[ A ]`, `{ A }`, `( A )` | A or nothing, any number of A, a group |
//! | `{ A }-` | one A or more |
//! | `n * A` | n times A |
//! | `A - B`, `A-` | the texts of A that are no texts of B, or not empty, if both are regular |
//! | `"…"`, `'…'` | a text. A backslash is itself; one that looks like an escape is an error |
//! | `? U+000A ?`, `? U+0041..U+005A ?` | a character by its number, or one of a range. Any other text between `?` is an error |
//! | `;` or `.` | the end of a rule, which may also end before the next `name =` |
//! | a dash between letters | a part of a name if the name of some rule has one, else the difference |
//! | `(* … *)`, and also `/* … */`, `//`, `#` | comments |
//!
//! The start rule is `root` if there is one, else the first rule.

use std::collections::HashMap;

use unskew_automata::dfa::CharSet;
use unskew_grammar::{GrammarLimits, SyntaxError};

use crate::syntax::{
    bnf::is_escape,
    text::cursor::Cursor,
    tree::{Node, Tree, assembler::Group, reader::Reader},
};

/// What a file does.
#[derive(Clone, Copy, Default)]
struct Style {
    /// A comma stands between the parts of a sequence, so that names may have blanks.
    commas: bool,
    /// The name of some rule has a dash.
    dashes: bool,
}

impl Style {
    /// The style of the file at whose beginning `cursor` is.
    fn new(mut cursor: Cursor<'_>) -> Result<Self, SyntaxError> {
        let mut style = Self::default();
        // Whether a dash is in the words before the cursor.
        let mut dashed = false;
        loop {
            let at = cursor.at();
            space(&mut cursor)?;
            dashed &= !cursor.since(at).contains('\n');
            let all = Self { commas: false, dashes: true };
            let word = name(&mut cursor, all);
            if !word.is_empty() {
                dashed |= word.contains('-');
                continue;
            }
            match cursor.next() {
                None => return Ok(style),
                Some(quote @ ('"' | '\'' | '?')) => {
                    cursor.take_while(|char| char != quote && char != '\n');
                    cursor.next();
                }
                Some('=') => style.dashes |= dashed,
                Some(',') => style.commas = true,
                Some(_) => {}
            }
            dashed = false;
        }
    }
}

struct File<'t, 'r> {
    reader: &'r mut Reader<'t>,
    style: Style,
    /// Names by their words, so that the blanks between them do not count.
    names: HashMap<String, &'t str>,
    /// Whether something must precede the next item: a comma.
    parted: bool,
    /// The number before the next item, `n *`.
    times: Option<u32>,
    /// The numbers before the open groups.
    around: Vec<Option<u32>>,
}

pub(crate) fn read<'t>(text: &'t str, limits: &'t GrammarLimits) -> Result<Tree<'t>, SyntaxError> {
    let mut reader = Reader::new(text, limits);
    reader.cursor.eat("\u{feff}");
    let style = Style::new(reader.cursor)?;
    let (names, around) = (HashMap::new(), vec![]);
    let mut file = File { reader: &mut reader, style, names, parted: false, times: None, around };
    loop {
        space(&mut file.reader.cursor)?;
        if file.reader.cursor.peek().is_none() {
            return Ok(reader.tree);
        }
        file.rule()?;
    }
}

impl<'t> File<'t, '_> {
    fn rule(&mut self) -> Result<(), SyntaxError> {
        let at = self.reader.cursor.at();
        let name = self.name();
        if name.is_empty() {
            return Err(self.reader.cursor.unexpected("the name of a rule"));
        }
        space(&mut self.reader.cursor)?;
        if !self.reader.cursor.eat("=") {
            return Err(self.reader.cursor.unexpected("`=` after the name of a rule"));
        }
        self.reader.body.begin(self.reader.cursor.at());
        self.parted = false;
        while !self.ends()? {
            self.item()?;
            self.reader.check_size()?;
        }
        self.complete()?;
        self.reader.end(name, at, false)
    }

    /// Reads a name. Names with the same words are the same.
    fn name(&mut self) -> &'t str {
        let name = name(&mut self.reader.cursor, self.style);
        if !name.contains([' ', '\t']) {
            return name;
        }
        let words: Vec<&str> = name.split_whitespace().collect();
        self.names.entry(words.join(" ")).or_insert(name)
    }

    /// Skips white space and comments. Returns whether the rule ends here.
    fn ends(&mut self) -> Result<bool, SyntaxError> {
        space(&mut self.reader.cursor)?;
        let cursor = &mut self.reader.cursor;
        if cursor.peek().is_none() || cursor.eat(";") || cursor.eat(".") {
            return Ok(true);
        }
        let mut ahead = *cursor;
        let is_named = !name(&mut ahead, self.style).is_empty();
        space(&mut ahead)?;
        Ok(is_named && ahead.peek() == Some('='))
    }

    /// An error if an operator waits for its operand.
    fn complete(&self) -> Result<(), SyntaxError> {
        if self.times.is_some() {
            return Err(self.reader.cursor.unexpected("something to repeat after `*`"));
        }
        if self.reader.body.waits() {
            return Err(self.reader.cursor.unexpected("something after `-`"));
        }
        Ok(())
    }

    fn item(&mut self) -> Result<(), SyntaxError> {
        let at = self.reader.cursor.at();
        let first = self.reader.cursor.peek().unwrap_or_default();
        match first {
            '|' => {
                self.complete()?;
                self.reader.cursor.next();
                self.reader.body.bar(&mut self.reader.tree);
                self.parted = false;
            }
            ',' => {
                self.complete()?;
                if self.reader.body.last().is_none() || !self.parted {
                    return Err(self.reader.cursor.unexpected("something before `,`"));
                }
                self.reader.cursor.next();
                self.parted = false;
            }
            '-' => {
                self.complete()?;
                self.minus()?;
            }
            ')' | ']' | '}' => {
                self.complete()?;
                let group = match first {
                    ')' => Group::Round,
                    ']' => Group::Square,
                    _ => Group::Curly,
                };
                self.reader.close(group)?;
                if group == Group::Curly {
                    self.reader.body.repeat(&mut self.reader.tree, 0, u32::MAX);
                }
                self.times = self.around.pop().flatten();
                self.ended();
            }
            _ => {
                if self.style.commas && self.parted {
                    let expected =
                        "`,` before the next part of a sequence, `|`, or `;` at the end of the rule";
                    return Err(self.reader.cursor.unexpected(expected));
                }
                self.operand(first, at)?;
            }
        }
        Ok(())
    }

    /// Reads a text, a name, a special sequence, a number of times, or the beginning of a group.
    fn operand(&mut self, first: char, at: usize) -> Result<(), SyntaxError> {
        let group = match first {
            '(' => Some(Group::Round),
            '[' => Some(Group::Square),
            '{' => Some(Group::Curly),
            _ => None,
        };
        if let Some(group) = group {
            self.reader.body.open(group, &self.reader.cursor)?;
            self.reader.cursor.next();
            self.around.push(self.times.take());
            self.parted = false;
            return Ok(());
        }
        match first {
            '"' | '\'' => {
                let text = text(&mut self.reader.cursor, first)?;
                self.reader.literal(text, at);
            }
            '?' => {
                let set = special(&mut self.reader.cursor)?;
                self.reader.class(set, at);
            }
            first if first.is_ascii_digit() => {
                self.complete_times()?;
                let number = crate::syntax::escape::number(&mut self.reader.cursor, "a number")?;
                space(&mut self.reader.cursor)?;
                if !self.reader.cursor.eat("*") {
                    return Err(self.reader.cursor.unexpected("`*` and what is repeated, after a number"));
                }
                self.times = Some(number);
                return Ok(());
            }
            _ => {
                let name = self.name();
                if name.is_empty() {
                    const FOREIGN: &[(&str, &str)] = &[
                        ("*", "a number precedes `*`; any number of times is `{ … }`"),
                        ("+", "once or more is `{ … }-`"),
                        ("::=", "a rule is defined by `=` here, as by the first one of the file"),
                        ("/", "a regex is written as rules; alternatives are joined by `|`"),
                        ("\\", "a character by its number is `? U+000A ?`"),
                        ("<", "the name of a rule is written without angle brackets"),
                        ("“", "a text is in straight quotes"),
                        ("‘", "a text is in straight quotes"),
                    ];
                    let expected =
                        "a name, a text in quotes, a group, `|`, `-`, or `;` at the end of the rule";
                    return Err(self.reader.cursor.foreign(FOREIGN, expected));
                }
                self.reader.reference(name, at);
            }
        }
        self.ended();
        Ok(())
    }

    fn complete_times(&self) -> Result<(), SyntaxError> {
        match self.times {
            Some(_) => {
                Err(self.reader.cursor.unexpected("something to repeat after `*`, which is no number"))
            }
            None => Ok(()),
        }
    }

    /// Repeats the item that has ended, if a number precedes it.
    fn ended(&mut self) {
        if let Some(times) = self.times.take() {
            self.reader.body.repeat(&mut self.reader.tree, times, times);
        }
        self.parted = true;
    }

    /// Reads `-`: a difference, where no operand follows that with the empty text.
    fn minus(&mut self) -> Result<(), SyntaxError> {
        let Some(last) = self.reader.body.last().filter(|_| self.parted) else {
            return Err(self.reader.cursor.unexpected("something before `-`"));
        };
        self.reader.cursor.next();
        let mut ahead = self.reader.cursor;
        space(&mut ahead)?;
        let is_alone = ahead.peek().is_none_or(|next| ",;.|)]}".contains(next)) || {
            name(&mut ahead, self.style);
            space(&mut ahead)?;
            ahead.peek() == Some('=')
        };
        match self.reader.tree.node(last) {
            Node::Repeat(item, 0, u32::MAX) if is_alone => {
                self.reader.tree.replace(last, Node::Repeat(item, 1, u32::MAX));
            }
            // The exception is the empty text.
            _ if is_alone => {
                self.reader.body.minus();
                self.reader.literal("", self.reader.cursor.at());
            }
            _ => {
                self.reader.body.minus();
                self.parted = false;
            }
        }
        Ok(())
    }
}

/// Reads a text in quotes, without them.
fn text<'t>(cursor: &mut Cursor<'t>, quote: char) -> Result<&'t str, SyntaxError> {
    let begin = cursor.at();
    cursor.next();
    let inside = cursor.at();
    let text = cursor.take_while(|char| char != quote && char != '\n');
    if cursor.peek() != Some(quote) {
        let close = if quote == '"' { "`\"` on the same line" } else { "`'` on the same line" };
        return Err(cursor.unclosed(begin, "the text in quotes", close));
    }
    cursor.next();
    let escape = text.match_indices('\\').find(|(at, _)| is_escape(&text[at + 1..]));
    let at = match escape {
        Some((at, _)) => inside + at,
        None if text.ends_with('\\') && cursor.peek() == Some(quote) => begin,
        None => return Ok(text),
    };
    let message = "a backslash is itself here, and this one looks like an escape: write a character by its number, as `? U+000A ?` \
                   for a newline and `? U+005C ?` for a backslash";
    Err(cursor.invalid(at, message))
}

/// Reads a special sequence: a character by its number, or a range of them.
fn special(cursor: &mut Cursor<'_>) -> Result<CharSet, SyntaxError> {
    let begin = cursor.at();
    cursor.next();
    let inside = cursor.take_while(|char| char != '?' && char != '\n');
    if !cursor.eat("?") {
        return Err(cursor.unclosed(begin, "the special sequence", "`?` on the same line"));
    }
    let number = |text: &str| {
        let digits = text.trim().strip_prefix("U+").or_else(|| text.trim().strip_prefix("u+"))?;
        u32::from_str_radix(digits, 16).ok().filter(|number| *number <= u32::from(char::MAX))
    };
    let (first, last) = inside.split_once("..").unwrap_or((inside, inside));
    if let (Some(first), Some(last)) = (number(first), number(last)) {
        let set = CharSet::new(vec![(first, last.max(first))]);
        if first <= last && !set.is_empty() {
            return Ok(set);
        }
    }
    let construct = format!("the special sequence `?{inside}?`");
    let way_out = "write what it means as rules; `? U+000A ?` is a character by its number, and `? U+0041..U+005A ?` one of a range";
    Err(cursor.unsupported(begin, construct, way_out))
}

/// Reads a name: letters, digits and underscores, the first no digit.
fn name<'t>(cursor: &mut Cursor<'t>, style: Style) -> &'t str {
    let begin = cursor.at();
    if !cursor.peek().is_some_and(|first| first.is_alphabetic() || first == '_') {
        return "";
    }
    let letter = |char: char| char.is_alphanumeric() || char == '_';
    loop {
        cursor.take_while(letter);
        let mut ahead = *cursor;
        let goes_on = (style.dashes && ahead.eat("-"))
            || (style.commas && !ahead.take_while(|char| char == ' ' || char == '\t').is_empty());
        if !goes_on || !ahead.peek().is_some_and(letter) {
            return cursor.since(begin);
        }
        *cursor = ahead;
    }
}

/// Skips white space and comments.
fn space(cursor: &mut Cursor<'_>) -> Result<(), SyntaxError> {
    loop {
        cursor.take_while(char::is_whitespace);
        let begin = cursor.at();
        if cursor.rest().starts_with('#') || cursor.rest().starts_with("//") {
            cursor.skip_line();
        } else if cursor.eat("/*") {
            if !cursor.skip_past("*/") {
                return Err(cursor.unclosed(begin, "the comment", "`*/`"));
            }
        } else if cursor.eat("(*") {
            let mut depth = 1;
            while depth > 0 {
                if cursor.eat("(*") {
                    depth += 1;
                } else if cursor.eat("*)") {
                    depth -= 1;
                } else if cursor.next().is_none() {
                    return Err(cursor.unclosed(begin, "the comment", "`*)`"));
                }
            }
        } else {
            return Ok(());
        }
    }
}
