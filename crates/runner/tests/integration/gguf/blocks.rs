//! Blocks of every type from numbers that are drawn here, with their values: the other direction of the reader.

use half::f16;
use rand_chacha::ChaCha8Rng;
use rand_core::Rng;

/// A block of random numbers in a type: its bytes and the values that they stand for.
pub(super) fn block(kind: u32, random: &mut ChaCha8Rng) -> (Vec<u8>, Vec<f32>) {
    let mut number = |below: u32| random.next_u32() % below;
    let scale = |number: u32| f16::from_f32((number as f32 + 1.0) / 50_000.0);
    let half = |value: f16| value.to_le_bytes().to_vec();
    let d = scale(number(50));
    let (one, m) = (d.to_f32(), scale(number(50)));
    let least = -m.to_f32();
    // Two numbers of four bits in a byte, `apart` places from each other, in groups of twice as many.
    let fours = |q: &[u32], apart: usize| -> Vec<u8> {
        let groups = q.chunks(2 * apart);
        groups
            .flat_map(|group| (0..apart).map(|at| ((group[at] & 15) | ((group[at + apart] & 15) << 4)) as u8))
            .collect()
    };
    match kind {
        2 | 20 => {
            const UNEVEN: [f32; 16] =
                [-127., -104., -83., -65., -49., -35., -22., -10., 1., 13., 25., 38., 53., 69., 89., 113.];
            let q: Vec<u32> = (0..32).map(|_| number(16)).collect();
            let value = |q: &u32| if kind == 2 { *q as f32 - 8.0 } else { UNEVEN[*q as usize] };
            ([half(d), fours(&q, 16)].concat(), q.iter().map(|q| one * value(q)).collect())
        }
        3 => {
            let q: Vec<u32> = (0..32).map(|_| number(16)).collect();
            let m = f16::from_f32(-8.0 * one);
            (
                [half(d), half(m), fours(&q, 16)].concat(),
                q.iter().map(|q| *q as f32 * one + m.to_f32()).collect(),
            )
        }
        6 | 7 => {
            let q: Vec<u32> = (0..32).map(|_| number(32)).collect();
            let fifth = q.iter().enumerate().fold(0u32, |bits, (at, q)| bits | (q >> 4) << at);
            let m = f16::from_f32(-16.0 * one);
            let offset = if kind == 6 { Vec::new() } else { half(m) };
            let value =
                |q: &u32| if kind == 6 { (*q as f32 - 16.0) * one } else { *q as f32 * one + m.to_f32() };
            let bytes = [half(d), offset, fifth.to_le_bytes().to_vec(), fours(&q, 16)].concat();
            (bytes, q.iter().map(value).collect())
        }
        8 => {
            let q: Vec<i8> = (0..32).map(|_| number(256) as u8 as i8).collect();
            let bytes = q.iter().map(|q| *q as u8).collect();
            ([half(d), bytes].concat(), q.iter().map(|q| f32::from(*q) * one / 8.0 * 8.0).collect())
        }
        12 | 13 => {
            let top = if kind == 12 { 16 } else { 32 };
            let q: Vec<u32> = (0..256).map(|_| number(top)).collect();
            let s: Vec<u32> = (0..8).map(|_| number(64)).collect();
            let o: Vec<u32> = (0..8).map(|_| number(64)).collect();
            let mut sixes = vec![0u8; 12];
            for at in 0..4 {
                sixes[at] = (s[at] | (s[at + 4] >> 4) << 6) as u8;
                sixes[at + 4] = (o[at] | (o[at + 4] >> 4) << 6) as u8;
                sixes[at + 8] = ((s[at + 4] & 15) | (o[at + 4] & 15) << 4) as u8;
            }
            let fifth =
                (0..32).map(|at| (0..8).fold(0u8, |bits, sub| bits | ((q[32 * sub + at] >> 4) as u8) << sub));
            let fifth = if kind == 12 { Vec::new() } else { fifth.collect() };
            let values = q
                .iter()
                .enumerate()
                .map(|(at, q)| one * s[at / 32] as f32 * *q as f32 - m.to_f32() * o[at / 32] as f32);
            ([half(d), half(m), sixes, fifth, fours(&q, 32)].concat(), values.collect())
        }
        14 => {
            let q: Vec<u32> = (0..256).map(|_| number(64)).collect();
            let s: Vec<i8> = (0..16).map(|_| number(256) as u8 as i8).collect();
            let twos = (0..64).map(|at| {
                let (half, at) = (at / 32, at % 32);
                (0..4).fold(0u8, |bits, part| {
                    bits | ((q[128 * half + 32 * part + at] >> 4) as u8) << (2 * part)
                })
            });
            let twos: Vec<u8> = twos.collect();
            let scales: Vec<u8> = s.iter().map(|s| *s as u8).collect();
            let d = f16::from_f32(one / 16.0);
            let values =
                q.iter().enumerate().map(|(at, q)| d.to_f32() * f32::from(s[at / 16]) * (*q as f32 - 32.0));
            let values: Vec<f32> = values.collect();
            ([fours(&q, 64), twos, scales, half(d)].concat(), values)
        }
        10 => {
            let q: Vec<u32> = (0..256).map(|_| number(4)).collect();
            let s: Vec<u32> = (0..16).map(|_| number(256)).collect();
            let bytes = s.iter().map(|s| *s as u8).collect();
            let values = q
                .iter()
                .enumerate()
                .map(|(at, q)| one * (s[at / 16] & 15) as f32 * *q as f32 + least * (s[at / 16] >> 4) as f32);
            (([bytes, twos(&q), half(d), half(m)]).concat(), values.collect())
        }
        11 => {
            let q: Vec<u32> = (0..256).map(|_| number(8)).collect();
            let s: Vec<u32> = (0..16).map(|_| number(64)).collect();
            let thirds = (0..32)
                .map(|at| (0..8).fold(0u8, |bits, part| bits | ((q[32 * part + at] >> 2) as u8) << part));
            let low = (0..8).map(|at| ((s[at] & 15) | (s[at + 8] & 15) << 4) as u8);
            let high = (0..4).map(|at| {
                (0..4).fold(0u8, |bits, part| bits | ((s[4 * part + at] >> 4) as u8) << (2 * part))
            });
            let values =
                q.iter().enumerate().map(|(at, q)| one * (s[at / 16] as f32 - 32.0) * (*q as f32 - 4.0));
            let scales: Vec<u8> = low.chain(high).collect();
            (([thirds.collect(), twos(&q), scales, half(d)]).concat(), values.collect())
        }
        _ => panic!("no test packs the type {kind}"),
    }
}

/// Four numbers of two bits in a byte, 32 places from each other.
fn twos(q: &[u32]) -> Vec<u8> {
    let groups = q.chunks(128);
    groups
        .flat_map(|group| {
            (0..32).map(|at| {
                (0..4).fold(0, |bits, part| bits | ((group[32 * part + at] & 3) as u8) << (2 * part))
            })
        })
        .collect()
}
