//! Rollouts that wait for rows at the same time: one request for each prefix, whoever waits for it.

use std::{convert::Infallible, sync::Arc};

use smallvec::SmallVec;
use unskew_core::{Constraint, Logits};

use super::Rollout;
use crate::{Request, SampleError, rows::Row, session::Session, tree::NodeId};

/// A place that may hold a rollout which waits.
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

/// The rollouts that wait, by request.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    requests: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    deepest: NodeId,
    depth: usize,
    /// Places of rollouts.
    members: SmallVec<[usize; 1]>,
}

impl Waiting {
    /// The requests of all that wait. Rollouts at the same prefix share one.
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

    /// Reads a row for all rollouts that wait for it. The last row of a request ends their waiting.
    pub(crate) fn feed<C: Constraint>(
        &self,
        session: &mut Session<C>,
        places: &mut [impl HasRollout<C>],
        (request, depth): (usize, usize),
        logits: &Arc<Logits>,
        row: usize,
    ) -> Result<(), SampleError<Infallible>> {
        let group = &self.requests[request];
        let mut read: Option<(NodeId, Arc<Row>)> = None;
        for place in &group.members {
            let rollout = places[*place].rollout_mut().expect("a rollout waits here");
            let at = rollout.pending.iter().find(|(node, _)| session.tree().depth(*node) == depth);
            if let Some((node, state)) = at {
                let (node, row) = match read.take() {
                    Some(read) => read,
                    None => (*node, session.read(*node, state, logits, row)?),
                };
                rollout.pinned.push((node, Arc::clone(&row)));
                read = Some((node, row));
            }
            if depth == group.depth {
                rollout.pending.clear();
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
