//! Handing a message back to the router, for one recipient: as a new submission, to be routed as if
//! it had just come in. Held mail leaves the spool this way.
//!
//! ```text
//! from <alice@example.org>                    envelope, one item a line
//! todsn NOTIFY=DELAY ORCPT=rfc822;bob@example.net
//! to <bob@example.net>
//! env-end
//! Received: ...                               headers and body, as the recipient was to get them
//! ```

use super::{Delivery, Message};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where an agent finds the POSTOFFICE, from the folder it works in.
pub const POSTOFFICE: &str = "..";

/// Writes the submission into `public/`, syncs it, and moves it to `router/`. Returns its number.
///
/// An error means that the router has not got it. Once it can be seen in `router/` it is handed
/// over, whatever else goes wrong: tried again, it would be routed once more.
///
/// It belongs to the owner of the message file, because what a submission may ask of the router
/// depends on whose it is. Only root can arrange that; any other agent submits as itself.
pub fn resubmit(postoffice: &Path, delivery: &Delivery<'_>, message: &Message) -> io::Result<u64> {
    let scratch = Scratch::create(&postoffice.join("public"))?;
    let mut writer = BufWriter::new(&scratch.file);
    writer.write_all(&envelope(delivery))?;
    writer.write_all(delivery.headers())?;
    writer.write_all(b"\n")?;
    io::copy(&mut message.body(), &mut writer)?;
    writer.flush()?;
    drop(writer);
    scratch.give_to(message.owner())?;
    scratch.file.sync_all()?;
    scratch.move_to(&postoffice.join("router"))
}

fn envelope(delivery: &Delivery<'_>) -> Vec<u8> {
    let file = delivery.control_file();
    let mut lines = Vec::new();
    let mut push = |keyword: &str, value: &[u8]| {
        lines.extend_from_slice(keyword.as_bytes());
        lines.extend_from_slice(value);
        lines.push(b'\n');
    };
    if let Some(id) = file.envelope_id {
        push("envid ", file.get(id).trim_ascii());
    }
    if let Some(mode) = file.return_mode {
        push("notaryret ", file.get(mode).trim_ascii());
    }
    match delivery.sender() {
        Some(sender) => push("from ", &in_brackets(sender)),
        None => push("channel error", b""),
    }
    if let Some(wishes) = delivery.notify_line() {
        push("todsn ", wishes.trim_ascii());
    }
    push("to ", &in_brackets(delivery.user()));
    push("env-end", b"");
    lines
}

fn in_brackets(address: &[u8]) -> Vec<u8> {
    [b"<", address, b">"].concat()
}

/// A file in `public/`; the name goes away with this value.
struct Scratch {
    path: PathBuf,
    file: File,
}

impl Scratch {
    fn create(folder: &Path) -> io::Result<Scratch> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("resubmit:{}:{count}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Scratch { path, file })
    }

    fn give_to(&self, (user, group): (u32, u32)) -> io::Result<()> {
        let metadata = self.file.metadata()?;
        if (metadata.uid(), metadata.gid()) == (user, group) {
            return Ok(());
        }
        match fchown(&self.file, Some(user), Some(group)) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
            other => other,
        }
    }

    /// Moves the file into `folder`, under the number of its inode. Nothing there is replaced: the
    /// number is ours alone, but a file under a wrong name may be in the way.
    fn move_to(&self, folder: &Path) -> io::Result<u64> {
        let number = self.file.metadata()?.ino();
        let opened = File::open(folder)?;
        // Unlike a rename, this fails if the name is taken. The old name goes with this value.
        fs::hard_link(&self.path, folder.join(number.to_string()))?;
        // The router has it now. A failure here, and a crash on top of it, could still lose it; to
        // hand it over again and again, as long as the failure lasts, would be worse.
        opened.sync_all().ok();
        Ok(number)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing is lost if it stays: nobody looks for such names in `public/`.
        fs::remove_file(&self.path).ok();
    }
}
