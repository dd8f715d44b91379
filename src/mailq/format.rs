//! Formats of text, time spans, times and numbers for people.

use zsched_config::parse_interval;
use zsched_format::printable;
pub(crate) use zsched_format::printable::{count, cut, grouped};
use zsched_format::time::{ShortDuration, Timestamp};

/// Makes foreign text printable, on one line with single blanks.
pub(crate) fn one_line(text: &str) -> String {
    printable::line(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The last line of the text of an agent.
///
/// Agents put CR between the lines of a dialogue. The last one is the answer that counts.
pub(crate) fn last_line(text: &str) -> String {
    let line = text.split(['\r', '\n']).rev().map(str::trim).find(|line| !line.is_empty());
    one_line(line.unwrap_or_default())
}

/// Formats seconds as a span of at most two parts.
///
/// For example `3s`, `12m34s`, `1h2m`, `1d18h`.
pub(crate) fn span(seconds: f64) -> String {
    // About 317 years are enough for any value that is received.
    let whole = seconds.clamp(-1e10, 1e10).round() as i64;
    // Spans of an hour or more have no seconds, spans of a day or more no minutes.
    let whole = match whole.abs() {
        3_600..86_400 => whole / 60 * 60,
        86_400.. => whole / 3_600 * 3_600,
        _ => whole,
    };
    ShortDuration(whole).to_string()
}

/// Formats seconds as a span, or `None` as a dash.
pub(crate) fn span_or_dash(seconds: Option<f64>) -> String {
    seconds.map_or("-".to_string(), span)
}

/// Formats a rate, for tables: `12.3/s`, `0.4/min`.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        none if none <= 0.0 || !none.is_finite() => "0".to_string(),
        slow if slow < 0.1 => format!("{:.1}/min", slow * 60.0),
        fast if fast >= 100.0 => format!("{fast:.0}/s"),
        other => format!("{other:.1}/s"),
    }
}

/// Formats a time in the local time zone.
///
/// Within half a day of `now` it is the time of day. Otherwise there is a date, whose year is only
/// shown beyond half a year.
pub(crate) fn clock(time: f64, now: f64) -> String {
    const HALF_A_DAY: f64 = 43_200.0;
    const HALF_A_YEAR: f64 = 182.0 * 86_400.0;
    let format = match (time - now).abs() {
        near if near < HALF_A_DAY => "%H:%M:%S",
        far if far < HALF_A_YEAR => "%m-%d %H:%M",
        _ => "%Y-%m-%d",
    };
    local_time(time as i64, format)
}

/// Formats a time with its date in the local time zone.
pub(crate) fn date_and_time(time: i64) -> String {
    local_time(time, "%Y-%m-%d %H:%M:%S")
}

fn local_time(time: i64, format: &str) -> String {
    let time = jiff::Timestamp::from_second(time).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system()).strftime(format).to_string()
}

/// Formats a size in bytes as at most three digits and a unit of 1024: `812`, `3.4k`, `12M`.
pub(crate) fn size(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "");
    for larger in ["k", "M", "G", "T"] {
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    match value {
        few if few < 9.95 && !unit.is_empty() => format!("{few:.1}{unit}"),
        many => format!("{many:.0}{unit}"),
    }
}

/// Current time, in seconds since 1970.
pub(crate) fn now() -> f64 {
    Timestamp::now().nanoseconds() as f64 / 1e9
}

/// Parses a span in an argument, in seconds.
pub(crate) fn span_argument(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text} is not a time span, such as 90s, 30m, 2h or 5d");
    read_span(text).filter(|span| *span >= 0.0).ok_or_else(wrong)
}

/// Checks a span in an argument, which a scheduler parses.
pub(crate) fn checked_span(text: &str) -> Result<String, String> {
    span_argument(text).map(|_| text.to_string())
}

/// Parses a span: `90s`, `30m`, `1d2h`, `-1s`, or a number of seconds.
pub(crate) fn read_span(text: &str) -> Option<f64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    parse_interval(text).ok().map(|span| sign * span.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_is_short_and_can_be_read_again() {
        for (seconds, text) in [
            (0.0, "0s"),
            (59.6, "1m"),
            (754.0, "12m34s"),
            (3_725.0, "1h2m"),
            (151_259.0, "1d18h"),
            (-5.0, "-5s"),
        ] {
            assert_eq!(span(seconds), text);
        }
        for (text, seconds) in [
            ("90s", Some(90.0)),
            ("1d18h", Some(151_200.0)),
            ("-1s", Some(-1.0)),
            ("3600", Some(3_600.0)),
            ("2w", Some(1_209_600.0)),
            ("", None),
            ("h", None),
            ("--1s", None),
            ("1y", None),
        ] {
            assert_eq!(read_span(text), seconds, "{text}");
        }
    }

    #[test]
    fn numbers_and_rates_are_formatted() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(
            (count(1, "message"), count(0, "message")),
            ("1 message".into(), "0 messages".into())
        );
        for (number, text) in
            [(0.0, "0"), (0.01, "0.6/min"), (12.34, "12.3/s"), (1234.5, "1234/s"), (f64::NAN, "0")]
        {
            assert_eq!(rate(number), text);
        }
    }

    #[test]
    fn size_has_three_digits_at_most() {
        for (bytes, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1.0k"),
            (10_189, "10k"),
            (1_048_575, "1.0M"),
            (20 << 20, "20M"),
            (u64::MAX, "16777216T"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn one_line_escapes() {
        assert_eq!(one_line("a\u{202e}b\tc \u{1b}[2J"), "a\\u{202e}b c ^[[2J");
        assert_eq!(last_line("\r<<- RCPT\r->> 450 busy\r"), "->> 450 busy");
    }
}
