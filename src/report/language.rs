//! The languages that a sender reads.

use crate::original::header;

/// Maximum number of languages of a message that count.
const MAX_LANGUAGES: usize = 8;

/// The languages in `Accept-Language`, then in `Content-Language` (RFC 4021), such as `de`.
///
/// They are primary subtags in lower case, in the order of the headers.
pub fn languages(headers: &[u8]) -> Vec<String> {
    let mut languages: Vec<String> = Vec::new();
    for name in ["Accept-Language", "Content-Language"] {
        let value = header(headers, name).unwrap_or_default();
        for range in value.split(|byte| *byte == b',') {
            let range = range.trim_ascii();
            let end = range.iter().position(|byte| !byte.is_ascii_alphabetic());
            let subtag = String::from_utf8_lossy(&range[..end.unwrap_or(range.len())]);
            let subtag = subtag.to_ascii_lowercase();
            if (2..=3).contains(&subtag.len()) && !languages.contains(&subtag) {
                languages.push(subtag);
            }
        }
    }
    languages.truncate(MAX_LANGUAGES);
    languages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_primary_subtags() {
        for (headers, expected) in [
            ("Subject: x\n", &[][..]),
            (
                "Accept-Language: de-CH, de;q=0.8, en;q=0.5\nContent-Language: fr\n",
                &["de", "en", "fr"],
            ),
            ("Content-Language: ../../etc/passwd, x, */*, GSW\n", &["gsw"]),
        ] {
            assert_eq!(languages(headers.as_bytes()), expected, "{headers}");
        }
    }
}
