//! The visited children of a prefix. Most prefixes have one child, whose edge lies in the node itself: a list of one
//! edge would take a pointer, two lengths and an allocation for its 16 bytes.

use std::ops::{Deref, DerefMut};

use unskew_core::TokenId;

use super::NodeId;

/// An edge to a child, whether the child counts in its parent's bound or not yet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Edge {
    pub(crate) token: TokenId,
    pub(crate) node: NodeId,
    /// The log-probability of the token plus the bound of the node; NaN while the node is not backed up.
    pub(crate) weight: f64,
}

impl Edge {
    /// Whether the child's mass has left the parent's unexplored mass.
    pub(crate) fn counts(&self) -> bool {
        !self.weight.is_nan()
    }
}

/// The edges by token, ascending.
#[derive(Clone, Debug, Default)]
pub(super) enum Edges {
    #[default]
    None,
    One(Edge),
    Many(Vec<Edge>),
}

impl Edges {
    /// The index of a token's edge, or the index at which it would be inserted.
    pub(super) fn search(&self, token: TokenId) -> Result<usize, usize> {
        self.binary_search_by_key(&token, |edge| edge.token)
    }

    /// The node of a token. A token without a node gets the node `new`.
    pub(super) fn find_or_insert(&mut self, token: TokenId, new: NodeId) -> NodeId {
        let edge = Edge { token, node: new, weight: f64::NAN };
        match self {
            Self::None => *self = Self::One(edge),
            Self::One(other) if other.token == token => return other.node,
            _ => match self.search(token) {
                Ok(index) => return self[index].node,
                Err(at) => self.insert(at, edge),
            },
        }
        new
    }

    /// Inserts an edge at an index that a search has answered with.
    pub(super) fn insert(&mut self, at: usize, edge: Edge) {
        match self {
            Self::None => *self = Self::One(edge),
            Self::One(other) => {
                let mut edges = Vec::with_capacity(2);
                edges.push(*other);
                edges.insert(at, edge);
                *self = Self::Many(edges);
            }
            Self::Many(edges) => edges.insert(at, edge),
        }
    }

    /// The bytes of the edges outside the node, with the spare capacity.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::None | Self::One(_) => 0,
            Self::Many(edges) => edges.capacity() * size_of::<Edge>(),
        }
    }
}

/// From a list in order, without spare capacity.
impl From<Vec<Edge>> for Edges {
    fn from(mut edges: Vec<Edge>) -> Self {
        edges.shrink_to_fit();
        match edges[..] {
            [] => Self::None,
            [edge] => Self::One(edge),
            _ => Self::Many(edges),
        }
    }
}

impl Deref for Edges {
    type Target = [Edge];

    fn deref(&self) -> &[Edge] {
        match self {
            Self::None => &[],
            Self::One(edge) => std::slice::from_ref(edge),
            Self::Many(edges) => edges,
        }
    }
}

impl DerefMut for Edges {
    fn deref_mut(&mut self) -> &mut [Edge] {
        match self {
            Self::None => &mut [],
            Self::One(edge) => std::slice::from_mut(edge),
            Self::Many(edges) => edges,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_is_there_keeps_its_node() {
        let mut edges = Edges::default();
        for (round, token) in [4, 4, 8, 2, 8, 4, 2].into_iter().enumerate() {
            let new = NodeId(u32::try_from(round).unwrap());
            let before = edges.search(TokenId(token)).map(|at| edges[at].node);
            let len = edges.len();
            assert_eq!(edges.find_or_insert(TokenId(token), new), before.unwrap_or(new));
            assert_eq!(edges.len(), len + usize::from(before.is_err()));
            assert!(edges.is_sorted_by_key(|edge| edge.token));
        }
    }

    #[test]
    fn edges_stay_in_order_and_say_what_they_take() {
        let edge = |token: u32| Edge { token: TokenId(token), node: NodeId(token), weight: f64::NAN };
        let mut edges = Edges::default();
        for (count, token) in [5, 2, 9, 7, 0].into_iter().enumerate() {
            let at = edges.search(TokenId(token)).unwrap_err();
            edges.insert(at, edge(token));
            assert_eq!(edges.search(TokenId(token)), Ok(at));
            assert_eq!(edges.len(), count + 1);
            assert!(edges.is_sorted_by_key(|edge| edge.token));
            assert!(if count == 0 { edges.bytes() == 0 } else { edges.bytes() >= 16 * edges.len() });
        }
        assert!(matches!(Edges::from(vec![edge(1)]), Edges::One(_)));
        assert_eq!(Edges::from(edges.to_vec()).bytes(), 80);
        assert_eq!(Edges::from(Vec::new()).len(), 0);
    }
}
