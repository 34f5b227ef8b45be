//! What the examples share: models, constraints, and tables of what samplers draw.

#![allow(clippy::print_stdout, reason = "examples talk to whoever runs them")]
#![allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]

use std::{collections::BTreeMap, error::Error, fmt, path::Path, sync::Arc};

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use unskew::{
    core::{
        AnyConstraint, ExactDistribution, LanguageModel, Sampler, TableModel, TokenId, TokenTrie, Vocabulary,
    },
    grammars::{Grammar, GrammarConstraint, GrammarFormat, GrammarLimits},
    runner::Llama,
    samplers::{Asap, Exact, Masked, SampleError, Sampling, Task},
    tiny_model,
    vocab::Tokenizer,
};

/// What an example answers with.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The share of each output.
pub type Shares = BTreeMap<String, f64>;

/// Shares of `count` outputs of a sampler.
///
/// # Errors
///
/// That of the sampler.
pub fn shares<S: Sampler<Error: 'static>>(
    sampler: &mut S,
    count: usize,
    vocabulary: &Vocabulary,
) -> Result<Shares> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut shares = Shares::new();
    for _ in 0..count {
        let tokens = sampler.draw(&mut rng)?.tokens;
        *shares.entry(text(&tokens, vocabulary)).or_default() += 1.0 / count as f64;
    }
    Ok(shares)
}

fn text(tokens: &[TokenId], vocabulary: &Vocabulary) -> String {
    String::from_utf8_lossy(&vocabulary.decode(tokens)).into_owned()
}

/// The model's own distribution of the outputs that a constraint allows.
///
/// # Errors
///
/// When it has too many outputs to be enumerated, or none.
pub fn exact(model: &TableModel, constraint: &AnyConstraint) -> Result<Shares> {
    let vocabulary = Arc::clone(model.vocabulary());
    let end = vocabulary.end_of_sequence();
    let distribution = ExactDistribution::enumerate(&mut model.clone(), constraint, &[], end, 10, 100_000)?;
    let mut shares = Shares::new();
    for (tokens, probability) in distribution.iter() {
        *shares.entry(text(tokens, &vocabulary)).or_default() += probability;
    }
    Ok(shares)
}

/// Prints shares side by side, the outputs that are most probable under the first first.
pub fn print(columns: &[(&str, &Shares)]) {
    let mut outputs: Vec<&String> = columns.iter().flat_map(|(_, shares)| shares.keys()).collect();
    outputs.sort_unstable();
    outputs.dedup();
    let of = |shares: &Shares, output: &str| shares.get(output).copied().unwrap_or(0.0);
    outputs.sort_by(|left, right| of(columns[0].1, right).total_cmp(&of(columns[0].1, left)));
    print!("{:20}", "");
    columns.iter().for_each(|(name, _)| print!("{name:>12}"));
    println!();
    for output in outputs.iter().take(8) {
        print!("{output:20}");
        columns.iter().for_each(|(_, shares)| print!("{:12.4}", of(shares, output)));
        println!();
    }
    if outputs.len() > 8 {
        println!("... and {} others", outputs.len() - 8);
    }
}

/// The embedded model with its tokens.
pub struct Tiny {
    /// The model.
    pub model: Llama,
    tokenizer: Tokenizer,
    /// Its tokens.
    pub vocabulary: Arc<Vocabulary>,
}

impl fmt::Debug for Tiny {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tiny").field("tokens", &self.vocabulary.len()).finish_non_exhaustive()
    }
}

/// What a sampler did for its outputs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Found {
    /// The mean log-probability of an output under the model.
    pub log_prob: f64,
    /// Outputs that were begun, for one that was kept.
    pub begun: f64,
    /// Positions that the model evaluated for one that was kept.
    pub calls: f64,
}

impl Tiny {
    /// Loads it.
    ///
    /// # Errors
    ///
    /// None but for a broken build.
    pub fn load() -> Result<Self> {
        let model = Llama::from_bytes(tiny_model::TINY.config_json, tiny_model::TINY.safetensors)?;
        let tokenizer = Tokenizer::from_bytes(tiny_model::TOKENIZER_JSON.as_bytes())?;
        let end: Vec<TokenId> = model.config().eos_token_ids.iter().copied().map(TokenId).collect();
        let vocabulary = tokenizer.vocabulary().clone().with_end_of_sequence(&end)?;
        let vocabulary = Arc::new(vocabulary.padded(model.vocab_len()));
        Ok(Self { model, tokenizer, vocabulary })
    }

    /// Draws `count` words of a grammar in EBNF after `prompt` with each of some samplers, and prints what they cost and some
    /// of what they drew. Answers for those that came to an end.
    ///
    /// # Errors
    ///
    /// When the grammar is none, or a sampler gives up.
    pub fn compare(
        &mut self,
        grammar: &str,
        prompt: &str,
        count: usize,
    ) -> Result<BTreeMap<&'static str, Found>> {
        let limits = GrammarLimits::default();
        let grammar = Grammar::parse(grammar, GrammarFormat::Ebnf, &limits)?;
        let trie = Arc::new(TokenTrie::new(&self.vocabulary)?);
        let constraint = GrammarConstraint::new(&grammar, Arc::clone(&self.vocabulary), trie, &limits)?;
        let prompt = self.tokenizer.encode(prompt, true)?;
        let vocabulary = Arc::clone(&self.vocabulary);
        let mut found = BTreeMap::new();
        println!(
            "{:8}{:>20}{:>10}{:>10}   some of {count} outputs",
            "", "mean log-probability", "begun", "calls"
        );
        for name in ["masked", "rsft", "ars", "cars", "disc", "asap"] {
            const TRIES: u64 = 3_000;
            let task = Task::new(&mut self.model, &constraint, &vocabulary, 48).after(prompt.clone());
            let mut sampler: Box<dyn Sampler<Error = SampleError<_>> + '_> = match name {
                "masked" => Box::new(Sampling::new(task, Masked::new())),
                "rsft" => Box::new(Sampling::new(task, Exact::rsft(TRIES))),
                "ars" => Box::new(Sampling::new(task, Exact::ars(TRIES))),
                "cars" => Box::new(Sampling::new(task, Exact::cars(TRIES))),
                "disc" => Box::new(Sampling::new(task, Exact::disc())),
                _ => Box::new(Sampling::new(task, Asap::new(TRIES))),
            };
            let mut rng = ChaCha8Rng::seed_from_u64(1);
            let mut draws = Vec::new();
            match sampler.draw_many(count, &mut rng, &mut draws) {
                Ok(()) => {}
                Err(SampleError::NoOutput { tries, .. }) => {
                    println!("{name:8}{:>20}{:>10}", "-", format!("> {tries}"));
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            let mean = |of: &dyn Fn(&unskew::core::Draw) -> f64| {
                draws.iter().map(of).sum::<f64>() / draws.len() as f64
            };
            let one = Found {
                log_prob: mean(&|draw| draw.log_prob),
                begun: mean(&|draw| draw.cost.proposals as f64),
                calls: mean(&|draw| draw.cost.positions as f64),
            };
            let mut texts: Vec<String> =
                draws.iter().map(|draw| format!("{:?}", text(&draw.tokens, &vocabulary))).collect();
            texts.dedup();
            texts.truncate(3);
            println!(
                "{name:8}{:>20.2}{:>10.1}{:>10.1}   {}",
                one.log_prob,
                one.begun,
                one.calls,
                texts.join("  ")
            );
            found.insert(name, one);
        }
        Ok(found)
    }
}

/// A file under the folder that the environment variable `UNSKEW_DATA` names, where there is one.
pub fn data(path: &str) -> Option<String> {
    let folder = std::env::var_os("UNSKEW_DATA")?;
    std::fs::read_to_string(Path::new(&folder).join(path)).ok()
}
