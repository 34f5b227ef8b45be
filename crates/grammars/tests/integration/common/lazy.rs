//! The slow oracle of lazy terminals, and random grammars with lazy terminals.
//!
//! The oracle keeps readings with the same cuts together and all others apart, as the meaning prescribes.
//! Continuations are a set of stacks, which are expanded again at every boundary. The oracle has no automata
//! of rules. It shares the DFAs of single patterns with the crate and nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use proptest::{prelude::*, sample::select};
use unskew_automata::{Dfa, Limits, StateId};

/// The body of a rule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Body {
    Literal(&'static str),
    Regex(&'static str),
    Lazy(&'static str),
    Rule(usize),
    Sequence(Vec<Body>),
    Choice(Vec<Body>),
    Star(Box<Body>),
}

/// The bodies of the rules. The first is the start rule.
#[derive(Clone, Debug)]
pub(crate) struct LazyGrammar(pub(crate) Vec<Body>);

/// A continuation: a stack of bodies, the next one last.
type Left = Vec<Body>;

/// The greatest length of a continuation. A longer one needs more bytes than any text of the tests has.
const LONGEST: usize = 14;

/// A terminal: a literal, a regex or a lazy regex.
type Terminal = Body;

/// Readings with the same cuts, each inside a terminal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Front {
    /// Terminals, their states, and the continuations after each.
    readings: Vec<(Terminal, StateId, BTreeSet<Left>)>,
    /// The lazy terminals that were open before these terminals began.
    open: BTreeSet<(Terminal, StateId)>,
}

/// Readings with the same cuts, between two terminals.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Boundary {
    left: BTreeSet<Left>,
    open: BTreeSet<(Terminal, StateId)>,
}

pub(crate) struct LazyOracle<'g> {
    rules: &'g [Body],
    productive: Vec<bool>,
    dfas: BTreeMap<Terminal, Dfa>,
}

impl<'g> LazyOracle<'g> {
    pub(crate) fn new(grammar: &'g LazyGrammar) -> Self {
        let rules = &grammar.0;
        let mut oracle = Self { rules, productive: vec![false; rules.len()], dfas: BTreeMap::new() };
        for _ in rules {
            oracle.productive = rules.iter().map(|body| oracle.is_productive(body)).collect();
        }
        rules.iter().for_each(|body| oracle.add(body));
        oracle
    }

    fn is_productive(&self, body: &Body) -> bool {
        match body {
            Body::Rule(rule) => self.productive[*rule],
            Body::Sequence(parts) => parts.iter().all(|part| self.is_productive(part)),
            Body::Choice(parts) => parts.iter().any(|part| self.is_productive(part)),
            _ => true,
        }
    }

    fn add(&mut self, body: &Body) {
        match body {
            Body::Literal(text) => {
                let dfa = Dfa::from_literals([text], &Limits::default()).unwrap();
                self.dfas.insert(body.clone(), dfa);
            }
            Body::Regex(pattern) | Body::Lazy(pattern) => {
                self.dfas.insert(body.clone(), Dfa::from_pattern(pattern, &Limits::default()).unwrap());
            }
            Body::Rule(_) => {}
            Body::Sequence(parts) | Body::Choice(parts) => parts.iter().for_each(|part| self.add(part)),
            Body::Star(item) => self.add(item),
        }
    }

    /// Whether `text` is a word of the language.
    pub(crate) fn accepts(&self, text: &[u8]) -> bool {
        let start = Boundary { left: [vec![Body::Rule(0)]].into(), open: BTreeSet::new() };
        let mut boundaries: BTreeSet<Boundary> = [start].into();
        let mut fronts: BTreeSet<Front> = BTreeSet::new();
        for byte in text {
            for Boundary { left, open } in std::mem::take(&mut boundaries) {
                let begun = self.followers(&left).0.into_iter().map(|(terminal, behind)| {
                    let start = self.dfas[&terminal].start();
                    (terminal, start, behind)
                });
                fronts.insert(Front { readings: begun.collect(), open });
            }
            for front in std::mem::take(&mut fronts) {
                let (front, boundary) = self.read(front, *byte);
                boundaries.extend(boundary);
                fronts.extend(front);
            }
        }
        boundaries.iter().any(|boundary| self.followers(&boundary.left).1)
    }

    /// The readings that continue after `byte`, and those that end there.
    fn read(&self, front: Front, byte: u8) -> (Option<Front>, Option<Boundary>) {
        let step = |terminal: &Terminal, state: StateId| self.dfas[terminal].step(state, byte);
        let ends = |terminal: &Terminal, state: StateId| self.dfas[terminal].is_accepting(state);
        let mut open = BTreeSet::new();
        for (terminal, state) in &front.open {
            let Some(state) = step(terminal, *state) else { continue };
            if ends(terminal, state) {
                return (None, None);
            }
            open.insert((terminal.clone(), state));
        }
        let readings: Vec<_> = front
            .readings
            .into_iter()
            .filter_map(|(terminal, state, behind)| {
                step(&terminal, state).map(|state| (terminal, state, behind))
            })
            .collect();
        let is_lazy = |terminal: &Terminal| matches!(terminal, Body::Lazy(_));
        let ended: Vec<_> = readings.iter().filter(|(terminal, state, _)| ends(terminal, *state)).collect();
        let behind = |lazy: bool| {
            let of = ended.iter().filter(|(terminal, ..)| is_lazy(terminal) == lazy);
            of.flat_map(|(.., behind)| behind.iter().cloned()).collect::<BTreeSet<Left>>()
        };
        let left = behind(true);
        if !left.is_empty() {
            return (None, Some(Boundary { left, open: BTreeSet::new() }));
        }
        let left = behind(false);
        let running = readings.iter().filter(|(terminal, ..)| is_lazy(terminal));
        let running = running.map(|(terminal, state, _)| (terminal.clone(), *state));
        let boundary = Boundary { left, open: open.iter().cloned().chain(running).collect() };
        let boundary = Some(boundary).filter(|boundary| !boundary.left.is_empty());
        (Some(Front { readings, open }).filter(|front| !front.readings.is_empty()), boundary)
    }

    /// The terminals that may follow, with the continuations after each; and whether the text may end.
    fn followers(&self, left: &BTreeSet<Left>) -> (BTreeMap<Terminal, BTreeSet<Left>>, bool) {
        let mut found: BTreeMap<Terminal, BTreeSet<Left>> = BTreeMap::new();
        let mut may_end = false;
        let mut seen: BTreeSet<Left> = BTreeSet::new();
        let mut open: Vec<Left> = left.iter().cloned().collect();
        while let Some(left) = open.pop() {
            if left.len() > LONGEST || !seen.insert(left.clone()) {
                continue;
            }
            let mut rest = left;
            let Some(next) = rest.pop() else {
                may_end = true;
                continue;
            };
            if !self.is_productive(&next) {
                continue;
            }
            match next {
                Body::Rule(rule) => {
                    rest.push(self.rules[rule].clone());
                    open.push(rest);
                }
                Body::Sequence(parts) => {
                    rest.extend(parts.into_iter().rev());
                    open.push(rest);
                }
                Body::Choice(parts) => open.extend(parts.into_iter().map(|part| {
                    let mut rest = rest.clone();
                    rest.push(part);
                    rest
                })),
                Body::Star(ref item) => {
                    open.push(rest.clone());
                    let item = Body::clone(item);
                    rest.extend([next, item]);
                    open.push(rest);
                }
                terminal => {
                    let dfa = &self.dfas[&terminal];
                    let may_be_empty = dfa.is_accepting(dfa.start());
                    if may_be_empty {
                        open.push(rest.clone());
                    }
                    if !(may_be_empty && matches!(terminal, Body::Lazy(_))) {
                        found.entry(terminal).or_default().insert(rest);
                    }
                }
            }
        }
        (found, may_end)
    }
}

const LITERALS: [&str; 7] = ["a", "b", "c", "ab", "ba", "abc", "cc"];
const PATTERNS: [&str; 9] = ["[abc]*", "[ab]", "a+b?", "(ab)*", "b|bc", "[ab]*c", "[abc]+", "c+", "[abc]{2}"];
const LAZY: [&str; 8] = ["[abc]*ab", "[abc]*c", "a+", "[ab]*ba", "[abc]+b", "c*", "(ab)+c?", "[abc]*bb|c"];

/// A random grammar of one to four rules over three letters. A rule calls later rules, and sometimes itself:
/// at its beginning, at its end, or in the middle.
pub(crate) fn grammar() -> impl Strategy<Value = LazyGrammar> {
    let leaf = prop_oneof![
        5 => select(&LITERALS[..]).prop_map(Body::Literal),
        5 => select(&PATTERNS[..]).prop_map(Body::Regex),
        5 => select(&LAZY[..]).prop_map(Body::Lazy),
        4 => (0..4usize).prop_map(Body::Rule),
    ];
    let body = leaf.prop_recursive(3, 10, 3, |inner| {
        prop_oneof![
            5 => prop::collection::vec(inner.clone(), 2..4).prop_map(Body::Sequence),
            5 => prop::collection::vec(inner.clone(), 2..4).prop_map(Body::Choice),
            2 => inner.prop_map(|item| Body::Star(Box::new(item))),
        ]
    });
    let rule = (body, 0..8u8, select(&LITERALS[..]), select(&LITERALS[..]));
    prop::collection::vec(rule, 1..=4).prop_map(|rules| {
        let count = rules.len();
        let rules = rules.into_iter().enumerate().map(|(at, (body, kind, before, behind))| {
            let body = body.calling_those_behind(at, count);
            let [before, behind] = [before, behind].map(Body::Literal);
            match kind {
                0 => Body::Choice(vec![Body::Sequence(vec![Body::Rule(at), behind]), body]),
                1 => Body::Choice(vec![Body::Sequence(vec![before, Body::Rule(at)]), body]),
                2 => Body::Choice(vec![Body::Sequence(vec![before, Body::Rule(at), behind]), body]),
                _ => body,
            }
        });
        LazyGrammar(rules.collect())
    })
}

impl Body {
    fn calling_those_behind(self, at: usize, count: usize) -> Self {
        let all =
            |parts: Vec<Self>| parts.into_iter().map(|part| part.calling_those_behind(at, count)).collect();
        match self {
            Self::Rule(rule) if at + 1 < count => Self::Rule(at + 1 + rule % (count - at - 1)),
            Self::Rule(_) => Self::Literal("c"),
            Self::Sequence(parts) => Self::Sequence(all(parts)),
            Self::Choice(parts) => Self::Choice(all(parts)),
            Self::Star(item) => Self::Star(Box::new(item.calling_those_behind(at, count))),
            leaf => leaf,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, parts: &[Self], between: &str| {
            for (at, part) in parts.iter().enumerate() {
                f.write_str(if at == 0 { "(" } else { between })?;
                part.write(f)?;
            }
            f.write_str(")")
        };
        match self {
            Self::Literal(text) => write!(f, "{text:?}"),
            Self::Regex(pattern) => write!(f, "/{pattern}/"),
            Self::Lazy(pattern) => {
                write!(
                    f,
                    "lazy{}",
                    LAZY.iter().position(|known| known == pattern).expect("it is one of them")
                )
            }
            Self::Rule(0) => f.write_str("start"),
            Self::Rule(rule) => write!(f, "r{rule}"),
            Self::Sequence(parts) => list(f, parts, " "),
            Self::Choice(parts) => list(f, parts, " | "),
            Self::Star(item) => {
                f.write_str("(")?;
                item.write(f)?;
                f.write_str(")*")
            }
        }
    }
}

/// The grammar in Lark.
impl fmt::Display for LazyGrammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, body) in self.0.iter().enumerate() {
            write!(f, "{}: ", if at == 0 { "start".to_owned() } else { format!("r{at}") })?;
            body.write(f)?;
            f.write_str("\n")?;
        }
        LAZY.iter().enumerate().try_for_each(|(at, pattern)| writeln!(f, "lazy{at}[lazy]: /{pattern}/"))
    }
}
