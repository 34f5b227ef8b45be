//! Rules with parameters: templates, and numbers of 64 bits, beside an interpreter that calls them with their
//! arguments.

use std::{collections::HashSet, fmt::Write};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_grammar::{Fate, Grammar, GrammarLimits};
use unskew_notation::{GrammarFormat, GrammarOptions, explain, from_lark};

use crate::common::enumeration::short;

fn read(text: &str) -> Result<Grammar, String> {
    from_lark(text, &GrammarOptions::default(), &GrammarLimits::default()).map_err(|error| error.to_string())
}

fn below(random: &mut ChaCha8Rng, end: usize) -> usize {
    random.next_u32() as usize % end
}

fn texts(text: &str, longest: usize) -> Vec<String> {
    let grammar = read(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let mut texts: Vec<String> =
        short(&grammar, longest).words.into_iter().map(|text| String::from_utf8(text).unwrap()).collect();
    texts.sort_by_key(|text| (text.len(), text.clone()));
    texts
}

#[test]
fn each_use_of_a_template_is_a_rule_of_its_own() {
    let text = "start: list{\"a\", \",\"} | \"(\" list{list{\"b\", \"+\"}, \";\"} \")\"\nlist{item, sep}: item (sep item)~0..1";
    assert_eq!(texts(text, 5), ["a", "(b)", "a,a", "(b+b)", "(b;b)"]);
    // Arguments in several lines, groups, optional parts, and a template that calls itself.
    let text = "start: nest{\n  \"a\" | [\"b\"],  // either\n  \"!\"\n}\nnest{x, end}: x end | \"(\" nest{x, end} \")\"";
    assert_eq!(texts(text, 4), ["!", "a!", "b!", "(!)", "(a!)", "(b!)"]);
}

#[test]
fn a_parameter_counts_and_collects() {
    let permutation = "start: perm::0x0
perm::_ : \"\" %if is_ones([0:3])
    | \"a\" perm::set_bit(0) %if bit_clear(0)
    | \"b\" perm::set_bit(1) %if bit_clear(1)
    | \"c\" perm::set_bit(2) %if bit_clear(2)";
    assert_eq!(texts(permutation, 5), ["abc", "acb", "bac", "bca", "cab", "cba"]);
    let short = "start: aa::0\naa::_: \"a\" aa::incr(_) %if lt(_, 2) | bb::_\nbb::_: \"b\" bb::incr(_) %if lt(_, 2) | \"\"";
    assert_eq!(texts(short, 5), ["", "a", "b", "aa", "ab", "bb"]);
    // A condition before its items, a value in the middle, and one that no alternative allows.
    assert_eq!(
        texts(
            "start: x::5\nx::_: %if eq([0:2], 1) \"q\" y::7 \"r\"\ny::_: \"s\" %if gt(_, 6) | \"t\" %if le(_, 6)",
            4
        ),
        ["qsr"]
    );
    assert_eq!(texts("start: \"a\" | x::1 \"b\"\nx::_: \"c\" %if not(and(bit_set(0), true))", 4), ["a"]);
}

/// A random rule with a parameter of three bits, as text and as the interpreter reads it.
struct Random {
    /// By rule: alternatives of a condition, and items: a letter, or a call with a change of the parameter.
    rules: Vec<Vec<(Condition, Vec<Item>)>>,
}

#[derive(Clone, Copy)]
enum Condition {
    True,
    Set(u32),
    Less(u32, u32, u64),
    Count(u64),
}

#[derive(Clone, Copy)]
enum Item {
    Letter(char),
    Call(usize, Change),
}

#[derive(Clone, Copy)]
enum Change {
    Same,
    Value(u64),
    Set(u32),
    Clear(u32),
    More(u32, u32),
    Fewer(u32, u32),
}

impl Condition {
    fn random(random: &mut ChaCha8Rng) -> Self {
        match below(random, 5) {
            0 => Self::Set(below(random, 3) as u32),
            1 => {
                let (from, number) = (below(random, 2) as u32, 1 + below(random, 2) as u32);
                Self::Less(from, from + number, below(random, 5) as u64)
            }
            2 => Self::Count(below(random, 4) as u64),
            _ => Self::True,
        }
    }

    fn holds(self, value: u64) -> bool {
        match self {
            Self::True => true,
            Self::Set(bit) => value >> bit & 1 == 1,
            Self::Less(from, to, than) => (value >> from) % (1 << (to - from)) < than,
            Self::Count(most) => u64::from(value.count_ones()) <= most,
        }
    }

    fn write(self) -> String {
        match self {
            Self::True => String::new(),
            Self::Set(bit) => format!(" %if bit_set({bit})"),
            Self::Less(from, to, than) => format!(" %if lt([{from}:{to}], {than})"),
            Self::Count(most) => format!(" %if bit_count_le(_, {most})"),
        }
    }
}

impl Change {
    fn random(random: &mut ChaCha8Rng) -> Self {
        let bit = below(random, 3) as u32;
        match below(random, 6) {
            0 => Self::Same,
            1 => Self::Value(below(random, 8) as u64),
            2 => Self::Set(bit),
            3 => Self::Clear(bit),
            4 => Self::More(bit, 3),
            _ => Self::Fewer(bit, 3),
        }
    }

    fn of(self, value: u64) -> u64 {
        let greatest = |from: u32, to: u32| (1u64 << (to - from)) - 1;
        match self {
            Self::Same => value,
            Self::Value(value) => value,
            Self::Set(bit) => value | 1 << bit,
            Self::Clear(bit) => value & !(1 << bit),
            Self::More(from, to) if value >> from & greatest(from, to) == greatest(from, to) => value,
            Self::More(from, _) => value + (1 << from),
            Self::Fewer(from, to) if value >> from & greatest(from, to) == 0 => value,
            Self::Fewer(from, _) => value - (1 << from),
        }
    }

    fn write(self) -> String {
        match self {
            Self::Same => "_".to_owned(),
            Self::Value(value) => format!("{value:#x}"),
            Self::Set(bit) => format!("set_bit({bit})"),
            Self::Clear(bit) => format!("clear_bit({bit})"),
            Self::More(from, to) => format!("incr([{from}:{to}])"),
            Self::Fewer(from, to) => format!("decr([{from}:{to}])"),
        }
    }
}

impl Random {
    fn new(random: &mut ChaCha8Rng) -> Self {
        let count = 1 + below(random, 3);
        let rules = (0..count).map(|_| {
            (0..1 + below(random, 3))
                .map(|_| {
                    let items = (0..below(random, 4)).map(|_| match below(random, 2) {
                        0 => Item::Letter(['a', 'b'][below(random, 2)]),
                        _ => Item::Call(below(random, count), Change::random(random)),
                    });
                    let items = items.collect();
                    (Condition::random(random), items)
                })
                .collect()
        });
        Self { rules: rules.collect() }
    }

    fn write(&self) -> String {
        let mut text = "start: r0::0\n".to_owned();
        for (rule, alternatives) in self.rules.iter().enumerate() {
            write!(text, "r{rule}::_: ").unwrap();
            for (at, (condition, items)) in alternatives.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { " | " });
                text.push_str("\"\"");
                for item in items {
                    match item {
                        Item::Letter(letter) => write!(text, " \"{letter}\"").unwrap(),
                        Item::Call(rule, change) => write!(text, " r{rule}::{}", change.write()).unwrap(),
                    }
                }
                text.push_str(&condition.write());
            }
            text.push('\n');
        }
        text
    }

    /// The texts of up to `longest` letters, as a least fixpoint over rules and values of the parameter.
    fn language(&self, longest: usize) -> HashSet<String> {
        let mut known: Vec<[HashSet<String>; 64]> =
            (0..self.rules.len()).map(|_| std::array::from_fn(|_| HashSet::new())).collect();
        loop {
            let mut is_new = false;
            for (rule, alternatives) in self.rules.iter().enumerate() {
                for value in 0..64u64 {
                    for (_, items) in alternatives.iter().filter(|(condition, _)| condition.holds(value)) {
                        let mut texts: HashSet<String> = [String::new()].into();
                        for item in items {
                            let next: Vec<String> = match item {
                                Item::Letter(letter) => vec![letter.to_string()],
                                Item::Call(callee, change) => {
                                    known[*callee][change.of(value) as usize].iter().cloned().collect()
                                }
                            };
                            let both = texts
                                .iter()
                                .flat_map(|text| next.iter().map(move |next| text.clone() + next));
                            texts = both.filter(|text| text.len() <= longest).collect();
                        }
                        for text in texts {
                            is_new |= known[rule][value as usize].insert(text);
                        }
                    }
                }
            }
            if !is_new {
                return known[0][0].clone();
            }
        }
    }
}

#[test]
fn random_parameters_mean_what_an_interpreter_finds() {
    let mut random = ChaCha8Rng::seed_from_u64(31);
    let (mut empty, mut some) = (0, 0);
    for _ in 0..700 {
        let case = Random::new(&mut random);
        let expected = case.language(4);
        let text = case.write();
        let grammar = read(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let found: HashSet<String> =
            short(&grammar, 4).words.into_iter().map(|text| String::from_utf8(text).unwrap()).collect();
        assert_eq!(found, expected, "{text}");
        if expected.is_empty() { empty += 1 } else { some += 1 }
    }
    assert!(empty > 20 && some > 200, "{empty} without a text, {some} with some");
}

#[test]
fn wrong_uses_are_refused_with_their_place() {
    let refusal = |text: &str| read(text).unwrap_err();
    for (text, message) in [
        ("start: list{\"a\"}\nlist{x, y}: x y", "line 1, column 8: `list` is a template of 2 arguments"),
        (
            "start: list\nlist{x}: x",
            "line 1, column 8: `list` has parameters: write its arguments, as in `list{item}`",
        ),
        (
            "start: p\np::_: \"a\"",
            "line 1, column 8: `p` has parameters: write the value of its parameter, as in `rule::0`",
        ),
        ("start: a::0\na: \"b\"", "line 1, column 8: `a` has no parameters"),
        (
            "start: \"a\" %if true",
            "line 1, column 12: `%if` outside of a rule with a parameter, such as `rule::_: …`",
        ),
        (
            "start: p::_\np::_: \"a\"",
            "line 1, column 8: the rule around this call has no parameter: write a number",
        ),
        (
            "start: p::twice(1)\np::_: \"a\"",
            "line 1, column 11: there is no function `twice` of a parameter, only `_`, a number, `set_bit`, `clear_bit`, `bit_and`, `bit_or`, `incr` or `decr`",
        ),
        (
            "start: p::set_bit(64)\np::_: \"a\"",
            "line 1, column 19: a parameter has the bits 0 to 63, and no bit 64",
        ),
        ("start: q{\"a\"}", "line 1, column 8: rule `q` is not defined"),
        (
            "start: A\nA{x}: x",
            "line 2, column 2: a template of a terminal is not supported: write a template of rules, with a name in lower case",
        ),
    ] {
        assert_eq!(refusal(text), message, "{text}");
    }
    // 2^64 values.
    let endless = refusal("start: p::0\np::_: \"a\" p::incr(_)");
    assert!(endless.contains("take more than 500000 nodes once they are written out"), "{endless}");
    let endless = refusal("start: p{\"a\"}\np{x}: x p{(x x)}");
    assert!(endless.contains("take more than 500000 nodes once they are written out"), "{endless}");
}

#[test]
fn rules_with_parameters_are_enforced() {
    let text = "start: list{\"a\"}\nlist{x}: x+";
    let fates = explain(text, GrammarFormat::Lark, &GrammarOptions::default(), &GrammarLimits::default());
    assert!(
        fates.iter().any(|fate| fate.construct == "rule `list`" && fate.fate == Fate::Enforced),
        "{fates:?}"
    );
}
