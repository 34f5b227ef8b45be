//! The edges of an automaton over text as ranges of code points.
//!
//! JSON spellings are built from these ranges. They also show which languages are a number of characters of one
//! class (`^[0-9a-f]{40}$`, `^\w+$` of at most 255 characters); such languages become counted repetitions and are
//! not unrolled.

use rustc_hash::FxHashMap;
use unskew_automata::{Dfa, StateId};

/// A range of code points, inclusive, and the state that it leads to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Piece {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) target: StateId,
}

/// An automaton with memoized facts about its states.
pub(crate) struct Characters<'d> {
    dfa: &'d Dfa,
    /// By state inside a character and number of missing bytes: the common target of all completions, if there is
    /// one.
    uniform: FxHashMap<(StateId, u32), Option<StateId>>,
}

/// The language of texts of `min` to `max` characters of one class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// Ranges of code points, ascending.
    pub(crate) class: Vec<(u32, u32)>,
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
}

impl Run {
    /// The run that `dfa`, an automaton over UTF-8, accepts, if its language is a run.
    ///
    /// Cost: reading the automaton once; in most cases reading its first two states.
    pub(crate) fn of(dfa: &Dfa) -> Option<Self> {
        let mut characters = Characters::new(dfa);
        let (mut class, mut min): (Option<Vec<(u32, u32)>>, Option<u32>) = (None, None);
        let mut state = dfa.start();
        // After more characters than there are states, some state has repeated, and it is not a loop at the end.
        for read in 0..u32::try_from(dfa.len()).ok()? {
            match (min, dfa.is_accepting(state)) {
                (None, true) => min = Some(read),
                (Some(_), false) => return None,
                _ => {}
            }
            let pieces = characters.pieces(state);
            let Some(next) = pieces.first().map(|piece| piece.target) else {
                return Some(Self { class: class?, min: min?, max: Some(read) });
            };
            if pieces.iter().any(|piece| piece.target != next) {
                return None;
            }
            let ranges: Vec<(u32, u32)> = pieces.iter().map(|piece| (piece.first, piece.last)).collect();
            if *class.get_or_insert_with(|| ranges.clone()) != ranges {
                return None;
            }
            if next == state {
                return Some(Self { class: class?, min: min?, max: None });
            }
            state = next;
        }
        None
    }

    /// The class as a pattern.
    pub(crate) fn pattern(&self) -> String {
        let ranges = self.class.iter().map(|(first, last)| format!(r"\x{{{first:x}}}-\x{{{last:x}}}"));
        ["[", &ranges.collect::<String>(), "]"].concat()
    }
}

impl<'d> Characters<'d> {
    pub(crate) fn new(dfa: &'d Dfa) -> Self {
        Self { dfa, uniform: FxHashMap::default() }
    }

    /// The edges of `state` as ascending, maximal ranges of code points.
    pub(crate) fn pieces(&mut self, state: StateId) -> Vec<Piece> {
        let mut pieces = vec![];
        let dfa = self.dfa;
        for edge in dfa.edges(state) {
            let (first, last) = (*edge.bytes.start(), *edge.bytes.end());
            if first < 0x80 {
                add(&mut pieces, u32::from(first), u32::from(last.min(0x7f)), edge.target);
            }
            for (from, to, left, mask) in
                [(0xc2, 0xdf, 1, 0x1f), (0xe0, 0xef, 2, 0x0f), (0xf0, 0xf4, 3, 0x07)]
            {
                let (first, last) = (first.max(from), last.min(to));
                if first <= last {
                    self.rest(
                        &mut pieces,
                        u32::from(first & mask),
                        u32::from(last & mask),
                        edge.target,
                        left,
                    );
                }
            }
        }
        pieces
    }

    /// Adds the characters with leading bits `first` to `last`, of which `left` bytes remain to be read from
    /// `state`.
    fn rest(&mut self, pieces: &mut Vec<Piece>, first: u32, last: u32, state: StateId, left: u32) {
        if let Some(target) = self.uniform(state, left) {
            add(pieces, first << (6 * left), ((last + 1) << (6 * left)) - 1, target);
            return;
        }
        let dfa = self.dfa;
        for bits in first..=last {
            for edge in dfa.edges(state) {
                let (low, high) =
                    (bits << 6 | u32::from(edge.bytes.start() & 0x3f), u32::from(edge.bytes.end() & 0x3f));
                let high = bits << 6 | high;
                if left == 1 {
                    add(pieces, low, high, edge.target);
                } else {
                    // The recursion is at most three bytes deep.
                    self.rest(pieces, low, high, edge.target, left - 1);
                }
            }
        }
    }

    fn uniform(&mut self, state: StateId, left: u32) -> Option<StateId> {
        if left == 0 {
            return Some(state);
        }
        if let Some(known) = self.uniform.get(&(state, left)) {
            return *known;
        }
        let only = self.dfa.edges(state).next().filter(|edge| edge.bytes == (0x80..=0xbf));
        let found = only.and_then(|edge| self.uniform(edge.target, left - 1));
        self.uniform.insert((state, left), found);
        found
    }
}

/// Appends a range to an ascending list, merging adjacent ranges with the same target.
fn add(pieces: &mut Vec<Piece>, first: u32, last: u32, target: StateId) {
    match pieces.last_mut() {
        Some(piece) if piece.target == target && piece.last + 1 == first => piece.last = last,
        _ => pieces.push(Piece { first, last, target }),
    }
}

#[cfg(test)]
mod tests {
    use unskew_automata::Limits;

    use super::*;

    #[test]
    fn runs_are_found_and_nothing_else() {
        let run = |pattern: &str| {
            let run = Run::of(&Dfa::from_pattern(pattern, &Limits::default()).unwrap());
            run.map(|run| (run.pattern(), run.min, run.max))
        };
        for (pattern, class, min, max) in [
            ("[0-9a-f]{40}", "[0-9a-f]", 40, Some(40)),
            ("[a-z]{2,5}", "[a-z]", 2, Some(5)),
            ("[a-z]+", "[a-z]", 1, None),
            ("(?s:.)*", "(?s:.)", 0, None),
            ("(?s:.){3,}", "(?s:.)", 3, None),
            ("[aé😀-😄]{0,3}", "[aé😀-😄]", 0, Some(3)),
            ("a", "a", 1, Some(1)),
            (r"\p{L}{1,20}", r"\p{L}", 1, Some(20)),
        ] {
            let (found, least, most) = run(pattern).unwrap();
            assert_eq!((least, most), (min, max), "{pattern}");
            let [found, class] = [&found, class].map(|class| Dfa::from_pattern(class, &Limits::default()));
            assert_eq!(found, class, "{pattern}");
        }
        for pattern in
            ["[a-z][0-9]", "([a-z]{2})*", "a|bb", "[a-z]{2}|[a-z]{4}", "[ab]+c?", "(ab)+", "", "[a-z]*[0-9]"]
        {
            assert_eq!(run(pattern), None, "{pattern}");
        }
    }
}
