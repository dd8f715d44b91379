//! Taking decisions from bytes: the same bytes, the same decisions.

/// Bytes that have not been used up yet.
pub struct Draw<'a> {
    rest: &'a [u8],
}

impl<'a> Draw<'a> {
    /// Decisions from the first byte on.
    pub fn new(bytes: &'a [u8]) -> Draw<'a> {
        Draw { rest: bytes }
    }

    /// Whether all bytes are used up: every decision is 0 from here on.
    pub fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.rest.split_first().unwrap_or((&0, &[]));
        self.rest = rest;
        *first
    }

    /// A number below `limit`, which is at most 256.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit.max(1)
    }

    /// One of some things; `None` if there are none.
    pub fn one_of<'t, T>(&mut self, things: &'t [T]) -> Option<&'t T> {
        things.get(self.below(things.len().min(256)))
    }

    /// All bytes up to the first `end`, which is used up, too.
    pub fn until(&mut self, end: u8) -> &'a [u8] {
        let at = self.rest.iter().position(|byte| *byte == end).unwrap_or(self.rest.len());
        let taken = &self.rest[..at];
        self.rest = self.rest.get(at + 1..).unwrap_or_default();
        taken
    }

    /// All bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}
