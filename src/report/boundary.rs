//! The boundary between the parts of a message.

use memchr::memmem;

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
    let numbers = || {
        texts.iter().flat_map(|text| {
            finder.find_iter(text).map(|at| leading_number(&text[at + pattern.len()..]))
        })
    };
    // Of one number more than there are occurrences, one at least is unused.
    let mut is_used = vec![false; numbers().count() + 1];
    for number in numbers().flatten() {
        if let Some(is_used) = is_used.get_mut(number) {
            *is_used = true;
        }
    }
    let number = is_used.iter().position(|is_used| !is_used).expect("one is unused");
    format!("{start}{number}{END}")
}

/// The number at the beginning of a text, if it may be that of a boundary.
fn leading_number(text: &[u8]) -> Option<usize> {
    const MAX_DIGITS: usize = 12;
    let digits = text.iter().take(MAX_DIGITS + 1).take_while(|byte| byte.is_ascii_digit()).count();
    let digits = if digits <= MAX_DIGITS { &text[..digits] } else { &[] };
    str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundary_is_not_in_the_texts() {
        assert_eq!(unused_in(&[b"text"], "S1<>Ab\n-2"), "S1Ab-2.0=_");
        let hostile: [&[u8]; 2] = [b"x\n--S1.0=_\n--S1.1=_--", b"--S1.3=_ --S1.00002 --S1.x"];
        assert_eq!(unused_in(&hostile, "S1"), "S1.4=_");
        let many: String = (0..1000).map(|number| format!("--S1.{number}=_\n")).collect();
        assert_eq!(unused_in(&[many.as_bytes()], "S1"), "S1.1000=_");
        assert!(unused_in(&[], &"x".repeat(1000)).len() <= 70);
    }
}
