//! The boundary between the parts of a message.

use memchr::memmem;
use std::collections::HashSet;

/// Maximum length of the part of a boundary that the id makes. All of it may have 70 (RFC 2046).
const MAX_ID_LEN: usize = 46;
/// End of a boundary. No quoted-printable or base64 text has it.
const END: &str = "=_";

/// Returns the characters of an id that may stand in a boundary and in a Message-ID.
pub(crate) fn id_characters(id: &str) -> String {
    let is_kept = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    id.chars().filter(is_kept).take(MAX_ID_LEN).collect()
}

/// Returns a boundary that does not occur in any of the texts.
///
/// A stranger may guess the id and write boundaries with it, so its number is one that none of them
/// has.
pub(crate) fn unused_in(texts: &[&[u8]], id: &str) -> String {
    let start = format!("{}.", id_characters(id));
    let pattern = format!("--{start}");
    let finder = memmem::Finder::new(&pattern);
    let mut numbers = HashSet::new();
    for text in texts {
        let after = finder.find_iter(text).map(|at| &text[at + pattern.len()..]);
        numbers.extend(after.filter_map(leading_number));
    }
    let number = (0..).find(|number| !numbers.contains(number)).expect("some number is unused");
    format!("{start}{number}{END}")
}

/// The number at the beginning of a text, if one of its usual length is there.
fn leading_number(text: &[u8]) -> Option<u64> {
    const MAX_DIGITS: usize = 12;
    let digits = text.iter().take(MAX_DIGITS + 1).take_while(|byte| byte.is_ascii_digit()).count();
    let digits = if digits <= MAX_DIGITS { &text[..digits] } else { &[] };
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundary_is_not_in_the_texts() {
        assert_eq!(unused_in(&[b"text"], "S1<>Ab\n-2"), "S1Ab-2.0=_");
        let hostile: [&[u8]; 2] = [b"x\n--S1.0=_\n--S1.1=_--", b"--S1.3=_ --S1.00002 --S1.x"];
        assert_eq!(unused_in(&hostile, "S1"), "S1.4=_");
        assert!(unused_in(&[], &"x".repeat(1000)).len() <= 70);
    }
}
