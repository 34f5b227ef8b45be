/* Reads a script and writes the masks of both APIs: masks TOKENIZER_JSON TOKENS SCRIPT.
 *
 * A line of the script is `spec JSON` (a matcher of unskew.h), `llg KIND DATA` (one of llguidance.h, with \n for a line break),
 * `masks`, or `accept ID`. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llguidance.h"
#include "unskew.h"

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static unsigned char *whole(const char *path, size_t *len) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path, "cannot be opened");
    fseek(file, 0, SEEK_END);
    *len = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*len + 1);
    if (!bytes || fread(bytes, 1, *len, file) != *len) fail(path, "cannot be read");
    bytes[*len] = 0;
    fclose(file);
    return bytes;
}

static void print(const uint32_t *words, size_t count) {
    for (size_t i = 0; i < count; i++) printf("%08x", (unsigned)words[i]);
    printf("\n");
}

static LlgTokenizer *described(const unsigned char *file) {
    uint32_t head[2];
    memcpy(head, file, sizeof head);
    uint32_t *lens = malloc(head[0] * sizeof *lens);
    if (!lens) fail("lengths", "no memory");
    memcpy(lens, file + sizeof head, head[0] * sizeof *lens);
    LlgTokenizerInit init = {0};
    init.vocab_size = head[0];
    init.tok_eos = head[1];
    init.token_lens = lens;
    init.token_bytes = file + sizeof head + head[0] * sizeof *lens;
    char error[256];
    LlgTokenizer *tokenizer = llg_new_tokenizer(&init, error, sizeof error);
    if (!tokenizer) fail("llg_new_tokenizer", error);
    free(lens);
    return tokenizer;
}

int main(int argc, char **argv) {
    if (argc != 4) fail("masks", "TOKENIZER_JSON TOKENS SCRIPT");
    size_t len;
    unsigned char *json = whole(argv[1], &len);
    UnskewTokenizer *tokenizer = unskew_tokenizer_from_json(json, len, 0, NULL, 0, 0);
    if (!tokenizer) fail("unskew_tokenizer_from_json", unskew_error());
    free(json);
    size_t words = (size_t)unskew_mask_words(tokenizer);
    uint32_t *row = malloc(words * sizeof *row);
    unsigned char *tokens = whole(argv[2], &len);
    LlgTokenizer *llg_tokenizer = described(tokens);
    free(tokens);

    UnskewMatcher *matcher = NULL;
    LlgMatcher *llg = NULL;
    char *script = (char *)whole(argv[3], &len);
    for (char *line = strtok(script, "\n"); line; line = strtok(NULL, "\n")) {
        if (strncmp(line, "spec ", 5) == 0) {
            unskew_matcher_free(matcher);
            llg_free_matcher(llg);
            llg = NULL;
            matcher = unskew_matcher_new(tokenizer, (uint8_t *)line + 5, strlen(line + 5), NULL, 0, 60000);
            if (!matcher) fail(line, unskew_error());
        } else if (strncmp(line, "llg ", 4) == 0) {
            char *kind = line + 4, *data = strchr(kind, ' ');
            *data++ = 0;
            for (char *at = data; (at = strstr(at, "\\n")); ) {
                at[0] = ' ';
                at[1] = '\n';
            }
            LlgConstraintInit init;
            llg_constraint_init_set_defaults(&init, llg_tokenizer);
            LlgMatcher *made = llg_new_matcher(&init, kind, data);
            if (llg_matcher_get_error(made)) fail(data, llg_matcher_get_error(made));
            /* As llama.cpp does it. */
            llg = llg_clone_matcher(made);
            llg_free_matcher(made);
        } else if (strcmp(line, "masks") == 0) {
            if (unskew_matcher_fill(matcher, row, words) != 0) fail("fill", unskew_error());
            print(row, words);
            if (llg) {
                if (llg_matcher_get_mask_byte_size(llg) != words * 4) fail("llguidance", "another length");
                if (llg_matcher_compute_mask(llg) != 0) fail("mask", llg_matcher_get_error(llg));
                print(llg_matcher_get_mask(llg), words);
            }
        } else if (strncmp(line, "accept ", 7) == 0) {
            uint32_t token = (uint32_t)strtoul(line + 7, NULL, 10);
            if (unskew_matcher_accept(matcher, token) != 1) fail(line, "is not accepted");
            if (llg && llg_matcher_consume_token(llg, token) != 0) fail(line, llg_matcher_get_error(llg));
        } else {
            fail("no such line", line);
        }
    }
    unskew_matcher_free(matcher);
    llg_free_matcher(llg);
    unskew_tokenizer_free(tokenizer);
    llg_free_tokenizer(llg_tokenizer);
    free(row);
    free(script);
    return 0;
}
