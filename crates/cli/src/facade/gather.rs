//! Several prompts, whose samplers share the passes of one model.
//!
//! ```text
//! sampler of prompt 0   asks for rows ─┐                      ┌─ its rows
//! sampler of prompt 1   asks for rows ─┼─ one pass of them all ┼─ its rows
//! sampler of prompt 2   asks for rows ─┘                      └─ its rows
//! ```
//!
//! Each sampler runs on a thread of its own and as it would alone. A pass begins when every sampler that still draws
//! waits for rows; the last one to ask makes the pass for all. A sampler draws from random numbers of its own
//! ([`Request::stream`]), and a row of a model does not depend on the other sequences of a pass. So the outputs of a
//! prompt are those that it has alone, up to the rounding of a model whose kernels depend on the size of a batch.
//!
//! Tokens with which all prompts begin are evaluated once: an empty sequence that is extended by them is forked from
//! the sequence that has them.
//!
//! Tried instead: one sampler over many prompts. Each sampler would then need a loop that divides its work among
//! prompts, and what is learned for one prompt says nothing of another.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

use unskew_core::{Extension, LanguageModel, Logits, Rows, TokenId};

use super::{
    AnyModel, AnyModelError, Method, Model, Output, Prompt, Request,
    any_model::AnySequence,
    draws::random_seed,
    error::{Error, Result},
};

/// The most prompts that draw at a time. Others wait for one of them to end.
const MOST: usize = 64;

/// The outputs after several prompts: all of the first prompt, then all of the second, and so on, each with the place
/// of its prompt. An error of one prompt ends its outputs and no others.
#[derive(Debug)]
pub struct Each {
    drawn: Receiver<(usize, Option<Estimated>)>,
    /// Outputs that came before their turn, by prompt.
    early: BTreeMap<usize, Early>,
    /// The estimates of P(constraint) of the prompts, as logarithms, after their last outputs.
    log_masses: BTreeMap<usize, f64>,
    turn: usize,
    /// The end of the channel that the samplers get; none once they are begun.
    waiting: Option<Told>,
    requests: Arc<Vec<Request>>,
    each: usize,
    method: Method,
    seed: u64,
    gathering: Arc<Gathering>,
}

/// An output, and the logarithm of the estimate of P(constraint) after it.
type Estimated = (Result<Output>, Option<f64>);

/// The place of a prompt with its next output; none: it has no more.
type Told = Sender<(usize, Option<Estimated>)>;

/// Outputs of one prompt that nobody has asked for yet.
#[derive(Debug, Default)]
struct Early {
    outputs: VecDeque<Estimated>,
    /// Whether there are no more.
    is_done: bool,
}

impl Each {
    /// The method; never [`Method::Auto`].
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The seed of all random choices.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The natural logarithm of the estimate of P(constraint) of one prompt, from its outputs so far: see
    /// [`Draws::log_mass`](super::Draws::log_mass).
    pub fn log_mass(&self, place: usize) -> Option<f64> {
        self.log_masses.get(&place).copied()
    }

    /// The requests of the prompts, in their order.
    #[cfg(feature = "command-line")]
    pub(crate) fn requests(&self) -> Arc<Vec<Request>> {
        Arc::clone(&self.requests)
    }

    /// Begins all samplers. Nothing is drawn before the first output is asked for.
    fn begin(&self, tell: &Told) -> Result<()> {
        let next = Arc::new(AtomicUsize::new(0));
        // All have a seat before the first one asks for rows.
        let seats: Vec<_> = (0..self.requests.len().min(MOST)).map(|_| Seat::new(&self.gathering)).collect();
        for seat in seats {
            let (requests, next, tell) = (Arc::clone(&self.requests), Arc::clone(&next), tell.clone());
            let (method, each) = (self.method, self.each);
            let work = move || {
                let seat = seat;
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(request) = requests.get(at) else { break };
                    let mut request = request.clone();
                    request.model = seat.model(&request);
                    draw_all(request, at, method, each, &tell);
                }
            };
            let started = thread::Builder::new().name("unskew-prompt".to_owned()).spawn(work);
            started.map_err(|error| Error::Model(error.into()))?;
        }
        Ok(())
    }
}

impl Request {
    /// At most `each` outputs after each of the prompts, by a method with a name ([`Request::sample`]). The samplers of
    /// the prompts share the passes of the model. The constraint is compiled once. The first prompt draws with the
    /// [`stream`](Self::stream) of random numbers of the request, the second with the next one, and so on.
    ///
    /// # Example
    ///
    /// ```
    /// # #[cfg(all(feature = "runner", feature = "tiny-model"))]
    /// # fn main() -> Result<(), unskew::Error> {
    /// use unskew::{Model, Spec};
    ///
    /// let request = Model::open("tiny")?.prompt("").constrain(Spec::regex("[A-Z][a-z]{2,9}"))?.seed(1);
    /// for (prompt, output) in request.sample_each(["Dear Ms ", "Kind regards,\n"], 2, "cars")? {
    ///     println!("{prompt}: {}", output?.text);
    /// }
    /// # Ok(())
    /// # }
    /// # #[cfg(not(all(feature = "runner", feature = "tiny-model")))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`after`](Self::after) and of [`sample`](Self::sample), for the first prompt that has one.
    pub fn sample_each(
        self,
        prompts: impl IntoIterator<Item = impl Into<Prompt>>,
        each: usize,
        method: &str,
    ) -> Result<Each> {
        let prompts: Vec<Prompt> = prompts.into_iter().map(Into::into).collect();
        self.sample_each_with(prompts, each, method.parse()?)
    }

    /// The same for a [`Method`].
    ///
    /// # Errors
    ///
    /// As [`sample_each`](Self::sample_each).
    pub fn sample_each_with(self, prompts: Vec<Prompt>, each: usize, method: Method) -> Result<Each> {
        // All prompts share a seed and a method.
        let seed = self.seed.unwrap_or_else(random_seed);
        let request = self.seed(seed).outputs(each);
        let (method, _) = request.resolve(method);
        let first = request.stream;
        let placed = |(stream, prompt)| Ok(request.clone().after(prompt)?.stream(stream));
        let requests = (first..).zip(prompts).map(placed).collect::<Result<Vec<_>>>()?;
        for request in &requests {
            request.check(&method)?;
        }
        let starts: Vec<_> =
            requests.iter().map(|request| Ok(request.start()?.prompt)).collect::<Result<_>>()?;
        let gathering = Gathering::new(request.model.any_model().clone(), common(&starts));
        let (tell, drawn) = mpsc::channel();
        Ok(Each {
            drawn,
            waiting: Some(tell),
            early: BTreeMap::new(),
            log_masses: BTreeMap::new(),
            turn: 0,
            each,
            method,
            seed,
            gathering: Arc::new(gathering),
            requests: Arc::new(requests),
        })
    }
}

/// The tokens with which all of several prompts begin, and behind which each has another one.
fn common(prompts: &[Vec<TokenId>]) -> Vec<TokenId> {
    let [first, rest @ ..] = prompts else { return Vec::new() };
    let shared = |other: &Vec<TokenId>| {
        let equal = first.iter().zip(other).take_while(|(one, other)| one == other).count();
        equal.min(first.len().min(other.len()).saturating_sub(1))
    };
    rest.iter().map(shared).min().map_or(Vec::new(), |len| first[..len].to_vec())
}

/// Draws the outputs of one prompt and tells of each.
fn draw_all(request: Request, place: usize, method: Method, each: usize, tell: &Told) {
    match request.sample_with(method) {
        Ok(draws) => {
            let mut draws = draws.take(each);
            while let Some(output) = draws.next() {
                if tell.send((place, Some((output, draws.log_mass())))).is_err() {
                    return;
                }
            }
        }
        Err(error) => drop(tell.send((place, Some((Err(error), None))))),
    }
    let _ = tell.send((place, None));
}

impl Iterator for Each {
    type Item = (usize, Result<Output>);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(tell) = self.waiting.take()
            && let Err(error) = self.begin(&tell)
        {
            self.turn = self.requests.len();
            return Some((0, Err(error)));
        }
        while self.turn < self.requests.len() {
            let early = self.early.entry(self.turn).or_default();
            if let Some((output, log_mass)) = early.outputs.pop_front() {
                self.log_masses.extend(log_mass.map(|log_mass| (self.turn, log_mass)));
                return Some((self.turn, output));
            }
            if early.is_done {
                self.early.remove(&self.turn);
                self.turn += 1;
                continue;
            }
            match self.drawn.recv() {
                Ok((place, output)) => {
                    let early = self.early.entry(place).or_default();
                    early.is_done |= output.is_none();
                    early.outputs.extend(output);
                }
                // No thread is left, and this prompt's has not said that it is done.
                Err(_) => {
                    early.is_done = true;
                    early.outputs.push_back((Err(Error::Model(Box::new(Broken))), None));
                }
            }
        }
        None
    }
}

/// Outputs under way are given up: the model has no more rows for them.
impl Drop for Each {
    fn drop(&mut self) {
        self.gathering.is_unwanted.store(true, Ordering::Relaxed);
    }
}

/// Samplers that share passes.
#[derive(Debug)]
struct Gathering {
    model: AnyModel,
    /// The tokens with which all prompts begin.
    beginning: Vec<TokenId>,
    /// Nobody waits for outputs any more.
    is_unwanted: AtomicBool,
    asked: Mutex<Asked>,
    /// A pass was made, or a sampler has ended.
    changed: Condvar,
}

/// The extensions that one sampler waits for.
type Wanted = Vec<(AnySequence, Vec<TokenId>, Rows)>;
/// Its sequences again, with its rows, or without for an error.
type Answer = (Vec<AnySequence>, Result<Vec<f32>, Arc<AnyModelError>>);

fn sequences(wanted: Wanted) -> Vec<AnySequence> {
    wanted.into_iter().map(|(sequence, ..)| sequence).collect()
}

#[derive(Debug)]
struct Asked {
    /// Samplers that still draw.
    drawing: usize,
    waiting: Vec<(u64, Wanted)>,
    answers: BTreeMap<u64, Answer>,
    /// The sequence of the beginning, once it is evaluated.
    begun: Option<AnySequence>,
    /// The number of the next question.
    next: u64,
    /// A pass has panicked.
    is_broken: bool,
}

/// A sampler's place among those that share passes.
struct Seat(Arc<Gathering>);

impl Seat {
    fn new(gathering: &Arc<Gathering>) -> Self {
        gathering.locked().drawing += 1;
        Self(Arc::clone(gathering))
    }

    /// The model of a request, whose passes are shared.
    fn model(&self, request: &Request) -> Model {
        request.model.with_model(AnyModel::new(Gathered(Arc::clone(&self.0))))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.locked().drawing -= 1;
        self.0.changed.notify_all();
    }
}

impl Gathering {
    fn new(model: AnyModel, beginning: Vec<TokenId>) -> Self {
        let (waiting, answers) = (Vec::new(), BTreeMap::new());
        let asked = Asked { drawing: 0, waiting, answers, begun: None, next: 0, is_broken: false };
        let is_unwanted = AtomicBool::new(false);
        Self { model, beginning, is_unwanted, asked: Mutex::new(asked), changed: Condvar::new() }
    }

    fn locked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows that one sampler wants. Waits for the others.
    fn rows(&self, wanted: Wanted) -> Answer {
        let mut asked = self.locked();
        let number = asked.next;
        asked.next += 1;
        asked.waiting.push((number, wanted));
        loop {
            if let Some(answer) = asked.answers.remove(&number) {
                return answer;
            }
            if asked.is_broken {
                let at = asked.waiting.iter().position(|(waiting, _)| *waiting == number);
                let wanted = at.map(|at| asked.waiting.swap_remove(at).1).unwrap_or_default();
                return (sequences(wanted), Err(Arc::new(AnyModelError::new(Broken))));
            }
            if asked.waiting.len() < asked.drawing {
                asked = self.changed.wait(asked).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            // The others wait for it, so that nobody wants the lock but those who end. A panic leaves it broken.
            asked.is_broken = true;
            self.pass(&mut asked);
            asked.is_broken = false;
            self.changed.notify_all();
        }
    }

    /// Gives sequences that begin as all prompts do the evaluated beginning, and leaves them the rest of their tokens.
    fn begin(&self, asked: &mut Asked, waiting: &mut [(u64, Wanted)]) -> Result<(), AnyModelError> {
        let (mut model, shared) = (self.model.clone(), self.beginning.len());
        for (sequence, tokens, rows) in waiting.iter_mut().flat_map(|(_, wanted)| wanted) {
            // Rows in the middle of the beginning were not kept.
            let left = match *rows {
                Rows::Last => Some(Rows::Last),
                Rows::From(first) => first.checked_sub(shared).map(Rows::From),
                Rows::All => None,
            };
            let is_beginning = shared > 0 && tokens.len() > shared && tokens.starts_with(&self.beginning);
            let Some(left) = left.filter(|_| is_beginning && model.len(sequence) == 0) else { continue };
            let begun = match &mut asked.begun {
                Some(begun) => begun,
                none => {
                    let mut sequence = model.start();
                    let item =
                        Extension { sequence: &mut sequence, tokens: &self.beginning, rows: Rows::Last };
                    model.extend(&mut [item], &mut Logits::new())?;
                    none.insert(sequence)
                }
            };
            *sequence = model.fork(begun);
            *rows = left;
            tokens.drain(..shared);
        }
        Ok(())
    }

    /// One pass for all that wait.
    fn pass(&self, asked: &mut Asked) {
        let mut waiting = mem::take(&mut asked.waiting);
        let mut begun = self.begin(asked, &mut waiting);
        let mut batch: Vec<_> = waiting
            .iter_mut()
            .flat_map(|(_, wanted)| wanted)
            .map(|(sequence, tokens, rows)| Extension { sequence, tokens, rows: *rows })
            .collect();
        let mut logits = Logits::new();
        if begun.is_ok() {
            begun = self.model.clone().extend(&mut batch, &mut logits);
        }
        let mut made = begun.map_err(Arc::new);
        let mut row = 0;
        for (number, wanted) in waiting {
            let count: usize = wanted.iter().map(|(_, tokens, rows)| rows.count(tokens.len())).sum();
            let mut rows = Vec::new();
            if made.is_ok() {
                rows.reserve_exact(count * logits.vocab_len());
                for row in row..row + count {
                    match logits.to_host(row) {
                        Ok(row) => rows.extend_from_slice(&row),
                        Err(error) => {
                            made = Err(Arc::new(AnyModelError::new(error)));
                            break;
                        }
                    }
                }
                row += count;
            }
            let answer = made.clone().map(|()| rows);
            asked.answers.insert(number, (sequences(wanted), answer));
        }
    }
}

/// A sampler, or a pass of the model, has panicked.
#[derive(Debug, thiserror::Error)]
#[error("the model or the sampler of a prompt has panicked")]
struct Broken;

/// The outputs were given up.
#[derive(Debug, thiserror::Error)]
#[error("nobody asks for outputs any more")]
struct Unwanted;

/// An error that several prompts share.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct SharedError(Arc<AnyModelError>);

/// The model of one sampler.
struct Gathered(Arc<Gathering>);

impl LanguageModel for Gathered {
    type Sequence = AnySequence;
    type Error = AnyModelError;

    fn vocab_len(&self) -> usize {
        self.0.model.vocab_len()
    }

    fn context_len(&self) -> Option<usize> {
        self.0.model.context_len()
    }

    fn start(&mut self) -> AnySequence {
        self.0.model.clone().start()
    }

    fn len(&self, sequence: &AnySequence) -> usize {
        self.0.model.len(sequence)
    }

    fn fork(&mut self, sequence: &AnySequence) -> AnySequence {
        self.0.model.clone().fork(sequence)
    }

    fn truncate(&mut self, sequence: &mut AnySequence, len: usize) {
        self.0.model.clone().truncate(sequence, len);
    }

    fn extend(
        &mut self,
        batch: &mut [Extension<'_, AnySequence>],
        logits: &mut Logits,
    ) -> Result<(), AnyModelError> {
        if self.0.is_unwanted.load(Ordering::Relaxed) {
            return Err(AnyModelError::new(Unwanted));
        }
        let wanted = batch
            .iter_mut()
            .map(|item| (mem::replace(item.sequence, AnySequence::none()), item.tokens.to_vec(), item.rows));
        let (sequences, rows) = self.0.rows(wanted.collect());
        for (item, sequence) in batch.iter_mut().zip(sequences) {
            *item.sequence = sequence;
        }
        let rows = rows.map_err(|error| AnyModelError::new(SharedError(error)))?;
        let vocab_len = self.vocab_len();
        logits.reset(rows.len() / vocab_len, vocab_len).copy_from_slice(&rows);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use unskew_core::{TableModel, conformance};

    use super::*;
    use crate::{Spec, TokenSpace};

    /// A table that counts its passes, and fails or panics at one of them.
    struct Counted {
        table: TableModel,
        passes: Arc<AtomicUsize>,
        positions: Arc<AtomicUsize>,
        fails_at: usize,
        panics_at: usize,
    }

    impl LanguageModel for Counted {
        type Sequence = <TableModel as LanguageModel>::Sequence;
        type Error = AnyModelError;

        fn vocab_len(&self) -> usize {
            self.table.vocab_len()
        }

        fn context_len(&self) -> Option<usize> {
            self.table.context_len()
        }

        fn start(&mut self) -> Self::Sequence {
            self.table.start()
        }

        fn len(&self, sequence: &Self::Sequence) -> usize {
            self.table.len(sequence)
        }

        fn fork(&mut self, sequence: &Self::Sequence) -> Self::Sequence {
            self.table.fork(sequence)
        }

        fn truncate(&mut self, sequence: &mut Self::Sequence, len: usize) {
            self.table.truncate(sequence, len);
        }

        fn extend(
            &mut self,
            batch: &mut [Extension<'_, Self::Sequence>],
            logits: &mut Logits,
        ) -> Result<(), AnyModelError> {
            let pass = self.passes.fetch_add(1, Ordering::Relaxed) + 1;
            let positions = batch.iter().map(|item| item.tokens.len()).sum();
            self.positions.fetch_add(positions, Ordering::Relaxed);
            assert!(pass != self.panics_at, "planted");
            if pass >= self.fails_at {
                return Err(AnyModelError::new(Unwanted));
            }
            self.table.extend(batch, logits).map_err(AnyModelError::new)
        }
    }

    fn request(fails_at: usize, panics_at: usize) -> (Request, Arc<AtomicUsize>) {
        let (request, passes, _) = counted(fails_at, panics_at);
        (request, passes)
    }

    fn counted(fails_at: usize, panics_at: usize) -> (Request, Arc<AtomicUsize>, Arc<AtomicUsize>) {
        let table = TableModel::uniform(["0", "1"]);
        let tokens = TokenSpace::from_vocabulary(Arc::clone(table.vocabulary()));
        let (passes, positions) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counts = (Arc::clone(&passes), Arc::clone(&positions));
        let model = Counted { table, passes: counts.0, positions: counts.1, fails_at, panics_at };
        let request = Model::new(model, tokens).unwrap().prompt("").max_tokens(40).seed(3);
        (request.constrain(Spec::regex("1[01]{20}0")).unwrap(), passes, positions)
    }

    fn prompts(count: u32) -> Vec<Prompt> {
        (0..count).map(|number| vec![TokenId(number % 2); number as usize % 5].into()).collect()
    }

    #[test]
    fn prompts_have_the_outputs_that_they_have_alone_in_a_sixth_of_the_passes() {
        for method in ["masked", "cars", "disc:k=2", "smc:n=4", "auto"] {
            let (request, passes) = request(usize::MAX, usize::MAX);
            let mut alone = Vec::new();
            for (place, prompt) in prompts(16).into_iter().enumerate() {
                let request = request.clone().outputs(2).after(prompt).unwrap().stream(place as u64);
                alone.extend(request.sample(method).unwrap().take(2).map(|output| (place, output.unwrap())));
            }
            let (alone_passes, each) =
                (passes.swap(0, Ordering::Relaxed), request.sample_each(prompts(16), 2, method));
            let together: Vec<_> = each.unwrap().map(|(place, output)| (place, output.unwrap())).collect();
            assert_eq!(together.len(), 32);
            assert_eq!(together, alone, "{method}");
            let together_passes = passes.load(Ordering::Relaxed);
            assert!(
                together_passes * 6 <= alone_passes,
                "{method}: {alone_passes} and {together_passes} passes"
            );
        }
    }

    #[test]
    fn a_common_beginning_is_evaluated_once() {
        let (request, _, positions) = counted(usize::MAX, usize::MAX);
        let prompt = |last: u32| [vec![TokenId(1); 30], vec![TokenId(0), TokenId(last % 2)]].concat();
        let mut alone = Vec::new();
        for place in 0..8 {
            let request = request.clone().after(prompt(place)).unwrap().stream(u64::from(place));
            alone.extend(request.sample("cars").unwrap().take(1).map(Result::unwrap));
        }
        let alone_positions = positions.swap(0, Ordering::Relaxed);
        let prompts: Vec<_> = (0..8).map(prompt).collect();
        let together: Vec<_> =
            request.sample_each(prompts, 1, "cars").unwrap().map(|(_, one)| one.unwrap()).collect();
        assert_eq!(together, alone);
        assert_eq!(positions.load(Ordering::Relaxed), alone_positions - 7 * 31);
    }

    #[test]
    fn more_prompts_than_threads_are_drawn_in_order() {
        let (request, _) = request(usize::MAX, usize::MAX);
        let places: Vec<_> =
            request.clone().sample_each(prompts(150), 1, "masked").unwrap().map(|(place, _)| place).collect();
        assert_eq!(places, (0..150).collect::<Vec<_>>());
        assert_eq!(request.clone().sample_each(prompts(0), 1, "masked").unwrap().count(), 0);
        assert!(request.sample_each(vec![vec![TokenId(9)]], 1, "masked").is_err());
    }

    #[test]
    fn errors_and_panics_end_all_prompts() {
        for (fails_at, panics_at) in [(4, usize::MAX), (usize::MAX, 4)] {
            let (request, _) = request(fails_at, panics_at);
            let outputs: Vec<_> = request.sample_each(prompts(8), 1, "masked").unwrap().collect();
            let places: Vec<_> = outputs.iter().map(|(place, _)| *place).collect();
            assert_eq!(places, (0..8).collect::<Vec<_>>());
            assert!(outputs.iter().all(|(_, output)| output.is_err()));
        }
    }

    #[test]
    fn outputs_that_nobody_takes_are_given_up() {
        let (request, passes) = request(usize::MAX, usize::MAX);
        let mut each = request.sample_each(prompts(8), 1_000_000, "masked").unwrap();
        assert!(each.next().unwrap().1.is_ok());
        let gathering = Arc::clone(&each.gathering);
        drop(each);
        while gathering.locked().drawing > 0 {
            thread::yield_now();
        }
        let before = passes.load(Ordering::Relaxed);
        thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(passes.load(Ordering::Relaxed), before);
    }

    #[test]
    fn a_model_of_a_seat_is_a_model() {
        let (request, _) = request(usize::MAX, usize::MAX);
        let gathering = Arc::new(Gathering::new(request.model.any_model().clone(), Vec::new()));
        let _seat = Seat::new(&gathering);
        conformance::check_model(&mut Gathered(gathering), &[vec![0, 1, 1], vec![1]], 0.0).unwrap();
    }
}
