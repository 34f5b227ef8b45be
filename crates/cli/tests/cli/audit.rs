//! `unskew audit`, over the examples of the repository, and every sampler by name.

use std::path::PathBuf;

use serde_json::Value;

use unskew::{
    Model, Spec, TokenSpace,
    audit::{Audit, Sampled},
    core::TableModel,
};

use crate::support::{Files, TABLE, unskew};

fn example(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name).join("model.json");
    format!("table:{}", path.display())
}

fn audit(model: &str, constraint: &[&str], more: &[&str]) -> Vec<Value> {
    let args = ["audit", "--model", model, "--seed", "1", "--format", "jsonl"];
    unskew(&[&args[..], constraint, more].concat()).json()
}

#[test]
fn the_examples_show_what_they_say() {
    let shoes = ["--choice", "soccer gloves", "--choice", "used shirts", "--choice", "used soccer shoes"];
    let many = ["--samplers", "masked,asap,cars,disc", "--samples", "3000"];
    let lines = audit(&example("soccer-shoes"), &shoes, &many);
    assert_eq!(lines.len(), 4);
    for line in &lines {
        // 0.324 of 0.324, 0.06 and 0.04.
        let exact = line["exact"]["used soccer shoes"].as_f64().unwrap();
        assert!((exact - 0.324 / 0.424).abs() < 1e-5, "{exact}");
        assert_eq!(line["basis"], "exact");
    }
    let gloves = |line: &Value| line["empirical"]["soccer gloves"].as_f64().unwrap();
    assert!((gloves(&lines[0]) - 0.6).abs() < 0.04);
    assert!((gloves(&lines[2]) - 0.06 / 0.424).abs() < 0.03);
    let kl = |line: &Value| line["kl"].as_f64().unwrap();
    assert!(kl(&lines[0]) > 0.3 && kl(&lines[2]) < 0.005 && kl(&lines[3]) < 0.005, "{lines:?}");
    assert!(lines[0]["kl_weighted"].as_f64().unwrap() < 0.01);

    let lines = audit(&example("binary-strings"), &["--regex", "00000|1[01]{4}"], &many);
    assert!((lines[0]["empirical"]["00000"].as_f64().unwrap() - 0.5).abs() < 0.04);
    let ends_with_one: f64 = lines[2]["empirical"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(text, _)| text.ends_with('1'))
        .map(|(_, share)| share.as_f64().unwrap())
        .sum();
    assert!((ends_with_one - 0.9).abs() < 0.03, "{ends_with_one}");

    let lines = audit(&example("names"), &["--regex", " (William|Theodore)"], &many);
    let theodore = |line: &Value| line["empirical"][" Theodore"].as_f64().unwrap();
    assert!(theodore(&lines[0]) > 0.4 && theodore(&lines[2]) < 0.2, "{lines:?}");
}

#[test]
fn every_sampler_has_a_line_and_the_same_fields() {
    let files = Files::new(&[("t.json", TABLE)]);
    let all = "masked,rejection,rsft,ars,cars,disc,asap,awrs,smc,mcmc,imh,beam,greedy";
    let args =
        ["audit", "--model", "table:t.json", "--regex", "1{3}|0[01]", "--samplers", all, "--samples", "60"];
    let lines = files.run(&[&args[..], &["--seed", "2", "--format", "jsonl"]].concat()).json();
    assert_eq!(lines.iter().map(|line| line["sampler"].as_str().unwrap()).collect::<Vec<_>>().join(","), all);
    for line in &lines {
        for field in [
            "kl",
            "tv",
            "lm_calls_per_sample",
            "acceptance",
            "exact",
            "empirical",
            "ess",
            "samples",
            "kl_noise",
        ] {
            assert!(!line[field].is_null(), "{field} of {line}");
        }
        let sum =
            |field: &str| line[field].as_object().unwrap().values().map(|p| p.as_f64().unwrap()).sum::<f64>();
        assert!((sum("exact") - 1.0).abs() < 1e-6 && (sum("empirical") - 1.0).abs() < 1e-6);
    }
    let text = files.run(&[&args[..], &["--seed", "2"]].concat());
    assert_eq!(text.code, 0, "{}", text.stderr);
    assert!(text.stdout.contains("sampler") && text.stdout.contains("greedy"), "{}", text.stdout);
}

/// Masked sampling is cheap and far off; the frontier holds it and a sampler that is near, which is recommended.
#[test]
fn the_frontier_holds_what_no_sampler_beats() {
    let args = [
        "audit",
        "--model",
        "tiny",
        "--regex",
        "[12][0-9]{3}-(0[1-9]|1[0-2])",
        "--prompt",
        "born on ",
        "--seed",
        "1",
    ];
    let samplers = ["--samplers", "masked,twist:budget=2,cars,beam:n=4", "--samples", "60"];
    let lines = unskew(&[&args[..], &samplers, &["--format", "jsonl"]].concat()).json();
    let of = |line: &Value, field: &str| line[field].as_f64().unwrap();
    for line in &lines {
        let beaten = lines.iter().any(|other| {
            of(other, "kl") < of(line, "kl")
                && of(other, "lm_calls_per_sample") < of(line, "lm_calls_per_sample")
        });
        assert!(!(beaten && line["frontier"] == true), "{line}");
    }
    let least = lines.iter().map(|line| of(line, "kl")).fold(f64::INFINITY, f64::min);
    let best: Vec<&Value> = lines.iter().filter(|line| line["recommended"] == true).collect();
    assert!(best.len() == 1 && best[0]["frontier"] == true, "{lines:?}");
    assert!(of(best[0], "kl") <= least + of(best[0], "kl_noise"));
    assert_ne!(best[0]["sampler"], "masked");
    assert_eq!(lines[1]["label"], "twist:budget=2");
    let text = unskew(&[&args[..], &samplers].concat()).stdout;
    let label = best[0]["label"].as_str().unwrap();
    assert!(
        text.contains("frontier: ") && text.contains(&format!("recommended: --sampler {label}, ")),
        "{text}"
    );
}

#[test]
fn the_report_is_one_file_that_needs_nothing_else() {
    let files = Files::new(&[("t.json", TABLE)]);
    let args = ["audit", "--model", "table:t.json", "--choice", "0<b>", "--choice", "1", "--out", "r.html"];
    // A text that the model cannot spell is refused before anything is drawn; one that it can has to be escaped.
    let refused = files.run(&args);
    assert_ne!(refused.code, 101, "{}", refused.stderr);
    let args = [
        "audit",
        "--model",
        "table:t.json",
        "--regex",
        "1{3}|0[01]|(?:<b>)?1",
        "--samples",
        "80",
        "--out",
        "r.html",
    ];
    let run = files.run(&args);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let page = files.read("r.html");
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    for foreign in ["http://", "https://", "<script", "src=", "<link", "<b>)", "NaN", "inf\""] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert_eq!(page.matches("<svg").count(), 3);
    assert!(page.contains("would have been others") && page.contains("class=\"outcome\""), "{page}");
    assert!(page.contains("The frontier") && page.contains("Recommended is"), "{page}");
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(page.contains("polyline") && page.contains("class=\"step\"") && page.contains("cars"));
}

#[test]
fn audits_that_make_no_sense_are_refused() {
    let files = Files::new(&[("t.json", TABLE)]);
    let table = ["audit", "--model", "table:t.json", "--regex", "1"];
    let refused = |more: &[&str]| files.run(&[&table[..], more].concat()).refusal().to_owned();
    assert!(refused(&["--samplers", "auto"]).contains("auto is the choice of one"));
    assert!(refused(&["--samplers", "fair"]).contains("fair"));
    assert!(refused(&["--samplers", "smc:threshold=2"]).contains("between 0 and 1"));
    assert!(refused(&["--out", "no/such/folder/r.html"]).contains("r.html"));
}

#[test]
fn a_sampler_that_gives_up_is_a_finding() {
    let files = Files::new(&[("t.json", TABLE)]);
    let args = [
        "audit",
        "--model",
        "table:t.json",
        "--regex",
        "[01]{12}",
        "--samplers",
        "rejection:tries=1,cars:tries=1",
    ];
    let lines =
        files.run(&[&args[..], &["--samples", "400", "--seed", "1", "--format", "jsonl"]].concat()).json();
    assert!(lines[0]["error"].as_str().unwrap().contains("tries"), "{}", lines[0]);
}

#[test]
fn samplers_are_chosen_with_a_reason_and_searches_give_several() {
    let files = Files::new(&[("t.json", TABLE)]);
    let run = |more: &[&str]| {
        let args = ["generate", "--model", "table:t.json", "--regex", "1{3}|0[01]", "--seed", "1"];
        files.run(&[&args[..], more].concat())
    };
    let few = run(&["-n", "3"]).stderr;
    assert!(few.contains("sampler disc: ") && few.contains("chosen because"), "{few}");
    let exact = run(&["-n", "3", "--exact"]).stderr;
    assert!(exact.contains("sampler cars: ") && exact.contains("it resamples nothing"), "{exact}");
    let best = run(&["-n", "3", "--sampler", "beam", "--format", "jsonl"]).json();
    let scores: Vec<f64> = best.iter().map(|line| line["logprob"].as_f64().unwrap()).collect();
    assert!(scores.len() == 3 && scores.is_sorted_by(|left, right| left >= right), "{scores:?}");
    assert_eq!(best[0]["how"], "searched");
    // The same outputs with any batch.
    let with = |batch: &str| {
        let lines =
            run(&["-n", "40", "--sampler", "rejection", "--batch", batch, "--format", "jsonl"]).json();
        lines.iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(with("1"), with("16"));
    for sampler in ["asap:iterations=5", "ars", "rsft", "awrs", "smc", "mcmc", "imh", "greedy"] {
        let lines = run(&["-n", "4", "--sampler", sampler, "--format", "jsonl"]).json();
        assert_eq!(lines.len(), 4, "{sampler}");
    }
}

/// Most outputs of a wide constraint are drawn once. They are one to an audit, with all that nobody has drawn: compared
/// one by one, an exact sampler seemed to draw a third of its texts wrongly.
#[test]
fn texts_that_are_too_rare_are_compared_together() {
    let audit = |count: &str| {
        let name = "[A-Z][a-z]{2,9} [A-Z][a-z]{2,9}";
        let args = ["audit", "--samplers", "masked,cars", "--prompt", "My name is ", "--regex", name];
        unskew(&[&args[..], &["-n", count, "--seed", "1", "--format", "jsonl"]].concat()).json()
    };
    let lines = audit("300");
    let [masked, cars] = &lines[..] else { panic!("{lines:?}") };
    let of = |line: &Value, field: &str| line[field].as_f64().unwrap();
    assert!((0.5..0.8).contains(&of(cars, "rare")), "{cars}");
    assert!(of(cars, "tv_text") < 0.08 && of(cars, "kl_text") < 4.0 * of(cars, "kl_text_noise"), "{cars}");
    // Weights tell what so few texts do not.
    assert!(of(masked, "tv_by_weights") > 0.05 && of(masked, "kl_by_weights") > 0.1, "{masked}");
    let few = audit("5");
    assert!(few.iter().all(|line| line["tv_text"].is_null()), "{few:?}");
}

/// A token may pass the end of an output, which then has two ways to be written, with probabilities of their own.
#[test]
fn an_output_counts_by_all_ways_to_write_it() {
    // After `a` and after `b` the model ends; `a.` passes the end of `a`.
    let end = vec![0.0, 0.0, 0.0, 1.0];
    let first = (Vec::new(), vec![0.4, 0.3, 0.2, 0.1]);
    let table = TableModel::new(["a", "a.", "b"], end, [first]).unwrap();
    let tokens = TokenSpace::from_vocabulary(std::sync::Arc::clone(table.vocabulary()));
    let model = Model::new(table, tokens).unwrap();
    let request = model.prompt("").constrain(Spec::choices(["a", "b"])).unwrap().seed(1);
    let sampled = [Sampled::draw(request, "cars".parse().unwrap(), 800, |_| {}).unwrap()];
    let line = Audit::new(&sampled, None, model.tokens()).lines().remove(0);
    let target: std::collections::BTreeMap<String, f64> = line.most_probable.into_iter().collect();
    assert!((target["a"] - 0.7 / 0.9).abs() < 0.01 && (target["b"] - 0.2 / 0.9).abs() < 0.01, "{target:?}");
    assert!(line.tv_text.unwrap() < 0.05, "{:?}", line.tv_text);
}
