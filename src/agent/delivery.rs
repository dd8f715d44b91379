//! One recipient of a job, as agents see it.

use crate::job_file::JobFile;
use crate::{Message, Notify, StopFlag};
use std::io::{self, Read};
use zsched_format::control_file::{Recipient, Span};
use zsched_format::merge::{MergeFields, MergeReader};
use zsched_spool::Spool;
use zsched_spool::resubmit::Submission;

/// A recipient to deliver to, with its data from the control file.
///
/// Texts are bytes as the router wrote them: in most cases UTF-8 or ASCII, which nothing ensures.
#[derive(Clone, Copy)]
pub struct Delivery<'a> {
    pub(crate) file: &'a JobFile,
    pub(crate) spool: &'a Spool,
    pub(crate) stop: &'a StopFlag,
    pub(crate) recipient: Recipient,
}

impl<'a> Delivery<'a> {
    /// Returns true if a signal or a [`StopFlag`] stops the agent.
    ///
    /// A delivery that waits then ends with a deferral.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_requested()
    }

    /// The offset of the recipient's line in the control file, in bytes.
    ///
    /// It identifies the recipient in [`Job::report`](crate::Job::report).
    pub fn offset(&self) -> u32 {
        self.recipient.offset
    }

    /// The next host, as the router wrote it; `-` for none.
    pub fn host(&self) -> &'a [u8] {
        self.get(self.recipient.quad.host)
    }

    /// The address to deliver to.
    pub fn user(&self) -> &'a [u8] {
        self.get(self.recipient.quad.user)
    }

    /// The last field of the line.
    ///
    /// By custom it is the decimal id of the user whose rights the delivery has.
    pub fn privilege(&self) -> &'a [u8] {
        self.get(self.recipient.quad.privilege)
    }

    /// The envelope sender. `None` for the null sender of error messages.
    pub fn sender(&self) -> Option<&'a [u8]> {
        self.file.parsed.control.sender_address(&self.recipient)
    }

    /// The message headers for this recipient.
    ///
    /// Each line includes its line end. The empty line after the headers is not included.
    pub fn headers(&self) -> &'a [u8] {
        let block = self.file.parsed.control.headers_of(&self.recipient);
        block.map_or(&[], |block| self.get(block.text))
    }

    /// A reader of the body for this recipient, from its beginning at each call.
    ///
    /// The recipient's fields are in place of their names ([`zsched_format::merge`]).
    /// Lines end with LF. Reads fail with the errors of the file system.
    pub fn body<'m>(&self, message: &'m Message) -> Box<dyn Read + 'm> {
        match self.notify().merge {
            Some(fields) => Box::new(MergeReader::new(message.body(), MergeFields::parse(fields))),
            None => Box::new(message.body()),
        }
    }

    /// The DSN parameters for this recipient, such as `NOTIFY` (RFC 3461).
    pub fn notify(&self) -> Notify<'a> {
        self.file.notify(&self.recipient)
    }

    /// The envelope id, `ENVID` in xtext (RFC 3461, 4.4), if given.
    ///
    /// The members of a list have none: that of the sender does not apply to them.
    pub fn envelope_id(&self) -> Option<&'a [u8]> {
        self.file.parsed.control.envelope_id_of(&self.recipient)
    }

    /// The requested content of a report: `FULL` or `HDRS` (RFC 3461).
    ///
    /// The members of a list have none.
    pub fn return_mode(&self) -> Option<&'a [u8]> {
        self.file.parsed.control.return_mode_of(&self.recipient)
    }

    /// The text that names the message in logs, usually its Message-ID.
    pub fn log_id(&self) -> Option<&'a [u8]> {
        self.file.parsed.control.log_id.map(|span| self.get(span))
    }

    /// Hands the message back to the router for this recipient.
    ///
    /// It is resubmitted in the name of its submitter.
    ///
    /// Held mail leaves the queue this way. `message` is that of the job. Returns the number of the
    /// new submission in `POSTOFFICE/router`. The recipient is done then: the agent returns
    /// [`Verdict::PassedOn`](crate::Verdict::PassedOn), since the submission keeps the DSN
    /// parameters, and its reports are all that the sender gets.
    ///
    /// # Errors
    ///
    /// An error means that the router has not got it, so the agent defers the recipient.
    pub fn resubmit(&self, message: &Message) -> io::Result<u64> {
        Delivery::resubmit_together(std::slice::from_ref(self), message)
    }

    /// Hands the message back to the router for several recipients, as one submission.
    ///
    /// They [have the same message](Delivery::has_same_message). Otherwise as
    /// [`resubmit`](Delivery::resubmit).
    ///
    /// # Errors
    ///
    /// Those of [`resubmit`](Delivery::resubmit), or there is no recipient.
    pub fn resubmit_together(deliveries: &[Delivery<'a>], message: &Message) -> io::Result<u64> {
        let first = deliveries.first().ok_or(io::ErrorKind::InvalidInput)?;
        let recipient = |delivery: &Delivery<'a>| {
            let notify = delivery.recipient.notify.map(|notify| delivery.get(notify.value));
            (notify, delivery.user())
        };
        let submission = Submission {
            envelope_id: first.envelope_id(),
            return_mode: first.return_mode(),
            sender: first.sender(),
            recipients: deliveries.iter().map(recipient).collect(),
            headers: first.headers(),
        };
        submission.hand_over(first.spool.postoffice(), &mut first.body(message), message.owner())
    }

    /// Returns true if both recipients get the same headers and body from the same sender.
    ///
    /// One copy of the message then serves both.
    pub fn has_same_message(&self, other: &Delivery<'_>) -> bool {
        self.sender() == other.sender()
            && self.recipient.headers == other.recipient.headers
            && self.notify().merge == other.notify().merge
    }

    fn get(&self, span: Span) -> &'a [u8] {
        self.file.parsed.control.get(span)
    }
}
