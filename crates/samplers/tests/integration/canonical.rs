//! The effect of improper spellings on masked sampling, on two names, exactly: no draw is made.
//!
//! The example is that of V. Tran-Thien, *Fast, High-Fidelity LLM Decoding with Regex Constraints* (2024), section
//! "Skewed Probability Distribution". There P(William) is .8588 under the model, .5285 with every spelling allowed
//! and .8587 with the proper ones. The model here is a table with numbers of that kind. Nearly all of the mass of the
//! names is on their proper spellings. The short tokens that a name begins with are common words, after which the
//! model almost never goes on to the name.

use std::{fmt::Write as _, sync::Arc};

use unskew_automata::{
    Dfa, Limits, TokenDfa,
    published::{InitialTokens, LiftedDfa, MergedDfa, PublishedLimits},
};
use unskew_core::{Constraint, ExactDistribution, TableModel, TokenId, TokenMask};
use unskew_testdata::two_names::{self, token};
use unskew_trie::TokenTrie;

/// A row with the given probabilities, the end of the sequence under `""`. The remaining probability is spread evenly.
fn row(entries: &[(&str, f64)]) -> Vec<f64> {
    let texts = two_names::texts();
    let left = 1.0 - entries.iter().map(|(_, probability)| probability).sum::<f64>();
    #[allow(clippy::cast_precision_loss, reason = "a vocabulary is far below 2^52")]
    let mut row = vec![left / (texts.len() + 1) as f64; texts.len() + 1];
    for (text, probability) in entries {
        let at = if text.is_empty() { texts.len() } else { token(text).index() };
        row[at] += probability;
    }
    row
}

fn model() -> TableModel {
    let ids = |texts: &[&str]| texts.iter().map(|text| token(text)).collect::<Vec<_>>();
    let contexts = [
        // The first token: the names' own, and the words that they begin with.
        (
            vec![],
            row(&[
                (" William", 0.42),
                (" Theo", 0.068),
                (" The", 0.27),
                (" T", 0.02),
                (" Th", 0.02),
                (" W", 0.01),
                (" ", 0.01),
                ("", 0.15),
            ]),
        ),
        (ids(&[" William"]), row(&[("", 0.95)])),
        (ids(&[" Theo"]), row(&[("d", 0.997)])),
        (ids(&[" Theo", "d"]), row(&[("ore", 0.999)])),
        (ids(&[" Theo", "d", "ore"]), row(&[("", 0.95)])),
    ];
    TableModel::new(two_names::texts(), row(&[("", 0.99)]), contexts).unwrap()
}

/// The distribution of masked sampling: at each step the mask is applied and the row divided by the mass that is
/// left. Answers P(William), the mean number of tokens, and how many of these are forced.
fn masked<C: Constraint>(model: &TableModel, constraint: &C) -> (f64, f64, f64) {
    let (mut william, mut tokens, mut forced) = (0.0, 0.0, 0.0);
    let mut scratch = constraint.scratch();
    let mut open = vec![(Vec::<TokenId>::new(), constraint.start(), 1.0)];
    let mut total = 0.0;
    while let Some((prefix, state, probability)) = open.pop() {
        if constraint.is_accepting(&state) {
            // No name goes on here, so the output ends.
            total += probability;
            if model.vocabulary().decode(&prefix) == two_names::NAMES[0].as_bytes() {
                william += probability;
            }
            continue;
        }
        let mut mask = TokenMask::new(constraint.vocab_len());
        constraint.fill_mask(&mut scratch, &state, mask.as_mut());
        let row = model.row(&prefix);
        let mass: f64 = mask.ids().map(|id| row[id.index()]).sum();
        tokens += probability;
        if constraint.forced(&mut scratch, &state).is_some() {
            forced += probability;
        }
        for id in mask.ids() {
            let mut after = state.clone();
            constraint.advance(&mut scratch, &mut after, id).unwrap();
            open.push(([&prefix[..], &[id]].concat(), after, probability * row[id.index()] / mass));
        }
    }
    assert!((total - 1.0).abs() < 1e-12);
    (william, tokens, forced)
}

/// P(William) given that the output is accepted, and P(accepted), under the model.
fn conditional<C: Constraint>(model: &TableModel, constraint: &C) -> (f64, f64) {
    let end = model.vocabulary().end_of_sequence().to_vec();
    let distribution =
        ExactDistribution::enumerate(&mut model.clone(), constraint, &[], &end, 9, 100_000).unwrap();
    let is_william = |output: &[TokenId]| model.vocabulary().decode(output) == two_names::NAMES[0].as_bytes();
    let william = distribution
        .iter()
        .filter(|(output, _)| is_william(output))
        .map(|(_, probability)| probability)
        .sum();
    (william, distribution.mass())
}

/// P(William) as bars, with the share of forced tokens.
fn figure(rows: &[(&str, f64, Option<f64>)]) -> String {
    const FULL: f64 = 40.0;
    let mut figure = String::new();
    for (what, william, forced) in rows {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length below 41")]
        let bar = "#".repeat((william * FULL).round() as usize);
        let forced =
            forced.map_or(String::new(), |share| format!("; {:.1} % of tokens forced", share * 100.0));
        writeln!(figure, "{what:40} {bar:.<40} {william:.4}{forced}").unwrap();
    }
    figure
}

#[test]
fn two_names() {
    let model = model();
    let (limits, published) = (Limits::default(), PublishedLimits::default());
    // The model's vocabulary: the tokens of the names, and the end.
    let vocabulary = Arc::clone(model.vocabulary());
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    let dfa = Arc::new(Dfa::from_pattern(two_names::PATTERN, &limits).unwrap());
    let symbols = InitialTokens::from_vocabulary(&vocabulary);
    let proper =
        MergedDfa::direct_merge(&dfa, &vocabulary, &symbols, &two_names::merges(), &published).unwrap();
    let tokens = TokenDfa::new(dfa, trie, &limits).unwrap();
    let every = LiftedDfa::new(&tokens, &published).unwrap();

    let (distribution_of_every, mass_of_every) = conditional(&model, &every);
    let (distribution_of_proper, mass_of_proper) = conditional(&model, &proper);
    assert!((distribution_of_every - 0.86).abs() < 0.005, "{distribution_of_every}");
    assert!(mass_of_proper / mass_of_every > 0.998, "nearly all of the mass is on proper spellings");
    assert!(
        (distribution_of_every - distribution_of_proper).abs() < 0.001,
        "{distribution_of_every} {distribution_of_proper}"
    );

    let (skewed, tokens_of_every, forced_of_every) = masked(&model, &every);
    assert!((skewed - 0.53).abs() < 0.02, "{skewed}");
    let (canonical, tokens_of_proper, forced_of_proper) = masked(&model, &proper);
    assert!((canonical - distribution_of_proper).abs() < 0.001, "{canonical} {distribution_of_proper}");

    // The shares of tokens that need no model.
    let (share_of_every, share_of_proper) =
        (forced_of_every / tokens_of_every, forced_of_proper / tokens_of_proper);
    assert!((share_of_every - 0.1265).abs() < 0.001, "{share_of_every}");
    assert!((share_of_proper - 0.2192).abs() < 0.001, "{share_of_proper}");
    let rows = [
        ("the model's distribution, given one of the names", distribution_of_every, None),
        ("masked, every spelling", skewed, Some(share_of_every)),
        ("masked, proper spellings", canonical, Some(share_of_proper)),
    ];
    assert_eq!(figure(&rows), include_str!("../../../automata/docs/two-names-distribution.txt"));
    // William is one token, of which none is forced; Theodore is three, of which two are.
    assert!((share_of_proper - 2.0 * (1.0 - canonical) / (1.0 + 2.0 * (1.0 - canonical))).abs() < 1e-12);
}
