//! `unskew generate`: outputs of a model that satisfy a constraint.

use std::{io::Write, num::NonZeroUsize, sync::Arc};

use crate::{
    Drafted, Draws, Language, Method, Output, Prompt, Request, Spec,
    core::{Cancel, Finish},
};
use indicatif::ProgressBar;
use serde::Serialize;

use super::{Named, answer};
use crate::command_line::{
    args::{Format, GenerateArgs},
    error::{Failure, Result},
    inputs, interrupt, models,
    plain::say,
    progress::{self, Drawing},
    prompts::Prompts,
    resume::{Parts, Saved, Target},
    sampling::failed,
};

/// From so many positions for a token of an output on, outputs are dear.
const DEAR: usize = 4;

/// One output as a line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    /// Only of --prompts: the number of the prompt, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<u64>,
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
        check_keeps(args, &chosen, &mut spec)?;
    }
    let mut prompts = Prompts::open(&args.prompts, args.heal, &args.constraint.tools)?;
    let all = prompts.left().map(|left| left.saturating_sub(args.prompts.skip_prompts) * outputs);
    let Some((number, prompt)) = prompts.next()? else {
        say("note: there is no prompt, and so no output");
        return Ok(());
    };
    let model = models::load(&args.model)?;
    let drawing = Arc::new(Drawing::default());
    let (hears, hearer) = (Arc::clone(&drawing), progress::hearer());
    let request = model.prompt("").heal(args.heal).outputs(outputs).seed(args.seed);
    let request = request.max_tokens(args.max_tokens.map(NonZeroUsize::get)).observe(move |event| {
        hears.hear(event);
        hearer(event);
    });
    let request = args.options.apply(request)?.draft(args.options.draft()?);
    let request = request.after(prompt.clone())?.stream(number);
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
    let watch = interrupt::watch()?;
    let cancel = watch.cancel();
    let mut request = request.cancel(cancel.clone());
    let mut draws = request.clone().sample_with(method)?.take(outputs);
    if let Some((path, saved)) = &saved {
        saved.load(path, &mut draws, args.seed.is_none())?;
    }
    let target = match &args.save_trie {
        Some(path) => {
            let described = args.constraint.described();
            inputs::refuse(
                path,
                &[inputs::of_model(&args.model), inputs::of_constraint(&spec, described)].concat(),
            )?;
            Some(Target::new(path)?)
        }
        None => None,
    };
    begin(args, &spec, &draws, saved.as_ref().map(|(path, _)| path.display()));
    let method = *draws.method();
    // The other prompts have the same seed.
    request = request.seed(draws.seed());
    let mut run = Run { args, cancel, bar: drawing.begin(all), sum: Sum::default() };
    let mut reached = number;
    let mut result = match prompts.known() {
        Some(rest) => {
            let prompts = std::iter::once(prompt).chain(rest).collect();
            run.share(prompts, &request, method, &mut reached, out)
        }
        None => run.draw(number, &mut draws, &method, &request, start.prompt.len(), out),
    };
    while result.is_ok() {
        let (number, prompt) = match watch.idle(|| prompts.next()) {
            Ok(Some(next)) => next,
            Ok(None) => break,
            Err(failure) => {
                (result, reached) = (Err(failure), reached + 1);
                break;
            }
        };
        reached = number;
        drawing.go_on(run.sum.written);
        result = (|| {
            request = request.clone().after(prompt)?.stream(number);
            let start = request.start()?;
            draws = request.clone().sample_with(method)?.take(outputs);
            run.draw(number, &mut draws, &method, &request, start.prompt.len(), out)
        })();
    }
    run.bar.finish_and_clear();
    if args.prompts.prompts.is_some() && result.is_err() {
        let seed = draws.seed();
        say(format_args!(
            "note: the run ends at the prompt {reached}; --seed {seed} --skip-prompts {reached} goes on with all of its outputs"
        ));
    }
    // The bounds that were learned before a failure are worth as much.
    let result = match (target, parts) {
        (Some(target), Some(parts)) => target.save(&parts, &mut draws).and(result),
        _ => result,
    };
    result.map(|()| run.end(draws.method()))
}

/// Refuses to keep the bounds of a method that learns none.
fn check_keeps(args: &GenerateArgs, method: &Method, spec: &mut Spec) -> Result<()> {
    if args.prompts.prompts.is_some() {
        return Err(Failure::input(
            "--save-trie and --load-trie keep the bounds of one prompt, and --prompts has many; a run goes on with --seed and \
             --skip-prompts",
        ));
    }
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

/// A run over one prompt or several.
struct Run<'a> {
    args: &'a GenerateArgs,
    cancel: Cancel,
    bar: &'a ProgressBar,
    sum: Sum,
}

/// All outputs so far, together.
#[derive(Default)]
struct Sum {
    asked: usize,
    written: usize,
    /// The tokens of the prompts, and of the outputs.
    prompts: usize,
    tokens: usize,
    positions: u64,
    passes: u64,
    drafted: Option<Drafted>,
    effective: Vec<f64>,
    dearest: Option<(Output, Request)>,
}

impl Run<'_> {
    /// Draws and writes the outputs of prompts that are all known, whose samplers share the passes of the model.
    /// `reached` is the number of the first prompt, and then of the one that the run has come to.
    fn share(
        &mut self,
        prompts: Vec<Prompt>,
        request: &Request,
        method: Method,
        reached: &mut u64,
        out: &mut dyn Write,
    ) -> Result<()> {
        let first = *reached;
        let each = request.clone().sample_each_with(prompts, self.args.n.get(), method)?;
        let requests = each.requests();
        let mut each = each.peekable();
        for (place, request) in requests.iter().enumerate() {
            *reached = first + place as u64;
            let len = request.start()?.prompt.len();
            let outputs =
                std::iter::from_fn(|| each.next_if(|(at, _)| *at == place).map(|(_, output)| output));
            self.draw(*reached, outputs, &method, request, len, out)?;
        }
        Ok(())
    }

    /// Draws and writes the outputs of a request, whose prompt has so many tokens.
    fn draw(
        &mut self,
        number: u64,
        draws: impl Iterator<Item = crate::Result<Output>>,
        method: &Method,
        request: &Request,
        prompt: usize,
        out: &mut dyn Write,
    ) -> Result<()> {
        let Self { args, sum, .. } = self;
        let is_numbered = args.prompts.prompts.is_some();
        sum.asked += args.n.get();
        sum.prompts += prompt;
        if is_numbered && args.format == Format::Text {
            self.bar.suspend(|| writeln!(out, "prompt {number}"))?;
        }
        for output in draws {
            let output = match output {
                Ok(output) => output,
                Err(error) => {
                    self.bar.finish_and_clear();
                    return Err(match self.cancel.is_cancelled() {
                        true => Failure::Interrupted(sum.written),
                        false => failed(method, error),
                    });
                }
            };
            self.bar.suspend(|| write(args.format, is_numbered.then_some(number), &output, out))?;
            sum.written += 1;
            sum.effective.extend(output.effective);
            sum.tokens += output.ids.len();
            sum.passes += output.cost.passes;
            sum.positions += output.cost.positions;
            if let Some(drafted) = output.drafted {
                *sum.drafted.get_or_insert_default() += drafted;
            }
            if sum.dearest.as_ref().is_none_or(|(other, _)| other.cost.positions < output.cost.positions) {
                sum.dearest = Some((output, request.clone()));
            }
        }
        Ok(())
    }

    /// Tells of all outputs together: a beam that is too narrow, resampled outputs, why outputs are dear, drafts.
    fn end(self, method: &Method) {
        let Sum { asked, written, prompts, tokens, positions, passes, drafted, effective, dearest } =
            self.sum;
        let is_text = self.args.format == Format::Text;
        if let (Method::Beam(beam), true) = (method, written < asked) {
            say(format_args!(
                "warning: a beam of {} found {written} outputs, not {asked}; widen it with --sampler beam:n=N",
                beam.n
            ));
        }
        if !effective.is_empty() {
            say(resampled(method, &effective, written));
        }
        // Where outputs take many tries, one place of them is the reason as a rule.
        if let Some((output, request)) = dearest
            && is_text
            && (!effective.is_empty() || positions > (prompts + DEAR * tokens) as u64)
            && let Ok(Some(loss)) = request.loss(&output.ids)
        {
            say(format_args!(
                "why outputs are dear: {loss}; a constraint or a prompt that fits takes fewer tries"
            ));
        }
        if let (Some(drafted), true) = (drafted, is_text) {
            say(summary(&drafted, tokens, passes));
        }
    }
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

/// Writes one output, of the prompt of this number where there are several.
fn write(format: Format, prompt: Option<u64>, output: &Output, out: &mut dyn Write) -> Result<()> {
    let (how, finish) = (output.origin.name(), output.finish.name());
    let line = Line {
        prompt,
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
