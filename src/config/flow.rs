//! Flow control of a destination: window, delivery rate, and shared windows.

use super::diagnostic::{ValueError, quote};
use super::pattern::{Glob, Name};
use super::units::{Interval, parse_nonzero_interval, parse_number};
use nom::Offset;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The stored amount of a feedback of 1.
const FEEDBACK_UNIT: u32 = 1_000_000;
/// Maximum number of deliveries in the interval of a rate.
const MAX_DELIVERIES_PER_INTERVAL: u32 = 1_000_000;
/// Maximum number of names in `window-key`.
const MAX_WINDOW_KEYS: usize = 1000;

/// The flow control settings of a clause. A classic clause has none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Initial window of a thread, in agents; `None` is `maxthr`.
    ///
    /// `initial-concurrency=` (Postfix `initial_destination_concurrency`).
    pub initial: Option<u32>,
    /// Increase of the window after a delivery that the host has answered.
    ///
    /// `positive-feedback=` (Postfix `default_destination_concurrency_positive_feedback`).
    pub positive: Option<Feedback>,
    /// Decrease of the window after a delivery that could not reach the host.
    ///
    /// `negative-feedback=` (Postfix `default_destination_concurrency_negative_feedback`).
    pub negative: Option<Feedback>,
    /// Failed pseudo-cohorts after which the destination is considered dead; 0 is never.
    ///
    /// `failed-cohort-limit=` (Postfix `default_destination_concurrency_failed_cohort_limit`).
    pub failed_cohorts: u32,
    /// Log each change of the window.
    ///
    /// `feedback-debug` (Postfix `destination_concurrency_feedback_debug`).
    pub debug: bool,
    /// Maximum rate at which deliveries start. `rate=`.
    pub rate: Option<Rate>,
    /// Wait from the end of a delivery to the start of the next.
    ///
    /// Deliveries are then made one at a time.
    ///
    /// `delivery-delay=` (Postfix `default_destination_rate_delay`).
    pub delay: Option<Duration>,
    /// The destinations that share a window. `window-key=`.
    pub key: Option<WindowKey>,
}

impl Flow {
    /// Returns true if any flow control is set.
    pub fn is_controlled(&self) -> bool {
        self.initial.is_some()
            || self.has_feedback()
            || self.failed_cohorts > 0
            || self.rate.is_some()
            || self.delay.is_some()
            || self.key.is_some()
    }

    /// Returns true if the window changes with the results of deliveries.
    pub fn has_feedback(&self) -> bool {
        self.positive.is_some() || self.negative.is_some()
    }

    /// Returns true if one `deferall` is not enough to make the whole destination wait.
    pub fn tolerates_deferall(&self) -> bool {
        self.has_feedback() || self.failed_cohorts > 0
    }
}

/// The change of a window by one delivery, in agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// The amount, in millionths.
    amount: u32,
    /// The divisor of the amount.
    divisor: Divisor,
}

/// The divisor of a feedback. The concurrency is the current window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Divisor {
    One,
    Concurrency,
    Root,
}

impl Feedback {
    /// Parses `0.25`, `1/concurrency` or `0.5/sqrt(concurrency)`.
    ///
    /// `sqrt_concurrency` is Postfix's spelling.
    pub(crate) fn parse(text: &str) -> Result<Feedback, ValueError> {
        let (amount, divisor) = text.split_once('/').unwrap_or((text, ""));
        let divisor = match divisor.trim() {
            _ if amount.len() == text.len() => Divisor::One,
            "concurrency" => Divisor::Concurrency,
            "sqrt_concurrency" | "sqrt(concurrency)" => Divisor::Root,
            other => {
                let message =
                    format!("{} is neither concurrency nor sqrt(concurrency)", quote(other));
                return Err(ValueError::new(text.offset(other), message));
            }
        };
        Ok(Feedback { amount: parse_share(amount.trim())?, divisor })
    }

    /// The feedback, in agents, at a window of `concurrency` agents.
    pub fn at_concurrency(self, concurrency: u32) -> f64 {
        let amount = f64::from(self.amount) / f64::from(FEEDBACK_UNIT);
        match self.divisor {
            Divisor::One => amount,
            Divisor::Concurrency => amount / f64::from(concurrency.max(1)),
            Divisor::Root => amount / f64::from(concurrency.max(1)).sqrt(),
        }
    }
}

/// Parses a number from 0 to 1, as millionths.
fn parse_share(text: &str) -> Result<u32, ValueError> {
    let wrong = || {
        let message =
            format!("{} is not a number from 0 to 1 with at most six decimals", quote(text));
        ValueError::new(0, message)
    };
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = !text.is_empty() && text != "." && decimals.len() <= 6;
    if !fits || !is_number(whole) || !is_number(decimals) {
        return Err(wrong());
    }
    let whole: u32 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| wrong())? };
    let decimals: u32 = format!("{decimals:0<6}").parse().map_err(|_| wrong())?;
    let amount = whole.checked_mul(FEEDBACK_UNIT).and_then(|whole| whole.checked_add(decimals));
    amount.filter(|amount| *amount <= FEEDBACK_UNIT).ok_or_else(wrong)
}

impl fmt::Display for Feedback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:06}", self.amount % FEEDBACK_UNIT);
        let decimals = decimals.trim_end_matches('0');
        let dot = if decimals.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{decimals}", self.amount / FEEDBACK_UNIT)?;
        f.write_str(match self.divisor {
            Divisor::One => "",
            Divisor::Concurrency => "/concurrency",
            Divisor::Root => "/sqrt(concurrency)",
        })
    }
}

/// Maximum number of deliveries that start in an interval, spread evenly over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    count: u32,
    interval: Duration,
}

impl Rate {
    /// Parses `100/1m`.
    pub(crate) fn parse(text: &str) -> Result<Rate, ValueError> {
        let Some((count, interval)) = text.split_once('/') else {
            return Err(ValueError::new(0, "a number and an interval are needed here, as 100/1m"));
        };
        let at = text.offset(interval);
        let number = u32::try_from(parse_number(count)?).ok();
        let is_possible = |number: &u32| (1..=MAX_DELIVERIES_PER_INTERVAL).contains(number);
        let count = number.filter(is_possible).ok_or_else(|| {
            let range = format!("the range from 1 to {MAX_DELIVERIES_PER_INTERVAL}");
            ValueError::new(0, format!("{} is not in {range}", quote(count)))
        })?;
        let interval = parse_nonzero_interval(interval).map_err(|error| error.offset_by(at))?;
        Ok(Rate { count, interval })
    }

    /// Minimum time from the start of a delivery to the start of the next.
    pub fn spacing(self) -> Duration {
        self.interval / self.count
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, Interval(self.interval))
    }
}

/// Maps a destination to the name of its window. Destinations with the same name share a window.
///
/// The entries are tried from left to right.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WindowKey {
    text: String,
    names: Vec<KeyRule>,
    by_relay: bool,
}

#[derive(Clone, Debug)]
struct KeyRule {
    pattern: Glob,
    name: String,
}

impl PartialEq for WindowKey {
    fn eq(&self, other: &WindowKey) -> bool {
        self.text == other.text
    }
}

impl Eq for WindowKey {}

impl WindowKey {
    /// Parses `*.example.net=example mx`.
    ///
    /// Each word is a pattern and the name for destinations that match it. The last word may be
    /// `mx`.
    pub(crate) fn parse(
        text: &str,
        warnings: &mut Vec<ValueError>,
    ) -> Result<WindowKey, ValueError> {
        let mut key = WindowKey { text: text.to_string(), ..WindowKey::default() };
        for word in text.split_ascii_whitespace() {
            let at = text.offset(word);
            if key.by_relay {
                return Err(ValueError::new(at, "`mx` must be the last word"));
            }
            if key.names.len() == MAX_WINDOW_KEYS {
                return Err(ValueError::new(at, format!("more than {MAX_WINDOW_KEYS} patterns")));
            }
            match word.split_once('=') {
                None if word.eq_ignore_ascii_case("mx") => key.by_relay = true,
                Some((pattern, name)) if !pattern.is_empty() && !name.is_empty() => {
                    let pattern = Glob::parse(pattern, at, warnings)?;
                    key.names.push(KeyRule { pattern, name: name.to_string() });
                }
                _ => {
                    let message = format!("{} is neither PATTERN=NAME nor mx", quote(word));
                    return Err(ValueError::new(at, message));
                }
            }
        }
        if key.names.is_empty() && !key.by_relay {
            return Err(ValueError::new(0, "PATTERN=NAME or mx is needed here"));
        }
        Ok(key)
    }

    /// The window name of a host; `None` if the host has a window of its own.
    ///
    /// `relay` is the relay that answers for the host, once it is known.
    pub fn name(&self, host: &[u8], relay: Option<&[u8]>) -> Option<Vec<u8>> {
        let candidates = || relay.into_iter().chain([host]);
        let matches = |rule: &&KeyRule| {
            let is_match =
                |name: &[u8]| rule.pattern.matches(&Name::new(&name.to_ascii_lowercase()));
            candidates().any(is_match)
        };
        if let Some(rule) = self.names.iter().find(matches) {
            return Some(rule.name.clone().into_bytes());
        }
        relay.filter(|_| self.by_relay).map(<[u8]>::to_ascii_lowercase)
    }
}

// A checkpoint stores the key as it was written.
impl From<WindowKey> for String {
    fn from(key: WindowKey) -> String {
        key.text
    }
}

impl TryFrom<String> for WindowKey {
    type Error = String;

    fn try_from(text: String) -> Result<WindowKey, String> {
        WindowKey::parse(&text, &mut Vec::new()).map_err(|error| error.message)
    }
}

impl fmt::Display for WindowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feedback_parses_and_displays() {
        for (text, at_four) in [
            ("1", 1.0),
            ("0", 0.0),
            ("0.25", 0.25),
            ("1/concurrency", 0.25),
            ("0.5/sqrt(concurrency)", 0.25),
            ("0.000001", 0.000_001),
        ] {
            let feedback = Feedback::parse(text).unwrap_or_else(|_| panic!("{text}"));
            assert!((feedback.at_concurrency(4) - at_four).abs() < 1e-12, "{text}");
            assert_eq!(feedback.to_string(), text);
        }
        for (text, shown) in
            [(".5 / concurrency", "0.5/concurrency"), ("1/sqrt_concurrency", "1/sqrt(concurrency)")]
        {
            let feedback = Feedback::parse(text).unwrap_or_else(|_| panic!("{text}"));
            assert_eq!(feedback.to_string(), shown);
        }
        for wrong in
            ["", ".", "2", "1.1", "-1", "0.1234567", "1/2", "x/concurrency", "1/sqrt", "1e3"]
        {
            assert!(Feedback::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rate_spaces_deliveries_evenly() {
        let rate = Rate::parse("100/1m").expect("a rate");
        assert_eq!(rate.spacing(), Duration::from_millis(600));
        assert_eq!(rate.to_string(), "100/1m");
        for wrong in ["", "100", "0/1m", "1/0", "-1/1m", "1/x", "9999999/1s"] {
            assert!(Rate::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn window_key_names_by_pattern_or_relay() {
        let key = |text: &str| WindowKey::parse(text, &mut Vec::new());
        let both = key("*.big.example=big *.small.example=small mx").expect("a key");
        assert_eq!(both.name(b"a.test", None), None);
        assert_eq!(both.name(b"x.big.example", None), Some(b"big".to_vec()));
        assert_eq!(both.name(b"a.test", Some(b"MX1.Small.Example")), Some(b"small".to_vec()));
        assert_eq!(both.name(b"a.test", Some(b"MX.other")), Some(b"mx.other".to_vec()));
        assert_eq!(key("*.b=b").expect("a key").name(b"a", Some(b"mx")), None);
        for wrong in ["", "x", "=x", "x=", "mx a=b", "[=x"] {
            assert!(key(wrong).is_err(), "{wrong}");
        }
    }
}
