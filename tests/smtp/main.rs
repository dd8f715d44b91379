//! Tests of the agent `smtp` against a scripted peer and against Debian's servers.

mod authentication;
mod bytes;
#[path = "../mail_exchanger/dns_server.rs"]
#[allow(dead_code, clippy::unwrap_used)]
mod dns_server;
mod extensions;
mod lmtp;
mod next_server;
mod opensmtpd;
mod patterns;
mod peer;
mod postfix;
mod program;
mod recorded;
mod reuse;
mod servers;
mod session;
mod sink;
mod support;
mod tls;
mod truth;
