//! The envelope of a submission, one item a line.
//!
//! ```text
//! rcvdfrom STDIN (root@relay.example.org)
//! channel error                              a report: it has no sender
//! errormsg
//! todsn ORCPT=rfc822;alice@example.org
//! to <alice@example.org>
//! env-end
//! ```

use crate::address::{report_mailbox, to_orcpt};
use crate::field::{Charset, one_line};
use crate::{Form, Report, ReportKind};

/// Maximum length of the name of the submitter.
const MAX_SUBMITTER_LEN: usize = 200;

/// Returns true if the report has a recipient.
pub(crate) fn has_recipients(report: &Report<'_>, form: &Form) -> bool {
    report_mailbox(report.sender).is_some() || !form.copies().is_empty()
}

/// Returns the envelope.
pub(crate) fn envelope(report: &Report<'_>, form: &Form) -> Vec<u8> {
    let sender = report_mailbox(report.sender);
    let submitter = one_line(report.submitter.as_bytes(), MAX_SUBMITTER_LEN, Charset::Utf8);
    let submitter = submitter.replace(['(', ')', '\\'], "");
    let mut envelope =
        format!("rcvdfrom STDIN ({submitter})\nchannel error\nerrormsg\n").into_bytes();
    let parameters = match report.kind {
        ReportKind::Delivery => "",
        ReportKind::Routing => "NOTIFY=NEVER ",
    };
    let copies = form.copies().iter().map(|address| ("", address.as_bytes()));
    for (parameters, address) in sender.map(|sender| (parameters, sender)).into_iter().chain(copies)
    {
        let original = to_orcpt(address);
        envelope.extend_from_slice(format!("todsn {parameters}ORCPT={original}\nto <").as_bytes());
        envelope.extend_from_slice(address);
        envelope.extend_from_slice(b">\n");
    }
    envelope.extend_from_slice(b"env-end\n");
    envelope
}
