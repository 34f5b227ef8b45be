//! The keys and values of one sequence, so that appending a token computes one row and not the whole text again; and
//! attention over them.
//!
//! They lie in pages of [`PAGE`] positions, which sequences share, and so does the tree of known prefixes
//! ([`crate::cache::prefixes`]). A fork is another handle to the list of pages. The side that grows copies the list
//! once, and a shared page when it writes to it. Tried instead: one block for each layer that doubles when it is full.
//! A fork that grows then copies all positions, and half of the room may be unused. Pages of 32 positions were tried,
//! too: each of many short walks after one prompt takes at least a page of its own, most of it unused.
//!
//! The layout of a page is that of panels ([`crate::math::kernel`]). A panel of keys has one lane for each position,
//! and a line for each coordinate: queries times keys are scores. A panel of values has one lane for each of 32
//! coordinates, and a line for each position: shares times values are the output.

pub(crate) mod prefixes;

use std::sync::Arc;

use crate::config::ModelConfig;
use crate::math::functions::{soft_cap, softmax};
use crate::math::kernel::{Inputs, LANES, Line, Sums, multiply};
use crate::math::matrix::WORTH_A_THREAD;
use crate::threads::*;

/// Positions of a page: the lanes of a panel of keys.
pub(crate) const PAGE: usize = 8;

/// Pages whose scores are computed together.
const TOGETHER: usize = 4;

/// Scores that are computed at a time, so that a long text takes no more memory than this many numbers for each
/// thread, or one row of it.
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

    /// Panels of the values of a head.
    fn panels(&self) -> usize {
        self.width.div_ceil(LANES)
    }

    /// The size of a page, in bytes.
    pub(crate) fn page_bytes(&self) -> usize {
        let numbers = self.layers * self.shared * PAGE * (self.width + self.panels() * LANES);
        numbers * size_of::<f32>()
    }
}

/// How the rows of one layer look at earlier ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) layer: usize,
    /// The most positions that a row sees.
    pub(crate) window: Option<usize>,
    /// The soft cap of scores.
    pub(crate) cap: Option<f32>,
}

impl View {
    /// The first position that the row at a position sees.
    pub(crate) fn first(&self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }
}

/// The keys and values of one sequence. The sequence knows the number of positions in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    pages: Arc<Vec<Arc<Page>>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// `[layers, shared, width]` lines, with a lane for each position.
    keys: Vec<Line<PAGE>>,
    /// `[layers, shared, panels, PAGE]` lines, with a lane for each coordinate.
    values: Vec<Line>,
}

impl Page {
    fn new(heads: &Heads) -> Self {
        let count = heads.layers * heads.shared;
        Self {
            keys: vec![[0.0; PAGE]; count * heads.width],
            values: vec![[0.0; LANES]; count * heads.panels() * PAGE],
        }
    }
}

impl Cache {
    /// Forgets the positions from `len` on, but for those that share a page with earlier ones.
    pub(crate) fn truncate(&mut self, len: usize) {
        let pages = len.div_ceil(PAGE);
        if pages == 0 {
            self.pages = Arc::default();
        } else if pages < self.pages.len() {
            match Arc::get_mut(&mut self.pages) {
                Some(own) => own.truncate(pages),
                None => self.pages = Arc::new(self.pages[..pages].to_vec()),
            }
        }
    }

    /// The pages, first to last.
    pub(crate) fn pages(&self) -> &[Arc<Page>] {
        &self.pages
    }

    /// Replaces the page with this number, or adds it at the end, by one with the same content in the positions that
    /// are in use.
    pub(crate) fn put(&mut self, number: usize, page: Arc<Page>) {
        let pages = Arc::make_mut(&mut self.pages);
        if number < pages.len() {
            pages[number] = page;
        } else {
            debug_assert_eq!(number, pages.len());
            pages.push(page);
        }
    }

    /// Makes the pages of the positions `start..end` this sequence's own. The positions before `start` are there.
    pub(crate) fn reserve(&mut self, start: usize, end: usize, heads: &Heads) {
        let pages = Arc::make_mut(&mut self.pages);
        // Of an earlier use, after a truncation within their page.
        pages.resize_with(end.div_ceil(PAGE).max(pages.len()), || Arc::new(Page::new(heads)));
        for page in &mut pages[start / PAGE..end.div_ceil(PAGE)] {
            Arc::make_mut(page);
        }
    }

    /// Writes the keys and values of the positions from `start` on in one layer, `[rows, shared * width]`. They were
    /// reserved.
    pub(crate) fn store(&mut self, layer: usize, start: usize, keys: &[f32], values: &[f32], heads: &Heads) {
        let Heads { shared, width, .. } = *heads;
        let rows = keys.chunks_exact(shared * width).zip(values.chunks_exact(shared * width));
        let pages = Arc::make_mut(&mut self.pages);
        for (position, (keys, values)) in (start..).zip(rows) {
            let slot = position % PAGE;
            let page = Arc::make_mut(&mut pages[position / PAGE]);
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

/// Attention in one layer, for all rows of a pass: `queries` are scaled, `[rows, heads * width]`, and so is `mixed`,
/// the output.
pub(crate) fn attend(view: View, runs: &[Run<'_>], queries: &[f32], mixed: &mut [f32], heads: &Heads) {
    let mut parts = Vec::new();
    let (mut first, mut work) = (0, 0);
    for run in runs {
        let end = run.start + run.len;
        let seen = end - view.first(run.start);
        let size = (SCORES / (heads.group * seen.next_multiple_of(LANES))).clamp(1, 64);
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
        work += 2 * run.len * seen * heads.shared * heads.group * heads.width;
    }
    let compute = |part: &Part<'_>| part.compute(view, queries, heads);
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
    /// The output for the heads of the group, one after the other, each with all rows: as wide as the panels of
    /// values are.
    fn compute(&self, view: View, queries: &[f32], heads: &Heads) -> Vec<f32> {
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
        // Pages that no row of this part sees are left out.
        let skipped = view.first(self.run.start + self.rows.start) / PAGE;
        let pages = &self.run.cache.pages[skipped..end.div_ceil(PAGE)];
        let origin = skipped * PAGE;
        let room = pages.len() * PAGE;
        let head = view.layer * shared + self.head;
        let mut scores = vec![0.0; rows * room];
        let of = head * width..(head + 1) * width;
        for (pages, from) in pages.chunks(TOGETHER).zip((0..).step_by(TOGETHER * PAGE)) {
            let sums = Sums { values: &mut scores[from..], stride: room };
            if let Some(pages) = pages.first_chunk::<TOGETHER>() {
                multiply(pages.each_ref().map(|page| &page.keys[of.clone()]), own, sums, rows);
                continue;
            }
            for (index, page) in pages.iter().enumerate() {
                let sums = Sums { values: &mut scores[from + index * PAGE..], stride: room };
                multiply([&page.keys[of.clone()]], own, sums, rows);
            }
        }
        for (index, row) in scores.chunks_exact_mut(room).enumerate() {
            // A row sees itself and what comes before it.
            let position = self.run.start + self.rows.start + index % count;
            let seen = view.first(position) - origin..position + 1 - origin;
            if let Some(cap) = view.cap {
                soft_cap(cap, &mut row[seen.clone()]);
            }
            softmax(&mut row[seen.clone()]);
            row[..seen.start].fill(0.0);
            row[seen.end..].fill(0.0);
        }
        let wide = heads.panels() * LANES;
        let mut mixed = vec![0.0; rows * wide];
        for (page, from) in pages.iter().zip((0..).step_by(PAGE)) {
            let shares = Inputs { values: &scores[from..], stride: room };
            let depth = PAGE.min(end - origin - from);
            let lines = |panel: usize| &page.values[(head * heads.panels() + panel) * PAGE..][..depth];
            for panel in (0..heads.panels()).step_by(2) {
                let sums = Sums { values: &mut mixed[panel * LANES..], stride: wide };
                if panel + 1 < heads.panels() {
                    multiply([lines(panel), lines(panel + 1)], shares, sums, rows);
                } else {
                    multiply([lines(panel)], shares, sums, rows);
                }
            }
        }
        mixed
    }
}
