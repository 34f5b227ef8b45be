//! The tokenizer of a GGUF file.
//!
//! A file is turned into the `tokenizer.json` that would say the same, so that bytes of tokens, merges and the
//! encoder have one reader. Two kinds are read: byte-level byte pairs (`gpt2`) and SentencePiece's byte pairs
//! (`llama`). The second kind has scores in place of merges: its encoder joins the two neighbours that make the token
//! of the highest score. Every split of a token into two tokens becomes a merge, by the score of the token and, for
//! one token, the longer left side first, as the converters of transformers do.

use std::{cmp::Reverse, collections::HashMap, path::Path};

use serde_json::{Value, json};
use unskew_core::TokenId;

use unskew_gguf::{Gguf, GgufValue};

use super::pre_tokenizers;
use crate::{
    Limits, TokenizationError, Tokenizer, TokenizerError,
    error::quoted,
    format::json::{Added, File, MergePair, Model, Vocab},
    format::pipeline::Dialect,
};

const MODEL: &str = "tokenizer.ggml.model";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
const PRE: &str = "tokenizer.ggml.pre";

/// `tokenizer.ggml.token_type`.
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const UNUSED: i64 = 5;
const BYTE: i64 = 6;

/// Control tokens of these names end a sequence, as llama.cpp reads files, whether or not a key names them.
const END_OF_SEQUENCE: [&str; 18] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<eos>",
    "<turn|>",
    "<｜end▁of▁sentence｜>",
];

impl Tokenizer {
    /// The tokenizer of a GGUF file, with the default [`Limits`]. [`from_file`](Self::from_file) takes such files too.
    ///
    /// It is the one that llama.cpp has for the file: no normaliser, and no white space that control tokens swallow.
    /// Where the file names a pre-tokenizer that is not known here, the vocabulary is complete, and
    /// [`encode`](Self::encode) and [`tokenization`](Self::tokenization) are errors that say so.
    ///
    /// # Errors
    ///
    /// [`TokenizerError::File`] names the file; its source is the reason: [`TokenizerError::Gguf`], or as for
    /// [`from_bytes`](Self::from_bytes).
    pub fn from_gguf_file(path: impl AsRef<Path>) -> Result<Self, TokenizerError> {
        let path = path.as_ref();
        let in_file = |source| TokenizerError::File { path: path.to_owned(), source: Box::new(source) };
        let gguf = Gguf::open(path).map_err(|error| in_file(error.into()))?;
        Self::from_gguf_with(&gguf, Limits::DEFAULT).map_err(in_file)
    }

    /// As [`from_gguf_file`](Self::from_gguf_file), from a file that was read, with other limits.
    ///
    /// # Errors
    ///
    /// As [`from_bytes`](Self::from_bytes).
    pub fn from_gguf_with(gguf: &Gguf, limits: Limits) -> Result<Self, TokenizerError> {
        let tokens = Tokens::read(gguf, &limits)?;
        let model = required(gguf.text(MODEL), MODEL, "the kind of the tokenizer")?;
        let (file, unknown_split) = match model {
            "gpt2" => tokens.byte_level(gguf)?,
            "llama" => tokens.sentence_piece(gguf)?,
            other => {
                let what = format!(
                    "{} is not read here; byte pairs (`gpt2`, `llama`) are, others need their tokenizer.json",
                    quoted(other)
                );
                return Err(TokenizerError::unsupported(format!("`{MODEL}`"), what));
            }
        };
        let end = tokens.end_of_sequence();
        let tokenizer = Self::from_json(file, limits)?.with_end_of_sequence(&end)?;
        let mut tokenizer = tokenizer.padded(tokens.texts.len());
        if let Some(error) = unknown_split.or_else(|| tokens.equal_scores(model)) {
            tokenizer.refuse_texts(error);
        }
        Ok(tokenizer)
    }
}

fn required<T>(value: Option<T>, key: &str, what: &str) -> Result<T, TokenizerError> {
    value.ok_or_else(|| {
        let reason = format!("{what} is missing, or of another type; convert the model with its tokenizer");
        TokenizerError::not_tokenizer(format!("`{key}`"), reason)
    })
}

/// The tokens of a file, by id.
struct Tokens<'a> {
    texts: &'a [String],
    types: Vec<i64>,
    scores: Vec<f64>,
    /// The ids that keys name, of those that stand for no text: begin, end (of a text, a turn, a message), unknown.
    begin: Option<usize>,
    ends: Vec<usize>,
    unknown: Option<usize>,
}

impl<'a> Tokens<'a> {
    fn read(gguf: &'a Gguf, limits: &Limits) -> Result<Self, TokenizerError> {
        let texts = match gguf.get(TOKENS) {
            Some(GgufValue::Texts(texts)) => Some(texts.as_slice()),
            _ => None,
        };
        let texts = required(texts, TOKENS, "the list of tokens")?;
        if texts.len() > limits.ids {
            let last = texts.len() - 1;
            let token = quoted(&texts[last]);
            return Err(TokenizerError::IdTooLarge { token, id: last as u64, limit: limits.ids });
        }
        let lengths = |key: &str, len: usize| match len {
            len if len == texts.len() => Ok(()),
            len => {
                let reason = format!("it has {len} entries, and there are {} tokens", texts.len());
                Err(TokenizerError::not_tokenizer(format!("`{key}`"), reason))
            }
        };
        let types = match gguf.get(TYPES) {
            None => vec![1; texts.len()],
            Some(GgufValue::Signeds(types)) => types.clone(),
            Some(GgufValue::Unsigneds(types)) => {
                types.iter().map(|kind| i64::try_from(*kind).unwrap_or(0)).collect()
            }
            Some(_) => return required(None, TYPES, "the list of types"),
        };
        lengths(TYPES, types.len())?;
        let scores = match gguf.get(SCORES) {
            None => Vec::new(),
            Some(GgufValue::Floats(scores)) => scores.clone(),
            Some(_) => return required(None, SCORES, "the list of scores"),
        };
        if !scores.is_empty() {
            lengths(SCORES, scores.len())?;
        }
        let named = |key: &str| -> Result<Option<usize>, TokenizerError> {
            let key = format!("tokenizer.ggml.{key}_token_id");
            let Some(id) = gguf.number(&key) else { return Ok(None) };
            match usize::try_from(id) {
                Ok(id) if id < texts.len() => Ok(Some(id)),
                _ => {
                    let reason = format!("it is {id}, and there are {} tokens", texts.len());
                    Err(TokenizerError::not_tokenizer(format!("`{key}`"), reason))
                }
            }
        };
        // The ids of SentencePiece's own files, where no key names others.
        let is_spm = gguf.text(MODEL) == Some("llama");
        let or = |id: Option<usize>, default| {
            let is_special = types.get(default).is_some_and(|kind| matches!(*kind, UNKNOWN | CONTROL));
            id.or((is_spm && is_special).then_some(default))
        };
        let begin = or(named("bos")?, 1);
        let mut ends: Vec<usize> = Vec::new();
        ends.extend(or(named("eos")?, 2));
        for key in ["eot", "eom"] {
            ends.extend(named(key)?);
        }
        let unknown = or(named("unknown")?, 0);
        Ok(Self { texts, types, scores, begin, ends, unknown })
    }

    fn is_special(&self, id: usize) -> bool {
        matches!(self.types[id], UNKNOWN | CONTROL) || self.begin == Some(id) || self.ends.contains(&id)
    }

    fn end_of_sequence(&self) -> Vec<TokenId> {
        let is_end = |id: &usize| {
            self.ends.contains(id)
                || self.is_special(*id) && END_OF_SEQUENCE.contains(&self.texts[*id].as_str())
        };
        (0..self.texts.len()).filter(is_end).map(TokenId::from_index).collect()
    }

    /// Special tokens, and those that are matched on the text.
    fn added(&self) -> Vec<Added> {
        let is_added = |id: &usize| self.is_special(*id) || self.types[*id] == USER_DEFINED;
        let added = |id: usize| Added {
            id: id as u64,
            content: self.texts[id].clone(),
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: false,
            special: self.is_special(id),
        };
        (0..self.texts.len()).filter(is_added).map(added).collect()
    }

    fn file(&self, model: Model) -> File {
        File {
            version: None,
            added_tokens: Some(self.added()),
            normalizer: Value::Null,
            pre_tokenizer: Value::Null,
            post_processor: Value::Null,
            decoder: Value::Null,
            model: Some(model),
            dialect: Dialect::Oniguruma,
        }
    }

    fn model(&self, merges: Vec<MergePair>) -> Model {
        // Added tokens too, so that the encoder keeps their ids.
        let is_used = |id: &usize| self.types[*id] != UNUSED || self.is_special(*id);
        let vocab = (0..self.texts.len()).filter(is_used).map(|id| (self.texts[id].clone(), id as u64));
        Model {
            r#type: Some("BPE".to_owned()),
            vocab: Some(Vocab::Ids(vocab.collect())),
            merges: Some(merges),
            dropout: None,
            unk_token: None,
            unk_id: None,
            continuing_subword_prefix: None,
            end_of_word_suffix: None,
            fuse_unk: None,
            byte_fallback: None,
            ignore_merges: None,
            max_input_chars_per_word: None,
        }
    }

    /// The template that puts the tokens around a text that the file asks for.
    fn frame(&self, gguf: &Gguf, begins: bool) -> Value {
        let mut single = vec![json!({"Sequence": {"id": "A", "type_id": 0}})];
        let mut special = serde_json::Map::new();
        let mut piece = |id: usize| {
            let name = &self.texts[id];
            special.insert(name.clone(), json!({"id": name, "ids": [id], "tokens": [name]}));
            json!({"SpecialToken": {"id": name, "type_id": 0}})
        };
        if let Some(begin) = self.begin
            && gguf.flag("tokenizer.ggml.add_bos_token").unwrap_or(begins)
        {
            single.insert(0, piece(begin));
        }
        if let Some(end) = self.ends.first()
            && gguf.flag("tokenizer.ggml.add_eos_token").unwrap_or(false)
        {
            single.push(piece(*end));
        }
        json!({"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": special})
    }

    fn byte_level(&self, gguf: &Gguf) -> Result<(File, Option<TokenizationError>), TokenizerError> {
        let listed = match gguf.get(MERGES) {
            Some(GgufValue::Texts(merges)) => Some(merges),
            _ => None,
        };
        let mut merges = Vec::new();
        for (rank, merge) in required(listed, MERGES, "the list of merges")?.iter().enumerate() {
            let pair = merge.split_once(' ').filter(|(left, right)| !left.is_empty() && !right.is_empty());
            let Some((left, right)) = pair else {
                let (left, right) = (quoted(merge), String::new());
                let reason = "it is not made of two tokens with a space between".to_owned();
                return Err(TokenizerError::Merge { rank, left, right, reason });
            };
            merges.push(MergePair(Some((left.to_owned(), right.to_owned()))));
        }
        let name = gguf.text(PRE).unwrap_or("default");
        let known = pre_tokenizers::named(name);
        let unknown = TokenizationError::PreTokenizer { name: quoted(name) };
        let mut model = self.model(merges);
        model.ignore_merges = Some(known.as_ref().is_some_and(|known| known.whole_pieces));
        let mut file = self.file(model);
        file.decoder = json!({"type": "ByteLevel"});
        file.post_processor = self.frame(gguf, known.as_ref().is_some_and(|known| known.begins));
        let plain = || json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false});
        let error = known.is_none().then_some(unknown);
        file.pre_tokenizer = known.map_or_else(plain, |known| known.steps);
        Ok((file, error))
    }

    fn sentence_piece(&self, gguf: &Gguf) -> Result<(File, Option<TokenizationError>), TokenizerError> {
        if self.scores.is_empty() {
            return required(None, SCORES, "the list of scores");
        }
        let mut model = self.model(self.merges_of_scores());
        model.byte_fallback = Some(true);
        model.fuse_unk = Some(true);
        model.unk_token = self.unknown.map(|id| self.texts[id].clone());
        let mut file = self.file(model);
        let mark = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        let mut decoders = vec![
            json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
            json!({"type": "ByteFallback"}),
            json!({"type": "Fuse"}),
        ];
        let mut normalizers = vec![mark];
        if gguf.flag("tokenizer.ggml.add_space_prefix").unwrap_or(true) {
            normalizers.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
            decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
        }
        file.normalizer = json!({"type": "Sequence", "normalizers": normalizers});
        file.decoder = json!({"type": "Sequence", "decoders": decoders});
        file.post_processor = self.frame(gguf, true);
        let removes = gguf.flag("tokenizer.ggml.remove_extra_whitespaces").unwrap_or(false);
        let error = TokenizationError::PreTokenizer { name: "`remove_extra_whitespaces`".to_owned() };
        Ok((file, removes.then_some(error)))
    }

    /// The tokens that the encoder joins from others.
    fn is_joined(&self, id: usize) -> bool {
        !self.is_special(id) && !matches!(self.types[id], USER_DEFINED | UNUSED | BYTE)
    }

    fn merges_of_scores(&self) -> Vec<MergePair> {
        let joined = (0..self.texts.len()).filter(|id| self.is_joined(*id));
        let ids: HashMap<&str, usize> = joined.map(|id| (self.texts[id].as_str(), id)).collect();
        let mut merges = Vec::new();
        for (text, id) in &ids {
            for (at, _) in text.char_indices().skip(1) {
                let (left, right) = text.split_at(at);
                if ids.contains_key(left) && ids.contains_key(right) {
                    merges.push((*id, left, right));
                }
            }
        }
        let by_score = |one: &(usize, &str, &str), other: &(usize, &str, &str)| {
            let scores = self.scores[other.0].total_cmp(&self.scores[one.0]);
            scores.then_with(|| (one.0, Reverse(one.1.len())).cmp(&(other.0, Reverse(other.1.len()))))
        };
        merges.sort_unstable_by(by_score);
        let pair =
            |(_, left, right): (usize, &str, &str)| MergePair(Some((left.to_owned(), right.to_owned())));
        merges.into_iter().map(pair).collect()
    }

    /// Two joined tokens of one score: which of them is made first depends on where they stand in a text.
    fn equal_scores(&self, model: &str) -> Option<TokenizationError> {
        if model != "llama" {
            return None;
        }
        // Tokens of one character are never made, so that their scores decide nothing.
        let is_made = |id: &usize| self.is_joined(*id) && self.texts[*id].chars().nth(1).is_some();
        let mut made: Vec<usize> = (0..self.texts.len()).filter(is_made).collect();
        made.sort_unstable_by(|one, other| self.scores[*one].total_cmp(&self.scores[*other]));
        let equal = made.windows(2).find(|pair| self.scores[pair[0]] == self.scores[pair[1]])?;
        Some(TokenizationError::EqualScores {
            first: TokenId::from_index(equal[0]),
            second: TokenId::from_index(equal[1]),
        })
    }
}
