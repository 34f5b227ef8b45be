//! `unskew generate`: outputs of a model that satisfy a constraint.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io::{IsTerminal, Write},
    num::NonZeroUsize,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde::Serialize;
#[cfg(feature = "wgpu")]
use unskew::runner::SetTask;
use unskew::{
    core::{Cancel, Constraint, Draw, Finish, LanguageModel, Origin, Sampler, TokenId},
    samplers::{Beam, SampleError, Task, Warped},
};

use super::write_json;
#[cfg(feature = "wgpu")]
use crate::device;
use crate::{
    any_model::{AnyModel, AnyModelError},
    args::{ConstraintArgs, Format, GenerateArgs, SamplerKind},
    error::{Failure, Result},
    inputs, interrupt,
    load::{self, Tokens},
    plain::say,
    resume::{Parts, Saved, Target},
    samplers::{self, Choice, boxed, choose, learning},
    speculate::{self, Like, SpeculationLine, Tallies},
};

/// The most tokens of an output where neither the user nor the model says otherwise.
const DEFAULT_MAX_TOKENS: usize = 256;

type DynSampler<'a> = dyn Sampler<Error = SampleError<AnyModelError>> + 'a;

/// What a run needs beside its sampler: what was asked for, how outputs are written, and who may end it.
struct Run<'a> {
    args: &'a GenerateArgs,
    choice: &'a Choice,
    tokens: &'a Tokens,
    /// The text that outputs begin with and that is not shown.
    healed: &'a str,
    cancel: Cancel,
}

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
    /// Only where tokens were drafted.
    #[serde(flatten)]
    speculation: Option<SpeculationLine>,
}

pub(crate) fn generate(args: &GenerateArgs, out: &mut dyn Write) -> Result<()> {
    let (model, tokens) = load::model(&args.model)?;
    let mut prompt = tokens.encode_prompt(&args.prompt)?;
    let healed = if args.heal { tokens.heal(&mut prompt)? } else { String::new() };
    if prompt.is_empty() && matches!(model, AnyModel::Llama(_)) {
        return Err(Failure::input("this model names no token that begins a text; give a --prompt"));
    }
    let max_tokens = max_tokens(args.max_tokens, &model, &prompt)?;
    let options = &args.sampler.options;
    let choice = choose(args.sampler.sampler, options, args.constraint.is_none(), args.n.get())?;
    options.check(&[choice.kind])?;
    let keeps = args.save_trie.is_some() || args.load_trie.is_some();
    if keeps && !choice.kind.learns() {
        return Err(Failure::input(format!(
            "--save-trie and --load-trie are for samplers that learn: ars, asap, cars and disc, not {}",
            choice.kind.name()
        )));
    }
    args.speculation.check(args.sampler.sampler, choice.kind, options)?;
    let drafts = args.speculation.drafts(choice.kind);
    if keeps && drafts {
        return Err(Failure::input(
            "--save-trie and --load-trie keep what is learned, and with --draft-model nothing is",
        ));
    }
    #[cfg(feature = "wgpu")]
    {
        let task = SetTask {
            prompt: prompt.clone(),
            end: tokens.vocabulary.end_of_sequence().to_vec(),
            max_tokens,
            batch: options.batch.get(),
            temperature: options.temperature as f32,
        };
        if let Some(mut sampler) = device::sampler(args, &choice, &model, &tokens, &healed, task)? {
            let run =
                Run { args, choice: &choice, tokens: &tokens, healed: &healed, cancel: interrupt::watch()? };
            let mut rng = begin(&run);
            return draw(&run, &mut sampler, None, &mut rng, out);
        }
    }
    let model =
        Warped::new(model, options.temperature, choice.before).map_err(|error| Failure::bad(&error))?;
    let counted = if drafts { args.speculation.counted(&args.constraint)? } else { None };
    // Counts need the grammar itself, and take this way alone.
    if let Some(path) = counted {
        let constraint = load::grammar_constraint(path, &args.constraint, &tokens, &healed)?;
        let task = Task::new(model, &constraint, &tokens.vocabulary, max_tokens).after(prompt);
        let cancel = interrupt::watch()?;
        let task = Task { batch: options.batch.get(), cancel: cancel.clone(), ..task };
        let run = Run { args, choice: &choice, tokens: &tokens, healed: &healed, cancel };
        let (mut sampler, tallies) = args.speculation.counting(choice.kind, options, task)?;
        let mut rng = begin(&run);
        return draw(&run, &mut *sampler, Some(&tallies), &mut rng, out);
    }
    let constraint = load::constraint(&args.constraint, &tokens, &healed)?;
    let task = Task::new(model, constraint, &tokens.vocabulary, max_tokens).after(prompt);
    let cancel = interrupt::watch()?;
    let task = Task { batch: options.batch.get(), cancel: cancel.clone(), ..task };
    let run = Run { args, choice: &choice, tokens: &tokens, healed: &healed, cancel };
    if drafts {
        let like = Like { tokens: &tokens, temperature: options.temperature, truncation: choice.before };
        let (mut sampler, tallies) = args.speculation.sampler(choice.kind, options, task, like)?;
        let mut rng = begin(&run);
        return draw(&run, &mut *sampler, Some(&tallies), &mut rng, out);
    }
    if keeps {
        return keep(&run, task, out);
    }
    let mut rng = begin(&run);
    if choice.kind == SamplerKind::Beam {
        return search(&run, task, out);
    }
    let mut sampler = boxed(options, &choice, task);
    warm_up(&run, &mut *sampler, &mut rng)?;
    draw(&run, &mut *sampler, None, &mut rng, out)
}

impl Run<'_> {
    /// Why nothing more was drawn, after so many outputs.
    fn failed(&self, error: &(dyn std::error::Error + 'static), written: usize) -> Failure {
        match error.downcast_ref() {
            _ if self.cancel.is_cancelled() => Failure::Interrupted(written),
            Some(error) => samplers::failed::<AnyModelError>(self.choice.kind, error),
            None => Failure::other(error),
        }
    }
}

/// Lets ASAp learn before the first output that is shown.
fn warm_up(run: &Run<'_>, sampler: &mut DynSampler<'_>, rng: &mut ChaCha8Rng) -> Result<()> {
    let iterations = run.args.sampler.options.asap_iterations.unwrap_or(0);
    if run.choice.kind == SamplerKind::Asap && iterations > 0 {
        let bar = progress(usize::try_from(iterations).unwrap_or(usize::MAX));
        for _ in 0..iterations {
            let drawn = sampler.draw(rng);
            bar.inc(1);
            drawn.map_err(|error| {
                bar.finish_and_clear();
                run.failed(&error, 0)
            })?;
        }
        bar.finish_and_clear();
    }
    Ok(())
}

/// With what was learned read from a file, or written to one.
fn keep<M, C>(run: &Run<'_>, task: Task<M, C>, out: &mut dyn Write) -> Result<()>
where
    M: LanguageModel<Error = AnyModelError>,
    C: Constraint,
{
    let Run { args, choice, healed, .. } = *run;
    let parts = Parts::of(args, &task.prompt, healed)?;
    let saved = match &args.load_trie {
        Some(path) => Some((path, Saved::read(path, &parts)?)),
        None => None,
    };
    let Ok(mut sampler) = learning(&args.sampler.options, choice, task) else {
        unreachable!("others were refused")
    };
    if let Some((path, saved)) = &saved {
        saved.load(path, &mut sampler)?;
    }
    if let Some(path) = &args.save_trie {
        inputs::refuse(
            path,
            &[inputs::of_model(&args.model), inputs::of_constraint(&args.constraint)].concat(),
        )?;
    }
    let target = args.save_trie.as_deref().map(Target::new).transpose()?;
    let mut rng = match &saved {
        Some((path, saved)) if args.seed.is_none() => {
            if args.format == Format::Text {
                say(describe(&args.constraint));
                say(format_args!("sampler {}; goes on from {}", choice.explain(), path.display()));
            }
            saved.rng.clone()
        }
        _ => begin(run),
    };
    let mut result = Ok(());
    if saved.is_none() {
        result = warm_up(run, &mut *sampler, &mut rng);
    }
    let result = result.and_then(|()| draw(run, &mut *sampler, None, &mut rng, out));
    // What was learned before a failure is worth as much.
    match target {
        Some(target) => target.save(&parts, &rng, &mut sampler).and(result),
        None => result,
    }
}

/// Says what will be drawn, and with which seed.
fn begin(run: &Run<'_>) -> ChaCha8Rng {
    let Run { args, choice, .. } = *run;
    let seed = args.seed.unwrap_or_else(any_seed);
    match args.format {
        Format::Text => {
            say(describe(&args.constraint));
            say(format_args!("sampler {}; seed {seed}", choice.explain()));
        }
        // A script that wants the same lines again needs the seed, and nothing else.
        Format::Jsonl if args.seed.is_none() => say(format_args!("seed {seed}")),
        Format::Jsonl => {}
    }
    ChaCha8Rng::seed_from_u64(seed)
}

/// Draws and writes the outputs.
fn draw<E: std::error::Error + Send + Sync + 'static>(
    run: &Run<'_>,
    sampler: &mut dyn Sampler<Error = E>,
    tallies: Option<&Tallies>,
    rng: &mut ChaCha8Rng,
    out: &mut dyn Write,
) -> Result<()> {
    let args = run.args;
    let (mut total, mut tokens, mut passes) = (speculate::Total::default(), 0, 0);
    let bar = progress(args.n.get());
    let mut written = 0;
    let mut failure = None;
    let result = sampler.draw_each(args.n.get(), rng, &mut |draw| {
        if failure.is_some() {
            return;
        }
        let speculation = tallies.and_then(|tallies| tallies.borrow_mut().pop_front());
        if let Err(error) = bar.suspend(|| write(run, &draw, speculation, out)) {
            // Nobody reads the others.
            run.cancel.cancel();
            failure = Some(error);
            return;
        }
        bar.inc(1);
        speculation.iter().for_each(|line| total.add(line));
        written += 1;
        tokens += draw.tokens.len();
        passes += draw.cost.passes;
    });
    if let Err(error) = result {
        bar.finish_and_clear();
        return Err(failure.unwrap_or_else(|| run.failed(&error, written)));
    }
    if let Some(failure) = failure {
        bar.finish_and_clear();
        return Err(failure);
    }
    // Not every sampler asks within an output.
    if run.cancel.is_cancelled() && written < args.n.get() {
        bar.finish_and_clear();
        return Err(Failure::Interrupted(written));
    }
    bar.finish_and_clear();
    if tallies.is_some() && args.format == Format::Text {
        say(total.summary(tokens, passes));
    }
    Ok(())
}

/// The best outputs of a beam, the best first.
fn search<M, C>(run: &Run<'_>, task: Task<M, C>, out: &mut dyn Write) -> Result<()>
where
    M: LanguageModel<Error = AnyModelError>,
    C: Constraint,
{
    let args = run.args;
    let beams = args.sampler.options.beam().max(args.n).get();
    let bar = progress(1);
    let draws = Beam::new(task, beams).search();
    bar.finish_and_clear();
    let draws = draws.map_err(|error| run.failed(&error, 0))?;
    if draws.len() < args.n.get() {
        say(format_args!(
            "warning: a beam of {beams} found {} outputs, not {}; widen it with --beams",
            draws.len(),
            args.n
        ));
    }
    draws.iter().take(args.n.get()).try_for_each(|draw| write(run, draw, None, out))
}

pub(super) fn max_tokens(asked: Option<NonZeroUsize>, model: &AnyModel, prompt: &[TokenId]) -> Result<usize> {
    let Some(context) = model.context_len() else {
        return Ok(asked.map_or(DEFAULT_MAX_TOKENS, std::num::NonZero::get));
    };
    let room = context.saturating_sub(prompt.len());
    match asked {
        Some(asked) if asked.get() > room => Err(Failure::input(format!(
            "--max-tokens {asked} with a prompt of {} tokens passes the model's context of {context} tokens; \
             at most {room} are left",
            prompt.len()
        ))),
        None if room == 0 => Err(Failure::input(format!(
            "the prompt has {} tokens, and the model's context only {context}; shorten it",
            prompt.len()
        ))),
        Some(asked) => Ok(asked.get()),
        None => Ok(room.min(DEFAULT_MAX_TOKENS)),
    }
}

/// A seed that differs from run to run.
pub(super) fn any_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A constraint in a few words.
pub(super) fn describe(args: &ConstraintArgs) -> String {
    let ConstraintArgs {
        regex, regex_file, grammar, json_schema, set, exclude_set, choice, canonical, ..
    } = args;
    let constraint = match (regex, regex_file, grammar, choice.len()) {
        _ if let Some(path) = set => match &args.subset {
            Some(name) => format!("subset {name} of {}", path.display()),
            None => format!("set of {}", path.display()),
        },
        _ if let Some(path) = exclude_set => format!("anything but {}", path.display()),
        _ if let Some(path) = json_schema => format!("JSON Schema of {}", path.display()),
        (Some(regex), ..) => format!("regex {regex}"),
        (None, Some(path), ..) => format!("regex of {}", path.display()),
        (None, None, Some(path), _) if args.maximal_munch => {
            format!("grammar of {}, its terminals as long as possible", path.display())
        }
        (None, None, Some(path), _) => format!("grammar of {}", path.display()),
        (None, None, None, 0) if *canonical => "any text".to_owned(),
        (None, None, None, 0) => "no constraint".to_owned(),
        (None, None, None, choices) => format!("{choices} choices"),
    };
    let canonical = if *canonical { ", as the tokenizer writes it" } else { "" };
    format!("{constraint}{canonical}")
}

/// A line that says on a terminal how far the work is, or of a single piece of work for how long it has been going on.
fn progress(outputs: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match outputs {
        1 => (ProgressBar::new_spinner(), "{spinner} {elapsed}"),
        _ => (ProgressBar::new(outputs as u64), "{bar:40} {pos}/{len} {elapsed}, {eta} left"),
    };
    let bar = bar.with_style(ProgressStyle::with_template(template).expect("a valid template"));
    // A single output may take minutes.
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

/// Writes one output, without the end of the prompt that it begins with.
fn write(
    run: &Run<'_>,
    draw: &Draw,
    speculation: Option<SpeculationLine>,
    out: &mut dyn Write,
) -> Result<()> {
    let Run { tokens, healed, .. } = *run;
    let text = tokens.decode(&draw.tokens);
    // An output that was cut off may end inside of it.
    let text = text.strip_prefix(healed).unwrap_or_default();
    let how = match draw.origin {
        Origin::Proposed => "proposed",
        Origin::Accepted => "accepted",
        Origin::Resampled => "resampled",
        Origin::Chained => "chained",
        Origin::Searched => "searched",
    };
    let finish = match draw.finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
    };
    match run.args.format {
        Format::Jsonl => {
            let line = Line {
                text,
                ids: draw.tokens.iter().map(|id| id.0).collect(),
                logprob: draw.log_prob,
                log_weight: draw.log_weight,
                lm_calls: draw.cost.positions,
                lm_passes: draw.cost.passes,
                proposals: draw.cost.proposals,
                finish,
                how,
                speculation,
            };
            write_json(&line, out)?;
        }
        Format::Text => {
            let cut = if draw.finish == Finish::Length { ", cut off at the length limit" } else { "" };
            writeln!(
                out,
                "{text}\n    log-probability {:.3}, {how}{cut}; {} model calls, {} proposals",
                draw.log_prob, draw.cost.positions, draw.cost.proposals
            )?;
        }
    }
    out.flush()?;
    Ok(())
}
