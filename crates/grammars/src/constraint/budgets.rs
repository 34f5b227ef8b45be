//! The states of a grammar with a budget of tokens: those of a constraint of its own, as far as the budget leads.

use std::sync::Arc;

use hashbrown::HashMap;
use unskew_automata::RegexError;
use unskew_core::{Constraint, TokenMask};
use unskew_grammar::{
    Grammar, GrammarError, GrammarLimits,
    kit::budget::{Left, TokenSteps},
};
use unskew_trie::TokenTrie;

use super::GrammarConstraint;
use crate::{ids::number, parser::configurations::Configuration};

/// The bytes of a budget that reading a token counts as, so that the limit of bytes is one on the work too.
const READ: usize = 4;

/// Reads every allowed token in each state that less than `tokens` tokens reach. O(n) for n such tokens.
pub(super) fn walk(
    grammar: &Grammar,
    tokens: u32,
    trie: &Arc<TokenTrie>,
    limits: &GrammarLimits,
    left: &mut Left<'_>,
) -> Result<TokenSteps, GrammarError> {
    // A mask without its tokens would leave texts out.
    let mut all = limits.clone();
    all.mask_steps = u64::MAX;
    let constraint = match GrammarConstraint::new(grammar, Arc::clone(trie), &all) {
        Err(GrammarError::Empty { .. } | GrammarError::Unwritten { .. }) => return Ok(TokenSteps::default()),
        made => made?,
    };
    let (mut scratch, mut mask) = (constraint.scratch(), TokenMask::new(constraint.vocab_len()));
    let mut steps = TokenSteps::default();
    let mut states = vec![constraint.start()];
    let mut known: HashMap<Configuration, u32> = HashMap::new();
    known.insert(constraint.number(&mut scratch, &states[0]), 0);
    // The states that a number of tokens reaches first.
    let mut level = 0..1;
    for read in 0..=tokens {
        for from in level.clone() {
            if limits.regex.cancel.is_cancelled() {
                let (name, source) = (left.name.to_owned(), RegexError::Cancelled);
                return Err(GrammarError::Terminal { name, location: None, source });
            }
            let state = states[from].clone();
            let mut edges = Vec::new();
            if read < tokens {
                constraint.fill_mask(&mut scratch, &state, mask.as_mut());
                for token in mask.ids() {
                    left.take(READ)?;
                    let mut next = state.clone();
                    constraint.advance(&mut scratch, &mut next, token).expect("the mask allows it");
                    let target = *known.entry(constraint.number(&mut scratch, &next)).or_insert_with(|| {
                        states.push(next);
                        number(states.len() - 1)
                    });
                    left.edge(&mut edges, target, token, constraint.vocab_len())?;
                }
            }
            if scratch.stats().emptied > 0 {
                // The numbers of its configurations have begun anew.
                left.take(usize::MAX)?;
            }
            steps.accepting.push(constraint.is_accepting(&state));
            steps.edges.push(edges);
        }
        level = level.end..states.len();
    }
    Ok(steps)
}
