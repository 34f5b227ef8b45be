//! Only token sequences that the tokenizer itself writes: `encode(decode(ids)) = ids`.

mod derivation;
mod forest;
mod pair;
#[cfg(test)]
mod testing;
