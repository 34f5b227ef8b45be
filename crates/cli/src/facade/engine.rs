//! From a [`Method`] to a sampler: the one file that calls the constructors of `unskew-samplers`.

use unskew_core::{AnyConstraint, Constraint, LanguageModel, Sampler};
use unskew_engine::TokenSpace;
use unskew_grammars::{CountConfig, CountModel};
use unskew_samplers::{
    Asap, Awrs, Beam, Cut, Exact, Greedy, Masked, Mcmc, SampleError, Sampling, Smc, SmcConfig, Task,
    TrieFileError, Truncation, Warped,
    speculative::{
        Budget, DraftLength, Drafter, ModelDraft, PromptLookup, ProposerDraft, SpeculationConfig,
        check_vocabularies,
    },
};

use super::{
    AnyModel, AnyModelError,
    drafts::{Counts, Draft, Shared, Tallied, Tallies},
    error::{Error, Result},
    method::{self, BudgetKind, DiscForm, Length, McmcCut, Method},
};

/// The model that samplers draw from: the user's, at a temperature and truncated before the mask.
pub(crate) type WarpedModel = Warped<AnyModel>;

/// The error of all samplers here.
pub(crate) type AnySampleError = SampleError<AnyModelError>;

/// A sampler of any kind.
pub(crate) type AnySampler = Box<dyn Sampler<Error = AnySampleError>>;

/// A sampler whose bounds can be kept from one run to the next.
pub(crate) trait Learning: Sampler {
    fn save(&mut self) -> Vec<u8>;
    fn load(&mut self, bytes: &[u8]) -> Result<(), TrieFileError>;
}

/// The name that the prefixes are saved under.
const NAME: &str = "unskew generate";

macro_rules! learning {
    ($($policy:ident),*) => {
        $(impl<M: LanguageModel, C: Constraint> Learning for Sampling<M, C, $policy> {
            fn save(&mut self) -> Vec<u8> {
                Sampling::save(self, NAME)
            }
            fn load(&mut self, bytes: &[u8]) -> Result<(), TrieFileError> {
                Sampling::load(self, NAME, bytes)
            }
        })*
    };
}

learning!(Asap, Exact);

impl<S: Learning> Learning for Tallied<S> {
    fn save(&mut self) -> Vec<u8> {
        self.sampler.save()
    }
    fn load(&mut self, bytes: &[u8]) -> Result<(), TrieFileError> {
        self.sampler.load(bytes)
    }
}

/// A sampler, by the way in which outputs are taken from it. The tallies are those of its drafts, where it has a drafter.
pub(crate) enum Engine {
    Plain(AnySampler, Option<Tallies>),
    Learning(Box<dyn Learning<Error = AnySampleError>>, Option<Tallies>),
    /// A search, which finds all of its outputs at once.
    Search(Box<Beam<WarpedModel, AnyConstraint>>),
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
    /// The `k` most probable tokens, or those that together reach the probability `p`, or those of them that are in both.
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

/// The sampler of a method without a draft.
pub(crate) fn engine(
    method: &Method,
    truncate: Option<Truncate>,
    task: Task<WarpedModel, AnyConstraint>,
) -> Engine {
    let plain: AnySampler = match *method {
        Method::Masked => match truncate {
            Some(Truncate::AfterMask(truncation)) => {
                Box::new(Sampling::new(task, Masked::truncated(truncation)))
            }
            Some(Truncate::BeforeMask(_)) | None => Box::new(Sampling::new(task, Masked::new())),
        },
        // The two that draft are made below; without a draft they are masked sampling.
        Method::Speculative(_) | Method::Mentored(_) => Box::new(Sampling::new(task, Masked::new())),
        Method::Rsft(limit) => Box::new(Sampling::new(task, Exact::rsft(limit.tries))),
        Method::Asap(asap) => {
            return Engine::Learning(Box::new(Sampling::new(task, Asap::new(asap.tries))), None);
        }
        Method::Rejection(_) | Method::Ars(_) | Method::Cars(_) | Method::Disc(_) | Method::Auto => {
            let task = match method {
                Method::Disc(method::Disc { top_m: Some(top), .. }) => task.among(top.get()),
                _ => task,
            };
            let policy = exact(method);
            return match method {
                Method::Rejection(_) => Engine::Plain(Box::new(Sampling::new(task, policy)), None),
                _ => Engine::Learning(Box::new(Sampling::new(task, policy)), None),
            };
        }
        Method::Awrs(limit) => Box::new(Sampling::new(task, Awrs::new(limit.tries))),
        Method::Smc(smc) => {
            let particles = smc.n.get();
            // Each population is as many tries as it has outputs.
            let max_tries = smc.tries.div_ceil(particles as u64);
            let (threshold, twisted) = (smc.threshold, smc.twisted);
            Box::new(Smc::new(task, SmcConfig { particles, threshold, twisted, max_tries }))
        }
        Method::Mcmc(mcmc) => {
            let cut = match mcmc.cut {
                McmcCut::Prefix => Cut::Prefix,
                McmcCut::Priority => Cut::Priority,
                McmcCut::Restart => Cut::Restart,
            };
            Box::new(Sampling::new(task, Mcmc::new(mcmc.steps, cut, mcmc.tries)))
        }
        Method::Beam(beam) => return Engine::Search(Box::new(Beam::new(task, beam.n.get()))),
        Method::Greedy => Box::new(Sampling::new(task, Greedy)),
    };
    Engine::Plain(plain, None)
}

/// The policy of an exact method that drafts make faster.
fn exact(method: &Method) -> Exact {
    match method {
        Method::Rejection(limit) => Exact::rejection(limit.tries),
        Method::Ars(limit) => Exact::ars(limit.tries),
        Method::Cars(limit) => Exact::cars(limit.tries),
        Method::Disc(disc) => form(disc),
        _ => Exact::disc(),
    }
}

/// The most tries of a form of DISC whose number is not given: its budget ends them before.
const TRIES: u64 = 10_000;

/// A form of DISC, with its tries.
fn form(disc: &method::Disc) -> Exact {
    let k = disc.k.map(u64::from);
    match disc.form {
        None | Some(DiscForm::Learned) => k.map_or(Exact::disc(), |k| {
            Exact::disc().with_max_tries(k).with_budget(f64::INFINITY).with_particles(k)
        }),
        Some(DiscForm::Published) => k.map_or_else(
            || {
                Exact::disc_published(Exact::DISC_PARTICLES)
                    .with_max_tries(TRIES)
                    .with_budget(Exact::DISC_BUDGET)
            },
            Exact::disc_published,
        ),
        Some(DiscForm::Reuse) => {
            k.map_or_else(|| Exact::disc_reusing(TRIES).with_budget(Exact::DISC_BUDGET), Exact::disc_reusing)
        }
    }
}

/// The model whose drafts are verified; a draft has the same tokens and is warped alike.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) tokens: &'a TokenSpace,
    pub(crate) temperature: f64,
    pub(crate) truncate: Option<Truncate>,
}

/// The sampler of a method over the drafts of another model, or of earlier outputs.
pub(crate) fn drafting(
    method: &Method,
    draft: &Draft,
    task: Task<WarpedModel, AnyConstraint>,
    target: Target<'_>,
) -> Result<Engine> {
    let config = speculation(method);
    match draft {
        Draft::Ngram => tallied(method, task, ProposerDraft::new(PromptLookup::default()), config),
        Draft::Counts => Err(counts_need_a_grammar()),
        Draft::Model(model) => {
            check_vocabularies(target.tokens.vocabulary(), model.tokens().vocabulary())?;
            let draft = warped(model.any_model().clone(), target.temperature, target.truncate)?;
            tallied(method, task, ModelDraft::new(draft), config)
        }
    }
}

pub(crate) fn counts_need_a_grammar() -> Error {
    Error::combination(
        "`draft_model` counts counts tokens by place in a `grammar` or `json_schema`; give one, or `draft_model` ngram",
    )
}

/// The sampler of a method over counts by place in a grammar. Each counts for itself, from its first output on.
pub(crate) fn counting(method: &Method, task: Task<WarpedModel, Shared>) -> Result<Engine> {
    let counts = Counts(CountModel::new(CountConfig::default()));
    tallied(method, task, ProposerDraft::new(counts), speculation(method))
}

fn tallied<C, D>(
    method: &Method,
    task: Task<WarpedModel, C>,
    draft: D,
    config: SpeculationConfig,
) -> Result<Engine>
where
    C: Constraint + 'static,
    D: Drafter<C> + 'static,
{
    let tallies = Tallies::default();
    let own = Tallies::clone(&tallies);
    Ok(match method {
        Method::Rejection(_) => {
            let sampler = Sampling::speculative(task, exact(method), draft, config)?;
            let take = |sampler: &mut Sampling<_, _, Exact>| sampler.scheduler().take_speculation();
            Engine::Plain(Box::new(Tallied { sampler, take, tallies: own }), Some(tallies))
        }
        Method::Ars(_) | Method::Cars(_) | Method::Disc(_) | Method::Auto => {
            let sampler = Sampling::speculative(task, exact(method), draft, config)?;
            let take = |sampler: &mut Sampling<_, _, Exact>| sampler.scheduler().take_speculation();
            Engine::Learning(Box::new(Tallied { sampler, take, tallies: own }), Some(tallies))
        }
        Method::Asap(asap) => {
            let sampler = Sampling::speculative(task, Asap::new(asap.tries), draft, config)?;
            let take = |sampler: &mut Sampling<_, _, Asap>| sampler.scheduler().take_speculation();
            Engine::Learning(Box::new(Tallied { sampler, take, tallies: own }), Some(tallies))
        }
        _ => {
            let sampler = Sampling::speculative(task, Masked::new(), draft, config)?;
            let take = |sampler: &mut Sampling<_, _, Masked>| sampler.scheduler().take_speculation();
            Engine::Plain(Box::new(Tallied { sampler, take, tallies: own }), Some(tallies))
        }
    })
}

fn speculation(method: &Method) -> SpeculationConfig {
    let budget = match method {
        Method::Mentored(mentored) => match mentored.budget {
            BudgetKind::Token => Budget::Token(mentored.kl),
            BudgetKind::Sequence => Budget::sequence(mentored.kl),
        },
        _ => Budget::Lossless,
    };
    let length = match method.length() {
        Some(Length::Fixed(length)) => DraftLength::Fixed(length),
        Some(Length::Auto) | None => DraftLength::default(),
    };
    SpeculationConfig { length, budget, ..SpeculationConfig::default() }
}
