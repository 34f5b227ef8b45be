//! From the options of the command line to a sampler.

use unskew::{
    core::{Constraint, LanguageModel, Sampler},
    samplers::{
        Ars, Asap, Awrs, Beam, Cars, Cut, Disc, DiscConfig, Form, Greedy, Masked, Mcmc, Rejection, Rsft,
        SampleError, Smc, SmcConfig, Task, Truncation,
    },
};

use crate::{
    args::{DiscForm, McmcCut, SamplerKind, SamplerOptions, TruncateOrder},
    error::{Failure, Result},
    resume::BoxedLearning,
};

/// From so many outputs on, a sampler that learns for all of them is chosen by default.
const MANY: usize = 10;

pub(crate) type BoxedSampler<'a, E> = Box<dyn Sampler<Error = SampleError<E>> + 'a>;

/// A sampler, and what is cut off before and after the mask.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) kind: SamplerKind,
    pub(crate) before: Option<Truncation>,
    after: Option<Truncation>,
    /// Why, where it was chosen for the user.
    why: Option<&'static str>,
    unconstrained: bool,
    /// Whether only the most probable tokens of each step are candidates.
    top_m: bool,
}

/// The sampler that the options name, or one fit for the number of outputs.
pub(crate) fn choose(
    asked: SamplerKind,
    options: &SamplerOptions,
    unconstrained: bool,
    outputs: usize,
) -> Result<Choice> {
    let SamplerOptions { top_k, top_p, truncate, smc_threshold, .. } = options;
    let (kind, why) = match asked {
        SamplerKind::Auto if unconstrained => {
            (SamplerKind::Masked, Some("nothing is forbidden, so that no sampler rejects"))
        }
        SamplerKind::Auto if options.disc_k.is_some() || options.disc_top_m.is_some() => {
            (SamplerKind::Disc, Some("parameters of it are given"))
        }
        SamplerKind::Auto if outputs >= MANY => {
            (SamplerKind::Cars, Some("of many outputs each learns for the next, and all are exact"))
        }
        SamplerKind::Auto => (SamplerKind::Disc, Some("for few outputs its model calls are bounded")),
        named => (named, None),
    };
    if truncate.is_some() && top_k.is_none() && top_p.is_none() {
        return Err(Failure::input("--truncate says when --top-k or --top-p apply; give one of them"));
    }
    if *truncate == Some(TruncateOrder::AfterMask) && kind != SamplerKind::Masked {
        return Err(Failure::input(
            "--truncate after-mask changes what is proposed and has no unbiased law; \
             use it with --sampler masked, or --truncate before-mask",
        ));
    }
    if !(0.0..=1.0).contains(smc_threshold) {
        return Err(Failure::input(format!(
            "--smc-threshold must lie between 0 and 1, not at {smc_threshold}"
        )));
    }
    let truncation = if top_k.is_none() && top_p.is_none() {
        None
    } else {
        Some(Truncation::new(*top_k, *top_p).map_err(|error| Failure::bad(&error))?)
    };
    let before = truncation.filter(|_| *truncate == Some(TruncateOrder::BeforeMask));
    let after = truncation.filter(|_| *truncate == Some(TruncateOrder::AfterMask));
    let top_m = kind == SamplerKind::Disc && options.disc_top_m.is_some();
    Ok(Choice { kind, before, after, why, unconstrained, top_m })
}

impl SamplerKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Masked => "masked",
            Self::Rejection => "rejection",
            Self::Rsft => "rsft",
            Self::Ars => "ars",
            Self::Cars => "cars",
            Self::Disc => "disc",
            Self::Asap => "asap",
            Self::Awrs => "awrs",
            Self::Smc => "smc",
            Self::Mcmc => "mcmc",
            Self::Beam => "beam",
            Self::Greedy => "greedy",
            Self::Speculative => "speculative",
            Self::Mentored => "mentored",
        }
    }

    /// Whether it always drafts, so that it is made by [`crate::speculate`].
    pub(crate) fn drafts(self) -> bool {
        matches!(self, Self::Speculative | Self::Mentored)
    }

    /// Whether what it learns can be kept.
    pub(crate) fn learns(self) -> bool {
        matches!(self, Self::Ars | Self::Asap | Self::Cars | Self::Disc | Self::Auto)
    }

    /// The law of its outputs, in a few words.
    pub(crate) fn law(self) -> &'static str {
        match self {
            Self::Masked => "not the model's law; outputs carry weights",
            Self::Rejection | Self::Rsft | Self::Ars | Self::Cars => {
                "the model's own law, given the constraint"
            }
            Self::Disc | Self::Auto => {
                "the model's own law, given the constraint, where an output was accepted"
            }
            Self::Asap => "the model's own law, given the constraint, after very many outputs",
            Self::Awrs => "not the model's law; outputs carry weights, whose mean is that of the constraint",
            Self::Smc => "near the model's own law, given the constraint; exact with the weights",
            Self::Mcmc => "the model's own law, given the constraint, after very many steps",
            Self::Speculative => "that of masked, not the model's; outputs carry weights",
            Self::Mentored => "within the given divergence of that of masked; outputs carry weights",
            Self::Beam | Self::Greedy => "no law: a search for probable outputs",
        }
    }
}

impl Choice {
    /// One line: what, with which law, and why.
    pub(crate) fn explain(&self) -> String {
        let law = match self.kind {
            SamplerKind::Masked | SamplerKind::Speculative if self.unconstrained && self.after.is_none() => {
                "the model's own law"
            }
            _ if self.top_m => {
                "the model's own law, given the constraint and that each token is among the most probable, where an output \
                 was accepted"
            }
            kind => kind.law(),
        };
        let why = self.why.map(|why| format!(" (chosen because {why})")).unwrap_or_default();
        format!("{}: {law}{why}", self.kind.name())
    }
}

/// The sampler of a choice whose bounds can be kept from run to run; gives the task back where there is none.
pub(crate) fn learning<'a, M, C>(
    options: &SamplerOptions,
    choice: &Choice,
    task: Task<M, C>,
) -> std::result::Result<BoxedLearning<'a, M::Error>, Task<M, C>>
where
    M: LanguageModel + 'a,
    C: Constraint + 'a,
{
    let tries = options.max_tries.get();
    Ok(match choice.kind {
        SamplerKind::Ars => Box::new(Ars::new(task, tries)),
        SamplerKind::Cars => Box::new(Cars::new(task, tries)),
        SamplerKind::Asap => Box::new(Asap::new(task, tries)),
        SamplerKind::Disc | SamplerKind::Auto => {
            let config = options.disc_k.map_or(DiscConfig::default(), |k| DiscConfig::published(k.into()));
            let form = match options.disc_form {
                None | Some(DiscForm::Learned) => Form::Learned,
                Some(DiscForm::Fresh) => Form::Fresh,
                Some(DiscForm::Reuse) => Form::Reuse,
            };
            let disc = Disc::new(task, DiscConfig { form, ..config });
            match options.disc_top_m {
                Some(top) => Box::new(disc.among(top.get())),
                None => Box::new(disc),
            }
        }
        _ => return Err(task),
    })
}

/// The sampler of a choice that does not [draft](SamplerKind::drafts).
pub(crate) fn boxed<'a, M, C>(
    options: &SamplerOptions,
    choice: &Choice,
    task: Task<M, C>,
) -> BoxedSampler<'a, M::Error>
where
    M: LanguageModel + 'a,
    C: Constraint + 'a,
{
    let tries = options.max_tries.get();
    let task = match learning(options, choice, task) {
        Ok(sampler) => return sampler,
        Err(task) => task,
    };
    match (choice.kind, choice.after) {
        (SamplerKind::Masked, Some(truncation)) => Box::new(Masked::new(task).truncated(truncation)),
        (SamplerKind::Masked, None) => Box::new(Masked::new(task)),
        (SamplerKind::Rejection, _) => Box::new(Rejection::new(task, tries)),
        (SamplerKind::Rsft, _) => Box::new(Rsft::new(task, tries)),
        (SamplerKind::Awrs, _) => Box::new(Awrs::new(task, tries)),
        (SamplerKind::Smc, _) => {
            let config = SmcConfig {
                particles: options.smc_particles.get(),
                threshold: options.smc_threshold,
                twisted: options.smc_twisted,
                max_tries: tries,
            };
            Box::new(Smc::new(task, config))
        }
        (SamplerKind::Mcmc, _) => {
            let cut = match options.mcmc_cut {
                McmcCut::Prefix => Cut::Prefix,
                McmcCut::Priority => Cut::Priority,
                McmcCut::Restart => Cut::Restart,
            };
            Box::new(Mcmc::new(task, options.mcmc_steps, cut, tries))
        }
        (SamplerKind::Beam, _) => Box::new(Beam::new(task, options.beams.get())),
        (SamplerKind::Greedy, _) => Box::new(Greedy::new(task)),
        (SamplerKind::Speculative | SamplerKind::Mentored, _) => unreachable!("speculation is made apart"),
        (kind, _) => unreachable!("{} learns", kind.name()),
    }
}
