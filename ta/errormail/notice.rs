//! What a report says: the form of the operator, or a text of this program.
//!
//! The router names the form. ZMailer's routers use the names in [`BUILT_IN`]; others are possible.

use std::io::ErrorKind;
use std::path::Path;
use zsched_report::{DsnAction, Form, read_form_file};

/// Maximum length of the name of a form.
const MAX_NAME_LEN: usize = 64;
/// Name for hosts that cannot be names of forms.
const GENERAL_NAME: &str = "bounce";

/// What to say about recipients.
pub(crate) struct Notice {
    /// The name of the form.
    pub(crate) name: String,
    /// The form.
    pub(crate) form: Form,
    /// The status code (RFC 3463).
    pub(crate) status: &'static str,
    /// What happened.
    pub(crate) action: DsnAction,
    /// Why the operator's form is not used.
    complaint: Option<String>,
}

impl Notice {
    /// Reads the form `name` in one of the languages.
    ///
    /// It is in the folder of the first language that has it, else in `folder`.
    ///
    /// A built-in text replaces one that cannot be used.
    pub(crate) fn new(folder: &Path, name: &[u8], languages: &[String]) -> Notice {
        let name = form_name(name).unwrap_or(GENERAL_NAME);
        let built_in = BUILT_IN.iter().find(|one| one.name == name).unwrap_or(&BUILT_IN[0]);
        let mut paths = languages.iter().map(|language| folder.join(language).join(name));
        let path = paths.find(|path| path.exists()).unwrap_or_else(|| folder.join(name));
        let (form, complaint) = match read(&path) {
            Ok(Some(form)) => (form, None),
            Ok(None) => (built_in.form(), None),
            Err(why) => (built_in.form(), Some(format!("{}: {why}", path.display()))),
        };
        let (status, action) = (built_in.status, built_in.action);
        Notice { name: name.to_string(), form, status, action, complaint }
    }

    /// A remark for the log, if the form of the operator is not used.
    pub(crate) fn remark(&self) -> String {
        self.complaint.as_ref().map_or(String::new(), |why| format!(" (built-in text: {why})"))
    }
}

/// Returns the name if it is one of a file in the folder itself.
fn form_name(name: &[u8]) -> Option<&str> {
    let is_kept = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_usable = (1..=MAX_NAME_LEN).contains(&name.len()) && name.iter().all(is_kept);
    str::from_utf8(name).ok().filter(|name| is_usable && *name != "-")
}

/// Reads a form. `None` if there is none.
fn read(path: &Path) -> Result<Option<Form>, String> {
    let text = match read_form_file(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    Form::parse(&text).map(Some).map_err(|error| error.to_string())
}

/// A text of this program.
struct BuiltIn {
    name: &'static str,
    status: &'static str,
    action: DsnAction,
    subject: &'static str,
    text: &'static str,
}

impl BuiltIn {
    fn form(&self) -> Form {
        let form = format!("SUB Subject: {}\n\n{}\n", self.subject, self.text);
        Form::parse(form.as_bytes()).unwrap_or_default()
    }
}

const fn failure(
    name: &'static str,
    status: &'static str,
    subject: &'static str,
    text: &'static str,
) -> BuiltIn {
    BuiltIn { name, status, action: DsnAction::Failed, subject, text }
}

/// The texts of this program. The first one is for all other names.
const BUILT_IN: [BuiltIn; 16] = [
    failure(
        GENERAL_NAME,
        "5.0.0",
        "Your mail could not be sent",
        "The mail system could not accept your message for the recipients below.",
    ),
    failure(
        "bitnetgw",
        "5.1.2",
        "BITNET address in your mail",
        "Your message has an address of the network BITNET, which no longer exists. Ask the\n\
         recipient for an address with a domain name.",
    ),
    failure(
        "database",
        "5.4.3",
        "Your mail could not be routed",
        "A database that is needed to route your message cannot be read or is faulty. Send the\n\
         message again later, and tell the postmaster if that does not help.",
    ),
    failure(
        "envelope",
        "5.5.4",
        "Invalid envelope of your mail",
        "The program that sent your message has given invalid data about its sender or its\n\
         recipients, so the message cannot be delivered.",
    ),
    failure(
        "expansion",
        "5.2.4",
        "Faulty mailing list or alias",
        "Your message went to a list or an alias that cannot be replaced by its members. Only\n\
         the owner of the list or the postmaster can correct that.",
    ),
    failure(
        "header",
        "5.6.0",
        "Invalid header of your mail",
        "A header of your message is not in the form that the standards of mail demand, so the\n\
         message cannot be delivered. Check your mail program.",
    ),
    BuiltIn {
        name: "headerwarn",
        status: "2.6.0",
        action: DsnAction::Relayed,
        subject: "Warning: invalid header of your mail",
        text: "A header of your message is not in the form that the standards of mail demand. The\n\
               message was sent on nevertheless, but others may refuse it.",
    },
    failure(
        "ip-number",
        "5.1.3",
        "Numeric address in your mail",
        "After the @ of an address there is a number of the Internet. Such numbers must be in\n\
         brackets, as in user@[192.0.2.1]; a domain name is better.",
    ),
    failure(
        "localhost",
        "5.1.2",
        "Incomplete address in your mail",
        "An address in your message ends in \"localhost\", which is a different computer for each\n\
         computer. Use the full domain name.",
    ),
    failure(
        "loopexceeded",
        "5.4.6",
        "Your mail went in circles",
        "Your message has passed too many mail systems: it seems that two of them pass it to\n\
         each other, or that forwarding is set up in a circle.",
    ),
    failure(
        "nonewsgroup",
        "5.1.1",
        "No such newsgroup",
        "Your message is for a newsgroup that does not exist here.",
    ),
    failure(
        "norealname",
        "5.1.1",
        "Nobody of that name",
        "Your message is for a person whose name is not known here.",
    ),
    failure(
        "norecipients",
        "5.1.3",
        "Your mail has no recipients",
        "Neither the headers of your message nor the program that sent it name a recipient.",
    ),
    failure(
        "unresolvable",
        "5.1.0",
        "Unresolvable mail address",
        "An address of your message is not one that can be reached from this mail system.",
    ),
    failure(
        "vms-in-pros",
        "5.1.3",
        "DECnet address in your mail",
        "Your message has an address of the form host::user, which mail on the Internet does\n\
         not know. Ask the recipient for an address with a domain name.",
    ),
    failure(
        "wrongname",
        "5.1.1",
        "Misspelled name in your mail",
        "Nobody here has exactly the name of the address, and no similar one is unique.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_texts_are_forms() {
        for built_in in &BUILT_IN {
            assert_ne!(built_in.form(), Form::default(), "{}", built_in.name);
            assert!(built_in.form().copies().is_empty());
            let lines = built_in.text.lines().all(|line| line.len() <= 88);
            assert!(lines && form_name(built_in.name.as_bytes()).is_some(), "{}", built_in.name);
        }
    }

    #[test]
    fn form_is_a_file_of_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let forms = folder.path().join("forms");
        std::fs::create_dir(&forms).expect("made");
        std::fs::write(folder.path().join("secret"), "a secret").expect("written");
        std::fs::write(forms.join("expansion"), "SUB Subject: ours\n\ntext\n").expect("written");
        std::fs::write(forms.join("header"), "SUB ours\n").expect("written");
        for (name, status, is_own, remark) in [
            (&b"expansion"[..], "5.2.4", true, ""),
            (b"header", "5.6.0", false, "header: 1:5: expected a header"),
            (b"unresolvable", "5.1.0", false, ""),
            (b"new-reason", "5.0.0", false, ""),
            (b"../secret", "5.0.0", false, ""),
            (b"-", "5.0.0", false, ""),
            (b"", "5.0.0", false, ""),
            (b"\xff", "5.0.0", false, ""),
        ] {
            let notice = Notice::new(&forms, name, &["de".into()]);
            assert_eq!(notice.status, status);
            let own = Form::parse(b"SUB Subject: ours\n\ntext\n").expect("a form");
            assert_eq!(notice.form == own, is_own, "{name:?}");
            assert!(notice.remark().contains(remark), "{}", notice.remark());
            assert_eq!(notice.remark().is_empty(), remark.is_empty());
        }
    }
}
