//! Which tokens may stand next to a given one, for all tokens at once.
//!
//! By the pair test a neighbour `u` of `t` is forbidden because of one merge `a b` of a token `a` on the right edge of
//! `t`'s tree and a token `b` on the left edge of `u`'s, which happens before either is used up. Put all tokens into a
//! forest in which the parent of a token is its left part: then `b` is on the left edge of `u` exactly when `u` lies in
//! the subtree of `b`, and "used up too late" means that `u` is `b` itself or lies under a child of `b` that is made late
//! enough. With the children of `b` in order from the last made to the first, depth first, these tokens are **one
//! interval**. So the set of the neighbours that `t` forbids is a union of intervals, one for each merge whose left part
//! lies on the right edge of `t` and comes in time, and nothing needs to be stored for it but the two forests: for 128,000
//! tokens a few megabytes, where lists of forbidden pairs would take gigabytes.
//!
//! This is the automaton of all proper sequences (DirectMerge's appendix, Algorithm 3) in another form: its states are
//! the classes of tokens that forbid the same neighbours ([`Neighbours::class`]).

use std::{
    cmp::{Ordering, Reverse},
    collections::HashMap,
    ops::Range,
};

use unskew_core::{Merge, MergeTable, TokenId};

use super::derivation::{Derivations, MergeOrder, NONE};

/// All tokens below their left parts, or below their right parts, depth first, later made children first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Forest {
    /// The tokens that are made, in depth-first order.
    pub(crate) order: Vec<u32>,
    /// The position of each token in `order`; [`NONE`] for tokens that are not made.
    pub(crate) position: Vec<u32>,
    /// By position: the end of the subtree.
    pub(crate) end: Vec<u32>,
    /// `children[first_child[t]..first_child[t + 1]]` are the children of token `t`, the last made first.
    pub(crate) first_child: Vec<u32>,
    pub(crate) children: Vec<u32>,
}

impl Forest {
    /// The forest in which the parent of a token is `parent[token]`.
    fn new(trees: &Derivations, parent: &[u32]) -> Self {
        let len = parent.len();
        let mut tokens: Vec<u32> = (0u32..).take(len).filter(|token| trees.is_made(*token)).collect();
        // By parent, and below a parent from the last made to the first; roots are behind all others.
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

        let mut forest = Self {
            order: Vec::with_capacity(roots.len() + children.len()),
            position: vec![NONE; len],
            end: vec![0; roots.len() + children.len()],
            first_child,
            children,
        };
        // A token is opened, its children are, and then it is closed.
        let mut open: Vec<(u32, bool)> = roots.iter().rev().map(|root| (*root, true)).collect();
        while let Some((token, opens)) = open.pop() {
            if opens {
                forest.position[token as usize] = index(forest.order.len());
                forest.order.push(token);
                open.push((token, false));
                open.extend(forest.children_of(token).iter().rev().map(|child| (*child, true)));
            } else {
                forest.end[forest.position[token as usize] as usize] = index(forest.order.len());
            }
        }
        forest
    }

    /// The forest in which the parent of a token is `parent[token]` and that has its tokens in this depth-first order.
    /// `None` if it is not such an order of the tokens that are made, with later made children first. There is one only if
    /// no token is above itself.
    fn from_order(order: Vec<u32>, trees: &Derivations, parent: &[u32]) -> Option<Self> {
        let mut position = vec![NONE; parent.len()];
        let mut end = vec![0; order.len()];
        // The positions of the tokens whose subtrees are not complete.
        let mut open: Vec<u32> = Vec::new();
        for (at, token) in (0u32..).zip(order.iter().copied()) {
            let parent = *parent.get(token as usize)?;
            while let Some(last) = open.last().copied().filter(|last| order[*last as usize] != parent) {
                end[last as usize] = at;
                open.pop();
            }
            if (parent != NONE && open.is_empty()) || position[token as usize] != NONE {
                return None;
            }
            position[token as usize] = at;
            open.push(at);
        }
        open.iter().for_each(|last| end[*last as usize] = index(order.len()));

        let mut first_child = Vec::with_capacity(parent.len() + 1);
        let mut children = Vec::with_capacity(order.len());
        for (token, position) in position.iter().copied().enumerate() {
            first_child.push(index(children.len()));
            if (position == NONE) != (trees.key[token] == NONE) {
                return None;
            }
            if position == NONE {
                continue;
            }
            let (mut at, mut before) = (position as usize + 1, u32::MAX);
            while at < end[position as usize] as usize {
                let child = order[at];
                let time = trees.time[child as usize];
                if time > before {
                    return None;
                }
                children.push(child);
                (at, before) = (end[at] as usize, time);
            }
        }
        first_child.push(index(children.len()));
        Some(Self { order, position, end, first_child, children })
    }

    fn children_of(&self, token: u32) -> &[u32] {
        let range = self.first_child[token as usize] as usize..self.first_child[token as usize + 1] as usize;
        &self.children[range]
    }

    /// Calls `each` with intervals of `order`: `token` itself and what lies below those of its children that are made at
    /// `since` or later and for which `counts` holds, which is asked only of children made at the same time as `token`.
    fn subtrees(
        &self,
        times: &[u32],
        token: u32,
        since: u32,
        counts: impl Fn(u32) -> bool,
        mut each: impl FnMut(Range<u32>),
    ) {
        let time = times[token as usize];
        let begin = self.position[token as usize];
        let children = self.children_of(token);
        let late = children.partition_point(|child| times[*child as usize] >= since.max(time + 1));
        let end_of = |child: u32| self.end[self.position[child as usize] as usize];
        each(begin..late.checked_sub(1).map_or(begin + 1, |last| end_of(children[last])));
        // Children that follow their part at once: rare, and behind the others.
        let at_once = children.partition_point(|child| times[*child as usize] > time);
        for child in children[at_once..].iter().filter(|child| counts(**child)) {
            each(self.position[*child as usize]..end_of(*child));
        }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let lists = [&self.order, &self.position, &self.end, &self.first_child, &self.children];
        lists.iter().map(|list| size_of_val(&list[..])).sum()
    }
}

/// The merges of each token with a partner on one side.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Partners {
    /// The partners of token `t` are at `first[t]..first[t + 1]`, in ascending order.
    pub(crate) first: Vec<u32>,
    pub(crate) partner: Vec<u32>,
    /// 1 + the rank of the merge.
    pub(crate) key: Vec<u32>,
}

impl Partners {
    fn new(len: usize, merges: impl Iterator<Item = (u32, u32, u32)>) -> Self {
        let mut merges: Vec<(u32, u32, u32)> = merges.collect();
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

    /// The partners in `len` ids by the keys of their merges, where `sides` tells a merge's token and its partner. `None`
    /// if they are not in order, or not tokens that are made.
    fn from_keys(
        len: usize,
        key: Vec<u32>,
        trees: &Derivations,
        merges: &MergeTable,
        sides: impl Fn(&Merge) -> (TokenId, TokenId),
    ) -> Option<Self> {
        let mut first = Vec::with_capacity(len + 1);
        first.push(0);
        let mut partner = Vec::with_capacity(key.len());
        for (at, key) in (0u32..).zip(&key) {
            let (token, other) = sides(merges.merges().get((*key as usize).checked_sub(1)?)?);
            let is_made = |token: TokenId| trees.key.get(token.index()).is_some_and(|key| *key != NONE);
            if !is_made(token) || !is_made(other) {
                return None;
            }
            let begins = token.index() >= first.len();
            if begins {
                first.resize(token.index() + 1, at);
            }
            let ascends = begins || partner.last().is_none_or(|last| *last < other.0);
            // Of an earlier token's merges there are no more once a later one's have begun.
            if !ascends || token.index() + 1 != first.len() {
                return None;
            }
            partner.push(other.0);
        }
        first.resize(len + 1, index(key.len()));
        Some(Self { first, partner, key })
    }

    fn range(&self, token: u32) -> Range<usize> {
        self.first[token as usize] as usize..self.first[token as usize + 1] as usize
    }

    /// Partners and keys.
    fn of(&self, token: u32) -> impl Iterator<Item = (u32, u32)> {
        let range = self.range(token);
        self.partner[range.clone()].iter().copied().zip(self.key[range].iter().copied())
    }

    /// The partners of `token`, in ascending order.
    pub(crate) fn partners(&self, token: u32) -> impl Iterator<Item = u32> {
        self.of(token).map(|(partner, _)| partner)
    }

    /// When `token` and `partner` are merged.
    pub(crate) fn key(&self, token: u32, partner: u32) -> Option<u32> {
        let range = self.range(token);
        let at = self.partner[range.clone()].binary_search(&partner).ok()?;
        Some(self.key[range.start + at])
    }

    pub(crate) fn memory_usage(&self) -> usize {
        [&self.first, &self.partner, &self.key].iter().map(|list| size_of_val(&list[..])).sum()
    }
}

/// The tokens that may be neighbours in a piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Neighbours {
    pub(crate) trees: Derivations,
    /// Below left parts.
    pub(crate) lefts: Forest,
    /// Below right parts.
    pub(crate) rights: Forest,
    /// By left token.
    pub(crate) by_left: Partners,
    /// By right token.
    pub(crate) by_right: Partners,
    /// By token: tokens of one class forbid the same right neighbours. [`NONE`] for tokens that are not made.
    pub(crate) class: Vec<u32>,
    /// A token of each class.
    pub(crate) class_token: Vec<u32>,
}

impl Neighbours {
    /// Cost: O(m log m) for m merges.
    pub(crate) fn new(trees: Derivations, merges: &MergeTable) -> Self {
        let len = trees.key.len();
        let made = (1u32..).zip(merges.merges()).filter_map(|(key, merge)| {
            let (left, right) = (merge.left.0, merge.right.0);
            (trees.is_made(left) && trees.is_made(right)).then_some((left, right, key))
        });
        let made: Vec<_> = made.collect();
        let mut neighbours = Self {
            lefts: Forest::new(&trees, &trees.left),
            rights: Forest::new(&trees, &trees.right),
            by_left: Partners::new(len, made.iter().copied()),
            by_right: Partners::new(len, made.iter().map(|(left, right, key)| (*right, *left, *key))),
            class: vec![NONE; len],
            class_token: Vec::new(),
            trees,
        };
        neighbours.find_classes();
        neighbours
    }

    /// The neighbours with these orders of the two forests, these keys of merges in the order of their left parts and of
    /// their right parts, and these classes, [`NONE`] from where the list ends. `None` if they do not fit together.
    pub(crate) fn from_parts(
        trees: Derivations,
        merges: &MergeTable,
        orders: [Vec<u32>; 2],
        keys: [Vec<u32>; 2],
        mut class: Vec<u32>,
    ) -> Option<Self> {
        let len = trees.key.len();
        let [lefts, rights] = orders;
        let [by_left, by_right] = keys;
        if class.len() > len || by_left.len() != by_right.len() {
            return None;
        }
        class.resize(len, NONE);
        let mut class_token = Vec::new();
        for (token, class) in (0u32..).zip(class.iter().copied()) {
            if trees.is_made(token) != (class != NONE) {
                return None;
            }
            // They are numbered as they occur.
            match (class as usize).cmp(&class_token.len()) {
                Ordering::Equal => class_token.push(token),
                Ordering::Greater if class != NONE => return None,
                _ => {}
            }
        }
        Some(Self {
            lefts: Forest::from_order(lefts, &trees, &trees.left)?,
            rights: Forest::from_order(rights, &trees, &trees.right)?,
            by_left: Partners::from_keys(len, by_left, &trees, merges, |merge| (merge.left, merge.right))?,
            by_right: Partners::from_keys(len, by_right, &trees, merges, |merge| (merge.right, merge.left))?,
            class,
            class_token,
            trees,
        })
    }

    /// The classes: what a token forbids is decided by the tokens on the right edge of its tree and by how many of their
    /// merges come in time.
    fn find_classes(&mut self) {
        let trees = &self.trees;
        let len = trees.key.len();
        // For each token the keys of its merges in ascending order, and whether one of its partners can be made later than
        // the merge: then it also counts when exactly the token is used up.
        let mut keys = self.by_left.key.clone();
        let mut is_improper = vec![false; len];
        for token in 0..len {
            let range = self.by_left.range(index(token));
            keys[range].sort_unstable();
            is_improper[token] =
                self.by_left.of(index(token)).any(|(partner, key)| trees.time[partner as usize] >= key);
        }
        let mut classes: HashMap<Vec<(u32, u32, u32)>, u32> = HashMap::new();
        let mut signature = Vec::new();
        for token in (0u32..).take(len) {
            if !trees.is_made(token) {
                continue;
            }
            signature.clear();
            trees.on_edge(&trees.right, token, |at, above| {
                let end = above.map_or(u32::MAX, |above| trees.right_end(above));
                let in_time = keys[self.by_left.range(at)].partition_point(|key| *key < end);
                if in_time > 0 {
                    let until = above.map_or(u32::MAX, |above| trees.time[above as usize]);
                    signature.push((at, index(in_time), if is_improper[at as usize] { until } else { 0 }));
                }
            });
            self.class[token as usize] = match classes.get(&signature) {
                Some(class) => *class,
                None => {
                    let class = index(self.class_token.len());
                    self.class_token.push(token);
                    classes.insert(signature.clone(), class);
                    class
                }
            };
        }
    }

    /// Calls `each` with the intervals of the order of `lefts` whose tokens must not follow `token`, which is made. They
    /// may overlap.
    fn forbidden_intervals(&self, token: u32, mut each: impl FnMut(Range<u32>)) {
        let trees = &self.trees;
        trees.on_edge(&trees.right, token, |at, above| {
            let end = above.map_or(u32::MAX, |above| trees.right_end(above));
            let until = above.map_or(u32::MAX, |above| trees.time[above as usize]);
            let since = trees.time[at as usize];
            for (partner, key) in self.by_left.of(at) {
                let partner_since = trees.time[partner as usize];
                if key < end && partner_since < until && self.happens(key, since.max(partner_since)) {
                    let counts = |child| since <= trees.time[child as usize] && key <= trees.left_end(child);
                    self.lefts.subtrees(&trees.time, partner, key.max(since), counts, &mut each);
                }
            }
        });
    }

    /// As [`forbidden_intervals`](Self::forbidden_intervals) the other way round: intervals of `rights` with the tokens
    /// that `token` must not follow.
    fn forbidding_intervals(&self, token: u32, mut each: impl FnMut(Range<u32>)) {
        let trees = &self.trees;
        trees.on_edge(&trees.left, token, |at, above| {
            // At equal rank the left one of two merges comes first.
            let end = above.map_or(u32::MAX, |above| trees.left_end(above));
            let until = above.map_or(u32::MAX, |above| trees.time[above as usize]);
            let since = trees.time[at as usize];
            for (partner, key) in self.by_right.of(at) {
                let partner_since = trees.time[partner as usize];
                if key <= end && partner_since <= until && self.happens(key, since.max(partner_since)) {
                    let counts = |child| since < trees.time[child as usize] && key < trees.right_end(child);
                    self.rights.subtrees(&trees.time, partner, key.max(since) + 1, counts, &mut each);
                }
            }
        });
    }

    /// Whether a merge at `key` of two tokens that exist from `since` on happens at all.
    fn happens(&self, key: u32, since: u32) -> bool {
        self.trees.order == MergeOrder::LowestRank || key > since
    }

    /// Calls `each` with the tokens that must not follow `token`, some perhaps several times.
    pub(crate) fn forbidden(&self, token: u32, mut each: impl FnMut(u32)) {
        self.forbidden_intervals(token, |range| {
            self.lefts.order[range.start as usize..range.end as usize].iter().for_each(|token| each(*token));
        });
    }

    /// Calls `each` with the tokens that `token` must not follow, some perhaps several times.
    pub(crate) fn forbidding(&self, token: u32, mut each: impl FnMut(u32)) {
        self.forbidding_intervals(token, |range| {
            self.rights.order[range.start as usize..range.end as usize].iter().for_each(|token| each(*token));
        });
    }

    /// Whether `right` may follow `left` in a piece; both are made. By the pair test: O(depth) look-ups.
    pub(crate) fn may_follow(&self, left: u32, right: u32) -> bool {
        !super::pair::crosses(&self.trees, |left, right| self.by_left.key(left, right), left, right, false)
    }

    /// In bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        let Derivations { key, time, left, right, .. } = &self.trees;
        let lists = [key, time, left, right, &self.class, &self.class_token];
        lists.iter().map(|list| size_of_val(&list[..])).sum::<usize>()
            + self.lefts.memory_usage()
            + self.rights.memory_usage()
            + self.by_left.memory_usage()
            + self.by_right.memory_usage()
    }
}

fn index(value: usize) -> u32 {
    u32::try_from(value).expect("token ids are 32 bits wide")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{
        super::{
            encode,
            testing::{Listing, Random, table},
        },
        *,
    };

    /// Trees, intervals in both directions and the pair test against encoding the two tokens together, for every pair of
    /// every table; and that classes forbid the same.
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
                let neighbours = Neighbours::new(trees, &merges);
                late += neighbours
                    .trees
                    .key
                    .iter()
                    .zip(&neighbours.trees.time)
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
                        neighbours.trees.is_made(token),
                        encoded(text(token)) == [token],
                        "{context}: {token}"
                    );
                }
                let made = || tokens().filter(|token| neighbours.trees.is_made(*token));
                let mut of_class = HashMap::new();
                for left in made() {
                    let expected: BTreeSet<u32> = made()
                        .filter(|right| encoded(&[&text(left)[..], text(*right)].concat()) != [left, *right])
                        .collect();
                    let mut found = BTreeSet::new();
                    neighbours.forbidden(left, |token| _ = found.insert(token));
                    assert_eq!(found, expected, "{context}: after {left}");
                    for right in made() {
                        assert_eq!(
                            neighbours.may_follow(left, right),
                            !expected.contains(&right),
                            "{context}"
                        );
                        let mut found = false;
                        neighbours.forbidding(right, |token| found |= token == left);
                        assert_eq!(found, expected.contains(&right), "{context}: {left} before {right}");
                    }
                    let class = neighbours.class[left as usize];
                    assert_eq!(of_class.entry(class).or_insert(expected.clone()), &expected, "{context}");
                }
            }
        }
        assert!(late > 100, "{late}: shuffled tables have tokens that rank before their parts");
    }
}
