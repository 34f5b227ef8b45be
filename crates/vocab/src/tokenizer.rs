//! A loaded tokenizer: the vocabulary and the segmentation as data, and the encoder.

mod texts;

use std::{collections::HashSet, fmt, io::Read, path::Path, sync::Arc};

use unskew_core::{AddedToken, Symbols, TokenId, TokenKind, Tokenization, Vocabulary, byte_to_alphabet};

use crate::{
    Gguf, Limits, TokenizationError, TokenizerError,
    bytes::{self, Meaning, Spelling, fallback_name},
    encoder::{self, Encoder, NormalizerChain},
    format::json::{Added, File, ModelKind, ModelTokens},
    format::pipeline::{self, DecoderStep, NormalizerStep, SplitStep},
    notes::DecoderNote,
    tokenization,
};

/// Control tokens of these names end a sequence, as far as a `tokenizer.json` tells.
const END_OF_SEQUENCE: [&str; 19] = [
    "</s>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<eos>",
    "<|eos|>",
    "[EOS]",
    "<end_of_turn>",
    "<|END_OF_TURN_TOKEN|>",
    "<|EOT|>",
    "<|return|>",
    "<|call|>",
    "<turn|>",
    "<EOS_TOKEN>",
    "<EOD|LLM-jp>",
    "<｜end▁of▁sentence｜>",
];

/// The longest token of a unigram model, in bytes: the encoder keeps them in a trie of one allocation per byte and
/// tries every prefix of the text, so that its time grows with the square of this.
const UNIGRAM_PIECE_LIMIT: usize = 1024;

/// How much longer than the limit of a text its normalised form may be: canonical decomposition makes three bytes of
/// one at the most. A file that makes more of a text is made for that purpose.
const NORMALIZED_GROWTH: usize = 4;

/// The longest word that a WordPiece model may be asked to segment, in characters: time grows with its cube.
const WORD_LIMIT: u64 = 1000;

/// A tokenizer, loaded: the texts of its ids, its segmentation of text, and the encoder itself.
///
/// Immutable and shareable between threads. See the [crate documentation](crate) for an example.
pub struct Tokenizer {
    vocabulary: Arc<Vocabulary>,
    tokenization: Result<Tokenization, TokenizationError>,
    added: Vec<AddedToken>,
    fallback: Vec<(u8, TokenId)>,
    before: Vec<TokenId>,
    behind: Vec<TokenId>,
    spelling: Spelling,
    notes: Vec<DecoderNote>,
    prepends_space: bool,
    encoder: Encoder,
    /// Why texts are not encoded.
    no_texts: Option<TokenizationError>,
    limits: Limits,
}

impl Tokenizer {
    /// Loads a `tokenizer.json`, or the tokenizer of a GGUF file, with the default [`Limits`].
    ///
    /// # Errors
    ///
    /// [`TokenizerError::File`] names the file; its source is the reason, as for
    /// [`from_bytes`](Self::from_bytes).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, TokenizerError> {
        Self::from_file_with(path, Limits::DEFAULT)
    }

    /// Loads a `tokenizer.json`, or the tokenizer of a GGUF file, with other limits.
    ///
    /// # Errors
    ///
    /// As for [`from_file`](Self::from_file).
    pub fn from_file_with(path: impl AsRef<Path>, limits: Limits) -> Result<Self, TokenizerError> {
        let path = path.as_ref();
        let in_file = |source| TokenizerError::File { path: path.to_owned(), source: Box::new(source) };
        if Gguf::is_at(path) {
            let gguf = Gguf::open_with(path, limits.file_bytes).map_err(|error| in_file(error.into()))?;
            return Self::from_gguf_with(&gguf, limits).map_err(in_file);
        }
        let bytes = read(path, limits.file_bytes).map_err(in_file)?;
        Self::from_bytes_with(&bytes, limits).map_err(in_file)
    }

    /// Reads a `tokenizer.json` with the default [`Limits`].
    ///
    /// Takes about 50 ms for a megabyte of JSON, and about fifteen times its memory at the peak; most of the rest is
    /// the encoder's.
    ///
    /// # Errors
    ///
    /// [`TokenizerError`]: not JSON (with line and column), not a `tokenizer.json` (with the missing part), ids beyond
    /// the limit or doubled, merges of unknown tokens, steps whose effect on the bytes of tokens is not known exactly,
    /// and regexes that the encoder refuses.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenizerError> {
        Self::from_bytes_with(bytes, Limits::DEFAULT)
    }

    /// Reads a `tokenizer.json` with other limits.
    ///
    /// # Errors
    ///
    /// As for [`from_bytes`](Self::from_bytes).
    pub fn from_bytes_with(bytes: &[u8], limits: Limits) -> Result<Self, TokenizerError> {
        Self::from_json(File::read(bytes, &limits)?, limits)
    }

    pub(crate) fn from_json(file: File, limits: Limits) -> Result<Self, TokenizerError> {
        let normalizers = pipeline::normalizers(&file.normalizer)?;
        let splits = pipeline::splits(&file.pre_tokenizer, file.dialect)?;
        let mut decoders = pipeline::decoders(&file.decoder)?;
        let frame = pipeline::frame(&file.post_processor)?;
        let mut model = file.model.ok_or_else(|| TokenizerError::not_tokenizer("`model`", "missing"))?;
        let kind = model.kind()?;
        let tokens = ModelTokens::read(model.vocab.take(), kind, &limits)?;
        let added = file.added_tokens.unwrap_or_default();

        let by_name = tokens.by_name()?;
        if let [DecoderStep::WordEnd(suffix)] = decoders.as_slice() {
            // Where no token ends a word, the decoder is concatenation.
            let ends = |token: &str| token.contains(suffix.as_str());
            if !by_name.keys().copied().chain(added.iter().map(|token| token.content.as_str())).any(ends) {
                decoders.clear();
            }
        }
        let word_prefix = match kind {
            ModelKind::WordPiece => Some(model.continuing_subword_prefix.as_deref().unwrap_or("##")),
            ModelKind::Bpe | ModelKind::WordLevel | ModelKind::Unigram => None,
        };
        let mut byte_fallback =
            model.byte_fallback.unwrap_or(false) && matches!(kind, ModelKind::Bpe | ModelKind::Unigram);
        let is_complete =
            (0..=255).all(|byte| by_name.contains_key(byte_to_alphabet(byte).to_string().as_str()));
        if byte_fallback
            && is_complete
            && Spelling::new(kind, word_prefix, false, &normalizers, &splits, &decoders)
                .is_ok_and(|spelling| spelling.is_byte_level())
        {
            // Every byte has its token: the encoder never falls back.
            byte_fallback = false;
        }
        let spelling = Spelling::new(kind, word_prefix, byte_fallback, &normalizers, &splits, &decoders)?;
        let notes = DecoderNote::of(&file.decoder, &decoders, &spelling);
        let unknown = unknown_id(kind, &model, &tokens, &by_name)?;

        let chain = NormalizerChain::new(&normalizers, limits.text_bytes.saturating_mul(NORMALIZED_GROWTH))?;
        let normalize = |text: &str| chain.normalize(text);
        let meanings =
            bytes::meanings(&spelling, &tokens.tokens, &by_name, &added, unknown, &limits, normalize)?;
        let vocabulary = vocabulary(meanings)?;
        let fallback = if byte_fallback {
            let id = |byte| by_name.get(fallback_name(byte).as_str()).map(|id| (byte, TokenId(*id)));
            (0..=255).filter_map(id).collect()
        } else {
            Vec::new()
        };

        let (merges, merge_names) = match kind {
            ModelKind::Bpe => tokenization::merges(&mut model, &by_name)?,
            ModelKind::WordPiece | ModelKind::WordLevel | ModelKind::Unigram => Default::default(),
        };
        let unwritten =
            tokenization::unwritten(&vocabulary, &tokens.tokens, |token| spelling.is_written(token));
        let normalized_added = added.iter().map(|token| {
            let mut fact = added_token(token);
            if token.normalized {
                fact.content = normalize(&token.content)?;
                if fact.content.is_empty() {
                    // The library would find nothing of it everywhere, without end.
                    let reason = format!("the normaliser leaves nothing of token {}", token.id);
                    return Err(TokenizerError::not_tokenizer("`added_tokens`", reason));
                }
            }
            Ok(fact)
        });
        let matched = normalized_added.collect::<Result<Vec<AddedToken>, TokenizerError>>()?;
        let whole_pieces = model.ignore_merges.unwrap_or(false);
        let looks_up_bytes =
            whole_pieces && !byte_fallback && tokens.tokens.iter().any(|(token, _)| spelling.is_byte(token));
        let alone = spelling.read_by_decoder_alone(&normalizers, &splits, &tokens.tokens, looks_up_bytes);
        let tokenization = match (kind, model.dropout) {
            (ModelKind::Bpe, None | Some(0.0)) if alone.is_some() => {
                Err(TokenizationError::DecoderAlone { tokens: alone.unwrap_or_default() })
            }
            (ModelKind::Bpe, None | Some(0.0)) => {
                let symbols = match spelling.is_byte_level() {
                    true => Symbols::Bytes,
                    false => Symbols::Characters { fallback: fallback.clone() },
                };
                // The text that the model would build the token from is the text that is matched.
                let is_cut_out = |(token, named): &(&AddedToken, &Added)| {
                    token.special
                        && !token.single_word
                        && spelling.token(&named.content).is_ok_and(|bytes| bytes == token.content.as_bytes())
                };
                let cut_out: HashSet<TokenId> =
                    matched.iter().zip(&added).filter(is_cut_out).map(|(token, _)| token.id).collect();
                let never_made = |id: TokenId| cut_out.contains(&id);
                // A control token that is left to the model stands for a character, or for a piece that is looked up.
                let is_piece =
                    |token: &Added| whole_pieces || byte_fallback && token.content.chars().nth(1).is_none();
                let left = |(token, named): &(&AddedToken, &Added)| {
                    token.special && !cut_out.contains(&token.id) && is_piece(named)
                };
                let mut left = matched.iter().zip(&added).filter(left);
                let control = left.find(|(_, named)| by_name.contains_key(named.content.as_str()));
                let facts = match control {
                    Some((token, _)) => Err(TokenizationError::ControlPiece { token: token.id }),
                    None => tokenization::facts(&normalizers, &splits, merges, &vocabulary, never_made),
                };
                facts.map(|mut facts| {
                    facts.whole_pieces = whole_pieces;
                    facts.symbols = symbols;
                    facts.added = matched;
                    facts.unwritten = unwritten;
                    facts
                })
            }
            (ModelKind::Bpe, Some(probability)) => Err(TokenizationError::Dropout { probability }),
            (ModelKind::Unigram, _) => Err(TokenizationError::Scores { model: kind.name() }),
            _ => Err(TokenizationError::NoMerges { model: kind.name() }),
        };
        let ids = |place: &str, ids: Vec<u64>| frame_ids(place, &ids, &vocabulary);
        let (before, behind) = (ids("in front of", frame.before)?, ids("behind", frame.behind)?);
        let prepends_space = prepends_space(&spelling, &normalizers, &splits);
        let model = encoder_model(kind, model, tokens, merge_names, unknown, byte_fallback)?;
        let encoder = Encoder::new(model, chain, &splits, &added)?;
        let added = added.iter().map(added_token).collect();
        Ok(Self {
            vocabulary: Arc::new(vocabulary),
            tokenization,
            added,
            fallback,
            before,
            behind,
            spelling,
            notes,
            prepends_space,
            encoder,
            no_texts: None,
            limits,
        })
    }

    /// Of a file whose last ids are unused.
    pub(crate) fn padded(mut self, len: usize) -> Self {
        if self.vocabulary.len() < len {
            self.vocabulary = Arc::new(Arc::unwrap_or_clone(self.vocabulary).padded(len));
        }
        self
    }

    /// Of a file that does not say how texts are segmented.
    pub(crate) fn refuse_texts(&mut self, error: TokenizationError) {
        // Equal scores are only an obstacle to sequences without a text.
        if !matches!(error, TokenizationError::EqualScores { .. }) {
            self.no_texts = Some(error.clone());
        }
        self.tokenization = Err(error);
    }

    /// The same tokenizer with other end-of-sequence ids, as a checkpoint's configuration names them. The file itself
    /// does not say which they are; without this they are the control tokens of well-known names.
    ///
    /// # Errors
    ///
    /// [`TokenizerError::Vocabulary`] when an id is not a control token.
    pub fn with_end_of_sequence(mut self, ids: &[TokenId]) -> Result<Self, TokenizerError> {
        self.vocabulary = Arc::new(Arc::unwrap_or_clone(self.vocabulary).with_end_of_sequence(ids)?);
        Ok(self)
    }

    /// The texts of all ids.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// How text is segmented, as data.
    ///
    /// Steps are given as the file has them: with a SentencePiece style normaliser the text between the normaliser and
    /// the merges spells a space U+2581, where the bytes of the vocabulary have a space.
    ///
    /// # Errors
    ///
    /// [`TokenizationError`] where there is no such data (only byte-pair encodings have merges) or it would not be
    /// exact. The vocabulary and the encoder work all the same.
    pub fn tokenization(&self) -> Result<&Tokenization, TokenizationError> {
        // The error is small, and an owned one goes through `?` where the tokenizer ends.
        self.tokenization.as_ref().map_err(Clone::clone)
    }

    /// The tokens that are matched on the text before the model sees it, in the order of the file.
    pub fn added_tokens(&self) -> &[AddedToken] {
        &self.added
    }

    /// The tokens that spell single bytes of characters without a token (`byte_fallback`), by byte; empty where the
    /// model has none. A character that has a token of its own is never spelled with these, though they may share its
    /// bytes.
    pub fn fallback_tokens(&self) -> &[(u8, TokenId)] {
        &self.fallback
    }

    /// The ids that are put in front of a sequence when special tokens are asked for; often one, or none.
    pub fn begin_of_sequence(&self) -> &[TokenId] {
        &self.before
    }

    /// The ids that are put after a sequence when special tokens are asked for; none for most language models.
    pub fn behind_sequence(&self) -> &[TokenId] {
        &self.behind
    }

    /// Where the file's decoder, as the `tokenizers` library runs it, makes another text of ids than the bytes here.
    pub fn notes(&self) -> &[DecoderNote] {
        &self.notes
    }

    /// Whether a space is put in front of a text (some tokenizers do so only where there is none): the first token of
    /// an encoded text then spells a space that the text does not have.
    pub fn prepends_space(&self) -> bool {
        self.prepends_space
    }

    /// The limits that the tokenizer was loaded with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocabulary", &self.vocabulary)
            .field("merges", &self.tokenization.as_ref().map(|facts| facts.merges.len()))
            .field("added", &self.added.len())
            .field("before", &self.before)
            .field("behind", &self.behind)
            .field("spelling", &self.spelling)
            .finish_non_exhaustive()
    }
}

/// An added token of the file, whose id was checked with the meanings.
fn added_token(token: &Added) -> AddedToken {
    AddedToken {
        id: TokenId(u32::try_from(token.id).unwrap_or(u32::MAX)),
        content: token.content.clone(),
        special: token.special,
        single_word: token.single_word,
        lstrip: token.lstrip,
        rstrip: token.rstrip,
        normalized: token.normalized,
    }
}

/// The bytes of a file, up to `limit`; a longer file, or one that grows while it is read, is an error.
pub(crate) fn read(path: &Path, limit: usize) -> Result<Vec<u8>, TokenizerError> {
    let file = std::fs::File::open(path).map_err(TokenizerError::Read)?;
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut bytes).map_err(TokenizerError::Read)?;
    if bytes.len() > limit {
        return Err(TokenizerError::FileTooLarge { limit });
    }
    Ok(bytes)
}

fn vocabulary(meanings: Vec<(u32, Meaning)>) -> Result<Vocabulary, TokenizerError> {
    let mut builder = Vocabulary::builder();
    let mut next = 0;
    for (id, meaning) in meanings {
        while next < id {
            builder.unused();
            next += 1;
        }
        match meaning {
            Meaning::Text(bytes) => {
                builder.text(&bytes);
            }
            Meaning::Control(name) => {
                let id = builder.control(&name);
                if END_OF_SEQUENCE.contains(&name.as_str()) {
                    builder.end_of_sequence(id);
                }
            }
        }
        next += 1;
    }
    Ok(builder.build()?)
}

/// The id of the unknown token, which is a control token: it stands for text that it does not spell.
fn unknown_id(
    kind: ModelKind,
    model: &crate::format::json::Model,
    tokens: &ModelTokens,
    by_name: &std::collections::HashMap<&str, u32>,
) -> Result<Option<u32>, TokenizerError> {
    match kind {
        ModelKind::Unigram => match model.unk_id {
            None => Ok(None),
            Some(id) => match u32::try_from(id) {
                Ok(id32) if (id32 as usize) < tokens.tokens.len() => Ok(Some(id32)),
                _ => {
                    let reason = format!("it is {id}, but there are {} tokens", tokens.tokens.len());
                    Err(TokenizerError::not_tokenizer("`model.unk_id`", reason))
                }
            },
        },
        ModelKind::Bpe => Ok(model.unk_token.as_deref().and_then(|name| by_name.get(name).copied())),
        ModelKind::WordPiece | ModelKind::WordLevel => match model.unk_token.as_deref() {
            None => Err(TokenizerError::not_tokenizer("`model.unk_token`", "missing")),
            Some(name) => Ok(by_name.get(name).copied()),
        },
    }
}

fn frame_ids(place: &str, ids: &[u64], vocabulary: &Vocabulary) -> Result<Vec<TokenId>, TokenizerError> {
    let known = |id: &u64| {
        let token =
            u32::try_from(*id).ok().map(TokenId).filter(|id| vocabulary.kind(*id) != TokenKind::Unused);
        token.ok_or_else(|| {
            let reason = format!("it puts id {id} {place} a sequence, and there is no such token");
            TokenizerError::not_tokenizer("`post_processor`", reason)
        })
    };
    ids.iter().map(known).collect()
}

fn prepends_space(spelling: &Spelling, normalizers: &[NormalizerStep], splits: &[SplitStep]) -> bool {
    let by_normalizer = normalizers.iter().any(|step| match step {
        NormalizerStep::Prepend(text) => spelling.piece(text).is_ok_and(|bytes| bytes.starts_with(b" ")),
        _ => false,
    });
    let by_splitter = splits.iter().any(|step| match step {
        SplitStep::ByteLevel { prefix_space, .. } => *prefix_space,
        SplitStep::Metaspace { prepend, .. } => *prepend != unskew_core::PrependScheme::Never,
        _ => false,
    });
    by_normalizer || by_splitter || spelling.is_by_words()
}

fn encoder_model(
    kind: ModelKind,
    model: crate::format::json::Model,
    tokens: ModelTokens,
    merges: Vec<(String, String)>,
    unknown: Option<u32>,
    byte_fallback: bool,
) -> Result<encoder::Model, TokenizerError> {
    let ModelTokens { tokens, scores } = tokens;
    Ok(match kind {
        ModelKind::Bpe => encoder::Model::Bpe {
            tokens,
            merges,
            unknown: model.unk_token,
            fuse_unknown: model.fuse_unk.unwrap_or(false),
            byte_fallback,
            ignore_merges: model.ignore_merges.unwrap_or(false),
        },
        ModelKind::WordPiece => {
            let longest = model.max_input_chars_per_word.unwrap_or(100);
            if longest > WORD_LIMIT {
                let reason = format!("it is {longest}, the limit is {WORD_LIMIT}");
                return Err(TokenizerError::not_tokenizer("`model.max_input_chars_per_word`", reason));
            }
            encoder::Model::WordPiece {
                tokens,
                unknown: model.unk_token.unwrap_or_default(),
                prefix: model.continuing_subword_prefix.unwrap_or_else(|| "##".to_owned()),
                longest_word: usize::try_from(longest).unwrap_or(usize::MAX),
            }
        }
        ModelKind::WordLevel => {
            encoder::Model::WordLevel { tokens, unknown: model.unk_token.unwrap_or_default() }
        }
        ModelKind::Unigram => {
            if let Some((token, id)) = tokens.iter().find(|(token, _)| token.len() > UNIGRAM_PIECE_LIMIT) {
                let bytes = token.len();
                let reason = format!(
                    "token {id} is {bytes} bytes long, the limit of a Unigram model is {UNIGRAM_PIECE_LIMIT}"
                );
                return Err(TokenizerError::not_tokenizer("`model.vocab`", reason));
            }
            encoder::Model::Unigram {
                pieces: tokens.into_iter().map(|(token, _)| token).zip(scores).collect(),
                unknown: unknown.map(|id| id as usize),
                byte_fallback,
            }
        }
    })
}
