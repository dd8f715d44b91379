//! The two settings that the program needs, from the ZENV file.
//!
//! The file is read with the rights of the caller. See `src/config/variables.rs` for its form.

use crate::error::EnqueueError;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Path of the ZENV file.
const DEFAULT_ZENV: &str = "/etc/zmailer.conf";
/// The spool, if the ZENV file names none.
const DEFAULT_POSTOFFICE: &str = "/var/spool/postoffice";
/// Maximum size of a message if the ZENV file has none, in bytes.
const DEFAULT_MAX_SIZE: u64 = 50 << 20;
/// Maximum size of the ZENV file, in bytes.
const MAX_ZENV_SIZE: u64 = 1 << 20;

pub struct Settings {
    pub postoffice: PathBuf,
    /// Maximum size of a message, in bytes.
    pub max_size: Option<u64>,
}

impl Settings {
    /// Reads the named file, or that of the installation, which need not exist.
    ///
    /// With `rights_are_lent` the environment names no file.
    pub fn read(named: Option<&Path>, rights_are_lent: bool) -> Result<Settings, EnqueueError> {
        let of_environment = || std::env::var_os("ZCONFIG").filter(|path| !path.is_empty());
        let chosen = named.map(Path::to_path_buf);
        let chosen = match rights_are_lent {
            true => chosen,
            false => chosen.or_else(|| of_environment().map(PathBuf::from)),
        };
        let path = chosen.as_deref().unwrap_or(Path::new(DEFAULT_ZENV));
        let wrong = |why: String| EnqueueError::Config(path.to_path_buf(), why);
        let mut text = Vec::new();
        let read = std::fs::File::open(path)
            .and_then(|file| file.take(MAX_ZENV_SIZE).read_to_end(&mut text));
        match read {
            Err(error) if error.kind() == ErrorKind::NotFound && chosen.is_none() => {}
            other => drop(other.map_err(|error| wrong(error.to_string()))?),
        }
        Settings::parse(&String::from_utf8_lossy(&text)).map_err(wrong)
    }

    fn parse(text: &str) -> Result<Settings, String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let pairs: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once('=')).collect();
        // The first definition counts.
        let value = |wanted: &str| {
            let pair = pairs.iter().find(|(name, _)| name.trim_end() == wanted);
            pair.map(|(_, value)| value.trim())
        };
        let postoffice = PathBuf::from(value("POSTOFFICE").unwrap_or(DEFAULT_POSTOFFICE));
        if !postoffice.is_absolute() {
            return Err("POSTOFFICE is not an absolute path".to_string());
        }
        let max_size = match value("MAXMESSAGESIZE") {
            None => Some(DEFAULT_MAX_SIZE),
            Some(text) => match text.parse() {
                Ok(0) => None,
                Ok(size) => Some(size),
                Err(_) => return Err("MAXMESSAGESIZE is not a number of bytes".to_string()),
            },
        };
        Ok(Settings { postoffice, max_size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_definition_counts() {
        let text = "#POSTOFFICE=/no\nPOSTOFFICE = /spool \nPOSTOFFICE=/other\nMAXMESSAGESIZE=7\n";
        let settings = Settings::parse(text).expect("right");
        assert_eq!((settings.postoffice, settings.max_size), (PathBuf::from("/spool"), Some(7)));
        let settings = Settings::parse("").expect("right");
        assert_eq!(settings.postoffice, PathBuf::from(DEFAULT_POSTOFFICE));
        assert_eq!(settings.max_size, Some(DEFAULT_MAX_SIZE));
        assert_eq!(Settings::parse("MAXMESSAGESIZE=0").ok().and_then(|one| one.max_size), None);
        assert!(Settings::parse("MAXMESSAGESIZE=1M").is_err());
        assert!(Settings::parse("POSTOFFICE=spool").is_err());
    }
}
