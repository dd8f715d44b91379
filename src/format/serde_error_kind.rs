//! Error kinds in a recording.
//!
//! They have no numbers, and not all of them have a stable name. Kinds without one are stored as
//! the lowest error number of the system with that kind.

use serde::{Deserialize, Deserializer, Serializer};
use std::io::{Error, ErrorKind};

/// The kinds that do not come from the system.
const NAMED_KINDS: [ErrorKind; 6] = [
    ErrorKind::Other,
    ErrorKind::UnexpectedEof,
    ErrorKind::WriteZero,
    ErrorKind::InvalidData,
    ErrorKind::InvalidInput,
    ErrorKind::Unsupported,
];
/// Error numbers of the system. Smaller numbers are for the named kinds.
const SYSTEM_NUMBERS: std::ops::Range<u16> = 32..300;

fn to_number(kind: ErrorKind) -> u16 {
    if let Some(index) = NAMED_KINDS.iter().position(|named| *named == kind) {
        return index as u16;
    }
    SYSTEM_NUMBERS.into_iter().find(|number| system_kind(*number) == kind).unwrap_or_default()
}

fn system_kind(number: u16) -> ErrorKind {
    Error::from_raw_os_error(i32::from(number - SYSTEM_NUMBERS.start)).kind()
}

fn from_number(number: u16) -> ErrorKind {
    if SYSTEM_NUMBERS.contains(&number) {
        return system_kind(number);
    }
    NAMED_KINDS.get(usize::from(number)).copied().unwrap_or(ErrorKind::Other)
}

/// Writes a kind.
pub fn serialize<S: Serializer>(kind: &ErrorKind, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u16(to_number(*kind))
}

/// Reads a kind.
pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<ErrorKind, D::Error> {
    u16::deserialize(input).map(from_number)
}

/// Results with an error kind as their error.
pub mod of_result {
    use super::{ErrorKind, from_number, to_number};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes a result.
    pub fn serialize<T: Serialize, S: Serializer>(
        result: &Result<T, ErrorKind>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        result.as_ref().map_err(|kind| to_number(*kind)).serialize(out)
    }

    /// Reads a result.
    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Result<T, ErrorKind>, D::Error> {
        Result::<T, u16>::deserialize(input).map(|result| result.map_err(from_number))
    }
}

/// Optional error kinds.
pub mod of_option {
    use super::{ErrorKind, from_number, to_number};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes an option.
    pub fn serialize<S: Serializer>(kind: &Option<ErrorKind>, out: S) -> Result<S::Ok, S::Error> {
        kind.map(to_number).serialize(out)
    }

    /// Reads an option.
    pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Option<ErrorKind>, D::Error> {
        Option::<u16>::deserialize(input).map(|number| number.map(from_number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_of_every_system_error_is_restored() {
        for number in 0..200 {
            let kind = Error::from_raw_os_error(number).kind();
            assert_eq!(from_number(to_number(kind)), kind, "{number}");
        }
        for kind in NAMED_KINDS {
            assert_eq!(from_number(to_number(kind)), kind);
        }
    }
}
