//! The kernels on every adapter against their references and against the set on the CPU, bit for bit.
//!
//! The harness is the test's own: it lists each test with the adapter of the run. Where there is no adapter, it lists
//! the tests as skipped; they fail if the environment variable `UNSKEW_GPU` is `require`.

#![allow(clippy::print_stdout, reason = "a test harness reports")]

#[path = "integration/common/mod.rs"]
mod common;

use std::{process::ExitCode, sync::Arc};

use common::{Kind, below, build, random_items, rng};
use rand_chacha::{ChaCha8Rng, rand_core::Rng};
use unskew_core::{Constraint, MaskBatch, TokenId, conformance};
use unskew_sets::{
    ChoiceQuestion, Chooser, Gpu, GpuError, GpuSetConstraint, ItemSet, LogitBuffer, Next, Rule,
    SetConstraint, SetState, Subset,
};
use unskew_shaders::{END, LOWEST, NONE, Pick, masked_choice};

type Test = fn(&Arc<Gpu>);

const TESTS: [(&str, Test); 6] = [
    ("candidates_are_those_of_the_set", sets),
    ("a_constraint_is_that_of_the_cpu", constraints),
    ("choices_are_near_those_of_the_reference", choices),
    ("chosen_tokens_follow_their_distribution", distributions_of_choices),
    ("batches_of_more_than_a_row_of_workgroups", many),
    ("what_does_not_fit_is_refused", too_large),
];

fn main() -> ExitCode {
    let adapters = Gpu::all();
    for adapter in &adapters {
        match adapter {
            Err(error) => println!("gpu: {error}"),
            Ok(gpu) => {
                for (name, test) in TESTS {
                    print!("test {name} on {} ... ", gpu.name());
                    // A failure panics, and the panic says where.
                    test(gpu);
                    println!("ok");
                }
            }
        }
    }
    if adapters.iter().any(Result::is_ok) {
        return ExitCode::SUCCESS;
    }
    let reason = Gpu::new().map_or_else(|error| error.to_string(), |gpu| gpu.name().to_owned());
    for (name, _) in TESTS {
        println!("test {name} ... skipped: {reason}");
    }
    if std::env::var_os("UNSKEW_GPU").is_some_and(|value| value == "require") {
        println!("UNSKEW_GPU=require: a test was skipped");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Sets of all widths, and one with long items.
fn examples(rng: &mut ChaCha8Rng) -> Vec<ItemSet> {
    let kind = |vocab_len: u32, items, longest| {
        let distinct = vocab_len.min(300);
        Kind { vocab_len, items, longest, distinct, with_empty: items % 2 == 0 }
    };
    let kinds = [
        kind(2, 30, 6),
        kind(250, 3000, 5),
        kind(3000, 5000, 4),
        kind(128_256, 5001, 6),
        kind(70_000, 40, 300),
        kind(9, 0, 3),
    ];
    kinds.into_iter().map(|kind| build(&random_items(kind, rng), kind.vocab_len).0).collect()
}

/// The constraint of a set, on the CPU and with candidates that `gpu` verifies.
fn both(set: ItemSet, gpu: &Arc<Gpu>) -> (SetConstraint, GpuSetConstraint) {
    let vocab_len = set.vocab_len();
    let cpu = SetConstraint::new(Arc::new(set), vocab_len).unwrap();
    let on_device = GpuSetConstraint::new(cpu.clone(), Arc::clone(gpu), told).unwrap();
    (cpu, on_device)
}

/// A device that fails is a failure here, and not the CPU's answer.
fn told(error: &GpuError) {
    panic!("{error}");
}

/// The answers about `each` candidates of each state.
fn verify(
    constraint: &impl Constraint<State = SetState, Scratch = ()>,
    states: &[SetState],
    candidates: &[TokenId],
) -> Vec<bool> {
    let mut valid = vec![false; candidates.len()];
    constraint.verify(&mut (), &mut states.iter(), candidates.len() / states.len(), candidates, &mut valid);
    valid
}

/// Follows many sequences through a set.
fn sets(gpu: &Arc<Gpu>) {
    const SEQUENCES: usize = 70;
    const EACH: usize = 11;
    let rng = &mut rng(1);
    // A set without items is no constraint.
    for set in examples(rng).into_iter().filter(|set| !set.is_empty()) {
        let (vocab_len, len) = (set.vocab_len() as u32, set.len() as u32);
        let items: Vec<Vec<TokenId>> = (0..SEQUENCES).map(|_| set.item(below(rng, len)).unwrap()).collect();
        let (cpu, on_device) = both(set, gpu);
        let mut states = vec![cpu.start(); SEQUENCES];
        for depth in 0..6 {
            let mut candidates = Vec::new();
            for item in &items {
                let next = item.get(depth).copied().unwrap_or_default();
                candidates.push(next);
                candidates.extend((1..EACH).map(|_| TokenId(below(rng, vocab_len))));
            }
            let expected: Vec<bool> = candidates
                .chunks(EACH)
                .zip(&states)
                .flat_map(|(tokens, state)| tokens.iter().map(|token| cpu.allows(&mut (), state, *token)))
                .collect();
            assert_eq!(verify(&on_device, &states, &candidates), expected, "depth {depth}");
            // A sequence ends with its item; then nothing follows.
            for (state, item) in states.iter_mut().zip(&items) {
                if let Some(token) = item.get(depth) {
                    cpu.advance(&mut (), state, *token).unwrap();
                }
            }
        }
    }
}

/// The contract of a constraint, and a set that the kernel cannot read.
fn constraints(gpu: &Arc<Gpu>) {
    let rng = &mut rng(6);
    let kind = Kind { vocab_len: 40, items: 30, longest: 4, distinct: 20, with_empty: true };
    let set = build(&random_items(kind, rng), 40).0;
    let (cpu, on_device) = both(set, gpu);
    conformance::check_constraint(&on_device, 2).unwrap();
    let set = Arc::new(build(&random_items(kind, rng), 40).0);
    let some = Arc::new(Subset::from_places(set.len(), [0]));
    let some = SetConstraint::with_subset(set, some, cpu.vocab_len()).unwrap();
    let error = GpuSetConstraint::new(some, Arc::clone(gpu), told).unwrap_err();
    assert!(matches!(error, GpuError::Filtered), "{error}");
}

fn logits(rng: &mut ChaCha8Rng, len: usize) -> Vec<f32> {
    // There are few different values, so that many are equal.
    (0..len).map(|_| (below(rng, 400) as f32 - 200.0) / 8.0).collect()
}

/// A device of the test's own, as a model would have one, and rows of logits that lie on it.
struct Lent {
    gpu: Arc<Gpu>,
    device: wgpu::Device,
    queue: wgpu::Queue,
}

impl Lent {
    fn like(gpu: &Gpu) -> Self {
        Self::with(gpu, |_| ())
    }

    /// A device with other limits than those of its adapter.
    fn with(gpu: &Gpu, change: impl FnOnce(&mut wgpu::Limits)) -> Self {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
        let adapter = adapters.into_iter().find(|adapter| adapter.get_info().name == gpu.name()).unwrap();
        let mut limits = adapter.limits();
        change(&mut limits);
        let descriptor =
            wgpu::DeviceDescriptor { required_limits: limits, ..wgpu::DeviceDescriptor::default() };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).unwrap();
        let gpu = Gpu::shared(gpu.name().to_owned(), device.clone(), queue.clone());
        Self { gpu, device, queue }
    }

    /// A buffer of logits that come after some other numbers.
    fn buffer(&self, logits: &[f32]) -> wgpu::Buffer {
        let bytes: Vec<u8> = logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 256 + bytes.len() as u64,
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        self.queue.write_buffer(&buffer, 0, &[0x7f; 256]);
        self.queue.write_buffer(&buffer, 256, &bytes);
        buffer
    }
}

/// The range of a row's random number that gives `token`, in 64 bits, in the order of the kernel.
fn place(logits: &[f32], masks: &[u32], end: f64, scale: f64, token: u32) -> std::ops::Range<f64> {
    let allowed = |token: usize| masks.get(token / 32).is_some_and(|word| word >> (token % 32) & 1 == 1);
    let weight = |token: usize| (f64::from(logits[token]) * scale).exp();
    let order = (0..logits.len()).filter(|token| allowed(*token));
    let weights: Vec<(u32, f64)> =
        std::iter::once((END, end)).chain(order.map(|token| (token as u32, weight(token)))).collect();
    let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let mut before = 0.0;
    for (other, weight) in weights {
        if other == token {
            return before / total..(before + weight) / total;
        }
        before += weight;
    }
    panic!("{token} is not allowed");
}

fn choices(gpu: &Arc<Gpu>) {
    let (rng, lent) = (&mut rng(7), Lent::like(gpu));
    let ends = [TokenId(3), TokenId(0), TokenId(60_000)];
    let end_ids = ends.map(|id| id.0);
    let mut chooser = Chooser::new(Arc::clone(&lent.gpu)).unwrap();
    // Also masks that are shorter and longer than the rows, and more and fewer questions than rows.
    for (rows, vocab_len, of_masks, count) in [
        (1, 1, 1, 1),
        (6, 31, 31, 9),
        (40, 1000, 1000, 40),
        (5, 700, 650, 2),
        (5, 650, 700, 11),
        (3, 50_257, 50_257, 3),
        // Rows of one part, of two, and of the most parts.
        (2, 1024, 1024, 4),
        (2, 1025, 1025, 4),
        (2, 128_256, 128_256, 4),
    ] {
        let mut all = logits(rng, rows * vocab_len);
        for logit in all.iter_mut().step_by(3) {
            *logit = f32::NEG_INFINITY;
        }
        let mut masks = MaskBatch::new(count, of_masks);
        for index in 0..count {
            // Every fifth question allows no token, and perhaps an end.
            for id in
                (0..of_masks as u32).filter(|id| index % 5 > 0 && below(rng, 9) == 0 && !end_ids.contains(id))
            {
                masks.row_mut(index).insert(TokenId(id));
            }
        }
        let buffer = lent.buffer(&all);
        let rows_of = LogitBuffer { buffer: &buffer, offset: 256, rows, vocab_len };
        for temperature in [1.0_f32, 0.25, 3.0] {
            let mut questions = Vec::new();
            for index in 0..count {
                let random = if index == 1 { u32::MAX } else { rng.next_u32() };
                let rule = if index % 4 == 3 { Rule::Greedy } else { Rule::Sample(random) };
                questions.push(ChoiceQuestion { row: index * 7 % rows, may_end: index % 3 == 1, rule });
            }
            let chosen = match chooser.answer(rows_of, temperature, &ends, &questions, &masks) {
                Ok(chosen) => chosen,
                Err(GpuError::NotADistribution { row }) => {
                    let row = &all[row * vocab_len..][..vocab_len];
                    assert!(row.iter().all(|logit| *logit == f32::NEG_INFINITY));
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            for (index, (choice, question)) in chosen.into_iter().zip(&questions).enumerate() {
                let logits = &all[question.row * vocab_len..][..vocab_len];
                let words = masks.row(index).words();
                let scale = temperature.recip();
                let pick = match question.rule {
                    Rule::Greedy => Pick::Greedy,
                    Rule::Sample(random) => Pick::Random(random),
                };
                let expected = masked_choice(logits, words, question.may_end, &end_ids, scale, pick);
                let near = |one: f32, other: f32| one == other || (one - other).abs() < 1e-4;
                let log = |log: f32| if log <= LOWEST { f32::NEG_INFINITY } else { log - expected.log_sum };
                let masses = near(choice.log_mass, log(expected.log_tokens));
                assert!(
                    masses && near(choice.log_end, log(expected.log_end)),
                    "{choice:?} and not {expected:?}"
                );
                let token = match choice.next {
                    Next::Token(token) => token.0,
                    Next::End => END,
                    Next::Nothing => {
                        assert_eq!(expected.token, NONE);
                        continue;
                    }
                };
                if token == expected.token {
                    assert!(near(choice.log_prob, expected.logit - expected.log_sum), "{choice:?}");
                    continue;
                }
                // Another token only where the ranges of the two touch, up to rounding.
                let Rule::Sample(random) = question.rule else { panic!("{choice:?} and not {expected:?}") };
                let scale = f64::from(scale);
                let of_ends = end_ids.iter().filter_map(|id| logits.get(*id as usize));
                let end: f64 = of_ends.map(|logit| (f64::from(*logit) * scale).exp()).sum();
                let end = if question.may_end { end } else { 0.0 };
                let place = place(logits, words, end, scale, token);
                let number = f64::from(random >> 8) / 2.0_f64.powi(24);
                assert!(
                    place.start - 1e-5 < number && number < place.end + 1e-5,
                    "{choice:?}: {number} {place:?}"
                );
                assert!(choice.log_prob > f32::NEG_INFINITY, "{choice:?} has a probability");
            }
        }
    }
    // A row that is no distribution is an error.
    for odd in [f32::NAN, f32::INFINITY] {
        let buffer = lent.buffer(&[0.0, 1.0, 2.0, odd]);
        let rows_of = LogitBuffer { buffer: &buffer, offset: 256, rows: 2, vocab_len: 2 };
        let question = |row| ChoiceQuestion { row, may_end: true, rule: Rule::Greedy };
        let questions = [0, 1].map(question);
        let error = chooser.answer(rows_of, 1.0, &ends, &questions, &MaskBatch::new(2, 2)).unwrap_err();
        assert!(matches!(error, GpuError::NotADistribution { row: 1 }), "{error}");
    }
}

/// Many questions about one row: the chosen tokens follow the distribution over the allowed ones.
fn distributions_of_choices(gpu: &Arc<Gpu>) {
    const QUESTIONS: usize = 20_000;
    let (rng, lent) = (&mut rng(8), Lent::like(gpu));
    let (vocab_len, ends) = (300, [TokenId(1)]);
    let one: Vec<f32> = (0..vocab_len).map(|_| below(rng, 400) as f32 / 100.0).collect();
    let buffer = lent.buffer(&one);
    let rows_of = LogitBuffer { buffer: &buffer, offset: 256, rows: 1, vocab_len };
    let is_allowed = |id: usize| (5..290).contains(&id) && (id - 5).is_multiple_of(7);
    let mut masks = MaskBatch::new(QUESTIONS, vocab_len);
    let mut questions = Vec::new();
    for index in 0..QUESTIONS {
        let mut mask = masks.row_mut(index);
        (0..vocab_len).filter(|id| is_allowed(*id)).for_each(|id| mask.insert(TokenId::from_index(id)));
        questions.push(ChoiceQuestion { row: 0, may_end: true, rule: Rule::Sample(rng.next_u32()) });
    }
    let mut chooser = Chooser::new(Arc::clone(&lent.gpu)).unwrap();
    let chosen = chooser.answer(rows_of, 0.8, &ends, &questions, &masks).unwrap();
    let mut counts = vec![0; vocab_len];
    for choice in &chosen {
        match choice.next {
            Next::Token(token) => counts[token.index()] += 1,
            Next::End => counts[1] += 1,
            Next::Nothing => panic!("something is allowed"),
        }
    }
    let allowed = |id: usize| id == 1 || is_allowed(id);
    let weights: Vec<f64> =
        (0..vocab_len).map(|id| if allowed(id) { (f64::from(one[id]) / 0.8).exp() } else { 0.0 }).collect();
    let total: f64 = weights.iter().sum();
    let fit = conformance::chi_square(
        counts.into_iter().zip(weights).map(|(count, weight)| (count, weight / total)),
    );
    assert!(fit.deviation < 4.0, "{fit:?}");
}

/// More candidates than the lanes of a row of 65,535 workgroups.
fn many(gpu: &Arc<Gpu>) {
    let (cpu, on_device) = both(build(&[vec![1, 2], vec![3, 4]], 5).0, gpu);
    let mut inside = cpu.start();
    cpu.advance(&mut (), &mut inside, TokenId(1)).unwrap();
    let rows = 65_535 + 20;
    let states: Vec<SetState> = (0..rows).map(|at| if at % 5 == 1 { inside } else { cpu.start() }).collect();
    let valid = verify(&on_device, &states, &vec![TokenId(2); rows * 65]);
    assert!((0..rows).all(|at| valid[at * 65..][..65].iter().all(|valid| *valid == (at % 5 == 1))));
}

/// A device that binds 16 bytes at most.
fn too_large(gpu: &Arc<Gpu>) {
    let small = Lent::with(gpu, |limits| limits.max_storage_buffer_binding_size = 16).gpu;
    // Items of one token, which takes two bytes: four parts of four words hold 32.
    let of = |items: u32| {
        let items: Vec<Vec<u32>> = (0..items).map(|token| vec![token]).collect();
        let cpu = SetConstraint::new(Arc::new(build(&items, 300).0), 300).unwrap();
        GpuSetConstraint::new(cpu, Arc::clone(&small), told)
    };
    assert!(of(32).is_ok());
    let error = of(33).unwrap_err();
    assert!(matches!(error, GpuError::TooLarge { bytes: 20, limit: 16, .. }), "{error}");
}
