//! The steps of published pre-tokenizers.

use unskew_core::{PrependScheme, SplitBehavior, SplitPattern};

pub(in crate::split) fn regex(pattern: &str) -> SplitPattern {
    with(pattern, SplitBehavior::Isolated, false)
}

pub(in crate::split) fn with(pattern: &str, behavior: SplitBehavior, invert: bool) -> SplitPattern {
    SplitPattern::Regex { pattern: pattern.to_owned(), behavior, invert }
}

pub(super) const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const CL100K: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
pub(super) const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const DEEPSEEK2_LETTERS: &str =
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕ]+";

/// The pre-tokenizers in use, and similar ones.
pub(super) fn known_patterns() -> Vec<(&'static str, Vec<SplitPattern>)> {
    use SplitBehavior::{Contiguous, Isolated, MergedWithNext, MergedWithPrevious, Removed};
    let tail = |tail: &str| {
        vec![regex(&format!(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{tail}|\s*[\r\n]|\s+(?!\S)|\s"
        ))]
    };
    let deepseek2 = |digits| {
        vec![
            regex(r"[\r\n]"),
            regex(DEEPSEEK2_LETTERS),
            regex(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
            regex(r"\s+$"),
            regex("[一-龥ࠀ-一가-퟿]+"),
            with(r"\p{N}", digits, false),
        ]
    };
    let metaspace = |split| {
        vec![SplitPattern::Metaspace { replacement: '\u{2581}', prepend: PrependScheme::First, split }]
    };
    let literal = |text: &str, behavior, invert| {
        vec![SplitPattern::Literal { text: text.to_owned(), behavior, invert }]
    };
    let o200k_words = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*";
    vec![
        ("none", vec![]),
        ("gpt-2", vec![SplitPattern::PrefixSpace, regex(GPT2)]),
        ("gpt-2, Contiguous digits first", vec![with(r"\p{N}", Contiguous, false), regex(GPT2)]),
        ("starcoder", vec![regex(r"\p{N}"), regex(GPT2)]),
        ("cl100k", vec![regex(CL100K)]),
        ("cl100k, Removed and inverted", vec![with(CL100K, Removed, true)]),
        ("cl100k, \\s+\\z", tail(r"\s+\z")),
        ("cl100k, \\s++$", tail(r"\s++$")),
        ("cl100k, \\s+$", tail(r"\s+$")),
        (
            "cl100k, possessive",
            vec![regex(
                r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
            )],
        ),
        ("llama 3", vec![regex(LLAMA3)]),
        ("qwen 2", vec![regex(&LLAMA3.replace("{1,3}", ""))]),
        ("o200k", vec![regex(O200K)]),
        (
            "tekken",
            vec![regex(&format!(
                r"{o200k_words}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            ))],
        ),
        ("deepseek 2", deepseek2(Isolated)),
        ("deepseek 2, Contiguous digits", deepseek2(Contiguous)),
        ("deepseek 3", vec![regex(r"\p{N}{1,3}"), regex("[一-龥぀-ゟ゠-ヿ]+"), regex(DEEPSEEK3)]),
        ("metaspace", metaspace(true)),
        ("metaspace without a split", metaspace(false)),
        ("space, MergedWithPrevious", literal(" ", MergedWithPrevious, false)),
        ("space, MergedWithPrevious, inverted", literal(" ", MergedWithPrevious, true)),
        ("letters, MergedWithNext, inverted", vec![with(r"\p{L}", MergedWithNext, true)]),
        ("literal", literal("ll", Isolated, true)),
        ("words, Removed and inverted", vec![with(r"\w+|[^\w\s]+", Removed, true)]),
        (
            "lazy and anchored",
            vec![regex(r"^\s+?(?=\p{L}|$)|(?:'s){2,}?|\p{L}{2,4}?(?!\p{L})"), regex("l{2}|^ ")],
        ),
    ]
}
