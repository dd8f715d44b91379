//! Sizes of messages in selections: `812`, `100k`, `10M`, `1G`.

/// Parses a number of bytes; `k`, `M` and `G` are powers of 1024.
pub fn parse(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_has_number_and_unit() {
        for (text, size) in [
            ("0", Some(0)),
            ("812", Some(812)),
            ("100k", Some(102_400)),
            ("10M", Some(10 << 20)),
            ("2g", Some(2 << 30)),
            ("", None),
            ("M", None),
            ("+1", None),
            ("1.5M", None),
            ("1kB", None),
            ("1\u{e9}", None),
            ("99999999999999G", None),
        ] {
            assert_eq!(parse(text), size, "{text}");
        }
    }
}
