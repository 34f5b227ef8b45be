//! Maps from numbers to numbers that keep every version.
//!
//! A version with one key more shares all other nodes with the version before: it takes O(log n) new nodes for n
//! keys, at most
//! 32. A look-up also takes O(log n) steps. Each of the many key sets of a scratch has such maps, and the scratch
//!     frees them all together.
//!
//! The form is that of Okasaki and Gill ("Fast Mergeable Integer Maps", 1998): a node separates its keys by the
//! highest bit in which they differ. Nothing is balanced, and equal maps have equal forms.
//!
//! Tried instead: `rpds` and `imbl`. They count references for each node, their nodes are wider, and the memory that
//! they take is unknown; a scratch must know its memory.

use smallvec::SmallVec;

use crate::ids::{Table, id};

id! {
    /// A node of a map.
    MapNode
}

/// A version of a map: its root, or `None` for the map without keys.
pub(crate) type Map = Option<MapNode>;

#[derive(Clone, Copy, Debug)]
enum Node {
    Leaf {
        key: u32,
        value: u32,
    },
    /// Keys that agree above this bit, without it and with it.
    Branch {
        bit: u8,
        sides: [MapNode; 2],
    },
}

/// All versions of some maps.
#[derive(Default, Debug)]
pub(crate) struct PersistentMaps {
    nodes: Table<MapNode, Node>,
}

fn side(key: u32, bit: u8) -> usize {
    (key >> bit & 1) as usize
}

impl PersistentMaps {
    pub(crate) fn get(&self, map: Map, key: u32) -> Option<u32> {
        let (other, value) = self.nearest(map?, key);
        (other == key).then_some(value)
    }

    /// `map` in which `key` has this value.
    pub(crate) fn with(&mut self, map: Map, key: u32, value: u32) -> Map {
        let leaf = self.nodes.push(Node::Leaf { key, value });
        let Some(mut at) = map else { return Some(leaf) };
        let (other, _) = self.nearest(at, key);
        let bit = (key ^ other).checked_ilog2().map(|bit| u8::try_from(bit).expect("a number has 32 bits"));
        let mut way: SmallVec<[(u8, [MapNode; 2]); 32]> = SmallVec::new();
        while let Node::Branch { bit: next, sides } = self.nodes[at]
            && bit.is_none_or(|bit| next > bit)
        {
            way.push((next, sides));
            at = sides[side(key, next)];
        }
        let mut made = match bit {
            None => leaf,
            Some(bit) => {
                let sides = if side(key, bit) == 0 { [leaf, at] } else { [at, leaf] };
                self.nodes.push(Node::Branch { bit, sides })
            }
        };
        while let Some((bit, mut sides)) = way.pop() {
            sides[side(key, bit)] = made;
            made = self.nodes.push(Node::Branch { bit, sides });
        }
        Some(made)
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.nodes.len() * 2 * size_of::<Node>()
    }

    /// The key that agrees with `key` in most of its first bits, and its value.
    fn nearest(&self, root: MapNode, key: u32) -> (u32, u32) {
        let mut at = root;
        loop {
            match self.nodes[at] {
                Node::Leaf { key, value } => return (key, value),
                Node::Branch { bit, sides } => at = sides[side(key, bit)],
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn versions_are_those_of_std(
            keys in prop::collection::vec(
                (prop_oneof![0..20u32, any::<u32>()], any::<u32>(), any::<prop::sample::Index>()),
                0..60,
            ),
        ) {
            let mut maps = PersistentMaps::default();
            let mut known = vec![(None, BTreeMap::new())];
            for (key, value, from) in keys {
                let (map, mut expected) = from.get(&known).clone();
                expected.insert(key, value);
                known.push((maps.with(map, key, value), expected));
            }
            for (map, expected) in &known {
                for (_, all) in &known {
                    for key in all.keys() {
                        prop_assert_eq!(maps.get(*map, *key), expected.get(key).copied());
                    }
                }
            }
        }
    }

    #[test]
    fn a_version_takes_few_nodes_more() {
        let mut maps = PersistentMaps::default();
        let map = (0..10_000).fold(None, |map, key| maps.with(map, key, key));
        assert!(maps.nodes.len() < 10_000 * 16, "{}", maps.nodes.len());
        assert_eq!(maps.get(map, 7_777), Some(7_777));
        assert_eq!(maps.get(map, 10_000), None);
    }
}
