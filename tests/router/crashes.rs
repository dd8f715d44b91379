//! What a kill leaves at each step, and kills at random moments.

use super::support::{Site, parse, until};
use std::fs;

const RULES: &str = "local zm.example.test\nusers any\n";
const SUBMISSION: &str = "from <a@zm.example.test>\nto <b@zm.example.test>\nenv-end\n\
    Subject: x\n\nbody\n";

/// Each message is in the spool once, with its control file, and nothing is left over.
fn check_spool(site: &Site, count: usize) {
    assert_eq!(site.names("router"), [""; 0]);
    let names = site.names("queue");
    assert_eq!(names, site.names("transport"));
    assert_eq!(names.len(), count);
    for name in names {
        let file = parse(&site.read(&format!("postoffice/transport/{name}")));
        assert_eq!(file.name(), Some(name.as_bytes()));
        assert_eq!(file.recipients.len(), 1);
    }
}

#[test]
fn kill_before_message_is_taken_leaves_submission_to_be_routed() {
    for hidden in ["", "@ 0x00000007\ni 1\nhalf a li"] {
        let site = Site::new(RULES);
        let number = site.submit("one", SUBMISSION);
        fs::write(site.spool.transport().join(format!(".{number}")), hidden).expect("written");
        site.route();
        check_spool(&site, 1);
    }
}

#[test]
fn kill_after_message_is_taken_leaves_control_file_to_be_named() {
    let site = Site::new(RULES);
    let number = site.submit("one", SUBMISSION);
    site.route();
    let shown = site.spool.transport().join(number.to_string());
    fs::rename(&shown, site.spool.transport().join(format!(".{number}"))).expect("renamed");
    let log = site.route();
    assert!(log.contains("its control file was still hidden after a crash"), "{log}");
    check_spool(&site, 1);
}

/// Where files are renamed by a link and a removal, a kill leaves two names.
#[test]
fn kill_between_link_and_removal_is_completed() {
    let site = Site::new(RULES);
    let number = site.submit("one", SUBMISSION);
    let (submitted, queued) =
        (site.spool.router().join("one"), site.spool.queue().join(number.to_string()));
    fs::hard_link(&submitted, &queued).expect("linked");
    site.route();
    check_spool(&site, 1);
    fs::hard_link(&queued, &submitted).expect("linked");
    let shown = site.spool.transport().join(number.to_string());
    fs::rename(&shown, site.spool.transport().join(format!(".{number}"))).expect("renamed");
    site.route();
    check_spool(&site, 1);
}

#[test]
fn killed_router_neither_loses_nor_doubles_messages() {
    const MESSAGES: usize = 400;
    let site = Site::new(RULES);
    for number in 0..MESSAGES {
        site.submit(&format!("m{number}"), SUBMISSION);
    }
    let mut rounds = 0;
    let mut left = MESSAGES;
    while left > 0 && rounds < 200 {
        rounds += 1;
        let mut router = site.start(&[]);
        // The kill comes at another moment of a batch each time.
        let goal = left.saturating_sub(rounds % 7);
        until("some are routed", || site.names("router").len() <= goal);
        router.child.kill().expect("killed");
        router.child.wait().expect("ended");
        fs::remove_file(site.spool.router_socket(None)).expect("its socket is left");
        fs::remove_file(site.path("log")).expect("its log is there");
        left = site.names("router").len();
    }
    site.route();
    check_spool(&site, MESSAGES);
}
