//! A task in which everything can be enumerated, for the tests that see inside of the samplers.

use unskew_core::{Constraint, ExactDistribution, MaskMut, Rejected, TableModel, TokenId};

/// All texts of one to three letters that begin with `a`, except `abb`.
#[derive(Clone)]
pub(crate) struct BeginsWithA;

impl Constraint for BeginsWithA {
    type State = Vec<TokenId>;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        3
    }
    fn start(&self) -> Vec<TokenId> {
        Vec::new()
    }
    fn scratch(&self) {}
    fn advance(&self, (): &mut (), state: &mut Vec<TokenId>, token: TokenId) -> Result<(), Rejected> {
        let longer = [&state[..], &[token]].concat();
        if !is_allowed(&longer) {
            return Err(Rejected::new(token));
        }
        *state = longer;
        Ok(())
    }
    fn is_accepting(&self, state: &Vec<TokenId>) -> bool {
        !state.is_empty()
    }
    fn fill_mask(&self, (): &mut (), state: &Vec<TokenId>, mut mask: MaskMut<'_>) {
        mask.clear();
        for token in [0, 1].map(TokenId) {
            if is_allowed(&[&state[..], &[token]].concat()) {
                mask.insert(token);
            }
        }
    }
}

pub(crate) fn ids(text: &str) -> Vec<TokenId> {
    text.bytes().map(|byte| TokenId(u32::from(byte - b'a'))).collect()
}

pub(crate) fn is_allowed(prefix: &[TokenId]) -> bool {
    prefix.len() <= 3 && prefix.starts_with(&ids("a")) && prefix != ids("abb")
}

/// A model that cannot end after `aba`, so that nothing can follow it, and rarely ends after `aab`.
pub(crate) fn model() -> TableModel {
    let contexts = [
        (ids(""), vec![0.6, 0.4, 0.0]),
        (ids("a"), vec![0.45, 0.45, 0.1]),
        (ids("aa"), vec![0.5, 0.4, 0.1]),
        (ids("ab"), vec![0.5, 0.45, 0.05]),
        (ids("aba"), vec![0.5, 0.5, 0.0]),
        (ids("aab"), vec![0.5, 0.49, 0.01]),
    ];
    TableModel::new(["a", "b"], vec![0.0, 0.0, 1.0], contexts).unwrap()
}

/// The exact distribution of outputs of that model under that constraint.
pub(crate) fn exact() -> ExactDistribution {
    ExactDistribution::enumerate(&mut model(), &BeginsWithA, &[], &[TokenId(2)], 3, 100).unwrap()
}
