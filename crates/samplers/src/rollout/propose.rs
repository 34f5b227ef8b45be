//! The draws of a rollout: the continuation of a prefix whose row is known.

use rand_core::Rng;
use smallvec::SmallVec;
use unskew_core::{Constraint, TokenId, logprob::log_sum_exp};

use super::{Choice, End, Progress, Proposal, Rollout, RowResult, Step, Unexplored};
use crate::{
    Truncation,
    policy::awrs,
    random::{uniform, weighted_by},
    row::Drawn,
    session::{Scope, Session},
    tree::{NodeStats, add},
};

impl<C: Constraint> Rollout<C> {
    /// The number by which the present continuation is drawn.
    fn take_uniform(&mut self, rng: &mut dyn Rng) -> f64 {
        self.uniform.take().unwrap_or_else(|| uniform(rng))
    }

    /// Draws from the tokens that the mask leaves.
    pub(super) fn draw_by_mask(
        &mut self,
        session: &mut Session<C>,
        rng: &mut dyn Rng,
    ) -> RowResult<Option<Progress>> {
        let Some(row) = self.row(session, self.node) else { return self.wait(session).map(Some) };
        let tree = session.tree();
        let (eos, valid_mass) = (tree.eos(self.node), tree.valid_mass(self.node));
        let mut log_q = None;
        let drawn = match (self.config.proposal, self.picked.take()) {
            (_, Some(picked)) => picked.and_then(|picked| Some((picked.token?, picked.log_prob))),
            (Proposal::Greedy, _) => row.best()?.filter(|(_, log_p)| *log_p > eos),
            (Proposal::Truncated(truncation), _) => {
                let row = row.list()?;
                let (index, probability) = truncated(&row, eos, truncation, self.take_uniform(rng));
                log_q = Some(probability.ln());
                index.map(|index| row[index])
            }
            _ => {
                // The end takes the front of the unit interval, and the tokens the rest. The end's probability is
                // mostly zero, and then its exponential is not computed.
                let uniform = self.take_uniform(rng);
                let end = if eos == f64::NEG_INFINITY { 0.0 } else { (eos - valid_mass).exp() };
                if uniform < end {
                    None
                } else {
                    // Where the mask leaves no token, the end has probability one, and the line above has drawn it
                    // but for rounding.
                    row.draw(&[], (uniform - end) / (1.0 - end))?.map(|drawn| {
                        self.rest = drawn.rest.map(|rest| (rest, 0));
                        (drawn.token, drawn.log_p)
                    })
                }
            }
        };
        let (choice, log_p) =
            drawn.map_or((Choice::End, eos), |(token, log_p)| (Choice::Token(token), log_p));
        let entropy = if self.config.entropy { row.entropy(eos)? } else { 0.0 };
        drop(row);
        self.new_tokens += 1;
        let step = Step { log_p, valid_mass, entropy };
        self.commit(session, choice, step, log_q.unwrap_or(log_p - valid_mass), 0.0)
    }

    /// Draws by the bounds of the prefixes that the tokens lead to.
    pub(super) fn draw_by_bounds(
        &mut self,
        session: &mut Session<C>,
        backed_up: bool,
        rng: &mut dyn Rng,
    ) -> RowResult<Option<Progress>> {
        let tree = session.tree();
        let valid_mass = tree.valid_mass(self.node);
        let step = |log_p| Step { log_p, valid_mass, entropy: 0.0 };
        let Unexplored { bound, without } = match self.unexplored.take() {
            Some(drawn) => drawn,
            None => {
                let (eos, unexplored) = (tree.eos(self.node), tree.unexplored(self.node));
                let bound = if backed_up { tree.bound(self.node) } else { add([eos, unexplored]) };
                let edges = tree.edges(self.node).iter().filter(|edge| edge.counts());
                let weights = [eos, unexplored].into_iter().chain(edges.clone().map(|edge| edge.weight));
                let weights: SmallVec<[f64; 16]> = weights.map(|weight| (weight - bound).exp()).collect();
                let number = self.uniform.take().unwrap_or_else(|| uniform(rng));
                match weighted_by(&weights, number) {
                    Some(0) | None => {
                        return self.commit(session, Choice::End, step(eos), eos - bound, 0.0);
                    }
                    Some(1) => Unexplored { bound, without: edges.map(|edge| edge.token).collect() },
                    Some(index) => {
                        let edge = *edges.clone().nth(index - 2).expect("there is a weight for each edge");
                        let (log_p, paid) = (tree.log_p(edge.node), tree.bound(edge.node));
                        let choice = Choice::Token(edge.token);
                        return self.commit(session, choice, step(log_p), edge.weight - bound, paid);
                    }
                }
            }
        };
        let Some(row) = self.row(session, self.node) else {
            self.unexplored = Some(Unexplored { bound, without });
            return self.wait(session).map(Some);
        };
        let Some(Drawn { token, log_p, rest }) = row.draw(&without, uniform(rng))? else {
            // All tokens are explored: choose again, and never among the others here.
            session.tree_mut().exhaust(self.node);
            return Ok(None);
        };
        drop(row);
        self.rest = rest.map(|rest| (rest, without.len()));
        if session.scope() == Scope::Everything {
            self.catch_up(session)?;
            if self.tokens.len() >= session.max_tokens() || !session.allows(&self.state, token) {
                // This token fails here every time that it is drawn.
                self.descend(session, token, 0.0);
                self.advanced += 1;
                let tree = session.tree_mut();
                tree.touch(self.node);
                tree.set_log_p(self.node, log_p);
                tree.score(self.node, NodeStats::DEAD);
                return Ok(Some(Progress::Done(End::Rejected)));
            }
        }
        self.commit(session, Choice::Token(token), step(log_p), log_p - bound, 0.0)
    }

    /// Draws by asking the constraint about single tokens, in a random order.
    pub(super) fn draw_by_rejection(
        &mut self,
        session: &mut Session<C>,
        rng: &mut dyn Rng,
    ) -> RowResult<Option<Progress>> {
        let Some(row) = self.row(session, self.node) else { return self.wait(session).map(Some) };
        self.catch_up(session)?;
        let accepting = session.is_accepting(&self.state);
        let drawn = if self.tokens.len() >= session.max_tokens() {
            // At the length limit, the end is the only token that the constraint is asked about.
            accepting.then(|| awrs::Local { token: None, log_p: row.end(), log_mass: row.end() })
        } else {
            let state = self.state.clone();
            awrs::local(&row, rng, |token| match token {
                Some(token) => session.allows(&state, token),
                None => accepting,
            })?
        };
        let Some(awrs::Local { token, log_p, log_mass }) =
            drawn.filter(|drawn| drawn.log_mass > f64::NEG_INFINITY)
        else {
            return Ok(Some(Progress::Done(End::Stuck(self.tokens.clone()))));
        };
        drop(row);
        self.log_weight += log_mass;
        let choice = token.map_or(Choice::End, Choice::Token);
        let step = Step { log_p, valid_mass: log_mass, entropy: 0.0 };
        self.commit(session, choice, step, f64::NAN, 0.0)
    }
}

/// A draw from the most probable outcomes: the index of a token of the row, or `None` for the end; and its probability.
fn truncated(row: &[(TokenId, f64)], eos: f64, truncation: Truncation, uniform: f64) -> (Option<usize>, f64) {
    let logs: Vec<f64> = std::iter::once(eos).chain(row.iter().map(|(_, log_p)| *log_p)).collect();
    let mass = log_sum_exp(logs.iter().copied());
    let kept = truncation.keep(&logs, mass);
    let weights: Vec<f64> = kept.iter().map(|index| (logs[*index] - mass).exp()).collect();
    let drawn = weighted_by(&weights, uniform).expect("the most probable outcome is kept");
    (kept[drawn].checked_sub(1), weights[drawn] / weights.iter().sum::<f64>())
}
