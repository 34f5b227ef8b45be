//! Speculative and mentored decoding against distributions that are known exactly.

mod process;

use std::collections::BTreeMap;

use crate::support::{Outputs, outputs, random_task, rng};
use process::{Distribution, process};
use rand_chacha::ChaCha8Rng;
use rand_core::Rng;
use unskew_core::{
    Constraint, ExactDistribution, Extension, Finish, LanguageModel, Logits, Proposer, Rows, Sampler,
    TableModel, TableModelError, TokenId, Unconstrained, conformance,
};
use unskew_samplers::{
    Exact, Masked, SampleError, Sampling, Scheduler, SequencePool, Task,
    speculative::{
        Budget, DraftLength, Drafter, ModelDraft, PromptLookup, ProposerDraft, SpeculationConfig,
        SpeculationError, TotalVariation, check_vocabularies,
    },
};

/// The number of draws in an optimised test; a fortieth of it otherwise.
const fn draws(many: u32) -> u32 {
    if cfg!(debug_assertions) { many / 40 } else { many }
}

/// The number of random tasks.
const TASKS: usize = 2;

const MAX_TOKENS: usize = 3;

/// A draft for the model of `random_task(seed)`: each row is a mixture of that model's row and a row of its own.
fn random_draft(target: &TableModel, seed: u64) -> TableModel {
    let mut rng = rng(seed + 1_000);
    let tokens = target.vocabulary().len() - 1;
    let mut row = |context: &[TokenId]| {
        let noise: Vec<f64> = (0..=tokens)
            .map(|_| if rng.next_u32().is_multiple_of(4) { 0.0 } else { uniform(&mut rng) })
            .collect();
        let sum = noise.iter().sum::<f64>() + 0.5;
        let mixed = noise.iter().zip(target.row(context)).map(|(noise, q)| (noise + 0.5 * q) / sum);
        mixed.collect::<Vec<_>>()
    };
    let mut contexts = vec![Vec::new()];
    let mut begin = 0;
    for _ in 0..4 {
        let end = contexts.len();
        for context in begin..end {
            for id in 0..tokens {
                contexts.push([contexts[context].as_slice(), &[TokenId::from_index(id)]].concat());
            }
        }
        begin = end;
    }
    let default = row(&[]);
    let rows: Vec<_> = contexts.into_iter().map(|context| (context.clone(), row(&context))).collect();
    TableModel::new((0..tokens).map(|id| id.to_string()), default, rows).unwrap()
}

fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    f64::from(rng.next_u32()) / 4_294_967_296.0
}

fn task(model: &TableModel, constraint: &Outputs) -> Task<TableModel, Outputs> {
    let vocabulary = model.vocabulary().clone();
    // Without memory, every row is requested again, and every position is drafted.
    let task = Task::new(model.clone(), constraint.clone(), &vocabulary, MAX_TOKENS);
    Task { max_bytes: 0, ..task }.after(vec![TokenId(0)])
}

/// Tasks that the model can complete from every prefix, so that no draw ends in an error.
fn tasks() -> impl Iterator<Item = (u64, TableModel, TableModel, Outputs)> {
    (0..200).filter_map(|seed| {
        let (target, constraint) = random_task(seed);
        let draft = random_draft(&target, seed);
        let distribution = process(&target, &target, &constraint, 0, Budget::Lossless).distribution;
        let whole = (distribution.values().sum::<f64>() - 1.0).abs() < 1e-9;
        (whole && distribution.len() > 4).then_some((seed, target, draft, constraint))
    })
}

fn counts<S: Sampler>(sampler: &mut S, draws: u32, seed: u64) -> BTreeMap<(Vec<TokenId>, bool), u64> {
    let mut counts = BTreeMap::new();
    let mut rng = rng(seed);
    for _ in 0..draws {
        let draw = sampler.draw(&mut rng).unwrap();
        *counts.entry((draw.tokens, draw.finish == Finish::Length)).or_default() += 1;
    }
    counts
}

fn check_fit(counts: &BTreeMap<(Vec<TokenId>, bool), u64>, distribution: &Distribution, what: &str) {
    assert!(counts.keys().all(|output| distribution.contains_key(output)), "{what}");
    let cells = distribution
        .iter()
        .map(|(output, probability)| (counts.get(output).copied().unwrap_or(0), *probability));
    let fit = conformance::chi_square(cells);
    assert!(fit.deviation < 4.0, "{what}: {fit:?}");
}

#[test]
fn without_a_budget_the_distribution_is_that_of_masked_sampling() {
    for (seed, target, draft, constraint) in tasks().take(TASKS) {
        let distribution = process(&target, &target, &constraint, 0, Budget::Lossless).distribution;
        for length in [DraftLength::Fixed(2), DraftLength::Fixed(3), DraftLength::default()] {
            let config = SpeculationConfig { length, ..SpeculationConfig::default() };
            let drafts = ModelDraft::new(draft.clone());
            let mut sampler =
                Sampling::speculative(task(&target, &constraint), Masked::new(), drafts, config).unwrap();
            check_fit(
                &counts(&mut sampler, draws(1_000_000), seed),
                &distribution,
                &format!("task {seed}, {length:?}"),
            );
            let speculation = sampler.machine().speculation();
            assert!(speculation.accepted > 0 && speculation.spent == 0.0);
        }
    }
}

#[test]
fn mentored_decoding_follows_the_optimum_position_by_position() {
    let mut more = 0;
    for (seed, target, draft, constraint) in tasks().take(TASKS) {
        for budget in [Budget::Token(0.05), Budget::Token(0.5), Budget::sequence(0.2)] {
            for length in [1, 2] {
                let process = process(&target, &draft, &constraint, length, budget);
                let sum: f64 = process.distribution.values().sum();
                assert!((sum - 1.0).abs() < 1e-9);
                let length = DraftLength::Fixed(length);
                let config = SpeculationConfig { length, budget, ..SpeculationConfig::default() };
                let drafts = ModelDraft::new(draft.clone());
                let mut sampler =
                    Sampling::speculative(task(&target, &constraint), Masked::new(), drafts, config).unwrap();
                let what = format!("task {seed}, {budget:?}, {length:?}");
                check_fit(&counts(&mut sampler, draws(1_000_000), seed), &process.distribution, &what);
                assert!(sampler.machine().speculation().most_spent <= process.most_spent + 1e-5, "{what}");
                more += u32::from(sampler.machine().speculation().spent > 0.0);
            }
        }
    }
    assert!(more > 6, "{more}");
}

/// The chain rule: the divergence of outputs is at most the budget on any path.
#[test]
fn budgets_bound_the_divergence_of_whole_outputs() {
    let mut near = 0;
    for (seed, target, draft, constraint) in tasks() {
        let lossless = process(&target, &target, &constraint, 0, Budget::Lossless).distribution;
        for length in 1..=3 {
            for (budget, bound) in [
                (Budget::Token(0.1), 0.1 * 3.0),
                (Budget::sequence(0.2), 0.2),
                (Budget::Sequence { total: 0.05, share: 1.0 }, 0.05),
            ] {
                let process = process(&target, &draft, &constraint, length, budget);
                let possible = lossless.iter().filter(|(_, q)| **q > 0.0);
                let divergence: f64 =
                    possible.map(|(output, q)| q * (q / process.distribution[output]).ln()).sum();
                assert!(divergence <= process.most_spent + 1e-9, "task {seed} {length} {budget:?}");
                assert!(process.most_spent <= bound + 1e-9, "task {seed} {length} {budget:?}");
                near += u32::from(divergence > 0.3 * bound);
            }
        }
    }
    assert!(near > 20, "{near}");
}

#[test]
fn the_budget_of_an_output_is_never_exceeded() {
    let (_, target, draft, constraint) = tasks().next().unwrap();
    for share in [0.125, 0.7, 1.0] {
        let budget = Budget::Sequence { total: 0.15, share };
        let config = SpeculationConfig { budget, ..SpeculationConfig::default() };
        let mut sampler = Sampling::speculative(
            task(&target, &constraint),
            Masked::new(),
            ModelDraft::new(draft.clone()),
            config,
        )
        .unwrap();
        let mut rng = rng(1);
        for _ in 0..draws(200_000) {
            sampler.draw(&mut rng).unwrap();
        }
        let speculation = sampler.machine().speculation();
        assert!(0.01 < speculation.most_spent && speculation.most_spent <= 0.15 + 1e-12, "{speculation:?}");
        assert!(speculation.spent <= speculation.allowed);
    }
}

/// A model whose rows give nearly all probability, or all of it, to one token.
fn adversary(tokens: usize, token: usize, others: f64) -> TableModel {
    let mut row = vec![others / tokens as f64; tokens + 1];
    row[token] = 1.0 - others;
    TableModel::new((0..tokens).map(|id| id.to_string()), row, []).unwrap()
}

/// Proposes the same token for ever.
struct Insists(TokenId);

impl<C: Constraint> Proposer<C> for Insists {
    fn propose(
        &mut self,
        _: &C,
        _: &mut C::Scratch,
        _: &[TokenId],
        _: &C::State,
        most: usize,
        tokens: &mut Vec<TokenId>,
    ) {
        tokens.extend(std::iter::repeat_n(self.0, most));
    }

    fn observe(&mut self, _: &C, _: &mut C::Scratch, _: &C::State, _: TokenId) {}
}

#[test]
fn no_forbidden_token_is_emitted_whatever_is_drafted() {
    // Token 3 is forbidden by the mask, and token 2 by the target itself.
    let mut target = vec![0.3, 0.5, 0.0, 0.1, 0.1];
    let target = TableModel::new(["0", "1", "2", "3"], std::mem::take(&mut target), []).unwrap();
    let texts: Vec<String> = (0..81)
        .map(|number| (0..4).map(|digit| ((number / 3_u32.pow(digit)) % 3).to_string()).collect())
        .collect();
    let constraint = outputs(texts.iter().map(String::as_str), 5);
    let task = || {
        let vocabulary = target.vocabulary().clone();
        Task::new(target.clone(), constraint.clone(), &vocabulary, 4).after(vec![TokenId(1)])
    };
    fn check<D: Drafter<Outputs> + Send + 'static>(
        task: Task<TableModel, Outputs>,
        draft: D,
        budget: Budget,
        tokens: u32,
    ) {
        let length = DraftLength::Fixed(3);
        let config = SpeculationConfig { budget, length, ..SpeculationConfig::default() };
        let mut sampler = Sampling::speculative(task, Masked::new(), draft, config).unwrap();
        let mut rng = rng(2);
        let mut seen = 0;
        while seen < tokens {
            let draw = sampler.draw(&mut rng).unwrap();
            assert!(draw.tokens.iter().all(|token| token.0 < 2), "{draw:?}");
            assert!(draw.log_prob.is_finite() && draw.log_weight.is_finite(), "{draw:?}");
            seen += u32::try_from(draw.tokens.len()).unwrap();
        }
    }
    for budget in [Budget::Lossless, Budget::Token(0.3), Budget::Token(50.0), Budget::sequence(1.0)] {
        for token in [2, 3] {
            for others in [0.0, 1e-6, 0.1] {
                let draft = ModelDraft::new(adversary(4, token, others));
                check(task(), draft, budget, draws(100_000));
            }
            let draft = ProposerDraft::new(Insists(TokenId::from_index(token)));
            check(task(), draft, budget, draws(100_000));
        }
    }
}

/// With their weights, outputs follow the target model.
#[test]
fn weights_correct_the_mask_and_the_mentoring() {
    for (seed, target, draft, constraint) in tasks().take(4) {
        let budget = Budget::Token(0.3);
        let config = SpeculationConfig { budget, ..SpeculationConfig::default() };
        let drafts = ModelDraft::new(draft.clone());
        let mut sampler =
            Sampling::speculative(task(&target, &constraint), Masked::new(), drafts, config).unwrap();
        let mut rng = rng(seed);
        let mut sums: BTreeMap<Vec<TokenId>, (f64, f64, f64)> = BTreeMap::new();
        let count = draws(1_000_000);
        for _ in 0..count {
            let draw = sampler.draw(&mut rng).unwrap();
            let key =
                [&draw.tokens[..], if draw.finish == Finish::Length { &[TokenId(99)] } else { &[] }].concat();
            let sum = sums.entry(key).or_default();
            let weight = draw.log_weight.exp();
            *sum = (sum.0 + weight, sum.1 + weight * weight, draw.log_prob.exp());
        }
        let count = f64::from(count);
        for (output, (sum, squares, probability)) in sums {
            let mean = sum / count;
            let error = ((squares / count - mean * mean) / count).max(0.0).sqrt();
            assert!(
                (mean - probability).abs() < 5.0 * error + 1e-6,
                "{seed} {output:?}: {mean} {probability}"
            );
        }
    }
}

#[test]
fn under_rejection_and_disc_the_distribution_is_the_target_distribution() {
    let end = [TokenId(2)];
    let target = TableModel::new(
        ["0", "1"],
        vec![0.45, 0.35, 0.2],
        [(vec![TokenId(0), TokenId(0)], vec![0.1, 0.6, 0.3])],
    )
    .unwrap();
    let draft = TableModel::new(["0", "1"], vec![0.3, 0.3, 0.4], []).unwrap();
    let constraint = outputs(["00", "01", "011", "1", "111"], 3);
    let prompt = vec![TokenId(0)];
    let distribution =
        ExactDistribution::enumerate(&mut target.clone(), &constraint, &prompt, &end, 3, 1_000).unwrap();
    let exact = [
        Exact::rejection(1_000_000),
        Exact::rsft(1_000_000),
        Exact::disc_published(1_000_000).with_particles(1),
        Exact::cars(1_000_000),
        Exact::ars(1_000_000),
    ];
    for (policy, max_bytes) in exact.into_iter().flat_map(|policy| [(policy, 0), (policy, 1 << 20)]) {
        for length in [1, 2, 5] {
            let length = DraftLength::Fixed(length);
            let config = SpeculationConfig { length, ..SpeculationConfig::default() };
            let drafts = ModelDraft::new(draft.clone());
            let task = Task { max_bytes, ..task(&target, &constraint) };
            let mut sampler = Sampling::speculative(task, policy, drafts, config).unwrap();
            conformance::check_sampler(&mut sampler, &distribution, draws(100_000) as usize, &mut rng(5))
                .unwrap();
        }
    }
    // Without a prompt there is no draft at the first position, and any task will do.
    for seed in 0..8 {
        let (target, constraint) = random_task(seed);
        let Some(distribution) = crate::support::distribution(&target, &constraint) else { continue };
        let drafts = ModelDraft::new(random_draft(&target, seed));
        let task = crate::support::task(&target, &constraint);
        let policy = Exact::rejection(1_000_000);
        let mut sampler = Sampling::speculative(task, policy, drafts, Default::default()).unwrap();
        conformance::check_sampler(&mut sampler, &distribution, draws(80_000) as usize, &mut rng(seed))
            .unwrap();
    }
    // With few tries some outputs are resampled, and say so.
    let policy = Exact::disc_published(2);
    let drafts = ModelDraft::new(draft);
    let mut sampler =
        Sampling::speculative(task(&target, &constraint), policy, drafts, Default::default()).unwrap();
    let mut rng = rng(6);
    let origins: Vec<_> = (0..500).map(|_| sampler.draw(&mut rng).unwrap().origin).collect();
    assert!(
        origins.contains(&unskew_core::Origin::Accepted) && origins.contains(&unskew_core::Origin::Resampled)
    );
}

#[test]
fn a_perfect_draft_is_always_accepted_and_saves_passes() {
    let target = TableModel::new(["a", "b"], vec![0.6, 0.39, 0.01], []).unwrap();
    let vocabulary = target.vocabulary().clone();
    let constraint = Unconstrained::new(&vocabulary);
    let task = Task::new(target.clone(), constraint, &vocabulary, 40).after(vec![TokenId(0)]);
    let task = Task { max_bytes: 0, ..task };
    let config = SpeculationConfig { length: DraftLength::Fixed(3), ..SpeculationConfig::default() };
    let mut sampler = Sampling::speculative(task, Masked::new(), ModelDraft::new(target), config).unwrap();
    let mut rng = rng(3);
    for _ in 0..50 {
        let draw = sampler.draw(&mut rng).unwrap();
        let tokens = draw.tokens.len() as u64;
        // Four at a time, and the last pass may be cut short.
        assert!(draw.cost.passes <= tokens / 4 + 2, "{draw:?}");
        assert!(draw.cost.positions <= tokens + 4, "{draw:?}");
    }
    let speculation = sampler.machine().speculation();
    assert_eq!(speculation.accepted, speculation.tested);
    assert!(speculation.draft.positions >= speculation.drafted);
}

/// A model that checks its use: no sequence exceeds its context.
#[derive(Debug)]
struct Short(TableModel, usize);

impl LanguageModel for Short {
    type Sequence = Vec<TokenId>;
    type Error = TableModelError;

    fn vocab_len(&self) -> usize {
        self.0.vocab_len()
    }
    fn context_len(&self) -> Option<usize> {
        Some(self.1)
    }
    fn start(&mut self) -> Vec<TokenId> {
        self.0.start()
    }
    fn len(&self, sequence: &Vec<TokenId>) -> usize {
        sequence.len()
    }
    fn fork(&mut self, sequence: &Vec<TokenId>) -> Vec<TokenId> {
        sequence.clone()
    }
    fn truncate(&mut self, sequence: &mut Vec<TokenId>, len: usize) {
        self.0.truncate(sequence, len);
    }
    fn extend(
        &mut self,
        batch: &mut [Extension<'_, Vec<TokenId>>],
        logits: &mut Logits,
    ) -> Result<(), TableModelError> {
        for Extension { sequence, tokens, rows } in batch.iter() {
            assert!(sequence.len() + tokens.len() <= self.1, "beyond the context");
            assert!(*rows == Rows::Last || !tokens.is_empty());
        }
        self.0.extend(batch, logits)
    }
}

#[test]
fn drafts_stay_within_both_contexts() {
    let table = TableModel::new(["a", "b"], vec![0.6, 0.4, 0.0], []).unwrap();
    let vocabulary = table.vocabulary().clone();
    for (target, draft) in [(12, 100), (12, 12), (100, 6), (12, 1)] {
        for prompt in 0..4 {
            let task = Task::new(
                Short(table.clone(), target),
                Unconstrained::new(&vocabulary),
                &vocabulary,
                12 - prompt,
            )
            .after(vec![TokenId(0); prompt]);
            let drafts = ModelDraft::new(Short(table.clone(), draft));
            let config = SpeculationConfig { length: DraftLength::Fixed(5), ..SpeculationConfig::default() };
            let mut sampler = Sampling::speculative(task, Masked::new(), drafts, config).unwrap();
            for _ in 0..3 {
                let draw = sampler.draw(&mut rng(1)).unwrap();
                assert_eq!((draw.tokens.len(), draw.finish), (12 - prompt, Finish::Length));
            }
        }
    }
}

#[test]
fn proposals_without_a_model_keep_the_distribution_and_repetitions_are_guessed() {
    for (seed, target, _, constraint) in tasks().take(4) {
        let distribution = process(&target, &target, &constraint, 0, Budget::Lossless).distribution;
        let drafts = ProposerDraft::new(PromptLookup::default());
        let mut sampler = Sampling::speculative(
            task(&target, &constraint),
            Masked::new(),
            drafts,
            SpeculationConfig::default(),
        )
        .unwrap();
        check_fit(&counts(&mut sampler, draws(400_000), seed), &distribution, &format!("task {seed}"));
    }
    // A model that repeats a cycle of tokens.
    let contexts: Vec<(Vec<TokenId>, Vec<f64>)> = (0..40)
        .map(|len| {
            let context: Vec<TokenId> = (0..len).map(|index| TokenId(index % 3)).collect();
            let mut row = vec![0.01; 4];
            row[(len % 3) as usize] = 0.97;
            (context, row)
        })
        .collect();
    let target = TableModel::new(["a", "b", "c"], vec![0.0, 0.0, 0.0, 1.0], contexts).unwrap();
    let vocabulary = target.vocabulary().clone();
    let prompt: Vec<TokenId> = (0..7).map(|index| TokenId(index % 3)).collect();
    let task = Task::new(target, Unconstrained::new(&vocabulary), &vocabulary, 30).after(prompt);
    let task = Task { max_bytes: 0, ..task };
    let mut sampler = Sampling::speculative(
        task,
        Masked::new(),
        ProposerDraft::new(PromptLookup::default()),
        SpeculationConfig::default(),
    )
    .unwrap();
    let draws: Vec<_> = (0..20).map(|seed| sampler.draw(&mut rng(seed)).unwrap()).collect();
    let tokens: usize = draws.iter().map(|draw| draw.tokens.len()).sum();
    let passes: u64 = draws.iter().map(|draw| draw.cost.passes).sum();
    assert!(passes * 2 < tokens as u64, "{passes} passes for {tokens} tokens");
    assert!(sampler.machine().speculation().acceptance() > 0.9);
}

fn with_variation(
    task: Task<TableModel, Outputs>,
    drafts: ModelDraft<TableModel>,
    config: SpeculationConfig,
) -> Sampling<TableModel, Scheduler<Outputs, Masked>> {
    let (model, task) = task.split();
    let scheduler = Scheduler::new(task, Masked::new());
    let scheduler = scheduler.with_divergence(Box::new(drafts), config, Box::new(TotalVariation)).unwrap();
    Sampling::from_parts(SequencePool::new(model, 4), scheduler)
}

#[test]
fn another_divergence_bounds_what_it_measures() {
    for (seed, target, draft, constraint) in tasks().take(10) {
        let config = SpeculationConfig { budget: Budget::Token(0.1), ..SpeculationConfig::default() };
        let drafts = ModelDraft::new(draft.clone());
        let mut sampler = with_variation(task(&target, &constraint), drafts, config);
        let lossless = process(&target, &target, &constraint, 0, Budget::Lossless).distribution;
        let count = draws(200_000);
        let counts = counts(&mut sampler, count, seed);
        let share = |output| counts.get(output).map_or(0.0, |count: &u64| *count as f64) / f64::from(count);
        let variation: f64 = lossless.iter().map(|(output, q)| (q - share(output)).abs() / 2.0).sum();
        // The part of the sum that is chance, over these few outputs, is far below a tenth.
        assert!(variation < 0.3 + 0.1, "task {seed}: {variation}");
    }
}

#[test]
fn parts_that_do_not_go_together_are_errors() {
    let target = TableModel::new(["a", "b"], vec![0.5, 0.3, 0.2], []).unwrap();
    let other = TableModel::uniform(["a", "b", "c"]);
    let vocabulary = target.vocabulary().clone();
    let make = |draft: &TableModel, config| {
        let task = Task::new(target.clone(), Unconstrained::new(&vocabulary), &vocabulary, 4);
        Sampling::speculative(task, Masked::new(), ModelDraft::new(draft.clone()), config)
            .map(|_| ())
            .unwrap_err()
    };
    let config = SpeculationConfig::default();
    let error = make(&other, config);
    assert_eq!(error, SpeculationError::VocabularyLength { draft: 4, target: 3 });
    assert!(error.to_string().contains("4 tokens and the target 3"));
    for value in [-0.1, f64::NAN, f64::NEG_INFINITY] {
        for budget in [Budget::Token(value), Budget::sequence(value)] {
            assert!(matches!(
                make(&target, SpeculationConfig { budget, ..config }),
                SpeculationError::Budget(_)
            ));
        }
    }
    let endless = SpeculationConfig { budget: Budget::sequence(f64::INFINITY), ..config };
    assert!(matches!(make(&target, endless), SpeculationError::Budget(_)));
    for share in [0.0, 1.5, f64::NAN] {
        let budget = Budget::Sequence { total: 1.0, share };
        assert!(matches!(make(&target, SpeculationConfig { budget, ..config }), SpeculationError::Share(_)));
    }
    for policy in [Exact::rejection(9), Exact::disc_published(9), Exact::cars(9)] {
        let mentored = SpeculationConfig { budget: Budget::Token(0.1), ..config };
        let task = Task::new(target.clone(), Unconstrained::new(&vocabulary), &vocabulary, 4);
        let made = Sampling::speculative(task, policy, ModelDraft::new(target.clone()), mentored);
        assert_eq!(made.map(|_| ()).unwrap_err(), SpeculationError::MentoredUnderExact);
    }

    let renamed = TableModel::uniform(["a", "c"]);
    let error = check_vocabularies(&vocabulary, renamed.vocabulary()).unwrap_err();
    assert_eq!(error, SpeculationError::Token { token: TokenId(1) });
    assert!(check_vocabularies(&vocabulary, other.vocabulary()).is_err());
    check_vocabularies(&vocabulary, TableModel::uniform(["a", "b"]).vocabulary()).unwrap();
}

#[test]
fn dead_ends_and_rows_that_are_none_are_errors() {
    let target = TableModel::new(["0", "1"], vec![0.0, 0.9, 0.1], []).unwrap();
    let constraint = outputs(["10", "100"], 3);
    let drafts = ModelDraft::new(TableModel::uniform(["0", "1"]));
    let mut sampler = Sampling::speculative(
        task(&target, &constraint),
        Masked::new(),
        drafts,
        SpeculationConfig::default(),
    )
    .unwrap();
    let error = sampler.draw(&mut rng(1)).unwrap_err();
    assert_eq!(error, SampleError::DeadEnd { tokens: vec![TokenId(1)] });
    // An error changes no later draw.
    assert_eq!(sampler.draw(&mut rng(1)).unwrap_err(), error);

    let target = TableModel::uniform(["0", "1"]);
    let task = task(&target, &constraint);
    let cancel = task.cancel.clone();
    let drafts = ProposerDraft::new(PromptLookup::default());
    let mut sampler =
        Sampling::speculative(task, Masked::new(), drafts, SpeculationConfig::default()).unwrap();
    sampler.draw(&mut rng(1)).unwrap();
    cancel.cancel();
    assert_eq!(sampler.draw(&mut rng(1)).unwrap_err(), SampleError::Cancelled);
}
