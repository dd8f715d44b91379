//! Runs the programs of the mail system that do what `sendmail` is asked for.

use super::error::SendmailError;
use std::env;
use std::ffi::OsString;
use std::iter;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use zsched_sys as sys;

/// Replaces this process by `mailq`, which lists the queue. Returns only an error.
pub(crate) fn list_queue(arguments: impl Iterator<Item = OsString>) -> SendmailError {
    // A package beside another mail system uses the first name.
    become_program(&["mailq.zsched", "mailq"], arguments)
}

/// Replaces this process by `router`, which prints where mail for the addresses goes.
///
/// Returns only an error.
pub(crate) fn try_addresses(addresses: &[String]) -> SendmailError {
    become_program(&["router"], addresses.iter().map(|address| format!("--try={address}").into()))
}

/// Replaces this process by `smtpserver`, which serves standard input and output.
///
/// Returns only an error.
pub(crate) fn serve_smtp(zenv: Option<&Path>) -> SendmailError {
    let zenv = zenv.into_iter().flat_map(|path| ["-Z".into(), path.into()]);
    become_program(&["smtpserver"], iter::once("--stdio".into()).chain(zenv))
}

fn become_program(names: &[&str], arguments: impl Iterator<Item = OsString>) -> SendmailError {
    let own = env::current_exe().unwrap_or_default();
    let Some(program) = find(&own, names) else {
        let reason = format!("there is no {} beside {}", names.join(" or "), own.display());
        return SendmailError::Program(reason);
    };
    let error = Command::new(&program).args(arguments).exec();
    SendmailError::Program(format!("{}: {error}", program.display()))
}

/// Finds a program with one of these names.
///
/// It is in the folder of this program, or in `bin` beside it.
///
/// The name may also be one of this program itself, which does not count.
fn find(own: &Path, names: &[&str]) -> Option<PathBuf> {
    let folder = own.parent()?;
    let folders = [folder.to_path_buf(), folder.parent()?.join("bin")];
    let paths = folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
    let is_other = |path: &PathBuf| match (path.metadata(), own.metadata()) {
        (Ok(found), Ok(own)) => {
            found.is_file() && sys::device_and_inode(&found) != sys::device_and_inode(&own)
        }
        _ => false,
    };
    paths.into_iter().find(is_other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const NAMES: [&str; 2] = ["mailq.zsched", "mailq"];

    #[test]
    fn mailq_that_is_this_program_is_passed_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["sbin", "bin"] {
            fs::create_dir(at(name)).expect("a folder");
        }
        let own = at("sbin/sendmail");
        fs::write(&own, "").expect("written");
        std::os::unix::fs::symlink("sendmail", at("sbin/mailq")).expect("a link");
        assert_eq!(find(&own, &NAMES), None);
        for name in ["bin/mailq", "bin/mailq.zsched", "sbin/mailq.zsched"] {
            fs::write(at(name), "").expect("written");
            let found = find(&own, &NAMES).expect("a program").canonicalize().expect("a path");
            assert_eq!(found, at(name).canonicalize().expect("a path"));
        }
    }
}
