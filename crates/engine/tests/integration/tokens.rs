//! The tokens of a model whose rows are longer or shorter than the vocabulary of its tokenizer.

use std::sync::Arc;

use crate::common::{ids, specs, tiny};
use unskew_core::{TokenId, words_for};
use unskew_engine::{Compiler, Error, Spec, TokenSpace};
use unskew_vocab::Tokenizer;

/// The embedded tokenizer with a control token more, as that of Gemma 3 has one for images.
fn with_image() -> Tokenizer {
    let mut json: serde_json::Value = serde_json::from_str(unskew_tiny_model::TOKENIZER_JSON).unwrap();
    let tokens = json["added_tokens"].as_array_mut().unwrap();
    let mut image = tokens[0].clone();
    image["id"] = 2048.into();
    image["content"] = "<image>".into();
    tokens.push(image);
    Tokenizer::from_bytes(json.to_string().as_bytes()).unwrap()
}

#[test]
fn ids_beyond_the_rows_are_unused() {
    let whole = TokenSpace::from_tokenizer(with_image(), &[], 0).unwrap();
    assert_eq!(whole.vocabulary().len(), 2049);
    assert_eq!(whole.encode_prompt("a<image>").unwrap().last(), Some(&TokenId(2048)));
    let space = Arc::new(TokenSpace::from_tokenizer(with_image(), &[], 2048).unwrap());
    assert_eq!((space.vocabulary().len(), space.vocabulary().end_of_sequence()), (2048, &[TokenId(0)][..]));
    // The model has no row for it.
    let error = space.encode_prompt("a<image>").unwrap_err();
    assert!(
        error.to_string().contains("the token 2048, and the model knows the ids below 2048 alone"),
        "{error}"
    );
    assert_eq!(space.encode_output("a b").unwrap(), whole.encode_output("a b").unwrap());
    // Masks are those of the tokenizer without it, canonical ones too.
    let (compiler, plain) = (Compiler::new(Arc::clone(&space)), Compiler::new(tiny()));
    assert_eq!(compiler.mask_words(), words_for(2048));
    let text = Spec::regex("[<image>a-z ]{1,12}");
    for spec in specs().into_iter().chain([text.clone(), text.canonical()]) {
        let (mut left, mut right) =
            (compiler.compile(&spec).unwrap().matcher(), plain.compile(&spec).unwrap().matcher());
        let mut rows = [vec![0; left.mask_words()], vec![0; right.mask_words()]];
        for at in 0..6 {
            left.fill(&mut rows[0]).unwrap();
            right.fill(&mut rows[1]).unwrap();
            let (own, other) = (ids(&rows[0]), ids(&rows[1]));
            // The encoder makes one token of the text `<image>`, which no canonical output has.
            assert!(own == other || spec.canonical && own.iter().all(|id| other.contains(id)), "{spec}");
            let Some(id) = own.get(at * 7 % own.len().max(1)) else { break };
            assert!(left.accept(*id).unwrap() && right.accept(*id).unwrap());
            if left.is_terminated() {
                break;
            }
        }
    }
}

#[test]
fn text_tokens_beyond_the_rows_are_unused() {
    let tokenizer = Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes()).unwrap();
    let last = tokenizer.vocabulary().text(TokenId(2047)).unwrap().to_vec();
    let space = TokenSpace::from_tokenizer(tokenizer, &[], 2000).unwrap();
    let text = String::from_utf8(last).unwrap();
    assert!(matches!(space.encode_output(&text), Err(Error::Tokens(_))));
    let compiler = Compiler::new(space);
    let mut matcher = compiler.compile(&Spec::choices([text.clone()])).unwrap().matcher();
    let mut row = vec![0; matcher.mask_words()];
    let mut read = String::new();
    while !matcher.is_accepting() {
        matcher.fill(&mut row).unwrap();
        let id = *ids(&row).last().unwrap();
        assert!(id.index() < 2000 && matcher.accept(id).unwrap());
        read += &compiler.tokens().decode(&[id]);
    }
    assert_eq!(read, text);
    assert!(matcher.accept(TokenId(2047)).is_err());
    // The tokenizer's own sequences need the tokens of its merges.
    let error = compiler.compile(&Spec::choices([text]).canonical()).unwrap_err();
    assert!(error.to_string().contains("merge"), "{error}");
}

#[test]
fn ends_beyond_the_rows_are_no_ends() {
    let space = TokenSpace::from_tokenizer(with_image(), &[TokenId(0), TokenId(2048)], 2048).unwrap();
    assert_eq!(space.vocabulary().end_of_sequence(), &[TokenId(0)]);
    let space = TokenSpace::from_tokenizer(with_image(), &[TokenId(2048)], 2100).unwrap();
    assert_eq!(
        (space.vocabulary().len(), space.vocabulary().end_of_sequence()),
        (2100, &[TokenId(2048)][..])
    );
    assert!(TokenSpace::from_tokenizer(with_image(), &[TokenId(2099)], 2100).is_err());
}
