//! Rows outside host memory. Every sampler draws from them as from the same rows in host memory, with one submission
//! a pass.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::support::{distribution, outputs, random_task, rng};
use unskew_core::{
    Draw, Extension, LanguageModel, LogitRows, Logits, RowError, Sampler, TableModel, TableModelError,
    rows::{RowAnswer, RowQuestion},
};
use unskew_samplers::{
    Asap, Awrs, Beam, Cut, Exact, Greedy, Masked, Mcmc, SampleError, Sampling, Smc, Task, Truncation, Warped,
    speculative::{ModelDraft, SpeculationConfig},
};

/// Rows that only answer questions, and count the submissions and the rows that are read.
#[derive(Debug)]
struct Asked {
    rows: Logits,
    submissions: Arc<AtomicU64>,
    reads: Arc<AtomicU64>,
}

impl LogitRows for Asked {
    fn len(&self) -> usize {
        self.rows.len()
    }
    fn vocab_len(&self) -> usize {
        self.rows.vocab_len()
    }
    fn read(&self, row: usize, out: &mut [f32]) -> Result<(), RowError> {
        self.reads.fetch_add(1, Relaxed);
        LogitRows::read(&self.rows, row, out)
    }
    fn answer(&self, questions: &[RowQuestion<'_>], answers: &mut Vec<RowAnswer>) -> Result<(), RowError> {
        self.submissions.fetch_add(1, Relaxed);
        self.rows.answer(questions, answers)
    }
    fn divide(&mut self, temperature: f64) -> bool {
        self.rows.divide(temperature).is_ok()
    }
}

/// A table model with a way to hand over the rows of a pass.
#[derive(Clone)]
pub(crate) struct Placed<F> {
    pub(crate) table: TableModel,
    pub(crate) place: F,
}

impl<F: FnMut(Logits) -> Box<dyn LogitRows>> LanguageModel for Placed<F> {
    type Sequence = <TableModel as LanguageModel>::Sequence;
    type Error = TableModelError;

    fn vocab_len(&self) -> usize {
        self.table.vocab_len()
    }
    fn context_len(&self) -> Option<usize> {
        None
    }
    fn start(&mut self) -> Self::Sequence {
        self.table.start()
    }
    fn len(&self, sequence: &Self::Sequence) -> usize {
        self.table.len(sequence)
    }
    fn fork(&mut self, sequence: &Self::Sequence) -> Self::Sequence {
        self.table.fork(sequence)
    }
    fn truncate(&mut self, sequence: &mut Self::Sequence, len: usize) {
        self.table.truncate(sequence, len);
    }
    fn extend(
        &mut self,
        batch: &mut [Extension<'_, Self::Sequence>],
        logits: &mut Logits,
    ) -> Result<(), TableModelError> {
        let mut here = Logits::new();
        self.table.extend(batch, &mut here)?;
        logits.place((self.place)(here));
        Ok(())
    }
}

type AnySampler<E> = Box<dyn Sampler<Error = SampleError<E>>>;

/// One sampler of each kind.
fn samplers<M>(
    task: &dyn Fn() -> Task<M, crate::support::Outputs>,
) -> Vec<(&'static str, AnySampler<M::Error>)>
where
    M: LanguageModel<Sequence: Send> + Clone + Send + 'static,
{
    let smc = |twisted| Smc { particles: 6, threshold: 0.7, twisted, max_tries: 100, ..Smc::default() };
    let drafted = |policy| {
        let Task { model, .. } = task();
        Sampling::speculative(task(), policy, ModelDraft::new(model), SpeculationConfig::default()).unwrap()
    };
    let drafted_masked = {
        let Task { model, .. } = task();
        Sampling::speculative(task(), Masked::new(), ModelDraft::new(model), SpeculationConfig::default())
            .unwrap()
    };
    let truncation = Truncation::new(Some(2), None).unwrap();
    vec![
        ("masked", Box::new(Sampling::new(task(), Masked::new()))),
        ("truncated", Box::new(Sampling::new(task(), Masked::truncated(truncation)))),
        ("rejection", Box::new(Sampling::new(task(), Exact::rejection(100_000)))),
        ("rsft", Box::new(Sampling::new(task(), Exact::rsft(100_000)))),
        ("ars", Box::new(Sampling::new(task(), Exact::ars(100_000)))),
        ("cars", Box::new(Sampling::new(task(), Exact::cars(100_000)))),
        ("disc", Box::new(Sampling::new(task(), Exact::disc()))),
        ("top", Box::new(Sampling::new(task().among(2), Exact::disc()))),
        ("asap", Box::new(Sampling::new(task(), Asap::new(1_000)))),
        ("awrs", Box::new(Sampling::new(task(), Awrs::new(1_000)))),
        ("mcmc", Box::new(Sampling::new(task(), Mcmc::new(3, Cut::Prefix, 1_000)))),
        ("smc", Box::new(Sampling::new(task(), smc(false)))),
        ("twisted", Box::new(Sampling::new(task(), smc(true)))),
        ("beam", Box::new(Sampling::new(task(), Beam::new(3)))),
        ("greedy", Box::new(Sampling::new(task(), Greedy))),
        ("drafted", Box::new(drafted_masked)),
        ("drafted cars", Box::new(drafted(Exact::cars(100_000)))),
    ]
}

#[test]
fn every_sampler_draws_from_rows_elsewhere_as_from_rows_here() {
    let mut tasks = 0;
    for seed in 0..12 {
        let (table, constraint) = random_task(seed);
        if distribution(&table, &constraint).is_none() {
            continue;
        }
        tasks += 1;
        let place = |rows| -> Box<dyn LogitRows> {
            Box::new(Asked { rows, submissions: Arc::default(), reads: Arc::default() })
        };
        let here = || Task::new(warp(table.clone()), constraint.clone(), table.vocabulary(), 8);
        let model = || warp(Placed { table: table.clone(), place });
        let there = || Task::new(model(), constraint.clone(), table.vocabulary(), 8);
        for ((name, mut here), (_, mut there)) in samplers(&here).into_iter().zip(samplers(&there)) {
            let (mut left, mut right) = (Vec::new(), Vec::new());
            let ends = here.draw_many(40, &mut rng(seed), &mut left).err().map(|error| error.to_string());
            let other = there.draw_many(40, &mut rng(seed), &mut right).err().map(|error| error.to_string());
            assert_eq!(ends, other, "{name}");
            assert_eq!(left.len(), right.len(), "{name}");
            for (left, right) in left.iter().zip(&right) {
                let of = |draw: &Draw| (draw.tokens.clone(), draw.finish, draw.origin, draw.cost);
                assert_eq!(of(left), of(right), "{name}");
                let near = |left: f64, right: f64| left == right || (left - right).abs() < 1e-5;
                assert!(near(left.log_prob, right.log_prob), "{name}");
                assert!(near(left.log_weight, right.log_weight), "{name}");
            }
        }
    }
    assert!(tasks > 6);
}

fn warp<M: LanguageModel>(model: M) -> Warped<M> {
    Warped::new(model, 0.8, None).unwrap()
}

#[test]
fn masked_and_greedy_steps_are_one_submission_for_all_rows_of_a_pass() {
    let (submissions, reads) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let table = TableModel::uniform(["0", "1", "2"]);
    let place = |rows| -> Box<dyn LogitRows> {
        Box::new(Asked { rows, submissions: Arc::clone(&submissions), reads: Arc::clone(&reads) })
    };
    // No token is forced: the probability of a forced token is asked for afterwards.
    let constraint = outputs(["00", "01", "02", "10", "11", "12", "20", "21", "22", "1", "2"], 4);
    for method in [true, false] {
        let model = Placed { table: table.clone(), place };
        let task = Task { max_bytes: 0, ..Task::new(model, constraint.clone(), table.vocabulary(), 8) };
        let mut draws = Vec::new();
        let drawn = match method {
            true => Sampling::new(task, Masked::new()).draw_many(16, &mut rng(1), &mut draws),
            false => Sampling::new(task, Greedy).draw_many(16, &mut rng(1), &mut draws),
        };
        drawn.unwrap();
        let passes: u64 = draws.iter().map(|draw| draw.cost.passes).sum();
        let asked = submissions.swap(0, Relaxed);
        assert!(asked <= passes && reads.load(Relaxed) == 0, "{asked} questions in {passes} passes");
    }
}
