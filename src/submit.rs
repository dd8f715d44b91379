//! The program `submit`: puts one message into the spool, as a router would, without routing it. The
//! caller says which channel and host it goes by.

use crate::config::Zenv;
use crate::control_file::compose::{Address, Group, Recipient};
use crate::spool::submit::Submitter;
use crate::spool::{HashLevel, Spool};
use clap::{ArgAction, Parser};
use std::io::{self, Read};
use std::path::PathBuf;

/// Put a message, read from standard input, into the scheduler's spool
#[derive(Parser, Clone, Debug)]
#[command(name = "submit", version)]
pub struct Options {
    /// Who it is from
    #[arg(short = 'f', long = "from", value_name = "ADDRESS", default_value = "postmaster")]
    sender: String,

    /// The delivery channel
    #[arg(short = 'c', long = "channel", default_value = "local")]
    channel: String,

    /// The next host; by default none for the channel local, else what is behind the @ of each
    /// recipient
    #[arg(short = 'n', long = "next-host", value_name = "HOST")]
    host: Option<String>,

    /// When the sender wants to hear of it: NEVER, or of SUCCESS, FAILURE, DELAY
    #[arg(short = 'N', long = "notify", value_name = "WHEN")]
    notify: Option<String>,

    /// The ZENV file that says where the spool is
    #[arg(short = 'Z', long = "zenv", value_name = "FILE")]
    zenv: Option<PathBuf>,

    /// The spool
    #[arg(short = 'P', long = "postoffice", value_name = "FOLDER")]
    postoffice: Option<PathBuf>,

    /// The spool has single-letter folders; given twice, two levels of them
    #[arg(short = 'H', long = "hash", action = ArgAction::Count)]
    hash: u8,

    /// Who it is for
    #[arg(required = true, value_name = "RECIPIENT")]
    recipients: Vec<String>,
}

/// Runs the program. Returns the exit status.
pub fn main(options: &Options) -> i32 {
    match run(options) {
        Ok(name) => {
            println!("{name}");
            0
        }
        Err(error) => {
            eprintln!("submit: {error}");
            1
        }
    }
}

fn run(options: &Options) -> io::Result<String> {
    let zenv = options.zenv.as_ref().map(|path| Zenv::read(path)).transpose()?.unwrap_or_default();
    let postoffice = options.postoffice.clone();
    let postoffice = postoffice.or_else(|| zenv.get("POSTOFFICE").map(PathBuf::from));
    let postoffice = postoffice.ok_or_else(|| io::Error::other("where is the spool? -P or -Z"))?;
    let submitter = Submitter {
        spool: Spool::new(&postoffice),
        level: match (zenv.get("SCHEDULERDIRHASH"), options.hash) {
            (Some("1"), _) | (None, 1) => HashLevel::Once,
            (Some("2"), _) | (None, 2..) => HashLevel::Twice,
            _ => HashLevel::Flat,
        },
        sync: true,
    };
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let letter = Letter::compose(&text, options);
    let notify_socket = match zenv.get("SCHEDULERNOTIFY") {
        Some(path) => PathBuf::from(path.strip_prefix("UNIX:").unwrap_or(path)),
        None => postoffice.join(".scheduler.notify"),
    };
    let name = submitter.submit(letter.text.as_bytes(), &letter.id, vec![letter.group])?;
    submitter.notify(&notify_socket, &name)?;
    Ok(name.to_string())
}

/// What is put into the spool.
#[derive(Debug)]
pub struct Letter {
    /// The message: headers, empty line, body.
    pub text: String,
    /// Its Message-ID.
    pub id: String,
    /// The sender, the recipients, and the headers once more.
    pub group: Group,
}

impl Letter {
    /// What the command line and the text that it came with come to.
    pub fn compose(text: &str, options: &Options) -> Letter {
        let message = Message::complete(text, options);
        Letter {
            text: message.text(),
            id: message.id,
            group: Group {
                sender: Address::new("local", "", &options.sender, 0),
                recipients: options
                    .recipients
                    .iter()
                    .map(|user| recipient(options, user))
                    .collect(),
                headers: message.headers,
            },
        }
    }
}

fn recipient(options: &Options, user: &str) -> Recipient {
    let domain = user.rsplit_once('@').map_or("", |(_, domain)| domain);
    let default = if options.channel == "local" { "" } else { domain };
    let host = options.host.as_deref().unwrap_or(default);
    Recipient {
        address: Address::new(&options.channel, host, user, 65534),
        notify: options.notify.as_ref().map(|when| format!("NOTIFY={when}")).unwrap_or_default(),
    }
}

/// A message with the headers that every message has.
struct Message {
    id: String,
    headers: String,
    body: String,
}

impl Message {
    fn complete(text: &str, options: &Options) -> Message {
        let text = text.replace("\r\n", "\n");
        let (mut headers, body) = split(&text);
        let now = jiff::Zoned::now();
        let unique = format!("{}.{}", now.strftime("%Y%m%d%H%M%S%f"), std::process::id());
        let date = jiff::fmt::rfc2822::to_string(&now).unwrap_or_default();
        for (name, value) in [
            ("From", options.sender.clone()),
            ("To", options.recipients.join(", ")),
            ("Date", date),
            ("Message-ID", format!("<{unique}@localhost>")),
        ] {
            if header(&headers, name).is_none() {
                // An empty line among them would end the headers; what follows would be read as
                // recipients.
                headers.push_str(&format!("{name}: {}\n", value.replace(['\r', '\n'], " ")));
            }
        }
        let id = header(&headers, "Message-ID").unwrap_or_default().to_string();
        Message { id, headers, body: body.to_string() }
    }

    fn text(&self) -> String {
        format!("{}\n{}", self.headers, self.body)
    }
}

/// Splits a text into headers, with their line ends, and body. A text that does not begin with a
/// header is all body.
fn split(text: &str) -> (String, &str) {
    let begins_with_header = text.split_once(':').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic())
    });
    if !begins_with_header {
        return (String::new(), text.strip_prefix('\n').unwrap_or(text));
    }
    match text.split_once("\n\n") {
        Some((headers, body)) => (format!("{headers}\n"), body),
        None => (format!("{}\n", text.trim_end_matches('\n')), ""),
    }
}

fn header<'a>(headers: &'a str, name: &str) -> Option<&'a str> {
    headers.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_body_come_apart() {
        for (text, headers, body) in [
            ("Subject: x\n\nbody\n", "Subject: x\n", "body\n"),
            ("Subject: x\n folded\n\n\nbody", "Subject: x\n folded\n", "\nbody"),
            ("Subject: x", "Subject: x\n", ""),
            ("no header at all\n\nhere: or there", "", "no header at all\n\nhere: or there"),
            ("\nonly a body", "", "only a body"),
            ("", "", ""),
        ] {
            assert_eq!(split(text), (headers.to_string(), body), "{text:?}");
        }
    }

    #[test]
    fn a_header_that_is_there_is_not_added() {
        let options = Options::parse_from(["submit", "-f", "alice@x", "bob"]);
        let message =
            Message::complete("from: carol@y\r\nmessage-id: <1@y>\r\n\r\nhi\r\n", &options);
        assert_eq!(message.id, "<1@y>");
        assert_eq!(header(&message.headers, "From"), Some("carol@y"));
        assert_eq!(header(&message.headers, "To"), Some("bob"));
        assert_eq!(message.body, "hi\n");
    }

    #[test]
    fn an_address_cannot_end_the_headers() {
        let options = Options::parse_from(["submit", "-f", "a\n\nr x\r\n", "b\nc"]);
        let message = Message::complete("hi\n", &options);
        assert_eq!(header(&message.headers, "From"), Some("a  r x"));
        assert_eq!(header(&message.headers, "To"), Some("b c"));
        assert!(!message.headers.contains("\n\n"), "{}", message.headers);
    }
}
