//! How a message came, from the envelope at the beginning of its file.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use zsched_sys::open_regular;

/// Maximum number of bytes that are read. These lines come first.
const MAX_READ_BYTES: u64 = 4096;

/// Reads client, protocol and login of a submission or message file, for people.
///
/// `None` if nothing is known, or if this user may not read the file.
pub(crate) fn origin_of(path: &Path) -> Option<String> {
    let file = open_regular(File::options().read(true), path).ok()?;
    let lines = BufReader::new(file.take(MAX_READ_BYTES)).split(b'\n').map_while(Result::ok);
    let (mut client, mut protocol, mut login) = (None, String::new(), String::new());
    for line in lines {
        let line = String::from_utf8_lossy(&line).into_owned();
        match line.split_once(' ') {
            Some(("rcvdfrom", name)) => client = Some(name.to_string()),
            Some(("with", name)) => protocol = format!(", by {name}"),
            Some(("authinfo", name)) => login = format!(", login {name}"),
            Some(("from" | "to" | "channel", _)) => break,
            _ => {}
        }
    }
    Some(format!("{}{protocol}{login}", client?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_and_login_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("1");
        for (text, expected) in [
            (
                "rcvdfrom c.test ([192.0.2.7]:4711)\nwith ESMTPSA tls X\nauthinfo al\nfrom <a@b>\n",
                Some("c.test ([192.0.2.7]:4711), by ESMTPSA tls X, login al"),
            ),
            (
                "rcvdfrom x (stdin)\nwith ESMTP\nto <a@b>\nauthinfo eve\n",
                Some("x (stdin), by ESMTP"),
            ),
            ("from <a@b>\nto <c@d>\nenv-end\nrcvdfrom eve\n", None),
            ("", None),
        ] {
            std::fs::write(&path, text).expect("written");
            assert_eq!(origin_of(&path).as_deref(), expected, "{text:?}");
        }
        assert_eq!(origin_of(&folder.path().join("absent")), None);
    }
}
