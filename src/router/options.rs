//! The command line of `router`.

use clap::{ArgAction, Parser};
use std::path::PathBuf;

/// Route new mail: give each message in the folder router of the spool a control file for the
/// scheduler
#[derive(Parser, Clone, Debug)]
#[command(name = "router", version)]
pub struct RouterOptions {
    /// Route what is there, and exit
    #[arg(short = '1', long = "once")]
    pub once: bool,

    /// Stay in the foreground; otherwise the router becomes a daemon
    #[arg(short = 'i', long = "interactive")]
    pub interactive: bool,

    /// Check the configuration and its files, say if they can be used, and exit
    #[arg(short = 't', long = "check", conflicts_with_all = ["once", "addresses"])]
    pub check: bool,

    /// Show where mail to these addresses goes, and which lines decide that
    #[arg(long = "try", value_name = "ADDRESS", num_args = 1.., conflicts_with = "once")]
    pub addresses: Vec<String>,

    /// The configuration; by default router.cf in $MAILSHARE, or built-in rules without it
    #[arg(short = 'f', long = "config", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The ZENV file with the paths of the installation
    #[arg(short = 'Z', long = "zenv", value_name = "FILE")]
    pub zenv: Option<PathBuf>,

    /// The spool; by default $POSTOFFICE
    #[arg(short = 'P', long = "postoffice", value_name = "FOLDER")]
    pub postoffice: Option<PathBuf>,

    /// The log; by default router in $LOGDIR for a daemon, else standard error
    #[arg(short = 'L', long = "log", value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// The spool has single-letter folders; given twice, two levels of them. SCHEDULERDIRHASH in
    /// the ZENV file overrides it
    #[arg(short = 'H', long = "hash", action = ArgAction::Count)]
    pub hash: u8,
}
