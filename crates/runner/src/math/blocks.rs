//! Weights in the blocks of ggml, the library of llama.cpp: a few bits for each weight, and scales for a block.
//!
//! A block becomes f32 with the operations and in the order of ggml, so that each value is the same bit for bit. Where
//! 32 weights share a scale, they are kept as whole numbers of eight bits, in the blocks of [`crate::math::pack`]:
//! nothing is rounded, and memory is a third of f32 or less ([`Kept`] says which types are kept how). Where 16 weights
//! share a scale, they become f32: the rest of a panel would be scales. A model is what its file says unless the
//! caller asks for [`Quantization`](crate::Quantization).
//!
//! Tried instead: f32 for all types with an offset. A pass of one token then waits for memory: it took twice as long
//! for a model of type Q4_1. Kernels that multiply by four bits as they are: each type needs its own.

use std::array;

use half::f16;

use crate::math::pack::BLOCK;

/// A type of ggml that is read, other than plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockType {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Iq4Nl,
    Iq4Xs,
}

/// The weights of a block in K types.
const SUPER: usize = 256;

/// The most weights of a block.
pub(crate) const MOST: usize = SUPER;

/// The values of the four bits of `IQ4_NL` and `IQ4_XS`.
const UNEVEN: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

impl BlockType {
    /// The type with a number of ggml.
    pub(crate) fn of(kind: u32) -> Option<Self> {
        Some(match kind {
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            7 => Self::Q5_1,
            8 => Self::Q8_0,
            10 => Self::Q2K,
            11 => Self::Q3K,
            12 => Self::Q4K,
            13 => Self::Q5K,
            14 => Self::Q6K,
            20 => Self::Iq4Nl,
            23 => Self::Iq4Xs,
            _ => return None,
        })
    }

    /// The weights of a block.
    pub(crate) fn weights(self) -> usize {
        match self {
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 | Self::Iq4Nl => BLOCK,
            _ => SUPER,
        }
    }

    /// The bytes of a block.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Q4_0 | Self::Iq4Nl => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q8_0 => 34,
            Self::Q2K => 84,
            Self::Q3K => 110,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
            Self::Iq4Xs => 136,
        }
    }

    /// How a matrix keeps blocks of the type.
    pub(crate) fn kept(self) -> Kept {
        match self {
            Self::Q4_0 | Self::Q5_0 | Self::Q8_0 | Self::Iq4Nl => Kept::Scaled,
            Self::Q4_1 | Self::Q5_1 | Self::Q4K | Self::Q5K | Self::Iq4Xs => Kept::Affine,
            Self::Q2K | Self::Q3K | Self::Q6K => Kept::Wide,
        }
    }

    /// The scale and the whole numbers of a block that is [`Kept::Scaled`].
    pub(crate) fn scaled(self, block: &[u8]) -> (f16, [i8; BLOCK]) {
        let (scale, rest) = (f16_at(block, 0), &block[2..]);
        let numbers = match self {
            Self::Q8_0 => array::from_fn(|at| rest[at] as i8),
            Self::Q5_0 => fives(&rest[4..], u32_at(rest, 0)).map(|five| five as i8 - 16),
            Self::Iq4Nl => nibbles(rest).map(|four| UNEVEN[four as usize]),
            _ => {
                debug_assert_eq!(self, Self::Q4_0);
                nibbles(rest).map(|four| four as i8 - 8)
            }
        };
        (scale, numbers)
    }

    /// The scale, the offset and the whole numbers of each [`BLOCK`] weights of a block that is [`Kept::Affine`].
    pub(crate) fn affine(self, block: &[u8], mut each: impl FnMut(usize, [f32; 2], [i8; BLOCK])) {
        let (scale, least) = (f32_at(block, 0), f32_at(block, 2));
        match self {
            Self::Q4_1 => each(0, [scale, least], nibbles(&block[4..]).map(|four| four as i8)),
            Self::Q5_1 => {
                each(0, [scale, least], fives(&block[8..], u32_at(block, 4)).map(|five| five as i8));
            }
            Self::Q4K => q45(block, &block[16..], None, each),
            Self::Q5K => q45(block, &block[48..], Some(&block[16..48]), each),
            _ => {
                debug_assert_eq!(self, Self::Iq4Xs);
                iq4(block, each);
            }
        }
    }

    /// The weights of a block in f32.
    pub(crate) fn values(self, block: &[u8], values: &mut [f32]) {
        debug_assert_eq!((block.len(), values.len()), (self.bytes(), self.weights()));
        match (self, self.kept()) {
            (_, Kept::Scaled) => {
                let (scale, numbers) = self.scaled(block);
                for (value, number) in values.iter_mut().zip(numbers) {
                    *value = f32::from(number) * scale.to_f32();
                }
            }
            (_, Kept::Affine) => self.affine(block, |at, [scale, offset], numbers| {
                for (value, number) in values[at * BLOCK..].iter_mut().zip(numbers) {
                    *value = f32::from(number) * scale + offset;
                }
            }),
            (Self::Q2K, _) => q2(block, values),
            (Self::Q3K, _) => q3(block, values),
            (_, Kept::Wide) => q6(block, values),
        }
    }
}

/// How a matrix keeps the blocks of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Whole numbers of eight bits, and a scale in f16 for [`BLOCK`] of them.
    Scaled,
    /// Whole numbers of eight bits, and a scale and an offset in f32 for [`BLOCK`] of them.
    Affine,
    /// As f32.
    Wide,
}

fn f16_at(bytes: &[u8], at: usize) -> f16 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn f32_at(bytes: &[u8], at: usize) -> f32 {
    f16_at(bytes, at).to_f32()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The 32 numbers of four bits in 16 bytes: all low halves come first.
fn nibbles(bytes: &[u8]) -> [u8; BLOCK] {
    array::from_fn(|at| bytes[at % 16] >> (at / 16 * 4) & 15)
}

/// The same with a fifth bit each.
fn fives(bytes: &[u8], fifth: u32) -> [u8; BLOCK] {
    let fours = nibbles(bytes);
    array::from_fn(|at| fours[at] | ((fifth >> at & 1) as u8) << 4)
}

/// Sub-blocks of 16 with a scale and an offset of four bits each.
fn q2(block: &[u8], values: &mut [f32]) {
    let (scale, least) = (f32_at(block, 80), f32_at(block, 82));
    for (at, values) in values.chunks_exact_mut(16).enumerate() {
        let (scale, least) = (scale * f32::from(block[at] & 15), least * f32::from(block[at] >> 4));
        let (twos, shift) = twos(&block[16..80], at);
        for (value, byte) in values.iter_mut().zip(twos) {
            *value = scale * f32::from(byte >> shift & 3) - least;
        }
    }
}

/// The bytes that hold two bits of each weight of a sub-block of 16, and the place of the bits.
fn twos(bytes: &[u8], at: usize) -> (&[u8], usize) {
    (&bytes[32 * (at / 8) + 16 * (at % 2)..][..16], at / 2 % 4 * 2)
}

/// Sub-blocks of 16 with a scale of six bits; the third bit of a weight stands apart, and takes four away where it is
/// not set.
fn q3(block: &[u8], values: &mut [f32]) {
    let (thirds, scales) = (&block[..32], &block[96..108]);
    let all = f32_at(block, 108);
    for (at, values) in values.chunks_exact_mut(16).enumerate() {
        let low = scales[at % 8] >> (at / 8 * 4) & 15;
        let high = scales[8 + at % 4] >> (at / 4 * 2) & 3;
        let scale = all * f32::from((low | high << 4) as i8 - 32);
        let (twos, shift) = twos(&block[32..96], at);
        let thirds = &thirds[16 * (at % 2)..][..16];
        for ((value, byte), third) in values.iter_mut().zip(twos).zip(thirds) {
            let below = if third >> (at / 2) & 1 == 1 { 0 } else { 4 };
            *value = scale * f32::from((byte >> shift & 3) as i8 - below);
        }
    }
}

/// Sub-blocks of 32 with a scale and an offset of six bits each; with `fifth` the weights have five bits.
fn q45(block: &[u8], fours: &[u8], fifth: Option<&[u8]>, mut each: impl FnMut(usize, [f32; 2], [i8; BLOCK])) {
    let (scale, least) = (f32_at(block, 0), f32_at(block, 2));
    let sixes = &block[4..16];
    for at in 0..SUPER / BLOCK {
        let (own, other) = match at {
            0..4 => (sixes[at] & 63, sixes[at + 4] & 63),
            _ => {
                let (low, high) = (sixes[at + 4] & 15, sixes[at + 4] >> 4);
                (low | sixes[at - 4] >> 6 << 4, high | sixes[at] >> 6 << 4)
            }
        };
        let (scale, least) = (scale * f32::from(own), least * f32::from(other));
        let fours = &fours[BLOCK * (at / 2)..][..BLOCK];
        let number = |index: usize| {
            let four = fours[index] >> (at % 2 * 4) & 15;
            (four | fifth.map_or(0, |fifth| (fifth[index] >> at & 1) << 4)) as i8
        };
        each(at, [scale, -least], array::from_fn(number));
    }
}

/// Sub-blocks of 16 with a scale of eight bits; two of the six bits of a weight stand apart.
fn q6(block: &[u8], values: &mut [f32]) {
    let (fours, twos, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let all = f32_at(block, 208);
    for (at, values) in values.chunks_exact_mut(16).enumerate() {
        let scale = all * f32::from(scales[at] as i8);
        // The half of the block, the quarter of that half, and the half of that quarter.
        let (half, quarter, offset) = (at / 8, at / 2 % 4, 16 * (at % 2));
        let fours = &fours[64 * half + 32 * (quarter % 2) + offset..][..16];
        let twos = &twos[32 * half + offset..][..16];
        for ((value, four), two) in values.iter_mut().zip(fours).zip(twos) {
            let number = four >> (quarter / 2 * 4) & 15 | (two >> (quarter * 2) & 3) << 4;
            *value = scale * f32::from(number as i8 - 32);
        }
    }
}

/// Sub-blocks of 32 with a scale of six bits, and uneven values.
fn iq4(block: &[u8], mut each: impl FnMut(usize, [f32; 2], [i8; BLOCK])) {
    let all = f32_at(block, 0);
    let highs = u16::from_le_bytes([block[2], block[3]]);
    for at in 0..SUPER / BLOCK {
        let low = block[4 + at / 2] >> (at % 2 * 4) & 15;
        let high = (highs >> (2 * at) & 3) as u8;
        let scale = all * f32::from((low | high << 4) as i8 - 32);
        each(at, [scale, 0.0], nibbles(&block[8 + 16 * at..]).map(|four| UNEVEN[four as usize]));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::BlockType;

    /// The judge is the package gguf of Python: `tests/gguf/make.py`.
    #[test]
    fn values_are_those_of_ggml() {
        let file = include_str!("../../tests/gguf/blocks.json");
        let all: Value = serde_json::from_str(file).unwrap();
        let all = all.as_object().unwrap();
        assert_eq!(all.len(), 12);
        for (name, case) in all {
            let bytes = |key: &str| -> Vec<u8> {
                let digits = case[key].as_str().unwrap().as_bytes().chunks(2);
                let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
                digits.map(byte).collect()
            };
            let kind = BlockType::of(case["kind"].as_u64().unwrap() as u32).unwrap();
            let (blocks, expected) = (bytes("blocks"), bytes("values"));
            assert_eq!(blocks.len(), 2 * kind.bytes(), "{name}");
            let mut values = vec![0.0; 2 * kind.weights()];
            for (block, values) in blocks.chunks(kind.bytes()).zip(values.chunks_mut(kind.weights())) {
                kind.values(block, values);
            }
            let expected = expected.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
            assert!(values.iter().copied().eq(expected), "{name}");
        }
    }
}
