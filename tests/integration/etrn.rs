//! Requests for a host's mail, as an SMTP server leaves them, and clauses that wait for them.

use crate::support::{Site, control_file, until};
use std::fs;
use std::os::unix::fs::MetadataExt;
use zsched_spool::HashLevel;

const QUEUE_ONLY: &str = "c/*\n\tqueueonly command=\"${AGENTS}/count.py c\"\n\
     d/*\n\tqueueonly command=\"${AGENTS}/count.py d\"\n\
     e/*\n\tcommand=\"${AGENTS}/count.py e\"\n";

/// Requests a host's mail as the smtpserver does. Returns the name of the file.
///
/// It writes a hidden file and renames it to its inode number when it is complete.
fn request(site: &Site, text: &str) -> String {
    let hidden = site.path("postoffice/transport/..etrn-X8dkz2");
    fs::write(&hidden, text).expect("written");
    let name = format!("{}-etrn", fs::metadata(&hidden).expect("it is there").ino());
    fs::rename(hidden, site.path("postoffice/transport").join(&name)).expect("renamed");
    name
}

fn is_pending(site: &Site, request: &str) -> bool {
    site.files("transport").iter().any(|file| file.ends_with(request))
}

/// A request starts one run. Later mail and deferred mail wait for the next request.
#[test]
fn request_starts_mail_that_is_queued() {
    let site = Site::new(QUEUE_ONLY);
    let daemon = site.start();
    site.put(&["c a.test 1"]);
    site.put(&["c a.test deferred!2"]);
    site.put(&["d a.test 3"]);
    let other = site.put(&["c b.test 4"]);
    until("all are loaded", || site.mailq().vertices.len() == 4);
    let asked = request(&site, "T A.Test [192.0.2.1]\n");
    daemon.signal(libc::SIGALRM);
    until("a.test has got its mail, on all channels", || site.events().count("count") == 2);
    until("the request is gone", || !is_pending(&site, &asked));
    site.until_logged("ETRN a.test: 2 destinations", 1);
    site.until_shown("as told: deferred");
    until("no agent is left at work", || site.mailq().vertices.len() == 2);
    site.put(&["c a.test 5"]);
    until("it is loaded", || site.mailq().vertices.len() == 3);
    daemon.scan();
    // This is longer than the interval of one second.
    crate::support::hold_for(std::time::Duration::from_millis(2500), "no mail is tried", || {
        site.events().count("take") == 3
    });
    site.write("open", "");
    request(&site, "T a.test\n");
    daemon.signal(libc::SIGALRM);
    until("the rest is delivered", || site.events().count("count") == 4);
    until("only b.test, which has not asked, has mail left", || site.files("transport").len() == 1);
    assert!(site.mailq().vertices.iter().any(|vertex| vertex.file == other.path()));
}

/// A request that exists at the start applies to mail that exists at the start.
#[test]
fn requests_survive_restart() {
    let site = Site::with_level(HashLevel::Twice, QUEUE_ONLY);
    site.put_quietly(&["c a.test 1"]);
    site.put_quietly(&["c b.test 2"]);
    request(&site, "T a.test [192.0.2.1]\n");
    let _daemon = site.start();
    until("that host is served", || site.events().count("count") == 1);
    until("one message is left, and no request", || site.files("transport").len() == 1);
    assert_eq!(site.files("queue").len(), 1);
    site.events().assert_once_each(["1".to_string()]);
}

#[test]
fn odd_requests_are_harmless() {
    let site = Site::new(QUEUE_ONLY);
    let daemon = site.start();
    site.put(&["c a.test 1"]);
    site.put(&["c b.test 2"]);
    until("both are loaded", || site.mailq().vertices.len() == 2);
    // These name no host of the queue, no host at all, or are no requests.
    for text in ["T nowhere.test\n", "T \n", "T\n", "T"] {
        request(&site, text);
        daemon.signal(libc::SIGALRM);
    }
    until("they are gone, in one way or the other", || site.files("transport").len() == 2);
    assert_eq!(site.events().count("count"), 0);
    // One file requests two hosts. Another request is in a message, which is also delivered.
    request(&site, "T a.test\nT nowhere.test\n");
    daemon.signal(libc::SIGALRM);
    until("a.test is served", || site.events().count("count") == 1);
    let text = control_file("9001", &["e e.test 3"]).replacen("s local", "T b.test\ns local", 1);
    site.put_file("9001", text.as_bytes());
    site.notify("NEW 9001");
    site.until_empty();
    site.events().assert_once_each(["1", "2", "3"].map(String::from));
}
