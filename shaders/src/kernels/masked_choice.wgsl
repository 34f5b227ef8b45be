// The next token after a row of logits, among the tokens that a mask allows, and the end of the sequence where it is
// allowed: the most probable one, or one that a random number chooses. Reference: masked_choice.rs.
//
// One workgroup for a question. Lane l has the tokens l, l + 256, and so on; the end of the sequence comes in front of lane
// 0. A number in [0, 1), of 24 bits, times the sum of all weights falls to the end, or to a lane, and that lane searches
// for the token. Logits are read as bits, because a shader must not rely on infinities and on NaN.

@group(0) @binding(0) var<storage, read> logits: array<u32>;
@group(0) @binding(1) var<storage, read> masks: array<u32>;
// The row of logits, whether the end is allowed, whether the most probable outcome is wanted, and a random number.
@group(0) @binding(2) var<storage, read> questions: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> ends: array<u32>;
@group(0) @binding(4) var<uniform> shape: Shape;
@group(0) @binding(5) var<storage, read_write> tokens: array<u32>;
@group(0) @binding(6) var<storage, read_write> choices: array<vec4<f32>>;

struct Shape {
    questions: u32,
    vocab_len: u32,
    mask_words: u32,
    // The number of `ends`: an empty array cannot be bound.
    ends: u32,
    // The factor of logits: the reciprocal of the temperature.
    scale: f32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

const LANES: u32 = 256u;
const LOWEST: f32 = -3.0e38;
const NONE: u32 = 0xffffffffu;
const END: u32 = 0xfffffffeu;
const BROKEN: u32 = 0xfffffffdu;

var<workgroup> partial: array<vec2<f32>, LANES>;
// The best allowed token of each lane, and later the best of all lanes.
var<workgroup> best: array<u32, LANES>;
var<workgroup> broken: atomic<u32>;
var<workgroup> chosen: u32;
var<workgroup> chosen_lane: u32;
var<workgroup> left: f32;

// A logit at the temperature, or LOWEST for a token with probability zero.
fn logit_at(row: u32, token: u32) -> f32 {
    let bits = logits[row * shape.vocab_len + token];
    if bits == 0xff800000u {
        return LOWEST;
    }
    let logit = bitcast<f32>(bits);
    if logit <= LOWEST {
        return LOWEST;
    }
    return clamp(logit * shape.scale, LOWEST, -LOWEST);
}

fn is_odd(row: u32, token: u32) -> bool {
    let bits = logits[row * shape.vocab_len + token];
    return bits != 0xff800000u && (bits & 0x7f800000u) == 0x7f800000u;
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

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let question = group.x + group.y * groups.x;
    let is_one = question < shape.questions;
    var row = 0u;
    var may_end = false;
    var greedy = false;
    var random = 0u;
    if is_one {
        let asked = questions[question];
        row = asked.x;
        may_end = asked.y == 1u;
        greedy = asked.z == 1u;
        random = asked.w;
    }

    // The largest logit, of all tokens and of the allowed ones. Each sum is relative to its own largest, so that neither
    // underflows.
    var largest = vec2(LOWEST, LOWEST);
    var best_id = NONE;
    if is_one {
        for (var token = lane; token < shape.vocab_len; token += LANES) {
            if is_odd(row, token) {
                atomicStore(&broken, 1u);
            }
            let logit = logit_at(row, token);
            largest.x = max(largest.x, logit);
            if logit > LOWEST && allowed(question, token) && (best_id == NONE || logit > largest.y) {
                largest.y = logit;
                best_id = token;
            }
        }
    }
    partial[lane] = largest;
    best[lane] = best_id;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        if lane < half {
            let other = lane + half;
            partial[lane].x = max(partial[lane].x, partial[other].x);
            let larger = partial[other].y > partial[lane].y;
            let equal = partial[other].y == partial[lane].y;
            if best[other] != NONE && (best[lane] == NONE || larger || (equal && best[other] < best[lane])) {
                partial[lane].y = partial[other].y;
                best[lane] = best[other];
            }
        }
        workgroupBarrier();
    }
    largest = partial[0];
    best_id = best[0];
    let best_logit = largest.y;
    workgroupBarrier();
    // The ids that end the sequence are one event, summed relative to their own largest. Each lane adds up all of them:
    // they are few.
    var largest_end = LOWEST;
    if may_end {
        for (var at = 0u; at < shape.ends; at++) {
            if ends[at] < shape.vocab_len {
                largest_end = max(largest_end, logit_at(row, ends[at]));
            }
        }
    }
    var of_end = 0.0;
    if may_end {
        for (var at = 0u; at < shape.ends; at++) {
            if ends[at] < shape.vocab_len {
                of_end += weight(logit_at(row, ends[at]), largest_end);
            }
        }
    }

    var sum = vec2(0.0, 0.0);
    if is_one {
        for (var token = lane; token < shape.vocab_len; token += LANES) {
            let logit = logit_at(row, token);
            sum.x += weight(logit, largest.x);
            if allowed(question, token) {
                sum.y += weight(logit, largest.y);
            }
        }
    }
    partial[lane] = sum;
    workgroupBarrier();

    if lane == 0u && is_one {
        var of_tokens = 0.0;
        var of_all = 0.0;
        for (var other = 0u; other < LANES; other++) {
            of_all += partial[other].x;
            of_tokens += partial[other].y;
        }
        var log_all = LOWEST;
        var log_end = LOWEST;
        var log_tokens = LOWEST;
        if of_all > 0.0 {
            log_all = largest.x + log(of_all);
        }
        if of_end > 0.0 {
            log_end = largest_end + log(of_end);
        }
        if of_tokens > 0.0 {
            log_tokens = largest.y + log(of_tokens);
        }
        chosen = NONE;
        chosen_lane = LANES;
        if atomicLoad(&broken) == 1u || of_all <= 0.0 {
            chosen = BROKEN;
        } else if of_end > 0.0 && of_tokens <= 0.0 {
            chosen = END;
        } else if of_tokens > 0.0 {
            if greedy {
                // Among equally probable outcomes, the end.
                if of_end > 0.0 && log_end >= best_logit {
                    chosen = END;
                } else {
                    chosen = best_id;
                }
            } else {
                // The end's part of the interval.
                var share = 0.0;
                if of_end > 0.0 {
                    share = 1.0 / (1.0 + exp(min(log_tokens - log_end, 80.0)));
                }
                let number = f32(random >> 8u) * 5.9604644775390625e-8;
                if number < share {
                    chosen = END;
                } else {
                    var rest = (number - share) / (1.0 - share) * of_tokens;
                    for (var other = 0u; other < LANES; other++) {
                        let here = partial[other].y;
                        if here > 0.0 {
                            // The last lane with any weight takes the part that rounding leaves.
                            chosen_lane = other;
                            left = rest;
                            if rest < here {
                                break;
                            }
                            rest -= here;
                        }
                    }
                }
            }
        }
        var logit = LOWEST;
        if chosen == END {
            logit = log_end;
        } else if chosen == best_id {
            logit = best_logit;
        }
        tokens[question] = chosen;
        choices[question] = vec4(logit, log_all, log_end, log_tokens);
    }
    workgroupBarrier();
    if is_one && lane == chosen_lane {
        var rest = left;
        var last = NONE;
        for (var token = lane; token < shape.vocab_len; token += LANES) {
            if allowed(question, token) {
                let here = weight(logit_at(row, token), largest.y);
                if here > 0.0 {
                    last = token;
                    if rest < here {
                        break;
                    }
                    rest -= here;
                }
            }
        }
        tokens[question] = last;
        choices[question].x = logit_at(row, last);
    }
}
