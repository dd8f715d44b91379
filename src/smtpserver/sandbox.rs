//! Limits what this process may write, where the kernel can (Landlock).
//!
//! It may read everything that its user may, since the user database consists of any files. It may
//! write only to the folders that submissions go through, to its logs and to its own files in the
//! spool.

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError,
};
use std::path::{Path, PathBuf};
use zsched_spool::Spool;

/// Restricts this process and all workers that it starts from now on.
///
/// Returns false where the kernel cannot rename files between folders under restrictions.
pub(crate) fn enter<'p>(spool: &Spool, logs: impl Iterator<Item = &'p PathBuf>) -> bool {
    match restrict(spool, logs) {
        Ok(()) => true,
        Err(error) => {
            log::debug!("no Landlock: {error}");
            false
        }
    }
}

fn restrict<'p>(
    spool: &Spool,
    logs: impl Iterator<Item = &'p PathBuf>,
) -> Result<(), RulesetError> {
    let abi = ABI::V3;
    let folders = [spool.public(), spool.router(), spool.transport().to_path_buf()];
    let own_files = [spool.smtpserver_pid_file(), spool.smtpserver_traffic_file()];
    let log_folders: Vec<&Path> = logs.filter_map(|log| log.parent()).collect();
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?
        .create()?;
    let mut allow = |path: &Path, access: BitFlags<AccessFs>| -> Result<(), RulesetError> {
        if let Ok(file) = PathFd::new(path) {
            (&mut ruleset).add_rule(PathBeneath::new(file, access))?;
        }
        Ok(())
    };
    allow(Path::new("/"), AccessFs::from_read(abi))?;
    for folder in folders.iter().map(PathBuf::as_path).chain(log_folders) {
        allow(folder, AccessFs::from_all(abi))?;
    }
    let of_file = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::ReadFile;
    for file in own_files.iter().map(PathBuf::as_path).chain([Path::new("/dev/null")]) {
        allow(file, of_file)?;
    }
    ruleset.restrict_self()?;
    Ok(())
}
