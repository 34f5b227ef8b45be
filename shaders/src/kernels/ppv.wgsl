// Parallel Prefix-Verification: whether each candidate token may follow its sequence. Reference: ppv.rs.
//
// One lane for a candidate. `candidates` and `valid` hold the same number for each of `intervals`, one sequence after the
// other.

@group(0) @binding(6) var<storage, read> candidates: array<u32>;
@group(0) @binding(7) var<storage, read> intervals: array<Interval>;
@group(0) @binding(8) var<storage, read_write> valid: array<u32>;

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
    if interval.valid != 0u {
        let column = column_at(interval.depth);
        let place = lower_bound(column, interval.lo, interval.hi, token);
        if place < interval.hi && token_at(column, place) == token {
            found = 1u;
        }
    }
    valid[lane] = found;
}
