// The next token after a row of logits, among the tokens that a mask allows, and the end of the sequence where it is
// allowed: the most probable one, or one that a random number chooses. Reference: masked_choice.rs.
//
// One workgroup for a question, after `row_parts`. The events are in order: the end of the sequence, and then the tokens by
// their ids. A number in [0, 1), of 24 bits, times the sum of all weights falls to the end or to a part. Each lane adds
// up some neighbouring tokens of that part; the number falls to a lane, and that lane searches for the token.

@group(0) @binding(4) var<storage, read> parts: array<Part>;
@group(0) @binding(5) var<storage, read> ends: array<u32>;
@group(0) @binding(6) var<storage, read_write> tokens: array<u32>;
@group(0) @binding(7) var<storage, read_write> choices: array<vec4<f32>>;

const END: u32 = 0xfffffffeu;
const BROKEN: u32 = 0xfffffffdu;

var<workgroup> of_part: array<Part, MOST_PARTS>;
// The weight of each lane's tokens.
var<workgroup> of_lane: array<f32, LANES>;
var<workgroup> largest_allowed: f32;
var<workgroup> chosen_part: u32;
var<workgroup> chosen_lane: u32;
// The part of the number that the events before have not taken.
var<workgroup> left: f32;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let question = group.x + group.y * groups.x;
    let is_one = question < shape.questions;
    var row = 0u;
    if is_one {
        row = questions[question].x;
        if lane < shape.parts {
            of_part[lane] = parts[question * shape.parts + lane];
        }
    }
    if lane == 0u {
        chosen_part = MOST_PARTS;
    }
    workgroupBarrier();

    if lane == 0u && is_one {
        let asked = questions[question];
        let may_end = asked.y == 1u;
        let greedy = asked.z == 1u;
        var largest = LOWEST;
        var best_logit = LOWEST;
        var best_id = NONE;
        var broken = false;
        for (var at = 0u; at < shape.parts; at++) {
            let part = of_part[at];
            broken = broken || part.broken == 1u;
            largest = max(largest, part.largest);
            // The parts are in the order of ids: the first of equally probable tokens stays.
            if part.best != NONE && (best_id == NONE || part.largest_allowed > best_logit) {
                best_logit = part.largest_allowed;
                best_id = part.best;
            }
        }
        var of_all = 0.0;
        var of_tokens = 0.0;
        for (var at = 0u; at < shape.parts; at++) {
            let part = of_part[at];
            of_all += part.sum * weight(part.largest, largest);
            of_tokens += part.sum_allowed * weight(part.largest_allowed, best_logit);
        }
        // The ids that end the sequence are one event, summed relative to their own largest. They are few.
        var largest_end = LOWEST;
        var of_end = 0.0;
        if may_end {
            for (var at = 0u; at < shape.ends; at++) {
                if ends[at] < shape.vocab_len {
                    largest_end = max(largest_end, logit_at(row, ends[at]));
                }
            }
            for (var at = 0u; at < shape.ends; at++) {
                if ends[at] < shape.vocab_len {
                    of_end += weight(logit_at(row, ends[at]), largest_end);
                }
            }
        }
        var log_all = LOWEST;
        var log_end = LOWEST;
        var log_tokens = LOWEST;
        if of_all > 0.0 {
            log_all = largest + log(of_all);
        }
        if of_end > 0.0 {
            log_end = largest_end + log(of_end);
        }
        if of_tokens > 0.0 {
            log_tokens = best_logit + log(of_tokens);
        }
        largest_allowed = best_logit;
        var chosen = NONE;
        if broken || of_all <= 0.0 {
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
                let number = f32(asked.w >> 8u) * 5.9604644775390625e-8;
                if number < share {
                    chosen = END;
                } else {
                    var rest = (number - share) / (1.0 - share) * of_tokens;
                    for (var at = 0u; at < shape.parts; at++) {
                        let part = of_part[at];
                        let here = part.sum_allowed * weight(part.largest_allowed, best_logit);
                        if here > 0.0 {
                            // The last part with any weight takes the remainder that rounding leaves.
                            chosen_part = at;
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

    var range = vec2(0u, 0u);
    if is_one && chosen_part < MOST_PARTS {
        let all = tokens_of(chosen_part);
        let len = (all.y - all.x + LANES - 1u) / LANES;
        range = vec2(min(all.x + lane * len, all.y), min(all.x + (lane + 1u) * len, all.y));
    }
    var sum = 0.0;
    for (var token = range.x; token < range.y; token++) {
        if allowed(question, token) {
            sum += weight(logit_at(row, token), largest_allowed);
        }
    }
    of_lane[lane] = sum;
    workgroupBarrier();

    if lane == 0u {
        chosen_lane = LANES;
        if is_one && chosen_part < MOST_PARTS {
            var rest = left;
            for (var at = 0u; at < LANES; at++) {
                let here = of_lane[at];
                if here > 0.0 {
                    // As above, the last lane takes the remainder.
                    chosen_lane = at;
                    left = rest;
                    if rest < here {
                        break;
                    }
                    rest -= here;
                }
            }
        }
    }
    workgroupBarrier();
    // The first lane has written an answer, which the chosen lane changes.
    storageBarrier();

    if is_one && lane == chosen_lane {
        var rest = left;
        var last = NONE;
        for (var token = range.x; token < range.y; token++) {
            if allowed(question, token) {
                let here = weight(logit_at(row, token), largest_allowed);
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
