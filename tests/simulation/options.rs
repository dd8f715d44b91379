//! Options of the command line, and the checks that the scheduler obeys them: `-F`, `-p`, `-S`,
//! `-R`. `-W` concerns the log only; the core does not have it.

use zsched_config::Config;
use zsched_core::why::Why;
use zsched_core::{Event, Refusal, Scheduler, Settings};
use zsched_format::time::Timestamp;
use zsched_simulation::observer::SimTime;

/// Options and state of a scheduler.
pub struct OptionChecks {
    pub settings: Settings,
    /// The initial scan is over.
    is_loaded: bool,
    is_draining: bool,
    /// Second of the last start of an agent, and its number of starts.
    forks: (i64, u32),
}

impl OptionChecks {
    /// Creates the state of a scheduler that starts.
    pub fn new(settings: Settings) -> OptionChecks {
        OptionChecks { settings, is_loaded: false, is_draining: false, forks: (0, 0) }
    }

    /// Records an event.
    pub fn record_event(&mut self, event: &Event<'_>) {
        match event {
            Event::InitialScanDone => self.is_loaded = true,
            Event::Drain => self.is_draining = true,
            _ => {}
        }
    }

    /// Checks that the options allow the start of an agent.
    pub fn check_start(&mut self, wall: Timestamp, channel: &[u8], host: &[u8]) {
        let settings = &self.settings;
        assert!(!settings.frozen, "-F: an agent is started");
        assert!(!settings.wait_for_initial_scan || self.is_loaded, "-S: an agent is started early");
        self.check_selected(channel, host);
        if self.forks.0 != wall.seconds() {
            self.forks = (wall.seconds(), 0);
        }
        self.forks.1 += 1;
        let (forks, limit) = (self.forks.1, self.settings.fork_rate);
        assert!(forks <= limit, "-R: {forks} in a second");
    }

    /// Checks that `-p` allows the service of a destination.
    pub fn check_selected(&self, channel: &[u8], host: &[u8]) {
        let shown = || [channel, b"/", host].concat().escape_ascii().to_string();
        assert!(self.selects(channel, host), "-p: {} is served", shown());
    }

    /// Returns true if `-p` allows the service of a destination.
    pub fn selects(&self, channel: &[u8], host: &[u8]) -> bool {
        let selection = self.settings.selection.as_ref();
        selection.is_none_or(|selection| selection.matches(channel, host))
    }

    /// Checks that a destination that waits for its window has a reason to.
    pub fn check_flow(&self, core: &Scheduler, channel: &[u8], host: &[u8]) {
        let waits = core.view().why_thread(channel, host).expect("a thread that is shown is there");
        let is_one = |why: &Why| matches!(why, Why::Window { .. } | Why::Pace { .. });
        let why = waits.iter().map(|wait| &wait.why).find(|why| is_one(why));
        match why.expect("a thread without an agent waits for its window") {
            // Other destinations that share the window may be ahead in line.
            Why::Window { used, max, name: None, .. } => assert!(used >= max, "there is room"),
            Why::Pace { at: Some(time), .. } => {
                assert!(core.next_wakeup() <= Some(*time), "no wake-up for a paced destination");
            }
            Why::Pace { at: None, .. } => {
                assert!(core.view().has_agents(), "a pause without an end")
            }
            _ => {}
        }
    }

    /// Returns true if the scheduler is still putting off due mail of a destination.
    ///
    /// Very much mail is put off in steps.
    pub fn is_put_off(&self, at: SimTime, core: &Scheduler, channel: &[u8], host: &[u8]) -> bool {
        let waits = core.view().why_thread(channel, host).unwrap_or_default();
        let is_refused = waits.iter().any(|wait| matches!(wait.why, Why::Refused { .. }));
        let is_off = |why: &Why| matches!(why, Why::Retry { .. } | Why::Request { .. });
        let is_any_off = waits.iter().any(|wait| is_off(&wait.why));
        is_any_off && !is_refused && core.next_wakeup() <= Some(at.wall)
    }

    /// Checks the reason shown for due mail without an agent.
    ///
    /// Returns true if the reason follows from the options.
    pub fn check_reason(
        &self,
        core: &Scheduler,
        config: &Config,
        channel: &[u8],
        host: &[u8],
    ) -> bool {
        let waits = core.view().why_thread(channel, host).expect("a thread that is shown is there");
        let failure = waits.iter().find_map(|wait| match &wait.why {
            Why::Suspended { failure, .. } => Some(failure),
            _ => None,
        });
        if let Some(failure) = failure {
            let is_awaited = core.next_wakeup() <= Some(failure.until) || core.view().has_agents();
            assert!(is_awaited, "no agent is started after {failure:?}");
            return true;
        }
        let why = &waits.last().expect("a thread with mail waits for something").why;
        let refusals = waits.iter().filter_map(|wait| match wait.why {
            Why::Refused { refusal, .. } => Some(refusal),
            _ => None,
        });
        let refusals: Vec<Refusal> = refusals.collect();
        let [refusal] = refusals[..] else {
            panic!("what is due is refused an agent for one reason, not {why:?}");
        };
        let is_selected = self.selects(channel, host);
        assert!(is_selected || refusal == Refusal::NotSelected, "-p: waits for {refusal:?}");
        let is_true = match refusal {
            Refusal::NotSelected => !is_selected,
            Refusal::Frozen => self.settings.frozen,
            Refusal::Loading => self.settings.wait_for_initial_scan && !self.is_loaded,
            Refusal::Ending => self.is_draining,
            Refusal::Unproven => core.view().has_agents(),
            Refusal::NoCommand => {
                config.select(channel, host).is_none_or(|clause| clause.command.is_none())
            }
            // A sweep ends by itself.
            Refusal::Reloading => true,
            _ => {
                assert!(!self.settings.frozen, "-F: waits for {refusal:?}");
                return false;
            }
        };
        assert!(is_true, "{refusal:?} is not true");
        true
    }
}
