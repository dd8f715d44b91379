//! Handing a message to the scheduler, the way a router does.
//!
//! The message file gets its inode number as its name; the control file is written under a hidden
//! name and synced, the message is renamed into `queue/`, and only then does the control file get
//! its name. At each moment a crash leaves either nothing visible, or a complete message.

use super::{HashFolder, HashLevel, Spool, SpoolName};
use crate::control_file::compose::{Draft, Group};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Puts messages into one spool.
#[derive(Clone, Debug)]
pub struct Submitter {
    /// The spool they go into.
    pub spool: Spool,
    /// How its folders are nested; must be what the scheduler has.
    pub level: HashLevel,
    /// Sync files and folders, so that an accepted message survives a power cut.
    pub sync: bool,
}

impl Submitter {
    /// Puts `message` (headers, empty line, body) into the spool for the recipients in `groups`.
    /// Returns its name, which tells its number.
    pub fn submit(
        &self,
        message: &[u8],
        log_id: &str,
        groups: Vec<Group>,
    ) -> io::Result<SpoolName> {
        let scratch = self.scratch_file("message");
        let number = self.write(&scratch, message)?.ino();
        let name =
            SpoolName::new(HashFolder::of(number, self.level), number.to_string().as_bytes())
                .expect("an inode number is a name");
        let draft = Draft {
            name: name.base(),
            body_offset: body_offset(message) as u64,
            log_id: log_id.to_string(),
            groups,
        };
        let folder = name.folder().to_string();
        let control_folder = self.spool.transport().join(&folder);
        let message_folder = self.spool.queue().join(&folder);
        for folder in [&control_folder, &message_folder] {
            fs::create_dir_all(folder)?;
        }
        let hidden = control_folder.join(format!(".{}", name.base()));
        self.write(&hidden, draft.to_text().as_bytes())?;
        fs::rename(&scratch, self.spool.message_file(&name))?;
        self.sync_folder(&message_folder)?;
        fs::rename(&hidden, self.spool.control_file(&name))?;
        self.sync_folder(&control_folder)?;
        Ok(name)
    }

    /// Tells a running scheduler about a message, so that it need not wait for its next scan. Nobody
    /// listening is no error: the scan will find it.
    pub fn notify(&self, socket: &Path, name: &SpoolName) -> io::Result<()> {
        let sender = UnixDatagram::unbound()?;
        sender.set_nonblocking(true)?;
        match sender.send_to(format!("NEW {name}").as_bytes(), socket) {
            Err(error) if is_absent(&error) => Ok(()),
            other => other.map(drop),
        }
    }

    fn scratch_file(&self, what: &str) -> std::path::PathBuf {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{what}:{}:{count}", std::process::id());
        self.spool.postoffice().join("public").join(name)
    }

    fn write(&self, path: &Path, contents: &[u8]) -> io::Result<fs::Metadata> {
        let mut file = File::create_new(path)?;
        file.write_all(contents)?;
        if self.sync {
            file.sync_all()?;
        }
        file.metadata()
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        if self.sync { File::open(folder)?.sync_all() } else { Ok(()) }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock
    )
}

/// Offset of the body: behind the first empty line.
fn body_offset(message: &[u8]) -> usize {
    memchr::memmem::find(message, b"\n\n").map_or(message.len(), |at| at + 2)
}
