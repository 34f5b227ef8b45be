//! What outputs are drawn from and what stands in front of them: the model and the prompts of a call.

use std::sync::Arc;

use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyString, PyTuple},
};
use unskew::{Chat, Prompt, TokenSpace};

use super::worker::{Ask, Asked, Asking};
use crate::{
    constraint::json_text,
    error::{Class, of_facade},
    model::Model,
    tokenizer::ids,
};

/// The model of a call: one that runs here or on a server, or a function of the caller.
pub(super) enum Source<'py> {
    Model(unskew::Model),
    Function(Bound<'py, PyAny>, Arc<TokenSpace>),
}

impl<'py> Source<'py> {
    pub(super) fn of(model: &Bound<'py, PyAny>, tokens: Option<&Arc<TokenSpace>>) -> PyResult<Self> {
        if let Ok(model) = model.cast::<Model>() {
            return match tokens {
                None => Ok(Self::Model(model.get().model.clone())),
                Some(_) => Err(Class::Option.error("a model has its own tokens: leave `tokenizer` out")),
            };
        }
        if !model.is_callable() {
            return Err(pyo3::exceptions::PyTypeError::new_err(
                "`logits` is no function from a batch of ids to rows of logits, and no `unskew.Model`",
            ));
        }
        match tokens {
            Some(tokens) => Ok(Self::Function(model.clone(), Arc::clone(tokens))),
            None => Err(Class::Option
                .error("a model that is a function needs its tokens: give an `unskew.Tokenizer`")),
        }
    }

    pub(super) fn tokens(&self) -> &Arc<TokenSpace> {
        match self {
            Self::Model(model) => model.tokens(),
            Self::Function(_, tokens) => tokens,
        }
    }

    /// The model, which asks the caller for its rows where it is a function.
    pub(super) fn model(&self, asked: Asked, ask: &Ask) -> PyResult<unskew::Model> {
        match self {
            Self::Model(model) => Ok(model.clone()),
            Self::Function(_, tokens) => {
                let asking = Asking::new(asked, tokens.vocabulary().len(), ask.clone());
                unskew::Model::new(asking, Arc::clone(tokens)).map_err(|error| of_facade(&error))
            }
        }
    }

    /// The function, to be called.
    pub(super) fn function(&self) -> Option<Py<PyAny>> {
        match self {
            Self::Model(_) => None,
            Self::Function(function, _) => Some(function.clone().unbind()),
        }
    }

    /// One prompt: a text, tokens, or the messages of a chat.
    pub(super) fn prompt(&self, prompt: Option<&Bound<'py, PyAny>>) -> PyResult<Prompt> {
        let Some(prompt) = prompt else { return Ok("".into()) };
        if let Ok(text) = prompt.cast::<PyString>() {
            return Ok(text.to_cow()?.into_owned().into());
        }
        if !first_is(prompt, PyAnyMethods::is_instance_of::<PyDict>) {
            return Ok(ids(&prompt.extract::<Vec<u32>>()?).into());
        }
        match self {
            Self::Model(_) => {
                let chat = Chat::from_json(&json_text(prompt)?).map_err(|error| of_facade(&error))?;
                Ok(chat.into())
            }
            Self::Function(function, _) => match function.getattr_opt("encode_chat")? {
                Some(encode) => Ok(ids(&encode.call1((prompt,))?.extract::<Vec<u32>>()?).into()),
                None => Err(Class::Option.error(
                    "a function has no chat template: put the messages into the template of its tokenizer, and give the tokens \
                     as `prompt` (or give the function a method `encode_chat`)",
                )),
            },
        }
    }

    /// Several prompts: a list of prompts. `None` for one.
    pub(super) fn prompts(&self, prompt: Option<&Bound<'py, PyAny>>) -> PyResult<Option<Vec<Prompt>>> {
        let is_prompt = |first: &Bound<'py, PyAny>| {
            first.is_instance_of::<PyString>()
                || first.is_instance_of::<PyList>()
                || first.is_instance_of::<PyTuple>()
        };
        match prompt.filter(|prompt| first_is(prompt, is_prompt)) {
            Some(prompts) => prompts
                .try_iter()?
                .map(|prompt| self.prompt(Some(&prompt?)))
                .collect::<PyResult<Vec<_>>>()
                .map(Some),
            None => Ok(None),
        }
    }
}

/// Whether it is a list or a tuple whose first element is so.
fn first_is<'py>(object: &Bound<'py, PyAny>, is: impl Fn(&Bound<'py, PyAny>) -> bool) -> bool {
    let is_list = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
    is_list && object.get_item(0).is_ok_and(|first| is(&first))
}
