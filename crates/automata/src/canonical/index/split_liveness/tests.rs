//! Tests of the universal states against walks over all short texts.

use std::sync::Arc;

use unskew_core::{AddedToken, SplitBehavior, SplitPattern, Tokenization, Vocabulary};
use unskew_trie::TokenTrie;

use super::*;
use crate::{Limits, canonical::viability::language::LazyDfa};

#[test]
fn places_are_those_of_utf8() {
    // All texts of up to two bytes, and texts of three and four bytes around the edges of each range.
    let edges = [0, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1];
    let edges = edges.into_iter().chain([0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff]);
    let edges: Vec<u8> = edges.collect();
    let mut texts: Vec<Vec<u8>> = vec![vec![]];
    for length in 0..4 {
        let bytes: Vec<u8> = if length < 2 { (0..=255).collect() } else { edges.clone() };
        let longer = |text: &Vec<u8>| {
            let text = text.clone();
            bytes.iter().map(move |byte| [&text[..], &[*byte]].concat()).collect::<Vec<_>>()
        };
        let longest = texts.iter().filter(|text| text.len() == length);
        let longer: Vec<Vec<u8>> = longest.flat_map(longer).collect();
        for text in &longer {
            let place = text.iter().try_fold(0, |place, byte| utf8(place, *byte));
            match std::str::from_utf8(text) {
                Ok(_) => assert_eq!(place, Some(0), "{text:?}"),
                Err(error) if error.error_len().is_none() => {
                    assert!(place.is_some_and(|place| place > 0), "{text:?}");
                }
                Err(_) => assert_eq!(place, None, "{text:?}"),
            }
        }
        texts.extend(longer.into_iter().filter(|text| length < 1 || edges.contains(&text[0])));
        texts.retain(|text| text.len() < 2 || edges.contains(&text[0]) && edges.contains(&text[1]));
    }
}

/// A tokenizer of single bytes with this split pattern.
fn tokenizer(pattern: &str) -> TokenizerAutomaton {
    let mut builder = Vocabulary::builder();
    (0..=255u8).for_each(|byte| _ = builder.text(&[byte]));
    let mut tokenization = Tokenization::default();
    tokenization.splits.push(SplitPattern::Regex {
        pattern: pattern.to_owned(),
        behavior: SplitBehavior::Isolated,
        invert: false,
    });
    TokenizerAutomaton::new(&builder.build().unwrap(), &tokenization).unwrap()
}

#[test]
fn every_text_goes_on_from_a_universal_state_and_some_text_does_not_from_others() {
    for pattern in [r"\s+(?!\S)|\s+|\S+", r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+", "aa|aas|s "] {
        let tokenizer = tokenizer(pattern);
        let (split, liveness) = (&tokenizer.split, SplitLiveness::new(&tokenizer));
        let letters = ["a", "s", " ", "\n", "1", "é", "\u{3000}", "."];
        let mut counts = [0; 2];
        for state in places(split).iter().filter(|(_, places)| *places & 1 != 0).map(|(state, _)| state) {
            // All texts of up to four of these letters.
            let mut open = vec![(Subset::from_slice(&[state]), 0)];
            let mut stuck = false;
            while let Some((mut subset, length)) = open.pop() {
                stuck |= !subset.iter().any(|state| split.is_accepting(*state));
                let marks: Subset = subset.iter().filter_map(|state| split.mark(*state)).collect();
                subset.extend(marks);
                for letter in letters.iter().filter(|_| length < 4) {
                    let next = letter.bytes().fold(subset.clone(), |subset, byte| step(split, &subset, byte));
                    open.push((next, length + 1));
                }
            }
            assert_eq!(liveness.universal[state], !stuck, "{pattern}, {state:?}");
            counts[usize::from(stuck)] += 1;
        }
        assert!(counts[0] > 0 && counts[1] > 0, "{pattern}: {counts:?}");
        // The look-ahead facts hold at the end of a run of blanks. No other state has any.
        let ends =
            || liveness.lookahead2_of.iter().filter_map(|(state, lookahead2)| Some((state, (*lookahead2)?)));
        for (state, lookahead2) in ends() {
            assert!(split.is_accepting(state) && !liveness.universal[state], "{pattern}");
            let mark = split.mark(state).unwrap();
            for (byte, after) in &liveness.lookahead2_lists[usize::from(lookahead2)] {
                let marks = [mark].into_iter().chain(split.mark(mark));
                let next = step(split, &marks.collect::<Subset>(), *byte);
                assert!(next.contains(after), "{pattern}, {state:?}");
                assert!(!liveness.live_next[*after].is_empty(), "{pattern}, {state:?}");
            }
        }
        assert!(ends().count() > 0 || !pattern.contains(r"\p{L}"), "{pattern}");
    }
}

/// The safety of the states of `pattern`, for a tokenizer of single bytes with one added token.
fn safe(pattern: &str, content: &str, special: bool) -> Vec<Safety> {
    let mut builder = Vocabulary::builder();
    (0..=255u8).for_each(|byte| _ = builder.text(&[byte]));
    let id = if special { builder.control(content) } else { builder.text(content.as_bytes()) };
    let mut tokenization = Tokenization::default();
    tokenization.added.push(AddedToken {
        id,
        content: content.to_owned(),
        special,
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized: false,
    });
    let vocabulary = Arc::new(builder.build().unwrap());
    let tokenizer = TokenizerAutomaton::new(&vocabulary, &tokenization).unwrap();
    let trie = Arc::new(TokenTrie::new(vocabulary).unwrap());
    let index = Arc::new(CanonicalIndex::new(Arc::new(tokenizer), trie).unwrap());
    let limits = Limits::default();
    let dfa = Dfa::from_pattern(pattern, &limits).unwrap();
    let language = DfaLanguage::new(dfa, &index, &limits).unwrap();
    language.dfa.states().map(|state| LazyDfa::safety(&language, state)).collect()
}

#[test]
fn what_cannot_do_without_the_end_of_an_added_token_is_safe_where_none_is_begun() {
    use Safety::{Always, Unknown, WhenCalm};
    let safe = |pattern: &str| safe(pattern, "<|end|>", true);
    assert!(safe("[a-z]*").iter().all(|safe| *safe == Always));
    // The last `>` is accepted unless `<|end|` precedes it.
    assert_eq!(safe("<b>"), [Always, Always, WhenCalm, Always]);
    // Here the text always ends an added token.
    let all = [Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, WhenCalm, Always];
    assert_eq!(safe(r"<\|end\|>"), all);
}

#[test]
fn an_added_token_may_be_the_only_way_on() {
    use Safety::{Always, Unknown, WhenCalm};
    // Between `a` and the end the text cannot spell the token.
    assert_eq!(safe("a<t>", "<t>", false), [Always, Always, Unknown, WhenCalm, Always]);
    assert_eq!(safe("a<t>b", "<t>", false), [Always, Always, Unknown, WhenCalm, Always, Always]);
    assert_eq!(safe("a<t>", "<t>", true), [Unknown, Unknown, Unknown, WhenCalm, Always]);
}
