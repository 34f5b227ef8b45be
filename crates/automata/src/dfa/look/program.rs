//! A pattern with look-around as an NFA whose states may ask whether a look-around holds.
//!
//! The pattern and its look-arounds are parts of one program. Each has an entry and an end of its own. The
//! alternatives of a split stand in the order in which an engine with backtracking tries them.

use std::{collections::HashMap, rc::Rc};

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange};

use super::{
    super::acyclic::Acyclic,
    alphabet::{Alphabet, Symbol, characters},
    tree::{Node, PatternId, Patterns},
};
use crate::{
    Construct, Limits, Place, RegexError,
    dfa::{CharSet, Edge},
};

/// The end of the pattern itself, as the number of a look-around.
pub(super) const WHOLE: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Reads a symbol: a range of `edges`.
    Reads(u32, u32),
    /// Continues with each of a range of `targets`, earlier ones first.
    Split(u32, u32),
    /// Continues at the state if the look-around matches (`true`) or does not.
    Test(u32, bool, u32),
    /// Begins a round of the repetition whose rounds end at the first state, at the second.
    Enter(u32, u32),
    /// The end of a round that may be empty: continues at the first state, or, if the round read nothing, at the
    /// second. As in Python, no round follows one that reads nothing.
    Round(u32, u32),
    /// The end of a look-around, or of the [`WHOLE`].
    End(u32),
}

/// A look-around.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assertion {
    pub(super) ahead: bool,
    pub(super) entry: u32,
}

#[derive(Debug)]
pub(super) struct Program {
    pub(super) states: Vec<State>,
    pub(super) alphabet: Alphabet,
    edges: Vec<(Symbol, Symbol, u32)>,
    targets: Vec<u32>,
    /// Look-arounds, those inside others first.
    pub(super) assertions: Vec<Assertion>,
    pub(super) entry: u32,
    /// The state that reads any text and then begins a look-behind.
    pub(super) behind: u32,
    /// The state that reads a character there.
    pub(super) character: u32,
    /// Whether some look-ahead looks behind inside.
    pub(super) ahead_looks_behind: bool,
}

impl Program {
    pub(super) fn edges(&self, state: u32) -> &[(Symbol, Symbol, u32)] {
        match self.states[state as usize] {
            State::Reads(first, end) => &self.edges[first as usize..end as usize],
            _ => &[],
        }
    }

    pub(super) fn targets(&self, first: u32, end: u32) -> &[u32] {
        &self.targets[first as usize..end as usize]
    }

    /// The loops at the end of the pattern that read any texts over their symbols, as `.*` does, each with the states
    /// from which the pattern reads no other symbols: what these match, the loop matches too.
    pub(super) fn loops(&self) -> Vec<(u32, Vec<bool>)> {
        /// The most loops that are looked at.
        const MOST: usize = 4;
        let mut before: Vec<Vec<u32>> = vec![vec![]; self.states.len()];
        for (from, state) in (0..).zip(&self.states) {
            let next = match *state {
                State::Reads(..) => self.edges(from).iter().map(|(.., to)| *to).collect(),
                State::Split(first, end) => self.targets(first, end).to_vec(),
                State::Test(_, _, next) | State::Enter(_, next) => vec![next],
                State::Round(next, exit) => vec![next, exit],
                State::End(_) => vec![],
            };
            next.into_iter().for_each(|to| before[to as usize].push(from));
        }
        let is_loop = |state: &u32| {
            let back = |to: u32| match self.states[to as usize] {
                State::Split(first, end) => {
                    let targets = self.targets(first, end);
                    let is_end = |to: &u32| self.states[*to as usize] == State::End(WHOLE);
                    targets.contains(state) && targets.iter().any(is_end)
                }
                _ => false,
            };
            let edges = self.edges(*state);
            !edges.is_empty() && edges.iter().all(|(.., to)| back(*to))
        };
        let loops = (0..index(self.states.len())).filter(is_loop).take(MOST);
        let with_others = |of: u32| {
            let own = |symbol: Symbol| {
                self.edges(of).iter().any(|(first, last, _)| (*first..=*last).contains(&symbol))
            };
            let is_own: Vec<bool> = (0..index(self.alphabet.len())).map(own).collect();
            let reads_others = |state: &u32| {
                let mut edges = self.edges(*state).iter();
                edges.any(|(first, last, _)| is_own[*first as usize..=*last as usize].contains(&false))
            };
            let mut open: Vec<u32> = (0..index(self.states.len())).filter(reads_others).collect();
            let mut within = vec![true; self.states.len()];
            while let Some(state) = open.pop() {
                if std::mem::replace(&mut within[state as usize], false) {
                    open.extend(&before[state as usize]);
                }
            }
            (of, within)
        };
        loops.map(with_others).collect()
    }

    /// Whether some look-around looks behind.
    pub(super) fn looks_behind(&self) -> bool {
        self.assertions.iter().any(|assertion| !assertion.ahead)
    }

    /// One symbol of each range of symbols that these states do not tell apart, with the last one of the range.
    ///
    /// The ranges of all states together are many where a class of Unicode takes part, and a state inside of a
    /// character tells few of them apart.
    pub(super) fn stretches(&self, states: impl IntoIterator<Item = u32>) -> Vec<(Symbol, Symbol)> {
        let mut begins = vec![false; self.alphabet.len()];
        begins[0] = true;
        for (first, last, _) in states.into_iter().flat_map(|state| self.edges(state)) {
            begins[*first as usize] = true;
            if let Some(begin) = begins.get_mut(*last as usize + 1) {
                *begin = true;
            }
        }
        let end = index(begins.len() - 1);
        let firsts: Vec<Symbol> = (0..=end).filter(|symbol| begins[*symbol as usize]).collect();
        let ends = firsts.iter().skip(1).map(|next| next - 1).chain([end]);
        firsts.iter().copied().zip(ends).collect()
    }

    /// The program of `root`.
    pub(super) fn new(patterns: &Patterns, root: PatternId, limits: &Limits) -> Result<Self, RegexError> {
        let mut reached = vec![false; root.index() + 1];
        reached[root.index()] = true;
        // A look-behind, and what it contains.
        let mut in_behind = vec![false; root.index() + 1];
        let mut in_ahead = in_behind.clone();
        let mut looks: Vec<(PatternId, bool)> = vec![];
        let mut ahead_looks_behind = false;
        for index in (0..=root.index()).rev() {
            let id = PatternId(u32::try_from(index).expect("an id"));
            if !reached[index] {
                continue;
            }
            let (behind, ahead) = (in_behind[index], in_ahead[index]);
            let mut reach = |part: PatternId, behind: bool, ahead: bool| {
                reached[part.index()] = true;
                in_behind[part.index()] |= behind;
                in_ahead[part.index()] |= ahead;
            };
            match patterns.node(id) {
                Node::Concatenation(first, end) | Node::Alternation(first, end) => {
                    patterns.parts(*first, *end).iter().for_each(|part| reach(*part, behind, ahead));
                }
                Node::Repetition { item, .. } => reach(*item, behind, ahead),
                Node::Look { ahead: looks_ahead, item, .. } => {
                    if behind && *looks_ahead {
                        let place = Place { span: 0..0, line: 1, column: 1 };
                        return Err(RegexError::Unsupported { construct: Construct::AheadInBehind, place });
                    }
                    ahead_looks_behind |= ahead && !looks_ahead;
                    looks.push((*item, *looks_ahead));
                    reach(*item, behind || !looks_ahead, ahead || *looks_ahead);
                }
                _ => {}
            }
        }
        // Parts precede their whole, so those inside others come first.
        looks.sort_unstable();
        looks.dedup();
        let ids = (0..).map(PatternId).zip(&reached).filter(|(_, reached)| **reached).map(|(id, _)| id);
        let mut compiler = Compiler {
            patterns,
            alphabet: Alphabet::of(patterns, ids),
            limit: limits.nfa_size.min(u64::from(u32::MAX)),
            states: vec![],
            edges: vec![],
            targets: vec![],
            classes: HashMap::new(),
            numbers: (0..).zip(&looks).map(|(number, look)| (*look, number)).collect(),
            next: 0,
        };
        let mut assertions = vec![];
        for (number, (item, ahead)) in (0..).zip(looks) {
            assertions.push(Assertion { ahead, entry: compiler.part(item, number)? });
        }
        let entry = compiler.part(root, WHOLE)?;
        let behind = compiler.push(State::Split(0, 0))?;
        compiler.next = behind;
        match compiler.alphabet {
            Alphabet::Bytes => {
                let any = ClassUnicode::new([ClassUnicodeRange::new('\0', char::MAX)]);
                compiler.class(&Acyclic::class(&Class::Unicode(any)))?;
            }
            Alphabet::Characters(_) => compiler.symbols(&CharSet::all())?,
        }
        let character = compiler.next;
        let entries = assertions.iter().filter(|assertion| !assertion.ahead).map(|assertion| assertion.entry);
        let targets: Vec<u32> = entries.chain([character]).collect();
        compiler.states[behind as usize] = compiler.split(&targets)?;
        let Compiler { states, alphabet, edges, targets, .. } = compiler;
        Ok(Self {
            states,
            alphabet,
            edges,
            targets,
            assertions,
            entry,
            behind,
            character,
            ahead_looks_behind,
        })
    }
}

/// The remaining work, as a stack.
enum Task {
    /// Compile a part before `next`.
    Part(PatternId),
    /// Compile the alternatives from `at` on before `join`; `entries` has the entries of the earlier ones.
    Alternatives { first: u32, end: u32, at: u32, join: u32, entries: Vec<u32> },
    /// Compile `left` more optional copies, each with a way to `exit`.
    Optional { item: PatternId, left: u32, exit: u32, greedy: bool },
    /// Make the part that begins at `next` optional. `round` is its end if it may be empty.
    Fork { round: Option<u32>, exit: u32, greedy: bool },
    /// Compile `left` more copies.
    Copies { item: PatternId, left: u32 },
    /// Close the loop at `fork`, after its body was compiled.
    Loop { fork: u32, round: Option<u32>, exit: u32, min: u32, greedy: bool },
}

struct Compiler<'p> {
    patterns: &'p Patterns,
    alphabet: Alphabet,
    limit: u64,
    states: Vec<State>,
    edges: Vec<(Symbol, Symbol, u32)>,
    targets: Vec<u32>,
    /// By node of a class.
    classes: HashMap<PatternId, Rc<Acyclic>>,
    /// The numbers of look-arounds, by item and side.
    numbers: HashMap<(PatternId, bool), u32>,
    /// The target of the next part.
    next: u32,
}

impl Compiler<'_> {
    fn check(&self) -> Result<(), RegexError> {
        let size = (self.states.len() + self.edges.len() + self.targets.len()) as u64;
        if size > self.limit { Err(RegexError::NfaTooLarge { size, limit: self.limit }) } else { Ok(()) }
    }

    fn push(&mut self, state: State) -> Result<u32, RegexError> {
        self.states.push(state);
        self.check()?;
        Ok(index(self.states.len() - 1))
    }

    fn split(&mut self, targets: &[u32]) -> Result<State, RegexError> {
        let first = index(self.targets.len());
        self.targets.extend_from_slice(targets);
        self.check()?;
        Ok(State::Split(first, index(self.targets.len())))
    }

    fn push_split(&mut self, targets: &[u32]) -> Result<u32, RegexError> {
        let split = self.split(targets)?;
        self.push(split)
    }

    /// A choice between the part at `next` and `exit`.
    fn fork(&mut self, round: Option<u32>, exit: u32, greedy: bool) -> Result<State, RegexError> {
        let more = match round {
            Some(round) => self.push(State::Enter(round, self.next))?,
            None => self.next,
        };
        self.split(&if greedy { [more, exit] } else { [exit, more] })
    }

    /// Puts the end of a round before `next` if `item` may be empty.
    fn round(&mut self, item: PatternId, exit: u32) -> Result<Option<u32>, RegexError> {
        if !self.patterns.can_be_empty(item) {
            return Ok(None);
        }
        self.next = self.push(State::Round(self.next, exit))?;
        Ok(Some(self.next))
    }

    /// Compiles `root` with an end of its own, and returns its entry.
    fn part(&mut self, root: PatternId, end: u32) -> Result<u32, RegexError> {
        self.next = self.push(State::End(end))?;
        let mut tasks = vec![Task::Part(root)];
        while let Some(task) = tasks.pop() {
            self.run(task, &mut tasks)?;
        }
        Ok(self.next)
    }

    fn run(&mut self, task: Task, tasks: &mut Vec<Task>) -> Result<(), RegexError> {
        match task {
            Task::Part(part) => self.node(part, tasks)?,
            Task::Alternatives { first, end, at, join, mut entries } => {
                if at > first {
                    entries.push(self.next);
                }
                if at < end {
                    self.next = join;
                    tasks.push(Task::Alternatives { first, end, at: at + 1, join, entries });
                    tasks.push(Task::Part(self.patterns.parts(at, at + 1)[0]));
                } else {
                    self.next = self.push_split(&entries)?;
                }
            }
            Task::Optional { item, left, exit, greedy } => {
                if left > 0 {
                    let round = self.round(item, exit)?;
                    tasks.push(Task::Optional { item, left: left - 1, exit, greedy });
                    tasks.push(Task::Fork { round, exit, greedy });
                    tasks.push(Task::Part(item));
                }
            }
            Task::Fork { round, exit, greedy } => {
                let fork = self.fork(round, exit, greedy)?;
                self.next = self.push(fork)?;
            }
            Task::Copies { item, left } => {
                if left > 0 {
                    tasks.push(Task::Copies { item, left: left - 1 });
                    tasks.push(Task::Part(item));
                }
            }
            Task::Loop { fork, round, exit, min, greedy } => {
                self.states[fork as usize] = self.fork(round, exit, greedy)?;
                if min == 0 {
                    self.next = fork;
                }
            }
        }
        Ok(())
    }

    fn node(&mut self, part: PatternId, tasks: &mut Vec<Task>) -> Result<(), RegexError> {
        let patterns = self.patterns;
        match patterns.node(part) {
            Node::Empty => {}
            Node::Literal(text) if matches!(self.alphabet, Alphabet::Bytes) => {
                for byte in text.iter().rev() {
                    let first = index(self.edges.len());
                    self.edges.push((u32::from(*byte), u32::from(*byte), self.next));
                    self.next = self.push(State::Reads(first, first + 1))?;
                }
            }
            Node::Literal(text) => {
                for char in std::str::from_utf8(text).expect("the alphabet is of characters").chars().rev() {
                    self.symbols(&CharSet::from_iter([char]))?;
                }
            }
            Node::Class(class) if matches!(self.alphabet, Alphabet::Characters(_)) => {
                self.symbols(&characters(class).expect("the alphabet is of characters"))?;
            }
            Node::Class(class) => {
                let made = self.classes.entry(part).or_insert_with(|| Rc::new(Acyclic::class(class)));
                let made = Rc::clone(made);
                self.class(&made)?;
            }
            Node::Automaton(dfa) => {
                let (after, base) = (self.next, index(self.states.len()));
                // A state of the automaton has two states here: one that reads, and one that reads or ends.
                for state in dfa.states() {
                    let first = index(self.edges.len());
                    for Edge { bytes, target } in dfa.edges(state) {
                        let next = base + 2 * index(target.index()) + 1;
                        self.edges.push((u32::from(*bytes.start()), u32::from(*bytes.end()), next));
                    }
                    let reads = self.push(State::Reads(first, index(self.edges.len())))?;
                    match dfa.is_accepting(state) {
                        true => self.push_split(&[reads, after])?,
                        false => self.push_split(&[reads])?,
                    };
                }
                self.next = base + 2 * index(dfa.start().index()) + 1;
            }
            Node::Concatenation(first, end) => {
                // The tasks are a stack, so the last part is compiled first.
                tasks.extend(patterns.parts(*first, *end).iter().map(|part| Task::Part(*part)));
            }
            Node::Alternation(first, end) => {
                let (first, end) = (*first, *end);
                tasks.push(Task::Alternatives { first, end, at: first, join: self.next, entries: vec![] });
            }
            Node::Repetition { item, min, max, greedy } => {
                let (item, min, max, greedy) = (*item, *min, *max, *greedy);
                if max == u32::MAX {
                    tasks.push(Task::Copies { item, left: min.saturating_sub(1) });
                    let (exit, fork) = (self.next, self.push(State::Split(0, 0))?);
                    self.next = fork;
                    let round = self.round(item, exit)?;
                    tasks.push(Task::Loop { fork, round, exit, min, greedy });
                    tasks.push(Task::Part(item));
                } else {
                    tasks.push(Task::Copies { item, left: min });
                    tasks.push(Task::Optional { item, left: max - min, exit: self.next, greedy });
                }
            }
            Node::Look { ahead, positive, item } => {
                let number = self.numbers[&(*item, *ahead)];
                self.next = self.push(State::Test(number, *positive, self.next))?;
            }
        }
        Ok(())
    }

    /// Reads a character of a set before `next`.
    fn symbols(&mut self, set: &CharSet) -> Result<(), RegexError> {
        let first = index(self.edges.len());
        let Alphabet::Characters(characters) = &self.alphabet else { unreachable!("it has characters") };
        let symbols = characters.symbols(set);
        self.edges.extend(symbols.into_iter().map(|(first, last)| (first, last, self.next)));
        self.next = self.push(State::Reads(first, index(self.edges.len())))?;
        Ok(())
    }

    /// Copies the automaton of a class before `next`.
    fn class(&mut self, of_class: &Acyclic) -> Result<(), RegexError> {
        if of_class.matches_nothing() {
            self.next = self.push(State::Reads(0, 0))?;
            return Ok(());
        }
        // Node 0 is the accepting one; the other nodes follow `base` in their order.
        let (after, base) = (self.next, index(self.states.len()));
        for node in 1..of_class.len() {
            let first = index(self.edges.len());
            let edges = of_class.edges(node).iter();
            self.edges.extend(edges.map(|edge| {
                let to = if edge.to == 0 { after } else { base + edge.to - 1 };
                (u32::from(edge.first), u32::from(edge.last), to)
            }));
            self.states.push(State::Reads(first, index(self.edges.len())));
            self.next = index(self.states.len() - 1);
        }
        self.check()
    }
}

fn index(value: usize) -> u32 {
    u32::try_from(value).expect("the limit is within 32 bits")
}
