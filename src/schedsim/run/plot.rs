//! Queues and agents over time as SVG.
//!
//! Each configuration has a diagram of queues, and below it one of agents. Each diagram has a line
//! for each of the busiest threads.

use super::summary::{Point, Summary};
use std::fmt::Write as _;

/// Size of a diagram including margins, in pixels.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 240.0;
/// Margins, in pixels: left, right, top and bottom.
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 30.0;
/// Colours for colour-blind readers (Okabe and Ito); black is the total.
const COLOURS: [&str; 6] = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"];

/// A quantity that a diagram shows, and its name.
type Quantity = (&'static str, fn(&Point) -> f64);

const QUANTITIES: [Quantity; 2] = [
    ("recipients in the queue", |point| point.queued as f64),
    ("agents", |point| point.agents as f64),
];

/// Returns the whole picture.
pub(super) fn svg(summaries: &[Summary]) -> String {
    let height = HEIGHT * 2.0 * summaries.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let diagrams = summaries.iter().flat_map(|summary| QUANTITIES.map(|shown| (summary, shown)));
    for (index, (summary, shown)) in diagrams.enumerate() {
        writeln!(out, "<g transform=\"translate(0,{})\">", HEIGHT * index as f64).expect("String");
        diagram(&mut out, summary, shown);
        out += "</g>\n";
    }
    out + "</svg>\n"
}

fn diagram(out: &mut String, summary: &Summary, (what, value): Quantity) {
    let all = ("all", &summary.over_time);
    let threads = summary.threads.iter().map(|thread| (&thread.destination[..], &thread.over_time));
    let lines: Vec<(&str, &Vec<Point>)> = std::iter::once(all).chain(threads).collect();
    let points = lines.iter().flat_map(|(_, points)| *points);
    let highest = points.map(value).fold(1.0, f64::max);
    let top = round_up(highest);
    let x = |time: f64| LEFT + (WIDTH - LEFT - RIGHT) * time / summary.length;
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top;
    let title = escape(&format!("{}: {what}", summary.configuration));
    writeln!(out, "<text x=\"{LEFT}\" y=\"16\" font-weight=\"bold\">{title}</text>")
        .expect("String");
    for part in 0..=4 {
        let (share, hour) =
            (f64::from(part) / 4.0, summary.length / 3600.0 * f64::from(part) / 4.0);
        let (level, time) = (top * share, summary.length * share);
        writeln!(
            out,
            "<path d=\"M{LEFT} {0:.1}H{1:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{2:.1}\" y=\"{3:.1}\" text-anchor=\"end\">{level}</text>\
             <text x=\"{4:.1}\" y=\"{5:.1}\" text-anchor=\"middle\">{hour:.1} h</text>",
            y(level),
            WIDTH - RIGHT,
            LEFT - 6.0,
            y(level) + 4.0,
            x(time),
            HEIGHT - BOTTOM + 16.0,
        )
        .expect("String");
    }
    for (index, (name, points)) in lines.into_iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let points = points.iter().map(|at| format!("{:.1},{:.1}", x(at.time), y(value(at))));
        let points = points.collect::<Vec<_>>().join(" ");
        let (name_x, name) = (LEFT + 130.0 * index as f64, escape(name));
        writeln!(
            out,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\"/>\
             <text x=\"{name_x}\" y=\"32\" fill=\"{colour}\">{name}</text>"
        )
        .expect("String");
    }
}

/// The next number of the form 1, 2 or 4 times a power of ten.
///
/// Its quarters are readable labels for the axis.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.max(1.0).log10().floor());
    [1.0, 2.0, 4.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|top| *top >= value)
        .unwrap_or(value)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_maximum_is_a_round_number() {
        assert_eq!([1.0, 3.0, 5.0, 41.0, 200.0].map(round_up), [1.0, 4.0, 10.0, 100.0, 200.0]);
    }

    #[test]
    fn names_are_escaped_in_svg() {
        assert_eq!(escape("<a&b>"), "&lt;a&amp;b&gt;");
    }
}
