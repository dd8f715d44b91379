//! Lines about holds and releases.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Line about mail that an operator holds or releases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HoldLine<'a> {
    /// Time of the order, as in [`StatusLine::time`](super::StatusLine::time).
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    /// What was ordered.
    pub order: HoldOrder,
    /// What it applies to, in the words of a request: `smtp/host`, `ring=smtp/*`, `id=S…`, `ALL`.
    #[serde(borrow)]
    pub scope: Cow<'a, str>,
    /// User who gave the order; not known of a release.
    pub by: Option<Cow<'a, str>>,
    /// Reason that the user gave for a hold.
    pub reason: Option<Cow<'a, str>>,
}

/// An order about holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldOrder {
    /// Put on hold.
    Hold,
    /// Released.
    Release,
}

impl HoldLine<'_> {
    /// Copies borrowed texts.
    pub fn into_owned(self) -> HoldLine<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        HoldLine {
            time: own(self.time),
            order: self.order,
            scope: own(self.scope),
            by: self.by.map(own),
            reason: self.reason.map(own),
        }
    }
}
