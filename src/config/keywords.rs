//! The table of the keywords of clauses.
//!
//! The parser and `scheduler -t` use it, and the tests of the manual page and the example file.

use super::clause::ClauseDraft;
use super::kinds::{
    COMMAND, FEEDBACK, FLAG, GROUP, INTERVAL, INTERVALS, JOB_ORDER, MAIL_PRIORITY, NICE,
    NONZERO_INTERVAL, PRIORITY, RATE, RETRIES, SCHEDULER_PRIORITY, TEXT, USER, WINDOW_KEY,
};
use super::table::{Keyword, table};
use super::value::Shown;

/// Keywords of older schedulers, each with its replacement.
pub(crate) const OBSOLETE_KEYWORDS: [(&str, &str); 3] = [
    ("byhost", "destinations always have one host"),
    ("gangschedule", "destinations of one ring share its agents"),
    ("maxhost", "use `maxthr`"),
];

/// No lower bound of a number.
const MIN: i64 = i64::MIN;
/// No upper bound of a number.
const MAX: i64 = i64::MAX;
/// The largest number of recipients.
const MAX_RECIPIENTS: i64 = u32::MAX as i64;

/// All keywords, in alphabetic order.
pub(crate) static KEYWORDS: &[Keyword<ClauseDraft>] = table! { ClauseDraft:
    /// Maximum number of jobs after which an agent is ended; 0 is no limit.
    "agent-jobs": 0..=MAX_RECIPIENTS, "0" => clause.agent_jobs or zero;
    /// Time after which an agent is ended, when its current jobs are done.
    "agent-life": NONZERO_INTERVAL, "none" => clause.agent_life;
    /// Time without a report after which an agent with work is killed.
    "agent-timeout": NONZERO_INTERVAL, "1h" => clause.agent_timeout;
    /// Feed the oldest message of a destination first.
    "ageorder": FLAG, "off" => clause.age_order;
    /// Accepted in old files, without effect.
    "bychannel": FLAG, "off";
    /// The command line that starts an agent; matching ends at the clause that has one.
    "command": COMMAND, "none" => clause.command;
    /// Time from a delivery to the next; a destination then has one delivery at a time.
    "delivery-delay": NONZERO_INTERVAL, "none" => clause.flow.delay;
    /// Name of a form for reports of deliveries; without effect yet.
    "deliveryform": TEXT, "none" => clause.delivery_form hidden;
    /// Age at which a recipient expires that has been tried; 0 is never.
    "expiry": INTERVAL, "3d" => clause.expiry or zero;
    /// Time after expiry at which a recipient expires even if it has never been tried.
    "expiry2": INTERVAL, "none" => clause.expiry2;
    /// Name of a form for reports of expiry; without effect yet.
    "expiryform": TEXT, "none" => clause.expiry_form hidden;
    /// Maximum number of further recipients in memory, of messages that preempt others.
    "extra-recipient-limit": 0..=MAX_RECIPIENTS, "1000" => clause.extra_recipient_limit;
    /// Number of failed rounds of agents after which a destination is dead; 0 is never.
    "failed-cohort-limit": 0..=1000, "0" => clause.flow.failed_cohorts;
    /// Log each change of a window, and its reason.
    "feedback-debug": FLAG, "off" => clause.flow.debug;
    /// The group that agents run as, by name or number.
    "group": GROUP, "daemon if run by root, else none" => clause.group;
    /// Time after which an idle agent is asked whether it lives.
    "idle-ping": NONZERO_INTERVAL, "none" => clause.idle_ping;
    /// Time without work after which an agent is ended.
    "idlemax": INTERVAL, "3 times interval" => clause.idle_max;
    /// Maximum number of agents of a new destination, before its host has answered.
    "initial-concurrency": 1..=100_000, "that of maxthr" => clause.flow.initial;
    /// Time between attempts, multiplied by the factors of retries.
    "interval": NONZERO_INTERVAL, "1m" => clause.interval;
    /// Deliver one message after the other, or a random one of a destination.
    "job-order": JOB_ORDER, "message if slot-cost is not 0" => clause.job_order;
    /// Priority of mail where agents are scarce, 0 before 9; z holds it.
    "mail-priority": MAIL_PRIORITY, "5" => clause.mail_priority;
    /// Maximum number of agents of a channel, in all clauses; 0 is no limit.
    "maxchannel" | "maxchannels": MIN..=MAX, "that of maxta" => clause.max_channel or zero;
    /// Maximum number of agents of this clause; 0 is no limit.
    "maxring" | "maxrings": MIN..=MAX, "that of maxta" => clause.max_ring or zero;
    /// Maximum number of agents of all clauses; 0 is no limit but that of the process.
    "maxta" | "maxtransport" | "maxtransports": MIN..=MAX, "0" => clause.max_agents or zero;
    /// Maximum number of agents of one destination (channel and host).
    "maxthr": MIN..=MAX, "1" => clause.max_thread;
    /// Minimum number of slots that a message must be able to earn to be preempted.
    "minimum-slots": 0..=1_000_000, "3" => clause.minimum_slots;
    /// Amount by which a failure to reach the host shrinks the window.
    "negative-feedback": FEEDBACK, "none" => clause.flow.negative;
    /// Added to the scheduler's niceness for agents; the last of nice and priority counts.
    "nice": NICE, "none" => clause.nice if is_relative;
    /// Maximum number of jobs beyond the first that an agent gets before it has to answer.
    "overfeed": MIN..=10_000, "150" => clause.overfeed;
    /// Maximum number of recipients of one message and host in one job; 0 is all.
    "packet": 0..=10_000, "0" => clause.packet;
    /// Amount by which an answer of the host grows the window.
    "positive-feedback": FEEDBACK, "none" => clause.flow.positive;
    /// The process priority of agents; the last of nice and priority counts.
    "priority": PRIORITY, "none" => clause.nice if is_absolute;
    /// Head start of a message for each step of its own priority, with job-order.
    "priority-step": NONZERO_INTERVAL, "1m" => clause.priority_step;
    /// Start no agent when mail arrives, only after ETRN or an operator's request.
    "queueonly": FLAG, "off" => clause.queue_only;
    /// Maximum number of deliveries to a destination that start in an interval.
    "rate": RATE, "none" => clause.flow.rate;
    /// Maximum number of recipients of large messages in memory, if memory is limited.
    "recipient-limit": 0..=MAX_RECIPIENTS, "20000" => clause.recipient_limit;
    /// Time after which more of a message is read if there is room for fewer recipients.
    "refill-delay": INTERVAL, "5s" => clause.refill_delay;
    /// Room, in recipients, that is needed to read more of a message.
    "refill-limit": 1..=MAX_RECIPIENTS, "100" => clause.refill_limit;
    /// Times after which failures are reported while other recipients of a message wait.
    "reporttimes": INTERVALS, "none" => clause.report_times;
    /// Factors that interval is multiplied by, one after each attempt, then at random.
    "retries": RETRIES, "1 1 2 3 5 8 13 21 34" => clause.retries;
    /// Divides the correction of a retry time towards a whole interval.
    "skew": 1..=MAX, "5" => clause.skew;
    /// Deliveries of a message that earn a slot for preempting it; 0 is no preemption.
    "slot-cost": 0..=1_000_000, "0" => clause.slot_cost;
    /// Percentage of the required slots that preemption may lack at first.
    "slot-discount": 0..=100, "50" => clause.slot_discount;
    /// Number of slots that preemption may lack at first.
    "slot-loan": 0..=1_000_000, "3" => clause.slot_loan;
    /// Added to the scheduler's own niceness at the start; the last in the file counts.
    "sysnice": NICE, "none" => scheduler_niceness hidden;
    /// The process priority of the scheduler itself; the last in the file counts.
    "syspriority": SCHEDULER_PRIORITY, "none" => scheduler_niceness hidden;
    /// The account that agents run as, by name or number.
    "user": USER, "root if run by root, else none" => clause.user;
    /// A new message starts no further agent for a destination that has one.
    "wakeuprestartonly": FLAG, "off" => clause.wakeup_restart_only;
    /// Destinations that share a window: those of a pattern, or those with the same relay.
    "window-key": WINDOW_KEY, "none" => clause.flow.key;
};

#[cfg(test)]
mod tests {
    use super::super::clause::Clause;
    use super::super::parameters::PARAMETERS;
    use super::super::table::find;
    use super::super::{Config, ConfigContext, EXAMPLE, Zenv};
    use super::*;
    use std::collections::{BTreeMap, HashSet};
    use std::path::Path;

    const MANUAL: &str = include_str!("../../man/scheduler.cf.5");

    /// Every keyword and parameter: its names and its default.
    fn documented() -> impl Iterator<Item = (Vec<&'static str>, &'static str)> {
        let keywords = KEYWORDS.iter().map(|row| (row.names().collect(), row.default));
        keywords.chain(PARAMETERS.iter().map(|row| (row.names().collect(), row.default)))
    }

    #[test]
    fn keyword_and_parameter_names_are_sorted_and_unique() {
        assert!(KEYWORDS.is_sorted_by_key(|row| row.name));
        assert!(PARAMETERS.is_sorted_by_key(|row| row.name));
        let names: Vec<&str> = documented().flat_map(|(names, _)| names).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        assert!(OBSOLETE_KEYWORDS.iter().all(|(name, _)| find(KEYWORDS, name).is_none()));
        assert!(find(KEYWORDS, "MaxTransports").is_some_and(|row| row.name == "maxta"));
    }

    #[test]
    fn table_rows_are_complete() {
        for row in KEYWORDS {
            assert!(row.description.ends_with('.') && !row.default.is_empty(), "{}", row.name);
            assert!(!(row.value_description)().is_empty());
        }
        for row in PARAMETERS {
            assert!(row.description.ends_with('.') && !row.default.is_empty(), "{}", row.name);
            assert!(row.name.starts_with("PARAM"));
        }
    }

    #[test]
    fn manual_page_has_every_name_and_default() {
        let items: Vec<(HashSet<&str>, Option<&str>)> = MANUAL
            .lines()
            .filter_map(|line| line.strip_prefix(".It Ic ").or_else(|| line.strip_prefix(".Ic ")))
            .map(|item| {
                let (names, default) = item
                    .split_once(" Pq ")
                    .map_or((item, None), |(names, default)| (names, Some(default)));
                (names.split([' ', ',']).collect(), default)
            })
            .collect();
        for (names, default) in documented() {
            for name in names {
                assert!(items.iter().any(|(known, _)| known.contains(name)), "{name}");
                for (_, shown) in items.iter().filter(|(known, _)| known.contains(name)) {
                    let agrees = |shown: &str| default.starts_with(shown) || shown == "see text";
                    assert!(shown.is_none_or(agrees), "{name}: {default} {shown:?}");
                }
            }
        }
    }

    #[test]
    fn example_has_every_keyword() {
        let settings: HashSet<&str> = EXAMPLE
            .lines()
            .map(|line| line.trim_start_matches(['\t', '#']))
            .filter_map(|line| line.split(['=', ' ']).next())
            .collect();
        for (names, _) in documented() {
            assert!(settings.contains(names[0]), "{}", names[0]);
        }
        for name in documented().flat_map(|(names, _)| names) {
            assert!(EXAMPLE.contains(name), "{name}");
        }
    }

    /// A user other than root, on a system without accounts.
    fn ordinary_user() -> ConfigContext {
        ConfigContext::unprivileged(Zenv::from_pairs([
            ("MAILBOXES", "/home/me/mail"),
            ("MAILQPORT", "1740"),
        ]))
    }

    #[test]
    fn example_is_accepted_without_root() {
        let loaded = Config::parse(Path::new("example"), EXAMPLE.as_bytes(), &ordinary_user())
            .unwrap_or_else(|errors| panic!("{}", errors[0]));
        assert_eq!(loaded.warnings, []);
        let config = loaded.config;
        let socket = config.parameters.mailq_socket.as_ref().map(ToString::to_string);
        assert_eq!(socket.as_deref(), Some("TCP:1740"));
        for (channel, expected) in [
            ("local", Some("mailbox -u -d ${MAILBOXES}")),
            ("hold", Some("hold")),
            ("discard", Some("discard")),
            ("bitbucket", Some("discard")),
            ("smtp", None),
            ("error", Some("errormail")),
        ] {
            let clause = config.select(channel.as_bytes(), b"host").expect(channel);
            let command = clause.command.as_ref().map(ToString::to_string);
            assert_eq!(command.as_deref(), expected, "{channel}");
        }
    }

    #[test]
    fn example_shown_and_read_again_is_unchanged() {
        let parse = |text: &str| {
            Config::parse(Path::new("example"), text.as_bytes(), &ordinary_user())
                .unwrap_or_else(|errors| panic!("{}", errors[0]))
                .config
        };
        let config = parse(EXAMPLE);
        let again = parse(&config.show());
        assert_eq!(config.parameters, again.parameters);
        for channel in ["local", "hold", "discard", "bitbucket", "smtp"] {
            let clause = |config: &Config| {
                let clause = config.select(channel.as_bytes(), b"host").expect(channel);
                let (lines, combined_lines) = (BTreeMap::new(), Vec::new());
                let location = config.location(0);
                Clause { location, lines, combined_lines, ..(*clause).clone() }
            };
            assert_eq!(clause(&config), clause(&again), "{channel}");
        }
    }

    #[test]
    fn example_uncommented_is_accepted() {
        // Settings and parameters are the lines with a `#` and no blank after it. The clauses of
        // other agents are not among them.
        let uncommented: String = EXAMPLE
            .lines()
            .take_while(|line| !line.contains("come from elsewhere"))
            .map(|line| match line.trim_start_matches('\t').strip_prefix('#') {
                Some(rest) if rest.starts_with(char::is_alphabetic) => {
                    line.replacen('#', "", 1) + "\n"
                }
                _ => line.to_string() + "\n",
            })
            .collect();
        let context = ConfigContext {
            zenv: Zenv::from_pairs([
                ("MAILBOXES", "/m"),
                ("MAILQPORT", "1"),
                ("MAILSHARE", "/s"),
                ("POSTOFFICE", "/p"),
            ]),
            is_root: true,
            find_id: std::sync::Arc::new(|_, _| Ok(Some(0))),
            ..ordinary_user()
        };
        let parsed = Config::parse(Path::new("example"), uncommented.as_bytes(), &context);
        assert!(parsed.is_ok(), "{:?}", parsed.err());
    }
}
