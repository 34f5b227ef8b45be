//! Shared parts of the tests against the tokenizers library: tokenizers, texts that break them, and the judge.

#![allow(clippy::print_stdout, reason = "a skipped or counted test says so")]

pub(crate) mod built;
pub(crate) mod files;
pub(crate) mod random;
pub(crate) mod texts;
pub(crate) mod toy;

use std::{collections::HashMap, path::Path, sync::Arc};

use unskew_automata::{CanonicalConstraint, CanonicalError, CanonicalIndex, Limits, TokenizerAutomaton};
#[cfg(feature = "published")]
use unskew_automata::{
    Dfa,
    published::{PublishedError, VegasConstraint, VegasLibrary},
};
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_trie::TokenTrie;
use unskew_vocab::Tokenizer;

pub(crate) use random::Random;

/// The number in the environment variable `variable`.
pub(crate) fn number(variable: &str, otherwise: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}: a number is expected")),
        Err(_) => otherwise,
    }
}

type IsNasty<'a> = &'a dyn Fn(&[u8]) -> bool;

/// A tokenizer, its automaton, and the judge of its sequences.
pub(crate) struct Subject {
    pub(crate) name: String,
    /// Encodes a text as `tokenizer` does after a prompt.
    judge: Tokenizer,
    pub(crate) vocabulary: Arc<Vocabulary>,
    index: Arc<CanonicalIndex>,
    /// The constraint that allows every text.
    pub(crate) any: CanonicalConstraint,
    by_bytes: HashMap<Vec<u8>, Vec<TokenId>>,
    longest: usize,
    /// The tokens of a single byte.
    single: Vec<TokenId>,
    /// Sets of tokens that often reveal faults, as bit sets.
    nasty: Vec<Vec<u32>>,
}

impl Subject {
    /// `judge` encodes a text as `tokenizer` does after a prompt; `None` if `tokenizer` does so itself.
    pub(crate) fn new(
        name: &str,
        tokenizer: Tokenizer,
        judge: Option<Tokenizer>,
    ) -> Result<Self, CanonicalError> {
        let vocabulary = Arc::clone(tokenizer.vocabulary());
        let tokenization = tokenizer.tokenization().unwrap_or_else(|error| panic!("{name}: {error}"));
        let automaton = Arc::new(TokenizerAutomaton::new(&vocabulary, tokenization)?);
        let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
        let index = Arc::new(CanonicalIndex::new(automaton, trie)?);
        let any = CanonicalConstraint::any_text(&index, &Limits::default())?;
        let mut by_bytes: HashMap<Vec<u8>, Vec<TokenId>> = HashMap::new();
        for (token, text) in vocabulary.text_tokens().filter(|(_, text)| !text.is_empty()) {
            by_bytes.entry(text.to_vec()).or_default().push(token);
        }
        let single = vocabulary.text_tokens().filter(|(_, text)| text.len() == 1).map(|(token, _)| token);
        let single = single.collect();
        let longest = vocabulary.longest_text().min(40);
        let is_space = |text: &str| text.chars().all(char::is_whitespace);
        let kinds: [IsNasty<'_>; 6] = [
            &|text| std::str::from_utf8(text).is_ok_and(is_space),
            &|text| text.contains(&b'\'') || text.first() == Some(&b' ') && text.len() <= 3,
            &|text| std::str::from_utf8(text).is_ok_and(|text| text.chars().any(char::is_numeric)),
            &|text| std::str::from_utf8(text).is_err(),
            &|text| text.len() == 1,
            &|text| {
                std::str::from_utf8(text).is_ok_and(|text| {
                    text.chars().any(|character| ('\u{300}'..'\u{370}').contains(&character))
                })
            },
        ];
        let nasty = kinds.map(|is_nasty| {
            let mut mask = TokenMask::new(vocabulary.len());
            let tokens = vocabulary.text_tokens().filter(|(_, text)| is_nasty(text));
            tokens.for_each(|(token, _)| mask.as_mut().insert(token));
            mask.words().to_vec()
        });
        Ok(Self {
            name: name.to_owned(),
            judge: judge.unwrap_or(tokenizer),
            vocabulary,
            index,
            any,
            by_bytes,
            longest,
            single,
            nasty: nasty.to_vec(),
        })
    }

    pub(crate) fn constraint(&self, pattern: &str) -> Result<CanonicalConstraint, CanonicalError> {
        self.limited(pattern, &Limits::default())
    }

    /// The same constraint, within `limits`.
    pub(crate) fn limited(
        &self,
        pattern: &str,
        limits: &Limits,
    ) -> Result<CanonicalConstraint, CanonicalError> {
        CanonicalConstraint::new(pattern, &self.index, limits)
    }

    /// The same constraint with its product built and completed whole.
    #[cfg(feature = "published")]
    pub(crate) fn whole(&self, pattern: &str) -> Result<VegasConstraint, PublishedError> {
        let library = VegasLibrary::new(&self.index, VegasLibrary::DEFAULT_BYTES);
        let limits = Limits::default();
        let dfa = Dfa::from_pattern(pattern, &limits).map_err(CanonicalError::from)?;
        VegasConstraint::new(&dfa, &self.index, &library, &limits)
    }

    pub(crate) fn encode(&self, text: &str) -> Vec<TokenId> {
        self.judge
            .encode_continuation(text)
            .unwrap_or_else(|error| panic!("{}: {text:?}: {error}", self.name))
    }

    /// Whether the tokenizer writes `ids` for the text that they spell.
    pub(crate) fn is_canonical(&self, ids: &[TokenId]) -> bool {
        let bytes = self.vocabulary.decode(ids);
        std::str::from_utf8(&bytes).is_ok_and(|text| self.encode(text) == ids)
    }

    pub(crate) fn accepts(&self, ids: &[TokenId]) -> bool {
        let mut state = self.any.start();
        let mut scratch = self.any.scratch();
        ids.iter().all(|token| self.any.advance(&mut scratch, &mut state, *token).is_ok())
            && self.any.is_accepting(&state)
    }

    /// The ids with their texts, for messages.
    pub(crate) fn show(&self, ids: &[TokenId]) -> String {
        let spelled = |id: &TokenId| {
            let text = self.vocabulary.text(*id).unwrap_or(b"(no text)");
            format!("{}={}", id.0, text.escape_ascii())
        };
        format!("{}: {:?}", self.name, ids.iter().map(spelled).collect::<Vec<_>>())
    }

    /// Tokens that spell `bytes`, cut at random.
    pub(crate) fn cut(&self, random: &mut Random, bytes: &[u8]) -> Option<Vec<TokenId>> {
        let mut ids = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let longest = bytes.len().min(at + self.longest);
            let found: Vec<&Vec<TokenId>> =
                (at + 1..=longest).filter_map(|end| self.by_bytes.get(&bytes[at..end])).collect();
            if found.is_empty() {
                return None;
            }
            // Half of the time one of the longest tokens.
            let least = if random.below(2) == 0 { found.len().saturating_sub(2) } else { 0 };
            let tokens = found[least + random.below(found.len() - least)];
            let token = tokens[random.below(tokens.len())];
            at += self.vocabulary.text(token).unwrap().len();
            ids.push(token);
        }
        Some(ids)
    }

    /// The tokens of a mask that are a single byte.
    pub(crate) fn single_bytes(&self, mask: &[u32]) -> Vec<TokenId> {
        let single = self.single.iter().copied();
        single.filter(|TokenId(id)| mask[*id as usize / 32] >> (id % 32) & 1 != 0).collect()
    }

    /// A token of a mask: uniformly, or from one of the sets that often reveal faults.
    pub(crate) fn choose(&self, random: &mut Random, mask: &[u32]) -> Option<TokenId> {
        if let Some(kind) = self.nasty.get(random.below(2 * self.nasty.len())) {
            let nasty = mask.iter().zip(kind).map(|(word, kind)| word & kind);
            let chosen = choose(random, nasty);
            if chosen.is_some() {
                return chosen;
            }
        }
        choose(random, mask.iter().copied())
    }
}

fn choose(random: &mut Random, words: impl Iterator<Item = u32> + Clone) -> Option<TokenId> {
    let count: usize = words.clone().map(|word| word.count_ones() as usize).sum();
    let mut left = if count == 0 { return None } else { random.below(count) };
    for (at, mut word) in (0u32..).zip(words) {
        let here = word.count_ones() as usize;
        if left >= here {
            left -= here;
            continue;
        }
        (0..left).for_each(|_| word &= word - 1);
        return Some(TokenId(at * 32 + word.trailing_zeros()));
    }
    None
}

/// The tokenizers of well-known models.
pub(crate) fn known() -> Vec<Subject> {
    let files = files::tokenizer_files();
    let load = |name: &str, file: &Path| {
        let tokenizer = Tokenizer::from_file(file).unwrap();
        Subject::new(name, tokenizer, None).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            files.iter().map(|(name, file)| scope.spawn(move || load(name, file))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
