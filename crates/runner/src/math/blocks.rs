//! Weights in the blocks of ggml, the library of llama.cpp: a few bits for each weight, and scales for a block.
//!
//! A block becomes f32 with the operations and in the order of ggml, so that each value is the same bit for bit. In
//! four types a weight is a whole number of eight bits times one scale for 32 weights. Those are kept so, in the blocks
//! of [`crate::math::pack`]: nothing is rounded, and memory is a quarter of f32. In the others a weight has an offset,
//! or a scale that f16 cannot hold. They become f32: eight bits would round them a second time, and a model is what its
//! file says unless the caller asks for [`Quantization`](crate::Quantization).
//!
//! Tried instead: kernels that multiply by the blocks as they are. Each type needs its own, and a model small enough
//! for this runner fits into memory as f32.

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

    /// Whether a block is whole numbers of eight bits times one scale: [`whole`](Self::whole).
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Self::Q4_0 | Self::Q5_0 | Self::Q8_0 | Self::Iq4Nl)
    }

    /// The scale and the whole numbers of a block.
    pub(crate) fn whole(self, block: &[u8]) -> (f16, [i8; BLOCK]) {
        let (scale, rest) = (f16_at(block, 0), &block[2..]);
        let mut numbers = [0; BLOCK];
        match self {
            Self::Q8_0 => numbers.iter_mut().zip(rest).for_each(|(number, byte)| *number = *byte as i8),
            Self::Q5_0 => {
                let fives = fives(&rest[4..], u32_at(rest, 0));
                numbers.iter_mut().zip(fives).for_each(|(number, five)| *number = five as i8 - 16);
            }
            Self::Iq4Nl => {
                let fours = nibbles(rest);
                numbers.iter_mut().zip(fours).for_each(|(number, four)| *number = UNEVEN[four as usize]);
            }
            _ => {
                debug_assert_eq!(self, Self::Q4_0);
                numbers.iter_mut().zip(nibbles(rest)).for_each(|(number, four)| *number = four as i8 - 8);
            }
        }
        (scale, numbers)
    }

    /// The weights of a block in f32.
    pub(crate) fn values(self, block: &[u8], values: &mut [f32]) {
        debug_assert_eq!((block.len(), values.len()), (self.bytes(), self.weights()));
        match self {
            Self::Q4_0 | Self::Q5_0 | Self::Q8_0 | Self::Iq4Nl => {
                let (scale, numbers) = self.whole(block);
                for (value, number) in values.iter_mut().zip(numbers) {
                    *value = f32::from(number) * scale.to_f32();
                }
            }
            Self::Q4_1 => {
                let (scale, least) = (f32_at(block, 0), f32_at(block, 2));
                for (value, four) in values.iter_mut().zip(nibbles(&block[4..])) {
                    *value = f32::from(four) * scale + least;
                }
            }
            Self::Q5_1 => {
                let (scale, least) = (f32_at(block, 0), f32_at(block, 2));
                for (value, five) in values.iter_mut().zip(fives(&block[8..], u32_at(block, 4))) {
                    *value = f32::from(five) * scale + least;
                }
            }
            Self::Q2K => q2(block, values),
            Self::Q3K => q3(block, values),
            Self::Q4K => q45(block, &block[16..], None, values),
            Self::Q5K => q45(block, &block[48..], Some(&block[16..48]), values),
            Self::Q6K => q6(block, values),
            Self::Iq4Xs => iq4(block, values),
        }
    }
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
fn nibbles(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let bytes = &bytes[..16];
    bytes.iter().map(|byte| byte & 15).chain(bytes.iter().map(|byte| byte >> 4))
}

/// The same with a fifth bit each.
fn fives(bytes: &[u8], fifth: u32) -> impl Iterator<Item = u8> {
    nibbles(bytes).enumerate().map(move |(at, four)| four | ((fifth >> at & 1) as u8) << 4)
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
fn q45(block: &[u8], fours: &[u8], fifth: Option<&[u8]>, values: &mut [f32]) {
    let (scale, least) = (f32_at(block, 0), f32_at(block, 2));
    let sixes = &block[4..16];
    for (at, values) in values.chunks_exact_mut(32).enumerate() {
        let (own, other) = match at {
            0..4 => (sixes[at] & 63, sixes[at + 4] & 63),
            _ => {
                let (low, high) = (sixes[at + 4] & 15, sixes[at + 4] >> 4);
                (low | sixes[at - 4] >> 6 << 4, high | sixes[at] >> 6 << 4)
            }
        };
        let (scale, least) = (scale * f32::from(own), least * f32::from(other));
        let fours = &fours[32 * (at / 2)..][..32];
        for (index, (value, byte)) in values.iter_mut().zip(fours).enumerate() {
            let four = byte >> (at % 2 * 4) & 15;
            let number = four | fifth.map_or(0, |fifth| (fifth[index] >> at & 1) << 4);
            *value = scale * f32::from(number) - least;
        }
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
fn iq4(block: &[u8], values: &mut [f32]) {
    let all = f32_at(block, 0);
    let highs = u16::from_le_bytes([block[2], block[3]]);
    for (at, values) in values.chunks_exact_mut(32).enumerate() {
        let low = block[4 + at / 2] >> (at % 2 * 4) & 15;
        let high = (highs >> (2 * at) & 3) as u8;
        let scale = all * f32::from((low | high << 4) as i8 - 32);
        for (value, four) in values.iter_mut().zip(nibbles(&block[8 + 16 * at..])) {
            *value = scale * f32::from(UNEVEN[four as usize]);
        }
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
