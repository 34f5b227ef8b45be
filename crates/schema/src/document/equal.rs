//! Equal schemas of a document, which are read as one: the first of them stands for all.
//!
//! A tool that writes a schema without definitions repeats its parts. One schema of buildings has the same nineteen
//! surfaces in a hundred places, and each had shapes, automata and rules of its own.

use hashbrown::HashMap;

use super::{
    json::{Document, NodeId, Value},
    schemas::Schemas,
};
use crate::decimal::Decimal;

/// The number of values below which a document has too few equal schemas to look for them.
const FEW: usize = 1 << 9;

/// A value, with equal numbers for equal parts.
#[derive(PartialEq, Eq, Hash)]
enum Content<'d> {
    Word(Option<bool>),
    /// In draft 4 the way in which a number is written counts.
    Number(&'d Decimal, bool),
    Text(&'d str),
    Items(Vec<u32>),
    /// In their order, which outputs may follow.
    Members(Vec<(&'d str, u32)>),
}

impl Schemas {
    /// Lets the first of equal schemas stand for all of them, from here on. The meaning of a schema must depend on its
    /// text alone, so documents of several resources, and those with dynamic references, are left as they are.
    pub(crate) fn share(&mut self) {
        let document = &self.document;
        let is_one = self.anchored.is_empty() && self.resource.iter().all(|root| *root == Document::ROOT);
        if document.nodes().count() < FEW || !is_one {
            return;
        }
        let nodes: Vec<NodeId> = document.nodes().collect();
        let mut numbers: HashMap<Content<'_>, u32> = HashMap::new();
        let mut of: Vec<u32> = vec![0; nodes.len()];
        let mut first: Vec<NodeId> = vec![];
        // Parts follow their whole.
        for node in nodes.iter().copied().rev() {
            let number = |part: &NodeId| of[part.index()];
            let content = match document.value(node) {
                Value::Null => Content::Word(None),
                Value::Bool(value) => Content::Word(Some(*value)),
                Value::Number(value) => Content::Number(value, document.is_pointed(node)),
                Value::String(text) => Content::Text(text),
                Value::Array(items) => Content::Items(items.iter().map(number).collect()),
                Value::Object(members) => {
                    Content::Members(members.iter().map(|(name, part)| (&**name, number(part))).collect())
                }
            };
            let new = u32::try_from(first.len()).expect("a document has fewer values");
            let number = *numbers.entry(content).or_insert(new);
            if number == new {
                first.push(node);
            }
            if self.is_schema(node) {
                first[number as usize] = node;
            }
            of[node.index()] = number;
        }
        let equal = |node: NodeId| if self.is_schema(node) { first[of[node.index()] as usize] } else { node };
        self.equal = nodes.into_iter().map(equal).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SchemaLimits, SchemaOptions};

    /// Schemas of a document with enough values, after sharing.
    fn shared(parts: &str) -> Schemas {
        let more = vec!["0"; FEW].join(",");
        let text = format!("{{\"default\": [{more}], \"properties\": {{{parts}}}}}");
        let mut schemas = Schemas::read(&text, &SchemaOptions::default(), &SchemaLimits::default()).unwrap();
        schemas.share();
        schemas
    }

    #[test]
    fn equal_schemas_are_one_and_others_are_not() {
        let schemas = shared(
            r#""a": {"items": {"minimum": 1, "maximum": 2}}, "b": {"items": {"minimum": 1, "maximum": 2}},
               "c": {"items": {"maximum": 2, "minimum": 1}}, "d": {"items": {"minimum": 1, "maximum": 2.0}}"#,
        );
        let literal = |path: &str| {
            let node = schemas.document.resolve(Document::ROOT, &format!("/properties/{path}")).unwrap();
            schemas.literal(node).unwrap().node
        };
        assert_eq!(literal("a"), literal("b"));
        assert_eq!(schemas.pointer(literal("b/items")), "#/properties/a/items");
        let different = ["a", "c", "d"].map(|name| literal(&format!("{name}/items")));
        assert!(different[0] != different[1] && different[0] != different[2] && different[1] != different[2]);
        // A resource of its own has references of its own.
        assert!(shared(r#""a": {"$id": "x", "items": {}}, "b": {"items": {}}"#).equal.is_empty());
    }
}
