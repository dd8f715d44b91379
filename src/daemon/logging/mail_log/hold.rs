//! Lines of the status log about holds and releases.

use zsched_core::overrides::OverrideChange;
use zsched_format::status_log::{HoldLine, HoldOrder};
use zsched_format::time::{Timestamp, format_time};

/// Lines about those of the changes that hold or release mail.
pub(super) fn lines(now: Timestamp, changes: &[OverrideChange]) -> Vec<u8> {
    let mut lines = Vec::new();
    for change in changes {
        let released = |scope: String| (HoldOrder::Release, scope, None);
        let (order, scope, hold) = match change {
            OverrideChange::Hold(hold) => (HoldOrder::Hold, hold.scope.words(), Some(hold)),
            OverrideChange::Released(scope) => released(scope.words()),
            OverrideChange::Cleared {} => released("ALL".to_string()),
            _ => continue,
        };
        let reason = hold.map(|hold| hold.reason.as_str()).filter(|reason| !reason.is_empty());
        let line = HoldLine {
            time: format_time(now).into(),
            order,
            scope: scope.into(),
            by: hold.map(|hold| hold.author.name.as_str().into()),
            reason: reason.map(Into::into),
        };
        lines.extend(serde_json::to_vec(&line).expect("texts are JSON"));
        lines.push(b'\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use zsched_core::overrides::{Author, DestinationPattern, Hold, Scope};

    #[test]
    fn hold_and_release_have_lines_and_limits_have_none() {
        let now = Timestamp::from_parts(1_795_255_449, 852_000_000);
        let scope = Scope::Destinations(DestinationPattern::parse("smtp/a").expect("a pattern"));
        let author = Author { name: "ann".to_string(), since: now };
        let hold = Hold { scope: scope.clone(), author, reason: String::new() };
        let changes = [
            OverrideChange::Hold(hold),
            OverrideChange::MessageLeft(1),
            OverrideChange::Released(scope),
            OverrideChange::Cleared {},
        ];
        let expected = r#"{"time":"2026-11-21T10:04:09.852Z","order":"hold","scope":"smtp/a","by":"ann","reason":null}
{"time":"2026-11-21T10:04:09.852Z","order":"release","scope":"smtp/a","by":null,"reason":null}
{"time":"2026-11-21T10:04:09.852Z","order":"release","scope":"ALL","by":null,"reason":null}
"#;
        assert_eq!(String::from_utf8(lines(now, &changes)).expect("UTF-8"), expected);
    }
}
