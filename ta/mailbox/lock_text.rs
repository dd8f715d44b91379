//! The text of a lock file: maker, and append in progress.
//!
//! The append must be undone if the maker has died.
//!
//! ```text
//! 31337                                                      the maker's pid
//! zsched mail.example.org 2a8f...                            agents only: host, and its boot id
//! 1048576 From alice@example.org Sat Nov 21 10:04:09 2026    while a letter is being appended:
//!                                                            old length, and how the letter begins
//! ```
//!
//! Other programs read the first line at most. The boot id is needed because after a power failure
//! the lock may exist again, although the letter was delivered and that was reported to its sender.

use std::fs;
use zsched_sys as sys;

/// Maximum number of bytes read of a lock file. An opening line contains a sender.
pub const MAX_LOCK_TEXT_LEN: u64 = 16 * 1024;

/// First word of the second line.
const MARK: &str = "zsched";

/// The maker of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMaker {
    /// A `mailbox` agent on this host.
    Agent(u32),
    /// Another program, probably on this host.
    Program(u32),
    /// Not named, or on another host.
    Unknown,
}

/// An append in progress.
#[derive(Debug, PartialEq, Eq)]
pub struct Append {
    /// Length of the mailbox before it, in bytes.
    pub old_length: u64,
    /// First line of the letter, with the line end.
    pub opening_line: Vec<u8>,
}

/// The contents of a lock file.
#[derive(Debug, PartialEq, Eq)]
pub struct LockText {
    pub maker: LockMaker,
    /// The append in progress.
    ///
    /// It is used only if the maker was an agent on this host since its boot.
    pub append: Option<Append>,
}

/// The identity of this system and of its boot: the second line of its locks.
#[derive(Clone, Debug)]
pub struct SystemId {
    line: Option<String>,
}

impl SystemId {
    /// Determines the identity. Without one, locks name only the pid of their makers.
    pub fn find() -> SystemId {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let line = boot.map(|boot| format!("{MARK} {} {}", sys::host_name(), boot.trim()));
        SystemId { line }
    }

    /// The text of a new lock.
    pub fn new_lock(&self) -> String {
        let pid = std::process::id();
        match &self.line {
            Some(line) => format!("{pid}\n{line}\n"),
            None => format!("{pid}\n"),
        }
    }

    /// Parses the text of a lock.
    pub fn read(&self, text: &[u8]) -> LockText {
        let mut lines = text.split_inclusive(|byte| *byte == b'\n');
        let mut next = || lines.next().and_then(|line| std::str::from_utf8(line).ok());
        // Some programs write a zero for an unspecified pid.
        let pid = next().and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
        let pid = pid.filter(|pid| *pid > 0);
        let second = next().unwrap_or_default().trim_end();
        let (is_agents, is_here, is_now) = self.compare(second);
        let maker = match pid {
            Some(pid) if is_here => LockMaker::Agent(pid),
            Some(pid) if !is_agents => LockMaker::Program(pid),
            _ => LockMaker::Unknown,
        };
        let append = lines.next().filter(|_| is_now).and_then(Append::parse);
        LockText { maker, append }
    }

    /// Compares the second line of a lock with that of this system.
    ///
    /// Returns three flags: it is that of an agent, on this host, since its boot.
    fn compare(&self, line: &str) -> (bool, bool, bool) {
        let host = |line: &str| line.rsplit_once(' ').map(|(host, _boot)| host.to_string());
        let is_agents = line.starts_with(MARK);
        let Some(ours) = self.line.as_deref().filter(|_| is_agents) else {
            return (is_agents, false, false);
        };
        (true, host(ours) == host(line), ours == line)
    }
}

impl Append {
    /// Formats the third line of a lock.
    pub fn line(&self) -> Vec<u8> {
        [format!("{} ", self.old_length).as_bytes(), &self.opening_line].concat()
    }

    /// Parses the third line. Returns `None` if it is incomplete: then nothing was appended.
    fn parse(line: &[u8]) -> Option<Append> {
        let blank = line.iter().position(|byte| *byte == b' ')?;
        let old_length = std::str::from_utf8(&line[..blank]).ok()?.parse().ok()?;
        let opening_line = &line[blank + 1..];
        let is_whole = opening_line.starts_with(b"From ") && opening_line.ends_with(b"\n");
        is_whole.then(|| Append { old_length, opening_line: opening_line.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system() -> SystemId {
        SystemId { line: Some("zsched a.test 2a8f".to_string()) }
    }

    #[test]
    fn makers_of_locks_are_distinguished() {
        for (text, maker) in [
            ("", LockMaker::Unknown),
            ("0", LockMaker::Unknown),
            ("nonsense\n", LockMaker::Unknown),
            ("-7\n", LockMaker::Unknown),
            ("7", LockMaker::Program(7)),
            ("  7 host\n", LockMaker::Program(7)),
            ("7\nmore\n", LockMaker::Program(7)),
            ("7\nzsched a.test 2a8f\n", LockMaker::Agent(7)),
            ("7\nzsched a.test before\n", LockMaker::Agent(7)),
            ("7\nzsched b.test 2a8f\n", LockMaker::Unknown),
            ("0\nzsched a.test 2a8f\n", LockMaker::Unknown),
        ] {
            assert_eq!(
                system().read(text.as_bytes()),
                LockText { maker, append: None },
                "{text:?}"
            );
        }
    }

    #[test]
    fn append_is_parsed_if_complete_and_of_this_boot() {
        let append = Append { old_length: 12, opening_line: b"From \xe9@x Sat\n".to_vec() };
        let text = |second: &str, end: usize| {
            let line = append.line();
            [b"7\n", second.as_bytes(), b"\n", &line[..line.len() - end]].concat()
        };
        let read = |text: Vec<u8>| system().read(&text).append;
        assert_eq!(read(text("zsched a.test 2a8f", 0)).as_ref(), Some(&append));
        assert_eq!(read(text("zsched a.test 2a8f", 1)), None);
        assert_eq!(read(text("zsched a.test before", 0)), None);
        assert_eq!(read(text("zsched b.test 2a8f", 0)), None);
        assert_eq!(read(text("", 0)), None);
    }

    #[test]
    fn written_lock_is_parsed_unchanged() {
        let system = SystemId::find();
        let ours = system.read(system.new_lock().as_bytes()).maker;
        assert!(
            matches!(ours, LockMaker::Agent(pid) | LockMaker::Program(pid) if pid == std::process::id())
        );
    }
}
