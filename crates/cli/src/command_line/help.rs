//! The help of `--sampler` and `--with`: the parameters of methods and constraints as text.

use std::fmt::Write;

use crate::{
    METHODS,
    engine::spec::{LIMITS, OPTIONS, OptionInfo, OptionValue},
    method::{Parameter, ParameterKind},
};

/// The options of constraints that `--with` takes.
pub(crate) fn with_options() -> impl Iterator<Item = &'static OptionInfo> {
    OPTIONS.iter().filter(|option| !matches!(option.value, OptionValue::Own(_)))
}

/// Those options by the kinds of constraint.
pub(crate) fn constraint_options() -> String {
    let mut text =
        String::from("Options of the constraint, joined by commas: `--with whitespace=compact,ascii`\n");
    for kind in ["regex", "json_schema", "structural_tag", "grammar", "set"] {
        // A string takes all that is written to it.
        let _ = write!(text, "\n- --{}:", kind.replace('_', "-"));
        for option in OPTIONS {
            for (value, about) in
                option.help.iter().filter(|(of, _)| *of == kind).flat_map(|(_, lines)| *lines)
            {
                let _ = write!(text, "\n    {}{value}: {about}", option.name.replace('_', "-"));
            }
        }
    }
    text
}

/// The options of a server.
pub(crate) const ENDPOINT_OPTIONS: &str = "\
Options of a server, joined by commas: `--endpoint timeout=60,retries=2`. The key is read from the environment variable UNSKEW_API_KEY (for
api.openai.com also OPENAI_API_KEY)

- timeout=SECONDS: how long a whole answer may take (default: 300)
- retries=N: how often a busy server (HTTP 429, 502, 503, 504) or a broken connection is tried again (default: 4)
- model=NAME: the model, where the server has several
- server=vllm|sglang|llama.cpp|openai: the kind of the server, where it does not say so itself
- vocab=N: the entries of a row, where the model has more than the tokenizer has tokens
- bytes=N: the longest answer (default: 536870912)
- key=VARIABLE: another environment variable for the key";

/// All limits with their defaults.
pub(crate) fn limits() -> String {
    let mut text = String::from(
        "Raise a limit on the cost of the constraint, by the name that its error gives: `--limit grammar.positions=5000000`; repeatable. \
         A limit that is raised costs time and memory where the constraint needs them. The limits and their defaults are:\n",
    );
    for limit in LIMITS {
        let defaults: Vec<String> = limit.defaults().iter().map(u64::to_string).collect();
        // A string takes all that is written to it.
        let _ = write!(text, "\n- {}={}: {}", limit.name, defaults.join("|"), limit.about);
    }
    text.push_str("\n\nWhere there are several defaults, they are those of a regex alone, of a grammar, and of a schema.");
    text
}

/// All methods with their parameters, each with its default.
pub(crate) fn methods() -> String {
    let mut text = String::from("How to draw: a method and its parameters, such as `smc:n=10,twisted`\n");
    for method in METHODS {
        // A string takes all that is written to it.
        let _ = write!(text, "\n- {}: {}", method.name, method.help);
        for parameter in method.parameters {
            let _ = write!(text, "\n    {}", parameter_line(parameter));
        }
    }
    text
}

fn parameter_line(parameter: &Parameter) -> String {
    let value = match &parameter.kind {
        ParameterKind::Switch => String::new(),
        ParameterKind::Whole(..) => "=N".to_owned(),
        ParameterKind::Number(..) => "=X".to_owned(),
        ParameterKind::Words(words) => {
            format!("={}", words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join("|"))
        }
        ParameterKind::Length => "=auto|N".to_owned(),
    };
    let default = match parameter.default {
        "" => String::new(),
        default => format!(" (default: {default})"),
    };
    format!("{}{value}: {}{default}", parameter.name, parameter.help)
}
