//! The API of our own, which `include/unskew.h` declares.
//!
//! Two kinds of handles are enough. A tokenizer holds the tokens of a model and keeps compiled constraints for them,
//! and a matcher is one sequence under a constraint. So the second request for one constraint costs a look-up, and
//! nobody has to keep the compiled constraint.

use std::{
    ffi::{CStr, c_char},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use unskew_core::TokenId;
use unskew_engine::{Compiler, Matcher, MatcherOptions, Spec, Until};

use crate::{
    error::{self, Failure, answer},
    handles::Handles,
    memory,
    tokens::{self, Described},
};

pub use crate::error::UnskewStatus;

/// The tokens of a model, with the constraints that are compiled for them. A handle: threads share it.
#[derive(Debug)]
pub struct UnskewTokenizer {
    _private: (),
}

/// One sequence under a constraint. A handle: threads that use one at the same time wait for each other.
#[derive(Debug)]
pub struct UnskewMatcher {
    _private: (),
}

/// A piece of text.
pub const UNSKEW_TEXT: u32 = 0;
/// A control token: the bytes are its name, and no text.
pub const UNSKEW_CONTROL: u32 = 1;
/// An id that is no token.
pub const UNSKEW_UNUSED: u32 = 2;

/// A token of a vocabulary.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UnskewToken {
    /// The bytes of its text, or its name. May be null where `len` is 0.
    pub bytes: *const u8,
    /// How many bytes.
    pub len: usize,
    /// `UNSKEW_TEXT`, `UNSKEW_CONTROL` or `UNSKEW_UNUSED`.
    pub kind: u32,
}

/// A part of an output that the grammar names.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UnskewCapture {
    /// Where its name begins among the names.
    pub name: usize,
    /// How many bytes the name has.
    pub name_len: usize,
    /// Where its text begins in the output, in bytes. Control tokens have none.
    pub byte_begin: usize,
    /// Where its text ends.
    pub byte_end: usize,
    /// The first token that has a byte of the text, by its place in the output.
    pub token_begin: usize,
    /// The place after the last one.
    pub token_end: usize,
}

static TOKENIZERS: Handles<Compiler> = Handles::new("tokenizer");
static MATCHERS: Handles<Mutex<Matcher>> = Handles::new("matcher");

/// The version of this library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn unskew_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// The message of the last error in this thread: one line with the reason and the way out, and an empty one where
/// there was no error. It is valid until the next error of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn unskew_error() -> *const c_char {
    error::last_message()
}

/// Where in the text of a constraint the last error of this thread is: a line and a column, or a JSON pointer. Null
/// where it has no place. It is valid until the next error of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn unskew_error_place() -> *const c_char {
    error::last_place()
}

/// The tokens of a `tokenizer.json`, whose bytes are given.
///
/// `vocab_size` is the entries of a row of the model's logits, and 0 as many as the tokenizer has; ids beyond it are
/// unused. `end` are the `end_len` ids that end an output, and with none those of the tokenizer. Constraints are kept
/// within `cache_bytes` bytes (0: 1 GiB).
///
/// Null on an error.
///
/// # Safety
///
/// There are `len` bytes at `json`, and `end_len` ids at `end`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unskew_tokenizer_from_json(
    json: *const u8,
    len: usize,
    vocab_size: usize,
    end: *const u32,
    end_len: usize,
    cache_bytes: usize,
) -> *mut UnskewTokenizer {
    answer(|| {
        // SAFETY: the caller's promise.
        let (json, end) = unsafe { (memory::array(json, len, "json")?, memory::array(end, end_len, "end")?) };
        TOKENIZERS.add(Arc::new(tokens::from_json(json, vocab_size, end, cache_bytes)?))
    })
}

/// The tokens that a table describes: the id of a token is its place there. `end` are the `end_len` ids that end an
/// output, which have to be control tokens. There is no tokenizer then, so that constraints cannot be `canonical`.
///
/// Null on an error.
///
/// # Safety
///
/// There are `count` tokens at `table`, each with its bytes, and `end_len` ids at `end`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unskew_tokenizer_from_table(
    table: *const UnskewToken,
    count: usize,
    end: *const u32,
    end_len: usize,
    cache_bytes: usize,
) -> *mut UnskewTokenizer {
    answer(|| {
        // SAFETY: the caller's promise.
        let (table, end) =
            unsafe { (memory::array(table, count, "table")?, memory::array(end, end_len, "end")?) };
        let described = table.iter().enumerate().map(|(id, token)| {
            // SAFETY: the caller's promise.
            let bytes = unsafe { memory::array(token.bytes, token.len, "table[].bytes") };
            let bytes =
                bytes.map_err(|failure| Failure::argument(format!("token {id}: {}", failure.message)))?;
            match token.kind {
                UNSKEW_TEXT => Ok(Described::Text(bytes)),
                UNSKEW_CONTROL => Ok(Described::Control(bytes)),
                UNSKEW_UNUSED => Ok(Described::Unused),
                kind => Err(Failure::argument(format!("token {id}: there is no kind {kind}"))),
            }
        });
        TOKENIZERS.add(Arc::new(tokens::from_table(described, end, cache_bytes)?))
    })
}

/// Frees a tokenizer. Its matchers stay as they are. Null does nothing. 0, or an `UnskewStatus`.
#[unsafe(no_mangle)]
pub extern "C" fn unskew_tokenizer_free(tokenizer: *mut UnskewTokenizer) -> i64 {
    answer(|| TOKENIZERS.remove(tokenizer).map(|()| 0))
}

/// How many words of 32 bits a mask has, or an `UnskewStatus`.
#[unsafe(no_mangle)]
pub extern "C" fn unskew_mask_words(tokenizer: *const UnskewTokenizer) -> i64 {
    answer(|| Ok(count(TOKENIZERS.get(tokenizer)?.mask_words())))
}

/// How many ids there are, or an `UnskewStatus`.
#[unsafe(no_mangle)]
pub extern "C" fn unskew_vocab_size(tokenizer: *const UnskewTokenizer) -> i64 {
    answer(|| Ok(count(TOKENIZERS.get(tokenizer)?.tokens().vocabulary().len())))
}

/// A matcher at the start of an output under the constraint that `spec` describes: `len` bytes of JSON, such as
/// `{"regex": "[0-9]+"}` or `{"json_schema": {...}}`; the README of `unskew-engine` lists the fields.
///
/// `stop_ids` are the `stop_len` ids that end the output; null: those of the tokenizer. Compiling ends after
/// `deadline_ms` milliseconds (0: never) with `Deadline`. A constraint that was compiled before is kept, and costs a
/// look-up by its text. While a thread compiles a constraint, others that ask for it wait, and other constraints do
/// not.
///
/// Null on an error; `unskew_error_place` has the place in the text of the constraint.
///
/// # Safety
///
/// There are `len` bytes at `spec`, and `stop_len` ids at `stop_ids` if that is not null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unskew_matcher_new(
    tokenizer: *const UnskewTokenizer,
    spec: *const u8,
    len: usize,
    stop_ids: *const u32,
    stop_len: usize,
    deadline_ms: u64,
) -> *mut UnskewMatcher {
    answer(|| {
        let compiler = TOKENIZERS.get(tokenizer)?;
        // SAFETY: the caller's promise.
        let (spec, stops) = unsafe {
            (
                memory::array(spec, len, "spec")?,
                match stop_ids.is_null() {
                    true => None,
                    false => Some(memory::array(stop_ids, stop_len, "stop_ids")?),
                },
            )
        };
        let spec = Spec::from_json(memory::utf8(spec, "spec")?)?;
        let mut until = Until::default();
        if deadline_ms != 0 {
            until.deadline = Instant::now().checked_add(Duration::from_millis(deadline_ms));
        }
        let compiled = compiler.compile_until(&spec, &until).map_err(|error| Failure::from(&*error))?;
        let mut options = MatcherOptions::default();
        options.stop_ids = stops.map(tokens::ids);
        MATCHERS.add(Arc::new(Mutex::new(Matcher::new(&compiled, options)?)))
    })
}

/// A second matcher at the same place. Neither knows of the other. Null on an error.
#[unsafe(no_mangle)]
pub extern "C" fn unskew_matcher_fork(matcher: *const UnskewMatcher) -> *mut UnskewMatcher {
    answer(|| {
        let fork = with(matcher, |matcher| Ok(matcher.fork()))?;
        MATCHERS.add(Arc::new(Mutex::new(fork)))
    })
}

/// Frees a matcher. Null does nothing. 0, or an `UnskewStatus`.
#[unsafe(no_mangle)]
pub extern "C" fn unskew_matcher_free(matcher: *mut UnskewMatcher) -> i64 {
    answer(|| MATCHERS.remove(matcher).map(|()| 0))
}

/// Writes the mask of the next token into `row`, which has `words` words of 32 bits: at least `unskew_mask_words`,
/// and those beyond are cleared. Bit `i % 32` of word `i / 32`, from the least significant, is that of token `i`, and
/// 1 is allowed. The ids that end the output are in it exactly where it may end; after the end they are all there is.
///
/// 0, or an `UnskewStatus`; no bit of the row is set then.
///
/// # Safety
///
/// There is room for `words` words at `row`, which nobody else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unskew_matcher_fill(
    matcher: *const UnskewMatcher,
    row: *mut u32,
    words: usize,
) -> i64 {
    answer(|| {
        // SAFETY: the caller's promise.
        let row = unsafe { memory::room(row, words, "row")? };
        let filled = with(matcher, |matcher| Ok(matcher.fill(row)?));
        if filled.is_err() {
            row.fill(0);
        }
        filled.map(|()| 0)
    })
}

/// Appends a token: 1. Where it is not allowed: 0, and nothing has changed. Or an `UnskewStatus`.
#[unsafe(no_mangle)]
pub extern "C" fn unskew_matcher_accept(matcher: *mut UnskewMatcher, token: u32) -> i64 {
    answer(|| with(matcher, |matcher| Ok(matcher.accept(TokenId(token))?.into())))
}

/// The length of the longest beginning of `tokens` that is allowed, or an `UnskewStatus`. Nothing changes.
///
/// # Safety
///
/// There are `len` ids at `tokens`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unskew_matcher_validate(
    matcher: *const UnskewMatcher,
    tokens: *const u32,
    len: usize,
) -> i64 {
    answer(|| {
        // SAFETY: the caller's promise.
        let tokens = tokens::ids(unsafe { memory::array(tokens, len, "tokens")? });
        with(matcher, |matcher| Ok(count(matcher.validate(&tokens)?)))
    })
}

/// Takes back the last `tokens` tokens, the end among them. 0, or an `UnskewStatus`.
#[unsafe(no_mangle)]
pub extern "C" fn unskew_matcher_rollback(matcher: *mut UnskewMatcher, tokens: usize) -> i64 {
    answer(|| with(matcher, |matcher| Ok(matcher.rollback(tokens).map(|()| 0)?)))
}

/// Goes back to the start. 0, or an `UnskewStatus`.
#[unsafe(no_mangle)]
pub extern "C" fn unskew_matcher_reset(matcher: *mut UnskewMatcher) -> i64 {
    answer(|| {
        with(matcher, |matcher| {
            matcher.reset();
            Ok(0)
        })
    })
}

/// Writes the tokens that follow in any case, at most `room` of them, and answers with their number, or with an
/// `UnskewStatus`. Each is the only one that is allowed, and the output may not end in front of it. To take them
/// changes no distribution.
///
/// # Safety
///
/// There is room for `room` ids at `tokens`, which nobody else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unskew_matcher_forced(
    matcher: *const UnskewMatcher,
    tokens: *mut u32,
    room: usize,
) -> i64 {
    answer(|| {
        // SAFETY: the caller's promise.
        let room = unsafe { memory::room(tokens, room, "tokens")? };
        let forced = with(matcher, |matcher| Ok(matcher.forced_tokens(room.len())?))?;
        for (slot, token) in room.iter_mut().zip(&forced) {
            *slot = token.0;
        }
        Ok(count(forced.len()))
    })
}

/// 1 where the output may end here, and after the end; else 0. Or an `UnskewStatus`.
#[unsafe(no_mangle)]
pub extern "C" fn unskew_matcher_is_accepting(matcher: *const UnskewMatcher) -> i64 {
    answer(|| with(matcher, |matcher| Ok(matcher.is_accepting().into())))
}

/// 1 where an id was accepted that ends the output; else 0. Or an `UnskewStatus`.
#[unsafe(no_mangle)]
pub extern "C" fn unskew_matcher_is_terminated(matcher: *const UnskewMatcher) -> i64 {
    answer(|| with(matcher, |matcher| Ok(matcher.is_terminated().into())))
}

/// The parts of the whole output that the grammar names (`name[capture]`), by where they begin, and the outer ones
/// first. Answers with their number, or with an `UnskewStatus`: also where the output is not whole.
///
/// The first `room` of them are written to `captures`. Their names are written to `names`, one after the other
/// without zeros, as far as `names_room` bytes go: the place and length of a name are right in any case.
///
/// # Safety
///
/// There is room for `room` captures at `captures` and for `names_room` bytes at `names`, which nobody else uses
/// during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unskew_matcher_captures(
    matcher: *const UnskewMatcher,
    captures: *mut UnskewCapture,
    room: usize,
    names: *mut u8,
    names_room: usize,
) -> i64 {
    answer(|| {
        // SAFETY: the caller's promise.
        let (room, names) =
            unsafe { (memory::room(captures, room, "captures")?, memory::room(names, names_room, "names")?) };
        let found = with(matcher, |matcher| Ok(matcher.captures()?))?;
        let mut at = 0;
        for (index, capture) in found.iter().enumerate() {
            let name = capture.name.as_bytes();
            if let Some(slot) = room.get_mut(index) {
                *slot = UnskewCapture {
                    name: at,
                    name_len: name.len(),
                    byte_begin: capture.bytes.start,
                    byte_end: capture.bytes.end,
                    token_begin: capture.tokens.start,
                    token_end: capture.tokens.end,
                };
            }
            names.iter_mut().skip(at).zip(name).for_each(|(slot, byte)| *slot = *byte);
            at += name.len();
        }
        Ok(count(found.len()))
    })
}

/// The temperature that the grammar asks for at the next token, written to `temperature`: 1. Where it asks for none:
/// 0, and nothing is written. Or an `UnskewStatus`.
///
/// # Safety
///
/// There is room for a number at `temperature`, which nobody else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unskew_matcher_temperature(
    matcher: *const UnskewMatcher,
    temperature: *mut f64,
) -> i64 {
    answer(|| {
        let found = with(matcher, |matcher| Ok(matcher.temperature()?))?;
        let Some(found) = found else { return Ok(0) };
        // SAFETY: the caller's promise.
        unsafe { memory::write(temperature, found, "temperature")? };
        Ok(1)
    })
}

fn with<T>(
    handle: *const UnskewMatcher,
    body: impl FnOnce(&mut Matcher) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let entry = MATCHERS.get(handle)?;
    let mut matcher: MutexGuard<'_, Matcher> = entry.lock().map_err(|_| {
        Failure::new(UnskewStatus::Panic, "the matcher is of no use since a fault of unskew; free it")
    })?;
    body(&mut matcher)
}

fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
