//! The types of tensors in ggml: their names, how many entries a block has, and how many bytes.
//!
//! The numbers are those of `enum ggml_type` and of the blocks in `ggml-common.h`, llama.cpp of 2026-11.

/// Number, name, entries and bytes of a block.
const TYPES: &[(u32, &str, u64, u64)] = &[
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 36),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (29, "IQ1_M", 256, 56),
    (30, "BF16", 1, 2),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
];

fn row(kind: u32) -> Option<&'static (u32, &'static str, u64, u64)> {
    TYPES.iter().find(|(number, ..)| *number == kind)
}

/// Entries and bytes of a block of a type; `None` for a number without a type.
pub(super) fn block(kind: u32) -> Option<(u64, u64)> {
    row(kind).map(|(_, _, entries, bytes)| (*entries, *bytes))
}

/// The name of a type.
pub(super) fn name(kind: u32) -> Option<&'static str> {
    row(kind).map(|(_, name, ..)| *name)
}
