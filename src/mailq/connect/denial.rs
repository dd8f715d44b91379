//! Refusals by a server, with advice.

use super::server::Server;
use super::session::Request;
use crate::failure::Failure;
use crate::screen::visible;

fn denied(what: String, advice: &str) -> Failure {
    Failure::Denied(format!("{what}\nmailq: {advice}"))
}

/// The server accepts no connection from this host.
pub(super) fn of_host(server: &Server, reply: &[u8]) -> Failure {
    let what = format!("{server} refuses requests from this host: {}", visible(reply).trim_end());
    denied(
        what,
        "its file of accounts (PARAMauthfile in its scheduler.cf) needs a line whose addresses \
         match this host, or without any; and only its owner may be able to read the file. Its \
         log has details",
    )
}

/// The server does not accept a login. `reply` is its answer without the first character.
pub(super) fn of_login(server: &Server, user: &str, reply: &[u8]) -> Failure {
    // The other refusal has the word AUTHENTICATOR: it does not know the user, or not from here.
    if reply == b"BAD USER OR PASSWORD" {
        return denied(
            format!("{server} does not accept the password of user {user}"),
            "put user/password into a file and name it with --login-file; other users can see -U",
        );
    }
    let reply = visible(reply);
    let reply = reply.trim_end();
    denied(
        format!("{server} does not accept user {user} from this host: {reply}"),
        &format!(
            "option -U or --login-file names another user; else its file of accounts \
             (PARAMauthfile) needs a line for {user} that has permissions, and addresses that \
             match this host"
        ),
    )
}

/// The request is unknown, or not permitted to this user.
pub(super) fn of_request(request: &Request, user: Option<&str>, reply: &[u8]) -> Failure {
    let Request { line, needs } = request;
    // The control socket has no users and permits everything, so the request must be unknown.
    let Some(user) = user else {
        let what = "this scheduler does not support";
        return Failure::Denied(format!("{what} {line}; it may be an older version"));
    };
    let what = format!("{line} was refused for user {user}: {}", visible(reply).trim_end());
    match needs {
        None => Failure::Denied(what),
        Some(needs) => denied(
            what,
            &format!(
                "if the server supports it, it requires {needs} or ALL in the user's line in its \
                 file of accounts (PARAMauthfile); option -U names another user"
            ),
        ),
    }
}
