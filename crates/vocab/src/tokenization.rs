//! The facts that decide how a text is segmented, as [`Tokenization`]: what the steps of the file mean as data.
//!
//! A step that the data does not express exactly becomes `Other`, so that an engine refuses it instead of enforcing
//! something else. That includes steps that are expressible but stand where they mean something different: a pattern
//! behind a byte-level step runs over the alphabet of bytes, not over the text.

use unskew_core::{
    Merge, MergeTable, Normalizer, SplitBehavior, SplitPattern, TokenId, TokenKind, Tokenization, Vocabulary,
};

use crate::{
    TokenizationError,
    pipeline::{NormalizerStep, Pattern, SplitStep},
};

/// The pattern of GPT-2, which a byte-level step applies unless it is told not to.
pub(crate) const BYTE_LEVEL_PATTERN: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// The steps and merges of a byte-pair model.
pub(crate) fn facts(
    normalizers: &[NormalizerStep],
    splits: &[SplitStep],
    merges: Vec<Merge>,
    vocabulary: &Vocabulary,
) -> Result<Tokenization, TokenizationError> {
    for (rank, merge) in merges.iter().enumerate() {
        let Merge { left, right, result } = *merge;
        for token in [left, right, result] {
            if vocabulary.kind(token) == TokenKind::Control {
                return Err(TokenizationError::ControlMerge { rank, token });
            }
        }
        let [left, right, whole] =
            [left, right, result].map(|token| vocabulary.text(token).unwrap_or_default());
        if whole.strip_prefix(left) != Some(right) {
            return Err(TokenizationError::MergeBytes { rank, result });
        }
    }
    let mut facts = Tokenization::default();
    facts.normalizers = normalizer_facts(normalizers);
    facts.splits = split_facts(splits, normalizers.contains(&NormalizerStep::ByteLevel));
    facts.merges = MergeTable::new(merges)?;
    Ok(facts)
}

/// Merges as ids.
pub(crate) fn merge(left: u32, right: u32, result: u32) -> Merge {
    Merge { left: TokenId(left), right: TokenId(right), result: TokenId(result) }
}

fn normalizer_facts(steps: &[NormalizerStep]) -> Vec<Normalizer> {
    let other = |name: &str| Normalizer::Other(name.to_owned());
    let mut facts = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        facts.push(match step {
            NormalizerStep::Unicode(form) => Normalizer::Unicode(*form),
            NormalizerStep::Prepend(text) => Normalizer::Prepend(text.clone()),
            NormalizerStep::Replace { pattern: Pattern::Literal(from), content } => {
                Normalizer::Replace { from: from.clone(), to: content.clone() }
            }
            NormalizerStep::Replace { pattern: Pattern::Regex(_), .. } => other("Replace"),
            NormalizerStep::Lowercase => other("Lowercase"),
            NormalizerStep::Strip { .. } => other("Strip"),
            NormalizerStep::StripAccents => other("StripAccents"),
            NormalizerStep::Nmt => other("Nmt"),
            NormalizerStep::Bert { .. } => other("BertNormalizer"),
            NormalizerStep::Precompiled(_) => other("Precompiled"),
            // As the last step it only changes how bytes are spelled, and here bytes are bytes.
            NormalizerStep::ByteLevel if index + 1 == steps.len() => continue,
            NormalizerStep::ByteLevel => other("ByteLevel"),
        });
    }
    facts
}

fn split_facts(steps: &[SplitStep], byte_level_normalizer: bool) -> Vec<SplitPattern> {
    let other = |name: &str| SplitPattern::Other(name.to_owned());
    let regex = |pattern: &str, behavior, invert| SplitPattern::Regex {
        pattern: pattern.to_owned(),
        behavior,
        invert,
    };
    // Whether the text is already spelled in the alphabet of bytes.
    let mut spelled = byte_level_normalizer;
    let mut facts = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let is_first = index == 0;
        match step {
            SplitStep::ByteLevel { prefix_space, use_regex } => {
                let exact = !spelled && (is_first || !prefix_space);
                match exact {
                    // Nothing but the spelling changes.
                    _ if !prefix_space && !use_regex => {}
                    false => facts.push(other("ByteLevel")),
                    true => {
                        if *prefix_space {
                            facts.push(SplitPattern::PrefixSpace);
                        }
                        if *use_regex {
                            facts.push(regex(BYTE_LEVEL_PATTERN, SplitBehavior::Isolated, false));
                        }
                    }
                }
                spelled = true;
            }
            SplitStep::Metaspace { replacement, prepend, split } if is_first && !spelled => {
                facts.push(SplitPattern::Metaspace {
                    replacement: *replacement,
                    prepend: *prepend,
                    split: *split,
                });
            }
            SplitStep::Metaspace { .. } => facts.push(other("Metaspace")),
            SplitStep::Split { pattern: Pattern::Regex(pattern), behavior, invert } if !spelled => {
                facts.push(regex(pattern, *behavior, *invert));
            }
            SplitStep::Split { pattern: Pattern::Literal(text), behavior, invert } if !spelled => {
                facts.push(SplitPattern::Literal {
                    text: text.clone(),
                    behavior: *behavior,
                    invert: *invert,
                });
            }
            SplitStep::Split { .. } => facts.push(other("Split")),
            SplitStep::Digits { individual } if !spelled => {
                let behavior = if *individual { SplitBehavior::Isolated } else { SplitBehavior::Contiguous };
                facts.push(regex(r"\p{N}", behavior, false));
            }
            SplitStep::Digits { .. } => facts.push(other("Digits")),
            SplitStep::WhitespaceSplit if !spelled => facts.push(regex(r"\s", SplitBehavior::Removed, false)),
            SplitStep::WhitespaceSplit => facts.push(other("WhitespaceSplit")),
            SplitStep::Whitespace if !spelled => {
                facts.push(regex(r"\w+|[^\w\s]+", SplitBehavior::Removed, true));
            }
            SplitStep::Whitespace => facts.push(other("Whitespace")),
            SplitStep::Delimiter(delimiter) if !spelled => facts.push(SplitPattern::Literal {
                text: delimiter.to_string(),
                behavior: SplitBehavior::Removed,
                invert: false,
            }),
            SplitStep::Delimiter(_) => facts.push(other("Delimiter")),
            // Its set of characters is that of an older version of Unicode.
            SplitStep::Punctuation(_) => facts.push(other("Punctuation")),
            SplitStep::Bert => facts.push(other("BertPreTokenizer")),
            SplitStep::UnicodeScripts => facts.push(other("UnicodeScripts")),
            SplitStep::FixedLength(_) => facts.push(other("FixedLength")),
        }
    }
    facts
}
