//! The keywords that a text may use: the keywords of a draft, or the subset that a custom metaschema lists.
//!
//! From draft 2019-09 on, keywords belong to vocabularies, and a metaschema lists the vocabularies of its schemas
//! (`$vocabulary`; 2020-12 core, section 8.1.2). A keyword of an unlisted vocabulary has no effect. The metaschema
//! is looked up in the [`Registry`] and read for this list alone; a schema is not validated against it.

use unskew_core::Cancel;

use super::{
    json::{Document, Value},
    metaschema,
};
use crate::{Registry, SchemaLimits, draft::Draft};

/// The vocabularies with keywords that constrain values. `format` is in no vocabulary here, because it is always
/// enforced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Vocabulary {
    Applicator,
    Unevaluated,
    Validation,
}

fn vocabulary_of(keyword: &str, draft: Draft) -> Option<Vocabulary> {
    Some(match keyword {
        "type" | "enum" | "const" | "multipleOf" | "maximum" | "exclusiveMaximum" | "minimum"
        | "exclusiveMinimum" | "maxLength" | "minLength" | "pattern" | "maxItems" | "minItems"
        | "uniqueItems" | "maxContains" | "minContains" | "maxProperties" | "minProperties" | "required"
        | "dependentRequired" => Vocabulary::Validation,
        "unevaluatedItems" | "unevaluatedProperties" if draft == Draft::Draft202012 => {
            Vocabulary::Unevaluated
        }
        "prefixItems"
        | "items"
        | "additionalItems"
        | "contains"
        | "properties"
        | "patternProperties"
        | "additionalProperties"
        | "propertyNames"
        | "dependentSchemas"
        | "dependencies"
        | "if"
        | "then"
        | "else"
        | "allOf"
        | "anyOf"
        | "oneOf"
        | "not"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Vocabulary::Applicator,
        _ => return None,
    })
}

/// The draft and the vocabularies of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dialect {
    pub(crate) draft: Draft,
    /// Indexed by [`Vocabulary`]: whether the text may use the vocabulary.
    has: [bool; 3],
}

impl Dialect {
    pub(crate) fn of_draft(draft: Draft) -> Self {
        Self { draft, has: [true; 3] }
    }

    /// The dialect that `$schema` names: a draft, or a metaschema of the registry. The error is the reason why
    /// there is no such dialect.
    pub(crate) fn named(
        name: &str,
        registry: &Registry,
        limits: &SchemaLimits,
        cancel: &Cancel,
    ) -> Result<Self, String> {
        if let Some(draft) = Draft::of(name) {
            return Ok(Self::of_draft(draft));
        }
        let uri = Registry::resolve(Registry::BASE, name.split_once('#').map_or(name, |(name, _)| name));
        let text = registry.get(&uri).ok_or_else(|| format!("{name:?} is not known"))?;
        let document = Document::read(text, limits, cancel).map_err(|error| format!("{name:?}: {error}"))?;
        let own = document.member(Document::ROOT, "$schema").and_then(|own| document.text(own));
        let draft =
            own.and_then(Draft::of).ok_or_else(|| format!("{name:?} is of no draft that is known"))?;
        let listed = document.member(Document::ROOT, "$vocabulary").and_then(|list| document.members(list));
        let (Some(listed), Draft::Draft201909 | Draft::Draft202012) = (listed, draft) else {
            return Ok(Self::of_draft(draft));
        };
        let mut has = [false; 3];
        for (vocabulary, needed) in listed {
            match draft.vocabulary(vocabulary) {
                Some("applicator") => {
                    has[Vocabulary::Applicator as usize] = true;
                    has[Vocabulary::Unevaluated as usize] |= draft == Draft::Draft201909;
                }
                Some("unevaluated") => has[Vocabulary::Unevaluated as usize] = true,
                Some("validation") => has[Vocabulary::Validation as usize] = true,
                Some(
                    "core" | "meta-data" | "format" | "format-annotation" | "format-assertion" | "content",
                ) => {}
                _ if matches!(document.value(*needed), Value::Bool(false)) => {}
                _ => return Err(format!("{name:?} needs the vocabulary {vocabulary:?}, which is not known")),
            }
        }
        Ok(Self { draft, has })
    }

    /// Whether a schema with the keyword may constrain values.
    pub(crate) fn constrains(self, keyword: &str) -> bool {
        let refers =
            matches!(keyword, "$ref" | "$dynamicRef" | "$recursiveRef" | "format" | "contentEncoding");
        metaschema::kind(keyword, self.draft).is_some() && (refers || self.asks(keyword) && self.has(keyword))
    }

    /// Whether the keyword is in a vocabulary of constraints.
    pub(crate) fn asks(self, keyword: &str) -> bool {
        vocabulary_of(keyword, self.draft).is_some()
    }

    /// Whether the text may use the keyword, given that the draft has it.
    pub(crate) fn has(self, keyword: &str) -> bool {
        vocabulary_of(keyword, self.draft).is_none_or(|vocabulary| self.has[vocabulary as usize])
    }
}
