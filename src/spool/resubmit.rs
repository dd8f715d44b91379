//! Hands mail back to the router, which routes it like new mail.
//!
//! Held mail leaves the spool this way, and so does mail that an operator has rerouted.
//!
//! ```text
//! from <alice@example.org>                    envelope, one item a line
//! todsn NOTIFY=DELAY ORCPT=rfc822;bob@example.net
//! to <bob@example.net>
//! env-end
//! Received: ...                               headers and body, as the recipients were to get them
//! ```

use super::submission_file::{move_to_router, share_with_router};
use super::temp_file::TempFile;
use super::{HashLevel, Spool};
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;
use zsched_format::spool_id::SpoolId;
use zsched_format::time::Timestamp;

/// The contents of a submission.
pub struct Submission<'a> {
    /// Envelope id (`ENVID`), in xtext.
    pub envelope_id: Option<&'a [u8]>,
    /// `FULL` or `HDRS` (`RET`).
    pub return_mode: Option<&'a [u8]>,
    /// The envelope sender; `None` is the null sender.
    pub sender: Option<&'a [u8]>,
    /// The recipients: the value of the `N` line, and the address.
    pub recipients: Vec<(Option<&'a [u8]>, &'a [u8])>,
    /// The headers, each line with its line end.
    pub headers: &'a [u8],
}

impl Submission<'_> {
    /// Writes the submission into `public/`, syncs it, and moves it to `router/`. Returns its
    /// number.
    ///
    /// An error means that the router has not got it. Once it is visible in `router/` it is handed
    /// over, and later errors are ignored, since a retry would route it again.
    ///
    /// The submission should belong to `owner`, the user and group of the message file, because its
    /// rights depend on its owner. Only root can change the owner; other users submit as
    /// themselves.
    pub fn hand_over(
        &self,
        postoffice: &Path,
        body: &mut impl Read,
        owner: (u32, u32),
    ) -> io::Result<u64> {
        let spool = Spool::new(postoffice);
        let scratch = TempFile::create_in(&spool.public(), "resubmit")?;
        self.write_to(scratch.file(), body, owner)?;
        publish(&spool, scratch)
    }

    /// Writes the submission into a file, sets its owner, and syncs it.
    pub(super) fn write_to(
        &self,
        file: &File,
        body: &mut impl Read,
        owner: (u32, u32),
    ) -> io::Result<()> {
        let mut writer = BufWriter::new(file);
        writer.write_all(&self.envelope())?;
        writer.write_all(self.headers)?;
        writer.write_all(b"\n")?;
        io::copy(body, &mut writer)?;
        writer.flush()?;
        drop(writer);
        change_owner(file, owner)?;
        file.sync_all()
    }

    fn envelope(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        let mut push = |keyword: &str, value: &[u8]| {
            lines.extend_from_slice(keyword.as_bytes());
            lines.extend_from_slice(value);
            lines.push(b'\n');
        };
        self.envelope_id.into_iter().for_each(|id| push("envid ", id));
        self.return_mode.into_iter().for_each(|mode| push("notaryret ", mode));
        match self.sender {
            Some(sender) => push("from ", &in_brackets(sender)),
            None => push("channel error", b""),
        }
        for (parameters, address) in &self.recipients {
            if let Some(parameters) = parameters {
                push("todsn ", parameters.trim_ascii());
            }
            push("to ", &in_brackets(address));
        }
        push("env-end", b"");
        lines
    }
}

/// Hands a complete submission over: writes it into `public/`, syncs it, and moves it to `router/`.
///
/// Returns its spool id. An error means that the router has not got it.
pub fn hand_over_text(postoffice: &Path, submission: &[u8]) -> io::Result<SpoolId> {
    let spool = Spool::new(postoffice);
    let scratch = TempFile::create_in(&spool.public(), "submission")?;
    let mut file = scratch.file();
    file.write_all(submission)?;
    file.sync_all()?;
    let modified = Timestamp::modified(&file.metadata()?);
    Ok(SpoolId { number: publish(&spool, scratch)?, modified })
}

/// Moves a synced file to `router/`. Returns its number.
fn publish(spool: &Spool, mut scratch: TempFile) -> io::Result<u64> {
    share_with_router(scratch.file(), &spool.router())?;
    let name = move_to_router(&mut scratch, &spool.router(), HashLevel::Flat)?;
    scratch.keep();
    Ok(name.number())
}

fn in_brackets(address: &[u8]) -> Vec<u8> {
    [b"<", address, b">"].concat()
}

fn change_owner(file: &File, (user, group): (u32, u32)) -> io::Result<()> {
    let metadata = file.metadata()?;
    if (metadata.uid(), metadata.gid()) == (user, group) {
        return Ok(());
    }
    match fchown(file, Some(user), Some(group)) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}
