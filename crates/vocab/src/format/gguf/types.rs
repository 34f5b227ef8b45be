//! The types of tensors in ggml: how many entries a block has, and how many bytes.
//!
//! The numbers are those of `enum ggml_type` and of the blocks in `ggml-common.h`, llama.cpp of 2026-11.

/// Entries and bytes of a block of a type; `None` for a number without a type.
pub(super) fn block(kind: u32) -> Option<(u64, u64)> {
    Some(match kind {
        0 | 26 => (1, 4),      // F32, I32
        1 | 25 | 30 => (1, 2), // F16, I16, BF16
        2 => (32, 18),         // Q4_0
        3 => (32, 20),         // Q4_1
        6 => (32, 22),         // Q5_0
        7 => (32, 24),         // Q5_1
        8 => (32, 34),         // Q8_0
        9 => (32, 36),         // Q8_1
        10 => (256, 84),       // Q2_K
        11 => (256, 110),      // Q3_K
        12 => (256, 144),      // Q4_K
        13 => (256, 176),      // Q5_K
        14 => (256, 210),      // Q6_K
        15 => (256, 292),      // Q8_K
        16 => (256, 66),       // IQ2_XXS
        17 => (256, 74),       // IQ2_XS
        18 => (256, 98),       // IQ3_XXS
        19 => (256, 50),       // IQ1_S
        20 => (32, 18),        // IQ4_NL
        21 => (256, 110),      // IQ3_S
        22 => (256, 82),       // IQ2_S
        23 => (256, 136),      // IQ4_XS
        24 => (1, 1),          // I8
        27 | 28 => (1, 8),     // I64, F64
        29 => (256, 56),       // IQ1_M
        34 => (256, 54),       // TQ1_0
        35 => (256, 66),       // TQ2_0
        39 => (32, 17),        // MXFP4
        40 => (64, 36),        // NVFP4
        _ => return None,
    })
}
