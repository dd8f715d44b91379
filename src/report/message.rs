//! The message: headers and three parts.
//!
//! `mail-builder` encodes headers and the text for people. The parts are put together here, because
//! its writer ends all lines with CRLF, which would alter the original message: files of the spool
//! have LF.

use crate::boundary::unused_in;
use crate::delivery_status::DeliveryStatus;
use crate::notary::Outcome;
use crate::original::Original;
use crate::{Form, Report, headers, human};
use mail_builder::Writer;
use mail_builder::headers::Header;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::raw::Raw;
use mail_builder::mime::MimePart;

/// Name of the field that describes a part.
const DESCRIPTION: &str = "Content-Description";

/// Appends the message of a report.
pub(crate) fn write(report: &Report<'_>, form: &Form, outcomes: &[Outcome<'_>], out: &mut Vec<u8>) {
    let text = human::text(report, form, outcomes);
    let status = DeliveryStatus::new(report, outcomes);
    let original = Original::of(report);
    let [headers, body] = original.pieces();
    let boundary = unused_in(&[text.as_bytes(), status.text.as_bytes(), headers, body], report.id);
    // Quoted-printable has up to three bytes for one.
    out.reserve(text.len() * 3 + status.text.len() + headers.len() + body.len() + 4096);

    let mut writer = SpoolWriter(out);
    headers::write(report, form, outcomes, &mut writer);
    let kind = ContentType::new("multipart/report")
        .attribute("report-type", status.subtype())
        .attribute("boundary", boundary.as_str());
    writer.header("MIME-Version", Raw::new("1.0"));
    writer.header("Content-Type", kind);
    writer.encoding(original.is_8bit() || !status.text.is_ascii());

    writer.verbatim(&format!("\n--{boundary}\n"));
    let text = MimePart::new("text/plain", text);
    text.header(DESCRIPTION, Raw::new("Report for people")).write_part(&mut writer);

    writer.verbatim(&format!("\n--{boundary}\n"));
    let kind = format!("message/{}", status.subtype());
    writer.begin_part(&kind, "Report for programs", !status.text.is_ascii());
    writer.verbatim(&status.text);

    writer.verbatim(&format!("\n--{boundary}\n"));
    writer.begin_part(original.content_type(), "Original message", original.is_8bit());
    original.write_to(writer.0);
    writer.verbatim(&format!("\n--{boundary}--\n"));
}

/// Ends the lines of `mail-builder` with LF.
pub(crate) struct SpoolWriter<'a>(&'a mut Vec<u8>);

impl SpoolWriter<'_> {
    /// Appends a header, encoded and folded.
    pub(crate) fn header(&mut self, name: &str, value: impl Header) {
        self.verbatim(name);
        self.verbatim(": ");
        value.write_header(self, name.len() + 2);
    }

    /// Appends text as it is.
    pub(crate) fn verbatim(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    /// Appends the headers of a part that is not encoded.
    fn begin_part(&mut self, content_type: &str, description: &str, is_8bit: bool) {
        self.header("Content-Type", ContentType::new(content_type));
        self.header(DESCRIPTION, Raw::new(description));
        self.encoding(is_8bit);
        self.verbatim("\n");
    }

    fn encoding(&mut self, is_8bit: bool) {
        let encoding = if is_8bit { "8bit" } else { "7bit" };
        self.header("Content-Transfer-Encoding", Raw::new(encoding));
    }
}

impl Writer for SpoolWriter<'_> {
    /// Appends bytes without CR. What is written here has none but at line ends.
    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.split(|byte| *byte == b'\r') {
            self.0.extend_from_slice(piece);
        }
    }
}
