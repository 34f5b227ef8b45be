//! The optimum of mentored decoding against its definition: constraints, conditions of optimality, slow searches.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use unskew_samplers::speculative::{
    Divergence, KullbackLeibler, Optimum, Pair, ReverseKullbackLeibler, Selection, TotalVariation, optimum,
};

fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    f64::from(rng.next_u32()) / 4_294_967_296.0
}

fn normalized(mut weights: Vec<f64>) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
    weights
}

/// Weights of one of several kinds: even, peaked, of few values (ties), with zeros.
fn weights(rng: &mut ChaCha8Rng, len: usize) -> Vec<f64> {
    let kind = rng.next_u32() % 6;
    let mut weights: Vec<f64> = (0..len)
        .map(|_| match kind {
            0 => uniform(rng),
            1 => uniform(rng).powi(8),
            2 => f64::from(rng.next_u32() % 4),
            3 => -uniform(rng).max(1e-12).ln(),
            4 => (20.0 * (uniform(rng) - 0.5)).exp(),
            _ => f64::from(u8::from(rng.next_u32().is_multiple_of(3))) * uniform(rng),
        })
        .collect();
    let sure = rng.next_u32() as usize % len;
    weights[sure] += 0.1;
    weights
}

/// A pair whose parts are independent, or near each other, or equal; and a budget.
fn case(rng: &mut ChaCha8Rng, len: usize) -> (Vec<f64>, Vec<f64>, f64) {
    let target = normalized(weights(rng, len));
    let other = normalized(weights(rng, len));
    let draft = match rng.next_u32() % 8 {
        0..4 => other,
        4..6 => normalized(target.iter().zip(&other).map(|(q, p)| q + p).collect()),
        6 => normalized(target.iter().zip(&other).map(|(q, p)| q + 0.01 * p).collect()),
        _ => target.clone(),
    };
    let budget = match rng.next_u32() % 8 {
        0 => 0.0,
        1 => f64::INFINITY,
        2 => 1e-12,
        3 => 20.0 * uniform(rng),
        _ => uniform(rng).powi(2),
    };
    (draft, target, budget)
}

/// The divergence of a distribution, by definition.
fn divergence(f: &dyn Divergence, target: &[f64], distribution: &[f64]) -> f64 {
    let terms =
        target.iter().zip(distribution).map(|(q, pi)| if *q > 0.0 { q * f.value(pi / q) } else { 0.0 });
    terms.sum()
}

fn distribution(optimum: &Optimum, draft: &[f64], target: &[f64]) -> Vec<f64> {
    draft.iter().zip(target).map(|(p, q)| optimum.distribution(*p, *q)).collect()
}

/// The properties of any answer: it is a distribution, without forbidden outcomes, within the budget, and its parts
/// agree.
fn check(f: &dyn Divergence, draft: &[f64], target: &[f64], budget: f64, optimum: &Optimum) {
    let context = || format!("{f:?}: p {draft:?}\nq {target:?}\nD {budget} {optimum:?}");
    let distribution = distribution(optimum, draft, target);
    let sum: f64 = distribution.iter().sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum} {}", context());
    let spent = divergence(f, target, &distribution);
    assert!(spent <= budget + 1e-9, "{spent} {}", context());
    let stated = optimum.divergence();
    assert!(
        (spent - stated).abs() < 1e-9 || spent.is_infinite() && stated.is_infinite(),
        "{spent} {}",
        context()
    );
    if optimum.is_binding() {
        assert!((spent - budget).abs() < 1e-9, "{spent} {}", context());
    }
    let overlap: f64 = draft.iter().zip(&distribution).map(|(p, pi)| p.min(*pi)).sum();
    assert!((overlap - (1.0 - optimum.rejection())).abs() < 1e-9, "{overlap} {}", context());
    let mut residuals = 0.0;
    for ((p, q), pi) in draft.iter().zip(target).zip(&distribution) {
        let (accepts, residual) = (optimum.accepts(*p, *q), optimum.residual(*p, *q));
        assert!((0.0..=1.0).contains(&accepts) && residual >= 0.0, "{}", context());
        assert!(*q > 0.0 || (*pi == 0.0 && accepts == 0.0 && residual == 0.0), "{}", context());
        assert!(residual == 0.0 || accepts == 1.0, "{}", context());
        let emitted = if *p > 0.0 { p * accepts } else { 0.0 } + residual;
        assert!((emitted - pi).abs() < 1e-12, "{}", context());
        residuals += residual;
    }
    assert!((residuals - optimum.rejection()).abs() < 1e-9, "{}", context());
}

/// The conditions of Karush, Kuhn and Tucker: with `lambda` and `mu` the prices of divergence and of probability, no
/// outcome gains by more or by less probability. The problem is convex: the conditions suffice.
fn check_prices(f: &dyn Divergence, draft: &[f64], target: &[f64], optimum: &Optimum) {
    let distribution = distribution(optimum, draft, target);
    // The gain by less probability where the distribution takes from the draft, by more where it gives. Equal levels
    // leave no price of divergence.
    let (cap, floor) = (optimum.alpha().recip(), optimum.beta().recip());
    let spread = f.slope(cap) - f.slope(floor);
    if !optimum.is_binding() || spread.is_nan() || spread < 1e-6 || spread.is_infinite() {
        return;
    }
    let lambda = 1.0 / spread;
    let mu = -lambda * f.slope(floor);
    for ((p, q), pi) in draft.iter().zip(target).zip(&distribution).filter(|((_, q), _)| **q > 0.0) {
        let falls = -lambda * f.slope(pi / q) - mu;
        let slack = 1e-6 * (1.0 + mu.abs());
        if (pi - p).abs() <= 1e-12 * p {
            assert!(
                (-1.0 - slack..=slack).contains(&falls),
                "{f:?} p {p} q {q} pi {pi}: {falls} {optimum:?}"
            );
        } else {
            let expected = if pi < p { -1.0 } else { 0.0 };
            assert!((falls - expected).abs() < slack, "{f:?} p {p} q {q} pi {pi}: {falls} {optimum:?}");
        }
    }
}

/// The distribution that rejects with probability `rejected`, by bisection of each level over the sums of the
/// definition.
fn clamp(draft: &[f64], target: &[f64], rejected: f64) -> Vec<f64> {
    let both = || draft.iter().zip(target);
    let taken = |cap: f64| both().map(|(p, q)| (p - q * cap).max(0.0)).sum::<f64>();
    let given = |floor: f64| both().map(|(p, q)| (q * floor - p).max(0.0)).sum::<f64>();
    let bisect = |mut low: f64, mut high: f64, is_low: &dyn Fn(f64) -> bool| {
        for _ in 0..200 {
            let middle = f64::midpoint(low, high);
            if is_low(middle) { low = middle } else { high = middle }
        }
        low
    };
    // 1 / alpha up to e^60, in logarithms.
    let cap = bisect(0.0, 60.0, &|log| taken(log.exp()) > rejected).exp();
    let floor = bisect(0.0, 1.0, &|floor| given(floor) < rejected);
    both().map(|(p, q)| if *q > 0.0 { p.max(q * floor).min(q * cap) } else { 0.0 }).collect()
}

/// The least probability of rejection within the budget, by bisection over the distributions above.
fn least_rejection(f: &dyn Divergence, draft: &[f64], target: &[f64], budget: f64) -> f64 {
    let both = || draft.iter().zip(target);
    let forbidden: f64 = both().filter(|(_, q)| **q <= 0.0).map(|(p, _)| p).sum();
    let (mut low, mut high) = (forbidden, both().map(|(p, q)| (p - q).max(0.0)).sum::<f64>());
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if divergence(f, target, &clamp(draft, target, middle)) <= budget {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

#[test]
fn ten_thousand_random_cases_are_distributions_within_their_budgets_and_optimal() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut binding = 0;
    for _ in 0..10_000 {
        let len = 2 + rng.next_u32() as usize % 63;
        let (draft, target, budget) = case(&mut rng, len);
        let pair = Pair::new(&draft, &target).unwrap();
        for f in [&KullbackLeibler as &dyn Divergence, &ReverseKullbackLeibler, &TotalVariation] {
            let optimum = optimum(&pair, f, budget).unwrap();
            check(f, &draft, &target, budget, &optimum);
            check_prices(f, &draft, &target, &optimum);
            binding += u32::from(optimum.is_binding() && budget > 0.0);
        }
    }
    assert!(binding > 5_000, "{binding}");
}

#[test]
fn no_slow_search_finds_better() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for _ in 0..300 {
        let len = 2 + rng.next_u32() as usize % 20;
        let (draft, target, budget) = case(&mut rng, len);
        for f in [&KullbackLeibler as &dyn Divergence, &ReverseKullbackLeibler, &TotalVariation] {
            let optimum = optimum(&Pair::new(&draft, &target).unwrap(), f, budget).unwrap();
            // Where the divergence is as flat as at its zero, 1e-14 of divergence is 1e-7 of probability.
            let least = least_rejection(f, &draft, &target, budget);
            assert!(
                (optimum.rejection() - least).abs() < 1e-6,
                "{f:?} p {draft:?} q {target:?} D {budget}: {least} {optimum:?}"
            );
        }
    }
}

/// Maximises the overlap by moving probability between two outcomes at a time, in ever smaller steps. The search
/// knows nothing of levels.
#[test]
fn no_search_over_distributions_of_up_to_six_outcomes_finds_better() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut moved = 0;
    for _ in 0..400 {
        let len = 2 + rng.next_u32() as usize % 5;
        let (draft, target, budget) = case(&mut rng, len);
        let optimum = optimum(&Pair::new(&draft, &target).unwrap(), &KullbackLeibler, budget).unwrap();
        let overlap =
            |distribution: &[f64]| draft.iter().zip(distribution).map(|(p, pi)| p.min(*pi)).sum::<f64>();
        for start in [target.clone(), distribution(&optimum, &draft, &target)] {
            let mut best = start;
            let mut step = 0.25;
            while step > 1e-9 {
                let mut better = false;
                for (from, to) in (0..len).flat_map(|from| (0..len).map(move |to| (from, to))) {
                    if from == to || best[from] < step || target[to] <= 0.0 {
                        continue;
                    }
                    let mut other = best.clone();
                    other[from] -= step;
                    other[to] += step;
                    let within = divergence(&KullbackLeibler, &target, &other) <= budget;
                    if within && overlap(&other) > overlap(&best) + 1e-12 {
                        best = other;
                        better = true;
                        moved += 1;
                    }
                }
                if !better {
                    step /= 2.0;
                }
            }
            let gain = overlap(&best) - (1.0 - optimum.rejection());
            assert!(gain < 1e-6, "p {draft:?} q {target:?} D {budget}: {best:?} {gain} {optimum:?}");
        }
    }
    assert!(moved > 1_000, "the search never moves");
}

#[test]
fn no_budget_is_speculative_sampling_and_any_budget_accepts_everything_that_is_allowed() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    for _ in 0..1_000 {
        let (draft, target, _) = case(&mut rng, 12);
        let pair = Pair::new(&draft, &target).unwrap();
        let lossless = optimum(&pair, &KullbackLeibler, 0.0).unwrap();
        let overlap: f64 = draft.iter().zip(&target).map(|(p, q)| p.min(*q)).sum();
        assert!((1.0 - lossless.rejection() - overlap).abs() < 1e-12);
        assert_eq!(distribution(&lossless, &draft, &target), target);
        let all = optimum(&pair, &KullbackLeibler, f64::INFINITY).unwrap();
        let forbidden: f64 = draft.iter().zip(&target).filter(|(_, q)| **q <= 0.0).map(|(p, _)| p).sum();
        assert!((all.rejection() - forbidden).abs() < 1e-12 && !all.is_binding());
    }
}

/// The example of the search over alpha that does not end: no alpha has a divergence between 0 and 0.531.
#[test]
fn a_zero_of_the_target_is_never_emitted() {
    let (draft, target) = ([0.4, 0.3, 0.3], [0.0, 0.6, 0.4]);
    let pair = Pair::new(&draft, &target).unwrap();
    for budget in [0.0, 0.1, 0.3, 0.6, f64::INFINITY] {
        let optimum = optimum(&pair, &KullbackLeibler, budget).unwrap();
        assert_eq!(distribution(&optimum, &draft, &target)[0], 0.0);
        // The draft gives 0.4 to the forbidden outcome: this probability must go to the others.
        assert!((optimum.rejection() - 0.4).abs() < 1e-12);
    }
    // A draft that proposes only forbidden outcomes is always rejected, and replaced by the target.
    let pair = Pair::new(&[1.0, 0.0, 0.0], &target).unwrap();
    let optimum = optimum(&pair, &KullbackLeibler, 0.3).unwrap();
    assert!((optimum.rejection() - 1.0).abs() < 1e-12);
    assert_eq!(distribution(&optimum, &[1.0, 0.0, 0.0], &target), target);
}

#[test]
fn budgets_that_are_none_are_errors() {
    let pair = Pair::new(&[1.0], &[1.0]).unwrap();
    for budget in [-1e-9, f64::NAN, f64::NEG_INFINITY] {
        assert!(optimum(&pair, &KullbackLeibler, budget).is_err());
        assert!(Selection::new().optimum(&pair, &KullbackLeibler, budget).is_err());
    }
}

/// As [`case`], with ratios that are spread, clustered at a level, or all equal.
fn large_case(rng: &mut ChaCha8Rng) -> (Vec<f64>, Vec<f64>, f64) {
    let len = 2049 + rng.next_u32() as usize % 3_000;
    let (draft, target, budget) = case(rng, len);
    let spread = [10.0, 1.0, 0.01, 0.0][rng.next_u32() as usize % 4];
    match rng.next_u32() % 3 {
        0 => (draft, target, budget),
        1 => {
            let near = target.iter().map(|q| q * (spread * (uniform(rng) - 0.5)).exp()).collect();
            (normalized(near), target, 0.1 * budget.min(1.0))
        }
        _ => {
            // Truncated targets: most outcomes are forbidden, among them some that the draft prefers.
            let cut: Vec<f64> = target.iter().map(|q| if *q > 2.0 / len as f64 { *q } else { 0.0 }).collect();
            if cut.iter().all(|q| *q == 0.0) {
                (draft, target, budget)
            } else {
                (draft, normalized(cut), budget)
            }
        }
    }
}

#[test]
fn selection_finds_what_sorting_finds() {
    let cases = if cfg!(debug_assertions) { 400 } else { 5_000 };
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut selection = Selection::new();
    let mut binding = 0;
    for _ in 0..cases {
        let (draft, target, budget) = large_case(&mut rng);
        let log_ratios: Vec<f64> = draft.iter().zip(&target).map(|(p, q)| q.ln() - p.ln()).collect();
        let pair = Pair::new(&draft, &target).unwrap();
        for f in [&KullbackLeibler as &dyn Divergence, &ReverseKullbackLeibler, &TotalVariation] {
            let sorted = optimum(&pair, f, budget).unwrap();
            let with = pair.with_log_ratios(&log_ratios).unwrap();
            for selected in [selection.optimum(&pair, f, budget), selection.optimum(&with, f, budget)] {
                let selected = selected.unwrap();
                let context =
                    || format!("{f:?} {} outcomes, D {budget}: {sorted:?} {selected:?}", draft.len());
                assert_eq!(selected.is_binding(), sorted.is_binding(), "{}", context());
                let apart = (selected.divergence() - sorted.divergence()).abs();
                // The difference of two infinities is no number.
                assert!(apart < 1e-9 || apart.is_nan(), "{}", context());
                assert!((selected.rejection() - sorted.rejection()).abs() < 1e-7, "{}", context());
                let distributions = distribution(&selected, &draft, &target)
                    .into_iter()
                    .zip(distribution(&sorted, &draft, &target));
                let apart: f64 = distributions.map(|(left, right)| (left - right).abs()).sum();
                assert!(apart < 1e-7, "{apart} {}", context());
            }
            binding += u32::from(sorted.is_binding() && budget > 0.0);
        }
    }
    assert!(binding > cases / 2, "{binding}");
}
