//! `RETIRE`, `RELOAD` and `LOG`: commands about the scheduler itself.

use super::answer::{Chore, Deed, Next, Reply, Surroundings};
use super::outcome::{Kind, refuse};
use super::single::Single;
use super::words::{Words, Wrong};
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
pub fn retire(rest: &[u8], _around: &mut Surroundings<'_>) -> Reply {
    let read = || {
        let mut words = Words::parse(rest)?;
        let word = words.expect("the number of a process")?;
        words.end()?;
        word.text.parse().map_err(|_| word.wrong("the number of a process is meant to be here"))
    };
    match read() {
        Ok(pid) => Reply::Deed(Box::new(Single::order(Kind::Retire, Order::RetireAgent(pid)))),
        Err(wrong) => Reply::Wrong(wrong),
    }
}

/// `RELOAD`: reads the configuration again.
pub fn reload(rest: &[u8], _around: &mut Surroundings<'_>) -> Reply {
    match Words::parse(rest).and_then(Words::end) {
        Ok(()) => Reply::Deed(Box::new(Doing::new(Chore::Reload, None))),
        Err(wrong) => Reply::Wrong(wrong),
    }
}

/// `LOG level`: sets the log level.
pub fn log(rest: &[u8], _around: &mut Surroundings<'_>) -> Reply {
    match read_level(rest) {
        Ok(level) => {
            let outcomes = Order::LogOutcomes(level >= LevelFilter::Debug);
            Reply::Deed(Box::new(Doing::new(Chore::Log(level), Some(outcomes))))
        }
        Err(wrong) => Reply::Wrong(wrong),
    }
}

fn read_level(rest: &[u8]) -> Result<LevelFilter, Wrong> {
    let mut words = Words::parse(rest)?;
    let names = || LEVELS.map(|(name, _)| name).join(", ");
    let word = words.expect(&format!("a level, one of {},", names()))?;
    words.end()?;
    let level = LEVELS.iter().find(|(name, _)| *name == word.text).map(|(_, level)| *level);
    level.ok_or_else(|| word.wrong(format!("a level is one of {}", names())))
}

/// An admin command, and the order that informs the core of it.
struct Doing {
    chore: Option<Chore>,
    order: Option<Order>,
    outcome: Result<(), String>,
}

impl Doing {
    fn new(chore: Chore, order: Option<Order>) -> Doing {
        Doing { chore: Some(chore), order, outcome: Ok(()) }
    }
}

impl Deed for Doing {
    fn next(&mut self, _around: &mut Surroundings<'_>) -> Next {
        let chore = self.chore.take().map(Next::Chore);
        chore.or_else(|| self.order.take().map(Next::Order)).unwrap_or(Next::Over)
    }

    fn obeyed(&mut self, _effect: &Effect) {}

    fn done(&mut self, outcome: Result<(), String>) {
        self.outcome = outcome;
    }

    fn tell(&self) -> String {
        match &self.outcome {
            Ok(()) => "+OK\n".to_string(),
            Err(why) => refuse(why),
        }
    }

    fn so_far(&self) -> String {
        "it is done".to_string()
    }
}
