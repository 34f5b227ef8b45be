//! The byte automaton on which all constraints are built: deterministic, minimal, without a dead state.
//!
//! It has no notion of tokens. [`Dfa::from_pattern`] compiles a regex, [`Dfa::from_literals`] a list of texts;
//! [`RegexConstraint`](crate::RegexConstraint) reads tokens through a DFA.

use std::{fmt, ops::RangeInclusive};

use unskew_trie::{ByteSet, DenseTable};

use super::{
    acyclic::{Acyclic, Builder},
    determinize, minimize,
    nfa::Nfa,
    table::{DEAD, Table, begins},
};
use crate::{
    Limits, Pattern, RegexError, StateId,
    dfa::{ByteClasses, Cuts, DfaAlgebra},
    regex::{parse, parsed::Parsed},
};

/// A minimal deterministic automaton over bytes. Immutable.
///
/// # Invariants
///
/// - Every state is reachable from the start, and every state can reach an accepting state. So a text for which
///   [`step`](Self::step) never answered `None` is a prefix of an accepted text.
/// - It accepts at least one text.
/// - It is in canonical form: states are numbered breadth-first (edges in ascending order of bytes), and the byte
///   classes are the coarsest. Two DFAs are equal (`==`) exactly when they accept the same texts.
///
/// # Example
///
/// ```
/// use unskew_automata::{Dfa, Limits};
///
/// let dfa = Dfa::from_pattern("(ab)*", &Limits::default())?;
/// assert!(dfa.accepts(b"abab"));
/// assert!(!dfa.accepts(b"aba"));
/// assert_eq!(dfa.len(), 2);
/// assert_eq!(dfa, Dfa::from_pattern("(abab)*(ab)?", &Limits::default())?);
///
/// // Byte by byte: `None` as soon as no continuation is accepted.
/// let after_a = dfa.step(dfa.start(), b'a').unwrap();
/// assert!(!dfa.is_accepting(after_a));
/// assert_eq!(dfa.step(after_a, b'a'), None);
/// # Ok::<(), unskew_automata::RegexError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Dfa {
    table: Table,
}

impl std::hash::Hash for Dfa {
    /// Hashes the classes and a sample of the transitions: the table of a format has a megabyte, and maps of automata
    /// hash often. Texts of one length have equal transitions.
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        const ENTRIES: usize = 64;
        let Table { classes, next, start, .. } = &self.table;
        (classes.len(), classes.ends(), next.len(), start).hash(state);
        next.iter().step_by(next.len().div_ceil(ENTRIES).max(1)).for_each(|next| next.hash(state));
    }
}

/// The transitions of a state over neighbouring bytes to one target.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Edge {
    /// The bytes.
    pub bytes: RangeInclusive<u8>,
    /// The target of all of them.
    pub target: StateId,
}

impl Dfa {
    /// The DFA of the texts that `pattern` matches as a whole. A text alone is in the dialect of the `regex` crate,
    /// with look-ahead (`(?=…)`, `(?!…)`) and look-behind (`(?<=…)`, `(?<!…)`) besides; [`Dialect::pattern`] has
    /// others. `^` and `$` are allowed anywhere and mean the beginning and end of the whole text. A lazy repetition
    /// means the same as a greedy one.
    ///
    /// [`Dialect::pattern`]: crate::Dialect::pattern
    ///
    /// Cost: O(2^n) states at worst for an NFA of n states; for most patterns in use, a few states for each NFA
    /// state. The `limits` bound time and memory.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: syntax, an unsupported construct, a limit, or a pattern that matches nothing.
    pub fn from_pattern<'t>(pattern: impl Into<Pattern<'t>>, limits: &Limits) -> Result<Self, RegexError> {
        Self::of_parsed(&parse(pattern, limits)?, limits)
    }

    pub(crate) fn of_parsed(parsed: &Parsed, limits: &Limits) -> Result<Self, RegexError> {
        if parsed.look.is_some() {
            return DfaAlgebra::new(limits).looking(parsed);
        }
        let nfa = Nfa::new(&parsed.hir, limits.nfa_size)?;
        let table = determinize::determinize(&nfa, limits)?;
        drop(nfa);
        Self::from_table(table).ok_or(RegexError::MatchesNothing)
    }

    /// As [`from_literals`](Self::from_literals), and takes fuel for it.
    pub(crate) fn of_choices<T: AsRef<[u8]>>(
        choices: impl IntoIterator<Item = T>,
        limits: &Limits,
    ) -> Result<Self, RegexError> {
        /// The cost of a byte of a choice.
        const BYTE_STEPS: u64 = 5;
        let choices: Vec<T> = choices.into_iter().collect();
        let bytes: usize = choices.iter().map(|choice| choice.as_ref().len()).sum();
        limits.spend(BYTE_STEPS * bytes as u64)?;
        Self::from_literals(choices, limits)
    }

    /// The DFA of exactly the given texts, in any order. Texts may repeat, and one may be a prefix of another.
    ///
    /// Cost: O(b log n) for n texts of b bytes together.
    ///
    /// # Errors
    ///
    /// [`RegexError::NoChoices`] for an empty list, [`RegexError::EmptyChoice`] for a text without bytes, or a limit.
    ///
    /// # Example
    ///
    /// ```
    /// use unskew_automata::{Dfa, Limits};
    ///
    /// let dfa = Dfa::from_literals(["maybe", "may", "yes"], &Limits::default())?;
    /// assert!(dfa.accepts(b"may") && dfa.accepts(b"maybe") && !dfa.accepts(b"mayb"));
    /// # Ok::<(), unskew_automata::RegexError>(())
    /// ```
    pub fn from_literals<T: AsRef<[u8]>>(
        literals: impl IntoIterator<Item = T>,
        limits: &Limits,
    ) -> Result<Self, RegexError> {
        let mut literals: Vec<T> = literals.into_iter().collect();
        if literals.is_empty() {
            return Err(RegexError::NoChoices);
        }
        if let Some(index) = literals.iter().position(|literal| literal.as_ref().is_empty()) {
            return Err(RegexError::EmptyChoice { index });
        }
        literals.sort_unstable_by(|left, right| left.as_ref().cmp(right.as_ref()));
        literals.dedup_by(|left, right| left.as_ref() == right.as_ref());

        let mut cuts = Cuts::default();
        literals.iter().for_each(|literal| cuts.bytes(literal.as_ref()));
        let classes = cuts.to_classes();
        let mut builder = Builder::default();
        for literal in literals {
            limits.check_cancelled()?;
            builder.insert(literal.as_ref().iter().map(|byte| (*byte, *byte)));
            let (states, bytes) = (builder.len(), builder.len() * classes.len() * size_of::<u32>());
            if states > limits.dfa_states {
                return Err(RegexError::TooManyDfaStates { limit: limits.dfa_states });
            }
            if bytes > limits.dfa_bytes {
                return Err(RegexError::DfaTooLarge { bytes, limit: limits.dfa_bytes });
            }
        }
        let table = tabulate(&builder.finish(), classes);
        Ok(Self { table: table.canonical() })
    }

    /// The DFA with the language of `table`, all of whose states must be reachable. `None` if the language is empty.
    pub(crate) fn from_table(table: Table) -> Option<Self> {
        Some(Self { table: minimize::minimized(table)?.canonical() })
    }

    /// The DFA with a `table` in canonical form, all of whose states have different languages and texts.
    pub(crate) fn from_canonical(table: Table) -> Self {
        debug_assert_eq!(
            minimize::minimized(table.clone()).map(|table| table.len()),
            Some(table.len()),
            "states have the same language"
        );
        Self { table }
    }

    /// The states from which finitely many texts lead to acceptance, each after all states that follow it. They are all
    /// states exactly if the language is finite.
    ///
    /// Cost: O(m) for m edges.
    ///
    /// # Example
    ///
    /// ```
    /// use unskew_automata::{Dfa, Limits};
    ///
    /// let words = Dfa::from_pattern("ab|c", &Limits::default())?;
    /// assert_eq!(words.finite_states().last(), Some(&words.start()));
    /// // After `b` nothing follows, and before it there is no bound.
    /// let loops = Dfa::from_pattern("a*b", &Limits::default())?;
    /// assert_eq!(loops.finite_states().len(), 1);
    /// # Ok::<(), unskew_automata::RegexError>(())
    /// ```
    pub fn finite_states(&self) -> Vec<StateId> {
        let mut left = vec![0u32; self.len()];
        // To iterate over the edges of a state takes as long as there are classes, so it is done once.
        let mut edges = Vec::with_capacity(self.len());
        for state in self.states() {
            edges.extend(self.edges(state).map(|edge| (edge.target, state)));
        }
        edges.iter().for_each(|(_, source)| left[source.index()] += 1);
        let begins = begins(self.len(), edges.iter().map(|(target, _)| target.0));
        let (mut sources, mut at) = (vec![StateId(0); edges.len()], begins.clone());
        for (target, source) in edges {
            sources[at[target.index()]] = source;
            at[target.index()] += 1;
        }
        let mut order: Vec<StateId> = self.states().filter(|state| left[state.index()] == 0).collect();
        let mut next = 0;
        while let Some(state) = order.get(next).copied() {
            next += 1;
            for source in &sources[begins[state.index()]..begins[state.index() + 1]] {
                left[source.index()] -= 1;
                if left[source.index()] == 0 {
                    order.push(*source);
                }
            }
        }
        order
    }

    /// The state before the first byte.
    #[inline]
    pub fn start(&self) -> StateId {
        self.table.start
    }

    /// The state after `byte`, or `None` if no accepted text continues with it.
    ///
    /// # Panics
    ///
    /// If the DFA has no such state. The other methods that take a state also panic.
    #[inline]
    pub fn step(&self, state: StateId, byte: u8) -> Option<StateId> {
        let class = usize::from(self.table.classes.get(byte));
        let next = self.table.next[state.index() * self.table.classes.len() + class];
        (next != DEAD).then_some(StateId(next))
    }

    /// The state after all of `bytes`, or `None` if no accepted text continues with them.
    #[inline]
    pub fn run(&self, state: StateId, bytes: &[u8]) -> Option<StateId> {
        bytes.iter().try_fold(state, |state, byte| self.step(state, *byte))
    }

    /// Whether the text may end here.
    #[inline]
    pub fn is_accepting(&self, state: StateId) -> bool {
        self.table.accepting[state.index()]
    }

    /// Whether `text` is accepted. O(n) for n bytes.
    pub fn accepts(&self, text: &[u8]) -> bool {
        self.run(self.start(), text).is_some_and(|state| self.is_accepting(state))
    }

    /// The number of states: at least one.
    #[allow(clippy::len_without_is_empty, reason = "there is always a state")]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Every state, in ascending order.
    pub fn states(&self) -> impl DoubleEndedIterator<Item = StateId> + use<> {
        self.table.states()
    }

    /// The bytes with which texts end. O(e) for e edges.
    pub fn last_bytes(&self) -> ByteSet {
        let edges = self.states().flat_map(|state| self.edges(state));
        edges.filter(|edge| self.is_accepting(edge.target)).flat_map(|edge| edge.bytes).collect()
    }

    /// The edges of `state` in ascending order of their bytes. Each edge is as long as possible.
    pub fn edges(&self, state: StateId) -> impl Iterator<Item = Edge> {
        let Table { classes, .. } = &self.table;
        let (row, mut ends, mut first) = (self.table.row(state), classes.ends(), 0);
        std::iter::from_fn(move || {
            while let Some((end, mut rest)) = ends.split_first() {
                let target = row[usize::from(classes.get(*end))];
                let (begin, mut last) = (first, *end);
                while let Some((end, behind)) = rest.split_first()
                    && row[usize::from(classes.get(*end))] == target
                {
                    (last, rest) = (*end, behind);
                }
                (ends, first) = (rest, last.wrapping_add(1));
                if target != DEAD {
                    return Some(Edge { bytes: begin..=last, target: StateId(target) });
                }
            }
            None
        })
    }

    /// The bytes that occur in accepted texts, in ascending order.
    pub fn bytes(&self) -> impl Iterator<Item = u8> {
        let mut used = vec![false; self.table.classes.len()];
        for row in self.table.next.chunks_exact(used.len()) {
            for (used, next) in used.iter_mut().zip(row) {
                *used |= *next != DEAD;
            }
        }
        (0..=255).filter(move |byte| used[usize::from(self.table.classes.get(*byte))])
    }

    /// The classes of bytes that no state distinguishes.
    pub fn classes(&self) -> &ByteClasses {
        &self.table.classes
    }

    /// The memory that the tables take, in bytes; the struct itself is not counted.
    pub fn memory_usage(&self) -> usize {
        self.table.memory_usage() + 256
    }

    /// The table in the form in which a walk over a vocabulary reads it.
    pub(crate) fn dense(&self) -> DenseTable<'_> {
        let classes = &self.table.classes;
        DenseTable { classes: classes.as_array(), width: classes.len(), next: &self.table.next }
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }
}

impl fmt::Debug for Dfa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dfa")
            .field("states", &self.len())
            .field("classes", &self.table.classes.len())
            .finish_non_exhaustive()
    }
}

/// The table of an acyclic automaton. Its edges must begin and end where `classes` do.
fn tabulate(automaton: &Acyclic, classes: ByteClasses) -> Table {
    let mut table = Table::new(classes);
    for node in 0..automaton.len() {
        let state = table.push(automaton.is_accepting(node));
        for edge in automaton.edges(node) {
            let first = usize::from(table.classes.get(edge.first));
            let last = usize::from(table.classes.get(edge.last));
            table.row_mut(state)[first..=last].fill(edge.to);
        }
    }
    table.start = StateId::from_index(automaton.len() - 1);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dfa(pattern: &str) -> Dfa {
        Dfa::from_pattern(pattern, &Limits::default()).unwrap()
    }

    #[test]
    fn edges_are_maximal_and_complete() {
        let dfa = dfa("[a-cx][0-9]|d");
        let edges: Vec<_> = dfa.edges(dfa.start()).map(|edge| (edge.bytes, edge.target.index())).collect();
        assert_eq!(edges, [(b'a'..=b'c', 1), (b'd'..=b'd', 2), (b'x'..=b'x', 1)]);
        assert_eq!(dfa.bytes().collect::<Vec<_>>(), b"0123456789abcdx");
        // The edges from byte 0 and to the greatest byte of UTF-8.
        let any = Dfa::from_pattern(r"(?s).", &Limits::default()).unwrap();
        assert_eq!(any.edges(any.start()).next().unwrap().bytes, 0..=0x7f);
        assert_eq!(any.edges(any.start()).last().unwrap().bytes, 0xf4..=0xf4);
    }

    #[test]
    fn literals_are_the_dfa_of_their_alternation() {
        let limits = Limits::default();
        let literals = Dfa::from_literals(
            ["foo", "bar", "foobar", "", "bar"].into_iter().filter(|l| !l.is_empty()),
            &limits,
        );
        assert_eq!(literals.unwrap(), dfa("foo|bar|foobar"));
        let bytes = Dfa::from_literals([&[0xff][..], &[0xff, 0x00], &[0x00]], &limits).unwrap();
        assert!(bytes.accepts(&[0xff]) && bytes.accepts(&[0xff, 0]) && !bytes.accepts(&[0xfe]));
        assert_eq!(bytes.edges(bytes.start()).count(), 2);
    }

    #[test]
    fn an_empty_list_and_an_empty_choice_are_errors() {
        let limits = Limits::default();
        assert_eq!(Dfa::from_literals::<&str>([], &limits).unwrap_err(), RegexError::NoChoices);
        let error = Dfa::from_literals(["a", "b", ""], &limits).unwrap_err();
        assert_eq!(error, RegexError::EmptyChoice { index: 2 });
        assert_eq!(
            error.to_string(),
            "choice 2 (counted from 0) is empty: remove it, or use a regex that ends in `?`"
        );
    }

    #[test]
    fn the_empty_text_is_a_match_like_any_other() {
        let empty = dfa("");
        assert_eq!(empty.len(), 1);
        assert!(empty.accepts(b"") && !empty.accepts(b"a"));
        assert_eq!(empty.edges(empty.start()).count(), 0);
        assert_eq!(empty.bytes().count(), 0);
    }
}
