/* Wrong use of both APIs: each is an error with a message, and nothing crashes. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llguidance.h"
#include "unskew.h"

static int line_of_failure = 0;

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #what, unskew_error()); line_of_failure = __LINE__; } } while (0)

static int says(const char *part) { return strstr(unskew_error(), part) != NULL; }

static UnskewMatcher *of(const UnskewTokenizer *tokenizer, const char *spec) {
    return unskew_matcher_new(tokenizer, (const uint8_t *)spec, strlen(spec), NULL, 0, 0);
}

static void own(const uint8_t *json, size_t len) {
    uint32_t row[4096];
    uint32_t far = 4000000000u;
    int elsewhere = 0;

    /* Tokenizers. */
    CHECK(!unskew_tokenizer_from_json(NULL, 5, 0, NULL, 0, 0) && says("`json` is null"));
    CHECK(!unskew_tokenizer_from_json((const uint8_t *)"{}", 2, 0, NULL, 0, 0));
    CHECK(!unskew_tokenizer_from_json(json, len, 0, &far, 1, 0));
    CHECK(!unskew_tokenizer_from_json(json, (size_t)-1, 0, NULL, 0, 0) && says("`json` cannot have"));
    UnskewToken wrong[] = {{(const uint8_t *)"a", 1, UNSKEW_TEXT}, {NULL, 0, 7}};
    CHECK(!unskew_tokenizer_from_table(wrong, 2, NULL, 0, 0) && says("token 1: there is no kind 7"));
    wrong[1].kind = UNSKEW_TEXT;
    wrong[1].len = 3;
    CHECK(!unskew_tokenizer_from_table(wrong, 2, NULL, 0, 0) && says("token 1"));
    CHECK(unskew_mask_words(NULL) == UNSKEW_STATUS_HANDLE && says("is null"));
    CHECK(unskew_mask_words((UnskewTokenizer *)&elsewhere) == UNSKEW_STATUS_HANDLE && says("is none"));

    /* A table of three tokens, of which the last ends an output. */
    UnskewToken table[] = {{(const uint8_t *)"a", 1, UNSKEW_TEXT}, {(const uint8_t *)"b", 1, UNSKEW_TEXT},
                           {(const uint8_t *)"<end>", 5, UNSKEW_CONTROL}, {NULL, 0, UNSKEW_UNUSED}};
    uint32_t end = 2, text = 0;
    CHECK(!unskew_tokenizer_from_table(table, 4, &text, 1, 0) && says("control token"));
    UnskewTokenizer *small = unskew_tokenizer_from_table(table, 4, &end, 1, 0);
    CHECK(small && unskew_vocab_size(small) == 4 && unskew_mask_words(small) == 1);
    UnskewMatcher *matcher = of(small, "{\"regex\": \"ab?\"}");
    CHECK(unskew_matcher_fill(matcher, row, 1) == 0 && row[0] == 1);
    CHECK(unskew_matcher_accept(matcher, 0) == 1 && unskew_matcher_fill(matcher, row, 4096) == 0 && row[0] == 6);
    CHECK(unskew_matcher_accept(matcher, 0) == 0 && unskew_matcher_accept(matcher, 2) == 1);
    CHECK(unskew_matcher_is_terminated(matcher) == 1 && unskew_matcher_accept(matcher, 1) == 0);
    CHECK(unskew_matcher_fill(matcher, row, 1) == 0 && row[0] == 4);
    CHECK(!of(small, "{\"regex\": \"a\", \"canonical\": true}") && says("tokenizer"));

    /* Matchers. */
    CHECK(unskew_matcher_accept(matcher, far) == UNSKEW_STATUS_MATCHER && says("beyond the vocabulary"));
    CHECK(unskew_matcher_rollback(matcher, 9) == UNSKEW_STATUS_MATCHER && says("9 tokens"));
    row[0] = 1;
    CHECK(unskew_matcher_fill(matcher, row, 0) == UNSKEW_STATUS_MATCHER && says("too short"));
    CHECK(unskew_matcher_fill(matcher, NULL, 1) == UNSKEW_STATUS_ARGUMENT && says("`row` is null"));
    CHECK(unskew_matcher_fill(matcher, (uint32_t *)((char *)row + 1), 1) == UNSKEW_STATUS_ARGUMENT && says("aligned"));
    CHECK(unskew_matcher_validate(matcher, NULL, 2) == UNSKEW_STATUS_ARGUMENT);
    CHECK(unskew_matcher_validate(matcher, NULL, 0) == 0);
    CHECK(unskew_matcher_forced(matcher, NULL, 4) == UNSKEW_STATUS_ARGUMENT);
    CHECK(unskew_matcher_accept((UnskewMatcher *)small, 0) == UNSKEW_STATUS_HANDLE && says("another kind"));
    CHECK(!unskew_matcher_fork(NULL) && says("matcher is null"));

    /* Captures of a whole output, and their names as far as there is room. */
    UnskewMatcher *named = of(small, "{\"grammar\": \"start: (a b)~2\\na[capture]: \\\"a\\\"\\nb[capture=\\\"second\\\", "
                                     "temperature=0.5]: \\\"b\\\"\", \"grammar_format\": \"lark\"}");
    UnskewCapture captures[4];
    char names[20] = "....................";
    double temperature = 7;
    CHECK(named && unskew_matcher_captures(named, captures, 4, NULL, 0) == UNSKEW_STATUS_MATCHER && says("no whole output"));
    CHECK(unskew_matcher_temperature(named, &temperature) == 0 && temperature == 7);
    for (uint32_t token = 0; token < 4; ++token) {
        CHECK(unskew_matcher_accept(named, token % 2) == 1);
        CHECK(token != 0 || (unskew_matcher_temperature(named, &temperature) == 1 && temperature == 0.5));
    }
    CHECK(unskew_matcher_captures(named, NULL, 0, NULL, 0) == 4);
    CHECK(unskew_matcher_captures(named, captures, 3, (uint8_t *)names, 10) == 4);
    CHECK(captures[0].name == 0 && captures[0].name_len == 1 && captures[1].name == 1 && captures[1].name_len == 6);
    CHECK(!memcmp(names, "asecondase..", 12) && captures[2].name == 7);
    CHECK(captures[1].byte_begin == 1 && captures[1].byte_end == 2 && captures[2].token_begin == 2 && captures[2].token_end == 3);
    CHECK(unskew_matcher_captures(named, NULL, 1, NULL, 0) == UNSKEW_STATUS_ARGUMENT && says("`captures` is null"));
    CHECK(unskew_matcher_rollback(named, 3) == 0 && unskew_matcher_temperature(named, NULL) == UNSKEW_STATUS_ARGUMENT);
    CHECK(unskew_matcher_free(named) == 0);

    /* Freed handles. */
    UnskewMatcher *fork = unskew_matcher_fork(matcher);
    CHECK(unskew_matcher_free(matcher) == 0 && unskew_matcher_free(NULL) == 0);
    CHECK(unskew_matcher_free(matcher) == UNSKEW_STATUS_HANDLE && says("it was freed"));
    CHECK(unskew_matcher_accept(matcher, 0) == UNSKEW_STATUS_HANDLE);
    CHECK(unskew_tokenizer_free(small) == 0 && unskew_tokenizer_free(small) == UNSKEW_STATUS_HANDLE);
    CHECK(!of(small, "{\"regex\": \"a\"}"));
    CHECK(unskew_matcher_rollback(fork, 2) == 0 && unskew_matcher_accept(fork, 0) == 1);
    CHECK(unskew_matcher_free(fork) == 0);

    /* Constraints, with their places. */
    UnskewTokenizer *tokenizer = unskew_tokenizer_from_json(json, len, 0, NULL, 0, 1 << 20);
    CHECK(!of(tokenizer, "{\"regex\": \"a(b\"}") && unskew_error_place() && strstr(unskew_error_place(), "column 2"));
    CHECK(!of(tokenizer, "{\"json_schema\": {\"properties\": {\"x\": {\"minimum\": \"no\"}}}}") && strstr(unskew_error_place(), "/properties/x"));
    CHECK(!of(tokenizer, "{\"grammar\": \"root ::= other\", \"grammar_format\": \"gbnf\"}") && strstr(unskew_error_place(), "line 1"));
    CHECK(!of(tokenizer, "{\"regexp\": \"a\"}") && says("regexp") && !unskew_error_place());
    CHECK(!of(tokenizer, "") && says("JSON"));
    CHECK(!of(tokenizer, "\xff\xfe") && says("`spec` is not UTF-8 at byte 0"));
    CHECK(!unskew_matcher_new(tokenizer, (const uint8_t *)"{}", 2, &far, 1, 0) && says("beyond the vocabulary"));
    const char *large = "{\"regex\": \"(((a{0,99}b){0,99}c){0,99}d){0,99}\"}";
    CHECK(!unskew_matcher_new(tokenizer, (const uint8_t *)large, strlen(large), NULL, 0, 1));
    CHECK(strlen(unskew_version()) > 4);
    CHECK(unskew_tokenizer_free(tokenizer) == 0);
}

static void llg(const char *json) {
    char error[64] = "x";
    LlgTokenizerInit init = {0};
    CHECK(!llg_new_tokenizer(NULL, error, sizeof error) && strstr(error, "null"));
    CHECK(!llg_new_tokenizer(&init, error, sizeof error) && strstr(error, "tok_eos"));
    CHECK(!llg_new_tokenizer(&init, error, 4) && strlen(error) == 3);
    CHECK(!llg_new_tokenizer(&init, NULL, 0));
    init.tokenizer_json = json;
    LlgTokenizer *tokenizer = llg_new_tokenizer(&init, error, sizeof error);
    CHECK(tokenizer);
    LlgTokenizer *other = llg_clone_tokenizer(tokenizer);
    llg_free_tokenizer(tokenizer);
    llg_free_tokenizer(tokenizer);
    CHECK(!llg_clone_tokenizer(tokenizer) && !llg_clone_tokenizer(NULL));

    LlgConstraintInit with;
    llg_constraint_init_set_defaults(&with, other);
    const char *refused[][2] = {{"regex", "("}, {"lark", "start: missing"}, {"llguidance", "{}"}, {"other", "a"}, {"json_schema", "{"},
                                {"lark", "start: \"a\" %json 5"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        LlgMatcher *matcher = llg_new_matcher(&with, refused[i][0], refused[i][1]);
        const char *why = llg_matcher_get_error(matcher);
        CHECK(matcher && why && strlen(why) > 10 && why == llg_matcher_get_error(matcher));
        CHECK(llg_matcher_compute_mask(matcher) == -1 && !llg_matcher_get_mask(matcher));
        CHECK(llg_matcher_consume_token(matcher, 0) == -1 && llg_matcher_reset(matcher) == -1);
        LlgMatcher *clone = llg_clone_matcher(matcher);
        CHECK(strcmp(llg_matcher_get_error(clone), why) == 0);
        llg_free_matcher(clone);
        llg_free_matcher(matcher);
        CHECK(llg_matcher_get_error(matcher) && llg_matcher_compute_mask(matcher) == -1);
        llg_free_matcher(matcher);
    }
    CHECK(llg_matcher_get_error(llg_new_matcher(&with, NULL, "a")) && llg_matcher_get_error(llg_new_matcher(NULL, "regex", "a")));
    CHECK(llg_matcher_get_error(NULL) && llg_matcher_get_mask_byte_size(NULL) == 0 && !llg_clone_matcher(NULL));

    /* A token that is not allowed: the error stays. */
    LlgMatcher *matcher = llg_new_matcher(&with, "regex", "[0-9]");
    CHECK(!llg_matcher_get_error(matcher) && !llg_matcher_get_mask(matcher) && llg_matcher_compute_mask(matcher) == 0);
    const uint32_t *mask = llg_matcher_get_mask(matcher);
    uint32_t token = 0;
    while (mask[token / 32] >> (token % 32) & 1) token++;
    CHECK(llg_matcher_consume_token(matcher, token) == -1 && strstr(llg_matcher_get_error(matcher), "not allowed"));
    CHECK(llg_matcher_compute_mask(matcher) == -1);
    llg_free_matcher(matcher);

    with.limits.step_max_items = 5;
    matcher = llg_new_matcher(&with, "regex", "a");
    CHECK(strstr(llg_matcher_get_error(matcher), "step_max_items"));
    llg_free_matcher(matcher);
    llg_free_tokenizer(other);
    llg_free_tokenizer(NULL);
    llg_free_matcher(NULL);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    FILE *file = fopen(argv[1], "rb");
    if (!file) return 2;
    fseek(file, 0, SEEK_END);
    size_t len = (size_t)ftell(file);
    rewind(file);
    char *json = malloc(len + 1);
    if (!json || fread(json, 1, len, file) != len) return 2;
    json[len] = 0;
    fclose(file);
    own((const uint8_t *)json, len);
    llg(json);
    free(json);
    if (line_of_failure) return 1;
    puts("all is as it should be");
    return 0;
}
