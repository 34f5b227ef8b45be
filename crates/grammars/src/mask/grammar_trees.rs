//! A library of subterminal trees, as one compiled grammar uses it: the library's numbers of its automata, and the
//! tokens that contain texts which its terminals leave out.

use std::sync::{Arc, OnceLock};

use unskew_core::TokenId;
use unskew_grammar::{
    Difference,
    kit::terminal::{ScanState, difference::Below, reading::Scan, remaining::Remaining},
};
use unskew_trie::ByteSet;

use super::shared_fragments::GrammarNumber;
use crate::{
    ids::Id,
    network::terminals::ScanTerminal,
    parser::configurations::Compiled,
    trees::{
        cache::LibraryId,
        key_tokens::{KeyTokens, marks},
        library::TreeLibrary,
        nodes::{SuffixReader, TreeNode},
    },
};

/// A library, and the parts of it that a compiled grammar needs.
#[derive(Debug)]
pub(crate) struct GrammarTrees {
    pub(crate) library: Arc<TreeLibrary>,
    /// By terminal, literals not counted: the number of its automaton in the library, and that of the automaton with
    /// units where these are counted.
    automata: Vec<Option<(LibraryId, Option<LibraryId>)>>,
    /// By terminal, literals not counted: the tokens that contain a text that it leaves out, once they were asked for.
    containing: Vec<OnceLock<Box<[TokenId]>>>,
    pub(crate) grammar: GrammarNumber,
}

impl GrammarTrees {
    pub(crate) fn new(library: &Arc<TreeLibrary>, compiled: &Compiled) -> Self {
        let (_, others) = compiled.terminals.len();
        let automata = compiled.terminals.without_literals().map(|terminal| {
            let Scan { dfa, count, .. } = compiled.terminals.scan(terminal)?;
            let number = library.automaton(dfa);
            Some((number, count.map(|count| library.measured(count, number))))
        });
        Self {
            library: Arc::clone(library),
            automata: automata.collect(),
            containing: (0..others).map(|_| OnceLock::new()).collect(),
            grammar: GrammarNumber::new(),
        }
    }

    /// The memory of its tables, in bytes, without the library.
    pub(crate) fn memory_usage(&self) -> usize {
        let containing =
            self.containing.iter().filter_map(OnceLock::get).map(|tokens| size_of_val(&tokens[..]));
        self.automata.capacity() * size_of::<Option<(LibraryId, Option<LibraryId>)>>()
            + self.containing.capacity() * size_of::<OnceLock<Box<[TokenId]>>>()
            + containing.sum::<usize>()
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
                    KeyTokens::new(difference.base(), remaining, tokens.iter().map(text))
                }
                None => KeyTokens::new(difference.base(), remaining, vocabulary.text_tokens()),
            }
        })
    }

    /// The number of the automaton of `terminal` in the library, and that of the automaton with units where these are
    /// counted.
    pub(crate) fn numbers(
        &self,
        compiled: &Compiled,
        terminal: ScanTerminal,
    ) -> (LibraryId, Option<LibraryId>) {
        let (literals, _) = compiled.terminals.len();
        self.automata[terminal.index() - literals].expect("it reads bytes")
    }

    /// The reader of suffixes for `terminal`, which is no literal, from its start on.
    pub(crate) fn reader<'c>(&self, compiled: &'c Compiled, terminal: ScanTerminal) -> SuffixReader<'c> {
        let scan = compiled.terminals.scan(terminal).expect("it reads bytes");
        match (scan.count, self.numbers(compiled, terminal)) {
            (Some(count), (number, Some(measured))) => {
                let bounds = count.left(count.start(), self.library.longest());
                SuffixReader::counted(number, measured, count, bounds)
            }
            (_, (number, _)) => SuffixReader::automaton(number, scan.dfa),
        }
    }

    /// The bytes that extend the texts of `terminal`, no literal, in each of its nodes; none where nodes differ.
    pub(crate) fn extending(&self, compiled: &Compiled, terminal: ScanTerminal) -> ByteSet {
        match compiled.terminals.scan(terminal) {
            Some(scan) if scan.count.is_none() => {
                self.library.extending(self.numbers(compiled, terminal).0, scan.dfa)
            }
            _ => ByteSet::default(),
        }
    }

    /// The root of the tree of `terminal`, no literal, in a state.
    pub(crate) fn root(
        &self,
        compiled: &Compiled,
        terminal: ScanTerminal,
        state: ScanState,
    ) -> Arc<TreeNode> {
        let scan = compiled.terminals.scan(terminal).expect("it reads bytes");
        match (scan.count, self.numbers(compiled, terminal)) {
            (Some(count), (number, Some(measured))) => self.library.counted(count, (number, measured), state),
            (_, (number, _)) => self.library.root(number, scan.dfa, scan.at(state)),
        }
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
