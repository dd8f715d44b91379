//! What happened to a recipient, in one word (RFC 3464, 2.3.3).

use zsched_format::control_file::diagnostic::NOTARY_SEPARATOR;

/// The action of a recipient. The order is that of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
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

impl Action {
    /// All actions, in the order of a report.
    pub const ALL: [Action; 5] =
        [Action::Failed, Action::Delayed, Action::Relayed, Action::Delivered, Action::Expanded];

    /// The word of RFC 3464, as in notary data.
    pub fn word(self) -> &'static str {
        match self {
            Action::Failed => "failed",
            Action::Delayed => "delayed",
            Action::Relayed => "relayed",
            Action::Delivered => "delivered",
            Action::Expanded => "expanded",
        }
    }

    /// The word in the subject of a form.
    pub(crate) fn subject_word(self) -> &'static str {
        match self {
            Action::Failed => "FAILED",
            Action::Delayed => "DELAYED",
            Action::Relayed => "RELAYED-OK",
            Action::Delivered => "DELIVERED-OK",
            Action::Expanded => "EXPANDED-OK",
        }
    }

    /// Returns true if the status of a recipient may be of this class (RFC 3463, 3.1).
    ///
    /// An expired recipient has failed with the temporary status of its last attempt.
    pub(crate) fn allows_class(self, class: u8) -> bool {
        match self {
            Action::Failed => matches!(class, b'4' | b'5'),
            _ => class == self.class(),
        }
    }

    /// The usual class of its status.
    pub(crate) fn class(self) -> u8 {
        match self {
            Action::Failed => b'5',
            Action::Delayed => b'4',
            Action::Relayed | Action::Delivered | Action::Expanded => b'2',
        }
    }
}

/// Returns the action in notary data.
///
/// Data of a single field is that of a failure. `None` for empty data and other actions: they are
/// never reported.
pub fn action_of(notary: &[u8]) -> Option<Action> {
    if notary.is_empty() {
        return None;
    }
    match notary.split(|byte| *byte == NOTARY_SEPARATOR).nth(1) {
        None => Some(Action::Failed),
        Some(field) => Action::ALL.into_iter().find(|action| {
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
            ("a@x", Some(Action::Failed)),
            ("a@x\x01failed\x015.1.1", Some(Action::Failed)),
            ("\x01failed\x01\x01\x01", Some(Action::Failed)),
            ("a@x\x01Delayed", Some(Action::Delayed)),
            ("a@x\x01delivered (to a mailbox)\x01", Some(Action::Delivered)),
            ("a@x\x01relayed\x01", Some(Action::Relayed)),
            ("a@x\x01expanded\x01", Some(Action::Expanded)),
            ("a@x\x01\x015.1.1", None),
            ("a@x\x01fail\x01", None),
        ] {
            assert_eq!(action_of(notary.as_bytes()), action, "{notary:?}");
        }
    }
}
