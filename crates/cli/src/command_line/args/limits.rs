//! The largest number that each option takes, and why: one table, which every option with a number is parsed by.
//!
//! A number without a limit is a crash (a population of 10^9 outputs) or a wait without end (a chain of 10^9 steps),
//! and neither names a way out. Limits are far above useful values, and they are the same on every machine, so that a
//! command is taken everywhere.

use std::num::{NonZeroU64, NonZeroUsize};

/// The option, the largest number that it takes, and why it takes no more.
type Most = (&'static str, u64, &'static str);

const TOKENS: &str = "no vocabulary has more tokens";

/// All options whose value is one whole number, but `--seed`, which may be any, and parameters of methods, whose
/// limits are in their table.
pub(crate) const TABLE: &[Most] = &[
    ("-n", 1_000_000_000, "that many take days; run it again with another --seed for more"),
    ("--samples", 1_000_000, "all outputs of a sampler are in memory at once"),
    ("--max-tokens", 1 << 20, "all prefixes of an output are in memory at once"),
    ("--steps", 1 << 16, "all sequences that are measured are in memory at once"),
    ("--prompt-tokens", 1 << 20, "its keys and values are in memory at once"),
    ("--max-prefixes", 4_000_000, "all outputs and their probabilities are in memory at once"),
    ("--batch", 1_024, "each output holds a sequence of the model, and all are compared at each step"),
    ("--top-k", 1 << 24, TOKENS),
    ("--max-bytes", 1 << 30, "the text is in memory at once"),
    ("--skip-prompts", 1 << 40, "a file of more prompts is not read to its end"),
    ("--memory", 1_000_000, "this is in megabytes"),
];

/// A whole number that an option takes.
pub(crate) trait Count: Sized + Clone + Send + Sync + 'static {
    /// The smallest.
    const LEAST: u64;

    fn of(number: u64) -> Option<Self>;
}

macro_rules! counts {
    ($($count:ty, $least:literal;)*) => {
        $(impl Count for $count {
            const LEAST: u64 = $least;

            fn of(number: u64) -> Option<Self> {
                number.try_into().ok()
            }
        })*
    };
}

counts! { u64, 0; usize, 0; }

impl Count for NonZeroU64 {
    const LEAST: u64 = 1;

    fn of(number: u64) -> Option<Self> {
        Self::new(number)
    }
}

impl Count for NonZeroUsize {
    const LEAST: u64 = 1;

    fn of(number: u64) -> Option<Self> {
        number.try_into().ok().and_then(Self::new)
    }
}

/// The parser of the number of `option`, one of the [`TABLE`].
///
/// # Panics
///
/// If the option is not in the table.
pub(crate) fn number<N: Count>(
    option: &'static str,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static {
    let entry = TABLE.iter().find(|(name, ..)| *name == option);
    let (_, most, why) = *entry.unwrap_or_else(|| panic!("{option} has no limit"));
    move |text| {
        let number = text.parse().ok().filter(|number| (N::LEAST..=most).contains(number));
        let refusal = || format!("give a whole number from {} to {most}: {why}", N::LEAST);
        number.and_then(N::of).ok_or_else(refusal)
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::*;
    use crate::command_line::args::Cli;

    /// Options whose value is no whole number, or that say their limits themselves.
    const OTHERS: &[&str] = &[
        // Texts, names and files.
        "--prompt",
        "--prefix",
        "--text",
        "--name",
        "--subset",
        "--start",
        "--choice",
        "--prompts",
        "--tools",
        "--tool-choice",
        "--mcp",
        "--regex",
        "--regex-file",
        "--grammar",
        "--json-schema",
        "--structural-tag",
        "--set",
        "--exclude-set",
        "--lines",
        "--jsonl",
        "--out",
        "--spec",
        "--with",
        // A name and a number, within the limit of the name.
        "--limit",
        "--model",
        "--tokenizer",
        "--draft-model",
        // Names with values, parsed by its own type, which has limits.
        "--endpoint",
        "--save-trie",
        "--load-trie",
        // One of several words.
        "--format",
        "--color",
        "--tool-style",
        "--quantize",
        "--sampler",
        "--samplers",
        "--truncate",
        "--end",
        // Any number is a seed.
        "--seed",
        // Token ids, which the vocabulary bounds.
        "--ids",
        "--prefix-ids",
        // A number with a point: its range is in the table of methods.
        "--budget",
        // Numbers with a point: a range is checked where they are used.
        "--temperature",
        "--top-p",
        // Seconds, of which more are no danger.
        "--time-limit",
    ];

    fn options(command: &Command, found: &mut Vec<(String, clap::Arg)>) {
        for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            let name = match (arg.get_long(), arg.get_short()) {
                (Some(long), _) => format!("--{long}"),
                (None, Some(short)) => format!("-{short}"),
                // An argument without a name is a file.
                (None, None) => continue,
            };
            found.push((name, arg.clone()));
        }
        command.get_subcommands().for_each(|command| options(command, found));
    }

    #[test]
    fn every_option_with_a_number_has_a_limit() {
        let mut found = Vec::new();
        options(&Cli::command(), &mut found);
        assert!(found.len() > 50, "{}", found.len());
        for (name, _) in &found {
            let (limited, other) =
                (TABLE.iter().any(|(option, ..)| option == name), OTHERS.contains(&name.as_str()));
            assert!(limited != other, "{name} is in both lists, or in none");
        }
        for (option, ..) in TABLE {
            // The short name of `--samples` has a limit of its own.
            let is_there = *option == "-n" || found.iter().any(|(name, _)| name == option);
            assert!(is_there, "{option} is no option any more");
        }
    }

    #[test]
    fn numbers_are_taken_up_to_their_limit() {
        for (option, most, why) in TABLE {
            let parse = number::<NonZeroU64>(option);
            assert_eq!(parse(&most.to_string()).unwrap().get(), *most);
            for wrong in [
                "0",
                "-1",
                "",
                "1e3",
                &(most + 1).to_string(),
                "18446744073709551615",
                "9".repeat(40).as_str(),
            ] {
                let message = parse(wrong).unwrap_err();
                assert_eq!(
                    message,
                    format!("give a whole number from 1 to {most}: {why}"),
                    "{option} {wrong}"
                );
            }
            assert_eq!(number::<u64>(option)("0"), Ok(0));
        }
    }
}
