//! What a schema would be without one of its keywords, and why no value satisfies it.
//!
//! A keyword means something if the grammar without it is another one. The schema is compiled again without the
//! keyword, with the automata that are known, and the [rules are compared](Grammar::is_alike), or small automata of
//! both. Tried instead: facts about each keyword (`minLength` of zero, `minimum` beside `"type": "string"`), which miss
//! every combination, and the analysis of rules without a text, which names rules of the grammar and not keywords.

use hashbrown::HashSet;
use unskew_automata::Dfa;
use unskew_grammar::Grammar;

use crate::{
    SchemaError, SchemaLimits, SchemaOptions,
    document::{
        json::{Document, NodeId, Value},
        metaschema::{self, Kind},
        roles,
        schemas::Schemas,
    },
    emit::emitter::Emitter,
    normalize::expander::Expander,
    text::languages::Languages,
};

/// The sum of the values of schemas, the steps of expansions and the expressions of grammars in all trials: a second or
/// so.
const WORK: usize = 1 << 20;

/// Where the work would reach less than one keyword in so many, there are no trials: the answers would be those of the
/// first keywords alone, for the price of all.
const REACHED: usize = 16;

/// The steps of one automaton.
const AUTOMATON: u64 = 1 << 18;

/// The most schemas that are looked at to find out whether a reference leads back.
const FOLLOWED: usize = 300;

/// A schema that is compiled again with changes.
pub(crate) struct Trials<'o> {
    /// `None` if a trial has lost them.
    parts: Option<(Schemas, Languages)>,
    options: &'o SchemaOptions,
    limits: &'o SchemaLimits,
    work: usize,
    /// The whole schema as one automaton; the inner `None`: it is not regular, or too large. `None`: not known yet.
    whole: Option<Automaton>,
}

/// The automaton of a schema, if there is a small one.
type Automaton = Option<Dfa>;

/// The outputs of a schema; `None` if there are none.
pub(crate) type Outputs = Option<Grammar>;

/// The work that a compilation has taken.
fn work_of(emitter: &Emitter, made: &Result<Grammar, SchemaError>) -> usize {
    let size = emitter.builder.size().max(made.as_ref().map_or(0, Grammar::expressions));
    emitter.ex.schemas.document.nodes().count() + size + emitter.ex.work()
}

impl<'o> Trials<'o> {
    pub(crate) fn new(mut ex: Expander, options: &'o SchemaOptions, limits: &'o SchemaLimits) -> Self {
        // A trial changes one of equal schemas.
        ex.schemas.equal = vec![];
        Self { parts: Some((ex.schemas, ex.languages)), options, limits, work: WORK, whole: None }
    }

    /// Whether trials of so many keywords would reach some of them only, if each is worth the work of `emitter`, which
    /// has made the schema with all of them.
    pub(crate) fn reach_few(emitter: &Emitter, made: &Result<Grammar, SchemaError>, keywords: usize) -> bool {
        work_of(emitter, made).saturating_mul(keywords) > REACHED * WORK
    }

    fn document(&mut self) -> Option<&mut Document> {
        self.parts.as_mut().map(|(schemas, _)| &mut schemas.document)
    }

    /// The outputs of the schema `root`; `None` if it is refused, or if the trials are used up.
    fn outputs(&mut self, root: NodeId) -> Option<Outputs> {
        if self.work == 0 {
            return None;
        }
        let (schemas, languages) = self.parts.take()?;
        let ex = Expander::with_languages(schemas, languages, self.options, self.limits);
        let mut emitter = Emitter::new(ex, self.options, self.limits).ok()?;
        emitter.begin_at(root);
        let made = emitter.grammar();
        self.work = self.work.saturating_sub(work_of(&emitter, &made));
        self.parts = Some((emitter.ex.schemas, emitter.ex.languages));
        match made {
            Ok(grammar) => grammar.trimmed().ok().map(Some),
            Err(SchemaError::Unsatisfiable { .. }) => Some(None),
            Err(_) => None,
        }
    }

    /// Whether the schema `node` has values; `None` if it is not known.
    fn has_values(&mut self, node: NodeId) -> Option<bool> {
        self.outputs(node).map(|outputs| outputs.is_some())
    }

    /// The result of a trial with another value in the place of `node`.
    fn with<T>(&mut self, node: NodeId, value: Value, run: impl FnOnce(&mut Self) -> T) -> T {
        let old = self.document().map(|document| document.replace(node, value));
        let made = run(self);
        if let (Some(document), Some(old)) = (self.document(), old) {
            document.replace(node, old);
        }
        made
    }

    /// The result of a trial without a keyword. Its name is no keyword, so that others keep their positions.
    fn without<T>(&mut self, node: NodeId, keyword: &str, run: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let mut members = self.document()?.members(node)?.to_vec();
        members.iter_mut().filter(|(name, _)| &**name == keyword).for_each(|(name, _)| *name = "".into());
        Some(self.with(node, Value::Object(members), run))
    }

    /// Whether `outputs` are the outputs without a keyword, too; `None` if it is not known.
    pub(crate) fn is_idle(&mut self, node: NodeId, keyword: &str, outputs: &Outputs) -> Option<bool> {
        let without = self.without(node, keyword, |trials| trials.outputs(Document::ROOT))??;
        Some(match (outputs, &without) {
            (Some(with), Some(without)) => with.is_alike(without) || self.is_equal(with, without),
            (None, None) => true,
            _ => false,
        })
    }

    /// Whether both grammars have one language, of which small automata tell. Rules may differ where languages do not.
    fn is_equal(&mut self, with: &Grammar, without: &Grammar) -> bool {
        let limits = self.limits.automata.clone().dfa_steps(AUTOMATON);
        let whole = self.whole.get_or_insert_with(|| with.regular(&limits).ok());
        let Some(whole) = whole else { return false };
        self.work = self.work.saturating_sub(WORK / 512);
        without.regular(&limits).is_ok_and(|without| *whole == without)
    }

    /// Whether the `type` of a schema has null, and its `enum` does not.
    pub(crate) fn loses_null(&self, node: NodeId) -> bool {
        let Some((schemas, _)) = &self.parts else { return false };
        let document = &schemas.document;
        let list = |keyword| document.member(node, keyword).and_then(|list| document.items(list));
        let has_null =
            list("type").is_some_and(|names| names.iter().any(|name| document.text(*name) == Some("null")));
        let is_null = |value: &NodeId| matches!(document.value(*value), Value::Null);
        has_null && list("enum").is_some_and(|values| !values.iter().any(is_null))
    }

    /// The reason why no value satisfies the schema: the innermost schema that no value satisfies, where with any value
    /// in its place there would be outputs, and its keywords without which it would have values.
    pub(crate) fn conflict(&mut self) -> SchemaError {
        let unknown = SchemaError::unsatisfiable();
        let Some((schemas, _)) = &self.parts else { return unknown };
        let is_schema = |node: &NodeId| {
            let value = schemas.document.value(*node);
            schemas.is_schema(*node)
                && !schemas.is_copy(*node)
                && matches!(value, Value::Object(_) | Value::Bool(false))
        };
        let refers = |node: &NodeId| schemas.document.member(*node, "$ref").is_some();
        // Parts come behind the whole. Where a schema refers to another one, that one has the reason.
        let (refers, others): (Vec<_>, Vec<_>) =
            schemas.document.nodes().filter(is_schema).partition(|node| refers(node));
        let mut replaced = vec![];
        let mut found = None;
        for node in others.into_iter().rev().chain(refers.into_iter().rev()) {
            if self.has_values(node) != Some(false) {
                continue;
            }
            let Some(document) = self.document() else { break };
            let old = document.replace(node, Value::Bool(true));
            if self.has_values(Document::ROOT) == Some(true) {
                if let Some(document) = self.document() {
                    document.replace(node, old);
                }
                found = Some(node);
                break;
            }
            replaced.push((node, old));
        }
        let reason = found.and_then(|node| self.reason(node));
        // The nodes of a copy have the same pointers as those of the text.
        match (found, reason, &self.parts) {
            (Some(node), Some(reason), Some((schemas, _))) => {
                SchemaError::Unsatisfiable { pointer: schemas.pointer(node), reason }
            }
            _ => unknown,
        }
    }

    /// The keywords of a schema without values, without which it would have some.
    fn reason(&mut self, node: NodeId) -> Option<String> {
        let Some(members) = self.document()?.members(node).map(<[_]>::to_vec) else {
            return Some("`false`".to_owned());
        };
        let mut needed = vec![];
        for (keyword, value) in &members {
            if self.without(node, keyword, |trials| trials.has_values(node))? == Some(true) {
                needed.push((&**keyword, *value));
            }
        }
        let (schemas, _) = self.parts.as_ref()?;
        let draft = schemas.draft_of(node);
        if needed.is_empty() {
            let asks = |keyword: &str| keyword == "$ref" || schemas.dialect_of(node).asks(keyword);
            needed.extend(
                members.iter().filter(|(key, _)| asks(key)).map(|(keyword, value)| (&**keyword, *value)),
            );
        }
        let is_bound = |keyword: &str| matches!(metaschema::kind(keyword, draft), Some(Kind::Type));
        // A type says least, and is a reason only beside others.
        needed.sort_by_key(|(keyword, _)| is_bound(keyword));
        let named = |(keyword, value): &(&str, NodeId)| match metaschema::quoted(&schemas.document, *value) {
            Some(text) => format!("`{keyword}` {text}"),
            None => format!("`{keyword}`"),
        };
        let mut names: Vec<String> = needed.iter().map(named).collect();
        let last = names.pop()?;
        let mut reason = match names.is_empty() {
            true => last,
            false => format!("{} and {last}", names.join(", ")),
        };
        if let Some(reference) = self.returns(node) {
            let (schemas, _) = self.parts.as_ref()?;
            let pointer = schemas.pointer(reference);
            reason += &format!(
                ", because `$ref` at {pointer} leads back, and each value needs another one in it without end: make a \
                 member on the way optional, or allow null there"
            );
        }
        Some(reason)
    }

    /// A reference below the schema `node` that leads back to it, and without which it has values.
    fn returns(&mut self, node: NodeId) -> Option<NodeId> {
        let (schemas, _) = self.parts.as_ref()?;
        let below = |root: NodeId| {
            let (mut found, mut open) = (HashSet::new(), vec![root]);
            while let Some(next) = open.pop().filter(|_| found.len() < FOLLOWED) {
                if found.insert(next) {
                    open.extend(roles::subschemas(&schemas.document, next, schemas.draft_of(next)));
                }
            }
            found
        };
        let target = |from: NodeId| {
            let reference = schemas.document.member(from, "$ref")?;
            schemas.target(from, schemas.document.text(reference)?).ok()
        };
        let leads_back = |from: &NodeId| {
            let (mut seen, mut open) = (HashSet::new(), target(*from).into_iter().collect::<Vec<_>>());
            while let Some(next) = open.pop().filter(|_| seen.len() < FOLLOWED) {
                if next == node {
                    return true;
                }
                if seen.insert(next) {
                    open.extend(below(next).into_iter().filter_map(target));
                }
            }
            false
        };
        let mut candidates: Vec<NodeId> = below(node).into_iter().filter(leads_back).collect();
        candidates.sort_unstable();
        candidates.into_iter().find(|reference| {
            self.with(*reference, Value::Bool(true), |trials| trials.has_values(node)) == Some(true)
        })
    }
}
