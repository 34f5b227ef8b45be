//! Captures: their places in known outputs, and the first reading of random grammars by its definition, on all short
//! texts.

use std::{collections::HashMap, ops::Range, sync::Arc};

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use rand_core::Rng;
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_grammar::{Expr, ExprId, Grammar, GrammarLimits, Terminal};
use unskew_grammars::{CaptureError, GrammarConstraint};
use unskew_notation::{GrammarFormat, GrammarOptions};
use unskew_trie::TokenTrie;

/// All bytes, some longer tokens, and a control token.
fn trie() -> Arc<TokenTrie> {
    let mut builder = Vocabulary::builder();
    for byte in 0..=255u8 {
        builder.text(&[byte]);
    }
    for text in ["xy", "yx", "xx", "call ", "d(1", "1,2"] {
        builder.text(text.as_bytes());
    }
    builder.control("<|call|>");
    Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap())
}

fn parse(text: &str, format: GrammarFormat) -> Grammar {
    let made = unskew_notation::parse(text, format, &GrammarOptions::default(), &GrammarLimits::default());
    made.unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn constraint(grammar: &Grammar) -> GrammarConstraint {
    GrammarConstraint::new(grammar, trie(), &GrammarLimits::default()).unwrap()
}

fn bytes(text: &str) -> Vec<TokenId> {
    text.bytes().map(|byte| TokenId(u32::from(byte))).collect()
}

type Named = (String, Range<usize>);

fn found(constraint: &GrammarConstraint, text: &str) -> Result<Vec<Named>, CaptureError> {
    let captures = constraint.captures(&bytes(text))?;
    for capture in &captures {
        assert_eq!(capture.text, text.as_bytes()[capture.bytes.clone()], "{text}");
        assert_eq!(capture.tokens, capture.bytes, "a byte is a token");
    }
    Ok(captures.into_iter().map(|capture| (capture.name.to_string(), capture.bytes)).collect())
}

fn check(text: &str, format: GrammarFormat, output: &str, expected: &[(&str, Range<usize>)]) {
    let constraint = constraint(&parse(text, format));
    let expected: Vec<Named> =
        expected.iter().map(|(name, span)| ((*name).to_owned(), span.clone())).collect();
    assert_eq!(found(&constraint, output), Ok(expected), "{text}\n{output:?}");
}

#[test]
fn captures_have_names_and_places() {
    use GrammarFormat::{Lark, Xgrammar};
    check("start: a B\na[capture]: \"x\"*\nB[capture=\"b\"]: /y+/", Lark, "xxy", &[("a", 0..2), ("b", 2..3)]);
    check("start: a B\na[capture]: \"x\"*\nB[capture=\"b\"]: /y+/", Lark, "y", &[("a", 0..0), ("b", 0..1)]);
    // Nested ones: the outer first. A rule that recurs is reported each time.
    check(
        "start: list\nlist[capture]: \"(\" list* \")\"",
        Lark,
        "(()())",
        &[("list", 0..6), ("list", 1..3), ("list", 3..5)],
    );
    check(
        "root ::= a \"-\" b\na[capture=\"left\"] ::= [0-9]+\nb[capture] ::= \"z\"",
        Xgrammar,
        "12-z",
        &[("left", 0..2), ("b", 3..4)],
    );
    // Grammars inside, and a budget.
    check("start: %lark { start: v+\nv[capture]: /[xy]/ } \"!\"", Lark, "xy!", &[("v", 0..1), ("v", 1..2)]);
    check("start: t \"!\"\nt[capture, max_tokens=3]: /[xy]*/", Lark, "xyx!", &[("t", 0..3)]);
    // The end of a lazy rule, also where others compete with it.
    check("start: t /[a-z]*/\nt[capture, suffix=\"x\"]: /[a-z]*/", Lark, "abxcx", &[("t", 0..3)]);
    check("start: (t | /[a-z]/)* \"!\"\nt[capture, lazy]: /ab+c/", Lark, "xabbcx!", &[("t", 1..5)]);
    // A lazy terminal may stand in free text that comes first too. The rules as they are written read the text before
    // its end.
    let calls = "start: (text | call)*\ntext[capture]: /(.|\\n)/\nhead[lazy]: /[^z]*<c>/\ncall[capture]: head arg \"</c>\"\narg[capture]: /[0-9]+/";
    let places = [("call", 0..11), ("arg", 5..7), ("call", 11..19), ("arg", 14..15)];
    check(calls, Lark, "ab<c>12</c><c>3</c>", &places);
    check(
        "start: \"z\"* %lark { start: (t | /[a-z]/)*\nt[capture, lazy]: /ab+c/ } \"!\"",
        Lark,
        "zxabbcx!",
        &[("t", 2..6)],
    );
    // Look-around.
    check(
        "start: (K | w)+\nK[capture]: /x(?=y)/\nw[capture]: \"y\"",
        Lark,
        "xyy",
        &[("K", 0..1), ("w", 1..2), ("w", 2..3)],
    );
    let error =
        constraint(&parse("start: (K | \"x\" \"y\")+\nK[capture]: /x(?=z)/", Lark)).captures(&bytes("x"));
    assert_eq!(error, Err(CaptureError::Unfinished));
}

#[test]
fn the_first_reading_is_that_of_a_reader() {
    use GrammarFormat::Lark;
    // Parts are as long as the rest allows, from the left.
    let two = "start: a b\na[capture]: /x+/\nb[capture]: /x+/";
    check(two, Lark, "xxx", &[("a", 0..2), ("b", 2..3)]);
    // The first alternative counts, also if a later one has a longer part.
    let either = "start: a | b\na[capture]: \"x\" \"x\"\nb[capture]: \"xx\"";
    check(either, Lark, "xx", &[("a", 0..2)]);
    let optional = "start: a? b?\na[capture]: \"x\"\nb[capture]: \"x\"";
    check(optional, Lark, "x", &[("a", 0..1)]);
    // Rounds have a text.
    let rounds = "start: a*\na[capture]: \"x\"? \"x\"?";
    check(rounds, Lark, "xxx", &[("a", 0..2), ("a", 2..3)]);
    check(rounds, Lark, "", &[]);
    // Left recursion: the first part takes what it can.
    let sums = "start: e\ne[capture]: e \"+\" e | \"x\"";
    check(sums, Lark, "x+x+x", &[("e", 0..5), ("e", 0..3), ("e", 0..1), ("e", 2..3), ("e", 4..5)]);
}

#[test]
fn tokens_of_a_capture_have_a_byte_of_it() {
    let text = "start: \"call \" name <|call|>? \"(\" arg (\",\" arg)* \")\"\nname[capture]: /[a-z]+/\narg[capture]: /[0-9]+/";
    let constraint = constraint(&parse(text, GrammarFormat::Lark));
    let id = |text: &str| trie().vocabulary().text_tokens().find(|(_, of)| *of == text.as_bytes()).unwrap().0;
    let spelled: Vec<TokenId> =
        ["call ", "a", "d", "d(1", "1,2", "3", ")"].iter().map(|text| id(text)).collect();
    let captures = constraint.captures(&spelled).unwrap();
    let places: Vec<_> =
        captures.iter().map(|one| (&*one.name, one.bytes.clone(), one.tokens.clone())).collect();
    assert_eq!(places, [("name", 5..8, 1..4), ("arg", 9..11, 3..5), ("arg", 12..14, 4..6)]);
    // A control token has no bytes.
    let (control, _) =
        trie().vocabulary().control_tokens().next().map(|(id, name)| (id, name.into_owned())).unwrap();
    let mut with_control = vec![id("call "), id("a"), control];
    with_control.extend(bytes("(1)"));
    let captures = constraint.captures(&with_control).unwrap();
    let places: Vec<_> = captures.iter().map(|one| (one.bytes.clone(), one.tokens.clone())).collect();
    assert_eq!(places, [(5..6, 1..2), (7..8, 4..5)]);
}

#[test]
fn outputs_without_a_first_reading_are_errors() {
    let of = |text: &str| constraint(&parse(text, GrammarFormat::Lark));
    let plain = of("start: a\na[capture]: \"xy\"");
    assert_eq!(found(&plain, "x"), Err(CaptureError::Unfinished));
    assert_eq!(found(&plain, "xyx"), Err(CaptureError::Unfinished));
    assert!(plain.has_captures() && !of("start: \"x\"").has_captures());
    assert_eq!(found(&of("start: \"x\""), "x"), Ok(vec![]));
    let endless = of("start: s\ns[capture]: s s | \"x\"?");
    assert!(matches!(found(&endless, "xx"), Err(CaptureError::Endless { rule, .. }) if rule == "s"));
    let mut limits = GrammarLimits::default();
    limits.capture_items = 50;
    let grammar = parse("start: s\ns[capture]: s s | \"x\"", GrammarFormat::Lark);
    let costly = GrammarConstraint::new(&grammar, trie(), &limits).unwrap();
    let error = found(&costly, &"x".repeat(20)).unwrap_err();
    assert!(matches!(error, CaptureError::TooCostly { limit: 50, .. }), "{error}");
}

/// The first reading by its definition: all ways are tried, in order.
struct Oracle<'a> {
    grammar: &'a Grammar,
    text: &'a [u8],
    known: HashMap<(Part, usize, usize), bool>,
    /// The answers of the current pass, if there is one. A question that comes again during the pass has the answer
    /// "no", unless an earlier pass has answered it.
    pass: Option<HashMap<(Part, usize, usize), bool>>,
    has_more: bool,
}

/// An expression, or what is left of one: parts from an index on, or rounds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Whole(ExprId),
    From(ExprId, usize),
    /// The rounds that must come, and those that may (`None`: any number).
    Rounds(ExprId, u32, Option<u32>),
}

impl<'a> Oracle<'a> {
    fn new(grammar: &'a Grammar, text: &'a [u8]) -> Self {
        Self { grammar, text, known: HashMap::new(), pass: None, has_more: false }
    }

    /// Passes until nothing more is read: the least solution, also of rules that call themselves in front.
    fn reads(&mut self, part: Part, from: usize, to: usize) -> bool {
        if self.pass.is_some() {
            return self.visit(part, from, to);
        }
        loop {
            (self.pass, self.has_more) = (Some(HashMap::new()), false);
            let read = self.visit(part, from, to);
            let pass = self.pass.take().unwrap();
            if !self.has_more {
                self.known.extend(pass);
                return read;
            }
        }
    }

    fn visit(&mut self, part: Part, from: usize, to: usize) -> bool {
        let key = (part, from, to);
        if let Some(known) = self.known.get(&key).or_else(|| self.pass.as_ref().unwrap().get(&key)) {
            return *known;
        }
        self.pass.as_mut().unwrap().insert(key, false);
        let read = self.read(part, from, to);
        if read {
            self.known.insert(key, true);
            self.pass.as_mut().unwrap().remove(&key);
            self.has_more = true;
        }
        read
    }

    fn read(&mut self, part: Part, from: usize, to: usize) -> bool {
        match part {
            Part::Whole(expr) => match self.grammar.expr(expr) {
                Expr::Empty => from == to,
                Expr::Terminal(terminal) => match self.grammar.terminal(terminal) {
                    Terminal::Literal(text) => **text == self.text[from..to],
                    Terminal::Automaton(dfa) => dfa.accepts(&self.text[from..to]),
                    _ => unreachable!(),
                },
                Expr::Rule(rule) => self.reads(Part::Whole(self.grammar.body(rule)), from, to),
                Expr::Sequence(_) => self.reads(Part::From(expr, 0), from, to),
                Expr::Choice(parts) => {
                    parts.to_vec().iter().any(|part| self.reads(Part::Whole(*part), from, to))
                }
                Expr::Repeat { item, min, max } => {
                    self.reads(Part::Rounds(item, min, max.map(|max| max - min)), from, to)
                }
                _ => unreachable!(),
            },
            part => self.split(part, from, to).is_some(),
        }
    }

    /// The first part, the end of its text, and the rest, if the text is read.
    fn split(&mut self, part: Part, from: usize, to: usize) -> Option<Option<(ExprId, usize, Part)>> {
        let (item, rest, may_end, is_free) = match part {
            Part::From(expr, at) => {
                let Expr::Sequence(parts) = self.grammar.expr(expr) else { unreachable!() };
                if at == parts.len() {
                    return (from == to).then_some(None);
                }
                (parts[at], Part::From(expr, at + 1), false, false)
            }
            Part::Rounds(item, 0, Some(0)) => {
                let _ = item;
                return (from == to).then_some(None);
            }
            Part::Rounds(item, 0, Some(more)) => (item, Part::Rounds(item, 0, Some(more - 1)), true, false),
            Part::Rounds(item, 0, None) => (item, part, true, true),
            Part::Rounds(item, least, more) => (item, Part::Rounds(item, least - 1, more), false, false),
            Part::Whole(_) => unreachable!(),
        };
        let ends = if is_free { from + 1..=to } else { from..=to };
        for end in ends.rev() {
            if self.reads(Part::Whole(item), from, end) && self.reads(rest, end, to) {
                return Some(Some((item, end, rest)));
            }
        }
        (may_end && from == to).then_some(None)
    }

    fn captures(&mut self, part: Part, from: usize, to: usize, into: &mut Vec<Named>) {
        match part {
            Part::Whole(expr) => match self.grammar.expr(expr) {
                Expr::Empty | Expr::Terminal(_) => {}
                Expr::Rule(rule) => {
                    if let Some(name) = self.grammar.capture(rule) {
                        into.push((name.to_string(), from..to));
                    }
                    self.captures(Part::Whole(self.grammar.body(rule)), from, to, into);
                }
                Expr::Sequence(_) => self.captures(Part::From(expr, 0), from, to, into),
                Expr::Choice(parts) => {
                    let parts = parts.to_vec();
                    let first =
                        parts.into_iter().find(|part| self.reads(Part::Whole(*part), from, to)).unwrap();
                    self.captures(Part::Whole(first), from, to, into);
                }
                Expr::Repeat { item, min, max } => {
                    self.captures(Part::Rounds(item, min, max.map(|max| max - min)), from, to, into);
                }
                _ => unreachable!(),
            },
            part => {
                if let Some((item, end, rest)) = self.split(part, from, to).unwrap() {
                    self.captures(Part::Whole(item), from, end, into);
                    self.captures(rest, end, to, into);
                }
            }
        }
    }
}

fn body(random: &mut ChaCha8Rng, depth: u32) -> String {
    let mut below = |end: u64| random.next_u64() % end;
    let kind = if depth == 0 { below(5) } else { below(11) };
    match kind {
        0 => "\"x\"".to_owned(),
        1 => "\"y\"".to_owned(),
        2 => "/x*y?/".to_owned(),
        3 | 4 => ["a", "b", "C"][below(3) as usize].to_owned(),
        5 | 6 => format!("{} {}", body(random, depth - 1), body(random, depth - 1)),
        7 => format!("({} | {})", body(random, depth - 1), body(random, depth - 1)),
        8 => format!("({})?", body(random, depth - 1)),
        9 => format!("({}){}", body(random, depth - 1), ["*", "+"][(random.next_u64() % 2) as usize]),
        _ => format!(
            "({}){{{}}}",
            body(random, depth - 1),
            ["1,2", "0,2", "2", "1,3"][(random.next_u64() % 4) as usize]
        ),
    }
}

/// Compares `grammars` random grammars with the oracle; answers with how many texts had captures.
fn compare(seed: u64, grammars: usize) -> usize {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut texts = vec![String::new()];
    for at in 0.. {
        if texts[at].len() == 5 {
            break;
        }
        let text = texts[at].clone();
        texts.extend([format!("{text}x"), format!("{text}y")]);
    }
    let (mut compared, mut with_captures) = (0, 0);
    while compared < grammars {
        let text = format!(
            "start: {} | {}\na[capture]: {}\nb{}: {} | {}\nC[capture=\"c\"]: /x|yx?/",
            body(&mut random, 2),
            body(&mut random, 3),
            body(&mut random, 2),
            ["[capture]", ""][(random.next_u64() % 2) as usize],
            body(&mut random, 2),
            body(&mut random, 2),
        );
        let made = unskew_notation::parse(
            &text,
            GrammarFormat::Lark,
            &GrammarOptions::default(),
            &GrammarLimits::default(),
        );
        let Ok(grammar) = made else { continue };
        let Ok(constraint) = GrammarConstraint::new(&grammar, trie(), &GrammarLimits::default()) else {
            continue;
        };
        if matches!(constraint.captures(&[]), Err(CaptureError::Endless { .. })) {
            continue;
        }
        compared += 1;
        for output in &texts {
            let mut oracle = Oracle::new(&grammar, output.as_bytes());
            let start = Part::Whole(grammar.body(grammar.start()));
            let mut expected = Vec::new();
            let answer = found(&constraint, output);
            if !oracle.reads(start, 0, output.len()) {
                assert_eq!(answer, Err(CaptureError::Unfinished), "{text}\n{output:?}");
                continue;
            }
            oracle.captures(start, 0, output.len(), &mut expected);
            with_captures += usize::from(!expected.is_empty());
            assert_eq!(answer, Ok(expected), "{text}\n{output:?}");
        }
    }
    with_captures
}

/// `UNSKEW_CASES`: how many grammars.
#[test]
fn random_grammars_have_their_first_reading() {
    let cases = unskew_testdata::random_cases(300, 300) as usize;
    assert!(compare(1, cases) > 3 * cases);
}

/// Grammars with lazy terminals that compete, as `(text, rules without captures)`.
fn lazy_body(random: &mut ChaCha8Rng) -> String {
    let mut below = |end: u64| random.next_u64() % end;
    let head = ["/[xy]*x/", "/y+x/", "/x?y/", "\"yx\""][below(4) as usize];
    let text = ["/[xyz]/", "/[xy]z?/", "\"x\" | \"z\"", "/[xz]+/"][below(4) as usize];
    let tail = ["z", "\"y\" z", "z?", "\"z\"+"][below(4) as usize];
    let order = ["text | call", "call | text"][below(2) as usize];
    format!(
        "start: ({order})*\ntext@: {text}\nhead[lazy]: {head}\ncall@: head {tail}\nz@: \"z\" | \"x\" \"z\""
    )
}

/// Captures change no mask, the parts of a capture are in its own, and rules have the texts that are reported.
#[test]
fn captures_of_competing_lazy_terminals_are_readings() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let (mut grammars, mut with_captures) = (0, 0);
    while grammars < 60 {
        let text = lazy_body(&mut random);
        let read = |marked: &str| {
            let made = unskew_notation::parse(
                &text.replace('@', marked),
                GrammarFormat::Lark,
                &GrammarOptions::default(),
                &GrammarLimits::default(),
            );
            made.ok().map(|grammar| constraint(&grammar))
        };
        let (Some(plain), Some(marked)) = (read(""), read("[capture]")) else { continue };
        grammars += 1;
        let mut open = vec![(String::new(), plain.start(), marked.start())];
        let (mut of_plain, mut of_marked) = (plain.scratch(), marked.scratch());
        while let Some((output, plain_state, marked_state)) = open.pop() {
            let mut masks = [TokenMask::new(plain.vocab_len()), TokenMask::new(plain.vocab_len())];
            plain.fill_mask(&mut of_plain, &plain_state, masks[0].as_mut());
            marked.fill_mask(&mut of_marked, &marked_state, masks[1].as_mut());
            assert_eq!(masks[0], masks[1], "{text}\n{output:?}");
            assert_eq!(plain.is_accepting(&plain_state), marked.is_accepting(&marked_state));
            if marked.is_accepting(&marked_state) {
                let named = match found(&marked, &output) {
                    Err(CaptureError::Endless { .. }) => break,
                    named => named.unwrap_or_else(|error| panic!("{text}\n{output:?}: {error}")),
                };
                // The texts and calls are one after the other, and make up the whole.
                let mut end = 0;
                for (_, span) in named.iter().filter(|(name, _)| name != "z") {
                    assert_eq!(span.start, end, "{text}\n{output:?}\n{named:?}");
                    end = span.end;
                }
                assert_eq!(end, output.len(), "{text}\n{output:?}\n{named:?}");
                let calls: Vec<_> = named.iter().filter(|(name, _)| name == "call").collect();
                for (_, z) in named.iter().filter(|(name, _)| name == "z") {
                    assert!(calls.iter().any(|(_, call)| call.start <= z.start && z.end == call.end));
                }
                with_captures += calls.len();
            }
            if output.len() < 5 {
                for byte in ["x", "y", "z"] {
                    let (mut plain_state, mut marked_state) = (plain_state.clone(), marked_state.clone());
                    let token = bytes(byte)[0];
                    if plain.advance(&mut of_plain, &mut plain_state, token).is_ok() {
                        marked.advance(&mut of_marked, &mut marked_state, token).unwrap();
                        open.push((format!("{output}{byte}"), plain_state, marked_state));
                    }
                }
            }
        }
    }
    assert!(with_captures > 500, "{with_captures}");
}

/// A rule that may be empty, at a place where the reading that counts has no empty text.
#[test]
fn empty_rules_beside_lazy_terminals() {
    let text = r#"
start: ( f1 | f2 )* f_end
f_end: TEXT
f1: f1_hd ( f1_foo | f1_bar ) "</f>"
f1_hd[lazy]: TEXT "<f"
f1_foo[capture]: "=x>" /[a-z]+/
f1_bar[capture]: "=y>" /[A-Z]+/
f2: f2_hd f2_baz "</t>"
f2_hd[lazy]: TEXT "<t"
f2_baz[capture]: "=z>" /[0-9]+/
TEXT: /(\n|.)*/
"#;
    let constraint = constraint(&parse(text, GrammarFormat::Lark));
    let output = "Text<f=x>abc</f>and<t=z>12</t><f=y>AB</f>More";
    let spans = |from: &str| (output.find(from).unwrap(), output.find(from).unwrap() + from.len());
    for (output, expected) in [
        (output, vec![("f1_foo", spans("=x>abc")), ("f2_baz", spans("=z>12")), ("f1_bar", spans("=y>AB"))]),
        ("More", vec![]),
        ("", vec![]),
    ] {
        let expected: Vec<Named> =
            expected.into_iter().map(|(name, (from, to))| (name.to_owned(), from..to)).collect();
        assert_eq!(found(&constraint, output), Ok(expected), "{output:?}");
    }
}

#[test]
fn temperatures_are_those_of_the_rules_in_progress() {
    use GrammarFormat::{Lark, Xgrammar};
    let along = |text: &str, format: GrammarFormat, output: &str| -> Vec<Option<f64>> {
        let constraint = constraint(&parse(text, format));
        (0..=output.len()).map(|end| constraint.temperature(&bytes(&output[..end])).unwrap()).collect()
    };
    let (none, low, high) = (None, Some(0.5), Some(1.5));
    let nested = "start: \"a\" name (\"!\" | more)\nname[temperature=0.5]: /[a-z]{2}/\nmore[temperature=1.5]: \"?\" name \".\"";
    assert_eq!(along(nested, Lark, "axx?yy."), [none, low, low, high, low, low, high, none]);
    // The highest of those that may go on; a terminal has one too; a rule without one has that of the rule around it.
    let either = "start: X | y\nX[temperature=1.5]: /x+/\ny[temperature=0.5]: inner\ninner: \"xz\"";
    assert_eq!(along(either, Lark, "xx"), [high, high, high]);
    assert_eq!(along(either, Lark, "xz"), [high, high, none]);
    assert_eq!(
        along("root[temperature=0.5] ::= \"(\" root? \")\"", Xgrammar, "(())"),
        [low, low, low, low, none]
    );
    assert_eq!(along("start: \"x\"*", Lark, "x"), [none, none]);
    // There are no captures.
    assert!(!constraint(&parse(nested, Lark)).has_captures());
    assert_eq!(constraint(&parse(nested, Lark)).captures(&bytes("axx!")), Ok(vec![]));
    let competing = "start: (t | /[a-z]/)* \"!\"\nt[temperature=0.5, lazy]: /ab+c/";
    assert!(!constraint(&parse(competing, Lark)).has_captures());
    let error = constraint(&parse(competing, Lark)).temperature(&bytes("a"));
    assert!(matches!(error, Err(CaptureError::Unsupported { .. })), "{error:?}");
}
