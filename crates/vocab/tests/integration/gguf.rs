//! GGUF files: the tokenizers in them. Headers are tested where they are read.

use proptest::prelude::*;
use unskew_core::{TokenId, TokenKind};
use unskew_testdata::gguf::{GgufWriter, random_llama, sentence_piece};
use unskew_vocab::{Gguf, Limits, TokenizationError, Tokenizer, TokenizerError};

fn config() -> ProptestConfig {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(5);
    ProptestConfig { cases: 4000, failure_persistence: None, rng_seed, ..Default::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Changed bytes give a file or an error of one line; a tokenizer that loads works.
    #[test]
    fn damaged_files_never_panic(changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4), cut in 0..4usize) {
        let mut bytes = random_llama(|file| sentence_piece(file, true));
        for (at, byte) in changes {
            // The weights are not read.
            let len = bytes.len().min(12_000);
            bytes[at % len] = byte;
        }
        bytes.truncate(bytes.len() - cut * 5000);
        match Gguf::from_bytes(&bytes) {
            Ok(gguf) => {
                if let Ok(tokenizer) = Tokenizer::from_gguf_with(&gguf, Limits::default())
                    && let Ok(ids) = tokenizer.encode("the line\n é 12345", true)
                {
                    let _ = tokenizer.decode(&ids);
                }
            }
            Err(error) => prop_assert!(!error.to_string().contains('\n'), "{}", error),
        }
    }
}

fn gguf(write: impl FnOnce(&mut GgufWriter)) -> Gguf {
    let mut file = GgufWriter::new();
    write(&mut file);
    Gguf::from_bytes(&file.bytes()).unwrap()
}

fn tokenizer(write: impl FnOnce(&mut GgufWriter)) -> Result<Tokenizer, TokenizerError> {
    Tokenizer::from_gguf_with(&gguf(write), Limits::default())
}

#[test]
fn sentence_piece_files() {
    let tokenizer = tokenizer(|file| {
        sentence_piece(file, true);
    })
    .unwrap();
    let vocabulary = tokenizer.vocabulary();
    assert_eq!(vocabulary.text(TokenId(3 + 0x41)), Some(&b"A"[..]));
    assert_eq!(vocabulary.kind(TokenId(0)), TokenKind::Control);
    assert_eq!(vocabulary.end_of_sequence(), [TokenId(2)]);
    assert_eq!(tokenizer.begin_of_sequence(), [TokenId(1)]);
    // The last token is unused, the one before it is matched on the text.
    let tag = vocabulary.len() as u32 - 2;
    assert_eq!(vocabulary.text(TokenId(tag)), Some(&b"<tag>"[..]));
    let ids = tokenizer.encode("the lines<tag> ☃", false).unwrap();
    let texts: Vec<_> = ids.iter().map(|id| String::from_utf8_lossy(vocabulary.text(*id).unwrap())).collect();
    assert_eq!(texts[..7], [" the", " ", "l", "in", "es", "<tag>", "  "]);
    assert_eq!(vocabulary.decode(&ids), " the lines<tag>  ☃".as_bytes());
    assert!(tokenizer.prepends_space());
    assert!(tokenizer.tokenization().is_ok());
}

#[test]
fn equal_scores_are_no_order_of_merges() {
    let with = |scores: [f32; 6]| {
        tokenizer(|file| {
            file.text("tokenizer.ggml.model", "llama");
            file.texts("tokenizer.ggml.tokens", &["<unk>", "a", "b", "c", "ab", "bc"]);
            file.numbers("tokenizer.ggml.token_type", &[2, 1, 1, 1, 1, 1])
                .floats("tokenizer.ggml.scores", &scores);
        })
        .unwrap()
    };
    assert!(with([0.0, 0.0, 0.0, 0.0, -1.0, -2.0]).tokenization().is_ok());
    let tokenizer = with([0.0, 0.0, 0.0, 0.0, -1.0, -1.0]);
    let error = tokenizer.tokenization().unwrap_err();
    assert_eq!(error, TokenizationError::EqualScores { first: TokenId(4), second: TokenId(5) });
    assert!(tokenizer.encode("abc", false).is_ok());
}

#[test]
fn files_that_do_not_say_enough_are_refused() {
    let error = |change: &dyn Fn(&mut GgufWriter)| {
        let error = tokenizer(|file| change(file)).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    assert!(error(&|_| {}).contains("`tokenizer.ggml.tokens`"));
    let tokens = |file: &mut GgufWriter| drop(file.texts("tokenizer.ggml.tokens", &["a", "b"]).bytes());
    assert!(error(&|file| tokens(file)).contains("`tokenizer.ggml.model`"));
    assert!(
        error(&|file| {
            tokens(file);
            file.text("tokenizer.ggml.model", "rwkv");
        })
        .contains("\"rwkv\" is not read here")
    );
    assert!(
        error(&|file| {
            tokens(file);
            file.text("tokenizer.ggml.model", "gpt2");
        })
        .contains("`tokenizer.ggml.merges`")
    );
    assert!(
        error(&|file| {
            tokens(file);
            file.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.merges", &["ab"]);
        })
        .contains("two tokens with a space")
    );
    assert!(
        error(&|file| {
            tokens(file);
            file.text("tokenizer.ggml.model", "gpt2").number("tokenizer.ggml.eos_token_id", 2);
        })
        .contains("it is 2, and there are 2 tokens")
    );
    assert!(
        error(&|file| {
            tokens(file);
            file.text("tokenizer.ggml.model", "llama").numbers("tokenizer.ggml.token_type", &[1]);
        })
        .contains("it has 1 entries, and there are 2 tokens")
    );
}
