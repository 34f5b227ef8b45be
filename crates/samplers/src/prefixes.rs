//! The prefixes of outputs that a sampler has visited, as a tree: each with what the model and the constraint say
//! about the next token, so that no prefix is evaluated twice.
//!
//! Samplers that reject come back to the same prefixes again and again (the first tokens of every try are drawn from
//! the same row), and what they need of a row is little: the allowed tokens with their probabilities, and the mass of
//! what is not allowed as one number. That is what a node keeps, not a row of logits.
//!
//! The model itself holds one sequence, which follows the walk: to evaluate a prefix, the sequence is truncated to
//! what the two share and the rest is appended in one pass. A sequence of its own for each node was the alternative;
//! it saves the appending, which is cheap, and costs a cache of keys and values per node, which is not.
//!
//! Nothing here is random and nothing is part of a law: a tree that forgets everything gives the same answers.

use std::{collections::HashMap, fmt};

use unskew_core::{Constraint, Cost, Extension, LanguageModel, Logits, Rows, TokenId, TokenMask, logprob};

use crate::{SampleError, Task};

/// The memory that the tree may take before it is emptied, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// A visited prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeId(usize);

/// What may follow a prefix.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Step {
    /// The allowed tokens, ascending; none at the length limit.
    pub(crate) tokens: Vec<TokenId>,
    /// The model's probability of each; none of them is zero.
    pub(crate) probabilities: Vec<f64>,
    /// The probability that the sequence ends here; zero where the constraint does not accept.
    pub(crate) stop: f64,
    /// `stop` and all `probabilities` together: what the mask leaves of the model's distribution.
    pub(crate) mass: f64,
    /// Of each token: its probability times the bound of the prefix that it leads to.
    pub(crate) weights: Vec<f64>,
    /// `stop` and all `weights` together: an upper bound on the probability that the model, from here, completes an
    /// accepted output. It is `mass` at first and falls as longer prefixes are evaluated; 0 at a dead end.
    pub(crate) bound: f64,
}

struct Node<S> {
    parent: Option<NodeId>,
    /// The last token of the prefix; meaningless at the root.
    token: TokenId,
    depth: usize,
    state: S,
    step: Option<Step>,
    children: HashMap<TokenId, NodeId>,
}

/// The tree of visited prefixes of one task.
pub(crate) struct Prefixes<M: LanguageModel, C: Constraint> {
    task: Task<M, C>,
    scratch: C::Scratch,
    nodes: Vec<Node<C::State>>,
    bytes: usize,
    max_bytes: usize,
    sequence: M::Sequence,
    /// The output tokens in `sequence`, after the prompt.
    cursor: Vec<TokenId>,
    /// Whether `sequence` holds the prompt yet.
    prompted: bool,
    logits: Logits,
    mask: TokenMask,
    cost: Cost,
}

impl<M: LanguageModel, C: Constraint> fmt::Debug for Prefixes<M, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefixes")
            .field("nodes", &self.nodes.len())
            .field("bytes", &self.bytes)
            .field("max_tokens", &self.task.max_tokens)
            .finish_non_exhaustive()
    }
}

impl<M: LanguageModel, C: Constraint> Prefixes<M, C> {
    pub(crate) const ROOT: NodeId = NodeId(0);

    pub(crate) fn new(mut task: Task<M, C>) -> Self {
        let scratch = task.constraint.scratch();
        let mask = TokenMask::new(task.constraint.vocab_len());
        let sequence = task.model.start();
        let mut prefixes = Self {
            task,
            scratch,
            nodes: Vec::new(),
            bytes: 0,
            max_bytes: MAX_BYTES,
            sequence,
            cursor: Vec::new(),
            prompted: false,
            logits: Logits::new(),
            mask,
            cost: Cost::default(),
        };
        prefixes.forget();
        prefixes
    }

    /// The most tokens of an output.
    pub(crate) fn max_tokens(&self) -> usize {
        self.task.max_tokens
    }

    /// What was spent on the model since the last call.
    pub(crate) fn take_cost(&mut self) -> Cost {
        std::mem::take(&mut self.cost)
    }

    /// The positions evaluated since the last [`take_cost`](Self::take_cost).
    pub(crate) fn positions(&self) -> u64 {
        self.cost.positions
    }

    /// Empties the tree if it has grown beyond its limit. Between two proposals only: node ids do not survive it.
    pub(crate) fn keep_within_limit(&mut self) {
        if self.bytes > self.max_bytes {
            self.forget();
        }
    }

    fn forget(&mut self) {
        let state = self.task.constraint.start();
        self.nodes.clear();
        self.nodes.push(Node {
            parent: None,
            token: TokenId::default(),
            depth: 0,
            state,
            step: None,
            children: HashMap::new(),
        });
        self.bytes = 0;
    }

    /// The output tokens of a prefix.
    pub(crate) fn tokens(&self, node: NodeId) -> Vec<TokenId> {
        let mut tokens = Vec::with_capacity(self.nodes[node.0].depth);
        let mut at = node;
        while let Some(parent) = self.nodes[at.0].parent {
            tokens.push(self.nodes[at.0].token);
            at = parent;
        }
        tokens.reverse();
        tokens
    }

    /// The prefix one token longer.
    ///
    /// # Panics
    ///
    /// If the constraint does not allow the token.
    pub(crate) fn child(&mut self, node: NodeId, token: TokenId) -> NodeId {
        if let Some(child) = self.nodes[node.0].children.get(&token) {
            return *child;
        }
        let mut state = self.nodes[node.0].state.clone();
        self.task
            .constraint
            .advance(&mut self.scratch, &mut state, token)
            .expect("a token of the mask is allowed");
        let child = NodeId(self.nodes.len());
        let depth = self.nodes[node.0].depth + 1;
        self.nodes.push(Node {
            parent: Some(node),
            token,
            depth,
            state,
            step: None,
            children: HashMap::new(),
        });
        self.nodes[node.0].children.insert(token, child);
        // A node, its entry in the parent's map with room to spare, and a state of unknown size.
        self.bytes += size_of::<Node<C::State>>() + 64;
        child
    }

    /// The token that must follow, where there is only one and the output may not end: its choice needs no model.
    pub(crate) fn forced(&mut self, node: NodeId) -> Option<TokenId> {
        let Node { depth, state, .. } = &self.nodes[node.0];
        (*depth < self.task.max_tokens).then(|| self.task.constraint.forced(&mut self.scratch, state))?
    }

    /// Whether a prefix was evaluated.
    pub(crate) fn is_known(&self, node: NodeId) -> bool {
        self.nodes[node.0].step.is_some()
    }

    /// Takes into the bounds of a prefix's ancestors what its evaluation, and theirs, found. The sums are made again
    /// and not corrected by differences, which would lose the small bounds in the rounding of the large ones.
    pub(crate) fn tighten_above(&mut self, node: NodeId) {
        let mut at = node;
        while let Some(parent) = self.nodes[at.0].parent {
            let token = self.nodes[at.0].token;
            let bound = self.nodes[at.0].step.as_ref().map_or(1.0, |step| step.bound);
            if let Some(step) = &mut self.nodes[parent.0].step
                && let Ok(index) = step.tokens.binary_search(&token)
            {
                let weight = step.probabilities[index] * bound;
                // Where nothing was learnt, most of a walk over known prefixes, there is nothing to add up.
                if step.weights[index].to_bits() != weight.to_bits() {
                    step.weights[index] = weight;
                    step.bound = step.stop + step.weights.iter().sum::<f64>();
                }
            }
            at = parent;
        }
    }

    /// What may follow a prefix. Evaluates it, and those of its ancestors that were not evaluated, in one pass.
    pub(crate) fn step(&mut self, node: NodeId) -> Result<&Step, SampleError<M::Error>> {
        if self.nodes[node.0].step.is_none() {
            self.evaluate(node)?;
        }
        Ok(self.nodes[node.0].step.as_ref().expect("just evaluated"))
    }

    fn evaluate(&mut self, node: NodeId) -> Result<(), SampleError<M::Error>> {
        if !self.is_known(Self::ROOT) {
            self.evaluate_root()?;
            if node == Self::ROOT {
                return Ok(());
            }
        }

        let path = self.tokens(node);
        let mut unknown = vec![node];
        let mut at = node;
        while let Some(parent) = self.nodes[at.0].parent {
            at = parent;
            if self.nodes[at.0].step.is_none() {
                unknown.push(at);
            }
        }
        unknown.reverse();

        // The row of a prefix is computed when its last token is appended: keep only what lies before the first one.
        let first = self.nodes[unknown[0].0].depth;
        let shared = self.cursor.iter().zip(&path).take_while(|(left, right)| left == right).count();
        let keep = shared.min(first - 1);
        self.task.model.truncate(&mut self.sequence, self.task.prompt.len() + keep);
        self.cursor.truncate(keep);
        let rows = if unknown.len() == 1 { Rows::Last } else { Rows::All };
        self.extend(&path[keep..], rows)?;
        self.cursor.extend_from_slice(&path[keep..]);
        for node in unknown {
            let row = match rows {
                Rows::Last => 0,
                Rows::All => self.nodes[node.0].depth - keep - 1,
            };
            self.read_row(node, row)?;
        }
        Ok(())
    }

    /// Appends the prompt; where it is appended already, because the tree was emptied, asks for its last row again.
    fn evaluate_root(&mut self) -> Result<(), SampleError<M::Error>> {
        if self.prompted {
            self.task.model.truncate(&mut self.sequence, self.task.prompt.len());
            self.cursor.clear();
            self.extend(&[], Rows::Last)?;
        } else {
            self.extend(&self.task.prompt.clone(), Rows::Last)?;
            self.prompted = true;
        }
        self.read_row(Self::ROOT, 0)
    }

    fn extend(&mut self, tokens: &[TokenId], rows: Rows) -> Result<(), SampleError<M::Error>> {
        let extension = Extension { sequence: &mut self.sequence, tokens, rows };
        self.task.model.extend(&mut [extension], &mut self.logits).map_err(SampleError::Model)?;
        // Asking for the last row again evaluates one position.
        self.cost.positions += tokens.len().max(1) as u64;
        self.cost.passes += 1;
        Ok(())
    }

    /// Keeps of a row of logits what the constraint allows after `node`.
    fn read_row(&mut self, node: NodeId, row: usize) -> Result<(), SampleError<M::Error>> {
        let Node { depth, state, .. } = &self.nodes[node.0];
        let row = self.logits.row(row);
        let normalizer = logprob::log_normalizer(row);
        if !normalizer.is_finite() {
            return Err(SampleError::NotADistribution { tokens: *depth });
        }
        let probability = |id: TokenId| {
            // A constraint may cover padding beyond the model's row.
            row.get(id.index()).map_or(0.0, |logit| (f64::from(*logit) - normalizer).exp())
        };
        let constraint = &self.task.constraint;
        let stop = if constraint.is_accepting(state) {
            self.task.end.iter().map(|id| probability(*id)).sum()
        } else {
            0.0
        };
        let (mut tokens, mut probabilities) = (Vec::new(), Vec::new());
        if *depth < self.task.max_tokens {
            let mask = match constraint.ready_mask(&self.scratch, state) {
                Some(mask) => mask,
                None => {
                    constraint.fill_mask(&mut self.scratch, state, self.mask.as_mut());
                    self.mask.as_ref()
                }
            };
            for (id, probability) in mask.into_ids().map(|id| (id, probability(id))) {
                if probability > 0.0 {
                    tokens.push(id);
                    probabilities.push(probability);
                }
            }
        }
        let mass = stop + probabilities.iter().sum::<f64>();
        self.bytes += size_of_val(&tokens[..]) + 2 * size_of_val(&probabilities[..]);
        let weights = probabilities.clone();
        self.nodes[node.0].step = Some(Step { tokens, probabilities, stop, mass, weights, bound: mass });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use unskew_core::{TableModel, Unconstrained};

    use super::*;

    fn prefixes() -> Prefixes<TableModel, Unconstrained> {
        let contexts =
            [(vec![TokenId(0)], vec![0.2, 0.3, 0.5]), (vec![TokenId(0), TokenId(1)], vec![0.0, 0.4, 0.6])];
        let model = TableModel::new(["a", "b"], vec![0.5, 0.25, 0.25], contexts).unwrap();
        let vocabulary = model.vocabulary().clone();
        Prefixes::new(Task::new(model, Unconstrained::new(&vocabulary), &vocabulary, 2))
    }

    const ROOT: NodeId = Prefixes::<TableModel, Unconstrained>::ROOT;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-6
    }

    #[test]
    fn ancestors_are_evaluated_in_the_same_pass() {
        let mut prefixes = prefixes();
        let a = prefixes.child(ROOT, TokenId(0));
        let ab = prefixes.child(a, TokenId(1));
        // At the length limit only the end remains.
        let step = prefixes.step(ab).unwrap();
        assert!(step.tokens.is_empty() && near(step.stop, 0.6) && near(step.mass, 0.6));
        assert_eq!(prefixes.take_cost(), Cost { positions: 3, passes: 2, proposals: 0 });
        let step = prefixes.step(a).unwrap().clone();
        assert!(near(step.probabilities[0], 0.2) && near(step.stop, 0.5) && near(step.mass, 1.0));
        assert_eq!(prefixes.take_cost(), Cost::default());
        // Another branch: the sequence goes back to the prompt.
        let b = prefixes.child(ROOT, TokenId(1));
        assert!(near(prefixes.step(b).unwrap().probabilities[0], 0.5));
        assert_eq!(prefixes.tokens(ab), [TokenId(0), TokenId(1)]);
    }

    #[test]
    fn a_tree_that_was_emptied_gives_the_same_answers() {
        let mut prefixes = prefixes();
        let a = prefixes.child(ROOT, TokenId(0));
        let before = prefixes.step(a).unwrap().clone();
        prefixes.max_bytes = 0;
        prefixes.keep_within_limit();
        let root = prefixes.step(ROOT).unwrap();
        assert!(near(root.stop, 0.25));
        let a = prefixes.child(ROOT, TokenId(0));
        assert_eq!(*prefixes.step(a).unwrap(), before);
    }
}
