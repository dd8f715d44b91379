//! `RETIRE`, `RELOAD` and `LOG`: commands about the scheduler itself.

use super::answer::{AdminCommand, Next, Reply, SessionContext, Task};
use super::arguments::{Arguments, SyntaxError};
use super::outcome::{OrderKind, refusal_line};
use super::simple_order::SimpleOrder;
use log::LevelFilter;
use zsched_core::{Effect, Order};

/// Log levels by name.
const LEVELS: [(&str, LevelFilter); 5] = [
    ("error", LevelFilter::Error),
    ("warn", LevelFilter::Warn),
    ("info", LevelFilter::Info),
    ("debug", LevelFilter::Debug),
    ("trace", LevelFilter::Trace),
];

/// `RETIRE pid`: ends an agent after its current job.
pub(super) fn retire(rest: &[u8], _context: &mut SessionContext<'_>) -> Reply {
    let read = || {
        let mut words = Arguments::parse(rest)?;
        let word = words.expect("the number of a process")?;
        words.end()?;
        word.text.parse().map_err(|_| word.error("expected a process id"))
    };
    match read() {
        Ok(pid) => {
            Reply::Task(Box::new(SimpleOrder::order(OrderKind::Retire, Order::RetireAgent(pid))))
        }
        Err(error) => Reply::SyntaxError(error),
    }
}

/// `RELOAD`: reads the configuration again.
pub(super) fn reload(rest: &[u8], _context: &mut SessionContext<'_>) -> Reply {
    match Arguments::parse(rest).and_then(Arguments::end) {
        Ok(()) => Reply::Task(Box::new(AdminTask::new(AdminCommand::Reload, None))),
        Err(error) => Reply::SyntaxError(error),
    }
}

/// `LOG level`: sets the log level.
pub(super) fn log(rest: &[u8], _context: &mut SessionContext<'_>) -> Reply {
    match read_level(rest) {
        Ok(level) => {
            let outcomes = Order::LogOutcomes(level >= LevelFilter::Debug);
            Reply::Task(Box::new(AdminTask::new(AdminCommand::Log(level), Some(outcomes))))
        }
        Err(error) => Reply::SyntaxError(error),
    }
}

fn read_level(rest: &[u8]) -> Result<LevelFilter, SyntaxError> {
    let mut words = Arguments::parse(rest)?;
    let names = || LEVELS.map(|(name, _)| name).join(", ");
    let word = words.expect(&format!("a level, one of {},", names()))?;
    words.end()?;
    let level = LEVELS.iter().find(|(name, _)| *name == word.text).map(|(_, level)| *level);
    level.ok_or_else(|| word.error(format!("a level is one of {}", names())))
}

/// An admin command, and the order that informs the core of it.
struct AdminTask {
    command: Option<AdminCommand>,
    order: Option<Order>,
    outcome: Result<(), String>,
}

impl AdminTask {
    fn new(command: AdminCommand, order: Option<Order>) -> AdminTask {
        AdminTask { command: Some(command), order, outcome: Ok(()) }
    }
}

impl Task for AdminTask {
    fn next(&mut self, _context: &mut SessionContext<'_>) -> Next {
        let command = self.command.take().map(Next::AdminCommand);
        command.or_else(|| self.order.take().map(Next::Order)).unwrap_or(Next::Over)
    }

    fn order_done(&mut self, _effect: &Effect) {}

    fn done(&mut self, outcome: Result<(), String>) {
        self.outcome = outcome;
    }

    fn tell(&self) -> String {
        match &self.outcome {
            Ok(()) => "+OK\n".to_string(),
            Err(why) => refusal_line(why),
        }
    }

    fn progress(&self) -> String {
        "completed".to_string()
    }
}
