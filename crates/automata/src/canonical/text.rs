//! Which texts an encoder takes as they are: neither its normaliser nor the matching of added tokens changes them.
//!
//! A text that the normaliser rewrites has no token sequence of its own: the ids of its encoding spell another text. The
//! same holds for a text in which the encoder finds an added token: it becomes that token, whatever spelled it. Both are
//! regular properties of the text, so they are an automaton over bytes that runs beside the constraint.

use std::{collections::HashMap, sync::LazyLock};

use aho_corasick::{Anchored, MatchKind, automaton::Automaton, dfa::DFA};
use unskew_core::{AddedToken, Normalizer, SplitPattern, Symbols, Tokenization, UnicodeForm};

use super::CanonicalError;
use crate::{ByteClasses, table::DEAD};

/// The most states that the automaton may have.
const STATE_LIMIT: usize = 1 << 18;

/// An automaton over bytes in which every state accepts: a text is refused by having no transition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TextDfa {
    pub(crate) classes: ByteClasses,
    /// States times classes.
    pub(crate) next: Vec<u32>,
    pub(crate) start: u32,
}

/// What the steps in front of the model mean for texts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TextFacts {
    /// The texts that hold no added token.
    pub(crate) dfa: TextDfa,
    /// Whether texts are brought into normalisation form C.
    pub(crate) nfc: bool,
    /// Characters that the steps put in the place of others, so that none stands for itself.
    pub(crate) forbidden: Vec<char>,
    /// The added tokens that are text, with what they spell.
    pub(crate) added: Vec<(u32, Vec<u8>)>,
}

impl TextDfa {
    /// Accepts every text.
    pub(crate) fn any() -> Self {
        Self { classes: ByteClasses::from_begins(&[false; 256]), next: vec![0], start: 0 }
    }

    /// [`any`](Self::any), once for all.
    pub(crate) fn all() -> &'static Self {
        static ALL: LazyLock<TextDfa> = LazyLock::new(TextDfa::any);
        &ALL
    }

    /// The automaton of these tables, if they have the same shape and lead to no state that there is not.
    pub(crate) fn from_parts(classes: ByteClasses, next: Vec<u32>, start: u32) -> Option<Self> {
        let states = next.len() / classes.len();
        let has_shape = next.len() == states * classes.len() && (start as usize) < states;
        (has_shape && crate::table::leads_to_states(&next, states)).then_some(Self { classes, next, start })
    }

    #[inline]
    pub(crate) fn step(&self, state: u32, byte: u8) -> u32 {
        self.next[state as usize * self.classes.len() + usize::from(self.classes.get(byte))]
    }

    /// The texts in which none of `contents` occurs.
    fn without(contents: &[Vec<u8>]) -> Result<Self, CanonicalError> {
        if contents.is_empty() {
            return Ok(Self::any());
        }
        let too_many = || CanonicalError::TooManyTextStates { limit: STATE_LIMIT };
        if contents.iter().map(Vec::len).sum::<usize>() > STATE_LIMIT {
            return Err(too_many());
        }
        let search =
            DFA::builder().match_kind(MatchKind::Standard).build(contents).map_err(|_| too_many())?;
        let start = search.start_state(Anchored::No).map_err(|_| too_many())?;
        // Two bytes are together if no content holds either alone.
        let mut begins = [false; 256];
        for byte in contents.iter().flatten() {
            begins[usize::from(*byte)] = true;
            begins[usize::from(byte.saturating_add(1))] = true;
        }
        let classes = ByteClasses::from_begins(&begins);
        let mut ids = HashMap::from([(start, 0u32)]);
        let mut states = vec![start];
        let mut next = Vec::new();
        let mut at = 0;
        while at < states.len() {
            for byte in classes.representatives() {
                let target = search.next_state(Anchored::No, states[at], byte);
                next.push(if search.is_match(target) {
                    DEAD
                } else {
                    *ids.entry(target).or_insert_with(|| {
                        states.push(target);
                        u32::try_from(states.len() - 1).expect("fewer states than bytes of tokens")
                    })
                });
            }
            at += 1;
        }
        Ok(Self { classes, next, start: 0 })
    }
}

impl TextFacts {
    pub(crate) fn new(tokenization: &Tokenization) -> Result<Self, CanonicalError> {
        let Tokenization { normalizers, splits, added, symbols, .. } = tokenization;
        let mut forbidden = Vec::new();
        let mut nfc = false;
        let mut prepends = false;
        let refuse = |step: &dyn std::fmt::Debug| CanonicalError::Normalizer { step: format!("{step:?}") };
        for normalizer in normalizers {
            match normalizer {
                Normalizer::Unicode(UnicodeForm::Nfc) => nfc = true,
                Normalizer::Prepend(text) if is_space(text) => prepends = true,
                Normalizer::Replace { from, to } if from == " " && to == "▁" => forbidden.push('▁'),
                other => return Err(refuse(other)),
            }
        }
        for split in splits {
            match split {
                SplitPattern::PrefixSpace => prepends = true,
                SplitPattern::Metaspace { replacement, prepend, .. } => {
                    forbidden.push(*replacement);
                    prepends |= *prepend != unskew_core::PrependScheme::Never;
                }
                _ => {}
            }
        }
        if !forbidden.is_empty() && *symbols == Symbols::Bytes {
            // The tokens of bytes would not spell what these steps write.
            return Err(refuse(&normalizers));
        }
        let (mut contents, mut texts) = (Vec::new(), Vec::new());
        for token in added.iter().filter(|token| !token.content.is_empty()) {
            let refuse = |reason| CanonicalError::AddedToken {
                token: token.id,
                content: shortened(&token.content),
                reason,
            };
            let content = match_text(token, normalizers)
                .ok_or_else(|| refuse("is matched on the normalised text, where it reads otherwise"))?;
            if token.single_word {
                return Err(refuse("is matched as a whole word only"));
            }
            if !token.special {
                if token.lstrip || token.rstrip {
                    return Err(refuse("swallows the white space beside it"));
                }
                if prepends {
                    return Err(refuse(
                        "is text, and the tokenizer puts a space in front of the text behind it",
                    ));
                }
                texts.push((token.id.0, content.clone().into_bytes()));
            }
            contents.push((token, content));
        }
        if !texts.is_empty() {
            check_overlaps(&contents)?;
        }
        let contents: Vec<Vec<u8>> = contents.into_iter().map(|(_, content)| content.into_bytes()).collect();
        Ok(Self { dfa: TextDfa::without(&contents)?, nfc, forbidden, added: texts })
    }
}

/// What an added token is matched as, in the text as the vocabulary spells it.
fn match_text(token: &AddedToken, normalizers: &[Normalizer]) -> Option<String> {
    let mut content = token.content.clone();
    if token.normalized {
        for normalizer in normalizers {
            content = match normalizer {
                Normalizer::Unicode(UnicodeForm::Nfc) => super::nfc::normalized(&content),
                Normalizer::Prepend(_) => format!(" {content}"),
                Normalizer::Replace { .. } => content,
                _ => return None,
            };
        }
    }
    Some(content)
}

fn is_space(text: &str) -> bool {
    matches!(text, " " | "▁")
}

/// Where added tokens are text, what lies between two of them is encoded by itself. That is exact if none can be found
/// across or within another. Control tokens are in no text, so two of them may overlap.
fn check_overlaps(contents: &[(&AddedToken, String)]) -> Result<(), CanonicalError> {
    for (index, (token, content)) in contents.iter().enumerate() {
        for (other_index, (other_token, other)) in contents.iter().enumerate() {
            if token.special && other_token.special {
                continue;
            }
            let within = index != other_index && content.contains(other.as_str());
            let overlaps = (1..content.len().min(other.len()))
                .any(|length| content.as_bytes()[content.len() - length..] == other.as_bytes()[..length]);
            if within || overlaps {
                let (token, content) = if token.special { (other_token, other) } else { (token, content) };
                return Err(CanonicalError::AddedToken {
                    token: token.id,
                    content: shortened(content),
                    reason: "overlaps with another one, or with itself",
                });
            }
        }
    }
    Ok(())
}

fn shortened(text: &str) -> String {
    if text.chars().count() > 40 { text.chars().take(40).chain(['…']).collect() } else { text.to_owned() }
}
