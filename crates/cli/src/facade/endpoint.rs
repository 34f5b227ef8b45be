//! A model that a server runs, behind the same requests as others.
//!
//! Two things are opened: the server, which draws whole outputs, and a [`LanguageModel`](unskew_core::LanguageModel)
//! over its rows of log-probabilities, where it gives whole ones and its tokenizer is here. A method takes what it
//! needs: rejection takes whole outputs, one request for many of them, and other methods rows. Without rows there are
//! rejection, and `masked` under the server's own constraint, with weights.
//!
//! Without a tokenizer the tokens are bytes. A constraint on texts is the same over any tokens.

use std::sync::Arc;

use rand_core::Rng;
use unskew_core::{Constraint, OutputEnd, Sampler, TokenId};
use unskew_endpoint::{
    DrawError, Endpoint, EndpointError, EndpointModel, Options, Prompt, Reading, ServerConstraint,
    TextRejection, TextTask, TextWeights,
};
use unskew_engine::{Language, Spec, TokenSpace, read, spec::Source};
use unskew_notation::GrammarFormat;
use unskew_samplers::SampleError;
use unskew_vocab::Tokenizer;

use super::{
    AnyModel, AnyModelError, Ended, Method, Prompt as Given, Request, Start,
    engine::{AnySampleError, AnySampler, Engine, Reached},
    error::{Error, Result},
    method::{Rejecting, TRIES},
    model::bytes,
};

/// A text whose tokens are compared with the server's: words, digits, spaces, letters beyond ASCII.
const PROBE: &str = "The price is 1234.5 euros;  na\u{ef}ve \u{65e5}\u{672c}\n\tok";

/// The server of a model.
#[derive(Debug)]
pub(crate) struct Remote {
    endpoint: Arc<Endpoint>,
    /// Why there are no rows.
    missing: Option<EndpointError>,
    /// Whether its tokenizer is here.
    tokenizer: bool,
}

/// The server at `address`, the model over its rows, and its tokens.
pub(super) fn connect(
    address: &str,
    tokenizer: Option<Tokenizer>,
    options: &Options,
) -> Result<(Remote, AnyModel, TokenSpace)> {
    let model_error = |error: EndpointError| Error::Model(error.into());
    let endpoint = Arc::new(Endpoint::connect(address, options).map_err(model_error)?);
    let Some(tokenizer) = tokenizer else {
        let tokens = bytes();
        let why = EndpointError::NoTokenizer { server: endpoint.server() };
        let model =
            EndpointModel::without_rows(Arc::clone(&endpoint), tokens.vocabulary().len(), why.clone());
        return Ok((Remote { endpoint, missing: Some(why), tokenizer: false }, AnyModel::new(model), tokens));
    };
    let ours = tokenizer.encode(PROBE, false).map_err(Error::tokens)?;
    let ours: Vec<u32> = ours.iter().map(|id| id.0).collect();
    endpoint.check_tokens(PROBE, &ours).map_err(model_error)?;
    let len = tokenizer.vocabulary().len();
    let (model, missing) = match EndpointModel::open(Arc::clone(&endpoint), len, &ours[..1]) {
        Ok(model) => (model, None),
        // The server works, and tells less.
        Err(why @ (EndpointError::Unsupported { .. } | EndpointError::NotWhole { .. })) => {
            (EndpointModel::without_rows(Arc::clone(&endpoint), len, why.clone()), Some(why))
        }
        Err(error) => return Err(model_error(error)),
    };
    let row = unskew_core::LanguageModel::vocab_len(&model);
    let tokens = TokenSpace::from_tokenizer(tokenizer, &[], row)?;
    Ok((Remote { endpoint, missing, tokenizer: true }, AnyModel::new(model), tokens))
}

impl Remote {
    pub(crate) fn has_rows(&self) -> bool {
        self.missing.is_none()
    }

    pub(crate) fn has_ids(&self) -> bool {
        self.tokenizer && self.endpoint.server().gives_ids()
    }

    /// The method that `auto` is here; `None`: as for other models.
    pub(crate) fn auto(&self, is_unconstrained: bool, is_chat: bool) -> Option<(Method, &'static str)> {
        match (self.has_rows() && !is_chat, is_unconstrained) {
            (true, _) => None,
            (false, true) => Some((Method::Masked, "nothing is forbidden, so that no sampler rejects")),
            (false, false) => Some((
                Method::Rejection(Rejecting { tries: TRIES, length: None }),
                "whole outputs are all that the server gives, and rejection is exact with them",
            )),
        }
    }

    /// Whether a method draws whole outputs here.
    pub(crate) fn draws_whole(&self, method: &Method, is_chat: bool) -> bool {
        matches!(method, Method::Rejection(_)) || !self.has_rows() || is_chat
    }

    /// Where outputs come from, in a few words.
    pub(crate) fn described(&self, whole: bool) -> String {
        let what = if whole { "whole outputs" } else { "rows" };
        format!("{what} of {} at {}", self.endpoint.server(), self.endpoint.address())
    }

    /// The sampler of a method over whole outputs.
    pub(crate) fn engine(
        &self,
        method: &Method,
        request: &Request,
        constraint: Ended,
        start: &Start,
        max_tokens: usize,
    ) -> Result<Engine> {
        let unsupported = |error: EndpointError| Error::Model(error.into());
        let is_chat = request.is_chat();
        let tries = match method {
            Method::Rejection(rejecting) => rejecting.tries,
            Method::Masked => TRIES,
            _ => {
                return Err(Error::combination(format!(
                    "{method} needs rows of log-probabilities, and there are none: {}",
                    self.why_no_rows(is_chat)
                )));
            }
        };
        if request.spec.canonical && !self.has_ids() {
            return Err(Error::combination(
                "`canonical` is about tokens: give the server's `tokenizer`, and a server that gives the tokens of its outputs",
            ));
        }
        let is_masked = matches!(method, Method::Masked) && !request.is_unconstrained();
        let ends_freely = constraint.end() == OutputEnd::Free;
        let server = self.endpoint.server();
        let by_ids = self.has_ids() && (!is_chat || server == unskew_endpoint::Server::Vllm);
        let tokens = Arc::clone(request.model.tokens());
        let vocabulary = Arc::clone(tokens.vocabulary());
        let reading = match by_ids {
            true => Reading::ids(vocabulary),
            false => Reading::texts(vocabulary, move |text| tokens.encode_output(text).ok()),
        };
        let ids = |ids: &[TokenId]| Prompt::Ids(ids.iter().map(|id| id.0).collect());
        let prompt = match &request.prompt {
            Given::Text(_) if self.has_ids() && !start.prompt.is_empty() => ids(&start.prompt),
            Given::Text(text) => Prompt::Text(text.clone()),
            Given::Ids(_) if self.tokenizer => ids(&start.prompt),
            Given::Ids(_) => {
                return Err(Error::combination("a prompt of tokens needs the server's `tokenizer`"));
            }
            Given::Chat(chat) => {
                let messages = serde_json::from_str(chat.messages());
                Prompt::Chat(messages.map_err(|error| Error::combination(format!("`messages`: {error}")))?)
            }
        };
        let task = TextTask {
            endpoint: Arc::clone(&self.endpoint),
            constraint,
            reading,
            prompt,
            max_tokens,
            temperature: request.temperature,
            batch: request.outputs.map_or(request.batch, |outputs| request.batch.max(outputs.min(64))),
            tries,
            keep_cut: matches!(method, Method::Masked) && request.is_unconstrained(),
            cancel: request.cancel.clone(),
        };
        match method {
            Method::Masked if is_masked => {
                let constraint = server_constraint(&request.spec)?;
                let sampler = TextWeights::new(task, constraint).map_err(unsupported)?;
                if ends_freely {
                    return Err(Error::combination(
                        "an output under the server's own constraint is followed by the end of its sequence: give `end` model, or use \
                         `sampler` rejection",
                    ));
                }
                Ok(Box::new(sampler))
            }
            _ => Ok(Box::new(TextRejection::new(task))),
        }
    }

    fn why_no_rows(&self, is_chat: bool) -> String {
        match &self.missing {
            Some(why) if !is_chat => why.to_string(),
            _ => "the server puts the message into its template itself; use `sampler` rejection, or give the `prompt` as it is"
                .to_owned(),
        }
    }
}

/// The constraint in the words of the server, which proposes by it. Options of ours that it does not know narrow what
/// is kept.
fn server_constraint(spec: &Spec) -> Result<ServerConstraint> {
    let text = |source: &Source| match source {
        Source::Text(text) => Ok(text.clone()),
        Source::File(path) => read::text(path).map_err(Error::from),
    };
    let unknown = |what: &str| {
        Error::combination(format!(
            "{what} is no constraint that servers enforce, so that outputs have no weights; use `sampler` rejection"
        ))
    };
    if spec.canonical {
        return Err(unknown("`canonical`"));
    }
    Ok(match &spec.language {
        Language::Regex(regex) => ServerConstraint::Regex(text(&regex.source)?),
        Language::Choices(texts) => ServerConstraint::Choices(texts.clone()),
        Language::JsonSchema(schema) if schema.registry.is_none() => {
            ServerConstraint::JsonSchema(text(&schema.source)?)
        }
        Language::StructuralTag(tag) => ServerConstraint::StructuralTag(text(&tag.source)?),
        Language::Grammar(grammar) => {
            let named = match &grammar.source {
                Source::File(path) => {
                    path.extension().and_then(|end| GrammarFormat::from_extension(end.to_str()?))
                }
                Source::Text(_) => None,
            };
            let own = grammar.start.is_none() && grammar.grammars.is_empty() && grammar.imports.is_empty();
            match grammar.format.or(named) {
                Some(GrammarFormat::Gbnf | GrammarFormat::Xgrammar) if own => {
                    ServerConstraint::Ebnf(text(&grammar.source)?)
                }
                Some(GrammarFormat::Lark) if own => ServerConstraint::Lark(text(&grammar.source)?),
                _ => return Err(unknown("this grammar (with its options)")),
            }
        }
        Language::JsonSchema(_) => return Err(unknown("a schema with a registry")),
        _ => return Err(unknown("this constraint")),
    })
}

macro_rules! whole_outputs {
    ($($sampler:ident),*) => {
        $(impl AnySampler for $sampler<Ended> {
            fn poll(&mut self, left: &mut usize, rng: &mut dyn Rng) -> Option<Reached> {
                *left = left.checked_sub(1)?;
                Some(Reached::Draw(self.draw(rng).map(|draw| (draw, None)).map_err(sample_error)))
            }

            fn log_mass(&mut self) -> Option<f64> {
                Self::log_mass(self)
            }
        })*
    };
}

whole_outputs!(TextRejection, TextWeights);

fn sample_error(error: DrawError) -> AnySampleError {
    match error {
        DrawError::Cancelled => SampleError::Cancelled,
        error => SampleError::Model(AnyModelError::new(error)),
    }
}
