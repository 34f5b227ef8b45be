//! The help of `--sampler` and `--with`: the parameters of methods and constraints as text.

use std::fmt::Write;

use crate::{
    METHODS,
    engine::spec::LIMITS,
    method::{Parameter, ParameterKind},
};

/// The options of constraints.
pub(crate) const CONSTRAINT_OPTIONS: &str = "\
Options of the constraint, joined by commas: `--with whitespace=compact,ascii`

- --regex:
    regex-dialect=python: as Python's module `re` reads it (default)
    regex-dialect=rust: as the crate `regex` does, with look-around
    regex-dialect=ecma: as JavaScript does, with the flag `u`
- --json-schema:
    whitespace=compact: none between parts, the fastest masks
    whitespace=spaced: one blank behind each comma and colon, as Python writes JSON
    whitespace=printed: a blank, or a line break and an indentation, in each place (default)
    whitespace=bounded:N: at most N blanks, tabs and line breaks in each place
    whitespace=flexible: any number; a model may write blanks for ever
    whitespace=indent:N: one member or item a line, N blanks for each of at most 20 levels; compiling takes longer for each level
    spelling=plain: integers have no fraction (25 and not 25.0), and zero has no sign (default)
    spelling=any: all that JSON and the schema allow, in white space too (bounded:33); `check` judges so
    ascii: other characters are written as \\u escapes
    exponents=N: numbers under a condition (`integer`, bounds, `enum`) are also written with exponents up to N; compiling takes
      ten times longer for 3 and hundreds of times longer for 20
    dialect=draft-04, draft-06, draft-07, 2019-09, 2020-12, openapi-3.0 or openapi-3.1: of a schema without `$schema`
    schema-registry=DIR: a folder of schemas that `$ref` may lead to, `.json` files, by their `$id` or by their path there
    any-order: the members of an object come in any order, and not in that of the schema
    margin=N: at most N blanks, tabs and line breaks in front of the document, and as many after it (default: 0)
- --structural-tag:
    whitespace=compact, printed, bounded:N or flexible: in JSON, where the tag says nothing (default: printed)
    spelling=plain or any: of JSON, as for --json-schema
- --grammar:
    max-ignored=N: of a Lark grammar, at most N characters are ignored (%ignore) in one place
- --set:
    gpu: a program with the feature `wgpu` runs the model on a GPU and reads back no logits; candidates of disc:top_m=M are verified
      there; where there is none, the CPU does the work, with a warning";

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
