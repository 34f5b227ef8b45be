//! A machine reads a byte in a step, or a whole character by its atom.
//!
//! A pattern such as `(?=.*\bTotal\b).{1,200}` tells few characters apart: line breaks, the letters of the word, other
//! characters of words, and the rest. Byte by byte, each of two hundred places would have the hundreds of states in
//! which a character of words may be half read. So the machine reads characters by their atoms, and only the finished
//! automaton is written over bytes, by the decision tree that its states share.
//!
//! A pattern with a part that is an automaton over bytes, or a text that is no UTF-8, is read byte by byte.

use regex_syntax::hir::Class;
use rustc_hash::FxHashMap;

use super::{
    super::{
        atoms::Atoms,
        explore::Graph,
        table::DEAD,
        utf8::{Edges, Tree},
    },
    tree::{Node, PatternId, Patterns},
};
use crate::{
    Dfa, Limits, RegexError,
    dfa::{CharSet, DfaBuilder},
};

/// The number of a byte, or of an atom.
pub(super) type Symbol = u32;

/// The most pairs of a set and a range of characters that are compared.
const MAX_PAIRS: usize = 20_000_000;

#[derive(Debug)]
pub(super) enum Alphabet {
    Bytes,
    Characters(Box<Characters>),
}

#[derive(Debug)]
pub(super) struct Characters {
    /// The sets of the pattern, in ascending order.
    sets: Vec<CharSet>,
    atoms: Atoms,
    tree: Tree,
}

impl Alphabet {
    /// The alphabet of these nodes.
    pub(super) fn of(patterns: &Patterns, reached: impl Iterator<Item = PatternId>) -> Self {
        let mut sets = vec![CharSet::all()];
        for id in reached {
            match patterns.node(id) {
                Node::Automaton(_) => return Self::Bytes,
                Node::Literal(text) => {
                    let Ok(text) = std::str::from_utf8(text) else { return Self::Bytes };
                    sets.extend(text.chars().map(|char| CharSet::from_iter([char])));
                }
                Node::Class(class) => match characters(class) {
                    Some(set) => sets.push(set),
                    None => return Self::Bytes,
                },
                _ => {}
            }
        }
        sets.sort_unstable();
        sets.dedup();
        let ranges: usize = sets.iter().map(|set| set.ranges().len()).sum();
        if sets.len() * ranges > MAX_PAIRS {
            return Self::Bytes;
        }
        let atoms = Atoms::new(&sets.iter().collect::<Vec<_>>());
        let tree = Tree::new(&atoms, &mut 0);
        Self::Characters(Box::new(Characters { sets, atoms, tree }))
    }

    /// The number of symbols.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bytes => 256,
            Self::Characters(characters) => characters.atoms.count,
        }
    }

    /// The automaton of `graph`, whose edges have ranges of symbols. It accepts in the states for which `accepts`
    /// holds, and after those for which `is_free` holds any bytes may follow.
    pub(super) fn automaton(
        &self,
        graph: &Graph<(Symbol, Symbol)>,
        accepts: impl Fn(usize) -> bool,
        is_free: impl Fn(usize) -> bool,
        limits: &Limits,
    ) -> Result<Dfa, RegexError> {
        let mut made = DfaBuilder::new(limits);
        for state in 0..graph.edges().len() {
            made.state(accepts(state))?;
        }
        // The states inside of characters, by their edges.
        let mut inside: FxHashMap<Edges<u32>, u32> = FxHashMap::default();
        for (from, edges) in (0u32..).zip(graph.edges()) {
            if is_free(from as usize) {
                // In one state: a condition that holds already is seen to be none.
                made.edge(from, 0..=255, from);
                continue;
            }
            let Self::Characters(characters) = self else {
                for ((first, last), to) in edges {
                    let [first, last] = [*first, *last].map(|byte| u8::try_from(byte).expect("a byte"));
                    made.edge(from, first..=last, *to);
                }
                continue;
            };
            let mut row = vec![DEAD; characters.atoms.count];
            for ((first, last), to) in edges {
                row[*first as usize..=*last as usize].fill(*to);
            }
            let edges = characters.tree.edges(&row, |edges| {
                if let Some(known) = inside.get(&edges) {
                    return Ok(*known);
                }
                let state = made.state(false)?;
                edges.iter().for_each(|(first, last, to)| made.edge(state, *first..=*last, *to));
                inside.insert(edges, state);
                Ok::<_, RegexError>(state)
            })?;
            edges.iter().for_each(|(first, last, to)| made.edge(from, *first..=*last, *to));
        }
        made.build()
    }
}

impl Characters {
    /// The atoms of a set of the pattern, as ascending ranges.
    pub(super) fn symbols(&self, set: &CharSet) -> Vec<(Symbol, Symbol)> {
        let at = self.sets.binary_search(set).expect("the set is one of the pattern");
        let mut found: Vec<(Symbol, Symbol)> = vec![];
        for (symbol, _) in (0..).zip(&self.atoms.members[at]).filter(|(_, is_in)| **is_in) {
            match found.last_mut() {
                Some((_, last)) if *last + 1 == symbol => *last = symbol,
                _ => found.push((symbol, symbol)),
            }
        }
        found
    }
}

/// The class as one of characters; all bytes are all characters. `None` for other bytes beyond ASCII.
pub(super) fn characters(class: &Class) -> Option<CharSet> {
    match class {
        Class::Unicode(class) => Some(class.into()),
        Class::Bytes(bytes) => {
            let is_all = matches!(bytes.ranges(), [range] if (range.start(), range.end()) == (0, 255));
            let class = bytes.to_unicode_class().map(|class| CharSet::from(&class));
            class.or_else(|| is_all.then(CharSet::all))
        }
    }
}
