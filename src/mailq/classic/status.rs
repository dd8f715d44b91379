//! State of router and scheduler, from folders and pid files (`-s`).
//!
//! Monitoring scripts parse this output, so the words are ZMailer's.

use crate::failure::{self, Failure};
use crate::installation::{DaemonState, Installation, daemon_state};
use crate::screen::Screen;
use std::fs;
use std::io;
use std::path::Path;

/// Contents of a folder and of its single-letter folders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Contents {
    /// Message files: their names begin with a digit.
    messages: u64,
    /// True if a program has left a `core`.
    has_core: bool,
}

/// Prints the state of the spool.
///
/// The state of daemons on another host is not known.
pub(super) fn print(
    screen: &mut Screen<'_>,
    installation: &Installation,
    is_local: bool,
) -> Result<(), Failure> {
    let spool = installation.spool();
    let state = |pid_file: &Path| is_local.then(|| daemon_state(pid_file));
    let router = spool.postoffice().join("router");
    let entries = count(&router)?.messages;
    let ending = if entries == 1 { "y" } else { "ies" };
    let pid_file = spool.postoffice().join(".pid.router");
    let word = router_word(state(&pid_file), entries, &pid_file, &router.join("core"));
    writeln!(screen, "{entries} entr{ending} in {}/ directory: {word}", router.display())?;

    // The folder is optional.
    let deferred = count(&spool.postoffice().join("deferred")).map_or(0, |found| found.messages);
    if deferred > 0 {
        writeln!(screen, "{} deferred", messages(deferred))?;
    }

    let transport = count(spool.transport())?;
    let folder = spool.transport().display();
    let waiting = messages(transport.messages);
    let word = match state(&spool.pid_file()) {
        None => "non-local".to_string(),
        Some(DaemonState::NoFile | DaemonState::Unknown) if transport.messages > 0 => {
            format!("never started \"{folder}\" polluted")
        }
        Some(DaemonState::NoFile | DaemonState::Unknown) => "never started".to_string(),
        Some(DaemonState::Dead(_)) => "no scheduler daemon".to_string(),
        Some(DaemonState::Alive(_)) if transport.messages > 0 => "working".to_string(),
        Some(DaemonState::Alive(_)) => "idle".to_string(),
    };
    let core = if transport.has_core { " (core exists)" } else { "" };
    writeln!(screen, "{waiting} in {folder}/ directory: {word}{core}")?;

    let stored = count(spool.queue())?.messages;
    if stored != transport.messages {
        writeln!(screen, "{} in {}/ directory", messages(stored), spool.queue().display())?;
    }
    Ok(())
}

fn router_word(
    state: Option<DaemonState>,
    entries: u64,
    pid_file: &Path,
    core: &Path,
) -> &'static str {
    match state {
        None => "non-local",
        Some(DaemonState::NoFile | DaemonState::Unknown) => "never started",
        Some(DaemonState::Dead(_)) if is_newer(core, pid_file) => "core dumped",
        Some(DaemonState::Dead(_)) => "no daemon",
        Some(DaemonState::Alive(_)) if entries > 0 => "processing",
        Some(DaemonState::Alive(_)) => "idle",
    }
}

fn messages(count: u64) -> String {
    format!("{count} message{}", if count == 1 { "" } else { "s" })
}

fn is_newer(path: &Path, other: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    match (modified(path), modified(other)) {
        (Some(path), Some(other)) => path > other,
        _ => false,
    }
}

fn count(folder: &Path) -> Result<Contents, Failure> {
    count_files(folder).map_err(|error| failure::unreadable(folder, &error))
}

fn count_files(folder: &Path) -> io::Result<Contents> {
    let mut contents = Contents::default();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        match name.as_encoded_bytes() {
            [b'0'..=b'9', ..] => contents.messages += 1,
            b"core" => contents.has_core = true,
            [b'A'..=b'Z'] if entry.file_type()?.is_dir() => {
                let below = count_files(&entry.path())?;
                contents.messages += below.messages;
                contents.has_core |= below.has_core;
            }
            _ => {}
        }
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ConnectOptions;
    use std::time::{Duration, SystemTime};
    use tempfile::TempDir;

    /// Makes a spool with these files, and returns what is printed of it.
    ///
    /// Each file is `path` or `path=text`, oldest first.
    fn status(files: &[&str], is_local: bool) -> String {
        let folder = TempDir::new().expect("a temporary folder");
        let path = folder.path();
        for name in ["router", "deferred", "transport/A/B", "queue"] {
            fs::create_dir_all(path.join(name)).expect("folders");
        }
        for (age, file) in (0..files.len() as u64).rev().zip(files) {
            let (name, text) = file.split_once('=').unwrap_or((file, ""));
            fs::write(path.join(name), text).expect("written");
            let file = fs::File::options().write(true).open(path.join(name)).expect("a file");
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("set");
        }
        let zenv = path.join("zmailer.conf");
        fs::write(&zenv, format!("POSTOFFICE={}\n", path.display())).expect("written");
        let mut options = ConnectOptions::default();
        options.zenv = Some(zenv);
        let installation = Installation::read(&options).expect("a ZENV file");
        let mut out = Vec::new();
        print(&mut Screen::new(&mut out), &installation, is_local).expect("printed");
        let text = String::from_utf8(out).expect("text");
        text.replace(path.to_str().expect("text"), "P")
    }

    #[test]
    fn print_uses_words_of_zmailer() {
        let own = format!(".pid.scheduler={}\n", std::process::id());
        let own_router = own.replace("scheduler", "router");
        let cases: [(&[&str], bool, &str); 7] = [
            (
                &[],
                true,
                "0 entries in P/router/ directory: never started\n\
                 0 messages in P/transport/ directory: never started\n",
            ),
            (
                &["router/1", "transport/A/1", "transport/A/B/2", "transport/x", "queue/1"],
                true,
                "1 entry in P/router/ directory: never started\n\
                 2 messages in P/transport/ directory: never started \"P/transport\" polluted\n\
                 1 message in P/queue/ directory\n",
            ),
            (
                &[&own, &own_router, "transport/1", "queue/1", "router/2", "transport/core"],
                true,
                "1 entry in P/router/ directory: processing\n\
                 1 message in P/transport/ directory: working (core exists)\n",
            ),
            (
                &[&own, &own_router, "deferred/1"],
                true,
                "0 entries in P/router/ directory: idle\n1 message deferred\n\
                 0 messages in P/transport/ directory: idle\n",
            ),
            (
                &[".pid.scheduler=99999999", ".pid.router=99999999", "router/core"],
                true,
                "0 entries in P/router/ directory: core dumped\n\
                 0 messages in P/transport/ directory: no scheduler daemon\n",
            ),
            (
                &["router/core", ".pid.router=99999999"],
                true,
                "0 entries in P/router/ directory: no daemon\n\
                 0 messages in P/transport/ directory: never started\n",
            ),
            (
                &[&own],
                false,
                "0 entries in P/router/ directory: non-local\n\
                 0 messages in P/transport/ directory: non-local\n",
            ),
        ];
        for (files, is_local, expected) in cases {
            assert_eq!(status(files, is_local), expected, "{files:?}");
        }
    }
}
