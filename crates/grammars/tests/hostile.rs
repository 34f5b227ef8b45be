//! Hostile grammars: each is read or rejected within little time and memory.
//!
//! Memory is asserted in every build, and time in release builds. The time is processor time if the system
//! reports it, so that other work on the machine does not count.

#![allow(clippy::print_stderr, reason = "what was measured")]

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use GrammarFormat::{Abnf, Ebnf, Gbnf, Lark, Xgrammar};
use peak_alloc::PeakAlloc;
use unskew_automata::Dfa;
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_grammar::{Grammar, GrammarError, GrammarLimits};
use unskew_grammars::{GrammarConstraint, TreeLibrary};
use unskew_notation::{GrammarFormat, GrammarOptions};
use unskew_trie::TokenTrie;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Serialises the tests, because the peak of memory is measured for the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The processor time of this thread so far. On systems other than Linux, the elapsed time.
fn processor_time(begin: Instant) -> Duration {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = spent.and_then(|spent| spent.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| begin.elapsed(), Duration::from_nanos)
}

/// The grammar or its error, within the bounds on memory and time.
#[track_caller]
fn read(name: &str, format: GrammarFormat, text: &str) -> Result<Grammar, GrammarError> {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let start = Instant::now();
    let begin = processor_time(start);
    let grammar = unskew_notation::parse(text, format, &GrammarOptions::default(), &GrammarLimits::default());
    let time = processor_time(start) - begin;
    let bytes = ALLOCATOR.peak_usage() - before;
    let outcome = match &grammar {
        Ok(grammar) => format!("{} expressions", grammar.expressions()),
        Err(error) => error.to_string().chars().take(90).collect(),
    };
    eprintln!(
        "{name}: {:.1} MiB, {:.1} ms, {outcome}",
        bytes as f64 / f64::from(1 << 20),
        time.as_secs_f64() * 1e3
    );
    assert!(bytes < 64 << 20, "{name}: {bytes} bytes");
    assert!(cfg!(debug_assertions) || time < Duration::from_millis(400), "{name}: {time:?}");
    grammar
}

#[test]
fn deep_groups() {
    let _alone = alone();
    for depth in [60_000, 900_000] {
        let (open, close) = ("(".repeat(depth), ")".repeat(depth));
        for format in [Gbnf, Ebnf, Xgrammar] {
            read("groups", format, &format!("root ::= {open}\"a\"{close}")).unwrap();
            let starred = format!("root ::= {open}\"a\"{}", ")*".repeat(depth));
            assert_eq!(read("starred groups", format, &starred).is_ok(), depth == 60_000);
            read("open groups", format, &format!("root ::= {open}")).unwrap_err();
        }
        let twice = format!("a = {}%x61{close}", "2(".repeat(depth));
        assert_eq!(read("groups", Abnf, &twice).is_ok(), depth == 60_000);
        let squares = format!("a = {}%x61{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(read("squares", Abnf, &squares).is_ok(), depth == 60_000);
        read("open groups", Abnf, &format!("a = {open}")).unwrap_err();
        read("open look-ahead", Xgrammar, &format!("root ::= \"a\" (= {open}")).unwrap_err();
        read("groups", Lark, &format!("start: {open}\"a\"{close}")).unwrap();
        read("groups in a terminal", Lark, &format!("start: A\nA: {open}\"a\"{close}")).unwrap();
        let alternatives = format!("start: {}\"a\"{}", "(\"b\"|".repeat(depth), close);
        assert_eq!(read("alternatives in groups", Lark, &alternatives).is_ok(), depth == 60_000);
        let squares = format!("start: {}\"a\"{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(read("squares", Lark, &squares).is_ok(), depth == 60_000);
        let stars =
            read("starred terminal", Lark, &format!("start: A\nA: {open}\"a\"{}", ")*".repeat(depth)));
        let limit = if depth == 60_000 { "Limits::dfa_steps" } else { "GrammarLimits::nodes" };
        assert!(stars.unwrap_err().to_string().contains(limit));
        read("groups of a regex", Lark, &format!("start: /{open}a{close}/")).unwrap_err();
        read("negations", Lark, &format!("start: A\nA: {}\"a\"{close}", "~(".repeat(depth))).unwrap_err();
    }
    let deeper = "(".repeat(1_000_001);
    let error = read("too deep", Gbnf, &format!("root ::= {deeper}")).unwrap_err();
    assert!(error.to_string().contains("GrammarLimits::nest"), "{error}");
}

#[test]
fn huge_repetitions() {
    let _alone = alone();
    read("repetition", Gbnf, "root ::= ((\"a\"{0,100000}){0,100000}){0,100000}").unwrap();
    read("repetition", Lark, "start: (/a/{0,100000}){0,100000}").unwrap();
    read("repetition in a terminal", Lark, "start: A\nA: (/a/{0,100000}){0,100000}").unwrap_err();
    read("repetition of a text", Lark, "start: A\nA: \"ab\"{4000000000}").unwrap_err();
    read("repetition of nothing", Lark, "start: A\nA: \"\"{4000000000} \"a\"").unwrap();
    read("repetition in a regex", Lark, "start: /((a{0,100000}){0,100000}){0,100000}/").unwrap_err();
    read("bounded white space", Lark, "start: \"a\"\n%ignore /\\s{1,100}/").unwrap();
    read("more bounded white space", Lark, "start: \"a\"\n%ignore /\\s{1,1000}/").unwrap();
    read("most bounded white space", Lark, "start: \"a\"\n%ignore /\\s{1,100000}/").unwrap_err();
}

#[test]
fn chains_that_double() {
    let _alone = alone();
    // A0 is 2^60 letters. Each step builds one automaton from two.
    let mut chain = String::from("start: A0\n");
    (0..60).for_each(|at| chain += &format!("A{at}: A{0} A{0}\n", at + 1));
    read("doubling texts", Lark, &(chain.clone() + "A60: \"a\"")).unwrap_err();
    read("doubling automata", Lark, &(chain + "A60: /a/")).unwrap_err();
    let mut chain = String::from("root ::= a0\n");
    (0..60_000).for_each(|at| chain += &format!("a{at} ::= a{0} a{0}\n", at + 1));
    read("doubling rules", Gbnf, &(chain + "a60000 ::= \"a\"")).unwrap();
    let mut chain = String::from("start: A0\n");
    (0..100_000).for_each(|at| chain += &format!("A{at}: A{}\n", at + 1));
    read("a long chain of terminals", Lark, &(chain + "A100000: \"a\"")).unwrap();
}

#[test]
fn many_alternatives() {
    let _alone = alone();
    let words: Vec<String> = (0..100_000).map(|word| format!("\"w{word}\"")).collect();
    let words = words.join("|");
    read("words", Gbnf, &format!("root ::= {words}")).unwrap();
    read("words", Lark, &format!("start: {words}")).unwrap();
    read("words of a terminal", Lark, &format!("start: A\nA: {words}")).unwrap();
    let any_case = words.replace("\"|", "\"i|") + "i";
    read("words in any case", Lark, &format!("start: {any_case}")).unwrap_err();
    let classes: Vec<String> = (0..100_000).map(|at| format!("[a\\U{:08x}]", 0x1_0000 + at)).collect();
    read("classes", Gbnf, &format!("root ::= {}", classes.join("|"))).unwrap_err();
    let same = vec!["[a-z]"; 800_000].join("|");
    read("the same class", Gbnf, &format!("root ::= {same}")).unwrap_err();
}

#[test]
fn five_megabytes() {
    let _alone = alone();
    let words: Vec<String> = (0..500_000).map(|word| format!("\"w{word}\"")).collect();
    let words = words.join("|");
    let _ = read("five megabytes of words", Gbnf, &format!("root ::= {words}"));
    let _ = read("five megabytes of words in a terminal", Lark, &format!("start: A\nA: {words}"));
    let _ = read("five megabytes of a text", Lark, &format!("start: \"{}\"", "a".repeat(5_000_000)));
    let _ = read(
        "five megabytes of a terminal",
        Lark,
        &format!("start: A\nA: \"{}\" /b/", "a".repeat(5_000_000)),
    );
    let _ = read("five megabytes of a regex", Lark, &format!("start: /{}/", "a".repeat(5_000_000)));
    let _ = read("five megabytes of a class", Gbnf, &format!("root ::= [{}]", "a".repeat(5_000_000)));
    let _ = read("five megabytes of blanks", Ebnf, &format!("root ::= {}\"a\"", " ".repeat(5_000_000)));
    let _ = read("five megabytes of comments", Ebnf, &format!("root ::= {}\"a\"", "/**/".repeat(1_250_000)));
    let _ =
        read("five megabytes of empty alternatives", Gbnf, &format!("root ::= {}", "|".repeat(5_000_000)));
    let _ = read("five megabytes of names", Ebnf, &format!("root ::= {}", "a ".repeat(2_500_000)));
    let _ = read("five megabytes of repetitions", Gbnf, &format!("root ::= \"a\"{}", "*".repeat(5_000_000)));
    let _ = read("five megabytes of dashes", Ebnf, &format!("root ::= a{}", "-".repeat(5_000_000)));
    let _ =
        read("five megabytes of differences", Ebnf, &format!("root ::= [a-z]{}", "-'a'".repeat(1_250_000)));
    let _ = read("five megabytes of numbers", Ebnf, &format!("root ::= {}", "[1] ".repeat(1_250_000)));
    let _ = read("five megabytes of lines", Ebnf, &format!("root ::= {}", "[1]\n".repeat(1_250_000)));
    let _ =
        read("five megabytes of continued lines", Lark, &format!("start: {}\"a\"", "\\\n".repeat(2_500_000)));
    let _ = read("five megabytes of a name", Lark, &format!("start: {}", "a".repeat(5_000_000)));
    let _ = read("five megabytes of priorities", Lark, &format!("start.{}: \"a\"", "1".repeat(5_000_000)));
    let rules: String = (0..300_000).map(|rule| format!("r{rule} ::= r\n")).collect();
    let _ = read("rules that use what is not defined", Gbnf, &format!("root ::= \"a\"\n{rules}"));
    let rules: String = (0..300_000).map(|rule| format!("r{rule} ::= root ")).collect();
    let _ = read("rules on one line", Ebnf, &format!("root ::= \"a\"\n{rules}"));
    let imports = "%import common.INT\n".repeat(250_000);
    let _ = read("imports", Lark, &format!("start: INT\n{imports}"));
    let ignored: String = (0..250_000).map(|at| format!("%ignore /a{at}/\n")).collect();
    let _ = read("ignored terminals", Lark, &format!("start: \"a\"\n{ignored}"));
    let extended = "%extend start: \"a\"\n".repeat(250_000);
    let _ = read("extensions", Lark, &format!("start: \"a\"\n{extended}"));
    let notes = "start: \"a\"\n".to_owned() + &"   | \"b\" -> c\n".repeat(350_000);
    let _ = read("aliases", Lark, &notes);
    let names: String = (0..60_000).map(|name| format!("(?P<n{name}>)")).collect();
    let _ = read("names in a regex", Lark, &format!("start: /{names}/"));
    let too_long = "#".repeat((8 << 20) + 1);
    read("too long", Gbnf, &too_long).unwrap_err();
}

#[test]
fn five_megabytes_of_xgrammar() {
    let _alone = alone();
    let read = |name: &str, text: &str| _ = read(name, Xgrammar, text);
    let rooted = |item: &str, count: usize| format!("root ::= {}\"a\"", item.repeat(count));
    read("five megabytes of names", &rooted("a ", 2_500_000));
    read("five megabytes of brackets", &rooted("a[", 2_500_000));
    read("five megabytes of options", &rooted("a[lazy] ", 600_000));
    read("five megabytes of quotes in brackets", &rooted("a[\"]", 1_250_000));
    read("five megabytes of an option", &format!("root[{}] ::= \"a\"", "a,".repeat(2_500_000)));
    read("five megabytes of a name", &format!("root ::= {}", "a-".repeat(2_500_000)));
    read("five megabytes of empty groups", &rooted("()", 2_500_000));
    read("five megabytes of look-ahead", &format!("root ::= \"a\" (= {})", "a ".repeat(2_500_000)));
    read("five megabytes of escapes", &format!("root ::= \"{}\"", "\\x000".repeat(1_000_000)));
    read("five megabytes of a regex", &format!("root ::= Regex(\"{}\")", "a".repeat(5_000_000)));
    read("five megabytes of classes", &format!("root ::= Regex(\"{}\")", "[a]".repeat(1_600_000)));
    read("five megabytes of any characters", &format!("root ::= Regex(\"{}\")", ".".repeat(5_000_000)));
    read("five megabytes of a class", &format!("root ::= Regex(\"[{}]\")", "a-z".repeat(1_600_000)));
    read("five megabytes of groups", &format!("root ::= Regex(\"{}\")", "(".repeat(5_000_000)));
    read("five megabytes of regexes", &rooted("Regex(\"a\")", 450_000));
    read("five megabytes of arguments", &format!("root ::= Token({}1)", "1,".repeat(2_500_000)));
    read("five megabytes of named arguments", &format!("root ::= Regex({}1)", "flags=1,".repeat(600_000)));
    read("five megabytes of chunks", &format!("root ::= Substring({}\"\")", "\"a\",".repeat(1_250_000)));
    read("five megabytes of a tuple", &format!("root ::= TagDispatch(({}))", "1,".repeat(2_500_000)));
    let triggers: String = (0..300_000).map(|at| format!("(\"t{at}\",r),")).collect();
    read("five megabytes of triggers", &format!("root ::= TagDispatch({triggers} excludes=())"));
    let triggers: String = (0..60_000).map(|at| format!("(\"t{at}\",root),")).collect();
    read("a megabyte of triggers", &format!("root ::= TagDispatch({triggers} excludes=())"));
    let triggers: String = (0..200).map(|at| format!("(\"<tool_{at:03}>\",root),")).collect();
    read("two hundred triggers", &format!("root ::= TagDispatch({triggers} excludes=(\"</end>\"))"));
    let same: String = "(\"t\",root),".repeat(400_000);
    read("five megabytes of a trigger", &format!("root ::= TagDispatch({same} excludes=())"));
    let triggers: String = (0..300_000).map(|at| format!("({at},root),")).collect();
    read("five megabytes of tokens", &format!("root ::= TokenTagDispatch({triggers} excludes=())"));
    let rules: String = (0..200_000).map(|at| format!("r{at} ::= r{at} \"a\" | \"b\"\n")).collect();
    read("five megabytes of recursive rules", &format!("root[lazy] ::= \"a\"\n{rules}"));
    read("a limit on a limit", "root[max_chars=4000000000] ::= (\"ab\")*");
    read("a limit", "root[max_chars=60000] ::= (\"ab\" | \"c\")*");
}

#[test]
fn five_megabytes_of_abnf() {
    let _alone = alone();
    let read = |name: &str, text: &str| _ = read(name, Abnf, text);
    read("five megabytes of names", &format!("a = {}", "a ".repeat(2_500_000)));
    read("five megabytes of numbers", &format!("a = {}", "%x1 ".repeat(1_250_000)));
    read("five megabytes of a number", &format!("a = %x1{}", ".1".repeat(2_500_000)));
    read("five megabytes of digits", &format!("a = %x{}", "1".repeat(5_000_000)));
    read("five megabytes of a text", &format!("a = \"{}\"", "a".repeat(5_000_000)));
    read("five megabytes of texts", &format!("a = {}", "\"a\" ".repeat(1_250_000)));
    read("five megabytes of repetitions", &format!("a = {}%x1", "1*".repeat(2_500_000)));
    read("five megabytes of blanks", &format!("a ={}%x1", " ".repeat(5_000_000)));
    read("five megabytes of comments", &format!("a =\n{} %x1", ";\n".repeat(2_500_000)));
    read("five megabytes of words", &format!("a = <{}", "a".repeat(5_000_000)));
    read("five megabytes of alternatives", &format!("a = %x1\n{}", "a=/%x1\n".repeat(700_000)));
    let rules: String = (0..300_000).map(|at| format!("r{at} = r\n")).collect();
    read("rules that use what is not defined", &rules);
    let rules: String = (0..300_000).map(|at| format!("r{at} = DIGIT\n")).collect();
    read("core rules", &rules);
}

#[test]
fn empty_loops() {
    let _alone = alone();
    read("a rule that is itself", Gbnf, "root ::= root").unwrap();
    read("loops of nothing", Gbnf, "root ::= (((\"\")*)*)+ root?").unwrap();
    read("a terminal of nothing", Lark, "start: A*\nA: (\"\"*)*").unwrap();
    read("ignored nothing", Lark, "start: \"a\"*\n%ignore /a*/").unwrap();
    // 2^20 states of a subset construction.
    read("an explosion", Lark, "start: A\nA: (/a/ | /b/)* \"a\" (/a/ | /b/){19}").unwrap_err();
    read("an explosion by differences", Ebnf, "a ::= [a-z]* - ([a-z]* 'a' [a-z]{24})").unwrap_err();
}

/// The number of ways to cut a token of n letters into pieces of one and two letters is the n-th Fibonacci number.
#[test]
fn tokens_with_many_ways_to_be_cut() {
    let _alone = alone();
    let mut vocabulary = Vocabulary::builder();
    (0..=255u8).for_each(|byte| {
        vocabulary.text(&[byte]);
    });
    let long = vocabulary.text("ab".repeat(60).as_bytes());
    let broken = vocabulary.text(format!("{}c", "ab".repeat(60)).as_bytes());
    let trie = Arc::new(TokenTrie::new(vocabulary.build().unwrap()).unwrap());
    let library = Arc::new(TreeLibrary::new(trie, 64 << 20));
    let limits = GrammarLimits::default();
    for text in [
        "root ::= ([ab] | [ab] [ab])*",
        "root ::= one*\none ::= [ab] two | [ba] one\ntwo ::= [ab] one | \"a\"",
        "root ::= (\"a\" | \"b\" | \"ab\" | \"aba\" | [ab])*",
    ] {
        let grammar = read("many cuts", Gbnf, text).unwrap();
        let constraint = GrammarConstraint::with_library(&grammar, &library, &limits).unwrap();
        let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
        let begin = processor_time(Instant::now());
        for _ in 0..3 {
            let mut mask = TokenMask::new(constraint.vocab_len());
            constraint.fill_mask(&mut scratch, &state, mask.as_mut());
            for token in (0..constraint.vocab_len()).map(TokenId::from_index) {
                assert_eq!(
                    mask.contains(token),
                    constraint.allows(&mut scratch, &state, token),
                    "{text} {token:?}"
                );
            }
            assert!(!mask.contains(broken), "{text}");
            let next = if mask.contains(long) { long } else { TokenId(u32::from(b'a')) };
            constraint.advance(&mut scratch, &mut state, next).unwrap();
        }
        let time = processor_time(Instant::now()) - begin;
        assert!(cfg!(debug_assertions) || time < Duration::from_millis(400), "{text}: {time:?}");
    }
}

/// A state shares the read part of a distinct text with earlier states.
#[test]
fn a_long_text_is_not_spelled_out_at_each_token() {
    let _alone = alone();
    let mut vocabulary = Vocabulary::builder();
    (0..=255u8).for_each(|byte| {
        vocabulary.text(&[byte]);
    });
    let trie = Arc::new(TokenTrie::new(vocabulary.build().unwrap()).unwrap());
    let limits = GrammarLimits::default();
    let mut builder = Grammar::builder(&limits);
    let dfa = Arc::new(Dfa::from_pattern("[a-z]*;", &limits.regex).unwrap());
    let text = builder.distinct("text", &dfa, [""; 0], None).unwrap();
    let body = builder.repeat(text, 0, None);
    let list = builder.rule("list");
    builder.define(list, body);
    let grammar = builder.build(list).unwrap();
    let constraint = GrammarConstraint::new(&grammar, trie, &limits).unwrap();
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    for byte in "long".repeat(10_000).bytes() {
        constraint.advance(&mut scratch, &mut state, TokenId(u32::from(byte))).unwrap();
    }
    let bytes = ALLOCATOR.peak_usage() - before;
    // Copies at each eighth token would take 100 MB.
    assert!(bytes < 32 << 20, "{bytes} bytes");
    let other = &mut constraint.scratch();
    constraint.advance(other, &mut state, TokenId(u32::from(b';'))).unwrap();
    assert!(constraint.is_accepting(&state));
}
