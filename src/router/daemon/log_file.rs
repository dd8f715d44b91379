//! The log: standard error, or a file that takes its place.

use super::about;
use log::LevelFilter;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use zsched_format::printable;
use zsched_sys as sys;

/// Mode of a new log. It is not readable by all: it has addresses.
const MODE: u32 = 0o640;
/// Format of the time before each line.
const STAMP: &str = "%Y-%m-%d %H:%M:%S%.3f";

/// Starts logging, with printable text only.
pub fn start(path: Option<&Path>) -> io::Result<()> {
    open(path)?;
    env_logger::Builder::new()
        .filter_module("zsched", LevelFilter::Info)
        .format(|out, record| printable::write_log_line(out, STAMP, record))
        .write_style(env_logger::WriteStyle::Never)
        .init();
    Ok(())
}

/// Opens the log again, after it was renamed.
pub fn reopen(path: Option<&Path>) {
    match open(path) {
        Ok(()) => log::info!("log reopened"),
        Err(error) => log::error!("{error}; the former log stays"),
    }
}

fn open(path: Option<&Path>) -> io::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let file = OpenOptions::new().append(true).create(true).mode(MODE).open(path);
    let file = file.map_err(about(path))?;
    sys::redirect_output(&file)
}
