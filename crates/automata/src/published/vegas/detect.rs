//! The Vegas configurations of a pattern: its parts between delimiters that no merge crosses.
//!
//! A concatenation is cut at its *hard junctions*. At a hard junction, every byte that may be on the left forms a
//! hard pair with every byte that may be on the right ([`super::hard`]). The syntax tree gives these bytes. On the
//! left they are the last bytes of the item, and of the items before it if it may be empty, and so on, up to the
//! bytes before the whole concatenation. On the right they are the first bytes, in the same way. So for a part `R`
//! between `d1` and `d2` that may be empty, `d1 d2` is a pair of both junctions. The part between two adjacent hard
//! junctions is a configuration, unless it is a constant text.
//!
//! Under this condition the encoder's work splits: for every text `u d1 w d2 v` with `w` in `R`, `merge(u d1 w d2 v)
//! = merge(u d1) merge(w) merge(d2 v)`. As long as no merge crosses a junction, the parts evolve independently, and
//! a merge that crosses one would create a token that contains a hard pair. (A pre-tokenizer may still look across a
//! junction, as `\s+(?!\S)` does. The product of the constraint with the tokenizer follows the splits, and it is cut
//! at the same junctions.)
//!
//! Tried instead: cutting the pattern's text. The tree resolves classes and flags, and the parts that may be empty.

use regex_syntax::hir::{Class, Hir, HirKind};
use unskew_trie::ByteSet;

use super::hard::HardBigrams;
use crate::{Limits, RegexError, regex::parse};

/// A part of a pattern between delimiters that no merge crosses.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct VegasConfiguration {
    /// The part, as an equivalent pattern.
    pub pattern: String,
    /// The bytes that may precede it. Empty: it is at the beginning of the text.
    pub before: ByteSet,
    /// The bytes that may follow it. Empty: it is at the end of the text.
    pub behind: ByteSet,
    /// The number of groups, repetitions, alternations and concatenations around it.
    pub depth: usize,
}

/// The Vegas configurations of `pattern` for a vocabulary with these hard bigrams, from left to right, an outer one
/// before its inner ones. The whole pattern and constant texts are not listed.
///
/// Cost: O(n d) for a syntax tree of n nodes and depth d, with classes and literals by their bytes.
///
/// # Errors
///
/// [`RegexError`] if the pattern cannot be read.
///
/// # Example
///
/// ```
/// use unskew_automata::{Limits, published::{HardBigrams, vegas_configurations}};
/// use unskew_core::Vocabulary;
///
/// let mut builder = Vocabulary::builder();
/// for text in ["name", ":", " a", "ab", "\n"] {
///     builder.text(text.as_bytes());
/// }
/// let hard = HardBigrams::new(&builder.build()?);
/// let found = vegas_configurations("name: [ab]+\n", &hard, &Limits::default())?;
/// assert_eq!(found.len(), 1);
/// assert!(found[0].pattern.contains("[ab]")); // with the blank, which may merge with the value
/// assert!(found[0].before.contains(b':') && found[0].behind.contains(b'\n'));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn vegas_configurations(
    pattern: &str,
    hard: &HardBigrams,
    limits: &Limits,
) -> Result<Vec<VegasConfiguration>, RegexError> {
    let hir = parse(pattern, limits)?.plain()?;
    let edges = Edges::of(&hir);
    let mut search = Search { hard, found: vec![] };
    search.visit(&hir, &edges, ByteSet::default(), ByteSet::default(), 0);
    Ok(search.found)
}

/// Facts about the ends of a part's texts.
#[derive(Clone, Debug)]
struct Edges {
    /// The first bytes of its texts.
    first: ByteSet,
    /// The last bytes of its texts.
    last: ByteSet,
    nullable: bool,
    /// The edges of its parts, in their order.
    parts: Vec<Edges>,
}

impl Edges {
    /// The parser's limits bound the depth of trees, so this recursion is not deeper than the parser's own.
    fn of(hir: &Hir) -> Self {
        let (mut first, mut last) = (ByteSet::default(), ByteSet::default());
        let mut parts = Vec::new();
        let nullable = match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => true,
            HirKind::Literal(literal) => {
                literal.0.first().into_iter().for_each(|byte| first.insert(*byte));
                literal.0.last().into_iter().for_each(|byte| last.insert(*byte));
                literal.0.is_empty()
            }
            HirKind::Class(class) => {
                class_edges(class, &mut first, &mut last);
                false
            }
            HirKind::Repetition(repetition) => {
                let inner = Self::of(&repetition.sub);
                let nullable = inner.nullable || repetition.min == 0;
                if repetition.max != Some(0) {
                    (first, last) = (inner.first, inner.last);
                }
                parts.push(inner);
                nullable
            }
            HirKind::Capture(capture) => {
                let inner = Self::of(&capture.sub);
                (first, last) = (inner.first, inner.last);
                let nullable = inner.nullable;
                parts.push(inner);
                nullable
            }
            HirKind::Concat(items) => {
                parts.extend(items.iter().map(Self::of));
                first = first_of(&parts, ByteSet::default());
                last = last_of(&parts, ByteSet::default());
                parts.iter().all(|part| part.nullable)
            }
            HirKind::Alternation(items) => {
                parts.extend(items.iter().map(Self::of));
                for part in &parts {
                    first.union(&part.first);
                    last.union(&part.last);
                }
                parts.iter().any(|part| part.nullable)
            }
        };
        Self { first, last, nullable, parts }
    }
}

/// The first bytes of a concatenation that `behind` follows.
fn first_of(parts: &[Edges], behind: ByteSet) -> ByteSet {
    let mut first = ByteSet::default();
    for part in parts {
        first.union(&part.first);
        if !part.nullable {
            return first;
        }
    }
    first.union(&behind);
    first
}

/// The last bytes of a concatenation that `before` precedes.
fn last_of(parts: &[Edges], before: ByteSet) -> ByteSet {
    let mut last = ByteSet::default();
    for part in parts.iter().rev() {
        last.union(&part.last);
        if !part.nullable {
            return last;
        }
    }
    last.union(&before);
    last
}

/// The first and last bytes of the characters of a class.
fn class_edges(class: &Class, first: &mut ByteSet, last: &mut ByteSet) {
    match class {
        Class::Bytes(class) => {
            for range in class.iter() {
                let bytes: ByteSet = (range.start()..=range.end()).collect();
                first.union(&bytes);
                last.union(&bytes);
            }
        }
        Class::Unicode(class) => {
            for range in class.iter() {
                for sequence in regex_syntax::utf8::Utf8Sequences::new(range.start(), range.end()) {
                    let slice = sequence.as_slice();
                    if let (Some(begin), Some(end)) = (slice.first(), slice.last()) {
                        first.union(&(begin.start..=begin.end).collect());
                        last.union(&(end.start..=end.end).collect());
                    }
                }
            }
        }
    }
}

/// The pattern of `hir`, without the brackets that the printer writes around a whole concatenation.
fn printed(hir: &Hir) -> String {
    match hir.kind() {
        HirKind::Concat(items) => items.iter().map(Hir::to_string).collect(),
        _ => hir.to_string(),
    }
}

struct Search<'a> {
    hard: &'a HardBigrams,
    found: Vec<VegasConfiguration>,
}

impl Search<'_> {
    /// Searches `hir`, where `before` may precede it and `behind` may follow it.
    fn visit(&mut self, hir: &Hir, edges: &Edges, before: ByteSet, behind: ByteSet, depth: usize) {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) | HirKind::Literal(_) | HirKind::Class(_) => {}
            HirKind::Capture(capture) => self.visit(&capture.sub, &edges.parts[0], before, behind, depth),
            HirKind::Repetition(repetition) => {
                let inner = &edges.parts[0];
                let (mut before, mut behind) = (before, behind);
                if repetition.max != Some(1) {
                    before.union(&inner.last);
                    behind.union(&inner.first);
                }
                self.part(&repetition.sub, inner, before, behind, depth + 1);
            }
            HirKind::Alternation(items) => {
                for (item, edges) in items.iter().zip(&edges.parts) {
                    self.part(item, edges, before, behind, depth + 1);
                }
            }
            HirKind::Concat(items) => self.concatenation(items, before, behind, depth),
        }
    }

    /// Visits one part: it may be a configuration, and may contain others.
    fn part(&mut self, hir: &Hir, edges: &Edges, before: ByteSet, behind: ByteSet, depth: usize) {
        if matches!(hir.kind(), HirKind::Concat(_)) {
            return self.visit(hir, edges, before, behind, depth);
        }
        self.add(std::slice::from_ref(hir), std::slice::from_ref(edges), before, behind, depth);
        self.visit(hir, edges, before, behind, depth);
    }

    fn concatenation(&mut self, items: &[Hir], before: ByteSet, behind: ByteSet, depth: usize) {
        // Literals are split into bytes, so that a blank before a value can be separated from the key.
        let mut units: Vec<Hir> = Vec::new();
        for item in items {
            match item.kind() {
                HirKind::Literal(literal) => units.extend(literal.0.iter().map(|byte| Hir::literal([*byte]))),
                _ => units.push(item.clone()),
            }
        }
        let edges: Vec<Edges> = units.iter().map(Edges::of).collect();
        // `lefts[i]` may precede unit i. `rights[i]` may begin unit i, or the next units if it may be empty.
        let mut lefts = vec![before];
        for unit in &edges {
            let mut left = unit.last;
            if unit.nullable {
                left.union(&lefts[lefts.len() - 1]);
            }
            lefts.push(left);
        }
        let mut rights = vec![behind; units.len() + 1];
        for at in (0..units.len()).rev() {
            let mut right = edges[at].first;
            if edges[at].nullable {
                right.union(&rights[at + 1]);
            }
            rights[at] = right;
        }
        let is_cut = |at: usize| at == 0 || at == units.len() || self.hard.all_hard(&lefts[at], &rights[at]);
        let cuts: Vec<usize> = (0..=units.len()).filter(|at| is_cut(*at)).collect();
        for cut in cuts.windows(2) {
            let (begin, end) = (cut[0], cut[1]);
            self.add(&units[begin..end], &edges[begin..end], lefts[begin], rights[end], depth);
            for at in begin..end {
                self.visit(&units[at], &edges[at], lefts[at], rights[at + 1], depth + 1);
            }
        }
    }

    /// Adds the concatenation of `units` to the list, if it is a configuration.
    fn add(&mut self, units: &[Hir], edges: &[Edges], before: ByteSet, behind: ByteSet, depth: usize) {
        let varies =
            |unit: &Hir| !matches!(unit.kind(), HirKind::Literal(_) | HirKind::Empty | HirKind::Look(_));
        let is_whole = before.is_empty() && behind.is_empty();
        let hard = self.hard.all_hard(&before, &first_of(edges, behind))
            && self.hard.all_hard(&last_of(edges, before), &behind);
        if hard && !is_whole && units.iter().any(varies) {
            let pattern = printed(&Hir::concat(units.to_vec()));
            if self.found.last().is_none_or(|last| last.pattern != pattern || last.depth + 1 != depth) {
                self.found.push(VegasConfiguration { pattern, before, behind, depth });
            }
        }
    }
}
