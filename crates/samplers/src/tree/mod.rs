//! The prefixes of outputs that a sampler has visited, each with an upper bound on the probability of completing an
//! accepted output.
//!
//! The bound of a prefix is the logarithm of c~ of grammar-aligned decoding (section 3). It is 0 at an unknown
//! prefix. Otherwise it is the sum over the possible continuations, each with its probability times the bound of the
//! prefix after it. The bound never lies below the probability that the model, from that prefix, completes an
//! accepted output. It is minus infinity at a dead end.
//!
//! The tree keeps visited prefixes only. In addition to its visited children, a node has one number for the mass of
//! all allowed tokens that were never visited ([`unexplored`](PrefixTree::unexplored)). Tokens that the mask forbids
//! are in no number. So a node takes some 100 bytes for a vocabulary of any size, and learning from an output of n
//! tokens touches n nodes. The published code makes a child of every token of the mask, and for each token adds all
//! children up again.
//!
//! All numbers are natural logarithms: the probability of a long output is far below the least `f64`. Sums over
//! children are corrected by differences, and made again from the children before the differences lose their digits.
//!
//! A tree knows no model and no constraint; [`Session`](crate::session::Session) reads rows and masks into it. A node
//! is *scored* when its row of the model was read: that is a cache, and changes no proposal. A node is *backed up*
//! when it counts in the bounds above it, which changes the proposals of all rollouts.
//!
//! Nodes are forgotten, least recently used first, and give their mass back to their parents with a bound of one. To
//! keep the bound of a forgotten subtree would be wrong: its next visit proposes from the model itself, as at every
//! new prefix, and the bound would then count twice.

mod edges;
mod file;

use unskew_core::{TokenId, logprob::log_sum_exp};

pub(crate) use edges::Edge;
use edges::Edges;
pub use file::TrieFileError;
pub(crate) use file::{Header, read, write};

/// A visited prefix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct NodeId(u32);

impl NodeId {
    /// The new id after a [`shrink`](PrefixTree::shrink) that answered with `map`.
    pub(crate) fn renamed(self, map: &[Option<Self>]) -> Option<Self> {
        map.get(self.0 as usize).copied().flatten()
    }
}

/// The numbers of a prefix, from its row of the model and its mask. Natural logarithms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct NodeStats {
    /// The probability that the sequence ends here; minus infinity where it may not.
    pub(crate) eos: f64,
    /// The probability of all tokens that may be proposed.
    pub(crate) tokens: f64,
    /// The mass of the model's distribution that the mask leaves, the end included.
    pub(crate) valid_mass: f64,
    /// Whether the output may not end here and only one token is allowed.
    pub(crate) forced: bool,
}

impl NodeStats {
    /// The numbers of a prefix without a continuation.
    pub(crate) const DEAD: Self = Self {
        eos: f64::NEG_INFINITY,
        tokens: f64::NEG_INFINITY,
        valid_mass: f64::NEG_INFINITY,
        forced: false,
    };

    /// The numbers of a prefix at which the output ends for certain.
    pub(crate) const OVER: Self =
        Self { eos: 0.0, tokens: f64::NEG_INFINITY, valid_mass: 0.0, forced: false };
}

/// A node takes at most 100 bytes with its first child: a test checks the size.
#[derive(Clone, Debug)]
struct Node {
    /// The parent; the root is its own parent.
    parent: u32,
    /// The last token of the prefix; meaningless at the root.
    token: TokenId,
    depth: u32,
    /// The last visit, by the tree's clock: never before the last visit of a child.
    used: u32,
    /// The log-probability of the token after the parent; NaN until it is known.
    log_p: f64,
    eos: f64,
    valid_mass: f64,
    /// The mass of the tokens that may be proposed and have no edge that counts.
    unexplored: f64,
    /// The sum of the weights of the edges that count.
    visited: f64,
    /// The values of `unexplored` and `visited` when they were last summed anew.
    unexplored_anchor: f32,
    visited_anchor: f32,
    /// The number of corrections of `visited` since then.
    corrections: u32,
    scored: bool,
    backed_up: bool,
    forced: bool,
    edges: Edges,
}

impl Node {
    fn new(parent: u32, token: TokenId, depth: u32, used: u32) -> Self {
        Self {
            parent,
            token,
            depth,
            used,
            log_p: f64::NAN,
            eos: f64::NAN,
            valid_mass: f64::NAN,
            unexplored: f64::NAN,
            visited: f64::NEG_INFINITY,
            unexplored_anchor: 0.0,
            visited_anchor: f32::NEG_INFINITY,
            corrections: 0,
            scored: false,
            backed_up: false,
            forced: false,
            edges: Edges::None,
        }
    }

    fn bound(&self) -> f64 {
        if self.backed_up { add([self.eos, self.unexplored, self.visited]) } else { 0.0 }
    }

    /// Adds up the weights of the edges.
    fn sum_edges(&mut self) {
        self.visited = log_sum_exp(self.edges.iter().filter(|edge| edge.counts()).map(|edge| edge.weight));
        self.visited_anchor = to_f32(self.visited);
        self.corrections = 0;
    }

    /// Changes the weight of one edge in the sum from `old` to `new`. `None`: the edge did not count.
    fn correct(&mut self, old: Option<f64>, new: f64) {
        let Some(old) = old else {
            self.visited = add([self.visited, new]);
            self.visited_anchor = self.visited_anchor.max(to_f32(self.visited));
            return;
        };
        self.corrections += 1;
        // A difference keeps its digits while it is not small next to the minuend.
        let left = log_difference(self.visited, old);
        let halved = left < f64::from(self.visited_anchor) - std::f64::consts::LN_2;
        if halved || self.corrections as usize > self.edges.len() {
            self.sum_edges();
        } else {
            self.visited = add([left, new]);
        }
    }
}

/// [`log_sum_exp`] of a few numbers, to the same bits. Mostly all numbers but one are minus infinity: the answer is
/// then that number, and no exponential is needed.
pub(crate) fn add<const N: usize>(values: [f64; N]) -> f64 {
    let mut some = values.iter().filter(|value| **value != f64::NEG_INFINITY);
    match (some.next(), some.next()) {
        (Some(only), None) if only.is_finite() => *only,
        _ => log_sum_exp(values),
    }
}

/// `ln(exp(left) - exp(right))`; minus infinity where the difference is not positive.
pub(crate) fn log_difference(left: f64, right: f64) -> f64 {
    if right >= left { f64::NEG_INFINITY } else { left + (-(right - left).exp()).ln_1p() }
}

#[allow(clippy::cast_possible_truncation, reason = "a mark for when to sum again, not a summand")]
fn to_f32(value: f64) -> f32 {
    value as f32
}

/// A planted error: the tests of distributions must find it.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// A dead end keeps the bound of one.
    DeadEndsStay,
    /// A bound that falls lowers the bound of the parent, and none above the parent.
    BoundsStayBelow,
    /// A rollout under way does not pay for a bound that has fallen since its prefix was proposed.
    FallsAreFree,
}

/// The tree of visited prefixes.
#[derive(Clone, Debug)]
pub(crate) struct PrefixTree {
    #[cfg(test)]
    pub(crate) mutant: Option<Mutant>,
    nodes: Vec<Node>,
    /// The bytes of the edges outside their nodes.
    edge_bytes: usize,
    clock: u32,
}

impl PrefixTree {
    pub(crate) const ROOT: NodeId = NodeId(0);

    pub(crate) fn new() -> Self {
        Self::of(vec![Node::new(0, TokenId::default(), 0, 0)], 0)
    }

    fn of(nodes: Vec<Node>, clock: u32) -> Self {
        Self {
            #[cfg(test)]
            mutant: None,
            nodes,
            edge_bytes: 0,
            clock,
        }
    }

    /// The number of prefixes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The memory of the tree, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node>() + self.edge_bytes
    }

    fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.0 as usize]
    }

    fn node_mut(&mut self, node: NodeId) -> &mut Node {
        &mut self.nodes[node.0 as usize]
    }

    pub(crate) fn depth(&self, node: NodeId) -> usize {
        self.node(node).depth as usize
    }

    pub(crate) fn parent(&self, node: NodeId) -> Option<NodeId> {
        (node != Self::ROOT).then(|| NodeId(self.node(node).parent))
    }

    /// The tokens of a prefix.
    pub(crate) fn tokens(&self, node: NodeId) -> Vec<TokenId> {
        let mut tokens = Vec::with_capacity(self.depth(node));
        let mut at = node;
        while let Some(parent) = self.parent(at) {
            tokens.push(self.node(at).token);
            at = parent;
        }
        tokens.reverse();
        tokens
    }

    pub(crate) fn is_scored(&self, node: NodeId) -> bool {
        self.node(node).scored
    }

    /// Whether the prefix counts in the bounds, so that its own bound is more than the 0 of an unknown prefix.
    pub(crate) fn is_backed_up(&self, node: NodeId) -> bool {
        self.node(node).backed_up
    }

    pub(crate) fn is_forced(&self, node: NodeId) -> bool {
        self.node(node).forced
    }

    /// Whether the output ends at a prefix for certain, so that its row is not needed.
    pub(crate) fn is_over(&self, node: NodeId) -> bool {
        let Node { scored, eos, valid_mass, unexplored, visited, .. } = self.node(node);
        *scored
            && *eos == 0.0
            && *valid_mass == 0.0
            && *unexplored == f64::NEG_INFINITY
            && *visited == f64::NEG_INFINITY
    }

    /// The log-probability that the sequence ends at a scored prefix.
    pub(crate) fn eos(&self, node: NodeId) -> f64 {
        self.node(node).eos
    }

    /// The logarithm of the mass that the mask leaves at a scored prefix.
    pub(crate) fn valid_mass(&self, node: NodeId) -> f64 {
        self.node(node).valid_mass
    }

    /// The logarithm of the mass of the tokens that may be proposed and do not count among the edges.
    pub(crate) fn unexplored(&self, node: NodeId) -> f64 {
        self.node(node).unexplored
    }

    /// The bound of the prefix; see the top of this file.
    pub(crate) fn bound(&self, node: NodeId) -> f64 {
        self.node(node).bound()
    }

    /// The log-probability of a prefix's last token.
    pub(crate) fn log_p(&self, node: NodeId) -> f64 {
        self.node(node).log_p
    }

    /// The visited children, by token.
    pub(crate) fn edges(&self, node: NodeId) -> &[Edge] {
        &self.node(node).edges
    }

    /// The prefix one token longer, which is made if it is new.
    pub(crate) fn child(&mut self, node: NodeId, token: TokenId) -> NodeId {
        let new = NodeId(u32::try_from(self.nodes.len()).expect("memory ends before 2^32 nodes"));
        let Node { depth, edges, .. } = self.node_mut(node);
        let before = edges.bytes();
        let child = edges.find_or_insert(token, new);
        if child == new {
            let (depth, more) = (*depth + 1, edges.bytes() - before);
            self.edge_bytes += more;
            self.nodes.push(Node::new(node.0, token, depth, self.clock));
        }
        child
    }

    /// Begins another rollout: nodes that are touched from now on are more recent than all others.
    pub(crate) fn tick(&mut self) {
        self.clock = self.clock.saturating_add(1);
    }

    /// Records a visit. Rollouts come from the root, so that a parent's last visit is never before its child's.
    pub(crate) fn touch(&mut self, node: NodeId) {
        self.node_mut(node).used = self.clock;
    }

    /// Enters the numbers that were read for a prefix. Only the first call counts: a model may answer differently in
    /// its last digits.
    pub(crate) fn score(&mut self, node: NodeId, facts: NodeStats) {
        let node = self.node_mut(node);
        if node.scored {
            return;
        }
        node.scored = true;
        node.eos = facts.eos;
        node.valid_mass = facts.valid_mass;
        node.unexplored = facts.tokens;
        node.unexplored_anchor = to_f32(facts.tokens);
        node.forced = facts.forced;
    }

    /// Enters the log-probability of a prefix's last token.
    pub(crate) fn set_log_p(&mut self, node: NodeId, log_p: f64) {
        let node = self.node_mut(node);
        if node.log_p.is_nan() {
            node.log_p = log_p;
        }
    }

    /// Takes a prefix and all prefixes above it into the bounds, as far from the root as they are scored: c~ after
    /// one more output (GAD, section 3.2).
    ///
    /// For a node and its depth, `unexplored` answers with the mass of the tokens that do not count among the node's
    /// edges, where the row is at hand. It is called only where a difference would lose digits. Cost: the depth of
    /// the node, and now and then the edges of a node above it.
    pub(crate) fn back_up(
        &mut self,
        node: NodeId,
        mut unexplored: impl FnMut(NodeId, usize, &[Edge]) -> Option<f64>,
    ) {
        // The node must count in its parent. Otherwise a rollout would reach its bound through a parent that takes
        // this bound for one.
        let mut at = node;
        let mut above = node;
        loop {
            let Node { scored, log_p, .. } = *self.node(above);
            let parent = self.parent(above);
            if !scored || (parent.is_some() && log_p.is_nan()) {
                at = parent.unwrap_or(Self::ROOT);
            }
            match parent {
                Some(parent) => above = parent,
                None => break,
            }
        }
        if !self.node(at).scored {
            return;
        }
        #[cfg(test)]
        if self.mutant == Some(Mutant::DeadEndsStay) && self.node(at).valid_mass == f64::NEG_INFINITY {
            return;
        }
        self.node_mut(at).backed_up = true;
        while let Some(parent) = self.parent(at) {
            let Node { token, log_p, .. } = *self.node(at);
            let weight = log_p + self.bound(at);
            let above = self.node_mut(parent);
            above.backed_up = true;
            let index = above.edges.search(token).expect("a node is a child of its parent");
            let old = above.edges[index].weight;
            #[cfg(test)]
            if self.mutant == Some(Mutant::BoundsStayBelow) && !old.is_nan() {
                return;
            }
            let above = self.node_mut(parent);
            if old.to_bits() != weight.to_bits() {
                above.edges[index].weight = weight;
                let old = (!old.is_nan()).then_some(old);
                above.correct(old, weight);
                if old.is_none() {
                    self.take_unexplored(parent, log_p, &mut unexplored);
                }
            }
            at = parent;
        }
    }

    /// Notes that no token of a node is unexplored. The mass that it has for them is a rest of rounding, or was
    /// damaged in a file.
    pub(crate) fn exhaust(&mut self, node: NodeId) {
        let at = self.node_mut(node);
        (at.unexplored, at.unexplored_anchor) = (f64::NEG_INFINITY, f32::NEG_INFINITY);
        if at.backed_up {
            self.back_up(node, |_, _, _| None);
        }
    }

    /// Subtracts the mass of a child from the unexplored mass of its parent.
    fn take_unexplored(
        &mut self,
        node: NodeId,
        log_p: f64,
        unexplored: &mut impl FnMut(NodeId, usize, &[Edge]) -> Option<f64>,
    ) {
        let at = self.node_mut(node);
        if at.forced {
            at.unexplored = f64::NEG_INFINITY;
            return;
        }
        let left = log_difference(at.unexplored, log_p);
        at.unexplored = left;
        if left < f64::from(at.unexplored_anchor) - std::f64::consts::LN_2
            && let Some(exact) = unexplored(node, self.depth(node), &self.node(node).edges)
        {
            let at = self.node_mut(node);
            at.unexplored = exact;
            at.unexplored_anchor = to_f32(exact);
        }
    }

    /// Forgets the least recently used prefixes, until about half of `bytes` is left. Node ids change: the answer has
    /// the new id of each old one.
    pub(crate) fn shrink(&mut self, bytes: usize) -> Vec<Option<NodeId>> {
        // By last use, the newest first: as many as fit. Nodes of one moment are all kept, or none of them is. A
        // child is never kept without its parent, since a parent's last use is not before its child's.
        let each = self.bytes() / self.nodes.len();
        let keep = (bytes / 2 / each.max(1)).clamp(1, self.nodes.len());
        let mut uses: Vec<u32> = self.nodes.iter().map(|node| node.used).collect();
        uses.sort_unstable_by(|left, right| right.cmp(left));
        let oldest = uses.get(keep).copied();
        let kept = |node: &Node| oldest.is_none_or(|oldest| node.used > oldest);

        let mut map: Vec<Option<NodeId>> = vec![None; self.nodes.len()];
        let mut nodes: Vec<Node> = Vec::new();
        let old = std::mem::take(&mut self.nodes);
        for (id, node) in old.iter().enumerate() {
            // Parents come before their children.
            if id == 0 || (kept(node) && map[node.parent as usize].is_some()) {
                map[id] = Some(NodeId(u32::try_from(nodes.len()).expect("no more than there were")));
                let parent = map[node.parent as usize].unwrap_or(Self::ROOT).0;
                nodes.push(Node { parent, edges: Edges::None, ..node.clone() });
            }
        }
        self.edge_bytes = 0;
        for (id, node) in old.iter().enumerate() {
            let Some(new) = map[id] else { continue };
            let new = &mut nodes[new.0 as usize];
            let (mut edges, mut given_back) = (Vec::new(), Vec::new());
            for edge in node.edges.iter() {
                match map[edge.node.0 as usize] {
                    Some(node) => edges.push(Edge { node, ..*edge }),
                    // The child is unknown again, with a bound of one.
                    None if edge.counts() => given_back.push(old[edge.node.0 as usize].log_p),
                    None => {}
                }
            }
            new.edges = edges.into();
            self.edge_bytes += new.edges.bytes();
            if !given_back.is_empty() {
                given_back.push(new.unexplored);
                new.unexplored = log_sum_exp(given_back);
                new.unexplored_anchor = to_f32(new.unexplored);
            }
        }
        self.nodes = nodes;
        self.sum_all();
        map
    }

    /// Whether each backed-up prefix counts in the bound of its parent, which is backed up too.
    #[cfg(test)]
    pub(crate) fn is_consistent(&self) -> bool {
        self.nodes.iter().enumerate().skip(1).all(|(id, node)| {
            let above = &self.nodes[node.parent as usize];
            let edge = above.edges.iter().find(|edge| edge.node.0 as usize == id);
            let counts = edge.is_some_and(Edge::counts);
            counts == node.backed_up && (!counts || above.backed_up)
        })
    }

    /// Makes all bounds anew, the deepest first.
    fn sum_all(&mut self) {
        for id in (0..self.nodes.len()).rev() {
            let bounds: Vec<f64> = self.nodes[id]
                .edges
                .iter()
                .map(|edge| {
                    if edge.counts() { self.node(edge.node).log_p + self.bound(edge.node) } else { f64::NAN }
                })
                .collect();
            let node = &mut self.nodes[id];
            for (edge, weight) in node.edges.iter_mut().zip(bounds) {
                edge.weight = weight;
            }
            node.sum_edges();
        }
    }
}

#[cfg(test)]
mod tests;
