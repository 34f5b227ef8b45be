//! Random patterns, texts and vocabularies for property tests, over one small alphabet so that they have
//! characters in common.
//!
//! Patterns are syntax trees that print themselves, and not random strings: nearly every random string is a
//! syntax error or matches only itself. The printed patterns are valid and within the subset that engines
//! enforce (no look-around, no word boundaries, no line anchors).

use std::fmt;

use proptest::{prelude::*, sample::select};

use crate::Token;

/// The characters of random patterns and texts: one to four bytes long, some equal under case folding, and
/// some with common first bytes in UTF-8.
pub const ALPHABET: [char; 14] =
    ['a', 'b', 'c', 'k', 'K', '\u{212a}', '0', '7', '-', '\n', 'é', '日', '旦', '😀'];

/// A pattern as a tree. `Display` prints the pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// The empty pattern.
    Empty,
    /// One character.
    Char(char),
    /// `.`
    Dot,
    /// An atom that is printed unchanged: a class such as `\d`, or an anchor.
    Atom(&'static str),
    /// A bracketed class.
    Class {
        /// Whether it is `[^…]`.
        negated: bool,
        /// The items, at least one.
        items: Vec<ClassItem>,
    },
    /// A concatenation.
    Concat(Vec<Pattern>),
    /// An alternation.
    Alternation(Vec<Pattern>),
    /// A repetition, with the text of the operator.
    Repeat(Box<Pattern>, String),
    /// A group, with the text after its opening parenthesis: `?:`, `?i:`, or nothing.
    Group(&'static str, Box<Pattern>),
}

/// An item of a bracketed class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClassItem {
    /// One character.
    Char(char),
    /// A range of characters. The first is not greater than the second.
    Range(char, char),
    /// Another class, printed unchanged.
    Class(&'static str),
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => Ok(()),
            Self::Char(char) => escape(f, *char),
            Self::Dot => f.write_str("."),
            Self::Atom(atom) => f.write_str(atom),
            Self::Class { negated, items } => {
                f.write_str(if *negated { "[^" } else { "[" })?;
                for item in items {
                    match item {
                        ClassItem::Char(char) => escape(f, *char)?,
                        ClassItem::Range(first, last) => {
                            escape(f, *first)?;
                            f.write_str("-")?;
                            escape(f, *last)?;
                        }
                        ClassItem::Class(class) => f.write_str(class)?,
                    }
                }
                f.write_str("]")
            }
            Self::Concat(parts) => {
                for part in parts {
                    match part {
                        Self::Alternation(_) => write!(f, "(?:{part})")?,
                        _ => part.fmt(f)?,
                    }
                }
                Ok(())
            }
            Self::Alternation(parts) => {
                for (index, part) in parts.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { "|" })?;
                    part.fmt(f)?;
                }
                Ok(())
            }
            Self::Repeat(part, operator) => match &**part {
                Self::Char(_) | Self::Dot | Self::Atom(_) | Self::Class { .. } | Self::Group(..) => {
                    write!(f, "{part}{operator}")
                }
                _ => write!(f, "(?:{part}){operator}"),
            },
            Self::Group(flags, part) => write!(f, "({flags}{part})"),
        }
    }
}

fn escape(f: &mut fmt::Formatter<'_>, char: char) -> fmt::Result {
    match char {
        '\n' => f.write_str("\\n"),
        '-' => f.write_str("\\-"),
        _ => write!(f, "{char}"),
    }
}

/// A character of the [`ALPHABET`].
pub fn char() -> impl Strategy<Value = char> {
    select(&ALPHABET[..])
}

/// Classes, anchors and class algebra that are printed unchanged.
const ATOMS: [&str; 11] =
    [r"\d", r"\s", r"\W", r"\p{Lu}", r"[[:alpha:]]", "[a-k&&[^b]]", r"[\w--c]", "^", "$", r"\A", r"\z"];

/// The texts that may follow the opening parenthesis of a group.
const GROUPS: [&str; 7] = ["", "?:", "?i:", "?s:", "?x:", "?U:", "?P<name>"];

/// A random pattern. About one in ten matches no text.
pub fn pattern() -> impl Strategy<Value = Pattern> {
    let leaf = prop_oneof![
        1 => Just(Pattern::Empty),
        12 => char().prop_map(Pattern::Char),
        1 => Just(Pattern::Dot),
        3 => select(&ATOMS[..]).prop_map(Pattern::Atom),
        4 => class(),
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            4 => prop::collection::vec(inner.clone(), 1..5).prop_map(Pattern::Concat),
            3 => prop::collection::vec(inner.clone(), 1..4).prop_map(Pattern::Alternation),
            3 => (inner.clone(), operator()).prop_map(|(part, operator)| Pattern::Repeat(Box::new(part), operator)),
            2 => (select(&GROUPS[..]), inner).prop_map(|(flags, part)| Pattern::Group(flags, Box::new(part))),
        ]
    })
    .prop_map(unnamed_twice)
}

/// Keeps the first named group, and removes the name of all others, because a name may occur once.
fn unnamed_twice(mut pattern: Pattern) -> Pattern {
    fn visit(pattern: &mut Pattern, seen: &mut bool) {
        match pattern {
            Pattern::Group(flags, part) => {
                if *flags == "?P<name>" && std::mem::replace(seen, true) {
                    *flags = "";
                }
                visit(part, seen);
            }
            Pattern::Repeat(part, _) => visit(part, seen),
            Pattern::Concat(parts) | Pattern::Alternation(parts) => {
                parts.iter_mut().for_each(|part| visit(part, seen));
            }
            _ => {}
        }
    }
    visit(&mut pattern, &mut false);
    pattern
}

fn class() -> impl Strategy<Value = Pattern> {
    let item = prop_oneof![
        4 => char().prop_map(ClassItem::Char),
        2 => (char(), char()).prop_map(|(left, right)| ClassItem::Range(left.min(right), left.max(right))),
        1 => select(&[r"\d", r"\D", "[:upper:]", r"[^a-c]"][..]).prop_map(|class| match class {
            "[:upper:]" => ClassItem::Class("[[:upper:]]"),
            class => ClassItem::Class(class),
        }),
    ];
    (prop::bool::weighted(0.2), prop::collection::vec(item, 1..4))
        .prop_map(|(negated, items)| Pattern::Class { negated, items })
}

fn operator() -> impl Strategy<Value = String> {
    let counted = (0u32..4, 0u32..3, 0..3).prop_map(|(min, more, form)| match form {
        0 => format!("{{{min}}}"),
        1 => format!("{{{min},{}}}", min + more),
        _ => format!("{{{min},}}"),
    });
    let plain = select(&["?", "*", "+", "*?", "+?"][..]).prop_map(str::to_owned);
    prop_oneof![3 => plain, 2 => counted]
}

/// A text over the [`ALPHABET`] of at most `max` characters.
pub fn text(max: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(char(), 0..=max).prop_map(String::from_iter)
}

/// The ids of a random vocabulary: with or without a token for every byte, with repeated texts, texts cut
/// inside a character, empty texts, control tokens and unused ids.
pub fn tokens() -> impl Strategy<Value = Vec<Token>> {
    let piece = prop_oneof![
        6 => text(3).prop_map(String::into_bytes),
        // Cut at any byte, so that tokens begin inside characters.
        3 => (text(3), any::<prop::sample::Index>()).prop_map(|(text, at)| {
            let at = at.index(text.len() + 1);
            text.as_bytes()[at..].to_vec()
        }),
        2 => char().prop_map(|char| char.to_string().into_bytes()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    let token = prop_oneof![
        20 => piece.prop_map(Token::Text),
        1 => Just(Token::Text(vec![])),
        1 => Just(Token::Control),
        1 => Just(Token::Unused),
    ];
    (prop::collection::vec(token, 0..30), prop::bool::weighted(0.4), any::<prop::sample::Index>()).prop_map(
        |(mut tokens, all_bytes, at)| {
            if all_bytes {
                let at = at.index(tokens.len() + 1);
                tokens.splice(at..at, (0..=255).map(|byte| Token::Text(vec![byte])));
            }
            tokens
        },
    )
}
