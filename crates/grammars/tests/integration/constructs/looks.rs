//! Lazy repetitions and look-around in terminals of Lark.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    fmt,
};

use proptest::{prelude::*, sample::select};
use unskew_grammar::{Fate, Grammar, GrammarError, GrammarLimits};
use unskew_notation::{GrammarFormat, GrammarOptions, explain, from_lark};

use crate::{
    common::oracle::{Alphabet, Oracle, bytes},
    masks::random::check_along,
};

fn read(text: &str) -> Result<Grammar, GrammarError> {
    from_lark(text, &GrammarOptions::default(), &GrammarLimits::default())
}

/// Checks which texts the grammar accepts, by the oracle of plain grammars.
fn check(text: &str, accepted: &[&str], rejected: &[&str]) {
    let grammar = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let oracle = Oracle::new(&grammar, &Alphabet::all());
    for input in accepted {
        assert!(oracle.accepts(&bytes(input)), "{text}\n{input:?} is rejected");
    }
    for input in rejected {
        assert!(!oracle.accepts(&bytes(input)), "{text}\n{input:?} is accepted");
    }
}

#[test]
fn lazy_terminals_end_where_python_ends() {
    check(
        "start: STRING (\" \" STRING)*\nSTRING: /\".*?\"/",
        &["\"a\"", "\"a\" \"b\"", "\"\\\""],
        &["\"a\"b\"", "\"a\"\"", "\""],
    );
    // Parts of a terminal are one regex.
    check(
        "start: (COMMENT | \"x\")*\nCOMMENT: \"/*\" /(.|\\n)*?/ \"*/\"",
        &["/**/x", "/* * */x/***/", "x"],
        &["/* */ */", "/*/"],
    );
    let inner = "_INNER: /.*?/\n_ESC: _INNER /(?<!\\\\)(\\\\\\\\)*?/\nSTRING: \"\\\"\" _ESC \"\\\"\"";
    check(
        &format!("start: STRING*\n{inner}"),
        &["\"a\\\"b\"", "\"\\\\\"", "\"\"\"\""],
        &["\"\\\"", "\"a\"b\""],
    );
    // The longest alternative of a terminal is tried first, as in Lark.
    check("start: A \".\"\nA: (\"a\" | \"ab\" | /x.*?y/)", &["a.", "ab.", "xzy."], &["xyy.", "."]);
    let message = read("start: \"(\" /.*?/ \")\"").unwrap_err().to_string();
    assert_eq!(
        message,
        "line 1, column 12: the lazy repetition of `/.*?/ \")\"` ends at once, so the terminal has no text but the empty one: \
         write the text that ends it into the same terminal"
    );
}

/// Where nothing can follow a name that goes on with a keyword, its beginnings are no states of their own.
#[test]
fn names_that_are_no_keywords_cost_no_states() {
    let levels: String = (0..12).map(|at| format!("v{at}: v{} (\"{at}\" v{})*\n", at + 1, at + 1)).collect();
    let text = format!(
        "start: (line \";\")*\nline: \"show\" v0 [\"by\" v0] | \"when\" v0 \"take\" v0\n{levels}v12: NAME | \"(\" v0 \")\"\n\
         NAME: /(?!(given|show|when|take|otherwise|where|each|some|be|in|of|by|either|also|never|yes|no)\\b)[a-z]+/\n\
         %ignore / +/\n"
    );
    let grammar = read(&text).unwrap();
    assert!(grammar.expressions() < 1_000, "{}", grammar.expressions());
    let text = "start: NAME (\"=\" | \"ow\" | \" \") NAME\nNAME: /(?!(show|x)\\b)[a-z]+/\n";
    check(
        text,
        &["a=b", "sh=b", "sh b", "showow b", "shown=a", "xx b"],
        &["x=b", "a=x", "show b", "showow show"],
    );
    // `sh` and `ow` are `show`, and `sh`, `ow` and `b` are a text that goes on.
    check(text, &["showb", "shoowb"], &["show"]);
}

#[test]
fn look_ahead_reaches_into_what_follows() {
    let text = "start: (IF | NAME | ASSIGN | EQUAL | \" \")*\nIF: /if\\b/\nNAME: /[a-h]+(?!\\()/\nASSIGN: /=(?!=)/\nEQUAL: \"==\"";
    check(
        text,
        // Without a lexer, `===` is `==` and `=`.
        &["if", "if =", "if==", "a = b", "if if", "==", "====", "== =", "==="],
        &["ifif", "if1", "if(", "ifa", "a("],
    );
    // It reaches over what may be empty, and to the end of the output.
    check(
        "start: A B? C\nA: /a(?=[bc]$|bd)/\nB: \"b\"\nC: /[cd]?/",
        &["ab", "ac", "abd"],
        &["a", "abc", "ad"],
    );
    check(
        "start: item+\nitem: \"[\" item* \"]\" | A\nA: /a(?!\\]\\])/",
        &["[a]", "[[a][]]", "a[a]a"],
        &["[[a]]", "[[aa]]"],
    );
    check("start: (A | \"a\" \"!\")* \n A: /a(?!!)/", &["aa!a", ""], &["!", "a!!"]);
}

#[test]
fn look_behind_reaches_back() {
    check(
        "start: (/[a-z\\\\]/ | QUOTE)*\nQUOTE: /(?<!\\\\)\"/",
        &["\"a\"", "a\\a\"", "\"\"", ""],
        &["\\\"", "a\\\"", "\"\\\"a"],
    );
    check(
        "start: (IF | \" \" | /[a-h]/ | \"(\")*\nIF: /\\bif\\b/",
        &["if", "a if (", "(if(a"],
        &["aif", "ifif", "if a ifb"],
    );
    check(
        "start: (\"a\" | FIRST | \"\\n\")*\nFIRST: /(?m)^b/",
        &["b", "ba", "a\nb", "ba\nba"],
        &["ab", "bb"],
    );
    check(
        "start: (\"a\" | FIRST | LAST)*\nFIRST: /^b/\nLAST: /c$/",
        &["ba", "bac", "aac", "c"],
        &["ab", "ca"],
    );
    // Both at once, over rules that recur in the middle.
    check(
        "start: pair\npair: \"(\" pair? \")\" | X\nX: /(?<=\\(\\()x(?=\\)\\))/",
        &["((x))", "(((x)))", "()"],
        &["x", "(x)"],
    );
}

#[test]
fn ignored_text_counts() {
    let text = "start: (IF | NAME)*\nIF: /if\\b/\nNAME: /[a-h]+/\n%ignore /[ ]+/\n%ignore /#.*(?=\\n)/\n%ignore \"\\n\"";
    check(text, &["if a", "if#a\n", "a#\n if", "if"], &["ifa", "if#a", "#"]);
    check(
        "start: A*\nA: \"a\"\n%ignore /\\/\\*(.|\\n)*?\\*\\//",
        &["a/* */a", "/**//***/a"],
        &["a/* */ */a"],
    );
}

#[test]
fn patterns_of_known_grammars() {
    let hcl = "start: STRING_LIT\nSTRING_LIT: \"\\\"\" (STRING_CHARS | INTERPOLATION)* \"\\\"\"\n\
               STRING_CHARS: /(?:(?!\\${)([^\"\\\\]|\\\\.))+/+\nNESTED_INTERPOLATION: \"${\" /[^}]+/ \"}\"\n\
               INTERPOLATION: \"${\" (/(?:(?!\\${)([^}]))+/ | NESTED_INTERPOLATION)+ \"}\"";
    check(hcl, &["\"a${b}\"", "\"$a\"", "\"${ \"x\" }\""], &["\"${\"", "\"a"]);
    let python = "start: (STRING | \"+\" | \"\\\"\" | NUMBER)*\nNUMBER: \"0\" (\"_\"? \"0\")* /(?![1-9])/ | /[1-9]/\n\
                  STRING: /([ubf]?r?|r[ubf])(\"(?!\"\").*?(?<!\\\\)(\\\\\\\\)*?\"|'(?!'').*?(?<!\\\\)(\\\\\\\\)*?')/i";
    check(python, &["\"a\"+rb'x'", "00+1", "\"\"+\"\\\"\"", "0_0", "''+\"x\""], &["'''", "01", "00_01"]);
    let lark = "start: (OP | RULE)*\nOP: /[+*]|[?](?![a-z])/\nRULE: /[?]?[_a-z]+/";
    check(lark, &["a?", "?a", "a*?b", "a+?"], &["?A"]);
}

#[test]
fn refusals_have_a_place_and_a_way_out() {
    let message = |text: &str| read(text).unwrap_err().to_string();
    assert_eq!(
        message("start: A\nA: /(a)\\1/"),
        "terminal `A`: a back-reference is not supported, at line 2, column 8: list the texts that may repeat as alternatives"
    );
    assert_eq!(
        message("start: A \"b\"\nA: /a(?!b)/ & /[a-z]/"),
        "line 2, column 4: look-around beyond an operand of `&`, `~` or `-`, a lazy rule or a budget of tokens, is not \
         supported: use the terminal in a rule, or write which characters may stand around it"
    );
    assert_eq!(
        message("start: A \"b\"\nA: /a(?!b)/"),
        "the grammar accepts no text: no output fulfils the conditions of look-around"
    );
    assert_eq!(
        message("start: A b\nb[lazy]: /.*c/\nA: /a(?!b)/"),
        "line 3, column 4: look-around beyond a terminal in a grammar with lazy terminals is not supported: write which \
         characters may stand around the terminal, or leave out `lazy`, `suffix` and `stop`"
    );
    assert_eq!(
        message("start: A <[1-2]>\nA: /a(?!b)/"),
        "line 2, column 4: look-around that reaches into a token by its id, or into a schema or another grammar, is not \
         supported: put a text between the two, such as a bracket"
    );
    let mut few = GrammarLimits::default();
    few.positions = 200;
    let text = "start: (A | \"b\" | \"c\")*\nA: /a(?!(b|c){3}a(b|c){8}a)/";
    let error = from_lark(text, &GrammarOptions::default(), &few).unwrap_err();
    assert!(matches!(error, GrammarError::LooksTooCostly { limit: 200, .. }), "{error}");
}

#[test]
fn explain_names_the_constructs() {
    let text = "start: A B\nA: /a(?!b)/\nB: /c.*?d/";
    let fates = explain(text, GrammarFormat::Lark, &GrammarOptions::default(), &GrammarLimits::default());
    let found: Vec<String> = fates
        .iter()
        .filter(|one| one.fate == Fate::Enforced)
        .map(|one| format!("{}: {}", one.location.unwrap(), one.construct))
        .collect();
    assert_eq!(
        found,
        [
            "line 1, column 1: rule `start`",
            "line 2, column 1: terminal `A`",
            "line 2, column 4: look-around, an anchor or a word boundary",
            "line 3, column 1: terminal `B`",
            "line 3, column 4: a lazy repetition",
        ]
    );
}

/// Terminals over three letters, each with whether it has a lazy repetition.
const TERMINALS: [(&str, bool); 22] = [
    ("a", false),
    ("b", false),
    ("c", false),
    ("ab?", false),
    ("[abc]+", false),
    ("(bc)*", false),
    ("a(?!b)", false),
    ("a(?=b)", false),
    ("[ab]+(?![ab])", false),
    ("b(?=ca|c?$)", false),
    ("c?(?!.*a)", false),
    ("(?<!a)b", false),
    ("(?<=b)c", false),
    ("^[ab]", false),
    ("c$", false),
    (r"(?<!c)a(?!c)", false),
    ("(?<=a.)[bc]?", false),
    ("(?<!^a*)c", false),
    ("a[abc]*?b", true),
    ("[ab]*?c(?:a|ab)??", true),
    ("(?:a|ab)(?:c|bc)*?b", true),
    ("(?:(?!bc)[abc])+", false),
];

/// The body of a rule.
#[derive(Clone, Debug)]
enum Body {
    Terminal(usize),
    Rule(usize),
    Sequence(Vec<Body>),
    Choice(Vec<Body>),
    Repeat(Box<Body>, &'static str),
}

#[derive(Clone, Debug)]
struct Rules(Vec<Body>);

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .enumerate()
            .try_for_each(|(at, rule)| writeln!(f, "{}: {}", Self::name(at), Self::body(rule)))
    }
}

impl Rules {
    fn name(rule: usize) -> String {
        if rule == 0 { "start".to_owned() } else { format!("r{rule}") }
    }

    fn body(body: &Body) -> String {
        let list = |parts: &[Body], between: &str| {
            format!("({})", parts.iter().map(Self::body).collect::<Vec<_>>().join(between))
        };
        match body {
            Body::Terminal(terminal) => format!("/{}/", TERMINALS[*terminal].0),
            Body::Rule(rule) => Self::name(*rule),
            Body::Sequence(parts) => list(parts, " "),
            Body::Choice(parts) => list(parts, " | "),
            Body::Repeat(item, times) => format!("({}){times}", Self::body(item)),
        }
    }
}

/// The least and the greatest number of a repetition.
fn times(of: &str) -> (usize, usize) {
    match of {
        "*" => (0, usize::MAX),
        "+" => (1, usize::MAX),
        "?" => (0, 1),
        "{2}" => (2, 2),
        "{1,3}" => (1, 3),
        "{2,}" => (2, usize::MAX),
        other => panic!("{other}"),
    }
}

fn rules() -> impl Strategy<Value = Rules> {
    let leaf = prop_oneof![
        9 => (0..TERMINALS.len()).prop_map(Body::Terminal),
        2 => (0..3usize).prop_map(Body::Rule),
    ];
    let body = leaf.prop_recursive(3, 10, 3, |inner| {
        let times = select(vec!["*", "+", "?", "{2}", "{1,3}", "{2,}"]);
        prop_oneof![
            5 => prop::collection::vec(inner.clone(), 2..4).prop_map(Body::Sequence),
            4 => prop::collection::vec(inner.clone(), 2..4).prop_map(Body::Choice),
            3 => (inner, times).prop_map(|(item, times)| Body::Repeat(item.into(), times)),
        ]
    });
    prop::collection::vec(body, 3).prop_map(Rules)
}

/// The slow oracle: the spans of rules in one whole text, as a least fixpoint. `fancy-regex` judges each terminal on
/// the whole text.
struct Spans<'r> {
    rules: &'r Rules,
    text: &'r str,
    /// By rule and beginning: the ends.
    ends: Vec<Vec<BTreeSet<usize>>>,
}

impl<'r> Spans<'r> {
    fn accepts(rules: &'r Rules, text: &'r str) -> bool {
        let ends = vec![vec![BTreeSet::new(); text.len() + 1]; rules.0.len()];
        let mut spans = Self { rules, text, ends };
        loop {
            let mut changed = false;
            for rule in 0..rules.0.len() {
                for begin in 0..=text.len() {
                    let found = spans.of(&rules.0[rule], begin);
                    changed |= found.len() > spans.ends[rule][begin].len();
                    spans.ends[rule][begin] = found;
                }
            }
            if !changed {
                return spans.ends[0][0].contains(&text.len());
            }
        }
    }

    fn of(&self, body: &Body, begin: usize) -> BTreeSet<usize> {
        match body {
            Body::Terminal(terminal) => {
                (begin..=self.text.len()).filter(|end| matches(*terminal, self.text, begin, *end)).collect()
            }
            Body::Rule(rule) => self.ends[rule % self.rules.0.len()][begin].clone(),
            Body::Sequence(parts) => parts.iter().fold([begin].into(), |from, part| self.all(part, &from)),
            Body::Choice(parts) => parts.iter().flat_map(|part| self.of(part, begin)).collect(),
            Body::Repeat(item, of) => {
                let (min, max) = times(of);
                let (mut at, mut found) = (BTreeSet::from([begin]), BTreeSet::new());
                // No text has more parts that are not empty, and empty ones may be left out.
                for round in 0..=max.min(min + self.text.len() + 1) {
                    if round >= min {
                        found.extend(at.iter().copied());
                    }
                    at = self.all(item, &at);
                }
                found
            }
        }
    }

    fn all(&self, body: &Body, from: &BTreeSet<usize>) -> BTreeSet<usize> {
        from.iter().flat_map(|begin| self.of(body, *begin)).collect()
    }
}

/// Whether a terminal has the text from `begin` to `end`, as a part of the whole text.
fn matches(terminal: usize, text: &str, begin: usize, end: usize) -> bool {
    type Known = HashMap<(usize, String, usize, usize), bool>;
    thread_local! {
        static KNOWN: RefCell<Known> = RefCell::default();
        static JUDGES: RefCell<HashMap<String, fancy_regex::Regex>> = RefCell::default();
    }
    let key = (terminal, text.to_owned(), begin, end);
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&key).copied()) {
        return known;
    }
    let (pattern, lazy) = TERMINALS[terminal];
    // The first match of an engine that reads up to `end`: the lazy patterns do not look beyond it. Or any match up
    // to there.
    let (judge, text) = match lazy {
        true => (format!("\\G(?:{pattern})"), &text[..end]),
        false => (format!("\\G(?:{pattern})(?=.{{{}}}\\z)", text.len() - end), text),
    };
    let found = JUDGES.with_borrow_mut(|judges| {
        let judge = judges.entry(judge).or_insert_with_key(|judge| fancy_regex::Regex::new(judge).unwrap());
        judge.find_from_pos(text, begin).unwrap().map(|found| found.end())
    });
    let found = found == Some(end);
    KNOWN.with_borrow_mut(|known| known.insert(key, found));
    found
}

/// All texts of up to four of three letters.
fn texts() -> Vec<String> {
    let mut all = vec![String::new()];
    let mut from = 0;
    for _ in 0..4 {
        let to = all.len();
        for index in from..to {
            for char in ['a', 'b', 'c'] {
                let longer = format!("{}{char}", all[index]);
                all.push(longer);
            }
        }
        from = to;
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: unskew_testdata::random_cases(400, 1_000),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_grammars_have_the_outputs_that_fulfil_all_conditions(
        rules in rules(),
        choices in prop::collection::vec(any::<u8>(), 4),
    ) {
        let written = rules.to_string();
        let grammar = read(&written);
        let grammar = match &grammar {
            Ok(grammar) => Some(grammar),
            Err(GrammarError::Empty { .. }) => None,
            // Conditions of several terminals on one text multiply, and the limit is an honest answer.
            Err(error) if error.to_string().contains("GrammarLimits::nodes") => return Ok(()),
            Err(error) => panic!("{written}{error}"),
        };
        let oracle = grammar.map(|grammar| Oracle::new(grammar, &Alphabet::all()));
        for text in texts() {
            let expected = Spans::accepts(&rules, &text);
            let found = oracle.as_ref().is_some_and(|oracle| oracle.accepts(&bytes(&text)));
            prop_assert_eq!(found, expected, "{}{:?}", written, text);
        }
        // The states of a larger product grow with the text if its rules are ambiguous and recur: each mask is slow.
        if let Some(grammar) = grammar.filter(|grammar| grammar.expressions() < 2_000) {
            check_along(grammar, &choices).map_err(TestCaseError::fail)?;
        }
    }
}
