//! Queues and agents over time as SVG.
//!
//! Each configuration has a diagram of queues, and below it one of agents. Each diagram has a line
//! for each of the busiest threads. Diagrams of the same quantity have the same scale.

use super::summary::{Point, Summary};
use plotters::prelude::*;
use std::error::Error;

/// Size of a diagram, in pixels.
const WIDTH: u32 = 860;
const HEIGHT: u32 = 240;
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
type Quantity = (&'static str, fn(&Point) -> f64);

const QUANTITIES: [Quantity; 2] = [
    ("recipients in the queue", |point| point.queued as f64),
    ("agents", |point| point.agents as f64),
];

/// Returns the whole picture.
pub(super) fn svg(summaries: &[Summary]) -> Result<String, Box<dyn Error + '_>> {
    let mut out = String::new();
    let size = (WIDTH, HEIGHT * (summaries.len() * QUANTITIES.len()) as u32);
    let picture = SVGBackend::with_string(&mut out, size).into_drawing_area();
    picture.fill(&WHITE)?;
    let areas = picture.split_evenly((summaries.len() * QUANTITIES.len(), 1));
    let diagrams = summaries.iter().flat_map(|summary| QUANTITIES.map(|shown| (summary, shown)));
    for (area, (summary, (what, value))) in areas.iter().zip(diagrams) {
        let points = summaries.iter().flat_map(|summary| &summary.over_time);
        let highest = points.map(value).fold(1.0, f64::max);
        let hours = summary.length / 3600.0;
        let mut chart = ChartBuilder::on(area)
            .caption(format!("{}: {what}", summary.configuration), ("sans-serif", 16))
            .margin(8)
            .x_label_area_size(24)
            .y_label_area_size(64)
            // The names of the lines are beside the lines.
            .build_cartesian_2d(0.0..hours * 1.3, 0.0..highest * 1.05)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .x_label_formatter(&|hour| match *hour <= hours {
                true => format!("{hour:.1} h"),
                false => String::new(),
            })
            .y_label_formatter(&|value| value.to_string())
            .draw()?;
        let threads =
            summary.threads.iter().map(|thread| (&*thread.destination, &thread.over_time));
        let lines = std::iter::once(("all", &summary.over_time)).chain(threads);
        for ((name, points), colour) in lines.zip(COLOURS.iter().cycle()) {
            let points = points.iter().map(|point| (point.time / 3600.0, value(point)));
            chart
                .draw_series(LineSeries::new(points, colour))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE)
            .draw()?;
    }
    picture.present()?;
    drop((areas, picture));
    Ok(out)
}
