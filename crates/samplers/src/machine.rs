//! Samplers that never call a model: a machine says which rows of logits it needs, and is fed.
//!
//! [`Machine::poll`] goes on as far as it can and answers with [requests](Request), or that all is done. Whoever has a model
//! evaluates the requests, in any batch and beside those of other machines, and [feeds](Machine::feed) the rows. So the model
//! never knows who asks, and a sampler never knows who answers: the closed loop of [`Sampler`](unskew_core::Sampler), a
//! scheduler for many users ([`drive`]) and a serving engine that calls back with its own logits run the same code.
//!
//! Tried instead: samplers that own their model. Two of them cannot share a pass then, and a serving engine, which owns the
//! loop itself, cannot use them at all.

use std::sync::Arc;

use unskew_core::{Cost, LanguageModel, Logits, TokenId};

use crate::SequencePool;

/// Rows of logits that a machine waits for: those after the prefixes of `tokens` of length `first` and more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The tokens before the output.
    pub prompt: Arc<[TokenId]>,
    /// The tokens of the output.
    pub tokens: Vec<TokenId>,
    /// The length of the shortest prefix whose row is wanted, at most that of `tokens`. 0 is the row after the prompt.
    pub first: usize,
    /// The number of tokens at the end that are drafted, and may be taken back.
    pub drafted: usize,
}

/// A row that was asked for: the one after the first `depth` tokens of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FedRow {
    /// The index of the request.
    pub request: usize,
    /// The number of its tokens before the row.
    pub depth: usize,
    /// The index of the row among the logits that it is fed with.
    pub row: usize,
}

/// The answer of a machine: the rows that it needs next, or the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Poll {
    /// Rows. The next [`poll`](Machine::poll) comes after all of them are fed.
    Rows(Vec<Request>),
    /// Nothing: it has done all that it was asked for, or has failed.
    Done,
}

/// A sampler that is fed rows.
pub trait Machine {
    /// Goes on until all that is under way waits for rows, or has ended.
    fn poll(&mut self) -> Poll;

    /// Takes rows that one pass has written, of any number of requests: masks and rows elsewhere are asked about together. The rows
    /// of a request come in the order of their depths, and all of them come before the next [`poll`](Self::poll).
    ///
    /// # Panics
    ///
    /// If the last [`poll`](Self::poll) asked for no such row.
    fn feed(&mut self, logits: &Arc<Logits>, rows: &[FedRow]);

    /// Adds the cost of a request's rows to the output that asked for them first.
    fn charge(&mut self, request: usize, cost: Cost) {
        let _ = (request, cost);
    }
}

/// Runs machines to their ends over one model. All that wait at the same time share passes, whatever their prompts.
///
/// # Errors
///
/// When the model fails. The machines can be driven on.
pub fn drive<M: LanguageModel>(
    pool: &mut SequencePool<M>,
    machines: &mut [&mut dyn Machine],
) -> Result<(), M::Error> {
    while step(pool, machines)? {}
    Ok(())
}

/// Polls machines once, and feeds them the rows that they ask for. Answers whether they asked for any.
///
/// # Errors
///
/// When the model fails. The machines can be driven on.
pub fn step<M: LanguageModel>(
    pool: &mut SequencePool<M>,
    machines: &mut [&mut dyn Machine],
) -> Result<bool, M::Error> {
    let mut requests = Vec::new();
    // For each machine, where its requests begin.
    let mut begins = Vec::with_capacity(machines.len());
    for machine in machines.iter_mut() {
        begins.push(requests.len());
        if let Poll::Rows(more) = machine.poll() {
            requests.extend(more);
        }
    }
    if requests.is_empty() {
        return Ok(false);
    }
    let owner = |request: usize| begins.partition_point(|begin| *begin <= request) - 1;
    let mut costs = vec![Cost::default(); requests.len()];
    let mut own = Vec::new();
    pool.evaluate(&requests, &mut costs, |logits, rows| {
        for rows in rows.chunk_by(|left, right| owner(left.request) == owner(right.request)) {
            let owner = owner(rows[0].request);
            own.clear();
            own.extend(rows.iter().map(|row| FedRow { request: row.request - begins[owner], ..*row }));
            machines[owner].feed(logits, &own);
        }
    })?;
    for (request, cost) in costs.into_iter().enumerate() {
        let owner = owner(request);
        machines[owner].charge(request - begins[owner], cost);
    }
    Ok(true)
}
