//! Speculative and mentored decoding: on tables against masked sampling and, under rejection and DISC, against the
//! model's own distribution; and with the embedded draft model.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;
use unskew::core::conformance::chi_square;

use crate::support::{Files, TABLE, unskew};

/// Other probabilities over the tokens of [`TABLE`].
const DRAFT: &[u8] =
    br#"{"tokens": ["0", "1"], "eos": 2, "default": [0.3, 0.3, 0.4], "contexts": {"0": [0.1, 0.8, 0.1]}}"#;

fn number(line: &Value, field: &str) -> f64 {
    line[field].as_f64().unwrap_or_else(|| panic!("{field} in {line}"))
}

#[test]
fn speculative_outputs_follow_masked_sampling() {
    let files = Files::new(&[("t.json", TABLE), ("d.json", DRAFT)]);
    let counts = |sampler: &[&str]| {
        let args = ["generate", "--model", "table:t.json", "--regex", "0[01]{1,3}", "--prompt", "1"];
        let more = ["-n", "20000", "--seed", "3", "--format", "jsonl"];
        let mut counts: BTreeMap<String, (u64, f64)> = BTreeMap::new();
        for line in files.run(&[&args[..], &more, sampler].concat()).json() {
            let count = counts.entry(line["text"].as_str().unwrap().to_owned()).or_default();
            // The probability under masked sampling is that of the model without the weight.
            *count = (count.0 + 1, (number(&line, "logprob") - number(&line, "log_weight")).exp());
        }
        counts
    };
    let masked = counts(&["--sampler", "masked"]);
    for draft in ["table:d.json", "ngram"] {
        for length in ["auto", "3"] {
            let method = format!("speculative:length={length}");
            let drafted = counts(&["--sampler", &method, "--draft-model", draft]);
            assert!(drafted.keys().all(|text| masked.contains_key(text)));
            let cells = masked.iter().map(|(text, (_, probability))| {
                (drafted.get(text).map_or(0, |(count, _)| *count), *probability)
            });
            let fit = chi_square(cells);
            assert!(fit.deviation < 4.0 && fit.degrees_of_freedom > 8, "{draft} {length}: {fit:?}");
        }
    }
}

#[test]
fn the_embedded_draft_saves_passes_and_stays_within_its_budget() {
    let pattern = r#"\{"name": "[A-Z][a-z]+", "age": [1-9][0-9]\}"#;
    let valid = Regex::new(&format!("^{pattern}$")).unwrap();
    let run = |sampler: &str| {
        let common =
            ["generate", "--regex", pattern, "--draft-model", "tiny-draft", "-n", "24", "--seed", "1"];
        let lines = unskew(&[&common[..], &["--format", "jsonl", "--sampler", sampler]].concat()).json();
        assert!(lines.iter().all(|line| valid.is_match(line["text"].as_str().unwrap())));
        lines
    };
    let sum = |lines: &[Value], field: &str| lines.iter().map(|line| number(line, field)).sum::<f64>();
    let tokens = |lines: &[Value]| {
        lines.iter().map(|line| line["ids"].as_array().unwrap().len()).sum::<usize>() as f64
    };

    let lossless = run("speculative:length=3");
    assert!(sum(&lossless, "lm_passes") < tokens(&lossless));
    assert!(sum(&lossless, "kl_spent") == 0.0 && sum(&lossless, "draft_passes") > 0.0);

    let mentored = run("mentored:kl=0.3,length=3");
    let accepted = |lines: &[Value]| sum(lines, "drafts_accepted") / sum(lines, "drafts_tested");
    assert!(accepted(&mentored) > accepted(&lossless));
    for line in &mentored {
        assert!(number(line, "kl_spent") <= number(line, "kl_allowed") + 1e-9);
        assert!((number(line, "kl_allowed") - 0.3 * number(line, "drafts_tested")).abs() < 1e-9);
    }
    for line in run("mentored:kl=0.3,budget=sequence,length=3") {
        assert!((number(&line, "kl_allowed") - 0.3).abs() < 1e-9 && number(&line, "kl_spent") <= 0.3 + 1e-9);
    }
}

#[test]
fn counts_by_place_in_a_grammar_draft_too() {
    let files = Files::new(&[(
        "g.lark",
        br#"start: "[" item ("," item)* "]"
item: "{\"id\":" /[0-9]/ "}"
"#,
    )]);
    let args = ["generate", "--grammar", "g.lark", "--sampler", "speculative", "--draft-model", "counts"];
    let run = files.run(&[&args[..], &["-n", "6", "--max-tokens", "40", "--seed", "2"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let summary = Regex::new(r"drafts: \d+ of [1-9]\d* accepted \(\d+ %\), \d+\.\d\d tokens a pass").unwrap();
    assert!(summary.is_match(&run.stderr), "{}", run.stderr);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let files = Files::new(&[
        ("t.json", TABLE),
        ("d.json", DRAFT),
        ("c.json", br#"{"tokens": ["0", "2"], "eos": 2, "default": [0.3, 0.3, 0.4]}"#),
        ("long.json", br#"{"tokens": ["0", "1", "2"], "eos": 3, "default": [0.3, 0.3, 0.3, 0.1]}"#),
    ]);
    let refused = |args: &[&str], expected: &str| {
        let run = files.run(&[&["generate", "--model", "table:t.json"], args].concat());
        assert!(run.refusal().contains(expected), "{}", run.refusal());
    };
    let speculative = ["--sampler", "speculative"];
    refused(&speculative, "needs --draft-model: tiny-draft, a folder, table:FILE, ngram or counts");
    refused(&["--sampler", "mentored"], "mentored needs the parameter `kl`: the Kullback-Leibler divergence");
    let ngram = ["--draft-model", "ngram"];
    let refused_for = |sampler: &'static str, more: &[&str], expected: &str| {
        refused(&[&["--regex", "0[01]*", "--sampler", sampler], &ngram[..], more].concat(), expected);
    };
    refused_for("masked", &[], "not for masked: masked with drafts is speculative");
    for sampler in ["rsft", "awrs", "smc", "mcmc"] {
        refused_for(sampler, &[], "its steps are single tokens");
    }
    refused_for("greedy", &[], "not for greedy: it draws nothing");
    refused_for("disc:top_m=2", &[], "leave out one of the two");
    let with = |more: &[&'static str]| [&speculative[..], more].concat();
    refused(&with(&["--draft-model", "counts"]), "counts tokens by place in a --grammar or --json-schema");
    refused(
        &with(&["--draft-model", "table:c.json"]),
        "token 1 of the draft model is not that of the target",
    );
    refused(&with(&["--draft-model", "table:long.json"]), "4 tokens and the target 3");
    refused(&with(&["--draft-model", "tiny-draft"]), "a draft needs the target's own tokens");
    refused(&with(&["--draft-model", "nowhere"]), "nowhere: no such folder");
    refused_for("speculative:length=long", &[], "give `auto`, or a number");
    refused_for("mentored:kl=nan", &[], "give a number from 0 on");
    refused_for("mentored:kl=-1", &[], "give a number from 0 on");
    refused(
        &with(&["--draft-model", "ngram", "--top-k", "3", "--truncate", "after-mask"]),
        "has no unbiased distribution",
    );
}

#[test]
fn an_audit_shows_acceptance_and_what_was_spent() {
    let files = Files::new(&[("t.json", TABLE), ("d.json", DRAFT)]);
    let args = ["audit", "--model", "table:t.json", "--regex", "0[01]{1,3}", "--prompt", "1", "--seed", "3"];
    let samplers = [
        "--samplers",
        "speculative:length=2,mentored:length=2,kl=0.2",
        "--samples",
        "4000",
        "--format",
        "jsonl",
    ];
    let draft = ["--draft-model", "table:d.json"];
    let lines = files.run(&[&args[..], &samplers, &draft].concat()).json();
    let (lossless, mentored) = (&lines[0], &lines[1]);
    assert!(number(mentored, "draft_acceptance") > number(lossless, "draft_acceptance"));
    assert!(
        number(lossless, "kl_spent") == 0.0 && number(mentored, "kl_spent") <= number(mentored, "kl_allowed")
    );
    // Weights bring both back to the distribution.
    assert!(number(lossless, "tv_weighted") < 0.05 && number(mentored, "tv_weighted") < 0.05);
    assert!(
        files
            .run(&[&args[..], &["--draft-model", "ngram"]].concat())
            .refusal()
            .contains("--draft-model is for --sampler")
    );
}

#[test]
fn exact_samplers_keep_their_distributions_over_drafts() {
    let files = Files::new(&[("t.json", TABLE), ("d.json", DRAFT)]);
    let task = [
        "--model",
        "table:t.json",
        "--regex",
        "0[01]{1,3}",
        "--end",
        "model",
        "--prompt",
        "1",
        "--seed",
        "3",
    ];
    let audit = ["audit", "--samplers", "masked", "--samples", "1", "--format", "jsonl"];
    let lines = files.run(&[&audit[..], &task].concat()).json();
    let exact: BTreeMap<String, f64> = serde_json::from_value(lines[0]["exact"].clone()).unwrap();
    // Tries enough that all are accepted: the few that were resampled would follow another distribution.
    for sampler in [
        "rejection:length=3",
        "disc:form=published,length=3",
        "disc:k=200,form=published,length=3",
        "disc:length=3",
        "ars:length=3",
        "cars:length=3",
    ] {
        // Those that learn know the whole tree soon, and then ask for nothing.
        let learns = matches!(sampler, "disc:length=3" | "ars:length=3" | "cars:length=3");
        for draft in ["table:d.json", "ngram"] {
            let args = ["generate", "-n", "8000", "--format", "jsonl", "--draft-model", draft, "--sampler"];
            let lines = files.run(&[&args[..], &[sampler], &task].concat()).json();
            let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
            for line in &lines {
                assert_eq!((line["how"].as_str(), number(line, "log_weight")), (Some("accepted"), 0.0));
                *counts.entry(line["text"].as_str().unwrap()).or_default() += 1;
            }
            assert!(counts.keys().all(|text| exact.contains_key(*text)));
            let cells = exact.iter().map(|(text, p)| (counts.get(text.as_str()).copied().unwrap_or(0), *p));
            let fit = chi_square(cells);
            assert!(fit.deviation < 4.0 && fit.degrees_of_freedom > 8, "{sampler} {draft}: {fit:?}");
            // Those of refused proposals too, and several tokens of them in a pass.
            let sum = |field: &str| lines.iter().map(|line| number(line, field)).sum::<f64>();
            assert!(learns || sum("proposals") > 1.2 * lines.len() as f64);
            assert!(sum("drafts_accepted") > 0.0 && sum("lm_passes") < sum("lm_calls"));
        }
    }
}

#[test]
fn an_audit_counts_by_place_too() {
    let files = Files::new(&[
        ("g.lark", b"start: \"1\" bit bit bit\nbit: /[01]/\n"),
        (
            "t.json",
            br#"{"tokens": ["0", "1"], "eos": 2, "default": [0.6, 0.3, 0.1], "contexts": {"1 0": [0.3, 0.2, 0.5]}}"#,
        ),
        ("s.json", br#"{"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 3, "maxItems": 3}"#),
    ]);
    let counts = ["--draft-model", "counts", "--seed", "3", "--format", "jsonl"];
    let args = ["audit", "--model", "table:t.json", "--grammar", "g.lark", "--samples", "4000"];
    let samplers = ["--samplers", "masked,speculative,mentored:kl=0.05,cars"];
    let lines = files.run(&[&args[..], &samplers, &counts].concat()).json();
    let [masked, lossless, mentored, cars] = &lines[..] else { panic!("{lines:?}") };
    assert!(masked["draft_acceptance"].is_null() && cars["draft_acceptance"].is_null());
    assert!(number(masked, "tv") > 0.1 && (number(masked, "tv") - number(lossless, "tv")).abs() < 0.04);
    assert!(number(cars, "tv") < 0.04);
    for line in [lossless, mentored] {
        assert!(number(line, "tokens_per_pass") > 1.2 && number(line, "tv_weighted") < 0.04, "{line}");
    }
    // A lossless draft is of use where the rows are not known, and here soon all are; a mentored one is verified
    // everywhere.
    assert!((0.5..1.0).contains(&number(mentored, "draft_acceptance")), "{mentored}");
    assert!(
        number(lossless, "lm_passes_per_sample") < number(mentored, "lm_passes_per_sample"),
        "{lossless}"
    );
    assert!((number(lossless, "kl_spent"), number(lossless, "kl_allowed")) == (0.0, 0.0));
    let (spent, allowed) = (number(mentored, "kl_spent"), number(mentored, "kl_allowed"));
    assert!(0.0 < spent && spent <= allowed + 1e-9, "{spent} of {allowed}");

    // Of a schema, and the embedded model.
    let args = ["audit", "--json-schema", "s.json", "--samplers", "speculative", "--samples", "6"];
    let lines = files.run(&[&args[..], &["--max-tokens", "30"], &counts].concat()).json();
    assert!(number(&lines[0], "draft_acceptance") > 0.0 && number(&lines[0], "tokens_per_pass") > 1.0);

    let refused = |constraint: &[&str], expected: &str| {
        let args =
            ["audit", "--model", "table:t.json", "--samplers", "speculative", "--draft-model", "counts"];
        let run = files.run(&[&args[..], constraint].concat());
        assert!(run.refusal().contains(expected), "{}", run.refusal());
    };
    refused(&["--regex", "1[01]{3}"], "counts tokens by place in a --grammar or --json-schema");
    refused(&["--grammar", "g.lark", "--canonical"], "cannot be combined with counts");
    refused(&["--grammar", "g.lark", "--with", "ascii"], "--json-schema");
    refused(&["--grammar", "g.lark", "--subset", "some"], "--subset is a part of a --set");
}
