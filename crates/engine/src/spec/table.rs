//! The options that refine a constraint: one table, from which errors, the command line and its help are made.
//!
//! An option is declared here and as a field of [`SpecOptions`], which gives it its type. The compiler of its
//! kind of constraint documents its effect.

use super::SpecOptions;

/// The largest [`GrammarSpec::max_ignored`](super::GrammarSpec::max_ignored): each is a copy of the automaton of
/// ignored text.
pub const MAX_IGNORED: u32 = 10_000;

/// The largest [`SchemaSpec::exponents`](super::SchemaSpec::exponents): compiling takes hours beyond.
pub const MAX_EXPONENT: u32 = 100;

/// The largest [`SchemaSpec::margin`](super::SchemaSpec::margin).
pub const MAX_MARGIN: u32 = 1_000;

/// An option that says nothing without a kind of constraint.
#[derive(Debug)]
#[non_exhaustive]
pub struct OptionInfo {
    /// The name, as in JSON.
    pub name: &'static str,
    /// The kinds that have it, by the names of their fields.
    pub kinds: &'static [&'static str],
    /// The purpose, as the end of a sentence that begins with the name.
    pub about: &'static str,
    /// The values that it takes.
    pub value: OptionValue,
    /// Help for each kind.
    pub help: &'static [(&'static str, Lines)],
}

/// The end of an option with its value, and the meaning, line by line.
type Lines = &'static [(&'static str, &'static str)];

/// The type of an option, and how it stands in [`SpecOptions`].
#[derive(Debug)]
pub enum OptionValue {
    /// Given or not.
    Switch(fn(&SpecOptions) -> bool),
    /// A whole number, and the largest.
    Number(fn(&SpecOptions) -> Option<u32>, u32),
    /// A text.
    Text(fn(&SpecOptions) -> bool),
    /// A part of the constraint that is no text of one line, or that has a flag of its own.
    Own(fn(&SpecOptions) -> bool),
}

impl OptionValue {
    /// Whether the option is given.
    pub(super) fn is_given(&self, options: &SpecOptions) -> bool {
        match self {
            Self::Switch(is_given) | Self::Text(is_given) | Self::Own(is_given) => is_given(options),
            Self::Number(of, _) => of(options).is_some(),
        }
    }
}

const GRAMMAR: &[&str] = &["grammar", "grammar_file"];
const SCHEMA: &[&str] = &["json_schema", "json_schema_file"];
const SCHEMA_OR_TAG: &[&str] = &["json_schema", "json_schema_file", "structural_tag", "structural_tag_file"];

/// All of them.
pub static OPTIONS: &[OptionInfo] = &[
    OptionInfo {
        name: "regex_dialect",
        kinds: &["regex", "regex_file"],
        about: "is that of a `regex`",
        value: OptionValue::Text(|options| options.regex_dialect.is_some()),
        help: &[(
            "regex",
            &[
                ("=python", "as Python's module `re` reads it (default)"),
                ("=rust", "as the crate `regex` does, with look-around"),
                ("=ecma", "as JavaScript does, with the flag `u`"),
            ],
        )],
    },
    OptionInfo {
        name: "whitespace",
        kinds: SCHEMA_OR_TAG,
        about: "is that of a `json_schema` or a `structural_tag`",
        value: OptionValue::Text(|options| options.whitespace.is_some()),
        help: &[
            (
                "json_schema",
                &[
                    ("=compact", "none between parts, the fastest masks"),
                    ("=spaced", "one blank behind each comma and colon, as Python writes JSON"),
                    ("=line", "a blank or nothing in each place, so that a value stands on one line"),
                    ("=printed", "a blank, or a line break and an indentation, in each place (default)"),
                    ("=bounded:N", "at most N blanks, tabs and line breaks in each place"),
                    ("=flexible", "any number; a model may write blanks for ever"),
                    (
                        "=indent:N",
                        "one member or item a line, N blanks for each of at most 20 levels; compiling takes longer for each level",
                    ),
                ],
            ),
            (
                "structural_tag",
                &[(
                    "=compact, line, printed, bounded:N or flexible",
                    "in JSON, where the tag says nothing (default: printed)",
                )],
            ),
        ],
    },
    OptionInfo {
        name: "spelling",
        kinds: SCHEMA_OR_TAG,
        about: "is that of a `json_schema` or a `structural_tag`",
        value: OptionValue::Text(|options| options.spelling.is_some()),
        help: &[
            (
                "json_schema",
                &[
                    ("=plain", "integers have no fraction (25 and not 25.0), and zero has no sign (default)"),
                    (
                        "=any",
                        "all that JSON and the schema allow, in white space too (bounded:33); `check` judges so",
                    ),
                ],
            ),
            ("structural_tag", &[("=plain or any", "of JSON, as for --json-schema")]),
        ],
    },
    OptionInfo {
        name: "ascii",
        kinds: SCHEMA,
        about: "is for the strings of a `json_schema`",
        value: OptionValue::Switch(|options| options.ascii),
        help: &[("json_schema", &[("", "other characters are written as \\u escapes")])],
    },
    OptionInfo {
        name: "exponents",
        kinds: SCHEMA,
        about: "is for the numbers of a `json_schema`",
        value: OptionValue::Number(|options| options.exponents, MAX_EXPONENT),
        help: &[(
            "json_schema",
            &[(
                "=N",
                "numbers under a condition (`integer`, bounds, `enum`) are also written with exponents up to N; compiling takes ten \
                 times longer for 3 and hundreds of times longer for 20",
            )],
        )],
    },
    OptionInfo {
        name: "dialect",
        kinds: SCHEMA,
        about: "is that of a `json_schema`",
        value: OptionValue::Text(|options| options.dialect.is_some()),
        help: &[(
            "json_schema",
            &[(
                "=draft-04, draft-06, draft-07, 2019-09, 2020-12, openapi-3.0 or openapi-3.1",
                "of a schema without `$schema`",
            )],
        )],
    },
    OptionInfo {
        name: "schema_registry",
        kinds: SCHEMA,
        about: "is for the references of a `json_schema`",
        value: OptionValue::Text(|options| options.schema_registry.is_some()),
        help: &[(
            "json_schema",
            &[(
                "=DIR",
                "a folder of schemas that `$ref` may lead to, `.json` files, by their `$id` or by their path there",
            )],
        )],
    },
    OptionInfo {
        name: "any_order",
        kinds: SCHEMA,
        about: "is for the members of a `json_schema`",
        value: OptionValue::Switch(|options| options.any_order),
        help: &[(
            "json_schema",
            &[("", "the members of an object come in any order, and not in that of the schema")],
        )],
    },
    OptionInfo {
        name: "margin",
        kinds: SCHEMA,
        about: "is the white space around a `json_schema`",
        value: OptionValue::Number(|options| options.margin, MAX_MARGIN),
        help: &[(
            "json_schema",
            &[(
                "=N",
                "at most N blanks, tabs and line breaks in front of the document, and as many after it (default: 0)",
            )],
        )],
    },
    OptionInfo {
        name: "max_ignored",
        kinds: GRAMMAR,
        about: "bounds %ignore of a `grammar`",
        value: OptionValue::Number(|options| options.max_ignored, MAX_IGNORED),
        help: &[(
            "grammar",
            &[("=N", "of a Lark grammar, at most N characters are ignored (%ignore) in one place")],
        )],
    },
    OptionInfo {
        name: "start",
        kinds: GRAMMAR,
        about: "is a rule of a `grammar`",
        value: OptionValue::Own(|options| options.start.is_some()),
        help: &[],
    },
    OptionInfo {
        name: "imports",
        kinds: GRAMMAR,
        about: "are files that a `grammar` imports",
        value: OptionValue::Own(|options| !options.imports.is_empty()),
        help: &[],
    },
    OptionInfo {
        name: "grammars",
        kinds: GRAMMAR,
        about: "are those that a `grammar` uses as `@name`",
        value: OptionValue::Own(|options| !options.grammars.is_empty()),
        help: &[],
    },
    OptionInfo {
        name: "grammar_format",
        kinds: &["grammar"],
        about: "is that of the text of a `grammar`",
        value: OptionValue::Own(|options| options.grammar_format.is_some()),
        help: &[],
    },
    OptionInfo {
        name: "subset",
        kinds: &["set"],
        about: "is a part of a `set`",
        value: OptionValue::Text(|options| options.subset.is_some()),
        help: &[],
    },
    OptionInfo {
        name: "gpu",
        kinds: &["set"],
        about: "is for a `set`",
        value: OptionValue::Switch(|options| options.gpu),
        help: &[(
            "set",
            &[(
                "",
                "a program with the feature `wgpu` runs the model on a GPU and reads back no logits; candidates of disc:top_m=M are \
                 verified there; where there is none, the CPU does the work, with a warning",
            )],
        )],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spec, SpecError};

    #[test]
    fn an_option_alone_is_refused_with_its_purpose() {
        for &OptionInfo { name, about, ref value, .. } in OPTIONS {
            let value = match (value, name) {
                (OptionValue::Switch(_), _) => "true",
                (OptionValue::Number(..), _) => "1",
                (_, "grammars") => r#"{"a": {"regex": "b"}}"#,
                (_, "imports") => r#"{"a": "b"}"#,
                _ => r#""a""#,
            };
            let error = Spec::from_json(&format!(r#"{{"{name}": {value}}}"#)).unwrap_err();
            assert_eq!(error, SpecError::Stray { name, about });
        }
    }

    #[test]
    fn every_option_is_in_the_table_or_no_refinement() {
        let body = include_str!("options.rs").split_once("pub struct SpecOptions {").unwrap().1;
        let fields = body.split_once("\n}").unwrap().0.lines();
        let fields = fields.filter_map(|line| Some(line.trim().strip_prefix("pub ")?.split_once(": ")?.0));
        let alone = ["version", "canonical", "end", "limits", "choices", "exclude_set", "any_of", "sequence"];
        for field in fields {
            let is_kind = OPTIONS.iter().any(|option| option.kinds.contains(&field));
            let is_listed = OPTIONS.iter().any(|option| option.name == field);
            assert!(is_listed || is_kind || alone.contains(&field), "{field}");
        }
    }
}
