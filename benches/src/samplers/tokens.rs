//! The time that each sampler adds to a token where the vocabulary is large, and the memory of a visited prefix.
//!
//! The model costs a copy of its row, so that the sampler's own time is not lost in it. Times are those of the
//! process. The model and the constraint look at the clock themselves: a copy takes some microseconds more or less by
//! where its two ends lie, and so cannot be measured in another place. The pass over the logits is measured by
//! itself, in turn with each output, and subtracted: other work of the machine slows both of a pair, and a median of
//! hundreds of differences is known to a fraction of a microsecond where single ones differ by ten.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_core::{
    Constraint, Extension, LanguageModel, Logits, MaskMut, Rejected, Rows, Sampler, TokenId, TokenMask,
};
use unskew_samplers::{
    Asap, Awrs, Exact, Greedy, Masked, SampleError, Sampling, Task, Twisted, Usage, log_mass, log_normalizer,
};

use super::{Report, TRIES};
use crate::{
    clock::{self, Moment},
    rows::{RowModel, RowOf},
};

const VOCAB: usize = 128_000;

/// A smaller one, whose rows are read in the same way: it shows the part that does not grow with the vocabulary.
const SMALL: usize = 16_000;

/// Outputs of each sampler in one place of the memory, and such places: which caches hold a row depends on where it
/// lies, and a process that looks at one place finds the same error in all its pairs.
const PAIRS: usize = 30;
const PLACES: usize = 10;

/// Draws that step together, in the second table: as many as a task's default batch. One of so many outputs at
/// once is measured there; fewer of them are needed.
const TOGETHER: usize = 16;
const ROUNDS_TOGETHER: usize = 6;

/// Rounds of each measurement by itself.
const ROUNDS: usize = 25;

/// Rows that the model has written.
static ROWS: AtomicU64 = AtomicU64::new(0);

/// Nanoseconds that the model and the constraint have taken for rows and masks.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Adds the time of `run` to [`TAKEN`]. By the clock on the wall, since asking for the time of the process takes as
/// long as a mask.
fn taking<R>(run: impl FnOnce() -> R) -> R {
    let begin = Instant::now();
    let result = run();
    TAKEN.fetch_add(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    result
}

/// Microseconds for each of `times`, without those that the model and the constraint take, and these.
fn apart(times: usize, run: impl FnOnce()) -> [f64; 2] {
    let (begin, taken) = (Moment::now(), TAKEN.load(Ordering::Relaxed));
    run();
    let all = begin.ns() as f64;
    let taken = (TAKEN.load(Ordering::Relaxed) - taken) as f64;
    [all - taken, taken].map(|ns| ns / times as f64 / 1_000.0)
}

/// A model of many tokens that costs a copy: one of a few rows, by the last token. Samplers and the pass that is
/// measured by itself share the rows, so that the same caches have them.
#[derive(Clone, Debug)]
struct Wide {
    rows: Arc<[Vec<f32>]>,
}

/// How many rows: together more than the nearest caches hold.
const KINDS: usize = 16;

impl Wide {
    fn model(vocab_len: usize) -> RowModel<Self> {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
        let mut row = || (0..vocab_len).map(|_| (f64::from(rng.next_u32()) / 4e8) as f32).collect();
        RowModel(Self { rows: (0..KINDS).map(|_| row()).collect() })
    }
}

impl RowOf for Wide {
    fn vocab_len(&self) -> usize {
        self.rows[0].len()
    }

    fn row(&self, sequence: &[TokenId], out: &mut [f32]) {
        ROWS.fetch_add(1, Ordering::Relaxed);
        let last = sequence.last().map_or(0, |token| token.index());
        taking(|| out.copy_from_slice(&self.rows[last % KINDS]));
        // Behind the prompt of one token: an output that is long enough ends.
        if sequence.len() > LENGTH {
            out[self.rows[0].len() - 1] = 60.0;
        }
    }
}

/// So many tokens, each of the first `allowed` ids.
#[derive(Clone, Copy, Debug)]
struct Some20 {
    allowed: usize,
    vocab_len: usize,
}

const LENGTH: usize = 20;

impl Constraint for Some20 {
    type State = usize;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        self.vocab_len
    }
    fn start(&self) -> usize {
        0
    }
    fn scratch(&self) {}
    fn advance(&self, (): &mut (), state: &mut usize, token: TokenId) -> Result<(), Rejected> {
        if *state == LENGTH || token.index() >= self.allowed {
            return Err(Rejected::new(token));
        }
        *state += 1;
        Ok(())
    }
    fn is_accepting(&self, state: &usize) -> bool {
        *state == LENGTH
    }
    fn fill_mask(&self, (): &mut (), state: &usize, mut mask: MaskMut<'_>) {
        taking(|| {
            mask.clear();
            if *state == LENGTH {
                return;
            }
            // By words, as engines do.
            if self.allowed + 1 == self.vocab_len {
                mask.fill();
                mask.remove(TokenId::from_index(self.allowed));
            } else {
                (0..self.allowed).for_each(|id| mask.insert(TokenId::from_index(id)));
            }
        });
    }
    fn state_key(&self, (): &mut (), state: &usize) -> Option<u64> {
        Some(*state as u64)
    }
    fn forced(&self, (): &mut (), state: &usize) -> Option<TokenId> {
        (*state < LENGTH && self.allowed == 1).then_some(TokenId(0))
    }
}

/// Microseconds that `run` takes, each of `times` times.
fn time(times: usize, mut run: impl FnMut()) -> f64 {
    let begin = Moment::now();
    (0..times).for_each(|_| run());
    begin.ns() as f64 / times as f64 / 1_000.0
}

/// Microseconds for a sum of all logits of a row, for the pass over them that a normalizer takes, and for the one
/// that it takes with a mask of all tokens.
fn passes() -> [f64; 3] {
    let model = Wide::model(VOCAB);
    let row = &model.0.rows[0];
    let mut mask = TokenMask::new(VOCAB);
    mask.as_mut().fill();
    let mut rounds = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        rounds[0].push(time(TIMES, || {
            // In lanes: one sum would wait for itself.
            let mut sums = [0.0f32; 32];
            for logits in black_box(row).as_chunks::<32>().0 {
                sums.iter_mut().zip(logits).for_each(|(sum, logit)| *sum += logit);
            }
            black_box(sums);
        }));
        rounds[1].push(time(TIMES, || _ = black_box(log_normalizer(black_box(row)))));
        rounds[2].push(time(TIMES, || _ = black_box(log_mass(black_box(row), mask.as_ref()))));
    }
    rounds.map(|rounds| rounds.into_iter().fold(f64::INFINITY, f64::min))
}

const TIMES: usize = 30;

/// The work that is not the sampler's: the model, one pass over the logits, and the mask; for as many rows at once as
/// draws step together.
struct Parts {
    model: RowModel<Wide>,
    constraint: Some20,
    masks: Vec<TokenMask>,
    logits: Logits,
    index: u32,
}

impl Parts {
    fn new(model: &RowModel<Wide>, allowed: usize, together: usize) -> Self {
        let vocab_len = model.vocab_len();
        Self {
            model: model.clone(),
            constraint: Some20 { allowed, vocab_len },
            masks: vec![TokenMask::new(vocab_len); together],
            logits: Logits::new(),
            index: 0,
        }
    }

    /// Microseconds of the pass for one token of one output. The model writes the rows of all draws, and then each is
    /// masked and read.
    fn time(&mut self) -> f64 {
        let Self { model, constraint, masks, logits, index } = self;
        let mut sequences = vec![Vec::new(); masks.len()];
        let mut tokens = vec![TokenId(0); masks.len()];
        let together = masks.len();
        let mut one = || {
            for (sequence, token) in sequences.iter_mut().zip(&mut tokens) {
                // In no order that a cache could guess, as in a text.
                *index = index.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *token = TokenId(*index >> 16);
                sequence.clear();
            }
            let extend = |(sequence, token)| Extension {
                sequence,
                tokens: std::slice::from_ref(token),
                rows: Rows::Last,
            };
            let mut batch: Vec<_> = sequences.iter_mut().zip(&tokens).map(extend).collect();
            let Ok(()) = model.extend(&mut batch, logits);
            for (row, mask) in masks.iter_mut().enumerate() {
                constraint.fill_mask(&mut (), &0, mask.as_mut());
                black_box(log_mass(logits.row(row), mask.as_ref()));
            }
        };
        apart((LENGTH + 1) * together, || (0..=LENGTH).for_each(|_| one()))[0]
    }
}

type Boxed = Box<dyn Sampler<Error = SampleError<std::convert::Infallible>>>;

fn task(model: &RowModel<Wide>, allowed: usize, batch: usize) -> Task<RowModel<Wide>, Some20> {
    let vocab_len = model.vocab_len();
    Task {
        model: model.clone(),
        constraint: Some20 { allowed, vocab_len },
        prompt: vec![TokenId(0)],
        // The last id ends a sequence; a mask never holds it.
        end: vec![TokenId::from_index(vocab_len - 1)],
        max_tokens: LENGTH + 1,
        top: None,
        batch,
        max_bytes: 256 << 20,
        cancel: unskew_samplers::Cancel::default(),
    }
}

/// Those that learn draw together by groups alone.
fn sampler(name: &str, model: &RowModel<Wide>, allowed: usize, together: usize) -> Boxed {
    let task = task(model, allowed, together);
    match name {
        "masked" => Box::new(Sampling::new(task, Masked::new())),
        "rejection" => Box::new(Sampling::new(task, Exact::rejection(TRIES))),
        "rsft" => Box::new(Sampling::new(task, Exact::rsft(TRIES))),
        "ars" => Box::new(Sampling::new(Task { batch: together, ..task }, Exact::ars(TRIES))),
        "cars" => Box::new(Sampling::new(Task { batch: together, ..task }, Exact::cars(TRIES))),
        "asap" => Box::new(Sampling::new(Task { batch: together, ..task }, Asap::new(TRIES))),
        "disc" => Box::new(Sampling::new(Task { batch: together, ..task }, Exact::disc())),
        "twist" => Box::new(Sampling::new(Task { batch: together, ..task }, Twisted::new())),
        "awrs" => Box::new(Sampling::new(task, Awrs::new(TRIES))),
        _ => Box::new(Sampling::new(task, Greedy)),
    }
}

const NAMES: [&str; 10] =
    ["masked", "rejection", "rsft", "ars", "cars", "asap", "disc", "twist", "awrs", "greedy"];

/// The time of each token of a sampler's outputs, in microseconds: medians over outputs.
struct Measured {
    /// Rows that the model wrote for a token.
    rows: f64,
    /// The model and the masks.
    taken: f64,
    /// Passes over so many rows.
    passes: f64,
    /// The rest, output by output.
    more: f64,
    /// Its standard error, from the median distance to it.
    error: f64,
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Draws outputs one by one, or `together` at once.
fn per_token(name: &str, model: &RowModel<Wide>, allowed: usize, together: usize) -> Measured {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let tokens = ((LENGTH + 1) * together) as f64;
    let (first, rounds) = if together == 1 { (10, PAIRS) } else { (1, ROUNDS_TOGETHER) };
    let mut draws = Vec::new();
    let mut found = [const { Vec::new() }; 4];
    let mut held = Vec::new();
    for place in 0..PLACES {
        let mut parts = Parts::new(model, allowed, together);
        let mut sampler = sampler(name, model, allowed, together);
        // The first outputs make everything grow.
        for index in 0..rounds + first {
            // Before and after, so that a drift cancels.
            let before = parts.time();
            let rows = ROWS.load(Ordering::Relaxed);
            let [own, taken] = apart((LENGTH + 1) * together, || {
                if together == 1 {
                    black_box(sampler.draw(&mut rng).expect("all outputs are possible"));
                } else {
                    draws.clear();
                    sampler.draw_many(together, &mut rng, &mut draws).expect("all outputs are possible");
                }
            });
            let rows = (ROWS.load(Ordering::Relaxed) - rows) as f64 / tokens;
            let passes = f64::midpoint(before, parts.time()) * rows;
            if index >= first {
                for (found, value) in found.iter_mut().zip([rows, taken, passes, own - passes]) {
                    found.push(value);
                }
            }
        }
        // Some of the rows stay, so that the next ones lie elsewhere.
        if place % 2 == 0 {
            held.push((parts, sampler));
        }
    }
    let [rows, mut taken, mut passes, mut more] = found;
    let middle = median(&mut more);
    let mut distances: Vec<f64> = more.iter().map(|value| (value - middle).abs()).collect();
    // Of a normal distribution: from that distance to the deviation, and from the mean's error to the median's.
    let error = 1.4826 * 1.2533 * median(&mut distances) / (more.len() as f64).sqrt();
    Measured {
        rows: rows.iter().sum::<f64>() / rows.len() as f64,
        taken: median(&mut taken),
        passes: median(&mut passes),
        more: middle,
        error,
    }
}

/// The time of a token where draws step together.
fn report_together(out: &mut Report, model: &RowModel<Wide>) {
    out.line(format_args!(
        "\n## Time for a token, {TOGETHER} outputs at once\n\nThe same outputs, {TOGETHER} of them by one call of `draw_many`, with all tokens but one allowed: \
         the model is asked for a row of each in one pass, then all rows are masked and read, then all draws go on by a token. ARS, CARS, ASAp and DISC learn, and \
         draw in groups of {TOGETHER} ([`grouped`]); the others are a batch of {TOGETHER}. Numbers are for a token of one output, as above, and so is the part that is \
         subtracted: `pass` is measured over {TOGETHER} rows that the model writes in one pass, each read under a mask of its own. These are {} MB, more than the nearest caches hold: rows and sums come from farther away when a draw goes on than they do for one output. \
         Medians over {ROUNDS_TOGETHER} calls in \
         each of {PLACES} places.\n\n\
         | vocabulary | allowed | sampler | rows | model, mask | pass | more |\n|--:|--:|---|--:|--:|--:|--:|",
        TOGETHER * VOCAB * 4 / 1_000_000
    ));
    for name in NAMES {
        let Measured { rows, taken, passes, more, error } = per_token(name, model, VOCAB - 1, TOGETHER);
        let allowed = VOCAB - 1;
        out.line(format_args!(
            "| {VOCAB} | {allowed} | {name} | {rows:.2} | {taken:.1} | {passes:.1} | {more:.1} ± {error:.1} |"
        ));
    }
}

/// Bytes for each visited prefix after so many outputs.
fn memory(mut draw: impl FnMut(&mut ChaCha8Rng) -> Usage) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let usage = (0..50).map(|_| draw(&mut rng)).last().expect("some outputs");
    usage.trie_bytes as f64 / usage.prefixes as f64
}

/// Measures.
pub(super) fn report(out: &mut Report) {
    clock::use_cpu_time();
    out.line(format_args!(
        "## Time for a token\n\nOutputs of {LENGTH} tokens, a model that costs a copy of its row; microseconds of the process, medians over {PAIRS} \
         outputs in each of {PLACES} places of the memory. For a token of an output: `model, mask` is the time of the model and the constraint, \
         `pass` one pass over the logits under the mask ([`log_mass`]), measured before and after each output, times the rows that the model wrote; \
         `more` the median of the rest, with its standard error. Samplers that reject draw most tokens in vain where few are allowed, and are \
         left out there.\n"
    ));
    let [read, pass, masked] = passes();
    out.line(format_args!(
        "A row of {VOCAB} is {} KiB: reading it takes {read:.1}, a pass for the normalizer {pass:.1}, and one under a mask of all tokens {masked:.1}.\n\n\
         | vocabulary | allowed | sampler | rows | model, mask | pass | more |\n|--:|--:|---|--:|--:|--:|--:|",
        VOCAB * 4 / 1024
    ));
    for vocab_len in [SMALL, VOCAB] {
        let model = Wide::model(vocab_len);
        for allowed in [2, 64, vocab_len / 2, vocab_len - 1] {
            for name in NAMES {
                let rejects = !matches!(name, "masked" | "asap" | "twist" | "greedy");
                if rejects && allowed < vocab_len - 1 {
                    continue;
                }
                let Measured { rows, taken, passes, more, error } = per_token(name, &model, allowed, 1);
                out.line(format_args!(
                    "| {vocab_len} | {allowed} | {name} | {rows:.2} | {taken:.1} | {passes:.1} | {more:.1} ± {error:.1} |"
                ));
            }
        }
    }
    let model = Wide::model(VOCAB);
    report_together(out, &model);
    let (mut cars, mut asap) = (
        Sampling::new(task(&model, VOCAB - 1, 1), Exact::cars(TRIES)),
        Sampling::new(task(&model, 64, 1), Asap::new(TRIES)),
    );
    let cars = memory(|rng| {
        cars.draw(rng).expect("all outputs are possible");
        cars.usage()
    });
    let asap = memory(|rng| {
        asap.draw(rng).expect("all outputs are possible");
        asap.usage()
    });
    out.line(format_args!(
        "\n## Memory\n\nA visited prefix takes {cars:.1} bytes of the trie after 50 outputs of CARS, and {asap:.1} after 50 of ASAp among 64 \
         tokens, the places among their parents' children included."
    ));
}
