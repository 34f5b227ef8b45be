//! The command line of unskew; see `unskew --help`. The program `unskew` is this with the arguments of the process,
//! and so is `python -m unskew`.
//!
//! Results go to standard output, everything else to standard error. The exit code is 0 on success, 2 on bad usage or
//! bad input (with one line that names the fault, the place and the way out), 130 where a signal ended the drawing of
//! outputs (those that were drawn are written), and 1 on anything else.

mod args;
mod commands;
mod constraint;
mod error;
mod excerpt;
mod help;
mod inputs;
mod interrupt;
mod lines;
mod models;
mod plain;
mod progress;
mod prompts;
mod resume;
mod sampling;
mod sets;

use std::{
    ffi::OsString,
    io::{IsTerminal, Write},
    path::Path,
};

use clap::{ColorChoice, CommandFactory, FromArgMatches, ValueEnum, error::ErrorKind};

use crate::{
    command_line::{
        args::{Cli, Command},
        error::{Failure, one_line},
        excerpt::{Place, excerpt},
        plain::{Output, fail, set_quiet},
    },
    read,
};

/// Runs the command line with these arguments, the name of the program first, and returns the exit code.
///
/// Results are written to the process's standard output and messages to its standard error. `generate` and `audit`
/// catch SIGINT and SIGTERM while they draw.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let color = color(&arguments);
    let matches = Cli::command().color(color).try_get_matches_from(arguments);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, color),
    };
    set_quiet(cli.quiet);
    let stdout = std::io::stdout().lock();
    let is_terminal = stdout.is_terminal();
    let mut out = Output::new(std::io::BufWriter::new(stdout), is_terminal);
    let result = match &cli.command {
        Command::Generate(args) => commands::generate(args, &mut out),
        Command::Audit(args) => commands::audit(args, &mut out),
        Command::Mask(args) => commands::mask(args, &mut out),
        Command::Check(args) => commands::check(args, &mut out),
        Command::Explain(args) => commands::explain(args, &mut out),
        Command::Convert(args) => commands::convert(args, &mut out),
        Command::Logits(args) => commands::logits(args, &mut out),
        Command::Retokenize(args) => commands::retokenize(args, &mut out),
        Command::Model(command) => commands::model(command, &mut out),
        Command::Set(command) => commands::set(command, &mut out),
    };
    // Lines that were answered before an error are answers all the same.
    let result = result.and_then(|()| out.flush().map_err(Failure::from));
    let (message, code) = match result {
        Ok(()) | Err(Failure::OutputClosed) => return 0,
        Err(Failure::Rejected) => {
            let _ = out.flush();
            return 1;
        }
        Err(Failure::Input(message)) => (message, 2),
        Err(Failure::Placed(message, file, place)) => {
            let _ = out.flush();
            fail(&message, is_coloured(color));
            if !cli.quiet
                && let Some(excerpt) = shown(&cli, file.as_deref(), &place, is_coloured(color))
            {
                // Its lines are escaped.
                let _ = writeln!(std::io::stderr(), "{excerpt}");
            }
            return 2;
        }
        Err(Failure::Other(message)) => (message, 1),
        Err(Failure::Interrupted(outputs)) => {
            (format!("interrupted after {outputs} outputs"), interrupt::EXIT_CODE)
        }
    };
    let _ = out.flush();
    fail(&message, is_coloured(color));
    code
}

/// The line of the text in which a fault is: of a file, or of the constraint.
fn shown(cli: &Cli, file: Option<&Path>, place: &Place, is_coloured: bool) -> Option<String> {
    match file {
        Some(path) => {
            // A pipe gives its text once.
            let path = path.is_file().then_some(path)?;
            excerpt(&path.display().to_string(), &read::text(path).ok()?, place, is_coloured)
        }
        None => {
            let (name, text) = cli.command.constraint()?.text()?;
            excerpt(name, &text, place, is_coloured)
        }
    }
}

/// The value of `--color`, before the other options are read: their errors are coloured too.
fn color(arguments: &[OsString]) -> ColorChoice {
    let texts: Vec<&str> = arguments
        .iter()
        .map(|argument| argument.to_str().unwrap_or_default())
        .take_while(|text| *text != "--")
        .collect();
    let value = texts.iter().enumerate().find_map(|(index, text)| match text.strip_prefix("--color") {
        Some("") => texts.get(index + 1).copied(),
        Some(value) => value.strip_prefix('='),
        None => None,
    });
    value.and_then(|value| ColorChoice::from_str(value, false).ok()).unwrap_or_default()
}

/// Whether messages on standard error are coloured.
fn is_coloured(color: ColorChoice) -> bool {
    match color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            std::io::stderr().is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    }
}

/// The commands and options, for completions and pages of a manual.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Help and version are answers; everything else is one line and exit code 2.
fn usage(error: &clap::Error, color: ColorChoice) -> u8 {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return 0;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return 2;
    }
    // The message, and names like the one that is wrong; the usage after them is what `--help` shows.
    let text = error.render().to_string();
    let is_more = |part: &&str| part.starts_with("Usage") || part.starts_with("For more");
    let parts: Vec<String> = text.split("\n\n").take_while(|part| !is_more(part)).map(one_line).collect();
    let message = format!("{} (see --help)", parts.join("; "));
    fail(message.strip_prefix("error: ").unwrap_or(&message), is_coloured(color));
    2
}
