//! The part of an address before the domain.

/// The part of `address` before the last `@` that is not inside quotes, without its quotes.
///
/// For `"a b"@x` that is `a b`.
pub fn unquoted(address: &str) -> String {
    unquote(local_part(address))
}

fn local_part(address: &str) -> &str {
    let (mut end, mut quoted, mut escaped) = (address.len(), false, false);
    for (index, byte) in address.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b'@' if !quoted => end = index,
            _ => {}
        }
    }
    &address[..end]
}

fn unquote(local: &str) -> String {
    let mut unquoted = String::with_capacity(local.len());
    let mut characters = local.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {}
            '\\' => unquoted.extend(characters.next()),
            other => unquoted.push(other),
        }
    }
    unquoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_part_ends_before_last_at_sign_outside_quotes() {
        for (address, expected) in [
            ("bob", "bob"),
            ("bob@x", "bob"),
            ("a@b@x", "a@b"),
            (r#""a@b"@x"#, "a@b"),
            (r#""|/bin/p -x \"y z\"""#, r#"|/bin/p -x "y z""#),
            ("@x", ""),
            ("", ""),
            ("\\", ""),
        ] {
            assert_eq!(unquoted(address), expected, "{address}");
        }
    }
}
