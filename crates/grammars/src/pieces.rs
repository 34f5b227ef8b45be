//! A mask in pieces: sets that lie ready, shared by many masks, and single tokens.

use std::sync::Arc;

use smallvec::SmallVec;
use unskew_core::{MaskMut, MaskRef, TokenId};

use crate::{
    tracked::SparseTokens,
    trees::{Node, Tokens},
};

/// A mask in pieces, most of which are shared: a twentieth of the memory of its bits, and less work to make.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// Nodes with many tokens inside.
    nodes: SmallVec<[Arc<Node>; 2]>,
    /// Single tokens, which may repeat.
    pub(crate) ids: Vec<TokenId>,
    /// Tokens that a walk found.
    words: Option<Box<[u32]>>,
    /// Tokens that are none of all these, whatever the others say.
    pub(crate) removed: Vec<TokenId>,
    /// Of the tokens, those in which a text that may not come twice may come twice.
    pub(crate) doubtful: Vec<TokenId>,
}

impl Pieces {
    /// Adds the tokens of `mask`.
    pub(crate) fn add_mask(&mut self, mask: MaskRef<'_>) {
        match Tokens::of(mask) {
            Tokens::Few(tokens) => self.ids.extend_from_slice(&tokens),
            Tokens::Many(words) => match &mut self.words {
                Some(kept) => kept.iter_mut().zip(&words).for_each(|(kept, word)| *kept |= word),
                None => self.words = Some(words),
            },
        }
    }

    pub(crate) fn add_token(&mut self, token: TokenId) {
        self.ids.push(token);
    }

    pub(crate) fn add_node(&mut self, node: &Arc<Node>) {
        match &node.inside {
            Tokens::Few(tokens) => self.ids.extend_from_slice(tokens),
            Tokens::Many(_) if self.nodes.iter().any(|other| Arc::ptr_eq(other, node)) => {}
            Tokens::Many(_) => self.nodes.push(Arc::clone(node)),
        }
    }

    /// The words of all sets that it is made of, besides single tokens.
    fn sets(&self) -> impl Iterator<Item = &[u32]> {
        let nodes = self.nodes.iter().filter_map(|node| match &node.inside {
            Tokens::Many(words) => Some(&words[..]),
            Tokens::Few(_) => None,
        });
        nodes.chain(self.words.as_deref())
    }

    /// Makes `mask` what this is.
    pub(crate) fn write(&self, mut mask: MaskMut<'_>) {
        let len = mask.as_ref().len();
        let mut sets = self.sets().map(|words| MaskRef::new(words, len));
        match sets.next() {
            Some(first) => mask.copy_from(first),
            None => mask.clear(),
        }
        sets.for_each(|set| mask.union(set));
        self.ids.iter().for_each(|token| mask.insert(*token));
        self.removed.iter().for_each(|token| mask.remove(*token));
    }

    /// Whether the mask has this token. O(n) for n single ones.
    pub(crate) fn contains(&self, token: TokenId) -> bool {
        let is_in = |words: &[u32]| words[token.index() / 32] >> (token.index() % 32) & 1 != 0;
        !self.removed.contains(&token) && (self.sets().any(is_in) || self.ids.contains(&token))
    }

    /// Of `tokens`, those that are in the mask.
    pub(crate) fn among(&self, tokens: &SparseTokens) -> Vec<TokenId> {
        let mut found: Vec<TokenId> = Vec::new();
        self.sets().for_each(|words| tokens.add_common(words, &mut found));
        found.extend(self.ids.iter().copied().filter(|token| tokens.contains(*token)));
        found.sort_unstable();
        found.dedup();
        found.retain(|token| !self.removed.contains(token));
        found
    }

    /// The only token, if there is no other.
    pub(crate) fn only(&self) -> Option<TokenId> {
        let (first, others) = self.ids.split_first()?;
        let is_only = self.nodes.is_empty() && self.words.is_none();
        (is_only && others.iter().all(|other| other == first)).then_some(*first)
    }

    /// The words of the mask, where they lie ready.
    pub(crate) fn ready(&self) -> Option<&[u32]> {
        if !self.removed.is_empty() {
            return None;
        }
        match (&self.nodes[..], &self.words, &self.ids[..]) {
            ([], Some(words), []) => Some(words),
            ([node], None, []) => match &node.inside {
                Tokens::Many(words) => Some(words),
                Tokens::Few(_) => None,
            },
            _ => None,
        }
    }

    /// What is its own, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of::<Self>()
            + (self.ids.len() + self.removed.len() + self.doubtful.len()) * size_of::<TokenId>()
            + self.words.as_ref().map_or(0, |words| size_of_val(&words[..]))
    }
}
