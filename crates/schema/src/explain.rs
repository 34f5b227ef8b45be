//! The fate of every keyword of a schema.

use unskew_grammars::Fate;

use crate::{
    SchemaError, SchemaLimits, SchemaOptions, document::schemas::Schemas, emit::emitter::Emitter,
    normalize::expander::Expander,
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
            let narrowed = ex.narrowed.iter().find(|one| one.node == node && *one.keyword == **keyword);
            if let Some(narrowed) = narrowed.filter(|_| fate == Fate::Enforced) {
                (fate, why) = (Fate::Narrowed, narrowed.why.clone());
            }
            fates.push(KeywordFate {
                pointer: ex.schemas.pointer(node),
                keyword: keyword.to_string(),
                fate,
                why,
            });
        }
    }
    for narrowed in ex.narrowed.iter().filter(|one| one.keyword.is_empty()) {
        let (pointer, why) = (ex.schemas.pointer(narrowed.node), narrowed.why.clone());
        fates.push(KeywordFate { pointer, keyword: String::new(), fate: Fate::Narrowed, why });
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
