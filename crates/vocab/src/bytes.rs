//! The bytes of every token: how a file spells them, and which tokens are text at all.
//!
//! Three spellings are in use. *Byte-level* files (GPT-2's) write every byte as one printable character.
//! *SentencePiece* style files write text as it is, with a mark (U+2581) for a space and `<0xNN>` for a single byte.
//! *WordPiece* files write `##` in front of a token that continues a word; here a word that begins gets a space in
//! front, as their decoder prints it. Which of them applies is told by the steps around the model, not by looking at
//! the tokens: a guess that is right for most tokens is wrong bytes for some. Where the steps contradict each other
//! the file is refused.
//!
//! The alternative, decoding each id alone with the `tokenizers` crate, was rejected: its decoders answer in text, so
//! a token that is half a character becomes U+FFFD, and some strip the space in front.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use unskew_core::{TokenId, alphabet_to_byte};

use crate::{
    Limits, TokenizerError,
    error::quoted,
    format::json::{Added, ModelKind, checked_id},
    format::pipeline::{DecoderStep, NormalizerStep, Pattern, SplitStep},
};

/// How the tokens of a model are spelled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Spelling {
    form: Form,
    /// Whether `<0xNN>` is a byte.
    byte_tokens: bool,
    /// Whether the decoder reads tokens in GPT-2's alphabet, those that are added from outside too.
    byte_level_decoder: bool,
    /// Whether the decoder takes one space off the front of a text.
    pub(crate) strips_space: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Form {
    /// As it stands.
    Plain,
    /// GPT-2's alphabet of bytes.
    ByteLevel,
    /// A mark for a space.
    Metaspace(char),
    /// Words with a space in front; a token that begins with the prefix continues a word.
    Words { prefix: Option<String> },
}

impl Spelling {
    /// Tells the spelling from the steps around the model.
    pub(crate) fn new(
        kind: ModelKind,
        word_prefix: Option<&str>,
        byte_fallback: bool,
        normalizers: &[NormalizerStep],
        splits: &[SplitStep],
        decoders: &[DecoderStep],
    ) -> Result<Self, TokenizerError> {
        let mut forms: Vec<(Form, &'static str)> = Vec::new();
        let mut add = |form, place| {
            if !forms.iter().any(|(known, _)| *known == form) {
                forms.push((form, place));
            }
        };
        for step in normalizers {
            match step {
                NormalizerStep::ByteLevel => add(Form::ByteLevel, "normalizer"),
                NormalizerStep::Replace { pattern: Pattern::Literal(from), content } if from == " " => {
                    if let Some(mark) = only_char(content).filter(|mark| *mark != ' ') {
                        add(Form::Metaspace(mark), "normalizer");
                    }
                }
                _ => {}
            }
        }
        // Spelled twice, a byte would be several characters of the alphabet.
        let spelled = normalizers.iter().filter(|step| matches!(step, NormalizerStep::ByteLevel)).count()
            + splits.iter().filter(|step| matches!(step, SplitStep::ByteLevel { .. })).count();
        if spelled > 1 {
            return Err(TokenizerError::unsupported(
                "normalizer and pre_tokenizer",
                "more than one byte-level step",
            ));
        }
        let mut words = kind == ModelKind::WordPiece;
        for step in splits {
            match step {
                SplitStep::ByteLevel { .. } => add(Form::ByteLevel, "pre_tokenizer"),
                SplitStep::Metaspace { replacement, .. } => {
                    add(Form::Metaspace(*replacement), "pre_tokenizer");
                }
                SplitStep::Whitespace | SplitStep::WhitespaceSplit | SplitStep::Bert => {
                    words |= kind == ModelKind::WordLevel;
                }
                _ => {}
            }
        }
        let (mut byte_tokens, mut strips_space, mut is_fused) = (byte_fallback, false, false);
        for step in decoders {
            match step {
                DecoderStep::ByteLevel => add(Form::ByteLevel, "decoder"),
                DecoderStep::ByteFallback => byte_tokens = true,
                DecoderStep::Fuse => is_fused = true,
                DecoderStep::Metaspace { replacement, strips_space: strips } => {
                    add(Form::Metaspace(*replacement), "decoder");
                    strips_space |= *strips;
                }
                DecoderStep::Replace { pattern: Pattern::Literal(from), content } if content == " " => {
                    let Some(mark) = only_char(from) else {
                        return Err(TokenizerError::unsupported("decoder", "a `Replace` of a longer string"));
                    };
                    if mark != ' ' {
                        add(Form::Metaspace(mark), "decoder");
                    }
                }
                DecoderStep::Replace { .. } => {
                    return Err(TokenizerError::unsupported(
                        "decoder",
                        "a `Replace` that does not write a space",
                    ));
                }
                DecoderStep::Strip { start: 0, stop: 0, .. } => {}
                DecoderStep::Strip { content: ' ', start: 1, stop: 0 } if is_fused => strips_space = true,
                DecoderStep::Strip { .. } => {
                    let what =
                        "a `Strip` of something else than one space in front of the text that `Fuse` joins";
                    return Err(TokenizerError::unsupported("decoder", what));
                }
                DecoderStep::WordPiece { prefix, .. } => {
                    if !words || word_prefix.is_some_and(|known| known != prefix) {
                        let what = format!(
                            "a WordPiece decoder with prefix {} does not fit the model",
                            quoted(prefix)
                        );
                        return Err(TokenizerError::unsupported("decoder", what));
                    }
                }
                DecoderStep::WordEnd(suffix) => {
                    let what =
                        format!("BPEDecoder joins tokens by words, with {} at their ends", quoted(suffix));
                    return Err(TokenizerError::unsupported("decoder", what));
                }
                DecoderStep::Joining(name) => {
                    return Err(TokenizerError::unsupported(
                        "decoder",
                        format!("{name} joins tokens by words"),
                    ));
                }
            }
        }
        if words {
            strips_space = true;
            if word_prefix == Some("") {
                let what = "an empty prefix does not tell what continues a word";
                return Err(TokenizerError::unsupported("`model.continuing_subword_prefix`", what));
            }
            add(Form::Words { prefix: word_prefix.map(str::to_owned) }, "model");
        }
        let form = match forms.as_slice() {
            [] => Form::Plain,
            [(form, _)] => form.clone(),
            [(_, first), (_, second), ..] => {
                let what = format!("it spells tokens otherwise than `{first}`");
                return Err(TokenizerError::unsupported(*second, what));
            }
        };
        if byte_tokens && matches!(form, Form::ByteLevel | Form::Words { .. }) {
            let what = "byte fallback together with tokens that are spelled in bytes or by words";
            return Err(TokenizerError::unsupported("`model.byte_fallback` or `decoder`", what));
        }
        let byte_level_decoder = decoders.contains(&DecoderStep::ByteLevel);
        Ok(Self { form, byte_tokens, byte_level_decoder, strips_space })
    }

    /// Whether the file spells bytes in GPT-2's alphabet.
    pub(crate) fn is_byte_level(&self) -> bool {
        self.form == Form::ByteLevel
    }

    /// Whether tokens joined with spaces are the text of a file without a decoder, as the library has it.
    pub(crate) fn joins_with_spaces(&self) -> bool {
        self.form == Form::Words { prefix: None }
    }

    /// Whether these steps of a decoder make the text of tokens that is spelled so.
    pub(crate) fn is_read_by(&self, decoders: &[DecoderStep]) -> bool {
        let has = |is: &dyn Fn(&DecoderStep) -> bool| decoders.iter().any(is);
        let reads_form = match &self.form {
            Form::Plain => true,
            Form::ByteLevel => self.byte_level_decoder,
            Form::Metaspace(mark) => has(&|step| match step {
                DecoderStep::Metaspace { .. } => true,
                DecoderStep::Replace { pattern: Pattern::Literal(from), .. } => {
                    only_char(from) == Some(*mark)
                }
                _ => false,
            }),
            Form::Words { .. } => has(&|step| matches!(step, DecoderStep::WordPiece { .. })),
        };
        reads_form && (!self.byte_tokens || has(&|step| matches!(step, DecoderStep::ByteFallback)))
    }

    /// Whether a word that begins is spelled with a space that the text need not have.
    pub(crate) fn is_by_words(&self) -> bool {
        matches!(self.form, Form::Words { .. })
    }

    /// The bytes of a token of the model, or the reason why there are none.
    pub(crate) fn token(&self, token: &str) -> Result<Vec<u8>, String> {
        if self.byte_tokens
            && let Some(byte) = byte_token(token)
        {
            return Ok(vec![byte]);
        }
        match &self.form {
            Form::Words { prefix: Some(prefix) } if token.starts_with(prefix) => {
                Ok(token.as_bytes()[prefix.len()..].to_vec())
            }
            // The library's decoder reads such a token as it stands. No piece has such a character, so the model
            // never writes it.
            Form::ByteLevel if !is_in_alphabet(token) => Ok(token.as_bytes().to_vec()),
            _ => self.piece(token),
        }
    }

    /// Whether pieces have all characters of a token of the model.
    pub(crate) fn is_written(&self, token: &str) -> bool {
        let is_spelled = match &self.form {
            Form::ByteLevel => is_in_alphabet(token),
            // Every space is spelled as the mark.
            Form::Metaspace(_) => !token.contains(' '),
            Form::Plain | Form::Words { .. } => true,
        };
        is_spelled && !self.is_byte(token)
    }

    /// Whether a token of the model stands for one byte of a character without a token.
    pub(crate) fn is_byte(&self, token: &str) -> bool {
        self.byte_tokens && byte_token(token).is_some()
    }

    /// The tokens that the decoder reads otherwise than the steps in front of the model spell text, if there are such.
    /// `looks_up_bytes`: whether a piece that reads `<0x0A>` becomes the token that the decoder reads as a byte.
    pub(crate) fn read_by_decoder_alone(
        &self,
        normalizers: &[NormalizerStep],
        splits: &[SplitStep],
        tokens: &[(String, u32)],
        looks_up_bytes: bool,
    ) -> Option<&'static str> {
        let by_normalizer = |is: &dyn Fn(&NormalizerStep) -> bool| normalizers.iter().any(is);
        let by_split = |is: &dyn Fn(&SplitStep) -> bool| splits.iter().any(is);
        let is_spelled = match &self.form {
            Form::ByteLevel => {
                by_normalizer(&|step| matches!(step, NormalizerStep::ByteLevel))
                    || by_split(&|step| matches!(step, SplitStep::ByteLevel { .. }))
            }
            Form::Metaspace(mark) => {
                !tokens.iter().any(|(token, _)| token.contains(*mark))
                    || by_normalizer(&|step| match step {
                        NormalizerStep::Replace { pattern: Pattern::Literal(from), content } => {
                            from == " " && only_char(content) == Some(*mark)
                        }
                        _ => false,
                    })
                    || by_split(&|step| matches!(step, SplitStep::Metaspace { .. }))
            }
            Form::Plain | Form::Words { .. } => true,
        };
        match &self.form {
            Form::ByteLevel if !is_spelled => Some("tokens in GPT-2's alphabet of bytes"),
            Form::Metaspace(_) if !is_spelled => Some("a mark for a space"),
            _ if looks_up_bytes => Some("tokens such as <0x0A> as bytes"),
            _ => None,
        }
    }

    /// The bytes that the tokens of a piece spell together, where `piece` is the input of the model.
    pub(crate) fn piece(&self, piece: &str) -> Result<Vec<u8>, String> {
        match &self.form {
            Form::Plain => Ok(piece.as_bytes().to_vec()),
            Form::ByteLevel => piece
                .chars()
                .map(|character| {
                    alphabet_to_byte(character)
                        .ok_or_else(|| format!("{character:?} is not in the alphabet of bytes"))
                })
                .collect(),
            Form::Metaspace(mark) => Ok(piece.replace(*mark, " ").into_bytes()),
            Form::Words { .. } => Ok([b" ", piece.as_bytes()].concat()),
        }
    }
}

fn is_in_alphabet(token: &str) -> bool {
    token.chars().all(|character| alphabet_to_byte(character).is_some())
}

fn only_char(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|_| characters.next().is_none())
}

/// The byte of `<0xNN>`.
fn byte_token(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    // `from_str_radix` would accept a sign.
    let hex = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    hex.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// The name under which the encoder looks up the token of a byte (`byte_fallback`).
pub(crate) fn fallback_name(byte: u8) -> String {
    format!("<{byte:#04X}>")
}

/// The meaning of an id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Meaning {
    Text(Vec<u8>),
    Control(String),
}

/// The meaning of every id, in the order of ids; ids that are not listed are holes.
///
/// A special added token is a control token, and so is the unknown token, which never spells text. An added token
/// that is not special is text: it is matched on the text itself, so it is spelled by its content (normalised, if
/// matching is), not in the model's alphabet, unless the decoder reads it so.
pub(crate) fn meanings(
    spelling: &Spelling,
    tokens: &[(String, u32)],
    by_name: &HashMap<&str, u32>,
    added: &[Added],
    unknown: Option<u32>,
    limits: &Limits,
    normalized: impl Fn(&str) -> Result<String, TokenizerError>,
) -> Result<Vec<(u32, Meaning)>, TokenizerError> {
    let mut names: HashMap<u32, &str> = HashMap::with_capacity(tokens.len());
    let mut claim = |id: u32, name| match names.insert(id, name) {
        Some(first) if first != name => {
            Err(TokenizerError::DuplicateId { id, first: quoted(first), second: quoted(name) })
        }
        _ => Ok(()),
    };
    let mut meanings = Vec::with_capacity(tokens.len() + added.len());
    let length = |id, text: &str| match text.len() {
        bytes if bytes > limits.token_bytes => {
            Err(TokenizerError::TokenTooLong { id: TokenId(id), bytes, limit: limits.token_bytes })
        }
        _ => Ok(()),
    };

    let mut seen = HashSet::new();
    let mut control: HashMap<u32, &str> = HashMap::new();
    let mut verbatim: HashMap<u32, Vec<u8>> = HashMap::new();
    for token in added {
        let id = checked_id(&token.content, token.id, limits)?;
        length(id, &token.content)?;
        if token.content.is_empty() {
            return Err(TokenizerError::not_tokenizer(
                "`added_tokens`",
                format!("token {id} has no content"),
            ));
        }
        if !seen.insert(token.content.as_str()) {
            let token = quoted(&token.content);
            return Err(TokenizerError::DuplicateToken { place: "`added_tokens`", token });
        }
        if let Some(other) = by_name.get(token.content.as_str()).filter(|other| **other != id) {
            let (token, in_file, in_encoder) = (quoted(&token.content), id, *other);
            return Err(TokenizerError::AddedTokenId { token, in_file, in_encoder });
        }
        claim(id, &token.content)?;
        if token.special || unknown == Some(id) {
            control.insert(id, &token.content);
        } else {
            let text = if token.normalized {
                Cow::from(normalized(&token.content)?)
            } else {
                Cow::from(token.content.as_str())
            };
            verbatim.insert(id, added_text(spelling, token, &text, id, by_name)?);
        }
    }
    for (token, id) in tokens {
        claim(*id, token)?;
        length(*id, token)?;
        let meaning = if unknown == Some(*id) || control.contains_key(id) {
            Meaning::Control(token.clone())
        } else if let Some(bytes) = verbatim.remove(id) {
            Meaning::Text(bytes)
        } else {
            Meaning::Text(spelling.token(token).map_err(|reason| TokenizerError::TokenBytes {
                id: TokenId(*id),
                token: quoted(token),
                reason,
            })?)
        };
        control.remove(id);
        meanings.push((*id, meaning));
    }
    meanings.extend(control.into_iter().map(|(id, name)| (id, Meaning::Control(name.to_owned()))));
    meanings.extend(verbatim.into_iter().map(|(id, bytes)| (id, Meaning::Text(bytes))));
    meanings.sort_unstable_by_key(|(id, _)| *id);
    Ok(meanings)
}

/// The bytes of an added token that is text. `text`: its content as it is matched.
fn added_text(
    spelling: &Spelling,
    token: &Added,
    text: &str,
    id: u32,
    by_name: &HashMap<&str, u32>,
) -> Result<Vec<u8>, TokenizerError> {
    let two_meanings = || TokenizerError::TokenBytes {
        id: TokenId(id),
        token: quoted(&token.content),
        reason: "it is an added token and a token of the model, and spells different bytes".to_owned(),
    };
    if spelling.is_byte(&token.content) {
        return Err(two_meanings());
    }
    let bytes = match spelling.form {
        // The mark is a space wherever it stands, in a text as well: the decoder does not ask where it came from.
        Form::Metaspace(mark) => text.replace(mark, " ").into_bytes(),
        // The decoder does not ask where a token came from: `ü` is the byte 0xfc, though it is found as `ü`.
        Form::ByteLevel if spelling.byte_level_decoder => {
            spelling.token(&token.content).map_err(|reason| TokenizerError::TokenBytes {
                id: TokenId(id),
                token: quoted(&token.content),
                reason,
            })?
        }
        Form::ByteLevel | Form::Plain => text.as_bytes().to_vec(),
        Form::Words { .. } => [b" ", text.as_bytes()].concat(),
    };
    // The model may build this token from the bytes that it spells, and the text may hold the content: if those
    // differ, the id has two meanings.
    if matches!(spelling.form, Form::Metaspace(_) | Form::ByteLevel)
        && by_name.contains_key(token.content.as_str())
        && spelling.token(&token.content).is_ok_and(|built| built != bytes)
    {
        return Err(two_meanings());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_tokens_have_two_digits() {
        assert_eq!(byte_token("<0x0a>"), Some(10));
        assert_eq!(byte_token("<0xFF>"), Some(255));
        for not in ["<0x+A>", "<0xA>", "<0x0A", "<0x0AB>", "0x0A", "<0xé>"] {
            assert_eq!(byte_token(not), None, "{not}");
        }
        assert_eq!(fallback_name(10), "<0x0A>");
    }
}
