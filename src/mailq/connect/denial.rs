//! Refusals by a server, with advice.

use super::server::Server;
use crate::screen::visible;
use std::fmt;

/// A connection, login or request that a server refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The server accepts no connection from this host.
    Host {
        /// Server.
        server: Server,
        /// Reply of the server.
        reply: String,
    },
    /// The server does not know the user, or not from this host.
    User {
        /// Server.
        server: Server,
        /// User of the login.
        user: String,
        /// Reply of the server.
        reply: String,
    },
    /// The password is wrong.
    Password {
        /// Server.
        server: Server,
        /// User of the login.
        user: String,
    },
    /// The request is unknown, or not permitted to this user.
    Request {
        /// Request.
        request: String,
        /// User of the login; `None` over the control socket, which has none.
        user: Option<String>,
        /// Required permission, as the file of accounts names it.
        needs: Option<&'static str>,
        /// Reply of the server.
        reply: String,
    },
}

impl Denial {
    /// The refusal of a login.
    ///
    /// `reply` is what the server answers, without the first character.
    pub fn of_login(server: &Server, user: &str, reply: &[u8]) -> Denial {
        let (server, user) = (server.clone(), user.to_string());
        // The other refusal has the word AUTHENTICATOR.
        match reply == b"BAD USER OR PASSWORD" {
            true => Denial::Password { server, user },
            false => Denial::User { server, user, reply: visible(reply) },
        }
    }

    /// What is refused, and advice.
    fn explain(&self) -> (String, Option<String>) {
        match self {
            Denial::Host { server, reply } => (
                format!("{server} refuses requests from this host: {}", reply.trim_end()),
                Some(
                    "its file of accounts (PARAMauthfile in its scheduler.cf) needs a line whose \
                     addresses match this host, or without any; and only its owner may be able to \
                     read the file. Its log has details"
                        .to_string(),
                ),
            ),
            Denial::User { server, user, reply } => (
                format!(
                    "{server} does not accept user {user} from this host: {}",
                    reply.trim_end()
                ),
                Some(format!(
                    "option -U or --login-file names another user; else its file of accounts \
                     (PARAMauthfile) needs a line for {user} that has permissions, and addresses \
                     that match this host"
                )),
            ),
            Denial::Password { server, user } => (
                format!("{server} does not accept the password of user {user}"),
                Some(
                    "put user/password into a file and name it with --login-file; other users can \
                     see -U"
                        .to_string(),
                ),
            ),
            Denial::Request { request, user: Some(user), needs, reply } => (
                format!("{request} was refused for user {user}: {}", reply.trim_end()),
                needs.map(|needs| {
                    format!(
                        "if the server supports it, it requires {needs} or ALL in the user's line \
                         in its file of accounts (PARAMauthfile); option -U names another user"
                    )
                }),
            ),
            // The control socket permits everything, so the request must be unknown.
            Denial::Request { request, user: None, .. } => (
                format!("this scheduler does not support {request}; it may be an older version"),
                None,
            ),
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, advice) = self.explain();
        f.write_str(&what)?;
        advice.map_or(Ok(()), |advice| write!(f, "\nmailq: {advice}"))
    }
}
