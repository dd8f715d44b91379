//! Invariants, tracked independently of the core: the jobs of agents, actual deliveries, and all
//! limits.

use crate::agent_waits::AgentWaitChecks;
use crate::dump_client::DumpClient;
use crate::expected_queue::ExpectedQueue;
use crate::jobs::{Fate, JobChecks, JobTotals};
use crate::memory::MemoryChecks;
use crate::operator::OperatorChecks;
use crate::options::OptionChecks;
use crate::retry_waits::RetryChecks;
use crate::trace::Trace;
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use zsched_bulk::JobId;
use zsched_bulk::result::Ended;
use zsched_config::{Clause, Config};
use zsched_core::Refusal;
use zsched_core::bulk::BulkAction;
use zsched_core::why::Reason;
use zsched_core::{
    Action, AgentId, Destination, Effect, Event, OrderTicket, RereadResult, Scheduler, Settings,
};
use zsched_format::agent_protocol::{AgentCommand, AgentLine, ReportStatus};
use zsched_format::control_file::diagnostic::DiagnosticRecord;
use zsched_format::control_file::notify::{Events, Notify};
use zsched_format::control_file::{self, ControlFile, Recipient, Tag};
use zsched_format::schedule::DayWindow;
use zsched_format::time::Timestamp;
use zsched_simulation::disk::{Departure, Disk};
use zsched_simulation::jobs::JobFiles;
use zsched_simulation::observer::{SimTime, SimulationObserver};
use zsched_spool::memory_file::MemoryFile;
use zsched_spool::note::{self, OutcomeKind};
use zsched_spool::{Arrival, Schedule, SpoolId, SpoolName};

/// Maximum `look_every` at which short-lived states are still seen.
const MAX_CLOSE_LOOK_EVERY: u64 = 20;

/// Maximum time from the end of a window of the day until nothing more is given to agents.
const MAX_CLOSING_TIME: Duration = Duration::from_millis(10);

/// Average number of steps until a new client connects, while there is none.
const STEPS_PER_CLIENT: u32 = 300;

/// The oracle. It panics when an invariant is violated.
pub struct Oracle {
    pub trace: Rc<Trace>,
    /// Number of steps between two checks of the core's own invariants and all threads.
    pub look_every: u64,
    options: OptionChecks,
    config: Rc<Config>,
    /// Some configuration had a clause with packets.
    has_packets: bool,
    /// Number of configurations and schedulers so far.
    era: u64,
    /// Messages by the serial number of their control file.
    messages: BTreeMap<u64, Message>,
    /// Serial number of the file that has a number at present.
    present: BTreeMap<u64, u64>,
    /// When the clock was set last.
    clock_set_at: Option<Timestamp>,
    /// The order that the scheduler is handling.
    order: Option<OrderTicket>,
    /// Agents of the running scheduler.
    agents: BTreeMap<AgentId, Agent>,
    /// How long rings wait for agents.
    agent_waits: AgentWaitChecks,
    /// Operators and their orders.
    pub operators: OperatorChecks,
    /// Expected contents of the queue.
    expected: ExpectedQueue,
    /// Expected waits for retries.
    retry_waits: RetryChecks,
    /// A client that reads a dump.
    dump_client: Option<Box<DumpClient>>,
    /// Random numbers for clients.
    random: Rng,
    /// Limits on memory.
    memory: MemoryChecks,
    /// Bulk jobs.
    pub jobs: JobChecks,
    /// The era in which the scheduler was started.
    started_in: u64,
    /// Wall clock at the last event of the core.
    last_event_at: Timestamp,
    pub totals: Totals,
}

/// Maximum number of notices that a recipient is late, over all configurations of a world.
const MAX_DELAY_NOTICES: usize = 4;
/// Maximum time from the moment when a report is due until it is in `router/`.
///
/// The disk may be full for hours meanwhile.
const MAX_REPORT_DELAY: Duration = Duration::from_secs(24 * 3600);

/// Counts of what happened.
#[derive(Default, Debug)]
pub struct Totals {
    pub delivered: u64,
    pub delivered_twice: u64,
    pub failed: u64,
    pub expired: u64,
    pub rerouted: u64,
    pub reported: u64,
    pub messages: u64,
    /// Recipients that have taken the place of failed ones while a scheduler ran.
    pub alternatives: u64,
    pub removed: u64,
    pub aside: u64,
    pub kills: u64,
    pub agents: u64,
    /// Times that due mail had no agent because of `-F`, `-p`, `-S`, or the like.
    pub held_back: u64,
    /// Jobs of messages whose senders have set times.
    pub scheduled: u64,
    /// Times that due mail had no agent because of a hold.
    pub held: u64,
    /// Orders that were answered.
    pub orders: u64,
    /// Dumps that a client read to the end.
    pub dumps: u64,
    /// New mail that waited for a retry time, and new mail that did not.
    pub new_waited: u64,
    pub new_went: u64,
    /// Messages that were paged out.
    pub paged_out: u64,
    /// The longest time that a ring without agents waited for one.
    pub longest_wait: Duration,
    pub jobs: JobTotals,
}

impl Totals {
    pub fn add(&mut self, other: &Totals) {
        self.delivered += other.delivered;
        self.delivered_twice += other.delivered_twice;
        self.failed += other.failed;
        self.expired += other.expired;
        self.rerouted += other.rerouted;
        self.reported += other.reported;
        self.messages += other.messages;
        self.alternatives += other.alternatives;
        self.removed += other.removed;
        self.aside += other.aside;
        self.kills += other.kills;
        self.agents += other.agents;
        self.held_back += other.held_back;
        self.dumps += other.dumps;
        self.held += other.held;
        self.orders += other.orders;
        self.new_waited += other.new_waited;
        self.new_went += other.new_went;
        self.paged_out += other.paged_out;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.jobs.add(&other.jobs);
    }
}

struct Message {
    recipients: BTreeMap<u32, RecipientState>,
    /// The control file or the message file is useless.
    is_malformed: bool,
    /// A scheduler was killed or an agent died while the message existed.
    was_disturbed: bool,
    /// Recipients that were unfinished when the present scheduler loaded it, and those finished
    /// since.
    to_do: usize,
    finished: usize,
    notes: BTreeMap<(u32, bool), u64>,
    /// The times of delivery that its sender has set.
    schedule: Option<Box<Schedule>>,
    /// Its sender has set a deadline of delivery.
    has_deadline: bool,
    /// `d` lines that the router has a report about.
    reported: BTreeSet<u32>,
    /// The order to the present scheduler that removes the whole message.
    removal_order: Option<OrderTicket>,
    /// That order was answered as stored.
    removal_is_stored: bool,
}

impl Message {
    /// Records recipients that have taken the place of failed ones. Returns their number.
    fn add_recipients(&mut self, arrival: &Arrival) -> usize {
        let known = self.recipients.len();
        let offsets = arrival.groups.iter().flat_map(|group| &group.offsets);
        for offset in offsets.chain(&arrival.locked) {
            self.recipients.entry(*offset).or_default();
        }
        self.recipients.len() - known
    }
}

/// What actually happened to a recipient.
#[derive(Default)]
struct RecipientState {
    wishes: Option<Events>,
    deliveries: u32,
    /// Deliveries that no agent has marked or reported.
    unmarked: u32,
    /// Number of reports that a delivery may be a duplicate.
    duplicate_warnings: u32,
    failed: bool,
    expired: bool,
    /// An operator's order removed it.
    removed_by_order: bool,
    /// The order for which the present scheduler removed it at once.
    removing_order: Option<OrderTicket>,
    /// That order was answered as stored.
    removal_is_stored: bool,
    /// Number of times that it was given to the router.
    rerouted: u32,
    /// The control file has a `d` line of its expiry.
    noted_expired: bool,
    /// The control file has a `d` line of a failure.
    ///
    /// The agent that has written it may have died before it said so.
    noted_failed: bool,
    /// When it was first delivered, given up, or removed by an order (wall clock).
    ended_at: Option<Timestamp>,
}

struct Agent {
    clause: Rc<Clause>,
    channel: Box<[u8]>,
    host: Option<Box<[u8]>>,
    /// The configuration at its start.
    era: u64,
    /// Jobs and commands that it has not answered.
    pending_input: VecDeque<PendingInput>,
    /// It has asked for work and has no answer.
    is_waiting: bool,
    is_stopping: bool,
    /// It has said `#hungry` too often.
    ///
    /// An observer cannot tell which jobs it has answered.
    is_ambiguous: bool,
    /// It has said something since its last `#hungry`.
    has_written: bool,
    /// Destination of its last job, and the era of the first job for it.
    at: Option<(Box<[u8]>, u64)>,
}

#[derive(PartialEq)]
enum PendingInput {
    Start,
    /// `only` are the recipients, if not all.
    Job {
        number: u64,
        serial: Option<u64>,
        host: Box<[u8]>,
        only: Option<BTreeSet<u32>>,
    },
    Idle,
}

impl PendingInput {
    /// Returns true if two agents would have common recipients.
    fn overlaps(&self, other: &PendingInput) -> bool {
        match (self, other) {
            (
                PendingInput::Job { number, serial, host, only },
                PendingInput::Job { number: number2, serial: serial2, host: host2, only: only2 },
            ) => {
                let is_same = (number, serial, host) == (number2, serial2, host2);
                is_same
                    && match (only, only2) {
                        (Some(only), Some(only2)) => !only.is_disjoint(only2),
                        _ => true,
                    }
            }
            _ => false,
        }
    }
}

impl Oracle {
    pub fn new(trace: Rc<Trace>, config: Rc<Config>, seed: u64) -> Oracle {
        Oracle {
            trace,
            look_every: 1,
            options: OptionChecks::new(Settings::default()),
            has_packets: config.show().contains("\tpacket="),
            config,
            era: 0,
            messages: BTreeMap::new(),
            order: None,
            present: BTreeMap::new(),
            clock_set_at: None,
            agents: BTreeMap::new(),
            agent_waits: AgentWaitChecks::default(),
            operators: OperatorChecks::default(),
            expected: ExpectedQueue::default(),
            retry_waits: RetryChecks::default(),
            dump_client: None,
            random: Rng::with_seed(seed),
            memory: MemoryChecks::default(),
            jobs: JobChecks::default(),
            started_in: 0,
            last_event_at: Timestamp::EPOCH,
            totals: Totals::default(),
        }
    }

    /// Records whether a new message is usable.
    pub fn submitted_as(&mut self, number: u64, is_usable: bool) {
        let message = self.message_of(number).expect("it was submitted");
        message.is_malformed |= !is_usable;
    }

    /// Records the deletion of a file by another program.
    pub fn record_loss(&mut self, number: u64) {
        self.operators.message_left(number);
        self.jobs.packet_vanished(number);
        self.present.remove(&number);
    }

    /// Returns the numbers of usable messages that are still in the spool.
    pub fn unresolved(&self) -> Vec<u64> {
        let usable = |serial: &u64| !self.messages[serial].is_malformed;
        self.present.iter().filter(|(_, serial)| usable(serial)).map(|(n, _)| *n).collect()
    }

    fn message_of(&mut self, number: u64) -> Option<&mut Message> {
        self.messages.get_mut(self.present.get(&number)?)
    }

    fn recipient_state(&mut self, file: &MemoryFile, offset: u32) -> &mut RecipientState {
        let message = self.messages.get_mut(&file.serial()).expect("each file was submitted");
        // An alternative may have been added that the core has not read yet.
        let to_do = &mut message.to_do;
        message.recipients.entry(offset).or_insert_with(|| {
            *to_do = to_do.saturating_add(1);
            RecipientState::default()
        })
    }

    fn agent_wrote(&mut self, agent: AgentId, line: &[u8]) {
        let Some(agent) = self.agents.get_mut(&agent) else {
            return;
        };
        if let AgentLine::Hungry = AgentLine::parse(line) {
            let answered = agent.pending_input.pop_front();
            if let Some(PendingInput::Job { number, host, .. }) = &answered {
                let to = Destination::new(&agent.channel, host);
                self.retry_waits.job_ended(*number, &to, &self.expected);
            }
            let parks = answered == Some(PendingInput::Idle);
            // An agent that ends a job without a report may still be at work on it.
            if let Some(PendingInput::Job { serial, .. }) = &answered
                && !agent.has_written
            {
                agent.is_ambiguous = true;
                // Its later reports may concern recipients that are unloaded by then.
                let message = serial.and_then(|serial| self.messages.get_mut(&serial));
                message.into_iter().for_each(|message| message.was_disturbed = true);
            }
            agent.is_ambiguous |= answered.is_none();
            if agent.is_ambiguous {
                // Any of its jobs may be unfinished, and its marks may count before its reports.
                for owed in &agent.pending_input {
                    if let PendingInput::Job { serial: Some(serial), .. } = owed
                        && let Some(message) = self.messages.get_mut(serial)
                    {
                        message.was_disturbed = true;
                    }
                }
            }
            agent.has_written = false;
            let has_asked =
                answered.is_some() && agent.pending_input.is_empty() && !agent.is_stopping;
            agent.is_waiting = has_asked && !parks;
        } else {
            agent.has_written = true;
        }
    }

    fn check_limits(&self, clause: &Rc<Clause>, channel: &[u8], host: Option<&[u8]>) {
        let limit = |limit: Option<u32>| limit.map_or(usize::MAX, |limit| limit as usize);
        let count = |counts: &dyn Fn(&Agent) -> bool| {
            1 + self.agents.values().filter(|agent| counts(agent)).count()
        };
        let all = count(&|_| true);
        assert!(all <= self.options.settings.max_agents, "max_agents: {all} agents");
        assert!(all <= limit(clause.max_agents), "maxta: {all} agents");
        let of_channel = count(&|agent| *agent.channel == *channel);
        assert!(of_channel <= limit(clause.max_channel), "maxchannel: {of_channel} agents");
        let of_ring = count(&|agent| {
            let same_ring = agent.clause.id == clause.id && agent.host.as_deref() == host;
            agent.era == self.era && *agent.channel == *channel && same_ring
        });
        assert!(of_ring <= limit(clause.max_ring), "maxring: {of_ring} agents");
    }

    /// Checks that the times of the sender allow delivery now.
    ///
    /// After a step of the clock, messages are checked again in steps.
    fn check_times(&mut self, at: SimTime, number: u64, serial: u64) {
        let is_clock_new =
            self.clock_set_at.is_some_and(|step| at.now.since(step) < Duration::from_secs(5));
        let Some(schedule) = self.messages[&serial].schedule.as_deref().filter(|_| !is_clock_new)
        else {
            return;
        };
        let is_late = at.wall.seconds() >= schedule.not_before.into();
        // Messages whose windows close are held back in steps.
        let earlier = at.wall - MAX_CLOSING_TIME;
        let is_open = |window: &DayWindow| window.is_open(at.wall) || window.is_open(earlier);
        let is_open = schedule.window.as_ref().is_none_or(is_open);
        assert!(
            is_late && is_open,
            "{number} is given to an agent, but is scheduled: {schedule:?}"
        );
        self.totals.scheduled += 1;
    }

    fn check_feed(&mut self, at: SimTime, id: AgentId, job: &[u8]) {
        let line = job.strip_suffix(b"\n").expect("a job is a line");
        let mut fields = line.split(|byte| *byte == b'\t');
        let path = fields.next().unwrap_or_default();
        let number = SpoolName::from_notified(path).expect("a path below transport/").number();
        let serial = self.present.get(&number).copied();
        // The agent may have ended in the same turn; then the core has taken its jobs back.
        let Some(agent) = self.agents.get(&id) else {
            return;
        };
        let host: Box<[u8]> = match fields.next() {
            Some(host) => host.into(),
            None => agent.host.clone().expect("an agent for one host knows it"),
        };
        let channel = agent.channel.clone();
        self.options.check_selected(&channel, &host);
        self.operators.check_feed(&self.config, number, &channel, &host);
        let is_ending = serial.is_some_and(|serial| self.messages[&serial].removal_is_stored);
        assert!(!is_ending, "{number} is given to an agent, but was to end");
        if let Some(serial) = serial {
            self.check_times(at, number, serial);
        }
        let AgentCommand::Job { only, .. } = AgentCommand::parse(line) else {
            panic!("{line:?} is no job");
        };
        let only: Option<BTreeSet<u32>> = only.map(|only| only.iter().collect());
        let job = PendingInput::Job { number, serial, host: host.clone(), only };
        for (other, agent) in &self.agents {
            let can_tell = serial.is_some() && !agent.is_ambiguous;
            let has_it = can_tell
                && agent.channel == channel
                && agent.pending_input.iter().any(|owed| owed.overlaps(&job));
            assert!(!has_it, "double feed: {number} for {other:?}, then for {id:?}");
        }
        let era = self.era;
        let agent = self.agents.get_mut(&id).expect("it was there above");
        agent.pending_input.push_back(job);
        agent.is_waiting = false;
        if agent.is_ambiguous
            && let Some(message) = serial.and_then(|serial| self.messages.get_mut(&serial))
        {
            message.was_disturbed = true;
        }
        let is_new_here = agent.at.as_ref().is_none_or(|(at, _)| *at != host);
        if is_new_here {
            agent.at = Some((host.clone(), era));
        }
        let Some(clause) = self.config.select(&channel, &host) else {
            return;
        };
        // After a reload, agents from before may go on.
        let is_here = |agent: &&Agent| {
            let here = agent.at.as_ref() == Some(&(host.clone(), era));
            let works =
                agent.pending_input.iter().any(|owed| matches!(owed, PendingInput::Job { .. }));
            here && works && !agent.is_ambiguous && agent.channel == channel
        };
        let here = self.agents.values().filter(is_here).count();
        let most = self.operators.max_agents_at_destination(clause.max_thread);
        assert!(here <= most as usize, "maxthr: {here} agents at one destination");
        let has_one_limit = self.era == self.started_in;
        let is_clear = |agent: &&Agent| agent.channel == channel && !agent.is_ambiguous;
        let others = self.agents.values().filter(is_clear);
        let others = others.flat_map(|agent| &agent.pending_input).filter_map(|owed| match owed {
            PendingInput::Job { number, host: to, .. } if *to == host => Some(*number),
            _ => None,
        });
        // An agent that has reported all recipients is no longer at work on them.
        let to = Destination::new(&channel, &host);
        let others = others.filter(|number| self.expected.has_to_do(*number, &to));
        self.jobs.check_feed(at, number, others, has_one_limit.then_some(most));
    }

    /// What has happened to a recipient of a file.
    fn fate(&self, serial: u64, offset: u32) -> Fate {
        let message = &self.messages[&serial];
        let recipient = &message.recipients[&offset];
        Fate {
            delivered: recipient.deliveries > 0,
            surely_delivered: recipient.deliveries > recipient.unmarked && !message.was_disturbed,
            failed: recipient.failed || recipient.expired || recipient.noted_failed,
            removed: recipient.removed_by_order,
        }
    }

    fn check_note(&mut self, note: &zsched_core::Note) {
        if matches!(
            note.occasion,
            OutcomeKind::Delay | OutcomeKind::DeadlinePassed | OutcomeKind::FailedAlternative
        ) {
            // There may be several about a recipient, or one more about a failure.
            return;
        }
        let (order, wall) = (self.order, self.last_event_at);
        let Some(message) = self.message_of(note.name.number()) else {
            return;
        };
        let mut expired = 0;
        for offset in &note.offsets {
            let key = (*offset, note.occasion == OutcomeKind::Success);
            let ticket = *message.notes.entry(key).or_insert(note.ticket);
            assert_eq!(ticket, note.ticket, "offset {offset} is noted twice");
            let is_put_away = matches!(note.occasion, OutcomeKind::Deletion | OutcomeKind::Reroute);
            if let Some(recipient) = message.recipients.get_mut(offset).filter(|_| is_put_away) {
                recipient.removed_by_order = true;
                recipient.ended_at.get_or_insert(wall);
                recipient.removing_order = order.or(recipient.removing_order);
            }
            if note.occasion == OutcomeKind::Expiry
                && let Some(recipient) = message.recipients.get_mut(offset)
                && !std::mem::replace(&mut recipient.expired, true)
            {
                recipient.ended_at.get_or_insert(wall);
                expired += 1;
            }
        }
        self.totals.expired += expired;
    }

    /// Records a report about a recipient that may be unloaded.
    ///
    /// An agent that says `#hungry` too often may go on with a job whose recipients, or whose whole
    /// message, were paged out. The scheduler ignores such reports, so a success is not noted.
    fn report_about_unloaded(&mut self, agent: AgentId, line: &[u8]) {
        let AgentLine::Report(report) = AgentLine::parse(line) else {
            return;
        };
        let is_greedy = self.agents.get(&agent).is_some_and(|agent| agent.is_ambiguous);
        let may_be_absent = is_greedy && self.config.parameters.memory().is_some();
        let rests = self.expected.path(report.number).is_none();
        if (rests || may_be_absent)
            && let Some(message) = self.message_of(report.number)
        {
            message.was_disturbed = true;
        }
    }

    fn order_answered(&mut self, at: SimTime, ticket: OrderTicket, effect: &Effect) {
        self.jobs.order_answered(at, ticket, effect);
        self.totals.orders += 1;
        if effect.unstored.is_none() {
            let of_order = |message: &&mut Message| message.removal_order == Some(ticket);
            // The mark or the note of a finished recipient may be lost; then it is unfinished
            // again.
            let is_clear = |message: &&mut Message| {
                let has_expired = message.recipients.values().any(|recipient| recipient.expired);
                !message.was_disturbed && !has_expired
            };
            let meant = self.messages.values_mut().filter(of_order).filter(is_clear);
            meant.for_each(|message| message.removal_is_stored = true);
        }
        // An agent that says `#hungry` too often may still have a job that counts as ended.
        let is_clear = !self.agents.values().any(|agent| agent.is_ambiguous);
        for number in self.operators.order_answered(ticket, effect) {
            if is_clear && let Some(message) = self.message_of(number) {
                // Recipients that an agent had at that time are removed later.
                let is_meant =
                    |recipient: &&mut RecipientState| recipient.removing_order == Some(ticket);
                let put_away = message.recipients.values_mut().filter(is_meant);
                put_away.for_each(|recipient| recipient.removal_is_stored = true);
            }
        }
    }

    /// Records an order to remove whole messages. Unloaded messages are not affected by it.
    fn record_removal_order(&mut self, ticket: OrderTicket, order: &zsched_core::Order) {
        use zsched_core::Order::{Delete, Expire, Reroute};
        let (Delete(targets) | Expire(targets) | Reroute(targets)) = order else {
            return;
        };
        // A target with a destination is only a part of a message, and several orders may name
        // parts.
        let is_all =
            |target: &&zsched_core::Target| target.is_whole && target.destination.is_none();
        for target in targets.iter().filter(is_all) {
            if self.expected.path(target.number).is_some()
                && let Some(message) = self.message_of(target.number)
            {
                message.removal_order = Some(ticket);
            }
        }
    }

    /// Checks that each delay is reported, unless the recipient ended before that.
    ///
    /// A later notice takes the place of an earlier one.
    fn check_delays(&self, number: u64, message: &Message, text: &[u8]) {
        let interval = self.config.parameters.global_report_interval + MAX_REPORT_DELAY;
        for offset in offsets_of_lines(text, |_, line| line.action() == b"delayed") {
            let last = |at: u32, line: &DiagnosticRecord<'_>| {
                let is_due = line.action() == b"delayed" && line.recipient == offset;
                is_due.then_some((at, line.time))
            };
            let Some((line, time)) = last_line(text, last) else { continue };
            let ended_at = message.recipients.get(&offset).and_then(|one| one.ended_at);
            let may_be_late = Timestamp::from_seconds(time) + interval;
            let has_ended = ended_at.is_none_or(|ended_at| ended_at <= may_be_late);
            let is_reported = message.reported.contains(&line);
            assert!(
                is_reported || has_ended || message.was_disturbed,
                "{number}/{offset}: a delay is not reported"
            );
        }
    }

    fn check_left(&mut self, number: u64, file: &MemoryFile, is_aside: bool) {
        let message = &self.messages[&file.serial()];
        if message.is_malformed {
            assert!(is_aside, "{number} cannot be used, and was removed");
            return;
        }
        let text = file.text().clone();
        let notes = noted_offsets(&text);
        let reported = offsets_of_lines(&text, |offset, _| message.reported.contains(&offset));
        let failed = offsets_of_lines(&text, |_, line| line.action() == b"failed");
        let late = offsets_of_lines(&text, |_, line| line.action() == b"delayed");
        self.check_delays(number, message, &text);
        let parsed = control_file::parse(text.clone()).expect("it is not malformed");
        check_alternatives(number, message, &parsed);
        for (offset, recipient) in &message.recipients {
            let failed = recipient.failed || recipient.expired;
            let delivered = recipient.deliveries > 0;
            let is_final = delivered || failed || recipient.removed_by_order;
            assert!(is_final, "{number}/{offset} leaves, but is not final");
            if recipient.removed_by_order {
                continue;
            }
            let added = || parsed.recipient_at(*offset).map(|one| note::events(&parsed, one));
            let wishes = recipient.wishes.or_else(added).unwrap_or(Events::NONE);
            let hears = (!delivered && wishes.failure)
                || (!failed && wishes.success && !message.was_disturbed);
            let is_reported = reported.contains(offset);
            assert!(!hears || is_reported, "{number}/{offset} is final, and its report is lost");
            let delays = late.iter().filter(|late| *late == offset).count();
            let may_be_told = wishes.delay || (wishes != Events::NONE && message.has_deadline);
            assert!(
                delays == 0 || may_be_told,
                "{number}/{offset}: a delay that was not asked for"
            );
            assert!(delays <= MAX_DELAY_NOTICES, "{number}/{offset}: {delays} delays");
            let count = notes.iter().filter(|noted| *noted == offset).count();
            assert!(!hears || count > 0 || message.was_disturbed, "{number}/{offset} is not noted");
            // An agent that says `#hungry` too often may go on with jobs that count as ended.
            let expired_at_work = recipient.expired && (delivered || recipient.failed);
            let may_repeat = message.was_disturbed || expired_at_work;
            assert!(count <= 1 || may_repeat, "{number}/{offset} is noted {count} times");
        }
        let message = self.messages.get_mut(&file.serial()).expect("it was submitted");
        for offset in failed {
            let recipient = message.recipients.get_mut(&offset);
            recipient.into_iter().for_each(|recipient| recipient.noted_failed = true);
        }
    }

    /// Lets a client connect, or read more.
    fn show_queue(&mut self, at: SimTime, core: &Scheduler) {
        if self.dump_client.is_none() && self.random.u32(0..STEPS_PER_CLIENT) == 0 {
            let client = DumpClient::new(at, core, &mut self.expected, &mut self.random);
            self.trace.add(at, || "a client asks for the queue".to_string());
            self.dump_client = Some(Box::new(client));
        }
        if let Some(client) = &mut self.dump_client
            && client.step(at, core, &self.expected, &mut self.random)
        {
            self.dump_client = None;
            self.totals.dumps += 1;
        }
    }

    fn check_agents(&self) {
        for (id, agent) in &self.agents {
            assert!(!agent.is_waiting, "{id:?} asked for work and got no answer");
        }
    }

    /// Checks the shown reason of each thread that waits for an agent.
    fn check_threads(&mut self, at: SimTime, core: &Scheduler) {
        for id in core.view().ring_ids() {
            let ring = core.view().ring(id).expect("a ring that is listed is there");
            for thread in &ring.threads {
                let thread = core.view().thread(*thread).expect("its threads, too");
                if thread.due.is_empty() || !thread.agents.is_empty() {
                    continue;
                }
                let destination = &thread.destination;
                let reason =
                    core.view().pending_reason(thread).filter(|reason| *reason != Reason::Turn);
                let reason = reason.unwrap_or_else(|| {
                    panic!("{destination} has mail that is due, no agent, and no reason");
                });
                let (channel, host) = (destination.channel(), destination.host());
                if reason == Reason::Held {
                    assert!(self.operators.may_hold(), "{destination} is held without an order");
                    self.totals.held += 1;
                    continue;
                }
                if matches!(reason, Reason::Window | Reason::Pace) {
                    self.options.check_flow(core, channel, host);
                    continue;
                }
                let is_deferred = matches!(reason, Reason::Retry(_) | Reason::Request);
                if is_deferred && self.options.is_put_off(at, core, channel, host) {
                    continue;
                }
                let of_ring = core.view().ring_agents(thread.ring);
                let may_idle = of_ring.idle.is_empty() || !self.options.selects(channel, host);
                assert!(may_idle, "{destination} waits, and an agent of its ring is idle");
                if self.options.check_reason(core, &self.config, channel, host) {
                    self.totals.held_back += 1;
                    continue;
                }
                let clause = self.config.select(channel, host).expect("a clause");
                let of_channel = self.agents.values().filter(|agent| *agent.channel == *channel);
                let limit = |limit: Option<u32>| limit.map_or(usize::MAX, |limit| limit as usize);
                let (count, limit) = match reason {
                    Reason::Refused(Refusal::MaxAgents) => (
                        self.agents.len(),
                        limit(clause.max_agents).min(self.options.settings.max_agents),
                    ),
                    Reason::Refused(Refusal::MaxChannel) => {
                        (of_channel.count(), limit(clause.max_channel))
                    }
                    // An operator may have set a limit.
                    Reason::Refused(Refusal::MaxRing) => {
                        (of_ring.count, core.view().max_ring_of(ring))
                    }
                    Reason::Refused(Refusal::ForkRate) => {
                        let wakeup = core.next_wakeup().expect("the next second");
                        let wait = wakeup.seconds_since(at.wall);
                        // The core has had no event since the clock was set back.
                        let knows = self.last_event_at <= at.wall;
                        assert!(
                            wait <= 1 || !knows,
                            "{destination} waits {wait} s for the fork rate"
                        );
                        continue;
                    }
                    // Another ring is ahead; `agent_waits` checks for how long.
                    Reason::Refused(Refusal::Claimed) => continue,
                    other => {
                        panic!("{destination} has no agent because of {other:?}, which is not true")
                    }
                };
                // New limits are applied in steps.
                let is_reviewing = core.next_wakeup().is_some_and(|wakeup| wakeup <= at.wall);
                assert!(
                    count >= limit || is_reviewing,
                    "{destination} is refused an agent for {reason:?}, but {count} < {limit}"
                );
            }
        }
    }
}

impl SimulationObserver for Oracle {
    fn submitted(&mut self, at: SimTime, number: u64, file: &MemoryFile) {
        self.trace.add(at, || format!("submitted {number}"));
        self.totals.messages += 1;
        let parsed = control_file::parse(file.text().clone());
        let is_usable = |file: &ControlFile| file.name() == Some(number.to_string().as_bytes());
        parsed.iter().for_each(|parsed| self.jobs.packet_made(number, file.serial(), parsed));
        let (recipients, is_malformed) = match &parsed {
            Ok(file) => {
                let state_of = |r: &Recipient| (r.offset, RecipientState::new(wishes(file, r)));
                (file.recipients.iter().map(state_of).collect(), !is_usable(file))
            }
            Err(_) => (BTreeMap::new(), true),
        };
        let message = Message {
            recipients,
            is_malformed,
            was_disturbed: false,
            to_do: 0,
            finished: 0,
            notes: BTreeMap::new(),
            removal_order: None,
            removal_is_stored: false,
            reported: BTreeSet::new(),
            schedule: None,
            has_deadline: file.text().windows(3).any(|word| word == b"BY="),
        };
        // With a full disk, a hold of the former message of this number may still be stored.
        self.operators.message_left(number);
        let former = self.present.insert(number, file.serial());
        assert_eq!(former, None, "the world gives a number twice");
        self.messages.insert(file.serial(), message);
    }

    fn event_sent(&mut self, at: SimTime, event: &Event<'_>) {
        self.trace.add(at, || format!("told {}", shown(event)));
        self.last_event_at = at.wall;
        match event {
            Event::Override(order) => self.operators.restore(order),
            _ => self.operators.check_restored(),
        }
        self.order = None;
        if let Event::Ordered { ticket, order, .. } = event {
            self.operators.record_order(*ticket, order);
            self.jobs.record_order(*ticket, order);
            self.order = Some(*ticket);
            self.record_removal_order(*ticket, order);
        }
        self.options.record_event(event);
        self.retry_waits.record_event(at.wall, event, &self.config, &self.expected);
        self.agent_waits.record_event(at, event);
        let lags = |agent| self.agents.get(agent).is_some_and(|agent: &Agent| agent.is_ambiguous);
        let lags = matches!(event, Event::AgentSaid { agent, .. } if lags(agent));
        self.expected.record_event(event, lags);
        self.memory.record_event(event, &self.config);
        match event {
            Event::Arrived(arrival) => {
                let number = arrival.name.number();
                self.operators.message_arrived(SpoolId { number, modified: arrival.modified });
                if let Some(message) = self.message_of(arrival.name.number()) {
                    let is_whole = arrival.next_offset.is_none() && !arrival.is_chunk;
                    message.to_do = if is_whole { arrival.pending() } else { usize::MAX };
                    message.finished = 0;
                    message.notes.clear();
                    message.add_recipients(arrival);
                    message.schedule = arrival.schedule.clone();
                }
            }
            Event::ClockSet(_) => self.clock_set_at = Some(at.now),
            Event::ReadAgain { number, outcome: RereadResult::Read(arrival) }
            | Event::MoreRead { number, outcome: RereadResult::Read(arrival) } => {
                if let Some(message) = self.message_of(*number) {
                    let added = message.add_recipients(arrival);
                    message.to_do = message.to_do.saturating_add(added);
                    self.totals.alternatives += added as u64;
                }
            }
            // The message may have been held when its files were already deleted.
            Event::ReadAgain { number, outcome: RereadResult::Gone }
            | Event::MoreRead { number, outcome: RereadResult::Gone } => {
                self.operators.message_left(*number);
            }
            Event::AgentSaid { agent, line } => {
                self.report_about_unloaded(*agent, line);
                self.agent_wrote(*agent, line);
            }
            Event::AgentEnded { agent, .. } => {
                if let Some(agent) = self.agents.remove(agent)
                    && let Some((host, _)) = agent.at
                {
                    self.retry_waits.agent_ended(&Destination::new(&agent.channel, &host));
                }
            }
            Event::Configured(config) => {
                self.memory.reloaded(config);
                self.config = config.clone();
                self.has_packets |= config.show().contains("\tpacket=");
                self.era += 1;
            }
            _ => {}
        }
    }

    fn action_taken(&mut self, at: SimTime, action: &Action) {
        self.trace.add(at, || format!("decided {}", shown_action(action)));
        self.expected.record_action(action);
        self.agent_waits.record_action(at, action);
        match action {
            Action::StartAgent { agent, clause, channel, host: for_host } => {
                let with_host =
                    clause.command.as_ref().is_some_and(|command| command.serves_one_host());
                let host = with_host.then_some(&for_host[..]);
                self.options.check_start(at.wall, channel, for_host);
                self.check_limits(clause, channel, host);
                let for_host = for_host[..].into();
                self.totals.agents += 1;
                let new = Agent {
                    clause: clause.clone(),
                    channel: channel[..].into(),
                    host: host.map(Box::from),
                    era: self.era,
                    pending_input: VecDeque::from([PendingInput::Start]),
                    is_waiting: false,
                    is_stopping: false,
                    is_ambiguous: false,
                    has_written: false,
                    at: Some((for_host, self.era)),
                };
                self.agents.insert(*agent, new);
            }
            Action::Feed { agent, job } => self.check_feed(at, *agent, job),
            Action::SendIdle(agent) => {
                if let Some(agent) = self.agents.get_mut(agent) {
                    agent.pending_input.push_back(PendingInput::Idle);
                    agent.is_waiting = false;
                    agent.at = None;
                }
            }
            Action::StopAgent { agent, .. } => {
                if let Some(agent) = self.agents.get_mut(agent) {
                    agent.is_waiting = false;
                    agent.is_stopping = true;
                }
            }
            Action::Note(note) => self.check_note(note),
            Action::Bulk(BulkAction::MakePackets { job, .. }) => {
                self.jobs.check_making(at, self.last_event_at, *job);
            }
            Action::PageOut { .. } => self.totals.paged_out += 1,
            Action::OrderDone { ticket, effect } => self.order_answered(at, *ticket, effect),
            Action::Statistics(statistics) => {
                if let Some(message) = self.message_of(statistics.spool_id.number) {
                    message.finished += 1;
                    let (finished, to_do) = (message.finished, message.to_do);
                    let number = statistics.spool_id.number;
                    assert!(finished <= to_do, "{number}: {finished} ends of {to_do} recipients");
                }
            }
            _ => {}
        }
    }

    fn accepted(&mut self, at: SimTime, file: &MemoryFile, offset: u32) {
        let serial = file.serial();
        self.trace.add(at, || format!("delivered file {serial} offset {offset}"));
        self.totals.delivered += 1;
        let recipient = self.recipient_state(file, offset);
        assert!(
            !recipient.removal_is_stored,
            "file {serial} offset {offset} is delivered, but was deleted"
        );
        recipient.deliveries += 1;
        recipient.ended_at.get_or_insert(at.wall);
        let (deliveries, unmarked) = (recipient.deliveries, recipient.unmarked);
        assert!(
            deliveries <= 1 + unmarked,
            "file {serial} offset {offset}: delivered {deliveries} times, {unmarked} unknown"
        );
        let doubts = recipient.duplicate_warnings;
        assert!(
            deliveries <= 1 + doubts,
            "file {serial} offset {offset}: duplicate without a warning"
        );
        self.totals.delivered_twice += u64::from(deliveries > 1);
        self.recipient_state(file, offset).check_never_both(serial, offset);
    }

    fn rerouted(&mut self, at: SimTime, serial: u64, offset: u32) {
        self.trace.add(at, || format!("rerouted file {serial} offset {offset}"));
        self.totals.rerouted += 1;
        let message = self.messages.get_mut(&serial).expect("each file was submitted");
        let recipient = message.recipients.get_mut(&offset).expect("a recipient");
        recipient.rerouted += 1;
        recipient.check_never_both(serial, offset);
    }

    fn reported(&mut self, at: SimTime, serial: u64, line: u32) {
        self.trace.add(at, || format!("reported file {serial} line {line}"));
        self.totals.reported += 1;
        let message = self.messages.get_mut(&serial).expect("each file was submitted");
        assert!(message.reported.insert(line), "file {serial} line {line}: reported twice");
    }

    fn noted(&mut self, at: SimTime, file: &MemoryFile) {
        let serial = file.serial();
        self.trace.add(at, || format!("noted in file {serial}"));
        let message = self.messages.get_mut(&serial).expect("each file was submitted");
        if !message
            .recipients
            .values()
            .any(|recipient| recipient.expired && !recipient.noted_expired)
        {
            return;
        }
        for offset in expired_offsets(file.text().as_slice()) {
            let recipient =
                message.recipients.get_mut(&offset).filter(|recipient| recipient.expired);
            if let Some(recipient) = recipient {
                recipient.noted_expired = true;
                recipient.check_never_both(serial, offset);
            }
        }
    }

    fn abandoned(&mut self, at: SimTime, file: &MemoryFile, offset: u32, secret: bool) {
        self.trace.add(at, || format!("abandoned file {} offset {offset}", file.serial()));
        self.messages.get_mut(&file.serial()).expect("submitted").was_disturbed = true;
        self.recipient_state(file, offset).unmarked += u32::from(secret);
    }

    fn duplicate_reported(&mut self, at: SimTime, serial: u64, offset: u32) {
        self.trace.add(at, || format!("doubted file {serial} offset {offset}"));
        let message = self.messages.get_mut(&serial).expect("each file was submitted");
        if let Some(recipient) = message.recipients.get_mut(&offset) {
            recipient.duplicate_warnings += 1;
        }
    }

    fn concluded(&mut self, at: SimTime, file: &MemoryFile, offset: u32, status: ReportStatus) {
        if matches!(status, ReportStatus::Error | ReportStatus::Error2) {
            self.totals.failed += 1;
            let recipient = self.recipient_state(file, offset);
            recipient.failed = true;
            recipient.ended_at.get_or_insert(at.wall);
        }
    }

    fn departed(&mut self, at: SimTime, number: u64, left: &Departure) {
        self.trace.add(at, || format!("left {number} {}", shown_left(left)));
        match left {
            Departure::Removed(file) => {
                self.totals.removed += 1;
                self.check_left(number, file, false);
            }
            Departure::Aside(file) => {
                self.totals.aside += 1;
                self.check_left(number, file, true);
            }
            Departure::Gone => {}
        }
        self.jobs.packet_left(number);
        self.present.remove(&number);
        self.operators.message_left(number);
    }

    fn job_submitted(&mut self, at: SimTime, id: JobId, files: &JobFiles) {
        self.trace.add(at, || format!("submitted job {id}: {:?}", files.parameters()));
        self.jobs.submitted(id, files);
    }

    fn sent_again(&mut self, at: SimTime, id: JobId, offset: u32) {
        self.trace.add(at, || format!("job {id}: recipient {offset} is sent again"));
        self.jobs.sent_again(id, offset);
    }

    fn job_ended(&mut self, at: SimTime, id: JobId, ended: &Ended, files: &JobFiles) {
        self.trace.add(at, || format!("job {id}: {ended:?}"));
        let mut jobs = std::mem::take(&mut self.jobs);
        jobs.check_end(id, ended, files, |serial, offset| self.fate(serial, offset));
        self.jobs = jobs;
        self.totals.jobs = self.jobs.totals;
    }

    fn stopped(&mut self, at: SimTime) {
        self.trace.add(at, || "the scheduler is gone".to_string());
        self.totals.kills += 1;
        self.agents.clear();
        let of_message = |message: &mut Message| {
            message.was_disturbed = true;
            message.removal_order = None;
            message.recipients.values_mut().for_each(|recipient| recipient.removing_order = None);
        };
        self.operators.scheduler_ended();
        self.jobs.scheduler_ended();
        self.expected = ExpectedQueue::default();
        self.dump_client = None;
        self.messages.values_mut().for_each(of_message);
    }

    fn started(&mut self, at: SimTime, config: &Rc<Config>, settings: &Settings) {
        self.trace.add(at, || "a scheduler starts".to_string());
        self.config = config.clone();
        self.memory = MemoryChecks::new(config);
        self.has_packets |= config.show().contains("\tpacket=");
        self.era += 1;
        self.started_in = self.era;
        self.options = OptionChecks::new(settings.clone());
        self.operators.scheduler_started();
        self.retry_waits.started();
        self.agent_waits = AgentWaitChecks::default();
        self.agent_waits.configured(config);
    }

    fn step_over(&mut self, at: SimTime, core: Option<&Scheduler>, _disk: &Disk, is_settled: bool) {
        let Some(core) = core else {
            return;
        };
        if at.step.is_multiple_of(self.look_every) {
            core.check_invariants();
            self.memory.check(core);
            if is_settled {
                self.jobs.check_shown(core, |serial, offset| self.fate(serial, offset));
                self.check_threads(at, core);
                self.expected.check(&core.view().totals(), self.has_packets);
                if self.look_every <= MAX_CLOSE_LOOK_EVERY {
                    self.agent_waits.check_all(at, core);
                    self.totals.longest_wait =
                        self.totals.longest_wait.max(self.agent_waits.longest);
                }
                if self.look_every == 1 {
                    self.retry_waits.check_all(at, core, &self.config, &self.expected);
                    (self.totals.new_waited, self.totals.new_went) = self.retry_waits.counts;
                }
            }
        }
        if is_settled {
            self.check_agents();
            self.show_queue(at, core);
        }
    }
}

impl RecipientState {
    /// Checks that a recipient has at most one end: delivery, reroute, or reported expiry.
    ///
    /// Deliveries that an agent did not mark or report are exceptions.
    fn check_never_both(&self, serial: u64, offset: u32) {
        let is_delivered = self.deliveries > self.unmarked;
        let ends = [
            (is_delivered, "delivered"),
            (self.rerouted > 0, "given to the router"),
            (self.noted_expired, "noted as failed"),
        ];
        let ends: Vec<&str> = ends.iter().filter(|end| end.0).map(|end| end.1).collect();
        assert!(ends.len() <= 1, "file {serial} offset {offset}: never both: {ends:?}");
        assert!(self.rerouted <= 1, "file {serial} offset {offset}: given to the router twice");
    }

    fn new(wishes: Events) -> RecipientState {
        RecipientState { wishes: Some(wishes), ..RecipientState::default() }
    }
}

/// Checks the classes of a message that leaves the spool.
///
/// Each has exactly one delivery, or its last line has failed; and no line was tried before the one
/// before it had failed.
fn check_alternatives(number: u64, message: &Message, file: &ControlFile) {
    let mut tried: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for recipient in &file.recipients {
        let line = recipient.notify.map(|line| Notify::parse(file.get(line.value)));
        if let Some(of) = line.and_then(|line| line.alternative_of) {
            tried.entry(of.offset).or_default().push(recipient.offset);
        }
    }
    let mut classes: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for line in &file.alternatives {
        classes.entry((line.sender, line.class)).or_default().push(line.offset);
    }
    for lines in classes.values() {
        let mut is_open = true;
        let mut delivered = 0;
        for line in lines {
            let recipients = tried.get(line).map(Vec::as_slice).unwrap_or_default();
            let Some(offset) = recipients.first() else {
                assert!(!is_open, "{number}: alternative {line} was not tried");
                continue;
            };
            assert_eq!(recipients.len(), 1, "{number}: alternative {line} is there twice");
            assert!(is_open, "{number}: alternative {line} was tried too early");
            let recipient = &message.recipients[offset];
            delivered += u32::from(recipient.deliveries > recipient.unmarked);
            is_open = recipient.failed || recipient.expired;
            // A failure that was not marked in time is tried again.
            is_open &= file.recipient_at(*offset).is_some_and(|one| one.tag != Tag::Done);
        }
        let is_ambiguous = message.was_disturbed && delivered > 1;
        assert!(delivered <= 1 || is_ambiguous, "{number}: {delivered} alternatives delivered");
    }
}

fn wishes(file: &ControlFile, recipient: &Recipient) -> Events {
    let line = recipient.notify.map(|notify| file.get(notify.value));
    line.map_or(Notify::default(), Notify::parse).events
}

/// Returns the offsets of all recipients with a `d` line about their end.
fn noted_offsets(text: &[u8]) -> Vec<u32> {
    offsets_of_lines(text, |_, line| line.action() != b"delayed")
}

/// Returns the offsets of recipients with a `d` line of an expiry.
fn expired_offsets(text: &[u8]) -> Vec<u32> {
    offsets_of_lines(text, |_, line| line.notary.windows(5).any(|status| status == b"5.4.7"))
}

/// Recipients of the `d` lines that are meant, by the offset of a line and its content.
fn offsets_of_lines(
    text: &[u8],
    is_meant: impl Fn(u32, &DiagnosticRecord<'_>) -> bool,
) -> Vec<u32> {
    let Ok(file) = control_file::parse(text.to_vec()) else {
        return Vec::new();
    };
    let parsed = file
        .diagnostics
        .iter()
        .filter_map(|line| Some((line.offset, DiagnosticRecord::parse(file.get(line.value))?)));
    let meant = parsed.filter(|(offset, line)| is_meant(*offset, line));
    meant.map(|(_, diagnostic)| diagnostic.recipient).collect()
}

/// What `of` says about the last `d` line for which it says something.
fn last_line<T>(text: &[u8], of: impl Fn(u32, &DiagnosticRecord<'_>) -> Option<T>) -> Option<T> {
    let file = control_file::parse(text.to_vec()).ok()?;
    let mut lines = file.diagnostics.iter().rev();
    lines.find_map(|line| of(line.offset, &DiagnosticRecord::parse(file.get(line.value))?))
}

fn shown(event: &Event<'_>) -> String {
    match event {
        Event::AgentSaid { agent, line } => {
            format!("{} says {:?}", agent.0, String::from_utf8_lossy(line))
        }
        Event::Configured(_) => "a configuration".to_string(),
        Event::Etrn(host) => format!("turn {}", String::from_utf8_lossy(host)),
        Event::Arrived(arrival) => {
            format!("arrived {} with {} to do", arrival.name, arrival.pending())
        }
        other => format!("{other:?}"),
    }
}

fn shown_action(action: &Action) -> String {
    match action {
        Action::StartAgent { agent, channel, host, clause } => {
            let (channel, host) = (String::from_utf8_lossy(channel), String::from_utf8_lossy(host));
            format!("start {} for {channel}/{host} of {}", agent.0, clause.location)
        }
        Action::Feed { agent, job } => {
            format!("feed {} {:?}", agent.0, String::from_utf8_lossy(job))
        }
        Action::Note(note) => {
            format!("note {} {} {:?} {:?}", note.ticket, note.name, note.occasion, note.offsets)
        }
        Action::Log(level, text) => format!("log {level} {text}"),
        Action::Remove { name, aside, .. } => format!("remove {name} aside={aside}"),
        Action::Statistics(statistics) => {
            format!("count {} {}", statistics.spool_id.number, statistics.state)
        }
        other => format!("{other:?}"),
    }
}

fn shown_left(left: &Departure) -> &'static str {
    match left {
        Departure::Removed(_) => "removed",
        Departure::Aside(_) => "to postman/",
        Departure::Gone => "gone already",
    }
}
