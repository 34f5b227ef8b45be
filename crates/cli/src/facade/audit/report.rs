//! The page of an audit: one HTML file with its style and its plots inside, readable without a
//! network, a script or a colour printer.
//!
//! Plots are SVG, made here: two axes and some lines are less than a plotting library would bring, and a page with a
//! script is one that a mail program shows empty. Lines differ by colour, dash and a name at their end.

use std::fmt::Write;

use super::{
    answers::{answers, outcomes, traces},
    measure::Line,
};

/// The content of a page.
#[derive(Clone)]
pub(super) struct Page {
    pub(super) constraint: String,
    pub(super) prompt: String,
    pub(super) seed: u64,
    pub(super) samples: usize,
    /// The outputs of a point of a curve.
    pub(super) window: usize,
    /// The probability that the model satisfies the constraint, where it is known.
    pub(super) mass: Option<f64>,
    /// Whether the target was enumerated.
    pub(super) is_exact: bool,
    /// The outputs of the target distribution.
    pub(super) outputs: usize,
    pub(super) lines: Vec<Line>,
    pub(super) curves: Vec<Curve>,
    pub(super) outcomes: Vec<Outcome>,
    /// The sampler that the traced outputs are of.
    pub(super) skewed: String,
    pub(super) traced: Vec<Traced>,
}

/// Distance against cost.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) sampler: String,
    pub(super) points: Vec<Point>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// Evaluated positions so far.
    pub(super) positions: f64,
    /// Outputs begun so far.
    pub(super) proposals: f64,
    /// The divergence, in nats.
    pub(super) kl: f64,
}

/// One output: its probability, and how often each sampler gave it.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// `None`: all others together.
    pub(super) text: Option<String>,
    pub(super) target: f64,
    pub(super) shares: Vec<f64>,
}

/// One output, token by token.
#[derive(Clone, Debug)]
pub(super) struct Traced {
    pub(super) text: String,
    pub(super) target: f64,
    pub(super) drawn: f64,
    pub(super) steps: Vec<TracedStep>,
}

/// A token of an output.
#[derive(Clone, Debug)]
pub(super) struct TracedStep {
    /// Its text; none of the end.
    pub(super) text: Option<String>,
    pub(super) p: f64,
    /// The logarithm of the mass that the mask left.
    pub(super) log_mass: f64,
    /// The most probable token that the mask forbids, and its probability.
    pub(super) instead: Option<(String, f64)>,
}

/// Colours, readable on white and on black; the first six are those of Okabe and Ito (2008), which the colour-blind
/// can tell apart.
const COLOURS: [&str; 12] = [
    "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#a6761d", "#8a5bd1",
    "#b8b000", "#e7298a", "#1b9e9e",
];

/// Dashes, for a page on paper.
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "9 3 2 3"];

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1b1b;--soft:#666;--line:#d8d8d8;--paper:#fff;--box:#f6f6f4;--lost:#d55e00;--kept:#0072b2}\
@media(prefers-color-scheme:dark){:root{--ink:#eaeaea;--soft:#a5a5a5;--line:#3c3c3c;--paper:#161616;--box:#212121;--lost:#e8823a;--kept:#4ea3dd}}\
*{box-sizing:border-box}body{margin:0 auto;max-width:60rem;padding:2rem 1.25rem 4rem;background:var(--paper);color:var(--ink);\
font:16px/1.5 system-ui,sans-serif}h1{font-size:1.6rem;margin:0 0 .25rem}h2{font-size:1.15rem;margin:2.5rem 0 .5rem}\
p{max-width:46rem}.soft{color:var(--soft)}code{font:.92em ui-monospace,monospace;background:var(--box);padding:.1em .3em;\
border-radius:3px;overflow-wrap:anywhere}.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;\
font-variant-numeric:tabular-nums}th,td{padding:.3rem .55rem;text-align:right;border-bottom:1px solid var(--line);\
white-space:nowrap}th{white-space:normal;vertical-align:bottom}\
th:first-child,td:first-child,td.text{text-align:left}td.text{white-space:normal;min-width:14rem;color:var(--soft)}\
svg{display:block;width:100%;height:auto}svg text{fill:var(--ink);font:13px system-ui,sans-serif}svg .soft{fill:var(--soft)}\
svg .grid{stroke:var(--line)}svg .target{stroke:var(--ink)}.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;\
margin-right:.4em}.output{margin:1rem 0 1.6rem}.steps{display:flex;flex-wrap:wrap;gap:3px;margin-top:.4rem}\
.step{width:4.6rem;background:var(--box);border-radius:4px;padding:.25rem .3rem;font-size:.75rem;line-height:1.35}\
.step b{display:block;font:.85rem ui-monospace,monospace;white-space:pre;overflow:hidden;text-overflow:ellipsis}\
.answer{font-size:1.1rem;margin:.5rem 0}.outcome{display:grid;grid-template-columns:minmax(7rem,16rem) 1fr;gap:.8rem;padding:.35rem 0;\
border-bottom:1px solid var(--line);align-items:center}.outcome .text{font:.9rem ui-monospace,monospace;overflow-wrap:anywhere}\
.share{display:flex;align-items:center;gap:.4rem;font-size:.72rem;line-height:1;color:var(--soft)}.share i{height:8px;min-width:1px;border-radius:2px}\
.bar{height:7px;background:var(--lost);border-radius:2px;margin:.15rem 0;overflow:hidden}.bar i{display:block;height:100%;\
background:var(--kept)}.end b{font-family:system-ui,sans-serif;color:var(--soft)}";

/// The page.
pub(super) fn html(page: &Page) -> String {
    let mut out = String::new();
    out.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    out.push_str("<title>unskew audit</title>\n<style>");
    out.push_str(STYLE);
    out.push_str("</style>\n</head>\n<body>\n<main>\n");
    header(&mut out, page);
    answers(&mut out, page);
    outcomes(&mut out, page);
    summary(&mut out, page);
    if !page.traced.is_empty() {
        traces(&mut out, page);
    }
    section(
        &mut out,
        "Distance from the model\u{2019}s own distribution, against its cost",
        &curve_text(page),
    );
    plot(&mut out, page, &page.curves, "evaluated positions, all outputs together", |point| point.positions);
    let text = "The same against the number of outputs begun, those given up half-way among them. A prefix that is known costs no \
         evaluation; where all are known, as in small tasks, this plot tells samplers apart.";
    out.push_str("<p class=\"soft\">");
    out.push_str(text);
    out.push_str("</p>\n");
    plot(&mut out, page, &page.curves, "outputs begun", |point| point.proposals);
    frontier(&mut out, page);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// Appends formatted text; a string takes all that is written to it.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => { let _ = write!($out, $($arg)*); };
}

pub(super) use put;

pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push('\u{23ce}'),
            '\t' => out.push('\u{21e5}'),
            // Not allowed in a page.
            char if char.is_control() => out.push('\u{fffd}'),
            char => out.push(char),
        }
    }
    out
}

/// The beginning of a text, with a mark where it goes on.
pub(super) fn shorten(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    text.chars().take(chars - 1).chain(['\u{2026}']).collect()
}

pub(super) fn section(out: &mut String, title: &str, text: &str) {
    put!(out, "<h2>{title}</h2>\n<p class=\"soft\">{text}</p>\n");
}

fn header(out: &mut String, page: &Page) {
    put!(
        out,
        "<h1>How far samplers move the model</h1>\n<p class=\"soft\"><code>{}</code>",
        escape(&page.constraint)
    );
    if !page.prompt.is_empty() {
        put!(out, " after <code>{}</code>", escape(&page.prompt));
    }
    put!(out, "; {} outputs of each sampler, seed {}</p>\n", page.samples, page.seed);
}

/// A number with some digits, however small.
pub(super) fn number(value: f64) -> String {
    if value == 0.0 || (0.001..10_000.0).contains(&value.abs()) {
        let digits: usize = if value.abs() >= 100.0 {
            0
        } else if value.abs() >= 1.0 {
            2
        } else {
            4
        };
        format!("{value:.digits$}")
    } else {
        format!("{value:.2e}")
    }
}

pub(super) fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

fn summary(out: &mut String, page: &Page) {
    section(
        out,
        "The samplers in numbers",
        "Distances are of texts. Those of sequences of tokens count the spellings of a text apart: a mask draws rare ones, \
         which <code>canonical</code> masks do not.",
    );
    out.push_str(
        "<div class=\"wide\"><table>\n<thead><tr><th>sampler</th><th>total variation</th><th>KL (nats)</th><th>of that, \
         noise</th><th>KL of sequences</th><th>by weights</th><th>positions each</th><th>accepted</th><th>effective \
         samples</th></tr></thead>\n<tbody>\n",
    );
    for (index, line) in page.lines.iter().enumerate() {
        let optional = |value: Option<f64>| value.map_or("\u{2013}".to_owned(), number);
        put!(
            out,
            "<tr><td><span class=\"key\" style=\"background:{}\"></span>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{:.1}&nbsp;%</td><td>{:.0} of {}</td></tr>\n",
            colour(index),
            escape(&line.label),
            optional(line.tv_text),
            optional(line.kl_text),
            number(line.kl_text_noise),
            optional(line.kl),
            optional(line.kl_by_weights),
            number(line.lm_calls_per_sample),
            line.acceptance * 100.0,
            line.ess,
            line.samples,
        );
    }
    out.push_str("</tbody>\n</table></div>\n<p class=\"soft\">");
    for line in &page.lines {
        put!(out, "<b>{}</b>: {}", escape(&line.label), escape(line.distribution));
        if line.cut > 0 {
            put!(out, "; {} outputs were cut off at the length limit", line.cut);
        }
        if let Some(error) = &line.error {
            put!(out, "; it stopped: {}", escape(error));
        }
        out.push_str(".<br>\n");
    }
    out.push_str(
        "KL is the divergence of frequencies from the target. So few outputs of an exact sampler would have about the value \
         under \u{201c}noise\u{201d} themselves. \u{201c}By weights\u{201d} is the divergence of the sampler itself, by P(constraint) and \
         the mean of the logarithms of its weights: it has no such noise. A position that is known is not evaluated again.</p>\n",
    );
}

fn curve_text(page: &Page) -> String {
    format!(
        "Each point is the divergence of the last {} outputs (all, while there are fewer) from the target. With few outputs \
         every sampler begins high on the left: that is noise. The line of an exact sampler falls to \
         the level of noise, that of a biased one stays above it.",
        page.window
    )
}

/// Each sampler as one point: the cost of an output, and how far all of its outputs are from the target.
fn frontier(out: &mut String, page: &Page) {
    let Some(best) = page.lines.iter().find(|line| line.recommended) else { return };
    let on_it: Vec<String> = page
        .lines
        .iter()
        .filter(|line| line.frontier)
        .map(|line| format!("<code>{}</code>", escape(&line.label)))
        .collect();
    let text = format!(
        "Each point is a sampler: the positions that one output of it costs, and the divergence of all its outputs. On the          frontier, where no other sampler is nearer for as little, are {}. Recommended is <code>{}</code>, the cheapest whose divergence          is the least within the noise.",
        on_it.join(", "),
        escape(&best.label)
    );
    section(out, "The frontier", &text);
    let point = |line: &Line| Point {
        positions: line.lm_calls_per_sample,
        proposals: 0.0,
        kl: line.kl.unwrap_or(f64::INFINITY),
    };
    let curve = |line: &Line| Curve { sampler: line.label.clone(), points: vec![point(line)] };
    let points: Vec<Curve> = page.lines.iter().map(curve).collect();
    plot(out, page, &points, "evaluated positions of an output", |point| point.positions);
}

/// The place of a chart, in units of its view box.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 400.0;
/// Its margins.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;

/// A logarithmic axis from `low` to `high`, which are powers of ten.
#[derive(Clone, Copy)]
struct Axis {
    low: i32,
    high: i32,
    from: f64,
    to: f64,
}

impl Axis {
    fn around(low: f64, high: f64, from: f64, to: f64) -> Self {
        #[allow(clippy::cast_possible_truncation, reason = "the logarithm of an f64 is below 400")]
        let power = |value: f64| value as i32;
        let low = power(low.max(1e-12).log10().floor());
        let high = power(high.max(1e-12).log10().ceil()).max(low + 1);
        Self { low, high, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.max(1e-300).log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn ticks(&self) -> impl Iterator<Item = (f64, String)> + use<> {
        let axis = *self;
        (self.low..=self.high).map(move |power| {
            let value = 10f64.powi(power);
            let text = if (-3..=4).contains(&power) { format!("{value}") } else { format!("1e{power}") };
            (axis.at(value), text)
        })
    }
}

fn plot(out: &mut String, page: &Page, curves: &[Curve], axis: &str, cost: fn(&Point) -> f64) {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    if points().next().is_none() {
        out.push_str("<p>No sampler gave an output.</p>\n");
        return;
    }
    let least = page.lines.iter().map(|line| line.kl_noise).filter(|noise| *noise > 0.0).fold(1.0, f64::min);
    let bounds = |of: fn(&Point) -> f64| {
        let values = points().map(of).filter(|value| *value > 0.0 && value.is_finite());
        values.fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)))
    };
    let (low_cost, high_cost) = bounds(cost);
    let (low_kl, high_kl) = bounds(|point| point.kl);
    let (low_cost, low_kl) = (low_cost.min(high_cost.max(1.0)), low_kl.min(high_kl.max(least)));
    let x = Axis::around(low_cost, high_cost, LEFT, WIDTH - RIGHT);
    let y = Axis::around(low_kl.max(least / 4.0), high_kl.max(least), HEIGHT - BOTTOM, TOP);
    put!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"KL divergence against {axis}\">\n"
    );
    for (at, text) in x.ticks() {
        let bottom = HEIGHT - BOTTOM;
        put!(out, "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>");
        put!(
            out,
            "<text class=\"soft\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>\n",
            bottom + 18.0
        );
    }
    for (at, text) in y.ticks() {
        let right = WIDTH - RIGHT;
        put!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>");
        put!(
            out,
            "<text class=\"soft\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>\n",
            LEFT - 8.0,
            at + 4.0
        );
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    put!(
        out,
        "<text class=\"soft\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{axis}</text>\n",
        HEIGHT - 6.0
    );
    put!(out, "<text class=\"soft\" x=\"{LEFT}\" y=\"{}\" dx=\"6\" dy=\"6\">KL, nats</text>\n", TOP + 8.0);
    // The divergence of an exact sampler in a full window.
    let window = page.samples.min(page.window);
    #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let noise = (page.outputs as f64 - 1.0) / (2.0 * window as f64);
    if noise > 0.0 {
        let at = y.at(noise);
        let right = WIDTH - RIGHT;
        put!(
            out,
            "<line class=\"target\" stroke-dasharray=\"2 4\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"
        );
        put!(
            out,
            "<text class=\"soft\" x=\"{}\" y=\"{:.1}\">noise of {window}</text>\n",
            LEFT + 6.0,
            at - 5.0
        );
    }
    let mut labels: Vec<(f64, f64, usize)> = Vec::new();
    for (index, curve) in curves.iter().enumerate() {
        let line: Vec<String> = curve
            .points
            .iter()
            .filter(|point| point.kl.is_finite())
            .map(|point| format!("{:.1},{:.1}", x.at(cost(point)), y.at(point.kl)))
            .collect();
        let Some(last) = curve.points.iter().rev().find(|point| point.kl.is_finite()) else {
            continue;
        };
        put!(
            out,
            "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2.2\" stroke-dasharray=\"{}\" stroke-linejoin=\"round\" \
             points=\"{}\"><title>{}</title></polyline>\n",
            colour(index),
            DASHES[index % DASHES.len()],
            line.join(" "),
            escape(&curve.sampler)
        );
        put!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{}\"/>\n",
            x.at(cost(last)),
            y.at(last.kl),
            colour(index)
        );
        labels.push((x.at(cost(last)), y.at(last.kl), index));
    }
    // Names at the ends of lines, pushed apart where they would cover each other.
    labels.sort_by(|left, right| left.1.total_cmp(&right.1));
    let mut below = f64::NEG_INFINITY;
    for (_, at, index) in labels {
        let place = at.max(below + 15.0);
        below = place;
        let sampler = escape(&curves[index].sampler);
        put!(
            out,
            "<text x=\"{}\" y=\"{:.1}\" style=\"fill:{}\">{sampler}</text>\n",
            WIDTH - RIGHT + 10.0,
            place + 4.0,
            colour(index)
        );
    }
    out.push_str("</svg>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_users_is_no_markup() {
        assert_eq!(escape("<b a=\"1\">&\n\u{7}"), "&lt;b a=&quot;1&quot;&gt;&amp;\u{23ce}\u{fffd}");
        assert_eq!(shorten("abcdef", 4), "abc\u{2026}");
        assert_eq!(
            (number(0.0), number(0.5), number(1e-9), number(12.3456)),
            ("0.0000".into(), "0.5000".into(), "1.00e-9".into(), "12.35".into())
        );
    }

    #[test]
    fn axes_hold_their_values() {
        let axis = Axis::around(3.0, 4_500.0, 0.0, 400.0);
        assert_eq!((axis.low, axis.high), (0, 4));
        assert!((axis.at(100.0) - 200.0).abs() < 1e-9);
        assert_eq!(axis.ticks().count(), 5);
        let flat = Axis::around(10.0, 10.0, 0.0, 1.0);
        assert!(flat.at(10.0).is_finite() && flat.high > flat.low);
    }
}
