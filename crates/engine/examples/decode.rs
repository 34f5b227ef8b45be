//! The decode loop of an inference engine, with a stand-in for the model: masks on logits, forced tokens that cost no
//! pass, and a draft whose rejected tail is rolled back.
//!
//! An engine has three places for a matcher: in front of a pass it takes what is forced, with the logits it fills a
//! row, and behind the choice it accepts a token. With a draft the rows are filled ahead, and what the model does not
//! choose is taken back. The test compares the outputs with those of the plain loop, one pass a token.
//!
//! `cargo run --package unskew-engine --example decode`

#![allow(clippy::print_stdout, reason = "a program that answers on its output")]

use unskew_core::TokenId;
use unskew_engine::{Compiled, Compiler, Matcher, Spec, TokenSpace};
use unskew_vocab::Tokenizer;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The tokens of a draft.
const DRAFT: usize = 4;
/// The most tokens of an output.
const MOST: usize = 200;

const SCHEMA: &str = r#"{"type": "object", "properties": {"name": {"type": "string", "pattern": "^[a-z]{1,9}$"},
    "age": {"type": "integer", "minimum": 0, "maximum": 130}}, "required": ["name", "age"], "additionalProperties": false}"#;

/// What stands in for a model and its draft: logits that depend on the tokens before alone. A draft is wrong at times.
fn logits(before: &[TokenId], len: usize, is_draft: bool) -> Vec<f32> {
    let seed = before.iter().fold(17_u32, |seed, id| seed.wrapping_mul(31).wrapping_add(id.0));
    let seed = seed.wrapping_add(u32::from(is_draft && seed.is_multiple_of(3)));
    let logit = |id: u32| (seed ^ id.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b) >> 8;
    #[allow(clippy::cast_precision_loss, reason = "24 bits")]
    (0..).map(logit).map(|logit| logit as f32).take(len).collect()
}

/// The likeliest token of the mask. An engine samples here.
fn choose(logits: &[f32], row: &[u32]) -> TokenId {
    let is_allowed = |id: &usize| row[id / 32] >> (id % 32) & 1 == 1;
    let best = (0..logits.len()).filter(is_allowed).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
    TokenId(u32::try_from(best.expect("a row has a token")).expect("an id"))
}

/// One output, and the passes of the model that it took.
fn decode(compiled: &Compiled, len: usize) -> Result<(Vec<TokenId>, usize)> {
    let mut matcher: Matcher = compiled.matcher();
    let mut rows = vec![vec![0; matcher.mask_words()]; DRAFT + 1];
    let mut passes = 0;
    while !matcher.is_terminated() && matcher.tokens().len() < MOST {
        // Forced: the model is not asked. They go into its cache with the next pass.
        let forced = matcher.forced_tokens(MOST - matcher.tokens().len())?;
        matcher.accept_all(&forced)?;

        // The draft runs ahead, under the masks of its own places, which the model needs as well.
        let begin = matcher.tokens().len();
        for row in &mut rows[..DRAFT] {
            if matcher.is_terminated() {
                break;
            }
            matcher.fill(row)?;
            let token = choose(&logits(matcher.tokens(), len, true), row);
            matcher.accept(token)?;
        }
        let drafted = matcher.tokens()[begin..].to_vec();
        if !matcher.is_terminated() {
            matcher.fill(&mut rows[drafted.len()])?;
        }

        // One pass has the logits of every place of the draft, and of the one behind it.
        passes += 1;
        for (at, row) in rows[..=drafted.len()].iter().enumerate() {
            let before = &matcher.tokens()[..begin + at];
            if drafted.get(at).is_none() && matcher.is_terminated() {
                break;
            }
            let token = choose(&logits(before, len, false), row);
            if drafted.get(at) != Some(&token) {
                // The rest of the draft is not what the model writes: back to this place, and on with its own token.
                matcher.rollback(drafted.len() - at)?;
                matcher.accept(token)?;
                break;
            }
        }
    }
    Ok((matcher.tokens().to_vec(), passes))
}

fn main() -> Result<()> {
    let tokenizer = Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes())?;
    let compiler = Compiler::new(TokenSpace::from_tokenizer(tokenizer, &[], 0)?);
    let spec = Spec::from_json(&format!(r#"{{"json_schema": {SCHEMA}, "whitespace": "spaced"}}"#))?;
    let compiled = compiler.compile(&spec)?;
    let (ids, passes) = decode(&compiled, compiler.tokens().vocabulary().len())?;
    println!("{}\n{} tokens in {passes} passes", compiler.tokens().decode(&ids), ids.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pass for each token: what the loop above has to write.
    fn plainly(compiled: &Compiled, len: usize) -> Vec<TokenId> {
        let mut matcher = compiled.matcher();
        let mut row = vec![0; matcher.mask_words()];
        while !matcher.is_terminated() && matcher.tokens().len() < MOST {
            matcher.fill(&mut row).unwrap();
            let token = choose(&logits(matcher.tokens(), len, false), &row);
            assert!(matcher.accept(token).unwrap());
        }
        matcher.tokens().to_vec()
    }

    #[test]
    fn drafts_and_forced_tokens_save_passes_and_change_nothing() {
        main().unwrap();
        let tokenizer = Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes()).unwrap();
        let compiler = Compiler::new(TokenSpace::from_tokenizer(tokenizer, &[], 0).unwrap());
        let len = compiler.tokens().vocabulary().len();
        let schema = Spec::json_schema(SCHEMA);
        let words = (0..9).map(|at| Spec::regex(format!("([a-z]{{{at}}}[A-Z]){{1,9}}!")));
        let (mut tokens, mut all) = (0, 0);
        for spec in words.chain([schema]) {
            let compiled = compiler.compile(&spec).unwrap();
            let (ids, passes) = decode(&compiled, len).unwrap();
            assert_eq!(ids, plainly(&compiled, len), "{spec}");
            assert!(compiler.tokens().vocabulary().is_end_of_sequence(*ids.last().unwrap()), "{spec}");
            tokens += ids.len();
            all += passes;
        }
        // Some drafts are right, and some are not.
        assert!(all < tokens && all > tokens / (DRAFT + 1), "{all} passes for {tokens} tokens");
    }
}
