//! The server as clients see it: what they are told, and what is on disk.

mod answers;
mod crashes;
mod hostile;
mod messages;
mod peers;
mod services;
mod support;
mod tls_and_logins;
mod traffic;
