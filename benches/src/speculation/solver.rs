//! The time to find the optimum, beside the published algorithm with its loop corrected.

use std::{fmt::Write as _, hint::black_box};

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use unskew_samplers::speculative::{KullbackLeibler, Pair, Selection, optimum};

use super::{
    pairs::language_pair,
    textbook::{Reading, Sorted},
};
use crate::{clock::Moment, record::figures::thousands};

const LENGTHS: [usize; 3] = [32_000, 128_000, 256_000];
const BUDGETS: [f64; 6] = [0.02, 0.05, 0.1, 0.15, 0.2, 0.5];
/// How steeply logits fall with the logarithm of the rank, and the noise of the draft: from good drafts of a flat
/// target to bad ones of a steep one.
const SHAPES: [(f64, f64); 4] = [(1.0, 0.7), (1.2, 1.0), (1.5, 1.0), (1.5, 2.0)];
const TOLERANCE: f64 = 0.05;

/// The median, the 99th percentile and the greatest of some times in nanoseconds.
#[derive(Default)]
struct Times(Vec<u64>);

impl Times {
    fn add<T>(&mut self, run: impl FnOnce() -> T) -> T {
        let begin = Moment::now();
        let result = black_box(run());
        self.0.push(begin.ns());
        result
    }

    fn at(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted[rank.clamp(1, sorted.len()) - 1] as f64 / 1e3
    }

    fn row(&self) -> String {
        [0.5, 0.99, 1.0].map(|share| thousands(self.at(share), 0)).join(" | ")
    }
}

fn softmax(logits: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let greatest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let normalizer = greatest + logits.iter().map(|logit| (logit - greatest).exp()).sum::<f64>().ln();
    let logs: Vec<f64> = logits.iter().map(|logit| logit - normalizer).collect();
    (logs.iter().map(|log| log.exp()).collect(), logs)
}

pub(super) fn report(pairs: u32) -> String {
    let mut out = format!(
        "## The solver\n\nMicroseconds of CPU time on one core for one position whose draft is not within the budget (elsewhere no \
         solver runs). Targets fall like a power of the rank with noise, drafts are targets with more noise, in four shapes; {pairs} \
         pairs of each shape, budgets {BUDGETS:?}. The published algorithm sorts, takes sums and halves, its loop corrected, to a \
         tolerance of {TOLERANCE}; ours has none. Times begin with probabilities, and for `selection` with the logarithms of their \
         ratios too, which are differences of logits; `selection, from probabilities` takes those logarithms as well.\n\n\
         | outcomes | solver | solves | p50 | p99 | max | published / this, p50 |\n|--:|---|--:|--:|--:|--:|--:|\n"
    );
    let mut selection = Selection::new();
    for len in LENGTHS {
        let mut times: [Times; 4] = Default::default();
        let mut rng = ChaCha8Rng::seed_from_u64(len as u64);
        let mut within = 0;
        for (steep, apart) in SHAPES {
            for _ in 0..pairs {
                let [draft, target] =
                    language_pair(len, steep, apart, &mut rng).map(|logits| softmax(&logits));
                let ratios: Vec<f64> = target.1.iter().zip(&draft.1).map(|(q, p)| q - p).collect();
                let own: f64 = target.0.iter().zip(&ratios).map(|(q, ratio)| q * ratio).sum();
                let pair = Pair::new(&draft.0, &target.0).expect("two distributions");
                let with = pair.with_log_ratios(&ratios).expect("of the same length");
                for budget in BUDGETS {
                    if own <= budget {
                        within += 1;
                        continue;
                    }
                    let f = &KullbackLeibler;
                    let found = times[0].add(|| selection.optimum(&with, f, budget)).expect("a budget");
                    times[1].add(|| selection.optimum(&pair, f, budget)).expect("a budget");
                    // The slow ones take turns with the budgets, which make no difference to them.
                    if times[0].0.len().is_multiple_of(3) {
                        let sorted = times[2].add(|| optimum(&pair, f, budget)).expect("a budget");
                        assert!(
                            (sorted.rejection() - found.rejection()).abs() < 1e-9,
                            "{sorted:?} {found:?}"
                        );
                        let textbook = times[3].add(|| {
                            let sorted = Sorted::new(&draft.0, &target.0);
                            sorted.search(budget, TOLERANCE, Reading::Corrected, 1_000)
                        });
                        let textbook = textbook.expect("it ends without zeros");
                        let next = sorted.rejection() - textbook.rejection;
                        assert!(next.abs() < 0.05, "{sorted:?} {textbook:?}");
                    }
                }
            }
        }
        let names = ["selection", "selection, from probabilities", "one sort, exact", "published, corrected"];
        for (name, own) in names.into_iter().zip(&times) {
            let _ = writeln!(
                out,
                "| {} | {name} | {} | {} | {:.1} |",
                thousands(len as f64, 0),
                own.0.len(),
                own.row(),
                times[3].at(0.5) / own.at(0.5),
            );
        }
        let _ = writeln!(out, "| | (within the budget at once) | {within} | | | | |");
    }
    out + "\n"
}
