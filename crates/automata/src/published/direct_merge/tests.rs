//! DirectMerge on the example of its paper, and on tables in which a result is one of its tokens.

use unskew_testdata::two_names;

use super::*;

/// The published figures, 17 states with 48 edges and 5 with 4, are those of automata that do not share the ends.
#[test]
fn the_published_figures_come_from_a_tree() {
    let vocabulary = two_names::vocabulary();
    let symbols = InitialTokens::from_vocabulary(&vocabulary);
    let mut prefixes: Vec<&str> =
        two_names::NAMES.iter().flat_map(|name| (0..=name.len()).map(|end| &name[..end])).collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    assert_eq!(prefixes.len(), 17);

    let number =
        |prefix: &str| prefixes.iter().position(|other| *other == prefix).map(|at| StateId::from_index(at).0);
    let edges_of = |tokens: &dyn Fn(&str) -> Option<TokenId>| -> Vec<Vec<(TokenId, u32)>> {
        let texts = two_names::texts();
        let after = |prefix: &str| {
            let found =
                texts.iter().filter_map(|text| Some((tokens(text)?, number(&format!("{prefix}{text}"))?)));
            found.collect()
        };
        prefixes.iter().map(|prefix| after(prefix)).collect()
    };
    let every_spelling = edges_of(&|text| Some(two_names::token(text)));
    assert_eq!(every_spelling.iter().flatten().count(), 48);

    let tree = Sparse {
        start: 0,
        accepting: prefixes.iter().map(|prefix| two_names::NAMES.contains(prefix)).collect(),
        edges: edges_of(&|text| match text.as_bytes() {
            [byte] => symbols.get(*byte),
            _ => None,
        }),
    };
    let merges = two_names::merges();
    let merged =
        merge_all(tree, merges.merges(), vocabulary.len(), &PublishedLimits::default()).unwrap().unwrap();
    assert_eq!((merged.len(), merged.edges.iter().flatten().count()), (5, 4));
    let smallest = merged.minimized();
    assert_eq!((smallest.len(), smallest.edges.iter().flatten().count()), (4, 4));
}

/// If states have several edges of one token, the subset construction finds the language: `a b -> a` turns `ab|ac`
/// into `a|ac`.
#[test]
fn a_result_that_is_one_of_its_tokens() {
    let mut builder = Vocabulary::builder();
    let [a, b, c] = ["a", "b", "c"].map(|text| builder.text(text.as_bytes()));
    let vocabulary = builder.build().unwrap();
    let merges = MergeTable::new(vec![Merge { left: a, right: b, result: a }]).unwrap();
    let limits = PublishedLimits::default();
    let dfa = Dfa::from_pattern("ab|ac|abb", &crate::Limits::default()).unwrap();
    let symbols = InitialTokens::from_vocabulary(&vocabulary);
    let merged = MergedDfa::direct_merge(&dfa, &vocabulary, &symbols, &merges, &limits).unwrap();
    assert!(merged.accepts(&[a]) && merged.accepts(&[a, c]));
    assert!(merged.accepts(&[a, b])); // abb: one pass, in which the second b finds nothing
    assert_eq!((merged.len(), merged.edge_count()), (3, 3));
}
