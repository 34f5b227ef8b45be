//! The library: a model, a constraint and outputs, without the command line.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use unskew::{
    Draft, Draws, Error, Event, METHODS, Method, Model, Spec, TokenSpace, Truncate,
    automata::RegexConstraint,
    core::{
        Cancel, Constraint, Finish, FnModel, MaskMut, Origin, OutputEnd, Rejected, TableModel, TokenId,
        Vocabulary,
    },
    engine::Compiler,
};

use crate::support::{Files, TABLE};

/// An error of a part of the engine, by its kind.
macro_rules! assert_engine {
    ($result:expr, $kind:ident $($rest:tt)*) => {
        let error = $result.unwrap_err();
        let is_of = |error: &Error| {
            matches!(error, Error::Engine(error) if matches!(**error, unskew::engine::Error::$kind $($rest)*))
        };
        assert!(is_of(&error), "{error:?}");
    };
}

const PATTERN: &str = "(00000|1[01]{4}|0[01]{0,2})";

/// The table as a model of one's own.
fn model() -> Model {
    let table = TableModel::from_json(TABLE).unwrap();
    let tokens = TokenSpace::from_vocabulary(Arc::clone(table.vocabulary()));
    Model::new(table, tokens).unwrap()
}

fn texts(draws: Draws) -> Vec<String> {
    draws.map(|output| output.unwrap().text).collect()
}

#[test]
fn a_dozen_lines_are_the_command() {
    let model = Model::open("tiny").unwrap();
    let spec = Spec::regex("[A-Z][a-z]{2,8}").canonical();
    let draws = model.prompt("My name is ").constrain(spec).unwrap().seed(4).sample("cars").unwrap();
    let args =
        ["generate", "--prompt", "My name is ", "--regex", "[A-Z][a-z]{2,8}", "--canonical", "--seed", "4"];
    let files = Files::new(&[]);
    let lines =
        files.run(&[&args[..], &["--sampler", "cars", "-n", "5", "--format", "jsonl"]].concat()).json();
    for (output, line) in draws.take(5).zip(&lines) {
        let output = output.unwrap();
        assert_eq!(output.text, line["text"].as_str().unwrap());
        assert!((output.log_prob - line["logprob"].as_f64().unwrap()).abs() < 1e-9);
        let ids: Vec<_> = output.ids.iter().map(|id| u64::from(id.0)).collect();
        assert_eq!(serde_json::json!(ids), line["ids"]);
    }
}

/// Requests over the same tokens share what is compiled, also of two models.
#[test]
fn a_constraint_is_compiled_once() {
    let table = TableModel::from_json(TABLE).unwrap();
    let tokens = Arc::new(TokenSpace::from_vocabulary(Arc::clone(table.vocabulary())));
    let [one, other] = [0, 1].map(|_| Model::new(table.clone(), Arc::clone(&tokens)).unwrap());
    let spec = Spec::regex(PATTERN);
    for model in [&one, &other, &one] {
        let draws = model.prompt("").constrain(spec.clone()).unwrap().seed(2).sample("masked").unwrap();
        assert_eq!(draws.take(3).count(), 3);
    }
    assert!(one.compile(&spec).unwrap().is_same(&other.compile(&spec).unwrap()));
    let stats = Compiler::shared(&tokens).stats();
    assert_eq!((stats.misses, stats.hits, stats.entries), (1, 4, 1));
    // An error is shared too, and is of its kind each time.
    for _ in 0..2 {
        assert_engine!(one.prompt("").constrain(Spec::regex("(")), Constraint(_));
    }
}

/// With the weights of all outputs of its populations, SMC agrees with the model, and costs a part of what it costs
/// with one of each.
#[test]
fn populations_give_all_of_their_outputs() {
    let outputs = |method: &str| {
        let request = model().prompt("").constrain(Spec::regex(PATTERN)).unwrap().seed(5);
        let mut draws = request.sample(method).unwrap();
        let outputs: Vec<_> = draws.by_ref().take(3_000).map(Result::unwrap).collect();
        let proposals: u64 = outputs.iter().map(|output| output.cost.proposals).sum();
        let total: f64 = outputs.iter().map(|output| output.log_weight.exp()).sum();
        let share = |text: &str| {
            let of = outputs.iter().filter(|output| output.text == text);
            of.map(|output| output.log_weight.exp()).sum::<f64>() / total
        };
        (share("00000"), share("01"), draws.log_mass().unwrap().exp(), proposals)
    };
    let (all, one, exact) = (outputs("smc:n=10,all"), outputs("smc:n=10"), outputs("cars"));
    for (found, of, what) in
        [(all.0, exact.0, "00000"), (all.1, exact.1, "01"), (all.2, one.2, "P"), (all.2, exact.2, "P")]
    {
        assert!((found - of).abs() < 0.05, "{what}: {found}, {of}");
    }
    assert!(all.3 * 4 < one.3, "{} and {}", all.3, one.3);
}

/// A service draws where it has a thread to spare.
#[test]
fn outputs_are_drawn_on_another_thread() {
    const fn moves<T: Send>() {}
    const { moves::<Draws>() };
    let draws = || {
        model().prompt("").constrain(Spec::regex(PATTERN)).unwrap().seed(2).sample("cars").unwrap().take(5)
    };
    let there = draws();
    let there = std::thread::spawn(move || texts(there)).join().unwrap();
    assert_eq!(there, texts(draws()));
}

#[test]
fn models_and_constraints_of_ones_own_are_drawn_from() {
    let model = model();
    let vocabulary = Arc::clone(model.tokens().vocabulary());
    let own = RegexConstraint::for_vocabulary(PATTERN, vocabulary).unwrap();
    let with_own = model.prompt("").constrain_with(own).unwrap().seed(2);
    let with_spec =
        model.prompt("").constrain(Spec::regex(PATTERN).ending(OutputEnd::Model)).unwrap().seed(2);
    // A clone is the same request, and each draws for itself.
    let again = with_spec.clone().sample("disc").unwrap().take(9);
    assert_eq!(
        texts(with_own.sample("disc").unwrap().take(9)),
        texts(with_spec.sample("disc").unwrap().take(9))
    );
    assert_eq!(texts(again).len(), 9);
    // One by one, the outputs are the same: no output depends on the batch.
    let request = model.prompt("").constrain(Spec::regex(PATTERN)).unwrap().seed(5);
    let together = texts(request.clone().sample("masked").unwrap().take(20));
    let alone: Vec<String> =
        Iterator::take(request.sample("masked").unwrap(), 20).map(|output| output.unwrap().text).collect();
    assert_eq!(together, alone);
}

/// A model that is a function: both letters are as likely, after each prefix, and the end comes at one of nine.
fn coins() -> Model {
    let mut tokens = Vocabulary::builder();
    tokens.text(b"a");
    tokens.text(b"b");
    let end = tokens.control("<end>");
    tokens.end_of_sequence(end);
    let model = FnModel::new(3, |_: &[TokenId], row: &mut [f32]| {
        row.copy_from_slice(&[4.0_f32.ln(), 4.0_f32.ln(), 0.0]);
    });
    Model::new(model, TokenSpace::from_vocabulary(tokens.build().unwrap())).unwrap()
}

/// As many `b` as `a`, and at no point more.
struct Balanced;

impl Constraint for Balanced {
    type State = (u32, u32);
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        3
    }
    fn start(&self) -> (u32, u32) {
        (0, 0)
    }
    fn scratch(&self) {}
    fn advance(&self, (): &mut (), state: &mut (u32, u32), token: TokenId) -> Result<(), Rejected> {
        let (length, open) = *state;
        *state = match token {
            TokenId(0) if length + open + 2 <= 8 => (length + 1, open + 1),
            TokenId(1) if open > 0 => (length + 1, open - 1),
            _ => return Err(Rejected::new(token)),
        };
        Ok(())
    }
    fn is_accepting(&self, (_, open): &(u32, u32)) -> bool {
        *open == 0
    }
    fn fill_mask(&self, (): &mut (), state: &(u32, u32), mut mask: MaskMut<'_>) {
        mask.clear();
        for token in [TokenId(0), TokenId(1)] {
            let mut next = *state;
            if self.advance(&mut (), &mut next, token).is_ok() {
                mask.insert(token);
            }
        }
    }
}

#[test]
fn every_method_draws_from_a_function_under_a_constraint_of_ones_own() {
    unskew::core::conformance::check_constraint(&Balanced, 8).unwrap();
    for row in METHODS {
        let request = coins().prompt("ab").constrain_with(Balanced).unwrap().seed(1).max_tokens(8);
        let (text, draft) = match row.name {
            "mentored" => ("mentored:kl=0.1", Some(Draft::Model(coins()))),
            "speculative" => ("speculative", Some(Draft::Model(coins()))),
            name => (name, None),
        };
        let request = request.draft(draft);
        let outputs: Vec<_> = request.sample(text).unwrap().take(40).map(|output| output.unwrap()).collect();
        assert!(outputs.len() == 40 || row.name == "beam", "{text}: {}", outputs.len());
        // Masked outputs may be cut off.
        for output in outputs.iter().filter(|output| output.finish == Finish::Stop) {
            let mut open = 0;
            for letter in output.text.chars() {
                open += if letter == 'a' { 1 } else { -1 };
                assert!(open >= 0, "{text}: {output:?}");
            }
            assert_eq!(open, 0, "{text}: {output:?}");
            let length = f64::from(u32::try_from(output.ids.len()).unwrap());
            let log_prob = length * (4.0_f64 / 9.0).ln() + (1.0_f64 / 9.0).ln();
            assert!((output.log_prob - log_prob).abs() < 1e-5, "{text}: {output:?}");
        }
    }
}

/// Half of the outputs have 61 tokens and half of them one. In chunks of one batch each chunk would take 61 passes.
#[test]
fn no_output_waits_for_a_longer_one_of_its_batch() {
    const OUTPUTS: usize = 160;
    let request = coins().prompt("").constrain(Spec::regex("a|b[ab]{60}")).unwrap().seed(3).batch(16);
    let passes = |draws: &mut dyn Iterator<Item = unskew::Result<unskew::Output>>| {
        let (mut passes, mut positions) = (0, 0);
        for output in draws {
            let cost = output.unwrap().cost;
            (passes, positions) = (passes + cost.passes, positions + cost.positions);
        }
        assert!(positions > 61 * 16 * 4, "{positions}");
        // Sixteen positions a pass, but for the end, where the last outputs are alone.
        assert!(passes <= positions / 16 + 70, "{passes} passes for {positions} positions");
    };
    passes(&mut request.clone().sample("masked").unwrap().take(OUTPUTS));
    // The same where nobody says how many are wanted.
    passes(&mut Iterator::take(request.sample("masked").unwrap(), OUTPUTS));
}

#[test]
fn outputs_under_way_are_counted() {
    let request = model().prompt("").constrain(Spec::regex(PATTERN)).unwrap().seed(5).batch(4);
    let whole = texts(request.clone().sample("masked").unwrap().take(9));
    let mut draws = request.clone().sample("masked").unwrap();
    let mut parts: Vec<String> = draws.by_ref().take(3).map(|output| output.unwrap().text).collect();
    assert_eq!(draws.drawn(), 3);
    // Some are under way, and are among those that are asked for now.
    parts.extend(texts(draws.take(6)));
    assert_eq!(parts, whole);
    // Bounds are of a tree in which nothing is under way.
    let mut draws = request.clone().sample("cars").unwrap();
    draws.next().unwrap().unwrap();
    let learned = draws.learned().unwrap();
    draws.resume(&learned, None).unwrap();
    assert_eq!(texts(draws.take(20)).len(), 20);
}

#[test]
fn the_budget_of_disc_decides_how_many_outputs_are_resampled() {
    let request = coins().prompt("").constrain(Spec::regex("(ab){3}")).unwrap().seed(1).max_tokens(6);
    let resampled = |method: &str| {
        let draws = request.clone().sample(method).unwrap().take(200);
        draws.filter(|output| output.as_ref().unwrap().origin == Origin::Resampled).count()
    };
    for form in ["learned", "published", "reuse"] {
        let resampled = |budget: &str| resampled(&format!("disc:form={form}{budget}"));
        // One try for each output, 4 of full length, and as many as it takes.
        let (none, default, much) = (resampled(",budget=0"), resampled(""), resampled(",budget=10000"));
        // A sampler that learns needs less than 4.
        let least = usize::from(form != "learned");
        assert!(none > default && default >= much + least, "{form}: {none} {default} {much}");
        assert_eq!((much, default), (0, resampled(",budget=4")), "{form}");
    }
}

#[test]
fn a_callback_hears_outputs_and_iterations() {
    let (drawn, learned) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (hears_drawn, hears_learned) = (Arc::clone(&drawn), Arc::clone(&learned));
    let request = model().prompt("").observe(move |event| match event {
        Event::Drawn { outputs, .. } => hears_drawn.store(outputs, Ordering::Relaxed),
        Event::Learned { outputs, of } => {
            assert_eq!(of, 3);
            hears_learned.store(outputs, Ordering::Relaxed);
        }
        _ => {}
    });
    let request = request.constrain(Spec::regex(PATTERN)).unwrap().seed(1);
    assert_eq!(texts(request.sample("asap:iterations=3").unwrap().take(7)).len(), 7);
    assert_eq!((drawn.load(Ordering::Relaxed), learned.load(Ordering::Relaxed)), (7, 3));
}

/// At the beginning of a text some tokenizers write a space, which a canonical constraint has to allow.
#[test]
fn a_space_that_the_tokenizer_writes_first_is_noted() {
    let mut json: serde_json::Value = serde_json::from_str(unskew::tiny_model::TOKENIZER_JSON).unwrap();
    let spaced = |prefix: bool| {
        json["pre_tokenizer"] = serde_json::json!({"type": "ByteLevel", "add_prefix_space": prefix});
        let tokenizer = unskew::vocab::Tokenizer::from_bytes(json.to_string().as_bytes()).unwrap();
        let tokens = TokenSpace::from_tokenizer(tokenizer, &[], 0).unwrap();
        let model = FnModel::new(tokens.vocabulary().len(), |_: &[TokenId], row: &mut [f32]| row.fill(0.0));
        Model::new(model, tokens).unwrap()
    };
    let [plain, spaced] = [false, true].map(spaced);
    let is_noted = |model: &Model, prompt: &str, spec: Spec| {
        let noted = Arc::new(AtomicU64::new(0));
        let counts = Arc::clone(&noted);
        let request = model.prompt(prompt).observe(move |event| {
            if let Event::Note(text) = event {
                counts.fetch_add(u64::from(text.contains("allow a space first")), Ordering::Relaxed);
            }
        });
        request.constrain(spec).unwrap().sample("masked").unwrap();
        noted.load(Ordering::Relaxed) == 1
    };
    let word = || Spec::regex("[a-z]{1,3}");
    assert!(is_noted(&spaced, "", word().canonical()));
    assert!(!is_noted(&spaced, "The name is", word().canonical()) && !is_noted(&spaced, "", word()));
    assert!(!is_noted(&plain, "", word().canonical()));
}

/// A time limit ends the drawing by name, and the passes of the model tell that something goes on before.
#[test]
fn drawing_ends_when_its_time_is_over() {
    let evaluated = Arc::new(AtomicU64::new(0));
    let hears = Arc::clone(&evaluated);
    let request = coins().prompt("").observe(move |event| {
        if let Event::Evaluated { positions, .. } = event {
            hears.fetch_add(positions, Ordering::Relaxed);
        }
    });
    // Rejection writes this once in 2^60 tries.
    let request = request.constrain(Spec::regex("(ab){30}")).unwrap().seed(1).max_tokens(64);
    let limit = Duration::from_millis(200);
    let mut draws = request.clone().time_limit(limit).sample("rejection:tries=10000000").unwrap();
    let begun = Instant::now();
    let error = draws.next().unwrap().unwrap_err();
    assert!(matches!(error, Error::TimeLimit { outputs: 0, .. }), "{error}");
    assert!(
        error.to_string().starts_with("the `time_limit` of 0.2 seconds is over, after 0 outputs; "),
        "{error}"
    );
    assert!(draws.next().is_none() && begun.elapsed() < Duration::from_secs(20));
    assert!(evaluated.load(Ordering::Relaxed) > 0);
    // A limit that is not met changes nothing, and a cancelled request says so.
    let hour = request.time_limit(Duration::from_secs(3600));
    assert_eq!(texts(hour.clone().sample("masked").unwrap().take(3)).len(), 3);
    let cancel = Cancel::default();
    cancel.cancel();
    let cancelled = hour.cancel(cancel).sample("masked").unwrap().next().unwrap().unwrap_err();
    assert!(matches!(cancelled, Error::Cancelled), "{cancelled}");
}

#[test]
fn drawing_ends_when_it_is_cancelled_or_the_search_is_over() {
    let cancel = Cancel::default();
    let request = model().prompt("").constrain(Spec::regex(PATTERN)).unwrap().cancel(cancel.clone());
    let mut draws = request.clone().sample("cars").unwrap();
    assert!(draws.next().unwrap().is_ok());
    cancel.cancel();
    assert!(matches!(draws.next(), Some(Err(Error::Cancelled))));
    assert!(draws.next().is_none());
    // A beam has so many outputs, the best first; as a sampler it gives the best each time.
    let request = request.cancel(Cancel::default());
    let ranked: Vec<f64> =
        request.clone().sample("beam:n=3").unwrap().map(|output| output.unwrap().log_prob).collect();
    assert!(ranked.len() == 3 && ranked.is_sorted_by(|left, right| left >= right), "{ranked:?}");
    let best = request.sample("beam:n=3").unwrap().take(4).best_each_time();
    assert!(best.map(|output| output.unwrap().log_prob).all(|log_prob| log_prob == ranked[0]));
}

#[test]
fn bounds_are_learned_and_resumed() {
    let request = model().prompt("").constrain(Spec::regex(PATTERN)).unwrap().seed(8).batch(1);
    let whole = texts(request.clone().sample("cars").unwrap().take(12));
    let mut first = request.clone().sample("cars").unwrap().take(5);
    let mut parts: Vec<String> = first.by_ref().map(|output| output.unwrap().text).collect();
    let (learned, generator) = (first.learned().unwrap(), first.generator().clone());
    let mut second = request.clone().sample("cars").unwrap().take(7);
    second.resume(&learned, Some(generator)).unwrap();
    parts.extend(texts(second));
    assert_eq!(parts, whole);
    let mut masked = request.clone().sample("masked").unwrap();
    assert!(masked.learned().is_none());
    assert!(masked.resume(&learned, None).is_err());
    assert!(matches!(request.sample("cars").unwrap().resume(b"junk", None), Err(Error::Learned(_))));
}

#[test]
fn parts_that_do_not_go_together_are_typed_errors() {
    let request = model().prompt("").constrain(Spec::regex(PATTERN)).unwrap();
    assert!(matches!(request.clone().sample("fair"), Err(Error::Method(_))));
    assert_engine!(request.clone().sample("speculative"), Combination(_));
    assert_engine!(request.clone().draft(Draft::Counts).sample("speculative"), Combination(_));
    assert_engine!(request.clone().draft(Draft::Ngram).sample("awrs"), Combination(_));
    assert!(matches!(request.clone().temperature(0.0).sample("masked"), Err(Error::Temperature(_))));
    let after = Truncate::AfterMask(Truncate::top(Some(2), None).unwrap());
    assert_engine!(request.clone().truncate(after).sample("cars"), Combination(_));
    assert!(matches!(Truncate::top(Some(0), None), Err(Error::Truncation(_))));
    assert_engine!(model().prompt("").constrain(Spec::regex("a(")), Constraint(_));
    assert_engine!(model().prompt("x").sample("masked"), Tokens(_));
    assert_engine!(model().prompt("").constrain(Spec::regex("1").canonical()), Combination(_));
    assert_engine!(Model::open("nowhere"), File { .. });
    let table = TableModel::uniform(["a", "b", "c"]);
    let other = TokenSpace::from_vocabulary(Arc::clone(model().tokens().vocabulary()));
    assert_engine!(Model::new(table, other), Combination(_));
    // Without a constraint, `auto` is masked sampling, and says so.
    let draws =
        model().prompt("").seed(1).sample_with(Method::Auto(unskew::method::Auto::default())).unwrap();
    assert_eq!(draws.method(), &Method::Masked);
    assert!(draws.explain().starts_with("masked: the model's own distribution (chosen because "));
}

/// The outputs of a stream are those of the iterator, and the task is woken for each.
#[cfg(feature = "stream")]
#[test]
fn outputs_come_as_a_stream() {
    use std::{
        pin::pin,
        sync::Arc,
        task::{Context, Poll, Wake, Waker},
        thread::{self, Thread},
    };

    use futures_core::Stream;

    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    fn next<S: Stream>(mut stream: std::pin::Pin<&mut S>) -> Option<S::Item> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            match stream.as_mut().poll_next(&mut Context::from_waker(&waker)) {
                Poll::Ready(item) => return item,
                Poll::Pending => thread::park(),
            }
        }
    }

    let table = unskew::core::TableModel::uniform(["0", "1"]);
    let tokens = unskew::TokenSpace::from_vocabulary(table.vocabulary().clone());
    let model = unskew::Model::new(table, tokens).unwrap();
    let draws = |most: usize, outputs: usize| {
        let request = model.prompt("").constrain(unskew::Spec::regex("1(01)*")).unwrap().seed(3);
        request.max_tokens(most).sample("cars").unwrap().take(outputs)
    };
    let expected: Vec<String> = draws(50, 40).map(|output| output.unwrap().text).collect();
    let mut stream = pin!(draws(50, 40).into_stream());
    for text in &expected {
        assert_eq!(&next(stream.as_mut()).unwrap().unwrap().text, text);
    }
    assert!(next(stream.as_mut()).is_none() && next(stream.as_mut()).is_none());
    // The last item of a run that fails is the error.
    let request = model.prompt("").constrain(unskew::Spec::regex("1{9}")).unwrap().seed(3).max_tokens(4);
    let mut failing = pin!(request.sample("rejection:tries=50").unwrap().into_stream());
    assert!(next(failing.as_mut()).unwrap().is_err());
    assert!(next(failing.as_mut()).is_none());
    // Nobody waits for the rest of a stream that is dropped.
    drop(draws(50, usize::MAX).into_stream());
    fn is_send<T: Send>(_: &T) {}
    is_send(&draws(50, 1).into_stream());
}

/// A model that panics does so in the task that polls: a stream that ended would hide it.
#[cfg(feature = "stream")]
#[test]
fn a_panic_of_a_model_reaches_the_task() {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        pin::pin,
        task::{Context, Waker},
    };

    use futures_core::Stream;

    let table = unskew::core::TableModel::uniform(["0", "1"]);
    let tokens = unskew::TokenSpace::from_vocabulary(table.vocabulary().clone());
    let model = unskew::Model::new(table, tokens).unwrap();
    let request = model.prompt("").constrain(unskew::Spec::regex("1+")).unwrap().seed(3);
    let draws = request.observe(|_| panic!("in the observer")).sample("masked").unwrap();
    let mut stream = pin!(draws.into_stream());
    let polled = catch_unwind(AssertUnwindSafe(|| {
        while stream.as_mut().poll_next(&mut Context::from_waker(Waker::noop())).is_pending() {
            std::thread::yield_now();
        }
    }));
    assert!(polled.is_err());
}
