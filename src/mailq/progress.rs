//! A line on a terminal that tells what takes long.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zsched_format::printable;

/// Time after which the line appears.
const MIN_WAIT: Duration = Duration::from_secs(1);
/// Time between two updates of the line.
const UPDATE_INTERVAL: Duration = Duration::from_millis(250);

/// Shows on standard error what is done, until it is dropped.
///
/// The line appears after a second, and only on a terminal.
pub(crate) struct Progress {
    text: Arc<Mutex<String>>,
    /// Closed to end the thread that draws.
    drawing: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Begins to show this text.
    pub(crate) fn start(text: impl Into<String>) -> Progress {
        let text = Arc::new(Mutex::new(text.into()));
        let drawing = io::stderr().is_terminal().then(|| {
            let (end, ended) = channel();
            let text = text.clone();
            let draw = move || {
                let begun = Instant::now();
                let mut wait = MIN_WAIT;
                while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                    draw(&text, begun.elapsed());
                    wait = UPDATE_INTERVAL;
                }
                if begun.elapsed() > MIN_WAIT {
                    drop(write!(io::stderr(), "\r\x1b[K"));
                }
            };
            (end, std::thread::spawn(draw))
        });
        Progress { text, drawing }
    }

    /// Returns true if it is shown.
    pub(crate) fn is_shown(&self) -> bool {
        self.drawing.is_some()
    }

    /// Changes the text.
    pub(crate) fn set(&self, text: String) {
        if let Ok(mut shown) = self.text.lock() {
            *shown = text;
        }
    }
}

fn draw(text: &Mutex<String>, elapsed: Duration) {
    let text = text.lock().map(|text| text.clone()).unwrap_or_default();
    let line = printable::line(&text);
    // If standard error is closed, the exit status has to do.
    drop(write!(io::stderr(), "\r\x1b[K{line} ({} s)", elapsed.as_secs()));
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, drawing)) = self.drawing.take() {
            drop(end);
            drop(drawing.join());
        }
    }
}
