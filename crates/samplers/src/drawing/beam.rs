//! Beam search: the most probable outputs under the model, as far as a beam of bounded width sees.
//!
//! The beam holds the most probable prefixes of one length. Their probability is the model's own, not the masked one:
//! dividing by the masks' mass would prefer outputs that the mask forces. Finished outputs are set aside. A longer
//! prefix is never more probable than a shorter one. So the search is over when no open prefix is more probable than
//! the worst output to be handed over; the outputs found by then are the best that the beam could see. There is no
//! length penalty: log-probabilities are exact.

use std::{collections::VecDeque, convert::Infallible, fmt, sync::Arc};

use rand_core::Rng;
use unskew_core::{Constraint, Cost, Draw, Finish, Logits, Origin, TokenId, with_tail};

use super::{Drawing, Rules};
use crate::{
    FedRow, Machine, Poll, Request, SampleError, Task, TrieFileError, limits,
    row::Row,
    session::{Scope, Session, Unread},
    task::ModelShape,
    tree::{NodeId, PrefixTree, add},
};

/// Beam search.
///
/// - **Distribution**: none. The output is the same each time: the most probable one that the beam saw. With as many
///   places as there are prefixes, it is the most probable of all outputs.
/// - **Weight**: none; `log_prob` is the exact log-probability under the model. Outputs that do not end within the
///   length limit are no outputs.
/// - **Cost**: a pass for each token of the longest output, with a position for each prefix in the beam.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beam {
    beams: usize,
    all: bool,
}

impl Beam {
    /// A beam of `beams` prefixes. Each draw is the most probable output of a search.
    pub const fn new(beams: usize) -> Self {
        Self { beams, all: false }
    }

    /// The draws are all outputs of one search, the best first. Their number is the width of the beam, or less if fewer
    /// are found; no draw begins then. The first output carries the cost of the whole search.
    #[must_use]
    pub const fn all(self) -> Self {
        Self { all: true, ..self }
    }
}

impl<C: Constraint> Rules<C> for Beam {
    type Drawing = Search<C>;

    fn drawing(self, task: Task<ModelShape, C>) -> Search<C> {
        let Self { beams, all } = self;
        let (session, done) = (Session::new(task, Scope::Allowed), VecDeque::new());
        Search { session, beams: beams.max(1), all, level: None, done, is_over: false }
    }
}

/// A search of a [`Beam`].
pub struct Search<C: Constraint> {
    session: Session<C>,
    beams: usize,
    all: bool,
    level: Option<Level<C::State>>,
    done: VecDeque<Result<Draw, SampleError<Infallible>>>,
    /// Whether all outputs were asked for.
    is_over: bool,
}

/// A prefix in the beam.
struct Open<S> {
    node: NodeId,
    state: S,
    log_prob: f64,
    row: Option<Arc<Row>>,
}

/// The prefixes of one length.
struct Level<S> {
    open: Vec<Open<S>>,
    /// The index of the first prefix that is not extended. Prefixes are extended in parts, since the rows of all
    /// would be as many as the beam is wide.
    first: usize,
    /// The indices of the prefixes that wait for rows.
    waiting: Vec<usize>,
    /// Longer prefixes: the log-probability, the index in the beam, and the token.
    candidates: Vec<(f64, usize, TokenId)>,
    /// The log-probability of the worst candidate that still is among the best, where there are enough candidates.
    least: f64,
    finished: Vec<(f64, Vec<TokenId>)>,
    cost: Cost,
}

impl<C: Constraint> fmt::Debug for Search<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Search")
            .field("session", &self.session)
            .field("beams", &self.beams)
            .finish_non_exhaustive()
    }
}

impl<C: Constraint> Search<C> {
    fn fail(&mut self, error: SampleError<Infallible>) {
        self.level = None;
        self.done = VecDeque::from([Err(error)]);
    }

    /// Extends the prefixes whose rows are at hand, batch by batch. Answers with the rows that the level waits for,
    /// or none where the level is over.
    fn extend(&mut self, level: &mut Level<C::State>) -> Result<Vec<Request>, SampleError<Infallible>> {
        let Self { session, beams, .. } = self;
        while level.first < level.open.len() {
            let end = level.open.len().min(level.first.saturating_add(session.batch()));
            for place in level.first..end {
                let open = &mut level.open[place];
                if open.row.is_none() {
                    session.end_surely(open.node, &open.state);
                    open.row = session.row(open.node);
                }
            }
            level.waiting = (level.first..end).filter(|place| level.open[*place].row.is_none()).collect();
            if !level.waiting.is_empty() {
                let request = |place: &usize| {
                    let tokens = session.tree().tokens(level.open[*place].node);
                    Request { prompt: Arc::clone(session.prompt()), first: tokens.len(), tokens, drafted: 0 }
                };
                return Ok(level.waiting.iter().map(request).collect());
            }
            for place in level.first..end {
                let Open { node, log_prob, row, state } = &mut level.open[place];
                let eos = session.tree().eos(*node);
                if eos > f64::NEG_INFINITY {
                    let tokens = with_tail(session.tree().tokens(*node), session.tail(state));
                    finish(&mut level.finished, *log_prob + eos, tokens, session.is_free());
                }
                let row = row.take().expect("its row is at hand").list()?;
                let longer = row.into_iter().map(|(token, log_p)| (*log_prob + log_p, place, token));
                level.candidates.extend(longer.filter(|(log_prob, ..)| *log_prob > level.least));
                if level.candidates.len() >= 2 * *beams {
                    best(&mut level.candidates, *beams);
                    level.least = level.candidates[*beams - 1].0;
                }
            }
            level.first = end;
        }
        Ok(Vec::new())
    }

    /// Begins the level of prefixes that are one token longer. Without such prefixes the search ends.
    fn longer(&mut self, level: Level<C::State>) -> Result<(), SampleError<Infallible>> {
        let Level { open, mut candidates, mut finished, mut cost, .. } = level;
        best(&mut finished, self.beams);
        // The worst of the outputs that would be handed over.
        let worst = finished.get(self.beams - 1).map_or(f64::NEG_INFINITY, |(log_prob, _)| *log_prob);
        candidates.retain(|(log_prob, ..)| *log_prob > worst);
        best(&mut candidates, self.beams);
        if candidates.is_empty() {
            let draws = finished.into_iter().map(|(log_prob, tokens)| Draw {
                tokens,
                log_prob,
                log_weight: 0.0,
                finish: Finish::Stop,
                effective: None,
                origin: Origin::Searched,
                cost: std::mem::take(&mut cost),
            });
            self.done = draws.map(Ok).take(if self.all { usize::MAX } else { 1 }).collect();
            let max_tokens = self.session.max_tokens();
            return match self.done.is_empty() {
                true => Err(SampleError::NoOutput { tries: 1, max_tokens }),
                false => Ok(()),
            };
        }
        let mut longer = Vec::with_capacity(candidates.len());
        for (log_prob, place, token) in candidates {
            let Open { node, state, .. } = &open[place];
            let mut state = state.clone();
            self.session.advance(&mut state, token)?;
            let node = self.session.tree_mut().child(*node, token);
            self.session.tree_mut().touch(node);
            longer.push(Open { node, state, log_prob, row: None });
        }
        self.level = Some(Level::new(longer, finished, cost));
        Ok(())
    }
}

impl<S> Level<S> {
    fn new(open: Vec<Open<S>>, finished: Vec<(f64, Vec<TokenId>)>, cost: Cost) -> Self {
        let (candidates, waiting) = (Vec::new(), Vec::new());
        Self { open, first: 0, waiting, candidates, least: f64::NEG_INFINITY, finished, cost }
    }
}

impl<C: Constraint> Drawing for Search<C> {
    fn begin(&mut self, count: usize, _rng: &mut dyn Rng) {
        if count == 0 {
            return;
        }
        self.give_up();
        self.is_over = self.all;
        if let Err(error) = limits::check("prefixes of a beam", self.beams, limits::MAX_BEAMS) {
            self.fail(error);
            return;
        }
        self.session.keep_within_limit();
        self.session.tree_mut().tick();
        let root = Open { node: PrefixTree::ROOT, state: self.session.start(), log_prob: 0.0, row: None };
        let cost = Cost { proposals: 1, ..Cost::default() };
        self.level = Some(Level::new(vec![root], Vec::new(), cost));
    }

    fn room(&self) -> usize {
        usize::from(self.is_idle() && !self.is_over)
    }

    fn is_idle(&self) -> bool {
        self.level.is_none() && self.done.is_empty()
    }

    fn take(&mut self) -> Option<Result<Draw, SampleError<Infallible>>> {
        self.done.pop_front()
    }

    fn give_up(&mut self) {
        (self.level, self.is_over) = (None, false);
        self.done.clear();
    }

    fn log_mass(&self) -> Option<f64> {
        None
    }

    fn save(&mut self, name: &str) -> Vec<u8> {
        self.session.save(name)
    }

    fn load(&mut self, name: &str, bytes: &[u8]) -> Result<(), TrieFileError> {
        self.give_up();
        self.session.load(name, bytes)
    }
}

impl<C: Constraint> Machine for Search<C> {
    fn poll(&mut self) -> Poll {
        while let Some(mut level) = self.level.take() {
            if self.session.is_cancelled() {
                self.fail(SampleError::Cancelled);
                break;
            }
            match self.extend(&mut level) {
                Err(error) => self.fail(error),
                Ok(requests) if requests.is_empty() => {
                    if let Err(error) = self.longer(level) {
                        self.fail(error);
                    }
                }
                Ok(requests) => {
                    self.level = Some(level);
                    return Poll::Rows(requests);
                }
            }
        }
        Poll::Done
    }

    fn feed(&mut self, logits: &Arc<Logits>, rows: &[FedRow]) {
        let Some(level) = &mut self.level else { return };
        let places: Vec<usize> = rows.iter().map(|fed| level.waiting[fed.request]).collect();
        let unread: Vec<Unread<'_, C::State>> = places
            .iter()
            .zip(rows)
            .map(|(place, fed)| {
                let Open { node, state, .. } = &level.open[*place];
                Unread { node: *node, state, row: fed.row, picks: Vec::new() }
            })
            .collect();
        match self.session.read(&unread, logits) {
            Ok(read) => {
                for (place, read) in places.into_iter().zip(read) {
                    level.open[place].row = Some(read.row);
                }
            }
            Err(error) => self.fail(error),
        }
    }

    fn charge(&mut self, _request: usize, cost: Cost) {
        if let Some(level) = &mut self.level {
            level.cost += cost;
        }
    }
}

/// Adds an output. Where outputs end freely, several tokens may end the same one: their probabilities add up.
fn finish(finished: &mut Vec<(f64, Vec<TokenId>)>, log_prob: f64, tokens: Vec<TokenId>, is_free: bool) {
    match finished.iter_mut().find(|(_, known)| is_free && *known == tokens) {
        Some((known, _)) => *known = add([*known, log_prob]),
        None => finished.push((log_prob, tokens)),
    }
}

/// Keeps the `many` items with the greatest first element, the greatest first. Of equal items, the earlier ones come
/// first.
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
