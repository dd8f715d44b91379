//! A mailer: a program, its arguments, and how the message is written for it.

use crate::flags::Flags;
use crate::word::{Macro, Word};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::Command;
use zsched_agent::{Delivery, Outcome, Verdict};
use zsched_agents::local_part;

/// The shell that runs programs of aliases.
const SHELL: &str = "/bin/sh";
/// The word behind which no argument is an option.
const END_OF_OPTIONS: &[u8] = b"--";
/// The sender of error messages, as an argument.
const NULL_SENDER: &[u8] = b"<>";

/// A program to which mail is passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailer {
    /// Name in the configuration; the last part of the path if it has none.
    pub name: String,
    /// How the message is written, among other things.
    pub flags: Flags,
    /// Path of the program.
    pub program: PathBuf,
    /// The arguments, the name of the program first.
    pub words: Vec<Word>,
}

/// The reason why a program does not get an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It would be an option.
    #[error("an address that begins with `-` would be an option of the program")]
    Option(Macro),
    /// It has control characters.
    #[error("the address has control characters")]
    ControlCharacter(Macro),
    /// It does not begin with `|`.
    #[error("the address does not begin with `|`, so it is not a program")]
    NotAProgram,
}

impl Refusal {
    /// The outcome of the recipient, which fails. Codes: RFC 3463, 3.2.
    pub fn outcome(self) -> Outcome {
        let status = match self {
            Refusal::Option(Macro::Sender) | Refusal::ControlCharacter(Macro::Sender) => "5.1.7",
            _ => "5.1.3",
        };
        Outcome::new(Verdict::Failed, status, 553, self.to_string())
    }
}

/// The addresses of a delivery, in a form that a program may get.
pub struct Envelope<'a> {
    sender: Option<&'a [u8]>,
    host: &'a [u8],
    users: Vec<Cow<'a, [u8]>>,
}

impl<'a> Envelope<'a> {
    /// The envelope of recipients that share a call. There is at least one.
    pub fn new(group: &[Delivery<'a>], runs_address: bool) -> Result<Envelope<'a>, Refusal> {
        let user = |delivery: &Delivery<'a>| match runs_address {
            true => program_of(delivery.user()).map(Cow::Owned),
            false => Ok(Cow::Borrowed(delivery.user())),
        };
        let users = group.iter().map(user).collect::<Result<Vec<_>, Refusal>>()?;
        let envelope = Envelope { sender: group[0].sender(), host: group[0].host(), users };
        envelope.check()?;
        Ok(envelope)
    }

    fn check(&self) -> Result<(), Refusal> {
        let users = self.users.iter().map(|user| (Macro::User, &**user));
        let others = [(Macro::Sender, self.sender.unwrap_or_default()), (Macro::Host, self.host)];
        let mut all = users.chain(others);
        match all.find(|(_, address)| address.iter().any(u8::is_ascii_control)) {
            Some((name, _)) => Err(Refusal::ControlCharacter(name)),
            None => Ok(()),
        }
    }

    /// Sets the variables that name the sender, and the recipient if there is only one.
    pub fn set_variables(&self, command: &mut Command) {
        command.env("SENDER", OsStr::from_bytes(self.sender.unwrap_or_default()));
        if let [user] = &self.users[..] {
            command.env("RECIPIENT", OsStr::from_bytes(user));
        }
    }

    fn value(&self, name: Macro, user: usize) -> Cow<'_, [u8]> {
        match name {
            Macro::User => Cow::Borrowed(&self.users[user]),
            Macro::LowerCaseUser => Cow::Owned(self.users[user].to_ascii_lowercase()),
            Macro::Host => Cow::Borrowed(self.host),
            Macro::Sender => Cow::Borrowed(self.sender.unwrap_or(NULL_SENDER)),
        }
    }
}

/// The command in an address such as `"|/bin/program -x"@host`.
fn program_of(user: &[u8]) -> Result<Vec<u8>, Refusal> {
    let user = std::str::from_utf8(user).map_err(|_| Refusal::NotAProgram)?;
    let command = local_part::unquoted(user);
    let command = command.strip_prefix('|').ok_or(Refusal::NotAProgram)?;
    Ok(command.trim_ascii().as_bytes().to_vec())
}

impl Mailer {
    /// The mailer that runs the program of an alias with the shell.
    pub fn shell(flags: Flags) -> Mailer {
        let literals = ["sh", "-c", "--"].map(Word::literal);
        let words = literals.into_iter().chain([Word::of_macro(Macro::User)]).collect();
        Mailer { name: "sh".to_string(), flags, program: PathBuf::from(SHELL), words }
    }

    /// Returns true if the program may get the addresses of a recipient.
    pub fn accepts(&self, delivery: &Delivery<'_>, runs_address: bool) -> bool {
        let envelope = Envelope::new(std::slice::from_ref(delivery), runs_address);
        envelope.and_then(|envelope| self.arguments(&envelope)).is_ok()
    }

    /// The arguments of a call, the name of the program first.
    ///
    /// A word with a recipient is repeated for each one.
    pub fn arguments(&self, envelope: &Envelope<'_>) -> Result<Vec<OsString>, Refusal> {
        let sender = self
            .flags
            .sender_option
            .map(|option| [Word::literal(&format!("-{option}")), Word::of_macro(Macro::Sender)]);
        let (name, rest) = self.words.split_at(self.words.len().min(1));
        let words = name.iter().chain(sender.iter().flatten()).chain(rest);
        let mut arguments = Vec::new();
        let mut has_ended_options = false;
        for word in words {
            let count = if word.has_user() { envelope.users.len() } else { 1 };
            for user in 0..count {
                let argument = word.expand(|name| envelope.value(name, user));
                if let Some(name) = word.first_macro()
                    && !has_ended_options
                    && looks_like_option(&argument)
                {
                    return Err(Refusal::Option(name));
                }
                has_ended_options |= argument == END_OF_OPTIONS;
                arguments.push(OsString::from_vec(argument));
            }
        }
        Ok(arguments)
    }
}

/// Returns true for an option. A single `-`, which routers use for "no host", is none.
fn looks_like_option(argument: &[u8]) -> bool {
    argument.len() > 1 && argument.starts_with(b"-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use zsched_config::Zenv;

    fn mailer(flags: &str, words: &str) -> Mailer {
        let word = |text| Word::parse(text, &Zenv::default()).expect("a word").word;
        Mailer {
            name: "test".to_string(),
            flags: Flags::parse(flags).0,
            program: "/bin/test".into(),
            words: words.split(' ').map(word).collect(),
        }
    }

    fn envelope<'a>(sender: Option<&'a str>, host: &'a str, users: &[&'a str]) -> Envelope<'a> {
        let users = users.iter().map(|user| Cow::Borrowed(user.as_bytes())).collect();
        Envelope { sender: sender.map(str::as_bytes), host: host.as_bytes(), users }
    }

    fn line(mailer: &Mailer, envelope: &Envelope<'_>) -> Result<String, Refusal> {
        let arguments = mailer.arguments(envelope)?;
        let shown: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
        Ok(shown.join("|"))
    }

    #[test]
    fn words_with_recipient_are_repeated() {
        let one = envelope(Some("a@x"), "uunode", &["n.uu!u"]);
        let two = envelope(None, "-", &["Ann", "$g bob;"]);
        for (flags, words, expected_one, expected_two) in [
            (
                "U",
                "uux - -r -a$g -gC x$h!rmail ($u)",
                "uux|-|-r|-aa@x|-gC|xuunode!rmail|(n.uu!u)",
                "uux|-|-r|-a<>|-gC|x-!rmail|(Ann)|($g bob;)",
            ),
            ("m", "usenet $u", "usenet|n.uu!u", "usenet|Ann|$g bob;"),
            ("f", "p $h -d $U", "p|-f|a@x|uunode|-d|n.uu!u", "p|-f|<>|-|-d|ann|$g bob;"),
            ("r", "p-$h x", "p-uunode|-r|a@x|x", "p--|-r|<>|x"),
        ] {
            let mailer = mailer(flags, words);
            assert_eq!(line(&mailer, &one).as_deref(), Ok(expected_one));
            assert_eq!(line(&mailer, &two).as_deref(), Ok(expected_two));
        }
    }

    #[test]
    fn address_cannot_be_option() {
        let dash = envelope(Some("-s@x"), "-h", &["-u"]);
        for (words, refused) in [
            ("p $u", Some(Macro::User)),
            ("p -d $U", Some(Macro::LowerCaseUser)),
            ("p -f $g", Some(Macro::Sender)),
            ("p $h", Some(Macro::Host)),
            ("p $g -- $u", Some(Macro::Sender)),
            ("p -- $u $g $h", None),
            ("p -d$u x$g ($h)", None),
        ] {
            let result = line(&mailer("-", words), &dash);
            assert_eq!(result.err(), refused.map(Refusal::Option), "{words}");
        }
        assert_eq!(line(&mailer("f", "p x"), &dash), Err(Refusal::Option(Macro::Sender)));
        // A host of the router that is none, and an address of one character.
        let single = envelope(Some("a"), "-", &["-"]);
        assert_eq!(line(&mailer("-", "p $h $u"), &single).as_deref(), Ok("p|-|-"));
        // A recipient does not end the options for the next word.
        let end = envelope(None, "-x", &["--"]);
        assert_eq!(line(&mailer("-", "p $u $h"), &end), Err(Refusal::Option(Macro::User)));
    }

    #[test]
    fn control_characters_are_refused() {
        for (envelope, name) in [
            (envelope(None, "h", &["a", "b\tc"]), Macro::User),
            (envelope(Some("a\rb"), "h", &["a"]), Macro::Sender),
            (envelope(None, "\x7f", &["a"]), Macro::Host),
        ] {
            assert_eq!(envelope.check(), Err(Refusal::ControlCharacter(name)));
        }
        let status = |refusal: Refusal| refusal.outcome().status().to_string();
        assert_eq!(status(Refusal::ControlCharacter(Macro::Sender)), "5.1.7");
        assert_eq!(status(Refusal::Option(Macro::User)), "5.1.3");
    }

    #[test]
    fn program_of_alias_begins_with_bar() {
        for (user, command) in [
            ("|/bin/p -x", "/bin/p -x"),
            ("\"| exec p 'a b'\"@host", "exec p 'a b'"),
            (r#""|p \"a b\" a@b""#, r#"p "a b" a@b"#),
        ] {
            assert_eq!(program_of(user.as_bytes()).as_deref(), Ok(command.as_bytes()), "{user}");
        }
        for user in [&b"p"[..], b"a|b", b"", b"/bin/p", b"|\xff"] {
            assert_eq!(program_of(user), Err(Refusal::NotAProgram));
        }
        let users = ["-x; exit 3"];
        let shell = Mailer::shell(Flags::default());
        let result = line(&shell, &envelope(None, "-", &users));
        assert_eq!(result.as_deref(), Ok("sh|-c|--|-x; exit 3"));
    }
}
