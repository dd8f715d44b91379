//! The kinds of values: how each is described and read.

use super::clause::{JobOrder, Niceness};
use super::diagnostic::{ValueError, quote};
use super::flow::{Feedback, Rate, WindowKey};
use super::units::{
    parse_interval, parse_intervals, parse_nonzero_interval, parse_number, parse_retries,
};
use super::value::{Number, Shown};
use super::{AccountKind, AgentCommand, ConfigContext};
use std::ops::RangeInclusive;
use std::time::Duration;
use zsched_format::priority::MailPriority;

/// A kind of value.
pub(crate) trait ValueKind {
    /// What a text is read as.
    type Value: Shown + Clone + 'static;

    /// Short description of the values that may follow the equals sign.
    fn description(&self) -> String;

    /// Reads a value.
    fn read(&self, input: ValueInput<'_>) -> Result<Self::Value, ValueError>;
}

/// The text of a value, and what reading it may need.
pub(crate) struct ValueInput<'a> {
    pub(crate) text: &'a str,
    pub(crate) context: &'a ConfigContext,
    /// Probable mistakes are added to these.
    pub(crate) warnings: &'a mut Vec<ValueError>,
}

/// A range is the kind of the whole numbers in it.
impl ValueKind for RangeInclusive<i64> {
    type Value = Number;

    fn description(&self) -> String {
        match (*self.start(), *self.end()) {
            (i64::MIN, i64::MAX) => "a number".to_string(),
            (i64::MIN, most) => format!("a number up to {most}"),
            (least, i64::MAX) => format!("a number from {least}"),
            (least, most) => format!("a number from {least} to {most}"),
        }
    }

    fn read(&self, input: ValueInput<'_>) -> Result<Number, ValueError> {
        number_in(input.text, self).map(Number)
    }
}

/// A kind of value that is read by a function.
pub(crate) struct Syntax<T> {
    pub(crate) description: &'static str,
    read: fn(ValueInput<'_>) -> Result<T, ValueError>,
}

impl<T: Shown + Clone + 'static> ValueKind for Syntax<T> {
    type Value = T;

    fn description(&self) -> String {
        self.description.to_string()
    }

    fn read(&self, input: ValueInput<'_>) -> Result<T, ValueError> {
        (self.read)(input)
    }
}

/// Creates a kind of value that is read by a function.
pub(crate) const fn syntax<T>(
    description: &'static str,
    read: fn(ValueInput<'_>) -> Result<T, ValueError>,
) -> Syntax<T> {
    Syntax { description, read }
}

/// No value: naming the keyword is enough.
pub(crate) const FLAG: Syntax<bool> = syntax("no value", |_| Ok(true));
/// Any text.
pub(crate) const TEXT: Syntax<String> = syntax("a text", |input| Ok(input.text.to_string()));
/// An interval, which may be zero.
pub(crate) const INTERVAL: Syntax<Duration> =
    syntax("an interval", |input| parse_interval(input.text));
/// An interval greater than zero.
pub(crate) const NONZERO_INTERVAL: Syntax<Duration> =
    syntax("an interval", |input| parse_nonzero_interval(input.text));
/// Intervals, separated by blanks.
pub(crate) const INTERVALS: Syntax<Vec<Duration>> =
    syntax("up to four intervals", |input| parse_intervals(input.text, input.warnings));
/// Retry factors, separated by blanks.
pub(crate) const RETRIES: Syntax<Vec<u32>> =
    syntax("a list of whole numbers", |input| parse_retries(input.text));
/// A command line.
pub(crate) const COMMAND: Syntax<AgentCommand> = syntax("a command line", |input| {
    AgentCommand::parse(input.text, &input.context.zenv, input.warnings)
});
/// A process priority relative to the scheduler's.
pub(crate) const NICE: Syntax<Niceness> = syntax("a number from -40 to 39", |input| {
    Ok(Niceness::Relative(number_in(input.text, &(-40..=39))? as i32))
});
/// An absolute process priority for agents.
pub(crate) const PRIORITY: Syntax<Niceness> =
    syntax(SCHEDULER_PRIORITY.description, |input| match input.text {
        "z" => Err(ValueError::new(0, "priority `z` is known, but not supported yet")),
        _ => (SCHEDULER_PRIORITY.read)(input),
    });
/// An absolute process priority for the scheduler.
pub(crate) const SCHEDULER_PRIORITY: Syntax<Niceness> =
    syntax("a number from -20 to 19", |input| {
        Ok(Niceness::Absolute(number_in(input.text, &(-20..=19))? as i32))
    });
/// The priority of mail.
pub(crate) const MAIL_PRIORITY: Syntax<MailPriority> =
    syntax("a number from 0 to 9, or z", |input| {
        Ok(match input.text {
            "z" | "Z" => MailPriority::Held,
            _ => MailPriority::Level(number_in(input.text, &(0..=9))? as u8),
        })
    });
/// The order of messages; without a value, one message after the other.
pub(crate) const JOB_ORDER: Syntax<JobOrder> =
    syntax("message, random or no value", |input| match input.text {
        "" | "message" => Ok(JobOrder::Message),
        "random" => Ok(JobOrder::Random),
        other => Err(ValueError::new(0, format!("{} is not message or random", quote(other)))),
    });
/// An account, by name or number.
pub(crate) const USER: Syntax<u32> =
    syntax("an account", |input| account_id(AccountKind::User, input));
/// A group, by name or number.
pub(crate) const GROUP: Syntax<u32> =
    syntax("a group", |input| account_id(AccountKind::Group, input));
/// The amount that a delivery adds to a window, or takes from it.
pub(crate) const FEEDBACK: Syntax<Feedback> =
    syntax("a number up to 1, or one divided by concurrency or sqrt(concurrency)", |input| {
        Feedback::parse(input.text)
    });
/// A number of deliveries for each interval.
pub(crate) const RATE: Syntax<Rate> =
    syntax("a number and an interval, as 100/1m", |input| Rate::parse(input.text));
/// The names of windows.
pub(crate) const WINDOW_KEY: Syntax<WindowKey> =
    syntax("PATTERN=NAME ..., or mx, or both", |input| {
        WindowKey::parse(input.text, input.warnings)
    });

/// Parses a number and checks its bounds.
fn number_in(text: &str, bounds: &RangeInclusive<i64>) -> Result<i64, ValueError> {
    let number = parse_number(text)?;
    if bounds.contains(&number) {
        return Ok(number);
    }
    let message = match (*bounds.start(), *bounds.end()) {
        (least, i64::MAX) => format!("{number} is too small: at least {least}"),
        (i64::MIN, most) => format!("{number} is too large: at most {most}"),
        (least, most) => format!("{number} is not in the range from {least} to {most}"),
    };
    Err(ValueError::new(0, message))
}

/// Parses an account or a group that the scheduler may start agents with.
///
/// Only root can start agents as another user or group.
fn account_id(
    kind: AccountKind,
    ValueInput { text, context, .. }: ValueInput<'_>,
) -> Result<u32, ValueError> {
    let (what, own) = match kind {
        AccountKind::User => ("user", context.effective_user),
        AccountKind::Group => ("group", context.effective_group),
    };
    // In system calls the highest number means "none".
    let number = text.parse().ok().filter(|id| *id != u32::MAX);
    let message = match number.map_or_else(|| (context.find_id)(kind, text), |id| Ok(Some(id))) {
        Ok(Some(id)) if context.is_root || id == own => return Ok(id),
        Ok(Some(id)) => format!("only root can run agents as {what} {id}; this is {what} {own}"),
        Ok(None) => format!("there is no {what} {} on this system", quote(text)),
        Err(error) => format!("{what} {} cannot be looked up: {error}", quote(text)),
    };
    Err(ValueError::new(0, message))
}
