//! Finds the status code of RFC 3463 in texts of agents.

use memchr::memchr;

/// Returns the first status code of the given classes in a text.
///
/// With the classes `b"45"`, that is `5.1.1` in `smtp; 550-5.1.1 no such user`. Subject
/// and detail have one to three digits each. Part of a longer number, of an address or of a version
/// does not count.
pub fn enhanced_code<'t>(text: &'t [u8], classes: &[u8]) -> Option<&'t str> {
    let mut from = 0;
    // Searching for dots with `memchr` skips all other text quickly.
    while let Some(dot) = memchr(b'.', &text[from..]).map(|at| from + at) {
        if let Some(code) = dot.checked_sub(1).and_then(|start| code_at(text, start, classes)) {
            return Some(code);
        }
        from = dot + 1;
    }
    None
}

fn code_at<'t>(text: &'t [u8], start: usize, classes: &[u8]) -> Option<&'t str> {
    let stands_alone = match &text[..start] {
        // The reply code of a line that is not the last one.
        [.., b'0'..=b'9', b'-'] => true,
        [.., before] => !continues_word(*before),
        [] => true,
    };
    if !stands_alone || !classes.contains(&text[start]) {
        return None;
    }
    let subject = start + 2;
    let detail = subject + digits(&text[subject..])? + 1;
    if text.get(detail - 1) != Some(&b'.') {
        return None;
    }
    let end = detail + digits(text.get(detail..)?)?;
    let goes_on = match text.get(end) {
        // The end of a sentence.
        Some(b'.') => text.get(end + 1).is_some_and(u8::is_ascii_alphanumeric),
        Some(byte) => continues_word(*byte),
        None => false,
    };
    if goes_on { None } else { std::str::from_utf8(&text[start..end]).ok() }
}

/// Number of digits at the beginning of a text, if it is one to three.
fn digits(text: &[u8]) -> Option<usize> {
    let count = text.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    (1..=3).contains(&count).then_some(count)
}

fn continues_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'@' | b'/' | b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_codes_are_found_in_texts() {
        for (text, code) in [
            ("5.1.1", Some("5.1.1")),
            ("5.4.7 (delivery time expired)", Some("5.4.7")),
            ("smtp; 550 5.1.1 <a@b>... unknown", Some("5.1.1")),
            ("450-4.7.1 no", Some("4.7.1")),
            ("host-4.7.1 no", None),
            ("it was 4.2.2.", Some("4.2.2")),
            ("2.0.0 ok", Some("2.0.0")),
            ("10.5.1.1 is an address", None),
            ("5.1.1.10 is one, too", None),
            ("5.1.1.10 is one, but 4.7.1 is not", Some("4.7.1")),
            ("sendmail/5.1.2", None),
            ("3.1.1 1.1.1 x5.1.1 5.1.1x", None),
            ("5.1 5..1 5.1234.1 5.1.", None),
            (".", None),
            ("5.", None),
            ("", None),
        ] {
            assert_eq!(enhanced_code(text.as_bytes(), b"245"), code, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn enhanced_code_of_any_bytes_does_not_panic(text: Vec<u8>) {
            enhanced_code(&text, b"245");
        }

        #[test]
        fn enhanced_code_of_dots_and_digits_does_not_panic(text in "[0-9.]{0,12}") {
            enhanced_code(text.as_bytes(), b"245");
        }
    }
}
