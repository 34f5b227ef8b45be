//! Samplers that never call a model: a machine says which rows of logits it needs, and its caller feeds them.
//!
//! [`Machine::poll`] goes on as far as it can. It answers with [requests](Request), or that all work is done. The
//! caller has the model: it evaluates the requests, in any batch and together with those of other machines, and
//! [feeds](Machine::feed) the rows. So neither the model nor the sampler knows the other. The closed loop of
//! [`Sampler`](unskew_core::Sampler), a scheduler for many users ([`drive`]) and a serving engine that calls back
//! with its own logits run the same code.
//!
//! Tried instead: samplers that own their model. Two such samplers cannot share a pass, and a serving engine, which
//! owns the loop itself, cannot use them at all.

mod pool;

use std::sync::Arc;

use unskew_core::{Cost, LanguageModel, Logits, TokenId};

pub use pool::SequencePool;

/// Rows of logits that a machine waits for: those after each prefix of `tokens` that has at least `first` tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The prompt of the output.
    pub prompt: Arc<[TokenId]>,
    /// The tokens of the output.
    pub tokens: Vec<TokenId>,
    /// The length of the shortest prefix whose row is requested, at most that of `tokens`. 0 is the row after the
    /// prompt.
    pub first: usize,
    /// The number of tokens at the end that are drafted. The next request may drop them.
    pub drafted: usize,
}

/// A row that was requested: the row after the first `depth` tokens of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FedRow {
    /// The index of the request.
    pub request: usize,
    /// The number of the request's tokens before the row.
    pub depth: usize,
    /// The index of the row among the fed logits.
    pub row: usize,
}

/// The answer of a machine: the rows that it needs next, or the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Poll {
    /// The requested rows. The next [`poll`](Machine::poll) comes after all of them are fed.
    Rows(Vec<Request>),
    /// No rows: the machine has done all its work, or has failed.
    Done,
}

/// A sampler that is fed rows.
pub trait Machine {
    /// Goes on until all work under way waits for rows, or has ended.
    fn poll(&mut self) -> Poll;

    /// Takes rows that one pass has written, of any number of requests: their masks, and questions to rows elsewhere,
    /// then go in one batch. The rows of a request come in the order of their depths, and all of them come before the
    /// next [`poll`](Self::poll).
    ///
    /// # Panics
    ///
    /// If the last [`poll`](Self::poll) did not ask for such a row.
    fn feed(&mut self, logits: &Arc<Logits>, rows: &[FedRow]);

    /// Adds the cost of a request's rows to the first output that asked for them.
    fn charge(&mut self, request: usize, cost: Cost) {
        let _ = (request, cost);
    }
}

/// Runs machines to their ends over one model. All machines that wait at the same time share passes, with any prompts.
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

/// Feeds a machine the rows that it has asked for.
///
/// # Errors
///
/// When the model fails. The machine can be driven on.
pub(crate) fn answer<M: LanguageModel>(
    pool: &mut SequencePool<M>,
    requests: &[Request],
    machine: &mut dyn Machine,
) -> Result<(), M::Error> {
    let mut costs = vec![Cost::default(); requests.len()];
    pool.evaluate(requests, &mut costs, |logits, rows| machine.feed(logits, rows))?;
    costs.into_iter().enumerate().for_each(|(request, cost)| machine.charge(request, cost));
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
    // For each machine, the index of its first request.
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
