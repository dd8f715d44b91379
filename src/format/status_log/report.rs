//! Lines about reports to senders.

use crate::action_counts::ActionCounts;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Line about a report that was given to the router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportLine<'a> {
    /// Time at which the router had it, as in [`StatusLine::time`](super::StatusLine::time).
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    /// Spool id of the message that it is about.
    #[serde(borrow)]
    pub spool_id: Cow<'a, str>,
    /// Message-ID of that message.
    pub message_id: Option<Cow<'a, str>>,
    /// Spool id of the report; its number is its name in `router/`.
    #[serde(borrow)]
    pub report_id: Cow<'a, str>,
    /// Address that gets it.
    #[serde(borrow)]
    pub to: Cow<'a, str>,
    /// Recipients that it is about.
    pub recipients: ActionCounts,
}

impl ReportLine<'_> {
    /// Copies borrowed texts.
    pub fn into_owned(self) -> ReportLine<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        ReportLine {
            time: own(self.time),
            spool_id: own(self.spool_id),
            message_id: self.message_id.map(own),
            report_id: own(self.report_id),
            to: own(self.to),
            recipients: self.recipients,
        }
    }
}
