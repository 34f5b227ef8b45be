//! Parameters of methods as flags of their own, as in the first release: `--disc-k 4` is `--sampler disc:k=4`.
//!
//! Scripts use them, so they are read; `--help` does not list them. Each is one row of a table: the methods that read
//! it, and the parameter that it is.

use crate::{Method, MethodInfo};
use clap::Args;

use crate::command_line::error::{Failure, Result};

#[derive(Debug, Args)]
pub(crate) struct LegacyArgs {
    #[arg(long, hide = true, value_name = "K", value_parser = parameter("disc", "k"))]
    disc_k: Option<String>,
    #[arg(long, hide = true, value_name = "M", value_parser = parameter("disc", "top_m"))]
    disc_top_m: Option<String>,
    #[arg(long, hide = true, value_name = "FORM", value_parser = parameter("disc", "form"))]
    disc_form: Option<String>,
    #[arg(long, hide = true, value_name = "M", value_parser = parameter("asap", "iterations"))]
    asap_iterations: Option<String>,
    #[arg(long, hide = true, value_name = "N", value_parser = parameter("smc", "n"))]
    smc_particles: Option<String>,
    #[arg(long, hide = true, value_name = "T", value_parser = parameter("smc", "threshold"))]
    smc_threshold: Option<String>,
    #[arg(long, hide = true)]
    smc_twisted: bool,
    #[arg(long, hide = true, value_name = "K", value_parser = parameter("mcmc", "steps"))]
    mcmc_steps: Option<String>,
    #[arg(long, hide = true, value_name = "CUT", value_parser = parameter("mcmc", "cut"))]
    mcmc_cut: Option<String>,
    #[arg(long, hide = true, value_name = "K", value_parser = parameter("beam", "n"))]
    beams: Option<String>,
    #[arg(long, hide = true, value_name = "N", value_parser = parameter("rejection", "tries"))]
    max_tries: Option<String>,
    #[arg(long, hide = true, value_name = "D", value_parser = parameter("mentored", "kl"))]
    mentored_kl: Option<String>,
    #[arg(long, hide = true, value_name = "BUDGET", value_parser = parameter("mentored", "budget"))]
    mentored_budget: Option<String>,
    #[arg(long, hide = true, value_name = "auto|N", value_parser = parameter("speculative", "length"))]
    draft_length: Option<String>,
}

/// The parser of a flag: the limits are those of the parameter.
pub(crate) fn parameter(
    method: &'static str,
    name: &'static str,
) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync + 'static {
    let parameter = MethodInfo::find(method).and_then(|row| row.parameter(name));
    let kind = &parameter.unwrap_or_else(|| panic!("{method} has no parameter {name}")).kind;
    move |value| {
        // The first name of that form.
        let value = if value == "fresh" { "published" } else { value };
        kind.check(value).map(|()| value.to_owned())
    }
}

/// The methods that give up after a number of tries.
const REJECTING: &[&str] = &["rejection", "rsft", "ars", "cars", "asap", "awrs", "smc", "mcmc"];

/// The methods that draft in each command.
pub(crate) const DRAFTING: &[&str] = &["speculative", "mentored", "rejection", "ars", "cars", "asap", "disc"];
pub(crate) const DRAFTING_IN_AUDITS: &[&str] = &["speculative", "mentored"];

/// A flag that is given: its name, the methods that read it, the parameter that it is, and its value.
struct Flag<'a> {
    name: &'static str,
    readers: &'static [&'static str],
    parameter: &'static str,
    value: &'a str,
}

/// A method that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    /// The reason, where a flag has decided which method `auto` is.
    pub(crate) why: Option<&'static str>,
}

impl LegacyArgs {
    fn flags(&self, drafting: &'static [&'static str]) -> Vec<Flag<'_>> {
        let disc: &[&str] = &["disc"];
        let (asap, smc, mcmc): (&[&str], &[&str], &[&str]) = (&["asap"], &["smc"], &["mcmc"]);
        let (beam, mentored): (&[&str], &[&str]) = (&["beam"], &["mentored"]);
        let all = [
            ("--disc-k", disc, "k", self.disc_k.as_deref()),
            ("--disc-top-m", disc, "top_m", self.disc_top_m.as_deref()),
            ("--disc-form", disc, "form", self.disc_form.as_deref()),
            ("--asap-iterations", asap, "iterations", self.asap_iterations.as_deref()),
            ("--smc-particles", smc, "n", self.smc_particles.as_deref()),
            ("--smc-threshold", smc, "threshold", self.smc_threshold.as_deref()),
            ("--smc-twisted", smc, "twisted", self.smc_twisted.then_some("true")),
            ("--mcmc-steps", mcmc, "steps", self.mcmc_steps.as_deref()),
            ("--mcmc-cut", mcmc, "cut", self.mcmc_cut.as_deref()),
            ("--beams", beam, "n", self.beams.as_deref()),
            ("--max-tries", REJECTING, "tries", self.max_tries.as_deref()),
            ("--mentored-kl", mentored, "kl", self.mentored_kl.as_deref()),
            ("--mentored-budget", mentored, "budget", self.mentored_budget.as_deref()),
            ("--draft-length", drafting, "length", self.draft_length.as_deref()),
        ];
        let given = all.into_iter().filter_map(|(name, readers, parameter, value)| {
            value.map(|value| Flag { name, readers, parameter, value })
        });
        given.collect()
    }

    /// The methods that `texts` name, each with the flags that are parameters of it. A flag that none of them reads
    /// is refused. For about `outputs` outputs of a task that may be unconstrained.
    pub(crate) fn methods(
        &self,
        texts: &[&str],
        unconstrained: bool,
        drafting: &'static [&'static str],
    ) -> Result<Vec<Asked>> {
        let flags = self.flags(drafting);
        let named: Vec<(String, Option<&'static str>)> =
            texts.iter().map(|text| self.promoted(text, unconstrained)).collect();
        for flag in &flags {
            if !named.iter().any(|(text, _)| flag.readers.contains(&name(text))) {
                let chosen = |text: &str| match name(text) {
                    "auto" => text.parse().map_or_else(
                        |_| text.to_owned(),
                        |method: Method| method.resolve(unconstrained).0.name().to_owned(),
                    ),
                    name => name.to_owned(),
                };
                let names: Vec<String> = named.iter().map(|(text, _)| chosen(text)).collect();
                return Err(unread(flag.name, flag.readers, &names.join(", ")));
            }
        }
        let asked = named.into_iter().map(|(mut text, why)| {
            for flag in flags.iter().filter(|flag| flag.readers.contains(&name(&text))).collect::<Vec<_>>() {
                text.push(if text.contains(':') { ',' } else { ':' });
                text.push_str(&format!("{}={}", flag.parameter, flag.value));
            }
            Ok(Asked { method: text.parse().map_err(crate::Error::from)?, why })
        });
        asked.collect()
    }

    /// The text of a method. A flag says which method `auto` is, where it is not masked sampling anyway.
    fn promoted(&self, text: &str, unconstrained: bool) -> (String, Option<&'static str>) {
        let is_auto = text.trim() == "auto" && !unconstrained;
        if is_auto && (self.disc_k.is_some() || self.disc_top_m.is_some() || self.disc_form.is_some()) {
            return ("disc".to_owned(), Some("parameters of it are given"));
        }
        if is_auto && self.max_tries.is_some() {
            let why = "a number of tries is given, and of exact samplers it needs the fewest";
            return ("cars".to_owned(), Some(why));
        }
        (text.to_owned(), None)
    }
}

/// The name of a method without its parameters.
pub(crate) fn name(text: &str) -> &str {
    text.split(':').next().unwrap_or_default().trim()
}

/// An option that none of the samplers reads.
pub(crate) fn unread(flag: &str, readers: &[&str], names: &str) -> Failure {
    Failure::input(format!(
        "{flag} is for --sampler {}, and not for {names}: leave it out, or name a sampler that reads it",
        readers.join(", ")
    ))
}

/// The texts of the methods in a list. A comma joins methods and parameters alike; a part that names no method is a
/// parameter of the method before it, if that has any.
pub(crate) fn list(text: &str) -> Vec<String> {
    let mut methods: Vec<String> = Vec::new();
    for part in text.split(',') {
        match methods.last_mut() {
            Some(last) if last.contains(':') && MethodInfo::find(name(part)).is_none() => {
                last.push(',');
                last.push_str(part);
            }
            _ => methods.push(part.trim().to_owned()),
        }
    }
    methods
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_methods_keeps_their_parameters() {
        assert_eq!(list("masked,smc:n=10,twisted,cars"), ["masked", "smc:n=10,twisted", "cars"]);
        assert_eq!(list("mentored:kl=0.1,disc:k=3"), ["mentored:kl=0.1", "disc:k=3"]);
        assert_eq!(list("masked,fair"), ["masked", "fair"]);
    }
}
