//! Programs that `runner` keeps, under a real scheduler: how many, how long, and which live.

use crate::support::{Site, until};
use std::collections::BTreeSet;

/// Answers each message, and keeps its process id and the address.
const KEEP: &str = "while IFS=\"$(printf '\\t')\" read -r path domain list function sender to; do
    case $path in '#ping') [ -e \"$1/hang\" ] && exec sleep 1000; echo 0; continue ;; esac
    echo \"$$ $to\" >>\"$1/kept\"; echo 0
done
";

fn site(settings: &str) -> Site {
    let command =
        "runner --ping-timeout 1 --user ${RUN_AS} --command /bin/sh ${SITE}/keep ${SITE}/mail";
    let site = Site::new(&format!("list/*\n\t{settings}\n\tcommand=\"{command}\"\n"));
    site.add_zenv(&format!("RUN_AS={}", zsched_sys::users::effective_user()));
    site.write("keep", KEEP);
    site
}

/// Process ids of the programs, in the order of the messages.
fn pids(site: &Site) -> Vec<String> {
    let pid = |line: &str| line.split(' ').next().map(str::to_string);
    site.read("mail/kept").lines().filter_map(pid).collect()
}

#[test]
fn bounded_number_of_programs_serves_all_lists() {
    let site = site("maxring=2 maxthr=1 idlemax=1h overfeed=0");
    let _daemon = site.start();
    for number in 0..40 {
        site.put(&[&format!("list x.test/l{}/list a{number}@x.test", number % 10)]);
    }
    site.until_empty();
    let pids = pids(&site);
    assert_eq!(pids.len(), 40, "each message once");
    let programs: BTreeSet<&String> = pids.iter().collect();
    assert!(programs.len() <= 2, "{programs:?}");
}

#[test]
fn agent_jobs_replaces_programs() {
    let site = site("maxring=1 idlemax=1h agent-jobs=3");
    let _daemon = site.start();
    for number in 0..9 {
        site.put(&[&format!("list x.test/l/list a{number}@x.test")]);
    }
    site.until_empty();
    let pids = pids(&site);
    let runs: Vec<usize> = pids.chunk_by(|a, b| a == b).map(<[String]>::len).collect();
    assert_eq!(runs, [3, 3, 3], "{pids:?}");
}

#[test]
fn idle_program_that_hangs_is_replaced_before_the_next_message() {
    let site = site("maxring=1 idlemax=1h idle-ping=1s");
    let _daemon = site.start();
    site.put(&["list x.test/l/list a@x.test"]);
    site.until_empty();
    site.write("mail/hang", "");
    // Its agent notices, and logs it.
    until("the program is replaced", || site.log().contains("did not answer while it was idle"));
    std::fs::remove_file(site.path("mail/hang")).expect("removed");
    site.put(&["list x.test/l/list b@x.test"]);
    site.until_empty();
    let pids = pids(&site);
    assert!(pids.len() == 2 && pids[0] != pids[1], "{pids:?}");
}

#[test]
fn idle_agent_that_hangs_is_replaced() {
    let site = site("maxring=1 idlemax=1h idle-ping=1s agent-timeout=3s");
    let daemon = site.start();
    site.put(&["list x.test/l/list a@x.test"]);
    site.until_empty();
    let [agent] = daemon.agents()[..] else { panic!("one agent") };
    zsched_sys::send_signal(agent, libc::SIGSTOP).expect("sent");
    until("the agent is killed", || !daemon.agents().contains(&agent));
    site.put(&["list x.test/l/list b@x.test"]);
    site.until_empty();
    assert_eq!(pids(&site).len(), 2);
}

#[test]
fn random_order_delivers_everything_once() {
    let site = site("maxring=1 idlemax=1h overfeed=3 job-order=random");
    for number in 0..60 {
        site.put_quietly(&[&format!("list x.test/l/list a{number}@x.test")]);
    }
    let _daemon = site.start();
    site.until_empty();
    let kept = site.read("mail/kept");
    let order: Vec<usize> = kept
        .lines()
        .filter_map(|line| line.split_once(" a")?.1.strip_suffix("@x.test")?.parse().ok())
        .collect();
    assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 60);
    assert!(order.len() == 60 && !order.is_sorted(), "{order:?}");
}
