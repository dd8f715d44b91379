//! State of a daemon, from its pid file.

use std::io;
use std::path::Path;
use zsched_spool::processes::Process;

/// State of a daemon, from its pid file.
///
/// The file is only read. Trying its lock could keep a scheduler that is just starting from taking
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DaemonState {
    /// There is no pid file.
    NoFile,
    /// The pid file has no pid in it, or cannot be read.
    Unknown,
    /// The process does not exist.
    Dead(u32),
    /// The process exists.
    Alive(u32),
}

/// Reads the pid file at `path`.
pub(crate) fn daemon_state(path: &Path) -> DaemonState {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return DaemonState::NoFile,
        Err(_) => return DaemonState::Unknown,
    };
    let pid = std::str::from_utf8(text.trim_ascii()).ok().and_then(|pid| pid.parse().ok());
    match pid {
        Some(pid) if Process::alive(pid).is_some() => DaemonState::Alive(pid),
        Some(pid) => DaemonState::Dead(pid),
        None => DaemonState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemon_state_follows_pid_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(".pid.scheduler");
        assert_eq!(daemon_state(&path), DaemonState::NoFile);
        let own = std::process::id();
        for (text, state) in [
            (format!("{own}\n"), DaemonState::Alive(own)),
            ("1".to_string(), DaemonState::Alive(1)),
            ("99999999\n".to_string(), DaemonState::Dead(99_999_999)),
            (String::new(), DaemonState::Unknown),
            ("x\n".to_string(), DaemonState::Unknown),
        ] {
            std::fs::write(&path, &text).expect("written");
            assert_eq!(daemon_state(&path), state, "{text:?}");
        }
    }
}
