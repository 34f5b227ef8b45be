//! An automaton over text, read by characters: where a state leads is a list of ranges of code points.
//!
//! The spellings of JSON are made from that, and it shows which languages are a number of characters of one class
//! (`^[0-9a-f]{40}$`, `^\w+$` of at most 255 characters): these are counted and not written out.

use rustc_hash::FxHashMap;
use unskew_automata::{Dfa, StateId};

/// Code points from the first to the second lead to the state.
pub(crate) type Piece = (u32, u32, StateId);

/// An automaton and what is known of it.
pub(crate) struct Characters<'d> {
    dfa: &'d Dfa,
    /// By state inside a character and bytes left of it: where all of them lead, if it is one place.
    uniform: FxHashMap<(StateId, u32), Option<StateId>>,
}

/// Texts of so many characters of one class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// Ranges of code points, ascending.
    pub(crate) class: Vec<(u32, u32)>,
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
}

impl Run {
    /// The run that `dfa` accepts, if it accepts one; it reads UTF-8.
    ///
    /// Cost: that of reading the automaton once, and mostly that of its first two states.
    pub(crate) fn of(dfa: &Dfa) -> Option<Self> {
        let mut characters = Characters::new(dfa);
        let (mut class, mut min): (Option<Vec<(u32, u32)>>, Option<u32>) = (None, None);
        let mut state = dfa.start();
        // Behind more characters than there are states something came again that is no loop at the end.
        for read in 0..u32::try_from(dfa.len()).ok()? {
            match (min, dfa.is_accepting(state)) {
                (None, true) => min = Some(read),
                (Some(_), false) => return None,
                _ => {}
            }
            let pieces = characters.pieces(state);
            let Some((.., next)) = pieces.first().copied() else {
                return Some(Self { class: class?, min: min?, max: Some(read) });
            };
            if pieces.iter().any(|(.., target)| *target != next) {
                return None;
            }
            let ranges: Vec<(u32, u32)> = pieces.iter().map(|(first, last, _)| (*first, *last)).collect();
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

    /// Where the characters behind `state` lead: ranges of code points, ascending, as long as possible.
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

    /// The characters whose first bits are `first` to `last`, of which `left` bytes are to be read from `state` on.
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
                    // At most three bytes deep.
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

/// Adds a range behind the others.
fn add(pieces: &mut Vec<Piece>, first: u32, last: u32, target: StateId) {
    match pieces.last_mut() {
        Some((_, end, of)) if *of == target && *end + 1 == first => *end = last,
        _ => pieces.push((first, last, target)),
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
