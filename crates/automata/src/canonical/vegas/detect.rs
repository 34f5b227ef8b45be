//! The Vegas configurations of a pattern: its parts between delimiters with which nothing merges.
//!
//! A concatenation is cut at its *hard junctions*: where every byte that may stand on the left is hard before every byte
//! that may stand on the right ([`super::hard`]). What may stand there is known from the syntax tree: the last bytes of
//! the item on the left, and of the items before it if it may be empty, and so on up to what stands around the whole
//! concatenation; and likewise on the right. So for a part `R` between `d1` and `d2` that may be empty, `d1 d2` is a pair
//! of both its junctions. What lies between two hard junctions next to each other, and is not the same text always, is a
//! configuration.
//!
//! That is the condition for splitting the encoder's work: for every text `u d1 w d2 v` with `w` in `R`,
//! `merge(u d1 w d2 v) = merge(u d1) merge(w) merge(d2 v)`. For, as long as no merge crosses a junction, the stretches
//! evolve alone, and a merge that crosses one would make a token that contains a hard pair. (A pre-tokenizer may look
//! across a junction all the same, as `\s+(?!\S)` does; where it splits is followed by the product of the constraint
//! with the tokenizer, which is cut at the same junctions.)
//!
//! Tried instead: cutting the pattern's text. The tree knows what a class or a flag stands for, and what may be empty.

use regex_syntax::hir::{Class, Hir, HirKind};
use unskew_trie::ByteSet;

use super::hard::HardBigrams;
use crate::{Limits, RegexError, regex::syntax};

/// A part of a pattern between delimiters with which nothing merges.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct VegasConfiguration {
    /// The part, as a pattern that means the same.
    pub pattern: String,
    /// The bytes that may stand in front of it. None: it stands at the beginning of the text.
    pub before: ByteSet,
    /// The bytes that may stand behind it. None: it stands at the end of the text.
    pub behind: ByteSet,
    /// How many groups, repetitions, alternations and concatenations it lies in.
    pub depth: usize,
}

/// The Vegas configurations of `pattern` for a vocabulary with these hard bigrams, from the left to the right, an outer
/// one before those inside it. The whole pattern is not listed, and parts that are one text always are not either.
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
/// use unskew_automata::{HardBigrams, Limits, vegas_configurations};
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
    let hir = syntax::parse(pattern, limits)?;
    let edges = Edges::of(&hir);
    let mut search = Search { hard, found: vec![] };
    search.visit(&hir, &edges, ByteSet::default(), ByteSet::default(), 0);
    Ok(search.found)
}

/// What is known of the ends of a part's texts.
#[derive(Clone, Debug)]
struct Edges {
    /// The first bytes of its texts.
    first: ByteSet,
    /// The last bytes of its texts.
    last: ByteSet,
    nullable: bool,
    /// Those of the parts of the part, in the same order as `parts` lists them.
    parts: Vec<Edges>,
}

impl Edges {
    /// The limits of the parser bound how deep trees are, so recursion is as deep as the parser's own types need.
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

/// The first bytes of a concatenation with `behind` after it.
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

/// The last bytes of a concatenation with `before` in front of it.
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

/// The pattern of `hir`, without the brackets that the printer puts around a whole concatenation.
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
    /// Looks through `hir`, with `before` in front of it and `behind` after it, wherever it stands.
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

    /// A part by itself: it may be a configuration, and may hold others.
    fn part(&mut self, hir: &Hir, edges: &Edges, before: ByteSet, behind: ByteSet, depth: usize) {
        if matches!(hir.kind(), HirKind::Concat(_)) {
            return self.visit(hir, edges, before, behind, depth);
        }
        self.add(std::slice::from_ref(hir), std::slice::from_ref(edges), before, behind, depth);
        self.visit(hir, edges, before, behind, depth);
    }

    fn concatenation(&mut self, items: &[Hir], before: ByteSet, behind: ByteSet, depth: usize) {
        // Literals fall into their bytes, so that a blank in front of a value can be told from the key.
        let mut units: Vec<Hir> = Vec::new();
        for item in items {
            match item.kind() {
                HirKind::Literal(literal) => units.extend(literal.0.iter().map(|byte| Hir::literal([*byte]))),
                _ => units.push(item.clone()),
            }
        }
        let edges: Vec<Edges> = units.iter().map(Edges::of).collect();
        // `lefts[i]` may stand in front of unit i, and `rights[i]` be its beginning or that of what follows.
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

    /// Lists what `units` are together, if it is a configuration.
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
