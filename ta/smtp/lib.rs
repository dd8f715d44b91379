//! The transport agent `smtp`, which delivers mail by SMTP and LMTP.
//!
//! [`session`] is the dialogue with a server, without sockets. A [`connection`] does its steps on
//! a [`socket`] and sends the [`content`]. A [`dialer`] makes connections by DNS and policies of
//! TLS; a [`client`] keeps one for the next job of the same host. The [`mailer`] works on jobs; a
//! [`diagnosis`] says what a dialogue means for each recipient, and [`reply_patterns`] what the
//! operator makes of replies.
#![warn(unreachable_pub)]

pub mod client;
pub mod configuration;
pub mod connection;
pub mod content;
pub mod diagnosis;
pub mod dialer;
pub mod dialogue_log;
pub mod mailer;
pub mod options;
pub mod probe;
pub mod reply_patterns;
pub mod secrets;
pub mod servers;
pub mod session;
pub mod socket;
pub mod time_limits;
pub mod warnings;
