//! The user who sends a message: login name and full name.

use super::error::SendmailError;
use zsched_sys::users::{Account, account_of, real_user};

/// Maximum length of a full name, in bytes.
pub(crate) const MAX_NAME_LEN: usize = 1000;

/// The login name of the real user of this process. The router adds the domain.
pub(crate) fn login_name() -> Result<String, SendmailError> {
    Ok(account()?.name)
}

/// The user's full name: that of `NAME` in the environment, else of the user database.
pub(crate) fn full_name() -> Option<String> {
    let is_usable = |name: &String| is_full_name(name);
    let of_environment = std::env::var("NAME").ok().filter(is_usable);
    of_environment.or_else(|| account().ok().map(|account| name_in(&account)).filter(is_usable))
}

/// Returns true if a text can be a full name.
pub(crate) fn is_full_name(text: &str) -> bool {
    text.len() <= MAX_NAME_LEN && !text.contains(char::is_control)
}

fn account() -> Result<Account, SendmailError> {
    let user = real_user();
    let found = account_of(user).map_err(|error| SendmailError::Accounts(user, error))?;
    found.ok_or(SendmailError::NoAccount(user))
}

/// The full name in the comment of an account: up to a comma, where `&` is the login name.
fn name_in(account: &Account) -> String {
    let name = account.comment.split(',').next().unwrap_or_default();
    let mut login = account.name.chars();
    let capital = login.next().map(|first| first.to_uppercase().chain(login).collect::<String>());
    name.trim().replace('&', &capital.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_in_comment_ends_at_comma() {
        for (comment, expected) in [
            ("Alice Ames,Room 7,1234", "Alice Ames"),
            ("& Ames", "Alice Ames"),
            ("", ""),
            (",,,", ""),
            ("J\u{f6}rg", "J\u{f6}rg"),
        ] {
            let comment = comment.to_string();
            let home = "/".into();
            let account = Account { name: "alice".to_string(), uid: 1, gid: 1, comment, home };
            assert_eq!(name_in(&account), expected);
        }
    }
}
