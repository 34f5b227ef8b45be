//! The automata of one schema, built once each and counted against one limit.
//!
//! A language is `Some` automaton, or `None` if it is empty, because every automaton accepts at least one text.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use unskew_automata::{Dfa, RegexError, dfa::DfaAlgebra};
use unskew_core::Cancel;

use super::{
    composed::{self, Member},
    enumerated,
    format::{self, Format},
    number,
    pattern::UnsupportedConstruct,
    standard::{self, TEXT},
    string,
};
use crate::{SchemaLimits, SchemaOptions, Spelling, decimal::Decimal};

pub(crate) type Language = Option<Arc<Dfa>>;

#[derive(Debug)]
pub(crate) struct Languages {
    builder: DfaAlgebra,
    limits: SchemaLimits,
    bytes: usize,
    /// The bytes of the automata of schemas before.
    kept: usize,
    patterns: HashMap<String, Language>,
    /// By pattern: the results of [`Languages::search`].
    pub(super) searches: HashMap<String, Result<Language, UnsupportedConstruct>>,
    spelled: HashMap<Arc<Dfa>, Arc<Dfa>>,
    spelled_once: HashMap<Arc<Dfa>, Language>,
    /// Keyed by the pattern of a class.
    characters: HashMap<String, Arc<Dfa>>,
    formats: HashMap<String, Format>,
    /// Whether characters beyond ASCII are escaped.
    ascii: bool,
    /// The largest exponent of a number under a condition.
    exponents: u32,
    spelling: Spelling,
    /// Keyed by operation and addresses, because branches of a schema ask for the same combination many times.
    combined: HashMap<(Operation, *const Dfa, *const Dfa), Combined>,
    single: HashMap<Box<str>, Language>,
    /// All automata that were made, so that equal ones have one address.
    interned: HashSet<Arc<Dfa>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Operation {
    And,
    Minus,
    Or,
    Join,
}

/// The result of an operation, with its operands, which are kept so that their addresses are not reused.
#[derive(Debug)]
struct Combined {
    _operands: (Arc<Dfa>, Arc<Dfa>),
    made: Language,
}

/// The most bytes of automata that are kept for the next schema.
const KEPT: usize = 8 << 20;

impl Languages {
    pub(crate) fn new(options: &SchemaOptions, limits: &SchemaLimits) -> Self {
        let mut limits = limits.clone();
        limits.automata.cancel = options.cancel.clone();
        Self {
            builder: DfaAlgebra::new(&limits.automata),
            limits,
            bytes: 0,
            kept: 0,
            patterns: HashMap::new(),
            searches: HashMap::new(),
            spelled: HashMap::new(),
            spelled_once: HashMap::new(),
            characters: HashMap::new(),
            formats: HashMap::new(),
            ascii: options.ascii,
            exponents: options.exponents,
            spelling: options.spelling,
            combined: HashMap::new(),
            single: HashMap::new(),
            interned: HashSet::new(),
        }
    }

    /// The same languages for another schema, within limits of its own. They are made anew if they are large, or if
    /// the options are others.
    pub(crate) fn again(self, options: &SchemaOptions, limits: &SchemaLimits) -> Self {
        let new = Self::new(options, limits);
        let of = |languages: &Self| (languages.ascii, languages.exponents, languages.spelling);
        let kept = self.kept + self.bytes;
        if of(&self) != of(&new) || self.limits != new.limits || kept > KEPT {
            return new;
        }
        let Self { builder, limits, .. } = new;
        Self { builder, limits, bytes: 0, kept, ..self }
    }

    /// The texts that `pattern` matches as a whole.
    pub(crate) fn pattern(&mut self, pattern: &str) -> Result<Language, RegexError> {
        if let Some(known) = self.patterns.get(pattern) {
            return Ok(known.clone());
        }
        if let Some(known) = standard::pattern(pattern) {
            return known.map(Some);
        }
        let made = self.made(|builder| builder.pattern(pattern))?;
        self.patterns.insert(pattern.to_owned(), made.clone());
        Ok(made)
    }

    /// The language that `make` makes.
    pub(super) fn made(
        &mut self,
        make: impl FnOnce(&mut DfaAlgebra) -> Result<Dfa, RegexError>,
    ) -> Result<Language, RegexError> {
        let made = make(&mut self.builder);
        let made = self.counted(made)?;
        // Other code recognizes the language of any text by its address.
        match (&made, standard::pattern(TEXT)) {
            (Some(dfa), Some(all)) if **dfa == *all.clone()? => all.map(Some),
            _ => Ok(made),
        }
    }

    /// The format `name`, which must be a known format.
    pub(crate) fn format(&mut self, name: &str) -> Result<Format, RegexError> {
        if let Some(known) = self.formats.get(name) {
            return Ok(known.clone());
        }
        let made = format::format(name, &self.limits.automata)?;
        self.charge(made.written.memory_usage())?;
        self.formats.insert(name.to_owned(), made.clone());
        Ok(made)
    }

    /// The language of exactly these texts.
    pub(crate) fn texts(&mut self, texts: &[&str]) -> Result<Language, RegexError> {
        let filled: Vec<&str> = texts.iter().copied().filter(|text| !text.is_empty()).collect();
        let made =
            if filled.is_empty() { None } else { self.counted_some(|builder| builder.literals(filled))? };
        if texts.iter().any(|text| text.is_empty()) {
            let empty = self.pattern("")?;
            return self.or(&made, &empty);
        }
        Ok(made)
    }

    /// The language of exactly this text.
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
            (Some(all), Some(part)) | (Some(part), Some(all)) if standard::is_all(all) => {
                Ok(Some(Arc::clone(part)))
            }
            (Some(left), Some(right)) => self.combined(Operation::And, left, right),
            _ => Ok(None),
        }
    }

    /// The concatenation of two languages.
    pub(crate) fn join(&mut self, left: &Language, right: &Language) -> Result<Language, RegexError> {
        match (left, right) {
            (Some(left), Some(right)) => self.combined(Operation::Join, left, right),
            _ => Ok(None),
        }
    }

    /// As [`composed::object`].
    pub(crate) fn object(&mut self, members: &[Member], comma: &str) -> Result<Language, RegexError> {
        let made = composed::object(members, comma, &self.limits.automata);
        self.counted(made)
    }

    /// As [`composed::array`].
    pub(crate) fn array(
        &mut self,
        item: &Dfa,
        min: u32,
        max: Option<u32>,
        comma: &str,
    ) -> Result<Language, RegexError> {
        let made = composed::array(item, min, max, comma, &self.limits.automata);
        self.counted(made)
    }

    /// The union of several languages: of pairs of neighbours, and so on, so that each part is in few unions.
    pub(crate) fn any(&mut self, parts: impl IntoIterator<Item = Arc<Dfa>>) -> Result<Language, RegexError> {
        let mut parts: Vec<Arc<Dfa>> = parts.into_iter().collect();
        let mut known: HashSet<*const Dfa> = HashSet::new();
        parts.retain(|part| known.insert(Arc::as_ptr(part)));
        while parts.len() > 1 {
            let mut wider = vec![];
            for pair in parts.chunks(2) {
                wider.extend(match pair {
                    [left, right] => self.or(&Some(Arc::clone(left)), &Some(Arc::clone(right)))?,
                    pair => pair.first().cloned(),
                });
            }
            parts = wider;
        }
        Ok(parts.pop())
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
            (Some(all), Some(_)) | (Some(_), Some(all)) if standard::is_all(all) => Ok(Some(Arc::clone(all))),
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
        // Of most pairs of listed texts, one alone shows the result.
        match operation {
            Operation::And => {
                for (one, other) in [(left, right), (right, left)] {
                    if let Some(within) = enumerated::is_within(one, other) {
                        return Ok(within.then(|| Arc::clone(one)));
                    }
                }
            }
            Operation::Minus => {
                if let Some(within) = enumerated::is_within(left, right) {
                    return Ok((!within).then(|| Arc::clone(left)));
                }
            }
            Operation::Or | Operation::Join => {}
        }
        let key = (operation, Arc::as_ptr(left), Arc::as_ptr(right));
        if let Some(known) = self.combined.get(&key) {
            return Ok(known.made.clone());
        }
        let made = self.counted_some(|builder| match operation {
            Operation::And => builder.intersection(left, right),
            Operation::Minus => builder.difference(left, right),
            Operation::Or => builder.union([&**left, &**right]),
            Operation::Join => builder.concatenation([&**left, &**right]),
        })?;
        let _operands = (Arc::clone(left), Arc::clone(right));
        self.combined.insert(key, Combined { _operands, made: made.clone() });
        Ok(made)
    }

    /// As [`number::ordered`]; the outer `None` if the bound has too many digits.
    pub(crate) fn ordered(
        &mut self,
        bound: &Decimal,
        wanted: [bool; 3],
    ) -> Result<Option<Language>, RegexError> {
        let mut all = None;
        for (places, exponent) in self.exponents() {
            let made = match number::ordered(
                &bound.shifted(places),
                wanted,
                self.limits.digits,
                &self.limits.automata,
            ) {
                Err(RegexError::MatchesNothing) => continue,
                made => made?,
            };
            let Some(made) = made else { return Ok(None) };
            let made = self.with_exponent(made, &exponent)?;
            all = self.or(&all, &made)?;
        }
        Ok(Some(all))
    }

    /// The spellings of a number; the outer `None` if it has too many digits.
    pub(crate) fn equal(&mut self, number: &Decimal) -> Result<Option<Language>, RegexError> {
        let of = |(places, exponent): (i64, String)| {
            Some(format!("({}){exponent}", number::equal(&number.shifted(places), self.limits.digits)?))
        };
        let ways: Option<Vec<String>> = self.exponents().into_iter().map(of).collect();
        let ways = ways.map(|ways| ways.into_iter().chain(number::scientific(number)).collect::<Vec<_>>());
        ways.map(|ways| self.pattern(&ways.join("|"))).transpose()
    }

    /// The spellings of integers.
    pub(crate) fn whole(&mut self) -> Result<Language, RegexError> {
        let of = |(places, exponent): (i64, String)| match exponent.is_empty() {
            // This pattern is kept for all schemas.
            true => number::whole(places),
            false => format!("({}){exponent}", number::whole(places)),
        };
        let ways: Vec<String> = self.exponents().into_iter().map(of).collect();
        self.pattern(&ways.join("|"))
    }

    /// The numbers of `all` as [`Spelling`] says, or as [`Spelling::Plain`] does.
    pub(crate) fn plain(&mut self, all: &Language, is_plain: bool) -> Result<Language, RegexError> {
        if self.spelling == Spelling::Any && !is_plain {
            return Ok(all.clone());
        }
        let whole = self.pattern(number::WHOLE)?;
        let form = match self.minus(all, &whole)? {
            None => number::INTEGER,
            Some(_) => number::WITHOUT_NEGATIVE_ZERO,
        };
        let form = self.pattern(form)?;
        // The language has every spelling of each number, so that the plain ones are among them.
        self.and(all, &form)
    }

    /// All spellings of numbers under a condition; complements are relative to this language.
    pub(crate) fn numbers(&mut self) -> Result<Language, RegexError> {
        if self.exponents == 0 {
            return self.pattern(number::PLAIN);
        }
        let ways: Vec<String> = self.exponents().into_iter().map(|(_, exponent)| exponent).collect();
        self.pattern(&format!("{}({})", number::PLAIN, ways.join("|")))
    }

    /// The exponents of numbers under a condition, each with a pattern of its spellings.
    fn exponents(&self) -> Vec<(i64, String)> {
        let most = i64::from(self.exponents);
        (-most..=most).map(|places| (places, number::exponent(places, self.exponents))).collect()
    }

    fn with_exponent(&mut self, mantissa: Dfa, exponent: &str) -> Result<Language, RegexError> {
        let mantissa = self.counted(Ok(mantissa))?;
        if exponent.is_empty() {
            return Ok(mantissa);
        }
        let exponent = self.pattern(exponent)?;
        self.join(&mantissa, &exponent)
    }

    /// As [`number::multiple`]; the outer `None` if the factor has too many digits.
    pub(crate) fn multiple(&mut self, factor: &Decimal) -> Result<Option<Language>, RegexError> {
        let made = number::multiple(factor, &self.limits.automata)?;
        made.map(|dfa| self.counted(Ok(dfa))).transpose()
    }

    /// The JSON strings that spell a text of `dfa`.
    pub(crate) fn spelled(&mut self, dfa: &Arc<Dfa>) -> Result<Arc<Dfa>, RegexError> {
        // The strings of any text and of a format are kept for the whole process.
        if let Some(known) = standard::strings(dfa, self.ascii) {
            return known;
        }
        let format = self.formats.values().find(|format| Arc::ptr_eq(&format.written, dfa)).cloned();
        if let Some(made) = format.as_ref().and_then(|format| format.spelled[usize::from(self.ascii)].get()) {
            self.charge(made.memory_usage())?;
            return Ok(Arc::clone(made));
        }
        if let Some(known) = self.spelled.get(dfa) {
            return Ok(Arc::clone(known));
        }
        let mut limits = self.limits.automata.clone();
        if format.is_some() {
            // What is kept for the process takes nobody's fuel.
            limits.cancel = Cancel::default();
        }
        let made = string::spelled(dfa, true, self.ascii, &limits);
        let made = self.counted(made)?.ok_or(RegexError::MatchesNothing)?;
        if let Some(format) = format {
            format.spelled[usize::from(self.ascii)].get_or_init(|| Arc::clone(&made));
        }
        self.spelled.insert(Arc::clone(dfa), Arc::clone(&made));
        Ok(made)
    }

    /// As [`string::listed`].
    pub(crate) fn listed(&mut self, dfa: &Dfa) -> Result<Language, RegexError> {
        let made = string::listed(dfa, self.ascii, &self.limits.automata);
        self.counted(made)
    }

    /// The spellings of one character of the class `pattern` inside a string.
    pub(crate) fn character(&mut self, pattern: &str) -> Result<Arc<Dfa>, RegexError> {
        if let Some(known) = self.characters.get(pattern) {
            return Ok(Arc::clone(known));
        }
        let class = self.pattern(pattern)?.ok_or(RegexError::MatchesNothing)?;
        let made = string::spelled(&class, false, self.ascii, &self.limits.automata);
        let made = self.counted(made)?.ok_or(RegexError::MatchesNothing)?;
        self.characters.insert(pattern.to_owned(), Arc::clone(&made));
        Ok(made)
    }

    /// As [`spelled`](Self::spelled), with one spelling for each text.
    pub(crate) fn spelled_once(&mut self, dfa: &Arc<Dfa>) -> Result<Language, RegexError> {
        let (all, written) = (standard::pattern(TEXT), standard::spelled_once(self.ascii)?);
        if all.and_then(Result::ok).is_some_and(|all| Arc::ptr_eq(&all, dfa)) {
            return Ok(Some(written));
        }
        if let Some(known) = self.spelled_once.get(dfa) {
            return Ok(known.clone());
        }
        let made = string::spelled_once(dfa, self.ascii, &self.limits.automata);
        let made = self.counted(made)?;
        self.spelled_once.insert(Arc::clone(dfa), made.clone());
        Ok(made)
    }

    fn counted_some(
        &mut self,
        make: impl FnOnce(&mut DfaAlgebra) -> Result<Dfa, RegexError>,
    ) -> Result<Language, RegexError> {
        let made = make(&mut self.builder);
        self.counted(made)
    }

    fn counted(&mut self, made: Result<Dfa, RegexError>) -> Result<Language, RegexError> {
        match made {
            Ok(dfa) => {
                if let Some(known) = self.interned.get(&dfa) {
                    return Ok(Some(Arc::clone(known)));
                }
                self.charge(dfa.memory_usage())?;
                let made = Arc::new(dfa);
                self.interned.insert(Arc::clone(&made));
                Ok(Some(made))
            }
            Err(RegexError::MatchesNothing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn charge(&mut self, bytes: usize) -> Result<(), RegexError> {
        self.bytes += bytes;
        let limit = self.limits.automata_bytes;
        if self.bytes > limit {
            return Err(RegexError::dfa_too_large(self.bytes, limit));
        }
        Ok(())
    }
}
