//! Decisions from bytes: equal bytes give equal decisions.

/// Bytes that are not used yet.
pub struct ByteSource<'a> {
    rest: &'a [u8],
}

impl<'a> ByteSource<'a> {
    /// Returns decisions from the first byte on.
    pub fn new(bytes: &'a [u8]) -> ByteSource<'a> {
        ByteSource { rest: bytes }
    }

    /// Returns true if all bytes are used: every further decision is 0.
    pub fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns a byte.
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.rest.split_first().unwrap_or((&0, &[]));
        self.rest = rest;
        *first
    }

    /// Returns a number below `limit`, which is at most 256.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit.max(1)
    }

    /// Returns one of some things; `None` if there are none.
    pub fn one_of<'t, T>(&mut self, things: &'t [T]) -> Option<&'t T> {
        things.get(self.below(things.len().min(256)))
    }

    /// Returns all bytes up to the first `end`, which is used, too.
    pub fn until(&mut self, end: u8) -> &'a [u8] {
        let at = self.rest.iter().position(|byte| *byte == end).unwrap_or(self.rest.len());
        let taken = &self.rest[..at];
        self.rest = self.rest.get(at + 1..).unwrap_or_default();
        taken
    }

    /// Returns all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}
