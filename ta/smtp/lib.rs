//! The transport agent `smtp`, which delivers mail by SMTP and LMTP.
//!
//! This crate decides what is said to a server, which server is tried next, and what the replies
//! mean for each recipient. It must not know the queue or when mail is tried again; where mail goes
//! and how TLS is verified is decided by `mail_exchanger`.
//!
//! Begin with [`session`], the dialogue with a server, without sockets. A [`connection`] does its
//! steps on a [`socket`] and sends the [`content`]. A [`dialer`] makes connections; a [`client`]
//! keeps one for the next job of the same host. The [`mailer`] works on jobs; a [`diagnosis`] says
//! what a dialogue means for each recipient, and [`reply_patterns`] what the operator makes of
//! replies.
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
