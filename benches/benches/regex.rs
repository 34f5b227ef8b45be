//! The regex engine: from a pattern to the first mask, a mask that is computed, and one that is cached.
//!
//! A request waits for `compile` before its first token, for `mask/computed` once per state, and for `mask/cached`
//! afterwards. `oracle` is the slow engine that masks are tested against: one run of the automaton for
//! each token of the vocabulary.

use std::{hint::black_box, sync::Arc};

use criterion::{Criterion, criterion_group, criterion_main};
use unskew_automata::{Limits, RegexConstraint};
use unskew_benches::{REGEXES, Subject, subjects};
use unskew_core::{Constraint, TokenId, TokenMask};

fn constraint(subject: &Subject, pattern: &str, limits: &Limits) -> RegexConstraint {
    RegexConstraint::new(pattern, Arc::clone(&subject.vocabulary), Arc::clone(&subject.trie), limits)
        .expect("a regex that the vocabulary can spell")
}

fn regex(criterion: &mut Criterion) {
    for subject in subjects() {
        for (name, pattern) in REGEXES {
            let mut group = criterion.benchmark_group(format!("{}/{name}", subject.name));
            group.sample_size(20);
            group.bench_function("compile", |bencher| {
                bencher.iter(|| constraint(&subject, black_box(pattern), &Limits::default()));
            });
            group.bench_function("first mask", |bencher| {
                bencher.iter(|| {
                    let constraint = constraint(&subject, black_box(pattern), &Limits::default());
                    let mut mask = TokenMask::new(constraint.vocab_len());
                    constraint.fill_mask(&mut constraint.scratch(), &constraint.start(), mask.as_mut());
                    mask
                });
            });

            // Without room for masks each one is computed again.
            let no_room = Limits { mask_cache_bytes: 0, ..Limits::default() };
            for (kind, limits) in [("computed", no_room), ("cached", Limits::default())] {
                let constraint = constraint(&subject, pattern, &limits);
                let (mut scratch, state) = (constraint.scratch(), constraint.start());
                let mut mask = TokenMask::new(constraint.vocab_len());
                group.bench_function(format!("mask/{kind}"), |bencher| {
                    bencher.iter(|| constraint.fill_mask(&mut scratch, black_box(&state), mask.as_mut()));
                });
            }
            let constraint = constraint(&subject, pattern, &Limits::default());
            let (mut scratch, state) = (constraint.scratch(), constraint.start());
            group.bench_function("oracle", |bencher| {
                bencher.iter(|| {
                    (0..constraint.vocab_len())
                        .filter(|index| {
                            constraint.allows(&mut scratch, black_box(&state), TokenId::from_index(*index))
                        })
                        .count()
                });
            });
        }
    }
}

criterion_group!(benches, regex);
criterion_main!(benches);
