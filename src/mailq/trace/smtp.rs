//! How messages came by SMTP, and what the SMTP server has not accepted.

use super::histories::History;
use super::log_files::{self, LogLine};
use super::subject::TraceSubject;
use crate::failure::Failure;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use zsched_format::status_log::{SmtpLine, SmtpStatus};

/// Maximum number of lines about mail that was not accepted. The oldest make room.
const MAX_REFUSED: usize = 100;
/// Maximum number of messages that are known only from this log.
const MAX_ACCEPTED: usize = 1000;

/// Adds to each history how its message came. Returns the lines about mail that was not accepted.
///
/// A message that only this log knows gets a history.
pub(super) fn add_arrivals(
    path: &Path,
    subject: &TraceSubject,
    histories: &mut Vec<History>,
) -> Result<Vec<SmtpLine<'static>>, Failure> {
    let known = histories.iter().enumerate().map(|(index, one)| (one.spool_id.clone(), index));
    let known: HashMap<String, usize> = known.collect();
    let mut refused: VecDeque<SmtpLine<'static>> = VecDeque::new();
    let mut only_here: Vec<History> = Vec::new();
    let damage = log_files::read(path, |line| {
        let LogLine::Smtp(line) = line else { return };
        match (line.status, line.spool_id.as_deref()) {
            (SmtpStatus::Accepted, Some(id)) => match known.get(id) {
                Some(index) => histories[*index].smtp = Some(line.into_owned()),
                None if subject.matches_message(id, None) && only_here.len() < MAX_ACCEPTED => {
                    only_here.push(History {
                        spool_id: id.to_string(),
                        sender: line.sender.as_ref().map(ToString::to_string),
                        smtp: Some(line.into_owned()),
                        ..History::default()
                    });
                }
                None => {}
            },
            _ if line.recipient.as_deref().is_some_and(|one| subject.is_address(one)) => {
                if refused.len() >= MAX_REFUSED {
                    refused.pop_front();
                }
                refused.push_back(line.into_owned());
            }
            _ => {}
        }
    })?;
    damage.warn(path);
    histories.extend(only_here);
    Ok(refused.into())
}
