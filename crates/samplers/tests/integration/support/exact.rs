//! The distributions of samplers that are not exact, by enumeration. They are written from the definitions, without
//! any code of the samplers.

use std::collections::BTreeMap;

use unskew_core::{TableModel, TokenId};

use crate::support::Outputs;

pub(crate) type Distribution = BTreeMap<Vec<TokenId>, f64>;

/// The outcomes that the mask allows after a prefix, with the model's probabilities; `None` is the end.
pub(crate) fn masked(
    model: &TableModel,
    constraint: &Outputs,
    prefix: &[TokenId],
) -> Vec<(Option<TokenId>, f64)> {
    let row = model.row(prefix);
    let mut next = Vec::new();
    if constraint.outputs.contains(prefix) {
        next.push((None, row[row.len() - 1]));
    }
    for (id, probability) in row[..row.len() - 1].iter().enumerate() {
        let longer = [prefix, &[TokenId::from_index(id)]].concat();
        if constraint.outputs.iter().any(|output| output.starts_with(&longer)) {
            next.push((Some(TokenId::from_index(id)), *probability));
        }
    }
    next
}

/// c~ after the samples `seen` (GAD, section 3.1).
fn future(model: &TableModel, constraint: &Outputs, seen: &[Vec<TokenId>], prefix: &[TokenId]) -> f64 {
    if !seen.iter().any(|output| output.starts_with(prefix)) {
        return 1.0;
    }
    masked(model, constraint, prefix)
        .into_iter()
        .map(|(next, probability)| match next {
            None => probability,
            Some(_) if probability == 0.0 => 0.0,
            Some(token) => probability * future(model, constraint, seen, &[prefix, &[token]].concat()),
        })
        .sum()
}

/// The distribution of ASAp's next output after the samples `seen`, with the dead ends that it runs into.
fn asap_next(
    model: &TableModel,
    constraint: &Outputs,
    seen: &[Vec<TokenId>],
) -> (Distribution, Distribution) {
    let (mut outputs, mut dead) = (Distribution::new(), Distribution::new());
    let mut open = vec![(Vec::new(), 1.0)];
    while let Some((prefix, probability)) = open.pop() {
        let next: Vec<_> = masked(model, constraint, &prefix)
            .into_iter()
            .map(|(next, p)| match next {
                None => (prefix.clone(), true, p),
                Some(token) => {
                    let longer = [&prefix[..], &[token]].concat();
                    let p = if p > 0.0 { p * future(model, constraint, seen, &longer) } else { 0.0 };
                    (longer, false, p)
                }
            })
            .collect();
        let total: f64 = next.iter().map(|(_, _, p)| p).sum();
        if total <= 0.0 {
            dead.insert(prefix, probability);
            continue;
        }
        for (longer, ends, p) in next {
            if p > 0.0 && ends {
                outputs.insert(longer, probability * p / total);
            } else if p > 0.0 {
                open.push((longer, probability * p / total));
            }
        }
    }
    (outputs, dead)
}

/// The distribution of ASAp's output number `iteration`, counted from 0: over all histories of outputs and dead ends.
pub(crate) fn asap(model: &TableModel, constraint: &Outputs, iteration: usize) -> Distribution {
    let mut distribution = Distribution::new();
    let mut open = vec![(Vec::new(), iteration, 1.0)];
    while let Some((seen, left, probability)) = open.pop() {
        let (outputs, dead) = asap_next(model, constraint, &seen);
        for (end, p) in dead {
            open.push(([&seen[..], &[end]].concat(), left, probability * p));
        }
        for (output, p) in outputs {
            if left == 0 {
                *distribution.entry(output).or_default() += probability * p;
            } else {
                open.push(([&seen[..], &[output]].concat(), left - 1, probability * p));
            }
        }
    }
    distribution
}

/// An output's probability under the model; for each of its steps, the probability under masked sampling, and the
/// entropy of that step.
pub(crate) fn steps(
    model: &TableModel,
    constraint: &Outputs,
    output: &[TokenId],
) -> (f64, Vec<f64>, Vec<f64>) {
    let (mut probability, mut proposed, mut entropies) = (1.0, Vec::new(), Vec::new());
    for cut in 0..=output.len() {
        let next = masked(model, constraint, &output[..cut]);
        let total: f64 = next.iter().map(|(_, p)| p).sum();
        let wanted = output.get(cut).copied();
        let p = next.iter().find(|(next, _)| *next == wanted).map_or(0.0, |(_, p)| *p);
        probability *= p;
        proposed.push(if total > 0.0 { p / total } else { 0.0 });
        entropies
            .push(next.iter().map(|(_, p)| p / total).filter(|p| *p > 0.0).map(|p| -p * p.ln()).sum::<f64>());
    }
    (probability, proposed, entropies)
}
