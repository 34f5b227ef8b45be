// The functions of llama.cpp that its sampler for llguidance and the tests of that sampler call, over a vocabulary in a file
// (see `table_file` in `tests/common`). A text becomes the longest tokens that it begins with; masks do not depend on it.

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "common.h"
#include "llama.h"
#include "log.h"

struct llama_vocab {
    std::vector<std::string> tokens;
    std::unordered_map<std::string, llama_token> ids;
    llama_token end = 0;
    size_t longest = 0;
};

static llama_vocab the_vocab;
static std::string last_text;
static int checks = 0;

void unskew_checked(bool holds, const char * text) {
    checks++;
    if (holds) return;
    std::string shown;
    for (char c : last_text) shown += c == '\n' ? std::string("\\n") : std::string(1, c);
    printf("different: %s: %s\n", text, shown.c_str());
}

// Tokens.

static bool is_control(const std::string & token) { return !token.empty() && token[0] == '\xff'; }

static std::vector<llama_token> tokenized(const std::string & text) {
    std::vector<llama_token> out;
    for (size_t at = 0; at < text.size();) {
        size_t len = std::min(the_vocab.longest, text.size() - at);
        while (len > 0 && the_vocab.ids.count(text.substr(at, len)) == 0) len--;
        if (len == 0) {
            fprintf(stderr, "no token for byte %zu of %s\n", at, text.c_str());
            exit(1);
        }
        out.push_back(the_vocab.ids.at(text.substr(at, len)));
        at += len;
    }
    return out;
}

std::vector<llama_token> common_tokenize(const llama_vocab *, const std::string & text, bool, bool) {
    last_text = text;
    return tokenized(text);
}

int32_t llama_tokenize(const llama_vocab *, const char * text, int32_t len, llama_token * tokens, int32_t room, bool, bool) {
    auto made = tokenized(std::string(text, len));
    if ((int32_t) made.size() > room) return -(int32_t) made.size();
    std::copy(made.begin(), made.end(), tokens);
    return (int32_t) made.size();
}

int32_t llama_detokenize(const llama_vocab * vocab, const llama_token * tokens, int32_t count, char * text, int32_t room, bool, bool special) {
    std::string out;
    for (int32_t i = 0; i < count; i++) {
        const std::string & token = vocab->tokens[tokens[i]];
        if (!is_control(token)) out += token;
        else if (special) out += token.substr(1);
    }
    if ((int32_t) out.size() > room) return -(int32_t) out.size();
    memcpy(text, out.data(), out.size());
    return (int32_t) out.size();
}

llama_token llama_vocab_eot(const llama_vocab *) { return LLAMA_TOKEN_NULL; }
llama_token llama_vocab_eos(const llama_vocab * vocab) { return vocab->end; }
int32_t llama_vocab_n_tokens(const llama_vocab * vocab) { return (int32_t) vocab->tokens.size(); }

// Models: the vocabulary alone.

void llama_backend_init(void) {}
llama_model_params llama_model_default_params(void) { return {}; }
llama_context_params llama_context_default_params(void) { return {}; }
llama_context * llama_init_from_model(llama_model * model, llama_context_params) { return (llama_context *) model; }
const llama_vocab * llama_model_get_vocab(const llama_model *) { return &the_vocab; }
void llama_free(llama_context *) {}
void llama_model_free(llama_model *) { printf("checks: %d\n", checks); }

llama_model * llama_model_load_from_file(const char * path, llama_model_params) {
    FILE * file = fopen(path, "rb");
    uint32_t head[2];
    if (!file || fread(head, sizeof head[0], 2, file) != 2) return nullptr;
    std::vector<uint32_t> lens(head[0]);
    if (fread(lens.data(), sizeof lens[0], lens.size(), file) != lens.size()) return nullptr;
    for (uint32_t len : lens) {
        std::string token(len, 0);
        if (fread(&token[0], 1, len, file) != len) return nullptr;
        if (len != 0 && !is_control(token)) the_vocab.ids.emplace(token, (llama_token) the_vocab.tokens.size());
        the_vocab.longest = std::max(the_vocab.longest, token.size());
        the_vocab.tokens.push_back(token);
    }
    fclose(file);
    the_vocab.end = (llama_token) head[1];
    return (llama_model *) &the_vocab;
}

// Samplers.

llama_sampler * llama_sampler_init(llama_sampler_i * iface, llama_sampler_context_t ctx) { return new llama_sampler{ iface, ctx }; }
void llama_sampler_accept(llama_sampler * smpl, llama_token token) { if (smpl->iface->accept) smpl->iface->accept(smpl, token); }
void llama_sampler_apply(llama_sampler * smpl, llama_token_data_array * array) { smpl->iface->apply(smpl, array); }
void llama_sampler_reset(llama_sampler * smpl) { if (smpl->iface->reset) smpl->iface->reset(smpl); }

void llama_sampler_free(llama_sampler * smpl) {
    if (smpl->iface->free) smpl->iface->free(smpl);
    delete smpl;
}

// A chain, and a sampler that takes the likeliest token.
using chain = std::vector<llama_sampler *>;

static chain & of(llama_sampler * smpl) { return *(chain *) smpl->ctx; }

static llama_sampler_i make_chain_i() {
    llama_sampler_i made = {};
    made.accept = [](llama_sampler * smpl, llama_token token) { for (auto * part : of(smpl)) llama_sampler_accept(part, token); };
    made.apply = [](llama_sampler * smpl, llama_token_data_array * array) { for (auto * part : of(smpl)) llama_sampler_apply(part, array); };
    return made;
}

static llama_sampler_i make_likeliest_i() {
    llama_sampler_i made = {};
    made.apply = [](llama_sampler *, llama_token_data_array * array) {
        array->selected = 0;
        for (size_t i = 1; i < array->size; i++) {
            if (array->data[i].logit > array->data[array->selected].logit) array->selected = (int64_t) i;
        }
    };
    return made;
}

llama_sampler_chain_params llama_sampler_chain_default_params(void) { return {}; }

llama_sampler * llama_sampler_chain_init(llama_sampler_chain_params) {
    static llama_sampler_i iface = make_chain_i();
    return llama_sampler_init(&iface, new chain);
}

void llama_sampler_chain_add(llama_sampler * smpl, llama_sampler * part) { of(smpl).push_back(part); }

llama_sampler * llama_sampler_init_dist(uint32_t) {
    static llama_sampler_i iface = make_likeliest_i();
    return llama_sampler_init(&iface, nullptr);
}

// The log.

common_log * common_log_main() { return nullptr; }
int common_log_get_verbosity_thold(void) { return LOG_LEVEL_WARN; }

void common_log_add(common_log *, ggml_log_level, const char * format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("log: ");
    vprintf(format, arguments);
    va_end(arguments);
}

void ggml_abort(const char * file, int line, const char * format, ...) {
    fprintf(stderr, "%s:%d: %s\n", file, line, format);
    exit(1);
}
