//! Signals for an event loop.
//!
//! The handler sets a bit and writes to an eventfd. A write to an eventfd needs no memory and
//! always signals readiness, unlike one to a pipe or socket. The bits can be read at any time
//! without a system call.

use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::event::{EventfdFlags, eventfd};
use signal_hook::SigId;
use signal_hook::low_level::{register, unregister};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Signals that the process catches, and those received.
pub struct Signals {
    shared: Arc<SignalState>,
    handlers: Vec<SigId>,
}

struct SignalState {
    /// Bit for each signal number received.
    received: AtomicU64,
    eventfd: OwnedFd,
}

impl SignalState {
    /// Records a signal. Runs in a signal handler: it only stores and writes.
    fn record(&self, signal: i32) {
        self.received.fetch_or(1 << signal, Ordering::SeqCst);
        // A failure means that the counter is at its maximum: the descriptor is readable then.
        rustix::io::write(&self.eventfd, &1u64.to_ne_bytes()).ok();
    }
}

impl Signals {
    /// Catches signals from now on, in place of their default actions.
    pub fn catch(signals: &[i32]) -> io::Result<Signals> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(SignalState { received: AtomicU64::new(0), eventfd });
        let mut caught = Signals { shared, handlers: Vec::new() };
        for &signal in signals {
            let shared = caught.shared.clone();
            // SAFETY: `note` calls only async-signal-safe functions, and cannot panic: signals are
            // below 64.
            caught.handlers.push(unsafe { register(signal, move || shared.record(signal)) }?);
        }
        Ok(caught)
    }

    /// Returns true if a signal has come and was not taken.
    pub fn are_pending(&self) -> bool {
        self.shared.received.load(Ordering::SeqCst) != 0
    }

    /// Takes the signals that came since the last call, each once.
    pub fn take(&self) -> impl Iterator<Item = i32> + use<> {
        let received = self.shared.received.swap(0, Ordering::SeqCst);
        (1..64).filter(move |signal| received & (1 << signal) != 0)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.handlers.drain(..).for_each(|handler| {
            unregister(handler);
        });
    }
}

/// Each signal triggers readiness again; reading is not needed.
impl Source for Signals {
    fn register(&mut self, to: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        SourceFd(&self.shared.eventfd.as_raw_fd()).register(to, token, interests)
    }

    fn reregister(&mut self, to: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        SourceFd(&self.shared.eventfd.as_raw_fd()).reregister(to, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        SourceFd(&self.shared.eventfd.as_raw_fd()).deregister(registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn signal_wakes_loop_and_is_taken_once() {
        // The default action of these two is to do nothing.
        let mut signals = Signals::catch(&[libc::SIGURG, libc::SIGWINCH]).expect("caught");
        let mut poll = mio::Poll::new().expect("a poll");
        poll.registry().register(&mut signals, Token(7), Interest::READABLE).expect("registered");
        let mut events = mio::Events::with_capacity(8);
        for round in 0..3 {
            for _ in 0..1000 {
                // To this OS thread, so that none is still pending after this.
                signal_hook::low_level::raise(libc::SIGWINCH).expect("sent");
            }
            let deadline = Some(Duration::from_secs(30));
            poll.poll(&mut events, deadline).expect("polled");
            assert!(events.iter().any(|event| event.token() == Token(7)), "round {round}");
            assert!(signals.are_pending());
            assert_eq!(signals.take().collect::<Vec<i32>>(), [libc::SIGWINCH]);
        }
        assert!(!signals.are_pending());
        assert_eq!(signals.take().next(), None);
    }
}
