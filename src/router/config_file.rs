//! Finds and reads the files of an installation.

use crate::config::RouterConfig;
use crate::directory::Directory;
use crate::options::RouterOptions;
use std::io;
use std::path::{Path, PathBuf};
use zsched_config::{Diagnostic, Zenv};
use zsched_service::{default_log, shared_config};
use zsched_spool::{HashLevel, Spool};
use zsched_sys as sys;

/// The paths and settings of an installation.
pub(crate) struct Installation {
    pub(crate) zenv: Zenv,
    pub(crate) level: HashLevel,
    spool: Spool,
    /// The configuration file; `None` for the built-in rules.
    config: Option<PathBuf>,
    /// What was read at the start.
    directory: Option<Directory>,
}

impl Installation {
    /// Finds the files. An error is about the ZENV file.
    pub(crate) fn find(options: &RouterOptions) -> io::Result<Installation> {
        let zenv = options.installation.read_zenv(options.config.is_some())?;
        let config = options.config.clone().or_else(|| shared_config(&zenv, "router.cf"));
        Ok(Installation {
            level: options.installation.level(&zenv),
            spool: options.installation.spool(&zenv)?,
            config: config.map(std::path::absolute).transpose()?,
            zenv,
            directory: None,
        })
    }

    pub(crate) fn spool(&self) -> Spool {
        self.spool.clone()
    }

    /// Name of the configuration for messages.
    pub(crate) fn config_name(&self) -> String {
        match &self.config {
            Some(path) => path.display().to_string(),
            None => "the built-in configuration".into(),
        }
    }

    /// Path of the log; `None` is standard error.
    pub(crate) fn log_path(&self, options: &RouterOptions, is_daemon: bool) -> Option<PathBuf> {
        let default = || is_daemon.then(|| default_log(&self.zenv, "router"));
        options.log.clone().or_else(default)
    }

    /// Reads the configuration and its tables.
    ///
    /// Returns the warnings. On failure, returns all errors and warnings.
    pub(crate) fn load(&self) -> Result<(Directory, Vec<Diagnostic>), Vec<Diagnostic>> {
        load_directory(self.config.as_deref(), &self.zenv)
    }

    pub(crate) fn set_directory(&mut self, directory: Directory) {
        self.directory = Some(directory);
    }

    /// The directory that was read at the start.
    pub(crate) fn take_directory(&mut self) -> Directory {
        self.directory.take().expect("it is set before the router starts")
    }
}

/// Reads a configuration and its tables; without a path, the built-in rules.
///
/// Returns the warnings. On failure, returns all errors and warnings.
pub fn load_directory(
    path: Option<&Path>,
    zenv: &Zenv,
) -> Result<(Directory, Vec<Diagnostic>), Vec<Diagnostic>> {
    let host_name = sys::host_name();
    let (config, mut diagnostics) = match path {
        None => (RouterConfig::built_in(&host_name), Vec::new()),
        Some(path) => {
            let text = zsched_config::read(path).map_err(|error| vec![error])?;
            RouterConfig::parse(path, &text, &host_name, zenv)?
        }
    };
    match Directory::load(config) {
        Ok((directory, warnings)) => {
            diagnostics.extend(warnings);
            Ok((directory, diagnostics))
        }
        Err(errors) => {
            diagnostics.extend(errors);
            Err(diagnostics)
        }
    }
}

/// Logs what a configuration consists of.
pub(crate) fn log_counts(directory: &Directory) {
    let (aliases, virtuals) = directory.counts();
    log::info!("configuration read, {aliases} aliases, {virtuals} virtual addresses");
}
