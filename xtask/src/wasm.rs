//! `cargo xtask wasm`: the npm package, built into target/npm, with its size and its tests in Node.
//!
//! cargo makes the module, `wasm-bindgen` its JavaScript, and `wasm-opt` makes it smaller. The classes over it, the
//! types and the README are files of `crates/wasm`. The tools are those of the registries, installed once below
//! target/npm.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Result,
    process::{self, cargo, target},
};

/// The packages of npm that the build takes, and those that tests take.
const PACKAGES: [&str; 1] = ["binaryen@132.0.0"];
const TESTED: [&str; 3] = ["binaryen@132.0.0", "typescript@5.9.3", "@huggingface/transformers@4.3.2"];

/// What the compiler of Rust counts on in a module; wasm-opt asks for it by name.
const FEATURES: [&str; 7] = [
    "--enable-bulk-memory",
    "--enable-nontrapping-float-to-int",
    "--enable-sign-ext",
    "--enable-mutable-globals",
    "--enable-reference-types",
    "--enable-multivalue",
    "--enable-simd",
];

/// The passes of wasm-opt, chosen by the size of the module after brotli. With `-Oz` the module is 2 % smaller before
/// brotli and 3 % larger after it: inlining takes apart what is alike.
const PASSES: [&str; 5] =
    ["-O2", "--shrink-level=0", "--skip-pass=inlining-optimizing", "--strip-debug", "--strip-producers"];

/// The files of the package that are written by hand.
const FILES: [&str; 7] = [
    "js/unskew.js",
    "js/unskew.d.ts",
    "js/web.js",
    "js/node.js",
    "js/transformers.js",
    "js/transformers.d.ts",
    "js/package.json",
];

/// The library crates that have to build for browsers.
const LIBRARIES: [&str; 13] = [
    "unskew-core",
    "unskew-gguf",
    "unskew-vocab",
    "unskew-trie",
    "unskew-automata",
    "unskew-grammar",
    "unskew-notation",
    "unskew-grammars",
    "unskew-schema",
    "unskew-samplers",
    "unskew-engine",
    "unskew-runner",
    "unskew-tiny-model",
];

const TARGET: [&str; 2] = ["--target", "wasm32-unknown-unknown"];

/// Builds the package, and tests it unless `args` say `--build`.
pub(crate) fn wasm(root: &Path, args: &[&str]) -> Result<()> {
    let npm = target(root).join("npm");
    let (package, tools) = (npm.join("unskew"), npm.join("tools"));
    build(root, &package, &tools)?;
    match args {
        ["--build"] => Ok(()),
        _ => test(root, &npm, &package, &tools, args),
    }
}

/// The library crates for browsers, each with the features that a page has.
pub(crate) fn libraries(root: &Path) -> Result<()> {
    let mut args = vec!["check", "--no-default-features"];
    args.extend(TARGET);
    for library in LIBRARIES {
        args.extend(["--package", library]);
    }
    cargo(root, &args)
}

fn build(root: &Path, package: &Path, tools: &Path) -> Result<()> {
    // A library that is a crate too would not be optimised as a whole.
    let module =
        ["rustc", "--lib", "--crate-type", "cdylib", "--profile", "wasm", "--package", "unskew-wasm"];
    // Hostile inputs nest as deep as limits allow, which are made for stacks of megabytes.
    let stack = ["--", "--codegen", "link-arg=-zstack-size=4194304"];
    cargo(root, &[&module[..], &TARGET, &stack].concat())?;
    let module = target(root).join("wasm32-unknown-unknown/wasm/unskew_wasm.wasm");
    if package.is_dir() {
        fs::remove_dir_all(package)?;
    }
    fs::create_dir_all(package.join("embedded"))?;
    fs::create_dir_all(tools)?;
    let mut bindgen = Command::new(bindgen(root, tools)?);
    bindgen.args(["--target", "web", "--no-typescript", "--omit-default-module-path", "--out-name", "glue"]);
    run(bindgen.arg("--out-dir").arg(package).arg(&module))?;
    install(tools, &PACKAGES)?;
    let bound = package.join("glue_bg.wasm");
    // A system's own program takes a tenth of the time of npm's, which is JavaScript.
    // An old one (108 was tried) takes the table of references for one of functions, and the module does not load.
    let said = Command::new("wasm-opt").arg("--version").output().map(|said| said.stdout).unwrap_or_default();
    let version =
        String::from_utf8_lossy(&said).split(' ').nth(2).and_then(|word| word.trim().parse::<u32>().ok());
    let program = match version {
        Some(120..) => "wasm-opt".into(),
        _ => tools.join("node_modules/.bin/wasm-opt"),
    };
    let mut opt = Command::new(program);
    opt.args(PASSES).args(FEATURES).arg(&bound).arg("-o").arg(package.join("unskew_bg.wasm"));
    run(&mut opt)?;
    fs::remove_file(bound)?;
    let own = root.join("crates/wasm");
    for file in FILES {
        let from = own.join(file);
        let text =
            fs::read_to_string(&from)?.replace("\"VERSION\"", &format!("{:?}", env!("CARGO_PKG_VERSION")));
        fs::write(package.join(from.file_name().unwrap_or_default()), text)?;
    }
    for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(own.join(file), package.join(file))?;
    }
    let model = root.join("crates/tiny-model/model");
    for file in ["tokenizer.json", "tiny/config.json", "tiny/model.safetensors", "MODEL_CARD.md"] {
        let from = model.join(file);
        fs::copy(&from, package.join("embedded").join(from.file_name().unwrap_or_default()))?;
    }
    println!("  {}", package.display());
    Ok(())
}

/// Masks and draws are compared with those of this build of Rust: the specs are those of the repository, and
/// MaskBench's schemas and tokenizers where the variable `UNSKEW_DATA` names a folder with them.
fn test(root: &Path, npm: &Path, package: &Path, tools: &Path, args: &[&str]) -> Result<()> {
    install(tools, &TESTED)?;
    let judge = npm.join("judge.json");
    let mut files: Vec<PathBuf> = vec![root.join("crates/wasm/tests/specs.json")];
    files.extend(listed(&root.join("crates/grammars/tests/grammars"), "toml", 1)?);
    if let Some(data) = std::env::var_os("UNSKEW_DATA").map(PathBuf::from) {
        for tokenizer in ["gpt2", "llama3"] {
            files.push(data.join("tokenizers").join(tokenizer).join("tokenizer.json"));
            files.extend(listed(&data.join("maskbench"), "json", 60)?);
        }
    }
    let mut run_judge = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    run_judge.current_dir(root).args(["run", "--package", "unskew-wasm", "--example", "judge", "--"]);
    run(run_judge.arg(&judge).arg(package.join("embedded")).args(files))?;
    // The tests import the package by its name.
    let link = tools.join("node_modules/unskew");
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link)?;
    }
    link_folder(package, &link)?;
    for file in listed(&root.join("crates/wasm/tests"), "mjs", 1)? {
        fs::copy(&file, tools.join(file.file_name().unwrap_or_default()))?;
    }
    let tests = match args {
        [] => listed(tools, "mjs", 1)?,
        names => names.iter().map(|name| tools.join(format!("{name}.test.mjs"))).collect(),
    };
    let tests = tests.into_iter().filter(|file| file.to_string_lossy().ends_with(".test.mjs"));
    let mut node = Command::new("node");
    node.args(["--expose-gc", "--test", "--test-reporter", "spec"]).args(tests).current_dir(tools);
    node.env("UNSKEW_PACKAGE", package).env("UNSKEW_TOOLS", tools).env("UNSKEW_JUDGE", judge);
    run(&mut node)
}

#[cfg(unix)]
fn link_folder(to: &Path, link: &Path) -> Result<()> {
    Ok(std::os::unix::fs::symlink(to, link)?)
}

#[cfg(not(unix))]
fn link_folder(to: &Path, link: &Path) -> Result<()> {
    run(process::npm().args(["install", "--no-save"]).arg(to).current_dir(link.parent().unwrap_or(to)))
}

/// The files of a folder with this ending, in the order of their names, each `step`th of them.
fn listed(folder: &Path, ending: &str, step: usize) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == ending) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files.into_iter().step_by(step).collect())
}

/// The program `wasm-bindgen` of the version that the module was made with: named by the variable `WASM_BINDGEN`, or
/// installed by cargo.
fn bindgen(root: &Path, tools: &Path) -> Result<PathBuf> {
    if let Some(program) = std::env::var_os("WASM_BINDGEN") {
        return Ok(program.into());
    }
    let lock = fs::read_to_string(root.join("Cargo.lock"))?;
    let version = lock
        .split("name = \"wasm-bindgen\"\nversion = \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .ok_or("Cargo.lock has no wasm-bindgen")?;
    let program = tools.join("bin/wasm-bindgen");
    let said = Command::new(&program).arg("--version").output();
    if said
        .is_ok_and(|said| String::from_utf8_lossy(&said.stdout).trim() == format!("wasm-bindgen {version}"))
    {
        return Ok(program);
    }
    let at = tools.to_str().ok_or("the path of the repository is not UTF-8")?;
    // It runs once, and its optimisation takes longer than that.
    let install = ["install", "wasm-bindgen-cli", "--debug", "--version", version, "--no-default-features"];
    cargo(root, &[&install[..], &["--root", at]].concat())?;
    Ok(program)
}

/// The packages of npm, once.
fn install(tools: &Path, packages: &[&str]) -> Result<()> {
    let has = |package: &str| {
        let Some((name, version)) = package.rsplit_once('@') else { return false };
        let manifest = fs::read_to_string(tools.join("node_modules").join(name).join("package.json"));
        manifest.is_ok_and(|text| text.contains(&format!("\"version\": \"{version}\"")))
    };
    if packages.iter().all(|package| has(package)) {
        return Ok(());
    }
    fs::write(
        tools.join("package.json"),
        "{ \"name\": \"tools\", \"private\": true, \"type\": \"module\" }\n",
    )?;
    let mut npm = process::npm();
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund"]).args(packages).current_dir(tools);
    run(&mut npm)
}

fn run(command: &mut Command) -> Result<()> {
    println!("$ {command:?}");
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed ({status})").into()) }
}
