//! `smtp-ta.conf`: tables for hosts, in TOML.

use crate::reply_patterns::ReplyPattern;
use crate::session::{Capabilities, Credentials, Mechanism};
use crate::time_limits::TimeLimits;
use serde::{Deserialize, Deserializer};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use zsched_mail_exchanger::{DnsSettings, HostPattern, RoutingSettings, TlsSettings};

/// Maximum size of a password file, in bytes.
const MAX_PASSWORD_LEN: u64 = 64 * 1024;

/// The configuration of the agent.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Configuration {
    /// What concerns all sessions.
    pub session: SessionSettings,
    /// Rules for hosts; the first that matches decides.
    pub host: Vec<HostRule>,
    /// What replies mean.
    pub reply_patterns: Vec<ReplyPattern>,
    /// Section `[dns]`.
    pub dns: DnsSettings,
    /// Section `[routing]`.
    pub routing: RoutingSettings,
    /// Section `[tls]`.
    pub tls: TlsSettings,
}

/// Section `[session]`.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SessionSettings {
    /// The name in EHLO; the host name by default.
    pub hello_name: Option<String>,
    /// Maximum number of recipients of a transaction.
    pub recipients: usize,
    /// Maximum number of transactions of a connection.
    pub messages: usize,
    /// How long a connection stays open for the next job.
    #[serde(deserialize_with = "interval")]
    pub idle_time: Duration,
    /// File to which the result of each TLS session is appended, as JSON (RFC 8460, 4.4).
    pub tls_results: Option<PathBuf>,
    /// Time limits, in the words of option `-T`.
    #[serde(deserialize_with = "time_limits")]
    pub timeouts: TimeLimits,
}

impl Default for SessionSettings {
    fn default() -> SessionSettings {
        SessionSettings {
            hello_name: None,
            recipients: 100,
            messages: 1000,
            idle_time: Duration::from_secs(5),
            tls_results: None,
            timeouts: TimeLimits::default(),
        }
    }
}

/// A rule of `[[host]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HostRule {
    /// The destinations.
    pub destination: HostPattern,
    /// The port, where the destination names none.
    pub port: Option<u16>,
    /// LMTP instead of SMTP.
    pub lmtp: bool,
    /// Extensions that are not used, by their keywords in EHLO.
    #[serde(deserialize_with = "keywords")]
    pub without: Vec<String>,
    /// Sends 8-bit text although the host does not offer 8BITMIME.
    pub send_8bit: bool,
    /// Maximum number of recipients of a transaction.
    pub recipients: Option<usize>,
    /// The user name for AUTH.
    pub user: Option<String>,
    /// File whose first line is the password, or the access token of XOAUTH2.
    pub password_file: Option<PathBuf>,
    /// The mechanisms that may be used; all but XOAUTH2 by default.
    #[serde(deserialize_with = "mechanisms")]
    pub mechanisms: Vec<Mechanism>,
    /// Mechanisms that reveal the password are used without TLS, too.
    pub auth_without_tls: bool,
}

impl HostRule {
    /// The credentials of the rule. `None` if it has no user.
    ///
    /// The password is read each time, since a token changes.
    ///
    /// # Errors
    ///
    /// The file cannot be read, in words.
    pub fn credentials(&self) -> Result<Option<Credentials>, String> {
        let Some(user) = &self.user else { return Ok(None) };
        let Some(path) = &self.password_file else {
            return Err(format!("{user} has no password-file"));
        };
        let words = |error: io::Error| format!("{}: {error}", path.display());
        let file = std::fs::File::open(path).map_err(words)?;
        let mut text = String::new();
        file.take(MAX_PASSWORD_LEN).read_to_string(&mut text).map_err(words)?;
        Ok(Some(Credentials {
            user: user.clone(),
            password: text.lines().next().unwrap_or_default().to_string(),
            mechanisms: self.mechanisms.clone(),
            without_tls: self.auth_without_tls,
        }))
    }
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// It cannot be read.
    #[error("{}: {}", .0.display(), crate::connection::reason(.1))]
    Unreadable(PathBuf, io::Error),
    /// A line is wrong.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The column, counted from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
}

impl Configuration {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a line is wrong.
    pub fn load(path: &Path) -> Result<Configuration, ConfigurationError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigurationError::Unreadable(path.into(), error))?;
        Configuration::parse(path, &text)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    ///
    /// A line is wrong.
    pub fn parse(path: &Path, text: &str) -> Result<Configuration, ConfigurationError> {
        toml::from_str(text).map_err(|error: toml::de::Error| {
            let before = &text[..error.span().map_or(0, |span| span.start).min(text.len())];
            ConfigurationError::Malformed {
                path: path.into(),
                line: before.matches('\n').count() + 1,
                column: before.chars().rev().take_while(|c| *c != '\n').count() + 1,
                message: error.message().to_string(),
            }
        })
    }

    /// The rule for a destination, in lower case.
    pub fn rule(&self, host: &str) -> Option<&HostRule> {
        self.host.iter().find(|rule| rule.destination.matches(host))
    }
}

/// Reads an interval: `"30s"`, `"1h30m"`.
pub(crate) fn interval<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    zsched_config::parse_interval(&text).map_err(|error| serde::de::Error::custom(error.message))
}

fn time_limits<'de, D: Deserializer<'de>>(from: D) -> Result<TimeLimits, D::Error> {
    let mut limits = TimeLimits::default();
    limits.set(&String::deserialize(from)?).map_err(serde::de::Error::custom)?;
    Ok(limits)
}

fn keywords<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let words = Vec::<String>::deserialize(from)?;
    let is_unknown = |word: &&String| {
        !Capabilities::KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
    };
    match words.iter().find(is_unknown) {
        Some(word) => Err(serde::de::Error::custom(format!("{word} is no extension of SMTP"))),
        None => Ok(words),
    }
}

fn mechanisms<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Mechanism>, D::Error> {
    let words = Vec::<String>::deserialize(from)?;
    words.iter().map(|word| Mechanism::from_str(word).map_err(serde::de::Error::custom)).collect()
}
