//! Rollouts that wait for rows at the same time: one request for each prefix, shared by all rollouts that wait there.

use std::sync::Arc;

use smallvec::SmallVec;
use unskew_core::{Constraint, Logits, TokenId};

use super::{Proposal, Rollout, RowResult};
use crate::{
    FedRow, Request,
    session::{Session, Unread},
    tree::NodeId,
};

/// A place that may hold a waiting rollout.
pub(crate) trait HasRollout<C: Constraint> {
    fn rollout(&self) -> Option<&Rollout<C>>;

    fn rollout_mut(&mut self) -> Option<&mut Rollout<C>>;
}

impl<C: Constraint> HasRollout<C> for Rollout<C> {
    fn rollout(&self) -> Option<&Rollout<C>> {
        (!self.pending.is_empty()).then_some(self)
    }

    fn rollout_mut(&mut self) -> Option<&mut Rollout<C>> {
        Some(self)
    }
}

impl<C: Constraint> Rollout<C> {
    /// The tokens so far.
    pub(crate) fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Whether the rollout has drawn from the row of the empty prefix: the bound of that prefix does not count for it
    /// any more.
    pub(crate) fn has_drawn(&self) -> bool {
        !self.tokens.is_empty() || self.unexplored.is_some()
    }

    /// Ends the wait of a rollout that waits for the row of its present prefix alone, if another rollout has read that
    /// row meanwhile.
    pub(crate) fn is_known_meanwhile(&mut self, session: &mut Session<C>) -> bool {
        let (node, tree) = (self.node, session.tree());
        let by_bounds = self.config.proposal.uses_bounds() && self.unexplored.is_none();
        // A value may be what is missing, and comes with a row.
        let known = self.config.proposal != Proposal::Twisted
            && tree.is_scored(node)
            && (by_bounds && tree.is_backed_up(node) || self.row(session, node).is_some());
        if known {
            self.pending.clear();
        }
        known
    }

    /// Reads the one row of `logits` for a rollout that waits for the row of its present prefix alone.
    pub(crate) fn feed(&mut self, session: &mut Session<C>, logits: &Arc<Logits>) -> RowResult<()> {
        if let Some((node, state)) = self.pending.pop() {
            let unread = Unread { node, state: &state, row: 0, picks: Vec::new() };
            let read = session.read(&[unread], logits)?;
            self.pinned.extend(read.into_iter().map(|read| (node, read.row)));
        }
        Ok(())
    }
}

/// The waiting rollouts, by request.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    requests: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    deepest: NodeId,
    depth: usize,
    /// The places of the rollouts that wait for the request.
    members: SmallVec<[usize; 1]>,
}

impl Waiting {
    /// The requests of all waiting rollouts. Rollouts at the same prefix share one.
    pub(crate) fn gather<C: Constraint>(
        &mut self,
        session: &Session<C>,
        places: &[impl HasRollout<C>],
    ) -> Vec<Request> {
        self.requests.clear();
        let mut requests: Vec<Request> = Vec::new();
        for (place, rollout) in places.iter().enumerate() {
            let Some(rollout) = rollout.rollout() else { continue };
            let [(first, _), ..] = &rollout.pending[..] else { continue };
            let (deepest, _) = &rollout.pending[rollout.pending.len() - 1];
            let first = session.tree().depth(*first);
            let known = self.requests.iter().position(|group| group.deepest == *deepest);
            if let Some(index) = known {
                self.requests[index].members.push(place);
                requests[index].first = requests[index].first.min(first);
                continue;
            }
            let depth = session.tree().depth(*deepest);
            let drafted = depth.saturating_sub(rollout.tokens.len());
            let prompt = Arc::clone(session.prompt());
            requests.push(Request { prompt, tokens: rollout.path(depth), first, drafted });
            self.requests.push(Group { deepest: *deepest, depth, members: SmallVec::from_elem(place, 1) });
        }
        requests
    }

    /// Reads rows of one pass for all rollouts that wait for them. The last row of a request ends the wait.
    pub(crate) fn feed<C: Constraint>(
        &self,
        session: &mut Session<C>,
        places: &mut [impl HasRollout<C>],
        logits: &Arc<Logits>,
        rows: &[FedRow],
    ) -> RowResult<()> {
        let mut unread: Vec<Unread<'_, C::State>> = Vec::with_capacity(rows.len());
        // For each row: the places of the rollouts that asked for it, and whether they pick from it at once.
        let mut readers: Vec<SmallVec<[(usize, bool); 1]>> = Vec::with_capacity(rows.len());
        for FedRow { request, depth, row } in rows {
            let mut own = SmallVec::new();
            let mut picks = Vec::new();
            let mut at = None;
            for place in &self.requests[*request].members {
                let rollout = places[*place].rollout().expect("a rollout waits here");
                let pending = rollout.pending.iter().find(|(node, _)| session.tree().depth(*node) == *depth);
                let Some((node, state)) = pending else { continue };
                let pick = rollout.pick().filter(|_| *node == rollout.node);
                own.push((*place, pick.is_some()));
                picks.extend(pick);
                at.get_or_insert((*node, state));
            }
            if let Some((node, state)) = at {
                unread.push(Unread { node, state, row: *row, picks });
                readers.push(own);
            }
        }
        let nodes: Vec<NodeId> = unread.iter().map(|unread| unread.node).collect();
        let read = session.read(&unread, logits)?;
        for ((node, read), readers) in nodes.into_iter().zip(read).zip(readers) {
            let mut picked = read.picked.into_iter();
            for (place, picks) in readers {
                let rollout = places[place].rollout_mut().expect("a rollout waits here");
                rollout.pinned.push((node, Arc::clone(&read.row)));
                if picks {
                    rollout.picked = picked.next();
                }
            }
        }
        for FedRow { request, depth, .. } in rows {
            for place in self.released(*request, *depth) {
                if let Some(rollout) = places[*place].rollout_mut() {
                    rollout.pending.clear();
                }
            }
        }
        Ok(())
    }

    /// The place of the rollout that was first to wait for a request.
    pub(crate) fn owner(&self, request: usize) -> usize {
        self.requests[request].members[0]
    }

    /// The places of the rollouts that wait for a request, if `depth` is that of its last row.
    pub(crate) fn released(&self, request: usize, depth: usize) -> &[usize] {
        let group = &self.requests[request];
        if depth == group.depth { &group.members } else { &[] }
    }
}
