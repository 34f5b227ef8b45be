//! The two engines of a constraint as one, and the questions that the constraint asks.

use super::{
    context::Context,
    lazy_product::{LazyProduct, Query},
    memo::Memo,
    position::Position,
    whole_product::WholeProduct,
};
use crate::{canonical::token_set::TokenSet, ids::WholeNode};

/// The engine that decides which positions are live.
pub(crate) enum Engine {
    Lazy(LazyProduct),
    Whole(Box<WholeProduct>),
}

impl Engine {
    /// The questions to this engine. Answers that the lazy engine finds are kept in `memo`.
    pub(crate) fn ask<'a>(&'a self, context: &'a Context, memo: &'a mut Memo) -> Ask<'a> {
        match self {
            Self::Lazy(lazy) => Ask::Lazy(lazy.query(context, memo)),
            Self::Whole(whole) => Ask::Whole(context, whole),
        }
    }
}

/// Liveness queries, answered by the engine of the constraint.
pub(crate) enum Ask<'a> {
    Lazy(Query<'a>),
    Whole(&'a Context, &'a WholeProduct),
}

impl Ask<'_> {
    /// Whether this piece start is live.
    pub(crate) fn is_live(&mut self, piece_start: Position) -> bool {
        match self {
            Self::Lazy(query) => query.is_live(piece_start),
            Self::Whole(_, whole) => whole.is_live(piece_start),
        }
    }

    /// Whether `token`, as the first token of a piece, leads to a live configuration in `at`.
    pub(crate) fn may_begin(&mut self, token: u32, at: Position) -> bool {
        match self {
            Self::Lazy(query) => query.may_begin(token, at),
            Self::Whole(context, whole) => whole.may_begin(context, token, at),
        }
    }

    /// Whether `at` is live when `token` precedes it in the same piece.
    pub(crate) fn may_precede(&mut self, token: u32, at: Position) -> bool {
        match self {
            Self::Lazy(query) => query.may_precede(token, at),
            Self::Whole(context, whole) => whole.may_precede(context, token, at),
        }
    }

    /// Whether `at` is live after `node` of the trie of whole pieces.
    pub(crate) fn may_precede_node(&mut self, node: WholeNode, at: Position) -> bool {
        match self {
            Self::Lazy(query) => query.may_precede_node(node, at),
            Self::Whole(context, whole) => whole.may_precede_node(context, node, at),
        }
    }

    /// The tokens that lead from `at` to live positions, for any left context.
    pub(crate) fn with_token_set<T>(&mut self, at: Position, read: impl FnOnce(&TokenSet) -> T) -> T {
        match self {
            Self::Lazy(query) => query.with_token_set(at, read),
            Self::Whole(context, whole) => whole.with_token_set(context, at, read),
        }
    }
}
