//! Parts of masks that a library keeps for the next scratch of the same grammar.
//!
//! A part says nothing but what follows from the rules, the terminals, a point and a todo with [holes](crate::parser::local). So when a
//! grammar is compiled again, its parts lie ready. Grammars are the same if their compiled rules are, number by number; a todo is
//! spelled out by positions, from its items down to its holes, for its number is that of a scratch.
//!
//! Not kept are parts of grammars with members in any order, whose positions are numbers of a scratch as well, with counted units or
//! with texts left out; nor parts from points whose nodes the library has not kept.

use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;

use super::{
    contexts::{Part, PointKey},
    maker::Trees,
};
use crate::{
    ids::COUNTS,
    network::terminals::Scanner,
    parser::{
        engine::{Parser, Return, Todo},
        places::Compiled,
    },
    trees::{
        kept::{Entry, LibraryId, Tables},
        nodes::TreeLibrary,
    },
};

/// Beyond so many numbers a grammar is not worth comparing.
const MOST_NUMBERS: usize = 1 << 16;

/// What a library knows of grammars.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) grammars: HashMap<SpelledGrammar, LibraryId>,
    parts: HashMap<SharedKey, Option<Arc<Part>>>,
}

/// A compiled grammar, spelled out.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(crate) struct SpelledGrammar(pub(crate) Box<[u32]>);

/// The grammar, the point, and the todo, spelled out.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(crate) struct SharedKey(LibraryId, PointKey, Box<[u32]>);

/// The number of a grammar in a library, once it was asked for; `None` if it has none.
pub(crate) type GrammarNumber = OnceLock<Option<LibraryId>>;

impl Entry for SharedKey {
    type Value = Option<Arc<Part>>;

    fn table(tables: &Tables) -> &HashMap<Self, Self::Value> {
        &tables.shared.parts
    }

    fn table_mut(tables: &mut Tables) -> &mut HashMap<Self, Self::Value> {
        &mut tables.shared.parts
    }

    fn bytes(&self, part: &Self::Value) -> usize {
        size_of_val(&self.2[..]) + part.as_ref().map_or(0, |part| part.memory_usage() + COUNTS)
    }

    fn each_held(&self, part: &Self::Value, each: &mut dyn FnMut(LibraryId, usize)) {
        if let Some(part) = part {
            part.each_held(each);
        }
    }
}

/// The key of the part from this point on, if a library can keep it.
pub(crate) fn shared_key(
    trees: &Trees,
    compiled: &Compiled,
    parser: &Parser,
    point: PointKey,
    todo: Todo,
) -> Option<SharedKey> {
    let library = &trees.library;
    let number = *trees.grammar.get_or_init(|| {
        let grammar = SpelledGrammar(spelled_grammar(trees, compiled)?.into());
        let known = library.kept.get(&grammar);
        Some(known.unwrap_or_else(|| library.kept.keep(grammar, library.ids.next())))
    });
    Some(SharedKey(number?, point, spelled_todo(parser, todo).into()))
}

impl TreeLibrary {
    /// The part of this key, `None` if it is known that there is none, if anything is known.
    pub(crate) fn shared_part(&self, key: &SharedKey) -> Option<Option<Arc<Part>>> {
        self.kept.get(key)
    }

    /// Keeps a part.
    pub(crate) fn share_part(&self, key: SharedKey, part: &Option<Arc<Part>>) {
        self.kept.keep(key, part.clone());
    }
}

/// All that a part can depend on.
fn spelled_grammar(trees: &Trees, compiled: &Compiled) -> Option<Vec<u32>> {
    let (rules, terminals) = (&compiled.rules, &compiled.terminals);
    if !rules.groups.is_empty() || rules.len() > MOST_NUMBERS {
        return None;
    }
    let (literals, others) = terminals.len();
    let mut spelled = vec![id(literals), id(others)];
    for literal in 0..id(literals) {
        let text = terminals.literal(literal);
        spelled.push(id(text.len()));
        spelled.extend(text.iter().map(|byte| u32::from(*byte)));
    }
    for terminal in id(literals)..id(literals + others) {
        match terminals.scanner(terminal) {
            Scanner::Automaton(..) => {
                spelled.push(0);
                spelled.extend(trees.number(compiled, terminal).halves());
            }
            Scanner::Token(token) => spelled.extend([1, token.0]),
            Scanner::End => spelled.push(2),
            Scanner::Except(..) | Scanner::Counted(_) | Scanner::OneOf(_) => return None,
        }
    }
    rules.spell(&mut spelled);
    (spelled.len() <= MOST_NUMBERS).then_some(spelled)
}

/// The items of `todo`, each a position and what its return is.
fn spelled_todo(parser: &Parser, todo: Todo) -> Vec<u32> {
    let (mut spelled, mut seen) = (Vec::new(), Vec::new());
    for (position, back, _) in parser.items(todo) {
        spelled.push(*position);
        spell_return(parser, *back, &mut spelled, &mut seen);
    }
    spelled
}

/// The number of the return among those before; or how many frames it has, and each of these. Returns with holes are not nested
/// deep.
fn spell_return(parser: &Parser, back: Return, spelled: &mut Vec<u32>, seen: &mut Vec<Return>) {
    /// Of the number of a return.
    const SEEN: u32 = 1 << 31;
    if let Some(known) = seen.iter().position(|other| *other == back) {
        spelled.push(SEEN | id(known));
        return;
    }
    seen.push(back);
    let frames = parser.returns().frames(back);
    spelled.push(id(frames.len()));
    for (position, target, _) in frames {
        spelled.push(*position);
        spell_return(parser, *target, spelled, seen);
    }
}

fn id(index: usize) -> u32 {
    u32::try_from(index).expect("limited")
}
