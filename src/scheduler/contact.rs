//! What the reports about a thread say of its host: does it answer, or is it no use to try it with
//! anything else? New mail waits for the retry time of its thread in the second case, and not in the
//! first ([`arrive`](super::arrive) has the rule).

use super::Scheduler;
use super::thread::ThreadId;
use crate::control_file::diagnostic::NOTARY_SEPARATOR;
use serde::{Deserialize, Serialize};

/// So many jobs that have ended in a row with something left to do make a host doubtful, even if nobody
/// says that it cannot be reached.
const DOUBTFUL: u8 = 3;
/// So many make it hopeless: while agents are at work on other mail for it, too.
const HOPELESS: u8 = 10;

/// What is known of a host since the last wake-up of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Contact {
    /// Nothing was delivered or refused; and so many jobs have ended with something left to do.
    Unknown(u8),
    /// Something was; and so many jobs have ended so since.
    Answers(u8),
    /// The last report that says anything of the host says that it cannot be reached.
    Lost,
}

impl Contact {
    /// Nobody has tried it yet.
    pub const NONE: Contact = Contact::Unknown(0);
    /// Something was delivered or refused just now.
    pub const MADE: Contact = Contact::Answers(0);

    /// Whether the host seems to answer.
    pub fn is_good(self) -> bool {
        matches!(self, Contact::Answers(in_vain) if in_vain < DOUBTFUL)
    }

    /// Whether it is no use to try the host with anything new before the wake-up.
    pub fn is_hopeless(self) -> bool {
        match self {
            Contact::Unknown(in_vain) | Contact::Answers(in_vain) => in_vain >= HOPELESS,
            Contact::Lost => true,
        }
    }
}

impl Default for Contact {
    fn default() -> Contact {
        Contact::NONE
    }
}

/// Whose fault it is that a recipient was deferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection's, or the host's as a whole.
    Host,
    /// This recipient's, or this message's: the host has answered.
    Recipient,
    /// The agent does not say.
    Unsaid,
}

impl Fault {
    /// Reads it from the notary data of a report: from the status code (RFC 3463), or a reply 421, by which
    /// a host closes the connection (RFC 5321, 3.8).
    pub fn of(notary: &[u8]) -> Fault {
        let mut fields = notary.split(|byte| *byte == NOTARY_SEPARATOR).skip(2);
        let (status, reply) = (fields.next(), fields.next());
        if reply.is_some_and(is_goodbye) {
            return Fault::Host;
        }
        match status.and_then(parse_status) {
            // Mail system full, or not accepting mail; no answer, bad connection, no route, no name service,
            // congestion.
            Some((3, 1 | 2) | (4, 0..=5)) => Fault::Host,
            // Address, mailbox, protocol, content, policy; features, size; a loop, time is up.
            Some((1 | 2 | 5 | 6 | 7, _) | (3, 3 | 4) | (4, 6 | 7)) => Fault::Recipient,
            _ => Fault::Unsaid,
        }
    }
}

/// `smtp; 421 closing`.
fn is_goodbye(reply: &[u8]) -> bool {
    let Some(semicolon) = reply.iter().position(|byte| *byte == b';') else {
        return false;
    };
    let (protocol, code) = (&reply[..semicolon], reply[semicolon + 1..].trim_ascii_start());
    let digits = code.iter().take_while(|byte| byte.is_ascii_digit()).count();
    protocol.trim_ascii().eq_ignore_ascii_case(b"smtp") && &code[..digits] == b"421"
}

/// Subject and detail of `4.4.1 (no answer)`.
fn parse_status(status: &[u8]) -> Option<(u16, u16)> {
    let word = status.trim_ascii_start().split(|byte| !byte.is_ascii_digit() && *byte != b'.');
    let mut numbers = std::str::from_utf8(word.into_iter().next()?).ok()?.split('.');
    let _class: u16 = numbers.next()?.parse().ok()?;
    let (subject, detail) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    numbers.next().is_none().then_some((subject, detail))
}

impl Scheduler {
    /// A final word about a recipient of a thread: its host answers.
    pub(super) fn contact_made(&mut self, thread: ThreadId) {
        let retry = &mut self.threads[thread].retry;
        let was_good = retry.contact.is_good();
        retry.contact = Contact::MADE;
        self.lessons += u64::from(!was_good && retry.wakeup.is_some());
    }

    /// A recipient of a thread was deferred.
    pub(super) fn contact_failed(&mut self, thread: ThreadId, notary: &[u8]) {
        let retry = &mut self.threads[thread].retry;
        if Fault::of(notary) == Fault::Host {
            retry.contact = Contact::Lost;
        }
    }

    /// An agent has ended a job, and there is something left to do. `notary` is of its last report about
    /// that, if it made any.
    pub(super) fn job_was_in_vain(&mut self, thread: ThreadId, notary: &[u8]) {
        if Fault::of(notary) == Fault::Recipient {
            return;
        }
        match &mut self.threads[thread].retry.contact {
            Contact::Unknown(in_vain) | Contact::Answers(in_vain) => {
                *in_vain = in_vain.saturating_add(1);
            }
            Contact::Lost => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_codes_tell_the_host_from_the_recipient() {
        for (status, reply, expected) in [
            ("4.4.1 (no answer)", "smtp; 466 (timed out)", Fault::Host),
            ("4.4.2", "", Fault::Host),
            ("4.3.2 (system not accepting mail)", "smtp; 450", Fault::Host),
            ("5.4.4", "", Fault::Host),
            ("4.7.0", "smtp; 421 too many errors", Fault::Host),
            ("", "SMTP;421-bye", Fault::Host),
            ("4.2.2 (mailbox full)", "smtp; 452 (mailbox full)", Fault::Recipient),
            ("4.7.1", "smtp; 450 greylisted", Fault::Recipient),
            ("4.4.7", "", Fault::Recipient),
            ("4.3.0", "smtp; 451 local error", Fault::Unsaid),
            ("4.4", "", Fault::Unsaid),
            ("4.4.1.2", "", Fault::Unsaid),
            ("4.99999999.1", "x-local; 421", Fault::Unsaid),
            ("", "smtp; 4210", Fault::Unsaid),
            ("no status", "421", Fault::Unsaid),
        ] {
            let notary = format!("a@b\x01delayed\x01{status}\x01{reply}\x01host");
            assert_eq!(Fault::of(notary.as_bytes()), expected, "{status:?} {reply:?}");
        }
        for notary in ["", "n", "a\x01delayed", "\x01\x01\x01"] {
            assert_eq!(Fault::of(notary.as_bytes()), Fault::Unsaid, "{notary:?}");
        }
    }
}
