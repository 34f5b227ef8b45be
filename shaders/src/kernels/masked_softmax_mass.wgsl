// The normalisers of each row of logits, over all tokens and over those that the mask allows. Reference: masked_softmax_mass.rs.
//
// One workgroup for a row. Out: four numbers a row, in the order of `Mass` in the reference. Logits below LOWEST count as no
// token at all, and LOWEST stands for the logarithm of zero: a shader must not rely on infinities.

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> masks: array<u32>;
@group(0) @binding(2) var<uniform> shape: Shape;
@group(0) @binding(3) var<storage, read_write> masses: array<vec4<f32>>;

struct Shape {
    rows: u32,
    vocab_len: u32,
    mask_words: u32,
    unused: u32,
}

const LANES: u32 = 256u;
const LOWEST: f32 = -3.0e38;

var<workgroup> partial: array<vec2<f32>, LANES>;

fn allowed(row: u32, token: u32) -> bool {
    return ((masks[row * shape.mask_words + token / 32u] >> (token % 32u)) & 1u) == 1u;
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = group.x + group.y * groups.x;
    let is_one = row < shape.rows;

    // The largest logit, of all and of the allowed: each sum is taken relative to its own, so that neither underflows.
    var largest = vec2(LOWEST, LOWEST);
    if is_one {
        for (var token = lane; token < shape.vocab_len; token += LANES) {
            let logit = logits[row * shape.vocab_len + token];
            largest.x = max(largest.x, logit);
            if allowed(row, token) {
                largest.y = max(largest.y, logit);
            }
        }
    }
    partial[lane] = largest;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        if lane < half {
            partial[lane] = max(partial[lane], partial[lane + half]);
        }
        workgroupBarrier();
    }
    largest = partial[0];
    workgroupBarrier();

    var sum = vec2(0.0, 0.0);
    if is_one {
        for (var token = lane; token < shape.vocab_len; token += LANES) {
            let logit = logits[row * shape.vocab_len + token];
            if logit > LOWEST {
                sum.x += exp(logit - largest.x);
                if allowed(row, token) {
                    sum.y += exp(logit - largest.y);
                }
            }
        }
    }
    partial[lane] = sum;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        if lane < half {
            partial[lane] += partial[lane + half];
        }
        workgroupBarrier();
    }
    if lane == 0u && is_one {
        sum = partial[0];
        var of_all = LOWEST;
        var of_allowed = LOWEST;
        var mass = LOWEST;
        if sum.x > 0.0 {
            of_all = largest.x + log(sum.x);
        }
        if sum.y > 0.0 {
            of_allowed = largest.y + log(sum.y);
            mass = min(of_allowed - of_all, 0.0);
        }
        masses[row] = vec4(largest.x, of_all, of_allowed, mass);
    }
}
