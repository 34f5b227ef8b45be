//! Steps of a normaliser that may undo each other: these are refused.
//!
//! Each step is described by the characters that it removes and those that it writes. The checks are on these sets,
//! so they may refuse steps that never undo each other on any text.

use unskew_core::{Normalizer, Tokenization, UnicodeForm};

use super::facts::{refused_steps, removes};
use crate::canonical::CanonicalError;

/// Refuses steps of which a later one may undo an earlier one.
///
/// A step that rewrites a text removes some characters and writes others. The text is restored only if later steps
/// write the removed characters and remove the written ones.
pub(super) fn check_order(normalizers: &[Normalizer]) -> Result<(), CanonicalError> {
    // Applying a form twice in a row equals applying it once.
    let is_new = |(at, normalizer): &(usize, &Normalizer)| {
        !(matches!(normalizer, Normalizer::Unicode(_)) && normalizers[..*at].last() == Some(*normalizer))
    };
    let of: Vec<Rewriting> = normalizers
        .iter()
        .enumerate()
        .filter(is_new)
        .map(|(_, normalizer)| Rewriting::of(normalizer))
        .collect();
    for (at, first) in of.iter().enumerate() {
        let later = &of[at + 1..];
        let comes_back = later.iter().any(|other| other.writes.meets(&first.takes));
        let goes = first.writes.is_empty() || later.iter().any(|other| other.takes.meets(&first.writes));
        if comes_back && goes {
            return Err(refused_steps(normalizers));
        }
    }
    Ok(())
}

/// Refuses steps that may be undone because text is dropped: by an encoder without a token for a character, or by a
/// pre-tokenizer that removes matches.
///
/// `Replace "a" -> "ba"` leaves the tokens of `a` unchanged if no token spells `b`. The same holds for a step that
/// writes only unspelled characters, before a later step that writes `a`. `is_spelled` returns whether the model has
/// a token for a character.
pub(crate) fn check_dropped(
    Tokenization { normalizers, splits, .. }: &Tokenization,
    is_spelled: impl Fn(char) -> bool,
) -> Result<(), CanonicalError> {
    let of: Vec<Rewriting> = normalizers.iter().map(Rewriting::of).collect();
    let removes = splits.iter().any(removes);
    for (at, (normalizer, first)) in normalizers.iter().zip(&of).enumerate() {
        // A form of Unicode never writes the characters that it removes.
        let own = matches!(normalizer, Normalizer::Replace { from, to } if from != to).then_some(first);
        let comes_back = own.into_iter().chain(&of[at + 1..]).any(|other| other.writes.meets(&first.takes));
        if comes_back && first.writes.any(|char| removes || !is_spelled(char)) {
            return Err(refused_steps(normalizers));
        }
    }
    Ok(())
}

/// The characters that a step removes when it rewrites a text, and the characters that it writes.
struct Rewriting {
    takes: Characters,
    writes: Characters,
}

/// A set of characters.
enum Characters {
    Ranges(Vec<(char, char)>),
    /// All characters that some normalisation form may change or write.
    NotInert,
    All,
}

/// Whether no normalisation form composes, decomposes or writes this character.
fn is_inert(char: char) -> bool {
    char == '▁'
        || char.is_ascii() && !char.is_ascii_alphabetic() && !matches!(char, '<' | '=' | '>' | ';' | '`')
}

impl Characters {
    fn of(text: &str) -> Self {
        Self::Ranges(text.chars().map(|char| (char, char)).collect())
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Ranges(ranges) if ranges.is_empty())
    }

    /// Whether some character may be in the set and satisfy `is`.
    fn any(&self, is: impl Fn(char) -> bool) -> bool {
        match self {
            Self::Ranges(ranges) => ranges.iter().any(|(low, high)| (*low..=*high).any(&is)),
            Self::NotInert | Self::All => true,
        }
    }

    /// Whether some character may be in both sets.
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ranges(some), Self::Ranges(others)) => {
                some.iter().any(|one| others.iter().any(|other| one.0 <= other.1 && other.0 <= one.1))
            }
            (Self::Ranges(some), Self::NotInert) | (Self::NotInert, Self::Ranges(some)) => {
                some.iter().any(|(low, high)| low != high || !is_inert(*low))
            }
            (some, Self::All) | (Self::All, some) => !some.is_empty(),
            (Self::NotInert, Self::NotInert) => true,
        }
    }
}

impl Rewriting {
    fn of(normalizer: &Normalizer) -> Self {
        let none = || Characters::Ranges(vec![]);
        let (takes, writes) = match normalizer {
            Normalizer::Unicode(UnicodeForm::Nfc | UnicodeForm::Nfd) => {
                (Characters::NotInert, Characters::NotInert)
            }
            Normalizer::Unicode(_) => (Characters::NotInert, Characters::All),
            // A prefix changes the text, and no step removes a prefix again without a trace.
            Normalizer::Prepend(_) => (none(), none()),
            Normalizer::Replace { from, to } => (Characters::of(from), Characters::of(to)),
            Normalizer::Strip { left: false, right: false } | Normalizer::ByteLevel => (none(), none()),
            Normalizer::Strip { .. } => {
                let white = ('\0'..='\u{3000}').filter(|char| char.is_whitespace());
                (Characters::Ranges(white.map(|char| (char, char)).collect()), none())
            }
            Normalizer::Characters { kept, writes, .. } => {
                let mut takes = Vec::new();
                let mut from = Some('\0');
                for (low, high) in kept {
                    let before = ('\0'..=*low).rev().nth(1);
                    takes.extend(from.zip(before).filter(|(begin, before)| begin <= before));
                    from = (*high..=char::MAX).nth(1);
                }
                takes.extend(from.map(|begin| (begin, char::MAX)));
                (Characters::Ranges(takes), Characters::Ranges(writes.clone()))
            }
            _ => (Characters::All, Characters::All),
        };
        Self { takes, writes }
    }
}
