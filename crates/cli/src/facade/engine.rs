//! From a [`Method`] to a sampler: the one file that calls the constructors of `unskew-samplers`.

use unskew_core::{AnyConstraint, Constraint, LanguageModel, Sampler};
use unskew_grammars::{CountConfig, CountModel};
use unskew_samplers::{
    Ars, Asap, Awrs, Beam, Cars, Cut, Disc, DiscConfig, Form, Greedy, Masked, Mcmc, Rejection, Rsft,
    SampleError, Smc, SmcConfig, Task, TrieFileError, Truncation, Warped,
    speculative::{
        Budget, Draft as Drafter, DraftLength, ModelDraft, Ngram, ProposerDraft, Speculative,
        SpeculativeConfig, Under, check_vocabularies,
    },
};

use super::{
    AnyModel, AnyModelError,
    drafts::{Counts, Draft, Shared, Tallied, Tallies},
    error::{Error, Result},
    method::{self, BudgetKind, DiscForm, Length, McmcCut, Method},
    tokens::TokenSpace,
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
    ($($sampler:ident),*) => {
        $(impl<M: LanguageModel, C: Constraint> Learning for $sampler<M, C> {
            fn save(&mut self) -> Vec<u8> {
                self.save(NAME)
            }
            fn load(&mut self, bytes: &[u8]) -> Result<(), TrieFileError> {
                self.load(NAME, bytes)
            }
        })*
    };
}

learning!(Ars, Asap, Cars, Disc);

/// A sampler, by the way in which outputs are taken from it.
pub(crate) enum Engine {
    Plain(AnySampler),
    Learning(Box<dyn Learning<Error = AnySampleError>>),
    Drafting(AnySampler, Tallies),
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

/// The sampler of a method that does not draft.
pub(crate) fn engine(
    method: &Method,
    truncate: Option<Truncate>,
    task: Task<WarpedModel, AnyConstraint>,
) -> Engine {
    let plain: AnySampler = match *method {
        Method::Masked => match truncate {
            Some(Truncate::AfterMask(truncation)) => Box::new(Masked::new(task).truncated(truncation)),
            Some(Truncate::BeforeMask(_)) | None => Box::new(Masked::new(task)),
        },
        // The two that draft are made below; without a draft they are masked sampling.
        Method::Speculative(_) | Method::Mentored(_) => Box::new(Masked::new(task)),
        Method::Rejection(rejecting) => Box::new(Rejection::new(task, rejecting.tries)),
        Method::Rsft(limit) => Box::new(Rsft::new(task, limit.tries)),
        Method::Ars(limit) => return Engine::Learning(Box::new(Ars::new(task, limit.tries))),
        Method::Cars(limit) => return Engine::Learning(Box::new(Cars::new(task, limit.tries))),
        Method::Asap(asap) => return Engine::Learning(Box::new(Asap::new(task, asap.tries))),
        Method::Disc(disc) => return Engine::Learning(self::disc(disc, task)),
        Method::Auto => return Engine::Learning(self::disc(method::Disc::default(), task)),
        Method::Awrs(limit) => Box::new(Awrs::new(task, limit.tries)),
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
            Box::new(Mcmc::new(task, mcmc.steps, cut, mcmc.tries))
        }
        Method::Beam(beam) => return Engine::Search(Box::new(Beam::new(task, beam.n.get()))),
        Method::Greedy => Box::new(Greedy::new(task)),
    };
    Engine::Plain(plain)
}

fn disc(
    disc: method::Disc,
    task: Task<WarpedModel, AnyConstraint>,
) -> Box<dyn Learning<Error = AnySampleError>> {
    let form = match disc.form {
        None | Some(DiscForm::Learned) => Form::Learned,
        Some(DiscForm::Published) => Form::Fresh,
        Some(DiscForm::Reuse) => Form::Reuse,
    };
    let sampler = Disc::new(task, DiscConfig { form, ..limits(&disc) });
    match disc.top_m {
        Some(top) => Box::new(sampler.among(top.get())),
        None => Box::new(sampler),
    }
}

/// How much DISC may try.
pub(crate) fn limits(disc: &method::Disc) -> DiscConfig {
    disc.k.map_or_else(DiscConfig::default, |k| DiscConfig::published(k.into()))
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
        Draft::Ngram => tallied(task, ProposerDraft::new(Ngram::default()), config),
        Draft::Counts => Err(counts_need_a_grammar()),
        Draft::Model(model) => {
            check_vocabularies(target.tokens.vocabulary(), model.tokens().vocabulary())?;
            let draft = warped(model.any_model().clone(), target.temperature, target.truncate)?;
            tallied(task, ModelDraft::new(draft), config)
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
    tallied(task, ProposerDraft::new(counts), speculation(method))
}

fn tallied<C, D>(task: Task<WarpedModel, C>, draft: D, config: SpeculativeConfig) -> Result<Engine>
where
    C: Constraint + 'static,
    D: Drafter<C, AnyModelError> + 'static,
{
    let sampler = Speculative::new(task, draft, config)?;
    let tallies = Tallies::default();
    Ok(Engine::Drafting(Box::new(Tallied { sampler, tallies: Tallies::clone(&tallies) }), tallies))
}

fn speculation(method: &Method) -> SpeculativeConfig {
    let under = match method {
        Method::Rejection(rejecting) => Under::Rejection { max_tries: rejecting.tries },
        Method::Disc(disc) => Under::Disc(DiscConfig { form: Form::Fresh, ..limits(disc) }),
        _ => Under::Masked,
    };
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
    SpeculativeConfig { length, budget, under, ..SpeculativeConfig::default() }
}
