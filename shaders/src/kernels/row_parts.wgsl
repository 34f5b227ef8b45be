// The parts of the rows that questions are about. The reference of this kernel and of `masked_choice` is one:
// masked_choice.rs.
//
// One workgroup for each part of each question. Lane l has the tokens l, l + 256, and so on, of the part.

@group(0) @binding(4) var<storage, read_write> parts: array<Part>;

var<workgroup> partial: array<vec2<f32>, LANES>;
// The best allowed token of each lane, and later the best of all lanes.
var<workgroup> best: array<u32, LANES>;
var<workgroup> broken: atomic<u32>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = group.x + group.y * groups.x;
    let question = at / shape.parts;
    let is_one = question < shape.questions;
    var row = 0u;
    var range = vec2(0u, 0u);
    if is_one {
        row = questions[question].x;
        range = tokens_of(at % shape.parts);
    }

    var largest = vec2(LOWEST, LOWEST);
    var best_id = NONE;
    for (var token = range.x + lane; token < range.y; token += LANES) {
        let bits = bits_at(row, token);
        if bits != 0xff800000u && (bits & 0x7f800000u) == 0x7f800000u {
            atomicStore(&broken, 1u);
        }
        let logit = scaled(bits);
        largest.x = max(largest.x, logit);
        if logit > LOWEST && allowed(question, token) && (best_id == NONE || logit > largest.y) {
            largest.y = logit;
            best_id = token;
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
    workgroupBarrier();

    var sum = vec2(0.0, 0.0);
    for (var token = range.x + lane; token < range.y; token += LANES) {
        let logit = logit_at(row, token);
        sum.x += weight(logit, largest.x);
        if allowed(question, token) {
            sum.y += weight(logit, largest.y);
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
        parts[at] = Part(largest.x, partial[0].x, largest.y, partial[0].y, best[0], atomicLoad(&broken), 0u, 0u);
    }
}
