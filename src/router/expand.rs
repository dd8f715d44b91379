//! Turns the recipients of a message into recipients of agents.
//!
//! Each address is looked up among the virtual addresses, then goes by the rules; at local domains
//! it is looked up among aliases and users. What an alias stands for is looked up again.

use super::address::MailAddress;
use super::alias_table::{AliasEntry, AliasTable, AliasTarget, parse_include};
use super::directory::{Directory, ReadFile, read_file};
use super::dsn::{self, Wishes};
use super::recipients::{RecipientSet, RoutedEnd, RoutedRecipient, TooManyRecipients};
use super::refusal::RecipientRefusal;
use super::routes::{Decision, NOBODY_UID, RoutedTo};
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use zsched_format::control_file::compose::Address;
use zsched_format::control_file::notify::Notify;

/// Maximum number of recipients of a message after all aliases.
///
/// One recipient takes about 400 bytes while its message is routed.
pub const MAX_RECIPIENTS: usize = 250_000;
/// Maximum number of steps to the recipients of a message.
const MAX_STEPS: usize = 4 * MAX_RECIPIENTS;
/// Maximum number of aliases that lead to one another.
const MAX_ALIAS_DEPTH: usize = 50;
/// Names that each local domain has.
const POSTMASTER: &str = "postmaster";
const MAILER_DAEMON: &str = "mailer-daemon";

/// Why a message cannot be routed now, or ever.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// Something cannot be looked up now.
    #[error("{0}")]
    Deferred(String),
    /// It has more recipients than [`MAX_RECIPIENTS`], or too many bytes of DSN parameters.
    #[error("more than {MAX_RECIPIENTS} recipients, or 128 MiB of their DSN parameters")]
    TooManyRecipients,
}

impl From<TooManyRecipients> for ExpandError {
    fn from(_: TooManyRecipients) -> ExpandError {
        ExpandError::TooManyRecipients
    }
}

/// A step of the way of an address, for people.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of aliases before it.
    pub depth: usize,
    /// The address, what decides about it, and where that is written.
    pub text: String,
}

/// The recipients of one message.
pub struct Expansion<'d> {
    directory: &'d Directory,
    /// True if the message has the null sender, which lists keep.
    is_report: bool,
    /// True if the message is too old to wait for what cannot be looked up now: such addresses are
    /// refused.
    pub is_expired: bool,
    /// What could not be looked up first, if addresses are refused for that.
    pub lookup_failure: Option<String>,
    /// The recipients, without duplicates.
    pub recipients: RecipientSet,
    /// Owners of lists, which are the senders to their members.
    pub owners: Vec<String>,
    /// The steps, if they were asked for.
    pub steps: Option<Vec<Step>>,
    expanded: HashMap<ExpandedAlias, ExpandedMembers>,
    /// How often a recipient came up, duplicates included.
    found: usize,
    /// Why the alias whose members are being added is refused itself.
    alias_refusal: Option<RecipientRefusal>,
    work: usize,
}

/// An alias that was expanded, and for which sender.
#[derive(PartialEq, Eq, Hash)]
struct ExpandedAlias {
    is_virtual: bool,
    file: usize,
    line: u32,
    sender: usize,
    /// Local part of the address, if it is also that of a member.
    local_part: Option<String>,
}

/// What the expansions of an alias found.
#[derive(Clone)]
struct ExpandedMembers {
    /// What was asked for about the members.
    wishes: Wishes,
    /// Why the alias itself is refused.
    refusal: Option<RecipientRefusal>,
}

/// Returns true if a user's name looks like a program or file.
///
/// An agent would take it for one.
fn is_program_or_file(mailbox: &str) -> bool {
    mailbox.starts_with(['/', '|', ':'])
}

/// How an address came up.
struct Origin<'o> {
    parent: Option<&'o Origin<'o>>,
    /// The alias that names the address.
    alias: &'o str,
    depth: usize,
    sender: usize,
    notify: Rc<str>,
}

impl Origin<'static> {
    /// The origin of a recipient of the envelope.
    fn envelope(notify: &str) -> Origin<'static> {
        Origin { parent: None, alias: "", depth: 0, sender: 0, notify: Rc::from(notify) }
    }
}

impl Origin<'_> {
    fn aliases(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(self), |origin| origin.parent).map(|origin| origin.alias)
    }
}

impl<'d> Expansion<'d> {
    /// Begins with no recipients.
    pub fn new(directory: &'d Directory, is_report: bool) -> Expansion<'d> {
        Expansion {
            directory,
            is_report,
            is_expired: false,
            lookup_failure: None,
            recipients: RecipientSet::default(),
            owners: Vec::new(),
            steps: None,
            expanded: HashMap::new(),
            found: 0,
            alias_refusal: None,
            work: 0,
        }
    }

    /// Adds a recipient of the envelope; `notify` are its DSN parameters.
    pub fn add(&mut self, address: &str, notify: &str) -> Result<(), ExpandError> {
        self.written_address(address, &Origin::envelope(notify))
    }

    /// Adds a recipient that is refused whatever its address is.
    pub fn refuse(
        &mut self,
        address: &str,
        notify: &str,
        why: &RecipientRefusal,
    ) -> Result<(), ExpandError> {
        self.push_refused(address, why.clone(), &Origin::envelope(notify))
    }

    fn written_address(&mut self, text: &str, origin: &Origin<'_>) -> Result<(), ExpandError> {
        match MailAddress::parse(text) {
            Ok(address) => self.address(address, origin),
            Err(error) => {
                let refusal = RecipientRefusal::from(error);
                self.step(origin, || format!("{text}: refused: {refusal}"));
                self.push_refused(text, refusal, origin)
            }
        }
    }

    /// Bounds the work, also where aliases lead to the same recipients again and again.
    fn count_step(&mut self) -> Result<(), ExpandError> {
        self.work += 1;
        match self.work > MAX_STEPS {
            true => Err(ExpandError::TooManyRecipients),
            false => Ok(()),
        }
    }

    /// Looks an address up among virtual addresses, then routes it.
    fn address(&mut self, address: MailAddress, origin: &Origin<'_>) -> Result<(), ExpandError> {
        self.count_step()?;
        let directory = self.directory;
        let address = address.qualified(directory.config.routes.hostname());
        let domain = address.domain().unwrap_or_default().to_string();
        let is_virtual = directory.virtuals.has_domain(&domain);
        if is_virtual && let Some((key, entry)) = self.virtual_entry(&address, &domain) {
            let is_itself = origin.alias == key && origin.depth > 0;
            if !is_itself {
                return self.alias(&directory.virtuals, &key, entry, &address, origin);
            }
        }
        let Decision { routed_to, line } = directory.config.routes.route(&address);
        let place = || match line {
            Some(line) => format!("router.cf:{line}"),
            None => "built in".to_string(),
        };
        match routed_to {
            RoutedTo::Local => self.local(&address, &place(), origin),
            _ if is_virtual => {
                self.refused(&address, RecipientRefusal::unknown_user(), "virtual", origin)
            }
            RoutedTo::Refused(refusal) => self.refused(&address, refusal, &place(), origin),
            RoutedTo::Agent(to)
                if is_program_or_file(&address.mailbox())
                    && directory.config.delivers_here(&to.channel) =>
            {
                self.refused(&address, RecipientRefusal::program_or_file(), &place(), origin)
            }
            RoutedTo::Agent(to) => {
                self.step(origin, || {
                    let Address { channel, host, user, .. } = &to;
                    let host = if host.is_empty() { "-" } else { host };
                    format!("{address}: {channel} {host} {user} ({})", place())
                });
                self.push(to, origin, None)
            }
        }
    }

    /// The entry of the virtual table that an address goes by, and its key.
    fn virtual_entry(
        &self,
        address: &MailAddress,
        domain: &str,
    ) -> Option<(String, &'d AliasEntry)> {
        let local = address.local_part().to_lowercase();
        let base = self.without_detail(&local).map(|base| format!("{base}@{domain}"));
        [Some(format!("{local}@{domain}")), base, Some(format!("@{domain}"))]
            .into_iter()
            .flatten()
            .find_map(|key| Some((key.clone(), self.directory.virtuals.get(&key)?)))
    }

    fn without_detail<'n>(&self, name: &'n str) -> Option<&'n str> {
        let (base, _) = name.split_once(self.directory.config.detail?)?;
        Some(base).filter(|base| !base.is_empty())
    }

    /// Looks up a user of this host.
    fn local(
        &mut self,
        address: &MailAddress,
        place: &str,
        origin: &Origin<'_>,
    ) -> Result<(), ExpandError> {
        let directory = self.directory;
        let mailbox = address.mailbox();
        let name = mailbox.to_lowercase();
        let base = self.without_detail(&name).map(str::to_string);
        for key in [Some(&name), base.as_ref()].into_iter().flatten() {
            let is_itself = origin.alias == key && origin.depth > 0;
            if let Some(entry) = directory.aliases.get(key)
                && !is_itself
            {
                return self.alias(&directory.aliases, key, entry, address, origin);
            }
        }
        if is_program_or_file(&mailbox) {
            return self.refused(address, RecipientRefusal::program_or_file(), place, origin);
        }
        if address.local_part().contains('%') {
            let refusal = RecipientRefusal::new("5.7.1", "routes with % are not followed");
            return self.refused(address, refusal, place, origin);
        }
        match self.user(&mailbox) {
            Ok(Some(user)) => return self.deliver(address, &user, place, origin),
            Ok(None) => {}
            Err(why) => {
                self.fail_lookup(why)?;
                let refusal = RecipientRefusal::failed_lookup(
                    "it cannot be looked up if there is such a user",
                );
                return self.refused(address, refusal, place, origin);
            }
        }
        match &*name {
            // Mail to it must always arrive (RFC 5321, 4.5.1).
            POSTMASTER if origin.aliases().any(|alias| alias == POSTMASTER) => {
                self.deliver(address, &name, place, origin)
            }
            POSTMASTER => {
                self.step(origin, || format!("{address}: postmaster"));
                let origin = Origin {
                    parent: Some(origin),
                    alias: POSTMASTER,
                    depth: origin.depth + 1,
                    sender: origin.sender,
                    notify: dsn::forwarded(&origin.notify, address),
                };
                self.written_address(&directory.config.postmaster, &origin)
            }
            MAILER_DAEMON => self.written_address(POSTMASTER, origin),
            _ if origin.alias == POSTMASTER => self.deliver(address, &name, place, origin),
            _ => self.refused(address, RecipientRefusal::unknown_user(), place, origin),
        }
    }

    /// Ends the message for now, unless it is too old to wait.
    fn fail_lookup(&mut self, why: String) -> Result<(), ExpandError> {
        match self.is_expired {
            true => {
                self.lookup_failure.get_or_insert(why);
                Ok(())
            }
            false => Err(ExpandError::Deferred(why)),
        }
    }

    /// The name of a user as the system has it, with the detail of the address.
    ///
    /// An error says why that cannot be looked up now.
    fn user(&self, mailbox: &str) -> Result<Option<String>, String> {
        let lower = mailbox.to_lowercase();
        let other = Some(&*lower).filter(|lower| *lower != mailbox);
        for name in [Some(mailbox), other].into_iter().flatten() {
            for user in [Some(name), self.without_detail(name)].into_iter().flatten() {
                let failed = |error| format!("the user {user} cannot be looked up: {error}");
                if self.directory.has_user(user).map_err(failed)? {
                    return Ok(Some(name.to_string()));
                }
            }
        }
        Ok(None)
    }

    /// Delivers to a user of this host.
    fn deliver(
        &mut self,
        address: &MailAddress,
        user: &str,
        place: &str,
        origin: &Origin<'_>,
    ) -> Result<(), ExpandError> {
        let domain = address.domain().unwrap_or_default();
        let to = match *address.mailbox() == *user {
            true => address.to_string(),
            false => format!("{user}@{domain}"),
        };
        let channel = &self.directory.config.local_channel;
        self.step(origin, || format!("{address}: {channel} {to} {to} ({place})"));
        let to = Address::new(channel, &to, &to, NOBODY_UID);
        self.push(to, origin, None)
    }

    /// Expands an alias or a virtual address.
    fn alias(
        &mut self,
        table: &'d AliasTable,
        key: &str,
        entry: &AliasEntry,
        address: &MailAddress,
        origin: &Origin<'_>,
    ) -> Result<(), ExpandError> {
        let place = format!("{}:{}", table.files[entry.file].path.display(), entry.line);
        let is_loop = origin.aliases().any(|alias| alias == key);
        if is_loop || origin.depth >= MAX_ALIAS_DEPTH {
            let mut way: Vec<&str> = origin.aliases().filter(|alias| !alias.is_empty()).collect();
            way.reverse();
            way.push(key);
            let what = if is_loop { "a loop of aliases" } else { "aliases nested too deeply" };
            let text = format!("{what}: {}", way[way.len().saturating_sub(5)..].join(", "));
            return self.refused(address, RecipientRefusal::alias_loop(text), &place, origin);
        }
        let owner = format!("owner-{key}");
        let is_virtual = std::ptr::eq(table, &self.directory.virtuals);
        let is_list = !is_virtual && table.get(&owner).is_some();
        let (members, end) = self.members(key, entry, address, is_list.then_some(&*owner), origin);
        let keeps_local_part = entry.targets.iter().any(AliasTarget::keeps_local_part);
        let alias = ExpandedAlias {
            is_virtual,
            file: entry.file,
            line: entry.line,
            sender: members.sender,
            local_part: keeps_local_part.then(|| address.local_part().to_string()),
        };
        let known = self.expanded.get(&alias).cloned();
        let wishes = Wishes::of(&members.notify);
        let wishes = known.as_ref().map_or(wishes, |known| known.wishes.and(wishes));
        // There are few wishes, so an alias is expanded few times.
        let known = known.filter(|known| known.wishes == wishes);
        self.step(origin, || match (&known, is_list) {
            (Some(_), _) => format!("{address}: expanded above ({place})"),
            (None, true) => format!("{address}: list with sender {owner} ({place})"),
            (None, false) => format!("{address}: alias ({place})"),
        });
        let refusal = match known {
            Some(known) => known.refusal,
            None => self.add_members(table, entry, address, &members)?,
        };
        self.expanded.insert(alias, ExpandedMembers { wishes, refusal: refusal.clone() });
        if let Some(refusal) = refusal {
            return self.refused(address, refusal, &place, origin);
        }
        self.found += 1;
        let is_success_wanted = Notify::parse(origin.notify.as_bytes()).events.success;
        if let Some(end) = end.filter(|_| is_success_wanted) {
            let text = address.to_string();
            let channel = &self.directory.config.local_channel;
            self.push(Address::new(channel, &text, &text, NOBODY_UID), origin, Some(end))?;
        }
        Ok(())
    }

    /// Adds what an alias stands for. Returns why the alias itself is refused.
    fn add_members(
        &mut self,
        table: &AliasTable,
        entry: &AliasEntry,
        address: &MailAddress,
        members: &Origin<'_>,
    ) -> Result<Option<RecipientRefusal>, ExpandError> {
        let (before, of_outer_alias) = (self.found, self.alias_refusal.take());
        for target in &entry.targets {
            self.target(target, table.files[entry.file].trusted_owner, address, members)?;
        }
        let refusal = std::mem::replace(&mut self.alias_refusal, of_outer_alias);
        Ok(refusal.or_else(|| (self.found == before).then(RecipientRefusal::empty_list)))
    }

    /// The origin of an alias's members, and its own end.
    ///
    /// See RFC 3461, 5.2.7.
    fn members<'o>(
        &mut self,
        key: &'o str,
        entry: &AliasEntry,
        address: &MailAddress,
        owner: Option<&str>,
        origin: &'o Origin<'o>,
    ) -> (Origin<'o>, Option<RoutedEnd>) {
        let is_single =
            matches!(&entry.targets[..], [one] if !matches!(one, AliasTarget::Include(_)));
        let (sender, notify, end) = match owner {
            Some(owner) if !self.is_report => {
                (self.owner(owner), Rc::from(""), Some(RoutedEnd::Delivered))
            }
            _ if is_single => (origin.sender, dsn::forwarded(&origin.notify, address), None),
            _ => {
                let notify = dsn::expanded(&origin.notify, address);
                (origin.sender, notify, Some(RoutedEnd::Expanded))
            }
        };
        let depth = origin.depth + 1;
        (Origin { parent: Some(origin), alias: key, depth, sender, notify }, end)
    }

    /// The index of the owner of a list as a sender.
    fn owner(&mut self, name: &str) -> usize {
        let address = format!("{name}@{}", self.directory.config.routes.hostname());
        let known = self.owners.iter().position(|owner| *owner == address);
        known.unwrap_or_else(|| {
            self.owners.push(address);
            self.owners.len() - 1
        }) + 1
    }

    fn target(
        &mut self,
        target: &AliasTarget,
        trusted_owner: Option<u32>,
        address: &MailAddress,
        origin: &Origin<'_>,
    ) -> Result<(), ExpandError> {
        if target.is_privileged() && trusted_owner.is_none() {
            log::warn!("{address}: a list that others can write names a program or a file");
            let refusal =
                RecipientRefusal::new("5.7.0", "its list may not name programs and files");
            return self.refused(address, refusal, "list", origin);
        }
        let config = &self.directory.config;
        match target {
            AliasTarget::Address(text) => match text.strip_prefix('@') {
                Some(domain) => self.address(address.at(domain), origin),
                None => self.written_address(text, origin),
            },
            AliasTarget::User(name) => match MailAddress::parse(name) {
                Ok(user) => {
                    let user = user.qualified(config.routes.hostname());
                    let name = user.mailbox().into_owned();
                    if is_program_or_file(&name) {
                        return self.refused(
                            &user,
                            RecipientRefusal::program_or_file(),
                            "list",
                            origin,
                        );
                    }
                    self.deliver(&user, &name, "without aliases", origin)
                }
                Err(error) => self.refused(address, error.into(), "list", origin),
            },
            AliasTarget::Program(text) | AliasTarget::File(text) => {
                // Hosts as ZMailer's router makes them: clauses can tell them from users.
                let (channel, kind) = match target {
                    AliasTarget::Program(_) => (&config.program_channel, "pipe"),
                    _ => (&config.file_channel, "file"),
                };
                let host = format!("{kind}.{address}");
                let owner = trusted_owner.map_or(NOBODY_UID, i64::from);
                self.step(origin, || format!("{text}: {channel} {host} {text}"));
                let to = Address::new(channel, &host, text, owner);
                self.push(to, origin, None)
            }
            AliasTarget::Include(path) => self.include(path, address, origin),
        }
    }

    /// Adds the addresses of a file.
    fn include(
        &mut self,
        path: &Path,
        address: &MailAddress,
        origin: &Origin<'_>,
    ) -> Result<(), ExpandError> {
        self.count_step()?;
        let ReadFile { text, trusted_owner } = match read_file(path) {
            Ok(file) => file,
            Err(error) => {
                let path = path.display();
                self.fail_lookup(format!("the list {path} of {address} cannot be read: {error}"))?;
                self.alias_refusal =
                    Some(RecipientRefusal::failed_lookup("the list cannot be read"));
                return Ok(());
            }
        };
        let (targets, warnings) = parse_include(path, &text);
        if targets.len() > MAX_RECIPIENTS {
            return Err(ExpandError::TooManyRecipients);
        }
        warnings.iter().for_each(|warning| log::warn!("{}", warning.in_one_line()));
        self.step(origin, || format!(":include:{}: {} addresses", path.display(), targets.len()));
        let key = format!(":include:{}", path.display());
        if origin.aliases().any(|alias| alias == key) || origin.depth >= MAX_ALIAS_DEPTH {
            let refusal = RecipientRefusal::alias_loop(format!("a loop of lists: {key}"));
            return self.refused(address, refusal, &key, origin);
        }
        let origin = Origin {
            parent: Some(origin),
            alias: &key,
            depth: origin.depth + 1,
            sender: origin.sender,
            notify: origin.notify.clone(),
        };
        targets.iter().try_for_each(|target| self.target(target, trusted_owner, address, &origin))
    }

    fn refused(
        &mut self,
        address: &MailAddress,
        refusal: RecipientRefusal,
        place: &str,
        origin: &Origin<'_>,
    ) -> Result<(), ExpandError> {
        self.step(origin, || format!("{address}: refused: {refusal} ({place})"));
        self.push_refused(&address.to_string(), refusal, origin)
    }

    fn push_refused(
        &mut self,
        address: &str,
        refusal: RecipientRefusal,
        origin: &Origin<'_>,
    ) -> Result<(), ExpandError> {
        let to = Address::new("error", refusal.form, address, NOBODY_UID);
        self.push(to, origin, Some(RoutedEnd::Refused(refusal)))
    }

    /// Adds a recipient.
    fn push(
        &mut self,
        address: Address,
        origin: &Origin<'_>,
        end: Option<RoutedEnd>,
    ) -> Result<(), ExpandError> {
        self.found += 1;
        self.recipients.add(RoutedRecipient {
            sender: origin.sender,
            is_in_envelope: origin.depth == 0,
            address,
            notify: origin.notify.clone(),
            end: end.map(Box::new),
        })?;
        Ok(())
    }

    fn step(&mut self, origin: &Origin<'_>, text: impl FnOnce() -> String) {
        if let Some(steps) = &mut self.steps {
            steps.push(Step { depth: origin.depth, text: text() });
        }
    }
}
