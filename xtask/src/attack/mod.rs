//! `cargo xtask attack MINUTES`: hostile inputs of every kind against the command line. (`door` has the plug-ins of
//! servers.)
//!
//! Each case is a command with files, made from a number by [`inputs`]. It runs under a limit of memory and of time,
//! and must end with success or with one error message: exit code 0, 1 or 2, and no panic, abort or signal. A case
//! that still writes outputs at the end of its time was asked for many, and is ended. The inputs of a case that
//! failed are kept, and the case can be repeated by its number.
//!
//! The program is the one that was built last, or `--program FILE`. A debug build has 60 seconds where a release
//! build needs two: it is ten times slower, and CI shares its machine.

mod door;
mod inputs;
mod random;

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::{Result, process::target};
use inputs::{Case, KINDS};

/// How a case is run.
struct Limits {
    seconds: f64,
    /// Of address space: the program and the model take a quarter of it.
    megabytes: u64,
}

/// The end of a case.
struct Ended {
    status: Option<ExitStatus>,
    /// Without a status: whether it was still writing, as who is asked for a billion outputs does.
    writes: bool,
    errors: String,
    /// Whether the answer is the verdict of `check` on a text that is no output, which is its exit code 1.
    is_verdict: bool,
    seconds: f64,
}

/// How often a kind of case came, and how it ended.
#[derive(Default)]
struct Counts {
    answered: usize,
    refused: usize,
    failed: usize,
    longest: f64,
}

pub(crate) fn attack(root: &Path, args: &[&str]) -> Result<()> {
    if let ["door", rest @ ..] = args {
        return door::door(root, rest);
    }
    let mut minutes = 2.0;
    let mut seed = 0u64;
    let mut only = None;
    let mut program = None;
    let mut limits = Limits { seconds: 0.0, megabytes: 2_048 };
    let mut args = args.iter();
    if let Some(first) = args.as_slice().first().and_then(|first| first.parse().ok()) {
        minutes = first;
        args.next();
    }
    while let Some(option) = args.next() {
        let value = args.next().ok_or_else(|| format!("{option}: a value is missing"))?;
        match *option {
            "--seed" => seed = value.parse()?,
            "--case" => only = Some(value.parse()?),
            "--program" => program = Some(std::path::absolute(value)?),
            "--seconds" => limits.seconds = value.parse()?,
            "--megabytes" => limits.megabytes = value.parse()?,
            _ => return Err(format!("{option}: no such option of attack").into()),
        }
    }
    let program = program.map_or_else(|| newest(root), Ok)?;
    if limits.seconds == 0.0 {
        limits.seconds =
            if program.components().any(|part| part.as_os_str() == "release") { 2.0 } else { 60.0 };
    }
    let folder = root.join("target/attack");
    if folder.is_dir() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    println!(
        "{} is attacked for {minutes} minutes, each case within {} s and {} MB",
        program.display(),
        limits.seconds,
        limits.megabytes
    );
    let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let mut counts: Vec<Counts> = KINDS.iter().map(|_| Counts::default()).collect();
    let mut number = only.unwrap_or(seed << 32);
    loop {
        let case = inputs::case(number, root);
        let here = folder.join(format!("{number}"));
        let ended = run(&program, &case, &here, &limits)?;
        let count = &mut counts[case.kind];
        count.longest = count.longest.max(ended.seconds);
        match fault(&ended, &limits) {
            Some(fault) => {
                count.failed += 1;
                let errors: String = ended.errors.chars().take(500).collect();
                println!(
                    "case {number} ({}): {fault}, {:.1} s\n  in {}: {}\n  {errors}",
                    KINDS[case.kind],
                    ended.seconds,
                    here.display(),
                    case.args.join(" ")
                );
            }
            None => {
                let answered = ended.status.map_or(ended.writes, |status| status.success());
                count.answered += usize::from(answered);
                count.refused += usize::from(!answered);
                fs::remove_dir_all(&here)?;
            }
        }
        number += 1;
        if only.is_some() || Instant::now() >= end {
            break;
        }
    }
    println!("{:<12} {:>9} {:>9} {:>9} {:>10}", "", "answered", "refused", "failed", "longest s");
    for (kind, count) in KINDS.iter().zip(&counts) {
        let Counts { answered, refused, failed, longest } = count;
        println!("{kind:<12} {answered:>9} {refused:>9} {failed:>9} {longest:>10.2}");
    }
    match counts.iter().map(|count| count.failed).sum::<usize>() {
        0 => Ok(()),
        failed => Err(format!(
            "{failed} cases did not end with an answer or an error; their inputs are in {}",
            folder.display()
        )
        .into()),
    }
}

/// The command line that was built last.
fn newest(root: &Path) -> Result<PathBuf> {
    let built = ["release", "debug"].map(|profile| target(root).join(profile).join("unskew"));
    let time = |path: &PathBuf| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let newest = built.into_iter().filter(|path| path.is_file()).max_by_key(time);
    newest.ok_or_else(|| "build the command line first: cargo build --package unskew".into())
}

fn run(program: &Path, case: &Case, here: &Path, limits: &Limits) -> Result<Ended> {
    fs::create_dir_all(here)?;
    for (name, content) in &case.files {
        let path = here.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, content)?;
    }
    // The shell sets the limit and becomes the program.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v \"$0\" && exec \"$@\""]).arg((limits.megabytes * 1024).to_string());
    let output = fs::File::create(here.join("stdout"))?;
    let mut child = command
        .arg(program)
        .args(&case.args)
        .current_dir(here)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(fs::File::create(here.join("stderr"))?)
        .spawn()?;
    let begin = Instant::now();
    let written = || fs::metadata(here.join("stdout")).map_or(0, |found| found.len());
    let (mut at_half, mut writes) = (None, false);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if begin.elapsed().as_secs_f64() > limits.seconds / 2.0 {
            at_half.get_or_insert_with(written);
        }
        if begin.elapsed().as_secs_f64() > limits.seconds {
            writes = at_half.is_some_and(|before| written() > before);
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let seconds = begin.elapsed().as_secs_f64();
    let mut errors = Vec::new();
    fs::File::open(here.join("stderr"))?.take(1 << 20).read_to_end(&mut errors)?;
    let mut answer = Vec::new();
    fs::File::open(here.join("stdout"))?.take(16).read_to_end(&mut answer)?;
    let is_verdict = ["rejected at ", "incomplete: "].iter().any(|word| answer.starts_with(word.as_bytes()));
    Ok(Ended { status, writes, errors: String::from_utf8_lossy(&errors).into_owned(), is_verdict, seconds })
}

/// The fault in how a case ended.
fn fault(ended: &Ended, limits: &Limits) -> Option<String> {
    if ended.errors.contains("panicked at") {
        return Some("a panic".to_owned());
    }
    let Some(status) = ended.status else {
        return (!ended.writes).then(|| format!("not done after {} s, and silent", limits.seconds));
    };
    match status.code() {
        Some(0) => None,
        Some(1) if ended.is_verdict => None,
        Some(1 | 2) if ended.errors.lines().any(|line| line.starts_with("error: ")) => None,
        Some(code) => Some(format!("exit code {code} without an error")),
        None => Some(format!("{status}")),
    }
}
