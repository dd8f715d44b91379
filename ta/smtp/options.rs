//! The command line of `smtp`: its own options, and those of ZMailer's `smtp`.

use crate::client::Client;
use crate::configuration::{Configuration, ConfigurationError};
use crate::dialer::ClientOptions;
use crate::dialogue_log::DialogueLog;
use crate::session::Capabilities;
use clap::{ArgAction, Args, Parser};
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use zsched_agent::Scope;
use zsched_config::Zenv;
use zsched_mail_exchanger::{Source, SourceAddress};

/// Variable of the ZENV file: the folder of configurations.
const MAILSHARE: &str = "MAILSHARE";
/// Name of the configuration file in that folder.
const SMTP_TA_CONF: &str = "smtp-ta.conf";
/// Variable of the ZENV file: the name of this host.
const HOSTNAME: &str = "hostname";

/// Transport agent that delivers by SMTP and LMTP
#[derive(Debug, Parser)]
#[command(name = "smtp", version, disable_version_flag = true, disable_help_flag = true)]
pub struct SmtpOptions {
    /// Deliver to the recipients of this channel
    #[arg(short, long, value_name = "CHANNEL", default_value = "smtp")]
    channel: String,

    /// Deliver to the recipients of this host, where the jobs name none
    host: Option<String>,

    /// Tables of hosts [default: smtp-ta.conf in MAILSHARE of the ZENV file, which need not exist]
    #[arg(short = 'S', long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// ZENV file [default: $ZCONFIG, else /etc/zmailer.conf, which need not exist]
    #[arg(short = 'Z', long, value_name = "FILE")]
    zenv: Option<PathBuf>,

    /// Name of this host in EHLO [default: hello-name of the configuration, hostname of the ZENV
    /// file, or that of the system]
    #[arg(short = 'h', long, value_name = "NAME")]
    hello_name: Option<String>,

    /// Send all mail to this host: an address in brackets, NAME, NAME:PORT or UNIX:PATH
    #[arg(short = 'F', long, value_name = "HOST")]
    forced_host: Option<String>,

    /// Port, where neither the host nor the configuration names one [default: 25]
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,

    /// Speak LMTP
    #[arg(short = 'M', long)]
    lmtp: bool,

    /// Time limits: NAME=TIME of conn greet cmd data tcpw dot job; a time alone is that of cmd
    #[arg(short = 'T', long = "timeout", value_name = "LIMITS")]
    timeouts: Vec<String>,

    /// Append all dialogues to this file
    #[arg(short, long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Show the host in the name of the process
    #[arg(short = 's')]
    shows_host: bool,

    /// Connect from this address, instead of those of the configuration
    #[arg(short = 'L', long, value_name = "ADDRESS")]
    local_address: Option<String>,

    /// Secrets for AUTH: lines of channel, server, user and password, the last two in base64
    #[arg(short = 'A', long, value_name = "FILE")]
    secrets: Option<PathBuf>,

    /// Send one message over a connection
    #[arg(short = '1')]
    one_message: bool,

    /// Send one command at a time
    #[arg(short = 'P')]
    no_pipelining: bool,

    /// Send EHLO only if the greeting of the host has the word ESMTP
    #[arg(short = 'E')]
    esmtp_by_greeting: bool,

    /// Do not look up MX records
    #[arg(short = 'x')]
    no_mx: bool,

    /// Send 8-bit text to hosts that do not offer 8BITMIME
    #[arg(short = '8')]
    sends_8bit: bool,

    /// Given twice: send HELO, and use no extension
    #[arg(short = '7', action = ArgAction::Count)]
    sevens: u8,

    /// Show what a delivery to this host would meet, step by step, and exit
    #[arg(long, value_name = "HOST")]
    probe: Option<String>,

    /// The same as --probe, for the host that is given
    #[arg(short = 'D')]
    probes_host: bool,

    /// Check the configuration, and exit
    #[arg(long)]
    pub check: bool,

    /// Print the version
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,

    #[command(flatten)]
    original: Original,
}

/// SmtpOptions of ZMailer's `smtp` that change nothing here.
#[derive(Args, Debug)]
#[command(next_help_heading = "SmtpOptions of ZMailer's smtp without effect")]
struct Original {
    /// Prefer IPv6, which is the default
    #[arg(short = '6')]
    prefers_ipv6: bool,
    /// Print debugging output
    #[arg(short = 'd')]
    debug: bool,
    /// Look up the MX of each recipient's host
    #[arg(short = 'e')]
    expensive_mx: bool,
    /// Keep 8-bit headers, which this agent always does
    #[arg(short = 'H')]
    keep_headers: bool,
    /// Connect from a privileged port
    #[arg(short = 'r')]
    from_privileged_port: bool,
    /// Do not use DNS for addresses
    #[arg(short = 'X')]
    no_dns: bool,
    /// Size of the buffer of a socket
    #[arg(short = 'w', value_name = "BYTES")]
    buffer_size: Option<u32>,
    /// SmtpOptions of the original that are set by name
    #[arg(short = 'O', value_name = "OPTIONS")]
    options: Option<String>,
    /// Log more; the log has all dialogues in any case
    #[arg(short = 'v', action = ArgAction::Count)]
    verbose: u8,
    /// Look up WKS records
    #[arg(short = 'W')]
    wks: bool,
}

/// The reason why the agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The options are wrong.
    #[error("{0}")]
    SmtpOptions(String),
    /// The configuration cannot be used.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
}

impl SmtpOptions {
    /// The recipients to deliver to.
    pub fn scope(&self) -> Scope {
        Scope::channel(&self.channel).with_host(self.host.clone()).one_host_per_job()
    }

    /// The host whose servers are shown instead of work on jobs.
    pub fn host_to_probe(&self) -> Option<&str> {
        let of_letter = self.host.as_deref().filter(|_| self.probes_host);
        self.probe.as_deref().or(of_letter)
    }

    /// The client, without a session.
    ///
    /// # Errors
    ///
    /// An option or a line of the configuration is wrong.
    pub fn client(&self) -> Result<Client, StartError> {
        let zenv = Zenv::find(self.zenv.as_deref())
            .map_err(|error| StartError::SmtpOptions(error.to_string()))?
            .unwrap_or_default();
        let mut configuration = self.configuration(&zenv)?;
        for words in &self.timeouts {
            let set = configuration.session.timeouts.set(words);
            set.map_err(|why| StartError::SmtpOptions(format!("-T {words}: {why}")))?;
        }
        if self.one_message {
            configuration.session.messages = 1;
        }
        let source = self.local_address.as_deref().map(source).transpose()?;
        let log = match &self.log {
            Some(path) => DialogueLog::open(path)
                .map_err(|error| StartError::SmtpOptions(format!("{}: {error}", path.display())))?,
            None => DialogueLog::default(),
        };
        let variable = zenv.get(HOSTNAME).map(str::to_string).filter(|name| !name.is_empty());
        let hello_name = self.hello_name.clone().or(configuration.session.hello_name.clone());
        let hello_name = hello_name.or(variable).unwrap_or_else(zsched_sys::host_name);
        if hello_name.is_empty() || !hello_name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(StartError::SmtpOptions(format!("{hello_name:?} is no host name")));
        }
        let no_esmtp = self.sevens > 1;
        let mut without = Vec::new();
        if self.no_pipelining {
            without.push("PIPELINING".to_string());
        }
        if self.sevens == 1 {
            without.push("8BITMIME".to_string());
        }
        if no_esmtp {
            without.extend(Capabilities::KEYWORDS.map(str::to_string));
        }
        let options = ClientOptions {
            channel: self.channel.clone(),
            no_mx: self.no_mx,
            hello_name,
            lmtp: self.lmtp,
            port: self.port,
            source,
            secrets: self.secrets.clone(),
            forced_host: self.forced_host.as_deref().map(forced_host),
            without,
            sends_8bit: self.sends_8bit,
            esmtp_by_greeting: self.esmtp_by_greeting,
            no_esmtp,
            shows_host: self.shows_host,
        };
        Ok(Client::new(options, configuration, log))
    }

    fn configuration(&self, zenv: &Zenv) -> Result<Configuration, StartError> {
        if let Some(path) = &self.config {
            return Ok(Configuration::load(path)?);
        }
        let Some(folder) = zenv.get(MAILSHARE).filter(|folder| !folder.is_empty()) else {
            return Ok(Configuration::default());
        };
        let path = PathBuf::from(folder).join(SMTP_TA_CONF);
        match Configuration::load(&path) {
            Err(ConfigurationError::Unreadable(_, error))
                if error.kind() == std::io::ErrorKind::NotFound =>
            {
                Ok(Configuration::default())
            }
            loaded => Ok(loaded?),
        }
    }
}

/// The source of `-L`: an address, also in brackets, or a name of this host.
fn source(text: &str) -> Result<Source, StartError> {
    let plain = text.trim_start_matches('[').trim_end_matches(']');
    let prefix = plain.get(..5).filter(|start| start.eq_ignore_ascii_case("ipv6."));
    let plain = plain.strip_prefix("IPv6:").unwrap_or(&plain[prefix.map_or(0, str::len)..]);
    let found = (plain, 0).to_socket_addrs().map_err(|error| {
        StartError::SmtpOptions(format!("-L {text}: {}", crate::connection::reason(&error)))
    })?;
    let mut source = Source::default();
    for address in found {
        let slot = if address.is_ipv4() { &mut source.ipv4 } else { &mut source.ipv6 };
        let address = address.ip();
        slot.get_or_insert(SourceAddress { address, weight: 1, helo: None });
    }
    Ok(source)
}

/// The host of `-F` in the form of this agent: ZMailer writes `UNIX:/path` and `[ipv6.ADDRESS]`.
fn forced_host(text: &str) -> String {
    let strip = |prefix: &str| {
        let start = text.get(..prefix.len())?;
        start.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
    };
    match (strip("unix:"), strip("[ipv6.")) {
        (Some(path), _) => format!("unix:{path}"),
        (_, Some(address)) => format!("[IPv6:{address}"),
        _ => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_definition_is_consistent() {
        SmtpOptions::command().debug_assert();
    }

    #[test]
    fn options_of_original_are_accepted() {
        for arguments in [
            &["smtp", "-srl", "/tmp/log", "-T", "conn=10s"][..],
            &["smtp", "-c", "smtpx", "-x", "-X", "-s", "-p", "2525", "-h", "zm.example.test"],
            &["smtp", "-8HdeEWP6", "-w", "2000", "-F", "UNIX:/run/lmtp", "-M", "host.example"],
            &["smtp", "-1vvD", "-L", "[192.0.2.1]", "-A", "/secrets", "-O", "x", "-Z", "x", "host"],
        ] {
            let parsed = SmtpOptions::try_parse_from(arguments);
            assert!(parsed.is_ok(), "{arguments:?}: {}", parsed.err().unwrap());
        }
    }

    #[test]
    fn sources_of_original_are_read() {
        let address = |text: &str| {
            let source = source(text).expect("an address");
            [source.ipv4, source.ipv6].map(|one| one.map(|one| one.address.to_string()))
        };
        assert_eq!(address("192.0.2.1"), [Some("192.0.2.1".to_string()), None]);
        assert_eq!(address("[192.0.2.1]"), [Some("192.0.2.1".to_string()), None]);
        for text in ["2001:db8::1", "[2001:db8::1]", "[IPv6:2001:db8::1]", "[ipv6.2001:db8::1]"] {
            assert_eq!(address(text), [None, Some("2001:db8::1".to_string())]);
        }
        assert!(source("").is_err());
    }

    #[test]
    fn forced_hosts_of_original_are_read() {
        for (text, host) in [
            ("UNIX:/run/lmtp", "unix:/run/lmtp"),
            ("[ipv6.2001:db8::1]", "[IPv6:2001:db8::1]"),
            ("[192.0.2.1]", "[192.0.2.1]"),
            ("mail.example", "mail.example"),
        ] {
            assert_eq!(forced_host(text), host);
        }
    }
}
