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
        This page has the texts of `unskew --help` and of `unskew COMMAND --help`. \
        [The command line by example](../command-line.md) shows them at work.\n"
        .to_owned();
    describe(&mut command, "unskew", &mut text);
    fs::write(folder.join("options.md"), text)
}

/// Adds the help of a command, and of those below it.
fn describe(command: &mut Command, name: &str, out: &mut String) {
    let help = command.render_long_help().to_string();
    let lines: Vec<String> = help.trim().lines().map(folded).collect();
    *out += &format!("\n## {name}\n\n````text\n{}\n````\n", lines.join("\n"));
    for below in
        command.get_subcommands_mut().filter(|below| below.get_name() != "help" && !below.is_hide_set())
    {
        let name = format!("{name} {}", below.get_name());
        describe(below, &name, out);
    }
}

/// A line in lines of at most as many characters as a page has room for, where there are spaces. The text goes on below
/// where it began, which in a list is beside the names.
fn folded(line: &str) -> String {
    const ROOM: usize = 92;
    let begins = line.len() - line.trim_start().len();
    let beside = line[begins..].find("  ").map(|gap| {
        let rest = &line[begins + gap..];
        begins + gap + rest.len() - rest.trim_start().len()
    });
    let indent = beside.filter(|at| *at < ROOM / 3).unwrap_or(begins);
    let (mut out, mut width) = (line[..indent].to_owned(), indent);
    for (index, word) in line[indent..].split(' ').enumerate() {
        if index > 0 && width + 1 + word.chars().count() > ROOM {
            out += &format!("\n{}", " ".repeat(indent));
            width = indent;
        } else if index > 0 {
            out.push(' ');
            width += 1;
        }
        out += word;
        width += word.chars().count();
    }
    out
}

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).ok_or_else(|| io::Error::other("give a folder"))?;
    write(Path::new(&folder))
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn long_lines_go_on_below_where_their_text_began() {
        let words = "word ".repeat(30);
        for (begin, indent) in [("      ", 6), ("  audit       ", 14)] {
            let text = folded(format!("{begin}{words}").trim_end());
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.len() == 2 && lines.iter().all(|line| line.len() <= 92), "{text}");
            assert!(lines[1].starts_with(&format!("{}word", " ".repeat(indent))), "{text}");
            let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(joined, format!("{begin}{words}").split_whitespace().collect::<Vec<_>>().join(" "));
        }
        assert_eq!(folded("      --prompt <TEXT>"), "      --prompt <TEXT>");
    }
}
