//! The states of a sequence, and the steps between them.
//!
//! A state is a set of configurations: a position and its left context within the piece. Nearly every state has one
//! configuration. It has two as long as it is undecided whether a piece has ended.
//!
//! A step is allowed by the automata, by the tokens to its left, and by what may follow it. The first two are read
//! here; the third is asked of a [`Viability`].

use smallvec::SmallVec;
use unskew_core::{MaskMut, MaskRef, Rejected, TokenId, TokenMask};

use super::{context::Context, language::LazyDfa, position::Position};
use crate::{
    StateId,
    canonical::{
        token_set::TokenSet,
        tokenizer::automaton::{Role, TokenizerAutomaton},
    },
    ids::{TokenClass, WholeNode},
};

/// The left context of a position within its piece.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum LeftContext {
    /// No token: a piece starts in the position.
    Nothing,
    /// A token of this class.
    Class(TokenClass),
    /// A node of the trie of whole pieces; the node determines the token.
    Node(WholeNode),
    /// A token that the encoder writes only as a whole piece.
    Whole,
}

/// One hypothesis about a sequence: a position with its left context.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Configuration {
    pub(crate) position: Position,
    pub(crate) left: LeftContext,
}

/// The state of a sequence under a constraint to canonical sequences.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CanonicalState(pub(crate) SmallVec<[Configuration; 2]>);

impl CanonicalState {
    /// The same state, where the automaton's state has this number.
    pub fn renumbered(&self, number: StateId) -> Self {
        let renumbered = |at: &Configuration| {
            let position = Position { regex: number, ..at.position };
            Configuration { position, ..*at }
        };
        Self(self.0.iter().map(renumbered).collect())
    }

    /// The states of the automaton in which the sequence may be, each with the part of the state that is about it.
    pub fn by_number(&self) -> SmallVec<[(StateId, Self); 1]> {
        let mut parts: SmallVec<[(StateId, Self); 1]> = SmallVec::new();
        for at in &self.0 {
            let number = at.position.regex;
            match parts.iter_mut().find(|(other, _)| *other == number) {
                Some((_, part)) => part.0.push(*at),
                None => parts.push((number, Self(SmallVec::from_iter([*at])))),
            }
        }
        parts
    }
}

/// What is known about the completion of sequences.
pub(crate) trait Viability {
    /// Whether this piece start is live.
    fn is_live_start(&mut self, piece_start: Position) -> bool;

    /// Whether `after`, to which `token` leads, can be completed.
    fn is_viable(&mut self, token: u32, after: Configuration) -> bool;

    /// Calls `read` with the tokens that lead from `at` to live positions, for any left context.
    fn with_token_set<T>(&mut self, at: Position, read: impl FnOnce(&TokenSet) -> T) -> T;
}

impl<L: LazyDfa> Context<'_, L> {
    pub(crate) fn start(&self) -> CanonicalState {
        let start = Configuration { position: self.automata().start(), left: LeftContext::Nothing };
        CanonicalState(SmallVec::from_iter([start]))
    }

    pub(crate) fn is_accepting(&self, state: &CanonicalState) -> bool {
        state.0.iter().any(|at| self.is_end(*at))
    }

    /// Whether the text may end here.
    pub(crate) fn is_end(&self, at: Configuration) -> bool {
        self.automata().is_accepting(at.position) && self.may_end(at.left)
    }

    /// The position after `token` is read from `at`.
    fn read(&self, at: Position, token: TokenId) -> Option<Position> {
        let text = self.index.vocabulary.text(token)?;
        match self.role(token) {
            Role::Merged | Role::Whole => self.automata().run(at, text),
            Role::Fallback => self.automata().step_fallback(at, *text.first()?),
            Role::Never => None,
        }
    }

    fn role(&self, token: TokenId) -> Role {
        // A vocabulary may have more ids than its tokenizer.
        self.index.automaton.roles.get(token.index()).copied().unwrap_or(Role::Never)
    }

    /// The last token, if it restricts the next one.
    fn previous_token(&self, left: LeftContext) -> Option<u32> {
        let TokenizerAutomaton { bigrams, whole, .. } = &*self.index.automaton;
        match left {
            LeftContext::Class(class) => Some(bigrams.class_token[class]),
            LeftContext::Node(node) => Some(whole.token(node)),
            LeftContext::Nothing | LeftContext::Whole => None,
        }
    }

    /// Whether the piece may end after this left context.
    fn may_end(&self, left: LeftContext) -> bool {
        match left {
            LeftContext::Node(node) => !self.index.automaton.whole.is_complete(node),
            LeftContext::Nothing | LeftContext::Class(_) | LeftContext::Whole => true,
        }
    }

    /// The piece start after a boundary at `at`, if the piece may end there.
    pub(crate) fn boundary(&self, at: Configuration) -> Option<Position> {
        self.automata().mark(at.position).filter(|_| self.may_end(at.left))
    }

    /// The added tokens and those by id that the automata read after `at`, each with the position after it.
    pub(crate) fn added(&self, at: Configuration) -> SmallVec<[(u32, Position); 4]> {
        let has_added = !self.index.automaton.added.is_empty() || self.language.has_ids();
        if !has_added || !self.may_end(at.left) {
            return SmallVec::new();
        }
        self.automata().added(at.position).collect()
    }

    /// The configuration after `token`, which is the first token of a piece that begins in `position`, as far as the
    /// automata tell.
    pub(crate) fn begun(&self, position: Position, token: TokenId) -> Option<Configuration> {
        let after = self.read(position, token)?;
        let TokenizerAutomaton { whole, bigrams, .. } = &*self.index.automaton;
        let left = match whole.child(WholeNode::ROOT, token.0) {
            _ if self.role(token) == Role::Whole => LeftContext::Whole,
            Some(node) => LeftContext::Node(node),
            None => LeftContext::Class(bigrams.class(token.0)),
        };
        Some(Configuration { position: after, left })
    }

    /// The configuration after `token` in the piece of `at`, as far as the automata and the tokens before it tell.
    pub(crate) fn continued(&self, at: Configuration, token: TokenId) -> Option<Configuration> {
        if at.left == LeftContext::Nothing {
            return self.begun(at.position, token);
        }
        let last = self.previous_token(at.left)?;
        if self.role(token) == Role::Whole {
            return None;
        }
        let position = self.read(at.position, token)?;
        let TokenizerAutomaton { whole, bigrams, .. } = &*self.index.automaton;
        if !bigrams.may_follow(last, token.0) {
            return None;
        }
        let child = match at.left {
            LeftContext::Node(node) => whole.child(node, token.0),
            _ => None,
        };
        let left = child.map_or_else(|| LeftContext::Class(bigrams.class(token.0)), LeftContext::Node);
        Some(Configuration { position, left })
    }

    /// As [`boundary`](Self::boundary), if the new position is live.
    fn after_boundary(&self, viability: &mut impl Viability, at: Configuration) -> Option<Position> {
        self.boundary(at).filter(|piece_start| viability.is_live_start(*piece_start))
    }

    /// As [`continued`](Self::continued), if the configuration can be completed.
    fn continue_piece(
        &self,
        viability: &mut impl Viability,
        at: Configuration,
        token: TokenId,
    ) -> Option<Configuration> {
        self.continued(at, token).filter(|after| viability.is_viable(token.0, *after))
    }

    /// Allows the tokens that may follow in the piece of `at`.
    fn add_piece(&self, viability: &mut impl Viability, at: Configuration, mask: &mut MaskMut<'_>) {
        if at.left == LeftContext::Whole {
            return;
        }
        let len = self.index.vocabulary.len();
        let last = self.previous_token(at.left);
        let bigrams = &self.index.automaton.bigrams;
        viability.with_token_set(at.position, |tokens| match (tokens, last) {
            (TokenSet::Short(tokens), _) => {
                for token in tokens {
                    if last.is_none_or(|last| bigrams.may_follow(last, *token)) {
                        mask.insert(TokenId(*token));
                    }
                }
            }
            (TokenSet::Long(words), None) => mask.union(MaskRef::new(words, len)),
            (TokenSet::Long(words), Some(last)) => {
                let mut allowed = words.clone();
                self.index.remove_forbidden(last, &mut allowed);
                mask.union(MaskRef::new(&allowed, len));
            }
        });
        // A sequence that the encoder writes as one token is followed node by node.
        if let LeftContext::Node(node) = at.left {
            for (token, _) in self.index.automaton.whole.children(node) {
                let token = TokenId(*token);
                if self.continue_piece(viability, at, token).is_some() {
                    mask.insert(token);
                } else {
                    mask.remove(token);
                }
            }
        }
    }

    /// The tokens that may follow in `state`.
    pub(crate) fn fill_mask(
        &self,
        viability: &mut impl Viability,
        state: &CanonicalState,
        mut mask: MaskMut<'_>,
    ) {
        mask.clear();
        for at in &state.0 {
            // The removal above concerns this configuration alone, so it happens before other configurations add
            // their tokens.
            if matches!(at.left, LeftContext::Node(_)) && state.0.len() > 1 {
                let mut own = TokenMask::new(self.index.vocabulary.len());
                self.add_piece(viability, *at, &mut own.as_mut());
                mask.union(own.as_ref());
            } else {
                self.add_piece(viability, *at, &mut mask);
            }
        }
        for at in &state.0 {
            if let Some(position) = self.after_boundary(viability, *at) {
                let start = Configuration { position, left: LeftContext::Nothing };
                self.add_piece(viability, start, &mut mask);
            }
            let added = self.added(*at);
            let live = added.iter().filter(|(_, after)| viability.is_live_start(*after));
            live.for_each(|(token, _)| mask.insert(TokenId(*token)));
        }
    }

    /// O(b + d) for a token of b bytes and merge trees d deep, if the liveness of the next position is known.
    pub(crate) fn advance(
        &self,
        viability: &mut impl Viability,
        state: &mut CanonicalState,
        token: TokenId,
    ) -> Result<(), Rejected> {
        let mut next = SmallVec::new();
        for at in &state.0 {
            next.extend(self.continue_piece(viability, *at, token));
            if let Some(position) = self.after_boundary(viability, *at) {
                let start = Configuration { position, left: LeftContext::Nothing };
                next.extend(self.continue_piece(viability, start, token));
            }
            if !self.may_end(at.left) {
                continue;
            }
            let number = self.index.automaton.number_of_added(token.0);
            let added = number.and_then(|number| self.automata().added_one(at.position, number));
            let by_id = self.automata().by_id(at.position).filter(|(other, _)| *other == token.0);
            let live = added.into_iter().chain(by_id).filter(|(_, after)| viability.is_live_start(*after));
            next.extend(live.map(|(_, position)| Configuration { position, left: LeftContext::Nothing }));
        }
        if next.is_empty() {
            return Err(Rejected::new(token));
        }
        next.sort_unstable();
        next.dedup();
        state.0 = next;
        Ok(())
    }
}
