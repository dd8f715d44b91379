//! Decides about recipients while the client is there, so that most bounces never come to be.

use super::config::ServerConfig;
use super::session::{RecipientQuestion, Reply};
use zsched_router::{Directory, ExpandError, Expansion, MailAddress, RoutedEnd};

/// Decides about a recipient, apart from the policy. May wait for the user database and lists.
pub(crate) fn check_recipient(
    question: &RecipientQuestion,
    config: &ServerConfig,
    directory: &Directory,
) -> Reply {
    let refused = check_sender(question, config)
        .or_else(|| check_existence(question, directory))
        .or_else(|| check_relaying(question, config, directory));
    refused.unwrap_or_else(Reply::recipient_ok)
}

/// Checks the sender. `None` is no objection.
fn check_sender(question: &RecipientQuestion, config: &ServerConfig) -> Option<Reply> {
    let sender = question.sender.as_deref().unwrap_or_default();
    let refused = config.refused_senders.iter().find(|(pattern, _)| pattern.matches(sender));
    refused.map(|(_, text)| Reply::new(550, "5.7.1", text))
}

/// Checks that the client may send to the domain of the recipient.
fn check_relaying(
    question: &RecipientQuestion,
    config: &ServerConfig,
    directory: &Directory,
) -> Option<Reply> {
    let recipient = &question.recipient;
    let is_ours = match MailAddress::parse(recipient) {
        Ok(address) => directory.is_final_destination(&address),
        Err(error) => return Some(Reply::new(553, error.status, error.reason)),
    };
    let may_relay = question.may_relay
        || is_ours
        || config.relay_domains.iter().any(|pattern| pattern.matches(recipient));
    let denied = || Reply::new(554, "5.7.1", "Relay access denied");
    (!may_relay).then(denied)
}

/// Checks by the router's rules that a recipient leads somewhere.
///
/// An address that leads to several recipients is good if one of them is: the router tells the
/// sender about the others.
fn check_existence(question: &RecipientQuestion, directory: &Directory) -> Option<Reply> {
    let mut expansion = Expansion::new(directory, question.sender.is_none());
    match expansion.add(&question.recipient, "") {
        Ok(()) => {}
        Err(error @ ExpandError::Deferred(_)) => {
            log::warn!("{}: {error}", question.recipient);
            return Some(Reply::new(451, "4.3.0", "The recipient cannot be looked up now"));
        }
        Err(error @ ExpandError::TooManyRecipients) => {
            return Some(Reply::new(550, "5.3.4", error.to_string()));
        }
    }
    let mut first = None;
    for recipient in expansion.recipients {
        match recipient.end.as_deref() {
            Some(RoutedEnd::Refused(refusal)) => {
                first.get_or_insert_with(|| {
                    Reply::new(550, refusal.status.clone(), refusal.text.clone())
                });
            }
            _ => return None,
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use zsched_config::Zenv;
    use zsched_router::RouterConfig;

    fn verdict(recipient: &str, may_relay: bool, sender: &str) -> String {
        let text = b"users any\nrefuse gone@example.org\nlocal example.org\n\
            refuse *.invalid 5.1.2 \"no such domain\"\n";
        let zenv = Zenv::default();
        let loaded = RouterConfig::parse(Path::new("router.cf"), text, "h.test", &zenv);
        let (directory, _) = Directory::load(loaded.expect("good").0).expect("loaded");
        let text = b"relay-domain backup.test\nrefuse-sender *@spam.test \"no thanks\"\n";
        let config = ServerConfig::parse(Path::new("smtpserver.cf"), text, &zenv);
        let question = RecipientQuestion {
            sender: Some(sender.into()),
            recipient: recipient.into(),
            may_relay,
            ..RecipientQuestion::default()
        };
        check_recipient(&question, &config.expect("good").0, &directory).to_string()
    }

    #[test]
    fn recipients_are_checked_by_the_rules() {
        for (recipient, may_relay, sender, expected) in [
            ("a@example.org", false, "s@x", "250 2.1.5 Ok"),
            ("a", false, "s@x", "250 2.1.5 Ok"),
            ("a@elsewhere.test", false, "s@x", "554 5.7.1 Relay access denied"),
            ("a@elsewhere.test", true, "s@x", "250 2.1.5 Ok"),
            ("a@backup.test", false, "s@x", "250 2.1.5 Ok"),
            ("gone@example.org", true, "s@x", "550 5.1.1 no mail is accepted for this address"),
            ("gone@example.org", false, "s@x", "550 5.1.1 no mail is accepted for this address"),
            ("a@b.invalid", true, "s@x", "550 5.1.2 no such domain"),
            ("a@example.org", true, "s@spam.test", "550 5.7.1 no thanks"),
        ] {
            assert_eq!(verdict(recipient, may_relay, sender), expected, "{recipient}");
        }
    }
}
