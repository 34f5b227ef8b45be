//! Lazy terminals beside llguidance 1.9.1: grammars and texts, with the verdict here and the one there, which was
//! queried byte by byte with a tokenizer of bytes. The verdicts differ in three situations: a terminal ends while a
//! lazy one is open (llguidance's scanner takes the longest text), a lazy terminal may be empty, or the grammar is
//! rejected here.

use unskew_grammar::{GrammarError, GrammarLimits};
use unskew_notation::{GrammarOptions, from_lark};

use crate::common::oracle::{Alphabet, Oracle, bytes};

/// The result of reading a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Accepted,
    /// A proper prefix of an output.
    Incomplete,
    /// Rejected at this byte.
    Rejected(usize),
    /// The grammar is rejected.
    Refused,
}

use Verdict::{Accepted, Incomplete, Refused, Rejected};

#[test]
fn verdicts_beside_those_of_llguidance() {
    type Case = (&'static str, &'static [(&'static str, Verdict, Verdict)]);
    #[rustfmt::skip]
    let cases: &[Case] = &[
        (
            "start: (tool | LETTER)*\nhead[lazy]: /[a-z]*call/\ntool: head \"1\"\nLETTER: /[a-z]/",
            &[
                ("xy", Accepted, Incomplete),
                ("xcall1", Accepted, Accepted),
                ("xcallx", Rejected(5), Rejected(5)),
                ("x", Accepted, Accepted),
                ("call1x", Accepted, Accepted),
                ("cal", Accepted, Incomplete),
                ("call1cal", Accepted, Incomplete),
            ],
        ),
        (
            "start: say | use\nsay: \"t:\" TEXT\nuse: \"t:\" head \"1\"\nhead[lazy]: TEXT \"<c>\"\nTEXT: /(.|\\n)*/",
            &[
                ("t:abc", Accepted, Accepted),
                ("t:<c>1", Accepted, Accepted),
                ("t:<c>x", Rejected(5), Rejected(5)),
            ],
        ),
        (
            "start: A TEXT | B head \"1\"\nA: \"x\"|\"y\"\nB: \"x\"|\"z\"\nhead[lazy]: TEXT \"<c>\"\nTEXT: /(.|\\n)*/",
            &[
                ("xabc", Refused, Accepted),
                ("yabc", Refused, Accepted),
                ("y<c>z", Refused, Accepted),
                ("x<c>1", Refused, Accepted),
                ("x<c>z", Refused, Rejected(4)),
                ("zabc", Refused, Incomplete),
            ],
        ),
        (
            "start: TEXT | \"Q:\" tool* TEXT\ntool: head \"1\"\nhead[lazy]: TEXT \"<c>\"\nTEXT: /(.|\\n)*/",
            &[
                ("Q:<c>x", Accepted, Accepted),
                ("Q:<c>1", Accepted, Accepted),
            ],
        ),
        (
            "start: (tool | plain)*\ntool: head \"1\"\nhead[lazy]: TEXT \"<c>\"\nTEXT: /(.|\\n)*/\nplain: \"#\" /[^\\n]*/ \"\\n\"",
            &[
                ("#abc\n", Accepted, Incomplete),
                ("#<c>\n", Rejected(4), Rejected(4)),
                ("#<c>1", Accepted, Accepted),
                ("#abc\n#b\n", Accepted, Incomplete),
            ],
        ),
        (
            "start: head \"1\" | \"<c>\" \"2\"\nhead[lazy]: TEXT \"<c>\"\nTEXT: /(.|\\n)*/",
            &[
                ("<c>1", Accepted, Accepted),
                ("<c>2", Rejected(3), Rejected(3)),
            ],
        ),
        (
            "start: (a|b)* TEXT\na: ha \"1\"\nb: hb \"2\"\nha[lazy]: TEXT \"<a>\"\nhb[lazy]: TEXT \"<b>\"\nTEXT: /(.|\\n)*/",
            &[
                ("<a>1", Accepted, Accepted),
                ("<b>2", Accepted, Accepted),
                ("<b>1", Rejected(3), Rejected(3)),
                ("x<a>1y<b>2z", Accepted, Accepted),
                ("<a><b>2", Rejected(3), Rejected(3)),
            ],
        ),
        (
            "start: (a|b)* TEXT\na: ha \"1\"\nb: hb \"2\"\nha[lazy]: TEXT \"<a>\"\nhb[lazy]: TEXT \"<a>\"\nTEXT: /(.|\\n)*/",
            &[
                ("<a>1", Accepted, Accepted),
                ("<a>2", Accepted, Accepted),
                ("<a>3", Rejected(3), Rejected(3)),
            ],
        ),
        (
            "start: (a|b)* TEXT\na: ha \"1\"\nb: hb \"2\"\nha[lazy]: TEXT \"<a\"\nhb[lazy]: TEXT \"<ab\"\nTEXT: /(.|\\n)*/",
            &[
                ("<a1", Accepted, Accepted),
                ("<ab2", Rejected(2), Rejected(2)),
                ("<ab", Rejected(2), Rejected(2)),
                ("<a2", Rejected(2), Rejected(2)),
            ],
        ),
        (
            "start: head \"x\"\nhead[lazy]: /a*/",
            &[
                ("x", Accepted, Accepted),
                ("ax", Rejected(0), Accepted),
                ("a", Rejected(0), Incomplete),
                ("", Incomplete, Incomplete),
            ],
        ),
        (
            "start: head \"x\" | B\nhead[lazy]: /a*/\nB: /b+x/",
            &[
                ("x", Accepted, Accepted),
                ("ax", Rejected(0), Accepted),
                ("bx", Accepted, Accepted),
                ("", Incomplete, Incomplete),
            ],
        ),
        (
            "start: head TEXT\nhead[lazy]: /a*/\nTEXT: /b+/",
            &[
                ("b", Accepted, Accepted),
                ("ab", Rejected(0), Accepted),
                ("bb", Accepted, Accepted),
                ("", Incomplete, Incomplete),
            ],
        ),
        (
            "start: d /[0-9]+/?\nd[lazy]: /[0-9]+/",
            &[
                ("1", Accepted, Accepted),
                ("12", Accepted, Accepted),
                ("", Incomplete, Incomplete),
            ],
        ),
        (
            "start: s \"z\"\ns[suffix=\"<end>\"]: /.*/",
            &[
                ("foo<end>z", Accepted, Accepted),
                ("foo<end>bar<end>z", Rejected(8), Rejected(8)),
                ("<end>z", Accepted, Accepted),
                ("foo", Incomplete, Incomplete),
            ],
        ),
        (
            "start: s \"<end>\" \"z\"\ns[stop=\"<end>\"]: /.*/",
            &[
                ("foo<end>z", Accepted, Accepted),
                ("foo<end>bar<end>z", Rejected(8), Rejected(8)),
                ("<end>z", Accepted, Accepted),
                ("foo", Incomplete, Incomplete),
            ],
        ),
        (
            "start: s \"b\"\ns[stop=\"<end>\"]: /.*/",
            &[
                ("foo<end>b", Rejected(7), Accepted),
                ("foob", Accepted, Incomplete),
                ("foo<end>", Rejected(7), Incomplete),
            ],
        ),
        (
            "start: s\ns[stop=\"\"]: /[a-z]*/",
            &[
                ("foo", Accepted, Accepted),
                ("", Accepted, Accepted),
                ("A", Rejected(0), Rejected(0)),
            ],
        ),
        (
            "start: s \"A\"\ns[stop=\"\"]: /[a-z]*/",
            &[
                ("foo", Incomplete, Incomplete),
                ("fooA", Accepted, Accepted),
                ("A", Accepted, Accepted),
            ],
        ),
        (
            "start: s\ns[stop=\"<end>\"]: /.*/",
            &[
                ("foo", Accepted, Incomplete),
                ("foo<end>", Rejected(7), Accepted),
                ("foo<end>x", Rejected(7), Rejected(8)),
            ],
        ),
        (
            "start: s\ns[suffix=\"<end>\"]: /.*/",
            &[
                ("foo", Incomplete, Incomplete),
                ("foo<end>", Accepted, Accepted),
                ("foo<end>x", Rejected(8), Rejected(8)),
            ],
        ),
        (
            "start: s \"z\"\ns[suffix=/[.!]+/]: /[a-z.]*/",
            &[
                ("foo.z", Accepted, Accepted),
                ("foo!z", Accepted, Accepted),
                ("foo..z", Rejected(4), Rejected(4)),
                (".z", Accepted, Accepted),
            ],
        ),
        (
            "start: tool* tail\ntail: TEXT\nhead[lazy]: TEXT \"<call>\"\ntool: head /[0-9]+/ \"</call>\"\nTEXT: /(\\n|.)*/",
            &[
                ("<call>x</call>", Rejected(6), Rejected(6)),
                ("<call>1</call>", Accepted, Accepted),
                ("abc", Accepted, Accepted),
                ("<cal", Accepted, Accepted),
                ("a<call>12</call>b<call>3", Incomplete, Incomplete),
                ("a<call>12</call>b<call>3</call>", Accepted, Accepted),
                ("", Accepted, Accepted),
                ("<call>", Incomplete, Incomplete),
            ],
        ),
        (
            "start: (tool | TEXT)*\nhead[lazy]: TEXT0 \"<call>\"\ntool: head /[0-9]+/ \"</call>\"\nTEXT: /(\\n|.)+/\nTEXT0: /(\\n|.)*/",
            &[
                ("<call>x</call>", Rejected(6), Rejected(6)),
                ("<call>1</call>", Accepted, Accepted),
                ("abc", Accepted, Accepted),
                ("<cal", Accepted, Accepted),
                ("a<call>12</call>b<call>3", Incomplete, Incomplete),
                ("a<call>12</call>b<call>3</call>", Accepted, Accepted),
                ("a<call>12</call>b<call>3</call>x", Accepted, Accepted),
                ("a<call>x", Rejected(7), Rejected(7)),
            ],
        ),
        (
            "start: tool* TEXT\nhead[lazy]: TEXT (\"<call1>\"|\"<call2>\")\ntool: head /[0-9]+/ \"</call>\"\nTEXT: /(.|\\n)*/",
            &[
                ("<call1>7</call>", Accepted, Accepted),
                ("x<call2>7</call>y", Accepted, Accepted),
                ("<call1>x", Rejected(7), Rejected(7)),
                ("<call2>", Incomplete, Incomplete),
                ("a<call3>", Accepted, Accepted),
            ],
        ),
        (
            "start: ( f_foo | f_bar )* f_end\nf_end: TEXT\nf_foo_hd[lazy]: TEXT \"<function\"\nf_foo: f_foo_hd \"=foo>\" /\\{\\}/ \"</function>\"\nf_bar_hd[lazy]: TEXT \"<function\"\nf_bar: f_bar_hd \"=bar>\" /[0-9]+/ \"</function>\"\nTEXT: /(.|\\n)*/",
            &[
                ("<function=foo>{}</function>", Accepted, Accepted),
                ("hi <function=bar>12</function> ok", Accepted, Accepted),
                ("<function=baz>", Rejected(12), Rejected(12)),
                ("<function=foo>12", Rejected(14), Rejected(14)),
                ("<functio", Accepted, Accepted),
                ("", Accepted, Accepted),
            ],
        ),
        (
            "start: tool+ TEXT\nhead[lazy]: TEXT \"<c>\"\ntool: head \"1;\"\nTEXT: /(.|\\n)*/",
            &[
                ("abc", Incomplete, Incomplete),
                ("<c>1;", Accepted, Accepted),
                ("<c>1;x", Accepted, Accepted),
                ("<c>2", Rejected(3), Rejected(3)),
            ],
        ),
        (
            "start: tool*\nhead[lazy]: TEXT \"<c>\"\ntool: head \"1;\"\nTEXT: /(.|\\n)*/",
            &[
                ("", Accepted, Accepted),
                ("a<c>1;", Accepted, Accepted),
                ("a<c>1;x", Incomplete, Incomplete),
                ("a", Incomplete, Incomplete),
            ],
        ),
        (
            "start: tool* TEXT\nhead[suffix=\"<c>\"]: TEXT\ntool: head \"1;\"\nTEXT: /(.|\\n)*/",
            &[
                ("abc", Accepted, Accepted),
                ("<c>1;", Accepted, Accepted),
                ("<c>1;x", Accepted, Accepted),
                ("<c>2", Rejected(3), Rejected(3)),
                ("a<c><c>1;", Rejected(4), Rejected(4)),
            ],
        ),
        (
            "start: think answer\nthink[suffix=\"</think>\"]: /(.|\\n)*/\nanswer: \"yes\" | \"no\"",
            &[
                ("hm</think>yes", Accepted, Accepted),
                ("</think>no", Accepted, Accepted),
                ("a</think>b</think>yes", Rejected(9), Rejected(9)),
                ("hm", Incomplete, Incomplete),
            ],
        ),
        (
            "start: \"x\" tail | tool* tail\ntail: TEXT\nhead[lazy]: TEXT \"<c>\"\ntool: head \"1;\"\nTEXT: /(.|\\n)*/",
            &[
                ("x<c>1;", Accepted, Accepted),
                ("x<c>z", Rejected(4), Rejected(4)),
                ("y<c>z", Rejected(4), Rejected(4)),
                ("y<c>1;", Accepted, Accepted),
                ("xy", Accepted, Accepted),
            ],
        ),
        (
            "start: head \"1;\" start | TEXT\nhead[lazy]: TEXT \"<c>\"\nTEXT: /(.|\\n)*/",
            &[
                ("a<c>1;b<c>1;c", Accepted, Accepted),
                ("a<c>1;b<c>2", Rejected(10), Rejected(10)),
                ("abc", Accepted, Accepted),
            ],
        ),
        (
            "start: list TEXT\nlist: (list tool)?\nhead[lazy]: TEXT \"<c>\"\ntool: head \"1;\"\nTEXT: /(.|\\n)*/",
            &[
                ("a<c>1;b<c>1;c", Accepted, Accepted),
                ("a<c>1;b<c>2", Rejected(10), Rejected(10)),
                ("abc", Accepted, Accepted),
            ],
        ),
        (
            "start: \"Q:\" body\nbody: (head \"1;\")* TEXT\nhead[lazy]: TEXT \"<c>\"\nTEXT: /(.|\\n)*/",
            &[
                ("Q:abc", Accepted, Accepted),
                ("Q:a<c>1;", Accepted, Accepted),
                ("Q:a<c>x", Rejected(6), Rejected(6)),
                ("R", Rejected(0), Rejected(0)),
            ],
        ),
        (
            "start: (COMMENT | CODE)*\nCOMMENT: /#[^\\n]*\\n/\nCODE: /[a-z]/",
            &[
                ("#ab\na", Accepted, Accepted),
                ("a#\n", Accepted, Accepted),
                ("#a", Incomplete, Incomplete),
            ],
        ),
        (
            "start: (comment | CODE)*\ncomment[lazy]: /\\/\\*(.|\\n)*\\*\\//\nCODE: /[a-z*\\/]/",
            &[
                ("/*a*/b", Accepted, Accepted),
                ("/*a", Accepted, Incomplete),
                ("a/*b*/*/", Accepted, Accepted),
                ("/**/", Accepted, Accepted),
                ("//", Accepted, Accepted),
            ],
        ),
        (
            "start: (str | \",\" | WS)*\nstr[lazy]: /\"[^\\n]*\"/\nWS: / /",
            &[
                ("\"a\",\"b\"", Accepted, Accepted),
                ("\"a\"b\"", Rejected(3), Rejected(3)),
                ("\"a\" \"b\"", Accepted, Accepted),
                ("\"a", Incomplete, Incomplete),
            ],
        ),
        (
            "start: (d | NUM) \"x\"\nd[lazy]: /[0-9]+/\nNUM: /[0-9]+/",
            &[
                ("1x", Accepted, Accepted),
                ("12x", Rejected(1), Rejected(1)),
                ("x", Rejected(0), Rejected(0)),
            ],
        ),
        (
            "start: (k | \"abc\") \"x\"\nk[lazy]: /ab?/",
            &[
                ("ax", Accepted, Accepted),
                ("abx", Rejected(1), Rejected(1)),
                ("abcx", Rejected(1), Rejected(1)),
            ],
        ),
        (
            "start: (k | \"acc\") \"x\"\nk[lazy]: /ab/",
            &[
                ("abx", Accepted, Accepted),
                ("accx", Accepted, Accepted),
                ("ax", Rejected(1), Rejected(1)),
            ],
        ),
        (
            "start: (p \"1\" | q \"2\")\np[lazy]: /a+b/\nq[lazy]: /a+bb/",
            &[
                ("ab1", Accepted, Accepted),
                ("abb2", Rejected(2), Rejected(2)),
                ("aab1", Accepted, Accepted),
                ("abb1", Rejected(2), Rejected(2)),
            ],
        ),
        (
            "start: (p \"1\" | q \"2\")\np[lazy]: /a+b/\nq[lazy]: /[ab]+b/",
            &[
                ("ab1", Accepted, Accepted),
                ("ab2", Accepted, Accepted),
                ("aab2", Accepted, Accepted),
                ("bb2", Accepted, Accepted),
                ("bb1", Rejected(2), Rejected(2)),
            ],
        ),
        (
            "start: p TEXT\np[lazy]: TEXT \";\"\nTEXT: /(.|\\n)*/",
            &[
                ("a;b", Accepted, Accepted),
                ("a;b;c", Accepted, Accepted),
                (";", Accepted, Accepted),
                ("a", Incomplete, Incomplete),
            ],
        ),
        (
            "start: [head] TEXT\nhead[lazy]: TEXT \";\"\nTEXT: /(.|\\n)*/",
            &[
                ("a;b", Accepted, Accepted),
                ("abc", Accepted, Accepted),
                ("", Accepted, Accepted),
            ],
        ),
        (
            "start: [head] /[0-9]*/\nhead[lazy]: TEXT \";\"\nTEXT: /(.|\\n)*/",
            &[
                ("a;1", Accepted, Accepted),
                ("12", Accepted, Accepted),
                ("12;3", Accepted, Accepted),
                ("a", Incomplete, Incomplete),
                ("a;b", Rejected(2), Rejected(2)),
            ],
        ),
        (
            "start: tool* TEXT\nhead[lazy]: TEXT \"<c>\"\ntool: head NUM \";\"\nNUM: /[0-9]+/\n%ignore / +/\nTEXT: /(.|\\n)*/",
            &[
                ("a <c> 1 ;", Accepted, Accepted),
                ("<c>1;b", Accepted, Accepted),
                (" <c> x", Rejected(5), Rejected(5)),
                ("a b", Accepted, Accepted),
            ],
        ),
        (
            "start: item*\nitem: head \"(\" item* \")\"\nhead[lazy]: /[a-z]*:/",
            &[
                ("a:()", Accepted, Accepted),
                ("a:(b:())", Accepted, Accepted),
                ("a:(b:()c:())", Accepted, Accepted),
                ("a", Incomplete, Incomplete),
                ("a:(", Incomplete, Incomplete),
            ],
        ),
        (
            "start: tool* TEXT\nhead[lazy]: TEXT \"→\"\ntool: head \"1;\"\nTEXT: /(.|\\n)*/",
            &[
                ("é→1;", Accepted, Accepted),
                ("é→2", Rejected(5), Rejected(5)),
                ("é", Accepted, Accepted),
            ],
        ),
        (
            "start: line* TEXT\nline[suffix=/\\r?\\n/]: /[a-z]*/\nTEXT: /[0-9]*/",
            &[
                ("ab\ncd\n12", Accepted, Accepted),
                ("12", Accepted, Accepted),
                ("ab", Incomplete, Incomplete),
                ("ab\n", Accepted, Accepted),
            ],
        ),
        (
            "start: (w | X)* \".\"\nw[lazy]: /[a-z]+/\nX: /[0-9]+/",
            &[
                ("ab12.", Accepted, Accepted),
                ("1.", Accepted, Accepted),
                ("a", Incomplete, Incomplete),
            ],
        ),
        (
            "start: (TEXT0 \"|\" | tool)*\nhead[lazy]: TEXT0 \"<c>\"\ntool: head \"1;\"\nTEXT0: /[^|]*/",
            &[
                ("ab|", Accepted, Accepted),
                ("a<c>1;", Accepted, Accepted),
                ("a<c>|", Rejected(4), Rejected(4)),
                ("a|b<c>1;", Accepted, Accepted),
                ("a|b", Incomplete, Incomplete),
            ],
        ),
        (
            "start: tool | answer\ntool: head /[0-9]+/\nanswer: /[^<]*/\nhead[lazy]: /(.|\\n)*<c>/",
            &[
                ("abc", Accepted, Accepted),
                ("abc<c>1", Accepted, Accepted),
                ("abc<c>x", Rejected(6), Rejected(6)),
                ("abc<c", Incomplete, Incomplete),
            ],
        ),
        (
            "start: \"a\" p\np[lazy]: /b+/",
            &[
                ("ab", Accepted, Accepted),
                ("abb", Rejected(2), Rejected(2)),
                ("a", Incomplete, Incomplete),
            ],
        ),
        (
            "start: p \"!\" \np[suffix=\".\"]: /[a-z]+/",
            &[
                ("a.!", Accepted, Accepted),
                ("ab.!", Accepted, Accepted),
                (".!", Rejected(0), Rejected(0)),
                ("a.b.!", Rejected(2), Rejected(2)),
            ],
        ),
        (
            "start: (head \"1\" | \"end\")\nhead[lazy]: /[a-z]*<c>/",
            &[
                ("end", Accepted, Accepted),
                ("end<c>1", Accepted, Accepted),
                ("x<c>1", Accepted, Accepted),
                ("en", Incomplete, Incomplete),
            ],
        ),
        (
            "start: (A | B | tool)*\nA: /[a-m]+/\nB: /[n-z<>]+/\ntool: head \"1;\"\nhead[lazy]: /[a-z<>]*<c>/",
            &[
                ("abc", Accepted, Accepted),
                ("anb", Accepted, Incomplete),
                ("a<c>1;", Accepted, Accepted),
                ("a<c>b", Rejected(4), Rejected(4)),
                ("n<c>2", Rejected(4), Rejected(4)),
            ],
        ),
        (
            "start: tool* TEXT\nhead[lazy]: TEXT \"<c>\"\ntool: head value \";\"\nvalue: \"[\" [value (\",\" value)*] \"]\" | /[0-9]+/\nTEXT: /(.|\\n)*/",
            &[
                ("<c>[1,[2]];x", Accepted, Accepted),
                ("<c>[1,2];<c>[];", Accepted, Accepted),
                ("<c>[1,x", Rejected(6), Rejected(6)),
                ("a<c>1;", Accepted, Accepted),
                ("[1]", Accepted, Accepted),
            ],
        ),
        (
            "start: tool* TEXT\nhead[lazy]: TEXT \"<c>\"\ntool: head \"{\" NUM (\",\" NUM)* \"}\"\nNUM: /[0-9]+/\nTEXT: /(.|\\n)*/\n%ignore /[ \\n]+/",
            &[
                ("<c> { 1 , 2 }\n hi", Accepted, Accepted),
                ("<c>{1}<c>x", Rejected(9), Rejected(9)),
                (" <c>{1}", Accepted, Accepted),
            ],
        ),
        (
            "start: tool* value\nhead[lazy]: TEXT \"<c>\"\ntool: head \"1;\"\nvalue: \"[\" [value] \"]\"\nTEXT: /(.|\\n)*/",
            &[
                ("[]", Refused, Incomplete),
                ("[<c>1;[]", Refused, Incomplete),
            ],
        ),
        (
            "start: (head \"1;\" | /[a-z]/ | \" \")*\nhead[lazy]: /[a-z ]*<c>/",
            &[
                ("ab c", Accepted, Incomplete),
                ("ab<c>1;", Accepted, Accepted),
                ("ab <c>x", Rejected(6), Rejected(6)),
            ],
        ),
    ];
    let mut differences = 0;
    for (text, verdicts) in cases {
        let grammar = from_lark(text, &GrammarOptions::default(), &GrammarLimits::default());
        for (input, expected, theirs) in *verdicts {
            let found = match &grammar {
                Err(GrammarError::Syntax(_)) => Refused,
                Err(error) => panic!("{text}: {error}"),
                Ok(grammar) => {
                    let oracle = Oracle::new(grammar, &Alphabet::all());
                    let input = bytes(input);
                    match oracle.viable_len(&input) {
                        len if len < input.len() => Rejected(len),
                        _ if oracle.accepts(&input) => Accepted,
                        _ => Incomplete,
                    }
                }
            };
            assert_eq!(found, *expected, "{text}\n{input:?}");
            differences += usize::from(expected != theirs);
        }
    }
    assert_eq!((cases.len(), differences), (59, 26));
}
