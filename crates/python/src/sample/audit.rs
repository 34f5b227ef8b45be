//! `unskew.audit`: samplers beside each other over a model that is a Python function.
//!
//! The measures and the page are those of the command line's `audit`. All works on the thread of a sampler
//! ([`worker`]), and the thread that called answers its questions, as for `sample`.

use pyo3::prelude::*;
use unskew::{
    Method, Prompt, Request, Spec,
    audit::{Asked, Audit, Sampled},
    core::Cancel,
};

use super::{
    Options, count, method, progress_of, rows,
    source::Source,
    spec_of,
    worker::{self, Ask, Question},
};
use crate::{
    error::{Class, of_facade},
    tokenizer::Tokenizer,
    typed::Given,
};

/// Draws outputs of several samplers: their measures as a text of JSON, and the page. `progress` is called with a
/// sampler and the number of its outputs.
#[pyfunction]
#[pyo3(signature = (
    logits, constraint, tokenizer=None, *, samplers, n, seed, prompt=None, max_tokens=None, batch=16, temperature=1.0, top_k=None, top_p=None,
    progress=None, end=None, time_limit=None
))]
#[allow(clippy::too_many_arguments, reason = "each is an option by its name")]
pub(crate) fn audit(
    py: Python<'_>,
    logits: Bound<'_, PyAny>,
    constraint: Option<Given>,
    tokenizer: Option<&Tokenizer>,
    samplers: Vec<String>,
    n: i128,
    seed: i128,
    prompt: Option<&Bound<'_, PyAny>>,
    max_tokens: Option<i128>,
    batch: i128,
    temperature: f64,
    top_k: Option<i128>,
    top_p: Option<f64>,
    progress: Option<Bound<'_, PyAny>>,
    end: Option<&str>,
    time_limit: Option<f64>,
) -> PyResult<(String, String)> {
    let source = Source::of(&logits, tokenizer.map(|tokenizer| &tokenizer.tokens))?;
    let n = count::<usize>("n", Some(n))?.unwrap_or_default();
    let seed = count::<u64>("seed", Some(seed))?.unwrap_or_default();
    let progress = progress_of(progress, Some(n))?;
    if n == 0 || samplers.is_empty() {
        return Err(Class::Option
            .error("an audit has one sampler at least (`samplers`), and one output of each (`n`)"));
    }
    let methods = samplers.iter().map(|name| method(name)).collect::<PyResult<Vec<_>>>()?;
    if methods.iter().any(|method| matches!(method, Method::Auto(_))) {
        return Err(Class::Option.error("`samplers` names samplers; auto is the choice of one of them"));
    }
    let vocab_len = source.tokens().vocabulary().len();
    let (ask, worker) = worker::channels(Cancel::default());
    if source.prompts(prompt)?.is_some() {
        return Err(Class::Option.error("an audit has one prompt: call it for each"));
    }
    let given = source.prompt(prompt)?;
    let shown = match &given {
        Prompt::Text(text) => text.clone(),
        Prompt::Ids(ids) => source.tokens().decode(ids),
        Prompt::Chat(_) => "the messages of a chat".to_owned(),
    };
    let options = Options { prompt: given, max_tokens, batch, temperature, top_k, top_p, time_limit };
    let request = options.request(&source, &ask)?.seed(seed);
    for method in &methods {
        request.check(method).map_err(|error| of_facade(&error))?;
    }
    let spec = spec_of(constraint.as_deref(), end)?;
    let tokens = std::sync::Arc::clone(source.tokens());
    worker.start(ask, move |ask| {
        let asked = Asked { constraint: &spec.to_string(), prompt: &shown, seed, samples: n };
        let done = compared(ask, request, &spec, &methods, asked, &tokens);
        ask.tell(Question::Audited(done));
    })?;
    loop {
        match worker.receive(py)? {
            Question::Rows(_, prefixes) => worker.give(rows(&logits, &prefixes, vocab_len)?)?,
            Question::Progress(sampler, drawn) => {
                if let Some(progress) = &progress {
                    progress.call1(py, (sampler, drawn))?;
                }
            }
            Question::Audited(done) => return done.map_err(|error| of_facade(&error)),
            Question::Ready(_) | Question::Appended(_) | Question::Output(..) => {}
        }
    }
}

/// The measures and the page of the methods.
fn compared(
    ask: &Ask,
    request: Request,
    spec: &Spec,
    methods: &[Method],
    asked: Asked<'_>,
    tokens: &unskew::TokenSpace,
) -> unskew::Result<(String, String)> {
    let request = request.constrain(spec.clone())?;
    let mut sampled = Vec::new();
    for method in methods {
        let tell = |drawn| ask.tell(Question::Progress(method.name(), drawn));
        sampled.push(Sampled::draw(request.clone(), *method, asked.samples, tell)?);
        if ask.cancel().is_cancelled() {
            return Err(unskew::Error::Cancelled);
        }
    }
    let audit = Audit::new(&sampled, None, tokens);
    Ok((audit.json(), audit.html(asked, request.task()?)?))
}
