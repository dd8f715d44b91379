//! The kinds of value that a keyword takes.
//!
//! A kind determines how a value is parsed, applied to a clause, and displayed.

use super::clause::{ClauseDraft, Niceness};
use super::diagnostic::{ValueError, quote};
use super::flow::{Feedback, Rate, WindowKey};
use super::keywords::Keyword;
use super::units::{Interval, parse_interval, parse_intervals, parse_number, parse_retries};
use super::{Command, ConfigContext, FindId};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;
use zsched_format::priority::MailPriority;

/// Range of `nice` and `sysnice`.
const RELATIVE_NICENESS: RangeInclusive<i64> = -40..=39;
/// Range of `priority` and `syspriority`.
const ABSOLUTE_NICENESS: RangeInclusive<i64> = -20..=19;

/// The kind of value that a keyword takes, and how it changes a clause.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// No value: naming the keyword is enough.
    Flag(fn(&mut ClauseDraft)),
    /// A whole number, within bounds.
    Number {
        least: i64,
        most: i64,
        set: fn(&mut ClauseDraft, i64),
    },
    /// An interval, which may be zero.
    Interval(fn(&mut ClauseDraft, Duration)),
    /// An interval greater than zero.
    NonzeroInterval(fn(&mut ClauseDraft, Duration)),
    /// Intervals, separated by blanks.
    Intervals(fn(&mut ClauseDraft, Vec<Duration>)),
    /// Retry factors, separated by blanks.
    Retries(fn(&mut ClauseDraft, Vec<u32>)),
    /// Any text.
    Text(fn(&mut ClauseDraft, String)),
    /// A command line.
    Command(fn(&mut ClauseDraft, Command)),
    /// A priority relative to the scheduler's.
    Nice(fn(&mut ClauseDraft, Niceness)),
    /// An absolute priority.
    Priority(fn(&mut ClauseDraft, Niceness)),
    /// The same two for the scheduler itself. They change nothing in a clause.
    SchedulerNice,
    SchedulerPriority,
    /// The priority of mail.
    MailPriority(fn(&mut ClauseDraft, MailPriority)),
    /// An account, by name or number.
    User(fn(&mut ClauseDraft, u32)),
    /// A group, by name or number.
    Group(fn(&mut ClauseDraft, u32)),
    /// How much a delivery changes a window.
    Feedback(fn(&mut ClauseDraft, Feedback)),
    /// A number of deliveries for each interval.
    Rate(fn(&mut ClauseDraft, Rate)),
    /// The names of windows.
    WindowKey(fn(&mut ClauseDraft, WindowKey)),
}

/// A parsed value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Flag,
    Number(i64),
    Interval(Duration),
    Intervals(Vec<Duration>),
    Retries(Vec<u32>),
    Text(String),
    Command(Command),
    Niceness(Niceness),
    MailPriority(MailPriority),
    Id(u32),
    Feedback(Feedback),
    Rate(Rate),
    WindowKey(WindowKey),
}

impl Kind {
    /// Short description of the values that may follow the equals sign.
    pub fn takes(&self) -> String {
        match self {
            Kind::Flag(_) => "no value".to_string(),
            Kind::Number { least: i64::MIN, most: i64::MAX, .. } => "a number".to_string(),
            Kind::Number { least: i64::MIN, most, .. } => format!("a number up to {most}"),
            Kind::Number { least, most: i64::MAX, .. } => format!("a number from {least}"),
            Kind::Number { least, most, .. } => format!("a number from {least} to {most}"),
            Kind::Interval(_) | Kind::NonzeroInterval(_) => "an interval".to_string(),
            Kind::Intervals(_) => "up to four intervals".to_string(),
            Kind::Retries(_) => "a list of whole numbers".to_string(),
            Kind::Text(_) => "a text".to_string(),
            Kind::Command(_) => "a command line".to_string(),
            Kind::Nice(_) | Kind::SchedulerNice => "a number from -40 to 39".to_string(),
            Kind::Priority(_) | Kind::SchedulerPriority => "a number from -20 to 19".to_string(),
            Kind::MailPriority(_) => "a number from 0 to 9, or z".to_string(),
            Kind::User(_) => "an account".to_string(),
            Kind::Group(_) => "a group".to_string(),
            Kind::Feedback(_) => {
                "a number up to 1, or one divided by concurrency or sqrt(concurrency)".to_string()
            }
            Kind::Rate(_) => "a number and an interval, as 100/1m".to_string(),
            Kind::WindowKey(_) => "PATTERN=NAME ..., or mx, or both".to_string(),
        }
    }

    /// Parses a value of this kind.
    pub fn read(
        &self,
        text: &str,
        context: &ConfigContext,
        warnings: &mut Vec<ValueError>,
    ) -> Result<Value, ValueError> {
        Ok(match self {
            Kind::Flag(_) => Value::Flag,
            Kind::Number { least, most, .. } => Value::Number(number_in(text, *least..=*most)?),
            Kind::Interval(_) => Value::Interval(parse_interval(text)?),
            Kind::NonzeroInterval(_) => Value::Interval(nonzero_interval(text)?),
            Kind::Intervals(_) => Value::Intervals(parse_intervals(text, warnings)?),
            Kind::Retries(_) => Value::Retries(parse_retries(text)?),
            Kind::Text(_) => Value::Text(text.to_string()),
            Kind::Command(_) => Value::Command(Command::parse(text, &context.zenv, warnings)?),
            Kind::Nice(_) | Kind::SchedulerNice => {
                let number = number_in(text, RELATIVE_NICENESS)?;
                Value::Niceness(Niceness::Relative(number as i32))
            }
            Kind::Priority(_) if text == "z" => {
                return Err(ValueError::new(0, "priority `z` is known, but not supported yet"));
            }
            Kind::Priority(_) | Kind::SchedulerPriority => {
                let number = number_in(text, ABSOLUTE_NICENESS)?;
                Value::Niceness(Niceness::Absolute(number as i32))
            }
            Kind::MailPriority(_) => Value::MailPriority(match text {
                "z" | "Z" => MailPriority::Kept,
                _ => MailPriority::Level(number_in(text, 0..=9)? as u8),
            }),
            Kind::User(_) => Value::Id(user(text, context)?),
            Kind::Group(_) => Value::Id(group(text, context)?),
            Kind::Feedback(_) => Value::Feedback(Feedback::parse(text)?),
            Kind::Rate(_) => Value::Rate(Rate::parse(text)?),
            Kind::WindowKey(_) => Value::WindowKey(WindowKey::parse(text, warnings)?),
        })
    }

    /// Applies a value that this kind has parsed.
    pub fn apply(&self, draft: &mut ClauseDraft, value: &Value) {
        match (self, value) {
            (Kind::Flag(set), Value::Flag) => set(draft),
            (Kind::Number { set, .. }, Value::Number(number)) => set(draft, *number),
            (Kind::Interval(set) | Kind::NonzeroInterval(set), Value::Interval(span)) => {
                set(draft, *span);
            }
            (Kind::Intervals(set), Value::Intervals(spans)) => set(draft, spans.clone()),
            (Kind::Retries(set), Value::Retries(factors)) => set(draft, factors.clone()),
            (Kind::Text(set), Value::Text(text)) => set(draft, text.clone()),
            (Kind::Command(set), Value::Command(command)) => set(draft, command.clone()),
            (Kind::Nice(set) | Kind::Priority(set), Value::Niceness(nice)) => set(draft, *nice),
            (Kind::SchedulerNice | Kind::SchedulerPriority, Value::Niceness(_)) => {}
            (Kind::MailPriority(set), Value::MailPriority(priority)) => set(draft, *priority),
            (Kind::User(set) | Kind::Group(set), Value::Id(id)) => set(draft, *id),
            (Kind::Feedback(set), Value::Feedback(feedback)) => set(draft, *feedback),
            (Kind::Rate(set), Value::Rate(rate)) => set(draft, *rate),
            (Kind::WindowKey(set), Value::WindowKey(key)) => set(draft, key.clone()),
            _ => unreachable!("a value is applied by the kind that has read it"),
        }
    }
}

/// Parses a number and checks its bounds.
pub(super) fn number_in(text: &str, bounds: RangeInclusive<i64>) -> Result<i64, ValueError> {
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

/// Parses an interval that must not be zero.
pub(super) fn nonzero_interval(text: &str) -> Result<Duration, ValueError> {
    let span = parse_interval(text)?;
    if span.is_zero() {
        Err(ValueError::new(0, "an interval of 0 is not possible here"))
    } else {
        Ok(span)
    }
}

fn user(text: &str, context: &ConfigContext) -> Result<u32, ValueError> {
    let id = id_of("user", text, context.user_id)?;
    check_rights("user", id, context.effective_user, context)
}

fn group(text: &str, context: &ConfigContext) -> Result<u32, ValueError> {
    let id = id_of("group", text, context.group_id)?;
    check_rights("group", id, context.effective_group, context)
}

fn id_of(what: &str, text: &str, look_up: FindId) -> Result<u32, ValueError> {
    // In system calls the highest number means "none".
    if let Some(number) = text.parse().ok().filter(|id| *id != u32::MAX) {
        return Ok(number);
    }
    let message = match look_up(text) {
        Ok(Some(id)) => return Ok(id),
        Ok(None) => format!("there is no {what} {} on this system", quote(text)),
        Err(error) => format!("{what} {} cannot be looked up: {error}", quote(text)),
    };
    Err(ValueError::new(0, message))
}

/// Returns the id if the scheduler may start agents with it.
///
/// Only root can start agents as another user or group.
fn check_rights(what: &str, id: u32, own: u32, context: &ConfigContext) -> Result<u32, ValueError> {
    if context.is_root || id == own {
        return Ok(id);
    }
    let message = format!("only root can run agents as {what} {id}; this is {what} {own}");
    Err(ValueError::new(0, message))
}

impl fmt::Display for Value {
    /// Formats the value as it is written in the file, without quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |words: Vec<String>| words.join(" ");
        match self {
            Value::Flag => Ok(()),
            Value::Number(number) => write!(f, "{number}"),
            Value::Interval(span) => write!(f, "{}", Interval(*span)),
            Value::Intervals(spans) => {
                f.write_str(&joined(spans.iter().map(|span| Interval(*span).to_string()).collect()))
            }
            Value::Retries(factors) => {
                f.write_str(&joined(factors.iter().map(u32::to_string).collect()))
            }
            Value::Text(text) => f.write_str(text),
            Value::Command(command) => write!(f, "{command}"),
            Value::Niceness(Niceness::Relative(number) | Niceness::Absolute(number)) => {
                write!(f, "{number}")
            }
            Value::MailPriority(priority) => write!(f, "{priority}"),
            Value::Id(id) => write!(f, "{id}"),
            Value::Feedback(feedback) => write!(f, "{feedback}"),
            Value::Rate(rate) => write!(f, "{rate}"),
            Value::WindowKey(key) => write!(f, "{key}"),
        }
    }
}

/// A keyword of a clause, with its value.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub keyword: &'static Keyword,
    pub value: Value,
    /// The line number.
    pub line: u32,
}

impl Setting {
    /// Applies the setting to a draft.
    pub fn apply(&self, draft: &mut ClauseDraft) {
        self.keyword.kind.apply(draft, &self.value);
        draft.clause.lines.insert(self.keyword.name.into(), self.line);
    }
}
