//! Runs the whole corpus, once per configuration: masks kept, and masks computed on each request.

use std::sync::Arc;

use unskew_automata::{Construct, Dfa, Limits, RegexConstraint, RegexError};
use unskew_core::{Constraint as _, TokenId, TokenMask, Vocabulary};
use unskew_testdata::{Case, Constraint, ExpectedError, Token, cases, vocabulary};
use unskew_trie::TokenTrie;

/// The one place that touches the API: the constraint of a case over a vocabulary.
fn compile(
    case: &Case,
    vocabulary: &Arc<Vocabulary>,
    limits: &Limits,
) -> Result<RegexConstraint, RegexError> {
    let trie = Arc::new(TokenTrie::new(Arc::clone(vocabulary))?);
    match &case.constraint {
        Constraint::Pattern(pattern) => RegexConstraint::new(pattern, trie, limits),
        Constraint::Choices(choices) => RegexConstraint::from_choices(choices, trie, limits),
        other => panic!("{}: this engine does not know {other:?}", case.name),
    }
}

fn texts<'a>(texts: impl IntoIterator<Item = &'a Vec<u8>>) -> Arc<Vocabulary> {
    let tokens: Vec<Token> = texts.into_iter().cloned().map(Token::Text).collect();
    Arc::new(vocabulary(&tokens))
}

fn every_byte() -> Arc<Vocabulary> {
    texts(&(0..=255).map(|byte| vec![byte]).collect::<Vec<_>>())
}

fn expected(error: &RegexError) -> ExpectedErrorKind {
    let kind = match error {
        RegexError::Syntax { .. } => "syntax",
        RegexError::Unsupported { construct: Construct::LookAround, .. } => "look-around",
        RegexError::Unsupported { construct: Construct::BackReference, .. } => "back-reference",
        RegexError::Unsupported { construct: Construct::WordBoundary, .. } => "word-boundary",
        RegexError::Unsupported { construct: Construct::LineAnchor, .. } => "line-anchor",
        RegexError::PatternTooLong { .. } => "too-long",
        RegexError::NestTooDeep { .. } => "nest",
        RegexError::NfaTooLarge { .. }
        | RegexError::TooManyDfaStates { .. }
        | RegexError::DfaTooLarge { .. }
        | RegexError::DfaTooCostly { .. } => "too-large",
        RegexError::MatchesNothing => "matches-nothing",
        RegexError::NoChoices => "no-choices",
        RegexError::EmptyChoice { .. } => "empty-choice",
        RegexError::Unspellable { .. } => "unspellable",
        other => panic!("the corpus has no name for {other:?}"),
    };
    let place = error.place();
    ExpectedErrorKind {
        kind: kind.to_owned(),
        span: place.map(|place| (place.span.start, place.span.end)),
        line_column: place.map(|place| (place.line, place.column)),
    }
}

/// The corpus's expectation of an error, without the fields that it leaves open.
#[derive(PartialEq, Eq, Debug)]
struct ExpectedErrorKind {
    kind: String,
    span: Option<(usize, usize)>,
    line_column: Option<(usize, usize)>,
}

impl From<&ExpectedError> for ExpectedErrorKind {
    fn from(error: &ExpectedError) -> Self {
        Self { kind: error.kind.clone(), span: error.span, line_column: error.line_column }
    }
}

#[test]
fn errors_have_their_kind_and_their_place() {
    for case in cases() {
        let Some(expected_error) = &case.error else { continue };
        let vocabulary = if case.tokens.is_empty() { every_byte() } else { texts(&case.tokens) };
        let error = compile(&case, &vocabulary, &Limits::default()).expect_err(&case.name);
        assert_eq!(expected(&error), expected_error.into(), "{}: {error}", case.name);
        let message = error.to_string();
        assert!(!message.contains('\n') && message.len() < 300, "{}: {message}", case.name);
    }
}

#[test]
fn whole_outputs_are_accepted_or_rejected() {
    let vocabulary = every_byte();
    for case in cases() {
        if case.error.is_some() {
            continue;
        }
        let constraint = compile(&case, &vocabulary, &Limits::default()).expect(&case.name);
        let dfa: &Dfa = constraint.tokens().dfa();
        let by_tokens = |text: &[u8]| {
            let mut state = constraint.start();
            let mut ids = text.iter().map(|byte| TokenId(u32::from(*byte)));
            ids.all(|id| constraint.advance(&mut (), &mut state, id).is_ok())
                && constraint.is_accepting(&state)
        };
        for (text, accepted) in case
            .accepted
            .iter()
            .map(|text| (text, true))
            .chain(case.rejected.iter().map(|text| (text, false)))
        {
            let shown = String::from_utf8_lossy(text);
            assert_eq!(dfa.accepts(text), accepted, "{}: {shown:?}", case.name);
            assert_eq!(by_tokens(text), accepted, "{}: {shown:?} by tokens", case.name);
        }
    }
}

#[test]
fn masks_are_as_written_down() {
    let kept = Limits::default();
    let computed = Limits::default().mask_cache_bytes(0);
    for (case, limits) in cases().iter().flat_map(|case| [(case, &kept), (case, &computed)]) {
        if case.error.is_some() || case.tokens.is_empty() {
            continue;
        }
        let vocabulary = texts(&case.tokens);
        let constraint = compile(case, &vocabulary, limits).expect(&case.name);
        let id = |text: &Vec<u8>| {
            TokenId::from_index(
                case.tokens.iter().position(|token| token == text).expect("a token of the case"),
            )
        };
        for expected in &case.masks {
            let mut state = constraint.start();
            for token in &expected.prefix {
                constraint.advance(&mut (), &mut state, id(token)).expect(&case.name);
            }
            let mut mask = TokenMask::new(constraint.vocab_len());
            constraint.fill_mask(&mut (), &state, mask.as_mut());
            let shown = |texts: &mut dyn Iterator<Item = &[u8]>| {
                texts.map(|text| String::from_utf8_lossy(text).into_owned()).collect::<Vec<_>>()
            };
            let allowed =
                shown(&mut mask.ids().map(|id| vocabulary.text(id).expect("an allowed token has text")));
            let wanted = case.tokens.iter().filter(|token| expected.allowed.contains(token));
            let place =
                format!("{}, after {:?}", case.name, shown(&mut expected.prefix.iter().map(Vec::as_slice)));
            assert_eq!(allowed, shown(&mut wanted.map(Vec::as_slice)), "{place}");
            assert_eq!(constraint.is_accepting(&state), expected.accepting, "{place}");
        }
    }
}
