//! Locks on recipients: those of dead processes are cleared, those of living ones are respected.

use crate::support::{DEADLINE, Site, control_file, processes, timeout, until, until_within};
use std::process::{Child, Command};

/// A process that sleeps until this is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Sleeper {
        Sleeper(Command::new("sleep").arg("1000").spawn().expect("sleep starts"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Returns a control file whose second recipient has this tag and pid column.
fn locked(name: &str, tag_and_pid: &str) -> String {
    let text = control_file(name, &["c a.test u", "c b.test v", "c b.test w"]);
    let text = text.replacen("r           c b.test v", &format!("r{tag_and_pid}    c b.test v"), 1);
    assert!(text.contains(tag_and_pid) && tag_and_pid.len() == 7, "{text}");
    text
}

#[test]
fn locks_without_living_owner_are_cleared() {
    let mut child = Command::new("true").spawn().expect("true starts");
    child.wait().expect("true ends");
    let dead = format!("~{:6}", child.id());
    // No agent is started, so the files stay as they are.
    let site = Site::new("c/*\n\tqueueonly command=\"${AGENTS}/count.py c\"\n");
    let fields = ["~      ", "~     0", "~999999", "~    -1", &dead];
    for (index, field) in fields.iter().enumerate() {
        let name = format!("{}", 101 + index);
        site.put_file(&name, locked(&name, field).as_bytes());
    }
    let _daemon = site.start();
    until("all are loaded", || site.mailq().recipients() == 3 * fields.len());
    for (index, field) in fields.iter().enumerate() {
        let name = format!("{}", 101 + index);
        let text = site.read(&format!("postoffice/transport/{name}"));
        assert_eq!(text, locked(&name, "       "), "{name}, {field:?}");
    }
    for (number, host) in [("201", "a.test"), ("202", "b.test")] {
        site.put_file(number, format!("T {host}\n").as_bytes());
        site.notify(&format!("NEW {number}"));
    }
    until("all are delivered", || site.events().count("count") == 3 * fields.len());
}

/// A lock that does not have a pid has no owner; if it stayed, the recipient would wait
/// indefinitely.
#[test]
fn lock_without_valid_pid_is_cleared() {
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/count.py c\"\n");
    site.put_file("101", locked("101", "~abcdef").as_bytes());
    let _daemon = site.start();
    site.until_empty();
    assert_eq!(site.events().count("count"), 3);
}

/// A zombie has exited, but its parent has not waited for it.
///
/// Agents of a killed scheduler become zombies, and stay so if a container's first process does not
/// wait for them.
#[test]
fn lock_of_zombie_is_cleared() {
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/count.py c\"\n");
    let mut child = Command::new("true").spawn().expect("true starts");
    until("it has ended", || !processes::is_alive(child.id()));
    site.put_file("101", locked("101", &format!("~{:6}", child.id())).as_bytes());
    let _daemon = site.start();
    site.until_empty();
    assert_eq!(site.events().count("count"), 3);
    child.wait().expect("our child");
}

/// Waits for the scheduler's second look, which comes after 32 scaled seconds.
#[test]
fn message_locked_by_living_process_waits() {
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/count.py c\"\n");
    let sleeper = Sleeper::start();
    let text = locked("101", &format!("~{:6}", sleeper.pid()));
    site.put_file("101", text.as_bytes());
    let daemon = site.start();
    until("the log says so", || site.logged(&format!("101: process {}", sleeper.pid())) == 1);
    // Neither a notification nor a scan has an effect.
    site.notify("NEW 101");
    daemon.scan();
    site.put(&["c a.test other"]);
    until("others are delivered", || site.events().count("count") == 1);
    assert!(site.mailq().vertices.iter().all(|vertex| vertex.file != "101"));
    assert_eq!(site.read("postoffice/transport/101"), text);
    drop(sleeper);
    let limit = timeout(32) + DEADLINE;
    until_within(limit, "it is delivered now", || site.events().count("count") == 4);
    until("it is gone", || !site.files("transport").contains(&"101".to_string()));
}

/// Messages that the former scheduler's agents finish leave the listing of the new scheduler.
///
/// The new scheduler has no reason to try them. One message is locked when the new one reads it,
/// the others wait in the agent's pipe.
#[test]
fn messages_finished_by_former_agents_leave_listing() {
    let site = Site::new("c/*\n\tidlemax=1h overfeed=100 command=\"${AGENTS}/count.py c\"\n");
    let daemon = site.start();
    site.put(&["c a.test pause!0"]);
    until("the agent is at work", || site.events().count("take") == 1);
    for number in 1..=5 {
        site.put_quietly(&[&format!("c a.test wait!{number}"), &format!("c a.test ok!{number}")]);
    }
    daemon.signal(libc::SIGALRM);
    until("all are loaded", || site.mailq().vertices.len() == 6);
    // When its first job is done, the agent gets all others at once.
    site.write("on", "");
    let has_all = |line: &String| line.contains("OF={5}");
    until("the agent has all jobs", || site.mailq().report.iter().any(has_all));
    daemon.end(libc::SIGTERM);
    site.configure("c/*\n\tqueueonly interval=1h command=\"${AGENTS}/count.py c\"\n");
    let _daemon = site.start();
    until("the others are listed", || site.mailq().vertices.len() == 4);
    site.write("go", "");
    until("the former agent has delivered all", || site.events().count("end") == 1);
    until("the listing is empty", || site.mailq().vertices.is_empty());
    site.until_empty();
    assert_eq!(site.events().count("start"), 1, "no agent was needed");
}

#[test]
fn locks_of_a_killed_agent_are_cleared_when_it_is_reaped() {
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/bad.py crash_once c\"\n");
    let _daemon = site.start();
    let name = site.put(&["c a.test u", "c a.test v"]);
    until("the agent is gone", || site.path("crashed").exists());
    let path = site.spool.control_file(&name);
    until("no lock is left", || {
        // The message may be delivered and removed already.
        std::fs::read_to_string(&path).map_or(true, |text| !text.contains("r~"))
    });
    site.until_empty();
    let events = site.events();
    assert_eq!(events.count("start"), 2);
    assert_eq!(events.count("locked"), 0, "the next try finds no lock");
    events.assert_once_each(["u".to_string(), "v".to_string()]);
}
