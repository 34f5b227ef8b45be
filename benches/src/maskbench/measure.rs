//! One schema on one engine.

use std::{cell::OnceCell, collections::HashMap};

use serde::{Deserialize, Serialize};
use unskew_core::TokenId;

use crate::{
    Subject,
    clock::Moment,
    engine::{Engine, Matcher, Work},
    side_by_side::measure::contains,
};

use super::files::{File, written};

/// The measurements of one schema. Times are in nanoseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// The engine's words for why it does not compile the schema; then there is nothing else.
    pub(crate) refused: Option<String>,
    pub(crate) compile: u64,
    /// The first mask, apart from those of the instances.
    pub(crate) first: u64,
    pub(crate) walks: Vec<Walk>,
    /// The slowest masks.
    pub(crate) slow: Vec<Slow>,
}

/// One instance.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Walk {
    pub(crate) valid: bool,
    pub(crate) tokens: usize,
    /// At which token it was refused; the number of tokens if the end was.
    pub(crate) refused_at: Option<usize>,
    /// Of each token up to the refused one: the time for the mask, and the time to take the token.
    pub(crate) steps: Vec<(u64, u64)>,
    /// Whether the engine has refused a token that its mask allows.
    pub(crate) inconsistent: bool,
    /// The work of each step.
    #[serde(skip)]
    work: Vec<Work>,
}

/// A mask with its place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Slow {
    /// Mask and token together.
    pub(crate) ns: u64,
    pub(crate) mask: u64,
    pub(crate) instance: usize,
    pub(crate) position: usize,
    /// The end of the text before it, and the token after it.
    pub(crate) before: String,
    pub(crate) token: String,
    /// The engine's counts of this step.
    pub(crate) work: Work,
}

impl Outcome {
    /// Valid instances that were refused, and invalid ones that were accepted.
    pub(crate) fn wrong(&self) -> (usize, usize) {
        let count = |valid| {
            self.walks.iter().filter(|walk| walk.valid == valid && walk.refused_at.is_some() == valid).count()
        };
        (count(true), count(false))
    }
}

/// Texts as tokens, in the same way for all engines.
pub(crate) struct Encoder<'a> {
    pub(crate) subject: &'a Subject,
    longest: OnceCell<(HashMap<Vec<u8>, TokenId>, usize)>,
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(subject: &'a Subject) -> Self {
        Self { subject, longest: OnceCell::new() }
    }

    /// As the tokenizer writes it; and if that is another text, always the longest token. `None` if no tokens spell it.
    pub(crate) fn encode(&self, text: &str) -> Option<Vec<TokenId>> {
        let vocabulary = &self.subject.vocabulary;
        if let Ok(ids) = self.subject.tokenizer.encode_continuation(text)
            && vocabulary.decode(&ids) == text.as_bytes()
        {
            return Some(ids);
        }
        let (by_text, most) = self.longest.get_or_init(|| {
            let by_text: HashMap<_, _> =
                vocabulary.text_tokens().map(|(id, text)| (text.to_vec(), id)).collect();
            let most = by_text.keys().map(Vec::len).max().unwrap_or(0);
            (by_text, most)
        });
        let (mut ids, mut rest) = (Vec::new(), text.as_bytes());
        while !rest.is_empty() {
            let lengths = (1..=(*most).min(rest.len())).rev();
            let (length, id) =
                lengths.map(|length| (length, by_text.get(&rest[..length]))).find(|(_, id)| id.is_some())?;
            ids.extend(id);
            rest = &rest[length..];
        }
        Some(ids)
    }
}

/// Measures one schema. Each instance is walked by a matcher as it was compiled, or, if `warm`, with the caches that
/// the instances before it have left. So many of the `slowest` masks are told with their place.
///
/// # Errors
///
/// An instance that no tokens spell.
pub(crate) fn measure(
    engine: &dyn Engine,
    encoder: &Encoder<'_>,
    file: &File,
    warm: bool,
    slowest: usize,
) -> Result<Outcome, String> {
    let mut samples = Vec::new();
    for case in &file.tests {
        let text = written(case.data.get());
        samples.push((case.valid, encoder.encode(&text).ok_or("an instance that no tokens spell")?));
    }
    let begin = Moment::now();
    let mut matcher = match engine.compile(file.schema.get()) {
        Ok(matcher) => matcher,
        Err(reason) => return Ok(Outcome { refused: Some(reason), ..Outcome::default() }),
    };
    let compile = begin.ns();
    let begin = Moment::now();
    matcher.mask();
    let first = begin.ns();
    let mut outcome = Outcome { refused: None, compile, first, walks: Vec::new(), slow: Vec::new() };
    for (valid, tokens) in &samples {
        if warm {
            matcher.reset();
        } else {
            matcher.restart();
        }
        outcome.walks.push(walk(&mut *matcher, *valid, tokens));
    }
    outcome.slow = slow(&outcome.walks, &samples, encoder.subject, slowest);
    Ok(outcome)
}

fn walk(matcher: &mut dyn Matcher, valid: bool, tokens: &[TokenId]) -> Walk {
    let mut walk = Walk { valid, tokens: tokens.len(), ..Walk::default() };
    let mut before = matcher.work();
    for (position, token) in tokens.iter().enumerate() {
        let begin = Moment::now();
        matcher.mask();
        let mask = begin.ns();
        let allowed = contains(matcher.words(), *token);
        let begin = Moment::now();
        let taken = allowed && matcher.commit(*token);
        walk.steps.push((mask, if allowed { begin.ns() } else { 0 }));
        let now = matcher.work();
        walk.work.push(now.since(before));
        before = now;
        if !taken {
            walk.inconsistent = allowed;
            walk.refused_at = Some(position);
            return walk;
        }
    }
    if !matcher.is_accepting() {
        walk.refused_at = Some(tokens.len());
    }
    walk
}

fn slow(walks: &[Walk], samples: &[(bool, Vec<TokenId>)], subject: &Subject, most: usize) -> Vec<Slow> {
    let mut steps: Vec<(u64, u64, usize, usize)> = Vec::new();
    for (instance, walk) in walks.iter().enumerate() {
        for (position, (mask, commit)) in walk.steps.iter().enumerate() {
            steps.push((mask + commit, *mask, instance, position));
        }
    }
    steps.sort_unstable_by(|left, right| right.cmp(left));
    steps.truncate(most);
    let text = |ids: &[TokenId]| String::from_utf8_lossy(&subject.vocabulary.decode(ids)).into_owned();
    let slow = steps.into_iter().map(|(ns, mask, instance, position)| {
        let tokens = &samples[instance].1;
        let (before, token) =
            (text(&tokens[position.saturating_sub(16)..position]), text(&tokens[position..=position]));
        let work = walks[instance].work[position];
        Slow { ns, mask, instance, position, before, token, work }
    });
    slow.collect()
}
