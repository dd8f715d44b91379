//! The accounts of MAILQ version 2, as their file is at the moment.
//!
//! The file is looked at whenever somebody connects or logs in, so that a change needs no signal; it is read
//! only if something about it has changed. It is small, and on the disk of the configuration, so that the
//! loop reads it itself.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use zsched_config::Parameters;
use zsched_format::time::Timestamp;
use zsched_mailq_server::auth_file::{AuthFile, LARGEST};
use zsched_sys::users;

/// Modes that let everybody read, or change, the passwords.
const OPEN_TO_ALL: u32 = 0o006;
/// Modes that let a group do so.
const OPEN_TO_GROUP: u32 = 0o060;
/// A file that was changed so short a time ago, in seconds, is read again each time: a further change may
/// not be told by its times.
const SETTLED_AFTER: i64 = 2;
/// So many complaints about one version of the file are logged.
const MOST_COMPLAINTS: usize = 20;

/// The accounts, and where they come from.
pub struct Accounts {
    path: Option<PathBuf>,
    /// Other hosts may use what is not safe on the way.
    trusts_network: bool,
    known: Option<(Version, Rc<AuthFile>)>,
}

/// What tells one version of a file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Version {
    /// There is one: device and inode, size, times of the last change of contents and of anything.
    There([u64; 2], u64, [i64; 4]),
    /// There is none that could be used, for this reason.
    Unusable(String),
}

impl Accounts {
    /// Those that the configuration says.
    pub fn new(parameters: &Parameters) -> Accounts {
        let trusts_network = parameters.mailq_trust_network;
        Accounts { path: parameters.auth_file.clone(), trusts_network, known: None }
    }

    /// The configuration is another one from now on.
    pub fn change(&mut self, parameters: &Parameters) {
        let (path, trusts) = (&parameters.auth_file, parameters.mailq_trust_network);
        if (path, trusts) != (&self.path, self.trusts_network) {
            *self = Accounts::new(parameters);
        }
    }

    /// Whether other hosts may use what is not safe on the way: passwords that stand in the file, and
    /// version 1.
    pub fn trusts_network(&self) -> bool {
        self.trusts_network
    }

    /// All accounts; none if the file cannot be used. What is wrong is logged once for each version.
    pub fn current(&mut self) -> Rc<AuthFile> {
        let version = self.version();
        let is_new = match &self.known {
            Some((known, accounts)) if *known == version && version.is_settled() => {
                return accounts.clone();
            }
            Some((known, _)) => *known != version,
            None => true,
        };
        let accounts = Rc::new(self.read(&version, is_new));
        self.known = Some((version, accounts.clone()));
        accounts
    }

    fn version(&self) -> Version {
        let Some(path) = &self.path else {
            return Version::Unusable("no PARAMauthfile in the configuration".to_string());
        };
        match fs::metadata(path) {
            Ok(metadata) => version(&metadata),
            Err(error) => Version::Unusable(error.to_string()),
        }
    }

    /// Reads a version of the file. What is wrong with one that `is_new` is logged.
    fn read(&self, version: &Version, is_new: bool) -> AuthFile {
        let path = self.path.as_deref().unwrap_or(Path::new("auth file"));
        let read = match version {
            Version::There(..) => contents(path),
            Version::Unusable(why) => Err(io::Error::other(why.clone())),
        };
        let (accounts, warnings) = match read {
            Ok((text, mut warnings)) => {
                let (mut accounts, complaints) = AuthFile::parse(&text);
                accounts.trust_network(self.trusts_network);
                warnings
                    .extend(complaints.iter().map(|c| format!("line {}: {}", c.line, c.message)));
                (accounts, warnings)
            }
            Err(error) => (AuthFile::default(), vec![no_login(&error)]),
        };
        if is_new {
            warn(path, &warnings);
        }
        accounts
    }
}

impl Version {
    /// Whether any further change will be told by the times.
    fn is_settled(&self) -> bool {
        let now = Timestamp::now().seconds();
        match self {
            Version::There(_, _, [modified, _, changed, _]) => {
                [modified, changed].iter().all(|time| now - **time > SETTLED_AFTER)
            }
            Version::Unusable(_) => true,
        }
    }
}

fn version(metadata: &Metadata) -> Version {
    let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
    Version::There([metadata.dev(), metadata.ino()], metadata.len(), times)
}

/// What follows from a file that cannot be used.
fn no_login(why: &io::Error) -> String {
    format!("{why}; nobody can log in to MAILQ version 2")
}

/// What is wrong with the file as it is: one line, if there is anything.
pub fn fault(path: &Path) -> Option<String> {
    let faults = match contents(path) {
        Ok((_, warnings)) => warnings,
        // MAILQ version 1 is spoken then; the start says so.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => vec![no_login(&error)],
    };
    faults.first().map(|_| format!("{}: warning: {}", path.display(), faults.join("; ")))
}

/// Whether version 2 is to be spoken: where the command line says so, or where there is a file that can be
/// opened for reading. The original decides so, once for each reading of the configuration.
pub fn demand_login(path: Option<&Path>, asked_for: Option<u8>) -> bool {
    match path.map(open) {
        Some(Ok(_)) => true,
        Some(Err(error)) if asked_for != Some(2) => {
            let path = path.unwrap_or(Path::new("")).display();
            log::error!(
                "{path}: {error}; MAILQ version 1 is spoken, which shows the queue without a login"
            );
            false
        }
        _ => asked_for == Some(2),
    }
}

fn open(path: &Path) -> io::Result<File> {
    // A pipe is not waited for.
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// The text of the file, if it may be used; and what is strange about who may read it.
fn contents(path: &Path) -> io::Result<(Vec<u8>, Vec<String>)> {
    let file = open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let (mode, owner) = (metadata.mode() & 0o777, metadata.uid());
    if mode & OPEN_TO_ALL != 0 {
        return Err(io::Error::other(format!(
            "its mode {mode:04o} lets all users of this host see or change the passwords, so it is not used until \
             `chmod 600 {}`",
            path.display()
        )));
    }
    let mut warnings = Vec::new();
    if mode & OPEN_TO_GROUP != 0 {
        warnings.push(format!(
            "its mode {mode:04o} lets a group see or change the passwords, 0600 is right"
        ));
    }
    if ![0, users::effective_user()].contains(&owner) {
        warnings.push(format!("it belongs to user {owner}, who can let himself in"));
    }
    let mut text = Vec::new();
    file.take(LARGEST as u64 + 1).read_to_end(&mut text)?;
    if text.len() > LARGEST {
        return Err(io::Error::other(format!("it is larger than {LARGEST} bytes")));
    }
    Ok((text, warnings))
}

fn warn(path: &Path, warnings: &[String]) {
    let path = path.display();
    warnings.iter().take(MOST_COMPLAINTS).for_each(|warning| log::warn!("{path}: {warning}"));
    if warnings.len() > MOST_COMPLAINTS {
        log::warn!("{path}: and {} more", warnings.len() - MOST_COMPLAINTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use zsched_mailq_server::acl::Peer;

    fn parameters(auth_file: Option<&Path>) -> Parameters {
        Parameters { auth_file: auth_file.map(Path::to_path_buf), ..Parameters::default() }
    }

    fn admits(accounts: &mut Accounts) -> bool {
        accounts.current().admits(&Peer::at([127, 0, 0, 1].into()))
    }

    #[test]
    fn edits_work_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("auth");
        let mut accounts = Accounts::new(&parameters(Some(&path)));
        assert!(!admits(&mut accounts) && !demand_login(Some(&path), Some(1)), "there is none yet");
        let write = |text: &str| {
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        };
        write("root:x:ALL:\n");
        assert!(admits(&mut accounts) && demand_login(Some(&path), Some(1)));
        write("root:x:ALL:[10.0.0.1]\n");
        assert!(!admits(&mut accounts));
        fs::remove_file(&path).expect("removed");
        assert!(!admits(&mut accounts));
        assert!(!admits(&mut Accounts::new(&parameters(None))));
        assert!(demand_login(None, Some(2)) && demand_login(Some(&path), Some(2)));
        assert!(!demand_login(None, None) && !demand_login(Some(&path), None));
    }

    #[test]
    fn a_file_that_everybody_can_read_admits_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("auth");
        fs::write(&path, "root:x:ALL:\n").expect("written");
        let mut accounts = Accounts::new(&parameters(Some(&path)));
        for (mode, expected) in
            [(0o644, false), (0o640, true), (0o602, false), (0o600, true), (0o604, false)]
        {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
            assert_eq!(admits(&mut accounts), expected, "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        let said = fault(&path).expect("something is wrong");
        let mend = format!("it is not used until `chmod 600 {}`", path.display());
        assert!(said.contains("mode 0644") && said.contains(&mend), "{said}");
        assert!(said.ends_with("; nobody can log in to MAILQ version 2"), "{said}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        assert_eq!(fault(&path), None);
        let mut of_folder = Accounts::new(&parameters(Some(folder.path())));
        assert!(!admits(&mut of_folder));
    }

    #[test]
    fn a_large_file_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("auth");
        let mut text = b"root:x:ALL:\n".to_vec();
        text.resize(LARGEST + 1, b'\n');
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        assert!(!admits(&mut Accounts::new(&parameters(Some(&path)))));
    }
}
