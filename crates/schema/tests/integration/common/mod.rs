//! Compiles a schema as a constraint over single bytes, and asks the judge about instances.

use std::sync::Arc;

use unskew_core::{Constraint, TokenId, Vocabulary};
use unskew_grammar::{GrammarError, GrammarLimits};
use unskew_grammars::GrammarConstraint;
use unskew_schema::{SchemaError, SchemaLimits, SchemaOptions, Whitespace, grammar};
use unskew_trie::TokenTrie;

/// A compiled schema.
#[allow(clippy::large_enum_variant, reason = "one at a time")]
pub(crate) enum Compiled {
    Constraint(GrammarConstraint),
    /// No value satisfies the schema.
    Nothing,
}

pub(crate) struct Bytes {
    trie: Arc<TokenTrie>,
}

impl Bytes {
    pub(crate) fn new() -> Self {
        let mut builder = Vocabulary::builder();
        for byte in 0..=255 {
            builder.text(&[byte]);
        }
        let trie = Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap());
        Self { trie }
    }

    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn trie(&self) -> &Arc<TokenTrie> {
        &self.trie
    }

    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn compile(&self, schema: &str, whitespace: Whitespace) -> Result<Compiled, SchemaError> {
        let mut options = SchemaOptions::default();
        options.whitespace = whitespace;
        self.compile_with(schema, &options)
    }

    pub(crate) fn compile_with(
        &self,
        schema: &str,
        options: &SchemaOptions,
    ) -> Result<Compiled, SchemaError> {
        self.compile_within(schema, options, &SchemaLimits::default())
    }

    pub(crate) fn compile_within(
        &self,
        schema: &str,
        options: &SchemaOptions,
        limits: &SchemaLimits,
    ) -> Result<Compiled, SchemaError> {
        let grammar = match grammar(schema, options, limits) {
            Ok(grammar) => grammar,
            Err(SchemaError::Unsatisfiable { .. }) => return Ok(Compiled::Nothing),
            Err(error) => return Err(error),
        };
        let trie = Arc::clone(&self.trie);
        match GrammarConstraint::new(&grammar, trie, &GrammarLimits::default()) {
            Ok(constraint) => Ok(Compiled::Constraint(constraint)),
            Err(GrammarError::Empty { .. }) => Ok(Compiled::Nothing),
            Err(error) => Err(error.into()),
        }
    }
}

impl Compiled {
    pub(crate) fn accepts(&self, text: &str) -> bool {
        self.reader()(text)
    }

    /// Answers whether texts are accepted. One scratch reads all of them, for a schema of many branches fills it
    /// anew for each.
    pub(crate) fn reader(&self) -> impl FnMut(&str) -> bool {
        let mut reader = match self {
            Self::Constraint(constraint) => Some((constraint, constraint.scratch())),
            _ => None,
        };
        move |text| {
            let Some((constraint, scratch)) = &mut reader else { return false };
            let mut state = constraint.start();
            let mut bytes = text.bytes();
            bytes.all(|byte| constraint.advance(scratch, &mut state, TokenId(u32::from(byte))).is_ok())
                && constraint.is_accepting(&state)
        }
    }
}

/// Whether `jsonschema` finds the instance valid; `None` if it cannot read the schema.
#[allow(dead_code, reason = "not every test needs it")]
pub(crate) fn judged(schema: &str, instance: &str) -> Option<bool> {
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let instance: serde_json::Value = serde_json::from_str(instance).unwrap();
    let judge = jsonschema::options().should_validate_formats(true).build(&schema);
    judge.ok().map(|judge| judge.is_valid(&instance))
}
