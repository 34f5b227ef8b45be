/* The C API of unskew: exact token masks. Made from crates/capi/src/api.rs: change that file.
 *
 * Handles are numbers that are looked up: one that was freed, or is of another kind, is an error.
 * Functions that answer with a number answer with a negative UnskewStatus on an error, and the text is that of
 * unskew_error(). Any function may be called from any thread. */

#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/**
 * A piece of text.
 */
#define UNSKEW_TEXT 0

/**
 * A control token: the bytes are its name, and no text.
 */
#define UNSKEW_CONTROL 1

/**
 * An id that is no token.
 */
#define UNSKEW_UNUSED 2

/**
 * Why a function has no answer. Functions that answer with a number answer with one of these instead, which are all
 * below zero.
 */
enum UnskewStatus
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * An argument that cannot be: a null pointer, an address that is not aligned, a text that is not UTF-8.
   */
  UNSKEW_STATUS_ARGUMENT = -1,
  /**
   * A handle that is none: it was freed, or is of another kind.
   */
  UNSKEW_STATUS_HANDLE = -2,
  /**
   * A tokenizer that cannot be loaded.
   */
  UNSKEW_STATUS_TOKENIZER = -3,
  /**
   * A constraint that cannot be compiled.
   */
  UNSKEW_STATUS_CONSTRAINT = -4,
  /**
   * The time for compiling was over.
   */
  UNSKEW_STATUS_DEADLINE = -5,
  /**
   * Wrong use of a matcher: a token beyond the vocabulary, a row that is too short, more tokens to take back than
   * there are, captures of an output that is not whole.
   */
  UNSKEW_STATUS_MATCHER = -6,
  /**
   * A fault of this library. Its matcher cannot be used any more.
   */
  UNSKEW_STATUS_PANIC = -7,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum UnskewStatus UnskewStatus;
#else
typedef int32_t UnskewStatus;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * One sequence under a constraint. A handle: threads that use one at the same time wait for each other.
 */
typedef struct UnskewMatcher UnskewMatcher;

/**
 * The tokens of a model, with the constraints that are compiled for them. A handle: threads share it.
 */
typedef struct UnskewTokenizer UnskewTokenizer;

/**
 * A token of a vocabulary.
 */
typedef struct UnskewToken {
  /**
   * The bytes of its text, or its name. May be null where `len` is 0.
   */
  const uint8_t *bytes;
  /**
   * How many bytes.
   */
  size_t len;
  /**
   * `UNSKEW_TEXT`, `UNSKEW_CONTROL` or `UNSKEW_UNUSED`.
   */
  uint32_t kind;
} UnskewToken;

/**
 * A part of an output that the grammar names.
 */
typedef struct UnskewCapture {
  /**
   * Where its name begins among the names.
   */
  size_t name;
  /**
   * How many bytes the name has.
   */
  size_t name_len;
  /**
   * Where its text begins in the output, in bytes. Control tokens have none.
   */
  size_t byte_begin;
  /**
   * Where its text ends.
   */
  size_t byte_end;
  /**
   * The first token that has a byte of the text, by its place in the output.
   */
  size_t token_begin;
  /**
   * The place after the last one.
   */
  size_t token_end;
} UnskewCapture;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of this library, such as "0.1.0".
 */
const char *unskew_version(void);

/**
 * The message of the last error in this thread: one line with the reason and the way out, and an empty one where
 * there was no error. It is valid until the next error of this thread.
 */
const char *unskew_error(void);

/**
 * Where in the text of a constraint the last error of this thread is: a line and a column, or a JSON pointer. Null
 * where it has no place. It is valid until the next error of this thread.
 */
const char *unskew_error_place(void);

/**
 * The tokens of a `tokenizer.json`, whose bytes are given.
 *
 * `vocab_size` is the entries of a row of the model's logits, and 0 as many as the tokenizer has; ids beyond it are
 * unused. `end` are the `end_len` ids that end an output, and with none those of the tokenizer. Constraints are kept
 * within `cache_bytes` bytes (0: 1 GiB).
 *
 * Null on an error.
 *
 * # Safety
 *
 * There are `len` bytes at `json`, and `end_len` ids at `end`.
 */
struct UnskewTokenizer *unskew_tokenizer_from_json(const uint8_t *json,
                                                   size_t len,
                                                   size_t vocab_size,
                                                   const uint32_t *end,
                                                   size_t end_len,
                                                   size_t cache_bytes);

/**
 * The tokens that a table describes: the id of a token is its place there. `end` are the `end_len` ids that end an
 * output, which have to be control tokens. There is no tokenizer then, so that constraints cannot be `canonical`.
 *
 * Null on an error.
 *
 * # Safety
 *
 * There are `count` tokens at `table`, each with its bytes, and `end_len` ids at `end`.
 */
struct UnskewTokenizer *unskew_tokenizer_from_table(const struct UnskewToken *table,
                                                    size_t count,
                                                    const uint32_t *end,
                                                    size_t end_len,
                                                    size_t cache_bytes);

/**
 * Frees a tokenizer. Its matchers stay as they are. Null does nothing. 0, or an `UnskewStatus`.
 */
int64_t unskew_tokenizer_free(struct UnskewTokenizer *tokenizer);

/**
 * How many words of 32 bits a mask has, or an `UnskewStatus`.
 */
int64_t unskew_mask_words(const struct UnskewTokenizer *tokenizer);

/**
 * How many ids there are, or an `UnskewStatus`.
 */
int64_t unskew_vocab_size(const struct UnskewTokenizer *tokenizer);

/**
 * A matcher at the start of an output under the constraint that `spec` describes: `len` bytes of JSON, such as
 * `{"regex": "[0-9]+"}` or `{"json_schema": {...}}`; the README of `unskew-engine` lists the fields.
 *
 * `stop_ids` are the `stop_len` ids that end the output; null: those of the tokenizer. Compiling ends after
 * `deadline_ms` milliseconds (0: never) with `Deadline`. A constraint that was compiled before is kept, and costs a
 * look-up by its text. While a thread compiles a constraint, others that ask for it wait, and other constraints do
 * not.
 *
 * Null on an error; `unskew_error_place` has the place in the text of the constraint.
 *
 * # Safety
 *
 * There are `len` bytes at `spec`, and `stop_len` ids at `stop_ids` if that is not null.
 */
struct UnskewMatcher *unskew_matcher_new(const struct UnskewTokenizer *tokenizer,
                                         const uint8_t *spec,
                                         size_t len,
                                         const uint32_t *stop_ids,
                                         size_t stop_len,
                                         uint64_t deadline_ms);

/**
 * A second matcher at the same place. Neither knows of the other. Null on an error.
 */
struct UnskewMatcher *unskew_matcher_fork(const struct UnskewMatcher *matcher);

/**
 * Frees a matcher. Null does nothing. 0, or an `UnskewStatus`.
 */
int64_t unskew_matcher_free(struct UnskewMatcher *matcher);

/**
 * Writes the mask of the next token into `row`, which has `words` words of 32 bits: at least `unskew_mask_words`,
 * and those beyond are cleared. Bit `i % 32` of word `i / 32`, from the least significant, is that of token `i`, and
 * 1 is allowed. The ids that end the output are in it exactly where it may end; after the end they are all there is.
 *
 * 0, or an `UnskewStatus`; no bit of the row is set then.
 *
 * # Safety
 *
 * There is room for `words` words at `row`, which nobody else uses during the call.
 */
int64_t unskew_matcher_fill(const struct UnskewMatcher *matcher,
                            uint32_t *row,
                            size_t words);

/**
 * Appends a token: 1. Where it is not allowed: 0, and nothing has changed. Or an `UnskewStatus`.
 */
int64_t unskew_matcher_accept(struct UnskewMatcher *matcher, uint32_t token);

/**
 * The length of the longest beginning of `tokens` that is allowed, or an `UnskewStatus`. Nothing changes.
 *
 * # Safety
 *
 * There are `len` ids at `tokens`.
 */
int64_t unskew_matcher_validate(const struct UnskewMatcher *matcher, const uint32_t *tokens, size_t len);

/**
 * Takes back the last `tokens` tokens, the end among them. 0, or an `UnskewStatus`.
 */
int64_t unskew_matcher_rollback(struct UnskewMatcher *matcher, size_t tokens);

/**
 * Goes back to the start. 0, or an `UnskewStatus`.
 */
int64_t unskew_matcher_reset(struct UnskewMatcher *matcher);

/**
 * Writes the tokens that follow in any case, at most `room` of them, and answers with their number, or with an
 * `UnskewStatus`. Each is the only one that is allowed, and the output may not end in front of it. To take them
 * changes no distribution.
 *
 * # Safety
 *
 * There is room for `room` ids at `tokens`, which nobody else uses during the call.
 */
int64_t unskew_matcher_forced(const struct UnskewMatcher *matcher,
                              uint32_t *tokens,
                              size_t room);

/**
 * 1 where the output may end here, and after the end; else 0. Or an `UnskewStatus`.
 */
int64_t unskew_matcher_is_accepting(const struct UnskewMatcher *matcher);

/**
 * 1 where an id was accepted that ends the output; else 0. Or an `UnskewStatus`.
 */
int64_t unskew_matcher_is_terminated(const struct UnskewMatcher *matcher);

/**
 * The parts of the whole output that the grammar names (`name[capture]`), by where they begin, and the outer ones
 * first. Answers with their number, or with an `UnskewStatus`: also where the output is not whole.
 *
 * The first `room` of them are written to `captures`. Their names are written to `names`, one after the other
 * without zeros, as far as `names_room` bytes go: the place and length of a name are right in any case.
 *
 * # Safety
 *
 * There is room for `room` captures at `captures` and for `names_room` bytes at `names`, which nobody else uses
 * during the call.
 */
int64_t unskew_matcher_captures(const struct UnskewMatcher *matcher,
                                struct UnskewCapture *captures,
                                size_t room,
                                uint8_t *names,
                                size_t names_room);

/**
 * The temperature that the grammar asks for at the next token, written to `temperature`: 1. Where it asks for none:
 * 0, and nothing is written. Or an `UnskewStatus`.
 *
 * # Safety
 *
 * There is room for a number at `temperature`, which nobody else uses during the call.
 */
int64_t unskew_matcher_temperature(const struct UnskewMatcher *matcher,
                                   double *temperature);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus
