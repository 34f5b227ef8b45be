//! The parts of structural tags that random ones do not reach: schemas, control tokens, styles, errors.

use std::sync::Arc;

use crate::common::{Random, accepts, bytes, check_tag, spec};
use unskew_core::TokenId;
use unskew_engine::{Compiler, Spec};

#[test]
fn schemas_grammars_and_expressions() {
    let tool = r#"{"type":"tag","begin":"<f1>","end":"</f>","content":{"type":"json_schema","max_whitespace_cnt":1,"json_schema":{"type":"object","properties":{"a":{"type":"integer"},"ab":{"enum":["</f>"]}},"required":["ab"],"additionalProperties":false}}}"#;
    check_tag(
        &format!(r#"{{"type":"triggered_tags","triggers":["<f"],"tags":[{tool}]}}"#),
        &[
            "",
            "x <",
            "é<f1>{\"ab\":\"</f>\"}</f>",
            "a<f1>{ \"a\":12,\"ab\": \"</f>\"}</f> b <f1>{\"ab\":\"</f>\"}</f>",
        ],
        &["<f", "<f1>{}</f>", "<f1>{\"ab\":\"</f>\"}", "<f1>{  \"ab\":\"</f>\"}</f>", "<f2>"],
    );
    // The parts of a grammar have nothing to do with each other: names are their own.
    let grammar = r#"{"type":"sequence","elements":[{"type":"grammar","grammar":"root ::= \"(\" x \")\"\nx ::= [a-c]+"},{"type":"grammar","grammar":"root ::= \"[\" x* \"]\"\nx ::= \"(\" x? \")\""}]}"#;
    check_tag(grammar, &["(abc)[]", "(a)[(())()]"], &["(a)[", "()[]", "(a)[(a)]"]);
    check_tag(r#"{"type":"regex","pattern":"a+|b"}"#, &["aa", "b"], &["ab", ""]);
    // Members in any order.
    let any = r#"{"type":"json_schema","any_order":true,"json_schema":{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"required":["a"],"additionalProperties":false}}"#;
    check_tag(any, &["{\"a\":1}", "{\"b\":2,\"a\":1}"], &["{\"b\":2}", "{\"a\":1,\"a\":1}"]);
}

#[test]
fn older_form() {
    let text = r#"{"structures":[{"begin":"<f1>","schema":{"const":1},"end":"</f>"},{"begin":"<f2>","schema":"{\"const\":2}","end":"</f>"}],"triggers":["<f"]}"#;
    let space = bytes();
    let (mut matcher, mut random) = (
        Compiler::new(Arc::clone(&space)).compile(&Spec::structural_tag(text)).unwrap().matcher(),
        Random::new(1),
    );
    for (text, expected) in [("a<f1>1</f>b<f2>2</f>", true), ("", true), ("<f1>2</f>", false)] {
        assert_eq!(accepts(&mut random, &space, &mut matcher, text), expected, "{text}");
    }
}

#[test]
fn control_tokens() {
    let space = bytes();
    let compiler = Compiler::new(Arc::clone(&space));
    let id = |name: &str| space.vocabulary().control_tokens().find(|(_, other)| other == name).unwrap().0;
    let (call, other, end) = (id("<|call|>"), id("<|other|>"), id("<end>"));
    let accepts = |tag: &str, tokens: &[TokenId]| {
        let mut matcher =
            compiler.compile(&spec(tag)).unwrap_or_else(|error| panic!("{tag}: {error}")).matcher();
        matcher.accept_all(tokens).unwrap() == tokens.len() && matcher.is_accepting()
    };
    let [a, b] = [TokenId(97), TokenId(98)];
    let token = format!(
        r#"{{"type":"sequence","elements":[{{"type":"token","token":{}}},{{"type":"token","token":"<|other|>"}}]}}"#,
        call.0
    );
    assert!(accepts(&token, &[call, other]) && !accepts(&token, &[call]) && !accepts(&token, &[a]));
    let any = r#"{"type":"any_tokens","exclude_tokens":["<|other|>"]}"#;
    assert!(accepts(any, &[]) && accepts(any, &[a, call, call, b]) && !accepts(any, &[a, other]));
    let tag = |content: &str| {
        format!(
            r#"{{"type":"tag","begin":{{"type":"token","token":"<|call|>"}},"content":{content},"end":{{"type":"token","token":"<|other|>"}}}}"#
        )
    };
    let inside = tag(r#"{"type":"any_tokens"}"#);
    assert!(accepts(&inside, &[call, a, call, other]) && !accepts(&inside, &[call, other, other]));
    let triggered = format!(
        r#"{{"type":"token_triggered_tags","trigger_tokens":["<|call|>"],"tags":[{}]}}"#,
        tag(r#"{"type":"const_string","value":"b"}"#)
    );
    assert!(accepts(&triggered, &[a, call, b, other, a]) && accepts(&triggered, &[other, a]));
    assert!(!accepts(&triggered, &[a, call, a, other]) && !accepts(&triggered, &[call]));
    let dispatch = r#"{"type":"token_dispatch","loop":false,"rules":[["<|call|>",{"type":"const_string","value":"b"}]],"exclude_tokens":["<|other|>"]}"#;
    assert!(accepts(dispatch, &[a, call, b]) && accepts(dispatch, &[a]));
    assert!(!accepts(dispatch, &[other]) && !accepts(dispatch, &[call, b, a]));
    // A token that ends the sequence is the end of the output.
    let ended = r#"{"type":"sequence","elements":[{"type":"const_string","value":"a"},{"type":"token","token":"<end>"}]}"#;
    assert!(accepts(ended, &[a]) && accepts(ended, &[a, end]));
}

#[test]
fn tokens_of_text() {
    let space = bytes();
    let compiler = Compiler::new(Arc::clone(&space));
    let id =
        |text: &str| space.vocabulary().text_tokens().find(|(_, other)| *other == text.as_bytes()).unwrap().0;
    let (a, b, ab, close, end) = (id("a"), id("b"), id("ab"), id(">"), id("</"));
    let call = space.vocabulary().control_tokens().find(|(_, name)| name == "<|call|>").unwrap().0;
    let accepts = |tag: &str, tokens: &[TokenId]| {
        let compiled = compiler.compile(&spec(tag)).unwrap_or_else(|error| panic!("{tag}: {error}"));
        let mut matcher = compiled.matcher();
        matcher.accept_all(tokens).unwrap() == tokens.len() && matcher.is_accepting()
    };
    // A token and not its text.
    let token = r#"{"type":"token","token":"ab"}"#;
    assert!(accepts(token, &[ab]) && !accepts(token, &[a, b]));
    let by_number = format!(r#"{{"type":"token","token":{}}}"#, ab.0);
    assert!(accepts(&by_number, &[ab]) && !accepts(&by_number, &[a, b]));
    // One token of any bytes, a control token too, and no end of the sequence.
    let other = r#"{"type":"exclude_token","exclude_tokens":["ab",98]}"#;
    assert!(accepts(other, &[a]) && accepts(other, &[call]) && accepts(other, &[TokenId(0xff)]));
    assert!(
        !accepts(other, &[ab]) && !accepts(other, &[b]) && !accepts(other, &[a, a]) && !accepts(other, &[])
    );
    let some = r#"{"type":"any_tokens","exclude_tokens":["ab"],"max_tokens":2}"#;
    assert!(
        accepts(some, &[]) && accepts(some, &[a, b]) && !accepts(some, &[a, b, a]) && !accepts(some, &[ab])
    );
    // Text of whole tokens: at most so many, none of which crosses its end.
    let few =
        r#"{"type":"tag","begin":"<","content":{"type":"any_text","max_tokens":2,"max_chars":3},"end":"b>"}"#;
    let begin = id("<");
    assert!(accepts(few, &[begin, a, ab, b, close]) && accepts(few, &[begin, b, close]));
    assert!(!accepts(few, &[begin, a, a, a, b, close]), "three tokens");
    assert!(!accepts(few, &[begin, ab, ab, b, close]), "four characters");
    assert!(!accepts(few, &[begin, ab, close]), "a token crosses the end");
    // The same token as text and by itself: both readings go on.
    let both = r#"{"type":"or","elements":[{"type":"const_string","value":"abb"},{"type":"sequence","elements":[{"type":"token","token":"ab"},{"type":"const_string","value":"a"}]}]}"#;
    assert!(accepts(both, &[ab, b]) && accepts(both, &[ab, a]) && accepts(both, &[a, b, b]));
    assert!(!accepts(both, &[a, b, a]));
    // Text in front of a token: the token is not cut in two.
    let last = r#"{"type":"sequence","elements":[{"type":"any_text"},{"type":"token","token":"ab"}]}"#;
    assert!(accepts(last, &[a, ab, ab]) && !accepts(last, &[ab, a, b]));
    // A tag that tokens begin and end. Its free text may spell the end, and its free tokens may not be it.
    let tag = |content: &str| {
        format!(
            r#"{{"type":"tag","begin":{{"type":"token","token":"ab"}},"content":{content},"end":{{"type":"token","token":"</"}}}}"#
        )
    };
    let text = tag(r#"{"type":"any_text"}"#);
    assert!(
        accepts(&text, &[ab, end, end]) && accepts(&text, &[ab, a, end]) && !accepts(&text, &[a, b, end])
    );
    let free = tag(r#"{"type":"any_tokens"}"#);
    assert!(accepts(&free, &[ab, a, call, end]) && !accepts(&free, &[ab, end, end]));
    // Triggers that are tokens of text, in a tag that a text ends: the text may be spelled by free tokens.
    let triggered = r#"{"type":"tag","begin":"<f","end":">","content":{"type":"token_triggered_tags","trigger_tokens":["ab"],"exclude_tokens":["12"],"tags":[{"begin":{"type":"token","token":"ab"},"content":{"type":"const_string","value":"b"},"end":""}]}}"#;
    let begin = id("<f");
    assert!(accepts(triggered, &[begin, a, b, ab, b, close, close]));
    assert!(!accepts(triggered, &[begin, ab, a, close]) && !accepts(triggered, &[begin, id("12"), close]));
    // Nothing is forced over tokens that begin alike and lead elsewhere.
    let alike = r#"{"type":"or","elements":[{"type":"sequence","elements":[{"type":"token","token":"ab"},{"type":"const_string","value":"x"}]},{"type":"sequence","elements":[{"type":"token","token":"abc"},{"type":"const_string","value":"y"}]}]}"#;
    let matcher = compiler.compile(&spec(alike)).unwrap().matcher();
    assert_eq!(matcher.forced_text(10).unwrap(), b"ab");
    assert_eq!(matcher.forced_tokens(10).unwrap(), []);
    // Beside a trigger of text, which fires however tokens divide it.
    let beside = r#"{"type":"or","elements":[{"type":"token_dispatch","rules":[["ab",{"type":"const_string","value":"b"}]]},{"type":"dispatch","rules":[["ab",{"type":"const_string","value":"c"}]]}]}"#;
    assert!(
        accepts(beside, &[ab, b]) && accepts(beside, &[ab, id("c")]) && accepts(beside, &[a, b, id("c")])
    );
    // As free tokens, `a` and `b` are no trigger.
    assert!(accepts(beside, &[a, b, b]) && !accepts(beside, &[ab, a]));
}

#[test]
fn strings_without_texts() {
    let schema = r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string","maxLength":4},"c":{"enum":["x","</a>"]},"n":{"type":"integer"}},"additionalProperties":{"type":"array","items":{"type":"string","pattern":"^[<a]+$"}}}"#;
    let tag = format!(
        r#"{{"type":"json_schema","max_whitespace_cnt":1,"json_schema":{schema},"excludes":["</","aa"]}}"#
    );
    check_tag(
        &tag,
        &[
            r#"{"a":"a<\/a"}"#,
            r#"{"a":"<\u002fa", "b":"a<a"}"#,
            r#"{"b":"abab","c":"x","n":12}"#,
            r#"{"d":["<a","a<"],"e":[]}"#,
            "{}",
        ],
        &[
            r#"{"a":"x</a"}"#,
            r#"{"a":"aa"}"#,
            r#"{"b":"baab"}"#,
            r#"{"b":"babab"}"#,
            r#"{"c":"</a>"}"#,
            r#"{"d":["aa"]}"#,
            r#"{"daa":[]}"#,
            r#"{"</":[]}"#,
        ],
    );
    // As it is written: an escape may have the text in it, and quotes are no part of a string.
    let written = r#"{"type":"json_schema","json_schema":{"type":"array","items":{"type":"string"}},"max_whitespace_cnt":0,"excludes":["n","\",\""]}"#;
    check_tag(written, &[r#"["a","b"]"#, r#"["\u000a"]"#], &[r#"["\n"]"#, r#"["an"]"#]);
    // Raw strings and listed ones in elements.
    let elements = r#"{"type":"json_schema","style":"qwen_xml","json_schema":{"properties":{"a":{"type":"string"},"b":{"enum":["x","xy"]},"c":{"type":"array","items":{"type":"string"}}}},"excludes":["xy"]}"#;
    let p = |name: &str, value: &str| format!("<parameter={name}>{value}</parameter>");
    check_tag(
        elements,
        &[&(p("a", "x y") + &p("b", "x") + &p("c", "[\"yx\"]"))],
        &[&p("a", "xy"), &p("b", "xy"), &p("c", "[\"xy\"]")],
    );
}

#[test]
fn nested_elements() {
    let schema = r##"{"type":"object","properties":{"s":{"type":"string","maxLength":5},"o":{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":["string","null"]}},"required":["x"]},"l":{"type":"array","items":{"$ref":"#/$defs/t"},"maxItems":2},"k":{"const":{"a":[1,"s"]}}},"required":["o"],"$defs":{"t":{"type":"object","properties":{"v":{"type":"boolean"},"t":{"type":"array","items":{"$ref":"#/$defs/t"}}},"required":["v"]}}}"##;
    let tag = |style: &str| {
        format!(r#"{{"type":"json_schema","style":"{style}","max_whitespace_cnt":1,"json_schema":{schema}}}"#)
    };
    let c = |name: &str, of: &str, value: &str| {
        let name = if name.is_empty() { String::new() } else { format!(" name=\"{name}\"") };
        format!("<cofl:value{name} type=\"{of}\">{value}</cofl:value>")
    };
    let tree =
        c("", "dict", &(c("v", "json", "true") + &c("t", "list", &c("", "dict", &c("v", "json", " false")))));
    check_tag(
        &tag("cohere_xml"),
        &[
            &c("o", "dict", &c("x", "json", "1")),
            &(c("s", "raw", "a <b")
                + "
" + &c("o", "dict", &(" ".to_owned() + &c("x", "json", " 1 ") + &c("y", "raw", "null")))),
            &(c("o", "dict", &(c("x", "json", "1") + &c("y", "json", "null")))
                + &c("l", "list", &tree)
                + " "),
            &(c("o", "dict", &c("x", "json", "1"))
                + &c("k", "dict", &c("a", "list", &(c("", "json", "1") + &c("", "raw", "s"))))),
        ],
        &[
            "",
            &c("o", "dict", ""),
            &c("o", "json", &c("x", "json", "1")),
            &c("o", "dict", &c("x", "raw", "1")),
            &(c("o", "dict", &c("x", "json", "1")) + &c("s", "raw", "a")),
            &(c("s", "raw", "sixsix") + &c("o", "dict", &c("x", "json", "1"))),
            &(c("o", "dict", &c("x", "json", "1")) + &c("l", "list", &tree.repeat(3))),
        ],
    );
    let m = |name: &str, value: &str| format!("]<]minimax[>[<{name}>{value}]<]minimax[>[</{name}>");
    let tree = m(
        "item",
        &(m("v", "true")
            + &m(
                "t",
                &(m("item", &m("v", "false"))
                    + "
"),
            )),
    );
    check_tag(
        &tag("minimax_m3_xml"),
        &[
            &m("o", &m("x", "1")),
            &(m("s", "a <b")
                + "
" + &m("o", &(" ".to_owned() + &m("x", "1") + &m("y", "null")))),
            &(m("o", &m("x", "1")) + &m("l", &tree) + " "),
            &(m("o", &m("x", "1")) + &m("l", "")),
            &(m("o", &m("x", " 1")) + &m("l", " ")),
            &(m("o", &m("x", "1")) + &m("k", &m("a", &(m("item", "1") + &m("item", "s"))))),
        ],
        &[
            "",
            &m("o", ""),
            &(m("o", &m("x", "1")) + &m("s", "a")),
            &(m("o", &m("x", "1")) + &m("l", &tree.repeat(3))),
        ],
    );
    // Some members or none, places of an array, and any value.
    let optional = r#"{"type":"json_schema","style":"minimax_m3_xml","max_whitespace_cnt":1,"json_schema":{"properties":{"a":{"type":"null"},"b":{"type":"null"},"p":{"type":"array","prefixItems":[{"type":"integer"},{"type":"boolean"}],"items":false,"minItems":1}}}}"#;
    check_tag(
        optional,
        &[
            "",
            " ",
            &m("a", "null"),
            &(" ".to_owned() + &m("b", "null") + " "),
            &m("p", &m("item", "1")),
            &m("p", &(m("item", "1") + " " + &m("item", "true") + " ")),
        ],
        &[&(m("b", "null") + &m("a", "null")), &m("p", ""), &m("p", &m("item", "true"))],
    );
    let any = r#"{"type":"json_schema","style":"cohere_xml","max_whitespace_cnt":1,"json_schema":{"properties":{"a<b":{}}}}"#;
    let of = |of: &str, value: &str| c("a&lt;b", of, value);
    check_tag(
        any,
        &[
            "",
            &of("raw", "<x>"),
            &of("json", " 1"),
            &of("list", &(c("", "raw", "x") + &c("", "dict", " "))),
            &of("dict", &(c("x&amp;y", "json", "null") + " " + &c("é", "list", ""))),
        ],
        &[
            &of("json", "\"x\""),
            &of("dict", &(c("x", "json", "null") + &c("x", "json", "null"))),
            &of("dict", &c("x<", "json", "null")),
            &of("list", &c("x", "raw", "")),
        ],
    );
}

#[test]
fn parameters_as_elements() {
    let schema = r##"{"type":"object","properties":{"s":{"type":"string","maxLength":3},"n":{"type":"integer"},"e":{"enum":["x<y",true]},"r":{"$ref":"#/$defs/r"},"l":{"type":["array","null"],"items":{"$ref":"#/$defs/r"}}},"required":["s","n"],"additionalProperties":false,"$defs":{"r":{"anyOf":[{"type":"boolean"},{"type":"string"}]}}}"##;
    let tag = |style: &str, more: &str| {
        format!(
            r#"{{"type":"json_schema","style":"{style}","max_whitespace_cnt":1{more},"json_schema":{schema}}}"#
        )
    };
    let p = |name: &str, value: &str| format!("<parameter={name}>{value}</parameter>");
    check_tag(
        &tag("qwen_xml", ""),
        &[
            &(p("s", "a<b") + &p("n", "12")),
            &(p("s", " a ")
                + "\n"
                + &p("n", " 12 ")
                + &p("e", "x<y")
                + &p("r", "<")
                + &p("l", "[true, \"s\"]")
                + " "),
            &(p("s", "") + &p("n", "-1") + &p("e", "true") + &p("l", "null")),
        ],
        &[
            &p("s", "a"),
            &(p("n", "1") + &p("s", "a")),
            &(p("s", "four") + &p("n", "1")),
            &(p("s", "a") + &p("n", "1.5")),
            &(p("s", "a") + &p("n", "1") + &p("z", "1")),
            &(p("s", "a") + &p("n", "1") + &p("e", "\"x<y\"")),
        ],
    );
    check_tag(
        &tag("qwen_xml", r#","any_order":true"#),
        &[&(p("n", "1") + &p("r", "true") + &p("s", "a"))],
        &[&p("n", "1")],
    );
    check_tag(
        &tag("minimax_xml", ""),
        &["<parameter name=\"s\">a</parameter> <parameter name=\"n\">1</parameter>"],
        &[],
    );
    check_tag(
        &tag("glm_xml", ""),
        &["<arg_key>s</arg_key>\n<arg_value>a</arg_value><arg_key>n</arg_key><arg_value>1</arg_value>"],
        &["<arg_key>s</arg_key>"],
    );
    let deepseek = |s: &str| {
        format!(
            "<\u{ff5c}DSML\u{ff5c}parameter name=\"s\" string=\"true\">a</\u{ff5c}DSML\u{ff5c}parameter><\u{ff5c}DSML\u{ff5c}parameter name=\"n\" string=\"{s}\">1</\u{ff5c}DSML\u{ff5c}parameter>"
        )
    };
    check_tag(&tag("deepseek_xml", ""), &[&deepseek("false")], &[&deepseek("true")]);
    let spaced = deepseek("false").replace("\u{ff5c}parameter", "\u{ff5c} parameter");
    check_tag(&tag("deepseek_v4_1_xml", ""), &[&spaced], &[&deepseek("false")]);
    let kimi = |of: &str| {
        format!(
            "<|open|>argument key=\"s\" type=\"string\"<|sep|>a<|close|>argument<|sep|><|open|>argument key=\"n\" type=\"{of}\"<|sep|>1<|close|>argument<|sep|>"
        )
    };
    check_tag(&tag("kimi_k3_xml", ""), &[&kimi("number")], &[&kimi("string")]);
    check_tag(
        r#"{"type":"qwen_xml_parameter","json_schema":{"type":"object","properties":{"s":{}},"required":["s"]}}"#,
        &[&p("s", "any <x> text")],
        &[&p("s", "</parameter>x")],
    );
}

/// Parameters of any name follow those that are declared, each name once.
#[test]
fn parameters_of_other_names() {
    let tag = |style: &str, schema: &str| {
        format!(r#"{{"type":"json_schema","style":"{style}","max_whitespace_cnt":1,"json_schema":{schema}}}"#)
    };
    let p = |name: &str, value: &str| format!("<parameter={name}>{value}</parameter>");
    for open in ["true", "{}", r#"{"type":"object"}"#, r#"{"additionalProperties":true}"#] {
        check_tag(
            &tag("qwen_xml", open),
            &["", &(p("a", "x") + "\n" + &p("b_1", "")), &p("é", "<a>"), &p("a b[@/]", "x")],
            &[
                &(p("a", "x") + &p("a", "y")),
                &p(" a", "x"),
                &p("a\nb", "x"),
                &p("", "x"),
                &p("a", "</parameter>"),
            ],
        );
    }
    // Declared members come first, and no other has one of their names.
    let more = r#"{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":{"type":"boolean"}}"#;
    check_tag(
        &tag("qwen_xml", more),
        &["", &p("n", "1"), &(p("n", "1") + &p("a", "true") + &p("b", "false")), &p("nn", "true")],
        &[
            &p("n", "true"),
            &p("a", "1"),
            &(p("a", "true") + &p("n", "1")),
            &(p("a", "true") + &p("a", "true")),
        ],
    );
    let any = tag("qwen_xml", more).replace("max_whitespace_cnt", "any_order\":true,\"max_whitespace_cnt");
    check_tag(&any, &[&(p("a", "true") + &p("n", "1"))], &[&p("n", "true"), &(p("n", "1") + &p("n", "2"))]);
    let patterns = r#"{"patternProperties":{"^s_":{"type":"string","maxLength":1},"^v[12]$":{"type":"null"}},"additionalProperties":false}"#;
    check_tag(
        &tag("minimax_xml", patterns),
        &[
            "",
            "<parameter name=\"s_v1\">x</parameter>",
            "<parameter name=\"v2\">null</parameter><parameter name=\"s_a\">x</parameter><parameter name=\"s_\">y</parameter>",
        ],
        &[
            "<parameter name=\"s_a\">xy</parameter>",
            "<parameter name=\"v3\">null</parameter>",
            "<parameter name=\"v1\">null</parameter><parameter name=\"v1\">null</parameter>",
        ],
    );
    // Where an element names the type, a text has that type.
    let kimi = |name: &str, of: &str, value: &str| {
        format!("<|open|>argument key=\"{name}\" type=\"{of}\"<|sep|>{value}<|close|>argument<|sep|>")
    };
    check_tag(
        &tag("kimi_k3_xml", "true"),
        &[&kimi("k", "string", "x"), &kimi("a&quot;b", "number", "1.5"), &kimi("k", "object", "{\"k\":1}")],
        &[&kimi("k", "number", "x"), &kimi("a\"b", "number", "1")],
    );
    let cohere = |name: &str, of: &str, value: &str| {
        format!("<cofl:value name=\"{name}\" type=\"{of}\">{value}</cofl:value>")
    };
    check_tag(
        &tag("cohere_xml", r#"{"additionalProperties":{"type":["string","object"]}}"#),
        &[&cohere("a", "raw", "x"), &cohere("a", "dict", &cohere("b", "json", "1"))],
        &[&cohere("a", "json", "1"), &(cohere("a", "raw", "x") + &cohere("a", "raw", "y"))],
    );
    let listed = r#"{"enum":[{"s":"a"},{"n":4}]}"#;
    check_tag(&tag("qwen_xml", listed), &[&p("s", "a"), &p("n", "4")], &["", &(p("s", "a") + &p("n", "4"))]);
}

/// A value has any schema: its strings stand as they are, and its other values are JSON.
#[test]
fn values_of_any_schema() {
    let tag = |style: &str, value: &str| {
        format!(
            r##"{{"type":"json_schema","style":"{style}","max_whitespace_cnt":0,"json_schema":{{"properties":{{"v":{value}}},"required":["v"],"$defs":{{"a":{{"anyOf":[{{"type":"null"}},{{"$ref":"#/$defs/a"}}]}}}}}}}}"##
        )
    };
    let p = |value: &str| format!("<parameter=v>{value}</parameter>");
    for (value, accepted, rejected) in [
        (r#"{"type":"string","pattern":"^a+\\.$"}"#, vec!["aa."], vec!["a", "\"a.\"", "b."]),
        (r#"{"type":"string","format":"date"}"#, vec!["2024-02-29"], vec!["2023-02-29"]),
        (r#"{"allOf":[{"type":"string"},{"minLength":2}]}"#, vec!["ab", "42"], vec!["a"]),
        (r#"{"oneOf":[{"type":"integer","minimum":3},{"const":"b"}]}"#, vec!["3", "b"], vec!["2", "\"b\""]),
        (r#"{"minimum":3,"maxLength":1}"#, vec!["4", "x", "null", "[7]", "12"], vec!["xy"]),
        (r#"{"not":{"type":"string"}}"#, vec!["1", "{\"a\":\"b\"}"], vec!["x"]),
        (r##"{"$ref":"#/$defs/a"}"##, vec!["null"], vec!["x", "1"]),
    ] {
        let texts = |values: Vec<&str>| values.into_iter().map(p).collect::<Vec<_>>();
        let (accepted, rejected) = (texts(accepted), texts(rejected));
        check_tag(
            &tag("qwen_xml", value),
            &accepted.iter().map(String::as_str).collect::<Vec<_>>(),
            &rejected.iter().map(String::as_str).collect::<Vec<_>>(),
        );
    }
    let deepseek = |is_string: bool, value: &str| {
        format!(
            "<\u{ff5c}DSML\u{ff5c}parameter name=\"v\" string=\"{is_string}\">{value}</\u{ff5c}DSML\u{ff5c}parameter>"
        )
    };
    check_tag(
        &tag("deepseek_xml", r#"{"oneOf":[{"type":"string"},{"type":"integer"}]}"#),
        &[&deepseek(true, "42"), &deepseek(false, "42")],
        &[&deepseek(false, "x"), &deepseek(false, "1.5")],
    );
}

#[test]
fn errors_name_their_place() {
    let compiler = Compiler::new(bytes());
    for (tag, pointer, message) in [
        (r#"{"type":"const_strin","value":"a"}"#, "/format", "no format"),
        (r#"{"type":"const_string","value":"a","valu":"b"}"#, "/format/valu", "no field"),
        (r#"{"type":"const_string","value":"a","value":"b"}"#, "/format", "comes twice"),
        (r#"{"type":"const_string"}"#, "/format", "`value` is missing"),
        (
            r#"{"type":"sequence","elements":[{"type":"or","elements":[]}]}"#,
            "/format/elements/0/elements",
            "at least one",
        ),
        (r#"{"type":"any_text","max_tokens":100001}"#, "/format/max_tokens", "more than 100000"),
        (r#"{"type":"any_text","excludes":[""]}"#, "/format/excludes", "empty text"),
        (r#"{"type":"token","token":"<|nobody|>"}"#, "/format/token", "no token with the name or the text"),
        (r#"{"type":"any_tokens","max_tokens":100001}"#, "/format/max_tokens", "more than 100000"),
        (r#"{"type":"token","token":100000}"#, "/format/token", "no token 100000"),
        (r#"{"type":"regex","pattern":"("}"#, "/format/pattern", "not closed"),
        (r#"{"type":"grammar","grammar":"root ::= x"}"#, "/format/grammar", "x"),
        (
            r#"{"type":"json_schema","json_schema":{"type":"strin"}}"#,
            "/format/json_schema",
            "which is no type",
        ),
        (r#"{"type":"json_schema","json_schema":true,"excludes":[""]}"#, "/format/excludes", "empty text"),
        (r#"{"type":"json_schema","json_schema":true,"style":"some_xml"}"#, "/format/style", "is no style"),
        (
            r#"{"type":"json_schema","json_schema":{"properties":{"ab":{"type":"null"}}},"style":"qwen_xml","excludes":["b"]}"#,
            "/format/json_schema/properties/ab",
            "the excluded",
        ),
        (
            r#"{"type":"json_schema","json_schema":{"properties":{"a":{"type":"array","items":{"type":"integer"},"uniqueItems":true}}},"style":"cohere_xml"}"#,
            "/format/json_schema/properties/a",
            "`uniqueItems` is not enforced",
        ),
        (
            r#"{"type":"json_schema","json_schema":{"properties":{"a":{"allOf":[{"type":"string"},{"type":"null"}]}},"required":["a"]},"style":"qwen_xml"}"#,
            "/format/json_schema/properties/a",
            "no value satisfies `allOf`",
        ),
        (
            r#"{"type":"json_schema","json_schema":{"type":"array"},"style":"glm_xml"}"#,
            "/format/json_schema",
            "no value satisfies",
        ),
        (
            r#"{"type":"tag","begin":"<f=g>","content":{"type":"json_schema","json_schema":{"properties":{"a>":{"type":"null"}}},"style":"qwen_xml"},"end":"</f>"}"#,
            "/format/content/json_schema/properties/a>",
            "in the tag \"<f=g>\": ",
        ),
        (
            r#"{"type":"json_schema","json_schema":{"type":"array","items":{"enum":["a","b"]},"uniqueItems":true,"minItems":2},"excludes":["b"]}"#,
            "/format/json_schema",
            "no text without `excludes` satisfies",
        ),
        (
            r#"{"type":"json_schema","json_schema":{"properties":{"a":{"type":"string","pattern":"(a)\\1"}}},"style":"qwen_xml"}"#,
            "/format/json_schema/properties/a",
            "`pattern` is not enforced",
        ),
        (r#"{"type":"repeat","min":3,"max":2,"content":{"type":"any_text"}}"#, "/format", "less than"),
        (
            r#"{"type":"repeat","min":3000000,"max":-1,"content":{"type":"any_text"}}"#,
            "/format",
            "the limit `tag.count`",
        ),
        (
            r#"{"type":"triggered_tags","triggers":["a"],"tags":[{"type":"tag","begin":"b","content":{"type":"any_text"},"end":"c"}]}"#,
            "/format/tags/0",
            "begins with no trigger",
        ),
        (
            r#"{"type":"triggered_tags","triggers":["a","b"],"tags":[{"type":"tag","begin":"b","content":{"type":"any_text"},"end":"c"}]}"#,
            "/format",
            "no tag begins with",
        ),
        (
            r#"{"type":"dispatch","rules":[["a",{"type":"any_text"}],["ab",{"type":"any_text"}]]}"#,
            "/format",
            "can never fire",
        ),
    ] {
        let error = compiler.compile(&spec(tag)).expect_err(tag).to_string();
        let place = format!("structural tag, {pointer}: ");
        // That no text is left shows when the whole is compiled.
        let is_placed = pointer.is_empty() || error.starts_with(&place);
        assert!(is_placed && error.contains(message), "{tag}: {error}");
    }
    // Deep nesting ends in an error, and in time.
    let mut deep = r#"{"type":"any_text"}"#.to_owned();
    for _ in 0..1000 {
        deep = format!(r#"{{"type":"star","content":{deep}}}"#);
    }
    assert!(compiler.compile(&spec(&deep)).is_err());
    let wrong = [r#"{"type":"structural_tag"}"#, "[]", "7", "{", r#"{"type":"tag","format":{}}"#];
    for text in wrong {
        assert!(compiler.compile(&Spec::structural_tag(text)).is_err(), "{text}");
    }
}

#[test]
fn explained() {
    let tag = r#"{"type":"sequence","elements":[{"type":"exclude_token"},{"type":"any_text","max_tokens":100001}]}"#;
    let fates: Vec<_> = spec(tag)
        .explain()
        .unwrap()
        .into_iter()
        .map(|fate| (fate.pointer.unwrap(), fate.fate, fate.construct))
        .collect();
    let expected = [
        ("/format/elements/0", "enforced", "exclude_token"),
        ("/format/elements/1/max_tokens", "rejected", "structural tag"),
    ];
    assert_eq!(
        fates,
        expected.map(|(pointer, fate, construct)| (pointer.to_owned(), fate, construct.to_owned()))
    );
    assert!(Spec::structural_tag("{").explain().is_err());
}
