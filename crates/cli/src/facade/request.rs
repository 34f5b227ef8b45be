//! A request for outputs: the prompt, the constraint, and how to draw.
//!
//! The request is plain data until [`Request::sample`] makes a sampler of it. A constraint is compiled when it is
//! given, so that an error in it shows there; a request that is cloned shares it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use unskew_core::{Cancel, Constraint, LanguageModel, TokenId, WithEnd};
use unskew_engine::{Compiled, Spec};
use unskew_samplers::Task;

use super::{
    AnyModel, Draws, Event, Method, Model, Observer, Prompt,
    compile::{asks_for_gpu, compile, note_space, on_gpu},
    drafts::{self, Draft},
    draws::Plan,
    engine::{self, Engine, Truncate, WarpedModel},
    error::{Error, Result},
};

/// The most tokens of an output where neither the user nor the model says otherwise.
const MAX_TOKENS: usize = 256;

/// The outputs that go through the model together where nothing else is said.
const BATCH: usize = 16;

/// A request for outputs of a [`Model`]: made by [`Model::prompt`], answered by [`sample`](Self::sample).
///
/// # Example
///
/// ```
/// # #[cfg(all(feature = "runner", feature = "tiny-model"))]
/// # fn main() -> Result<(), unskew::Error> {
/// use unskew::{Model, Spec};
///
/// let model = Model::open("tiny")?;
/// let draws = model
///     .prompt("")
///     .constrain(Spec::regex(r#"\{"name": "[A-Z][a-z]+ [A-Z][a-z]+", "age": [1-9][0-9], "city": "[A-Z][a-z]+"\}"#))?
///     .seed(7)
///     .sample("cars")?;
/// for output in draws.take(5) {
///     let output = output?;
///     println!("{} {:.3} {}", output.text, output.log_prob, output.cost.passes);
/// }
/// # Ok(())
/// # }
/// # #[cfg(not(all(feature = "runner", feature = "tiny-model")))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) model: Model,
    /// A chat is that of a server, which puts it into its template.
    pub(super) prompt: Prompt,
    heal: bool,
    pub(super) spec: Spec,
    /// The constraint on outputs that begin with a text; no text: it is the user's own.
    compiled: Option<(Option<String>, Compiled)>,
    pub(super) temperature: f64,
    pub(super) truncate: Option<Truncate>,
    max_tokens: Option<usize>,
    pub(super) seed: Option<u64>,
    pub(super) stream: u64,
    pub(super) batch: usize,
    pub(super) outputs: Option<usize>,
    draft: Option<Draft>,
    pub(super) cancel: Cancel,
    time_limit: Option<Duration>,
    observer: Observer,
}

/// The constraint of a request, and who ends its outputs.
pub type Ended = WithEnd<Compiled>;

/// The tokens in front of an output, and the text that the output begins with and that was taken off the prompt.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Start {
    /// The tokens of the prompt.
    pub prompt: Vec<TokenId>,
    /// The text that is healed: outputs begin with it, and it is not shown again.
    pub healed: String,
}

impl Model {
    /// A request for outputs after `prompt`.
    pub fn prompt(&self, prompt: impl Into<String>) -> Request {
        Request::new(self.clone(), Prompt::Text(prompt.into()))
    }

    /// The same for a prompt that is tokens already. Nothing is put in front of them.
    pub fn prompt_ids(&self, prompt: impl Into<Vec<TokenId>>) -> Request {
        Request::new(self.clone(), Prompt::Ids(prompt.into()))
    }
}

impl Request {
    fn new(model: Model, prompt: Prompt) -> Self {
        Self {
            model,
            prompt,
            heal: false,
            spec: Spec::default(),
            compiled: None,
            temperature: 1.0,
            truncate: None,
            max_tokens: None,
            seed: None,
            stream: 0,
            batch: BATCH,
            outputs: None,
            draft: None,
            cancel: Cancel::default(),
            time_limit: None,
            observer: Observer::default(),
        }
    }

    /// Every output satisfies `spec`.
    ///
    /// # Errors
    ///
    /// [`Error`], where a file cannot be read, the constraint cannot be enforced exactly, or its parts do not go
    /// together.
    pub fn constrain(mut self, spec: Spec) -> Result<Self> {
        self.spec = spec;
        self.compiled = None;
        // Before minutes of compiling.
        self.check_counts()?;
        let healed = self.start()?.healed;
        let compiled = self.compile(&healed)?;
        self.compiled = Some((Some(healed), compiled));
        Ok(self)
    }

    /// Every output satisfies a constraint of one's own.
    ///
    /// # Errors
    ///
    /// [`Error::Engine`] where its masks are not as long as the rows of the model, or the prompt is healed: such
    /// a constraint says nothing about the text that outputs then begin with.
    pub fn constrain_with(mut self, constraint: impl Constraint + 'static) -> Result<Self> {
        let (masks, row) = (constraint.vocab_len(), self.model.any_model().vocab_len());
        if masks != row {
            return Err(Error::combination(format!(
                "the masks of the constraint have {masks} ids, and a row of the model {row} entries"
            )));
        }
        if self.heal {
            return Err(Error::combination("`heal` needs a constraint that is compiled here; leave it out"));
        }
        self.spec = Spec::default();
        self.compiled = Some((None, Compiled::own(constraint, self.model.tokens())));
        Ok(self)
    }

    /// Takes the last tokens off the prompt where a longer token begins with them; outputs then begin with their text.
    #[must_use]
    pub fn heal(mut self, heal: bool) -> Self {
        self.heal = heal;
        self
    }

    /// Divides the logits. The distribution that is kept is that of the model at this temperature.
    #[must_use]
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = temperature;
        self
    }

    /// Cuts off improbable tokens.
    #[must_use]
    pub fn truncate(mut self, truncate: impl Into<Option<Truncate>>) -> Self {
        self.truncate = truncate.into();
        self
    }

    /// The most tokens of an output. Default: 256, or the room that the context of the model leaves.
    #[must_use]
    pub fn max_tokens(mut self, most: impl Into<Option<usize>>) -> Self {
        self.max_tokens = most.into();
        self
    }

    /// The seed of all random choices. Default: another one each time.
    #[must_use]
    pub fn seed(mut self, seed: impl Into<Option<u64>>) -> Self {
        self.seed = seed.into();
        self
    }

    /// The most outputs that go through the model together. The outputs of a seed depend on it where the sampler
    /// learns or drafts; their distribution never does. Default: 16.
    #[must_use]
    pub fn batch(mut self, batch: usize) -> Self {
        self.batch = batch.max(1);
        self
    }

    /// About how many outputs will be taken. The method `auto` chooses by it, and a beam is at least as wide.
    /// Default: many.
    #[must_use]
    pub fn outputs(mut self, outputs: usize) -> Self {
        self.outputs = Some(outputs);
        self
    }

    /// The part that proposes tokens for the model to verify.
    #[must_use]
    pub fn draft(mut self, draft: impl Into<Option<Draft>>) -> Self {
        self.draft = draft.into();
        self
    }

    /// Ends the drawing when it is cancelled: the next output is then [`Error::Cancelled`].
    #[must_use]
    pub fn cancel(mut self, cancel: Cancel) -> Self {
        self.cancel = cancel;
        self
    }

    /// Ends the drawing this long after [`sample`](Self::sample): what is drawn then is handed out, and the next output
    /// is [`Error::TimeLimit`]. The constraint is compiled before. A pass of the model that is under way ends first.
    #[must_use]
    pub fn time_limit(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.time_limit = limit.into();
        self
    }

    /// Calls `hear` with each [`Event`]: outputs as they are drawn, the reading of a large set, findings that are no
    /// errors. Give it before the constraint.
    #[must_use]
    pub fn observe(mut self, hear: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Observer::new(hear);
        self
    }

    /// The tokens of the model.
    pub(crate) fn tokens(&self) -> &unskew_engine::TokenSpace {
        self.model.tokens()
    }

    /// The constraint.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Whether nothing is forbidden.
    pub fn is_unconstrained(&self) -> bool {
        !matches!(self.compiled, Some((None, _))) && self.spec.is_unconstrained()
    }

    /// The tokens in front of an output.
    ///
    /// # Errors
    ///
    /// [`Error`], where the tokens cannot spell the prompt, or an id of it is beyond the vocabulary.
    pub fn start(&self) -> Result<Start> {
        let tokens = self.model.tokens();
        let mut prompt = match &self.prompt {
            Prompt::Text(text) => tokens.encode_prompt(text)?,
            Prompt::Ids(ids) => ids.clone(),
            Prompt::Chat(_) => return Ok(Start { prompt: Vec::new(), healed: String::new() }),
        };
        let len = tokens.vocabulary().len();
        if let Some(id) = prompt.iter().find(|id| id.index() >= len) {
            return Err(Error::combination(format!(
                "token {id} of the prompt is beyond the vocabulary of {len} ids: it is of another tokenizer"
            )));
        }
        let healed = if self.heal { tokens.heal(&mut prompt)? } else { String::new() };
        self.model.check_prompt(&prompt)?;
        Ok(Start { prompt, healed })
    }

    /// The most tokens of an output after `prompt`.
    ///
    /// # Errors
    ///
    /// [`Error::Engine`] where the context of the model has no room for them.
    fn room(&self, prompt: &[TokenId]) -> Result<usize> {
        let asked = self.max_tokens;
        let Some(context) = self.model.any_model().context_len() else {
            return Ok(asked.unwrap_or(MAX_TOKENS));
        };
        let room = context.saturating_sub(prompt.len());
        match asked {
            Some(asked) if asked > room => Err(Error::combination(format!(
                "`max_tokens` {asked} with a prompt of {} tokens passes the model's context of {context} tokens; \
                 at most {room} are left",
                prompt.len()
            ))),
            None if room == 0 => Err(Error::combination(format!(
                "the prompt has {} tokens, and the model's context only {context}; shorten it",
                prompt.len()
            ))),
            Some(asked) => Ok(asked),
            None => Ok(room.min(MAX_TOKENS)),
        }
    }

    /// The constraint on outputs that begin with `healed`.
    fn compiled(&self, healed: &str) -> Result<Compiled> {
        match &self.compiled {
            Some((None, _)) if !healed.is_empty() => {
                Err(Error::combination("`heal` needs a constraint that is compiled here; leave it out"))
            }
            Some((text, compiled)) if text.as_deref().unwrap_or_default() == healed => Ok(compiled.clone()),
            _ => self.compile(healed),
        }
    }

    fn compile(&self, healed: &str) -> Result<Compiled> {
        let compiled = compile(&self.spec, self.model.tokens(), healed, &self.observer)?;
        Ok(if asks_for_gpu(&self.spec) { on_gpu(compiled, &self.observer) } else { compiled })
    }

    /// The model: on a GPU where one is asked for and the program can run it there.
    fn drawing_model(&self) -> AnyModel {
        let model = self.model.any_model();
        #[cfg(feature = "wgpu")]
        if asks_for_gpu(&self.spec) {
            return super::device::on_gpu(model, &self.observer);
        }
        model.clone()
    }

    /// The outputs that share a budget.
    pub(super) fn expected(&self) -> u64 {
        self.outputs.unwrap_or(1) as u64
    }

    fn task_of(
        &self,
        compiled: Compiled,
        prompt: Vec<TokenId>,
        max_tokens: usize,
    ) -> Result<Task<WarpedModel, Ended>> {
        let model = engine::warped(
            self.drawing_model().observed(self.observer.clone()),
            self.temperature,
            self.truncate,
        )?;
        let constraint = compiled.with_end(self.spec.end());
        let task = Task::new(model, constraint, self.model.tokens().vocabulary(), max_tokens).after(prompt);
        Ok(Task { batch: self.batch, cancel: self.cancel.clone(), ..task })
    }

    /// The task that the samplers of this request draw for: for a sampler of one's own, or for
    /// [`trace`](unskew_samplers::trace()).
    ///
    /// # Errors
    ///
    /// As [`sample`](Self::sample), but for those about the method.
    pub fn task(&self) -> Result<Task<WarpedModel, Ended>> {
        let Start { prompt, healed } = self.start()?;
        let max_tokens = self.room(&prompt)?;
        self.task_of(self.compiled(&healed)?, prompt, max_tokens)
    }

    /// Outputs that the method with this name draws, such as `cars` or `smc:n=10,twisted`: see
    /// [`METHODS`](super::METHODS).
    ///
    /// # Errors
    ///
    /// [`Error`], where there is no such method, or it does not go together with the rest of the request.
    pub fn sample(self, method: &str) -> Result<Draws> {
        let method = method.parse()?;
        self.sample_with(method)
    }

    /// The same for a [`Method`].
    ///
    /// # Errors
    ///
    /// As [`sample`](Self::sample).
    pub fn sample_with(mut self, method: Method) -> Result<Draws> {
        let start = self.start()?;
        let max_tokens = self.room(&start.prompt)?;
        let (mut chosen, why) = self.resolve(method);
        self.check(&chosen)?;
        if let (Method::Beam(beam), Some(outputs)) = (&mut chosen, self.outputs) {
            beam.n = beam.n.max(outputs.try_into().unwrap_or(beam.n));
        }
        let compiled = self.compiled(&start.healed)?;
        let captures = compiled.captures().filter(|captures| captures.has_names()).cloned();
        note_space(&self.spec, self.model.tokens(), &start.prompt, &self.observer);
        if let Some(limit) = self.time_limit {
            // A limit that no clock can tell is none.
            self.cancel = match Instant::now().checked_add(limit) {
                Some(deadline) => self.cancel.until(deadline),
                None => self.cancel,
            };
        }
        let (engine, from) = self.engine_of(&chosen, compiled, &start, max_tokens)?;
        let truncates_after_mask = matches!(self.truncate, Some(Truncate::AfterMask(_)));
        Ok(Draws::new(Plan {
            tokens: Arc::clone(self.model.tokens()),
            method: chosen,
            why,
            from,
            end: self.spec.end(),
            is_model: self.is_unconstrained() && !truncates_after_mask,
            truncates_after_mask,
            healed: start.healed,
            captures,
            engine,
            seed: self.seed,
            stream: self.stream,
            cancel: self.cancel,
            time_limit: self.time_limit,
            observer: self.observer,
        }))
    }

    /// The method itself, or for [`Method::Auto`] one for this request, and why it was chosen.
    pub(super) fn resolve(&self, method: Method) -> (Method, Option<&'static str>) {
        #[cfg(feature = "http")]
        if let (Method::Auto(super::method::Auto { budget: None, .. }), Some(remote)) =
            (&method, self.model.remote())
            && let Some((method, why)) = remote.auto(self.is_unconstrained(), self.is_chat())
        {
            return (method, Some(why));
        }
        method.resolve(self.is_unconstrained())
    }

    #[cfg(feature = "http")]
    pub(super) fn is_chat(&self) -> bool {
        matches!(self.prompt, Prompt::Chat(_))
    }

    /// The sampler of a method, and where its outputs come from, where that is a server.
    fn engine_of(
        &self,
        method: &Method,
        compiled: Compiled,
        start: &Start,
        max_tokens: usize,
    ) -> Result<(Engine, Option<String>)> {
        #[cfg(feature = "http")]
        if let Some(remote) = self.model.remote() {
            let plain = self.draft.is_none() && self.truncate.is_none() && !self.heal;
            if remote.draws_whole(method, self.is_chat()) {
                if plain {
                    let constraint = compiled.with_end(self.spec.end());
                    let engine = remote.engine(method, self, constraint, start, max_tokens)?;
                    return Ok((engine, Some(remote.described(true))));
                }
                if !remote.has_rows() || self.is_chat() {
                    return Err(Error::combination(
                        "whole outputs of a server go with no `draft_model`, no `truncate` and no `heal`; leave them out",
                    ));
                }
            }
            return Ok((self.engine(method, compiled, start, max_tokens)?, Some(remote.described(false))));
        }
        Ok((self.engine(method, compiled, start, max_tokens)?, None))
    }

    /// Refuses a method that does not go together with truncation or drafts. [`sample`](Self::sample) does so too,
    /// once it has compiled the constraint.
    ///
    /// # Errors
    ///
    /// [`Error::Engine`].
    pub fn check(&self, method: &Method) -> Result<()> {
        if matches!(self.truncate, Some(Truncate::AfterMask(_))) && *method != Method::Masked {
            return Err(Error::combination(
                "`truncate` after-mask changes the proposals and has no unbiased distribution; \
                 use it with `sampler` masked, or `truncate` before-mask",
            ));
        }
        drafts::check(method, self.draft.as_ref())
    }

    /// Refuses counts by place without a grammar.
    fn check_counts(&self) -> Result<()> {
        match self.draft {
            Some(Draft::Counts) if !self.spec.is_grammar() || self.spec.canonical => Err(self.no_counts()),
            _ => Ok(()),
        }
    }

    fn engine(
        &self,
        method: &Method,
        compiled: Compiled,
        start: &Start,
        max_tokens: usize,
    ) -> Result<Engine> {
        let is_grammar = compiled.grammar().is_some();
        let task = self.task_of(compiled, start.prompt.clone(), max_tokens)?;
        match &self.draft {
            None => Ok(engine::engine(method, self, task)),
            Some(Draft::Counts) if !is_grammar => Err(self.no_counts()),
            Some(draft) => engine::drafting(method, draft, self, task),
        }
    }

    /// Why tokens cannot be counted by place.
    fn no_counts(&self) -> Error {
        if self.spec.is_grammar() {
            return Error::combination(
                "`canonical` cannot be combined with counts of a `grammar` or `json_schema`; leave out one of the two",
            );
        }
        engine::counts_need_a_grammar()
    }
}
