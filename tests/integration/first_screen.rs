//! The first screen: what it says about holds and undelivered mail; misspelt options.

use crate::support::{Site, until};
use std::process::Command;

/// Runs `mailq`. Returns what it prints.
fn mailq(site: &Site, arguments: &[&str]) -> String {
    let output = Command::new(zsched_tests::program("mailq"))
        .arg("-Z")
        .arg(site.path("zmailer.conf"))
        .args(arguments)
        .output()
        .expect("mailq starts");
    String::from_utf8([output.stdout, output.stderr].concat()).expect("text")
}

#[test]
fn hold_of_destination_without_mail_is_on_first_screen() {
    let site = Site::new("c/*\n\tinterval=1h retries=1 command=\"${AGENTS}/count.py c\"\n");
    let _daemon = site.start();
    let held = mailq(&site, &["hold", "c/moves.test"]);
    assert_eq!(held, "The hold is in force. It changes no mail that is queued now.\n");
    let user = zsched_sys::users::effective_user_name();
    let orders = mailq(&site, &["orders"]);
    let row = orders.lines().nth(1).unwrap_or_default();
    let row: Vec<&str> = row.split_whitespace().take(3).collect();
    assert_eq!(row, ["hold", "c/moves.test", &user], "{orders}");
    let check = mailq(&site, &["check"]);
    assert!(check.contains(", 1 hold in force |"), "{check}");

    let recipients: Vec<String> =
        (0..7).map(|n| format!("c a-long-name-{n}.test deferred!{n}")).collect();
    site.put(&recipients.iter().map(String::as_str).collect::<Vec<_>>());
    let rest = "\n... and 2 more, 7 recipients in all; list";
    let shown = || mailq(&site, &["summary", "--width", "60"]);
    until("all are deferred", || shown().contains(rest));
    let summary = shown();
    assert!(summary.contains(" idle; 1 hold in force\n"), "{summary}");
    assert!(summary.lines().all(|line| line.chars().count() <= 60), "{summary}");
}

/// What an agent works on may be new.
#[test]
fn text_of_deferred_mail_is_shown_while_an_agent_works() {
    let site = Site::new("c/*\n\tinterval=1h retries=1 command=\"${AGENTS}/count.py c\"\n");
    let _daemon = site.start();
    site.put(&["c x.test deferred!1"]);
    let shown = || mailq(&site, &["summary", "--width", "100"]);
    until("it is deferred", || shown().contains("MOST TROUBLED"));
    let deferred = shown();
    let text = |shown: &str| {
        let (_, table) = shown.split_once("MOST TROUBLED").expect("the table");
        let row = table.lines().nth(1).expect("a row").split_whitespace().skip(4);
        row.collect::<Vec<_>>().join(" ")
    };
    site.put(&["c x.test wait!2"]);
    until("an agent works", || shown().contains(" at work"));
    assert!(!text(&deferred).is_empty(), "{deferred}");
    assert_eq!(text(&shown()), text(&deferred));
    site.write("go", "");
}

#[test]
fn misspelt_option_is_answered_with_similar_one() {
    for (program, arguments, expected) in [
        ("scheduler", &["--status-lg", "x"][..], "--status-log"),
        ("mailq", &["--sumary"], "--summary"),
        ("mailq", &["list", "--sendr", "x"], "--sender"),
        ("schedsim", &["run", "--wrld", "x"], "--world"),
        ("schedsim", &["explan", "x"], "explain"),
        ("submit", &["--chanel", "x"], "--channel"),
        ("router", &["--trey", "x"], "--try"),
        ("smtpserver", &["--versoin"], "--version"),
        ("mailq", &["set", "smtp/*", "maxrings=1"], "did you mean \"maxring\"?"),
    ] {
        let output = Command::new(zsched_tests::program(program)).args(arguments).output();
        let output = output.expect("it starts");
        assert_eq!(output.status.code(), Some(64), "{program} {arguments:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(expected), "{program} {arguments:?}: {text}");
    }
}
