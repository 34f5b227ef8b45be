//! From the options of the command line to a sampler.

use std::num::{NonZeroU64, NonZeroUsize};

use unskew::{
    core::{Constraint, LanguageModel, Sampler},
    samplers::{
        Asap, Awrs, Beam, Cut, Exact, Greedy, Masked, Mcmc, SampleError, Sampling, Smc, SmcConfig, Task,
        Truncation,
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

/// The samplers that give up after a number of tries.
const REJECTING: &[SamplerKind] = &[
    SamplerKind::Rejection,
    SamplerKind::Rsft,
    SamplerKind::Ars,
    SamplerKind::Cars,
    SamplerKind::Asap,
    SamplerKind::Awrs,
    SamplerKind::Smc,
    SamplerKind::Mcmc,
];

impl SamplerOptions {
    /// The options that single samplers read: whether each is given, and which these are. All samplers read the others.
    fn of_single_samplers(&self) -> [(&'static str, bool, &'static [SamplerKind]); 11] {
        let (disc, asap) = (&[SamplerKind::Disc], &[SamplerKind::Asap]);
        let (smc, mcmc) = (&[SamplerKind::Smc], &[SamplerKind::Mcmc]);
        [
            ("--disc-k", self.disc_k.is_some(), disc),
            ("--disc-top-m", self.disc_top_m.is_some(), disc),
            ("--disc-form", self.disc_form.is_some(), disc),
            ("--asap-iterations", self.asap_iterations.is_some(), asap),
            ("--smc-particles", self.smc_particles.is_some(), smc),
            ("--smc-threshold", self.smc_threshold.is_some(), smc),
            ("--smc-twisted", self.smc_twisted, smc),
            ("--mcmc-steps", self.mcmc_steps.is_some(), mcmc),
            ("--mcmc-cut", self.mcmc_cut.is_some(), mcmc),
            ("--beams", self.beams.is_some(), &[SamplerKind::Beam]),
            ("--max-tries", self.max_tries.is_some(), REJECTING),
        ]
    }

    /// Refuses options that none of `kinds` reads; none of them is auto.
    pub(crate) fn check(&self, kinds: &[SamplerKind]) -> Result<()> {
        refuse_unread(&self.of_single_samplers(), kinds)
    }

    /// The most tries for one output.
    pub(crate) fn tries(&self) -> u64 {
        self.max_tries.map_or(100_000, NonZeroU64::get)
    }

    /// The width of a beam.
    pub(crate) fn beam(&self) -> NonZeroUsize {
        self.beams.unwrap_or(NonZeroUsize::new(8).expect("not zero"))
    }
}

/// Refuses the first of `options` that is given and that none of `kinds` reads.
pub(crate) fn refuse_unread(
    options: &[(&'static str, bool, &'static [SamplerKind])],
    kinds: &[SamplerKind],
) -> Result<()> {
    let unread = options
        .iter()
        .find(|(_, is_given, readers)| *is_given && !readers.iter().any(|kind| kinds.contains(kind)));
    let Some((flag, _, readers)) = unread else { return Ok(()) };
    let names = |kinds: &[SamplerKind]| kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
    Err(Failure::input(format!(
        "{flag} is for --sampler {}, and not for {}: leave it out, or name a sampler that reads it",
        names(readers),
        names(kinds)
    )))
}

/// Why a sampler has no output, with the options that help.
pub(crate) fn failed<E>(kind: SamplerKind, error: &SampleError<E>) -> Failure
where
    SampleError<E>: std::error::Error + 'static,
{
    let Failure::Other(message) = Failure::other(error) else { unreachable!("that is how it is made") };
    let way_out = match (error, kind) {
        (SampleError::NoOutput { .. }, SamplerKind::Beam) => {
            "a wider beam is --beams, longer outputs are --max-tokens"
        }
        (SampleError::NoOutput { .. }, kind) if REJECTING.contains(&kind) => {
            "more tries are --max-tries; --sampler disc ends within bounds, and --sampler masked never rejects"
        }
        (SampleError::NoOutput { .. }, _) => {
            "longer outputs are --max-tokens; --sampler masked never rejects"
        }
        _ => return Failure::Other(message),
    };
    Failure::Other(format!("{message} ({way_out})"))
}

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
        SamplerKind::Auto
            if options.disc_k.is_some() || options.disc_top_m.is_some() || options.disc_form.is_some() =>
        {
            (SamplerKind::Disc, Some("parameters of it are given"))
        }
        SamplerKind::Auto if options.max_tries.is_some() => {
            (SamplerKind::Cars, Some("a number of tries is given, and of exact samplers it needs the fewest"))
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
    if let Some(threshold) = smc_threshold
        && !(0.0..=1.0).contains(threshold)
    {
        return Err(Failure::input(format!("--smc-threshold must lie between 0 and 1, not at {threshold}")));
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
    let tries = options.tries();
    Ok(match choice.kind {
        SamplerKind::Ars => Box::new(Sampling::new(task, Exact::ars(tries))),
        SamplerKind::Cars => Box::new(Sampling::new(task, Exact::cars(tries))),
        SamplerKind::Asap => Box::new(Sampling::new(task, Asap::new(tries))),
        SamplerKind::Disc | SamplerKind::Auto => {
            let task = match options.disc_top_m {
                Some(top) => task.among(top.get()),
                None => task,
            };
            Box::new(Sampling::new(task, disc(options)))
        }
        _ => return Err(task),
    })
}

/// The most tries of a form of DISC whose number is not given: its budget ends them before.
const TRIES: u64 = 10_000;

/// DISC with the tries and the form that are given.
pub(crate) fn disc(options: &SamplerOptions) -> Exact {
    let k = options.disc_k.map(u64::from);
    match options.disc_form {
        None | Some(DiscForm::Learned) => k.map_or(Exact::disc(), |k| {
            Exact::disc().with_max_tries(k).with_budget(f64::INFINITY).with_particles(k)
        }),
        Some(DiscForm::Fresh) => k.map_or_else(
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
    let tries = options.tries();
    let task = match learning(options, choice, task) {
        Ok(sampler) => return sampler,
        Err(task) => task,
    };
    match (choice.kind, choice.after) {
        (SamplerKind::Masked, Some(truncation)) => {
            Box::new(Sampling::new(task, Masked::truncated(truncation)))
        }
        (SamplerKind::Masked, None) => Box::new(Sampling::new(task, Masked::new())),
        (SamplerKind::Rejection, _) => Box::new(Sampling::new(task, Exact::rejection(tries))),
        (SamplerKind::Rsft, _) => Box::new(Sampling::new(task, Exact::rsft(tries))),
        (SamplerKind::Awrs, _) => Box::new(Sampling::new(task, Awrs::new(tries))),
        (SamplerKind::Smc, _) => {
            let particles = options.smc_particles.map_or(10, NonZeroUsize::get);
            // Each population is as many tries as it has outputs.
            let tries = tries.div_ceil(particles as u64);
            let config = SmcConfig {
                particles,
                threshold: options.smc_threshold.unwrap_or(0.5),
                twisted: options.smc_twisted,
                max_tries: tries,
            };
            Box::new(Smc::new(task, config))
        }
        (SamplerKind::Mcmc, _) => {
            let cut = match options.mcmc_cut {
                None | Some(McmcCut::Prefix) => Cut::Prefix,
                Some(McmcCut::Priority) => Cut::Priority,
                Some(McmcCut::Restart) => Cut::Restart,
            };
            Box::new(Sampling::new(task, Mcmc::new(options.mcmc_steps.unwrap_or(10), cut, tries)))
        }
        (SamplerKind::Beam, _) => Box::new(Beam::new(task, options.beam().get())),
        (SamplerKind::Greedy, _) => Box::new(Sampling::new(task, Greedy)),
        (SamplerKind::Speculative | SamplerKind::Mentored, _) => unreachable!("speculation is made apart"),
        (kind, _) => unreachable!("{} learns", kind.name()),
    }
}
