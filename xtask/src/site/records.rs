//! The records of measurements as pages: a table of all with machine and commit, and the history of their percentiles.
//!
//! A record is a page as it is. The table is read from its first lines, which every suite writes alike
//! (`benches/src`); what a record does not say stays empty.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use crate::Result;

const FOLDER: &str = "benches/record";

/// The fewest runs of a line of the history that is shown.
const FEWEST: usize = 3;

/// The generated pages, each with its path in the repository, its path in the site, its title and its text. The first
/// is the table, and the second the history.
pub(super) fn pages(root: &Path) -> Result<Vec<[String; 4]>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join(FOLDER))? {
        let name = entry?.file_name().into_string().map_err(|name| format!("{name:?} is no UTF-8"))?;
        names.extend(name.strip_suffix(".md").map(str::to_owned));
    }
    names.sort();
    let mut table = "# Benchmark records\n\nThe newest report of each suite, as the run wrote it. The figures of other pages are taken from these. \
        [The history](history.md) has the percentiles of older runs too.\n\n| record | subject | date | machine | commit |\n|---|---|---|---|---|\n"
        .to_owned();
    let mut records = Vec::new();
    for name in names {
        let text = fs::read_to_string(root.join(FOLDER).join(format!("{name}.md")))?;
        let facts = facts(&text);
        writeln!(
            table,
            "| [{name}]({name}.md) | {} | {} | {} | {} |",
            facts.title, facts.date, facts.machine, facts.commit
        )?;
        records.push([format!("{FOLDER}/{name}.md"), format!("{FOLDER}/{name}.md"), name, escaped(&text)]);
    }
    let history = history(&fs::read_to_string(root.join(FOLDER).join("history.csv"))?)?;
    let mut pages = vec![
        [FOLDER.to_owned(), format!("{FOLDER}/index.md"), "Benchmark records".to_owned(), table],
        [
            format!("{FOLDER}/history.csv"),
            format!("{FOLDER}/history.md"),
            "The history of percentiles".to_owned(),
            history,
        ],
    ];
    pages.append(&mut records);
    Ok(pages)
}

/// A record whose angle brackets are text: grammars have some.
fn escaped(text: &str) -> String {
    let line = |line: &str| {
        let parts = line.split('`').enumerate();
        let parts = parts
            .map(|(index, part)| if index % 2 == 0 { part.replace('<', "&lt;") } else { part.to_owned() });
        parts.collect::<Vec<_>>().join("`")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// What the first lines of a record say.
#[derive(Default)]
struct Facts {
    title: String,
    date: String,
    machine: String,
    commit: String,
}

fn facts(text: &str) -> Facts {
    let heading = text.lines().next().unwrap_or_default().trim_start_matches("# ");
    let is_date = |date: &&str| date.len() == 10 && date.starts_with("20");
    let (title, date) = match heading.rsplit_once(", ").filter(|(_, date)| is_date(date)) {
        Some((title, date)) => (title, date),
        None => (heading, ""),
    };
    // The lines before the first table or heading, as one.
    let head = text.lines().skip(1).take_while(|line| !line.starts_with(['#', '|']));
    let head = head.take(12).collect::<Vec<_>>().join(" ");
    let after = |key: &str, ends: &[&str]| {
        let rest = head.split_once(key).map_or("", |(_, rest)| rest);
        let end = ends.iter().filter_map(|end| rest.find(end)).min();
        end.map_or(rest, |end| &rest[..end]).trim().trim_end_matches('.').replace('|', "/")
    };
    Facts {
        title: title.to_owned(),
        date: date.replace('-', "\u{2011}"),
        machine: after("Machine: ", &[", load", "; ", ". "]),
        commit: after("Commit: ", &[". ", " up to", "  "]),
    }
}

/// A line of the history: what was measured in one run, in the order of the file.
struct Run<'text> {
    date: &'text str,
    commit: &'text str,
    p50: &'text str,
    p99: &'text str,
}

/// The page of the history: for each suite a table of what was measured several times.
fn history(csv: &str) -> Result<String> {
    let mut suites: BTreeMap<&str, BTreeMap<(&str, String), Vec<Run<'_>>>> = BTreeMap::new();
    let mut count = 0;
    for line in csv.lines().skip(1) {
        let fields = fields(line);
        let [date, commit, record, section, metric, _, _, p50, _, p99, ..] = fields[..] else {
            return Err(format!("a line of the history has {} fields: {line}", fields.len()).into());
        };
        count += 1;
        let runs = suites.entry(record).or_default().entry((section, metric.replace('|', "/"))).or_default();
        runs.push(Run { date, commit, p50, p99 });
    }
    let mut page = format!(
        "# The history of percentiles\n\nEach recorded run adds its percentiles to <a href=\"history.csv\">history.csv</a>, which has {count} lines. This page shows what \
         was measured {FEWEST} times or more: the first run and the newest one, in the unit of the record (microseconds where it names none), and the 99th \
         percentile of all runs as a line from left to right, its logarithm upwards. Machines and their load differ between runs: a step of less than a half \
         says little, and the records say what ran beside.\n"
    );
    for (suite, metrics) in suites {
        let shown: Vec<_> = metrics.into_iter().filter(|(_, runs)| runs.len() >= FEWEST).collect();
        if shown.is_empty() {
            continue;
        }
        write!(
            page,
            "\n## {suite}\n\n| measured | runs | median | 99th percentile | over the runs |\n|---|--:|--:|--:|---|\n"
        )?;
        for ((section, metric), runs) in shown {
            let (first, last) = (&runs[0], &runs[runs.len() - 1]);
            let of = if section.is_empty() { String::new() } else { format!(" ({section})") };
            let line = sparkline(&runs);
            let (count, p50, p99) = (runs.len(), [first.p50, last.p50], [first.p99, last.p99]);
            writeln!(
                page,
                "| {metric}{of} | {count} | {} → {} | {} → {} | {line} |",
                p50[0], p50[1], p99[0], p99[1]
            )?;
        }
    }
    Ok(page)
}

/// The fields of a line of CSV. A quoted one has no quotes inside.
fn fields(line: &str) -> Vec<&str> {
    let (mut found, mut rest) = (Vec::new(), line);
    loop {
        let (field, after) = match rest.strip_prefix('"').and_then(|quoted| quoted.split_once('"')) {
            Some((field, after)) => (field, after),
            None => rest.split_at(rest.find(',').unwrap_or(rest.len())),
        };
        found.push(field);
        match after.strip_prefix(',') {
            Some(after) => rest = after,
            None => return found,
        }
    }
}

/// The 99th percentiles of the runs as a small drawing.
fn sparkline(runs: &[Run<'_>]) -> String {
    const WIDTH: f64 = 120.0;
    const HEIGHT: f64 = 22.0;
    let values: Vec<f64> =
        runs.iter().filter_map(|run| run.p99.parse::<f64>().ok()).map(|value| value.max(1e-6).ln()).collect();
    let (least, most) =
        values.iter().fold((f64::MAX, f64::MIN), |(least, most), &value| (least.min(value), most.max(value)));
    let place = |(index, value): (usize, &f64)| {
        let x = 2.0 + (WIDTH - 4.0) * index as f64 / (values.len() - 1).max(1) as f64;
        let y =
            HEIGHT - 3.0 - (HEIGHT - 6.0) * if most > least { (value - least) / (most - least) } else { 0.5 };
        format!("{x:.0},{y:.1}")
    };
    let places: Vec<String> = values.iter().enumerate().map(place).collect();
    let (Some(end), Some(first), Some(last)) = (places.last(), runs.first(), runs.last()) else {
        return String::new();
    };
    let (x, y) = end.split_once(',').unwrap_or_default();
    let title = format!("{} ({}) to {} ({})", first.date, first.commit, last.date, last.commit);
    format!(
        "<svg class=\"spark\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>\
         <polyline points=\"{}\"/><circle cx=\"{x}\" cy=\"{y}\" r=\"2\"/></svg>",
        places.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_tells_machine_and_commit() {
        let found = facts(
            "# Sets side by side, 2026-11-22\n\nMachine: AMD EPYC, 2 cores, 25 GB, load at the end 1.12; rustc 1.95.0. Commit: a2adf06, with changes.\nCommand: `x`.\n\n| a |",
        );
        assert_eq!((&*found.title, &*found.date), ("Sets side by side", "2026\u{2011}11\u{2011}22"));
        assert_eq!((&*found.machine, &*found.commit), ("AMD EPYC, 2 cores, 25 GB", "a2adf06, with changes"));
        let found = facts("# Who ends an output: both targets\n\n`python x`, two cores.\n");
        assert_eq!(
            (&*found.title, &*found.date, &*found.machine),
            ("Who ends an output: both targets", "", "")
        );
    }

    #[test]
    fn angle_brackets_are_text() {
        assert_eq!(escaped("a <b> `<c>`\n< d"), "a &lt;b> `<c>`\n&lt; d");
    }

    #[test]
    fn the_history_shows_what_was_measured_several_times() {
        let line =
            |p99: &str| format!("2026-11-21,abc,regex,cl100k,\"mask, first visit\",9,1,2,3,{p99},5,6\n");
        let csv = format!(
            "header\n{}{}{}2026-11-21,abc,sets,,once,1,1,1,1,1,1,1\n",
            line("40"),
            line("10"),
            line("20")
        );
        let page = history(&csv).unwrap();
        assert!(page.contains("| mask, first visit (cl100k) | 3 | 2 → 2 | 40 → 20 | <svg"), "{page}");
        assert!(page.contains("points=\"2,3.0 60,19.0 118,11.0\"") && !page.contains("once"), "{page}");
        assert!(history("header\na,b\n").is_err());
    }
}
