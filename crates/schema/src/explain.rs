//! The fate of every keyword of a schema.

use unskew_grammars::Fate;

use crate::{
    SchemaError, SchemaLimits, SchemaOptions, document::schemas::Schemas, emit::rules::Emitter,
    normalize::expand::Expander,
};

/// A keyword and what becomes of it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct KeywordFate {
    /// The schema that it stands in, as a JSON pointer such as `#/properties/a`.
    pub pointer: String,
    /// The keyword; empty where the schema as a whole is meant.
    pub keyword: String,
    /// What becomes of it.
    pub fate: Fate,
    /// Why, in words.
    pub why: String,
}

/// The fate of every keyword of the schema `text`, in the order of the text. Where reading stops, the last one says why.
///
/// # Example
///
/// ```
/// use unskew_grammars::Fate;
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
    let schemas = match Schemas::read(text, &options.registry, limits, &options.cancel) {
        Ok(schemas) => schemas,
        Err(error) => return vec![stopped(&error)],
    };
    let mut emitter = match Emitter::new(Expander::new(schemas, options, limits), options, limits) {
        Ok(emitter) => emitter,
        Err(error) => return vec![stopped(&error)],
    };
    let made = emitter.grammar();
    let ex = &emitter.ex;
    let document = &ex.schemas.document;
    let mut fates = vec![];
    for node in document.nodes().filter(|node| ex.schemas.is_schema(*node) && !ex.schemas.is_copy(*node)) {
        for (keyword, _) in document.members(node).unwrap_or_default() {
            let found = ex.fates.get(&(node, keyword.to_string())).cloned();
            let (mut fate, mut why) =
                found.unwrap_or_else(|| (Fate::Annotation, "no value comes to this schema".to_owned()));
            let narrowed = ex.narrowed.iter().find(|(of, by, _)| *of == node && **by == **keyword);
            if let Some((_, _, narrowed)) = narrowed.filter(|_| fate == Fate::Enforced) {
                (fate, why) = (Fate::Narrowed, narrowed.clone());
            }
            fates.push(KeywordFate {
                pointer: ex.schemas.pointer(node),
                keyword: keyword.to_string(),
                fate,
                why,
            });
        }
    }
    for (node, keyword, why) in ex.narrowed.iter().filter(|(_, keyword, _)| keyword.is_empty()) {
        let (pointer, keyword) = (ex.schemas.pointer(*node), keyword.clone());
        fates.push(KeywordFate { pointer, keyword, fate: Fate::Narrowed, why: why.clone() });
    }
    for error in ex.refused.iter().chain(made.as_ref().err()) {
        let row = stopped(error);
        let listed = |one: &KeywordFate| {
            one.fate == Fate::Rejected && one.pointer == row.pointer && one.keyword == row.keyword
        };
        if !fates.iter().any(listed) {
            fates.push(row);
        }
    }
    fates
}
