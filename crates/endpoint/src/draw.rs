//! Samplers over whole outputs of a server.
//!
//! *Rejection* asks for outputs without a constraint and keeps those that satisfy it: P(output | constraint) of the
//! model, with any server. *Weights* ask for outputs under the server's own constraint and score each once more as a
//! prompt: the weight is the model's probability over that of the proposal, log p - log q. Averages by weight are
//! those of P(output | constraint), as far as the server's constraint proposes all outputs that ours accepts: what
//! its grammar never writes has no weight.
//!
//! Outputs are judged here, by our constraint, in both. They are taken in the order in which they were asked for. Where
//! the constraint ends outputs ([`OutputEnd::Free`](unskew_core::OutputEnd)), an output is the beginning of the
//! server's: of its tokens where it gives them; otherwise its text counts as one token, since nobody knows where the
//! model has made a cut.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use rand_core::Rng;
use unskew_core::{
    Cancel, Constraint, Cost, Draw, Finish, Origin, OutputEnd, Reach, Sampler, TokenId, TokenMask,
    Vocabulary, cuts_word, logprob::log_sum_exp, with_tail,
};

use crate::{Asked, Endpoint, EndpointError, Prompt, ServerConstraint, Text};

/// The scores that are kept; beyond them all are forgotten.
const SCORES: usize = 100_000;

/// The tokens of a text, where they spell it.
type Encode = Arc<dyn Fn(&str) -> Option<Vec<TokenId>> + Send + Sync>;

/// How outputs of a server are read as tokens.
#[derive(Clone)]
pub struct Reading {
    vocabulary: Arc<Vocabulary>,
    encode: Option<Encode>,
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").field("by_text", &self.encode.is_some()).finish_non_exhaustive()
    }
}

impl Reading {
    /// The server's tokens are those of `vocabulary`.
    pub fn ids(vocabulary: Arc<Vocabulary>) -> Self {
        Self { vocabulary, encode: None }
    }

    /// The text alone counts, in the tokens that `encode` gives it.
    pub fn texts(
        vocabulary: Arc<Vocabulary>,
        encode: impl Fn(&str) -> Option<Vec<TokenId>> + Send + Sync + 'static,
    ) -> Self {
        Self { vocabulary, encode: Some(Arc::new(encode)) }
    }
}

/// Why a sampler has no output.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DrawError {
    /// The server.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// No output of the server satisfies the constraint.
    #[error(
        "none of {tries} outputs of the server satisfied the constraint and ended within {max_tokens} tokens"
    )]
    NoOutput {
        /// The outputs.
        tries: u64,
        /// The length limit.
        max_tokens: usize,
    },
    /// Cancelled.
    #[error("cancelled")]
    Cancelled,
}

/// The task of a sampler over whole outputs.
#[derive(Clone, Debug)]
pub struct TextTask<C> {
    /// The server.
    pub endpoint: Arc<Endpoint>,
    /// The constraint.
    pub constraint: C,
    /// How outputs are read.
    pub reading: Reading,
    /// The text in front.
    pub prompt: Prompt,
    /// The most tokens of an output, in the server's tokens.
    pub max_tokens: usize,
    /// Divides the logits.
    pub temperature: f64,
    /// The outputs that are asked for together.
    pub batch: usize,
    /// The most outputs that are asked for, for one that is given.
    pub tries: u64,
    /// Whether outputs that the length limit cuts off are given, too, as masked sampling gives them; for no
    /// constraint alone.
    pub keep_cut: bool,
    /// Ends the drawing between requests.
    pub cancel: Cancel,
}

/// Outputs that were asked for and are not judged.
#[derive(Debug)]
struct Source<C> {
    task: TextTask<C>,
    constraint: Option<ServerConstraint>,
    waiting: VecDeque<Text>,
    /// The requests and tokens since the last output.
    cost: Cost,
    proposed: u64,
}

impl<C: Constraint> Source<C> {
    fn new(task: TextTask<C>, constraint: Option<ServerConstraint>) -> Self {
        Self { task, constraint, waiting: VecDeque::new(), cost: Cost::default(), proposed: 0 }
    }

    /// The next output that satisfies the constraint, and its tokens.
    fn next(&mut self, rng: &mut dyn Rng) -> Result<(Text, Vec<TokenId>), DrawError> {
        for _ in 0..self.task.tries {
            if self.task.cancel.is_cancelled() {
                return Err(DrawError::Cancelled);
            }
            if self.waiting.is_empty() {
                let asked = Asked {
                    prompt: &self.task.prompt,
                    count: self.task.batch.max(1),
                    max_tokens: self.task.max_tokens,
                    temperature: self.task.temperature,
                    seed: rng.next_u32() >> 1,
                    constraint: self.constraint.as_ref(),
                };
                self.waiting.extend(self.task.endpoint.texts(&asked)?);
                self.cost.passes += 1;
            }
            let Some(text) = self.waiting.pop_front() else { continue };
            self.proposed += 1;
            self.cost.proposals += 1;
            self.cost.positions += text.ids.as_ref().map_or(0, |ids| ids.len() as u64);
            if let Some(tokens) = self.judged(&text)? {
                return Ok((text, tokens));
            }
        }
        Err(DrawError::NoOutput { tries: self.task.tries, max_tokens: self.task.max_tokens })
    }

    /// The tokens of the output, if there is one in what the server gave.
    fn judged(&self, text: &Text) -> Result<Option<Vec<TokenId>>, EndpointError> {
        let is_whole = text.finish == Finish::Stop;
        if !is_whole && !self.task.keep_cut && self.task.constraint.end() == OutputEnd::Model {
            return Ok(None);
        }
        let vocabulary = &self.task.reading.vocabulary;
        Ok(match (&self.task.reading.encode, &text.ids) {
            (Some(encode), _) => self.of_text(&text.text, encode, is_whole),
            (None, Some(ids)) => {
                let mut tokens: Vec<TokenId> = ids.iter().copied().map(TokenId).collect();
                if let Some(token) = tokens.iter().find(|token| token.index() >= vocabulary.len()) {
                    return Err(EndpointError::Token { token: token.0, vocab_len: vocabulary.len() });
                }
                if tokens.last().is_some_and(|token| vocabulary.is_end_of_sequence(*token)) {
                    tokens.pop();
                }
                self.of_tokens(tokens, is_whole)
            }
            (None, None) => {
                return Err(EndpointError::unsupported(
                    self.task.endpoint.server(),
                    "gives no tokens of its outputs",
                    "leave out `canonical` and the `tokenizer`: then texts are judged",
                ));
            }
        })
    }

    /// The output in `tokens`, after which the sequence ends where they are `whole`.
    fn of_tokens(&self, tokens: Vec<TokenId>, whole: bool) -> Option<Vec<TokenId>> {
        let constraint = &self.task.constraint;
        let (mut state, mut scratch) = (constraint.start(), constraint.scratch());
        for (at, token) in tokens.iter().enumerate() {
            if constraint.is_over(&mut scratch, &state) {
                return Some(with_tail(tokens[..at].to_vec(), constraint.tail(&state)));
            }
            if constraint.advance(&mut scratch, &mut state, *token).is_err() {
                let mut ends = TokenMask::new(constraint.vocab_len());
                let is_end = constraint.is_accepting(&state)
                    && constraint.fill_ends(&mut scratch, &state, ends.as_mut())
                    && ends.contains(*token);
                return is_end.then(|| tokens[..at].to_vec());
            }
        }
        let ends = match whole {
            true => constraint.is_accepting(&state),
            false => self.task.keep_cut || constraint.is_over(&mut scratch, &state),
        };
        ends.then(|| with_tail(tokens, constraint.tail(&state)))
    }

    /// The output in a text, which counts as one token.
    fn of_text(&self, text: &str, encode: &Encode, whole: bool) -> Option<Vec<TokenId>> {
        let constraint = &self.task.constraint;
        if constraint.end() == OutputEnd::Free {
            let Reach { len, is_accepting } =
                constraint.reach(&mut constraint.scratch(), &constraint.start(), text.as_bytes())?;
            if len < text.len() {
                let output = text.get(..len).filter(|_| is_accepting && !cuts_word(text.as_bytes(), len))?;
                return encode(output);
            }
        }
        self.of_tokens(encode(text)?, whole)
    }

    fn draw(
        &mut self,
        text: Text,
        tokens: Vec<TokenId>,
        log_prob: f64,
        log_weight: f64,
        origin: Origin,
    ) -> Draw {
        let cost = std::mem::take(&mut self.cost);
        // An output may have ended before the server's.
        let finish = match self.task.constraint.end() {
            OutputEnd::Free => Finish::Stop,
            OutputEnd::Model => text.finish,
        };
        Draw { tokens, log_prob, log_weight, finish, origin, effective: None, cost }
    }
}

/// Outputs of the model that satisfy the constraint: exact, with any server.
///
/// `log_prob` of a draw is NaN where the server does not give it: it never gives that of an output whose end is not the
/// model's.
#[derive(Debug)]
pub struct TextRejection<C> {
    source: Source<C>,
    given: u64,
}

impl<C: Constraint> TextRejection<C> {
    /// The sampler of a task.
    pub fn new(task: TextTask<C>) -> Self {
        Self { source: Source::new(task, None), given: 0 }
    }

    /// The logarithm of the estimate of P(constraint): accepted outputs of all that were judged.
    #[allow(clippy::cast_precision_loss, reason = "nobody draws 2^53 outputs")]
    pub fn log_mass(&self) -> Option<f64> {
        let (given, proposed) = (self.given as f64, self.source.proposed as f64);
        (self.given > 0).then(|| (given / proposed).ln())
    }
}

impl<C: Constraint> Sampler for TextRejection<C> {
    type Error = DrawError;

    fn draw(&mut self, rng: &mut dyn Rng) -> Result<Draw, DrawError> {
        let (text, tokens) = self.source.next(rng)?;
        self.given += 1;
        // A sum that lacks the end, or has the tokens after it, is another number than the one that is asked for.
        let end = usize::from(text.finish == Finish::Stop);
        let is_of_model = self.source.task.constraint.end() == OutputEnd::Model;
        let whole = is_of_model
            && text.ids.as_ref().is_some_and(|ids| match self.source.task.reading.encode {
                None => ids.len() == tokens.len() + end,
                Some(_) => true,
            });
        let log_prob = text.log_prob.filter(|_| whole).unwrap_or(f64::NAN);
        Ok(self.source.draw(text, tokens, log_prob, 0.0, Origin::Accepted))
    }
}

/// Outputs under the server's constraint, each with its weight.
#[derive(Debug)]
pub struct TextWeights<C> {
    source: Source<C>,
    scores: HashMap<Vec<u32>, f64>,
    log_weights: f64,
}

impl<C: Constraint> TextWeights<C> {
    /// The sampler of a task, whose constraint the server enforces as `constraint`.
    ///
    /// # Errors
    ///
    /// [`EndpointError::Unsupported`] where the server gives no log-probabilities after the mask and of prompts, or
    /// the temperature is not 1, at which they are given.
    pub fn new(task: TextTask<C>, constraint: ServerConstraint) -> Result<Self, EndpointError> {
        let server = task.endpoint.server();
        if !server.weighs() {
            return Err(crate::texts::no_weights(server));
        }
        if task.temperature != 1.0 {
            return Err(EndpointError::unsupported(
                server,
                "gives log-probabilities at temperature 1 alone, so that outputs at another one have no weights",
                "use `sampler` rejection, or temperature 1",
            ));
        }
        let source = Source::new(task, Some(constraint));
        Ok(Self { source, scores: HashMap::new(), log_weights: f64::NEG_INFINITY })
    }

    /// The logarithm of the estimate of P(constraint): the mean of the weights.
    #[allow(clippy::cast_precision_loss, reason = "nobody draws 2^53 outputs")]
    pub fn log_mass(&self) -> Option<f64> {
        let proposed = self.source.proposed as f64;
        (self.source.proposed > 0).then(|| self.log_weights - proposed.ln())
    }

    /// The model's own log-probability of an output.
    fn score(&mut self, prompt: &[u32], ids: &[u32]) -> Result<f64, EndpointError> {
        if let Some(score) = self.scores.get(ids) {
            return Ok(*score);
        }
        let score = self.source.task.endpoint.score(prompt, ids)?;
        self.source.cost.passes += 1;
        self.source.cost.positions += ids.len() as u64;
        if self.scores.len() >= SCORES {
            self.scores.clear();
        }
        self.scores.insert(ids.to_vec(), score);
        Ok(score)
    }
}

impl<C: Constraint> Sampler for TextWeights<C> {
    type Error = DrawError;

    fn draw(&mut self, rng: &mut dyn Rng) -> Result<Draw, DrawError> {
        let (text, tokens) = self.source.next(rng)?;
        let server = self.source.task.endpoint.server();
        let missing = |what: &str| {
            EndpointError::unsupported(
                server,
                format!("gives no {what} with its outputs"),
                "use `sampler` rejection, or a newer release of the server",
            )
        };
        let ids = text.ids.clone().ok_or_else(|| missing("tokens"))?;
        let proposal = text.log_prob.ok_or_else(|| missing("log-probabilities"))?;
        let prompt = match &self.source.task.prompt {
            Prompt::Ids(ids) => ids.clone(),
            _ => text.prompt_ids.clone().ok_or_else(|| missing("tokens of the prompt"))?,
        };
        let log_prob = self.score(&prompt, &ids)?;
        let log_weight = log_prob - proposal;
        self.log_weights = log_sum_exp([self.log_weights, log_weight]);
        Ok(self.source.draw(text, tokens, log_prob, log_weight, Origin::Proposed))
    }
}
