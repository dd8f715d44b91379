//! Queues, agents and delays over time as SVG.
//!
//! Each quantity has a diagram for each configuration, one below the other and with the same scale.
//! Each diagram has a line for each of the busiest threads.

use super::summary::{Point, Summary};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;
use zsched_format::printable::{cut, grouped};

/// Size of a diagram, in pixels.
const WIDTH: u32 = 960;
const HEIGHT: u32 = 220;
/// Part of the width for the names of lines.
///
/// It is relative to the width of the lines.
const LEGEND_WIDTH: f64 = 0.36;
/// Maximum length of a name there, in characters.
const MAX_NAME_LEN: usize = 28;
/// Colours for colour-blind readers (Okabe and Ito); black is the total.
const COLOURS: [RGBColor; 6] = [
    BLACK,
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
];

/// A quantity that a diagram shows, and its name.
struct Quantity {
    name: &'static str,
    /// `None` leaves a gap in the line.
    of: fn(&Point) -> Option<f64>,
    /// True if it is a time in seconds.
    is_time: bool,
}

const QUANTITIES: [Quantity; 3] = [
    Quantity {
        name: "recipients in the queue",
        of: |point| Some(point.queued as f64),
        is_time: false,
    },
    Quantity { name: "agents", of: |point| Some(point.agents as f64), is_time: false },
    Quantity {
        name: "delay of 90 % of what was delivered then",
        of: |point| point.delay.map(|delay| delay.p90),
        is_time: true,
    },
];

/// Returns the whole picture.
pub(super) fn svg(summaries: &[Summary]) -> Result<String, Box<dyn Error>> {
    let mut out = String::new();
    let count = QUANTITIES.len() * summaries.len();
    let picture = SVGBackend::with_string(&mut out, (WIDTH, HEIGHT * count as u32));
    let picture = picture.into_drawing_area();
    picture.fill(&WHITE)?;
    let areas = picture.split_evenly((count, 1));
    let diagrams = QUANTITIES
        .iter()
        .flat_map(|quantity| summaries.iter().map(move |summary| (quantity, summary)));
    for (area, (quantity, summary)) in areas.iter().zip(diagrams) {
        let lines = summaries.iter().flat_map(lines).flat_map(|(_, points)| points);
        let highest = lines.filter_map(quantity.of).fold(1.0, f64::max);
        draw(area, quantity, summary, highest)?;
    }
    picture.present()?;
    drop((areas, picture));
    Ok(out)
}

/// The lines of a diagram: all mail, then the busiest threads.
fn lines(summary: &Summary) -> impl Iterator<Item = (&str, &Vec<Point>)> {
    let threads = summary.threads.iter().map(|thread| (&*thread.destination, &thread.over_time));
    std::iter::once(("all", &summary.over_time)).chain(threads)
}

/// A unit for times up to `highest` seconds: its seconds and its name.
fn unit(highest: f64) -> (f64, &'static str) {
    match highest {
        7200.0.. => (3600.0, " h"),
        120.0.. => (60.0, " min"),
        _ => (1.0, " s"),
    }
}

/// Formats a number at an axis.
fn number(value: f64, unit: &str) -> String {
    match value.fract() == 0.0 {
        true => format!("{}{unit}", grouped(value as u64)),
        false => format!("{value:.1}{unit}"),
    }
}

/// Draws a diagram with values up to `highest`.
fn draw(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    quantity: &Quantity,
    summary: &Summary,
    highest: f64,
) -> Result<(), Box<dyn Error>> {
    let ((length_unit, length_name), (unit, unit_name)) =
        (unit(summary.length), if quantity.is_time { unit(highest) } else { (1.0, "") });
    let length = summary.length / length_unit;
    let caption = format!("{}: {}", summary.configuration, quantity.name);
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(72)
        // The names of the lines are beside the lines.
        .build_cartesian_2d(0.0..length * (1.0 + LEGEND_WIDTH), 0.0..highest / unit * 1.05)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .y_labels(6)
        .x_label_formatter(&|time| match *time <= length {
            true => number(*time, length_name),
            false => String::new(),
        })
        .y_label_formatter(&|value| number(*value, unit_name))
        .draw()?;
    for ((name, points), colour) in lines(summary).zip(COLOURS.iter().cycle()) {
        let values: Vec<Option<(f64, f64)>> = points
            .iter()
            .map(|point| Some((point.time / length_unit, (quantity.of)(point)? / unit)))
            .collect();
        let parts = values.split(Option::is_none).filter(|part| !part.is_empty());
        for part in parts {
            // A value between two gaps is a dot.
            let size = u32::from(part.len() == 1);
            let part = part.iter().flatten().copied();
            chart.draw_series(LineSeries::new(part, colour).point_size(size))?;
        }
        chart
            .draw_series(std::iter::once(PathElement::new(Vec::new(), colour)))?
            .label(cut(name, MAX_NAME_LEN))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE)
        .draw()?;
    Ok(())
}
