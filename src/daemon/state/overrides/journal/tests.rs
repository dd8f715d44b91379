//! Tests of the journal: contents after damage of all kinds.

use super::*;
use zsched_core::overrides::{LimitName, LimitOverride};
use zsched_spool::SpoolId;

const NOW: Timestamp = Timestamp::from_seconds(1_795_259_643);

fn author() -> Author {
    Author { name: "root".to_string(), since: NOW }
}

fn message(number: u64) -> Scope {
    Scope::Message(SpoolId { number, modified: NOW })
}

fn hold(scope: Scope) -> OverrideChange {
    OverrideChange::Hold(Hold { scope, author: author(), reason: "a\nreason".to_string() })
}

fn destinations(pattern: &str) -> Scope {
    Scope::Destinations(DestinationPattern::parse(pattern).expect("a pattern"))
}

fn shown(path: &Path) -> Vec<String> {
    let orders = OverridesJournal::open(path.to_path_buf(), NOW).orders();
    orders.iter().map(|order| serde_json::to_string(order).expect("JSON")).collect()
}

fn is_all_held(path: &Path) -> bool {
    let orders = OverridesJournal::open(path.to_path_buf(), NOW).orders();
    matches!(&orders[..], [OverrideChange::Hold(hold)] if hold.scope.to_string() == "*/*")
}

#[test]
fn journal_with_all_kinds_of_changes_is_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("orders");
    let mut journal = OverridesJournal::open(path.clone(), NOW);
    let ring = Scope::Ring("smtp/*".to_string());
    let limit = |value| {
        let (scope, limit) = (ring.clone(), LimitName::MaxRing);
        OverrideChange::Limit(LimitOverride { scope, limit, value, until: None, author: author() })
    };
    let unset = OverrideChange::Unset { scope: ring.clone(), limit: LimitName::MaxRing };
    for (changes, left) in [
        (vec![hold(destinations("smtp/*")), limit(5)], 2),
        (vec![limit(7)], 2),
        ((1..=5).map(|number| hold(message(number))).collect(), 7),
        (vec![OverrideChange::Released(message(2)), OverrideChange::MessageLeft(3), unset], 4),
        (vec![OverrideChange::Released(destinations("smtp/*"))], 3),
        (vec![], 3),
        (vec![OverrideChange::Cleared {}, hold(ring.clone())], 1),
    ] {
        journal.store(changes).expect("stored");
        let orders = shown(&path);
        assert_eq!(orders.len(), left, "{orders:?}");
        let expected: Vec<String> =
            journal.orders().iter().map(|o| serde_json::to_string(o).expect("JSON")).collect();
        assert_eq!(orders, expected);
    }
}

#[test]
fn journal_grows_by_changes_and_stays_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("orders");
    let mut journal = OverridesJournal::open(path.clone(), NOW);
    let (mut written, mut before) = (0, 0);
    for first in (0..20_000).step_by(500) {
        let changes = (first..first + 500).map(|number| hold(message(number))).collect();
        journal.store(changes).expect("stored");
        let size = fs::metadata(&path).expect("it is there").len();
        // A rewritten file counts with its whole size.
        written += if journal.appended == 0 { size } else { size - before };
        before = size;
    }
    assert!(written < 4 * before, "{written} bytes for a file of {before}");
    assert_eq!(journal.orders().len(), 20_000);
    // Overrides set and removed again do not grow the file without limit.
    for round in 0..5000 {
        let change =
            if round % 2 == 0 { hold(message(1)) } else { OverrideChange::Released(message(1)) };
        journal.store(vec![change]).expect("stored");
    }
    assert!(fs::metadata(&path).expect("it is there").len() < 3 * before);
}

/// A kill leaves the beginning of what was being appended: the former overrides are in force.
#[test]
fn journal_with_torn_end_keeps_all_answered_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("orders");
    let mut journal = OverridesJournal::open(path.clone(), NOW);
    journal.store(vec![hold(message(1))]).expect("stored");
    let before = fs::read(&path).expect("read");
    journal.store(vec![hold(message(2)), OverrideChange::Released(message(1))]).expect("stored");
    let whole = fs::read(&path).expect("read");
    assert!(whole.starts_with(&before), "it is appended");
    for cut in before.len()..whole.len() {
        fs::write(&path, &whole[..cut]).expect("written");
        let orders = shown(&path);
        assert!(orders.len() == 1 && orders[0].contains("\"message\":[1,"), "{cut}: {orders:?}");
        // The lost bytes may also be zeros.
        let mut text = whole[..cut].to_vec();
        text.resize(whole.len(), 0);
        fs::write(&path, text).expect("written");
        assert_eq!(shown(&path), orders, "{cut}");
    }
    // The file is rewritten before anything is appended.
    fs::write(&path, &whole[..whole.len() - 3]).expect("written");
    let mut journal = OverridesJournal::open(path.clone(), NOW);
    journal.store(vec![hold(message(3))]).expect("stored");
    assert_eq!(shown(&path).len(), 2);
}

#[test]
fn journal_damaged_holds_everything() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("orders");
    let mut journal = OverridesJournal::open(path.clone(), NOW);
    journal.store(vec![hold(message(1))]).expect("stored");
    let first = fs::read(&path).expect("read");
    for cut in 0..first.len() {
        fs::write(&path, &first[..cut]).expect("written");
        assert!(is_all_held(&path), "cut at {cut}");
    }
    fs::write(&path, &first).expect("written");
    journal.store(vec![hold(message(2))]).expect("stored");
    let whole = fs::read(&path).expect("read");
    for place in 0..whole.len() {
        let mut text = whole.clone();
        text[place] = b'\n';
        if text != whole {
            fs::write(&path, text).expect("written");
            let is_in_last_line = place == whole.len() - 1;
            assert!(is_all_held(&path) || is_in_last_line, "a line end at {place}");
        }
    }
    assert!(folder.path().join("orders.damaged").exists());
}

#[test]
fn journal_of_version_1_is_read_and_rewritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("orders");
    let order = serde_json::to_string(&hold(destinations("smtp/*.test"))).expect("JSON");
    let whole = format!("{{\"zsched-orders\":1}}\n{order}\n{{\"end\":1}}\n");
    fs::write(&path, &whole).expect("written");
    assert_eq!(shown(&path), std::slice::from_ref(&order));
    assert_eq!(fs::read_to_string(&path).expect("read"), whole, "reading changes nothing");
    OverridesJournal::open(path.clone(), NOW).store(vec![hold(message(7))]).expect("stored");
    let text = fs::read_to_string(&path).expect("read");
    assert!(text.starts_with("{\"zsched-orders\":2}\n") && text.contains(&order), "{text}");
    assert_eq!(shown(&path).len(), 2);
    for cut in 0..whole.len() - 1 {
        fs::write(&path, &whole[..cut]).expect("written");
        assert!(is_all_held(&path), "cut at {cut}");
    }
}

/// A kill during a rewrite leaves the old file, and perhaps a new one beside it.
#[test]
fn journal_rewrite_cut_short_is_ignored() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("orders");
    OverridesJournal::open(path.clone(), NOW).store(vec![hold(message(1))]).expect("stored");
    fs::write(folder.path().join("orders.new"), "{\"zsched-orders\":2}\n{\"ho").expect("written");
    assert_eq!(shown(&path).len(), 1);
    OverridesJournal::open(path.clone(), NOW).store(vec![hold(message(2))]).expect("stored");
    assert_eq!(shown(&path).len(), 2);
    assert!(!folder.path().join("orders.new").exists());
}

/// Changes that could not be appended are stored with the next ones, in a rewritten file.
#[test]
fn changes_not_stored_are_stored_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sub").join("orders");
    let mut journal = OverridesJournal::open(path.clone(), NOW);
    assert!(journal.store(vec![hold(message(1))]).is_err(), "there is no such folder");
    fs::create_dir(folder.path().join("sub")).expect("made");
    journal.store(Vec::new()).expect("stored");
    assert_eq!(shown(&path).len(), 1);
}

#[test]
fn journal_moved_away_is_rewritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("orders");
    let mut journal = OverridesJournal::open(path.clone(), NOW);
    journal.store(vec![hold(message(1))]).expect("stored");
    fs::rename(&path, folder.path().join("backup")).expect("moved");
    journal.store(vec![hold(message(2))]).expect("stored");
    assert_eq!(shown(&path).len(), 2);
    fs::remove_file(&path).expect("removed");
    journal.store(vec![hold(message(3))]).expect("stored");
    assert_eq!(shown(&path).len(), 3);
}
