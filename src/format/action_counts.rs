//! Recipients of a report, counted by what happened to them.

/// Numbers of recipients of a report by action (RFC 3464, 2.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ActionCounts {
    /// They could not be delivered.
    pub failed: u32,
    /// They are late.
    pub delayed: u32,
    /// They were passed to a system that sends no reports.
    pub relayed: u32,
    /// They were delivered.
    pub delivered: u32,
    /// They were passed to the members of a list.
    pub expanded: u32,
}

impl ActionCounts {
    /// Counts a recipient with an action of notary data. An unknown action is a failure.
    pub fn add(&mut self, action: &[u8]) {
        *match action.to_ascii_lowercase().as_slice() {
            b"delayed" => &mut self.delayed,
            b"relayed" => &mut self.relayed,
            b"delivered" => &mut self.delivered,
            b"expanded" => &mut self.expanded,
            _ => &mut self.failed,
        } += 1;
    }

    /// All words with their numbers.
    pub fn all(self) -> [(&'static str, u32); 5] {
        [
            ("failed", self.failed),
            ("delayed", self.delayed),
            ("relayed", self.relayed),
            ("delivered", self.delivered),
            ("expanded", self.expanded),
        ]
    }
}
