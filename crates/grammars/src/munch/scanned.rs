//! Products of pairs of terminal automata: whether two terminals have a common text, and the bytes with which
//! one continues where the other ends.
//!
//! Each product is computed once per pair, and only for pairs that share a first byte.

use hashbrown::{HashMap, HashSet};
use unskew_automata::StateId;
use unskew_trie::ByteSet;

use super::{Budget, ENTRY};
use crate::{
    GrammarError,
    ids::{Id, Table},
    network::terminals::{ScanTerminal, Scanner, Terminals},
    terminal::ReadState,
};

/// The result of reading two terminals in parallel.
#[derive(Default)]
struct Product {
    /// Whether they have a common text.
    together: bool,
    /// By terminal: whether the other one continues with every byte with which it continues.
    covered: [bool; 2],
    /// By terminal: for each state in which its text may end, the bytes with which the other one may continue there.
    going_on: [HashMap<ReadState, ByteSet>; 2],
}

/// The terminals of a grammar, and the products of pairs.
pub(super) struct Scanned<'a> {
    pub(super) terminals: &'a Terminals,
    /// By terminal: its first bytes.
    first: Table<ScanTerminal, ByteSet>,
    products: HashMap<(ScanTerminal, ScanTerminal), Product>,
    /// The distinct sets of first bytes of terminals.
    pub(super) beginnings: Vec<ByteSet>,
    /// By terminal that a rule uses: the index of its set.
    beginning: Table<ScanTerminal, Option<usize>>,
}

impl<'a> Scanned<'a> {
    /// `used`: by terminal, whether a rule uses it.
    pub(super) fn new(terminals: &'a Terminals, used: &Table<ScanTerminal, bool>) -> Self {
        let mut known: HashMap<ByteSet, usize> = HashMap::new();
        let (mut beginning, mut first) = (Table::default(), Table::default());
        let mut beginnings = Vec::new();
        for (terminal, is_used) in used.iter() {
            let mut bytes = ByteSet::default();
            match terminals.is_literal(terminal) {
                true => bytes.insert(terminals.literal(terminal)[0]),
                false => bytes = *terminals.first_bytes(terminal),
            }
            first.push(bytes);
            beginning.push(is_used.then(|| {
                *known.entry(bytes).or_insert_with(|| {
                    beginnings.push(bytes);
                    beginnings.len() - 1
                })
            }));
        }
        Self { terminals, first, products: HashMap::new(), beginnings, beginning }
    }

    /// The number of terminals.
    pub(super) fn len(&self) -> usize {
        self.first.len()
    }

    /// Whether `terminal` is a control token or the end of the output, and no text.
    pub(super) fn is_token(&self, terminal: ScanTerminal) -> bool {
        let terminals = self.terminals;
        !terminals.is_literal(terminal)
            && matches!(terminals.scanner(terminal), Scanner::Token(_) | Scanner::OneOf(_) | Scanner::End)
    }

    /// Whether `terminal` may follow a terminal that exits before the [beginnings](Self::beginnings) in `row`.
    pub(super) fn allows(&self, row: &[u64], terminal: ScanTerminal) -> bool {
        let has = |beginning: usize| row[beginning / 64] >> (beginning % 64) & 1 == 1;
        self.is_token(terminal) || self.beginning[terminal].is_some_and(has)
    }

    /// A row with all beginnings.
    pub(super) fn all(&self) -> Vec<u64> {
        let mut row = vec![0; self.beginnings.len().div_ceil(64)];
        (0..self.beginnings.len()).for_each(|at| row[at / 64] |= 1 << (at % 64));
        row
    }

    /// Whether the two terminals have a common text.
    pub(super) fn together(
        &mut self,
        left: ScanTerminal,
        right: ScanTerminal,
        budget: &mut Budget,
    ) -> Result<bool, GrammarError> {
        if left == right {
            return Ok(true);
        }
        if !self.first[left].meets(&self.first[right]) {
            return Ok(false);
        }
        let pair = self.product(left.min(right), left.max(right), budget)?;
        Ok(self.products[&pair].together)
    }

    /// Whether `other`, begun together with `terminal`, is still read at every byte at which `terminal` is.
    pub(super) fn covers(
        &mut self,
        other: ScanTerminal,
        terminal: ScanTerminal,
        budget: &mut Budget,
    ) -> Result<bool, GrammarError> {
        if other == terminal || !self.first[other].meets(&self.first[terminal]) {
            return Ok(false);
        }
        let pair = self.product(terminal.min(other), terminal.max(other), budget)?;
        Ok(self.products[&pair].covered[usize::from(pair.0 != terminal)])
    }

    /// The terminals in `beside` that may continue where `terminal` ends. `beside` is in ascending order.
    pub(super) fn rivals(&self, terminal: ScanTerminal, beside: &[ScanTerminal]) -> Vec<ScanTerminal> {
        let terminals = self.terminals;
        let literals = beside.partition_point(|other| terminals.is_literal(*other));
        let (literals, others) = beside.split_at(literals);
        let first = &self.first[terminal];
        let meets = |other: &&ScanTerminal| **other != terminal && first.meets(&self.first[**other]);
        let mut rivals: Vec<ScanTerminal> = Vec::new();
        if terminals.is_literal(terminal) {
            // Literals are sorted, so the literals that begin with this one follow it directly.
            let text = terminals.literal(terminal);
            let behind = literals.partition_point(|other| *other <= terminal);
            let longer = literals[behind..].iter();
            rivals.extend(longer.take_while(|other| terminals.literal(**other).starts_with(text)));
        } else {
            rivals.extend(literals.iter().filter(meets));
        }
        rivals.extend(others.iter().filter(meets));
        rivals
    }

    /// The [beginnings](Self::beginnings) before which a text of `terminal` can end, from each of its states
    /// and with any of the `rivals` read beside it; as a bit set.
    pub(super) fn exits(
        &mut self,
        terminal: ScanTerminal,
        rivals: &[ScanTerminal],
        budget: &mut Budget,
    ) -> Result<Vec<u64>, GrammarError> {
        if self.is_token(terminal) {
            return Ok(self.all());
        }
        // By state in which a text may end: the bytes with which a terminal continues there.
        let mut taken: HashMap<ReadState, ByteSet> = HashMap::new();
        let states = self.states(terminal);
        budget.spend(states.len() as u64)?;
        for state in &states {
            if self.is_accepting(terminal, *state) {
                taken.insert(*state, self.next_bytes(terminal, *state));
            }
        }
        for rival in rivals {
            let pair = self.product(terminal.min(*rival), terminal.max(*rival), budget)?;
            let going_on = &self.products[&pair].going_on[usize::from(pair.0 != terminal)];
            budget.spend(going_on.len() as u64)?;
            for (state, bytes) in going_on {
                if let Some(taken) = taken.get_mut(state) {
                    taken.union(bytes);
                }
            }
        }
        let mut row = vec![0; self.beginnings.len().div_ceil(64)];
        let mut before: Option<HashMap<ReadState, Vec<ReadState>>> = None;
        for (at, beginning) in self.beginnings.iter().enumerate() {
            budget.spend(taken.len() as u64)?;
            let is_free = |taken: &ByteSet| beginning.and(taken) != *beginning;
            let mut free: Vec<ReadState> =
                taken.iter().filter(|(_, taken)| is_free(taken)).map(|(state, _)| *state).collect();
            // Every state reaches an end, so it suffices if all ends are free.
            let mut is_free = free.len() == taken.len();
            if !is_free && !free.is_empty() && !self.terminals.is_literal(terminal) {
                let before = before.get_or_insert_with(|| self.before(terminal, &states));
                let mut seen: HashSet<ReadState> = free.iter().copied().collect();
                while let Some(state) = free.pop() {
                    let before = before.get(&state).map_or(&[][..], |before| &before[..]);
                    budget.spend(1 + before.len() as u64)?;
                    free.extend(before.iter().filter(|state| seen.insert(**state)));
                }
                is_free = states.iter().all(|state| seen.contains(state));
            }
            row[at / 64] |= u64::from(is_free) << (at % 64);
        }
        Ok(row)
    }

    /// The states of `terminal` after at least one byte. For a literal, only the last state.
    fn states(&self, terminal: ScanTerminal) -> Vec<ReadState> {
        if self.terminals.is_literal(terminal) {
            return vec![ReadState::from_index(self.terminals.literal_len(terminal))];
        }
        let Scanner::Automaton(dfa, _) = self.terminals.scanner(terminal) else { return Vec::new() };
        let mut seen = vec![false; dfa.len()];
        let mut found: Vec<StateId> = Vec::new();
        let mut at = dfa.start();
        for next in 0.. {
            for edge in dfa.edges(at) {
                if !std::mem::replace(&mut seen[edge.target.index()], true) {
                    found.push(edge.target);
                }
            }
            match found.get(next) {
                Some(state) => at = *state,
                None => break,
            }
        }
        found.into_iter().map(|state| ReadState::from_index(state.index())).collect()
    }

    /// By state of an automaton: its predecessors.
    fn before(&self, terminal: ScanTerminal, states: &[ReadState]) -> HashMap<ReadState, Vec<ReadState>> {
        let mut before: HashMap<ReadState, Vec<ReadState>> = HashMap::new();
        if let Scanner::Automaton(dfa, _) = self.terminals.scanner(terminal) {
            for state in states {
                for edge in dfa.edges(StateId::from_index(state.index())) {
                    let target = ReadState::from_index(edge.target.index());
                    before.entry(target).or_default().push(*state);
                }
            }
        }
        before
    }

    /// Computes the product of two terminals, and returns its key.
    fn product(
        &mut self,
        left: ScanTerminal,
        right: ScanTerminal,
        budget: &mut Budget,
    ) -> Result<(ScanTerminal, ScanTerminal), GrammarError> {
        if self.products.contains_key(&(left, right)) {
            return Ok((left, right));
        }
        let bytes = self.terminals.bytes();
        let mut product = Product { covered: [true; 2], ..Product::default() };
        let mut seen: HashSet<(ReadState, ReadState)> = HashSet::new();
        let mut open: Vec<(ReadState, ReadState)> = Vec::new();
        // The pair of states: `None` before the first byte.
        let mut at: Option<(ReadState, ReadState)> = None;
        loop {
            let (left_on, right_on) = match at {
                None => (self.first[left], self.first[right]),
                Some((one, other)) => (self.next_bytes(left, one), self.next_bytes(right, other)),
            };
            budget.spend(ENTRY)?;
            for (covered, (one, other)) in
                product.covered.iter_mut().zip([(left_on, right_on), (right_on, left_on)])
            {
                *covered &= one.and(&other) == one;
            }
            for byte in bytes.iter().filter(|byte| left_on.contains(**byte) && right_on.contains(**byte)) {
                budget.spend(1)?;
                let next = match at {
                    None => (self.begin(left, *byte), self.begin(right, *byte)),
                    Some((one, other)) => (self.go_on(left, one, *byte), self.go_on(right, other, *byte)),
                };
                if let (Some(one), Some(other)) = next
                    && seen.insert((one, other))
                {
                    open.push((one, other));
                }
            }
            let Some(pair) = open.pop() else { break };
            let ends = (self.is_accepting(left, pair.0), self.is_accepting(right, pair.1));
            product.together |= ends.0 && ends.1;
            for (ends, side, state, bytes) in [
                (ends.0, 0, pair.0, self.next_bytes(right, pair.1)),
                (ends.1, 1, pair.1, self.next_bytes(left, pair.0)),
            ] {
                if ends {
                    let known = product.going_on[side].entry(state).or_default();
                    known.union(&bytes);
                }
            }
            at = Some(pair);
        }
        self.products.insert((left, right), product);
        Ok((left, right))
    }

    fn begin(&self, terminal: ScanTerminal, byte: u8) -> Option<ReadState> {
        match self.terminals.is_literal(terminal) {
            true => (self.terminals.literal(terminal)[0] == byte).then_some(ReadState::of(1)),
            false => self.terminals.first(terminal, self.terminals.class(byte)).map(ReadState::from),
        }
    }

    fn go_on(&self, terminal: ScanTerminal, state: ReadState, byte: u8) -> Option<ReadState> {
        match self.terminals.is_literal(terminal) {
            true => match self.terminals.literal(terminal).get(state.index()) {
                Some(next) if *next == byte => Some(ReadState::from_index(state.index() + 1)),
                _ => None,
            },
            false => {
                let class = self.terminals.class(byte);
                self.terminals.step(terminal, state.scan_state(), class).map(ReadState::from)
            }
        }
    }

    fn next_bytes(&self, terminal: ScanTerminal, state: ReadState) -> ByteSet {
        if !self.terminals.is_literal(terminal) {
            return self.terminals.next_bytes(terminal, state.scan_state());
        }
        let mut bytes = ByteSet::default();
        let next = self.terminals.literal(terminal).get(state.index());
        next.into_iter().for_each(|byte| bytes.insert(*byte));
        bytes
    }

    fn is_accepting(&self, terminal: ScanTerminal, state: ReadState) -> bool {
        match self.terminals.is_literal(terminal) {
            true => self.terminals.literal_len(terminal) == state.index(),
            false => self.terminals.is_accepting(terminal, state.scan_state()),
        }
    }
}
