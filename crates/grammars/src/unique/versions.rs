//! Maps from numbers to numbers of which every version stays.
//!
//! A version with one key more shares all that it can with the one before: it takes O(log n) nodes for n keys, 32 at most. So do the
//! look-ups. Each of the many sets of texts of a scratch has such maps, and they are given back together with the scratch.
//!
//! The form is that of Okasaki and Gill ("Fast Mergeable Integer Maps", 1998): a node tells its keys apart by the highest bit in which
//! they differ, so nothing is balanced and equal maps have equal forms.
//!
//! Tried instead: `rpds` and `imbl`. Their nodes are counted one by one and are wider, and the memory that they take is not known; a
//! scratch has to know it.

use smallvec::SmallVec;

/// A version, by its root.
pub(crate) type Map = u32;

/// The map without keys.
pub(crate) const EMPTY: Map = u32::MAX;

#[derive(Clone, Copy, Debug)]
enum Node {
    Leaf {
        key: u32,
        value: u32,
    },
    /// Keys that agree above this bit, without it and with it.
    Branch {
        bit: u8,
        sides: [Map; 2],
    },
}

/// All versions of some maps.
#[derive(Default, Debug)]
pub(crate) struct Versions {
    nodes: Vec<Node>,
}

fn side(key: u32, bit: u8) -> usize {
    (key >> bit & 1) as usize
}

impl Versions {
    pub(crate) fn get(&self, map: Map, key: u32) -> Option<u32> {
        self.nearest(map, key).filter(|(other, _)| *other == key).map(|(_, value)| value)
    }

    /// `map` in which `key` has this value.
    pub(crate) fn with(&mut self, map: Map, key: u32, value: u32) -> Map {
        let leaf = self.add(Node::Leaf { key, value });
        let Some((other, _)) = self.nearest(map, key) else { return leaf };
        let bit = (key ^ other).checked_ilog2().map(|bit| u8::try_from(bit).expect("a number has 32 bits"));
        let mut way: SmallVec<[(u8, [Map; 2]); 32]> = SmallVec::new();
        let mut at = map;
        while let Node::Branch { bit: next, sides } = self.nodes[at as usize]
            && bit.is_none_or(|bit| next > bit)
        {
            way.push((next, sides));
            at = sides[side(key, next)];
        }
        let mut made = match bit {
            None => leaf,
            Some(bit) => {
                let sides = if side(key, bit) == 0 { [leaf, at] } else { [at, leaf] };
                self.add(Node::Branch { bit, sides })
            }
        };
        while let Some((bit, mut sides)) = way.pop() {
            sides[side(key, bit)] = made;
            made = self.add(Node::Branch { bit, sides });
        }
        made
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.nodes.len() * 2 * size_of::<Node>()
    }

    /// The key that `key` is, if it is there, and its value.
    fn nearest(&self, map: Map, key: u32) -> Option<(u32, u32)> {
        let mut at = map;
        loop {
            match *self.nodes.get(at as usize)? {
                Node::Leaf { key, value } => return Some((key, value)),
                Node::Branch { bit, sides } => at = sides[side(key, bit)],
            }
        }
    }

    fn add(&mut self, node: Node) -> Map {
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("bounded memory")
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
            keys in prop::collection::vec((prop_oneof![0..20u32, any::<u32>()], any::<u32>(), any::<prop::sample::Index>()), 0..60),
        ) {
            let mut versions = Versions::default();
            let mut known = vec![(EMPTY, BTreeMap::new())];
            for (key, value, from) in keys {
                let (map, mut expected) = from.get(&known).clone();
                expected.insert(key, value);
                known.push((versions.with(map, key, value), expected));
            }
            for (map, expected) in &known {
                for (_, all) in &known {
                    for key in all.keys() {
                        prop_assert_eq!(versions.get(*map, *key), expected.get(key).copied());
                    }
                }
            }
        }
    }

    #[test]
    fn a_version_takes_few_nodes_more() {
        let mut versions = Versions::default();
        let map = (0..10_000).fold(EMPTY, |map, key| versions.with(map, key, key));
        assert!(versions.nodes.len() < 10_000 * 16, "{}", versions.nodes.len());
        assert_eq!(versions.get(map, 7_777), Some(7_777));
        assert_eq!(versions.get(map, 10_000), None);
    }
}
