//! Beam search: the outputs that the model finds most probable, as far as a beam of bounded width sees.
//!
//! The beam holds the most probable prefixes of one length, by the model's own probability, not the masked one: dividing by
//! the masks' mass would prefer outputs that the mask forces. Finished outputs stay aside. A longer prefix is never more
//! probable than a shorter one, so the search is over when no open prefix is more probable than the worst output that is
//! wanted, and what it has found is then the best that the beam could see. There is no length penalty: log-probabilities
//! are exact.

use std::sync::Arc;

use rand_core::Rng;
use unskew_core::{Constraint, Cost, Draw, Finish, LanguageModel, Logits, Origin, Sampler, TokenId};

use crate::{
    Request, SampleError, SequencePool, Task, limits,
    rows::Row,
    session::{Scope, Session},
    tree::{NodeId, PrefixTree},
};

/// Beam search.
///
/// - **Distribution**: none; the same output each time, the most probable one that the beam saw. With a beam as wide as there are
///   prefixes, the most probable of all.
/// - **Weight**: none; `log_prob` is the exact log-probability under the model. Outputs that do not end within the length
///   limit are no outputs.
/// - **Cost**: a pass for each token of the longest output, with a position for each prefix in the beam.
#[derive(Debug)]
pub struct Beam<M: LanguageModel, C: Constraint> {
    pool: SequencePool<M>,
    session: Session<C>,
    beams: usize,
}

/// A prefix in the beam.
struct Open<S> {
    node: NodeId,
    state: S,
    log_prob: f64,
}

impl<M: LanguageModel, C: Constraint> Beam<M, C> {
    /// A search in `task` with a beam of `beams` prefixes.
    pub fn new(task: Task<M, C>, beams: usize) -> Self {
        let batch = task.batch;
        let (model, task) = task.split();
        let session = Session::new(task, Scope::Allowed);
        Self { pool: SequencePool::new(model, batch), session, beams: beams.max(1) }
    }

    /// The most probable outputs, the best first: as many as the beam is wide, or as there are.
    ///
    /// The cost of the whole search is that of the first.
    ///
    /// # Errors
    ///
    /// [`SampleError`] when the model fails, or no prefix in the beam ends with an output.
    pub fn search(&mut self) -> Result<Vec<Draw>, SampleError<M::Error>> {
        limits::check("prefixes of a beam", self.beams, limits::MAX_BEAMS)?;
        self.session.keep_within_limit();
        self.session.tree_mut().tick();
        let mut cost = Cost { proposals: 1, ..Cost::default() };
        let mut finished: Vec<(f64, Vec<TokenId>)> = Vec::new();
        let mut open = vec![Open { node: PrefixTree::ROOT, state: self.session.start(), log_prob: 0.0 }];
        while !open.is_empty() {
            // The log-probability, the place in the beam, and the token (none: the end).
            let mut candidates: Vec<(f64, usize, TokenId)> = Vec::new();
            let (beams, batch) = (self.beams, self.session.batch());
            // The worst candidate that is still among the best, where there are enough of them.
            let mut least = f64::NEG_INFINITY;
            // The rows of all prefixes at once would be as many as the beam is wide, and so would their candidates.
            for first in (0..open.len()).step_by(batch) {
                let some = &open[first..open.len().min(first.saturating_add(batch))];
                let rows = self.rows(some, &mut cost)?;
                for (index, (from, row)) in (first..).zip(some.iter().zip(&rows)) {
                    let eos = self.session.tree().eos(from.node);
                    if eos > f64::NEG_INFINITY {
                        finished.push((from.log_prob + eos, self.session.tree().tokens(from.node)));
                    }
                    let row = row.list();
                    let tokens = row.tokens().iter().enumerate();
                    let longer = tokens.map(|(at, token)| (from.log_prob + row.log_prob(at), index, *token));
                    candidates.extend(longer.filter(|(log_prob, ..)| *log_prob > least));
                    if candidates.len() >= 2 * beams {
                        best(&mut candidates, beams);
                        least = candidates[beams - 1].0;
                    }
                }
            }
            best(&mut finished, beams);
            // The worst output that would still be handed over.
            let worst = finished.get(beams - 1).map_or(f64::NEG_INFINITY, |(log_prob, _)| *log_prob);
            candidates.retain(|(log_prob, ..)| *log_prob > worst);
            best(&mut candidates, beams);
            let mut longer = Vec::with_capacity(candidates.len());
            for (log_prob, index, token) in candidates {
                let Open { node, state, .. } = &open[index];
                let mut state = state.clone();
                self.session.advance(&mut state, token);
                let node = self.session.tree_mut().child(*node, token);
                self.session.tree_mut().touch(node);
                longer.push(Open { node, state, log_prob });
            }
            open = longer;
        }
        if finished.is_empty() {
            return Err(SampleError::NoOutput { tries: 1, max_tokens: self.session.max_tokens() });
        }
        let draws = finished.into_iter().map(|(log_prob, tokens)| Draw {
            tokens,
            log_prob,
            log_weight: 0.0,
            finish: Finish::Stop,
            origin: Origin::Searched,
            cost: std::mem::take(&mut cost),
        });
        Ok(draws.collect())
    }

    /// The rows of all prefixes of the beam, those that are not at hand in as few passes as the batch allows.
    fn rows(
        &mut self,
        open: &[Open<C::State>],
        cost: &mut Cost,
    ) -> Result<Vec<Arc<Row>>, SampleError<M::Error>> {
        let Self { pool, session, .. } = self;
        if session.is_cancelled() {
            return Err(SampleError::Cancelled);
        }
        let mut rows: Vec<_> = open.iter().map(|open| session.row(open.node)).collect();
        let missing: Vec<usize> = (0..open.len()).filter(|index| rows[*index].is_none()).collect();
        let request = |index: &usize| {
            let tokens = session.tree().tokens(open[*index].node);
            Request { prompt: Arc::clone(session.prompt()), first: tokens.len(), tokens, drafted: 0 }
        };
        let requests: Vec<Request> = missing.iter().map(request).collect();
        let mut costs = vec![Cost::default(); requests.len()];
        let mut failure = None;
        let read = |request: usize, _depth: usize, logits: &Arc<Logits>, row: usize| {
            let Open { node, state, .. } = &open[missing[request]];
            match session.read(*node, state, logits, row) {
                Ok(row) => rows[missing[request]] = Some(row),
                Err(error) => failure = Some(error),
            }
        };
        pool.evaluate(&requests, &mut costs, read).map_err(SampleError::Model)?;
        costs.into_iter().for_each(|own| *cost += own);
        match failure {
            Some(error) => Err(error.widen()),
            None => Ok(rows.into_iter().map(|row| row.expect("evaluated above")).collect()),
        }
    }
}

/// Keeps the `many` with the greatest first element, the greatest first; ties go to what comes first.
fn best<T: Probable>(items: &mut Vec<T>, many: usize) {
    items.sort_by(|left, right| right.log_prob().total_cmp(&left.log_prob()));
    items.truncate(many);
}

trait Probable {
    fn log_prob(&self) -> f64;
}

impl Probable for (f64, Vec<TokenId>) {
    fn log_prob(&self) -> f64 {
        self.0
    }
}

impl Probable for (f64, usize, TokenId) {
    fn log_prob(&self) -> f64 {
        self.0
    }
}

impl<M: LanguageModel, C: Constraint> Sampler for Beam<M, C> {
    type Error = SampleError<M::Error>;

    /// The most probable output of a [`search`](Beam::search).
    ///
    /// # Errors
    ///
    /// As for [`search`](Beam::search).
    fn draw(&mut self, _rng: &mut dyn Rng) -> Result<Draw, Self::Error> {
        self.search().map(|mut draws| draws.swap_remove(0))
    }
}
