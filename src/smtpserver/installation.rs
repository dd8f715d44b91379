//! Finds and reads the files of an installation.

use super::accounts::{self, Accounts};
use super::config::{Limits, LoginSource, ServerConfig};
use super::options::SmtpServerOptions;
use super::service_stream::ServiceAddress;
use super::session::{Logins, Service, SessionSettings};
use super::store::Store;
use super::tls;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};
use zsched_config::Zenv;
use zsched_format::time::Timestamp;
use zsched_router::{Directory, load_directory};
use zsched_service::{default_log, shared_config};
use zsched_spool::{HashLevel, Spool};

/// The paths and settings of an installation.
pub(crate) struct Installation {
    zenv: Zenv,
    spool: Spool,
    config: Option<PathBuf>,
    router_config: Option<PathBuf>,
    log: Option<PathBuf>,
    status_log: Option<PathBuf>,
    level: HashLevel,
}

/// What the files say, at one time.
pub(crate) struct Loaded {
    pub(crate) config: ServerConfig,
    pub(crate) directory: Directory,
    pub(crate) logins: Option<LoginService>,
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    /// Files that are read again when they change.
    pub(crate) watched: Vec<FileStamp>,
}

/// What all sessions share.
#[derive(Debug)]
pub(crate) struct Resources {
    /// Free space of the spool that may be used, in bytes.
    pub(crate) free_space: Arc<AtomicU64>,
    /// Memory that messages may still take, in bytes.
    pub(crate) free_memory: Arc<AtomicU64>,
    /// Requests for the scheduler can be written.
    pub(crate) has_queue_requests: bool,
    /// The process may read only some folders.
    pub(crate) is_confined: bool,
}

/// What decides about logins.
pub(crate) enum LoginService {
    File(Accounts),
    Dovecot(ServiceAddress),
}

/// A file as it was at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) path: PathBuf,
    /// Device, inode, size and time of the last change; `None` if it cannot be read.
    state: Option<(u64, u64, u64, SystemTime)>,
}

impl FileStamp {
    pub(crate) fn of(path: &Path) -> FileStamp {
        let state = || {
            let metadata = path.metadata()?;
            let (device, inode) = zsched_sys::device_and_inode(&metadata);
            io::Result::Ok((device, inode, metadata.len(), metadata.modified()?))
        };
        FileStamp { path: path.into(), state: state().ok() }
    }

    pub(crate) fn has_changed(&self) -> bool {
        *self != FileStamp::of(&self.path)
    }
}

impl Installation {
    /// Finds the files. An error is about the ZENV file.
    pub(crate) fn find(options: &SmtpServerOptions) -> io::Result<Installation> {
        let has_all = options.config.is_some() && options.router_config.is_some();
        let zenv = options.installation.read_zenv(has_all)?;
        let absolute = |path: Option<PathBuf>| path.map(std::path::absolute).transpose();
        let config = options.config.clone().or_else(|| shared_config(&zenv, "smtpserver.cf"));
        let router_config = options.router_config.clone();
        let router_config = router_config.or_else(|| shared_config(&zenv, "router.cf"));
        let status_log = options.status_log.clone();
        let status_log = status_log.or_else(|| {
            let path = zenv.get("SMTPSTATUSLOG").map(str::trim)?;
            (!path.is_empty()).then(|| path.into())
        });
        Ok(Installation {
            status_log: absolute(status_log)?,
            spool: options.installation.spool(&zenv)?,
            config: absolute(config)?,
            router_config: absolute(router_config)?,
            log: absolute(options.log.clone())?,
            level: options.installation.level(&zenv),
            zenv,
        })
    }

    pub(crate) fn store(&self, free_space: &Arc<AtomicU64>) -> Store {
        Store {
            free_space: free_space.clone(),
            level: HashLevel::of_router(self.zenv.get("ROUTERDIRHASH")),
            router_socket: self.spool.router_socket(self.zenv.get("ROUTERNOTIFY")),
            spool: self.spool.clone(),
        }
    }

    pub(crate) fn spool(&self) -> &Spool {
        &self.spool
    }

    /// The socket of the scheduler.
    pub(crate) fn scheduler_socket(&self) -> PathBuf {
        self.spool.notify_socket(self.zenv.get("SCHEDULERNOTIFY"))
    }

    /// Nesting of `transport/`.
    pub(crate) fn level(&self) -> HashLevel {
        self.level
    }

    /// Name of the configuration for messages.
    pub(crate) fn config_name(&self) -> String {
        match &self.config {
            Some(path) => path.display().to_string(),
            None => "the built-in configuration".into(),
        }
    }

    /// The files of the configuration that do not depend on its contents.
    pub(crate) fn config_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.config.iter().chain(&self.router_config)
    }

    /// The router's rules, if they can be read.
    pub(crate) fn directory(&self) -> Option<Directory> {
        let loaded = load_directory(self.router_config.as_deref(), &self.zenv);
        loaded.ok().map(|(directory, _)| directory)
    }

    /// Path of the status log.
    pub(crate) fn status_log_path(&self) -> Option<PathBuf> {
        self.status_log.clone()
    }

    /// Path of the log; `None` is standard error.
    pub(crate) fn log_path(&self, is_daemon: bool) -> Option<PathBuf> {
        let default = || is_daemon.then(|| default_log(&self.zenv, "smtpserver"));
        self.log.clone().or_else(default)
    }

    /// Reads all files. On failure, returns all errors; warnings come with the result.
    pub(crate) fn load(&self) -> Result<(Loaded, Vec<String>), Vec<String>> {
        let mut said = Vec::new();
        let config = match &self.config {
            None => Ok(ServerConfig::default()),
            Some(path) => zsched_config::read(path)
                .map_err(|error| vec![error])
                .and_then(|text| ServerConfig::parse(path, &text, &self.zenv))
                .map(|(config, warnings)| {
                    said.extend(warnings.iter().map(ToString::to_string));
                    config
                }),
        };
        let directory = load_directory(self.router_config.as_deref(), &self.zenv);
        let (mut config, directory) = match (config, directory) {
            (Ok(config), Ok((directory, warnings))) => {
                said.extend(warnings.iter().map(ToString::to_string));
                (config, directory)
            }
            (config, directory) => {
                let errors = [config.err(), directory.err()].into_iter().flatten().flatten();
                said.extend(errors.map(|error| error.to_string()));
                return Err(said);
            }
        };
        self.apply_zenv(&mut config.limits, &mut said)?;
        // Before they are read: a change meanwhile is seen by the next look.
        let certificate = config.certificate.iter().flat_map(|(one, other)| [one, other]);
        let logins = config.logins.iter().filter_map(LoginSource::file);
        let watched = certificate.chain(logins).map(|path| FileStamp::of(path)).collect();
        let tls = config.certificate.as_ref().map(|(certificates, key)| {
            tls::load(certificates, key).map_err(|error| vec![error.to_string()])
        });
        let logins = config.logins.as_ref().map(|source| match source {
            LoginSource::File(path) => read_accounts(path).map(LoginService::File),
            LoginSource::Dovecot(socket) => Ok(LoginService::Dovecot(socket.clone())),
        });
        match (tls.transpose(), logins.transpose()) {
            (Ok(tls), Ok(logins)) => Ok((Loaded { config, directory, logins, tls, watched }, said)),
            (tls, logins) => {
                said.extend([tls.err(), logins.err()].into_iter().flatten().flatten());
                Err(said)
            }
        }
    }

    /// The limit of the installation holds if it is lower.
    pub(crate) fn apply_zenv(
        &self,
        limits: &mut Limits,
        said: &mut Vec<String>,
    ) -> Result<(), Vec<String>> {
        let Some(text) = self.zenv.get("MAXMESSAGESIZE") else { return Ok(()) };
        match text.trim().parse::<u64>() {
            Ok(0) => Ok(()),
            Ok(size) => {
                limits.max_size = limits.max_size.min(size);
                Ok(())
            }
            Err(_) => {
                said.push(format!("MAXMESSAGESIZE={text}: not a number of bytes"));
                Err(std::mem::take(said))
            }
        }
    }
}

impl Loaded {
    /// All files that are read again now and then.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let watched = self.watched.iter().map(|stamp| stamp.path.clone());
        self.directory.files().into_iter().chain(watched).collect()
    }

    /// Settings of the sessions of one port.
    pub(crate) fn settings(&self, service: Service, resources: &Resources) -> Arc<SessionSettings> {
        let hostname = self.config.hostname.clone();
        let of_router = || self.directory.config.routes.hostname().to_string();
        Arc::new(SessionSettings {
            hostname: hostname.unwrap_or_else(of_router),
            service,
            max_size: self.config.limits.max_size,
            max_recipients: self.config.limits.max_recipients,
            has_tls: self.tls.is_some(),
            logins: match &self.logins {
                Some(LoginService::File(_)) if service != Service::Lmtp => Logins::All,
                Some(LoginService::Dovecot(_)) if service != Service::Lmtp => Logins::Passwords,
                _ => Logins::None,
            },
            has_queue_domains: !self.config.relay_domains.is_empty(),
            allows_bare_lf: false,
            max_hold: match self.config.has_holds {
                true => self.config.limits.max_hold,
                false => Duration::ZERO,
            },
            has_priorities: self.config.has_priorities,
            logins_raise_priority: self.config.logins_raise_priority,
            now: Timestamp::now,
            has_queue_requests: resources.has_queue_requests,
            free_space: resources.free_space.clone(),
            free_memory: resources.free_memory.clone(),
        })
    }
}

fn read_accounts(path: &Path) -> Result<Accounts, Vec<String>> {
    let named = |error: &dyn std::fmt::Display| vec![format!("{}: error: {error}", path.display())];
    let file = zsched_sys::open_regular(std::fs::File::options().read(true), path);
    let file = file.map_err(|error| named(&error))?;
    let mut text = String::new();
    let limit = accounts::MAX_FILE_SIZE as u64 + 1;
    file.take(limit).read_to_string(&mut text).map_err(|error| named(&error))?;
    if text.len() > accounts::MAX_FILE_SIZE {
        return Err(named(&"the file is larger than 16 MiB"));
    }
    let (accounts, wrong) = Accounts::parse(&text).map_err(|error| named(&error))?;
    let wrong: Vec<String> = wrong
        .iter()
        .map(|one| {
            format!("{}:{}:{}: error: {}", path.display(), one.line, one.column, one.message)
        })
        .collect();
    if wrong.is_empty() { Ok(accounts) } else { Err(wrong) }
}
