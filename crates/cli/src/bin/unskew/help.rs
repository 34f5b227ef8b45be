//! The help of `--sampler`: the table of methods as text.

use std::fmt::Write;

use unskew::{
    METHODS,
    method::{Parameter, ParameterKind},
};

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
