//! Routes one message: what its control file will say.

use super::address::MailAddress;
use super::directory::Directory;
use super::envelope::{EnvelopeSender, parse_path};
use super::expand::{ExpandError, Expansion};
use super::headers;
use super::recipients::{RoutedEnd, RoutedRecipient};
use super::refusal::{RecipientRefusal, local_notary};
use super::routes::{Decision, RoutedTo};
use super::submission::Submission;
use zsched_format::control_file::Tag;
use zsched_format::control_file::compose::{
    Address, ControlFileDraft, Group, OwedReport, Recipient, RecipientEnd,
};
use zsched_format::spool_id::SpoolId;
use zsched_format::time::Timestamp;

/// Maximum size of the headers of all lists of a message together, in bytes.
const MAX_ALL_HEADERS_SIZE: usize = 64 << 20;

/// What is known of a submission besides its text.
#[derive(Clone, Debug)]
pub struct Facts<'f> {
    /// Its number and the time of its arrival.
    pub id: SpoolId,
    /// Owner of the file: the user who submitted it.
    pub owner: u32,
    /// Login name of the owner.
    pub owner_name: Option<String>,
    /// Name of this host.
    pub hostname: &'f str,
    /// The present time.
    pub now: Timestamp,
    /// True if the message is too old to wait for what cannot be looked up now.
    pub is_expired: bool,
}

/// Why a message has no control file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// It can be routed later.
    #[error("{0}")]
    Deferred(String),
    /// It can never be routed.
    #[error("{0}")]
    Unusable(String),
}

impl From<ExpandError> for RouteError {
    fn from(error: ExpandError) -> RouteError {
        match error {
            ExpandError::Deferred(why) => RouteError::Deferred(why),
            ExpandError::TooManyRecipients => RouteError::Unusable(error.to_string()),
        }
    }
}

/// The control file of a message, and counts for the log.
#[derive(Debug)]
pub struct RoutedMessage {
    /// The control file, apart from the name.
    pub draft: ControlFileDraft,
    /// Number of recipients for agents.
    pub deliveries: usize,
    /// Number of recipients that are refused.
    pub refusals: usize,
    /// What could not be looked up first, if recipients are refused for that.
    pub lookup_failure: Option<String>,
}

/// The sender of a message.
struct RoutedSender {
    /// As it was written.
    written: String,
    /// With a domain.
    address: String,
    line: Address,
}

/// Routes a message.
pub fn route(
    mut submission: Submission,
    facts: &Facts<'_>,
    directory: &Directory,
) -> Result<RoutedMessage, RouteError> {
    submission.complete_envelope().map_err(RouteError::Unusable)?;
    let recipients = std::mem::take(&mut submission.envelope.recipients);
    if recipients.is_empty() {
        return Err(RouteError::Unusable("it has no recipients".into()));
    }
    let sender = sender(&submission, facts, directory);
    let mut expansion = Expansion::new(directory, sender.is_none());
    expansion.is_expired = facts.is_expired;
    let hops = headers::received_count(&submission);
    let in_loop = (hops > headers::MAX_RECEIVED).then(|| RecipientRefusal::too_many_hops(hops));
    for recipient in recipients {
        match &in_loop {
            Some(why) => expansion.refuse(&recipient.address, &recipient.notify, why)?,
            None => expansion.add(&recipient.address, &recipient.notify)?,
        }
    }
    if expansion.recipients.is_empty() {
        return Err(RouteError::Unusable("its recipients lead nowhere".into()));
    }
    let address = sender.as_ref().map(|sender| sender.address.as_str());
    let headers = headers::compose(&submission, facts, address);
    let log_id = headers::log_id(&submission, facts);
    let obsoletes = headers::obsoletes(&submission);
    if (expansion.owners.len() + 1) * headers.len() > MAX_ALL_HEADERS_SIZE {
        return Err(RouteError::Unusable("too many lists for headers of this size".into()));
    }
    let refusals = expansion.recipients.iter().filter(|one| is_refused(one)).count();
    let deliveries = expansion.recipients.iter().filter(|one| one.end.is_none()).count();
    // Those of the sender do not apply to messages of lists (RFC 3461, 5.2.7.3).
    let is_from_sender = expansion.recipients.iter().any(|one| one.sender == 0);
    let lookup_failure = expansion.lookup_failure.take();
    let draft = ControlFileDraft {
        body_offset: submission.body_offset,
        log_id,
        verbose: submission.envelope.verbose,
        error_address: sender.as_ref().map(|sender| sender.written.clone()),
        obsoletes,
        return_mode: submission.envelope.return_mode.filter(|_| is_from_sender),
        envelope_id: submission.envelope.envelope_id.filter(|_| is_from_sender),
        groups: groups(expansion, sender.as_ref(), facts, &headers),
        ..ControlFileDraft::default()
    };
    Ok(RoutedMessage { draft, deliveries, refusals, lookup_failure })
}

fn is_refused(recipient: &RoutedRecipient) -> bool {
    matches!(recipient.end.as_deref(), Some(RoutedEnd::Refused(_)))
}

/// The recipients by sender: first those of the message's own sender, then those of owners.
fn groups(
    expansion: Expansion<'_>,
    sender: Option<&RoutedSender>,
    facts: &Facts<'_>,
    headers: &[u8],
) -> Vec<Group> {
    let owner = |address: &String| Group {
        error_address: Some(address.clone()),
        sender: Address::new("local", address, address, i64::from(facts.owner)),
        ..Group::default()
    };
    let first = Group {
        error_address: sender.map(|sender| sender.address.clone()),
        sender: sender.map_or_else(|| null_sender(facts), |sender| sender.line.clone()),
        ..Group::default()
    };
    let owners = expansion.owners.iter().map(owner);
    let mut groups: Vec<Group> = std::iter::once(first).chain(owners).collect();
    for recipient in expansion.recipients {
        groups[recipient.sender].recipients.push(for_control_file(recipient, facts));
    }
    groups.retain(|group| !group.recipients.is_empty());
    groups.iter_mut().for_each(|group| group.headers = headers.to_vec());
    groups
}

fn for_control_file(recipient: RoutedRecipient, facts: &Facts<'_>) -> Recipient {
    let RoutedRecipient { address, notify, end, .. } = recipient;
    let time = facts.now.seconds();
    let end = end.map(|end| {
        let (tag, notary, text) = match *end {
            RoutedEnd::Refused(why) => (Tag::Failed, why.notary(), why.text),
            RoutedEnd::Delivered => {
                (Tag::Done, success("delivered", "sent to the members of the list"), "".into())
            }
            RoutedEnd::Expanded => {
                (Tag::Done, success("expanded", "an alias of several addresses"), "".into())
            }
        };
        // The scheduler logs a refusal whose sender wants no report, and sends none.
        RecipientEnd { tag, report: OwedReport { time, notary, text } }
    });
    Recipient { address, notify: notify.to_string(), end }
}

/// Notary data of a recipient that ends here without a failure.
fn success(action: &str, text: &str) -> Vec<u8> {
    local_notary(action, "2.1.5", "250", text)
}

/// The sender; `None` for reports.
fn sender(
    submission: &Submission,
    facts: &Facts<'_>,
    directory: &Directory,
) -> Option<RoutedSender> {
    let envelope = &submission.envelope;
    let written = match &envelope.sender {
        Some(EnvelopeSender::Null) => return None,
        Some(EnvelopeSender::Written(written)) => written.clone(),
        None => {
            let login = envelope.login_name.clone().or_else(|| facts.owner_name.clone());
            login.unwrap_or_else(|| "postmaster".into())
        }
    };
    let routes = &directory.config.routes;
    let privilege = i64::from(facts.owner);
    let bare = parse_path(&written).unwrap_or(&written);
    let Ok(address) = MailAddress::parse(bare) else {
        // Reports to it will fail, but its mail need not.
        let line = Address::new("local", bare, bare, privilege);
        return Some(RoutedSender { address: bare.into(), line, written });
    };
    let address = address.qualified(routes.hostname());
    let text = address.to_string();
    let line = match routes.route(&address) {
        Decision { routed_to: RoutedTo::Agent(to), .. } => {
            Address::new(&to.channel, &to.host, &text, privilege)
        }
        _ => Address::new(&directory.config.local_channel, &text, &text, privilege),
    };
    Some(RoutedSender { written, address: text, line })
}

fn null_sender(facts: &Facts<'_>) -> Address {
    Address::new("error", "<>", "<>", i64::from(facts.owner))
}
