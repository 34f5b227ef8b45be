//! A service in small: threads that serve requests of strangers for minutes, over one tokenizer and one library.
//!
//! Half of the requests bring a constraint that nobody brought before: a schema, a grammar or a regex with names and
//! bounds of its own. The others bring one of a few hundred that come again. Some requests are wrong, and some are
//! cancelled while they compile. Each walks a random way through its constraint; one in sixteen compares every mask
//! with that of an engine which shares nothing. It measures memory, the time of masks in the first and the last
//! tenth, and masks that differ. The times of the engines that share nothing are measured too: they do not age, so
//! what changes in them is the machine's.
//!
//! Times go into buckets of 1.6 %, so that an hour of masks takes as much memory as a minute.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use serde::Serialize;
use unskew_automata::{AnyRegex, CanonicalConstraint, CanonicalIndex, Limits, TokenizerAutomaton, regex};
use unskew_core::{AnyConstraint, Cancel, Constraint, TokenId, TokenMask};
use unskew_grammar::{Grammar, GrammarLimits};
use unskew_grammars::{GrammarConstraint, TreeLibrary};
use unskew_notation::{GrammarOptions, from_lark};
use unskew_schema::{SchemaLimits, SchemaOptions};
use unskew_trie::TokenTrie;
use unskew_vocab::Tokenizer;

use crate::{clock::thread_time, options::seconds, process::memory_of};

/// How many constraints come again.
const KNOWN: u64 = 300;
/// The most tokens of a walk.
const STEPS: u64 = 40;

/// A service in small.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// How long
    #[arg(long, value_name = "M", default_value = "2", value_parser = minutes)]
    minutes: f64,
    /// How many threads serve
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    threads: u64,
    /// The limit of the shared library
    #[arg(long, value_name = "MB", default_value_t = 64)]
    library: usize,
    /// A tokenizer.json (default: the embedded one)
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// How often a line is printed
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    every: Duration,
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Times of masks are those of their thread on the processor: for a machine that does other things too
    #[arg(long)]
    cpu_time: bool,
    /// Write the result there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse::<f64>().map_err(|error| error.to_string())?;
    (minutes > 0.0 && minutes < 1e5).then_some(minutes).ok_or_else(|| "above 0 and below 100000".to_owned())
}

/// Times of masks, by their leading seven bits.
#[derive(Clone)]
struct Times {
    buckets: Vec<u64>,
    count: u64,
    most: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { buckets: vec![0; 64 * 64], count: 0, most: 0 }
    }
}

impl Times {
    fn add(&mut self, nanoseconds: u64) {
        let shift = (u64::BITS - nanoseconds.leading_zeros()).saturating_sub(7);
        // Below 128 each number has a bucket.
        let bucket = u64::from(shift) * 64 + (nanoseconds >> shift);
        self.buckets[bucket as usize] += 1;
        self.count += 1;
        self.most = self.most.max(nanoseconds);
    }

    fn merge(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, other)| *mine += other);
        self.count += other.count;
        self.most = self.most.max(other.most);
    }

    /// The least time that so large a share of all does not pass, in microseconds.
    fn quantile(&self, share: f64) -> f64 {
        let mut left = (self.count as f64 * share).ceil();
        for (bucket, count) in self.buckets.iter().enumerate() {
            left -= *count as f64;
            if left <= 0.0 && *count > 0 {
                let shift = (bucket / 64).saturating_sub(1);
                let leading = bucket - shift * 64;
                return ((leading as u64) << shift) as f64 / 1e3;
            }
        }
        self.most as f64 / 1e3
    }
}

/// The figures that are printed and written.
#[derive(Serialize)]
struct Outcome {
    requests: u64,
    distinct: u64,
    refused: u64,
    cancelled: u64,
    masks: u64,
    compared_masks: u64,
    different_masks: u64,
    cache_bytes: usize,
    cache_limit: usize,
    cache_evicted: u64,
    rss_mb_begin: f64,
    rss_mb_end: f64,
    p50_us_first_tenth: f64,
    p50_us_last_tenth: f64,
    p99_us_first_tenth: f64,
    p99_us_last_tenth: f64,
    fresh_p99_us_first_tenth: f64,
    fresh_p99_us_last_tenth: f64,
    max_us: f64,
}

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    distinct: AtomicU64,
    refused: AtomicU64,
    cancelled: AtomicU64,
    compared: AtomicU64,
    different: AtomicU64,
}

/// Shared by all threads.
struct Service {
    trie: Arc<TokenTrie>,
    library: Arc<TreeLibrary>,
    canonical: Option<Arc<CanonicalIndex>>,
    counts: Counts,
    /// By tenth of the time: those of the service, and those of engines that share nothing.
    times: Mutex<Vec<[Times; 2]>>,
    cpu_time: bool,
    begin: Instant,
    end: Instant,
}

/// The constraint of a request.
enum Request {
    Schema(String),
    Lark(String),
    Regex(String),
    Canonical(String),
}

/// Runs it, and fails if masks differ.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    match soak(options)?.different_masks {
        0 => Ok(()),
        different => Err(format!("{different} masks differ")),
    }
}

fn soak(options: &Options) -> Result<Outcome, String> {
    let tokenizer = match &options.tokenizer {
        Some(path) => Tokenizer::from_file(path).map_err(|error| error.to_string())?,
        None => Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes())
            .map_err(|error| error.to_string())?,
    };
    let vocabulary = tokenizer.vocabulary();
    let trie = Arc::new(TokenTrie::new(Arc::clone(vocabulary)).map_err(|error| error.to_string())?);
    let library = Arc::new(TreeLibrary::new(Arc::clone(&trie), options.library << 20));
    let automaton =
        tokenizer.tokenization().ok().and_then(|facts| TokenizerAutomaton::new(vocabulary, facts).ok());
    let canonical = automaton
        .and_then(|automaton| CanonicalIndex::new(Arc::new(automaton), Arc::clone(&trie)).ok().map(Arc::new));
    let begin = Instant::now();
    let service = Service {
        trie,
        library,
        canonical,
        counts: Counts::default(),
        times: Mutex::new(vec![Default::default(); 10]),
        cpu_time: options.cpu_time,
        begin,
        end: begin + Duration::from_secs_f64(options.minutes * 60.0),
    };
    let mut rss_begin = None;
    thread::scope(|scope| {
        for thread in 0..options.threads {
            let service = &service;
            scope.spawn(move || service.serve(options.seed, thread));
        }
        while Instant::now() < service.end {
            let left = service.end.saturating_duration_since(Instant::now());
            // The tables fill in the first tenth.
            let warm = (service.end - service.begin) / 10;
            let warm = warm.saturating_sub(service.begin.elapsed());
            let pause = if rss_begin.is_none() { options.every.min(warm) } else { options.every };
            thread::sleep(pause.min(left));
            if warm.is_zero() || service.tenth() > 0 {
                rss_begin.get_or_insert_with(resident);
            }
            service.print();
        }
    });
    let times = service.times.lock().unwrap_or_else(PoisonError::into_inner);
    let ([first, fresh_first], [last, fresh_last]) = (&times[0], &times[9]);
    let mut all = Times::default();
    times.iter().for_each(|[tenth, _]| all.merge(tenth));
    let (counts, cache) = (&service.counts, service.library.stats());
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let outcome = Outcome {
        requests: count(&counts.requests),
        distinct: count(&counts.distinct),
        refused: count(&counts.refused),
        cancelled: count(&counts.cancelled),
        masks: all.count,
        compared_masks: count(&counts.compared),
        different_masks: count(&counts.different),
        cache_bytes: cache.bytes,
        cache_limit: cache.limit,
        cache_evicted: cache.evicted,
        rss_mb_begin: rss_begin.unwrap_or_else(resident),
        rss_mb_end: resident(),
        p50_us_first_tenth: first.quantile(0.5),
        p50_us_last_tenth: last.quantile(0.5),
        p99_us_first_tenth: first.quantile(0.99),
        p99_us_last_tenth: last.quantile(0.99),
        fresh_p99_us_first_tenth: fresh_first.quantile(0.99),
        fresh_p99_us_last_tenth: fresh_last.quantile(0.99),
        max_us: all.most as f64 / 1e3,
    };
    let json = serde_json::to_string(&outcome).map_err(|error| error.to_string())?;
    println!("{json}");
    if let Some(path) = &options.json {
        fs::write(path, json + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(outcome)
}

fn resident() -> f64 {
    memory_of("self", "VmRSS:") as f64 / 1e6
}

impl Service {
    fn tenth(&self) -> usize {
        let share = self.begin.elapsed().as_secs_f64() / (self.end - self.begin).as_secs_f64();
        ((share * 10.0) as usize).min(9)
    }

    fn print(&self) {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let ([tenth, fresh], cache) = (&times[self.tenth()], self.library.stats());
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        println!(
            "{:6.0} s {:9} requests, {:6.1} MB resident, library {:5.1} of {:.0} MB, {} evicted; masks p50 {:.1} us, p99 {:.0}, p99.9 {:.0}, \
             max {:.0}; p99 of fresh engines {:.0}; {} of {} compared masks differ",
            self.begin.elapsed().as_secs_f64(),
            count(&self.counts.requests),
            resident(),
            cache.bytes as f64 / 1e6,
            cache.limit as f64 / 1e6,
            cache.evicted,
            tenth.quantile(0.5),
            tenth.quantile(0.99),
            tenth.quantile(0.999),
            tenth.most as f64 / 1e3,
            fresh.quantile(0.99),
            count(&self.counts.different),
            count(&self.counts.compared),
        );
    }

    /// In nanoseconds, for the time of a mask.
    fn now(&self) -> u64 {
        if self.cpu_time { thread_time() } else { self.begin.elapsed().as_nanos() as u64 }
    }

    fn serve(&self, seed: u64, thread: u64) {
        let mut random = ChaCha8Rng::seed_from_u64(seed << 8 | thread);
        let mut own: [Times; 2] = Default::default();
        let merge = |tenth: usize, own: &[Times; 2]| {
            let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            times[tenth].iter_mut().zip(own).for_each(|(all, own)| all.merge(own));
        };
        let mut tenth = 0;
        let mut served = 0u64;
        while Instant::now() < self.end {
            served += 1;
            let is_new = random.next_u32().is_multiple_of(2);
            let number = if is_new {
                self.counts.distinct.fetch_add(1, Ordering::Relaxed);
                KNOWN + served * 64 + thread
            } else {
                // A few of them come most of the time.
                u64::from(random.next_u32() % KNOWN as u32).min(u64::from(random.next_u32() % KNOWN as u32))
            };
            self.request(number, &mut random, &mut own);
            self.counts.requests.fetch_add(1, Ordering::Relaxed);
            let now = self.tenth();
            if now != tenth || served.is_multiple_of(64) {
                merge(tenth, &own);
                (own, tenth) = (Default::default(), now);
            }
        }
        merge(9, &own);
    }

    fn request(&self, number: u64, random: &mut ChaCha8Rng, times: &mut [Times; 2]) {
        let request = request(number);
        let cancel = Cancel::default();
        if random.next_u32().is_multiple_of(50) {
            cancel.cancel();
        }
        let Some(constraint) = self.compile(&request, &cancel, true) else {
            let count = if cancel.is_cancelled() { &self.counts.cancelled } else { &self.counts.refused };
            count.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let fresh =
            random.next_u32().is_multiple_of(16).then(|| self.compile(&request, &Cancel::default(), false));
        let mut fresh = fresh.flatten().map(|fresh| (fresh.scratch(), fresh.start(), fresh));
        let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
        let mut mask = TokenMask::new(constraint.vocab_len());
        let mut expected = TokenMask::new(constraint.vocab_len());
        for _ in 0..1 + u64::from(random.next_u32()) % STEPS {
            let begin = self.now();
            constraint.fill_mask(&mut scratch, &state, mask.as_mut());
            times[0].add(self.now() - begin);
            if let Some((scratch, state, fresh)) = &mut fresh {
                let begin = self.now();
                fresh.fill_mask(scratch, state, expected.as_mut());
                times[1].add(self.now() - begin);
                self.counts.compared.fetch_add(1, Ordering::Relaxed);
                if expected.as_ref().words() != mask.as_ref().words() {
                    self.counts.different.fetch_add(1, Ordering::Relaxed);
                }
            }
            let Some(token) = any_of(&mask, random) else { break };
            if constraint.advance(&mut scratch, &mut state, token).is_err() {
                self.counts.different.fetch_add(1, Ordering::Relaxed);
                break;
            }
            if let Some((scratch, state, fresh)) = &mut fresh
                && fresh.advance(scratch, state, token).is_err()
            {
                self.counts.different.fetch_add(1, Ordering::Relaxed);
                break;
            }
        }
    }

    /// The constraint of `request`, if it has one.
    fn compile(&self, request: &Request, cancel: &Cancel, shares: bool) -> Option<AnyConstraint> {
        let limits = Limits::default().cancel(cancel.clone());
        let mut grammars = GrammarLimits::default();
        grammars.regex.cancel = cancel.clone();
        let of_grammar = |grammar: &Grammar| {
            let made = if shares {
                GrammarConstraint::with_library(grammar, &self.library, &grammars)
            } else {
                GrammarConstraint::new(grammar, Arc::clone(&self.trie), &grammars)
            };
            made.ok().map(AnyConstraint::new)
        };
        match request {
            Request::Schema(text) => {
                let mut options = SchemaOptions::default();
                options.cancel = cancel.clone();
                of_grammar(&unskew_schema::grammar(text, &options, &SchemaLimits::default()).ok()?)
            }
            Request::Lark(text) => of_grammar(&from_lark(text, &GrammarOptions::default(), &grammars).ok()?),
            Request::Canonical(pattern) if self.canonical.is_some() => {
                let shared = self.canonical.as_ref()?;
                let index = if shares {
                    Arc::clone(shared)
                } else {
                    let trie = Arc::clone(&self.trie);
                    Arc::new(CanonicalIndex::new(Arc::clone(shared.automaton()), trie).ok()?)
                };
                CanonicalConstraint::new(pattern, &index, &limits).ok().map(AnyConstraint::new)
            }
            Request::Regex(pattern) | Request::Canonical(pattern) => {
                let made = regex(pattern, Arc::clone(&self.trie), &limits);
                made.ok().map(AnyRegex::into_any)
            }
        }
    }
}

/// A token of the mask.
fn any_of(mask: &TokenMask, random: &mut ChaCha8Rng) -> Option<TokenId> {
    let count = mask.as_ref().count();
    let index = random.next_u64().checked_rem(count as u64)?;
    mask.ids().nth(index as usize)
}

/// The request of this number: always the same one.
fn request(number: u64) -> Request {
    let mut random = ChaCha8Rng::seed_from_u64(number);
    let mut below = |limit: u32| random.next_u32() % limit;
    let name = |kind: &str| format!("{kind}_{number:x}");
    match below(10) {
        0..=5 => {
            let (most, fewest) = (1 + below(60), below(3));
            let kinds = [
                format!(r#"{{"type":"string","maxLength":{most},"minLength":{fewest}}}"#),
                format!(
                    r#"{{"type":"string","pattern":"^[A-Z]{{{}}}-[0-9]{{1,{}}}$"}}"#,
                    1 + below(4),
                    1 + below(6)
                ),
                format!(r#"{{"type":"integer","minimum":{},"maximum":{}}}"#, below(50), 50 + below(100_000)),
                r#"{"type":"number"}"#.to_owned(),
                format!(r#"{{"enum":["{}","{}",{most}]}}"#, name("red"), name("green")),
                format!(
                    r#"{{"type":"array","items":{{"type":"string"}},"minItems":{fewest},"maxItems":{}}}"#,
                    3 + below(9)
                ),
                format!(
                    r#"{{"type":"array","items":{{"type":"integer"}},"uniqueItems":true,"maxItems":{}}}"#,
                    3 + below(9)
                ),
                r#"{"type":"object","additionalProperties":{"type":"string"}}"#.to_owned(),
                r#"{"type":"string","format":"date-time"}"#.to_owned(),
                format!(r##"{{"$ref":"#/$defs/{}"}}"##, name("node")),
            ];
            let members: Vec<String> = (0..1 + below(6))
                .map(|member| {
                    format!(r#""{}":{}"#, name(&format!("field{member}")), kinds[below(10) as usize])
                })
                .collect();
            let required = if below(2) == 0 { name("field0") } else { name("missing") };
            let closed = below(3) == 0;
            let broken = if below(25) == 0 { r#","minimum":"three""# } else { "" };
            Request::Schema(format!(
                r##"{{"$defs":{{"{}":{{"type":"object","properties":{{"next":{{"$ref":"#"}},"{}":{{"type":"boolean"}}}}}}}},"type":"object","properties":{{{}}},"required":["{required}"],"additionalProperties":{}{broken}}}"##,
                name("node"),
                name("leaf"),
                members.join(","),
                !closed,
            ))
        }
        6..=7 => {
            let (open, close) = [("(", ")"), ("[", "]"), ("{", "}"), ("begin ", " end")][below(4) as usize];
            let broken = if below(25) == 0 { "missing_rule" } else { "item" };
            Request::Lark(format!(
                "start: item+\nitem: NAME | NUMBER | \"{open}\" {broken}* \"{close}\" | item \"+\" item\nNAME: /[a-{}][a-z_]*/\nNUMBER: /[0-9]{{1,{}}}/\nKEY: \"{}\"\n%ignore / /\n",
                char::from(b'b' + below(20) as u8),
                1 + below(9),
                name("key"),
            ))
        }
        8 => Request::Regex(match below(4) {
            0 => format!("({}|{})[0-9]{{1,{}}}", name("a"), name("b"), 1 + below(20)),
            1 => format!("(?s).{{0,{}}}{}.*", below(300), name("needle")),
            2 => format!("[a-f]{{{}}}(-[0-9a-f]{{4}}){{1,{}}}", 1 + below(9), 1 + below(9)),
            _ => format!("({}", name("open")),
        }),
        _ => Request::Canonical(format!("(Dear|Hello) {}, [a-z ]{{1,{}}}\\.", name("friend"), 1 + below(60))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_times() {
        let mut times = Times::default();
        (1..=10_000u64).for_each(|time| times.add(time * 1_000));
        for share in [0.1, 0.5, 0.9, 0.99, 0.999] {
            let (found, exact) = (times.quantile(share), share * 10_000.0);
            assert!((found / exact - 1.0).abs() < 0.02, "{share}: {found} and not {exact}");
        }
        assert_eq!((times.count, times.most), (10_000, 10_000_000));
    }

    #[test]
    fn a_service_of_a_second_answers_and_agrees() {
        let options = Options {
            minutes: 0.02,
            threads: 2,
            library: 1,
            tokenizer: None,
            every: Duration::from_secs(10),
            seed: 0,
            cpu_time: false,
            json: None,
        };
        let outcome = soak(&options).unwrap();
        assert_eq!(outcome.different_masks, 0);
        assert!(outcome.requests > 10 && outcome.masks > 50 && outcome.compared_masks > 0);
        assert!(outcome.cache_bytes <= outcome.cache_limit * 11 / 10);
    }
}
