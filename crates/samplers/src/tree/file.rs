//! A tree as bytes, so that the bounds learnt in one run serve the next.
//!
//! The nodes are written in the order in which they were made, parents first, with their own numbers. Sums over
//! children are not trusted to a file: they are made again when the file is read. Everything is little-endian. The
//! bounds are those of one task: the file begins with a fingerprint of the task. The caller adds names for its model
//! and constraint to the fingerprint, since the samplers have none for them. Without the check, the bounds of another
//! task would silently change the distribution of the samples.
//!
//! ```text
//! "unskew-trie"  version u32  fingerprint u64  clock u32  nodes u32
//! node: parent u32  token u32  used u32  log_p f64  eos f64  valid_mass f64  unexplored f64  flags u8
//! XXH3 of all that stands before, u64
//! ```

use twox_hash::XxHash3_64;
use unskew_core::TokenId;

use super::{Edge, Node, NodeId, PrefixTree, to_f32};

const MAGIC: &[u8; 11] = b"unskew-trie";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = MAGIC.len() + 4 + 8 + 4 + 4;
const NODE_BYTES: usize = 3 * 4 + 4 * 8 + 1;

const SCORED: u8 = 1;
const BACKED_UP: u8 = 2;
const FORCED: u8 = 4;
/// The node counts among its parent's edges.
const COUNTS: u8 = 8;

/// A logarithm above this is not that of a probability: sums of thousands of rounded probabilities stay below it.
const LARGEST_LOG: f64 = 1e-6;

/// The reasons why bytes are not the saved prefixes of a task.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrieFileError {
    /// The bytes do not begin as such a file does.
    #[error("not saved prefixes: the file does not begin with `unskew-trie`")]
    Magic,
    /// The file has another version of the format.
    #[error(
        "saved prefixes of version {found}; this program reads version {VERSION}: draw anew and save again"
    )]
    Version {
        /// The version of the file.
        found: u32,
    },
    /// The file was saved for another task.
    #[error(
        "the prefixes were saved for another task (its fingerprint is {found:016x}, this task's {expected:016x}): the model, \
         constraint, prompt, limit of tokens and sampler must be the same"
    )]
    Task {
        /// The fingerprint of the file.
        found: u64,
        /// The fingerprint of the task at hand.
        expected: u64,
    },
    /// The file ends early, or is too long.
    #[error("saved prefixes of {nodes} nodes take {expected} bytes, and the file has {found}")]
    Length {
        /// The number of nodes that the file states.
        nodes: u32,
        /// The length of a file with that many nodes, in bytes.
        expected: u64,
        /// The length of the file, in bytes.
        found: u64,
    },
    /// The file was changed.
    #[error("the checksum of the saved prefixes is wrong: the file is damaged")]
    Checksum,
    /// The tree is larger than the sampler may hold.
    #[error("the saved prefixes have {nodes} nodes, about {bytes} bytes; the limit is {limit} bytes")]
    TooLarge {
        /// The number of nodes.
        nodes: u32,
        /// The memory of the nodes, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// A node that no sampler wrote.
    #[error("node {node} of the saved prefixes is impossible: {why}")]
    Node {
        /// The node, counted from 0.
        node: u32,
        /// The fault of the node.
        why: &'static str,
    },
}

/// The facts that a file must agree with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) fingerprint: u64,
    /// The number of token ids: all ids are below it.
    pub(crate) vocab_len: usize,
    /// The most tokens of a prefix.
    pub(crate) max_depth: usize,
    /// The most memory, in bytes.
    pub(crate) max_bytes: usize,
}

/// Writes the tree as bytes. The sums of the tree are made anew, so that it goes on bit for bit as the tree that is
/// read from the bytes.
pub(crate) fn write(tree: &mut PrefixTree, fingerprint: u64) -> Vec<u8> {
    tree.sum_all();
    let mut bytes = Vec::with_capacity(HEADER_BYTES + tree.nodes.len() * NODE_BYTES + 8);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&fingerprint.to_le_bytes());
    bytes.extend_from_slice(&tree.clock.to_le_bytes());
    let nodes = u32::try_from(tree.nodes.len()).expect("node ids are 32 bits");
    bytes.extend_from_slice(&nodes.to_le_bytes());
    for id in 0..tree.nodes.len() {
        let node = &mut tree.nodes[id];
        node.unexplored_anchor = to_f32(node.unexplored);
        let node = &tree.nodes[id];
        let above = &tree.nodes[node.parent as usize];
        let counts = id > 0 && above.edges.search(node.token).is_ok_and(|index| above.edges[index].counts());
        for value in [node.parent, node.token.0, node.used] {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        for value in [node.log_p, node.eos, node.valid_mass, node.unexplored] {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        bytes.push(
            flag(node.scored, SCORED)
                | flag(node.backed_up, BACKED_UP)
                | flag(node.forced, FORCED)
                | flag(counts, COUNTS),
        );
    }
    bytes.extend_from_slice(&XxHash3_64::oneshot(&bytes).to_le_bytes());
    bytes
}

/// The next `N` bytes. The caller has checked that they are there.
fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (taken, rest) = bytes.split_first_chunk().expect("the length was checked");
    *bytes = rest;
    *taken
}

/// Reads the tree that was written as `bytes`, for the task of `header`.
pub(crate) fn read(bytes: &[u8], header: &Header) -> Result<PrefixTree, TrieFileError> {
    if bytes.len() < HEADER_BYTES || !bytes.starts_with(MAGIC) {
        return Err(TrieFileError::Magic);
    }
    let mut rest = &bytes[MAGIC.len()..];
    let version = u32::from_le_bytes(take(&mut rest));
    if version != VERSION {
        return Err(TrieFileError::Version { found: version });
    }
    let found = u64::from_le_bytes(take(&mut rest));
    let clock = u32::from_le_bytes(take(&mut rest));
    let count = u32::from_le_bytes(take(&mut rest));
    let expected = (HEADER_BYTES + 8) as u64 + u64::from(count) * NODE_BYTES as u64;
    if bytes.len() as u64 != expected || count == 0 {
        return Err(TrieFileError::Length { nodes: count, expected, found: bytes.len() as u64 });
    }
    let (content, checksum) = bytes.split_at(bytes.len() - 8);
    if XxHash3_64::oneshot(content).to_le_bytes() != checksum {
        return Err(TrieFileError::Checksum);
    }
    if found != header.fingerprint {
        return Err(TrieFileError::Task { found, expected: header.fingerprint });
    }
    let size = (count as usize).saturating_mul(size_of::<Node>() + size_of::<Edge>());
    if size > header.max_bytes {
        return Err(TrieFileError::TooLarge { nodes: count, bytes: size, limit: header.max_bytes });
    }
    let mut tree = PrefixTree::of(Vec::with_capacity(count as usize), clock);
    for id in 0..count {
        read_node(&mut tree, id, &mut rest, header).map_err(|why| TrieFileError::Node { node: id, why })?;
    }
    for (id, node) in tree.nodes.iter().enumerate() {
        let counted = node.edges.iter().filter(|edge| edge.counts());
        if !node.backed_up && counted.count() > 0 {
            let node = u32::try_from(id).expect("there are `count` nodes");
            return Err(TrieFileError::Node { node, why: "children count in a bound that is not kept" });
        }
    }
    tree.sum_all();
    Ok(tree)
}

fn read_node(tree: &mut PrefixTree, id: u32, bytes: &mut &[u8], header: &Header) -> Result<(), &'static str> {
    let [parent, token, used] = [0; 3].map(|_: u8| u32::from_le_bytes(take(bytes)));
    let [log_p, eos, valid_mass, unexplored] = [0; 4].map(|_: u8| f64::from_le_bytes(take(bytes)));
    let [flags] = take(bytes);
    let is = |flag: u8| flags & flag != 0;
    if id == 0 && parent != 0 {
        return Err("the root has a parent");
    }
    if id > 0 && (parent >= id || token as usize >= header.vocab_len) {
        return Err("its parent comes after it, or its token is none");
    }
    let depth = if id == 0 { 0 } else { tree.nodes[parent as usize].depth + 1 };
    if depth as usize > header.max_depth {
        return Err("it is longer than an output");
    }
    let is_log = |value: f64| value <= LARGEST_LOG;
    if (is(SCORED) && ![eos, valid_mass, unexplored].into_iter().all(is_log))
        || !(log_p.is_nan() || is_log(log_p))
    {
        return Err("a number is not the logarithm of a probability");
    }
    if (is(BACKED_UP) && !is(SCORED)) || (is(COUNTS) && (!is(BACKED_UP) || log_p.is_nan() || id == 0)) {
        return Err("it counts in a bound and was not scored");
    }
    let mut node = Node::new(parent, TokenId(token), depth, used);
    (node.log_p, node.eos, node.valid_mass, node.unexplored) = (log_p, eos, valid_mass, unexplored);
    node.unexplored_anchor = to_f32(unexplored);
    (node.scored, node.backed_up, node.forced) = (is(SCORED), is(BACKED_UP), is(FORCED));
    tree.nodes.push(node);
    if id > 0 {
        let edges = &mut tree.nodes[parent as usize].edges;
        let Err(at) = edges.search(TokenId(token)) else {
            return Err("its parent has that token twice");
        };
        let before = edges.bytes();
        // Any number that is not NaN: the sums are made anew.
        let weight = if is(COUNTS) { 0.0 } else { f64::NAN };
        edges.insert(at, Edge { token: TokenId(token), node: NodeId(id), weight });
        tree.edge_bytes += edges.bytes() - before;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::NodeStats;

    const HEADER: Header = Header { fingerprint: 7, vocab_len: 4, max_depth: 3, max_bytes: 1 << 20 };

    fn small() -> PrefixTree {
        let mut tree = PrefixTree::new();
        tree.score(PrefixTree::ROOT, NodeStats { eos: -3.0, tokens: -0.1, valid_mass: -0.05, forced: false });
        for token in [2, 1] {
            tree.tick();
            tree.touch(PrefixTree::ROOT);
            let child = tree.child(PrefixTree::ROOT, TokenId(token));
            tree.touch(child);
            tree.set_log_p(child, -1.5);
            tree.score(
                child,
                NodeStats { eos: -2.0, tokens: f64::NEG_INFINITY, valid_mass: -2.0, forced: false },
            );
            tree.back_up(child, |_, _, _| None);
        }
        let leaf = tree.child(PrefixTree::ROOT, TokenId(0));
        tree.child(leaf, TokenId(3));
        tree
    }

    #[test]
    fn what_was_saved_is_read_back_bit_by_bit() {
        let mut tree = small();
        let bytes = write(&mut tree, 7);
        let mut again = read(&bytes, &HEADER).unwrap();
        assert_eq!(format!("{:?}", again.nodes), format!("{:?}", tree.nodes));
        assert_eq!(again.clock, tree.clock);
        assert_eq!(write(&mut again, 7), bytes);
    }

    #[test]
    fn other_files_are_errors() {
        let bytes = write(&mut small(), 7);
        assert_eq!(read(b"", &HEADER).unwrap_err(), TrieFileError::Magic);
        let other = read(&bytes, &Header { fingerprint: 8, ..HEADER }).unwrap_err();
        assert_eq!(other, TrieFileError::Task { found: 7, expected: 8 });
        let other = read(&bytes, &Header { max_bytes: 100, ..HEADER }).unwrap_err();
        assert!(matches!(other, TrieFileError::TooLarge { nodes: 5, limit: 100, .. }), "{other}");
        assert!(matches!(
            read(&bytes[..bytes.len() - 1], &HEADER).unwrap_err(),
            TrieFileError::Length { .. }
        ));
        let mut version = bytes.clone();
        version[MAGIC.len()] = 9;
        assert_eq!(read(&version, &HEADER).unwrap_err(), TrieFileError::Version { found: 9 });
    }

    /// Changes every byte of the file. The old checksum gives an error; a new checksum gives an error or a tree.
    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let bytes = write(&mut small(), 7);
        let mut refused = 0;
        for index in 0..bytes.len() {
            for change in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[index] ^= change;
                assert!(read(&damaged, &HEADER).is_err(), "byte {index}");
                let end = damaged.len() - 8;
                let checksum = XxHash3_64::oneshot(&damaged[..end]).to_le_bytes();
                damaged[end..].copy_from_slice(&checksum);
                match read(&damaged, &HEADER) {
                    Ok(mut tree) => {
                        assert!(!tree.bound(PrefixTree::ROOT).is_nan());
                        read(&write(&mut tree, 7), &HEADER).unwrap();
                    }
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(refused > bytes.len() / 2, "{refused}");
    }
}
