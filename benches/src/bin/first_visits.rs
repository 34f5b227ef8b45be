//! First visits: what the mask of a state costs when nothing is cached, over a suite of regexes and random walks.
//!
//! A program and not a benchmark of criterion's: the question is the tail over many states, each timed once or a few
//! times, not the mean of one state timed a thousand times. `UNSKEW_DATA` names the folder with the tokenizers, as for
//! the benchmarks; `--check` compares every mask with a run of the automaton over each token; `--each` prints a line
//! for every regex.
#![allow(clippy::print_stdout, reason = "a program that reports")]

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use unskew_automata::{LazyRegexConstraint, Limits, RegexConstraint};
use unskew_core::{Constraint, TokenId, TokenMask, TokenTrie, Vocabulary};
use unskew_vocab::Tokenizer;

/// Realistic patterns; the list of a thousand words is added to them.
const SUITE: [(&str, &str); 43] = [
    ("email", r"[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}"),
    ("email_bounded", r"[a-z][a-z0-9.]{0,20}@[a-z]{2,10}(\.[a-z]{2,6}){1,2}"),
    ("iso_date", r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"),
    ("ascii_date", r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"),
    (
        "iso_datetime",
        r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)",
    ),
    ("uuid", r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    (
        "ipv4",
        r"((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])",
    ),
    (
        "url",
        r"https?://[a-zA-Z0-9.-]+(:[0-9]{1,5})?(/[a-zA-Z0-9._~%!$&'()*+,;=:@-]*)*(\?[a-zA-Z0-9._~%!$&'()*+,;=:@/?-]*)?(#[a-zA-Z0-9._~-]*)?",
    ),
    ("phone_us", r"(\([0-9]{3}\) |[0-9]{3}-)[0-9]{3}-[0-9]{4}"),
    ("phone_e164", r"\+[1-9]\d{1,14}"),
    (
        "semver",
        r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-((0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(\+([0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*))?",
    ),
    ("json_string", r#""([^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*""#),
    ("json_string_max100", r#""([^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}){0,100}""#),
    ("json_number", r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?"),
    ("hex_color", r"#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    ("base64", r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"),
    ("identifier", r"[a-zA-Z_][a-zA-Z0-9_]*"),
    ("snake_5_64", r"[a-z][a-z0-9_]{4,63}"),
    ("credit_card", r"\d{4}([ -]?)\d{4}[ -]?\d{4}[ -]?\d{4}"),
    ("money", r"[$€£]?[0-9]{1,3}(,[0-9]{3})*(\.[0-9]{2})?"),
    (
        "names",
        r"Alice|Bob|Charlie|Dorothea|Eleanor|Friedrich|Guadalupe|Henrietta|Ignatius|Joséphine|Müller|Nguyễn|Óscar|Władysław",
    ),
    ("abc_10_50", r"(a|b)*c{10,50}"),
    ("unicode_letters", r"\p{L}+"),
    ("unicode_words", r"\p{Lu}\p{Ll}+( \p{Lu}\p{Ll}+){0,5}"),
    ("any_sentence", r"[A-Z][^.!?\n]{0,200}[.!?]"),
    ("think_block", r#"<think>(.|\n){0,400}</think>\n\{"answer": "[^"]{1,50}"\}"#),
    ("kbit_ambig", r"(a|b)*a(a|b){12}"),
    ("record", r#"\{"name": "[A-Za-z ]{1,40}", "age": [0-9]{1,3}, "city": "[A-Za-z ]{1,40}"\}"#),
    ("text", r"(\p{L}+[ ,.])*\p{L}+\."),
    ("lower_1_40", r"[a-z ]{1,40}"),
    ("not_quote", r#""[^"]*""#),
    ("words_w", r"\w+( \w+)*"),
    ("w_200", r"\w{1,200}"),
    ("letters_200", r"\p{L}{1,200}"),
    ("dot_star", r".*"),
    ("dot_200", r".{1,200}"),
    ("lines", r"([^\n]{1,80}\n){1,3}"),
    ("keyword_or_name", r"(if|else|while|for|return|let|match|[a-z_][a-z0-9_]*)(\([a-z_, ]*\))?;"),
    ("contraction", r"[A-Za-z]+('s|'t|'re|'ve|'m|'ll|'d)?( [a-z]+('s|'t|'re|'ve|'m|'ll|'d)?)*\."),
    ("cyrillic", r"[а-яА-ЯёЁ ]{1,100}"),
    ("chinese", r"[\x{4e00}-\x{9fff}，。]{1,60}"),
    ("case_insensitive", r"(?i)(yes|no|maybe)[,.] [a-z ]{5,60}"),
    (
        "json_object",
        r#"\{"id": "[0-9a-f]{8}", "title": "([^"\\\x00-\x1f]|\\["\\/bfnrt])*", "tags": \[("[a-z-]{1,20}"(, "[a-z-]{1,20}")*)?\], "ok": (true|false)\}"#,
    ),
];

/// Numbers from a fixed seed (xorshift): the same walks on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }
}

fn words(random: &mut Random) -> String {
    let mut word = || -> String {
        let syllables = 2 + random.below(4);
        (0..syllables)
            .flat_map(|_| [b"bcdfghlmnprstvwz"[random.below(16)], b"aeiou"[random.below(5)]])
            .map(char::from)
            .collect()
    };
    (0..1000).map(|_| word()).collect::<Vec<_>>().join("|")
}

fn percentile(sorted: &[Duration], part: f64) -> f64 {
    let at = ((sorted.len() as f64 * part).ceil() as usize).clamp(1, sorted.len()) - 1;
    sorted[at].as_secs_f64() * 1e6
}

fn summary(times: &mut [Duration]) -> String {
    times.sort();
    let mean = times.iter().sum::<Duration>().as_secs_f64() * 1e6 / times.len() as f64;
    let [p50, p90, p99, p999, max] = [0.5, 0.9, 0.99, 0.999, 1.0].map(|part| percentile(times, part));
    format!(
        "n {:5} mean {mean:7.1} p50 {p50:7.1} p90 {p90:7.1} p99 {p99:7.1} p99.9 {p999:7.1} max {max:7.1} us",
        times.len()
    )
}

fn measure(name: &str, vocabulary: &Arc<Vocabulary>, check: bool, each: bool) {
    let begin = Instant::now();
    let trie = Arc::new(TokenTrie::new(vocabulary).expect("tokens of a usual length"));
    println!(
        "{name}: {} tokens, trie of {} nodes in {:.1} ms, {:.1} MB",
        vocabulary.len(),
        trie.len(),
        begin.elapsed().as_secs_f64() * 1e3,
        trie.memory_usage() as f64 / 1e6,
    );
    let mut random = Random(7);
    let thousand = words(&mut random);
    let list = format!("({thousand})(, ({thousand}))*");
    let somewhere = format!(".*({}).*", words(&mut random));
    let mut report = Report { check, each, ..Report::default() };
    let patterns = SUITE.into_iter().chain([
        ("words_1000", &thousand[..]),
        ("words_1000_list", &list[..]),
        ("words_somewhere", &somewhere[..]),
        ("last_but_20", "(a|b)*a(a|b){20}"),
    ]);
    for (name, pattern) in patterns {
        let begin = Instant::now();
        let limits = Limits { mask_cache_bytes: 0, ..Limits::default() };
        match RegexConstraint::new(pattern, Arc::clone(vocabulary), Arc::clone(&trie), &limits) {
            Ok(constraint) => report.walk(name, &constraint, begin, &mut random),
            Err(error) => {
                println!("  {name}: {error}");
                let begin = Instant::now();
                let constraint =
                    LazyRegexConstraint::new(pattern, Arc::clone(vocabulary), Arc::clone(&trie), &limits)
                        .expect("a regex that the vocabulary can spell");
                report.walk(name, &constraint, begin, &mut random);
            }
        }
    }
    println!("  compile             {}", summary(&mut report.compile));
    println!("  to the first mask   {}", summary(&mut report.first));
    println!("  first visits        {}", summary(&mut report.all));
    println!("  the same, again     {}", summary(&mut report.again));
}

/// Times over all regexes.
#[derive(Default)]
struct Report {
    check: bool,
    each: bool,
    compile: Vec<Duration>,
    first: Vec<Duration>,
    all: Vec<Duration>,
    /// The smallest of three: without the neighbours, and with warm caches.
    again: Vec<Duration>,
}

impl Report {
    fn walk<C: Constraint<State: Eq + std::hash::Hash>>(
        &mut self,
        name: &str,
        constraint: &C,
        begin: Instant,
        random: &mut Random,
    ) {
        let compiled = begin.elapsed();
        let mut scratch = constraint.scratch();
        let mut mask = TokenMask::new(constraint.vocab_len());
        constraint.fill_mask(&mut scratch, &constraint.start(), mask.as_mut());
        let first = begin.elapsed();

        let mut seen = std::collections::HashSet::new();
        let mut times = vec![];
        for _ in 0..40 {
            let mut state = constraint.start();
            for _ in 0..60 {
                let new = seen.insert(state.clone());
                let mut time = |scratch: &mut C::Scratch| {
                    let begin = Instant::now();
                    constraint.fill_mask(scratch, &state, mask.as_mut());
                    begin.elapsed()
                };
                let taken = time(&mut scratch);
                if new {
                    times.push(taken);
                    self.again.push(taken.min(time(&mut scratch)).min(time(&mut scratch)));
                    if self.check {
                        for id in (0..constraint.vocab_len()).map(TokenId::from_index) {
                            let allowed = constraint.allows(&mut scratch, &state, id);
                            assert_eq!(allowed, mask.contains(id), "{name}: token {id}");
                        }
                    }
                }
                let count = mask.count();
                if count == 0 {
                    break;
                }
                let token = mask.ids().nth(random.below(count)).expect("one of them");
                constraint.advance(&mut scratch, &mut state, token).expect("an allowed token");
            }
        }
        self.all.extend(&times);
        self.compile.push(compiled);
        self.first.push(first);
        if self.each {
            println!(
                "  {name:20} compile {:8.1} first {:7.1} | {}",
                compiled.as_secs_f64() * 1e6,
                (first - compiled).as_secs_f64() * 1e6,
                summary(&mut times)
            );
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    let data = std::env::var_os("UNSKEW_DATA").expect("UNSKEW_DATA names the folder with the tokenizers");
    for name in ["cl100k", "llama3"] {
        let file = Path::new(&data).join("tokenizers").join(name).join("tokenizer.json");
        let vocabulary = Tokenizer::from_file(file).expect("a tokenizer").vocabulary().clone();
        measure(name, &Arc::new(vocabulary), flag("--check"), flag("--each"));
    }
}
