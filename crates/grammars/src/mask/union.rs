//! A mask as a union of ready sets, which many masks share, and single tokens.

use std::sync::Arc;

use smallvec::SmallVec;
use unskew_core::{MaskMut, MaskRef, TokenId, TokenMask};

use crate::trees::key_tokens::SparseTokens;
use crate::trees::nodes::{Tokens, TreeNode};

/// A mask as a union of sets, most of them shared: a twentieth of the memory of its bits, and less work to build.
#[derive(Debug, Default)]
pub(crate) struct MaskUnion {
    /// Nodes with many tokens inside.
    nodes: SmallVec<[Arc<TreeNode>; 2]>,
    /// By node: whether its tokens are in the mask only because a terminal that was begun reads them.
    only_continued: SmallVec<[bool; 2]>,
    /// Single tokens, which may repeat.
    pub(crate) ids: Vec<TokenId>,
    /// Tokens that a walk found.
    words: Option<Box<[u32]>>,
    /// Tokens that are not in the mask, though a set has them.
    removed: Vec<TokenId>,
    /// The tokens of the mask in which a key may occur twice.
    pub(crate) to_verify: Vec<TokenId>,
}

impl MaskUnion {
    /// The empty mask. `buffer` is for its single tokens.
    pub(crate) fn new(buffer: Vec<TokenId>) -> Self {
        Self { ids: buffer, ..Self::default() }
    }

    /// Shrinks a finished mask to the memory that it needs. Answers the buffer, empty.
    pub(crate) fn fit(&mut self) -> Vec<TokenId> {
        let ids = self.ids.clone();
        let mut buffer = std::mem::replace(&mut self.ids, ids);
        buffer.clear();
        buffer
    }

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

    /// Adds the tokens of `mask`, those too that were taken away before.
    pub(crate) fn add_set(&mut self, mask: MaskRef<'_>) {
        self.removed.retain(|token| !mask.contains(*token));
        self.add_mask(mask);
    }

    pub(crate) fn add_token(&mut self, token: TokenId) {
        self.ids.push(token);
    }

    /// Adds the tokens inside `node`; `is_continued` if a terminal that was begun reads them.
    pub(crate) fn add_node(&mut self, node: &Arc<TreeNode>, is_continued: bool) {
        match &node.inside {
            Tokens::Few(tokens) => self.ids.extend_from_slice(tokens),
            Tokens::Many(_) => match self.nodes.iter().position(|other| Arc::ptr_eq(other, node)) {
                Some(known) => self.only_continued[known] &= is_continued,
                None => {
                    self.nodes.push(Arc::clone(node));
                    self.only_continued.push(is_continued);
                }
            },
        }
    }

    /// The numbers of nodes and single tokens that were added.
    pub(crate) fn added(&self) -> (usize, usize) {
        (self.nodes.len(), self.ids.len())
    }

    /// Takes away all that was added since [`added`](Self::added) answered these numbers, without the tokens of walks.
    pub(crate) fn truncate(&mut self, (nodes, ids): (usize, usize)) {
        self.nodes.truncate(nodes);
        self.only_continued.truncate(nodes);
        self.ids.truncate(ids);
    }

    /// Keeps one of each single token that was added since [`added`](Self::added) answered these numbers. `buffer` is
    /// empty.
    pub(crate) fn dedup(&mut self, (_, ids): (usize, usize), buffer: &mut TokenMask) {
        let mut kept = ids;
        for at in ids..self.ids.len() {
            let token = self.ids[at];
            if !buffer.as_ref().contains(token) {
                buffer.as_mut().insert(token);
                self.ids[kept] = token;
                kept += 1;
            }
        }
        self.ids.truncate(kept);
        self.ids[ids..].iter().for_each(|token| buffer.as_mut().remove(*token));
    }

    /// Takes `tokens` away from all that was added since [`added`](Self::added) answered these numbers. The tokens of
    /// walks have none of them. `buffer` is empty.
    pub(crate) fn take_away(
        &mut self,
        tokens: &[TokenId],
        (nodes, ids): (usize, usize),
        buffer: &mut TokenMask,
    ) {
        let Self { nodes: all, ids: single, words, removed, .. } = self;
        tokens.iter().for_each(|token| buffer.as_mut().insert(*token));
        let taken = |token: TokenId| buffer.as_ref().contains(token);
        let mut kept = ids;
        for at in ids..single.len() {
            if !taken(single[at]) {
                single[kept] = single[at];
                kept += 1;
            }
        }
        single.truncate(kept);
        // Tokens that were added before stay.
        single[..ids].iter().for_each(|token| buffer.as_mut().remove(*token));
        let has =
            |node: &Arc<TreeNode>, token: TokenId| node.words().is_some_and(|words| is_in(words, token));
        for token in tokens.iter().copied() {
            let is_found = words.as_deref().is_some_and(|words| is_in(words, token));
            if buffer.as_ref().contains(token)
                && all[nodes..].iter().any(|node| has(node, token))
                && !is_found
                && !all[..nodes].iter().any(|node| has(node, token))
            {
                removed.push(token);
            }
        }
        tokens.iter().for_each(|token| buffer.as_mut().remove(*token));
    }

    /// Takes away a token.
    pub(crate) fn remove(&mut self, token: TokenId) {
        self.ids.retain(|other| *other != token);
        if self.sets().any(|words| is_in(words, token)) {
            self.removed.push(token);
        }
    }

    /// The tokens of the mask among `tokens`. `buffer` is empty.
    pub(crate) fn added_among(&self, tokens: &[TokenId], buffer: &mut TokenMask) -> Vec<TokenId> {
        if tokens.is_empty() {
            return Vec::new();
        }
        self.ids.iter().for_each(|token| buffer.as_mut().insert(*token));
        let is_added = |token: &&TokenId| {
            buffer.as_ref().contains(**token) || self.sets().any(|words| is_in(words, **token))
        };
        let mut found: Vec<TokenId> = tokens.iter().filter(is_added).copied().collect();
        found.retain(|token| !self.removed.contains(token));
        self.ids.iter().for_each(|token| buffer.as_mut().remove(*token));
        found
    }

    /// The words of all sets of the union.
    fn sets(&self) -> impl Iterator<Item = &[u32]> {
        self.nodes.iter().filter_map(|node| node.words()).chain(self.words.as_deref())
    }

    /// Writes the mask.
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

    /// The tokens of the mask among `tokens`. If `beyond`, only those that do more than to continue a terminal that
    /// was begun, or some more of them.
    pub(crate) fn among(&self, tokens: &SparseTokens, beyond: bool) -> Vec<TokenId> {
        let mut found: Vec<TokenId> = Vec::new();
        let nodes = self
            .nodes
            .iter()
            .zip(&self.only_continued)
            .filter(|(_, only_continued)| !(beyond && **only_continued));
        let sets = nodes.filter_map(|(node, _)| node.words()).chain(self.words.as_deref());
        sets.for_each(|words| tokens.add_common(words, &mut found));
        found.extend(self.ids.iter().copied().filter(|token| tokens.contains(*token)));
        found.sort_unstable();
        found.dedup();
        found.retain(|token| !self.removed.contains(token));
        found
    }

    /// The only token of the mask, if it has one token.
    pub(crate) fn only(&self) -> Option<TokenId> {
        let (first, others) = self.ids.split_first()?;
        let is_only = self.nodes.is_empty() && self.words.is_none();
        (is_only && others.iter().all(|other| other == first)).then_some(*first)
    }

    /// The words of the mask, if one set is the whole mask.
    pub(crate) fn ready(&self) -> Option<&[u32]> {
        if !self.removed.is_empty() {
            return None;
        }
        match (&self.nodes[..], &self.words, &self.ids[..]) {
            ([], Some(words), []) => Some(words),
            ([node], None, []) => node.words(),
            _ => None,
        }
    }

    /// The bytes of the mask without the nodes.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of::<Self>()
            + (self.ids.len() + self.removed.len() + self.to_verify.len()) * size_of::<TokenId>()
            + self.words.as_ref().map_or(0, |words| size_of_val(&words[..]))
    }
}

fn is_in(words: &[u32], token: TokenId) -> bool {
    words[token.index() / 32] >> (token.index() % 32) & 1 != 0
}
