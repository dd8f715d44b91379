//! Postfix's policy delegation protocol (`SMTPD_POLICY_README`): a service decides about each
//! recipient.
//!
//! A request is lines `name=value` and an empty line; the reply is `action=…` and an empty line.
//! The actions are those of Postfix's access(5). What this server cannot do defers the recipient:
//! the service wants something, and accepting the mail as it is would be the wrong thing.

use super::service_stream::ServiceAddress;
use super::session::{Answer, RecipientQuestion, Reply};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::{Duration, Instant};
use zsched_format::header::Field;

/// Maximum time of an answer (`smtpd_policy_service_timeout`, which is 100 s).
pub(crate) const MAX_TIME: Duration = Duration::from_secs(20);
/// Maximum length of a reply, in bytes.
const MAX_REPLY_LEN: u64 = 8192;

/// Asks a service about a recipient. It has time until `end`.
pub(crate) fn ask(
    service: &ServiceAddress,
    question: &RecipientQuestion,
    end: Instant,
) -> io::Result<Answer> {
    let action = exchange(service.connect(end)?, &request(question))?;
    Ok(answer(&action, question))
}

/// The answer about a recipient while the service does not answer, as in Postfix.
pub(crate) fn unavailable() -> Answer {
    Answer::Reply(Reply::new(451, "4.3.5", "The policy service does not answer"))
}

/// Sends a request. Returns the action.
fn exchange(mut stream: impl Read + Write, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(stream).take(MAX_REPLY_LEN);
    let mut action = None;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match (line.trim_end_matches(['\r', '\n']), action) {
            ("", Some(action)) => return Ok(action),
            (line, former) => action = line.strip_prefix("action=").map(str::to_string).or(former),
        }
    }
}

fn request(question: &RecipientQuestion) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let ip = |ip: std::net::IpAddr| ip.to_canonical().to_string();
    let tls = question.tls.as_ref();
    let (session, message) = question.instance;
    let attributes = [
        ("request", "smtpd_access_policy".to_string()),
        ("protocol_state", "RCPT".into()),
        ("protocol_name", question.protocol.into()),
        ("instance", format!("{:x}.{session:x}.{message:x}", std::process::id())),
        ("client_address", question.ip.map(ip).unwrap_or_default()),
        ("client_name", "unknown".into()),
        ("client_port", question.port.to_string()),
        ("reverse_client_name", "unknown".into()),
        ("server_address", question.server.map(|server| ip(server.ip())).unwrap_or_default()),
        ("server_port", question.server.map_or(String::new(), |server| server.port().to_string())),
        ("helo_name", question.client_name.clone()),
        ("sender", text(&question.sender)),
        ("recipient", question.recipient.clone()),
        ("recipient_count", "0".into()),
        ("queue_id", String::new()),
        ("size", question.size.unwrap_or(0).to_string()),
        ("etrn_domain", String::new()),
        ("stress", String::new()),
        ("sasl_method", question.login_method.unwrap_or_default().into()),
        ("sasl_username", text(&question.login)),
        ("sasl_sender", String::new()),
        ("ccert_subject", String::new()),
        ("ccert_issuer", String::new()),
        ("ccert_fingerprint", String::new()),
        ("ccert_pubkey_fingerprint", String::new()),
        ("encryption_protocol", tls.map_or(String::new(), |tls| tls.version.clone())),
        ("encryption_cipher", tls.map_or(String::new(), |tls| tls.cipher.clone())),
        ("encryption_keysize", tls.map_or(0, |tls| tls.key_bits).to_string()),
        ("policy_context", String::new()),
    ];
    // A line end in a value would begin another attribute.
    let line = |(name, value): (&str, String)| format!("{name}={}\n", value.replace('\n', " "));
    attributes.map(line).concat() + "\n"
}

/// What an action means (access(5) of Postfix). No further check follows.
fn answer(action: &str, question: &RecipientQuestion) -> Answer {
    let (word, text) = action.trim().split_once([' ', '\t']).unwrap_or((action.trim(), ""));
    let text = text.trim();
    let or = |default: &str| if text.is_empty() { default.to_string() } else { text.to_string() };
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let client = || {
        let ip = question.ip.map_or("stdin".into(), |ip| ip.to_string());
        format!("{}[{ip}], to=<{}>", question.client_name, question.recipient)
    };
    Answer::Reply(match &*word.to_ascii_uppercase() {
        // DEFER_IF_REJECT defers what a later check rejects, and there is none.
        "OK" | "DUNNO" | "PERMIT" | "DEFER_IF_REJECT" => Reply::recipient_ok(),
        "INFO" => {
            log::info!("policy: {}: {text}", client());
            Reply::recipient_ok()
        }
        "WARN" => {
            log::warn!("policy: {}: {text}", client());
            Reply::recipient_ok()
        }
        "PREPEND" => match header(text) {
            Some(header) => return Answer::Prepend(header),
            None => cannot("PREPEND without a header"),
        },
        "REJECT" => coded(554, "5.7.1", &or("Refused by policy")),
        "DEFER" | "DEFER_IF_PERMIT" => coded(450, "4.7.1", &or("Deferred by policy")),
        code if code.len() == 3 && is_number(code) && code.starts_with(['4', '5']) => {
            let is_permanent = code.starts_with('5');
            let code = code.parse().unwrap_or(450);
            match is_permanent {
                true => coded(code, "5.7.1", &or("Refused by policy")),
                false => coded(code, "4.7.1", &or("Deferred by policy")),
            }
        }
        // Another number is what services say that allow relaying (access(5)).
        number if !number.is_empty() && is_number(number) => Reply::recipient_ok(),
        _ => cannot(word),
    })
}

/// A header line of PREPEND, with its line end.
fn header(text: &str) -> Option<String> {
    let line = format!("{text}\n");
    let field = Field::begin(line.as_bytes())?;
    (!text.contains(char::is_control) && !field.value().is_empty()).then_some(line)
}

/// Defers a recipient for which the service wants what is not possible here.
fn cannot(action: &str) -> Reply {
    log::error!("the policy service wants {action}, which this server cannot do");
    Reply::new(451, "4.3.5", "The policy of this host cannot be carried out")
}

/// A reply whose text may begin with a status code of its own.
fn coded(code: u16, status: &'static str, text: &str) -> Reply {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let is_status = word.starts_with(&status[..2])
        && word.split('.').count() == 3
        && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match is_status {
        true => Reply::new(code, word.to_string(), rest),
        false => Reply::new(code, status, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_those_of_access_tables() {
        let (good, cannot) =
            ("250 2.1.5 Ok", "451 4.3.5 The policy of this host cannot be carried out");
        for (action, expected) in [
            ("DUNNO", good),
            ("ok", good),
            ("OK with a text", good),
            ("1234567", good),
            ("INFO seen", good),
            ("WARN odd", good),
            ("DEFER_IF_REJECT x", good),
            ("PREPEND X-A: b", "header X-A: b\n"),
            ("PREPEND no header", cannot),
            ("PREPEND X-A:", cannot),
            ("REJECT", "554 5.7.1 Refused by policy"),
            ("REJECT 5.1.8 bad sender", "554 5.1.8 bad sender"),
            ("DEFER", "450 4.7.1 Deferred by policy"),
            ("defer_if_permit Greylisted", "450 4.7.1 Greylisted"),
            ("550 no such user", "550 5.7.1 no such user"),
            ("521", "521 5.7.1 Refused by policy"),
            ("421 4.7.0 later", "421 4.7.0 later"),
            ("HOLD", cannot),
            ("DISCARD", cannot),
            ("REDIRECT a@b", cannot),
            ("FILTER x:y", cannot),
            ("BCC a@b", cannot),
            ("reject_unauth_destination", cannot),
            ("4x0 what", cannot),
            ("", cannot),
        ] {
            let found = match answer(action, &RecipientQuestion::default()) {
                Answer::Reply(reply) => reply.to_string(),
                Answer::Prepend(header) => format!("header {header}"),
                other => panic!("{other:?}"),
            };
            assert_eq!(found, expected, "{action:?}");
        }
    }

    #[test]
    fn values_begin_no_other_attribute() {
        let question =
            RecipientQuestion { client_name: "x\nsasl_username=eve".into(), ..Default::default() };
        assert!(!request(&question).contains("\nsasl_username=eve"));
        assert!(request(&question).ends_with("\n\n"));
    }
}
