//! Sizes and limits of automata of patterns.

use proptest::prelude::*;

use super::*;

fn hir(pattern: &str) -> Hir {
    crate::regex::parse(pattern, &crate::Limits::default()).unwrap().plain().unwrap()
}

fn size_of(pattern: &str) -> (u64, usize) {
    let hir = hir(pattern);
    let RegexError::NfaTooLarge { size, .. } = Nfa::new(&hir, 0).unwrap_err() else {
        panic!("another error")
    };
    (size, Nfa::new(&hir, size).unwrap().size())
}

#[test]
fn the_size_is_known_before_it_is_built() {
    for pattern in [
        "",
        "a",
        "abc",
        "[a-z]",
        r"\w",
        "[a&&b]",
        "a|bc|",
        "a*",
        "a+",
        "(a|b){3}",
        "a{2,5}",
        "a{3,}",
        "(a{2}b){2,4}",
        "^a$",
        "()",
        "()?",
        "()*",
        "(?:^){5}",
        "((a*)*)*",
        "(|a)+",
        "(?i)straße",
        "(a?){3}",
        "[a&&b]{3}|c",
        "a{0}",
    ] {
        let (size, built) = size_of(pattern);
        assert_eq!(size, built as u64, "{pattern}");
    }
    // Two for each byte, one for the end, three for the loop.
    assert_eq!(size_of("ab+").0, 8);
}

/// The size pass, with a count of the nodes that it visits.
struct Counted<'c> {
    sizes: Sizes<'c>,
    nodes: usize,
}

impl hir::Visitor for Counted<'_> {
    type Output = (u64, usize);
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<(u64, usize), Self::Err> {
        Ok((self.sizes.finish()?, self.nodes))
    }

    fn visit_post(&mut self, hir: &Hir) -> Result<(), Self::Err> {
        self.nodes += 1;
        self.sizes.visit_post(hir)
    }
}

/// The size of an automaton of any number of states takes one step for each node of the tree, and nothing is built.
#[test]
fn what_would_explode_is_refused_at_once() {
    for (pattern, nodes) in [
        ("a{1000}{1000}", 3),
        ("a{1000}{1000}{1000}", 4),
        ("((a{99999}){99999}){99999}", 6),
        (r"(\w{0,99999}){0,99999}", 4),
    ] {
        let (hir, mut classes) = (hir(pattern), Classes::default());
        let counted = Counted { sizes: Sizes { classes: &mut classes, sizes: vec![] }, nodes: 0 };
        let (counted_size, visited) = hir::visit(&hir, counted).unwrap();
        assert_eq!(visited, nodes, "{pattern}");
        let error = Nfa::new(&hir, 1_000_000).unwrap_err();
        assert_eq!(error, RegexError::NfaTooLarge { size: counted_size, limit: 1_000_000 }, "{pattern}");
    }
    assert_eq!(
        Nfa::new(&hir("a{1000}{1000}"), 1_000).unwrap_err().to_string(),
        "the regex needs an NFA of 2000001 states and transitions; the limit is 1000 (Limits::nfa_size): lower its \
         repetition counts, or raise the limit"
    );
}

proptest! {
    #[test]
    fn every_size_is_exact(pattern in unskew_testdata::strategies::pattern()) {
        let (size, built) = size_of(&pattern.to_string());
        prop_assert_eq!(size, built as u64);
    }
}
