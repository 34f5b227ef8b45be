// The exact mask of each sequence: a bit for every token that may follow. Reference: interval_mask.rs.
//
// One workgroup for a sequence. Each lane takes a piece of the interval and goes from run to run in it. `masks` holds
// `shape.mask_words` words for each of `intervals`; the kernel overwrites all of them.

@group(0) @binding(6) var<storage, read> intervals: array<Interval>;
@group(0) @binding(7) var<storage, read_write> masks: array<atomic<u32>>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let sequence = group.x + group.y * groups.x;
    let is_one = sequence < arrayLength(&intervals);
    let row = sequence * shape.mask_words;
    if is_one {
        for (var word = lane; word < shape.mask_words; word += 256u) {
            atomicStore(&masks[row + word], 0u);
        }
    }
    storageBarrier();
    if !is_one {
        return;
    }
    let interval = intervals[sequence];
    if interval.valid == 0u {
        return;
    }
    let column = column_at(interval.depth);
    let piece = (interval.hi - interval.lo + 255u) / 256u;
    var place = min(interval.lo + lane * piece, interval.hi);
    let end = min(place + piece, interval.hi);
    while place < end {
        let token = token_at(column, place);
        if token / 32u < shape.mask_words {
            atomicOr(&masks[row + token / 32u], 1u << (token % 32u));
        }
        place = run_end(column, place, end);
    }
}
