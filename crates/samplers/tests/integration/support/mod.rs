//! Small tasks with known distributions: a constraint that is a list of outputs, and random tables.

pub(crate) mod exact;

use std::collections::BTreeSet;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use unskew_core::{Constraint, ExactDistribution, MaskMut, Rejected, TableModel, TokenId};
use unskew_samplers::Task;

/// Exactly the listed outputs: the plainest constraint there is, and none of the project's engines.
#[derive(Clone, Debug)]
pub(crate) struct Outputs {
    pub(crate) outputs: BTreeSet<Vec<TokenId>>,
    pub(crate) vocab_len: usize,
}

impl Constraint for Outputs {
    type State = Vec<TokenId>;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        self.vocab_len
    }
    fn start(&self) -> Vec<TokenId> {
        Vec::new()
    }
    fn scratch(&self) {}
    fn advance(&self, (): &mut (), state: &mut Vec<TokenId>, token: TokenId) -> Result<(), Rejected> {
        state.push(token);
        if self.outputs.iter().any(|output| output.starts_with(state)) {
            return Ok(());
        }
        state.pop();
        Err(Rejected::new(token))
    }
    fn is_accepting(&self, state: &Vec<TokenId>) -> bool {
        self.outputs.contains(state)
    }
    fn fill_mask(&self, (): &mut (), state: &Vec<TokenId>, mut mask: MaskMut<'_>) {
        mask.clear();
        for output in
            self.outputs.iter().filter(|output| output.len() > state.len() && output.starts_with(state))
        {
            mask.insert(output[state.len()]);
        }
    }
}

pub(crate) fn ids(text: &str) -> Vec<TokenId> {
    text.bytes().map(|byte| TokenId(u32::from(byte - b'0'))).collect()
}

pub(crate) fn outputs<'a>(texts: impl IntoIterator<Item = &'a str>, vocab_len: usize) -> Outputs {
    Outputs { outputs: texts.into_iter().map(ids).collect(), vocab_len }
}

pub(crate) fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

pub(crate) fn below(rng: &mut ChaCha8Rng, bound: u32) -> u32 {
    rng.next_u32() % bound
}

/// A table over `tokens` tokens in which each context has a row of its own, with some impossible tokens, and a list
/// of up to 40 outputs.
pub(crate) fn random_task(seed: u64) -> (TableModel, Outputs) {
    let mut rng = rng(seed);
    let tokens = 2 + below(&mut rng, 3);
    let vocab_len = tokens as usize + 1;
    let row = |rng: &mut ChaCha8Rng| {
        let weights: Vec<f64> = (0..vocab_len)
            .map(|id| f64::from(below(rng, 8).pow(2)) + if id + 1 == vocab_len { 2.0 } else { 0.0 })
            .collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect::<Vec<_>>()
    };
    let mut contexts = vec![Vec::new()];
    for length in 1..4 {
        let longest: Vec<Vec<TokenId>> =
            contexts.iter().filter(|context| context.len() == length - 1).cloned().collect();
        for context in longest {
            contexts.extend((0..tokens).map(|id| [context.as_slice(), &[TokenId(id)]].concat()));
        }
    }
    let outputs: BTreeSet<_> = (0..1 + below(&mut rng, 40))
        .map(|_| contexts[below(&mut rng, u32::try_from(contexts.len()).unwrap()) as usize].clone())
        .collect();
    let default = row(&mut rng);
    let contexts = contexts.into_iter().map(|context| (context, row(&mut rng))).collect::<Vec<_>>();
    let names = (0..tokens).map(|id| id.to_string());
    (TableModel::new(names, default, contexts).unwrap(), Outputs { outputs, vocab_len })
}

#[allow(dead_code, reason = "not every test draws from a table itself")]
pub(crate) fn task(model: &TableModel, constraint: &Outputs) -> Task<TableModel, Outputs> {
    let vocabulary = model.vocabulary().clone();
    Task::new(model.clone(), constraint.clone(), &vocabulary, 8)
}

/// The distribution of a task, or `None` when the model cannot write any of its outputs.
pub(crate) fn distribution(model: &TableModel, constraint: &Outputs) -> Option<ExactDistribution> {
    let end = model.vocabulary().end_of_sequence().to_vec();
    ExactDistribution::enumerate(&mut model.clone(), constraint, &[], &end, 8, 10_000).ok()
}
