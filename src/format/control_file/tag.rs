//! The tag byte of a line, and the pid column after it.

/// The second byte of a recipient line: the state of the recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// `' '`: to be delivered, possibly after a deferral.
    Pending,
    /// `~`: an agent is working on it; its pid is in the pid column.
    Locked,
    /// `+`: done, delivered or passed on.
    Done,
    /// `-`: done, failed.
    Failed,
    /// Any other byte disables the line.
    Disabled(u8),
}

impl Tag {
    /// The tag for a byte of the file.
    pub const fn from_byte(byte: u8) -> Tag {
        match byte {
            b' ' => Tag::Pending,
            b'~' => Tag::Locked,
            b'+' => Tag::Done,
            b'-' => Tag::Failed,
            other => Tag::Disabled(other),
        }
    }

    /// The byte for this tag.
    pub const fn byte(self) -> u8 {
        match self {
            Tag::Pending => b' ',
            Tag::Locked => b'~',
            Tag::Done => b'+',
            Tag::Failed => b'-',
            Tag::Disabled(byte) => byte,
        }
    }
}

/// The six bytes after the tag: a pid, right-aligned, or blanks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PidField(pub [u8; PidField::WIDTH]);

impl PidField {
    /// Width of the column, in bytes.
    pub const WIDTH: usize = 6;
    /// The pid column of an unlocked line.
    pub const BLANK: PidField = PidField([b' '; PidField::WIDTH]);

    /// The column for a process id.
    ///
    /// Ids above 999,999 lose their last digits: the original prints them with `%6d` and keeps six
    /// bytes.
    pub fn from_pid(pid: u32) -> PidField {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(pid).as_bytes();
        let kept = &digits[..digits.len().min(PidField::WIDTH)];
        let mut field = [b' '; PidField::WIDTH];
        field[PidField::WIDTH - kept.len()..].copy_from_slice(kept);
        PidField(field)
    }

    /// The number in the column, if there is one: blanks, then digits.
    pub fn pid(self) -> Option<u32> {
        std::str::from_utf8(&self.0).ok()?.trim_start_matches(' ').parse().ok()
    }

    /// Returns true if the number may have lost digits, since it fills the column.
    pub fn may_be_truncated(self) -> bool {
        self.0[0] != b' '
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pid_field_is_right_aligned_and_cut_at_six_digits() {
        assert_eq!(&PidField::from_pid(31337).0, b" 31337");
        assert_eq!(PidField::from_pid(31337).pid(), Some(31337));
        assert!(!PidField::from_pid(31337).may_be_truncated());
        assert_eq!(&PidField::from_pid(4_194_304).0, b"419430");
        assert!(PidField::from_pid(4_194_304).may_be_truncated());
        assert_eq!(PidField::BLANK.pid(), None);
        assert_eq!(PidField(*b"a12345").pid(), None);
    }

    #[test]
    fn tags_round_trip() {
        for byte in 0..=255u8 {
            assert_eq!(Tag::from_byte(byte).byte(), byte);
        }
    }
}
