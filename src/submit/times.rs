//! Options for the times of delivery, and their words in `N` lines.

use zsched_format::schedule::{DayWindow, parse_instant};
use zsched_format::time::Timestamp;

/// When a message may be delivered.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct TimeOptions {
    /// Deliver it at this time or later: "2026-11-24 18:00", "18:00 Mon-Fri Europe/Berlin", +2h
    #[arg(long = "not-before", value_name = "TIME")]
    pub not_before: Option<String>,

    /// Deliver it in this window of the day only: "22:00-06:00;Mon-Fri;Europe/Berlin"
    #[arg(long = "window", value_name = "WINDOW")]
    pub window: Option<String>,

    /// Return it to the sender if it is not delivered by this time
    #[arg(long = "deadline", value_name = "TIME")]
    pub deadline: Option<String>,
}

impl TimeOptions {
    /// The first time of delivery, and the deadline.
    pub fn instants(
        &self,
        now: Timestamp,
    ) -> Result<(Option<Timestamp>, Option<Timestamp>), String> {
        let instant = |option: &str, text: &Option<String>| {
            let parsed = text.as_ref().map(|text| parse_instant(text, now)).transpose();
            let parsed = parsed.map_err(|why| format!("{option}: {why}"))?;
            match parsed.filter(|at| at.seconds() > i64::from(u32::MAX)) {
                Some(_) => Err(format!("{option}: the time is after the year 2105")),
                None => Ok(parsed),
            }
        };
        let not_before = instant("--not-before", &self.not_before)?;
        let deadline = instant("--deadline", &self.deadline)?;
        if deadline.is_some_and(|at| at <= not_before.unwrap_or(now).max(now)) {
            return Err("--deadline: the time is over before the first delivery".to_string());
        }
        Ok((not_before, deadline))
    }

    /// The words of the `N` line of each recipient.
    pub fn words(&self, now: Timestamp) -> Result<Vec<String>, String> {
        let (not_before, deadline) = self.instants(now)?;
        let mut words = Vec::new();
        if let Some(at) = not_before.filter(|at| *at > now) {
            words.push(format!("NOTBEFORE={}", at.seconds()));
        }
        if let Some(text) = &self.window {
            let window = DayWindow::parse(text, now).map_err(|why| format!("--window: {why}"))?;
            words.push(format!("WINDOW={window}"));
        }
        if let Some(at) = deadline {
            words.push(format!("BY={};R", at.seconds_since(now)));
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_795_255_200);

    fn words(not_before: &str, window: &str, deadline: &str) -> Result<String, String> {
        let given = |text: &str| Some(text.to_string()).filter(|text| !text.is_empty());
        let options = TimeOptions {
            not_before: given(not_before),
            window: given(window),
            deadline: given(deadline),
        };
        options.words(NOW).map(|words| words.join(" "))
    }

    #[test]
    fn times_become_words_of_the_control_file() {
        let all = words("+1h", "22:00-06:00;Europe/Berlin", "+2h");
        let expected = "NOTBEFORE=1795258800 WINDOW=22:00-06:00;Europe/Berlin BY=7200;R";
        assert_eq!(all.as_deref(), Ok(expected));
        assert_eq!(words("2026-01-01T00:00:00Z", "", "").as_deref(), Ok(""), "it is over");
    }

    #[test]
    fn wrong_times_are_refused() {
        for (not_before, window, deadline, error) in [
            (
                "soon",
                "",
                "",
                "--not-before: `soon` is neither a date, days, a time nor a time zone",
            ),
            ("", "22-6", "", "--window: window `22-6`: the times are not HH:MM-HH:MM"),
            ("+2h", "", "+1h", "--deadline: the time is over before the first delivery"),
            ("2200-01-01T00:00:00Z", "", "", "--not-before: the time is after the year 2105"),
        ] {
            assert_eq!(words(not_before, window, deadline), Err(error.to_string()));
        }
    }
}
