//! Who an address means.

/// Where a recipient's message goes.
#[derive(Debug, PartialEq, Eq)]
pub enum Destination {
    /// To the mailbox of this user, if there is one.
    User(String),
    /// To `/dev/null`, as routers write recipients that get nothing.
    Nowhere,
    /// To a file or a program: not by this agent.
    Unsupported,
    /// To a name that no user can have.
    Nobody,
}

/// Reads an address: `user`, `user@domain`, `user+detail@domain`, `"user"@domain`, or what a router
/// makes of an alias: `/a/file`, `|a program`.
pub fn destination(address: &[u8]) -> Destination {
    let Ok(address) = std::str::from_utf8(address) else {
        return Destination::Nobody;
    };
    let local = unquote(local_part(address));
    match local.as_bytes() {
        b"/dev/null" => Destination::Nowhere,
        [b'/' | b'|' | b':', ..] => Destination::Unsupported,
        _ => {
            let user = local.split_once('+').map_or(&*local, |(user, _detail)| user);
            if is_safe(user) { Destination::User(user.into()) } else { Destination::Nobody }
        }
    }
}

/// Everything before the last `@` that is not within quotes.
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

/// Whether a name can be that of a mailbox: letters, digits, and in between also `.`, `_` and `-`.
/// `NAME.lock` would be the lock of another.
pub fn is_safe(name: &str) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    starts_well && name.len() <= 64 && name.bytes().all(allowed) && !name.ends_with(".lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_users() {
        for (address, user) in [
            ("games", "games"),
            ("games@zm.example.test", "games"),
            ("Games+lists@x", "Games"),
            ("\"games\"@x", "games"),
            (r#""ga\mes+a@b"@x"#, "games"),
            ("g.a-m_es9@x@y", "g.a-m_es9@x"),
            ("a..b", "a..b"),
        ] {
            let expected = match user.contains('@') {
                true => Destination::Nobody,
                false => Destination::User(user.into()),
            };
            assert_eq!(destination(address.as_bytes()), expected, "{address}");
        }
    }

    #[test]
    fn paths_never_become_users() {
        for address in [
            "",
            "@x",
            "+detail@x",
            "..",
            "../etc/passwd",
            ".hidden",
            "a/b",
            "-x",
            "bob.lock@x",
            "a b",
            "\"a b\"@x",
            "bob\u{e9}",
            "a\0b",
            "$HOME",
        ] {
            assert_eq!(destination(address.as_bytes()), Destination::Nobody, "{address:?}");
        }
        assert_eq!(destination(b"b\xe9b"), Destination::Nobody);
        assert_eq!(destination(&[b'a'; 65]), Destination::Nobody);
    }

    #[test]
    fn files_and_programs_are_told_apart() {
        assert_eq!(destination(b"/dev/null"), Destination::Nowhere);
        for address in
            ["/tmp/file", "\"|/bin/prog -x\"@host", "|prog", ":include:/list", "/dev/null2"]
        {
            assert_eq!(destination(address.as_bytes()), Destination::Unsupported, "{address}");
        }
    }
}
