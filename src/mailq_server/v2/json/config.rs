//! `SHOW JSON CONFIG`: the configuration on disk, as a reload would find it.

use super::line;
use crate::v2::task::{AdminCommand, Answer, Reply, ReplyResult, SessionContext, Step, Task};
use zsched_mailq_protocol::schema::ConfigStatus;

/// Answers the request.
pub(crate) fn answer() -> ReplyResult {
    Ok(Reply::text(ConfigTask { status: None }))
}

/// Has the file read, and writes what was found.
struct ConfigTask {
    status: Option<ConfigStatus>,
}

impl Task for ConfigTask {
    fn step(&mut self, _context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        let Some(status) = &self.status else {
            return Step::Admin(AdminCommand::CheckConfig);
        };
        line(out, status);
        Step::Done
    }

    fn take_answer(&mut self, answer: Answer) {
        let Answer::Admin(found) = answer else { return };
        self.status = Some(match found {
            Ok(change) => {
                ConfigStatus { usable: true, in_force: change.is_empty(), errors: Vec::new() }
            }
            Err(errors) => ConfigStatus {
                usable: false,
                in_force: false,
                errors: errors.split('\t').map(str::to_string).collect(),
            },
        });
    }
}
