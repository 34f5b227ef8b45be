//! Parts of masks that a library keeps for the next scratch of the same grammar.
//!
//! A part says nothing but what follows from the rules, the terminals, a point and a todo with [holes](crate::local). So when a
//! grammar is compiled again, its parts lie ready. Grammars are the same if their compiled rules are, number by number; a todo is
//! spelled out by positions, from its items down to its holes, for its number is that of a scratch.
//!
//! Not kept are parts of grammars with members in any order, whose positions are numbers of a scratch as well, with counted units or
//! with texts left out; nor parts from points whose nodes the library has not kept.

use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;

use crate::{
    contexts::{Part, PointKey},
    mask::Trees,
    parser::{Parser, Return, Todo},
    places::Compiled,
    rules::NONE,
    terminals::Scanner,
    trees::TreeLibrary,
};

/// Beyond so many numbers a grammar is not worth comparing.
const MOST_NUMBERS: usize = 1 << 16;

/// What a library knows of grammars.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// By what a grammar is, spelled out.
    grammars: HashMap<Box<[u32]>, u32>,
    parts: HashMap<SharedKey, Option<Arc<Part>>>,
}

/// The grammar, the point, and the todo, spelled out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SharedKey(u32, PointKey, Box<[u32]>);

/// The number of a grammar in a library, once it was asked for; [`NONE`] if it has none.
pub(crate) type GrammarNumber = OnceLock<u32>;

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
        let Some(grammar) = spelled_grammar(trees, compiled) else { return NONE };
        let mut kept = library.lock();
        let next = u32::try_from(kept.shared.grammars.len()).expect("bounded memory");
        if let Some(known) = kept.shared.grammars.get(&grammar[..]) {
            return *known;
        }
        if kept.bytes >= library.limit() {
            return NONE;
        }
        kept.bytes += size_of_val(&grammar[..]);
        kept.shared.grammars.insert(grammar.into(), next);
        next
    });
    (number != NONE).then(|| SharedKey(number, point, spelled_todo(parser, todo).into()))
}

impl TreeLibrary {
    /// The part of this key, `None` if it is known that there is none, if anything is known.
    pub(crate) fn shared_part(&self, key: &SharedKey) -> Option<Option<Arc<Part>>> {
        self.lock().shared.parts.get(key).cloned()
    }

    /// Keeps a part, if there is room.
    pub(crate) fn share_part(&self, key: SharedKey, part: &Option<Arc<Part>>) {
        let mut kept = self.lock();
        if kept.bytes < self.limit() {
            kept.bytes += size_of::<SharedKey>()
                + size_of_val(&key.2[..])
                + part.as_ref().map_or(0, |part| part.memory_usage());
            kept.shared.parts.insert(key, part.clone());
        }
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
            Scanner::Automaton(..) => spelled.extend([0, trees.number(compiled, terminal)]),
            Scanner::Token(token) => spelled.extend([1, token.0]),
            Scanner::End => spelled.push(2),
            Scanner::Except(..) | Scanner::Counted(_) => return None,
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
