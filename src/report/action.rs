//! What happened to a recipient, in one word (RFC 3464, 2.3.3).

use zsched_format::control_file::diagnostic::NOTARY_SEPARATOR;

/// The action of a recipient. The order is that of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DsnAction {
    /// It could not be delivered and is not tried again.
    Failed,
    /// It is late, and tried again.
    Delayed,
    /// It was passed to a system that sends no reports.
    Relayed,
    /// It was delivered.
    Delivered,
    /// It was passed to the members of a list.
    Expanded,
}

impl DsnAction {
    /// All actions, in the order of a report.
    pub const ALL: [DsnAction; 5] = [
        DsnAction::Failed,
        DsnAction::Delayed,
        DsnAction::Relayed,
        DsnAction::Delivered,
        DsnAction::Expanded,
    ];

    /// The word of RFC 3464, as in notary data.
    pub fn word(self) -> &'static str {
        match self {
            DsnAction::Failed => "failed",
            DsnAction::Delayed => "delayed",
            DsnAction::Relayed => "relayed",
            DsnAction::Delivered => "delivered",
            DsnAction::Expanded => "expanded",
        }
    }

    /// The word in the subject of a form.
    pub(crate) fn subject_word(self) -> &'static str {
        match self {
            DsnAction::Failed => "FAILED",
            DsnAction::Delayed => "DELAYED",
            DsnAction::Relayed => "RELAYED-OK",
            DsnAction::Delivered => "DELIVERED-OK",
            DsnAction::Expanded => "EXPANDED-OK",
        }
    }

    /// Returns true if the status of a recipient may be of this class (RFC 3463, 3.1).
    ///
    /// An expired recipient has failed with the temporary status of its last attempt.
    pub(crate) fn allows_class(self, class: u8) -> bool {
        match self {
            DsnAction::Failed => matches!(class, b'4' | b'5'),
            _ => class == self.class(),
        }
    }

    /// The usual class of its status.
    pub(crate) fn class(self) -> u8 {
        match self {
            DsnAction::Failed => b'5',
            DsnAction::Delayed => b'4',
            DsnAction::Relayed | DsnAction::Delivered | DsnAction::Expanded => b'2',
        }
    }
}

/// Returns the action in notary data.
///
/// Data of a single field is that of a failure. `None` for empty data and other actions: they are
/// never reported.
pub fn action_of(notary: &[u8]) -> Option<DsnAction> {
    if notary.is_empty() {
        return None;
    }
    match notary.split(|byte| *byte == NOTARY_SEPARATOR).nth(1) {
        None => Some(DsnAction::Failed),
        Some(field) => DsnAction::ALL.into_iter().find(|action| {
            let word = action.word().as_bytes();
            field.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn action_is_the_second_field() {
        for (notary, action) in [
            ("", None),
            ("a@x", Some(DsnAction::Failed)),
            ("a@x\x01failed\x015.1.1", Some(DsnAction::Failed)),
            ("\x01failed\x01\x01\x01", Some(DsnAction::Failed)),
            ("a@x\x01Delayed", Some(DsnAction::Delayed)),
            ("a@x\x01delivered (to a mailbox)\x01", Some(DsnAction::Delivered)),
            ("a@x\x01relayed\x01", Some(DsnAction::Relayed)),
            ("a@x\x01expanded\x01", Some(DsnAction::Expanded)),
            ("a@x\x01\x015.1.1", None),
            ("a@x\x01fail\x01", None),
        ] {
            assert_eq!(action_of(notary.as_bytes()), action, "{notary:?}");
        }
    }
}
