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
    Diagnostic, DiagnosticSink, Keyword, Setting, ValueError, Word, Zenv, first_word, quote,
    read_settings,
};

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

/// The keywords.
pub static KEYWORDS: &[Keyword<Draft>] = &[
    Keyword::once("hostname", "the name of this host", 1, first_word!(domain => hostname)),
    Keyword::repeated("local", "one or more domains", 1, usize::MAX, |draft, setting, sink| {
        let mut words = setting.words.iter();
        words.try_for_each(|word| draft.rule(word, setting.line, RuleTarget::Local, sink))
    }),
    Keyword::repeated(
        "route",
        "a domain or address, a channel, and perhaps a host and a user",
        2,
        4,
        |draft, setting, sink| {
            let template = |index: usize, default: &str| match setting.words.get(index) {
                Some(word) => template(word),
                None => Ok(default.to_string()),
            };
            let target = RuleTarget::Agent {
                channel: channel(&setting.words[1])?,
                host: template(2, DEFAULT_HOST)?,
                user: template(3, DEFAULT_USER)?,
            };
            draft.rule(&setting.words[0], setting.line, target, sink)
        },
    ),
    Keyword::repeated(
        "refuse",
        "a domain or address, and perhaps a status code and a text",
        1,
        3,
        |draft, setting, sink| {
            let status = setting.words.get(1).map_or(Ok("5.1.1".to_string()), status)?;
            let default = "no mail is accepted for this address";
            let text = setting.words.get(2).map_or(default, |word| &word.text).into();
            draft.rule(&setting.words[0], setting.line, RuleTarget::Refuse { status, text }, sink)
        },
    ),
    Keyword::once("smarthost", "a host, and perhaps a channel", 2, |draft, setting, _| {
        let channel = setting.words.get(1).map_or(Ok(REMOTE_CHANNEL.to_string()), channel)?;
        let (host, user) = (template(&setting.words[0])?, DEFAULT_USER.to_string());
        draft.smarthost = Some((setting.line, RuleTarget::Agent { channel, host, user }));
        Ok(())
    }),
    Keyword::once("users", "system, any, or file and its path", 2, |draft, setting, _| {
        draft.config.users = user_source(setting.words)?;
        Ok(())
    }),
    Keyword::repeated("known-account", "one or more accounts", 1, usize::MAX, |draft, line, _| {
        draft.config.known_accounts.extend(line.words.iter().map(|word| word.text.clone()));
        Ok(())
    }),
    Keyword::repeated("aliases", "one or more files", 1, usize::MAX, |draft, setting, _| {
        add_paths(setting, &mut draft.config.aliases)
    }),
    Keyword::repeated("virtual", "one or more files", 1, usize::MAX, |draft, setting, _| {
        add_paths(setting, &mut draft.config.virtuals)
    }),
    Keyword::once("postmaster", "an address", 1, first_word!(text => config.postmaster)),
    Keyword::once("local-channel", "a channel", 1, first_word!(channel => config.local_channel)),
    Keyword::once(
        "program-channel",
        "a channel",
        1,
        first_word!(channel => config.program_channel),
    ),
    Keyword::once("file-channel", "a channel", 1, first_word!(channel => config.file_channel)),
    Keyword::once("detail", "one character, or none", 1, first_word!(detail => config.detail)),
    Keyword::once(
        "expiry",
        "an interval such as 12h, or 0 for never",
        1,
        first_word!(expiry => config.expiry),
    ),
];

impl RouterConfig {
    /// The configuration that applies without a file.
    ///
    /// Users are the accounts of the system, and other domains go to the channel `smtp`.
    pub fn built_in(hostname: &str) -> RouterConfig {
        Draft::new(hostname).build()
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
    /// `hostname` is the name of the host as the system knows it. Returns the warnings; on failure,
    /// all errors and warnings.
    pub fn parse(
        file_name: &Path,
        text: &[u8],
        hostname: &str,
        zenv: &Zenv,
    ) -> Result<(RouterConfig, Vec<Diagnostic>), Vec<Diagnostic>> {
        let mut draft = Draft::new(hostname);
        let warnings = read_settings(file_name, text, zenv, KEYWORDS, &mut draft, |_, _| {})?;
        Ok((draft.build(), warnings))
    }
}

/// The configuration while the file is read.
#[derive(Debug)]
pub struct Draft {
    hostname: String,
    rules: Vec<Rule>,
    smarthost: Option<(u32, RuleTarget)>,
    /// The other settings; its rules are set in the end.
    config: RouterConfig,
    /// Line of the first rule that matches everything.
    catch_all: Option<u32>,
}

impl Draft {
    fn new(hostname: &str) -> Draft {
        Draft {
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
            None => RulePattern::Wild { is_address: text.contains('@'), glob: word.pattern(sink)? },
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
    parse_domain(&word.text).map_err(|error| word.error(error.reason))
}

fn text(word: &Word) -> Result<String, ValueError> {
    Ok(word.text.clone())
}

fn add_paths(setting: &Setting<'_>, paths: &mut Vec<PathBuf>) -> Result<(), ValueError> {
    let mut words = setting.words.iter();
    words.try_for_each(|word| word.path().map(|path| paths.push(path)))
}

fn channel(word: &Word) -> Result<String, ValueError> {
    let is_good = |c: char| c.is_ascii_graphic() && !c.is_ascii_uppercase() && c != '"';
    match word.text.chars().all(is_good) && !word.text.is_empty() {
        true => Ok(word.text.clone()),
        false => {
            let message = format!("the channel {} is no word in lower case", quote(&word.text));
            Err(word.error(message))
        }
    }
}

/// Checks the variables in a host or user.
fn template(word: &Word) -> Result<String, ValueError> {
    for (at, _) in word.text.match_indices('$') {
        let after = &word.text[at + 1..];
        if !VARIABLES.iter().any(|name| after.starts_with(name)) {
            let message = "after a $ comes domain, local or address";
            return Err(word.error(message));
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
            Err(word.error(message))
        }
    }
}

fn user_source(words: &[Word]) -> Result<UserSource, ValueError> {
    match (&*words[0].text, words.get(1)) {
        ("system", None) => Ok(UserSource::System),
        ("any", None) => Ok(UserSource::Any),
        ("file", Some(file)) => Ok(UserSource::File(file.path()?)),
        ("file", None) => Err(words[0].error("after `users file` comes a path")),
        _ => Err(words[0].error("after `users` comes system, any, or file and a path")),
    }
}

fn detail(word: &Word) -> Result<Option<char>, ValueError> {
    let mut characters = word.text.chars();
    match (&*word.text, characters.next(), characters.next()) {
        ("none", ..) => Ok(None),
        (_, Some(c), None) if c.is_ascii_punctuation() && !"@\"\\.".contains(c) => Ok(Some(c)),
        _ => Err(word.error("a character such as +, or none")),
    }
}

fn expiry(word: &Word) -> Result<Option<Duration>, ValueError> {
    Ok(Some(word.interval()?).filter(|interval| !interval.is_zero()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &[u8]) -> Result<(RouterConfig, Vec<Diagnostic>), Vec<Diagnostic>> {
        RouterConfig::parse(Path::new("router.cf"), text, "h.test", &Zenv::default())
    }

    #[test]
    fn settings_are_read() {
        let zenv = Zenv::from_pairs([("DB", "/var/db")]);
        let text = "users file ${DB}/users\naliases ${DB}/a \"/b c\" # two\ndetail none\n\
            program-channel prog\nhostname Mail.Example\nexpiry 1h30m\n";
        let path = Path::new("router.cf");
        let parsed = RouterConfig::parse(path, text.as_bytes(), "h.test", &zenv);
        let (config, _) = parsed.expect("good");
        assert_eq!(config.users, UserSource::File("/var/db/users".into()));
        assert_eq!(config.aliases, [PathBuf::from("/var/db/a"), PathBuf::from("/b c")]);
        assert_eq!((config.detail, &*config.program_channel), (None, "prog"));
        assert_eq!(config.routes.hostname(), "mail.example");
        assert_eq!(config.expiry, Some(Duration::from_secs(5400)));
        let expiry = |text: &[u8]| parse(text).map(|(config, _)| config.expiry).ok();
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
