//! Rows by prefix: a cache of the recently used ones, bounded in bytes.
//!
//! A row is needed only to choose a token that was not visited. The tree keeps everything else about a prefix, in a
//! few numbers. So rows may be dropped at any time. A dropped row that is needed again is computed again, which costs
//! a position and changes no output.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::Arc,
};

use super::Row;
use crate::tree::NodeId;

/// A hash of node ids. The tree counts its ids up, so one product spreads them. The hash of the standard library,
/// made for keys that others choose, is more code than the rest of a look-up.
#[derive(Default, Debug)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        // 2^64 over the golden ratio. A hash table takes some of the highest bits and some of the lowest: both must
        // differ.
        let product = (self.0 ^ u64::from(value)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The recently used rows, by prefix.
#[derive(Debug)]
pub(crate) struct RowCache {
    rows: HashMap<NodeId, (Arc<Row>, u64), BuildHasherDefault<Spread>>,
    bytes: usize,
    max_bytes: usize,
    clock: u64,
}

impl RowCache {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { rows: HashMap::default(), bytes: 0, max_bytes, clock: 0 }
    }

    pub(crate) fn get(&mut self, node: NodeId) -> Option<Arc<Row>> {
        self.clock += 1;
        let (row, used) = self.rows.get_mut(&node)?;
        *used = self.clock;
        Some(Arc::clone(row))
    }

    pub(crate) fn insert(&mut self, node: NodeId, row: Arc<Row>) {
        self.clock += 1;
        self.bytes += row.bytes();
        if let Some((old, _)) = self.rows.insert(node, (row, self.clock)) {
            self.bytes -= old.bytes();
        }
        if self.bytes > self.max_bytes {
            self.drop_old();
        }
    }

    /// Drops the least recently used rows, until half of the limit is free.
    fn drop_old(&mut self) {
        let mut uses: Vec<_> = self.rows.iter().map(|(node, (_, used))| (*used, *node)).collect();
        uses.sort_unstable();
        for (_, node) in uses {
            if self.bytes <= self.max_bytes / 2 {
                break;
            }
            if let Some((row, _)) = self.rows.remove(&node) {
                self.bytes -= row.bytes();
            }
        }
    }

    /// Gives the rows the new ids of their prefixes. A row whose prefix has no new id is dropped.
    pub(crate) fn rename(&mut self, new: impl Fn(NodeId) -> Option<NodeId>) {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        for (node, entry) in rows {
            if let Some(node) = new(node) {
                self.bytes += entry.0.bytes();
                self.rows.insert(node, entry);
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use unskew_core::TokenId;

    use super::*;
    use crate::tree::PrefixTree;

    #[test]
    fn the_least_recently_used_rows_go_first() {
        let row = || Row::of(&[TokenId(0), TokenId(3)], &[-1.0, -0.5], f64::NEG_INFINITY);
        let bytes = row().bytes();
        let mut tree = PrefixTree::new();
        let nodes: Vec<_> = (0..5).map(|token| tree.child(PrefixTree::ROOT, TokenId(token))).collect();
        let mut cache = RowCache::new(4 * bytes);
        for node in &nodes[..4] {
            cache.insert(*node, Arc::new(row()));
        }
        assert!(cache.get(nodes[0]).is_some());
        cache.insert(nodes[4], Arc::new(row()));
        assert_eq!(cache.bytes(), 2 * bytes);
        assert!(
            cache.get(nodes[0]).is_some() && cache.get(nodes[4]).is_some() && cache.get(nodes[1]).is_none()
        );
    }
}
