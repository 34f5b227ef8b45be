//! `unskew audit`: how far samplers are from the model's own distribution under a constraint, and their cost.
//!
//! The measures and the page are the facade's (`unskew::audit`). The distribution of a table model is enumerated, and
//! the distances are from it.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io::Write,
    num::NonZeroUsize,
};

use crate::{
    Draft, Method, Model, Request,
    audit::{Asked, Audit, Line, Sampled},
    core::ExactDistribution,
};

use super::write_json;
use crate::command_line::{
    args::{AuditArgs, Format, methods},
    error::{Failure, Result},
    inputs, interrupt, models,
    plain::say,
    progress, prompts,
};

/// The most prefixes of outputs that are looked at for the exact distribution, where the user says nothing.
const MAX_PREFIXES: usize = 200_000;

/// The methods of an audit, each with its text; none of them is `auto`.
fn methods(args: &AuditArgs) -> Result<Vec<(String, Method)>> {
    let texts = methods::list(&args.samplers);
    if texts.iter().any(|text| methods::name(text) == "auto") {
        return Err(Failure::input("--samplers names samplers; auto is the choice of one of them"));
    }
    let parsed = texts.into_iter().map(|text| text.parse().map(|method| (text, method)));
    let methods: Vec<(String, Method)> = parsed.collect::<Result<_, _>>().map_err(crate::Error::from)?;
    if args.options.draft_model.is_some() && !methods.iter().any(|(_, method)| method.needs_draft()) {
        let names: Vec<&str> = methods.iter().map(|(_, method)| method.name()).collect();
        return Err(Failure::input(format!(
            "--draft-model is for --sampler speculative, mentored, and not for {}: leave it out, or name a sampler that reads it",
            names.join(", ")
        )));
    }
    Ok(methods)
}

pub(crate) fn audit(args: &AuditArgs, out: &mut dyn Write) -> Result<()> {
    let spec = args.constraint.spec()?;
    let methods = methods(args)?;
    let model = models::load(&args.model);
    if args.max_prefixes.is_some() && !model.as_ref().is_ok_and(Model::is_table) {
        return Err(Failure::input(
            "--max-prefixes bounds the search for the exact distribution, which only a table model has; leave it out, or give \
             --model table:FILE",
        ));
    }
    // The page is written at the end of minutes of work: see now whether it can be.
    if let Some(path) = &args.out {
        let draft = inputs::of_draft(args.options.draft_model.as_deref());
        let constraint = inputs::of_constraint(&spec, args.constraint.described());
        inputs::check_output(path, &[inputs::of_model(&args.model), constraint, draft].concat())?;
    }
    let model = model?;
    if !model.has_ids() {
        return Err(Failure::input(
            "an audit compares the probabilities of sequences of tokens: give the server's --tokenizer, and a server that gives the tokens \
             of its outputs (vLLM, SGLang, llama.cpp)",
        ));
    }
    if args.out.is_some() && model.is_texts() {
        return Err(Failure::input(
            "--out shows the mass that a mask leaves at each token, which needs rows of log-probabilities, and this server gives none; \
             leave it out",
        ));
    }
    let seed = args.seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
    let prompt = prompts::one(&args.prompt, args.chat, &args.constraint.tools)?;
    let request = model.prompt("").after(prompt)?.seed(seed).observe(progress::hearer());
    let request = request.max_tokens(args.max_tokens.map(NonZeroUsize::get));
    let draft = args.options.draft()?;
    let request = args.options.apply(request)?.draft(draft.clone());
    let request = request.constrain(spec.clone())?;
    for (_, method) in &methods {
        with_draft(&request, method, draft.as_ref()).check(method)?;
    }
    say(format_args!("{spec}; {} samples of each sampler, seed {seed}", args.samples));

    let exact = exact(args, &model, &request)?;
    let mut drawn = Vec::new();
    let cancel = interrupt::watch()?.cancel();
    let request = request.cancel(cancel.clone());
    for (label, method) in &methods {
        let sampled = draw(args, with_draft(&request, method, draft.as_ref()), *method)?;
        let positions: u64 = sampled.outputs.iter().map(|output| output.cost.positions).sum();
        say(format_args!("{label}: {} outputs, {positions} positions", sampled.outputs.len()));
        drawn.push(sampled.labelled(label));
        if cancel.is_cancelled() {
            break;
        }
    }
    if drawn.iter().flat_map(|drawn| &drawn.outputs).any(|output| output.log_prob.is_nan()) {
        return Err(Failure::input(
            "the server gives no log-probabilities of its outputs here, and distances are made of them; --temperature 1 without --chat has \
             them with vLLM, SGLang and llama.cpp",
        ));
    }
    let audit = Audit::new(&drawn, exact.as_ref(), model.tokens());
    let lines = audit.lines();
    match args.format {
        Format::Jsonl => lines.iter().try_for_each(|line| write_json(line, out))?,
        Format::Text => {
            table(&lines, exact.as_ref(), audit.mass(), out)?;
            recommend(&lines, out)?;
        }
    }
    if let Some(path) = &args.out {
        let constraint = spec.to_string();
        let asked =
            Asked { constraint: &constraint, prompt: &args.prompt, seed, samples: args.samples.get() };
        let page = audit.html(asked, request.task()?)?;
        unskew_files::write(path, page.as_bytes()).map_err(|error| Failure::bad(&error))?;
        say(format_args!("report written to {}", path.display()));
    }
    if cancel.is_cancelled() {
        return Err(Failure::Interrupted(drawn.iter().map(|drawn| drawn.outputs.len()).sum()));
    }
    Ok(())
}

/// The request of a method: in an audit, only the methods that cannot be without a draft have one.
fn with_draft(request: &Request, method: &Method, draft: Option<&Draft>) -> Request {
    request.clone().draft(draft.filter(|_| method.needs_draft()).cloned())
}

/// The model's own distribution under the constraint, where it can be enumerated.
fn exact(args: &AuditArgs, model: &Model, request: &Request) -> Result<Option<ExactDistribution>> {
    if !model.is_table() {
        return Ok(None);
    }
    let limit = args.max_prefixes.unwrap_or(MAX_PREFIXES);
    let mut task = request.task()?;
    let outputs = ExactDistribution::enumerate(
        &mut task.model,
        &task.constraint,
        &task.prompt,
        &task.end,
        task.max_tokens,
        limit,
    );
    Ok(outputs
        .inspect_err(|error| say(format_args!("warning: {error}; the distances are from observed outputs")))
        .ok())
}

/// Draws the outputs of one sampler.
fn draw(args: &AuditArgs, request: Request, method: Method) -> Result<Sampled> {
    let samples = args.samples.get();
    let bar = progress::of_sampler(method.name(), samples);
    let sampled = Sampled::draw(request, method, samples, |drawn| bar.set_position(drawn as u64))?;
    bar.finish_and_clear();
    Ok(sampled)
}

/// The frontier of divergence against positions, from the cheapest sampler on, and the sampler that is recommended.
fn recommend(lines: &[Line], out: &mut dyn Write) -> Result<()> {
    let Some(best) = lines.iter().find(|line| line.recommended) else { return Ok(()) };
    let mut frontier: Vec<&Line> = lines.iter().filter(|line| line.frontier).collect();
    frontier.sort_by(|left, right| left.lm_calls_per_sample.total_cmp(&right.lm_calls_per_sample));
    let point = |line: &&Line| {
        let kl = line.kl.unwrap_or(f64::NAN);
        format!("{} ({:.2} positions, KL {kl:.3})", line.label, line.lm_calls_per_sample)
    };
    let points: Vec<String> = frontier.iter().map(point).collect();
    writeln!(out, "frontier: {}", points.join("; "))?;
    writeln!(
        out,
        "recommended: --sampler {}, the cheapest whose KL is the least within the noise",
        best.label
    )?;
    Ok(())
}

fn table(
    lines: &[Line],
    exact: Option<&ExactDistribution>,
    mass: Option<f64>,
    out: &mut dyn Write,
) -> Result<()> {
    match exact {
        Some(outputs) => {
            writeln!(
                out,
                "{} outputs; the model satisfies the constraint with probability {:.3e}",
                outputs.len(),
                outputs.mass()
            )?;
        }
        None => {
            writeln!(out, "distances are from the model's probabilities of the outputs that were observed")?;
            if let Some(mass) = mass {
                writeln!(out, "the model satisfies the constraint with probability {mass:.3e}, about")?;
            }
        }
    }
    writeln!(
        out,
        "distances are of texts; KL tokens is that of sequences of tokens, which spell one text in several ways"
    )?;
    writeln!(
        out,
        "{:10} {:>8} {:>7} {:>9} {:>9} {:>10} {:>11} {:>10} {:>9}",
        "sampler", "samples", "TV", "KL", "(noise)", "KL tokens", "positions", "accepted", "ESS"
    )?;
    for line in lines {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        };
        writeln!(
            out,
            "{:10} {:>8} {:>7} {:>9} {:>9.4} {:>10} {:>11.2} {:>9.1}% {:>9.1}",
            line.label,
            line.samples,
            number(line.tv_text, 3),
            number(line.kl_text, 4),
            line.kl_text_noise,
            number(line.kl_by_weights.or(line.kl), 4),
            line.lm_calls_per_sample,
            line.acceptance * 100.0,
            line.ess
        )?;
        if line.kl_weighted.is_some() {
            let (kl, tv) = (number(line.kl_weighted, 4), number(line.tv_weighted, 3));
            writeln!(out, "{:10} {:>8} {tv:>7} {:>9} {:>9} {kl:>10}", "", "weighted", "", "")?;
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
