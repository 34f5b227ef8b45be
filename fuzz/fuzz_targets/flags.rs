//! Methods with parameters, and constraints in JSON, as a user writes them. The result is an error of one
//! line, or outputs that satisfy the constraint.

#![no_main]

use std::sync::OnceLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use unskew::{
    METHODS, Method, Model, Spec, SpecOptions, TokenSpace,
    core::{Constraint, Finish, TableModel},
    engine::spec::OPTIONS,
};

#[derive(Arbitrary, Debug)]
enum Case<'a> {
    Method(&'a str),
    Spec(&'a str),
    /// A method with parameters, mostly its own, and a constraint of known options.
    Known {
        method: u8,
        parameters: Vec<(u8, u8, bool)>,
        options: Vec<(u8, u8)>,
        temperature: u8,
        max_tokens: u8,
    },
}

const VALUES: [&str; 20] = [
    "0",
    "1",
    "2",
    "3",
    "16",
    "-1",
    "1000000000",
    "18446744073709551615",
    "18446744073709551616",
    "1e-320",
    "0.5",
    "nan",
    "inf",
    "",
    "auto",
    "true",
    "published",
    "token",
    "restart",
    "\u{202e}",
];
/// Kinds of constraints, to which come all options that refine one.
const KINDS: [&str; 5] = ["regex", "choices", "grammar", "json_schema", "canonical"];

fn option_values() -> [Value; 16] {
    [
        json!("(ab|ba)*"),
        json!("a{0,3}b"),
        json!("start: \"a\" start \"b\" | \"ab\""),
        json!("root ::= \"a\" | \"b\" root"),
        json!("lark"),
        json!("gbnf"),
        json!("{\"enum\":[\"a\",\"b\"]}"),
        json!("compact"),
        json!("bounded:2"),
        json!(["ab", "b"]),
        json!([]),
        json!(0),
        json!(4_294_967_295u32),
        json!(true),
        json!("("),
        json!("none\u{1b}"),
    ]
}

fn model() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| {
        let table = TableModel::uniform(["a", "b", "ab", "\""]);
        let tokens = TokenSpace::from_vocabulary(table.vocabulary().clone());
        Model::new(table, tokens).unwrap()
    })
}

fn method(text: &str) -> Option<Method> {
    match text.parse::<Method>() {
        Ok(method) => {
            assert_eq!(method.info().name, method.name());
            Some(method)
        }
        Err(error) => {
            let error = error.to_string();
            assert!(!error.is_empty() && (!error.contains('\n') || text.contains('\n')), "{error}");
            None
        }
    }
}

fn spec(text: &str) -> Option<Spec> {
    match Spec::from_json(text) {
        Ok(spec) => {
            assert_eq!(Spec::from_json(&spec.to_json()).as_ref(), Ok(&spec), "{text}");
            let options = SpecOptions::from(spec.clone());
            assert_eq!(Spec::try_from(options).as_ref(), Ok(&spec), "{text}");
            Some(spec)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

fuzz_target!(|case: Case<'_>| {
    let (name, parameters, options, temperature, max_tokens) = match case {
        Case::Method(text) => {
            method(text);
            return;
        }
        Case::Spec(text) => {
            spec(text);
            return;
        }
        Case::Known { method, parameters, options, temperature, max_tokens } => {
            (method, parameters, options, temperature, max_tokens)
        }
    };
    let row = &METHODS[usize::from(name) % METHODS.len()];
    let mut text = row.name.to_owned();
    let mut largest = 0.0f64;
    for (index, (parameter, value, own)) in parameters.into_iter().take(4).enumerate() {
        let others = METHODS.iter().flat_map(|row| row.parameters);
        let list: Vec<&str> = if own || row.parameters.is_empty() {
            row.parameters.iter().map(|parameter| parameter.name).collect()
        } else {
            others.map(|parameter| parameter.name).collect()
        };
        let Some(name) = list.get(usize::from(parameter) % list.len().max(1)) else { break };
        let value = VALUES[usize::from(value) % VALUES.len()];
        // Few tries suffice, because the constraint is likely.
        if *name != "tries" {
            largest =
                value.parse().ok().filter(|number: &f64| number.is_finite()).unwrap_or(0.0).max(largest);
        }
        text += if index == 0 { ":" } else { "," };
        text += &format!("{name}={value}");
    }
    let (names, values) = (KINDS.into_iter().chain(OPTIONS.iter().map(|option| option.name)), option_values());
    let names: Vec<&str> = names.collect();
    let options: Map<String, Value> = options
        .into_iter()
        .take(4)
        .map(|(option, value)| {
            (
                names[usize::from(option) % names.len()].to_owned(),
                values[usize::from(value) % values.len()].clone(),
            )
        })
        .collect();
    let (Some(method), Some(spec)) = (method(&text), spec(&Value::Object(options).to_string())) else {
        return;
    };
    // Larger populations and chains take seconds, and other tests cover them.
    if largest > 64.0 {
        return;
    }
    let temperature = [1.0, 0.5, 0.0, -1.0, f64::NAN, 1e-320, 1e300, 2.0][usize::from(temperature) % 8];
    let Ok(request) = model().prompt("").constrain(spec.clone()) else { return };
    let request =
        request.temperature(temperature).max_tokens(usize::from(max_tokens) % 12).seed(1).outputs(2);
    let Ok(draws) = request.sample_with(method) else { return };
    let constraint = model().compile(&spec).expect("it was compiled before");
    for output in draws.take(2) {
        let Ok(output) = output else { return };
        assert!(output.log_prob <= 1e-9, "{text}: {}", output.log_prob);
        let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
        let mut ids = output.ids.iter();
        assert!(
            ids.all(|id| constraint.advance(&mut scratch, &mut state, *id).is_ok()),
            "{text}: {output:?}"
        );
        let whole = output.finish == Finish::Stop;
        assert!(!whole || constraint.is_accepting(&state), "{text}: {output:?}");
    }
});
