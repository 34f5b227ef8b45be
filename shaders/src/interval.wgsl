// The position of a sequence in a set, for the kernels that read or change it. The meaning of every number: `Interval` in
// set.rs.

struct Interval {
    depth: u32,
    lo: u32,
    hi: u32,
    first_item: u32,
    ends: u32,
    valid: u32,
}

