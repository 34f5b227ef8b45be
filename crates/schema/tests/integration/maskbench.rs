//! Real schemas with valid and invalid instances: no compiled schema accepts an invalid instance.
//!
//! The test needs the folder `maskbench` in `UNSKEW_DATA`; each file holds a schema and its instances. A debug
//! build takes every fortieth file. The test prints its counts, and the keywords that caused refusals.

#![allow(clippy::print_stdout, reason = "the figures are the point")]

use std::{collections::BTreeMap, fs, path::PathBuf, time::Instant};

use crate::common::{Bytes, judged};
use serde::Deserialize;
use serde_json::value::RawValue;
use unskew_schema::{MemberOrder, SchemaOptions};

#[derive(Deserialize)]
struct File {
    schema: Box<RawValue>,
    tests: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    valid: bool,
    data: Box<RawValue>,
}

/// The files, every `step`th of them in a debug build; none if there is no folder.
fn read(step: usize) -> Vec<(String, File)> {
    let Some(data) = std::env::var_os("UNSKEW_DATA") else {
        println!("UNSKEW_DATA is not set");
        return vec![];
    };
    let mut paths: Vec<PathBuf> = fs::read_dir(PathBuf::from(data).join("maskbench"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    let asked = std::env::var("UNSKEW_STEP").ok().and_then(|step| step.parse().ok());
    let step = asked.unwrap_or(if cfg!(debug_assertions) { step } else { 1 });
    let read = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap())
    };
    paths.iter().step_by(step).map(read).collect()
}

/// The schema and the instances of every file, or of every `step`th in a debug build.
pub(crate) fn files(step: usize) -> Vec<(String, String, Vec<String>)> {
    let of = |(name, file): (String, File)| {
        let instances = file.tests.iter().map(|case| case.data.get().to_owned()).collect();
        (name, file.schema.get().to_owned(), instances)
    };
    read(step).into_iter().map(of).collect()
}

#[test]
fn no_invalid_instance_is_accepted() {
    let bytes = Bytes::new();
    // The authors of the instances chose the order of their members.
    let mut options = SchemaOptions::default();
    options.order = MemberOrder::Any;
    let (mut schemas, mut compiled, mut clean, mut valid) = (0, 0, 0, 0);
    let (mut refused_valid, mut wrong) = (vec![], vec![]);
    let mut by_keyword: BTreeMap<String, usize> = BTreeMap::new();
    let mut slowest = (0, String::new());
    let mut times = vec![];
    for (name, file) in read(40) {
        schemas += 1;
        let begin = Instant::now();
        let made = bytes.compile_with(file.schema.get(), &options);
        let micros = begin.elapsed().as_micros();
        times.push(micros);
        if micros > slowest.0 {
            slowest = (micros, name.clone());
        }
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                if std::env::var_os("UNSKEW_VERBOSE").is_some() {
                    println!("refused {name}: {error}");
                }
                *by_keyword.entry(error.keyword().unwrap_or("limit").to_owned()).or_default() += 1;
                continue;
            }
        };
        compiled += 1;
        let before = refused_valid.len() + wrong.len();
        for (index, case) in file.tests.iter().enumerate() {
            valid += usize::from(case.valid);
            match (made.accepts(case.data.get()), case.valid) {
                (accepted, valid) if accepted != valid => {
                    let judge = judged(file.schema.get(), case.data.get());
                    let list = if valid { &mut refused_valid } else { &mut wrong };
                    list.push(format!("{name} {index} (judged {judge:?})"));
                }
                _ => {}
            }
        }
        clean += usize::from(refused_valid.len() + wrong.len() == before);
    }
    println!("{schemas} schemas, {compiled} compiled, {clean} clean; {valid} valid instances with them");
    println!("{} valid instances refused, {} invalid ones accepted", refused_valid.len(), wrong.len());
    println!("refused at compile: {by_keyword:?}; slowest to compile: {slowest:?} us");
    times.sort_unstable();
    let share = |part: usize| times.get(times.len().saturating_sub(1) * part / 100).copied().unwrap_or(0);
    println!("to compile: p50 {}, p90 {}, p99 {} us", share(50), share(90), share(99));
    println!("valid refused: {refused_valid:?}");
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(schemas == 0 || compiled * 2 > schemas, "{compiled} of {schemas}");
}
