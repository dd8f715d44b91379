//! The spool: its folders under POSTOFFICE, and the files in them.
//!
//! ```text
//! POSTOFFICE/transport/[X/[Y/]]<name>   control files; working folder of scheduler and agents
//! POSTOFFICE/queue/[X/[Y/]]<name>       message files: envelope, headers and body as submitted
//! POSTOFFICE/postman/                   mail that a person must look at: nothing is deleted there
//! ```
//!
//! This crate decides which files belong to a message, in which order they are written and removed
//! so that a crash loses nothing, whether a lock is still held, and when a control file is
//! malformed and goes to `postman/` ([`move_aside`]). It must not know when or where mail is
//! delivered: the core decides that, and uses only the types of this crate. Begin with [`load`],
//! which turns a control file into an [`Arrival`]; then read [`note`] and [`remove`].
//!
//! A visible control file always has its message file. The router creates the control file under a
//! hidden name, renames the message into `queue/`, and only then gives the control file its name
//! ([`submit`]). On removal the control file goes first. So a crash never leaves a control file
//! that could be delivered again without its message ([`remove`]).

#![warn(unreachable_pub)]

// Names and folders.
pub mod folder;
mod name;
mod open_spool;

// From the folders to the scheduler.
mod arrival;
mod chunk;
mod envelope_lines;
pub mod load;
pub mod scan;

// Locks, and what their owners may have done.
mod decisions;
mod duplicates;
mod lock;
pub mod processes;

// What is written about recipients.
mod error_address;
pub mod finalize;
pub mod note;
pub mod tally;
pub mod verbose;

// Recipients that are tried one after the other.
pub mod alternatives;

// Messages that take the place of others.
pub mod obsoletes;

// To the router.
pub mod outbox;
pub mod report;
mod reroute;
pub mod resubmit;
mod submission_file;
mod waiting_submission;

// The end of a message, and malformed control files.
pub mod move_aside;
pub mod orphans;
pub mod removals;
pub mod remove;

// New mail.
mod abandoned;
pub mod accept;
pub mod drop_folder;
pub mod submit;
pub mod unfinished;

// Tools.
pub mod atomic_write;
pub mod memory_file;
pub mod sync;
pub mod temp_file;

pub use abandoned::remove_abandoned;
pub use arrival::{Arrival, Deadline, Group, Groups, Offsets, Portion, Schedule};
pub use duplicates::{DuplicateSink, PossibleDuplicate, PossibleDuplicates};
pub use error_address::{control_file_head, error_address};
pub use lock::{LockOwner, owner_of};
pub use lock::{owner_if, owner_when_unloaded};
pub use name::{HashFolder, HashLevel, SpoolName};
pub use open_spool::{OpenSpool, SpoolOpener};
pub use submission_file::{PublishedSubmission, SubmissionFile};
pub use waiting_submission::find_submission;
pub use zsched_format::spool_id::SpoolId;

use std::io;
use std::path::{Path, PathBuf};

/// The folders of one POSTOFFICE.
#[derive(Clone, Debug)]
pub struct Spool {
    postoffice: PathBuf,
    transport: PathBuf,
    queue: PathBuf,
}

/// The spool, if neither an option nor `POSTOFFICE` of the ZENV file names one.
pub const DEFAULT_POSTOFFICE: &str = "/var/spool/postoffice";

/// Folders of a complete POSTOFFICE, with their modes.
///
/// The scheduler needs the first three.
const FOLDERS: [(&str, u32); 8] = [
    ("transport", folder::MAIL_FOLDER_MODE),
    ("queue", folder::MAIL_FOLDER_MODE),
    (POSTMAN, folder::MAIL_FOLDER_MODE),
    ("router", folder::PUBLIC_FOLDER_MODE),
    ("public", folder::PUBLIC_FOLDER_MODE),
    (DROP, folder::DROP_FOLDER_MODE),
    ("deferred", folder::MAIL_FOLDER_MODE),
    ("freezer", folder::MAIL_FOLDER_MODE),
];

/// The folder for mail that a person must look at.
const POSTMAN: &str = "postman";

/// The folder for messages of `enqueue`.
const DROP: &str = "drop";

/// Describes an error of a folder of a spool; for a missing one with the command that makes it.
pub fn describe_folder_error(folder: &Path, error: &io::Error) -> String {
    let shown = folder.display();
    match (error.kind(), folder.parent()) {
        (io::ErrorKind::NotFound, Some(spool)) => {
            format!("{shown}: {error}; `scheduler --init {}` makes a spool", spool.display())
        }
        _ => format!("{shown}: {error}"),
    }
}

impl Spool {
    /// The folder of bulk jobs. It is created with the first one.
    pub fn bulk(&self) -> PathBuf {
        self.postoffice.join("bulk")
    }

    /// Creates the spool under `postoffice`, without accessing it.
    pub fn new(postoffice: impl Into<PathBuf>) -> Spool {
        let postoffice = postoffice.into();
        let (transport, queue) = (postoffice.join("transport"), postoffice.join("queue"));
        Spool { postoffice, transport, queue }
    }

    /// The spool of an agent, whose working folder is `transport/`.
    pub fn of_working_folder() -> Spool {
        Spool { transport: PathBuf::new(), ..Spool::new("..") }
    }

    /// Creates missing folders. Existing ones keep their modes.
    pub fn create(&self) -> io::Result<()> {
        folder::make_all(&self.postoffice)?;
        for (name, mode) in FOLDERS {
            let is_new = folder::make(&self.postoffice.join(name), mode)?;
            if is_new && name == DROP {
                drop_folder::give_to_group(&self.postoffice.join(name))?;
            }
        }
        Ok(())
    }

    /// The folder in which `enqueue` puts messages.
    pub fn drop_folder(&self) -> PathBuf {
        self.postoffice.join(DROP)
    }

    /// The socket by which `enqueue` wakes the scheduler.
    pub fn poke_socket(&self) -> PathBuf {
        self.postoffice.join(".scheduler.poke")
    }

    /// The top folder, `POSTOFFICE`.
    pub fn postoffice(&self) -> &Path {
        &self.postoffice
    }

    /// The folder of the control files.
    pub fn transport(&self) -> &Path {
        &self.transport
    }

    /// The folder of the message files.
    pub fn queue(&self) -> &Path {
        &self.queue
    }

    /// The folder for mail that a person must look at.
    pub fn postman(&self) -> PathBuf {
        self.postoffice.join(POSTMAN)
    }

    /// The folder from which the router takes submissions.
    pub fn router(&self) -> PathBuf {
        self.postoffice.join("router")
    }

    /// The socket for notices of new submissions.
    ///
    /// It is in POSTOFFICE unless `ROUTERNOTIFY` of the ZENV file names another one.
    pub fn router_socket(&self, variable: Option<&str>) -> PathBuf {
        match variable {
            Some(path) => PathBuf::from(path.strip_prefix("UNIX:").unwrap_or(path)),
            None => self.postoffice.join(".router.notify"),
        }
    }

    /// The folder in which users write submissions.
    pub fn public(&self) -> PathBuf {
        self.postoffice.join("public")
    }

    /// The file with the pid of the running router.
    pub fn router_pid_file(&self) -> PathBuf {
        self.postoffice.join(".pid.router")
    }

    /// The file whose lock shows that a router runs on the spool.
    pub fn router_lock_file(&self) -> PathBuf {
        self.postoffice.join(".router.lock")
    }

    /// The file with the pid of the running SMTP server.
    pub fn smtpserver_pid_file(&self) -> PathBuf {
        self.postoffice.join(".pid.smtpserver")
    }

    /// The file whose lock shows that an SMTP server runs on the spool.
    pub fn smtpserver_lock_file(&self) -> PathBuf {
        self.postoffice.join(".smtpserver.lock")
    }

    /// The file with what clients have brought to the SMTP server.
    ///
    /// It is JSON: `SmtpTraffic` of the crate `zsched_mailq_protocol`.
    pub fn smtpserver_traffic_file(&self) -> PathBuf {
        self.postoffice.join(".smtpserver.traffic")
    }

    /// The folder of submissions that the router does not have yet.
    pub fn outbox(&self) -> PathBuf {
        self.postoffice.join(".scheduler.outbox")
    }

    /// The file with the pid of the running scheduler.
    pub fn pid_file(&self) -> PathBuf {
        self.postoffice.join(".pid.scheduler")
    }

    /// The file whose lock shows that a scheduler runs on the spool.
    pub fn lock_file(&self) -> PathBuf {
        self.postoffice.join(".scheduler.lock")
    }

    /// The file of learned state, which control files do not contain.
    pub fn learned_file(&self) -> PathBuf {
        self.postoffice.join(".scheduler.learned")
    }

    /// The file of the operator's orders in force.
    pub fn orders_file(&self) -> PathBuf {
        self.postoffice.join(".scheduler.orders")
    }

    /// The list of messages that the writer is about to remove.
    pub fn removals_file(&self) -> PathBuf {
        self.postoffice.join(".scheduler.removals")
    }

    /// The list of the message that the reader moves aside.
    pub fn reader_removals_file(&self) -> PathBuf {
        self.postoffice.join(".scheduler.removals.reader")
    }

    /// The list of recipients that may have been delivered to twice.
    pub fn duplicates_file(&self) -> PathBuf {
        self.postoffice.join(".scheduler.duplicates")
    }

    /// The file that says where the running scheduler serves MAILQ.
    ///
    /// It has one line in the form of `PARAMmailqsock`, such as `TCP:174@127.0.0.1`.
    pub fn mailq_file(&self) -> PathBuf {
        self.postoffice.join(".scheduler.mailq")
    }

    /// The socket for queries of the scheduler's own user (`mailq --why`).
    pub fn control_socket(&self) -> PathBuf {
        self.postoffice.join(".scheduler.control")
    }

    /// The socket for notices of new messages.
    ///
    /// It is in POSTOFFICE unless `SCHEDULERNOTIFY` of the ZENV file names another one.
    pub fn notify_socket(&self, variable: Option<&str>) -> PathBuf {
        match variable {
            Some(path) => PathBuf::from(path.strip_prefix("UNIX:").unwrap_or(path)),
            None => self.postoffice.join(".scheduler.notify"),
        }
    }

    /// The control file of a message.
    pub fn control_file(&self, name: &SpoolName) -> PathBuf {
        self.transport.join(name.path())
    }

    /// The message file of a message.
    pub fn message_file(&self, name: &SpoolName) -> PathBuf {
        self.queue.join(name.path())
    }
}
