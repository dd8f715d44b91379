//! Command line of `submit`, with options of `sendmail`.

use crate::bulk::BulkOptions;
use crate::times::TimeOptions;
use clap::Parser;
use zsched_service::InstallationOptions;

/// Put a message, read from standard input, into the scheduler's spool
#[derive(Parser, Clone, Debug)]
#[command(name = "submit", version)]
pub struct SubmitOptions {
    /// Sender address; `<>` or empty for the null sender
    #[arg(short = 'f', long = "from", value_name = "ADDRESS", default_value = "postmaster")]
    from: String,

    /// The sender's name, for the From header
    #[arg(short = 'F', long = "full-name", value_name = "NAME")]
    pub full_name: Option<String>,

    /// The delivery channel
    #[arg(short = 'c', long = "channel", default_value = "local")]
    pub channel: String,

    /// The next host; by default none for the channel local, else what follows the @ of each
    /// recipient
    #[arg(short = 'n', long = "next-host", value_name = "HOST")]
    pub host: Option<String>,

    /// Reports to the sender: NEVER, or any of SUCCESS, FAILURE, DELAY
    #[arg(short = 'N', long = "notify", value_name = "WHEN")]
    pub notify: Option<String>,

    /// Priority: 0 first, 9 last; z keeps the message
    #[arg(long = "priority", value_name = "0-9|z", value_parser = priority_level)]
    pub priority: Option<u8>,

    /// When it may be delivered.
    #[command(flatten)]
    pub times: TimeOptions,

    /// Also send it to the addresses in its To, Cc and Bcc headers
    #[arg(short = 't')]
    pub recipients_in_headers: bool,

    /// Ignored: a line with only a dot never ends the message
    #[arg(short = 'i')]
    _dots: bool,

    /// An option of sendmail, without effect
    #[arg(short = 'o', value_name = "OPTION")]
    _option: Vec<String>,

    /// What to do; only m, to take a message
    #[arg(short = 'b', value_name = "MODE", value_parser = ["m"])]
    _mode: Option<String>,

    /// Where the files of the installation are.
    #[command(flatten)]
    pub installation: InstallationOptions,

    #[command(flatten)]
    pub(crate) bulk: BulkOptions,

    /// Recipient addresses
    #[arg(required_unless_present_any = ["recipients_in_headers", "bulk", "listen"], value_name = "RECIPIENT")]
    recipients: Vec<String>,
}

fn priority_level(text: &str) -> Result<u8, String> {
    zsched_format::priority::parse(text).ok_or_else(|| "not a digit, or z".to_string())
}

impl SubmitOptions {
    /// Returns the envelope sender; `None` for the null sender.
    pub fn sender(&self) -> Option<&str> {
        Some(without_brackets(&self.from)).filter(|sender| !sender.is_empty())
    }

    /// Returns the recipients on the command line.
    pub fn recipients(&self) -> impl Iterator<Item = &str> {
        self.recipients.iter().map(|recipient| without_brackets(recipient))
    }

    /// Refuses arguments that cannot be written to a control file.
    ///
    /// A line end in an argument would add a line to the control file, for example another
    /// recipient.
    pub fn check(&self) -> Result<(), String> {
        let texts = [
            ("sender", Some(&self.from)),
            ("name", self.full_name.as_ref()),
            ("channel", Some(&self.channel)),
            ("host", self.host.as_ref()),
            ("notify value", self.notify.as_ref()),
            ("key", self.bulk.key.as_ref()),
            ("list", self.bulk.list.as_ref()),
        ];
        let recipients = self.recipients.iter().map(|recipient| ("recipient", Some(recipient)));
        for (what, text) in texts.into_iter().chain(recipients) {
            if let Some(text) = text.filter(|text| text.contains(char::is_control)) {
                return Err(format!("the {what} {text:?} contains control characters"));
            }
        }
        if self.channel.is_empty() || self.recipients().any(str::is_empty) {
            return Err("a channel or recipient is empty".to_string());
        }
        // Agents compare channels byte by byte, and the scheduler keeps them in lower case.
        if self.channel.chars().any(|c| c.is_whitespace() || c.is_uppercase()) {
            return Err(format!("the channel {:?} is not a word in lower case", self.channel));
        }
        match &self.notify {
            Some(when) if !is_notify_value(when) => Err(format!(
                "-N {when}: NEVER, or some of SUCCESS, FAILURE and DELAY with commas between"
            )),
            _ => Ok(()),
        }
    }
}

pub(crate) fn without_brackets(address: &str) -> &str {
    address.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(address)
}

/// Returns true if the text is a valid value for `NOTIFY=` (RFC 3461, 4.1).
pub(crate) fn is_notify_value(text: &str) -> bool {
    let is_event = |word: &str| {
        ["SUCCESS", "FAILURE", "DELAY"].iter().any(|event| word.eq_ignore_ascii_case(event))
    };
    text.eq_ignore_ascii_case("NEVER") || text.split(',').all(is_event)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> SubmitOptions {
        SubmitOptions::try_parse_from([&["submit"], arguments].concat()).expect("options")
    }

    #[test]
    fn sendmail_options_are_accepted() {
        let given =
            options(&["-oi", "-oem", "-i", "-t", "-bm", "-F", "A. B.", "-f", "<a@b>", "--", "-c"]);
        assert_eq!(given.sender(), Some("a@b"));
        assert_eq!(given.recipients().collect::<Vec<_>>(), ["-c"]);
        assert_eq!(given.check(), Ok(()));
        assert!(options(&["-t"]).recipients().next().is_none());
        for wrong in [&["-bs", "x"][..], &["-x", "y"], &[]] {
            let arguments = [&["submit"], wrong].concat();
            assert!(SubmitOptions::try_parse_from(arguments).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn empty_sender_is_the_null_sender() {
        for nobody in ["", "<>"] {
            assert_eq!(options(&["-f", nobody, "x"]).sender(), None, "{nobody:?}");
        }
    }

    #[test]
    fn control_character_in_argument_is_refused() {
        for evil in ["a\nb", "a@b\n\nr           prog - x 0\nm", "a\r", "\u{7f}", "a\tb", "\u{85}"]
        {
            for option in ["-f", "-F", "-c", "-n", "-N"] {
                let refused = options(&[option, evil, "bob"]).check().expect_err(evil);
                assert!(refused.contains("control characters"), "{option} {refused}");
            }
            options(&["bob", evil]).check().expect_err(evil);
        }
        options(&["-f", "Jörg \"x\" <y>@z", "bob"]).check().expect("odd, but on one line");
        options(&[""]).check().expect_err("nobody");
        options(&["-c", "", "bob"]).check().expect_err("no channel");
    }

    #[test]
    fn invalid_notify_value_is_refused() {
        for (wish, is_good) in [
            ("NEVER", true),
            ("never", true),
            ("success,FAILURE,Delay", true),
            ("NEVER,SUCCESS", false),
            ("SUCCESS FAILURE", false),
            ("FAILURE ORCPT=x", false),
            ("FAILURE,", false),
            ("", false),
        ] {
            assert_eq!(options(&["-N", wish, "bob"]).check().is_ok(), is_good, "{wish:?}");
        }
    }
}
