//! The tree alone: its bounds in numbers, against their definition.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::*;

const NEVER: f64 = f64::NEG_INFINITY;

fn facts(eos: f64, tokens: f64) -> NodeStats {
    NodeStats { eos: eos.ln(), tokens: tokens.ln(), valid_mass: (eos + tokens).ln(), forced: false }
}

/// Visits a path of (token, its probability, probability of the end, mass of all allowed tokens), and takes it into
/// the bounds. `root` has the last two numbers for the empty prefix.
fn visit(tree: &mut PrefixTree, root: (f64, f64), path: &[(u32, f64, f64, f64)]) -> NodeId {
    tree.tick();
    let mut node = PrefixTree::ROOT;
    tree.touch(node);
    tree.score(node, facts(root.0, root.1));
    for (token, probability, eos, tokens) in path {
        node = tree.child(node, TokenId(*token));
        tree.touch(node);
        tree.set_log_p(node, probability.ln());
        tree.score(node, facts(*eos, *tokens));
    }
    tree.back_up(node, |_, _, _| None);
    node
}

/// The worked example of grammar-aligned decoding, section 3: `00000`, or `1` and four more. After 00000 was sampled,
/// whose end has probability 1e-8, the bound of 0000 is 0.45e-8. All outputs that begin with 0 have 0.45^5 * 1e-8
/// together.
#[test]
fn the_worked_example_of_grammar_aligned_decoding() {
    let mut tree = PrefixTree::new();
    let zero = (0, 0.45, 0.0, 0.45);
    let end = visit(&mut tree, (0.0, 0.9), &[zero, zero, zero, zero, (0, 0.45, 1e-8, 0.0)]);
    let relative = |left: f64, right: f64| (left - right).abs() / right;
    let fourth = tree.parent(end).unwrap();
    assert!(relative(tree.bound(fourth).exp(), 0.45e-8) < 1e-12, "{}", tree.bound(fourth).exp());
    let first = tree.child(PrefixTree::ROOT, TokenId(0));
    let prefix_mass = (tree.log_p(first) + tree.bound(first)).exp();
    assert!(relative(prefix_mass, 0.45f64.powi(5) * 1e-8) < 1e-12, "{prefix_mass}");
    // The outputs that begin with 1 were not visited.
    assert!(relative(tree.unexplored(PrefixTree::ROOT).exp(), 0.45) < 1e-12);
    assert!(relative(tree.bound(PrefixTree::ROOT).exp(), 0.45 + 0.45f64.powi(5) * 1e-8) < 1e-12);
}

#[test]
fn a_node_is_small() {
    assert!(size_of::<Node>() <= 96, "{}", size_of::<Node>());
    assert!(size_of::<Edge>() <= 16);
    let mut tree = PrefixTree::new();
    let mut node = PrefixTree::ROOT;
    for _ in 0..1000 {
        node = tree.child(node, TokenId(1));
    }
    assert!(tree.bytes() <= 1001 * 100, "{}", tree.bytes());
}

/// A random task, of which the tree sees the visited part. For each prefix: the probabilities of two tokens and of
/// the end.
struct Task(BTreeMap<Vec<u32>, [f64; 4]>);

impl Task {
    fn random(rng: &mut ChaCha8Rng, depth: usize) -> Self {
        let mut rows = BTreeMap::new();
        let mut open = vec![Vec::new()];
        while let Some(prefix) = open.pop() {
            // Some tokens are next to impossible and some certain, and a rest is forbidden.
            let weights: [f64; 5] =
                std::array::from_fn(|_| 10f64.powi(-i32::try_from(rng.next_u32() % 12).unwrap()));
            let sum: f64 = weights.iter().sum();
            let last = prefix.len() == depth;
            rows.insert(
                prefix.clone(),
                std::array::from_fn(|index| if last && index < 3 { 0.0 } else { weights[index] / sum }),
            );
            if !last {
                open.extend((0..3).map(|token| [prefix.as_slice(), &[token]].concat()));
            }
        }
        Self(rows)
    }

    /// c~ by its definition.
    fn bound(&self, visited: &[Vec<u32>], prefix: &[u32]) -> f64 {
        if !visited.iter().any(|output| output.starts_with(prefix)) {
            return 1.0;
        }
        let row = &self.0[prefix];
        let longer = |token: u32| {
            let probability = row[token as usize];
            if probability > 0.0 {
                probability * self.bound(visited, &[prefix, &[token]].concat())
            } else {
                0.0
            }
        };
        row[3] + (0..3).map(longer).sum::<f64>()
    }
}

#[test]
fn bounds_are_those_of_the_definition_and_fall() {
    for seed in 0..40 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let task = Task::random(&mut rng, 4);
        let mut tree = PrefixTree::new();
        let mut visited: Vec<Vec<u32>> = Vec::new();
        let mut before = f64::INFINITY;
        for _ in 0..60 {
            let length = (rng.next_u32() % 5) as usize;
            let output: Vec<u32> = (0..length).map(|_| rng.next_u32() % 3).collect();
            let mut node = PrefixTree::ROOT;
            for cut in 0..=length {
                let row = &task.0[&output[..cut]];
                if cut > 0 {
                    node = tree.child(node, TokenId(output[cut - 1]));
                    tree.set_log_p(node, task.0[&output[..cut - 1]][output[cut - 1] as usize].ln());
                }
                tree.score(node, facts(row[3], row[..3].iter().sum()));
            }
            let unexplored = |tree: &PrefixTree, node: NodeId, edges: &[Edge]| {
                let row = &task.0[&tree.tokens(node).iter().map(|token| token.0).collect::<Vec<_>>()];
                let counts = |token: usize| {
                    edges.iter().any(|edge| edge.token == TokenId::from_index(token) && edge.counts())
                };
                (0..3).filter(|token| !counts(*token)).map(|token| row[token]).sum::<f64>().ln()
            };
            let copy = tree.clone();
            tree.back_up(node, |node, _, edges| Some(unexplored(&copy, node, edges)));
            assert!(tree.is_consistent());
            visited.push(output);
            for prefix in task.0.keys() {
                let mut node = Some(PrefixTree::ROOT);
                for token in prefix {
                    let edges = node.map(|node| tree.edges(node)).unwrap_or_default();
                    node = edges.iter().find(|edge| edge.token.0 == *token).map(|edge| edge.node);
                }
                let Some(node) = node.filter(|node| tree.is_backed_up(*node)) else { continue };
                let exact = task.bound(&visited, prefix);
                let ours = tree.bound(node).exp();
                assert!((ours - exact).abs() <= 1e-12 * exact, "{seed} {prefix:?}: {ours} and {exact}");
            }
            let root = tree.bound(PrefixTree::ROOT);
            assert!(root <= before + 1e-12);
            before = root;
        }
    }
}

#[test]
fn what_is_forgotten_has_a_bound_of_one_again() {
    let mut tree = PrefixTree::new();
    // Two dead ends under 0, and one prefix under 1, which is visited last.
    visit(&mut tree, (0.1, 0.9), &[(0, 0.5, 0.0, 0.6), (0, 0.25, 0.0, 0.0)]);
    visit(&mut tree, (0.1, 0.9), &[(0, 0.5, 0.0, 0.6), (1, 0.35, 0.0, 0.0)]);
    visit(&mut tree, (0.1, 0.9), &[(1, 0.3, 0.2, 0.5), (0, 0.5, 0.0, 0.0)]);
    let near = |left: f64, right: f64| (left.exp() - right).abs() < 1e-12;
    assert_eq!(tree.len(), 6);
    // The end, the unexplored mass, no mass of 0, and the end after 1.
    assert!(near(tree.bound(PrefixTree::ROOT), 0.1 + 0.1 + 0.3 * 0.2));
    let map = tree.shrink(tree.bytes() + 200);
    assert_eq!(tree.len(), 3);
    assert_eq!(map.iter().flatten().count(), 3);
    // All the mass of 0 is back.
    assert!(near(tree.bound(PrefixTree::ROOT), 0.1 + 0.6 + 0.3 * 0.2));
    assert!(near(tree.unexplored(PrefixTree::ROOT), 0.6));
    tree.shrink(0);
    assert_eq!((tree.len(), tree.edges(PrefixTree::ROOT).len()), (1, 0));
    assert!(near(tree.bound(PrefixTree::ROOT), 1.0));
}

/// A prefix under one that does not count must not count either: a rollout would reach its bound through a prefix
/// whose bound counts as 1.
#[test]
fn nothing_is_learned_behind_what_does_not_count() {
    let mut tree = PrefixTree::new();
    tree.score(PrefixTree::ROOT, facts(0.1, 0.9));
    let child = tree.child(PrefixTree::ROOT, TokenId(0));
    let grandchild = tree.child(child, TokenId(0));
    // The probability of the first token is not known.
    tree.score(child, facts(0.0, 0.5));
    tree.set_log_p(grandchild, 0.5f64.ln());
    tree.score(grandchild, NodeStats::DEAD);
    tree.back_up(grandchild, |_, _, _| None);
    assert!(
        tree.is_backed_up(PrefixTree::ROOT) && !tree.is_backed_up(child) && !tree.is_backed_up(grandchild)
    );
    assert!(tree.is_consistent());
    tree.set_log_p(child, 0.25f64.ln());
    tree.back_up(grandchild, |_, _, _| None);
    assert!(tree.is_backed_up(grandchild) && tree.is_consistent());
    // All mass but that of 0, which is dead.
    assert!((tree.bound(PrefixTree::ROOT).exp() - 0.75).abs() < 1e-12);
}

#[test]
fn differences_keep_their_digits() {
    let mut tree = PrefixTree::new();
    let rest: f64 = 1e-30;
    // Nearly all of the mass is in the first child, which dies.
    tree.score(PrefixTree::ROOT, NodeStats { eos: NEVER, tokens: 0.0, valid_mass: 0.0, forced: false });
    let child = tree.child(PrefixTree::ROOT, TokenId(0));
    tree.set_log_p(child, (-rest).ln_1p());
    tree.score(child, NodeStats::DEAD);
    tree.back_up(child, |_, _, _| Some(rest.ln()));
    assert!((tree.bound(PrefixTree::ROOT) - rest.ln()).abs() < 1e-12);
}

#[test]
fn sums_of_a_few_are_those_of_the_list_to_the_last_bit() {
    let values = [NEVER, 0.0, -0.3, -700.0, -5000.0, 1e-17, f64::MIN_POSITIVE];
    for left in values {
        for right in values {
            for last in values {
                let three = [left, right, last];
                assert_eq!(add(three).to_bits(), log_sum_exp(three).to_bits(), "{three:?}");
            }
            assert_eq!(add([left, right]).to_bits(), log_sum_exp([left, right]).to_bits());
        }
    }
}
