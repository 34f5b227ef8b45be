//! The fate of every construct of a regex, grammar or JSON Schema.

use std::sync::Arc;

use serde::Serialize;
use unskew_automata::{Dfa, Pattern, RegexError};
use unskew_core::{Cancel, OutputEnd};
use unskew_grammar::{Fate, GrammarError, SyntaxErrorKind};
use unskew_notation::explain as explain_text;
use unskew_schema::{self as schema, KeywordFate, SchemaError, Spelling, explain as explain_schema};

use crate::{
    Compiled, Error, Result, Spec, chain,
    compiler::compile::of_file,
    compiler::grammars::Around,
    spec::{GrammarSpec, Language, Numbers, SchemaSpec, form},
    tag::{self, TagOptions},
};

/// The fate of one construct.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Explained {
    /// The schema that the construct stands in, as a JSON pointer; of a schema only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Where it stands, `line:column`; null where it stands in no one place.
    pub span: Option<String>,
    /// The construct.
    pub construct: String,
    /// `enforced`, `narrowed` (some values that it allows are not accepted), `annotation` (it has no effect on the
    /// outputs) or `rejected`.
    pub fate: &'static str,
    /// The reason.
    pub why: String,
}

impl Explained {
    /// The worst fate of some constructs: `rejected`, `narrowed` or `enforced`, which it is of none too.
    pub fn worst(constructs: &[Self]) -> &'static str {
        let is_there = |fate: &&str| constructs.iter().any(|one| one.fate == *fate);
        ["rejected", "narrowed"].into_iter().find(is_there).unwrap_or("enforced")
    }
}

impl Spec {
    /// The fate of every construct of a regex, grammar or JSON Schema. A construct that is refused elsewhere is an
    /// answer here.
    ///
    /// # Errors
    ///
    /// [`Error`] where a text is no regex, grammar or schema, and [`Error::Combination`] for other constraints, and
    /// for options that change no fate.
    pub fn explain(&self) -> Result<Vec<Explained>> {
        if self.canonical {
            let mut fates = Self { canonical: false, ..self.clone() }.explain()?;
            fates.push(canonical());
            return Ok(fates);
        }
        if let Some(end) = self.end {
            let mut fates = Self { end: None, ..self.clone() }.explain()?;
            fates.push(of_end(end));
            return Ok(fates);
        }
        match &self.language {
            Language::Grammar(GrammarSpec { max_ignored: Some(_), .. }) => {
                Err(Error::combination("`max_ignored` changes no fate of a construct; leave it out"))
            }
            Language::Grammar(spec) => of_grammar(spec, self.limits.numbers()),
            Language::JsonSchema(spec) => of_schema(spec, &self.limits.numbers()),
            Language::Regex(regex) => {
                let text = regex.source.read()?.1;
                Ok(vec![of_regex(regex.dialect.pattern(&text), &self.limits.numbers())?])
            }
            Language::StructuralTag(spec) => {
                let (path, text) = spec.source.read()?;
                let (spelling, whitespace) = form(spec.spelling, spec.whitespace);
                let options = TagOptions {
                    whitespace,
                    spelling,
                    limits: Arc::new(self.limits.numbers()),
                    cancel: Cancel::default(),
                };
                // A text that is no JSON has no constructs.
                serde_json::from_str::<&serde_json::value::RawValue>(&text)
                    .map_err(|error| of_file(path, error))?;
                Ok(tag::explain(&text, &options))
            }
            Language::AnyOf(parts) | Language::Sequence(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    all.extend(part.explain()?);
                }
                Ok(all)
            }
            Language::Anything | Language::Choices(_) | Language::Set(_) | Language::ExcludeSet(_) => {
                Err(Error::combination(
                    "only a `grammar`, a `json_schema`, a `structural_tag` or a `regex` has constructs to explain; give one",
                ))
            }
        }
    }
}

impl Spec {
    /// What a user should know of the constraint beside the fates of its constructs, one sentence each: that a schema
    /// constrains nothing, or that it was found inside of a tool or a response format. A program shows them as
    /// warnings. What cannot be read has none.
    ///
    /// Cost: reading the schemas.
    pub fn notes(&self) -> Vec<String> {
        match &self.language {
            Language::JsonSchema(spec) => {
                let read = spec.source.read().and_then(|(_, text)| {
                    Ok(schema::notes(
                        &text,
                        &spec.options(&Cancel::default())?,
                        &self.limits.numbers().schema,
                    ))
                });
                read.unwrap_or_default()
            }
            Language::AnyOf(parts) | Language::Sequence(parts) => {
                parts.iter().flat_map(Self::notes).collect()
            }
            Language::Grammar(spec) => spec.grammars.values().flat_map(Self::notes).collect(),
            _ => vec![],
        }
    }
}

impl Compiled {
    /// The answer of [`Spec::explain`] about the characters that the tokens do not write, if there are some.
    pub fn explain_left_out(&self) -> Option<Explained> {
        let why = format!("no tokens of the vocabulary write {}", self.left_out()?);
        let construct = "characters".to_owned();
        Some(Explained { pointer: None, span: None, construct, fate: word(Fate::Narrowed), why })
    }
}

impl Compiled {
    /// The answers about texts in quotes of the grammar `spec` that are the names of control tokens: other tokens
    /// write a text.
    ///
    /// # Errors
    ///
    /// [`Error`] where the file of the grammar cannot be read.
    pub fn explain_quoted(&self, spec: &Spec) -> Result<Vec<Explained>> {
        let Language::Grammar(GrammarSpec { source, .. }) = &spec.language else { return Ok(vec![]) };
        let (_, text) = source.read()?;
        let mut answers = vec![];
        for (id, name) in self.tokens.vocabulary().control_tokens() {
            let Some(at) = text.find(&format!("\"{name}\"")).filter(|_| !name.is_empty()) else { continue };
            let written =
                match name.starts_with('<') && name.ends_with('>') && !name.contains(char::is_whitespace) {
                    true => format!("`{name}` without quotes"),
                    false => format!("`<[{}]>`", id.0),
                };
            let (line, last) = (1 + text[..at].matches('\n').count(), text[..at].rsplit('\n').next());
            let column = 1 + last.unwrap_or_default().chars().count();
            answers.push(Explained {
                pointer: None,
                span: Some(format!("{line}:{column}")),
                construct: format!("text \"{name}\""),
                fate: word(Fate::Enforced),
                why: format!(
                    "tokens of text write it, and not the control token of this name, which is {written}"
                ),
            });
        }
        Ok(answers)
    }
}

fn canonical() -> Explained {
    let why = "outputs are the token sequences that the tokenizer itself writes; a token that is named by its id is written \
               as such, and each text between two such tokens is encoded by itself; a tokenizer that cannot be followed \
               exactly is an error";
    let construct = "canonical".to_owned();
    Explained { pointer: None, span: None, construct, fate: word(Fate::Enforced), why: why.to_owned() }
}

fn of_end(end: OutputEnd) -> Explained {
    let why = match end {
        OutputEnd::Model => "an output is followed by the end of the model's sequence",
        OutputEnd::Free => "an output ends where the model's text leaves the constraint; masks are the same",
    };
    let (construct, why) = (format!("end {end}"), why.to_owned());
    Explained { pointer: None, span: None, construct, fate: word(Fate::Enforced), why }
}

fn of_grammar(spec: &GrammarSpec, limits: Numbers) -> Result<Vec<Explained>> {
    let format = spec.language()?;
    let (path, text) = spec.source.read()?;
    let around = Around::new(None, limits, Cancel::default());
    let (options, limits) = (spec.options(format, &around)?, around.grammars());
    let grammar = unskew_notation::parse(&text, format, &options, limits);
    if let Err(GrammarError::Syntax(error)) = &grammar
        && matches!(
            error.kind.plain(),
            SyntaxErrorKind::TooLong { .. }
                | SyntaxErrorKind::NestTooDeep { .. }
                | SyntaxErrorKind::Unexpected { .. }
                | SyntaxErrorKind::Unclosed { .. }
        )
    {
        return Err(of_file(path, error.clone()));
    }
    let fates = explain_text(&text, format, &options, limits);
    let answers = fates.into_iter().map(|fate| Explained {
        pointer: None,
        span: fate.location.map(|place| format!("{}:{}", place.line, place.column)),
        construct: fate.construct,
        fate: word(fate.fate),
        why: fate.why,
    });
    Ok(answers.collect())
}

fn of_schema(spec: &SchemaSpec, limits: &Numbers) -> Result<Vec<Explained>> {
    let (path, text) = spec.source.read()?;
    let options = spec.options(&unskew_core::Cancel::default())?;
    let limits = &limits.schema;
    let fates = explain_schema(&text, &options, limits);
    // Reading has stopped: at a construct, or because the text is no JSON.
    if let [only] = &fates[..]
        && only.keyword.is_empty()
        && let Err(error @ SchemaError::Json { .. }) = schema::grammar(&text, &options, limits)
    {
        return Err(of_file(path, error));
    }
    let mut answers: Vec<Explained> = of_fates(fates, "#").collect();
    if options.spelling == Spelling::Plain {
        answers.push(Explained {
            pointer: Some("#".to_owned()),
            span: None,
            construct: "spelling plain".to_owned(),
            fate: word(Fate::Enforced),
            why: "integers have no fraction and zero no sign; `spelling` any allows what JSON does"
                .to_owned(),
        });
    }
    Ok(answers)
}

/// The fates of the keywords of a schema at this place.
pub(crate) fn of_fates(fates: Vec<KeywordFate>, at: &str) -> impl Iterator<Item = Explained> {
    fates.into_iter().map(move |fate| Explained {
        pointer: Some(match fate.pointer.strip_prefix('#') {
            Some(inside) => format!("{at}{inside}"),
            None => fate.pointer,
        }),
        span: None,
        construct: if fate.keyword.is_empty() { "schema".to_owned() } else { fate.keyword },
        fate: word(fate.fate),
        why: fate.why,
    })
}

fn word(fate: Fate) -> &'static str {
    match fate {
        Fate::Enforced => "enforced",
        Fate::Narrowed => "narrowed",
        Fate::Rejected => "rejected",
        _ => "annotation",
    }
}

fn of_regex(pattern: Pattern<'_>, limits: &Numbers) -> Result<Explained> {
    let construct = "regex".to_owned();
    Ok(match Dfa::from_pattern(pattern, &limits.regex) {
        Ok(dfa) => Explained {
            pointer: None,
            span: Some("1:1".to_owned()),
            construct,
            fate: "enforced",
            why: format!("an automaton of {} states", dfa.len()),
        },
        Err(
            RegexError::TooManyDfaStates { .. }
            | RegexError::DfaTooLarge { .. }
            | RegexError::DfaTooCostly { .. },
        ) => Explained {
            pointer: None,
            span: Some("1:1".to_owned()),
            construct,
            fate: "enforced",
            why: "its automaton is too large to be made at once; its states are made when they are reached"
                .to_owned(),
        },
        Err(
            error @ (RegexError::Syntax { .. }
            | RegexError::PatternTooLong { .. }
            | RegexError::NestTooDeep { .. }
            | RegexError::SyntaxTooCostly { .. }),
        ) => return Err(Error::constraint(error)),
        Err(error) => Explained {
            pointer: None,
            span: error.place().map(|place| format!("{}:{}", place.line, place.column)),
            construct,
            fate: "rejected",
            why: chain(&error),
        },
    })
}
