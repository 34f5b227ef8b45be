//! Published tokenizers: their steps, options and added tokens, from their public configurations, around small
//! models.

use serde_json::{Value, json};

use super::{
    charsmap,
    model::{self, Size},
    plan::{Added, Plan, Spelling},
    steps::*,
};
use crate::common::Random;

pub(crate) type Builder = fn(&mut Random) -> Plan;

/// The pipelines by name.
pub(crate) const ALL: [(&str, Builder); 17] = [
    ("gemma", gemma),
    ("phi3", phi3),
    ("llama2", llama2),
    ("falcon", falcon),
    ("command_r", command_r),
    ("tekken", tekken),
    ("qwen35", qwen35),
    ("o200k", o200k),
    ("neox", neox),
    ("codegen", codegen),
    ("deepseek", deepseek),
    ("deepseek_v3", deepseek_v3),
    ("bloom", bloom),
    ("starcoder", starcoder),
    ("phi4", phi4),
    ("llama3", llama3),
    ("mistral", mistral),
];

fn size(random: &mut Random, all_bytes: bool) -> Size {
    Size { characters: 4 + random.below(10), merges: random.below(50), all_bytes }
}

/// A byte-level model after `splits`. Most published models have all bytes; models with fewer bytes reveal more.
fn bytes(random: &mut Random, normalizers: Vec<Value>, splits: Vec<Value>, added: Vec<Added>) -> Plan {
    let mut plan = Plan::new(Spelling::Bytes);
    let all_bytes = random.below(3) == 0;
    let size = size(random, all_bytes);
    let characters = model::characters(random, size.characters);
    model::fill(random, &mut plan, &characters, size, &[]);
    plan.normalizers = normalizers;
    plan.splits = splits;
    plan.decoders = vec![byte_level(true, true)];
    plan.added = added;
    plan
}

/// A SentencePiece style model with byte fallback.
fn pieces(random: &mut Random, first: &[&str], decoders: Vec<Value>) -> Plan {
    let mut plan = Plan::new(Spelling::Mark('▁'));
    let size = size(random, false);
    let characters = model::characters(random, size.characters);
    let fallback: Vec<String> = (0..=255u8).map(|byte| format!("<0x{byte:02X}>")).collect();
    let first: Vec<&str> = first.iter().copied().chain(fallback.iter().map(String::as_str)).collect();
    model::fill(random, &mut plan, &characters, size, &first);
    plan.decoders = decoders;
    for (name, value) in
        [("byte_fallback", json!(true)), ("fuse_unk", json!(true)), ("unk_token", json!("<unk>"))]
    {
        plan.options.insert(name.to_owned(), value);
    }
    plan
}

fn gemma(random: &mut Random) -> Plan {
    let mut plan = pieces(random, &["<pad>", "<eos>", "<bos>", "<unk>"], mark_decoders(false));
    plan.normalizers = vec![replace(" ", "▁")];
    plan.splits = vec![split_at(" ", "MergedWithPrevious", false)];
    plan.added = ["<pad>", "<eos>", "<bos>", "<unk>"].map(Added::special).to_vec();
    plan.added.push(Added::text("<unused0>", false));
    if random.below(2) > 0 {
        plan.added.extend((1..4).map(|count| Added::text(&"\n".repeat(count), false)));
    }
    if random.below(2) > 0 {
        plan.added.extend((2..5).map(|count| Added::text(&"▁".repeat(count), false)));
    }
    plan.added.push(Added::text("<table>", false));
    plan
}

fn llama2(random: &mut Random) -> Plan {
    let mut plan = pieces(random, &["<unk>", "<s>", "</s>"], mark_decoders(true));
    plan.normalizers = vec![prepend("▁"), replace(" ", "▁")];
    plan.added = ["<unk>", "<s>", "</s>"].map(Added::special).to_vec();
    plan
}

fn mistral(random: &mut Random) -> Plan {
    let mut plan = llama2(random);
    plan.normalizers.clear();
    plan.splits = vec![metaspace("first", false)];
    plan
}

fn phi3(random: &mut Random) -> Plan {
    let mut plan = pieces(random, &["<unk>", "<s>", "</s>"], mark_decoders(true));
    plan.normalizers = vec![prepend("▁"), replace(" ", "▁")];
    plan.added = vec![Added::special("<unk>"), Added::special("<s>"), Added::text("</s>", false).rstrip()];
    plan.added.push(Added::special("<|endoftext|>"));
    plan.added.extend(["<|assistant|>", "<|user|>", "<|end|>"].map(|name| Added::special(name).rstrip()));
    plan
}

fn falcon(random: &mut Random) -> Plan {
    let splits = vec![
        punctuation("Contiguous"),
        byte_level(false, true),
        digits(false),
        split("[0-9][0-9][0-9]", "Isolated", false),
    ];
    let added = [">>TITLE<<", ">>SUMMARY<<", ">>QUESTION<<", "<|endoftext|>"].map(Added::special).to_vec();
    bytes(random, vec![], splits, added)
}

fn command_r(random: &mut Random) -> Plan {
    let added = ["<PAD>", "<UNK>", "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"].map(Added::special).to_vec();
    let mut plan = bytes(random, vec![only("NFC")], vec![digits(true), byte_level(false, true)], added);
    // Tokens outside of the alphabet of bytes: the decoder writes their own UTF-8.
    for token in ["\u{200d}", "\u{1f3fb}", "日"].map(str::to_owned) {
        if !plan.tokens.contains(&token) && plan.added.iter().all(|added| added.content != token) {
            plan.tokens.push(token);
        }
    }
    plan
}

fn starcoder(random: &mut Random) -> Plan {
    let added = ["<|endoftext|>", "<fim_prefix>", "<fim_suffix>"].map(Added::special).to_vec();
    bytes(random, vec![], vec![digits(true), byte_level(false, true)], added)
}

fn by_pattern(pattern: &str) -> Vec<Value> {
    vec![split(pattern, "Isolated", false), byte_level(false, false)]
}

fn tekken(random: &mut Random) -> Plan {
    let added = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"].map(Added::special).to_vec();
    let mut plan = bytes(random, vec![], by_pattern(TEKKEN), added);
    plan.options.insert("ignore_merges".to_owned(), json!(true));
    plan
}

fn llama3(random: &mut Random) -> Plan {
    let added = ["<|begin_of_text|>", "<|eot_id|>"].map(Added::special).to_vec();
    let mut plan = bytes(random, vec![], by_pattern(LLAMA3), added);
    plan.options.insert("ignore_merges".to_owned(), json!(true));
    plan
}

fn qwen35(random: &mut Random) -> Plan {
    let mut added = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(Added::special).to_vec();
    added.extend(["<tool_call>", "</tool_call>", "<think>", "</think>"].map(|name| Added::text(name, false)));
    bytes(random, vec![only("NFC")], by_pattern(QWEN35), added)
}

fn o200k(random: &mut Random) -> Plan {
    let added = ["<|startoftext|>", "<|endoftext|>", "<|return|>"].map(Added::special).to_vec();
    bytes(random, vec![], by_pattern(O200K), added)
}

fn neox(random: &mut Random) -> Plan {
    let mut added = vec![Added::special("<|endoftext|>"), Added::special("<|padding|>")];
    added.extend((2..3 + random.below(4)).rev().map(|count| Added::text(&" ".repeat(count), true)));
    bytes(random, vec![only("NFC")], vec![byte_level(false, true)], added)
}

fn codegen(random: &mut Random) -> Plan {
    let mut added = vec![Added::special("<|endoftext|>")];
    added.extend((2..3 + random.below(4)).rev().map(|count| Added::text(&" ".repeat(count), true)));
    added.extend((2..4).rev().map(|count| Added::text(&"\t".repeat(count), true)));
    bytes(random, vec![], vec![byte_level(false, true)], added)
}

fn deepseek(random: &mut Random) -> Plan {
    let mut splits: Vec<Value> =
        DEEPSEEK_LLM.iter().map(|pattern| split(pattern, "Isolated", false)).collect();
    splits.extend([digits(true), byte_level(false, false)]);
    let mut added = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"].map(Added::special).to_vec();
    added.iter_mut().for_each(|token| token.normalized = true);
    // The characters of bytes that occur in no UTF-8 text: the model has no token for them.
    let bytes_of_no_text = ["ø", "ö", "ú"];
    added.extend(bytes_of_no_text.map(|content| Added::text(content, true)));
    let mut plan = bytes(random, vec![], splits, added);
    plan.tokens.retain(|token| !bytes_of_no_text.iter().any(|content| token.contains(content)));
    plan.drop_loose_merges();
    plan
}

fn deepseek_v3(random: &mut Random) -> Plan {
    let mut splits: Vec<Value> =
        DEEPSEEK_V3.iter().map(|pattern| split(pattern, "Isolated", false)).collect();
    splits.push(byte_level(false, false));
    let mut added = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"].map(Added::special).to_vec();
    added.push(Added::text("<think>", true));
    bytes(random, vec![], splits, added)
}

fn bloom(random: &mut Random) -> Plan {
    let added = ["<unk>", "<s>", "</s>", "<pad>"].map(Added::special).to_vec();
    bytes(random, vec![], by_pattern(BLOOM), added)
}

fn phi4(random: &mut Random) -> Plan {
    let splits = vec![split(LLAMA3, "Removed", true), byte_level(false, false)];
    let mut added = vec![Added::special("<|endoftext|>").lstrip().rstrip()];
    added.extend(["<|im_start|>", "<|im_end|>"].map(|name| Added::special(name).lstrip().rstrip()));
    bytes(random, vec![], splits, added)
}

/// A Unigram model: it has no merges.
pub(crate) fn t5(_random: &mut Random) -> Plan {
    let mut plan = Plan::new(Spelling::Mark('▁'));
    plan.normalizers =
        vec![charsmap::common(), json!({"type": "Strip", "strip_left": false, "strip_right": true})];
    plan.normalizers.push(replace_regex(" {2,}", "▁"));
    plan.splits = vec![metaspace("always", true)];
    plan.decoders = vec![metaspace("always", true)];
    plan.added = ["<pad>", "</s>", "<unk>"].map(Added::special).to_vec();
    plan.model = Some(json!({
        "type": "Unigram", "unk_id": 2, "byte_fallback": false,
        "vocab": [["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["▁", -2.0], ["a", -3.0], ["b", -3.5], ["▁a", -3.2],
            ["ab", -5.0], ["▁ab", -6.0]],
    }));
    plan
}
