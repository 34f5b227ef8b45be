//! `Spec::of`: what serde writes of a type is an output of its schema, and what serde refuses is none.
//!
//! A program of its own: the feature `schemars` changes the objects of serde_json in all crates that are built with it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use unskew_engine::{Compiler, Spec, TokenSpace};
use unskew_vocab::Tokenizer;

#[derive(JsonSchema, Serialize, Deserialize, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
struct Person {
    name: String,
    age: u8,
    score: f64,
    tags: Vec<Tag>,
    boss: Option<Box<Person>>,
    #[serde(default)]
    notes: BTreeMap<String, bool>,
}

#[derive(JsonSchema, Serialize, Deserialize, PartialEq, Debug)]
#[serde(rename_all = "snake_case")]
enum Tag {
    Old,
    Named { name: String },
    Pair(i32, char),
}

fn check<T: JsonSchema + DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(
    values: &[T],
    wrong: &[&str],
) {
    let tokenizer = Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes()).unwrap();
    let compiler = Compiler::new(TokenSpace::from_tokenizer(tokenizer, &[], 0).unwrap());
    let compiled = compiler.compile(&Spec::of::<T>()).unwrap();
    let accepts = |text: &str| {
        let mut matcher = compiled.matcher();
        let ids = compiler.tokens().encode_output(text).unwrap();
        matcher.accept_all(&ids).unwrap() == ids.len() && matcher.is_accepting()
    };
    for value in values {
        let text = serde_json::to_string(value).unwrap();
        assert!(accepts(&text), "{text}");
        assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value);
    }
    for text in wrong {
        assert!(!accepts(text) && serde_json::from_str::<T>(text).is_err(), "{text}");
    }
}

#[test]
fn values_of_a_type_are_outputs() {
    let person = |boss: Option<Person>| Person {
        name: "Ada \"é\"".to_owned(),
        age: 36,
        score: -1.5,
        tags: vec![Tag::Old, Tag::Named { name: String::new() }, Tag::Pair(-7, 'x')],
        boss: boss.map(Box::new),
        notes: [("a".to_owned(), true)].into(),
    };
    check(
        &[person(None), person(Some(person(None)))],
        &[
            "{}",
            r#"{"name":"a","age":256,"score":1,"tags":[],"boss":null,"notes":{}}"#,
            r#"{"name":"a","age":-1,"score":1,"tags":[],"boss":null,"notes":{}}"#,
            r#"{"name":"a","age":1,"score":1,"tags":["new"],"boss":null,"notes":{}}"#,
            r#"{"name":"a","age":1,"score":1,"tags":[],"boss":{},"notes":{}}"#,
            r#"{"name":"a","age":1,"score":1,"tags":[],"boss":null,"notes":{"a":1}}"#,
            r#"{"name":"a","age":1,"score":1,"tags":[],"boss":null,"notes":{},"more":1}"#,
        ],
    );
    check(&[0_u32, u32::MAX], &["-1", "\"1\"", "1.5", "4294967296"]);
    check(&[i32::MIN, 0, i32::MAX], &["-2147483649", "2147483648"]);
    check(&[i64::MIN, i64::MAX], &["-9223372036854775809", "9223372036854775808"]);
    check(&[0, u64::MAX], &["-1", "18446744073709551616"]);
    check(&[0_usize, 7], &["-1"]);
    check(&[Some(true), None], &["0"]);
    check(&[Tag::Old], &["\"Old\"", "null"]);
}
