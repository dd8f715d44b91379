//! The command line of `smtpserver`.

use clap::{ArgAction, Parser};
use std::path::PathBuf;

/// Take mail from other programs and hosts by SMTP, and give it to the router
#[derive(Parser, Clone, Debug)]
#[command(name = "smtpserver", version)]
pub struct ServerOptions {
    /// Stay in the foreground; otherwise the server becomes a daemon
    #[arg(short = 'i', long = "interactive")]
    pub interactive: bool,

    /// Check the configuration and its files, say if they can be used, and exit
    #[arg(short = 't', long = "check")]
    pub check: bool,

    /// The configuration; by default smtpserver.cf in $MAILSHARE, or ports of this host without it
    #[arg(short = 'f', long = "config", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The configuration of the router, which decides about recipients; by default router.cf in
    /// $MAILSHARE, or built-in rules without it
    #[arg(short = 'r', long = "router-config", value_name = "FILE")]
    pub router_config: Option<PathBuf>,

    /// The ZENV file with the paths of the installation
    #[arg(short = 'Z', long = "zenv", value_name = "FILE")]
    pub zenv: Option<PathBuf>,

    /// The spool; by default $POSTOFFICE
    #[arg(short = 'P', long = "postoffice", value_name = "FOLDER")]
    pub postoffice: Option<PathBuf>,

    /// The log; by default smtpserver in $LOGDIR for a daemon, else standard error
    #[arg(short = 'L', long = "log", value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// The status log, one JSON object for each message that is accepted, and for each recipient
    /// and message that is not; by default $SMTPSTATUSLOG, else none
    #[arg(long, value_name = "FILE")]
    pub status_log: Option<PathBuf>,

    /// The spool has single-letter folders; given twice, two levels of them. SCHEDULERDIRHASH in
    /// the ZENV file overrides it
    #[arg(short = 'H', long = "hash", action = ArgAction::Count)]
    pub hash: u8,
}
