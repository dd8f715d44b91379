//! The file `router.cf`: one setting a line, a keyword and its words.
//!
//! ```text
//! hostname mail.example.org                  # the name of this host
//! local    example.org *.example.org         # domains whose users are here
//! route    *.uucp.example uucp gateway $local
//! refuse   *.invalid 5.1.2 "no such domain"
//! smarthost relay.example.net
//! ```
//!
//! All errors are collected with their positions. A file with an error yields no configuration.

use super::address::parse_domain;
use super::routes::{
    DEFAULT_HOST, DEFAULT_USER, REMOTE_CHANNEL, Routes, Rule, RulePattern, RuleTarget, VARIABLES,
};
use std::path::{Path, PathBuf};
use std::time::Duration;
use zsched_config::{
    Diagnostic, DiagnosticSink, Glob, Keyword, Setting, ValueError, Word, Zenv, parse_interval,
    quote, read_settings,
};

/// Maximum size of the file, in bytes.
const MAX_FILE_SIZE: usize = 16 << 20;
/// Default of `expiry`. Postfix waits five days (`maximal_queue_lifetime`), but there the other
/// recipients of the message do not wait.
const DEFAULT_EXPIRY: Duration = Duration::from_secs(24 * 60 * 60);

/// The settings of the router.
#[derive(Debug)]
pub struct RouterConfig {
    /// The rules.
    pub routes: Routes,
    /// Files of aliases.
    pub aliases: Vec<PathBuf>,
    /// Files of virtual addresses.
    pub virtuals: Vec<PathBuf>,
    /// Who the users of local domains are.
    pub users: UserSource,
    /// Accounts that exist: while one is not found, no account of the system counts as unknown.
    pub known_accounts: Vec<String>,
    /// Where mail to `postmaster` goes if there is neither such an alias nor such a user.
    pub postmaster: String,
    /// The channel of users of this host.
    pub local_channel: String,
    /// The channel of programs in aliases.
    pub program_channel: String,
    /// The channel of files in aliases.
    pub file_channel: String,
    /// Separates a user from a detail in a local part.
    pub detail: Option<char>,
    /// Time for which a message waits for failed lookups.
    ///
    /// It begins at the arrival; after it, lists and users that cannot be looked up are refused.
    /// `None` is no limit.
    pub expiry: Option<Duration>,
}

/// Where the users of local domains are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserSource {
    /// The accounts of the system.
    System,
    /// Any name is a user: the agent decides.
    Any,
    /// A file with a name on each line.
    File(PathBuf),
}

/// A configuration and the warnings about it.
#[derive(Debug)]
pub struct LoadedRouterConfig {
    /// The configuration.
    pub config: RouterConfig,
    /// The warnings, in the order of the file.
    pub warnings: Vec<Diagnostic>,
}

/// The keywords.
pub const KEYWORDS: [Keyword; 15] = [
    Keyword::once("hostname", "the name of this host", 1),
    Keyword::repeated("local", "one or more domains", 1, usize::MAX),
    Keyword::repeated(
        "route",
        "a domain or address, a channel, and perhaps a host and a user",
        2,
        4,
    ),
    Keyword::repeated("refuse", "a domain or address, and perhaps a status code and a text", 1, 3),
    Keyword::once("smarthost", "a host, and perhaps a channel", 2),
    Keyword::once("users", "system, any, or file and its path", 2),
    Keyword::repeated("known-account", "one or more accounts", 1, usize::MAX),
    Keyword::repeated("aliases", "one or more files", 1, usize::MAX),
    Keyword::repeated("virtual", "one or more files", 1, usize::MAX),
    Keyword::once("postmaster", "an address", 1),
    Keyword::once("local-channel", "a channel", 1),
    Keyword::once("program-channel", "a channel", 1),
    Keyword::once("file-channel", "a channel", 1),
    Keyword::once("detail", "one character, or none", 1),
    Keyword::once("expiry", "an interval such as 12h, or 0 for never", 1),
];

impl RouterConfig {
    /// The configuration that applies without a file.
    ///
    /// Users are the accounts of the system, and other domains go to the channel `smtp`.
    pub fn built_in(hostname: &str) -> RouterConfig {
        Builder::new(hostname).build()
    }

    /// Returns true for the channels of local agents.
    ///
    /// They may take a user for a program or a file.
    pub(crate) fn delivers_here(&self, channel: &str) -> bool {
        [&self.local_channel, &self.program_channel, &self.file_channel]
            .iter()
            .any(|c| *c == channel)
    }

    /// Parses the text of a configuration file.
    ///
    /// `file_name` is used in messages only. `${NAME}` stands for a variable of the ZENV file, and
    /// `hostname` is the name of the host as the system knows it. On failure, returns all errors
    /// and warnings.
    pub fn parse(
        file_name: &Path,
        text: &[u8],
        hostname: &str,
        zenv: &Zenv,
    ) -> Result<LoadedRouterConfig, Vec<Diagnostic>> {
        if text.len() > MAX_FILE_SIZE {
            return Err(vec![Diagnostic::of_file(file_name, "the file is larger than 16 MiB")]);
        }
        let mut sink = DiagnosticSink::new(file_name.into(), text);
        let mut builder = Builder::new(hostname);
        read_settings(text, zenv, &KEYWORDS, &mut sink, |setting, sink| {
            builder.apply(setting, sink)
        });
        let is_usable = sink.is_usable();
        let diagnostics = sink.finish();
        match is_usable {
            true => Ok(LoadedRouterConfig { config: builder.build(), warnings: diagnostics }),
            false => Err(diagnostics),
        }
    }
}

/// The configuration while the file is read.
struct Builder {
    hostname: String,
    rules: Vec<Rule>,
    smarthost: Option<(u32, RuleTarget)>,
    /// The other settings; its rules are set in the end.
    config: RouterConfig,
    /// Line of the first rule that matches everything.
    catch_all: Option<u32>,
}

impl Builder {
    fn new(hostname: &str) -> Builder {
        Builder {
            hostname: hostname.to_lowercase(),
            rules: Vec::new(),
            smarthost: None,
            config: RouterConfig {
                routes: Routes::new("", Vec::new(), None),
                aliases: Vec::new(),
                virtuals: Vec::new(),
                users: UserSource::System,
                known_accounts: Vec::new(),
                postmaster: "root".into(),
                local_channel: "local".into(),
                program_channel: "local".into(),
                file_channel: "local".into(),
                detail: Some('+'),
                expiry: Some(DEFAULT_EXPIRY),
            },
            catch_all: None,
        }
    }

    fn build(self) -> RouterConfig {
        let routes = Routes::new(&self.hostname, self.rules, self.smarthost);
        RouterConfig { routes, ..self.config }
    }

    fn apply(
        &mut self,
        setting: Setting<'_>,
        sink: &mut DiagnosticSink<'_>,
    ) -> Result<(), ValueError> {
        let Setting { keyword, words, line } = setting;
        let first = &words[0];
        let paths = || words.iter().map(Word::path).collect::<Result<Vec<PathBuf>, ValueError>>();
        match keyword {
            "hostname" => self.hostname = domain(first)?,
            "local" => {
                for word in words {
                    self.rule(word, line, RuleTarget::Local, sink)?;
                }
            }
            "route" => {
                let template = |index: usize, default: &str| match words.get(index) {
                    Some(word) => template(word),
                    None => Ok(default.to_string()),
                };
                let target = RuleTarget::Agent {
                    channel: channel(&words[1])?,
                    host: template(2, DEFAULT_HOST)?,
                    user: template(3, DEFAULT_USER)?,
                };
                self.rule(first, line, target, sink)?;
            }
            "refuse" => {
                let status = words.get(1).map_or(Ok("5.1.1".to_string()), status)?;
                let text = words.get(2).map_or("no mail is accepted for this address", |w| &w.text);
                let target = RuleTarget::Refuse { status, text: text.into() };
                self.rule(first, line, target, sink)?;
            }
            "smarthost" => {
                let channel = words.get(1).map_or(Ok(REMOTE_CHANNEL.to_string()), channel)?;
                let (host, user) = (template(first)?, DEFAULT_USER.to_string());
                self.smarthost = Some((line, RuleTarget::Agent { channel, host, user }));
            }
            "users" => self.config.users = user_source(words)?,
            "known-account" => {
                self.config.known_accounts.extend(words.iter().map(|word| word.text.clone()));
            }
            "aliases" => self.config.aliases.extend(paths()?),
            "virtual" => self.config.virtuals.extend(paths()?),
            "postmaster" => self.config.postmaster = first.text.clone(),
            "local-channel" => self.config.local_channel = channel(first)?,
            "program-channel" => self.config.program_channel = channel(first)?,
            "file-channel" => self.config.file_channel = channel(first)?,
            "expiry" => self.config.expiry = expiry(first)?,
            _ => self.config.detail = detail(first)?,
        }
        Ok(())
    }

    /// Adds a rule.
    fn rule(
        &mut self,
        word: &Word,
        line: u32,
        target: RuleTarget,
        sink: &mut DiagnosticSink<'_>,
    ) -> Result<(), ValueError> {
        // Patterns are compared in lower case.
        let text = word.text.to_lowercase();
        // The brackets of an address literal are no set of characters.
        let literal = text.starts_with('[').then(|| parse_domain(&text).ok()).flatten();
        let pattern = match literal {
            Some(literal) => RulePattern::Plain(literal),
            None if !text.contains(['*', '?', '[', '{', '\\']) => RulePattern::Plain(text),
            None => {
                let mut warnings = Vec::new();
                let glob = Glob::parse(&text, word.at, &mut warnings)?;
                warnings.into_iter().for_each(|one| sink.warning(one.at, one.message));
                RulePattern::Wild { is_address: text.contains('@'), glob }
            }
        };
        if let Some(first) = self.catch_all {
            sink.warning(word.at, format!("never used: line {first} matches everything"));
        } else if matches!(&pattern, RulePattern::Wild { glob, .. } if glob.matches_everything()) {
            self.catch_all = Some(line);
        }
        self.rules.push(Rule { line, pattern, target });
        Ok(())
    }
}

fn domain(word: &Word) -> Result<String, ValueError> {
    parse_domain(&word.text).map_err(|error| ValueError::new(word.at, error.reason))
}

fn channel(word: &Word) -> Result<String, ValueError> {
    let is_good = |c: char| c.is_ascii_graphic() && !c.is_ascii_uppercase() && c != '"';
    match word.text.chars().all(is_good) && !word.text.is_empty() {
        true => Ok(word.text.clone()),
        false => {
            let message = format!("the channel {} is no word in lower case", quote(&word.text));
            Err(ValueError::new(word.at, message))
        }
    }
}

/// Checks the variables in a host or user.
fn template(word: &Word) -> Result<String, ValueError> {
    for (at, _) in word.text.match_indices('$') {
        let after = &word.text[at + 1..];
        if !VARIABLES.iter().any(|name| after.starts_with(name)) {
            let message = "after a $ comes domain, local or address";
            return Err(ValueError::new(word.at, message));
        }
    }
    // A lone dash is how an empty column is written.
    Ok(if word.text == "-" { String::new() } else { word.text.clone() })
}

fn status(word: &Word) -> Result<String, ValueError> {
    let parts: Vec<&str> = word.text.split('.').collect();
    let is_number = |part: &&str| {
        (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    match parts[..] {
        ["5", ..] if parts.len() == 3 && parts.iter().all(is_number) => Ok(word.text.clone()),
        _ => {
            let message = format!("{} is no status code such as 5.1.1", quote(&word.text));
            Err(ValueError::new(word.at, message))
        }
    }
}

fn user_source(words: &[Word]) -> Result<UserSource, ValueError> {
    match (&*words[0].text, words.get(1)) {
        ("system", None) => Ok(UserSource::System),
        ("any", None) => Ok(UserSource::Any),
        ("file", Some(file)) => Ok(UserSource::File(file.path()?)),
        ("file", None) => Err(ValueError::new(words[0].at, "after `users file` comes a path")),
        _ => {
            Err(ValueError::new(words[0].at, "after `users` comes system, any, or file and a path"))
        }
    }
}

fn detail(word: &Word) -> Result<Option<char>, ValueError> {
    let mut characters = word.text.chars();
    match (&*word.text, characters.next(), characters.next()) {
        ("none", ..) => Ok(None),
        (_, Some(c), None) if c.is_ascii_punctuation() && !"@\"\\.".contains(c) => Ok(Some(c)),
        _ => Err(ValueError::new(word.at, "a character such as +, or none")),
    }
}

fn expiry(word: &Word) -> Result<Option<Duration>, ValueError> {
    let interval = parse_interval(&word.text);
    let interval = interval.map_err(|error| ValueError::new(word.at, error.message))?;
    Ok(Some(interval).filter(|interval| !interval.is_zero()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &[u8]) -> Result<LoadedRouterConfig, Vec<Diagnostic>> {
        RouterConfig::parse(Path::new("router.cf"), text, "h.test", &Zenv::default())
    }

    #[test]
    fn settings_are_read() {
        let zenv = Zenv::from_pairs([("DB", "/var/db")]);
        let text = "users file ${DB}/users\naliases ${DB}/a \"/b c\" # two\ndetail none\n\
            program-channel prog\nhostname Mail.Example\nexpiry 1h30m\n";
        let path = Path::new("router.cf");
        let loaded = RouterConfig::parse(path, text.as_bytes(), "h.test", &zenv).expect("good");
        let config = loaded.config;
        assert_eq!(config.users, UserSource::File("/var/db/users".into()));
        assert_eq!(config.aliases, [PathBuf::from("/var/db/a"), PathBuf::from("/b c")]);
        assert_eq!((config.detail, &*config.program_channel), (None, "prog"));
        assert_eq!(config.routes.hostname(), "mail.example");
        assert_eq!(config.expiry, Some(Duration::from_secs(5400)));
        let expiry = |text: &[u8]| parse(text).map(|loaded| loaded.config.expiry).ok();
        assert_eq!(expiry(b""), Some(Some(DEFAULT_EXPIRY)));
        assert_eq!((expiry(b"expiry 0"), expiry(b"expiry soon")), (Some(None), None));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(text: Vec<u8>) {
            drop(parse(&text));
        }

        #[test]
        fn arbitrary_words_do_not_panic(
            lines in prop::collection::vec(
                "(hostname|local|route|refuse|smarthost|users|detail|virtual)( [a*\\[\\]{},\\\\$\"#@.\u{e9}]{0,6}){0,4}",
                0..5,
            )
        ) {
            drop(parse(lines.join("\n").as_bytes()));
        }
    }
}
