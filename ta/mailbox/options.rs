//! The command line of `mailbox`.
//!
//! It has its own options, and those of ZMailer's program of this name.

use crate::lock_backoff::LockBackoff;
use crate::owner::Users;
use crate::store::Store;
use clap::{ArgAction, Args, Parser};
use std::path::PathBuf;
use std::time::Duration;
use zsched_agent::ScopeOptions;
use zsched_config::Zenv;
use zsched_sys::{self as sys, Accounts};

/// Folder of the mailboxes if neither an option nor the ZENV file names one.
const DEFAULT_FOLDER: &str = "/var/mail";
/// Variable of the ZENV file: the folder of the mailboxes.
const MAILBOX: &str = "MAILBOX";
/// Maximum number of letters of a user name that become folders (`-DD`).
const MAX_DEPTH: u8 = 2;

/// Transport agent that delivers to local mailboxes
#[derive(Parser)]
#[command(name = "mailbox", version, disable_version_flag = true, disable_help_flag = true)]
#[command(args_override_self = true)]
pub struct MailboxOptions {
    #[command(flatten)]
    pub scope: ScopeOptions,

    /// Folder of the mailboxes [default: MAILBOX of the ZENV file, else /var/mail]; with a slash at
    /// its end, as -M
    #[arg(short = 'd', long, value_name = "DIR")]
    directory: Option<PathBuf>,

    /// ZENV file [default: $ZCONFIG, else /etc/zmailer.conf, which need not exist]
    #[arg(short = 'Z', long, value_name = "FILE")]
    zenv: Option<PathBuf>,

    /// Mailboxes are in folders named by the first letter of the user; given twice, by the first
    /// two
    #[arg(short = 'D', long, action = ArgAction::Count)]
    dir_letters: u8,

    /// Make new mailboxes as Maildir folders, not as mbox files
    #[arg(short = 'M', long)]
    maildir: bool,

    /// Every sensible name has a mailbox, even if there is no such user; implied by -d where
    /// the agent does not run as root
    #[arg(short = 'u', long)]
    any_user: bool,

    /// An account that exists: while it is not found, no user counts as unknown. May be repeated
    #[arg(long, value_name = "NAME")]
    known_account: Vec<String>,

    /// Maximum wait for a mailbox that is locked
    #[arg(short = 'w', long, value_name = "SECONDS", default_value_t = 15)]
    wait: u32,

    /// Print the version
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,

    #[command(flatten)]
    original: Original,
}

/// MailboxOptions of ZMailer's `mailbox` that change nothing here.
#[derive(Args)]
#[command(next_help_heading = "MailboxOptions of ZMailer's mailbox that have no effect")]
struct Original {
    /// Decode quoted-printable text
    #[arg(short = '8')]
    decode: bool,
    /// Let the time of the last access of a mailbox change
    #[arg(short = 'a')]
    access_time: bool,
    /// Do not notify biff
    #[arg(short = 'b')]
    no_biff: bool,
    /// Do not notify biff on other hosts
    #[arg(short = 'r')]
    no_remote_biff: bool,
    /// Use the name that the account database has
    #[arg(short = 'C')]
    canonify: bool,
    /// Named by ZMailer's manual without a meaning
    #[arg(short = 'H')]
    unexplained: bool,
    /// Send the receipts that Return-Receipt-To asks for
    #[arg(short = 'S')]
    receipts: bool,
    /// Log deliveries to this file
    #[arg(short = 'l', value_name = "LOGFILE")]
    log: Option<PathBuf>,
    /// Refused: mailboxes in folders by a hash of the user
    #[arg(short = 'P', action = ArgAction::Count)]
    pjw_hash: u8,
    /// Refused: mailboxes in folders by a checksum of the user
    #[arg(short = 'X', action = ArgAction::Count)]
    crc_hash: u8,
}

impl MailboxOptions {
    /// Creates the store of mailboxes. An error says why it cannot be determined.
    pub fn store(&self) -> Result<Store, String> {
        if self.original.pjw_hash + self.original.crc_hash > 0 {
            return Err("-P and -X, folders by a hash of the user, are not supported".to_string());
        }
        if self.dir_letters > MAX_DEPTH {
            return Err(format!("-D can be given at most {MAX_DEPTH} times"));
        }
        let folder = self.folder()?;
        // A path compares without its last slash, so the text must be examined.
        let ends_with_slash = folder.as_os_str().as_encoded_bytes().ends_with(b"/");
        Ok(Store {
            folder,
            dir_letters: self.dir_letters.into(),
            creates_maildirs: self.maildir || ends_with_slash,
            max_lock_wait: Duration::from_secs(self.wait.into()),
            lock_backoff: LockBackoff::default(),
        })
    }

    fn folder(&self) -> Result<PathBuf, String> {
        if let Some(folder) = &self.directory {
            return Ok(folder.clone());
        }
        let path = Zenv::path(self.zenv.as_deref());
        // The error names the file.
        let zenv = Zenv::find(self.zenv.as_deref()).map_err(|error| error.to_string())?;
        let zenv = zenv.unwrap_or_default();
        match zenv.get(MAILBOX).filter(|folder| !folder.is_empty()) {
            None => Ok(PathBuf::from(DEFAULT_FOLDER)),
            Some(folder) if folder.contains('%') => Err(format!(
                "{}: {MAILBOX}={folder}: a path with % in it is not supported",
                path.display()
            )),
            Some(folder) if !folder.starts_with('/') => {
                Err(format!("{}: {MAILBOX}={folder}: not an absolute path", path.display()))
            }
            Some(folder) => Ok(PathBuf::from(folder)),
        }
    }

    /// The users that have a mailbox.
    pub fn users(&self) -> Users {
        let anyone = self.any_user || (self.directory.is_some() && !sys::users::is_root());
        if anyone {
            return Users::AnyName;
        }
        Users::SystemUsers(Accounts::new(self.known_account.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::fs;
    use std::path::Path;

    fn options(arguments: &[&str]) -> MailboxOptions {
        let words = ["mailbox"].iter().chain(arguments);
        MailboxOptions::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn command_line_definition_is_consistent() {
        MailboxOptions::command().debug_assert();
    }

    #[test]
    fn options_of_original_are_accepted() {
        for arguments in
            [&["-8"][..], &["-88"], &["-8abCHrS"], &["-l", "/log/mailbox", "-8", "-c", "local"]]
        {
            let store = options(&[arguments, &["-d", "/m"]].concat()).store().expect("accepted");
            assert_eq!((store.folder, store.dir_letters), (PathBuf::from("/m"), 0));
        }
    }

    #[test]
    fn options_that_would_misplace_mail_are_refused() {
        for (arguments, expected) in [
            (&["-P"][..], "-P and -X"),
            (&["-XX"], "-P and -X"),
            (&["-DDD"], "-D can be given at most 2 times"),
        ] {
            let why = options(&[arguments, &["-d", "/m"]].concat()).store().expect_err("refused");
            assert!(why.starts_with(expected), "{why}");
        }
        assert!(MailboxOptions::try_parse_from(["mailbox", "-Q"]).is_err());
    }

    #[test]
    fn folder_of_mailboxes_is_taken_from_zenv_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let zenv = folder.path().join("zmailer.conf");
        let path = zenv.to_string_lossy();
        for (text, expected) in [
            ("MAILBOX=/a/b\n", Ok("/a/b")),
            ("MAILBIN=/x\n", Ok("/var/mail")),
            ("MAILBOX=\n", Ok("/var/mail")),
            ("MAILBOX=mail\n", Err("not an absolute path")),
            ("MAILBOX=/home/%s/mail\n", Err("with % in it")),
        ] {
            fs::write(&zenv, text).expect("written");
            let found = options(&["-Z", &path]).store().map(|store| store.folder);
            match expected {
                Ok(folder) => assert_eq!(found.as_deref(), Ok(Path::new(folder)), "{text}"),
                Err(why) => assert!(found.is_err_and(|error| error.contains(why)), "{text}"),
            }
        }
        // A ZENV file that is named must exist.
        fs::remove_file(&zenv).expect("removed");
        let why = options(&["-Z", &path]).store().expect_err("it is gone");
        assert!(why.starts_with(&*path), "{why}");
        assert!(options(&["-Z", &path, "-d", "/m"]).store().is_ok());
    }
}
