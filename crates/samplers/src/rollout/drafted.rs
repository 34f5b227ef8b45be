//! Drafts of a rollout: the rows of several positions come with one pass, and the positions are verified one after
//! the other.
//!
//! A draft is a prefetch of rows along one guess at the continuation. Where the rollout draws by a mask, it verifies
//! the drafted token: the output distribution is the one without drafts, and as many drafts as possible are accepted.
//! Where the rollout draws otherwise (by bounds, say), it draws as without a draft. In both cases the draft is of use
//! as long as the drawn tokens are the drafted ones. At the first token that differs, the rest of the draft is
//! dropped.

use rand_chacha::ChaCha8Rng;
use rand_core::Rng;
use unskew_core::{Constraint, TokenId};

use super::{Choice, Progress, Rollout, RowResult, Step};
use crate::{
    session::Session,
    speculative::{DraftRun, DraftStep, Drawn, Target, Verified},
    tree::PrefixTree,
};

impl<C: Constraint> Rollout<C> {
    /// A draft for a rollout that waits at its present prefix and has no draft yet. `None` where there is no room for
    /// one.
    pub(crate) fn begin_draft<'a>(
        &self,
        session: &Session<C>,
        rng: &'a mut ChaCha8Rng,
    ) -> Option<DraftRun<'a, C::State>> {
        let (node, state) = self.pending.last().filter(|(node, _)| *node == self.node)?;
        // Without a prompt, the empty prefix is no appended token, and so has no row.
        if (*node == PrefixTree::ROOT && session.prompt().is_empty()) || !self.draft.is_empty() {
            return None;
        }
        // The row after the last token of a cut output is not needed.
        let room = session.max_tokens().saturating_sub(self.tokens.len() + usize::from(self.config.cut));
        let left = session.draft_len(self.tokens.len()).min(room);
        (left > 0).then(|| DraftRun {
            tokens: self.tokens.clone(),
            state: state.clone(),
            steps: Vec::new(),
            left,
            rng,
        })
    }

    /// Takes a draft: the rows after the drafted tokens are pending too.
    pub(crate) fn take_draft(&mut self, session: &mut Session<C>, steps: Vec<DraftStep<C::State>>) {
        let mut node = self.node;
        for DraftStep { choice, drawn, state } in steps {
            self.stats.drafted += u64::from(drawn != Drawn::Forced);
            self.draft.push_back((choice, drawn));
            if let Some(token) = choice {
                node = session.tree_mut().child(node, token);
                session.tree_mut().touch(node);
                self.pending.push((node, state));
            }
        }
    }

    /// The first `len` tokens of the output and its draft.
    pub(super) fn path(&self, len: usize) -> Vec<TokenId> {
        let drafted = self.draft.iter().filter_map(|(choice, _)| *choice);
        self.tokens.iter().copied().chain(drafted).take(len).collect()
    }

    /// Records the token, or the end, that follows the present prefix.
    pub(super) fn follow_draft(&mut self, session: &mut Session<C>, choice: Option<TokenId>) {
        let Some((drafted, drawn)) = self.draft.pop_front() else { return };
        let is_right = drafted == choice;
        if drawn != Drawn::Forced {
            self.stats.tested += 1;
            self.stats.accepted += u64::from(is_right);
            self.tested_drafts += 1;
            self.accepted_drafts += u32::from(is_right);
        }
        if !is_right {
            self.draft.clear();
        }
        if self.draft.is_empty() {
            session.record_acceptance(
                std::mem::take(&mut self.accepted_drafts),
                std::mem::take(&mut self.tested_drafts),
            );
        }
    }

    /// Draws by verifying the draft.
    pub(super) fn draw_by_draft(
        &mut self,
        session: &mut Session<C>,
        rng: &mut dyn Rng,
    ) -> RowResult<Option<Progress>> {
        let Some(row) = self.row(session, self.node) else { return self.wait(session).map(Some) };
        let tree = session.tree();
        let (eos, valid_mass) = (tree.eos(self.node), tree.valid_mass(self.node));
        let (drafted, drawn) = self.draft.front().expect("it has a draft");
        let host = row.host()?;
        let target = Target { row: &host, eos, valid_mass };
        let verifier = session.verifier().expect("a draft has a verifier");
        let Verified { choice, log_q } = verifier.verify(&target, *drafted, drawn, &mut self.stats, rng);
        let log_p = choice.map_or(eos, |token| target.row.of_token(token));
        let entropy = if self.config.entropy { row.entropy(eos)? } else { 0.0 };
        self.new_tokens += 1;
        let choice = choice.map_or(Choice::End, Choice::Token);
        self.commit(session, choice, Step { log_p, valid_mass, entropy }, log_q, 0.0)
    }
}
