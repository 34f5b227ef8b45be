//! The tables of quotients against the strings of symbols of every token.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proptest::prelude::*;

use super::*;
use crate::{
    TokenTrie,
    testing::{texts, tuning, vocabulary},
    walk::Tables,
};

/// A string of symbols.
type Shape = Vec<Symbol>;

/// The symbols of `text`; `None` if it is not whole characters that have symbols.
fn shape(symbols: &mut Symbols, text: &[u8]) -> Option<Shape> {
    std::str::from_utf8(text).ok()?.chars().map(|char| symbols.symbol(char)).collect()
}

/// For each node of the byte trie: the bytes up to it.
fn prefixes(tables: &Tables) -> Vec<Vec<u8>> {
    let (mut prefixes, mut path): (Vec<Vec<u8>>, Vec<u8>) = (Vec::new(), Vec::new());
    for node in &tables.bytes.nodes[..tables.bytes.len()] {
        path.truncate(node.depth());
        path.push(node.byte());
        prefixes.push(path.clone());
    }
    prefixes
}

/// The text in front of each quotient, from the members that it belongs to.
fn fronts(quotients: &Quotients, prefixes: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut fronts = vec![Vec::new(); quotients.all.len()];
    for member in &quotients.members {
        if let Some(quotient) = member.quotient {
            fronts[quotient.index()].clone_from(&prefixes[member.node.index()]);
        }
    }
    fronts
}

/// For each node of `quotient`: its string.
fn strings(quotients: &Quotients, quotient: Quotient) -> Vec<(usize, Shape)> {
    let mut path = Shape::new();
    let nodes = quotient.first as usize..quotient.end as usize;
    let string = |at: usize| {
        path.truncate(quotients.nodes[at].depth());
        path.push(quotients.nodes[at].symbol());
        (at, path.clone())
    };
    nodes.map(string).collect()
}

fn tokens_of(mask: &[u32]) -> BTreeSet<TokenId> {
    let bits = (0..mask.len() * 32).filter(|bit| mask[bit / 32] >> (bit % 32) & 1 != 0);
    bits.map(TokenId::from_index).collect()
}

/// Checks a summary against the nodes below one with these tokens of its own.
fn check_summary(
    quotients: &Quotients,
    summary: Option<SummaryId>,
    own: &[TokenId],
    depth: usize,
    below: std::ops::Range<usize>,
) {
    let tokens: Vec<TokenId> = below.clone().flat_map(|at| quotients.own(at)).copied().collect();
    let Tuning { mask_tokens, summary_tokens, .. } = quotients.tuning;
    let (many_own, many_below) = (own.len() >= mask_tokens as usize, tokens.len() >= mask_tokens as usize);
    assert_eq!(summary.is_some(), many_own || tokens.len() >= summary_tokens as usize);
    let Some(summary) = summary else { return };
    let summary = quotients.summary(summary);
    let symbols: BTreeSet<Symbol> = below.clone().map(|at| quotients.nodes[at].symbol()).collect();
    assert!(quotients.set(summary.symbols).iter().eq(symbols));
    let height = below.map(|at| quotients.nodes[at].depth() + 1 - depth).max().unwrap_or(0);
    assert_eq!(summary.height as usize, height);
    assert_eq!(quotients.below(&summary), tokens);
    assert_eq!(summary.tokens_below() as usize, tokens.len());
    for (mask, tokens, is_many) in
        [(summary.own_mask, own, many_own), (summary.below_mask, &tokens[..], many_below)]
    {
        assert_eq!(mask.is_some(), is_many);
        if let Some(mask) = mask {
            assert_eq!(tokens_of(quotients.mask(mask)), tokens.iter().copied().collect());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Each quotient holds the tokens of its subtree, each at the string of its symbols; the rest is irregular.
    #[test]
    fn a_quotient_holds_each_token_at_its_string(texts in texts(), tuning in tuning()) {
        let trie = TokenTrie::with_tuning(Arc::new(vocabulary(&texts)), tuning).unwrap();
        let tables = trie.tables();
        let quotients = &tables.quotients;
        let mut symbols = quotients.symbols.clone();
        let texts = trie.vocabulary().text_tokens().filter(|(_, text)| !text.is_empty());
        let texts: Vec<(TokenId, &[u8], Option<Shape>)> =
            texts.map(|(token, text)| (token, text, shape(&mut symbols, text))).collect();
        let irregular = texts.iter().filter(|(.., shape)| shape.is_none());
        let mut found = tables.irregular.tokens.clone();
        found.sort();
        prop_assert_eq!(found, irregular.map(|(token, ..)| *token).collect::<Vec<_>>());

        let prefixes = prefixes(tables);
        for (quotient, front) in quotients.all.iter().zip(fronts(quotients, &prefixes)) {
            let mut expected: BTreeMap<Shape, Vec<TokenId>> = BTreeMap::new();
            let chars = std::str::from_utf8(&front).unwrap().chars().count();
            for (token, text, shape) in &texts {
                let Some(shape) = shape else { continue };
                if text.len() > front.len() && text.starts_with(&front) {
                    expected.entry(shape[chars..].to_vec()).or_default().push(*token);
                }
            }
            let mut found: BTreeMap<Shape, Vec<TokenId>> = BTreeMap::new();
            let strings = strings(quotients, *quotient);
            for (at, string) in &strings {
                let (at, node) = (*at, quotients.nodes[*at]);
                let own = quotients.own(at);
                if !own.is_empty() {
                    prop_assert!(found.insert(string.clone(), own.to_vec()).is_none(), "a string has one node");
                }
                let end = strings.iter().find(|(other, string)| *other > at && string.len() <= node.depth() + 1);
                prop_assert_eq!(node.end as usize, end.map_or(quotient.end as usize, |(other, _)| *other));
                // The members spell the string, and have its tokens.
                let mut tokens = Vec::new();
                for member in quotients.members_of(at) {
                    let text = &prefixes[member.node.index()];
                    let shape = shape(&mut symbols, &text[front.len()..]);
                    prop_assert_eq!(shape.as_ref(), Some(string));
                    prop_assert!(std::str::from_utf8(text).unwrap().ends_with(member.char));
                    tokens.extend_from_slice(tables.bytes.own(member.node.index()));
                }
                tokens.sort();
                prop_assert_eq!(&tokens[..], own);
                check_summary(quotients, node.summary, own, node.depth() + 1, at + 1..node.end as usize);
            }
            prop_assert_eq!(found, expected);
            let longest = strings.iter().map(|(_, string)| string.len()).max().unwrap_or(0);
            prop_assert_eq!(quotient.height as usize, longest);
            check_summary(quotients, quotient.summary, &[], 0, quotient.first as usize..quotient.end as usize);
        }
    }

    /// The postings of a symbol are the tokens that hold it.
    #[test]
    fn postings_are_the_tokens_that_hold_a_symbol(texts in texts(), tuning in tuning(), most in 0usize..8) {
        let trie = TokenTrie::with_tuning(Arc::new(vocabulary(&texts)), tuning).unwrap();
        let quotients = &trie.tables().quotients;
        let postings = &quotients.postings;
        let mut symbols = quotients.symbols.clone();
        let shapes: Vec<(TokenId, Shape)> = trie
            .vocabulary()
            .text_tokens()
            .filter(|(_, text)| !text.is_empty())
            .filter_map(|(token, text)| Some((token, shape(&mut symbols, text)?)))
            .collect();
        let with = |holds: &dyn Fn(&Shape) -> bool| -> BTreeSet<TokenId> {
            shapes.iter().filter(|(_, shape)| holds(shape)).map(|(token, _)| *token).collect()
        };
        for symbol in (0..128).map(Symbol) {
            let expected = with(&|shape| shape.contains(&symbol));
            let is_many = expected.len() > tuning.listed_tokens;
            prop_assert_eq!(postings.many >> symbol.0 & 1 != 0, is_many);
            let expected = if is_many { BTreeSet::new() } else { expected };
            prop_assert_eq!(postings.holding(symbol).len(), expected.len());
            prop_assert_eq!(postings.holding(symbol).iter().copied().collect::<BTreeSet<_>>(), expected);
        }
        let non_ascii = with(&|shape| shape.iter().any(|symbol| !symbol.is_ascii()));
        prop_assert_eq!(tokens_of(&postings.non_ascii), non_ascii);
        let most = most.max(tuning.short_symbols);
        let long = postings.longer_than(most).iter().map(|(_, token)| *token).collect::<BTreeSet<_>>();
        prop_assert_eq!(long, with(&|shape| shape.len() > most));
    }

    /// Exceptions are found by their lists as by a look at each node, but for those below others.
    #[test]
    fn exceptions_are_nodes_with_a_symbol_or_deep_ones(
        texts in texts(),
        tuning in tuning(),
        ascii in any::<u128>(),
        non_ascii in any::<bool>(),
        deep in 0usize..4,
        picks in prop::collection::vec(any::<prop::sample::Index>(), 8),
    ) {
        let trie = TokenTrie::with_tuning(Arc::new(vocabulary(&texts)), tuning).unwrap();
        let tables = trie.tables();
        let quotients = &tables.quotients;
        let prefixes = prefixes(tables);
        for (quotient, front) in quotients.all.iter().zip(fronts(quotients, &prefixes)) {
            let chars = std::str::from_utf8(&front).unwrap().chars().count();
            let strings = strings(quotients, *quotient);
            let whole = (quotient.first as usize..quotient.end as usize, Shape::new());
            let picked = picks.iter().filter(|_| !strings.is_empty()).map(|pick| {
                let (at, string) = pick.get(&strings);
                (at + 1..quotients.nodes[*at].end as usize, string.clone())
            });
            for (among, above) in picked.chain([whole]) {
                let of = Exceptions {
                    ascii: above.iter().filter(|symbol| symbol.is_ascii()).fold(
                        ascii & !quotients.postings.many,
                        |ascii, symbol| ascii & !(1 << symbol.0),
                    ),
                    non_ascii: non_ascii && above.iter().all(|symbol| symbol.is_ascii()),
                    depth: (above.len() + deep).max(tuning.short_symbols.saturating_sub(chars)),
                };
                let found = quotients.exceptions(among.clone(), quotient.first as usize, of);
                let is_found = |at: usize| {
                    let bit = at - among.start;
                    found[bit / 64] >> (bit % 64) & 1 != 0
                };
                let mut done = among.start;
                for at in among.clone() {
                    let node = quotients.nodes[at];
                    let symbol = node.symbol();
                    let has_symbol =
                        if symbol.is_ascii() { of.ascii >> symbol.0 & 1 != 0 } else { of.non_ascii };
                    let is_exception = has_symbol || node.depth() >= of.depth;
                    prop_assert!(is_exception || !is_found(at), "{at} of {among:?}");
                    if is_exception && at >= done {
                        prop_assert!(is_found(at), "{at} of {among:?}");
                        done = node.end as usize;
                    }
                }
            }
        }
    }
}
