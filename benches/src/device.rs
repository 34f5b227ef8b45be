//! A step of a batch where the model runs on wgpu: `cargo xtask bench device`.
//!
//! The three ways in which a mask and the logits can come together, with the same model, the same set, and the same random
//! numbers. The first two read back a token and a few numbers a row; the third serves any sampler over any constraint.
//!
//! - **device**: intervals go up, and masks are made and applied where the logits lie.
//! - **upload**: the CPU makes the masks, their words go up, and they are applied there.
//! - **read-back**: the logits come down, and the CPU makes and applies the masks.
//!
//! The model is small but for its vocabulary, so that a step is mostly the head, the masks and transfers. Times are those
//! of the process and on the wall: on a software adapter the first are the work of all threads, kernels among them.

use std::{fmt::Write, sync::Arc, time::Instant};

use clap::Args;
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_core::{Constraint, Extension, LanguageModel, Logits, MaskBatch, MaskRef, Rows, TokenId};
use unskew_runner::{Llama, ModelConfig, Sequence};
use unskew_sets::{Choice, Chooser, GpuSet, Interval, Next, Rule, SetBuilder, SetConstraint, SetState};

use crate::{
    clock::{Moment, use_cpu_time},
    options::{RecordOptions, at_least_one},
    record,
    sets::titles::{TOKENS, Titles, VOCAB},
};

/// A step of a batch where the model runs on wgpu.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Titles of the set
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    items: usize,
    /// Steps that are counted
    #[arg(long, value_name = "N", default_value = "20", value_parser = at_least_one)]
    steps: usize,
    /// Sequences of a batch
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,32")]
    batches: Vec<usize>,
    #[command(flatten)]
    record: RecordOptions,
}

/// The end of a sequence: an id that no title has.
const END: TokenId = TokenId(TOKENS);
const PROMPT: [TokenId; 4] = [TokenId(5), TokenId(6), TokenId(7), TokenId(8)];
/// Steps that are not counted: the first ones compile kernels.
const WARM: usize = 3;

/// A way to step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Device,
    Upload,
    ReadBack,
}

struct Bench {
    model: Llama,
    constraint: SetConstraint,
    set: GpuSet,
    chooser: Chooser,
}

/// The sequences of a batch.
struct Batch {
    sequences: Vec<Sequence>,
    intervals: Vec<Interval>,
    states: Vec<SetState>,
    next: Vec<Vec<TokenId>>,
    logits: Logits,
    masks: MaskBatch,
}

/// Measures and reports.
#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let (items, steps) = (options.items, options.steps);
    use_cpu_time();
    let mut bench = Bench::new(items)?;
    let mut table = String::from(
        "| batch | way | up, bytes | down, bytes | process ms p50 | least | wall ms p50 | least | of it masks | choice |\n\
         |--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for &batch in &options.batches {
        for way in [Way::Device, Way::Upload, Way::ReadBack] {
            eprintln!("{} sequences, {}", batch, way.name());
            table += &bench.measure(way, batch, steps)?;
        }
    }
    let gpu = bench.chooser.gpu();
    // Mesa's names of its own.
    let software = ["llvmpipe", "lavapipe", "softpipe"].iter().any(|name| gpu.name().contains(name));
    let about = if software {
        " It is a software adapter, and this was not run on a GPU: nothing crosses a bus, and kernels run on the cores of the CPU. The \
         bytes are those of any adapter; the times are the whole cost of each way here, and not the savings of a GPU."
    } else {
        ""
    };
    let report = format!(
        "# Masks where the logits are, {}\n\n{}Adapter: {}.{about} {}.\n\n\
         A random model of one layer and {VOCAB} ids, 32 wide, and a set of {items} titles by Zipf's distribution over {TOKENS} ids. A step appends a token \
         to each sequence and chooses the next by masked sampling; {steps} steps after {WARM} that are not counted. Bytes of a step \
         are those that the choice moves; the model itself moves the same in all. Process: the time of all threads; on a \
         software adapter that is the kernels too. `masks` and `choice` are the parts of the wall's median that the CPU spends on \
         them.\n\n{table}",
        record::today(),
        record::host(),
        gpu.name(),
        record::command(),
    );
    print!("{report}");
    options.record.write("device", &report)
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Upload => "upload",
            Self::ReadBack => "read-back",
        }
    }

    /// The bytes that a step of so many sequences moves up and down for the choice.
    fn bytes(self, rows: usize) -> [usize; 2] {
        let (words, vocab) = (VOCAB.div_ceil(32), VOCAB);
        // Intervals, random numbers and the shape; tokens and four numbers.
        let (up, down) = (rows * (24 + 4) + 32, rows * 20);
        match self {
            Self::Device => [up, down + 24 * rows],
            Self::Upload => [up + 4 * words * rows, down],
            Self::ReadBack => [0, 4 * vocab * rows],
        }
    }
}

impl Bench {
    fn new(items: usize) -> Result<Self, String> {
        let config = format!(
            r#"{{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
                 "num_attention_heads": 2, "vocab_size": {VOCAB}, "max_position_embeddings": 4096,
                 "tie_word_embeddings": true}}"#
        );
        let config = ModelConfig::from_json(&config).map_err(|error| error.to_string())?;
        let model = Llama::random(&config, 1).map_err(|error| error.to_string())?;
        let model = model.on_gpu().map_err(|error| error.to_string())?;
        let mut builder = SetBuilder::new(VOCAB);
        for title in Titles::new(1).set(items) {
            let title: Vec<TokenId> = title.into_iter().map(TokenId).collect();
            builder.push(&title).map_err(|error| error.to_string())?;
        }
        let (set, _) = builder.build().map_err(|error| error.to_string())?;
        let constraint = SetConstraint::new(Arc::new(set), VOCAB).map_err(|error| error.to_string())?;
        let gpu = model.gpu().map_err(|error| error.to_string())?;
        let set = GpuSet::of(Arc::clone(&gpu), &constraint).map_err(|error| error.to_string())?;
        let chooser = Chooser::new(gpu, &[END]).map_err(|error| error.to_string())?;
        Ok(Self { model, constraint, set, chooser })
    }

    /// A line of the table.
    fn measure(&mut self, way: Way, rows: usize, steps: usize) -> Result<String, String> {
        let mut batch = Batch {
            sequences: (0..rows).map(|_| self.model.start()).collect(),
            intervals: vec![self.set.start(); rows],
            states: vec![self.constraint.start(); rows],
            next: vec![PROMPT.to_vec(); rows],
            logits: Logits::new(),
            masks: MaskBatch::new(rows, VOCAB),
        };
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut times: [Vec<u64>; 4] = Default::default();
        for step in 0..WARM + steps {
            let random: Vec<u32> = (0..rows).map(|_| rng.next_u32()).collect();
            let (process, wall) = (Moment::now(), Instant::now());
            let (chosen, parts) = self.step(way, &mut batch, &random)?;
            let spent = [process.ns(), wall.elapsed().as_nanos() as u64, parts[0], parts[1]];
            if step >= WARM {
                times.iter_mut().zip(spent).for_each(|(times, spent)| times.push(spent));
            }
            batch.go_on(&chosen, way, &self.constraint, &self.set);
        }
        times.iter_mut().for_each(|times| times.sort_unstable());
        let ms = |ns: u64| ns as f64 / 1e6;
        let [process, wall, masks, choice] = times.map(|times| (ms(times[times.len() / 2]), ms(times[0])));
        let [up, down] = way.bytes(rows);
        let mut line = format!("| {rows} | {} | {up} | {down} ", way.name());
        write!(line, "| {:.2} | {:.2} | {:.2} | {:.2} ", process.0, process.1, wall.0, wall.1)
            .and_then(|()| writeln!(line, "| {:.2} | {:.2} |", masks.0, choice.0))
            .map_err(|error| error.to_string())?;
        Ok(line)
    }

    /// The next token of each sequence, and the nanoseconds that the CPU has spent on masks and on the choice.
    fn step(&mut self, way: Way, batch: &mut Batch, random: &[u32]) -> Result<(Vec<Next>, [u64; 2]), String> {
        let Self { model, constraint, set, chooser } = self;
        let Batch { sequences, intervals, states, next, logits, masks } = batch;
        let items = sequences.iter_mut().zip(next.iter());
        let mut extensions: Vec<Extension<'_, Sequence>> =
            items.map(|(sequence, tokens)| Extension { sequence, tokens, rows: Rows::Last }).collect();
        let rule = Rule::Sample { temperature: 1.0, random };
        let chosen = |choices: Vec<Choice>| choices.into_iter().map(|choice| choice.next).collect::<Vec<_>>();
        let ns = |since: Instant| since.elapsed().as_nanos() as u64;
        if way == Way::Device {
            let choices = model.choose_in_set(&mut extensions, chooser, set, intervals, rule);
            return Ok((chosen(choices.map_err(|error| error.to_string())?), [0, 0]));
        }
        if way == Way::Upload {
            let begin = Instant::now();
            constraint.fill_masks(&mut (), &mut states.iter(), masks);
            let may_end: Vec<bool> = states.iter().map(|state| constraint.is_accepting(state)).collect();
            let of_masks = ns(begin);
            let choices = model.choose_masked(&mut extensions, chooser, masks, &may_end, rule);
            return Ok((chosen(choices.map_err(|error| error.to_string())?), [of_masks, 0]));
        }
        model.extend(&mut extensions, logits).map_err(|error| error.to_string())?;
        let begin = Instant::now();
        constraint.fill_masks(&mut (), &mut states.iter(), masks);
        let of_masks = ns(begin);
        let begin = Instant::now();
        let rows = logits.rows().zip(states.iter()).enumerate();
        let chosen = rows.map(|(row, (logits, state))| {
            choose(logits, masks.row(row), constraint.is_accepting(state), random[row])
        });
        let chosen = chosen.collect();
        Ok((chosen, [of_masks, ns(begin)]))
    }
}

impl Batch {
    /// Appends the choices; an item that has ended is followed by another one.
    fn go_on(&mut self, chosen: &[Next], way: Way, constraint: &SetConstraint, set: &GpuSet) {
        for (row, next) in chosen.iter().enumerate() {
            match next {
                Next::Token(token) => {
                    self.next[row] = vec![*token];
                    if way != Way::Device {
                        constraint.advance(&mut (), &mut self.states[row], *token).expect("it is allowed");
                    }
                }
                Next::End | Next::Nothing => {
                    self.next[row] = vec![END];
                    self.states[row] = constraint.start();
                    self.intervals[row] = set.start();
                }
            }
        }
    }
}

/// Masked sampling of a row on the CPU, with the normaliser over all tokens that a weight needs.
fn choose(logits: &[f32], mask: MaskRef<'_>, may_end: bool, random: u32) -> Next {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |id: TokenId| f64::from(logits[id.index()] - largest).exp();
    let all: f64 = logits.iter().map(|logit| f64::from(logit - largest).exp()).sum();
    let end = if may_end { weight(END) } else { 0.0 };
    let allowed: f64 = end + mask.into_ids().map(weight).sum::<f64>();
    std::hint::black_box((allowed / all).ln());
    let mut left = f64::from(random) / 2.0_f64.powi(32) * allowed - end;
    if left < 0.0 {
        return Next::End;
    }
    let mut last = Next::Nothing;
    for id in mask.into_ids() {
        last = Next::Token(id);
        left -= weight(id);
        if left < 0.0 {
            break;
        }
    }
    last
}
