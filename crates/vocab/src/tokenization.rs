//! The facts that decide how a text is segmented, as [`Tokenization`]: the steps of the file as data.
//!
//! A step that the data does not express exactly becomes `Other`, so that an engine refuses it instead of enforcing
//! something else. Steps keep their order, for a step reads the text as the steps before it leave it: a pattern after a
//! byte-level step runs over the alphabet of bytes, and after a metaspace step it finds no spaces.

use std::collections::HashMap;

use unskew_core::{
    Merge, MergeTable, Normalizer, PrependScheme, SplitBehavior, SplitPattern, TokenId, TokenKind,
    Tokenization, UnicodeForm, Vocabulary,
};

use crate::{
    TokenizationError, TokenizerError, chars,
    error::quoted,
    format::json::Model,
    format::pipeline::{NormalizerStep, Pattern, SplitStep},
};

/// The pattern of GPT-2, which a byte-level step applies unless it is told not to.
pub(crate) const BYTE_LEVEL_PATTERN: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// The steps and merges of a byte-pair model. `never_made`: the tokens whose text is always cut out of a text before
/// the model sees it; merges with them never apply.
pub(crate) fn facts(
    normalizers: &[NormalizerStep],
    splits: &[SplitStep],
    mut merges: Vec<Merge>,
    vocabulary: &Vocabulary,
    never_made: impl Fn(TokenId) -> bool,
) -> Result<Tokenization, TokenizationError> {
    merges.retain(|merge| ![merge.left, merge.right, merge.result].into_iter().any(&never_made));
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

pub(crate) type Merges = (Vec<Merge>, Vec<(String, String)>);

/// The merges of a byte-pair model, by id and by name: each side and each result is a token of the model.
pub(crate) fn merges(model: &mut Model, by_name: &HashMap<&str, u32>) -> Result<Merges, TokenizerError> {
    for (field, value) in [
        ("`model.continuing_subword_prefix`", &model.continuing_subword_prefix),
        ("`model.end_of_word_suffix`", &model.end_of_word_suffix),
    ] {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            let what = format!("{} marks where a word begins or ends", quoted(value));
            return Err(TokenizerError::unsupported(field, what));
        }
    }
    let listed =
        model.merges.take().ok_or_else(|| TokenizerError::not_tokenizer("`model.merges`", "missing"))?;
    let mut by_id = Vec::with_capacity(listed.len());
    let mut names = Vec::with_capacity(listed.len());
    let mut whole = String::new();
    for (left, right) in listed.into_iter().filter_map(|pair| pair.0) {
        whole.clear();
        whole.push_str(&left);
        whole.push_str(&right);
        let ids = [&left, &right, &whole].map(|name| by_name.get(name.as_str()).copied());
        let [Some(left_id), Some(right_id), Some(result)] = ids else {
            let missing = [&left, &right, &whole][ids.iter().position(Option::is_none).unwrap_or(2)];
            return Err(TokenizerError::Merge {
                rank: names.len(),
                left: quoted(&left),
                right: quoted(&right),
                reason: format!("{} is not in `model.vocab`", quoted(missing)),
            });
        };
        by_id.push(merge(left_id, right_id, result));
        names.push((left, right));
    }
    Ok((by_id, names))
}

/// Merges as ids.
pub(crate) fn merge(left: u32, right: u32, result: u32) -> Merge {
    Merge { left: TokenId(left), right: TokenId(right), result: TokenId(result) }
}

fn normalizer_facts(steps: &[NormalizerStep]) -> Vec<Normalizer> {
    let other = |name: &str| Normalizer::Other(name.to_owned());
    let mut facts = Vec::new();
    for step in steps {
        facts.push(match step {
            NormalizerStep::Unicode(form) => Normalizer::Unicode(*form),
            NormalizerStep::Prepend(text) => Normalizer::Prepend(text.clone()),
            NormalizerStep::Replace { pattern: Pattern::Literal(from), content } => {
                Normalizer::Replace { from: from.clone(), to: content.clone() }
            }
            NormalizerStep::Replace { pattern: Pattern::Regex(pattern), content } => {
                Normalizer::ReplaceRegex { pattern: pattern.clone(), to: content.clone() }
            }
            NormalizerStep::Strip { left, right } => Normalizer::Strip { left: *left, right: *right },
            NormalizerStep::Lowercase => chars::lowercase("Lowercase"),
            NormalizerStep::StripAccents => chars::strip_accents(),
            NormalizerStep::Nmt => chars::nmt(),
            NormalizerStep::Bert { clean, chinese, accents, lowercase } => {
                if *clean {
                    facts.push(chars::bert_clean());
                }
                if *chinese {
                    facts.push(chars::bert_chinese());
                }
                if accents.unwrap_or(*lowercase) {
                    facts.push(Normalizer::Unicode(UnicodeForm::Nfd));
                    facts.push(chars::bert_accents());
                }
                if *lowercase {
                    facts.push(chars::lowercase("BertNormalizer"));
                }
                continue;
            }
            // It looks at graphemes, of which Unicode has changed its mind.
            NormalizerStep::Precompiled(_) => other("Precompiled"),
            NormalizerStep::ByteLevel => Normalizer::ByteLevel,
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
    let whole_match = |pattern: &str, removed: bool| {
        regex(pattern, if removed { SplitBehavior::Removed } else { SplitBehavior::Isolated }, false)
    };
    // Whether the text is already spelled in the alphabet of bytes.
    let mut spelled = byte_level_normalizer;
    let mut facts = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        match step {
            SplitStep::ByteLevel { prefix_space, use_regex } => {
                if *prefix_space {
                    // In front of the first step this is a space in front of the text, and elsewhere in front of each
                    // piece.
                    let is_first = index == 0 && !spelled;
                    facts.push(if is_first { SplitPattern::PrefixSpace } else { other("ByteLevel") });
                }
                if *use_regex {
                    facts.push(regex(BYTE_LEVEL_PATTERN, SplitBehavior::Isolated, false));
                }
                if !spelled && index + 1 < steps.len() {
                    facts.push(SplitPattern::ByteLevel);
                }
                spelled = true;
            }
            SplitStep::Metaspace { replacement, prepend, split } => {
                // Elsewhere it puts a space in front of each piece.
                let is_plain = index == 0 || *prepend == PrependScheme::Never;
                facts.push(if is_plain && !spelled {
                    SplitPattern::Metaspace { replacement: *replacement, prepend: *prepend, split: *split }
                } else {
                    other("Metaspace")
                });
            }
            SplitStep::Split { pattern: Pattern::Regex(pattern), behavior, invert } => {
                facts.push(regex(pattern, *behavior, *invert));
            }
            SplitStep::Split { pattern: Pattern::Literal(text), behavior, invert } => {
                facts.push(SplitPattern::Literal {
                    text: text.clone(),
                    behavior: *behavior,
                    invert: *invert,
                });
            }
            SplitStep::Digits { individual } => {
                let behavior = if *individual { SplitBehavior::Isolated } else { SplitBehavior::Contiguous };
                facts.push(regex(chars::numeric(), behavior, false));
            }
            SplitStep::WhitespaceSplit => facts.push(whole_match(r"\s", true)),
            SplitStep::Whitespace => facts.push(regex(r"\w+|[^\w\s]+", SplitBehavior::Removed, true)),
            SplitStep::Delimiter(delimiter) => facts.push(SplitPattern::Literal {
                text: delimiter.to_string(),
                behavior: SplitBehavior::Removed,
                invert: false,
            }),
            SplitStep::Punctuation(behavior) => facts.push(regex(chars::punctuation(), *behavior, false)),
            SplitStep::Bert => {
                facts.push(whole_match(r"\s", true));
                facts.push(whole_match(chars::punctuation(), false));
            }
            // The library keeps its table of scripts to itself.
            SplitStep::UnicodeScripts => facts.push(other("UnicodeScripts")),
            SplitStep::FixedLength(length) => {
                facts.push(whole_match(&format!("(?s:.){{1,{length}}}"), false));
            }
        }
    }
    facts
}

/// The text tokens that the model itself never writes: those that are added from outside, and those with a character
/// that no piece has.
pub(crate) fn unwritten(
    vocabulary: &Vocabulary,
    tokens: &[(String, u32)],
    is_written: impl Fn(&str) -> bool,
) -> Vec<TokenId> {
    let mut written = vec![false; vocabulary.len()];
    for (_, id) in tokens.iter().filter(|(token, _)| is_written(token)) {
        if let Some(written) = written.get_mut(*id as usize) {
            *written = true;
        }
    }
    let texts = vocabulary.text_tokens().map(|(token, _)| token);
    texts.filter(|token| !written[token.index()]).collect()
}
