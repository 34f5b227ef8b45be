//! The state of an expansion: memoized results, counted work, and the keywords that are refused or narrowed.
//!
//! The work on it is in the other files of this folder, each as methods of [`Expander`].

use std::{borrow::Borrow, collections::VecDeque, hash::Hash, rc::Rc};

use hashbrown::{HashMap, HashSet};
use unskew_automata::RegexError;
use unskew_core::Cancel;
use unskew_grammar::Fate;

use super::shape::{Atom, Choice, Conditions, FiniteValue, NameSet, Shape, Types};
use crate::{
    MemberOrder, SchemaError, SchemaLimits, SchemaOptions,
    document::{json::NodeId, literal::Literal, schemas::Schemas},
    text::languages::{Language, Languages},
};

/// The number of comparisons that count as one alternative.
const COMPARISONS: usize = 256;

/// A keyword that excludes values which the schema allows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Narrowing {
    pub(crate) node: NodeId,
    /// Empty for the schema as a whole.
    pub(crate) keyword: String,
    pub(crate) why: String,
}

/// A schema document under expansion.
#[derive(Debug)]
pub(crate) struct Expander {
    pub(crate) schemas: Schemas,
    pub(crate) languages: Languages,
    pub(crate) limits: SchemaLimits,
    cancel: Cancel,
    pub(super) order: MemberOrder,
    /// Keyed by schema and keyword. `None` if nobody asks for them: a schema has as many as keywords.
    pub(crate) fates: Option<HashMap<(NodeId, String), (Fate, String)>>,
    pub(crate) refused: Vec<SchemaError>,
    pub(crate) narrowed: Vec<Narrowing>,
    pub(super) shapes: Memo<Vec<Literal>, Rc<Vec<Shape>>>,
    pub(super) conditions: Memo<Literal, Rc<Conditions>>,
    pub(super) overlaps: Memo<(Literal, Literal), Types>,
    /// Sets whose shapes are being computed.
    pub(super) pending: HashSet<Vec<Literal>>,
    pub(crate) name_languages: HashMap<NameSet, Language>,
    pub(crate) finite: HashMap<Vec<Literal>, Option<Rc<Vec<FiniteValue>>>>,
    alternatives: usize,
    /// How many of them there may be. A schema without a choice is an alternative too, so that each value of the
    /// text has one.
    most_alternatives: usize,
    /// The number of conditions that were copied from alternative to alternative.
    carried: usize,
    /// The number of open searches for a contradiction. During a search nothing is refused.
    pub(super) open_searches: u32,
    /// The number of alternatives in all searches so far, and the number at which the open search stops.
    pub(super) searched: usize,
    pub(super) search_end: usize,
    comparisons: usize,
    /// The number of searches that reached a limit. Results that were computed meanwhile are correct, but possibly
    /// weaker.
    pub(super) cut_searches: usize,
}

/// Memoized results, and weaker results that are only used during a search.
#[derive(Debug)]
pub(super) struct Memo<K, V> {
    best: HashMap<K, V>,
    rough: HashMap<K, V>,
}

impl<K: Eq + Hash, V> Memo<K, V> {
    fn new() -> Self {
        Self { best: HashMap::new(), rough: HashMap::new() }
    }

    pub(super) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q, rough: bool) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.best.get(key).or_else(|| self.rough.get(key).filter(|_| rough))
    }

    pub(super) fn insert(&mut self, key: K, value: V, rough: bool) {
        if rough { &mut self.rough } else { &mut self.best }.insert(key, value);
    }

    pub(super) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.best.remove(key);
        self.rough.remove(key);
    }
}

/// A conjunction of conditions under expansion: the shape so far, and the conditions and choices that are not
/// applied yet.
#[derive(Clone, Default)]
pub(super) struct Branch {
    pub(super) shape: Shape,
    pub(super) todo: VecDeque<Atom>,
    pub(super) choices: Vec<Rc<Choice>>,
    /// Choices that are made before `choices`.
    pub(super) first: Vec<Rc<Choice>>,
    /// Literals that were applied.
    pub(super) seen: Vec<Literal>,
    /// The number of conditions on members at the last search for a contradiction.
    pub(super) pruned_at: usize,
    /// Whether it becomes a factor of another shape.
    pub(super) is_factor: bool,
}

impl Branch {
    /// The cost of a copy, in units of `SchemaLimits::carried`.
    pub(super) fn size(&self) -> usize {
        let shape = &self.shape;
        let members =
            shape.properties.len() + shape.property.len() + shape.required.len() + shape.forbidden.len();
        1 + members + self.todo.len() + self.choices.len() + self.seen.len()
    }
}

impl Expander {
    pub(crate) fn new(schemas: Schemas, options: &SchemaOptions, limits: &SchemaLimits) -> Self {
        Self::with_languages(schemas, Languages::new(options, limits), options, limits)
    }

    /// The same with languages that another expansion has made.
    pub(crate) fn with_languages(
        schemas: Schemas,
        languages: Languages,
        options: &SchemaOptions,
        limits: &SchemaLimits,
    ) -> Self {
        let most_alternatives = limits.alternatives.saturating_add(schemas.document.nodes().count());
        Self {
            schemas,
            languages,
            limits: limits.clone(),
            cancel: options.cancel.clone(),
            order: options.order,
            fates: None,
            refused: vec![],
            narrowed: vec![],
            shapes: Memo::new(),
            conditions: Memo::new(),
            overlaps: Memo::new(),
            pending: HashSet::new(),
            name_languages: HashMap::new(),
            finite: HashMap::new(),
            alternatives: 0,
            most_alternatives,
            carried: 0,
            open_searches: 0,
            searched: 0,
            search_end: 0,
            comparisons: 0,
            cut_searches: 0,
        }
    }

    /// The alternatives and conditions that were counted, in units of `SchemaLimits::carried`.
    pub(crate) fn work(&self) -> usize {
        /// An alternative beside the conditions that it carries.
        const ALTERNATIVE: usize = 16;
        (self.alternatives + self.searched).saturating_mul(ALTERNATIVE).saturating_add(self.carried)
    }

    /// Whether a search has reached a limit since the number of cuts was `cuts`, so that another search may find
    /// more.
    pub(super) fn is_rough(&self, cuts: usize) -> bool {
        self.open_searches > 0 && self.cut_searches != cuts
    }

    /// An error if the compilation was cancelled.
    pub(crate) fn cancelled(&self) -> Result<(), SchemaError> {
        if self.cancel.is_cancelled() { Err(SchemaError::Cancelled) } else { Ok(()) }
    }

    /// Counts an alternative.
    pub(super) fn count(&mut self, set: &[Literal]) -> Result<(), SchemaError> {
        self.cancelled()?;
        let (count, limit) = match self.open_searches {
            0 => (&mut self.alternatives, self.most_alternatives),
            _ => (&mut self.searched, self.search_end),
        };
        *count += 1;
        if *count <= limit {
            return Ok(());
        }
        let pointer = set.first().map_or("#".to_owned(), |literal| self.schemas.pointer(literal.node));
        let limit = self.limits.alternatives;
        Err(SchemaError::limit(&pointer, "the alternatives", limit, "alternatives"))
    }

    /// Counts the comparisons that select the possible alternatives of a choice.
    pub(super) fn count_comparisons(&mut self, branch: &Branch, choice: &Choice) -> Result<(), SchemaError> {
        self.cancelled()?;
        let shape = &branch.shape;
        let known = branch.seen.len() + shape.property.len() + shape.properties.len() + shape.required.len();
        let atoms = choice.iter().map(Vec::len).sum::<usize>();
        self.comparisons += atoms.saturating_mul(1 + known);
        let whole = self.comparisons / COMPARISONS;
        self.comparisons %= COMPARISONS;
        let (count, limit) = match self.open_searches {
            0 => (&mut self.alternatives, self.most_alternatives),
            _ => (&mut self.searched, self.search_end),
        };
        *count = count.saturating_add(whole);
        if *count <= limit {
            return Ok(());
        }
        Err(SchemaError::limit("", "the alternatives", self.limits.alternatives, "alternatives"))
    }

    /// Counts work in proportion to the conditions on a value. Searches have limits of their own.
    pub(crate) fn carry(&mut self, parts: usize) -> Result<(), SchemaError> {
        self.cancelled()?;
        if self.open_searches > 0 {
            return Ok(());
        }
        self.carried += parts;
        let limit = self.limits.carried;
        if self.carried > limit {
            return Err(SchemaError::limit("", "the conditions that alternatives carry", limit, "carried"));
        }
        Ok(())
    }

    /// Records the refusals of a shape for values of these types.
    pub(crate) fn refuse(&mut self, shape: &Shape, types: Types) {
        if self.open_searches > 0 {
            return;
        }
        for refusal in shape.refusals.iter().filter(|refusal| refusal.types & types & shape.types != 0) {
            self.reject(refusal.node, &refusal.keyword, &refusal.reason, refusal.way_out);
        }
    }

    /// Records that a keyword is not enforced.
    pub(crate) fn reject(&mut self, node: NodeId, keyword: &str, reason: &str, way_out: &'static str) {
        let error = SchemaError::Unsupported {
            pointer: self.schemas.pointer(node),
            keyword: keyword.to_owned(),
            reason: reason.to_owned(),
            way_out,
        };
        if let Some(fates) = &mut self.fates {
            let fate = (Fate::Rejected, format!("{reason}; {way_out}"));
            fates.insert((self.schemas.original(node), keyword.to_owned()), fate);
        }
        if !self.refused.contains(&error) {
            self.refused.push(error);
        }
    }

    /// Records that some values that a keyword allows are no outputs.
    pub(crate) fn narrow_down(&mut self, node: NodeId, keyword: &str, why: String) {
        let narrowed = Narrowing { node: self.schemas.original(node), keyword: keyword.to_owned(), why };
        if !self.narrowed.contains(&narrowed) {
            self.narrowed.push(narrowed);
        }
    }

    /// The set in normal form, sorted and without literals that always hold; `None` if it is obvious that no value
    /// satisfies it.
    pub(crate) fn normal(&self, mut set: Vec<Literal>) -> Option<Vec<Literal>> {
        set.sort_unstable();
        set.dedup();
        let trivial = |literal: &Literal| self.schemas.obvious(*literal);
        if set.iter().any(|literal| trivial(literal) == Some(false)) {
            return None;
        }
        set.retain(|literal| trivial(literal).is_none());
        Some(set)
    }

    /// The language of the `count` values of `key`. The way out of a regex that is too large does not apply to a list.
    pub(crate) fn of_list(
        &self,
        node: Option<NodeId>,
        key: &str,
        count: usize,
        made: Result<Language, RegexError>,
    ) -> Result<Language, SchemaError> {
        let (limit, unit, field) = match &made {
            Err(RegexError::TooManyDfaStates { limit, .. }) => (*limit as u64, "states", "dfa_states"),
            Err(RegexError::DfaTooLarge { limit, .. }) => (*limit as u64, "bytes", "dfa_bytes"),
            Err(RegexError::DfaTooCostly { limit, .. }) => (*limit, "steps", "dfa_steps"),
            _ => return self.located(node, made),
        };
        let pointer = node.map_or_else(|| "#".to_owned(), |node| self.schemas.pointer(node));
        Err(SchemaError::Values { pointer, keyword: key.to_owned(), count, limit, unit, field })
    }

    pub(crate) fn located<T>(
        &self,
        node: Option<NodeId>,
        made: Result<T, RegexError>,
    ) -> Result<T, SchemaError> {
        self.cancelled()?;
        made.map_err(|source| {
            let pointer = node.map_or_else(|| "#".to_owned(), |node| self.schemas.pointer(node));
            match source {
                // The limit of all automata together, and not that of one.
                RegexError::DfaTooLarge { limit, .. } if limit == self.limits.automata_bytes => {
                    let what = "the bytes of all strings and numbers";
                    SchemaError::limit(&pointer, what, limit, "automata_bytes")
                }
                source => SchemaError::Automaton { pointer, source },
            }
        })
    }
}
