//! Passes that rollouts share: where a pass costs the same for one row and for sixteen, each pass has sixteen rows.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use unskew_core::{
    Constraint, Extension, FnModel, FnModelError, LanguageModel, Logits, MaskMut, Rejected, Sampler, TokenId,
};
use unskew_samplers::{
    Asap, Awrs, Cut, Drawing, Exact, Masked, Mcmc, ModelShape, Polled, SampleError, Sampling, Scheduler,
    SequencePool, Smc, Task, drive, speculative::ModelDraft,
};

const VOCAB: usize = 24;
const LENGTH: usize = 20;

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Texts of twenty tokens, none of which is followed by its successor.
#[derive(Clone)]
struct NoSuccessor;

impl Constraint for NoSuccessor {
    type State = (usize, Option<TokenId>);
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        VOCAB
    }
    fn start(&self) -> Self::State {
        (0, None)
    }
    fn scratch(&self) {}
    fn advance(&self, (): &mut (), state: &mut Self::State, token: TokenId) -> Result<(), Rejected> {
        let (len, last) = *state;
        let follows = last.is_some_and(|last| last.0 + 1 == token.0);
        if len == LENGTH || follows || token.index() + 1 >= VOCAB {
            return Err(Rejected::new(token));
        }
        *state = (len + 1, Some(token));
        Ok(())
    }
    fn is_accepting(&self, (len, _): &Self::State) -> bool {
        *len == LENGTH
    }
    fn fill_mask(&self, (): &mut (), state: &Self::State, mut mask: MaskMut<'_>) {
        mask.clear();
        for token in (0..VOCAB).map(TokenId::from_index) {
            if self.advance(&mut (), &mut state.clone(), token).is_ok() {
                mask.insert(token);
            }
        }
    }
}

/// A model that slightly prefers successors, and ends after twenty tokens as a rule.
fn logits(prefix: &[TokenId], row: &mut [f32]) {
    for (id, logit) in row.iter_mut().enumerate() {
        let hash = prefix.iter().rev().take(3).fold(id * 31, |sum, token| sum * 7 + token.index());
        *logit = f32::from(u8::try_from(hash % 13).unwrap()) / 6.0;
        if prefix.last().is_some_and(|last| last.index() + 1 == id) {
            *logit += 0.5;
        }
    }
    row[VOCAB - 1] = if prefix.len() >= LENGTH { 6.0 } else { -9.0 };
}

/// Counts passes.
struct Counted<M>(M, Arc<AtomicU64>);

impl<M: LanguageModel> LanguageModel for Counted<M> {
    type Sequence = M::Sequence;
    type Error = M::Error;

    fn vocab_len(&self) -> usize {
        self.0.vocab_len()
    }
    fn context_len(&self) -> Option<usize> {
        self.0.context_len()
    }
    fn start(&mut self) -> M::Sequence {
        self.0.start()
    }
    fn len(&self, sequence: &M::Sequence) -> usize {
        self.0.len(sequence)
    }
    fn fork(&mut self, sequence: &M::Sequence) -> M::Sequence {
        self.0.fork(sequence)
    }
    fn truncate(&mut self, sequence: &mut M::Sequence, len: usize) {
        self.0.truncate(sequence, len);
    }
    fn extend(
        &mut self,
        batch: &mut [Extension<'_, M::Sequence>],
        logits: &mut Logits,
    ) -> Result<(), M::Error> {
        self.1.fetch_add(1, Relaxed);
        self.0.extend(batch, logits)
    }
}

type Row = fn(&[TokenId], &mut [f32]);
type Model = Counted<FnModel<Row>>;
type Make = fn(Task<Model, NoSuccessor>) -> Boxed;
type Boxed = Box<dyn Sampler<Error = SampleError<FnModelError>>>;

fn task(passes: &Arc<AtomicU64>, batch: usize) -> Task<Model, NoSuccessor> {
    let Task {
        model: ModelShape { row_len, .. },
        constraint,
        prompt,
        end,
        max_tokens,
        top,
        batch,
        max_bytes,
        cancel,
    } = without_model(batch);
    let model = Counted(FnModel::new(row_len, logits as Row), Arc::clone(passes));
    Task { model, constraint, prompt, end, max_tokens, top, batch, max_bytes, cancel }
}

fn without_model(batch: usize) -> Task<ModelShape, NoSuccessor> {
    let vocabulary = unskew_core::TableModel::uniform(["a"]).vocabulary().clone();
    let task = Task::without_model(VOCAB, NoSuccessor, &vocabulary, LENGTH);
    Task { end: vec![TokenId::from_index(VOCAB - 1)], batch, ..task }
}

#[test]
fn sixteen_at_a_time_take_an_eighth_of_the_passes() {
    const TRIES: u64 = 100_000;
    const DRAWS: usize = 160;
    let samplers: [(&str, Make); 9] = [
        ("masked", |task| Box::new(Sampling::new(task, Masked::new()))),
        ("rejection", |task| Box::new(Sampling::new(task, Exact::rejection(TRIES)))),
        ("ars", |task| Box::new(Sampling::new(task, Exact::ars(TRIES)))),
        ("cars", |task| Box::new(Sampling::new(task, Exact::cars(TRIES)))),
        ("disc", |task| Box::new(Sampling::new(task, Exact::disc()))),
        ("asap", |task| Box::new(Sampling::new(task, Asap::new(TRIES)))),
        ("awrs", |task| Box::new(Sampling::new(task, Awrs::new(TRIES)))),
        ("speculative", |task| {
            let drafts =
                ModelDraft::new(Counted(FnModel::new(VOCAB, logits as Row), Arc::clone(&task.model.1)));
            Box::new(Sampling::speculative(task, Masked::new(), drafts, Default::default()).unwrap())
        }),
        ("smc", |task| Box::new(Sampling::new(task, Smc { particles: 16, ..Smc::default() }))),
    ];
    for (name, sampler) in samplers {
        let passes = |batch| {
            let passes = Arc::new(AtomicU64::new(0));
            let count = if name == "smc" { DRAWS / 16 } else { DRAWS };
            sampler(task(&passes, batch)).draw_many(count, &mut rng(1), &mut Vec::new()).unwrap();
            passes.load(Relaxed)
        };
        let (one, sixteen) = (passes(1), passes(16));
        assert!(sixteen * 8 <= one, "{name}: {sixteen} passes instead of {one}");
    }
}

/// Draws that are taken one by one are those of `draw_many`, in as many passes. A draw that begins is taken off the
/// count.
#[test]
fn draws_are_handed_over_one_by_one() {
    let passes = Arc::new(AtomicU64::new(0));
    for policy in [Exact::cars(100_000), Exact::rejection(100_000)] {
        let mut together = Vec::new();
        passes.store(0, Relaxed);
        Sampling::new(task(&passes, 4), policy).draw_many(30, &mut rng(1), &mut together).unwrap();
        let taken = passes.swap(0, Relaxed);
        let mut sampler = Sampling::new(task(&passes, 4), policy);
        let (mut left, mut random) = (30, rng(1));
        let mut next = || sampler.draw_next(&mut left, &mut random).map(|draw| (draw.unwrap(), left));
        let one_by_one: Vec<_> = std::iter::from_fn(&mut next).collect();
        assert_eq!(passes.swap(0, Relaxed), taken);
        assert!(one_by_one.iter().map(|(draw, _)| draw).eq(&together));
        // One batch is under way, and the seeds of another are drawn.
        assert!(one_by_one[0].1 >= 30 - 3 * 4 && one_by_one[0].1 < 30 - 4, "{}", one_by_one[0].1);
        assert_eq!(one_by_one[29].1, 0);
        // A call for a single draw gives up the draws under way.
        let (mut left, mut random) = (9, rng(1));
        sampler.draw_next(&mut left, &mut random).unwrap().unwrap();
        sampler.draw(&mut random).unwrap();
        assert!(sampler.draw_next(&mut 0, &mut random).is_none());
    }
}

/// Draws that are made pass by pass are those of `draw_next`, in as many passes.
#[test]
fn draws_are_made_pass_by_pass() {
    let passes = Arc::new(AtomicU64::new(0));
    let mut sampler = Sampling::new(task(&passes, 4), Exact::cars(100_000));
    let (mut left, mut random) = (20, rng(1));
    let expected: Vec<_> =
        std::iter::from_fn(|| sampler.draw_next(&mut left, &mut random)).map(Result::unwrap).collect();
    let (taken, mut polled) = (passes.swap(0, Relaxed), Vec::new());
    let mut sampler = Sampling::new(task(&passes, 4), Exact::cars(100_000));
    let (mut left, mut random) = (20, rng(1));
    while let Some(step) = sampler.poll_next(&mut left, &mut random) {
        match step {
            Polled::Draw(draw) => polled.push(draw.unwrap()),
            Polled::Rows => {
                // The same answer, and nothing is evaluated, until a pass was made.
                let (before, wanted) = (passes.load(Relaxed), sampler.wanted().to_vec());
                assert!(matches!(sampler.poll_next(&mut left, &mut random), Some(Polled::Rows)));
                assert!(!wanted.is_empty() && wanted == sampler.wanted());
                assert_eq!(passes.load(Relaxed), before);
                sampler.evaluate();
                assert!(sampler.wanted().is_empty() && passes.load(Relaxed) > before);
            }
        }
    }
    assert_eq!((polled, passes.load(Relaxed)), (expected, taken));
    // Nothing is wanted any more by a sampler that has given up.
    sampler.poll_next(&mut 1, &mut random);
    sampler.give_up();
    assert!(sampler.wanted().is_empty() && sampler.poll_next(&mut 0, &mut random).is_none());
}

/// Several samplers of several tasks over one model: as many passes as the longest of them takes.
#[test]
fn machines_share_the_passes_of_one_model() {
    let passes = Arc::new(AtomicU64::new(0));
    let model = Counted(FnModel::new(VOCAB, logits as Row), Arc::clone(&passes));
    let mut pool = SequencePool::new(model, 64);
    let prompted = |prompt: u32| Task { prompt: vec![TokenId(prompt)], ..without_model(8) };
    let mut weighted = Scheduler::new(prompted(1), Awrs::new(1_000));
    let mut masked = Scheduler::new(prompted(2), Masked::new());
    let mut chains = Scheduler::new(prompted(2), Mcmc::new(0, Cut::Prefix, 100));
    weighted.begin(8, &mut rng(1));
    masked.begin(8, &mut rng(2));
    chains.begin(8, &mut rng(3));
    drive(&mut pool, &mut [&mut weighted, &mut masked, &mut chains]).unwrap();
    let together = passes.load(Relaxed);
    // The same draws, one machine after the other.
    let mut alone = Scheduler::new(prompted(2), Masked::new());
    alone.begin(8, &mut rng(2));
    passes.store(0, Relaxed);
    drive(&mut pool, &mut [&mut alone]).unwrap();
    let masked_alone = passes.load(Relaxed);
    assert!(together < 2 * masked_alone, "{together} {masked_alone}");
    let draws = |scheduler: &mut Scheduler<NoSuccessor, Masked>| -> Vec<_> {
        std::iter::from_fn(|| scheduler.take()).map(|draw| draw.unwrap().tokens).collect()
    };
    let drawn = draws(&mut masked);
    assert_eq!(drawn.len(), 8);
    assert_eq!(drawn, draws(&mut alone));
    assert_eq!(std::iter::from_fn(|| weighted.take()).count(), 8);
}
