//! Rotary position embeddings: each pair of a head's coordinates is rotated by an angle that grows with position.
//!
//! The convention is Hugging Face's "rotate half": coordinate `i` is paired with `i + width / 2`. The angles are
//! rounded as transformers rounds them (frequency and angle in f32), because the weights were trained with those
//! angles. At position 8000 exact angles would differ by up to 5e-4.
//!
//! Two scalings of frequencies follow the length of the sequence. A row of logits must be a function of its tokens,
//! so the length is that of the row's own prefix, and all keys of the prefix are turned by it: a [`Regime`] has keys
//! and values of its own. transformers turns the keys in its cache by the length at the time when each came; its full
//! passes equal ours.
//!
//! The tables grow by doubling when later positions come. Tried instead: a table for the whole context. At a context of
//! 131072 the table costs 130 MB before the first token.

use std::collections::HashMap;

use crate::config::{LayerRotary, ModelConfig, Scaling};

/// Regimes of one length whose tables are kept from pass to pass.
const MOST_PASSING: usize = 32;

/// The set of frequencies that a row uses: zero, but in sequences that are longer than a scaling's bound.
pub(crate) type Regime = usize;

/// The lengths at which a model's frequencies change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Regimes {
    One,
    /// From this position on, the regime is one.
    Two(usize),
    /// From this position on, each position has its own.
    Many(usize),
}

impl Regimes {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        match config.architecture.scaling {
            // Two equal sets of divisors are one: GGUF files of Llama 3 hold their scaling so.
            Scaling::LongRope { ref short, ref long, original, .. } if short != long => Self::Two(original),
            Scaling::Dynamic { .. } => Self::Many(config.max_position_embeddings),
            _ => Self::One,
        }
    }

    /// The regime of the row at a position.
    pub(crate) fn of(self, position: usize) -> Regime {
        match self {
            Self::Two(first) if position >= first => 1,
            Self::Many(first) if position >= first => position + 1 - first,
            _ => 0,
        }
    }

    /// The first position after `position` that may have another regime.
    pub(crate) fn next(self, position: usize) -> usize {
        match self {
            Self::Two(first) | Self::Many(first) if position < first => first,
            Self::Many(_) => position + 1,
            _ => usize::MAX,
        }
    }
}

/// Cosines and sines by position, for one set of frequencies.
#[derive(Debug)]
struct Table {
    /// The rotation per position of each pair, in radians.
    frequencies: Vec<f32>,
    /// The factor of cosines and sines.
    factor: f64,
    /// One value for each pair of each position so far.
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl Table {
    fn new(frequencies: Vec<f32>, factor: f64) -> Self {
        Self { frequencies, factor, cosines: Vec::new(), sines: Vec::new() }
    }

    fn reach(&mut self, count: usize) {
        let known = self.cosines.len() / self.frequencies.len().max(1);
        if count <= known {
            return;
        }
        let factor = self.factor as f32;
        for position in known..count.max(2 * known).max(64) {
            let angles = self.frequencies.iter().map(|frequency| f64::from(position as f32 * frequency));
            self.cosines.extend(angles.clone().map(|angle| angle.cos() as f32 * factor));
            self.sines.extend(angles.map(|angle| angle.sin() as f32 * factor));
        }
    }

    fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let pairs = self.frequencies.len();
        let of = position * pairs..(position + 1) * pairs;
        (&self.cosines[of.clone()], &self.sines[of])
    }
}

/// The rotations of a model.
#[derive(Debug)]
pub(crate) struct Rotary {
    /// Of a head.
    head: usize,
    /// Coordinates of a head that are turned.
    width: usize,
    theta: f64,
    scaling: Scaling,
    context: usize,
    /// By regime, for the regimes that last.
    global: Vec<Table>,
    local: Option<Table>,
    /// Regimes of one length each, those of the last passes.
    passing: HashMap<Regime, Table>,
}

impl Rotary {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let architecture = &config.architecture;
        let width = architecture.rotary_width.unwrap_or(config.head_dim);
        let table = |theta, scaling: &Scaling, is_long| {
            Table::new(frequencies(theta, width, scaling, is_long), attention_factor(scaling))
        };
        let mut global = vec![table(config.rope_theta, &architecture.scaling, false)];
        if let Scaling::LongRope { .. } = architecture.scaling {
            global.push(table(config.rope_theta, &architecture.scaling, true));
        }
        Self {
            head: config.head_dim,
            width,
            theta: config.rope_theta,
            scaling: architecture.scaling.clone(),
            context: config.max_position_embeddings,
            global,
            local: architecture.local_rope.as_ref().map(|local| table(local.theta, &local.scaling, false)),
            passing: HashMap::new(),
        }
    }

    /// Begins a pass: forgets regimes of earlier ones where they are many.
    pub(crate) fn begin(&mut self) {
        if self.passing.len() > MOST_PASSING {
            self.passing.clear();
        }
    }

    /// Extends the tables of a regime to at least the first `count` positions.
    pub(crate) fn reach(&mut self, regime: Regime, count: usize) {
        if let Some(local) = &mut self.local {
            local.reach(count);
        }
        if let Some(table) = self.global.get_mut(regime) {
            return table.reach(count);
        }
        if !self.passing.contains_key(&regime) {
            let (length, context, width) =
                ((self.context + regime) as f64, self.context as f64, self.width as f64);
            let Scaling::Dynamic { factor } = self.scaling else { unreachable!("one regime has no table") };
            let growth = factor * length / context - (factor - 1.0);
            let theta = self.theta * growth.powf(width / (width - 2.0));
            let table = Table::new(frequencies(theta, self.width, &Scaling::None, false), 1.0);
            self.passing.insert(regime, table);
        }
        self.passing.get_mut(&regime).expect("it was made").reach(count);
    }

    fn table(&self, kind: LayerRotary, regime: Regime) -> Option<&Table> {
        match kind {
            LayerRotary::None => None,
            LayerRotary::Local => self.local.as_ref(),
            LayerRotary::Global => self.global.get(regime).or_else(|| self.passing.get(&regime)),
        }
    }

    /// The cosines and the sines of a position that [`reach`](Self::reach) was called for, where layers turn at all:
    /// one of each for each pair of coordinates that are turned.
    pub(crate) fn at(&self, kind: LayerRotary, regime: Regime, position: usize) -> Option<(&[f32], &[f32])> {
        Some(self.table(kind, regime)?.at(position))
    }

    /// Rotates the heads of a row to a position.
    pub(crate) fn turn(&self, kind: LayerRotary, regime: Regime, position: usize, row: &mut [f32]) {
        let Some((cosines, sines)) = self.at(kind, regime, position) else { return };
        for head in row.chunks_exact_mut(self.head) {
            let (low, high) = head[..self.width].split_at_mut(self.width / 2);
            for ((low, high), (cosine, sine)) in low.iter_mut().zip(high).zip(cosines.iter().zip(sines)) {
                (*low, *high) = (*low * cosine - *high * sine, *high * cosine + *low * sine);
            }
        }
    }
}

fn attention_factor(scaling: &Scaling) -> f64 {
    match scaling {
        Scaling::Yarn { attention, .. } | Scaling::LongRope { attention, .. } => *attention,
        _ => 1.0,
    }
}

/// The rotation per position of each pair, in the steps and with the rounding of transformers.
fn frequencies(theta: f64, width: usize, scaling: &Scaling, is_long: bool) -> Vec<f32> {
    let pairs = width / 2;
    // Powers in f32, as they are there.
    let powers = (0..pairs).map(|pair| {
        let exponent = (2 * pair) as f32 / width as f32;
        f64::from(theta as f32).powf(f64::from(exponent)) as f32
    });
    let plain = powers.clone().map(|power| 1.0 / power);
    match scaling {
        Scaling::None | Scaling::Dynamic { .. } => plain.collect(),
        Scaling::Linear { factor } => plain.map(|frequency| frequency / *factor as f32).collect(),
        Scaling::Llama3 { factor, low, high, original } => {
            let (factor, original) = (*factor, *original as f64);
            let (long, short) = (original / low, original / high);
            plain
                .map(|frequency| {
                    let wave = std::f64::consts::TAU / f64::from(frequency);
                    if wave < short {
                        return frequency;
                    }
                    if wave > long {
                        return frequency / factor as f32;
                    }
                    let share = (original / wave - low) / (high - low);
                    let frequency = f64::from(frequency);
                    ((1.0 - share) * frequency / factor + share * frequency) as f32
                })
                .collect()
        }
        Scaling::Yarn { factor, fast, slow, original, truncate, .. } => {
            let dimension = |turns: f64| {
                let waves = *original as f64 / (turns * std::f64::consts::TAU);
                width as f64 * waves.ln() / (2.0 * theta.ln())
            };
            let (mut first, mut last) = (dimension(*fast), dimension(*slow));
            if *truncate {
                (first, last) = (first.floor(), last.ceil());
            }
            (first, last) = (first.max(0.0), last.min(width as f64 - 1.0));
            if first == last {
                last += 0.001;
            }
            powers
                .enumerate()
                .map(|(pair, power)| {
                    let divided = ((pair as f64 - first) / (last - first)).clamp(0.0, 1.0) as f32;
                    let kept = 1.0 - divided;
                    1.0 / (*factor as f32 * power) * (1.0 - kept) + 1.0 / power * kept
                })
                .collect()
        }
        Scaling::LongRope { short, long, .. } => {
            let divisors = if is_long { long } else { short };
            powers.zip(divisors).map(|(power, divisor)| 1.0 / (*divisor as f32 * power)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Regimes;

    #[test]
    fn regimes_change_where_the_scaling_says() {
        for (regimes, expected) in [
            (Regimes::One, [0, 0, 0, 0, 0]),
            (Regimes::Two(2), [0, 0, 1, 1, 1]),
            (Regimes::Many(2), [0, 0, 1, 2, 3]),
        ] {
            let mut position = 0;
            while position < expected.len() {
                let end = regimes.next(position).min(expected.len());
                assert!(end > position);
                for (at, expected) in expected.iter().enumerate().take(end).skip(position) {
                    assert_eq!(regimes.of(at), *expected, "{regimes:?}, {at}");
                    assert_eq!(regimes.of(at), regimes.of(position));
                }
                position = end;
            }
        }
    }
}
