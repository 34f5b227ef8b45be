//! How models write the arguments of a call that do not write JSON: the marks of each style, as data.
//!
//! A name and a string may not contain the texts that the parsers of vLLM 0.32 read as something else: `<parameter=`
//! ends a value of Qwen's style there, and `</function>` its call.

use unskew_schema::{ElementStyle, ValueType};

use ValueType::{Array, Boolean, Null, Number, Object, String};

/// Types that a text alone tells apart.
const UNTYPED: &[(&[ValueType], &str)] = &[(ValueType::ALL, "")];
const TYPED: &[(&[ValueType], &str)] = &[
    (&[String], "string"),
    (&[Number], "number"),
    (&[Boolean], "boolean"),
    (&[Null], "null"),
    (&[Array], "array"),
    (&[Object], "object"),
];
const OF_STRINGS: &[(&[ValueType], &str)] =
    &[(&[String], "true"), (&[Null, Boolean, Number, Array, Object], "false")];
const OF_PARTS: &[(&[ValueType], &str)] =
    &[(&[String], "raw"), (&[Null, Boolean, Number], "json"), (&[Array], "list"), (&[Object], "dict")];

/// Names between quotes, and those that are only written with escapes.
const QUOTED: &str = r#"[^"<>\s\x00](?:[^"<>\r\n\x00]*[^"<>\s\x00])?"#;
const UNESCAPED: &str = r#"[^\x00"&<>]+"#;

/// The style of this name.
pub(crate) fn named(name: &str) -> Option<ElementStyle> {
    Some(match name {
        "qwen_xml" => ElementStyle {
            before: "<parameter={name}",
            begin: ">",
            end: "</parameter>",
            types: UNTYPED,
            wrap: "\n",
            forbidden: r"<\s*/\s*parameter\s*>|<\s*parameter\s*=|</function>",
            ..ElementStyle::PLAIN
        },
        // As Qwen writes, but a line break around a string is a part of it.
        "mimo_xml" => ElementStyle { wrap: "", ..named("qwen_xml")? },
        "minimax_xml" => ElementStyle {
            before: "<parameter name=\"{name}",
            begin: "\">",
            end: "</parameter>",
            types: UNTYPED,
            forbidden: r"<\s*/\s*parameter\s*>|<\s*parameter\s+name\s*=|</invoke>",
            names: QUOTED,
            ..ElementStyle::PLAIN
        },
        "deepseek_xml" => ElementStyle {
            before: "<\u{ff5c}DSML\u{ff5c}parameter name=\"{name}\" string=\"{type}",
            begin: "\">",
            end: "</\u{ff5c}DSML\u{ff5c}parameter>",
            types: OF_STRINGS,
            forbidden: r"<\x{ff5c}DSML\x{ff5c}parameter\s+name=|</\x{ff5c}DSML\x{ff5c}(?:invoke|function_calls|tool_calls)>",
            names: QUOTED,
            ..ElementStyle::PLAIN
        },
        "deepseek_v4_1_xml" => ElementStyle {
            before: "<\u{ff5c}DSML\u{ff5c} parameter name=\"{name}\" string=\"{type}",
            begin: "\">",
            end: "</\u{ff5c}DSML\u{ff5c} parameter>",
            types: OF_STRINGS,
            forbidden: r"<\x{ff5c}DSML\x{ff5c} parameter\s+name=|</\x{ff5c}DSML\x{ff5c} (?:invoke|calls)>",
            names: QUOTED,
            ..ElementStyle::PLAIN
        },
        "glm_xml" => ElementStyle {
            before: "<arg_key>{name}</arg_key>",
            is_spaced: true,
            begin: "<arg_value>",
            end: "</arg_value>",
            types: UNTYPED,
            forbidden: "</tool_call>",
            ..ElementStyle::PLAIN
        },
        "kimi_k3_xml" => ElementStyle {
            before: "<|open|>argument key=\"{name}\" type=\"{type}\"",
            begin: "<|sep|>",
            end: "<|close|>argument<|sep|>",
            types: TYPED,
            forbidden: r"<\|close\|>\s*(?:argument|call|tools)\s*<\|sep\|>",
            names: UNESCAPED,
            escapes: &[('&', "&amp;"), ('"', "&quot;")],
            escaped: Some(r#"(?:[^\x00"&<>]|&amp;|&quot;)+"#),
            ..ElementStyle::PLAIN
        },
        "cohere_xml" => ElementStyle {
            before: "<cofl:value name=\"{name}\" type=\"{type}",
            item: Some("<cofl:value type=\"{type}"),
            begin: "\">",
            end: "</cofl:value>",
            types: OF_PARTS,
            names: UNESCAPED,
            escapes: &[('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;")],
            escaped: Some(r#"(?:[^\x00"&<>]|&amp;|&lt;|&gt;|&quot;)+"#),
            ..ElementStyle::PLAIN
        },
        "minimax_m3_xml" => ElementStyle {
            before: "]<]minimax[>[<{name}",
            item: Some("]<]minimax[>[<item"),
            begin: ">",
            end: "]<]minimax[>[",
            after: "</{name}>",
            types: UNTYPED,
            names: r"[^<>/\s\x00](?:[^<>\r\n\x00]*[^<>\s\x00])?",
            ..ElementStyle::PLAIN
        },
        _ => return None,
    })
}
