//! Syntax tree to NFA over bytes (Thompson's construction), measured before it is built.
//!
//! The construction runs from the end of the pattern to its beginning: the compiler of a piece needs the state after
//! the piece, and yields the state that begins the piece. So only loops are patched later, and an optional tail
//! `x{0,9}` has an edge from each of its copies straight to its exit, instead of through the other copies.
//!
//! A pattern of 12 bytes can ask for 10^9 states. [`Nfa::new`] first computes the exact size from the tree and builds
//! the NFA only if the size is within the limit. Neither pass recurses: nesting cannot overflow the stack.

use std::collections::HashMap;

use regex_syntax::hir::{self, Class, Hir, HirKind, Look};

use super::acyclic::Acyclic;
use crate::{Dfa, Limits, RegexError, dfa::Edge};

/// A state of an [`Nfa`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct NfaId(pub(crate) u32);

impl NfaId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The kind of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NfaState {
    /// Reads a byte: `transitions[first..last]`.
    Bytes { first: u32, last: u32 },
    /// Continues with each of `alternatives[first..last]` without reading.
    Split { first: u32, last: u32 },
    /// Continues if no byte was read yet.
    AtStart(NfaId),
    /// Continues if no byte will be read any more.
    AtEnd(NfaId),
    /// The pattern ends here.
    Accept,
}

/// Reads a byte in `first..=last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Transition {
    pub(crate) first: u8,
    pub(crate) last: u8,
    pub(crate) next: NfaId,
}

/// A nondeterministic automaton over bytes that matches a whole text, from its first byte to its last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Nfa {
    states: Vec<NfaState>,
    /// The transitions of one state are disjoint and ascending.
    transitions: Vec<Transition>,
    alternatives: Vec<NfaId>,
    start: NfaId,
    chains: Vec<Chain>,
}

/// The states of an optional tail `x{0,n}`: n copies of the same states, each before a split at which the remaining
/// copies may be skipped. The last copies of the text come first. So a state includes the language of the
/// corresponding state in every copy of smaller number: the two differ in the number of copies that follow, and all
/// of these may be skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Chain {
    pub(crate) begin: u32,
    pub(crate) end: u32,
    /// The number of states of a copy.
    pub(crate) stride: u32,
}

impl Nfa {
    /// The NFA of `hir`. O(n + m) for n nodes of the tree and an NFA of m states and transitions.
    ///
    /// # Errors
    ///
    /// [`RegexError::NfaTooLarge`] if the number of states and transitions together exceeds `limit`.
    pub(crate) fn new(hir: &Hir, limit: u64) -> Result<Self, RegexError> {
        // Ids are 32 bits wide.
        let limit = limit.min(u64::from(u32::MAX));
        let mut classes = Classes::default();
        let size = hir::visit(hir, Sizes { classes: &mut classes, sizes: vec![] })
            .unwrap_or_else(|never| match never {});
        if size > limit {
            return Err(RegexError::NfaTooLarge { size, limit });
        }
        Ok(Compiler::new(&classes).compile(hir))
    }

    pub(crate) fn start(&self) -> NfaId {
        self.start
    }

    pub(crate) fn state(&self, id: NfaId) -> NfaState {
        self.states[id.index()]
    }

    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn transitions(&self) -> &[Transition] {
        &self.transitions
    }

    /// The transitions of a state that reads a byte.
    pub(crate) fn bytes(&self, first: u32, last: u32) -> &[Transition] {
        &self.transitions[first as usize..last as usize]
    }

    /// The successors of a state that splits.
    pub(crate) fn split(&self, first: u32, last: u32) -> &[NfaId] {
        &self.alternatives[first as usize..last as usize]
    }

    /// The optional tails of more than one copy. Inner tails come before outer ones.
    pub(crate) fn chains(&self) -> &[Chain] {
        &self.chains
    }

    /// The memory of the tables, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.states[..])
            + size_of_val(&self.chains[..])
            + size_of_val(&self.transitions[..])
            + size_of_val(&self.alternatives[..])
    }

    /// The NFA with the same language in which each transition can reach acceptance: the other transitions are
    /// removed, and states without transitions no longer read. State numbers stay. Also returns by state whether the
    /// text may end there. O(n log n) for n states and transitions.
    pub(crate) fn trimmed(mut self) -> (Self, Vec<bool>) {
        // Each state has two nodes: before the end, and at the end, after a `$` was passed and no byte may be read
        // any more. No node is at the beginning of the text, so `^` has no edge: only the start's closure passes it,
        // and that is not trimmed.
        let states = self.states.len();
        let mut edges: Vec<(u32, u32)> = vec![];
        let mut found: Vec<u32> = vec![];
        let at_end = |id: NfaId| index(states) + id.0;
        for (id, state) in (0..).map(NfaId).zip(&self.states) {
            match *state {
                NfaState::Bytes { first, last } => {
                    edges.extend(self.bytes(first, last).iter().map(|transition| (transition.next.0, id.0)));
                }
                NfaState::Split { first, last } => {
                    for next in self.split(first, last) {
                        edges.extend([(next.0, id.0), (at_end(*next), at_end(id))]);
                    }
                }
                NfaState::AtStart(_) => {}
                NfaState::AtEnd(next) => edges.extend([(at_end(next), id.0), (at_end(next), at_end(id))]),
                NfaState::Accept => found.extend([id.0, at_end(id)]),
            }
        }
        edges.sort_unstable();
        let mut alive = vec![false; 2 * states];
        found.iter().for_each(|id| alive[*id as usize] = true);
        while let Some(id) = found.pop() {
            let begin = edges.partition_point(|(target, _)| *target < id);
            for (_, source) in edges[begin..].iter().take_while(|(target, _)| *target == id) {
                if !std::mem::replace(&mut alive[*source as usize], true) {
                    found.push(*source);
                }
            }
        }
        let mut transitions = Vec::with_capacity(self.transitions.len());
        for state in &mut self.states {
            if let NfaState::Bytes { first, last } = *state {
                let begin = index(transitions.len());
                let kept = &self.transitions[first as usize..last as usize];
                transitions.extend(kept.iter().filter(|transition| alive[transition.next.index()]));
                let end = index(transitions.len());
                *state = if begin == end {
                    NfaState::Split { first: 0, last: 0 }
                } else {
                    NfaState::Bytes { first: begin, last: end }
                };
            }
        }
        self.transitions = transitions;
        (self, alive.split_off(states))
    }

    /// The number of states and transitions that the limit bounds.
    #[cfg(test)]
    fn size(&self) -> usize {
        self.states.len() + self.transitions.len() + self.alternatives.len()
    }
}

/// The automata of the classes of a tree, each distinct class once.
#[derive(Default)]
struct Classes {
    automata: Vec<Acyclic>,
    /// The position in `automata` by ranges of characters or bytes.
    by_ranges: HashMap<Vec<(u32, u32)>, usize>,
    /// The position in `automata` by node of the tree, so that the second pass compares no ranges.
    by_node: HashMap<*const Hir, usize>,
}

impl Classes {
    fn add(&mut self, node: &Hir, class: &Class) -> &Acyclic {
        let ranges = match class {
            Class::Unicode(class) => {
                class.iter().map(|range| (u32::from(range.start()), u32::from(range.end()))).collect()
            }
            // These classes match ASCII only, so bytes and characters are the same.
            Class::Bytes(class) => {
                class.iter().map(|range| (u32::from(range.start()), u32::from(range.end()))).collect()
            }
        };
        let index = *self.by_ranges.entry(ranges).or_insert_with(|| {
            self.automata.push(Acyclic::class(class));
            self.automata.len() - 1
        });
        self.by_node.insert(std::ptr::from_ref(node), index);
        &self.automata[index]
    }

    fn get(&self, node: &Hir) -> &Acyclic {
        &self.automata[self.by_node[&std::ptr::from_ref(node)]]
    }
}

/// The size of a split with two alternatives.
const FORK: u64 = 3;

/// Computes the size of an NFA. It must agree with [`Compiler`] exactly; a test compares them.
struct Sizes<'c> {
    classes: &'c mut Classes,
    /// The sizes of the finished pieces of the open nodes.
    sizes: Vec<u64>,
}

impl Sizes<'_> {
    fn pop(&mut self) -> u64 {
        self.sizes.pop().expect("every piece has a size")
    }

    fn sum(&mut self, count: usize) -> u64 {
        (0..count).fold(0, |sum, _| sum.saturating_add(self.pop()))
    }
}

impl hir::Visitor for Sizes<'_> {
    type Output = u64;
    type Err = std::convert::Infallible;

    fn finish(mut self) -> Result<u64, Self::Err> {
        Ok(self.pop().saturating_add(1))
    }

    fn visit_post(&mut self, hir: &Hir) -> Result<(), Self::Err> {
        let size = match hir.kind() {
            HirKind::Empty => 0,
            HirKind::Literal(literal) => 2 * literal.0.len() as u64,
            HirKind::Class(class) => {
                let class = self.classes.add(hir, class);
                if class.matches_nothing() { 1 } else { (class.len() - 1 + class.edge_count()) as u64 }
            }
            HirKind::Look(_) => 1,
            HirKind::Capture(_) => self.pop(),
            HirKind::Concat(parts) => self.sum(parts.len()),
            HirKind::Alternation(parts) => self.sum(parts.len()).saturating_add(1 + parts.len() as u64),
            HirKind::Repetition(repetition) => {
                let once = self.pop();
                let min = u64::from(repetition.min);
                match repetition.max {
                    None => once.saturating_mul(min.max(1)).saturating_add(FORK),
                    Some(max) => once
                        .saturating_mul(u64::from(max))
                        .saturating_add((u64::from(max) - min).saturating_mul(FORK)),
                }
            }
        };
        self.sizes.push(size);
        Ok(())
    }
}

/// The remaining work, as a stack.
enum Task<'h> {
    /// Compile a piece before `next`.
    Compile(&'h Hir),
    /// Compile the alternatives from `at` on before `join`; `entries` has the entries of the earlier ones.
    Alternatives { parts: &'h [Hir], at: usize, join: NfaId, entries: Vec<NfaId> },
    /// Compile `left` more optional copies, each with an edge to `exit`.
    Optional { sub: &'h Hir, left: u32, exit: NfaId },
    /// Record that the states from `begin` on are `copies` optional copies.
    Chain { begin: u32, copies: u32 },
    /// Make the piece that begins at `next` optional.
    Fork { exit: NfaId },
    /// Compile `left` more copies.
    Copies { sub: &'h Hir, left: u32 },
    /// Close the loop at `fork`, after its body was compiled. The loop's entry is the body if it runs at least once.
    Loop { fork: NfaId, exit: NfaId, at_least_once: bool },
}

struct Compiler<'c> {
    classes: &'c Classes,
    nfa: Nfa,
    /// The target of the next piece.
    next: NfaId,
}

impl<'c> Compiler<'c> {
    fn new(classes: &'c Classes) -> Self {
        let accept = NfaId(0);
        let nfa = Nfa {
            states: vec![NfaState::Accept],
            transitions: vec![],
            alternatives: vec![],
            start: accept,
            chains: vec![],
        };
        Self { classes, nfa, next: accept }
    }

    fn compile(mut self, hir: &Hir) -> Nfa {
        let mut tasks = vec![Task::Compile(hir)];
        while let Some(task) = tasks.pop() {
            self.run(task, &mut tasks);
        }
        self.nfa.start = self.next;
        self.nfa
    }

    fn run<'h>(&mut self, task: Task<'h>, tasks: &mut Vec<Task<'h>>) {
        match task {
            Task::Compile(hir) => self.piece(hir, tasks),
            Task::Alternatives { parts, at, join, mut entries } => {
                if at > 0 {
                    entries.push(self.next);
                }
                if let Some(part) = parts.get(at) {
                    self.next = join;
                    tasks.push(Task::Alternatives { parts, at: at + 1, join, entries });
                    tasks.push(Task::Compile(part));
                } else {
                    self.next = self.push_split(&entries);
                }
            }
            Task::Optional { sub, left, exit } => {
                if left > 0 {
                    tasks.push(Task::Optional { sub, left: left - 1, exit });
                    tasks.push(Task::Fork { exit });
                    tasks.push(Task::Compile(sub));
                }
            }
            Task::Chain { begin, copies } => {
                let end = index(self.nfa.states.len());
                self.nfa.chains.push(Chain { begin, end, stride: (end - begin) / copies });
            }
            Task::Fork { exit } => self.next = self.push_split(&[self.next, exit]),
            Task::Copies { sub, left } => {
                if left > 0 {
                    tasks.push(Task::Copies { sub, left: left - 1 });
                    tasks.push(Task::Compile(sub));
                }
            }
            Task::Loop { fork, exit, at_least_once } => {
                let first = self.push_alternatives(&[self.next, exit]);
                self.nfa.states[fork.index()] = NfaState::Split { first, last: first + 2 };
                if !at_least_once {
                    self.next = fork;
                }
            }
        }
    }

    fn piece<'h>(&mut self, hir: &'h Hir, tasks: &mut Vec<Task<'h>>) {
        match hir.kind() {
            HirKind::Empty => {}
            HirKind::Literal(literal) => {
                for byte in literal.0.iter().rev() {
                    let first = self.push_transition(*byte, *byte, self.next);
                    self.next = self.push(NfaState::Bytes { first, last: first + 1 });
                }
            }
            HirKind::Class(_) => self.class(hir),
            HirKind::Look(look) => {
                let state = match look {
                    Look::Start => NfaState::AtStart(self.next),
                    Look::End => NfaState::AtEnd(self.next),
                    _ => unreachable!("the syntax check admits no other look-around"),
                };
                self.next = self.push(state);
            }
            HirKind::Capture(capture) => tasks.push(Task::Compile(&capture.sub)),
            // The tasks are a stack, so the last part is compiled first.
            HirKind::Concat(parts) => tasks.extend(parts.iter().map(Task::Compile)),
            HirKind::Alternation(parts) => {
                tasks.push(Task::Alternatives { parts, at: 0, join: self.next, entries: vec![] });
            }
            HirKind::Repetition(repetition) => {
                let (sub, min) = (&*repetition.sub, repetition.min);
                match repetition.max {
                    None => {
                        tasks.push(Task::Copies { sub, left: min.saturating_sub(1) });
                        let fork = self.push(NfaState::Split { first: 0, last: 0 });
                        tasks.push(Task::Loop { fork, exit: self.next, at_least_once: min > 0 });
                        tasks.push(Task::Compile(sub));
                        self.next = fork;
                    }
                    Some(max) => {
                        tasks.push(Task::Copies { sub, left: min });
                        let (left, begin) = (max - min, index(self.nfa.states.len()));
                        if left > 1 {
                            tasks.push(Task::Chain { begin, copies: left });
                        }
                        tasks.push(Task::Optional { sub, left, exit: self.next });
                    }
                }
            }
        }
    }

    /// Copies the automaton of a class, with `next` as its accepting node.
    fn class(&mut self, hir: &Hir) {
        let class = self.classes.get(hir);
        if class.matches_nothing() {
            self.next = self.push(NfaState::Bytes { first: 0, last: 0 });
            return;
        }
        let (after, base) = (self.next, self.nfa.states.len());
        // Node 0 is the accepting one; the other nodes follow `base` in their order.
        for node in 1..class.len() {
            let first = index(self.nfa.transitions.len());
            for edge in class.edges(node) {
                let next = if edge.to == 0 { after } else { NfaId(index(base) + edge.to - 1) };
                self.push_transition(edge.first, edge.last, next);
            }
            self.next = self.push(NfaState::Bytes { first, last: index(self.nfa.transitions.len()) });
        }
    }

    fn push(&mut self, state: NfaState) -> NfaId {
        self.nfa.states.push(state);
        NfaId(index(self.nfa.states.len() - 1))
    }

    fn push_transition(&mut self, first: u8, last: u8, next: NfaId) -> u32 {
        self.nfa.transitions.push(Transition { first, last, next });
        index(self.nfa.transitions.len() - 1)
    }

    fn push_alternatives(&mut self, alternatives: &[NfaId]) -> u32 {
        let first = index(self.nfa.alternatives.len());
        self.nfa.alternatives.extend_from_slice(alternatives);
        first
    }

    fn push_split(&mut self, alternatives: &[NfaId]) -> NfaId {
        let first = self.push_alternatives(alternatives);
        self.push(NfaState::Split { first, last: first + index(alternatives.len()) })
    }
}

/// Assembles an NFA from automata, from the end of its texts to the beginning. A step that would exceed
/// [`Limits::nfa_size`] fails instead.
pub(crate) struct Assembly {
    nfa: Nfa,
    /// The target of the next part.
    next: NfaId,
    limit: u64,
}

impl Assembly {
    /// An NFA of the empty text.
    pub(crate) fn new(limits: &Limits) -> Self {
        let end = NfaId(0);
        let nfa = Nfa {
            states: vec![NfaState::Accept],
            transitions: vec![],
            alternatives: vec![],
            start: end,
            chains: vec![],
        };
        // Ids are 32 bits wide.
        Self { nfa, next: end, limit: limits.nfa_size.min(u64::from(u32::MAX)) }
    }

    /// The beginning of the NFA so far.
    pub(crate) fn next(&self) -> NfaId {
        self.next
    }

    /// Continues from `state`, another beginning.
    pub(crate) fn continue_at(&mut self, state: NfaId) {
        self.next = state;
    }

    /// Adds a copy of `dfa` before the beginning.
    pub(crate) fn copy(&mut self, dfa: &Dfa) -> Result<(), RegexError> {
        let after = self.next;
        // States of the copy that read are numbered from here on, in their order; after them follows a split for each
        // state that reads and accepts. A state that accepts and reads nothing is `after` itself.
        let base = index(self.nfa.states.len());
        let reads: Vec<Vec<Edge>> = dfa.states().map(|state| dfa.edges(state).collect()).collect();
        let splits =
            dfa.states().filter(|state| dfa.is_accepting(*state) && !reads[state.index()].is_empty());
        let splits: Vec<_> = splits.collect();
        let size = reads.len() + reads.iter().map(Vec::len).sum::<usize>() + 3 * splits.len();
        self.check(size)?;

        let mut entries: Vec<NfaId> = (0..index(reads.len())).map(|state| NfaId(base + state)).collect();
        for (state, edges) in dfa.states().zip(&reads) {
            if edges.is_empty() {
                entries[state.index()] = after;
            }
        }
        for (split, state) in (0..).zip(&splits) {
            entries[state.index()] = NfaId(base + index(reads.len()) + split);
        }
        for edges in reads {
            let first = index(self.nfa.transitions.len());
            for Edge { bytes, target } in edges {
                let next = entries[target.index()];
                self.nfa.transitions.push(Transition { first: *bytes.start(), last: *bytes.end(), next });
            }
            self.nfa.states.push(NfaState::Bytes { first, last: index(self.nfa.transitions.len()) });
        }
        for state in splits {
            self.push_split(&[NfaId(base + index(state.index())), after]);
        }
        self.next = entries[dfa.start().index()];
        Ok(())
    }

    /// Adds a choice among `alternatives`.
    pub(crate) fn split(&mut self, alternatives: &[NfaId]) -> Result<(), RegexError> {
        self.check(1 + alternatives.len())?;
        self.next = self.push_split(alternatives);
        Ok(())
    }

    /// Adds any number of copies of `dfa` before the beginning, as a loop.
    pub(crate) fn repeat(&mut self, dfa: &Dfa, at_least_once: bool) -> Result<(), RegexError> {
        self.check(3)?;
        let (exit, fork) = (self.next, self.push_split(&[]));
        self.next = fork;
        self.copy(dfa)?;
        let first = index(self.nfa.alternatives.len());
        self.nfa.alternatives.extend([self.next, exit]);
        self.nfa.states[fork.index()] = NfaState::Split { first, last: first + 2 };
        self.next = if at_least_once { self.next } else { fork };
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Nfa {
        self.nfa.start = self.next;
        self.nfa
    }

    fn push_split(&mut self, alternatives: &[NfaId]) -> NfaId {
        let first = index(self.nfa.alternatives.len());
        self.nfa.alternatives.extend_from_slice(alternatives);
        self.nfa.states.push(NfaState::Split { first, last: index(self.nfa.alternatives.len()) });
        NfaId(index(self.nfa.states.len() - 1))
    }

    /// An error if `more` states and transitions exceed the limit.
    fn check(&self, more: usize) -> Result<(), RegexError> {
        let nfa = &self.nfa;
        let size = (nfa.states.len() + nfa.transitions.len() + nfa.alternatives.len() + more) as u64;
        if size > self.limit {
            return Err(RegexError::NfaTooLarge { size, limit: self.limit });
        }
        Ok(())
    }
}

fn index(value: usize) -> u32 {
    u32::try_from(value).expect("the size was found to be within 32 bits")
}

#[cfg(test)]
mod tests;
