//! Random values of the parameters: the first values of training, and those of tests.

use rand_core::Rng;

use crate::config::{
    ModelConfig, Norm,
    parameters::{Kind, Parameter, table},
};
use crate::math::matrix::Matrix;

/// Initial values for training: normal with a standard deviation of 0.02; the maps into the residual stream smaller
/// by `sqrt(2 * layers)`, so that the stream's variance does not grow with depth; norms one. A function of the
/// configuration and of the numbers that `random` yields.
#[cfg(feature = "train")]
pub(crate) fn initial(config: &ModelConfig, random: &mut impl Rng) -> Vec<Vec<f32>> {
    let small = 0.02 / (2.0 * config.num_hidden_layers as f64).sqrt();
    table(config)
        .iter()
        .map(|parameter| match parameter.kind {
            Kind::Norm => vec![1.0; parameter.len()],
            Kind::Bias => vec![0.0; parameter.len()],
            Kind::Residual => normal(parameter.len(), small, random),
            Kind::Embedding | Kind::Linear => normal(parameter.len(), 0.02, random),
        })
        .collect()
}

/// Values for tests: their size makes logits vary by about one, and makes every part of the model matter.
pub(crate) fn random(config: &ModelConfig, random: &mut impl Rng) -> Vec<Matrix> {
    let centre = if config.architecture.norm == Norm::RmsPlusOne { 0.0 } else { 1.0 };
    let values = |parameter: &Parameter, random: &mut _| match parameter.kind {
        Kind::Norm => normal(parameter.len(), 0.2, random).iter().map(|value| centre + value).collect(),
        Kind::Bias => normal(parameter.len(), 0.2, random),
        Kind::Embedding => normal(parameter.len(), 1.0 / (parameter.shape[1] as f64).sqrt(), random),
        Kind::Linear | Kind::Residual => {
            normal(parameter.len(), 1.0 / (parameter.shape[0] as f64).sqrt(), random)
        }
    };
    let matrix = |parameter: &Parameter| {
        let values: Vec<f32> = values(parameter, random);
        let [outputs, inputs] = parameter.matrix();
        let is_transposed = matches!(parameter.kind, Kind::Linear | Kind::Residual);
        Matrix::from_fn(outputs, inputs, |index| match is_transposed {
            true => values[index % inputs * outputs + index / inputs],
            false => values[index],
        })
    };
    table(config).iter().map(matrix).collect()
}

/// `count` values from a normal distribution with mean zero, by the Box-Muller transform.
pub(crate) fn normal(count: usize, deviation: f64, random: &mut impl Rng) -> Vec<f32> {
    // Uniform on (0, 1], because the logarithm of zero is infinite.
    let mut uniform = || ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    (0..count)
        .map(|_| {
            let radius = (-2.0 * uniform().ln()).sqrt();
            ((std::f64::consts::TAU * uniform()).cos() * radius * deviation) as f32
        })
        .collect()
}
