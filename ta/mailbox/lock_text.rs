//! What is in a lock file: who made it, and what would have to be undone if that one died.
//!
//! ```text
//! 31337                                                      the maker's pid
//! zsched mail.example.org 2a8f...                            agents only: host, and boot of the host
//! 1048576 From alice@example.org Sat Nov 21 10:04:09 2026    while a letter is being appended:
//!                                                            old length, and how the letter begins
//! ```
//!
//! Other programs read the first line at most. The boot matters because after a power failure the
//! lock may be back although the letter was delivered and its sender was told so.

use std::fs;
use zsched_sys as sys;

/// The most that is read of a lock file, in bytes. An opening line has a sender in it.
pub const LONGEST: u64 = 16 * 1024;

/// First word of the second line.
const MARK: &str = "zsched";

/// Who made a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// An agent as we are, on this host.
    Agent(u32),
    /// Some other program, probably on this host.
    Program(u32),
    /// That is not said, or it is somebody on another host.
    Unknown,
}

/// An append that has begun.
#[derive(Debug, PartialEq, Eq)]
pub struct Append {
    /// Length of the mailbox before it, in bytes.
    pub old_length: u64,
    /// How the letter begins, with the line end.
    pub opening_line: Vec<u8>,
}

/// What a lock file says.
#[derive(Debug, PartialEq, Eq)]
pub struct LockText {
    pub maker: Maker,
    /// What its maker has begun, if it was an agent on this host, since the boot.
    pub append: Option<Append>,
}

/// Which system this is, and since when: the second line of its locks.
#[derive(Clone, Debug)]
pub struct Here {
    line: Option<String>,
}

impl Here {
    /// This system. Where it has no identity, its locks name just their makers.
    pub fn find() -> Here {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let line = boot.and_then(|boot| {
            let host = sys::host_name().ok()?;
            Some(format!("{MARK} {host} {}", boot.trim()))
        });
        Here { line }
    }

    /// The text of a new lock of ours.
    pub fn new_lock(&self) -> String {
        let pid = std::process::id();
        match &self.line {
            Some(line) => format!("{pid}\n{line}\n"),
            None => format!("{pid}\n"),
        }
    }

    /// Reads the text of a lock.
    pub fn read(&self, text: &[u8]) -> LockText {
        let mut lines = text.split_inclusive(|byte| *byte == b'\n');
        let mut next = || lines.next().and_then(|line| std::str::from_utf8(line).ok());
        // Some programs write a zero, to say nothing.
        let pid = next().and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
        let pid = pid.filter(|pid| *pid > 0);
        let second = next().unwrap_or_default().trim_end();
        let (is_agents, is_here, is_now) = self.compare(second);
        let maker = match pid {
            Some(pid) if is_here => Maker::Agent(pid),
            Some(pid) if !is_agents => Maker::Program(pid),
            _ => Maker::Unknown,
        };
        let append = lines.next().filter(|_| is_now).and_then(Append::parse);
        LockText { maker, append }
    }

    /// Whether the second line of a lock is that of an agent, one on this host, and since the boot.
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
    /// The third line of a lock.
    pub fn line(&self) -> Vec<u8> {
        [format!("{} ", self.old_length).as_bytes(), &self.opening_line].concat()
    }

    /// `None` for one that was not written to its end: nothing was appended then.
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

    fn here() -> Here {
        Here { line: Some("zsched a.test 2a8f".to_string()) }
    }

    #[test]
    fn makers_are_told_apart() {
        for (text, maker) in [
            ("", Maker::Unknown),
            ("0", Maker::Unknown),
            ("nonsense\n", Maker::Unknown),
            ("-7\n", Maker::Unknown),
            ("7", Maker::Program(7)),
            ("  7 host\n", Maker::Program(7)),
            ("7\nmore\n", Maker::Program(7)),
            ("7\nzsched a.test 2a8f\n", Maker::Agent(7)),
            ("7\nzsched a.test before\n", Maker::Agent(7)),
            ("7\nzsched b.test 2a8f\n", Maker::Unknown),
            ("0\nzsched a.test 2a8f\n", Maker::Unknown),
        ] {
            assert_eq!(here().read(text.as_bytes()), LockText { maker, append: None }, "{text:?}");
        }
    }

    #[test]
    fn an_append_is_read_back_if_it_is_whole_and_of_this_boot() {
        let append = Append { old_length: 12, opening_line: b"From \xe9@x Sat\n".to_vec() };
        let text = |second: &str, end: usize| {
            let line = append.line();
            [b"7\n", second.as_bytes(), b"\n", &line[..line.len() - end]].concat()
        };
        let read = |text: Vec<u8>| here().read(&text).append;
        assert_eq!(read(text("zsched a.test 2a8f", 0)).as_ref(), Some(&append));
        assert_eq!(read(text("zsched a.test 2a8f", 1)), None);
        assert_eq!(read(text("zsched a.test before", 0)), None);
        assert_eq!(read(text("zsched b.test 2a8f", 0)), None);
        assert_eq!(read(text("", 0)), None);
    }

    #[test]
    fn what_we_write_we_know() {
        let here = Here::find();
        let ours = here.read(here.new_lock().as_bytes()).maker;
        assert!(
            matches!(ours, Maker::Agent(pid) | Maker::Program(pid) if pid == std::process::id())
        );
    }
}
