//! Each server beside the model that it runs: rows, laws of outputs, weights, and what it cannot do.

mod support;

use std::sync::Arc;

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use unskew_automata::RegexConstraint;
use unskew_core::{
    Cancel, Draw, ExactDistribution, Extension, Finish, LanguageModel, Logits, Rows, Sampler, TableModel,
    TextOrder, TokenId, Vocabulary, WithEnd,
    conformance::{check_model, check_sampler},
};
use unskew_endpoint::{
    DrawError, Endpoint, EndpointError, EndpointModel, Options, Prompt, Reading, ServerConstraint,
    TextRejection, TextTask, TextWeights,
};
use unskew_samplers::{Exact, Sampling, Task};

use self::support::{Server, Upstream, World, tiny, tokenizer};

const ALL: [Upstream; 4] =
    [Upstream::Vllm { whole_rows: true }, Upstream::Sglang, Upstream::LlamaCpp, Upstream::OpenAi];

const PROMPT: &str =
    "Dear Ms Meyer,\nYour order for the Orbis lamp was sent on 27 January 2024.\nKind regards,\n";
const NAMES: &str = "Thomas Hansen|Peter Costa|Paul Becker";

fn connect(server: &Server) -> Arc<Endpoint> {
    Arc::new(Endpoint::connect(&server.address, &Options::default()).unwrap())
}

fn ids(text: &str) -> Vec<u32> {
    tokenizer().encode(text, true).unwrap().iter().map(|id| id.0).collect()
}

/// A table in which masking goes wrong: what the constraint allows after `a` is improbable there.
fn table() -> TableModel {
    let a = TokenId(0);
    TableModel::new(
        ["a", "b"],
        vec![0.5, 0.3, 0.2],
        [(vec![a], vec![0.6, 0.05, 0.35]), (vec![a, a], vec![0.1, 0.1, 0.8])],
    )
    .unwrap()
}

fn names() -> RegexConstraint {
    RegexConstraint::for_vocabulary(NAMES, Arc::clone(tokenizer().vocabulary())).unwrap()
}

/// Outputs as tokens, or as texts in tokens of one byte from the server that tells no others.
fn reading(upstream: Upstream, vocabulary: &Arc<Vocabulary>) -> Reading {
    let own = Arc::clone(vocabulary);
    match upstream {
        Upstream::OpenAi => Reading::texts(Arc::clone(vocabulary), move |text| {
            let id = |byte| own.text_tokens().find(|(_, text)| **text == [byte]).map(|(id, _)| id);
            text.bytes().map(id).collect()
        }),
        _ => Reading::ids(own),
    }
}

fn task<C>(endpoint: Arc<Endpoint>, constraint: C, reading: Reading, prompt: Prompt) -> TextTask<C> {
    TextTask {
        endpoint,
        constraint,
        reading,
        prompt,
        max_tokens: 6,
        temperature: 1.0,
        batch: 8,
        tries: 100_000,
        keep_cut: false,
        cancel: Cancel::default(),
    }
}

#[test]
fn rows_are_those_of_the_model() {
    let mut own = tiny();
    let prefix = ids(PROMPT);
    for upstream in ALL.into_iter().filter(|upstream| *upstream != Upstream::OpenAi) {
        let server = Server::start(upstream, World::tiny());
        let endpoint = connect(&server);
        assert_eq!(endpoint.context_len(), Some(512), "{upstream:?}");
        let mut model = EndpointModel::open(endpoint, 2048, &prefix[..1]).unwrap();
        let rows = |model: &mut dyn FnMut(&[TokenId], &mut Logits)| {
            let mut logits = Logits::new();
            let tokens: Vec<TokenId> = prefix.iter().copied().map(TokenId).collect();
            model(&tokens, &mut logits);
            let rows: Vec<Vec<f64>> = logits
                .rows()
                .map(|row| {
                    let normalizer = unskew_core::logprob::log_normalizer(row);
                    row.iter().map(|entry| f64::from(*entry) - normalizer).collect()
                })
                .collect();
            rows
        };
        let wanted = rows(&mut |tokens, logits| {
            let mut sequence = own.start();
            let mut batch = [Extension { sequence: &mut sequence, tokens, rows: Rows::All }];
            own.extend(&mut batch, logits).unwrap();
        });
        let got = rows(&mut |tokens, logits| {
            let mut sequence = model.start();
            let mut batch = [Extension { sequence: &mut sequence, tokens, rows: Rows::All }];
            model.extend(&mut batch, logits).unwrap();
        });
        assert_eq!(got.len(), wanted.len());
        let pairs = got.iter().flatten().zip(wanted.iter().flatten());
        let largest = pairs.map(|(one, other)| (one - other).abs()).fold(0.0, f64::max);
        assert!(largest < 1e-4, "{upstream:?}: {largest}");
        check_model(&mut model, &[vec![0, 5, 300], vec![0, 7]], 1e-4).unwrap();
        let mut sequence = model.start();
        let empty = &mut [Extension { sequence: &mut sequence, tokens: &[], rows: Rows::Last }];
        assert_eq!(model.extend(empty, &mut Logits::new()), Err(EndpointError::Empty));
    }
}

/// Every sampler runs over rows: one of them, against the exact distribution.
#[test]
fn samplers_over_rows_are_exact() {
    let server = Server::start(Upstream::LlamaCpp, World::tiny());
    let model = EndpointModel::open(connect(&server), 2048, &[0]).unwrap();
    let vocabulary = Arc::clone(tokenizer().vocabulary());
    let prompt: Vec<TokenId> = ids(PROMPT).into_iter().map(TokenId).collect();
    let end = vocabulary.end_of_sequence();
    let exact = ExactDistribution::enumerate(&mut tiny(), &names(), &prompt, end, 6, 100_000).unwrap();
    let constraint = names();
    let task = Task::new(model, &constraint, &vocabulary, 6).after(prompt.clone());
    let mut sampler = Sampling::new(task, Exact::cars(10_000));
    check_sampler(&mut sampler, &exact, 1000, &mut ChaCha8Rng::seed_from_u64(3)).unwrap();
}

#[test]
fn rejection_is_exact_with_each_server() {
    let table = table();
    let vocabulary = Arc::clone(table.vocabulary());
    let constraint = RegexConstraint::for_vocabulary("a[ab]?|bb", Arc::clone(&vocabulary)).unwrap();
    let end = vocabulary.end_of_sequence();
    // A prompt that the table does not list leaves the default row, so the table is asked without one.
    let exact = ExactDistribution::enumerate(&mut table.clone(), &constraint, &[], end, 6, 1000).unwrap();
    for upstream in ALL {
        let server = Server::start(upstream, World::table(table.clone()));
        let reading = reading(upstream, &vocabulary);
        let task = task(connect(&server), &constraint, reading, Prompt::Text(String::new()));
        let mut sampler = TextRejection::new(task);
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        if upstream == Upstream::OpenAi {
            // The server tells no log-probabilities, so that the law alone is compared.
            let mut counts = std::collections::HashMap::<Vec<TokenId>, u64>::new();
            for _ in 0..2000 {
                let draw = sampler.draw(&mut rng).unwrap();
                assert!(draw.log_prob.is_nan());
                *counts.entry(draw.tokens).or_default() += 1;
            }
            let cells = exact.iter().map(|(output, p)| (counts.get(output).copied().unwrap_or(0), p));
            let fit = unskew_core::conformance::chi_square(cells);
            assert!(fit.deviation < 4.0, "{fit:?}");
        } else {
            check_sampler(&mut sampler, &exact, 2000, &mut rng).unwrap();
        }
        let estimate = sampler.log_mass().unwrap();
        assert!((estimate - exact.mass().ln()).abs() < 0.1, "{upstream:?}: {estimate}");
        // Several outputs come in one request, which switches off what would change the law.
        let path = match upstream {
            Upstream::LlamaCpp => "/completion",
            Upstream::Sglang => "/generate",
            _ => "/v1/completions",
        };
        let requests = server.requests(path);
        assert!(requests.len() < 2000, "{upstream:?}: {}", requests.len());
        let body = requests[0].body.to_string();
        assert!(body.contains(r#""top_p":1.0"#), "{body}");
    }
}

/// The output of a server's, by reading its bytes: the pieces are tokens, or the whole text.
fn freely<'a>(outputs: &[&'a str], pieces: &[&str], whole: bool) -> Option<&'a str> {
    let text = pieces.concat();
    let begins = |len: usize| outputs.iter().any(|output| output.starts_with(&text[..len]));
    let len = (0..=text.len()).rev().find(|len| begins(*len)).unwrap_or(0);
    let output = outputs.iter().find(|output| ***output == text[..len]);
    if len == text.len() {
        let goes_on = outputs.iter().any(|output| output.len() > len && output.starts_with(&text));
        return output.filter(|_| whole || !goes_on).copied();
    }
    let mut start = 0;
    let piece = pieces.iter().find(|piece| {
        start += piece.len();
        start > len
    });
    let (piece, at) = (piece?.as_bytes(), len + piece?.len() - start);
    let cuts = at > 0 && piece[at - 1].is_ascii_alphanumeric() && piece[at].is_ascii_alphanumeric();
    output.filter(|_| !cuts).copied()
}

/// Whole outputs whose beginnings count: each server's outputs follow the law that reads all that the model can write.
#[test]
fn rejection_is_exact_where_the_constraint_ends_outputs() {
    const TEXTS: [&str; 5] = ["a", "b", "a!", "bab", "b "];
    const OUTPUTS: [&str; 3] = ["a", "b", "bb"];
    const ROW: [f64; 6] = [0.25, 0.25, 0.15, 0.1, 0.1, 0.15];
    let table = TableModel::new(TEXTS, ROW.to_vec(), []).unwrap();
    let vocabulary = Arc::clone(table.vocabulary());
    let inner = RegexConstraint::for_vocabulary("a|bb?", Arc::clone(&vocabulary)).unwrap();
    let constraint = WithEnd::free(inner, Arc::new(TextOrder::new(Arc::clone(&vocabulary))));
    for upstream in ALL {
        let by_text = upstream == Upstream::OpenAi;
        let mut law = std::collections::HashMap::<&str, f64>::new();
        let mut open: Vec<(Vec<&str>, f64)> = vec![(Vec::new(), 1.0)];
        while let Some((pieces, p)) = open.pop() {
            let text = pieces.concat();
            let read: &[&str] = if by_text { &[&text] } else { &pieces };
            if pieces.len() == 6 {
                freely(&OUTPUTS, read, false)
                    .into_iter()
                    .for_each(|output| *law.entry(output).or_default() += p);
                continue;
            }
            let ended = freely(&OUTPUTS, read, true);
            ended.into_iter().for_each(|output| *law.entry(output).or_default() += p * ROW[5]);
            for (piece, row) in TEXTS.iter().zip(ROW) {
                open.push(([&pieces[..], &[*piece]].concat(), p * row));
            }
        }
        let server = Server::start(upstream, World::table(table.clone()));
        let reading = reading(upstream, &vocabulary);
        let mut sampler =
            TextRejection::new(task(connect(&server), &constraint, reading, Prompt::Text(String::new())));
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut counts = std::collections::HashMap::<Vec<u8>, u64>::new();
        for _ in 0..3000 {
            let draw = sampler.draw(&mut rng).unwrap();
            assert!(draw.log_prob.is_nan() && draw.finish == Finish::Stop);
            let text: Vec<u8> =
                draw.tokens.iter().flat_map(|id| vocabulary.text(*id).unwrap().to_vec()).collect();
            *counts.entry(text).or_default() += 1;
        }
        let mass: f64 = law.values().sum();
        let cells = law.iter().map(|(output, p)| (counts.remove(output.as_bytes()).unwrap_or(0), p / mass));
        let fit = unskew_core::conformance::chi_square(cells.collect::<Vec<_>>());
        assert!(fit.deviation < 4.0 && counts.is_empty(), "{upstream:?}: {fit:?}, {counts:?}");
        assert!((sampler.log_mass().unwrap() - mass.ln()).abs() < 0.1, "{upstream:?}");
    }
}

#[test]
fn weights_give_the_distribution() {
    let vocabulary = Arc::clone(tokenizer().vocabulary());
    let prompt: Vec<TokenId> = ids(PROMPT).into_iter().map(TokenId).collect();
    let end = vocabulary.end_of_sequence();
    let exact = ExactDistribution::enumerate(&mut tiny(), &names(), &prompt, end, 6, 100_000).unwrap();
    let upstreams = [
        (Upstream::Vllm { whole_rows: false }, Prompt::Ids(ids(PROMPT))),
        (Upstream::Sglang, Prompt::Text(PROMPT.to_owned())),
    ];
    for (upstream, asked) in upstreams {
        let server = Server::start(upstream, World::tiny());
        let task = task(connect(&server), names(), Reading::ids(Arc::clone(&vocabulary)), asked);
        let mut sampler = TextWeights::new(task, ServerConstraint::Regex(NAMES.to_owned())).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let draws: Vec<Draw> = (0..600).map(|_| sampler.draw(&mut rng).unwrap()).collect();
        let mut plain = std::collections::HashMap::<Vec<TokenId>, f64>::new();
        let mut weighted = plain.clone();
        for draw in &draws {
            let known = exact.probability(&draw.tokens);
            assert!((draw.log_prob - (known * exact.mass()).ln()).abs() < 1e-3, "{draw:?}");
            *plain.entry(draw.tokens.clone()).or_default() += 1.0 / 600.0;
            *weighted.entry(draw.tokens.clone()).or_default() += draw.log_weight.exp();
        }
        let total: f64 = weighted.values().sum();
        let tv = |shares: &std::collections::HashMap<Vec<TokenId>, f64>, total: f64| -> f64 {
            let of = |(output, p): (&[TokenId], f64)| {
                (shares.get(output).copied().unwrap_or(0.0) / total - p).abs()
            };
            exact.iter().map(of).sum::<f64>() / 2.0
        };
        let (plain, weighted) = (tv(&plain, 1.0), tv(&weighted, total));
        assert!(plain > 0.2 && weighted < 0.02, "{upstream:?}: {plain} {weighted}");
        let mass = sampler.log_mass().unwrap();
        assert!((mass - exact.mass().ln()).abs() < 0.2, "{upstream:?}: {mass} {}", exact.mass().ln());
    }
}

#[test]
fn what_a_server_cannot_do_is_an_error_that_says_what_can() {
    let vocabulary = Arc::clone(tokenizer().vocabulary());
    for upstream in [Upstream::LlamaCpp, Upstream::OpenAi] {
        let server = Server::start(upstream, World::tiny());
        let task = task(
            connect(&server),
            names(),
            Reading::ids(Arc::clone(&vocabulary)),
            Prompt::Text("a".to_owned()),
        );
        let error = TextWeights::new(task, ServerConstraint::Regex(NAMES.to_owned())).unwrap_err();
        assert!(matches!(error, EndpointError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("use `sampler` rejection"), "{error}");
    }
    let vllm = Server::start(Upstream::Vllm { whole_rows: false }, World::tiny());
    let mut hot =
        task(connect(&vllm), names(), Reading::ids(Arc::clone(&vocabulary)), Prompt::Text("a".to_owned()));
    hot.temperature = 0.5;
    let error = TextWeights::new(hot, ServerConstraint::Regex(NAMES.to_owned())).unwrap_err();
    assert!(error.to_string().contains("temperature 1"), "{error}");
    // No rows.
    let error = EndpointModel::open(connect(&vllm), 2048, &[0]).unwrap_err();
    assert!(matches!(error, EndpointError::Unsupported { .. }), "{error}");
    assert!(
        error.to_string().contains("--max-logprobs -1") && error.to_string().contains("greater than max"),
        "{error}"
    );
    let openai = Server::start(Upstream::OpenAi, World::tiny());
    let error = EndpointModel::open(connect(&openai), 2048, &[0]).unwrap_err();
    assert!(matches!(error, EndpointError::Unsupported { .. }), "{error}");
    // Rows that are not whole, and rows of a larger vocabulary.
    let sglang = Server::start(Upstream::Sglang, World::tiny());
    let error = EndpointModel::open(connect(&sglang), 2000, &[0]).unwrap_err();
    assert!(matches!(error, EndpointError::Row { .. }), "{error}");
    let mut options = Options::default();
    options.vocab = Some(3000);
    let larger = Arc::new(Endpoint::connect(&sglang.address, &options).unwrap());
    let error = EndpointModel::open(larger, 2048, &[0]).unwrap_err();
    assert!(matches!(error, EndpointError::NotWhole { got: 2048, of: 3000, .. }), "{error}");
    // Another tokenizer.
    let error = connect(&sglang).check_tokens("Dear Ms Meyer", &[1, 2]).unwrap_err();
    assert!(matches!(error, EndpointError::Tokenizer { .. }), "{error}");
    // A constraint that the server takes in no form.
    let task = task(connect(&sglang), names(), Reading::ids(vocabulary), Prompt::Text("a".to_owned()));
    let mut lark = TextWeights::new(task, ServerConstraint::Lark("start: \"a\"".to_owned())).unwrap();
    let error = lark.draw(&mut ChaCha8Rng::seed_from_u64(1)).unwrap_err();
    assert!(error.to_string().contains("takes no grammar in Lark"), "{error}");
}

#[test]
fn chats_are_put_into_the_template_of_the_server() {
    for upstream in ALL {
        let server = Server::start(upstream, World::tiny());
        let tokenizer = tokenizer();
        let vocabulary = Arc::clone(tokenizer.vocabulary());
        let constraint = RegexConstraint::for_vocabulary("(?s).*", Arc::clone(&vocabulary)).unwrap();
        let reading = Reading::texts(vocabulary, move |text| tokenizer.encode_continuation(text).ok());
        let messages = serde_json::json!([{"role": "user", "content": PROMPT}]);
        let mut task = task(connect(&server), constraint, reading, Prompt::Chat(messages));
        task.max_tokens = 60;
        let draw = TextRejection::new(task).draw(&mut ChaCha8Rng::seed_from_u64(1)).unwrap();
        assert!(!draw.tokens.is_empty());
        let body = server.requests("/v1/chat/completions").remove(0).body;
        assert_eq!(body["messages"][0]["content"], PROMPT);
    }
}

#[test]
fn rejection_ends() {
    let server = Server::start(Upstream::Sglang, World::tiny());
    let vocabulary = Arc::clone(tokenizer().vocabulary());
    let never = RegexConstraint::for_vocabulary("#{5}", Arc::clone(&vocabulary)).unwrap();
    let mut task = task(connect(&server), &never, Reading::ids(vocabulary), Prompt::Text(PROMPT.to_owned()));
    task.tries = 20;
    let error = TextRejection::new(task.clone()).draw(&mut ChaCha8Rng::seed_from_u64(1)).unwrap_err();
    assert_eq!(error, DrawError::NoOutput { tries: 20, max_tokens: 6 });
    task.cancel.cancel();
    let error = TextRejection::new(task).draw(&mut ChaCha8Rng::seed_from_u64(1)).unwrap_err();
    assert_eq!(error, DrawError::Cancelled);
}
