//! A set on an adapter beside the same set on the CPU: steps, candidates and masks for batches of sequences.
//!
//! Each call on the device is an upload, a dispatch and a read-back, as a caller without logits on the device makes
//! it. The CPU answers on one thread. The answers are compared before anything is timed.

use std::{fmt::Write, hint::black_box, sync::Arc, time::Instant};

use unskew_core::{Constraint, MaskBatch, TokenId};
use unskew_sets::{Gpu, GpuSet, Interval, SetConstraint, SetState};

use crate::{
    clock::Moment,
    record::figures::distribution,
    sets::{
        set_of,
        titles::{Titles, VOCAB},
    },
};

/// Candidates of each sequence, as in the publication.
const CANDIDATES: usize = 50;
/// Rounds that are not counted.
const WARM: usize = 3;

/// The positions of some sequences on both sides, with their candidates and next tokens.
struct Batch {
    states: Vec<SetState>,
    intervals: Vec<Interval>,
    candidates: Vec<TokenId>,
    next: Vec<TokenId>,
}

impl Batch {
    /// Prefixes of random titles at random depths. One of the candidates is the title's own next token.
    fn new(len: usize, titles: &[Vec<u32>], source: &mut Titles, cpu: &SetConstraint) -> Self {
        let (mut states, mut intervals, mut candidates, mut next) =
            <(Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
        for _ in 0..len {
            let title = &titles[source.below(titles.len())];
            let depth = source.below(title.len());
            let mut state = cpu.start();
            for token in &title[..depth] {
                cpu.advance(&mut (), &mut state, TokenId(*token)).expect("a prefix of an item");
            }
            intervals.push(Interval::from(state.cursor().expect("a prefix of an item")));
            states.push(state);
            next.push(TokenId(title[depth]));
            candidates.push(TokenId(title[depth]));
            candidates.extend((1..CANDIDATES).map(|_| TokenId(source.token())));
        }
        Self { states, intervals, candidates, next }
    }
}

/// Nanoseconds on the wall of `run`.
fn time<T>(run: impl FnOnce() -> T) -> (u64, T) {
    let begin = Moment::Wall(Instant::now());
    let done = black_box(run());
    (begin.ns(), done)
}

/// A set of `size` titles.
#[allow(clippy::print_stderr, reason = "a program that reports")]
pub(super) fn report(
    gpu: &Arc<Gpu>,
    size: usize,
    batches: &[usize],
    rounds: usize,
) -> Result<String, String> {
    eprintln!("{size} titles");
    let mut source = Titles::new(size as u64);
    let titles = source.set(size);
    let set = set_of(&titles);
    let (upload, on_gpu) = time(|| GpuSet::new(Arc::clone(gpu), &set, VOCAB));
    let on_gpu = on_gpu.map_err(|error| error.to_string())?;
    let bytes = set.as_bytes().len();
    let cpu = SetConstraint::new(Arc::new(set), VOCAB).map_err(|error| error.to_string())?;
    let mut out = format!(
        "\n## A set of {size} titles\n\n\
         {bytes} bytes, uploaded with its checksums in {:.1} ms. Microseconds on the wall; masks of {VOCAB} bits; {CANDIDATES} \
         candidates a sequence; {rounds} rounds after {WARM} that are not counted. The device: upload, dispatch and read-back. The \
         CPU: one thread.\n\n\
         | sequences | kernel | on | n | mean | p50 | p90 | p99 | p99.9 | max |\n\
         |--:|---|---|--:|--:|--:|--:|--:|--:|--:|\n",
        upload as f64 / 1e6
    );
    for len in batches {
        let mut times: [[Vec<u64>; 2]; 3] = Default::default();
        for round in 0..WARM + rounds {
            let batch = Batch::new(*len, &titles, &mut source, &cpu);
            let made =
                [step(&batch, &on_gpu, &cpu)?, verify(&batch, &on_gpu, &cpu)?, masks(&batch, &on_gpu, &cpu)?];
            if round >= WARM {
                for (times, made) in times.iter_mut().zip(made) {
                    times.iter_mut().zip(made).for_each(|(times, ns)| times.push(ns));
                }
            }
        }
        for (kernel, mut times) in ["step", "candidates", "masks"].into_iter().zip(times) {
            for (name, times) in ["device", "cpu"].into_iter().zip(&mut times) {
                times.sort_unstable();
                let _ = writeln!(out, "| {len} | {kernel} | {name} | {} |", distribution(times, 1e3));
            }
        }
    }
    Ok(out)
}

/// The times of a step, on the device and on the CPU.
fn step(batch: &Batch, gpu: &GpuSet, cpu: &SetConstraint) -> Result<[u64; 2], String> {
    let (mut intervals, mut states) = (batch.intervals.clone(), batch.states.clone());
    let (on_gpu, done) = time(|| gpu.step(&mut intervals, &batch.next));
    done.map_err(|error| error.to_string())?;
    let (on_cpu, ()) = time(|| {
        for (state, token) in states.iter_mut().zip(&batch.next) {
            cpu.advance(&mut (), state, *token).expect("a token of the item");
        }
    });
    let expected = states.iter().map(|state| state.cursor().map(Interval::from));
    assert!(expected.eq(intervals.into_iter().map(Some)), "steps differ");
    Ok([on_gpu, on_cpu])
}

/// The times of the verification of all candidates.
fn verify(batch: &Batch, gpu: &GpuSet, cpu: &SetConstraint) -> Result<[u64; 2], String> {
    let (on_gpu, answers) = time(|| gpu.candidates(&batch.intervals, &batch.candidates));
    let mut valid = vec![false; batch.candidates.len()];
    let mut states = batch.states.iter();
    let (on_cpu, ()) = time(|| cpu.verify(&mut (), &mut states, CANDIDATES, &batch.candidates, &mut valid));
    assert!(answers.map_err(|error| error.to_string())? == valid, "candidates differ");
    Ok([on_gpu, on_cpu])
}

/// The times of the masks of all sequences.
fn masks(batch: &Batch, gpu: &GpuSet, cpu: &SetConstraint) -> Result<[u64; 2], String> {
    let (on_gpu, made) = time(|| gpu.masks(&batch.intervals));
    let mut expected = MaskBatch::new(batch.states.len(), VOCAB);
    let (on_cpu, ()) = time(|| cpu.fill_masks(&mut (), &mut batch.states.iter(), &mut expected));
    let made = made.map_err(|error| error.to_string())?;
    assert!((0..batch.states.len()).all(|row| made.row(row) == expected.row(row)), "masks differ");
    Ok([on_gpu, on_cpu])
}
