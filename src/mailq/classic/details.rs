//! Message details from the spool: senders, recipients, sizes.

use crate::failure::Failure;
use crate::screen::{quote, warn};
use crate::warnings::Warnings;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use zsched_format::control_file::{self, ControlFile};
use zsched_format::time::Timestamp;
use zsched_spool::{Spool, SpoolName};

/// The control files of a spool. Other programs may remove them at any time.
pub(super) struct ControlFiles<'a> {
    spool: &'a Spool,
    /// Number of files that this user may not read.
    unreadable: u64,
    /// Error text if the spool is missing.
    missing_spool: Option<String>,
    /// Warnings about single files.
    warnings: Warnings,
}

/// A message, and those of its recipients that are in one vertex.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MessageDetails {
    /// Name of the message in logs (its Message-ID).
    pub log_id: Option<Vec<u8>>,
    /// Address for errors, or else the sender.
    pub from: Option<Vec<u8>>,
    /// Address at each offset; `None` if there is no recipient.
    pub to: Vec<Option<Vec<u8>>>,
}

impl<'a> ControlFiles<'a> {
    /// Creates a reader of this spool. Nothing is read yet.
    pub(super) fn new(spool: &'a Spool) -> ControlFiles<'a> {
        ControlFiles { spool, unreadable: 0, missing_spool: None, warnings: Warnings::default() }
    }

    /// User id of the owner of a control file.
    pub(super) fn owner(&mut self, file: &[u8]) -> Option<u32> {
        self.metadata(file, Spool::control_file).map(|metadata| metadata.uid())
    }

    /// Size of a control file, in bytes.
    pub(super) fn control_size(&mut self, file: &[u8]) -> Option<u64> {
        self.metadata(file, Spool::control_file).map(|metadata| metadata.len())
    }

    /// Size in bytes, and age in seconds, of a message file.
    pub(super) fn size_and_age(&mut self, file: &[u8], now: Timestamp) -> Option<(u64, i64)> {
        let metadata = self.metadata(file, Spool::message_file).filter(Metadata::is_file)?;
        let written = Timestamp::from_parts(metadata.mtime(), metadata.mtime_nsec());
        Some((metadata.len(), now.seconds_since(written)))
    }

    fn metadata(
        &mut self,
        file: &[u8],
        path: fn(&Spool, &SpoolName) -> PathBuf,
    ) -> Option<Metadata> {
        let name = self.name(file)?;
        self.existing(fs::symlink_metadata(path(self.spool, &name)))
    }

    /// Reads the sender, and the recipients at these offsets.
    pub(super) fn describe(&mut self, file: &[u8], offsets: &[u32]) -> Option<MessageDetails> {
        let name = self.name(file)?;
        let text = self.existing(read_control_file(self.spool, &name))?;
        match control_file::parse(text) {
            Ok(file) => Some(details(&file, offsets)),
            Err(error) => {
                let path = self.spool.control_file(&name);
                self.warnings.add(|| format!("{}: {error}", path.display()));
                None
            }
        }
    }

    /// Prints what could not be read. Fails if the spool is missing.
    pub(super) fn verdict(&self) -> Result<(), Failure> {
        self.warnings.print();
        if self.unreadable > 0 {
            let (count, folder) = (self.unreadable, self.spool.postoffice().display());
            warn(format_args!("{count} files in {folder} are not readable by this user"));
        }
        match &self.missing_spool {
            Some(why) => Err(Failure::Installation(why.clone())),
            None => Ok(()),
        }
    }

    /// Parses a name from a server. Rejects paths that leave the spool.
    fn name(&mut self, file: &[u8]) -> Option<SpoolName> {
        let name = SpoolName::from_notified(file);
        if name.is_none() {
            self.warnings.add(|| format!("{} is not a spool file name", quote(file)));
        }
        name
    }

    /// The value, if the file could be read.
    ///
    /// A missing file is not reported, since messages leave the queue at any time. A missing spool
    /// is.
    fn existing<T>(&mut self, found: io::Result<T>) -> Option<T> {
        let error = match found {
            Ok(found) => return Some(found),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::NotFound if self.missing_spool.is_none() => {
                let folder = self.spool.transport();
                if let Err(error) = fs::metadata(folder) {
                    let folder = folder.display();
                    self.missing_spool = Some(format!(
                        "{folder}: {error}; option -Z names the ZENV file that says where the \
                         spool is"
                    ));
                }
            }
            ErrorKind::PermissionDenied => self.unreadable += 1,
            ErrorKind::NotFound => {}
            _ => self.warnings.add(|| error.to_string()),
        }
        None
    }
}

/// Reads a control file.
fn read_control_file(spool: &Spool, name: &SpoolName) -> io::Result<Vec<u8>> {
    let path = spool.control_file(name);
    // Opening a FIFO could block forever.
    let metadata = fs::symlink_metadata(&path)?;
    if !metadata.is_file() {
        return Err(ErrorKind::NotFound.into());
    }
    control_file::read_all(&File::open(&path)?, metadata.len())
}

fn details(file: &ControlFile, offsets: &[u32]) -> MessageDetails {
    let user = |offset: &u32| {
        let recipient = file.recipient_at(*offset)?;
        Some(file.get(recipient.quad.user).to_vec())
    };
    MessageDetails {
        log_id: file.log_id.map(|span| file.get(span).to_vec()),
        from: first_error_address(file).or_else(|| first_sender(file)),
        to: offsets.iter().map(user).collect(),
    }
}

/// The last `e` line before the first sender.
///
/// Later ones apply to the recipients after them.
fn first_error_address(file: &ControlFile) -> Option<Vec<u8>> {
    let end = file.senders.first().map_or(file.text.len(), |sender| sender.offset as usize);
    let lines = file.text[..end].split(|byte| *byte == b'\n');
    lines.filter_map(|line| line.strip_prefix(b"e ")).next_back().map(<[u8]>::to_vec)
}

fn first_sender(file: &ControlFile) -> Option<Vec<u8>> {
    let sender = file.senders.first()?;
    Some(file.get(sender.quad.user).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTROL: &str = "@ 0x00000007\ni 10\no 5\nl <1@x>\ne <a@x>\ne x!a\ns local a x!a 0\n\
        r           smtp h u1@h 0\nr+          smtp h \"u 2\"@h 0\ne b@x\ns local b b@x 0\n\
        r           smtp h u3@h 0\nm\n\n";

    fn offset(of: &str) -> u32 {
        CONTROL.find(of).expect("it is there") as u32
    }

    #[test]
    fn describe_reads_addresses_from_control_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("folders");
        fs::write(spool.transport().join("10"), CONTROL).expect("written");
        fs::write(spool.queue().join("10"), "12345").expect("written");
        fs::write(spool.transport().join("11"), "nonsense").expect("written");
        let mut files = ControlFiles::new(&spool);
        let details =
            files.describe(b"10", &[offset("r           smtp h u3"), offset("r+"), 3, u32::MAX]);
        let expected = MessageDetails {
            log_id: Some(b"<1@x>".to_vec()),
            from: Some(b"x!a".to_vec()),
            to: vec![Some(b"u3@h".to_vec()), Some(b"\"u 2\"@h".to_vec()), None, None],
        };
        assert_eq!(details, Some(expected));
        let without_address = CONTROL.replace("e <a@x>\n", "").replace("e x!a\n", "");
        fs::write(spool.transport().join("13"), without_address).expect("written");
        let details = files.describe(b"13", &[]).expect("a good file");
        assert_eq!(details.from.as_deref(), Some(&b"x!a"[..]));
        let later = Timestamp::now() + std::time::Duration::from_secs(3600);
        let (size, age) = files.size_and_age(b"10", later).expect("there is a message");
        assert_eq!(size, 5);
        assert!((3590..3700).contains(&age), "{age}");
        assert_eq!(files.owner(b"10"), Some(zsched_sys::users::effective_user()));
        for file in ["11", "12", "../transport/10", "/etc/passwd", ""] {
            assert_eq!(files.describe(file.as_bytes(), &[1]), None, "{file}");
        }
        assert_eq!((files.owner(b"12"), files.size_and_age(b"12", later)), (None, None));
        assert_eq!(files.warnings.count(), 4);
        assert!(files.verdict().is_ok());
    }

    #[test]
    fn verdict_without_spool_fails() {
        let spool = Spool::new("/no/such/folder");
        let mut files = ControlFiles::new(&spool);
        assert!(files.verdict().is_ok());
        assert_eq!(files.owner(b"10"), None);
        assert_eq!(files.verdict().expect_err("there is no spool").status(), 72);
    }
}
