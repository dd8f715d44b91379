//! The command line of `router`.

use clap::Parser;
use std::path::PathBuf;
use zsched_service::InstallationOptions;

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

    /// Where the files of the installation are.
    #[command(flatten)]
    pub installation: InstallationOptions,

    /// The log; by default router in $LOGDIR for a daemon, else standard error
    #[arg(short = 'L', long = "log", value_name = "FILE")]
    pub log: Option<PathBuf>,
}
