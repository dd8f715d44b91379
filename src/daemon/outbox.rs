//! Bytes on their way to somebody who may be slow to take them.

use std::io::{self, ErrorKind, Write};

/// What has not been taken yet.
#[derive(Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// Adds bytes at the end.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Where to add bytes.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// How many bytes wait.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes as much as `peer` takes without waiting. Returns how many bytes it took.
    pub fn flush(&mut self, peer: &mut impl Write) -> io::Result<usize> {
        let before = self.sent;
        while !self.is_empty() {
            match peer.write(&self.bytes[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let taken = self.sent - before;
        if self.is_empty() || self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes five bytes at a time, and every other time none.
    struct Slow {
        taken: Vec<u8>,
        busy: bool,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.busy = !self.busy;
            if self.busy {
                return Err(ErrorKind::WouldBlock.into());
            }
            let count = bytes.len().min(5);
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn everything_arrives_in_order() {
        let mut outbox = Outbox::default();
        let mut peer = Slow { taken: Vec::new(), busy: false };
        let mut expected = Vec::new();
        for round in 0..20u8 {
            let line = [b'a' + round; 7];
            outbox.push(&line);
            expected.extend_from_slice(&line);
            outbox.flush(&mut peer).expect("the peer never fails");
        }
        while !outbox.is_empty() {
            outbox.flush(&mut peer).expect("the peer never fails");
        }
        assert_eq!(peer.taken, expected);
    }
}
