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
mod help;
mod inputs;
mod interrupt;
mod models;
mod plain;
mod progress;
mod resume;
mod sampling;
mod sets;

use std::{
    ffi::OsString,
    io::{IsTerminal, Write},
};

use clap::{Parser, error::ErrorKind};

use crate::command_line::{
    args::{Cli, Command},
    error::{Failure, one_line},
    plain::{Output, say},
};

/// Runs the command line with these arguments, the name of the program first, and returns the exit code.
///
/// Results are written to the process's standard output and messages to its standard error. `generate` and `audit`
/// catch SIGINT and SIGTERM while they draw.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
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
        Err(Failure::Other(message)) => (message, 1),
        Err(Failure::Interrupted(outputs)) => {
            (format!("interrupted after {outputs} outputs"), interrupt::EXIT_CODE)
        }
    };
    let _ = out.flush();
    say(format_args!("error: {message}"));
    code
}

/// Help and version are answers; everything else is one line and exit code 2.
fn usage(error: &clap::Error) -> u8 {
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
    say(format_args!("{} (see --help)", parts.join("; ")));
    2
}
