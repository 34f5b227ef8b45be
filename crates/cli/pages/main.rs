//! Pages of a manual, completions of shells, and a page with all options: `unskew-pages FOLDER`.
//!
//! They are made of the options themselves, and not kept in the repository, where they would grow old. `cargo xtask
//! pages` runs it, a release puts the first two into archives, and `cargo xtask site` has the third.

use std::{fs, io, path::Path};

use clap::Command;
use clap_complete::Shell;

const SHELLS: [Shell; 5] = [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh];

/// Writes `man/unskew*.1`, a page for each command, `completions/` with a file for each shell, and `options.md`.
fn write(folder: &Path) -> io::Result<()> {
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    fs::create_dir_all(&man)?;
    clap_mangen::generate_to(unskew::command_line::command(), &man)?;
    fs::create_dir_all(&completions)?;
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut unskew::command_line::command(), "unskew", &completions)?;
    }
    let mut command = unskew::command_line::command();
    // So that the help of a command is the one that the program prints, with its whole name.
    command.build();
    let mut text = "# All options of the command line\n\n\
        What the program says of itself: `unskew --help`, and `unskew COMMAND --help`. \
        [The command line by example](../command-line.md) shows them at work.\n"
        .to_owned();
    describe(&mut command, "unskew", &mut text);
    fs::write(folder.join("options.md"), text)
}

/// Adds the help of a command, and of those below it.
fn describe(command: &mut Command, name: &str, out: &mut String) {
    let help = command.render_long_help().to_string();
    *out += &format!("\n## {name}\n\n````text\n{}\n````\n", help.trim());
    for below in
        command.get_subcommands_mut().filter(|below| below.get_name() != "help" && !below.is_hide_set())
    {
        let name = format!("{name} {}", below.get_name());
        describe(below, &name, out);
    }
}

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).ok_or_else(|| io::Error::other("give a folder"))?;
    write(Path::new(&folder))
}
