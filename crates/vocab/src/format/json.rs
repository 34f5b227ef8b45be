//! The outer form of a `tokenizer.json`: the model with its vocabulary and merges, and the added tokens. The steps
//! around the model are read by [`crate::format::pipeline`].
//!
//! Read with our own types and not with the `tokenizers` crate's, because that crate keeps the vocabulary and the
//! merges to itself, renumbers added tokens, accepts doubled ids, and can panic on a damaged file: it is given only
//! data that was checked here (see [`crate::encoder`]). Fields that we do not know are skipped, as it does; a field
//! that is listed twice is an error.

use std::{collections::HashMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

use super::pipeline::Dialect;
use crate::{Limits, TokenizerError, error::quoted};

/// A `tokenizer.json`, before anything but its form is checked. Truncation and padding are not read: they belong to
/// the batches of a training run.
#[derive(Debug, Deserialize)]
pub(crate) struct File {
    pub(crate) version: Option<String>,
    #[serde(default)]
    pub(crate) added_tokens: Option<Vec<Added>>,
    #[serde(default)]
    pub(crate) normalizer: Value,
    #[serde(default)]
    pub(crate) pre_tokenizer: Value,
    #[serde(default)]
    pub(crate) post_processor: Value,
    #[serde(default)]
    pub(crate) decoder: Value,
    pub(crate) model: Option<Model>,
    /// The syntax of the regexes of the pre-tokenizer.
    #[serde(skip)]
    pub(crate) dialect: Dialect,
}

/// An entry of `added_tokens`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct Added {
    pub(crate) id: u64,
    pub(crate) content: String,
    pub(crate) single_word: bool,
    pub(crate) lstrip: bool,
    pub(crate) rstrip: bool,
    pub(crate) normalized: bool,
    pub(crate) special: bool,
}

/// The model: the fields of all four kinds.
#[derive(Debug, Deserialize)]
pub(crate) struct Model {
    pub(crate) r#type: Option<String>,
    pub(crate) vocab: Option<Vocab>,
    pub(crate) merges: Option<Vec<MergePair>>,
    pub(crate) dropout: Option<f64>,
    pub(crate) unk_token: Option<String>,
    pub(crate) unk_id: Option<u64>,
    pub(crate) continuing_subword_prefix: Option<String>,
    pub(crate) end_of_word_suffix: Option<String>,
    pub(crate) fuse_unk: Option<bool>,
    pub(crate) byte_fallback: Option<bool>,
    pub(crate) ignore_merges: Option<bool>,
    pub(crate) max_input_chars_per_word: Option<u64>,
}

/// The kind of a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ModelKind {
    Bpe,
    WordPiece,
    WordLevel,
    Unigram,
}

/// `model.vocab`: a map from token to id or, for a unigram model, a list of tokens with scores.
#[derive(Debug)]
pub(crate) enum Vocab {
    Ids(Vec<(String, u64)>),
    Scores(Vec<(String, f64)>),
}

/// One merge, `"a b"` in older files and `["a", "b"]` in newer ones. `None`: a version line, which is skipped.
#[derive(Debug)]
pub(crate) struct MergePair(pub(crate) Option<(String, String)>);

impl File {
    /// Reads the form of a `tokenizer.json`.
    pub(crate) fn read(bytes: &[u8], limits: &Limits) -> Result<Self, TokenizerError> {
        if bytes.len() > limits.file_bytes {
            return Err(TokenizerError::FileTooLarge { limit: limits.file_bytes });
        }
        // The JSON reader would pass over bytes that are not UTF-8 in the fields that it skips.
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = &bytes[..error.valid_up_to()];
            let line_at = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            TokenizerError::NotJson {
                line,
                column: before.len() - line_at + 1,
                reason: "not UTF-8".to_owned(),
            }
        })?;
        // Editors on Windows put one in front.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        // Ours reads a struct from a list, too.
        if text.trim_start().starts_with('[') {
            return Err(TokenizerError::not_tokenizer("the file", "an object is expected, it is a list"));
        }
        let file: Self = serde_json::from_str(text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            // The reader's message ends with the position, which is given apart.
            let mut reason = error.to_string();
            if let Some(end) = reason.rfind(" at line ") {
                reason.truncate(end);
            }
            if reason.chars().count() > 160 {
                reason = reason.chars().take(160).chain(['…']).collect();
            }
            if error.is_data() {
                TokenizerError::not_tokenizer(format!("line {line}, column {column}"), reason)
            } else {
                TokenizerError::NotJson { line, column, reason }
            }
        })?;
        if let Some(version) = &file.version
            && version != "1.0"
        {
            let reason = format!("it is {}, and 1.0 is the only one known", quoted(version));
            return Err(TokenizerError::not_tokenizer("`version`", reason));
        }
        Ok(file)
    }
}

impl Model {
    /// The kind, which files from before 2021 do not name.
    pub(crate) fn kind(&self) -> Result<ModelKind, TokenizerError> {
        match (self.r#type.as_deref(), &self.vocab) {
            (Some("BPE"), _) => Ok(ModelKind::Bpe),
            (Some("WordPiece"), _) => Ok(ModelKind::WordPiece),
            (Some("WordLevel"), _) => Ok(ModelKind::WordLevel),
            (Some("Unigram"), _) => Ok(ModelKind::Unigram),
            (Some(other), _) => {
                let reason = format!("{} is none of BPE, WordPiece, WordLevel, Unigram", quoted(other));
                Err(TokenizerError::not_tokenizer("`model.type`", reason))
            }
            (None, _) if self.merges.is_some() => Ok(ModelKind::Bpe),
            (None, Some(Vocab::Scores(_))) => Ok(ModelKind::Unigram),
            (None, _) if self.max_input_chars_per_word.is_some() => Ok(ModelKind::WordPiece),
            (None, Some(Vocab::Ids(_))) if self.unk_token.is_some() => Ok(ModelKind::WordLevel),
            (None, _) => Err(TokenizerError::not_tokenizer("`model.type`", "missing")),
        }
    }
}

impl ModelKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bpe => "BPE",
            Self::WordPiece => "WordPiece",
            Self::WordLevel => "WordLevel",
            Self::Unigram => "Unigram",
        }
    }
}

/// The tokens of the model, checked: every id below the limit, and no token and no id twice.
#[derive(Debug)]
pub(crate) struct ModelTokens {
    /// As the file spells them, in its order. For a unigram model the ids are the positions.
    pub(crate) tokens: Vec<(String, u32)>,
    /// The scores of a unigram model, in the same order.
    pub(crate) scores: Vec<f64>,
}

impl ModelTokens {
    pub(crate) fn read(
        vocab: Option<Vocab>,
        kind: ModelKind,
        limits: &Limits,
    ) -> Result<Self, TokenizerError> {
        let place = "`model.vocab`";
        let (ids, scores) = match (vocab, kind) {
            (None, _) => return Err(TokenizerError::not_tokenizer(place, "missing")),
            (Some(Vocab::Scores(list)), ModelKind::Unigram) => {
                let (tokens, scores): (Vec<String>, Vec<f64>) = list.into_iter().unzip();
                (tokens.into_iter().zip(0u64..).collect(), scores)
            }
            (Some(Vocab::Ids(ids)), ModelKind::Bpe | ModelKind::WordPiece | ModelKind::WordLevel) => {
                (ids, Vec::new())
            }
            (Some(_), ModelKind::Unigram) => {
                let reason = "a Unigram model has a list of tokens with scores";
                return Err(TokenizerError::not_tokenizer(place, reason));
            }
            (Some(_), _) => {
                let reason = format!("a {} model has a map from tokens to ids", kind.name());
                return Err(TokenizerError::not_tokenizer(place, reason));
            }
        };
        let tokens: Vec<(String, u32)> = ids
            .into_iter()
            .map(|(token, id)| {
                let id32 = checked_id(&token, id, limits)?;
                Ok((token, id32))
            })
            .collect::<Result<_, TokenizerError>>()?;
        Ok(Self { tokens, scores })
    }

    /// From token to id; an error where a token is listed twice.
    pub(crate) fn by_name(&self) -> Result<HashMap<&str, u32>, TokenizerError> {
        let mut by_name = HashMap::with_capacity(self.tokens.len());
        for (token, id) in &self.tokens {
            if by_name.insert(token.as_str(), *id).is_some() {
                return Err(TokenizerError::DuplicateToken { place: "`model.vocab`", token: quoted(token) });
            }
        }
        Ok(by_name)
    }
}

/// `id` in 32 bits, if it is below the limit.
pub(crate) fn checked_id(token: &str, id: u64, limits: &Limits) -> Result<u32, TokenizerError> {
    match u32::try_from(id) {
        // The highest id would make the number of ids overflow.
        Ok(id32) if (id32 as usize) < limits.ids && id32 < u32::MAX - 1 => Ok(id32),
        _ => Err(TokenizerError::IdTooLarge { token: quoted(token), id, limit: limits.ids }),
    }
}

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EitherForm;

        impl<'de> Visitor<'de> for EitherForm {
            type Value = Vocab;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from tokens to ids, or a list of tokens with scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocab, A::Error> {
                let mut ids = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    ids.push(entry);
                }
                Ok(Vocab::Ids(ids))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vocab, A::Error> {
                let mut scores = Vec::new();
                while let Some(entry) = seq.next_element()? {
                    scores.push(entry);
                }
                Ok(Vocab::Scores(scores))
            }
        }

        deserializer.deserialize_any(EitherForm)
    }
}

impl<'de> Deserialize<'de> for MergePair {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EitherForm;

        impl<'de> Visitor<'de> for EitherForm {
            type Value = MergePair;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge: \"a b\" or [\"a\", \"b\"]")
            }

            fn visit_str<E: de::Error>(self, merge: &str) -> Result<MergePair, E> {
                if merge.starts_with("#version") {
                    return Ok(MergePair(None));
                }
                match merge.split_once(' ') {
                    Some((left, right)) if !right.contains(' ') => {
                        Ok(MergePair(Some((left.to_owned(), right.to_owned()))))
                    }
                    _ => Err(E::invalid_value(de::Unexpected::Str(merge), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<MergePair, A::Error> {
                let left = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
                let right = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
                if seq.next_element::<de::IgnoredAny>()?.is_some() {
                    return Err(A::Error::invalid_length(3, &self));
                }
                Ok(MergePair(Some((left, right))))
            }
        }

        deserializer.deserialize_any(EitherForm)
    }
}
