// A set of token sequences as sorted columns, and the search in them: the common part of the kernels over sets, put in
// front of each kernel. The same in Rust, with the meaning of every number: set.rs.

// The tokens, four, two or one in a word, in up to four parts of `shape.part` words, because the size of a binding is
// limited.
@group(0) @binding(0) var<storage, read> cells_0: array<u32>;
@group(0) @binding(1) var<storage, read> cells_1: array<u32>;
@group(0) @binding(2) var<storage, read> cells_2: array<u32>;
@group(0) @binding(3) var<storage, read> cells_3: array<u32>;
// The table of the columns and the blocks of their ends.
@group(0) @binding(4) var<storage, read> index: array<u32>;
@group(0) @binding(5) var<uniform> shape: Shape;

struct Shape {
    columns: u32,
    // 0, 1 or 2 for tokens of one, two or four bytes.
    width_log: u32,
    part: u32,
    mask_words: u32,
}

struct Column {
    len: u32,
    tokens: u32,
    ends: u32,
}

const BLOCK_BITS: u32 = 480u;
const BLOCK_WORDS: u32 = 16u;

fn column_at(depth: u32) -> Column {
    if depth >= shape.columns {
        return Column(0u, 0u, 0u);
    }
    return Column(index[3u * depth], index[3u * depth + 1u], index[3u * depth + 2u]);
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

fn token_at(column: Column, place: u32) -> u32 {
    let at = column.tokens + place;
    let in_word = 2u - shape.width_log;
    let word = cell_word(at >> in_word);
    if in_word == 0u {
        return word;
    }
    let bits = 8u << shape.width_log;
    return extractBits(word, (at & ((1u << in_word) - 1u)) * bits, bits);
}

// The first place in lo..hi whose token is at least `token`, or hi.
fn lower_bound(column: Column, lo: u32, hi: u32, token: u32) -> u32 {
    var low = lo;
    var high = hi;
    while low < high {
        let middle = low + (high - low) / 2u;
        if token_at(column, middle) < token {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low;
}

// The end of the run of equal tokens that begins at `begin`, at most hi: steps that double, then a search in the last step.
fn run_end(column: Column, begin: u32, hi: u32) -> u32 {
    let token = token_at(column, begin);
    var low = begin;
    var step = 1u;
    var high = hi;
    while step < hi - low {
        if token_at(column, low + step) != token {
            high = low + step;
            break;
        }
        low += step;
        step *= 2u;
    }
    return lower_bound(column, low + 1u, high, token + 1u);
}

// The number of items that end in front of a place, and, in the second number, whether an item ends there.
fn ends_at(column: Column, place: u32) -> vec2<u32> {
    let block = column.ends + place / BLOCK_BITS * BLOCK_WORDS;
    let bit = place % BLOCK_BITS;
    var rank = index[block];
    for (var word = 0u; word < bit / 32u; word++) {
        rank += countOneBits(index[block + 1u + word]);
    }
    let last = index[block + 1u + bit / 32u];
    rank += countOneBits(last & ((1u << (bit % 32u)) - 1u));
    return vec2(rank, (last >> (bit % 32u)) & 1u);
}

