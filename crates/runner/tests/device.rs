//! Tokens of a set chosen on the device against the same step on the CPU: masks bit for bit, masses and probabilities up to
//! rounding, and the distribution of what is drawn.
//!
//! A harness of its own: burn starts on one adapter, which is named. Where there is none, tests are listed as skipped, and fail
//! if the environment variable `UNSKEW_GPU` is `require`.

#![allow(clippy::print_stdout, reason = "a test harness reports")]

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
    sync::Arc,
};

use common::{checkpoint, config, load};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use unskew_core::{
    Constraint, Extension, Finish, LanguageModel, Logits, MaskBatch, Origin, Rows, Sampler, TokenId,
    conformance::chi_square,
};
use unskew_runner::{Backend, DeviceError, Llama, Sequence, SetMethod, SetSampleError, SetSampler, SetTask};
use unskew_sets::{
    Chooser, Gpu, GpuError, GpuSet, Interval, Next, Rule, SetBuilder, SetConstraint, SetState, Subset,
};

type Test = fn(&Llama);

const TESTS: [(&str, Test); 8] = [
    ("steps_in_sets_are_those_of_the_cpu", steps),
    ("uploaded_masks_choose_what_masks_of_the_device_do", uploads),
    ("rows_of_several_passes_are_in_order", long_prompts),
    ("greedy_outputs_are_those_of_the_cpu", greedy),
    ("masked_outputs_follow_their_distribution_and_carry_weights", masked),
    ("accepted_outputs_of_disc_follow_the_distribution_of_the_model", disc),
    ("outputs_do_not_depend_on_the_batch", batches),
    ("what_cannot_be_done_is_an_error", errors),
];

/// The ids that end a sequence.
const END: [TokenId; 2] = [TokenId(2), TokenId(0)];
/// Of the vocabulary: few, so that outputs of a small set have some probability.
const VOCAB: usize = 13;
/// Of a logarithm of a step, on the device against 64 bits.
const TOLERANCE: f64 = 1e-4;

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

fn below(rng: &mut ChaCha8Rng, limit: usize) -> usize {
    ((u64::from(rng.next_u32()) * limit as u64) >> 32) as usize
}

fn ids(tokens: &[u32]) -> Vec<TokenId> {
    tokens.iter().copied().map(TokenId).collect()
}

type Items = BTreeSet<Vec<TokenId>>;

/// Random items, many of which begin with others, without the end of the sequence.
fn random_items(count: usize, longest: usize, vocab_len: usize, rng: &mut ChaCha8Rng) -> Items {
    let mut items: Vec<Vec<TokenId>> = Vec::new();
    for _ in 0..count {
        let mut item = match items.len() {
            0 => Vec::new(),
            len => {
                let other = &items[below(rng, len)];
                other[..below(rng, other.len() + 1)].to_vec()
            }
        };
        for _ in 0..=below(rng, longest - item.len().min(longest - 1)) {
            item.push(TokenId(3 + below(rng, vocab_len - 3) as u32));
        }
        items.push(item);
    }
    items.into_iter().collect()
}

fn constraint(items: &Items, vocab_len: usize) -> SetConstraint {
    let mut builder = SetBuilder::new(vocab_len);
    items.iter().for_each(|item| builder.push(item).unwrap());
    SetConstraint::new(Arc::new(builder.build().unwrap().0), vocab_len).unwrap()
}

/// Log-probabilities in 64 bits at a temperature, and those of what is allowed, the end in front.
fn allowed(row: &[f32], constraint: &SetConstraint, state: &SetState, temperature: f32) -> Vec<(Next, f64)> {
    let scaled = |logit: f32| f64::from(logit) / f64::from(temperature);
    let largest = row.iter().map(|logit| scaled(*logit)).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|logit| (scaled(*logit) - largest).exp()).sum();
    let log_prob = |id: TokenId| scaled(row[id.index()]) - largest - sum.ln();
    let mut masks = MaskBatch::new(1, constraint.vocab_len());
    constraint.fill_mask(&mut (), state, masks.row_mut(0));
    let ends: f64 = END.iter().map(|id| log_prob(*id).exp()).sum();
    let end = constraint.is_accepting(state).then(|| (Next::End, ends.ln()));
    let tokens = masks.row(0).into_ids().filter(|id| id.index() < row.len());
    end.into_iter().chain(tokens.map(|id| (Next::Token(id), log_prob(id)))).collect()
}

/// A sequence on its way along an item.
struct Lane {
    item: Vec<TokenId>,
    sequence: Sequence,
    state: SetState,
    interval: Interval,
    /// What is to be appended.
    next: Vec<TokenId>,
}

fn extensions<'a>(
    sequences: impl Iterator<Item = (&'a mut Sequence, &'a [TokenId])>,
) -> Vec<Extension<'a, Sequence>> {
    sequences.map(|(sequence, tokens)| Extension { sequence, tokens, rows: Rows::Last }).collect()
}

fn steps(_: &Llama) {
    let rng = &mut rng(1);
    // The last set allows ids that the model does not have.
    for (vocab_len, of_set, items, rows) in
        [(41, 41, 60, 5), (700, 700, 300, 7), (9, 9, 4, 1), (300, 364, 40, 33)]
    {
        let mut model = model(vocab_len).on_gpu().unwrap();
        let items = random_items(items, 5, of_set, rng);
        let constraint = constraint(&items, of_set);
        let set = GpuSet::of(model.gpu().unwrap(), &constraint).unwrap();
        let mut chooser = Chooser::new(model.gpu().unwrap(), &END).unwrap();
        let mut lanes: Vec<Lane> = Vec::new();
        for item in items.iter().cycle().take(rows) {
            lanes.push(Lane {
                item: item.clone(),
                sequence: model.start(),
                state: constraint.start(),
                interval: set.start(),
                next: vec![TokenId(1), TokenId(lanes.len() as u32 % 9)],
            });
        }
        for depth in 0.. {
            let intervals: Vec<Interval> = lanes.iter().map(|lane| lane.interval).collect();
            // The masks alone, bit for bit.
            let masks = set.masks(&intervals).unwrap();
            let mut expected = MaskBatch::new(lanes.len(), of_set);
            constraint.fill_masks(&mut (), &mut lanes.iter().map(|lane| &lane.state), &mut expected);
            assert!((0..lanes.len()).all(|row| masks.row(row) == expected.row(row)));

            // The same logits, read back.
            let mut logits = Logits::new();
            let mut copies: Vec<Sequence> = lanes.iter().map(|lane| model.fork(&lane.sequence)).collect();
            let next = lanes.iter().map(|lane| &lane.next[..]);
            model.extend(&mut extensions(copies.iter_mut().zip(next)), &mut logits).unwrap();

            let random: Vec<u32> = lanes.iter().map(|_| rng.next_u32()).collect();
            for (rule, temperature) in [
                (Rule::Sample { temperature: 1.0, random: &random }, 1.0),
                (Rule::Sample { temperature: 0.6, random: &random }, 0.6),
                (Rule::Greedy, 1.0),
            ] {
                let mut copies: Vec<Sequence> = lanes.iter().map(|lane| model.fork(&lane.sequence)).collect();
                let next = lanes.iter().map(|lane| &lane.next[..]);
                let mut batch = extensions(copies.iter_mut().zip(next));
                let mut after = intervals.clone();
                let choices = model.choose_in_set(&mut batch, &mut chooser, &set, &mut after, rule).unwrap();
                for (row, (lane, choice)) in lanes.iter().zip(choices).enumerate() {
                    let allowed = allowed(logits.row(row), &constraint, &lane.state, temperature);
                    let mass: f64 = allowed.iter().map(|(_, log_prob)| log_prob.exp()).sum();
                    if allowed.is_empty() {
                        assert_eq!((choice.next, after[row].valid), (Next::Nothing, 0));
                        continue;
                    }
                    let found = allowed.iter().find(|(next, _)| *next == choice.next);
                    let (_, log_prob) = *found.unwrap_or_else(|| panic!("{choice:?} is not allowed"));
                    assert!(
                        (f64::from(choice.log_prob) - log_prob).abs() < TOLERANCE,
                        "{choice:?} {log_prob}"
                    );
                    assert!((f64::from(choice.log_mass) - mass.ln()).abs() < TOLERANCE, "{choice:?} {mass}");
                    if rule == Rule::Greedy {
                        assert!(allowed.iter().all(|(_, other)| *other <= log_prob));
                    }
                    let mut state = lane.state;
                    match choice.next {
                        Next::Token(token) => {
                            constraint.advance(&mut (), &mut state, token).unwrap();
                            assert_eq!(after[row], Interval::from(state.cursor().unwrap()));
                        }
                        _ => assert_eq!(after[row].valid, 0),
                    }
                }
            }

            // On along the items, those of the model's vocabulary.
            lanes.retain(|lane| lane.item.get(depth).is_some_and(|token| token.index() < vocab_len));
            if lanes.is_empty() {
                break;
            }
            for lane in &mut lanes {
                let extension =
                    Extension { sequence: &mut lane.sequence, tokens: &lane.next, rows: Rows::Last };
                model.extend(&mut [extension], &mut logits).unwrap();
                lane.next = vec![lane.item[depth]];
                constraint.advance(&mut (), &mut lane.state, lane.item[depth]).unwrap();
                lane.interval = Interval::from(lane.state.cursor().unwrap());
            }
        }
    }
}

fn uploads(cpu: &Llama) {
    let rng = &mut rng(2);
    let mut model = cpu.on_gpu().unwrap();
    let constraint = constraint(&random_items(80, 4, VOCAB, rng), VOCAB);
    let set = GpuSet::of(model.gpu().unwrap(), &constraint).unwrap();
    let mut chooser = Chooser::new(model.gpu().unwrap(), &END).unwrap();
    for rows in [1, 12] {
        let mut states: Vec<SetState> = vec![constraint.start(); rows];
        let mut intervals = vec![set.start(); rows];
        let mut tokens: Vec<Vec<TokenId>> = (0..rows).map(|row| ids(&[1, row as u32])).collect();
        let mut sequences: Vec<[Sequence; 2]> = (0..rows).map(|_| [model.start(), model.start()]).collect();
        for _ in 0..3 {
            let random: Vec<u32> = (0..rows).map(|_| rng.next_u32()).collect();
            let rule = Rule::Sample { temperature: 1.0, random: &random };
            let mut masks = MaskBatch::new(rows, VOCAB);
            constraint.fill_masks(&mut (), &mut states.iter(), &mut masks);
            let may_end: Vec<bool> = states.iter().map(|state| constraint.is_accepting(state)).collect();
            let [mut ours, mut theirs] = [Vec::new(), Vec::new()];
            for ([one, other], tokens) in sequences.iter_mut().zip(&tokens) {
                ours.push(Extension { sequence: one, tokens, rows: Rows::Last });
                theirs.push(Extension { sequence: other, tokens, rows: Rows::Last });
            }
            let of_device = model.choose_in_set(&mut ours, &mut chooser, &set, &mut intervals, rule).unwrap();
            let uploaded = model.choose_masked(&mut theirs, &mut chooser, &masks, &may_end, rule).unwrap();
            assert_eq!(of_device, uploaded);
            // On with what was chosen, and again from the beginning where that is the end.
            for (row, choice) in of_device.iter().enumerate() {
                tokens[row] = match choice.next {
                    Next::Token(token) => {
                        constraint.advance(&mut (), &mut states[row], token).unwrap();
                        vec![token]
                    }
                    _ => {
                        (states[row], intervals[row]) = (constraint.start(), set.start());
                        vec![END[1]]
                    }
                };
            }
        }
    }
}

/// More new positions than a pass has.
fn long_prompts(cpu: &Llama) {
    let mut model = cpu.on_gpu().unwrap();
    let prompt = |len| (0..len).map(|at| TokenId((at * at + len) as u32 % VOCAB as u32)).collect();
    let prompts: [Vec<TokenId>; 3] = [520, 3, 40].map(prompt);
    let mut chooser = Chooser::new(model.gpu().unwrap(), &[]).unwrap();
    let mut masks = MaskBatch::new(3, VOCAB);
    for row in 0..3 {
        (0..VOCAB as u32).for_each(|id| masks.row_mut(row).insert(TokenId(id)));
    }
    let mut sequences: Vec<Sequence> = (0..3).map(|_| model.start()).collect();
    let prompted = sequences.iter_mut().zip(prompts.iter().map(Vec::as_slice));
    let mut batch = extensions(prompted);
    let choices = model.choose_masked(&mut batch, &mut chooser, &masks, &[false; 3], Rule::Greedy).unwrap();
    for ((prompt, choice), sequence) in prompts.iter().zip(choices).zip(&sequences) {
        let mut cpu = self::model(VOCAB);
        let mut alone = cpu.start();
        let row = common::extend(&mut cpu, &mut alone, prompt, Rows::Last).remove(0);
        let best = (0..VOCAB).max_by(|one, other| row[*one].total_cmp(&row[*other])).unwrap();
        assert_eq!(choice.next, Next::Token(TokenId::from_index(best)));
        assert!(choice.log_mass.abs() < 1e-4);
        assert_eq!(sequence.tokens(), prompt);
    }
}

/// A small set whose outputs can be enumerated, and their probabilities, on the CPU.
struct Known {
    items: Items,
    constraint: SetConstraint,
    /// Under the model.
    log_probs: BTreeMap<Vec<TokenId>, f64>,
    /// Under masked sampling.
    masked: BTreeMap<Vec<TokenId>, f64>,
    /// The most probable token at each step.
    best: Vec<TokenId>,
    /// The probability that the first token is one of the set.
    root_mass: f64,
}

const PROMPT: [TokenId; 3] = [TokenId(1), TokenId(7), TokenId(11)];

fn known(cpu: &Llama, temperature: f32) -> Known {
    let items: Items = [
        &[3, 4, 5][..],
        &[3, 4],
        &[3, 9],
        &[10],
        &[10, 11, 12, 9],
        &[10, 11, 4],
        &[12, 3],
        &[12],
        &[6],
        &[7, 7, 7],
    ]
    .map(ids)
    .into();
    let constraint = constraint(&items, VOCAB);
    let mut cpu = cpu.to_backend(Backend::Cpu);
    let (mut log_probs, mut masked) = (BTreeMap::new(), BTreeMap::new());
    let mut row_after = |output: &[TokenId]| {
        let mut sequence = cpu.start();
        common::extend(&mut cpu, &mut sequence, &[&PROMPT, output].concat(), Rows::Last).remove(0)
    };
    for item in &items {
        let (mut log_prob, mut log_masked, mut state) = (0.0, 0.0, constraint.start());
        for depth in 0..=item.len() {
            let allowed = allowed(&row_after(&item[..depth]), &constraint, &state, temperature);
            let mass: f64 = allowed.iter().map(|(_, log_prob)| log_prob.exp()).sum();
            let next = item.get(depth).map_or(Next::End, |token| Next::Token(*token));
            let (_, log_p) = allowed.iter().find(|(other, _)| *other == next).unwrap();
            log_prob += log_p;
            log_masked += log_p - mass.ln();
            if let Next::Token(token) = next {
                constraint.advance(&mut (), &mut state, token).unwrap();
            }
        }
        log_probs.insert(item.clone(), log_prob);
        masked.insert(item.clone(), log_masked.exp());
    }
    let (mut best, mut state) = (Vec::new(), constraint.start());
    loop {
        let mut allowed = allowed(&row_after(&best), &constraint, &state, temperature);
        allowed.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        // Far enough apart that rounding decides nothing.
        assert!(allowed.len() < 2 || allowed[0].1 > allowed[1].1 + 1e-4);
        match allowed[0].0 {
            Next::Token(token) => {
                constraint.advance(&mut (), &mut state, token).unwrap();
                best.push(token);
            }
            _ => break,
        }
    }
    assert!((masked.values().sum::<f64>() - 1.0).abs() < 1e-9);
    let root = allowed(&row_after(&[]), &constraint, &constraint.start(), temperature);
    let root_mass = root.iter().map(|(_, log_prob)| log_prob.exp()).sum();
    Known { items, constraint, log_probs, masked, best, root_mass }
}

fn task(batch: usize, temperature: f32) -> SetTask {
    SetTask { prompt: PROMPT.to_vec(), end: END.to_vec(), max_tokens: 5, batch, temperature }
}

fn sampler(cpu: &Llama, known: &Known, task: SetTask, method: SetMethod) -> SetSampler {
    SetSampler::new(cpu.on_gpu().unwrap(), &known.constraint, task, method).unwrap()
}

fn greedy(cpu: &Llama) {
    let known = known(cpu, 1.0);
    let mut sampler = sampler(cpu, &known, task(2, 1.0), SetMethod::Greedy);
    let mut draws = Vec::new();
    sampler.draw_many(3, &mut rng(3), &mut draws).unwrap();
    for draw in &draws {
        assert_eq!((&draw.tokens, draw.finish, draw.origin), (&known.best, Finish::Stop, Origin::Searched));
        assert!((draw.log_prob - known.log_probs[&known.best]).abs() < 1e-3);
    }
    assert_eq!(draws.len(), 3);
}

fn masked(cpu: &Llama) {
    for (temperature, seed, count) in [(1.0, 4, 300), (0.5, 5, 100)] {
        let known = known(cpu, temperature);
        let mut sampler = sampler(cpu, &known, task(64, temperature), SetMethod::Masked);
        let mut draws = Vec::new();
        sampler.draw_many(count, &mut rng(seed), &mut draws).unwrap();
        let mut counts: BTreeMap<&[TokenId], u64> = BTreeMap::new();
        for (index, draw) in draws.iter().enumerate() {
            assert!(known.items.contains(&draw.tokens) && draw.finish == Finish::Stop);
            let log_prob = known.log_probs[&draw.tokens];
            let log_weight = log_prob - known.masked[&draw.tokens].ln();
            assert!((draw.log_prob - log_prob).abs() < 1e-3);
            assert!((draw.log_weight - log_weight).abs() < 1e-3);
            // The first draw evaluates the prompt.
            let prompt = if index == 0 { PROMPT.len() } else { 0 };
            assert_eq!(draw.cost.positions, (prompt + draw.tokens.len() + 1) as u64);
            *counts.entry(&draw.tokens).or_default() += 1;
        }
        let observed = |item: &[TokenId]| counts.get(item).copied().unwrap_or(0);
        let fit = chi_square(known.masked.iter().map(|(item, p)| (observed(item), *p)));
        assert!(fit.deviation < 4.0, "{fit:?} {counts:?}");
    }
}

fn disc(cpu: &Llama) {
    // Warm enough that not too many tries are refused.
    const WARM: f32 = 4.0;
    let known = known(cpu, WARM);
    let total: f64 = known.log_probs.values().map(|log_prob| log_prob.exp()).sum();
    let distribution = |item: &Vec<TokenId>| known.log_probs[item].exp() / total;
    let method = SetMethod::Disc { max_tries: 100_000, max_positions: u64::MAX, particles: 4 };
    let mut draws = Vec::new();
    // Room for the longest item and no more: only its end is possible behind it.
    let exact = SetTask { max_tokens: 4, ..task(64, WARM) };
    sampler(cpu, &known, exact, method).draw_many(DISC_DRAWS, &mut rng(6), &mut draws).unwrap();
    let mut counts: BTreeMap<&[TokenId], u64> = BTreeMap::new();
    let mut proposals = 0;
    for draw in &draws {
        assert_eq!((draw.origin, draw.log_weight), (Origin::Accepted, 0.0));
        *counts.entry(&draw.tokens).or_default() += 1;
        proposals += draw.cost.proposals;
    }
    let observed = |item: &[TokenId]| counts.get(item).copied().unwrap_or(0);
    let fit = chi_square(known.items.iter().map(|item| (observed(item), distribution(item))));
    assert!(fit.deviation < 4.0, "{fit:?} {counts:?}");
    // A try is accepted with the probability of the set, given its first token.
    let expected = DISC_DRAWS as f64 * known.root_mass / total;
    assert!((proposals as f64 / expected - 1.0).abs() < 0.5, "{proposals} proposals and not {expected}");

    // Without a try that is accepted, one of the particles is resampled.
    let method = SetMethod::Disc { max_tries: 1, max_positions: u64::MAX, particles: 3 };
    draws.clear();
    sampler(cpu, &known, task(16, WARM), method).draw_many(40, &mut rng(7), &mut draws).unwrap();
    let resampled = draws.iter().filter(|draw| draw.origin == Origin::Resampled);
    assert!(resampled.clone().count() > 20);
    assert!(resampled.clone().all(|draw| known.items.contains(&draw.tokens) && draw.cost.proposals == 4));

    // The length limit is part of the condition.
    let short = SetTask { max_tokens: 1, ..task(16, WARM) };
    let method = SetMethod::Disc { max_tries: 100_000, max_positions: u64::MAX, particles: 1 };
    draws.clear();
    sampler(cpu, &known, short.clone(), method).draw_many(20, &mut rng(8), &mut draws).unwrap();
    assert!(draws.iter().all(|draw| draw.tokens.len() == 1 && known.items.contains(&draw.tokens)));
    // And masked outputs are cut off there.
    draws.clear();
    sampler(cpu, &known, short, SetMethod::Masked).draw_many(40, &mut rng(9), &mut draws).unwrap();
    assert!(draws.iter().all(|draw| draw.tokens.len() == 1 && draw.finish == Finish::Length));
}

const DISC_DRAWS: usize = 60;

fn batches(cpu: &Llama) {
    let known = known(cpu, 1.0);
    let mut all = Vec::new();
    for batch in [1, 3, 7] {
        let mut draws = Vec::new();
        let mut sampler = sampler(cpu, &known, task(batch, 1.0), SetMethod::Masked);
        sampler.draw_many(5, &mut rng(10), &mut draws).unwrap();
        all.push(draws.into_iter().map(|draw| draw.tokens).collect::<Vec<_>>());
    }
    assert!(all.iter().all(|outputs| *outputs == all[0]), "{all:?}");
}

fn errors(cpu: &Llama) {
    let known = known(cpu, 1.0);
    let new = |model: Llama, constraint: &SetConstraint, task: SetTask| {
        SetSampler::new(model, constraint, task, SetMethod::Masked)
    };
    let on_cpu = new(cpu.to_backend(Backend::Cpu), &known.constraint, task(1, 1.0)).unwrap_err();
    assert!(matches!(on_cpu, SetSampleError::Device(DeviceError::OnCpu)), "{on_cpu}");
    let cold = new(cpu.on_gpu().unwrap(), &known.constraint, task(1, 0.0)).unwrap_err();
    assert!(matches!(cold, SetSampleError::Temperature { value: 0.0 }), "{cold}");
    // Items that the model cannot write.
    let beyond = constraint(&[ids(&[15, 16])].into(), 20);
    let mut masked = new(cpu.on_gpu().unwrap(), &beyond, task(1, 1.0)).unwrap();
    let nothing = masked.draw(&mut rng(1)).unwrap_err();
    assert!(matches!(&nothing, SetSampleError::DeadEnd { tokens } if tokens.is_empty()), "{nothing}");
    let method = SetMethod::Disc { max_tries: 9, max_positions: 99, particles: 2 };
    let mut disc = SetSampler::new(cpu.on_gpu().unwrap(), &beyond, task(1, 1.0), method).unwrap();
    let impossible = disc.draw(&mut rng(1)).unwrap_err();
    assert!(matches!(impossible, SetSampleError::Impossible { max_tokens: 5 }), "{impossible}");
    let mut builder = SetBuilder::new(VOCAB);
    builder.push(&ids(&[3])).unwrap();
    let set = Arc::new(builder.build().unwrap().0);
    let filtered = SetConstraint::with_subset(set, Arc::new(Subset::from_places(1, [0])), VOCAB).unwrap();
    let filtered = new(cpu.on_gpu().unwrap(), &filtered, task(1, 1.0)).unwrap_err();
    assert!(matches!(filtered, SetSampleError::Device(DeviceError::Gpu(GpuError::Filtered))), "{filtered}");
    let promptless = SetTask { prompt: Vec::new(), ..task(1, 1.0) };
    let promptless =
        new(cpu.on_gpu().unwrap(), &known.constraint, promptless).unwrap().draw(&mut rng(1)).unwrap_err();
    assert!(matches!(promptless, SetSampleError::Device(DeviceError::Model(_))), "{promptless}");

    // A chooser of another device.
    let mut model = cpu.on_gpu().unwrap();
    let mut chooser = Chooser::new(Gpu::new().unwrap(), &[]).unwrap();
    let mut sequence = model.start();
    let mut batch = [Extension { sequence: &mut sequence, tokens: &PROMPT, rows: Rows::Last }];
    let masks = MaskBatch::new(1, VOCAB);
    let other = model.choose_masked(&mut batch, &mut chooser, &masks, &[true], Rule::Greedy).unwrap_err();
    assert!(matches!(other, DeviceError::OtherDevice), "{other}");
    assert!(sequence.tokens().is_empty());
}
