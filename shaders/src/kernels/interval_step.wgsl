// Narrows the interval of each sequence by the sequence's next token. Reference: interval_step.rs.
//
// One lane for a sequence. `intervals` has one entry for each of `tokens`; further entries stay unchanged.

@group(0) @binding(6) var<storage, read> tokens: array<u32>;
@group(0) @binding(7) var<storage, read_write> intervals: array<Interval>;

@compute @workgroup_size(64)
fn main(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    // The length of a row of workgroups is limited, so there may be several rows.
    let sequence = id.x + id.y * groups.x * 64u;
    if sequence >= arrayLength(&tokens) {
        return;
    }
    let interval = intervals[sequence];
    if interval.valid == 0u {
        return;
    }
    let token = tokens[sequence];
    let column = column_at(interval.depth);
    let begin = lower_bound(column, interval.lo, interval.hi, token);
    if begin >= interval.hi || token_at(column, begin) != token {
        intervals[sequence].valid = 0u;
        return;
    }
    let end = run_end(column, begin, interval.hi);
    let ended = ends_at(column, begin);
    let lo = begin - ended.x;
    let first_item = interval.first_item + interval.ends + (begin - interval.lo);
    intervals[sequence] = Interval(interval.depth + 1u, lo, lo + (end - begin) - ended.y, first_item, ended.y, 1u);
}
