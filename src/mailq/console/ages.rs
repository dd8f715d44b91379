//! `mailq ages`: how old the mail is, by destination, as Postfix's `qshape` shows it.
//!
//! ```text
//! DESTINATION   RCPTS   5  10  20  40  80  160  320  640  1280  1280+
//! TOTAL          1203  12   0   0   0   0    0    0    0     0   1191
//! smtp/mx.test   1200   9   0   0   0   0    0    0    0     0   1191
//! ```

use crate::screen::{Screen, Style};
use crate::table::{Column, ColumnKind, print_table};
use std::io;
use zsched_mailq_protocol::schema::AGE_LIMITS;
use zsched_mailq_protocol::schema::AgeStatus;

/// Titles of the numbers of recipients younger than each of [`AGE_LIMITS`], and of the rest.
const TITLES: [&str; AGE_LIMITS.len() + 1] =
    ["5", "10", "20", "40", "80", "160", "320", "640", "1280", "1280+"];
/// The same where two ages share a column, so that names can be read.
const NARROW_TITLES: [&str; TITLES.len() / 2] = ["10", "40", "160", "640", "640+"];
/// Minimum line width for a column for each age.
const MIN_WIDTH_OF_ALL: usize = 100;

/// Prints the table. The first row is the total.
pub(super) fn print(rows: &[AgeStatus], screen: &mut Screen<'_>) -> io::Result<()> {
    let number = |title, number: Box<dyn Fn(&AgeStatus) -> u64>| {
        Column::new(title, ColumnKind::Number, move |row: &AgeStatus| match number(row) {
            0 => ("0".to_string(), Style::Dim),
            // Without separators, so that more columns fit.
            count => (count.to_string(), Style::Plain),
        })
    };
    let name = |row: &AgeStatus| match (&row.channel, &row.host) {
        (Some(channel), Some(host)) => format!("{channel}/{host}"),
        _ => "TOTAL".to_string(),
    };
    let mut columns = vec![
        Column::name("DESTINATION", name),
        number("RCPTS", Box::new(|row: &AgeStatus| row.recipients)),
    ];
    let (titles, shared) = match screen.columns() {
        Some(columns) if columns < MIN_WIDTH_OF_ALL => (&NARROW_TITLES[..], 2),
        _ => (&TITLES[..], 1),
    };
    columns.extend(titles.iter().enumerate().map(|(place, title)| {
        let sum = move |row: &AgeStatus| row.ages.iter().skip(place * shared).take(shared).sum();
        number(title, Box::new(sum))
    }));
    print_table(&columns, rows, screen)
}
