//! Outputs, made one pass of the model at a time.
//!
//! JavaScript polls. The answer is an output, or that a pass is to be made: here, where the model is a checkpoint, or
//! after the rows that the pass needs were given. Between two polls the page does what it likes.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use unskew::{Output, Polled, Prompt, Request, Spec, Truncate, core::TokenId};
use wasm_bindgen::prelude::*;

use crate::{
    Model,
    explain::{placed, source},
    fault::{Fault, json},
    model::Given,
    spec,
    tokenizer::numbers,
};

/// The largest batch: each sequence of it holds a row of logits.
const MAX_BATCH: usize = 4096;

/// How outputs are drawn: the JSON of `SampleOptions`, with a prompt as a text or as ids.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Options {
    sampler: Option<String>,
    n: Option<usize>,
    seed: Option<String>,
    prompt: Option<String>,
    prompt_ids: Option<Vec<u32>>,
    max_tokens: Option<usize>,
    temperature: Option<f64>,
    top_k: Option<usize>,
    top_p: Option<f64>,
    batch: Option<usize>,
}

/// An output as JSON, but for its ids.
#[derive(Serialize)]
struct Draw<'a> {
    text: &'a str,
    logprob: f64,
    logweight: f64,
    finish: &'static str,
    origin: &'static str,
    is_json: bool,
    cost: Cost,
}

#[derive(Serialize)]
struct Cost {
    positions: u64,
    passes: u64,
    proposals: u64,
}

/// Outputs of a model under a constraint.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Draws {
    draws: unskew::Draws,
    given: Option<Given>,
    /// The prefixes of the pass, each once.
    wanted: Vec<Vec<TokenId>>,
    is_json: bool,
    /// The logits of a row.
    size: usize,
    last: Option<Output>,
}

#[wasm_bindgen]
impl Draws {
    /// Outputs of `model` under the JSON of a spec, by the JSON of options.
    ///
    /// # Errors
    ///
    /// A [`Fault`] for a spec, options or a prompt that do not belong together.
    #[wasm_bindgen(constructor)]
    pub fn new(model: &Model, spec: &str, options: &str) -> Result<Draws, Fault> {
        let options: Options = serde_json::from_str(options)
            .map_err(|error| Fault::argument(format!("the options of `sample`: {error}")))?;
        let given = spec::Given::read(spec)?;
        let is_text = given.is_text;
        let spec = given.constraint()?;
        let is_json = matches!(spec.language, unskew::Language::JsonSchema(_));
        let request = request(model, &spec, is_text, &options)?;
        let mut draws = request.sample(options.sampler.as_deref().unwrap_or("auto"))?;
        if let Some(n) = options.n {
            draws = draws.take(n);
        }
        let size = model.model.tokens().vocabulary().len();
        Ok(Self { draws, given: model.given.clone(), wanted: Vec::new(), is_json, size, last: None })
    }

    /// Goes on: 0 there are no more outputs, 1 a pass is to be made, 2 there is an output.
    ///
    /// # Errors
    ///
    /// The [`Fault`] of an output; there are no more then.
    pub fn poll(&mut self) -> Result<u8, Fault> {
        match self.draws.poll() {
            None => Ok(0),
            Some(Polled::Pass) => {
                if self.given.is_some() {
                    let mut seen = HashSet::new();
                    self.wanted = self.draws.wanted();
                    self.wanted.retain(|prefix| seen.insert(prefix.clone()));
                }
                Ok(1)
            }
            Some(Polled::Output(output)) => {
                self.last = Some((*output)?);
                Ok(2)
            }
        }
    }

    /// How many prefixes the pass wants rows of; none where the model is here.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn wants(&self) -> usize {
        self.wanted.len()
    }

    /// A prefix that the pass wants the row of.
    #[must_use]
    pub fn wanted(&self, at: usize) -> Vec<u32> {
        self.wanted.get(at).map(|prefix| numbers(prefix)).unwrap_or_default()
    }

    /// Gives the row of a prefix.
    ///
    /// # Errors
    ///
    /// A [`Fault`] of kind `model` for a row of another length.
    pub fn give(&mut self, at: usize, row: Vec<f32>) -> Result<(), Fault> {
        let (Some(given), Some(prefix)) = (&self.given, self.wanted.get(at)) else {
            return Err(Fault::argument("nobody has asked for this row"));
        };
        let len = self.size;
        if row.len() != len {
            let why = format!("the model gave a row of {} logits, and there are {len} tokens", row.len());
            return Err(Fault::new("model", why));
        }
        given.lock().insert(prefix.clone(), row.into());
        Ok(())
    }

    /// Makes the pass.
    pub fn evaluate(&mut self) {
        self.draws.evaluate();
        self.wanted.clear();
        if let Some(given) = &self.given {
            given.lock().clear();
        }
    }

    /// The last output as JSON, but for its ids.
    #[must_use]
    pub fn draw(&self) -> Option<String> {
        let output = self.last.as_ref()?;
        let cost = &output.cost;
        Some(json(&Draw {
            text: &output.text,
            logprob: output.log_prob,
            logweight: output.log_weight,
            finish: output.finish.name(),
            origin: output.origin.name(),
            is_json: self.is_json,
            cost: Cost { positions: cost.positions, passes: cost.passes, proposals: cost.proposals },
        }))
    }

    /// The ids of the last output.
    #[wasm_bindgen(js_name = drawIds)]
    #[must_use]
    pub fn draw_ids(&self) -> Vec<u32> {
        self.last.as_ref().map(|output| numbers(&output.ids)).unwrap_or_default()
    }

    /// The seed.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.draws.seed()
    }

    /// The sampler with its parameters.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn sampler(&self) -> String {
        self.draws.method().to_string()
    }

    /// The sampler and its distribution.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn explain(&self) -> String {
        self.draws.explain()
    }

    /// The logarithm of an estimate of P(constraint).
    #[must_use]
    pub fn logmass(&mut self) -> Option<f64> {
        self.draws.log_mass()
    }
}

fn request(model: &Model, spec: &Spec, is_text: bool, options: &Options) -> Result<Request, Fault> {
    let prompt = match (&options.prompt, &options.prompt_ids) {
        (_, Some(ids)) => Prompt::Ids(ids.iter().copied().map(TokenId).collect()),
        (Some(text), None) => text.as_str().into(),
        (None, None) => "".into(),
    };
    let batch = options.batch.unwrap_or(16);
    if !(1..=MAX_BATCH).contains(&batch) {
        return Err(Fault::argument(format!("`batch` is {batch}: give 1 to {MAX_BATCH}")));
    }
    let seed = options.seed.as_ref().map(|seed| seed.parse::<u64>()).transpose();
    let seed = seed.map_err(|_| Fault::argument("`seed` is a whole number from 0 to 2^64 - 1"))?;
    let truncate = match (options.top_k, options.top_p) {
        (None, None) => None,
        (k, p) => Some(Truncate::BeforeMask(Truncate::top(k, p)?)),
    };
    // Compiled with fuel, so that it is kept for the request.
    let until = unskew::engine::Until { fuel: Some(crate::constraint::FUEL), ..Default::default() };
    let compiled = unskew::engine::Compiler::shared(model.model.tokens()).compile_until(spec, &until);
    compiled.map_err(|error| placed(&error, source(spec).filter(|_| is_text)))?;
    let mut request = model.model.prompt("").after(prompt)?;
    if let Some(n) = options.n {
        request = request.outputs(n);
    }
    let request = request
        .temperature(options.temperature.unwrap_or(1.0))
        .truncate(truncate)
        .max_tokens(options.max_tokens)
        .seed(seed)
        .batch(batch);
    Ok(request.constrain(spec.clone())?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unskew::core::FnModel;

    use super::*;
    use crate::Tokenizer;

    /// Rows of a model that likes some bytes more than others.
    fn row(prefix: &[u32]) -> Vec<f32> {
        let mix = |id: u32| prefix.iter().fold(id, |mix, next| mix.wrapping_mul(31).wrapping_add(*next));
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        (0..257).map(|id| (mix(id).wrapping_mul(2_654_435_761) >> 24) as f32 / 64.0).collect()
    }

    fn function() -> unskew::Model {
        let row_of = |prefix: &[TokenId], out: &mut [f32]| out.copy_from_slice(&row(&numbers(prefix)));
        unskew::Model::new(FnModel::new(257, row_of), Arc::clone(&Tokenizer::bytes().tokens)).unwrap()
    }

    /// Outputs of a model whose rows are given are those of the same model as a function, for every sampler.
    #[test]
    fn rows_that_are_given_are_those_of_a_function() {
        let spec = r#"{"regex": "[a-c]{1,4}(x|yz)"}"#;
        for sampler in
            ["masked", "cars", "disc", "auto", "asap:iterations=5", "awrs", "smc:n=4", "beam:n=3", "mcmc"]
        {
            let expected = function().prompt("").constrain(Spec::from_json(spec).unwrap()).unwrap();
            let expected = expected.seed(7).outputs(6).sample(sampler).unwrap().take(6);
            let expected: Vec<Output> = expected.map(Result::unwrap).collect();
            let model = Model::given(&Tokenizer::bytes()).unwrap();
            let options = format!(r#"{{"sampler": "{sampler}", "seed": "7", "n": 6}}"#);
            let mut draws = Draws::new(&model, spec, &options).unwrap();
            let (mut got, mut passes) = (Vec::new(), 0);
            loop {
                match draws.poll().unwrap() {
                    0 => break,
                    1 => {
                        passes += 1;
                        assert!(draws.wants() > 0);
                        for at in 0..draws.wants() {
                            let given = row(&draws.wanted(at));
                            draws.give(at, given).unwrap();
                        }
                        draws.evaluate();
                    }
                    _ => got.push(draws.last.take().unwrap()),
                }
            }
            assert!(got == expected && passes > 0 && !got.is_empty(), "{sampler}");
        }
    }

    #[test]
    fn wrong_options_and_rows_are_faults() {
        let model = Model::given(&Tokenizer::bytes()).unwrap();
        let fault = |spec: &str, options: &str| Draws::new(&model, spec, options).map(|_| ()).unwrap_err();
        for (options, kind) in [
            (r#"{"sampler": "none such"}"#, "sampler"),
            (r#"{"samplr": "masked"}"#, "argument"),
            (r#"{"seed": "-1"}"#, "argument"),
            (r#"{"batch": 0}"#, "argument"),
            (r#"{"temperature": -1}"#, "argument"),
            (r#"{"topP": 7}"#, "argument"),
            (r#"{"promptIds": [999]}"#, "combination"),
        ] {
            let fault = fault(r#"{"regex": "a"}"#, options);
            assert_eq!(fault.kind, kind, "{options}: {fault}");
        }
        assert_eq!(fault(r#"{"regex": "a("}"#, "{}").place.unwrap().start, Some(1));
        let mut draws = Draws::new(&model, r#"{"regex": "a|b"}"#, r#"{"sampler": "masked"}"#).unwrap();
        assert_eq!(draws.poll().unwrap(), 1);
        assert_eq!(draws.give(0, vec![0.0; 3]).unwrap_err().kind, "model");
        // A row that is no distribution is a fault of the draw, and so is a row that nobody gave.
        draws.evaluate();
        assert!(["model", "sample"].contains(&draws.poll().unwrap_err().kind));
        assert_eq!(draws.poll().unwrap(), 0);
    }
}
