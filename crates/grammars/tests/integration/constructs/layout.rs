//! Blocks by indentation: `%declare` in Lark.

use std::{fmt::Write, sync::Arc};

use proptest::{prelude::*, test_runner::TestCaseError};
use unskew_core::{Constraint, TokenMask, Vocabulary};
use unskew_grammar::{Grammar, GrammarError, GrammarLimits};
use unskew_grammars::GrammarConstraint;
use unskew_notation::{GrammarFormat, GrammarOptions, Indenter, explain, from_lark};
use unskew_trie::TokenTrie;

use crate::common::oracle::{Alphabet, Oracle, bytes};

/// The greatest column in these tests.
const MOST: u32 = 12;
const TAB: u32 = 3;

fn limits() -> GrammarLimits {
    let mut limits = GrammarLimits::default();
    limits.columns = MOST;
    limits
}

fn read(text: &str) -> Result<Grammar, GrammarError> {
    let mut indenter = Indenter::default();
    indenter.tab = TAB;
    from_lark(text, &GrammarOptions::default().with_indenter(indenter), &limits())
}

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

const LINES: &str = r#"
start: (_NEWLINE | line)*
line: NAME (":" _NEWLINE _INDENT line+ _DEDENT | "(" [NAME ("," NAME)*] ")" _NEWLINE | _NEWLINE)
NAME: /[a-z]+/
_NEWLINE: (/\r?\n[\t ]*/ | COMMENT)+
COMMENT: /#[^\n]*/
%ignore /[\t \f]+/
%ignore COMMENT
%declare _INDENT _DEDENT
"#;

#[test]
fn blocks_have_columns() {
    check(
        LINES,
        &[
            "",
            "a\n",
            "  a\n",
            "a:\n  b\n",
            "a:\n  b:\n   c\n  d\ne\n",
            "a:\n b:\n\tc\n\td\n e\n",
            "a:\n\tb\n   c\n",
            "a:\n\n  # note\n\n  b # note\n# note\n  c\n",
            "a(\nb,\n c\n  )\n",
            "a:\n b(c,\nd)\n e\n",
            "a:\n  b:\n    c\n\n\n\n",
            "a:\n  b\n  ",
            "a\n\u{c}\nb\n",
        ],
        &[
            "a\n b\n",
            "a:\nb\n",
            "a:\n  b\n c\n",
            "a:\n  b:\n    c\n   d\n",
            "a:\n b\n  c\n",
            "a:\n",
            "a:\n  b\n\u{c}\n  c\n",
            "a # note",
            "a\n ",
            "a(\n",
        ],
    );
}

/// A chain of rules takes the same time in any order: passes over all rules would be as many as the rules.
#[test]
fn long_chains_of_rules_are_read() {
    let rules = 20_000;
    let mut text = "start: r0 _NEWLINE\nsuite: _NEWLINE _INDENT start _DEDENT\n".to_owned();
    for rule in 0..rules {
        writeln!(text, "r{rule}: r{} \"x\"", rule + 1).unwrap();
    }
    write!(text, "r{rules}: \"y\"\n_NEWLINE: /(\\r?\\n[ ]*)+/\n%declare _INDENT _DEDENT\n").unwrap();
    read(&text).unwrap();
}

#[test]
fn refusals_have_a_place_and_a_way_out() {
    let message = |text: &str| read(text).unwrap_err().to_string();
    let end = "\n_NEWLINE: /(\\n[ ]*)+/\n%declare _INDENT _DEDENT";
    assert_eq!(
        message("start: \"a\"\n%declare A"),
        "line 2, column 10: `%declare` of `A`, which is no terminal of the indenter, is not supported: define the terminal, since only \
         a definition gives its texts; those of blocks are `_INDENT` and `_DEDENT`, unless `%grammar_options {\"indenter\": {\"indent\": \"IN\", \"dedent\": \"OUT\"}}` \
         before it names others"
    );
    assert_eq!(
        message("start: \"a\"\n%declare _INDENT"),
        "line 2, column 1: newline terminal of `%declare` `_NEWLINE` is not defined: define it or `_NL`, or name another, \
         as in `%grammar_options {\"indenter\": {\"newline\": \"BREAK\"}}`"
    );
    assert_eq!(
        message(&format!("start: \"a\" _INDENT rest\nrest: \"b\" _DEDENT{end}")),
        "line 4, column 1: rule `start`, which ends a block in another place than it begins it, beside `%declare` is not supported: \
         close each bracket, and end each block, in the alternative that opens it"
    );
    assert_eq!(
        message(&format!("start: \"(\" rest\nrest: \"b\" \")\"{end}")),
        "line 4, column 1: rule `start`, which closes a bracket in another place than it opens it, beside `%declare` is not \
         supported: close each bracket, and end each block, in the alternative that opens it"
    );
    assert!(
        message("start: A\nA: \"a\" _INDENT\n_NEWLINE: /(\\n[ ]*)+/\n%declare _INDENT")
            .contains("inside a terminal")
    );
    assert!(message("start: _NEWLINE\n_NEWLINE: /a+/\n%declare _INDENT").contains("without a line feed"));
    assert!(
        message("start: _NEWLINE\n_NEWLINE: /\\na|\\r\\nb/\n%declare _INDENT").contains("not followed alike")
    );
    let mut wide = "a:\n".to_owned();
    writeln!(wide, "{}b", " ".repeat(MOST as usize + 1)).unwrap();
    check(LINES, &[], &[&wide]);
}

#[test]
fn explain_names_the_terminals() {
    let fates = explain(LINES, GrammarFormat::Lark, &GrammarOptions::default(), &GrammarLimits::default());
    let found = fates.iter().find(|one| one.construct == "declared terminal `_INDENT`").unwrap();
    assert_eq!(
        found.why,
        "a border of a block by its column, without a text, up to `GrammarLimits::columns`"
    );
}

/// A part of a random rule, balanced.
#[derive(Clone, Debug)]
enum Part {
    Text(&'static str),
    Brackets(Box<Part>),
    Block(Box<Part>),
    Both(Box<Part>, Box<Part>),
    Either(Box<Part>, Box<Part>),
    Often(Box<Part>, &'static str),
}

impl Part {
    fn write(&self, into: &mut String) {
        let mut wrapped = |open: &str, parts: &[&Part], between: &str, close: &str| {
            into.push_str(open);
            for (at, part) in parts.iter().enumerate() {
                if at > 0 {
                    into.push_str(between);
                }
                part.write(into);
            }
            into.push_str(close);
        };
        match self {
            Self::Text(text) => into.push_str(text),
            Self::Brackets(part) => wrapped("(\"(\" ", &[part], "", " \")\")"),
            Self::Block(part) => wrapped("(_NEWLINE _INDENT ", &[part], "", " _DEDENT)"),
            Self::Both(left, right) => wrapped("(", &[left, right], " ", ")"),
            Self::Either(left, right) => wrapped("(", &[left, right], " | ", ")"),
            Self::Often(part, how) => wrapped("(", &[part], "", &format!("){how}")),
        }
    }
}

fn parts() -> impl Strategy<Value = Part> {
    let leaf = prop::sample::select(vec!["\"x\"", "\"y\"", "_NEWLINE", "(\"x\" _NEWLINE)", "r0", "r1", "r2"]);
    leaf.prop_map(Part::Text).prop_recursive(4, 12, 2, |inner| {
        let boxed = inner.prop_map(Box::new);
        prop_oneof![
            boxed.clone().prop_map(Part::Brackets),
            boxed.clone().prop_map(Part::Block),
            boxed.clone().prop_map(Part::Block),
            (boxed.clone(), boxed.clone()).prop_map(|(left, right)| Part::Both(left, right)),
            (boxed.clone(), boxed.clone()).prop_map(|(left, right)| Part::Either(left, right)),
            (boxed, prop::sample::select(vec!["?", "*", "+", "~2", "~1..3"]))
                .prop_map(|(part, how)| Part::Often(part, how)),
        ]
    })
}

/// The terminals of a text, one letter each, by the definition of Lark's indenter; `None` where it fails. `comments`
/// may be ignored, and be in newline terminals.
fn letters(text: &str, comments: bool) -> Option<String> {
    let comment = |rest: &str| comments && (rest.starts_with("#c") || rest.starts_with("# "));
    let (mut columns, mut level, mut found) = (vec![0], 0u32, String::new());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match first {
            '\n' => {
                let mut end = 0;
                while rest[end..].starts_with('\n') || comment(&rest[end..]) {
                    let is_comment = comment(&rest[end..]);
                    end += 1 + usize::from(is_comment);
                    if !is_comment {
                        end = rest.len() - rest[end..].trim_start_matches([' ', '\t']).len();
                    }
                }
                let line = rest[..end].rsplit('\n').next()?;
                let column = line.chars().map(|char| match char {
                    '\t' => TAB,
                    ' ' => 1,
                    _ => 0,
                });
                let column = column.sum();
                rest = &rest[end..];
                if level > 0 {
                    continue;
                }
                found.push('n');
                if column > *columns.last()? {
                    columns.push(column);
                    found.push('i');
                }
                while column < *columns.last()? {
                    columns.pop();
                    found.push('d');
                }
                if column != *columns.last()? {
                    return None;
                }
                continue;
            }
            ' ' => {}
            '#' if comment(rest) => {
                rest = &rest[2..];
                continue;
            }
            '(' => level += 1,
            ')' => level = level.checked_sub(1)?,
            'x' | 'y' => {}
            _ => return None,
        }
        if first != ' ' {
            found.push(first);
        }
        rest = &rest[1..];
    }
    found.extend(columns.iter().skip(1).map(|_| 'd'));
    Some(found)
}

/// A text with these terminals, if there is one.
fn spelled(letters: &str, comments: bool, choices: &mut impl Iterator<Item = u8>) -> String {
    let (mut columns, mut level, mut text) = (vec![0u32], 0, String::new());
    let letters: Vec<char> = letters.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        let choice = choices.next().unwrap_or(0);
        match letter {
            'n' => {
                let deeper = letters.get(at + 1) == Some(&'i');
                let ended = letters[at + 1..].iter().take_while(|letter| **letter == 'd').count();
                let last = *columns.last().unwrap();
                if deeper {
                    columns.push(last + 1 + u32::from(choice % 3));
                }
                columns.truncate((columns.len() - ended.min(columns.len())).max(1));
                let column = *columns.last().unwrap();
                if comments && choice.is_multiple_of(7) {
                    text.push_str("#c\n  # ");
                }
                text.push_str(if choice.is_multiple_of(5) { "\n \n" } else { "\n" });
                let tabs = if choice.is_multiple_of(2) { column / TAB } else { 0 };
                text.push_str(&"\t".repeat(tabs as usize));
                text.push_str(&" ".repeat((column - tabs * TAB) as usize));
            }
            'i' | 'd' => {}
            letter => {
                text.push(*letter);
                level += i32::from(*letter == '(') - i32::from(*letter == ')');
                if level > 0 && choice.is_multiple_of(3) {
                    text.push_str("\n ");
                }
            }
        }
    }
    text
}

fn vocabulary() -> Arc<Vocabulary> {
    let mut builder = Vocabulary::builder();
    for text in [
        "x", "y", "(", ")", "\n", " ", "\t", "\n ", "\n  ", "x\n", " \n", "\n x", "\n\tx", ")\n", "\n\n",
        "(\n)", "  ", "xy", "#", "c", "#c", " #", "#c\n", "\n# ", "yx",
    ] {
        builder.text(text.as_bytes());
    }
    Arc::new(builder.build().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: unskew_testdata::random_cases(100, 100),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The texts of a random grammar are those whose terminals, as Lark's indenter makes them, its rules derive.
    #[test]
    fn random_grammars_have_the_texts_of_larks_indenter(
        rules in prop::collection::vec(parts(), 3),
        comments in any::<bool>(),
        looks in any::<bool>(),
        choices in prop::collection::vec(any::<u8>(), 400),
    ) {
        let mut text = "start: r0\n".to_owned();
        for (at, rule) in rules.iter().enumerate() {
            write!(text, "r{at}: ").unwrap();
            rule.write(&mut text);
            text.push('\n');
        }
        let plain = format!("{text}_NEWLINE: \"n\"\n_INDENT: \"i\"\n_DEDENT: \"d\"\n");
        let newline = if comments { "(/\\n[ \\t]*/ | C)+\n%ignore C\nC: /#[c ]/" } else { "/(\\n[ \\t]*)+/" };
        let mut laid_out = format!("{text}_NEWLINE: {newline}\n%declare _INDENT _DEDENT\n%ignore / /\n");
        if looks {
            laid_out = laid_out.replace("\"x\"", "X") + "X: /x(?![y\\n])/\n";
        }
        let plain = Oracle::new(
            &from_lark(&plain, &GrammarOptions::default(), &GrammarLimits::default()).unwrap(),
            &Alphabet::all(),
        );
        let expected = |text: &str| {
            let is_fit = !looks || !(text.contains("xy") || text.contains("x\n"));
            is_fit && letters(text, comments).is_some_and(|letters| plain.accepts(&bytes(&letters)))
        };
        let grammar = match read(&laid_out) {
            Ok(grammar) => grammar,
            Err(GrammarError::Empty { .. }) => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(format!("{laid_out}{error}"))),
        };
        let oracle = Oracle::new(&grammar, &Alphabet::all());
        let mut choices = choices.into_iter();
        // Random texts.
        for _ in 0..15 {
            let pieces = ["x", "y", "(", ")", "\n", "\n ", "\n  ", " ", "\n\t", "x\n", "#c", "\n  # "];
            let len = choices.next().unwrap_or(0) % 7;
            let text: String = choices.by_ref().take(len.into()).map(|choice| pieces[usize::from(choice) % pieces.len()]).collect();
            prop_assert_eq!(oracle.accepts(&bytes(&text)), expected(&text), "{}{:?}", laid_out, text);
        }
        // Texts of the rules.
        for _ in 0..6 {
            let (mut chart, mut word) = (plain.chart(), String::new());
            for _ in 0..12 {
                let Some(choice) = choices.next() else { break };
                let nexts: Vec<char> = "xy()nid".chars().filter(|next| {
                    let mut longer = word.clone();
                    longer.push(*next);
                    plain.viable_len(&bytes(&longer)) == longer.len()
                }).collect();
                let Some(next) = usize::from(choice).checked_rem(nexts.len()).map(|at| nexts[at]) else { break };
                word.push(next);
                chart.push(&bytes(next.to_string())[0]);
                if chart.is_accepting() {
                    let text = spelled(&word, comments, &mut choices);
                    prop_assert_eq!(oracle.accepts(&bytes(&text)), expected(&text), "{}{:?}", laid_out, text);
                }
            }
        }
        // Masks along a text, and whether it may end there.
        let vocabulary = vocabulary();
        let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
        let constraint = match GrammarConstraint::new(&grammar, trie, &limits()) {
            Ok(constraint) => constraint,
            Err(GrammarError::Empty { .. }) => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(format!("{laid_out}{error}"))),
        };
        let oracle = Oracle::new(&grammar, &Alphabet::of(&vocabulary));
        let (mut scratch, mut state, mut chart) = (constraint.scratch(), constraint.start(), oracle.chart());
        let (mut text, mut mask) = (Vec::new(), TokenMask::new(constraint.vocab_len()));
        for choice in choices.by_ref().take(12) {
            constraint.fill_mask(&mut scratch, &state, mask.as_mut());
            let ids: Vec<_> = mask.ids().collect();
            prop_assert_eq!(&ids, &chart.mask(&vocabulary), "{}{}", laid_out, text.escape_ascii());
            let is_expected = expected(std::str::from_utf8(&text).unwrap());
            prop_assert_eq!(constraint.is_accepting(&state), is_expected, "{}{}", laid_out, text.escape_ascii());
            let Some(at) = usize::from(choice).checked_rem(ids.len()) else { break };
            prop_assert!(constraint.advance(&mut scratch, &mut state, ids[at]).is_ok());
            chart.push_token(&vocabulary, ids[at]);
            text.extend_from_slice(vocabulary.text(ids[at]).unwrap());
        }
    }
}
