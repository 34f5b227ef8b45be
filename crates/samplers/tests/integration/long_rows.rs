//! Exactness with a vocabulary so large that rows are read by blocks, and masks leave thousands of tokens.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use unskew_core::{
    Constraint, ExactDistribution, MaskMut, Rejected, Sampler, TableModel, TableModelError, TokenId,
    conformance::check_sampler,
};
use unskew_samplers::{Asap, Awrs, Exact, Greedy, Masked, SampleError, Sampling, Task};

const TOKENS: usize = 9_000;

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// One of about 4,000 tokens, or token 0 and then one of 4,500.
#[derive(Clone, Copy, Debug)]
struct OneOrTwo;

fn is_allowed(prefix: &[TokenId], token: TokenId) -> bool {
    let index = token.index();
    match prefix {
        [] => index < 6_000 && index % 3 != 1,
        [first] => first.index() == 0 && index.is_multiple_of(2) && index < TOKENS,
        _ => false,
    }
}

impl Constraint for OneOrTwo {
    type State = Vec<TokenId>;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        TOKENS + 1
    }
    fn start(&self) -> Vec<TokenId> {
        Vec::new()
    }
    fn scratch(&self) {}
    fn advance(&self, (): &mut (), state: &mut Vec<TokenId>, token: TokenId) -> Result<(), Rejected> {
        if !is_allowed(state, token) {
            return Err(Rejected::new(token));
        }
        state.push(token);
        Ok(())
    }
    fn is_accepting(&self, state: &Vec<TokenId>) -> bool {
        state.len() == 2 || (state.len() == 1 && state[0].index() != 0)
    }
    fn fill_mask(&self, (): &mut (), state: &Vec<TokenId>, mut mask: MaskMut<'_>) {
        mask.clear();
        (0..TOKENS)
            .map(TokenId::from_index)
            .filter(|token| is_allowed(state, *token))
            .for_each(|token| mask.insert(token));
    }
}

/// Rows in which few tokens, chosen by a seed, have most of the mass; some tokens are impossible.
fn model() -> TableModel {
    let row = |seed: u64, end: f64| {
        let mut rng = rng(seed);
        let mut weights: Vec<f64> = (0..TOKENS)
            .map(|_| match rng.next_u32() % 400 {
                0..40 => 0.0,
                40 => 20.0,
                _ => f64::from(rng.next_u32() % 1000) / 4e4,
            })
            .collect();
        weights[0] = 60.0;
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight *= (1.0 - end) / sum);
        weights.push(end);
        weights
    };
    let ids = |ids: &[u32]| ids.iter().copied().map(TokenId).collect::<Vec<_>>();
    let contexts = [(ids(&[]), row(1, 0.1)), (ids(&[0]), row(2, 0.3))];
    TableModel::new((0..TOKENS).map(|id| id.to_string()), row(3, 0.6), contexts).unwrap()
}

fn task() -> Task<TableModel, OneOrTwo> {
    let model = model();
    let vocabulary = model.vocabulary().clone();
    Task::new(model, OneOrTwo, &vocabulary, 3)
}

fn distribution() -> ExactDistribution {
    ExactDistribution::enumerate(&mut model(), &OneOrTwo, &[], &[TokenId::from_index(TOKENS)], 3, 20_000)
        .unwrap()
}

type Boxed = Box<dyn Sampler<Error = SampleError<TableModelError>>>;

#[test]
fn exact_samplers_follow_the_distribution() {
    const DRAWS: usize = if cfg!(debug_assertions) { 4_000 } else { 1_000_000 };
    const TRIES: u64 = 1_000_000;
    let distribution = distribution();
    assert!(
        distribution.len() > 5_000 && (0.1..0.6).contains(&distribution.mass()),
        "{} {}",
        distribution.len(),
        distribution.mass()
    );
    let disc = Exact::disc().with_budget(1e6);
    let samplers: [(&str, Boxed); 6] = [
        ("rejection", Box::new(Sampling::new(task(), Exact::rejection(TRIES)))),
        ("rsft", Box::new(Sampling::new(task(), Exact::rsft(TRIES)))),
        ("ars", Box::new(Sampling::new(task(), Exact::ars(TRIES)))),
        ("cars", Box::new(Sampling::new(task(), Exact::cars(TRIES)))),
        ("cars, batches of 4", Box::new(Sampling::new(Task { batch: 4, ..task() }, Exact::cars(TRIES)))),
        ("disc", Box::new(Sampling::new(task(), disc))),
    ];
    for (seed, (name, mut sampler)) in (1..).zip(samplers) {
        if let Err(error) = check_sampler(&mut sampler, &distribution, DRAWS, &mut rng(seed)) {
            panic!("{name}: {error}");
        }
    }
}

/// The mean of weights is the probability of the constraint.
#[test]
fn weights_average_to_the_mass_of_the_constraint() {
    const DRAWS: u32 = if cfg!(debug_assertions) { 3_000 } else { 100_000 };
    let distribution = distribution();
    let samplers: [(&str, Boxed); 2] = [
        ("masked", Box::new(Sampling::new(task(), Masked::new()))),
        ("awrs", Box::new(Sampling::new(task(), Awrs::new(1_000)))),
    ];
    for (seed, (name, mut sampler)) in (1..).zip(samplers) {
        let mut rng = rng(seed);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..DRAWS {
            let draw = sampler.draw(&mut rng).unwrap();
            let weight = draw.log_weight.exp();
            assert!(distribution.probability(&draw.tokens) > 0.0);
            let exact = (distribution.probability(&draw.tokens) * distribution.mass()).ln();
            assert!((draw.log_prob - exact).abs() < 1e-3, "{name}: {draw:?} {exact}");
            sum += weight;
            squares += weight * weight;
        }
        let mean = sum / f64::from(DRAWS);
        let error = ((squares / f64::from(DRAWS) - mean * mean) / f64::from(DRAWS)).sqrt();
        assert!(
            (mean - distribution.mass()).abs() < 4.0 * error + 1e-6,
            "{name}: {mean} +- {error}, {}",
            distribution.mass()
        );
    }
}

#[test]
fn the_most_probable_token_is_found_and_asap_learns() {
    let draw = Sampling::new(task(), Greedy).draw(&mut rng(1)).unwrap();
    let model = model();
    let mut prefix = Vec::new();
    loop {
        let row = model.row(&prefix);
        let stop = if OneOrTwo.is_accepting(&prefix) { row[TOKENS] } else { 0.0 };
        let allowed =
            (0..TOKENS).filter(|id| is_allowed(&prefix, TokenId::from_index(*id)) && prefix.len() < 2);
        let best = allowed.reduce(|best, id| if row[id] > row[best] { id } else { best });
        match best {
            Some(best) if row[best] > stop => prefix.push(TokenId::from_index(best)),
            _ => break,
        }
    }
    assert_eq!(draw.tokens, prefix);
    // Token 0, with the tokens that must follow it, turns out to be worth half of its probability.
    let mut asap = Sampling::new(task(), Asap::new(10));
    asap.warm_up(50, &mut rng(1)).unwrap();
    assert!(asap.usage().prefixes > 20);
}

/// A seed decides the draws, and the limit on memory does not: rows that are computed again are the same.
#[test]
fn draws_do_not_depend_on_what_is_kept() {
    let draws = |max_bytes: usize, batch: usize| {
        let mut cars = Sampling::new(Task { max_bytes, batch, ..task() }, Exact::cars(1_000_000));
        let mut rng = rng(5);
        (0..60).map(|_| cars.draw(&mut rng).unwrap().tokens).collect::<Vec<_>>()
    };
    let all = draws(256 << 20, 16);
    // The trie fits; no row does.
    assert_eq!(all, draws(200_000, 16));
    assert_eq!(all, draws(256 << 20, 1));
}
