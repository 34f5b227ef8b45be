//! Values of prefixes: their lookaheads over rows and the constraint, and the lessons of ended rollouts.

use std::collections::HashMap;

use unskew_core::{Constraint, Generations, TokenId};

use super::Session;
use crate::{
    Task,
    rollout::RowResult,
    row::Row,
    tree::{NodeId, PrefixTree},
    values::{CANDIDATES, LEAST_LOG_RATIO, Lookahead, Outlook, StateValues, Successor, SuccessorKeys},
};

/// The bytes of the table of the keys of successors.
const SUCCESSOR_BYTES: usize = 4 << 20;

/// The values that rollouts propose by.
pub(super) struct Valuing {
    pub(super) values: StateValues,
    /// The copy that rollouts propose by. `None`: they propose by the newest values.
    frozen: Option<StateValues>,
    pub(super) lookaheads: HashMap<NodeId, Lookahead>,
    /// The bytes of the lookaheads.
    pub(super) bytes: usize,
    successors: SuccessorKeys,
}

impl Valuing {
    pub(super) fn new(values: StateValues) -> Self {
        let successors = Generations::new(SUCCESSOR_BYTES);
        Self { values, frozen: None, lookaheads: HashMap::new(), bytes: 0, successors }
    }

    /// Follows a tree that was replaced.
    pub(super) fn forget_prefixes(&mut self) {
        (self.lookaheads, self.bytes) = (HashMap::new(), 0);
    }

    /// Follows the tree that was shrunk, which answered with `map`.
    pub(super) fn rename(&mut self, map: &[Option<NodeId>]) {
        let old = std::mem::take(&mut self.lookaheads);
        self.lookaheads =
            old.into_iter().filter_map(|(node, lookahead)| Some((node.renamed(map)?, lookahead))).collect();
        self.bytes = self.lookaheads.values().map(Lookahead::bytes).sum();
    }
}

/// The value of the prefix after `token`, where a rollout has passed it.
fn known(
    tree: &PrefixTree,
    lookaheads: &HashMap<NodeId, Lookahead>,
    node: NodeId,
    token: TokenId,
) -> Option<f64> {
    let edges = tree.edges(node);
    let index = edges.binary_search_by_key(&token, |edge| edge.token).ok()?;
    lookaheads.get(&edges[index].node)?.value
}

impl<C: Constraint> Session<C> {
    /// Lets rollouts propose by values.
    pub(crate) fn set_values(&mut self, values: StateValues) {
        self.valuing = Some(Valuing::new(values));
    }

    /// Lets rollouts propose by a copy of the present values, until the next call. O(n) for n states.
    pub(crate) fn freeze_values(&mut self) {
        if let Some(Valuing { values, frozen, .. }) = &mut self.valuing {
            *frozen = Some(values.copy());
        }
    }

    /// The lookahead of a prefix with the weights of its continuations. `None` where it has to be made from a row
    /// first.
    pub(crate) fn outlook(&self, node: NodeId) -> Option<(&Lookahead, Outlook)> {
        let Valuing { values, frozen, lookaheads, .. } = self.valuing.as_ref()?;
        let lookahead = lookaheads.get(&node)?;
        let outlook = match frozen {
            // The values of prefixes change with each rollout, and are forgotten with the tree.
            Some(frozen) => lookahead.outlook(frozen, |_| None),
            None => lookahead.outlook(values, |token| known(&self.tree, lookaheads, node, token)),
        };
        Some((lookahead, outlook))
    }

    /// Makes the lookahead of a prefix from its row, if it is new.
    pub(super) fn look_ahead(
        &mut self,
        node: NodeId,
        state: &C::State,
        row: &Row,
        end: f64,
    ) -> RowResult<()> {
        let Self { task: Task { constraint, .. }, scratch, valuing, .. } = self;
        let Some(Valuing { lookaheads, bytes, successors, .. }) = valuing else { return Ok(()) };
        if lookaheads.contains_key(&node) {
            return Ok(());
        }
        let host = row.host()?;
        let most_probable = host.most_probable(CANDIDATES, LEAST_LOG_RATIO);
        let tokens: Vec<TokenId> = most_probable.iter().map(|(token, _)| *token).collect();
        let key = constraint.state_key(scratch, state);
        let mut candidates = Vec::with_capacity(most_probable.len());
        for (token, log_p) in most_probable {
            let known = key.and_then(|key| successors.get(&(key, token)).copied());
            let successor = known.unwrap_or_else(|| {
                let mut after = state.clone();
                let advanced = constraint.advance(scratch, &mut after, token);
                advanced.ok().and_then(|()| constraint.state_key(scratch, &after))
            });
            if let Some(key) = key.filter(|_| known.is_none()) {
                successors.insert((key, token), successor, 0);
            }
            candidates.push(Successor { token, log_p, key: successor });
        }
        let rest = host.log_mass(&tokens);
        let lookahead = Lookahead { key, end, candidates: candidates.into(), rest, value: None };
        *bytes += lookahead.bytes();
        lookaheads.insert(node, lookahead);
        Ok(())
    }

    /// Makes the lookahead of a prefix at which the output ends for certain.
    pub(super) fn note_end(&mut self, node: NodeId, key: Option<u64>) {
        let Some(Valuing { lookaheads, bytes, .. }) = &mut self.valuing else { return };
        if lookaheads.contains_key(&node) {
            return;
        }
        let candidates = Box::new([]);
        let lookahead = Lookahead { key, end: 0.0, candidates, rest: f64::NEG_INFINITY, value: None };
        *bytes += lookahead.bytes();
        lookaheads.insert(node, lookahead);
    }

    /// Notes that no token of a prefix is left beside its candidates: the mass that the row had for them is a rest of
    /// rounding.
    pub(crate) fn exhaust_others(&mut self, node: NodeId) {
        if let Some(lookahead) = self.valuing.as_mut().and_then(|valuing| valuing.lookaheads.get_mut(&node)) {
            lookahead.rest = f64::NEG_INFINITY;
        }
    }

    /// Teaches the values of prefixes, the deepest first. A prefix without a lookahead is passed over.
    pub(crate) fn learn_values(&mut self, deepest_first: impl Iterator<Item = NodeId>) {
        let Self { tree, valuing: Some(Valuing { values, lookaheads, .. }), .. } = self else { return };
        for node in deepest_first {
            let Some(lookahead) = lookaheads.get(&node) else { continue };
            let value = lookahead.outlook(values, |token| known(tree, lookaheads, node, token)).total;
            if let Some(key) = lookahead.key {
                values.learn(key, value);
            }
            if let Some(lookahead) = lookaheads.get_mut(&node) {
                lookahead.value = Some(value);
            }
        }
    }
}
