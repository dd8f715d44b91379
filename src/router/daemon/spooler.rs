//! Takes submissions from `router/` to the queue, or to `postman/`.

use super::scan::SubmissionName;
use crate::directory::Directory;
use crate::message::{self, Facts, RouteError};
use crate::submission::{Submission, SubmissionError};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zsched_format::log_limiter::LogLimiter;
use zsched_format::spool_id::SpoolId;
use zsched_format::time::Timestamp;
use zsched_service::with_path;
use zsched_spool::accept::{AcceptError, RoutedSubmission};
use zsched_spool::move_aside;
use zsched_spool::submit::Submitter;
use zsched_spool::{HashLevel, Spool, SpoolName, unfinished};
use zsched_sys as sys;

/// Time after which a submission is tried again that could not be routed.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Interval of log lines about a submission that cannot be routed.
const LOG_INTERVAL: Duration = Duration::from_secs(3600);
/// Maximum number of recipients that are in memory before a batch ends.
const MAX_BATCH_RECIPIENTS: usize = 10_000;
/// Maximum size of headers that are in memory before a batch ends, in bytes.
///
/// A message has its headers once for each list that it goes to.
const MAX_BATCH_HEADERS_SIZE: usize = 16 << 20;

/// Routes submissions of one spool.
pub(super) struct Spooler {
    submitter: Submitter,
    scheduler: PathBuf,
    directory: Directory,
    troubled: HashMap<SubmissionName, Trouble>,
    /// True if a control file is hidden that should have its name.
    is_unfinished: bool,
}

/// A submission that cannot be routed now.
struct Trouble {
    inode: u64,
    next_try: Instant,
    log: LogLimiter,
}

/// A submission that has been routed, for the log.
struct Routed {
    name: SubmissionName,
    summary: String,
}

/// What to do with a submission that is not routed.
enum Obstacle {
    /// It is gone.
    Gone,
    /// Try again later, for this reason.
    Wait(String),
    /// Move it to `postman/`, for this reason.
    Unusable(String),
}

impl From<io::Error> for Obstacle {
    fn from(error: io::Error) -> Obstacle {
        match error.kind() {
            ErrorKind::NotFound => Obstacle::Gone,
            _ => Obstacle::Wait(error.to_string()),
        }
    }
}

impl Spooler {
    pub(super) fn new(
        spool: Spool,
        level: HashLevel,
        scheduler: PathBuf,
        directory: Directory,
    ) -> Spooler {
        let submitter = Submitter { spool, level, sync: true };
        Spooler { submitter, scheduler, directory, troubled: HashMap::new(), is_unfinished: false }
    }

    pub(super) fn spool(&self) -> &Spool {
        &self.submitter.spool
    }

    pub(super) fn set_directory(&mut self, directory: Directory) {
        self.directory = directory;
        // What could not be routed may be routed now.
        self.troubled.values_mut().for_each(|trouble| trouble.next_try = Instant::now());
    }

    pub(super) fn has_troubled(&self) -> bool {
        !self.troubled.is_empty()
    }

    pub(super) fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    /// Returns true if a submission may be tried now.
    pub(super) fn is_due(&self, name: &SubmissionName) -> bool {
        self.troubled.get(name).is_none_or(|trouble| Instant::now() >= trouble.next_try)
    }

    /// Forgets the trouble with submissions that are gone.
    pub(super) fn forget_all_but(&mut self, present: &[SubmissionName]) {
        if !self.troubled.is_empty() {
            let present: HashSet<&SubmissionName> = present.iter().collect();
            self.troubled.retain(|name, _| present.contains(name));
        }
    }

    /// Completes what a crash has interrupted between `router/` and the queue.
    pub(super) fn finish_interrupted(&mut self) -> io::Result<()> {
        self.is_unfinished = true;
        for name in unfinished::finish(self.spool()).map_err(with_path(self.spool().transport()))? {
            log::info!("{name}: its control file was still hidden after a crash; it is queued now");
            self.notify(&[name]);
        }
        self.is_unfinished = false;
        Ok(())
    }

    /// Routes submissions. Returns those that are left for the next batch.
    pub(super) fn route(&mut self, names: Vec<SubmissionName>) -> Vec<SubmissionName> {
        let (mut routed, mut files) = (Vec::new(), Vec::new());
        let (mut recipients, mut headers_size) = (0, 0);
        let mut names = names.into_iter();
        for name in names.by_ref() {
            match self.route_one(&name) {
                Ok((submission, summary, count)) => {
                    let groups = submission.draft.groups.iter();
                    headers_size += groups.map(|group| group.headers.len()).sum::<usize>();
                    files.push(submission);
                    routed.push(Routed { name, summary });
                    recipients += count;
                }
                Err(obstacle) => self.stop(name, obstacle),
            }
            if recipients >= MAX_BATCH_RECIPIENTS || headers_size >= MAX_BATCH_HEADERS_SIZE {
                break;
            }
        }
        let results = self.submitter.accept(files);
        let mut accepted = Vec::new();
        for (Routed { name, summary }, result) in routed.into_iter().zip(results) {
            match result {
                Ok(queued) => {
                    self.troubled.remove(&name);
                    log::info!("{name}: queued as {queued}, {summary}");
                    accepted.push(queued);
                }
                Err(AcceptError::NotTaken(error)) if error.kind() == ErrorKind::InvalidInput => {
                    self.stop(name, Obstacle::Unusable(error.to_string()));
                }
                Err(AcceptError::NotTaken(error)) => self.stop(name, error.into()),
                Err(AcceptError::Unfinished(error)) => {
                    self.is_unfinished = true;
                    log::error!("{name}: {error}; it is tried again");
                }
            }
        }
        self.notify(&accepted);
        names.collect()
    }

    fn route_one(
        &self,
        name: &SubmissionName,
    ) -> Result<(RoutedSubmission, String, usize), Obstacle> {
        let path = name.path(self.spool());
        let file = sys::open_regular(File::options().read(true), &path)?;
        let metadata = file.metadata()?;
        self.check_names(&file, &metadata, &path)?;
        let submission = match Submission::read(&mut BufReader::new(&file)) {
            Ok(submission) => submission,
            Err(SubmissionError::Failed(error)) => return Err(error.into()),
            Err(error) => return Err(Obstacle::Unusable(error.to_string())),
        };
        let owner = metadata.uid();
        // Few submissions need the name, and looking it up may take long.
        let is_expired = self.is_expired(&metadata);
        let account = match submission.envelope.sender {
            None if is_expired => sys::users::account_of(owner).unwrap_or_default(),
            None => sys::users::account_of(owner)?,
            Some(_) => None,
        };
        let facts = Facts {
            id: SpoolId { number: metadata.ino(), modified: Timestamp::modified(&metadata) },
            owner,
            owner_name: account.map(|account| account.name),
            hostname: self.directory.config.routes.hostname(),
            now: Timestamp::now(),
            is_expired,
        };
        let message = match message::route(submission, &facts, &self.directory) {
            Ok(message) => message,
            Err(RouteError::Deferred(why)) => return Err(Obstacle::Wait(why)),
            Err(RouteError::Unusable(why)) => return Err(Obstacle::Unusable(why)),
        };
        if let Some(why) = message.lookup_failure {
            log::warn!("{name}: {why}; it has expired, so such recipients are refused");
        }
        let (deliveries, refusals) = (message.deliveries, message.refusals);
        let summary = format!(
            "message-id={} from={} uid={owner} size={} recipients={deliveries} refused={refusals}",
            message.draft.log_id,
            message.draft.error_address.as_deref().unwrap_or("<>"),
            metadata.len(),
        );
        let submission = RoutedSubmission { path, file, draft: message.draft };
        Ok((submission, summary, deliveries + refusals))
    }

    /// Returns true if a submission is too old to wait for what cannot be looked up.
    fn is_expired(&self, metadata: &Metadata) -> bool {
        // Its owner can set the time of the last change, also to one that never comes.
        let arrival = metadata.mtime().min(metadata.ctime());
        let age = Timestamp::now().seconds().saturating_sub(arrival);
        let expiry = self.directory.config.expiry.map(|expiry| expiry.as_secs());
        expiry.is_some_and(|expiry| u64::try_from(age).is_ok_and(|age| age >= expiry))
    }

    /// Checks that a submission has one name.
    ///
    /// On its way into the queue it may have a second one there, see [`Submitter::has_accepted`].
    fn check_names(&self, file: &File, metadata: &Metadata, path: &Path) -> Result<(), Obstacle> {
        if metadata.nlink() == 1 {
            return Ok(());
        }
        if self.submitter.has_accepted(file)? {
            fs::remove_file(path)?;
            return Err(Obstacle::Gone);
        }
        let queued = self.spool().message_file(&self.submitter.name_of(metadata.ino()));
        let is_queued = sys::if_exists(sys::is_name_of(&queued, file))?.unwrap_or(false);
        match is_queued && metadata.nlink() == 2 {
            true => Ok(()),
            false => {
                let why = "it has several names, so it may be a link to a file of another user";
                Err(Obstacle::Wait(why.into()))
            }
        }
    }

    /// Leaves a submission where it is for some time, or moves it away.
    fn stop(&mut self, name: SubmissionName, obstacle: Obstacle) {
        let why = match obstacle {
            Obstacle::Gone => {
                self.troubled.remove(&name);
                return;
            }
            Obstacle::Wait(why) => why,
            Obstacle::Unusable(why) => {
                let path = name.path(self.spool());
                match move_aside::move_submission_aside(self.spool(), &path, name.base(), &why) {
                    Ok(moved) => {
                        self.troubled.remove(&name);
                        return log::error!("{name}: {why}; moved to {}", moved.display());
                    }
                    Err(error) => format!("{why}; it cannot be moved to postman: {error}"),
                }
            }
        };
        let inode = name.path(self.spool()).symlink_metadata().map_or(0, |file| file.ino());
        let now = Instant::now();
        let known = self.troubled.remove(&name).filter(|known| known.inode == inode);
        let mut log = known.map_or_else(|| LogLimiter::new(1, LOG_INTERVAL), |known| known.log);
        if log.permit(now).is_some() {
            log::warn!("{name}: {why}; it is tried again every minute");
        }
        self.troubled.insert(name, Trouble { inode, next_try: now + RETRY_INTERVAL, log });
    }

    /// Notifies the scheduler. Its scan finds the messages in any case.
    fn notify(&self, names: &[SpoolName]) {
        if !names.is_empty()
            && let Err(error) = self.submitter.notify(&self.scheduler, names)
        {
            log::warn!("the scheduler cannot be notified of new messages: {error}");
        }
    }
}
