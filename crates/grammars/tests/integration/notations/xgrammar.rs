//! The EBNF of XGrammar: each construct.
//!
//! The accepted and rejected texts of grammars without tokens were also given to XGrammar 0.2.8, with the same answers,
//! except where a comment says otherwise.

use std::sync::Arc;

use GrammarFormat::Xgrammar;
use unskew_core::{Constraint, TokenId, Vocabulary};
use unskew_grammar::{Fate, GrammarLimits};
use unskew_grammars::GrammarConstraint;
use unskew_notation::{GrammarFormat, GrammarOptions, explain};
use unskew_trie::TokenTrie;

use crate::common::texts::{check, check_from};

#[test]
fn rules_names_and_comments() {
    check(Xgrammar, "root ::= \"a\" | \"b\" \"c\"", &["a", "bc"], &[("", 0), ("ac", 1), ("b", 1)]);
    check(
        Xgrammar,
        "# one\nroot ::=\n  -a.b_1 _c |\n\n  .d # two\n-a.b_1\n ::= \"1\"\n  _c ::= \"2\"\r\n.d ::= ( \"3\"\n)",
        &["12", "3"],
        &[("1", 1), ("2", 0)],
    );
    // The number of a character is a comment here.
    check(Xgrammar, "root ::= \"a\" #x41\nb ::= \"b\"", &["a"], &[("aA", 1)]);
    check(Xgrammar, "root ::= ( ) \"a\" (\n) | \"\"", &["a", ""], &[("b", 0)]);
    check(Xgrammar, "root ::= root \"a\" | \"b\"", &["b", "baa"], &[("a", 0), ("bb", 1)]);
    check_from(Xgrammar, "root ::= \"a\" b\nb ::= \"b\"", Some("b"), &["b"], &[("ab", 0)]);
}

#[test]
fn texts_and_classes_have_the_escapes_of_c() {
    check(
        Xgrammar,
        r#"root ::= "\0\a\b\f\n\r\t\v\e\"\\\/\'\?" "\x41" "\x0001F600" "\u00e9\U0001F601" "中[]'" "#,
        &["\0\u{7}\u{8}\u{c}\n\r\t\u{b}\u{1b}\"\\/'?A😀é😁中[]'"],
        &[("\0\u{7}\u{8}\u{c}\n\r\t\u{b}\u{1b}\"\\/'?AA", 15)],
    );
    check(
        Xgrammar,
        r#"root ::= [\x41-\x1F600] [^a-c\n] [\^\$\.\*\+\?\(\)\[\]\{\}\|\/\-\\"] [--/] [+a-] [\0\e\v]"#,
        &["Ad^--\0", "中\0\"/a\u{b}", "é中].+\u{1b}"],
        &[("@", 0), ("Aa", 1), ("Ad^0", 3), ("Ad^-*", 4), ("Ad^--v", 5)],
    );
    check(Xgrammar, "root ::= [^] [^]", &["a\n", "\u{10ffff}\0"], &[("", 0), ("a", 1)]);
}

#[test]
fn repetitions_have_bounds() {
    check(
        Xgrammar,
        "root ::= \"a\"{2} \"b\"{1,} \"c\"{ 1 , 2 } [d]{0,-1} \"e\"{0} (\"f\" \"g\"){0, -1} \"h\"?",
        &["aabc", "aabbccdddfgfgh"],
        &[("aac", 2), ("ab", 1), ("aabccc", 5), ("aabce", 4)],
    );
    check(Xgrammar, "root ::= (\"a\"+)? (\"b\"{2})*", &["", "aa", "abbbb"], &[("ab", 2), ("bbb", 3)]);
}

#[test]
fn look_ahead_is_a_hint() {
    let grammar = "root ::= a \"c\"\na ::= \"a\" (= \"b\" [0-9] a) # wrong\n";
    check(Xgrammar, grammar, &["ac"], &[("ab", 1)]);
    let fates = explain(grammar, Xgrammar, &GrammarOptions::default(), &GrammarLimits::default());
    let hint = fates.iter().find(|fate| fate.construct == "look-ahead").unwrap();
    assert_eq!((hint.fate, hint.location.unwrap().line), (Fate::Annotation, 2));
}

#[test]
fn lazy_rules_end_at_their_first_end() {
    let grammar = "root ::= \"<\" name \">\" rest\nname[lazy] ::= [a-z]+\nrest ::= [a-z]*";
    check(Xgrammar, grammar, &["<a>", "<a>bc"], &[("<ab>", 2), ("<>", 1)]);
    // Other readings stay, unlike those of a lazy terminal in Lark.
    check(Xgrammar, "root ::= a | \"ab\"\na[lazy] ::= [a-z]+", &["a", "ab"], &[("abc", 2), ("ac", 1)]);
    check(Xgrammar, "root ::= a \"b\"\na[lazy] ::= \"a\"*", &["b"], &[("ab", 0)]);
    // A repetition that is written as recursion, as XGrammar prints it. It refuses this one itself.
    let printed = "root ::= ((a \";\"))\na[lazy] ::= ((b))\nb ::= ((\"x\") | (\"y\" b) | (b \"z\"))";
    check(Xgrammar, printed, &["x;", "yx;"], &[("xz", 1), (";", 0)]);
}

#[test]
fn characters_of_a_rule_are_limited() {
    let grammar = |most: u32, body: &str| format!("root ::= a \"!\"\na[max_chars={most}] ::= {body}");
    check(Xgrammar, &grammar(2, "[^!]*"), &["!", "é中!"], &[("abc", 2)]);
    check(Xgrammar, &grammar(0, "[a]*"), &["!"], &[("a", 0)]);
    check(Xgrammar, &grammar(3, "(\"ab\")*"), &["!", "ab!", "abab!"], &[("ababa", 4), ("aba!", 3)]);
    // The rule ends as soon as it can after the limit.
    check(Xgrammar, &grammar(2, "\"a\" [a-z]{3,4}"), &["abcd!"], &[("abcde", 4), ("ab!", 2)]);
    check(
        Xgrammar,
        "root ::= a [a]\na[max_chars=1] ::= b | \"\"\nb ::= \"a\" b | \"a\"",
        &["a", "aa"],
        &[("", 0), ("aaa", 2)],
    );
}

#[test]
fn tokens_of_a_rule_are_limited() {
    let grammar = "root ::= a \"!\"\na[max_tokens=2] ::= [a-c]*";
    check(Xgrammar, grammar, &["!", "ab!"], &[("abc", 2)]);
    let fates = explain(grammar, Xgrammar, &GrammarOptions::default(), &GrammarLimits::default());
    assert!(fates.iter().any(|fate| fate.construct == "`max_tokens`" && fate.fate == Fate::Enforced));
}

#[test]
fn annotations_change_no_text() {
    let grammar = "root[capture=\"it\", temperature=0.5] ::= a b\na[capture , stop_capture = \"m\"] ::= \"a\"\n\
                   b[capture_hidden_suffix_bytes=1, capture_hidden_body_rule_id=1, capture_hidden_marker_rule_id=2] ::= \"b\"";
    check(Xgrammar, grammar, &["ab"], &[("a", 1), ("b", 0)]);
    let fates = explain(grammar, Xgrammar, &GrammarOptions::default(), &GrammarLimits::default());
    assert_eq!(fates.iter().filter(|fate| fate.fate == Fate::Annotation).count(), 5);
    // A class after a name is a class.
    check(Xgrammar, "root ::= a[lazy]\na ::= \"a\"", &["al", "az"], &[("a", 1), ("ab", 1)]);
}

#[test]
fn regexes_are_those_of_xgrammar() {
    let check = |arguments: &str, accepted: &[&str], rejected: &[(&str, usize)]| {
        check(Xgrammar, &format!("root ::= Regex({arguments})"), accepted, rejected);
    };
    check(r#""^a(b|cd)*?e{ 1 , 2 }$""#, &["ae", "abcdee"], &[("ace", 2), ("aeee", 3)]);
    check(r#""\\d\\w\\s""#, &["1_ ", "9a\u{b}"], &[("٣", 0), ("1é", 1), ("1a\u{a0}", 2)]);
    check(r#""[\\D]\\W[^\\S]""#, &["aé\t", "٣ \n"], &[("1", 0), ("a_", 1), ("a\u{e9}x", 3)]);
    check(r#""[[&&~~a-c\\b\\]-]+""#, &["[&~b\u{8}]-"], &[("d", 0)]);
    check(r#""[\\w-z]""#, &["-", "z", "_"], &[("!", 0)]);
    check(
        r#""\\x41\\u00e9\\u{1F600}\\cA\\0\\e\\/\\.""#,
        &["Aé😀\u{1}\0\u{1b}/."],
        &[("Aé😀\u{1}\0\u{1b}/x", 11)],
    );
    check(r#""(?<name>a)(?P<n_1>b)(?:c|)(|d)""#, &["ab", "abcd", "abd"], &[("ac", 1)]);
    check(r#""a.b""#, &["a\nb", "a中b"], &[("ab", 2)]);
    check(r#""a.b", flags="""#, &["a中b"], &[("a\nb", 1)]);
    check(r#""a.b", flags="us""#, &["a\nb"], &[("A", 0)]);
    check(
        r#""kéq[x-z][^m-o]", flags="i""#,
        &["KéQYa", "kéqz!"],
        &[("\u{212a}", 0), ("kÉ", 2), ("kéqxM", 5), ("kéqxo", 5)],
    );
    check(r#""(?i)ab""#, &["aB", "Ab"], &[("ac", 1)]);
    check(r#"".*\\n?", json_string=true"#, &["", "aé"], &[("a\n", 1), ("\"", 0), ("\\", 0)]);
    check(r#""""#, &[""], &[("a", 0)]);
}

#[test]
fn substrings_are_adjacent_texts() {
    let accepted = ["", "abc", "de", "abcde", "defg", "abcdefg"];
    check(
        Xgrammar,
        "root ::= Substring(\"abc\", \"de\", \"\", \"fg\")",
        &accepted,
        &[("ab", 2), ("cde", 0), ("abcfg", 3)],
    );
    check(Xgrammar, "root ::= \"<\" Substring() \">\" | Substring(\"\")", &["<>", ""], &[("<a", 1)]);
}

#[test]
fn triggers_begin_rules() {
    let grammar = |options: &str| {
        format!("root ::= TagDispatch((\"<a>\", a), (\"<b>\", b){options})\na ::= [0-9]+ \";\"\nb ::= \"!\"")
    };
    check(
        Xgrammar,
        &grammar(""),
        &["", "é<", "x<a>1;", "<a>12;<b>!<c>", "<<a>1;\n"],
        &[("<a>", 3), ("x<a>y", 4), ("<b>!<a>", 7)],
    );
    check(
        Xgrammar,
        &grammar(", loop_after_dispatch=false"),
        &["", "x<a", "x<a>1;"],
        &[("<b>!x", 4), ("<a>", 3)],
    );
    check(
        Xgrammar,
        &grammar(", excludes=(\"</x>\", \"y\",)"),
        &["</x", "x<a>1;</"],
        &[("</x>", 3), ("<b>!y", 4)],
    );
    // Where two triggers end together, the longer one counts; one trigger may have several rules.
    let grammar =
        "root ::= TagDispatch((\"ab\", r), (\"b\", s), (\"b\", t))\nr ::= \"1\"\ns ::= \"2\"\nt ::= \"3\"";
    check(Xgrammar, grammar, &["a", "xab1", "b2xb3"], &[("ab2", 2), ("b1", 1), ("ab", 2)]);
    let stop =
        "root ::= body \"</r>\"\nbody ::= TagDispatch((\"<t>\", t), excludes=(\"</r>\",))\nt ::= \"{}\"";
    check(Xgrammar, stop, &["x<t>{}y</r>", "</r>", "</</r>"], &[("x", 1), ("</r>x", 4)]);
    check(
        Xgrammar,
        "root ::= TagDispatch(excludes=(\"a\",)) \"ab\"",
        &["ab", "xab"],
        &[("xa", 2), ("aa", 1)],
    );
}

/// The state after `tokens`, and whether they can be read.
fn reads(grammar: &str, tokens: &[u32]) -> (usize, bool) {
    let mut builder = Vocabulary::builder();
    ["a", "b", "ab", "c"].into_iter().for_each(|text| _ = builder.text(text.as_bytes()));
    builder.control("<x>");
    builder.control("<y>");
    let end = builder.control("<end>");
    builder.end_of_sequence(end);
    let trie = Arc::new(TokenTrie::new(Arc::new(builder.build().unwrap())).unwrap());
    let limits = GrammarLimits::default();
    let grammar = unskew_notation::parse(grammar, Xgrammar, &GrammarOptions::default(), &limits).unwrap();
    let constraint = GrammarConstraint::new(&grammar, trie, &limits).unwrap();
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let next = |token: &&u32| constraint.advance(&mut scratch, &mut state, TokenId(**token)).is_ok();
    let read = tokens.iter().take_while(next).count();
    (read, read == tokens.len() && constraint.is_accepting(&state))
}

#[test]
fn tokens_are_given_by_their_ids() {
    let one = "root ::= Token(2, 4) \"c\"";
    assert_eq!(reads(one, &[2, 3]), (2, true));
    assert_eq!(reads(one, &[4, 3]), (2, true));
    assert_eq!(reads(one, &[0, 1]), (0, false));
    let other = "root ::= ExcludeToken(2, 4, 4)* Token(4)";
    assert_eq!(reads(other, &[0, 5, 1, 4]), (4, true));
    assert_eq!(reads(other, &[0, 2]), (1, false));
    assert_eq!(reads(other, &[0, 6]), (1, false));
    let dispatch = |options: &str| {
        format!("root ::= TokenTagDispatch((4, r), (5, s){options})\nr ::= \"ab\"\ns ::= \"c\"")
    };
    assert_eq!(reads(&dispatch(""), &[0, 4, 0, 1, 3, 5, 3, 2]), (8, true));
    assert_eq!(reads(&dispatch(""), &[4, 0]), (2, false));
    assert_eq!(reads(&dispatch(""), &[5, 0]), (1, false));
    assert_eq!(reads(&dispatch(", loop_after_dispatch=false"), &[0, 5, 3]), (3, true));
    assert_eq!(reads(&dispatch(", loop_after_dispatch=false"), &[0, 5, 3, 0]), (3, false));
    assert_eq!(reads(&dispatch(", excludes=(0, 1)"), &[3, 0]), (1, false));
    assert_eq!(reads("root ::= TokenTagDispatch()", &[0, 4, 5]), (3, true));
}
