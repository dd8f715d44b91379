//! A place to try everything in: a spool, mailboxes and a configuration, made where there are none.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use zsched_config as config;
use zsched_spool::{Spool, folder};

/// The MAILQ port of a new place; one that needs no privilege.
const MAILQ_PORT: u16 = 10174;

/// Where a place's own files are.
pub struct Places {
    /// Its ZENV file.
    pub zenv: PathBuf,
    /// Its configuration.
    pub config: PathBuf,
}

/// Makes what is missing under `folder`. What is there stays as it is.
pub fn prepare(folder: &Path) -> io::Result<Places> {
    folder::make_all(folder)?;
    let folder = folder.canonicalize()?;
    let (postoffice, mailboxes) = (folder.join("postoffice"), folder.join("mailboxes"));
    Spool::new(&postoffice).create()?;
    folder::make_all(&mailboxes)?;
    let places = Places { zenv: folder.join("zmailer.conf"), config: folder.join("scheduler.cf") };
    let shown = folder.display();
    let zenv = format!(
        "# Where the programs find everything. Written once; yours to change.\n\
         POSTOFFICE={}\nMAILBOXES={}\nLOGDIR={shown}\nMAILQPORT={MAILQ_PORT}\nPATH=/usr/bin:/bin\n\
         RENDEZVOUS={shown}/mailq.text\nSTATUSLOG={shown}/status\nZCONFIG={}\n",
        postoffice.display(),
        mailboxes.display(),
        places.zenv.display(),
    );
    write_unless_there(&places.zenv, &zenv)?;
    write_unless_there(&places.config, config::EXAMPLE)?;
    Ok(places)
}

fn write_unless_there(path: &Path, text: &str) -> io::Result<()> {
    match fs::File::create_new(path) {
        Ok(mut file) => io::Write::write_all(&mut file, text.as_bytes()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
