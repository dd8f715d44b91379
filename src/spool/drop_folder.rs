//! Takes messages of `enqueue` out of the drop folder: each gets a control file, and goes to the
//! agents of the channel `list`.
//!
//! A file of the folder begins with `host` and `from`, and an empty line; the message follows. Its
//! name is the number of its inode, once it is complete. It becomes the message file itself, in the
//! steps of [`accept`](super::accept): a crash between any two of them loses nothing and takes
//! nothing twice.
//!
//! Its writers are not to be trusted. Only the group of the folder can put files there, and that is
//! the group that `enqueue` lends. All the same each file is checked: it must be a regular file
//! with one name, of the group of the folder, with headers of bounded length, and with such a
//! beginning as `enqueue` writes. What is wrong for good goes to `postman/`.

use super::accept::{AcceptError, RoutedSubmission};
use super::submit::Submitter;
use super::{SpoolName, move_aside};
use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::time::{Duration, SystemTime};
use zsched_format::control_file::compose::{Address, ControlFileDraft, Group, Recipient};
use zsched_format::header::Field;
use zsched_sys as sys;

/// The group of the folder and of the program `enqueue`.
pub const DROP_GROUP: &str = "zdrop";
/// The channel of the messages.
const CHANNEL: &str = "list";
/// Maximum number of messages that are taken together, with shared syncs.
const MAX_BATCH: usize = 64;
/// Maximum number of files that are listed at a time.
const MAX_LISTED: usize = 10_000;
/// Maximum length of the lines `host` and `from`, in bytes.
const MAX_LINE_LEN: u64 = 2048;
/// Maximum length of the headers of a message, in bytes, as in the router.
const MAX_HEADERS_LEN: u64 = 1 << 20;
/// Time after which an incomplete file is removed. Its writer is gone.
const MAX_INCOMPLETE_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Time in the folder after which a message should have been taken.
const MAX_WAIT: Duration = Duration::from_secs(600);
/// What the name of an incomplete file begins with.
const INCOMPLETE: &str = "new:";

/// Takes messages from the drop folder of a spool.
#[derive(Debug)]
pub struct DropFolder {
    submitter: Submitter,
    /// Number of failures of each file that is still there.
    failures: HashMap<String, u32>,
}

/// What was done in one pass.
#[derive(Debug, Default)]
pub struct Taken {
    /// Messages that are in the spool now.
    pub queued: Vec<SpoolName>,
    /// What the log should say, with true for each line that is an error.
    pub log: Vec<(bool, String)>,
    /// True if there may be more.
    pub has_more: bool,
}

/// Why a file is not taken.
enum Obstacle {
    /// It is gone.
    Gone,
    /// Try again later.
    Wait(String),
    /// It never can be.
    Unusable(String),
}

impl From<io::Error> for Obstacle {
    fn from(error: io::Error) -> Obstacle {
        match error.kind() {
            ErrorKind::NotFound => Obstacle::Gone,
            ErrorKind::InvalidData => Obstacle::Unusable(error.to_string()),
            _ => Obstacle::Wait(error.to_string()),
        }
    }
}

/// Gives a new drop folder to the group of `enqueue`, where this process may.
pub(super) fn give_to_group(folder: &Path) -> io::Result<()> {
    let Some(group) = sys::users::group_id(DROP_GROUP)? else { return Ok(()) };
    match chown(folder, None, Some(group)) {
        Ok(()) => {
            // Changing the group may have cleared the set-gid bit.
            let mode =
                std::os::unix::fs::PermissionsExt::from_mode(super::folder::DROP_FOLDER_MODE);
            fs::set_permissions(folder, mode)
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
}

impl DropFolder {
    /// Creates the state for the spool of `submitter`.
    pub fn new(submitter: Submitter) -> DropFolder {
        DropFolder { submitter, failures: HashMap::new() }
    }

    /// Takes up to a batch of messages. Errors are those of listing the folder.
    pub fn take(&mut self) -> io::Result<Taken> {
        let folder = self.submitter.spool.drop_folder();
        let group = fs::metadata(&folder)?.gid();
        let (mut names, mut taken) = (Vec::new(), Taken::default());
        for entry in fs::read_dir(&folder)?.take(MAX_LISTED) {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(INCOMPLETE) {
                remove_if_old(&entry.path());
            } else if is_number(&name) {
                names.push(name);
            }
        }
        self.failures.retain(|name, _| names.contains(name));
        // Those that have failed come last, so that they are in nothing's way.
        names.sort_by_key(|name| self.failures.get(name).copied().unwrap_or(0));
        taken.has_more = names.iter().skip(MAX_BATCH).any(|name| !self.failures.contains_key(name));
        names.truncate(MAX_BATCH);
        let (mut files, mut of_files) = (Vec::new(), Vec::new());
        for name in names {
            match self.read(&folder.join(&name), group) {
                Ok((submission, summary)) => {
                    files.push(submission);
                    of_files.push((name, summary));
                }
                Err(obstacle) => self.stop(name, obstacle, &mut taken),
            }
        }
        for ((name, summary), result) in of_files.into_iter().zip(self.submitter.accept(files)) {
            match result {
                Ok(queued) => {
                    taken.log.push((false, format!("drop/{name}: queued as {queued}, {summary}")));
                    taken.queued.push(queued);
                }
                Err(AcceptError::NotTaken(error)) if error.kind() == ErrorKind::InvalidInput => {
                    self.stop(name, Obstacle::Unusable(error.to_string()), &mut taken);
                }
                Err(AcceptError::NotTaken(error)) => self.stop(name, error.into(), &mut taken),
                Err(AcceptError::Unfinished(error)) => {
                    taken.log.push((true, format!("drop/{name}: {error}")));
                }
            }
        }
        Ok(taken)
    }

    fn read(&self, path: &Path, group: u32) -> Result<(RoutedSubmission, String), Obstacle> {
        let file = sys::open_regular(File::options().read(true), path)?;
        let metadata = file.metadata()?;
        check_owner(&metadata, group)?;
        if metadata.nlink() != 1 {
            if self.submitter.has_accepted(&file)? {
                fs::remove_file(path)?;
                return Err(Obstacle::Gone);
            }
            let queued = self.submitter.name_of(metadata.ino());
            let queued = self.submitter.spool.message_file(&queued);
            if sys::if_exists(sys::is_name_of(&queued, &file))? != Some(true) {
                return Err(Obstacle::Wait("it has several names".to_string()));
            }
        }
        let draft = read_draft(&file, metadata.uid())?;
        let summary = format!(
            "message-id={} from={} uid={} size={} host={}",
            draft.log_id,
            draft.error_address.as_deref().unwrap_or("<>"),
            metadata.uid(),
            metadata.len(),
            draft.groups[0].recipients[0].address.host,
        );
        Ok((RoutedSubmission { path: path.to_path_buf(), file, draft }, summary))
    }

    /// Leaves a file where it is for some time, or moves it to `postman/`.
    fn stop(&mut self, name: String, obstacle: Obstacle, taken: &mut Taken) {
        let spool = &self.submitter.spool;
        let why = match obstacle {
            Obstacle::Gone => return,
            Obstacle::Wait(why) => why,
            Obstacle::Unusable(why) => {
                let path = spool.drop_folder().join(&name);
                match move_aside::move_submission_aside(spool, &path, &name, &why) {
                    Ok(moved) => {
                        let line = format!("drop/{name}: {why}; moved to {}", moved.display());
                        return taken.log.push((true, line));
                    }
                    Err(error) => format!("{why}; it cannot be moved to postman: {error}"),
                }
            }
        };
        let failures = self.failures.entry(name.clone()).or_insert(0);
        if *failures == 0 {
            taken.log.push((true, format!("drop/{name}: {why}; it is tried again")));
        }
        *failures += 1;
    }
}

/// Sentences about a drop folder whose rights are wrong, or whose messages are not taken.
///
/// A spool without the folder has none. What this user may not see is left out.
pub fn problems(spool: &super::Spool) -> Vec<String> {
    let folder = spool.drop_folder();
    let Ok(metadata) = fs::symlink_metadata(&folder) else { return Vec::new() };
    let mut problems = Vec::new();
    let mode = metadata.mode() & 0o7777;
    let wanted = super::folder::DROP_FOLDER_MODE;
    if mode & 0o007 != 0 || mode & 0o030 != 0o030 {
        problems.push(format!("drop/ has mode {mode:o}, and is to have {wanted:o}"));
    }
    let group = sys::users::group_id(DROP_GROUP).ok().flatten();
    if group.is_some_and(|group| group != metadata.gid()) {
        problems.push(format!("drop/ does not belong to the group {DROP_GROUP} of enqueue"));
    }
    if let Ok(socket) = fs::symlink_metadata(spool.poke_socket()) {
        let mode = socket.mode() & 0o777;
        if mode & 0o007 != 0 || mode & 0o020 == 0 || socket.gid() != metadata.gid() {
            problems.push("enqueue cannot use .scheduler.poke: mode 220, group of drop/".into());
        }
    }
    let waiting = fs::read_dir(&folder).into_iter().flatten().flatten().take(MAX_LISTED);
    let waiting = waiting.filter(|entry| is_number(&entry.file_name().to_string_lossy()));
    let is_late = |entry: &fs::DirEntry| {
        let changed = entry.metadata().and_then(|metadata| metadata.modified());
        changed.is_ok_and(|time| time.elapsed().is_ok_and(|age| age >= MAX_WAIT))
    };
    match waiting.filter(is_late).count() {
        0 => {}
        count => {
            problems.push(format!("{count} in drop/ for more than 10m: the log has the reason"))
        }
    }
    problems
}

/// Checks that a file was written by `enqueue`, and not put there otherwise.
fn check_owner(metadata: &Metadata, group: u32) -> Result<(), Obstacle> {
    let is_ours = metadata.gid() == group || metadata.uid() == sys::users::effective_user();
    if !is_ours {
        return Err(Obstacle::Unusable("its group is not that of the folder".to_string()));
    }
    if metadata.mode() & 0o002 != 0 {
        return Err(Obstacle::Unusable("all users may write to it".to_string()));
    }
    Ok(())
}

/// Reads the beginning of a file up to the body.
fn read_draft(file: &File, owner: u32) -> io::Result<ControlFileDraft> {
    let mut reader = BufReader::new(file);
    let host = field(&mut reader, "host ")?;
    let sender = field(&mut reader, "from ")?;
    let mut offset = "host \nfrom \n\n".len() + host.len() + sender.len();
    if line(&mut reader, MAX_LINE_LEN)? != b"\n" {
        return Err(malformed("its beginning has no end"));
    }
    let (address, host) = address_of(&host)?;
    let (mut headers, mut log_id) = (Vec::new(), String::new());
    let mut fields: Vec<Field> = Vec::new();
    loop {
        let line = line(&mut reader, MAX_HEADERS_LEN)?;
        match (line.first(), fields.last_mut()) {
            (Some(b'\n'), _) => {
                offset += 1;
                break;
            }
            (Some(b' ' | b'\t'), Some(field)) => field.fold(&line),
            (Some(_), _) if Field::begin(&line).is_some() => fields.extend(Field::begin(&line)),
            // The body begins, or the file ends.
            _ => break,
        }
        offset += line.len();
        if offset as u64 > MAX_HEADERS_LEN {
            return Err(malformed("its headers are too long"));
        }
    }
    for field in &fields {
        headers.extend_from_slice(field.lines());
        if field.is("Message-ID") && log_id.is_empty() {
            let text = String::from_utf8_lossy(field.value());
            log_id = text.chars().filter(|c| !c.is_control() && !c.is_whitespace()).collect();
        }
    }
    let privilege = i64::from(owner);
    let (error_address, sender) = match sender.as_str() {
        "<>" => (None, Address::new("error", "<>", "<>", privilege)),
        text => (Some(text.to_string()), Address::new("smtp", "", text, privilege)),
    };
    let to = Address::new(CHANNEL, &host, &address, privilege);
    Ok(ControlFileDraft {
        // A file may end in its headers without a line end.
        body_offset: (offset as u64).min(file.metadata()?.len()),
        log_id,
        error_address: error_address.clone(),
        groups: vec![Group {
            error_address,
            sender,
            recipients: vec![Recipient { address: to, ..Recipient::default() }],
            headers,
            ..Group::default()
        }],
        ..ControlFileDraft::default()
    })
}

/// The address of a list for reports, and the host in lower case.
fn address_of(host: &str) -> io::Result<(String, String)> {
    let names: Vec<&str> = host.split('/').collect();
    let is_name = |name: &&str| !name.is_empty() && !name.starts_with('.');
    let [domain, list, function] = names[..] else {
        return Err(malformed("its host is not domain/list/function"));
    };
    if !names.iter().all(is_name) {
        return Err(malformed("its host is not domain/list/function"));
    }
    let user = match (list, function) {
        ("-", function) => function.to_string(),
        (list, "list") => list.to_string(),
        (list, function) => format!("{list}-{function}"),
    };
    Ok((format!("{user}@{domain}"), host.to_lowercase()))
}

fn field(reader: &mut impl BufRead, name: &str) -> io::Result<String> {
    let line = line(reader, MAX_LINE_LEN)?;
    let value = line.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_suffix(b"\n"));
    let value = value.and_then(|value| std::str::from_utf8(value).ok());
    let is_word = |text: &&str| {
        !text.is_empty() && !text.contains(|c: char| c.is_control() || c.is_whitespace())
    };
    let value = value.filter(is_word).ok_or_else(|| malformed("its beginning is malformed"))?;
    Ok(value.to_string())
}

fn line(reader: &mut impl BufRead, max_len: u64) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let count = reader.take(max_len).read_until(b'\n', &mut line)?;
    match count as u64 == max_len && !line.ends_with(b"\n") {
        true => Err(malformed("a line is too long")),
        false => Ok(line),
    }
}

fn malformed(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

fn is_number(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit())
}

fn remove_if_old(path: &Path) {
    let modified = path.symlink_metadata().and_then(|metadata| metadata.modified()).ok();
    let age = modified.and_then(|time| SystemTime::now().duration_since(time).ok());
    if age.is_some_and(|age| age >= MAX_INCOMPLETE_AGE) {
        // A failure is repeated, and changes nothing but the age.
        fs::remove_file(path).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HashLevel, Spool};
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn folder() -> (tempfile::TempDir, DropFolder) {
        let root = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(root.path());
        spool.create().expect("a spool");
        let submitter = Submitter { spool, level: HashLevel::Flat, sync: true };
        (root, DropFolder::new(submitter))
    }

    /// Puts a file into the drop folder as `enqueue` does. Returns its name.
    fn put(root: &Path, text: &[u8]) -> String {
        let path = root.join("drop/new:1:0");
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
        let name = fs::metadata(&path).expect("a file").ino().to_string();
        fs::rename(&path, root.join("drop").join(&name)).expect("renamed");
        name
    }

    fn names(root: &Path, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten();
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn message_is_queued_for_its_list() {
        let (root, mut folder) = folder();
        let text = b"host X.test/talk/owner\nfrom a@b\n\nSubject: hi\n  there\nMessage-ID: <1@x>\n\nbody\n";
        let name = put(root.path(), text);
        let taken = folder.take().expect("listed");
        assert_eq!(taken.queued.iter().map(SpoolName::path).collect::<Vec<_>>(), [name.as_str()]);
        let control = fs::read_to_string(root.path().join("transport").join(&name)).expect("there");
        assert!(control.contains(" list x.test/talk/owner talk-owner@X.test "), "{control}");
        assert!(control.contains("\nl <1@x>\n") && control.contains("Subject: hi\n  there\n"));
        let offset = text.len() - "body\n".len();
        assert!(control.contains(&format!("\no {offset}\n")), "{control}");
        assert_eq!(fs::read(root.path().join("queue").join(&name)).expect("there"), text);
        assert_eq!(names(root.path(), "drop"), [""; 0]);
    }

    #[test]
    fn message_without_headers_or_body_is_taken() {
        for text in ["", "Subject: x", "Subject: x\n", "no header\nmore\n", "\n", "\n\n"] {
            let (root, mut folder) = folder();
            put(root.path(), format!("host x/l/list\nfrom <>\n\n{text}").as_bytes());
            let taken = folder.take().expect("listed");
            assert_eq!((taken.queued.len(), names(root.path(), "drop").len()), (1, 0), "{text:?}");
        }
    }

    #[test]
    fn malformed_files_go_to_postman() {
        for text in [
            &b""[..],
            b"from a@b\n\nx\n",
            b"host x/l/list\nfrom a@b\nSubject: x\n\n",
            b"host x/l\nfrom a@b\n\n",
            b"host x/../list\nfrom a@b\n\n",
            b"host x/l/list\nfrom a b\n\n",
            b"host \xff/l/list\nfrom a\n\n",
        ] {
            let (root, mut folder) = folder();
            put(root.path(), text);
            let taken = folder.take().expect("listed");
            assert_eq!(taken.queued, [], "{text:?}");
            assert!(taken.log[0].1.contains("moved to"), "{:?}", taken.log);
            assert_eq!(names(root.path(), "drop"), [""; 0]);
            assert!(!names(root.path(), "postman").is_empty());
        }
    }

    #[test]
    fn only_complete_regular_files_of_the_group_are_taken() {
        let (root, mut folder) = folder();
        let drop = root.path().join("drop");
        let text = "host x/l/list\nfrom <>\n\nx\n";
        fs::write(drop.join("new:1:1"), text).expect("written");
        fs::write(root.path().join("secret"), text).expect("written");
        symlink(root.path().join("secret"), drop.join("11")).expect("a link");
        fs::hard_link(root.path().join("secret"), drop.join("12")).expect("a link");
        fs::create_dir(drop.join("13")).expect("a folder");
        fs::write(drop.join("0x"), text).expect("written");
        let taken = folder.take().expect("listed");
        assert_eq!(taken.queued, []);
        assert_eq!(names(root.path(), "drop").len(), 5, "nothing is removed");
        // What stays there stops nothing, and is logged once.
        let name = put(root.path(), text.as_bytes());
        let again = folder.take().expect("listed");
        assert_eq!(again.queued.iter().map(SpoolName::path).collect::<Vec<_>>(), [name]);
        assert_eq!(again.log.len(), 1, "{:?}", again.log);
    }

    #[test]
    fn wrong_rights_are_problems() {
        let (root, _) = folder();
        let spool = Spool::new(root.path());
        assert_eq!(problems(&spool), [""; 0]);
        for mode in [0o3777, 0o3731, 0o2700] {
            fs::set_permissions(spool.drop_folder(), fs::Permissions::from_mode(mode))
                .expect("set");
            assert_eq!(problems(&spool), [format!("drop/ has mode {mode:o}, and is to have 3730")]);
        }
        fs::remove_dir(spool.drop_folder()).expect("removed");
        assert_eq!(problems(&spool), [""; 0], "it need not exist");
    }

    #[test]
    fn many_messages_are_taken_in_batches() {
        let (root, mut folder) = folder();
        for _ in 0..MAX_BATCH + 3 {
            put(root.path(), b"host x/l/list\nfrom <>\n\nx\n");
        }
        let first = folder.take().expect("listed");
        assert_eq!((first.queued.len(), first.has_more), (MAX_BATCH, true));
        let second = folder.take().expect("listed");
        assert_eq!((second.queued.len(), second.has_more), (3, false));
    }
}
