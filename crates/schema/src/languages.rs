//! Automata of the parts of a schema, made once each and counted together.
//!
//! A language is `Some` automaton or `None` where it is empty: an automaton always accepts something.

use std::{collections::HashMap, sync::Arc};

use unskew_automata::{Dfa, DfaBuilder, RegexError};

use crate::{Decimal, SchemaLimits, number, string};

/// Any text.
pub(crate) const TEXT: &str = "(?s:.)*";

pub(crate) type Language = Option<Arc<Dfa>>;

#[derive(Debug)]
pub(crate) struct Languages {
    builder: DfaBuilder,
    limits: SchemaLimits,
    bytes: usize,
    patterns: HashMap<String, Language>,
    spelled: HashMap<Arc<Dfa>, Arc<Dfa>>,
    /// By operation and addresses: branches of a schema ask for the same again and again.
    combined: HashMap<(Operation, *const Dfa, *const Dfa), Combined>,
    single: HashMap<Box<str>, Language>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Operation {
    And,
    Minus,
    Or,
}

/// The operands, which are kept so that their addresses stay theirs, and what came out.
#[derive(Debug)]
struct Combined {
    _operands: (Arc<Dfa>, Arc<Dfa>),
    made: Language,
}

impl Languages {
    pub(crate) fn new(limits: &SchemaLimits) -> Self {
        Self {
            builder: DfaBuilder::new(&limits.automata),
            limits: limits.clone(),
            bytes: 0,
            patterns: HashMap::new(),
            spelled: HashMap::new(),
            combined: HashMap::new(),
            single: HashMap::new(),
        }
    }

    /// What `pattern` matches as a whole.
    pub(crate) fn pattern(&mut self, pattern: &str) -> Result<Language, RegexError> {
        if let Some(known) = self.patterns.get(pattern) {
            return Ok(known.clone());
        }
        let made = self.builder.pattern(pattern);
        let made = self.kept(made)?;
        self.patterns.insert(pattern.to_owned(), made.clone());
        Ok(made)
    }

    /// Exactly these texts.
    pub(crate) fn texts(&mut self, texts: &[&str]) -> Result<Language, RegexError> {
        let filled: Vec<&str> = texts.iter().copied().filter(|text| !text.is_empty()).collect();
        let made = if filled.is_empty() { None } else { self.kept_some(|builder| builder.literals(filled))? };
        if texts.iter().any(|text| text.is_empty()) {
            let empty = self.pattern("")?;
            return self.or(&made, &empty);
        }
        Ok(made)
    }

    /// Exactly this text.
    pub(crate) fn text(&mut self, text: &str) -> Result<Language, RegexError> {
        if let Some(known) = self.single.get(text) {
            return Ok(known.clone());
        }
        let made = self.texts(&[text])?;
        self.single.insert(text.into(), made.clone());
        Ok(made)
    }

    pub(crate) fn and(&mut self, left: &Language, right: &Language) -> Result<Language, RegexError> {
        match (left, right) {
            (Some(left), Some(right)) if left == right => Ok(Some(Arc::clone(left))),
            (Some(left), Some(right)) => self.combined(Operation::And, left, right),
            _ => Ok(None),
        }
    }

    pub(crate) fn minus(&mut self, left: &Language, right: &Language) -> Result<Language, RegexError> {
        match (left, right) {
            (Some(left), Some(right)) => self.combined(Operation::Minus, left, right),
            _ => Ok(left.clone()),
        }
    }

    pub(crate) fn or(&mut self, left: &Language, right: &Language) -> Result<Language, RegexError> {
        match (left, right) {
            (Some(left), Some(right)) if left == right => Ok(Some(Arc::clone(left))),
            (Some(left), Some(right)) => self.combined(Operation::Or, left, right),
            (some, None) | (None, some) => Ok(some.clone()),
        }
    }

    fn combined(
        &mut self,
        operation: Operation,
        left: &Arc<Dfa>,
        right: &Arc<Dfa>,
    ) -> Result<Language, RegexError> {
        let key = (operation, Arc::as_ptr(left), Arc::as_ptr(right));
        if let Some(known) = self.combined.get(&key) {
            return Ok(known.made.clone());
        }
        let made = self.kept_some(|builder| match operation {
            Operation::And => builder.intersection(left, right),
            Operation::Minus => builder.difference(left, right),
            Operation::Or => builder.union([&**left, &**right]),
        })?;
        let _operands = (Arc::clone(left), Arc::clone(right));
        self.combined.insert(key, Combined { _operands, made: made.clone() });
        Ok(made)
    }

    /// As [`number::at_least`]; the outer `None` if the bound is too long.
    pub(crate) fn at_least(
        &mut self,
        bound: &Decimal,
        inclusive: bool,
    ) -> Result<Option<Language>, RegexError> {
        let made = number::at_least(&mut self.builder, bound, inclusive)?;
        made.map(|dfa| self.kept(Ok(dfa))).transpose()
    }

    /// As [`number::multiple`]; the outer `None` if the factor is too long.
    pub(crate) fn multiple(&mut self, factor: &Decimal) -> Result<Option<Language>, RegexError> {
        let made = number::multiple(factor, &self.limits.automata)?;
        made.map(|dfa| self.kept(Ok(dfa))).transpose()
    }

    /// The strings of JSON that spell a text of `dfa`.
    pub(crate) fn spelled(&mut self, dfa: &Arc<Dfa>) -> Result<Arc<Dfa>, RegexError> {
        if let Some(known) = self.spelled.get(dfa) {
            return Ok(Arc::clone(known));
        }
        let made = string::spelled(dfa, true, &self.limits.automata);
        let made = self.kept(made)?.ok_or(RegexError::MatchesNothing)?;
        self.spelled.insert(Arc::clone(dfa), Arc::clone(&made));
        Ok(made)
    }

    /// The spellings of one character inside of a string.
    pub(crate) fn character(&mut self) -> Result<Language, RegexError> {
        match self.pattern("(?s:.)")? {
            Some(any) => {
                let made = string::spelled(&any, false, &self.limits.automata);
                self.kept(made)
            }
            None => Ok(None),
        }
    }

    fn kept_some(
        &mut self,
        make: impl FnOnce(&mut DfaBuilder) -> Result<Dfa, RegexError>,
    ) -> Result<Language, RegexError> {
        let made = make(&mut self.builder);
        self.kept(made)
    }

    fn kept(&mut self, made: Result<Dfa, RegexError>) -> Result<Language, RegexError> {
        match made {
            Ok(dfa) => {
                self.bytes += dfa.memory_usage();
                let limit = self.limits.automata_bytes;
                if self.bytes > limit {
                    return Err(RegexError::DfaTooLarge { bytes: self.bytes, limit });
                }
                Ok(Some(Arc::new(dfa)))
            }
            Err(RegexError::MatchesNothing) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
