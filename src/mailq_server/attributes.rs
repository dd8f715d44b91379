//! Permissions of an account in the auth file: a set of attribute words.

use std::fmt;

/// A set of attributes. A single attribute is a set of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes(u32);

/// An attribute word of the auth file.
#[derive(Debug)]
pub struct AttributeWord {
    /// The word in the file, in capitals.
    pub name: &'static str,
    /// The attributes that the word grants.
    pub attributes: Attributes,
    /// Short description of what it permits.
    pub about: &'static str,
}

impl Attributes {
    /// The empty set.
    pub const NONE: Attributes = Attributes(0);
    /// `SHOW SNMP`.
    pub const SNMP: Attributes = Attributes(1);
    /// `SHOW QUEUE SHORT` and `SHOW JSON SUMMARY`.
    pub const QQ: Attributes = Attributes(1 << 1);
    /// Views of threads and messages.
    ///
    /// `SHOW QUEUE THREADS`, `SHOW QUEUE THREADS2`, `SHOW THREAD`, `SHOW WHY`, `SHOW MESSAGE`, and
    /// all views in JSON, except `SHOW JSON SUMMARY` and `SHOW JSON COUNTERS`.
    pub const TT: Attributes = Attributes(1 << 2);
    /// `ETRN`.
    pub const ETRN: Attributes = Attributes(1 << 4);
    /// `KILL`.
    pub const KILL: Attributes = Attributes(1 << 5);
    /// Return messages to the router (`REROUTE`).
    pub const REROUTE: Attributes = Attributes(1 << 6);
    /// Only `SHOW WHY`.
    pub const WHY: Attributes = Attributes(1 << 7);
    /// `HOLD` and `RELEASE`.
    pub const HOLD: Attributes = Attributes(1 << 8);
    /// Try waiting mail now (`RETRY`).
    pub const RETRY: Attributes = Attributes(1 << 9);
    /// Let mail expire (`EXPIRE`).
    pub const EXPIRE: Attributes = Attributes(1 << 10);
    /// Delete mail (`DELETE`).
    pub const DELETE: Attributes = Attributes(1 << 11);
    /// Change limits at run time (`SET`, `UNSET`).
    pub const SET: Attributes = Attributes(1 << 12);
    /// Read the configuration again (`RELOAD`).
    pub const RELOAD: Attributes = Attributes(1 << 13);
    /// End agents (`RETIRE`).
    pub const AGENTS: Attributes = Attributes(1 << 14);
    /// Set the log level (`LOG`).
    pub const LOG: Attributes = Attributes(1 << 15);
    /// Receive events (`SUBSCRIBE`).
    pub const EVENTS: Attributes = Attributes(1 << 16);
    /// Everything, including attributes that later versions add.
    pub const ALL: Attributes = Attributes(0x7fff_ffff);

    /// Returns true if the set contains all of `others`.
    pub fn contains_all(self, others: Attributes) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns true if the set contains at least one of `others`.
    pub fn intersects(self, others: Attributes) -> bool {
        self.0 & others.0 != 0
    }

    /// Returns the union of both sets.
    pub const fn or(self, other: Attributes) -> Attributes {
        Attributes(self.0 | other.0)
    }

    /// Returns true if the set is empty.
    pub fn is_empty(self) -> bool {
        self == Attributes::NONE
    }
}

impl fmt::Display for Attributes {
    /// Writes the words of the auth file, separated by blanks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Attributes::ALL {
            return f.write_str("ALL");
        }
        let single = |word: &&AttributeWord| word.attributes.0.count_ones() == 1;
        let words = WORDS.iter().filter(single).filter(|word| self.contains_all(word.attributes));
        let names: Vec<&str> = words.map(|word| word.name).collect();
        f.write_str(if names.is_empty() { "NONE" } else { "" })?;
        f.write_str(&names.join(" "))
    }
}

/// All attribute words.
pub fn words() -> &'static [AttributeWord] {
    WORDS
}

/// Returns the attributes of a word; `None` if the word is unknown.
///
/// Words are in capitals; the comparison is exact.
pub fn from_word(name: &[u8]) -> Option<Attributes> {
    WORDS.iter().find(|word| word.name.as_bytes() == name).map(|word| word.attributes)
}

const fn word(name: &'static str, attributes: Attributes, about: &'static str) -> AttributeWord {
    AttributeWord { name, attributes, about }
}

static WORDS: &[AttributeWord] = &[
    word("ALL", Attributes::ALL, "everything"),
    word("NONE", Attributes::NONE, "nothing"),
    word("SNMP", Attributes::SNMP, "SHOW SNMP"),
    word("QQ", Attributes::QQ, "SHOW QUEUE SHORT, SHOW JSON SUMMARY"),
    word(
        "TT",
        Attributes::TT,
        "SHOW QUEUE THREADS, SHOW QUEUE THREADS2, SHOW THREAD, SHOW WHY, SHOW JSON",
    ),
    word("ETRN", Attributes::ETRN, "ETRN"),
    word("KILL", Attributes::KILL, "KILL MSG, KILL THREAD"),
    word("WHY", Attributes::WHY, "SHOW WHY alone"),
    word("HOLD", Attributes::HOLD, "HOLD, RELEASE"),
    word("RETRY", Attributes::RETRY, "RETRY"),
    word("EXPIRE", Attributes::EXPIRE, "EXPIRE"),
    word("DELETE", Attributes::DELETE, "DELETE"),
    word("REROUTE", Attributes::REROUTE, "REROUTE"),
    word("SET", Attributes::SET, "SET, UNSET"),
    word("RELOAD", Attributes::RELOAD, "RELOAD"),
    word("AGENTS", Attributes::AGENTS, "RETIRE"),
    word("LOG", Attributes::LOG, "LOG"),
    word("EVENTS", Attributes::EVENTS, "SUBSCRIBE"),
    // ZMailer's smtpserver reads the same file.
    word("SMTPIP", Attributes::NONE, "Z-REPORT of the smtpserver"),
    word("SMTPALL", Attributes::NONE, "Z-REPORT of the smtpserver"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_map_to_their_attributes() {
        assert_eq!(from_word(b"QQ"), Some(Attributes::QQ));
        assert_eq!(from_word(b"SMTPIP"), Some(Attributes::NONE));
        for unknown in [&b"qq"[..], b"all", b"", b"SNMP\tQQ", b"FOO"] {
            assert_eq!(from_word(unknown), None);
        }
        for word in words() {
            assert!(Attributes::ALL.contains_all(word.attributes), "{}", word.name);
            assert!(!Attributes::NONE.contains_all(word.attributes) || word.attributes.is_empty());
        }
        let some = Attributes::TT.or(Attributes::SNMP);
        assert_eq!(some.to_string(), "SNMP TT");
        assert!(
            some.intersects(Attributes::TT.or(Attributes::QQ)) && !some.intersects(Attributes::QQ)
        );
        assert!(
            some.contains_all(Attributes::TT)
                && !some.contains_all(Attributes::TT.or(Attributes::QQ))
        );
        assert_eq!(
            (Attributes::ALL.to_string(), Attributes::NONE.to_string()),
            ("ALL".into(), "NONE".into())
        );
    }
}
