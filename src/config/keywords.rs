//! The table of the keywords of clauses.
//!
//! It is used by the parser, by `scheduler -t`, and by the tests of the manual page and the example
//! file.

use super::clause::{Clause, ClauseDraft, Niceness};
use super::value::{Kind, Value};
use std::time::Duration;

/// How far a keyword is implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It has its documented effect.
    Supported,
    /// It is read and checked, but has no effect.
    Ignored,
}

/// A keyword of a clause.
#[derive(Debug)]
pub struct Keyword {
    /// Its name in lower case, which the file may write in upper or lower case.
    pub name: &'static str,
    /// Other names for the same thing.
    pub aliases: &'static [&'static str],
    /// Its default, or what the default depends on.
    pub default: &'static str,
    /// Description in one sentence.
    pub about: &'static str,
    /// How far it is implemented.
    pub status: Status,
    /// How its value is parsed and applied.
    pub(super) kind: Kind,
    /// The value in an effective clause, if there is one.
    pub(super) get: fn(&Clause) -> Option<Value>,
}

impl Keyword {
    /// All its names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Short description of its value.
    pub fn takes(&self) -> String {
        self.kind.takes()
    }

    /// Returns true if it takes no value.
    pub(super) fn is_flag(&self) -> bool {
        matches!(self.kind, Kind::Flag(_))
    }

    /// Returns true if effective clauses have a value for it.
    pub(super) fn applies_to_clauses(&self) -> bool {
        let concerns_scheduler = matches!(self.kind, Kind::SchedulerNice | Kind::SchedulerPriority);
        self.status == Status::Supported && !concerns_scheduler
    }
}

/// All keywords, in alphabetic order.
pub fn keywords() -> &'static [Keyword] {
    KEYWORDS
}

/// The keyword with this name or alias, in upper or lower case.
pub(super) fn find(name: &str) -> Option<&'static Keyword> {
    KEYWORDS.iter().find(|keyword| keyword.names().any(|known| known.eq_ignore_ascii_case(name)))
}

/// Keywords of older schedulers, each with its replacement.
pub(super) const OBSOLETE_KEYWORDS: [(&str, &str); 3] = [
    ("byhost", "destinations always have one host"),
    ("gangschedule", "destinations of one ring share its agents"),
    ("maxhost", "use `maxthr`"),
];

/// A limit on processes. Zero and negative numbers mean no limit.
fn limit(number: i64) -> Option<u32> {
    u32::try_from(number).ok().filter(|limit| *limit > 0)
}

fn clamp(number: i64, least: u32) -> u32 {
    u32::try_from(number.max(i64::from(least))).unwrap_or(u32::MAX)
}

fn shown_limit(limit: Option<u32>) -> Option<Value> {
    Some(Value::Number(limit.map_or(0, i64::from)))
}

fn shown_flag(flag: bool) -> Option<Value> {
    flag.then_some(Value::Flag)
}

fn set_niceness(draft: &mut ClauseDraft, niceness: Niceness) {
    draft.clause.nice = Some(niceness);
}

fn nonzero(span: Duration) -> Option<Duration> {
    (!span.is_zero()).then_some(span)
}

static KEYWORDS: &[Keyword] = &[
    Keyword {
        name: "agent-life",
        aliases: &[],
        default: "none",
        about: "Retire an agent after this time, when its current work is done.",
        status: Status::Supported,
        kind: Kind::NonzeroInterval(|draft, span| draft.clause.agent_life = Some(span)),
        get: |clause| clause.agent_life.map(Value::Interval),
    },
    Keyword {
        name: "agent-timeout",
        aliases: &[],
        default: "1h",
        about: "Kill an agent that has work and says nothing for so long; its work is tried again.",
        status: Status::Supported,
        kind: Kind::NonzeroInterval(|draft, span| draft.clause.agent_timeout = span),
        get: |clause| Some(Value::Interval(clause.agent_timeout)),
    },
    Keyword {
        name: "ageorder",
        aliases: &[],
        default: "off",
        about: "Feed the oldest message of a thread first, instead of the one that came first.",
        status: Status::Supported,
        kind: Kind::Flag(|draft| draft.clause.age_order = true),
        get: |clause| shown_flag(clause.age_order),
    },
    Keyword {
        name: "bychannel",
        aliases: &[],
        default: "off",
        about: "Accepted from old files, without effect.",
        status: Status::Ignored,
        kind: Kind::Flag(|_| ()),
        get: |_| None,
    },
    Keyword {
        name: "command",
        aliases: &[],
        default: "none",
        about: "The command line that starts an agent; matching ends at the clause that has one.",
        status: Status::Supported,
        kind: Kind::Command(|draft, command| draft.clause.command = Some(command)),
        get: |clause| clause.command.clone().map(Value::Command),
    },
    Keyword {
        name: "delivery-delay",
        aliases: &[],
        default: "none",
        about: "Wait so long after each delivery to a thread; it gets one agent at a time.",
        status: Status::Supported,
        kind: Kind::NonzeroInterval(|draft, span| draft.clause.flow.delay = Some(span)),
        get: |clause| clause.flow.delay.map(Value::Interval),
    },
    Keyword {
        name: "deliveryform",
        aliases: &[],
        default: "none",
        about: "Name of a form for reports of deliveries; nothing uses it yet.",
        status: Status::Ignored,
        kind: Kind::Text(|draft, name| draft.clause.delivery_form = Some(name)),
        get: |clause| clause.delivery_form.clone().map(Value::Text),
    },
    Keyword {
        name: "expiry",
        aliases: &[],
        default: "3d",
        about: "Give up a recipient at this age, once it has been tried; 0 is never.",
        status: Status::Supported,
        kind: Kind::Interval(|draft, span| draft.clause.expiry = nonzero(span)),
        get: |clause| Some(Value::Interval(clause.expiry.unwrap_or_default())),
    },
    Keyword {
        name: "expiry2",
        aliases: &[],
        default: "none",
        about: "Give up a recipient so long after its expiry even if it has never been tried.",
        status: Status::Supported,
        kind: Kind::Interval(|draft, span| draft.clause.expiry2 = Some(span)),
        get: |clause| clause.expiry2.map(Value::Interval),
    },
    Keyword {
        name: "expiryform",
        aliases: &[],
        default: "none",
        about: "Name of a form for reports of expiry; nothing uses it yet.",
        status: Status::Ignored,
        kind: Kind::Text(|draft, name| draft.clause.expiry_form = Some(name)),
        get: |clause| clause.expiry_form.clone().map(Value::Text),
    },
    Keyword {
        name: "extra-recipient-limit",
        aliases: &[],
        default: "1000",
        about: "More recipients in memory, of large messages that preempt others.",
        status: Status::Supported,
        kind: Kind::Number {
            least: 0,
            most: u32::MAX as i64,
            set: |draft, number| draft.clause.extra_recipient_limit = clamp(number, 0),
        },
        get: |clause| Some(Value::Number(clause.extra_recipient_limit.into())),
    },
    Keyword {
        name: "failed-cohort-limit",
        aliases: &[],
        default: "0",
        about: "Suspend a thread after so many failed rounds of its agents; 0 is never.",
        status: Status::Supported,
        kind: Kind::Number {
            least: 0,
            most: 1000,
            set: |draft, number| draft.clause.flow.failed_cohorts = clamp(number, 0),
        },
        get: |clause| Some(Value::Number(clause.flow.failed_cohorts.into())),
    },
    Keyword {
        name: "feedback-debug",
        aliases: &[],
        default: "off",
        about: "Log how the window of a thread changes, and why.",
        status: Status::Supported,
        kind: Kind::Flag(|draft| draft.clause.flow.debug = true),
        get: |clause| shown_flag(clause.flow.debug),
    },
    Keyword {
        name: "group",
        aliases: &[],
        default: "daemon if run by root, else none",
        about: "The group that agents run as, by name or number.",
        status: Status::Supported,
        kind: Kind::Group(|draft, id| draft.clause.group = Some(id)),
        get: |clause| clause.group.map(Value::Id),
    },
    Keyword {
        name: "idlemax",
        aliases: &[],
        default: "3 times interval",
        about: "End an agent that has had no work for so long.",
        status: Status::Supported,
        kind: Kind::Interval(|draft, span| draft.idle_max = Some(span)),
        get: |clause| Some(Value::Interval(clause.idle_max)),
    },
    Keyword {
        name: "initial-concurrency",
        aliases: &[],
        default: "that of maxthr",
        about: "How many agents a new thread may have before anything is known of its host.",
        status: Status::Supported,
        kind: Kind::Number {
            least: 1,
            most: 100_000,
            set: |draft, number| draft.clause.flow.initial = Some(clamp(number, 1)),
        },
        get: |clause| clause.flow.initial.map(|initial| Value::Number(initial.into())),
    },
    Keyword {
        name: "interval",
        aliases: &[],
        default: "1m",
        about: "Time between attempts, multiplied by the factors of retries.",
        status: Status::Supported,
        kind: Kind::NonzeroInterval(|draft, span| draft.clause.interval = span),
        get: |clause| Some(Value::Interval(clause.interval)),
    },
    Keyword {
        name: "job-order",
        aliases: &[],
        default: "on if slot-cost is not 0",
        about: "Work off one message after the other, instead of giving hosts their turns.",
        status: Status::Supported,
        kind: Kind::Flag(|draft| draft.clause.job_order = true),
        get: |clause| shown_flag(clause.job_order),
    },
    Keyword {
        name: "mail-priority",
        aliases: &[],
        default: "5",
        about: "Which mail gets agents first where they are scarce, 0 before 9; z keeps it back.",
        status: Status::Supported,
        kind: Kind::MailPriority(|draft, priority| draft.clause.mail_priority = priority),
        get: |clause| Some(Value::MailPriority(clause.mail_priority)),
    },
    Keyword {
        name: "maxchannel",
        aliases: &["maxchannels"],
        default: "that of maxta",
        about: "Most agents at a time of a channel, whatever their clause; 0 is no limit.",
        status: Status::Supported,
        kind: Kind::Number {
            least: i64::MIN,
            most: i64::MAX,
            set: |draft, number| draft.max_channel = Some(limit(number)),
        },
        get: |clause| shown_limit(clause.max_channel),
    },
    Keyword {
        name: "maxring",
        aliases: &["maxrings"],
        default: "that of maxta",
        about: "Most agents at a time of all threads of this clause; 0 is no limit.",
        status: Status::Supported,
        kind: Kind::Number {
            least: i64::MIN,
            most: i64::MAX,
            set: |draft, number| draft.max_ring = Some(limit(number)),
        },
        get: |clause| shown_limit(clause.max_ring),
    },
    Keyword {
        name: "maxta",
        aliases: &["maxtransport", "maxtransports"],
        default: "0",
        about: "Most agents at a time, of all clauses; 0 is as many as the process can have.",
        status: Status::Supported,
        kind: Kind::Number {
            least: i64::MIN,
            most: i64::MAX,
            set: |draft, number| draft.clause.max_agents = limit(number),
        },
        get: |clause| shown_limit(clause.max_agents),
    },
    Keyword {
        name: "maxthr",
        aliases: &[],
        default: "1",
        about: "Most agents at a time of one thread, that is of one channel and host.",
        status: Status::Supported,
        kind: Kind::Number {
            least: i64::MIN,
            most: i64::MAX,
            set: |draft, number| draft.clause.max_thread = clamp(number, 1),
        },
        get: |clause| Some(Value::Number(clause.max_thread.into())),
    },
    Keyword {
        name: "minimum-slots",
        aliases: &[],
        default: "3",
        about: "Leave a message alone that could not earn so many delivery slots in all.",
        status: Status::Supported,
        kind: Kind::Number {
            least: 0,
            most: 1_000_000,
            set: |draft, number| draft.clause.minimum_slots = clamp(number, 0),
        },
        get: |clause| Some(Value::Number(clause.minimum_slots.into())),
    },
    Keyword {
        name: "negative-feedback",
        aliases: &[],
        default: "none",
        about: "How much a failure to reach the host takes from a thread's window.",
        status: Status::Supported,
        kind: Kind::Feedback(|draft, feedback| draft.clause.flow.negative = Some(feedback)),
        get: |clause| clause.flow.negative.map(Value::Feedback),
    },
    Keyword {
        name: "nice",
        aliases: &[],
        default: "none",
        about: "How much nicer agents are than the scheduler; the last of nice and priority counts.",
        status: Status::Supported,
        kind: Kind::Nice(set_niceness),
        get: |clause| match clause.nice {
            Some(niceness @ Niceness::Relative(_)) => Some(Value::Niceness(niceness)),
            _ => None,
        },
    },
    Keyword {
        name: "overfeed",
        aliases: &[],
        default: "150",
        about: "How many jobs more than one an agent is given before it has to answer.",
        status: Status::Supported,
        kind: Kind::Number {
            least: i64::MIN,
            most: 10_000,
            set: |draft, number| draft.clause.overfeed = clamp(number, 0),
        },
        get: |clause| Some(Value::Number(clause.overfeed.into())),
    },
    Keyword {
        name: "packet",
        aliases: &[],
        default: "0",
        about: "Most recipients of one message that an agent is given at once; 0 is all.",
        status: Status::Supported,
        kind: Kind::Number {
            least: 0,
            most: 10_000,
            set: |draft, number| draft.clause.packet = clamp(number, 0),
        },
        get: |clause| Some(Value::Number(clause.packet.into())),
    },
    Keyword {
        name: "positive-feedback",
        aliases: &[],
        default: "none",
        about: "How much an answer of the host adds to a thread's window.",
        status: Status::Supported,
        kind: Kind::Feedback(|draft, feedback| draft.clause.flow.positive = Some(feedback)),
        get: |clause| clause.flow.positive.map(Value::Feedback),
    },
    Keyword {
        name: "priority",
        aliases: &[],
        default: "none",
        about: "The process priority of agents; the last of nice and priority counts.",
        status: Status::Supported,
        kind: Kind::Priority(set_niceness),
        get: |clause| match clause.nice {
            Some(niceness @ Niceness::Absolute(_)) => Some(Value::Niceness(niceness)),
            _ => None,
        },
    },
    Keyword {
        name: "queueonly",
        aliases: &[],
        default: "off",
        about: "Start nothing when mail arrives, only when ETRN or an operator asks for the host.",
        status: Status::Supported,
        kind: Kind::Flag(|draft| draft.clause.queue_only = true),
        get: |clause| shown_flag(clause.queue_only),
    },
    Keyword {
        name: "rate",
        aliases: &[],
        default: "none",
        about: "Most deliveries started in that time, for each thread.",
        status: Status::Supported,
        kind: Kind::Rate(|draft, rate| draft.clause.flow.rate = Some(rate)),
        get: |clause| clause.flow.rate.map(Value::Rate),
    },
    Keyword {
        name: "recipient-limit",
        aliases: &[],
        default: "20000",
        about: "Recipients in memory of large messages, where a parameter limits memory.",
        status: Status::Supported,
        kind: Kind::Number {
            least: 0,
            most: u32::MAX as i64,
            set: |draft, number| draft.clause.recipient_limit = clamp(number, 0),
        },
        get: |clause| Some(Value::Number(clause.recipient_limit.into())),
    },
    Keyword {
        name: "refill-delay",
        aliases: &[],
        default: "5s",
        about: "How long more recipients of a message may wait to be read, if there is room for few.",
        status: Status::Supported,
        kind: Kind::Interval(|draft, span| draft.clause.refill_delay = span),
        get: |clause| Some(Value::Interval(clause.refill_delay)),
    },
    Keyword {
        name: "refill-limit",
        aliases: &[],
        default: "100",
        about: "Read more recipients of a message when there is room for so many.",
        status: Status::Supported,
        kind: Kind::Number {
            least: 1,
            most: u32::MAX as i64,
            set: |draft, number| draft.clause.refill_limit = clamp(number, 1),
        },
        get: |clause| Some(Value::Number(clause.refill_limit.into())),
    },
    Keyword {
        name: "reporttimes",
        aliases: &[],
        default: "none",
        about: "After which times failures are reported while other recipients of a message wait.",
        status: Status::Supported,
        kind: Kind::Intervals(|draft, spans| draft.clause.report_times = spans),
        get: |clause| {
            let times = &clause.report_times;
            (!times.is_empty()).then(|| Value::Intervals(times.clone()))
        },
    },
    Keyword {
        name: "retries",
        aliases: &[],
        default: "1 1 2 3 5 8 13 21 34",
        about: "Factors that interval is multiplied by, one after each attempt, then at random.",
        status: Status::Supported,
        kind: Kind::Retries(|draft, factors| draft.clause.retries = factors),
        get: |clause| Some(Value::Retries(clause.retries.clone())),
    },
    Keyword {
        name: "skew",
        aliases: &[],
        default: "5",
        about: "Divides the correction of a retry time towards a whole interval.",
        status: Status::Supported,
        kind: Kind::Number {
            least: 1,
            most: i64::MAX,
            set: |draft, number| draft.clause.skew = clamp(number, 1),
        },
        get: |clause| Some(Value::Number(clause.skew.into())),
    },
    Keyword {
        name: "slot-cost",
        aliases: &[],
        default: "0",
        about: "Deliveries of a message that earn a slot for preempting it; 0 is no preemption.",
        status: Status::Supported,
        kind: Kind::Number {
            least: 0,
            most: 1_000_000,
            set: |draft, number| draft.clause.slot_cost = clamp(number, 0),
        },
        get: |clause| Some(Value::Number(clause.slot_cost.into())),
    },
    Keyword {
        name: "slot-discount",
        aliases: &[],
        default: "50",
        about: "Percentage of the slots that a message may be preempted without at first.",
        status: Status::Supported,
        kind: Kind::Number {
            least: 0,
            most: 100,
            set: |draft, number| draft.clause.slot_discount = clamp(number, 0),
        },
        get: |clause| Some(Value::Number(clause.slot_discount.into())),
    },
    Keyword {
        name: "slot-loan",
        aliases: &[],
        default: "3",
        about: "Slots that a message may be preempted without at first.",
        status: Status::Supported,
        kind: Kind::Number {
            least: 0,
            most: 1_000_000,
            set: |draft, number| draft.clause.slot_loan = clamp(number, 0),
        },
        get: |clause| Some(Value::Number(clause.slot_loan.into())),
    },
    Keyword {
        name: "sysnice",
        aliases: &[],
        default: "none",
        about: "How much nicer the scheduler makes itself when it starts; the last in the file counts.",
        status: Status::Supported,
        kind: Kind::SchedulerNice,
        get: |_| None,
    },
    Keyword {
        name: "syspriority",
        aliases: &[],
        default: "none",
        about: "The process priority of the scheduler itself; the last in the file counts.",
        status: Status::Supported,
        kind: Kind::SchedulerPriority,
        get: |_| None,
    },
    Keyword {
        name: "user",
        aliases: &[],
        default: "root if run by root, else none",
        about: "The account that agents run as, by name or number.",
        status: Status::Supported,
        kind: Kind::User(|draft, id| draft.clause.user = Some(id)),
        get: |clause| clause.user.map(Value::Id),
    },
    Keyword {
        name: "wakeuprestartonly",
        aliases: &[],
        default: "off",
        about: "A new message starts no further agent for a thread that has one.",
        status: Status::Supported,
        kind: Kind::Flag(|draft| draft.clause.wakeup_restart_only = true),
        get: |clause| shown_flag(clause.wakeup_restart_only),
    },
    Keyword {
        name: "window-key",
        aliases: &[],
        default: "none",
        about: "Let threads share a window: those of a pattern, or those that one relay answers for.",
        status: Status::Supported,
        kind: Kind::WindowKey(|draft, key| draft.clause.flow.key = Some(key)),
        get: |clause| clause.flow.key.clone().map(Value::WindowKey),
    },
];

#[cfg(test)]
mod tests {
    use super::super::parameters::parameters;
    use super::super::{Config, ConfigContext, EXAMPLE, Zenv};
    use super::*;
    use std::collections::{BTreeMap, HashSet};
    use std::path::Path;

    const MANUAL: &str = include_str!("../../man/scheduler.cf.5");

    /// Every keyword and parameter: its names and its default.
    fn documented() -> impl Iterator<Item = (Vec<&'static str>, &'static str)> {
        let keywords = keywords().iter().map(|row| (row.names().collect(), row.default));
        keywords.chain(parameters().iter().map(|row| (row.names().collect(), row.default)))
    }

    #[test]
    fn keyword_and_parameter_names_are_sorted_and_unique() {
        assert!(keywords().is_sorted_by_key(|row| row.name));
        assert!(parameters().is_sorted_by_key(|row| row.name));
        let names: Vec<&str> = documented().flat_map(|(names, _)| names).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        assert!(OBSOLETE_KEYWORDS.iter().all(|(name, _)| find(name).is_none()));
        assert!(find("MaxTransports").is_some_and(|row| row.name == "maxta"));
    }

    #[test]
    fn table_rows_are_complete() {
        for row in keywords() {
            assert!(row.about.ends_with('.') && !row.default.is_empty(), "{}", row.name);
            assert!(!row.takes().is_empty());
        }
        for row in parameters() {
            assert!(row.about.ends_with('.') && !row.default.is_empty(), "{}", row.name);
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
            ("error", None),
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
                Clause { location: config.location(0), lines: BTreeMap::new(), ..(*clause).clone() }
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
            user_id: |_| Ok(Some(0)),
            group_id: |_| Ok(Some(0)),
            ..ordinary_user()
        };
        let parsed = Config::parse(Path::new("example"), uncommented.as_bytes(), &context);
        assert!(parsed.is_ok(), "{:?}", parsed.err());
    }
}
