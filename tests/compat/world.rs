//! The world of the core's own tests, with a disk that works, and with bytes as input of agents.

pub use crate::core_world::World;
use crate::support::START;
use std::time::Duration;
use zsched_core::{Action, AgentId, Event, Settings};

impl World {
    /// Creates a world with a disk.
    pub fn with_disk(configuration: &str) -> World {
        World::with_disk_and(Settings::default(), configuration)
    }

    /// Creates a world with a disk and these settings, without a limit on starts of agents.
    pub fn with_disk_and(settings: Settings, configuration: &str) -> World {
        let settings = Settings { fork_rate: u32::MAX, ..settings };
        let mut world = World::with(settings, configuration);
        world.has_disk = true;
        world.first_pid = 5000;
        world
    }

    /// Returns the input of an agent since the last call.
    ///
    /// Tests with the real programs check the lines that the shell writes at its end.
    pub fn take_input(&mut self, agent: AgentId) -> String {
        let line = |line: String| match &line[..] {
            "(retire)" => "\n".to_string(),
            "(quit)" => "\n\n".to_string(),
            line => format!("{line}\n"),
        };
        self.take_lines(agent).into_iter().map(line).collect()
    }

    pub fn agent_writes(&mut self, agent: AgentId, line: &[u8]) {
        self.handle(Event::AgentSaid { agent, line });
    }

    /// Takes the last of the actions that `wanted` wants.
    pub fn take_done<T>(&mut self, wanted: impl Fn(&Action) -> Option<T>) -> Option<T> {
        let place = self.done.iter().rposition(|action| wanted(action).is_some())?;
        wanted(&self.done.remove(place))
    }

    /// Passes time up to a point, and wakes the core at its wake-ups.
    pub fn pass_to(&mut self, since_start: Duration) {
        let until = START + since_start;
        while let Some(wakeup) = self.core.next_wakeup().filter(|wakeup| *wakeup <= until) {
            self.now = self.now.max(wakeup);
            self.handle(Event::Tick);
        }
        self.now = self.now.max(until);
    }
}
