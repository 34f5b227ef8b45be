//! The tokenizers of well-known models: exact bytes, and the segmentation of the library, from the extracted data
//! alone. Skipped, with a word, where the files are not there.

#![allow(clippy::print_stdout, reason = "a skipped or counted test says so")]

use std::collections::{HashMap, HashSet};

use proptest::{
    prelude::*,
    test_runner::{Config, RngSeed, TestRunner},
};
use unskew_core::{
    Normalizer, SplitBehavior, SplitPattern, Symbols, TokenId, TokenKind, Tokenization, UnicodeForm,
};
use unskew_vocab::Tokenizer;

use crate::common::{check_spelling, known_files, texts};

/// Whether encoding leaves every text as it is.
fn is_identity(tokenizer: &Tokenizer) -> bool {
    tokenizer.tokenization().unwrap().normalizers.is_empty() && !tokenizer.prepends_space()
}

fn check(name: &str, tokenizer: &Tokenizer, text: &str) -> Vec<TokenId> {
    let ids = check_spelling(name, tokenizer, text);
    let expected = tokenizer.expected_bytes(text).unwrap();
    let decoded = tokenizer.decode(&ids);
    if is_identity(tokenizer) {
        assert_eq!(expected, text.as_bytes(), "{name}");
        assert_eq!(decoded, text, "{name}");
    } else if tokenizer.prepends_space() {
        // SentencePiece's mark in a text is a space to its tokenizer.
        let text = text.replace('▁', " ");
        let with_space = if text.is_empty() { String::new() } else { format!(" {text}") };
        assert_eq!(expected, with_space.as_bytes(), "{name}");
        assert_eq!(decoded, text, "{name}");
    } else {
        assert_eq!(decoded.as_bytes(), &*expected, "{name}");
        if text.is_ascii() {
            assert_eq!(decoded, text, "{name}");
        }
    }
    ids
}

#[test]
fn tokens_spell_the_text() {
    for (name, path) in known_files() {
        let tokenizer = Tokenizer::from_file(&path).unwrap();
        for text in texts() {
            check(&name, &tokenizer, &text);
            for length in [1, 2, 3, 7, 20] {
                let slice: String = text.chars().skip(length).take(length).collect();
                check(&name, &tokenizer, &slice);
            }
        }
        let config = Config {
            cases: 400,
            rng_seed: RngSeed::Fixed(7),
            failure_persistence: None,
            ..Config::default()
        };
        let mut runner = TestRunner::new(config);
        let mixed = prop::collection::vec(
            prop_oneof![any::<char>(), prop::char::range(' ', '~'), prop::char::range('\u{0}', '\u{3ff}')],
            0..40,
        );
        runner
            .run(&mixed, |characters| {
                check(&name, &tokenizer, &characters.into_iter().collect::<String>());
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn a_continuation_spells_the_text_and_no_space_before_it() {
    for (name, path) in known_files() {
        let tokenizer = Tokenizer::from_file(&path).unwrap();
        for text in texts() {
            let ids = tokenizer
                .encode_continuation(&text)
                .unwrap_or_else(|error| panic!("{name}: {text:?}: {error}"));
            let after_break = format!("\n{text}");
            let expected = tokenizer.expected_bytes(&after_break).unwrap();
            let begin = usize::from(tokenizer.prepends_space()) + 1;
            assert_eq!(tokenizer.vocabulary().decode(&ids), expected[begin..], "{name}: {text:?}");
        }
    }
}

#[test]
fn every_token_that_is_text_encodes_to_its_bytes() {
    for (name, path) in known_files() {
        let tokenizer = Tokenizer::from_file(&path).unwrap();
        let mut partial = 0;
        for (id, bytes) in tokenizer.vocabulary().text_tokens() {
            match std::str::from_utf8(bytes) {
                Ok(text) => {
                    check(&name, &tokenizer, text);
                }
                Err(_) => partial += 1,
            }
            assert!(!bytes.is_empty(), "{name}: {id}");
        }
        assert!(partial > 50, "{name}: {partial} tokens are no text by themselves");
    }
}

/// A character that is cut into several tokens comes back whole.
#[test]
fn cut_characters_come_back() {
    for (name, path) in known_files() {
        let tokenizer = Tokenizer::from_file(&path).unwrap();
        let mut cut = 0;
        for character in (0x80..0x11_0000u32).step_by(97).filter_map(char::from_u32) {
            let text = character.to_string();
            let ids = check(&name, &tokenizer, &text);
            let inside = ids.iter().any(|id| {
                tokenizer.vocabulary().text(*id).is_some_and(|bytes| std::str::from_utf8(bytes).is_err())
            });
            cut += u32::from(inside);
        }
        assert!(cut > 1000, "{name}: only {cut} characters are cut");
    }
}

/// Ids, kinds, holes and ends, as the files' notes state them.
#[test]
fn vocabularies_have_the_known_shape() {
    /// Ids, text tokens, control tokens, end of sequence, begin of sequence.
    type Shape = (usize, usize, usize, &'static [u32], &'static [u32]);
    let known: HashMap<&str, Shape> = HashMap::from([
        ("cl100k", (100_277, 100_256, 5, &[100_257][..], &[][..])),
        ("gpt2", (50_257, 50_256, 1, &[50_256][..], &[][..])),
        ("llama2", (32_000, 31_997, 3, &[2][..], &[1][..])),
        ("llama3", (128_256, 128_000, 256, &[128_001, 128_009][..], &[128_000][..])),
        ("mistral-v1", (32_000, 31_997, 3, &[2][..], &[1][..])),
        ("qwen2", (151_646, 151_643, 3, &[151_643, 151_645][..], &[][..])),
    ]);
    for (name, path) in known_files() {
        let tokenizer = Tokenizer::from_file(&path).unwrap();
        let vocabulary = tokenizer.vocabulary();
        let Some((ids, text, control, end, begin)) = known.get(name.as_str()) else {
            println!("{name}: nothing is known about this one");
            continue;
        };
        assert_eq!(vocabulary.len(), *ids, "{name}");
        assert_eq!(vocabulary.text_tokens().count(), *text, "{name}");
        assert_eq!(vocabulary.control_tokens().count(), *control, "{name}");
        let as_ids = |ids: &[u32]| ids.iter().copied().map(TokenId).collect::<Vec<_>>();
        assert_eq!(vocabulary.end_of_sequence(), as_ids(end), "{name}");
        assert_eq!(tokenizer.begin_of_sequence(), as_ids(begin), "{name}");
        assert_eq!(tokenizer.behind_sequence(), [], "{name}");

        let holes: Vec<u32> = (0..vocabulary.len() as u32)
            .filter(|id| vocabulary.kind(TokenId(*id)) == TokenKind::Unused)
            .collect();
        let expected: Vec<u32> = if name == "cl100k" {
            std::iter::once(100_256).chain(100_261..=100_275).collect()
        } else {
            Vec::new()
        };
        assert_eq!(holes, expected, "{name}");

        let framed = tokenizer.encode("a b", true).unwrap();
        assert_eq!(framed, [&as_ids(begin)[..], &tokenizer.encode("a b", false).unwrap()].concat(), "{name}");
        // Control tokens are found in text, and spell nothing.
        for (id, content) in vocabulary.control_tokens() {
            assert_eq!(tokenizer.encode(&content, false).unwrap(), [id], "{name}");
            let ids = check_spelling(&name, &tokenizer, &format!("a {content} b{content}"));
            assert_eq!(ids.iter().filter(|other| **other == id).count(), 2, "{name}");
        }
    }
}

#[test]
fn segmentation_facts_are_those_of_the_files() {
    let regex = |pattern: &str| SplitPattern::Regex {
        pattern: pattern.to_owned(),
        behavior: SplitBehavior::Isolated,
        invert: false,
    };
    let sentence_piece = [
        Normalizer::Prepend("▁".to_owned()),
        Normalizer::Replace { from: " ".to_owned(), to: "▁".to_owned() },
    ];
    let suffixes = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)";
    let words = r"[^\r\n\p{L}\p{N}]?\p{L}+";
    let signs = r" ?[^\s\p{L}\p{N}]+[\r\n]*";
    let spaces = r"\s*[\r\n]+|\s+(?!\S)|\s+";
    let r1 = &format!(r"{suffixes}|{words}|\p{{N}}{{1,3}}|{signs}|{spaces}");
    let r2 = &format!(r"{suffixes}|{words}|\p{{N}}|{signs}|{spaces}");
    let other_spaces = r"\s+\z|\s*[\r\n]|\s+(?!\S)|\s";
    let r3 = &format!(r"'(?i:[sdmt]|ll|ve|re)|{words}|\p{{N}}{{1,3}}|{signs}|{other_spaces}");
    let g = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
    for (name, path) in known_files() {
        let tokenizer = Tokenizer::from_file(&path).unwrap();
        let Tokenization { normalizers, splits, merges, whole_pieces, symbols, .. } =
            tokenizer.tokenization().unwrap();
        let by_bytes = *symbols == Symbols::Bytes;
        match name.as_str() {
            "gpt2" => {
                assert_eq!((normalizers.as_slice(), splits.as_slice()), (&[][..], &[regex(g)][..]));
                assert_eq!((merges.len(), *whole_pieces, by_bytes), (50_000, false, true));
            }
            "llama3" => {
                assert_eq!((normalizers.as_slice(), splits.as_slice()), (&[][..], &[regex(r1)][..]));
                assert_eq!((merges.len(), *whole_pieces, by_bytes), (280_147, true, true));
            }
            "qwen2" => {
                let nfc = [Normalizer::Unicode(UnicodeForm::Nfc)];
                assert_eq!((normalizers.as_slice(), splits.as_slice()), (&nfc[..], &[regex(r2)][..]));
                assert_eq!((merges.len(), *whole_pieces, by_bytes), (151_387, false, true));
            }
            "cl100k" => {
                assert_eq!((normalizers.as_slice(), splits.as_slice()), (&[][..], &[regex(r3)][..]));
                assert_eq!((merges.len(), *whole_pieces, by_bytes), (100_000, true, true));
            }
            "llama2" | "mistral-v1" => {
                assert_eq!((normalizers.as_slice(), splits.as_slice()), (&sentence_piece[..], &[][..]));
                let count = if name == "llama2" { 61_249 } else { 58_980 };
                assert_eq!((merges.len(), *whole_pieces, by_bytes), (count, false, false));
                assert_eq!(tokenizer.fallback_tokens().len(), 256);
            }
            other => println!("{other}: nothing is known about this one"),
        }
        for merge in merges.merges() {
            let [left, right, result] =
                [merge.left, merge.right, merge.result].map(|id| tokenizer.vocabulary().text(id).unwrap());
            assert_eq!([left, right].concat(), result, "{name}");
        }
    }
}

/// Merges applied as their definition says: lowest rank first, leftmost first, on a piece.
struct Reference<'a> {
    tokenizer: &'a Tokenizer,
    facts: &'a Tokenization,
    by_bytes: HashMap<&'a [u8], TokenId>,
    fallback: HashMap<u8, TokenId>,
}

impl<'a> Reference<'a> {
    fn new(tokenizer: &'a Tokenizer) -> Self {
        let fallback: HashMap<u8, TokenId> = tokenizer.fallback_tokens().iter().copied().collect();
        let byte_ids: HashSet<TokenId> = fallback.values().copied().collect();
        let by_bytes = tokenizer
            .vocabulary()
            .text_tokens()
            .filter(|(id, _)| !byte_ids.contains(id))
            .map(|(id, b)| (b, id));
        Self { tokenizer, facts: tokenizer.tokenization().unwrap(), by_bytes: by_bytes.collect(), fallback }
    }

    fn encode(&self, piece: &str) -> Vec<TokenId> {
        if self.facts.whole_pieces
            && let Some(id) = self.by_bytes.get(piece.as_bytes())
        {
            return vec![*id];
        }
        let mut ids: Vec<TokenId> = if self.facts.symbols != Symbols::Bytes {
            let symbols = piece.chars().flat_map(|character| {
                let text = character.to_string();
                match self.by_bytes.get(text.as_bytes()) {
                    Some(id) => vec![*id],
                    None => text.bytes().map(|byte| self.fallback[&byte]).collect(),
                }
            });
            symbols.collect()
        } else {
            piece.as_bytes().chunks(1).map(|byte| self.by_bytes[byte]).collect()
        };
        while let Some((rank, at)) = ids
            .windows(2)
            .enumerate()
            .filter_map(|(at, pair)| Some((self.facts.merges.rank(pair[0], pair[1])?, at)))
            .min()
        {
            ids[at] = self.facts.merges.merges()[rank].result;
            ids.remove(at + 1);
        }
        ids
    }
}

/// The data alone gives the segmentation of the library, loaded by the library itself, on pieces; and our encoder,
/// built from checked parts, gives the same ids as the library does.
#[test]
fn the_data_segments_as_the_library_does() {
    for (name, path) in known_files() {
        let tokenizer = Tokenizer::from_file(&path).unwrap();
        let reference = Reference::new(&tokenizer);
        let library = tokenizers::Tokenizer::from_file(&path).unwrap();
        let mut pieces_only = library.clone();
        if !tokenizer.facts_have_no_splits() {
            let whole = tokenizers::pre_tokenizers::byte_level::ByteLevel::new(false, true, false);
            pieces_only.with_pre_tokenizer(Some(whole));
        }
        for text in texts() {
            let ours = tokenizer.encode(&text, false).unwrap();
            let theirs = library.encode(text.as_str(), false).unwrap();
            assert_eq!(
                ours,
                theirs.get_ids().iter().copied().map(TokenId).collect::<Vec<_>>(),
                "{name}: {text:?}"
            );
            for skip in [0, 3, 11] {
                let piece: String = text.chars().skip(skip).take(60).collect();
                let theirs = pieces_only.encode(piece.as_str(), false).unwrap();
                let normalized = tokenizer.expected_bytes(&piece).unwrap();
                let ours = reference.encode(std::str::from_utf8(&normalized).unwrap());
                let theirs: Vec<TokenId> = theirs.get_ids().iter().copied().map(TokenId).collect();
                assert_eq!(ours, theirs, "{name}: {piece:?}");
            }
        }
        println!("{name}: {} ids", reference.tokenizer.vocabulary().len());
    }
}

trait Splits {
    fn facts_have_no_splits(&self) -> bool;
}

impl Splits for Tokenizer {
    fn facts_have_no_splits(&self) -> bool {
        self.tokenization().unwrap().splits.is_empty()
    }
}
