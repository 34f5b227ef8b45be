//! Servers that are busy, slow, broken or wrong; and keys, which no message shows.

mod support;

use std::time::{Duration, Instant};

use unskew_core::TableModel;
use unskew_endpoint::{Asked, Endpoint, EndpointError, Options, Prompt};

use self::support::{Fault, Server, Upstream, World};

fn server(upstream: Upstream) -> Server {
    Server::start(upstream, World::table(TableModel::uniform(["a", "b"])))
}

fn quick() -> Options {
    let mut options = Options::default();
    options.backoff = Duration::from_millis(1);
    options.retries = 2;
    options
}

fn ask(endpoint: &Endpoint) -> Result<usize, EndpointError> {
    let prompt = Prompt::Text("ab".to_owned());
    let asked =
        Asked { prompt: &prompt, count: 2, max_tokens: 50, temperature: 1.0, seed: 1, constraint: None };
    endpoint.texts(&asked).map(|texts| texts.len())
}

#[test]
fn a_busy_server_is_asked_again() {
    for fault in [
        Fault::Status(503, "", "loading"),
        Fault::Status(429, "retry-after: 0\r\n", ""),
        Fault::Status(502, "", ""),
        Fault::Truncated,
    ] {
        let server = server(Upstream::Vllm { whole_rows: true });
        let endpoint = Endpoint::connect(&server.address, &quick()).unwrap();
        server.fail([fault.clone(), fault.clone()]);
        assert_eq!(ask(&endpoint).unwrap(), 2, "{fault:?}");
        assert_eq!(server.requests("/v1/completions").len(), 3);
        server.fail([fault.clone(), fault.clone(), fault.clone()]);
        let error = ask(&endpoint).unwrap_err();
        match &fault {
            Fault::Truncated => assert!(matches!(error, EndpointError::Broken { tries: 3, .. }), "{error:?}"),
            _ => assert!(matches!(error, EndpointError::Busy { tries: 3, .. }), "{error:?}"),
        }
    }
}

#[test]
fn the_wait_that_a_server_asks_for() {
    let server = server(Upstream::Sglang);
    let endpoint = Endpoint::connect(&server.address, &quick()).unwrap();
    server.fail([Fault::Status(429, "Retry-After: 1\r\n", "")]);
    let begin = Instant::now();
    ask(&endpoint).unwrap();
    assert!(begin.elapsed() >= Duration::from_secs(1));
    server.fail([Fault::Status(429, "Retry-After: 3600\r\n", "")]);
    assert!(matches!(ask(&endpoint), Err(EndpointError::Wait { status: 429, seconds: 3600, .. })));
}

#[test]
fn a_slow_server_is_given_up_once() {
    let server = server(Upstream::LlamaCpp);
    let mut options = quick();
    options.timeout = Duration::from_millis(300);
    let endpoint = Endpoint::connect(&server.address, &options).unwrap();
    server.fail([Fault::Slow(Duration::from_secs(2))]);
    let begin = Instant::now();
    let error = ask(&endpoint).unwrap_err();
    assert!(matches!(error, EndpointError::TimedOut { .. }), "{error:?}");
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert!(error.to_string().contains("timeout=SECONDS"), "{error}");
}

#[test]
fn answers_that_are_none() {
    let server = server(Upstream::OpenAi);
    let mut options = quick();
    options.bytes = 100_000;
    let endpoint = Endpoint::connect(&server.address, &options).unwrap();
    for body in [
        "",
        "{",
        "[]",
        "<html>",
        r#"{"choices": 3}"#,
        r#"{"choices": []}"#,
        r#"{"choices": [{"finish_reason": "abort"}]}"#,
    ] {
        server.fail([Fault::Body(body)]);
        let error = ask(&endpoint).unwrap_err();
        assert!(matches!(error, EndpointError::Answer { .. }), "{body}: {error:?}");
    }
    server.fail([Fault::Endless]);
    assert!(matches!(ask(&endpoint), Err(EndpointError::TooLarge { limit: 100_000, .. })));
    server.fail([Fault::Status(400, "", r#"{"error": {"message": "max_tokens is too large"}}"#)]);
    let error = ask(&endpoint).unwrap_err();
    assert!(
        matches!(&error, EndpointError::Status { status: 400, message, .. } if message == "max_tokens is too large")
    );
    server.fail([Fault::Status(307, "location: http://elsewhere/\r\n", "")]);
    let error = ask(&endpoint).unwrap_err();
    assert!(error.to_string().contains("http://elsewhere/"), "{error}");
}

#[test]
fn there_is_no_server() {
    // The port is free again as soon as the listener is dropped.
    let address =
        format!("http://{}", std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let error = Endpoint::connect(&address, &quick()).unwrap_err();
    assert!(matches!(error, EndpointError::Unreachable { tries: 3, .. }), "{error:?}");
    for address in ["localhost:8000", "http://", "http://a?b", "http://user:pass@a"] {
        assert!(
            matches!(Endpoint::connect(address, &quick()), Err(EndpointError::Address { .. })),
            "{address}"
        );
    }
    if !cfg!(feature = "https") {
        let error = Endpoint::connect("https://localhost:1", &quick()).unwrap_err();
        assert!(matches!(error, EndpointError::NoTls { .. }), "{error:?}");
    }
}

#[test]
fn models_of_a_server() {
    let server = server(Upstream::OpenAi);
    server.fail([Fault::Body(r#"{"data": [{"id": "one"}, {"id": "two"}]}"#)]);
    let error = Endpoint::connect(&server.address, &quick()).unwrap_err();
    assert!(error.to_string().contains("one, two") && error.to_string().contains("model=NAME"), "{error}");
    server.fail([Fault::Body(r#"{"data": [{"id": "one"}, {"id": "two"}]}"#)]);
    let endpoint = Endpoint::connect(&server.address, &"model=two,server=vllm".parse().unwrap()).unwrap();
    assert_eq!((endpoint.model(), endpoint.server()), ("two", unskew_endpoint::Server::Vllm));
    server.fail([Fault::Body(r#"{"data": []}"#)]);
    assert!(matches!(Endpoint::connect(&server.address, &quick()), Err(EndpointError::Answer { .. })));
}

/// The variable is one that every machine has: tests of a process share its environment.
#[test]
fn keys_are_sent_and_not_shown() {
    let server = server(Upstream::OpenAi);
    let mut options = quick();
    options.key_variable = Some("CARGO_PKG_NAME".to_owned());
    let key = std::env::var("CARGO_PKG_NAME").unwrap();
    let endpoint = Endpoint::connect(&server.address, &options).unwrap();
    ask(&endpoint).unwrap();
    let seen = server.requests("/v1/completions").remove(0);
    assert_eq!(seen.authorization, Some(format!("Bearer {key}")));
    server.fail([Fault::Status(401, "", "wrong key unskew-endpoint")]);
    let refused = ask(&endpoint).unwrap_err();
    assert!(matches!(refused, EndpointError::Unauthorized { status: 401, .. }));
    assert!(refused.to_string().contains("CARGO_PKG_NAME"), "{refused}");
    server.fail([Fault::Status(400, "", "the key unskew-endpoint is of another project")]);
    let repeated = ask(&endpoint).unwrap_err();
    assert!(repeated.to_string().contains("the key (key) is of"), "{repeated}");
    for text in [refused.to_string(), repeated.to_string(), format!("{endpoint:?}"), format!("{options:?}")] {
        assert!(!text.contains(&key), "{text}");
    }
    options.key_variable = Some("UNSKEW_NO_SUCH_VARIABLE".to_owned());
    let error = Endpoint::connect(&server.address, &options).unwrap_err();
    assert!(error.to_string().contains("UNSKEW_NO_SUCH_VARIABLE is not set"), "{error}");
    // A value with a space is no key.
    options.key_variable = Some("CARGO_PKG_DESCRIPTION".to_owned());
    let error = Endpoint::connect(&server.address, &options).unwrap_err();
    assert!(matches!(error, EndpointError::Key { .. }), "{error}");
}

#[test]
fn options_are_read() {
    let options: Options = "timeout=60, retries=2,server=llama.cpp,vocab=9,bytes=10".parse().unwrap();
    assert_eq!(
        (options.timeout.as_secs(), options.retries, options.vocab, options.bytes),
        (60, 2, Some(9), 10)
    );
    for wrong in
        ["timeout=0", "timeout=x", "retries=1000", "server=x", "model=", "speed=1", "vocab=99999999999"]
    {
        let error = wrong.parse::<Options>().unwrap_err();
        assert!(matches!(error, EndpointError::Option { .. }), "{wrong}: {error:?}");
    }
}
