//! Limits what this process may read and write, where the kernel can (Landlock).
//!
//! It may read the system's own files, which the user database needs, and the folders of the files
//! of its configuration, as they are at the start. Of the spool it may change only what messages go
//! through; it may neither read nor change mail that is queued. Only if its user may write to
//! `transport/`, for ETRN, does that folder belong to the former, too.

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope, make_bitflags,
};
use std::path::{Path, PathBuf};
use zsched_spool::Spool;

/// What the kernel must have: without it, files cannot be renamed between folders (Linux 5.19).
const MIN_ABI: ABI = ABI::V2;
/// What is used where the kernel has it, such as limits on truncating files.
const MAX_ABI: ABI = ABI::V5;
/// Files of the system: its configuration, libraries, and sockets and files of name services.
const SYSTEM_FOLDERS: [&str; 12] = [
    "/etc",
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/run",
    "/dev/urandom",
    "/var/cache/nscd",
    "/var/db",
    "/var/lib/extrausers",
    "/var/lib/misc",
    "/var/lib/sss",
];

/// The files of this process.
pub(crate) struct Places<'p> {
    pub(crate) spool: &'p Spool,
    /// Files that it reads, which may be replaced by others of the same name.
    pub(crate) files: Vec<PathBuf>,
    /// Files that it appends to, which may be renamed.
    pub(crate) logs: Vec<&'p Path>,
    /// It writes requests into `transport/`.
    pub(crate) has_queue_requests: bool,
}

/// Returns the reason if the kernel cannot confine this process.
pub(crate) fn obstacle() -> Option<String> {
    ruleset(MAX_ABI).err().map(|error| {
        format!("not confined by Landlock, which needs Linux 5.19 and to be switched on: {error}")
    })
}

/// Restricts this process and all workers that it starts from now on.
pub(crate) fn enter(places: &Places<'_>) -> Result<(), RulesetError> {
    restrict(places, MAX_ABI)
}

fn ruleset(abi: ABI) -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(MIN_ABI))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .scope(Scope::Signal)?
        .create()
}

fn restrict(places: &Places<'_>, abi: ABI) -> Result<(), RulesetError> {
    let mut ruleset = ruleset(abi)?;
    let mut allow = |path: &Path, access: BitFlags<AccessFs>| -> Result<(), RulesetError> {
        // What does not exist is of no use.
        if let Ok(file) = PathFd::new(path) {
            let all =
                if path.is_dir() { AccessFs::from_all(abi) } else { AccessFs::from_file(abi) };
            (&mut ruleset).add_rule(PathBeneath::new(file, access & all))?;
        }
        Ok(())
    };
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let write = make_bitflags!(AccessFs::{WriteFile | Truncate});
    let create = make_bitflags!(AccessFs::{MakeReg | RemoveFile | Refer | ReadDir});
    for folder in SYSTEM_FOLDERS {
        allow(Path::new(folder), read)?;
    }
    for file in &places.files {
        // A link leads to another folder.
        for path in [Some(file.clone()), file.canonicalize().ok()].into_iter().flatten() {
            allow(path.parent().unwrap_or(Path::new("/")), read)?;
        }
    }
    let spool = places.spool;
    allow(&spool.public(), create | write | AccessFs::ReadFile)?;
    allow(&spool.router(), create)?;
    if places.has_queue_requests {
        allow(spool.transport(), create | write | AccessFs::ReadFile | AccessFs::MakeDir)?;
    }
    let own_files = [spool.smtpserver_pid_file(), spool.smtpserver_traffic_file()];
    for file in own_files.iter().map(PathBuf::as_path).chain([Path::new("/dev/null")]) {
        allow(file, write | AccessFs::ReadFile)?;
    }
    for log in &places.logs {
        // The next log gets its name in this folder.
        match log.parent().filter(|folder| !spool.postoffice().starts_with(folder)) {
            Some(folder) => allow(folder, make_bitflags!(AccessFs::{MakeReg | WriteFile}))?,
            None => allow(log, AccessFs::WriteFile.into())?,
        }
    }
    ruleset.restrict_self()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::process::Command;
    use zsched_spool::submit::Submitter;
    use zsched_spool::{HashLevel, SubmissionFile};

    /// Variable with the folder of the process that is confined, and the version of Landlock.
    const CONFINED: &str = "ZSCHED_TEST_CONFINED";

    /// Does nothing unless started by the test below.
    #[test]
    fn process_that_is_confined() {
        let Some(variable) = std::env::var_os(CONFINED) else { return };
        let variable = variable.into_string().expect("text");
        let (abi, folder) = variable.split_once(' ').expect("two words");
        let abi = if abi == "2" { ABI::V2 } else { MAX_ABI };
        let at = |name: &str| Path::new(folder).join(name);
        let spool = Spool::new(at("spool"));
        let (log, own_log) = (at("logs/log"), at("log"));
        let places = Places {
            spool: &spool,
            files: vec![at("config/link")],
            logs: vec![&log, &own_log],
            has_queue_requests: folder.ends_with("etrn"),
        };
        restrict(&places, abi).expect("confined");
        let append = |path: &Path| {
            fs::OpenOptions::new().append(true).create(true).open(path)?.write_all(b"x")
        };
        // What it must be able to do.
        let mut file = SubmissionFile::create(&spool).expect("a file");
        file.write_all(b"to <a@b>\nenv-end\n").expect("written");
        file.publish(HashLevel::Flat).expect("in router/");
        drop(SubmissionFile::create(&spool).expect("a file that is removed"));
        append(&at("logs/log")).expect("written");
        append(&at("logs/new")).expect("made");
        append(&at("log")).expect("written");
        fs::write(spool.smtpserver_traffic_file(), "{}").expect("written");
        for path in [at("config/link"), at("certificates/file"), "/etc/passwd".into()] {
            fs::read(&path).expect("read");
        }
        zsched_sys::users::find_account("root").expect("looked up").expect("an account");
        // What it must not.
        let denied = |what: &str, result: std::io::Result<()>| {
            let kind = result.map_err(|error| error.kind());
            assert_eq!(kind, Err(std::io::ErrorKind::PermissionDenied), "{what}");
        };
        let read = |path: PathBuf| fs::read(path).map(drop);
        denied("queued mail is read", read(spool.queue().join("1")));
        denied("queued mail is changed", append(&spool.queue().join("1")));
        denied("queued mail is removed", fs::remove_file(spool.queue().join("1")));
        denied("mail is queued", append(&spool.queue().join("2")));
        denied("mail is taken", fs::rename(spool.queue().join("1"), spool.public().join("1")));
        if !places.has_queue_requests {
            denied("a control file is read", read(spool.transport().join("1")));
            denied("a control file is changed", append(&spool.transport().join("1")));
        }
        denied("submissions are read", read(spool.router().join("1")));
        denied("submissions are changed", append(&spool.router().join("1")));
        denied("the spool is written", append(&at("spool/.scheduler.orders")));
        denied("a log is removed", fs::remove_file(at("logs/log")));
        denied("a log is read", read(at("logs/log")));
        denied("a file beside a log", append(&at("other")));
        denied("the configuration", append(&at("config/file")));
        denied("a file elsewhere", append(&std::env::temp_dir().join("zsched-elsewhere")));
        denied("a home", read("/root/.profile".into()));
        let submitter = Submitter { spool: spool.clone(), level: HashLevel::Once, sync: false };
        let asked = submitter.request_queue_run("x.test", "c");
        assert_eq!(asked.is_ok(), places.has_queue_requests, "{asked:?}");
        println!("as planned");
    }

    #[test]
    fn confined_process_can_do_its_work_and_nothing_else() {
        if let Some(obstacle) = obstacle() {
            assert!(std::env::var_os("CI").is_none(), "{obstacle}");
            return println!("*** NOT RUN: {obstacle}");
        }
        for (abi, name) in [(2, "plain"), (5, "plain"), (2, "etrn"), (5, "etrn")] {
            let root = tempfile::tempdir().expect("a folder");
            let folder = root.path().join(name);
            let at = |name: &str| folder.join(name);
            for name in ["config", "certificates", "logs"] {
                fs::create_dir_all(at(name)).expect("a folder");
            }
            let spool = Spool::new(at("spool"));
            spool.create().expect("a spool");
            let (queue, transport) = (spool.queue().join("1"), spool.transport().join("1"));
            let files = [at("certificates/file"), at("config/file"), queue, transport];
            let own = [spool.router().join("1"), at("logs/log"), at("log"), at("other")];
            for file in files.into_iter().chain(own).chain([spool.smtpserver_traffic_file()]) {
                fs::write(file, "x").expect("written");
            }
            std::os::unix::fs::symlink(at("certificates/file"), at("config/link")).expect("a link");
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.args(["--exact", "sandbox::tests::process_that_is_confined", "--nocapture"]);
            command.env(CONFINED, format!("{abi} {}", folder.display()));
            let output = command.output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains("as planned"), "version {abi}, {name}: {said}{error}");
        }
    }
}
