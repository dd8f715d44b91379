//! Authentication (AUTH, RFC 4954) with the mechanisms of `rsasl`.

use rsasl::callback::{Context, Request, SessionCallback, SessionData};
use rsasl::config::SASLConfig;
use rsasl::prelude::{Mechname, SASLClient, Session, SessionError};
use rsasl::property::{AuthId, OAuthBearerToken, Password};
use std::str::FromStr;
use std::sync::Arc;

/// Maximum length of an AUTH command with an initial response, in bytes (RFC 4954, 4).
const MAX_COMMAND_LEN: usize = 510;

/// A mechanism, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// `SCRAM-SHA-256` (RFC 7677).
    ScramSha256,
    /// `SCRAM-SHA-1` (RFC 5802).
    ScramSha1,
    /// `XOAUTH2`: the password is an access token.
    Xoauth2,
    /// `PLAIN` (RFC 4616).
    Plain,
    /// `LOGIN`.
    Login,
}

impl Mechanism {
    const ALL: [Mechanism; 5] = [
        Mechanism::ScramSha256,
        Mechanism::ScramSha1,
        Mechanism::Xoauth2,
        Mechanism::Plain,
        Mechanism::Login,
    ];

    /// The name in EHLO and AUTH.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha1 => "SCRAM-SHA-1",
            Mechanism::Xoauth2 => "XOAUTH2",
            Mechanism::Plain => "PLAIN",
            Mechanism::Login => "LOGIN",
        }
    }

    /// Returns true if a listener learns the password.
    pub fn reveals_password(self) -> bool {
        !matches!(self, Mechanism::ScramSha256 | Mechanism::ScramSha1)
    }
}

impl FromStr for Mechanism {
    type Err = String;

    fn from_str(name: &str) -> Result<Mechanism, String> {
        let found = Mechanism::ALL.iter().find(|one| one.name().eq_ignore_ascii_case(name));
        found.copied().ok_or_else(|| format!("unknown mechanism {name}"))
    }
}

/// A user and its secret, with which the agent introduces itself to a host.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user name.
    pub user: String,
    /// The password, or the access token of `XOAUTH2`.
    pub password: String,
    /// The mechanisms that may be used; an empty list is all but `XOAUTH2`.
    pub mechanisms: Vec<Mechanism>,
    /// True if mechanisms that reveal the password may be used without TLS.
    pub without_tls: bool,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Credentials {
    /// The best mechanism of those that a server offers. `None` if none may be used.
    pub fn choose(&self, offered: &[Mechanism], is_private: bool) -> Option<Mechanism> {
        let may = |mechanism: &&Mechanism| {
            let is_wanted = match self.mechanisms.is_empty() {
                true => **mechanism != Mechanism::Xoauth2,
                false => self.mechanisms.contains(mechanism),
            };
            is_wanted && (is_private || self.without_tls || !mechanism.reveals_password())
        };
        offered.iter().filter(may).min().copied()
    }
}

impl SessionCallback for Credentials {
    fn callback(
        &self,
        _session: &SessionData,
        _context: &Context<'_>,
        request: &mut Request<'_>,
    ) -> Result<(), SessionError> {
        request
            .satisfy::<AuthId>(&self.user)?
            .satisfy::<Password>(self.password.as_bytes())?
            .satisfy::<OAuthBearerToken>(&self.password)?;
        Ok(())
    }
}

/// An authentication in progress.
pub(super) struct Authentication {
    session: Session,
    /// An initial response that is too long for the command.
    delayed: Option<String>,
    /// True if the mechanism expects no further challenge.
    is_finished: bool,
    /// True if the server shows with the last challenge that it knows the password, too.
    is_mutual: bool,
}

impl Authentication {
    /// Begins with a mechanism. Returns the command, too.
    ///
    /// # Errors
    ///
    /// The credentials cannot be used with it, in words.
    pub(super) fn begin(
        credentials: &Credentials,
        mechanism: Mechanism,
    ) -> Result<(Authentication, String), String> {
        let words = |error: &dyn std::error::Error| error.to_string();
        let config: Arc<SASLConfig> = SASLConfig::builder()
            .with_defaults()
            .with_callback(credentials.clone())
            .map_err(|error| words(&error))?;
        let name = Mechname::parse(mechanism.name().as_bytes()).map_err(|error| words(&error))?;
        let session =
            SASLClient::new(config).start_suggested(&[name]).map_err(|error| words(&error))?;
        let mut authentication = Authentication {
            session,
            delayed: None,
            is_finished: false,
            is_mutual: !mechanism.reveals_password(),
        };
        let mut command = format!("AUTH {}", mechanism.name());
        if authentication.session.are_we_first() {
            let initial = authentication.next(None)?;
            let initial = if initial.is_empty() { "=".to_string() } else { initial };
            match command.len() + 1 + initial.len() <= MAX_COMMAND_LEN {
                true => command = format!("{command} {initial}"),
                false => authentication.delayed = Some(initial),
            }
        }
        Ok((authentication, command))
    }

    /// The response to the text of a 334 reply.
    ///
    /// # Errors
    ///
    /// The challenge is wrong, in words.
    pub(super) fn respond(&mut self, challenge: &str) -> Result<String, String> {
        match self.delayed.take() {
            Some(initial) => Ok(initial),
            None => self.next(Some(challenge.trim().as_bytes())),
        }
    }

    /// Returns true if the server has shown that it knows the password.
    ///
    /// So it is for a mechanism that has no such step.
    pub(super) fn has_verified_server(&self) -> bool {
        self.is_finished || !self.is_mutual
    }

    fn next(&mut self, input: Option<&[u8]>) -> Result<String, String> {
        let mut output = Vec::new();
        let state = self.session.step64(input, &mut output).map_err(|error| error.to_string())?;
        self.is_finished = state.is_finished();
        String::from_utf8(output).map_err(|error| error.to_string())
    }
}
