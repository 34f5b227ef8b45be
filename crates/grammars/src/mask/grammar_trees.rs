//! A library of subterminal trees, as one compiled grammar uses it: the library's numbers of its automata, and the
//! tokens that contain texts which its terminals leave out.

use std::sync::{Arc, OnceLock};

use unskew_core::TokenId;

use super::shared_fragments::GrammarNumber;
use crate::{
    BoundedRepetition, Difference,
    ids::Id,
    network::terminals::{ScanTerminal, Scanner},
    parser::configurations::Compiled,
    terminal::{difference::Below, remaining::Remaining},
    trees::{
        cache::LibraryId,
        key_tokens::{KeyTokens, marks},
        library::{NumberedDfa, TreeLibrary},
    },
};

/// A library, and the parts of it that a compiled grammar needs.
#[derive(Debug)]
pub(crate) struct GrammarTrees {
    pub(crate) library: Arc<TreeLibrary>,
    /// By terminal, literals not counted: the number of its automaton in the library.
    automata: Vec<Option<LibraryId>>,
    /// By terminal, literals not counted: the tokens that contain a text that it leaves out, once they were asked for.
    containing: Vec<OnceLock<Box<[TokenId]>>>,
    /// By terminal, literals not counted: of a bounded repetition, its automaton without bounds, once it was asked for.
    unbounded: Vec<OnceLock<NumberedDfa>>,
    pub(crate) grammar: GrammarNumber,
}

impl GrammarTrees {
    pub(crate) fn new(library: &Arc<TreeLibrary>, compiled: &Compiled) -> Self {
        let (_, others) = compiled.terminals.len();
        let automata = compiled.terminals.without_literals().map(|terminal| {
            match compiled.terminals.scanner(terminal) {
                Scanner::Automaton(dfa, _) => Some(library.automaton(dfa)),
                Scanner::Difference(difference, _) => Some(library.automaton(difference.base())),
                Scanner::BoundedLength(length) => Some(library.automaton(length.dfa())),
                // The automaton of a repetition is the one without bounds, built when it is first asked for.
                Scanner::BoundedRepetition(_) | Scanner::Token(_) | Scanner::OneOf(_) | Scanner::End => None,
            }
        });
        Self {
            library: Arc::clone(library),
            automata: automata.collect(),
            containing: (0..others).map(|_| OnceLock::new()).collect(),
            unbounded: (0..others).map(|_| OnceLock::new()).collect(),
            grammar: GrammarNumber::new(),
        }
    }

    /// The memory of its tables, in bytes, without the library.
    pub(crate) fn memory_usage(&self) -> usize {
        let containing =
            self.containing.iter().filter_map(OnceLock::get).map(|tokens| size_of_val(&tokens[..]));
        self.automata.capacity() * size_of::<Option<LibraryId>>()
            + self.containing.capacity() * size_of::<OnceLock<Box<[TokenId]>>>()
            + containing.sum::<usize>()
            + self.unbounded.capacity() * size_of::<OnceLock<NumberedDfa>>()
    }

    /// The tokens that contain a text of the automaton from which `difference` leaves texts out.
    pub(crate) fn key_tokens(&self, difference: &Difference, remaining: &Remaining) -> Arc<KeyTokens> {
        let library = &self.library;
        library.key_tokens(library.automaton(difference.base()), || {
            let vocabulary = library.vocabulary();
            match marks(difference.base()) {
                Some((first, last)) => {
                    // If texts are scarce, few may be left after any byte.
                    let tokens = match remaining.is_scarce {
                        true => library.around(first, first, false),
                        false => library.around(first, last, true),
                    };
                    let text = |token: &TokenId| (*token, vocabulary.text(*token).unwrap_or_default());
                    KeyTokens::new(difference, remaining, tokens.iter().map(text))
                }
                None => KeyTokens::new(difference, remaining, vocabulary.text_tokens()),
            }
        })
    }

    /// The number of the automaton of `terminal` in the library.
    pub(crate) fn number(&self, compiled: &Compiled, terminal: ScanTerminal) -> LibraryId {
        let (literals, _) = compiled.terminals.len();
        self.automata[terminal.index() - literals].expect("it is an automaton")
    }

    /// The automaton of a bounded repetition without its bounds, and its number.
    pub(crate) fn unbounded(
        &self,
        compiled: &Compiled,
        terminal: ScanTerminal,
        repetition: &BoundedRepetition,
    ) -> &NumberedDfa {
        let (literals, _) = compiled.terminals.len();
        self.unbounded[terminal.index() - literals].get_or_init(|| self.library.unbounded(repetition))
    }

    /// The tokens in which a text that begins inside the token may end as one that `difference`, the language of
    /// `terminal`, leaves out.
    pub(crate) fn containing(
        &self,
        compiled: &Compiled,
        terminal: ScanTerminal,
        difference: &Difference,
    ) -> &[TokenId] {
        let (literals, _) = compiled.terminals.len();
        self.containing[terminal.index() - literals].get_or_init(|| {
            let vocabulary = self.library.vocabulary();
            let contains = |token: &TokenId| {
                let text = vocabulary.text(*token).unwrap_or_default();
                (0..text.len()).any(|from| ends_left_out(difference, &text[from..]))
            };
            let ends = difference.ends().into_iter();
            let lists = ends.map(|(first, last, two)| self.library.around(first, last, two));
            let mut found: Vec<TokenId> = lists.flat_map(|list| list.to_vec()).collect();
            found.sort_unstable();
            found.dedup();
            found.retain(contains);
            found.into()
        })
    }
}

/// Whether `text` begins with a text that is left out, or with a prefix after which all texts are.
fn ends_left_out(difference: &Difference, text: &[u8]) -> bool {
    let mut state = difference.start();
    for byte in text {
        match difference.below(state, *byte) {
            Some((next, Below::Inner)) => state = next,
            Some(_) => return true,
            // No text that is left out begins like this.
            None => return false,
        }
    }
    false
}
