//! A job: the recipients of one message that the agent is to deliver to now.

use super::Replies;
use super::delivery::Delivery;
use super::job_file::{JobFile, Place};
use super::message::{Message, Unavailable};
use super::outcome::{Note, Outcome, Verdict, reason};
use super::stop::Stop;
use std::io;
use std::os::unix::fs::MetadataExt;
use zsched_format::control_file::{ControlFile, Recipient, Tag, mark};
use zsched_spool::verbose;

/// The reason why work on a job ended before all recipients had an outcome.
///
/// Agents pass it on with `?`. The library does, or has already done, everything necessary.
#[derive(Debug)]
pub struct Halt(pub(super) Cause);

#[derive(Debug)]
pub(super) enum Cause {
    /// The scheduler's view of the file is wrong: request that it reads the file again.
    Resync(String),
    /// All recipients have been reported.
    Reported,
    /// The agent has been stopped. Recipients without a report are left to another agent.
    Stopped,
}

/// The recipients of one message that belong to this agent and no other.
///
/// They come in reverse file order, as in the original's agents.
pub struct Job<'a> {
    replies: &'a mut Replies,
    place: &'a Place,
    stop: &'a Stop,
    file: JobFile,
    /// The recipients without an outcome, in file order.
    open: Vec<Recipient>,
    /// True if the open recipients are locked.
    locked: bool,
}

/// The result of locking a recipient.
enum Lock {
    Taken,
    /// The tag is no longer blank.
    Refused,
    Failed(io::Error),
}

impl<'a> Job<'a> {
    /// Creates the job for these recipients of `file`, in file order.
    pub(super) fn new(
        replies: &'a mut Replies,
        place: &'a Place,
        stop: &'a Stop,
        file: JobFile,
        open: Vec<Recipient>,
    ) -> Job<'a> {
        Job { replies, place, stop, file, open, locked: false }
    }

    /// The control file of the message, as it was when the job began.
    pub fn control_file(&self) -> &ControlFile {
        &self.file.parsed.control
    }

    /// The recipients without an outcome.
    pub fn deliveries(&self) -> impl Iterator<Item = Delivery<'_>> {
        self.open.iter().rev().map(|&recipient| Delivery::new(&self.file, self.stop, recipient))
    }

    /// Returns true if a signal has stopped the agent.
    ///
    /// An agent that locks all recipients returns then. Recipients without a report are unlocked,
    /// and are due again at once.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_requested()
    }

    /// Locks all recipients at once.
    ///
    /// This is for agents that work on several recipients at the same time and
    /// [`report`](Job::report) them. After a crash all of them may be delivered twice.
    /// [`Job::each`] locks one recipient at a time by itself.
    ///
    /// Recipients that another agent has taken meanwhile leave the job. If none is left, the job
    /// ends.
    pub fn lock(&mut self) -> Result<(), Halt> {
        if self.locked {
            return Ok(());
        }
        self.locked = true;
        let mut open = std::mem::take(&mut self.open);
        let owns_file = mark::hold_briefly(&self.file.file);
        open.retain(|recipient| match self.lock_tag(recipient) {
            Lock::Taken => true,
            Lock::Refused => false,
            Lock::Failed(error) => {
                self.replies.warn(&format!("cannot lock a recipient: {}", reason(&error)));
                false
            }
        });
        self.end_hold(owns_file);
        self.open = open;
        if self.open.is_empty() {
            return Err(self.resync("others have taken all recipients"));
        }
        Ok(())
    }

    /// Locks one recipient. Of two agents that read the same blank tag only one writes.
    ///
    /// Without the lock on the file, the only protection is the scheduler's: it gives the
    /// recipients of one message, channel and host to one agent at a time.
    fn lock_one(&mut self, recipient: &Recipient) -> Lock {
        let owns_file = mark::hold_briefly(&self.file.file);
        let lock = self.lock_tag(recipient);
        self.end_hold(owns_file);
        lock
    }

    fn lock_tag(&self, recipient: &Recipient) -> Lock {
        let (file, pid) = (&self.file.file, std::process::id());
        match mark::change_tag(file, recipient.offset, Tag::Pending, Tag::Locked, pid) {
            Ok(true) => Lock::Taken,
            Ok(false) => Lock::Refused,
            Err(error) => Lock::Failed(error),
        }
    }

    /// Closing the file would release the lock as well; a failure only makes others wait a moment.
    fn end_hold(&mut self, owns_file: bool) {
        if owns_file && let Err(error) = self.file.file.unlock() {
            self.replies.warn(&format!("cannot unlock the control file: {}", reason(&error)));
        }
    }

    /// Opens the message file.
    ///
    /// If it is missing, all recipients fail. If it cannot be read now, they are deferred. In both
    /// cases the job ends.
    pub fn message(&mut self) -> Result<Message, Halt> {
        let path = self.file.message_path(self.place);
        match Message::open(&path, self.file.number, self.file.parsed.control.body_offset) {
            Ok(message) => Ok(message),
            Err(Unavailable::Missing) => {
                let text = "the message itself is missing from the queue; please send it again";
                self.lock()?;
                self.conclude_all(&Outcome::bare_failure(text));
                Err(self.resync(&format!("there is no message file {}", path.display())))
            }
            Err(Unavailable::Unreadable(error)) => {
                self.lock()?;
                self.conclude_all(&Outcome::system_trouble("cannot read the message", &error));
                Err(Halt(Cause::Reported))
            }
        }
    }

    /// Locks each recipient, delivers to it and reports it, one after the other.
    ///
    /// So after a crash only one may be delivered twice. Recipients that another agent has taken
    /// meanwhile are skipped, and the scheduler is requested to read the file again.
    ///
    /// If a signal stops the agent, the work ends after the current recipient. A deferral of that
    /// recipient is not reported, since the cause may be that the signal interrupted a wait.
    pub fn each(&mut self, mut deliver: impl FnMut(&Delivery<'_>) -> Outcome) -> Result<(), Halt> {
        let mut taken_by_others = false;
        while let Some(recipient) = self.open.last().copied() {
            if self.stop.is_requested() {
                return Err(Halt(Cause::Stopped));
            }
            let lock = if self.locked { Lock::Taken } else { self.lock_one(&recipient) };
            self.open.pop();
            match lock {
                Lock::Taken => {}
                Lock::Refused => {
                    taken_by_others = true;
                    continue;
                }
                Lock::Failed(error) => {
                    self.fail_to_lock(&recipient, &error);
                    continue;
                }
            }
            let outcome = deliver(&Delivery::new(&self.file, self.stop, recipient));
            if self.stop.is_requested() && outcome.verdict().tag() == Tag::Pending {
                self.unlock(&recipient);
                return Err(Halt(Cause::Stopped));
            }
            self.conclude(&recipient, Tag::Locked, outcome);
        }
        match taken_by_others {
            true => Err(self.resync("others have taken some of the recipients")),
            false => Ok(()),
        }
    }

    /// Defers the recipient: nothing has been delivered.
    fn fail_to_lock(&mut self, recipient: &Recipient, error: &io::Error) {
        let outcome = Outcome::system_trouble("cannot lock the recipient", error);
        self.conclude(recipient, Tag::Pending, outcome);
    }

    /// Removes this agent's lock from a recipient that is left to another agent.
    fn unlock(&mut self, recipient: &Recipient) {
        let (file, pid) = (&self.file.file, std::process::id());
        let changed = mark::change_tag(file, recipient.offset, Tag::Locked, Tag::Pending, pid);
        self.complain_about_tag(changed);
    }

    /// Reports the recipient whose line begins at `offset`.
    ///
    /// This is for agents that work on several recipients at once, having [`lock`](Job::lock)ed
    /// them before. A recipient that is not in the job, or has been reported, is ignored.
    pub fn report(&mut self, offset: u32, outcome: Outcome) -> Result<(), Halt> {
        self.lock()?;
        if let Ok(index) = self.open.binary_search_by_key(&offset, |recipient| recipient.offset) {
            let recipient = self.open.remove(index);
            self.conclude(&recipient, Tag::Locked, outcome);
        }
        Ok(())
    }

    /// Reports all recipients together without locking them, for work that cannot be done twice.
    ///
    /// All `d` lines are appended at once, then all tags are written, then all reports are sent.
    ///
    /// Here tags come before reports. After a crash in between, a recipient is done, and the
    /// scheduler is notified by `#resync`: nothing is lost, and nothing is done again. (In the
    /// order of [`Job::each`], which is the original's, it may be done again.)
    pub fn settle(&mut self, mut decide: impl FnMut(&Delivery<'_>) -> Outcome) {
        let mut decided = Vec::with_capacity(self.open.len());
        while !self.stop.is_requested()
            && let Some(recipient) = self.open.pop()
        {
            // The agent writes the `d` line of a failure itself, in case it ends before the
            // scheduler gets the report.
            let outcome = decide(&Delivery::new(&self.file, self.stop, recipient)).explained();
            decided.push((recipient, outcome));
        }
        if self.note_together(&decided).is_err() {
            // Conclude one recipient at a time, so that each gets the best outcome still possible.
            for (recipient, outcome) in decided {
                self.conclude(&recipient, self.tag_of_open(), outcome);
            }
            return;
        }
        for (recipient, outcome) in &decided {
            self.watch(recipient, outcome);
            let tag = outcome.verdict().tag();
            if self.locked || tag != Tag::Pending {
                let written = mark::set_tag(&self.file.file, recipient.offset, tag);
                self.complain_about_tag(written.map(|()| true));
            }
        }
        for (recipient, outcome) in &decided {
            let noted = self.needs_note(recipient, outcome);
            let note = if noted { Note::Written } else { Note::Needless };
            self.file.report(recipient, outcome, note, |report| self.replies.report(report));
        }
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

    /// Ends the job, and returns the control file for the next one.
    ///
    /// Recipients that are still locked are deferred, or unlocked if the agent has been stopped.
    pub(super) fn close(mut self) -> JobFile {
        if self.locked && self.stop.is_requested() {
            while let Some(recipient) = self.open.pop() {
                self.unlock(&recipient);
            }
        } else if self.locked {
            let forgotten = "the agent has not decided about this recipient";
            self.conclude_all(&Outcome::new(Verdict::Deferred, "4.3.0", 451, forgotten));
        }
        self.file
    }

    fn conclude_all(&mut self, outcome: &Outcome) {
        while let Some(recipient) = self.open.pop() {
            self.conclude(&recipient, self.tag_of_open(), outcome.clone());
        }
    }

    fn tag_of_open(&self) -> Tag {
        if self.locked { Tag::Locked } else { Tag::Pending }
    }

    /// Makes an outcome known in the order that loses nothing: `d` line, report, tag.
    ///
    /// `was` is the present tag of the recipient.
    fn conclude(&mut self, recipient: &Recipient, was: Tag, outcome: Outcome) {
        let (outcome, note) = self.note(recipient, outcome);
        self.watch(recipient, &outcome);
        self.file.report(recipient, &outcome, note, |report| self.replies.report(report));
        self.replies.flush();
        let tag = outcome.verdict().tag();
        if was != tag {
            let pid = std::process::id();
            let changed = mark::change_tag(&self.file.file, recipient.offset, was, tag, pid);
            self.complain_about_tag(changed);
        }
    }

    /// Writes the `d` line if one is necessary.
    ///
    /// If it cannot be written, a failure becomes a deferral, so that it is tried and noted again
    /// later. A delivery cannot be undone, so writing its `d` line is left to the scheduler.
    fn note(&mut self, recipient: &Recipient, outcome: Outcome) -> (Outcome, Note) {
        if !self.needs_note(recipient, &outcome) {
            return (outcome, Note::Needless);
        }
        let mut line = Vec::new();
        self.file.note(recipient, &outcome, &mut line);
        let Err(error) = self.file.append(&line) else {
            return (outcome, Note::Written);
        };
        let trouble = format!("cannot append to the control file: {}", reason(&error));
        self.replies.warn(&trouble);
        if outcome.verdict().tag() == Tag::Done {
            return (outcome, Note::Owed);
        }
        let text = format!("{trouble} ({})", outcome.text());
        (Outcome::new(Verdict::Deferred, "4.3.0", 451, trouble).says(text), Note::Needless)
    }

    fn needs_note(&self, recipient: &Recipient, outcome: &Outcome) -> bool {
        outcome.verdict().needs_note(self.file.notify(recipient).events.success)
    }

    /// Appends progress to the verbose file, if there is one. Nothing depends on it, so errors are
    /// ignored.
    fn watch(&self, recipient: &Recipient, outcome: &Outcome) {
        let Some(path) =
            self.file.parsed.control.verbose.map(|span| self.file.parsed.control.get(span))
        else {
            return;
        };
        let path = verbose::path_of(&self.place.transport, path);
        let user = String::from_utf8_lossy(self.file.parsed.control.get(recipient.quad.user));
        let word = outcome.verdict().status(Note::Needless).word();
        let text = outcome.text().replace(['\r', '\n'], " ");
        let line = format!("DIAG: <{user}> {word} {text}");
        if let Ok(metadata) = self.file.file.metadata() {
            verbose::append(&path, metadata.uid(), &line).ok();
        }
    }

    fn complain_about_tag(&mut self, changed: io::Result<bool>) {
        match changed {
            Ok(true) => {}
            Ok(false) => self.replies.warn("somebody else has changed the tag of our recipient"),
            Err(error) => self.replies.warn(&format!("cannot write a tag: {}", reason(&error))),
        }
    }

    fn resync(&self, why: &str) -> Halt {
        let path = String::from_utf8_lossy(&self.file.path);
        Halt(Cause::Resync(format!("{path}: {why}")))
    }
}

#[cfg(test)]
mod tests;
