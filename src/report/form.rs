//! Forms: sender, subject and text of reports, in files of the operator (ZMailer).
//!
//! ```text
//! HDR From: The Post Office <postmaster>
//! HDR Sender: mailer-daemon
//! SUB Subject: Returned mail: see the transcript
//! ADR Bcc: <nobody>
//!
//! This is a collection of reports about email delivery
//! process concerning a message you originated.
//! ```
//!
//! The first line that begins with none of the three words ends the top; it and all others are
//! text.
//!
//! | word | meaning |
//! |---|---|
//! | `HDR` | a header line of the report |
//! | `SUB` | its subject; the scheduler appends the number of recipients of each kind |
//! | `ADR` | a header with one or several `<address>` that also get each report |
//!
//! As header, `Bcc` is left out, and so are fields that each report has anyway (`Date`, MIME).

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use thiserror::Error;

/// Maximum length of a form, in bytes.
const MAX_FORM_LEN: usize = 64 * 1024;
/// Maximum length of a header line (RFC 5322, 2.1.1).
const MAX_LINE_LEN: usize = 900;
/// Length of a word with the blank after it.
const WORD_LEN: usize = 4;

/// A form. The default one has no text and no addresses for copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    headers: Vec<String>,
    subject: Option<String>,
    copies: Vec<String>,
    text: String,
}

/// Reads the file of a form, or the beginning of one that is too long.
///
/// # Errors
///
/// Those of the operating system. Anything but a regular file is [`ErrorKind::InvalidInput`].
pub fn read_form_file(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut text = Vec::new();
    File::open(path)?.take(MAX_FORM_LEN as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// A mistake in a form.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{line}:{column}: {kind}")]
pub struct FormError {
    /// The line, counted from 1.
    pub line: usize,
    /// The byte in the line, counted from 1.
    pub column: usize,
    /// What is wrong.
    pub kind: FormErrorKind,
}

/// What is wrong in a form.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormErrorKind {
    /// The file is too long.
    #[error("the form has more than {MAX_FORM_LEN} bytes")]
    TooLong,
    /// A header line is too long.
    #[error("the header has more than {MAX_LINE_LEN} bytes")]
    LongHeader,
    /// A header has a control character, or one beyond ASCII.
    #[error("headers must be ASCII (non-ASCII words are encoded as in RFC 2047)")]
    NotAscii,
    /// No `Name:` begins the header.
    #[error("expected a header such as \"From: postmaster\"")]
    NotAHeader,
    /// `SUB` has another header than the subject.
    #[error("SUB takes the header \"Subject:\"")]
    NotASubject,
    /// The form has two subjects.
    #[error("the form has a subject already")]
    SecondSubject,
    /// `ADR` has no address.
    #[error("expected an address, as in \"Cc: <postmaster>\"")]
    NoAddress,
}

impl Form {
    /// Parses a form.
    ///
    /// Text that is not UTF-8 is read as Latin-1.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub fn parse(form: &[u8]) -> Result<Form, FormError> {
        let error = |line, column, kind| FormError { line, column, kind };
        if form.len() > MAX_FORM_LEN {
            return Err(error(1, 1, FormErrorKind::TooLong));
        }
        let mut parsed = Form::default();
        let mut rest = form;
        for number in 1.. {
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            let line = rest[..end].trim_ascii_end();
            let Some(word) = TopWord::of(line) else { break };
            let added = parsed.add(word, line.get(WORD_LEN..).unwrap_or_default());
            added.map_err(|(at, kind)| error(number, at + WORD_LEN + 1, kind))?;
            rest = &rest[end..];
        }
        parsed.text = match str::from_utf8(rest) {
            Ok(text) => text.to_string(),
            Err(_) => rest.iter().copied().map(char::from).collect(),
        };
        Ok(parsed)
    }

    /// Adds a line of the top. An error has the position of the mistake.
    fn add(&mut self, word: TopWord, line: &[u8]) -> Result<(), (usize, FormErrorKind)> {
        let (name, value) = split_header(line)?;
        let header = format!("{name}:{value}");
        match word {
            TopWord::Header if is_own(name) => {}
            TopWord::Header => self.headers.push(header),
            TopWord::Subject if !name.eq_ignore_ascii_case("subject") => {
                return Err((0, FormErrorKind::NotASubject));
            }
            TopWord::Subject if self.subject.is_some() => {
                return Err((0, FormErrorKind::SecondSubject));
            }
            TopWord::Subject => self.subject = Some(value.trim().to_string()),
            TopWord::Address => {
                let addresses = addresses(value);
                if addresses.is_empty() {
                    return Err((name.len() + 1, FormErrorKind::NoAddress));
                }
                self.copies.extend(addresses);
                if !name.eq_ignore_ascii_case("bcc") {
                    self.headers.push(header);
                }
            }
        }
        Ok(())
    }

    /// The header lines of the form.
    pub(crate) fn headers(&self) -> &[String] {
        &self.headers
    }

    /// Returns true if the form has the header.
    pub(crate) fn has_header(&self, name: &str) -> bool {
        let names = self.headers.iter().filter_map(|line| line.split_once(':'));
        names.into_iter().any(|(found, _)| found.eq_ignore_ascii_case(name))
    }

    /// The subject, if the form has one.
    pub(crate) fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// The addresses that get a copy of each report.
    pub fn copies(&self) -> &[String] {
        &self.copies
    }

    /// The text for people.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// The word at the beginning of a line of the top.
#[derive(Clone, Copy)]
enum TopWord {
    Header,
    Subject,
    Address,
}

impl TopWord {
    fn of(line: &[u8]) -> Option<TopWord> {
        let (word, after) = line.split_at_checked(WORD_LEN - 1)?;
        match (word, after.first()) {
            (_, Some(byte)) if !matches!(byte, b' ' | b'\t') => None,
            (b"HDR", _) => Some(TopWord::Header),
            (b"SUB", _) => Some(TopWord::Subject),
            (b"ADR", _) => Some(TopWord::Address),
            _ => None,
        }
    }
}

/// Splits a header into name and value, blanks at its beginning included.
fn split_header(line: &[u8]) -> Result<(&str, &str), (usize, FormErrorKind)> {
    if line.len() > MAX_LINE_LEN {
        return Err((MAX_LINE_LEN, FormErrorKind::LongHeader));
    }
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t');
    if let Some(at) = line.iter().position(|byte| !is_text(byte)) {
        return Err((at, FormErrorKind::NotAscii));
    }
    let line = str::from_utf8(line).unwrap_or_default();
    match line.split_once(':') {
        Some((name, value))
            if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()) =>
        {
            Ok((name, value))
        }
        _ => Err((0, FormErrorKind::NotAHeader)),
    }
}

/// Returns true for a header that each report has, with a value of its own.
fn is_own(name: &str) -> bool {
    const OWN: [&str; 9] = [
        "auto-submitted",
        "bcc",
        "date",
        "in-reply-to",
        "message-id",
        "mime-version",
        "references",
        "subject",
        "to",
    ];
    let name = name.to_ascii_lowercase();
    name.starts_with("content-") || OWN.contains(&name.as_str())
}

/// The addresses of a header: those in angle brackets, or else its only word.
fn addresses(value: &str) -> Vec<String> {
    let plain = without_comments(value);
    let mut bracketed = Vec::new();
    let mut rest = plain.as_str();
    while let Some((address, after)) = rest.split_once('<').and_then(|(_, r)| r.split_once('>')) {
        bracketed.push(address.trim());
        rest = after;
    }
    if bracketed.is_empty() {
        bracketed.push(plain.trim());
    }
    let is_address = |text: &&str| {
        !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || "<>,;".contains(c))
    };
    bracketed.into_iter().filter(is_address).map(str::to_string).collect()
}

/// Removes comments in parentheses.
fn without_comments(value: &str) -> String {
    let mut depth = 0_usize;
    let is_outside = |c: char| {
        let was = depth;
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        was == 0 && depth == 0
    };
    let mut is_outside = is_outside;
    value.chars().filter(|c| is_outside(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(form: &[u8]) -> String {
        Form::parse(form).map_or_else(|error| error.to_string(), |form| format!("{form:?}"))
    }

    #[test]
    fn form_of_zmailer_is_parsed() {
        let form = Form::parse(
            b"HDR From: The Post Office <postmaster>\nADR Bcc: <nobody> (reports <x>)\n\
            HDR Sender:\tmailer-daemon\nSUB Subject: Returned mail: see the transcript\n\
            HDR MIME-Version: 1.0\nHDR Content-Type: text/plain\n\nThis is\nHDR text\n",
        );
        let form = form.expect("a form");
        assert_eq!(
            form.headers(),
            ["From: The Post Office <postmaster>", "Sender:\tmailer-daemon"]
        );
        assert_eq!(form.subject(), Some("Returned mail: see the transcript"));
        assert_eq!(form.copies(), ["nobody"]);
        assert_eq!(form.text(), "\nThis is\nHDR text\n");
    }

    #[test]
    fn form_may_lack_any_part() {
        assert_eq!(Form::parse(b""), Ok(Form::default()));
        let form =
            Form::parse(b"ADR Cc: <a@x.test>, B <b@x.test>\r\nADR Cc: c\r\ncaf\xe9").expect("ok");
        assert_eq!(form.copies(), ["a@x.test", "b@x.test", "c"]);
        assert_eq!(form.headers(), ["Cc: <a@x.test>, B <b@x.test>", "Cc: c"]);
        assert_eq!(form.text(), "caf\u{e9}");
        assert_eq!(Form::parse(b"HDRFrom: x\n").expect("text").text(), "HDRFrom: x\n");
    }

    #[test]
    fn mistakes_have_line_and_column() {
        for (form, error) in [
            (&b"HDR From: x\nHDR postmaster\n"[..], "2:5: expected a header"),
            (b"HDR\n", "1:5: expected a header"),
            (b"HDR a b: x\n", "1:5: expected a header"),
            (b"HDR X: caf\xc3\xa9\n", "1:11: headers must be ASCII"),
            (b"HDR X: \x1b\n", "1:8: headers must be ASCII"),
            (b"SUB X-Subject: x\n", "1:5: SUB takes the header"),
            (b"SUB Subject: x\nSUB Subject: y\n", "2:5: the form has a subject already"),
            (b"ADR Cc: (nobody)\n", "1:8: expected an address"),
            (b"ADR Cc: <>\n", "1:8: expected an address"),
            (b"ADR Cc: two words\n", "1:8: expected an address"),
        ] {
            let found = errors(form);
            assert!(found.starts_with(error), "{found}");
        }
        assert!(errors(&[b'x'; MAX_FORM_LEN + 1]).contains("more than 65536 bytes"));
        let long = [b"HDR X: ".as_slice(), &[b'x'; 1000]].concat();
        assert!(errors(&long).contains("more than 900 bytes"), "{}", errors(&long));
    }

    proptest::proptest! {
        #[test]
        fn any_form_is_parsed_or_refused(form: Vec<u8>) {
            drop(Form::parse(&form));
        }

        #[test]
        fn accepted_headers_are_single_lines(line in "(HDR|SUB|ADR) [ -~\r\t]{0,40}") {
            if let Ok(form) = Form::parse(line.as_bytes()) {
                proptest::prop_assert!(form.headers().iter().all(|line| !line.contains(['\r', '\n'])));
            }
        }
    }
}
