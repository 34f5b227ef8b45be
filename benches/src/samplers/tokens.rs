//! What each sampler adds to the time of a token where the vocabulary is large, and the memory of a visited prefix.
//!
//! The model costs a copy of its row, so that what a sampler adds is not lost in it. Times are those of the process. What is not the
//! sampler's is measured by itself, in turn with each output, and subtracted: what the machine does besides slows both of a
//! pair, and a median of hundreds of differences is known to a fraction of a microsecond where single ones differ by ten.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_core::{
    Constraint, Extension, LanguageModel, Logits, MaskMut, Rejected, Rows, Sampler, TokenId, TokenMask,
};
use unskew_samplers::{
    Ars, Asap, Awrs, Cars, Disc, DiscConfig, Greedy, Masked, Rejection, Rsft, SampleError, Task, Usage,
    log_mass, log_normalizer,
};

use super::{Report, TRIES};
use crate::{
    clock::{self, Moment},
    rows::{RowModel, RowOf},
};

const VOCAB: usize = 128_000;

/// A smaller one, whose rows are read in the same way: what does not grow with the vocabulary is seen here.
const SMALL: usize = 16_000;

/// Outputs of each sampler.
const PAIRS: usize = 200;

/// Of what is measured by itself.
const ROUNDS: usize = 25;

/// Rows that the model has written.
static ROWS: AtomicU64 = AtomicU64::new(0);

/// A model of many tokens that costs a copy: one of a few rows, by the last token. Samplers and what is measured by itself
/// share the rows, so that the same caches have them.
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
        out.copy_from_slice(&self.rows[last % KINDS]);
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

/// Microseconds for a sum of all logits of a row, for the pass over them that a normalizer takes, and for the one that it takes with
/// what a mask of all tokens leaves.
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

/// What is not the sampler's: the model, one pass over the logits, and the mask.
struct Parts {
    model: RowModel<Wide>,
    constraint: Some20,
    mask: TokenMask,
    logits: Logits,
    index: u32,
}

impl Parts {
    fn new(model: &RowModel<Wide>, allowed: usize) -> Self {
        let vocab_len = model.vocab_len();
        Self {
            model: model.clone(),
            constraint: Some20 { allowed, vocab_len },
            mask: TokenMask::new(vocab_len),
            logits: Logits::new(),
            index: 0,
        }
    }

    /// Microseconds for one token.
    fn time(&mut self) -> f64 {
        let Self { model, constraint, mask, logits, index } = self;
        time(LENGTH + 1, || {
            // In no order that a cache could guess, as in a text.
            *index = index.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (mut sequence, tokens) = (Vec::new(), [TokenId(*index >> 16)]);
            let extension = Extension { sequence: &mut sequence, tokens: &tokens, rows: Rows::Last };
            let Ok(()) = model.extend(&mut [extension], logits);
            constraint.fill_mask(&mut (), &0, mask.as_mut());
            black_box(log_mass(logits.row(0), mask.as_ref()));
        })
    }
}

type Boxed = Box<dyn Sampler<Error = SampleError<std::convert::Infallible>>>;

fn task(model: &RowModel<Wide>, allowed: usize) -> Task<RowModel<Wide>, Some20> {
    let vocab_len = model.vocab_len();
    Task {
        model: model.clone(),
        constraint: Some20 { allowed, vocab_len },
        prompt: vec![TokenId(0)],
        // The last id ends a sequence; a mask never holds it.
        end: vec![TokenId::from_index(vocab_len - 1)],
        max_tokens: LENGTH + 1,
        batch: 1,
        max_bytes: 256 << 20,
        cancel: unskew_samplers::Cancel::default(),
    }
}

fn sampler(name: &str, model: &RowModel<Wide>, allowed: usize) -> Boxed {
    let task = task(model, allowed);
    match name {
        "masked" => Box::new(Masked::new(task)),
        "rejection" => Box::new(Rejection::new(task, TRIES)),
        "rsft" => Box::new(Rsft::new(task, TRIES)),
        "ars" => Box::new(Ars::new(task, TRIES)),
        "cars" => Box::new(Cars::new(task, TRIES)),
        "asap" => Box::new(Asap::new(task, TRIES)),
        "disc" => Box::new(Disc::new(task, DiscConfig::default())),
        "awrs" => Box::new(Awrs::new(task, TRIES)),
        _ => Box::new(Greedy::new(task)),
    }
}

/// What each token of a sampler's outputs takes, in microseconds: medians over outputs.
struct Measured {
    all: f64,
    /// Rows that the model wrote for a token.
    rows: f64,
    /// What is not the sampler's.
    base: f64,
    /// The difference, pair by pair.
    more: f64,
    /// Its standard error, from the median distance to it.
    error: f64,
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn per_token(sampler: &mut Boxed, parts: &mut Parts) -> Measured {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let tokens = (LENGTH + 1) as f64;
    let mut found = [const { Vec::new() }; 4];
    // The first outputs make everything grow.
    for index in 0..PAIRS + 10 {
        // Before and after, so that what rises or falls cancels.
        let before = parts.time();
        let rows = ROWS.load(Ordering::Relaxed);
        let begin = Moment::now();
        black_box(sampler.draw(&mut rng).expect("all outputs are possible"));
        let all = begin.ns() as f64 / tokens / 1_000.0;
        let rows = (ROWS.load(Ordering::Relaxed) - rows) as f64 / tokens;
        let base = f64::midpoint(before, parts.time()) * rows;
        if index >= 10 {
            for (found, value) in found.iter_mut().zip([all, rows, base, all - base]) {
                found.push(value);
            }
        }
    }
    let [mut all, rows, mut base, mut more] = found;
    let middle = median(&mut more);
    let mut distances: Vec<f64> = more.iter().map(|value| (value - middle).abs()).collect();
    // Of a normal distribution: from that distance to the deviation, and from the mean's error to the median's.
    let error = 1.4826 * 1.2533 * median(&mut distances) / (more.len() as f64).sqrt();
    Measured {
        all: median(&mut all),
        rows: rows.iter().sum::<f64>() / rows.len() as f64,
        base: median(&mut base),
        more: middle,
        error,
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
         outputs. `all` is the time for each token of an output; `base` that of the model's copy, the mask, and one pass over the logits under it \
         ([`log_mass`]), measured before and after each output, times the rows that the model wrote for a token; `more` the median of the differences, \
         with its standard error. Samplers that reject draw most tokens in vain where few are allowed, and are left out there.\n"
    ));
    let [read, pass, masked] = passes();
    out.line(format_args!(
        "A row of {VOCAB} is {} KiB: reading it takes {read:.1}, a pass for the normalizer {pass:.1}, and one under a mask of all tokens {masked:.1}.\n\n\
         | vocabulary | allowed | sampler | all | rows per token | base | more |\n|--:|--:|---|--:|--:|--:|--:|",
        VOCAB * 4 / 1024
    ));
    for vocab_len in [SMALL, VOCAB] {
        let model = Wide::model(vocab_len);
        for allowed in [2, 64, vocab_len / 2, vocab_len - 1] {
            let mut parts = Parts::new(&model, allowed);
            for name in ["masked", "rejection", "rsft", "ars", "cars", "asap", "disc", "awrs", "greedy"] {
                let rejects = !matches!(name, "masked" | "asap" | "greedy");
                if rejects && allowed < vocab_len - 1 {
                    continue;
                }
                let Measured { all, rows, base, more, error } =
                    per_token(&mut sampler(name, &model, allowed), &mut parts);
                out.line(format_args!(
                    "| {vocab_len} | {allowed} | {name} | {all:.1} | {rows:.2} | {base:.1} | {more:.1} ± {error:.1} |"
                ));
            }
        }
    }
    let model = Wide::model(VOCAB);
    let (mut cars, mut asap) =
        (Cars::new(task(&model, VOCAB - 1), TRIES), Asap::new(task(&model, 64), TRIES));
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
