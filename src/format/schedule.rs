//! Times of delivery that a sender sets: a first instant, and a window of the day.
//!
//! ```text
//! N NOTBEFORE=1795453200 WINDOW=22:00-06:00;Mon-Fri;Europe/Berlin
//! ```
//!
//! A [`DayWindow`] holds the changes of its zone's offset as instants. So it answers for any
//! instant without a clock and without the time zone database.

use crate::time::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::fmt;

const DAY: i64 = 86_400;
/// Maximum length of a window's text, in bytes.
const MAX_WINDOW_LEN: usize = 100;
/// Maximum number of changes of the offset that a window knows: at least six years.
const MAX_OFFSET_CHANGES: usize = 12;
/// Number of days in which the next change of a window is searched.
///
/// A change to daylight saving time may leave out the only window of a week.
const SEARCHED_DAYS: i64 = 16;
/// Names of the days of the week.
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
/// All days of the week.
const EVERY_DAY: u8 = 0x7f;

/// A daily window of delivery, in the civil time of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct DayWindow {
    /// The window as it was written.
    text: Box<str>,
    /// First second of the day in it.
    start: u32,
    /// First second of the day, or of the next day, that is no longer in it.
    end: u32,
    /// The days on which it begins; bit 0 is Monday.
    days: u8,
    /// Seconds to be added to UTC, and since when. The first one has always been valid.
    offsets: Box<[(i64, i32)]>,
}

impl DayWindow {
    /// Parses `HH:MM-HH:MM[;DAYS][;ZONE]`.
    ///
    /// DAYS are days or ranges of days, as in `Mon-Fri,Sun`. ZONE is a name of the IANA time zone
    /// database, `UTC` if it is left out. The changes of the offset are those after `from`.
    pub fn parse(text: &str, from: Timestamp) -> Result<DayWindow, String> {
        let wrong = |what: &str| Err(format!("window `{text}`: {what}"));
        if text.len() > MAX_WINDOW_LEN || text.contains(|c: char| c.is_whitespace()) {
            return wrong("it is too long, or has blanks");
        }
        let mut parts = text.split(';');
        let times = parts.next().unwrap_or_default().split_once('-');
        let times = times.and_then(|(start, end)| Some((second(start)?, second(end)?)));
        let Some((start, end)) = times.filter(|(start, end)| start != end && *start < DAY as u32)
        else {
            return wrong("the times are not HH:MM-HH:MM");
        };
        let (mut days, mut zone) = (EVERY_DAY, TimeZone::UTC);
        for part in parts {
            match (days_of(part), TimeZone::get(part)) {
                (Some(set), _) => days = set,
                (None, Ok(known)) => zone = known,
                (None, Err(_)) => return wrong(&format!("`{part}` is neither days nor a zone")),
            }
        }
        Ok(DayWindow { text: text.into(), start, end, days, offsets: offsets(&zone, from) })
    }

    /// The window as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if an instant is in the window.
    pub fn is_open(&self, at: Timestamp) -> bool {
        self.is_open_at(at.seconds())
    }

    /// The next instant at which it opens or closes; `None` if it never changes.
    pub fn next_change(&self, after: Timestamp) -> Option<Timestamp> {
        let after = after.seconds();
        let is_open = self.is_open_at(after);
        let last = after + SEARCHED_DAYS * DAY;
        let current = self.offset(after);
        let changes = self.offsets.iter().filter(|(at, _)| (after + 1..last).contains(at));
        let mut found: Vec<i64> = changes.clone().map(|(at, _)| *at).collect();
        for offset in changes.map(|(_, offset)| *offset).chain([current]) {
            let today = (after + i64::from(offset)).div_euclid(DAY);
            for day in today - 1..today + SEARCHED_DAYS {
                let local = [self.start, self.end].map(|second| day * DAY + i64::from(second));
                found.extend(local.map(|local| local - i64::from(offset)));
            }
        }
        found.sort_unstable();
        let next = found.into_iter().find(|at| *at > after && self.is_open_at(*at) != is_open);
        next.map(Timestamp::from_seconds)
    }

    /// The first instant at or after another one that is in the window.
    pub fn next_open(&self, at: Timestamp) -> Timestamp {
        if self.is_open(at) { at } else { self.next_change(at).unwrap_or(at) }
    }

    fn is_open_at(&self, at: i64) -> bool {
        let local = at + i64::from(self.offset(at));
        let (day, second) = (local.div_euclid(DAY), local.rem_euclid(DAY) as u32);
        let begins_on = |day: i64| self.days & 1 << (day + 3).rem_euclid(7) != 0;
        match self.start < self.end {
            true => begins_on(day) && (self.start..self.end).contains(&second),
            false => {
                second >= self.start && begins_on(day) || second < self.end && begins_on(day - 1)
            }
        }
    }

    /// Seconds to be added to UTC at an instant.
    fn offset(&self, at: i64) -> i32 {
        let after = self.offsets.partition_point(|(since, _)| *since <= at);
        self.offsets.get(after.saturating_sub(1)).map_or(0, |(_, offset)| *offset)
    }
}

impl fmt::Display for DayWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Offsets of a zone from an instant on.
fn offsets(zone: &TimeZone, from: Timestamp) -> Box<[(i64, i32)]> {
    let from = jiff::Timestamp::from_second(from.seconds()).unwrap_or_default();
    let first = (i64::MIN, zone.to_offset(from).seconds());
    let later = zone.following(from).take(MAX_OFFSET_CHANGES);
    let later = later.map(|change| (change.timestamp().as_second(), change.offset().seconds()));
    std::iter::once(first).chain(later).collect()
}

/// The second of the day of `HH:MM`, up to `24:00`.
fn second(text: &str) -> Option<u32> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str| {
        let is_short = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        is_short.then(|| text.parse::<u32>().ok()).flatten()
    };
    let (hour, minute) = (number(hour)?, number(minute)?);
    let second = hour * 3600 + minute * 60;
    (minute < 60 && second <= DAY as u32).then_some(second)
}

/// The set of days of `Mon-Fri,Sun`.
fn days_of(text: &str) -> Option<u8> {
    let day = |name: &str| DAYS.iter().position(|day| day.eq_ignore_ascii_case(name));
    let mut set = 0;
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut at, last) = (day(first)?, day(last)?);
        set |= 1 << last;
        while at != last {
            set |= 1 << at;
            at = (at + 1) % DAYS.len();
        }
    }
    Some(set)
}

/// Parses an instant that a person names.
///
/// | form | meaning |
/// |---|---|
/// | `2026-11-24T18:00:00+01:00`, `...Z` | RFC 3339 |
/// | `2026-11-24T18:00` | in the time zone of the system |
/// | `+2h30m` | from now on: `d`, `h`, `m`, `s` |
/// | `[YYYY-MM-DD] [DAYS] HH:MM [ZONE]` | the next such time in the zone, by default the system's |
///
/// A civil time that a change of the clock leaves out is that of the old offset, and one that is
/// there twice is the first one (RFC 5545, 3.3.5).
pub fn parse_instant(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let text = text.trim();
    if let Some(span) = text.strip_prefix('+') {
        let seconds = span_seconds(span).ok_or_else(|| format!("`{text}` is not a time span"))?;
        return Ok(Timestamp::from_seconds(now.seconds().saturating_add(seconds)));
    }
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Ok(Timestamp::from_seconds(instant.as_second()));
    }
    match text.parse::<jiff::civil::DateTime>() {
        Ok(local) if text.contains('T') => {
            let zoned = local.to_zoned(TimeZone::system()).map_err(|why| why.to_string())?;
            Ok(Timestamp::from_seconds(zoned.timestamp().as_second()))
        }
        _ => civil_instant(text, now),
    }
}

fn civil_instant(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let (mut date, mut days, mut time, mut zone) = (None, EVERY_DAY, None, None);
    for word in text.split_whitespace() {
        if let Some(second) = second(word).filter(|second| i64::from(*second) < DAY) {
            time = Some(Time::midnight() + jiff::SignedDuration::from_secs(second.into()));
        } else if let Some(set) = days_of(word) {
            days = set;
        } else if let Ok(named) = word.parse::<Date>() {
            date = Some(named);
        } else if let Ok(named) = TimeZone::get(word) {
            zone = Some(named);
        } else {
            return Err(format!("`{word}` is neither a date, days, a time nor a time zone"));
        }
    }
    let time = time.ok_or_else(|| format!("`{text}` has no time of day"))?;
    let zone = zone.unwrap_or_else(TimeZone::system);
    let here = jiff::Timestamp::from_second(now.seconds()).unwrap_or_default();
    let today = here.to_zoned(zone.clone()).date();
    let fits = |day: &Date| days & 1 << day.weekday().to_monday_zero_offset() != 0;
    let instant = |day: Date| {
        let zoned = day.to_datetime(time).to_zoned(zone.clone()).ok()?;
        Some(Timestamp::from_seconds(zoned.timestamp().as_second()))
    };
    let found = match date {
        Some(date) => Some(date).filter(fits).and_then(instant),
        None => {
            let next = today.series(jiff::Span::new().days(1)).take(SEARCHED_DAYS as usize);
            next.filter(fits).filter_map(instant).find(|at| *at >= now)
        }
    };
    found.ok_or_else(|| format!("`{text}` is no day"))
}

/// The seconds of `1d12h`, `90m`.
pub fn span_seconds(text: &str) -> Option<i64> {
    let (mut sum, mut rest) = (0_i64, text);
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit())?;
        let (amount, unit) =
            (rest[..unit_at].parse::<i64>().ok()?, rest[unit_at..].chars().next()?);
        let seconds = match unit {
            'd' => DAY,
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        sum = sum.checked_add(amount.checked_mul(seconds)?)?;
        rest = &rest[unit_at + 1..];
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::from_seconds(text.parse::<jiff::Timestamp>().expect("a time").as_second())
    }

    fn window(text: &str) -> DayWindow {
        DayWindow::parse(text, at("2026-01-01T00:00:00Z")).expect("a window")
    }

    #[track_caller]
    fn changes(window: &str, from: &str, expected: &[&str]) {
        let (window, mut time) = (self::window(window), at(from));
        for expected in expected {
            time = window.next_change(time).expect("it changes");
            assert_eq!(crate::time::format_time(time).replace(".000", ""), *expected);
        }
    }

    #[test]
    fn window_over_midnight_opens_on_its_days() {
        let night = window("22:00-06:00;Mon-Fri;UTC");
        // 2026-11-20 is a Friday.
        assert!(night.is_open(at("2026-11-20T23:00:00Z")));
        assert!(night.is_open(at("2026-11-21T05:59:59Z")));
        assert!(!night.is_open(at("2026-11-21T06:00:00Z")));
        assert!(!night.is_open(at("2026-11-21T23:00:00Z")));
        changes(
            "22:00-06:00;Mon-Fri;UTC",
            "2026-11-20T23:00:00Z",
            &["2026-11-21T06:00:00Z", "2026-11-23T22:00:00Z", "2026-11-24T06:00:00Z"],
        );
    }

    #[test]
    fn window_follows_change_to_daylight_saving_time() {
        // Berlin: 2026-03-29, 02:00 is followed by 03:00.
        changes(
            "09:00-10:00;Europe/Berlin",
            "2026-03-28T12:00:00Z",
            &["2026-03-29T07:00:00Z", "2026-03-29T08:00:00Z"],
        );
        changes(
            "02:30-03:30;Europe/Berlin",
            "2026-03-28T12:00:00Z",
            &["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"],
        );
        changes("02:00-03:00;Europe/Berlin", "2026-03-28T12:00:00Z", &["2026-03-30T00:00:00Z"]);
        changes("02:00-03:00;Sun;Europe/Berlin", "2026-03-28T12:00:00Z", &["2026-04-05T00:00:00Z"]);
    }

    #[test]
    fn window_follows_change_from_daylight_saving_time() {
        // Berlin: 2026-10-25, 03:00 is followed by 02:00. The hour is there twice.
        changes(
            "02:00-03:00;Europe/Berlin",
            "2026-10-24T12:00:00Z",
            &["2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z", "2026-10-26T01:00:00Z"],
        );
        changes(
            "22:00-06:00;Europe/Berlin",
            "2026-10-24T12:00:00Z",
            &["2026-10-24T20:00:00Z", "2026-10-25T05:00:00Z", "2026-10-25T21:00:00Z"],
        );
    }

    #[test]
    fn window_without_end_never_changes() {
        assert_eq!(window("00:00-24:00").next_change(at("2026-03-28T12:00:00Z")), None);
        changes("00:00-24:00;Sat", "2026-11-20T00:00:00Z", &["2026-11-21T00:00:00Z"]);
    }

    #[test]
    fn wrong_windows_are_refused() {
        let now = at("2026-01-01T00:00:00Z");
        for text in [
            "",
            "9-10",
            "09:00-09:00",
            "25:00-26:00",
            "09:60-10:00",
            "09:00-10:00;Mo",
            "+9:00-10:00",
        ] {
            assert!(DayWindow::parse(text, now).is_err(), "{text}");
        }
    }

    #[test]
    fn instants_are_in_the_named_zone() {
        let now = at("2026-11-20T18:00:00Z");
        for (text, expected) in [
            ("2026-11-24T18:00:00+01:00", "2026-11-24T17:00:00Z"),
            ("+1d30m", "2026-11-21T18:30:00Z"),
            ("18:00 Mon-Fri Europe/Berlin", "2026-11-23T17:00:00Z"),
            ("20:30 Europe/Berlin", "2026-11-20T19:30:00Z"),
            ("2027-07-01 18:00 Europe/Berlin", "2027-07-01T16:00:00Z"),
            ("2026-03-29 02:30 Europe/Berlin", "2026-03-29T01:30:00Z"),
            ("2026-10-25 02:30 Europe/Berlin", "2026-10-25T00:30:00Z"),
        ] {
            assert_eq!(parse_instant(text, now), Ok(at(expected)), "{text}");
        }
        let local = parse_instant("2026-11-23T18:00", now).expect("a local time");
        assert!((local.seconds() - 1_795_456_800).abs() <= 14 * 3600);
        for text in ["", "soon", "Mon", "+", "+5", "+5y", "18:00 Mars/Base", "2026-02-30 10:00"] {
            assert!(parse_instant(text, now).is_err(), "{text}");
        }
    }
}
