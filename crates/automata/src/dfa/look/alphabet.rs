//! A machine reads a byte in a step, or a whole character by its class.
//!
//! A pattern such as `(?=.*\bTotal\b).{1,200}` tells few characters apart: line breaks, the letters of the word, other
//! characters of words, and the rest. Byte by byte, each of two hundred places would have the hundreds of states in
//! which a character of words may be half read. So the machine reads characters by their classes, and only the finished
//! automaton is written over bytes, by the tables of UTF-8 that its states share.
//!
//! A pattern with a part that is an automaton over bytes, or a text that is no UTF-8, is read byte by byte.

use std::collections::HashMap;

use regex_syntax::{
    hir::{Class, ClassUnicode, ClassUnicodeRange},
    utf8::{Utf8Range, Utf8Sequences},
};
use rustc_hash::FxHashMap;

use super::tree::{Node, PatternId, Patterns};
use crate::{DfaBuilder, RegexError};

/// The number of a byte, or of a class of characters.
pub(super) type Symbol = u32;

/// The most pairs of a class and a range of characters that are compared.
const MAX_PAIRS: usize = 20_000_000;

#[derive(Debug)]
pub(super) enum Alphabet {
    Bytes,
    /// All characters: ascending ranges, each with its class.
    Characters {
        ranges: Vec<(char, char, Symbol)>,
        classes: u32,
    },
}

/// Edges over bytes of a state that is inside of a character, with its number.
pub(super) type Inside = FxHashMap<Vec<(u8, u8, u32)>, u32>;

impl Alphabet {
    /// The alphabet of these nodes.
    pub(super) fn of(patterns: &Patterns, reached: impl Iterator<Item = PatternId>) -> Self {
        let (mut classes, mut begins) = (vec![], vec![0, 0xd800, 0xe000]);
        let mut add = |class: ClassUnicode| {
            for range in class.iter() {
                begins.extend([u32::from(range.start()), u32::from(range.end()) + 1]);
            }
            classes.push(class);
        };
        for id in reached {
            match patterns.node(id) {
                Node::Automaton(_) => return Self::Bytes,
                Node::Literal(text) => {
                    let Ok(text) = std::str::from_utf8(text) else { return Self::Bytes };
                    text.chars()
                        .for_each(|char| add(ClassUnicode::new([ClassUnicodeRange::new(char, char)])));
                }
                Node::Class(class) => match characters(class) {
                    Some(class) => add(class),
                    None => return Self::Bytes,
                },
                _ => {}
            }
        }
        classes.sort_unstable_by(|left, right| left.ranges().cmp(right.ranges()));
        classes.dedup();
        begins.sort_unstable();
        begins.dedup();
        begins.retain(|begin| *begin <= u32::from(char::MAX) && *begin != 0xd800);
        if classes.len() * begins.len() > MAX_PAIRS {
            return Self::Bytes;
        }
        // Ranges of one class are in the same classes of the pattern.
        let mut of: Vec<Symbol> = vec![0; begins.len()];
        let mut count = 1;
        for class in &classes {
            let mut split: HashMap<(Symbol, bool), Symbol> = HashMap::new();
            let mut ranges = class.iter().peekable();
            for (begin, symbol) in begins.iter().zip(&mut of) {
                while ranges.next_if(|range| u32::from(range.end()) < *begin).is_some() {}
                let is_in = ranges.peek().is_some_and(|range| u32::from(range.start()) <= *begin);
                let next = split.len() as Symbol;
                *symbol = *split.entry((*symbol, is_in)).or_insert(next);
            }
            count = split.len() as u32;
        }
        let ends = begins.iter().skip(1).copied().chain([u32::from(char::MAX) + 1]);
        let ranges = begins.iter().zip(ends).zip(of).filter_map(|((begin, end), symbol)| {
            let last = if end == 0xe000 { 0xd7ff } else { end - 1 };
            Some((char::from_u32(*begin)?, char::from_u32(last)?, symbol))
        });
        Self::Characters { ranges: ranges.collect(), classes: count }
    }

    /// The number of symbols.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bytes => 256,
            Self::Characters { classes, .. } => *classes as usize,
        }
    }

    /// The symbols of a character or a class, as ascending ranges. Only of an alphabet of characters.
    pub(super) fn symbols(&self, class: &ClassUnicode) -> Vec<(Symbol, Symbol)> {
        let Self::Characters { ranges, classes } = self else { return vec![] };
        let mut is_in = vec![false; *classes as usize];
        for range in class.iter() {
            let from = ranges.partition_point(|(_, last, _)| *last < range.start());
            ranges[from..].iter().take_while(|(first, ..)| *first <= range.end()).for_each(|(.., symbol)| {
                is_in[*symbol as usize] = true;
            });
        }
        let mut found: Vec<(Symbol, Symbol)> = vec![];
        for symbol in (0..*classes).filter(|symbol| is_in[*symbol as usize]) {
            match found.last_mut() {
                Some((_, last)) if *last + 1 == symbol => *last = symbol,
                _ => found.push((symbol, symbol)),
            }
        }
        found
    }

    /// Gives the state `from` of `made` its edges.
    pub(super) fn write(
        &self,
        made: &mut DfaBuilder,
        from: u32,
        edges: &[(Symbol, Symbol, u32)],
        inside: &mut Inside,
    ) -> Result<(), RegexError> {
        let Self::Characters { ranges, classes } = self else {
            for (first, last, to) in edges {
                let [first, last] = [*first, *last].map(|byte| u8::try_from(byte).expect("a byte"));
                made.edge(from, first..=last, *to);
            }
            return Ok(());
        };
        let mut targets = vec![None; *classes as usize];
        for (first, last, to) in edges {
            targets[*first as usize..=*last as usize].fill(Some(*to));
        }
        let mut pieces: Vec<(char, char, u32)> = vec![];
        for (first, last, symbol) in ranges {
            let Some(to) = targets[*symbol as usize] else { continue };
            match pieces.last_mut() {
                Some((_, end, of)) if *of == to && next(*end) == Some(*first) => *end = *last,
                _ => pieces.push((*first, *last, to)),
            }
        }
        let sequences = pieces.iter().flat_map(|(first, last, to)| {
            Utf8Sequences::new(*first, *last).map(|sequence| (sequence.as_slice().to_vec(), *to))
        });
        let sequences: Vec<(Vec<Utf8Range>, u32)> = sequences.collect();
        for (first, last, to) in below(made, &sequences, 0, inside)? {
            made.edge(from, first..=last, to);
        }
        Ok(())
    }
}

/// The edges of the state that has read `depth` bytes of these sequences. The recursion is four bytes deep.
fn below(
    made: &mut DfaBuilder,
    sequences: &[(Vec<Utf8Range>, u32)],
    depth: usize,
    inside: &mut Inside,
) -> Result<Vec<(u8, u8, u32)>, RegexError> {
    let mut edges = vec![];
    for group in sequences.chunk_by(|left, right| left.0[depth] == right.0[depth]) {
        let Utf8Range { start, end } = group[0].0[depth];
        let to = if group[0].0.len() == depth + 1 {
            group[0].1
        } else {
            let rest = below(made, group, depth + 1, inside)?;
            match inside.get(&rest) {
                Some(known) => *known,
                None => {
                    let state = made.state(false)?;
                    rest.iter().for_each(|(first, last, to)| made.edge(state, *first..=*last, *to));
                    inside.insert(rest, state);
                    state
                }
            }
        };
        edges.push((start, end, to));
    }
    Ok(edges)
}

fn next(char: char) -> Option<char> {
    char::from_u32(if char == '\u{d7ff}' { 0xe000 } else { u32::from(char) + 1 })
}

/// The class as one of characters; all bytes are all characters. `None` for other bytes beyond ASCII.
pub(super) fn characters(class: &Class) -> Option<ClassUnicode> {
    match class {
        Class::Unicode(class) => Some(class.clone()),
        Class::Bytes(bytes) => bytes.to_unicode_class().or_else(|| {
            let is_all = matches!(bytes.ranges(), [range] if (range.start(), range.end()) == (0, 255));
            is_all.then(|| ClassUnicode::new([ClassUnicodeRange::new('\0', char::MAX)]))
        }),
    }
}
