//! The submission of a job, whole or as a stream.

use super::recipients::{InputEvent, MAX_PAUSE, RecipientInput};
use super::{DEFAULT_KEEP, DEFAULT_PACKET_SIZE};
use crate::message::Message;
use crate::options::SubmitOptions;
use crate::{EXIT_FAILURE, Failure};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Instant;
use zsched_bulk::draft::{self, JobDraft, MergeScope, NOTICE, SubmittedJob};
use zsched_bulk::stream::{BegunStream, JobStream, SEGMENT_SIZE};
use zsched_bulk::{BulkParameters, MAX_SHARE};
use zsched_command_line::sysexits::{EX_DATAERR, EX_TEMPFAIL, EX_USAGE};
use zsched_format::schedule::DayWindow;
use zsched_format::time::Timestamp;
use zsched_spool::submit::notify;
use zsched_spool::{Spool, describe_folder_error};
use zsched_sys as sys;

/// Where a job goes, and what it is.
pub(super) struct JobRequest<'r> {
    pub spool: &'r Spool,
    /// The scheduler's notify socket.
    pub socket: &'r Path,
    pub options: &'r SubmitOptions,
    /// User id of the submitter.
    pub user: u32,
}

/// Receives the number of lines of input that are on disk. Its error ends the submission.
pub(super) type ProgressSink<'s> = &'s mut dyn FnMut(u64) -> io::Result<()>;

impl JobRequest<'_> {
    /// Submits the job, and notifies the scheduler of it. It is on disk then.
    ///
    /// `progress` is called for streams only.
    pub(super) fn submit(
        &self,
        message: &[u8],
        mut recipients: RecipientInput,
        progress: ProgressSink<'_>,
    ) -> Result<SubmittedJob, Failure> {
        let parameters = self.parameters()?;
        if !parameters.stream
            && let Some(id) =
                draft::find(self.spool, &parameters.key).map_err(|error| self.failure(error))?
        {
            return Ok(existing(id));
        }
        let message = Message::new(message, self.options)
            .map_err(|reason| Failure::new(EX_DATAERR, reason.to_string()))?;
        let parameters = BulkParameters { log_id: message.id(), ..parameters };
        let draft = self.draft(&message)?;
        let submitted = match parameters.stream {
            false => self.submit_whole(draft, parameters, &mut recipients)?,
            true => {
                match JobStream::begin(draft, parameters).map_err(|error| self.failure(error))? {
                    BegunStream::Complete(id) => existing(id),
                    BegunStream::Open(stream) => self.append(*stream, &mut recipients, progress)?,
                }
            }
        };
        self.notify();
        Ok(submitted)
    }

    /// The parameters of the job, except for the Message-ID.
    fn parameters(&self) -> Result<BulkParameters, Failure> {
        let usage = |reason| Failure::new(EX_USAGE, reason);
        let SubmitOptions { bulk, times, .. } = self.options;
        let now = Timestamp::now();
        let (not_before, deadline) = times.instants(now).map_err(usage)?;
        let window = times.window.as_ref().map(|text| DayWindow::parse(text, now));
        let window = window.transpose().map_err(|why| usage(format!("--window: {why}")))?;
        let key = match &bulk.key {
            Some(key) if key.is_empty() => return Err(usage("the key is empty".to_string())),
            Some(key) => key.clone(),
            None => format!("{:016x}-{}", sys::random_number()?, std::process::id()),
        };
        Ok(BulkParameters {
            key,
            list: bulk.list.clone(),
            sender: self.options.sender().map(str::to_string),
            privilege: i64::from(self.user),
            priority: self.options.priority,
            packet_size: bulk.packet_size.unwrap_or(DEFAULT_PACKET_SIZE),
            share: bulk.share.unwrap_or(MAX_SHARE),
            not_before: not_before.map(Timestamp::seconds),
            deadline: deadline.map(Timestamp::seconds),
            window: window.map(|window| window.to_string()),
            verp: bulk.verp,
            stream: bulk.stream,
            notify: self.options.notify.as_ref().map(|when| when.to_uppercase()),
            keep: bulk.keep.map_or(DEFAULT_KEEP, |days| days * 86_400),
            submitted: now.seconds(),
            ..BulkParameters::default()
        })
    }

    fn draft(&self, message: &Message) -> Result<JobDraft, Failure> {
        // The folder of a spool is not made here: it may be the wrong one.
        let transport = self.spool.transport();
        let missing = |error| Failure::new(EXIT_FAILURE, describe_folder_error(transport, &error));
        std::fs::metadata(transport).map_err(missing)?;
        let (headers, mut body) = (message.headers(), message.body());
        let merges = match self.options.bulk.merge_body {
            true => MergeScope::Message,
            false => MergeScope::Headers,
        };
        let mut draft = JobDraft::new(self.spool).map_err(|error| self.failure(error))?;
        let written = draft.write_message(&headers, &mut body, merges);
        written.map_err(|error| self.failure(error))?;
        Ok(draft)
    }

    fn submit_whole(
        &self,
        mut draft: JobDraft,
        parameters: BulkParameters,
        recipients: &mut RecipientInput,
    ) -> Result<SubmittedJob, Failure> {
        let (channel, host) = self.destination();
        loop {
            match recipients.next()? {
                InputEvent::End => break,
                InputEvent::Pause => continue,
                InputEvent::Line if recipients.line().is_empty() => continue,
                InputEvent::Line => {}
            }
            if let Err(error) = draft.add(channel, host, recipients.line()) {
                return Err(recipients.failure(error, "no job was submitted"));
            }
        }
        draft.commit(parameters).map_err(|error| self.failure(error))
    }

    /// Appends recipients, except for those that the job has from a former submission.
    fn append(
        &self,
        mut stream: JobStream,
        recipients: &mut RecipientInput,
        progress: ProgressSink<'_>,
    ) -> Result<SubmittedJob, Failure> {
        let ((channel, host), id) = (self.destination(), stream.id());
        let is_new = stream.synced_lines() == 0;
        let mut synced_at = Instant::now();
        loop {
            let added = match recipients.next()? {
                InputEvent::End => break,
                InputEvent::Pause => Ok(()),
                InputEvent::Line if recipients.number() <= stream.synced_lines() => continue,
                InputEvent::Line if recipients.line().is_empty() => {
                    stream.add_blank();
                    Ok(())
                }
                InputEvent::Line => stream.add(channel, host, recipients.line()),
            };
            if let Err(error) = added {
                self.sync(&mut stream, false, progress)?;
                let rest = format!(
                    "the lines before are submitted as job {id}: correct this one, and submit all \
                     of them again with the same key"
                );
                return Err(recipients.failure(error, &rest));
            }
            let is_late = synced_at.elapsed() >= MAX_PAUSE;
            if stream.unsynced() >= SEGMENT_SIZE || is_late && stream.unsynced() > 0 {
                self.sync(&mut stream, false, progress)?;
                synced_at = Instant::now();
            }
        }
        self.sync(&mut stream, true, progress)?;
        Ok(SubmittedJob { id, recipients: 0, repeated: stream.repeated, is_new })
    }

    fn sync(
        &self,
        stream: &mut JobStream,
        is_complete: bool,
        progress: ProgressSink<'_>,
    ) -> Result<(), Failure> {
        stream.sync(is_complete).map_err(|error| self.failure(error))?;
        self.notify();
        Ok(progress(stream.synced_lines())?)
    }

    /// The channel and, if it is the same for all, the host of the recipients.
    fn destination(&self) -> (&str, Option<&str>) {
        let SubmitOptions { channel, host, .. } = self.options;
        let default = (channel == "local").then_some("");
        (channel, host.as_deref().or(default))
    }

    /// Without a notice, the scheduler finds the job by its next scan.
    fn notify(&self) {
        notify(self.socket, NOTICE).ok();
    }

    fn failure(&self, error: io::Error) -> Failure {
        match error.kind() {
            ErrorKind::InvalidInput => Failure::new(EX_DATAERR, error.to_string()),
            ErrorKind::WouldBlock => Failure::new(EX_TEMPFAIL, error.to_string()),
            _ => Failure::new(EXIT_FAILURE, describe_folder_error(&self.spool.bulk(), &error)),
        }
    }
}

fn existing(id: zsched_bulk::JobId) -> SubmittedJob {
    SubmittedJob { id, recipients: 0, repeated: 0, is_new: false }
}
