//! Operations on languages: automata computed from automata.
//!
//! They serve languages with parts that are known as automata and not as one pattern: the terminals of a grammar,
//! which are defined by one another, and differences and intersections, which regex syntax does not have. Sequence,
//! choice and repetition copy the parts into one NFA and determinise it; intersection, difference and the union of
//! two explore the product of both automata. Results are minimal and in canonical form, as every [`Dfa`] is, and do
//! not depend on the order of the operations.
//!
//! Tried instead: patterns pasted together as text, each in `(?:…)`. A chain of definitions that uses each one twice
//! is then a text of exponential length, and deep chains reach the limit on nesting.

use rustc_hash::FxHashMap;

use super::{
    determinize,
    explore::strata,
    factors::factors,
    nfa::{Assembly, Nfa},
    table::{DEAD, Table},
};
use crate::{
    Dfa, Limits, Pattern, RegexError, StateId,
    dfa::Cuts,
    regex::{parse, parsed::Parsed},
};

/// The memory of a state of a product beside its row, in bytes.
const PAIR_OVERHEAD: usize = 40;

/// Builds automata from patterns, texts and other automata, and counts the work.
///
/// [`Limits::dfa_steps`] bounds the work of all automata of one builder together, so that many small automata cost no
/// more than a single large one may. The other limits bound each automaton.
///
/// # Example
///
/// ```
/// use unskew_automata::{dfa::DfaAlgebra, Dfa, Limits};
///
/// let mut builder = DfaAlgebra::new(&Limits::default());
/// let name = builder.pattern("[a-z]+")?;
/// let words = builder.literals(["if", "else"])?;
/// let name = builder.difference(&name, &words)?;
/// assert!(name.accepts(b"iffy") && !name.accepts(b"if"));
///
/// let digits = builder.pattern("[0-9]*")?;
/// let both = builder.concatenation([&words, &digits])?;
/// assert_eq!(both, Dfa::from_pattern("(if|else)[0-9]*", &Limits::default())?);
/// # Ok::<(), unskew_automata::RegexError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DfaAlgebra {
    limits: Limits,
    steps: u64,
}

/// The least cost of an automaton, in steps.
const LEAST_STEPS: u64 = 1_000;

impl DfaAlgebra {
    /// A builder that has used no steps yet.
    pub fn new(limits: &Limits) -> Self {
        Self { limits: limits.clone(), steps: 0 }
    }

    /// The work so far, in elementary operations (about 5 ns each).
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// As [`Dfa::from_pattern`].
    ///
    /// # Errors
    ///
    /// As [`Dfa::from_pattern`].
    pub fn pattern<'t>(&mut self, pattern: impl Into<Pattern<'t>>) -> Result<Dfa, RegexError> {
        let parsed = self.read(pattern.into())?;
        self.parsed(&parsed)
    }

    /// The texts in which `pattern` has a match.
    ///
    /// # Errors
    ///
    /// As [`Dfa::from_pattern`].
    pub fn search<'t>(&mut self, pattern: impl Into<Pattern<'t>>) -> Result<Dfa, RegexError> {
        let parsed = self.read(pattern.into())?.searched();
        self.parsed(&parsed)
    }

    fn read(&mut self, pattern: Pattern<'_>) -> Result<Parsed, RegexError> {
        /// The cost of parsing: for each byte, and for each pattern.
        const BYTE_STEPS: u64 = 50;
        const PATTERN_STEPS: u64 = 1_500;
        self.spend(LEAST_STEPS + PATTERN_STEPS + BYTE_STEPS * pattern.text.len() as u64)?;
        parse(pattern, &self.limits)
    }

    fn parsed(&mut self, parsed: &Parsed) -> Result<Dfa, RegexError> {
        if parsed.look.is_some() {
            return self.looking(parsed);
        }
        let nfa = Nfa::new(&parsed.hir, self.limits.nfa_size)?;
        self.determinized(&nfa)?.ok_or(RegexError::MatchesNothing)
    }

    /// As [`Dfa::from_literals`].
    ///
    /// # Errors
    ///
    /// As [`Dfa::from_literals`].
    pub fn literals<T: AsRef<[u8]>>(
        &mut self,
        literals: impl IntoIterator<Item = T>,
    ) -> Result<Dfa, RegexError> {
        /// The cost of finding equal endings, for each byte.
        const BYTE_STEPS: u64 = 20;
        let literals: Vec<T> = literals.into_iter().collect();
        let bytes: usize = literals.iter().map(|literal| literal.as_ref().len()).sum();
        self.spend(LEAST_STEPS + BYTE_STEPS * bytes as u64)?;
        Dfa::from_literals(literals, &self.limits)
    }

    /// The texts that are a text of each of `parts`, in this order. Without parts: the empty text.
    ///
    /// Cost: as [`pattern`](Self::pattern), for an NFA as large as all parts.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: a limit on the NFA or the DFA.
    pub fn concatenation<'d>(&mut self, parts: impl IntoIterator<Item = &'d Dfa>) -> Result<Dfa, RegexError> {
        let parts: Vec<&Dfa> = parts.into_iter().collect();
        let mut assembly = Assembly::new(&self.limits);
        for part in parts.iter().rev() {
            assembly.copy(part)?;
        }
        self.finished(assembly)
    }

    /// The texts that at least one of `parts` accepts.
    ///
    /// Cost: as [`pattern`](Self::pattern), for an NFA as large as all parts; of two parts O(n m) for n and m states.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: [`NoChoices`](RegexError::NoChoices) if there are no parts, or a limit on the NFA or the DFA.
    pub fn union<'d>(&mut self, parts: impl IntoIterator<Item = &'d Dfa>) -> Result<Dfa, RegexError> {
        let parts: Vec<&Dfa> = parts.into_iter().collect();
        // A product suffices: every set of states is a pair.
        if let [left, right] = parts[..] {
            return self.product(left, right, Operation::Union);
        }
        let mut assembly = Assembly::new(&self.limits);
        let end = assembly.next();
        let mut entries = vec![];
        for part in parts {
            assembly.continue_at(end);
            assembly.copy(part)?;
            entries.push(assembly.next());
        }
        if entries.is_empty() {
            return Err(RegexError::NoChoices);
        }
        assembly.split(&entries)?;
        self.finished(assembly)
    }

    /// The texts that are a sequence of at least `min` texts of `dfa`, and of at most `max` if there is a `max`.
    ///
    /// Cost: as [`pattern`](Self::pattern), for an NFA as large as `max` copies.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: a limit on the NFA or the DFA.
    ///
    /// # Panics
    ///
    /// If `max` is less than `min`.
    pub fn repetition(&mut self, dfa: &Dfa, min: u32, max: Option<u32>) -> Result<Dfa, RegexError> {
        assert!(max.is_none_or(|max| min <= max), "a repetition of at least {min} and at most {max:?}");
        let mut assembly = Assembly::new(&self.limits);
        let mut copies = min;
        match max {
            None => {
                // The last of the required copies is the loop.
                copies = min.saturating_sub(1);
                assembly.repeat(dfa, min > 0)?;
            }
            Some(max) => {
                let exit = assembly.next();
                for _ in min..max {
                    assembly.copy(dfa)?;
                    let entry = assembly.next();
                    assembly.split(&[entry, exit])?;
                }
            }
        }
        for _ in 0..copies {
            assembly.copy(dfa)?;
        }
        self.finished(assembly)
    }

    /// The concatenations of adjacent `parts` (the factors of the sequence), the empty text included: `a`, `ab`, `b`,
    /// `bc` and others for `a`, `b`, `c`, but not `ac`.
    ///
    /// Cost: O(b log b) for b bytes, if no part begins with another one, and a minimization.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: [`EmptyChoice`](RegexError::EmptyChoice) for a part without bytes, or a limit on the
    /// DFA.
    pub fn factors<T: AsRef<[u8]>>(&mut self, parts: impl IntoIterator<Item = T>) -> Result<Dfa, RegexError> {
        let parts: Vec<T> = parts.into_iter().collect();
        let parts: Vec<&[u8]> = parts.iter().map(AsRef::as_ref).collect();
        if let Some(index) = parts.iter().position(|part| part.is_empty()) {
            return Err(RegexError::EmptyChoice { index });
        }
        self.spend(LEAST_STEPS)?;
        let limits = self.limits.clone();
        factors(&parts, &limits, |steps| self.spend(steps))
    }

    /// The texts that both automata accept.
    ///
    /// Cost: O(n m) for n and m states.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: [`MatchesNothing`](RegexError::MatchesNothing) if there is no such text, or a limit on the
    /// DFA.
    pub fn intersection(&mut self, left: &Dfa, right: &Dfa) -> Result<Dfa, RegexError> {
        self.product(left, right, Operation::Intersection)
    }

    /// The texts that `left` accepts and `right` does not.
    ///
    /// The complement of a language is its difference from all texts, which are the valid UTF-8 of `(?s).*`.
    ///
    /// Cost: O(n m) for n and m states.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: [`MatchesNothing`](RegexError::MatchesNothing) if there is no such text, or a limit on the
    /// DFA.
    pub fn difference(&mut self, left: &Dfa, right: &Dfa) -> Result<Dfa, RegexError> {
        self.product(left, right, Operation::Difference)
    }

    /// The texts that lead `dfa` from `state` to acceptance: a left quotient of its language. For the start it is
    /// `dfa` itself.
    ///
    /// Cost: O(n) for n transitions.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: a limit on the work.
    ///
    /// # Panics
    ///
    /// If `dfa` has no such state.
    pub fn left_quotient(&mut self, dfa: &Dfa, state: StateId) -> Result<Dfa, RegexError> {
        self.spend(LEAST_STEPS + dfa.table().next.len() as u64)?;
        let mut table = dfa.table().clone();
        table.start = state;
        // The language of a state does not depend on the start, so the reachable part stays minimal.
        let table = table.canonical();
        Ok(Dfa::from_table(table).expect("every state reaches an end"))
    }

    /// The texts of `dfa` that have no shorter text of `dfa` as a prefix: the language of a reader that stops at the
    /// first accepting state.
    ///
    /// Cost: O(n) for n transitions.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: a limit on the work.
    pub fn prefix_free(&mut self, dfa: &Dfa) -> Result<Dfa, RegexError> {
        self.spend(LEAST_STEPS + dfa.table().next.len() as u64)?;
        let mut table = dfa.table().clone();
        for state in dfa.states().filter(|state| dfa.is_accepting(*state)) {
            table.row_mut(state).fill(DEAD);
        }
        // The canonical form drops the states that only longer texts reach.
        let table = table.canonical();
        Ok(Dfa::from_table(table).expect("a shortest text remains"))
    }

    /// The texts that some text of `suffix` continues to a text of `dfa`: a right quotient of its language.
    ///
    /// Cost: O(n m) for n transitions of `dfa` and m states of `suffix`.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: [`MatchesNothing`](RegexError::MatchesNothing) if there is no such text, or a limit on the work.
    pub fn right_quotient(&mut self, dfa: &Dfa, suffix: &Dfa) -> Result<Dfa, RegexError> {
        let (states, width) = (dfa.len(), suffix.len());
        // Pairs of states, one of each, from which both accept the same text.
        let number = |of: StateId, suffix: StateId| of.index() * width + suffix.index();
        let bytes: Vec<u8> = strata([dfa, suffix]).iter().map(|range| *range.start()).collect();
        self.spend(LEAST_STEPS + (states * width * bytes.len()) as u64)?;
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); states * width];
        let mut open: Vec<u32> = Vec::new();
        for of in dfa.states() {
            for of_suffix in suffix.states() {
                let own = u32::try_from(number(of, of_suffix)).expect("the steps are limited");
                if dfa.is_accepting(of) && suffix.is_accepting(of_suffix) {
                    open.push(own);
                }
                for byte in &bytes {
                    let next = dfa.step(of, *byte).zip(suffix.step(of_suffix, *byte));
                    if let Some((of, of_suffix)) = next {
                        before[number(of, of_suffix)].push(own);
                    }
                }
            }
        }
        let mut is_known = vec![false; states * width];
        open.iter().for_each(|pair| is_known[*pair as usize] = true);
        while let Some(pair) = open.pop() {
            for pair in &before[pair as usize] {
                if !std::mem::replace(&mut is_known[*pair as usize], true) {
                    open.push(*pair);
                }
            }
        }
        let mut table = dfa.table().clone();
        for state in dfa.states() {
            table.accepting[state.index()] = is_known[number(state, suffix.start())];
        }
        Dfa::from_table(table).ok_or(RegexError::MatchesNothing)
    }

    fn finished(&mut self, assembly: Assembly) -> Result<Dfa, RegexError> {
        self.spend(LEAST_STEPS)?;
        let dfa = self.determinized(&assembly.finish())?;
        Ok(dfa.expect("every part accepts something"))
    }

    fn determinized(&mut self, nfa: &Nfa) -> Result<Option<Dfa>, RegexError> {
        // The cost of building the NFA, and of buffers of its size.
        self.spend(nfa.len() as u64)?;
        let left = Limits { dfa_steps: self.limits.dfa_steps - self.steps, ..self.limits.clone() };
        let made = determinize::determinize_counted(nfa, &left, &mut self.steps);
        let table = made.map_err(|error| match error {
            RegexError::DfaTooCostly { states, .. } => self.too_costly(states),
            error => error,
        })?;
        self.spend(table.next.len() as u64)?;
        Ok(Dfa::from_table(table))
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts work that was done elsewhere.
    pub(super) fn charge(&mut self, steps: u64) -> Result<(), RegexError> {
        self.spend(steps)
    }

    fn spend(&mut self, steps: u64) -> Result<(), RegexError> {
        self.limits.spend(steps)?;
        self.steps = self.steps.saturating_add(steps);
        if self.steps > self.limits.dfa_steps { Err(self.too_costly(0)) } else { Ok(()) }
    }

    fn too_costly(&self, states: usize) -> RegexError {
        RegexError::DfaTooCostly { limit: self.limits.dfa_steps, states }
    }

    /// The product of both automata. A state is a pair; its second part may be [`DEAD`] in a difference, and either
    /// in a union.
    fn product(&mut self, left: &Dfa, right: &Dfa, operation: Operation) -> Result<Dfa, RegexError> {
        self.spend(LEAST_STEPS)?;
        let (left, right) = (left.table(), right.table());
        let mut cuts = Cuts::default();
        cuts.classes(&left.classes);
        cuts.classes(&right.classes);
        let mut table = Table::new(cuts.to_classes());
        // By class of the product: the classes of the parts.
        let representatives: Vec<u8> = table.classes.representatives().collect();
        let classes: Vec<(usize, usize)> = representatives
            .iter()
            .map(|byte| (usize::from(left.classes.get(*byte)), usize::from(right.classes.get(*byte))))
            .collect();

        let mut ids: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut pairs = vec![(left.start.0, right.start.0)];
        let accepts = |(of_left, of_right): (u32, u32)| {
            let with_left = of_left != DEAD && left.accepting[of_left as usize];
            let with_right = of_right != DEAD && right.accepting[of_right as usize];
            match operation {
                Operation::Intersection => with_left && with_right,
                Operation::Difference => with_left && !with_right,
                Operation::Union => with_left || with_right,
            }
        };
        ids.insert(pairs[0], 0);
        table.push(accepts(pairs[0]));
        // Bytes of adjacent classes mostly lead to the same pair.
        let mut last = (pairs[0], 0);
        let mut at = 0;
        while let Some(&(of_left, of_right)) = pairs.get(at) {
            let state = StateId::from_index(at);
            at += 1;
            let steps = 2 * classes.len() as u64;
            self.limits.spend(steps)?;
            self.steps += steps;
            if self.steps > self.limits.dfa_steps {
                return Err(self.too_costly(pairs.len()));
            }
            for (class, (left_class, right_class)) in classes.iter().enumerate() {
                let left_next = if of_left == DEAD { DEAD } else { left.row(StateId(of_left))[*left_class] };
                let right_next =
                    if of_right == DEAD { DEAD } else { right.row(StateId(of_right))[*right_class] };
                let ends = match operation {
                    Operation::Intersection => left_next == DEAD || right_next == DEAD,
                    Operation::Difference => left_next == DEAD,
                    Operation::Union => left_next == DEAD && right_next == DEAD,
                };
                if ends {
                    continue;
                }
                let pair = (left_next, right_next);
                let next = if pair == last.0 {
                    last.1
                } else if let Some(known) = ids.get(&pair) {
                    *known
                } else {
                    check_size(pairs.len() + 1, classes.len(), &self.limits)?;
                    let new = table.push(accepts(pair)).0;
                    ids.insert(pair, new);
                    pairs.push(pair);
                    new
                };
                last = (pair, next);
                table.row_mut(state)[class] = next;
            }
        }
        drop((ids, pairs));
        Dfa::from_table(table).ok_or(RegexError::MatchesNothing)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Intersection,
    Difference,
    Union,
}

fn check_size(states: usize, classes: usize, limits: &Limits) -> Result<(), RegexError> {
    let limit = limits.dfa_states.min(DEAD as usize);
    if states > limit {
        return Err(RegexError::TooManyDfaStates { limit });
    }
    let bytes = states * (PAIR_OVERHEAD + classes * size_of::<u32>());
    if bytes > limits.dfa_bytes {
        return Err(RegexError::DfaTooLarge { bytes, limit: limits.dfa_bytes });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
