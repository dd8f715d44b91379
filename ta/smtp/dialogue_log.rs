//! The log of dialogues (option `-l`): each line with the process id of the agent.
//!
//! The format is that of ZMailer's `smtp`: `r` for replies, `w` for commands, `#` for remarks.

use crate::session::Reply;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

/// A log file, or none. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct DialogueLog {
    output: Option<Rc<Output>>,
}

#[derive(Debug)]
struct Output {
    /// The file, or standard output.
    file: Option<File>,
    /// Number of the message that is delivered.
    message: Cell<u64>,
    line: Cell<u32>,
}

impl DialogueLog {
    /// Opens a log file, which several agents can share.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn open(path: &Path) -> io::Result<DialogueLog> {
        let file = File::options().append(true).create(true).open(path)?;
        let output = Output { file: Some(file), message: Cell::new(0), line: Cell::new(0) };
        Ok(DialogueLog { output: Some(Rc::new(output)) })
    }

    /// Shows dialogues on standard output, without process ids.
    pub fn to_standard_output() -> DialogueLog {
        let output = Output { file: None, message: Cell::new(0), line: Cell::new(0) };
        DialogueLog { output: Some(Rc::new(output)) }
    }

    /// The lines that follow concern this message.
    pub fn begin_message(&self, number: u64, host: &[u8]) {
        let Some(output) = &self.output else { return };
        output.message.set(number);
        output.line.set(0);
        self.note(format_args!("job {number} for {}", String::from_utf8_lossy(host)));
    }

    /// Adds a remark.
    pub fn note(&self, text: impl std::fmt::Display) {
        self.add('#', &text.to_string());
    }

    pub(crate) fn sent(&self, bytes: &[u8]) {
        if self.output.is_some() {
            for line in String::from_utf8_lossy(bytes).lines() {
                // Secrets stay out of the log.
                let shown = match line.get(..5) {
                    Some(word) if word.eq_ignore_ascii_case("AUTH ") => {
                        line.split(' ').take(2).collect::<Vec<_>>().join(" ")
                    }
                    _ if line.contains(' ') || line.len() < 5 => line.to_string(),
                    _ if ["QUIT", "RSET", "STARTTLS"].contains(&line) => line.to_string(),
                    _ => "(response)".to_string(),
                };
                self.add('w', &shown);
            }
        }
    }

    pub(crate) fn received(&self, reply: &Reply) {
        for line in reply.text().lines() {
            self.add('r', line);
        }
    }

    fn add(&self, kind: char, text: &str) {
        let Some(output) = &self.output else { return };
        let (pid, message) = (std::process::id(), output.message.get());
        let number = output.line.replace(output.line.get().wrapping_add(1));
        let text = zsched_format::printable::line(text);
        // No mail waits for a log.
        drop(match &output.file {
            Some(file) => {
                let line = format!("{pid:05}-{message}-{number:04}{kind}\t{text}\n");
                (&*file).write_all(line.as_bytes())
            }
            None => {
                let arrow = match kind {
                    'w' => "-> ",
                    'r' => "<- ",
                    _ => "",
                };
                io::stdout().write_all(format!("{arrow}{text}\n").as_bytes())
            }
        });
    }
}
