//! The quotient of a vocabulary: its tokens as strings of [`Symbol`]s, equal strings merged, as tries.
//!
//! The trie of 128,000 tokens has 270,000 nodes; the tokens that are words have 30 strings of symbols (`aaaa`,
//! ` Aaaaaa`). As long as the automaton does not distinguish the characters of a symbol, a walk over these strings
//! visits hundreds of nodes where the walk over the bytes visits a hundred thousand. Where the automaton does, the
//! walk goes on from the *members* of a node, the places of the byte trie that spell it, each with a state of its
//! own.
//!
//! There is a quotient for the whole trie and one for each large subtree (in four levels: `␣`, `␣c`, `␣co`, `␣con`).
//! A pattern may single out some first letters, as keywords among identifiers do. The tokens after the other letters
//! are then walked in quotients again, and not byte by byte.
//!
//! Tokens that are not whole characters, about 1,500, are in no quotient. They have a small byte trie of their own.
//!
//! [`build`] makes the tables, from the [`edges`] of the byte trie; [`postings`] are the lists in which exceptions
//! are found.

mod build;
mod edges;
mod postings;
#[cfg(test)]
mod tests;

use unskew_core::TokenId;

pub(crate) use self::postings::Exceptions;
use self::postings::Postings;
use crate::{
    ids::{Id, MaskId, NodeId, QuotientId, SetId, SummaryId},
    symbols::{Symbol, SymbolSet, Symbols},
    tuning::Tuning,
};

/// A string of symbols that begins tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QuotientNode {
    /// Index of the first node after this one's subtree.
    pub(crate) end: u32,
    /// The node's tokens: from here to the first token of the next node.
    pub(crate) first_token: u32,
    /// The node's members: from here to the first member of the next node.
    first_member: u32,
    /// The length of the string, minus one, in the high 24 bits; its last symbol in the low 8.
    depth_and_symbol: u32,
    /// The summary of the node and its subtree, where they have many tokens.
    pub(crate) summary: Option<SummaryId>,
}

impl QuotientNode {
    /// The last symbol of the string.
    #[inline]
    pub(crate) fn symbol(self) -> Symbol {
        Symbol((self.depth_and_symbol & 0xff) as u8)
    }

    /// The length of the string, minus one.
    #[inline]
    pub(crate) fn depth(self) -> usize {
        (self.depth_and_symbol >> 8) as usize
    }
}

/// The summary of a node with many tokens at it or below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Summary {
    /// The symbols below the node.
    pub(crate) symbols: SetId,
    /// The length of the longest string below the node, beyond the node's own.
    pub(crate) height: u32,
    /// The node's own tokens as a mask, where they are many.
    pub(crate) own_mask: Option<MaskId>,
    /// The tokens below the node as a mask, where they are many.
    pub(crate) below_mask: Option<MaskId>,
    /// The tokens below the node.
    pub(crate) below: (u32, u32),
}

impl Summary {
    /// The number of tokens below the node.
    #[inline]
    pub(crate) fn tokens_below(&self) -> u32 {
        self.below.1 - self.below.0
    }
}

/// A place of the byte trie that a node of a quotient stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Member {
    /// The last character.
    pub(crate) char: char,
    /// The node of the byte trie that ends it.
    pub(crate) node: NodeId,
    /// The quotient of the subtree below the member, if it is large.
    pub(crate) quotient: Option<QuotientId>,
}

/// The quotient of one subtree of the byte trie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Quotient {
    /// The nodes of the quotient, from the first to the end.
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// The length of the longest string.
    pub(crate) height: u32,
    /// The summary of the empty string, if there are many tokens.
    pub(crate) summary: Option<SummaryId>,
}

/// The quotients of a byte trie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Quotients {
    pub(crate) symbols: Symbols,
    /// Each quotient depth-first, and one sentinel at the end.
    pub(crate) nodes: Vec<QuotientNode>,
    pub(crate) tokens: Vec<TokenId>,
    members: Vec<Member>,
    summaries: Vec<Summary>,
    sets: Vec<SymbolSet>,
    masks: Vec<u32>,
    /// The number of words of a mask.
    words: usize,
    /// The quotients. The first is that of the whole trie.
    all: Vec<Quotient>,
    /// The postings of the first quotient's tokens, and of all nodes.
    pub(crate) postings: Postings,
    pub(crate) tuning: Tuning,
}

impl Quotients {
    /// The quotient of the whole trie.
    #[inline]
    pub(crate) fn whole(&self) -> Quotient {
        self.all[0]
    }

    #[inline]
    pub(crate) fn quotient(&self, quotient: QuotientId) -> Quotient {
        self.all[quotient.index()]
    }

    /// The members of a node.
    pub(crate) fn members_of(&self, node: usize) -> &[Member] {
        &self.members[self.nodes[node].first_member as usize..self.nodes[node + 1].first_member as usize]
    }

    /// The tokens of a node.
    #[inline]
    pub(crate) fn own(&self, node: usize) -> &[TokenId] {
        &self.tokens[self.nodes[node].first_token as usize..self.nodes[node + 1].first_token as usize]
    }

    /// The tokens below the node of a summary.
    #[inline]
    pub(crate) fn below(&self, summary: &Summary) -> &[TokenId] {
        &self.tokens[summary.below.0 as usize..summary.below.1 as usize]
    }

    #[inline]
    pub(crate) fn summary(&self, summary: SummaryId) -> Summary {
        self.summaries[summary.index()]
    }

    #[inline]
    pub(crate) fn set(&self, set: SetId) -> SymbolSet {
        self.sets[set.index()]
    }

    #[inline]
    pub(crate) fn mask(&self, mask: MaskId) -> &[u32] {
        &self.masks[mask.index() * self.words..][..self.words]
    }

    /// The tokens of the whole trie as a mask, where they are many.
    pub(crate) fn all_tokens(&self) -> Option<&[u32]> {
        let summary = self.summary(self.whole().summary?);
        summary.below_mask.map(|mask| self.mask(mask))
    }

    /// The memory of the tables, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.symbols.memory_usage()
            + size_of_val(&self.nodes[..])
            + size_of_val(&self.tokens[..])
            + size_of_val(&self.members[..])
            + size_of_val(&self.summaries[..])
            + size_of_val(&self.sets[..])
            + size_of_val(&self.masks[..])
            + size_of_val(&self.all[..])
            + self.postings.memory_usage()
    }
}
