//! The split patterns that GGUF files only name (`tokenizer.ggml.pre`).
//!
//! A GGUF file of a byte-pair model has its tokens and merges, and of its pre-tokenizer a name, which the program
//! that converts models gives to a `tokenizer.json` that it recognises. The patterns here are those of the
//! `tokenizer.json` of the models after which llama.cpp calls them. llama.cpp itself has some of them in a simpler
//! form, which splits a few texts outside ASCII otherwise.
//!
//! A name that is not listed is no guess: the vocabulary loads, and neither texts are encoded nor sequences called
//! canonical.

use serde_json::{Value, json};

/// The pre-tokenizer of a name.
pub(super) struct PreTokenizer {
    /// As in a `tokenizer.json`.
    pub(super) steps: Value,
    /// Whether a piece that is a token is looked up before any merge.
    pub(super) whole_pieces: bool,
    /// Whether a text begins with the token for that, where the file does not say.
    pub(super) begins: bool,
}

const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|",
    r"\s+(?!\S)|\s+",
);
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|",
    r"\s+(?!\S)|\s+",
);
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|",
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
);
const O200K: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const DEEPSEEK3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"##,
    r##"\s*[\r\n]+|\s+(?!\S)|\s+"##,
);
const SEED_CODER: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const MINICPM5: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|",
    r"\s+",
);

/// The pre-tokenizer that a file calls `name`, if it is one of these.
pub(super) fn named(name: &str) -> Option<PreTokenizer> {
    let (patterns, gpt2): (&[&str], bool) = match name {
        "gpt-2" | "phi-2" | "gigachat" | "a.x-4.0" | "mellum" | "exaone4" | "mpt" | "olmo" | "jais"
        | "trillion" | "granite-docling" => (&[], true),
        "starcoder" | "refact" | "command-r" | "smollm" | "codeshell" | "exaone" | "minerva-7b"
        | "mellum2" => (&[r"\p{N}"], true),
        "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0" | "lfm2"
        | "dbrx" | "smaug-bpe" | "chatglm-bpe" | "glm4" | "glm5" => (&[LLAMA3], false),
        "qwen2" | "deepseek-r1-qwen" | "kormo" | "megrez" | "stablelm2" | "hunyuan" | "solar-open"
        | "grok-2" => (&[QWEN2], false),
        "qwen35" => (&[QWEN35], false),
        "tekken" => (&[TEKKEN], false),
        "gpt-4o" | "llama4" | "kanana2" | "talkie" | "minimax-m2" => (&[O200K], false),
        "deepseek-v3" | "hunyuan-dense" | "joyai-llm" => {
            (&[r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3], false)
        }
        "seed-coder" => (&[SEED_CODER], false),
        "minicpm5" => (&[r"\p{N}{1,3}", MINICPM5], false),
        _ => return None,
    };
    let split = |pattern: &&str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let mut steps: Vec<Value> = patterns.iter().map(split).collect();
    steps.push(json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": gpt2}));
    let of_llama3 = patterns == [LLAMA3];
    Some(PreTokenizer {
        steps: json!({"type": "Sequence", "pretokenizers": steps}),
        whole_pieces: match name {
            "dbrx" | "smaug-bpe" | "chatglm-bpe" => false,
            "tekken" | "minicpm5" => true,
            _ => of_llama3,
        },
        begins: match name {
            "dbrx" | "smaug-bpe" | "chatglm-bpe" | "glm4" | "glm5" => false,
            "tekken" => true,
            _ => of_llama3,
        },
    })
}
