//! Constraints as data: `unskew.Constraint`, a `Spec` of the engine.

use std::{collections::BTreeMap, path::PathBuf};

use pyo3::{
    exceptions::{PyRecursionError, PyTypeError, PyValueError},
    prelude::*,
    types::{PyDict, PyString, PyTuple},
};
use unskew::{
    Spec, SpecOptions,
    core::OutputEnd,
    engine::{GBNF_BYTES, JsonRequest, RequestRules, spec::RegistrySource},
};

use crate::{
    error::{Class, guarded, of_engine, of_spec},
    typed::{self, Given, Reader},
};

/// A constraint on outputs, as data. `Compiler.compile` makes matchers of it, and `sample` outputs.
#[pyclass(frozen, eq, module = "unskew")]
#[derive(Clone, Debug)]
pub(crate) struct Constraint {
    pub(crate) spec: Spec,
    /// What makes values of outputs, where the constraint was made of a type.
    pub(crate) reader: Option<Reader>,
}

/// Constraints with equal outputs are equal, whatever reads these.
impl PartialEq for Constraint {
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

impl Constraint {
    pub(crate) fn untyped(spec: Spec) -> Self {
        Self { spec, reader: None }
    }
}

fn made(options: SpecOptions) -> PyResult<Constraint> {
    Spec::try_from(options).map(Constraint::untyped).map_err(|error| of_spec(&error))
}

/// The outputs of any of the parts.
fn any(py: Python<'_>, parts: &[&Constraint], canonical: bool) -> PyResult<Constraint> {
    let any_of = parts.iter().map(|part| part.spec.clone()).collect();
    let made = made(SpecOptions { any_of, canonical, ..SpecOptions::default() })?;
    Ok(Constraint { reader: typed::reader_of_any(py, parts)?, ..made })
}

/// Who ends outputs.
pub(crate) fn end_of(end: &str) -> PyResult<OutputEnd> {
    end.parse().map_err(|error| Class::Option.error(format!("`end` is {end:?}: {error}")))
}

/// Refuses an empty list, which would be no constraint at all.
fn some<T>(list: &[T], name: &str) -> PyResult<()> {
    if list.is_empty() {
        let message = format!("`{name}` is empty: no output would be allowed");
        return Err(crate::error::Class::Constraint.error(message));
    }
    Ok(())
}

/// The text of JSON: a string is one already, and other values are written as JSON.
pub(crate) fn json_text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    match value.cast::<PyString>() {
        Ok(text) => Ok(text.to_cow()?.into_owned()),
        Err(_) => value.py().import("json")?.call_method1("dumps", (value,))?.extract(),
    }
}

/// A value of a client that does not become JSON is no constraint, and no fault of a program.
fn no_json(py: Python<'_>, error: PyErr) -> PyErr {
    let is_of_value = error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyRecursionError>(py);
    if is_of_value {
        Class::Constraint.error(format!("not a constraint in JSON: {}", error.value(py)))
    } else {
        error
    }
}

#[pymethods]
impl Constraint {
    /// The whole output matches the pattern, as `re.fullmatch` has it. `dialect` is `python`, `rust` or `ecma`.
    #[staticmethod]
    #[pyo3(signature = (pattern, *, dialect=None, canonical=false))]
    fn regex(pattern: String, dialect: Option<String>, canonical: bool) -> PyResult<Self> {
        let (regex, regex_dialect) = (Some(pattern), dialect);
        made(SpecOptions { regex, regex_dialect, canonical, ..SpecOptions::default() })
    }

    /// The output is one of these texts.
    #[staticmethod]
    #[pyo3(signature = (choices, *, canonical=false))]
    fn choice(choices: Vec<String>, canonical: bool) -> PyResult<Self> {
        if choices.is_empty() {
            return Err(Class::Constraint.error("`choices` is empty: no output would be allowed"));
        }
        made(SpecOptions { choices, canonical, ..SpecOptions::default() })
    }

    /// The output is JSON that satisfies a JSON Schema: a text, or a value that becomes JSON.
    #[staticmethod]
    #[pyo3(signature = (schema, *, canonical=false, whitespace=None, spelling=None, any_order=false, margin=None, ascii=false, exponents=None, dialect=None, registry=None))]
    #[allow(clippy::too_many_arguments, reason = "each is an option by its name")]
    fn json_schema(
        schema: &Bound<'_, PyAny>,
        canonical: bool,
        whitespace: Option<String>,
        spelling: Option<String>,
        any_order: bool,
        margin: Option<u32>,
        ascii: bool,
        exponents: Option<u32>,
        dialect: Option<String>,
        registry: Option<BTreeMap<String, Bound<'_, PyAny>>>,
    ) -> PyResult<Self> {
        let schemas = |registry: BTreeMap<String, Bound<'_, PyAny>>| {
            let texts = registry.into_iter().map(|(name, value)| Ok((name, json_text(&value)?)));
            texts.collect::<PyResult<_>>().map(RegistrySource::Schemas)
        };
        made(SpecOptions {
            json_schema: Some(json_text(schema)?),
            whitespace,
            spelling,
            any_order,
            margin,
            ascii,
            exponents,
            dialect,
            schema_registry: registry.map(schemas).transpose()?,
            canonical,
            ..SpecOptions::default()
        })
    }

    /// The output is a word of a grammar in Lark.
    #[staticmethod]
    #[pyo3(signature = (grammar, *, canonical=false, max_ignored=None, start=None, grammars=None))]
    fn lark(
        grammar: String,
        canonical: bool,
        max_ignored: Option<u32>,
        start: Option<String>,
        grammars: Option<BTreeMap<String, Given>>,
    ) -> PyResult<Self> {
        let (grammar, grammar_format) = (Some(grammar), Some("lark".to_owned()));
        let grammars = grammars.unwrap_or_default();
        made(SpecOptions {
            grammar,
            grammar_format,
            max_ignored,
            start,
            grammars: grammars.into_iter().map(|(name, part)| (name, part.spec.clone())).collect(),
            canonical,
            ..SpecOptions::default()
        })
    }

    /// The output is one of any of these constraints.
    #[staticmethod]
    #[pyo3(signature = (parts, *, canonical=false))]
    fn any_of(py: Python<'_>, parts: Vec<Given>, canonical: bool) -> PyResult<Self> {
        some(&parts, "parts")?;
        any(py, &parts.iter().map(|part| &part.0).collect::<Vec<_>>(), canonical)
    }

    /// The output is one of each of these constraints, one after the other.
    #[staticmethod]
    #[pyo3(signature = (parts, *, canonical=false))]
    fn sequence(parts: Vec<Given>, canonical: bool) -> PyResult<Self> {
        some(&parts, "parts")?;
        let sequence = parts.iter().map(|part| part.spec.clone()).collect();
        made(SpecOptions { sequence, canonical, ..SpecOptions::default() })
    }

    /// The output is a word of a grammar in GBNF, as llama.cpp has them.
    #[staticmethod]
    #[pyo3(signature = (grammar, *, canonical=false, start=None))]
    fn gbnf(grammar: String, canonical: bool, start: Option<String>) -> PyResult<Self> {
        let (grammar, grammar_format) = (Some(grammar), Some("gbnf".to_owned()));
        made(SpecOptions { grammar, grammar_format, canonical, start, ..SpecOptions::default() })
    }

    /// The output is a word of a grammar in the EBNF of the W3C.
    #[staticmethod]
    #[pyo3(signature = (grammar, *, canonical=false, start=None))]
    fn ebnf(grammar: String, canonical: bool, start: Option<String>) -> PyResult<Self> {
        let (grammar, grammar_format) = (Some(grammar), Some("ebnf".to_owned()));
        made(SpecOptions { grammar, grammar_format, canonical, start, ..SpecOptions::default() })
    }

    /// The output is a word of a grammar in the EBNF of XGrammar.
    #[staticmethod]
    #[pyo3(signature = (grammar, *, canonical=false, start=None))]
    fn xgrammar(grammar: String, canonical: bool, start: Option<String>) -> PyResult<Self> {
        let (grammar, grammar_format) = (Some(grammar), Some("xgrammar".to_owned()));
        made(SpecOptions { grammar, grammar_format, canonical, start, ..SpecOptions::default() })
    }

    /// The output is a word of a grammar in ABNF, as in RFCs.
    #[staticmethod]
    #[pyo3(signature = (grammar, *, canonical=false, start=None))]
    fn abnf(grammar: String, canonical: bool, start: Option<String>) -> PyResult<Self> {
        let (grammar, grammar_format) = (Some(grammar), Some("abnf".to_owned()));
        made(SpecOptions { grammar, grammar_format, canonical, start, ..SpecOptions::default() })
    }

    /// The output is as a structural tag says: a text, or a value that becomes JSON.
    #[staticmethod]
    #[pyo3(signature = (tag, *, canonical=false, whitespace=None, spelling=None))]
    fn structural_tag(
        tag: &Bound<'_, PyAny>,
        canonical: bool,
        whitespace: Option<String>,
        spelling: Option<String>,
    ) -> PyResult<Self> {
        let structural_tag = Some(json_text(tag)?);
        made(SpecOptions { structural_tag, whitespace, spelling, canonical, ..SpecOptions::default() })
    }

    /// The output is an item of the set in a file: a built set, or a text with one item a line.
    #[staticmethod]
    #[pyo3(signature = (path, *, subset=None, canonical=false))]
    fn set(path: PathBuf, subset: Option<String>, canonical: bool) -> PyResult<Self> {
        made(SpecOptions { set: Some(path), subset, canonical, ..SpecOptions::default() })
    }

    /// The output is any text but an item of the set in a file.
    #[staticmethod]
    fn exclude_set(path: PathBuf) -> PyResult<Self> {
        made(SpecOptions { exclude_set: Some(path), ..SpecOptions::default() })
    }

    /// Any text; with `canonical`, in the tokenizer's own spelling.
    #[staticmethod]
    #[pyo3(signature = (*, canonical=false))]
    fn anything(canonical: bool) -> PyResult<Self> {
        made(SpecOptions { canonical, ..SpecOptions::default() })
    }

    /// The constraint of a `response_format` of OpenAI's interface: a text, or a value that becomes JSON.
    #[staticmethod]
    fn response_format(format: &Bound<'_, PyAny>) -> PyResult<Self> {
        let spec = JsonRequest::default().response_format(&json_text(format)?);
        spec.map(Self::untyped).map_err(|error| of_engine(&error))
    }

    /// The constraint of a request, under the rules of a server: JSON as text or as a value, or a constraint that was
    /// made of a request. Files lie in the folder `files`, and without one there are none; `limits` are those of each
    /// request, which may only lower them.
    #[staticmethod]
    #[pyo3(signature = (spec, *, files=None, limits=None))]
    fn of_request(
        py: Python<'_>,
        spec: &Bound<'_, PyAny>,
        files: Option<PathBuf>,
        limits: Option<BTreeMap<String, u64>>,
    ) -> PyResult<Self> {
        let mut rules = RequestRules { files, ..RequestRules::default() };
        for (name, value) in limits.unwrap_or_default() {
            rules.limits.set(&name, value).map_err(|error| Class::Option.error(error.to_string()))?;
        }
        let made = match spec.cast::<Self>() {
            Ok(made) => {
                let spec = made.get().spec.clone();
                guarded(|| Ok(py.detach(|| spec.under(&rules))))
            }
            Err(_) => {
                let text = json_text(spec).map_err(|error| no_json(py, error))?;
                guarded(|| Ok(py.detach(|| Spec::of_request(&text, &rules))))
            }
        };
        made?.map(Self::untyped).map_err(|error| of_spec(&error))
    }

    /// The constraint that JSON describes, as `to_json` writes it.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        Spec::from_json(text).map(Self::untyped).map_err(|error| of_spec(&error))
    }

    /// The same constraint with other limits on its cost: numbers by the names that errors give, as in
    /// `with_limits({"grammar.positions": 5_000_000})`.
    fn with_limits(&self, limits: BTreeMap<String, u64>) -> PyResult<Self> {
        let mut spec = self.spec.clone();
        for (name, value) in limits {
            spec.limits.set(&name, value).map_err(|error| of_spec(&error))?;
        }
        Ok(Self { spec, reader: self.reader.clone() })
    }

    /// The same constraint with outputs that end so: `free`, where the model's text leaves the constraint (as it is
    /// where nobody says), or `model`, where the model ends its text. Masks are the same under both.
    fn with_end(&self, end: &str) -> PyResult<Self> {
        Ok(Self { spec: self.spec.clone().ending(end_of(end)?), reader: self.reader.clone() })
    }

    /// The outputs that are values of a type: JSON, or bare texts of a list of texts and of a compiled pattern.
    #[staticmethod]
    fn of(r#type: &Bound<'_, PyAny>) -> PyResult<Self> {
        typed::of(r#type)
    }

    /// The outputs in which a model calls tools: functions, the list of an MCP server, or OpenAI's tools.
    #[staticmethod]
    #[pyo3(signature = (tools, *, model, choice=None, parallel=true, reasoning=None, response_format=None, closed=None))]
    #[allow(clippy::too_many_arguments, reason = "each is an option by its name")]
    fn tools<'py>(
        py: Python<'py>,
        tools: Bound<'py, PyAny>,
        model: &str,
        choice: Option<Bound<'py, PyAny>>,
        parallel: bool,
        reasoning: Option<Bound<'py, PyAny>>,
        response_format: Option<Bound<'py, PyAny>>,
        closed: Option<bool>,
    ) -> PyResult<Self> {
        let rules = py.import("unskew._tools")?;
        let arguments = (tools, model, choice, parallel, reasoning, response_format, closed);
        Ok(rules.call_method1("constraint", arguments)?.cast::<Self>()?.get().clone())
    }

    /// The value of a text that is an output: of the type that the constraint was made of, or the text itself.
    fn value_of(&self, py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
        typed::value(py, self.reader.as_ref(), text)
    }

    /// The calls of tools in a text that is an output, control tokens by their names.
    fn calls_of(&self, py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
        typed::calls(py, self.reader.as_ref(), text)
    }

    /// The same constraint with what reads its outputs.
    fn _read_by(&self, reader: Py<PyAny>) -> Self {
        Self { spec: self.spec.clone(), reader: Some(Reader::new(reader)) }
    }

    fn __or__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        any(other.py(), &[self, &typed::part(other)?], false)
    }

    fn __ror__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        any(other.py(), &[&typed::part(other)?, self], false)
    }

    fn __add__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        let sequence = vec![self.spec.clone(), typed::part(other)?.spec];
        made(SpecOptions { sequence, ..SpecOptions::default() })
    }

    fn __radd__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        let sequence = vec![typed::part(other)?.spec, self.spec.clone()];
        made(SpecOptions { sequence, ..SpecOptions::default() })
    }

    /// The constraint as one line of JSON.
    fn to_json(&self) -> PyResult<String> {
        guarded(|| Ok(self.spec.to_json()))
    }

    /// The fate of every construct: a list of dicts with `pointer`, `span`, `construct`, `fate` and `why`.
    fn explain<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let fates = guarded(|| py.detach(|| self.spec.explain()).map_err(|error| of_engine(&error)))?;
        let mut answers = Vec::with_capacity(fates.len());
        for fate in fates {
            let answer = PyDict::new(py);
            answer.set_item("pointer", fate.pointer)?;
            answer.set_item("span", fate.span)?;
            answer.set_item("construct", fate.construct)?;
            answer.set_item("fate", fate.fate)?;
            answer.set_item("why", fate.why)?;
            answers.push(answer);
        }
        Ok(answers)
    }

    /// The constraint in GBNF, which llama.cpp reads: the text, and the places where it allows more, a list of dicts
    /// with `kind`, `place` and `why`.
    #[pyo3(signature = (*, max_bytes=GBNF_BYTES, strict=false))]
    fn to_gbnf<'py>(
        &self,
        py: Python<'py>,
        max_bytes: usize,
        strict: bool,
    ) -> PyResult<(String, Vec<Bound<'py, PyDict>>)> {
        let made = || py.detach(|| self.spec.to_gbnf(max_bytes, strict)).map_err(|error| of_engine(&error));
        let gbnf = guarded(made)?;
        let mut loosened = Vec::with_capacity(gbnf.loosened.len());
        for one in gbnf.loosened {
            let answer = PyDict::new(py);
            answer.set_item("kind", one.kind.word())?;
            answer.set_item("place", one.place)?;
            answer.set_item("why", one.kind.why())?;
            loosened.push(answer);
        }
        Ok((gbnf.text, loosened))
    }

    fn __hash__(&self) -> PyResult<u64> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.to_json()?.hash(&mut hasher);
        Ok(hasher.finish())
    }

    fn __repr__(&self) -> String {
        format!("<unskew.Constraint {}>", self.spec)
    }

    /// Pickle finds no static method of a class, so that it is called by its name.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, json) = (slf.py(), slf.get().to_json()?);
        if let Some(reader) = &slf.get().reader {
            let restored = py.import("unskew._types")?.getattr("restored")?;
            return Ok((restored, (json, reader.as_ref()).into_pyobject(py)?));
        }
        let caller = py.import("operator")?.getattr("methodcaller")?;
        Ok((caller.call1(("from_json", json))?, (slf.get_type(),).into_pyobject(py)?))
    }
}
