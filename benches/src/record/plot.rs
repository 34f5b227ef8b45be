//! Curves as a picture: panels with two logarithmic axes, on which rare and small values are seen as well as the rest.

use std::fmt::Write as _;

/// The size of a panel, in pixels, and of the margin around it.
const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 60.0;

/// Of the curves in turn; from Okabe and Ito (2008), who chose them so that the colour-blind can tell them apart.
const COLOURS: [&str; 3] = ["#0072b2", "#d55e00", "#009e73"];

/// Panels side by side, as SVG, each with a heading and curves by name.
pub(crate) fn panels(panels: &[(String, Vec<Curve<'_>>)]) -> String {
    let (width, height) = (WIDTH + 2.0 * MARGIN, HEIGHT + 2.0 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        panels.len() as f64 * width
    );
    for (index, (heading, curves)) in panels.iter().enumerate() {
        let _ = writeln!(out, "<g transform=\"translate({} 0)\">", index as f64 * width);
        panel(&mut out, heading, curves);
        out += "</g>\n";
    }
    out + "</svg>\n"
}

/// A curve: its name, and points above zero.
pub(crate) type Curve<'a> = (&'a str, Vec<[f64; 2]>);

/// An axis over whole decades, in pixels.
struct Axis {
    first: f64,
    last: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let range = values.map(f64::log10).fold(None, |range: Option<(f64, f64)>, value| {
            let (least, greatest) = range.unwrap_or((value, value));
            Some((least.min(value), greatest.max(value)))
        });
        let (least, greatest) = range.unwrap_or((0.0, 1.0));
        let first = least.floor();
        Self { first, last: greatest.ceil().max(first + 1.0), from, to }
    }

    fn at(&self, value: f64) -> f64 {
        self.from + (value.log10() - self.first) / (self.last - self.first) * (self.to - self.from)
    }

    fn decades(&self) -> impl Iterator<Item = f64> {
        #[allow(clippy::cast_possible_truncation, reason = "a few decades")]
        let powers = self.first as i32..=self.last as i32;
        powers.map(|power| 10f64.powi(power))
    }
}

fn panel(out: &mut String, heading: &str, curves: &[Curve<'_>]) {
    let all = || curves.iter().flat_map(|(_, points)| points);
    let x = Axis::over(all().map(|point| point[0]), MARGIN, MARGIN + WIDTH);
    let y = Axis::over(all().map(|point| point[1]), MARGIN + HEIGHT, MARGIN);
    let text = |out: &mut String, at: [f64; 2], colour: &str, anchor: &str, text: &str| {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\" text-anchor=\"{anchor}\">{text}</text>",
            at[0], at[1]
        );
    };
    let line = |out: &mut String, from: [f64; 2], to: [f64; 2]| {
        let [[x1, y1], [x2, y2]] = [from, to];
        let _ = writeln!(
            out,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#ddd\"/>"
        );
    };
    text(out, [MARGIN, MARGIN - 20.0], "black", "start", heading);
    for value in x.decades() {
        let at = x.at(value);
        line(out, [at, MARGIN], [at, MARGIN + HEIGHT]);
        text(out, [at, MARGIN + HEIGHT + 18.0], "black", "middle", &value.to_string());
    }
    for value in y.decades() {
        let at = y.at(value);
        line(out, [MARGIN, at], [MARGIN + WIDTH, at]);
        text(out, [MARGIN - 6.0, at + 4.0], "black", "end", &value.to_string());
    }
    for ((index, (name, points)), colour) in curves.iter().enumerate().zip(COLOURS.iter().cycle()) {
        let (mut shown, mut before) = (String::new(), [f64::NAN; 2]);
        for point in points {
            let at = [x.at(point[0]), y.at(point[1])];
            // Points that would fall on each other are left out.
            if (at[0] - before[0]).abs() < 0.5 && (at[1] - before[1]).abs() < 0.5 {
                continue;
            }
            before = at;
            let _ = write!(shown, "{:.1},{:.1} ", at[0], at[1]);
        }
        let _ = writeln!(
            out,
            "<polyline points=\"{shown}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
        );
        text(out, [MARGIN + WIDTH - 6.0, MARGIN + 18.0 + 16.0 * index as f64], colour, "end", name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_have_their_places() {
        let mut out = String::new();
        // A decade each way, corner to corner.
        panel(&mut out, "two", &[("a", vec![[1.0, 0.1], [10.0, 0.01]]), ("b", Vec::new())]);
        let line =
            format!("points=\"{:.1},{:.1} {:.1},{:.1} \"", MARGIN, MARGIN, MARGIN + WIDTH, MARGIN + HEIGHT);
        assert_eq!((out.matches("<polyline").count(), out.matches(&line).count()), (2, 1), "{out}");
        assert!(!out.contains("NaN") && !out.contains("inf"), "{out}");
    }
}
