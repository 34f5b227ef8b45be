//! The EBNF of XGrammar, which structural tags use too.
//!
//! ```text
//! root ::= "[" value ("," value){0,9} "]"      # a comment
//! value[capture, max_chars=8] ::= [0-9]+ | root |
//!   Regex("[a-z]+", flags="i")
//! ```
//!
//! It is a language of its own and not a part of the [notation of the W3C](super::bnf): in XGrammar `a.b` and `-a` are
//! names, `#x41` is a comment and `name[lazy] ::=` has an option, and in the notation of the W3C each of them has
//! another meaning. The facts are from its documentation, its sources, and experiments.
//!
//! | | XGrammar | here |
//! |---|---|---|
//! | the start rule | `root`, or the one that is given | the same |
//! | names | letters, digits, `_`, `-` and `.`; the first is no digit | the same |
//! | the name of a rule | begins its line | the same |
//! | `"…"`, `[…]` | the escapes of C; `\x` with any number of digits; `[^]` is any character | the same |
//! | `{n}`, `{n,}`, `{n,-1}`, `{n,m}`, `*`, `+`, `?` | one for an item | the same |
//! | `(= …)` at the end of a rule | the text that follows the rule: a hint by which masks are found sooner | checked, and not used |
//! | `name[lazy]` | the rule ends where it can; other readings stay | the same |
//! | `name[max_chars=n]` | the rule ends at the first place after n characters, or before | the same, if the rule is regular |
//! | `name[max_tokens=n]` | the same for tokens, in masks only | at most n whole tokens |
//! | `capture`, `stop_capture`, `capture_hidden_…`, `temperature` | name parts of outputs, or steer the sampler | no effect |
//! | `Regex(…)` | a regex in the dialect [`Xgrammar`](unskew_automata::Dialect::Xgrammar) | the same; an error where XGrammar ignores a part |
//! | `Substring(…)` | a concatenation of adjacent texts of the list | the same |
//! | `Token(1, 2)`, `ExcludeToken(…)` | one token, or one of all others | the same; of all others, none that ends sequences |
//! | `TagDispatch(…)`, `TokenTagDispatch(…)` | free text with [triggers](dispatch) | the same |

mod calls;
mod dispatch;
mod options;
mod recursion;

use unskew_grammar::{Fate, GrammarLimits, SyntaxError, SyntaxErrorKind};

use super::{
    assembler::Group,
    bnf::{ANGLES, Characters, FOREIGN, open},
    cursor::Cursor,
    error::nearest,
    escape::{escaped_as_in_c, number, ordered},
    reader::Reader,
    tree::{Node, NodeId, Tree},
};

pub(super) fn read<'t>(text: &'t str, limits: &'t GrammarLimits) -> Result<Tree<'t>, SyntaxError> {
    let mut reader = Reader::new(text, limits);
    let (mut names, mut regular) = (vec![], false);
    reader.cursor.eat("\u{feff}");
    loop {
        space(&mut reader.cursor);
        if reader.cursor.peek().is_none() {
            break;
        }
        regular |= rule(&mut reader, &mut names)?;
    }
    // A look-ahead becomes no part of a grammar, so its names are checked here.
    for node in names {
        let Node::Name(name) = reader.tree.node(node) else { continue };
        if reader.tree.definition_of(name).is_none() {
            let at = reader.tree.place(node);
            return Err(super::tree::undefined(text, &reader.tree, name, at));
        }
    }
    if regular {
        recursion::unroll(&mut reader.tree);
    }
    Ok(reader.tree)
}

/// Reads a rule. `names` receives the nodes of its look-ahead. Returns whether it must be regular.
fn rule(reader: &mut Reader<'_>, names: &mut Vec<NodeId>) -> Result<bool, SyntaxError> {
    let at = reader.cursor.at();
    let name = name(&mut reader.cursor);
    if name.is_empty() {
        let foreign = [&[("<", ANGLES)], FOREIGN].concat();
        return Err(reader.cursor.foreign(&foreign, "the name of a rule"));
    }
    if !first_on_line(reader.text, at) {
        return Err(reader
            .cursor
            .invalid(at, format!("the name of the rule `{name}` must be the first on its line")));
    }
    let options = options::read(reader, (name, at))?;
    space(&mut reader.cursor);
    if !reader.cursor.eat("::=") {
        return Err(reader.cursor.unexpected("`::=` after the name of a rule"));
    }
    space(&mut reader.cursor);
    reader.body.begin(reader.cursor.at());
    let mut quantified = false;
    let looks_ahead =
        |reader: &Reader<'_>| reader.body.depth() == 0 && reader.cursor.rest().starts_with("(=");
    while !ends(reader) && !looks_ahead(reader) {
        item(reader, &mut quantified)?;
        reader.check_size()?;
    }
    check_item(reader)?;
    let body = reader.end_body()?;
    if reader.cursor.rest().starts_with("(=") {
        look_ahead(reader, names)?;
    }
    let regular = options.apply(reader, body, at);
    reader.define(name, at, regular, false)?;
    Ok(regular != body)
}

/// Reads `(= … )`, which ends a rule.
fn look_ahead(reader: &mut Reader<'_>, names: &mut Vec<NodeId>) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    reader.cursor.eat("(=");
    let first = reader.tree.len();
    reader.body.begin(at);
    let mut quantified = false;
    loop {
        space(&mut reader.cursor);
        if reader.cursor.peek().is_none() {
            return Err(reader.cursor.unclosed(at, "the look-ahead", "`)`"));
        }
        if reader.body.depth() == 0 && reader.cursor.peek() == Some(')') {
            break;
        }
        item(reader, &mut quantified)?;
        reader.check_size()?;
    }
    check_item(reader)?;
    reader.end_body()?;
    reader.cursor.eat(")");
    names.extend(
        reader.tree.nodes().skip(first).filter(|node| matches!(reader.tree.node(*node), Node::Name(_))),
    );
    let why =
        "it says which text follows the rule, by which XGrammar finds masks sooner, and changes no text";
    reader.tree.notes.push((at, "look-ahead", Fate::Annotation, why));
    if !ends(reader) {
        return Err(reader.cursor.unexpected("the next rule, as a look-ahead ends a rule"));
    }
    Ok(())
}

/// Skips white space and comments. Returns whether the rule ends here: at the end of the text, or before the next rule.
fn ends(reader: &mut Reader<'_>) -> bool {
    space(&mut reader.cursor);
    let mut ahead = reader.cursor;
    if ahead.peek().is_none() {
        return true;
    }
    if name(&mut ahead).is_empty() {
        return false;
    }
    options::skip(&mut ahead);
    space(&mut ahead);
    ahead.rest().starts_with("::=")
}

/// An alternative needs an item.
fn check_item(reader: &Reader<'_>) -> Result<(), SyntaxError> {
    match reader.body.last() {
        Some(_) => Ok(()),
        None => Err(reader.cursor.unexpected("an item; the empty text is `\"\"`")),
    }
}

/// Reads an item, an operator or a bracket. `quantified` says whether the last item has a number of repetitions.
fn item(reader: &mut Reader<'_>, quantified: &mut bool) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    let was_quantified = std::mem::take(quantified);
    match reader.cursor.peek() {
        Some('"') => {
            let text = quoted(&mut reader.cursor)?.text;
            reader.literal(&text, at);
        }
        Some('[') => {
            let set = reader.bracketed(Characters::OfC, &mut None)?;
            reader.class(set, at);
        }
        Some('(') if reader.cursor.rest().starts_with("(=") => {
            let message = "a look-ahead `(=…)` stands at the end of a rule, and not inside of a group";
            return Err(reader.cursor.invalid(at, message));
        }
        Some('(') => {
            let mut ahead = reader.cursor;
            ahead.next();
            space(&mut ahead);
            if ahead.eat(")") {
                reader.cursor = ahead;
                reader.literal("", at);
            } else {
                open(reader)?;
            }
        }
        Some(')') => {
            if reader.body.depth() > 0 {
                check_item(reader)?;
            }
            reader.close(Group::Round)?;
        }
        Some('|') => {
            check_item(reader)?;
            reader.cursor.next();
            reader.body.bar(&mut reader.tree);
        }
        Some('*' | '+' | '?' | '{') => {
            if was_quantified {
                let message = "an item has one number of repetitions; put it in brackets for another one, as in `(\"a\"+)?`";
                return Err(reader.cursor.invalid(at, message));
            }
            *quantified = true;
            repetition(reader)?;
        }
        Some(char) if is_name(char) && !char.is_ascii_digit() => {
            let name = name(&mut reader.cursor);
            match calls::Function::named(name) {
                Some(function) => calls::read(reader, function, at)?,
                None => reader.reference(name, at),
            }
        }
        _ => {
            let expected = "a name, a text in double quotes, a class, a group, `|` or the next rule";
            let foreign = [&[("<", ANGLES)], FOREIGN].concat();
            return Err(reader.cursor.foreign(&foreign, expected));
        }
    }
    Ok(())
}

/// Reads `*`, `+`, `?` or bounds in braces.
fn repetition(reader: &mut Reader<'_>) -> Result<(), SyntaxError> {
    let Reader { cursor, tree, body, .. } = reader;
    if body.last().is_none() {
        return Err(cursor.unexpected("something to repeat before the operator"));
    }
    let begin = cursor.at();
    let (min, max) = match cursor.next() {
        Some('*') => (0, u32::MAX),
        Some('+') => (1, u32::MAX),
        Some('?') => (0, 1),
        _ => {
            space(cursor);
            let min = number(cursor, "a number of repetitions, `0` for no least")?;
            space(cursor);
            let mut max = min;
            if cursor.eat(",") {
                space(cursor);
                max = u32::MAX;
                // XGrammar prints the missing bound as `-1`.
                if !cursor.eat("-1") && cursor.peek() != Some('}') {
                    max = number(cursor, "a number of repetitions or `}`")?;
                }
                space(cursor);
            }
            if !cursor.eat("}") {
                return Err(cursor.unexpected("`,` or `}` in the bounds of a repetition"));
            }
            ordered(cursor, begin, min, max)?
        }
    };
    body.repeat(tree, min, max);
    Ok(())
}

/// A text in double quotes.
struct Quoted {
    text: String,
    /// The offset of its first quote in the grammar.
    at: usize,
    /// By escape: the offset after it in `text`, and the number of further bytes that the text before it has in the
    /// grammar.
    escapes: Vec<(usize, usize)>,
}

impl Quoted {
    /// The offset in the grammar of the offset `at` in the text.
    fn place(&self, at: usize) -> usize {
        let before = self.escapes.partition_point(|(end, _)| *end <= at);
        let more = before.checked_sub(1).map_or(0, |last| self.escapes[last].1);
        self.at + 1 + at + more
    }
}

/// Reads the text in double quotes at which the cursor is.
fn quoted(cursor: &mut Cursor<'_>) -> Result<Quoted, SyntaxError> {
    let at = cursor.at();
    cursor.next();
    let mut quoted = Quoted { text: String::new(), at, escapes: vec![] };
    loop {
        match cursor.peek() {
            Some('"') => break,
            None | Some('\n' | '\r') => {
                return Err(cursor.unclosed(at, "the text in quotes", "`\"` on the same line"));
            }
            Some('\\') => {
                cursor.next();
                quoted.text.push(escaped_as_in_c(cursor, "")?);
                let read = cursor.at() - at - 1;
                quoted.escapes.push((quoted.text.len(), read - quoted.text.len()));
            }
            Some(char) => {
                cursor.next();
                quoted.text.push(char);
            }
        }
    }
    cursor.next();
    Ok(quoted)
}

fn is_name(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.')
}

/// Reads a name; it is empty if the cursor is at none.
fn name<'t>(cursor: &mut Cursor<'t>) -> &'t str {
    if cursor.peek().is_some_and(|first| first.is_ascii_digit()) {
        return "";
    }
    cursor.take_while(is_name)
}

fn first_on_line(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches([' ', '\t', '\u{feff}']);
    before.is_empty() || before.ends_with(['\n', '\r'])
}

/// Skips white space and comments.
fn space(cursor: &mut Cursor<'_>) {
    loop {
        cursor.take_while(|char| matches!(char, ' ' | '\t' | '\r' | '\n'));
        if !cursor.eat("#") {
            return;
        }
        cursor.take_while(|char| char != '\n' && char != '\r');
    }
}

/// The error for the name of an option or argument that is not one of `known`.
fn unknown(cursor: &Cursor<'_>, at: usize, what: &'static str, name: &str, known: &[&str]) -> SyntaxError {
    let nearest = nearest(name, known.iter().copied());
    cursor.error(at, SyntaxErrorKind::Undefined { what, name: name.to_owned(), nearest, way_out: None })
}
