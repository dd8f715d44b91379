//! Tables of everything that can be set.
//!
//! ```text
//! /// Description in one sentence.
//! "name" | "alias": KIND_OF_VALUE, "default" => field;
//! ```
//!
//! The value that the kind reads must convert into the field. A row without a field is accepted
//! without effect. What follows the field says how `scheduler -t` shows it:
//!
//! ```text
//! => field               its value; `None`, an empty list and "off" are no value
//! => field or zero       0 instead of no value
//! => field if condition  its value if this method of the value returns true
//! => field hidden        not at all: it has no effect, or not on clauses
//! ```

use super::diagnostic::ValueError;
use super::kinds::{FLAG, JOB_ORDER, ValueInput};
use super::value::Value;

/// Returns a value as text; `None` is no value.
pub(crate) type GetText<T> = fn(&T) -> Option<String>;

/// A row: a keyword or parameter, which sets something in a `T`.
pub(crate) struct Keyword<T> {
    /// Its name, which the file may write in upper or lower case.
    pub(crate) name: &'static str,
    /// Other names for the same thing.
    pub(crate) aliases: &'static [&'static str],
    /// Its default, or what the default depends on.
    pub(crate) default: &'static str,
    /// Its description, which is for readers of the table.
    #[cfg(test)]
    pub(crate) description: &'static str,
    /// Returns a short description of its values.
    pub(crate) value_description: fn() -> String,
    /// Reads a value from its text.
    pub(crate) read: fn(ValueInput<'_>) -> Result<Value<T>, ValueError>,
    /// Returns the value in force; `None` if it is hidden.
    pub(crate) get: Option<GetText<T>>,
}

impl<T> Keyword<T> {
    /// All its names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + use<T> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Returns true if it is complete without a value.
    pub(crate) fn may_lack_value(&self) -> bool {
        self.is_flag() || (self.value_description)() == JOB_ORDER.description
    }

    /// Returns true if it takes no value.
    pub(crate) fn is_flag(&self) -> bool {
        (self.value_description)() == FLAG.description
    }
}

/// The row with this name or alias, in upper or lower case.
pub(crate) fn find<T>(table: &'static [Keyword<T>], name: &str) -> Option<&'static Keyword<T>> {
    table.iter().find(|keyword| keyword.names().any(|known| known.eq_ignore_ascii_case(name)))
}

/// A table of keywords that set something in `$target`.
macro_rules! table {
    ($target:ty: $(
        $(#[doc = $description:literal])+
        $name:literal $(| $alias:literal)*: $kind:expr, $default:literal
            $(=> $($field:ident).+ $($shown:ident)*)?;
    )*) => {
        &[$($crate::table::Keyword::<$target> {
            name: $name,
            aliases: &[$($alias),*],
            default: $default,
            #[cfg(test)]
            description: concat!($($description),+),
            value_description: || $crate::kinds::ValueKind::description(&$kind),
            read: |input| {
                let value = $crate::kinds::ValueKind::read(&$kind, input)?;
                Ok($crate::value::Value::new(value, $crate::table::set!($($($field).+)?)))
            },
            get: $crate::table::get!($($($field).+ $($shown)*)?),
        }),*]
    };
}

/// A function that stores a value in a field.
macro_rules! set {
    () => { |_, _| () };
    ($($field:ident).+) => { |target, value| target.$($field).+ = value.into() };
}

/// A function that returns the value of a field as text.
macro_rules! get {
    ($($($field:ident).+ hidden)?) => { None };
    ($($field:ident).+ or zero) => {
        Some(|target| target.$($field).+.shown().or(Some("0".to_string())))
    };
    ($($field:ident).+ if $condition:ident) => {
        Some(|target| target.$($field).+.filter(|value| value.$condition()).shown())
    };
    ($($field:ident).+) => { Some(|target| target.$($field).+.shown()) };
}

pub(crate) use {get, set, table};
