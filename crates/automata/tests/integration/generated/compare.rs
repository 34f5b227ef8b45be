//! One tokenizer: the engine's answers against the library's.

use std::collections::{BTreeMap, HashSet};

use unskew_core::{Constraint, TokenId, TokenKind};

use super::{
    engine::{Engine, accepts, mask},
    judge::{Judge, quietly},
    plan::Plan,
};
use crate::common::Random;

/// The amount of comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// The number of texts that are encoded, each with its changes.
    pub(crate) texts: usize,
    /// The bound on enumerated sequences.
    pub(crate) sequences: usize,
    /// The number of walks by the masks, under each constraint.
    pub(crate) walks: usize,
    /// The number of constraints on the text.
    pub(crate) patterns: usize,
}

/// The constraints on texts. The last ones have many states and take long without optimisation.
const PATTERNS: [&str; 12] = [
    r"(a|b|ab| ){0,6}",
    r"[ab]{1,4}",
    r" ?[a-z]+( [a-z]+)*",
    r"\s{0,5}",
    r"[ \n]*a?",
    r"[0-9]{1,6}",
    r"[Aa]b*'s( |1)*",
    r"  +[^ ]",
    r"[^ab]{0,4}",
    r"(?s:.){1,3}",
    r"\p{L}+ ?\p{L}*",
    r"(\p{L}\p{M}?)+",
];
const QUICK: usize = if cfg!(debug_assertions) { 8 } else { PATTERNS.len() };

/// A sequence on which the engine and the library differ.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    /// The fault.
    pub(crate) kind: &'static str,
    pub(crate) pattern: Option<&'static str>,
    pub(crate) ids: Vec<u32>,
    /// The ids that the library writes for the same text.
    pub(crate) expected: Option<Vec<u32>>,
    pub(crate) text: Option<String>,
}

/// The outcome of a tokenizer.
pub(crate) enum Outcome {
    /// The library does not read it.
    LibraryFailed(String),
    /// The engine refuses it.
    Refused(String),
    /// The engine and the library were compared.
    Compared(Report),
}

#[derive(Default)]
pub(crate) struct Report {
    pub(crate) sequences: usize,
    pub(crate) canonical: usize,
    pub(crate) walks: usize,
    /// The number of texts on which the library panics.
    pub(crate) library_panics: usize,
    /// There is no exact judge, although the engine accepts the tokenizer.
    pub(crate) no_judge: bool,
    pub(crate) differences: Vec<Difference>,
    /// Other observed differences, by kind, with a count and an example.
    pub(crate) notes: BTreeMap<&'static str, (usize, String)>,
}

/// A kind of difference: the library writes the text in another way.
const ACCEPTED: &str = "another sequence is accepted";

/// The bound on kept differences of a tokenizer.
const KEPT: usize = 200;

pub(crate) fn compare(plan: &Plan, effort: Effort, seed: u64) -> Outcome {
    let judge = match Judge::load(plan) {
        Ok(judge) => judge,
        Err(message) => return Outcome::LibraryFailed(message),
    };
    let file = plan.file();
    let panicked = |kind| {
        let difference = Difference { kind, pattern: None, ids: vec![], expected: None, text: None };
        Outcome::Compared(Report { differences: vec![difference], ..Report::default() })
    };
    let engine = match quietly(|| Engine::load(&file)) {
        None => return panicked("the engine panics when it is built"),
        Some(Err(reason)) => return Outcome::Refused(reason),
        Some(Ok(engine)) => engine,
    };
    if plan.prefixes_pieces() {
        return Outcome::Compared(Report { no_judge: true, ..Report::default() });
    }
    let mut comparison =
        Comparison { plan, judge, engine, random: Random::new(seed), report: Report::default() };
    match quietly(|| comparison.run(effort)) {
        None => panicked("the engine panics"),
        Some(()) => Outcome::Compared(comparison.report),
    }
}

/// Whether the engine and the library still differ on the one sequence `ids`.
pub(crate) fn differs(plan: &Plan, ids: &[u32]) -> Option<Difference> {
    let judge = Judge::load(plan).ok()?;
    let engine = quietly(|| Engine::load(&plan.file()))?.ok()?;
    if plan.prefixes_pieces() {
        return None;
    }
    let mut comparison =
        Comparison { plan, judge, engine, random: Random::new(0), report: Report::default() };
    quietly(|| _ = comparison.acceptance(&[ids.to_vec()]))?;
    comparison.report.differences.pop()
}

struct Comparison<'a> {
    plan: &'a Plan,
    judge: Judge,
    engine: Engine,
    random: Random,
    report: Report,
}

impl Comparison<'_> {
    fn run(&mut self, effort: Effort) {
        let mut sequences: Vec<Vec<u32>> = vec![vec![]];
        let mut previous: Vec<u32> = vec![];
        for _ in 0..effort.texts {
            let text = self.text();
            let Some(ids) = self.judge.encode(&text) else {
                self.report.library_panics += 1;
                continue;
            };
            self.whole(&text);
            self.changes(&ids, &previous, &mut sequences);
            // The decoded text, encoded again, most often gives a canonical sequence.
            if let Some(spelled) = self.engine.text(&ids)
                && spelled != text
                && let Some(again) = self.judge.encode(&spelled)
            {
                sequences.push(again);
            }
            previous.clone_from(&ids);
            sequences.push(ids);
        }
        self.enumerate(effort.sequences, &mut sequences);
        let mut seen = HashSet::new();
        sequences.retain(|ids| seen.insert(ids.clone()));
        let canonical = self.acceptance(&sequences);
        self.walks(None, effort.walks);
        for _ in 0..effort.patterns {
            let pattern = PATTERNS[self.random.below(QUICK)];
            self.under(pattern, &canonical, &sequences, effort.walks);
        }
    }

    /// A text that this tokenizer may treat specially.
    fn text(&mut self) -> String {
        const ODD: [&str; 24] = [
            " ", " ", "  ", "   ", "\n", "\n\n", " \n", "\t", "\u{a0}", "▁", "▁▁", "e\u{301}", "é",
            "\u{301}", "A", "'s", "1", "123", "ﬁ", "😀", "日", "<|x|>", "<s>", "Ġ",
        ];
        let mut text = String::new();
        let random = &mut self.random;
        for _ in 0..1 + random.below(6) {
            match random.below(8) {
                0..=2 if !self.plan.words.is_empty() => {
                    if random.below(2) == 0 {
                        text.push(' ');
                    }
                    text += &self.plan.words[random.below(self.plan.words.len())];
                }
                3 if !self.plan.added.is_empty() => {
                    let content = &self.plan.added[random.below(self.plan.added.len())].content;
                    let length = content.chars().count();
                    let (skip, take) = if random.below(2) == 0 {
                        (0, length)
                    } else {
                        (random.below(length + 1), random.below(length + 1))
                    };
                    text.extend(content.chars().skip(skip).take(take));
                }
                4 | 5 => text += random.pick(&ODD),
                _ => {
                    let id = TokenId::from_index(random.below(self.engine.vocabulary.len().max(1)));
                    let spelled = self.engine.vocabulary.text(id).unwrap_or_default();
                    text += std::str::from_utf8(spelled).unwrap_or_default();
                }
            }
        }
        text
    }

    /// Compares the encoder of `unskew-vocab` with the library's, the decoder of the library with the vocabulary, and
    /// the judge with itself.
    fn whole(&mut self, text: &str) {
        assert!(self.judge.parts_are_the_whole(text), "the judge does not put the parts together: {text:?}");
        let Some(whole) = self.judge.encode_whole(text) else { return };
        let ours = self.engine.tokenizer.encode(text, false).ok();
        let ours: Option<Vec<u32>> = ours.map(|ids| ids.iter().map(|id| id.0).collect());
        if ours.as_ref() != Some(&whole) {
            self.note("our encoder differs from the library's", || {
                format!("{text:?}: ours {ours:?}, library's {whole:?}")
            });
        }
        let is_text = |id: &u32| self.engine.vocabulary.kind(TokenId(*id)) == TokenKind::Text;
        if whole.iter().all(is_text)
            && let Some(spelled) = self.engine.text(&whole)
            && let Some(decoded) = self.judge.decode(&whole)
            && decoded != spelled
        {
            let kind = if self.plan.decoders.is_empty() {
                "the library's decoder differs: no decoder, tokens joined by spaces"
            } else if spelled.strip_prefix(' ') == Some(&decoded) {
                "the library's decoder differs: a first space is stripped"
            } else {
                "the library's decoder differs otherwise"
            };
            self.note(kind, || {
                format!("{whole:?}: the library decodes {decoded:?}, the vocabulary spells {spelled:?}")
            });
        }
    }

    fn note(&mut self, kind: &'static str, example: impl FnOnce() -> String) {
        self.report.notes.entry(kind).or_insert_with(|| (0, example())).0 += 1;
    }

    /// Other tokens for parts of `ids`, and pieces of `ids`.
    fn changes(&mut self, ids: &[u32], previous: &[u32], sequences: &mut Vec<Vec<u32>>) {
        let random = &mut self.random;
        let vocabulary = &self.engine.vocabulary;
        let any = |random: &mut Random| u32::try_from(random.below(vocabulary.len())).unwrap();
        for _ in 0..4 {
            let from = random.below(ids.len() + 1);
            let to = (from + 1 + random.below(3)).min(ids.len());
            if from >= to {
                continue;
            }
            let spelled: Vec<TokenId> = ids[from..to].iter().copied().map(TokenId).collect();
            let spelled = vocabulary.decode(&spelled);
            if let Some(cut) = cut(random, &self.engine, &spelled) {
                sequences.push([&ids[..from], &cut, &ids[to..]].concat());
            }
        }
        let at = random.below(ids.len() + 1);
        sequences.push([&ids[..at], &[any(random)], &ids[at..]].concat());
        if !ids.is_empty() {
            let at = random.below(ids.len());
            sequences.push([&ids[..at], &ids[at + 1..]].concat());
            sequences.push(ids[..at].to_vec());
            sequences.push(ids[at..].to_vec());
        }
        let joint = random.below(previous.len() + 1);
        sequences.push([&previous[..joint], ids].concat());
        sequences.push(vec![any(random), any(random)]);
        sequences.push(vec![any(random), any(random), any(random)]);
    }

    /// All sequences of one, two and three tokens, up to `most`.
    fn enumerate(&mut self, most: usize, sequences: &mut Vec<Vec<u32>>) {
        let ids: Vec<u32> = (0..u32::try_from(self.engine.vocabulary.len()).unwrap()).collect();
        // Only tokens with text are combined.
        let spells =
            |id: &&u32| self.engine.vocabulary.text(TokenId(**id)).is_some_and(|text| !text.is_empty());
        let texts: Vec<u32> = ids.iter().filter(spells).copied().collect();
        sequences.extend(ids.iter().map(|id| vec![*id]));
        let mut level: Vec<Vec<u32>> = texts.iter().map(|id| vec![*id]).collect();
        for _ in 0..2 {
            if level.len() * texts.len() > most {
                break;
            }
            level = level
                .iter()
                .flat_map(|front| texts.iter().map(move |id| [front.as_slice(), &[*id]].concat()))
                .collect();
            sequences.extend(level.iter().cloned());
        }
    }

    /// Whether the library writes `ids` for the text that they spell, and the ids that it writes; `None` if it fails.
    fn is_canonical(&mut self, ids: &[u32]) -> Option<(bool, Option<Vec<u32>>)> {
        let Some(text) = self.engine.text(ids) else { return Some((false, None)) };
        let Some(expected) = self.judge.encode(&text) else {
            self.report.library_panics += 1;
            return None;
        };
        // No constraint writes control tokens; the library may write one for a character without a token.
        let is_text = |id: &u32| self.engine.vocabulary.kind(TokenId(*id)) == TokenKind::Text;
        Some((expected == ids && ids.iter().all(is_text), Some(expected)))
    }

    fn differ(
        &mut self,
        kind: &'static str,
        pattern: Option<&'static str>,
        ids: &[u32],
        expected: Option<Vec<u32>>,
    ) {
        if self.report.differences.len() < KEPT {
            let text = self.engine.text(ids);
            self.report.differences.push(Difference { kind, pattern, ids: ids.to_vec(), expected, text });
        }
    }

    /// Asserts that a sequence is accepted if and only if the library writes it. Returns the sequences that it
    /// writes.
    fn acceptance(&mut self, sequences: &[Vec<u32>]) -> Vec<Vec<u32>> {
        let mut scratch = self.engine.any.scratch();
        let mut canonical = Vec::new();
        for ids in sequences {
            let Some((is_canonical, expected)) = self.is_canonical(ids) else { continue };
            self.report.sequences += 1;
            self.report.canonical += usize::from(is_canonical);
            if is_canonical {
                canonical.push(ids.clone());
            }
            if accepts(&self.engine.any, &mut scratch, ids) != is_canonical {
                let kind = if is_canonical { "a canonical sequence is refused" } else { ACCEPTED };
                self.differ(kind, None, ids, expected);
            }
        }
        canonical
    }

    /// The same comparison under a constraint on the text.
    fn under(&mut self, pattern: &'static str, canonical: &[Vec<u32>], sequences: &[Vec<u32>], walks: usize) {
        let regex = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
        let fits = |engine: &Engine, ids: &[u32]| engine.text(ids).is_some_and(|text| regex.is_match(&text));
        let constraint = match self.engine.constraint(pattern) {
            Ok(constraint) => constraint,
            Err(unskew_automata::CanonicalError::NothingCanonical { .. }) => {
                if let Some(ids) = canonical.iter().find(|ids| fits(&self.engine, ids)) {
                    self.differ(
                        "a constraint that admits a canonical sequence is refused",
                        Some(pattern),
                        ids,
                        None,
                    );
                }
                return;
            }
            Err(_) => {
                self.note("a constraint is refused as too large", || pattern.to_owned());
                return;
            }
        };
        let mut scratch = constraint.scratch();
        for ids in canonical {
            let expected = fits(&self.engine, ids);
            self.report.sequences += 1;
            if accepts(&constraint, &mut scratch, ids) != expected {
                let kind = "a canonical sequence is accepted otherwise than its text";
                self.differ(kind, Some(pattern), ids, None);
            }
        }
        let canonical: HashSet<&Vec<u32>> = canonical.iter().collect();
        for ids in sequences.iter().filter(|ids| !canonical.contains(ids)).take(200) {
            self.report.sequences += 1;
            if accepts(&constraint, &mut scratch, ids)
                && self.is_canonical(ids).is_some_and(|(is_canonical, _)| !is_canonical)
            {
                self.differ("another sequence is accepted under a constraint", Some(pattern), ids, None);
            }
        }
        self.walks(Some((pattern, &constraint)), walks);
    }

    /// Draws random tokens of the masks until the output is accepted: there is no dead end, and the output is
    /// canonical.
    fn walks(&mut self, under: Option<(&'static str, &unskew_automata::CanonicalConstraint)>, count: usize) {
        let any = std::sync::Arc::clone(&self.engine.any);
        let (pattern, constraint) = match under {
            None => (None, &*any),
            Some((pattern, constraint)) => (Some(pattern), constraint),
        };
        let mut scratch = constraint.scratch();
        for walk in 0..count {
            self.report.walks += 1;
            let most = 1 + self.random.below(8);
            let mut state = constraint.start();
            let mut ids: Vec<u32> = Vec::new();
            let finished = loop {
                let is_accepting = constraint.is_accepting(&state);
                if is_accepting && ids.len() >= most {
                    break true;
                }
                let mask = mask(constraint, &mut scratch, &state);
                let allowed: Vec<TokenId> = mask.ids().collect();
                if walk == 0 {
                    for token in (0..constraint.vocab_len()).map(TokenId::from_index) {
                        let reads = constraint.advance(&mut scratch, &mut state.clone(), token).is_ok();
                        if reads != mask.contains(token) {
                            let behind = [ids.as_slice(), &[token.0]].concat();
                            self.differ("the mask is not what can be read", pattern, &behind, None);
                        }
                    }
                }
                if allowed.is_empty() {
                    if !is_accepting {
                        self.differ("a dead end", pattern, &ids, None);
                    }
                    break is_accepting;
                }
                // A long walk ends as soon as it can.
                if ids.len() > 60 {
                    break is_accepting;
                }
                let token = allowed[self.random.below(allowed.len())];
                ids.push(token.0);
                if constraint.advance(&mut scratch, &mut state, token).is_err() {
                    self.differ("the mask is not what can be read", pattern, &ids, None);
                    break false;
                }
            };
            if !finished {
                continue;
            }
            let Some((is_canonical, expected)) = self.is_canonical(&ids) else { continue };
            self.report.sequences += 1;
            if !is_canonical {
                let kind = if pattern.is_some() { "a walk writes another sequence" } else { ACCEPTED };
                self.differ(kind, pattern, &ids, expected);
            } else if let Some(pattern) = pattern
                && !regex::Regex::new(&format!("^(?:{pattern})$"))
                    .unwrap()
                    .is_match(&self.engine.text(&ids).unwrap())
            {
                self.differ("a walk writes another text", Some(pattern), &ids, expected);
            }
        }
    }
}

/// Tokens that spell `bytes`, cut at random.
fn cut(random: &mut Random, engine: &Engine, bytes: &[u8]) -> Option<Vec<u32>> {
    let mut ids = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let fits: Vec<(TokenId, usize)> = engine
            .vocabulary
            .text_tokens()
            .filter(|(_, text)| !text.is_empty() && bytes[at..].starts_with(text))
            .map(|(token, text)| (token, text.len()))
            .collect();
        if fits.is_empty() {
            return None;
        }
        let (token, length) = fits[random.below(fits.len())];
        ids.push(token.0);
        at += length;
    }
    Some(ids)
}
