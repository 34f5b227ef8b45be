//! Any bytes as a GGUF file, and a small file with changed bytes. The result is an error of one line, or a header;
//! and of the header an error of one line, or a tokenizer that encodes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use unskew_vocab::{Gguf, Limits, Tokenizer};

/// The bytes of a file with the tokens and scores that the first byte asks for.
fn good(kind: u8) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let is_pairs = kind % 2 == 0;
    let mut keys = Vec::new();
    let mut count = 0u64;
    let mut put = |key: &str, kind: u32, value: &[u8]| {
        count += 1;
        keys.extend([&text(key)[..], &kind.to_le_bytes(), value].concat());
    };
    let texts = |texts: &[&str]| {
        let items: Vec<u8> = texts.iter().flat_map(|item| text(item)).collect();
        [&8u32.to_le_bytes()[..], &(texts.len() as u64).to_le_bytes(), &items].concat()
    };
    let words = |kind: u32, words: &[u32]| {
        let items: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        [&kind.to_le_bytes()[..], &(words.len() as u64).to_le_bytes(), &items].concat()
    };
    put("tokenizer.ggml.model", 8, &text(if is_pairs { "gpt2" } else { "llama" }));
    put("tokenizer.ggml.pre", 8, &text("qwen2"));
    let space = if is_pairs { "Ġ" } else { "▁" };
    put("tokenizer.ggml.tokens", 9, &texts(&["<unk>", "</s>", "a", "b", space, "ab", "<x>", "<0x0A>"]));
    put("tokenizer.ggml.token_type", 9, &words(5, &[2, 3, 1, 1, 1, 1, 4, 6]));
    put("tokenizer.ggml.merges", 9, &texts(&["a b"]));
    put("tokenizer.ggml.scores", 9, &words(6, &[0, 0, 1, 2, 3, 4, 0, 0]));
    put("tokenizer.ggml.eos_token_id", 4, &1u32.to_le_bytes());
    let tensor =
        [&text("t")[..], &1u32.to_le_bytes(), &4u64.to_le_bytes(), &0u32.to_le_bytes(), &0u64.to_le_bytes()]
            .concat();
    let head = [&b"GGUF\x03\0\0\0"[..], &1u64.to_le_bytes(), &count.to_le_bytes()].concat();
    let mut bytes = [head, keys, tensor].concat();
    bytes.resize(bytes.len().next_multiple_of(32) + 16, 0);
    bytes
}

fuzz_target!(|case: (u8, Vec<(u16, u8)>, Vec<u8>)| {
    let (kind, changes, raw) = case;
    let bytes = if kind < 64 {
        raw
    } else {
        let mut bytes = good(kind);
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        bytes
    };
    match Gguf::from_bytes(&bytes) {
        Ok(gguf) => match Tokenizer::from_gguf_with(&gguf, Limits::default()) {
            Ok(tokenizer) => {
                let _ = tokenizer.encode("ab <x>\n é", true);
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        },
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
});
