//! The parameters of a job, and what operators have changed.
//!
//! Both files have a line `NAME VALUE` for each value that is set.

use super::job_folder;
use super::{JOB, JobId, ORDERS};
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::str::FromStr;
use zsched_spool::Spool;
use zsched_spool::atomic_write::write_atomically;
use zsched_sys::if_exists;

/// Maximum length of the headers of a message, in bytes.
pub const MAX_HEADERS: usize = 1 << 20;

/// The share that limits nothing, in percent.
pub const MAX_SHARE: u8 = 100;

/// What a job is, from its submission on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct BulkParameters {
    /// The key of the submitter: the same key is the same job.
    pub key: String,
    /// The name of the list, for people.
    pub list: Option<String>,
    /// The envelope sender; `None` is the null sender.
    pub sender: Option<String>,
    /// User id of the submitter.
    pub privilege: i64,
    /// The Message-ID.
    pub log_id: String,
    /// Offset of the body in the message, in bytes.
    pub body_offset: u64,
    /// Priority of its packets, 0 (first) to 9, or [`zsched_format::priority::KEPT_PRIORITY`].
    pub priority: Option<u8>,
    /// Maximum number of recipients in a packet.
    pub packet_size: u32,
    /// Maximum part of the agents of a destination that work on the job, in percent.
    pub share: u8,
    /// No packet is cut before this time, in seconds since the epoch.
    pub not_before: Option<i64>,
    /// What is not delivered by this time is not delivered, in seconds since the epoch.
    pub deadline: Option<i64>,
    /// The window of the day ([`zsched_format::schedule`]): packets are cut and delivered in it.
    pub window: Option<String>,
    /// Each recipient has a sender of its own, with the recipient's address in it.
    pub verp: bool,
    /// The headers contain `{{NAME}}`, to be replaced for each recipient.
    pub merge: bool,
    /// The names of the fields that agents merge into the body, with blanks between them.
    pub body_fields: Option<String>,
    /// Recipients are delivered to while others are still submitted.
    pub stream: bool,
    /// Value of `NOTIFY=` (RFC 3461).
    pub notify: Option<String>,
    /// Number of seconds for which a finished job is kept.
    pub keep: u32,
    /// Time of the submission, in seconds since the epoch.
    pub submitted: i64,
    /// Number of recipients.
    pub recipients: u32,
}

/// What operators have changed of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct BulkOrders {
    /// No packets are cut, and none is given to an agent.
    pub is_paused: bool,
    /// What is not delivered yet is never sent.
    pub is_cancelled: bool,
    /// Priority of its packets.
    pub priority: Option<u8>,
    /// Maximum number of recipients in a packet.
    pub packet_size: Option<u32>,
    /// Maximum part of the agents of a destination, in percent.
    pub share: Option<u8>,
}

impl BulkParameters {
    /// Reads the parameters of a job.
    pub fn read(spool: &Spool, job: JobId) -> io::Result<BulkParameters> {
        let lines = Lines::read(spool, job, JOB)?;
        Ok(BulkParameters {
            key: lines.required("key")?,
            list: lines.find("list")?,
            sender: lines.find("sender")?,
            privilege: lines.required("privilege")?,
            log_id: lines.required("message-id")?,
            body_offset: lines.required("body-offset")?,
            priority: lines.find("priority")?,
            packet_size: lines.required::<u32>("packet-size")?.max(1),
            share: lines.required::<u8>("share")?.clamp(1, MAX_SHARE),
            not_before: lines.find("not-before")?,
            deadline: lines.find("deadline")?,
            window: lines.find("window")?,
            verp: lines.is_set("verp"),
            merge: lines.is_set("merge"),
            body_fields: lines.find("body-fields")?,
            stream: lines.is_set("stream"),
            notify: lines.find("notify")?,
            keep: lines.required("keep")?,
            submitted: lines.required("submitted")?,
            recipients: lines.required("recipients")?,
        })
    }

    /// The names of the fields that agents merge into the body.
    pub fn fields_of_body(&self) -> impl Iterator<Item = &str> {
        self.body_fields.iter().flat_map(|names| names.split(' '))
    }

    /// Length of the headers and the empty line after them, in bytes.
    pub fn header_length(&self) -> usize {
        usize::try_from(self.body_offset).unwrap_or(usize::MAX).min(MAX_HEADERS + 1)
    }

    /// Writes the file of the parameters.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        put(out, "key", Some(&self.key))?;
        put(out, "list", self.list.as_ref())?;
        put(out, "sender", self.sender.as_ref())?;
        put(out, "privilege", Some(self.privilege))?;
        put(out, "message-id", Some(&self.log_id))?;
        put(out, "body-offset", Some(self.body_offset))?;
        put(out, "priority", self.priority)?;
        put(out, "packet-size", Some(self.packet_size))?;
        put(out, "share", Some(self.share))?;
        put(out, "not-before", self.not_before)?;
        put(out, "deadline", self.deadline)?;
        put(out, "window", self.window.as_ref())?;
        put(out, "verp", self.verp.then_some("yes"))?;
        put(out, "merge", self.merge.then_some("yes"))?;
        put(out, "body-fields", self.body_fields.as_ref())?;
        put(out, "stream", self.stream.then_some("yes"))?;
        put(out, "notify", self.notify.as_ref())?;
        put(out, "keep", Some(self.keep))?;
        put(out, "submitted", Some(self.submitted))?;
        put(out, "recipients", Some(self.recipients))
    }
}

impl BulkOrders {
    /// Reads the orders about a job. There may be none.
    pub fn read(spool: &Spool, job: JobId) -> io::Result<BulkOrders> {
        let Some(lines) = if_exists(Lines::read(spool, job, ORDERS))? else {
            return Ok(BulkOrders::default());
        };
        Ok(BulkOrders {
            is_paused: lines.is_set("paused"),
            is_cancelled: lines.is_set("cancelled"),
            priority: lines.find("priority")?,
            packet_size: lines.find("packet-size")?,
            share: lines.find("share")?,
        })
    }

    /// Replaces the orders about a job, and returns when they are on disk.
    pub fn write(&self, spool: &Spool, job: JobId) -> io::Result<()> {
        write_atomically(&job_folder(spool, job).join(ORDERS), |out| {
            put(out, "paused", self.is_paused.then_some("yes"))?;
            put(out, "cancelled", self.is_cancelled.then_some("yes"))?;
            put(out, "priority", self.priority)?;
            put(out, "packet-size", self.packet_size)?;
            put(out, "share", self.share)
        })
    }
}

/// Writes a line if there is a value for it.
pub(super) fn put(out: &mut impl Write, name: &str, value: Option<impl Display>) -> io::Result<()> {
    let Some(value) = value.map(|value| value.to_string()) else {
        return Ok(());
    };
    if value.contains(char::is_control) {
        let text = format!("the {name} of the job has a control character in it");
        return Err(io::Error::new(ErrorKind::InvalidInput, text));
    }
    writeln!(out, "{name} {value}")
}

/// The lines of a file of a job.
pub(super) struct Lines {
    path: String,
    text: String,
}

impl Lines {
    pub(super) fn read(spool: &Spool, job: JobId, file: &str) -> io::Result<Lines> {
        let path = job_folder(spool, job).join(file);
        Ok(Lines { text: fs::read_to_string(&path)?, path: path.display().to_string() })
    }

    fn value(&self, name: &str) -> Option<(usize, &str)> {
        let lines = self.text.lines().enumerate();
        let mut values = lines.filter_map(|(number, line)| {
            let value = line.strip_prefix(name)?.strip_prefix(' ')?;
            Some((number + 1, value))
        });
        values.next()
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    pub(super) fn find<T: FromStr>(&self, name: &str) -> io::Result<Option<T>> {
        let Some((line, value)) = self.value(name) else {
            return Ok(None);
        };
        let invalid = || format!("{}:{line}: {value:?} is no {name}", self.path);
        value.parse().map(Some).map_err(|_| io::Error::new(ErrorKind::InvalidData, invalid()))
    }

    pub(super) fn required<T: FromStr>(&self, name: &str) -> io::Result<T> {
        let missing = || format!("{}: there is no {name}", self.path);
        self.find(name)?.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, missing()))
    }
}
