//! The fate of every keyword of a schema.

use hashbrown::{HashMap, HashSet};
use unskew_grammar::Fate;

use crate::{
    SchemaError, SchemaLimits, SchemaOptions,
    document::{json::NodeId, schemas::Schemas},
    emit::emitter::Emitter,
    normalize::expander::Expander,
    trials::Trials,
};

/// A keyword and its fate.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct KeywordFate {
    /// The JSON pointer of the schema that contains the keyword, such as `#/properties/a`.
    pub pointer: String,
    /// The keyword; empty if the entry is about the schema as a whole.
    pub keyword: String,
    /// The fate of the keyword.
    pub fate: Fate,
    /// The reason, in words.
    pub why: String,
}

/// Lists the fate of every keyword of the schema `text`, in the order of the text. If reading fails, the only entry
/// holds the error.
///
/// # Example
///
/// ```
/// use unskew_grammar::Fate;
/// use unskew_schema::{SchemaLimits, SchemaOptions, explain};
///
/// let text = r#"{"type": "array", "uniqueItems": true, "title": "Names"}"#;
/// let fates = explain(text, &SchemaOptions::default(), &SchemaLimits::default());
/// let fates: Vec<_> = fates.iter().map(|one| (one.keyword.as_str(), one.fate)).collect();
/// assert_eq!(
///     fates,
///     [("type", Fate::Enforced), ("uniqueItems", Fate::Rejected), ("title", Fate::Annotation)]
/// );
/// ```
pub fn explain(text: &str, options: &SchemaOptions, limits: &SchemaLimits) -> Vec<KeywordFate> {
    let stopped = |error: &SchemaError| KeywordFate {
        pointer: error.pointer().unwrap_or("#").to_owned(),
        keyword: error.keyword().unwrap_or_default().to_owned(),
        fate: Fate::Rejected,
        why: error.to_string(),
    };
    let schemas = match Schemas::read(text, options, limits) {
        Ok(schemas) => schemas,
        Err(error) => return vec![stopped(&error)],
    };
    let mut expander = Expander::new(schemas, options, limits);
    expander.fates = Some(HashMap::new());
    let mut emitter = match Emitter::new(expander, options, limits) {
        Ok(emitter) => emitter,
        Err(error) => return vec![stopped(&error)],
    };
    let made = emitter.grammar();
    let known = emitter.ex.fates.take().unwrap_or_default();
    let ex = &emitter.ex;
    let document = &ex.schemas.document;
    let stops = match &made {
        Ok(_) | Err(SchemaError::Unsatisfiable { .. }) => false,
        // All keywords were read, and one of them was refused.
        Err(error) => !ex.refused.contains(error),
    };
    let reached: HashSet<NodeId> = known.keys().map(|(node, _)| *node).collect();
    let is_listed =
        |node: &NodeId| !ex.schemas.is_copy(*node) && (ex.schemas.is_schema(*node) || reached.contains(node));
    // The schema of each row, if a trial without the keyword may tell more.
    let note = |why: &String| {
        let (pointer, keyword) = ("#".to_owned(), String::new());
        (KeywordFate { pointer, keyword, fate: Fate::Annotation, why: why.clone() }, None)
    };
    let mut rows: Vec<(KeywordFate, Option<NodeId>)> = ex.schemas.notes.iter().map(note).collect();
    let mut told = vec![false; ex.narrowed.len()];
    let mut unread = 0;
    for node in document.nodes().filter(is_listed) {
        for (keyword, _) in document.members(node).unwrap_or_default() {
            let found = known.get(&(node, keyword.to_string())).cloned();
            let (mut fate, mut why) = match found {
                Some(found) => found,
                None if ex.schemas.is_followed(node) => (Fate::Enforced, EXACTLY.to_owned()),
                None if stops => {
                    unread += 1;
                    continue;
                }
                None => (Fate::Annotation, "no value comes to this schema".to_owned()),
            };
            let narrowed = ex.narrowed.iter().position(|one| one.node == node && *one.keyword == **keyword);
            if let Some(narrowed) = narrowed.filter(|_| fate == Fate::Enforced) {
                (fate, why) = (Fate::Narrowed, ex.narrowed[narrowed].why.clone());
                told[narrowed] = true;
            }
            let tried = (fate == Fate::Enforced).then_some(node);
            rows.push((
                KeywordFate { pointer: ex.schemas.pointer(node), keyword: keyword.to_string(), fate, why },
                tried,
            ));
        }
    }
    for (narrowed, _) in ex.narrowed.iter().zip(told).filter(|(_, told)| !told) {
        let (pointer, why) = (ex.schemas.pointer(narrowed.node), narrowed.why.clone());
        let keyword = narrowed.keyword.clone();
        rows.push((KeywordFate { pointer, keyword, fate: Fate::Narrowed, why }, None));
    }
    let refused = ex.refused.clone();
    let tried = rows.iter().filter(|(_, node)| node.is_some()).count();
    let is_tried = !Trials::reach_few(&emitter, &made, tried);
    let mut trials = Trials::new(emitter.ex, options, limits);
    let made = match made {
        Ok(grammar) => Ok(grammar.trimmed().ok()),
        Err(SchemaError::Unsatisfiable { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    if let Ok(outputs) = &made {
        for (row, node) in rows.iter_mut().filter_map(|(row, node)| Some((row, (*node)?))) {
            if row.keyword == "type" && trials.loses_null(node) {
                row.why = NO_NULL.to_owned();
            }
            match is_tried.then(|| trials.is_idle(node, &row.keyword, outputs)).flatten() {
                Some(true) => {
                    row.fate = Fate::Annotation;
                    if row.why == EXACTLY {
                        row.why = if outputs.is_some() { IDLE } else { NO_OUTPUTS }.to_owned();
                    }
                }
                Some(false) => {}
                None if row.why == EXACTLY => UNTRIED.clone_into(&mut row.why),
                None => {}
            }
        }
    }
    let mut fates: Vec<KeywordFate> = rows.into_iter().map(|(row, _)| row).collect();
    let error = match made {
        Ok(Some(_)) => None,
        Ok(None) => Some(trials.conflict()),
        Err(error) => Some(error),
    };
    for error in refused.iter().chain(&error) {
        let mut row = stopped(error);
        if stops && unread > 0 {
            row.why += &format!(" ({unread} keywords were not read)");
        }
        let listed = |one: &KeywordFate| {
            one.fate == Fate::Rejected && one.pointer == row.pointer && one.keyword == row.keyword
        };
        if !fates.iter().any(listed) {
            fates.push(row);
        }
    }
    fates
}

const EXACTLY: &str = "exactly";

const NO_NULL: &str = "it lists null, which is not in `enum`, so that null is never written: add it there";

const IDLE: &str = "the outputs are the same without it: the other keywords say as much";

const NO_OUTPUTS: &str = "there are no outputs, with it or without it";

const UNTRIED: &str = "exactly; whether other keywords say as much is not known";
