//! What a dialogue means for recipients: outcomes with codes, texts and the remote host.

use crate::connection::Lost;
use crate::session::{HandshakeFailure, RecipientState, Refusal, Reply, Transaction};
use std::fmt;
use std::net::SocketAddr;
use zsched_agent::{Outcome, Verdict};
use zsched_mail_exchanger::{PolicyError, RouteError, TlsError, Unresolved};

/// The name of this agent in notary data.
const AGENT: &str = "smtp";

/// The peer of a connection, in the words of reports (RFC 3464, 2.3.5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// The host name, the address in brackets, or the path of a socket.
    pub name: String,
    /// The addresses of both ends, as `192.0.2.1|25|192.0.2.9|40000`.
    pub addresses: String,
}

impl Remote {
    /// Creates the description of a peer.
    pub fn new(name: &str, addresses: Option<(SocketAddr, Option<SocketAddr>)>) -> Remote {
        let one = |address: SocketAddr| format!("{}|{}", address.ip(), address.port());
        let addresses = addresses.map(|(peer, local)| match local {
            Some(local) => format!("{}|{}", one(peer), one(local)),
            None => one(peer),
        });
        Remote { name: name.to_string(), addresses: addresses.unwrap_or_default() }
    }

    /// The field of notary data: `dns; mx.test (192.0.2.1|25|192.0.2.9|40000)`.
    fn notary(&self) -> String {
        let kind = match self.name.as_bytes().first() {
            None => return String::new(),
            Some(b'[') => "X-IP-addr",
            Some(b'/') => "x-unix",
            Some(_) => "dns",
        };
        format!("{kind}; {self}")
    }

    /// Completes an outcome with the peer and the agent.
    pub fn complete(&self, outcome: Outcome) -> Outcome {
        outcome.with_remote_host(self.notary()).with_agent(AGENT)
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.addresses.is_empty() {
            true => f.write_str(&self.name),
            false => write!(f, "{} ({})", self.name, self.addresses),
        }
    }
}

/// What a positive answer means: a report by the server, by the scheduler, or a final delivery.
pub fn accepted(is_final: bool, has_dsn: bool) -> Verdict {
    match (is_final, has_dsn) {
        (_, true) => Verdict::PassedOn,
        (true, false) => Verdict::Delivered,
        (false, false) => Verdict::Relayed,
    }
}

/// The outcome of a recipient after its transaction.
///
/// `lost` is why the transaction has ended early, if it has.
pub fn of_recipient(
    transaction: &Transaction,
    index: usize,
    accepted: Verdict,
    lost: Option<&Lost>,
) -> Outcome {
    let transcript = transaction.transcript(index);
    match transaction.state(index) {
        RecipientState::Accepted(reply) => of_reply(accepted, reply).with_text(transcript),
        RecipientState::Refused(reply) => {
            let outcome = refused(reply);
            // RFC 5321, 4.5.3.1.10: 552 for too many recipients is 452.
            let is_temporary = means_too_many(reply) && outcome.verdict() == Verdict::Failed;
            let outcome = if is_temporary { too_many(reply) } else { outcome };
            outcome.with_text(transcript)
        }
        RecipientState::MessageRefused(reply) => refused(reply).with_text(transcript),
        RecipientState::Closed(reply) => {
            let outcome = of_closed(reply);
            let text = format!("{transcript}\r->> {}", outcome.text());
            let text = if transcript.ends_with(reply.text()) { transcript } else { text };
            outcome.with_text(text)
        }
        RecipientState::Unanswered => {
            let outcome = match lost {
                Some(lost) => of_lost(lost),
                None => Outcome::new(Verdict::Deferred, "4.5.0", 451, "no answer of the host"),
            };
            let warning = match transaction.may_be_delivered(index) {
                true => "; the message was sent, and may arrive twice",
                false => "",
            };
            let text = format!("{transcript}\r{}{warning}", outcome.text());
            outcome.with_text(text)
        }
    }
}

/// Returns true if the next server may take a refused recipient.
///
/// The server has put off the message as a whole, or the connection was lost before the end of the
/// message (RFC 5321, 5.1). What it says about the recipient is an answer, and so is each reply
/// of LMTP.
pub fn is_for_next_server(transaction: &Transaction, index: usize, lost: Option<&Lost>) -> bool {
    match (transaction.state(index), lost) {
        (_, Some(Lost::Stopped | Lost::Message(_))) => false,
        (RecipientState::MessageRefused(reply), _) => {
            !transaction.has_reply_each() && reply.code() / 100 == 4
        }
        (RecipientState::Closed(_) | RecipientState::Unanswered, _) => {
            !transaction.may_be_delivered(index)
        }
        (RecipientState::Accepted(_) | RecipientState::Refused(_), _) => false,
    }
}

/// The outcome of recipients about which the server has said nothing before it said 421.
pub fn of_closed(reply: &Reply) -> Outcome {
    of_reply(Verdict::Relayed, reply).with_verdict(Verdict::Deferred)
}

/// Returns true if a reply to RCPT says that the transaction has too many recipients.
///
/// The recipient then has its turn in the next transaction (RFC 5321, 4.5.3.1.10).
pub fn means_too_many(reply: &Reply) -> bool {
    matches!((reply.code(), reply.status()), (452 | 552, "" | "4.5.3" | "5.5.3"))
}

fn too_many(reply: &Reply) -> Outcome {
    let text = reply.lines().collect::<Vec<_>>().join(" ");
    Outcome::new(Verdict::Deferred, "4.5.3", reply.code(), text).with_protocol("smtp")
}

/// The outcome for a reply that accepts nothing.
///
/// A positive one at a place where it accepts nothing is an error of the server.
fn refused(reply: &Reply) -> Outcome {
    match reply.code() / 100 {
        4 | 5 => of_reply(Verdict::Deferred, reply),
        _ => {
            let text = format!("protocol error of the host: {}", reply.text());
            Outcome::new(Verdict::Deferred, "4.5.0", 451, text)
        }
    }
}

fn of_reply(accepted: Verdict, reply: &Reply) -> Outcome {
    Outcome::from_smtp_reply(accepted, reply.text())
}

/// The outcome of recipients whose connection was lost.
pub fn of_lost(lost: &Lost) -> Outcome {
    let text = lost.to_string();
    match lost {
        Lost::Message(error) => Outcome::system_error("cannot read the message", error),
        Lost::Protocol(..) | Lost::Unexpected | Lost::Early => {
            Outcome::new(Verdict::Deferred, "4.5.0", 451, text)
        }
        Lost::Stopped => Outcome::new(Verdict::Deferred, "4.3.2", 451, text),
        Lost::Closed(_) | Lost::TimedOut(..) | Lost::JobOver(_) | Lost::Failed(..) => {
            Outcome::new(Verdict::Deferred, "4.4.2", 451, text)
        }
    }
}

/// The outcome where the server has refused the session.
///
/// It is about the host, so all mail for the host waits.
pub fn of_handshake_failure(failure: &HandshakeFailure) -> Outcome {
    match failure {
        HandshakeFailure::Refused { command, reply } => {
            let words = reply.lines().collect::<Vec<_>>().join(" ");
            let status = match reply.status() {
                "" if command == "AUTH" => "4.7.8".to_string(),
                "" => "4.3.2".to_string(),
                status => format!("4{}", &status[1..]),
            };
            let shown = if command.is_empty() { "the connection" } else { command };
            let text = format!(
                "\r<<- {shown}\r->> {}\rthe host refuses {shown}",
                reply.text().replace('\n', "\r->> "),
            );
            Outcome::new(Verdict::DeferAll, status, reply.code(), words)
                .with_protocol("smtp")
                .with_text(text)
        }
        HandshakeFailure::NoTls => {
            let text = "TLS is required, and the host does not offer STARTTLS";
            Outcome::new(Verdict::DeferAll, "4.7.4", 454, text)
        }
        HandshakeFailure::Authentication(why) => {
            let text = format!("cannot authenticate: {why}");
            Outcome::new(Verdict::DeferAll, "4.7.0", 454, text)
        }
    }
}

/// The outcome where the connection was lost before the session could begin.
pub fn of_lost_handshake(lost: &Lost) -> Outcome {
    match lost {
        Lost::Stopped | Lost::Message(_) => of_lost(lost),
        _ => of_lost(lost).with_verdict(Verdict::DeferAll),
    }
}

/// The outcome where no connection could be made.
pub fn of_failed_connection(error: &str) -> Outcome {
    Outcome::new(Verdict::DeferAll, "4.4.1", 421, error.to_string())
}

/// The outcome where a destination has no route: temporary if DNS has not answered.
pub fn of_route_error(error: &RouteError) -> Outcome {
    let verdict = if error.is_temporary() { Verdict::Deferred } else { Verdict::Failed };
    Outcome::new(verdict, error.enhanced_code(), error.reply_code(), error.to_string())
        .with_agent(AGENT)
}

/// The outcome where no policy of TLS allows a connection.
pub fn of_policy_error(error: &PolicyError) -> Outcome {
    Outcome::new(Verdict::DeferAll, error.enhanced_code(), 454, error.to_string())
}

/// The outcome where TLS cannot be started. `is_stop` is true if the agent has been stopped.
pub fn of_tls_error(error: &TlsError, is_stop: bool) -> Outcome {
    let verdict = if is_stop { Verdict::Deferred } else { Verdict::DeferAll };
    Outcome::new(verdict, error.enhanced_code(), 454, error.to_string())
}

/// The outcome where TLS is not what a message with REQUIRETLS needs (RFC 8689, 4.2.1).
///
/// Other mail for the host does not wait.
pub fn of_required_tls(is_temporary: bool, text: String) -> Outcome {
    match is_temporary {
        true => Outcome::new(Verdict::Deferred, "4.7.10", 454, text),
        false => Outcome::new(Verdict::Failed, "5.7.10", 550, text),
    }
}

/// The outcome where the server does not offer REQUIRETLS (RFC 8689, 4.2.1).
pub fn of_lack_of_required_tls() -> Outcome {
    let text = "the sender requires TLS on the whole way, and the host does not offer REQUIRETLS";
    Outcome::new(Verdict::Failed, "5.7.30", 550, text)
}

/// The outcome where the addresses of an exchanger cannot be looked up now.
pub fn of_unresolved(exchanger: &Unresolved) -> Outcome {
    Outcome::new(Verdict::Deferred, "4.4.3", 451, exchanger.reason.clone()).with_agent(AGENT)
}

/// The outcome where the server lacks what the message needs.
pub fn of_refusal(refusal: &Refusal) -> Outcome {
    Outcome::new(Verdict::Failed, refusal.status, refusal.code, refusal.text.clone())
}

/// The outcome of an address that cannot be sent in a command.
pub fn of_unsafe_address(is_sender: bool) -> Outcome {
    let (status, text) = match is_sender {
        true => ("5.1.7", "the sender's address has characters that no server takes"),
        false => ("5.1.3", "the address has characters that no server takes"),
    };
    Outcome::new(Verdict::Failed, status, 553, text)
}

/// The outcome of the recipients that a job has no time left for.
pub fn of_long_job() -> Outcome {
    Outcome::new(Verdict::Deferred, "4.4.7", 451, "the time limit of a job is over")
}
