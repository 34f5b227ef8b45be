//! Patterns with look-around and lazy repetitions, compared with an engine with backtracking that is written here
//! over a tree of its own and shares no code with the crate, and with `fancy-regex`.

use std::fmt;

use proptest::{prelude::*, sample::select};
use unskew_automata::{
    Dfa, Dialect, Limits, RegexError,
    dfa::{DfaAlgebra, InContext, Patterns, Reading},
};

#[derive(Clone, Debug)]
enum Tree {
    Char(&'static str),
    Concat(Vec<Tree>),
    Choice(Vec<Tree>),
    Repeat(Box<Tree>, u32, Option<u32>, bool),
    Look {
        ahead: bool,
        positive: bool,
        item: Box<Tree>,
    },
    Start,
    End,
    /// `\b` or `\B`.
    Word(bool),
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Char(class) => f.write_str(class),
            Self::Concat(parts) => parts.iter().try_for_each(|part| write!(f, "(?:{part})")),
            Self::Choice(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| format!("(?:{part})")).collect();
                write!(f, "(?:{})", parts.join("|"))
            }
            Self::Repeat(item, min, max, greedy) => {
                let max = max.map_or(String::new(), |max| max.to_string());
                write!(f, "(?:{item}){{{min},{max}}}{}", if *greedy { "" } else { "?" })
            }
            Self::Look { ahead, positive, item } => {
                let side = if *ahead { "" } else { "<" };
                write!(f, "(?{side}{}{item})", if *positive { "=" } else { "!" })
            }
            Self::Start => f.write_str("^"),
            Self::End => f.write_str("$"),
            Self::Word(true) => f.write_str(r"\b"),
            Self::Word(false) => f.write_str(r"\B"),
        }
    }
}

/// The whole text, and the end of what may be read.
struct Engine<'t> {
    text: &'t [char],
    end: usize,
}

impl Engine<'_> {
    /// Tries all ways to match `tree` at `at`, in the order of an engine with backtracking, until `then` accepts the
    /// end of one.
    fn run(&self, tree: &Tree, at: usize, then: &mut dyn FnMut(usize) -> bool) -> bool {
        match tree {
            Tree::Char(class) => {
                let matches = |char: char| match *class {
                    "." => char != '\n',
                    "[ab]" => char == 'a' || char == 'b',
                    "[^a]" => char != 'a',
                    own => own.starts_with(char),
                };
                at < self.end && matches(self.text[at]) && then(at + 1)
            }
            Tree::Concat(parts) => self.sequence(parts, at, then),
            Tree::Choice(parts) => parts.iter().any(|part| self.run(part, at, then)),
            Tree::Repeat(item, min, max, greedy) => self.repeat(item, *min, *max, *greedy, at, then),
            Tree::Look { ahead: true, positive, item } => {
                let all = Engine { text: self.text, end: self.text.len() };
                all.run(item, at, &mut |_| true) == *positive && then(at)
            }
            Tree::Look { ahead: false, positive, item } => {
                let all = Engine { text: self.text, end: self.text.len() };
                let found = (0..=at).any(|from| all.run(item, from, &mut |end| end == at));
                found == *positive && then(at)
            }
            Tree::Start => at == 0 && then(at),
            Tree::End => at == self.text.len() && then(at),
            Tree::Word(wanted) => {
                let word = |char: Option<&char>| char.is_some_and(|char| char.is_alphanumeric());
                let before = at.checked_sub(1).and_then(|before| self.text.get(before));
                (word(before) != word(self.text.get(at))) == *wanted && then(at)
            }
        }
    }

    fn sequence(&self, parts: &[Tree], at: usize, then: &mut dyn FnMut(usize) -> bool) -> bool {
        match parts {
            [] => then(at),
            [first, rest @ ..] => self.run(first, at, &mut |at| self.sequence(rest, at, then)),
        }
    }

    fn repeat(
        &self,
        item: &Tree,
        min: u32,
        max: Option<u32>,
        greedy: bool,
        at: usize,
        then: &mut dyn FnMut(usize) -> bool,
    ) -> bool {
        if min > 0 {
            let max = max.map(|max| max - 1);
            return self.run(item, at, &mut |next| self.repeat(item, min - 1, max, greedy, next, then));
        }
        if !greedy && then(at) {
            return true;
        }
        // After a round that reads nothing there is no other, as in Python.
        let more = max != Some(0)
            && self.run(item, at, &mut |next| match next > at {
                true => self.repeat(item, 0, max.map(|max| max - 1), greedy, next, then),
                false => then(next),
            });
        more || (greedy && then(at))
    }
}

/// Whether the pattern matches from `begin` to `end`.
fn matches(tree: &Tree, text: &[char], begin: usize, end: usize, reading: Reading) -> bool {
    let engine = Engine { text, end };
    let mut found = None;
    match reading {
        Reading::Any => engine.run(tree, begin, &mut |at| at == end),
        Reading::First => {
            engine.run(tree, begin, &mut |at| {
                found = Some(at);
                true
            }) && found == Some(end)
        }
    }
}

fn contexts(pattern: &str, reading: Reading) -> Result<Vec<InContext>, RegexError> {
    let limits = Limits::default();
    let mut patterns = Patterns::new(&limits);
    let pattern = patterns.pattern(pattern)?;
    DfaAlgebra::new(&limits).in_context(&patterns, pattern, reading)
}

fn accepts(found: &[InContext], [before, text, after]: [&str; 3]) -> bool {
    let allows = |dfa: &Option<std::sync::Arc<Dfa>>, text: &str| {
        dfa.as_ref().is_none_or(|dfa| dfa.accepts(text.as_bytes()))
    };
    found.iter().any(|one| {
        allows(&one.before, before) && one.text.accepts(text.as_bytes()) && allows(&one.after, after)
    })
}

/// All texts of up to `longest` of these characters.
fn texts(longest: usize) -> Vec<Vec<char>> {
    let mut all: Vec<Vec<char>> = vec![vec![]];
    let mut from = 0;
    for _ in 0..longest {
        let to = all.len();
        for index in from..to {
            for char in ['a', 'b', '-', 'é'] {
                let mut longer = all[index].clone();
                longer.push(char);
                all.push(longer);
            }
        }
        from = to;
    }
    all
}

/// Compares the contexts of a pattern with the engine, and the texts of the whole pattern.
fn compare(tree: &Tree, longest: usize) -> bool {
    let pattern = tree.to_string();
    for reading in [Reading::Any, Reading::First] {
        let found = match contexts(&pattern, reading) {
            Ok(found) => found,
            Err(RegexError::Unsupported { .. }) => return false,
            Err(error) => panic!("{pattern}: {error}"),
        };
        for text in texts(longest) {
            for begin in 0..=text.len() {
                for end in begin..=text.len() {
                    let parts = [&text[..begin], &text[begin..end], &text[end..]];
                    let parts = parts.map(|part| part.iter().collect::<String>());
                    let found = accepts(&found, [&parts[0], &parts[1], &parts[2]]);
                    let expected = matches(tree, &text, begin, end, reading);
                    assert_eq!(found, expected, "{pattern} {parts:?} {reading:?}");
                }
            }
        }
    }
    let whole = Dfa::from_pattern(&pattern, &Limits::default());
    for text in texts(longest) {
        let found = match &whole {
            Ok(dfa) => dfa.accepts(text.iter().collect::<String>().as_bytes()),
            Err(RegexError::MatchesNothing) => false,
            Err(error) => panic!("{pattern}: {error}"),
        };
        assert_eq!(found, matches(tree, &text, 0, text.len(), Reading::Any), "{pattern} {text:?}");
    }
    true
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        8 => select(vec!["a", "b", "-", "é", ".", "[ab]", "[^a]"]).prop_map(Tree::Char),
        1 => select(vec![Tree::Start, Tree::End, Tree::Word(true), Tree::Word(false)]),
    ];
    leaf.prop_recursive(4, 12, 3, |inner| {
        let counts =
            select(vec![(0, None), (1, None), (0, Some(1)), (2, Some(2)), (1, Some(3)), (0, Some(2))]);
        prop_oneof![
            4 => prop::collection::vec(inner.clone(), 2..4).prop_map(Tree::Concat),
            2 => prop::collection::vec(inner.clone(), 2..4).prop_map(Tree::Choice),
            3 => (inner.clone(), counts, any::<bool>())
                .prop_map(|(item, (min, max), greedy)| Tree::Repeat(item.into(), min, max, greedy)),
            2 => (inner, any::<bool>(), any::<bool>())
                .prop_map(|(item, ahead, positive)| Tree::Look { ahead, positive, item: item.into() }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: unskew_testdata::random_cases(250, 1_000),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_patterns_match_as_in_an_engine(tree in tree()) {
        compare(&tree, 3);
    }
}

#[test]
fn known_patterns_match_as_in_fancy_regex() {
    for pattern in [
        r#""a*?-"#,
        "a(?=b)",
        "a(?!b)",
        "(?<=a)b",
        "(?<!a)[ab]+",
        r"\ba+\b",
        r"(?:(?!ab)[ab-])+",
        r"a(?=.b)[ab]*(?!b)",
        r"(?<!-)a.*?(?<!a)(--)*?b",
        "^a|b$",
        "(?m)^a$",
        r"[ab]+?(?=-)",
        r"(?=a\b)[ab-]{1,3}",
        r"(?!.*(?<=b)-)[ab-]+",
        r"(?<=(?<!a)b)a",
    ] {
        let found = contexts(pattern, Reading::Any).unwrap();
        // By the number of characters after the match.
        let judges = (0..=4).map(|after| format!("\\G(?:{pattern})(?=.{{{after}}}\\z)"));
        let judges: Vec<_> = judges.map(|judge| fancy_regex::Regex::new(&judge).unwrap()).collect();
        for text in texts(4) {
            let text: String = text.iter().collect();
            for begin in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                for end in (begin..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                    let judge = &judges[text[end..].chars().count()];
                    let expected =
                        judge.find_from_pos(&text, begin).unwrap().is_some_and(|found| found.end() == end);
                    let parts = [&text[..begin], &text[begin..end], &text[end..]];
                    assert_eq!(accepts(&found, parts), expected, "{pattern} {parts:?}");
                }
            }
        }
    }
}

/// Terminals of Lark grammars match as far as Python's `re` does.
#[test]
fn patterns_of_known_grammars_end_where_python_ends() {
    let long_string = r#"(?is)([ubf]?r?|r[ubf])(""".*?(?<!\\)(\\\\)*?"""|'''.*?(?<!\\)(\\\\)*?''')"#;
    let string = r#"(?i)([ubf]?r?|r[ubf])("(?!"").*?(?<!\\)(\\\\)*?"|'(?!'').*?(?<!\\)(\\\\)*?')"#;
    for (pattern, texts, others) in [
        (r#"".*?""#, &[r#""""#, r#""a""#, r#""\""#][..], &[r#""a" + "b""#, "\"", "\"\n\""][..]),
        (r"/\*(.|\n)*?\*/", &["/**/", "/* \n * */", "/***/"], &["/*/", "/* */ */"]),
        (
            r#""(?:.*?)(?<!\\)(\\\\)*?""#,
            &[r#""""#, r#""a\"b""#, r#""\\""#],
            &[r#""\""#, r#""a"b""#, r#""\\"""#],
        ),
        (string, &[r#""a""#, r#"rb"\"""#, "''", r#"F"\\""#], &[r#""a"b""#, r#""""""#, r#""""a"""#]),
        (long_string, &[r#""""a"b""""#, r#"rb"""\"""""#, "''''''"], &[r#""""a""""""#, r#""""\""""#]),
        (r"(?:(?!\$\{)([^\x22\\]|\\.))+", &["a$b", r"\${"], &["a${b", "${"]),
        ("a+?", &["a"], &["aa", ""]),
        ("(a|ab)(c|bcd)(d*)?.??", &["ac", "abcd"], &["abcdd."]),
        (r"\/(?!\/)(\\\/|\\\\|[^\/])*?\/[imslux]*", &["/a/i", r"/\//"], &["//", "/a/i/", "//a/"]),
    ] {
        let found = contexts(pattern, Reading::First).unwrap();
        for text in texts {
            assert!(accepts(&found, ["x", text, ""]), "{pattern} {text}");
        }
        for text in others {
            assert!(!accepts(&found, ["x", text, ""]), "{pattern} {text}");
        }
    }
    // `""` is a string unless a third quote follows.
    let found = contexts(string, Reading::First).unwrap();
    assert!(accepts(&found, ["", r#""""#, " "]) && !accepts(&found, ["", r#""""#, "\""]));
}

#[test]
fn braces_are_characters_where_they_repeat_nothing() {
    let mut patterns = Patterns::new(&Limits::default());
    let pattern = patterns.pattern(Dialect::Python.pattern(r"(?!\${)[$a{]{1,3}|{|x{,2}")).unwrap();
    let dfa = DfaAlgebra::new(&Limits::default()).whole(&patterns, pattern).unwrap();
    for (text, accepted) in
        [("a${", true), ("${a", false), ("{", true), ("x{,2}", false), ("$$", true), ("xx", true)]
    {
        assert_eq!(dfa.accepts(text.as_bytes()), accepted, "{text}");
    }
    assert!(Patterns::new(&Limits::default()).pattern(r"\${").is_err());
}

#[test]
fn limits_and_refusals() {
    let error = |pattern: &str| contexts(pattern, Reading::Any).unwrap_err().to_string();
    assert_eq!(
        error("a(?<=b(?=c))"),
        "look-ahead, `$` or a word boundary inside look-behind is not supported, at line 1, column 7: put it next to the \
         look-behind"
    );
    assert!(error(r"(a)(?=b)\1").starts_with("a back-reference is not supported, at line 1, column 9"));
    assert!(
        error(r"(?P<a>b)(?=b)(?P=a)").starts_with("a back-reference is not supported, at line 1, column 16")
    );
    let few = Limits::default().dfa_states(40);
    let mut patterns = Patterns::new(&few);
    let pattern = patterns.pattern("(?=.*a.{10}b).*").unwrap();
    let error = DfaAlgebra::new(&few).in_context(&patterns, pattern, Reading::Any).unwrap_err();
    assert!(matches!(error, RegexError::TooManyDfaStates { limit: 40, .. }), "{error}");
    let few = Limits::default().dfa_steps(20_000);
    let mut patterns = Patterns::new(&few);
    let pattern = patterns.pattern("(?=.*a.{10}b).*").unwrap();
    let error = DfaAlgebra::new(&few).in_context(&patterns, pattern, Reading::Any).unwrap_err();
    assert!(matches!(error, RegexError::DfaTooCostly { .. }), "{error}");
    let few = Limits::default().nfa_size(1_000);
    let mut patterns = Patterns::new(&few);
    let pattern = patterns.pattern("(?:a(?!b){9}){900}{900}{900}").unwrap();
    let error = DfaAlgebra::new(&few).in_context(&patterns, pattern, Reading::Any).unwrap_err();
    assert!(matches!(error, RegexError::NfaTooLarge { limit: 1_000, .. }), "{error}");
}
