//! The auth file: a malformed line admits no user without an account, and reveals no password.

use zsched_mailq_server::acl::{Acl, Peer};
use zsched_mailq_server::auth_file::AuthFile;

/// The input is the file.
pub fn run(bytes: &[u8]) {
    let (file, complaints) = AuthFile::parse(bytes);
    let peers = [
        Peer::at([127, 0, 0, 1].into()),
        Peer::at([0u16, 0, 0, 0, 0, 0, 0, 1].into()),
        Peer::Local(Some(7)),
        Peer::Local(None),
    ];
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    for complaint in &complaints {
        assert!((1..=lines.len()).contains(&complaint.line));
        assert!(complaint.message.is_ascii(), "{complaint:?}");
    }
    for peer in &peers {
        let admitting = lines.iter().filter(|line| admits(line, peer));
        let users: Vec<&[u8]> = admitting.map(|line| user(line)).collect();
        assert!(!file.admits(peer) || !users.is_empty(), "{peer}");
        for user in [&b"root"[..], b"nobody", b""] {
            if let Some(account) = file.account(user, peer) {
                assert!(users.contains(&user) && !account.attributes().is_empty());
            }
        }
    }
}

fn user(line: &[u8]) -> &[u8] {
    line.split(|byte| *byte == b':').next().unwrap_or_default()
}

/// Returns true if a line is an entry whose list admits the peer.
///
/// An entry has four fields, the last of which is the list.
fn admits(line: &[u8], peer: &Peer) -> bool {
    let is_hash = line[user(line).len()..].starts_with(b":SCRAM-SHA-256$");
    let count = if is_hash { 6 } else { 4 };
    let fields: Vec<&[u8]> = line.splitn(count, |byte| *byte == b':').collect();
    let is_entry = !line.starts_with(b"#") && !line.starts_with(b"*");
    let Some(acl) = fields.get(count - 1) else { return false };
    let admits = Acl::parse(acl).is_ok_and(|acl| acl.admits(peer));
    // A list admits a peer by an address in brackets, or by being empty.
    let has_literal = acl.contains(&b'[') || acl.iter().all(|byte| *byte == b' ');
    assert!(!admits || has_literal);
    is_entry && admits
}
