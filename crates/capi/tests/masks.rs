//! The masks of both APIs are those of the engine, bit for bit, at every place of random outputs.

#![allow(unsafe_code, reason = "the functions are those that C calls")]

mod common;

use std::{
    ffi::{CStr, CString},
    ptr,
};

use common::{Case, Random, cases, compiler, ids, mask, table, tiny, unescaped};
use unskew_capi::{api::*, llg::*};
use unskew_core::TokenId;
use unskew_engine::Spec;

const WALKS: usize = 8;
const STEPS: usize = 40;

/// Signs that mean something in constraints.
const SIGNS: &[u8] = b"{}[]()\"\\*+?0,:";

fn llg_tokenizer() -> *mut LlgTokenizer {
    let space = tiny();
    let vocabulary = space.vocabulary();
    let (lens, bytes) = table(vocabulary);
    let init = LlgTokenizerInit {
        vocab_size: u32::try_from(lens.len()).unwrap(),
        tok_eos: vocabulary.end_of_sequence()[0].0,
        token_lens: lens.as_ptr(),
        token_bytes: bytes.as_ptr(),
        tokenizer_json: ptr::null(),
        tokenize_assumes_string: std::mem::MaybeUninit::uninit(),
        tokenize_fn: None,
        use_approximate_greedy_tokenize_fn: std::mem::MaybeUninit::uninit(),
        tokenize_user_data: ptr::null(),
        slices: ptr::null(),
    };
    // SAFETY: the arrays are as long as they say.
    let made = unsafe { llg_new_tokenizer(&raw const init, ptr::null_mut(), 0) };
    assert!(!made.is_null());
    made
}

fn llg_matcher(tokenizer: *const LlgTokenizer, kind: &str, data: &str) -> *mut LlgMatcher {
    let (kind, data) = (CString::new(kind).unwrap(), CString::new(data).unwrap());
    let mut init = std::mem::MaybeUninit::uninit();
    // SAFETY: there is room for `init`, which is written before it is read, and the texts end with zeros.
    unsafe {
        llg_constraint_init_set_defaults(init.as_mut_ptr(), tokenizer);
        llg_new_matcher(init.as_ptr(), kind.as_ptr(), data.as_ptr())
    }
}

#[test]
fn masks_are_those_of_the_engine() {
    let engine = compiler();
    let words = engine.mask_words();
    let json = common::TOKENIZER.as_bytes();
    // SAFETY: the bytes are there.
    let tokenizer = unsafe { unskew_tokenizer_from_json(json.as_ptr(), json.len(), 0, ptr::null(), 0, 0) };
    assert_eq!(unskew_mask_words(tokenizer), i64::try_from(words).unwrap());
    let llg_tokenizer = llg_tokenizer();
    let mut random = Random::new(29);
    let (mut compared, mut ended) = (0, 0);
    for Case { spec, llg } in cases() {
        let compiled = engine.compile(&Spec::from_json(&spec).unwrap()).unwrap();
        for _ in 0..WALKS {
            let mut expected = compiled.matcher();
            // SAFETY: the bytes are there.
            let matcher =
                unsafe { unskew_matcher_new(tokenizer, spec.as_ptr(), spec.len(), ptr::null(), 0, 0) };
            assert!(!matcher.is_null(), "{spec}");
            let llg = llg.as_ref().map(|(kind, data)| llg_matcher(llg_tokenizer, kind, &unescaped(data)));
            for _ in 0..STEPS {
                let row = mask(&expected);
                // Longer than a mask, and not clean.
                let mut own = vec![u32::MAX; words + 2];
                // SAFETY: the row is as long as it says.
                assert_eq!(unsafe { unskew_matcher_fill(matcher, own.as_mut_ptr(), own.len()) }, 0);
                assert_eq!((&own[..words], &own[words..]), (&row[..], &[0, 0][..]), "{spec}");
                if let Some(llg) = llg {
                    assert_eq!(llg_matcher_get_mask_byte_size(llg), words * 4);
                    assert_eq!(llg_matcher_compute_mask(llg), 0);
                    let made = llg_matcher_get_mask(llg);
                    // SAFETY: it has as many words, until the next call.
                    assert_eq!(unsafe { std::slice::from_raw_parts(made, words) }, row, "{spec}");
                }
                compared += 1;
                let allowed = ids(&row);
                let token = allowed[random.below(allowed.len())];
                let refused = (0..).find(|id| !allowed.contains(id)).unwrap();
                assert_eq!(unskew_matcher_accept(matcher, refused), 0);
                assert_eq!(unskew_matcher_is_accepting(matcher), i64::from(expected.is_accepting()));
                assert_eq!(unskew_matcher_accept(matcher, token), 1);
                assert!(expected.accept(TokenId(token)).unwrap());
                if let Some(llg) = llg {
                    assert_eq!(llg_matcher_consume_token(llg, token), 0);
                    assert!(llg_matcher_get_mask(llg).is_null(), "the mask of another place");
                }
                if expected.is_terminated() {
                    ended += 1;
                    break;
                }
            }
            rest_is_equal(matcher, &mut expected, &mut random);
            if let Some(llg) = llg {
                assert_eq!(llg_matcher_reset(llg), 0);
                assert!(llg_matcher_get_error(llg).is_null());
                llg_free_matcher(llg);
            }
            assert_eq!(unskew_matcher_free(matcher), 0);
        }
    }
    assert!(compared > 1_000 && ended > 20, "{compared} masks, {ended} ends");
    llg_free_tokenizer(llg_tokenizer);
    assert_eq!(unskew_tokenizer_free(tokenizer), 0);
}

/// Rollback, fork, validation, forced tokens.
fn rest_is_equal(matcher: *mut UnskewMatcher, expected: &mut unskew_engine::Matcher, random: &mut Random) {
    let tokens: Vec<u32> = expected.tokens().iter().map(|id| id.0).collect();
    let back = random.below(tokens.len() + 1);
    let fork = unskew_matcher_fork(matcher);
    assert_eq!(unskew_matcher_rollback(matcher, back), 0);
    expected.rollback(back).unwrap();
    let mut row = vec![0; expected.mask_words()];
    // SAFETY: arrays are as long as they say.
    unsafe {
        assert_eq!(unskew_matcher_fill(matcher, row.as_mut_ptr(), row.len()), 0);
        assert_eq!(row, mask(expected));
        let again = &tokens[tokens.len() - back..];
        assert_eq!(
            unskew_matcher_validate(matcher, again.as_ptr(), again.len()),
            i64::try_from(back).unwrap()
        );
        let mut forced = [0; 16];
        let count = unskew_matcher_forced(matcher, forced.as_mut_ptr(), forced.len());
        let expected = expected.forced_tokens(forced.len()).unwrap();
        let expected: Vec<u32> = expected.iter().map(|id| id.0).collect();
        assert_eq!(forced[..usize::try_from(count).unwrap()], expected);
    }
    // The fork stands where it was.
    assert_eq!(unskew_matcher_rollback(fork, tokens.len()), 0);
    assert!(unskew_matcher_rollback(fork, 1) < 0);
    assert_eq!(unskew_matcher_reset(matcher), 0);
    assert_eq!(unskew_matcher_is_terminated(matcher), 0);
    assert_eq!(unskew_matcher_free(fork), 0);
}

#[test]
fn damaged_constraints_are_errors() {
    let json = common::TOKENIZER.as_bytes();
    // SAFETY: the bytes are there.
    let tokenizer =
        unsafe { unskew_tokenizer_from_json(json.as_ptr(), json.len(), 0, ptr::null(), 0, 1 << 24) };
    let mut random = Random::new(3);
    let cases = cases();
    let (mut refused, mut made) = (0, 0);
    for round in 0..600 {
        let mut spec = cases[round % cases.len()].spec.clone().into_bytes();
        for _ in 0..1 + random.below(3) {
            let at = random.below(spec.len());
            match random.below(3) {
                0 => spec[at] = u8::try_from(random.below(256)).unwrap(),
                1 => drop(spec.remove(at)),
                _ => spec.insert(at, SIGNS[random.below(SIGNS.len())]),
            }
        }
        // SAFETY: the bytes are there.
        let matcher =
            unsafe { unskew_matcher_new(tokenizer, spec.as_ptr(), spec.len(), ptr::null(), 0, 2000) };
        if matcher.is_null() {
            // SAFETY: it is a text until the next error of this thread.
            let message = unsafe { CStr::from_ptr(unskew_error()) }.to_str().unwrap();
            assert!(!message.is_empty() && !message.contains("a fault of unskew"), "{message}");
            refused += 1;
        } else {
            assert_eq!(unskew_matcher_free(matcher), 0);
            made += 1;
        }
    }
    assert!(refused > 200 && made > 20, "{refused} refused, {made} made");
    assert_eq!(unskew_tokenizer_free(tokenizer), 0);
}

#[test]
fn threads_share_a_tokenizer() {
    let json = common::TOKENIZER.as_bytes();
    // SAFETY: the bytes are there.
    let tokenizer =
        unsafe { unskew_tokenizer_from_json(json.as_ptr(), json.len(), 0, ptr::null(), 0, 0) }.addr();
    let cases = cases();
    let rows: Vec<Vec<Vec<u32>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let made = cases.iter().map(|case| {
                        let spec = &case.spec;
                        let tokenizer = ptr::without_provenance(tokenizer);
                        let mut row = vec![0; usize::try_from(unskew_mask_words(tokenizer)).unwrap()];
                        // SAFETY: arrays are as long as they say.
                        unsafe {
                            let matcher =
                                unskew_matcher_new(tokenizer, spec.as_ptr(), spec.len(), ptr::null(), 0, 0);
                            assert_eq!(unskew_matcher_fill(matcher, row.as_mut_ptr(), row.len()), 0);
                            unskew_matcher_free(matcher);
                        }
                        row
                    });
                    made.collect()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(rows.iter().all(|of_one| *of_one == rows[0]));
    assert_eq!(unskew_tokenizer_free(ptr::without_provenance_mut(tokenizer)), 0);
}
