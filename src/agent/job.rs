//! A job: recipients of one message to deliver to now.

use crate::halt::{Halt, HaltCause};
use crate::job_file::JobFile;
use crate::outcome::{Note, reason};
use crate::recipient_log;
use crate::reply_writer::ReplyWriter;
use crate::{Delivery, Message, Outcome, SpoolId, StopFlag, Verdict};
use std::io::{self, ErrorKind, Write};
use std::mem;
use std::time::Instant;
use zsched_format::control_file::{Recipient, Tag, mark};
use zsched_spool::Spool;
use zsched_spool::resubmit::hand_over_text;
use zsched_spool::verbose::VerboseFile;

/// Maximum number of recipients whose tags are written before their reports are sent.
const MAX_REPORTED_TOGETHER: usize = 1000;

/// The recipients of one message that are given to this agent.
///
/// They come in reverse file order, as in ZMailer's agents.
///
/// What happens at the end of the job to recipients without an outcome: if they are locked, they
/// are deferred, or unlocked if the agent has been stopped. If not, nothing is reported, and the
/// scheduler tries them again later.
///
/// A small control file is under a `flock` from the start of the job until the first recipients
/// are locked. Other agents wait for that up to 0.1 s, so slow work belongs in the delivery.
pub struct Job<'a> {
    pub(crate) replies: &'a mut ReplyWriter<dyn Write + 'a>,
    pub(crate) spool: &'a Spool,
    pub(crate) stop: &'a StopFlag,
    /// The pid of this process, for the locks.
    pub(crate) pid: u32,
    pub(crate) file: JobFile,
    /// The recipients without an outcome, in file order.
    pub(crate) pending: Vec<Recipient>,
    /// True if the pending recipients are locked.
    pub(crate) locked: bool,
    /// When the job began.
    pub(crate) began: Instant,
}

impl Job<'_> {
    /// The recipients without an outcome, in reverse file order.
    pub fn deliveries(&self) -> impl Iterator<Item = Delivery<'_>> {
        self.pending.iter().rev().map(|&recipient| self.delivery(recipient))
    }

    fn delivery(&self, recipient: Recipient) -> Delivery<'_> {
        Delivery { file: &self.file, spool: self.spool, stop: self.stop, recipient }
    }

    /// Returns true if a signal or a [`StopFlag`] stops the agent.
    ///
    /// An agent that locks all recipients returns then. Recipients without a report are unlocked,
    /// and are due again at once.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_requested()
    }

    /// The flag that stops the agent, for code that waits without access to the job.
    pub fn stop_flag(&self) -> StopFlag {
        self.stop.clone()
    }

    /// The number of the message, which its files and the lines about it begin with.
    pub fn number(&self) -> u64 {
        self.file.number
    }

    /// Writes a line to the scheduler's log.
    pub fn log(&mut self, text: &str) {
        self.replies.warn(text);
    }

    /// Writes the result of a TLS session to the status log.
    ///
    /// It is a JSON object (RFC 8460, 4.4).
    pub fn log_tls_result(&mut self, json: &str) {
        self.replies.tls_result(json);
    }

    /// Locks all recipients at once.
    ///
    /// This is for agents that work on several recipients at the same time and
    /// [`report`](Job::report) them. After a crash all of them may be delivered twice.
    /// [`Job::deliver_each`] locks one recipient at a time by itself.
    ///
    /// Recipients that another agent has taken meanwhile leave the job.
    ///
    /// # Errors
    ///
    /// No recipient is left.
    pub fn lock(&mut self) -> Result<(), Halt> {
        if self.locked {
            return Ok(());
        }
        self.locked = true;
        let mut pending = mem::take(&mut self.pending);
        self.with_file_lock(|job, is_current| {
            pending.retain(|recipient| match job.lock_recipient(recipient, is_current) {
                Ok(is_taken) => is_taken,
                Err(error) => {
                    job.replies.warn(&format!("cannot lock a recipient: {}", reason(&error)));
                    false
                }
            });
        });
        self.pending = pending;
        if self.pending.is_empty() {
            return Err(Halt::resync("other agents have locked all recipients"));
        }
        Ok(())
    }

    /// Runs `work` while no other agent reads or changes tags.
    ///
    /// So of two agents that read the same blank tag only one writes. Without the lock on the file,
    /// the only protection is the scheduler's: it gives the recipients of one message, channel and
    /// host to one agent at a time.
    ///
    /// The second argument of `work` is true if no process can have changed the tags since the file
    /// was read: the lock has been held since then, and for less time than others wait for it.
    fn with_file_lock<T>(&mut self, work: impl FnOnce(&mut Self, bool) -> T) -> T {
        let was_held = self.file.holds_lock;
        let is_current = was_held && self.began.elapsed() < mark::MAX_LOCK_WAIT;
        self.file.holds_lock = was_held || mark::try_lock_file(&self.file.file);
        let result = work(self, is_current);
        self.unlock_file();
        result
    }

    /// Releases the lock on the file, if it is held.
    fn unlock_file(&mut self) {
        // Closing the file would release the lock as well; a failure only makes others wait a
        // moment.
        if mem::take(&mut self.file.holds_lock)
            && let Err(error) = self.file.file.unlock()
        {
            self.replies.warn(&format!("cannot unlock the control file: {}", reason(&error)));
        }
    }

    /// Locks a pending recipient, and returns true if no other agent has done so.
    ///
    /// With `is_current`, its tag has not changed since the file was read.
    fn lock_recipient(&self, recipient: &Recipient, is_current: bool) -> io::Result<bool> {
        if !is_current {
            return self.change_tag(recipient, Tag::Pending, Tag::Locked);
        }
        mark::lock_pending(&self.file.file, recipient.offset, recipient.lock, self.pid)
            .map(|()| true)
    }

    /// Changes a tag if it was `was`, and returns true then.
    fn change_tag(&self, recipient: &Recipient, was: Tag, new: Tag) -> io::Result<bool> {
        mark::change_tag(&self.file.file, recipient.offset, was, new, self.pid)
    }

    /// Writes a tag, whatever it was. Returns true.
    fn set_tag(&self, recipient: &Recipient, tag: Tag) -> io::Result<bool> {
        mark::set_tag(&self.file.file, recipient.offset, tag).map(|()| true)
    }

    /// Opens the message file.
    ///
    /// # Errors
    ///
    /// The file is missing: all recipients have failed. Or it cannot be read now: they have been
    /// deferred.
    pub fn message(&mut self) -> Result<Message, Halt> {
        let path = self.file.message_path(self.spool);
        match Message::open(&path, self.file.number, self.file.parsed.control.body_offset) {
            Ok(message) => Ok(message),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let text = "the message itself is missing from the queue; please send it again";
                self.lock()?;
                self.finish_all(&Outcome::failure_without_codes(text));
                Err(Halt::resync(format!("there is no message file {}", path.display())))
            }
            Err(error) => {
                self.lock()?;
                self.finish_all(&Outcome::system_error("cannot read the message", &error));
                Err(Halt(HaltCause::Reported))
            }
        }
    }

    /// Hands a new message over to the router, such as a report to a sender.
    ///
    /// `submission` has the lines of the envelope, then the message. Returns its spool id.
    ///
    /// # Errors
    ///
    /// An error means that the router has not got it.
    pub fn submit(&self, submission: &[u8]) -> io::Result<SpoolId> {
        hand_over_text(self.spool.postoffice(), submission)
    }

    /// Delivers to one recipient after the other, and reports each.
    ///
    /// Each is locked just before.
    ///
    /// So after a crash only one may be delivered twice. Recipients that another agent has taken
    /// meanwhile are skipped, and the scheduler is requested to read the file again.
    ///
    /// If the agent is stopped, the work ends after the current recipient. A deferral of that
    /// recipient is not reported, since the cause may be that the signal interrupted a wait.
    ///
    /// # Errors
    ///
    /// Recipients were skipped, or the agent has been stopped.
    pub fn deliver_each(
        &mut self,
        mut deliver: impl FnMut(&Delivery<'_>) -> Outcome,
    ) -> Result<(), Halt> {
        self.try_deliver_each(|delivery| Ok(deliver(delivery)))
    }

    /// Delivers to each recipient, by a function that can end the job.
    ///
    /// It does what [`deliver_each`](Job::deliver_each) does. If `deliver` returns an error,
    /// because a connection is lost, for instance, the present recipient has no outcome, as those
    /// after it: [`Halt::report_rest`] is about it, too.
    ///
    /// # Errors
    ///
    /// As [`deliver_each`](Job::deliver_each), and those of `deliver`.
    pub fn try_deliver_each(
        &mut self,
        mut deliver: impl FnMut(&Delivery<'_>) -> Result<Outcome, Halt>,
    ) -> Result<(), Halt> {
        let mut taken_by_others = false;
        while let Some(recipient) = self.pending.last().copied() {
            if self.stop.is_requested() {
                return Err(Halt(HaltCause::Stopped));
            }
            let lock = |job: &mut Self, is_current| job.lock_recipient(&recipient, is_current);
            let taken = if self.locked { Ok(true) } else { self.with_file_lock(lock) };
            self.pending.pop();
            match taken {
                Ok(true) => {}
                Ok(false) => {
                    taken_by_others = true;
                    continue;
                }
                Err(error) => {
                    let outcome = Outcome::system_error("cannot lock the recipient", &error);
                    self.finish_recipient(&recipient, Tag::Pending, outcome, false);
                    continue;
                }
            }
            let result = deliver(&self.delivery(recipient)).and_then(|outcome| {
                if self.is_moot(&outcome) { Err(Halt(HaltCause::Stopped)) } else { Ok(outcome) }
            });
            match result {
                Ok(outcome) => {
                    let is_last = self.pending.is_empty();
                    self.finish_recipient(&recipient, Tag::Locked, outcome, is_last);
                }
                Err(halt) => {
                    if !self.locked {
                        self.unlock(&recipient);
                    }
                    self.pending.push(recipient);
                    return Err(halt);
                }
            }
        }
        match taken_by_others {
            true => Err(Halt::resync("other agents have locked some recipients")),
            false => Ok(()),
        }
    }

    /// Returns true for a deferral that a signal may have caused.
    fn is_moot(&self, outcome: &Outcome) -> bool {
        self.stop.is_requested() && outcome.verdict().tag() == Tag::Pending
    }

    /// Unlocks a recipient that is left to another agent.
    fn unlock(&mut self, recipient: &Recipient) {
        let changed = self.change_tag(recipient, Tag::Locked, Tag::Pending);
        self.warn_of_tag(changed);
    }

    /// Reports the recipient whose line begins at `offset`.
    ///
    /// This is for agents that work on several recipients at once, having [`lock`](Job::lock)ed
    /// them before. A recipient that is not in the job, or has been reported, is ignored.
    ///
    /// # Errors
    ///
    /// Those of [`lock`](Job::lock), if the recipients are not locked yet.
    pub fn report(&mut self, offset: u32, outcome: Outcome) -> Result<(), Halt> {
        self.lock()?;
        if let Ok(index) = self.pending.binary_search_by_key(&offset, |recipient| recipient.offset)
        {
            let recipient = self.pending.remove(index);
            self.finish_recipient(&recipient, Tag::Locked, outcome, false);
        }
        Ok(())
    }

    /// Reports all recipients together, without locks.
    ///
    /// This is for work that cannot be done twice.
    ///
    /// All `d` lines are appended at once, then all tags are written, then all reports are sent.
    ///
    /// Here tags come before reports. After a crash in between, a recipient is done, and the
    /// scheduler is notified by `#resync`: nothing is lost, and nothing is done again. (In the
    /// order of [`Job::deliver_each`], which is ZMailer's, it may be done again.)
    ///
    /// Very many recipients are reported in parts. An agent that is stopped reports those that it
    /// has decided.
    pub fn report_together(&mut self, mut decide: impl FnMut(&Delivery<'_>) -> Outcome) {
        // Notes are appended under a lock of their own.
        self.unlock_file();
        while !self.pending.is_empty() && !self.stop.is_requested() {
            self.report_part(&mut decide);
        }
    }

    fn report_part(&mut self, decide: &mut impl FnMut(&Delivery<'_>) -> Outcome) {
        let count = self.pending.len().min(MAX_REPORTED_TOGETHER);
        let mut decided = Vec::with_capacity(count);
        while decided.len() < count
            && !self.stop.is_requested()
            && let Some(recipient) = self.pending.pop()
        {
            // The agent writes the `d` line of a failure itself, in case it ends before the
            // scheduler gets the report.
            let outcome = decide(&self.delivery(recipient)).noted_by_agent();
            decided.push((recipient, outcome));
        }
        if self.note_together(&decided).is_err() {
            // Conclude one recipient at a time, so that each gets the best outcome still possible.
            for (recipient, outcome) in decided {
                self.finish_recipient(&recipient, self.tag_of_pending(), outcome, false);
            }
            return;
        }
        for (recipient, outcome) in &decided {
            self.write_verbose(recipient, outcome);
            let tag = outcome.verdict().tag();
            if self.locked || tag != Tag::Pending {
                let written = self.set_tag(recipient, tag);
                self.warn_of_tag(written);
            }
        }
        for (recipient, outcome) in &decided {
            let noted = self.needs_note(recipient, outcome);
            let note = if noted { Note::Written } else { Note::NotNeeded };
            self.file.report(recipient, outcome, note, self.replies);
            recipient_log::add(self.spool, &self.file, recipient, outcome, self.began);
        }
        self.replies.flush();
    }

    /// Writes all necessary `d` lines in one go.
    fn note_together(&self, decided: &[(Recipient, Outcome)]) -> io::Result<()> {
        let mut lines = Vec::new();
        for (recipient, outcome) in decided {
            if self.needs_note(recipient, outcome) {
                self.file.note(recipient, outcome, &mut lines);
            }
        }
        if lines.is_empty() { Ok(()) } else { self.file.append(&lines) }
    }

    /// Reports all recipients that are left. See [`Halt::report_rest`].
    pub(crate) fn report_rest(&mut self, outcome: &Outcome) -> Result<(), Halt> {
        if self.pending.is_empty() {
            return Ok(());
        }
        if self.is_moot(outcome) {
            return Err(Halt(HaltCause::Stopped));
        }
        self.lock()?;
        self.finish_all(outcome);
        Ok(())
    }

    /// Ends the job, and returns the control file for the next one.
    ///
    /// Recipients that are still locked are deferred, or unlocked if the agent has been stopped.
    pub(crate) fn close(mut self) -> JobFile {
        if self.locked && self.stop.is_requested() {
            while let Some(recipient) = self.pending.pop() {
                self.unlock(&recipient);
            }
        } else if self.locked {
            self.finish_all(&Outcome::forgotten());
        }
        self.file
    }

    fn finish_all(&mut self, outcome: &Outcome) {
        while let Some(recipient) = self.pending.pop() {
            self.finish_recipient(&recipient, self.tag_of_pending(), outcome.clone(), false);
        }
    }

    fn tag_of_pending(&self) -> Tag {
        if self.locked { Tag::Locked } else { Tag::Pending }
    }

    /// Makes an outcome known in a safe order: `d` line, report, tag.
    ///
    /// The report of the last recipient comes after its tag, with the request for the next job: one
    /// write wakes the scheduler once. `was` is the present tag of the recipient.
    fn finish_recipient(
        &mut self,
        recipient: &Recipient,
        was: Tag,
        outcome: Outcome,
        is_last: bool,
    ) {
        let (outcome, note) = self.note(recipient, outcome);
        self.write_verbose(recipient, &outcome);
        self.file.report(recipient, &outcome, note, self.replies);
        if !is_last {
            self.replies.flush();
        }
        let changed = match (was, outcome.verdict().tag()) {
            (was, tag) if was == tag => Ok(true),
            // Whatever another process made of the lock: what is done must not be done again.
            (Tag::Locked, tag @ (Tag::Done | Tag::Failed)) => self.set_tag(recipient, tag),
            (was, tag) => self.change_tag(recipient, was, tag),
        };
        self.warn_of_tag(changed);
        recipient_log::add(self.spool, &self.file, recipient, &outcome, self.began);
    }

    /// Writes the `d` line if one is necessary.
    ///
    /// If it cannot be written, a failure becomes a deferral, so that it is tried and noted again
    /// later. A delivery cannot be undone, so writing its `d` line is left to the scheduler.
    fn note(&mut self, recipient: &Recipient, outcome: Outcome) -> (Outcome, Note) {
        if !self.needs_note(recipient, &outcome) {
            return (outcome, Note::NotNeeded);
        }
        let mut line = Vec::new();
        self.file.note(recipient, &outcome, &mut line);
        let Err(error) = self.file.append(&line) else {
            return (outcome, Note::Written);
        };
        let trouble = format!("cannot append to the control file: {}", reason(&error));
        self.replies.warn(&trouble);
        if outcome.verdict().tag() == Tag::Done {
            return (outcome, Note::LeftToScheduler);
        }
        let text = format!("{trouble} ({})", outcome.text());
        (Outcome::new(Verdict::Deferred, "4.3.0", 451, trouble).with_text(text), Note::NotNeeded)
    }

    fn needs_note(&self, recipient: &Recipient, outcome: &Outcome) -> bool {
        outcome.needs_note(self.file.notify(recipient).events.success)
    }

    /// Appends progress to the verbose file, if there is one.
    fn write_verbose(&self, recipient: &Recipient, outcome: &Outcome) {
        let control = &self.file.parsed.control;
        if control.verbose.is_none() {
            return;
        }
        let user = String::from_utf8_lossy(control.get(recipient.quad.user));
        let word = outcome.verdict().status(Note::NotNeeded).word();
        let text = outcome.text().replace(['\r', '\n'], " ");
        let line = format!("DIAG: <{user}> {word} {text}");
        let message = self.file.message_path(self.spool);
        let verbose = VerboseFile::named_in(&control.text, self.spool, &message);
        verbose.iter().for_each(|file| file.append(&line));
    }

    fn warn_of_tag(&mut self, changed: io::Result<bool>) {
        match changed {
            Ok(true) => {}
            Ok(false) => self.replies.warn(
                "another process has changed the tag of a recipient that this agent has locked",
            ),
            Err(error) => self.replies.warn(&format!("cannot write a tag: {}", reason(&error))),
        }
    }
}

mod groups;
#[cfg(test)]
mod tests;
