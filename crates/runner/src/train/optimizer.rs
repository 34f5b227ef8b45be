//! AdamW on host vectors: first and second moments per weight; the decay is separate from the gradient and for matrices
//! only.
//!
//! The moments start at zero; the step's rate corrects this bias, as in the paper that introduced Adam.

use crate::config::parameters::{Kind, Parameter};

const BETA_1: f64 = 0.9;
const BETA_2: f64 = 0.95;
const EPSILON: f32 = 1e-8;

/// The optimiser's state, in vectors of the weights' lengths.
#[derive(Debug)]
pub(super) struct AdamW {
    /// Running mean of the gradient.
    pub(super) first: Vec<Vec<f32>>,
    /// Running mean of the gradient's square.
    pub(super) second: Vec<Vec<f32>>,
}

/// The numbers of one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    /// Number of the step, from 1.
    pub(super) step: u64,
    pub(super) learning_rate: f64,
    pub(super) weight_decay: f64,
    /// The factor that the gradients are multiplied by first.
    pub(super) gradient_scale: f64,
}

/// The norm of all gradients together.
pub(super) fn norm(gradients: &[Vec<f32>]) -> f64 {
    gradients.iter().flatten().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt()
}

impl AdamW {
    pub(super) fn new(values: &[Vec<f32>]) -> Self {
        let zeros: Vec<Vec<f32>> = values.iter().map(|values| vec![0.0; values.len()]).collect();
        Self { first: zeros.clone(), second: zeros }
    }

    /// Moves `values` one step against `gradients`.
    pub(super) fn update(
        &mut self,
        table: &[Parameter],
        values: &mut [Vec<f32>],
        gradients: &[Vec<f32>],
        rates: Rates,
    ) {
        let exponent = i32::try_from(rates.step).unwrap_or(i32::MAX);
        let rate = (rates.learning_rate / (1.0 - BETA_1.powi(exponent))) as f32;
        let unbias = (1.0 / (1.0 - BETA_2.powi(exponent))) as f32;
        let scale = rates.gradient_scale as f32;
        let (beta_1, beta_2) = (BETA_1 as f32, BETA_2 as f32);
        for (index, parameter) in table.iter().enumerate() {
            let decays = parameter.kind != Kind::Norm;
            let keep = if decays { (1.0 - rates.learning_rate * rates.weight_decay) as f32 } else { 1.0 };
            let moments = self.first[index].iter_mut().zip(self.second[index].iter_mut());
            for ((value, gradient), (first, second)) in
                values[index].iter_mut().zip(&gradients[index]).zip(moments)
            {
                let gradient = gradient * scale;
                *first = beta_1 * *first + (1.0 - beta_1) * gradient;
                *second = beta_2 * *second + (1.0 - beta_2) * gradient * gradient;
                *value = keep * *value - rate * *first / ((*second * unbias).sqrt() + EPSILON);
            }
        }
    }
}
