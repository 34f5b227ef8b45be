//! A schema or its negation, as a condition on a value. A value satisfies a set of literals, or it does not.

use super::json::NodeId;

/// A schema or its negation, as a condition on a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Literal {
    pub(crate) node: NodeId,
    pub(crate) positive: bool,
    /// Whether the node is a value and no schema: the condition is equality with it.
    pub(crate) constant: bool,
}

impl Literal {
    pub(crate) fn new(node: NodeId) -> Self {
        Self { node, positive: true, constant: false }
    }

    /// The condition that a value equals the value at `node`.
    pub(crate) fn constant(node: NodeId) -> Self {
        Self { node, positive: true, constant: true }
    }

    pub(crate) fn not(self) -> Self {
        Self { positive: !self.positive, ..self }
    }
}
