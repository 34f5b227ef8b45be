//! Lines of text as items: read in batches, checked, and encoded on all cores.
//!
//! A line that cannot be an item is an error that names the line. `each` has the lines in front of it by then.

use std::io::{BufRead, Read};

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use unskew_core::{TokenId, Vocabulary};

use crate::error::{Line, SetError};

/// The lines, and about the bytes, that are encoded together.
const BATCH_LINES: usize = 1 << 13;
const BATCH_BYTES: usize = 1 << 20;

/// The characters of a line that an error shows.
const SHOWN: usize = 60;

/// The error of a tokenizer.
pub(crate) trait Failed: Into<Box<dyn std::error::Error + Send + Sync>> {}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> Failed for E {}

/// The form of the lines.
#[derive(Clone, Copy)]
pub(crate) struct Form<'a> {
    /// The vocabulary of the tokens.
    pub(crate) vocabulary: &'a Vocabulary,
    /// A text that is put in front of every line.
    pub(crate) prefix: &'a str,
    /// The most bytes of a line.
    pub(crate) line_bytes: usize,
}

/// An event of reading lines.
pub(crate) enum Found<'a> {
    /// A line with text: its number, its text with the prefix in front, and its tokens.
    Item(Line, &'a str, Vec<TokenId>),
    /// A line without text.
    Blank(Line),
    /// The number of lines and of bytes so far.
    Progress(Line, u64),
}

/// The beginning of a text, for errors.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// Calls `each` with every line of `text`. `lines` is the number of lines so far and goes up with each line.
pub(crate) fn encode_lines<E: Failed>(
    mut text: impl BufRead,
    form: Form<'_>,
    lines: &mut Line,
    encode: impl Fn(&str) -> Result<Vec<TokenId>, E> + Sync,
    mut each: impl FnMut(Found<'_>) -> Result<(), SetError>,
) -> Result<(), SetError> {
    let mut bytes = 0;
    loop {
        let mut batch = Vec::new();
        let (read, end) = read_batch(&mut text, form.prefix, form.line_bytes, lines, &mut batch)?;
        let one = |(line, text): &(Line, String)| {
            if text.is_empty() {
                return Ok(Vec::new());
            }
            let item = encode(text).map_err(|source| SetError::Encode {
                line: *line,
                text: shown(text),
                source: source.into(),
            })?;
            let spelled = form.vocabulary.decode(&item);
            if spelled != text.as_bytes() {
                let spelled = shown(&String::from_utf8_lossy(&spelled));
                return Err(SetError::Respelled { line: *line, text: shown(text), spelled });
            }
            Ok(item)
        };
        let encoded: Vec<Result<Vec<TokenId>, SetError>> = batch.par_iter().map(one).collect();
        for ((line, text), item) in batch.iter().zip(encoded) {
            each(if text.is_empty() { Found::Blank(*line) } else { Found::Item(*line, text, item?) })?;
        }
        bytes += read;
        each(Found::Progress(*lines, bytes))?;
        // The error of a line that cannot be read follows the lines in front of it, which may have errors of their own.
        if end? {
            return Ok(());
        }
    }
}

/// Calls `each` with every line of `text` that has text.
pub(crate) fn read_lines(
    mut text: impl BufRead,
    line_bytes: usize,
    mut each: impl FnMut(&str) -> Result<(), SetError>,
) -> Result<(), SetError> {
    let (mut lines, mut batch) = (0, Vec::new());
    loop {
        batch.clear();
        let (_, end) = read_batch(&mut text, "", line_bytes, &mut lines, &mut batch)?;
        batch.iter().filter(|(_, line)| !line.is_empty()).try_for_each(|(_, line)| each(line))?;
        if end? {
            return Ok(());
        }
    }
}

/// Reads some lines; lines without text become empty ones. Returns the number of bytes, and whether the text has
/// ended, or the error of the next line.
fn read_batch(
    text: &mut impl BufRead,
    prefix: &str,
    limit: usize,
    lines: &mut Line,
    batch: &mut Vec<(Line, String)>,
) -> Result<(u64, Result<bool, SetError>), SetError> {
    let mut bytes = 0;
    while batch.len() < BATCH_LINES && bytes < BATCH_BYTES {
        let mut line = Vec::new();
        // One byte more than a line may have with its break.
        let read = text.by_ref().take(limit as u64 + 3).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok((bytes as u64, Ok(true)));
        }
        bytes += read;
        *lines += 1;
        let number = *lines;
        if line.pop_if(|byte| *byte == b'\n').is_some() {
            line.pop_if(|byte| *byte == b'\r');
        }
        if line.len() > limit {
            return Ok((bytes as u64, Err(SetError::LineTooLong { line: number, limit })));
        }
        match String::from_utf8(line) {
            Ok(line) if line.is_empty() => batch.push((number, line)),
            Ok(line) => batch.push((number, format!("{prefix}{line}"))),
            Err(error) => {
                let byte = error.utf8_error().valid_up_to();
                return Ok((bytes as u64, Err(SetError::NotUtf8 { line: number, byte })));
            }
        }
    }
    Ok((bytes as u64, Ok(false)))
}
