//! From atoms to bytes: one decision tree for all states.
//!
//! The tree finds the atom of a character from its bytes; equal subtrees are one node. A state of the automaton over
//! atoms then becomes the tree with the targets of the state in place of the atoms, and equal nodes are one state.
//! Compiling the sets of each state to UTF-8 separately would give the same automaton, but it would repeat the work
//! on thousands of ranges for each state.

use std::collections::HashMap;

use regex_syntax::utf8::Utf8Sequences;

use super::{atoms::Atoms, table::DEAD};

/// The target of a byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Target {
    /// The character is complete.
    Atom(u32),
    Node(u32),
}

/// Edges `(first, last, target)` for ranges of bytes, in ascending order.
pub(crate) type Edges<T> = Vec<(u8, u8, T)>;

#[derive(Debug)]
pub(crate) struct Tree {
    /// The nodes, each after its targets.
    nodes: Vec<Edges<Target>>,
    root: Edges<Target>,
}

impl Tree {
    /// The tree of `atoms`. Adds the work to `steps`.
    pub(crate) fn new(atoms: &Atoms, steps: &mut usize) -> Self {
        let mut builder = Builder { nodes: vec![], numbers: HashMap::new(), open: vec![Open::default()] };
        for (low, high, atom) in &atoms.runs {
            let (Some(low), Some(high)) = (char::from_u32(*low), char::from_u32(*high)) else {
                unreachable!("runs begin and end with characters");
            };
            // Runs ascend, and so do the sequences of each run; so a path that was left is never entered again.
            for sequence in Utf8Sequences::new(low, high) {
                let ranges = sequence.as_slice();
                *steps += ranges.len();
                builder.add(ranges.iter().map(|range| (range.start, range.end)), *atom);
            }
        }
        builder.close(0);
        let root = builder.open.remove(0).edges;
        Self { nodes: builder.nodes, root }
    }

    /// The edges of the root with `row` in place of the atoms, which may be [`DEAD`]. `number` gives the state of each
    /// node its number.
    pub(crate) fn edges<E>(
        &self,
        row: &[u32],
        mut number: impl FnMut(Edges<u32>) -> Result<u32, E>,
    ) -> Result<Edges<u32>, E> {
        let mut values = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let edges = put_in(node, row, &values);
            values.push(if edges.is_empty() { DEAD } else { number(edges)? });
        }
        Ok(put_in(&self.root, row, &values))
    }

    /// The number of edges of all nodes together.
    #[cfg(feature = "canonical")]
    pub(crate) fn edge_count(&self) -> usize {
        self.nodes.iter().map(Vec::len).sum::<usize>() + self.root.len()
    }
}

/// `edges` with their targets looked up, without the dead ones.
fn put_in(edges: &Edges<Target>, row: &[u32], values: &[u32]) -> Edges<u32> {
    // Most nodes have few targets, or none.
    let mut out = Vec::new();
    for (low, high, target) in edges {
        let target = match target {
            Target::Atom(atom) => row[*atom as usize],
            Target::Node(node) => values[*node as usize],
        };
        if target != DEAD {
            push(&mut out, (*low, *high), target);
        }
    }
    out
}

struct Builder {
    nodes: Vec<Edges<Target>>,
    numbers: HashMap<Edges<Target>, u32>,
    /// The nodes on the path of the latest sequence.
    open: Vec<Open>,
}

/// A node to which edges may still be added.
#[derive(Default)]
struct Open {
    edges: Edges<Target>,
    /// The bytes of the edge to the next open node.
    last: Option<(u8, u8)>,
}

impl Builder {
    fn add(&mut self, sequence: impl ExactSizeIterator<Item = (u8, u8)>, atom: u32) {
        let len = sequence.len();
        for (depth, range) in sequence.enumerate() {
            if depth + 1 == len {
                self.close(depth);
                push(&mut self.open[depth].edges, range, Target::Atom(atom));
            } else if self.open[depth].last != Some(range) {
                self.close(depth);
                self.open[depth].last = Some(range);
                self.open.push(Open::default());
            }
        }
    }

    /// Completes all open nodes deeper than `depth`.
    fn close(&mut self, depth: usize) {
        while self.open.len() > depth + 1 {
            let Some(Open { edges, .. }) = self.open.pop() else { return };
            let fresh = u32::try_from(self.nodes.len()).expect("fewer nodes than characters");
            let number = *self.numbers.entry(edges).or_insert_with_key(|edges| {
                self.nodes.push(edges.clone());
                fresh
            });
            let above = self.open.len() - 1;
            if let Some(range) = self.open[above].last.take() {
                push(&mut self.open[above].edges, range, Target::Node(number));
            }
        }
    }
}

/// Adds an edge after all others; adjacent edges with one target become one.
pub(crate) fn push<T: PartialEq>(edges: &mut Edges<T>, range: (u8, u8), target: T) {
    match edges.last_mut() {
        Some(last) if last.2 == target && last.1.checked_add(1) == Some(range.0) => last.1 = range.1,
        _ => edges.push((range.0, range.1, target)),
    }
}
