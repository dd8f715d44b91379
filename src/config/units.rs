//! Intervals, retry factors and numbers, in the syntax of the configuration file.
//!
//! ```text
//! 1d2h3m4s    93,784 seconds
//! 1h30         3,630 seconds: a number without a unit counts seconds
//! "2h 3min"    7,380 seconds
//! ```

use super::diagnostic::{ValueError, quote};
use nom::character::complete::{alpha0, digit1, multispace0};
use nom::sequence::preceded;
use nom::{IResult, Offset, Parser};
use std::fmt;
use std::time::Duration;

/// Maximum length of an interval, in seconds: 100 years. Sums of intervals are far from overflow.
const MAX_INTERVAL_SECONDS: u64 = 36_500 * 86_400;
/// Maximum number of retry factors, the same as in the original.
const MAX_RETRY_FACTORS: usize = 100;
/// Maximum number of report times, the same as in the original.
const MAX_REPORT_TIMES: usize = 4;

/// Parses an interval.
///
/// It is a sum of numbers with the units s, m, h and d, which may be spelled out.
pub fn parse_interval(text: &str) -> Result<Duration, ValueError> {
    let mut total: u64 = 0;
    let mut rest = text.trim_ascii_end();
    if rest.is_empty() {
        return Err(ValueError::new(0, "an interval is needed here, such as 1d2h3m4s"));
    }
    while !rest.is_empty() {
        let at = text.len() - text[text.offset(rest)..].trim_ascii_start().len();
        let Ok((after, (digits, unit))) = interval_part(rest) else {
            let junk = text[at..].split_ascii_whitespace().next().unwrap_or_default();
            let message =
                format!("{} does not belong to an interval such as 1d2h3m4s", quote(junk));
            return Err(ValueError::new(at, message));
        };
        let Some(unit) = unit_seconds(unit) else {
            return Err(ValueError::new(
                text.offset(unit),
                format!("{} is not a unit of time (s, m, h, d or w)", quote(unit)),
            ));
        };
        total = digits
            .parse()
            .ok()
            .and_then(|number: u64| number.checked_mul(unit)?.checked_add(total))
            .filter(|total| *total <= MAX_INTERVAL_SECONDS)
            .ok_or_else(|| ValueError::new(at, "this is more than 100 years"))?;
        rest = after;
    }
    Ok(Duration::from_secs(total))
}

/// Parses an interval that must not be zero.
pub(crate) fn parse_nonzero_interval(text: &str) -> Result<Duration, ValueError> {
    match parse_interval(text)? {
        Duration::ZERO => Err(ValueError::new(0, "an interval of 0 is not possible here")),
        interval => Ok(interval),
    }
}

/// `<number>[<unit>]`
fn interval_part(input: &str) -> IResult<&str, (&str, &str)> {
    (preceded(multispace0, digit1), alpha0).parse(input)
}

fn unit_seconds(unit: &str) -> Option<u64> {
    Some(match unit {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => 60,
        "h" | "hour" | "hours" => 3_600,
        "d" | "day" | "days" => 86_400,
        // Postfix's; ZMailer has none.
        "w" | "week" | "weeks" => 604_800,
        _ => return None,
    })
}

/// Parses intervals separated by blanks, at most four as in the original.
///
/// Further ones are ignored, with a warning in `warnings`.
pub(crate) fn parse_intervals(
    text: &str,
    warnings: &mut Vec<ValueError>,
) -> Result<Vec<Duration>, ValueError> {
    let mut times = Vec::new();
    for (at, word) in words(text) {
        if times.len() == MAX_REPORT_TIMES {
            warnings.push(ValueError::new(at, "ignored from here on: at most four are used"));
            break;
        }
        times.push(parse_interval(word).map_err(|error| error.offset_by(at))?);
    }
    if times.is_empty() {
        return Err(ValueError::new(0, "at least one interval is needed here"));
    }
    Ok(times)
}

/// Parses retry factors, which are multiples of the clause's `interval`, separated by blanks.
pub(crate) fn parse_retries(text: &str) -> Result<Vec<u32>, ValueError> {
    let mut factors = Vec::new();
    for (at, word) in words(text) {
        if factors.len() == MAX_RETRY_FACTORS {
            return Err(ValueError::new(at, "more than 100 retry factors"));
        }
        let factor = word.parse().map_err(|_| {
            let message = format!("{} is not a retry factor (a whole number)", quote(word));
            ValueError::new(at, message)
        })?;
        factors.push(factor);
    }
    if factors.is_empty() {
        return Err(ValueError::new(0, "the list of retry factors is empty"));
    }
    Ok(factors)
}

/// Parses a whole number, with or without a sign.
pub(crate) fn parse_number(text: &str) -> Result<i64, ValueError> {
    let trimmed = text.trim_ascii();
    let at = text.len() - text.trim_ascii_start().len();
    trimmed
        .parse()
        .map_err(|_| ValueError::new(at, format!("{} is not a whole number", quote(trimmed))))
}

/// The words of a text, each with its byte offset.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_ascii_whitespace().map(|word| (text.offset(word), word))
}

/// Displays an interval in the syntax of [`parse_interval`]: `1d2h3m4s`, `0`.
pub(crate) struct Interval(pub Duration);

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.as_secs();
        if total == 0 {
            return f.write_str("0");
        }
        let parts = [
            (total / 86_400, 'd'),
            (total / 3_600 % 24, 'h'),
            (total / 60 % 60, 'm'),
            (total % 60, 's'),
        ];
        parts
            .iter()
            .filter(|(amount, _)| *amount > 0)
            .try_for_each(|(amount, unit)| write!(f, "{amount}{unit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn interval_parts_are_summed() {
        // Strings recorded of the original, with the intended values: the original skips a letter
        // after each unit.
        for (text, seconds) in [
            ("90", 90),
            ("1d2h3m4s", 93_784),
            ("1h30", 3_630),
            ("1m1m", 120),
            ("2h 3m", 7_380),
            ("0", 0),
            ("007", 7),
            ("1d1", 86_401),
            ("10s5", 15),
            ("1m30s", 90),
            ("3min", 180),
            ("2hours", 7_200),
            ("5m3", 303),
            ("10sec", 10),
            ("1day 1hour 1minute 1second", 90_061),
            ("  7  ", 7),
            ("2w", 1_209_600),
            ("36500d", MAX_INTERVAL_SECONDS),
        ] {
            assert_eq!(parse_interval(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn invalid_interval_is_reported_at_its_position() {
        for (text, at, message) in [
            ("1y", 1, "`y` is not a unit of time (s, m, h, d or w)"),
            ("5x", 1, "`x` is not a unit of time (s, m, h, d or w)"),
            ("1D", 1, "`D` is not a unit of time (s, m, h, d or w)"),
            ("1M", 1, "`M` is not a unit of time (s, m, h, d or w)"),
            ("1h 2mm", 4, "`mm` is not a unit of time (s, m, h, d or w)"),
            ("1.5h", 1, "`.5h` does not belong to an interval such as 1d2h3m4s"),
            ("-5", 0, "`-5` does not belong to an interval such as 1d2h3m4s"),
            ("3 m", 2, "`m` does not belong to an interval such as 1d2h3m4s"),
            ("soon", 0, "`soon` does not belong to an interval such as 1d2h3m4s"),
            ("", 0, "an interval is needed here, such as 1d2h3m4s"),
            ("  ", 0, "an interval is needed here, such as 1d2h3m4s"),
            ("36501d", 0, "this is more than 100 years"),
            ("1d 99999999999999999999", 3, "this is more than 100 years"),
            ("1é", 1, "`é` does not belong to an interval such as 1d2h3m4s"),
        ] {
            assert_eq!(parse_interval(text), Err(ValueError::new(at, message)), "{text}");
        }
    }

    #[test]
    fn retry_factors_must_be_whole_numbers() {
        assert_eq!(parse_retries("1 1 2 3 5"), Ok(vec![1, 1, 2, 3, 5]));
        assert_eq!(parse_retries("0"), Ok(vec![0]));
        assert_eq!(parse_retries(&"1 ".repeat(100)).map(|list| list.len()), Ok(100));
        for (text, at) in [("", 0), (" ", 0), ("1 -2", 2), ("1 2 x", 4), ("99999999999", 0)] {
            assert_eq!(parse_retries(text).map_err(|error| error.at), Err(at), "{text}");
        }
        assert_eq!(parse_retries(&"1 ".repeat(101)).map_err(|error| error.at), Err(200));
    }

    #[test]
    fn report_times_after_the_fourth_are_ignored() {
        let mut warnings = Vec::new();
        let times = parse_intervals("1h 2h 3h 4h 5h", &mut warnings);
        assert_eq!(times.map(|times| times.len()), Ok(4));
        assert_eq!(warnings.iter().map(|warning| warning.at).collect::<Vec<_>>(), [12]);
        let error = parse_intervals("1h 2y", &mut warnings).map_err(|error| error.at);
        assert_eq!(error, Err(4));
    }

    proptest! {
        #[test]
        fn interval_displayed_and_parsed_is_unchanged(seconds in 0..=MAX_INTERVAL_SECONDS) {
            let span = Duration::from_secs(seconds);
            prop_assert_eq!(parse_interval(&Interval(span).to_string()), Ok(span));
        }

        #[test]
        fn arbitrary_text_does_not_panic(text in "\\PC*", digits in "[0-9smhd é.-]*") {
            for text in [text, digits] {
                for error in [parse_interval(&text).err(), parse_retries(&text).err()] {
                    prop_assert!(error.is_none_or(|error| text.is_char_boundary(error.at)));
                }
            }
        }
    }
}
