//! DOMINO's count model: it proposes the next token from the position of the parse.
//!
//! Much of structured output is predictable: `"name": ` looks the same in every record. So this model counts the
//! tokens that occur in each **context**, and proposes the most frequent one if its share is large enough (DOMINO,
//! section 3.6). A context is the progress within the current terminals and the positions of the innermost open
//! rules. The enclosing rules are not part of the context, so the tenth record is predicted from the first.
//!
//! The model learns while it is used, is frozen, or is read from the counts of another run. The sampler
//! verifies every proposal, so counts change no distribution.

use std::{collections::HashMap, hash::Hasher};

use twox_hash::XxHash3_64;
use unskew_core::{Constraint, Proposer, TokenId};

use crate::{GrammarConstraint, GrammarScratch, GrammarState, constraint::Context};

/// Counts of tokens by context, and the rule that turns them into proposals.
///
/// Contexts belong to one grammar over one vocabulary. The counts of another grammar are useless, but harmless.
#[derive(Clone, PartialEq, Debug)]
pub struct CountModel {
    counts: HashMap<u64, Counts>,
    config: CountConfig,
    frozen: bool,
}

/// The thresholds at which a [`CountModel`] proposes a token. Begin with the default and set fields.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct CountConfig {
    /// The least share of a token among all tokens of its context. Default: 0.5.
    pub threshold: f64,
    /// The least number of tokens counted in the context. Default: 2.
    pub seen: u32,
    /// The number of contexts to keep. A full model counts no new contexts. Default: 2^16.
    pub contexts: usize,
}

impl Default for CountConfig {
    fn default() -> Self {
        Self { threshold: 0.5, seen: 2, contexts: 1 << 16 }
    }
}

/// The number of different tokens counted per context. Further tokens only add to its total.
const TOKENS: usize = 8;

#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Counts {
    total: u32,
    tokens: Vec<(TokenId, u32)>,
}

/// Counts that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CountFileError {
    /// The bytes are not a file of counts, have another version, are truncated or are damaged.
    #[error("not the counts of a grammar's tokens, or damaged: {reason}")]
    #[non_exhaustive]
    Damaged {
        /// The fault, in words.
        reason: &'static str,
    },
}

const MAGIC: &[u8; 8] = b"unskwcnt";
const VERSION: u32 = 1;

impl CountModel {
    /// An empty model.
    pub fn new(config: CountConfig) -> Self {
        Self { counts: HashMap::new(), config, frozen: false }
    }

    /// Stops counting. The paper freezes its model after ten outputs.
    pub fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Whether counting has stopped.
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// The number of contexts that were counted.
    pub fn contexts(&self) -> usize {
        self.counts.len()
    }

    fn best(&self, context: u64) -> Option<TokenId> {
        let counts = self.counts.get(&context)?;
        // Ties go to the lowest id, so that runs are reproducible.
        let (token, count) =
            counts.tokens.iter().copied().max_by_key(|(token, count)| (*count, std::cmp::Reverse(*token)))?;
        let is_frequent = f64::from(count) >= self.config.threshold * f64::from(counts.total);
        (counts.total >= self.config.seen.max(1) && is_frequent).then_some(token)
    }

    /// The counts as bytes: a header, the contexts in ascending order, and a checksum (XXH3). Little-endian.
    /// O(n log n) for n contexts.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let count = |count: usize| u32::try_from(count).expect("bounded").to_le_bytes();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(count(self.counts.len()));
        let mut contexts: Vec<_> = self.counts.iter().collect();
        contexts.sort_unstable_by_key(|(context, _)| **context);
        for (context, counts) in contexts {
            bytes.extend(context.to_le_bytes());
            bytes.extend(counts.total.to_le_bytes());
            bytes.extend(count(counts.tokens.len()));
            for (token, count) in &counts.tokens {
                bytes.extend(token.0.to_le_bytes());
                bytes.extend(count.to_le_bytes());
            }
        }
        let checksum = XxHash3_64::oneshot(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// The counts that [`to_bytes`](Self::to_bytes) wrote, frozen.
    ///
    /// # Errors
    ///
    /// [`CountFileError`].
    pub fn from_bytes(bytes: &[u8], config: CountConfig) -> Result<Self, CountFileError> {
        let damaged = |reason| CountFileError::Damaged { reason };
        let (content, checksum) = bytes.split_last_chunk::<8>().ok_or(damaged("it is too short"))?;
        if !content.starts_with(MAGIC) {
            return Err(damaged("it does not begin like one"));
        }
        if XxHash3_64::oneshot(content) != u64::from_le_bytes(*checksum) {
            return Err(damaged("its checksum is wrong"));
        }
        let mut rest = &content[MAGIC.len()..];
        let mut number = || {
            let (first, others) = rest.split_first_chunk::<4>().ok_or(damaged("it is cut off"))?;
            rest = others;
            Ok(u32::from_le_bytes(*first))
        };
        if number()? != VERSION {
            return Err(damaged("it is of another version"));
        }
        let mut counts = HashMap::new();
        for _ in 0..number()? {
            let context = u64::from(number()?) | u64::from(number()?) << 32;
            let total = number()?;
            let tokens = (0..number()?).map(|_| Ok((TokenId(number()?), number()?)));
            counts.insert(context, Counts { total, tokens: tokens.collect::<Result<_, _>>()? });
        }
        if !rest.is_empty() {
            return Err(damaged("it is too long"));
        }
        Ok(Self { counts, config, frozen: true })
    }
}

/// The context as a number that is the same in every run.
fn hash(context: &Context) -> u64 {
    let mut hasher = XxHash3_64::default();
    for (terminal, state, positions) in &context.hypotheses {
        hasher.write(&terminal.to_le_bytes());
        hasher.write(&state.to_le_bytes());
        hasher.write(&u64::try_from(positions.len()).unwrap_or(u64::MAX).to_le_bytes());
        positions.iter().for_each(|position| hasher.write(&position.to_le_bytes()));
    }
    hasher.finish()
}

impl Proposer<GrammarConstraint> for CountModel {
    fn propose(
        &mut self,
        constraint: &GrammarConstraint,
        scratch: &mut GrammarScratch,
        _text: &[TokenId],
        state: &GrammarState,
        most: usize,
        tokens: &mut Vec<TokenId>,
    ) {
        let mut state = state.clone();
        for _ in 0..most {
            let context = hash(&constraint.context(scratch, &state));
            let Some(token) = self.best(context) else { return };
            // The same context may allow other tokens here, since the enclosing rules are not part of it.
            if constraint.advance(scratch, &mut state, token).is_err() {
                return;
            }
            tokens.push(token);
        }
    }

    fn observe(
        &mut self,
        constraint: &GrammarConstraint,
        scratch: &mut GrammarScratch,
        state: &GrammarState,
        token: TokenId,
    ) {
        if self.frozen {
            return;
        }
        let context = hash(&constraint.context(scratch, state));
        let is_full = self.counts.len() >= self.config.contexts;
        let counts = match self.counts.entry(context) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(_) if is_full => return,
            std::collections::hash_map::Entry::Vacant(entry) => entry.insert(Counts::default()),
        };
        counts.total = counts.total.saturating_add(1);
        match counts.tokens.iter().position(|(other, _)| *other == token) {
            Some(at) => counts.tokens[at].1 = counts.tokens[at].1.saturating_add(1),
            None if counts.tokens.len() < TOKENS => counts.tokens.push((token, 1)),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_of_saved_counts_is_under_the_checksum() {
        let config = CountConfig::default();
        let counts = |token| Counts { total: 3, tokens: vec![(TokenId(token), 2), (TokenId(9), 1)] };
        let counts = HashMap::from([(7, counts(1)), (1 << 40, counts(2))]);
        let bytes = CountModel { counts, config, frozen: false }.to_bytes();
        assert_eq!(CountModel::from_bytes(&bytes, config).unwrap().to_bytes(), bytes);
        for at in 0..bytes.len() {
            CountModel::from_bytes(&bytes[..at], config).unwrap_err();
            for change in 1..=255 {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                CountModel::from_bytes(&damaged, config).unwrap_err();
            }
        }
    }
}
