//! glrmask, measured as `cargo xtask bench grammars` and `bench maskbench` measure the other engines: this program is
//! a worker of both.
//!
//! It is built alone, see `Cargo.toml`. Both of glrmask's strategies are driven through its public interface: its
//! default, which makes all masks ahead of time, and `FAST_COMPILE`, which walks the vocabulary. It asks for the end
//! of a sequence to be written into the grammar; here a document ends where it says that it may.

use std::process::ExitCode;

use glrmask::{CompileOptions, Constraint, ConstraintState, Grammar, MaskStrategy, Vocab};
use unskew_benches::{
    Program, Subject,
    engine::{Allows, Builder, Engine, Matcher, Place},
};
use unskew_core::TokenId;

fn main() -> ExitCode {
    unskew_benches::run(&Program {
        regexes: Vec::new(),
        grammars: engines(),
        published: Vec::new(),
        schemas: engines_for_schemas(),
        meter: None,
    })
}

fn engines() -> Vec<Builder> {
    let builder = |name, build| Builder { name, build, allows: Allows::AllSpellings, place: Place::Here };
    vec![
        builder("glrmask", |subject| GlrMask::build(subject, MaskStrategy::FAST_MASKS, Language::Lark)),
        builder("glrmask trie", |subject| GlrMask::build(subject, MaskStrategy::FAST_COMPILE, Language::Lark)),
    ]
}

fn engines_for_schemas() -> Vec<Builder> {
    vec![Builder {
        name: "glrmask",
        build: |subject| GlrMask::build(subject, MaskStrategy::FAST_MASKS, Language::Schema),
        allows: Allows::AllSpellings,
        place: Place::Here,
    }]
}

/// The language that is compiled.
#[derive(Clone, Copy)]
enum Language {
    Lark,
    Schema,
}

struct GlrMask {
    vocabulary: Vocab,
    strategy: MaskStrategy,
    language: Language,
}

impl GlrMask {
    fn build(subject: &Subject, strategy: MaskStrategy, language: Language) -> Result<Box<dyn Engine>, String> {
        let tokens = subject.vocabulary.text_tokens().map(|(id, text)| (id.0, text.to_vec()));
        let engine = Self { vocabulary: Vocab::new(tokens.collect::<Vec<_>>()), strategy, language };
        // The first grammar pays for tables of the vocabulary: not the ones that are measured.
        engine.compile(match language {
            Language::Lark => "start: \"a\"",
            Language::Schema => "{\"const\": \"a\"}",
        })?;
        Ok(Box::new(engine))
    }
}

impl Engine for GlrMask {
    fn compile(&self, pattern: &str) -> Result<Box<dyn Matcher + '_>, String> {
        let grammar = match self.language {
            Language::Lark => Grammar::from_lark(pattern),
            Language::Schema => Grammar::from_json_schema(pattern),
        };
        let grammar = grammar.map_err(|error| error.to_string())?;
        let options = CompileOptions::default().mask_strategy(self.strategy);
        let constraint =
            grammar.compile_with(&self.vocabulary, options).map_err(|error| error.to_string())?;
        // A state borrows its constraint. Few grammars are compiled in this process, which then ends.
        let constraint: &'static Constraint = Box::leak(Box::new(constraint));
        let (state, mask) = (constraint.start(), vec![0; constraint.mask_len()]);
        Ok(Box::new(GlrMaskMatcher { constraint, state, mask }))
    }

    fn ahead_of_time(&self) -> bool {
        matches!(self.strategy, MaskStrategy::ParserDwa)
    }
}

struct GlrMaskMatcher {
    constraint: &'static Constraint,
    state: ConstraintState<'static>,
    mask: Vec<u32>,
}

impl Matcher for GlrMaskMatcher {
    fn mask(&mut self) {
        self.state.fill_mask(&mut self.mask);
    }

    fn words(&self) -> &[u32] {
        &self.mask
    }

    fn commit(&mut self, token: TokenId) -> bool {
        self.state.commit_token(token.0)
    }

    fn is_accepting(&mut self) -> bool {
        self.state.is_accepting()
    }

    fn reset(&mut self) {
        self.state = self.constraint.start();
    }

    fn forced(&mut self) -> Option<TokenId> {
        None
    }
}
