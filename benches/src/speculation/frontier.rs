//! The use of a budget: the acceptance of drafts and the tokens of a pass, against the divergence that is allowed.

use std::{fmt::Write as _, path::Path, process::Command};

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use unskew_core::{Sampler, TokenId, Unconstrained, Vocabulary};
use unskew_samplers::{
    Masked, Sampling, Task,
    speculative::{Budget, DraftLength, ModelDraft, SpeculationConfig, SpeculationStats},
};

use super::pairs::Hashed;

/// None first.
const BUDGETS: [f64; 7] = [0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.5];
const VOCABULARY: usize = 500;
const MAX_TOKENS: usize = 32;

fn draw(
    steep: f64,
    apart: f64,
    length: DraftLength,
    budget: Budget,
    outputs: u32,
) -> (SpeculationStats, u64) {
    let mut builder = Vocabulary::builder();
    for id in 0..VOCABULARY - 1 {
        builder.text(format!("{id} ").as_bytes());
    }
    let end = builder.control("<end>");
    builder.end_of_sequence(end);
    let vocabulary = builder.build().expect("short tokens");
    let target = Hashed::model(VOCABULARY, steep, 0.0);
    let task = Task::new(target.clone(), Unconstrained::new(&vocabulary), &vocabulary, MAX_TOKENS);
    let config = SpeculationConfig { length, budget, weights: false };
    let draft = ModelDraft::new(Hashed::model(VOCABULARY, steep, apart));
    // Without memory each row is asked for, and each position drafted.
    let task = Task { max_bytes: 0, ..task.after(vec![TokenId(0)]) };
    let mut sampler = Sampling::speculative(task, Masked::new(), draft, config).expect("they go together");
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut passes = 0;
    for _ in 0..outputs {
        passes += sampler.draw(&mut rng).expect("rows that are distributions").cost.passes;
    }
    (*sampler.machine().speculation(), passes)
}

pub(super) fn report(outputs: u32) -> String {
    let mut out = format!(
        "## The frontier, synthetic pairs\n\n{outputs} outputs of {MAX_TOKENS} tokens for each figure, vocabulary {VOCABULARY}, rows drawn from a hash of \
         the last two tokens; the draft's logits have noise of the standard deviation `noise`. Acceptance is the share of tested drafts \
         that was accepted; a pass is one of the target, over the drafts and one more position. `spent` is the divergence spent per \
         drafted position.\n\n\
         | noise | budget | acceptance | tokens a pass, 4 drafted | tokens a pass, auto | spent | share of the budget |\n\
         |--:|--:|--:|--:|--:|--:|--:|\n"
    );
    for (steep, apart) in [(1.5, 0.5), (1.5, 1.0), (1.5, 2.0)] {
        let budgets = BUDGETS.map(|budget| (format!("{budget}"), Budget::Token(budget)));
        let sequence = (format!("{} an output", 1.0), Budget::sequence(1.0));
        for (name, budget) in budgets.into_iter().chain([sequence]) {
            let (fixed, fixed_passes) = draw(steep, apart, DraftLength::Fixed(4), budget, outputs);
            let (auto, auto_passes) = draw(steep, apart, DraftLength::default(), budget, outputs);
            let allowed = if fixed.allowed > 0.0 { 100.0 * fixed.spent / fixed.allowed } else { 0.0 };
            let _ = writeln!(
                out,
                "| {apart} | {name} | {:.3} | {:.2} | {:.2} | {:.4} | {allowed:.0} % |",
                fixed.acceptance(),
                fixed.tokens as f64 / fixed_passes as f64,
                auto.tokens as f64 / auto_passes as f64,
                fixed.spent / fixed.tested.max(1) as f64,
            );
        }
    }
    out + "\n"
}

/// The sums over the outputs of a run of the command line.
#[derive(Default)]
struct Total {
    tokens: f64,
    passes: f64,
    drafted: f64,
    accepted: f64,
    spent: f64,
    seconds: f64,
}

/// The embedded model and its draft, by the command line: this program need not be built with a tensor library.
pub(super) fn embedded(unskew: &Path, outputs: u32) -> Result<String, String> {
    let is_debug = unskew.components().any(|part| part.as_os_str() == "debug");
    let profile = if is_debug {
        " The command line was a debug build: compare its speeds with each other only."
    } else {
        ""
    };
    let mut out = format!(
        "## The frontier, embedded models\n\n{outputs} outputs of at most 64 tokens, no constraint, `--draft-model tiny-draft`.{profile} Seconds are those of the \
         wall for the whole run, start included: read them with the load in mind. Drafted outputs are made one by one; masked ones \
         too, or up to sixteen step through the model together.\n\n\
         | sampler | budget | acceptance | tokens a pass | spent per output | tokens a second |\n|---|--:|--:|--:|--:|--:|\n"
    );
    let mut line = |name: &str, budget: &str, args: &[&str]| -> Result<(), String> {
        let total = generate(unskew, outputs, args)?;
        let share = if total.drafted > 0.0 {
            format!("{:.3}", total.accepted / total.drafted)
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "| {name} | {budget} | {share} | {:.2} | {:.3} | {:.0} |",
            total.tokens / total.passes,
            total.spent / f64::from(outputs),
            total.tokens / total.seconds,
        );
        Ok(())
    };
    line("masked, sixteen together", "", &["--sampler", "masked"])?;
    line("masked, one by one", "", &["--sampler", "masked", "--batch", "1"])?;
    line("speculative", "0", &["--sampler", "speculative", "--draft-model", "tiny-draft"])?;
    for budget in &BUDGETS[1..] {
        let budget = budget.to_string();
        let method = format!("mentored:kl={budget}");
        let args = ["--sampler", &method, "--draft-model", "tiny-draft"];
        line("mentored", &budget, &args)?;
    }
    Ok(out)
}

fn generate(unskew: &Path, outputs: u32, args: &[&str]) -> Result<Total, String> {
    let begin = std::time::Instant::now();
    let output = Command::new(unskew)
        .args([
            "generate",
            "-n",
            &outputs.to_string(),
            "--seed",
            "1",
            "--max-tokens",
            "64",
            "--format",
            "jsonl",
        ])
        .args(args)
        .output()
        .map_err(|error| format!("{}: {error}", unskew.display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let mut total = Total { seconds: begin.elapsed().as_secs_f64(), ..Total::default() };
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let value: serde_json::Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let number = |name: &str| value[name].as_f64().unwrap_or(0.0);
        total.tokens += value["ids"].as_array().map_or(0, Vec::len) as f64;
        total.passes += number("lm_passes");
        total.drafted += number("drafts_tested");
        total.accepted += number("drafts_accepted");
        total.spent += number("kl_spent");
    }
    Ok(total)
}
