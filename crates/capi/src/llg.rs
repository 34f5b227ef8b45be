//! The functions that llama.cpp calls of llguidance, over this engine: `include/llguidance.h` declares them.
//!
//! llama.cpp has a sampler for llguidance (`common/llguidance.cpp`), which calls 13 functions. A program that links
//! this library in place of llguidance's has the masks of this engine, without a change of its sources. Names,
//! signatures, layouts and meanings are those of versions 1.0.1 (which llama.cpp builds) to 1.9.1. They were read in
//! its documentation, and no more of it is here.
//!
//! # The same as there
//!
//! A matcher is never null: an error stays in it, [`llg_matcher_get_error`] has its text until the matcher is freed,
//! and all that it is asked for then fails. A mask has a bit for each id; the end is in it where the output may end,
//! and is all that is left after the end.
//!
//! # Differences
//!
//! | | here |
//! |---|---|
//! | `lark` | the dialect that [`unskew_notation`] reads, which its module on Lark compares with llguidance's, and `start: %json {...}` as the whole grammar, as llama.cpp writes JSON Schemas |
//! | `llguidance`, a list of grammars in JSON | refused; give its one grammar as `lark`, or its schema as `json_schema` |
//! | `limits` | refused if not zero, for they count the work of another engine |
//! | `log_buffer_level`, `log_stderr_level` | nothing is logged |
//! | `tokenize_fn`, `slices`, `use_approximate_greedy_tokenize_fn` | not called and not read: masks do not depend on them |
//! | tokens without their leading spaces | refused: see [`llg_new_tokenizer`] |

use std::{
    ffi::{CStr, CString, c_char, c_void},
    mem::MaybeUninit,
    ptr,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::value::RawValue;
use unskew_core::TokenId;
use unskew_engine::{Compiler, Matcher, Spec};
use unskew_notation::GrammarFormat;

use crate::{
    error::{Failure, c_text, caught},
    handles::Handles,
    memory,
    tokens::{self, Described},
};

/// The tokens of a model. A handle.
#[derive(Debug)]
pub struct LlgTokenizer {
    _private: (),
}

/// A sequence under a constraint. A handle.
#[derive(Debug)]
pub struct LlgMatcher {
    _private: (),
}

/// Writes the tokens of a text, no more than there is room for, and answers with their number. It is not called here.
pub type LlgTokenizeFn = Option<
    unsafe extern "C" fn(
        user_data: *const c_void,
        bytes: *const u8,
        bytes_len: usize,
        output_tokens: *mut u32,
        output_tokens_len: usize,
    ) -> usize,
>;

/// The description of the tokens of a model.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LlgTokenizerInit {
    /// How many ids there are.
    pub vocab_size: u32,
    /// The id that ends an output.
    pub tok_eos: u32,
    /// The length of each token in bytes.
    pub token_lens: *const u32,
    /// The bytes of all tokens, one after the other. A control token has the byte 0xFF in front of its name; an
    /// unused id has none.
    pub token_bytes: *const u8,
    /// In place of these two: the text of a `tokenizer.json`.
    pub tokenizer_json: *const c_char,
    /// Not read.
    pub tokenize_assumes_string: MaybeUninit<bool>,
    /// Not called.
    pub tokenize_fn: LlgTokenizeFn,
    /// Not read.
    pub use_approximate_greedy_tokenize_fn: MaybeUninit<bool>,
    /// Not read.
    pub tokenize_user_data: *const c_void,
    /// Not read.
    pub slices: *const *const c_char,
}

/// Limits of llguidance's engine. Here each has to be zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LlgParserLimits {
    /// Zero.
    pub max_items_in_row: usize,
    /// Zero.
    pub initial_lexer_fuel: u64,
    /// Zero.
    pub step_lexer_fuel: u64,
    /// Zero.
    pub step_max_items: usize,
    /// Zero.
    pub max_lexer_states: usize,
    /// Zero.
    pub max_grammar_size: usize,
    /// Not read.
    pub precompute_large_lexemes: MaybeUninit<bool>,
    /// Not read.
    pub verbose_errors: MaybeUninit<bool>,
}

/// How a matcher is made.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LlgConstraintInit {
    /// The tokens.
    pub tokenizer: *const LlgTokenizer,
    /// Nothing is logged here.
    pub log_buffer_level: u32,
    /// Nothing is logged here.
    pub log_stderr_level: u32,
    /// Not read.
    pub ff_tokens_ok: MaybeUninit<bool>,
    /// Not read.
    pub backtrack_ok: MaybeUninit<bool>,
    /// All zero.
    pub limits: LlgParserLimits,
}

/// The thing that a matcher's handle stands for.
struct State {
    matcher: Option<Matcher>,
    mask: Box<[u32]>,
    /// Whether `mask` is that of the present place.
    has_mask: bool,
    /// It stays, for the caller holds its address.
    error: Option<CString>,
}

static TOKENIZERS: Handles<Compiler> = Handles::new("tokenizer");
static MATCHERS: Handles<Mutex<State>> = Handles::new("matcher");

/// The error of a handle that is none.
const NO_MATCHER: &CStr = c"the matcher is null, or was freed";

/// A vocabulary with at least as many tokens has some that begin with a space and a letter.
const MANY_TOKENS: usize = 4096;

/// Writes the defaults for a tokenizer.
///
/// # Safety
///
/// There is room for an `LlgConstraintInit` at `init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llg_constraint_init_set_defaults(
    init: *mut LlgConstraintInit,
    tokenizer: *const LlgTokenizer,
) {
    let no = MaybeUninit::new(false);
    let limits = LlgParserLimits {
        max_items_in_row: 0,
        initial_lexer_fuel: 0,
        step_lexer_fuel: 0,
        step_max_items: 0,
        max_lexer_states: 0,
        max_grammar_size: 0,
        precompute_large_lexemes: no,
        verbose_errors: no,
    };
    let defaults = LlgConstraintInit {
        tokenizer,
        log_buffer_level: 0,
        log_stderr_level: 0,
        ff_tokens_ok: no,
        backtrack_ok: no,
        limits,
    };
    // SAFETY: the caller's promise. A null pointer, which has no defaults to be written, is left alone.
    let _ = unsafe { memory::write(init, defaults, "init") };
}

/// The tokens of a model. Null on an error, whose text is written to `error_string`, which has room for
/// `error_string_len` bytes.
///
/// A vocabulary of 4,096 tokens or more in which no token begins with a space and a letter is refused: llama.cpp
/// takes the leading space from each token of a SentencePiece model that puts one in front of a text (Llama 2), so
/// that these are not the tokens' bytes.
///
/// # Safety
///
/// `init` has the addresses of arrays and texts as it says, and there is room at `error_string`, if it is not null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llg_new_tokenizer(
    init: *const LlgTokenizerInit,
    error_string: *mut c_char,
    error_string_len: usize,
) -> *mut LlgTokenizer {
    // SAFETY: the caller's promise.
    let made = caught(|| TOKENIZERS.add(Arc::new(unsafe { tokenizer(init)? })));
    made.unwrap_or_else(|failure| {
        // SAFETY: the caller's promise.
        unsafe { memory::write_text(error_string, error_string_len, &failure.message) };
        ptr::null_mut()
    })
}

/// A second handle to the same tokens. Null where `tokenizer` is none.
#[unsafe(no_mangle)]
pub extern "C" fn llg_clone_tokenizer(tokenizer: *const LlgTokenizer) -> *mut LlgTokenizer {
    caught(|| TOKENIZERS.add(TOKENIZERS.get(tokenizer)?)).unwrap_or(ptr::null_mut())
}

/// Frees a handle of a tokenizer. Matchers stay as they are.
#[unsafe(no_mangle)]
pub extern "C" fn llg_free_tokenizer(tokenizer: *mut LlgTokenizer) {
    // There is nobody to tell of an error.
    let _ = caught(|| TOKENIZERS.remove(tokenizer));
}

/// A matcher for the constraint `data` of the kind `constraint_type`: `regex`, `json` or `json_schema`,
/// `json_object`, `lark`. An error stays in it.
///
/// # Safety
///
/// `init` is an `LlgConstraintInit`, and both texts end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llg_new_matcher(
    init: *const LlgConstraintInit,
    constraint_type: *const c_char,
    data: *const c_char,
) -> *mut LlgMatcher {
    let made = caught(|| {
        // SAFETY: the caller's promise.
        let (init, kind, data) = unsafe {
            let kind = memory::text(constraint_type, "constraint_type")?;
            (memory::read(init, "init")?, kind, memory::text(data, "data")?)
        };
        refuse_limits(&init.limits)?;
        let compiler = TOKENIZERS.get(init.tokenizer)?;
        let compiled = compiler.compile(&spec(kind, data)?).map_err(|error| Failure::from(&*error))?;
        Ok(compiled.matcher())
    });
    let state = match made {
        Ok(matcher) => State {
            mask: vec![0; matcher.mask_words()].into(),
            matcher: Some(matcher),
            has_mask: false,
            error: None,
        },
        Err(failure) => State {
            mask: Box::default(),
            matcher: None,
            has_mask: false,
            error: Some(c_text(failure.message)),
        },
    };
    MATCHERS.add(Arc::new(Mutex::new(state))).unwrap_or(ptr::null_mut())
}

/// A second matcher at the same place.
#[unsafe(no_mangle)]
pub extern "C" fn llg_clone_matcher(matcher: *const LlgMatcher) -> *mut LlgMatcher {
    let clone = look(matcher, |state| {
        let State { matcher, mask, has_mask, error } = state;
        State { matcher: matcher.clone(), mask: mask.clone(), has_mask: *has_mask, error: error.clone() }
    });
    let added =
        caught(|| clone.map_or(Ok(ptr::null_mut()), |clone| MATCHERS.add(Arc::new(Mutex::new(clone)))));
    added.unwrap_or(ptr::null_mut())
}

/// Frees a matcher.
#[unsafe(no_mangle)]
pub extern "C" fn llg_free_matcher(matcher: *mut LlgMatcher) {
    // There is nobody to tell of an error.
    let _ = caught(|| MATCHERS.remove(matcher));
}

/// The text of the error, or null. It stays until the matcher is freed.
#[unsafe(no_mangle)]
pub extern "C" fn llg_matcher_get_error(matcher: *mut LlgMatcher) -> *const c_char {
    look(matcher, |state| state.error.as_deref().map_or(ptr::null(), CStr::as_ptr))
        .unwrap_or(NO_MATCHER.as_ptr())
}

/// Makes the mask of the next token. 0, or -1 on an error.
#[unsafe(no_mangle)]
pub extern "C" fn llg_matcher_compute_mask(matcher: *mut LlgMatcher) -> i32 {
    change(matcher, |matcher, mask| {
        matcher.fill(mask)?;
        Ok(true)
    })
}

/// The mask that was made at the present place, or null. It is valid until the next call with this matcher.
#[unsafe(no_mangle)]
pub extern "C" fn llg_matcher_get_mask(matcher: *mut LlgMatcher) -> *const u32 {
    look(matcher, |state| if state.has_mask { state.mask.as_ptr() } else { ptr::null() })
        .unwrap_or(ptr::null())
}

/// The bytes of a mask. 0 for a matcher with an error from the start.
#[unsafe(no_mangle)]
pub extern "C" fn llg_matcher_get_mask_byte_size(matcher: *const LlgMatcher) -> usize {
    look(matcher, |state| size_of_val(&*state.mask)).unwrap_or(0)
}

/// Appends a token. 0, or -1 on an error: where it is not allowed, too.
#[unsafe(no_mangle)]
pub extern "C" fn llg_matcher_consume_token(matcher: *mut LlgMatcher, token: u32) -> i32 {
    change(matcher, |matcher, _| match matcher.accept(TokenId(token))? {
        true => Ok(false),
        false => Err(Failure::argument(format!(
            "token {token} is not allowed after {} tokens of output",
            matcher.tokens().len()
        ))),
    })
}

/// Goes back to the start. 0, or -1 on an error.
#[unsafe(no_mangle)]
pub extern "C" fn llg_matcher_reset(matcher: *mut LlgMatcher) -> i32 {
    change(matcher, |matcher, _| {
        matcher.reset();
        Ok(false)
    })
}

/// Looks at the state of a matcher.
fn look<T>(handle: *const LlgMatcher, body: impl FnOnce(&State) -> T) -> Option<T> {
    let looked = caught(|| {
        let entry = MATCHERS.get(handle)?;
        // A panic while it is changed is caught inside of the lock.
        let state = entry.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(body(&state))
    });
    looked.ok()
}

/// Changes a matcher without an error, which tells whether it has a mask then.
fn change(
    handle: *mut LlgMatcher,
    body: impl FnOnce(&mut Matcher, &mut [u32]) -> Result<bool, Failure>,
) -> i32 {
    let changed = caught(|| {
        let entry = MATCHERS.get(handle)?;
        let mut state = entry.lock().unwrap_or_else(PoisonError::into_inner);
        let State { matcher: Some(matcher), mask, error: None, .. } = &mut *state else {
            return Ok(false);
        };
        let changed = caught(|| body(matcher, mask));
        state.has_mask = matches!(changed, Ok(true));
        if let Err(failure) = changed {
            state.error = Some(c_text(failure.message));
        }
        Ok(state.error.is_none())
    });
    if changed.unwrap_or(false) { 0 } else { -1 }
}

fn refuse_limits(limits: &LlgParserLimits) -> Result<(), Failure> {
    let values = [
        ("max_items_in_row", limits.max_items_in_row != 0),
        ("initial_lexer_fuel", limits.initial_lexer_fuel != 0),
        ("step_lexer_fuel", limits.step_lexer_fuel != 0),
        ("step_max_items", limits.step_max_items != 0),
        ("max_lexer_states", limits.max_lexer_states != 0),
        ("max_grammar_size", limits.max_grammar_size != 0),
    ];
    match values.iter().find(|(_, is_set)| *is_set) {
        Some((name, _)) => Err(Failure::argument(format!(
            "`limits.{name}` counts the work of another engine; leave it 0, as llg_constraint_init_set_defaults does"
        ))),
        None => Ok(()),
    }
}

/// # Safety
///
/// As for [`llg_new_tokenizer`].
unsafe fn tokenizer(init: *const LlgTokenizerInit) -> Result<Compiler, Failure> {
    // SAFETY: the caller's promise.
    let init = unsafe { memory::read(init, "init")? };
    let end = [init.tok_eos];
    if !init.tokenizer_json.is_null() {
        // SAFETY: the caller's promise.
        let json = unsafe { memory::text(init.tokenizer_json, "tokenizer_json")? };
        return tokens::from_json(json.as_bytes(), init.vocab_size as usize, &end, 0);
    }
    if init.tok_eos >= init.vocab_size {
        return Err(Failure::argument(format!(
            "`tok_eos` is {} and there are {} ids: without an end no output can end; use a model that has one",
            init.tok_eos, init.vocab_size
        )));
    }
    // SAFETY: the caller's promise.
    let lens = unsafe { memory::array(init.token_lens, init.vocab_size as usize, "token_lens")? };
    let total = lens.iter().try_fold(0, |total: usize, len| total.checked_add(*len as usize));
    let total = total.ok_or_else(|| Failure::argument("`token_lens` are too long together"))?;
    // SAFETY: the caller's promise.
    let bytes = unsafe { memory::array(init.token_bytes, total, "token_bytes")? };
    let mut rest = bytes;
    let described: Vec<Described<'_>> = (0..)
        .zip(lens)
        .map(|(id, len)| {
            let (token, after) = rest.split_at(*len as usize);
            rest = after;
            match token {
                // The end has no text, even if it is a piece of text elsewhere.
                [0xFF, name @ ..] => Described::Control(name),
                name if id == init.tok_eos => Described::Control(name),
                [] => Described::Unused,
                text => Described::Text(text),
            }
        })
        .collect();
    refuse_stripped(&described)?;
    tokens::from_table(described.into_iter().map(Ok), &end, 0)
}

/// Refuses tokens that have lost their leading spaces.
fn refuse_stripped(tokens: &[Described<'_>]) -> Result<(), Failure> {
    let texts = tokens.iter().filter_map(|token| match token {
        Described::Text(text) => Some(*text),
        _ => None,
    });
    let is_word = |text: &[u8]| matches!(text, [b' ', letter, ..] if letter.is_ascii_alphabetic());
    if texts.clone().count() >= MANY_TOKENS && !texts.clone().any(is_word) {
        return Err(Failure::argument(
            "no token begins with a space and a letter: these are not the bytes of the tokens but those of texts of one token, whose \
             leading space is gone, and masks made of them would be wrong; use a model whose tokenizer puts no space in front of a text",
        ));
    }
    Ok(())
}

/// The constraint `data` of a kind.
fn spec(kind: &str, data: &str) -> Result<Spec, Failure> {
    match kind {
        "regex" => Ok(Spec::regex(data)),
        "json" | "json_schema" => Ok(Spec::json_schema(data)),
        "json_object" => Ok(Spec::json_schema(r#"{"type":"object"}"#)),
        "lark" => Ok(match whole_schema(data) {
            Some(schema) => Spec::json_schema(schema),
            None => Spec::grammar(data, GrammarFormat::Lark),
        }),
        // A list of grammars in JSON.
        "llguidance" | "guidance" => Ok(Spec::grammar(data, GrammarFormat::Lark)),
        other => Err(Failure::argument(format!(
            "there is no kind of constraint `{other}`, only `regex`, `json_schema`, `json_object`, `lark` and `llguidance`"
        ))),
    }
}

/// The schema of a grammar in Lark that is `start: %json` and a schema.
fn whole_schema(grammar: &str) -> Option<&str> {
    let after = |text: &'static str| {
        move |rest: &mut &str| -> Option<()> {
            *rest = rest.trim_start().strip_prefix(text)?;
            Some(())
        }
    };
    let mut rest = grammar;
    if after("%llguidance")(&mut rest).is_some() {
        ["{", "}"].map(after).iter().try_for_each(|part| part(&mut rest))?;
    }
    ["start", ":", "%json"].map(after).iter().try_for_each(|part| part(&mut rest))?;
    let schema = rest.trim();
    serde_json::from_str::<&RawValue>(schema).ok().map(|_| schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grammar_that_is_one_schema() {
        let schema = r#"{"type": "integer"}"#;
        for before in
            ["%llguidance {}\nstart: %json ", "start: %json", "\n %llguidance { }\n\nstart :%json\n"]
        {
            assert_eq!(whole_schema(&format!("{before}{schema}\n")), Some(schema));
        }
        for other in [
            "start: \"a\"",
            "%llguidance {\"no_forcing\": true}\nstart: %json {}",
            "start: %json {} \"a\"",
            "start: \"a\" %json {}",
            "start: %json {",
        ] {
            assert_eq!(whole_schema(other), None, "{other}");
        }
    }
}
