//! Languages that are a number of characters of one class, such as `^[0-9a-f]{40}$` and `^\w+$` of at most 255
//! characters. They become counted repetitions and are not unrolled.

use unskew_automata::{Dfa, dfa::Characters};

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
