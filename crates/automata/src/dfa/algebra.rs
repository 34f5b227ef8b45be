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
    factors::factors,
    nfa::{Assembly, Nfa},
    table::{DEAD, Table},
};
use crate::{ByteClasses, Dfa, Limits, RegexError, StateId, regex::syntax};

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
/// use unskew_automata::{Dfa, DfaAlgebra, Limits};
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
    pub fn pattern(&mut self, pattern: &str) -> Result<Dfa, RegexError> {
        /// The cost of parsing: for each byte, and for each pattern.
        const BYTE_STEPS: u64 = 50;
        const PATTERN_STEPS: u64 = 1_500;
        self.spend(LEAST_STEPS + PATTERN_STEPS + BYTE_STEPS * pattern.len() as u64)?;
        let nfa = match syntax::parse(pattern, &self.limits) {
            Ok(hir) => Nfa::new(&hir, self.limits.nfa_size)?,
            Err(RegexError::Unsupported { construct, .. }) if construct.looks() => {
                return self.looking(pattern);
            }
            Err(error) => return Err(error),
        };
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
        let bytes: Vec<u8> = (0..=255u8)
            .filter(|byte| {
                let begins = |classes: &ByteClasses| classes.get(*byte) != classes.get(byte - 1);
                *byte == 0 || begins(dfa.classes()) || begins(suffix.classes())
            })
            .collect();
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
        self.limits.check_cancelled()?;
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
        let mut begins = [false; 256];
        for byte in 1..=255u8 {
            let differs = |classes: &ByteClasses| classes.get(byte) != classes.get(byte - 1);
            begins[usize::from(byte)] = differs(&left.classes) || differs(&right.classes);
        }
        let mut table = Table::new(ByteClasses::from_begins(&begins));
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
        let mut at = 0;
        while let Some(&(of_left, of_right)) = pairs.get(at) {
            let state = StateId::from_index(at);
            at += 1;
            self.limits.check_cancelled()?;
            self.steps += 2 * classes.len() as u64;
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
                let next = match ids.get(&pair) {
                    Some(known) => *known,
                    None => {
                        check_size(pairs.len() + 1, classes.len(), &self.limits)?;
                        let new = table.push(accepts(pair)).0;
                        ids.insert(pair, new);
                        pairs.push(pair);
                        new
                    }
                };
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
mod tests {
    use proptest::prelude::*;
    use unskew_testdata::strategies;

    use super::*;

    fn limits() -> Limits {
        Limits { nfa_size: 20_000, dfa_states: 500, dfa_steps: 200_000, ..Limits::default() }
    }

    fn dfa(pattern: &str) -> Dfa {
        Dfa::from_pattern(pattern, &Limits::default()).unwrap()
    }

    #[test]
    fn operations_are_those_of_patterns() {
        let make = || DfaAlgebra::new(&Limits::default());
        let (ab, word) = (dfa("a|b?c"), dfa(r"\w*"));
        assert_eq!(make().concatenation([]).unwrap(), dfa(""));
        assert_eq!(make().concatenation([&ab, &word, &ab]).unwrap(), dfa(r"(a|b?c)\w*(a|b?c)"));
        assert_eq!(make().union([&ab, &word, &dfa("-+")]).unwrap(), dfa(r"\w*|-+"));
        assert_eq!(make().union([&ab]).unwrap(), ab);
        assert_eq!(make().union([]), Err(RegexError::NoChoices));
        let (any, word) = (dfa("(?s).*"), dfa("(?i)if|else"));
        let not = make().difference(&any, &word).unwrap();
        assert!(
            not.accepts(b"") && not.accepts("é".as_bytes()) && !not.accepts(b"IF") && !not.accepts(b"\xff")
        );
        assert_eq!(make().difference(&any, &not).unwrap(), word);
        assert_eq!(make().difference(&word, &any), Err(RegexError::MatchesNothing));
        assert_eq!(make().intersection(&not, &word), Err(RegexError::MatchesNothing));
    }

    #[test]
    fn repetitions_are_those_of_patterns() {
        let make = || DfaAlgebra::new(&Limits::default());
        for pattern in ["a", "ab|", "[ab]*c?", "é"] {
            let once = dfa(pattern);
            for (min, max) in
                [(0, None), (1, None), (3, None), (0, Some(0)), (1, Some(1)), (0, Some(3)), (2, Some(4))]
            {
                let max_text = max.map(|max: u32| max.to_string()).unwrap_or_default();
                let expected = dfa(&format!("(?:{pattern}){{{min},{max_text}}}"));
                assert_eq!(make().repetition(&once, min, max).unwrap(), expected, "{pattern} {min} {max:?}");
            }
        }
    }

    #[test]
    fn factors_are_the_concatenations_of_adjacent_parts() {
        let mut make = DfaAlgebra::new(&Limits::default());
        let parts = ["foo", " ", "bar", " ", "foo"];
        let made = make.factors(parts).unwrap();
        let wanted = (0..=5).flat_map(|first| (first..=5).map(move |end| parts[first..end].concat()));
        let wanted: std::collections::BTreeSet<String> = wanted.collect();
        for text in &wanted {
            assert!(made.accepts(text.as_bytes()), "{text}");
        }
        for text in ["fo", "foobar", "oo ", "foo  bar", "barfoo"] {
            assert!(!made.accepts(text.as_bytes()), "{text}");
        }
        assert_eq!(make.factors([""; 0]).unwrap(), dfa(""));
        assert_eq!(make.factors(["a", ""]), Err(RegexError::EmptyChoice { index: 1 }));
    }

    #[test]
    fn work_adds_up() {
        let limits = Limits { dfa_steps: 100_000, ..Limits::default() };
        let mut make = DfaAlgebra::new(&limits);
        let made = (0..).take_while(|_| make.pattern("(a|b)*a(a|b){6}").is_ok()).count();
        assert!((5..50).contains(&made), "{made}");
        let error = make.literals(["a"]).unwrap_err();
        assert_eq!(error, RegexError::DfaTooCostly { limit: 100_000, states: 0 });
    }

    #[test]
    fn limits_hold() {
        let make = |limits: &Limits| DfaAlgebra::new(limits);
        let limits = limits();
        let word = dfa(r"\w");
        let error = make(&limits).repetition(&word, u32::MAX, None).unwrap_err();
        assert!(matches!(error, RegexError::NfaTooLarge { limit: 20_000, .. }), "{error}");
        let error = make(&limits).concatenation(std::iter::repeat_n(&word, 1_000_000)).unwrap_err();
        assert!(matches!(error, RegexError::NfaTooLarge { .. }), "{error}");
        let counts = [dfa("(a{31})*"), dfa("(a{37})*")];
        let error = make(&limits).intersection(&counts[0], &counts[1]).unwrap_err();
        assert_eq!(error, RegexError::TooManyDfaStates { limit: 500 });
        let limits = Limits { dfa_steps: 1_500, ..limits };
        let error = make(&limits).difference(&counts[0], &counts[1]).unwrap_err();
        assert!(matches!(error, RegexError::DfaTooCostly { limit: 1_500, .. }), "{error}");
    }

    /// Every operation checks the flag, and two limits that differ in the flag alone are equal.
    #[test]
    fn work_is_cancelled() {
        let limits = Limits::default();
        let (left, right) = (dfa("(a{31})*"), dfa("(a{37})*"));
        let mut make = DfaAlgebra::new(&limits);
        assert!(make.intersection(&left, &right).is_ok());
        limits.cancel.cancel();
        for made in [
            make.intersection(&left, &right),
            make.difference(&left, &right),
            make.union([&left, &right]),
            make.repetition(&left, 2, Some(3)),
            make.prefix_free(&left),
            make.pattern("(a|b)*a(a|b){60}"),
            make.literals(["a"]),
            Dfa::from_pattern("a", &limits),
        ] {
            assert_eq!(made, Err(RegexError::Cancelled));
        }
        assert_eq!(crate::DfaBuilder::new(&limits).state(true), Err(RegexError::Cancelled));
        assert_eq!(limits, Limits::default());
        assert_ne!(limits, Limits { lazy_bytes: 1, ..Limits::default() });
    }

    /// Whether `text` is a sequence of `least` or more texts of `dfa`, by trying every way to cut it.
    fn repeats(dfa: &Dfa, text: &[u8], least: usize) -> bool {
        // `ends[n]` holds the ends of n texts. After more texts than `text` has bytes, further ones repeat the empty
        // text.
        let mut ends = vec![std::collections::BTreeSet::from([0])];
        for _ in 0..least + text.len() {
            let last = ends.last().expect("there is one");
            let next = last
                .iter()
                .flat_map(|begin| (*begin..=text.len()).filter(|end| dfa.accepts(&text[*begin..*end])));
            let next = next.collect();
            ends.push(next);
        }
        ends[least..].iter().any(|ends| ends.contains(&text.len()))
    }

    proptest! {
        /// The language of a result agrees with the languages of the parts, by the definition of the operation.
        #[test]
        fn operations_are_those_of_sets_of_texts(
            left in strategies::pattern(),
            right in strategies::pattern(),
            least in 0..3u32,
            more in 0..3u32,
            texts in prop::collection::vec(strategies::text(4), 16),
            before in strategies::text(2),
        ) {
            let limits = limits();
            let pattern = |pattern: &str| Dfa::from_pattern(pattern, &limits).ok();
            let (Some(a), Some(b)) = (pattern(&left.to_string()), pattern(&right.to_string())) else { return Ok(()) };
            let make = || DfaAlgebra::new(&limits);
            let both = make().intersection(&a, &b);
            let only = make().difference(&a, &b);
            let any = make().union([&a, &b]);
            let row = make().concatenation([&a, &b]);
            let often = make().repetition(&a, least, None);
            let some = make().repetition(&a, least, Some(least + more));
            let shortest = make().prefix_free(&a);
            let behind = a.run(a.start(), before.as_bytes());
            let rest = behind.and_then(|state| make().left_quotient(&a, state).ok());
            for text in &texts {
                let whole = [before.as_bytes(), text.as_bytes()].concat();
                prop_assert!(rest.as_ref().is_none_or(|rest| rest.accepts(text.as_bytes()) == a.accepts(&whole)));
                let text = text.as_bytes();
                let (in_a, in_b) = (a.accepts(text), b.accepts(text));
                // `None` if a limit was exceeded.
                let accepts = |dfa: &Result<Dfa, RegexError>| match dfa {
                    Ok(dfa) => Some(dfa.accepts(text)),
                    Err(RegexError::MatchesNothing) => Some(false),
                    Err(_) => None,
                };
                prop_assert!(accepts(&both).is_none_or(|both| both == (in_a && in_b)));
                prop_assert!(accepts(&only).is_none_or(|only| only == (in_a && !in_b)));
                prop_assert!(accepts(&any).is_none_or(|any| any == (in_a || in_b)));
                let cut = (0..=text.len()).any(|cut| a.accepts(&text[..cut]) && b.accepts(&text[cut..]));
                prop_assert!(accepts(&row).is_none_or(|row| row == cut));
                prop_assert!(accepts(&often).is_none_or(|often| often == repeats(&a, text, least as usize)));
                let at_most = (least..=least + more).any(|count| exactly(&a, text, count));
                let begins = (0..text.len()).any(|end| a.accepts(&text[..end]));
                prop_assert!(accepts(&shortest).is_none_or(|shortest| shortest == (in_a && !begins)));
                prop_assert!(accepts(&some).is_none_or(|some| some == at_most));
            }
        }
    }

    /// Whether `text` is a sequence of exactly `count` texts of `dfa`.
    fn exactly(dfa: &Dfa, text: &[u8], count: u32) -> bool {
        match count {
            0 => text.is_empty(),
            _ => {
                (0..=text.len()).any(|cut| dfa.accepts(&text[..cut]) && exactly(dfa, &text[cut..], count - 1))
            }
        }
    }
}
