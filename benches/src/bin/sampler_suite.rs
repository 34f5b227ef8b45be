//! Samplers side by side: how far each is from the exact law for what cost, on twelve tasks that can be enumerated; what
//! each adds to a token's time where the vocabulary is large; and the memory of a visited prefix.
//!
//! Distances are those of one session, in which a sampler learns from its own outputs. A model call is one evaluated
//! position. On tasks this small every prefix is soon known and costs nothing, so the number of outputs that were begun is
//! given too: it is what remains where prefixes do not come twice.
//!
//! Times are those of the process on its processor. `--record` writes the report to `benches/record`.
#![allow(clippy::print_stdout, reason = "a program that reports")]
#![allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    process::Command,
};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_core::{
    Constraint, ExactLaw, Extension, LanguageModel, Logits, MaskMut, Rejected, Rows, Sampler, TableModel,
    TokenId, TokenMask, logprob,
};
use unskew_samplers::{
    Ars, Asap, Awrs, Cars, Cut, Disc, DiscConfig, Form, Greedy, Masked, Mcmc, Rejection, Rsft, SampleError,
    Smc, SmcConfig, Task,
};

/// Outputs of each sampler on each task, and those after which the distance is looked at first.
const OUTPUTS: usize = 1_000;
const EARLY: usize = 100;

/// Rejection is left out where it would take more tries than this for one output.
const PATIENCE: f64 = 250.0;

const TRIES: u64 = 10_000_000;

/// A list of outputs, as the masks of their prefixes.
#[derive(Clone, Debug)]
struct Listed {
    /// For each prefix the tokens that may follow, and whether it is an output.
    prefixes: HashMap<Vec<TokenId>, (Vec<TokenId>, bool)>,
    vocab_len: usize,
}

impl Listed {
    fn new(outputs: &[Vec<TokenId>], vocab_len: usize) -> Self {
        let mut prefixes: HashMap<Vec<TokenId>, (Vec<TokenId>, bool)> = HashMap::new();
        for output in outputs {
            for cut in 0..output.len() {
                let (next, _) = prefixes.entry(output[..cut].to_vec()).or_default();
                if !next.contains(&output[cut]) {
                    next.push(output[cut]);
                }
            }
            prefixes.entry(output.clone()).or_default().1 = true;
        }
        Self { prefixes, vocab_len }
    }
}

impl Constraint for Listed {
    type State = Vec<TokenId>;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        self.vocab_len
    }
    fn start(&self) -> Vec<TokenId> {
        Vec::new()
    }
    fn scratch(&self) {}
    fn advance(&self, (): &mut (), state: &mut Vec<TokenId>, token: TokenId) -> Result<(), Rejected> {
        if !self.prefixes.get(state).is_some_and(|(next, _)| next.contains(&token)) {
            return Err(Rejected::new(token));
        }
        state.push(token);
        Ok(())
    }
    fn is_accepting(&self, state: &Vec<TokenId>) -> bool {
        self.prefixes.get(state).is_some_and(|(_, output)| *output)
    }
    fn fill_mask(&self, (): &mut (), state: &Vec<TokenId>, mut mask: MaskMut<'_>) {
        mask.clear();
        if let Some((next, _)) = self.prefixes.get(state) {
            next.iter().for_each(|token| mask.insert(*token));
        }
    }
}

/// The tasks: depth, and about the probability with which the model satisfies the constraint.
const CASES: [(usize, f64); 12] = [
    (3, 0.5),
    (4, 0.3),
    (4, 0.1),
    (5, 0.05),
    (5, 0.03),
    (6, 0.01),
    (6, 0.005),
    (7, 0.003),
    (7, 0.001),
    (8, 0.0005),
    (8, 0.0003),
    (8, 0.0001),
];

/// A table in which each prefix has a row of its own, and so many of its outputs, chosen at random, that the model writes one
/// with about the given probability.
fn case(seed: u64, depth: usize, acceptance: f64) -> (TableModel, Listed) {
    const TOKENS: usize = 3;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let unit = |rng: &mut ChaCha8Rng| f64::from(rng.next_u32()) / f64::from(u32::MAX);
    let mut rows: BTreeMap<Vec<TokenId>, Vec<f64>> = BTreeMap::new();
    let mut open = vec![(Vec::<TokenId>::new(), 1.0)];
    let mut outputs: Vec<(Vec<TokenId>, f64)> = Vec::new();
    while let Some((prefix, probability)) = open.pop() {
        let mut row: Vec<f64> = (0..=TOKENS).map(|_| unit(&mut rng).powi(3) + 1e-3).collect();
        // Most outputs are long.
        row[TOKENS] *= 0.3;
        if prefix.len() == depth {
            row = vec![0.0, 0.0, 0.0, 1.0];
        }
        let sum: f64 = row.iter().sum();
        row.iter_mut().for_each(|p| *p /= sum);
        outputs.push((prefix.clone(), probability * row[TOKENS]));
        if prefix.len() < depth {
            let longer = (0..TOKENS)
                .map(|id| ([&prefix[..], &[TokenId::from_index(id)]].concat(), probability * row[id]));
            open.extend(longer);
        }
        rows.insert(prefix, row);
    }
    let mut chosen = Vec::new();
    let mut mass = 0.0;
    while mass < acceptance && !outputs.is_empty() {
        let (output, probability) = outputs.swap_remove(rng.next_u32() as usize % outputs.len());
        if mass + probability <= acceptance * 1.2 {
            mass += probability;
            chosen.push(output);
        }
    }
    let model =
        TableModel::new((0..TOKENS).map(|id| id.to_string()), vec![0.25; 4], rows).expect("rows sum to one");
    (model, Listed::new(&chosen, TOKENS + 1))
}

type Boxed<E> = Box<dyn Sampler<Error = SampleError<E>>>;

const NAMES: [&str; 12] = [
    "masked",
    "asap",
    "cars",
    "disc, learned",
    "disc, K = 4",
    "disc, reuse, K = 4",
    "ars",
    "rsft",
    "rejection",
    "awrs, weighted",
    "smc, N = 10, weighted",
    "mcmc, 10 steps",
];

fn sampler(name: &str, task: Task<TableModel, Listed>) -> Boxed<unskew_core::TableModelError> {
    let exact = DiscConfig { max_tries: TRIES, max_positions: u64::MAX, ..DiscConfig::default() };
    match name {
        "masked" => Box::new(Masked::new(task)),
        "asap" => Box::new(Asap::new(task, TRIES)),
        "cars" => Box::new(Cars::new(task, TRIES)),
        "disc, learned" => Box::new(Disc::new(task, exact)),
        "disc, K = 4" => Box::new(Disc::new(task, DiscConfig::published(4))),
        "disc, reuse, K = 4" => {
            Box::new(Disc::new(task, DiscConfig { form: Form::Reuse, ..DiscConfig::published(4) }))
        }
        "ars" => Box::new(Ars::new(task, TRIES)),
        "rsft" => Box::new(Rsft::new(task, TRIES)),
        "rejection" => Box::new(Rejection::new(task, TRIES)),
        "awrs, weighted" => Box::new(Awrs::new(task, TRIES)),
        "smc, N = 10, weighted" => Box::new(Smc::new(task, SmcConfig::default())),
        _ => Box::new(Mcmc::new(task, 10, Cut::Prefix, TRIES)),
    }
}

/// The divergence of weighted outputs from the law, in nats.
fn divergence(weights: &BTreeMap<Vec<TokenId>, f64>, law: &ExactLaw) -> f64 {
    let total: f64 = weights.values().sum();
    let share = |(output, weight): (&Vec<TokenId>, &f64)| {
        let share = weight / total;
        share * (share / law.probability(output)).ln()
    };
    weights.iter().map(share).sum::<f64>().max(0.0)
}

/// What one sampler did on one task: (model calls, outputs begun, divergence) early and at the end.
type Found = [(f64, f64, f64); 2];

fn run(name: &str, model: &TableModel, constraint: &Listed, law: &ExactLaw, seed: u64) -> Found {
    let task = Task::new(model.clone(), constraint.clone(), &model.vocabulary().clone(), 8);
    let mut sampler = sampler(name, task);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut weights: BTreeMap<Vec<TokenId>, f64> = BTreeMap::new();
    let (mut calls, mut begun) = (0, 0);
    let mut found = [(0.0, 0.0, 0.0); 2];
    for index in 1..=OUTPUTS {
        let draw = sampler.draw(&mut rng).expect("the task has outputs");
        calls += draw.cost.positions;
        begun += draw.cost.proposals;
        // Without its weight masked sampling is what it is.
        let weight = if name.contains("weighted") { draw.log_weight.exp() } else { 1.0 };
        *weights.entry(draw.tokens).or_default() += weight;
        if index == EARLY || index == OUTPUTS {
            found[usize::from(index == OUTPUTS)] = (calls as f64, begun as f64, divergence(&weights, law));
        }
    }
    found
}

/// A model of many tokens that costs a copy: one of a few rows, by the last token.
#[derive(Debug)]
struct Wide {
    rows: Vec<Vec<f32>>,
}

impl Wide {
    fn new(vocab_len: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
        let mut row = || (0..vocab_len).map(|_| (f64::from(rng.next_u32()) / 4e8) as f32).collect();
        Self { rows: (0..16).map(|_| row()).collect() }
    }
}

impl LanguageModel for Wide {
    type Sequence = Vec<TokenId>;
    type Error = std::convert::Infallible;

    fn vocab_len(&self) -> usize {
        self.rows[0].len()
    }
    fn context_len(&self) -> Option<usize> {
        None
    }
    fn start(&mut self) -> Vec<TokenId> {
        Vec::new()
    }
    fn len(&self, sequence: &Vec<TokenId>) -> usize {
        sequence.len()
    }
    fn fork(&mut self, sequence: &Vec<TokenId>) -> Vec<TokenId> {
        sequence.clone()
    }
    fn truncate(&mut self, sequence: &mut Vec<TokenId>, len: usize) {
        sequence.truncate(len);
    }
    fn extend(
        &mut self,
        batch: &mut [Extension<'_, Vec<TokenId>>],
        logits: &mut Logits,
    ) -> Result<(), Self::Error> {
        let rows = batch.iter().map(|item| item.rows.count(item.tokens.len())).sum();
        let mut out = logits.reset(rows, self.vocab_len()).chunks_exact_mut(self.rows[0].len());
        for item in batch {
            for (index, token) in item.tokens.iter().enumerate() {
                item.sequence.push(*token);
                if item.rows == Rows::All || index + 1 == item.tokens.len() {
                    let row = out.next().expect("counted");
                    row.copy_from_slice(&self.rows[token.index() % 16]);
                    // Behind the prompt of one token: an output that is long enough ends.
                    if item.sequence.len() > LENGTH {
                        row[self.rows[0].len() - 1] = 60.0;
                    }
                }
            }
            if item.tokens.is_empty() && item.rows == Rows::Last {
                let last = item.sequence.last().map_or(0, |token| token.index());
                out.next().expect("counted").copy_from_slice(&self.rows[last % 16]);
            }
        }
        Ok(())
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
        if *state < LENGTH {
            (0..self.allowed).for_each(|id| mask.insert(TokenId::from_index(id)));
        }
    }
    fn forced(&self, (): &mut (), state: &usize) -> Option<TokenId> {
        (*state < LENGTH && self.allowed == 1).then_some(TokenId(0))
    }
}

#[cfg(unix)]
fn cpu_ns() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// There is no such clock: the wall's.
#[cfg(not(unix))]
fn cpu_ns() -> f64 {
    static BEGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    BEGIN.get_or_init(std::time::Instant::now).elapsed().as_nanos() as f64
}

/// Microseconds for each token of model, mask and the pass over the logits alone.
fn baseline(allowed: usize, vocab_len: usize) -> f64 {
    let mut model = Wide::new(vocab_len);
    let constraint = Some20 { allowed, vocab_len };
    let mut mask = TokenMask::new(vocab_len);
    let (mut logits, mut sum) = (Logits::new(), 0.0);
    let begin = cpu_ns();
    const TIMES: u32 = 400;
    for index in 0..TIMES {
        let mut sequence = Vec::new();
        let tokens = [TokenId(index)];
        let extension = Extension { sequence: &mut sequence, tokens: &tokens, rows: Rows::Last };
        let Ok(()) = model.extend(&mut [extension], &mut logits);
        sum += logprob::log_normalizer(logits.row(0));
        constraint.fill_mask(&mut (), &0, mask.as_mut());
        sum += mask.ids().count() as f64;
    }
    let each = (cpu_ns() - begin) / f64::from(TIMES) / 1_000.0;
    assert!(sum > 0.0);
    each
}

/// Microseconds for each token of a sampler's outputs, and the positions that were evaluated for each.
fn per_token(
    sampler: &mut dyn Sampler<Error = SampleError<std::convert::Infallible>>,
    outputs: usize,
) -> (f64, f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let begin = cpu_ns();
    let mut positions = 0;
    for _ in 0..outputs {
        positions += sampler.draw(&mut rng).expect("all outputs are possible").cost.positions;
    }
    let tokens = (outputs * (LENGTH + 1)) as f64;
    ((cpu_ns() - begin) / tokens / 1_000.0, positions as f64 / tokens)
}

fn report() -> String {
    let mut out = String::new();
    let mut write = |text: std::fmt::Arguments<'_>| {
        // As it comes: the whole takes a minute.
        println!("{text}");
        writeln!(out, "{text}").expect("a string takes all");
    };
    write(format_args!("## Distance from the law\n"));
    write(format_args!(
        "{OUTPUTS} outputs of each sampler on each task, in one session. KL in nats after {EARLY} and after {OUTPUTS} outputs, \
         of the outputs' frequencies (with `weighted`: weights) from the enumerated law; `noise` is what {OUTPUTS} independent \
         exact outputs would show, (outputs - 1) / (2 x {OUTPUTS}), which is too much where outputs are rarer than that: the exact \
         samplers show what it is. `begun` and `calls` are per output.\n"
    ));
    let mut sums: BTreeMap<&str, (f64, f64, f64, u32)> = BTreeMap::new();
    for (index, (depth, acceptance)) in CASES.into_iter().enumerate() {
        let seed = index as u64 + 1;
        let (model, constraint) = case(seed, depth, acceptance);
        let end = model.vocabulary().end_of_sequence().to_vec();
        let law =
            ExactLaw::enumerate(&mut model.clone(), &constraint, &[], &end, 8, 1_000_000).expect("small");
        let noise = (law.len() as f64 - 1.0) / (2.0 * OUTPUTS as f64);
        write(format_args!(
            "### Depth {depth}, P(L) = {:.2e}, {} outputs, noise {noise:.4}\n\n\
             | sampler | KL, {EARLY} | KL, {OUTPUTS} | begun | calls, first {EARLY} | calls |\n|---|--:|--:|--:|--:|--:|",
            law.mass(),
            law.len()
        ));
        for name in NAMES {
            if matches!(name, "rejection" | "rsft") && 1.0 / law.mass() > PATIENCE {
                continue;
            }
            let [early, late] = run(name, &model, &constraint, &law, seed);
            let (many, few) = (OUTPUTS as f64, EARLY as f64);
            write(format_args!(
                "| {name} | {:.4} | {:.4} | {:.2} | {:.3} | {:.3} |",
                early.2,
                late.2,
                late.1 / many,
                early.0 / few,
                late.0 / many
            ));
            let sum = sums.entry(name).or_default();
            sum.0 += late.2 - noise;
            sum.1 += late.1 / many;
            sum.2 += early.1 / few;
            sum.3 += 1;
        }
        write(format_args!(""));
    }
    write(format_args!(
        "### All tasks\n\nMeans over the tasks that each was run on.\n\n\
         | sampler | tasks | KL - noise | begun per output | begun per output, first {EARLY} |\n|---|--:|--:|--:|--:|"
    ));
    for name in NAMES {
        let (kl, begun, early, count) = sums[name];
        let count = f64::from(count);
        write(format_args!(
            "| {name} | {count} | {:.4} | {:.2} | {:.2} |",
            kl / count,
            begun / count,
            early / count
        ));
    }
    write(format_args!("\n## Time for a token\n"));
    write(format_args!(
        "A vocabulary of 128,000, outputs of {LENGTH} tokens, a model that costs a copy of its row. `all` is the time of the \
         process for each token of an output, in microseconds; `base` that of the copy, one pass over the logits and the mask, \
         times the positions that were evaluated; `more` the difference.\n\n\
         | allowed | sampler | all | positions per token | base | more |\n|--:|---|--:|--:|--:|--:|"
    ));
    const VOCAB: usize = 128_000;
    let mut bytes = 0.0;
    for allowed in [2, 64, VOCAB - 1] {
        let base = baseline(allowed, VOCAB);
        for name in ["masked", "cars", "asap", "disc, learned", "awrs", "greedy"] {
            // The last id ends a sequence; a mask never holds it.
            let end = vec![TokenId::from_index(VOCAB - 1)];
            let task = || Task {
                model: Wide::new(VOCAB),
                constraint: Some20 { allowed, vocab_len: VOCAB },
                prompt: vec![TokenId(0)],
                end: end.clone(),
                max_tokens: LENGTH + 1,
                batch: 1,
                max_bytes: 256 << 20,
                cancel: unskew_samplers::Cancel::default(),
            };
            let outputs = if allowed > 1_000 { 10 } else { 40 };
            let (all, positions) = match name {
                "masked" => per_token(&mut Masked::new(task()), outputs),
                "cars" => {
                    let mut cars = Cars::new(task(), TRIES);
                    // Rejected tries are tokens too: only where nearly everything is allowed are there few.
                    if allowed < 1_000 {
                        continue;
                    }
                    let found = per_token(&mut cars, outputs);
                    let usage = cars.usage();
                    bytes = usage.trie_bytes as f64 / usage.prefixes as f64;
                    found
                }
                "asap" => {
                    let mut asap = Asap::new(task(), TRIES);
                    let found = per_token(&mut asap, outputs);
                    let usage = asap.usage();
                    bytes = usage.trie_bytes as f64 / usage.prefixes as f64;
                    found
                }
                "disc, learned" if allowed < 1_000 => continue,
                "disc, learned" => per_token(&mut Disc::new(task(), DiscConfig::default()), outputs),
                "awrs" if allowed < 1_000 => continue,
                "awrs" => per_token(&mut Awrs::new(task(), TRIES), outputs),
                _ => per_token(&mut Greedy::new(task()), outputs),
            };
            let base = base * positions;
            write(format_args!(
                "| {allowed} | {name} | {all:.1} | {positions:.2} | {base:.1} | {:.1} |",
                all - base
            ));
        }
    }
    write(format_args!(
        "\n## Memory\n\nA visited prefix takes {bytes:.0} bytes of the trie, its place among its parent's children included."
    ));
    out
}

fn main() {
    let report = report();
    let line = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let date = line("date", &["+%Y-%m-%d"]).unwrap_or_default();
    let commit = line("git", &["rev-parse", "--short", "HEAD"]).unwrap_or_default();
    let rustc = line("rustc", &["--version"]).unwrap_or_default();
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').take(3).collect::<Vec<_>>().join(" ");
    let text = format!(
        "# Samplers, {date}\n\nMachine{}, load at the end {load}; {rustc}, release profile. Commit: {commit}.\n\
         Command: `cargo xtask bench samplers --record`. Times are those of the process on its processor.\n\n{report}",
        cpu.trim_start_matches([' ', '\t'])
    );
    if std::env::args().any(|arg| arg == "--record") {
        let path = format!("benches/record/{date}-samplers.md");
        std::fs::write(&path, text).expect("benches/record can be written from the repository's root");
        eprint_path(&path);
    }
}

#[allow(clippy::print_stderr, reason = "not a part of the report")]
fn eprint_path(path: &str) {
    eprintln!("written to {path}");
}
