//! Texts against a grammar, byte by byte, through the constraint itself.

use std::sync::{Arc, OnceLock};

use unskew_core::{Constraint, TokenId, Vocabulary};
use unskew_grammar::GrammarLimits;
use unskew_grammars::GrammarConstraint;
use unskew_notation::{GrammarFormat, GrammarOptions};
use unskew_trie::TokenTrie;

/// A trie of single bytes, each by its number.
pub(crate) fn bytes() -> Arc<TokenTrie> {
    static TRIE: OnceLock<Arc<TokenTrie>> = OnceLock::new();
    let trie = TRIE.get_or_init(|| {
        let mut builder = Vocabulary::builder();
        (0..=u8::MAX).for_each(|byte| _ = builder.text(&[byte]));
        Arc::new(TokenTrie::new(Arc::new(builder.build().unwrap())).unwrap())
    });
    Arc::clone(trie)
}

/// Says of a text how many bytes of it can be read, and whether it is accepted. `constraint` is one over [`bytes`].
pub(crate) fn judge(constraint: &GrammarConstraint) -> impl FnMut(&str) -> (usize, bool) {
    let mut scratch = constraint.scratch();
    move |text: &str| {
        let mut state = constraint.start();
        let mut next =
            |byte: &u8| constraint.advance(&mut scratch, &mut state, TokenId((*byte).into())).is_ok();
        let read = text.as_bytes().iter().take_while(|byte| next(byte)).count();
        (read, read == text.len() && constraint.is_accepting(&state))
    }
}

/// Checks texts. A text is accepted, or so many bytes of it can be read.
#[track_caller]
pub(crate) fn check(format: GrammarFormat, grammar: &str, accepted: &[&str], rejected: &[(&str, usize)]) {
    check_from(format, grammar, None, accepted, rejected);
}

/// As [`check`], from the start rule `start`.
#[track_caller]
pub(crate) fn check_from(
    format: GrammarFormat,
    grammar: &str,
    start: Option<&str>,
    accepted: &[&str],
    rejected: &[(&str, usize)],
) {
    let limits = GrammarLimits::default();
    let mut options = GrammarOptions::default();
    options.start = start.map(str::to_owned);
    let read = unskew_notation::parse(grammar, format, &options, &limits)
        .unwrap_or_else(|error| panic!("{grammar}\n{error}"));
    let constraint = GrammarConstraint::new(&read, bytes(), &limits).unwrap();
    let mut judge = judge(&constraint);
    for text in accepted {
        assert_eq!(judge(text), (text.len(), true), "{text:?} of {grammar}");
    }
    for (text, read) in rejected {
        assert_eq!(judge(text), (*read, false), "{text:?} of {grammar}");
    }
}
