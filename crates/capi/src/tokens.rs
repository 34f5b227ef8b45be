//! The thing that a handle of a tokenizer stands for: the tokens of a model, and the compiler that keeps constraints
//! for them.

use unskew_core::{TokenId, Vocabulary};
use unskew_engine::{Compiler, CompilerOptions, TokenSpace};
use unskew_vocab::Tokenizer;

use crate::error::Failure;

/// A token as C describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Described<'a> {
    Text(&'a [u8]),
    Control(&'a [u8]),
    Unused,
}

/// The compiler for the tokens of a `tokenizer.json`. `vocab_size`: the entries of a row of logits, or 0;
/// `cache_bytes`: as in the header.
pub(crate) fn from_json(
    json: &[u8],
    vocab_size: usize,
    end: &[u32],
    cache_bytes: usize,
) -> Result<Compiler, Failure> {
    let tokenizer = Tokenizer::from_bytes(json).map_err(|error| Failure::tokenizer(&error))?;
    let end = ids(end);
    let space =
        TokenSpace::from_tokenizer(tokenizer, &end, vocab_size).map_err(|error| Failure::from(&error))?;
    Ok(compiler(space, cache_bytes))
}

/// The compiler for tokens that are described one by one.
pub(crate) fn from_table<'a>(
    tokens: impl Iterator<Item = Result<Described<'a>, Failure>>,
    end: &[u32],
    cache_bytes: usize,
) -> Result<Compiler, Failure> {
    let mut builder = Vocabulary::builder();
    for token in tokens {
        match token? {
            Described::Text(bytes) => builder.text(bytes),
            Described::Control(name) => builder.control(&String::from_utf8_lossy(name)),
            Described::Unused => builder.unused(),
        };
    }
    for id in ids(end) {
        builder.end_of_sequence(id);
    }
    let vocabulary = builder.build().map_err(|error| Failure::tokenizer(&error))?;
    Ok(compiler(TokenSpace::from_vocabulary(vocabulary), cache_bytes))
}

pub(crate) fn ids(numbers: &[u32]) -> Vec<TokenId> {
    numbers.iter().copied().map(TokenId).collect()
}

fn compiler(space: TokenSpace, cache_bytes: usize) -> Compiler {
    let mut options = CompilerOptions::default();
    if cache_bytes != 0 {
        options.cache_bytes = cache_bytes;
    }
    Compiler::with_options(space, options)
}
