//! Names of messages in the spool, and their hash folders.

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::fmt;
use zsched_format::agent_protocol::leading_number;

/// Number of levels of single-letter folders in the spool (`-H`, `SCHEDULERDIRHASH`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HashLevel {
    /// All files are in `transport/` and `queue/` themselves.
    #[default]
    Flat,
    /// `transport/F/4711`.
    Once,
    /// `transport/Z/F/4711`.
    Twice,
}

impl HashLevel {
    /// The level that the settings name.
    ///
    /// They are `SCHEDULERDIRHASH` of the ZENV file, and the number of options `-H`.
    ///
    /// The variable takes precedence, but only if it is 1 or 2.
    pub fn of_settings(variable: Option<&str>, options: u8) -> HashLevel {
        match (variable, options) {
            (Some("1"), _) => HashLevel::Once,
            (Some("2"), _) => HashLevel::Twice,
            (_, 0) => HashLevel::Flat,
            (_, 1) => HashLevel::Once,
            (_, 2..) => HashLevel::Twice,
        }
    }

    /// The level of `router/`, as `ROUTERDIRHASH` of the ZENV file says.
    pub fn of_router(variable: Option<&str>) -> HashLevel {
        if variable == Some("1") { HashLevel::Once } else { HashLevel::Flat }
    }
}

/// The folder of a file below `transport/` or `queue/`.
///
/// Its name has none, one or two capital letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct HashFolder([u8; 2]);

impl HashFolder {
    /// The top folder itself.
    pub const TOP: HashFolder = HashFolder([0, 0]);

    /// The folder for a message number, by ZMailer's formula.
    pub fn of(number: u64, level: HashLevel) -> HashFolder {
        let letter = |n: u64| b'A' + (n % 26) as u8;
        match level {
            HashLevel::Flat => HashFolder::TOP,
            HashLevel::Once => HashFolder([letter(number), 0]),
            HashLevel::Twice => HashFolder([letter(number / 26), letter(number)]),
        }
    }

    /// The folder one level below this one.
    ///
    /// Returns `None` for a name other than a single capital letter, and below the second level.
    pub fn below(self, name: &[u8]) -> Option<HashFolder> {
        match (self.0, name) {
            ([0, 0], &[letter @ b'A'..=b'Z']) => Some(HashFolder([letter, 0])),
            ([first, 0], &[letter @ b'A'..=b'Z']) => Some(HashFolder([first, letter])),
            _ => None,
        }
    }
}

impl fmt::Display for HashFolder {
    /// Formats the folder with a slash after each letter: `Z/F/`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &letter in self.0.iter().take_while(|letter| **letter != 0) {
            write!(f, "{}/", letter as char)?;
        }
        Ok(())
    }
}

/// The name of both files of a message.
///
/// The scheduler identifies a message by the [number](SpoolName::number) at the beginning of its
/// name, by custom the inode number of the message file. Two messages with the same number cannot
/// be loaded together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct SpoolName {
    number: u64,
    folder: HashFolder,
    /// The base name, if it is not just the number in decimal.
    ///
    /// A thin pointer: hardly any message has one, and there may be millions of names in memory.
    custom_base: Option<Box<Box<str>>>,
}

/// Maximum length of a base name, in bytes; agents have buffers of this order.
const MAX_BASE_NAME_LEN: usize = 48;

impl SpoolName {
    /// The name for a base name found in a folder.
    ///
    /// `None` if it is not that of a control file.
    ///
    /// It must begin with a digit and be short, printable, and without blanks or slashes.
    pub fn new(folder: HashFolder, base: &[u8]) -> Option<SpoolName> {
        let (number, rest) = leading_number(base)?;
        let has_leading_zero = base.len() > 1 && base[0] == b'0';
        if rest.is_empty() && !has_leading_zero {
            return Some(SpoolName::plain(folder, number));
        }
        let is_printable = |byte: &u8| byte.is_ascii_graphic() && *byte != b'/';
        let is_acceptable = base.len() <= MAX_BASE_NAME_LEN && rest.iter().all(is_printable);
        let base = std::str::from_utf8(base).ok().filter(|_| is_acceptable)?;
        Some(SpoolName { number, folder, custom_base: Some(Box::new(base.into())) })
    }

    /// A name that is just a number.
    pub fn plain(folder: HashFolder, number: u64) -> SpoolName {
        SpoolName { number, folder, custom_base: None }
    }

    /// The name for a path that was sent to the notify socket.
    ///
    /// For example `4711`, `F/4711` or `Z/F/4711`. The first digit must not be a zero.
    pub fn from_notified(path: &[u8]) -> Option<SpoolName> {
        SpoolName::from_path(path).filter(|name| !name.begins_with_zero())
    }

    /// The name for a path below `transport/`.
    pub(crate) fn from_path(path: &[u8]) -> Option<SpoolName> {
        let mut folder = HashFolder::TOP;
        let mut parts = path.split(|byte| *byte == b'/').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return SpoolName::new(folder, part);
            }
            folder = folder.below(part)?;
        }
        None
    }

    fn begins_with_zero(&self) -> bool {
        match &self.custom_base {
            Some(odd) => odd.starts_with('0'),
            None => self.number == 0,
        }
    }

    /// The number at the beginning of the name.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The folder that contains the files.
    pub fn folder(&self) -> HashFolder {
        self.folder
    }

    /// The same name in another folder.
    pub fn in_folder(&self, folder: HashFolder) -> SpoolName {
        SpoolName { folder, ..self.clone() }
    }

    /// The name without its folder.
    pub fn base(&self) -> String {
        match &self.custom_base {
            Some(odd) => odd.to_string(),
            None => self.number.to_string(),
        }
    }

    /// The name without its folder, if it is no decimal number.
    pub fn nonnumeric_base(&self) -> Option<&str> {
        self.custom_base.as_deref().map(|base| &**base)
    }

    /// The path below `transport/` and `queue/`, as in job lines and MAILQ.
    pub fn path(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for SpoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.folder.fmt(f)?;
        match &self.custom_base {
            Some(odd) => f.write_str(odd),
            None => f.write_str(itoa::Buffer::new().format(self.number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zenv_hash_overrides_option_only_if_one_or_two() {
        for (zenv, option, expected) in [
            (None, 0, HashLevel::Flat),
            (None, 1, HashLevel::Once),
            (None, 3, HashLevel::Twice),
            (Some("0"), 1, HashLevel::Once),
            (Some("yes"), 2, HashLevel::Twice),
            (Some("1"), 2, HashLevel::Once),
            (Some("2"), 0, HashLevel::Twice),
        ] {
            assert_eq!(HashLevel::of_settings(zenv, option), expected, "{zenv:?} {option}");
        }
    }

    #[test]
    fn hash_folder_equals_recorded_formula() {
        for (number, once, twice) in [
            (4711, "F/", "Z/F/"),
            (15582, "I/", "B/I/"),
            (258_367, "F/", "F/F/"),
            (778, "Y/", "D/Y/"),
            (10_101_746, "S/", "K/S/"),
            (10_101_334, "W/", "U/W/"),
            (10_101_429, "N/", "Y/N/"),
        ] {
            assert_eq!(HashFolder::of(number, HashLevel::Flat).to_string(), "");
            assert_eq!(HashFolder::of(number, HashLevel::Once).to_string(), once);
            assert_eq!(HashFolder::of(number, HashLevel::Twice).to_string(), twice);
        }
    }

    #[test]
    fn base_name_must_begin_with_digit() {
        let path = |base: &str| SpoolName::new(HashFolder::TOP, base.as_bytes()).map(|n| n.path());
        for name in ["4711", "0", "0700", "701-abc", "4711-2342", "9002-etrn"] {
            assert_eq!(path(name).as_deref(), Some(name));
        }
        for name in
            ["", "x702", ".4711", "..etrn-X", "-1", "47 11", "600\n", "99999999999999999999"]
        {
            assert_eq!(path(name), None, "{name:?}");
        }
        assert_eq!(path(&"1".repeat(64)), None);
    }

    #[test]
    fn notified_path_outside_spool_is_refused() {
        let path = |text: &str| SpoolName::from_notified(text.as_bytes()).map(|name| name.path());
        for name in ["10101267", "I/777", "B/I/777", "701-abc"] {
            assert_eq!(path(name).as_deref(), Some(name));
        }
        for name in
            ["600\n", "x702", "0700", "a/601", "A/B/C/602", "../transport/603", "", "A/", "/1"]
        {
            assert_eq!(path(name), None, "{name:?}");
        }
    }

    #[test]
    fn spool_name_is_small() {
        assert_eq!(size_of::<SpoolName>(), 24);
    }
}
