//! Decides by `router.cf` where an address goes. Pure: it opens no file.
//!
//! The first line that matches decides. Lines with a plain domain or address are found by their
//! text, so that thousands of them cost nothing.

use super::address::MailAddress;
use super::refusal::RecipientRefusal;
use std::collections::HashMap;
use zsched_config::{Glob, Name};
use zsched_format::control_file::compose::Address;

/// User id of `nobody`, with whose rights mail from outside is delivered.
pub(crate) const NOBODY_UID: i64 = 65534;

/// What is decided about an address, and by which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Where it goes.
    pub routed_to: RoutedTo,
    /// The line of `router.cf` that decided; `None` for the built-in last rule.
    pub line: Option<u32>,
}

/// Where an address goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoutedTo {
    /// To a user of this host, by aliases and the list of users.
    Local,
    /// To an agent.
    Agent(Address),
    /// Nowhere.
    Refused(RecipientRefusal),
}

/// The rules of `router.cf`.
#[derive(Debug)]
pub struct Routes {
    hostname: String,
    rules: Vec<Rule>,
    /// First rule with each plain pattern.
    plain: HashMap<String, usize>,
    /// Rules with wildcards, in file order.
    wild: Vec<usize>,
    /// For addresses that no rule matches.
    smarthost: Option<(u32, RuleTarget)>,
}

/// A line that sends some addresses somewhere.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The line in the file.
    pub line: u32,
    pub pattern: RulePattern,
    pub target: RuleTarget,
}

/// What a rule matches: a domain, or a whole address if it contains an `@`.
///
/// All of it is in lower case.
#[derive(Debug)]
pub(crate) enum RulePattern {
    /// This text.
    Plain(String),
    /// A pattern with wildcards.
    Wild { glob: Glob, is_address: bool },
}

/// What a rule does with an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleTarget {
    Local,
    Agent { channel: String, host: String, user: String },
    Refuse { status: String, text: String },
}

/// Value of the host column if a rule names none.
pub(crate) const DEFAULT_HOST: &str = "$domain";
/// Value of the user column if a rule names none.
pub(crate) const DEFAULT_USER: &str = "$address";
/// Channel of mail to other hosts.
pub(crate) const REMOTE_CHANNEL: &str = "smtp";

impl Routes {
    pub(crate) fn new(
        hostname: &str,
        rules: Vec<Rule>,
        smarthost: Option<(u32, RuleTarget)>,
    ) -> Routes {
        let (mut plain, mut wild) = (HashMap::new(), Vec::new());
        for (index, rule) in rules.iter().enumerate() {
            match &rule.pattern {
                RulePattern::Plain(text) => {
                    plain.entry(text.clone()).or_insert(index);
                }
                RulePattern::Wild { .. } => wild.push(index),
            }
        }
        Routes { hostname: hostname.into(), rules, plain, wild, smarthost }
    }

    /// The name of this host, the domain of addresses without one.
    pub fn hostname(&self) -> &str {
        &self.hostname
    }

    /// Decides where an address goes.
    ///
    /// Virtual addresses, aliases and users are not looked up here.
    pub fn route(&self, address: &MailAddress) -> Decision {
        let domain = address.domain().unwrap_or(&self.hostname);
        let whole = format!("{}@{domain}", address.local_part()).to_lowercase();
        if let Some(rule) = self.matching(domain, &whole) {
            return Decision {
                routed_to: rule.target.apply(address, domain),
                line: Some(rule.line),
            };
        }
        if domain == self.hostname || domain == "localhost" {
            return Decision { routed_to: RoutedTo::Local, line: None };
        }
        if let Some((line, target)) = &self.smarthost {
            return Decision { routed_to: target.apply(address, domain), line: Some(*line) };
        }
        let target = RuleTarget::agent(REMOTE_CHANNEL);
        Decision { routed_to: target.apply(address, domain), line: None }
    }

    /// The first rule that matches.
    fn matching(&self, domain: &str, address: &str) -> Option<&Rule> {
        let plain = [domain, address].into_iter().filter_map(|text| self.plain.get(text)).min();
        let (domain, address) = (Name::new(domain.as_bytes()), Name::new(address.as_bytes()));
        let is_match = |index: &&usize| match &self.rules[**index].pattern {
            RulePattern::Plain(_) => false,
            RulePattern::Wild { glob, is_address: true } => glob.matches(&address),
            RulePattern::Wild { glob, is_address: false } => glob.matches(&domain),
        };
        let before = |index: &&usize| plain.is_none_or(|plain| *index < plain);
        let wild = self.wild.iter().take_while(before).find(is_match);
        Some(&self.rules[*wild.or(plain)?])
    }
}

impl RuleTarget {
    /// A rule that names only the channel.
    pub(crate) fn agent(channel: &str) -> RuleTarget {
        RuleTarget::Agent {
            channel: channel.into(),
            host: DEFAULT_HOST.into(),
            user: DEFAULT_USER.into(),
        }
    }

    fn apply(&self, address: &MailAddress, domain: &str) -> RoutedTo {
        match self {
            RuleTarget::Local => RoutedTo::Local,
            RuleTarget::Agent { channel, host, user } => {
                let address = address.at(domain);
                let (host, user) = (expand(host, &address), expand(user, &address));
                RoutedTo::Agent(Address::new(channel, &host, &user, NOBODY_UID))
            }
            RuleTarget::Refuse { status, text } => {
                RoutedTo::Refused(RecipientRefusal::new(status, text))
            }
        }
    }
}

/// Names of the variables in hosts and users of rules.
pub(crate) const VARIABLES: [&str; 3] = ["domain", "local", "address"];

/// Replaces `$domain`, `$local` and `$address`.
fn expand(template: &str, address: &MailAddress) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        text.push_str(before);
        let Some(name) = VARIABLES.into_iter().find(|name| after.starts_with(name)) else {
            text.push('$');
            rest = after;
            continue;
        };
        match name {
            "domain" => text.push_str(address.domain().unwrap_or_default()),
            "local" => text.push_str(address.local_part()),
            _ => text.push_str(&address.to_string()),
        }
        rest = &after[name.len()..];
    }
    text + rest
}
