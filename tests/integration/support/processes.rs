//! Processes, as `/proc` shows them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Returns the numbers of all processes.
fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc can be read");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the fields of `/proc/<pid>/stat` from the third one, the state, on.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_ascii_whitespace().map(str::to_string).collect())
}

/// Returns field `number` of `/proc/<pid>/stat`, counted as in proc(5).
fn field(pid: u32, number: usize) -> Option<i64> {
    stat(pid)?.get(number - 3)?.parse().ok()
}

/// Returns true if there is such a process and it is no zombie.
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields[0] != "Z")
}

/// Returns the children of a process, without zombies.
pub fn children(pid: u32) -> Vec<u32> {
    let mut all = all();
    all.retain(|child| field(*child, 4) == Some(i64::from(pid)) && is_alive(*child));
    all
}

/// Returns the process group of a process.
pub fn group(pid: u32) -> i64 {
    field(pid, 5).expect("the process is there")
}

/// Returns the session of a process.
pub fn session(pid: u32) -> i64 {
    field(pid, 6).expect("the process is there")
}

/// Returns the nice value of a process.
pub fn niceness(pid: u32) -> i64 {
    field(pid, 19).expect("the process is there")
}

/// Returns the scheduling policy of a process's OS thread, if there is one with this name.
pub fn policy(pid: u32, thread: &str) -> Option<i64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads can be listed");
    let mut ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    let has_name = |id: &u32| {
        fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.trim_end() == thread)
    };
    field(ids.find(has_name)?, 41)
}

/// Returns the CPU time of a process, without its children.
pub fn cpu_time(pid: u32) -> Duration {
    let ticks = field(pid, 14).expect("user time") + field(pid, 15).expect("system time");
    let per_second = zsched_sys::clock_ticks();
    Duration::from_millis(ticks.unsigned_abs() * 1000 / per_second)
}

/// Returns the number of a process's descriptors that are sockets.
pub fn sockets(pid: u32) -> usize {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors can be listed");
    let targets = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

/// Returns the resident memory of a process, in bytes.
pub fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    let kilobytes: u64 =
        line.split_ascii_whitespace().nth(1).expect("a value").parse().expect("kB");
    kilobytes * 1024
}

/// Returns the processes whose working folder is `folder` or below.
///
/// These are all processes that a scheduler there has started.
pub fn working_in(folder: &Path) -> Vec<u32> {
    let folder = folder.canonicalize().unwrap_or_else(|_| PathBuf::from(folder));
    let mut all = all();
    all.retain(|pid| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&folder))
    });
    all
}

pub fn signal(pid: u32, signal: i32) {
    zsched_sys::send_signal(pid, signal).expect("the process can be signalled");
}

/// Sends a signal to a process group.
pub fn signal_group(group: u32, signal: i32) {
    let status = std::process::Command::new("kill")
        .args([format!("-{signal}"), "--".to_string(), format!("-{group}")])
        .status()
        .expect("kill can be started");
    assert!(status.success(), "kill -{signal} -- -{group}: {status}");
}
