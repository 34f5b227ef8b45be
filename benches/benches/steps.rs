//! The steps of constrained decoding, each by itself: `cargo bench --package unskew-benches`.
//!
//! criterion measures them, keeps its records under `target/criterion`, and says how far a change has moved each. The
//! vocabulary is that of the embedded model. For figures beside other engines there is `cargo xtask bench`.

use std::{hint::black_box, sync::Arc};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use unskew_automata::RegexConstraint;
use unskew_core::{Constraint, Sampler, TableModel, TokenId, TokenMask};
use unskew_engine::{Compiler, CompilerOptions, Spec, TokenSpace};
use unskew_samplers::{Exact, Sampling, Task};
use unskew_sets::{SetBuilder, SetConstraint};
use unskew_trie::TokenTrie;
use unskew_vocab::Tokenizer;

const SCHEMA: &str = r#"{"type": "object", "required": ["name", "age"], "properties": {
    "name": {"type": "string", "maxLength": 40}, "age": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}}}"#;
const CODE: &str = "root ::= call (\"; \" call)*\ncall ::= [a-z]+ \"(\" (value (\", \" value)*)? \")\"\nvalue ::= [0-9]+ | call";

fn tokens() -> Arc<TokenSpace> {
    let tokenizer = Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes()).unwrap();
    let len = tokenizer.vocabulary().len();
    let end: Vec<TokenId> = tokenizer.vocabulary().end_of_sequence().to_vec();
    Arc::new(TokenSpace::from_tokenizer(tokenizer, &end, len).unwrap())
}

/// A compiler that keeps nothing.
fn compiler(tokens: &Arc<TokenSpace>) -> Compiler {
    let mut options = CompilerOptions::default();
    options.cache_bytes = 0;
    Compiler::with_options(Arc::clone(tokens), options)
}

fn specs() -> [(&'static str, Spec, &'static str); 4] {
    [
        ("regex", Spec::regex(r"\d{4}-\d{2}-\d{2}"), "2026-1"),
        ("schema", Spec::json_schema(SCHEMA), "{\"name\": \"Ada\", "),
        ("grammar", Spec::grammar(CODE, unskew_notation::GrammarFormat::Gbnf), "add(1, mul("),
        ("canonical", Spec::regex("[a-z ]{1,40}").canonical(), "the "),
    ]
}

fn masks(criterion: &mut Criterion) {
    let tokens = tokens();
    for (name, spec, text) in specs() {
        let compiler = compiler(&tokens);
        let ids = tokens.encode_output(text).unwrap();
        let mut row = vec![0; compiler.mask_words()];
        criterion.bench_function(&format!("compile/{name}"), |bencher| {
            bencher.iter(|| compiler.compile(black_box(&spec)).unwrap());
        });
        criterion.bench_function(&format!("first mask/{name}"), |bencher| {
            let fresh = || compiler.compile(&spec).unwrap().matcher();
            bencher.iter_batched(fresh, |matcher| matcher.fill(&mut row).unwrap(), BatchSize::SmallInput);
        });
        let mut matcher = compiler.compile(&spec).unwrap().matcher();
        assert_eq!(matcher.accept_all(&ids).unwrap(), ids.len(), "{name}");
        criterion.bench_function(&format!("mask and token/{name}"), |bencher| {
            bencher.iter(|| {
                matcher.rollback(1).unwrap();
                matcher.fill(&mut row).unwrap();
                matcher.accept(black_box(ids[ids.len() - 1])).unwrap()
            });
        });
    }
}

/// One output of CARS, over a model that costs nothing.
fn draws(criterion: &mut Criterion) {
    let model = TableModel::new(["0", "1", "2"], vec![0.4, 0.3, 0.2, 0.1], []).unwrap();
    let vocabulary = model.vocabulary().clone();
    let trie = Arc::new(TokenTrie::new(vocabulary.clone()).unwrap());
    let constraint = Arc::new(RegexConstraint::new("(0[12]){2,6}0?", trie, &Default::default()).unwrap());
    criterion.bench_function("draw/cars", |bencher| {
        let task = || Task::new(model.clone(), Arc::clone(&constraint), &vocabulary, 16);
        let mut sampler = Sampling::new(task(), Exact::cars(100_000));
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        bencher.iter(|| sampler.draw(&mut rng).unwrap());
    });
}

/// The mask of a prefix among a hundred thousand items.
fn sets(criterion: &mut Criterion) {
    let tokens = tokens();
    let vocabulary = tokens.vocabulary();
    let mut builder = SetBuilder::for_vocabulary(Arc::clone(vocabulary));
    for item in 0..100_000_u32 {
        let text = format!("item {} of {}", item % 977, item);
        builder.push(&tokens.encode_whole(&text).unwrap()).unwrap();
    }
    let (set, _) = builder.build().unwrap();
    let constraint = SetConstraint::new(Arc::new(set), vocabulary.len()).unwrap();
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let mut mask = TokenMask::new(vocabulary.len());
    for token in tokens.encode_whole("item 7").unwrap().iter().take(2) {
        constraint.advance(&mut scratch, &mut state, *token).unwrap();
    }
    criterion.bench_function("mask/set of 100,000", |bencher| {
        bencher.iter(|| constraint.fill_mask(&mut scratch, black_box(&state), mask.as_mut()));
    });
}

criterion_group!(steps, masks, draws, sets);
criterion_main!(steps);
