//! Samplers that learn, weigh, chain and search, against distributions by enumeration.

use std::collections::{BTreeMap, HashMap};

use crate::support::exact::Distribution;
use crate::support::{Outputs, distribution, ids, outputs, random_task, rng, task};
use unskew_core::{
    Draw, Finish, Origin, Sampler, TableModel, TableModelError, TokenId,
    conformance::{check_sampler, chi_square},
};
use unskew_samplers::{
    Asap, Awrs, Beam, Cut, Exact, Greedy, Imh, Masked, Mcmc, SampleError, Sampling, Smc, Task,
};

type Boxed = Box<dyn Sampler<Error = SampleError<TableModelError>>>;

const TRIES: u64 = 1_000_000;

/// The samplers whose distribution is exact, made anew.
fn exact_samplers(task: &dyn Fn() -> Task<TableModel, Outputs>) -> Vec<(&'static str, Boxed)> {
    vec![
        ("rsft", Box::new(Sampling::new(task(), Exact::rsft(TRIES)))),
        ("ars", Box::new(Sampling::new(task(), Exact::ars(TRIES)))),
        ("ars, batches of 3", Box::new(Sampling::new(Task { batch: 3, ..task() }, Exact::ars(TRIES)))),
        ("cars", Box::new(Sampling::new(task(), Exact::cars(TRIES)))),
        ("cars, batches of 5", Box::new(Sampling::new(Task { batch: 5, ..task() }, Exact::cars(TRIES)))),
        (
            "cars, little memory",
            Box::new(Sampling::new(Task { max_bytes: 2_000, ..task() }, Exact::cars(TRIES))),
        ),
    ]
}

/// The forms of DISC, with more tries than any task takes: learned, published, and reusing.
fn disc_forms() -> [Exact; 3] {
    [
        Exact::disc().with_budget(1e9).with_particles(1),
        Exact::disc_published(TRIES).with_particles(1),
        Exact::disc_reusing(TRIES),
    ]
}

pub(crate) fn deviation(counts: &HashMap<Vec<TokenId>, u64>, distribution: &Distribution) -> f64 {
    assert!(
        counts.keys().all(|output| distribution.get(output).is_some_and(|p| *p > 0.0)),
        "{counts:?} {distribution:?}"
    );
    chi_square(distribution.iter().map(|(output, p)| (counts.get(output).copied().unwrap_or(0), *p)))
        .deviation
}

/// The tasks of the papers: (GAD, example 2) and (DISC, theorem 2.1), and random ones.
fn tasks(random: u64) -> Vec<(TableModel, Outputs)> {
    let ones = (0..16).map(|tail| format!("1{tail:04b}")).collect::<Vec<_>>();
    let skewed = outputs(ones.iter().map(String::as_str).chain(["00000"]), 3);
    let likes_zero = TableModel::new(["0", "1"], vec![0.45, 0.45, 0.10], []).unwrap();
    let contexts =
        [(ids(""), vec![0.1, 0.9, 0.0]), (ids("0"), vec![0.5, 0.5, 0.0]), (ids("1"), vec![0.3, 0.7, 0.0])];
    let biased = TableModel::new(["0", "1"], vec![0.0, 0.0, 1.0], contexts).unwrap();
    let published = [(likes_zero, skewed), (biased, outputs(["00", "01", "10"], 3))];
    published.into_iter().chain((0..random).map(random_task)).collect()
}

#[test]
fn exact_samplers_follow_the_distribution() {
    let mut tested = 0;
    for (index, (model, constraint)) in tasks(32).into_iter().enumerate() {
        let Some(distribution) = distribution(&model, &constraint) else { continue };
        tested += 1;
        for (name, mut sampler) in exact_samplers(&|| task(&model, &constraint)) {
            if let Err(error) = check_sampler(&mut sampler, &distribution, 1_500, &mut rng(index as u64)) {
                panic!("task {index}, {name}: {error}");
            }
        }
    }
    assert!(tested >= 30, "{tested}");
}

/// The distribution of outputs whose tokens are all among the `top` most probable ones of their step. At a step where
/// none of these is allowed, every allowed token is a candidate.
fn distribution_among(model: &TableModel, constraint: &Outputs, top: usize) -> Distribution {
    let (mut outputs, mut open) = (Distribution::new(), vec![(Vec::new(), 1.0)]);
    while let Some((prefix, probability)) = open.pop() {
        let row = model.row(&prefix);
        let mut order: Vec<usize> = (0..row.len() - 1).filter(|id| row[*id] > 0.0).collect();
        order.sort_by(|left, right| row[*right].total_cmp(&row[*left]).then(left.cmp(right)));
        order.truncate(top);
        let next = crate::support::exact::masked(model, constraint, &prefix);
        let is_among = |token: &TokenId| order.contains(&token.index());
        let some = next.iter().filter_map(|(token, _)| token.as_ref()).any(is_among);
        for (token, p) in next {
            match token {
                None if p > 0.0 => _ = outputs.insert(prefix.clone(), probability * p),
                Some(token) if p > 0.0 && (!some || is_among(&token)) => {
                    open.push(([&prefix[..], &[token]].concat(), probability * p));
                }
                _ => {}
            }
        }
    }
    let sum: f64 = outputs.values().sum();
    outputs.values_mut().for_each(|p| *p /= sum);
    outputs
}

#[test]
fn disc_among_few_candidates_has_the_distribution_of_outputs_made_of_them() {
    let (mut tested, mut others) = (0, 0);
    for (index, (model, constraint)) in tasks(12).into_iter().enumerate() {
        let all = distribution_among(&model, &constraint, usize::MAX);
        if all.is_empty() {
            continue;
        }
        let [learned, fresh, reusing] = disc_forms();
        for (top, form) in [(1, fresh), (2, learned), (2, reusing), (100, fresh)] {
            let distribution = distribution_among(&model, &constraint, top);
            if distribution.is_empty() {
                // The model can end no output that begins with its first tokens.
                continue;
            }
            let mut sampler = Sampling::new(task(&model, &constraint).among(top), form);
            let mut counts: HashMap<Vec<TokenId>, u64> = HashMap::new();
            let mut draws = Vec::new();
            sampler.draw_many(400, &mut rng(index as u64), &mut draws).unwrap();
            draws.into_iter().for_each(|draw| *counts.entry(draw.tokens).or_default() += 1);
            assert!(
                deviation(&counts, &distribution) < 4.5,
                "task {index}, {form:?} among {top}: {counts:?} {distribution:?}"
            );
            tested += 1;
            others += u32::from(distribution.keys().ne(all.keys()));
        }
    }
    assert!(tested > 30 && others > 5, "{tested}, {others}");
}

/// The long form: a million draws of each sampler, some minutes.
#[cfg(not(debug_assertions))]
#[test]
fn a_million_draws_follow_the_distribution() {
    for (index, (model, constraint)) in tasks(0).into_iter().enumerate() {
        let Some(distribution) = distribution(&model, &constraint) else { continue };
        let of_form = |form: Exact| Box::new(Sampling::new(task(&model, &constraint), form)) as Boxed;
        let [learned, fresh, reusing] = disc_forms();
        let more = [
            (
                "rejection",
                Box::new(Sampling::new(task(&model, &constraint), Exact::rejection(10_000_000))) as Boxed,
            ),
            ("disc, learned", of_form(learned)),
            ("disc, fresh", of_form(fresh)),
            ("disc, reuse", of_form(reusing)),
        ];
        for (name, mut sampler) in exact_samplers(&|| task(&model, &constraint)).into_iter().chain(more) {
            // Without memory, all rows are computed again.
            let draws = if name.contains("memory") { 20_000 } else { 1_000_000 };
            let fit = check_sampler(&mut sampler, &distribution, draws, &mut rng(100 + index as u64));
            println!("task {index}, {name}: {fit:?}");
            assert!(fit.is_ok(), "task {index}, {name}: {fit:?}");
        }
    }
}

/// Learning must not show in the distribution: the first and the third output of many new samplers.
#[test]
fn learning_changes_no_exact_distribution() {
    for (model, constraint) in tasks(0) {
        let distribution: Distribution = distribution(&model, &constraint)
            .unwrap()
            .iter()
            .map(|(output, p)| (output.to_vec(), p))
            .collect();
        let names = exact_samplers(&|| task(&model, &constraint)).len();
        for which in 1..names {
            let mut counts: [HashMap<Vec<TokenId>, u64>; 3] = Default::default();
            let mut name = "";
            for session in 0..1_500 {
                let mut samplers = exact_samplers(&|| task(&model, &constraint));
                let (this, mut sampler) = samplers.swap_remove(which);
                name = this;
                let mut draws = Vec::new();
                sampler.draw_many(3, &mut rng(session), &mut draws).unwrap();
                for (counts, draw) in counts.iter_mut().zip(draws) {
                    assert_eq!((draw.origin, draw.finish), (Origin::Accepted, Finish::Stop));
                    *counts.entry(draw.tokens).or_default() += 1;
                }
            }
            for index in [0, 2] {
                let deviation = deviation(&counts[index], &distribution);
                assert!(deviation < 4.0, "{name}, output {index}: {deviation}");
            }
        }
    }
}

#[test]
fn learning_lowers_the_number_of_tries() {
    let (model, constraint) = tasks(0).swap_remove(0);
    let tries = |sampler: &mut dyn Sampler<Error = SampleError<TableModelError>>| {
        let mut rng = rng(4);
        (0..200).map(|_| sampler.draw(&mut rng).unwrap().cost.proposals).sum::<u64>()
    };
    let rejection = tries(&mut Sampling::new(task(&model, &constraint), Exact::rejection(TRIES)));
    let rsft = tries(&mut Sampling::new(task(&model, &constraint), Exact::rsft(TRIES)));
    let mut ars = Sampling::new(task(&model, &constraint), Exact::ars(TRIES));
    let mut cars = Sampling::new(task(&model, &constraint), Exact::cars(TRIES));
    let (of_ars, of_cars) = (tries(&mut ars), tries(&mut cars));
    assert!(rejection > rsft && rsft > of_ars && of_ars > of_cars, "{rejection} {rsft} {of_ars} {of_cars}");
    let mass = distribution(&model, &constraint).unwrap().mass().ln();
    assert!(mass <= cars.log_bound() + 1e-6 && cars.log_bound() <= ars.log_bound(), "{}", cars.log_bound());
    let usage = cars.usage();
    assert!(usage.prefixes > 20 && usage.trie_bytes < 140 * usage.prefixes);
}

#[test]
fn asap_follows_its_distribution_at_each_iteration() {
    let mut dead_ends = 0;
    let small = tasks(60).into_iter().filter(|(_, constraint)| constraint.outputs.len() <= 6);
    let mut tested = 0;
    for (model, constraint) in small {
        if distribution(&model, &constraint).is_none() {
            continue;
        }
        tested += 1;
        let distributions: Vec<Distribution> =
            (0..3).map(|iteration| crate::support::exact::asap(&model, &constraint, iteration)).collect();
        let mut counts: [HashMap<Vec<TokenId>, u64>; 3] = Default::default();
        for session in 0..2_000 {
            let mut rng = rng(session);
            let mut asap = Sampling::new(task(&model, &constraint), Asap::new(TRIES));
            for counts in &mut counts {
                let draw = asap.draw(&mut rng).unwrap();
                dead_ends += draw.cost.proposals - 1;
                *counts.entry(draw.tokens).or_default() += 1;
            }
        }
        for (iteration, (counts, distribution)) in counts.iter().zip(&distributions).enumerate() {
            assert!((distribution.values().sum::<f64>() - 1.0).abs() < 1e-9);
            let deviation = deviation(counts, distribution);
            assert!(deviation < 4.0, "iteration {iteration}: {deviation} on {constraint:?}");
        }
        if tested == 10 {
            break;
        }
    }
    assert!(tested == 10 && dead_ends > 100, "{tested} {dead_ends}");
}

#[test]
fn asap_tends_to_the_distribution_and_masked_sampling_does_not() {
    let (model, constraint) = tasks(0).swap_remove(0);
    let distribution = distribution(&model, &constraint).unwrap();
    let share = |sampler: &mut dyn Sampler<Error = SampleError<TableModelError>>| {
        let mut rng = rng(9);
        let count = (0..4_000).filter(|_| sampler.draw(&mut rng).unwrap().tokens == ids("00000")).count();
        f64::from(u32::try_from(count).unwrap()) / 4_000.0
    };
    let mut asap = Sampling::new(task(&model, &constraint), Asap::new(TRIES));
    asap.warm_up(500, &mut rng(3)).unwrap();
    assert!((share(&mut asap) - distribution.probability(&ids("00000"))).abs() < 0.015);
    assert!((share(&mut Sampling::new(task(&model, &constraint), Masked::new())) - 0.5).abs() < 0.03);
}

/// Weighted draws. For each output, the mean over tries of the weight of those that gave this output is its
/// probability under the model. The mean of all weights is P(L).
fn check_weights(
    name: &str,
    sampler: &mut dyn Sampler<Error = SampleError<TableModelError>>,
    distribution: &Distribution,
    each: u64,
) {
    const DRAWS: u32 = if cfg!(debug_assertions) { 2_000 } else { 6_000 };
    let mut rng = rng(11);
    // The sum and the sum of squares of the weights of each output.
    let mut sums: BTreeMap<Vec<TokenId>, (f64, f64)> = BTreeMap::new();
    let mut tries = 0;
    for _ in 0..DRAWS {
        let draw = sampler.draw(&mut rng).unwrap();
        tries += draw.cost.proposals / each;
        // An output that is cut off at the limit does not count.
        if draw.finish == Finish::Length {
            continue;
        }
        let sum = sums.entry(draw.tokens).or_default();
        sum.0 += draw.log_weight.exp();
        sum.1 += (2.0 * draw.log_weight).exp();
    }
    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    let tries = tries as f64;
    let check = |what: &str, (sum, squares): (f64, f64), exact: f64| {
        let mean = sum / tries;
        let sigma = ((squares / tries - mean * mean).max(0.0) / tries).sqrt();
        assert!((mean - exact).abs() < 4.5 * sigma + 1e-6, "{name}, {what}: {mean} +- {sigma}, not {exact}");
    };
    let all = sums.values().fold((0.0, 0.0), |all, sum| (all.0 + sum.0, all.1 + sum.1));
    check("all", all, distribution.values().sum());
    for (output, probability) in distribution {
        // For small expected counts the normal distribution is no approximation.
        if probability * tries > 100.0 {
            check(&format!("{output:?}"), sums.get(output).copied().unwrap_or_default(), *probability);
        }
    }
}

#[test]
fn weights_stand_for_the_model() {
    for (model, constraint) in tasks(9) {
        let Some(exact) = distribution(&model, &constraint) else { continue };
        let distribution: Distribution =
            exact.iter().map(|(output, p)| (output.to_vec(), p * exact.mass())).collect();
        let task = || task(&model, &constraint);
        let smc = |particles, threshold, twisted| {
            Sampling::new(task(), Smc { particles, threshold, twisted, ..Smc::default() })
        };
        check_weights("awrs", &mut Sampling::new(task(), Awrs::new(1_000)), &distribution, 1);
        check_weights("smc, one particle", &mut smc(1, 0.5, false), &distribution, 1);
        check_weights("smc, never resampled", &mut smc(4, 0.0, false), &distribution, 4);
        check_weights("smc", &mut smc(5, 0.5, false), &distribution, 5);
        check_weights("smc, always resampled", &mut smc(3, 1.1, false), &distribution, 3);
        check_weights("smc, twisted", &mut smc(4, 0.7, true), &distribution, 4);
    }
}

#[test]
fn awrs_is_masked_sampling() {
    for (index, (model, constraint)) in tasks(12).into_iter().enumerate() {
        // Only tasks without dead ends.
        let distribution = crate::support::exact::asap(&model, &constraint, 0);
        let complete = distribution
            .keys()
            .map(|output| crate::support::exact::steps(&model, &constraint, output).1.iter().product::<f64>())
            .sum::<f64>();
        if (complete - 1.0).abs() > 1e-9 {
            continue;
        }
        let mut counts = HashMap::new();
        let mut sampler = Sampling::new(task(&model, &constraint), Awrs::new(1));
        let mut rng = rng(1);
        for _ in 0..3_000 {
            *counts.entry(sampler.draw(&mut rng).unwrap().tokens).or_default() += 1;
        }
        assert!(deviation(&counts, &distribution) < 4.0, "task {index}");
    }
}

/// The chain's distribution after `k` steps, by its definition: the matrix of all moves, applied `k` times to the
/// distribution of masked sampling.
fn chained(model: &TableModel, constraint: &Outputs, cut: Cut, k: u64) -> Distribution {
    let states: Vec<_> = constraint
        .outputs
        .iter()
        .map(|output| (output.clone(), crate::support::exact::steps(model, constraint, output)))
        .filter(|(_, (probability, ..))| *probability > 0.0)
        .collect();
    let first: f64 = states.iter().map(|(_, (_, proposed, _))| proposed.iter().product::<f64>()).sum();
    let mut distribution: Vec<f64> =
        states.iter().map(|(_, (_, proposed, _))| proposed.iter().product::<f64>() / first).collect();
    let cuts = |entropies: &[f64]| -> Vec<f64> {
        let many = f64::from(u32::try_from(entropies.len()).unwrap());
        let total: f64 = entropies.iter().sum();
        let at = |index: usize| match cut {
            Cut::Prefix => 1.0 / many,
            Cut::Priority if total > 0.0 => entropies[index] / total,
            Cut::Priority | Cut::Restart => f64::from(u8::from(index == 0)),
        };
        (0..entropies.len()).map(at).collect()
    };
    let moves = |from: usize, to: usize| -> f64 {
        let (left, (_, _, entropies)) = &states[from];
        let (right, (_, proposed, _)) = &states[to];
        cuts(entropies)
            .iter()
            .enumerate()
            .filter(|(at, _)| left.len() >= *at && right.len() >= *at && left[..*at] == right[..*at])
            .map(|(at, probability)| probability * proposed[at..].iter().product::<f64>())
            .sum()
    };
    for _ in 0..k {
        let mut next = vec![0.0; states.len()];
        for (from, mass) in distribution.iter().enumerate() {
            let mut stays = 1.0;
            for to in (0..states.len()).filter(|to| *to != from) {
                let (there, back) = (moves(from, to), moves(to, from));
                let (here, other) = (states[from].1.0, states[to].1.0);
                let accepted = there * (other * back / (here * there).max(f64::MIN_POSITIVE)).min(1.0);
                next[to] += mass * accepted;
                stays -= accepted;
            }
            next[from] += mass * stays;
        }
        distribution = next;
    }
    states.into_iter().map(|(output, _)| output).zip(distribution).collect()
}

#[test]
fn chains_follow_their_distribution_and_tend_to_the_target() {
    for (model, constraint) in tasks(10) {
        let Some(target) = distribution(&model, &constraint) else { continue };
        for cut in [Cut::Prefix, Cut::Priority, Cut::Restart] {
            for k in [0, 1, 3] {
                let distribution = chained(&model, &constraint, cut, k);
                let mut counts = HashMap::new();
                let mut sampler = Sampling::new(task(&model, &constraint), Mcmc::new(k, cut, 10_000));
                let mut draws = Vec::new();
                sampler.draw_many(2_000, &mut rng(k), &mut draws).unwrap();
                for draw in draws {
                    assert_eq!(draw.origin, Origin::Chained);
                    *counts.entry(draw.tokens).or_default() += 1;
                }
                let deviation = deviation(&counts, &distribution);
                assert!(deviation < 4.0, "{cut:?}, {k} steps: {deviation} on {constraint:?}");
            }
            let late = chained(&model, &constraint, cut, 300);
            for (output, probability) in target.iter() {
                assert!((late[output] - probability).abs() < 0.05, "{cut:?} {output:?}");
            }
        }
    }
}

#[test]
fn searches_find_what_enumeration_finds() {
    for (index, (model, constraint)) in tasks(30).into_iter().enumerate() {
        let Some(distribution) = distribution(&model, &constraint) else { continue };
        let mut all: Vec<(f64, Vec<TokenId>)> = distribution
            .iter()
            .map(|(output, p)| ((p * distribution.mass()).ln(), output.to_vec()))
            .collect();
        all.sort_by(|left, right| right.0.total_cmp(&left.0));
        let search = |beams| {
            let mut found = Vec::new();
            let mut sampler = Sampling::new(task(&model, &constraint), Beam::new(beams).all());
            sampler.draw_many(usize::MAX, &mut rng(1), &mut found).map(|()| found)
        };
        let found = search(200).unwrap();
        assert_eq!(found.len(), all.len(), "task {index}");
        for (draw, (log_prob, _)) in found.iter().zip(&all) {
            assert!((draw.log_prob - log_prob).abs() < 1e-4);
            assert!(
                (distribution.probability(&draw.tokens) * distribution.mass()).ln() - draw.log_prob < 1e-4
            );
            assert_eq!((draw.finish, draw.origin), (Finish::Stop, Origin::Searched));
        }
        // A narrow beam may find less probable outputs, and states their probabilities correctly.
        if let Ok(narrow) = search(2) {
            assert!(narrow.len() <= 2 && narrow[0].log_prob <= all[0].0 + 1e-4);
        }

        let greedy = Sampling::new(task(&model, &constraint), Greedy).draw(&mut rng(0));
        let mut prefix = Vec::new();
        let expected = loop {
            let next = crate::support::exact::masked(&model, &constraint, &prefix);
            // The end comes first, then the lower id.
            let best =
                next.into_iter().fold((None, 0.0), |best, next| if next.1 > best.1 { next } else { best });
            match best {
                (_, 0.0) => break None,
                (None, _) => break Some(prefix),
                (Some(token), _) => prefix.push(token),
            }
        };
        assert_eq!(greedy.ok().map(|draw| draw.tokens), expected, "task {index}");
    }
}

/// Every sampler by name, made anew over the same task.
fn all_samplers(task: &dyn Fn() -> Task<TableModel, Outputs>) -> Vec<(&'static str, Boxed)> {
    let disc = Exact::disc().with_budget(1e6);
    let mut samplers = exact_samplers(task);
    samplers.retain(|(name, _)| ["rsft", "ars", "cars"].contains(name));
    samplers.extend([
        ("masked", Box::new(Sampling::new(task(), Masked::new())) as Boxed),
        ("rejection", Box::new(Sampling::new(task(), Exact::rejection(TRIES)))),
        ("disc, learned", Box::new(Sampling::new(task(), disc))),
        ("disc, fresh", Box::new(Sampling::new(task(), Exact::disc_published(2).with_particles(16)))),
        ("disc, reuse", Box::new(Sampling::new(task(), Exact::disc_reusing(2)))),
        ("asap", Box::new(Sampling::new(task(), Asap::new(TRIES)))),
        ("awrs", Box::new(Sampling::new(task(), Awrs::new(TRIES)))),
        ("mcmc", Box::new(Sampling::new(task(), Mcmc::new(3, Cut::Priority, 1_000)))),
        ("imh", Box::new(Sampling::new(task(), Imh::new(3, 1_000)))),
        ("smc", Box::new(Sampling::new(task(), Smc::default()))),
        ("greedy", Box::new(Sampling::new(task(), Greedy))),
        ("beam", Box::new(Sampling::new(task(), Beam::new(3)))),
    ]);
    samplers
}

#[test]
fn outputs_do_not_depend_on_how_many_step_together() {
    for (index, (model, constraint)) in tasks(8).into_iter().enumerate() {
        if distribution(&model, &constraint).is_none() {
            continue;
        }
        let with = |batch| all_samplers(&|| Task { batch, ..task(&model, &constraint) });
        let columns = with(1).into_iter().zip(with(1)).zip(with(3)).zip(with(16));
        for ((((name, mut one), (_, mut again)), (_, mut three)), (_, mut sixteen)) in columns {
            let seed = index as u64;
            let of = |draws: Vec<Draw>| {
                draws.into_iter().map(|draw| (draw.tokens, draw.log_weight)).collect::<Vec<_>>()
            };
            // One by one, in uneven parts, and all at once.
            let mut rng_one = rng(seed);
            let single: Result<Vec<_>, _> = (0..24).map(|_| one.draw(&mut rng_one)).collect();
            let in_parts = |sampler: &mut Boxed| {
                let (mut parts, mut rng) = (Vec::new(), rng(seed));
                let drawn: Result<(), _> = [1, 7, 16]
                    .into_iter()
                    .try_for_each(|count| sampler.draw_many(count, &mut rng, &mut parts));
                drawn.map(|()| of(parts))
            };
            let (alone, parts) = (in_parts(&mut again), in_parts(&mut three));
            let mut all = Vec::new();
            let at_once = sixteen.draw_many(24, &mut rng(seed), &mut all);
            let Ok(single) = single else {
                assert!(alone.is_err() && parts.is_err() && at_once.is_err(), "{name}");
                continue;
            };
            let single = of(single);
            assert_eq!(single, alone.unwrap(), "{name}, task {index}");
            // Under these policies a rollout learns from those that have ended, so the number of rollouts under way
            // matters.
            if !["ars", "cars", "asap", "disc, learned", "imh"].contains(&name) {
                assert_eq!(single, parts.unwrap(), "{name}, task {index}");
                assert_eq!(single, of(all), "{name}, task {index}");
            }
        }
    }
}

#[test]
fn draws_that_step_together_share_passes() {
    let (model, constraint) = tasks(0).swap_remove(0);
    let cost = |batch| {
        let mut masked =
            Sampling::new(Task { batch, max_bytes: 0, ..task(&model, &constraint) }, Masked::new());
        let mut draws = Vec::new();
        masked.draw_many(64, &mut rng(1), &mut draws).unwrap();
        let sum = |of: fn(&Draw) -> u64| draws.iter().map(of).sum::<u64>();
        (sum(|draw| draw.cost.positions), sum(|draw| draw.cost.passes))
    };
    let (one, many) = (cost(1), cost(16));
    // No row is kept between draws here, but rollouts at the same prefix at the same time compute its row once.
    assert!(many.0 < one.0 && many.1 * 10 < one.1, "{one:?} {many:?}");
}

#[test]
fn what_was_learned_can_be_saved_and_gone_on_with() {
    for (index, (model, constraint)) in tasks(12).into_iter().enumerate() {
        if distribution(&model, &constraint).is_none() {
            continue;
        }
        macro_rules! check {
            ($new:expr) => {{
                let mut first = $new;
                let mut stream = rng(index as u64);
                for _ in 0..15 {
                    first.draw(&mut stream).unwrap();
                }
                let bytes = first.save("table 1");
                let mut second = $new;
                second.load("table 1", &bytes).unwrap();
                assert_eq!(first.log_bound(), second.log_bound());
                let mut copy = stream.clone();
                for _ in 0..60 {
                    let (left, right) = (first.draw(&mut stream).unwrap(), second.draw(&mut copy).unwrap());
                    assert_eq!((left.tokens, left.cost.proposals), (right.tokens, right.cost.proposals));
                }
                assert!($new.load("table 2", &bytes).is_err());
                let other = Task { max_tokens: 7, ..task(&model, &constraint) };
                assert!(Sampling::new(other, Exact::cars(TRIES)).load("table 1", &bytes).is_err());
            }};
        }
        check!(Sampling::new(task(&model, &constraint), Exact::cars(TRIES)));
        check!(Sampling::new(task(&model, &constraint), Asap::new(TRIES)));
        check!(Sampling::new(task(&model, &constraint), Exact::ars(TRIES)));
        check!(Sampling::new(task(&model, &constraint), Exact::disc().with_budget(1e6)));
    }
}
