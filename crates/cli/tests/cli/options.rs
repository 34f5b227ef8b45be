//! Options that a sampler does not read are refused by name; and the end of a sequence means one thing in every
//! command.

use serde_json::Value;
use unskew::tiny_model::{TINY, TOKENIZER_JSON};

use crate::support::{Files, Run, TABLE, unskew};

/// Every sampler, and the parameters that it needs.
const SAMPLERS: &[(&str, &[&str])] = &[
    ("masked", &[]),
    ("rejection", &[]),
    ("rsft", &[]),
    ("ars", &[]),
    ("cars", &[]),
    ("disc", &[]),
    ("asap", &[]),
    ("awrs", &[]),
    ("smc", &[]),
    ("mcmc", &[]),
    ("beam", &[]),
    ("greedy", &[]),
    ("speculative", &["--draft-model", "ngram"]),
    ("mentored:kl=0.2", &["--draft-model", "ngram"]),
];

const LEARNING: &[&str] = &["ars", "cars", "asap", "disc"];

/// Every option of samplers, and the samplers that read it; none: all do.
const OPTIONS: &[(&[&str], &[&str])] = &[
    (&["--temperature", "0.8"], &[]),
    (&["--top-k", "3", "--truncate", "before-mask"], &[]),
    (&["--top-p", "0.99", "--truncate", "before-mask"], &[]),
    (&["--top-k", "2", "--truncate", "after-mask"], &["masked"]),
    (&["--batch", "3"], &[]),
    (
        &["--draft-model", "ngram"],
        &["speculative", "mentored:kl=0.2", "rejection", "ars", "cars", "asap", "disc"],
    ),
    (&["--save-trie", "trie.bin"], LEARNING),
];

fn expect(run: &Run, is_read: bool, option: &[&str], what: &str) {
    match is_read {
        true => assert_eq!(run.code, 0, "{what} with {option:?}: {}", run.stderr),
        false => {
            // The last flag of a pair is the one that decides.
            let flags = option.iter().filter(|part| part.starts_with("--"));
            let message = run.refusal();
            assert!(flags.clone().any(|flag| message.contains(flag)), "{what} with {option:?}: {message}");
        }
    }
}

#[test]
fn each_sampler_reads_an_option_or_refuses_it() {
    let files = Files::new(&[("t.json", TABLE)]);
    for (sampler, needed) in SAMPLERS {
        for (option, readers) in OPTIONS {
            let mut args = vec!["generate", "--model", "table:t.json", "--regex", "[01]{1,3}", "--seed", "1"];
            args.extend(["--sampler", sampler, "--format", "jsonl"]);
            args.extend(*option);
            args.extend(needed.chunks(2).filter(|pair| !option.contains(&pair[0])).flatten());
            let is_read = readers.is_empty() || readers.contains(sampler);
            expect(&files.run(&args), is_read, option, sampler);
        }
    }
}

#[test]
fn outputs_that_disc_has_resampled_are_counted() {
    let files = Files::new(&[("t.json", TABLE)]);
    let run = |sampler: &str| {
        let args = ["generate", "--model", "table:t.json", "--regex", "(00000|1[01]{4}|0[01]{0,2})"];
        files.run(
            &[&args[..], &["--seed", "1", "-n", "50", "--format", "jsonl", "--sampler", sampler]].concat(),
        )
    };
    for sampler in ["disc:budget=0", "disc:budget=0,form=published", "disc:budget=0,form=reuse"] {
        let run = run(sampler);
        let resampled = run.json().iter().filter(|line| line["how"] == "resampled").count();
        assert!(resampled > 0, "{sampler}");
        let warning = format!("warning: {resampled} of 50 outputs are resampled");
        assert!(run.stderr.contains(&warning), "{sampler}: {}", run.stderr);
        assert!(run.stderr.contains("nats of the model's distribution"), "{sampler}: {}", run.stderr);
        let effective = run.json().iter().filter_map(|line| line["effective"].as_f64()).collect::<Vec<_>>();
        assert_eq!(effective.len(), resampled, "{sampler}");
        assert!(effective.iter().all(|effective| *effective > 0.99), "{sampler}: {effective:?}");
    }
    let run = run("disc:budget=1000");
    assert!(run.json().iter().all(|line| line["how"] == "accepted"));
    assert!(!run.stderr.contains("resampled"), "{}", run.stderr);
}

#[test]
fn an_audit_refuses_what_none_of_its_samplers_reads() {
    let files = Files::new(&[("t.json", TABLE)]);
    let audit = |samplers: &str, option: &[&str]| {
        let mut args = vec!["audit", "--model", "table:t.json", "--regex", "[01]{1,3}", "--samples", "5"];
        args.extend(["--samplers", samplers, "--seed", "1", "--format", "jsonl"]);
        args.extend(option);
        files.run(&args)
    };
    for (option, readers) in OPTIONS {
        // There only two draft, and nothing is kept.
        let [flag, ..] = option else { unreachable!() };
        if ["--save-trie", "--draft-model"].contains(flag) || option.contains(&"after-mask") {
            continue;
        }
        let is_read = readers.is_empty();
        expect(&audit("masked,greedy", option), is_read, option, "an audit of masked and greedy");
        if let Some(reader) = readers.first() {
            expect(&audit(&format!("masked,{reader}"), option), true, option, reader);
        }
    }
    let draft = ["--draft-model", "ngram"];
    expect(&audit("masked,rejection", &draft), false, &draft, "an audit without drafts");
    expect(&audit("speculative,mentored:kl=0.1", &draft), true, &draft, "an audit of both");
    let run = unskew(&["audit", "--regex", "a", "--samples", "2", "--max-prefixes", "5"]);
    assert!(
        run.refusal().contains("--max-prefixes bounds the search for the exact distribution"),
        "{}",
        run.refusal()
    );
}

/// The end of the output is the end, also where a grammar names its token.
#[test]
fn an_end_token_of_a_grammar_is_the_end_of_the_output() {
    let files = Files::new(&[
        ("t.json", TABLE),
        ("end.lark", b"start: \"0\" <end>"),
        ("plain.lark", b"start: \"0\""),
        ("inside.lark", b"start: \"0\" <end> \"1\""),
        ("text.lark", b"start: \"a\" <|endoftext|>"),
        ("text.gbnf", b"root ::= \"a\" <|endoftext|>?"),
        ("bare.lark", b"start: \"a\""),
    ]);
    let run = |command: &str, grammar: &str, more: &[&str]| {
        let mut args = vec![command, "--model", "table:t.json", "--grammar", grammar, "--format", "jsonl"];
        args.extend(more);
        files.run(&args)
    };
    // The model's own: half, and then a tenth for the end.
    let line =
        &run("generate", "end.lark", &["--end", "model", "--sampler", "masked", "--seed", "1"]).json()[0];
    assert_eq!((line["text"].as_str(), line["ids"].to_string().as_str()), (Some("0"), "[0]"));
    assert!((line["logprob"].as_f64().unwrap() - 0.05f64.ln()).abs() < 1e-6, "{line}");
    let mask = |ids: &str| run("mask", "end.lark", &["--list", "--prefix-ids", ids]);
    assert_eq!(mask("").json(), run("mask", "plain.lark", &["--list"]).json());
    let after = &mask("0").json()[0];
    assert_eq!((after["allowed"].as_u64(), after["accepting"].as_bool()), (Some(0), Some(true)));
    assert!(mask("0,2").refusal().ends_with("it ends the sequence, and so is no token of an output"));
    for (ids, accepted, rejected_at) in [
        ("0", true, Value::Null),
        ("0,2", true, Value::Null),
        ("2", false, Value::from(0)),
        ("0,2,2", false, Value::from(1)),
    ] {
        let answer = &run("check", "end.lark", &["--ids", ids]).json()[0];
        assert_eq!(
            (answer["accepted"].as_bool(), &answer["rejected_at"]),
            (Some(accepted), &rejected_at),
            "{ids}"
        );
    }
    let audited = &run("audit", "end.lark", &["--samplers", "masked", "--samples", "5"]).json()[0];
    assert_eq!(audited["exact"], serde_json::json!({"0": 1.0}));
    for args in [&["mask"][..], &["generate"], &["check", "--ids", "0"], &["audit", "--samples", "5"]] {
        let run = run(args[0], "inside.lark", &args[1..]);
        let message = &run.stderr;
        assert!(
            run.code == 2 && message.contains("`\"1\"` may follow `<end>`, which ends the sequence"),
            "{message}"
        );
    }
    let explained = files.run(&["explain", "--grammar", "end.lark"]).stdout;
    assert!(
        explained.contains("control token `<end>`: the token itself")
            && explained.contains("the end of the output")
    );

    // The embedded model, in every sampler that takes one line.
    for sampler in ["masked", "disc", "greedy", "beam"] {
        let lines = |grammar: &str| {
            let args =
                ["generate", "--grammar", grammar, "--sampler", sampler, "--seed", "3", "--format", "jsonl"];
            files.run(&args).json()
        };
        assert_eq!(lines("text.lark"), lines("bare.lark"), "{sampler}");
        assert_eq!(lines("text.gbnf"), lines("bare.lark"), "{sampler}");
    }
}

/// A checkpoint that this program would run as another model is refused; masks need its tokens alone.
#[test]
fn fields_of_a_configuration_are_refused_by_name() {
    let mut config: Value = serde_json::from_str(TINY.config_json).unwrap();
    let folder = |config: &Value| {
        Files::new(&[
            ("m/config.json", config.to_string().as_bytes()),
            ("m/tokenizer.json", TOKENIZER_JSON.as_bytes()),
            ("m/model.safetensors", TINY.safetensors),
        ])
    };
    let eos = config["eos_token_id"].clone();
    for (field, value, message) in [
        ("sliding_window", serde_json::json!(16), "`sliding_window` = 16, which is not supported"),
        (
            "architectures",
            serde_json::json!(["GemmaForCausalLM"]),
            "`architectures` = [\"GemmaForCausalLM\"]",
        ),
        ("final_logit_softcapping", serde_json::json!(30.0), "`final_logit_softcapping` = 30.0"),
        ("model_type", serde_json::json!("mamba"), "`model_type` = \"mamba\""),
    ] {
        let before = config[field].take();
        config[field] = value;
        let files = folder(&config);
        let refusal = files.run(&["generate", "--model", "m", "--regex", "a"]);
        assert!(refusal.refusal().contains(message), "{}", refusal.refusal());
        let mask = files.run(&["mask", "--model", "m", "--regex", "a", "--format", "jsonl"]).json();
        assert_eq!(mask[0]["allowed"], 1);
        config[field] = before;
    }
    // The tokens that end a sequence are the model's, also with a tokenizer from elsewhere.
    assert_eq!(config["eos_token_id"], eos);
    config["eos_token_id"] = serde_json::json!([1]);
    let mut tokenizer: Value = serde_json::from_str(TOKENIZER_JSON).unwrap();
    let is_control = tokenizer["added_tokens"].as_array().unwrap().iter().any(|token| token["id"] == 1);
    if !is_control {
        let content = tokenizer["model"]["vocab"]
            .as_object()
            .unwrap()
            .iter()
            .find(|(_, id)| **id == 1)
            .unwrap()
            .0
            .clone();
        let token = serde_json::json!({"id": 1, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true});
        tokenizer["added_tokens"].as_array_mut().unwrap().push(token);
    }
    let files = folder(&config);
    std::fs::write(files.path("t.json"), tokenizer.to_string()).unwrap();
    let args =
        ["check", "--model", "m", "--tokenizer", "t.json", "--regex", "", "--ids", "1", "--format", "jsonl"];
    assert_eq!(files.run(&args).json()[0]["accepted"], true);
}

/// A time limit ends `generate` by name. It ends each sampler of an audit, which then compares what was drawn.
#[test]
fn a_time_limit_ends_the_drawing() {
    let files = Files::new(&[("t.json", TABLE)]);
    let never =
        ["--model", "table:t.json", "--regex", "0[01]{3}1{500}", "--seed", "1", "--max-tokens", "600"];
    let rejection = "rejection:tries=10000000";
    let run = files.run(&[&["generate", "--sampler", rejection, "--time-limit", "0.3"], &never[..]].concat());
    assert!(
        run.stderr.contains("the --time-limit of 0.3 seconds is over, after 0 outputs"),
        "{}",
        run.stderr
    );
    let bound = ["audit", "--samplers", "rejection:tries=10000000,masked", "-n", "3", "--time-limit", "0.3"];
    let run = files.run(&[&bound[..], &["--max-prefixes", "10"], &never].concat());
    assert!(
        run.stdout.contains("time_limit") || run.stdout.contains("time-limit"),
        "{}{}",
        run.stdout,
        run.stderr
    );
    assert!(run.stdout.contains("masked"), "{}", run.stdout);
    let zero = files.run(&[&["generate", "--time-limit", "0"], &never[..]].concat());
    assert!(zero.refusal().contains("give seconds above 0"));
}

/// Where outputs take many tries, the place is named where the constraint leaves the model little, and what the model
/// would rather write.
#[test]
fn dear_outputs_say_why() {
    let args = ["generate", "-n", "2", "--seed", "1", "--max-tokens", "16", "--prompt", "Dear ", "--regex"];
    let dear = unskew(&[&args[..], &["[A-Z]{3}[0-9]{4}"]].concat()).stderr;
    let (_, why) = dear.split_once("why outputs are dear: ").unwrap_or_else(|| panic!("{dear}"));
    assert!(why.contains("% of the model's probability; the model would rather write "), "{why}");
    let cheap = unskew(&[&args[..], &["[A-Z][a-z]{1,9}"]].concat()).stderr;
    assert!(!cheap.contains("why outputs are dear"), "{cheap}");
}
