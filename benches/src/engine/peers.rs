//! The published engines that ours are compared with, each driven through its public interface.
//!
//! - **llguidance** computes masks lazily, as ours do. It is measured twice: with the tokenizer's own encoder, as in
//!   use, where it forces tokens wherever the text is forced; and without, where it allows all spellings, as our
//!   lifted engine does, so that masks can be compared bit by bit.
//! - **outlines-core** computes the transitions of all states ahead of time. A mask is its map of tokens turned into
//!   bits, as its users must do before they apply it to logits.
//!
//! Both get the text tokens of the vocabulary and one end-of-sequence id.

use std::sync::Arc;

use llguidance::{ParserFactory, api::TopLevelGrammar};
use outlines_core::prelude::{Index, Vocabulary as OutlinesVocabulary};
use toktrie::{SimpleVob, TokEnv, TokRxInfo, TokTrie, TokenizerEnv};
use unskew_core::{TokenId, TokenMask};
use unskew_vocab::Tokenizer;

use crate::{
    Subject,
    engine::{Allows, Builder, EAGER_PEER, Engine, Matcher, Place},
    workloads::published,
};

/// The peers.
pub fn peers() -> Vec<Builder> {
    let builder = |name, build, allows, place| Builder { name, build, allows, place };
    vec![
        builder(
            "llguidance",
            |subject| llguidance(subject, Some(Arc::clone(&subject.tokenizer)), Language::Regex),
            Allows::FewerSpellings,
            Place::Here,
        ),
        builder(
            "llguidance lifted",
            |subject| llguidance(subject, None, Language::Regex),
            Allows::AllSpellings,
            Place::Here,
        ),
        builder(EAGER_PEER, Outlines::build, Allows::AllSpellings, Place::Apart),
    ]
}

/// The peers that take grammars. Forcing tokens is no part of a mask, so llguidance has no encoder here; glrmask lives
/// in a program of its own, `benches/glrmask`.
pub fn peers_for_grammars() -> Vec<Builder> {
    let builder = |name, build, place| Builder { name, build, allows: Allows::AllSpellings, place };
    vec![
        builder("llguidance", |subject| llguidance(subject, None, Language::Lark), Place::Here),
        builder("glrmask", elsewhere, Place::Elsewhere),
        builder("glrmask trie", elsewhere, Place::Elsewhere),
    ]
}

/// The peer that takes some of the published grammars.
pub fn peers_for_published() -> Vec<Builder> {
    let build = |subject: &Subject| llguidance(subject, None, Language::Published);
    vec![Builder { name: "llguidance", build, allows: Allows::AllSpellings, place: Place::Here }]
}

/// The peers that take JSON Schema.
pub fn peers_for_schemas() -> Vec<Builder> {
    let builder = |name, build, place| Builder { name, build, allows: Allows::AllSpellings, place };
    vec![
        builder("llguidance", |subject| llguidance(subject, None, Language::Schema), Place::Apart),
        builder("glrmask", elsewhere, Place::Elsewhere),
        builder("xgrammar", elsewhere, Place::Python),
    ]
}

/// The engine of a program of its own, which its place names.
fn elsewhere(_: &Subject) -> Result<Box<dyn Engine>, String> {
    Err("it is in a program of its own".to_owned())
}

/// The language that llguidance compiles.
#[derive(Clone, Copy)]
enum Language {
    Regex,
    Lark,
    /// A suite of published grammars.
    Published,
    Schema,
}

/// A vocabulary with an encoder, as llguidance asks for them.
struct Environment {
    trie: TokTrie,
    /// Without one, texts are tokenized greedily and nothing is forced.
    tokenizer: Option<Arc<Tokenizer>>,
}

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    /// The bytes come from a grammar and may begin or end within a character; bytes that are not UTF-8 are spelled
    /// greedily.
    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<toktrie::TokenId> {
        let ids = self
            .tokenizer
            .as_ref()
            .and_then(|tokenizer| tokenizer.encode_continuation(std::str::from_utf8(bytes).ok()?).ok());
        match ids {
            Some(ids) => ids.into_iter().map(|id| id.0).collect(),
            None => self.trie.greedy_tokenize(bytes),
        }
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.tokenizer.is_some()
    }
}

struct LlGuidance {
    factory: ParserFactory,
    language: Language,
    end: TokenId,
}

fn llguidance(
    subject: &Subject,
    tokenizer: Option<Arc<Tokenizer>>,
    language: Language,
) -> Result<Box<dyn Engine>, String> {
    let end = subject.end();
    let mut words = vec![Vec::new(); subject.vocabulary.len().max(end.index() + 1)];
    for (id, text) in subject.vocabulary.text_tokens() {
        // To toktrie this byte begins the name of a control token. In UTF-8 it never occurs.
        if text.first() != Some(&TokTrie::SPECIAL_TOKEN_MARKER) {
            words[id.index()] = text.to_vec();
        }
    }
    words[end.index()] = [&[TokTrie::SPECIAL_TOKEN_MARKER][..], b"<end>"].concat();
    let size = u32::try_from(words.len()).map_err(|error| error.to_string())?;
    let trie = TokTrie::from(&TokRxInfo::new(size, end.0), &words);
    let environment: TokEnv = Arc::new(Environment { trie, tokenizer });
    let mut factory = ParserFactory::new_simple(&environment).map_err(|error| error.to_string())?;
    factory.quiet();
    Ok(Box::new(LlGuidance { factory, language, end }))
}

impl Engine for LlGuidance {
    fn compile(&self, pattern: &str) -> Result<Box<dyn Matcher + '_>, String> {
        let grammar = match self.language {
            Language::Regex => TopLevelGrammar::from_regex(pattern),
            Language::Lark => TopLevelGrammar::from_lark(pattern.to_owned()),
            Language::Published => TopLevelGrammar::from_lark(published::Suite::new(pattern)?.in_lark()?),
            Language::Schema => {
                let schema = serde_json::from_str(pattern).map_err(|error| error.to_string())?;
                TopLevelGrammar::from_json_schema(schema)
            }
        };
        let parser = self.factory.create_parser(grammar);
        let matcher = llguidance::Matcher::new(parser);
        match matcher.get_error() {
            Some(error) => Err(error),
            None => {
                // Kept as compiled, since a clone of it is the only matcher without caches.
                let compiled = matches!(self.language, Language::Schema).then(|| matcher.deep_clone());
                Ok(Box::new(LlGuidanceMatcher { matcher, compiled, mask: SimpleVob::new(), end: self.end }))
            }
        }
    }
}

struct LlGuidanceMatcher {
    matcher: llguidance::Matcher,
    compiled: Option<llguidance::Matcher>,
    mask: SimpleVob,
    end: TokenId,
}

impl Matcher for LlGuidanceMatcher {
    /// A matcher that has failed allows nothing.
    fn mask(&mut self) {
        self.mask = self.matcher.compute_mask_or_eos().unwrap_or_default();
    }

    fn words(&self) -> &[u32] {
        self.mask.as_slice()
    }

    fn commit(&mut self, token: TokenId) -> bool {
        self.matcher.consume_token(token.0).is_ok()
    }

    /// It stops by itself where nothing can follow; otherwise the end is a token of its mask.
    fn is_accepting(&mut self) -> bool {
        if self.matcher.is_stopped() {
            return self.matcher.stop_reason().is_ok();
        }
        self.mask();
        self.mask.len() > self.end.index() && self.mask.is_allowed(self.end.0)
    }

    fn reset(&mut self) {
        // It fails in a matcher that has failed before, and then the next mask is empty.
        let _ = self.matcher.reset();
    }

    fn restart(&mut self) {
        match &self.compiled {
            Some(compiled) => self.matcher = compiled.deep_clone(),
            None => self.reset(),
        }
    }

    fn forced(&mut self) -> Option<TokenId> {
        self.matcher.compute_ff_tokens().first().map(|id| TokenId(*id))
    }
}

struct Outlines {
    vocabulary: OutlinesVocabulary,
    len: usize,
    end: TokenId,
}

impl Outlines {
    fn build(subject: &Subject) -> Result<Box<dyn Engine>, String> {
        let end = subject.end();
        let mut vocabulary = OutlinesVocabulary::new(end.0);
        for (id, text) in subject.vocabulary.text_tokens() {
            vocabulary.try_insert(text, id.0).map_err(|error| error.to_string())?;
        }
        let len = subject.vocabulary.len().max(end.index() + 1);
        Ok(Box::new(Self { vocabulary, len, end }))
    }
}

impl Engine for Outlines {
    fn compile(&self, pattern: &str) -> Result<Box<dyn Matcher + '_>, String> {
        let index = Index::new(pattern, &self.vocabulary).map_err(|error| error.to_string())?;
        let mask = TokenMask::new(self.len);
        Ok(Box::new(OutlinesMatcher { state: index.initial_state(), index, mask, end: self.end }))
    }

    fn ahead_of_time(&self) -> bool {
        true
    }
}

struct OutlinesMatcher {
    index: Index,
    state: u32,
    mask: TokenMask,
    end: TokenId,
}

impl Matcher for OutlinesMatcher {
    fn mask(&mut self) {
        let mut mask = self.mask.as_mut();
        mask.clear();
        for id in self.index.allowed_tokens_iter(&self.state).into_iter().flatten() {
            mask.insert(TokenId(*id));
        }
    }

    fn words(&self) -> &[u32] {
        self.mask.words()
    }

    fn commit(&mut self, token: TokenId) -> bool {
        let next = self.index.next_state(&self.state, &token.0);
        self.state = next.unwrap_or(self.state);
        next.is_some()
    }

    fn is_accepting(&mut self) -> bool {
        self.index.is_final_state(&self.state)
    }

    fn reset(&mut self) {
        self.state = self.index.initial_state();
    }

    fn forced(&mut self) -> Option<TokenId> {
        let mut ids = self.index.allowed_tokens_iter(&self.state)?.map(|id| TokenId(*id));
        ids.next().filter(|id| *id != self.end && ids.next().is_none())
    }
}
