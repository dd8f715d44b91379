//! For events that contain a configuration: a recording has its source instead, never the value
//! itself.

use serde::{Deserializer, Serializer, de, ser};
use std::rc::Rc;
use zsched_config::Config;

const WHY: &str = "a configuration is recorded as its source";

/// Fails.
pub fn serialize<S: Serializer>(_: &Rc<Config>, _: S) -> Result<S::Ok, S::Error> {
    Err(ser::Error::custom(WHY))
}

/// Fails.
pub fn deserialize<'de, D: Deserializer<'de>>(_: D) -> Result<Rc<Config>, D::Error> {
    Err(de::Error::custom(WHY))
}
