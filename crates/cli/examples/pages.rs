//! Pages of a manual and completions of shells, for a release: `cargo xtask pages FOLDER` runs it.
//!
//! They are made of the options themselves, and not kept in the repository, where they would grow old.

use std::{fs, io, path::Path};

use clap_complete::Shell;

const SHELLS: [Shell; 5] = [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh];

/// Writes `man/unskew*.1`, a page for each command, and `completions/` with a file for each shell.
pub(crate) fn write(folder: &Path) -> io::Result<()> {
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    fs::create_dir_all(&man)?;
    clap_mangen::generate_to(unskew::command_line::command(), &man)?;
    fs::create_dir_all(&completions)?;
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut unskew::command_line::command(), "unskew", &completions)?;
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).ok_or_else(|| io::Error::other("give a folder"))?;
    write(Path::new(&folder))
}
