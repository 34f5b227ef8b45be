//! Random small grammars over three letters, as printable trees. They are recursive in every way, ambiguous,
//! nullable in places, and some of their rules never end.

use std::{fmt, sync::Arc};

use proptest::{prelude::*, sample::select};
use unskew_automata::{Dfa, Limits};
use unskew_core::Vocabulary;
use unskew_grammar::{ExprId, Grammar, GrammarBuilder, GrammarLimits, MemberChoice, MemberWay, RuleId};

/// The alphabet of their texts.
pub(crate) const LETTERS: [u8; 3] = *b"abc";

/// All texts of one or two letters, and some longer ones.
pub(crate) fn vocabulary() -> Arc<Vocabulary> {
    let mut builder = Vocabulary::builder();
    for left in LETTERS {
        builder.text(&[left]);
        for right in LETTERS {
            builder.text(&[left, right]);
        }
    }
    for text in ["aaa", "aba", "abc", "cab", "bbcc", "aabb", "abab", "ccccc", "babab"] {
        builder.text(text.as_bytes());
    }
    Arc::new(builder.build().unwrap())
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Empty,
    Literal(&'static str),
    Regex(&'static str),
    /// A regex minus some texts.
    Difference(&'static str, Vec<&'static str>),
    /// A bounded repetition: opening mark, unit, closing mark, and bounds.
    BoundedRepetition(&'static str, &'static str, &'static str, u32, Option<u32>),
    /// The texts of a pattern up to a number of units: pattern, opening mark, unit, closing mark, and the number.
    BoundedLength((&'static str, &'static str, &'static str, u8), u32),
    /// A rule, by its number modulo the number of rules.
    Rule(usize),
    Sequence(Vec<Shape>),
    Choice(Vec<Shape>),
    Repeat(Box<Shape>, u32, Option<u32>),
    /// Members in any order, each after a letter so that none is nullable; whether there are others; a
    /// separator; bounds.
    Unordered(Vec<(&'static str, Shape, bool)>, bool, Option<&'static str>, u32, Option<u32>),
    /// Members in any order, each after a letter; for each choice its ways, as bits of members that are allowed and
    /// of those that are required; whether there are others; a separator. The choices divide the members, and the
    /// last part has no choice.
    Choices(Vec<(&'static str, Shape, bool)>, Vec<Vec<(u8, u8)>>, bool, Option<&'static str>),
}

/// A grammar: the bodies of its rules. The first is the start rule.
#[derive(Clone, Debug)]
pub(crate) struct Shapes(Vec<Shape>);

const LITERALS: [&str; 9] = ["a", "b", "c", "ab", "ba", "aa", "abc", "bc", "cc"];
const UNITS: [(&str, &str, &str); 6] = [
    ("c", "a|b", "c"),
    ("", "a|bb|bc", "c"),
    ("ab", "ab|c", "b"),
    ("a", "b", "a"),
    ("", "a", "bc"),
    ("ca", "a", "cb"),
];
/// A pattern of units between two marks, the opening mark, the unit, the closing mark.
const LENGTHS: [(&str, &str, &str, u8); 6] = [
    ("a(b|ab)*c", "a", "b|ab", b'c'),
    ("c(aa|b)*ab?c", "c", "a|b", b'c'),
    ("bb(ab)*(ac)*c", "bb", "ab|ac", b'c'),
    ("a(bbc?|ccb)*a", "a", "b|c", b'a'),
    ("c((aa|ab)*b)*c", "c", "aa|ab|b", b'c'),
    ("b(a{3}|c)(ac)*b", "b", "a|c", b'b'),
];
const LEFT_OUT: [&str; 12] = ["", "a", "b", "aa", "ab", "bc", "c", "abc", "aab", "cc", "abab", "bb"];
const PATTERNS: [&str; 9] = ["a*", "[ab]", "a+b?", "(ab)*", "b|bc", "", "[ab]*c", "(a|b|c){2}", "c+"];

/// A random grammar of one to five rules.
pub(crate) fn grammar() -> impl Strategy<Value = Shapes> {
    prop::collection::vec(shape(), 1..=5).prop_map(Shapes)
}

/// A grammar of literals and regexes alone, in sequences, choices and repetitions. Many regexes can continue
/// with the bytes of their followers.
pub(crate) fn plain_grammar() -> impl Strategy<Value = Shapes> {
    let leaf = prop_oneof![
        1 => Just(Shape::Empty),
        10 => select(&LITERALS[..]).prop_map(Shape::Literal),
        10 => select(&PATTERNS[..]).prop_map(Shape::Regex),
        5 => (0..5usize).prop_map(Shape::Rule),
    ];
    let shape = leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            6 => prop::collection::vec(inner.clone(), 2..4).prop_map(Shape::Sequence),
            4 => prop::collection::vec(inner.clone(), 2..4).prop_map(Shape::Choice),
            1 => (inner, 0..3u32, prop::option::of(0..3u32))
                .prop_map(|(item, min, more)| Shape::Repeat(Box::new(item), min, more.map(|more| min + more))),
        ]
    });
    prop::collection::vec(shape, 1..=5).prop_map(Shapes)
}

fn shape() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        1 => Just(Shape::Empty),
        6 => select(&LITERALS[..]).prop_map(Shape::Literal),
        2 => select(&PATTERNS[..]).prop_map(Shape::Regex),
        1 => (select(&PATTERNS[..]), prop::collection::vec(select(&LEFT_OUT[..]), 1..4))
            .prop_map(|(pattern, texts)| Shape::Difference(pattern, texts)),
        1 => (select(&UNITS[..]), 0..4u32, prop::option::of(0..9u32)).prop_map(
            |((open, unit, close), min, more)| {
                Shape::BoundedRepetition(open, unit, close, min, more.map(|more| min + more))
            }
        ),
        1 => (select(&LENGTHS[..]), 0..9u32).prop_map(|(length, max)| Shape::BoundedLength(length, max)),
        6 => (0..5usize).prop_map(Shape::Rule),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            4 => prop::collection::vec(inner.clone(), 2..4).prop_map(Shape::Sequence),
            4 => prop::collection::vec(inner.clone(), 2..4).prop_map(Shape::Choice),
            1 => (
                prop::collection::vec((select(&LITERALS[..]), inner.clone(), any::<bool>()), 1..4),
                any::<bool>(),
                prop::option::of(select(&LITERALS[..3])),
                0..3u32,
                prop::option::of(0..4u32),
            )
                .prop_map(|(members, others, separator, min, max)| {
                    Shape::Unordered(members, others, separator, min, max)
                }),
            1 => (
                prop::collection::vec((select(&LITERALS[..]), inner.clone(), any::<bool>()), 2..6),
                prop::collection::vec(prop::collection::vec((any::<u8>(), any::<u8>()), 1..4), 1..3),
                any::<bool>(),
                prop::option::of(select(&LITERALS[..3])),
            )
                .prop_map(|(members, choices, others, separator)| {
                    Shape::Choices(members, choices, others, separator)
                }),
            1 => (inner, 0..3u32, prop::option::of(0..3u32))
                .prop_map(|(item, min, more)| Shape::Repeat(Box::new(item), min, more.map(|more| min + more))),
        ]
    })
}

impl Shapes {
    pub(crate) fn build(&self) -> Grammar {
        let mut builder = Grammar::builder(&GrammarLimits::default());
        let rules: Vec<RuleId> = (0..self.0.len()).map(|index| builder.rule(&format!("r{index}"))).collect();
        for (rule, shape) in rules.iter().zip(&self.0) {
            let body = shape.add(&mut builder, &rules);
            builder.define(*rule, body);
        }
        builder.build(rules[0]).expect("all rules are defined, and there are few")
    }
}

impl Shape {
    fn add(&self, builder: &mut GrammarBuilder, rules: &[RuleId]) -> ExprId {
        match self {
            Self::Empty => builder.empty(),
            Self::Literal(text) => builder.literal(text),
            Self::Regex(pattern) => builder.regex(pattern, pattern).expect("the pattern is valid"),
            Self::Difference(pattern, texts) => {
                let dfa =
                    Arc::new(Dfa::from_pattern(pattern, &Limits::default()).expect("the pattern is valid"));
                let made = builder.difference(pattern, &dfa, texts);
                made.unwrap_or_else(|| builder.literal("c"))
            }
            Self::BoundedRepetition(open, unit, close, min, max) => {
                let unit =
                    Arc::new(Dfa::from_pattern(unit, &Limits::default()).expect("the pattern is valid"));
                builder
                    .bounded_repetition("counted", open, &unit, close, *min, *max)
                    .expect("it can be counted")
            }
            Self::BoundedLength((pattern, open, unit, close), max) => {
                let [dfa, unit] = [pattern, unit].map(|pattern| {
                    Arc::new(Dfa::from_pattern(pattern, &Limits::default()).expect("the pattern is valid"))
                });
                match builder.bounded_length("length", &dfa, open, &unit, *close, *max) {
                    Ok(made) => made,
                    // Every text may be longer, or a state is inside of units and between them.
                    Err(_) => builder.literal("c"),
                }
            }
            Self::Rule(index) => builder.call(rules[index % rules.len()]),
            Self::Sequence(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| part.add(builder, rules)).collect();
                builder.sequence(parts)
            }
            Self::Choice(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| part.add(builder, rules)).collect();
                builder.choice(parts)
            }
            Self::Repeat(item, min, max) => {
                let item = item.add(builder, rules);
                builder.repeat(item, *min, *max)
            }
            Self::Unordered(members, others, separator, min, max) => {
                let mut all: Vec<(ExprId, bool)> = vec![];
                for (letter, shape, required) in members {
                    let (letter, rest) = (builder.literal(letter), shape.add(builder, rules));
                    all.push((builder.sequence([letter, rest]), *required));
                }
                // The last member becomes the repeatable one.
                let others = if *others { all.pop().map(|(other, _)| other) } else { None };
                let separator = separator.map(|separator| builder.literal(separator));
                builder.unordered(all, others, separator, *min, *max)
            }
            Self::Choices(members, choices, others, separator) => {
                let mut all: Vec<(ExprId, bool)> = vec![];
                let parts = choices.len() + 1;
                for (index, (letter, shape, required)) in members.iter().enumerate() {
                    let (letter, rest) = (builder.literal(letter), shape.add(builder, rules));
                    all.push((builder.sequence([letter, rest]), *required && index % parts == choices.len()));
                }
                let others = if *others { all.pop().map(|(other, _)| other) } else { None };
                let separator = separator.map(|separator| builder.literal(separator));
                let choices = choices.iter().enumerate().map(|(choice, ways)| {
                    let own = (0..all.len()).filter(|member| member % parts == choice);
                    let way =
                        |(allowed, required): &(u8, u8)| {
                            let allowed = own.clone().filter(|member| allowed >> member & 1 != 0);
                            MemberWay::new(allowed.map(|member| {
                                (u32::try_from(member).expect("few"), required >> member & 1 != 0)
                            }))
                        };
                    MemberChoice::new(ways.iter().map(way))
                });
                let choices: Vec<MemberChoice> = choices.collect();
                builder.unordered_with_choices(all, choices, others, separator)
            }
        }
    }
}

impl fmt::Display for Shapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, shape) in self.0.iter().enumerate() {
            writeln!(f, "r{index}: {shape}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, parts: &[Self], between: &str| {
            f.write_str("(")?;
            for (index, part) in parts.iter().enumerate() {
                write!(f, "{}{part}", if index == 0 { "" } else { between })?;
            }
            f.write_str(")")
        };
        match self {
            Self::Empty => f.write_str("\"\""),
            Self::Literal(text) => write!(f, "{text:?}"),
            Self::Regex(pattern) => write!(f, "/{pattern}/"),
            Self::Difference(pattern, texts) => write!(f, "/{pattern}/ - {texts:?}"),
            Self::BoundedRepetition(open, unit, close, min, max) => {
                write!(f, "{open:?} /{unit}/{{{min},{max:?}}} {close:?}")
            }
            Self::BoundedLength((pattern, open, unit, close), max) => {
                write!(f, "/{pattern}/ of {open:?} /{unit}/{{0,{max}}} {:?}", char::from(*close))
            }
            Self::Rule(index) => write!(f, "r{index}"),
            Self::Sequence(parts) => list(f, parts, " "),
            Self::Choice(parts) => list(f, parts, " | "),
            Self::Repeat(item, min, max) => write!(f, "{item}{{{min},{max:?}}}"),
            Self::Unordered(members, others, separator, min, max) => {
                write!(f, "unordered(")?;
                for (letter, shape, required) in members {
                    write!(f, "{letter:?} {shape}{} & ", if *required { "" } else { "?" })?;
                }
                write!(f, "others {others}, {separator:?}, {min}..{max:?})")
            }
            Self::Choices(members, choices, others, separator) => {
                write!(f, "choices(")?;
                for (letter, shape, required) in members {
                    write!(f, "{letter:?} {shape}{} & ", if *required { "" } else { "?" })?;
                }
                write!(f, "{choices:?}, others {others}, {separator:?})")
            }
        }
    }
}
