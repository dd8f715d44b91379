//! Bounds on what is in memory, where a configuration limits that: the number of messages, and both
//! bounds on recipients of Postfix's scheduler (of all rings that were used, and of each ring).

use std::collections::BTreeMap;
use zsched_config::{ClauseId, Config};
use zsched_core::{Event, RereadResult, Scheduler};
use zsched_spool::Arrival;

/// Key of a ring: clause, channel, and the host if the agents are for one host.
type RingKey = (ClauseId, Box<[u8]>, Option<Box<[u8]>>);

/// Limits that the configurations of a scheduler set.
pub struct MemoryChecks {
    messages: usize,
    /// Maximum number of recipients: the minimum of each message, and the first chunks.
    minima: usize,
    first: usize,
    /// Recipient pools of the rings that were used.
    pools: BTreeMap<RingKey, usize>,
    /// The configuration was reloaded, so threads may have changed rings.
    is_reloaded: bool,
}

impl Default for MemoryChecks {
    /// Returns the limits of a scheduler without any.
    fn default() -> MemoryChecks {
        let pools = BTreeMap::new();
        MemoryChecks {
            messages: usize::MAX,
            minima: usize::MAX,
            first: 0,
            pools,
            is_reloaded: false,
        }
    }
}

impl MemoryChecks {
    /// Returns the limits of a scheduler that starts with this configuration.
    pub fn new(config: &Config) -> MemoryChecks {
        let mut memory = MemoryChecks { messages: 0, minima: 0, ..MemoryChecks::default() };
        memory.allow(config);
        memory
    }

    /// Adds the limits of a new configuration. Mail that came under the former one may stay.
    pub fn reloaded(&mut self, config: &Config) {
        self.allow(config);
        self.is_reloaded = true;
    }

    fn allow(&mut self, config: &Config) {
        let Some(limits) = config.parameters.memory() else {
            *self = MemoryChecks::default();
            return;
        };
        self.messages = self.messages.max(limits.messages);
        self.minima = self.minima.max(limits.minimum.saturating_mul(limits.messages));
        self.first = self.first.max(limits.recipients);
    }

    /// Records an event. A ring counts as used when mail for it arrives.
    pub fn record_event(&mut self, event: &Event<'_>, config: &Config) {
        match event {
            Event::Arrived(arrival)
            | Event::MoreRead { outcome: RereadResult::Read(arrival), .. }
            | Event::ReadAgain { outcome: RereadResult::Read(arrival), .. } => {
                self.used(arrival, config)
            }
            _ => {}
        }
    }

    fn used(&mut self, arrival: &Arrival, config: &Config) {
        for group in &arrival.groups {
            let clause = config.select_or_default(&group.channel, &group.host);
            let for_one = clause.command.as_ref().is_some_and(|command| command.serves_one_host());
            let host = for_one.then(|| group.host[..].into());
            let key = (clause.id, group.channel[..].into(), host);
            let extra = if clause.slot_cost > 0 { clause.extra_recipient_limit } else { 0 };
            self.pools.insert(key, clause.recipient_limit as usize + extra as usize);
        }
    }

    /// Checks that no limit is exceeded.
    pub fn check(&self, core: &Scheduler) {
        let loaded = core.view().loaded();
        assert!(loaded <= self.messages, "{loaded} messages are in memory");
        let pools: usize = self.pools.values().sum();
        let most = self.minima.saturating_add(pools).max(self.first) as u64;
        let found = core.view().recipients();
        assert!(found <= most, "{found} recipients are in memory, and not {most}");
        for ring in core.view().ring_ids().into_iter().filter(|_| !self.is_reloaded) {
            let most = core
                .view()
                .max_recipients_of(core.view().ring(ring).expect("it is listed"))
                .unwrap_or(usize::MAX);
            let found = core.view().ring(ring).map_or(0, |ring| ring.recipients as usize);
            assert!(found <= most, "{found} recipients of a ring are in memory, and not {most}");
        }
    }
}
