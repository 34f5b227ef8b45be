//! Outputs, one after the other.
//!
//! The sampler works ahead: while an output is handed out, others are under way, and each that is finished makes room
//! for the next. So the passes of the model stay full, however different outputs are in length. Outputs come in the
//! order in which they were begun.
//!
//! Tried instead: drawing in chunks of one batch. All of a chunk then waited for the longest of its outputs.

use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
    time::Duration,
};

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use unskew_core::{Cancel, Cost, Draw, Finish, Origin, OutputEnd, TokenId, logprob::log_sum_exp};
use unskew_engine::{Capture, CaptureError, Captures, TokenSpace};

use super::{
    Drafted, Event, Method, Observer,
    engine::{Drawn, Engine, Reached},
    error::{Error, Result},
    method::Asap,
};

/// An output, with its cost.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Output {
    /// The text, with replacement characters where it is not UTF-8, and without a healed part of the prompt.
    pub text: String,
    /// The tokens, without the end of the sequence.
    pub ids: Vec<TokenId>,
    /// The natural logarithm of the probability that the model itself gives the output, its end included: that of the
    /// end of the sequence, or, where outputs end [freely](unskew_core::WithEnd), of all tokens that leave the
    /// constraint there, or of the one token that has passed its end.
    pub log_prob: f64,
    /// The logarithm of the weight that an average over outputs must give this one; zero for exact samplers.
    pub log_weight: f64,
    /// How the output ended.
    pub finish: Finish,
    /// How the sampler came by it.
    pub origin: Origin,
    /// Of an output that `disc` has resampled: how many equal proposals its proposals are worth, by their weights. It
    /// is within `ln(1 + 1 / effective)` nats of the model's distribution, as far as these weights tell.
    pub effective: Option<f64>,
    /// Evaluated positions, passes through the model, and proposals.
    pub cost: Cost,
    /// The share of speculation, where tokens were drafted.
    pub drafted: Option<Drafted>,
    /// The parts that the constraint names, or why they are not known; `None` where it names none. An output that was
    /// cut off has none. Bytes are counted in `text` (before characters are replaced), tokens in `ids`.
    pub captures: Option<Result<Vec<Capture>, CaptureError>>,
}

impl Output {
    /// The value of which the output is the JSON.
    ///
    /// # Example
    ///
    /// ```
    /// use unskew::{Model, Spec, TokenSpace, core::TableModel};
    ///
    /// let table = TableModel::uniform(["0", "1", "2"]);
    /// let tokens = TokenSpace::from_vocabulary(table.vocabulary().clone());
    /// let spec = Spec::json_schema(r#"{"type": "integer", "minimum": 1, "maximum": 20}"#);
    /// let mut draws = Model::new(table, tokens)?.prompt("").constrain(spec)?.seed(1).sample("disc")?;
    /// let number: u8 = draws.next().expect("draws have no end")?.parse()?;
    /// assert!((1..=20).contains(&number));
    /// # Ok::<(), unskew::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Value`] where it is not: an output that was cut off, or of another constraint.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.text).map_err(|error| Error::Value(error.into()))
    }
}

/// The parts of a request that drawing needs.
pub(crate) struct Plan {
    pub(crate) tokens: Arc<TokenSpace>,
    pub(crate) method: Method,
    /// Why, where it was chosen.
    pub(crate) why: Option<&'static str>,
    /// The server that outputs come from.
    pub(crate) from: Option<String>,
    /// Who ends outputs.
    pub(crate) end: OutputEnd,
    /// Whether masked sampling is the model itself.
    pub(crate) is_model: bool,
    /// Whether weights leave out the tokens that are cut off after the mask.
    pub(crate) truncates_after_mask: bool,
    /// The text that outputs begin with and that is not shown.
    pub(crate) healed: String,
    /// The reader of the parts that the constraint names.
    pub(crate) captures: Option<Arc<Captures>>,
    pub(crate) engine: Engine,
    pub(crate) seed: Option<u64>,
    /// Which of the streams of random numbers of the seed.
    pub(crate) stream: u64,
    pub(crate) cancel: Cancel,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) observer: Observer,
}

/// An iterator over the outputs of a [`Request`](super::Request). It ends after the first error, and a search ends
/// with its last output.
///
/// Up to a [batch](super::Request::batch) of outputs are under way together. [`take`](Self::take) begins no more
/// outputs than are asked for. Without it, outputs that are under way when the iterator is dropped have cost passes
/// for nothing.
pub struct Draws {
    plan: Plan,
    seed: u64,
    rng: ChaCha8Rng,
    /// Outputs that are still to be learned from before the first is given out.
    warm_up: Option<WarmUp>,
    /// Whether the next output is under way.
    is_begun: bool,
    /// Whether a search gives its best output each time.
    gives_best: bool,
    /// The outputs that are still to be handed out, and those of them that are still to be begun.
    wanted: usize,
    left: usize,
    outputs: u64,
    cost: Cost,
    /// The logarithm of the sum of the weights of outputs that were not cut off.
    log_weights: f64,
}

/// Outputs that ASAp learns from.
#[derive(Debug)]
struct WarmUp {
    left: usize,
    outputs: u64,
    of: u64,
}

/// The next event of [`Draws`].
#[derive(Debug)]
pub enum Polled {
    /// An output.
    Output(Box<Result<Output>>),
    /// A pass of the model.
    Pass,
}

impl fmt::Debug for Draws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draws")
            .field("method", &self.plan.method)
            .field("seed", &self.seed)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

/// Another seed each time.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Draws {
    pub(crate) fn new(plan: Plan) -> Self {
        let seed = plan.seed.unwrap_or_else(random_seed);
        let warm_up = match plan.method {
            Method::Asap(Asap { iterations: of @ 1.., .. }) => {
                Some(WarmUp { left: usize::try_from(of).unwrap_or(usize::MAX), outputs: 0, of })
            }
            _ => None,
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(plan.stream);
        Self {
            plan,
            seed,
            rng,
            warm_up,
            is_begun: false,
            gives_best: false,
            wanted: usize::MAX,
            left: usize::MAX,
            outputs: 0,
            cost: Cost::default(),
            log_weights: f64::NEG_INFINITY,
        }
    }

    /// At most `outputs` more of them. Other than with [`Iterator::take`], the sampler knows how many are wanted, and
    /// begins no more.
    #[must_use]
    pub fn take(mut self, outputs: usize) -> Self {
        // A population gives more outputs than were begun.
        let under_way = self.wanted.saturating_sub(self.left);
        self.wanted = outputs;
        self.left = outputs.saturating_sub(under_way);
        self
    }

    /// The same outputs one by one, as [`Sampler::draw`](unskew_core::Sampler::draw) gives them: a search then gives
    /// its best output each time.
    #[must_use]
    pub fn best_each_time(mut self) -> Self {
        self.gives_best = true;
        self
    }

    /// The method; never [`Method::Auto`].
    pub fn method(&self) -> &Method {
        &self.plan.method
    }

    /// The method, the distribution of its outputs and, where it was chosen, the reason: one line.
    pub fn explain(&self) -> String {
        let Plan { method, why, from, is_model, .. } = &self.plan;
        let distribution = match method {
            Method::Masked | Method::Speculative(_) if *is_model => "the model's own distribution",
            _ => method.distribution(),
        };
        let why = why.map(|why| format!(" (chosen because {why})")).unwrap_or_default();
        let from = from.as_ref().map(|from| format!("; {from}")).unwrap_or_default();
        let end = match self.plan.end {
            OutputEnd::Free => "; an output ends where the model's text leaves the constraint",
            OutputEnd::Model if *is_model => "",
            OutputEnd::Model => "; the model ends an output by the end of its sequence",
        };
        format!("{method}: {distribution}{end}{from}{why}")
    }

    /// The seed of all random choices.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The number of outputs that were handed out.
    pub fn drawn(&self) -> u64 {
        self.outputs
    }

    /// The natural logarithm of an estimate of P(constraint), the probability that the model satisfies the constraint
    /// by itself within the length limit, from the outputs so far. `None` where the method gives no estimate, or none
    /// yet.
    ///
    /// Exact samplers count how many of their tries are accepted, against the bounds that they were drawn by. Masked
    /// sampling, AWRS and SMC have the mean of their weights, which is unbiased.
    pub fn log_mass(&mut self) -> Option<f64> {
        // An output stands for all tries that were made for it.
        let tries = match self.plan.method {
            Method::Masked if self.plan.truncates_after_mask => return None,
            // The samplers of servers count what they reject.
            Method::Masked if self.plan.from.is_some() => {
                return self.plan.engine.log_mass().or_else(|| self.mean_weight(self.cost.proposals));
            }
            Method::Masked | Method::Awrs(_) => self.cost.proposals,
            Method::Smc(smc) if !smc.all => self.cost.proposals / smc.n.get() as u64,
            _ => return self.plan.engine.log_mass(),
        };
        self.mean_weight(tries)
    }

    /// The logarithm of the mean weight over a number of tries.
    fn mean_weight(&self, tries: u64) -> Option<f64> {
        #[allow(clippy::cast_precision_loss, reason = "nobody draws 2^53 outputs")]
        let mean = self.log_weights - (tries as f64).ln();
        (tries > 0).then(|| mean.min(0.0))
    }

    /// The bounds that the sampler has learned, for [`resume`](Self::resume) in another run; `None` where the method
    /// learns none.
    pub fn learned(&mut self) -> Option<Vec<u8>> {
        if !self.plan.method.info().learns {
            return None;
        }
        self.plan.engine.save()
    }

    /// The generator of random numbers after the last output that was begun.
    pub fn generator(&self) -> &ChaCha8Rng {
        &self.rng
    }

    /// Goes on from the bounds that another run of the same request has [learned](Self::learned), with its generator
    /// where one is given.
    ///
    /// # Errors
    ///
    /// [`Error::Learned`] where the bytes are of another task, or damaged, and [`Error::Engine`] where the
    /// method learns nothing.
    pub fn resume(&mut self, learned: &[u8], generator: Option<ChaCha8Rng>) -> Result<()> {
        let learns = self.plan.method.info().learns;
        let Some(loaded) = learns.then(|| self.plan.engine.load(learned)).flatten() else {
            let message = format!("{} learns nothing that could be kept", self.plan.method);
            return Err(Error::combination(message));
        };
        // Those under way are given up.
        self.left = self.wanted;
        loaded?;
        // Its iterations are a part of the bounds.
        (self.warm_up, self.is_begun) = (None, false);
        if let Some(generator) = generator {
            self.rng = generator;
        }
        Ok(())
    }

    /// Goes on to the next output, or to the next pass of the model, which [`evaluate`](Self::evaluate) makes before
    /// the next call: for programs that do something else between passes, or have the rows elsewhere
    /// ([`wanted`](Self::wanted)). Outputs are those of the iterator.
    ///
    /// Cost: that of masks and random numbers for a batch of tokens.
    pub fn poll(&mut self) -> Option<Polled> {
        if self.wanted == 0 {
            return None;
        }
        let mut output = match self.plan.cancel.is_cancelled() {
            // Not every sampler looks within an output.
            true => Err(self.cancelled()),
            false => match self.reach()? {
                Reached::Pass => return Some(Polled::Pass),
                Reached::Draw(drawn) => self.output(drawn),
            },
        };
        self.is_begun = false;
        if output.is_err() {
            self.wanted = 0;
            if self.plan.cancel.is_cancelled() {
                output = Err(self.cancelled());
            }
        }
        Some(Polled::Output(Box::new(output)))
    }

    /// Makes the pass that [`poll`](Self::poll) told of. An error of the model is that of the next output.
    pub fn evaluate(&mut self) {
        self.plan.engine.evaluate();
    }

    /// The prefixes, prompts among them, whose rows the pass asks the model for. It may ask for the row after the
    /// prompt besides.
    pub fn wanted(&self) -> Vec<Vec<TokenId>> {
        let wanted = self.plan.engine.wanted().iter();
        let prefixes = wanted.flat_map(|rows| {
            (rows.first..=rows.tokens.len()).map(|depth| [&rows.prompt[..], &rows.tokens[..depth]].concat())
        });
        prefixes.collect()
    }

    /// The next draw of an output, or the next pass. ASAp learns before the first output.
    fn reach(&mut self) -> Option<Reached> {
        while let Some(WarmUp { left, outputs, of }) = &mut self.warm_up {
            match self.plan.engine.poll(left, &mut self.rng) {
                Some(Reached::Draw(Ok(_))) => {
                    *outputs += 1;
                    self.plan.observer.tell(Event::Learned { outputs: *outputs, of: *of });
                    // Later, draws are under way that are wanted.
                    if outputs < of {
                        continue;
                    }
                }
                Some(reached) => return Some(reached),
                None => {}
            }
            self.warm_up = None;
        }
        if !self.is_begun && self.gives_best && matches!(self.plan.method, Method::Beam(_)) {
            self.plan.engine.give_up();
        }
        self.is_begun = true;
        self.plan.engine.poll(&mut self.left, &mut self.rng)
    }

    /// Why the drawing was ended from outside.
    fn cancelled(&self) -> Error {
        match self.plan.time_limit {
            Some(limit) if self.plan.cancel.is_late() => {
                Error::TimeLimit { seconds: limit.as_secs_f64(), outputs: self.outputs }
            }
            _ => Error::Cancelled,
        }
    }

    fn output(&mut self, drawn: Drawn) -> Result<Output> {
        let (draw, drafted) = drawn?;
        self.wanted -= 1;
        self.outputs += 1;
        self.cost += draw.cost;
        if draw.finish == Finish::Stop {
            self.log_weights = log_sum_exp([self.log_weights, draw.log_weight]);
        }
        self.plan.observer.tell(Event::Drawn { outputs: self.outputs, cost: self.cost });
        let text = self.plan.tokens.decode(&draw.tokens);
        // An output that was cut off may end inside of the healed text.
        let text = text.strip_prefix(&self.plan.healed).unwrap_or_default().to_owned();
        let Draw { tokens: ids, log_prob, log_weight, finish, origin, effective, cost } = draw;
        let captures = self.plan.captures.as_ref().map(|captures| {
            let mut found = match finish {
                Finish::Stop => captures.read(&ids)?,
                Finish::Length => return Err(CaptureError::Unfinished),
            };
            // The healed text is in front of all of them.
            let healed = self.plan.healed.len();
            for Capture { bytes, .. } in &mut found {
                *bytes = bytes.start.saturating_sub(healed)..bytes.end.saturating_sub(healed);
            }
            Ok(found)
        });
        Ok(Output { text, ids, log_prob, log_weight, finish, origin, effective, cost, drafted, captures })
    }
}

impl Iterator for Draws {
    type Item = Result<Output>;

    fn next(&mut self) -> Option<Result<Output>> {
        loop {
            match self.poll()? {
                Polled::Output(output) => return Some(*output),
                Polled::Pass => self.evaluate(),
            }
        }
    }
}
