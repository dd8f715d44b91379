//! Determines the user that an address belongs to.

use zsched_agents::local_part;

/// The destination of a recipient's message.
#[derive(Debug, PartialEq, Eq)]
pub enum Destination {
    /// The mailbox of this user, if there is one.
    User(String),
    /// `/dev/null`, which routers use for recipients that get nothing.
    Discard,
    /// A file or a program, to which this agent does not deliver.
    Unsupported,
    /// A name that no user can have.
    NoSuchName,
}

/// Parses an address: `user`, `user@domain`, `user+detail@domain` or `"user"@domain`.
///
/// Also accepts what a router makes of an alias: `/a/file`, `|a program`.
pub fn destination(address: &[u8]) -> Destination {
    let Ok(address) = std::str::from_utf8(address) else {
        return Destination::NoSuchName;
    };
    let local = local_part::unquoted(address);
    match local.as_bytes() {
        b"/dev/null" => Destination::Discard,
        [b'/' | b'|' | b':', ..] => Destination::Unsupported,
        _ => {
            let user = local.split_once('+').map_or(&*local, |(user, _detail)| user);
            if is_file_name(user) {
                Destination::User(user.into())
            } else {
                Destination::NoSuchName
            }
        }
    }
}

/// Returns true if a mailbox file can have this name. `NAME.lock` would be the lock of another.
pub fn is_file_name(name: &str) -> bool {
    let allowed = |byte: u8| byte != b'/' && !byte.is_ascii_control();
    let starts_well = !name.is_empty() && !name.starts_with('.');
    starts_well && name.bytes().all(allowed) && !name.ends_with(".lock")
}

/// Returns true for a sensible name, if every sensible name has a mailbox.
///
/// It consists of letters and digits, and of `.`, `_` and `-` after the beginning.
pub fn is_sensible(name: &str) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    starts_well && name.len() <= 64 && name.bytes().all(allowed) && !name.ends_with(".lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_map_to_users() {
        for (address, user) in [
            ("games", "games"),
            ("games@zm.example.test", "games"),
            ("Games+lists@x", "Games"),
            ("\"games\"@x", "games"),
            (r#""ga\mes+a@b"@x"#, "games"),
            ("g.a-m_es9@x@y", "g.a-m_es9@x"),
            ("a..b", "a..b"),
            ("joe$", "joe$"),
            ("-x", "-x"),
            ("\"a b\"@x", "a b"),
            ("bob\u{e9}", "bob\u{e9}"),
        ] {
            let expected = Destination::User(user.into());
            assert_eq!(destination(address.as_bytes()), expected, "{address}");
        }
    }

    #[test]
    fn paths_are_never_users() {
        for address in [
            "",
            "@x",
            "+detail@x",
            "..",
            "../etc/passwd",
            ".hidden",
            "a/b",
            "bob.lock@x",
            "a\0b",
            "a\tb",
            "a\x7fb",
        ] {
            assert_eq!(destination(address.as_bytes()), Destination::NoSuchName, "{address:?}");
        }
        assert_eq!(destination(b"b\xe9b"), Destination::NoSuchName);
    }

    #[test]
    fn some_file_names_are_not_sensible() {
        for name in ["bob", "b.o-b_9", "_b", "9"] {
            assert!(is_sensible(name) && is_file_name(name), "{name}");
        }
        for name in ["joe$", "-x", "a b", "bob\u{e9}", "$HOME", "g@x", &"a".repeat(65)] {
            assert!(!is_sensible(name) && is_file_name(name), "{name}");
        }
        for name in ["", ".x", "a/b", "x.lock"] {
            assert!(!is_sensible(name) && !is_file_name(name), "{name}");
        }
    }

    #[test]
    fn files_and_programs_are_unsupported() {
        assert_eq!(destination(b"/dev/null"), Destination::Discard);
        for address in
            ["/tmp/file", "\"|/bin/prog -x\"@host", "|prog", ":include:/list", "/dev/null2"]
        {
            assert_eq!(destination(address.as_bytes()), Destination::Unsupported, "{address}");
        }
    }
}
