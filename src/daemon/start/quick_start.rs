//! Trial installation: creates a spool, mailboxes and configurations where missing.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use zsched_config as config;
use zsched_spool::{Spool, folder};
use zsched_sys as sys;

/// MAILQ port of a trial installation, unless it is taken; it needs no privilege.
const MAILQ_PORT: u16 = 10174;

/// SMTP port of a trial installation, unless it is taken.
const SMTP_PORT: u16 = 2525;

/// Configuration of the SMTP server.
const SMTPSERVER_CONFIG: &str = "\
# Where the SMTP server listens, and what clients may do: smtpserver.cf(5). Written once; yours to change.
listen 127.0.0.1:{port} smtp
";

/// Configuration of the router: mail for this host goes to mailboxes, all other mail is refused.
const ROUTER_CONFIG: &str = "\
# Where the router sends new mail: router.cf(5). Written once; yours to change.
# `router --try ADDRESS -Z FILE` shows which line decides; FILE is zmailer.conf in this folder.

# Every name at this host has a mailbox.
users any
local localhost{hosts}

# Other mail is refused, and its sender gets a report: no mail leaves a trial installation.
refuse * 5.1.2 \"no mail leaves this trial installation: router.cf refuses all domains but those of this host\"
";

/// Paths of the files of a trial installation.
pub(crate) struct InstallationPaths {
    /// ZENV file.
    pub zenv: PathBuf,
    /// Configuration.
    pub config: PathBuf,
}

/// Creates what is missing under `folder`. Existing files stay unchanged.
pub(crate) fn prepare(folder: &Path) -> io::Result<InstallationPaths> {
    folder::make_all(folder)?;
    let folder = folder.canonicalize()?;
    let (postoffice, mailboxes) = (folder.join("postoffice"), folder.join("mailboxes"));
    Spool::new(&postoffice).create()?;
    folder::make_all(&mailboxes)?;
    let places = InstallationPaths {
        zenv: folder.join("zmailer.conf"),
        config: folder.join("scheduler.cf"),
    };
    let shown = folder.display();
    let zenv = format!(
        "# Where the programs find everything. Written once; yours to change.\n\
         POSTOFFICE={}\nMAILBOXES={}\nLOGDIR={shown}\nMAILSHARE={shown}\nMAILQPORT={}\nPATH=/usr/bin:/bin\n\
         RENDEZVOUS={shown}/mailq.text\nSTATUSLOG={shown}/status\nSMTPSTATUSLOG={shown}/smtp-status\n\
         ZCONFIG={}\n",
        postoffice.display(),
        mailboxes.display(),
        free_port(MAILQ_PORT)?,
        places.zenv.display(),
    );
    write_unless_there(&places.zenv, &zenv)?;
    write_unless_there(&places.config, config::EXAMPLE)?;
    let smtp_port = free_port(SMTP_PORT)?.to_string();
    let smtpserver = SMTPSERVER_CONFIG.replace("{port}", &smtp_port);
    write_unless_there(&folder.join("smtpserver.cf"), &smtpserver)?;
    write_unless_there(&folder.join("router.cf"), &router_config(&sys::host_name()))?;
    Ok(places)
}

/// Text of `router.cf` for a host of this name.
fn router_config(host: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    // The kernel takes any text for a name.
    let is_usable = !host.is_empty() && host != "localhost" && host.chars().all(is_plain);
    let hosts = if is_usable { format!(" {host}") } else { String::new() };
    ROUTER_CONFIG.replace("{hosts}", &hosts)
}

/// The usual port, or a free one if another program has that: it would answer for this one.
fn free_port(usual: u16) -> io::Result<u16> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    bind(usual).or_else(|_| bind(0))?.local_addr().map(|address| address.port())
}

fn write_unless_there(path: &Path, text: &str) -> io::Result<()> {
    match fs::File::create_new(path) {
        Ok(mut file) => io::Write::write_all(&mut file, text.as_bytes()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_name_that_is_no_domain_is_left_out() {
        for (host, line) in [
            ("mx.example.org", "\nlocal localhost mx.example.org\n"),
            ("localhost", "\nlocal localhost\n"),
            ("two words", "\nlocal localhost\n"),
            ("*", "\nlocal localhost\n"),
            ("", "\nlocal localhost\n"),
        ] {
            assert!(router_config(host).contains(line), "{host}");
        }
    }
}
