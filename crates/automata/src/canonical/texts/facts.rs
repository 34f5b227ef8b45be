//! The texts that an encoder does not rewrite, derived from the steps of a tokenizer.
//!
//! A text that the normaliser rewrites has no canonical token sequence: the ids of its encoding spell another text.
//! The same holds for a text in which the encoder finds an added token, since the text becomes that token however it
//! was spelled. The library works in this order, and so does this file:
//!
//! 1. Added tokens that are not `normalized` are cut out of the text ([`super::added`]).
//! 2. The normaliser rewrites each remaining part.
//! 3. Added tokens that are `normalized` are cut out of these parts.
//! 4. The pre-tokenizer splits each remaining part ([`crate::split`]). It reads the part as the previous steps leave
//!    it.
//!
//! The texts that a step leaves unchanged are described by a set of characters, a string that must not occur, a rule
//! for the ends of the text, or a normalisation form ([`super::form`]). If two steps together leave a text unchanged
//! that the first one rewrites, the second one must undo the first. Steps for which this is possible are refused.
//!
//! One rewriting does not change the text: a space spelled as U+2581, since the vocabulary spells it back. Texts in
//! this file have spaces, and the steps after that rewriting read the mark.

use std::collections::{BTreeMap, BTreeSet};

use unskew_core::{
    AddedToken, Normalizer, PrependScheme, SplitBehavior, SplitPattern, Symbols, Tokenization, UnicodeForm,
    Vocabulary, alphabet_to_byte,
};

use super::{
    added::{Matched, TextDfa},
    rewriting::check_order,
};
use crate::{
    canonical::{CanonicalError, SplitLimits},
    ids::TextState,
    split::{Prefix, Section, TextRule, White, matches_nothing_in},
};

/// The effect of the steps before the model on texts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TextFacts {
    /// The texts without added tokens.
    pub(crate) dfa: TextDfa<TextState>,
    /// The Unicode form into which texts are brought.
    pub(crate) form: Option<UnicodeForm>,
    /// Characters that the steps write in place of others. In a text they would not stand for themselves, so no text
    /// contains them.
    pub(crate) forbidden: Vec<char>,
    /// Sets of characters. Every character of a text must be in each of these sets.
    pub(crate) kept: Vec<Vec<(char, char)>>,
    /// Whether a step writes spaces beside characters that it keeps, as BERT's does around Chinese characters.
    pub(crate) puts_spaces: bool,
    /// The spelling of a space before the pre-tokenizer, if that is another character.
    pub(crate) blank: Option<char>,
    /// Whether the text is spelled in GPT-2's alphabet of bytes before the pre-tokenizer.
    pub(crate) by_bytes: bool,
    pub(crate) rules: Vec<TextRule>,
    /// Regexes that must match nowhere, each with the spelling of a space for it.
    pub(crate) absent: Vec<(String, Option<char>)>,
    /// The kinds of texts after added tokens.
    pub(crate) sections: Vec<Section>,
    /// The added tokens that are text, in ascending order of ids.
    pub(crate) added: Vec<AddedText>,
    /// The added tokens that are control tokens, in ascending order of ids, without those after which a text begins
    /// as the first one does.
    pub(crate) controls: Vec<(u32, AfterControl)>,
}

/// The text after a control token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterControl {
    /// It begins as the section of this index.
    Section(usize),
    /// It is not followed: the token strips white space, is a whole word, or begins another added token.
    Unknown,
}

/// An added token that is text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AddedText {
    pub(crate) token: u32,
    /// The text that it spells.
    pub(crate) content: Vec<u8>,
    /// Whether it is found after the normaliser.
    pub(crate) normalized: bool,
    /// The index of the section that follows it.
    pub(crate) section: usize,
    /// Whether it takes the white space before it.
    pub(crate) strips: bool,
}

/// The index of `section`, added if it is new.
fn section_of(sections: &mut Vec<Section>, section: Section) -> usize {
    sections.iter().position(|known| *known == section).unwrap_or_else(|| {
        sections.push(section);
        sections.len() - 1
    })
}

/// Whether a step removes text.
pub(super) fn removes(split: &SplitPattern) -> bool {
    match split {
        SplitPattern::Regex { behavior, .. } | SplitPattern::Literal { behavior, .. } => {
            *behavior == SplitBehavior::Removed
        }
        _ => false,
    }
}

/// The spelling of the text after the normaliser, and the prefix that the normaliser writes.
struct Normalized {
    blank: Option<char>,
    prefix: Prefix,
    by_bytes: bool,
}

impl TextFacts {
    pub(crate) fn new(
        vocabulary: &Vocabulary,
        tokenization: &Tokenization,
        limits: &SplitLimits,
    ) -> Result<Self, CanonicalError> {
        let Tokenization { normalizers, splits, symbols, .. } = tokenization;
        let mut facts = Self {
            dfa: TextDfa::any(),
            form: None,
            forbidden: Vec::new(),
            kept: Vec::new(),
            puts_spaces: false,
            blank: None,
            by_bytes: false,
            rules: Vec::new(),
            absent: Vec::new(),
            sections: Vec::new(),
            added: Vec::new(),
            controls: Vec::new(),
        };
        let normalized = facts.read_normalizers(normalizers, splits, limits)?;
        check_order(normalizers)?;
        (facts.blank, facts.by_bytes) = (normalized.blank, normalized.by_bytes);
        let mut prefix = Prefix::Never;
        for split in splits {
            match split {
                SplitPattern::PrefixSpace => prefix = Prefix::IfMissing,
                SplitPattern::Metaspace { replacement, prepend, .. } => {
                    facts.forbidden.push(*replacement);
                    if *prepend == PrependScheme::Always {
                        prefix = Prefix::IfMissing;
                    }
                }
                _ => {}
            }
        }
        if !facts.forbidden.is_empty() && *symbols == Symbols::Bytes {
            // These steps write characters that the tokens of bytes do not spell.
            return Err(refused_steps(normalizers));
        }
        facts.read_added(vocabulary, tokenization, &normalized, prefix)?;
        Ok(facts)
    }

    /// Reads the steps of the normaliser.
    fn read_normalizers(
        &mut self,
        normalizers: &[Normalizer],
        splits: &[SplitPattern],
        limits: &SplitLimits,
    ) -> Result<Normalized, CanonicalError> {
        let mut by_bytes = false;
        // The final spelling of a space.
        let of_space = |normalizer: &Normalizer| match normalizer {
            Normalizer::Replace { from, to } if from == " " => only_char(to).filter(|mark| *mark != ' '),
            _ => None,
        };
        let of_split = |split: &SplitPattern| match split {
            SplitPattern::Metaspace { replacement, .. } => Some(*replacement),
            _ => None,
        };
        let mark = normalizers.iter().find_map(of_space).or_else(|| splits.iter().find_map(of_split));
        let is_space = |text: &str, blank: Option<char>| {
            only_char(text).is_some_and(|char| Some(char) == mark || char == ' ' && blank.is_none())
        };
        let mut blank = None;
        let mut prefix = Prefix::Never;
        // A marker that later steps turn into a space.
        let mut marker: Option<(&str, Vec<(String, &str)>)> = None;
        for (index, normalizer) in normalizers.iter().enumerate() {
            let refused = || refused(normalizer);
            if by_bytes {
                return Err(refused());
            }
            match normalizer {
                Normalizer::ByteLevel => by_bytes = true,
                Normalizer::Unicode(form) if self.form.is_none_or(|known| known == *form) => {
                    self.form = Some(*form);
                }
                // A second space at the beginning, and one before or after a marker, are not supported.
                Normalizer::Prepend(_) if prefix != Prefix::Never => return Err(refused()),
                Normalizer::Prepend(text) if is_space(text, blank) && marker.is_none() => {
                    prefix = Prefix::Always;
                }
                Normalizer::Prepend(text) if marker.is_none() && !text.is_empty() => {
                    marker = Some((text, Vec::new()));
                }
                Normalizer::Replace { .. } if blank.is_none() && of_space(normalizer).is_some() => {
                    blank = of_space(normalizer);
                    self.forbidden.extend(blank);
                }
                Normalizer::Replace { from, to } => {
                    if from == to {
                        continue;
                    }
                    // This step spells some spaces as the mark. The next step must spell the other spaces so too.
                    if let Some(mark) =
                        mark.filter(|_| blank.is_none() && from.chars().all(|char| char == ' '))
                        && *to == from.replace(' ', mark.encode_utf8(&mut [0; 4]))
                    {
                        if normalizers.get(index + 1).and_then(of_space) != Some(mark) {
                            return Err(refused());
                        }
                        continue;
                    }
                    let text = spelled(from, blank);
                    if let Some((marker, replaced)) = &mut marker {
                        if let Some(rest) = from.strip_prefix(*marker).filter(|rest| !rest.contains(*marker))
                        {
                            replaced.push((rest.to_owned(), to));
                        } else if overlaps(from, marker) {
                            return Err(refused());
                        }
                    }
                    self.rules.extend(text.map(TextRule::Without));
                }
                // A space may be a match.
                Normalizer::ReplaceRegex { to, .. }
                    if blank.is_none() && !to.is_empty() && to.chars().all(|char| Some(char) == mark) =>
                {
                    return Err(refused());
                }
                Normalizer::ReplaceRegex { pattern, to } => {
                    // A match that is replaced by itself leaves no trace.
                    match matches_nothing_in(pattern, to, limits) {
                        Ok(true) if marker.is_none() => self.absent.push((pattern.clone(), blank)),
                        _ => return Err(refused()),
                    }
                }
                Normalizer::Strip { left: false, right: false } => {}
                Normalizer::Strip { left, right } => {
                    let white = if blank.is_none() { White::All } else { White::NotBlank };
                    // Stripping would also remove the prefix that an earlier step wrote.
                    if *left && (prefix != Prefix::Never || marker.is_some()) {
                        return Err(refused());
                    }
                    self.rules.push(TextRule::Stripped { left: *left, right: *right, white });
                }
                Normalizer::Characters { kept, writes, .. } => {
                    let holds = |ranges: &[(char, char)], char: char| {
                        ranges.iter().any(|(low, high)| (*low..=*high).contains(&char))
                    };
                    if holds(writes, ' ') && !holds(kept, '\u{4e00}') {
                        // If a later step removes the spaces again, the character stays a piece of its own and the
                        // text is unchanged.
                        if splits.iter().any(removes) {
                            return Err(refused());
                        }
                        self.puts_spaces = true;
                    }
                    let mut kept = kept.clone();
                    // Before this step a space is spelled as the mark.
                    if let Some(mark) = blank {
                        let keeps =
                            |char: char| kept.iter().any(|(low, high)| (*low..=*high).contains(&char));
                        match (keeps(mark), keeps(' ')) {
                            (true, false) => kept.push((' ', ' ')),
                            (true, true) => {}
                            (false, _) => return Err(refused()),
                        }
                    }
                    if let Some((marker, _)) = marker
                        && !marker
                            .chars()
                            .all(|char| kept.iter().any(|(low, high)| (*low..=*high).contains(&char)))
                    {
                        return Err(refused());
                    }
                    self.kept.push(kept);
                }
                _ => return Err(refused()),
            }
        }
        if let Some((text, replaced)) = marker {
            let rest_of = |(rest, to): &(String, &str)| {
                (rest.is_empty(), is_space(rest, blank), is_space(to, blank), to.is_empty())
            };
            prefix = match replaced.iter().map(rest_of).collect::<Vec<_>>()[..] {
                [(true, _, true, _)] => Prefix::Always,
                [(_, true, true, _), (true, _, true, _)] => Prefix::IfMissing,
                [(true, _, _, true)] => Prefix::Never,
                _ => return Err(refused(&Normalizer::Prepend(text.to_owned()))),
            };
        }
        Ok(Normalized { blank, prefix, by_bytes })
    }

    /// Reads the added tokens. `prefix` is the text that the pre-tokenizer writes before a text.
    fn read_added(
        &mut self,
        vocabulary: &Vocabulary,
        tokenization: &Tokenization,
        normalized: &Normalized,
        prefix: Prefix,
    ) -> Result<(), CanonicalError> {
        let mut matched: Vec<Matched> = Vec::new();
        let mut words: Vec<(&AddedToken, String)> = Vec::new();
        // The matched strings, raw or normalised, and whether their tokens are text.
        let mut texts: BTreeMap<(Vec<u8>, bool), bool> = BTreeMap::new();
        let mut sections: Vec<Section> = Vec::new();
        let mut tells: BTreeSet<bool> = BTreeSet::new();
        let mut tokens: Vec<&AddedToken> =
            tokenization.added.iter().filter(|token| !token.content.is_empty()).collect();
        tokens.sort_by_key(|token| token.id);
        for token in tokens {
            let refuse = |reason| refused_token(token, reason);
            let content = if token.normalized {
                as_spelled(&token.content, normalized)
            } else {
                let is_free = !token.content.chars().any(|char| self.forbidden.contains(&char));
                is_free.then(|| token.content.clone().into_bytes())
            };
            // No text of the vocabulary contains it.
            let Some(content) = content else { continue };
            if token.single_word {
                if !token.special {
                    return Err(refuse("is matched as a whole word only"));
                }
                self.controls.push((token.id.0, AfterControl::Unknown));
                let text = String::from_utf8(content).ok().filter(|_| !normalized.by_bytes);
                words.push((token, text.ok_or_else(|| refuse("is matched as a whole word only"))?));
                continue;
            }
            let is_text = !token.special
                && token.id.index() < vocabulary.len()
                && vocabulary.text(token.id) == Some(&content[..]);
            let text = is_text.then_some(self.added.len());
            if is_text {
                let white = match normalized {
                    Normalized { by_bytes: true, .. } if token.normalized => None,
                    Normalized { blank: Some(_), .. } if token.normalized => Some(White::NotBlank),
                    _ => Some(White::All),
                };
                let before = if token.normalized { Prefix::Never } else { normalized.prefix };
                let section =
                    Section { prefix: before.max(prefix), swallows: white.filter(|_| token.rstrip) };
                let at = section_of(&mut sections, section);
                let strips = token.lstrip && white.is_some();
                if strips {
                    tells.insert(white == Some(White::All));
                }
                if token.normalized && !self.leaves(&content) {
                    return Err(refuse(
                        "is text, and the normaliser may rewrite it together with the text beside it",
                    ));
                }
                self.added.push(AddedText {
                    token: token.id.0,
                    content: content.clone(),
                    normalized: token.normalized,
                    section: at,
                    strips,
                });
            }
            if token.special {
                let begins_another = tokenization
                    .added
                    .iter()
                    .any(|other| other.content != token.content && other.content.starts_with(&token.content));
                let before = if token.normalized { Prefix::Never } else { normalized.prefix };
                let section = Section { prefix: before.max(prefix), swallows: None };
                if token.lstrip || token.rstrip || begins_another {
                    self.controls.push((token.id.0, AfterControl::Unknown));
                } else if section.prefix != Prefix::Never {
                    let at = section_of(&mut sections, section);
                    self.controls.push((token.id.0, AfterControl::Section(at)));
                }
            }
            let before = texts.insert((content.clone(), token.normalized), is_text);
            if before.is_some_and(|other_is_text| is_text || other_is_text) {
                return Err(refuse("matches the same text as another added token"));
            }
            matched.push(Matched { content, normalized: token.normalized, text });
        }
        if tells.len() > 1 {
            let token = tokenization.added.iter().find(|token| token.lstrip && !token.special);
            let reason = "strips white space of another kind than another added token";
            return Err(token.map_or(CanonicalError::NoBlank, |token| refused_token(token, reason)));
        }
        if let Some(all) = tells.first() {
            self.rules.push(TextRule::TellsSpace(if *all { White::All } else { White::NotBlank }));
        }
        self.sections = sections;
        if let Some(first) = self.added.first()
            && let Some(token) = tokenization.added.iter().find(|token| token.id.0 == first.token)
            && let Some(reason) = self.refused_together(&tokenization.splits, normalized.prefix, &matched)
        {
            return Err(refused_token(token, reason));
        }
        for (token, word) in words {
            self.add_word(token, word, &matched)?;
        }
        let texts: Vec<&[u8]> = self.added.iter().map(|added| &added.content[..]).collect();
        self.dfa = TextDfa::new(&matched, &texts)?;
        Ok(())
    }

    /// The reason why the added tokens that are text cannot be followed in combination with each other and with the
    /// other steps, if there is one. `by_normalizer` is the space that the normaliser writes before a text.
    fn refused_together(
        &self,
        splits: &[SplitPattern],
        by_normalizer: Prefix,
        matched: &[Matched],
    ) -> Option<&'static str> {
        let section = |added: &AddedText| self.sections[added.section];
        let any = |is: &dyn Fn(&AddedText) -> bool| self.added.iter().any(is);
        let swallows = |added: &AddedText| section(added).swallows.is_some();
        let puts_space = any(&|added| section(added).prefix != Prefix::Never);
        let text = |added: &AddedText| String::from_utf8_lossy(&added.content).into_owned();
        let begins = |added: &AddedText| text(added).starts_with(char::is_whitespace);
        let ends = |added: &AddedText| text(added).ends_with(char::is_whitespace);
        let is_space = |added: &AddedText| text(added).chars().all(char::is_whitespace);
        // The normaliser may write the mark of a space before the spaces of the text are spelled as the mark.
        let begins_with_space = |one: &Matched| {
            let first = String::from_utf8_lossy(&one.content).chars().next();
            first.is_some_and(|char| char == ' ' || self.forbidden.contains(&char))
        };
        let strips_left = |rule: &TextRule| matches!(rule, TextRule::Stripped { left: true, .. });
        let reasons = [
            // Tokens that are not normalized strip white space of normalized tokens, which are still text at that
            // step.
            (
                any(&|added| !added.normalized && added.strips)
                    && any(&|added| added.normalized && ends(added))
                    || any(&|added| !added.normalized && swallows(added))
                        && any(&|added| added.normalized && begins(added)),
                "is text, and an added token with white space at its edge may be stripped",
            ),
            // A token of white space finds nothing left after a token that strips.
            (
                any(&swallows) && any(&|added| added.strips && is_space(added)),
                "strips white space that may be another added token",
            ),
            // A control token is not found in the white space that the previous token strips.
            (
                any(&swallows)
                    && matched.iter().any(|one| {
                        one.text.is_none()
                            && String::from_utf8_lossy(&one.content).starts_with(char::is_whitespace)
                    }),
                "strips white space in which a control token may begin",
            ),
            // The normaliser also writes its space before tokens that are found after it.
            (
                by_normalizer != Prefix::Never
                    && any(&|added| added.normalized)
                    && any(&|added| !added.normalized),
                "is text, and the normaliser writes a space between it and others",
            ),
            (
                puts_space && splits.iter().any(removes),
                "is text, and the tokenizer may remove the space that it writes after it",
            ),
            (
                puts_space && self.rules.iter().any(strips_left),
                "is text, and the tokenizer strips the text after it and writes a space there",
            ),
            // In a text of white space alone after an added token, the space that is written first is not stripped.
            (
                by_normalizer != Prefix::Never
                    && any(&|added| !added.normalized)
                    && self.rules.iter().any(|rule| matches!(rule, TextRule::Stripped { right: true, .. })),
                "is text, and the tokenizer writes a space after it and strips the end of the text",
            ),
            (
                any(&|added| swallows(added) && section(added).prefix != Prefix::Never)
                    && matched.iter().any(|one| one.normalized && begins_with_space(one)),
                "strips the text after it, in which added tokens that begin with a space are searched",
            ),
        ];
        reasons.into_iter().find_map(|(is_so, reason)| is_so.then_some(reason))
    }

    /// Adds the rule that `word`, the text of `token`, does not occur as a whole word. Refused if another token may
    /// overlap it, or may touch it with a character of a word: then the characters beside the word are not those of
    /// the text.
    fn add_word(
        &mut self,
        token: &AddedToken,
        word: String,
        matched: &[Matched],
    ) -> Result<(), CanonicalError> {
        let text = word.as_bytes();
        let is_word = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii())
        };
        let crosses = matched.iter().any(|other| overlap(text, &other.content))
            || (1..text.len()).any(|len| text[..len] == text[text.len() - len..]);
        let beside = |added: &AddedText| is_word(added.content.first()) || is_word(added.content.last());
        // This word is not found in the white space that the previous token strips.
        let stripped = word.starts_with(char::is_whitespace)
            && self.sections.iter().any(|section| section.swallows.is_some());
        if crosses || stripped || self.added.iter().any(beside) {
            return Err(refused_token(
                token,
                "is matched as a whole word only, and other added tokens touch it",
            ));
        }
        self.rules.push(TextRule::WithoutWord(word));
        Ok(())
    }

    /// Whether no step rewrites `content` in combination with the text beside it. Normalisation forms are followed
    /// across added tokens and are not checked here.
    fn leaves(&self, content: &[u8]) -> bool {
        let apart = |rule: &TextRule| match rule {
            TextRule::Without(text) => !overlap(text.as_bytes(), content),
            TextRule::Stripped { .. } => false,
            TextRule::WithoutWord(_) | TextRule::TellsSpace(_) => true,
        };
        let keeps = |kept: &Vec<(char, char)>| {
            std::str::from_utf8(content).is_ok_and(|text| {
                text.chars().all(|char| kept.iter().any(|(low, high)| (*low..=*high).contains(&char)))
            })
        };
        self.rules.iter().all(apart) && self.absent.is_empty() && self.kept.iter().all(keeps)
    }
}

fn refused(normalizer: &Normalizer) -> CanonicalError {
    CanonicalError::Normalizer { step: name(normalizer) }
}

pub(super) fn refused_steps(normalizers: &[Normalizer]) -> CanonicalError {
    let names: Vec<String> = normalizers.iter().map(name).collect();
    CanonicalError::Normalizer { step: names.join(", then ") }
}

/// The name of a step for an error message. Its sets of characters may be long.
fn name(normalizer: &Normalizer) -> String {
    match normalizer {
        Normalizer::Characters { step, .. } => step.clone(),
        other => shortened(&format!("{other:?}")),
    }
}

fn refused_token(token: &AddedToken, reason: &'static str) -> CanonicalError {
    CanonicalError::AddedToken { token: token.id, content: shortened(&token.content), reason }
}

fn only_char(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|_| characters.next().is_none())
}

/// The text that a step reads as `seen`, where a space is spelled `blank`. `None` if there is no such text.
fn spelled(seen: &str, blank: Option<char>) -> Option<String> {
    match blank {
        None => Some(seen.to_owned()),
        Some(_) if seen.contains(' ') => None,
        Some(mark) => Some(seen.replace(mark, " ")),
    }
}

/// The bytes of the text that reads as `content` after the normaliser. `None` if there is no such text.
fn as_spelled(content: &str, normalized: &Normalized) -> Option<Vec<u8>> {
    if normalized.by_bytes {
        return content.chars().map(alphabet_to_byte).collect();
    }
    spelled(content, normalized.blank).map(String::into_bytes)
}

/// Whether one string contains the other, or a suffix of one is a prefix of the other.
fn overlap(one: &[u8], other: &[u8]) -> bool {
    let holds = |long: &[u8], short: &[u8]| long.windows(short.len()).any(|part| part == short);
    let meets = |left: &[u8], right: &[u8]| {
        (1..=left.len().min(right.len())).any(|len| left[left.len() - len..] == right[..len])
    };
    holds(one, other) || holds(other, one) || meets(one, other) || meets(other, one)
}

fn overlaps(one: &str, other: &str) -> bool {
    overlap(one.as_bytes(), other.as_bytes())
}

fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    if text.chars().count() > MOST {
        text.chars().take(MOST).chain(['…']).collect()
    } else {
        text.to_owned()
    }
}
