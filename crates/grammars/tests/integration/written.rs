//! Vocabularies that cannot write every character: the language is what is left, and masks are exact in it.

use std::sync::Arc;

use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_grammar::{GrammarError, GrammarLimits};
use unskew_grammars::GrammarConstraint;
use unskew_notation::from_gbnf;
use unskew_trie::TokenTrie;

fn trie(texts: &[&[u8]]) -> Arc<TokenTrie> {
    let mut builder = Vocabulary::builder();
    texts.iter().for_each(|text| _ = builder.text(text));
    Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap())
}

fn compile(gbnf: &str, trie: &Arc<TokenTrie>) -> Result<GrammarConstraint, GrammarError> {
    let limits = GrammarLimits::default();
    GrammarConstraint::new(&from_gbnf(gbnf, &limits)?, Arc::clone(trie), &limits)
}

/// The texts of the allowed tokens after some text, which is read byte by byte or by whole tokens.
fn allowed(constraint: &GrammarConstraint, trie: &TokenTrie, prefix: &[&[u8]]) -> Vec<Vec<u8>> {
    let vocabulary = trie.vocabulary();
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    for text in prefix {
        let (token, _) = vocabulary.text_tokens().find(|(_, other)| other == text).unwrap();
        constraint.advance(&mut scratch, &mut state, token).unwrap();
    }
    let mut mask = TokenMask::new(vocabulary.len());
    constraint.fill_mask(&mut scratch, &state, mask.as_mut());
    let found: Vec<Vec<u8>> = mask.ids().map(|id| vocabulary.text(id).unwrap().to_vec()).collect();
    let each = (0..u32::try_from(vocabulary.len()).unwrap()).map(TokenId);
    let one_by_one = each.filter(|id| constraint.allows(&mut scratch, &state, *id));
    assert!(one_by_one.eq(mask.ids()));
    found
}

const JSON: &str = r#"
root   ::= "[" string ("," string){0,3} "]"
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})){0,40} "\""
"#;

/// The vocabulary of SmolLM2 in small: 21 bytes are no tokens, and no longer token has one.
#[test]
fn missing_bytes_change_nothing_else() {
    let missing =
        |byte: &u8| matches!(byte, 4 | 6 | 0x13..=0x14 | 0x16 | 0x1d | 0xc0..=0xc1 | 0xf1..=0xf2 | 0xf5..);
    let singles: Vec<[u8; 1]> = (0..=u8::MAX).map(|byte| [byte]).collect();
    let more: [&[u8]; 6] = [b"[\"", b"\",\"", b"\\u00", b"ab", "\u{e9}\"".as_bytes(), "\u{1f600}".as_bytes()];
    let written: Vec<&[u8]> =
        singles.iter().filter(|byte| !missing(&byte[0])).map(|byte| &byte[..]).chain(more).collect();
    let all: Vec<&[u8]> = singles.iter().map(|byte| &byte[..]).chain(more).collect();
    let (written, all) = (trie(&written), trie(&all));
    let (ours, whole) = (compile(JSON, &written).unwrap(), compile(JSON, &all).unwrap());
    let prefixes: [&[&[u8]]; 6] = [
        &[],
        &[b"[\""],
        &[b"[\"", b"ab", b"\xf0"],
        &[b"[\"", b"\\u00"],
        &[b"[", b"\"", "\u{e9}\"".as_bytes()],
        &[b"[\"", b"\",\"", "\u{1f600}".as_bytes(), b"\""],
    ];
    for prefix in prefixes {
        let mut wanted = allowed(&whole, &all, prefix);
        wanted.retain(|text| !text.iter().any(missing));
        assert_eq!(allowed(&ours, &written, prefix), wanted, "{prefix:?}");
    }
    let left_out = ours.left_out().unwrap();
    assert_eq!(left_out.characters, ['\u{40000}'..='\u{bffff}']);
    assert_eq!(left_out.to_string(), "U+40000 to U+BFFFF");
    assert_eq!(whole.left_out(), None);
}

/// No byte beyond ASCII is a token: characters are.
#[test]
fn characters_that_are_tokens() {
    let texts = ["a", "\"", "\u{e9}", "\u{e9}a", "\u{df}a", "\u{20ac}\""];
    let trie = trie(&texts.map(str::as_bytes));
    let constraint = compile(r#"root ::= "\"" [^"]* "\"""#, &trie).unwrap();
    let after = |prefix: &[&str]| {
        let prefix: Vec<&[u8]> = prefix.iter().map(|text| text.as_bytes()).collect();
        let found = allowed(&constraint, &trie, &prefix);
        found.into_iter().map(|text| String::from_utf8(text).unwrap()).collect::<Vec<_>>()
    };
    // Two characters are in longer tokens alone.
    assert_eq!(after(&["\""]), ["a", "\"", "\u{e9}", "\u{e9}a"]);
    assert_eq!(after(&["\"", "\u{e9}a"]), ["a", "\"", "\u{e9}", "\u{e9}a"]);
    let left_out = constraint.left_out().unwrap();
    assert!(left_out.characters.iter().any(|range| range.contains(&'\u{df}')));
    assert!(!left_out.characters.iter().any(|range| range.contains(&'\u{e9}')));
}

#[test]
fn what_needs_them_is_left_out_or_named() {
    let trie = trie(&[b"a", b"b", b"ab"]);
    let constraint = compile("root ::= \"a\" | \"\u{e9}\" | list\nlist ::= \"b\" [a\u{e9}]+", &trie).unwrap();
    assert_eq!(allowed(&constraint, &trie, &[]), [b"a", b"b"]);
    assert_eq!(allowed(&constraint, &trie, &[b"b"]), [b"a"]);
    let refused = compile("root ::= \"a\" other\nother ::= \"b\u{e9}\"", &trie).unwrap_err();
    let GrammarError::Unwritten { terminal, character, location, .. } = &refused else { panic!("{refused}") };
    assert_eq!((&terminal[..], *character, location.unwrap().line), ("\"b\u{e9}\"", '\u{e9}', 2));
    // A grammar without a text is refused as one.
    assert!(matches!(
        compile("root ::= \"\u{e9}\" | \"a\" root", &trie),
        Err(GrammarError::Unwritten { .. })
    ));
    assert!(matches!(compile("root ::= \"a\" root", &trie), Err(GrammarError::Empty { .. })));
}
