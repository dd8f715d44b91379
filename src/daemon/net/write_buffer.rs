//! Output buffer for a receiver that may be slow.

use std::io::{self, ErrorKind, Write};

/// Bytes not sent yet.
#[derive(Default)]
pub(crate) struct WriteBuffer {
    bytes: Vec<u8>,
    sent: usize,
}

impl WriteBuffer {
    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Buffer to append bytes to.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Number of bytes not sent yet.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Returns true if all is sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes as much as `peer` accepts without waiting. Returns the number of bytes.
    pub(crate) fn flush(&mut self, peer: &mut impl Write) -> io::Result<usize> {
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

    /// Accepts five bytes at a time, and none every other time.
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
    fn output_to_slow_receiver_arrives_in_order() {
        let mut buffer = WriteBuffer::default();
        let mut peer = Slow { taken: Vec::new(), busy: false };
        let mut expected = Vec::new();
        for round in 0..20u8 {
            let line = [b'a' + round; 7];
            buffer.push(&line);
            expected.extend_from_slice(&line);
            buffer.flush(&mut peer).expect("the peer never fails");
        }
        while !buffer.is_empty() {
            buffer.flush(&mut peer).expect("the peer never fails");
        }
        assert_eq!(peer.taken, expected);
    }
}
