//! Grammars of specs: the grammars to which one refers, and specs as parts of others.
//!
//! A grammar in Lark refers to JSON Schemas (`%json`), to other grammars (`@name`) and to files (`%import`). Any spec
//! is a grammar, so that a regex, a schema and a set can follow each other, or be alternatives. Each is copied into
//! the grammar around it, and what they share is there once.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use serde::Deserialize;
use unskew_automata::{Dfa, dfa::DfaAlgebra};
use unskew_core::{Cancel, Vocabulary};
use unskew_grammar::{Grammar, GrammarLimits};
use unskew_notation::{GrammarFormat, GrammarOptions, Resolve, Resolver};
use unskew_schema::{MemberOrder, SchemaOptions};

use crate::{
    Error, Result, Spec, chain,
    compiler::{
        compile::{of_file, registry},
        guidance,
    },
    read,
    spec::{GrammarSpec, Language, Numbers, SchemaSpec, Source, form},
    tag::{self, TagOptions},
};

/// The refusal of limits that a part sets.
const PART_LIMITS: &str =
    "`limits` are those of a whole constraint; give them to the constraint around and not to its parts";

/// How deep grammars may refer to others.
const MAX_DEPTH: u32 = 32;

/// The refusal of an end that a part sets.
const PART_END: &str =
    "`end` is that of whole outputs; give it to the constraint around and not to its parts";

/// The surroundings of a text: the tokens, if they are known, and the limits of the work.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    vocabulary: Option<Arc<Vocabulary>>,
    limits: Arc<Numbers>,
    cancel: Cancel,
    /// The references that are left.
    left: Arc<AtomicU32>,
    depth: u32,
}

impl Around {
    pub(crate) fn new(vocabulary: Option<&Arc<Vocabulary>>, limits: Numbers, cancel: Cancel) -> Self {
        let (vocabulary, left) = (vocabulary.map(Arc::clone), Arc::new(AtomicU32::new(limits.references)));
        Self { vocabulary, limits: Arc::new(limits), cancel, left, depth: 0 }
    }

    /// The limits of grammars.
    pub(crate) fn grammars(&self) -> &GrammarLimits {
        &self.limits.grammar
    }

    /// The same for a text inside.
    fn inside(&self) -> std::result::Result<Self, String> {
        if self.depth == MAX_DEPTH {
            return Err(format!("grammars refer to each other more than {MAX_DEPTH} levels deep"));
        }
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).map_err(|_| {
            let most = self.limits.references;
            format!("a grammar refers to more than {most} schemas and grammars (the limit `references`)")
        })?;
        Ok(Self { depth: self.depth + 1, ..self.clone() })
    }
}

/// The grammar of a language, and the file that its text is from.
///
/// # Errors
///
/// [`Error`] where the text has a fault, and [`Error::Combination`] for a language that has no grammar.
pub(crate) fn of_language<'a>(
    language: &'a Language,
    around: &Around,
) -> Result<(Option<&'a Path>, Grammar)> {
    let limits = around.grammars();
    let terminal = |name: &str, dfa: Dfa| {
        let mut builder = Grammar::builder(limits);
        let (start, body) = (builder.rule(name), builder.automaton(name, dfa));
        builder.define(start, body);
        builder.build(start).map_err(Error::constraint)
    };
    match language {
        Language::Anything => {
            let text = Dfa::from_pattern("(?s:.*)", &limits.regex).map_err(Error::constraint)?;
            Ok((None, terminal("any text", text)?))
        }
        Language::Regex(regex) => {
            let (path, pattern) = regex.source.read()?;
            let dfa = Dfa::from_pattern(regex.dialect.pattern(&pattern), &limits.regex);
            let dfa = dfa.map_err(|error| of_file(path, error))?;
            Ok((path, terminal("regex", dfa)?))
        }
        Language::Choices(choices) => {
            let dfa = DfaAlgebra::new(&limits.regex).literals(choices).map_err(Error::constraint)?;
            Ok((None, terminal("choices", dfa)?))
        }
        Language::Grammar(spec) => spec.grammar(around),
        Language::JsonSchema(spec) => spec.grammar(around),
        Language::StructuralTag(spec) => {
            let (path, text) = spec.source.read()?;
            let (spelling, whitespace) = form(spec.spelling, spec.whitespace);
            let options = TagOptions {
                whitespace,
                spelling,
                limits: Arc::clone(&around.limits),
                cancel: around.cancel.clone(),
            };
            let grammar = tag::grammar(&text, around.vocabulary.as_deref(), &options);
            Ok((path, grammar.map_err(|error| of_file(path, error))?))
        }
        Language::AnyOf(parts) => Ok((None, combined(parts, around, Combination::AnyOf)?)),
        Language::Sequence(parts) => Ok((None, combined(parts, around, Combination::Sequence)?)),
        Language::Set(set) if set.subset.is_none() => {
            let text = read::text(&set.file)?;
            let items: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
            let dfa = DfaAlgebra::new(&limits.regex).literals(&items);
            let dfa = dfa.map_err(|error| Error::file(&set.file, error))?;
            Ok((Some(&set.file), terminal("set", dfa)?))
        }
        Language::Set(_) | Language::ExcludeSet(_) => Err(Error::combination(
            "a subset, or all texts but those of a set, is no part of another constraint; a `set` of a text file can be",
        )),
    }
}

/// Takes fuel for a grammar before it is compiled: nothing there looks at the flag.
pub(crate) fn take_fuel(grammar: &Grammar, cancel: &Cancel, limits: &GrammarLimits) -> Result<()> {
    /// The steps to read, to check and to lay out an expression, or a place of it once repetitions are written out.
    const STEPS: usize = 40;
    // A grammar beyond the limit is refused at once.
    let places = usize::try_from(grammar.size().places).unwrap_or(usize::MAX).min(limits.positions);
    cancel.take_fuel(STEPS.saturating_mul(grammar.expressions() + places) as u64);
    if cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
}

#[derive(Clone, Copy)]
enum Combination {
    AnyOf,
    Sequence,
}

/// The union or the concatenation of `parts`.
fn combined(parts: &[Spec], around: &Around, how: Combination) -> Result<Grammar> {
    let mut builder = Grammar::builder(around.grammars());
    let mut expressions = Vec::with_capacity(parts.len());
    for part in parts {
        if part.canonical {
            return Err(Error::combination(
                "`canonical` is a property of whole outputs; give it to the constraint around and not to its parts",
            ));
        }
        if part.end.is_some() {
            return Err(Error::combination(PART_END));
        }
        if !part.limits.is_empty() {
            return Err(Error::combination(PART_LIMITS));
        }
        let around = around.inside().map_err(Error::combination)?;
        let (_, grammar) = of_language(&part.language, &around)?;
        expressions.push(builder.import(&grammar));
        let limit = around.grammars().nodes;
        if builder.size() > limit {
            return Err(Error::combination(format!(
                "the parts have more than {limit} nodes together (GrammarLimits::nodes); give fewer or smaller ones"
            )));
        }
    }
    let body = match how {
        Combination::AnyOf => builder.choice(expressions),
        Combination::Sequence => builder.sequence(expressions),
    };
    let start = builder.rule("parts");
    builder.define(start, body);
    builder.build(start).map_err(Error::constraint)
}

/// Supplies the schemas and grammars to which a grammar refers.
#[derive(Debug)]
struct References {
    grammars: BTreeMap<String, Spec>,
    /// The texts of files, by their paths.
    imports: BTreeMap<String, String>,
    /// The folder in which other files are.
    folder: Option<PathBuf>,
    around: Around,
}

impl Resolve for References {
    fn json_schema(&self, schema: &str) -> std::result::Result<Grammar, String> {
        let around = self.around.inside()?;
        let spec = SchemaSpec::new(Source::Text(schema.to_owned()));
        let (_, grammar) = spec.grammar(&around).map_err(|error| chain(&error))?;
        Ok(grammar)
    }

    fn file(&self, path: &str) -> std::result::Result<String, String> {
        self.read(path)
    }

    fn named(&self, name: &str) -> std::result::Result<Grammar, String> {
        let Some(spec) = self.grammars.get(name) else {
            let known: Vec<&str> = self.grammars.keys().map(String::as_str).collect();
            return Err(match &known[..] {
                [] => "no other grammar is given; `grammars` of a constraint holds them by their names"
                    .to_owned(),
                known => format!("no grammar has this name, only {}", known.join(", ")),
            });
        };
        if spec.canonical {
            return Err("`canonical` is a property of whole outputs; leave it out".to_owned());
        }
        if spec.end.is_some() {
            return Err(PART_END.to_owned());
        }
        if !spec.limits.is_empty() {
            return Err(PART_LIMITS.to_owned());
        }
        let around = self.around.inside()?;
        let with_names;
        let language = match &spec.language {
            // Grammars of one list know each other.
            Language::Grammar(inner) if inner.grammars.is_empty() => {
                with_names =
                    Language::Grammar(GrammarSpec { grammars: self.grammars.clone(), ..inner.clone() });
                &with_names
            }
            language => language,
        };
        let (_, grammar) = of_language(language, &around).map_err(|error| chain(&error))?;
        Ok(grammar)
    }
}

impl References {
    fn read(&self, path: &str) -> std::result::Result<String, String> {
        if let Some(text) = self.imports.get(path) {
            return Ok(text.clone());
        }
        let folder = self.folder.as_ref().ok_or_else(|| {
            "the text of a grammar imports what `imports` of the constraint holds, and it does not hold this".to_owned()
        })?;
        // The path has names between slashes alone, so it stays in the folder.
        read::text(&folder.join(path)).map_err(|error| chain(&error))
    }
}

impl GrammarSpec {
    /// Where the grammar finds the files that it imports.
    pub(crate) fn resolver(&self, around: &Around) -> Resolver {
        let folder = match &self.source {
            Source::File(path) => path.parent().map(ToOwned::to_owned),
            Source::Text(_) => None,
        };
        let (grammars, imports, around) = (self.grammars.clone(), self.imports.clone(), around.clone());
        Resolver::new(References { grammars, imports, folder, around })
    }

    /// The language of the text.
    pub(crate) fn language(&self) -> Result<GrammarFormat> {
        if let Some(format) = self.format {
            return Ok(format);
        }
        let Source::File(path) = &self.source else {
            return Err(Error::combination(
                "the text of a `grammar` needs its `grammar_format`: lark, gbnf, ebnf, xgrammar or abnf",
            ));
        };
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        GrammarFormat::from_extension(extension).ok_or_else(|| {
            Error::file(
                path,
                "the name must end in .lark, .gbnf, .ebnf, .bnf, .xgrammar or .abnf, which says how the grammar is written",
            )
        })
    }

    /// The options by which the text is read.
    pub(crate) fn options(&self, format: GrammarFormat, around: &Around) -> Result<GrammarOptions> {
        if format != GrammarFormat::Lark && self.max_ignored.is_some() {
            return Err(Error::combination("`max_ignored` bounds %ignore, which only grammars in Lark have"));
        }
        let mut options = GrammarOptions::default();
        options.max_ignored_chars = self.max_ignored;
        options.start.clone_from(&self.start);
        options.resolver = self.resolver(around);
        Ok(options)
    }

    fn grammar(&self, around: &Around) -> Result<(Option<&Path>, Grammar)> {
        let format = self.language()?;
        let (path, text) = self.source.read()?;
        if format == GrammarFormat::Lark && text.trim_start().starts_with('{') {
            let listed = self.listed(&text).map_err(|error| of_file(path, error))?;
            return Ok((path, listed.grammar(around)?.1));
        }
        let grammar =
            unskew_notation::parse(&text, format, &self.options(format, around)?, around.grammars());
        Ok((path, grammar.map_err(|error| of_file(path, error))?))
    }

    /// The first grammar of a list in JSON, as llguidance takes it, with the others by their names.
    fn listed(&self, text: &str) -> Result<Self> {
        let List { grammars } = serde_json::from_str(text)
            .map_err(|error| Error::combination(format!("not a list of grammars in JSON: {error}")))?;
        let mut first = None;
        let mut named = BTreeMap::new();
        for (index, listed) in grammars.into_iter().enumerate() {
            let spec = match (listed.lark_grammar, listed.json_schema) {
                (Some(text), None) => Spec::grammar(text, GrammarFormat::Lark),
                (None, Some(schema)) => Spec::json_schema(schema.get()),
                _ => {
                    return Err(Error::combination(format!(
                        "grammar {index} of the list needs `lark_grammar` or `json_schema`, and one of them alone"
                    )));
                }
            };
            match (index, listed.name) {
                (0, _) => first = Some(spec),
                (_, Some(name)) => _ = named.insert(name, spec),
                (_, None) => {}
            }
        }
        let source = match first.map(|first| first.language) {
            Some(Language::Grammar(GrammarSpec { source, .. })) => source,
            Some(language) => {
                named.insert("first".to_owned(), Spec::new(language));
                Source::Text("start: @first".to_owned())
            }
            None => return Err(Error::combination("a list of grammars without a grammar")),
        };
        Ok(Self { source, grammars: named, format: Some(GrammarFormat::Lark), ..self.clone() })
    }
}

/// The list of grammars that llguidance takes.
#[derive(Deserialize)]
struct List {
    grammars: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    name: Option<String>,
    lark_grammar: Option<String>,
    json_schema: Option<Box<serde_json::value::RawValue>>,
}

impl SchemaSpec {
    fn grammar(&self, around: &Around) -> Result<(Option<&Path>, Grammar)> {
        let mut options = self.options(&around.cancel)?;
        let (path, text) = self.source.read()?;
        let guidance = guidance::of(&text).map_err(|error| of_file(path, error))?;
        if self.whitespace.is_none() {
            options.whitespace = guidance.whitespace.unwrap_or(options.whitespace);
            options.separators = guidance.separators;
        }
        let limits = &around.limits.schema;
        let dfa =
            |pattern: &str| Dfa::from_pattern(pattern, &limits.grammar.regex).map_err(Error::constraint);
        let mut grammar =
            unskew_schema::grammar(&text, &options, limits).map_err(|error| of_file(path, error))?;
        if let Some(texts) = &guidance.texts {
            grammar = grammar.within(&dfa(texts)?, &limits.grammar).map_err(|error| of_file(path, error))?;
        }
        if self.margin == 0 {
            return Ok((path, grammar));
        }
        let space = dfa(&format!("[ \\t\\n\\r]{{0,{}}}", self.margin))?;
        let mut builder = Grammar::builder(&limits.grammar);
        let (document, space) = (builder.import(&grammar), builder.automaton("white space", space));
        let (start, body) = (builder.rule("document"), builder.sequence([space, document, space]));
        builder.define(start, body);
        Ok((path, builder.build(start).map_err(|error| of_file(path, error))?))
    }

    pub(crate) fn options(&self, cancel: &Cancel) -> Result<SchemaOptions> {
        let mut options = SchemaOptions::default();
        options.cancel = cancel.clone();
        (options.spelling, options.whitespace) = form(self.spelling, self.whitespace);
        options.ascii = self.ascii;
        options.exponents = self.exponents.unwrap_or(0);
        options.dialect = self.dialect;
        options.registry = registry(self.registry.as_ref(), cancel)?;
        if self.any_order {
            options.order = MemberOrder::Any;
        }
        Ok(options)
    }
}
