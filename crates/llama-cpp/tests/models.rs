//! llama.cpp beside our own decoder, on GGUF files that are written from the embedded model; and the contract of
//! models.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use unskew_automata::RegexConstraint;
use unskew_core::{
    BatchError, ExactDistribution, Extension, LanguageModel, Logits, Rows, TokenId, TokenKind, Vocabulary,
    conformance::{check_model, check_sampler},
};
use unskew_llama_cpp::{CacheType, LlamaCpp, LlamaCppError, LoadError, Options, Sequence};
use unskew_runner::Llama;
use unskew_samplers::{Exact, Sampling, Task};
use unskew_testdata::gguf::{self, GgufWriter, Weights};
use unskew_tiny_model::{DRAFT, EmbeddedModel, TINY, TOKENIZER_JSON};
use unskew_vocab::{Gguf, TokenizationError, Tokenizer};

/// A file in a folder that lives as long as this does.
struct File(tempfile::TempDir);

impl File {
    fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("model.gguf"), bytes).unwrap();
        Self(folder)
    }

    fn of(model: EmbeddedModel, weights: Weights) -> Self {
        Self::new(&gguf::llama(model.config_json, TOKENIZER_JSON, model.safetensors, weights))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("model.gguf")
    }
}

fn options(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::default();
    options.threads = Some(2);
    change(&mut options);
    options
}

fn open(file: &File, change: impl FnOnce(&mut Options)) -> LlamaCpp {
    LlamaCpp::open(file.path(), &options(change)).unwrap()
}

const TEXTS: [&str; 4] = [
    "Dear Ms Meyer,\nKind regards,\nThomas Hansen",
    "A record: {\"name\": \"Paul Becker\", \"age\": 41}",
    "12 + 30 = 42\n",
    "a",
];

fn texts() -> Vec<Vec<u32>> {
    let tokenizer = Tokenizer::from_bytes(TOKENIZER_JSON.as_bytes()).unwrap();
    let encode = |text: &&str| tokenizer.encode(text, true).unwrap().into_iter().map(|id| id.0).collect();
    TEXTS.iter().map(encode).collect()
}

fn rows<M: LanguageModel>(model: &mut M, tokens: &[u32]) -> Vec<Vec<f32>> {
    let tokens: Vec<TokenId> = tokens.iter().copied().map(TokenId).collect();
    let (mut sequence, mut logits) = (model.start(), Logits::new());
    let mut batch = [Extension { sequence: &mut sequence, tokens: &tokens, rows: Rows::All }];
    model.extend(&mut batch, &mut logits).unwrap();
    logits.rows().map(<[f32]>::to_vec).collect()
}

/// The largest difference of logits, over all texts and positions.
fn difference(model: EmbeddedModel, theirs: &mut LlamaCpp) -> f32 {
    let mut ours = Llama::from_bytes(model.config_json, model.safetensors).unwrap();
    let mut largest = 0f32;
    for text in texts() {
        let (ours, theirs) = (rows(&mut ours, &text), rows(theirs, &text));
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().flatten().zip(theirs.iter().flatten()) {
            largest = largest.max((ours - theirs).abs());
        }
    }
    largest
}

/// The embedded model is stored in f16. llama.cpp rounds the inputs of a product with such a matrix to f16, too, and
/// by default keys and values.
#[test]
fn logits_are_those_of_our_own_decoder() {
    for (name, model, weights, cache, limit) in [
        ("tiny", TINY, Weights::F32, CacheType::F32, 1e-4),
        ("tiny-draft", DRAFT, Weights::F32, CacheType::F32, 1e-4),
        ("tiny", TINY, Weights::F32, CacheType::F16, 1e-2),
        ("tiny", TINY, Weights::F16, CacheType::F16, 2e-2),
        ("tiny-draft", DRAFT, Weights::F16, CacheType::F16, 2e-2),
        ("tiny", TINY, Weights::Q8, CacheType::F16, 0.4),
    ] {
        let file = File::of(model, weights);
        let largest = difference(model, &mut open(&file, |options| options.cache = cache));
        println!("{name}, weights {weights:?}, cache {cache:?}: {largest:.1e}");
        assert!(largest < limit, "{name}, {weights:?}, cache {cache:?}: {largest}");
    }
}

#[test]
fn the_contract_of_models_holds() {
    let file = File::of(TINY, Weights::F16);
    let texts: Vec<Vec<u32>> = texts().into_iter().map(|text| text[..text.len().min(9)].to_vec()).collect();
    check_model(&mut open(&file, |_| {}), &texts, 5e-2).unwrap();
    // Two slots, a cache for one sequence, passes of three tokens.
    let mut small = open(&file, |options| {
        options.context = Some(32);
        options.cells = Some(32);
        options.sequences = 2;
        options.pass = 3;
    });
    check_model(&mut small, &texts, 5e-2).unwrap();
    // In 32 bits the ways to a row differ by rounding alone.
    let file = File::of(TINY, Weights::F32);
    check_model(&mut open(&file, |options| options.cache = CacheType::F32), &texts, 1e-4).unwrap();
}

/// Four texts of which the cache holds one, in one batch, and then one token of each.
#[test]
fn texts_that_do_not_fit_together_are_evaluated_one_after_the_other() {
    let file = File::of(DRAFT, Weights::F32);
    let mut model = open(&file, |options| {
        options.context = Some(250);
        options.cells = Some(256);
        options.sequences = 8;
        options.cache = CacheType::F32;
    });
    let mut whole = Llama::from_bytes(DRAFT.config_json, DRAFT.safetensors).unwrap();
    let text = |of: u32| (0..200).map(|at| TokenId((at * 7 + of * 31) % 2000 + 1)).collect::<Vec<_>>();
    let mut texts: Vec<_> = (0..4).map(|of| (model.start(), text(of))).collect();
    for appended in [200, 1] {
        let mut batch: Vec<_> = texts
            .iter_mut()
            .map(|(sequence, text)| Extension { sequence, tokens: &text[..appended], rows: Rows::Last })
            .collect();
        let mut logits = Logits::new();
        model.extend(&mut batch, &mut logits).unwrap();
        for (row, (sequence, _)) in logits.rows().zip(&texts) {
            let ids: Vec<u32> = sequence.tokens().iter().map(|id| id.0).collect();
            let expected = rows(&mut whole, &ids).pop().unwrap();
            let largest =
                row.iter().zip(&expected).map(|(one, other)| (one - other).abs()).fold(0f32, f32::max);
            assert!(largest < 2e-4, "{largest}");
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Fork(usize),
    Truncate(usize, usize),
    Drop(usize),
    Extend(Vec<(bool, Vec<u32>)>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let item = (any::<bool>(), prop::collection::vec(1..2048u32, 1..5));
    let step = prop_oneof![
        2 => (0..6usize).prop_map(Step::Fork),
        2 => (0..6usize, 0..20usize).prop_map(|(of, len)| Step::Truncate(of, len)),
        1 => (0..6usize).prop_map(Step::Drop),
        5 => prop::collection::vec(item, 6).prop_map(Step::Extend),
    ];
    prop::collection::vec(step, 1..16)
}

fn config() -> ProptestConfig {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(11);
    ProptestConfig { cases: 40, failure_persistence: None, rng_seed, ..Default::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Forks, truncations, batches and evictions against one pass over the whole text, in f32.
    #[test]
    fn any_mix_of_steps_is_a_full_pass(steps in steps(), sequences in 1..5usize, cells in 24..80usize) {
        let file = File::of(DRAFT, Weights::F32);
        let mut model = open(&file, |options| {
            options.context = Some(24);
            options.cells = Some(cells);
            options.sequences = sequences;
            options.cache = CacheType::F32;
        });
        let mut whole = Llama::from_bytes(DRAFT.config_json, DRAFT.safetensors).unwrap();
        let mut texts: Vec<(Sequence, Vec<TokenId>)> = vec![(model.start(), Vec::new())];
        for step in steps {
            let count = texts.len();
            match step {
                Step::Fork(of) if count < 6 => {
                    let (sequence, tokens) = &texts[of % count];
                    let fork = (model.fork(sequence), tokens.clone());
                    texts.push(fork);
                }
                Step::Truncate(of, len) => {
                    let (sequence, tokens) = &mut texts[of % count];
                    let len = len.min(tokens.len());
                    model.truncate(sequence, len);
                    tokens.truncate(len);
                }
                Step::Drop(of) if count > 1 => drop(texts.remove(of % count)),
                Step::Extend(items) => {
                    let mut expected = Vec::new();
                    let mut batch = Vec::new();
                    let new: Vec<Vec<TokenId>> = items
                        .iter()
                        .map(|(_, tokens)| tokens.iter().copied().map(TokenId).collect())
                        .collect();
                    for ((sequence, tokens), ((takes_part, _), new)) in texts.iter_mut().zip(items.iter().zip(&new)) {
                        if *takes_part && tokens.len() + new.len() <= 24 {
                            tokens.extend(new);
                            let ids: Vec<u32> = tokens.iter().map(|id| id.0).collect();
                            expected.extend(rows(&mut whole, &ids).pop());
                            batch.push(Extension { sequence, tokens: new, rows: Rows::Last });
                        }
                    }
                    let mut logits = Logits::new();
                    model.extend(&mut batch, &mut logits).unwrap();
                    prop_assert_eq!(logits.len(), expected.len());
                    for (row, expected) in logits.rows().zip(&expected) {
                        for (one, other) in row.iter().zip(expected) {
                            prop_assert!((one - other).abs() < 2e-4, "{} and {}", one, other);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

#[test]
fn exact_sampling_draws_from_the_models_own_distribution() {
    // In 32 bits, so that a draw's log-probability is compared, too.
    let file = File::of(TINY, Weights::F32);
    let tokenizer = Tokenizer::from_file(file.path()).unwrap();
    let vocabulary = tokenizer.vocabulary();
    let constraint = RegexConstraint::for_vocabulary("Thomas|Peter|Paul", vocabulary.clone()).unwrap();
    let prompt = tokenizer.encode("Dear Ms Meyer,\nKind regards,\n", true).unwrap();
    let end = vocabulary.end_of_sequence();
    let mut model = open(&file, |options| {
        options.sequences = 8;
        options.cache = CacheType::F32;
    });
    let exact = ExactDistribution::enumerate(&mut model, &constraint, &prompt, end, 8, 10_000).unwrap();
    let mut ours = Llama::from_bytes(TINY.config_json, TINY.safetensors).unwrap();
    let expected = ExactDistribution::enumerate(&mut ours, &constraint, &prompt, end, 8, 10_000).unwrap();
    assert!((exact.mass() - expected.mass()).abs() < 1e-5, "{} and {}", exact.mass(), expected.mass());
    let task = Task::new(model, &constraint, vocabulary, 8).after(prompt);
    let mut sampler = Sampling::new(task, Exact::cars(100_000));
    check_sampler(&mut sampler, &expected, 4000, &mut ChaCha8Rng::seed_from_u64(1)).unwrap();
}

#[test]
fn tokens_are_those_of_llama_cpp() {
    let file = File::of(TINY, Weights::F16);
    let model = open(&file, |_| {});
    let of_gguf = Tokenizer::from_file(file.path()).unwrap();
    let of_json = Tokenizer::from_bytes(TOKENIZER_JSON.as_bytes()).unwrap();
    assert_eq!(of_gguf.vocabulary(), of_json.vocabulary());
    assert_eq!(of_gguf.begin_of_sequence(), of_json.begin_of_sequence());
    assert_eq!(of_gguf.tokenization().unwrap(), of_json.tokenization().unwrap());
    check_tokens(&model, &of_gguf, "gpt-2");
}

/// Bytes and ends of all tokens, and the tokens of texts.
fn check_tokens(model: &LlamaCpp, tokenizer: &Tokenizer, name: &str) {
    let vocabulary: &Vocabulary = tokenizer.vocabulary();
    assert_eq!(model.vocab_len(), vocabulary.len(), "{name}");
    for id in (0..vocabulary.len()).map(TokenId::from_index) {
        let (bytes, ends) = model.llama_cpp_token(id.0);
        assert_eq!(ends, vocabulary.is_end_of_sequence(id), "{name}: token {id}");
        match vocabulary.kind(id) {
            TokenKind::Text => assert_eq!(vocabulary.text(id), Some(&bytes[..]), "{name}: token {id}"),
            TokenKind::Control | TokenKind::Unused => {
                assert!(bytes.is_empty(), "{name}: token {id}: {bytes:?}");
            }
        }
    }
    for text in HARD {
        let ours: Vec<u32> = tokenizer.encode(text, true).unwrap().into_iter().map(|id| id.0).collect();
        assert_eq!(ours, model.llama_cpp_tokens(text), "{name}: {text:?}");
    }
}

const HARD: [&str; 16] = [
    "Dear Ms Meyer,\nKind regards,\n",
    "  two  spaces and   three\n\n\nlines\t\ttabs ",
    "don't I'M we'll THEY'RE 'tis",
    "12345 1 22 333 4444 3.14159",
    "fn main() { println!(\"{}\", x[0] != y); }",
    "naïve café — “quoted” … 50 €",
    "漢字 かな カナ 한글",
    "🙂👩‍👩‍👧 ½ ²",
    "a<|endoftext|>b",
    "<|endoftext|>",
    "\n",
    " ",
    "   ",
    "x",
    "\u{0}\u{1}",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

/// The embedded model with another tokenizer in its file.
fn with_tokenizer(write: impl FnOnce(&mut GgufWriter) -> usize) -> File {
    File::new(&gguf::random_llama(write))
}

/// Every pattern that is known here, on a byte-level vocabulary.
#[test]
fn pre_tokenizers_are_those_of_llama_cpp() {
    let json = TOKENIZER_JSON;
    for pre in [
        "gpt-2",
        "starcoder",
        "smollm",
        "llama-bpe",
        "dbrx",
        "qwen2",
        "qwen35",
        "deepseek-r1-qwen",
        "tekken",
        "gpt-4o",
        "deepseek-v3",
        "seed-coder",
        "minicpm5",
    ] {
        let file = with_tokenizer(|file| gguf::tokenizer_with(file, json, pre));
        let tokenizer = Tokenizer::from_file(file.path()).unwrap();
        assert!(tokenizer.tokenization().is_ok(), "{pre}");
        check_tokens(&open(&file, |_| {}), &tokenizer, pre);
    }
    let file = with_tokenizer(|file| gguf::tokenizer_with(file, json, "default"));
    let tokenizer = Tokenizer::from_file(file.path()).unwrap();
    let error = tokenizer.tokenization().unwrap_err();
    assert!(matches!(error, TokenizationError::PreTokenizer { .. }), "{error}");
    assert!(tokenizer.encode("a", true).is_err());
    assert_eq!(tokenizer.encode("", true).unwrap(), [TokenId(0)]);
}

#[test]
fn sentence_piece_is_that_of_llama_cpp() {
    for prefix in [true, false] {
        let file = with_tokenizer(|file| gguf::sentence_piece(file, prefix));
        let tokenizer = Tokenizer::from_file(file.path()).unwrap();
        tokenizer.tokenization().unwrap();
        check_tokens(&open(&file, |_| {}), &tokenizer, "llama");
    }
}

#[test]
fn errors_are_typed() {
    let file = File::of(DRAFT, Weights::F16);
    let open_error = |path: &Path| LlamaCpp::open(path, &options(|_| {})).unwrap_err();
    assert!(matches!(open_error(Path::new("no such file")), LoadError::File { .. }));
    let bytes = std::fs::read(file.path()).unwrap();
    let damaged = File::new(&bytes[..bytes.len() / 2]);
    let error = open_error(&damaged.path());
    assert!(matches!(error, LoadError::File { .. }), "{error}");
    // A whole file that llama.cpp does not know.
    let unknown =
        File::new(GgufWriter::new().text("general.architecture", "no such model").bytes().as_slice());
    let error = open_error(&unknown.path()).to_string();
    assert!(error.contains("no such model"), "{error}");
    let refused = |change: fn(&mut Options)| {
        let error = LlamaCpp::open(file.path(), &options(change)).unwrap_err();
        assert!(matches!(error, LoadError::Options { .. }), "{error}");
    };
    refused(|options| options.sequences = 257);
    refused(|options| options.pass = 0);
    refused(|options| options.cells = Some(3));

    let mut model = open(&file, |options| options.context = Some(4));
    assert_eq!(model.context_len(), Some(4));
    let (mut sequence, mut logits) = (model.start(), Logits::new());
    let mut extend = |model: &mut LlamaCpp, tokens: &[TokenId]| {
        let mut batch = [Extension { sequence: &mut sequence, tokens, rows: Rows::Last }];
        model.extend(&mut batch, &mut logits)
    };
    let error = extend(&mut model, &[TokenId(1); 5]).unwrap_err();
    assert!(
        matches!(error, LlamaCppError::Batch(BatchError::ContextFull { len: 5, context: 4, .. })),
        "{error}"
    );
    let error = extend(&mut model, &[]).unwrap_err();
    assert!(matches!(error, LlamaCppError::Batch(BatchError::EmptyContext { .. })), "{error}");
    let mut other = open(&file, |_| {});
    let error = extend(&mut other, &[TokenId(1)]).unwrap_err();
    assert!(matches!(error, LlamaCppError::Batch(BatchError::ForeignSequence { .. })), "{error}");
}

/// The header is complete: the tensors that we list end where the file ends.
#[test]
fn the_header_is_read_to_its_end() {
    for weights in [Weights::F32, Weights::F16, Weights::Q8] {
        let file = File::of(DRAFT, weights);
        let gguf = Gguf::open(file.path()).unwrap();
        let last = gguf.tensors().iter().map(|tensor| tensor.start + tensor.bytes.unwrap()).max().unwrap();
        let len = std::fs::metadata(file.path()).unwrap().len();
        assert!(last <= len && len - last < 32, "{last} of {len}");
        assert_eq!(gguf.architecture(), Some("llama"));
    }
}
