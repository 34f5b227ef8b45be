//! The encoder: the `tokenizers` crate behind a wall, and the only file (with the trainer) that names it.
//!
//! That crate's reader is not used. Given a damaged file it can panic (an expected character map, a merge longer than
//! every token, a step of length zero), cut characters with unchecked UTF-8, renumber added tokens without a word, or
//! ask for gigabytes; so its parts are built here, one by one, from data that [`crate::format::json`] and
//! [`crate::format::pipeline`] have checked. Its decoders and post-processors, which panic as well, are not built at
//! all: token bytes decode, and the ids around a sequence are known.
//!
//! Nor are its parts chained as it chains them. It carries, through all steps, which byte of the text each byte of the
//! normalised text came from, and steps after the first look texts up through that map; where a step has put
//! something in front of the text, or taken something off, a later one indexes out of bounds or doubles text. Here
//! every step gets a fresh string. Offsets are lost, which nobody asks for; only whether a piece stands at the very
//! beginning is kept, since one step depends on it. The steps that only spell otherwise are done here.

use std::sync::{Mutex, PoisonError};

use tokenizers::{
    AddedToken, AddedVocabulary, Model as _, ModelWrapper, NormalizedString, Normalizer, NormalizerWrapper,
    OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, PreTokenizerWrapper,
    SplitDelimiterBehavior,
    models::{bpe, unigram::Unigram, wordlevel::WordLevel, wordpiece::WordPiece},
    normalizers as norm,
    pre_tokenizers::{
        bert::BertPreTokenizer,
        delimiter::CharDelimiterSplit,
        digits::Digits,
        fixed_length::FixedLength,
        punctuation::Punctuation,
        split::{Split, SplitPattern},
        unicode_scripts::UnicodeScripts,
        whitespace::{Whitespace, WhitespaceSplit},
    },
    tokenizer::normalizer::Range,
};
use unskew_core::{PrependScheme, SplitBehavior, UnicodeForm, byte_to_alphabet};

use crate::{
    TokenizerError,
    error::quoted,
    format::json::Added,
    format::pipeline::{NormalizerStep, Pattern, SplitStep},
    tokenization::BYTE_LEVEL_PATTERN,
};

/// The model, checked: merges name tokens of the vocabulary only, and so do their results.
#[derive(Debug)]
pub(crate) enum Model {
    Bpe {
        tokens: Vec<(String, u32)>,
        merges: Vec<(String, String)>,
        unknown: Option<String>,
        fuse_unknown: bool,
        byte_fallback: bool,
        ignore_merges: bool,
    },
    WordPiece {
        tokens: Vec<(String, u32)>,
        unknown: String,
        prefix: String,
        longest_word: usize,
    },
    WordLevel {
        tokens: Vec<(String, u32)>,
        unknown: String,
    },
    Unigram {
        pieces: Vec<(String, f64)>,
        unknown: Option<usize>,
        byte_fallback: bool,
    },
}

/// Text to ids.
pub(crate) struct Encoder {
    added: AddedVocabulary,
    normalizer: NormalizerChain,
    splitters: Vec<Splitter>,
    model: ModelWrapper,
}

/// A part of a text, as the model sees it.
pub(crate) enum Piece<'a> {
    /// An added token.
    Added(u32),
    /// A piece that the model is given, after normalisation and splitting.
    Text(&'a str),
}

/// The normaliser alone: it decides how added tokens are matched, so it is needed before the encoder is built.
pub(crate) struct NormalizerChain {
    links: Vec<NormalizerLink>,
    /// The longest text that a step may make, in bytes.
    longest: usize,
}

enum NormalizerLink {
    Library(NormalizerWrapper),
    Prepend(String),
    Replace {
        /// For its regex, which the library's replacing step keeps to itself; that step also knows no limit.
        from: Split,
        to: String,
    },
    Alphabet,
}

/// The chain as the library calls it: that passes over errors, so they are kept here.
struct Run<'a> {
    chain: &'a NormalizerChain,
    failed: Mutex<Option<LibraryError>>,
}

enum Splitter {
    Library(PreTokenizerWrapper),
    /// At the matches of a regex, which are pieces like the text between them, unless one of the two is dropped. Done
    /// here for its memory: the library makes all pieces first, each with a map of its bytes.
    Pattern {
        split: Split,
        keep_matches: bool,
        keep_rest: bool,
    },
    /// A space in front of a text that does not begin with one.
    PrefixSpace,
    Metaspace {
        mark: char,
        prepend: PrependScheme,
        split: bool,
    },
    Alphabet,
}

impl NormalizerChain {
    /// `longest`: the longest text that a step may make, in bytes.
    pub(crate) fn new(steps: &[NormalizerStep], longest: usize) -> Result<Self, TokenizerError> {
        let mut links = Vec::new();
        for step in steps {
            match step {
                NormalizerStep::Prepend(text) => links.push(NormalizerLink::Prepend(text.clone())),
                NormalizerStep::Replace { pattern, content } => {
                    let from = Split::new(library_pattern(pattern), SplitDelimiterBehavior::Isolated, false)
                        .map_err(|error| refused("normalizer", error))?;
                    links.push(NormalizerLink::Replace { from, to: content.clone() });
                }
                NormalizerStep::ByteLevel => links.push(NormalizerLink::Alphabet),
                _ => links.extend(library_normalizers(step)?.into_iter().map(NormalizerLink::Library)),
            }
        }
        Ok(Self { links, longest })
    }

    /// `text`, normalised.
    fn apply(&self, text: &str) -> tokenizers::Result<String> {
        let mut text = text.to_owned();
        for link in &self.links {
            // No step makes something of nothing.
            if text.is_empty() {
                break;
            }
            text = match link {
                NormalizerLink::Prepend(front) => [front.as_str(), &text].concat(),
                NormalizerLink::Replace { from, to } => self.replace(&text, from, to)?,
                NormalizerLink::Alphabet => in_alphabet(&text),
                NormalizerLink::Library(step) => {
                    let mut fresh = NormalizedString::from(text);
                    step.normalize(&mut fresh)?;
                    fresh.get().to_owned()
                }
            };
            self.check_length(&text)?;
        }
        Ok(text)
    }

    fn replace(&self, text: &str, from: &Split, to: &str) -> tokenizers::Result<String> {
        let mut replaced = String::with_capacity(text.len());
        let mut done = 0;
        for (begin, end) in from.regex.find_iter(text) {
            replaced.push_str(&text[done..begin]);
            replaced.push_str(to);
            // A short pattern can make a long text out of a short one: stop before it is there.
            self.check_length(&replaced)?;
            done = end;
        }
        replaced.push_str(&text[done..]);
        Ok(replaced)
    }

    fn check_length(&self, text: &str) -> tokenizers::Result<()> {
        match text.len() {
            bytes if bytes > self.longest => {
                Err(format!("the normalised text is longer than {} bytes; encode it in parts", self.longest)
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// `text`, normalised, where a failure is the file's.
    pub(crate) fn normalize(&self, text: &str) -> Result<String, TokenizerError> {
        self.apply(text).map_err(|error| refused("normalizer", error))
    }
}

/// For the matching of added tokens, which normalises the text between them.
impl Normalizer for Run<'_> {
    fn normalize(&self, normalized: &mut NormalizedString) -> tokenizers::Result<()> {
        if self.chain.links.is_empty() {
            return Ok(());
        }
        match self.chain.apply(normalized.get()) {
            Ok(text) => *normalized = fresh(text, is_first(normalized)),
            Err(error) => {
                *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        }
        Ok(())
    }
}

impl<'a> Run<'a> {
    fn new(chain: &'a NormalizerChain) -> Self {
        Self { chain, failed: Mutex::new(None) }
    }

    fn finish(self) -> tokenizers::Result<()> {
        self.failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

impl Splitter {
    /// Splits `text` into pieces, each with whether it stands at the beginning of the whole text.
    fn split(&self, text: String, first: bool, pieces: &mut Vec<(String, bool)>) -> tokenizers::Result<()> {
        match self {
            _ if text.is_empty() => {}
            Self::PrefixSpace if text.starts_with(' ') => pieces.push((text, first)),
            Self::PrefixSpace => pieces.push((format!(" {text}"), first)),
            Self::Alphabet => pieces.push((in_alphabet(&text), first)),
            Self::Metaspace { mark, prepend, split } => {
                let mut text = text.replace(' ', mark.encode_utf8(&mut [0; 4]));
                let wanted = match prepend {
                    PrependScheme::Never => false,
                    PrependScheme::First => first,
                    PrependScheme::Always => true,
                };
                if wanted && !text.starts_with(*mark) {
                    text.insert(0, *mark);
                }
                if !*split {
                    pieces.push((text, first));
                    return Ok(());
                }
                let mut begin = 0;
                for (at, _) in text.match_indices(*mark).filter(|(at, _)| *at > 0) {
                    pieces.push((text[begin..at].to_owned(), first && begin == 0));
                    begin = at;
                }
                pieces.push((text[begin..].to_owned(), first && begin == 0));
            }
            Self::Pattern { split, keep_matches, keep_rest } => {
                let mut push = |keep: bool, begin: usize, end: usize| {
                    if keep && begin < end {
                        pieces.push((text[begin..end].to_owned(), first && begin == 0));
                    }
                };
                let mut done = 0;
                for (begin, end) in split.regex.find_iter(&text) {
                    push(*keep_rest, done, begin);
                    push(*keep_matches, begin, end);
                    done = end;
                }
                push(*keep_rest, done, text.len());
            }
            Self::Library(step) => {
                let mut parts = PreTokenizedString::from(fresh(text, first));
                step.pre_tokenize(&mut parts)?;
                let parts = parts.get_splits(OffsetReferential::Original, OffsetType::Byte);
                let parts = parts.into_iter().filter(|(piece, ..)| !piece.is_empty());
                pieces.extend(parts.map(|(piece, (at, _), _)| (piece.to_owned(), at == 0)));
            }
        }
        Ok(())
    }
}

/// `text` as a string that has not been changed, and that knows whether it stands at the beginning.
fn fresh(text: String, first: bool) -> NormalizedString {
    if first {
        return NormalizedString::from(text);
    }
    // A slice remembers how far from the beginning it was taken.
    let shifted = NormalizedString::from(format!(" {text}"));
    shifted.slice(Range::Normalized(1..)).unwrap_or_else(|| NormalizedString::from(text))
}

fn is_first(text: &NormalizedString) -> bool {
    text.offsets_original().0 == 0
}

fn in_alphabet(text: &str) -> String {
    text.bytes().map(byte_to_alphabet).collect()
}

impl Encoder {
    pub(crate) fn new(
        model: Model,
        normalizer: NormalizerChain,
        splits: &[SplitStep],
        added: &[Added],
    ) -> Result<Self, TokenizerError> {
        let model = model_wrapper(model)?;
        let mut splitters = Vec::new();
        for step in splits {
            push_splitters(step, &mut splitters)?;
        }
        let mut vocabulary = AddedVocabulary::new();
        let tokens = added.iter().map(|token| {
            AddedToken::from(token.content.as_str(), token.special)
                .single_word(token.single_word)
                .lstrip(token.lstrip)
                .rstrip(token.rstrip)
                .normalized(token.normalized)
        });
        let run = Run::new(&normalizer);
        vocabulary
            .add_tokens(tokens.collect::<Vec<_>>(), &model, Some(&run))
            .and_then(|_| run.finish())
            .map_err(|error| refused("`added_tokens`", error))?;
        for token in added {
            match vocabulary.token_to_id(&token.content, &model) {
                Some(id) if u64::from(id) == token.id => {}
                id => {
                    return Err(TokenizerError::AddedTokenId {
                        token: quoted(&token.content),
                        in_file: u32::try_from(token.id).unwrap_or(u32::MAX),
                        in_encoder: id.unwrap_or(u32::MAX),
                    });
                }
            }
        }
        Ok(Self { added: vocabulary, normalizer, splitters, model })
    }

    /// The ids of `text`, without any around it.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::new();
        self.each_piece(text, |piece| {
            match piece {
                Piece::Added(id) => ids.push(id),
                Piece::Text(text) => ids.extend(self.model.tokenize(text)?.into_iter().map(|token| token.id)),
            }
            Ok(())
        })?;
        Ok(ids)
    }

    /// Calls `each` with the pieces that the model is given for `text`, in order.
    ///
    /// One piece at a time goes through the steps after the first: that is a third of the memory of a list of all.
    pub(crate) fn each_piece(
        &self,
        text: &str,
        mut each: impl FnMut(Piece<'_>) -> tokenizers::Result<()>,
    ) -> Result<(), TokenizerError> {
        let mut run = || {
            let normalizer = Run::new(&self.normalizer);
            let parts = self.added.extract_and_normalize(Some(&normalizer), text);
            normalizer.finish()?;
            for (text, (at, _), tokens) in parts.get_splits(OffsetReferential::Original, OffsetType::Byte) {
                if let Some(tokens) = tokens {
                    tokens.iter().try_for_each(|token| each(Piece::Added(token.id)))?;
                    continue;
                }
                let Some((first_step, steps)) = self.splitters.split_first() else {
                    each(Piece::Text(text))?;
                    continue;
                };
                let mut pieces = Vec::new();
                first_step.split(text.to_owned(), at == 0, &mut pieces)?;
                for piece in pieces {
                    let mut parts = vec![piece];
                    for step in steps {
                        let mut next = Vec::new();
                        for (text, first) in parts {
                            step.split(text, first, &mut next)?;
                        }
                        parts = next;
                    }
                    parts.iter().try_for_each(|(text, _)| each(Piece::Text(text)))?;
                }
            }
            Ok(())
        };
        run().map_err(|error| failed(&error))
    }
}

type LibraryError = Box<dyn std::error::Error + Send + Sync>;

fn refused(place: &str, error: LibraryError) -> TokenizerError {
    TokenizerError::Refused { place: place.to_owned(), reason: one_line(&error) }
}

fn failed(error: &LibraryError) -> TokenizerError {
    TokenizerError::Encode { reason: one_line(error) }
}

/// The error's text on one line; a regex error shows the pattern over several.
fn one_line(error: &LibraryError) -> String {
    let text = error.to_string();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > 200 { line.chars().take(200).chain(['…']).collect() } else { line }
}

fn model_wrapper(model: Model) -> Result<ModelWrapper, TokenizerError> {
    let refuse = |error| refused("`model`", error);
    Ok(match model {
        Model::Bpe { tokens, merges, unknown, fuse_unknown, byte_fallback, ignore_merges } => {
            let mut builder = bpe::BPE::builder()
                .vocab_and_merges(tokens.into_iter().collect::<bpe::Vocab>(), merges)
                .fuse_unk(fuse_unknown)
                .byte_fallback(byte_fallback)
                .ignore_merges(ignore_merges)
                .cache_capacity(0);
            if let Some(unknown) = unknown {
                builder = builder.unk_token(unknown);
            }
            builder.build().map_err(refuse)?.into()
        }
        Model::WordPiece { tokens, unknown, prefix, longest_word } => WordPiece::builder()
            .vocab(tokens.into_iter().collect::<bpe::Vocab>())
            .unk_token(unknown)
            .continuing_subword_prefix(prefix)
            .max_input_chars_per_word(longest_word)
            .build()
            .map_err(refuse)?
            .into(),
        Model::WordLevel { tokens, unknown } => WordLevel::builder()
            .vocab(tokens.into_iter().collect())
            .unk_token(unknown)
            .build()
            .map_err(refuse)?
            .into(),
        Model::Unigram { pieces, unknown, byte_fallback } => {
            Unigram::from(pieces, unknown, byte_fallback).map_err(refuse)?.into()
        }
    })
}

/// The library's steps for one step that is not done here.
fn library_normalizers(step: &NormalizerStep) -> Result<Vec<NormalizerWrapper>, TokenizerError> {
    Ok(vec![match step {
        NormalizerStep::Unicode(UnicodeForm::Nfc) => norm::NFC.into(),
        NormalizerStep::Unicode(UnicodeForm::Nfd) => norm::NFD.into(),
        NormalizerStep::Unicode(UnicodeForm::Nfkc) => norm::NFKC.into(),
        NormalizerStep::Unicode(UnicodeForm::Nfkd) => norm::NFKD.into(),
        NormalizerStep::Prepend(_) | NormalizerStep::Replace { .. } | NormalizerStep::ByteLevel => {
            return Ok(Vec::new());
        }
        NormalizerStep::Lowercase => norm::Lowercase.into(),
        NormalizerStep::Strip { left, right } => norm::Strip::new(*left, *right).into(),
        NormalizerStep::StripAccents => norm::StripAccents.into(),
        NormalizerStep::Nmt => norm::Nmt.into(),
        NormalizerStep::Bert { clean, chinese, accents, lowercase } => {
            // One change at a time, in the order in which the library makes them.
            let accents = accents.unwrap_or(*lowercase);
            let flags = [*clean, *chinese, accents, *lowercase];
            let only = |change: usize| {
                let is = |other| change == other;
                norm::BertNormalizer::new(is(0), is(1), Some(is(2)), is(3)).into()
            };
            return Ok((0..4).filter(|change| flags[*change]).map(only).collect());
        }
        NormalizerStep::Precompiled(map) => {
            norm::Precompiled::from(map).map_err(|error| refused("normalizer", error.into()))?.into()
        }
    }])
}

fn library_pattern(pattern: &Pattern) -> SplitPattern {
    match pattern {
        Pattern::Literal(text) => SplitPattern::String(text.clone()),
        Pattern::Regex(regex) => SplitPattern::Regex(regex.clone()),
    }
}

fn push_splitters(step: &SplitStep, splitters: &mut Vec<Splitter>) -> Result<(), TokenizerError> {
    let split = |pattern, how, invert| -> Result<Splitter, TokenizerError> {
        let split = Split::new::<SplitPattern>(pattern, behavior(how), invert)
            .map_err(|error| refused("pre_tokenizer", error))?;
        Ok(match how {
            SplitBehavior::Isolated => Splitter::Pattern { split, keep_matches: true, keep_rest: true },
            SplitBehavior::Removed => Splitter::Pattern { split, keep_matches: invert, keep_rest: !invert },
            _ => Splitter::Library(split.into()),
        })
    };
    let step = match step {
        SplitStep::ByteLevel { prefix_space, use_regex } => {
            if *prefix_space {
                splitters.push(Splitter::PrefixSpace);
            }
            if *use_regex {
                let pattern = SplitPattern::Regex(BYTE_LEVEL_PATTERN.to_owned());
                splitters.push(split(pattern, SplitBehavior::Isolated, false)?);
            }
            splitters.push(Splitter::Alphabet);
            return Ok(());
        }
        SplitStep::Metaspace { replacement, prepend, split } => {
            splitters.push(Splitter::Metaspace { mark: *replacement, prepend: *prepend, split: *split });
            return Ok(());
        }
        SplitStep::Split { pattern, behavior: how, invert } => {
            splitters.push(split(library_pattern(pattern), *how, *invert)?);
            return Ok(());
        }
        SplitStep::Digits { individual } => Digits::new(*individual).into(),
        SplitStep::Punctuation(how) => Punctuation::new(behavior(*how)).into(),
        SplitStep::Whitespace => Whitespace.into(),
        SplitStep::WhitespaceSplit => WhitespaceSplit.into(),
        SplitStep::Delimiter(delimiter) => CharDelimiterSplit::new(*delimiter).into(),
        SplitStep::Bert => BertPreTokenizer.into(),
        SplitStep::UnicodeScripts => UnicodeScripts::new().into(),
        SplitStep::FixedLength(length) => FixedLength::new(*length).into(),
    };
    splitters.push(Splitter::Library(step));
    Ok(())
}

fn behavior(behavior: SplitBehavior) -> SplitDelimiterBehavior {
    match behavior {
        SplitBehavior::Isolated => SplitDelimiterBehavior::Isolated,
        SplitBehavior::Removed => SplitDelimiterBehavior::Removed,
        SplitBehavior::MergedWithPrevious => SplitDelimiterBehavior::MergedWithPrevious,
        SplitBehavior::MergedWithNext => SplitDelimiterBehavior::MergedWithNext,
        SplitBehavior::Contiguous => SplitDelimiterBehavior::Contiguous,
    }
}
