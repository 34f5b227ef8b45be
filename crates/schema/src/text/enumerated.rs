//! Finite languages: their number of texts, the lengths of the texts, and the texts themselves.
//!
//! The texts of a language are listed if they are printable ASCII, as the texts of most `enum`s are.
//! A list of literals is matched along the order of the vocabulary, and its mask takes a few microseconds. An
//! automaton would need its own subterminal trees, a walk over the vocabulary for each state. The automaton is
//! better if few states have many texts: the 17,576 texts of `[A-Z]{3}` are four states, whose trees a library
//! shares between all schemas, while a list of these texts costs milliseconds in each schema.

use std::{collections::VecDeque, ops::RangeInclusive};

use hashbrown::HashSet;
use unskew_automata::{Dfa, StateId};

/// The largest number of texts, and the largest sum of their lengths in bytes.
const MOST: u64 = 1 << 17;
const BYTES: usize = 4 << 20;

/// A list has at most `LISTED.0` texts, or `LISTED.1` texts for each state of their automaton. Words that share
/// only beginnings and endings have fewer texts than states.
const LISTED: (u64, u64) = (64, 4);

/// Finitely many texts of printable ASCII characters. Most such texts have one spelling.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Plain {
    /// The texts, in ascending order.
    Listed(Vec<String>),
    /// There are so many texts that their automaton is smaller.
    Dense,
}

/// The texts of `dfa`, if they are finitely many, not too many, and printable ASCII.
///
/// Cost: O(m) for m edges, plus the texts.
pub(crate) fn plain_texts(dfa: &Dfa) -> Option<Plain> {
    if !dfa.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return None;
    }
    let (few, for_each) = LISTED;
    if counted(dfa, MOST)? > few.max(for_each * dfa.len() as u64) {
        return Some(Plain::Dense);
    }
    few_texts(dfa, MOST).map(Plain::Listed)
}

/// The number of texts of `dfa`; `None` for 2^32 - 1 or more, which no object or array uses up.
///
/// Cost: O(m) for m edges.
pub(crate) fn texts(dfa: &Dfa) -> Option<u32> {
    u32::try_from(counted(dfa, u64::from(u32::MAX) - 1)?).ok()
}

/// Whether the texts of `dfa` are finitely many and not too many.
///
/// Cost: O(m) for m edges.
pub(crate) fn are_listed(dfa: &Dfa) -> bool {
    counted(dfa, MOST).is_some()
}

/// The number of texts of `dfa`, if it is at most `most`.
fn counted(dfa: &Dfa, most: u64) -> Option<u64> {
    // Indexed by state: the number of texts that lead there.
    let mut ways = vec![0u64; dfa.len()];
    ways[dfa.start().index()] = 1;
    let mut texts = 0u64;
    for state in in_order(dfa)? {
        let here = ways[state.index()];
        texts = texts.saturating_add(if dfa.is_accepting(state) { here } else { 0 });
        if texts > most {
            return None;
        }
        for edge in dfa.edges(state) {
            let to = &mut ways[edge.target.index()];
            *to = to.saturating_add(here.saturating_mul(edge.bytes.count() as u64));
        }
    }
    Some(texts)
}

/// The texts of `dfa` in ascending order, if they are at most `most`.
///
/// Cost: O(m) for m edges, plus the texts.
pub(crate) fn few_texts(dfa: &Dfa, most: u64) -> Option<Vec<String>> {
    counted(dfa, most)?;
    let (mut found, mut bytes) = (vec![], 0);
    let mut open = vec![(dfa.start(), Vec::new())];
    while let Some((state, text)) = open.pop() {
        if dfa.is_accepting(state) {
            bytes += text.len();
            if bytes > BYTES {
                return None;
            }
            found.push(String::from_utf8(text.clone()).ok()?);
        }
        let edges: Vec<_> = dfa.edges(state).collect();
        for edge in edges.into_iter().rev() {
            for byte in edge.bytes.rev() {
                let mut next = text.clone();
                next.push(byte);
                open.push((edge.target, next));
            }
        }
    }
    Some(found)
}

/// Whether every text of `dfa` has at least `min` and at most `max` code points.
///
/// Cost: O(m) for m edges. Always false for an automaton with a loop.
pub(crate) fn lengths_within(dfa: &Dfa, min: u32, max: Option<u32>) -> bool {
    // The bytes of a character after its first.
    let inner = |bytes: &RangeInclusive<u8>| (0x80..0xc0).contains(bytes.start());
    let Some(order) = in_order(dfa) else { return false };
    let (mut shortest, mut longest) = (vec![u32::MAX; dfa.len()], vec![0u32; dfa.len()]);
    shortest[dfa.start().index()] = 0;
    for state in order {
        let (short, long) = (shortest[state.index()], longest[state.index()]);
        for edge in dfa.edges(state) {
            let (to, more) = (edge.target.index(), u32::from(!inner(&edge.bytes)));
            shortest[to] = shortest[to].min(short.saturating_add(more));
            longest[to] = longest[to].max(long.saturating_add(more));
        }
    }
    dfa.states()
        .filter(|state| dfa.is_accepting(*state))
        .all(|state| shortest[state.index()] >= min && max.is_none_or(|max| longest[state.index()] <= max))
}

/// Whether `dfa` has finitely many texts.
///
/// Cost: O(m) for m edges.
pub(crate) fn is_finite(dfa: &Dfa) -> bool {
    in_order(dfa).is_some()
}

/// The states of `dfa` in topological order; `None` if it has a loop.
fn in_order(dfa: &Dfa) -> Option<Vec<StateId>> {
    let mut order = dfa.finite_states();
    order.reverse();
    (order.len() == dfa.len()).then_some(order)
}

/// Whether `dfa` is one text, which `other` has (`true`), or has no text of `other` (`false`), if the first bytes of
/// its texts show it.
///
/// Cost: O(m) for m edges of the states with one way.
pub(crate) fn is_within(dfa: &Dfa, other: &Dfa) -> Option<bool> {
    let (mut state, mut beside) = (dfa.start(), other.start());
    loop {
        let mut edges = dfa.edges(state);
        match (edges.next(), edges.next()) {
            (None, _) => return Some(other.is_accepting(beside)),
            (Some(edge), None) if edge.bytes.start() == edge.bytes.end() && !dfa.is_accepting(state) => {
                let Some(next) = other.step(beside, *edge.bytes.start()) else { return Some(false) };
                (state, beside) = (edge.target, next);
            }
            _ => return None,
        }
    }
}

/// A shortest text.
pub(crate) fn shortest_text(dfa: &Dfa) -> Vec<u8> {
    let mut seen: HashSet<StateId> = HashSet::from_iter([dfa.start()]);
    let mut todo = VecDeque::from([(dfa.start(), vec![])]);
    while let Some((state, text)) = todo.pop_front() {
        if dfa.is_accepting(state) {
            return text;
        }
        for edge in dfa.edges(state) {
            if seen.insert(edge.target) {
                todo.push_back((edge.target, [&*text, &[*edge.bytes.start()]].concat()));
            }
        }
    }
    vec![]
}

#[cfg(test)]
mod tests {
    use unskew_automata::Limits;

    use super::*;

    #[test]
    fn finite_and_plain_texts_are_listed_and_no_others() {
        let list = |pattern: &str| plain_texts(&Dfa::from_pattern(pattern, &Limits::default()).unwrap());
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let texts = |texts: &[&str]| Some(Plain::Listed(owned(texts)));
        assert_eq!(list("b|ab|abc|"), texts(&["", "ab", "abc", "b"]));
        assert_eq!(list("[a-c]x?"), texts(&["a", "ax", "b", "bx", "c", "cx"]));
        assert_eq!(list("a*"), None);
        assert_eq!(list("xa*y"), None);
        assert_eq!(list("é"), None);
        let few = |pattern: &str| few_texts(&Dfa::from_pattern(pattern, &Limits::default()).unwrap(), 3);
        assert_eq!(few("é|[→a]"), Some(owned(&["a", "é", "→"])));
        assert_eq!(few("[a-d]"), None);
        let count = |pattern: &str| super::texts(&Dfa::from_pattern(pattern, &Limits::default()).unwrap());
        assert_eq!(
            (count("[ab]{1,12}"), count("[a-z]{6}"), count("")),
            (Some(8_190), Some(308_915_776), Some(1))
        );
        assert_eq!((count("[a-z]{7}"), count("a*"), count("[\\x00-\\x7f]{200}")), (None, None, None));
        assert_eq!(list("[a-z]{9}"), None);
        for dense in ["[A-Z]{3}", "C[0-9]{5}", "[a-c]{5}x?"] {
            assert_eq!(list(dense), Some(Plain::Dense), "{dense}");
        }
        let words: Vec<String> =
            (0..2_000u32).map(|n| format!("{:x}", n.wrapping_mul(0x9E37_79B1))).collect();
        assert!(matches!(list(&words.join("|")), Some(Plain::Listed(list)) if list.len() == 2_000));
    }

    #[test]
    fn a_text_is_within_another_language_or_not() {
        let dfa = |pattern: &str| Dfa::from_pattern(pattern, &Limits::default()).unwrap();
        for (one, other, within) in [
            ("abc", "abc|d", Some(true)),
            ("abc", "ab", Some(false)),
            ("ab", "abc", Some(false)),
            ("abc", "ab[d-z]", Some(false)),
            ("ab(c|d)", "x.*", Some(false)),
            ("ab(c|d)", "ab.*", None),
            ("(ab)?", "c", None),
            ("", "a*", Some(true)),
        ] {
            assert_eq!(is_within(&dfa(one), &dfa(other)), within, "{one} {other}");
        }
    }

    #[test]
    fn lengths_are_those_of_the_texts() {
        for (pattern, min, max, all) in [
            ("", 0, Some(0), true),
            ("a{2,5}", 2, Some(5), true),
            ("a{2,5}", 3, Some(5), false),
            ("a{2,5}", 2, Some(4), false),
            ("é|😀é", 1, Some(2), true),
            ("é|😀é", 2, Some(2), false),
            ("[a-é]{3}", 3, Some(3), true),
            ("ab*", 0, Some(100), false),
            ("ab*", 0, None, false),
            ("(a|bc)d", 2, Some(3), true),
        ] {
            let dfa = Dfa::from_pattern(pattern, &Limits::default()).unwrap();
            assert_eq!(lengths_within(&dfa, min, max), all, "{pattern}");
        }
    }
}
