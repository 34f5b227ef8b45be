//! Any bytes as a `tokenizer.json`. The result is an error, or a tokenizer that encodes and decodes without a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use unskew_vocab::Tokenizer;

const TEXTS: [&str; 4] = ["", "ab a\n  b", "Ünïcödé \u{1f468}\u{200d}\u{1f469} 12", "\u{0}\t\r\n\u{a0}x"];

fuzz_target!(|json: &[u8]| {
    let Ok(tokenizer) = Tokenizer::from_bytes(json) else { return };
    for text in TEXTS {
        for special in [false, true] {
            if let Ok(ids) = tokenizer.encode(text, special) {
                tokenizer.decode(&ids);
                tokenizer.vocabulary().decode(&ids);
            }
        }
        let _ = tokenizer.expected_bytes(text);
    }
});
