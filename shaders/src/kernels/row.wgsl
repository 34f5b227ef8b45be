// Questions about rows of logits: the common part of `row_parts` and `masked_choice`, put in front of both.
//
// A row is divided into `shape.parts` ranges of tokens, equally long but for the last ones. `row_parts` has one
// workgroup for each range, so that a single row occupies many units of a GPU. `masked_choice` has one workgroup for
// each question: it adds up the parts and looks for the chosen token in one of them. Logits are read as bits, because
// a shader must not rely on infinities and on NaN.

@group(0) @binding(0) var<storage, read> logits: array<u32>;
@group(0) @binding(1) var<storage, read> masks: array<u32>;
@group(0) @binding(2) var<uniform> shape: Shape;
// The row of logits, whether the end is allowed, whether the most probable outcome is wanted, and a random number.
@group(0) @binding(3) var<storage, read> questions: array<vec4<u32>>;

struct Shape {
    questions: u32,
    vocab_len: u32,
    mask_words: u32,
    // The number of `ends`: an empty array cannot be bound.
    ends: u32,
    // The factor of logits: the reciprocal of the temperature.
    scale: f32,
    // The number of parts of a row, at most MOST_PARTS.
    parts: u32,
    unused_0: u32,
    unused_1: u32,
}

// The largest logit of a range and the sum of all weights relative to it; the same of the allowed tokens, with the
// first token that has their largest logit. Each sum is relative to its own largest, so that neither underflows.
struct Part {
    largest: f32,
    sum: f32,
    largest_allowed: f32,
    sum_allowed: f32,
    best: u32,
    // Whether the range has a NaN or plus infinity.
    broken: u32,
    unused_0: u32,
    unused_1: u32,
}

const MOST_PARTS: u32 = 64u;
const LANES: u32 = 256u;
const LOWEST: f32 = -3.0e38;
const NONE: u32 = 0xffffffffu;

// The first token of a part, and the one after its last.
fn tokens_of(part: u32) -> vec2<u32> {
    let len = (shape.vocab_len + shape.parts - 1u) / shape.parts;
    return vec2(min(part * len, shape.vocab_len), min((part + 1u) * len, shape.vocab_len));
}

fn bits_at(row: u32, token: u32) -> u32 {
    return logits[row * shape.vocab_len + token];
}

// A logit at the temperature, or LOWEST for a token with probability zero.
fn scaled(bits: u32) -> f32 {
    if bits == 0xff800000u {
        return LOWEST;
    }
    let logit = bitcast<f32>(bits);
    if logit <= LOWEST {
        return LOWEST;
    }
    return clamp(logit * shape.scale, LOWEST, -LOWEST);
}

fn logit_at(row: u32, token: u32) -> f32 {
    return scaled(bits_at(row, token));
}

fn allowed(question: u32, token: u32) -> bool {
    let word = token / 32u;
    return word < shape.mask_words && ((masks[question * shape.mask_words + word] >> (token % 32u)) & 1u) == 1u;
}

fn weight(logit: f32, largest: f32) -> f32 {
    if logit <= LOWEST {
        return 0.0;
    }
    return exp(logit - largest);
}

