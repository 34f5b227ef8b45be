//! Runs a program with look-around over a text, from left to right.
//!
//! A configuration is all that the rest of the text depends on: the states of the pattern, in the order in which an
//! engine with backtracking tries them if order counts; the states of the look-behinds; and the claims about the text
//! that follows, each with the states of its look-ahead. At a position where a state asks whether a look-ahead
//! matches, both answers are assumed, each in a configuration of its own, with a claim that the text to come must
//! fulfil. The answer is the same for all states that ask at the position. So exactly one configuration of those that
//! begin together fulfils all its claims, and the machine is unambiguous.

use rustc_hash::FxHashSet;

use super::{
    alphabet::Symbol,
    program::{Program, State, WHOLE},
};

/// A look-ahead that must match the text from a position on, or must not, with its states here.
pub(super) type Claim = (u32, bool, Box<[u32]>);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct Configuration {
    /// The states of the pattern that read or are its end; `None` after the end of its text. If order counts, the end
    /// is the last one.
    pub(super) main: Option<Box<[u32]>>,
    /// The states of the look-behinds, in ascending order.
    pub(super) behind: Box<[u32]>,
    pub(super) claims: Box<[Claim]>,
}

impl Configuration {
    /// All its states.
    pub(super) fn states(&self) -> impl Iterator<Item = u32> {
        let claims = self.claims.iter().flat_map(|(.., states)| states.iter());
        self.main.iter().flat_map(|main| main.iter()).chain(self.behind.iter()).chain(claims).copied()
    }

    /// Whether the text may end here as far as the claims are concerned.
    pub(super) fn may_end(&self) -> bool {
        self.claims.iter().all(|(_, positive, _)| !positive)
    }
}

/// Marks of states, cleared at once.
struct Marks {
    of: Vec<u32>,
    now: u32,
}

impl Marks {
    fn clear(&mut self) {
        self.now = self.now.checked_add(1).unwrap_or_else(|| {
            self.of.fill(0);
            1
        });
    }

    fn insert(&mut self, state: u32) -> bool {
        std::mem::replace(&mut self.of[state as usize], self.now) != self.now
    }
}

pub(super) struct Machine<'p> {
    pub(super) program: &'p Program,
    /// Whether earlier alternatives win.
    ordered: bool,
    marks: Marks,
    /// Marks of states with the outermost repetition in which a round was entered at this position.
    entered: FxHashSet<(u32, u32)>,
    stack: Vec<u32>,
    /// By look-around: whether it matches here, as far as it is known.
    answers: Vec<Option<bool>>,
    /// As [`Program::loops`], if order does not count.
    loops: Vec<(u32, Vec<bool>)>,
    pub(super) steps: u64,
}

/// A state asks for a look-ahead that has no answer yet.
struct Asked(u32);

impl<'p> Machine<'p> {
    pub(super) fn new(program: &'p Program, ordered: bool) -> Self {
        Self {
            program,
            ordered,
            marks: Marks { of: vec![0; program.states.len()], now: 0 },
            entered: FxHashSet::default(),
            stack: vec![],
            answers: vec![None; program.assertions.len()],
            loops: if ordered { vec![] } else { program.loops() },
            steps: 0,
        }
    }

    /// The configurations at a position, from the states that the last byte led to.
    pub(super) fn close(&mut self, from: &Configuration) -> Vec<Configuration> {
        let mut found = vec![];
        self.answers.fill(None);
        let behind =
            if self.program.looks_behind() { self.look_behind(&from.behind) } else { Box::default() };
        let known = self.answers.clone();
        let mut open: Vec<Vec<(u32, bool)>> = vec![vec![]];
        while let Some(assumed) = open.pop() {
            self.answers.clone_from(&known);
            for (assertion, answer) in &assumed {
                self.answers[*assertion as usize] = Some(*answer);
            }
            match self.closed(from, &behind, &assumed) {
                Ok(configuration) => found.extend(configuration),
                Err(Asked(assertion)) => {
                    for answer in [false, true] {
                        open.push(assumed.iter().copied().chain([(assertion, answer)]).collect());
                    }
                }
            }
        }
        found
    }

    /// The states of the look-behinds, with the answers for all of them.
    pub(super) fn look_behind(&mut self, from: &[u32]) -> Box<[u32]> {
        let program = self.program;
        self.marks.clear();
        self.stack.clear();
        self.stack.extend(from);
        let mut found = vec![];
        // States that ask, by look-around. Those inside others have smaller numbers.
        let mut asking: Vec<(u32, bool, u32)> = vec![];
        let mut matched = vec![false; program.assertions.len()];
        loop {
            while let Some(state) = self.stack.pop() {
                if !self.marks.insert(state) {
                    continue;
                }
                self.steps += 1;
                match program.states[state as usize] {
                    State::Reads(..) => found.push(state),
                    State::Split(first, end) => self.stack.extend(program.targets(first, end)),
                    State::Test(assertion, wanted, next) => asking.push((assertion, wanted, next)),
                    State::Enter(_, next) | State::Round(next, _) => self.stack.push(next),
                    State::End(assertion) => {
                        matched[assertion as usize] = true;
                        found.push(state);
                    }
                }
            }
            let Some(least) = (0..asking.len()).min_by_key(|at| asking[*at].0) else { break };
            let (assertion, wanted, next) = asking.swap_remove(least);
            if matched[assertion as usize] == wanted {
                self.stack.push(next);
            }
        }
        for (answer, (assertion, matched)) in
            self.answers.iter_mut().zip(program.assertions.iter().zip(matched))
        {
            *answer = (!assertion.ahead).then_some(matched);
        }
        found.sort_unstable();
        found.into()
    }

    /// The states that read, and the ends, that `from` reaches without reading, in any order.
    fn reach(&mut self, from: &[u32]) -> Result<Vec<u32>, Asked> {
        let program = self.program;
        self.marks.clear();
        self.stack.clear();
        self.stack.extend(from);
        let mut found = vec![];
        while let Some(state) = self.stack.pop() {
            if !self.marks.insert(state) {
                continue;
            }
            self.steps += 1;
            match program.states[state as usize] {
                State::Reads(..) | State::End(_) => found.push(state),
                State::Split(first, end) => self.stack.extend(program.targets(first, end)),
                State::Enter(_, next) | State::Round(next, _) => self.stack.push(next),
                State::Test(assertion, wanted, next) => {
                    if self.answer(assertion)? == wanted {
                        self.stack.push(next);
                    }
                }
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// As [`reach`](Self::reach), in the order of an engine with backtracking, up to the end of the pattern: all that
    /// is later is never tried.
    ///
    /// A state counts once, but for rounds of repetitions that read nothing: they leave the repetition. Which rounds
    /// have read nothing follows from the state and from the outermost repetition of which a round was entered here.
    fn reach_in_order(&mut self, from: &[u32]) -> Result<Vec<u32>, Asked> {
        /// No round was entered here.
        const NONE: u32 = u32::MAX;
        let program = self.program;
        self.marks.clear();
        self.entered.clear();
        let mut found = vec![];
        let mut open: Vec<(u32, u32)> = from.iter().rev().map(|state| (*state, NONE)).collect();
        while let Some((state, entered)) = open.pop() {
            let reads = matches!(program.states[state as usize], State::Reads(..));
            let is_new = match entered == NONE || reads {
                true => self.marks.insert(state),
                false => self.entered.insert((state, entered)),
            };
            if !is_new {
                continue;
            }
            self.steps += 1;
            match program.states[state as usize] {
                State::Reads(..) => found.push(state),
                State::End(_) => {
                    found.push(state);
                    break;
                }
                State::Split(first, end) => {
                    open.extend(program.targets(first, end).iter().rev().map(|next| (*next, entered)));
                }
                State::Enter(round, next) => open.push((next, if entered == NONE { round } else { entered })),
                State::Round(next, _) if entered == NONE => open.push((next, NONE)),
                State::Round(_, exit) => open.push((exit, if entered == state { NONE } else { entered })),
                State::Test(assertion, wanted, next) => {
                    if self.answer(assertion)? == wanted {
                        open.push((next, entered));
                    }
                }
            }
        }
        Ok(found)
    }

    fn answer(&self, assertion: u32) -> Result<bool, Asked> {
        self.answers[assertion as usize].ok_or(Asked(assertion))
    }

    /// The configuration with these answers, or `None` if a claim is broken.
    fn closed(
        &mut self,
        from: &Configuration,
        behind: &[u32],
        assumed: &[(u32, bool)],
    ) -> Result<Option<Configuration>, Asked> {
        let mut main = match &from.main {
            Some(main) if self.ordered => Some(self.reach_in_order(main)?.into_boxed_slice()),
            Some(main) => Some(self.reach(main)?.into_boxed_slice()),
            None => None,
        };
        // The loop matches what these states match. They are left out, because a test may double their number again and
        // again.
        if let Some(main) = &mut main
            && let Some((own, within)) = self.loops.iter().find(|(own, _)| main.contains(own))
            && let Some(end) =
                main.iter().copied().find(|state| self.program.states[*state as usize] == State::End(WHOLE))
        {
            let kept = main
                .iter()
                .copied()
                .filter(|state| *state == *own || *state == end || !within[*state as usize]);
            *main = kept.collect();
        }
        if main.as_ref().is_some_and(|main| main.is_empty()) {
            return Ok(None);
        }
        let program = self.program;
        let new = assumed.iter().map(|(assertion, answer)| {
            (*assertion, *answer, Box::from([program.assertions[*assertion as usize].entry]))
        });
        let new: Vec<Claim> = new.collect();
        let mut claims: Vec<Claim> = vec![];
        for (assertion, positive, states) in from.claims.iter().chain(&new) {
            let states = self.reach(states)?;
            let matches = states.iter().any(|state| matches!(program.states[*state as usize], State::End(_)));
            match (*positive, matches, states.is_empty()) {
                (true, true, _) | (false, false, true) => {}
                (false, true, _) | (true, false, true) => return Ok(None),
                (positive, false, false) => claims.push((*assertion, positive, states.into())),
            }
        }
        claims.sort_unstable();
        claims.dedup();
        let behind = if main.is_none() { self.needed_behind(behind, &claims) } else { behind.into() };
        Ok(Some(Configuration { main, behind, claims: claims.into() }))
    }

    /// The states of the look-behinds, if the claims may ask for them.
    fn needed_behind(&self, behind: &[u32], claims: &[Claim]) -> Box<[u32]> {
        let needed = self.program.ahead_looks_behind && !claims.is_empty();
        if needed { behind.into() } else { Box::default() }
    }

    /// The claims that are left where the text of the pattern ends, if it may end here.
    pub(super) fn after(&self, configuration: &Configuration) -> Option<Configuration> {
        let main = configuration.main.as_ref()?;
        let ends = main.iter().any(|state| self.program.states[*state as usize] == State::End(WHOLE));
        ends.then(|| Configuration {
            main: None,
            behind: self.needed_behind(&configuration.behind, &configuration.claims),
            claims: configuration.claims.clone(),
        })
    }

    /// The states that `symbol` leads to, before they are closed; `None` if the pattern cannot read it.
    pub(super) fn step(&mut self, from: &Configuration, symbol: Symbol) -> Option<Configuration> {
        let main = from.main.as_ref().map(|main| self.next(main, symbol));
        if main.as_ref().is_some_and(|main| main.is_empty()) {
            return None;
        }
        let mut claims = vec![];
        for (assertion, positive, states) in &from.claims {
            let states = self.next(states, symbol);
            match (positive, states.is_empty()) {
                (true, true) => return None,
                (false, true) => {}
                _ => claims.push((*assertion, *positive, states)),
            }
        }
        let behind = self.next(&from.behind, symbol);
        Some(Configuration { main, behind, claims: claims.into() })
    }

    pub(super) fn next(&mut self, states: &[u32], symbol: Symbol) -> Box<[u32]> {
        self.steps += states.len() as u64;
        let program = self.program;
        let targets = states.iter().flat_map(|state| {
            let edges = program.edges(*state).iter();
            edges.filter(move |(first, last, _)| (*first..=*last).contains(&symbol)).map(|(.., to)| *to)
        });
        targets.collect()
    }
}
