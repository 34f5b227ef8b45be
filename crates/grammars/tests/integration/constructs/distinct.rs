//! Distinct texts, against a recogniser that keeps every reading of a text in full: its stack of tasks, and
//! the texts that each scope has used.
//!
//! The recogniser takes exponential time and has no item sets, frames or rule automata. It shares the DFAs of
//! terminals with the engine and nothing else.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    sync::{Arc, Mutex, OnceLock},
};

use proptest::{prelude::*, sample::select};
use unskew_automata::{Dfa, Limits};
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary, conformance};
use unskew_grammar::{ExprId, Grammar, GrammarBuilder, GrammarError, GrammarLimits, RuleId};
use unskew_grammars::{GrammarConstraint, GrammarScratch, GrammarState, TreeLibrary, Tuning};
use unskew_trie::TokenTrie;

use crate::common::random::LETTERS;

/// An expression. Each has a text.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Literal(&'static str),
    Regex(&'static str),
    /// A text of the pattern that is not in the list and was not used before.
    New(&'static str, Vec<&'static str>),
    Scope(Box<Part>),
    Sequence(Vec<Part>),
    Choice(Vec<Part>),
    Many(Box<Part>),
    /// The empty text, or a letter and a rule.
    Call(&'static str, usize),
    /// Members in any order, each after a letter, with a flag for required ones; and other members, also
    /// after a letter.
    Unordered(Vec<(&'static str, Part, bool)>, Option<Box<Part>>),
}

const LITERALS: [&str; 6] = ["a", "b", "c", "ab", "ba", "cc"];
const PLAIN: [&str; 4] = ["[ab]+", "a?", "c+", "b|bc"];
/// In some patterns the last byte marks the end of a text, in others it does not. Some have few texts left
/// after some prefixes.
const NEW: [&str; 8] =
    ["[ab]+c", "[ab]+", "c[ab]*c", "a|bc*", "ab|ac|b[ab]*c", "a[ab]?|c[abc]*b", "[abc]+", "a{1,2}c|b+c"];
const LEFT_OUT: [&str; 6] = ["a", "ac", "ab", "cc", "bc", "aac"];

fn part() -> impl Strategy<Value = Part> {
    let leaf = prop_oneof![
        3 => select(&LITERALS[..]).prop_map(Part::Literal),
        1 => select(&PLAIN[..]).prop_map(Part::Regex),
        6 => (select(&NEW[..]), prop::collection::vec(select(&LEFT_OUT[..]), 0..2))
            .prop_map(|(pattern, texts)| Part::New(pattern, texts)),
        2 => (select(&LITERALS[..3]), 0..3usize).prop_map(|(letter, rule)| Part::Call(letter, rule)),
    ];
    leaf.prop_recursive(4, 12, 4, |inner| {
        prop_oneof![
            4 => prop::collection::vec(inner.clone(), 2..5).prop_map(Part::Sequence),
            2 => prop::collection::vec(inner.clone(), 2..4).prop_map(Part::Choice),
            2 => inner.clone().prop_map(|part| Part::Scope(Box::new(part))),
            2 => inner.clone().prop_map(|part| Part::Many(Box::new(part))),
            1 => (
                prop::collection::vec((select(&LITERALS[..]), inner.clone(), any::<bool>()), 1..3),
                prop::option::of(inner),
            )
                .prop_map(|(members, others)| Part::Unordered(members, others.map(Box::new))),
        ]
    })
}

/// The automaton of a pattern, built once.
fn dfa(pattern: &'static str) -> Arc<Dfa> {
    static MADE: Mutex<BTreeMap<&str, Arc<Dfa>>> = Mutex::new(BTreeMap::new());
    let make = || Arc::new(Dfa::from_pattern(pattern, &Limits::default()).expect("the pattern is valid"));
    Arc::clone(MADE.lock().unwrap().entry(pattern).or_insert_with(make))
}

impl Part {
    fn add(&self, builder: &mut GrammarBuilder, rules: &[RuleId]) -> ExprId {
        match self {
            Self::Literal(text) => builder.literal(text),
            Self::Regex(pattern) => builder.regex(pattern, pattern).expect("the pattern is valid"),
            Self::New(pattern, texts) => {
                builder.distinct(pattern, &dfa(pattern), texts, None).expect("there are many")
            }
            Self::Scope(inner) => {
                let rule = builder.rule("scope");
                let body = inner.add(builder, rules);
                builder.define(rule, body);
                builder.scope(rule);
                builder.call(rule)
            }
            Self::Sequence(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| part.add(builder, rules)).collect();
                builder.sequence(parts)
            }
            Self::Choice(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| part.add(builder, rules)).collect();
                builder.choice(parts)
            }
            Self::Many(inner) => {
                let inner = inner.add(builder, rules);
                builder.repeat(inner, 0, None)
            }
            Self::Call(letter, rule) => {
                let (letter, rule) = (builder.literal(letter), builder.call(rules[rule % rules.len()]));
                let called = builder.sequence([letter, rule]);
                builder.optional(called)
            }
            Self::Unordered(members, others) => {
                let members: Vec<(ExprId, bool)> = members
                    .iter()
                    .map(|(letter, part, required)| {
                        let (letter, part) = (builder.literal(letter), part.add(builder, rules));
                        (builder.sequence([letter, part]), *required)
                    })
                    .collect();
                let others = others.as_ref().map(|others| {
                    let (letter, others) = (builder.literal("c"), others.add(builder, rules));
                    builder.sequence([letter, others])
                });
                builder.unordered(members, others, None, 0, None)
            }
        }
    }
}

/// Rules, the first of which is the start rule. The next byte always shows the end of a text.
pub(crate) fn rules() -> impl Strategy<Value = Vec<Part>> {
    prop::collection::vec(part(), 1..4).prop_filter("a text ends in several places", |parts| {
        let trie = Arc::new(TokenTrie::new(vocabulary()).unwrap());
        let made = GrammarConstraint::new(&grammar(parts), trie, &GrammarLimits::default());
        !matches!(made, Err(GrammarError::AmbiguousEnd { .. }))
    })
}

pub(crate) fn grammar(parts: &[Part]) -> Grammar {
    let mut builder = Grammar::builder(&GrammarLimits::default());
    let rules: Vec<RuleId> = (0..parts.len()).map(|index| builder.rule(&format!("r{index}"))).collect();
    for (rule, part) in rules.iter().zip(parts) {
        let body = part.add(&mut builder, &rules);
        builder.define(*rule, body);
    }
    builder.build(rules[0]).expect("it is small")
}

/// A remaining task.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Task {
    /// A part, by address. Parts do not move.
    Part(usize),
    Read(&'static str),
    /// A pattern, and the text read so far.
    Plain(&'static str, String),
    New(&'static str, Vec<&'static str>, String),
    EndScope,
    /// A group, by address, and a flag per member: whether it was read.
    Unordered(usize, Vec<bool>),
}

/// One reading: the stack of remaining tasks, the next one last, and the used texts of the open scopes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Reading {
    tasks: Vec<Task>,
    used: Vec<BTreeSet<String>>,
}

struct Oracle<'p> {
    rules: &'p [Part],
}

/// All readings of a text that wait for a byte, and whether the text may end.
#[derive(Clone, Debug)]
struct Readings(HashSet<Reading>, bool);

fn address(part: &Part) -> usize {
    std::ptr::from_ref(part).addr()
}

impl Oracle<'_> {
    fn find(&self, address_of: usize) -> &Part {
        let mut open: Vec<&Part> = self.rules.iter().collect();
        while let Some(part) = open.pop() {
            if address(part) == address_of {
                return part;
            }
            match part {
                Part::Scope(inner) | Part::Many(inner) => open.push(inner),
                Part::Sequence(parts) | Part::Choice(parts) => open.extend(parts),
                Part::Unordered(members, others) => {
                    open.extend(members.iter().map(|(_, part, _)| part));
                    open.extend(others.as_deref());
                }
                _ => {}
            }
        }
        unreachable!("parts stay where they are")
    }

    fn start(&self) -> Readings {
        self.closed([Reading {
            tasks: vec![Task::Part(address(&self.rules[0]))],
            used: vec![BTreeSet::new()],
        }])
    }

    fn closed(&self, readings: impl IntoIterator<Item = Reading>) -> Readings {
        let mut open: Vec<Reading> = readings.into_iter().collect();
        let mut seen: HashSet<Reading> = open.iter().cloned().collect();
        let mut closed = Readings(HashSet::new(), false);
        while let Some(reading) = open.pop() {
            let Some(task) = reading.tasks.last().cloned() else {
                closed.1 = true;
                continue;
            };
            let mut rest = reading.clone();
            rest.tasks.pop();
            let with = |tasks: &[Task]| {
                let mut next = rest.clone();
                next.tasks.extend(tasks.iter().rev().cloned());
                next
            };
            let mut nexts: Vec<Reading> = vec![];
            match task {
                Task::EndScope => {
                    let mut next = rest.clone();
                    next.used.pop();
                    nexts.push(next);
                }
                Task::Read("") => nexts.push(rest.clone()),
                Task::Read(_) => _ = closed.0.insert(reading.clone()),
                Task::Plain(pattern, text) => {
                    if dfa(pattern).accepts(text.as_bytes()) {
                        nexts.push(rest.clone());
                    }
                    closed.0.insert(reading.clone());
                }
                Task::New(pattern, left_out, text) => {
                    let used = rest.used.last().expect("the text is a scope");
                    let is_new = !left_out.contains(&&*text) && !used.contains(&text);
                    if is_new && dfa(pattern).accepts(text.as_bytes()) {
                        let mut next = rest.clone();
                        next.used.last_mut().expect("the text is a scope").insert(text.clone());
                        nexts.push(next);
                    }
                    // The reading continues if it can reach an unused text.
                    if has_another(pattern, &left_out, used, &text) {
                        closed.0.insert(reading.clone());
                    }
                }
                Task::Unordered(at, read) => {
                    let Part::Unordered(members, others) = self.find(at) else { unreachable!() };
                    if members.iter().zip(&read).all(|((.., required), read)| *read || !required) {
                        nexts.push(rest.clone());
                    }
                    for (index, (letter, part, _)) in members.iter().enumerate().filter(|(at, _)| !read[*at])
                    {
                        let mut read = read.clone();
                        read[index] = true;
                        let part = Task::Part(address(part));
                        nexts.push(with(&[Task::Read(letter), part, Task::Unordered(at, read)]));
                    }
                    if let Some(others) = others {
                        let part = Task::Part(address(others));
                        nexts.push(with(&[Task::Read("c"), part, Task::Unordered(at, read)]));
                    }
                }
                Task::Part(at) => match self.find(at) {
                    Part::Literal(text) => nexts.push(with(&[Task::Read(text)])),
                    Part::Regex(pattern) => nexts.push(with(&[Task::Plain(pattern, String::new())])),
                    Part::New(pattern, texts) => {
                        nexts.push(with(&[Task::New(pattern, texts.clone(), String::new())]));
                    }
                    Part::Scope(inner) => {
                        let mut next = with(&[Task::Part(address(inner)), Task::EndScope]);
                        next.used.push(BTreeSet::new());
                        nexts.push(next);
                    }
                    Part::Sequence(parts) => {
                        let parts: Vec<Task> = parts.iter().map(|part| Task::Part(address(part))).collect();
                        nexts.push(with(&parts));
                    }
                    Part::Choice(parts) => {
                        nexts.extend(parts.iter().map(|part| with(&[Task::Part(address(part))])));
                    }
                    Part::Many(inner) => {
                        nexts.push(rest.clone());
                        nexts.push(with(&[Task::Part(address(inner)), Task::Part(at)]));
                    }
                    Part::Call(letter, rule) => {
                        nexts.push(rest.clone());
                        let rule = Task::Part(address(&self.rules[rule % self.rules.len()]));
                        nexts.push(with(&[Task::Read(letter), rule]));
                    }
                    Part::Unordered(members, _) => {
                        nexts.push(with(&[Task::Unordered(at, vec![false; members.len()])]));
                    }
                },
            }
            open.extend(nexts.into_iter().filter(|next| seen.insert(next.clone())));
        }
        closed
    }

    fn step(&self, readings: &Readings, byte: u8) -> Readings {
        let char = char::from(byte);
        let nexts = readings.0.iter().filter_map(|reading| {
            let mut next = reading.clone();
            let task = next.tasks.pop()?;
            next.tasks.push(match task {
                Task::Read(text) => Task::Read(text.strip_prefix(char)?),
                Task::Plain(pattern, mut text) => {
                    text.push(char);
                    dfa(pattern).run(dfa(pattern).start(), text.as_bytes())?;
                    Task::Plain(pattern, text)
                }
                Task::New(pattern, left_out, mut text) => {
                    text.push(char);
                    dfa(pattern).run(dfa(pattern).start(), text.as_bytes())?;
                    Task::New(pattern, left_out, text)
                }
                _ => return None,
            });
            Some(next)
        });
        self.closed(nexts)
    }

    fn run(&self, readings: &Readings, text: &[u8]) -> Readings {
        text.iter().fold(readings.clone(), |readings, byte| self.step(&readings, *byte))
    }
}

/// Whether `text` is a proper prefix of a text of the pattern that is neither excluded nor used. Shorter
/// texts are tried first.
fn has_another(pattern: &'static str, left_out: &[&str], used: &BTreeSet<String>, text: &str) -> bool {
    let dfa = dfa(pattern);
    let Some(state) = dfa.run(dfa.start(), text.as_bytes()) else { return false };
    let mut open = VecDeque::from([(text.to_owned(), state)]);
    while let Some((text, state)) = open.pop_front() {
        for letter in LETTERS {
            let Some(next) = dfa.step(state, letter) else { continue };
            let longer = format!("{text}{}", char::from(letter));
            if dfa.is_accepting(next) && !left_out.contains(&&*longer) && !used.contains(&longer) {
                return true;
            }
            open.push_back((longer, next));
        }
    }
    false
}

fn vocabulary() -> Arc<Vocabulary> {
    let mut builder = Vocabulary::builder();
    for left in LETTERS {
        builder.text(&[left]);
        for right in LETTERS {
            builder.text(&[left, right]);
        }
    }
    for text in ["aaa", "aba", "abc", "cab", "bbcc", "aabb", "abab", "acac", "acbc", "babab", "cacca"] {
        builder.text(text.as_bytes());
    }
    Arc::new(builder.build().unwrap())
}

fn library(kind: usize) -> &'static Arc<TreeLibrary> {
    static LIBRARIES: OnceLock<[Arc<TreeLibrary>; 5]> = OnceLock::new();
    &LIBRARIES.get_or_init(|| {
        let (all, some) = (Tuning::with_all_fragments(), Tuning::default());
        let kinds = [(all, 1 << 28), (some, 1 << 28), (all, 1 << 15), (all, 0), (Tuning::tight(), 1 << 28)];
        kinds.map(|(tuning, bytes)| {
            let trie = Arc::new(TokenTrie::new(vocabulary()).unwrap());
            Arc::new(TreeLibrary::with_tuning(trie, bytes, tuning))
        })
    })[kind]
}

struct Comparison<'a> {
    constraint: &'a GrammarConstraint,
    vocabulary: &'a Vocabulary,
    oracle: &'a Oracle<'a>,
    /// Used alternately, so that half of the states come from the other scratch.
    scratches: [GrammarScratch; 2],
    turn: usize,
    left: usize,
}

/// A text with more readings is not followed.
const READINGS: usize = 300;

impl Comparison<'_> {
    fn compare(&mut self, readings: &Readings, state: &GrammarState, depth: usize) -> Result<(), String> {
        if readings.0.len() > READINGS {
            return Ok(());
        }
        if self.constraint.is_accepting(state) != readings.1 {
            return Err(format!("accepting: {}", readings.1));
        }
        let constraint = self.constraint;
        let expected: Vec<(TokenId, Readings)> = self
            .vocabulary
            .text_tokens()
            .map(|(token, text)| (token, self.oracle.run(readings, text)))
            .filter(|(_, behind)| !behind.0.is_empty() || behind.1)
            .collect();
        self.turn += 1;
        let scratch = &mut self.scratches[self.turn / 3 % 2];
        let ids: Vec<TokenId> = expected.iter().map(|(token, _)| *token).collect();
        let mut mask = TokenMask::new(constraint.vocab_len());
        constraint.fill_mask(scratch, state, mask.as_mut());
        if mask.ids().ne(ids.iter().copied()) {
            return Err(format!("mask {:?} and not {ids:?}", mask.ids().collect::<Vec<_>>()));
        }
        if let Some(ready) = constraint.ready_mask(scratch, state)
            && ready.into_ids().ne(ids.iter().copied())
        {
            return Err("the ready mask is another one".to_owned());
        }
        let forced = constraint.forced(scratch, state);
        let only = if readings.1 { None } else { Some(&ids[..]).filter(|ids| ids.len() == 1) };
        if forced != only.map(|only| only[0]) {
            return Err(format!("forced {forced:?}, of {ids:?}"));
        }
        if depth == 0 {
            return Ok(());
        }
        for (token, behind) in expected {
            if self.left == 0 {
                return Ok(());
            }
            self.left -= 1;
            let mut next = state.clone();
            self.turn += 1;
            let scratch = &mut self.scratches[self.turn / 3 % 2];
            constraint.advance(scratch, &mut next, token).map_err(|error| error.to_string())?;
            self.compare(&behind, &next, depth - 1).map_err(|error| {
                format!("{:?}, {error}", self.vocabulary.text(token).unwrap().escape_ascii().to_string())
            })?;
        }
        Ok(())
    }
}

fn check(
    parts: &[Part],
    library: Option<&Arc<TreeLibrary>>,
    limits: &GrammarLimits,
    depth: usize,
) -> Result<(), String> {
    let grammar = grammar(parts);
    let vocabulary = library.map_or_else(vocabulary, |library| Arc::clone(library.vocabulary()));
    let constraint = match library {
        Some(library) => GrammarConstraint::with_library(&grammar, library, limits),
        None => {
            let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
            GrammarConstraint::new(&grammar, trie, limits)
        }
    };
    let constraint = constraint.map_err(|error| error.to_string())?;
    let oracle = Oracle { rules: parts };
    let scratches = [constraint.scratch(), constraint.scratch()];
    let (vocabulary, oracle) = (&*vocabulary, &oracle);
    let mut comparison =
        Comparison { constraint: &constraint, vocabulary, oracle, scratches, turn: 0, left: 60 };
    comparison.compare(&oracle.start(), &constraint.start(), depth)
}

/// The oracle would take minutes for a token of such a grammar.
#[test]
fn texts_that_may_end_in_several_places_are_refused() {
    let many = Part::Many(Box::new(Part::New("[abc]+", vec![])));
    let refused = check(&[many], None, &GrammarLimits::default(), 2).unwrap_err();
    assert!(refused.contains("`[abc]+`") && refused.contains("may end before `a`"), "{refused}");
}

/// The number of random cases; higher in release builds.
const CASES: u32 = if cfg!(debug_assertions) { 12 } else { 1_500 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn masks_are_those_of_the_oracle(parts in rules(), depth in 2..6usize) {
        prop_assert_eq!(check(&parts, None, &GrammarLimits::default(), depth), Ok(()));
    }

    #[test]
    fn masks_of_trees_are_those_of_the_oracle(
        parts in rules(),
        kind in 0..5usize,
        depth in 2..6usize,
    ) {
        prop_assert_eq!(check(&parts, Some(library(kind)), &GrammarLimits::default(), depth), Ok(()));
    }

    /// A scratch that is emptied before every step gives the same answers, also for texts of more tokens than
    /// a state holds.
    #[test]
    fn masks_do_not_depend_on_the_scratch(parts in rules(), depth in 4..20usize) {
        let mut limits = GrammarLimits::default();
        limits.scratch_bytes = 0;
        prop_assert_eq!(check(&parts, None, &limits, depth), Ok(()));
    }

    #[test]
    fn the_contract_holds(parts in rules()) {
        let trie = Arc::new(TokenTrie::new(vocabulary()).unwrap());
        let constraint =
            GrammarConstraint::new(&grammar(&parts), trie, &GrammarLimits::default()).unwrap();
        conformance::check_constraint(&constraint, 2).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }
}
