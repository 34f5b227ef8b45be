//! One engine on one regex: the steps that are timed, and how often.
//!
//! A round compiles the regex afresh for every sample, so that each mask along it is made for the first time; then it
//! walks the same sample again, over the caches that the engine has kept. Several rounds, between which other engines
//! have their turn, leave the smallest time of each step: disturbances make steps slower, never faster. So a reported
//! percentile is one over regexes and positions, not over disturbances.
//!
//! An engine that does all its work ahead of time is compiled once per round for all samples.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use unskew_core::{TokenId, WORD_BITS, words_for};

use crate::{
    Subject,
    clock::Moment,
    engine::{AllMasks, Engine, Matcher},
    suite::Case,
};

/// The longest time that making all masks of one regex may take.
const ALL_MASKS: Duration = Duration::from_secs(3);

/// How the heap is looked at, in a program whose allocator counts.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    /// Bytes allocated now.
    pub current: fn() -> usize,
    /// The most bytes since the last reset.
    pub peak: fn() -> usize,
    /// Begins a new peak.
    pub reset: fn(),
}

/// A regex with its samples as tokens of one vocabulary.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// The regex.
    pub(crate) case: Case,
    /// Its samples.
    pub(crate) samples: Vec<Vec<TokenId>>,
}

impl Task {
    /// Tokenizes the samples of `case` as a model would write them after a prompt.
    ///
    /// # Errors
    ///
    /// A sample that the tokenizer cannot write.
    pub(crate) fn new(case: Case, subject: &Subject) -> Result<Self, String> {
        let encode = |text: &str| {
            let ids = subject.tokenizer.encode_continuation(text).map_err(|error| error.to_string())?;
            // A text that the tokenizer normalises is no match any more.
            if subject.vocabulary.decode(&ids) == text.as_bytes() {
                Ok(ids)
            } else {
                Err(format!("{}: the tokenizer changes {text:?}", case.name))
            }
        };
        let samples = case.samples.iter().map(|text| encode(text)).collect::<Result<_, _>>()?;
        Ok(Self { case, samples })
    }
}

/// The measurements of one regex: the smallest times of all rounds, in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// From the pattern to a matcher.
    pub(crate) compile: u64,
    /// From the pattern to the first mask.
    pub(crate) to_first_mask: u64,
    /// Likewise the first time in the run alone, other rounds left out.
    pub(crate) to_first_mask_at_first: Option<u64>,
    /// The samples, in order.
    pub(crate) walks: Vec<Walk>,
    /// The memory that the engine tells after all walks, in bytes.
    pub(crate) memory: Option<usize>,
    /// Heap that the compiled regex holds after all walks, and the most that was in use on the way, in bytes; only in a
    /// program that counts.
    pub(crate) heap: Option<(usize, usize)>,
    /// All masks ahead of time.
    pub(crate) all_masks: Option<AllMasks>,
}

/// One walk along a sample.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Walk {
    /// Times of the masks made for the first time: before each token, and after the last.
    pub(crate) first: Vec<u64>,
    /// Those of them in the first round alone: the caches that an engine keeps beside its matchers have not seen
    /// this sample. Empty where that is not asked for.
    pub(crate) at_first: Vec<u64>,
    /// Times of the same masks on the second walk.
    pub(crate) second: Vec<u64>,
    /// Times of the same masks under a matcher that has walked all samples in front of this one; empty where that is
    /// not asked for.
    pub(crate) after_others: Vec<u64>,
    /// Times of taking each token.
    pub(crate) commit: Vec<u64>,
    /// At which position the sample was refused: a token that the mask lacks, or an end that is not accepted.
    pub(crate) refused: Option<usize>,
    /// A number for each mask, the same for the same text tokens.
    pub(crate) masks: Vec<u64>,
    /// At how many of the tokens the engine forces that token.
    pub(crate) forced: usize,
}

/// Nanoseconds since `begin`.
pub(crate) fn ns(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Measures one round, and gives back the last matcher. An engine that works ahead of time takes the one of the round
/// before instead of compiling again.
///
/// # Errors
///
/// The engine's words for why it does not compile the regex.
pub(crate) fn round<'a>(
    engine: &'a dyn Engine,
    task: &Task,
    mut last: Option<Box<dyn Matcher + 'a>>,
) -> Result<(Outcome, Option<Box<dyn Matcher + 'a>>), String> {
    let mut outcome = Outcome {
        compile: u64::MAX,
        to_first_mask: u64::MAX,
        to_first_mask_at_first: None,
        walks: Vec::new(),
        memory: None,
        heap: None,
        all_masks: None,
    };
    for sample in &task.samples {
        let (mut matcher, compile) = match last.take() {
            Some(mut matcher) if engine.ahead_of_time() => {
                matcher.reset();
                (matcher, None)
            }
            _ => {
                let begin = Moment::now();
                let matcher = engine.compile(&task.case.pattern)?;
                (matcher, Some(begin.ns()))
            }
        };
        let begin = Moment::now();
        matcher.mask();
        let first = begin.ns();
        if let Some(compile) = compile {
            outcome.compile = outcome.compile.min(compile);
            outcome.to_first_mask = outcome.to_first_mask.min(compile + first);
            outcome.to_first_mask_at_first.get_or_insert(compile + first);
        }
        let mut walk = Walk { first: vec![first], ..Walk::default() };
        walk_along(&mut *matcher, sample, &mut walk);
        if walk.refused.is_none() {
            matcher.reset();
            walk_again(&mut *matcher, sample, &mut walk);
        }
        outcome.walks.push(walk);
        outcome.memory = outcome.memory.max(matcher.memory());
        last = Some(matcher);
    }
    Ok((outcome, last))
}

/// The first walk; the mask of the start is made already.
fn walk_along(matcher: &mut dyn Matcher, sample: &[TokenId], walk: &mut Walk) {
    for (position, token) in sample.iter().enumerate() {
        if !contains(matcher.words(), *token) {
            walk.refused = Some(position);
            return;
        }
        let begin = Moment::now();
        let taken = matcher.commit(*token);
        walk.commit.push(begin.ns());
        if !taken {
            walk.refused = Some(position);
            return;
        }
        let begin = Moment::now();
        matcher.mask();
        walk.first.push(begin.ns());
    }
    if !matcher.is_accepting() {
        walk.refused = Some(sample.len());
    }
}

/// The second walk, over a sample that the first has accepted.
fn walk_again(matcher: &mut dyn Matcher, sample: &[TokenId], walk: &mut Walk) {
    for position in 0..=sample.len() {
        let begin = Moment::now();
        matcher.mask();
        walk.second.push(begin.ns());
        if let Some(token) = sample.get(position) {
            let begin = Moment::now();
            matcher.commit(*token);
            walk.commit[position] = walk.commit[position].min(begin.ns());
        }
    }
}

/// Walks all samples with one matcher, as a service that gets the same regex again and again. Samples that were
/// refused are left out.
///
/// # Errors
///
/// As for [`round`].
pub(crate) fn in_a_row(engine: &dyn Engine, task: &Task, outcome: &mut Outcome) -> Result<(), String> {
    let mut matcher = engine.compile(&task.case.pattern)?;
    for (sample, walk) in task.samples.iter().zip(&mut outcome.walks) {
        if walk.refused.is_some() {
            continue;
        }
        matcher.reset();
        for position in 0..=sample.len() {
            let begin = Moment::now();
            matcher.mask();
            walk.after_others.push(begin.ns());
            if let Some(token) = sample.get(position) {
                matcher.commit(*token);
            }
        }
    }
    Ok(())
}

/// Where the masks of two engines are not the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Difference {
    /// How many masks were compared.
    pub(crate) masks: usize,
    /// How many of them differ.
    pub(crate) differ: usize,
    /// How many tokens only the left one allows, over all masks.
    pub(crate) only_left: usize,
    /// Likewise the right one.
    pub(crate) only_right: usize,
    /// The first places where only the left one allows something, and where only the right one does: the text in front
    /// and some of the tokens.
    pub(crate) examples: [Vec<(Vec<u8>, Vec<TokenId>)>; 2],
}

/// Compares the masks of two engines along all samples.
///
/// # Errors
///
/// As for [`round`].
pub(crate) fn difference(
    engines: [&dyn Engine; 2],
    subject: &Subject,
    task: &Task,
) -> Result<Difference, String> {
    let mut difference = Difference::default();
    for sample in &task.samples {
        // Anew: a matcher that has refused a token may be of no use any more.
        let mut left = engines[0].compile(&task.case.pattern)?;
        let mut right = engines[1].compile(&task.case.pattern)?;
        for position in 0..=sample.len() {
            left.mask();
            right.mask();
            let masks = [own_words(left.words(), subject), own_words(right.words(), subject)];
            difference.masks += 1;
            difference.differ += usize::from(masks[0] != masks[1]);
            for (side, [these, those]) in [[0, 1], [1, 0]].into_iter().enumerate() {
                let only = masks[these].iter().zip(&masks[those]).map(|(this, that)| this & !that);
                let only: Vec<u32> = only.collect();
                let count: u32 = only.iter().map(|word| word.count_ones()).sum();
                *[&mut difference.only_left, &mut difference.only_right][side] += count as usize;
                let examples = &mut difference.examples[side];
                if count > 0 && examples.len() < 3 {
                    let ids = (0..subject.vocabulary.len()).map(TokenId::from_index);
                    let some = ids.filter(|id| contains(&only, *id)).take(6).collect();
                    examples.push((subject.vocabulary.decode(&sample[..position]), some));
                }
            }
            if let Some(token) = sample.get(position)
                && !(left.commit(*token) && right.commit(*token))
            {
                break;
            }
        }
    }
    Ok(difference)
}

/// The part that is not timed: masks, forced tokens, and the cost of all masks.
pub(crate) fn examine(matcher: &mut dyn Matcher, subject: &Subject, task: &Task, outcome: &mut Outcome) {
    for (sample, walk) in task.samples.iter().zip(&mut outcome.walks) {
        matcher.reset();
        for position in 0..walk.refused.unwrap_or(sample.len() + 1) {
            let token = sample.get(position);
            walk.forced += usize::from(token.is_some() && matcher.forced().as_ref() == token);
            matcher.mask();
            walk.masks.push(digest(matcher.words(), subject));
            if let Some(token) = token {
                matcher.commit(*token);
            }
        }
    }
    matcher.reset();
    outcome.all_masks = matcher.all_masks(ALL_MASKS);
}

/// Counts the heap that one regex takes, compiled and walked along all samples.
///
/// # Errors
///
/// As for [`round`].
pub(crate) fn weigh(engine: &dyn Engine, task: &Task, meter: Meter) -> Result<Outcome, String> {
    let before = (meter.current)();
    (meter.reset)();
    let mut matcher = engine.compile(&task.case.pattern)?;
    for sample in &task.samples {
        matcher.reset();
        matcher.mask();
        for token in sample {
            if !contains(matcher.words(), *token) || !matcher.commit(*token) {
                break;
            }
            matcher.mask();
        }
    }
    let held = (meter.current)().saturating_sub(before);
    let peak = (meter.peak)().saturating_sub(before);
    let memory = matcher.memory();
    let heap = Some((held, peak));
    Ok(Outcome {
        compile: 0,
        to_first_mask: 0,
        to_first_mask_at_first: None,
        walks: Vec::new(),
        memory,
        heap,
        all_masks: None,
    })
}

impl Outcome {
    /// Keeps the smaller of each two times.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.compile = self.compile.min(other.compile);
        self.to_first_mask = self.to_first_mask.min(other.to_first_mask);
        for (walk, other) in self.walks.iter_mut().zip(&other.walks) {
            smaller(&mut walk.first, &other.first);
            smaller(&mut walk.second, &other.second);
            smaller(&mut walk.after_others, &other.after_others);
            smaller(&mut walk.commit, &other.commit);
        }
        self.memory = self.memory.max(other.memory);
    }
}

fn smaller(times: &mut [u64], others: &[u64]) {
    times.iter_mut().zip(others).for_each(|(time, other)| *time = (*time).min(*other));
}

pub(crate) fn contains(words: &[u32], token: TokenId) -> bool {
    let word = words.get(token.index() / WORD_BITS).copied().unwrap_or(0);
    word >> (token.index() % WORD_BITS) & 1 != 0
}

/// A hash of which text tokens a mask allows (FNV-1a over words).
fn digest(words: &[u32], subject: &Subject) -> u64 {
    own_words(words, subject)
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ u64::from(*word)).wrapping_mul(0x0100_0000_01b3))
}

/// Which text tokens a mask allows.
fn own_words(words: &[u32], subject: &Subject) -> Vec<u32> {
    let mut own = vec![0; words_for(subject.vocabulary.len())];
    own.iter_mut().zip(words).for_each(|(own, word)| *own = *word);
    for index in subject.others.iter().copied().chain([subject.end().index()]) {
        if let Some(word) = own.get_mut(index / WORD_BITS) {
            *word &= !(1 << (index % WORD_BITS));
        }
    }
    own
}
