//! The distribution of a sampler: its outputs against the exact distribution, by Pearson's chi-square test.

use std::collections::HashMap;

use rand_core::Rng;

use super::ConformanceError;
use crate::{ExactDistribution, Finish, Sampler, TokenId};

/// Cells with a smaller expected count are pooled: the chi-square distribution is an approximation for large counts.
const SMALLEST_EXPECTED: f64 = 5.0;

/// A sampler is refused beyond this many standard deviations: about one in 30,000 correct samplers is.
const MAX_DEVIATION: f64 = 4.0;

/// The fit of counts to a distribution.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fit {
    /// Pearson's statistic: the sum of `(observed - expected)^2 / expected` over the cells.
    pub statistic: f64,
    /// The number of cells, less one.
    pub degrees_of_freedom: usize,
    /// The statistic as standard deviations of a normal distribution, by Wilson and Hilferty's cube root (1931): 0 is
    /// the middle, and chance passes 4 about once in 30,000 times.
    pub deviation: f64,
}

/// Pearson's chi-square test of `observed` counts against `probabilities`, which should sum to one. Cells whose
/// expected count is below 5 are pooled into one.
///
/// A count in a cell of probability zero makes the statistic infinite. With fewer than two cells after pooling there
/// is nothing to test, and the deviation is 0.
pub fn chi_square(cells: impl IntoIterator<Item = (u64, f64)>) -> Fit {
    let cells: Vec<_> = cells.into_iter().collect();
    let total: u64 = cells.iter().map(|(observed, _)| observed).sum();
    let total = to_f64(total);
    let mut pooled = (0.0, 0.0);
    let mut used = 0;
    let mut statistic = 0.0;
    let mut add = |observed: f64, expected: f64| {
        used += 1;
        statistic += (observed - expected).powi(2) / expected;
    };
    let mut impossible = false;
    for (observed, probability) in cells {
        let (observed, expected) = (to_f64(observed), probability * total);
        impossible |= observed > 0.0 && expected <= 0.0;
        if expected < SMALLEST_EXPECTED {
            pooled.0 += observed;
            pooled.1 += expected;
        } else {
            add(observed, expected);
        }
    }
    if pooled.1 > 0.0 {
        add(pooled.0, pooled.1);
    }
    if impossible {
        return Fit { statistic: f64::INFINITY, degrees_of_freedom: used, deviation: f64::INFINITY };
    }
    let Some(degrees_of_freedom) = used.checked_sub(1).filter(|degrees| *degrees > 0) else {
        return Fit { statistic, degrees_of_freedom: 0, deviation: 0.0 };
    };
    let spread = 2.0 / (9.0 * to_f64(degrees_of_freedom as u64));
    let root = (statistic / to_f64(degrees_of_freedom as u64)).cbrt();
    Fit { statistic, degrees_of_freedom, deviation: (root - (1.0 - spread)) / spread.sqrt() }
}

#[allow(clippy::cast_precision_loss, reason = "counts of draws are far below 2^52")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

/// The number of draws that are asked for together.
const TOGETHER: usize = 50;

/// Draws `count` outputs and compares them with the exact distribution.
///
/// # Errors
///
/// When the sampler fails, when it returns an output of probability zero or one cut off by the length limit, when it
/// states a wrong log-probability, or when its counts deviate by more than 4 standard deviations. The generator
/// decides which outputs are drawn: with a fixed seed, the check either always holds or never does.
pub fn check_sampler<S: Sampler + ?Sized>(
    sampler: &mut S,
    distribution: &ExactDistribution,
    count: usize,
    rng: &mut dyn Rng,
) -> Result<Fit, ConformanceError> {
    let mut counts: HashMap<Vec<TokenId>, u64> = HashMap::new();
    let mut draws = Vec::new();
    for index in 0..count {
        if draws.is_empty() {
            // One draw alone first, and then some together.
            let many = if index == 0 { 1 } else { TOGETHER.min(count - index) };
            let drawn = sampler.draw_many(many, rng, &mut draws);
            drawn.map_err(|error| ConformanceError::new("a sampler draws", error.to_string()))?;
            draws.reverse();
        }
        let Some(draw) = draws.pop() else {
            return Err(ConformanceError::new("a sampler draws", "fewer outputs than were asked for"));
        };
        let probability = distribution.probability(&draw.tokens);
        if draw.finish != Finish::Stop || probability == 0.0 {
            let detail = format!("{:?} ended by {:?}", draw.tokens, draw.finish);
            return Err(ConformanceError::new("every output has a positive probability", detail));
        }
        // The draw's probability is the model's own, before the condition that the constraint accepts.
        if (draw.log_prob - (probability * distribution.mass()).ln()).abs() > 1e-3 {
            let detail = format!(
                "{:?}: {} instead of {}",
                draw.tokens,
                draw.log_prob,
                (probability * distribution.mass()).ln()
            );
            return Err(ConformanceError::new("the log-probability is the model's own", detail));
        }
        *counts.entry(draw.tokens).or_default() += 1;
    }
    let fit = chi_square(
        distribution
            .iter()
            .map(|(output, probability)| (counts.get(output).copied().unwrap_or(0), probability)),
    );
    if fit.deviation > MAX_DEVIATION {
        return Err(ConformanceError::new("the outputs follow the exact distribution", format!("{fit:?}")));
    }
    Ok(fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statistic_and_its_deviation() {
        // 100 throws of a die: the squared deviations from 16.67 add up to 103.3, and 103.3 / 16.67 is 6.2.
        let counts = [22, 14, 18, 10, 21, 15];
        let fit = chi_square(counts.map(|count| (count, 1.0 / 6.0)));
        assert!((fit.statistic - 6.2).abs() < 0.01, "{fit:?}");
        assert_eq!(fit.degrees_of_freedom, 5);
        // The upper tail of 6.2 with 5 degrees of freedom is 0.287, which is 0.562 standard deviations.
        assert!((fit.deviation - 0.562).abs() < 0.02, "{fit:?}");
    }

    #[test]
    fn rare_cells_are_pooled_and_impossible_ones_are_not_excused() {
        let fit = chi_square([(96, 0.96), (1, 0.01), (2, 0.02), (1, 0.01)]);
        assert_eq!(fit.degrees_of_freedom, 1);
        assert!(chi_square([(99, 1.0), (1, 0.0)]).deviation.is_infinite());
        assert_eq!(chi_square([(10, 1.0)]).deviation, 0.0);
    }

    #[test]
    fn a_small_bias_shows_at_many_draws() {
        let counts = |n: u64| [(n * 52 / 100, 0.5), (n * 48 / 100, 0.5)];
        assert!(chi_square(counts(1_000)).deviation < MAX_DEVIATION);
        assert!(chi_square(counts(100_000)).deviation > MAX_DEVIATION);
    }
}
