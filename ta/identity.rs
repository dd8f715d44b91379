//! The user whose rights a program has.
//!
//! An agent of root gives the program the rights of the recipient's privilege column. Every other
//! agent can give it only its own.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use zsched_agent::Delivery;
use zsched_sys::{self as sys, Account};

/// Name, user id and group id of the user without rights.
const NOBODY: &str = "nobody";
const NOBODY_ID: u32 = 65534;

/// The rule that selects the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rights {
    /// The user of this agent.
    OfAgent,
    /// The user in the privilege column; nobody if there is none.
    OfRecipient,
    /// This user, that the operator has named. Root is possible.
    Of(Account),
}

/// A user, as a program gets to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    account: Account,
    /// True if the agent must become that user.
    is_other: bool,
}

impl Rights {
    /// Finds the user of `--user NAME[:GROUP]`. Both may be numbers.
    pub fn named(text: &str) -> Result<Rights, String> {
        let (user, group) = text.split_once(':').map_or((text, None), |(u, g)| (u, Some(g)));
        let unknown = |what: &str, name: &str| format!("there is no {what} {name}");
        let found = match user.parse() {
            Ok(uid) => sys::users::account_of(uid),
            Err(_) => sys::find_account(user),
        };
        let found = found.map_err(|error| format!("cannot look up the user {user}: {error}"))?;
        let mut account = found.ok_or_else(|| unknown("user", user))?;
        if let Some(group) = group {
            let found = match group.parse() {
                Ok(gid) => Some(gid),
                Err(_) => sys::users::group_id(group)
                    .map_err(|error| format!("cannot look up the group {group}: {error}"))?,
            };
            account.gid = found.ok_or_else(|| unknown("group", group))?;
        }
        let is_own = account.uid == sys::users::effective_user()
            && account.gid == sys::users::effective_group();
        if !sys::users::is_root() && !is_own {
            return Err(format!("only root can run programs as {text}"));
        }
        Ok(Rights::Of(account))
    }

    /// The user for a recipient. An error means that it is not known now.
    pub fn identity(&self, delivery: &Delivery<'_>) -> io::Result<Identity> {
        match self {
            Rights::Of(account) => Ok(Identity::of(account.clone())),
            Rights::OfRecipient if sys::users::is_root() => {
                account_of_privilege(delivery.privilege()).map(Identity::of)
            }
            _ => Ok(Identity { account: own_account()?, is_other: false }),
        }
    }
}

impl Identity {
    fn of(account: Account) -> Identity {
        Identity { account, is_other: sys::users::is_root() }
    }

    /// The owner of files for the program: user id and group id.
    ///
    /// `None` if it is the agent's own.
    pub fn other_ids(&self) -> Option<(u32, u32)> {
        self.is_other.then_some((self.account.uid, self.account.gid))
    }

    /// Sets the user of a command, and the variables that name the user.
    ///
    /// The program has no supplementary groups.
    pub fn apply(&self, command: &mut Command) {
        if self.is_other {
            command.uid(self.account.uid).gid(self.account.gid);
        }
        command.env("HOME", &self.account.home);
        command.env("USER", &self.account.name).env("LOGNAME", &self.account.name);
    }
}

fn own_account() -> io::Result<Account> {
    let uid = sys::users::effective_user();
    let unnamed = || Account {
        comment: String::new(),
        name: uid.to_string(),
        uid,
        gid: sys::users::effective_group(),
        home: PathBuf::from("/"),
    };
    Ok(sys::users::account_of(uid)?.unwrap_or_else(unnamed))
}

/// The account of the id in a privilege column.
///
/// Root, negative numbers and what is no number become nobody. An id that no account has may be one
/// that the name service does not find now, so it is an error.
fn account_of_privilege(privilege: &[u8]) -> io::Result<Account> {
    match privileged_user(privilege) {
        Some(uid) => sys::users::account_of(uid)?
            .ok_or_else(|| io::Error::other(format!("no account has the user id {uid}"))),
        None => nobody(),
    }
}

/// The user id in a privilege column, unless it stands for nobody.
fn privileged_user(privilege: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(privilege).ok()?;
    let uid: u32 = text.trim().parse().ok()?;
    (uid != 0 && uid != u32::MAX && uid != NOBODY_ID).then_some(uid)
}

fn nobody() -> io::Result<Account> {
    let unnamed = || Account {
        comment: String::new(),
        name: NOBODY.to_string(),
        uid: NOBODY_ID,
        gid: NOBODY_ID,
        home: PathBuf::from("/"),
    };
    let account = sys::find_account(NOBODY)?.filter(|account| account.uid != 0);
    Ok(account.unwrap_or_else(unnamed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privilege_column_is_never_root() {
        for text in ["0", "-1", "-2", "", "x", "00", "4294967295", "4294967296", "65534", "1 2"] {
            assert_eq!(privileged_user(text.as_bytes()), None, "{text}");
        }
        assert_eq!(privileged_user(b"\xff"), None);
        assert_eq!(privileged_user(b"1000 "), Some(1000));
        assert_ne!(account_of_privilege(b"0").expect("nobody").uid, 0);
        let error = account_of_privilege(b"4000000000").expect_err("no such account");
        assert_eq!(error.to_string(), "no account has the user id 4000000000");
    }

    #[test]
    fn named_user_must_exist() {
        let error = |text| Rights::named(text).expect_err(text);
        assert_eq!(error("no-such-account"), "there is no user no-such-account");
        if sys::users::is_root() {
            assert_eq!(error("root:no-such-group"), "there is no group no-such-group");
            let Ok(Rights::Of(account)) = Rights::named("0:7") else { panic!("root exists") };
            assert_eq!((account.uid, account.gid), (0, 7));
        } else {
            assert_eq!(error("root"), "only root can run programs as root");
        }
    }
}
