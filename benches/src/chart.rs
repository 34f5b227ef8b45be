//! Charts as SVG, for the records: panels with curves on two logarithmic axes, so that what is rare or small is seen as well
//! as the rest.

use std::fmt::Write as _;

/// The size of a panel, in pixels, and of the margin around it.
const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 60.0;

/// Of the curves in turn; the first of Okabe and Ito (2008), who chose them so that the colour-blind can tell them apart.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222", "#999999"];
/// Of the curves that take a colour again, in turn.
const DASHES: [&str; 3] = ["none", "7 3", "2 3"];

/// A curve.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub(crate) name: String,
    /// In the order in which they are joined. What is not positive has no place and is left out.
    pub(crate) points: Vec<Point>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Half the height of a bar around it: none for zero.
    pub(crate) error: f64,
}

/// Some curves on the same axes.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    /// What it shows, and what its axes are.
    pub(crate) title: String,
    pub(crate) curves: Vec<Curve>,
}

/// Where the names of the curves stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Names {
    /// In each panel.
    Inside,
    /// Above all, once: all panels have the same curves in the same order.
    Above,
}

/// The panels, so many in a row.
pub(crate) fn svg(panels: &[Panel], columns: usize, names: Names) -> String {
    /// Of a name above, and of a line of them.
    const ROOM: f64 = 200.0;
    const LINE: f64 = 18.0;
    let (width, height) = (WIDTH + 2.0 * MARGIN, HEIGHT + 2.0 * MARGIN);
    let whole = width * columns as f64;
    let mut head = String::new();
    let mut top = 0.0;
    if let (Names::Above, Some(panel)) = (names, panels.first()) {
        let in_line = (((whole - 2.0 * MARGIN) / ROOM) as usize).max(1);
        for (index, curve) in panel.curves.iter().enumerate() {
            let (x, y) = (MARGIN + ROOM * (index % in_line) as f64, 24.0 + LINE * (index / in_line) as f64);
            let _ = writeln!(
                head,
                "<line x1=\"{x}\" y1=\"{0}\" x2=\"{1}\" y2=\"{0}\" {2}/>\n<text x=\"{3}\" y=\"{y}\">{4}</text>",
                y - 4.0,
                x + 28.0,
                stroke(index),
                x + 34.0,
                curve.name
            );
            top = y + 8.0;
        }
    }
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {whole} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{head}",
        top + height * panels.len().div_ceil(columns) as f64
    );
    for (index, panel) in panels.iter().enumerate() {
        let (x, y) = ((index % columns) as f64 * width, top + (index / columns) as f64 * height);
        let _ = writeln!(out, "<g transform=\"translate({x} {y})\">");
        draw(&mut out, panel, names == Names::Inside);
        out += "</g>\n";
    }
    out + "</svg>\n"
}

fn stroke(index: usize) -> String {
    let dash = DASHES[index / COLOURS.len() % DASHES.len()];
    format!(
        "fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" stroke-dasharray=\"{dash}\"",
        COLOURS[index % COLOURS.len()]
    )
}

/// An axis over whole decades, in pixels.
struct Axis {
    first: f64,
    last: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let range = values.fold(None, |range: Option<(f64, f64)>, value| {
            let (least, greatest) = range.unwrap_or((value, value));
            Some((least.min(value), greatest.max(value)))
        });
        let (least, greatest) = range.unwrap_or((1.0, 10.0));
        let first = least.log10().floor();
        Self { first, last: greatest.log10().ceil().max(first + 1.0), from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.log10() - self.first) / (self.last - self.first);
        // A bar may reach beyond what there is.
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn decades(&self) -> impl Iterator<Item = f64> {
        let mut next = self.first;
        let last = self.last;
        std::iter::from_fn(move || {
            let at = next;
            next += 1.0;
            (at <= last).then(|| 10f64.powf(at))
        })
    }
}

fn draw(out: &mut String, panel: &Panel, has_names: bool) {
    let shown = |point: &&Point| point.x > 0.0 && point.y > 0.0 && point.x.is_finite() && point.y.is_finite();
    let all = || panel.curves.iter().flat_map(|curve| &curve.points).filter(shown);
    let x = Axis::over(all().map(|point| point.x), MARGIN, MARGIN + WIDTH);
    let y = Axis::over(all().map(|point| point.y), MARGIN + HEIGHT, MARGIN);
    let _ = writeln!(out, "<text x=\"{MARGIN}\" y=\"{}\">{}</text>", MARGIN - 20.0, panel.title);
    let line = |out: &mut String, x1: f64, y1: f64, x2: f64, y2: f64, colour: &str| {
        let _ = writeln!(
            out,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
        );
    };
    for value in x.decades() {
        let at = x.at(value);
        line(out, at, MARGIN, at, MARGIN + HEIGHT, "#ddd");
        let below = MARGIN + HEIGHT + 18.0;
        let _ =
            writeln!(out, "<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{}</text>", label(value));
    }
    for value in y.decades() {
        let at = y.at(value);
        line(out, MARGIN, at, MARGIN + WIDTH, at, "#ddd");
        let left = MARGIN - 6.0;
        let _ = writeln!(
            out,
            "<text x=\"{left}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            at + 4.0,
            label(value)
        );
    }
    for (index, curve) in panel.curves.iter().enumerate() {
        let mut points = String::new();
        let mut before = (f64::NAN, f64::NAN);
        for point in curve.points.iter().filter(shown) {
            let at = (x.at(point.x), y.at(point.y));
            // Points that would fall on each other are left out.
            if (at.0 - before.0).abs() < 0.5 && (at.1 - before.1).abs() < 0.5 {
                continue;
            }
            before = at;
            let _ = write!(points, "{:.1},{:.1} ", at.0, at.1);
            if point.error > 0.0 {
                let low = y.at((point.y - point.error).max(f64::MIN_POSITIVE));
                let colour = COLOURS[index % COLOURS.len()];
                line(out, at.0, low, at.0, y.at(point.y + point.error), colour);
            }
        }
        let _ = writeln!(out, "<polyline points=\"{points}\" {}/>", stroke(index));
        if has_names {
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{}\" fill=\"{}\" text-anchor=\"end\">{}</text>",
                MARGIN + WIDTH - 6.0,
                MARGIN + 18.0 + 16.0 * index as f64,
                COLOURS[index % COLOURS.len()],
                curve.name
            );
        }
    }
}

/// A power of ten.
fn label(value: f64) -> String {
    if (1e-4..1e6).contains(&value) { format!("{value}") } else { format!("{value:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, points: &[(f64, f64)]) -> Curve {
        let points = points.iter().map(|(x, y)| Point { x: *x, y: *y, error: 0.5 * y }).collect();
        Curve { name: name.to_owned(), points }
    }

    #[test]
    fn points_have_their_places_and_what_has_none_is_left_out() {
        let points = [(0.0, 1.0), (1.0, 0.1), (10.0, 0.01), (100.0, f64::INFINITY)];
        let panel = Panel { title: "two".to_owned(), curves: vec![curve("a", &points), curve("b", &[])] };
        let svg = svg(&[panel.clone(), panel], 2, Names::Above);
        assert_eq!(svg.matches("<polyline").count(), 4);
        // A decade each way, corner to corner.
        let line =
            format!("points=\"{:.1},{:.1} {:.1},{:.1} \"", MARGIN, MARGIN, MARGIN + WIDTH, MARGIN + HEIGHT);
        assert_eq!(svg.matches(&line).count(), 2, "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
