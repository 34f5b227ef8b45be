//! Speculative and mentored decoding from the options of the command line, by themselves and under rejection and DISC.

use std::{cell::RefCell, collections::VecDeque, path::Path, rc::Rc, str::FromStr};

use clap::{Args, ValueEnum};
use rand_core::Rng;
use serde::Serialize;
use unskew::{
    core::{Constraint, Draw, LanguageModel, Proposer, Sampler, TokenId},
    grammars::{CountConfig, CountModel, GrammarConstraint, GrammarScratch, GrammarState},
    samplers::{
        Exact, MAX_DRAFT, Masked, SampleError, Sampling, Task, Truncation, Warped,
        speculative::{
            Budget, DraftLength, Drafter, ModelDraft, PromptLookup, ProposerDraft, SpeculationConfig,
            SpeculationStats, check_vocabularies,
        },
    },
};

use crate::{
    any_model::AnyModelError,
    args::{ConstraintArgs, DiscForm, ModelArgs, ModelChoice, SamplerKind, SamplerOptions},
    error::{Failure, Result},
    load::{self, Tokens},
    samplers::{self, BoxedSampler, refuse_unread},
};

#[derive(Debug, Args)]
#[command(
    next_help_heading = "Speculation (--sampler speculative or mentored; generate: also rejection and disc)"
)]
pub(crate) struct SpeculationArgs {
    /// Who drafts: the embedded draft model, another model with the same tokens, what followed the same tokens before, or
    /// counts by place in a --grammar or --json-schema
    ///
    /// With --sampler rejection or disc their proposals are drafted, and their law is the same: the target's for rejection, that of
    /// `--disc-form fresh` for disc. Samplers that learn (ars, cars, asap, the other forms of DISC) draw from something else
    /// once they have learned, also at positions that a draft has passed, and so do not draft. In an audit rejection and disc are those
    /// without drafts.
    #[arg(long, value_name = "tiny-draft|DIR|table:FILE|ngram|counts")]
    pub(crate) draft_model: Option<DraftChoice>,
    /// How many tokens are drafted for one pass of the model (default: auto)
    #[arg(long, value_name = "auto|N")]
    pub(crate) draft_length: Option<Length>,
    /// Mentored: the Kullback-Leibler divergence from the model that may be spent, in nats
    #[arg(long, value_name = "D")]
    pub(crate) mentored_kl: Option<f64>,
    /// Mentored: whether that is for each drafted token, or for a whole output (default: token)
    #[arg(long, value_enum)]
    pub(crate) mentored_budget: Option<BudgetKind>,
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

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self(DraftLength::default()));
        }
        match text.parse() {
            Ok(length) if length <= MAX_DRAFT => Ok(Self(DraftLength::Fixed(length))),
            _ => Err(format!("give `auto`, or a number of tokens up to {MAX_DRAFT}")),
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

pub(crate) type Made<'a> = (BoxedSampler<'a, AnyModelError>, Tallies);

/// Of the model whose drafts are verified: the draft is to have the same.
#[derive(Clone, Copy)]
pub(crate) struct Like<'a> {
    pub(crate) tokens: &'a Tokens,
    pub(crate) temperature: f64,
    pub(crate) truncation: Option<Truncation>,
}

impl SpeculationArgs {
    /// The options that single samplers read: whether each is given, and which these are.
    fn of_single_samplers(&self) -> [(&'static str, bool, &'static [SamplerKind]); 4] {
        let drafting = &[SamplerKind::Speculative, SamplerKind::Mentored];
        [
            ("--mentored-kl", self.mentored_kl.is_some(), &[SamplerKind::Mentored]),
            ("--mentored-budget", self.mentored_budget.is_some(), &[SamplerKind::Mentored]),
            ("--draft-model", self.draft_model.is_some(), drafting),
            ("--draft-length", self.draft_length.is_some(), drafting),
        ]
    }

    /// Refuses options that none of the audited samplers reads: there only two draft.
    pub(crate) fn check_audit(&self, kinds: &[SamplerKind]) -> Result<()> {
        refuse_unread(&self.of_single_samplers(), kinds)
    }

    /// Whether `kind` is to draft: it always does, or its proposals can be drafted and there is a draft.
    pub(crate) fn drafts(&self, kind: SamplerKind) -> bool {
        let may_draft = matches!(kind, SamplerKind::Rejection | SamplerKind::Disc);
        kind.drafts() || (may_draft && self.draft_model.is_some())
    }

    /// Refuses a draft for a sampler that would not keep its law with it, and a budget for one that spends none. `asked` is what the
    /// user has named, and `kind` what that has come to.
    pub(crate) fn check(
        &self,
        asked: SamplerKind,
        kind: SamplerKind,
        options: &SamplerOptions,
    ) -> Result<()> {
        let [kl, budget, ..] = self.of_single_samplers();
        refuse_unread(&[kl, budget], &[kind])?;
        if self.draft_model.is_none() {
            if self.draft_length.is_some() && !kind.drafts() {
                return Err(Failure::input(
                    "--draft-length is that of the drafts of a --draft-model; give one, or leave it out",
                ));
            }
            return Ok(());
        }
        let why = match asked {
            SamplerKind::Disc if matches!(options.disc_form, Some(DiscForm::Learned | DiscForm::Reuse)) => {
                return Err(Failure::input(
                    "--draft-model is for --disc-form fresh: the other forms need to know more of their proposals than \
                     drafts tell",
                ));
            }
            SamplerKind::Disc if options.disc_top_m.is_some() => {
                return Err(Failure::input(
                    "--disc-top-m tests tokens one by one, where --draft-model needs masks; leave out one of the two",
                ));
            }
            _ if self.drafts(asked) => return Ok(()),
            SamplerKind::Auto => "which is chosen for you would depend on the number of outputs: name one",
            SamplerKind::Masked => "masked with drafts is speculative",
            SamplerKind::Ars | SamplerKind::Cars | SamplerKind::Asap => {
                "what it learns changes its law at positions that a draft has passed"
            }
            SamplerKind::Beam | SamplerKind::Greedy => "it draws nothing that a draft could be accepted for",
            _ => "its steps are single tokens",
        };
        Err(Failure::input(format!(
            "--draft-model is for --sampler speculative, mentored, rejection and disc, not for {}: {why}",
            asked.name()
        )))
    }

    fn config(&self, kind: SamplerKind) -> Result<SpeculationConfig> {
        let budget = match (kind == SamplerKind::Mentored, self.mentored_kl) {
            // An audit may ask for both samplers.
            (false, _) => Budget::Lossless,
            (true, None) => {
                return Err(Failure::input(
                    "--sampler mentored needs --mentored-kl D: how far its law may be from the model's",
                ));
            }
            (true, Some(budget)) => match self.mentored_budget {
                None | Some(BudgetKind::Token) => Budget::Token(budget),
                Some(BudgetKind::Sequence) => Budget::sequence(budget),
            },
        };
        let length = self.draft_length.map_or_else(DraftLength::default, |length| length.0);
        Ok(SpeculationConfig { length, budget, ..SpeculationConfig::default() })
    }

    /// The grammar in whose places tokens are counted, if that is how they are drafted.
    pub(crate) fn counted<'a>(&self, constraint: &'a ConstraintArgs) -> Result<Option<&'a Path>> {
        let grammar = constraint.grammar.as_ref().or(constraint.json_schema.as_ref());
        match (&self.draft_model, grammar) {
            (Some(DraftChoice::Counts), None) => Err(Failure::input(
                "--draft-model counts counts tokens by place in a --grammar or --json-schema; give one, or \
                     --draft-model ngram",
            )),
            (Some(DraftChoice::Counts), Some(path)) => Ok(Some(path)),
            _ => Ok(None),
        }
    }

    /// The sampler that counts tokens by place. Each counts for itself, from its first output on.
    pub(crate) fn counting<'a, M>(
        &self,
        kind: SamplerKind,
        options: &SamplerOptions,
        task: Task<M, &'a GrammarConstraint>,
    ) -> Result<Made<'a>>
    where
        M: LanguageModel<Error = AnyModelError> + 'a,
    {
        let counts = Counts(CountModel::new(CountConfig::default()));
        boxed(task, policy(kind, options), ProposerDraft::new(counts), self.config(kind)?)
    }

    /// The sampler of any other draft, and what it will have to say of each output.
    pub(crate) fn sampler<'a, M, C>(
        &self,
        kind: SamplerKind,
        options: &SamplerOptions,
        task: Task<M, C>,
        like: Like<'_>,
    ) -> Result<Made<'a>>
    where
        M: LanguageModel<Error = AnyModelError> + 'a,
        C: Constraint + 'a,
    {
        let config = self.config(kind)?;
        match &self.draft_model {
            None => Err(Failure::input(
                "speculation needs --draft-model: tiny-draft, a folder, table:FILE, ngram or counts",
            )),
            Some(DraftChoice::Ngram) => {
                boxed(task, policy(kind, options), ProposerDraft::new(PromptLookup::default()), config)
            }
            Some(DraftChoice::Counts) => unreachable!("counts are made apart"),
            Some(DraftChoice::Model(choice)) => {
                let args = ModelArgs { model: choice.clone(), tokenizer: None };
                let (draft, tokens) = load::model(&args)?;
                check_vocabularies(&like.tokens.vocabulary, &tokens.vocabulary)
                    .map_err(|error| Failure::bad(&error))?;
                let draft = Warped::new(draft, like.temperature, like.truncation);
                boxed(
                    task,
                    policy(kind, options),
                    ModelDraft::new(draft.map_err(|error| Failure::bad(&error))?),
                    config,
                )
            }
        }
    }
}

/// A count model for a constraint that is borrowed.
struct Counts(CountModel);

impl Proposer<&GrammarConstraint> for Counts {
    fn propose(
        &mut self,
        constraint: &&GrammarConstraint,
        scratch: &mut GrammarScratch,
        text: &[TokenId],
        state: &GrammarState,
        most: usize,
        tokens: &mut Vec<TokenId>,
    ) {
        self.0.propose(*constraint, scratch, text, state, most, tokens);
    }

    fn observe(
        &mut self,
        constraint: &&GrammarConstraint,
        scratch: &mut GrammarScratch,
        state: &GrammarState,
        token: TokenId,
    ) {
        self.0.observe(*constraint, scratch, state, token);
    }
}

/// The sampler whose rollouts are drafted for.
enum Drafted {
    Masked(Masked),
    Exact(Exact),
}

fn policy(kind: SamplerKind, options: &SamplerOptions) -> Drafted {
    match kind {
        SamplerKind::Rejection => Drafted::Exact(Exact::rejection(options.tries())),
        SamplerKind::Disc => {
            let fresh = SamplerOptions { disc_form: Some(DiscForm::Fresh), ..options.clone() };
            Drafted::Exact(samplers::disc(&fresh))
        }
        _ => Drafted::Masked(Masked::new()),
    }
}

fn boxed<'a, M, C, D>(
    task: Task<M, C>,
    policy: Drafted,
    draft: D,
    config: SpeculationConfig,
) -> Result<Made<'a>>
where
    M: LanguageModel<Error = AnyModelError> + 'a,
    C: Constraint + 'a,
    D: Drafter<C> + 'static,
{
    let tallies = Tallies::default();
    let own = Rc::clone(&tallies);
    macro_rules! tallied {
        ($policy:expr) => {{
            let sampler = Sampling::speculative(task, $policy, draft, config);
            let sampler = sampler.map_err(|error| Failure::bad(&error))?;
            let take = |sampler: &mut Sampling<M, C, _>| sampler.scheduler().take_speculation();
            Box::new(Tallied { sampler, take, tallies: own }) as BoxedSampler<'a, AnyModelError>
        }};
    }
    let sampler = match policy {
        Drafted::Masked(policy) => tallied!(policy),
        Drafted::Exact(policy) => tallied!(policy),
    };
    Ok((sampler, tallies))
}

/// The draws that are asked for together.
const TOGETHER: usize = 64;

/// A sampler that notes the statistics of each output.
struct Tallied<S, T> {
    sampler: S,
    take: T,
    tallies: Tallies,
}

impl<S, T> Sampler for Tallied<S, T>
where
    S: Sampler<Error = SampleError<AnyModelError>>,
    T: FnMut(&mut S) -> Option<SpeculationStats>,
{
    type Error = SampleError<AnyModelError>;

    fn draw(&mut self, rng: &mut dyn Rng) -> std::result::Result<Draw, Self::Error> {
        let draw = self.sampler.draw(rng)?;
        self.tallies.borrow_mut().extend((self.take)(&mut self.sampler).map(line));
        Ok(draw)
    }

    fn draw_each(
        &mut self,
        count: usize,
        rng: &mut dyn Rng,
        each: &mut dyn FnMut(Draw),
    ) -> std::result::Result<(), Self::Error> {
        let mut left = count;
        while left > 0 {
            // The statistics of a draw are asked for after it; some draws at a time share passes.
            let mut draws = Vec::new();
            let drawn = self.sampler.draw_many(left.min(TOGETHER), rng, &mut draws);
            left -= draws.len();
            for draw in draws {
                self.tallies.borrow_mut().extend((self.take)(&mut self.sampler).map(line));
                each(draw);
            }
            drawn?;
        }
        Ok(())
    }
}

fn line(stats: SpeculationStats) -> SpeculationLine {
    SpeculationLine {
        drafts_tested: stats.tested,
        drafts_accepted: stats.accepted,
        draft_passes: stats.draft.passes,
        kl_spent: stats.spent,
        kl_allowed: stats.allowed,
    }
}

/// What all outputs came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Total {
    pub(crate) tested: u64,
    pub(crate) accepted: u64,
    pub(crate) spent: f64,
    pub(crate) allowed: f64,
}

impl Total {
    pub(crate) fn add(&mut self, line: &SpeculationLine) {
        self.tested += line.drafts_tested;
        self.accepted += line.drafts_accepted;
        self.spent += line.kl_spent;
        self.allowed += line.kl_allowed;
    }

    /// Of the drafts that were tested, the share that was accepted.
    pub(crate) fn acceptance(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
        let share = self.accepted as f64 / self.tested.max(1) as f64;
        share
    }

    /// In one line, with the tokens of all outputs and the passes that they took.
    pub(crate) fn summary(&self, tokens: usize, passes: u64) -> String {
        let Self { tested, accepted, spent, allowed } = self;
        #[allow(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
        let each = tokens as f64 / passes.max(1) as f64;
        let share = 100.0 * self.acceptance();
        let budget =
            if *allowed > 0.0 { format!("; KL {spent:.3} of {allowed:.3} spent") } else { String::new() };
        format!("drafts: {accepted} of {tested} accepted ({share:.0} %), {each:.2} tokens a pass{budget}")
    }
}
