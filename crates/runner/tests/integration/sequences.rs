//! Sequences in batches: tokens that are appended together, apart, after a fork or after a truncation yield the same
//! rows, bit by bit, and an error changes nothing.

use crate::common::{all_rows, checkpoint, config, distance, extend, load, safetensors_bytes, tokens};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use safetensors::tensor::Dtype;
use unskew_core::{BatchError, Extension, LanguageModel, Logits, Rows, TokenId, conformance};
use unskew_runner::{Llama, ModelConfig, ModelError, Sequence};

/// Rows are equal bit by bit, however they came about.
const TOLERANCE: f64 = 0.0;

fn model() -> Llama {
    let config = config([6, 2, 6, 36, 2], true);
    load(&config, &checkpoint(&config, 1))
}

#[test]
fn language_models_keep_their_contract() {
    let texts: Vec<Vec<u32>> = [1, 2, 9]
        .into_iter()
        .map(|len| tokens(len, len as u64).iter().map(|token| token.0).collect())
        .collect();
    conformance::check_model(&mut model(), &texts, TOLERANCE as f32).unwrap();
}

#[test]
fn one_by_one_equals_all_at_once() {
    let mut model = model();
    let text = tokens(150, 2);
    let expected = all_rows(&mut model, &text);
    let mut sequence = model.start();
    let stepped: Vec<_> = text
        .iter()
        .flat_map(|token| extend(&mut model, &mut sequence, std::slice::from_ref(token), Rows::Last))
        .collect();
    assert!(distance(&stepped, &expected) <= TOLERANCE);
    assert_eq!(sequence.tokens(), text);
}

#[test]
fn uneven_pieces_equal_all_at_once() {
    let mut model = model();
    let text = tokens(800, 3);
    let expected = all_rows(&mut model, &text);
    let mut sequence = model.start();
    let mut rows = Vec::new();
    let mut rest = &text[..];
    for len in [1, 63, 2, 600, 1, 133] {
        let (piece, after) = rest.split_at(len);
        rows.extend(extend(&mut model, &mut sequence, piece, Rows::All));
        rest = after;
    }
    assert!(rest.is_empty());
    assert!(distance(&rows, &expected) <= TOLERANCE, "{}", distance(&rows, &expected));
}

#[test]
fn a_batch_equals_its_items() {
    let mut model = model();
    // Prompts of different lengths, the last ones across a pass boundary; then a batch that mixes a single token,
    // a draft to verify, nothing, and a fresh sequence.
    let texts: Vec<Vec<TokenId>> = [3, 1, 40, 300, 300].iter().map(|len| tokens(*len, *len as u64)).collect();
    let alone: Vec<Vec<Vec<f32>>> = texts.iter().map(|text| all_rows(&mut model, text)).collect();

    let mut sequences: Vec<_> = texts.iter().map(|_| model.start()).collect();
    let first = [2, 0, 39, 299, 290];
    let mut batch: Vec<_> = sequences
        .iter_mut()
        .zip(&texts)
        .zip(first)
        .map(|((sequence, text), len)| Extension { sequence, tokens: &text[..len], rows: Rows::All })
        .collect();
    let mut logits = Logits::new();
    model.extend(&mut batch, &mut logits).unwrap();
    let expected: Vec<Vec<f32>> =
        alone.iter().zip(first).flat_map(|(rows, len)| rows[..len].to_vec()).collect();
    let rows: Vec<Vec<f32>> = logits.rows().map(<[f32]>::to_vec).collect();
    assert!(distance(&rows, &expected) <= TOLERANCE, "{}", distance(&rows, &expected));

    let wanted = [Rows::Last, Rows::Last, Rows::All, Rows::Last, Rows::From(1)];
    let mut batch: Vec<_> = sequences
        .iter_mut()
        .zip(&texts)
        .zip(first.into_iter().zip(wanted))
        .map(|((sequence, text), (from, rows))| Extension { sequence, tokens: &text[from..], rows })
        .collect();
    model.extend(&mut batch, &mut logits).unwrap();
    let expected: Vec<Vec<f32>> = alone
        .iter()
        .zip(first.into_iter().zip(wanted))
        .flat_map(|(rows, (from, wanted))| match wanted {
            Rows::Last => rows[rows.len() - 1..].to_vec(),
            Rows::All => rows[from..].to_vec(),
            Rows::From(first) => rows[from + first..].to_vec(),
        })
        .collect();
    let rows: Vec<Vec<f32>> = logits.rows().map(<[f32]>::to_vec).collect();
    assert!(distance(&rows, &expected) <= TOLERANCE, "{}", distance(&rows, &expected));
    for (sequence, text) in sequences.iter().zip(&texts) {
        assert_eq!(sequence.tokens(), text);
    }
}

#[test]
fn forks_are_independent() {
    let mut model = model();
    let text = tokens(30, 5);
    let mut trunk = model.start();
    extend(&mut model, &mut trunk, &text, Rows::Last);
    let mut branches: Vec<_> = (0..3).map(|_| model.fork(&trunk)).collect();
    // The sequences grow in turns, so that each write happens while others still share the cache.
    let ends: Vec<Vec<TokenId>> = (0..3).map(|branch| tokens(5, 100 + branch)).collect();
    let mut rows = vec![Vec::new(); 3];
    for step in 0..5 {
        for branch in 0..3 {
            let token = &ends[branch][step..=step];
            rows[branch].extend(extend(&mut model, &mut branches[branch], token, Rows::Last));
        }
    }
    for (end, rows) in ends.iter().zip(&rows) {
        let whole = [&text[..], &end[..]].concat();
        assert!(distance(rows, &all_rows(&mut model, &whole)[30..]) <= TOLERANCE);
    }
    // The trunk itself is unchanged.
    let last = extend(&mut model, &mut trunk, &[], Rows::Last);
    assert!(distance(&last, &all_rows(&mut model, &text)[29..]) <= TOLERANCE);
}

#[test]
fn truncating_forgets() {
    let mut model = model();
    let text = tokens(90, 6);
    let mut sequence = model.start();
    extend(&mut model, &mut sequence, &text, Rows::Last);
    let kept = model.fork(&sequence);
    for len in [70, 64, 1, 0] {
        model.truncate(&mut sequence, len);
        assert_eq!(model.len(&sequence), len);
        let other = [&text[..len], &tokens(6, len as u64)[..]].concat();
        let rows = extend(&mut model, &mut sequence, &other[len..], Rows::All);
        assert!(distance(&rows, &all_rows(&mut model, &other)[len..]) <= TOLERANCE, "{len}");
    }
    assert_eq!(kept.tokens(), text);
}

#[test]
fn nothing_appended_evaluates_the_last_position_again() {
    let mut model = model();
    let text = tokens(10, 7);
    let mut sequence = model.start();
    let last = extend(&mut model, &mut sequence, &text, Rows::Last);
    assert!(distance(&extend(&mut model, &mut sequence, &[], Rows::Last), &last) <= TOLERANCE);
    assert!(extend(&mut model, &mut sequence, &[], Rows::All).is_empty());
    assert_eq!(model.len(&sequence), 10);
    model.truncate(&mut sequence, 4);
    let rows = extend(&mut model, &mut sequence, &[], Rows::Last);
    assert!(distance(&rows, &all_rows(&mut model, &text[..4])[3..]) <= TOLERANCE);
}

#[test]
fn an_empty_batch_yields_no_rows() {
    let mut model = model();
    let mut logits = Logits::new();
    logits.reset(1, 3);
    model.extend(&mut [], &mut logits).unwrap();
    assert!(logits.is_empty());
}

#[test]
fn a_pass_without_rows_of_logits_is_remembered() {
    // Weights of 16 bits, wider than what is widened at a time.
    let config = config([2, 1, 48, 96, 1], true);
    let bytes = safetensors_bytes(&checkpoint(&config, 1), Dtype::F16);
    let mut model = Llama::from_bytes(&config.to_json(), &bytes).unwrap();
    let text = tokens(5, 1);
    let expected = all_rows(&mut model, &text);
    let mut sequence = model.start();
    assert!(extend(&mut model, &mut sequence, &text[..4], Rows::From(9)).is_empty());
    assert_eq!(extend(&mut model, &mut sequence, &text[4..], Rows::Last), expected[4..]);
}

/// Extends two sequences, the second one as given, and expects an error that changes neither.
fn refused(tokens: &[TokenId], rows: Rows, before: &[TokenId]) -> ModelError {
    let mut config = config([2, 1, 4, 8, 1], true);
    config.max_position_embeddings = 8;
    let mut model = load(&config, &checkpoint(&config, 2));
    let (mut good, mut bad) = (model.start(), model.start());
    if !before.is_empty() {
        extend(&mut model, &mut bad, before, Rows::Last);
    }
    let mut logits = Logits::new();
    let mut batch = [
        Extension { sequence: &mut good, tokens: &[TokenId(1)], rows: Rows::Last },
        Extension { sequence: &mut bad, tokens, rows },
    ];
    let error = model.extend(&mut batch, &mut logits).unwrap_err();
    assert!(model.is_empty(&good));
    assert_eq!(bad.tokens(), before);
    error
}

#[test]
fn errors_name_the_item_and_the_limit() {
    let error = refused(&[], Rows::Last, &[]);
    assert!(matches!(error, ModelError::Batch(BatchError::EmptyContext { item: 1, .. })));
    assert!(error.to_string().contains("empty sequence; append a token first, such as 1"), "{error}");

    let error = refused(&tokens(3, 1), Rows::All, &tokens(6, 1));
    assert!(matches!(error, ModelError::Batch(BatchError::ContextFull { item: 1, len: 9, context: 8 })));
    assert!(error.to_string().contains("would hold 9 tokens, the model's context is 8"), "{error}");

    let error = refused(&[TokenId(40), TokenId(41)], Rows::All, &[TokenId(2)]);
    assert!(matches!(
        error,
        ModelError::Batch(BatchError::UnknownToken { item: 1, token: TokenId(41), vocab_len: 41 })
    ));
    assert!(error.to_string().contains("token 41, but ids end below 41"), "{error}");
}

#[test]
fn the_context_can_be_filled_to_the_last_token() {
    let mut config = config([2, 1, 4, 8, 1], true);
    config.max_position_embeddings = 70;
    let mut model = load(&config, &checkpoint(&config, 2));
    let text = tokens(70, 1);
    let mut sequence = model.start();
    for token in &text {
        extend(&mut model, &mut sequence, std::slice::from_ref(token), Rows::Last);
    }
    assert_eq!(model.context_len(), Some(model.len(&sequence)));
    let last = extend(&mut model, &mut sequence, &[], Rows::Last);
    assert!(distance(&last, &all_rows(&mut model, &text)[69..]) <= TOLERANCE);
}

#[test]
fn sequences_of_another_model_are_refused() {
    let (mut model, mut other) = (model(), model());
    let mut sequence = other.start();
    let mut logits = Logits::new();
    let error = model
        .extend(
            &mut [Extension { sequence: &mut sequence, tokens: &[TokenId(1)], rows: Rows::Last }],
            &mut logits,
        )
        .unwrap_err();
    assert!(matches!(error, ModelError::Batch(BatchError::ForeignSequence { item: 0 })));
}

#[test]
fn models_and_sequences_can_change_threads() {
    fn check<T: Send>() {}
    check::<Llama>();
    check::<unskew_runner::Sequence>();
}

#[test]
#[should_panic(expected = "cannot truncate a sequence of 2 tokens to 3")]
fn truncating_beyond_the_end_panics() {
    let mut model = model();
    let mut sequence = model.start();
    extend(&mut model, &mut sequence, &tokens(2, 1), Rows::Last);
    model.truncate(&mut sequence, 3);
}

#[test]
fn random_models_are_a_function_of_the_seed() {
    let config = config([4, 2, 8, 32, 2], false);
    let text = tokens(12, 1);
    let rows = |seed: u64| all_rows(&mut Llama::random(&config, seed).unwrap(), &text);
    let (first, again, other) = (rows(1), rows(1), rows(2));
    assert_eq!(first, again);
    assert!(distance(&first, &other) > 0.1);
    let most = first.iter().flatten().fold(0.0_f32, |most, value| most.max(value.abs()));
    assert!(most > 0.5 && most < 20.0, "{most}");
}

/// A sequence beside the tokens that it should hold.
#[derive(Clone)]
struct Walk {
    sequence: Sequence,
    tokens: Vec<TokenId>,
}

/// Configurations of other families: windows, soft caps, frequencies that change with the length.
fn other_families() -> Vec<ModelConfig> {
    let sizes = r#""hidden_size": 12, "intermediate_size": 10, "num_hidden_layers": 3, "num_attention_heads": 4,
                   "num_key_value_heads": 2, "head_dim": 6, "vocab_size": 41, "max_position_embeddings": 300"#;
    let of = |fields: &str| ModelConfig::from_json(&format!("{{{sizes}, {fields}}}")).unwrap();
    vec![
        of(r#""model_type": "gemma2", "sliding_window": 11"#),
        of(r#""model_type": "mistral", "sliding_window": 9"#),
        of(r#""model_type": "llama", "max_position_embeddings": 50,
              "rope_scaling": {"rope_type": "dynamic", "factor": 6.0}"#),
        of(r#""model_type": "phi3", "original_max_position_embeddings": 45, "rope_scaling":
              {"type": "longrope", "short_factor": [1, 1.5, 2], "long_factor": [2, 3, 4]}"#),
    ]
}

/// Rows of one batch that differ in their frequencies: what is remembered for the first of them is its own.
#[test]
fn rows_of_several_frequencies_are_remembered_apart() {
    for (config, trained) in other_families()[2..].iter().zip([50, 45]) {
        let mut model = Llama::random(config, 1).unwrap();
        let mut oracle = Llama::random(config, 1).unwrap();
        oracle.remember(0);
        let text = tokens(trained + 9, 6);
        all_rows(&mut model, &text);
        for len in trained - 1..=text.len() {
            let last = |model: &mut Llama| {
                let mut sequence = model.start();
                extend(model, &mut sequence, &text[..len], Rows::Last)
            };
            assert_eq!(last(&mut model), last(&mut oracle), "{config:?}, {len} tokens");
        }
    }
}

/// Steps, forks, truncations, fresh sequences with known tokens, evictions and batches; each row beside one pass of a
/// model that remembers nothing.
#[test]
fn any_mix_of_steps_equals_one_pass() {
    // Heads of widths that are no multiple of a vector's, and sequences around the ends of pages.
    let own = [([6, 2, 6, 36, 2], 1), ([4, 4, 34, 40, 1], 2), ([2, 1, 66, 20, 2], 3)];
    let own = own.map(|(sizes, seed)| config(sizes, seed % 2 == 0));
    for (config, seed) in own.into_iter().chain(other_families()).zip(1_u64..) {
        let mut model = Llama::random(&config, seed).unwrap();
        let mut oracle = Llama::random(&config, seed).unwrap();
        oracle.remember(0);
        let page = 8 * model.position_bytes();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut below = |end: usize| random.next_u32() as usize % end;
        let mut walks = vec![Walk { sequence: model.start(), tokens: Vec::new() }];
        for step in 0..60 {
            match below(6) {
                0 if walks.len() < 6 => {
                    let of = below(walks.len());
                    let sequence = model.fork(&walks[of].sequence);
                    walks.push(Walk { sequence, tokens: walks[of].tokens.clone() });
                }
                1 => {
                    let of = below(walks.len());
                    let len = below(walks[of].tokens.len() + 1);
                    model.truncate(&mut walks[of].sequence, len);
                    walks[of].tokens.truncate(len);
                }
                2 if walks.len() > 2 => _ = walks.swap_remove(below(walks.len())),
                3 => model.remember([0, 3, 20, 1000][below(4)] * page),
                _ => {}
            }
            let mut pieces: Vec<Vec<TokenId>> = walks
                .iter()
                .map(|walk| {
                    let most = if walk.tokens.len() > 120 { 2 } else { 40 };
                    // An empty sequence has no row.
                    tokens(below(most).max(usize::from(walk.tokens.is_empty())), step)
                })
                .collect();
            if walks.len() < 6 {
                // A sequence that reads again what another one holds, and something else.
                let known = &walks[below(walks.len())].tokens;
                pieces.push([&known[..known.len().min(130)], &tokens(1 + below(9), step + 1000)].concat());
                walks.push(Walk { sequence: model.start(), tokens: Vec::new() });
            }
            let mut batch: Vec<_> = walks
                .iter_mut()
                .zip(&pieces)
                .map(|(walk, tokens)| Extension { sequence: &mut walk.sequence, tokens, rows: Rows::Last })
                .collect();
            let mut logits = Logits::new();
            model.extend(&mut batch, &mut logits).unwrap();
            for (row, (walk, piece)) in logits.rows().zip(walks.iter_mut().zip(&pieces)) {
                walk.tokens.extend(piece);
                assert_eq!(walk.sequence.tokens(), walk.tokens);
                let mut fresh = oracle.start();
                let expected = extend(&mut oracle, &mut fresh, &walk.tokens, Rows::Last);
                assert_eq!(row, expected[0], "{config:?}, step {step}");
            }
        }
    }
}

#[test]
fn every_row_of_a_longer_text_is_that_of_its_prefix() {
    for config in other_families() {
        let mut model = Llama::random(&config, 1).unwrap();
        model.remember(0);
        let text = tokens(70, 3);
        let rows = all_rows(&mut model, &text);
        for len in [1, 30, 49, 50, 51, 70] {
            let mut sequence = model.start();
            assert_eq!(
                extend(&mut model, &mut sequence, &text[..len], Rows::Last)[0],
                rows[len - 1],
                "{len}"
            );
        }
    }
}

#[test]
fn known_prefixes_are_not_evaluated_again() {
    let mut model = Llama::random(&config([2, 1, 4, 8, 2], true), 1).unwrap();
    let prompt = tokens(100, 1);
    let first = all_rows(&mut model, &prompt);
    assert_eq!((model.evaluated(), model.remembered()), (100, 96 * model.position_bytes()));
    // Twelve pages are known, and the row after the last token is asked for.
    let mut sequence = model.start();
    assert_eq!(extend(&mut model, &mut sequence, &prompt, Rows::Last)[0], first[99]);
    assert_eq!(model.evaluated(), 104);
    // Every row is asked for.
    assert_eq!(all_rows(&mut model, &prompt), first);
    assert_eq!(model.evaluated(), 204);
    model.remember(0);
    assert_eq!(model.remembered(), 0);
    let mut sequence = model.start();
    extend(&mut model, &mut sequence, &prompt, Rows::Last);
    assert_eq!(model.evaluated(), 304);
}

#[test]
fn a_prompt_is_held_once_for_many_walks() {
    let mut model = Llama::random(&config([2, 1, 32, 64, 2], true), 1).unwrap();
    let mut prompt = model.start();
    extend(&mut model, &mut prompt, &tokens(800, 1), Rows::Last);
    let mut walks: Vec<Sequence> = (0..50).map(|_| model.fork(&prompt)).collect();
    for step in 0..24 {
        let pieces: Vec<Vec<TokenId>> = (0..50).map(|walk| tokens(1, 100 * step + walk)).collect();
        let mut batch: Vec<_> = walks
            .iter_mut()
            .zip(&pieces)
            .map(|(sequence, tokens)| Extension { sequence, tokens, rows: Rows::Last })
            .collect();
        model.extend(&mut batch, &mut Logits::new()).unwrap();
    }
    // The tree has all pages, each once; walks with the same first tokens share them.
    let positions = 800 + 50 * 24;
    assert!(model.remembered() <= positions * model.position_bytes());
    assert!(model.remembered() > 800 * model.position_bytes());
    assert_eq!(model.evaluated(), positions as u64);
}

#[test]
fn threads_change_nothing() {
    // Wide enough that products and attention are shared.
    let mut config = config([8, 4, 32, 256, 1], true);
    config.vocab_size = 3000;
    let text = tokens(300, 1);
    let rows = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut model = Llama::random(&config, 1).unwrap();
            let mut rows = all_rows(&mut model, &text);
            let mut sequence = model.start();
            for token in &text[..3] {
                rows.extend(extend(&mut model, &mut sequence, std::slice::from_ref(token), Rows::Last));
            }
            rows
        })
    };
    let alone = rows(1);
    assert_eq!(alone[0], alone[300]);
    assert_eq!(alone, rows(2));
    assert_eq!(alone, rows(7));
}
