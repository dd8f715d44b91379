//! What only the control file has, for display: senders and the address for error reports.

use super::{Spool, SpoolName};
use std::fs::File;
use std::io::{self, Read};
use zsched_format::control_file::{ControlFile, parse};
use zsched_sys::open_regular;

/// Maximum number of bytes of a control file that are read. Senders come first.
const MAX_READ_BYTES: u64 = 256 * 1024;

/// Reads the lines at the beginning of a control file, up to `max` bytes.
pub fn control_file_head(spool: &Spool, name: &SpoolName, max: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(File::options().read(true), &spool.control_file(name))?;
    let mut head = Vec::new();
    file.take(max).read_to_end(&mut head)?;
    // The text after the last line end may be an incomplete line.
    head.truncate(memchr::memrchr(b'\n', &head).map_or(0, |end| end + 1));
    Ok(head)
}

/// The address for error reports.
///
/// It is that of the last sender, or of a later `e` line.
///
/// It is empty for a message that is a report itself, and `None` if the file has none.
pub fn error_address(spool: &Spool, name: &SpoolName) -> io::Result<Option<Box<[u8]>>> {
    let head = control_file_head(spool, name, MAX_READ_BYTES)?;
    Ok(parse(head).ok().and_then(|file| address_in(&file)))
}

/// The address for error reports in a control file, as for [`error_address`].
pub(crate) fn address_in(file: &ControlFile) -> Option<Box<[u8]>> {
    let sender = file.senders.last();
    if let Some(address) = file.error_address
        && sender.is_none_or(|sender| sender.offset < address.start)
    {
        return Some(file.get(address).into());
    }
    let sender = sender?;
    let is_report = file.get(sender.quad.channel) == b"error";
    Some(if is_report { Box::default() } else { file.get(sender.quad.user).into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashFolder;

    #[test]
    fn error_address_is_that_of_last_sender() {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        let name = SpoolName::new(HashFolder::TOP, b"7").expect("a name");
        let recipient = "r           c h u 0\nm\n\n";
        for (lines, expected) in [
            ("s local - a@x.test 0\n", Some("a@x.test")),
            ("e e@x.test\ns local - a@x.test 0\n", Some("a@x.test")),
            ("s local - a@x.test 0\ne e@x.test\n", Some("e@x.test")),
            ("s local - a@x.test 0\ns smtp h b@x.test 0\n", Some("b@x.test")),
            ("s error - a@x.test 0\n", Some("")),
            ("", None),
        ] {
            let text = format!("i 7\n{lines}{recipient}s lost");
            std::fs::write(spool.control_file(&name), text).expect("written");
            let found = error_address(&spool, &name).expect("it can be read");
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{lines:?}");
        }
        std::fs::remove_file(spool.control_file(&name)).expect("removed");
        assert!(error_address(&spool, &name).is_err());
    }
}
