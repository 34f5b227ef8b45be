//! The interface of a compared engine, and our engines.
//!
//! To add an engine of ours, implement [`Engine`] with a [`ConstraintMatcher`] and append a [`Builder`] to [`ours`].

#[cfg(feature = "published")]
mod eager;
#[cfg(feature = "peers")]
pub mod peers;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use unskew_automata::{CanonicalConstraint, CanonicalIndex, Limits, RegexConstraint, TokenizerAutomaton};
use unskew_core::{Constraint, TokenId, TokenMask};
use unskew_grammar::{Grammar, GrammarLimits};
use unskew_grammars::{
    CanonicalGrammar, GrammarConstraint, GrammarScratch, GrammarStats, LibraryStats, TreeLibrary,
};
use unskew_notation::{GrammarOptions, from_lark};
use unskew_schema::{MemberOrder, SchemaLimits, SchemaOptions};
use unskew_trie::TokenTrie;

use crate::{Subject, workloads::published};

/// How an engine is made for a vocabulary. The suite times the part that is built once per vocabulary.
#[derive(Clone, Copy, Debug)]
pub struct Builder {
    /// Its name in reports. The names of ours, and no others, begin with `unskew`.
    pub name: &'static str,
    /// Builds all that the engine shares between regexes.
    pub build: fn(&Subject) -> Result<Box<dyn Engine>, String>,
    /// Which token sequences its masks allow.
    pub allows: Allows,
    /// In which process it runs.
    pub place: Place,
}

/// In which process an engine runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In that of the suite.
    Here,
    /// In one of its own, which can be ended: a regex can take so long.
    Apart,
    /// In that of glrmask's program; without it the engine is left out.
    Elsewhere,
    /// In that of a program in Python, `benches/xgrammar/worker.py`, which has the package.
    Python,
}

/// Which of the token sequences that spell a match an engine allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allows {
    /// All of them: masks of such engines must be the same.
    AllSpellings,
    /// Fewer: only those that the tokenizer writes, as far as the engine can tell.
    FewerSpellings,
}

/// An engine, over one vocabulary.
pub trait Engine {
    /// Compiles a regex or the text of a grammar, ready for the first mask.
    ///
    /// # Errors
    ///
    /// The engine's own words.
    fn compile(&self, pattern: &str) -> Result<Box<dyn Matcher + '_>, String>;

    /// Whether compiling leaves no work for masks, so that one compiled regex serves all samples and visits.
    fn ahead_of_time(&self) -> bool {
        false
    }

    /// Facts about the part that was built beforehand, for the report: sizes, or how long it takes to load instead.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A compiled regex with the position of one sequence in it.
///
/// Masks stay with the matcher: each engine hands them out in its own way, and none pays for a copy that its users
/// need not make.
pub trait Matcher {
    /// Makes the mask of the position.
    fn mask(&mut self);

    /// The words of the mask made last; whether they include the end of the sequence is up to the engine.
    fn words(&self) -> &[u32];

    /// Appends `token`; false if the engine refuses it.
    fn commit(&mut self, token: TokenId) -> bool;

    /// Whether the sequence may end here.
    fn is_accepting(&mut self) -> bool;

    /// Goes back to before the first token, with all that was learnt on the way kept.
    fn reset(&mut self);

    /// Goes back to before the first token with nothing kept but the result of compiling, as far as the engine can.
    fn restart(&mut self) {
        self.reset();
    }

    /// The token that the engine forces here, so that a model need not be asked.
    fn forced(&mut self) -> Option<TokenId>;

    /// The memory of the compiled regex as the engine itself tells it, in bytes.
    fn memory(&self) -> Option<usize> {
        None
    }

    /// The engine's work so far, where it counts it.
    fn work(&self) -> Work {
        Work::default()
    }

    /// Makes the masks of all states, for at most about `limit`; `None` for an engine that has no list of its states.
    fn all_masks(&mut self, limit: Duration) -> Option<AllMasks> {
        let _ = limit;
        None
    }
}

/// Counts of an engine's work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Work {
    /// Masks that were not ready.
    pub made: u64,
    /// Walks over the vocabulary.
    pub walks: u64,
    /// Transitions that had to be computed.
    pub steps: u64,
    /// Items of the parser that were looked at.
    pub items: u64,
    /// Comparisons of keys.
    pub used_texts: u64,
    /// Times at which tables were dropped.
    pub emptied: u64,
    /// Look-ups in the library that found something, and that found nothing.
    pub hits: u64,
    /// See [`hits`](Self::hits).
    pub misses: u64,
}

impl Work {
    /// The work since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            made: self.made.saturating_sub(before.made),
            walks: self.walks.saturating_sub(before.walks),
            steps: self.steps.saturating_sub(before.steps),
            items: self.items.saturating_sub(before.items),
            used_texts: self.used_texts.saturating_sub(before.used_texts),
            emptied: self.emptied.saturating_sub(before.emptied),
            hits: self.hits.saturating_sub(before.hits),
            misses: self.misses.saturating_sub(before.misses),
        }
    }
}

/// The cost of the masks of all states, made ahead of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct AllMasks {
    /// States of the automaton.
    pub states: usize,
    /// How many masks were made before the limit.
    pub made: usize,
    /// The time for these, in nanoseconds.
    pub ns: u64,
}

/// The name of the engine that others are compared with.
pub const LIFTED: &str = "unskew lifted";

/// The name of our engine of grammars.
pub const GRAMMAR: &str = "unskew grammar";
/// The name of our engine of JSON Schema.
pub const SCHEMA: &str = "unskew";

/// The same, with the members of an object in any order.
pub const SCHEMA_ANY_ORDER: &str = "unskew, any order";

/// The same, with the tokenizer's own sequences alone.
pub const SCHEMA_CANONICAL: &str = "unskew, canonical";

/// The name of our engine that builds all states and edges ahead of time, and of the peer that does.
pub const EAGER: &str = "unskew eager";
/// See [`EAGER`].
pub const EAGER_PEER: &str = "outlines-core";

/// The packages of engines that are compared with ours.
pub(crate) const PEERS: [&str; 3] = ["llguidance", "outlines-core", "glrmask"];

/// The name of the engine of the tokenizer's own sequences.
const CANONICAL: &str = "unskew canonical";

/// The engines of this repository.
pub fn ours() -> Vec<Builder> {
    #[cfg(feature = "published")]
    let eager = Some(eager::builder());
    #[cfg(not(feature = "published"))]
    let eager = None;
    let others = [
        Builder { name: LIFTED, build: Lifted::build, allows: Allows::AllSpellings, place: Place::Here },
        Builder {
            name: CANONICAL,
            build: Canonical::build,
            allows: Allows::FewerSpellings,
            place: Place::Here,
        },
    ];
    others.into_iter().chain(eager).collect()
}

/// The engine of grammars of this repository.
pub fn ours_for_grammars() -> Vec<Builder> {
    let builder = |name, build| Builder { name, build, allows: Allows::AllSpellings, place: Place::Here };
    vec![
        builder(GRAMMAR, |subject| Grammars::build(subject, Library::OfTheProcess, in_lark)),
        builder("unskew grammar, new library", |subject| {
            Grammars::build(subject, Library::OfTheGrammar, in_lark)
        }),
        builder("unskew grammar, no library", |subject| Grammars::build(subject, Library::None, in_lark)),
        Builder {
            name: "unskew grammar, canonical",
            build: CanonicalGrammars::build,
            allows: Allows::FewerSpellings,
            place: Place::Here,
        },
    ]
}

/// The same for published grammars.
pub fn ours_for_published() -> Vec<Builder> {
    let builder = |name, build| Builder { name, build, allows: Allows::AllSpellings, place: Place::Here };
    vec![
        builder(GRAMMAR, |subject| Grammars::build(subject, Library::OfTheProcess, of_suite)),
        builder("unskew grammar, no library", |subject| Grammars::build(subject, Library::None, of_suite)),
    ]
}

/// How a pattern is read.
type Read = fn(&str, &GrammarLimits) -> Result<Grammar, String>;

fn in_lark(pattern: &str, limits: &GrammarLimits) -> Result<Grammar, String> {
    from_lark(pattern, &GrammarOptions::default(), limits).map_err(|error| error.to_string())
}

fn of_suite(pattern: &str, limits: &GrammarLimits) -> Result<Grammar, String> {
    published::Suite::new(pattern)?.read(limits)
}

/// The engine of JSON Schema of this repository, with members in the order of the schema and in any.
pub fn ours_for_schemas() -> Vec<Builder> {
    let builder = |name, build| Builder { name, build, allows: Allows::AllSpellings, place: Place::Apart };
    vec![
        builder(SCHEMA, |subject| Ok(Box::new(Schemas::new(subject, MemberOrder::Declared)))),
        builder(SCHEMA_ANY_ORDER, |subject| Ok(Box::new(Schemas::new(subject, MemberOrder::Any)))),
        Builder {
            allows: Allows::FewerSpellings,
            ..builder(SCHEMA_CANONICAL, |subject| {
                let index = Some(index(subject)?);
                Ok(Box::new(Schemas { index, ..Schemas::new(subject, MemberOrder::Declared) }))
            })
        },
    ]
}

/// JSON Schema as a grammar, with one library of trees for all schemas, as in a service.
struct Schemas {
    library: Arc<TreeLibrary>,
    options: SchemaOptions,
    /// Where only the tokenizer's own sequences are allowed.
    index: Option<Arc<CanonicalIndex>>,
}

impl Schemas {
    fn new(subject: &Subject, order: MemberOrder) -> Self {
        let mut options = SchemaOptions::default();
        options.order = order;
        Self { library: library(&subject.trie), options, index: None }
    }
}

/// The index of a tokenizer's own sequences.
fn index(subject: &Subject) -> Result<Arc<CanonicalIndex>, String> {
    let tokenization = subject.tokenizer.tokenization().map_err(|error| error.to_string())?;
    let tokenizer =
        TokenizerAutomaton::new(&subject.vocabulary, tokenization).map_err(|error| error.to_string())?;
    // The trie is that of the other engines, which is timed there.
    let index = CanonicalIndex::new(Arc::new(tokenizer), Arc::clone(&subject.trie));
    index.map(Arc::new).map_err(|error| error.to_string())
}

/// [`CanonicalGrammar`], with one library of trees for all grammars.
struct CanonicalGrammars {
    index: Arc<CanonicalIndex>,
    library: Arc<TreeLibrary>,
}

impl CanonicalGrammars {
    fn build(subject: &Subject) -> Result<Box<dyn Engine>, String> {
        Ok(Box::new(Self { index: index(subject)?, library: library(&subject.trie) }))
    }
}

impl Engine for CanonicalGrammars {
    fn compile(&self, pattern: &str) -> Result<Box<dyn Matcher + '_>, String> {
        let limits = GrammarLimits::default();
        let grammar = in_lark(pattern, &limits)?;
        let grammar = GrammarConstraint::with_library(&grammar, &self.library, &limits);
        canonical(grammar.map_err(|error| error.to_string())?, &self.index)
    }
}

/// The canonical sequences of `grammar`.
fn canonical<'a>(
    grammar: GrammarConstraint,
    index: &Arc<CanonicalIndex>,
) -> Result<Box<dyn Matcher + 'a>, String> {
    let made =
        CanonicalGrammar::new(grammar, index, &Limits::default()).map_err(|error| error.to_string())?;
    Ok(Box::new(ConstraintMatcher::new(made, CanonicalGrammar::memory_usage)))
}

impl Engine for Schemas {
    fn compile(&self, schema: &str) -> Result<Box<dyn Matcher + '_>, String> {
        let limits = SchemaLimits::default();
        let grammar = unskew_schema::grammar(schema, &self.options, &limits);
        let grammar = grammar.map_err(|error| error.to_string())?;
        let constraint = GrammarConstraint::with_library(&grammar, &self.library, &limits.grammar);
        let constraint = constraint.map_err(|error| error.to_string())?;
        match &self.index {
            Some(index) => canonical(constraint, index),
            None => {
                let matcher = ConstraintMatcher::new(constraint, GrammarConstraint::memory_usage);
                Ok(Box::new(matcher.counting(work_of, &self.library)))
            }
        }
    }
}

fn work_of(scratch: &GrammarScratch, library: &TreeLibrary) -> Work {
    let GrammarStats { made, walks, steps, items, used_texts, emptied, .. } = scratch.stats();
    let LibraryStats { hits, misses, .. } = library.stats();
    Work { made, walks, steps, items, used_texts, emptied, hits, misses }
}

/// How long subterminal trees are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Library {
    /// One library for all grammars and documents, as in a service: after the first round it knows them.
    OfTheProcess,
    /// A new one each time that a grammar is compiled.
    OfTheGrammar,
    None,
}

/// The limit of a library, in bytes.
const LIBRARY: usize = 256 << 20;

/// [`GrammarConstraint`].
struct Grammars {
    read: Read,
    trie: Arc<TokenTrie>,
    kept: Library,
    library: Arc<TreeLibrary>,
}

impl Grammars {
    fn build(subject: &Subject, kept: Library, read: Read) -> Result<Box<dyn Engine>, String> {
        // The subject has a trie too; this one is built to be timed.
        let trie =
            Arc::new(TokenTrie::new(Arc::clone(&subject.vocabulary)).map_err(|error| error.to_string())?);
        let library = library(&trie);
        Ok(Box::new(Self { read, trie, kept, library }))
    }
}

fn library(trie: &Arc<TokenTrie>) -> Arc<TreeLibrary> {
    Arc::new(TreeLibrary::new(Arc::clone(trie), LIBRARY))
}

impl Engine for Grammars {
    fn compile(&self, pattern: &str) -> Result<Box<dyn Matcher + '_>, String> {
        let limits = GrammarLimits::default();
        let grammar = (self.read)(pattern, &limits)?;
        let constraint = match self.kept {
            Library::OfTheProcess => GrammarConstraint::with_library(&grammar, &self.library, &limits),
            Library::OfTheGrammar => {
                let library = library(&self.trie);
                GrammarConstraint::with_library(&grammar, &library, &limits)
            }
            Library::None => GrammarConstraint::new(&grammar, Arc::clone(&self.trie), &limits),
        };
        let constraint = constraint.map_err(|error| error.to_string())?;
        Ok(Box::new(ConstraintMatcher::new(constraint, GrammarConstraint::memory_usage)))
    }

    fn notes(&self) -> Vec<String> {
        vec![format!("trie: {:.1} MB", self.trie.memory_usage() as f64 / 1e6)]
    }
}

/// [`RegexConstraint`]: a byte automaton, lifted to tokens state by state.
struct Lifted {
    trie: Arc<TokenTrie>,
}

impl Lifted {
    fn build(subject: &Subject) -> Result<Box<dyn Engine>, String> {
        // The subject has a trie too; this one is built to be timed.
        let trie =
            Arc::new(TokenTrie::new(Arc::clone(&subject.vocabulary)).map_err(|error| error.to_string())?);
        Ok(Box::new(Self { trie }))
    }
}

impl Engine for Lifted {
    fn compile(&self, pattern: &str) -> Result<Box<dyn Matcher + '_>, String> {
        let constraint = RegexConstraint::new(pattern, Arc::clone(&self.trie), &Limits::default())
            .map_err(|error| error.to_string())?;
        let matcher = ConstraintMatcher::new(constraint, RegexConstraint::memory_usage);
        Ok(Box::new(matcher.with_all_masks(lifted_masks)))
    }

    fn notes(&self) -> Vec<String> {
        vec![format!("trie: {:.1} MB", self.trie.memory_usage() as f64 / 1e6)]
    }
}

/// [`CanonicalConstraint`]: only the sequences that the tokenizer itself writes.
struct Canonical {
    index: Arc<CanonicalIndex>,
}

impl Canonical {
    fn build(subject: &Subject) -> Result<Box<dyn Engine>, String> {
        Ok(Box::new(Self { index: index(subject)? }))
    }
}

impl Engine for Canonical {
    fn compile(&self, pattern: &str) -> Result<Box<dyn Matcher + '_>, String> {
        let constraint = CanonicalConstraint::new(pattern, &self.index, &Limits::default());
        let constraint = constraint.map_err(|error| error.to_string())?;
        Ok(Box::new(ConstraintMatcher::new(constraint, CanonicalConstraint::memory_usage)))
    }

    fn notes(&self) -> Vec<String> {
        let automaton = self.index.automaton();
        let megabytes = (automaton.memory_usage() + self.index.memory_usage()) as f64 / 1e6;
        let size = format!("tokenizer automaton: {} classes, {megabytes:.1} MB", automaton.classes());
        vec![size]
    }
}

/// Each mask is made into the same buffer: the limit on kept masks has no part in this time.
fn lifted_masks(constraint: &RegexConstraint, limit: Duration) -> AllMasks {
    let (tokens, begin) = (constraint.tokens(), Instant::now());
    let mut mask = TokenMask::new(constraint.vocab_len());
    let mut made = 0;
    for state in tokens.dfa().states() {
        if begin.elapsed() > limit {
            break;
        }
        tokens.fill_mask(state, mask.as_mut());
        made += 1;
    }
    AllMasks { states: tokens.dfa().len(), made, ns: crate::side_by_side::measure::ns(begin) }
}

/// Counts the work of a scratch with its library.
type Count<C> = fn(&<C as Constraint>::Scratch, &TreeLibrary) -> Work;

/// A matcher of any [`Constraint`].
#[derive(Debug)]
pub struct ConstraintMatcher<C: Constraint> {
    state: C::State,
    scratch: C::Scratch,
    mask: TokenMask,
    /// Whether `mask` is the mask made last; else it lies ready with the constraint.
    filled: bool,
    memory: fn(&C) -> usize,
    all_masks: Option<fn(&C, Duration) -> AllMasks>,
    count: Option<(Count<C>, Arc<TreeLibrary>)>,
    constraint: C,
}

impl<C: Constraint> ConstraintMatcher<C> {
    /// A matcher at the start of `constraint`; `memory` tells its size.
    pub fn new(constraint: C, memory: fn(&C) -> usize) -> Self {
        Self {
            state: constraint.start(),
            scratch: constraint.scratch(),
            mask: TokenMask::new(constraint.vocab_len()),
            filled: true,
            memory,
            all_masks: None,
            count: None,
            constraint,
        }
    }

    /// Adds the way to count the work of a scratch.
    #[must_use]
    pub(crate) fn counting(mut self, count: Count<C>, library: &Arc<TreeLibrary>) -> Self {
        self.count = Some((count, Arc::clone(library)));
        self
    }

    /// Adds the way to make all masks of a constraint, for the time of an eager automaton.
    #[must_use]
    pub fn with_all_masks(mut self, all_masks: fn(&C, Duration) -> AllMasks) -> Self {
        self.all_masks = Some(all_masks);
        self
    }
}

impl<C: Constraint> Matcher for ConstraintMatcher<C> {
    fn mask(&mut self) {
        if self.constraint.ready_mask(&self.scratch, &self.state).is_none() {
            self.constraint.fill_mask(&mut self.scratch, &self.state, self.mask.as_mut());
            self.filled = true;
        } else {
            self.filled = false;
        }
    }

    fn words(&self) -> &[u32] {
        let ready = if self.filled { None } else { self.constraint.ready_mask(&self.scratch, &self.state) };
        ready.map_or_else(|| self.mask.words(), |mask| mask.words())
    }

    fn commit(&mut self, token: TokenId) -> bool {
        self.constraint.advance(&mut self.scratch, &mut self.state, token).is_ok()
    }

    fn is_accepting(&mut self) -> bool {
        self.constraint.is_accepting(&self.state)
    }

    fn reset(&mut self) {
        self.state = self.constraint.start();
    }

    fn restart(&mut self) {
        self.state = self.constraint.start();
        self.scratch = self.constraint.scratch();
    }

    fn forced(&mut self) -> Option<TokenId> {
        self.constraint.forced(&mut self.scratch, &self.state)
    }

    fn memory(&self) -> Option<usize> {
        Some((self.memory)(&self.constraint))
    }

    fn work(&self) -> Work {
        self.count.as_ref().map_or_else(Work::default, |(count, library)| count(&self.scratch, library))
    }

    fn all_masks(&mut self, limit: Duration) -> Option<AllMasks> {
        self.all_masks.map(|all_masks| all_masks(&self.constraint, limit))
    }
}
