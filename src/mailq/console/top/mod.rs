//! `mailq top`: a live view of the queue.
//!
//! ```text
//! keys ──► state ──► draw ──► terminal
//!            ▲ │ commands
//!  snapshots │ ▼
//!           worker: the session with the scheduler
//! ```
//!
//! Keys work even while the scheduler is slow to answer, or gone.

mod state;

mod draw;
mod worker;

use crate::failure::Failure;
use crate::installation::Installation;
use crate::screen::Terminal;
use crossterm::event::{self, Event, KeyEventKind};
use state::TopState;
use std::io;
use std::sync::mpsc;
use std::time::Duration;
use worker::{WorkerCommand, WorkerReport};

/// Time to wait for a key before looking for a new snapshot.
const KEY_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Runs until the user leaves.
pub(super) fn run(
    installation: Installation,
    interval: Duration,
    terminal: Terminal,
) -> Result<(), Failure> {
    if !terminal.is_terminal {
        return Failure::usage("mailq top needs a terminal; mailq summary --watch does not");
    }
    // A failure to connect is reported before the screen is taken over.
    let session = super::client::session(&installation)?;
    let (commands, to_execute) = mpsc::channel();
    let (to_show, reports) = mpsc::channel();
    // The worker ends when its channel is closed, or with the process.
    std::thread::spawn(move || {
        worker::run(session, &installation, interval, &to_execute, &to_show);
    });
    let mut screen = ratatui::try_init().map_err(Failure::Output)?;
    let result = follow(&mut screen, &commands, &reports, terminal.has_colour);
    ratatui::try_restore().map_err(Failure::Output)?;
    result
}

fn follow(
    screen: &mut ratatui::DefaultTerminal,
    commands: &mpsc::Sender<WorkerCommand>,
    reports: &mpsc::Receiver<WorkerReport>,
    has_colour: bool,
) -> Result<(), Failure> {
    let mut state = TopState::default();
    let mut has_changed = true;
    loop {
        while let Ok(report) = reports.try_recv() {
            state.apply(report);
            has_changed = true;
        }
        if has_changed {
            let drawn = screen.draw(|frame| draw::draw(frame, &mut state, has_colour));
            drawn.map_err(Failure::Output)?;
        }
        // Keys, and a new size of the terminal, change the screen.
        has_changed = event::poll(KEY_POLL_INTERVAL).map_err(Failure::Output)?;
        if !has_changed {
            continue;
        }
        let command = match event::read() {
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => state.key(key),
            Ok(_) => continue,
            // A signal has interrupted the call.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::Output(error)),
        };
        if state.has_left {
            return Ok(());
        }
        // The send fails if the worker has ended.
        command.into_iter().for_each(|command| drop(commands.send(command)));
    }
}
