//! The Message-ID of a message.

use super::ControlFile;
use std::borrow::Cow;

/// The Message-ID from the `l` line, else from the headers.
pub fn message_id(file: &ControlFile) -> Option<Cow<'_, str>> {
    let of_line = file.log_id.map(|span| file.get(span)).and_then(id_in);
    let of_headers = || {
        let headers = file.get(file.headers.first()?.text);
        let lines = headers.split(|byte| *byte == b'\n').collect::<Vec<&[u8]>>();
        let at = lines.iter().position(|line| {
            line.get(..11).is_some_and(|name| name.eq_ignore_ascii_case(b"message-id:"))
        })?;
        // The value may be on a continuation line.
        let is_folded = |line: &&&[u8]| line.first().is_some_and(|byte| b" \t".contains(byte));
        let folded = lines[at + 1..].iter().take_while(is_folded);
        std::iter::once(&&lines[at][11..]).chain(folded).find_map(|line| id_in(line))
    };
    of_line.or_else(of_headers).map(String::from_utf8_lossy)
}

/// A Message-ID without its angle brackets, to compare it.
pub fn bare_message_id(id: &str) -> &str {
    id.trim().trim_start_matches('<').trim_end_matches('>')
}

/// Finds `<id>` in a text.
fn id_in(text: &[u8]) -> Option<&[u8]> {
    let start = memchr::memchr(b'<', text)?;
    let length = memchr::memchr(b'>', &text[start..])?;
    Some(&text[start..=start + length])
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn message_id_is_found_in_log_line_or_headers() {
        for (log_id, headers, id) in [
            ("<1@x>", "Message-ID: <2@x>\n", Some("<1@x>")),
            ("none", "Message-Id: <2@x>\n", Some("<2@x>")),
            ("none", "Subject: <3@x>\nMESSAGE-ID:\n\t<2@x>\nTo: <4@x>\n", Some("<2@x>")),
            ("none", "Message-ID:\nTo: <4@x>\n", None),
            ("none", "Subject: x\n", None),
            ("<unfinished", "", None),
        ] {
            let text =
                format!("@ 7\ni 1\nl {log_id}\ns l - a 0\nr           c h u 0\nm\n{headers}\n");
            let file = parse(text.into_bytes()).expect("a good one");
            assert_eq!(message_id(&file).as_deref(), id, "{log_id} {headers}");
        }
    }
}
