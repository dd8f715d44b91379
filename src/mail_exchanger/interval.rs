//! Intervals in settings: `"250ms"`, `"30s"`, `"1h30m"`.

use serde::{Deserialize, Deserializer, de::Error};
use std::time::Duration;

/// Reads an interval with units, of milliseconds or as `scheduler.cf` has them.
pub(crate) fn deserialize_interval<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    if let Some(digits) = text.strip_suffix("ms") {
        let milliseconds = digits.trim_ascii_end().parse::<u32>();
        return milliseconds.map(|number| Duration::from_millis(number.into())).map_err(|_| {
            D::Error::custom(format!("`{text}` is not an interval, such as 250ms, 30s or 1h30m"))
        });
    }
    zsched_config::parse_interval(&text).map_err(|error| D::Error::custom(error.message))
}
