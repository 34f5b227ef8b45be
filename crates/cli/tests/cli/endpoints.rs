//! `--model http://...`: the program beside a server that plays OpenAI's interface and llama.cpp's, over a few texts.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use serde_json::{Value, json};

use crate::support::{Files, unskew, unskew_reading};

/// The tokens are the embedded model's. The next token is always the same: `the`, and then the end.
const THE: u32 = 2;

/// Answers requests of the server `owner` until the process ends, and gives its address.
fn serve(owner: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut outputs = 0;
        for stream in listener.incoming() {
            let _ = answer(&stream.unwrap(), owner, &mut outputs);
        }
    });
    address
}

fn answer(stream: &TcpStream, owner: &str, outputs: &mut usize) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut path, mut length) = (String::new(), String::new(), 0);
    while reader.read_line(&mut line).ok()? > 2 {
        if path.is_empty() {
            path = line.split(' ').nth(1)?.to_owned();
        }
        if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = number.trim().parse().ok()?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut status = 200;
    let reply = match path.as_str() {
        "/v1/models" => {
            json!({"data": [{"id": "m", "owned_by": owner, "meta": {"n_vocab": 2048, "n_ctx": 64}}]})
        }
        "/props" => json!({"total_slots": 1}),
        "/v1/completions" | "/v1/chat/completions" => {
            let text = |index: u64| {
                *outputs += 1;
                let text = ["red", "blue", "green"][*outputs % 3];
                json!({"index": index, "text": text, "message": {"content": text}, "finish_reason": "stop"})
            };
            json!({"choices": (0..body["n"].as_u64()?).map(text).collect::<Vec<_>>()})
        }
        "/completion" => {
            let prompt = body["prompt"].as_array()?;
            let many = prompt.first()?.is_array();
            let prompts = if many { prompt.clone() } else { vec![body["prompt"].clone()] };
            let row = |(index, prompt): (usize, &Value)| {
                let ended = prompt.as_array()?.last()?.as_u64()? == u64::from(THE);
                let next = if ended { 0 } else { THE };
                let entry = |id: u32| json!({"id": id, "logprob": if id == next { 0.0 } else { -60.0 }});
                let top = (0..2048).map(entry).collect::<Vec<_>>();
                Some(
                    json!({"index": index, "content": "", "stop_type": "limit", "completion_probabilities": [
                    {"logprob": 0.0, "top_logprobs": top}]}),
                )
            };
            let mut rows = prompts.iter().enumerate().map(row).collect::<Option<Vec<_>>>()?;
            if many { Value::Array(rows) } else { rows.remove(0) }
        }
        _ => {
            status = 404;
            json!({"error": {"message": "no such path"}})
        }
    };
    let reply = reply.to_string();
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{reply}",
        reply.len()
    )
    .ok()
}

#[test]
fn texts_of_any_server() {
    let address = serve("somebody");
    let colours = ["--choice", "red", "--choice", "green", "--prompt", "A colour: "];
    let args = [&["generate", "--model", &address, "-n", "6", "--format", "json"], &colours[..]].concat();
    let outputs = unskew(&args).json();
    assert_eq!(outputs.len(), 6);
    for output in &outputs {
        assert!(["red", "green"].contains(&output["text"].as_str().unwrap()), "{output}");
        assert!(
            output["how"] == "accepted" && output["logprob"].is_null() && output["log_weight"] == 0.0,
            "{output}"
        );
    }
    // Three texts in turn, of which one is refused.
    let proposals: u64 = outputs.iter().map(|output| output["proposals"].as_u64().unwrap()).sum();
    assert!((8..=9).contains(&proposals), "{proposals}");
    let run = unskew(&[&["generate", "--model", &address], &colours[..]].concat());
    assert!(run.stderr.contains("rejection: the model's own distribution, given the constraint; an output ends where the model's text leaves the constraint; whole outputs of an OpenAI-compatible server at http://127.0.0.1"), "{}", run.stderr);
    let run =
        unskew(&["generate", "--model", &address, "--chat", "--prompt", "A colour?", "--regex", "[a-z]+"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let lines =
        r#"{"messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "A colour?"}]}"#;
    let messages =
        ["generate", "--model", &address, "--prompts", "-", "--regex", "[a-z]+", "--format", "json"];
    let run = unskew_reading(&std::env::temp_dir(), &messages, lines);
    assert_eq!(run.json()[0]["prompt"], 0, "{}", run.stderr);
    // A text is checked without the server's tokens.
    let run =
        unskew(&["check", "--model", &address, "--regex", "[a-zé]+", "--text", "bleué", "--format", "json"]);
    assert_eq!(run.json()[0]["accepted"], true);
}

#[test]
fn what_a_server_cannot_do_is_said() {
    let address = serve("somebody");
    let refusal = |args: &[&str]| {
        let run = unskew(&[&args[..1], &["--model", &address], &args[1..]].concat());
        assert_eq!(run.code, 2, "{args:?}: {} {}", run.stdout, run.stderr);
        run.stderr.lines().last().unwrap().to_owned()
    };
    for (args, message) in [
        (&["generate", "--regex", "a", "--sampler", "cars"][..], "cars needs rows of log-probabilities"),
        (
            &["generate", "--regex", "a", "--sampler", "masked"],
            "so that outputs have no weights; use --sampler rejection",
        ),
        (&["generate", "--regex", "a", "--canonical"], "--canonical asks for the tokenizer's own sequences"),
        (&["generate", "--regex", "a", "--sampler", "rejection", "--heal"], "no --heal; leave"),
        (&["generate", "--endpoint", "speed=1"], "--endpoint speed: there is none"),
        (&["audit", "--regex", "a", "--samplers", "rejection"], "give the server's --tokenizer"),
        (&["mask", "--regex", "a"], "give its --tokenizer"),
        (&["logits", "--ids", "1"], "give its --tokenizer"),
    ] {
        let refused = refusal(args);
        assert!(refused.contains(message), "{args:?}: {refused}");
    }
    let run = unskew(&["generate", "--model", "tiny", "--endpoint", "retries=1"]);
    assert!(run.refusal().contains("--endpoint is for a server"), "{}", run.stderr);
}

/// With a tokenizer and whole rows every sampler runs.
#[test]
fn rows_of_a_server() {
    let address = serve("llamacpp");
    let tokenizer = unskew::tiny_model::TOKENIZER_JSON;
    let files = Files::new(&[("tokenizer.json", tokenizer.as_bytes())]);
    let name = serde_json::from_str::<Value>(tokenizer).unwrap()["model"]["vocab"]
        .as_object()
        .unwrap()
        .iter()
        .find(|(_, id)| **id == json!(THE))
        .unwrap()
        .0
        .clone();
    for sampler in ["masked", "cars", "disc", "smc", "beam", "greedy"] {
        let args = ["generate", "--model", &address, "--tokenizer", "tokenizer.json", "--sampler", sampler];
        let run =
            files.run(&[&args[..], &["--regex", "(?s).{1,3}", "--prompt", "a", "--format", "json"]].concat());
        let output = run.json().remove(0);
        assert_eq!(output["ids"], json!([THE]), "{sampler}: {name:?} {output}");
        assert!(output["logprob"].as_f64().unwrap().abs() < 1e-3, "{output}");
    }
    let args = [
        "audit",
        "--model",
        &address,
        "--tokenizer",
        "tokenizer.json",
        "--samplers",
        "masked,cars",
        "-n",
        "5",
    ];
    let run =
        files.run(&[&args[..], &["--regex", "(?s).{1,3}", "--prompt", "a", "--out", "report.html"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(files.read("report.html").contains("cars"));
    let wrong =
        ["generate", "--model", &address, "--tokenizer", "tokenizer.json", "--endpoint", "vocab=5000"];
    let run = files.run(&[&wrong[..], &["--regex", "a", "--prompt", "a", "--sampler", "cars"]].concat());
    assert!(run.stderr.contains("cars needs rows"), "{}", run.stderr);
}
