//! A model that is a function, a constraint of one's own, and outputs of each sampler:
//! `cargo run -p unskew --example own`.
//!
//! The model writes brackets and stops sometimes. The constraint is that they match, at most eight deep, and that
//! there are some. A model with weights is the trait `LanguageModel`, of which [`FnModel`] is the shortest
//! implementation.

#![allow(clippy::print_stdout, reason = "an example that prints its results")]

use std::error::Error;

use unskew::{
    Draft, METHODS, Model, TokenSpace,
    core::{Constraint, FnModel, MaskMut, Rejected, TokenId, Vocabulary, conformance::check_constraint},
};

const OPEN: TokenId = TokenId(0);
const CLOSE: TokenId = TokenId(1);

/// The model: its tokens, and the logits after a prefix (the prompt is part of it).
fn model() -> Result<Model, Box<dyn Error>> {
    let mut tokens = Vocabulary::builder();
    assert_eq!((tokens.text(b"("), tokens.text(b")")), (OPEN, CLOSE));
    let end = tokens.control("<end>");
    tokens.end_of_sequence(end);
    let function = |prefix: &[TokenId], row: &mut [f32]| {
        // It is fond of repeating itself.
        row.copy_from_slice(&[1.0, 0.7, -1.0]);
        if let Some(last) = prefix.last() {
            row[last.index()] += 0.5;
        }
    };
    Ok(Model::new(FnModel::new(3, function), TokenSpace::from_vocabulary(tokens.build()?))?)
}

/// The constraint: a state is the number of open brackets, once there is one.
struct Matching;

impl Constraint for Matching {
    type State = Option<u32>;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        3
    }

    fn start(&self) -> Option<u32> {
        None
    }

    fn scratch(&self) {}

    fn advance(&self, (): &mut (), state: &mut Option<u32>, token: TokenId) -> Result<(), Rejected> {
        let open = state.unwrap_or(0);
        *state = match token {
            OPEN if open < 8 => Some(open + 1),
            CLOSE if open > 0 => Some(open - 1),
            _ => return Err(Rejected::new(token)),
        };
        Ok(())
    }

    fn is_accepting(&self, state: &Option<u32>) -> bool {
        *state == Some(0)
    }

    fn fill_mask(&self, (): &mut (), state: &Option<u32>, mut mask: MaskMut<'_>) {
        mask.clear();
        for token in [OPEN, CLOSE] {
            let mut next = *state;
            if self.advance(&mut (), &mut next, token).is_ok() {
                mask.insert(token);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // The contract of constraints, tested on all prefixes of six tokens.
    check_constraint(&Matching, 6)?;
    let request = model()?.prompt("").constrain_with(Matching)?.seed(1).max_tokens(20);
    for method in METHODS {
        let (text, draft) = match method.name {
            "speculative" => ("speculative", Some(Draft::Model(model()?))),
            "mentored" => ("mentored:kl=0.1", Some(Draft::Model(model()?))),
            name => (name, None),
        };
        let draws = request.clone().draft(draft).sample(text)?;
        println!("{}", draws.explain());
        for output in draws.take(3) {
            let output = output?;
            println!("    {:20} {:7.3}, {:?}", output.text, output.log_prob, output.origin);
        }
    }
    Ok(())
}
