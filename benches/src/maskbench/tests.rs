//! The harness, held against engines that are wrong on purpose.

use unskew_core::{TokenId, words_for};

use super::{
    EngineResult,
    files::File,
    measure::{Encoder, Outcome, measure},
    report::{Counts, cause, json, plot, points},
};
use crate::{
    Subject,
    engine::{Engine, Matcher, ours_for_schemas},
    subject_of_file,
};

/// Schemas with instances, as MaskBench has them.
const FILES: [(&str, &str); 4] = [
    ("person", include_str!("../../schemas/maskbench/person.json")),
    ("tree", include_str!("../../schemas/maskbench/tree.json")),
    ("codes", include_str!("../../schemas/maskbench/codes.json")),
    ("unknown", include_str!("../../schemas/maskbench/unknown.json")),
];

fn files() -> Vec<File> {
    FILES
        .iter()
        .map(|(name, text)| serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}")))
        .collect()
}

fn outcomes(engine: &dyn Engine, subject: &Subject) -> Vec<Result<Outcome, String>> {
    let encoder = Encoder::new(subject);
    files().iter().map(|file| measure(engine, &encoder, file, false, 5)).collect()
}

/// An engine that is wrong.
struct Planted {
    tokens: usize,
    how: How,
}

#[derive(Clone, Copy)]
enum How {
    /// Every token, and the end anywhere.
    AllowsAll,
    /// Every token, and never the end.
    NeverEnds,
    AllowsNothing,
    /// Its masks allow tokens that it does not take.
    Inconsistent,
}

impl Engine for Planted {
    fn compile(&self, _: &str) -> Result<Box<dyn Matcher + '_>, String> {
        let word = if matches!(self.how, How::AllowsNothing) { 0 } else { u32::MAX };
        Ok(Box::new(PlantedMatcher { how: self.how, words: vec![word; words_for(self.tokens)] }))
    }
}

struct PlantedMatcher {
    how: How,
    words: Vec<u32>,
}

impl Matcher for PlantedMatcher {
    fn mask(&mut self) {}

    fn words(&self) -> &[u32] {
        &self.words
    }

    fn commit(&mut self, _: TokenId) -> bool {
        !matches!(self.how, How::Inconsistent)
    }

    fn is_accepting(&mut self) -> bool {
        matches!(self.how, How::AllowsAll)
    }

    fn reset(&mut self) {}

    fn forced(&mut self) -> Option<TokenId> {
        None
    }
}

#[test]
fn our_engine_is_right_about_all_instances() {
    let subject = subject_of_file(None).unwrap();
    let engine = (ours_for_schemas()[0].build)(&subject).unwrap();
    let outcomes = outcomes(&*engine, &subject);
    let counts = Counts::of(&outcomes);
    assert_eq!((counts.schemas, counts.compiled, counts.passing), (4, 3, 3), "{counts:?}");
    assert_eq!((counts.validation_errors, counts.invalidation_errors, counts.inconsistent), (0, 0, 0));
    let reason = outcomes[3].as_ref().unwrap().refused.clone().unwrap();
    assert_eq!(cause(&reason), "`pattern`");
    // One time for each token, up to the refused one.
    for walk in outcomes.iter().flatten().flat_map(|outcome| &outcome.walks) {
        assert_eq!(walk.steps.len(), walk.refused_at.map_or(walk.tokens, |at| (at + 1).min(walk.tokens)));
    }
    // Warm and cold matchers say the same.
    let encoder = Encoder::new(&subject);
    for (file, cold) in files().iter().zip(&outcomes) {
        let warm = measure(&*engine, &encoder, file, true, 5).unwrap();
        let said = |outcome: &Outcome| outcome.walks.iter().map(|walk| walk.refused_at).collect::<Vec<_>>();
        assert_eq!(said(&warm), said(cold.as_ref().unwrap()));
    }
}

#[test]
fn order_is_an_option() {
    let subject = subject_of_file(None).unwrap();
    let file: File = serde_json::from_str(
        r#"{"schema": {"type": "object", "properties": {"a": true, "b": true}, "additionalProperties": false},
            "tests": [{"valid": true, "data": {"b": 1, "a": 2}}, {"valid": false, "data": {"b": 1, "c": 2}}]}"#,
    )
    .unwrap();
    let wrong = ours_for_schemas().into_iter().map(|builder| {
        let engine = (builder.build)(&subject).unwrap();
        measure(&*engine, &Encoder::new(&subject), &file, false, 5).unwrap().wrong()
    });
    // In the schema's order, in any order, and in its order with canonical spelling.
    assert_eq!(wrong.collect::<Vec<_>>(), [(1, 0), (0, 0), (1, 0)]);
}

#[test]
fn wrong_engines_are_found_out() {
    let subject = subject_of_file(None).unwrap();
    let counted = |how| {
        let engine = Planted { tokens: subject.vocabulary.len(), how };
        Counts::of(&outcomes(&engine, &subject))
    };
    let all = counted(How::AllowsAll);
    assert_eq!((all.compiled, all.passing, all.validation_errors, all.invalidation_errors), (4, 0, 0, 4));
    let never = counted(How::NeverEnds);
    assert_eq!((never.passing, never.validation_errors, never.invalidation_errors), (0, 4, 0));
    let nothing = counted(How::AllowsNothing);
    assert_eq!((nothing.valid.0, nothing.validation_errors, nothing.invalidation_errors), (0, 4, 0));
    let inconsistent = counted(How::Inconsistent);
    assert_eq!(inconsistent.inconsistent, inconsistent.valid.1 + inconsistent.invalid.1);
    assert!(all.inconsistent == 0 && inconsistent.inconsistent > 0);
}

#[test]
fn the_figures_have_their_names() {
    let subject = subject_of_file(None).unwrap();
    let engine = (ours_for_schemas()[0].build)(&subject).unwrap();
    let mut outcomes = outcomes(&*engine, &subject);
    outcomes.push(Err("over 30s".to_owned()));
    let result = EngineResult { name: "unskew", ready: None, outcomes, peak: 5 << 20 };
    let counts = Counts::of(&result.outcomes);
    assert_eq!((counts.schemas, counts.given_up, counts.compiled), (5, 1, 3));
    let json = json(std::slice::from_ref(&result));
    let figures = &json["engines"]["unskew"];
    let keys = |value: &serde_json::Value| {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(
        keys(figures),
        [
            "compiled",
            "invalidation_errors",
            "mask_us",
            "passing",
            "peak_rss_mb",
            "schemas",
            "ttfm_us",
            "validation_errors"
        ]
    );
    assert_eq!(keys(&figures["ttfm_us"]), ["avg", "max", "p50", "p90", "p99"]);
    assert_eq!(keys(&figures["mask_us"]), ["avg", "max", "p50", "p90", "p99", "p999"]);
    assert_eq!(figures["peak_rss_mb"], 5.0);
    assert!(figures["mask_us"]["max"].as_f64() >= figures["mask_us"]["p50"].as_f64());
    assert_eq!(points(&[500, 2_000]), [[0.5, 1.0], [2.0, 0.5]]);
    let plot = plot(&[result]);
    assert!(plot.matches("<polyline").count() == 2 && !plot.contains("NaN"), "{plot}");
}

#[test]
fn reasons_are_counted_by_keyword() {
    assert_eq!(
        cause("#/items: `uniqueItems` is not enforced: a grammar cannot compare items; leave it out"),
        "`uniqueItems`"
    );
    assert_eq!(cause("Unimplemented keys: [\"not\", \"if\"]"), "`not`, `if`");
    assert_eq!(cause("no value satisfies the schema"), "no value satisfies the schema");
    assert_eq!(cause("12 rules pass 50000"), cause("13 rules pass 40000"));
}

/// The arguments of a worker are those of the program; both kinds are read.
#[test]
fn a_worker_needs_no_data() {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: super::Options,
    }
    let parse = |args: &[&str]| <Line as clap::Parser>::try_parse_from([&["maskbench"], args].concat());
    assert!(parse(&["--worker", "unskew", "--warm"]).is_ok());
    assert!(parse(&[]).is_err_and(|error| error.to_string().contains("--data")));
    let line = parse(&["--data", "d", "--peers", "llguidance,glrmask", "Github"]).ok().unwrap();
    assert_eq!((line.options.peers.len(), line.options.filters.len()), (2, 1));
}
