//! The time of outputs one by one and sixteen at a time, with a model that takes as long for a pass over one position
//! as for one over many, as a GPU does: `cargo run -p unskew --example batches`.
//!
//! The model sleeps. `samplers/tests/batches.rs` counts passes, which no other program on the machine disturbs; here
//! they are time.

#![allow(clippy::print_stdout, reason = "an example that prints its results")]

use std::{
    error::Error,
    thread::sleep,
    time::{Duration, Instant},
};

use unskew::{
    Draft, Model, Spec, TokenSpace,
    core::{Extension, FnModel, FnModelError, LanguageModel, Logits, TokenId, Vocabulary},
};

const LETTERS: u8 = 24;
const LENGTH: usize = 20;
const OUTPUTS: usize = 160;

type Row = fn(&[TokenId], &mut [f32]);

/// A model that sleeps in each pass.
struct Sleeping {
    model: FnModel<Row>,
    pass: Duration,
}

/// Letters that depend on the ones before. A text ends after twenty tokens as a rule, and nearly never before.
fn row(prefix: &[TokenId], row: &mut [f32]) {
    for (id, logit) in row.iter_mut().enumerate() {
        let hash = prefix.iter().rev().take(3).fold(id * 31, |sum, token| sum * 7 + token.index());
        *logit = [0.0, 0.3, 0.6, 0.9, 1.2, 1.5, 1.8][hash % 7];
    }
    // The last letter is the one that the constraint forbids.
    row[usize::from(LETTERS) - 1] = 0.5;
    row[usize::from(LETTERS)] = if prefix.len() >= LENGTH { 9.0 } else { -9.0 };
}

impl LanguageModel for Sleeping {
    type Sequence = Vec<TokenId>;
    type Error = FnModelError;

    fn vocab_len(&self) -> usize {
        self.model.vocab_len()
    }

    fn context_len(&self) -> Option<usize> {
        self.model.context_len()
    }

    fn start(&mut self) -> Vec<TokenId> {
        self.model.start()
    }

    fn len(&self, sequence: &Vec<TokenId>) -> usize {
        self.model.len(sequence)
    }

    fn fork(&mut self, sequence: &Vec<TokenId>) -> Vec<TokenId> {
        self.model.fork(sequence)
    }

    fn truncate(&mut self, sequence: &mut Vec<TokenId>, len: usize) {
        self.model.truncate(sequence, len);
    }

    fn extend(
        &mut self,
        batch: &mut [Extension<'_, Vec<TokenId>>],
        logits: &mut Logits,
    ) -> Result<(), FnModelError> {
        sleep(self.pass);
        self.model.extend(batch, logits)
    }
}

fn model(pass: Duration) -> Result<Model, Box<dyn Error>> {
    let mut tokens = Vocabulary::builder();
    (b'a'..b'a' + LETTERS).for_each(|letter| {
        tokens.text(&[letter]);
    });
    let end = tokens.control("<end>");
    tokens.end_of_sequence(end);
    let model = Sleeping { model: FnModel::new(usize::from(LETTERS) + 1, row as Row), pass };
    Ok(Model::new(model, TokenSpace::from_vocabulary(tokens.build()?))?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let pass = Duration::from_millis(2);
    println!("{OUTPUTS} outputs of {LENGTH} tokens; a pass sleeps {pass:?}, one of the draft a tenth of it");
    println!("{:14} {:>9} {:>9} {:>7} {:>9}", "sampler", "batch 1", "batch 16", "ratio", "passes");
    for method in ["masked", "rejection", "cars", "disc", "asap", "smc:n=16", "speculative"] {
        let time = |batch| -> Result<(Duration, u64), Box<dyn Error>> {
            let request = model(pass)?.prompt("").constrain(Spec::regex("[a-w]{20}"))?;
            let draft = match method {
                "speculative" => Some(Draft::Model(model(pass / 10)?)),
                _ => None,
            };
            let outputs = if method == "smc:n=16" { OUTPUTS / 16 } else { OUTPUTS };
            let start = Instant::now();
            let mut passes = 0;
            for output in request.seed(1).batch(batch).draft(draft).sample(method)?.take(outputs) {
                passes += output?.cost.passes;
            }
            Ok((start.elapsed(), passes))
        };
        let ((one, _), (sixteen, passes)) = (time(1)?, time(16)?);
        let ratio = one.as_secs_f64() / sixteen.as_secs_f64();
        println!("{method:14} {one:>9.2?} {sixteen:>9.2?} {ratio:>7.1} {passes:>9}");
    }
    Ok(())
}
