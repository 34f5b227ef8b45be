//! The distributions as a picture: for each time, which part of all masks takes longer.

use super::{
    EngineResult,
    report::{Metric, times},
};
use crate::chart::{Curve, Names, Panel, Point, svg};

/// Panels with a curve for each engine, as SVG.
pub(crate) fn plot(results: &[EngineResult]) -> String {
    let panel = |(metric, what): (Metric, &str)| Panel {
        title: format!("{what}: part of all that takes longer than so many µs"),
        curves: results
            .iter()
            .map(|result| Curve {
                name: result.name.to_owned(),
                points: points(&times(result, metric, |_| true)),
            })
            .collect(),
    };
    let panels = [(Metric::FirstMask, "time to first mask"), (Metric::Mask, "mask and token")].map(panel);
    svg(&panels, 2, Names::Inside)
}

/// `times` are sorted, in nanoseconds.
fn points(times: &[u64]) -> Vec<Point> {
    let point = |(rank, ns): (usize, &u64)| Point {
        x: (*ns).max(1) as f64 / 1e3,
        y: (times.len() - rank) as f64 / times.len() as f64,
        error: 0.0,
    };
    times.iter().enumerate().map(point).collect()
}
