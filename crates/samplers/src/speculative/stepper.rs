//! One output by drafts and verification: the walk that speculative and mentored decoding are.
//!
//! A draft of several tokens is appended to what the target has read, and one pass yields the rows of all its positions and of
//! the one behind. At each position in turn the draft is accepted with the probability of the position's [`Optimum`]; at the
//! first rejection its residual is drawn from, and what was drafted behind is forgotten by truncating both models' sequences. If
//! everything is accepted, the row behind yields one more token.
//!
//! Both laws are under the constraint's mask: the draft's, so that it never drafts what is forbidden, and the target's, so that
//! the law is that of masked sampling.
//!
//! Two tests save the optimum's computation and change no result. A draft that would be accepted without any budget
//! (`u p < q`) is accepted with one. And where the draft's own law is within the budget, it is the optimum. The first needs no
//! weight of the output to be known, since a weight is made of the optimum's probabilities.

use rand_core::Rng;
use unskew_core::{Constraint, Cost, Extension, Finish, LanguageModel, Logits, Rows, TokenId, TokenMask};

use super::{
    Divergence, Draft, Optimum, Pair, Selection, SpeculativeConfig,
    draft::{Drawn, Run, Step},
    length::Acceptance,
    row::Row,
    sampler::Speculation,
};
use crate::{
    SampleError, Task,
    random::{uniform, weighted},
    rows::digits,
};

/// Which positions toss a coin with the mass that the mask leaves, so that a walk is given up early that a test at its end
/// would refuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coins {
    /// None.
    None,
    /// All but the first, whose mass is the same for every output.
    BelowRoot,
    /// All.
    All,
}

/// How a walk ended.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum End {
    Output(Output),
    /// A coin fell on the other side.
    Refused,
    /// Nothing that is allowed has a positive probability after these tokens.
    Stuck(Vec<TokenId>),
}

/// An output.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Output {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) finish: Finish,
    /// Its log-probability under the target model.
    pub(crate) log_prob: f64,
    /// That under the walk.
    pub(crate) log_proposal: f64,
}

/// A task and its draft, with all that is used again from output to output.
pub(crate) struct Stepper<M: LanguageModel, C: Constraint, D, F> {
    pub(crate) task: Task<M, C>,
    pub(crate) draft: D,
    pub(crate) divergence: F,
    pub(crate) config: SpeculativeConfig,
    pub(crate) tally: Speculation,
    pub(crate) cost: Cost,
    scratch: C::Scratch,
    mask: TokenMask,
    /// Begins with the prompt, as far as it was read.
    sequence: M::Sequence,
    logits: Logits,
    acceptance: Acceptance,
    selection: Selection,
}

/// What came of a position.
struct Chosen {
    /// A token, or the end.
    choice: Option<TokenId>,
    /// Its log-probability under the target model.
    log_prob: f64,
    /// That under the walk.
    log_proposal: f64,
}

/// Where a walk is.
struct Place<S> {
    state: S,
    tokens: Vec<TokenId>,
    /// The divergence spent so far.
    spent: f64,
}

/// A position that is not the end of the walk.
enum Position {
    Chosen(Chosen),
    Over(End),
}

impl<M, C, D, F> Stepper<M, C, D, F>
where
    M: LanguageModel,
    C: Constraint,
    D: Draft<C, M::Error>,
    F: Divergence,
{
    pub(crate) fn new(mut task: Task<M, C>, draft: D, divergence: F, config: SpeculativeConfig) -> Self {
        let scratch = task.constraint.scratch();
        let mask = TokenMask::new(task.constraint.vocab_len());
        let sequence = task.model.start();
        Self {
            task,
            draft,
            divergence,
            config,
            tally: Speculation::default(),
            cost: Cost::default(),
            scratch,
            mask,
            sequence,
            logits: Logits::new(),
            acceptance: Acceptance::new(),
            selection: Selection::new(),
        }
    }

    /// Draws one output. With `cut`, one that reaches the length limit ends there; otherwise it must stop by then, and what
    /// the mask leaves at the limit is the probability that it does.
    pub(crate) fn walk(
        &mut self,
        coins: Coins,
        cut: bool,
        rng: &mut dyn Rng,
    ) -> Result<End, SampleError<M::Error>> {
        let mut place = Place { state: self.task.constraint.start(), tokens: Vec::new(), spent: 0.0 };
        let end = self.go(&mut place, coins, cut, rng);
        self.tally.close(self.config.budget, place.spent);
        let spent = self.draft.take_cost();
        self.tally.draft += spent;
        end
    }

    fn go(
        &mut self,
        place: &mut Place<C::State>,
        coins: Coins,
        cut: bool,
        rng: &mut dyn Rng,
    ) -> Result<End, SampleError<M::Error>> {
        let prompt = self.task.prompt.clone();
        self.draft.begin(&prompt);
        // Of the prompt the last token is read again: its row is wanted. All that follows is of another output.
        let read = self.task.model.len(&self.sequence).min(prompt.len().saturating_sub(1));
        self.task.model.truncate(&mut self.sequence, read);
        let mut unread = prompt[read..].to_vec();
        let (mut log_prob, mut log_proposal) = (0.0, 0.0);
        let mut text = prompt;
        loop {
            if self.task.cancel.is_cancelled() {
                return Err(SampleError::Cancelled);
            }
            if cut && place.tokens.len() == self.task.max_tokens {
                return Ok(output(place, Finish::Length, log_prob, log_proposal));
            }
            text.truncate(self.task.prompt.len());
            text.extend_from_slice(&place.tokens);
            let steps = self.make_draft(place, &mut text, unread.len(), cut, rng)?;
            let before = self.task.model.len(&self.sequence) + unread.len();
            let first = unread.len().saturating_sub(1);
            unread.extend(steps.iter().filter_map(|step| step.choice));
            self.extend(&unread, steps.is_empty())?;
            let first = if steps.is_empty() { 0 } else { first };

            let (mut accepted, mut tested) = (0, 0);
            let mut next = None;
            for (index, step) in steps.iter().map(Some).chain([None]).enumerate() {
                if cut && place.tokens.len() == self.task.max_tokens {
                    break;
                }
                let row = self.logits.row(first + index).to_vec();
                let chosen = match self.position(&row, step, place, coins, rng)? {
                    Position::Chosen(chosen) => chosen,
                    Position::Over(end) => {
                        self.tally.count(&steps, accepted, tested);
                        return Ok(end);
                    }
                };
                log_prob += chosen.log_prob;
                log_proposal += chosen.log_proposal;
                let agrees = step.is_some_and(|step| step.choice == chosen.choice);
                if let Some(Step { drawn: Drawn::Surely | Drawn::From(_), .. }) = step {
                    tested += 1;
                    accepted += u32::from(agrees);
                }
                let Some(token) = chosen.choice else {
                    self.tally.count(&steps, accepted, tested);
                    return Ok(output(place, Finish::Stop, log_prob, log_proposal));
                };
                let Self { task: Task { constraint, .. }, draft, scratch, .. } = self;
                draft.observe(constraint, scratch, &place.state, token);
                let advanced = constraint.advance(scratch, &mut place.state, token);
                advanced.expect("a token of the mask is allowed");
                place.tokens.push(token);
                self.tally.tokens += 1;
                if !agrees {
                    next = Some((index, token));
                    break;
                }
            }
            self.tally.count(&steps, accepted, tested);
            self.acceptance.record(accepted, tested);
            unread.clear();
            if let Some((index, token)) = next {
                // What was drafted from here on is forgotten.
                self.task.model.truncate(&mut self.sequence, before + index);
                unread.push(token);
            }
        }
    }

    /// What is drafted behind `place`.
    fn make_draft(
        &mut self,
        place: &Place<C::State>,
        text: &mut Vec<TokenId>,
        unread: usize,
        cut: bool,
        rng: &mut dyn Rng,
    ) -> Result<Vec<Step>, SampleError<M::Error>> {
        let mut steps = Vec::new();
        // Behind nothing the row of the empty sequence is asked for, which is no row of an appended token.
        let room = if unread == 0 { 0 } else { self.task.max_tokens - place.tokens.len() };
        // The row behind the last token of a cut output is not needed.
        let room = if cut { room.saturating_sub(1) } else { room };
        let context = self.task.model.context_len().unwrap_or(usize::MAX);
        let context = context.saturating_sub(self.task.model.len(&self.sequence) + unread);
        let left = self.acceptance.best(self.config.length).min(room).min(context);
        if left > 0 {
            let Self { task: Task { constraint, end, .. }, scratch, mask, draft, .. } = self;
            let state = place.state.clone();
            let mut run = Run { constraint, scratch, end, mask, text, state, steps: &mut steps, left };
            run.force();
            draft.draft(&mut run, rng).map_err(SampleError::Model)?;
        }
        Ok(steps)
    }

    fn extend(&mut self, tokens: &[TokenId], is_last: bool) -> Result<(), SampleError<M::Error>> {
        let rows = if is_last { Rows::Last } else { Rows::All };
        let extension = Extension { sequence: &mut self.sequence, tokens, rows };
        self.task.model.extend(&mut [extension], &mut self.logits).map_err(SampleError::Model)?;
        self.cost.passes += 1;
        self.cost.positions += tokens.len().max(1) as u64;
        Ok(())
    }

    /// Verifies a drafted position, or draws at one that is not.
    fn position(
        &mut self,
        logits: &[f32],
        step: Option<&Step>,
        place: &mut Place<C::State>,
        coins: Coins,
        rng: &mut dyn Rng,
    ) -> Result<Position, SampleError<M::Error>> {
        let constraint = &self.task.constraint;
        let drawn;
        let ids = match step {
            Some(step) => &step.ids,
            // At the length limit only the end is left.
            None if place.tokens.len() == self.task.max_tokens => &[][..],
            None => {
                constraint.fill_mask(&mut self.scratch, &place.state, self.mask.as_mut());
                drawn = self.mask.ids().collect::<Vec<_>>();
                &drawn
            }
        };
        let end = if constraint.is_accepting(&place.state) { &self.task.end[..] } else { &[] };
        let Some(row) = Row::read(logits, ids, end) else {
            return Err(SampleError::NotADistribution { tokens: place.tokens.len() });
        };
        if !row.has_mass() {
            return Ok(Position::Over(End::Stuck(place.tokens.clone())));
        }
        let tosses = match coins {
            Coins::None => false,
            Coins::BelowRoot => !place.tokens.is_empty(),
            Coins::All => true,
        };
        if tosses && uniform(rng) >= row.log_mass.exp() {
            return Ok(Position::Over(End::Refused));
        }
        let (index, log_proposal) = match step {
            None => {
                let target = row.masked();
                let index = weighted(&target, rng).expect("something has mass");
                (index, row.logs[index] - row.log_mass)
            }
            Some(Step { drawn: Drawn::Forced, .. }) => (1, 0.0),
            Some(Step { choice, drawn, .. }) => {
                let index = choice.map_or(0, |token| ids.partition_point(|id| *id < token) + 1);
                if self.config.budget.is_lossless() {
                    verify_lossless(&row, index, drawn, rng)
                } else {
                    self.verify(&row, index, drawn, &mut place.spent, rng)
                }
            }
        };
        let choice = index.checked_sub(1).map(|index| ids[index]);
        Ok(Position::Chosen(Chosen { choice, log_prob: row.logs[index], log_proposal }))
    }

    /// The outcome of a position whose draft is the outcome `drafted`, and its log-probability.
    fn verify(
        &mut self,
        row: &Row,
        drafted: usize,
        drawn: &Drawn,
        spent: &mut f64,
        rng: &mut dyn Rng,
    ) -> (usize, f64) {
        let allowed = self.config.budget.allowance(*spent);
        self.tally.allowed_at_positions += allowed;
        let target = row.masked();
        let (draft, log_ratios) = draft_of(row, drafted, drawn);
        let (mut own, mut forbidden) = (0.0, 0.0);
        for ((p, q), log_ratio) in draft.iter().zip(&target).zip(&log_ratios) {
            if *q > 0.0 {
                own += self.divergence.term(*p, *q, *log_ratio);
            } else {
                forbidden += p;
            }
        }
        if forbidden <= 0.0 && own <= allowed {
            // The draft's own law is the optimum.
            *spent += own.max(0.0);
            return (drafted, draft[drafted].ln());
        }
        let coin = uniform(rng);
        if self.config.early_tests
            && !self.config.weights
            && forbidden <= 0.0
            && coin * draft[drafted] < target[drafted]
        {
            *spent += allowed;
            return (drafted, target[drafted].ln());
        }
        let pair = Pair { draft: &draft, target: &target, log_ratios: Some(&log_ratios) };
        let optimum = self.selection.optimum(&pair, &self.divergence, allowed);
        // The budget was checked when the sampler was made.
        let optimum = optimum.unwrap_or(Optimum::lossless(1.0, 0.0));
        self.tally.solved += 1;
        *spent += if optimum.is_binding() { allowed } else { optimum.divergence().clamp(0.0, allowed) };
        let law = |index: usize| optimum.law(draft[index], target[index]);
        let index = if coin * draft[drafted] < law(drafted) {
            drafted
        } else {
            let residual = draft.iter().zip(&target).map(|(p, q)| optimum.residual(*p, *q));
            // Where rounding leaves nothing, the laws are the same.
            weighted(&residual.collect::<Vec<_>>(), rng).or_else(|| weighted(&target, rng)).unwrap_or(drafted)
        };
        let log_proposal = if self.config.weights { law(index).ln() } else { target[index].ln() };
        (index, log_proposal)
    }
}

/// Speculative sampling: the outcome of a position, and its log-probability under the target, which is its law.
fn verify_lossless(row: &Row, drafted: usize, drawn: &Drawn, rng: &mut dyn Rng) -> (usize, f64) {
    let log_target = |index: usize| row.logs[index] - row.log_mass;
    let log_draft = match drawn {
        Drawn::From(logs) => logs[drafted],
        Drawn::Forced | Drawn::Surely => 0.0,
    };
    let index = if uniform(rng) * log_draft.exp() < log_target(drafted).exp() {
        drafted
    } else {
        let mut residual = row.masked();
        match drawn {
            Drawn::From(logs) => {
                residual.iter_mut().zip(logs).for_each(|(q, log)| *q = (*q - log.exp()).max(0.0));
            }
            Drawn::Forced | Drawn::Surely => residual[drafted] = 0.0,
        }
        // Where rounding leaves nothing, the laws are the same.
        weighted(&residual, rng).or_else(|| weighted(&row.masked(), rng)).unwrap_or(drafted)
    };
    (index, log_target(index))
}

/// The draft's law over the outcomes of a row, and the logarithms of the target's over it.
fn draft_of(row: &Row, drafted: usize, drawn: &Drawn) -> (Vec<f64>, Vec<f64>) {
    match drawn {
        Drawn::From(logs) => {
            let ratios = row.logs.iter().zip(logs).map(|(target, draft)| target - row.log_mass - draft);
            (digits::probabilities(logs, 0.0), ratios.collect())
        }
        Drawn::Forced | Drawn::Surely => {
            let mut draft = vec![0.0; row.logs.len()];
            draft[drafted] = 1.0;
            let mut ratios = vec![f64::INFINITY; row.logs.len()];
            ratios[drafted] = row.logs[drafted] - row.log_mass;
            (draft, ratios)
        }
    }
}

fn output<S>(place: &Place<S>, finish: Finish, log_prob: f64, log_proposal: f64) -> End {
    End::Output(Output { tokens: place.tokens.clone(), finish, log_prob, log_proposal })
}
