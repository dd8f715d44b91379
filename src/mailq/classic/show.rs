//! Output without a command: the listing, the report, or totals.
//!
//! It works with both versions of the protocol.

use super::details::ControlFiles;
use super::queue::QueuedThread;
use super::{listing, report_reader, totals, v1, v2};
use crate::connect::lines::Lines;
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use crate::options::ClassicOptions;
use crate::screen::{Screen, visible};
use crate::warnings::Warnings;
use zsched_format::selection::Selection;
use zsched_spool::Spool;
use zsched_sys::users;

/// Size of held-back output above which it is printed, in bytes.
const MAX_HELD_OUTPUT: usize = 64 << 20;

/// ZMailer's text for an empty queue, which scripts parse.
const EMPTY_QUEUE_TEXT: &str = "Transport queue is empty -- or scheduler uses -Q -mode";

/// Output options, and the warnings about the output.
pub(crate) struct ClassicOutput<'a> {
    classic: &'a ClassicOptions,
    selection: Selection,
    /// User id of the owner of messages, if only these are shown.
    owner: Option<u32>,
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
        let (selection, owner) = (selection(classic), owner(classic)?);
        let (files, warnings) = (ControlFiles::new(spool), Warnings::default());
        Ok(ClassicOutput { classic, selection, owner, files, warnings })
    }

    /// Shows what a version 1 server sends after its greeting.
    pub(crate) fn dump(
        &mut self,
        lines: &mut Lines,
        screen: &mut Screen<'_>,
    ) -> Result<(), Failure> {
        if self.classic.kill.is_some() {
            return Err(Failure::TakesNoRequests);
        }
        if self.classic.report > 0 {
            v1::skip_to_report(lines)?;
            let level = self.classic.report;
            let count = report_reader::print(screen, lines, &self.selection, level)?;
            return match lines.is_complete && count > 0 {
                true => Ok(()),
                false => Failure::protocol(format!(
                    "the report is incomplete: it ends after {count} lines"
                )),
            };
        }
        let mut queue = v1::read(lines, &mut self.warnings)?;
        if self.classic.summary {
            report_reader::read_ages(lines, &mut queue)?;
        }
        self.queue(queue, screen)
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
        let mut threads = v2::threads(session, &self.selection, &mut self.warnings)?;
        if self.classic.summary || self.classic.sizes > 0 {
            v2::read_vertices(session, &mut threads, &mut self.warnings)?;
            return self.queue(threads, screen);
        }
        let mut shown = None;
        // Output is held back until the dialogue is over, or there is much of it: a server has 90
        // seconds for a client, and the reader of the output may take longer.
        screen.hold();
        let read = v2::read(session, &threads, &mut self.warnings, |thread, _, message| {
            if let Some(owner) = self.owner
                && self.files.owner(&message[0].file) != Some(owner)
            {
                return Ok(());
            }
            if shown.replace(thread) != Some(thread) {
                let QueuedThread { channel, host, .. } = &threads[thread];
                screen.line(&[channel, b"/", host, b":"])?;
            }
            let has_details = self.classic.verbosity() > 0;
            listing::print_message(screen, message, has_details, &mut self.files)?;
            if screen.held_len() > MAX_HELD_OUTPUT {
                screen.release()?;
                screen.hold();
            }
            Ok(())
        });
        // What was read completely is shown even if the rest fails.
        screen.release()?;
        read?;
        match shown {
            None => Ok(writeln!(screen, "{}", self.empty_text(threads.is_empty()))?),
            Some(_) => Ok(()),
        }
    }

    fn report(&self, session: &mut Session, screen: &mut Screen<'_>) -> Result<(), Failure> {
        let Selection { channel, host } = &self.selection;
        let wants_all = channel.is_none() && host.is_none();
        let level = self.classic.report;
        let request = match level {
            2 if wants_all => Request::new("SHOW QUEUE SHORT", "QQ"),
            // The report is filtered below.
            1 | 2 => Request::new("SHOW QUEUE THREADS", "TT"),
            3 => Request::new("SHOW SNMP", "SNMP"),
            4 => Request::without_permission("SHOW COUNTERS"),
            _ => {
                return Failure::usage("-Q can be given four times at most");
            }
        };
        let mut text = session.ask_for_text(request)?;
        if level < 3 {
            report_reader::print(screen, &mut text, &self.selection, level)?;
            return Ok(());
        }
        text.print(screen)
    }

    /// Shows the part of a queue that is selected.
    fn queue(
        &mut self,
        mut queue: Vec<QueuedThread>,
        screen: &mut Screen<'_>,
    ) -> Result<(), Failure> {
        let is_queue_empty = queue.iter().all(|thread| thread.vertices.is_empty());
        queue.retain_mut(|thread| {
            if !self.selection.matches(&thread.channel, &thread.host) {
                return false;
            }
            if let Some(owner) = self.owner {
                thread.vertices.retain(|vertex| self.files.owner(&vertex.file) == Some(owner));
            }
            !thread.vertices.is_empty()
        });
        match self.classic.summary {
            _ if queue.is_empty() => Ok(writeln!(screen, "{}", self.empty_text(is_queue_empty))?),
            true => totals::print(screen, &queue),
            false => listing::print(screen, &queue, self.classic, &mut self.files),
        }
    }

    /// Text for an empty result.
    fn empty_text(&self, is_queue_empty: bool) -> String {
        let Selection { channel, host } = &self.selection;
        let name = |name: &Option<Box<[u8]>>| {
            name.as_deref().map_or("*".to_string(), |name| String::from_utf8_lossy(name).into())
        };
        match (self.owner, channel, host) {
            (Some(_), ..) => "No user messages found".to_string(),
            (None, None, None) => EMPTY_QUEUE_TEXT.to_string(),
            _ if is_queue_empty => EMPTY_QUEUE_TEXT.to_string(),
            _ => format!("Nothing in the queue for {}/{}", name(channel), name(host)),
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
            Ok(None) => Failure::usage(format!("unknown user {name}")),
            Err(error) => Failure::usage(format!("user {name} cannot be looked up: {error}")),
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
