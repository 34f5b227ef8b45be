//! Random grammars as texts, each against its set of short texts, which a few lines compute from the definitions.
//!
//! The grammars have rules that call later ones, so each set is finite up to a length. The constraint is asked for
//! every text of three letters up to that length, letter by letter.

use std::{collections::BTreeSet, fmt::Write as _};

use proptest::{prelude::*, sample::select};
use unskew_core::{Constraint, TokenId};
use unskew_grammar::{GrammarError, GrammarLimits};
use unskew_grammars::{GrammarConstraint, GrammarScratch, GrammarState};
use unskew_notation::{GrammarFormat, GrammarOptions};

use crate::common::texts::bytes;

/// The length up to which texts are compared.
const LENGTH: usize = 5;
const LETTERS: [char; 3] = ['a', 'b', 'c'];
/// The number of random grammars of each language; higher in release builds.
const CASES: u32 = if cfg!(debug_assertions) { 600 } else { 20_000 };

type Texts = BTreeSet<String>;

#[derive(Clone, Debug)]
enum Shape {
    Literal(&'static str),
    Class(&'static str),
    Sequence(Vec<Shape>),
    Choice(Vec<Shape>),
    Repeat(Box<Shape>, usize, Option<usize>),
    /// The rule so many places after this one.
    Rule(usize),
    /// XGrammar: a regex, with the flag `i`.
    Regex(Box<Shape>, bool),
    /// XGrammar: a concatenation of adjacent texts.
    Substring(Vec<&'static str>),
    /// XGrammar: free text with triggers, each with the rule after it; excluded texts; whether it goes on after a rule.
    Dispatch(&'static [&'static str], Vec<usize>, &'static [&'static str], bool),
}

/// A rule: its body, and in XGrammar whether it is lazy, and its most characters.
#[derive(Clone, Debug)]
struct Rule(Shape, bool, Option<usize>);

fn joined(left: &Texts, right: &Texts) -> Texts {
    let mut made = Texts::new();
    for first in left {
        let fits = right.iter().filter(|second| first.len() + second.len() <= LENGTH);
        made.extend(fits.map(|second| format!("{first}{second}")));
    }
    made
}

impl Shape {
    /// The texts of at most [`LENGTH`] letters. `rules` has those of the later rules.
    fn texts(&self, rules: &[Texts]) -> Texts {
        match self {
            Self::Literal(text) => Texts::from([(*text).to_owned()]),
            Self::Class(letters) => letters.chars().map(String::from).collect(),
            Self::Sequence(parts) => parts
                .iter()
                .fold(Texts::from([String::new()]), |made, part| joined(&made, &part.texts(rules))),
            Self::Choice(parts) => parts.iter().flat_map(|part| part.texts(rules)).collect(),
            Self::Repeat(item, min, max) => {
                let item = item.texts(rules);
                let mut times = Texts::from([String::new()]);
                let mut made = Texts::new();
                for count in 0..=max.unwrap_or(min + LENGTH) {
                    if count >= *min {
                        made.extend(times.iter().cloned());
                    }
                    times = joined(&times, &item);
                }
                made
            }
            Self::Rule(after) => rules[after % rules.len()].clone(),
            Self::Regex(item, _) => item.texts(&[]),
            Self::Substring(parts) => {
                let ranges =
                    (0..parts.len()).flat_map(|first| (first + 1..=parts.len()).map(move |end| (first, end)));
                let runs = ranges.map(|(first, end)| parts[first..end].concat());
                runs.chain([String::new()]).filter(|text| text.len() <= LENGTH).collect()
            }
            Self::Dispatch(triggers, after, excludes, again) => {
                let rules: Vec<&Texts> = after.iter().map(|after| &rules[after % rules.len()]).collect();
                all_texts()
                    .into_iter()
                    .filter(|text| dispatched(text, triggers, &rules, excludes, *again))
                    .collect()
            }
        }
    }

    fn in_xgrammar(&self, out: &mut String, own: usize, rules: usize) {
        let name = |after: &usize| format!("r{}", own + 1 + after % (rules - own - 1));
        match self {
            Self::Literal(text) => write!(out, "\"{text}\" ").unwrap(),
            Self::Class(letters) => write!(out, "[{letters}] ").unwrap(),
            Self::Sequence(parts) => {
                out.push('(');
                parts.iter().for_each(|part| part.in_xgrammar(out, own, rules));
                out.push_str(") ");
            }
            Self::Choice(parts) => {
                for (index, part) in parts.iter().enumerate() {
                    out.push(if index == 0 { '(' } else { '|' });
                    part.in_xgrammar(out, own, rules);
                }
                out.push_str(") ");
            }
            Self::Repeat(item, min, max) => {
                out.push('(');
                item.in_xgrammar(out, own, rules);
                let bounds = match (min, max) {
                    (0, None) => ")* ".to_owned(),
                    (1, None) => "\n)+ ".to_owned(),
                    (min, None) if min % 2 == 0 => format!("){{{min}, -1}} "),
                    (min, None) => format!("){{{min},}} "),
                    (0, Some(1)) => ")? ".to_owned(),
                    (min, Some(max)) if min == max => format!(") {{ {min} }} "),
                    (min, Some(max)) => format!("){{{min},{max}}} "),
                };
                out.push_str(&bounds);
            }
            Self::Rule(after) => write!(out, "{} ", name(after)).unwrap(),
            Self::Regex(item, any_case) => {
                let regex = item.as_regex();
                let (regex, flags) = if *any_case {
                    (regex.to_ascii_uppercase(), "flags=\"is\"")
                } else {
                    (regex, "json_string=false")
                };
                write!(out, "Regex(\"{regex}\", {flags}) ").unwrap();
            }
            Self::Substring(parts) => write!(out, "Substring({}) ", quoted(parts)).unwrap(),
            Self::Dispatch(triggers, after, excludes, again) => {
                out.push_str("TagDispatch(");
                for (trigger, after) in triggers.iter().zip(after) {
                    write!(out, "(\"{trigger}\", {}), ", name(after)).unwrap();
                }
                write!(out, "excludes=({}), loop_after_dispatch={again}) ", quoted(excludes)).unwrap();
            }
        }
    }

    fn as_regex(&self) -> String {
        match self {
            Self::Literal(text) => (*text).to_owned(),
            Self::Class(letters) => format!("[{letters}]"),
            Self::Sequence(parts) => parts.iter().map(Self::as_regex).collect(),
            Self::Choice(parts) => {
                format!("({})", parts.iter().map(Self::as_regex).collect::<Vec<_>>().join("|"))
            }
            Self::Repeat(item, min, None) => format!("(?:{}){{{min},}}?", item.as_regex()),
            Self::Repeat(item, min, Some(max)) => format!("(?:{}){{ {min} , {max}}}", item.as_regex()),
            _ => unreachable!("a regex has no rules"),
        }
    }

    fn in_abnf(&self, out: &mut String, own: usize, rules: usize) {
        match self {
            Self::Literal(text) if text.len() % 2 == 1 => {
                let values: Vec<String> = text.bytes().map(|byte| byte.to_string()).collect();
                write!(out, "%d{} ", values.join(".")).unwrap();
            }
            Self::Literal(text) => write!(out, "%s\"{text}\" ").unwrap(),
            Self::Class("abc") => out.push_str("%x61-63 "),
            Self::Class(letters) => {
                let letters: Vec<String> = letters.bytes().map(|byte| format!("%b{byte:b}")).collect();
                write!(out, "({}) ", letters.join(" / ")).unwrap();
            }
            Self::Sequence(parts) => {
                out.push('(');
                parts.iter().for_each(|part| part.in_abnf(out, own, rules));
                out.push_str(") ");
            }
            Self::Choice(parts) => {
                for (index, part) in parts.iter().enumerate() {
                    out.push_str(if index == 0 { "(" } else { "/\n    " });
                    part.in_abnf(out, own, rules);
                }
                out.push_str(") ");
            }
            Self::Repeat(item, 0, Some(1)) => {
                out.push('[');
                item.in_abnf(out, own, rules);
                out.push_str("] ");
            }
            Self::Repeat(item, min, max) => {
                let bounds = match (min, max) {
                    (0, None) => "*(".to_owned(),
                    (min, Some(max)) if min == max => format!("{min}("),
                    (min, max) => format!("{min}*{}(", max.map_or(String::new(), |max| max.to_string())),
                };
                out.push_str(&bounds);
                item.in_abnf(out, own, rules);
                out.push_str(") ");
            }
            Self::Rule(after) if after % 2 == 0 => {
                write!(out, "R{} ", own + 1 + after % (rules - own - 1)).unwrap();
            }
            Self::Rule(after) => write!(out, "<r{}> ", own + 1 + after % (rules - own - 1)).unwrap(),
            _ => unreachable!("ABNF has no calls"),
        }
    }
}

fn quoted(texts: &[&str]) -> String {
    texts.iter().map(|text| format!("\"{text}\"")).collect::<Vec<_>>().join(", ")
}

fn all_texts() -> Vec<String> {
    let mut texts = vec![String::new()];
    let mut next = 0;
    while texts[next].len() < LENGTH {
        let text = texts[next].clone();
        texts.extend(LETTERS.iter().map(|letter| format!("{text}{letter}")));
        next += 1;
    }
    texts
}

/// Whether the text is one of `TagDispatch`.
fn dispatched(text: &str, triggers: &[&str], rules: &[&Texts], excludes: &[&str], again: bool) -> bool {
    let fires = |end: usize| {
        let ending = (0..triggers.len()).filter(|which| text[..end].ends_with(triggers[*which]));
        ending.max_by_key(|which| triggers[*which].len())
    };
    let first = (0..=text.len()).find_map(|end| fires(end).map(|which| (end, which)));
    let free = &text[..first.map_or(text.len(), |(end, _)| end)];
    if excludes.iter().any(|excluded| free.contains(excluded)) {
        return false;
    }
    let Some((end, which)) = first else { return true };
    (end..=text.len()).any(|next| {
        rules[which].contains(&text[end..next])
            && if again {
                dispatched(&text[next..], triggers, rules, excludes, again)
            } else {
                next == text.len()
            }
    })
}

/// The texts of the first rule.
fn language(rules: &[Rule]) -> Texts {
    let mut made: Vec<Texts> = vec![];
    for Rule(shape, lazy, most) in rules.iter().rev() {
        let all = shape.texts(&made);
        let ends = |text: &str, from: usize| (from..text.len()).any(|end| all.contains(&text[..end]));
        let is_cut = |text: &str| (*lazy && ends(text, 0)) || most.is_some_and(|most| ends(text, most));
        let kept = all.iter().filter(|text| !is_cut(text));
        made.insert(0, kept.cloned().collect());
    }
    made.swap_remove(0)
}

/// Compares the constraint with the texts, from `text` on.
fn compare(
    constraint: &GrammarConstraint,
    scratch: &mut GrammarScratch,
    state: &GrammarState,
    text: &str,
    wanted: &Texts,
) -> Result<(), String> {
    if constraint.is_accepting(state) != wanted.contains(text) {
        return Err(format!("{text:?} is a text: {}", wanted.contains(text)));
    }
    if text.len() == LENGTH {
        return Ok(());
    }
    for letter in LETTERS {
        let token = TokenId(letter.into());
        let mut next = state.clone();
        let longer = format!("{text}{letter}");
        match constraint.advance(scratch, &mut next, token) {
            Ok(()) => compare(constraint, scratch, &next, &longer, wanted)?,
            Err(_) => {
                if let Some(text) =
                    wanted.range(longer.clone()..).next().filter(|text| text.starts_with(&longer))
                {
                    return Err(format!("{longer:?} is refused, and {text:?} is a text"));
                }
            }
        }
    }
    Ok(())
}

fn check(text: &str, format: GrammarFormat, wanted: &Texts) -> Result<(), String> {
    let limits = GrammarLimits::default();
    let grammar = unskew_notation::parse(text, format, &GrammarOptions::default(), &limits)
        .map_err(|error| error.to_string())?;
    let constraint = match GrammarConstraint::new(&grammar, bytes(), &limits) {
        Ok(constraint) => constraint,
        Err(GrammarError::Empty { .. }) if wanted.is_empty() => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    compare(&constraint, &mut constraint.scratch(), &constraint.start(), "", wanted)
}

const TRIGGERS: [&[&str]; 6] = [&["ab"], &["a", "b"], &["ab", "b"], &["ba", "ca"], &["c"], &["bab", "ab"]];
const EXCLUDES: [&[&str]; 3] = [&[], &["cc"], &["bc", "acc"]];

fn shape(calls: bool) -> impl Strategy<Value = Shape> {
    let letters = || select(&["a", "ab", "abc", "bc", "c"][..]);
    let text = || select(&["a", "b", "ab", "ba", "c", "cab", "aa"][..]);
    let leaf = move || {
        prop_oneof![
            4 => text().prop_map(Shape::Literal),
            3 => letters().prop_map(Shape::Class),
        ]
    };
    let bounds = (0..3usize, prop::option::of(0..3usize));
    let whole = move |leaf: BoxedStrategy<Shape>| {
        let bounds = bounds.clone();
        leaf.prop_recursive(3, 10, 3, move |inner| {
            prop_oneof![
                3 => prop::collection::vec(inner.clone(), 2..4).prop_map(Shape::Sequence),
                3 => prop::collection::vec(inner.clone(), 2..4).prop_map(Shape::Choice),
                2 => (inner, bounds.clone())
                    .prop_map(|(item, (min, more))| Shape::Repeat(Box::new(item), min, more.map(|more| min + more))),
            ]
        })
    };
    if !calls {
        let named = prop_oneof![5 => leaf(), 3 => (0..4usize).prop_map(Shape::Rule)].boxed();
        return whole(named).boxed();
    }
    let triggers = select(&TRIGGERS[..]);
    let excludes = select(&EXCLUDES[..]);
    let dispatch = (triggers, prop::collection::vec(0..4usize, 2), excludes, any::<bool>())
        .prop_map(|(triggers, after, excludes, again)| Shape::Dispatch(triggers, after, excludes, again));
    let named = prop_oneof![
        5 => leaf(),
        3 => (0..4usize).prop_map(Shape::Rule),
        2 => (whole(leaf().boxed()), any::<bool>()).prop_map(|(item, any_case)| Shape::Regex(Box::new(item), any_case)),
        1 => prop::collection::vec(text(), 0..4).prop_map(Shape::Substring),
        1 => dispatch,
    ];
    whole(named.boxed()).boxed()
}

/// Rules, of which the last one calls no other.
fn rules(calls: bool) -> impl Strategy<Value = Vec<Rule>> {
    let lazy = prop::bool::weighted(if calls { 0.3 } else { 0.0 });
    let most = prop_oneof![2 => Just(None), 1 => (0..4usize).prop_map(Some)];
    let rule = (shape(calls), lazy, most)
        .prop_map(move |(shape, lazy, most)| Rule(shape, lazy, most.filter(|_| calls)));
    let last = select(&["a", "b", "ca", "c"][..]).prop_map(|text| Rule(Shape::Literal(text), false, None));
    (prop::collection::vec(rule, 1..4), last).prop_map(|(mut rules, last)| {
        rules.push(last);
        rules
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn grammars_of_xgrammar_have_their_texts(rules in rules(true)) {
        let mut text = String::new();
        for (own, Rule(shape, lazy, most)) in rules.iter().enumerate() {
            let name = if own == 0 { "root".to_owned() } else { format!("r{own}") };
            let most = most.map(|most| format!("max_chars={most}"));
            let options: Vec<String> = lazy.then(|| "lazy".to_owned()).into_iter().chain(most).collect();
            text += &name;
            if !options.is_empty() {
                write!(text, "[{}]", options.join(", ")).unwrap();
            }
            text += " ::= ";
            shape.in_xgrammar(&mut text, own, rules.len());
            text += if own % 2 == 0 { "(=\"a\")\n" } else { "# a comment\n" };
        }
        let checked = check(&text, GrammarFormat::Xgrammar, &language(&rules));
        // Nested repetitions of dispatched tags may be too large, which is an error that names its limit.
        let is_large = |error: &String| ["Limits::dfa_steps", "Limits::dfa_states"].iter().any(|limit| error.contains(limit));
        prop_assume!(!checked.as_ref().is_err_and(is_large));
        prop_assert_eq!(checked, Ok(()), "\n{}", text);
    }

    #[test]
    fn grammars_in_abnf_have_their_texts(rules in rules(false)) {
        let mut text = String::new();
        for (own, Rule(shape, ..)) in rules.iter().enumerate() {
            write!(text, "  r{own} = ").unwrap();
            match shape {
                Shape::Choice(parts) => {
                    // The first alternative, and the others after it.
                    parts[0].in_abnf(&mut text, own, rules.len());
                    for part in &parts[1..] {
                        write!(text, " ; a comment\n\n  R{own} =/ ").unwrap();
                        part.in_abnf(&mut text, own, rules.len());
                    }
                }
                shape => shape.in_abnf(&mut text, own, rules.len()),
            }
            text += "\r\n";
        }
        prop_assert_eq!(check(&text, GrammarFormat::Abnf, &language(&rules)), Ok(()), "\n{}", text);
    }
}
