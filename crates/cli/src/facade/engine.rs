//! From a [`Method`] to a sampler: the one file that calls the constructors of `unskew-samplers`.

use rand_core::Rng;
use unskew_core::Draw;
use unskew_grammars::{CountConfig, CountModel};
use unskew_samplers::{
    Asap, Awrs, Beam, Drawing, Exact, Greedy, Imh, Masked, Mcmc, Polled, Request as Rows, SampleError,
    Sampling, Smc, StateValues, Task, TrieFileError, Truncation, Twisted, Warped,
    speculative::{
        Budget, Drafter, ModelDraft, PromptLookup, ProposerDraft, SpeculationConfig, check_vocabularies,
    },
};

use super::{
    AnyModel, AnyModelError, Ended, Request,
    drafts::{Counts, Draft, Drafted},
    error::{Error, Result},
    method::{self, DiscForm, Method},
};

/// The model that samplers draw from: the user's, at a temperature and truncated before the mask.
pub(crate) type WarpedModel = Warped<AnyModel>;

/// The error of all samplers here.
pub(crate) type AnySampleError = SampleError<AnyModelError>;

/// A sampler of any kind.
pub(crate) type Engine = Box<dyn AnySampler + Send>;

/// A draw, and the share of speculation in it, where tokens were drafted.
pub(crate) type Drawn = Result<(Draw, Option<Drafted>), AnySampleError>;

/// The next event of a sampler: a draw, or a pass of the model.
pub(crate) enum Reached {
    Draw(Drawn),
    Pass,
}

/// A sampler that hands its draws over one by one, and works ahead.
pub(crate) trait AnySampler {
    /// Goes on to the next draw, or to a pass of the model, which [`evaluate`](Self::evaluate) makes. Draws that begin
    /// are taken off `left`; `None`: it is zero and none is under way, or a search is over.
    fn poll(&mut self, left: &mut usize, rng: &mut dyn Rng) -> Option<Reached>;

    /// Makes the pass.
    fn evaluate(&mut self) {}

    /// The rows that the pass asks for.
    fn wanted(&self) -> &[Rows] {
        &[]
    }

    /// The logarithm of its own estimate of `P(L)`, where it has one.
    fn log_mass(&mut self) -> Option<f64> {
        None
    }

    /// The bounds that it has learned.
    fn save(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Goes on from bounds, and gives up the draws under way; `None` where it learns none.
    fn load(&mut self, bytes: &[u8]) -> Option<Result<(), TrieFileError>> {
        let _ = bytes;
        None
    }

    /// Drops the draws under way, so that a search begins anew.
    fn give_up(&mut self) {}
}

/// The memory of the values that one sampler learns, in bytes.
const VALUES_BYTES: usize = 16 << 20;

/// The name that the prefixes are saved under.
const NAME: &str = "unskew generate";

impl<D: Drawing> AnySampler for Sampling<WarpedModel, D> {
    fn poll(&mut self, left: &mut usize, rng: &mut dyn Rng) -> Option<Reached> {
        Some(match self.poll_next(left, rng)? {
            Polled::Draw(draw) => Reached::Draw(
                draw.map(|draw| (draw, self.machine().take_speculation().as_ref().map(Drafted::new))),
            ),
            Polled::Rows => Reached::Pass,
        })
    }

    fn evaluate(&mut self) {
        Self::evaluate(self);
    }

    fn wanted(&self) -> &[Rows] {
        Self::wanted(self)
    }

    fn give_up(&mut self) {
        Self::give_up(self);
    }

    fn log_mass(&mut self) -> Option<f64> {
        self.machine().log_mass()
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        Some(Self::save(self, NAME))
    }

    fn load(&mut self, bytes: &[u8]) -> Option<Result<(), TrieFileError>> {
        Some(Self::load(self, NAME, bytes))
    }
}

/// When truncation applies. The two orders are different distributions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Truncate {
    /// The truncated model is the model.
    BeforeMask(Truncation),
    /// Tokens are cut off among those that the mask leaves: masked sampling only.
    AfterMask(Truncation),
}

impl Truncate {
    /// The `k` most probable tokens, or those that together reach the probability `p`, or those of them that are in
    /// both.
    ///
    /// # Errors
    ///
    /// [`Error::Truncation`] where a limit is none.
    pub fn top(k: Option<usize>, p: Option<f64>) -> Result<Truncation> {
        Ok(Truncation::new(k, p)?)
    }

    pub(crate) fn before(this: Option<Self>) -> Option<Truncation> {
        match this {
            Some(Self::BeforeMask(truncation)) => Some(truncation),
            Some(Self::AfterMask(_)) | None => None,
        }
    }
}

/// The model at a temperature, truncated before the mask.
pub(crate) fn warped(model: AnyModel, temperature: f64, truncate: Option<Truncate>) -> Result<WarpedModel> {
    Ok(Warped::new(model, temperature, Truncate::before(truncate))?)
}

/// The sampler of a method without a draft, for the outputs of a request.
pub(crate) fn engine(method: &Method, request: &Request, task: Task<WarpedModel, Ended>) -> Engine {
    match *method {
        Method::Masked => match request.truncate {
            Some(Truncate::AfterMask(truncation)) => {
                Box::new(Sampling::new(task, Masked::truncated(truncation)))
            }
            Some(Truncate::BeforeMask(_)) | None => Box::new(Sampling::new(task, Masked::new())),
        },
        // The two that draft are made below; without a draft they are masked sampling.
        Method::Speculative(_) | Method::Mentored(_) => Box::new(Sampling::new(task, Masked::new())),
        Method::Rsft(limit) => Box::new(Sampling::new(task, Exact::rsft(limit.tries))),
        Method::Asap(asap) => Box::new(Sampling::new(task, Asap::new(asap.tries))),
        Method::Rejection(_) | Method::Ars(_) | Method::Cars(_) | Method::Disc(_) | Method::Auto(_) => {
            let task = match method {
                Method::Disc(method::Disc { top_m: Some(top), .. }) => task.among(top.get()),
                _ => task,
            };
            Box::new(Sampling::new(task, exact(method, request.expected())))
        }
        Method::Twisted(twisted) => {
            let policy = Twisted::new();
            let policy = match twisted.budget {
                Some(budget) => policy.with_budget(budget, twisted.tries),
                None => policy,
            };
            Box::new(Sampling::new(task, policy))
        }
        Method::Awrs(limit) => Box::new(Sampling::new(task, Awrs::new(limit.tries))),
        Method::Smc(smc) => {
            let particles = smc.n.get();
            // Each population is as many tries as it has outputs.
            let max_tries = smc.tries.div_ceil(particles as u64);
            let (threshold, twisted, all) = (smc.threshold, smc.twisted, smc.all);
            let values = smc.values.then(|| StateValues::new(VALUES_BYTES));
            Box::new(Sampling::new(task, Smc { particles, threshold, twisted, max_tries, all, values }))
        }
        Method::Mcmc(mcmc) => Box::new(Sampling::new(task, Mcmc::new(mcmc.steps, mcmc.cut, mcmc.tries))),
        Method::Imh(imh) => Box::new(Sampling::new(task, Imh::new(imh.steps, imh.tries))),
        Method::Beam(beam) => Box::new(Sampling::new(task, Beam::new(beam.n.get()).all())),
        Method::Greedy => Box::new(Sampling::new(task, Greedy)),
    }
}

/// The policy of an exact method that drafts make faster.
fn exact(method: &Method, outputs: u64) -> Exact {
    match method {
        Method::Rejection(limit) => Exact::rejection(limit.tries),
        Method::Ars(limit) => Exact::ars(limit.tries),
        Method::Cars(limit) => Exact::cars(limit.tries),
        Method::Disc(disc) => form(disc).for_outputs(outputs),
        _ => Exact::disc().for_outputs(outputs),
    }
}

/// The most tries of a form of DISC that learns nothing and is given no number: its budget ends them before.
const TRIES: u64 = 10_000;

/// A form of DISC, with its tries.
fn form(disc: &method::Disc) -> Exact {
    let k = disc.k.map(u64::from);
    let particles = k.unwrap_or(Exact::DISC_PARTICLES);
    let form = match disc.form {
        None | Some(DiscForm::Learned) => {
            Exact::disc().with_max_tries(k.unwrap_or(u64::MAX)).with_particles(particles)
        }
        Some(DiscForm::Published) => Exact::disc_published(particles).with_max_tries(k.unwrap_or(TRIES)),
        Some(DiscForm::Reuse) => Exact::disc_reusing(k.unwrap_or(TRIES)),
    };
    let budget = if k.is_some() { f64::INFINITY } else { Exact::DISC_BUDGET };
    form.with_budget(disc.budget.unwrap_or(budget))
}

/// The sampler of a method over the drafts of another model, or of earlier outputs.
pub(crate) fn drafting(
    method: &Method,
    draft: &Draft,
    request: &Request,
    task: Task<WarpedModel, Ended>,
) -> Result<Engine> {
    let (config, outputs) = (speculation(method), request.expected());
    match draft {
        Draft::Ngram => drafted(method, outputs, task, ProposerDraft::new(PromptLookup::default()), config),
        // Each counts for itself, from its first output on.
        Draft::Counts => {
            let counts = Counts(CountModel::new(CountConfig::default()));
            drafted(method, outputs, task, ProposerDraft::new(counts), config)
        }
        Draft::Model(model) => {
            check_vocabularies(request.tokens().vocabulary(), model.tokens().vocabulary())?;
            let draft = warped(model.any_model().clone(), request.temperature, request.truncate)?;
            drafted(method, outputs, task, ModelDraft::new(draft), config)
        }
    }
}

pub(crate) fn counts_need_a_grammar() -> Error {
    Error::combination(
        "`draft_model` counts counts tokens by place in a `grammar` or `json_schema`; give one, or `draft_model` ngram",
    )
}

fn drafted(
    method: &Method,
    outputs: u64,
    task: Task<WarpedModel, Ended>,
    draft: impl Drafter<Ended> + Send + 'static,
    config: SpeculationConfig,
) -> Result<Engine> {
    Ok(match method {
        Method::Rejection(_) | Method::Ars(_) | Method::Cars(_) | Method::Disc(_) | Method::Auto(_) => {
            Box::new(Sampling::speculative(task, exact(method, outputs), draft, config)?)
        }
        Method::Asap(asap) => Box::new(Sampling::speculative(task, Asap::new(asap.tries), draft, config)?),
        _ => Box::new(Sampling::speculative(task, Masked::new(), draft, config)?),
    })
}

fn speculation(method: &Method) -> SpeculationConfig {
    let budget = match method {
        Method::Mentored(mentored) => mentored.budget,
        _ => Budget::Lossless,
    };
    let length = method.length().unwrap_or_default();
    SpeculationConfig { length, budget, ..SpeculationConfig::default() }
}
