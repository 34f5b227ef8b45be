//! The ordinary characters and the universal states of a splitter ([`super::split_liveness`]).
//!
//! Both are subset constructions over the splitter, in parallel with an automaton of characters. Universality needs a
//! further step: a state is universal if its subset reaches no subset without an accepting state, so the others are
//! removed backwards.

use std::{collections::HashMap, sync::LazyLock};

use rustc_hash::FxHashMap as Map;
use smallvec::SmallVec;

use crate::{
    canonical::texts::utf8::utf8,
    dfa::table::DEAD,
    ids::{CharacterState, Id, SplitState, Table},
    split::SplitDfa,
};

/// Some states of the splitter, in ascending order.
pub(super) type Subset = SmallVec<[SplitState; 4]>;

/// The states after `byte` from any state of `subset`, through ordinary and fallback transitions.
pub(super) fn step(split: &SplitDfa, subset: &[SplitState], byte: u8) -> Subset {
    let mut next = Subset::new();
    for state in subset {
        next.extend(split.step(*state, byte));
        next.extend(split.step_fallback(*state, byte));
    }
    next.sort_unstable();
    next.dedup();
    next
}

/// Some characters as an automaton over bytes.
#[derive(Debug)]
pub(super) struct CharacterDfa(Table<CharacterState, [u32; 256]>);

impl CharacterDfa {
    #[inline]
    pub(super) fn step(&self, state: CharacterState, byte: u8) -> Option<CharacterState> {
        CharacterState::of_entry(self.0[state][usize::from(byte)])
    }

    /// Whether `byte` is a character.
    #[inline]
    pub(super) fn is_character(&self, byte: u8) -> bool {
        self.step(CharacterState::BETWEEN, byte) == Some(CharacterState::BETWEEN)
    }

    /// The state after `byte`, for each state. Bytes with equal columns are not distinguished.
    pub(super) fn column(&self, byte: u8) -> impl Iterator<Item = u32> {
        self.0.entries().iter().map(move |row| row[usize::from(byte)])
    }

    /// In bytes.
    pub(super) fn memory_usage(&self) -> usize {
        size_of_val(self.0.entries())
    }
}

/// All characters of UTF-8, as an automaton over bytes.
pub(super) fn utf8_table() -> &'static [[u32; 256]] {
    static TABLE: LazyLock<Vec<[u32; 256]>> = LazyLock::new(|| {
        let bytes: [u8; 256] = std::array::from_fn(|byte| u8::try_from(byte).expect("256 bytes"));
        (0..8u8).map(|place| bytes.map(|byte| utf8(place, byte).map_or(DEAD, u32::from))).collect()
    });
    &TABLE
}

/// The ordinary characters in `all`. Both are automata over bytes with state 0 between characters.
pub(super) fn ordinary(split: &SplitDfa, all: &[[u32; 256]]) -> CharacterDfa {
    let mut nodes: Vec<(u32, Subset)> = vec![(0, Subset::from_slice(&[split.start()]))];
    let mut ids: HashMap<(u32, Subset), u32> = HashMap::new();
    let mut table: Vec<[u32; 256]> = Vec::new();
    let mut at = 0;
    while let Some((place, subset)) = nodes.get(at).cloned() {
        let mut row = [DEAD; 256];
        for byte in 0..=255u8 {
            let place = all[place as usize][usize::from(byte)];
            if place == DEAD {
                continue;
            }
            let next = step(split, &subset, byte);
            if next.is_empty() {
                continue;
            }
            row[usize::from(byte)] = match place {
                0 => 0,
                _ => *ids.entry((place, next.clone())).or_insert_with(|| {
                    nodes.push((place, next));
                    u32::try_from(nodes.len() - 1).expect("limited")
                }),
            };
        }
        table.push(row);
        at += 1;
    }
    // States that complete no character are removed and equal states are merged. A character has at most four bytes.
    for _ in 0..3 {
        let mut first: HashMap<[u32; 256], u32> = HashMap::new();
        let same: Vec<u32> =
            (0u32..).zip(&table).map(|(state, row)| *first.entry(*row).or_insert(state)).collect();
        for next in table.iter_mut().flatten().filter(|next| **next != DEAD) {
            *next = same[*next as usize];
        }
        let is_dead: Vec<bool> = table.iter().map(|row| row.iter().all(|next| *next == DEAD)).collect();
        for next in table.iter_mut().flatten().filter(|next| **next != DEAD && **next != 0) {
            if is_dead[*next as usize] {
                *next = DEAD;
            }
        }
    }
    let mut numbers = vec![DEAD; table.len()];
    let mut kept: Vec<usize> = vec![0];
    numbers[0] = 0;
    let mut at = 0;
    while let Some(state) = kept.get(at).copied() {
        at += 1;
        for next in table[state].iter().filter(|next| **next != DEAD) {
            if numbers[*next as usize] == DEAD {
                numbers[*next as usize] = u32::try_from(kept.len()).expect("limited");
                kept.push(*next as usize);
            }
        }
    }
    let renamed = |next: u32| if next == DEAD { DEAD } else { numbers[next as usize] };
    CharacterDfa(kept.into_iter().map(|state| table[state].map(renamed)).collect())
}

/// By state of `split`: the UTF-8 states in which it is reached, one bit each.
pub(super) fn places(split: &SplitDfa) -> Table<SplitState, u8> {
    let mut places: Table<SplitState, u8> = Table::filled(0, split.len());
    let mut open = vec![(split.start(), 0u8)];
    places[split.start()] = 1;
    while let Some((state, place)) = open.pop() {
        let mut reach = |state: SplitState, place: u8| {
            if places[state] >> place & 1 == 0 {
                places[state] |= 1 << place;
                open.push((state, place));
            }
        };
        if place == 0
            && let Some(mark) = split.mark(state)
        {
            reach(mark, 0);
        }
        for byte in split.classes.representatives() {
            // Bytes of one class are in one position of a character, or lead to no state.
            if let Some(next) = utf8(place, byte) {
                step(split, &[state], byte).iter().for_each(|state| reach(*state, next));
            }
        }
    }
    places
}

/// The universal states: the greatest set that is closed under all ordinary characters.
pub(super) fn universal(split: &SplitDfa, characters: &CharacterDfa) -> Table<SplitState, bool> {
    type Node = (Subset, CharacterState);
    // One byte of each class of bytes that neither automaton distinguishes.
    let mut columns: HashMap<Vec<u32>, u8> = HashMap::new();
    let mut bytes: Vec<u8> = Vec::new();
    for byte in 0..=255u8 {
        let class = u32::from(split.classes.get(byte));
        let column = characters.column(byte).chain([class]).collect();
        columns.entry(column).or_insert_with(|| {
            bytes.push(byte);
            byte
        });
    }
    let mut ids: Map<Node, usize> = Map::default();
    let mut nodes: Vec<Node> = Vec::new();
    let mut id = |node: Node, nodes: &mut Vec<Node>| {
        *ids.entry(node.clone()).or_insert_with(|| {
            nodes.push(node);
            nodes.len() - 1
        })
    };
    let single = |state: SplitState| (Subset::from_slice(&[state]), CharacterState::BETWEEN);
    let singles: Vec<(SplitState, usize)> = places(split)
        .iter()
        .filter(|(_, places)| *places & 1 != 0)
        .map(|(state, _)| (state, id(single(state), &mut nodes)))
        .collect();
    let mut edges: Vec<(usize, usize)> = Vec::new();
    let mut is_bad: Vec<bool> = Vec::new();
    let mut at = 0;
    while let Some((mut subset, place)) = nodes.get(at).cloned() {
        let mut bad = subset.is_empty();
        if place == CharacterState::BETWEEN {
            bad |= !subset.iter().any(|state| split.is_accepting(*state));
            let marks: Subset = subset.iter().filter_map(|state| split.mark(*state)).collect();
            subset.extend(marks);
            subset.sort_unstable();
            subset.dedup();
        }
        is_bad.push(bad);
        for byte in bytes.iter().filter(|_| !bad) {
            if let Some(place) = characters.step(place, *byte) {
                edges.push((id((step(split, &subset, *byte), place), &mut nodes), at));
            }
        }
        at += 1;
    }
    edges.sort_unstable();
    edges.dedup();
    let mut open: Vec<usize> = (0..nodes.len()).filter(|node| is_bad[*node]).collect();
    while let Some(node) = open.pop() {
        let begin = edges.partition_point(|(target, _)| *target < node);
        for (_, source) in edges[begin..].iter().take_while(|(target, _)| *target == node) {
            if !std::mem::replace(&mut is_bad[*source], true) {
                open.push(*source);
            }
        }
    }
    let mut universal = Table::filled(false, split.len());
    singles.iter().for_each(|(state, node)| universal[*state] = !is_bad[*node]);
    universal
}
