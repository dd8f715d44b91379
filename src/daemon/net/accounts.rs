//! Accounts of MAILQ version 2, as their file is now.
//!
//! The file is examined at each connection and login, so that a change needs no signal. It is read
//! only if its version has changed. The file is small and on the disk of the configuration, so the
//! loop reads it.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use zsched_config::Parameters;
use zsched_format::time::Timestamp;
use zsched_mailq_server::auth_file::{AuthFile, MAX_FILE_SIZE};
use zsched_sys::users;

/// Mode bits that allow all users to read or change the passwords.
const OPEN_TO_ALL: u32 = 0o006;
/// Mode bits that allow a group to do so.
const OPEN_TO_GROUP: u32 = 0o060;
/// Minimum age of a change whose version is trusted, in seconds.
///
/// A file changed more recently is read again each time, since its times may hide a further change.
const MIN_SETTLED_AGE: i64 = 2;
/// Maximum number of warnings logged about one version of the file.
const MAX_LOGGED_WARNINGS: usize = 20;

/// Accounts, and the location of their file.
pub(crate) struct Accounts {
    path: Option<PathBuf>,
    /// True if other hosts may use methods that are unsafe over a network.
    ///
    /// These are plain-text passwords in the file, and MAILQ version 1.
    pub trusts_network: bool,
    known: Option<(FileVersion, Rc<AuthFile>)>,
}

/// Identity of a version of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FileVersion {
    /// File that exists: device and inode, size, mtime and ctime.
    Present([u64; 2], u64, [i64; 4]),
    /// Unusable file, with the reason.
    Unusable(String),
}

impl Accounts {
    /// Creates the accounts for a configuration.
    pub(crate) fn new(parameters: &Parameters) -> Accounts {
        let trusts_network = parameters.mailq_trust_network;
        Accounts { path: parameters.auth_file.clone(), trusts_network, known: None }
    }

    /// Applies a new configuration.
    pub(crate) fn reconfigure(&mut self, parameters: &Parameters) {
        let (path, trusts) = (&parameters.auth_file, parameters.mailq_trust_network);
        if (path, trusts) != (&self.path, self.trusts_network) {
            *self = Accounts::new(parameters);
        }
    }

    /// Returns all accounts, or none if the file cannot be used. Logs its faults once per version.
    pub(crate) fn current(&mut self) -> Rc<AuthFile> {
        let version = self.version();
        let is_new = match &self.known {
            Some((known, accounts)) if *known == version && version.is_complete() => {
                return accounts.clone();
            }
            Some((known, _)) => *known != version,
            None => true,
        };
        let accounts = Rc::new(self.read(&version, is_new));
        self.known = Some((version, accounts.clone()));
        accounts
    }

    fn version(&self) -> FileVersion {
        let Some(path) = &self.path else {
            return FileVersion::Unusable("no PARAMauthfile in the configuration".to_string());
        };
        match fs::metadata(path) {
            Ok(metadata) => version(&metadata),
            Err(error) => FileVersion::Unusable(error.to_string()),
        }
    }

    /// Reads a version of the file. Logs its faults if `is_new`.
    fn read(&self, version: &FileVersion, is_new: bool) -> AuthFile {
        let path = self.path.as_deref().unwrap_or(Path::new("auth file"));
        let read = match version {
            FileVersion::Present(..) => contents(path),
            FileVersion::Unusable(why) => Err(io::Error::other(why.clone())),
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

impl FileVersion {
    /// Returns true if the times of the file would reveal any further change.
    fn is_complete(&self) -> bool {
        let now = Timestamp::now().seconds();
        match self {
            FileVersion::Present(_, _, [modified, _, changed, _]) => {
                [modified, changed].iter().all(|time| now - **time > MIN_SETTLED_AGE)
            }
            FileVersion::Unusable(_) => true,
        }
    }
}

fn version(metadata: &Metadata) -> FileVersion {
    let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
    FileVersion::Present([metadata.dev(), metadata.ino()], metadata.len(), times)
}

/// Warning for a file that cannot be used.
fn no_login(why: &io::Error) -> String {
    format!("{why}; no client can log in to MAILQ version 2")
}

/// Faults of the file in its present state, in one line.
pub(crate) fn warning(path: &Path) -> Option<String> {
    let faults = match contents(path) {
        Ok((_, warnings)) => warnings,
        // Then MAILQ version 1 is spoken, and the start logs that.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => vec![no_login(&error)],
    };
    faults.first().map(|_| format!("{}: warning: {}", path.display(), faults.join("; ")))
}

/// Returns true if MAILQ version 2 is to be spoken.
///
/// That is so if the command line requests it, or if the auth file can be opened for reading.
/// ZMailer's scheduler decides this in the same way, once per reading of the configuration.
pub(crate) fn needs_version_2(path: Option<&Path>, asked_for: Option<u8>) -> bool {
    match path.map(open) {
        Some(Ok(_)) => true,
        Some(Err(error)) if asked_for != Some(2) => {
            let path = path.unwrap_or(Path::new("")).display();
            log::error!(
                "{path}: {error}; using MAILQ version 1, which shows the queue without a login"
            );
            false
        }
        _ => asked_for == Some(2),
    }
}

fn open(path: &Path) -> io::Result<File> {
    // `O_NONBLOCK`: opening a pipe must not wait for a writer.
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Text of the file, and warnings about its permissions. Fails if all users can read or change it.
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
        warnings.push(format!("it belongs to user {owner}, who can add accounts"));
    }
    let mut text = Vec::new();
    file.take(MAX_FILE_SIZE as u64 + 1).read_to_end(&mut text)?;
    if text.len() > MAX_FILE_SIZE {
        return Err(io::Error::other(format!("it is larger than {MAX_FILE_SIZE} bytes")));
    }
    Ok((text, warnings))
}

fn warn(path: &Path, warnings: &[String]) {
    let path = path.display();
    warnings.iter().take(MAX_LOGGED_WARNINGS).for_each(|warning| log::warn!("{path}: {warning}"));
    if warnings.len() > MAX_LOGGED_WARNINGS {
        log::warn!("{path}: and {} more", warnings.len() - MAX_LOGGED_WARNINGS);
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
    fn auth_file_edited_takes_effect_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("auth");
        let mut accounts = Accounts::new(&parameters(Some(&path)));
        assert!(
            !admits(&mut accounts) && !needs_version_2(Some(&path), Some(1)),
            "there is none yet"
        );
        let write = |text: &str| {
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        };
        write("root:x:ALL:\n");
        assert!(admits(&mut accounts) && needs_version_2(Some(&path), Some(1)));
        write("root:x:ALL:[10.0.0.1]\n");
        assert!(!admits(&mut accounts));
        fs::remove_file(&path).expect("removed");
        assert!(!admits(&mut accounts));
        assert!(!admits(&mut Accounts::new(&parameters(None))));
        assert!(needs_version_2(None, Some(2)) && needs_version_2(Some(&path), Some(2)));
        assert!(!needs_version_2(None, None) && !needs_version_2(Some(&path), None));
    }

    #[test]
    fn auth_file_open_to_all_admits_no_login() {
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
        let said = warning(&path).expect("something is wrong");
        let mend = format!("it is not used until `chmod 600 {}`", path.display());
        assert!(said.contains("mode 0644") && said.contains(&mend), "{said}");
        assert!(said.ends_with("; no client can log in to MAILQ version 2"), "{said}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        assert_eq!(warning(&path), None);
        let mut of_folder = Accounts::new(&parameters(Some(folder.path())));
        assert!(!admits(&mut of_folder));
    }

    #[test]
    fn auth_file_too_large_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("auth");
        let mut text = b"root:x:ALL:\n".to_vec();
        text.resize(MAX_FILE_SIZE + 1, b'\n');
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        assert!(!admits(&mut Accounts::new(&parameters(Some(&path)))));
    }
}
