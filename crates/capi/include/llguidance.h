/* The functions that llama.cpp calls of llguidance, as unskew has them. Made from crates/capi/src/llg.rs: change that file. */

#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/**
 * A sequence under a constraint. A handle.
 */
typedef struct LlgMatcher LlgMatcher;

/**
 * The tokens of a model. A handle.
 */
typedef struct LlgTokenizer LlgTokenizer;

/**
 * Limits of llguidance's engine. Here each has to be zero.
 */
typedef struct LlgParserLimits {
  /**
   * Zero.
   */
  size_t max_items_in_row;
  /**
   * Zero.
   */
  uint64_t initial_lexer_fuel;
  /**
   * Zero.
   */
  uint64_t step_lexer_fuel;
  /**
   * Zero.
   */
  size_t step_max_items;
  /**
   * Zero.
   */
  size_t max_lexer_states;
  /**
   * Zero.
   */
  size_t max_grammar_size;
  /**
   * Not read.
   */
  bool precompute_large_lexemes;
  /**
   * Not read.
   */
  bool verbose_errors;
} LlgParserLimits;

/**
 * How a matcher is made.
 */
typedef struct LlgConstraintInit {
  /**
   * The tokens.
   */
  const struct LlgTokenizer *tokenizer;
  /**
   * Nothing is logged here.
   */
  uint32_t log_buffer_level;
  /**
   * Nothing is logged here.
   */
  uint32_t log_stderr_level;
  /**
   * Not read.
   */
  bool ff_tokens_ok;
  /**
   * Not read.
   */
  bool backtrack_ok;
  /**
   * All zero.
   */
  struct LlgParserLimits limits;
} LlgConstraintInit;

/**
 * Writes the tokens of a text, no more than there is room for, and answers with their number. It is not called here.
 */
typedef size_t (*LlgTokenizeFn)(const void *user_data,
                                const uint8_t *bytes,
                                size_t bytes_len,
                                uint32_t *output_tokens,
                                size_t output_tokens_len);

/**
 * The description of the tokens of a model.
 */
typedef struct LlgTokenizerInit {
  /**
   * How many ids there are.
   */
  uint32_t vocab_size;
  /**
   * The id that ends an output.
   */
  uint32_t tok_eos;
  /**
   * The length of each token in bytes.
   */
  const uint32_t *token_lens;
  /**
   * The bytes of all tokens, one after the other. A control token has the byte 0xFF in front of its name; an
   * unused id has none.
   */
  const uint8_t *token_bytes;
  /**
   * In place of these two: the text of a `tokenizer.json`.
   */
  const char *tokenizer_json;
  /**
   * Not read.
   */
  bool tokenize_assumes_string;
  /**
   * Not called.
   */
  LlgTokenizeFn tokenize_fn;
  /**
   * Not read.
   */
  bool use_approximate_greedy_tokenize_fn;
  /**
   * Not read.
   */
  const void *tokenize_user_data;
  /**
   * Not read.
   */
  const char *const *slices;
} LlgTokenizerInit;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Writes the defaults for a tokenizer.
 *
 * # Safety
 *
 * There is room for an `LlgConstraintInit` at `init`.
 */
void llg_constraint_init_set_defaults(struct LlgConstraintInit *init, const struct LlgTokenizer *tokenizer);

/**
 * The tokens of a model. Null on an error, whose text is written to `error_string`, which has room for
 * `error_string_len` bytes.
 *
 * A vocabulary of 4,096 tokens or more in which no token begins with a space and a letter is refused: llama.cpp
 * takes the leading space from each token of a SentencePiece model that puts one in front of a text (Llama 2), so
 * that these are not the tokens' bytes.
 *
 * # Safety
 *
 * `init` has the addresses of arrays and texts as it says, and there is room at `error_string`, if it is not null.
 */
struct LlgTokenizer *llg_new_tokenizer(const struct LlgTokenizerInit *init,
                                       char *error_string,
                                       size_t error_string_len);

/**
 * A second handle to the same tokens. Null where `tokenizer` is none.
 */
struct LlgTokenizer *llg_clone_tokenizer(const struct LlgTokenizer *tokenizer);

/**
 * Frees a handle of a tokenizer. Matchers stay as they are.
 */
void llg_free_tokenizer(struct LlgTokenizer *tokenizer);

/**
 * A matcher for the constraint `data` of the kind `constraint_type`: `regex`, `json` or `json_schema`,
 * `json_object`, `lark`. An error stays in it.
 *
 * # Safety
 *
 * `init` is an `LlgConstraintInit`, and both texts end with a zero.
 */
struct LlgMatcher *llg_new_matcher(const struct LlgConstraintInit *init,
                                   const char *constraint_type,
                                   const char *data);

/**
 * A second matcher at the same place.
 */
struct LlgMatcher *llg_clone_matcher(const struct LlgMatcher *matcher);

/**
 * Frees a matcher.
 */
void llg_free_matcher(struct LlgMatcher *matcher);

/**
 * The text of the error, or null. It stays until the matcher is freed.
 */
const char *llg_matcher_get_error(struct LlgMatcher *matcher);

/**
 * Makes the mask of the next token. 0, or -1 on an error.
 */
int32_t llg_matcher_compute_mask(struct LlgMatcher *matcher);

/**
 * The mask that was made at the present place, or null. It is valid until the next call with this matcher.
 */
const uint32_t *llg_matcher_get_mask(struct LlgMatcher *matcher);

/**
 * The bytes of a mask. 0 for a matcher with an error from the start.
 */
size_t llg_matcher_get_mask_byte_size(const struct LlgMatcher *matcher);

/**
 * Appends a token. 0, or -1 on an error: where it is not allowed, too.
 */
int32_t llg_matcher_consume_token(struct LlgMatcher *matcher, uint32_t token);

/**
 * Goes back to the start. 0, or -1 on an error.
 */
int32_t llg_matcher_reset(struct LlgMatcher *matcher);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus
