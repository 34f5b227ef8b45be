//! Every sampler against the exact distribution of tasks small enough to enumerate.

use std::collections::{BTreeMap, HashMap};

use crate::support::{Outputs, distribution, ids, outputs, random_task, rng, task};
use unskew_core::{
    Draw, ExactDistribution, Extension, Finish, LanguageModel, Logits, Origin, Sampler, TableModel, TokenId,
    conformance::{check_constraint, check_sampler, chi_square},
};
use unskew_samplers::{Exact, Masked, SampleError, Sampling, Task, Truncation, Warped};

/// Enough tries that no output is resampled on any of the tasks.
const PATIENT: Exact = Exact::disc().with_budget(1e6).with_particles(1);

/// The outputs of `G_sk` (grammar-aligned decoding, example 2): `00000`, and all outputs of length five that start
/// with 1.
fn skewed() -> (TableModel, Outputs) {
    let ones = (0..16).map(|tail| format!("1{tail:04b}")).collect::<Vec<_>>();
    let constraint = outputs(ones.iter().map(String::as_str).chain(["00000"]), 3);
    (TableModel::new(["0", "1"], vec![0.45, 0.45, 0.10], []).unwrap(), constraint)
}

/// The two-token task of theorem 2.1 of the DISC paper, with `p_b` the probability of an invalid output.
fn biased(p_b: f64, epsilon: f64) -> (TableModel, Outputs) {
    let stop = vec![0.0, 0.0, 1.0];
    let contexts = [
        (ids(""), vec![1.0 - p_b, p_b, 0.0]),
        (ids("0"), vec![0.5, 0.5, 0.0]),
        (ids("1"), vec![epsilon, 1.0 - epsilon, 0.0]),
    ];
    (TableModel::new(["0", "1"], stop, contexts).unwrap(), outputs(["00", "01", "10"], 3))
}

/// Probability under masked sampling and `x` without the empty prefix, of every output.
fn proposal(model: &TableModel, constraint: &Outputs) -> BTreeMap<Vec<TokenId>, (f64, f64)> {
    let mut result = BTreeMap::new();
    for output in &constraint.outputs {
        let (mut probability, mut mass_below_root) = (1.0, 1.0);
        for cut in 0..=output.len() {
            let prefix = &output[..cut];
            let row = model.row(prefix);
            let mut mass = if constraint.outputs.contains(prefix) { row[row.len() - 1] } else { 0.0 };
            for (id, probability) in row[..row.len() - 1].iter().enumerate() {
                let longer = [prefix, &[TokenId::from_index(id)]].concat();
                if constraint.outputs.iter().any(|output| output.starts_with(&longer)) {
                    mass += probability;
                }
            }
            probability *= output.get(cut).map_or(row[row.len() - 1], |id| row[id.index()]) / mass;
            mass_below_root *= if cut == 0 { 1.0 } else { mass };
        }
        if probability > 0.0 {
            result.insert(output.clone(), (probability, mass_below_root));
        }
    }
    result
}

fn deviation(
    sampler: &mut impl Sampler,
    distribution: &BTreeMap<Vec<TokenId>, f64>,
    draws: usize,
    seed: u64,
) -> f64 {
    let mut rng = rng(seed);
    let mut counts: HashMap<Vec<TokenId>, u64> = HashMap::new();
    for _ in 0..draws {
        *counts.entry(sampler.draw(&mut rng).unwrap().tokens).or_default() += 1;
    }
    assert!(counts.keys().all(|output| distribution.contains_key(output)));
    chi_square(
        distribution
            .iter()
            .map(|(output, probability)| (counts.get(output).copied().unwrap_or(0), *probability)),
    )
    .deviation
}

#[test]
fn the_test_constraint_keeps_the_contract() {
    for seed in 0..20 {
        check_constraint(&random_task(seed).1, 5).unwrap();
    }
}

#[test]
fn exact_samplers_follow_the_distribution_of_random_tasks() {
    let mut tested = 0;
    for seed in 0..30 {
        let (model, constraint) = random_task(seed);
        let Some(distribution) = distribution(&model, &constraint) else { continue };
        tested += 1;
        let of_form = |form: Exact| Sampling::new(task(&model, &constraint), form);
        for (name, sampler) in [
            (
                "rejection",
                &mut Sampling::new(task(&model, &constraint), Exact::rejection(10_000_000))
                    as &mut dyn Sampler<Error = _>,
            ),
            ("disc, default", &mut Sampling::new(task(&model, &constraint), Exact::disc())),
            ("disc, learned", &mut of_form(PATIENT)),
            ("disc, fresh", &mut of_form(Exact::disc_published(1_000_000).with_particles(1))),
            ("disc, reuse", &mut of_form(Exact::disc_reusing(1_000_000))),
        ] {
            if let Err(error) = check_sampler(sampler, &distribution, 2_000, &mut rng(seed)) {
                panic!("task {seed}, {name}: {error}");
            }
        }
    }
    assert!(tested >= 20, "{tested}");
}

#[test]
fn a_hundred_thousand_draws_of_a_skewed_task_follow_the_distribution() {
    let (model, constraint) = skewed();
    let distribution = distribution(&model, &constraint).unwrap();
    let fit = check_sampler(
        &mut Sampling::new(task(&model, &constraint), Exact::disc()),
        &distribution,
        100_000,
        &mut rng(1),
    );
    assert_eq!(fit.unwrap().degrees_of_freedom, 16);

    // Masked sampling takes the first token at its own probability, and is then forced down 00000. That makes 00000
    // half of its outputs; the model gives it a seventeenth.
    let masked: BTreeMap<_, _> = proposal(&model, &constraint)
        .into_iter()
        .map(|(output, (probability, _))| (output, probability))
        .collect();
    assert!((masked[&ids("00000")] - 0.5).abs() < 1e-9);
    assert!((distribution.probability(&ids("00000")) - 1.0 / 17.0).abs() < 1e-5);
    assert!(
        deviation(&mut Sampling::new(task(&model, &constraint), Masked::new()), &masked, 20_000, 2) < 4.0
    );
}

#[test]
fn masked_sampling_is_the_proposal_and_its_weights_correct_it() {
    for seed in 0..20 {
        let (model, constraint) = random_task(seed);
        let Some(distribution) = distribution(&model, &constraint) else { continue };
        let proposal = proposal(&model, &constraint);
        let total: f64 = proposal.values().map(|(probability, _)| probability).sum();
        if (total - 1.0).abs() > 1e-9 {
            continue; // the model has dead ends in this task
        }
        let expected =
            proposal.iter().map(|(output, (probability, _))| (output.clone(), *probability)).collect();
        let mut masked = Sampling::new(task(&model, &constraint), Masked::new());
        assert!(deviation(&mut masked, &expected, 4_000, seed) < 4.0, "task {seed}");

        // E[weight] is the probability of the constraint, and weighted draws follow the model's own distribution.
        let mut rng = rng(seed);
        let draws: Vec<Draw> = (0..4_000).map(|_| masked.draw(&mut rng).unwrap()).collect();
        for draw in &draws {
            let weight = draw.log_weight.exp() * proposal[&draw.tokens].0;
            assert!((weight.ln() - draw.log_prob).abs() < 1e-4);
            assert_eq!((draw.finish, draw.origin), (Finish::Stop, Origin::Proposed));
        }
        let exact: f64 = proposal.keys().map(|output| distribution.probability(output)).sum();
        assert!((exact - 1.0).abs() < 1e-6);
    }
}

/// The distribution of DISC with one or two tries, by enumeration: accepted outputs follow the target, and resampled
/// outputs follow the resampling of all pairs.
#[test]
fn bounded_disc_follows_its_published_distribution() {
    // Without dead ends, which have a mass of their own in the proposal.
    let complete = |(model, constraint): &(TableModel, Outputs)| {
        (proposal(model, constraint).values().map(|(probability, _)| probability).sum::<f64>() - 1.0).abs()
            < 1e-9
    };
    let random = (0..)
        .map(random_task)
        .filter(complete)
        .filter(|(_, constraint)| constraint.outputs.len() > 5)
        .take(3);
    for (model, constraint) in [biased(0.9, 0.3), skewed()].into_iter().chain(random) {
        let target = distribution(&model, &constraint).unwrap();
        let proposal = proposal(&model, &constraint);
        let refused: f64 = proposal.values().map(|(probability, x)| probability * (1.0 - x)).sum();
        for reuses in [false, true] {
            for k in [1, 2] {
                // One candidate of the resampling: its probability, and its weight.
                let candidate = |(probability, x): (f64, f64)| match reuses {
                    false => (probability, x),
                    true => (probability * (1.0 - x) / refused, x / (1.0 - x)),
                };
                let mut resampled: BTreeMap<Vec<TokenId>, f64> = BTreeMap::new();
                for (left, values) in &proposal {
                    let (p_left, w_left) = candidate(*values);
                    if k == 1 {
                        *resampled.entry(left.clone()).or_default() += p_left;
                        continue;
                    }
                    for (right, values) in &proposal {
                        let (p_right, w_right) = candidate(*values);
                        if p_left * p_right > 0.0 {
                            let share = w_left / (w_left + w_right);
                            *resampled.entry(left.clone()).or_default() += p_left * p_right * share;
                            *resampled.entry(right.clone()).or_default() += p_left * p_right * (1.0 - share);
                        }
                    }
                }
                let rest = refused.powi(k);
                let expected: BTreeMap<_, _> = proposal
                    .keys()
                    .map(|output| {
                        let mass = resampled.get(output).copied().unwrap_or(0.0);
                        (output.clone(), (1.0 - rest) * target.probability(output) + rest * mass)
                    })
                    .collect();
                let k = u64::try_from(k).unwrap();
                let form = if reuses { Exact::disc_reusing(k) } else { Exact::disc_published(k) };
                let mut disc = Sampling::new(task(&model, &constraint), form);
                let deviation =
                    deviation(&mut disc, &expected, if cfg!(debug_assertions) { 5_000 } else { 20_000 }, k);
                assert!(deviation < 4.0, "{form:?}, K = {k}: {deviation} on {constraint:?}");
            }
        }
    }
}

/// Learning must not show in the distribution: the first and the third output of many new samplers.
#[test]
fn learning_changes_no_distribution() {
    for (model, constraint) in [biased(0.9, 0.3), skewed()] {
        let distribution = distribution(&model, &constraint).unwrap();
        let mut counts: [HashMap<Vec<TokenId>, u64>; 3] = Default::default();
        for session in 0..4_000 {
            let mut rng = rng(session);
            let mut disc = Sampling::new(task(&model, &constraint), PATIENT);
            for counts in &mut counts {
                let draw = disc.draw(&mut rng).unwrap();
                assert_eq!(draw.origin, Origin::Accepted);
                *counts.entry(draw.tokens).or_default() += 1;
            }
        }
        for counts in [&counts[0], &counts[2]] {
            let fit = chi_square(
                distribution.iter().map(|(output, p)| (counts.get(output).copied().unwrap_or(0), p)),
            );
            assert!(fit.deviation < 4.0, "{fit:?}");
        }
    }
}

#[test]
fn what_is_known_is_not_refused_again() {
    // One in 100,000 tries would be accepted without learning.
    let (model, constraint) = (biased(0.5, 0.5).0, outputs(["0000000", "1010101"], 3));
    let stop = vec![0.4, 0.4, 0.2];
    let model = TableModel::new(["0", "1"], stop, [(vec![], model.row(&[]).to_vec())]).unwrap();
    let mut disc = Sampling::new(task(&model, &constraint), Exact::disc());
    let mut rng = rng(3);
    let first = disc.draw(&mut rng).unwrap();
    for _ in 0..100 {
        disc.draw(&mut rng).unwrap();
    }
    let late = disc.draw(&mut rng).unwrap();
    assert_eq!((late.cost.proposals, late.cost.positions, late.origin), (1, 0, Origin::Accepted));
    assert!(first.cost.proposals < 10, "{first:?}");
}

#[test]
fn resampled_outputs_say_so() {
    let (model, constraint) = biased(0.9, 0.01);
    let mut disc = Sampling::new(task(&model, &constraint), Exact::disc_published(1));
    let (mut accepted, mut rng) = (0, rng(5));
    for _ in 0..1_000 {
        let draw = disc.draw(&mut rng).unwrap();
        match draw.origin {
            Origin::Accepted => accepted += 1,
            Origin::Resampled => assert_eq!(draw.cost.proposals, 2),
            other => panic!("DISC accepts or resamples: {other:?}"),
        }
    }
    // One try is accepted with probability P(S) = 0.109; the mass of the empty prefix is 1 here.
    assert!((60..170).contains(&accepted), "{accepted}");
}

/// The law of one of `K` weighted proposals is within `ln(1 + (r - 1) / K)` nats of the target, where `r` is the mean
/// square of the weights, with their mean as unit. The effective number tells it of one draw, and these do on average.
#[test]
fn the_effective_number_tells_how_near_resampled_outputs_are() {
    let (model, constraint) = biased(0.9, 0.01);
    let target = distribution(&model, &constraint).unwrap();
    let masked = proposal(&model, &constraint);
    let moment = |power: i32| masked.values().map(|(p, weight)| p * weight.powi(power)).sum();
    let (mean, square): (f64, f64) = (moment(1), moment(2));
    let particles = 8;
    let mut disc =
        Sampling::new(task(&model, &constraint), Exact::disc_published(0).with_particles(particles));
    let (mut rng, draws) = (rng(11), 20_000_u32);
    let (mut counts, mut said, mut resampled) = (BTreeMap::<Vec<TokenId>, u32>::new(), 0.0, 0_u32);
    for _ in 0..draws {
        let draw = disc.draw(&mut rng).unwrap();
        // The first try may be accepted all the same.
        let Some(effective) = draw.effective else { continue };
        resampled += 1;
        assert!((1.0 - 1e-9..=8.0 + 1e-9).contains(&effective), "{effective}");
        said += (1.0 / effective).ln_1p();
        *counts.entry(draw.tokens).or_default() += 1;
    }
    let kl: f64 = target
        .iter()
        .map(|(output, p)| p * (p * f64::from(resampled) / f64::from(counts[output])).ln())
        .sum();
    said /= f64::from(resampled);
    let bound = ((square / (mean * mean) - 1.0) / 8.0).ln_1p();
    assert!(kl > 0.0 && kl < bound && kl < said, "{kl} nats; the bound {bound}, and the draws say {said}");
}

/// Tries of the first outputs, which learn for the others, take what those after them do not need.
#[test]
fn outputs_share_the_budget_of_a_run() {
    let stop = vec![0.45, 0.45, 0.1];
    let model = TableModel::new(["0", "1"], stop, []).unwrap();
    let constraint = outputs(["00000000", "10101010", "11110000"], 3);
    let origins = |policy: Exact| {
        let mut sampler = Sampling::new(task(&model, &constraint), policy);
        let mut rng = rng(2);
        (0..40).map(|_| sampler.draw(&mut rng).unwrap().origin).collect::<Vec<_>>()
    };
    let alone = origins(Exact::disc().with_budget(1.0));
    let shared = origins(Exact::disc().with_budget(1.0).for_outputs(40));
    let resampled =
        |origins: &[Origin]| origins.iter().filter(|origin| **origin == Origin::Resampled).count();
    assert!(resampled(&alone) > 0 && alone.last() == Some(&Origin::Accepted), "{alone:?}");
    assert_eq!(resampled(&shared), 0, "{shared:?}");
    let none = origins(Exact::disc().with_budget(0.0).for_outputs(40));
    assert_eq!(resampled(&none), 40 - none.iter().filter(|origin| **origin == Origin::Accepted).count());
}

#[test]
fn another_temperature_is_another_model_with_its_own_distribution() {
    let (model, constraint) = random_task(4);
    let end = model.vocabulary().end_of_sequence().to_vec();
    let warped = |truncation| Warped::new(model.clone(), 0.5, truncation).unwrap();
    for truncation in
        [None, Some(Truncation::new(Some(2), None).unwrap()), Some(Truncation::new(None, Some(0.8)).unwrap())]
    {
        let Ok(distribution) =
            ExactDistribution::enumerate(&mut warped(truncation), &constraint, &[], &end, 8, 10_000)
        else {
            continue;
        };
        let task = Task::new(warped(truncation), constraint.clone(), model.vocabulary(), 8);
        check_sampler(&mut Sampling::new(task, PATIENT), &distribution, 4_000, &mut rng(6)).unwrap();
    }
}

/// The four-token example: truncating before the mask and after it are different distributions.
#[test]
fn the_order_of_mask_and_truncation_matters() {
    let stop = vec![0.0, 0.0, 0.0, 0.0, 1.0];
    let model =
        TableModel::new(["a", "b", "c", "d"], stop, [(vec![], vec![0.4, 0.3, 0.2, 0.1, 0.0])]).unwrap();
    let constraint = outputs(["1", "3"], 5);
    let top = Truncation::new(Some(2), None).unwrap();
    let share = |sampler: &mut dyn Sampler<Error = SampleError<_>>| {
        let mut rng = rng(8);
        let count = (0..4_000).filter(|_| sampler.draw(&mut rng).unwrap().tokens == ids("1")).count();
        f64::from(u32::try_from(count).unwrap()) / 4_000.0
    };
    assert!(
        (share(&mut Sampling::new(task(&model, &constraint), Masked::truncated(top))) - 0.75).abs() < 0.03
    );
    let before = Warped::new(model.clone(), 1.0, Some(top)).unwrap();
    let task = Task::new(before, constraint, model.vocabulary(), 8);
    assert!((share(&mut Sampling::new(task, Masked::new())) - 1.0).abs() < 1e-9);
    let one = Truncation::new(Some(1), None).unwrap();
    let all = outputs(["0", "1", "3"], 5);
    assert!(
        (share(&mut Sampling::new(crate::support::task(&model, &all), Masked::truncated(one)))).abs() < 1e-9
    );
}

#[test]
fn a_seed_decides_the_draws_and_a_prompt_their_context() {
    let (model, constraint) = skewed();
    let draws = |seed| {
        let mut rng = rng(seed);
        let mut sampler = Sampling::new(task(&model, &constraint), Exact::disc());
        let mut draws = Vec::new();
        sampler.draw_many(20, &mut rng, &mut draws).unwrap();
        draws
    };
    assert_eq!(draws(3), draws(3));
    assert_ne!(draws(3), draws(4));

    let contexts = [(ids("1"), vec![1.0, 0.0, 0.0]), (ids("10"), vec![0.0, 0.0, 1.0])];
    let model = TableModel::new(["0", "1"], vec![0.0, 1.0, 0.0], contexts).unwrap();
    let prompted = task(&model, &outputs(["0", "1"], 3)).after(ids("1"));
    assert_eq!(Sampling::new(prompted, PATIENT).draw(&mut rng(1)).unwrap().tokens, ids("0"));
}

#[test]
fn forced_tokens_share_a_pass() {
    let model = TableModel::new(["0", "1"], vec![0.4, 0.4, 0.2], []).unwrap();
    let mut masked = Sampling::new(task(&model, &outputs(["010101"], 3)), Masked::new());
    let draw = masked.draw(&mut rng(1)).unwrap();
    // The empty prefix, then the six that it forces; known prefixes cost nothing.
    assert_eq!((draw.cost.positions, draw.cost.passes), (7, 2));
    assert_eq!(masked.draw(&mut rng(1)).unwrap().cost.positions, 0);
    assert!((draw.log_prob - (0.4_f64.powi(6) * 0.2).ln()).abs() < 1e-4);
}

#[test]
fn the_length_limit_cuts_masked_outputs_and_is_part_of_the_exact_distribution() {
    let (model, constraint) = skewed();
    let short = |max_tokens| Task { max_tokens, ..task(&model, &constraint) };
    let draw = Sampling::new(short(3), Masked::new()).draw(&mut rng(1)).unwrap();
    assert_eq!((draw.finish, draw.tokens.len()), (Finish::Length, 3));
    assert!((draw.log_prob - 3.0 * 0.45_f64.ln()).abs() < 1e-4);

    // Without learning, the sampler cannot know that all tries fail in the same way.
    let fresh = Exact::disc_published(50).with_particles(16);
    let error = Sampling::new(short(3), fresh).draw(&mut rng(1)).unwrap_err();
    assert_eq!(error, SampleError::NoOutput { tries: 66, max_tokens: 3 });
    let error = Sampling::new(short(3), Exact::disc()).draw(&mut rng(1)).unwrap_err();
    assert_eq!(error, SampleError::Impossible { max_tokens: 3 });
    let error = Sampling::new(short(3), Exact::rejection(20)).draw(&mut rng(1)).unwrap_err();
    assert!(error.to_string().starts_with("no output in 20 tries"), "{error}");
}

#[test]
fn what_the_model_cannot_write_is_a_dead_end() {
    let contexts = [(ids("0"), vec![0.0, 0.5, 0.5])];
    let model = TableModel::new(["0", "1"], vec![0.5, 0.25, 0.25], contexts).unwrap();
    let error =
        Sampling::new(task(&model, &outputs(["00"], 3)), Masked::new()).draw(&mut rng(1)).unwrap_err();
    assert_eq!(error, SampleError::DeadEnd { tokens: ids("0") });
    let error =
        Sampling::new(task(&model, &outputs(["00"], 3)), Exact::disc()).draw(&mut rng(1)).unwrap_err();
    assert_eq!(error, SampleError::Impossible { max_tokens: 8 });
}

/// A model whose logits are not numbers.
struct Broken;

impl LanguageModel for Broken {
    type Sequence = ();
    type Error = std::convert::Infallible;

    fn vocab_len(&self) -> usize {
        3
    }
    fn context_len(&self) -> Option<usize> {
        None
    }
    fn start(&mut self) {}
    fn len(&self, (): &()) -> usize {
        0
    }
    fn fork(&mut self, (): &()) {}
    fn truncate(&mut self, (): &mut (), _len: usize) {}
    fn extend(&mut self, _batch: &mut [Extension<'_, ()>], logits: &mut Logits) -> Result<(), Self::Error> {
        logits.reset(1, 3).fill(f32::NAN);
        Ok(())
    }
}

#[test]
fn logits_that_are_no_numbers_are_an_error() {
    let vocabulary = TableModel::uniform(["0", "1"]).vocabulary().clone();
    let task = Task::new(Broken, outputs(["0", "1"], 3), &vocabulary, 4);
    let error = Sampling::new(task, Masked::new()).draw(&mut rng(1)).unwrap_err();
    assert_eq!(error, SampleError::NotADistribution { tokens: 0 });
}
