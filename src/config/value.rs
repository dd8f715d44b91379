//! Values that have been read: how each is stored and shown.

use super::AgentCommand;
use super::clause::{JobOrder, Niceness};
use super::flow::{Feedback, Rate, WindowKey};
use super::parameters::MailqSocket;
use super::units::Interval;
use std::path::PathBuf;
use std::time::Duration;
use zsched_format::priority::MailPriority;

/// A value of the file that has been read.
pub(crate) struct Value<T> {
    /// The value as text.
    pub(crate) text: String,
    /// Stores the value.
    pub(crate) set: Box<dyn Fn(&mut T)>,
}

impl<T: 'static> Value<T> {
    /// Creates a value that `set` stores.
    pub(crate) fn new<V: Shown + Clone + 'static>(value: V, set: fn(&mut T, V)) -> Value<T> {
        let text = value.shown().unwrap_or_default();
        Value { text, set: Box::new(move |target| set(target, value.clone())) }
    }
}

/// A whole number, as the file has it.
#[derive(Clone, Copy)]
pub(crate) struct Number(pub(crate) i64);

impl From<Number> for u32 {
    /// The nearest number that is possible.
    fn from(number: Number) -> u32 {
        u32::try_from(number.0.max(0)).unwrap_or(u32::MAX)
    }
}

impl From<Number> for Option<u32> {
    /// A limit: zero and negative numbers mean no limit.
    fn from(number: Number) -> Option<u32> {
        u32::try_from(number.0).ok().filter(|limit| *limit > 0)
    }
}

/// A value that can be shown as it is written in the file, without quotes.
pub(crate) trait Shown {
    /// Returns the text; `None` if there is no value.
    fn shown(&self) -> Option<String>;
}

impl Shown for bool {
    fn shown(&self) -> Option<String> {
        self.then(|| "1".to_string())
    }
}

impl Shown for JobOrder {
    fn shown(&self) -> Option<String> {
        match self {
            JobOrder::Turns => None,
            JobOrder::Message => Some("message".to_string()),
            JobOrder::Random => Some("random".to_string()),
        }
    }
}

impl<T: Shown> Shown for Option<T> {
    fn shown(&self) -> Option<String> {
        self.as_ref()?.shown()
    }
}

impl<T: Shown> Shown for Vec<T> {
    fn shown(&self) -> Option<String> {
        let words: Vec<String> = self.iter().filter_map(Shown::shown).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
}

macro_rules! shown {
    ($($type:ty: $display:expr;)*) => {$(
        impl Shown for $type {
            fn shown(&self) -> Option<String> {
                let display: fn(&$type) -> String = $display;
                Some(display(self))
            }
        }
    )*};
}

shown! {
    AgentCommand: AgentCommand::to_string;
    Duration: |span| Interval(*span).to_string();
    Feedback: Feedback::to_string;
    MailPriority: MailPriority::to_string;
    MailqSocket: MailqSocket::to_string;
    Niceness: |(Niceness::Relative(number) | Niceness::Absolute(number))| number.to_string();
    Number: |number| number.0.to_string();
    PathBuf: |path| path.display().to_string();
    Rate: Rate::to_string;
    String: String::clone;
    WindowKey: WindowKey::to_string;
    u32: u32::to_string;
}
