//! Errors for texts that are no grammars: one line with a location, the text found there, and the expected one.

use std::fmt::Write as _;

use unskew_grammar::GrammarLimits;
use unskew_notation::{GrammarFormat, GrammarOptions};

/// Each text with its error.
fn errors(format: GrammarFormat, texts: &[&str]) -> String {
    let mut report = String::new();
    for text in texts {
        let error =
            match unskew_notation::parse(text, format, &GrammarOptions::default(), &GrammarLimits::default())
            {
                Ok(_) => panic!("{text:?} is a grammar"),
                Err(error) => error.to_string(),
            };
        assert!(!error.contains('\n'), "{error}");
        writeln!(report, "{text:?}\n    {error}").unwrap();
    }
    report
}

fn snapshot(name: &str, report: &str) {
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, report) });
}

#[test]
fn gbnf() {
    snapshot(
        "gbnf",
        &errors(
            GrammarFormat::Gbnf,
            &[
                "",
                "# nothing\n",
                "start ::= \"a\"",
                "root = \"a\"",
                "root: \"a\"",
                "root ::= \"a\"\n  \"b\"",
                "root ::= a\n\"b\" ::= c",
                "root ::= valeu\nvalue ::= \"a\"",
                "root ::= quite-another\nvalue ::= \"a\"",
                "root ::= \"a\"\nroot ::= \"b\"",
                "root ::= \"a",
                "root ::= \"a\n\"",
                "root ::= \"\\q\"",
                "root ::= \"\\x4\"",
                "root ::= \"\\u12\"",
                "root ::= \"\\ud800\"",
                "root ::= \"\\U00110000\"",
                "root ::= \"a\\",
                "root ::= [a-z",
                "root ::= []",
                "root ::= [z-a]",
                "root ::= [^\\x00-\\U0010ffff]",
                "root ::= (\"a\"",
                "root ::= \"a\")",
                "root ::= *",
                "root ::= (\"a\" | *)",
                "root ::= \"a\"{",
                "root ::= \"a\"{x}",
                "root ::= \"a\"{2,1}",
                "root ::= \"a\"{1;2}",
                "root ::= \"a\"{99999999999}",
                "root ::= 'a'",
                "root ::= \"a\" & \"b\"",
                "root ::= <[1000>",
                "root ::= !think",
                "root ::= <think",
                "root ::= <>",
                "root ::= é",
                "root ::= \"a\" \u{1}",
                "_1 ::= \"x\"\n::= y",
            ],
        ),
    );
}

#[test]
fn ebnf() {
    snapshot(
        "ebnf",
        &errors(
            GrammarFormat::Ebnf,
            &[
                "root ::= Regex(\"a\")",
                "",
                "a = ? b ?;",
                "a ::= 'b' ;",
                "a ::= 'b",
                "a ::= b",
                "a ::= 'x' -",
                "a ::= - 'x'",
                "a ::= 'x' - | 'y'",
                "a ::= ('x' -)",
                "a ::= 'x' - 'x'",
                "a ::= a - 'x'",
                "a ::= b - 'x'\nb ::= 'y' c\nc ::= b?",
                "a ::= #xZZ",
                "a ::= #x41z",
                "a ::= #x110000",
                "a ::= #xD800",
                "a ::= [#x41-#x40]",
                "a ::= 'x' [ wfc: Element Type Match ]",
                "a ::= /* b",
                "a ::= '\\n'",
                "a ::= '\\'' 'b'",
                "a ::= #x41 \"\\n\"",
                "a ::= [\\n] [#xA]",
                "a ::= <b>",
                "a ::= 'x'\na ::= 'y'",
                "a ::= 'x'{3,2}",
                "a ::= 'b' , 'c'",
            ],
        ),
    );
}

#[test]
fn xgrammar() {
    let grammars = [
        "",
        "start ::= \"a\"",
        "root = \"a\"",
        "root ::=",
        "root ::= \"a\" |",
        "root ::= | \"a\"",
        "root ::= (\"a\" |)",
        "root ::= (\"a\"",
        "root ::= \"a\")",
        "root ::= \"a\"++",
        "root ::= *",
        "root ::= \"a\"{,2}",
        "root ::= \"a\"{2,1}",
        "root ::= \"a\"{-1}",
        "root ::= 'a'",
        "root ::= .",
        "root ::= <a>",
        "root ::= \"a\" b ::= \"b\"",
        "root ::= valeu\nvalue ::= \"a\"",
        "root ::= \"a\"\nroot ::= \"b\"",
        "root ::= \"a\n\"",
        "root ::= \"\\q\"",
        "root ::= \"\\x\"",
        "root ::= \"\\x110000\"",
        "root ::= \"\\d\"",
        "root ::= []",
        "root ::= [a-\\d]",
        "root ::= [b-a]",
        "root ::= \"a\" (= b)",
        "root ::= \"a\" (= \"b\"",
        "root ::= \"a\" (= \"b\") \"c\"",
        "root ::= (\"a\" (= \"b\"))",
        "root ::= \"a\" (=)",
        "root[] ::= \"a\"",
        "root[lazi] ::= \"a\"",
        "root[lazy, lazy] ::= \"a\"",
        "root[max_chars] ::= \"a\"",
        "root[max_chars=-1] ::= \"a\"",
        "root[max_tokens=0] ::= \"a\"",
        "root[capture=\"\"] ::= \"a\"",
        "root[capture=it] ::= \"a\"",
        "root[temperature=-1] ::= \"a\"",
        "root[lazy max_chars=1] ::= \"a\"",
        "root[lazy] ::= \"(\" root \")\" | \"a\"",
        "root[max_chars=3] ::= \"(\" root \")\" | \"a\"",
        "root ::= Regex",
        "root ::= Regex()",
        "root ::= Regex(a)",
        "root ::= Regex(\"a\", \"b\")",
        "root ::= Regex(\"a\", flag=\"i\")",
        "root ::= Regex(\"a\", flags=\"m\")",
        "root ::= Regex(\"a\", flags=1)",
        "root ::= Regex(\"a\", flags=\"i\", flags=\"i\")",
        "root ::= Regex(\"a\", json_string=1)",
        "root ::= Regex(\"a\"",
        "root ::= Regex(\"a\",)",
        "root ::= Regex(\"a^b\")",
        "root ::= Regex(\"\\\\w+(a\")",
        "root ::= Regex(\"\\u00e9a)\")",
        "root ::= Regex(\"a(?=b)\")",
        "root ::= Regex(\"(?s)a\")",
        "root ::= Regex(\"\\\\bA\")",
        "root ::= Regex(\"\\\\p{L}\")",
        "root ::= Regex(\"(a)\\\\1\")",
        "root ::= Regex(\"*\")",
        "root ::= Regex(\"a{2,1}\")",
        "root ::= Regex(\"a{,1}\")",
        "root ::= Regex(\"a{99999999999}\")",
        "root ::= Regex(\"[b-a]\")",
        "root ::= Regex(\"[a\")",
        "root ::= Regex(\"[^\\\\0-\\\\u{10ffff}]\")",
        "root ::= Regex(\"\\\\y\")",
        "root ::= Regex(\"\\\\x4\")",
        "root ::= Regex(\"a{1000}{1000}\")",
        "root ::= Regex(\"\\\"\", json_string=true)",
        "root ::= Substring(1)",
        "root ::= Substring(\"a\", x=1)",
        "root ::= Token()",
        "root ::= Token(\"a\")",
        "root ::= Token(99999999999)",
        "root[lazy] ::= Token(1)",
        "root ::= TagDispatch(\"a\")",
        "root ::= TagDispatch((\"a\", b, c))",
        "root ::= TagDispatch((\"a\", \"b\"))",
        "root ::= TagDispatch((\"\", root))",
        "root ::= TagDispatch((\"a\", b))",
        "root ::= TagDispatch((\"a\", (\"b\")))",
        "root ::= TagDispatch((\"ab\", root), (\"a\", root))",
        "root ::= TagDispatch((\"ab\", root), excludes=(\"b\"))",
        "root ::= TagDispatch((\"ab\", root), excludes=\"b\")",
        "root ::= TagDispatch((\"ab\", root), loop=false)",
        "root ::= TokenTagDispatch((1, root), excludes=(1,))",
        "root ::= TokenTagDispatch((\"a\", root))",
    ];
    snapshot("xgrammar", &errors(GrammarFormat::Xgrammar, &grammars));
}

#[test]
fn abnf() {
    let grammars = [
        "",
        "; nothing\n",
        "a ::= \"b\"",
        "a : \"b\"",
        "a = ",
        "a = \"b\" /",
        "a = / \"b\"",
        "a = (\"b\" /)",
        "a = (\"b\"",
        "a = [\"b\")",
        "a = \"b\")",
        "a = \"b\" | \"c\"",
        "a = 'b'",
        "a = \"b\"*",
        "a = * \"b\"",
        "a = 2*1\"b\"",
        "a = 1*2*3b",
        "a = b+",
        "a = {b}",
        "a = b, c",
        "a = #b",
        "a = b - c",
        "a = b\nc = \"d\"",
        "a = Bea\nbee = \"c\"",
        "a = \"b\"\nA = \"c\"",
        "a =/ \"b\"",
        "a = \"b\" c = \"d\"",
        "a = \"b\"\n\"c\"",
        "  a = \"b\"\n  / \"c\"",
        "a = \"b\n\"",
        "a = \"é\"",
        "a = %s",
        "a = %y41",
        "a = %x",
        "a = %x41-",
        "a = %x5A-41",
        "a = %xD800",
        "a = %xD800-DFFF",
        "a = %x110000",
        "a = %b2",
        "a = <any text>",
        "a = <b",
        "a = <b>",
        "a = OCTET",
        "_a = \"b\"",
    ];
    snapshot("abnf", &errors(GrammarFormat::Abnf, &grammars));
}

#[test]
fn lark() {
    snapshot(
        "lark",
        &errors(
            GrammarFormat::Lark,
            &[
                "",
                "strat: \"a\"",
                "start \"a\"",
                "start: \"a\n",
                "start: /a",
                "start: (\"a\"",
                "start: [\"a\")",
                "start: \"a\"]",
                "start: * \"a\"",
                "start: A\nB: \"b\"",
                "start: ruel\nrule: \"b\"",
                "start: Foo",
                "start: _1",
                "start: \"\\q\"",
                "start: \"\\/\"",
                "start: \"a\"..\"bc\"",
                "start: \"b\"..\"a\"",
                "start: \"a\"..b",
                "start: \"a\" ~ 3..2",
                "start: ~ 3",
                "start: ~\"a\"",
                "start: A & B\nA: \"a\"\nB: \"b\"",
                "start: A\nA: \"a\" &",
                "start: A\nA: ~~\"a\"",
                "start: A\nA: start",
                "start: A\nA: B\nB: \"b\" A?",
                "start: A\nA: <tool>",
                "start: <[5>",
                "start: \"a\"\nstart: \"b\"",
                "start: \"a\"\n%override strat: \"b\"",
                "start: \"a\"\n%ignroe \" \"",
                "start: \"a\"\n%nonsense",
                "start: \"a\"\n%declare _INDENT",
                "start: A\n%import .files.A",
                "start: A\n%import python.A",
                "start: A\n%import common.NUMBR -> A",
                "start: a\n%import common.NUMBER -> a",
                "start: A\n%import common",
                "start: A\n%import common (INT; WS)",
                "start: INT\nINT: \"1\"\n%import common.INT",
                "start: %json {\"type\": \"object\"}",
                "start: @other",
                "%llguidance {\"allow_invalid_utf8\": true}\nstart: \"a\"",
                "sep{x, y}: x (y x)*\nstart: sep{\"a\"}",
                "start: sep{\"a\", \",\"}",
                "start: perm::1",
                "start[stop]: /a*/",
                "start[lazy, suffix=\"b\"]: /a*/",
                "start[suffix]: /a*/",
                "start[suffix=1]: /a*/",
                "start[lazy]: \"a\" start?",
                "start[lazy]: <a>",
                "start: %regex {\"substring_words\": 5}",
                "start: %regex {\"a\": {}",
                "start: %regex",
                "start[max_tokens=x]: /a*/",
                "start[temperature=x]: /a*/",
                "start[foo]: /a*/",
                "start[capture=x]: /a*/",
                "start.x: \"a\"",
                "start: \"a\" -> ",
                "start: \"a\" -> b \"c\"",
                "start: A\nA: \"a\" -> b",
                "start: /a/q",
                "start: /a/l",
                "start: \"é\" /b(?=c)/",
                "start: \"é\" /(?i)x\\1/i",
                "start: \"x\" /ab$/ \"c\"",
                "start: \"é\" /.*?/ \"é\"",
                "start: /é(?<=(?=a)b)/",
                "start: \"x\" /a\n(/x",
                "start: A\nA: \"x\" /[z-a]/",
                "start: /x\\by/",
                "start: /[0-9]{1,99999999}/",
                "start: /a{0}b/ & \"c\"",
            ],
        ),
    );
}

#[test]
fn limits_are_named() {
    let mut limits = GrammarLimits::default();
    limits.grammar_bytes = 40;
    limits.nest = 3;
    limits.nodes = 12;
    limits.automata_bytes = 1_000;
    let mut report = String::new();
    for (text, format) in [
        ("root ::= \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"", GrammarFormat::Gbnf),
        ("root ::= ((((\"a\"))))", GrammarFormat::Gbnf),
        ("start: [[[[\"a\"]]]]", GrammarFormat::Lark),
        ("root ::= \"a\" \"b\" \"c\" \"d\" \"a\" \"b\" \"c\"", GrammarFormat::Gbnf),
        ("a ::= [a] [ab] [abc] [abcd] [abce]", GrammarFormat::Ebnf),
    ] {
        let error = unskew_notation::parse(text, format, &GrammarOptions::default(), &limits).unwrap_err();
        writeln!(report, "{text:?}\n    {error}").unwrap();
    }
    snapshot("limits_are_named", &report);
}
