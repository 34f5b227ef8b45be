//! Maximal munch on random small grammars against a slow oracle: every mask along short texts, and a
//! completion of each text. Also hand-written examples of the expected meaning.

use std::{collections::VecDeque, fmt::Write as _, sync::Arc};

use crate::common::{
    corpus,
    munch::{Cut, Munch},
    random::{self, LETTERS, vocabulary},
    vocabularies,
};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary, conformance};
use unskew_grammars::{
    Grammar, GrammarConstraint, GrammarError, GrammarLimits, GrammarOptions, GrammarState,
};
use unskew_trie::TokenTrie;

fn munched(grammar: &Grammar, vocabulary: &Arc<Vocabulary>) -> Result<GrammarConstraint, GrammarError> {
    let trie = Arc::new(TokenTrie::new(Arc::clone(vocabulary)).unwrap());
    GrammarConstraint::with_maximal_munch(grammar, trie, &GrammarLimits::default())
}

/// The allowed tokens, by the oracle.
fn allowed(cut: &Cut<'_>, vocabulary: &Vocabulary) -> Vec<TokenId> {
    let reads = |text: &[u8]| {
        let mut cut = cut.clone();
        text.iter().all(|byte| cut.push(*byte))
    };
    vocabulary.text_tokens().filter(|(_, text)| reads(text)).map(|(token, _)| token).collect()
}

/// Whether the text read so far is a prefix of a word; `None` if that is undecided after `steps` texts.
fn completable(cut: &Cut<'_>, steps: usize) -> Option<bool> {
    let mut open = VecDeque::from([cut.clone()]);
    for _ in 0..steps {
        let Some(cut) = open.pop_front() else { return Some(false) };
        if cut.is_accepting() {
            return Some(true);
        }
        for letter in LETTERS {
            let mut next = cut.clone();
            if next.push(letter) {
                open.push_back(next);
            }
        }
    }
    None
}

/// Counts over a number of grammars.
#[derive(Default, Debug)]
struct Seen {
    compiled: usize,
    refused: usize,
    /// Rejected grammars for which a text without a known completion was found.
    lost: usize,
    masks: usize,
    /// Texts for which it is undecided whether they can be completed.
    open: usize,
}

fn compare(
    constraint: &GrammarConstraint,
    munch: &Munch<'_>,
    vocabulary: &Vocabulary,
    seen: &mut Seen,
) -> Result<(), String> {
    // Used alternately, so that half of the states come from the other scratch.
    let mut scratches = [constraint.scratch(), constraint.scratch()];
    let mut texts: VecDeque<(Vec<TokenId>, GrammarState, Cut<'_>)> =
        VecDeque::from([(vec![], constraint.start(), munch.begin())]);
    for turn in 0..40 {
        let Some((tokens, state, cut)) = texts.pop_front() else { break };
        let scratch = &mut scratches[turn / 3 % 2];
        let fail = |what: String| Err(format!("behind {tokens:?}: {what}"));
        if constraint.is_accepting(&state) != cut.is_accepting() {
            return fail(format!("accepting: {}", cut.is_accepting()));
        }
        let mut mask = TokenMask::new(constraint.vocab_len());
        constraint.fill_mask(scratch, &state, mask.as_mut());
        let (found, expected) = (mask.ids().collect::<Vec<_>>(), allowed(&cut, vocabulary));
        if found != expected {
            return fail(format!("mask {found:?} and not {expected:?}"));
        }
        seen.masks += 1;
        match completable(&cut, 200).or_else(|| completable(&cut, 5_000)) {
            Some(true) => {}
            Some(false) => return fail("a dead end".to_owned()),
            None => seen.open += 1,
        }
        for token in expected {
            let (mut state, mut cut) = (state.clone(), cut.clone());
            constraint.advance(scratch, &mut state, token).map_err(|error| error.to_string())?;
            assert!(vocabulary.text(token).unwrap().iter().all(|byte| cut.push(*byte)));
            texts.push_back(([&tokens[..], &[token]].concat(), state, cut));
        }
    }
    Ok(())
}

/// Whether one of the first texts has no known completion.
fn seems_lost(munch: &Munch<'_>) -> bool {
    let mut open = VecDeque::from([munch.begin()]);
    for _ in 0..40 {
        let Some(cut) = open.pop_front() else { break };
        if completable(&cut, 300) != Some(true) {
            return true;
        }
        for letter in LETTERS {
            let mut next = cut.clone();
            if next.push(letter) {
                open.push_back(next);
            }
        }
    }
    false
}

/// The number of random cases; higher in release builds.
const CASES: usize = if cfg!(debug_assertions) { 200 } else { 20_000 };

#[test]
fn masks_are_those_of_the_oracle_and_no_text_is_a_dead_end() {
    let vocabulary = vocabulary();
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut seen = Seen::default();
    for case in 0..CASES {
        let shape = random::plain_grammar().new_tree(&mut runner).unwrap().current();
        let grammar = shape.build();
        let munch = Munch::new(&grammar);
        match munched(&grammar, &vocabulary) {
            Ok(constraint) => {
                seen.compiled += 1;
                compare(&constraint, &munch, &vocabulary, &mut seen)
                    .unwrap_or_else(|error| panic!("case {case}: {error}\n{shape}"));
                if case % 10 == 0 {
                    conformance::check_constraint(&constraint, 2)
                        .unwrap_or_else(|error| panic!("case {case}: {error}\n{shape}"));
                }
            }
            Err(GrammarError::Empty { .. }) => {}
            Err(GrammarError::MunchDeadEnd { .. }) => {
                seen.refused += 1;
                seen.lost += usize::from(seems_lost(&munch));
            }
            Err(error) => panic!("case {case}: {error}\n{shape}"),
        }
    }
    // Most random grammars are accepted. At least a third of the rejected ones have a text without a known
    // completion.
    assert!(seen.compiled > CASES / 2 && seen.refused > CASES / 30, "{seen:?}");
    assert!(seen.lost * 3 > seen.refused && seen.open * 100 < seen.masks, "{seen:?}");
}

/// A constraint over all bytes that reads texts byte by byte.
struct Language {
    constraint: GrammarConstraint,
}

impl Language {
    fn of_lark(text: &str) -> Result<Self, GrammarError> {
        let limits = GrammarLimits::default();
        let grammar = Grammar::from_lark(text, &GrammarOptions::default(), &limits).unwrap();
        Ok(Self { constraint: munched(&grammar, vocabularies::toy(&[]).trie.vocabulary())? })
    }

    /// The length of the longest prefix of `text` that the constraint allows, and whether `text` is a word.
    fn read(&self, text: &str) -> (usize, bool) {
        let vocabulary = Arc::clone(vocabularies::toy(&[]).trie.vocabulary());
        let (mut scratch, mut state) = (self.constraint.scratch(), self.constraint.start());
        for (at, byte) in text.bytes().enumerate() {
            let mut tokens = vocabulary.text_tokens();
            let (token, _) = tokens.find(|(_, text)| *text == [byte]).unwrap();
            if self.constraint.advance(&mut scratch, &mut state, token).is_err() {
                return (at, false);
            }
        }
        (text.len(), self.constraint.is_accepting(&state))
    }

    #[track_caller]
    fn expect(&self, accepted: &[&str], refused: &[(&str, usize)]) {
        for text in accepted {
            assert_eq!(self.read(text), (text.len(), true), "{text}");
        }
        for (text, len) in refused {
            assert_eq!(self.read(text), (*len, false), "{text}");
        }
    }
}

#[track_caller]
fn refusal(lark: &str) -> String {
    match Language::of_lark(lark) {
        Ok(_) => panic!("it compiles"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn nothing_is_taken_back() {
    // In `listed`, `list` would have to end before an `e` that continues `listen`.
    let language = Language::of_lark("start: (\"list\" | \"listen\") \"ed\"").unwrap();
    language.expect(&["listened"], &[("listed", 5), ("list", 4), ("listen", 6)]);
    let language = Language::of_lark("start: (\"list\" | \"listen\") (\"ed\" | \"s\")").unwrap();
    language.expect(&["lists", "listened", "listens"], &[("listed", 5)]);
}

#[test]
fn operators_that_begin_with_others() {
    let language = Language::of_lark(
        "start: NAME ((\"=\" | \"==\" | \"<\" | \"<<\" | \"<<=\") NAME)*\nNAME: /[a-z]+/\n%ignore \" \"",
    )
    .unwrap();
    language.expect(
        &["a=b", "a==b", "a = b", "a<<=b", "a<b<<c", "a< b"],
        &[("a===b", 3), ("a= =b", 3), ("a<=b", 2)],
    );
    // `=` always continues to `==`.
    let language = Language::of_lark("start: (\"=\" | \"==\") \"=\" | \"=\" \"=\"").unwrap();
    language.expect(&["==="], &[("==", 2), ("====", 3)]);
}

#[test]
fn names_and_keywords() {
    let why = refusal("start: NAME NAME\nNAME: /[a-z]+/");
    assert_eq!(
        why,
        "rule `start`: under maximal munch a text may have no completion after `NAME`, because the terminals that may follow (`NAME`) \
         may continue it, or a terminal that is read beside it: put a mark or white space between them, or do without maximal munch"
    );
    let language = Language::of_lark("start: NAME NAME\nNAME: /[a-z]+/\n%ignore \" \"").unwrap();
    language.expect(&["a b", "ab  c"], &[("ab", 2), ("a b c", 4)]);
    // A keyword is also a name. A name that begins with a keyword is not a keyword.
    let language =
        Language::of_lark("start: \"if\" NAME \":\" | NAME \"=\" NAME\nNAME: /[a-z]+/\n%ignore \" \"")
            .unwrap();
    language.expect(&["if x:", "if = x", "ifx = y", "i=f"], &[("ifx:", 3), ("if x =", 5)]);
    // A name may follow a keyword directly where no other name is allowed.
    let language = Language::of_lark("start: \"let\" NAME \";\"\nNAME: /[a-z]+/").unwrap();
    language.expect(&["letx;", "letlet;"], &[("let;", 3)]);
}

#[test]
fn what_ends_only_with_the_output() {
    let language = Language::of_lark("start: \"a\" TEXT?\nTEXT: /b+/").unwrap();
    language.expect(&["a", "abb"], &[("aba", 2)]);
    // An infinite list is no completion.
    let why = refusal("start: (NAME \",\")* NAME \"z\"\nNAME: /[a-z]+/");
    assert!(why.contains("rule `start`") && why.contains("(`\",\"`, `\"z\"`)"), "{why}");
}

#[test]
fn nested_comments() {
    let language = Language::of_lark(
        "start: (comment | WORD)*\ncomment: \"/*\" (comment | INNER | \"*\" | \"/\")* \"*/\"\n\
         WORD: /[a-z ]+/\nINNER: /[^*\\/]+/",
    )
    .unwrap();
    language.expect(
        &["a /* b */ c", "/* a /* b */ c */", "/***/", "/* a / b */", "/**//**/"],
        &[("/* a", 4), ("a */", 2), ("/* */ */", 6), ("/*/ ", 4)],
    );
}

#[test]
fn templates_in_strings_are_another_context() {
    // `TEXT` would swallow everything outside strings, where it is not allowed.
    let language = Language::of_lark(
        "start: expr\nexpr: atom (\"+\" atom)*\natom: NAME | string | \"{\" expr \"}\"\n\
         string: \"`\" (TEXT | \"${\" expr \"}\")* \"`\"\nNAME: /[a-z]+/\nTEXT: /[^`$]+/\n%ignore \" \"",
    )
    .unwrap();
    language.expect(&["a + `b + ${c + `d`} e` + {f}", "`}`", "{ a}+b"], &[("a + `${b c", 9), ("`$x", 2)]);
}

#[test]
fn control_tokens_end_a_terminal() {
    let controls = ["<|end|>".to_owned()];
    let subject = vocabularies::toy(&controls);
    let limits = GrammarLimits::default();
    let lark = "start: NAME <|end|> NAME\nNAME: /[a-z]+/";
    let grammar = Grammar::from_lark(lark, &GrammarOptions::default(), &limits).unwrap();
    let constraint = munched(&grammar, subject.trie.vocabulary()).unwrap();
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let token = |name: &str| match name {
        "<|end|>" => subject.trie.vocabulary().control_tokens().find(|(_, other)| *other == name).unwrap().0,
        name => subject.trie.vocabulary().text_tokens().find(|(_, text)| *text == name.as_bytes()).unwrap().0,
    };
    for name in ["list", "<|end|>", "int"] {
        assert!(!constraint.is_accepting(&state));
        constraint.advance(&mut scratch, &mut state, token(name)).unwrap();
    }
    assert!(constraint.is_accepting(&state));
    assert!(constraint.advance(&mut scratch, &mut state, token("<|end|>")).is_err());
}

#[test]
fn what_it_is_not_made_for_is_refused() {
    let limits = GrammarLimits::default();
    let mut builder = Grammar::builder(&limits);
    let start = builder.rule("start");
    let member = builder.rule("member");
    let text = builder.literal("a");
    builder.define(member, text);
    let call = builder.call(member);
    let body = builder.unordered([(call, true)], None, None, 0, None);
    builder.define(start, body);
    let grammar = builder.build(start).unwrap();
    let error = munched(&grammar, &vocabulary()).unwrap_err();
    assert!(matches!(error, GrammarError::NoMunch { .. }), "{error}");

    let mut limits = limits;
    limits.munch_steps = 1_000;
    let text = "start: (A | B | C)* \nA: /[a-z]{1,9}/\nB: /[a-m]{1,40}/\nC: /[a-g]{1,70}/";
    let grammar = Grammar::from_lark(text, &GrammarOptions::default(), &limits).unwrap();
    let trie = vocabularies::toy(&[]).trie;
    let error = GrammarConstraint::with_maximal_munch(&grammar, trie, &limits).unwrap_err();
    assert!(matches!(error, GrammarError::MunchTooCostly { limit: 1_000, .. }), "{error}");
}

/// Three thousand rules that may all be read beside each other.
#[test]
fn the_check_is_bounded() {
    let mut text = String::from("start: r0\n");
    for rule in 0..3_000 {
        writeln!(text, "r{rule}: \"a\" r{next} | r{next} \"a\" | \"b\"", next = (rule + 1) % 3_000).unwrap();
    }
    let limits = GrammarLimits::default();
    let grammar = Grammar::from_lark(&text, &GrammarOptions::default(), &limits).unwrap();
    let error = grammar.check_maximal_munch(&limits).unwrap_err();
    assert!(matches!(error, GrammarError::MunchTooCostly { .. }), "{error}");
}

/// The grammars of the corpus.
#[test]
fn ordinary_grammars_pass() {
    let mut refused = Vec::new();
    for case in corpus::cases() {
        let vocabulary = Arc::clone(vocabularies::toy(&case.controls).trie.vocabulary());
        match munched(&case.grammar, &vocabulary) {
            Ok(_) => {}
            Err(GrammarError::MunchDeadEnd { terminal, .. }) => refused.push((case.name, terminal)),
            Err(error) => panic!("{}: {error}", case.name),
        }
    }
    // The terminal is a run of letters. It never ends before `。`, whose first byte is also the first byte of letters.
    assert_eq!(refused, [("lexical: unicode-classes".to_owned(), "WORD".to_owned())]);
}
