//! The steps around the model, as data: normaliser, pre-tokenizer, post-processor, decoder.
//!
//! Every kind of step that the format knows has a variant here; a kind that is not known is an error, since it could
//! change anything. Nested `Sequence` steps are flattened. The effect of a step on the bytes of tokens is decided in
//! [`crate::bytes`], its effect on segmentation in [`crate::tokenization`], and the way it runs in
//! [`crate::encoder`].

use serde_json::{Map, Value};
use unskew_core::{PrependScheme, SplitBehavior, UnicodeForm};

use super::{base64, charsmap, oniguruma};
use crate::{TokenizerError, error::quoted};

/// The longest regex that is accepted, in bytes: each of its parts may be tried at each place of a text. The longest
/// known ones have about a thousand.
const REGEX_LIMIT: usize = 8 << 10;

const REGEX_OPERATORS: [char; 14] = ['\\', '.', '+', '*', '?', '(', ')', '|', '[', ']', '{', '}', '^', '$'];

/// The beginning of a text, as LLM-jp's files have it: a line begins there, and no line break stands in front of it.
const BEGINNING: &str = r"(?<!\n)^";

/// The most steps that one part of a file may have: each goes over the whole text. Known files have up to six.
const STEP_LIMIT: usize = 64;

/// A pattern to replace or to split at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Pattern {
    Literal(String),
    /// In the syntax of `fancy-regex`, but for decoders, which have it as the file does.
    Regex(String),
}

/// The syntax of the regexes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Dialect {
    /// That of a `tokenizer.json`.
    #[default]
    Oniguruma,
    /// That of tiktoken, and of the engine here.
    FancyRegex,
}

/// A step of the normaliser.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NormalizerStep {
    Unicode(UnicodeForm),
    Prepend(String),
    Replace { pattern: Pattern, content: String },
    Lowercase,
    Strip { left: bool, right: bool },
    StripAccents,
    Nmt,
    Bert { clean: bool, chinese: bool, accents: Option<bool>, lowercase: bool },
    ByteLevel,
    Precompiled(Vec<u8>),
}

/// A step of the pre-tokenizer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SplitStep {
    ByteLevel { prefix_space: bool, use_regex: bool },
    Metaspace { replacement: char, prepend: PrependScheme, split: bool },
    Split { pattern: Pattern, behavior: SplitBehavior, invert: bool },
    Digits { individual: bool },
    Punctuation(SplitBehavior),
    Whitespace,
    WhitespaceSplit,
    Delimiter(char),
    Bert,
    UnicodeScripts,
    FixedLength(usize),
}

/// A step of the decoder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum DecoderStep {
    ByteLevel,
    ByteFallback,
    Fuse,
    Metaspace {
        replacement: char,
        strips_space: bool,
    },
    Replace {
        pattern: Pattern,
        content: String,
    },
    Strip {
        content: char,
        start: u64,
        stop: u64,
    },
    WordPiece {
        prefix: String,
        /// Whether it takes the spaces off that stand in front of some punctuation.
        cleanup: bool,
    },
    /// What ends a word, which becomes a space.
    WordEnd(String),
    /// A decoder that is no concatenation of token bytes.
    Joining(&'static str),
}

/// The ids that the post-processor puts around one sequence.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) before: Vec<u64>,
    pub(crate) behind: Vec<u64>,
}

/// A JSON object with the place where it stands in the file, for messages.
struct Step<'a> {
    place: String,
    fields: &'a Map<String, Value>,
}

impl<'a> Step<'a> {
    fn new(place: String, value: &'a Value) -> Result<Self, TokenizerError> {
        match value {
            Value::Object(fields) => Ok(Self { place, fields }),
            _ => Err(TokenizerError::not_tokenizer(place, "an object with a `type` is expected")),
        }
    }

    fn wrong(&self, reason: impl Into<String>) -> TokenizerError {
        TokenizerError::not_tokenizer(self.place.clone(), reason)
    }

    fn kind(&self) -> Result<&'a str, TokenizerError> {
        self.text("type")
    }

    fn unknown(&self, kind: &str) -> TokenizerError {
        TokenizerError::unsupported(self.place.clone(), format!("unknown type {}", quoted(kind)))
    }

    /// The field, where it is there and not null.
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn required<T>(&self, name: &str, value: Option<T>, what: &str) -> Result<T, TokenizerError> {
        value.ok_or_else(|| self.wrong(format!("`{name}`: {what} is expected")))
    }

    fn text(&self, name: &str) -> Result<&'a str, TokenizerError> {
        self.required(name, self.get(name).and_then(Value::as_str), "a string")
    }

    fn flag(&self, name: &str) -> Result<bool, TokenizerError> {
        self.required(name, self.get(name).and_then(Value::as_bool), "true or false")
    }

    fn flag_or(&self, name: &str, default: bool) -> Result<bool, TokenizerError> {
        if self.get(name).is_none() { Ok(default) } else { self.flag(name) }
    }

    fn number(&self, name: &str) -> Result<u64, TokenizerError> {
        self.required(name, self.get(name).and_then(Value::as_u64), "a number that is not negative")
    }

    fn character(&self, name: &str) -> Result<char, TokenizerError> {
        let mut characters = self.text(name)?.chars();
        let one = characters.next().filter(|_| characters.next().is_none());
        self.required(name, one, "one character")
    }

    fn list(&self, name: &str) -> Result<&'a Vec<Value>, TokenizerError> {
        self.required(name, self.get(name).and_then(Value::as_array), "a list")
    }

    fn pattern(&self) -> Result<Pattern, TokenizerError> {
        let object = self.get("pattern").and_then(Value::as_object).filter(|object| object.len() == 1);
        let pattern = object.and_then(|object| {
            let (form, text) = object.iter().next()?;
            match (form.as_str(), text.as_str()?) {
                ("String", text) => Some(Pattern::Literal(text.to_owned())),
                // A regex without any operator is a string.
                ("Regex", text)
                    if (1..=REGEX_LIMIT).contains(&text.len()) && !text.contains(REGEX_OPERATORS) =>
                {
                    Some(Pattern::Literal(text.to_owned()))
                }
                ("Regex", text) => Some(Pattern::Regex(text.to_owned())),
                _ => None,
            }
        });
        let pattern = self.required("pattern", pattern, "{\"String\": ..} or {\"Regex\": ..}")?;
        match &pattern {
            Pattern::Literal(text) if text.is_empty() => {
                Err(self.wrong("`pattern`: an empty string matches everywhere"))
            }
            Pattern::Regex(regex) if regex.len() > REGEX_LIMIT => {
                let bytes = regex.len();
                Err(self.wrong(format!("`pattern`: a regex of {bytes} bytes, the limit is {REGEX_LIMIT}")))
            }
            _ => Ok(pattern),
        }
    }

    /// The pattern, as the engine here reads it.
    fn runnable_pattern(&self, dialect: Dialect) -> Result<Pattern, TokenizerError> {
        match (self.pattern()?, dialect) {
            (Pattern::Regex(regex), Dialect::Oniguruma) => {
                let refused = |refusal: oniguruma::Refusal| TokenizerError::Regex {
                    place: self.place.clone(),
                    at: refusal.at,
                    construct: refusal.construct,
                };
                Ok(Pattern::Regex(oniguruma::translate(&regex).map_err(refused)?))
            }
            (pattern, _) => Ok(pattern),
        }
    }

    fn behavior(&self) -> Result<SplitBehavior, TokenizerError> {
        match self.text("behavior")? {
            "Removed" => Ok(SplitBehavior::Removed),
            "Isolated" => Ok(SplitBehavior::Isolated),
            "MergedWithPrevious" => Ok(SplitBehavior::MergedWithPrevious),
            "MergedWithNext" => Ok(SplitBehavior::MergedWithNext),
            "Contiguous" => Ok(SplitBehavior::Contiguous),
            other => Err(self.wrong(format!("`behavior`: {} is not known", quoted(other)))),
        }
    }

    /// The scheme of a metaspace step; older files have a flag instead.
    fn prepend_scheme(&self) -> Result<PrependScheme, TokenizerError> {
        let scheme = match self.get("prepend_scheme") {
            None => None,
            Some(value) => Some(match value.as_str() {
                Some("always") => PrependScheme::Always,
                Some("first") => PrependScheme::First,
                Some("never") => PrependScheme::Never,
                _ => return Err(self.wrong("`prepend_scheme`: always, first or never is expected")),
            }),
        };
        match (self.flag_or("add_prefix_space", true)?, scheme) {
            (true, scheme) => Ok(scheme.unwrap_or(PrependScheme::Always)),
            (false, None | Some(PrependScheme::Never)) => Ok(PrependScheme::Never),
            (false, Some(_)) => {
                Err(self.wrong("`add_prefix_space` and `prepend_scheme` contradict each other"))
            }
        }
    }
}

/// Calls `each` on `value` or, where it is a sequence, on its steps, in order. Null is no step.
fn flatten<'a>(
    place: &str,
    value: &'a Value,
    steps_field: &str,
    each: &mut impl FnMut(&Step<'a>, &'a str) -> Result<(), TokenizerError>,
) -> Result<(), TokenizerError> {
    flatten_within(place, value, steps_field, &mut 0, each)
}

fn flatten_within<'a>(
    place: &str,
    value: &'a Value,
    steps_field: &str,
    seen: &mut usize,
    each: &mut impl FnMut(&Step<'a>, &'a str) -> Result<(), TokenizerError>,
) -> Result<(), TokenizerError> {
    if value.is_null() {
        return Ok(());
    }
    let step = Step::new(place.to_owned(), value)?;
    let kind = step.kind()?;
    if kind != "Sequence" {
        *seen += 1;
        if *seen > STEP_LIMIT {
            return Err(step.wrong(format!("there are more than {STEP_LIMIT} steps, which is the limit")));
        }
        return each(&step, kind);
    }
    for (index, inner) in step.list(steps_field)?.iter().enumerate() {
        let place = format!("{place}.{steps_field}[{index}]");
        if inner.is_null() {
            return Err(TokenizerError::not_tokenizer(place, "an object with a `type` is expected"));
        }
        flatten_within(&place, inner, steps_field, seen, each)?;
    }
    Ok(())
}

/// The steps of `normalizer`.
pub(crate) fn normalizers(value: &Value) -> Result<Vec<NormalizerStep>, TokenizerError> {
    let mut steps = Vec::new();
    flatten("normalizer", value, "normalizers", &mut |step, kind| {
        steps.push(match kind {
            "NFC" => NormalizerStep::Unicode(UnicodeForm::Nfc),
            "NFD" => NormalizerStep::Unicode(UnicodeForm::Nfd),
            "NFKC" => NormalizerStep::Unicode(UnicodeForm::Nfkc),
            "NFKD" => NormalizerStep::Unicode(UnicodeForm::Nfkd),
            "Prepend" => NormalizerStep::Prepend(step.text("prepend")?.to_owned()),
            "Replace" => match (step.pattern()?, step.text("content")?.to_owned()) {
                (Pattern::Regex(regex), content) if regex == BEGINNING => NormalizerStep::Prepend(content),
                (_, content) => {
                    NormalizerStep::Replace { pattern: step.runnable_pattern(Dialect::Oniguruma)?, content }
                }
            },
            "Lowercase" => NormalizerStep::Lowercase,
            "Strip" => {
                NormalizerStep::Strip { left: step.flag("strip_left")?, right: step.flag("strip_right")? }
            }
            "StripAccents" => NormalizerStep::StripAccents,
            "Nmt" => NormalizerStep::Nmt,
            "Bert" | "BertNormalizer" => NormalizerStep::Bert {
                clean: step.flag("clean_text")?,
                chinese: step.flag("handle_chinese_chars")?,
                accents: step.get("strip_accents").map(|_| step.flag("strip_accents")).transpose()?,
                lowercase: step.flag("lowercase")?,
            },
            "ByteLevel" => NormalizerStep::ByteLevel,
            "Precompiled" => {
                let encoded = step.text("precompiled_charsmap")?.as_bytes();
                if encoded.len() / 4 * 3 > charsmap::LIMIT + 3 {
                    let limit = charsmap::LIMIT;
                    return Err(step.wrong(format!("`precompiled_charsmap` is longer than {limit} bytes")));
                }
                let map = step.required("precompiled_charsmap", base64::decode(encoded), "base64")?;
                charsmap::check(&map).map_err(|reason| step.wrong(reason))?;
                NormalizerStep::Precompiled(map)
            }
            other => return Err(step.unknown(other)),
        });
        Ok(())
    })?;
    Ok(steps)
}

/// The steps of `pre_tokenizer`, whose regexes are in this syntax.
pub(crate) fn splits(value: &Value, dialect: Dialect) -> Result<Vec<SplitStep>, TokenizerError> {
    let mut steps = Vec::new();
    flatten("pre_tokenizer", value, "pretokenizers", &mut |step, kind| {
        steps.push(match kind {
            "ByteLevel" => SplitStep::ByteLevel {
                prefix_space: step.flag("add_prefix_space")?,
                use_regex: step.flag_or("use_regex", true)?,
            },
            "Metaspace" => SplitStep::Metaspace {
                replacement: step.character("replacement")?,
                prepend: step.prepend_scheme()?,
                split: step.flag_or("split", true)?,
            },
            "Split" => SplitStep::Split {
                pattern: step.runnable_pattern(dialect)?,
                behavior: step.behavior()?,
                invert: step.flag("invert")?,
            },
            "Digits" => SplitStep::Digits { individual: step.flag("individual_digits")? },
            "Punctuation" => SplitStep::Punctuation(match step.get("behavior") {
                None => SplitBehavior::Isolated,
                Some(_) => step.behavior()?,
            }),
            "Whitespace" => SplitStep::Whitespace,
            "WhitespaceSplit" => SplitStep::WhitespaceSplit,
            "Delimiter" | "CharDelimiterSplit" => SplitStep::Delimiter(step.character("delimiter")?),
            "BertPreTokenizer" => SplitStep::Bert,
            "UnicodeScripts" => SplitStep::UnicodeScripts,
            "FixedLength" => {
                let length = if step.get("length").is_some() { step.number("length")? } else { 5 };
                match usize::try_from(length) {
                    Ok(length) if length > 0 => SplitStep::FixedLength(length),
                    _ => return Err(step.wrong(format!("`length`: {length} is not a length"))),
                }
            }
            other => return Err(step.unknown(other)),
        });
        Ok(())
    })?;
    Ok(steps)
}

/// The steps of `decoder`.
pub(crate) fn decoders(value: &Value) -> Result<Vec<DecoderStep>, TokenizerError> {
    let mut steps = Vec::new();
    flatten("decoder", value, "decoders", &mut |step, kind| {
        steps.push(match kind {
            "ByteLevel" => DecoderStep::ByteLevel,
            "ByteFallback" => DecoderStep::ByteFallback,
            "Fuse" => DecoderStep::Fuse,
            "Metaspace" => DecoderStep::Metaspace {
                replacement: step.character("replacement")?,
                strips_space: step.prepend_scheme()? != PrependScheme::Never,
            },
            "Replace" => match (step.pattern()?, step.text("content")?) {
                (Pattern::Regex(regex), "") if regex.strip_prefix(BEGINNING) == Some(" ") => {
                    DecoderStep::Strip { content: ' ', start: 1, stop: 0 }
                }
                (pattern, content) => DecoderStep::Replace { pattern, content: content.to_owned() },
            },
            "Strip" => DecoderStep::Strip {
                content: step.character("content")?,
                start: step.number("start")?,
                stop: step.number("stop")?,
            },
            "WordPiece" => DecoderStep::WordPiece {
                prefix: step.text("prefix")?.to_owned(),
                cleanup: step.flag_or("cleanup", true)?,
            },
            "BPEDecoder" | "BPE" => DecoderStep::WordEnd(step.text("suffix")?.to_owned()),
            "CTC" => DecoderStep::Joining("CTC"),
            other => return Err(step.unknown(other)),
        });
        Ok(())
    })?;
    Ok(steps)
}

/// The ids that `post_processor` puts around one sequence.
pub(crate) fn frame(value: &Value) -> Result<Frame, TokenizerError> {
    let mut frame = Frame::default();
    flatten("post_processor", value, "processors", &mut |step, kind| {
        let Frame { mut before, behind } = match kind {
            "ByteLevel" => return Ok(()), // it moves offsets only
            "TemplateProcessing" => template(step)?,
            "BertProcessing" | "RobertaProcessing" => {
                let named = |name| {
                    let pair = step.get(name).and_then(Value::as_array).map(Vec::as_slice);
                    let id = match pair {
                        Some([Value::String(_), id]) => id.as_u64(),
                        _ => None,
                    };
                    step.required(name, id, "a token and its id")
                };
                Frame { before: vec![named("cls")?], behind: vec![named("sep")?] }
            }
            other => return Err(step.unknown(other)),
        };
        // A later processor goes around the ids of earlier ones.
        before.append(&mut frame.before);
        frame.before = before;
        frame.behind.extend(behind);
        Ok(())
    })?;
    Ok(frame)
}

/// The ids around the sequence in the template for a single sequence.
fn template(step: &Step<'_>) -> Result<Frame, TokenizerError> {
    let special = step.required("special_tokens", step.get("special_tokens"), "a map")?;
    let mut frame = Frame::default();
    let mut sequences = 0;
    for (index, piece) in step.list("single")?.iter().enumerate() {
        let place = format!("{}.single[{index}]", step.place);
        let wrong = |reason: String| TokenizerError::not_tokenizer(place.clone(), reason);
        if let Some(sequence) = piece.get("Sequence") {
            if sequence.get("id").and_then(Value::as_str) != Some("A") {
                return Err(wrong("the template for one sequence can only name sequence A".to_owned()));
            }
            sequences += 1;
            continue;
        }
        let name = piece.get("SpecialToken").and_then(|token| token.get("id")).and_then(Value::as_str);
        let name = name
            .ok_or_else(|| wrong("a `Sequence` or a `SpecialToken` with an `id` is expected".to_owned()))?;
        let ids = special.get(name).and_then(|token| token.get("ids")).and_then(Value::as_array);
        let ids = ids.ok_or_else(|| wrong(format!("`special_tokens` has no ids for {}", quoted(name))))?;
        let ids: Option<Vec<u64>> = ids.iter().map(Value::as_u64).collect();
        let ids = ids.ok_or_else(|| wrong(format!("an id of {} is no number", quoted(name))))?;
        if sequences == 0 { &mut frame.before } else { &mut frame.behind }.extend(ids);
    }
    if sequences != 1 {
        return Err(step.wrong(format!("`single` names the sequence {sequences} times, once is expected")));
    }
    Ok(frame)
}
