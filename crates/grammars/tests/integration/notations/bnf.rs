//! Classical BNF and the EBNF of ISO 14977. Expected results were determined by hand, and random grammars are compared
//! with the same ones in GBNF by their short words.

use std::fmt::Write as _;

use proptest::{prelude::*, sample::select};
use unskew_grammar::{Grammar, GrammarLimits};
use unskew_notation::{GrammarFormat, GrammarOptions, explain, from_ebnf};

use crate::common::{
    enumeration::short,
    oracle::{Alphabet, Oracle, bytes},
};

fn read(text: &str) -> Result<Grammar, String> {
    from_ebnf(text, &GrammarLimits::default()).map_err(|error| error.to_string())
}

#[track_caller]
fn check(grammar: &str, accepted: &[&str], rejected: &[&str]) {
    let read = read(grammar).unwrap_or_else(|error| panic!("{grammar}\n{error}"));
    let oracle = Oracle::new(&read, &Alphabet::all());
    for (texts, wanted) in [(accepted, true), (rejected, false)] {
        for text in texts {
            assert_eq!(oracle.accepts(&bytes(text)), wanted, "{text:?} of {grammar}");
        }
    }
}

#[track_caller]
fn fails(grammar: &str, wanted: &str) {
    let error = read(grammar).unwrap_err();
    assert!(error.contains(wanted), "{error}\n{grammar}");
}

#[test]
fn classical_names_have_blanks_and_texts_quotes_or_none() {
    let order = "<order> ::= <verb> \" \" <thing list>\n<verb> ::= \"buy\" | 'sell'\n\
                 <thing list> ::= <thing> | <thing> \", \" <thing list>\n<thing> ::= tea | salt";
    check(order, &["buy tea", "sell salt, tea"], &["buy", "buy tea,tea"]);
    check("<n> ::= <digit> | <digit><n>\n<digit> ::= 0 | 1", &["0", "1101"], &["", "2"]);
    check(
        "; a comment\n# another\n// and one\n-- as SQL\n<a> ::= \"x\" ; the rest\n | \"y\" # too\n",
        &["x", "y"],
        &["the"],
    );
    check("<a> ::= <b> <c>\n  <empty>\n<b> ::= b |\n<c> ::= \"c\" | ε", &["", "b", "c", "bc"], &["cb"]);
    check("<empty> ::= \"e\"\n<a> ::= <empty>", &["e"], &[""]);
    check("<a> ::= \"x\" ;\n<b> ::= \"y\" ;\n", &["x"], &["x;"]);
    check("<a-1> ::= <a 2>\n<a 2> ::= x\n<root> ::= <a-1> y", &["xy"], &["x"]);
    // ALGOL's report quotes nothing: every sign is a text.
    check(
        "<e> ::= <v> | (<e>+<e>) | sin(<e>)\n<v> ::= x | y",
        &["x", "(x+y)", "sin((x+x))"],
        &["(x)", "x+y"],
    );
    check("<op> ::= < | > | <= | >= | <> | + | ( | #\n", &["<", ">=", "<>", "(", "#"], &["", "op"]);
    check("<v> ::= x[0] | x[1]", &["x[0]", "x[1]"], &["x", "x0"]);
    check(
        "<s> ::= <vertical bar> <double quote> <quote> <solidus>\n<vertical bar> ::= |\n<double quote> ::= \"\n\
         <quote> ::= '\n<solidus> ::= /\n<x> ::= X...",
        &["|\"'/"],
        &[""],
    );
    check("<stmt> ::= if <c> then <stmt> ; | skip ;\n<c> ::= c", &["ifcthenskip;;", "skip;"], &["skip"]);
}

#[test]
fn classical_brackets_are_those_of_the_file() {
    check("<a> ::= \"x\" [ \"y\" ] { \"z\" } ( \"u\" | <b> )\n<b> ::= v", &["xu", "xyzzv"], &["x", "xyyu"]);
    check("<a> ::= <b>* 'x'+ <b>? (<b> 'y'){2}\n<b> ::= \"b\"", &["xbyby", "bbxxbbyby"], &["xby"]);
    check(
        "<a> ::= { <b> | \"c\" }... [ , ]\n<b> ::= \"b\" <d>...\n<d> ::= D",
        &["c", "cbDDc", "bD,"],
        &["", "b"],
    );
    check(
        "<l> ::= <left paren> SELECT <right paren>\n<left paren> ::= (\n<right paren> ::= )\n",
        &["(SELECT)"],
        &["SELECT"],
    );
    check("<a> ::= ( \"x\" |\n\"y\" | \n) 'z'", &["xz", "yz", "z"], &["x"]);
}

#[test]
fn what_classical_bnf_leaves_open_is_an_error() {
    fails("<a> ::= foo [<a>] bar", "is a text, or the beginning of a group");
    fails("<a> ::= (<b> | <c>) x\n<b> ::= b\n<c> ::= c", "line 1, column 9: a bracket without another one");
    fails("<a> ::= x # or y", "a comment or a text");
    fails("<a> ::= \"x\" ;\n<b> ::= \"y\"", "found `;`");
    fails("<a> ::= !! See the Syntax Rules.\n<b> ::= \"x\" ", "`!!`, a rule in words, is not supported");
    fails("<a> ::= \"x\" + \"y\"", "a sign that is a text is in quotes");
    fails(
        "<a> ::= \"x\" ( \"y\"\n<b> ::= \"z\"",
        "column 13: the group is not closed: expected `)` (the file is read as classical BNF",
    );
    fails(
        "<a> ::= <bb>\n<b> ::= \"z\"",
        "rule `bb` is not defined; is `b` meant? (the file is read as classical BNF",
    );
    fails("<a> ::= '\\n'", "a backslash in single quotes is itself");
}

#[test]
fn iso_has_its_constructs() {
    let order = "(* the EBNF of ISO 14977 *)\norder = verb, \" \", thing, { \", \", thing }, [ \"!\" ] ;\n\
                 verb = \"buy\" | \"sell\" ;\nthing = \"tea\" | 'salt' | 2 * \"x\" ;";
    check(order, &["buy tea, xx!", "sell salt"], &["buy", "buy tea, x"]);
    check("the list = one thing, 2 * (\",\" , one  thing);\none thing = 'a'.", &["a,a,a"], &["a,a"]);
    check("a = {'x'}-, 3 * {'y' | b}-;\nb = 'b' (* (* in *) out *);", &["xyyy", "xxyb", "xy"], &["yyy", "x"]);
    check(
        "word = letter, { letter } - (\"if\");\nletter = 'i' | 'f' | 'x';",
        &["i", "ix", "xfif"],
        &["xif", ""],
    );
    check(
        "id = letter - 'x', digit;\nletter = ? U+0061..U+007A ?; digit = \"0\" | \"1\";",
        &["a0", "z1"],
        &["x0", "A0"],
    );
    check("start-rule = \"a\" b-c\nb-c = \"d\" // no commas\n  | \"e\"", &["ad", "ae"], &["a"]);
    check("lines = \"a\", ? U+000A ?, '\\' ;", &["a\n\\"], &["a"]);
    check("a = | \"x\";", &["", "x"], &["y"]);
    check("größe = zahl, \"m\"; zahl = \"1\";", &["1m"], &["1"]);
}

#[test]
fn errors_of_iso_name_the_notation() {
    fails("(* c *) a = \"x\" b;\nb = \"y\", a;", "`,` before the next part of a sequence");
    fails(
        "a = ? any letter ?;",
        "the special sequence `? any letter ?` is not supported: write what it means",
    );
    fails("a = \"\\n\", b; b = 'b';", "write a character by its number, as `? U+000A ?`");
    fails(
        "a = ( \"x\", \"y\";\nb = \"z\";",
        "line 1, column 5: the group is not closed: expected `)` (the file is read as the EBNF of ISO 14977",
    );
    fails("a = { \"x\"\nb = \"z\";", "line 1, column 5: the group is not closed: expected `}`");
    fails("a = b*;\nb = \"z\";", "any number of times is `{ … }`");
    fails("a = 2 \"x\";", "`*` and what is repeated");
    fails("a = c;\nb = \"z\";", "rule `c` is not defined (the file is read as the EBNF of ISO 14977");
    fails("(* never", "the comment is not closed");
}

#[test]
fn reports_name_texts_without_quotes() {
    let fates =
        explain("<a> ::= x", GrammarFormat::Ebnf, &GrammarOptions::default(), &GrammarLimits::default());
    assert!(fates.iter().any(|one| one.construct == "texts without quotes"), "{fates:?}");
}

/// A part of a rule.
#[derive(Clone, Debug)]
enum Part {
    Text(&'static str),
    Rule(usize),
    Sequence(Vec<Part>),
    Choice(Vec<Part>),
    Optional(Box<Part>),
    Any(Box<Part>),
    Some(Box<Part>),
    Twice(Box<Part>),
}

fn part() -> impl Strategy<Value = Part> {
    let leaf = prop_oneof![
        3 => select(&["a", "b", "c", "ab", "'", "\"a"][..]).prop_map(Part::Text),
        2 => (0..4usize).prop_map(Part::Rule),
    ];
    leaf.prop_recursive(3, 10, 3, |inner| {
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 2..4).prop_map(Part::Sequence),
            3 => prop::collection::vec(inner.clone(), 2..4).prop_map(Part::Choice),
            1 => inner.clone().prop_map(|part| Part::Optional(Box::new(part))),
            1 => inner.clone().prop_map(|part| Part::Any(Box::new(part))),
            1 => inner.clone().prop_map(|part| Part::Some(Box::new(part))),
            1 => inner.prop_map(|part| Part::Twice(Box::new(part))),
        ]
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Notation {
    Gbnf,
    Classical,
    Sql,
    Iso,
    IsoWithoutCommas,
}

const NAMES: [&str; 4] = ["top", "item", "list", "other"];
const LONG: [&str; 4] = ["the top", "item-1", "list of items", "other"];

impl Notation {
    fn name(self, rule: usize) -> String {
        match self {
            Self::Gbnf | Self::IsoWithoutCommas => NAMES[rule].to_owned(),
            Self::Iso => LONG[rule].replace('-', " "),
            Self::Classical | Self::Sql => format!("<{}>", LONG[rule]),
        }
    }

    fn print(self, part: &Part) -> String {
        let joined = |parts: &[Part], by: &str| {
            let parts: Vec<String> = parts.iter().map(|part| self.print(part)).collect();
            parts.join(by)
        };
        let and = if self == Self::Iso { ", " } else { " " };
        match part {
            Part::Text(text) if self == Self::Gbnf => format!("{text:?}"),
            Part::Text(text) if text.contains('"') => format!("'{text}'"),
            Part::Text(text @ ("a" | "ab")) if matches!(self, Self::Classical | Self::Sql) => {
                (*text).to_owned()
            }
            Part::Text(text) => format!("\"{text}\""),
            Part::Rule(rule) => self.name(*rule),
            Part::Sequence(parts) if self == Self::Sql => format!("{{{}}}", joined(parts, and)),
            Part::Sequence(parts) => format!("({})", joined(parts, and)),
            Part::Choice(parts) => format!("({})", joined(parts, " | ")),
            Part::Optional(part) if self == Self::Gbnf => format!("({})?", self.print(part)),
            Part::Optional(part) => format!("[ {} ]", self.print(part)),
            Part::Any(part) => match self {
                Self::Gbnf => format!("({})*", self.print(part)),
                Self::Sql => format!("[ {{ {} }}... ]", self.print(part)),
                _ => format!("{{ {} }}", self.print(part)),
            },
            Part::Some(part) => match self {
                Self::Gbnf => format!("({})+", self.print(part)),
                Self::Classical => format!("({})+", self.print(part)),
                Self::Sql => format!("{{ {} }}...", self.print(part)),
                Self::Iso => format!("{{ {} }}-", self.print(part)),
                // Without a comma the next part would be the exception.
                Self::IsoWithoutCommas => format!("({{ {} }}-)", self.print(part)),
            },
            Part::Twice(part) => match self {
                Self::Gbnf | Self::Classical => format!("({}){{2}}", self.print(part)),
                Self::Sql => format!("{{ {0} {0} }}", self.print(part)),
                Self::Iso | Self::IsoWithoutCommas => format!("2 * ({})", self.print(part)),
            },
        }
    }

    fn grammar(self, parts: &[Part]) -> String {
        let mut text = String::new();
        if matches!(self, Self::Iso | Self::IsoWithoutCommas) {
            text.push_str("(* a (* grammar *) *)\n");
        }
        for (rule, part) in parts.iter().enumerate() {
            let name = self.name(rule);
            let is = if matches!(self, Self::Iso | Self::IsoWithoutCommas) { "=" } else { "::=" };
            write!(text, "{name} {is} {}", self.print(part)).unwrap();
            text.push_str(if self == Self::Iso { ";\n" } else { "\n" });
        }
        // What a file does elsewhere decides on its brackets.
        match self {
            Self::Classical => text.push_str("<unused> ::= \"x\"\n"),
            Self::Sql => text.push_str("<unused> ::= X...\n"),
            Self::Iso => text.push_str("unused = 'x', 'y';\n"),
            Self::Gbnf | Self::IsoWithoutCommas => {}
        }
        text
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 120 } else { 2_000 }))]

    /// A grammar is the same in every notation.
    #[test]
    fn random_grammars_are_the_same_in_each_notation(parts in prop::collection::vec(part(), 4..=4)) {
        let limits = GrammarLimits::default();
        let options = GrammarOptions::default().with_start("top");
        let text = Notation::Gbnf.grammar(&parts);
        let wanted = unskew_notation::parse(&text, GrammarFormat::Gbnf, &options, &limits).unwrap();
        let wanted = short(&wanted, 5);
        for notation in [Notation::Classical, Notation::Sql, Notation::Iso, Notation::IsoWithoutCommas] {
            let text = notation.grammar(&parts);
            let read = read(&text);
            prop_assert!(read.is_ok(), "{text}\n{}", read.unwrap_err());
            prop_assert!(short(&read.unwrap(), 5) == wanted, "{text}");
        }
    }
}
