//! How much of a document is known before a model is asked: by the grammar (forced tokens), by ten earlier documents
//! (drafts of [`CountModel`], warmed up as in DOMINO), and how often a mask is not needed because the token that a
//! model wants is allowed.
//!
//! No model runs here. A document stands for the output of a model: a draft is accepted as far as the document goes
//! on like it, and each call adds one token of the document after that. The token that a model without a grammar
//! would want is guessed: it is the most frequent one after the last tokens in the ten documents.

use std::{collections::HashMap, fmt::Write as _, sync::Arc};

use unskew_core::{Constraint, Proposer, TokenId};
use unskew_grammar::GrammarLimits;
use unskew_grammars::{CountConfig, CountModel, GrammarConstraint, TreeLibrary};
use unskew_notation::{GrammarOptions, from_lark};

use super::{VocabularyResult, measure::Task};

/// How many documents are learned from.
const WARM_UP: usize = 10;
/// Up to how many tokens are drafted for a call.
const MOST: usize = 8;
/// The most tokens before a guess.
const CONTEXT: usize = 3;

/// The counts of one grammar, over the documents after the first ten.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Known {
    tokens: usize,
    forced: usize,
    calls: usize,
    drafted: usize,
    accepted: usize,
    /// Positions at which the most frequent token is allowed.
    hits: usize,
}

/// A table with a row for each grammar.
pub(crate) fn table(result: &VocabularyResult) -> String {
    let trie = Arc::clone(&result.subject.trie);
    let library = Arc::new(TreeLibrary::new(trie, 64 << 20));
    let mut out = format!(
        "Tokens that are known before a model is asked, in the documents after the first {WARM_UP}: forced tokens; drafts of up to {MOST} \
         tokens by counts of the first {WARM_UP} documents, where a document stands for the output of a model; and where the token that \
         came most often after the last {CONTEXT} (or fewer) is allowed, so that no mask is needed.\n\n\
         | grammar | tokens | forced | drafts accepted | accepted for a call | tokens for a call | no mask needed |\n\
         |---|--:|--:|--:|--:|--:|--:|\n"
    );
    for task in &result.tasks {
        let Some(known) = known(task, &library) else { continue };
        let share = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
        let each = |part: usize| part as f64 / known.calls.max(1) as f64;
        let _ = writeln!(
            out,
            "| {} | {} | {:.1} % | {:.1} % | {:.2} | {:.2} | {:.1} % |",
            task.case.name,
            known.tokens,
            share(known.forced, known.tokens),
            share(known.accepted, known.drafted),
            each(known.accepted),
            each(known.tokens),
            share(known.hits, known.tokens),
        );
    }
    out + "\n"
}

/// `None` if the grammar does not compile, or there are no more documents than are learned from.
fn known(task: &Task, library: &Arc<TreeLibrary>) -> Option<Known> {
    let limits = GrammarLimits::default();
    let grammar = from_lark(&task.case.pattern, &GrammarOptions::default(), &limits).ok()?;
    let constraint = GrammarConstraint::with_library(&grammar, library, &limits).ok()?;
    let mut scratch = constraint.scratch();
    let mut counts = CountModel::new(CountConfig::default());
    let mut came: HashMap<&[TokenId], HashMap<TokenId, u32>> = HashMap::new();
    let (first, others) = task.samples.split_at_checked(WARM_UP).filter(|(_, others)| !others.is_empty())?;
    for sample in first {
        let mut state = constraint.start();
        for (at, token) in sample.iter().enumerate() {
            counts.observe(&constraint, &mut scratch, &state, *token);
            for from in at.saturating_sub(CONTEXT)..=at {
                *came.entry(&sample[from..at]).or_default().entry(*token).or_default() += 1;
            }
            constraint.advance(&mut scratch, &mut state, *token).ok()?;
        }
    }
    counts.freeze();
    let most_often = |before: &[TokenId]| {
        let from = before.len().saturating_sub(CONTEXT);
        let behind = (from..=before.len()).find_map(|from| came.get(&before[from..]))?;
        behind
            .iter()
            .max_by_key(|(token, times)| (**times, std::cmp::Reverse(**token)))
            .map(|(token, _)| *token)
    };

    let mut known = Known::default();
    let mut draft: Vec<TokenId> = Vec::new();
    for sample in others {
        let mut state = constraint.start();
        // Up to where the last call has come.
        let mut written = 0;
        for (at, token) in sample.iter().enumerate() {
            if at == written {
                draft.clear();
                counts.propose(&constraint, &mut scratch, &sample[..at], &state, MOST, &mut draft);
                let accepted =
                    draft.iter().zip(&sample[at..]).take_while(|(left, right)| left == right).count();
                known.calls += 1;
                known.drafted += draft.len();
                known.accepted += accepted;
                written = at + accepted + 1;
            }
            known.tokens += 1;
            known.forced += usize::from(constraint.forced(&mut scratch, &state) == Some(*token));
            let wanted = most_often(&sample[..at]);
            known.hits +=
                usize::from(wanted.is_some_and(|token| constraint.allows(&mut scratch, &state, token)));
            constraint.advance(&mut scratch, &mut state, *token).ok()?;
        }
    }
    Some(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{subject, suite::Case};

    #[test]
    fn what_always_comes_again_is_known() {
        let subject = subject("tiny").unwrap().expect("it is embedded");
        let library = Arc::new(TreeLibrary::new(Arc::clone(&subject.trie), 64 << 20));
        let case = |texts: Vec<&'static str>| Case {
            name: "pairs",
            pattern: "start: (\"<\" /[a-z]/ \">\")+".into(),
            samples: texts.into_iter().map(Into::into).collect(),
            json: false,
        };
        let of = |texts: Vec<&'static str>| known(&Task::new(case(texts), &subject).unwrap(), &library);
        assert_eq!(of(vec!["<a>"; WARM_UP]), None, "nothing is left");
        let known = of([vec!["<a><a>"; WARM_UP], vec!["<a><a><a><a>"; 2]].concat()).unwrap();
        assert!(known.accepted > 0 && known.accepted <= known.drafted, "{known:?}");
        // A call adds a token after the draft, but for the last of a document.
        let written = known.calls + known.accepted;
        assert!((known.tokens..=known.tokens + 2).contains(&written), "{known:?}");
        assert_eq!(known.hits, known.tokens, "nothing else ever came: {known:?}");
        let surprised = of([vec!["<a>"; WARM_UP], vec!["<b><c>"; 2]].concat()).unwrap();
        assert!(surprised.accepted < surprised.drafted && surprised.hits < surprised.tokens, "{surprised:?}");
    }
}
