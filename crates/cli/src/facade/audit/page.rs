//! From the outputs of an audit to its report.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use unskew_core::{Finish, TokenId};
use unskew_samplers::{Task, trace};

use super::{
    super::{Ended, Method, Result, engine::WarpedModel},
    Asked, Audit, Sampled,
    measure::{LISTED, by_text, distances, finished, shares, to_f64},
    report::{Curve, Outcome, Page, Point, Traced, TracedStep},
};

/// How many of the last outputs a point of a curve is made of, as in the paper.
const WINDOW: usize = 500;

/// The points of a curve.
const POINTS: usize = 60;

/// The outputs that the report shows token by token.
const TRACED: usize = 6;

/// Distance against cost: a point is the last outputs up to there, a window's worth.
fn curve(sampled: &Sampled, target: &BTreeMap<&[TokenId], f64>) -> Curve {
    let mut points = Vec::new();
    let mut window: VecDeque<&[TokenId]> = VecDeque::new();
    let (mut positions, mut proposals) = (0, 0);
    let many = sampled.outputs.len();
    let mut next = 1.0;
    for (index, draw) in sampled.outputs.iter().enumerate() {
        positions += draw.cost.positions;
        proposals += draw.cost.proposals;
        if draw.finish == Finish::Stop {
            window.push_back(&draw.ids);
        }
        if window.len() > WINDOW {
            window.pop_front();
        }
        // At equal ratios, since both axes are logarithmic.
        let place = to_f64(index as u64 + 1);
        if (place >= next || index + 1 == many) && !window.is_empty() {
            next = (place * (to_f64(many as u64).ln() / to_f64(POINTS as u64)).exp()).max(place + 1.0);
            let shares = shares(window.iter().map(|output| (*output, 1.0)));
            let (kl, _) = distances(&shares, target);
            points.push(Point { positions: to_f64(positions), proposals: to_f64(proposals), kl });
        }
    }
    Curve { sampler: sampled.label.clone(), points }
}

/// The texts that are probable or often drawn, and the others together.
fn outcomes(audit: &Audit<'_>) -> Vec<Outcome> {
    let Audit { sampled, tokens, .. } = audit;
    let target = audit.texts();
    let unseen = (1.0 - target.values().sum::<f64>()).max(0.0);
    let drawn: Vec<BTreeMap<String, f64>> = sampled
        .iter()
        .map(|drawn| {
            let kept = finished(&drawn.outputs).map(|draw| (draw.ids.as_slice(), 1.0));
            by_text(shares(kept), tokens)
        })
        .collect();
    let of = |texts: &BTreeMap<String, f64>, text: &str| texts.get(text).copied().unwrap_or(0.0);
    let all: BTreeSet<&String> = drawn.iter().flat_map(BTreeMap::keys).chain(target.keys()).collect();
    let outcome = |text: &String| Outcome {
        text: Some(text.clone()),
        target: of(&target, text),
        shares: drawn.iter().map(|texts| of(texts, text)).collect(),
    };
    let mut outcomes: Vec<Outcome> = all.into_iter().map(outcome).collect();
    let most = |outcome: &Outcome| outcome.shares.iter().copied().fold(outcome.target, f64::max);
    outcomes.sort_by(|left, right| most(right).total_cmp(&most(left)));
    let others = outcomes.split_off(outcomes.len().min(LISTED));
    if !others.is_empty() || unseen > 1e-3 {
        let sum = |of: &dyn Fn(&Outcome) -> f64| others.iter().map(of).sum::<f64>();
        let shares = (0..drawn.len()).map(|at| sum(&|outcome| outcome.shares[at])).collect();
        outcomes.push(Outcome { text: None, target: sum(&|outcome| outcome.target) + unseen, shares });
    }
    outcomes
}

/// The report. `task` is the one that its outputs were drawn for.
pub(super) fn page(audit: &Audit<'_>, asked: Asked<'_>, mut task: Task<WarpedModel, Ended>) -> Result<Page> {
    let Audit { sampled, exact, target, tokens, .. } = audit;
    let share = |drawn: &Sampled, output: &[TokenId]| {
        let all = finished(&drawn.outputs).count();
        let same = finished(&drawn.outputs).filter(|draw| draw.ids == output).count();
        to_f64(same as u64) / to_f64(all as u64).max(1.0)
    };
    // Outputs that are probable under the target or often drawn by any sampler.
    let mut outputs = audit.target();
    for drawn in *sampled {
        let kept = finished(&drawn.outputs).map(|draw| (draw.ids.as_slice(), 1.0));
        for (output, share) in shares(kept) {
            let most = outputs.entry(output).or_default();
            *most = most.max(share);
        }
    }
    let mut order: Vec<(&[TokenId], f64)> = outputs.into_iter().collect();
    order.sort_by(|left, right| right.1.total_cmp(&left.1));
    let outcomes = outcomes(audit);
    // Token by token: where the first sampler, masked if it is there, is furthest from the target.
    let skewed = sampled.iter().find(|drawn| drawn.method == Method::Masked).or(sampled.first());
    let mut traced = Vec::new();
    if let Some(skewed) = skewed {
        let of = |output: &[TokenId]| target.get(output).copied().unwrap_or(0.0);
        let difference = |output: &[TokenId]| (share(skewed, output) - of(output)).abs();
        let mut far: Vec<(&[TokenId], f64)> =
            order.iter().take(200).map(|(output, _)| (*output, difference(output))).collect();
        far.sort_by(|left, right| right.1.total_cmp(&left.1));
        for (output, _) in far.into_iter().take(TRACED) {
            let steps = trace(&mut task, output)?;
            let steps = steps.into_iter().map(|step| {
                let text = step.token.map(|token| tokens.decode(&[token]));
                let instead = step.instead.map(|(token, log_p)| (tokens.decode(&[token]), log_p.exp()));
                TracedStep { text, p: step.log_prob.exp(), log_mass: step.log_mass, instead }
            });
            traced.push(Traced {
                text: tokens.decode(output),
                target: of(output),
                drawn: share(skewed, output),
                steps: steps.collect(),
            });
        }
    }
    Ok(Page {
        constraint: asked.constraint.to_owned(),
        prompt: asked.prompt.to_owned(),
        seed: asked.seed,
        samples: asked.samples,
        window: WINDOW,
        mass: audit.mass(),
        is_exact: exact.is_some(),
        outputs: target.len(),
        curves: {
            let target = audit.target();
            sampled.iter().map(|drawn| curve(drawn, &target)).collect()
        },
        lines: audit.lines(),
        outcomes,
        skewed: skewed.map_or(String::new(), |drawn| drawn.label.clone()),
        traced,
    })
}
