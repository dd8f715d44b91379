//! What ZMailer's agent `smtp` reported in recorded sessions, and what this one reports.

use crate::peer::{Peer, Script, say};
use crate::support::{agent_with, deliver_file};
use regex::Regex;
use zsched_smtp::dialer::ClientOptions;

/// Notary data and text of the recorded reports, with `N` for numbers that differ each time.
///
/// The original gave SIZE after BODY.
const DEFERRED: (&str, &str) = (
    "temp1@a.live.test\u{1}failed\u{1}4.2.1\u{1}smtp; 450 (mailbox busy)\u{1}\
     X-IP-addr; [127.0.0.1] (127.0.0.1|N|127.0.0.1|N)\u{1}smtp[N]",
    "\r<<- MAIL From:<games@zm.example.test> SIZE=N BODY=8BITMIME ENVID=live-ENV RET=FULL\
     \r->> 250 2.1.0 ok\
     \r<<- RCPT To:<temp1@a.live.test> NOTIFY=FAILURE ORCPT=rfc822;temp1@a.live.test\
     \r->> 450 4.2.1 mailbox busy",
);
const DELIVERED: &str = "\r<<- MAIL From:<games@zm.example.test> SIZE=N BODY=8BITMIME \
     ENVID=live-ENV RET=FULL\r->> 250 2.1.0 ok\
     \r<<- RCPT To:<good2@a.live.test> NOTIFY=FAILURE ORCPT=rfc822;good2@a.live.test\
     \r->> 250 2.1.5 ok\r<<- DATA\r->> 354 go ahead\r<<- .\r->> 250 2.6.0 accepted N bytes";
fn control_file(host: &str, user: &str) -> String {
    format!(
        "@ 0x00000007\ni 4711\no 0\nl <id@x>\nn live-ENV\nR FULL\n\
         s local - games@zm.example.test 0\nr           smtp {host} {user} 0\n\
         N NOTIFY=FAILURE ORCPT=rfc822;{user}\nm\nSubject: test\n\n"
    )
}

/// Ports, sizes and process ids as `N`.
fn normalized(text: &str) -> String {
    let ports = Regex::new(r"\|\d+([|)])").expect("a pattern");
    let others = Regex::new(r"(SIZE=|accepted |smtp\[)\d+").expect("a pattern");
    others.replace_all(&ports.replace_all(text, "|N$1"), "${1}N").into_owned()
}

fn fields(notary: &str) -> Vec<&str> {
    notary.split('\u{1}').collect()
}

#[test]
fn reports_have_the_fields_of_recorded_ones() {
    let script = Script::offering(&["8BITMIME", "SIZE", "DSN", "ENHANCEDSTATUSCODES"])
        .on("MAIL", say("250 2.1.0 ok"))
        .on("RCPT To:<temp1", say("450 4.2.1 mailbox busy"))
        .on("RCPT To:<good2", say("250 2.1.5 ok"))
        .on("DATA", say("354 go ahead"))
        .on(".", say("250 2.6.0 accepted 288 bytes"));
    let peer = Peer::start(script);
    let mut agent = agent_with("", ClientOptions::default(), None);
    let run =
        deliver_file(&mut agent, &control_file(&peer.host(), "temp1@a.live.test"), "\u{e4}\n");
    let report = run.report("temp1@a.live.test");
    assert_eq!(report.status, "deferred");
    let notary = normalized(&report.notary.join("\u{1}"));
    let (mut found, recorded) = (fields(&notary), fields(DEFERRED.0));
    // The original calls a deferral a failure, and has no comment on its status.
    assert_eq!((found[1], found[2]), ("delayed", "4.2.1 (mailbox busy)"));
    (found[1], found[2]) = (recorded[1], recorded[2]);
    assert_eq!(found, recorded);
    assert_eq!(normalized(&report.text), DEFERRED.1);

    let run =
        deliver_file(&mut agent, &control_file(&peer.host(), "good2@a.live.test"), "\u{e4}\n");
    let report = run.report("good2@a.live.test");
    assert_eq!(report.status, "ok3");
    assert_eq!(normalized(&report.text), DELIVERED);
}
