//! A model on a GPU against the same model on the CPU: rows that are read, rows that are asked, and samplers over them.
//!
//! A harness of its own: burn starts on one adapter, which is named. Where there is none, tests are listed as
//! skipped, and fail if the environment variable `UNSKEW_GPU` is `require`.

#![allow(clippy::print_stdout, reason = "a test harness reports")]

#[path = "integration/common/mod.rs"]
mod common;

use std::path::Path;
use std::process::ExitCode;

use common::{checkpoint, config, load, tokens};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use unskew_core::{
    Constraint, ExactDistribution, Extension, LanguageModel, LogitRows, Logits, MaskMut, Rejected, Rows,
    Sampler, TokenId,
    conformance::{check_model, check_rows, check_sampler},
    rows::{Among, RowQuestion},
};
use unskew_runner::{
    Llama,
    burn::{Backend, DeviceError},
};
use unskew_samplers::{Cancel, Exact, Greedy, Masked, Sampling, Task, Warped};

type Test = fn(&Llama);

const TESTS: [(&str, Test); 6] = [
    ("a_model_on_a_device_keeps_the_contract_of_models", models),
    ("rows_answer_as_by_definition", rows),
    ("rows_of_several_passes_are_in_order", long_prompts),
    ("families_on_a_device_are_those_of_the_cpu", families),
    ("samplers_over_a_device_follow_the_distribution_of_the_cpu", samplers),
    ("a_request_that_no_device_serves_is_an_error", errors),
];

/// The ids that end a sequence.
const END: [TokenId; 2] = [TokenId(2), TokenId(0)];
/// Of the vocabulary: few, so that the outputs of a small constraint have some probability.
const VOCAB: usize = 13;
/// Of a logarithm, on the device against 64 bits.
const TOLERANCE: f64 = 2e-4;

/// Of CARS.
const DRAWS: usize = 150;

const PROMPT: [TokenId; 3] = [TokenId(1), TokenId(7), TokenId(4)];

fn main() -> ExitCode {
    let cpu = model(VOCAB);
    match cpu.on_gpu() {
        Ok(model) => {
            let name = model.gpu().unwrap().name().to_owned();
            for (test, run) in TESTS {
                print!("test {test} on {name} ... ");
                // A failure panics, and says where.
                run(&cpu);
                println!("ok");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            for (test, _) in TESTS {
                println!("test {test} ... skipped: {error}");
            }
            if std::env::var_os("UNSKEW_GPU").is_some_and(|value| value == "require") {
                println!("UNSKEW_GPU=require: a test was skipped");
                return ExitCode::FAILURE;
            }
            ExitCode::SUCCESS
        }
    }
}

fn model(vocab_size: usize) -> Llama {
    let config = unskew_runner::ModelConfig { vocab_size, ..config([2, 1, 6, 12, 1], true) };
    load(&config, &checkpoint(&config, 5))
}

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn extend<M: LanguageModel>(model: &mut M, texts: &[Vec<TokenId>], rows: Rows) -> Logits {
    let mut sequences: Vec<M::Sequence> = texts.iter().map(|_| model.start()).collect();
    let mut batch: Vec<Extension<'_, M::Sequence>> = sequences
        .iter_mut()
        .zip(texts)
        .map(|(sequence, tokens)| Extension { sequence, tokens, rows })
        .collect();
    let mut logits = Logits::new();
    model.extend(&mut batch, &mut logits).unwrap();
    logits
}

fn models(cpu: &Llama) {
    let mut model = cpu.on_gpu().unwrap();
    check_model(&mut model, &[vec![1, 2, 3, 4], vec![1, 5], vec![7, 7, 7]], 1e-4).unwrap();
}

fn rows(_: &Llama) {
    // Vocabularies of less than a word of a mask, of a part of a word more, and of more than a workgroup.
    for vocab_len in [9, 33, 300] {
        let mut model = model(vocab_len).on_gpu().unwrap();
        let texts = vec![PROMPT.to_vec(), vec![TokenId(1)]];
        let mut logits = extend(&mut model, &texts, Rows::All);
        assert_eq!((logits.len(), logits.vocab_len(), logits.host(0)), (4, vocab_len, None));
        check_rows(&logits, TOLERANCE).unwrap();
        logits.divide(0.6).unwrap();
        check_rows(&logits, TOLERANCE).unwrap();
        // The rows of the CPU, at the temperature.
        let mut here = extend(&mut self::model(vocab_len), &texts, Rows::All);
        here.divide(0.6).unwrap();
        logits.read_all().unwrap();
        for (left, right) in logits.rows().zip(here.rows()) {
            assert!(left.iter().zip(right).all(|(left, right)| (left - right).abs() < 1e-3));
        }
    }
}

fn long_prompts(cpu: &Llama) {
    let prompt = |len| (0..len).map(|at| TokenId((at * at + len) as u32 % VOCAB as u32)).collect();
    let prompts: Vec<Vec<TokenId>> = [520, 3, 40].map(prompt).to_vec();
    let mut logits = extend(&mut cpu.on_gpu().unwrap(), &prompts, Rows::Last);
    logits.read_all().unwrap();
    let here = extend(&mut model(VOCAB), &prompts, Rows::Last);
    assert_eq!(logits.len(), 3);
    for (left, right) in logits.rows().zip(here.rows()) {
        assert!(left.iter().zip(right).all(|(left, right)| (left - right).abs() < 1e-3));
    }
}

/// Soft caps, windows and scaled embeddings; learned positions and layer normalisation; partial rotary embeddings whose
/// frequencies follow the length.
const FAMILIES: [&str; 3] = ["gemma2", "gpt2", "phi3"];

/// The rows of two texts that grow: from prompts, and then token by token.
fn grown<M: LanguageModel>(model: &mut M) -> Vec<Vec<f32>> {
    let prompts = [28, 5];
    let mut sequences = prompts.map(|_| model.start());
    let mut all = Vec::new();
    for step in 0..8 {
        let pieces = prompts.map(|len| tokens(if step == 0 { len } else { 1 }, step + len as u64));
        let pieces = pieces.map(|ids| ids.iter().map(|id| TokenId(id.0 % 40)).collect::<Vec<_>>());
        let mut batch: Vec<_> = sequences
            .iter_mut()
            .zip(&pieces)
            .map(|(sequence, tokens)| Extension { sequence, tokens, rows: Rows::All })
            .collect();
        let mut logits = Logits::new();
        model.extend(&mut batch, &mut logits).unwrap();
        logits.read_all().unwrap();
        all.extend(logits.rows().map(<[f32]>::to_vec));
    }
    all
}

fn families(_: &Llama) {
    for name in FAMILIES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity").join(name);
        let mut cpu = Llama::from_dir(folder).unwrap();
        let there = grown(&mut cpu.on_gpu().unwrap());
        let apart = common::distance(&there, &grown(&mut cpu));
        assert!(apart < 1e-3, "{name}: {apart}");
    }
}

/// One or two of the tokens 3 to 6, and then 7.
#[derive(Clone, Copy)]
struct Few;

impl Constraint for Few {
    type State = Vec<TokenId>;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        VOCAB
    }
    fn start(&self) -> Vec<TokenId> {
        Vec::new()
    }
    fn scratch(&self) {}
    fn advance(&self, (): &mut (), state: &mut Vec<TokenId>, token: TokenId) -> Result<(), Rejected> {
        let ends = state.last() == Some(&TokenId(7));
        let is_letter = (3..7).contains(&token.0) && state.len() < 2;
        if ends || !(is_letter || (token.0 == 7 && !state.is_empty())) {
            return Err(Rejected::new(token));
        }
        state.push(token);
        Ok(())
    }
    fn is_accepting(&self, state: &Vec<TokenId>) -> bool {
        state.last() == Some(&TokenId(7))
    }
    fn fill_mask(&self, (): &mut (), state: &Vec<TokenId>, mut mask: MaskMut<'_>) {
        mask.clear();
        let allowed = |id: &TokenId| self.advance(&mut (), &mut state.clone(), *id).is_ok();
        (0..VOCAB).map(TokenId::from_index).filter(allowed).for_each(|id| mask.insert(id));
    }
}

/// Warm, so that not too many rollouts are rejected.
fn warm<M: LanguageModel>(model: M) -> Warped<M> {
    Warped::new(model, 3.0, None).unwrap()
}

fn task<M>(model: M) -> Task<M, Few> {
    Task {
        model,
        constraint: Few,
        prompt: PROMPT.to_vec(),
        end: END.to_vec(),
        max_tokens: 4,
        top: None,
        batch: 16,
        max_bytes: 1 << 24,
        cancel: Cancel::default(),
    }
}

fn samplers(cpu: &Llama) {
    let exact = ExactDistribution::enumerate(&mut warm(model(VOCAB)), &Few, &PROMPT, &END, 4, 1_000).unwrap();
    let there = || task(warm(cpu.on_gpu().unwrap()));
    let here = || task(warm(model(VOCAB)));
    // CARS asks about rows that it knows again and again; a pass of the software adapter takes some ten milliseconds.
    let mut cars = Sampling::new(there(), Exact::cars(100_000));
    let fit = check_sampler(&mut cars, &exact, DRAWS, &mut rng(6)).unwrap();
    assert!(fit.deviation < 4.0, "{fit:?}");
    // Masked and greedy outputs are those of the CPU, but for rounding.
    let (mut left, mut right) = (Vec::new(), Vec::new());
    Sampling::new(there(), Masked::new()).draw_many(40, &mut rng(7), &mut left).unwrap();
    Sampling::new(here(), Masked::new()).draw_many(40, &mut rng(7), &mut right).unwrap();
    assert!(left.iter().zip(&right).filter(|(left, right)| left.tokens != right.tokens).count() < 3);
    for (left, right) in left.iter().zip(&right).filter(|(left, right)| left.tokens == right.tokens) {
        assert!(
            (left.log_prob - right.log_prob).abs() < 1e-3
                && (left.log_weight - right.log_weight).abs() < 1e-3
        );
    }
    let left = Sampling::new(there(), Greedy).draw(&mut rng(8)).unwrap();
    let right = Sampling::new(here(), Greedy).draw(&mut rng(8)).unwrap();
    assert_eq!(left.tokens, right.tokens);
}

fn errors(cpu: &Llama) {
    let on_cpu = cpu.to_burn(Backend::Cpu).gpu().unwrap_err();
    assert!(matches!(on_cpu, DeviceError::OnCpu), "{on_cpu}");
    let mut model = cpu.on_gpu().unwrap();
    let mut sequence = model.start();
    let rows = Rows::Last;
    let nothing =
        model.extend(&mut [Extension { sequence: &mut sequence, tokens: &[], rows }], &mut Logits::new());
    assert!(nothing.unwrap_err().to_string().contains("empty sequence"));
    // A row that is no distribution.
    let logits = extend(&mut model, &[PROMPT.to_vec()], rows);
    let mut answers = Vec::new();
    let row = LogitRows::answer(&logits, &[RowQuestion::mass(0, Among::All)], &mut answers);
    assert!(row.is_ok() && (answers[0].log_mass.abs() < TOLERANCE));
    // At a temperature that the device cannot hold, the rows are read and divided on the CPU.
    let mut logits = logits;
    logits.divide(1e39).unwrap();
    assert!(logits.host(0).is_some());
}
