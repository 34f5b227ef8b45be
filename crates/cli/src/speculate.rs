//! Speculative and mentored decoding from the options of the command line.

use std::{cell::RefCell, collections::VecDeque, rc::Rc, str::FromStr};

use clap::{Args, ValueEnum};
use rand_core::Rng;
use serde::Serialize;
use unskew::{
    core::{Constraint, Draw, Sampler},
    grammars::{CountConfig, CountModel},
    samplers::{
        SampleError, Task, Truncation, Warped,
        speculative::{
            Budget, Draft, DraftLength, ModelDraft, Ngram, ProposerDraft, Speculation, Speculative,
            SpeculativeConfig, check_vocabularies,
        },
    },
};

use crate::{
    any_model::{AnyModel, AnyModelError},
    args::{ConstraintArgs, ModelArgs, ModelChoice},
    error::{Failure, Result},
    load::{self, Tokens},
};

#[derive(Debug, Args)]
#[command(next_help_heading = "Speculation (--sampler speculative or mentored)")]
pub(crate) struct SpeculationArgs {
    /// Who drafts: the embedded draft model, another model with the same tokens, what followed the same tokens before, or
    /// counts by place in a --grammar
    #[arg(long, value_name = "tiny-draft|DIR|table:FILE|ngram|counts")]
    pub(crate) draft_model: Option<DraftChoice>,
    /// How many tokens are drafted for one pass of the model
    #[arg(long, value_name = "auto|N", default_value = "auto")]
    pub(crate) draft_length: Length,
    /// Mentored: the Kullback-Leibler divergence from the model that may be spent, in nats
    #[arg(long, value_name = "D")]
    pub(crate) mentored_kl: Option<f64>,
    /// Mentored: whether that is for each drafted token, or for a whole output
    #[arg(long, value_enum, default_value = "token")]
    pub(crate) mentored_budget: BudgetKind,
}

#[derive(Clone, Debug)]
pub(crate) enum DraftChoice {
    Ngram,
    Counts,
    Model(ModelChoice),
}

impl FromStr for DraftChoice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        Ok(match text {
            "ngram" => Self::Ngram,
            "counts" => Self::Counts,
            model => Self::Model(model.parse()?),
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Length(DraftLength);

/// The longest draft: each of its positions takes a row of logits.
const LONGEST: usize = 256;

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self(DraftLength::default()));
        }
        match text.parse() {
            Ok(length) if length <= LONGEST => Ok(Self(DraftLength::Fixed(length))),
            _ => Err(format!("give `auto`, or a number of tokens up to {LONGEST}")),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum BudgetKind {
    /// Each drafted token may spend it
    Token,
    /// All tokens of an output together
    Sequence,
}

/// What speculation has come to in one output, as fields of its line of JSON.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct SpeculationLine {
    /// Drafts that the model was asked about.
    pub(crate) drafts_tested: u64,
    pub(crate) drafts_accepted: u64,
    /// Passes through the draft model.
    pub(crate) draft_passes: u64,
    /// In nats: what was spent, and what was allowed on the positions that spent it, or on the output.
    pub(crate) kl_spent: f64,
    pub(crate) kl_allowed: f64,
}

/// What speculation has come to, output by output, and not read yet.
pub(crate) type Tallies = Rc<RefCell<VecDeque<SpeculationLine>>>;

type BoxedSampler = Box<dyn Sampler<Error = SampleError<AnyModelError>>>;

/// A task whose constraint is still to be made: counts need to know what it is.
pub(crate) struct Unconstrained<'a> {
    pub(crate) model: Warped<AnyModel>,
    pub(crate) prompt: Vec<unskew::core::TokenId>,
    pub(crate) max_tokens: usize,
    pub(crate) tokens: &'a Tokens,
    pub(crate) healed: &'a str,
    pub(crate) constraint: &'a ConstraintArgs,
    /// Of the draft model too.
    pub(crate) temperature: f64,
    pub(crate) truncation: Option<Truncation>,
}

impl SpeculationArgs {
    /// Refuses options that only speculation knows.
    pub(crate) fn refuse(&self) -> Result<()> {
        if self.draft_model.is_some() || self.mentored_kl.is_some() {
            return Err(Failure::input(
                "--draft-model and --mentored-kl are for --sampler speculative and --sampler mentored",
            ));
        }
        Ok(())
    }

    fn config(&self, mentored: bool) -> Result<SpeculativeConfig> {
        let budget = match (mentored, self.mentored_kl) {
            (false, None) => Budget::Lossless,
            (false, Some(_)) => {
                return Err(Failure::input(
                    "--mentored-kl is for --sampler mentored; speculative keeps the law",
                ));
            }
            (true, None) => {
                return Err(Failure::input(
                    "--sampler mentored needs --mentored-kl D: how far its law may be from the model's",
                ));
            }
            (true, Some(budget)) => match self.mentored_budget {
                BudgetKind::Token => Budget::Token(budget),
                BudgetKind::Sequence => Budget::sequence(budget),
            },
        };
        Ok(SpeculativeConfig { length: self.draft_length.0, budget, ..SpeculativeConfig::default() })
    }

    /// The sampler, and what it will have to say of each output.
    pub(crate) fn sampler(&self, mentored: bool, task: Unconstrained<'_>) -> Result<(BoxedSampler, Tallies)> {
        let config = self.config(mentored)?;
        let Some(draft) = &self.draft_model else {
            return Err(Failure::input(
                "speculation needs --draft-model: tiny-draft, a folder, table:FILE, ngram or counts",
            ));
        };
        let Unconstrained { model, prompt, max_tokens, tokens, healed, constraint, .. } = task;
        if matches!(draft, DraftChoice::Counts) {
            let Some(path) = &constraint.grammar else {
                return Err(Failure::input(
                    "--draft-model counts counts tokens by place in a --grammar; give one",
                ));
            };
            let constraint = load::grammar_constraint(path, constraint, tokens, healed)?;
            let task = Task::new(model, constraint, &tokens.vocabulary, max_tokens).after(prompt);
            return boxed(task, ProposerDraft::new(CountModel::new(CountConfig::default())), config);
        }
        let constraint = load::constraint(constraint, tokens, healed)?;
        let target = Task::new(model, constraint, &tokens.vocabulary, max_tokens).after(prompt);
        match draft {
            DraftChoice::Ngram | DraftChoice::Counts => {
                boxed(target, ProposerDraft::new(Ngram::default()), config)
            }
            DraftChoice::Model(choice) => {
                let args = ModelArgs { model: choice.clone(), tokenizer: None };
                let (draft, draft_tokens) = load::model(&args)?;
                check_vocabularies(&tokens.vocabulary, &draft_tokens.vocabulary)
                    .map_err(|error| Failure::bad(&error))?;
                let draft = Warped::new(draft, task.temperature, task.truncation);
                let draft = draft.map_err(|error| Failure::bad(&error))?;
                boxed(target, ModelDraft::new(draft), config)
            }
        }
    }
}

fn boxed<C, D>(
    task: Task<Warped<AnyModel>, C>,
    draft: D,
    config: SpeculativeConfig,
) -> Result<(BoxedSampler, Tallies)>
where
    C: Constraint + 'static,
    D: Draft<C, AnyModelError> + 'static,
{
    let sampler = Speculative::new(task, draft, config).map_err(|error| Failure::bad(&error))?;
    let tallies = Tallies::default();
    Ok((Box::new(Tallied { sampler, tallies: Rc::clone(&tallies) }), tallies))
}

/// A sampler that notes what each output took.
struct Tallied<C: Constraint, D> {
    sampler: Speculative<Warped<AnyModel>, C, D>,
    tallies: Tallies,
}

impl<C: Constraint, D: Draft<C, AnyModelError>> Sampler for Tallied<C, D> {
    type Error = SampleError<AnyModelError>;

    fn draw(&mut self, rng: &mut dyn Rng) -> std::result::Result<Draw, Self::Error> {
        let before = *self.sampler.speculation();
        let draw = self.sampler.draw(rng)?;
        self.tallies.borrow_mut().push_back(since(before, *self.sampler.speculation()));
        Ok(draw)
    }
}

fn since(before: Speculation, now: Speculation) -> SpeculationLine {
    SpeculationLine {
        drafts_tested: now.tested - before.tested,
        drafts_accepted: now.accepted - before.accepted,
        draft_passes: now.draft.passes - before.draft.passes,
        kl_spent: now.spent - before.spent,
        kl_allowed: now.allowed - before.allowed,
    }
}

/// What all outputs came to, in one line.
pub(crate) fn summary(lines: &[SpeculationLine], tokens: usize, passes: u64) -> String {
    let sum = |value: fn(&SpeculationLine) -> u64| lines.iter().map(value).sum::<u64>();
    let (tested, accepted) = (sum(|line| line.drafts_tested), sum(|line| line.drafts_accepted));
    let spent: f64 = lines.iter().map(|line| line.kl_spent).sum();
    let allowed: f64 = lines.iter().map(|line| line.kl_allowed).sum();
    #[allow(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
    let (share, each) =
        (100.0 * accepted as f64 / tested.max(1) as f64, tokens as f64 / passes.max(1) as f64);
    let budget = if allowed > 0.0 { format!("; KL {spent:.3} of {allowed:.3} spent") } else { String::new() };
    format!("drafts: {accepted} of {tested} accepted ({share:.0} %), {each:.2} tokens a pass{budget}")
}
