//! The bigram relation for all tokens at once: the tokens that may be neighbours of a given token.
//!
//! By the pair test, a token `u` is forbidden after `t` because of one merge `a b`. Token `a` is on the right edge
//! of `t`'s tree, token `b` is on the left edge of `u`'s tree, and the merge happens before either is consumed. Put
//! all tokens into a forest in which the parent of a token is its left part. Then `b` is on the left edge of `u`
//! exactly if `u` is in the subtree of `b`. Token `b` is consumed late enough exactly if `u` is `b` itself or is
//! below a child of `b` that is created late enough. If the forest is listed depth first, with the children of `b`
//! in order from the last created to the first, these tokens are **one interval**. So the set of right neighbours
//! that `t` forbids is a union of intervals: one for each merge whose left part is on the right edge of `t` and that
//! happens in time. Only the forest must be stored: a few megabytes for 128,000 tokens, where lists of forbidden
//! pairs would take gigabytes.
//!
//! This is the automaton of all proper sequences (DirectMerge's appendix, Algorithm 3) in another form. Its states
//! are the classes of tokens that forbid the same neighbours ([`BigramRelation::class`]).

use std::{cmp::Reverse, collections::HashMap, ops::Range};

use unskew_core::MergeTable;

use super::derivation::{Derivations, MergeOrder, NONE};
use crate::ids::{Id, MergeKey, Table, TokenClass};

/// All tokens below their left parts, or below their right parts, depth first. Children created later come first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Forest {
    /// The reachable tokens, in depth-first order.
    pub(crate) order: Vec<u32>,
    /// `bounds[first_bound[t]..first_bound[t + 1]]` are the indices in `order` at which the subtrees of the children
    /// of token `t` begin, and the index at which the last subtree ends. The range is empty for a token without
    /// children. A token's own index is directly before its first child's.
    pub(crate) first_bound: Vec<u32>,
    pub(crate) bounds: Vec<u32>,
}

impl Forest {
    /// The forest in which the parent of a token is `parent[token]`.
    pub(crate) fn new(trees: &Derivations, parent: &[u32]) -> Self {
        let len = parent.len();
        let mut tokens: Vec<u32> = (0u32..).take(len).filter(|token| trees.is_reachable(*token)).collect();
        // By parent, and below a parent from the last created to the first. Roots sort after all others.
        tokens.sort_unstable_by_key(|token| {
            (parent[*token as usize], Reverse(trees.time[*token as usize]), *token)
        });
        let roots = tokens.split_off(tokens.partition_point(|token| parent[*token as usize] != NONE));
        let children = tokens;
        let mut first_child = vec![0u32; len + 1];
        for child in &children {
            first_child[parent[*child as usize] as usize + 1] += 1;
        }
        for token in 0..len {
            first_child[token + 1] += first_child[token];
        }
        let children_of =
            |token: usize| &children[first_child[token] as usize..first_child[token + 1] as usize];

        let mut order = Vec::with_capacity(roots.len() + children.len());
        let (mut position, mut end) = (vec![NONE; len], vec![0; len]);
        // A token is opened, then its children, then it is closed.
        let mut open: Vec<(u32, bool)> = roots.iter().rev().map(|root| (*root, true)).collect();
        while let Some((token, opens)) = open.pop() {
            if opens {
                position[token as usize] = index(order.len());
                order.push(token);
                open.push((token, false));
                open.extend(children_of(token as usize).iter().rev().map(|child| (*child, true)));
            } else {
                end[token as usize] = index(order.len());
            }
        }
        let (mut first_bound, mut bounds) = (Vec::with_capacity(len + 1), Vec::new());
        for (token, end) in end.iter().enumerate() {
            first_bound.push(index(bounds.len()));
            let children = children_of(token);
            if !children.is_empty() {
                bounds.extend(children.iter().map(|child| position[*child as usize]));
                bounds.push(*end);
            }
        }
        first_bound.push(index(bounds.len()));
        Self { order, first_bound, bounds }
    }

    /// Calls `each` with parts of `order`: `token` itself and the subtrees of those children that are created at
    /// `since` or later and for which `counts` holds. `counts` is asked only about children created at the same time
    /// as `token`.
    pub(crate) fn subtrees(
        &self,
        parent: &[u32],
        times: &[MergeKey],
        token: u32,
        since: MergeKey,
        counts: impl Fn(u32) -> bool,
        mut each: impl FnMut(&[u32]),
    ) {
        let time = times[token as usize];
        let mut part = |begin: u32, end: u32| each(&self.order[begin as usize..end as usize]);
        let bounds = self.first_bound[token as usize] as usize..self.first_bound[token as usize + 1] as usize;
        let Some((_, children @ [first, ..])) = self.bounds[bounds.clone()].split_last() else {
            return each(&[token]);
        };
        let time_at = |at: &u32| times[self.order[*at as usize] as usize];
        let late = children.partition_point(|at| time_at(at) >= since.max(time.next()));
        part(first - 1, self.bounds[bounds.start + late]);
        // Children created at the same time as their part: rare, and sorted after the others.
        let at_once = children.partition_point(|at| time_at(at) > time);
        for child in self.bounds[bounds.start + at_once..bounds.end].windows(2) {
            let token_at = self.order[child[0] as usize];
            if parent[token_at as usize] == token && counts(token_at) {
                part(child[0], child[1]);
            }
        }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let lists = [&self.order, &self.first_bound, &self.bounds];
        lists.iter().map(|list| size_of_val(&list[..])).sum()
    }
}

/// The merges of each token with a partner on one side.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Partners {
    /// The partners of token `t` are at `first[t]..first[t + 1]`, in ascending order.
    pub(crate) first: Vec<u32>,
    pub(crate) partner: Vec<u32>,
    /// The key of the merge.
    pub(crate) key: Vec<MergeKey>,
}

impl Partners {
    pub(crate) fn new(len: usize, merges: impl Iterator<Item = (u32, u32, MergeKey)>) -> Self {
        let mut merges: Vec<(u32, u32, MergeKey)> = merges.collect();
        merges.sort_unstable();
        let mut first = vec![0u32; len + 1];
        for (token, ..) in &merges {
            first[*token as usize + 1] += 1;
        }
        for token in 0..len {
            first[token + 1] += first[token];
        }
        Self {
            first,
            partner: merges.iter().map(|merge| merge.1).collect(),
            key: merges.iter().map(|merge| merge.2).collect(),
        }
    }

    fn range(&self, token: u32) -> Range<usize> {
        self.first[token as usize] as usize..self.first[token as usize + 1] as usize
    }

    /// The partners of `token` with the keys of the merges.
    pub(crate) fn of(&self, token: u32) -> impl Iterator<Item = (u32, MergeKey)> {
        let range = self.range(token);
        self.partner[range.clone()].iter().copied().zip(self.key[range].iter().copied())
    }

    /// The partners of `token`, in ascending order.
    pub(crate) fn partners(&self, token: u32) -> impl Iterator<Item = u32> {
        self.of(token).map(|(partner, _)| partner)
    }

    /// The key of the merge of `token` and `partner`.
    pub(crate) fn key(&self, token: u32, partner: u32) -> Option<MergeKey> {
        let range = self.range(token);
        let at = self.partner[range.clone()].binary_search(&partner).ok()?;
        Some(self.key[range.start + at])
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.first[..]) + size_of_val(&self.partner[..]) + size_of_val(&self.key[..])
    }
}

/// The bigram relation: the pairs of tokens that may be neighbours in a piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BigramRelation {
    pub(crate) trees: Derivations,
    /// The forest by left parts.
    pub(crate) lefts: Forest,
    /// The merges by their left token.
    pub(crate) by_left: Partners,
    /// By token: tokens of one class forbid the same right neighbours. [`NONE`] for unreachable tokens.
    class: Vec<u32>,
    /// A representative token of each class.
    pub(crate) class_token: Table<TokenClass, u32>,
}

impl BigramRelation {
    /// Cost: O(m log m) for m merges.
    pub(crate) fn new(trees: Derivations, merges: &MergeTable) -> Self {
        let len = trees.key.len();
        let reachable = (0u32..).zip(merges.merges()).filter_map(|(rank, merge)| {
            let (left, right) = (merge.left.0, merge.right.0);
            (trees.is_reachable(left) && trees.is_reachable(right)).then_some((
                left,
                right,
                MergeKey::of_rank(rank),
            ))
        });
        let mut bigrams = Self {
            lefts: Forest::new(&trees, &trees.left),
            by_left: Partners::new(len, reachable),
            class: vec![NONE; len],
            class_token: Table::from(Vec::new()),
            trees,
        };
        bigrams.find_classes();
        bigrams
    }

    /// Computes the classes. The tokens on the right edge of a token's tree, and how many of their merges happen in
    /// time, decide which neighbours the token forbids.
    fn find_classes(&mut self) {
        let trees = &self.trees;
        let len = trees.key.len();
        // For each token, the keys of its merges in ascending order, and whether one of its partners can be created
        // later than the merge. If so, the time at which the token is consumed counts too.
        let mut keys = self.by_left.key.clone();
        let mut is_improper = vec![false; len];
        for (token, is_improper) in (0u32..).zip(&mut is_improper) {
            keys[self.by_left.range(token)].sort_unstable();
            *is_improper = self.by_left.of(token).any(|(partner, key)| trees.time[partner as usize] >= key);
        }
        let mut classes: HashMap<Vec<(u32, u32, MergeKey)>, u32> = HashMap::new();
        let (mut signature, mut class_token) = (Vec::new(), Vec::new());
        for token in (0u32..).take(len) {
            if !trees.is_reachable(token) {
                continue;
            }
            signature.clear();
            trees.on_edge(&trees.right, token, |at, above| {
                let end = above.map_or(MergeKey::NEVER, |above| trees.right_end(above));
                let in_time = keys[self.by_left.range(at)].partition_point(|key| *key < end);
                if in_time > 0 {
                    let until = above.map_or(MergeKey::NEVER, |above| trees.time[above as usize]);
                    let until = if is_improper[at as usize] { until } else { MergeKey::SYMBOL };
                    signature.push((at, index(in_time), until));
                }
            });
            self.class[token as usize] = match classes.get(&signature) {
                Some(class) => *class,
                None => {
                    let class = index(class_token.len());
                    class_token.push(token);
                    classes.insert(signature.clone(), class);
                    class
                }
            };
        }
        self.class_token = class_token.into();
    }

    /// The class of `token`, which is reachable.
    #[inline]
    pub(crate) fn class(&self, token: u32) -> TokenClass {
        TokenClass::of(self.class[token as usize])
    }

    /// Calls `each` with the intervals of the order of `lefts` that contain the tokens forbidden after `token`,
    /// which is reachable. The intervals may overlap.
    fn forbidden_next_intervals(&self, token: u32, mut each: impl FnMut(&[u32])) {
        let trees = &self.trees;
        trees.on_edge(&trees.right, token, |at, above| {
            let end = above.map_or(MergeKey::NEVER, |above| trees.right_end(above));
            let until = above.map_or(MergeKey::NEVER, |above| trees.time[above as usize]);
            let since = trees.time[at as usize];
            for (partner, key) in self.by_left.of(at) {
                let partner_since = trees.time[partner as usize];
                if key < end && partner_since < until && self.happens(key, since.max(partner_since)) {
                    let counts = |child| since <= trees.time[child as usize] && key <= trees.left_end(child);
                    self.lefts.subtrees(&trees.left, &trees.time, partner, key.max(since), counts, &mut each);
                }
            }
        });
    }

    /// Whether a merge with `key` of two tokens that exist from `since` on happens at all. Unreachable tokens exist
    /// from [`MergeKey::NEVER`] on.
    pub(crate) fn happens(&self, key: MergeKey, since: MergeKey) -> bool {
        since != MergeKey::NEVER && (self.trees.order == MergeOrder::LowestRank || key > since)
    }

    /// Calls `each` with the tokens that must not follow `token`. A token may be reported several times.
    pub(crate) fn forbidden_next(&self, token: u32, mut each: impl FnMut(u32)) {
        self.forbidden_next_intervals(token, |tokens| tokens.iter().for_each(|token| each(*token)));
    }

    /// Whether `right` may follow `left` in a piece. Both are reachable. The pair test: O(depth) look-ups.
    pub(crate) fn may_follow(&self, left: u32, right: u32) -> bool {
        let key = |left, right| self.by_left.key(left, right);
        !super::pair::crosses(&self.trees, key, left, right, false)
    }

    /// In bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        let Derivations { key, time, left, right, .. } = &self.trees;
        let lists = [left, right, &self.class];
        lists.iter().map(|list| size_of_val(&list[..])).sum::<usize>()
            + size_of_val(&key[..])
            + size_of_val(&time[..])
            + size_of_val(self.class_token.entries())
            + self.lefts.memory_usage()
            + self.by_left.memory_usage()
    }
}

fn index(value: usize) -> u32 {
    u32::try_from(value).expect("token ids are 32 bits wide")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use unskew_core::TokenId;

    use super::*;
    use crate::canonical::{
        merges::encode,
        testing::{Listing, Random, table},
    };

    /// Compares trees, intervals in both directions and the pair test with encoding two tokens together, for every
    /// pair of every table. Also checks that the tokens of one class forbid the same neighbours.
    #[test]
    fn neighbours_are_what_encoding_keeps_apart() {
        let mut late = 0;
        for seed in 0..3_000 {
            let mut random = Random::new(seed);
            let letters = 1 + random.below(3);
            let listing = [Listing::Proper, Listing::AllSplits, Listing::Shuffled][random.below(3)];
            let count = 1 + random.below(20);
            let (texts, merges) = table(&mut random, letters, count, listing);
            for order in [MergeOrder::LowestRank, MergeOrder::Passes] {
                let context = format!("seed {seed}, {listing:?}, {order:?}");
                let lengths = |token: u32| texts[token as usize].len();
                let symbols = (0..letters).map(TokenId::from_index);
                let trees = Derivations::new(texts.len(), lengths, symbols, &merges, order);
                let bigrams = BigramRelation::new(trees, &merges);
                late += bigrams
                    .trees
                    .key
                    .iter()
                    .zip(&bigrams.trees.time)
                    .filter(|(key, time)| key < time)
                    .count();
                let encoded = |text: &[u8]| {
                    let mut piece: Vec<u32> = text.iter().map(|byte| u32::from(byte - b'a')).collect();
                    encode::merge(&mut piece, &merges, order);
                    piece
                };
                let tokens = || 0..u32::try_from(texts.len()).unwrap();
                let text = |token: u32| &texts[token as usize];
                for token in tokens() {
                    assert_eq!(
                        bigrams.trees.is_reachable(token),
                        encoded(text(token)) == [token],
                        "{context}: {token}"
                    );
                }
                let reachable = || tokens().filter(|token| bigrams.trees.is_reachable(*token));
                let mut of_class = HashMap::new();
                for left in reachable() {
                    let expected: BTreeSet<u32> = reachable()
                        .filter(|right| encoded(&[&text(left)[..], text(*right)].concat()) != [left, *right])
                        .collect();
                    let mut found = BTreeSet::new();
                    bigrams.forbidden_next(left, |token| _ = found.insert(token));
                    assert_eq!(found, expected, "{context}: after {left}");
                    for right in reachable() {
                        assert_eq!(bigrams.may_follow(left, right), !expected.contains(&right), "{context}");
                    }
                    let class = bigrams.class(left);
                    assert_eq!(of_class.entry(class).or_insert(expected.clone()), &expected, "{context}");
                }
            }
        }
        assert!(late > 100, "{late}: shuffled tables have tokens that rank before their parts");
    }
}
