//! Output without a command: the listing, the report, or totals.
//!
//! It works with both versions of the protocol.

use super::collector_v2::QueueCollector;
use super::details::ControlFiles;
use super::listing::{self, OutputFilter};
use super::listing_v2::Listing;
use super::queue::Queue;
use super::report::Ages;
use super::{report, totals, v1, v2};
use crate::connect::dial::no_requests;
use crate::connect::lines::Lines;
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use crate::options::ClassicOptions;
use crate::screen::{Screen, visible};
use crate::warnings::Warnings;
use zsched_format::selection::Selection;
use zsched_format::time::Timestamp;
use zsched_spool::Spool;
use zsched_sys::users;

/// Output options, and the warnings about the output.
pub(crate) struct ClassicOutput<'a> {
    classic: &'a ClassicOptions,
    filter: OutputFilter,
    files: ControlFiles<'a>,
    warnings: Warnings,
}

impl<'a> ClassicOutput<'a> {
    /// Prepares the output, with details from this spool.
    ///
    /// Fails if the user of `-u` does not exist.
    pub(crate) fn new(
        classic: &'a ClassicOptions,
        spool: &'a Spool,
    ) -> Result<ClassicOutput<'a>, Failure> {
        let filter = OutputFilter {
            selection: selection(classic),
            owner: owner(classic)?,
            verbose: classic.verbosity(),
            sizes: classic.sizes,
        };
        let (files, warnings) = (ControlFiles::new(spool), Warnings::default());
        Ok(ClassicOutput { classic, filter, files, warnings })
    }

    /// Shows what a version 1 server sends after its greeting.
    pub(crate) fn dump(
        &mut self,
        lines: &mut Lines,
        screen: &mut Screen<'_>,
    ) -> Result<(), Failure> {
        if self.classic.kill.is_some() {
            return Err(no_requests());
        }
        if self.classic.report > 0 {
            v1::skip_to_report(lines)?;
            let level = self.classic.report;
            let count = report::print(screen, lines, &self.filter.selection, level)?;
            return match lines.is_complete() && count > 0 {
                true => Ok(()),
                false => Err(Failure::Protocol(format!(
                    "the report is incomplete: it ends after {count} lines"
                ))),
            };
        }
        let queue = v1::read(lines, &mut self.warnings)?;
        let ages = if self.classic.summary { report::oldest(lines)? } else { Ages::new() };
        self.queue(&queue, &ages, screen)
    }

    /// Asks a version 2 scheduler, and shows the answers.
    pub(crate) fn session(
        &mut self,
        session: &mut Session,
        screen: &mut Screen<'_>,
    ) -> Result<(), Failure> {
        if let Some(id) = &self.classic.kill {
            let reply = session.ask_for_line(Request::new(format!("KILL MSG {id}"), "KILL"))?;
            return Ok(screen.line(&[self::answer_text(&reply).as_bytes()])?);
        }
        if self.classic.report > 0 {
            return self.report(session, screen);
        }
        let threads = v2::threads(session, &self.filter.selection, &mut self.warnings)?;
        let now = Timestamp::now();
        if self.classic.summary || self.classic.sizes > 0 {
            let mut all = QueueCollector::new(session.entries(), now);
            v2::read(session, &threads, &mut all, &mut self.warnings)?;
            return self.queue(&all.queue, &all.ages, screen);
        }
        let (has_details, owner) = (self.filter.verbose > 0, self.filter.owner);
        let mut listing = Listing::new(screen, &mut self.files, has_details, owner, now);
        let read = v2::read(session, &threads, &mut listing, &mut self.warnings);
        // Threads that were read completely are shown even if a later one fails.
        let is_empty = listing.finish()?;
        read?;
        match is_empty {
            true => Ok(writeln!(screen, "{}", self.filter.empty_text(threads.is_empty()))?),
            false => Ok(()),
        }
    }

    fn report(&self, session: &mut Session, screen: &mut Screen<'_>) -> Result<(), Failure> {
        let Selection { channel, host } = &self.filter.selection;
        let wants_all = channel.is_none() && host.is_none();
        let level = self.classic.report;
        let request = match level {
            2 if wants_all => Request::new("SHOW QUEUE SHORT", "QQ"),
            // The report is filtered below.
            1 | 2 => Request::new("SHOW QUEUE THREADS", "TT"),
            3 => Request::new("SHOW SNMP", "SNMP"),
            4 => Request::without_permission("SHOW COUNTERS"),
            _ => {
                let message = "-Q can be given four times at most";
                return Err(Failure::Usage(message.to_string()));
            }
        };
        let mut text = session.ask_for_text(request)?;
        if level < 3 {
            report::print(screen, &mut text, &self.filter.selection, level)?;
            return Ok(());
        }
        text.print(screen)
    }

    fn queue(
        &mut self,
        queue: &Queue,
        ages: &Ages,
        screen: &mut Screen<'_>,
    ) -> Result<(), Failure> {
        match self.classic.summary {
            true => totals::print(screen, queue, ages, &self.filter, &mut self.files),
            false => listing::print(screen, queue, &self.filter, &mut self.files),
        }
    }

    /// Prints the warnings. Fails if the output was damaged.
    pub(crate) fn verdict(self) -> Result<(), Failure> {
        self.warnings.print();
        self.files.verdict()?;
        self.warnings.verdict()
    }

    /// Number of warnings about the answers.
    pub(crate) fn count_warnings(&self) -> u64 {
        self.warnings.count()
    }
}

/// The text of an answer of one line, without `OK;`.
pub(crate) fn answer_text(reply: &[u8]) -> String {
    let reply = reply.strip_prefix(b"OK").unwrap_or(reply);
    let reply = reply.strip_prefix(b";").unwrap_or(reply).trim_ascii();
    visible(if reply.is_empty() { b"OK" } else { reply })
}

/// User id of the owner of messages, with `-i` or `-u`.
fn owner(classic: &ClassicOptions) -> Result<Option<u32>, Failure> {
    match &classic.user {
        Some(name) => match users::user_id(name) {
            Ok(Some(id)) => Ok(Some(id)),
            Ok(None) => Err(Failure::Usage(format!("unknown user {name}"))),
            Err(error) => Err(Failure::Usage(format!("user {name} cannot be looked up: {error}"))),
        },
        None => Ok(classic.mine.then(users::effective_user)),
    }
}

/// Selected channel and host, in lower case as the scheduler has them.
fn selection(classic: &ClassicOptions) -> Selection {
    let lower = |name: &Option<String>| {
        name.as_ref().map(|name| name.to_ascii_lowercase().into_bytes().into_boxed_slice())
    };
    Selection { channel: lower(&classic.channel), host: lower(&classic.host) }
}
