// The M largest logits of each row, largest first, equal ones by id. Reference: top_m.rs.
//
// One workgroup for a row: M rounds, each of which finds the largest that comes behind the last one found. Logits are read as
// bits and compared as whole numbers, so that no rounding and no rule for NaN can matter.

@group(0) @binding(0) var<storage, read> logits: array<u32>;
@group(0) @binding(1) var<uniform> shape: Shape;
@group(0) @binding(2) var<storage, read_write> tops: array<u32>;

struct Shape {
    rows: u32,
    vocab_len: u32,
    m: u32,
    unused: u32,
}

const LANES: u32 = 256u;
const NONE: u32 = 0xffffffffu;

// The key and the id of the best that each lane has found.
var<workgroup> keys: array<u32, LANES>;
var<workgroup> ids: array<u32, LANES>;

// Whole numbers in the order of floats; NaN comes last.
fn key_of(bits: u32) -> u32 {
    if (bits & 0x7fffffffu) > 0x7f800000u {
        return 0u;
    }
    if (bits >> 31u) == 1u {
        return ~bits;
    }
    return bits | 0x80000000u;
}

// Whether the first comes in front of the second.
fn precedes(key: u32, id: u32, other_key: u32, other_id: u32) -> bool {
    return key > other_key || (key == other_key && id < other_id);
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = group.x + group.y * groups.x;
    let is_one = row < shape.rows;
    var last_key = NONE;
    var last_id = NONE;
    for (var round = 0u; round < shape.m; round++) {
        var best_key = 0u;
        var best_id = NONE;
        if is_one {
            for (var id = lane; id < shape.vocab_len; id += LANES) {
                let key = key_of(logits[row * shape.vocab_len + id]);
                let is_left = round == 0u || precedes(last_key, last_id, key, id);
                if is_left && (best_id == NONE || precedes(key, id, best_key, best_id)) {
                    best_key = key;
                    best_id = id;
                }
            }
        }
        keys[lane] = best_key;
        ids[lane] = best_id;
        workgroupBarrier();
        for (var half = LANES / 2u; half > 0u; half /= 2u) {
            if lane < half {
                let other = lane + half;
                let found = ids[other] != NONE;
                if found && (ids[lane] == NONE || precedes(keys[other], ids[other], keys[lane], ids[lane])) {
                    keys[lane] = keys[other];
                    ids[lane] = ids[other];
                }
            }
            workgroupBarrier();
        }
        last_key = keys[0];
        last_id = ids[0];
        if lane == 0u && is_one {
            tops[row * shape.m + round] = last_id;
        }
        workgroupBarrier();
    }
}
