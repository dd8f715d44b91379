//! System accounts, and whether one that is not found is really missing.
//!
//! `getpwnam_r` reports a missing account also when a source of the name service could not be read
//! (no descriptors, no memory, a disk error, a missing module) and another one, such as `systemd`,
//! does not have the account. Mail for a real user must not bounce then. So a user is unknown only
//! if
//!
//! 1. `/etc/passwd` can be read, and does not have the name,
//! 2. known accounts are found, and
//! 3. the user is not found after that either.

use super::users::{Account, find_account};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Names that `nss-systemd` has without reading anything.
const SYNTHESIZED: [&str; 2] = ["root", "nobody"];

/// Looks an account up by name.
type LookUp = fn(&str) -> io::Result<Option<Account>>;

/// The accounts of the system.
#[derive(Clone, Debug)]
pub struct Accounts {
    look_up: LookUp,
    passwd: PathBuf,
    /// Accounts that exist according to the operator; if empty, one of `/etc/passwd` is used.
    known: Vec<String>,
}

impl Accounts {
    /// Uses the accounts of the name service. `known` are accounts that the operator declares to
    /// exist.
    pub fn new(known: Vec<String>) -> Accounts {
        Accounts { look_up: find_account, passwd: PathBuf::from("/etc/passwd"), known }
    }

    /// Finds the account of the first of `names` that exists.
    ///
    /// Returns `None` if there is certainly none, and an error if that is unknown.
    pub fn find(&self, names: &[&str]) -> io::Result<Option<Account>> {
        if let Some(account) = self.find_any(names)? {
            return Ok(Some(account));
        }
        let listed = names_in(&self.passwd)?;
        if let Some(name) = names.iter().find(|name| listed.iter().any(|it| it == *name)) {
            let why = format!("{} has {name}, the name service does not", self.passwd.display());
            return Err(io::Error::other(why));
        }
        for known in self.known_accounts(&listed) {
            if (self.look_up)(known)?.is_none() {
                let why = format!("the name service does not find the known account {known}");
                return Err(io::Error::other(why));
            }
        }
        self.find_any(names)
    }

    fn find_any(&self, names: &[&str]) -> io::Result<Option<Account>> {
        for name in names {
            if let Some(account) = (self.look_up)(name)? {
                return Ok(Some(account));
            }
        }
        Ok(None)
    }

    /// The accounts that must be found.
    ///
    /// The last one of the file is used, since users follow the system's accounts.
    fn known_accounts<'a>(&'a self, listed: &'a [String]) -> Vec<&'a str> {
        if !self.known.is_empty() {
            return self.known.iter().map(String::as_str).collect();
        }
        let is_read = |name: &&String| !SYNTHESIZED.contains(&name.as_str());
        vec![listed.iter().rev().find(is_read).map_or("root", String::as_str)]
    }
}

/// The names in a password file, in its order, without NIS entries.
fn names_in(passwd: &Path) -> io::Result<Vec<String>> {
    let failed =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", passwd.display()));
    let text = fs::read(passwd).map_err(failed)?;
    let text = String::from_utf8_lossy(&text);
    let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0));
    Ok(names.filter(|name| !name.starts_with(['+', '-', '#'])).map(str::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str) -> Account {
        let (comment, home) = (String::new(), "/home".into());
        Account { name: name.to_string(), uid: 1000, gid: 1000, comment, home }
    }

    /// The accounts of a system with this password file and name service.
    fn accounts(passwd: &str, look_up: LookUp, known: &[&str]) -> (tempfile::TempDir, Accounts) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("passwd");
        fs::write(&path, passwd).expect("written");
        let known = known.iter().map(|name| name.to_string()).collect();
        (folder, Accounts { look_up, passwd: path, known })
    }

    const PASSWD: &str = "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\n\
                          nobody:x:65534:65534::/:/bin/false\n+nis::::::\n";

    /// A name service that works: `/etc/passwd` as above, and LDAP with `lea`.
    fn works(name: &str) -> io::Result<Option<Account>> {
        let known = ["root", "nobody", "ann", "lea"];
        Ok(known.contains(&name).then(|| account(name)))
    }

    /// One that could not read `/etc/passwd`; `systemd` has root and nobody.
    fn cannot_read_files(name: &str) -> io::Result<Option<Account>> {
        Ok(SYNTHESIZED.contains(&name).then(|| account(name)))
    }

    /// One that cannot reach LDAP.
    fn cannot_ask_ldap(name: &str) -> io::Result<Option<Account>> {
        Ok(["root", "nobody", "ann"].contains(&name).then(|| account(name)))
    }

    #[test]
    fn user_with_any_of_the_names_is_found() {
        let (_folder, accounts) = accounts(PASSWD, works, &[]);
        for names in [&["ann"][..], &["Lea", "lea"]] {
            let found = accounts.find(names).expect("an answer").expect("there is one");
            assert_eq!(found.name, *names.last().expect("a name"));
        }
    }

    #[test]
    fn unknown_user_does_not_exist_if_known_accounts_are_found() {
        for known in [&[][..], &["root"], &["lea", "ann"]] {
            let (_folder, accounts) = accounts(PASSWD, works, known);
            assert_eq!(accounts.find(&["Eve", "eve"]).expect("an answer"), None, "{known:?}");
        }
        // A system without ordinary users.
        let (_folder, accounts) = accounts("root:x:0:0::/:/bin/sh\n", works, &[]);
        assert_eq!(accounts.find(&["eve"]).expect("an answer"), None);
    }

    #[test]
    fn unknown_user_is_error_if_name_service_cannot_read() {
        for (name, why) in [
            ("ann", "has ann, the name service does not"),
            ("eve", "does not find the known account ann"),
        ] {
            let (_folder, accounts) = accounts(PASSWD, cannot_read_files, &[]);
            let error = accounts.find(&[name]).expect_err("it cannot be told").to_string();
            assert!(error.ends_with(why), "{error}");
        }
        let (_folder, accounts) = accounts(PASSWD, cannot_ask_ldap, &["lea"]);
        let error = accounts.find(&["eve"]).expect_err("it cannot be told").to_string();
        assert!(error.ends_with("does not find the known account lea"), "{error}");
    }

    #[test]
    fn user_found_at_second_lookup_exists() {
        use std::sync::atomic::{AtomicBool, Ordering};
        static ASKED: AtomicBool = AtomicBool::new(false);
        fn at_second_sight(name: &str) -> io::Result<Option<Account>> {
            if name == "lea" && !ASKED.swap(true, Ordering::SeqCst) {
                return Ok(None);
            }
            works(name)
        }
        let (_folder, accounts) = accounts(PASSWD, at_second_sight, &[]);
        assert_eq!(accounts.find(&["lea"]).expect("an answer"), Some(account("lea")));
    }

    #[test]
    fn unreadable_password_file_is_error() {
        let (folder, accounts) = accounts(PASSWD, works, &["root"]);
        let path = folder.path().join("passwd");
        fs::remove_file(&path).expect("removed");
        let error = accounts.find(&["eve"]).expect_err("it cannot be told");
        assert!(error.to_string().starts_with(&format!("{}: ", path.display())), "{error}");
    }
}
