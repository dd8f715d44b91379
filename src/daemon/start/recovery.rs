//! Completes removals and submissions of the former scheduler.

use std::fs;
use std::io;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, SystemTime};
use zsched_format::printable;
use zsched_service::worker;
use zsched_spool::outbox::{self, OutboxRecovery};
use zsched_spool::processes;
use zsched_spool::{HashLevel, Spool, removals, unfinished};

/// Wait after submissions could not be published.
const PUBLISH_RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Records the pid of the former scheduler from the pid file that it left.
pub(crate) fn set_former_scheduler(spool: &Spool) {
    let text = fs::read_to_string(spool.pid_file()).unwrap_or_default();
    if let Ok(pid) = text.trim().parse() {
        processes::set_former_scheduler(pid);
    }
}

/// Removes the message files whose control files the former scheduler has removed.
pub(crate) fn finish_removals(spool: &Spool) {
    for list in [spool.removals_file(), spool.reader_removals_file()] {
        match removals::finish(spool, &list) {
            Ok(0) => {}
            Ok(count) => {
                log::info!("removed {count} message files left by the former scheduler")
            }
            Err(error) => log::error!("{}: cannot finish removals: {error}", list.display()),
        }
    }
}

/// Submissions that a crash has interrupted: hidden control files whose messages are in `queue/`.
///
/// Two workers need them completed first of all, and listing a full spool takes seconds.
#[derive(Default)]
pub(crate) struct InterruptedSubmissions(OnceLock<()>);

impl InterruptedSubmissions {
    /// Completes them, unless that is done. Waits while another worker is at it.
    pub(crate) fn complete(&self, spool: &Spool) {
        self.0.get_or_init(|| {
            if let Err(error) = unfinished::finish(spool) {
                log::error!("hidden control files cannot be completed: {error}");
            }
        });
    }
}

/// Removes what killed programs have left in `public/`.
pub(crate) fn remove_abandoned(spool: &Spool) {
    match zsched_spool::remove_abandoned(spool, SystemTime::now()) {
        Ok(0) => {}
        Ok(count) => {
            let files = printable::count(count as u64, "file");
            log::info!("removed {files} that killed programs have left in public/ a day ago");
        }
        Err(error) => log::warn!("{}: cannot be cleaned: {error}", spool.public().display()),
    }
}

/// Completes submissions of the former scheduler to the router.
///
/// Must come before any mail is read.
pub(crate) fn finish_outbox(spool: &Spool, level: HashLevel) -> io::Result<()> {
    let recovered = outbox::recover_folder(spool, level)?;
    let OutboxRecovery { published, discarded, aside, ready } = recovered;
    if recovered != OutboxRecovery::default() {
        log::warn!(
            "outbox of the former scheduler: {published} submissions published, {discarded} discarded, {aside} moved \
             to postman/, {ready} to be published later"
        );
    }
    if ready > 0 {
        let spool = spool.clone();
        worker::start("outbox", move || publish_later(&spool))?;
    }
    Ok(())
}

/// Publishes what is ready, and retries until `router/` works again.
fn publish_later(spool: &Spool) {
    loop {
        match outbox::publish_ready(spool) {
            Ok(reasons) => {
                let Some(reason) = reasons.last() else { return };
                let (left, wait) = (reasons.len(), PUBLISH_RETRY_INTERVAL.as_secs());
                log::error!(
                    "{left} submissions cannot be published to the router: {reason}; \
                     retrying in {wait} s"
                );
            }
            Err(error) => log::error!("{}: {error}", spool.outbox().display()),
        }
        thread::sleep(PUBLISH_RETRY_INTERVAL);
    }
}

/// Logs an error at the end if submissions are left.
///
/// ZMailer's scheduler does not handle the outbox.
pub(crate) fn report_leftovers(spool: &Spool) {
    match outbox::pending_submissions(spool) {
        Ok(0) => {}
        Ok(count) => log::error!(
            "{count} submissions are left in {}: start this scheduler again before another one",
            spool.outbox().display()
        ),
        Err(error) => log::error!("{}: {error}", spool.outbox().display()),
    }
}
