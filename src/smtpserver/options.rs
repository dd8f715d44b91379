//! The command line of `smtpserver`.

use clap::Parser;
use std::path::PathBuf;
use zsched_service::InstallationOptions;

/// Take mail from other programs and hosts by SMTP, and give it to the router
#[derive(Parser, Clone, Debug)]
#[command(name = "smtpserver", version)]
pub struct SmtpServerOptions {
    /// Stay in the foreground; otherwise the server becomes a daemon
    #[arg(short = 'i', long = "interactive")]
    pub interactive: bool,

    /// Check the configuration and its files, say if they can be used, and exit
    #[arg(short = 't', long = "check")]
    pub check: bool,

    /// Serve one session on standard input and output, as `sendmail -bs` does. smtpserver.cf is not
    /// read, and the client may send to any address
    #[arg(long = "stdio", conflicts_with_all = ["interactive", "check", "config", "log"])]
    pub stdio: bool,

    /// The configuration; by default smtpserver.cf in $MAILSHARE, or ports of this host without it
    #[arg(short = 'f', long = "config", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The configuration of the router, which decides about recipients; by default router.cf in
    /// $MAILSHARE, or built-in rules without it
    #[arg(short = 'r', long = "router-config", value_name = "FILE")]
    pub router_config: Option<PathBuf>,

    /// Where the files of the installation are.
    #[command(flatten)]
    pub installation: InstallationOptions,

    /// The log; by default smtpserver in $LOGDIR for a daemon, else standard error
    #[arg(short = 'L', long = "log", value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// The status log, one JSON object for each message that is accepted, and for each recipient
    /// and message that is not; by default $SMTPSTATUSLOG, else none
    #[arg(long, value_name = "FILE")]
    pub status_log: Option<PathBuf>,
}
