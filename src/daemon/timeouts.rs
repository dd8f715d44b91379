//! Timeouts and retry intervals of the shell.
//!
//! They are in one place so that tests can shorten all of them together: `--timeouts-scale 0.1`
//! makes each a tenth. Intervals of the configuration are not scaled.

use std::time::Duration;
use zsched_core::intake::IntakeDelays;

/// Timeouts and retry intervals of the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// Maximum time for which a client may accept nothing of its answer.
    pub stalled_client: Duration,
    /// The same while other clients wait.
    pub stalled_client_in_demand: Duration,
    /// Maximum time for a client to close its end after its last answer.
    pub client_close: Duration,
    /// Maximum time for a client to log in.
    pub login: Duration,
    /// Maximum time between requests of a client with a login.
    pub request: Duration,
    /// Maximum time for a whole dump or answer.
    pub answer: Duration,
    /// Maximum time for a session.
    pub session: Duration,
    /// Maximum time for an agent to exit after it has closed its socket.
    pub agent_exit: Duration,
    /// Maximum time for which child processes of a dead agent are waited for.
    pub agent_children: Duration,
    /// Times between scans of the spool and between attempts to read a file.
    pub intake: IntakeDelays,
    /// Wait after a failed write to the spool.
    pub failed_write: Duration,
    /// Wait before a socket or log that could not be opened is tried again.
    pub failed_open: Duration,
    /// Wait before a router or an SMTP server is started again, in a trial installation.
    pub companion_restart: Duration,
    /// Minimum time between two writes of the file of learned state.
    pub learned_interval: Duration,
    /// Time between scans of the drop folder.
    pub drop_scan: Duration,
    /// Maximum time to wait at the end for the disk of a log.
    pub log_end: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts::new(1.0)
    }
}

impl Timeouts {
    /// Creates the timeouts of normal operation, each multiplied by `scale`.
    pub(crate) fn new(scale: f64) -> Timeouts {
        let seconds = |seconds: f64| Duration::from_secs_f64(seconds * scale);
        Timeouts {
            stalled_client: seconds(60.0),
            stalled_client_in_demand: seconds(10.0),
            client_close: seconds(5.0),
            login: seconds(90.0),
            request: seconds(300.0),
            answer: seconds(600.0),
            session: seconds(3600.0),
            agent_exit: seconds(10.0),
            agent_children: seconds(60.0),
            intake: IntakeDelays::scaled(scale),
            failed_write: seconds(30.0),
            failed_open: seconds(5.0),
            companion_restart: seconds(5.0),
            learned_interval: seconds(30.0),
            drop_scan: seconds(60.0),
            log_end: seconds(10.0),
        }
    }
}

/// Parses the factor for all timeouts, from 0.001 to 1.
pub(crate) fn parse_scale(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (0.001..=1.0).contains(factor));
    factor.ok_or_else(|| "it is a number from 0.001 to 1".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_applies_to_timeouts() {
        let timeouts = Timeouts::new(parse_scale("0.5").expect("a scale"));
        assert_eq!(timeouts.login, Duration::from_secs(45));
        assert_eq!(timeouts.intake.locked_file, Duration::from_secs(16));
        assert_eq!(Timeouts::default().intake.locked_file, Duration::from_secs(32));
    }

    #[test]
    fn scale_out_of_range_is_refused() {
        for text in ["", "0", "-1", "1.01", "inf", "NaN", "x"] {
            assert!(parse_scale(text).is_err(), "{text:?}");
        }
    }
}
