//! Guesses change no output and no law, only the number of passes.

mod support;

use std::collections::BTreeMap;

use support::{Outputs, law, outputs, random_task, rng, task};
use unskew_core::{Proposer, Sampler, TableModel, TokenId, laws::chi_square};
use unskew_samplers::{Guessed, Masked, Truncation};

/// Guesses the tokens of one text, from wherever it is in it, or nonsense.
struct Recites(Vec<TokenId>);

impl Proposer<Outputs> for Recites {
    fn propose(
        &mut self,
        _: &Outputs,
        (): &mut (),
        state: &Vec<TokenId>,
        most: usize,
        tokens: &mut Vec<TokenId>,
    ) {
        tokens.extend(self.0.iter().skip(state.len()).take(most));
    }

    fn observe(&mut self, _: &Outputs, (): &mut (), _: &Vec<TokenId>, _: TokenId) {}
}

#[test]
fn the_output_of_a_seed_does_not_depend_on_the_guesses() {
    for seed in 0..40 {
        let (model, constraint) = random_task(seed);
        let texts: Vec<_> = constraint.outputs.iter().cloned().collect();
        let recited = [vec![], texts[0].clone(), texts[texts.len() / 2].clone()];
        for most in [0, 1, 3] {
            let mut draws = recited.clone().map(|text| {
                let mut sampler = Guessed::new(task(&model, &constraint), Recites(text), most);
                let mut rng = rng(seed);
                (0..50)
                    .map(|_| sampler.draw(&mut rng).map(|draw| (draw.tokens, draw.log_prob.to_bits())))
                    .collect::<Vec<_>>()
            });
            let last = draws[2].clone();
            draws.iter_mut().for_each(|draws| assert_eq!(*draws, last));
        }
    }
}

#[test]
fn the_law_is_that_of_masked_sampling() {
    const DRAWS: u32 = 40_000;
    let (model, constraint) = random_task(7);
    assert!(law(&model, &constraint).is_some(), "a task without outputs");
    let text = constraint.outputs.iter().next_back().unwrap().clone();
    let mut counts: [BTreeMap<Vec<TokenId>, u32>; 2] = Default::default();
    let mut weights: BTreeMap<Vec<TokenId>, f64> = BTreeMap::new();
    let mut guessed = Guessed::new(task(&model, &constraint), Recites(text), 2);
    let mut masked = Masked::new(task(&model, &constraint));
    let mut rng = rng(1);
    for _ in 0..DRAWS {
        let draw = guessed.draw(&mut rng).unwrap();
        *counts[0].entry(draw.tokens).or_default() += 1;
        let draw = masked.draw(&mut rng).unwrap();
        // The probability under masked sampling is that of the model without the weight.
        weights.insert(draw.tokens.clone(), (draw.log_prob - draw.log_weight).exp());
        *counts[1].entry(draw.tokens).or_default() += 1;
    }
    for counts in counts {
        let cells = weights
            .iter()
            .map(|(tokens, probability)| (u64::from(counts.get(tokens).copied().unwrap_or(0)), *probability));
        let test = chi_square(cells);
        assert!(test.deviation < 4.0, "{test:?}");
    }
    let (guesses, right) = guessed.guesses();
    assert!(0 < right && right < guesses);
}

#[test]
fn right_guesses_save_passes_and_greedy_decoding_stays_greedy() {
    let constraint = outputs(["00110", "00111"], 3);
    let model = TableModel::new(["0", "1"], vec![0.3, 0.5, 0.2], []).unwrap();
    let greedy = Truncation::new(Some(1), None).unwrap();
    let recites = Recites("00111".bytes().map(|byte| TokenId(u32::from(byte - b'0'))).collect());
    let mut sampler = Guessed::new(task(&model, &constraint), recites, 8).truncated(greedy);
    let draw = sampler.draw(&mut rng(0)).unwrap();
    assert_eq!(draw.tokens.iter().map(|token| token.0).collect::<Vec<_>>(), [0, 0, 1, 1, 1]);
    // All that can be guessed is guessed: one pass for the prompt, and one for the rest.
    assert!(draw.cost.passes <= 2, "{:?}", draw.cost);
}
