//! Rules for the values of a set of schemas that only few values satisfy.

use unskew_grammars::ExprId;

use super::rules::Emitter;
use crate::{SchemaError, document::json::NodeId, normalize::finite::Finite};

impl Emitter {
    /// The rule of one value of a set.
    pub(crate) fn finite(&mut self, node: Option<NodeId>, value: &Finite) -> Result<ExprId, SchemaError> {
        Ok(match value {
            Finite::Word(word) => self.builder.literal(*word),
            Finite::Text(text) => {
                let texts = self.ex.languages.text(text);
                match self.ex.located(node, texts)? {
                    Some(texts) => self.string(node, &texts)?,
                    None => return Err(SchemaError::Unsatisfiable),
                }
            }
            Finite::Number(_, spelled) => self.terminal("number", spelled),
            Finite::Node(node) => {
                // The value is a part of the value at the current level.
                self.level += 1;
                let constant = self.constant(*node);
                self.level -= 1;
                constant?
            }
        })
    }
}
