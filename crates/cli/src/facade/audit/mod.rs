//! Audits: how far samplers are from the model's own distribution under a constraint, and their cost.
//!
//! [`Sampled`] holds the outputs of one sampler. [`Audit`] compares those of several with a target, in lines of
//! numbers ([`Line`]) and as a page ([`Audit::html`]). Where the distribution can be enumerated it is the target.
//! Elsewhere it is not known; the target is then that of grammar-aligned decoding (section 5): the model's
//! probabilities of all outputs that any sampler gave, normalised. A small sample has a distance from any
//! distribution, its own too: [`Line::kl_noise`] is about the size of it.

mod answers;
mod measure;
mod page;
mod report;

use std::collections::BTreeMap;

use unskew_core::{ExactDistribution, TokenId};
use unskew_engine::{TokenSpace, chain};
use unskew_samplers::Task;

use self::measure::{Distribution, by_text, line, mark_frontier, observed};
pub use self::measure::{LISTED, Line, Speculated};
use super::{Drafted, Ended, Method, Output, Request, Result, engine::WarpedModel};

/// The outputs of one sampler.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sampled {
    /// The sampler.
    pub method: Method,
    /// Its name with its parameters, as reports show it.
    pub label: String,
    /// The share of speculation in all outputs together, where tokens were drafted.
    pub drafted: Option<Drafted>,
    /// The outputs, in the order in which they were drawn.
    pub outputs: Vec<Output>,
    /// Why there are fewer than were asked for.
    pub error: Option<String>,
    /// The logarithm of P(constraint), as the sampler estimates it.
    pub log_mass: Option<f64>,
}

impl Sampled {
    /// Draws `count` outputs of `method`, a search giving its best one each time, and tells `each` how many there are
    /// after each of them. That the sampler gives up is a finding, not an error.
    ///
    /// # Errors
    ///
    /// As for [`Request::sample_with`].
    pub fn draw(request: Request, method: Method, count: usize, mut each: impl FnMut(usize)) -> Result<Self> {
        let label = method.name().to_owned();
        let mut sampled =
            Self { method, label, drafted: None, outputs: Vec::new(), error: None, log_mass: None };
        let mut draws = request.sample_with(method)?.take(count).best_each_time();
        for output in &mut draws {
            match output {
                Ok(output) => {
                    if let Some(drafted) = output.drafted {
                        *sampled.drafted.get_or_insert_with(Drafted::default) += drafted;
                    }
                    sampled.outputs.push(output);
                }
                Err(error) => sampled.error = Some(chain(&error)),
            }
            each(sampled.outputs.len());
        }
        sampled.log_mass = draws.log_mass();
        Ok(sampled)
    }

    /// The same under another label: two samplers of one name differ in their parameters.
    #[must_use]
    pub fn labelled(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }
}

/// Outputs of several samplers beside a target.
#[derive(Debug)]
pub struct Audit<'a> {
    sampled: &'a [Sampled],
    exact: Option<&'a ExactDistribution>,
    target: Distribution,
    /// The logarithm of the probability of all outputs that were observed, where they are the target.
    log_seen: Option<f64>,
    tokens: &'a TokenSpace,
}

/// The request, as a page states it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The constraint, in words.
    pub constraint: &'a str,
    /// The prompt.
    pub prompt: &'a str,
    /// The seed.
    pub seed: u64,
    /// The outputs that were asked of each sampler.
    pub samples: usize,
}

impl<'a> Audit<'a> {
    /// The outputs beside `exact`, the distribution that was enumerated, or beside the target that they make together.
    #[must_use]
    pub fn new(sampled: &'a [Sampled], exact: Option<&'a ExactDistribution>, tokens: &'a TokenSpace) -> Self {
        let (target, log_seen) = match exact {
            Some(outputs) => (outputs.iter().map(|(output, p)| (output.to_vec(), p)).collect(), None),
            None => {
                let (target, log_seen) = observed(sampled);
                (target, Some(log_seen))
            }
        };
        Self { sampled, exact, target, log_seen, tokens }
    }

    /// The logarithm of P(constraint): as it was enumerated, or as an exact sampler estimates it, or another one.
    fn log_mass(&self) -> Option<f64> {
        let estimate = |weighs: bool| {
            let of =
                |sampled: &&Sampled| sampled.outputs.iter().any(|output| output.log_weight != 0.0) == weighs;
            self.sampled.iter().filter(of).find_map(|sampled| sampled.log_mass)
        };
        let exact = self.exact.map(|exact| exact.mass().ln());
        exact.or_else(|| estimate(false)).or_else(|| estimate(true))
    }

    /// P(constraint), as far as the outputs tell.
    #[must_use]
    pub fn mass(&self) -> Option<f64> {
        self.log_mass().map(f64::exp)
    }

    /// The target, by outputs.
    fn target(&self) -> BTreeMap<&[TokenId], f64> {
        self.target.iter().map(|(output, p)| (output.as_slice(), *p)).collect()
    }

    /// The probabilities of the texts that are known, among all: their sum is the share of the constraint's probability
    /// that was observed.
    fn texts(&self) -> BTreeMap<String, f64> {
        let seen =
            self.log_seen.zip(self.log_mass()).map_or(1.0, |(seen, mass)| (seen - mass).exp().min(1.0));
        let mut texts = by_text(self.target(), self.tokens);
        texts.values_mut().for_each(|p| *p *= seen);
        texts
    }

    /// The measures of each sampler.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let basis = if self.exact.is_some() { "exact" } else { "observed" };
        let (target, log_mass) = (self.target(), self.log_mass());
        let texts = self.texts();
        let line = |sampled| line(sampled, &target, &texts, basis, log_mass, self.tokens);
        let mut lines: Vec<Line> = self.sampled.iter().map(line).collect();
        mark_frontier(&mut lines);
        lines
    }

    /// The same as a list in JSON.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(&self.lines()).expect("numbers and texts are JSON")
    }

    /// The page: one HTML file with its style and its plots inside. `task` is the one that the outputs were drawn for
    /// ([`Request::task`]): some of them are shown token by token, with the mass that each mask leaves.
    ///
    /// # Errors
    ///
    /// [`Error`](super::Error) where the model fails.
    pub fn html(&self, asked: Asked<'_>, task: Task<WarpedModel, Ended>) -> Result<String> {
        page::page(self, asked, task).map(|page| report::html(&page))
    }
}
