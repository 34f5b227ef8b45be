//! The deterministic automata of a pattern with look-around: of its texts, and of the texts before and after.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{
    super::explore::{Explored, Numbered},
    alphabet::{Alphabet, Symbol},
    machine::{Configuration, Machine},
    program::Program,
    tree::{PatternId, Patterns},
};
use crate::{Dfa, Limits, RegexError, dfa::DfaAlgebra, regex::parsed::Parsed};

/// The matches that count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reading {
    /// Every match.
    Any,
    /// The match that an engine with backtracking finds first.
    First,
}

/// Texts under a condition on the text before and after.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct InContext {
    /// The whole texts that may come before; `None` for any.
    pub before: Option<Arc<Dfa>>,
    /// The texts.
    pub text: Arc<Dfa>,
    /// The whole texts that may come after; `None` for any.
    pub after: Option<Arc<Dfa>>,
}

impl DfaAlgebra {
    /// The texts that `pattern` matches as a whole, with nothing before or after them. [`Patterns`] has the meaning.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: [`MatchesNothing`](RegexError::MatchesNothing), or a limit.
    pub fn whole(&mut self, patterns: &Patterns, pattern: PatternId) -> Result<Dfa, RegexError> {
        let limits = self.limits().clone();
        let program = Program::new(patterns, pattern, &limits)?;
        self.counted(&program, Reading::Any, |maker| {
            let behind = maker.machine.look_behind(&[program.behind]);
            let start = maker.begin(&behind)?;
            maker.explore(&[start])?;
            let ends = |maker: &Maker<'_>, state: u32| {
                let after = maker.after.of[state as usize].iter();
                after.copied().any(|after| maker.configurations[after as usize].may_end())
            };
            maker.automaton(start, ends)
        })
    }

    /// The texts that a pattern matches as a whole.
    pub(crate) fn looking(&mut self, pattern: &Parsed) -> Result<Dfa, RegexError> {
        let mut patterns = Patterns::new(self.limits());
        let pattern = patterns.parsed(pattern);
        self.whole(&patterns, pattern)
    }

    /// The texts of `pattern`, with conditions on the text before and after. The texts of the results may overlap:
    /// together they have every way in which the pattern matches. No result if the pattern matches nothing.
    ///
    /// Cost: as [`pattern`](Self::pattern), for each condition on the text before.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: a limit.
    ///
    /// # Example
    ///
    /// ```
    /// use unskew_automata::{dfa::{DfaAlgebra, Patterns, Reading}, Limits};
    ///
    /// let limits = Limits::default();
    /// let (mut patterns, mut algebra) = (Patterns::new(&limits), DfaAlgebra::new(&limits));
    /// let string = patterns.pattern(r#"".*?""#)?;
    /// let found = algebra.in_context(&patterns, string, Reading::First)?;
    /// assert!(found[0].text.accepts(br#""a""#) && !found[0].text.accepts(br#""a" "b""#));
    ///
    /// let assign = patterns.pattern("=(?!=)")?;
    /// let found = algebra.in_context(&patterns, assign, Reading::First)?;
    /// let after = found[0].after.as_ref().unwrap();
    /// assert!(found.len() == 1 && after.accepts(b" =") && after.accepts(b"") && !after.accepts(b"= "));
    /// # Ok::<(), unskew_automata::RegexError>(())
    /// ```
    pub fn in_context(
        &mut self,
        patterns: &Patterns,
        pattern: PatternId,
        reading: Reading,
    ) -> Result<Vec<InContext>, RegexError> {
        let limits = self.limits().clone();
        let program = Program::new(patterns, pattern, &limits)?;
        self.counted(&program, reading, |maker: &mut Maker<'_>| maker.in_context())
    }

    fn counted<T>(
        &mut self,
        program: &Program,
        reading: Reading,
        make: impl FnOnce(&mut Maker<'_>) -> Result<T, RegexError>,
    ) -> Result<T, RegexError> {
        self.charge(program.states.len() as u64)?;
        let limits = Limits { dfa_steps: self.limits().dfa_steps - self.steps(), ..self.limits().clone() };
        let machine = Machine::new(program, reading == Reading::First);
        let mut maker = Maker {
            machine,
            limits: &limits,
            configurations: Numbered::default(),
            bytes: 0,
            spent: 0,
            sets: Sets::default(),
            after: After::default(),
        };
        let made = make(&mut maker);
        let steps = maker.machine.steps;
        self.charge(steps)?;
        made
    }
}

/// Deterministic states: sets of configurations.
#[derive(Default)]
struct Sets {
    of: Numbered<Box<[u32]>>,
    /// By state, as far as it was explored: ranges of symbols with the next state.
    edges: Vec<Vec<(Symbol, Symbol, u32)>>,
}

/// The configurations that are left where the pattern ends.
#[derive(Default)]
struct After {
    /// By state: the configurations after the end of the pattern.
    of: Vec<Box<[u32]>>,
}

struct Maker<'p> {
    machine: Machine<'p>,
    limits: &'p Limits,
    configurations: Numbered<Configuration>,
    bytes: usize,
    /// The steps of the machine for which fuel was taken.
    spent: u64,
    sets: Sets,
    after: After,
}

impl Maker<'_> {
    fn check(&mut self) -> Result<(), RegexError> {
        self.limits.spend(self.machine.steps - self.spent)?;
        self.spent = self.machine.steps;
        let states = self.sets.of.len();
        if self.machine.steps > self.limits.dfa_steps {
            return Err(RegexError::DfaTooCostly { limit: self.limits.dfa_steps, states });
        }
        if states.max(self.configurations.len()) > self.limits.dfa_states {
            return Err(RegexError::TooManyDfaStates { limit: self.limits.dfa_states });
        }
        if self.bytes > self.limits.dfa_bytes {
            return Err(RegexError::DfaTooLarge { bytes: self.bytes, limit: self.limits.dfa_bytes });
        }
        Ok(())
    }

    fn configuration(&mut self, configuration: Configuration) -> u32 {
        let (id, is_new) = self.configurations.insert_full(configuration);
        if is_new {
            let Configuration { main, behind, claims } = &self.configurations[id];
            let claims = claims.iter().map(|(.., states)| states.len() + 8).sum::<usize>();
            let main = main.as_ref().map_or(0, |main| main.len());
            self.bytes += 2 * (4 * (claims + main + behind.len()) + 64);
        }
        number(id)
    }

    /// The state of these configurations.
    fn set(&mut self, configurations: impl IntoIterator<Item = Configuration>) -> Result<u32, RegexError> {
        let configurations: Vec<Configuration> = configurations.into_iter().collect();
        let mut set: Vec<u32> = configurations.into_iter().map(|one| self.configuration(one)).collect();
        set.sort_unstable();
        set.dedup();
        self.state(set)
    }

    /// Whether any text may follow: the pattern is over, and no claim is left.
    fn is_free(&self, configuration: u32) -> bool {
        let configuration = &self.configurations[configuration as usize];
        configuration.main.is_none() && configuration.claims.is_empty()
    }

    fn state(&mut self, mut set: Vec<u32>) -> Result<u32, RegexError> {
        if let Some(free) = set.iter().find(|id| self.is_free(**id)).copied() {
            set = vec![free];
        }
        if let Some(known) = self.sets.of.get_index_of(&set[..]) {
            return Ok(number(known));
        }
        let of = set.iter().filter_map(|id| self.machine.after(&self.configurations[*id as usize]));
        let of: Vec<Configuration> = of.collect();
        let mut of: Vec<u32> = of.into_iter().map(|one| self.configuration(one)).collect();
        of.sort_unstable();
        of.dedup();
        self.bytes += 8 * set.len() + 4 * of.len() + 128;
        self.after.of.push(of.into());
        self.sets.edges.push(vec![]);
        let next = number(self.sets.of.insert_full(set.into()).0);
        self.check()?;
        Ok(next)
    }

    /// The state before the pattern, where the look-behinds have these states.
    fn begin(&mut self, behind: &[u32]) -> Result<u32, RegexError> {
        let main = Some(Box::from([self.machine.program.entry]));
        let start = Configuration { main, behind: behind.into(), claims: Box::default() };
        let closed = self.machine.close(&start);
        self.set(closed)
    }

    /// Fills the edges of all states that `starts` reach, and returns these states.
    fn explore(&mut self, starts: &[u32]) -> Result<(), RegexError> {
        let mut open: Vec<u32> = starts.to_vec();
        while let Some(state) = open.pop() {
            if !self.sets.edges[state as usize].is_empty() {
                continue;
            }
            let mut edges: Vec<(Symbol, Symbol, u32)> = vec![];
            let mut last: Option<(Vec<Configuration>, u32)> = None;
            let members = self.sets.of[state as usize].clone();
            let states = members.iter().flat_map(|member| self.configurations[*member as usize].states());
            for (first, end) in self.machine.program.stretches(states) {
                let mut stepped = vec![];
                for member in &members {
                    let machine = &mut self.machine;
                    stepped.extend(machine.step(&self.configurations[*member as usize], first));
                }
                // Neighbouring symbols often lead to the same states.
                let next = match &last {
                    Some((before, next)) if *before == stepped => *next,
                    _ => {
                        let mut closed = vec![];
                        for one in &stepped {
                            closed.extend(self.machine.close(one));
                        }
                        let next = self.set(closed)?;
                        last = Some((stepped, next));
                        next
                    }
                };
                self.check()?;
                if !self.sets.of[next as usize].is_empty() {
                    edges.push((first, end, next));
                    open.push(next);
                }
            }
            if edges.is_empty() {
                // An edge that leads nowhere marks the state as explored.
                let dead = self.state(vec![])?;
                edges.push((0, 0, dead));
            }
            self.bytes += 12 * edges.len();
            self.sets.edges[state as usize] = edges;
        }
        Ok(())
    }

    /// The automaton from `start`, over explored states.
    fn automaton(&self, start: u32, ends: impl Fn(&Self, u32) -> bool) -> Result<Dfa, RegexError> {
        let mut found = Explored::new(start);
        while let Some(state) = found.next_state() {
            for (first, last, next) in &self.sets.edges[state as usize] {
                found.edge((*first, *last), *next);
            }
        }
        let set = |at: usize| &self.sets.of[*found.state(at) as usize][..];
        let is_free = |at: usize| matches!(*set(at), [only] if self.is_free(only));
        let alphabet = &self.machine.program.alphabet;
        alphabet.automaton(found.graph(), |at| ends(self, *found.state(at)), is_free, self.limits)
    }

    /// The automaton of the texts that may come after one of these configurations. `Ok(None)` for any text.
    fn follow(&mut self, after: &[u32]) -> Result<Option<Dfa>, RegexError> {
        let start = self.state(after.to_vec())?;
        self.explore(&[start])?;
        let may_end = |maker: &Self, state: u32| {
            let set = maker.sets.of[state as usize].iter();
            set.copied().any(|one| maker.configurations[one as usize].may_end())
        };
        let made = self.automaton(start, may_end)?;
        let start = made.start();
        let any = made.len() == 1
            && made.is_accepting(start)
            && (0..=255).all(|byte| made.step(start, byte).is_some());
        Ok((!any).then_some(made))
    }

    fn in_context(&mut self) -> Result<Vec<InContext>, RegexError> {
        let befores = self.befores()?;
        let mut starts: Vec<u32> = vec![];
        for before in &befores.at_boundary {
            let start = self.begin(befores.states.state(*before))?;
            starts.push(start);
        }
        self.explore(&starts)?;
        // By what may come after: the number of its automaton; `None` if nothing can.
        let mut follows: Vec<Option<Arc<Dfa>>> = vec![];
        let mut by_after: FxHashMap<Box<[u32]>, Option<usize>> = FxHashMap::default();
        let explored = self.sets.of.len();
        for state in 0..explored {
            let after = self.after.of[state].clone();
            if after.is_empty() || by_after.contains_key(&after) {
                continue;
            }
            let follow = match self.follow(&after) {
                Err(RegexError::MatchesNothing) => None,
                follow => {
                    let follow = follow?.map(Arc::new);
                    let known = follows.iter().position(|known| *known == follow);
                    Some(known.unwrap_or_else(|| {
                        follows.push(follow);
                        follows.len() - 1
                    }))
                }
            };
            by_after.insert(after, follow);
        }
        // Texts with what may come after, each with the texts before that allow both.
        let mut found: Vec<(Arc<Dfa>, usize, Vec<usize>)> = vec![];
        for (before, start) in befores.at_boundary.iter().zip(&starts) {
            for follow in 0..follows.len() {
                let ends = |maker: &Self, state: u32| {
                    by_after.get(&maker.after.of[state as usize]).is_some_and(|own| *own == Some(follow))
                };
                let text = match self.automaton(*start, ends) {
                    Err(RegexError::MatchesNothing) => continue,
                    text => text?,
                };
                match found.iter_mut().find(|(known, of, _)| *of == follow && **known == text) {
                    Some((.., all)) => all.push(*before),
                    None => found.push((Arc::new(text), follow, vec![*before])),
                }
            }
        }
        let mut made = vec![];
        for (text, follow, of) in found {
            let before = match of.len() == befores.at_boundary.len() {
                true => None,
                false => {
                    let alphabet = &self.machine.program.alphabet;
                    Some(Arc::new(befores.automaton(&of, alphabet, self.limits)?))
                }
            };
            made.push(InContext { before, text, after: follows[follow].clone() });
        }
        Ok(made)
    }

    /// The states of the look-behinds after every text.
    fn befores(&mut self) -> Result<Befores, RegexError> {
        let program = self.machine.program;
        if !program.looks_behind() {
            let mut states = Explored::new(Box::default());
            states.next_state();
            return Ok(Befores { states, at_boundary: vec![0] });
        }
        let mut states = Explored::new(self.machine.look_behind(&[program.behind]));
        let mut at_boundary = vec![];
        while let Some(state) = states.next_state() {
            // A look-behind begins between two characters and never inside one.
            if state.contains(&program.character) {
                at_boundary.push(states.graph().edges().len() - 1);
            }
            for (first, last) in program.stretches(state.iter().copied()) {
                let next = self.machine.next(&state, first);
                if next.is_empty() {
                    continue;
                }
                let next = self.machine.look_behind(&next);
                self.bytes += 8 * next.len() + 32;
                states.edge((first, last), next);
            }
            self.check()?;
            if states.len() > self.limits.dfa_states {
                return Err(RegexError::TooManyDfaStates { limit: self.limits.dfa_states });
            }
        }
        Ok(Befores { states, at_boundary })
    }
}

/// A deterministic automaton over the text before a pattern.
struct Befores {
    /// By the states of the look-behinds.
    states: Explored<Box<[u32]>, (Symbol, Symbol)>,
    /// The states after whole characters.
    at_boundary: Vec<usize>,
}

impl Befores {
    /// The texts that lead to one of these states.
    fn automaton(&self, ends: &[usize], alphabet: &Alphabet, limits: &Limits) -> Result<Dfa, RegexError> {
        alphabet.automaton(self.states.graph(), |state| ends.contains(&state), |_| false, limits)
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("the limit on states is within 32 bits")
}
