//! Commands and their parameters (RFC 5321, 4.1; RFC 1870, 2852, 3030, 3461, 6152, 6531).
//!
//! A well-known crate for this grammar removes the quotes of local parts and ignores what follows
//! a command, so a recipient could change on its way through. Here both are kept or refused.

use super::reply::Reply;
use std::str::FromStr;
use zsched_router::MailAddress;

/// Maximum length of the name in EHLO, in bytes (RFC 5321, 4.5.3.1.2).
const MAX_NAME_LEN: usize = 255;
/// Maximum length of an envelope id, in bytes (RFC 3461, 4.4).
const MAX_ENVELOPE_ID_LEN: usize = 100;
/// Maximum length of an original recipient, in bytes (RFC 3461, 4.2).
const MAX_ORCPT_LEN: usize = 500;

/// How a client says hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloVerb {
    /// RFC 821.
    Helo,
    /// With extensions.
    Ehlo,
    /// LMTP (RFC 2033).
    Lhlo,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Hello(HelloVerb, String),
    /// `None` is the null sender.
    Mail(Option<String>, MailParameters),
    Rcpt(String, RcptParameters),
    Data,
    Bdat {
        size: u64,
        is_last: bool,
    },
    Rset,
    Noop,
    Help,
    Vrfy,
    Expn,
    Quit,
    StartTls,
    Auth {
        mechanism: String,
        initial: Option<String>,
    },
    Etrn(String),
}

/// Parameters of MAIL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MailParameters {
    /// Size that the client states, in bytes.
    pub size: Option<u64>,
    /// `7BIT` or `8BITMIME`.
    pub body_type: Option<&'static str>,
    /// Addresses and headers may be in UTF-8.
    pub is_utf8: bool,
    /// `FULL` or `HDRS`.
    pub return_mode: Option<&'static str>,
    /// xtext.
    pub envelope_id: Option<String>,
    /// Seconds and mode, such as `120;R` (RFC 2852).
    pub deliver_by: Option<String>,
    /// When it may be delivered at the earliest (RFC 4865).
    pub hold: Option<Hold>,
    /// -9 to 9, the highest is the most urgent (RFC 6710).
    pub priority: Option<i8>,
}

/// The first time at which a message may be delivered (RFC 4865).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Seconds from now.
    For(u32),
    /// Seconds since the epoch.
    Until(i64),
}

/// Parameters of RCPT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RcptParameters {
    /// `NEVER`, or a list of events.
    pub notify: Option<String>,
    /// Address type and xtext.
    pub original: Option<String>,
}

/// Parses a line without its line end.
pub(crate) fn parse(line: &[u8]) -> Result<Command, Reply> {
    let text = std::str::from_utf8(line)
        .map_err(|_| Reply::new(500, "5.5.2", "The command is not UTF-8"))?;
    if text.contains(char::is_control) {
        return Err(Reply::new(500, "5.5.2", "A control character in the command"));
    }
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim_matches(' ');
    let alone = |command| match rest {
        "" => Ok(command),
        _ => Err(Reply::bad_argument("This command has no argument")),
    };
    match &*verb.to_ascii_uppercase() {
        "HELO" => Ok(Command::Hello(HelloVerb::Helo, host_name(rest)?)),
        "EHLO" => Ok(Command::Hello(HelloVerb::Ehlo, host_name(rest)?)),
        "LHLO" => Ok(Command::Hello(HelloVerb::Lhlo, host_name(rest)?)),
        "MAIL" => mail(rest),
        "RCPT" => rcpt(rest),
        "DATA" => alone(Command::Data),
        "BDAT" => bdat(rest),
        "RSET" => alone(Command::Rset),
        "NOOP" => Ok(Command::Noop),
        "HELP" => Ok(Command::Help),
        "VRFY" => Ok(Command::Vrfy),
        "EXPN" => Ok(Command::Expn),
        "QUIT" => alone(Command::Quit),
        "STARTTLS" => alone(Command::StartTls),
        "AUTH" => auth(rest),
        "ETRN" => etrn(rest),
        _ => Err(Reply::new(500, "5.5.1", "Unknown command")),
    }
}

fn host_name(text: &str) -> Result<String, Reply> {
    let name = text.split(' ').next().unwrap_or_default();
    match name.len() {
        0 => Err(Reply::bad_argument("The name of the client is missing")),
        1..=MAX_NAME_LEN => Ok(name.into()),
        _ => Err(Reply::bad_argument("The name of the client is too long")),
    }
}

fn auth(text: &str) -> Result<Command, Reply> {
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    let (mechanism, initial) = (words.next(), words.next().map(str::to_string));
    match (mechanism, words.next()) {
        (Some(mechanism), None) => {
            Ok(Command::Auth { mechanism: mechanism.to_ascii_uppercase(), initial })
        }
        _ => Err(Reply::bad_argument("AUTH mechanism [initial response]")),
    }
}

fn etrn(text: &str) -> Result<Command, Reply> {
    let host = text.strip_prefix(['@', '#']).unwrap_or(text).to_ascii_lowercase();
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    match !host.is_empty() && host.len() <= MAX_NAME_LEN && host.chars().all(is_part) {
        true => Ok(Command::Etrn(host)),
        false => Err(Reply::bad_argument("ETRN domain")),
    }
}

fn bdat(text: &str) -> Result<Command, Reply> {
    let (size, last) = text.split_once(' ').unwrap_or((text, ""));
    let is_last = last.trim().eq_ignore_ascii_case("LAST");
    match number(size) {
        Some(size) if is_last || last.trim().is_empty() => Ok(Command::Bdat { size, is_last }),
        _ => Err(Reply::bad_argument("BDAT size [LAST]")),
    }
}

/// A number of at most 18 digits.
fn number(text: &str) -> Option<u64> {
    let is_number = (1..=18).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn mail(text: &str) -> Result<Command, Reply> {
    let usage = || Reply::bad_argument("MAIL FROM:<address> [parameters]");
    let (path, rest) = path_after(text, "FROM:").ok_or_else(usage)?;
    let mut parameters = MailParameters::default();
    each_parameter(rest, |name, value| mail_parameter(name, value, &mut parameters))?;
    let sender = match path {
        "" => None,
        path => Some(address(path, parameters.is_utf8, 553)?),
    };
    Ok(Command::Mail(sender, parameters))
}

fn rcpt(text: &str) -> Result<Command, Reply> {
    let usage = || Reply::bad_argument("RCPT TO:<address> [parameters]");
    let (path, rest) = path_after(text, "TO:").ok_or_else(usage)?;
    let mut parameters = RcptParameters::default();
    each_parameter(rest, |name, value| rcpt_parameter(name, value, &mut parameters))?;
    Ok(Command::Rcpt(address(path, true, 553)?, parameters))
}

/// Splits `FROM:<path> rest` into path and rest.
///
/// Blanks after the colon are accepted, as many clients send one.
fn path_after<'t>(text: &'t str, word: &str) -> Option<(&'t str, &'t str)> {
    let before = text.get(..word.len()).filter(|before| before.eq_ignore_ascii_case(word))?;
    let inside = text[before.len()..].trim_start_matches(' ').strip_prefix('<')?;
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in inside.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '>' if !is_quoted => {
                let rest = &inside[at + 1..];
                return (rest.is_empty() || rest.starts_with(' ')).then_some((&inside[..at], rest));
            }
            _ => {}
        }
    }
    None
}

/// Checks an address. A source route is removed.
fn address(path: &str, is_utf8: bool, code: u16) -> Result<String, Reply> {
    if !path.is_ascii() && !is_utf8 {
        return Err(Reply::new(code, "5.6.7", "An address in UTF-8 needs SMTPUTF8"));
    }
    match MailAddress::parse(path) {
        Ok(address) => Ok(address.to_string()),
        Err(error) => Err(Reply::new(code, error.status, format!("Wrong address: {error}"))),
    }
}

/// Takes each `NAME=value`, with the name in upper case. None may be there twice.
fn each_parameter(
    text: &str,
    mut take: impl FnMut(&str, &str) -> Result<(), Reply>,
) -> Result<(), Reply> {
    let mut names: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let name = name.to_ascii_uppercase();
        if names.contains(&name) {
            return Err(Reply::bad_argument(format!("The parameter {name} is there twice")));
        }
        take(&name, value)?;
        names.push(name);
    }
    Ok(())
}

fn mail_parameter(name: &str, value: &str, parameters: &mut MailParameters) -> Result<(), Reply> {
    let wrong = || Err(Reply::bad_argument(format!("Wrong value of {name}")));
    let upper = value.to_ascii_uppercase();
    match (name, &*upper) {
        ("SIZE", _) => match number(value) {
            Some(size) => parameters.size = Some(size),
            None => return wrong(),
        },
        ("BODY", "7BIT") => parameters.body_type = Some("7BIT"),
        ("BODY", "8BITMIME") => parameters.body_type = Some("8BITMIME"),
        ("SMTPUTF8", "") => parameters.is_utf8 = true,
        ("RET", "FULL") => parameters.return_mode = Some("FULL"),
        ("RET", "HDRS") => parameters.return_mode = Some("HDRS"),
        ("ENVID", _) if is_xtext(value) && value.len() <= MAX_ENVELOPE_ID_LEN => {
            parameters.envelope_id = Some(value.into());
        }
        // The submitter on another host is not passed on (RFC 4954, 5).
        ("AUTH", _) if value == "<>" || is_xtext(value) => {}
        ("BY", _) => match deliver_by(&upper) {
            Some(by) => parameters.deliver_by = Some(by),
            None => return wrong(),
        },
        ("HOLDFOR" | "HOLDUNTIL", _) => match hold(name, &upper) {
            Some(hold) if parameters.hold.is_none() => parameters.hold = Some(hold),
            _ => return wrong(),
        },
        ("MT-PRIORITY", _) => match i8::from_str(value) {
            Ok(priority) if (-9..=9).contains(&priority) && !value.starts_with('+') => {
                parameters.priority = Some(priority);
            }
            _ => return wrong(),
        },
        ("BODY" | "SMTPUTF8" | "RET" | "ENVID" | "AUTH", _) => return wrong(),
        _ => return Err(Reply::new(555, "5.5.4", format!("Unknown parameter {name}"))),
    }
    Ok(())
}

/// Parses the time of RFC 4865: 1 to 9 digits, or a time in UTC.
fn hold(name: &str, value: &str) -> Option<Hold> {
    if name == "HOLDFOR" {
        let is_short = (1..=9).contains(&value.len());
        let seconds = number(value).filter(|seconds| is_short && *seconds > 0)?;
        return Some(Hold::For(seconds as u32));
    }
    let instant: jiff::Timestamp = value.strip_suffix('Z').and(value.parse().ok())?;
    Some(Hold::Until(instant.as_second()))
}

/// Checks the time of RFC 2852, `[+-]seconds;mode`. A message to be returned needs a future time.
fn deliver_by(value: &str) -> Option<String> {
    let (time, mode) = value.split_once(';')?;
    let time = time.strip_prefix('+').unwrap_or(time);
    let seconds = i64::from_str(time).ok().filter(|_| time.len() <= 10)?;
    let is_good = match mode {
        "N" | "NT" => true,
        "R" | "RT" => seconds > 0,
        _ => false,
    };
    is_good.then(|| format!("{seconds};{mode}"))
}

fn rcpt_parameter(name: &str, value: &str, parameters: &mut RcptParameters) -> Result<(), Reply> {
    match name {
        "NOTIFY" if is_notify(&value.to_ascii_uppercase()) => {
            parameters.notify = Some(value.to_ascii_uppercase());
        }
        "ORCPT" if is_original(value) => parameters.original = Some(value.into()),
        "NOTIFY" | "ORCPT" => {
            return Err(Reply::bad_argument(format!("Wrong value of {name}")));
        }
        _ => return Err(Reply::new(555, "5.5.4", format!("Unknown parameter {name}"))),
    }
    Ok(())
}

fn is_notify(value: &str) -> bool {
    let is_event = |event: &str| matches!(event, "SUCCESS" | "FAILURE" | "DELAY");
    value == "NEVER" || value.split(',').all(is_event)
}

fn is_original(value: &str) -> bool {
    let is_type = |kind: &str| {
        !kind.is_empty() && kind.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let parts = value.split_once(';').filter(|_| value.len() <= MAX_ORCPT_LEN);
    // RFC 6533 allows addresses in UTF-8 here.
    parts.is_some_and(|(kind, text)| is_type(kind) && !text.is_empty() && !text.contains('='))
}

fn is_xtext(value: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_graphic() && byte != b'=';
    !value.is_empty() && value.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn code(line: &str) -> u16 {
        parse(line.as_bytes()).expect_err(line).code
    }

    #[test]
    fn addresses_keep_their_quotes() {
        for (line, expected) in [
            ("MAIL FROM:<a@B.test>", Some("a@b.test")),
            ("mail from: <a@b>", Some("a@b")),
            ("MAIL FROM:<>", None),
            ("MAIL FROM:<\"a b\"@c> SIZE=1", Some("\"a b\"@c")),
            ("MAIL FROM:<\"a>b\"@c>", Some("\"a>b\"@c")),
            ("MAIL FROM:<@relay.test:a@b>", Some("a@b")),
            ("MAIL FROM:<\u{e9}@b> SMTPUTF8", Some("\u{e9}@b")),
            ("MAIL FROM:<postmaster>", Some("postmaster")),
        ] {
            let Ok(Command::Mail(sender, _)) = parse(line.as_bytes()) else { panic!("{line}") };
            assert_eq!(sender.as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn parameters_are_checked() {
        let line = "MAIL FROM:<a@b> SIZE=12 BODY=8bitmime RET=hdrs ENVID=a+2Bb BY=+120;rt AUTH=<>";
        let Ok(Command::Mail(_, given)) = parse(line.as_bytes()) else { panic!("{line}") };
        assert_eq!(given.size, Some(12));
        assert_eq!((given.body_type, given.return_mode), (Some("8BITMIME"), Some("HDRS")));
        assert_eq!(given.envelope_id.as_deref(), Some("a+2Bb"));
        assert_eq!(given.deliver_by.as_deref(), Some("120;RT"));
        let line = "MAIL FROM:<a@b> HOLDUNTIL=1970-01-01T00:01:00Z MT-PRIORITY=-4";
        let Ok(Command::Mail(_, given)) = parse(line.as_bytes()) else { panic!("{line}") };
        assert_eq!((given.hold, given.priority), (Some(Hold::Until(60)), Some(-4)));
        let line = "RCPT TO:<a@b> NOTIFY=success,DELAY ORCPT=rfc822;x+3D@y";
        let Ok(Command::Rcpt(_, given)) = parse(line.as_bytes()) else { panic!("{line}") };
        assert_eq!(given.notify.as_deref(), Some("SUCCESS,DELAY"));
        assert_eq!(given.original.as_deref(), Some("rfc822;x+3D@y"));
    }

    #[test]
    fn wrong_commands_are_refused() {
        for (line, expected) in [
            ("", 500),
            ("WHAT", 500),
            ("EHLO", 501),
            ("EHLO a\tb", 500),
            ("DATA now", 501),
            ("MAIL FROM:a@b", 501),
            ("MAIL FROM:<a@b", 501),
            ("MAIL FROM:<a@b>SIZE=1", 501),
            ("MAIL FROM:<a b@c>", 553),
            ("MAIL FROM:<\u{e9}@b>", 553),
            ("MAIL FROM:<a@b> SIZE=x", 501),
            ("MAIL FROM:<a@b> SIZE=99999999999999999999", 501),
            ("MAIL FROM:<a@b> BODY=BINARYMIME", 501),
            ("MAIL FROM:<a@b> HOLDFOR=0", 501),
            ("MAIL FROM:<a@b> HOLDFOR=1000000000", 501),
            ("MAIL FROM:<a@b> HOLDUNTIL=2026-11-24T18:00:00+01:00", 501),
            ("MAIL FROM:<a@b> HOLDFOR=1 HOLDUNTIL=2026-11-24T18:00:00Z", 501),
            ("MAIL FROM:<a@b> SIZE=1 size=2", 501),
            ("RCPT TO:<a@b> NOTIFY=NEVER NOTIFY=DELAY", 501),
            ("MAIL FROM:<a@b> MT-PRIORITY=10", 501),
            ("MAIL FROM:<a@b> SOLICIT=x", 555),
            ("MAIL FROM:<a@b> BY=0;R", 501),
            ("MAIL FROM:<a@b> ENVID=", 501),
            ("RCPT TO:<>", 553),
            ("RCPT TO:<a@b> NOTIFY=NEVER,DELAY", 501),
            ("RCPT TO:<a@b> ORCPT=x", 501),
            ("RCPT TO:<a@b> X=y", 555),
            ("BDAT x", 501),
            ("BDAT 1 FIRST", 501),
            ("AUTH", 501),
            ("ETRN a b", 501),
        ] {
            assert_eq!(code(line), expected, "{line}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_lines_do_not_panic(
            line in "(MAIL FROM:|RCPT TO:|BDAT |AUTH |EHLO |)[<>@\"\\\\a=;, \u{e9}]{0,12}",
        ) {
            drop(parse(line.as_bytes()));
        }
    }
}
