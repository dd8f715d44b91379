//! `RETIRE`, `JOB`, `RELOAD` and `LOG`: commands about agents, bulk jobs and the scheduler itself.

use super::arguments::{Arguments, SyntaxError};
use super::operator_order::OperatorOrder;
use super::outcome::{OrderKind, refusal_line};
use super::task::{AdminCommand, Answer, Reply, ReplyResult, SessionContext, Step, Task};
use log::LevelFilter;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use zsched_bulk::{JobId, JobIdError, MAX_SHARE};
use zsched_core::Order;
use zsched_core::bulk::BulkOrder;
use zsched_format::printable;

/// Log levels by name.
const LEVELS: [(&str, LevelFilter); 5] = [
    ("error", LevelFilter::Error),
    ("warn", LevelFilter::Warn),
    ("info", LevelFilter::Info),
    ("debug", LevelFilter::Debug),
    ("trace", LevelFilter::Trace),
];

/// `RETIRE pid`: ends an agent after its current job.
pub(super) fn retire(rest: &[u8]) -> ReplyResult {
    let mut words = Arguments::parse(rest)?;
    let word = words.expect("the number of a process")?;
    words.end()?;
    let pid = word.text.parse().map_err(|_| word.error("expected a process id"))?;
    Ok(Reply::change(OperatorOrder::new(OrderKind::Retire, Order::RetireAgent(pid))))
}

/// `JOB id order`: changes a bulk job.
pub(super) fn job(rest: &[u8]) -> ReplyResult {
    let mut words = Arguments::parse(rest)?;
    let word = words.expect("the name of a bulk job")?;
    let job: JobId =
        word.text.parse().map_err(|error: JobIdError| word.error(error.to_string()))?;
    let verb = words.expect(JOB_ORDERS)?;
    let order = match verb.text.as_str() {
        "pause" => BulkOrder::Pause,
        "resume" => BulkOrder::Resume,
        "cancel" => BulkOrder::Cancel,
        "packet-size" => BulkOrder::PacketSize(number(&mut words, 1..=100_000)?),
        "share" => BulkOrder::Share(number(&mut words, 1..=u32::from(MAX_SHARE))? as u8),
        "priority" => {
            let word = words.expect("a priority")?;
            let priority = zsched_format::priority::parse(&word.text);
            BulkOrder::Priority(priority.ok_or_else(|| word.error("expected 0 to 9, or z"))?)
        }
        "lost" => match words.expect("send or drop")? {
            word if word.text == "send" => BulkOrder::Lost { are_sent: true },
            word if word.text == "drop" => BulkOrder::Lost { are_sent: false },
            word => return Err(word.error("expected send or drop")),
        },
        _ => return Err(verb.error(format!("expected {JOB_ORDERS}"))),
    };
    words.end()?;
    Ok(Reply::change(OperatorOrder::new(OrderKind::Job, Order::Bulk { job, order })))
}

/// The orders of `JOB`.
const JOB_ORDERS: &str = "pause, resume, cancel, packet-size, share, priority or lost";

fn number(words: &mut Arguments, range: RangeInclusive<u32>) -> Result<u32, SyntaxError> {
    let word = words.expect("a number")?;
    let number = word.text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        word.error(format!("expected a number from {} to {}", range.start(), range.end()))
    })
}

/// `RELOAD`: reads the configuration again.
pub(super) fn reload(rest: &[u8]) -> ReplyResult {
    Arguments::parse(rest)?.end()?;
    Ok(Reply::change(AdminTask::new([Step::Admin(AdminCommand::Reload)])))
}

/// `LOG level`: sets the log level, and informs the core of it.
pub(super) fn log(rest: &[u8]) -> ReplyResult {
    let mut words = Arguments::parse(rest)?;
    let names = || LEVELS.map(|(name, _)| name).join(", ");
    let word = words.expect(&format!("a level, one of {},", names()))?;
    words.end()?;
    let level = LEVELS.iter().find(|(name, _)| *name == word.text).map(|(_, level)| *level);
    let level = level.ok_or_else(|| word.error(format!("a level is one of {}", names())))?;
    let outcomes = Order::LogFinishedMessages(level >= LevelFilter::Debug);
    let steps = [Step::Admin(AdminCommand::Log(level)), Step::Order(outcomes)];
    Ok(Reply::change(AdminTask::new(steps)))
}

/// Steps in order, with the outcome of the admin command.
struct AdminTask {
    steps: VecDeque<Step>,
    outcome: Result<String, String>,
}

impl AdminTask {
    fn new(steps: impl Into<VecDeque<Step>>) -> AdminTask {
        AdminTask { steps: steps.into(), outcome: Ok(String::new()) }
    }
}

impl Task for AdminTask {
    fn step(&mut self, _context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        self.steps.pop_front().unwrap_or_else(|| {
            let answer = match &self.outcome {
                Ok(remark) if remark.is_empty() => "+OK\n".to_string(),
                Ok(remark) => format!("+OK; {}\n", printable::line(remark)),
                Err(why) => refusal_line(why),
            };
            out.extend_from_slice(answer.as_bytes());
            Step::Done
        })
    }

    fn take_answer(&mut self, answer: Answer) {
        if let Answer::Admin(outcome) = answer {
            self.outcome = outcome;
        }
    }

    fn progress(&self) -> String {
        "completed".to_string()
    }
}
