//! Grammars as text: accepted syntax and its meaning. The oracle decides the texts.

#![allow(clippy::print_stderr, reason = "a test that could not run says so")]

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use GrammarFormat::{Ebnf, Gbnf, Lark};
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_grammar::{Grammar, GrammarError, GrammarLimits};
use unskew_grammars::GrammarConstraint;
use unskew_notation::{GrammarFormat, GrammarOptions, from_ebnf, from_lark};
use unskew_trie::TokenTrie;

use crate::common::oracle::{Alphabet, Oracle, bytes};

/// Checks that `grammar` accepts the texts in `accepted` and rejects those in `rejected`.
#[track_caller]
fn check(format: GrammarFormat, grammar: &str, accepted: &[&str], rejected: &[&str]) {
    let read = unskew_notation::parse(grammar, format, &GrammarOptions::default(), &GrammarLimits::default());
    check_grammar(&read.unwrap_or_else(|error| panic!("{grammar}\n{error}")), grammar, accepted, rejected);
}

#[track_caller]
fn check_grammar(grammar: &Grammar, text: &str, accepted: &[&str], rejected: &[&str]) {
    let oracle = Oracle::new(grammar, &Alphabet::all());
    for (texts, wanted) in [(accepted, true), (rejected, false)] {
        for output in texts {
            assert_eq!(oracle.accepts(&bytes(output)), wanted, "{output:?} of {text}");
        }
    }
}

#[test]
fn gbnf_has_the_constructs_of_llama_cpp() {
    check(Gbnf, r#"root ::= "a" | "b" "c""#, &["a", "bc"], &["", "ab", "ac", "abc"]);
    check(Gbnf, r#"root ::= ("a" | "b")* "c"? "d"+"#, &["d", "abacd", "dd"], &["", "c", "ccd"]);
    check(
        Gbnf,
        r#"root ::= "a"{2} "b"{1,} "c"{1,2} "d"{0,0}"#,
        &["aabc", "aabbbcc"],
        &["aac", "abc", "aabccc"],
    );
    check(Gbnf, "root ::= ( \"a\"\n | # one\n \"b\"\n)\n", &["a", "b"], &["ab"]);
    check(Gbnf, "root ::=\n \"a\" |\n\n \"b\"\n | \"c\" # end\n", &["a", "b", "c"], &["ab", "bc"]);
    check(Gbnf, "root ::= a-b a_B\r\na-b ::= \"1\"\r\na_B ::= \"2\"", &["12"], &["1"]);
    check(Gbnf, "root ::= | \"a\" root", &["", "aaa"], &["b"]);
    check(Gbnf, "root ::= empty \"a\"\nempty ::=\n", &["a"], &[""]);
    check(Gbnf, r#"root ::= "\x41\u00e9\U0001F600\n\"\\""#, &["Aé😀\n\"\\"], &["Aé"]);
    check(
        Gbnf,
        r#"root ::= [a-c\]\n\x41-] [^a-z] ."#,
        &["aA\n", "-éé", "]0😀", "A\n ", "\n  "],
        &["d0 ", "ab ", "B0 "],
    );
    check(Gbnf, "root ::= [ぁ-ゟ]+", &["あいう"], &["ア", "a"]);
    check(Gbnf, r#"root ::= "a"?* "#, &["", "aaa"], &["b"]);
    check(Gbnf, r#"root ::= [+--]"#, &["+", ",", "-"], &["."]);
    check(Gbnf, "# only a comment\nroot ::= \"#\" [#]", &["##"], &["#"]);
}

#[test]
fn ebnf_has_the_constructs_of_the_w3c() {
    check(Ebnf, "a ::= b 'x' /* one\n * two */ b ::= \"y\" | #x7A", &["yx", "zx"], &["y", "x"]);
    check(Ebnf, "[1] S ::= (#x20 | #x9)+\n[2a] T ::= S", &[" \t"], &["", "S"]);
    check(Ebnf, "Char ::= [#x20-#x7E] - [a-z]", &["A", " "], &["b", "\n"]);
    check(Ebnf, "c ::= [^#x41z] -'C' -\"D\"", &["E", "c"], &["A", "z", "C", "D"]);
    check(Ebnf, r"c ::= '\' [tn#x5C]", &[r"\t", r"\\"], &["\t", r"\q"]);
    check(
        Ebnf,
        "Comment ::= '<!--' ((Char - '-') | ('-' (Char - '-')))* '-->' Char ::= [#x20-#x7E]",
        &["<!---->", "<!-- a-b -->"],
        &["<!-- -- -->", "<!--->", "<!-- a--->"],
    );
    check(
        Ebnf,
        "PITarget ::= Name - (('X' | 'x') ('M' | 'm') ('L' | 'l')) Name ::= [a-zA-Z] [a-zA-Z0-9]*",
        &["xm", "xmlx", "a1"],
        &["xml", "XmL", "1"],
    );
    check(Ebnf, "CharData ::= [^<&]* - ([^<&]* ']]>' [^<&]*)", &["", "a]]b", "]>"], &["]]>", "a]]>b", "<"]);
    check(Ebnf, "a ::= b-c b-c ::= 'x'", &["x"], &["b"]);
}

#[test]
fn ebnf_has_the_constructs_of_gbnf() {
    check(Ebnf, "root ::= \"0\"d | [a-z\\n]{2} .\nd ::= \"\\\"\" # end\n", &["0\"", "a\né"], &["0", "ab"]);
    // `root` has priority over the first rule. Line breaks have no meaning.
    check(Ebnf, "a ::= 'a'\nroot ::= a\n a\n 'b'", &["aab"], &["a"]);
    check(Ebnf, "# axis #x41\nroot ::= '#' # trailing #x\n", &["#"], &["A"]);
}

#[test]
fn lark_has_its_constructs() {
    check(
        Lark,
        r#"start: "a" | b -> c
        | "d" ["e"] ("f" | "g")*
        ?b.2: "b"~2..3
        !_c: "c"{,2}"#,
        &["a", "bb", "bbb", "d", "de", "dfgf", "defg"],
        &["b", "bbbb", "ef", "c"],
    );
    check(
        Lark,
        r#"start: A B{2} C~2 D{1,} E{0,1}
A: "a"i
B: "b".."d"
C: /[x-z]/i
D: /./s
E: "e""#,
        &["abcxY\n", "AdbZZ\n\né", "abbxxqe"],
        &["abxx ", "aeexx ", "abbxx"],
    );
    check(
        Lark,
        "start: x* // rest\n# comment\nx: \"\\x41\\u00e9\\f\\\"\" \\\n  \"b\"",
        &["", "Aé\u{c}\"b"],
        &["A"],
    );
    check(Lark, "start: INT\n%import common.INT", &["12"], &["", "1.5"]);
    check(
        Lark,
        "start: N WORD\n%import common.NUMBER -> N\n%import common (WORD, WS)",
        &["1.5e3ab", "1a"],
        &["a"],
    );
    check(Lark, "start: a\na: \"x\"\n%extend a: \"y\" | \"z\"", &["x", "y", "z"], &["xy"]);
    check(Lark, "start: A\nA: B\n%override A: \"y\"\nB: \"b\"", &["y"], &["b"]);
    check(Lark, "start: a\n  a: (\"x\"\n  | \"y\"\n)\n\n  | \"z\"", &["x", "y", "z"], &[]);
    check(
        Lark,
        r#"start[capture="x"]: a-b
a-b: "1""#,
        &["1"],
        &["a"],
    );
    check(Lark, "start: /a\\/b/ \"//\" \"#\"", &["a/b//#"], &["a\\/b//#"]);
}

#[test]
fn terminals_of_lark_are_one_text() {
    let grammar = r#"start: NAME "=" VALUE
NAME: LETTER (LETTER | "0".."9")*
LETTER: /[a-z]/ | "_"
VALUE: ["-"] DIGIT+ ~ 1..2
DIGIT: "0".."9"
%ignore " "
"#;
    check(Lark, grammar, &["a=1", " a = -12 ", "_9=5", "a  =1"], &["a b=1", "a=1 2", "a=- 1", "", "a="]);
    let words = "start: NAME\nNAME: /[a-z]+/ & ~(\"if\" | \"else\")";
    check(Lark, words, &["a", "iff", "elsewhere"], &["if", "else", "", "A"]);
    let lines = r"start: LINES
LINES: /[a-z\n]*/ & ~/(?s:.*)\n\n(?s:.*)/";
    check(Lark, lines, &["", "a\nb\n", "\na"], &["a\n\nb", "\n\n", "A"]);
    // `~` binds tighter than `+`, and `&` tighter than `|`.
    check(Lark, "start: A\nA: ~\"a\"+ & /a+/ | \"c\"", &["aa", "c", "aaa"], &["a", "b"]);
    check(Lark, "start: A\nA: (~/[^a]*/) & /.{1,2}/", &["a", "ab", "ba"], &["", "b", "bb"]);
}

#[test]
fn lark_texts_can_end_where_they_first_may() {
    let lazy = r#"start: call "=" /[a-z]+/
call[lazy]: TEXT "<f"
TEXT: /(?s:.*)/"#;
    check(Lark, lazy, &["<f=a", "x<<f=b", "é\n<f=c"], &["<f<f=a", "x=a", "<fx=a"]);
    check(Lark, "start: a \"x\"\na[lazy]: /[0-9]+/", &["1x"], &["12x", "x"]);
    // The examples of llguidance's documentation: with a suffix, and with the end written out.
    let suffix = "start: a b\na[capture, suffix=\"<end>\"]: /.*/\nb[lazy]: /.*<END>/";
    check(Lark, suffix, &["foo<end>x<END>", "<end><END>"], &["foo<end>", "foo<end>bar<END><END>"]);
    let named = "start: a*\na[suffix=END]: /[^;]?.?/\nEND: /;+/";
    check(Lark, named, &["", "a;", ";a;", ";;", "xy;"], &["a", "xyz;"]);
}

#[test]
fn lark_has_substrings() {
    let chunks = r#"start: "A" %regex { "substring_chunks": ["foo", " bar", "", " b\"az"] } "B""#;
    check(Lark, chunks, &["AfooB", "A bar b\"azB", "AB", "Afoo barB"], &["AfoB", "Afoo b\"azB", "A"]);
    let words = "start: WORDS\nWORDS: %regex {\"substring_words\":\"foo2 bar.. é\"}";
    check(Lark, words, &["foo2", " bar", "bar.. é", ""], &["foo", "bar.", "foo2 é"]);
    let chars = "start: %regex {\"substring_chars\": \"aéb\"}{2}";
    check(Lark, chars, &["aéba", "é", ""], &["eb", "abab"]);
}

/// The factors of 50 KB, also where they occur again and again.
#[test]
fn lark_has_substrings_of_long_texts() {
    let mut random = 1u64;
    let mut word = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("w{:x} ", random >> 48)
    };
    let prose: String = (0..8_500).map(|_| word()).collect();
    let again = "the cat sat on the mat, a cat ".repeat(1_700);
    for text in [prose, again] {
        assert!(text.len() > 49_000);
        for kind in ["substring_words", "substring_chars"] {
            let grammar = format!("start: A\nA: %regex {{\"{kind}\": {text:?}}}");
            let (first, last) = (&text[..400], &text[text.len() / 2..]);
            let words: Vec<&str> = text.split_inclusive(' ').collect();
            let yes = [words[..60].concat(), words[words.len() - 9..].concat(), String::new()];
            let no = [format!("{first}#"), format!("{}{}", words[1], "w#"), last[..200].replace(' ', "  ")];
            let [yes, no] = [&yes, &no].map(|texts| texts.iter().map(String::as_str).collect::<Vec<_>>());
            check(Lark, &grammar, &yes, &no);
        }
    }
}

#[test]
fn what_is_ignored_stands_between_terminals() {
    let grammar =
        "start: \"a\" b? \"\"\nb: /b+/ | start\n%ignore / +/\n%ignore COMMENT\nCOMMENT: /#[^\\n]*\\n/";
    check(
        Lark,
        grammar,
        &["a", " a ", "a b", "#x\n a#y\n#z\n bb  ", "  a  a  a"],
        &["", " ", "b b", "a b b", "a#x"],
    );
    // An output without any terminal may be ignored text alone.
    check(Lark, "start: \"a\"*\n%ignore \" \"", &["", "   ", " a a a "], &["b"]);
    // A recursive start rule, which also begins inside other rules.
    check(Lark, "start: \"(\" start \")\" | \"x\"\n%ignore \" \"", &["x", " ( ( x ) ) "], &["(x", "()"]);
    check(Lark, "start: (\"a\" \"b\"){2}\n%ignore \"-\"", &["abab", "-a-b--a-b-"], &["ab", "-"]);
}

#[test]
fn ignored_text_can_be_bounded() {
    let grammar = "start: \"a\" \"b\"\n%ignore /[ \\t]/\n%ignore \"--\"";
    let read = |options: GrammarOptions| from_lark(grammar, &options, &GrammarLimits::default()).unwrap();
    let check = |options: GrammarOptions, accepted: &[&str], rejected: &[&str]| {
        check_grammar(&read(options), grammar, accepted, rejected);
    };
    let default = GrammarOptions::default();
    check(default.clone(), &["ab", "  -- \ta----   b   "], &["a-b"]);
    let two = GrammarOptions::default().with_max_ignored(2);
    check(two, &["ab", " --a  b----", "a--\tb"], &["   ab", "a   b", "ab------"]);
    let two = GrammarOptions::default().with_max_ignored_chars(2);
    check(two, &["ab", "  a--b \t"], &[" --ab", "a---b", "ab   "]);
    for none in
        [GrammarOptions::default().with_max_ignored(0), GrammarOptions::default().with_max_ignored_chars(0)]
    {
        check(none, &["ab"], &[" ab", "a b"]);
    }
    // A bound below the length of the shortest ignored text excludes all ignored text.
    let grammar = "start: \"a\" \"b\"\n%ignore \"--\"";
    let one = GrammarOptions::default().with_max_ignored_chars(1);
    let read = from_lark(grammar, &one, &GrammarLimits::default()).unwrap();
    check_grammar(&read, grammar, &["ab"], &["a--b", "a-b"]);
}

#[test]
fn another_rule_can_be_the_start() {
    let options = GrammarOptions::default().with_start("other");
    let text = "start: \"a\"\nother: \"b\"";
    let grammar = from_lark(text, &options, &GrammarLimits::default()).unwrap();
    check_grammar(&grammar, text, &["b"], &["a"]);
}

/// Every grammar in the folder given by `UNSKEW_DATA`.
#[test]
fn published_grammars_load() {
    let Some(data) = std::env::var_os("UNSKEW_DATA") else {
        eprintln!("UNSKEW_DATA is not set: published grammars were not read");
        return;
    };
    let mut loaded = 0;
    for folder in ["llama-cpp-grammars", "gad-grammars", "gad-bv4", "gad-slia/grammars"] {
        for entry in fs::read_dir(Path::new(&data).join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            let Some(format) = GrammarFormat::from_extension(extension) else { continue };
            let text = fs::read_to_string(&path).unwrap();
            let grammar =
                unskew_notation::parse(&text, format, &GrammarOptions::default(), &GrammarLimits::default());
            let grammar = grammar.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(grammar.rules().len() > 1, "{}", path.display());
            loaded += 1;
        }
    }
    assert!(loaded > 40, "{loaded} grammars");
}

/// Solutions of published tasks: membership in the languages of their grammars, as decided by another recogniser.
#[test]
fn published_solutions_are_judged_alike() {
    let Some(data) = std::env::var_os("UNSKEW_DATA") else {
        eprintln!("UNSKEW_DATA is not set: published solutions were not read");
        return;
    };
    let mut judged: BTreeMap<bool, usize> = BTreeMap::new();
    for (folder, each) in [("gad-bv4", false), ("gad-slia", true)] {
        let folder = Path::new(&data).join(folder);
        let members = fs::read_to_string(folder.join("MEMBERSHIP.tsv")).unwrap();
        for line in members.lines().skip(1) {
            let (id, verdict) = line.split_once('\t').unwrap();
            let grammar =
                if each { folder.join(format!("grammars/{id}.ebnf")) } else { folder.join("grammar.ebnf") };
            let grammar =
                from_ebnf(&fs::read_to_string(grammar).unwrap(), &GrammarLimits::default()).unwrap();
            let solution = fs::read_to_string(folder.join(format!("solutions/{id}.txt"))).unwrap();
            let solution = solution.strip_suffix('\n').unwrap_or(&solution);
            let accepted = Oracle::new(&grammar, &Alphabet::all()).accepts(&bytes(solution));
            assert_eq!(accepted, verdict == "accept", "{id}");
            *judged.entry(accepted).or_default() += 1;
        }
    }
    assert!(judged[&true] > 20 && judged[&false] > 5, "{judged:?}");
}

/// A terminal without texts is no error where others are there, and a grammar without texts is one when it is compiled.
#[test]
fn terminals_without_texts() {
    let mut bytes = Vocabulary::builder();
    (0..=255u8).for_each(|byte| _ = bytes.text(&[byte]));
    let trie = Arc::new(TokenTrie::new(bytes.build().unwrap()).unwrap());
    let compiled = |text: &str| {
        let limits = GrammarLimits::default();
        let grammar = from_lark(text, &GrammarOptions::default(), &limits).unwrap();
        GrammarConstraint::new(&grammar, Arc::clone(&trie), &limits)
    };
    let made = compiled("start: A? b | \"x\"\nA: \"a\" & \"b\"\nb: A\nC: A").unwrap();
    let mut mask = TokenMask::new(made.vocab_len());
    made.fill_mask(&mut made.scratch(), &made.start(), mask.as_mut());
    assert_eq!(mask.ids().collect::<Vec<_>>(), [TokenId(u32::from(b'x'))]);
    for text in ["start: A\nA: \"a\" & \"b\"", "start: A\nA: /a[^\\x00-\\x{10ffff}]/"] {
        let error = compiled(text).unwrap_err();
        assert!(matches!(error, GrammarError::Empty { .. }), "{error}");
    }
}
