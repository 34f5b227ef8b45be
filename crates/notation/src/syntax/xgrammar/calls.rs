//! Calls such as `Regex("[a-z]+", flags="i")`: their arguments, and all but those with triggers.
//!
//! No argument contains a call or a tuple of tuples, so nothing recurses.

use unskew_automata::{Dialect, RegexError};
use unskew_grammar::{SyntaxError, TokenSet};

use super::{Quoted, Reader, dispatch, is_name, name, quoted, space, unknown};
use crate::syntax::{
    cursor::Cursor,
    tree::{Node, NodeId, Pattern},
};

/// A function that can be called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Function {
    Regex,
    Substring,
    Token,
    ExcludeToken,
    TagDispatch,
    TokenTagDispatch,
}

impl Function {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "Regex" => Self::Regex,
            "Substring" => Self::Substring,
            "Token" => Self::Token,
            "ExcludeToken" => Self::ExcludeToken,
            "TagDispatch" => Self::TagDispatch,
            "TokenTagDispatch" => Self::TokenTagDispatch,
            _ => return None,
        })
    }

    /// The names of the named arguments.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Regex => &["json_string", "flags"],
            Self::TagDispatch | Self::TokenTagDispatch => &["loop_after_dispatch", "excludes"],
            Self::Substring | Self::Token | Self::ExcludeToken => &[],
        }
    }
}

/// A value with its offset.
pub(super) struct Value<'t> {
    pub(super) at: usize,
    pub(super) is: Is<'t>,
}

pub(super) enum Is<'t> {
    Text(Box<Quoted>),
    Number(u32),
    Bool(bool),
    Name(&'t str),
    Tuple(Vec<Value<'t>>),
}

/// The arguments of a call.
pub(super) struct Arguments<'t> {
    pub(super) listed: Vec<Value<'t>>,
    named: Vec<(&'t str, Value<'t>)>,
}

impl<'t> Arguments<'t> {
    pub(super) fn take(&mut self, name: &str) -> Option<Value<'t>> {
        let at = self.named.iter().position(|(known, _)| *known == name)?;
        Some(self.named.swap_remove(at).1)
    }

    /// The value of a named argument that is `true` or `false`.
    pub(super) fn truth(
        &mut self,
        cursor: &Cursor<'_>,
        name: &str,
        default: bool,
    ) -> Result<bool, SyntaxError> {
        match self.take(name) {
            None => Ok(default),
            Some(Value { is: Is::Bool(value), .. }) => Ok(value),
            Some(other) => Err(cursor.invalid(other.at, format!("`{name}` is `true` or `false`"))),
        }
    }
}

/// Reads the rest of a call of `function`, whose name begins at `at`, and adds it as an item.
pub(super) fn read(reader: &mut Reader<'_>, function: Function, at: usize) -> Result<(), SyntaxError> {
    space(&mut reader.cursor);
    if !reader.cursor.rest().starts_with('(') {
        return Err(reader.cursor.unexpected("`(` and arguments, as this name is that of a function"));
    }
    let mut arguments = arguments(reader, function)?;
    let node = match function {
        Function::Regex => pattern(reader, &mut arguments, at)?,
        Function::Substring => {
            let mut texts = vec![];
            for value in arguments.listed {
                let Is::Text(text) = value.is else {
                    return Err(reader
                        .cursor
                        .invalid(value.at, "`Substring` has texts in double quotes as arguments"));
                };
                texts.push(text.text);
            }
            // An empty text is a part of every one.
            texts.retain(|text| !text.is_empty());
            if texts.is_empty() { reader.tree.literal(b"", at) } else { reader.tree.neighbours(texts, at) }
        }
        Function::Token | Function::ExcludeToken => {
            let mut ids = vec![];
            for value in arguments.listed {
                ids.push(id(&reader.cursor, &value)?);
            }
            if ids.is_empty() {
                return Err(reader.cursor.invalid(at, "at least one id of a token is needed"));
            }
            let set = TokenSet::of_ids(ids.into_iter().map(|id| (id, id)));
            let set = if function == Function::Token { set } else { set.complement() };
            reader.tree.tokens(set, at)
        }
        Function::TagDispatch => dispatch::texts(reader, arguments, at)?,
        Function::TokenTagDispatch => dispatch::tokens(reader, arguments, at)?,
    };
    reader.body.item(&mut reader.tree, node);
    Ok(())
}

/// The id of a token.
pub(super) fn id(cursor: &Cursor<'_>, value: &Value<'_>) -> Result<u32, SyntaxError> {
    match value.is {
        Is::Number(id) => Ok(id),
        _ => Err(cursor.invalid(value.at, "the id of a token is a number from 0")),
    }
}

fn pattern(reader: &mut Reader<'_>, arguments: &mut Arguments<'_>, at: usize) -> Result<NodeId, SyntaxError> {
    let cursor = reader.cursor;
    let [Value { is: Is::Text(pattern), .. }] = &arguments.listed[..] else {
        return Err(cursor.invalid(at, "`Regex` has one argument without a name: the regex in double quotes"));
    };
    let mut flags = String::new();
    match arguments.named.iter().find(|(name, _)| *name == "flags") {
        None => {}
        Some((_, Value { is: Is::Text(text), at })) => {
            // In XGrammar flags turn off that `.` is any character.
            flags = format!(
                "(?{}{})",
                if text.text.contains('i') { "i" } else { "" },
                if text.text.contains('s') { "" } else { "-s" }
            );
            if let Some(flag) = text.text.chars().find(|flag| !"isu".contains(*flag)) {
                return Err(cursor.invalid(
                    *at,
                    format!("`{flag}` is no flag of a regex; the flags are `i`, `s` and `u`"),
                ));
            }
        }
        Some((_, value)) => return Err(cursor.invalid(value.at, "`flags` is a text in double quotes")),
    }
    let regex = format!("{flags}{}", pattern.text);
    // Only here is the place in the text of the grammar known.
    if let Err(error) = Dialect::Xgrammar.pattern(&regex).counted(&reader.limits.regex) {
        let offset = error.place().map_or(0, |place| place.span.start.saturating_sub(flags.len()));
        let fault = match error {
            RegexError::Syntax { message, .. } => message,
            RegexError::Unsupported { construct, .. } => {
                format!("{construct} is not supported: {}", construct.advice())
            }
            error => error.to_string(),
        };
        return Err(cursor.invalid(pattern.place(offset), fault));
    }
    let place = pattern.at;
    let node = reader.tree.regex(Pattern { regex, dialect: Dialect::Xgrammar, added: None }, place);
    if !arguments.truth(&cursor, "json_string", false)? {
        return Ok(node);
    }
    // The texts without characters that a string of JSON has only as escapes.
    let inside = r#"[^"\\\x00-\x1f]*"#.to_owned();
    let inside = Pattern { regex: inside, dialect: Dialect::Rust, added: None };
    let inside = reader.tree.regex(inside, place);
    Ok(reader.tree.push(Node::And(node, inside), place))
}

/// Reads the arguments of a call. The cursor is at the `(`.
fn arguments<'t>(reader: &mut Reader<'t>, function: Function) -> Result<Arguments<'t>, SyntaxError> {
    // Values are counted like nodes.
    let mut left = reader.limits.nodes.saturating_sub(reader.tree.size());
    let cursor = &mut reader.cursor;
    let begin = cursor.at();
    cursor.next();
    let mut read = Arguments { listed: vec![], named: vec![] };
    space(cursor);
    if cursor.eat(")") {
        return Ok(read);
    }
    loop {
        space(cursor);
        let mut ahead = *cursor;
        let (at, option) = (ahead.at(), name(&mut ahead));
        space(&mut ahead);
        if !option.is_empty() && ahead.eat("=") {
            let known = function.options();
            if !known.contains(&option) {
                return Err(unknown(cursor, at, "the argument", option, known));
            }
            if read.named.iter().any(|(name, _)| *name == option) {
                return Err(cursor.invalid(at, format!("the argument `{option}` is given a second time")));
            }
            *cursor = ahead;
            space(cursor);
            let value = value(cursor, true, &mut left)?;
            read.named.push((option, value));
        } else {
            let value = value(cursor, true, &mut left)?;
            read.listed.push(value);
        }
        space(cursor);
        if cursor.eat(")") {
            return Ok(read);
        }
        if cursor.peek().is_none() {
            return Err(cursor.unclosed(begin, "the call", "`)`"));
        }
        if !cursor.eat(",") {
            return Err(cursor.unexpected("`,` or `)` after an argument"));
        }
    }
}

/// Reads a value. `tuples` says whether it may be a tuple, and `left` how many more values there may be.
fn value<'t>(cursor: &mut Cursor<'t>, tuples: bool, left: &mut usize) -> Result<Value<'t>, SyntaxError> {
    let at = cursor.at();
    let Some(less) = left.checked_sub(1) else {
        let message = "the arguments exceed the number of nodes (GrammarLimits::nodes): split the grammar, or raise the limit";
        return Err(cursor.invalid(at, message));
    };
    *left = less;
    let is = match cursor.peek() {
        Some('"') => Is::Text(Box::new(quoted(cursor)?)),
        Some('0'..='9') => {
            let digits = cursor.take_while(|digit| digit.is_ascii_digit());
            match digits.parse() {
                Ok(number) => Is::Number(number),
                Err(_) => return Err(cursor.invalid(at, "a number that is too large for the id of a token")),
            }
        }
        Some('(') if tuples => Is::Tuple(tuple(cursor, left)?),
        Some('(') => return Err(cursor.invalid(at, "a tuple inside of a tuple; no argument has one")),
        Some(char) if is_name(char) => match name(cursor) {
            "true" => Is::Bool(true),
            "false" => Is::Bool(false),
            name => Is::Name(name),
        },
        _ => {
            return Err(
                cursor.unexpected("a text in double quotes, a number, `true`, `false`, a name or a tuple")
            );
        }
    };
    Ok(Value { at, is })
}

/// Reads a tuple. The cursor is at its `(`.
fn tuple<'t>(cursor: &mut Cursor<'t>, left: &mut usize) -> Result<Vec<Value<'t>>, SyntaxError> {
    let begin = cursor.at();
    cursor.next();
    let mut values = vec![];
    loop {
        space(cursor);
        if cursor.eat(")") {
            return Ok(values);
        }
        if cursor.peek().is_none() {
            return Err(cursor.unclosed(begin, "the tuple", "`)`"));
        }
        values.push(value(cursor, false, left)?);
        space(cursor);
        if !cursor.eat(",") && cursor.peek() != Some(')') {
            return Err(cursor.unexpected("`,` or `)` after a value of a tuple"));
        }
    }
}
