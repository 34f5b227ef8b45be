//! A constraint of one's own: `cargo run --release --example own_constraint`.
//!
//! Digits whose sum is a multiple of 37: few outputs, and none of them is known before its last digit. An automaton
//! would count as well, but so does a [`Constraint`] by hand, and any state will do: a parser, a game, a solver. Any
//! sampler takes it; masked sampling here, since the model itself next to never writes such numbers. The test runs
//! the contract of the trait over it.

#![allow(clippy::print_stdout, reason = "an example that talks to its user")]

use std::sync::Arc;

use unskew::{
    Model,
    core::{Constraint, MaskMut, Rejected, TokenId, Vocabulary},
};
use unskew_examples::Result;

const MOST: u32 = 37;

/// Tokens of digits, until they add up to [`MOST`].
#[derive(Debug)]
struct SumOf37 {
    /// For each id the sum of its digits, if it has nothing else.
    sums: Vec<Option<u32>>,
}

impl SumOf37 {
    fn new(vocabulary: &Arc<Vocabulary>) -> Self {
        let sum = |index| {
            let text = vocabulary.text(TokenId::from_index(index)).filter(|text| !text.is_empty())?;
            text.iter().map(|byte| char::from(*byte).to_digit(10)).sum()
        };
        Self { sums: (0..vocabulary.len()).map(sum).collect() }
    }
}

impl Constraint for SumOf37 {
    /// The digits that are missing.
    type State = u32;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        self.sums.len()
    }
    fn start(&self) -> u32 {
        MOST
    }
    fn scratch(&self) {}
    fn advance(&self, (): &mut (), left: &mut u32, token: TokenId) -> std::result::Result<(), Rejected> {
        let sum = self.sums.get(token.index()).copied().flatten().filter(|sum| *sum > 0);
        *left = sum.and_then(|sum| left.checked_sub(sum)).ok_or(Rejected::new(token))?;
        Ok(())
    }
    fn is_accepting(&self, left: &u32) -> bool {
        *left == 0
    }
    fn fill_mask(&self, (): &mut (), left: &u32, mut mask: MaskMut<'_>) {
        mask.clear();
        for (index, sum) in self.sums.iter().enumerate() {
            if sum.is_some_and(|sum| (1..=*left).contains(&sum)) {
                mask.insert(TokenId::from_index(index));
            }
        }
    }
}

fn run(outputs: usize) -> Result<Vec<String>> {
    let model = Model::open("tiny")?;
    let constraint = SumOf37::new(model.tokens().vocabulary());
    let request = model.prompt("invoice number: ").constrain_with(constraint)?;
    let outputs = request.seed(1).max_tokens(48).sample("masked")?.take(outputs);
    outputs.map(|output| Ok(output?.text)).collect()
}

fn main() -> Result<()> {
    run(5)?.iter().for_each(|text| println!("{text}"));
    Ok(())
}

#[test]
fn the_contract_holds_and_outputs_add_up() {
    let mut digits = Vocabulary::builder();
    for text in ["0", "1", "9", "37", "x"] {
        digits.text(text.as_bytes());
    }
    let digits = Arc::new(digits.build().unwrap());
    unskew::core::conformance::check_constraint(&SumOf37::new(&digits), 5).unwrap();
    for text in run(3).unwrap() {
        assert_eq!(text.chars().map(|digit| digit.to_digit(10).unwrap()).sum::<u32>(), MOST, "{text}");
    }
}
