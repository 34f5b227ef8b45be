//! Very long outputs, very improbable ones, logits that are no distribution, and drawing that is cancelled.

use crate::support::{Outputs, distribution, outputs, random_task, rng, task};
use unskew_core::{
    Constraint, Extension, Finish, LanguageModel, Logits, MaskMut, Rejected, Sampler, TableModel,
    TableModelError, TokenId, Unconstrained,
};
use unskew_samplers::{
    Asap, Awrs, Beam, Cancel, Cut, Exact, Greedy, Masked, Mcmc, SampleError, Sampling, Smc, Task,
};

/// Any text of exactly this number of tokens.
#[derive(Clone, Copy, Debug)]
struct Exactly {
    tokens: usize,
    vocab_len: usize,
}

impl Constraint for Exactly {
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
        if *state == self.tokens || token.index() + 1 >= self.vocab_len {
            return Err(Rejected::new(token));
        }
        *state += 1;
        Ok(())
    }
    fn is_accepting(&self, state: &usize) -> bool {
        *state == self.tokens
    }
    fn fill_mask(&self, (): &mut (), state: &usize, mut mask: MaskMut<'_>) {
        mask.clear();
        if *state < self.tokens {
            (0..self.vocab_len - 1).for_each(|id| mask.insert(TokenId::from_index(id)));
        }
    }
}

type AnySampler = Box<dyn Sampler<Error = SampleError<TableModelError>>>;

#[test]
fn outputs_of_ten_thousand_tokens_keep_their_probability() {
    const TOKENS: usize = 10_000;
    let model = TableModel::uniform((0..160).map(|id| id.to_string()).collect::<Vec<_>>());
    let constraint = Exactly { tokens: TOKENS, vocab_len: 161 };
    let vocabulary = model.vocabulary().clone();
    // Masked sampling cuts at the limit and does not ask for the end.
    let task = || Task::new(model.clone(), constraint, &vocabulary, TOKENS + 1);
    let expected = -(10_001.0 * 161f64.ln());
    assert!(expected < -50_000.0);
    let samplers: [(&str, AnySampler); 7] = [
        ("masked", Box::new(Sampling::new(task(), Masked::new()))),
        ("asap", Box::new(Sampling::new(task(), Asap::new(10)))),
        ("disc", Box::new(Sampling::new(task(), Exact::disc().with_max_tries(1).with_particles(2)))),
        ("awrs", Box::new(Sampling::new(task(), Awrs::new(10)))),
        ("smc", Box::new(Sampling::new(task(), Smc { particles: 2, ..Smc::default() }))),
        ("mcmc", Box::new(Sampling::new(task(), Mcmc::new(1, Cut::Restart, 10)))),
        ("beam", Box::new(Sampling::new(task(), Beam::new(1)))),
    ];
    for (name, mut sampler) in samplers {
        let draw = sampler.draw(&mut rng(1)).unwrap();
        assert_eq!((draw.tokens.len(), draw.finish), (TOKENS, Finish::Stop), "{name}");
        assert!((draw.log_prob - expected).abs() < 1e-2, "{name}: {} and {expected}", draw.log_prob);
        assert!(draw.log_weight.is_finite(), "{name}: {}", draw.log_weight);
    }
    // Two outputs of probability e^-50,000, of which one dies: the remaining bound is in the logarithm's range.
    let mut asap = Sampling::new(task(), Asap::new(10));
    asap.warm_up(2, &mut rng(2)).unwrap();
    assert!(asap.log_bound() < 0.0 && asap.log_bound().is_finite());
}

/// A count that comes from a user must not end the process: objects in memory have a limit, and the others are made
/// on demand.
#[test]
fn counts_that_no_memory_holds_are_refused() {
    let model = TableModel::uniform(["0", "1"]);
    let vocabulary = model.vocabulary().clone();
    let task = || Task::new(model.clone(), Unconstrained::new(&vocabulary), &vocabulary, 4);
    let many = 1 << 40;
    let disc = Exact::disc_published(10).with_particles(many as u64);
    let samplers: [(&str, AnySampler); 3] = [
        ("particles", Box::new(Sampling::new(task(), Smc { particles: many, ..Smc::default() }))),
        ("prefixes of a beam", Box::new(Sampling::new(task(), Beam::new(many)))),
        ("candidates of DISC", Box::new(Sampling::new(task(), disc))),
    ];
    for (what, mut sampler) in samplers {
        let error = sampler.draw(&mut rng(1)).unwrap_err();
        assert!(
            matches!(error, SampleError::TooMany { what: found, count, .. } if (found, count) == (what, many)),
            "{what}: {error}"
        );
    }
    // Tries, steps, and draws that share passes take no memory before they begin.
    let sampler =
        Sampling::new(Task { batch: usize::MAX, ..task() }, Exact::rejection(u64::MAX)).draw(&mut rng(1));
    assert!(sampler.is_ok());
    assert!(Sampling::new(Task { batch: usize::MAX, ..task() }, Beam::new(3)).draw(&mut rng(1)).is_ok());
}

/// A bound far below the least f64: one forced output of probability e^-50,000.
#[test]
fn bounds_fall_below_all_numbers() {
    const TOKENS: usize = 10_000;
    let model = TableModel::new(["0", "1"], vec![0.006, 0.984, 0.01], []).unwrap();
    let constraint = Single { tokens: TOKENS };
    let vocabulary = model.vocabulary().clone();
    let task = || Task { batch: 2, ..Task::new(model.clone(), constraint, &vocabulary, TOKENS) };
    let expected = 10_000.0 * 0.006f64.ln() + 0.01f64.ln();
    assert!(expected < -50_000.0);
    let mut asap = Sampling::new(task(), Asap::new(10));
    for _ in 0..2 {
        let draw = asap.draw(&mut rng(1)).unwrap();
        assert!((draw.log_prob - expected).abs() < 1e-1, "{}", draw.log_prob);
    }
    assert!((asap.log_bound() - expected).abs() < 1e-1, "{}", asap.log_bound());
    // Once the output is known, CARS draws it at once; before that it has to try a few times.
    let mut cars = Sampling::new(task(), Exact::cars(100_000));
    cars.draw(&mut rng(1)).unwrap();
    let draw = cars.draw(&mut rng(1)).unwrap();
    assert_eq!((draw.cost.proposals, draw.tokens.len()), (1, TOKENS));
}

/// Texts of this number of zeros, and no other text.
#[derive(Clone, Copy, Debug)]
struct Single {
    tokens: usize,
}

impl Constraint for Single {
    type State = usize;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        3
    }
    fn start(&self) -> usize {
        0
    }
    fn scratch(&self) {}
    fn advance(&self, (): &mut (), state: &mut usize, token: TokenId) -> Result<(), Rejected> {
        if token.0 != 0 || *state == self.tokens {
            return Err(Rejected::new(token));
        }
        *state += 1;
        Ok(())
    }
    fn is_accepting(&self, state: &usize) -> bool {
        *state == self.tokens
    }
    fn fill_mask(&self, (): &mut (), state: &usize, mut mask: MaskMut<'_>) {
        mask.clear();
        if *state < self.tokens {
            mask.insert(TokenId(0));
        }
    }
}

/// Any text of four tokens, of which the constraint follows only two.
#[derive(Clone, Copy, Debug)]
struct Limited;

impl Constraint for Limited {
    type State = usize;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        3
    }
    fn start(&self) -> usize {
        0
    }
    fn scratch(&self) {}
    fn advance(&self, (): &mut (), state: &mut usize, token: TokenId) -> Result<(), Rejected> {
        match *state {
            2 => return Err(Rejected::beyond(token, "Limits::two")),
            _ if token.0 > 1 => return Err(Rejected::new(token)),
            _ => *state += 1,
        }
        Ok(())
    }
    fn is_accepting(&self, state: &usize) -> bool {
        *state == 4
    }
    fn fill_mask(&self, (): &mut (), state: &usize, mut mask: MaskMut<'_>) {
        mask.clear();
        if *state < 2 {
            [TokenId(0), TokenId(1)].into_iter().for_each(|token| mask.insert(token));
        }
    }
}

/// No sampler takes such a prefix for one without outputs: that would change the distribution in silence.
#[test]
fn a_constraint_beyond_its_limit_is_an_error_that_names_it() {
    let model = TableModel::new(["0", "1"], vec![0.5, 0.25, 0.25], []).unwrap();
    let vocabulary = model.vocabulary().clone();
    let task = || Task::new(model.clone(), Limited, &vocabulary, 8);
    let samplers: [(&str, AnySampler); 7] = [
        ("masked", Box::new(Sampling::new(task(), Masked::new()))),
        ("greedy", Box::new(Sampling::new(task(), Greedy))),
        ("rejection", Box::new(Sampling::new(task(), Exact::rejection(300)))),
        ("rsft", Box::new(Sampling::new(task(), Exact::rsft(300)))),
        ("cars", Box::new(Sampling::new(task(), Exact::cars(300)))),
        ("disc", Box::new(Sampling::new(task(), Exact::disc()))),
        ("asap", Box::new(Sampling::new(task(), Asap::new(300)))),
    ];
    for (name, mut sampler) in samplers {
        let error = sampler.draw(&mut rng(1)).unwrap_err();
        assert_eq!(error, SampleError::Beyond { limit: "Limits::two", tokens: 2 }, "{name}");
        assert!(error.to_string().contains("`Limits::two`"), "{error}");
    }
    // At the limit of the task nothing is asked of the constraint.
    let short = Sampling::new(Task { max_tokens: 2, ..task() }, Masked::new()).draw(&mut rng(1)).unwrap();
    assert_eq!(short.finish, Finish::Length);
}

/// Every text is allowed, and the model ends each with probability 1e-30.
#[test]
fn a_constraint_of_next_to_no_mass_ends_at_the_limit() {
    let model = TableModel::new(["0", "1"], vec![0.5, 0.5, 1e-30], []).unwrap();
    let vocabulary = model.vocabulary().clone();
    let task = || Task::new(model.clone(), Unconstrained::new(&vocabulary), &vocabulary, 12);
    let samplers: [(&str, AnySampler); 5] = [
        ("rejection", Box::new(Sampling::new(task(), Exact::rejection(300)))),
        ("rsft", Box::new(Sampling::new(task(), Exact::rsft(300)))),
        ("ars", Box::new(Sampling::new(task(), Exact::ars(300)))),
        ("cars", Box::new(Sampling::new(task(), Exact::cars(300)))),
        ("disc", Box::new(Sampling::new(task(), Exact::disc().with_max_tries(300).with_particles(0)))),
    ];
    for (name, mut sampler) in samplers {
        let error = sampler.draw(&mut rng(1)).unwrap_err();
        // DISC also stops at a budget of positions.
        if name != "disc" {
            assert_eq!(error, SampleError::NoOutput { tries: 300, max_tokens: 12 }, "{name}");
        }
        let message = error.to_string();
        assert!(message.contains("tries") && message.contains("12 tokens"), "{name}: {message}");
    }
    // All 4096 outputs of 12 tokens are known to end there and nowhere else: the bound falls, and the remaining
    // outputs are drawn.
    let mut cars = Sampling::new(task(), Exact::cars(200_000));
    let draw = cars.draw(&mut rng(1)).unwrap();
    assert!(
        (draw.log_prob
            - (0.5f64.ln() * f64::from(u32::try_from(draw.tokens.len()).unwrap()) + 1e-30f64.ln()))
        .abs()
            < 1e-3
    );
    assert!(cars.log_bound() < -60.0, "{}", cars.log_bound());
    // Where the end is impossible, the sampler finds that out too, and says so.
    let model = TableModel::new(["0", "1"], vec![0.5, 0.5, 0.0], []).unwrap();
    let task = Task::new(model, Unconstrained::new(&vocabulary), &vocabulary, 6);
    assert_eq!(
        Sampling::new(task, Exact::cars(200_000)).draw(&mut rng(1)).unwrap_err(),
        SampleError::Impossible { max_tokens: 6 }
    );
}

/// A table whose logits after some tokens are replaced, and that can ask for the end of the drawing.
#[derive(Clone, Debug)]
struct Broken {
    table: TableModel,
    at: usize,
    logit: f32,
    passes: u64,
    cancel: Option<(Cancel, u64)>,
}

impl LanguageModel for Broken {
    type Sequence = Vec<TokenId>;
    type Error = TableModelError;

    fn vocab_len(&self) -> usize {
        self.table.vocab_len()
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
    ) -> Result<(), TableModelError> {
        self.passes += 1;
        if let Some((cancel, after)) = &self.cancel
            && self.passes > *after
        {
            cancel.cancel();
        }
        self.table.extend(batch, logits)?;
        let mut row = 0;
        for item in batch {
            let count = item.rows.count(item.tokens.len());
            for index in 0..count {
                if item.sequence.len() + 1 + index - count == self.at {
                    logits.row_mut(row + index).fill(self.logit);
                }
            }
            row += count;
        }
        Ok(())
    }
}

#[test]
fn logits_that_are_none_name_their_step() {
    let table = TableModel::new(["0", "1"], vec![0.5, 0.5, 0.0], []).unwrap();
    let vocabulary = table.vocabulary().clone();
    for logit in [f32::NAN, f32::NEG_INFINITY] {
        for at in [0, 1, 3] {
            let model = Broken { table: table.clone(), at, logit, passes: 0, cancel: None };
            let task = || Task::new(model.clone(), outputs(["0101", "1010", "0000"], 3), &vocabulary, 6);
            // All forced tokens, the broken step included, are evaluated in one pass.
            let samplers: [(&str, AnySampler); 9] = [
                ("masked", Box::new(Sampling::new(task(), Masked::new()))),
                ("greedy", Box::new(Sampling::new(task(), Greedy))),
                ("rejection", Box::new(Sampling::new(task(), Exact::rejection(10_000)))),
                ("cars", Box::new(Sampling::new(task(), Exact::cars(10_000)))),
                ("ars", Box::new(Sampling::new(task(), Exact::ars(10_000)))),
                ("awrs", Box::new(Sampling::new(task(), Awrs::new(10_000)))),
                ("smc", Box::new(Sampling::new(task(), Smc::default()))),
                ("mcmc", Box::new(Sampling::new(task(), Mcmc::new(2, Cut::Prefix, 10_000)))),
                ("beam", Box::new(Sampling::new(task(), Beam::new(2)))),
            ];
            for (name, mut sampler) in samplers {
                let error = sampler.draw_many(5, &mut rng(1), &mut Vec::new()).unwrap_err();
                assert_eq!(error, SampleError::NotADistribution { tokens: at }, "{name}");
                assert!(error.to_string().contains(&format!("after {at} tokens")), "{error}");
            }
        }
    }
}

#[test]
fn what_was_drawn_before_the_end_was_asked_for_is_handed_over() {
    let (table, constraint) = random_task(3);
    assert!(distribution(&table, &constraint).is_some());
    let new: [fn(Task<Broken, Outputs>) -> AnySampler; 5] = [
        |task| Box::new(Sampling::new(task, Masked::new())),
        |task| Box::new(Sampling::new(task, Exact::rejection(100_000))),
        |task| Box::new(Sampling::new(task, Exact::cars(100_000))),
        |task| Box::new(Sampling::new(task, Awrs::new(100_000))),
        |task| Box::new(Sampling::new(task, Mcmc::new(3, Cut::Prefix, 100_000))),
    ];
    for (index, new) in new.into_iter().enumerate() {
        let model = |cancel| Broken { table: table.clone(), at: usize::MAX, logit: 0.0, passes: 0, cancel };
        // No row is kept, so that every draw needs the model.
        let with = |model| Task {
            max_bytes: 0,
            batch: 2,
            ..Task::new(model, constraint.clone(), table.vocabulary(), 8)
        };
        let mut all = Vec::new();
        new(with(model(None))).draw_many(30, &mut rng(5), &mut all).unwrap();
        let passes: u64 = all.iter().map(|draw| draw.cost.passes).sum();
        let cancel = Cancel::default();
        let mut task = with(model(Some((cancel.clone(), passes / 2))));
        task.cancel = cancel;
        let mut draws = Vec::new();
        let error = new(task).draw_many(30, &mut rng(5), &mut draws).unwrap_err();
        assert_eq!(error, SampleError::Cancelled);
        assert!(!draws.is_empty() && draws.len() < 30, "sampler {index}: {}", draws.len());
        for (draw, other) in draws.iter().zip(&all) {
            assert_eq!(draw.tokens, other.tokens);
        }
    }
}

#[test]
fn a_task_without_memory_is_drawn_all_the_same() {
    let (model, constraint) = random_task(3);
    let distribution = distribution(&model, &constraint).unwrap();
    let task = Task { max_bytes: 0, ..task(&model, &constraint) };
    unskew_core::conformance::check_sampler(
        &mut Sampling::new(task, Exact::cars(100_000)),
        &distribution,
        1_000,
        &mut rng(2),
    )
    .unwrap();
}

/// As a set whose file is damaged: the mask allows token 1 after token 0, and the constraint rejects it.
#[derive(Clone, Copy, Debug)]
struct Damaged;

impl Constraint for Damaged {
    type State = Vec<TokenId>;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        3
    }
    fn start(&self) -> Vec<TokenId> {
        Vec::new()
    }
    fn scratch(&self) {}
    fn advance(&self, (): &mut (), state: &mut Vec<TokenId>, token: TokenId) -> Result<(), Rejected> {
        if token != TokenId(0) || state.len() > 1 {
            return Err(Rejected::new(token));
        }
        state.push(token);
        Ok(())
    }
    fn is_accepting(&self, state: &Vec<TokenId>) -> bool {
        state.len() == 2
    }
    fn fill_mask(&self, (): &mut (), state: &Vec<TokenId>, mut mask: MaskMut<'_>) {
        mask.clear();
        match state.len() {
            0 => mask.insert(TokenId(0)),
            1 => mask.insert(TokenId(1)),
            _ => {}
        }
    }
    fn forced(&self, (): &mut (), state: &Vec<TokenId>) -> Option<TokenId> {
        (state.len() == 1).then_some(TokenId(1))
    }
}

#[test]
fn a_constraint_that_rejects_a_token_of_its_mask_is_an_error() {
    let model = TableModel::uniform(["0", "1"]);
    let task = || Task::new(model.clone(), Damaged, model.vocabulary(), 4);
    let samplers: [(&str, AnySampler); 9] = [
        ("masked", Box::new(Sampling::new(task(), Masked::new()))),
        ("greedy", Box::new(Sampling::new(task(), Greedy))),
        ("rejection", Box::new(Sampling::new(task(), Exact::rejection(1_000)))),
        ("cars", Box::new(Sampling::new(task(), Exact::cars(1_000)))),
        ("disc", Box::new(Sampling::new(task(), Exact::disc()))),
        ("asap", Box::new(Sampling::new(task(), Asap::new(10)))),
        ("mcmc", Box::new(Sampling::new(task(), Mcmc::new(1, Cut::Restart, 10)))),
        ("smc", Box::new(Sampling::new(task(), Smc { particles: 2, ..Smc::default() }))),
        ("beam", Box::new(Sampling::new(task(), Beam::new(2)))),
    ];
    for (name, mut sampler) in samplers {
        let error = sampler.draw(&mut rng(1)).unwrap_err();
        assert_eq!(error, SampleError::Inconsistent { token: TokenId(1) }, "{name}");
    }
}

#[test]
fn bounds_of_another_constraint_give_no_output_that_is_not_accepted() {
    let model = TableModel::uniform(["0", "1"]);
    let sampler = |outputs: &[&[u32]]| {
        let outputs = outputs.iter().map(|output| output.iter().copied().map(TokenId).collect());
        let constraint = Outputs { outputs: outputs.collect(), vocab_len: model.vocabulary().len() };
        Sampling::new(Task::new(model.clone(), constraint, model.vocabulary(), 3), Exact::cars(1_000))
    };
    let [mut before, mut after] = [sampler(&[&[0], &[1, 0]]), sampler(&[&[0, 1], &[1, 0]])];
    for seed in 0..20 {
        before.draw(&mut rng(seed)).unwrap();
    }
    // The file names the same task, as a damaged one with a right checksum does.
    after.load("task", &before.save("task")).unwrap();
    let mut refused = 0;
    for seed in 0..20 {
        match after.draw(&mut rng(seed)) {
            Ok(draw) => assert_eq!(draw.tokens, [TokenId(1), TokenId(0)]),
            Err(SampleError::Unfinished { tokens: 1 }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 0);
}

#[test]
fn an_unexplored_mass_that_no_token_has_ends() {
    let model = TableModel::uniform(["0", "1"]);
    let constraint = || Outputs {
        outputs: [vec![TokenId(0)], vec![TokenId(1)]].into(),
        vocab_len: model.vocabulary().len(),
    };
    let sampler =
        || Sampling::new(Task::new(model.clone(), constraint(), model.vocabulary(), 3), Exact::cars(1_000));
    let mut before = sampler();
    for seed in 0..20 {
        before.draw(&mut rng(seed)).unwrap();
    }
    // The first prefix says that nearly all of its mass was never visited, and the others that they have none. All
    // tokens were visited.
    let mut damaged = before.save("task");
    let (header, node, end) = (31, 45, damaged.len() - 8);
    let nodes = (end - header) / node;
    assert_eq!(nodes, 3);
    let mut write = |at: usize, number: f64| damaged[at..at + 8].copy_from_slice(&number.to_le_bytes());
    write(header + 36, -1e-9);
    (1..nodes).for_each(|index| write(header + index * node + 12, -1e300));
    let sum = twox_hash::XxHash3_64::oneshot(&damaged[..end]).to_le_bytes();
    damaged[end..].copy_from_slice(&sum);
    let mut after = sampler();
    after.load("task", &damaged).unwrap();
    match after.draw(&mut rng(1)) {
        Ok(draw) => assert!(constraint().outputs.contains(&draw.tokens)),
        Err(error) => assert_eq!(error, SampleError::Unfinished { tokens: 0 }),
    }
}
