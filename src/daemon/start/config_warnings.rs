//! Checks that the files named in a configuration exist.

use crate::agent_starter::program_path;
use crate::net::accounts;
use crate::reports;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use zsched_config::{Config, Zenv};

/// Warnings for the author of a configuration, one per line.
///
/// `programs` are the folders searched for agents named without a path.
pub(crate) fn warnings(config: &Config, zenv: &Zenv, programs: &[PathBuf]) -> Vec<String> {
    let mut warnings: Vec<String> =
        config.parameters.auth_file.as_deref().and_then(accounts::warning).into_iter().collect();
    let forms = reports::check_forms(zenv.mail_share()).into_iter();
    warnings.extend(forms.map(|mistake| format!("{mistake}; the form is not used")));
    let commands = config.commands();
    if commands.is_empty() {
        warnings.push("no clause has a command: no mail can be delivered".to_string());
    }
    for (place, command) in commands {
        let Some(word) = command.program(zenv) else {
            continue;
        };
        let program = program_path(&word, programs);
        if let Some(fault) = fault(&program) {
            warnings.push(format!("{place}: warning: the agent {}: {fault}", program.display()));
        }
    }
    warnings
}

/// Reason why a program cannot be started.
pub(super) fn fault(program: &Path) -> Option<String> {
    match fs::metadata(program) {
        Err(error) => Some(error.to_string()),
        Ok(metadata) if !metadata.is_file() => Some("it is no regular file".to_string()),
        Ok(metadata) if metadata.permissions().mode() & 0o111 == 0 => {
            Some("it is not executable".to_string())
        }
        Ok(_) => None,
    }
}
