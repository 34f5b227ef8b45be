//! `unskew generate`: outputs of a model that satisfy a constraint.

use std::{io::Write, num::NonZeroUsize, sync::Arc};

use crate::{
    Drafted, Draws, Language, Method, Output, Request, Spec,
    core::{Cancel, Finish},
};
use serde::Serialize;

use super::{Named, answer};
use crate::command_line::{
    args::{Format, GenerateArgs},
    error::{Failure, Result},
    inputs, interrupt, models,
    plain::say,
    progress::{self, Drawing},
    resume::{Parts, Saved, Target},
    sampling::failed,
};

/// From so many positions for a token of an output on, outputs are dear.
const DEAR: usize = 4;

/// One output as a line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    text: &'a str,
    ids: Vec<u32>,
    logprob: f64,
    log_weight: f64,
    /// Positions that the model evaluated for this output.
    lm_calls: u64,
    /// Passes through the model, each over one or more positions.
    lm_passes: u64,
    proposals: u64,
    finish: &'static str,
    /// How the sampler came by the output: `proposed`, `accepted` or `resampled`.
    how: &'static str,
    /// Only of resampled outputs: how many equal proposals theirs are worth.
    #[serde(skip_serializing_if = "Option::is_none")]
    effective: Option<f64>,
    /// Only where tokens were drafted.
    #[serde(flatten)]
    drafted: Option<Drafted>,
    /// Only where the constraint names parts.
    #[serde(flatten)]
    named: Option<Named>,
}

pub(crate) fn generate(args: &GenerateArgs, out: &mut dyn Write) -> Result<()> {
    let outputs = args.n.get();
    let mut spec = args.constraint.spec()?;
    let method: Method = args.method()?.parse().map_err(crate::Error::from)?;
    let (chosen, _) = method.resolve(spec.is_unconstrained());
    let keeps = args.save_trie.is_some() || args.load_trie.is_some();
    if keeps {
        check_keeps(&chosen, &mut spec)?;
    }
    let model = models::load(&args.model)?;
    let drawing = Arc::new(Drawing::default());
    let (hears, hearer) = (Arc::clone(&drawing), progress::hearer());
    let request =
        models::prompt(&model, &args.prompt, args.chat)?.heal(args.heal).outputs(outputs).seed(args.seed);
    let request = request.max_tokens(args.max_tokens.map(NonZeroUsize::get)).observe(move |event| {
        hears.hear(event);
        hearer(event);
    });
    let request = args.options.apply(request)?.draft(args.options.draft()?);
    let start = request.start()?;
    let request = request.constrain(spec.clone())?;
    request.check(&chosen)?;
    let parts = match keeps {
        true => Some(Parts::of(&args.model, &args.options, &spec, &start)?),
        false => None,
    };
    let saved = match (&args.load_trie, &parts) {
        (Some(path), Some(parts)) => Some((path, Saved::read(path, parts)?)),
        _ => None,
    };
    let cancel = interrupt::watch()?;
    let asking = request.clone();
    let mut draws = request.cancel(cancel.clone()).sample_with(method)?.take(outputs);
    if let Some((path, saved)) = &saved {
        saved.load(path, &mut draws, args.seed.is_none())?;
    }
    let target = match &args.save_trie {
        Some(path) => {
            let described = args.constraint.spec.as_deref();
            inputs::refuse(
                path,
                &[inputs::of_model(&args.model), inputs::of_constraint(&spec, described)].concat(),
            )?;
            Some(Target::new(path)?)
        }
        None => None,
    };
    begin(args, &spec, &draws, saved.as_ref().map(|(path, _)| path.display()));
    let result = draw(args, &mut draws, &cancel, &drawing, (&asking, start.prompt.len()), out);
    // The bounds that were learned before a failure are worth as much.
    match (target, parts) {
        (Some(target), Some(parts)) => target.save(&parts, &mut draws).and(result),
        _ => result,
    }
}

/// Refuses to keep the bounds of a method that learns none.
fn check_keeps(method: &Method, spec: &mut Spec) -> Result<()> {
    if !method.info().learns {
        return Err(Failure::input(format!(
            "--save-trie and --load-trie are for samplers that learn: ars, asap, cars and disc, not {method}"
        )));
    }
    match &mut spec.language {
        Language::Set(set) if set.gpu => {
            set.gpu = false;
            say("warning: --with gpu: bounds are learned on the CPU, where the model runs, too");
        }
        _ => {}
    }
    Ok(())
}

/// Names the constraint, the sampler, and the seed or the file that it goes on from.
fn begin(args: &GenerateArgs, spec: &Spec, draws: &Draws, loaded: Option<std::path::Display<'_>>) {
    let goes_on = loaded.filter(|_| args.seed.is_none());
    match (args.format, goes_on) {
        (Format::Text, goes_on) => {
            say(spec);
            let explained = draws.explain();
            match goes_on {
                Some(path) => say(format_args!("sampler {explained}; goes on from {path}")),
                None => say(format_args!("sampler {explained}; seed {}", draws.seed())),
            }
        }
        // A script that wants the same lines again needs the seed, and nothing else.
        (Format::Jsonl, None) if args.seed.is_none() => say(format_args!("seed {}", draws.seed())),
        (Format::Jsonl, _) => {}
    }
}

/// Draws and writes the outputs of a request, whose prompt has so many tokens.
fn draw(
    args: &GenerateArgs,
    draws: &mut Draws,
    cancel: &Cancel,
    drawing: &Drawing,
    (request, prompt): (&Request, usize),
    out: &mut dyn Write,
) -> Result<()> {
    let asked = args.n.get();
    let (mut total, mut drafts, mut tokens, mut passes) = (Drafted::default(), false, 0, 0);
    let bar = drawing.begin(asked);
    let (mut written, mut effective, mut positions) = (0, Vec::new(), 0);
    let mut dearest: Option<Output> = None;
    for output in draws.by_ref() {
        let output = match output {
            Ok(output) => output,
            Err(error) => {
                bar.finish_and_clear();
                return Err(match cancel.is_cancelled() {
                    true => Failure::Interrupted(written),
                    false => failed(draws.method(), error),
                });
            }
        };
        bar.suspend(|| write(args.format, &output, out))?;
        written += 1;
        effective.extend(output.effective);
        tokens += output.ids.len();
        passes += output.cost.passes;
        positions += output.cost.positions;
        if let Some(drafted) = output.drafted {
            drafts = true;
            total += drafted;
        }
        if dearest.as_ref().is_none_or(|other| other.cost.positions < output.cost.positions) {
            dearest = Some(output);
        }
    }
    bar.finish_and_clear();
    if let (Method::Beam(beam), true) = (draws.method(), written < asked) {
        say(format_args!(
            "warning: a beam of {} found {written} outputs, not {asked}; widen it with --sampler beam:n=N",
            beam.n
        ));
    }
    if !effective.is_empty() {
        say(resampled(draws.method(), &effective, written));
    }
    // Where outputs take many tries, one place of them is the reason as a rule.
    if let Some(output) = dearest
        && args.format == Format::Text
        && (!effective.is_empty() || positions > (prompt + DEAR * tokens) as u64)
        && let Ok(Some(loss)) = request.loss(&output.ids)
    {
        say(format_args!(
            "why outputs are dear: {loss}; a constraint or a prompt that fits takes fewer tries"
        ));
    }
    if drafts && args.format == Format::Text {
        say(summary(&total, tokens, passes));
    }
    Ok(())
}

/// How near resampled outputs are, by the numbers of equal proposals that theirs are worth.
fn resampled(method: &Method, effective: &[f64], written: usize) -> String {
    #[allow(clippy::cast_precision_loss, reason = "nobody draws 2^53 outputs")]
    let mean = |of: fn(&f64) -> f64| effective.iter().map(of).sum::<f64>() / effective.len() as f64;
    let (why, more) = match method {
        Method::Smc(_) => (", each from a population by weight", "larger populations are --sampler smc:n=N"),
        Method::Disc(_) => (
            ", because no try was accepted within the bounds of disc",
            "more tries are --sampler disc:budget=N",
        ),
        _ => (" from weighted proposals", "more tries take longer"),
    };
    format!(
        "warning: {} of {written} outputs are resampled{why}: their proposals are worth {:.1} equal ones, so that they are within \
         {:.2} nats of the model's distribution, as far as these tell; {more}, and --exact never resamples",
        effective.len(),
        mean(|effective| *effective),
        mean(|effective| (1.0 / effective).ln_1p()),
    )
}

/// All drafts in one line, with the tokens of all outputs and the passes that they took.
fn summary(total: &Drafted, tokens: usize, passes: u64) -> String {
    let Drafted { drafts_tested, drafts_accepted, kl_spent, kl_allowed, .. } = total;
    #[allow(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
    let each = tokens as f64 / passes.max(1) as f64;
    let share = 100.0 * total.acceptance();
    let budget = match *kl_allowed > 0.0 {
        true => format!("; KL {kl_spent:.3} of {kl_allowed:.3} spent"),
        false => String::new(),
    };
    format!(
        "drafts: {drafts_accepted} of {drafts_tested} accepted ({share:.0} %), {each:.2} tokens a pass{budget}"
    )
}

/// Writes one output.
fn write(format: Format, output: &Output, out: &mut dyn Write) -> Result<()> {
    let (how, finish) = (output.origin.name(), output.finish.name());
    let line = Line {
        text: &output.text,
        ids: output.ids.iter().map(|id| id.0).collect(),
        logprob: output.log_prob,
        log_weight: output.log_weight,
        lm_calls: output.cost.positions,
        lm_passes: output.cost.passes,
        proposals: output.cost.proposals,
        finish,
        how,
        effective: output.effective,
        drafted: output.drafted,
        named: output.captures.clone().map(Named::new),
    };
    answer(format, &line, out, |out| {
        let cut = if output.finish == Finish::Length { ", cut off at the length limit" } else { "" };
        let log_prob = match output.log_prob.is_nan() {
            true => "log-probability unknown".to_owned(),
            false => format!("log-probability {:.3}", output.log_prob),
        };
        writeln!(
            out,
            "{}\n    {log_prob}, {how}{cut}; {} positions in {} passes, {} proposals",
            output.text, output.cost.positions, output.cost.passes, output.cost.proposals
        )?;
        line.named.iter().try_for_each(|named| named.write(out))
    })
}
