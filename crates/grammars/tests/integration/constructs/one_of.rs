//! Tokens that count as themselves, beside a slow oracle that keeps every way to go on.

use std::{collections::BTreeSet, sync::Arc};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_automata::Dfa;
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary, conformance};
use unskew_grammar::{ExprId, Grammar, GrammarBuilder, GrammarError, GrammarLimits};
use unskew_grammars::{GrammarConstraint, TreeLibrary};
use unskew_trie::TokenTrie;

/// An expression, as the oracle reads it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Node {
    Literal(Vec<u8>),
    OneOf(Vec<TokenId>),
    /// Texts of `a` and `b` up to a length, but some.
    But(usize, Vec<Vec<u8>>),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat(Box<Node>, u32, Option<u32>),
}

/// The parts that are still to be read, in reverse order.
type Left = Vec<Node>;

fn but(most: usize, left_out: &[Vec<u8>]) -> Vec<Node> {
    let mut texts: Vec<Vec<u8>> = vec![Vec::new()];
    let mut all = Vec::new();
    for _ in 0..most {
        texts =
            texts.iter().flat_map(|text| [b'a', b'b'].map(|byte| [&text[..], &[byte]].concat())).collect();
        all.extend(texts.iter().filter(|text| !left_out.contains(text)).cloned());
    }
    all.into_iter().map(Node::Literal).collect()
}

/// The ways in which `left` goes on: each begins with a literal or a token, or is empty.
fn open(mut left: Left, found: &mut BTreeSet<Left>) {
    let Some(node) = left.pop() else {
        found.insert(left);
        return;
    };
    match node {
        Node::Literal(text) if text.is_empty() => open(left, found),
        Node::Literal(_) | Node::OneOf(_) => {
            left.push(node);
            found.insert(left);
        }
        Node::But(most, left_out) => {
            for text in but(most, &left_out) {
                open([&left[..], &[text]].concat(), found);
            }
        }
        Node::Sequence(parts) => {
            left.extend(parts.into_iter().rev());
            open(left, found);
        }
        Node::Choice(parts) => parts.into_iter().for_each(|part| open([&left[..], &[part]].concat(), found)),
        Node::Repeat(item, min, max) => {
            if min == 0 {
                open(left.clone(), found);
            }
            if max != Some(0) {
                left.push(Node::Repeat(item.clone(), min.saturating_sub(1), max.map(|max| max - 1)));
                left.push(*item);
                open(left, found);
            }
        }
    }
}

fn opened(all: impl IntoIterator<Item = Left>) -> BTreeSet<Left> {
    let mut found = BTreeSet::new();
    all.into_iter().for_each(|left| open(left, &mut found));
    found
}

/// The ways after a token.
fn after(ways: &BTreeSet<Left>, token: TokenId, vocabulary: &Vocabulary) -> BTreeSet<Left> {
    let by_id = ways.iter().filter_map(|left| match left.split_last() {
        Some((Node::OneOf(tokens), rest)) if tokens.contains(&token) => Some(rest.to_vec()),
        _ => None,
    });
    let mut found = opened(by_id);
    if let Some(text) = vocabulary.text(token).filter(|text| !text.is_empty()) {
        let mut at = ways.clone();
        for byte in text {
            at = opened(at.iter().filter_map(|left| match left.split_last() {
                Some((Node::Literal(text), rest)) if text[0] == *byte => {
                    Some([rest, &[Node::Literal(text[1..].to_vec())]].concat())
                }
                _ => None,
            }));
        }
        found.extend(at);
    }
    found
}

fn vocabulary() -> Arc<Vocabulary> {
    let mut builder = Vocabulary::builder();
    for text in ["a", "b", "ab", "ba", "aa", "abb", ""] {
        builder.text(text.as_bytes());
    }
    builder.control("<call>");
    let end = builder.control("<end>");
    builder.end_of_sequence(end);
    builder.unused();
    // The same text again.
    builder.text(b"ab");
    Arc::new(builder.build().unwrap())
}

fn below(random: &mut ChaCha8Rng, end: u32) -> u32 {
    random.next_u32() % end
}

fn node(random: &mut ChaCha8Rng, depth: u32) -> Node {
    let text = |random: &mut ChaCha8Rng| {
        (0..1 + below(random, 3)).map(|_| b"ab"[below(random, 2) as usize]).collect::<Vec<u8>>()
    };
    match if depth == 0 { below(random, 4) } else { below(random, 9) } {
        0 => Node::Literal(text(random)),
        // Those that no mask holds too.
        1 | 2 => Node::OneOf((0..11).filter(|_| below(random, 3) == 0).chain([0]).map(TokenId).collect()),
        3 => Node::But(3, (0..2).map(|_| text(random)).collect()),
        4 | 5 => Node::Sequence((0..1 + below(random, 3)).map(|_| node(random, depth - 1)).collect()),
        6 | 7 => Node::Choice((0..1 + below(random, 3)).map(|_| node(random, depth - 1)).collect()),
        _ => {
            let (min, max) = [(0, None), (1, None), (0, Some(1)), (1, Some(3))][below(random, 4) as usize];
            // The repeated part is not empty, for the oracle's sake.
            let item = Node::Sequence(vec![node(random, 0), node(random, depth - 1)]);
            Node::Repeat(Box::new(item), min, max)
        }
    }
}

fn built(node: &Node, builder: &mut GrammarBuilder, word: &Arc<Dfa>, vocabulary: &Vocabulary) -> ExprId {
    let parts = |parts: &[Node], builder: &mut GrammarBuilder| {
        parts.iter().map(|part| built(part, builder, word, vocabulary)).collect::<Vec<_>>()
    };
    match node {
        Node::Literal(text) => builder.literal(text),
        Node::OneOf(tokens) => {
            let mut set = TokenMask::new(vocabulary.len());
            tokens.iter().for_each(|token| set.as_mut().insert(*token));
            builder.one_of("tokens", set)
        }
        Node::But(_, texts) => builder.difference("word", word, texts).expect("there are more than two"),
        Node::Sequence(all) => {
            let all = parts(all, builder);
            builder.sequence(all)
        }
        Node::Choice(all) => {
            let all = parts(all, builder);
            builder.choice(all)
        }
        Node::Repeat(item, min, max) => {
            let item = built(item, builder, word, vocabulary);
            builder.repeat(item, *min, *max)
        }
    }
}

/// Without the ids that no mask holds.
fn written(node: &Node) -> Node {
    let all = |parts: &[Node]| parts.iter().map(written).collect();
    match node {
        Node::OneOf(tokens) => {
            Node::OneOf(tokens.iter().copied().filter(|token| ![6, 8, 9].contains(&token.0)).collect())
        }
        Node::Sequence(parts) => Node::Sequence(all(parts)),
        Node::Choice(parts) => Node::Choice(all(parts)),
        Node::Repeat(item, min, max) => Node::Repeat(Box::new(written(item)), *min, *max),
        other => other.clone(),
    }
}

#[test]
fn masks_are_those_of_the_oracle() {
    let vocabulary = vocabulary();
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    let library = Arc::new(TreeLibrary::new(Arc::clone(&trie), 1 << 20));
    let limits = GrammarLimits::default();
    let word = Arc::new(Dfa::from_pattern("[ab]{1,3}", &limits.regex).unwrap());
    let mut random = ChaCha8Rng::seed_from_u64(29);
    let (mut masks, mut by_both) = (0, 0);
    for _ in 0..400 {
        let node = node(&mut random, 3);
        let mut builder = Grammar::builder(&limits);
        let body = built(&node, &mut builder, &word, &vocabulary);
        let start = builder.rule("start");
        builder.define(start, body);
        let grammar = builder.build(start).unwrap();
        let walking = GrammarConstraint::new(&grammar, Arc::clone(&trie), &limits).unwrap();
        let sharing = GrammarConstraint::with_library(&grammar, &library, &limits).unwrap();
        let node = written(&node);
        let (first, second) = (&walking, &sharing);
        let mut scratches = (first.scratch(), second.scratch());
        for _ in 0..4 {
            let mut states = (first.start(), second.start());
            let mut ways = opened([vec![node.clone()]]);
            for _ in 0..8 {
                let next: Vec<_> =
                    (0..11).map(|id| (TokenId(id), after(&ways, TokenId(id), &vocabulary))).collect();
                let allowed: Vec<TokenId> =
                    next.iter().filter(|(_, ways)| !ways.is_empty()).map(|(token, _)| *token).collect();
                let mut mask = TokenMask::new(vocabulary.len());
                first.fill_mask(&mut scratches.0, &states.0, mask.as_mut());
                assert_eq!(mask.ids().collect::<Vec<_>>(), allowed, "{node:?}");
                second.fill_mask(&mut scratches.1, &states.1, mask.as_mut());
                assert_eq!(mask.ids().collect::<Vec<_>>(), allowed, "{node:?}");
                assert_eq!(first.is_accepting(&states.0), ways.contains(&Vec::new()), "{node:?}");
                masks += 1;
                for token in (0..11).map(TokenId).filter(|token| !allowed.contains(token)) {
                    assert!(
                        first.advance(&mut scratches.0, &mut states.0.clone(), token).is_err(),
                        "{node:?}"
                    );
                }
                if allowed.is_empty() {
                    break;
                }
                let token = allowed[below(&mut random, u32::try_from(allowed.len()).unwrap()) as usize];
                first.advance(&mut scratches.0, &mut states.0, token).unwrap();
                second.advance(&mut scratches.1, &mut states.1, token).unwrap();
                by_both += u32::from(next[token.index()].1.len() > 1);
                ways = after(&ways, token, &vocabulary);
            }
        }
    }
    assert!(masks > 3_000 && by_both > 500, "{masks} {by_both}");
}

#[test]
fn texts_that_may_not_come_twice_may_come_as_tokens() {
    let vocabulary = vocabulary();
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    let limits = GrammarLimits::default();
    let mut builder = Grammar::builder(&limits);
    let word = Arc::new(Dfa::from_pattern("ab|ba", &limits.regex).unwrap());
    let distinct = builder.distinct("word", &word, [""; 0], Some(2)).unwrap();
    let mut set = TokenMask::new(vocabulary.len());
    set.as_mut().insert(TokenId(2));
    let token = builder.one_of("the token ab", set);
    let end = builder.literal("b");
    let last = builder.sequence([token, end]);
    let item = builder.choice([distinct, last]);
    let all = builder.repeat(item, 0, Some(4));
    let start = builder.rule("start");
    builder.define(start, all);
    let grammar = builder.build(start).unwrap();
    for constraint in [
        GrammarConstraint::new(&grammar, Arc::clone(&trie), &limits).unwrap(),
        GrammarConstraint::with_library(
            &grammar,
            &Arc::new(TreeLibrary::new(Arc::clone(&trie), 1 << 20)),
            &limits,
        )
        .unwrap(),
    ] {
        let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
        constraint.advance(&mut scratch, &mut state, TokenId(2)).unwrap();
        let mut mask = TokenMask::new(vocabulary.len());
        constraint.fill_mask(&mut scratch, &state, mask.as_mut());
        // `ab` was used, so it may follow as the token alone: the other token of the same text may not.
        let allowed: Vec<u32> = mask.ids().map(|token| token.0).collect();
        assert_eq!(allowed, [1, 2, 3]);
    }
}

#[test]
fn a_mask_holds_what_is_taken() {
    let vocabulary = vocabulary();
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    let limits = GrammarLimits::default();
    let mut set = TokenMask::new(vocabulary.len());
    set.as_mut().fill();
    let mut builder = Grammar::builder(&limits);
    let (any, text) = (builder.one_of("any", set), builder.literal("ba"));
    let item = builder.choice([any, text]);
    let body = builder.repeat(item, 1, Some(3));
    let start = builder.rule("start");
    builder.define(start, body);
    let grammar = builder.build(start).unwrap();
    let constraint = GrammarConstraint::new(&grammar, Arc::clone(&trie), &limits).unwrap();
    conformance::check_constraint(&constraint, 4).unwrap();
}

#[test]
fn errors() {
    let vocabulary = vocabulary();
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    let limits = GrammarLimits::default();
    let compile = |len: usize, token: u32| {
        let mut set = TokenMask::new(len);
        set.as_mut().insert(TokenId(token));
        let mut builder = Grammar::builder(&limits);
        let start = builder.rule("start");
        let body = builder.one_of("tokens", set);
        builder.define(start, body);
        let grammar = builder.build(start).unwrap();
        assert!(matches!(grammar.regular(&limits.regex), Err(GrammarError::NotRegular { .. })));
        GrammarConstraint::new(&grammar, Arc::clone(&trie), &limits).unwrap_err()
    };
    assert!(matches!(compile(12, 0), GrammarError::OtherVocabulary { tokens: 12, vocabulary: 11, .. }));
    // The empty token, the end and an unused id are in no mask.
    for token in [6, 8, 9] {
        assert!(matches!(compile(11, token), GrammarError::UnknownToken { .. }));
    }
}
