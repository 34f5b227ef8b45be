//! Records: `benches/record/NAME.md` is the newest report of a suite, with machine, commit and command in its head, and
//! `history.csv` keeps the percentiles of all reports. Git keeps the older reports.
//!
//! A report is Markdown for people. The history is taken from its tables, so that one text says everything that was
//! measured and a report of any suite, however old, can be added.

pub(crate) mod figures;
pub(crate) mod plot;

use std::{fmt::Write as _, fs, path::PathBuf, process::Command};

use crate::engine::PEERS;

/// The columns of a table that go into the history.
const VALUES: [&str; 7] = ["n", "mean", "p50", "p90", "p99", "p99.9", "max"];

const HEAD: &str = "date,commit,record,section,metric,n,mean,p50,p90,p99,p99.9,max\n";

/// Writes `report` into `benches/record` in place of the one with this name, and adds its percentiles to the history.
#[allow(clippy::print_stderr, reason = "says where the report is")]
pub(crate) fn record(name: &str, report: &str) -> Result<(), String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(format!("--record={name}: a name is of letters, digits and hyphens"));
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("record");
    let (file, history) = (folder.join(format!("{name}.md")), folder.join("history.csv"));
    let lines = history_of(name, report);
    let before = fs::read_to_string(&history).unwrap_or_else(|_| HEAD.to_owned());
    fs::write(&file, report).map_err(|error| format!("{}: {error}", file.display()))?;
    fs::write(&history, before + &lines).map_err(|error| format!("{}: {error}", history.display()))?;
    eprintln!("written to benches/record/{name}.md and history.csv");
    Ok(())
}

/// A line for each row of each table with percentiles, but for tables of ratios, of peers and of single cases.
fn history_of(name: &str, report: &str) -> String {
    let title = report.lines().next().unwrap_or_default();
    let date = title.rsplit(' ').next().unwrap_or_default();
    let (_, commit) = report.split_once("Commit: ").unwrap_or_default();
    let end = commit.find([',', '.']).unwrap_or(commit.len());
    let changed = if commit[end..].starts_with(", with changes") { "+" } else { "" };
    let (mut out, mut section, mut heading) = (String::new(), "", None);
    for line in report.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title.split(": ").next().and_then(|title| title.split(", ").next()).unwrap_or_default();
        }
        let Some(inside) = line.strip_prefix('|') else {
            heading = None;
            continue;
        };
        let cells: Vec<&str> = inside.trim_end_matches('|').split('|').map(str::trim).collect();
        let Some(columns) = &heading else {
            heading = Some(cells);
            continue;
        };
        if let Some(row) = row(columns, &cells) {
            let _ = writeln!(out, "{date},{}{changed},{name},{},{row}", &commit[..end], quoted(section));
        }
    }
    out
}

/// The metric and the values of a row, as fields of a line; `None` where it has no percentiles, or belongs to a table
/// that is left out.
fn row(columns: &[&str], cells: &[&str]) -> Option<String> {
    let number = |at: usize| Some(cells.get(at)?.replace(',', "")).filter(|text| text.parse::<f64>().is_ok());
    let values = VALUES.map(|name| {
        let is_named = |column: &&str| **column == *name || column.ends_with(&format!(" {name}"));
        let at = columns.iter().position(is_named)?;
        number(at).map(|number| (at, number))
    });
    let is_of_ratios = columns[0].contains(" / ");
    let is_of_cases = columns.iter().any(|column| column.contains(": "));
    if values[2].is_none() || is_of_ratios || is_of_cases {
        return None;
    }
    // A number in front of the values is a measure of its own, but for the first, which names the row.
    let begin = values.iter().flatten().map(|(at, _)| *at).min()?;
    let labels = (0..begin).filter(|at| *at == 0 || number(*at).is_none());
    let metric: Vec<String> =
        labels.map(|at| format!("{} {}", columns[at], cells[at]).trim().to_owned()).collect();
    let metric = metric.join("; ");
    if metric.split([' ', ',']).any(|word| PEERS.contains(&word)) {
        return None;
    }
    let values = values.map(|value| value.map_or_else(String::new, |(_, number)| number));
    Some(format!("{},{}", quoted(&metric), values.join(",")))
}

/// A field of a line.
fn quoted(text: &str) -> String {
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

pub(crate) fn today() -> String {
    output("date", &["+%F"])
}

/// The command that a report is of, as it is typed but for the places of files.
pub(crate) fn command() -> String {
    let data = if std::env::var_os("UNSKEW_DATA").is_some() { "UNSKEW_DATA=... " } else { "" };
    let args = std::env::args().skip(1).map(|arg| if arg.contains('/') { "...".to_owned() } else { arg });
    format!("Command: `{data}cargo xtask bench {}`", args.collect::<Vec<_>>().join(" "))
}

/// The machine, the compiler and the commit, on a line.
pub(crate) fn host() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let value = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
        value.map_or("unknown".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let cpu = field(&read("/proc/cpuinfo"), "model name");
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let gigabytes = memory.trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1e6;
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let commit = output("git", &["-C", root, "rev-parse", "--short", "HEAD"]);
    let changed = output("git", &["-C", root, "status", "--porcelain", "--untracked-files=no"]);
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    let changed = if changed.is_empty() { "" } else { ", with changes" };
    format!(
        "Machine: {cpu}, {cores} cores, {gigabytes:.0} GB, load at the end {load}; {}, {profile} profile. Commit: \
         {commit}{changed}.\n",
        output("rustc", &["--version"]),
    )
}

/// The output of a program, without the line break; `unknown` if it cannot be run.
fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map_or("unknown".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_report_go_into_the_history() {
        let report = "# Engines, 2026-11-23\n\nMachine: x. Commit: abc1234, with changes.\n\n## cl100k: 100 ids\n\n\
            | unskew | n | mean | p50 | p90 | p99 | p99.9 | max |\n|---|--:|--:|--:|--:|--:|--:|--:|\n\
            | mask, first visit | 9 | 1.5 | 1,234 | 2 | 3 | 4 | 5 |\n| nothing | 0 | - | - | - | - | - | - |\n\n\
            | llguidance | n | mean | p50 | p90 | p99 | p99.9 | max |\n|---|--:|--:|--:|--:|--:|--:|--:|\n\
            | commit | 9 | 1.5 | 1 | 2 | 3 | 4 | 5 |\n\n\
            | unskew / llguidance | mean | p50 |\n|---|--:|--:|\n| mask | 0.1 | 0.2 |\n\n\
            | mask at depth | structure | n | p50 | p99 |\n|---|---|--:|--:|--:|\n| 0 | columns (ours) | 7 | 0.5 | 0.6 |\n";
        let lines = history_of("regex", report);
        assert_eq!(
            lines,
            "2026-11-23,abc1234+,regex,cl100k,\"unskew mask, first visit\",9,1.5,1234,2,3,4,5\n\
             2026-11-23,abc1234+,regex,cl100k,mask at depth 0; structure columns (ours),7,,0.5,,0.6,,\n"
        );
    }

    #[test]
    fn names_of_records_are_plain() {
        assert!(record("../x", "").unwrap_err().contains("--record=../x"));
    }
}
