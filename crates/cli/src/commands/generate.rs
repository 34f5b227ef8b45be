//! `unskew generate`: outputs of a model that satisfy a constraint.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io::{IsTerminal, Write},
};

use indicatif::{ProgressBar, ProgressStyle};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde::Serialize;
use unskew::{
    core::{AnyConstraint, Draw, Finish, LanguageModel, Origin, Sampler, TokenId},
    samplers::{Disc, DiscConfig, Form, Masked, Rejection, SampleError, Task, Truncation, Warped},
};

use super::write_json;
use crate::{
    any_model::{AnyModel, AnyModelError},
    args::{ConstraintArgs, DiscForm, Format, GenerateArgs, SamplerArgs, SamplerKind, TruncateOrder},
    error::{Failure, Result},
    load::{self, Tokens},
    speculate::{self, SpeculationLine},
};

/// The most tokens of an output where neither the user nor the model says otherwise.
const DEFAULT_MAX_TOKENS: usize = 256;

type BoxedSampler<'a> = Box<dyn Sampler<Error = SampleError<AnyModelError>> + 'a>;

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
    let max_tokens = max_tokens(args, &model, &prompt)?;
    let (kind, truncation) = choose(args)?;
    let before = truncation.filter(|_| args.sampler.truncate == Some(TruncateOrder::BeforeMask));
    let after = truncation.filter(|_| args.sampler.truncate == Some(TruncateOrder::AfterMask));
    let model = Warped::new(model, args.sampler.temperature, before).map_err(|error| Failure::bad(&error))?;
    let (mut sampler, tallies) = if matches!(kind, SamplerKind::Speculative | SamplerKind::Mentored) {
        let task = speculate::Unconstrained {
            model,
            prompt,
            max_tokens,
            tokens: &tokens,
            healed: &healed,
            constraint: &args.constraint,
            temperature: args.sampler.temperature,
            truncation: before,
        };
        let (sampler, tallies) = args.speculation.sampler(kind == SamplerKind::Mentored, task)?;
        (sampler, Some(tallies))
    } else {
        args.speculation.refuse()?;
        let constraint = load::constraint(&args.constraint, &tokens, &healed)?;
        let task = Task::new(model, constraint, &tokens.vocabulary, max_tokens).after(prompt);
        (sampler(&args.sampler, kind, after, task), None)
    };

    let seed = args.seed.unwrap_or_else(any_seed);
    match args.format {
        Format::Text => eprintln!("{}", heading(args, kind, seed)),
        // A script that wants the same lines again needs the seed, and nothing else.
        Format::Jsonl if args.seed.is_none() => eprintln!("seed {seed}"),
        Format::Jsonl => {}
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let bar = progress(args.n.get());
    let (mut lines, mut written, mut passes) = (Vec::new(), 0, 0);
    for _ in 0..args.n.get() {
        let draw = sampler.draw(&mut rng).map_err(|error| {
            bar.finish_and_clear();
            Failure::other(&error)
        })?;
        let speculation = tallies.as_ref().and_then(|tallies| tallies.borrow_mut().pop_front());
        bar.suspend(|| write(args.format, &tokens, &healed, &draw, speculation, out))?;
        bar.inc(1);
        lines.extend(speculation);
        written += draw.tokens.len();
        passes += draw.cost.passes;
    }
    bar.finish_and_clear();
    if args.format == Format::Text && !lines.is_empty() {
        eprintln!("{}", speculate::summary(&lines, written, passes));
    }
    Ok(())
}

fn max_tokens(args: &GenerateArgs, model: &AnyModel, prompt: &[TokenId]) -> Result<usize> {
    let Some(context) = model.context_len() else {
        return Ok(args.max_tokens.map_or(DEFAULT_MAX_TOKENS, std::num::NonZero::get));
    };
    let room = context.saturating_sub(prompt.len());
    match args.max_tokens {
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

/// The sampler and the truncation that the options name.
fn choose(args: &GenerateArgs) -> Result<(SamplerKind, Option<Truncation>)> {
    let SamplerArgs { sampler, top_k, top_p, truncate, .. } = &args.sampler;
    let kind = match sampler {
        // Without a constraint every sampler has the model's law, and this one never rejects.
        SamplerKind::Auto if args.constraint.is_none() => SamplerKind::Masked,
        SamplerKind::Auto => SamplerKind::Disc,
        named => *named,
    };
    if truncate.is_some() && top_k.is_none() && top_p.is_none() {
        return Err(Failure::input("--truncate says when --top-k or --top-p apply; give one of them"));
    }
    if *truncate == Some(TruncateOrder::AfterMask) && kind != SamplerKind::Masked {
        return Err(Failure::input(
            "--truncate after-mask changes what is proposed and has no unbiased law; \
             use it with --sampler masked, or --truncate before-mask",
        ));
    }
    if top_k.is_none() && top_p.is_none() {
        return Ok((kind, None));
    }
    let truncation = Truncation::new(*top_k, *top_p).map_err(|error| Failure::bad(&error))?;
    Ok((kind, Some(truncation)))
}

fn sampler<'a>(
    args: &SamplerArgs,
    kind: SamplerKind,
    after_mask: Option<Truncation>,
    task: Task<Warped<AnyModel>, AnyConstraint>,
) -> BoxedSampler<'a> {
    match (kind, after_mask) {
        (SamplerKind::Masked, Some(truncation)) => Box::new(Masked::new(task).truncated(truncation)),
        (SamplerKind::Masked, None) => Box::new(Masked::new(task)),
        (SamplerKind::Rejection, _) => Box::new(Rejection::new(task, args.max_tries)),
        (SamplerKind::Disc | SamplerKind::Auto | SamplerKind::Speculative | SamplerKind::Mentored, _) => {
            let config = args.disc_k.map_or(DiscConfig::default(), |k| DiscConfig::published(k.into()));
            let form = match args.disc_form {
                DiscForm::Learned => Form::Learned,
                DiscForm::Fresh => Form::Fresh,
                DiscForm::Reuse => Form::Reuse,
            };
            Box::new(Disc::new(task, DiscConfig { form, ..config }))
        }
    }
}

/// A seed that differs from run to run.
fn any_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn heading(args: &GenerateArgs, kind: SamplerKind, seed: u64) -> String {
    let ConstraintArgs { regex, regex_file, grammar, set, choice, canonical, .. } = &args.constraint;
    let constraint = match (regex, regex_file, grammar, choice.len()) {
        _ if let Some(path) = set => format!("set of {}", path.display()),
        (Some(regex), ..) => format!("regex {regex}"),
        (None, Some(path), ..) => format!("regex of {}", path.display()),
        (None, None, Some(path), _) => format!("grammar of {}", path.display()),
        (None, None, None, 0) if *canonical => "any text".to_owned(),
        (None, None, None, 0) => "no constraint".to_owned(),
        (None, None, None, choices) => format!("{choices} choices"),
    };
    let canonical = if *canonical { ", as the tokenizer writes it" } else { "" };
    let (sampler, law) = match kind {
        SamplerKind::Masked if args.constraint.is_none() => ("masked", "the model's own law"),
        SamplerKind::Masked => ("masked", "not the model's law; outputs carry weights"),
        SamplerKind::Rejection => ("rejection", "the model's own law, given the constraint"),
        SamplerKind::Disc | SamplerKind::Auto => {
            ("disc", "the model's own law, given the constraint, where an output was accepted")
        }
        SamplerKind::Speculative if args.constraint.is_none() => ("speculative", "the model's own law"),
        SamplerKind::Speculative => ("speculative", "that of masked, not the model's; outputs carry weights"),
        SamplerKind::Mentored => {
            ("mentored", "within the given divergence of that of masked; outputs carry weights")
        }
    };
    format!("{constraint}{canonical}\nsampler {sampler}: {law}; seed {seed}")
}

fn progress(outputs: usize) -> ProgressBar {
    if outputs == 1 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {eta}").expect("a valid template");
    ProgressBar::new(outputs as u64).with_style(style)
}

/// Writes one output, without the end of the prompt that it begins with.
fn write(
    format: Format,
    tokens: &Tokens,
    healed: &str,
    draw: &Draw,
    speculation: Option<SpeculationLine>,
    out: &mut dyn Write,
) -> Result<()> {
    let text = tokens.decode(&draw.tokens);
    // An output that was cut off may end inside of it.
    let text = text.strip_prefix(healed).unwrap_or_default();
    let how = match draw.origin {
        Origin::Proposed => "proposed",
        Origin::Accepted => "accepted",
        Origin::Resampled => "resampled",
    };
    let finish = match draw.finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
    };
    match format {
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
