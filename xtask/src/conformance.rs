//! `cargo xtask conformance`: the official JSON-Schema-Test-Suite, by the test `official` of `unskew-schema`.

use std::{fs, path::Path, process::Command};

use crate::{Result, process::run};

pub(crate) fn conformance(root: &Path, args: &[&str]) -> Result<()> {
    let (mut data, mut order, mut record, mut filters) = (None, "", false, Vec::new());
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match *arg {
            "--data" => data = rest.next(),
            "--any-order" => order = "any",
            "--record" => record = true,
            option if option.starts_with('-') => {
                return Err(format!("conformance: no option {option}").into());
            }
            filter => filters.push(filter),
        }
    }
    let data = std::path::absolute(data.ok_or("conformance: --data DIR is missing")?)?;
    let data = data.to_str().ok_or("a path that is not UTF-8")?;
    let (filter, tables) = (filters.join(" "), root.join("target/conformance.md"));
    let report = tables.to_str().ok_or("the path of the repository is not UTF-8")?;
    let env = [
        ("UNSKEW_SUITE", data),
        ("UNSKEW_SUITE_ORDER", order),
        ("UNSKEW_SUITE_FILTER", &filter),
        ("UNSKEW_SUITE_REPORT", report),
    ];
    let test = ["test", "--release", "--package", "unskew-schema", "--test", "official"];
    let only = ["--", "--nocapture", "the_suite_accepts_nothing_invalid"];
    let done = run(root, &[&test[..], &only].concat(), &env);
    if record {
        let output = |program: &str, args: &[&str]| -> Result<String> {
            let output = Command::new(program).args(args).output()?;
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let commit = |folder: &str| output("git", &["-C", folder, "rev-parse", "--short", "HEAD"]);
        let ours = commit(root.to_str().ok_or("the path of the repository is not UTF-8")?)?;
        let order = if order.is_empty() { "" } else { " --any-order" };
        let head = format!(
            "# The official JSON-Schema-Test-Suite, {}\n\nCommit: {ours}. Suite: {}. Command: `cargo xtask conformance --data ...{order} \
             --record {filter}`.\n\n",
            output("date", &["+%F"])?,
            commit(data)?,
        );
        fs::write(root.join("benches/record/conformance.md"), head + &fs::read_to_string(tables)?)?;
    }
    done
}
