//! Structural tags with the schemas that people post: all of JSON Schema in the elements of a style, a tool that cannot
//! be enforced among others, and the fates of keywords.

use crate::common::{bytes, check_tag, spec};
use unskew_core::TokenId;
use unskew_engine::{Compiler, Matcher, Spec};

fn style(style: &str, schema: &str) -> String {
    format!(
        r#"{{"type":"json_schema","style":"{style}","max_whitespace_cnt":1,"any_order":true,"json_schema":{schema}}}"#
    )
}

fn p(name: &str, value: &str) -> String {
    format!("<parameter={name}>{value}</parameter>")
}

fn check(tag: &str, taken: &[String], refused: &[String]) {
    let [taken, refused] = [taken, refused].map(|texts| texts.iter().map(String::as_str).collect::<Vec<_>>());
    check_tag(tag, &taken, &refused);
}

/// Whether the matcher takes `text` byte by byte.
fn takes(matcher: &mut Matcher, text: &str) -> bool {
    matcher.reset();
    let ids: Vec<TokenId> = text.bytes().map(|byte| TokenId(u32::from(byte))).collect();
    matcher.accept_all(&ids).unwrap() == ids.len() && matcher.is_accepting()
}

/// A call of Qwen's style with one parameter `e` of this schema.
fn of_e(schema: &str) -> String {
    style("qwen_xml", &format!(r#"{{"properties":{{"e":{schema}}},"required":["e"]}}"#))
}

/// A parser of Qwen's style takes one line break away at each end of a value. So it is no part of a string.
#[test]
fn line_breaks_around_a_value_are_no_part_of_it() {
    // No number is in one of the lists alone, and a parser knows that there are numbers.
    let excluded = r#"{"oneOf":[{"enum":[true,1.5,"a"]},{"enum":[true,"12",1.5]}]}"#;
    check(&of_e(excluded), &[p("e", "a")], &[p("e", "12"), p("e", "1.5"), p("e", "true")]);
    // DeepSeek's style says which values are strings.
    let says = |is_string: bool, value: &str| {
        format!(
            "<\u{ff5c}DSML\u{ff5c}parameter name=\"e\" string=\"{is_string}\">{value}</\u{ff5c}DSML\u{ff5c}parameter>"
        )
    };
    let told = style("deepseek_xml", r#"{"properties":{"e":{"enum":["12",1.5]}}}"#);
    check(&told, &[says(true, "12"), says(false, "1.5")], &[says(false, "12"), says(true, "1.5")]);
    let (of, e) = (of_e, |value: &str| p("e", value));
    check(
        &of(r#"{"enum":["a","\nb"]}"#),
        &[e("a"), e("\na\n"), e("a\n"), e("\n\nb\n"), e("\n\nb")],
        &[e("\n\na"), e("\nb"), e(" a"), e("")],
    );
    check(&of(r#"{"pattern":"^[ab]+$"}"#), &[e("\nab\n")], &[e("\nab\n\n")]);
    check(&of(r#"{"type":"string","format":"date"}"#), &[e("\n2024-02-29\n")], &[e("\n\n2024-02-29\n")]);
    check(
        &of(r#"{"type":"string","minLength":3}"#),
        &[e("abc"), e("\nabc\n"), e("\n\n\n\n\n"), e("\na\nb")],
        &[e("\nab\n"), e("\n\n\n\n")],
    );
    check(
        &of(r#"{"type":"string","maxLength":2}"#),
        &[e("\nab\n"), e(""), e("\n"), e("\n\n\n\n")],
        &[e("\nabc\n"), e("\n\n\n\n\n")],
    );
    // A text has no mark that ends it for a parser.
    check(
        &of(r#"{"type":"string"}"#),
        &[e("a<b</"), e("<parameter")],
        &[e("</ parameter>"), e("<parameter=x>"), e("</function>")],
    );
    // Other styles keep white space.
    let minimax = style("minimax_xml", r#"{"properties":{"e":{"enum":["a"]}}}"#);
    check_tag(
        &minimax,
        &["<parameter name=\"e\">a</parameter>"],
        &["<parameter name=\"e\">\na\n</parameter>", "<parameter name=\"e\"> a</parameter>"],
    );
}

/// Lengths are counted, and not written out as automata.
#[test]
fn lengths_are_counted() {
    for (name, before, after) in [
        ("qwen_xml", "<parameter=s>", "</parameter>"),
        ("minimax_m3_xml", "]<]minimax[>[<s>", "]<]minimax[>[</s>"),
        ("cohere_xml", "<cofl:value name=\"s\" type=\"raw\">", "</cofl:value>"),
    ] {
        let tag = style(name, r#"{"properties":{"s":{"type":"string","maxLength":65536,"minLength":2}}}"#);
        let text = |count: usize| format!("{before}{}{after}", "é".repeat(count));
        let compiled = Compiler::new(bytes()).compile(&spec(&tag)).unwrap();
        for (count, expected) in [(2, true), (65536, true), (1, false), (65537, false)] {
            assert_eq!(takes(&mut compiled.matcher(), &text(count)), expected, "{name}, {count} characters");
        }
        let tag =
            style(name, r#"{"properties":{"s":{"type":"string","maxLength":300,"pattern":"^[<é]*$"}}}"#);
        check(&tag, &[text(300), format!("{before}<<{after}")], &[text(301), format!("{before}a{after}")]);
    }
    let tag = style("qwen_xml", r#"{"properties":{"s":{"type":"string","maxLength":300}}}"#);
    let text = |value: String| p("s", &value);
    let long = "</".repeat(150);
    check(
        &tag,
        &[text(long.clone()), text(format!("\n{long}\n")), text(format!("\n\n{}", "a".repeat(299)))],
        &[text(long.clone() + "a"), text(format!("\n{long}\n\n")), text(format!("\n\n{}", "a".repeat(300)))],
    );
}

#[test]
fn references_lead_anywhere_and_annotations_say_nothing() {
    let to_member = r##"{"properties":{"x":{"type":"array","items":{"type":"object","properties":{"n":{"type":"string"}},"required":["n"]}},"y":{"type":"array","items":{"$ref":"#/properties/x/items"}}},"required":["y"]}"##;
    check(&style("qwen_xml", to_member), &[p("y", r#"[{"n":"a"}]"#)], &[p("y", "[{}]"), String::new()]);
    let to_root = r##"{"properties":{"n":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#"}}},"required":["n"]}"##;
    check(
        &style("qwen_xml", to_root),
        &[p("n", "1") + &p("kids", r#"[{"n":2,"kids":[]}]"#)],
        &[p("n", "1") + &p("kids", "[{}]")],
    );
    let named = r#"{"properties":{"b":{"properties":{"$ref":{"type":"string"}},"additionalProperties":false},"c":{"const":{"$ref":"x"}}},"required":["b"]}"#;
    check(
        &style("qwen_xml", named),
        &[p("b", r#"{"$ref":"a"}"#) + &p("c", r#"{"$ref":"x"}"#)],
        &[p("b", r#"{"a":1}"#)],
    );
    let annotated = r#"{"type":"object","properties":{"a":{"type":"integer","example":1}},"required":["a"],"x-order":1,"example":{"a":1},"nullable":true,"discriminator":{"propertyName":"a"},"$anchor":"q","propertyOrdering":["a"]}"#;
    check(&style("glm_xml", annotated), &["<arg_key>a</arg_key>\n<arg_value>1</arg_value>".to_owned()], &[]);
}

#[test]
fn the_object_of_all_members_has_any_conditions() {
    for never in ["false", r#"{"not":{}}"#] {
        let schema = format!(r#"{{"properties":{{"a":{never},"b":{{"type":"string"}}}},"required":["b"]}}"#);
        check(&style("qwen_xml", &schema), &[p("b", "x")], &[p("a", "x") + &p("b", "x"), String::new()]);
    }
    let a = |value: &str| p("a", value);
    for (schema, taken, refused) in [
        (
            r#"{"type":["object","null"],"properties":{"a":{"type":"integer"}}}"#,
            vec![a("1")],
            vec!["null".to_owned()],
        ),
        (
            r#"{"oneOf":[{"properties":{"a":{"const":"x"}},"required":["a"]},{"properties":{"a":{"const":"y"},"n":{"type":"integer"}},"required":["a","n"]}]}"#,
            vec![a("x"), a("\ny\n") + &p("n", "1"), p("n", "1") + &a("y")],
            vec![a("y"), p("n", "1")],
        ),
        (
            r#"{"properties":{"a":{"enum":["x","y"]},"b":{"type":"string"}},"required":["a"],"allOf":[{"if":{"properties":{"a":{"const":"x"}}},"then":{"required":["b"]}}]}"#,
            vec![a("y"), a("x") + &p("b", ""), p("b", "") + &a("x")],
            vec![a("x")],
        ),
        (
            r#"{"properties":{"a":{"type":"integer"},"b":{"type":"null"}},"minProperties":1,"anyOf":[{"required":["a"]},{"required":["b"]}]}"#,
            vec![a("1"), p("b", "null")],
            vec![String::new()],
        ),
        (
            r#"{"properties":{"ab":{"maxLength":3}},"patternProperties":{"^a":{"minLength":2},"b$":{"type":"string"}},"additionalProperties":false}"#,
            vec![p("ab", "xy"), p("a@/ []", "xy") + &p("cb", "")],
            vec![p("ab", "x"), p("c", "")],
        ),
        (
            r#"{"properties":{"filter[id]":{"type":"string"},"@x":{"type":"string"},"a/b":{"type":"string"},"two words":{"type":"string"}}}"#,
            vec![p("filter[id]", "x") + &p("@x", "") + &p("a/b", "") + &p("two words", "")],
            vec![],
        ),
        (r#"{"properties":{"a":{}},"required":["a","z"]}"#, vec![a("x") + &p("z", "y")], vec![a("x")]),
    ] {
        check(&style("qwen_xml", schema), &taken, &refused);
    }
}

/// A text that reads as a value of another type of its schema is none of its strings.
#[test]
fn a_text_has_the_type_that_a_parser_reads() {
    // A parser knows `number`, and not that all multiples of 3 are whole.
    let number = r#"{"oneOf":[{"type":"number","multipleOf":3},{"type":"string"}]}"#;
    check(&of_e(number), &[p("e", "6"), p("e", "x")], &[p("e", "1.5"), p("e", "4")]);
    let integer = r#"{"oneOf":[{"type":"integer","multipleOf":3},{"type":"string"}]}"#;
    check(&of_e(integer), &[p("e", "6"), p("e", "1.5")], &[p("e", "4")]);
    let listed = r#"{"anyOf":[{"enum":[12,null]},{"type":"string","minLength":2}]}"#;
    check(&of_e(listed), &[p("e", "12"), p("e", "1.5")], &[p("e", "13")]);
    let (of, e) = (of_e, |value: &str| p("e", value));
    check(
        &of(r#"{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]}"#),
        &[e("a"), e(r#"["a"]"#), e(""), e("x [1]")],
        &[e("[1]"), e("[draft]"), e(r#""a""#), e("12")],
    );
    check(
        &of(r#"{"anyOf":[{"type":"integer","minimum":5},{"type":"string"}]}"#),
        &[e("7"), e("seven"), e("1.5"), e("")],
        &[e("4"), e(" 4"), e("+4")],
    );
    check(&of(r#"{"type":["string","integer","null"]}"#), &[e("7"), e("007"), e("null"), e("x")], &[]);
    check(&of(r#"{"enum":[true,"no"]}"#), &[e("true"), e("no")], &[e("false"), e("yes")]);
    // In MiniMax's style an empty element is a string, where there may be one.
    let m = |name: &str, value: &str| format!("]<]minimax[>[<{name}>{value}]<]minimax[>[</{name}>");
    let either = r#"{"properties":{"e":{"anyOf":[{"type":"string","minLength":1},{"type":"object","properties":{"a":{"type":"null"}}}]}}}"#;
    check(&style("minimax_m3_xml", either), &[m("e", "x"), m("e", &m("a", "null"))], &[m("e", "")]);
}

/// One tool that cannot be enforced is named, and by choice the others stay in force.
#[test]
fn one_tool_that_cannot_be_enforced() {
    let tool = |name: &str, style: &str, value: &str| {
        format!(
            r#"{{"begin":"<f={name}>","content":{{"type":"json_schema","style":"{style}","json_schema":{{"properties":{{"a":{value}}},"required":["a"]}}}},"end":"</f>"}}"#
        )
    };
    let unread = r#"{"type":"string","pattern":"(a)\\1"}"#;
    let tags = |option: &str| {
        let tools = [
            tool("x", "qwen_xml", "{\"type\":\"integer\"}"),
            tool("y", "qwen_xml", unread),
            tool("z", "json", unread),
        ];
        let format =
            format!(r#"{{"type":"triggered_tags","triggers":["<f="],"tags":[{}]}}"#, tools.join(","));
        Spec::structural_tag(format!(r#"{{"type":"structural_tag","format":{format}{option}}}"#))
    };
    let space = bytes();
    let compiler = Compiler::new(space.clone());
    let error = compiler.compile(&tags("")).unwrap_err().to_string();
    // The place comes once.
    let start =
        "structural tag, /format/tags/1/content/json_schema/properties/a: in the tag \"<f=y>\": `pattern` ";
    assert!(error.starts_with(start), "{error}");
    let error = compiler.compile(&tags(r#","unenforced_tools":"drop""#)).unwrap_err().to_string();
    assert!(error.contains("/unenforced_tools") && error.contains("neither"), "{error}");
    let free = tags(r#","unenforced_tools":"free""#);
    let mut matcher = compiler.compile(&free).unwrap().matcher();
    for (text, expected) in [
        ("<f=x><parameter=a>1</parameter></f>", true),
        ("<f=x><parameter=a>b</parameter></f>", false),
        ("<f=y>anything < at all</f> x", true),
        ("<f=y>anything", false),
        ("<f=z>{\"b\": [1]}</f>", true),
        ("<f=z>{</f>", false),
    ] {
        assert_eq!(takes(&mut matcher, text), expected, "{text}");
    }
    let rows = free.explain().unwrap();
    let left: Vec<_> = rows.iter().filter(|row| row.construct == "unenforced_tools").collect();
    let at =
        |place: &str| left.iter().any(|row| row.pointer.as_deref() == Some(place) && row.fate == "rejected");
    assert!(
        left.len() == 2
            && at("/format/tags/1/content/json_schema")
            && at("/format/tags/2/content/json_schema")
    );
}

/// The keywords of each schema have fates of their own, at their places in the tag.
#[test]
fn keywords_are_explained_by_tool() {
    let tag = r#"{"type":"tag","begin":"<f>","end":"</f>","content":{"type":"json_schema","style":"qwen_xml","json_schema":{"type":"object","properties":{"a":{"type":"string","format":"email"},"b":{"pattern":"(a)\\1","type":"string"}},"x-order":1}}}"#;
    let rows = spec(tag).explain().unwrap();
    let found = |place: &str, construct: &str| {
        let place = format!("/format/content/json_schema{place}");
        let row =
            rows.iter().find(|row| row.pointer.as_deref() == Some(&*place) && row.construct == construct);
        row.map(|row| row.fate)
    };
    assert_eq!(found("", "type"), Some("enforced"));
    assert_eq!(found("", "x-order"), Some("annotation"));
    assert_eq!(found("", "properties"), Some("narrowed"), "undeclared members are left out");
    assert_eq!(found("", "schema"), Some("narrowed"), "strings without marks");
    assert_eq!(found("/properties/a", "format"), Some("narrowed"));
    assert_eq!(found("/properties/b", "pattern"), Some("rejected"));
    assert_eq!(rows.iter().filter(|row| row.fate == "rejected").count(), 1);
    assert!(!rows.iter().any(|row| row.construct == "json_schema"));
}
