//! Outputs that end where the model's text leaves the constraint, beside the law: every text that the model can write
//! is read byte by byte, without any code of the library.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rand_chacha::ChaCha8Rng;
use unskew_core::{
    Constraint, Draw, ExactDistribution, LogitRows, Logits, MaskMut, Rejected, Sampler, TableModel,
    TableModelError, TextOrder, TokenId, Vocabulary, WithEnd,
    conformance::{check_constraint, chi_square},
};
use unskew_samplers::{
    Awrs, Beam, Cut, Exact, FedRows, Imh, Masked, Mcmc, SampleError, Sampling, Smc, Task, Twisted, WalkEnd,
    WalkMode, WalkStep, Walks, Warp,
    speculative::{ModelDraft, SpeculationConfig},
    trace,
};

use crate::{
    elsewhere::Placed,
    support::{below, rng},
};

/// Single characters, so that tokens spell each text, and tokens that may pass an end.
const TOKENS: [&str; 12] = ["a", "b", "1", " ", "!", "ab", "a!", "a b", "1 ", "1a", "!a", "b!!"];

/// The texts of a list, read by bytes or by tokens.
#[derive(Clone, Debug)]
struct Texts {
    texts: BTreeSet<Vec<u8>>,
    vocabulary: Arc<Vocabulary>,
    /// Whether it tells how far a text goes on, or leaves that to its masks.
    tells: bool,
}

impl Texts {
    fn goes_on(&self, text: &[u8]) -> bool {
        self.texts.iter().any(|one| one.starts_with(text))
    }
}

impl Constraint for Texts {
    type State = Vec<u8>;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        self.vocabulary.len()
    }
    fn start(&self) -> Vec<u8> {
        Vec::new()
    }
    fn scratch(&self) {}
    fn advance(&self, (): &mut (), state: &mut Vec<u8>, token: TokenId) -> Result<(), Rejected> {
        let text = self.vocabulary.text(token).ok_or(Rejected::new(token))?;
        let longer = [&state[..], text].concat();
        if !self.goes_on(&longer) {
            return Err(Rejected::new(token));
        }
        *state = longer;
        Ok(())
    }
    fn is_accepting(&self, state: &Vec<u8>) -> bool {
        self.texts.contains(state)
    }
    fn fill_mask(&self, (): &mut (), state: &Vec<u8>, mut mask: MaskMut<'_>) {
        mask.clear();
        for (token, text) in self.vocabulary.text_tokens() {
            if self.goes_on(&[&state[..], text].concat()) {
                mask.insert(token);
            }
        }
    }
    fn reach(&self, (): &mut (), state: &Vec<u8>, text: &[u8]) -> Option<unskew_core::Reach> {
        let read = |len: usize| [&state[..], &text[..len]].concat();
        let len = (0..=text.len()).rev().find(|len| self.goes_on(&read(*len))).unwrap_or(0);
        self.tells.then(|| unskew_core::Reach { len, is_accepting: self.texts.contains(&read(len)) })
    }
}

/// A table over [`TOKENS`], and texts of up to four characters, some of which begin others.
fn random(seed: u64) -> (TableModel, Texts) {
    let mut rng = rng(seed);
    let row = |rng: &mut ChaCha8Rng| {
        let weights: Vec<f64> = (0..=TOKENS.len()).map(|_| f64::from(below(rng, 6).pow(2))).collect();
        let weights: Vec<f64> =
            if weights.iter().sum::<f64>() == 0.0 { vec![1.0; TOKENS.len() + 1] } else { weights };
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect::<Vec<_>>()
    };
    let mut contexts = Vec::new();
    for first in 0..TOKENS.len() {
        contexts.push((vec![TokenId::from_index(first)], row(&mut rng)));
        for second in 0..TOKENS.len() {
            contexts.push((vec![TokenId::from_index(first), TokenId::from_index(second)], row(&mut rng)));
        }
    }
    let first = (vec![], row(&mut rng));
    let model = TableModel::new(TOKENS, row(&mut rng), contexts.into_iter().chain([first])).unwrap();
    let mut texts = BTreeSet::new();
    for _ in 0..1 + below(&mut rng, 6) {
        let len = 1 + below(&mut rng, 3);
        let text: Vec<u8> = (0..len).map(|_| b"ab1 !"[below(&mut rng, 5) as usize]).collect();
        // Every other text begins another one.
        if below(&mut rng, 2) == 0 {
            texts.insert([&text[..], b"a"].concat());
        }
        texts.insert(text);
    }
    let vocabulary = Arc::clone(model.vocabulary());
    (model, Texts { texts, vocabulary, tells: seed.is_multiple_of(2) })
}

/// The law: what the model writes, token by token, until its text leaves the list.
fn law(model: &TableModel, texts: &BTreeSet<Vec<u8>>) -> BTreeMap<Vec<u8>, f64> {
    let goes_on = |text: &[u8]| texts.iter().any(|one| one.starts_with(text));
    let is_word = |byte: u8| byte.is_ascii_alphanumeric();
    let mut outputs = BTreeMap::new();
    let mut open = vec![(Vec::<TokenId>::new(), Vec::<u8>::new(), 1.0)];
    while let Some((tokens, text, probability)) = open.pop() {
        for (id, p) in model.row(&tokens).iter().enumerate().filter(|(_, p)| **p > 0.0) {
            let p = probability * p;
            let longer = TOKENS.get(id).map(|token| [&text[..], token.as_bytes()].concat());
            match longer {
                Some(longer) if goes_on(&longer) => {
                    open.push(([&tokens[..], &[TokenId::from_index(id)]].concat(), longer, p));
                }
                Some(longer) => {
                    let place = (0..longer.len()).rev().find(|len| goes_on(&longer[..*len])).unwrap();
                    let cuts = place > text.len() && is_word(longer[place - 1]) && is_word(longer[place]);
                    if texts.contains(&longer[..place]) && !cuts {
                        *outputs.entry(longer[..place].to_vec()).or_default() += p;
                    }
                }
                None if texts.contains(&text) => *outputs.entry(text.clone()).or_default() += p,
                None => {}
            }
        }
    }
    outputs
}

/// Some random tasks that the model can write, with their laws and `P(constraint)`.
fn tasks(count: usize) -> impl Iterator<Item = (u64, TableModel, Texts, BTreeMap<Vec<u8>, f64>, f64)> {
    let of = |seed| {
        let (model, texts) = random(seed);
        let mut law = law(&model, &texts.texts);
        law.retain(|_, p| *p > 0.0);
        let mass: f64 = law.values().sum();
        law.values_mut().for_each(|p| *p /= mass);
        (seed, model, texts, law, mass)
    };
    (0..).map(of).filter(|(.., mass)| *mass > 1e-3).take(count)
}

fn free<C: Constraint>(constraint: C, model: &TableModel) -> WithEnd<C> {
    WithEnd::free(constraint, Arc::new(TextOrder::new(Arc::clone(model.vocabulary()))))
}

fn task(model: &TableModel, texts: &Texts) -> Task<TableModel, WithEnd<Texts>> {
    Task::new(model.clone(), free(texts.clone(), model), &model.vocabulary().clone(), 8)
}

type Boxed = Box<dyn Sampler<Error = SampleError<TableModelError>>>;

fn exact_samplers<C: Constraint + Clone + 'static>(task: &Task<TableModel, C>) -> Vec<(&'static str, Boxed)> {
    let of = |form: Exact| Box::new(Sampling::new(task.clone(), form)) as Boxed;
    vec![
        ("rejection", of(Exact::rejection(1_000_000))),
        ("disc", of(Exact::disc().with_budget(1e9).with_particles(1))),
        ("disc, published", of(Exact::disc_published(1_000_000).with_particles(1))),
        ("rsft", of(Exact::rsft(1_000_000))),
        ("ars", of(Exact::ars(1_000_000))),
        ("cars", of(Exact::cars(1_000_000))),
        ("cars, batches of 5", {
            Box::new(Sampling::new(Task { batch: 5, ..task.clone() }, Exact::cars(1_000_000)))
        }),
        ("cars, drafted", {
            let draft = ModelDraft::new(task.model.clone());
            let config = SpeculationConfig::default();
            Box::new(Sampling::speculative(task.clone(), Exact::cars(1_000_000), draft, config).unwrap())
        }),
        ("rejection, drafted by another model", {
            let row = vec![1.0 / (TOKENS.len() + 1) as f64; TOKENS.len() + 1];
            let draft = ModelDraft::new(TableModel::new(TOKENS, row, []).unwrap());
            let config = SpeculationConfig::default();
            Box::new(Sampling::speculative(task.clone(), Exact::rejection(1_000_000), draft, config).unwrap())
        }),
        ("cars, little memory", {
            Box::new(Sampling::new(Task { max_bytes: 3_000, ..task.clone() }, Exact::cars(1_000_000)))
        }),
    ]
}

/// How far draws are from a law, in standard deviations of a chi-square; infinite for an output that the law has not.
fn deviation(draws: &[Vec<u8>], law: &BTreeMap<Vec<u8>, f64>) -> f64 {
    let mut counts: BTreeMap<&[u8], u64> = BTreeMap::new();
    draws.iter().for_each(|draw| *counts.entry(draw).or_default() += 1);
    if counts.is_empty() || counts.keys().any(|text| !law.contains_key(*text)) {
        return f64::INFINITY;
    }
    chi_square(law.iter().map(|(text, p)| (counts.get(&text[..]).copied().unwrap_or(0), *p))).deviation
}

fn draws(sampler: &mut Boxed, count: usize, model: &TableModel, rng: &mut ChaCha8Rng) -> Vec<Vec<u8>> {
    let mut draws = Vec::new();
    // A mutant may leave nothing.
    let _ = sampler.draw_many(count, rng, &mut draws);
    draws.into_iter().map(|draw| model.vocabulary().decode(&draw.tokens)).collect()
}

#[test]
fn it_is_a_constraint() {
    for (_, model, texts, ..) in tasks(20) {
        check_constraint(&free(texts.clone(), &model), 4).unwrap();
        check_constraint(&WithEnd::model(texts), 4).unwrap();
    }
}

#[test]
fn the_enumeration_has_the_law() {
    let mut others = 0;
    for (seed, model, texts, law, mass) in tasks(60) {
        let end = model.vocabulary().end_of_sequence().to_vec();
        let constraint = free(texts.clone(), &model);
        let exact =
            ExactDistribution::enumerate(&mut model.clone(), &constraint, &[], &end, 8, 100_000).unwrap();
        assert!((exact.mass() / mass - 1.0).abs() < 1e-5, "{seed}: {} {mass}", exact.mass());
        let mut of_texts: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
        for (tokens, p) in exact.iter() {
            *of_texts.entry(model.vocabulary().decode(tokens)).or_default() += p;
        }
        assert_eq!(of_texts.keys().collect::<Vec<_>>(), law.keys().collect::<Vec<_>>(), "{seed} {texts:?}");
        assert!(
            of_texts.iter().all(|(text, p)| (p - law[text]).abs() < 1e-5),
            "{seed}: {of_texts:?} {law:?}"
        );
        // The end of the sequence alone is another law, often of nothing at all.
        let of_model = ExactDistribution::enumerate(&mut model.clone(), &texts, &[], &end, 8, 100_000);
        others += usize::from(of_model.is_ok_and(|of_model| (of_model.mass() / mass - 1.0).abs() > 0.01));
    }
    assert!(others > 20, "{others}");
}

#[test]
fn exact_samplers_have_the_law() {
    for (seed, model, texts, law, _) in tasks(22) {
        for (name, mut sampler) in exact_samplers(&task(&model, &texts)) {
            let draws = draws(&mut sampler, 1_500, &model, &mut rng(seed));
            assert!(deviation(&draws, &law) < 4.5, "task {seed}, {name}: {texts:?} {law:?}");
        }
    }
}

/// Rows that only answer questions.
#[test]
fn rows_elsewhere_have_the_law() {
    for (seed, model, texts, law, _) in tasks(8) {
        let place = |rows: Logits| Box::new(rows) as Box<dyn LogitRows>;
        let far = Placed { table: model.clone(), place };
        let task = Task::new(far, free(texts.clone(), &model), model.vocabulary(), 8);
        for form in
            [Exact::cars(1_000_000), Exact::disc().with_budget(1e9).with_particles(1), Exact::ars(1_000_000)]
        {
            let mut drawn = Vec::new();
            Sampling::new(task.clone(), form).draw_many(1_000, &mut rng(seed), &mut drawn).unwrap();
            let drawn: Vec<_> =
                drawn.into_iter().map(|draw| model.vocabulary().decode(&draw.tokens)).collect();
            assert!(deviation(&drawn, &law) < 4.5, "task {seed}, {form:?}: {law:?}");
        }
    }
}

/// Values and bounds that were saved go on with the same end alone.
#[test]
fn a_file_of_bounds_is_of_one_end() {
    let (_, model, texts, law, _) = tasks(1).next().unwrap();
    let mut cars = Sampling::new(task(&model, &texts), Exact::cars(1_000_000));
    cars.warm_up(50, &mut rng(1)).unwrap();
    let saved = cars.save("a name");
    let mut again = Sampling::new(task(&model, &texts), Exact::cars(1_000_000));
    again.load("a name", &saved).unwrap();
    let mut again: Boxed = Box::new(again);
    assert!(deviation(&draws(&mut again, 1_500, &model, &mut rng(2)), &law) < 4.5);
    let of_model = Task::new(model.clone(), WithEnd::model(texts), &model.vocabulary().clone(), 8);
    assert!(Sampling::new(of_model, Exact::cars(1_000)).load("a name", &saved).is_err());
}

#[test]
fn chains_come_to_the_law() {
    for (seed, model, texts, law, _) in tasks(8) {
        let chains: [(&str, Boxed); 2] = [
            ("mcmc", Box::new(Sampling::new(task(&model, &texts), Mcmc::new(60, Cut::Restart, 10_000)))),
            ("imh", Box::new(Sampling::new(task(&model, &texts), Imh::new(60, 10_000)))),
        ];
        for (name, mut sampler) in chains {
            let draws = draws(&mut sampler, 1_000, &model, &mut rng(seed));
            assert!(deviation(&draws, &law) < 6.0, "task {seed}, {name}: {law:?}");
        }
    }
}

/// The mean weight is `P(constraint)`, and weighted outputs have the law.
#[test]
fn weights_have_the_law() {
    for (seed, model, texts, law, mass) in tasks(12) {
        let task = || task(&model, &texts);
        let smc = || Smc { particles: 8, ..Smc::default() };
        let samplers: Vec<(&str, Boxed)> = vec![
            ("masked", Box::new(Sampling::new(task(), Masked::new()))),
            ("twisted", Box::new(Sampling::new(task(), Twisted::new()))),
            ("awrs", Box::new(Sampling::new(task(), Awrs::new(1)))),
            ("smc", Box::new(Sampling::new(task(), smc()))),
        ];
        for (name, mut sampler) in samplers {
            let mut rng = rng(seed);
            let mut sums: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
            let (mut sum, mut squares) = (0.0, 0.0);
            let count = 3_000;
            for _ in 0..count {
                let weight = match sampler.draw(&mut rng) {
                    Ok(Draw { tokens, log_weight, .. }) => {
                        *sums.entry(model.vocabulary().decode(&tokens)).or_default() += log_weight.exp();
                        log_weight.exp()
                    }
                    // The model can end no output that begins as this one does.
                    Err(SampleError::DeadEnd { .. } | SampleError::NoOutput { .. }) => 0.0,
                    Err(error) => panic!("{name}: {error}"),
                };
                (sum, squares) = (sum + weight, squares + weight * weight);
            }
            let mean = sum / f64::from(count);
            let error = ((squares / f64::from(count) - mean * mean) / f64::from(count)).sqrt();
            assert!(
                (mean - mass).abs() < 4.5 * error + 1e-6,
                "task {seed}, {name}: {mean} +- {error}, {mass}"
            );
            for (text, p) in &law {
                let share = sums.get(text).copied().unwrap_or(0.0) / sum;
                assert!((share - p).abs() < 0.12, "task {seed}, {name}: {text:?} {share} {p}");
            }
        }
    }
}

/// The best output with its probability, where the beam holds every prefix.
#[test]
fn a_wide_beam_has_the_probabilities() {
    for (seed, model, texts, law, mass) in tasks(12) {
        let (mut found, beam) = (Vec::new(), Beam::new(1_000).all());
        Sampling::new(task(&model, &texts), beam).draw_many(usize::MAX, &mut rng(1), &mut found).unwrap();
        let mut of_texts: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
        for draw in &found {
            *of_texts.entry(model.vocabulary().decode(&draw.tokens)).or_default() +=
                draw.log_prob.exp() / mass;
        }
        assert!(
            of_texts.iter().all(|(text, p)| (p - law[text]).abs() < 1e-5),
            "{seed}: {of_texts:?} {law:?}"
        );
        assert_eq!(of_texts.len(), law.len());
    }
}

/// A server's walks: outputs are told without what comes after their end.
#[test]
fn walks_have_the_law() {
    for (seed, model, texts, law, mass) in tasks(10) {
        for mode in [WalkMode::Cars, WalkMode::Rejection] {
            let constraint = free(texts.clone(), &model);
            let task = Task::without_model(TOKENS.len() + 1, constraint, &model.vocabulary().clone(), 8);
            let walks = Walks::new(task, mode, Warp::default());
            let (mut outputs, mut fed) = (Vec::new(), FedRows::default());
            for number in 0..8_000 {
                let mut walk = walks.begin(seed << 32 | number).unwrap();
                let mut tokens = Vec::new();
                loop {
                    #[allow(clippy::cast_possible_truncation, reason = "logits have 32 bits")]
                    let row: Vec<f32> = model.row(&tokens).iter().map(|p| p.ln() as f32).collect();
                    match walk.at(tokens.len(), &row, &mut fed) {
                        WalkStep::Token(token) => tokens.push(token),
                        _ => break,
                    }
                }
                if let Some(WalkEnd::Accepted(output)) = walk.end() {
                    assert_eq!(output.tokens, tokens);
                    outputs.push(model.vocabulary().decode(&tokens));
                }
                if outputs.len() == 1_500 {
                    break;
                }
            }
            assert!(outputs.len() > 50, "task {seed}");
            assert!(deviation(&outputs, &law) < 4.5, "task {seed}, {mode:?}: {law:?}");
            let stats = walks.stats();
            let estimate = stats.log_estimate.unwrap().exp();
            let error = stats.relative_error.unwrap_or(0.0) * mass;
            assert!(
                (estimate - mass).abs() < 5.0 * error + 0.02 * mass,
                "task {seed}, {mode:?}: {estimate} {mass}"
            );
        }
    }
}

/// An output that nothing continues needs no row for its end.
#[test]
fn no_row_is_read_after_an_output_that_nothing_continues() {
    let model = TableModel::new(["a", "b"], vec![0.5, 0.5, 0.0], []).unwrap();
    let vocabulary = Arc::clone(model.vocabulary());
    let texts = Texts { texts: [b"ab".to_vec()].into(), vocabulary, tells: true };
    let end = Task::new(model.clone(), free(texts.clone(), &model), &model.vocabulary().clone(), 8);
    let draw = Sampling::new(end, Masked::new()).draw(&mut rng(1)).unwrap();
    assert_eq!((draw.cost.positions, draw.log_prob.exp()), (2, 0.25));
    // The model never ends a sequence, and has an output all the same.
    let end = Task::new(model.clone(), texts, &model.vocabulary().clone(), 8);
    assert!(Sampling::new(end, Masked::new()).draw(&mut rng(1)).is_err());
}

/// The steps of an audit have the mass of the end.
#[test]
fn a_trace_has_the_end() {
    for (seed, model, texts, law, mass) in tasks(10) {
        let mut task = task(&model, &texts);
        let mut sampler = Sampling::new(task.clone(), Exact::cars(100_000));
        for _ in 0..20 {
            let draw = sampler.draw(&mut rng(seed)).unwrap();
            let steps = trace(&mut task, &draw.tokens).unwrap();
            let log_prob: f64 = steps.iter().map(|step| step.log_prob).sum();
            let text = model.vocabulary().decode(&draw.tokens);
            // One path to the text of several.
            assert!(log_prob.exp() <= law[&text] * mass * (1.0 + 1e-5), "task {seed}");
        }
    }
}

/// An end mass with an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    /// Tokens that pass the end belong to no output.
    ForgetsPassing,
    /// Where the output may end, they count in the mass of the end too.
    CountsPassingTwice,
    /// A token may cut a word.
    CutsWords,
}

#[derive(Clone)]
struct Mutated {
    inner: WithEnd<Texts>,
    mutant: Option<Mutant>,
}

impl Mutated {
    fn without(&self, state: &<WithEnd<Texts> as Constraint>::State, token: TokenId) -> bool {
        let unskew_core::EndState::Within(state) = state else { return false };
        let text = self.inner.inner().vocabulary.text(token).unwrap_or_default();
        self.mutant == Some(Mutant::ForgetsPassing)
            && !self.inner.inner().goes_on(&[&state[..], text].concat())
    }
}

impl Constraint for Mutated {
    type State = <WithEnd<Texts> as Constraint>::State;
    type Scratch = <WithEnd<Texts> as Constraint>::Scratch;

    fn vocab_len(&self) -> usize {
        self.inner.vocab_len()
    }
    fn start(&self) -> Self::State {
        self.inner.start()
    }
    fn scratch(&self) -> Self::Scratch {
        self.inner.scratch()
    }
    fn advance(
        &self,
        scratch: &mut Self::Scratch,
        state: &mut Self::State,
        token: TokenId,
    ) -> Result<(), Rejected> {
        if self.without(state, token) {
            return Err(Rejected::new(token));
        }
        self.inner.advance(scratch, state, token)
    }
    fn is_accepting(&self, state: &Self::State) -> bool {
        self.inner.is_accepting(state)
    }
    fn fill_mask(&self, scratch: &mut Self::Scratch, state: &Self::State, mut mask: MaskMut<'_>) {
        self.inner.fill_mask(scratch, state, mask.reborrow());
        let all: Vec<TokenId> = mask.as_ref().into_ids().collect();
        all.into_iter().filter(|token| self.without(state, *token)).for_each(|token| mask.remove(token));
    }
    fn end(&self) -> unskew_core::OutputEnd {
        self.inner.end()
    }
    fn is_over(&self, scratch: &mut Self::Scratch, state: &Self::State) -> bool {
        self.inner.is_over(scratch, state)
    }
    fn fill_ends(&self, scratch: &mut Self::Scratch, state: &Self::State, mut mask: MaskMut<'_>) -> bool {
        let free = self.inner.fill_ends(scratch, state, mask.reborrow());
        for token in (0..TOKENS.len()).map(TokenId::from_index) {
            let mut after = state.clone();
            let passes =
                self.inner.advance(scratch, &mut after, token).is_ok() && self.inner.tail(&after).is_some();
            let unskew_core::EndState::Within(text) = state else { continue };
            let goes_on = self.inner.inner().goes_on(&[&text[..], TOKENS[token.index()].as_bytes()].concat());
            match self.mutant {
                Some(Mutant::CountsPassingTwice) if passes => mask.insert(token),
                Some(Mutant::CutsWords) if !goes_on => mask.insert(token),
                _ => {}
            }
        }
        free
    }
    fn tail<'a>(&self, state: &'a Self::State) -> Option<&'a [TokenId]> {
        self.inner.tail(state)
    }
}

#[test]
fn a_wrong_mass_of_the_end_is_found() {
    let worst = |mutant| {
        let mut worst: f64 = 0.0;
        for (seed, model, texts, law, _) in tasks(22) {
            let constraint = Mutated { inner: free(texts.clone(), &model), mutant };
            let task = Task::new(model.clone(), constraint, &model.vocabulary().clone(), 8);
            let mut cars: Boxed = Box::new(Sampling::new(task, Exact::cars(1_000_000)));
            worst = worst.max(deviation(&draws(&mut cars, 1_500, &model, &mut rng(seed)), &law));
        }
        worst
    };
    assert!(worst(None) < 4.5);
    for mutant in [Mutant::ForgetsPassing, Mutant::CountsPassingTwice, Mutant::CutsWords] {
        assert!(worst(Some(mutant)) > 6.0, "{mutant:?}");
    }
}
