//! The transport agents, driven by hand: each test plays the scheduler for a real program, over a
//! socket pair and in a spool of its own.

mod accounts;
mod discard;
mod examples;
mod hold;
mod maildir;
mod mbox;
mod ownership;
mod protocol;
mod recordings;
mod signals;
mod support;
mod trouble;
