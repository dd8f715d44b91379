//! The mailboxes: their location, kind and rights.

use crate::dotlock::DotLock;
use crate::folder::Folder;
use crate::letter::Letter;
use crate::lock_backoff::LockBackoff;
use crate::mailbox_error::MailboxError;
use crate::owner::Owner;
use crate::wait::Wait;
use crate::{maildir, mbox};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A folder of mailboxes.
#[derive(Debug)]
pub struct Store {
    /// The folder, in which each mailbox has the name of its owner.
    pub folder: PathBuf,
    /// Number of letters of a user's name that are folders above the mailbox.
    pub dir_letters: usize,
    /// True if new mailboxes are made as Maildir folders.
    pub creates_maildirs: bool,
    /// Maximum wait for a locked mailbox.
    pub max_lock_wait: Duration,
    /// Mailboxes whose lock was not released while waiting.
    pub lock_backoff: LockBackoff,
}

impl Store {
    /// Delivers a letter to the mailbox of `owner`, and returns when it is on disk.
    ///
    /// Everything that can fail for reasons outside of the mailbox is done before the letter is
    /// written.
    pub fn deliver(&mut self, owner: &Owner, letter: &Letter<'_>) -> Result<(), MailboxError> {
        let folder = self.folder_of(&owner.name);
        let path = folder.join(&owner.name);
        let folder = Folder::open(&folder)
            .map_err(MailboxError::with("cannot examine the folder of mailboxes"))?;
        match self.kind(&path)? {
            Kind::File => self.append(&folder, &path, owner, letter),
            Kind::Folder { is_new } => {
                let outside = folder.act_in_folder(owner)?;
                if is_new {
                    maildir::create(&path)?;
                    folder.give_and_sync(&path, owner)?;
                }
                let mailbox = maildir::Maildir::open(&path, owner)?;
                drop(outside);
                let _inside = folder.act_in_mailbox(owner)?;
                mailbox.deliver(letter)
            }
        }
    }

    /// The folder of a mailbox: for bob, with two letters, `b/o` below the top folder.
    ///
    /// For a name of one letter that is used twice, as by ZMailer's `mailbox -DD`.
    pub fn folder_of(&self, name: &str) -> PathBuf {
        let first = name.chars().next();
        let letters = name.chars().chain(first).take(self.dir_letters);
        self.folder.join(letters.map(String::from).collect::<PathBuf>())
    }

    /// Appends to an mbox file.
    ///
    /// A mailbox that was locked a moment ago is not waited for again, so that it does not delay
    /// the mail of other users.
    fn append(
        &mut self,
        folder: &Folder,
        path: &Path,
        owner: &Owner,
        letter: &Letter<'_>,
    ) -> Result<(), MailboxError> {
        let now = Instant::now();
        let deadline =
            if self.lock_backoff.contains(path, now) { now } else { now + self.max_lock_wait };
        let wait = Wait::during(letter.delivery, deadline);
        let result = append(folder, path, owner, letter, wait);
        match result {
            Err(MailboxError::Locked(_)) => self.lock_backoff.insert(path, Instant::now()),
            _ => self.lock_backoff.remove(path),
        }
        result
    }

    fn kind(&self, path: &Path) -> Result<Kind, MailboxError> {
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => {
                Err(MailboxError::Unusable("the mailbox is a symbolic link"))
            }
            Ok(metadata) if metadata.is_dir() => Ok(Kind::Folder { is_new: false }),
            Ok(_) => Ok(Kind::File),
            Err(error) if error.kind() == ErrorKind::NotFound => match self.creates_maildirs {
                true => Ok(Kind::Folder { is_new: true }),
                false => Ok(Kind::File),
            },
            Err(error) => Err(MailboxError::System("cannot examine the mailbox", error)),
        }
    }
}

fn append(
    folder: &Folder,
    path: &Path,
    owner: &Owner,
    letter: &Letter<'_>,
    wait: Wait<'_>,
) -> Result<(), MailboxError> {
    let outside = folder.act_in_folder(owner)?;
    let lock = DotLock::take(path, wait)?;
    if path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        mbox::create(path)?;
        folder.give_and_sync(path, owner)?;
    }
    // Dropped before the lock, which is removed with the rights that it was made with.
    let _inside = match &outside {
        Some(_) => None,
        None => folder.act_in_mailbox(owner)?,
    };
    mbox::append(path, owner, letter, &lock, wait)
}

/// The kind of an existing or new mailbox.
enum Kind {
    File,
    Folder { is_new: bool },
}
