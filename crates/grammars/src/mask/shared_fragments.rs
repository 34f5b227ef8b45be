//! Fragments that a library keeps for the next scratch of the same grammar.
//!
//! A fragment depends on nothing but the rules, the terminals, a point and a [truncated](crate::parser::truncation)
//! parser state. So when a grammar is compiled again, its fragments are ready. Grammars are the same if their
//! compiled rules are, number by number. A parser state is spelled out by positions, from its items down to its
//! placeholders, because its number is that of a scratch.
//!
//! A library does not keep fragments of grammars with members in any order, whose positions are numbers of a scratch
//! too, with counted units or with differences.

use std::sync::{Arc, OnceLock};

use unskew_grammar::Terminal;

use super::grammar_trees::GrammarTrees;
use crate::{
    ids::{Id, number},
    network::terminals::Scanner,
    parser::{
        configurations::Compiled,
        continuations::Continuation,
        states::{Parser, ParserState},
    },
    trees::{
        cache::LibraryId,
        fragments::{Fragment, SharedFragmentKey, SpelledGrammar},
        library::TreeLibrary,
        points::PointKey,
    },
};

/// The number of a grammar in a library, once it was asked for; `None` if it has none.
pub(crate) type GrammarNumber = OnceLock<Option<LibraryId>>;

/// The key of the fragment of a point in a truncated state, if a library can keep it.
pub(crate) fn shared_fragment_key(
    trees: &GrammarTrees,
    compiled: &Compiled,
    parser: &Parser,
    point: PointKey,
    state: ParserState,
) -> Option<SharedFragmentKey> {
    let library = &trees.library;
    let grammar = *trees.grammar.get_or_init(|| {
        let grammar = SpelledGrammar(spelled_grammar(trees, compiled)?.into());
        let known = library.cache.get(&grammar);
        Some(known.unwrap_or_else(|| library.cache.keep(grammar, library.ids.next())))
    });
    Some(SharedFragmentKey(grammar?, point, spelled_state(parser, state).into()))
}

impl TreeLibrary {
    /// The fragment of this key; `None` inside if it is known that there is none, and outside if nothing is known.
    pub(crate) fn shared_fragment(&self, key: &SharedFragmentKey) -> Option<Option<Arc<Fragment>>> {
        self.cache.get(key)
    }

    /// Keeps a fragment.
    pub(crate) fn share_fragment(&self, key: SharedFragmentKey, fragment: &Option<Arc<Fragment>>) {
        self.cache.keep(key, fragment.clone());
    }
}

/// All of a grammar that a fragment can depend on.
fn spelled_grammar(trees: &GrammarTrees, compiled: &Compiled) -> Option<Vec<u32>> {
    let (rules, terminals) = (&compiled.rules, &compiled.terminals);
    if !rules.groups.entries().is_empty() || rules.len() > compiled.tuning.shared_numbers {
        return None;
    }
    let (literals, others) = terminals.len();
    let mut spelled = vec![number(literals), number(others)];
    for text in terminals.texts() {
        spelled.push(number(text.len()));
        spelled.extend(text.iter().map(|byte| u32::from(*byte)));
    }
    for terminal in terminals.without_literals() {
        match terminals.scanner(terminal) {
            Scanner::Text(Terminal::Automaton(_), _) => {
                spelled.push(0);
                spelled.extend(trees.numbers(compiled, terminal).0.halves());
            }
            Scanner::Token(token) => spelled.extend([1, token.0]),
            Scanner::End => spelled.push(2),
            Scanner::Text(..) | Scanner::OneOf(_) => return None,
        }
    }
    rules.spell(&mut spelled);
    (spelled.len() <= compiled.tuning.shared_numbers).then_some(spelled)
}

/// The items of a parser state, each with its position and its continuation spelled out.
fn spelled_state(parser: &Parser, state: ParserState) -> Vec<u32> {
    let (mut spelled, mut seen) = (Vec::new(), Vec::new());
    for (position, continuation, _) in parser.items(state) {
        spelled.push(position.raw());
        spell_continuation(parser, *continuation, &mut spelled, &mut seen);
    }
    spelled
}

/// The number of the continuation among those before, with a bit of its own; or the number of its frames, and each
/// frame. Truncated states are not nested deep.
fn spell_continuation(
    parser: &Parser,
    continuation: Continuation,
    spelled: &mut Vec<u32>,
    seen: &mut Vec<Continuation>,
) {
    const SEEN: u32 = 1 << 31;
    if let Some(known) = seen.iter().position(|other| *other == continuation) {
        spelled.push(SEEN | number(known));
        return;
    }
    seen.push(continuation);
    let frames = parser.continuations().frames(continuation);
    spelled.push(number(frames.len()));
    for (position, target, _) in frames {
        spelled.push(position.raw());
        spell_continuation(parser, *target, spelled, seen);
    }
}
