//! The distributions as a picture: for each time, which part of all masks takes longer. Both axes are logarithmic, so that the
//! tail is seen as well as the middle.

use std::fmt::Write as _;

use super::{
    EngineResult,
    report::{Metric, times},
};

/// The size of a panel, in pixels, and of the margin around it.
const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 60.0;

/// One for each engine.
const COLOURS: [&str; 4] = ["#1f6feb", "#d1242f", "#1a7f37", "#9a6700"];

/// Panels with a curve for each engine, as SVG.
pub(crate) fn plot(results: &[EngineResult]) -> String {
    let panels = [(Metric::FirstMask, "time to first mask"), (Metric::Mask, "mask and token")];
    let (width, height) = (WIDTH + 2.0 * MARGIN, HEIGHT + 2.0 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        2.0 * width
    );
    for (index, (metric, title)) in panels.into_iter().enumerate() {
        let curves: Vec<(&str, Vec<u64>)> =
            results.iter().map(|result| (result.name, times(result, metric, |_| true))).collect();
        let _ = writeln!(out, "<g transform=\"translate({} 0)\">", index as f64 * width);
        out += &panel(title, &curves);
        out += "</g>\n";
    }
    out + "</svg>\n"
}

/// Times are sorted, in nanoseconds.
fn panel(title: &str, curves: &[(&str, Vec<u64>)]) -> String {
    let all = || curves.iter().flat_map(|(_, times)| times);
    let decade = |ns: u64| (ns.max(1) as f64).log10();
    let first = all().copied().min().map_or(0.0, |ns| decade(ns).floor());
    let last = all().copied().max().map_or(1.0, |ns| decade(ns).ceil()).max(first + 1.0);
    let most = curves.iter().map(|(_, times)| times.len()).max().unwrap_or(1).max(10);
    let depth = (most as f64).log10().ceil();
    let x = |log: f64| MARGIN + (log - first) / (last - first) * WIDTH;
    let y = |log: f64| MARGIN - log / depth * HEIGHT;

    let mut out = format!(
        "<text x=\"{MARGIN}\" y=\"{}\">{title}: part of all that takes longer than so many µs</text>\n",
        MARGIN - 20.0
    );
    let mut line = |x1: f64, y1: f64, x2: f64, y2: f64| {
        let _ = writeln!(
            out,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#ddd\"/>"
        );
    };
    let mut labels = String::new();
    let mut log = first;
    while log <= last {
        line(x(log), MARGIN, x(log), MARGIN + HEIGHT);
        let micros = 10f64.powf(log - 3.0);
        let _ = writeln!(
            labels,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{micros}</text>",
            x(log),
            MARGIN + HEIGHT + 18.0
        );
        log += 1.0;
    }
    let mut log = 0.0;
    while log >= -depth {
        line(MARGIN, y(log), MARGIN + WIDTH, y(log));
        let _ = writeln!(
            labels,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            MARGIN - 6.0,
            y(log) + 4.0,
            10f64.powf(log)
        );
        log -= 1.0;
    }
    out += &labels;
    for (index, (name, times)) in curves.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let mut points = String::new();
        let mut last_at = (f64::NAN, f64::NAN);
        for (rank, ns) in times.iter().enumerate() {
            let part = (times.len() - rank) as f64 / times.len() as f64;
            let at = (x(decade(*ns)), y(part.log10()));
            // Points that would fall on each other are left out.
            if !((at.0 - last_at.0).abs() < 0.5 && (at.1 - last_at.1).abs() < 0.5) {
                let _ = write!(points, "{:.1},{:.1} ", at.0, at.1);
                last_at = at;
            }
        }
        let _ = writeln!(
            out,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
        );
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" fill=\"{colour}\" text-anchor=\"end\">{name}</text>",
            MARGIN + WIDTH - 6.0,
            MARGIN + 18.0 + 16.0 * index as f64
        );
    }
    out
}
