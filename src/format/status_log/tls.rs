//! Lines about TLS sessions.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Line about the result of a TLS session, as an agent has sent it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TlsLine<'a, T> {
    /// Time of the result, as in [`StatusLine::time`](super::StatusLine::time).
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    /// The result, with the names of RFC 8460, 4.4.
    pub tls: T,
}
