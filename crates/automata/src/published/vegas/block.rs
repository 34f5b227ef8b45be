//! A product, cut into blocks: its parts that tokens do not leave.
//!
//! A **gate** is a state that is not a piece start, where every incoming byte forms a hard pair with every outgoing
//! byte. A token may end or begin at a gate, but no token passes it. **Sources** are the gates and the piece starts:
//! the tokens that are read from them do not depend on the token before. To form **blocks**, each gate is split into
//! an end, which takes its incoming transitions, and a source, which takes its outgoing ones. A block is a connected
//! component over byte transitions, in which ends connect nothing. Boundaries are not followed.
//!
//! **Claim.** Let the product be *regular* ([`is_regular`]). Then the token set of a state, and the
//! tokens that may precede the state among those that can arrive there, depend only on the transitions of its block
//! over bytes, on its boundary states and piece starts, and on the ends from which bytes continue.
//!
//! *Proof.* Every state of the product reaches an accepting state over bytes, boundaries and added tokens. In a
//! regular product, a token spells each byte of this path. So the canonical sequence of the path's text, piece by
//! piece, is a path over tokens from any piece start to acceptance: **all piece starts are live.** Therefore a state
//! that accepts, or from which a boundary or an added token continues, is a boundary state, independently of the
//! targets. This is one bit of the state.
//!
//! Let `q` be a gate from which bytes continue, and `t` a token that ends there. The rest of the piece from `q` to
//! its end has an encoding `u1 u2 ..`. No merge joins `t` and `u1`, since the merged token would contain a hard
//! pair. So `t` may precede `q`. (One hard pair for each incoming byte is enough for this step, so many inner states
//! need no search.) The piece is not looked up as a whole either, since that token would contain the pair too. Gates
//! without outgoing bytes are boundary states. So **all ends are live.**
//!
//! Now `t` may precede an inner state if the state is a boundary state, or if some token `u` that may follow `t` is
//! read from it to a state that `u` may precede. `u` does not pass a gate, so it stays in the block or reaches one
//! of its ends. By induction over the length of the shortest completion, only the block matters. The tokens that can
//! arrive are determined by the transitions backwards, within the block for the same reason. A token set consists of
//! the tokens that are read from the state to a state that they may precede. From a piece start, pieces that are
//! looked up as a whole are followed over several tokens. Their texts are in the vocabulary and so pass no gate.
//! Whether a whole piece may end or continue at an end of the block is known from that end. Boundaries lead to no
//! token of the set. ∎
//!
//! So a block is a small product by itself, in which boundary states accept and ends are one of two states. The
//! search that completes a whole product completes a block.
//!
//! **Canonical form.** States are numbered in the order of a breadth-first search from the block's entries, byte by
//! byte, then over boundaries to a piece start of the same block (which have no other use here). This order is
//! unique if a block has one entry. Several entries are ordered by a hash of the first states after each. A tie may
//! give one block two forms, which costs only a hit, since equal forms are equal blocks.

use std::collections::{HashMap, VecDeque};

use unskew_trie::ByteSet;

use super::{hard::HardBigrams, hash::Sip, product::Product};
use crate::{
    canonical::{
        merges::{derivation::NONE, facts::BigramFacts},
        tokenizer::automaton::TokenizerAutomaton,
    },
    dfa::table::DEAD,
    ids::{Id, ProductState},
};

/// The number of states after an entry that decide its position among several entries.
const NEAR: usize = 48;

/// Whether every byte on every path of the product is spelled by some token.
fn is_regular(facts: &BigramFacts, product: &Product, tokenizer: &TokenizerAutomaton) -> bool {
    let mut read = [[false; 256]; 2];
    for (read, table) in read.iter_mut().zip([&product.next, &product.fallback]) {
        for row in table.chunks_exact(product.width) {
            row.iter().zip(read.iter_mut()).for_each(|(target, read)| *read |= *target != DEAD);
        }
    }
    let by_characters = !product.fallback.is_empty();
    facts.regular
        && (0..=255u8).all(|byte| {
            let column = usize::from(product.classes[usize::from(byte)]);
            // Of characters, the first table reads only those with a token.
            let spelled = tokenizer.symbols[usize::from(byte)] != NONE || by_characters;
            (!read[0][column] || spelled)
                && (!read[1][column] || tokenizer.fallback[usize::from(byte)] != NONE)
        })
}

/// A product and its cuts.
pub(crate) struct Blocks<'a> {
    product: &'a Product,
    /// Ranges of bytes with one column, in ascending order.
    runs: Vec<(u8, u8, u8)>,
    pub(crate) gate: Vec<bool>,
    /// By state: whether the piece may end there.
    pub(crate) boundary: Vec<bool>,
    /// By state: its block. For a gate, the block of its source.
    block: Vec<u32>,
    /// By state: whether every token that can arrive may precede it, for a reason that needs no search. The reasons
    /// are: it is a source or a boundary state, or each incoming byte forms a hard pair with some outgoing byte.
    pub(crate) known: Vec<bool>,
    /// By state: whether bytes continue.
    continues: Vec<bool>,
    /// By block: its entries.
    entries: Vec<Vec<u32>>,
}

/// A block in canonical form.
pub(crate) struct Form {
    /// The states of the product, in the order of their numbers here.
    pub(crate) states: Vec<u32>,
    pub(crate) key: u128,
}

impl<'a> Blocks<'a> {
    /// Cuts `product`. `None` if it is not regular. O(n k) for n states and k ranges of bytes.
    pub(crate) fn new(
        product: &'a Product,
        tokenizer: &TokenizerAutomaton,
        facts: &BigramFacts,
    ) -> Option<Self> {
        if !is_regular(facts, product, tokenizer) {
            return None;
        }
        let len = product.len();
        let mut runs: Vec<(u8, u8, u8)> = Vec::new();
        for byte in 0..=255u8 {
            let column = product.classes[usize::from(byte)];
            match runs.last_mut() {
                Some((_, last, other)) if *other == column => *last = byte,
                _ => runs.push((byte, byte, column)),
            }
        }
        let mut of_column = vec![ByteSet::default(); product.width];
        (0..=255u8).for_each(|byte| of_column[usize::from(product.classes[usize::from(byte)])].insert(byte));
        let (mut into, mut out) = (vec![ByteSet::default(); len], vec![ByteSet::default(); len]);
        for table in [&product.next, &product.fallback] {
            for (state, row) in table.chunks_exact(product.width).enumerate() {
                for (column, target) in row.iter().enumerate().filter(|(_, target)| **target != DEAD) {
                    into[*target as usize].union(&of_column[column]);
                    out[state].union(&of_column[column]);
                }
            }
        }
        let hard = HardBigrams(facts.hard.clone());
        let mut decided: HashMap<(ByteSet, ByteSet), [bool; 2]> = HashMap::new();
        let (mut gate, mut known) = (Vec::with_capacity(len), Vec::with_capacity(len));
        for state in 0..len {
            let [all, some] = *decided.entry((into[state], out[state])).or_insert_with(|| {
                let some = |left: u8| out[state].iter().any(|right| hard.is_hard(left, right));
                [hard.all_hard(&into[state], &out[state]), into[state].iter().all(some)]
            });
            gate.push(all && !product.at_piece_start[state]);
            known.push(all || some || product.at_piece_start[state]);
        }
        let mut has_added = vec![false; len];
        product.added.iter().for_each(|(state, ..)| has_added[*state as usize] = true);
        let boundary = |state| product.accepting[state] || product.mark[state] != DEAD || has_added[state];
        let boundary: Vec<bool> = (0..len).map(boundary).collect();
        known.iter_mut().zip(&boundary).for_each(|(known, boundary)| *known |= boundary);
        let mut blocks = Self {
            product,
            runs,
            boundary,
            known,
            continues: out.iter().map(|out| !out.is_empty()).collect(),
            gate,
            block: Vec::new(),
            entries: Vec::new(),
        };
        blocks.connect();
        Some(blocks)
    }

    fn connect(&mut self) {
        let len = self.product.len();
        let mut parent: Vec<u32> = (0u32..).take(len).collect();
        fn root(parent: &mut [u32], mut state: u32) -> u32 {
            while parent[state as usize] != state {
                parent[state as usize] = parent[parent[state as usize] as usize];
                state = parent[state as usize];
            }
            state
        }
        for table in [&self.product.next, &self.product.fallback] {
            for (state, row) in (0u32..).zip(table.chunks_exact(self.product.width)) {
                let mut last = DEAD;
                for target in row {
                    if *target != DEAD && *target != last && !self.gate[*target as usize] {
                        let (from, to) = (root(&mut parent, state), root(&mut parent, *target));
                        parent[from.max(to) as usize] = from.min(to);
                        last = *target;
                    }
                }
            }
        }
        let mut numbers = vec![DEAD; len];
        let mut count = 0;
        self.block = (0u32..)
            .take(len)
            .map(|state| {
                let number = &mut numbers[root(&mut parent, state) as usize];
                if *number == DEAD {
                    *number = count;
                    count += 1;
                }
                *number
            })
            .collect();
        // A block is entered at gates, at the start, at piece starts after a boundary outside of the block, and
        // after added tokens.
        let mut is_entry = self.gate.clone();
        is_entry[self.product.start as usize] = true;
        for (state, mark) in self.product.mark.iter().enumerate().filter(|(_, mark)| **mark != DEAD) {
            is_entry[*mark as usize] |= self.gate[state] || self.block[state] != self.block[*mark as usize];
        }
        self.product.added.iter().for_each(|(.., after)| is_entry[*after as usize] = true);
        self.entries = vec![Vec::new(); count as usize];
        for (state, _) in (0u32..).zip(&is_entry).filter(|(_, is_entry)| **is_entry) {
            self.entries[self.block[state as usize] as usize].push(state);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The label of the state in a form.
    fn label(&self, state: u32) -> u64 {
        let at = state as usize;
        let is_source = self.product.at_piece_start[at] || self.gate[at];
        u64::from(self.product.at_piece_start[at])
            | u64::from(self.gate[at]) << 1
            | u64::from(self.boundary[at] && !is_source) << 2
    }

    /// Calls `each` with the transitions of `state`: the table, the first and last byte, and the target, in
    /// ascending order.
    fn transitions(&self, state: u32, mut each: impl FnMut(u8, u8, u8, u32)) {
        let begin = state as usize * self.product.width;
        for (kind, table) in [(0, &self.product.next), (1, &self.product.fallback)] {
            let Some(row) = table.get(begin..begin + self.product.width) else { continue };
            let mut open: Option<(u8, u8, u32)> = None;
            for (first, last, column) in &self.runs {
                let target = row[usize::from(*column)];
                match &mut open {
                    Some((_, end, other)) if *other == target => *end = *last,
                    _ => {
                        if let Some((first, last, target)) = open.filter(|(.., target)| *target != DEAD) {
                            each(kind, first, last, target);
                        }
                        open = Some((*first, *last, target));
                    }
                }
            }
            if let Some((first, last, target)) = open.filter(|(.., target)| *target != DEAD) {
                each(kind, first, last, target);
            }
        }
    }

    /// The search that numbers a block: from `entries` in their order, through at most `limit` states. Updates
    /// `hash`. `numbers` is all [`DEAD`] before and after.
    fn search(&self, entries: &[u32], limit: usize, hash: &mut Sip, numbers: &mut [u32]) -> Vec<u32> {
        let mut states: Vec<u32> = Vec::new();
        let mut open = VecDeque::new();
        let mut number = |state: u32, open: &mut VecDeque<u32>| {
            if numbers[state as usize] == DEAD {
                numbers[state as usize] = u32::try_from(states.len()).expect("limited");
                states.push(state);
                open.push_back(state);
            }
            numbers[state as usize]
        };
        hash.word(entries.len() as u64);
        entries.iter().for_each(|entry| _ = number(*entry, &mut open));
        let mut seen = 0;
        while let Some(state) = open.pop_front().filter(|_| seen < limit) {
            seen += 1;
            let block = self.block[state as usize];
            hash.word(u64::from(u32::MAX) << 32 | self.label(state));
            self.transitions(state, |kind, first, last, target| {
                let target = if self.gate[target as usize] {
                    // An end. No state has these two numbers.
                    if self.continues[target as usize] { CONTINUES } else { ENDS }
                } else {
                    number(target, &mut open)
                };
                let bytes = u64::from(kind) << 16 | u64::from(first) << 8 | u64::from(last);
                hash.word(u64::from(target) << 32 | bytes);
            });
            let mark = self.product.mark[state as usize];
            // The boundary of a gate belongs to its end.
            if mark != DEAD && self.block[mark as usize] == block && !self.gate[state as usize] {
                let mark = number(mark, &mut open);
                hash.word(u64::from(mark) << 32 | 1 << 24);
            }
        }
        states.iter().for_each(|state| numbers[*state as usize] = DEAD);
        states
    }

    /// The canonical form of `block`, hashed with `key`. `numbers` is all [`DEAD`], one for each state of the
    /// product.
    pub(crate) fn form(&self, block: usize, key: [u64; 2], numbers: &mut [u32]) -> Form {
        let mut entries = self.entries[block].clone();
        if entries.len() > 1 {
            entries.sort_by_cached_key(|entry| {
                let mut hash = Sip::new(key);
                self.search(&[*entry], NEAR, &mut hash, numbers);
                hash.finish()
            });
        }
        let mut hash = Sip::new(key);
        let states = self.search(&entries, usize::MAX, &mut hash, numbers);
        hash.word(states.len() as u64);
        Form { states, key: hash.finish() }
    }

    /// The block as a product by itself: its states in the order of `form`, then the two kinds of ends.
    pub(crate) fn alone(&self, form: &Form) -> Product {
        let len = form.states.len();
        let number: HashMap<u32, u32> = form.states.iter().copied().zip(0..).collect();
        let [ends, continuing_end] = [0, 1].map(|more| ProductState::from_index(len + more));
        let width = self.product.width;
        let table = |table: &[u32]| {
            let mut rows = Vec::with_capacity(if table.is_empty() { 0 } else { (len + 2) * width });
            for state in &form.states {
                let row =
                    table.get(*state as usize * width..(*state as usize + 1) * width).unwrap_or_default();
                rows.extend(row.iter().map(|target| match *target {
                    DEAD => DEAD,
                    gate if self.gate[gate as usize] => {
                        if self.continues[gate as usize] {
                            continuing_end.raw()
                        } else {
                            ends.raw()
                        }
                    }
                    target => number[&target],
                }));
            }
            if !table.is_empty() {
                rows.resize((len + 2) * width, DEAD);
            }
            rows
        };
        let is_source = |state: u32| self.product.at_piece_start[state as usize] || self.gate[state as usize];
        let flags = |of: &dyn Fn(u32) -> bool, at_ends: bool| -> Vec<bool> {
            form.states.iter().map(|state| of(*state)).chain([at_ends; 2]).collect()
        };
        let mut product = Product {
            classes: self.product.classes.clone(),
            width,
            next: table(&self.product.next),
            fallback: table(&self.product.fallback),
            mark: vec![DEAD; len + 2],
            accepting: flags(&|state| self.boundary[state as usize] && !is_source(state), true),
            at_piece_start: flags(&|state| self.product.at_piece_start[state as usize], false),
            added: Vec::new(),
            start: 0,
            positions: Vec::new(),
            by_distance: Vec::new(),
            continuing_end: Some(continuing_end),
        };
        product.by_distance = by_distance(&product);
        product
    }
}

/// The states in the order of their distance to an accepting state, the nearest first, without sources that have no
/// transitions.
fn by_distance(product: &Product) -> Vec<ProductState> {
    let sources = product.sources();
    let mut seen = product.accepting.clone();
    let mut order: Vec<ProductState> =
        product.states().zip(&seen).filter(|(_, seen)| **seen).map(|(state, _)| state).collect();
    let mut at = 0;
    while let Some(state) = order.get(at).copied() {
        for (_, source) in sources.of(state) {
            if !std::mem::replace(&mut seen[source.index()], true) {
                order.push(*source);
            }
        }
        at += 1;
    }
    order
}

/// An end from which bytes continue, as the target of a transition in a form.
const CONTINUES: u32 = u32::MAX - 1;

/// An end at which the piece ends.
const ENDS: u32 = u32::MAX - 2;
