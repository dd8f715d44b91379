//! Reads a message from standard input: its headers into memory, its body piece by piece.

use super::error::SendmailError;
use crate::message::is_mbox_line;
use std::io::{self, BufRead, Read};
use zsched_format::header::Field;

/// Maximum length of the headers, in bytes. Those with 100,000 recipients have 4 MB.
const MAX_HEADERS_LEN: usize = 16 << 20;
/// Maximum length of a piece of the body, in bytes. Most pieces are lines.
const MAX_PIECE_LEN: usize = 64 << 10;

/// Reads the lines of a message.
///
/// Lines end in LF, whether they came with LF or CR LF. Other bytes stay as they are. The last line
/// may lack its end.
pub(crate) struct MessageReader<R> {
    input: R,
    /// A line with a single dot is the end.
    dot_ends_message: bool,
    is_line_start: bool,
    has_ended: bool,
}

/// The beginning of a message.
#[derive(Debug, Default)]
pub(crate) struct MessageHead {
    pub fields: Vec<Field>,
    /// The first piece of the body, if it was read.
    ///
    /// It is read to find the end of the headers.
    pub body: Vec<u8>,
}

impl<R: BufRead> MessageReader<R> {
    pub(crate) fn new(input: R, dot_ends_message: bool) -> MessageReader<R> {
        MessageReader { input, dot_ends_message, is_line_start: true, has_ended: false }
    }

    /// Reads the headers and the empty line after them.
    ///
    /// A `From ` line at the beginning, which is that of a mailbox, is skipped.
    pub(crate) fn read_head(&mut self) -> Result<MessageHead, SendmailError> {
        let mut head = MessageHead::default();
        let (mut line, mut room, mut is_first) = (Vec::new(), MAX_HEADERS_LEN, true);
        while self.read(&mut line, room).map_err(SendmailError::Input)? {
            if line == b"\n" {
                break;
            }
            if is_first && is_mbox_line(&line) {
                is_first = false;
                continue;
            }
            is_first = false;
            match (line[0], head.fields.last_mut()) {
                (b' ' | b'\t', Some(field)) => field.fold(&line),
                _ => match Field::begin(&line) {
                    Some(field) => head.fields.push(field),
                    None => {
                        head.body = line;
                        break;
                    }
                },
            }
            // A field gets the line end that may be missing at the end of the input.
            self.is_line_start = true;
            room -= line.len().min(room);
            if room == 0 {
                return Err(SendmailError::LongHeaders(MAX_HEADERS_LEN));
            }
        }
        Ok(head)
    }

    /// Reads the next line of the body, or a piece of a long one.
    ///
    /// Returns false at the end. An unfinished last line gets its end as a piece of its own.
    pub(crate) fn read_piece(&mut self, piece: &mut Vec<u8>) -> io::Result<bool> {
        self.read(piece, MAX_PIECE_LEN)
    }

    fn read(&mut self, piece: &mut Vec<u8>, limit: usize) -> io::Result<bool> {
        piece.clear();
        if self.has_ended {
            return Ok(false);
        }
        (&mut self.input).take(limit as u64).read_until(b'\n', piece)?;
        // The limit may have parted CR and LF.
        if piece.last() == Some(&b'\r') && self.input.fill_buf()?.first() == Some(&b'\n') {
            self.input.consume(1);
            piece.push(b'\n');
        }
        if piece.ends_with(b"\r\n") {
            piece.truncate(piece.len() - 2);
            piece.push(b'\n');
        }
        let was_line_start = self.is_line_start;
        if piece.is_empty() {
            self.has_ended = true;
            if !was_line_start {
                piece.push(b'\n');
            }
            return Ok(!was_line_start);
        }
        if self.dot_ends_message && was_line_start && matches!(&piece[..], b".\n" | b".") {
            self.has_ended = true;
            return Ok(false);
        }
        self.is_line_start = piece.ends_with(b"\n");
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads a message. Returns the lines of its headers, and its body.
    fn read(input: &[u8], dot_ends_message: bool) -> (Vec<u8>, Vec<u8>) {
        let mut reader = MessageReader::new(input, dot_ends_message);
        let head = reader.read_head().expect("headers");
        let (mut body, mut piece) = (head.body, Vec::new());
        while reader.read_piece(&mut piece).expect("it can be read") {
            body.extend_from_slice(&piece);
        }
        (head.fields.iter().flat_map(Field::lines).copied().collect(), body)
    }

    #[test]
    fn input_splits_into_headers_and_body() {
        for (input, headers, body) in [
            ("Subject: x\n\nbody\n", "Subject: x\n", "body\n"),
            ("Subject: x\r\n y\r\n\r\nbody\r\n\r\n", "Subject: x\n y\n", "body\n\n"),
            ("Subject: x\n\nno end", "Subject: x\n", "no end\n"),
            ("Subject: x", "Subject: x\n", ""),
            ("From me Mon Jan  1 00:00:00 2026\nTo: a\n\nFrom b\n", "To: a\n", "From b\n"),
            (">From me\nTo: a\n\n", "To: a\n", ""),
            ("To: a\nFrom me\n\nb\n", "To: a\n", "From me\n\nb\n"),
            ("no headers\n", "", "no headers\n"),
            ("\n\nb\n", "", "\nb\n"),
            ("To: a\n\nb\n.\nc\n", "To: a\n", "b\n"),
            ("To: a\r\n\r\nb\r\n.\r\nc", "To: a\n", "b\n"),
            ("To: a\n.\nSubject: b\n\n", "To: a\n", ""),
            ("To: a\n\nb\n..\n. \n.", "To: a\n", "b\n..\n. \n"),
            ("To: a\n\nb\rc\r", "To: a\n", "b\rc\r\n"),
            ("", "", ""),
            (".", "", ""),
        ] {
            let (found, rest) = read(input.as_bytes(), true);
            assert_eq!(String::from_utf8_lossy(&found), headers, "{input:?}");
            assert_eq!(String::from_utf8_lossy(&rest), body, "{input:?}");
        }
        assert_eq!(read(b"\n.\n\xff\0\n", false).1, b".\n\xff\0\n");
    }

    #[test]
    fn line_without_end_is_read_in_pieces() {
        let long = [&b"\n"[..], &vec![b'.'; MAX_PIECE_LEN - 1], b"\r\n.\n"].concat();
        assert_eq!(read(&long, true).1, [&vec![b'.'; MAX_PIECE_LEN - 1][..], b"\n"].concat());
        let endless = vec![b'x'; MAX_HEADERS_LEN + 2];
        assert_eq!(read(&endless, true).1.len(), endless.len() + 1, "it has no headers");
        let mut reader = MessageReader::new(&b"To: "[..], true);
        let longest = [b"To: ", &endless[..]].concat();
        assert_eq!(reader.read_head().expect("headers").fields.len(), 1);
        let refused = MessageReader::new(&longest[..], true).read_head().expect_err("too long");
        assert!(matches!(refused, SendmailError::LongHeaders(MAX_HEADERS_LEN)));
    }

    proptest! {
        #[test]
        fn body_keeps_all_bytes_but_line_ends(
            body in "(a|\\.|\r|\n|\r\n){0,40}",
            size in 1usize..9,
        ) {
            let input = format!("\n{body}");
            let mut reader = MessageReader::new(
                io::BufReader::with_capacity(size, input.as_bytes()), false);
            let (mut found, mut piece) = (reader.read_head().expect("headers").body, Vec::new());
            while reader.read(&mut piece, size).expect("it can be read") {
                found.extend_from_slice(&piece);
            }
            let mut expected = body.replace("\r\n", "\n");
            if !expected.is_empty() && !expected.ends_with('\n') {
                expected.push('\n');
            }
            prop_assert_eq!(String::from_utf8(found).expect("text"), expected);
        }
    }
}
