//! The keys and values of one sequence, so that appending a token computes one row and not the whole text again; and attention
//! over them.
//!
//! They lie in pages of [`PAGE`] positions, which sequences share: a fork copies the list of pages, and the side that writes to
//! a shared page first copies that page. Truncation drops pages. A sequence takes at most one page more than its positions
//! need. Tried instead: one block for each layer that doubles when it is full. A fork that grows then copies all positions, and
//! half of the room may be unused.
//!
//! The layout of a page is that of panels ([`crate::kernel`]). A panel of keys has one lane for each position, and a line for
//! each coordinate: queries times keys are scores. A panel of values has one lane for each of 32 coordinates, and a line for
//! each position: shares times values are the output.

use std::sync::Arc;

use rayon::prelude::*;

use crate::config::ModelConfig;
use crate::functions::softmax;
use crate::kernel::{Inputs, LANES, Line, Sums, multiply};
use crate::matrix::WORTH_A_THREAD;

/// Positions of a page: those of a panel of keys.
pub(crate) const PAGE: usize = LANES;

/// Scores that are computed at a time, so that a long text takes no more memory than this many numbers for each thread, or one
/// row of it.
const SCORES: usize = 1 << 16;

/// The sizes of attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    layers: usize,
    /// Key and value heads.
    shared: usize,
    /// Query heads for each of them.
    group: usize,
    width: usize,
}

impl Heads {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        Self {
            layers: config.num_hidden_layers,
            shared: config.num_key_value_heads,
            group: config.num_attention_heads / config.num_key_value_heads,
            width: config.head_dim,
        }
    }

    /// Of one head.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Panels of the values of a head.
    fn panels(&self) -> usize {
        self.width.div_ceil(LANES)
    }
}

/// The keys and values of one sequence. The sequence knows the number of positions in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    pages: Vec<Arc<Page>>,
}

#[derive(Clone, Debug)]
struct Page {
    /// `[layers, shared, width]` lines, with a lane for each position.
    keys: Vec<Line>,
    /// `[layers, shared, panels, PAGE]` lines, with a lane for each coordinate.
    values: Vec<Line>,
}

impl Page {
    fn new(heads: &Heads) -> Self {
        let count = heads.layers * heads.shared;
        let zeros = |lines| vec![[0.0; LANES]; lines];
        Self { keys: zeros(count * heads.width), values: zeros(count * heads.panels() * PAGE) }
    }
}

impl Cache {
    /// Forgets the positions from `len` on, but for those that share a page with earlier ones.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.pages.truncate(len.div_ceil(PAGE));
    }

    /// Makes the pages of the positions `start..end` this sequence's own. The positions before `start` are there.
    pub(crate) fn reserve(&mut self, start: usize, end: usize, heads: &Heads) {
        self.pages.resize_with(end.div_ceil(PAGE).max(self.pages.len()), || Arc::new(Page::new(heads)));
        for page in &mut self.pages[start / PAGE..end.div_ceil(PAGE)] {
            Arc::make_mut(page);
        }
    }

    /// Writes the keys and values of the positions from `start` on in one layer, `[rows, shared * width]`. They were reserved.
    pub(crate) fn store(&mut self, layer: usize, start: usize, keys: &[f32], values: &[f32], heads: &Heads) {
        let Heads { shared, width, .. } = *heads;
        let rows = keys.chunks_exact(shared * width).zip(values.chunks_exact(shared * width));
        for (position, (keys, values)) in (start..).zip(rows) {
            let slot = position % PAGE;
            let page = Arc::make_mut(&mut self.pages[position / PAGE]);
            let lines = &mut page.keys[layer * shared * width..];
            for (line, key) in lines.iter_mut().zip(keys) {
                line[slot] = *key;
            }
            let first = layer * shared * heads.panels();
            for (head, values) in values.chunks_exact(width).enumerate() {
                for (panel, values) in values.chunks(LANES).enumerate() {
                    let line = (first + head * heads.panels() + panel) * PAGE + slot;
                    page.values[line][..values.len()].copy_from_slice(values);
                }
            }
        }
    }
}

/// New positions of one sequence, and where their rows lie among those of a pass.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) cache: &'a Cache,
    /// The position of the first row.
    pub(crate) start: usize,
    /// The number of rows.
    pub(crate) len: usize,
}

/// A part of attention: some rows of a run, for the query heads that share one key head.
struct Part<'a> {
    run: &'a Run<'a>,
    /// Of the run.
    rows: std::ops::Range<usize>,
    /// The first of these rows among those of the pass.
    first: usize,
    head: usize,
}

/// Attention in one layer, for all rows of a pass: `queries` are scaled, `[rows, heads * width]`, and so is `mixed`, the output.
pub(crate) fn attend(layer: usize, runs: &[Run<'_>], queries: &[f32], mixed: &mut [f32], heads: &Heads) {
    let mut parts = Vec::new();
    let (mut first, mut work) = (0, 0);
    for run in runs {
        let end = run.start + run.len;
        let size = (SCORES / (heads.group * end.next_multiple_of(PAGE))).clamp(1, 64);
        for from in (0..run.len).step_by(size) {
            let rows = from..run.len.min(from + size);
            parts.extend((0..heads.shared).map(|head| Part {
                run,
                rows: rows.clone(),
                first: first + from,
                head,
            }));
        }
        first += run.len;
        work += 2 * run.len * end * heads.shared * heads.group * heads.width;
    }
    let compute = |part: &Part<'_>| part.compute(layer, queries, heads);
    let outputs: Vec<Vec<f32>> = if work < WORTH_A_THREAD {
        parts.iter().map(compute).collect()
    } else {
        parts.par_iter().map(compute).collect()
    };
    let Heads { shared, group, width, .. } = *heads;
    for (part, output) in parts.iter().zip(outputs) {
        let mut output = output.chunks_exact(heads.panels() * LANES);
        for member in 0..group {
            for row in part.first..part.first + part.rows.len() {
                let to = (row * shared * group + part.head * group + member) * width;
                let from = output.next().expect("a row for each head of the group and each row of the part");
                mixed[to..to + width].copy_from_slice(&from[..width]);
            }
        }
    }
}

impl Part<'_> {
    /// The output for the heads of the group, one after the other, each with all rows: as wide as the panels of values are.
    fn compute(&self, layer: usize, queries: &[f32], heads: &Heads) -> Vec<f32> {
        let Heads { shared, group, width, .. } = *heads;
        let count = self.rows.len();
        let mut own = Vec::with_capacity(group * count * width);
        for member in 0..group {
            for row in self.first..self.first + count {
                let from = (row * shared * group + self.head * group + member) * width;
                own.extend_from_slice(&queries[from..from + width]);
            }
        }
        let own = Inputs { values: &own, stride: width };
        let rows = group * count;

        let end = self.run.start + self.rows.end;
        let pages = &self.run.cache.pages[..end.div_ceil(PAGE)];
        let room = pages.len() * PAGE;
        let head = layer * shared + self.head;
        let mut scores = vec![0.0; rows * room];
        let of = head * width..(head + 1) * width;
        for (pages, from) in pages.chunks(2).zip((0..).step_by(2 * PAGE)) {
            let sums = Sums { values: &mut scores[from..], stride: room };
            match pages {
                [one, other] => {
                    multiply([&one.keys[of.clone()], &other.keys[of.clone()]], own, sums, rows);
                }
                _ => multiply([&pages[0].keys[of.clone()]], own, sums, rows),
            }
        }
        for (index, row) in scores.chunks_exact_mut(room).enumerate() {
            // A row sees itself and what comes before it.
            let seen = self.run.start + self.rows.start + index % count + 1;
            softmax(&mut row[..seen]);
            row[seen..].fill(0.0);
        }
        let wide = heads.panels() * LANES;
        let mut mixed = vec![0.0; rows * wide];
        for (page, from) in pages.iter().zip((0..).step_by(PAGE)) {
            let shares = Inputs { values: &scores[from..], stride: room };
            for panel in 0..heads.panels() {
                let lines = (head * heads.panels() + panel) * PAGE..;
                let values = &page.values[lines][..PAGE.min(end - from)];
                let sums = Sums { values: &mut mixed[panel * LANES..], stride: wide };
                multiply([values], shares, sums, rows);
            }
        }
        mixed
    }
}
