//! The product of the constraint with the tokenizer's splitting, built whole: all
//! [positions](crate::canonical::viability::position).
//!
//! Most boundary assertions that cannot come true lead to no accepted text. They are removed here, with all other
//! states that are not live. The product has hundreds of states for a date and a few thousand for a thousand words.
//! A counted repetition of a wide class meets every state of the splitter and of UTF-8 and has hundreds of
//! thousands, so the canonical engine explores the product on demand.

use rustc_hash::FxHashMap as Map;

use crate::{
    CanonicalError, Limits,
    canonical::viability::{context::Context, language::DfaLanguage, position::Position},
    dfa::table::DEAD,
    ids::{Id, ProductState},
};

/// The product automaton. Every state is reachable over bytes, boundaries and added tokens, and can reach an
/// accepting state.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    /// The column of each byte.
    pub(crate) classes: Box<[u8; 256]>,
    pub(crate) width: usize,
    /// `next[state * width + column]` is a state or [`DEAD`].
    pub(crate) next: Vec<u32>,
    /// The same for fallback tokens; empty if there are none.
    pub(crate) fallback: Vec<u32>,
    /// By state: the piece start after a boundary here, or [`DEAD`].
    pub(crate) mark: Vec<u32>,
    pub(crate) accepting: Vec<bool>,
    /// By state: whether a piece begins here, so that no token of the piece precedes it.
    pub(crate) at_piece_start: Vec<bool>,
    /// Added tokens: state, token, and the state after it, in ascending order.
    pub(crate) added: Vec<(u32, u32, u32)>,
    pub(crate) start: u32,
    /// By state: its position; empty for a block.
    pub(crate) positions: Vec<Position>,
    /// The states in the order of their distance to an accepting state, the nearest first.
    pub(crate) by_distance: Vec<ProductState>,
    /// In a block ([`super::block`]): the end state from which bytes continue; any token may precede it.
    pub(crate) continuing_end: Option<ProductState>,
}

struct Builder {
    limit: usize,
    ids: Map<Position, u32>,
    states: Vec<Position>,
}

impl Product {
    /// Explores the product of the constraint's automata. O(n k) for n states and k byte classes.
    ///
    /// # Errors
    ///
    /// [`CanonicalError::TooManyProductStates`], and [`CanonicalError::NothingCanonical`] if no text is accepted.
    pub(crate) fn new(context: Context<'_, DfaLanguage>, limits: &Limits) -> Result<Self, CanonicalError> {
        let automata = context.automata();
        let mut builder = Builder { limit: limits.product_states, ids: Map::default(), states: Vec::new() };
        let (classes, column_bytes) = automata.columns();
        let has_fallback = automata.tokenizer.split.has_fallback();
        let start = builder.id(Some(automata.start()))?;
        let (mut next, mut fallback, mut mark) = (Vec::new(), Vec::new(), Vec::new());
        let (mut accepting, mut at_piece_start, mut added) = (Vec::new(), Vec::new(), Vec::new());
        let mut at = 0;
        while let Some(position) = builder.states.get(at).copied() {
            limits.check_cancelled()?;
            accepting.push(automata.is_accepting(position));
            at_piece_start.push(position.at_piece_start);
            mark.push(builder.id(automata.mark(position))?);
            for byte in &column_bytes {
                next.push(builder.id(automata.step(position, *byte))?);
                if has_fallback {
                    fallback.push(builder.id(automata.step_fallback(position, *byte))?);
                }
            }
            for (token, after) in automata.added(position) {
                let after = builder.id(Some(after))?;
                added.push((u32::try_from(at).expect("limited"), token, after));
            }
            at += 1;
        }
        let product = Self {
            classes,
            width: column_bytes.len(),
            next,
            fallback,
            mark,
            accepting,
            at_piece_start,
            added,
            start,
            positions: builder.states,
            by_distance: Vec::new(),
            continuing_end: None,
        };
        product.trimmed().ok_or_else(|| CanonicalError::NothingCanonical { reason: context.why_nothing() })
    }

    pub(crate) fn len(&self) -> usize {
        self.accepting.len()
    }

    /// All states, in ascending order.
    pub(crate) fn states(&self) -> impl Iterator<Item = ProductState> + use<> {
        (0..self.len()).map(ProductState::from_index)
    }

    /// The entry of `next` for a state and a byte.
    #[inline]
    pub(crate) fn next_entry(&self, state: u32, byte: u8) -> u32 {
        self.next[state as usize * self.width + usize::from(self.classes[usize::from(byte)])]
    }

    #[inline]
    pub(crate) fn step(&self, state: ProductState, byte: u8) -> Option<ProductState> {
        ProductState::of_entry(self.next_entry(state.raw(), byte))
    }

    /// The state after a fallback token of `byte`.
    #[inline]
    pub(crate) fn step_fallback(&self, state: ProductState, byte: u8) -> Option<ProductState> {
        let entry = state.index() * self.width + usize::from(self.classes[usize::from(byte)]);
        self.fallback.get(entry).and_then(|next| ProductState::of_entry(*next))
    }

    pub(crate) fn run(&self, state: ProductState, bytes: &[u8]) -> Option<ProductState> {
        bytes.iter().try_fold(state, |state, byte| self.step(state, *byte))
    }

    /// The piece start after a boundary in `state`.
    pub(crate) fn mark(&self, state: ProductState) -> Option<ProductState> {
        ProductState::of_entry(self.mark[state.index()])
    }

    /// The added tokens that may follow in `state`, with the states after them.
    pub(crate) fn added(&self, state: ProductState) -> impl Iterator<Item = (u32, ProductState)> {
        let begin = self.added.partition_point(|(from, ..)| *from < state.raw());
        self.added[begin..]
            .iter()
            .take_while(move |(from, ..)| *from == state.raw())
            .map(|(_, token, to)| (*token, ProductState::of(*to)))
    }

    /// The transitions over bytes, by their targets.
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
        Sources {
            first,
            edges: edges.into_iter().map(|(_, column, source)| (column, ProductState::of(source))).collect(),
        }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.next[..])
            + size_of_val(&self.fallback[..])
            + self.len() * (2 * size_of::<u32>() + 2)
            + size_of_val(&self.added[..])
            + size_of_val(&self.positions[..])
    }

    /// All transitions out of `state`, of every kind.
    fn targets(&self, state: usize) -> impl Iterator<Item = u32> {
        let row = |table: &[u32]| {
            let begin = (state * self.width).min(table.len());
            begin..(begin + self.width).min(table.len())
        };
        let next = &self.next[row(&self.next)];
        let fallback = &self.fallback[row(&self.fallback)];
        let added = self.added(ProductState::from_index(state)).map(|(_, target)| target.raw());
        next.iter()
            .chain(fallback)
            .copied()
            .chain([self.mark[state]])
            .filter(|target| *target != DEAD)
            .chain(added)
    }

    /// The product without states that are not live; `None` if the start is one of them.
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
        // Of equally distant states the later ones come first: in a counted repetition, earlier states lead to later
        // ones.
        order.sort_unstable_by_key(|state| (distance[*state as usize], std::cmp::Reverse(*state)));
        let mut new_id = distance;
        let live: Vec<usize> = (0..len).filter(|state| new_id[*state] != DEAD).collect();
        for (new, old) in (0u32..).zip(&live) {
            new_id[*old] = new;
        }
        let renamed = |state: u32| if state == DEAD { DEAD } else { new_id[state as usize] };
        let rows = |table: &[u32]| {
            let rows =
                live.iter().filter_map(|state| table.get(state * self.width..(state + 1) * self.width));
            rows.flatten().map(|target| renamed(*target)).collect::<Vec<u32>>()
        };
        let added = self.added.iter().map(|(from, token, to)| (renamed(*from), *token, renamed(*to)));
        Some(Self {
            next: rows(&self.next),
            fallback: rows(&self.fallback),
            mark: live.iter().map(|state| renamed(self.mark[*state])).collect(),
            accepting: live.iter().map(|state| self.accepting[*state]).collect(),
            at_piece_start: live.iter().map(|state| self.at_piece_start[*state]).collect(),
            added: added.filter(|(from, _, to)| *from != DEAD && *to != DEAD).collect(),
            start: renamed(self.start),
            positions: live.iter().map(|state| self.positions[*state]).collect(),
            by_distance: order.iter().map(|state| ProductState::of(renamed(*state))).collect(),
            classes: self.classes,
            width: self.width,
            continuing_end: None,
        })
    }
}

/// The transitions of a [`Product`] over bytes, backwards.
pub(crate) struct Sources {
    /// By state: the index of its first edge.
    first: Vec<usize>,
    /// Columns and sources, in ascending order.
    edges: Vec<(u8, ProductState)>,
}

impl Sources {
    /// Columns and sources of the transitions that lead into `state`.
    pub(crate) fn of(&self, state: ProductState) -> &[(u8, ProductState)] {
        &self.edges[self.first[state.index()]..self.first[state.index() + 1]]
    }

    /// The bytes that lead into `state`, one bit each.
    pub(crate) fn bytes(&self, product: &Product, state: ProductState) -> [u64; 4] {
        let mut columns = [false; 256];
        self.of(state).iter().for_each(|(column, _)| columns[usize::from(*column)] = true);
        let mut bytes = [0; 4];
        for byte in (0..=255u8).filter(|byte| columns[usize::from(product.classes[usize::from(*byte)])]) {
            bytes[usize::from(byte / 64)] |= 1 << (byte % 64);
        }
        bytes
    }

    /// Whether reading `text` from some state leads to `state`.
    pub(crate) fn arrives(&self, product: &Product, state: ProductState, text: &[u8]) -> bool {
        let mut at: Vec<ProductState> = vec![state];
        for byte in text.iter().rev() {
            let column = product.classes[usize::from(*byte)];
            let mut before: Vec<ProductState> = Vec::new();
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

impl Builder {
    /// The number of a position, assigned now if it is new.
    fn id(&mut self, position: Option<Position>) -> Result<u32, CanonicalError> {
        let Some(position) = position else { return Ok(DEAD) };
        if let Some(id) = self.ids.get(&position) {
            return Ok(*id);
        }
        if self.states.len() >= self.limit {
            return Err(CanonicalError::TooManyProductStates { limit: self.limit });
        }
        let id = u32::try_from(self.states.len())
            .map_err(|_| CanonicalError::TooManyProductStates { limit: self.limit })?;
        self.ids.insert(position, id);
        self.states.push(position);
        Ok(id)
    }
}
