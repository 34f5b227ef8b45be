//! Operations on languages: automata made of automata.
//!
//! Where the parts of a language are known as automata and not as one pattern: the terminals of a grammar, which are made
//! of one another, and differences and intersections, which regex syntax does not have. Sequence, choice and repetition
//! lay copies of the parts into one NFA and determinise that; intersection and difference walk two automata at once.
//! Results are minimal and in canonical form, as every [`Dfa`] is, and do not depend on how they were made.
//!
//! Tried instead: patterns pasted together as text, each in `(?:…)`. A chain of definitions that uses each one twice is
//! then a text of exponential length, and deep ones meet the limit on nesting.

use std::collections::HashMap;

use crate::{
    ByteClasses, Dfa, Limits, RegexError, StateId, determinize,
    nfa::{Assembly, Nfa},
    table::{DEAD, Table},
};

/// What a state of a product costs beside its row, in bytes.
const PAIR_OVERHEAD: usize = 40;

impl Dfa {
    /// The texts that consist of one of each of `parts`, in this order. Of no parts, the empty text.
    ///
    /// Cost: as [`from_pattern`](Self::from_pattern), for an NFA as large as all parts.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: a limit on the NFA or the DFA.
    ///
    /// # Example
    ///
    /// ```
    /// use unskew_automata::{Dfa, Limits};
    ///
    /// let limits = Limits::default();
    /// let [name, digits] = ["[a-z]+", "[0-9]*"].map(|pattern| Dfa::from_pattern(pattern, &limits).unwrap());
    /// let both = Dfa::concatenation([&name, &digits], &limits)?;
    /// assert_eq!(both, Dfa::from_pattern("[a-z]+[0-9]*", &limits)?);
    /// # Ok::<(), unskew_automata::RegexError>(())
    /// ```
    pub fn concatenation<'d>(
        parts: impl IntoIterator<Item = &'d Self>,
        limits: &Limits,
    ) -> Result<Self, RegexError> {
        let parts: Vec<&Self> = parts.into_iter().collect();
        let mut assembly = Assembly::new(limits);
        for part in parts.iter().rev() {
            assembly.copy(part)?;
        }
        determinized(&assembly.finish(), limits)
    }

    /// The texts that any of `parts` accepts.
    ///
    /// Cost: as [`from_pattern`](Self::from_pattern), for an NFA as large as all parts.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: [`NoChoices`](RegexError::NoChoices) without any, or a limit on the NFA or the DFA.
    pub fn union<'d>(parts: impl IntoIterator<Item = &'d Self>, limits: &Limits) -> Result<Self, RegexError> {
        let mut assembly = Assembly::new(limits);
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
        determinized(&assembly.finish(), limits)
    }

    /// The texts that consist of at least `min` accepted texts and, where there is a `max`, of at most so many.
    ///
    /// Cost: as [`from_pattern`](Self::from_pattern), for an NFA as large as `max` copies.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: a limit on the NFA or the DFA.
    ///
    /// # Panics
    ///
    /// If `max` is less than `min`.
    pub fn repetition(&self, min: u32, max: Option<u32>, limits: &Limits) -> Result<Self, RegexError> {
        assert!(max.is_none_or(|max| min <= max), "a repetition of at least {min} and at most {max:?}");
        let mut assembly = Assembly::new(limits);
        let mut copies = min;
        match max {
            None => {
                // The last of the copies that there must be is the loop.
                copies = min.saturating_sub(1);
                assembly.repeat(self, min > 0)?;
            }
            Some(max) => {
                let exit = assembly.next();
                for _ in min..max {
                    assembly.copy(self)?;
                    let entry = assembly.next();
                    assembly.split(&[entry, exit])?;
                }
            }
        }
        for _ in 0..copies {
            assembly.copy(self)?;
        }
        determinized(&assembly.finish(), limits)
    }

    /// The texts that both accept.
    ///
    /// Cost: O(n m) for n and m states.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: [`MatchesNothing`](RegexError::MatchesNothing) if there is none, or a limit on the DFA.
    pub fn intersection(&self, other: &Self, limits: &Limits) -> Result<Self, RegexError> {
        product(self, other, Operation::Intersection, limits)
    }

    /// The texts that this one accepts and `other` does not.
    ///
    /// The complement of a language is its difference from all texts: that of `(?s).*`, which are valid UTF-8.
    ///
    /// Cost: O(n m) for n and m states.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: [`MatchesNothing`](RegexError::MatchesNothing) if there is none, or a limit on the DFA.
    ///
    /// # Example
    ///
    /// ```
    /// use unskew_automata::{Dfa, Limits};
    ///
    /// let limits = Limits::default();
    /// let names = Dfa::from_pattern("[a-z]+", &limits)?;
    /// let words = Dfa::from_literals(["if", "else"], &limits)?;
    /// let names = names.difference(&words, &limits)?;
    /// assert!(names.accepts(b"iffy") && !names.accepts(b"if"));
    /// # Ok::<(), unskew_automata::RegexError>(())
    /// ```
    pub fn difference(&self, other: &Self, limits: &Limits) -> Result<Self, RegexError> {
        product(self, other, Operation::Difference, limits)
    }
}

fn determinized(nfa: &Nfa, limits: &Limits) -> Result<Dfa, RegexError> {
    let table = determinize::determinize(nfa, limits)?;
    Ok(Dfa::from_table(table).expect("every part accepts something"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Intersection,
    Difference,
}

/// Both automata at once. A state is a pair; the second may be [`DEAD`] in a difference.
fn product(left: &Dfa, right: &Dfa, operation: Operation, limits: &Limits) -> Result<Dfa, RegexError> {
    let (left, right) = (left.table(), right.table());
    let mut begins = [false; 256];
    for byte in 1..=255u8 {
        let differs = |classes: &ByteClasses| classes.get(byte) != classes.get(byte - 1);
        begins[usize::from(byte)] = differs(&left.classes) || differs(&right.classes);
    }
    let mut table = Table::new(ByteClasses::from_begins(&begins));
    // By class of the product: those of the parts.
    let representatives: Vec<u8> = table.classes.representatives().collect();
    let classes: Vec<(usize, usize)> = representatives
        .iter()
        .map(|byte| (usize::from(left.classes.get(*byte)), usize::from(right.classes.get(*byte))))
        .collect();

    let mut ids: HashMap<(u32, u32), u32> = HashMap::new();
    let mut pairs = vec![(left.start.0, right.start.0)];
    let accepts = |(of_left, of_right): (u32, u32)| {
        let with_right = of_right != DEAD && right.accepting[of_right as usize];
        left.accepting[of_left as usize] && with_right == (operation == Operation::Intersection)
    };
    ids.insert(pairs[0], 0);
    table.push(accepts(pairs[0]));
    let (mut at, mut steps) = (0, 0);
    while let Some(&(of_left, of_right)) = pairs.get(at) {
        let state = StateId::from_index(at);
        at += 1;
        steps += classes.len() as u64;
        if steps > limits.dfa_steps {
            return Err(RegexError::DfaTooCostly { limit: limits.dfa_steps, states: pairs.len() });
        }
        for (class, (left_class, right_class)) in classes.iter().enumerate() {
            let left_next = left.row(StateId(of_left))[*left_class];
            let right_next = if of_right == DEAD { DEAD } else { right.row(StateId(of_right))[*right_class] };
            if left_next == DEAD || (right_next == DEAD && operation == Operation::Intersection) {
                continue;
            }
            let pair = (left_next, right_next);
            let next = match ids.get(&pair) {
                Some(known) => *known,
                None => {
                    check_size(pairs.len() + 1, classes.len(), limits)?;
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
        let limits = Limits::default();
        let (ab, word) = (dfa("a|b?c"), dfa(r"\w*"));
        assert_eq!(Dfa::concatenation([], &limits).unwrap(), dfa(""));
        assert_eq!(Dfa::concatenation([&ab, &word, &ab], &limits).unwrap(), dfa(r"(a|b?c)\w*(a|b?c)"));
        assert_eq!(Dfa::union([&ab, &word, &dfa("-+")], &limits).unwrap(), dfa(r"\w*|-+"));
        assert_eq!(Dfa::union([&ab], &limits).unwrap(), ab);
        assert_eq!(Dfa::union([], &limits), Err(RegexError::NoChoices));
        let (any, word) = (dfa("(?s).*"), dfa("(?i)if|else"));
        let not = any.difference(&word, &limits).unwrap();
        assert!(
            not.accepts(b"") && not.accepts("é".as_bytes()) && !not.accepts(b"IF") && !not.accepts(b"\xff")
        );
        assert_eq!(any.difference(&not, &limits).unwrap(), word);
        assert_eq!(word.difference(&any, &limits), Err(RegexError::MatchesNothing));
        assert_eq!(not.intersection(&word, &limits), Err(RegexError::MatchesNothing));
    }

    #[test]
    fn repetitions_are_those_of_patterns() {
        let limits = Limits::default();
        for pattern in ["a", "ab|", "[ab]*c?", "é"] {
            let once = dfa(pattern);
            for (min, max) in
                [(0, None), (1, None), (3, None), (0, Some(0)), (1, Some(1)), (0, Some(3)), (2, Some(4))]
            {
                let max_text = max.map(|max: u32| max.to_string()).unwrap_or_default();
                let expected = dfa(&format!("(?:{pattern}){{{min},{max_text}}}"));
                assert_eq!(once.repetition(min, max, &limits).unwrap(), expected, "{pattern} {min} {max:?}");
            }
        }
    }

    #[test]
    fn limits_hold() {
        let limits = limits();
        let word = dfa(r"\w");
        let error = word.repetition(u32::MAX, None, &limits).unwrap_err();
        assert!(matches!(error, RegexError::NfaTooLarge { limit: 20_000, .. }), "{error}");
        let error = Dfa::concatenation(std::iter::repeat_n(&word, 1_000_000), &limits).unwrap_err();
        assert!(matches!(error, RegexError::NfaTooLarge { .. }), "{error}");
        let counts = [dfa("(a{31})*"), dfa("(a{37})*")];
        let error = counts[0].intersection(&counts[1], &limits).unwrap_err();
        assert_eq!(error, RegexError::TooManyDfaStates { limit: 500 });
        let limits = Limits { dfa_steps: 100, ..limits };
        let error = counts[0].difference(&counts[1], &limits).unwrap_err();
        assert!(matches!(error, RegexError::DfaTooCostly { limit: 100, .. }), "{error}");
    }

    /// Whether `text` is `least` or more texts of `dfa`, one after the other: by trying every way to cut it.
    fn repeats(dfa: &Dfa, text: &[u8], least: usize) -> bool {
        // `ends[n]` holds the ends of n of them; more than a text has bytes come to a stop, or repeat the empty text.
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
        /// The language of what is made is what the languages of the parts say, by the definition of the operation.
        #[test]
        fn operations_are_those_of_sets_of_texts(
            left in strategies::pattern(),
            right in strategies::pattern(),
            least in 0..3u32,
            more in 0..3u32,
            texts in prop::collection::vec(strategies::text(4), 16),
        ) {
            let limits = limits();
            let pattern = |pattern: &str| Dfa::from_pattern(pattern, &limits).ok();
            let (Some(a), Some(b)) = (pattern(&left.to_string()), pattern(&right.to_string())) else { return Ok(()) };
            let both = a.intersection(&b, &limits);
            let only = a.difference(&b, &limits);
            let any = Dfa::union([&a, &b], &limits);
            let row = Dfa::concatenation([&a, &b], &limits);
            let often = a.repetition(least, None, &limits);
            let some = a.repetition(least, Some(least + more), &limits);
            for text in &texts {
                let text = text.as_bytes();
                let (in_a, in_b) = (a.accepts(text), b.accepts(text));
                // `None` where a limit was passed.
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
                prop_assert!(accepts(&some).is_none_or(|some| some == at_most));
            }
        }
    }

    /// Whether `text` is `count` texts of `dfa`.
    fn exactly(dfa: &Dfa, text: &[u8], count: u32) -> bool {
        match count {
            0 => text.is_empty(),
            _ => {
                (0..=text.len()).any(|cut| dfa.accepts(&text[..cut]) && exactly(dfa, &text[cut..], count - 1))
            }
        }
    }
}
