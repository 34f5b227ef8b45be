//! `unskew audit`: how far samplers are from the model's own distribution under a constraint, and what they cost.
//!
//! For a table model the law is enumerated, and the distances are from it. For others nobody knows it; they are then those
//! of grammar-aligned decoding (section 5): from the model's probabilities on all outputs that were observed, of any sampler,
//! normalised. Small samples have a distance from any law, their own too: `kl_noise` says how much is to be expected of that.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io::{IsTerminal, Write},
};

use indicatif::{ProgressBar, ProgressStyle};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde::Serialize;
use unskew::{
    core::{AnyConstraint, Constraint, Draw, ExactLaw, Finish, Sampler, TokenId},
    grammars::GrammarConstraint,
    samplers::{Task, Truncation, Warped, trace},
};

use super::{
    generate::{any_seed, describe, max_tokens},
    report::{self, Curve, Outcome, Page, Point, Traced},
    write_json,
};
use crate::{
    any_model::AnyModel,
    args::{AuditArgs, Format, ModelChoice, SamplerKind},
    error::{Failure, Result},
    inputs, interrupt,
    load::{self, Tokens},
    plain::say,
    samplers::{boxed, choose},
    speculate::{Like, Made, Total},
};

/// How many of the last outputs a point of a curve is made of, as in the paper.
const WINDOW: usize = 500;

/// The most prefixes of outputs that are looked at for the exact law, where the user says nothing.
const MAX_PREFIXES: usize = 200_000;

/// The points of a curve.
const POINTS: usize = 60;

/// The outputs that the report shows token by token, and (below) those that it compares.
const TRACED: usize = 6;
const COMPARED: usize = 16;

type Model = Warped<AnyModel>;
type Law = BTreeMap<Vec<TokenId>, f64>;

/// What was found about one sampler, as a line of JSON.
#[derive(Clone, Serialize)]
pub(super) struct Line {
    pub(super) sampler: &'static str,
    /// What its outputs should follow.
    pub(super) law: &'static str,
    /// What the distances are from: `exact` or `observed`.
    pub(super) basis: &'static str,
    /// Outputs, those that were cut off at the length limit not counted.
    pub(super) samples: usize,
    pub(super) cut: usize,
    /// The divergence of the outputs' frequencies from the target, in nats.
    pub(super) kl: Option<f64>,
    /// What an exact sampler's would be for so few outputs, about.
    pub(super) kl_noise: f64,
    /// The total variation between them.
    pub(super) tv: Option<f64>,
    /// The same with the outputs' weights, where they have any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kl_weighted: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tv_weighted: Option<f64>,
    pub(super) lm_calls_per_sample: f64,
    pub(super) lm_passes_per_sample: f64,
    /// Outputs for each proposal.
    pub(super) acceptance: f64,
    /// The number of independent outputs that the weights are worth.
    pub(super) ess: f64,
    pub(super) mean_logprob: f64,
    pub(super) mean_logprob_se: f64,
    #[serde(flatten)]
    pub(super) speculation: Option<Speculated>,
    /// Why it has fewer outputs than were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exact: Option<BTreeMap<String, f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) empirical: Option<BTreeMap<String, f64>>,
}

/// What drafts have come to, in a line of JSON.
#[derive(Clone, Serialize)]
pub(super) struct Speculated {
    /// Of the drafts that the model was asked about, the share that was accepted.
    pub(super) draft_acceptance: f64,
    pub(super) tokens_per_pass: f64,
    /// In nats, over all outputs.
    pub(super) kl_spent: f64,
    pub(super) kl_allowed: f64,
}

/// The outputs of one sampler.
struct Drawn {
    kind: SamplerKind,
    speculation: Option<Total>,
    draws: Vec<Draw>,
    error: Option<String>,
}

/// Makes a sampler that drafts.
type Drafting<'d, C> = &'d dyn for<'t> Fn(SamplerKind, Task<&'t mut Model, &'t C>) -> Result<Made<'t>>;

pub(crate) fn audit(args: &AuditArgs, out: &mut dyn Write) -> Result<()> {
    if args.samplers.contains(&SamplerKind::Auto) {
        return Err(Failure::input("--samplers names samplers; auto is the choice of one of them"));
    }
    args.options.check(&args.samplers)?;
    args.speculation.check_audit(&args.samplers)?;
    if args.max_prefixes.is_some() && !matches!(args.model.model, ModelChoice::Table(_)) {
        return Err(Failure::input(
            "--max-prefixes bounds the search for the exact law, which only a table model has; leave it out, or give --model \
             table:FILE",
        ));
    }
    let counted = args.speculation.counted(&args.constraint)?;
    // The page is written at the end of what may be minutes: see now whether it can be.
    if let Some(path) = &args.out {
        let draft = inputs::of_draft(args.speculation.draft_model.as_ref());
        let read = [inputs::of_model(&args.model), inputs::of_constraint(&args.constraint), draft];
        inputs::check_output(path, &read.concat())?;
    }
    let (model, tokens) = load::model(&args.model)?;
    let before = choose(args.samplers[0], &args.options, false, 1)?.before;
    // Counts need the grammar itself.
    if let Some(path) = counted {
        let constraint = load::grammar_constraint(path, &args.constraint, &tokens, "")?;
        let drafting: Drafting<'_, GrammarConstraint> =
            &|kind, task| args.speculation.counting(kind, &args.options, task);
        return audit_of(args, model, before, &tokens, &constraint, drafting, out);
    }
    let constraint = load::constraint(&args.constraint, &tokens, "")?;
    let like = Like { tokens: &tokens, temperature: args.options.temperature, truncation: before };
    let drafting: Drafting<'_, AnyConstraint> =
        &|kind, task| args.speculation.sampler(kind, &args.options, task, like);
    audit_of(args, model, before, &tokens, &constraint, drafting, out)
}

/// The audit of a model under a constraint.
#[allow(clippy::too_many_arguments, reason = "all that an audit is of")]
fn audit_of<C: Constraint>(
    args: &AuditArgs,
    model: AnyModel,
    before: Option<Truncation>,
    tokens: &Tokens,
    constraint: &C,
    drafting: Drafting<'_, C>,
    out: &mut dyn Write,
) -> Result<()> {
    let prompt = tokens.encode_prompt(&args.prompt)?;
    if prompt.is_empty() && matches!(model, AnyModel::Llama(_)) {
        return Err(Failure::input("this model names no token that begins a text; give a --prompt"));
    }
    let max_tokens = max_tokens(args.max_tokens, &model, &prompt)?;
    let enumerable = matches!(model, AnyModel::Table(_));
    let mut model =
        Warped::new(model, args.options.temperature, before).map_err(|error| Failure::bad(&error))?;
    let seed = args.seed.unwrap_or_else(any_seed);
    say(format_args!(
        "{}; {} samples of each sampler, seed {seed}",
        describe(&args.constraint),
        args.samples
    ));

    let end = tokens.vocabulary.end_of_sequence().to_vec();
    let exact = if enumerable {
        let limit = args.max_prefixes.unwrap_or(MAX_PREFIXES);
        let law = ExactLaw::enumerate(&mut model, constraint, &prompt, &end, max_tokens, limit);
        match law {
            Ok(law) => Some(law),
            Err(error) => {
                say(format_args!("warning: {error}; the distances are from what was observed"));
                None
            }
        }
    } else {
        None
    };
    let mut drawn = Vec::new();
    let cancel = interrupt::watch()?;
    for kind in &args.samplers {
        let task = task(&mut model, constraint, tokens, &prompt, max_tokens);
        let task = Task { batch: args.options.batch.get(), cancel: cancel.clone(), ..task };
        drawn.push(draw(args, *kind, seed, task, drafting)?);
        if cancel.is_cancelled() {
            break;
        }
    }
    let target = match &exact {
        Some(law) => law.iter().map(|(output, p)| (output.to_vec(), p)).collect(),
        None => observed(&drawn),
    };
    let basis = if exact.is_some() { "exact" } else { "observed" };
    let lines: Vec<Line> = drawn.iter().map(|drawn| line(drawn, &target, basis, tokens)).collect();
    match args.format {
        Format::Jsonl => lines.iter().try_for_each(|line| write_json(line, out))?,
        Format::Text => table(&lines, exact.as_ref(), out)?,
    }
    if let Some(path) = &args.out {
        let task = task(&mut model, constraint, tokens, &prompt, max_tokens);
        let page = describe_page(args, seed, exact.as_ref(), &target, &drawn, lines, tokens, task)?;
        unskew_files::write(path, report::html(&page).as_bytes()).map_err(|error| Failure::bad(&error))?;
        say(format_args!("report written to {}", path.display()));
    }
    if cancel.is_cancelled() {
        return Err(Failure::Interrupted(drawn.iter().map(|drawn| drawn.draws.len()).sum()));
    }
    Ok(())
}

fn task<'a, C: Constraint>(
    model: &'a mut Model,
    constraint: &'a C,
    tokens: &Tokens,
    prompt: &[TokenId],
    max_tokens: usize,
) -> Task<&'a mut Model, &'a C> {
    Task::new(model, constraint, &tokens.vocabulary, max_tokens).after(prompt.to_vec())
}

/// Draws what is asked of one sampler; that it gives up is a finding, not a failure.
fn draw<'a, C: Constraint>(
    args: &AuditArgs,
    kind: SamplerKind,
    seed: u64,
    task: Task<&'a mut Model, &'a C>,
    drafting: Drafting<'_, C>,
) -> Result<Drawn> {
    let choice = choose(kind, &args.options, args.constraint.is_none(), args.samples.get())?;
    let (mut sampler, tallies) = if kind.drafts() {
        let (sampler, tallies) = drafting(kind, task)?;
        (sampler, Some(tallies))
    } else {
        (boxed(&args.options, &choice, task), None)
    };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut draws = Vec::new();
    let mut error = None;
    let bar = progress(kind.name(), args.samples.get());
    if kind == SamplerKind::Asap {
        for _ in 0..args.options.asap_iterations.unwrap_or(0) {
            error = error.or(sampler.draw(&mut rng).err().map(|error| error.to_string()));
        }
    }
    while draws.len() < args.samples.get() && error.is_none() {
        let count = args.options.batch.get().min(args.samples.get() - draws.len());
        error = sampler.draw_many(count, &mut rng, &mut draws).err().map(|error| error.to_string());
        bar.set_position(draws.len() as u64);
    }
    bar.finish_and_clear();
    let speculation = tallies.map(|tallies| {
        let mut total = Total::default();
        tallies.borrow().iter().for_each(|line| total.add(line));
        total
    });
    Ok(Drawn { kind, speculation, draws, error })
}

fn progress(name: &'static str, samples: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{msg:10} {bar:40} {pos}/{len} {eta}").expect("a valid template");
    ProgressBar::new(samples as u64).with_style(style).with_message(name)
}

fn finished(draws: &[Draw]) -> impl Iterator<Item = &Draw> {
    draws.iter().filter(|draw| draw.finish == Finish::Stop)
}

/// The model's own probabilities of all outputs that any sampler gave, normalised.
fn observed(drawn: &[Drawn]) -> Law {
    let outputs: BTreeMap<&[TokenId], f64> = drawn
        .iter()
        .flat_map(|drawn| finished(&drawn.draws))
        .map(|draw| (draw.tokens.as_slice(), draw.log_prob))
        .collect();
    let greatest = outputs.values().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = outputs.values().map(|log_prob| (log_prob - greatest).exp()).sum();
    let share = |log_prob: f64| (log_prob - greatest).exp() / total;
    outputs.into_iter().map(|(output, log_prob)| (output.to_vec(), share(log_prob))).collect()
}

/// The shares of outputs by weight; a weight is that of one output.
fn shares<'a>(draws: impl Iterator<Item = (&'a [TokenId], f64)>) -> BTreeMap<&'a [TokenId], f64> {
    let mut shares: BTreeMap<&[TokenId], f64> = BTreeMap::new();
    for (output, weight) in draws {
        *shares.entry(output).or_default() += weight;
    }
    let total: f64 = shares.values().sum();
    shares.values_mut().for_each(|share| *share /= total);
    shares
}

/// The divergence of shares from a law, in nats, and their total variation.
fn distances(shares: &BTreeMap<&[TokenId], f64>, target: &Law) -> (f64, f64) {
    let of = |output: &[TokenId]| target.get(output).copied().unwrap_or(0.0);
    let kl: f64 = shares
        .iter()
        .filter(|(_, share)| **share > 0.0)
        .map(|(output, share)| share * (share / of(output)).ln())
        .sum();
    let outputs: BTreeSet<&[TokenId]> =
        shares.keys().copied().chain(target.keys().map(Vec::as_slice)).collect();
    let difference = |output: &&[TokenId]| (shares.get(output).copied().unwrap_or(0.0) - of(output)).abs();
    // Rounding must not show as a negative distance.
    (kl.max(0.0), outputs.iter().map(difference).sum::<f64>() / 2.0)
}

fn line(drawn: &Drawn, target: &Law, basis: &'static str, tokens: &Tokens) -> Line {
    let Drawn { kind, speculation, draws, error } = drawn;
    let kept: Vec<&Draw> = finished(draws).collect();
    let count = to_f64(kept.len() as u64);
    let plain = shares(kept.iter().map(|draw| (draw.tokens.as_slice(), 1.0)));
    let greatest = kept.iter().map(|draw| draw.log_weight).fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = kept.iter().map(|draw| (draw.log_weight - greatest).exp()).collect();
    let weighted = kept.iter().any(|draw| draw.log_weight != 0.0);
    let by_weight = weighted.then(|| {
        let draws = kept.iter().zip(&weights).map(|(draw, weight)| (draw.tokens.as_slice(), *weight));
        distances(&shares(draws), target)
    });
    let some = !kept.is_empty();
    let (kl, tv) = distances(&plain, target);
    let sum: f64 = weights.iter().sum();
    let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
    let mean = kept.iter().map(|draw| draw.log_prob).sum::<f64>() / count.max(1.0);
    let variance =
        kept.iter().map(|draw| (draw.log_prob - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let total = |of: fn(&Draw) -> u64| to_f64(draws.iter().map(of).sum());
    let each = to_f64(draws.len() as u64).max(1.0);
    let by_text = |law: &mut dyn Iterator<Item = (&[TokenId], f64)>| {
        let mut texts: BTreeMap<String, f64> = BTreeMap::new();
        law.for_each(|(output, p)| *texts.entry(tokens.decode(output)).or_default() += p);
        texts
    };
    let exact = basis == "exact";
    Line {
        sampler: kind.name(),
        law: kind.law(),
        basis,
        samples: kept.len(),
        cut: draws.len() - kept.len(),
        kl: some.then_some(kl),
        kl_noise: (to_f64(target.len() as u64) - 1.0) / (2.0 * count.max(1.0)),
        tv: some.then_some(tv),
        kl_weighted: by_weight.map(|(kl, _)| kl),
        tv_weighted: by_weight.map(|(_, tv)| tv),
        lm_calls_per_sample: total(|draw| draw.cost.positions) / each,
        lm_passes_per_sample: total(|draw| draw.cost.passes) / each,
        acceptance: to_f64(draws.len() as u64) / total(|draw| draw.cost.proposals).max(1.0),
        ess: if squares > 0.0 { sum * sum / squares } else { 0.0 },
        mean_logprob: mean,
        mean_logprob_se: (variance / count.max(1.0)).sqrt(),
        speculation: speculation.map(|speculated| Speculated {
            draft_acceptance: speculated.acceptance(),
            tokens_per_pass: total(|draw| draw.tokens.len() as u64) / total(|draw| draw.cost.passes).max(1.0),
            kl_spent: speculated.spent,
            kl_allowed: speculated.allowed,
        }),
        error: error.clone(),
        exact: exact.then(|| by_text(&mut target.iter().map(|(output, p)| (output.as_slice(), *p)))),
        empirical: exact.then(|| by_text(&mut plain.iter().map(|(output, p)| (*output, *p)))),
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

fn table(lines: &[Line], exact: Option<&ExactLaw>, out: &mut dyn Write) -> Result<()> {
    match exact {
        Some(law) => {
            writeln!(
                out,
                "{} outputs; the model satisfies the constraint with probability {:.3e}",
                law.len(),
                law.mass()
            )?;
        }
        None => {
            writeln!(out, "distances are from the model's probabilities of the outputs that were observed")?;
        }
    }
    writeln!(
        out,
        "{:10} {:>8} {:>9} {:>9} {:>7} {:>11} {:>10} {:>9}",
        "sampler", "samples", "KL", "(noise)", "TV", "calls each", "accepted", "ESS"
    )?;
    for line in lines {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        };
        writeln!(
            out,
            "{:10} {:>8} {:>9} {:>9.4} {:>7} {:>11.2} {:>9.1}% {:>9.1}",
            line.sampler,
            line.samples,
            number(line.kl, 4),
            line.kl_noise,
            number(line.tv, 3),
            line.lm_calls_per_sample,
            line.acceptance * 100.0,
            line.ess
        )?;
        if line.kl_weighted.is_some() {
            let (kl, tv) = (number(line.kl_weighted, 4), number(line.tv_weighted, 3));
            writeln!(out, "{:10} {:>8} {kl:>9} {:>9} {tv:>7}", "", "weighted", "")?;
        }
        if let Some(drafts) = &line.speculation {
            writeln!(
                out,
                "{:10} drafts: {:.0} % accepted, {:.2} tokens a pass; KL {:.3} of {:.3} spent",
                "",
                100.0 * drafts.draft_acceptance,
                drafts.tokens_per_pass,
                drafts.kl_spent,
                drafts.kl_allowed
            )?;
        }
        if line.cut > 0 {
            writeln!(out, "{:10} {} outputs more were cut off at the length limit", "", line.cut)?;
        }
        if let Some(error) = &line.error {
            writeln!(out, "{:10} stopped: {error}", "")?;
        }
    }
    Ok(())
}

/// Distance against cost: a point is the last outputs up to there, a window's worth.
fn curve(drawn: &Drawn, target: &Law) -> Curve {
    let mut points = Vec::new();
    let mut window: VecDeque<&[TokenId]> = VecDeque::new();
    let (mut calls, mut proposals) = (0, 0);
    let many = drawn.draws.len();
    let mut next = 1.0;
    for (index, draw) in drawn.draws.iter().enumerate() {
        calls += draw.cost.positions;
        proposals += draw.cost.proposals;
        if draw.finish == Finish::Stop {
            window.push_back(&draw.tokens);
        }
        if window.len() > WINDOW {
            window.pop_front();
        }
        // At equal ratios, since both axes are logarithmic.
        let position = to_f64(index as u64 + 1);
        if (position >= next || index + 1 == many) && !window.is_empty() {
            next = (position * (to_f64(many as u64).ln() / to_f64(POINTS as u64)).exp()).max(position + 1.0);
            let shares = shares(window.iter().map(|output| (*output, 1.0)));
            let (kl, _) = distances(&shares, target);
            points.push(Point { calls: to_f64(calls), proposals: to_f64(proposals), kl });
        }
    }
    Curve { sampler: drawn.kind.name(), points }
}

#[allow(clippy::too_many_arguments, reason = "all that an audit knows")]
fn describe_page<C: Constraint>(
    args: &AuditArgs,
    seed: u64,
    exact: Option<&ExactLaw>,
    target: &Law,
    drawn: &[Drawn],
    lines: Vec<Line>,
    tokens: &Tokens,
    mut task: Task<&mut Model, &C>,
) -> Result<Page> {
    let share = |drawn: &Drawn, output: &[TokenId]| {
        let all = finished(&drawn.draws).count();
        let same = finished(&drawn.draws).filter(|draw| draw.tokens == output).count();
        to_f64(same as u64) / to_f64(all as u64).max(1.0)
    };
    // What is probable under the target or often drawn by any sampler.
    let mut outputs: BTreeMap<&[TokenId], f64> =
        target.iter().map(|(output, p)| (output.as_slice(), *p)).collect();
    for drawn in drawn {
        let kept = finished(&drawn.draws).map(|draw| (draw.tokens.as_slice(), 1.0));
        for (output, share) in shares(kept) {
            let most = outputs.entry(output).or_default();
            *most = most.max(share);
        }
    }
    let mut order: Vec<(&[TokenId], f64)> = outputs.into_iter().collect();
    order.sort_by(|left, right| right.1.total_cmp(&left.1));
    let outcomes = order.iter().take(COMPARED).map(|(output, _)| Outcome {
        text: tokens.decode(output),
        target: target.get(*output).copied().unwrap_or(0.0),
        shares: drawn.iter().map(|drawn| share(drawn, output)).collect(),
    });
    let outcomes = outcomes.collect();
    // Token by token: where the first sampler, masked if it is there, is furthest from the target.
    let skewed = drawn.iter().find(|drawn| drawn.kind == SamplerKind::Masked).or(drawn.first());
    let mut traced = Vec::new();
    if let Some(skewed) = skewed {
        let of = |output: &[TokenId]| target.get(output).copied().unwrap_or(0.0);
        let difference = |output: &[TokenId]| (share(skewed, output) - of(output)).abs();
        let mut far: Vec<(&[TokenId], f64)> =
            order.iter().take(200).map(|(output, _)| (*output, difference(output))).collect();
        far.sort_by(|left, right| right.1.total_cmp(&left.1));
        for (output, _) in far.into_iter().take(TRACED) {
            let steps = trace(&mut task, output).map_err(|error| Failure::other(&error))?;
            let steps = steps.into_iter().map(|step| {
                let text = step.token.map(|token| tokens.decode(&[token]));
                (text, step.log_prob, step.log_mass)
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
        constraint: describe(&args.constraint),
        prompt: args.prompt.clone(),
        seed,
        samples: args.samples.get(),
        window: WINDOW,
        mass: exact.map(ExactLaw::mass),
        outputs: target.len(),
        curves: drawn.iter().map(|drawn| curve(drawn, target)).collect(),
        lines,
        outcomes,
        skewed: skewed.map_or("", |drawn| drawn.kind.name()),
        traced,
    })
}
