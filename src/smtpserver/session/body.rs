//! Decodes the text of a message, and watches what must not be stored.
//!
//! Only CR LF ends a line, and only CR LF `.` CR LF ends DATA. A CR or LF of its own is a fault:
//! servers that disagree about line ends let a client smuggle a second message into the first
//! (CVE-2023-51764). After a fault the rest is read and dropped, up to the true end.

use super::reply::Reply;
use memchr::memchr2;
use zsched_router::{MAX_HEADERS_SIZE, MAX_RECEIVED};

/// What makes a message unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BodyFault {
    BareCr,
    BareLf,
    /// With the limit, in bytes.
    TooLarge(u64),
    LongHeaders,
    Loop,
    /// It could not be stored.
    NotStored(Reply),
}

impl BodyFault {
    pub(crate) fn reply(&self) -> Reply {
        match self {
            BodyFault::BareCr => Reply::new(554, "5.6.0", "A bare CR in the message"),
            BodyFault::BareLf => Reply::new(554, "5.6.0", "A bare LF in the message"),
            BodyFault::TooLarge(max) => {
                Reply::new(552, "5.3.4", format!("The message has more than {max} bytes"))
            }
            BodyFault::LongHeaders => {
                let text = format!("The headers have more than {MAX_HEADERS_SIZE} bytes");
                Reply::new(552, "5.3.4", text)
            }
            BodyFault::Loop => {
                let text = format!("A loop: more than {MAX_RECEIVED} Received headers");
                Reply::new(554, "5.4.6", text)
            }
            BodyFault::NotStored(reply) => reply.clone(),
        }
    }
}

/// How lines end, and how the text does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// DATA: a dot ends it.
    Dot,
    /// DATA of a program of this host: lines may also end in LF alone.
    DotOrLf,
    /// BDAT: the size ends it, and dots mean nothing.
    Size,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    LineStart,
    InLine,
    AfterCr,
    AfterDot,
    AfterDotCr,
}

/// Decodes a message, piece by piece. Lines end in LF afterwards.
#[derive(Debug)]
pub(crate) struct BodyDecoder {
    framing: Framing,
    place: Place,
    size: u64,
    max_size: u64,
    headers: HeaderWatch,
    pub fault: Option<BodyFault>,
}

impl BodyDecoder {
    pub(crate) fn new(framing: Framing, max_size: u64) -> BodyDecoder {
        BodyDecoder {
            framing,
            place: Place::LineStart,
            size: 0,
            max_size,
            headers: HeaderWatch::default(),
            fault: None,
        }
    }

    /// Size so far, in bytes, as it is stored.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn fail(&mut self, fault: BodyFault) {
        self.fault.get_or_insert(fault);
    }

    /// Decodes bytes to `out`. Returns how many were used, and true at the end of DATA.
    pub(crate) fn decode(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, bool) {
        let (start, mut at) = (out.len(), 0);
        let mut has_ended = false;
        while at < input.len() && !has_ended {
            at += match self.place {
                Place::InLine => self.plain_bytes(&input[at..], out),
                _ => {
                    has_ended = self.byte(input[at], out);
                    1
                }
            };
        }
        self.size += (out.len() - start) as u64;
        self.headers.watch(&out[start..]);
        if self.size > self.max_size {
            self.fail(BodyFault::TooLarge(self.max_size));
        }
        if let Some(fault) = self.headers.fault() {
            self.fail(fault);
        }
        if self.fault.is_some() {
            out.truncate(start);
        }
        (at, has_ended)
    }

    /// Copies bytes up to the next CR or LF, and takes that.
    fn plain_bytes(&mut self, input: &[u8], out: &mut Vec<u8>) -> usize {
        let Some(end) = memchr2(b'\r', b'\n', input) else {
            out.extend_from_slice(input);
            return input.len();
        };
        out.extend_from_slice(&input[..end]);
        self.byte(input[end], out);
        end + 1
    }

    /// Takes one byte. Returns true at the end of DATA.
    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) -> bool {
        let has_dots = self.framing != Framing::Size;
        let is_lenient = self.framing == Framing::DotOrLf;
        match (self.place, byte) {
            (Place::AfterDotCr, b'\n') => return true,
            (Place::AfterDot, b'\n') if is_lenient => return true,
            (Place::AfterDot, b'\r') => self.place = Place::AfterDotCr,
            (Place::AfterCr, b'\n') => self.end_line(out),
            (Place::AfterCr | Place::AfterDotCr, _) => {
                if is_lenient {
                    out.push(b'\r');
                } else {
                    self.fail(BodyFault::BareCr);
                }
                self.place = Place::InLine;
                return self.byte(byte, out);
            }
            (_, b'\n') => {
                if !is_lenient {
                    self.fail(BodyFault::BareLf);
                }
                self.end_line(out);
                if !is_lenient {
                    // A dot after it is none that ends the message.
                    self.place = Place::InLine;
                }
            }
            (_, b'\r') => self.place = Place::AfterCr,
            (Place::LineStart, b'.') if has_dots => self.place = Place::AfterDot,
            (_, byte) => {
                out.push(byte);
                self.place = Place::InLine;
            }
        }
        false
    }

    fn end_line(&mut self, out: &mut Vec<u8>) {
        out.push(b'\n');
        self.place = Place::LineStart;
    }

    /// Ends a text whose size was given. The last line gets its end if it lacks one.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        if self.place == Place::AfterCr {
            self.fail(BodyFault::BareCr);
        }
        if self.place == Place::InLine && self.fault.is_none() {
            out.push(b'\n');
            self.size += 1;
        }
    }
}

/// Watches the headers: their size, and the number of `Received` among them.
#[derive(Debug, Default)]
struct HeaderWatch {
    /// The headers are over.
    is_over: bool,
    /// The name of the present line, up to the length of `received:`.
    name: Vec<u8>,
    is_in_name: bool,
    is_in_line: bool,
    size: usize,
    received: usize,
}

/// The header that counts hops, with its colon.
const RECEIVED: &[u8] = b"received:";

impl HeaderWatch {
    fn watch(&mut self, text: &[u8]) {
        for &byte in text {
            if self.is_over {
                return;
            }
            self.size += 1;
            self.byte(byte);
        }
    }

    fn byte(&mut self, byte: u8) {
        if !self.is_in_line {
            self.is_in_line = true;
            self.is_in_name = !matches!(byte, b' ' | b'\t');
            self.name.clear();
            self.is_over = byte == b'\n';
        }
        if byte == b'\n' {
            // A line without a colon belongs to the body, as for the router.
            self.is_over |= self.is_in_name;
            self.is_in_line = false;
        } else if self.is_in_name {
            if self.name.len() < RECEIVED.len() && !matches!(byte, b' ' | b'\t') {
                self.name.push(byte);
            }
            if byte == b':' {
                self.received += usize::from(self.name.eq_ignore_ascii_case(RECEIVED));
                self.is_in_name = false;
            }
        }
    }

    fn fault(&self) -> Option<BodyFault> {
        if self.size > MAX_HEADERS_SIZE {
            return Some(BodyFault::LongHeaders);
        }
        (self.received > MAX_RECEIVED).then_some(BodyFault::Loop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Decodes in pieces of this size. Returns the text or the fault, and the bytes not used.
    fn decode(input: &[u8], framing: Framing, piece: usize) -> (Result<String, BodyFault>, usize) {
        let mut decoder = BodyDecoder::new(framing, 1 << 20);
        let (mut out, mut used) = (Vec::new(), 0);
        while used < input.len() {
            let end = input.len().min(used + piece);
            let (count, has_ended) = decoder.decode(&input[used..end], &mut out);
            used += count;
            if has_ended {
                break;
            }
        }
        if framing == Framing::Size {
            decoder.finish(&mut out);
        }
        let text = String::from_utf8_lossy(&out).into_owned();
        (decoder.fault.map_or(Ok(text), Err), input.len() - used)
    }

    /// The sequences that were published as SMTP smuggling (CVE-2023-51764 to 51766), and their
    /// relatives: none but the first ends the message.
    #[test]
    fn only_crlf_dot_crlf_ends_data() {
        for (end, fault) in [
            ("\r\n.\r\n", None),
            ("\n.\n", Some(BodyFault::BareLf)),
            ("\n.\r\n", Some(BodyFault::BareLf)),
            ("\r\n.\n", Some(BodyFault::BareLf)),
            ("\r.\r\n", Some(BodyFault::BareCr)),
            ("\r.\r", Some(BodyFault::BareCr)),
            ("\r\n.\r", Some(BodyFault::BareCr)),
            ("\n.\r", Some(BodyFault::BareLf)),
            ("\r\n\0.\r\n", None),
            ("\r\r\n.\r\r\n", Some(BodyFault::BareCr)),
            ("\r\n.\r\r\n", Some(BodyFault::BareCr)),
        ] {
            let input = format!("A: b\r\n\r\ntext{end}MAIL FROM:<evil@x>\r\n.\r\nQUIT\r\n");
            for piece in [1, 2, 3, 1000] {
                let (text, left) = decode(input.as_bytes(), Framing::Dot, piece);
                let ends_here = end == "\r\n.\r\n";
                let expected = if ends_here { 29 } else { 6 };
                assert_eq!(left, expected, "{end:?} in pieces of {piece}");
                assert_eq!(text.err(), fault, "{end:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn dots_and_line_ends_are_decoded() {
        for (input, framing, expected) in [
            ("a\r\n..b\r\n.c\r\n.\r\n", Framing::Dot, "a\n.b\nc\n"),
            (".\r\n", Framing::Dot, ""),
            ("..\r\n.\r\n", Framing::Dot, ".\n"),
            ("a\n..b\n.\n", Framing::DotOrLf, "a\n.b\n"),
            ("a\rb\r\n.\r\n", Framing::DotOrLf, "a\rb\n"),
            ("a\r\n.\r\nb", Framing::Size, "a\n.\nb\n"),
        ] {
            for piece in [1, 2, 100] {
                let (text, left) = decode(input.as_bytes(), framing, piece);
                assert_eq!((text.as_deref(), left), (Ok(expected), 0), "{input:?}");
            }
        }
    }

    #[test]
    fn headers_are_limited() {
        let hops = |count: usize| {
            let text = "Received: x\r\n\ty\r\n".repeat(count) + "\r\nReceived: no header\r\n.\r\n";
            decode(text.as_bytes(), Framing::Dot, 7).0.err()
        };
        assert_eq!(hops(MAX_RECEIVED), None);
        assert_eq!(hops(MAX_RECEIVED + 1), Some(BodyFault::Loop));
        let endless = format!("A: {}\r\n\r\n.\r\n", "x".repeat(MAX_HEADERS_SIZE));
        let mut decoder = BodyDecoder::new(Framing::Dot, u64::MAX);
        decoder.decode(endless.as_bytes(), &mut Vec::new());
        assert_eq!(decoder.fault, Some(BodyFault::LongHeaders));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(input in "(a|\\.|\r|\n|\r\n|\r\n\\.\r\n){0,20}", piece in 1usize..9) {
            for framing in [Framing::Dot, Framing::DotOrLf, Framing::Size] {
                let whole = decode(input.as_bytes(), framing, 1000);
                prop_assert_eq!(decode(input.as_bytes(), framing, piece), whole);
            }
        }

        #[test]
        fn stuffed_text_comes_back(lines in prop::collection::vec("[.a]{0,4}", 0..9)) {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let stuffed = |line: &String| match line.starts_with('.') {
                true => format!(".{line}\r\n"),
                false => format!("{line}\r\n"),
            };
            let sent: String = lines.iter().map(stuffed).collect::<String>() + ".\r\n";
            prop_assert_eq!(decode(sent.as_bytes(), Framing::Dot, 5), (Ok(text), 0));
        }
    }
}
