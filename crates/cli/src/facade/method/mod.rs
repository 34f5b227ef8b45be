//! The samplers by name, with their parameters: the one table that the library, the command line and its help read.
//!
//! A method is written as its name and its parameters, `smc:n=10,twisted`. Each row of [`METHODS`] names the
//! parameters that the method takes, with type, default and limit, and states the distribution of its outputs.
//! Parsing gives a [`Method`], a type in which a method has its own parameters and no others.
//!
//! Tried instead: one struct with the parameters of all methods. Each sampler then had to refuse the parameters of
//! the others, and the command line had an option for each of them.

mod parameter;
mod table;

use std::{fmt, num::NonZeroUsize, str::FromStr};

use unskew_samplers::{
    Cut,
    speculative::{Budget, DraftLength},
};

pub use parameter::{MethodInfo, Parameter, ParameterKind};
pub use table::METHODS;

use parameter::Given;
#[cfg(feature = "command-line")]
pub(crate) use parameter::{named_value, named_values};

/// The most tries for one output where nothing else is said.
pub(crate) const TRIES: u64 = 100_000;

/// CARS without other parameters.
const CARS: Rejecting = Rejecting { tries: TRIES, length: None };

/// A sampler and its parameters.
///
/// # Example
///
/// ```
/// use unskew::{Method, MethodError};
///
/// let method: Method = "smc:n=10,twisted".parse()?;
/// assert_eq!(method.name(), "smc");
/// let error = "smc:k=3".parse::<Method>().unwrap_err();
/// assert!(error.to_string().starts_with("smc has no parameter `k`; it has n, threshold, twisted, values, all, tries"));
/// # Ok::<(), MethodError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Method {
    /// A sampler fit for the constraint and for what an output may cost.
    Auto(Auto),
    /// Each token from the tokens that the mask leaves.
    Masked,
    /// Outputs of the model that satisfy the constraint.
    Rejection(Rejecting),
    /// Rejection with a masked first token.
    Rsft(Tries),
    /// Rejection that learns from each failure.
    Ars(Rejecting),
    /// Rejection that learns everything that a mask forbids.
    Cars(Rejecting),
    /// Masked proposals, accepted with the probability that makes them exact, resampled after many refusals.
    Disc(Disc),
    /// Masked sampling that learns the mass of the prefixes of its outputs.
    Asap(Asap),
    /// Masked sampling that learns which states of the constraint lead where.
    Twisted(Twisted),
    /// Masked sampling that asks about single tokens.
    Awrs(Tries),
    /// Populations of outputs, resampled by weight.
    Smc(Smc),
    /// A chain of valid outputs.
    Mcmc(Mcmc),
    /// A chain of valid outputs, each proposed as a whole by learned values.
    Imh(Imh),
    /// A search for the most probable outputs.
    Beam(Beam),
    /// The most probable token each time.
    Greedy,
    /// The distribution of masked, in fewer passes by means of drafts.
    Speculative(Speculative),
    /// Speculative within a stated divergence.
    Mentored(Mentored),
}

/// The parameters of the choice of a method.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Auto {
    /// The mean number of rollouts that an output may cost; `None`: as many as an unbiased output needs.
    pub budget: Option<f64>,
    /// Every output is exact, and none is resampled where many tries fail.
    pub exact: bool,
}

/// The parameter of methods that reject outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tries {
    /// The most tries for one output.
    pub tries: u64,
}

/// The parameters of methods that reject outputs, and that drafts make faster.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rejecting {
    /// The most tries for one output.
    pub tries: u64,
    /// With a draft: how many tokens it drafts at once.
    pub length: Option<DraftLength>,
}

/// The parameters of DISC.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Disc {
    /// The number of tries, and then of proposals to resample; `None`: tries within the budget, then 8 proposals.
    pub k: Option<u32>,
    /// No try begins once the tries of a run have drawn, for each of its outputs, this many times the length limit in
    /// tokens at prefixes that were not known. `None`: 4, or any number where `k` bounds the tries.
    pub budget: Option<f64>,
    /// Only this many of the most probable tokens of each step are candidates.
    pub top_m: Option<NonZeroUsize>,
    /// Which proposals are made and resampled; `None`: learned.
    pub form: Option<DiscForm>,
    /// With a draft: how many tokens it drafts at once.
    pub length: Option<DraftLength>,
}

/// The forms of DISC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiscForm {
    /// Proposals learn from refused tries; fresh ones are resampled.
    Learned,
    /// Masked proposals; fresh ones are resampled, as in the paper.
    Published,
    /// Masked proposals; the refused ones are resampled.
    Reuse,
}

/// The parameters of ASAp.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Asap {
    /// Outputs that are drawn and only learned from, before the first that is given out.
    pub iterations: u64,
    /// The most tries for one output.
    pub tries: u64,
    /// With a draft: how many tokens it drafts at once.
    pub length: Option<DraftLength>,
}

/// The parameters of twisted proposals.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Twisted {
    /// The mean number of rollouts for an output, one of which is kept by its weight; `None`: one, which is kept.
    pub budget: Option<f64>,
    /// The most tries for one output.
    pub tries: u64,
}

/// The parameters of sequential Monte Carlo.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Smc {
    /// The outputs of a population.
    pub n: NonZeroUsize,
    /// A population is resampled when its effective number is below this share: 0 never, 1 always.
    pub threshold: f64,
    /// Whether it uses the bounds that earlier populations have learned.
    pub twisted: bool,
    /// Whether it proposes by values of the constraint's states, which it learns, and weighs by them.
    pub values: bool,
    /// Whether a population gives all of its outputs, each with its weight, and not one of them.
    pub all: bool,
    /// The most tries for one output; each output of a population is a try.
    pub tries: u64,
}

/// The parameters of MCMC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mcmc {
    /// The steps of a chain.
    pub steps: u64,
    /// Where an output is cut to be written anew.
    pub cut: Cut,
    /// The most tries for one output.
    pub tries: u64,
}

/// The parameters of independent Metropolis-Hastings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Imh {
    /// The steps of a chain.
    pub steps: u64,
    /// The most tries for one output.
    pub tries: u64,
}

/// The parameter of beam search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beam {
    /// The width of the beam; it is at least the number of outputs.
    pub n: NonZeroUsize,
}

/// The parameter of speculative sampling.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Speculative {
    /// How many tokens are drafted at once.
    pub length: Option<DraftLength>,
}

/// The parameters of mentored decoding.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mentored {
    /// The Kullback-Leibler divergence that may be spent, in nats, on each drafted token or on an output.
    pub budget: Budget,
    /// How many tokens are drafted at once.
    pub length: Option<DraftLength>,
}

/// A method that is not in the table, or a parameter that it does not take.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MethodError {
    /// No method has this name.
    #[error("there is no sampler `{name}`; there are {}", table::names())]
    Unknown {
        /// The name.
        name: String,
    },
    /// The method has no such parameter.
    #[error("{method} has no parameter `{parameter}`; it has {known}")]
    NoSuchParameter {
        /// The method.
        method: &'static str,
        /// The parameter.
        parameter: String,
        /// The parameters that it has.
        known: String,
    },
    /// A parameter is given twice.
    #[error("{method}: the parameter `{parameter}` is given twice")]
    Twice {
        /// The method.
        method: &'static str,
        /// The parameter.
        parameter: &'static str,
    },
    /// A parameter without which the method cannot be.
    #[error("{method} needs the parameter `{parameter}`: {help}, as in {method}:{parameter}=0.1")]
    Missing {
        /// The method.
        method: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// Its meaning.
        help: &'static str,
    },
    /// A value that a parameter does not take.
    #[error("{method}: `{parameter}` is not {value:?}: {why}")]
    Value {
        /// The method.
        method: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The value.
        value: String,
        /// The values that it takes.
        why: String,
    },
}

impl FromStr for Method {
    type Err = MethodError;

    fn from_str(text: &str) -> Result<Self, MethodError> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let row = MethodInfo::find(name.trim())
            .ok_or_else(|| MethodError::Unknown { name: name.trim().to_owned() })?;
        (row.read)(&Given::new(row, parameters)?)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Method {
    /// The name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Auto(_) => "auto",
            Self::Masked => "masked",
            Self::Rejection(_) => "rejection",
            Self::Rsft(_) => "rsft",
            Self::Ars(_) => "ars",
            Self::Cars(_) => "cars",
            Self::Disc(_) => "disc",
            Self::Asap(_) => "asap",
            Self::Twisted(_) => "twist",
            Self::Awrs(_) => "awrs",
            Self::Smc(_) => "smc",
            Self::Mcmc(_) => "mcmc",
            Self::Imh(_) => "imh",
            Self::Beam(_) => "beam",
            Self::Greedy => "greedy",
            Self::Speculative(_) => "speculative",
            Self::Mentored(_) => "mentored",
        }
    }

    /// The row of the table.
    ///
    /// # Panics
    ///
    /// Never: a test compares the two.
    pub fn info(&self) -> &'static MethodInfo {
        MethodInfo::find(self.name()).expect("every method has a row")
    }

    /// The distribution of its outputs, in a few words.
    pub fn distribution(&self) -> &'static str {
        match self {
            Self::Disc(Disc { top_m: Some(_), .. }) => {
                "the model's own distribution, given the constraint and that each token is among the most probable, where an \
                 output was accepted"
            }
            _ => self.info().distribution,
        }
    }

    /// Whether it cannot be without a draft.
    pub fn needs_draft(&self) -> bool {
        matches!(self, Self::Speculative(_) | Self::Mentored(_))
    }

    /// Whether a draft can make it faster.
    pub fn may_draft(&self) -> bool {
        let drafts =
            matches!(self, Self::Rejection(_) | Self::Ars(_) | Self::Cars(_) | Self::Asap(_) | Self::Disc(_));
        drafts || self.needs_draft()
    }

    /// How many tokens are drafted at once, where that is said.
    pub(crate) fn length(&self) -> Option<DraftLength> {
        match self {
            Self::Rejection(Rejecting { length, .. })
            | Self::Ars(Rejecting { length, .. })
            | Self::Cars(Rejecting { length, .. })
            | Self::Asap(Asap { length, .. })
            | Self::Disc(Disc { length, .. })
            | Self::Speculative(Speculative { length })
            | Self::Mentored(Mentored { length, .. }) => *length,
            _ => None,
        }
    }

    /// The method itself, or for [`Method::Auto`] the one that it chooses, and why.
    #[must_use]
    pub fn resolve(self, unconstrained: bool) -> (Self, Option<&'static str>) {
        match self {
            Self::Auto(_) if unconstrained => {
                (Self::Masked, Some("nothing is forbidden, so that no sampler rejects"))
            }
            Self::Auto(Auto { exact: true, .. }) => (
                Self::Cars(CARS),
                Some("it resamples nothing, and of exact samplers it needs the fewest tries"),
            ),
            Self::Auto(Auto { budget: Some(budget), .. }) => (
                Self::Twisted(Twisted { budget: (budget > 1.0).then_some(budget), tries: TRIES }),
                Some("within a budget of rollouts it is the nearest to the model"),
            ),
            Self::Auto(_) => (
                Self::Disc(Disc::default()),
                Some("each output learns for the next, and what they cost together is bounded"),
            ),
            named => (named, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that a parameter takes and that is not its default.
    fn other(parameter: &Parameter) -> String {
        match &parameter.kind {
            ParameterKind::Switch => "true".to_owned(),
            ParameterKind::Whole(..) => "7".to_owned(),
            ParameterKind::Number(least, _) => (least + 0.25).to_string(),
            ParameterKind::Words(words) => words.last().unwrap().0.to_owned(),
            ParameterKind::Length => "3".to_owned(),
        }
    }

    #[test]
    fn every_row_is_a_method_and_every_parameter_changes_it() {
        for row in METHODS {
            let needed = if row.name == "mentored" { "kl=0.5" } else { "" };
            let plain: Method = format!("{}:{needed}", row.name).parse().unwrap();
            assert_eq!((plain.name(), plain.info().name), (row.name, row.name));
            assert!(!row.help.is_empty() && !row.distribution.is_empty());
            for parameter in row.parameters {
                let needed = if parameter.name == "kl" { "" } else { needed };
                let text = format!("{}:{needed},{}={}", row.name, parameter.name, other(parameter));
                assert_ne!(text.parse::<Method>().unwrap(), plain, "{text}");
                // A list of methods tells a parameter from the next method.
                assert!(MethodInfo::find(parameter.name).is_none(), "{}", parameter.name);
                let default = (parameter.default, parameter.kind.check(parameter.default));
                assert!(default.0.is_empty() || default.1.is_ok(), "{text}");
                if !default.0.is_empty() {
                    let text = format!("{}:{needed},{}={}", row.name, parameter.name, default.0);
                    let said = text.parse::<Method>().unwrap();
                    assert!(said == plain || parameter.name == "length", "{text}");
                }
            }
        }
    }

    #[test]
    fn one_line_says_what_is_wrong() {
        let refusal = |text: &str| text.parse::<Method>().unwrap_err().to_string();
        for (text, message) in [
            ("fair", "there is no sampler `fair`; there are auto, masked, rejection"),
            (
                "auto:exact,budget=2",
                "auto: `exact` is not \"true\": an exact output costs as many rollouts as it needs",
            ),
            ("masked:k=1", "masked has no parameter `k`; it has none"),
            ("disc:n=1", "disc has no parameter `n`; it has k, budget, top_m, form, length"),
            ("disc:k=1,k=2", "disc: the parameter `k` is given twice"),
            ("disc:k", "disc: `k` is not \"\": give a whole number from 0 to "),
            ("disc:budget=-1", "disc: `budget` is not \"-1\": it must lie between 0 and 1000000"),
            ("disc:form=old", "disc: `form` is not \"old\": it is learned, published, reuse"),
            ("smc:twisted=2", "it is given without a value"),
            ("smc:threshold=2", "it must lie between 0 and 1"),
            ("mentored", "mentored needs the parameter `kl`: the Kullback-Leibler divergence"),
            ("mentored:kl=-1", "give a number from 0 on"),
            ("mentored:kl=nan", "give a number from 0 on"),
            ("speculative:length=long", "give `auto`, or a number of tokens up to "),
        ] {
            assert!(refusal(text).contains(message), "{text}: {}", refusal(text));
        }
        assert_eq!("smc: n=4 , twisted".parse::<Method>(), "smc:n=4,twisted=true".parse());
    }
}
