//! Types as constraints: what a function takes where it takes a constraint, and the values that come back.
//!
//! The rules are in Python (`unskew._types`, `unskew._tools`), where types are. A constraint that was made of one has
//! a reader: an object with `value`, from the text of an output to a value of the type, and `calls`.

use std::{ops::Deref, sync::Arc};

use pyo3::{exceptions::PyTypeError, prelude::*, types::PyString};
use unskew::{
    Spec,
    engine::tools::{Reasoning, Tool, ToolChoice, ToolRequest},
};

use crate::{
    constraint::Constraint,
    error::{Class, of_engine},
};

/// The module with the rules.
const MODULE: &str = "unskew._types";

/// What reads outputs.
pub(crate) type Reader = Arc<Py<PyAny>>;

/// A constraint, or what `Constraint.of` makes one of.
#[derive(Debug)]
pub(crate) struct Given(pub(crate) Constraint);

impl Deref for Given {
    type Target = Constraint;

    fn deref(&self) -> &Constraint {
        &self.0
    }
}

impl<'py> FromPyObject<'_, 'py> for Given {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(constraint) = object.cast::<Constraint>() {
            return Ok(Self(constraint.get().clone()));
        }
        if object.is_none() || object.is_instance_of::<PyString>() {
            let what = object.get_type();
            let why = format!("{what} is no constraint: give an `unskew.Constraint` or a type");
            return Err(PyTypeError::new_err(why));
        }
        of(&object).map(Self)
    }
}

/// The constraint of a type.
pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Constraint> {
    let made = object.py().import(MODULE)?.call_method1("of", (object,))?;
    Ok(made.cast::<Constraint>()?.get().clone())
}

/// A part of a composition: a constraint, a type, or a text that stands as it is.
pub(crate) fn part(object: &Bound<'_, PyAny>) -> PyResult<Constraint> {
    match object.cast::<PyString>() {
        Ok(text) => Ok(Constraint::untyped(Spec::choices([text.to_cow()?.into_owned()]))),
        Err(_) if object.is_none() => {
            Err(PyTypeError::new_err("None is no constraint; `type(None)` is a type"))
        }
        Err(_) => object.extract::<Given>().map(|given| given.0),
    }
}

/// The reader of one of several constraints: None where none has a type.
pub(crate) fn reader_of_any(py: Python<'_>, parts: &[&Constraint]) -> PyResult<Option<Reader>> {
    if parts.iter().all(|part| part.reader.is_none()) {
        return Ok(None);
    }
    let readers: Vec<_> = parts.iter().map(|part| part.reader.as_deref()).collect();
    Ok(Some(Arc::new(py.import(MODULE)?.call_method1("any_of", (readers,))?.unbind())))
}

/// The value of a text, which is the text itself without a type.
pub(crate) fn value(py: Python<'_>, reader: Option<&Reader>, text: &str) -> PyResult<Py<PyAny>> {
    match reader {
        Some(reader) => reader.call_method1(py, "value", (text,)),
        None => Ok(PyString::new(py, text).into_any().unbind()),
    }
}

/// The calls in a text.
pub(crate) fn calls(py: Python<'_>, reader: Option<&Reader>, text: &str) -> PyResult<Py<PyAny>> {
    match reader {
        Some(reader) => reader.call_method1(py, "calls", (text,)),
        None => Err(Class::Option.error("there are no calls: the constraint is none of `Constraint.tools`")),
    }
}

/// Tools as their names, descriptions and schemas.
type Known = Vec<(String, String, String)>;

/// The tools of a list in JSON.
#[pyfunction]
#[pyo3(signature = (tools, closed=None))]
pub(crate) fn _tool_list(tools: &str, closed: Option<bool>) -> PyResult<Known> {
    let tools = Tool::list(tools, closed).map_err(|error| of_engine(&error))?;
    Ok(tools.into_iter().map(|tool| (tool.name, tool.description, tool.parameters)).collect())
}

/// The constraint of a request with tools, and the marks of the model as JSON. `choice` is `auto`, `required`, `none`,
/// or the name of a tool behind a colon.
#[pyfunction]
pub(crate) fn _tools(
    model: &str,
    tools: &str,
    choice: &str,
    parallel: bool,
    reasoning: &str,
    response: Option<String>,
    closed: Option<bool>,
) -> PyResult<(Constraint, String)> {
    let mut request = ToolRequest::of_model(model).map_err(|error| of_engine(&error))?;
    request.choice = match choice {
        "auto" => ToolChoice::Auto,
        "required" => ToolChoice::Required,
        "none" => ToolChoice::None,
        name => ToolChoice::Named(name.trim_start_matches(':').to_owned()),
    };
    request.reasoning = match reasoning {
        "enabled" => Reasoning::Enabled,
        "auto" => Reasoning::Auto,
        _ => Reasoning::Disabled,
    };
    (request.parallel, request.response) = (parallel, response);
    let tools = Tool::list(tools, closed).map_err(|error| of_engine(&error))?;
    let spec = request.spec(&tools).map_err(|error| of_engine(&error))?;
    Ok((Constraint::untyped(spec), request.marks()))
}
