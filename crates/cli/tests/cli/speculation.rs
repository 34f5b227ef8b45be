//! Speculative and mentored decoding: on tables against masked sampling, and with the embedded draft model.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;
use unskew::core::laws::chi_square;

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
            let drafted =
                counts(&["--sampler", "speculative", "--draft-model", draft, "--draft-length", length]);
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
    let run = |args: &[&str]| {
        let common =
            ["generate", "--regex", pattern, "--draft-model", "tiny-draft", "-n", "24", "--seed", "1"];
        let lines =
            unskew(&[&common[..], &["--draft-length", "3", "--format", "jsonl"], args].concat()).json();
        assert!(lines.iter().all(|line| valid.is_match(line["text"].as_str().unwrap())));
        lines
    };
    let sum = |lines: &[Value], field: &str| lines.iter().map(|line| number(line, field)).sum::<f64>();
    let tokens = |lines: &[Value]| {
        lines.iter().map(|line| line["ids"].as_array().unwrap().len()).sum::<usize>() as f64
    };

    let lossless = run(&["--sampler", "speculative"]);
    assert!(sum(&lossless, "lm_passes") < tokens(&lossless));
    assert!(sum(&lossless, "kl_spent") == 0.0 && sum(&lossless, "draft_passes") > 0.0);

    let mentored = run(&["--sampler", "mentored", "--mentored-kl", "0.3"]);
    let accepted = |lines: &[Value]| sum(lines, "drafts_accepted") / sum(lines, "drafts_tested");
    assert!(accepted(&mentored) > accepted(&lossless));
    for line in &mentored {
        assert!(number(line, "kl_spent") <= number(line, "kl_allowed") + 1e-9);
        assert!((number(line, "kl_allowed") - 0.3 * number(line, "drafts_tested")).abs() < 1e-9);
    }
    for line in run(&["--sampler", "mentored", "--mentored-kl", "0.3", "--mentored-budget", "sequence"]) {
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
    let mentored = ["--sampler", "mentored", "--draft-model", "table:d.json"];
    refused(&speculative, "needs --draft-model: tiny-draft, a folder, table:FILE, ngram or counts");
    refused(&mentored, "--sampler mentored needs --mentored-kl D");
    refused(&["--draft-model", "ngram"], "are for --sampler speculative and --sampler mentored");
    let with = |more: &[&'static str]| [&speculative[..], more].concat();
    refused(&with(&["--draft-model", "ngram", "--mentored-kl", "1"]), "speculative keeps the law");
    refused(&with(&["--draft-model", "counts"]), "counts tokens by place in a --grammar");
    refused(
        &with(&["--draft-model", "table:c.json"]),
        "token 1 of the draft model is not that of the target",
    );
    refused(&with(&["--draft-model", "table:long.json"]), "4 tokens and the target 3");
    refused(&with(&["--draft-model", "tiny-draft"]), "a draft needs the target's own tokens");
    refused(&with(&["--draft-model", "nowhere"]), "nowhere: no such folder");
    refused(&with(&["--draft-model", "ngram", "--draft-length", "long"]), "give `auto`, or a number");
    let budget = |kl: &'static str| [&mentored[..], &["--mentored-kl", kl]].concat();
    refused(&budget("nan"), "a divergence of at most NaN cannot be asked for");
    let negative = [&mentored[..], &["--mentored-kl=-1"]].concat();
    refused(&negative, "a divergence of at most -1 cannot be asked for");
    refused(
        &with(&["--draft-model", "ngram", "--top-k", "3", "--truncate", "after-mask"]),
        "has no unbiased law",
    );
}

#[test]
fn an_audit_shows_acceptance_and_what_was_spent() {
    let files = Files::new(&[("t.json", TABLE), ("d.json", DRAFT)]);
    let args = ["audit", "--model", "table:t.json", "--regex", "0[01]{1,3}", "--prompt", "1", "--seed", "3"];
    let samplers = ["--samplers", "speculative,mentored", "--samples", "4000", "--format", "jsonl"];
    let draft = ["--draft-model", "table:d.json", "--draft-length", "2", "--mentored-kl", "0.2"];
    let lines = files.run(&[&args[..], &samplers, &draft].concat()).json();
    let (lossless, mentored) = (&lines[0], &lines[1]);
    assert!(number(mentored, "draft_acceptance") > number(lossless, "draft_acceptance"));
    assert!(
        number(lossless, "kl_spent") == 0.0 && number(mentored, "kl_spent") <= number(mentored, "kl_allowed")
    );
    // Weights bring both back to the law.
    assert!(number(lossless, "tv_weighted") < 0.05 && number(mentored, "tv_weighted") < 0.05);
    assert!(
        files.run(&[&args[..], &["--draft-model", "ngram"]].concat()).refusal().contains("are for --sampler")
    );
}
