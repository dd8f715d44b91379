//! `mailq stats`: a status log in numbers.

use crate::support::Site;
use expect_test::expect;
use std::fs;

/// A line of the log, at a minute of the morning of 2026-11-21.
fn line(minute: u32, recipient: &str, status: &str, text: &str, delay: f64) -> String {
    let (hour, minute) = (8 + minute / 60, minute % 60);
    let host = recipient.split_once('@').map_or("", |(_, domain)| domain);
    let object = serde_json::json!({
        "time": format!("2026-11-21T{hour:02}:{minute:02}:00.000Z"),
        "spool_id": "S1", "message_id": null, "sender": "list@example.org",
        "recipient": recipient, "channel": "smtp", "host": host, "agent": 7, "status": status,
        "report": null, "code": text.split(' ').find(|word| word.contains('.')), "reply": null,
        "remote": null, "text": text, "others": 0, "delay": delay,
        "delays": {"router": 0.0, "queue": delay, "attempt": null},
    });
    format!("{object}\n")
}

fn write_log(site: &Site) -> String {
    let mut text = String::new();
    for number in 0..98 {
        text +=
            &line(number / 4, &format!("u{number}@fast.test"), "delivered", "250 2.0.0 ok", 1.0);
    }
    text += &line(61, "a@slow.test", "deferred", "451 4.7.1 come back later", 60.0);
    text += &line(62, "a@slow.test", "deferred", "451 4.7.1 come back later", 120.0);
    text += &line(63, "a@slow.test", "delivered", "250 2.0.0 ok", 180.0);
    text += &line(70, "x@fast.test", "failed", "550 5.1.1 no such user", 2.0);
    text += &line(71, "b@dead.test", "expired", "4.4.1 connection timed out", 259_200.0);
    let path = site.path("status");
    fs::write(&path, text).expect("written");
    path.to_string_lossy().into_owned()
}

#[test]
fn tables_have_what_operators_removed() {
    let site = Site::new();
    let log = write_log(&site);
    let mut text = fs::read_to_string(&log).expect("the log");
    text += &line(72, "c@slow.test", "deleted", "deleted by ann", 9.0);
    fs::write(&log, text).expect("written");
    let shown = site.mailq(&format!("stats {log} --limit 2 --width 100")).good();
    assert!(shown.contains("\n1 recipient deleted by an operator\n"), "{shown}");
    let row = shown.lines().find(|line| line.starts_with("smtp/slow.test"));
    let row: Vec<&str> = row.expect("a row").split_whitespace().collect();
    assert_eq!(row[1..5], ["1", "2", "0", "1"], "{shown}");
    assert!(!shown.contains("REROUTED"), "{shown}");
}

#[test]
fn stats_count_outcomes_delays_and_reasons() {
    let site = Site::new();
    let log = write_log(&site);
    let shown = site.mailq(&format!("stats {log} --limit 3 --width 100")).good();
    expect![[r#"
        From 2026-11-21 08:00 to 2026-11-21 09:11

        99 recipients delivered
        2 attempts deferred
        1 recipient failed
        1 recipient expired
        Delay of what was delivered: half within 1s, 90 % within 1s, 99 % within 3m, longest 3m

        TIME              DELIVERED  DEFERRED  GIVEN UP
        2026-11-21 08:00         98         0         0
        2026-11-21 09:00          1         2         2

        DESTINATION     DELIVERED  DEFERRED  GIVEN UP  AVERAGE  LONGEST
        smtp/fast.test         98         0         1       1s       1s
        smtp/slow.test          1         2         0       3m       3m
        smtp/dead.test          0         0         1        -        -

        SENDER            DELIVERED  DEFERRED  GIVEN UP  AVERAGE  LONGEST
        list@example.org         99         2         2       3s       3m

        RECIPIENT     DELIVERED  DEFERRED  GIVEN UP  AVERAGE  LONGEST
        a@slow.test           1         2         0       3m       3m
        b@dead.test           0         0         1        -        -
        u0@fast.test          1         0         0       1s       1s

        TIMES  DEFERRED BECAUSE
            2  smtp/slow.test: 451 4.7.1 come back later

        TIMES  GIVEN UP BECAUSE
            1  smtp/dead.test: 4.4.1 connection timed out
            1  smtp/fast.test: 550 5.1.1 no such user
    "#]]
    .assert_eq(&shown);
}

#[test]
fn stats_in_json_are_one_object() {
    let site = Site::new();
    let log = write_log(&site);
    let text = site.mailq(&format!("stats {log} --json --limit 1")).good();
    let object: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(object["outcomes"]["delivered"], 99);
    assert_eq!(object["destinations"][0]["name"], "smtp/fast.test");
    assert_eq!(object["deferral_reasons"][0]["counts"], 2);
    assert_eq!(object["hours"]["2026-11-21T09:00:00Z"]["deferred"], 2);
    // The lines are older than a span that ends now.
    let text = site.mailq(&format!("stats {log} --since 1h")).good();
    assert_eq!(text, "No lines in this time.\n");
}

#[test]
fn stats_without_log_name_what_is_missing() {
    let site = Site::new();
    site.mailq("stats").failed(64, "STATUSLOG");
    site.mailq("stats /no/such/log").failed(72, "/no/such/log");
    site.mailq("stats x --since soon").failed(64, "soon is not a time span");
}
