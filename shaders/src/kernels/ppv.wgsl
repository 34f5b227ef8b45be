// Parallel Prefix-Verification: whether each candidate token may follow its sequence. Reference, with the meaning of
// every number: ppv.rs.
//
// One lane for a candidate. `candidates` and `valid` hold the same number for each of `intervals`, one sequence after the
// other.

// The tokens of the set, four, two or one in a word, in up to four parts of `shape.part` words, because the size of a
// binding is limited.
@group(0) @binding(0) var<storage, read> cells_0: array<u32>;
@group(0) @binding(1) var<storage, read> cells_1: array<u32>;
@group(0) @binding(2) var<storage, read> cells_2: array<u32>;
@group(0) @binding(3) var<storage, read> cells_3: array<u32>;
@group(0) @binding(4) var<storage, read> columns: array<u32>;
@group(0) @binding(5) var<uniform> shape: Shape;
@group(0) @binding(6) var<storage, read> candidates: array<u32>;
@group(0) @binding(7) var<storage, read> intervals: array<Interval>;
@group(0) @binding(8) var<storage, read_write> valid: array<u32>;

struct Shape {
    width_log: u32,
    part: u32,
}

struct Interval {
    depth: u32,
    lo: u32,
    hi: u32,
}

fn cell_word(at: u32) -> u32 {
    let place = at % shape.part;
    switch at / shape.part {
        case 0u: { return cells_0[place]; }
        case 1u: { return cells_1[place]; }
        case 2u: { return cells_2[place]; }
        default: { return cells_3[place]; }
    }
}

fn token_at(at: u32) -> u32 {
    let in_word = 2u - shape.width_log;
    let word = cell_word(at >> in_word);
    if in_word == 0u {
        return word;
    }
    let bits = 8u << shape.width_log;
    return extractBits(word, (at & ((1u << in_word) - 1u)) * bits, bits);
}

// The first place in lo..hi whose token is at least `token`, or hi.
fn lower_bound(lo: u32, hi: u32, token: u32) -> u32 {
    var low = lo;
    var high = hi;
    while low < high {
        let middle = low + (high - low) / 2u;
        if token_at(middle) < token {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low;
}

@compute @workgroup_size(64)
fn main(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    // The length of a row of workgroups is limited, so there may be several rows.
    let lane = id.x + id.y * groups.x * 64u;
    let count = arrayLength(&candidates);
    if lane >= count {
        return;
    }
    let interval = intervals[lane / (count / arrayLength(&intervals))];
    let token = candidates[lane];
    var found = 0u;
    if interval.lo < interval.hi {
        let first = columns[interval.depth];
        let end = first + interval.hi;
        let place = lower_bound(first + interval.lo, end, token);
        if place < end && token_at(place) == token {
            found = 1u;
        }
    }
    valid[lane] = found;
}
