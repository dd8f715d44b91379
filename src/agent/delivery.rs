//! One recipient of a job, as agents see it.

use super::job_file::JobFile;
use super::stop::StopFlag;
use zsched_format::control_file::notify::Notify;
use zsched_format::control_file::{ControlFile, Recipient};

/// A recipient to deliver to, with its data from the control file.
#[derive(Clone, Copy)]
pub struct Delivery<'a> {
    file: &'a JobFile,
    stop: &'a StopFlag,
    recipient: Recipient,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(file: &'a JobFile, stop: &'a StopFlag, recipient: Recipient) -> Delivery<'a> {
        Delivery { file, stop, recipient }
    }

    /// Returns true if a signal has stopped the agent. A delivery that waits then ends with a
    /// deferral.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_requested()
    }

    /// Offset of the recipient's line, which identifies it in reports.
    pub fn offset(&self) -> u32 {
        self.recipient.offset
    }

    /// The next host, as the router wrote it; `-` for none.
    pub fn host(&self) -> &'a [u8] {
        self.file.parsed.control.get(self.recipient.quad.host)
    }

    /// The address to deliver to.
    pub fn user(&self) -> &'a [u8] {
        self.file.parsed.control.get(self.recipient.quad.user)
    }

    /// The last field of the line.
    ///
    /// By custom it is the id of the user whose rights the delivery has.
    pub fn privilege(&self) -> &'a [u8] {
        self.file.parsed.control.get(self.recipient.quad.privilege)
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
        block.map_or(&[], |block| self.file.parsed.control.get(block.text))
    }

    /// The DSN parameters for this recipient.
    pub fn notify(&self) -> Notify<'a> {
        self.file.notify(&self.recipient)
    }

    /// The value of the `N` line, as the router wrote it.
    pub fn notify_line(&self) -> Option<&'a [u8]> {
        self.recipient.notify.map(|notify| self.file.parsed.control.get(notify.value))
    }

    /// The control file of the message.
    pub fn control_file(&self) -> &'a ControlFile {
        &self.file.parsed.control
    }
}
