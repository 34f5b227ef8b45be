//! What each sampler adds to the time of a token where the vocabulary is large, and the memory of a visited prefix.
//!
//! The model costs a copy of its row, so that what a sampler adds is not lost in it. Times are those of the process; the
//! parts that are subtracted are measured in the same rounds.

use std::hint::black_box;

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_core::{
    Constraint, Extension, LanguageModel, Logits, MaskMut, Rejected, Rows, Sampler, TokenId, TokenMask,
};
use unskew_samplers::{
    Ars, Asap, Awrs, Cars, Disc, DiscConfig, Greedy, Masked, Rejection, Rsft, SampleError, Task, Usage,
    log_normalizer,
};

use super::{Report, TRIES};
use crate::{
    clock::{self, Moment},
    rows::{RowModel, RowOf},
};

const VOCAB: usize = 128_000;

/// Rounds of outputs, each of which is one measurement.
const ROUNDS: usize = 25;

/// A model of many tokens that costs a copy: one of a few rows, by the last token.
#[derive(Debug)]
struct Wide {
    rows: Vec<Vec<f32>>,
}

impl Wide {
    fn model(vocab_len: usize) -> RowModel<Self> {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
        let mut row = || (0..vocab_len).map(|_| (f64::from(rng.next_u32()) / 4e8) as f32).collect();
        RowModel(Self { rows: (0..16).map(|_| row()).collect() })
    }
}

impl RowOf for Wide {
    fn vocab_len(&self) -> usize {
        self.rows[0].len()
    }

    fn row(&self, sequence: &[TokenId], out: &mut [f32]) {
        let last = sequence.last().map_or(0, |token| token.index());
        out.copy_from_slice(&self.rows[last % 16]);
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

/// Microseconds for a sum of all logits of a row, and for the pass over them that a normalizer takes.
fn passes() -> [f64; 2] {
    let model = Wide::model(VOCAB);
    let row = &model.0.rows[0];
    let mut rounds = [const { Vec::new() }; 2];
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
    fn new(allowed: usize) -> Self {
        Self {
            model: Wide::model(VOCAB),
            constraint: Some20 { allowed, vocab_len: VOCAB },
            mask: TokenMask::new(VOCAB),
            logits: Logits::new(),
            index: 0,
        }
    }

    /// Microseconds for one token.
    fn time(&mut self) -> f64 {
        let Self { model, constraint, mask, logits, index } = self;
        time(TIMES, || {
            *index += 1;
            let (mut sequence, tokens) = (Vec::new(), [TokenId(*index)]);
            let extension = Extension { sequence: &mut sequence, tokens: &tokens, rows: Rows::Last };
            let Ok(()) = model.extend(&mut [extension], logits);
            black_box(log_normalizer(logits.row(0)));
            constraint.fill_mask(&mut (), &0, mask.as_mut());
            black_box(mask.words());
        })
    }
}

type Boxed = Box<dyn Sampler<Error = SampleError<std::convert::Infallible>>>;

fn task(allowed: usize) -> Task<RowModel<Wide>, Some20> {
    Task {
        model: Wide::model(VOCAB),
        constraint: Some20 { allowed, vocab_len: VOCAB },
        prompt: vec![TokenId(0)],
        // The last id ends a sequence; a mask never holds it.
        end: vec![TokenId::from_index(VOCAB - 1)],
        max_tokens: LENGTH + 1,
        batch: 1,
        max_bytes: 256 << 20,
        cancel: unskew_samplers::Cancel::default(),
    }
}

fn sampler(name: &str, allowed: usize) -> Boxed {
    let task = task(allowed);
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

/// Microseconds for each token of a sampler's outputs, the positions that were evaluated for each, and the microseconds for a token of
/// the parts that are not the sampler's. The least of some rounds each: what a machine does besides only ever adds.
fn per_token(sampler: &mut Boxed, parts: &mut Parts, outputs: usize) -> (f64, f64, f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let tokens = (outputs * (LENGTH + 1)) as f64;
    let (mut best, mut base) = ((f64::INFINITY, 0.0), f64::INFINITY);
    for _ in 0..ROUNDS {
        base = base.min(parts.time());
        let begin = Moment::now();
        let mut positions = 0;
        for _ in 0..outputs {
            positions += sampler.draw(&mut rng).expect("all outputs are possible").cost.positions;
        }
        let all = begin.ns() as f64 / tokens / 1_000.0;
        if all < best.0 {
            best = (all, positions as f64 / tokens);
        }
    }
    (best.0, best.1, base)
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
        "## Time for a token\n\nA vocabulary of {VOCAB}, outputs of {LENGTH} tokens, a model that costs a copy of its row; microseconds \
         of the process, the least of {ROUNDS} rounds. `all` is the time for each token of an output; `base` that of the model's copy, one \
         pass over the logits ([`log_normalizer`]) and the mask, times the positions that were evaluated for a token; `more` the difference. \
         Tokens that are appended again, because a prefix is known, are positions without a row: where few tokens are allowed, and prefixes come \
         again, `base` is too much. Samplers that reject draw most tokens in vain there, and are left out.\n"
    ));
    let [read, pass] = passes();
    out.line(format_args!(
        "A row is {} KiB: reading it takes {read:.1}, the pass {pass:.1}.\n\n\
         | allowed | sampler | all | positions per token | base | more |\n|--:|---|--:|--:|--:|--:|",
        VOCAB * 4 / 1024
    ));
    for allowed in [2, 64, VOCAB / 2, VOCAB - 1] {
        let mut parts = Parts::new(allowed);
        for name in ["masked", "rejection", "rsft", "ars", "cars", "asap", "disc", "awrs", "greedy"] {
            let rejects = !matches!(name, "masked" | "asap" | "greedy");
            if rejects && allowed < VOCAB - 1 {
                continue;
            }
            let (all, positions, base) = per_token(&mut sampler(name, allowed), &mut parts, 5);
            let base = base * positions;
            out.line(format_args!(
                "| {allowed} | {name} | {all:.1} | {positions:.2} | {base:.1} | {:.1} |",
                all - base
            ));
        }
    }
    let (mut cars, mut asap) = (Cars::new(task(VOCAB - 1), TRIES), Asap::new(task(64), TRIES));
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
