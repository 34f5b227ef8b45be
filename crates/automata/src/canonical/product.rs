//! The constraint and the tokenizer's splitting, read side by side byte by byte.
//!
//! A state is a state of the constraint's DFA, one of the automaton of texts that the encoder takes as they are, and one of
//! the automaton of marked texts. Reading bytes stays inside a piece; a **mark** asserts that a piece ends here and leads
//! to a *fresh* state, from which the next piece begins. At the end of a token both may be possible for a while: whether
//! two blanks are a piece depends on what follows. What follows is part of the constraint, so most assertions that cannot
//! come true lead to no accepted text at all, and are removed here.
//!
//! The product is built whole, byte by byte, before any token is looked at: hundreds of states for a date, a few thousand
//! for a thousand words. Built lazily instead, every mask would go through a hash map, and dead ends would show up only
//! after they were entered.

use std::collections::HashMap;

use super::{
    CanonicalError, automaton::TokenizerAutomaton, error::NothingCanonical, nfc::nfc, text::TextDfa,
};
use crate::{Dfa, Limits, StateId, table::DEAD};

/// The product automaton. Every state is reachable and can reach an accepting one, over bytes.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    /// The column of each byte.
    pub(crate) classes: Box<[u8; 256]>,
    pub(crate) width: usize,
    /// `next[state * width + column]` is a state or [`DEAD`].
    pub(crate) next: Vec<u32>,
    /// The same through fallback tokens; empty where there are none.
    pub(crate) fallback: Vec<u32>,
    /// By state: the fresh state behind a boundary here, or [`DEAD`].
    pub(crate) mark: Vec<u32>,
    pub(crate) accepting: Vec<bool>,
    /// By state: whether a piece begins here, so that no token of it stands in front.
    pub(crate) fresh: Vec<bool>,
    /// Added tokens: state, token, and the state behind it, in ascending order.
    pub(crate) added: Vec<(u32, u32, u32)>,
    pub(crate) start: u32,
    /// The states from the nearest to an accepting one to the farthest.
    pub(crate) by_distance: Vec<u32>,
    /// Of a block ([`super::vegas`]): the end from which bytes lead on, whatever stands in front; else [`DEAD`].
    pub(crate) leads_on: u32,
}

/// What a state is made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Parts {
    regex: StateId,
    text: u32,
    nfc: u32,
    split: u32,
    fresh: bool,
}

struct Builder<'a> {
    dfa: &'a Dfa,
    tokenizer: &'a TokenizerAutomaton,
    /// The texts in normalisation form C, if only these are encoded as they are; else any.
    nfc: &'a TextDfa,
    limit: usize,
    ids: HashMap<Parts, u32>,
    states: Vec<Parts>,
}

impl Product {
    /// Reads `dfa` beside the tokenizer's automata. O(n k) for n states and k byte classes.
    ///
    /// # Errors
    ///
    /// [`CanonicalError::TooManyProductStates`], and [`CanonicalError::NothingCanonical`] if no text is accepted.
    pub(crate) fn new(
        dfa: &Dfa,
        tokenizer: &TokenizerAutomaton,
        limits: &Limits,
    ) -> Result<Self, CanonicalError> {
        let any = TextDfa::any();
        let nfc = if tokenizer.nfc && dfa.bytes().any(|byte| !byte.is_ascii()) { nfc() } else { &any };
        let mut builder = Builder {
            dfa,
            tokenizer,
            nfc,
            limit: limits.product_states,
            ids: HashMap::new(),
            states: Vec::new(),
        };
        let TokenizerAutomaton { split, text, .. } = tokenizer;
        // Columns: bytes that none of the three tells apart. Bytes that the constraint never reads share one.
        let mut used = [false; 256];
        dfa.bytes().for_each(|byte| used[usize::from(byte)] = true);
        let mut columns: HashMap<Option<[u8; 4]>, u8> = HashMap::new();
        let mut classes = Box::new([0; 256]);
        let mut column_bytes = Vec::new();
        for byte in 0..=255u8 {
            let classes_of = [dfa.classes(), &text.classes, &nfc.classes, &split.classes];
            let key = used[usize::from(byte)].then(|| classes_of.map(|classes| classes.get(byte)));
            let next = column_bytes.len();
            let column = *columns.entry(key).or_insert_with(|| {
                column_bytes.push(byte);
                u8::try_from(next).expect("256 bytes have at most 256 columns")
            });
            classes[usize::from(byte)] = column;
        }
        let width = column_bytes.len();
        let has_fallback = !split.fallback.is_empty();

        let start = builder.id(Parts {
            regex: dfa.start(),
            text: text.start,
            nfc: nfc.start,
            split: split.start,
            fresh: true,
        })?;
        let (mut next, mut fallback, mut mark) = (Vec::new(), Vec::new(), Vec::new());
        let (mut accepting, mut fresh, mut added) = (Vec::new(), Vec::new(), Vec::new());
        let mut at = 0;
        while let Some(parts) = builder.states.get(at).copied() {
            let ends = split.accepting[parts.split as usize];
            accepting.push(ends && dfa.is_accepting(parts.regex));
            fresh.push(parts.fresh);
            mark.push(match split.mark[parts.split as usize] {
                DEAD => DEAD,
                marked => builder.id(Parts { split: marked, fresh: true, ..parts })?,
            });
            for byte in &column_bytes {
                next.push(builder.step(parts, *byte, &split.next)?);
                if has_fallback {
                    fallback.push(builder.step(parts, *byte, &split.fallback)?);
                }
            }
            if ends {
                for (token, content) in &tokenizer.added {
                    if let Some(regex) = dfa.run(parts.regex, content) {
                        let behind = builder.id(Parts {
                            regex,
                            text: text.start,
                            nfc: nfc.start,
                            split: split.start,
                            fresh: true,
                        })?;
                        added.push((u32::try_from(at).expect("limited"), *token, behind));
                    }
                }
            }
            at += 1;
        }
        let product = Self {
            classes,
            width,
            next,
            fallback,
            mark,
            accepting,
            fresh,
            added,
            start,
            by_distance: Vec::new(),
            leads_on: DEAD,
        };
        product.trimmed().ok_or(CanonicalError::NothingCanonical { reason: NothingCanonical::Rewritten })
    }

    pub(crate) fn len(&self) -> usize {
        self.accepting.len()
    }

    #[inline]
    pub(crate) fn step(&self, state: u32, byte: u8) -> u32 {
        self.next[state as usize * self.width + usize::from(self.classes[usize::from(byte)])]
    }

    /// The state behind a fallback token of `byte`.
    #[inline]
    pub(crate) fn step_fallback(&self, state: u32, byte: u8) -> u32 {
        match self.fallback.get(state as usize * self.width + usize::from(self.classes[usize::from(byte)])) {
            Some(next) => *next,
            None => DEAD,
        }
    }

    pub(crate) fn run(&self, state: u32, bytes: &[u8]) -> Option<u32> {
        bytes.iter().try_fold(state, |state, byte| Some(self.step(state, *byte)).filter(|next| *next != DEAD))
    }

    /// The added tokens that may follow in `state`, with the states behind them.
    pub(crate) fn added(&self, state: u32) -> impl Iterator<Item = (u32, u32)> {
        let begin = self.added.partition_point(|(from, ..)| *from < state);
        self.added[begin..]
            .iter()
            .take_while(move |(from, ..)| *from == state)
            .map(|(_, token, to)| (*token, *to))
    }

    /// The transitions over bytes, by the states that they lead to.
    pub(crate) fn sources(&self) -> Sources {
        let mut edges: Vec<(u32, u8, u32)> = Vec::new();
        for table in [&self.next, &self.fallback] {
            for (source, row) in (0u32..).zip(table.chunks_exact(self.width)) {
                let targets = (0..=255u8).zip(row).filter(|(_, target)| **target != DEAD);
                edges.extend(targets.map(|(column, target)| (*target, column, source)));
            }
        }
        edges.sort_unstable();
        edges.dedup();
        let mut first = vec![0; self.len() + 1];
        edges.iter().for_each(|(target, ..)| first[*target as usize + 1] += 1);
        for state in 0..self.len() {
            first[state + 1] += first[state];
        }
        Sources { first, edges: edges.into_iter().map(|(_, column, source)| (column, source)).collect() }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.next[..])
            + size_of_val(&self.fallback[..])
            + self.len() * (2 * size_of::<u32>() + 2)
            + size_of_val(&self.added[..])
    }

    /// All transitions out of `state`, of every kind.
    fn targets(&self, state: usize) -> impl Iterator<Item = u32> {
        let row = |table: &[u32]| {
            let begin = (state * self.width).min(table.len());
            begin..(begin + self.width).min(table.len())
        };
        let next = &self.next[row(&self.next)];
        let fallback = &self.fallback[row(&self.fallback)];
        let added = self.added(u32::try_from(state).expect("limited")).map(|(_, target)| target);
        next.iter()
            .chain(fallback)
            .copied()
            .chain([self.mark[state]])
            .filter(|target| *target != DEAD)
            .chain(added)
    }

    /// Without the states from which no accepting one can be reached; `None` if the start is one of them.
    fn trimmed(self) -> Option<Self> {
        // Sources by target.
        let len = self.len();
        let mut first = vec![0u32; len + 1];
        let deduped = |state: usize| {
            let mut targets: smallvec::SmallVec<[u32; 32]> = self.targets(state).collect();
            targets.sort_unstable();
            targets.dedup();
            targets
        };
        for state in 0..len {
            deduped(state).iter().for_each(|target| first[*target as usize + 1] += 1);
        }
        for state in 0..len {
            first[state + 1] += first[state];
        }
        let mut sources = vec![0u32; first[len] as usize];
        let mut filled = first.clone();
        for state in 0..len {
            for target in deduped(state) {
                let place = &mut filled[target as usize];
                sources[*place as usize] = u32::try_from(state).expect("limited");
                *place += 1;
            }
        }
        // Breadth-first from the accepting states.
        let mut distance = vec![DEAD; len];
        let mut order: Vec<u32> =
            (0u32..).zip(&self.accepting).filter(|(_, a)| **a).map(|(s, _)| s).collect();
        order.iter().for_each(|state| distance[*state as usize] = 0);
        let mut at = 0;
        while let Some(state) = order.get(at).copied() {
            for source in &sources[first[state as usize] as usize..first[state as usize + 1] as usize] {
                if distance[*source as usize] == DEAD {
                    distance[*source as usize] = distance[state as usize] + 1;
                    order.push(*source);
                }
            }
            at += 1;
        }
        if distance[self.start as usize] == DEAD {
            return None;
        }
        // Of equally distant states the later ones first: in a counted repetition they are what earlier ones lead to.
        order.sort_unstable_by_key(|state| (distance[*state as usize], std::cmp::Reverse(*state)));
        let mut new_id = distance;
        let alive: Vec<usize> = (0..len).filter(|state| new_id[*state] != DEAD).collect();
        for (new, old) in (0u32..).zip(&alive) {
            new_id[*old] = new;
        }
        let renamed = |state: u32| if state == DEAD { DEAD } else { new_id[state as usize] };
        let rows = |table: &[u32]| {
            let rows =
                alive.iter().filter_map(|state| table.get(state * self.width..(state + 1) * self.width));
            rows.flatten().map(|target| renamed(*target)).collect::<Vec<u32>>()
        };
        let added = self.added.iter().map(|(from, token, to)| (renamed(*from), *token, renamed(*to)));
        Some(Self {
            next: rows(&self.next),
            fallback: rows(&self.fallback),
            mark: alive.iter().map(|state| renamed(self.mark[*state])).collect(),
            accepting: alive.iter().map(|state| self.accepting[*state]).collect(),
            fresh: alive.iter().map(|state| self.fresh[*state]).collect(),
            added: added.filter(|(from, _, to)| *from != DEAD && *to != DEAD).collect(),
            start: renamed(self.start),
            by_distance: order.iter().map(|state| renamed(*state)).collect(),
            classes: self.classes,
            width: self.width,
            leads_on: DEAD,
        })
    }
}

/// The transitions of a [`Product`] over bytes, backwards.
pub(crate) struct Sources {
    /// By state: where its edges begin.
    first: Vec<usize>,
    /// Columns and sources, in ascending order.
    edges: Vec<(u8, u32)>,
}

impl Sources {
    /// Columns and sources of the transitions that lead into `state`.
    pub(crate) fn of(&self, state: u32) -> &[(u8, u32)] {
        &self.edges[self.first[state as usize]..self.first[state as usize + 1]]
    }

    /// The bytes that lead into `state`, one bit each.
    pub(crate) fn bytes(&self, product: &Product, state: u32) -> [u64; 4] {
        let mut columns = [false; 256];
        self.of(state).iter().for_each(|(column, _)| columns[usize::from(*column)] = true);
        let mut bytes = [0; 4];
        for byte in (0..=255u8).filter(|byte| columns[usize::from(product.classes[usize::from(*byte)])]) {
            bytes[usize::from(byte / 64)] |= 1 << (byte % 64);
        }
        bytes
    }

    /// Whether `text`, read from some state, leads to `state`.
    pub(crate) fn arrives(&self, product: &Product, state: u32, text: &[u8]) -> bool {
        let mut at: Vec<u32> = vec![state];
        for byte in text.iter().rev() {
            let column = product.classes[usize::from(*byte)];
            let mut before: Vec<u32> = Vec::new();
            for state in at {
                let edges = self.of(state);
                let begin = edges.partition_point(|(other, _)| *other < column);
                let here = edges[begin..].iter().take_while(|(other, _)| *other == column);
                before.extend(here.map(|(_, source)| *source));
            }
            before.sort_unstable();
            before.dedup();
            at = before;
            if at.is_empty() {
                return false;
            }
        }
        true
    }
}

impl Builder<'_> {
    fn id(&mut self, parts: Parts) -> Result<u32, CanonicalError> {
        if let Some(id) = self.ids.get(&parts) {
            return Ok(*id);
        }
        if self.states.len() >= self.limit {
            return Err(CanonicalError::TooManyProductStates { limit: self.limit });
        }
        let id = u32::try_from(self.states.len())
            .map_err(|_| CanonicalError::TooManyProductStates { limit: self.limit })?;
        self.ids.insert(parts, id);
        self.states.push(parts);
        Ok(id)
    }

    /// The state behind `byte`, where `split_next` is one of the tables of the automaton of marked texts.
    fn step(&mut self, from: Parts, byte: u8, split_next: &[u32]) -> Result<u32, CanonicalError> {
        let TokenizerAutomaton { split, text, .. } = self.tokenizer;
        let Some(regex) = self.dfa.step(from.regex, byte) else { return Ok(DEAD) };
        let (text, nfc) = (text.step(from.text, byte), self.nfc.step(from.nfc, byte));
        let column = usize::from(split.classes.get(byte));
        let split = split_next[from.split as usize * split.classes.len() + column];
        if text == DEAD || nfc == DEAD || split == DEAD {
            return Ok(DEAD);
        }
        self.id(Parts { regex, text, nfc, split, fresh: false })
    }
}
