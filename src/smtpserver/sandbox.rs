//! Limits what this process may write, where the kernel can (Landlock).
//!
//! It may read everything that its user may, since the user database consists of any files. It may
//! write only to the folders that submissions go through, to its log and to its pid file.

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError,
};
use std::path::{Path, PathBuf};
use zsched_spool::Spool;

/// Restricts this process and all workers that it starts from now on.
///
/// Returns false where the kernel cannot rename files between folders under restrictions.
pub(crate) fn enter(spool: &Spool, log: Option<&Path>) -> bool {
    match restrict(spool, log) {
        Ok(()) => true,
        Err(error) => {
            log::debug!("no Landlock: {error}");
            false
        }
    }
}

fn restrict(spool: &Spool, log: Option<&Path>) -> Result<(), RulesetError> {
    let abi = ABI::V3;
    let folders = [spool.public(), spool.router(), spool.transport().to_path_buf()];
    let pid_file = spool.smtpserver_pid_file();
    let log_folder = log.and_then(Path::parent).map(Path::to_path_buf);
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
    for folder in folders.iter().chain(&log_folder) {
        allow(folder, AccessFs::from_all(abi))?;
    }
    let of_file = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::ReadFile;
    for file in [pid_file, PathBuf::from("/dev/null")] {
        allow(&file, of_file)?;
    }
    ruleset.restrict_self()?;
    Ok(())
}
