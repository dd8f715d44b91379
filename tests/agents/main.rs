//! Tests of the transport agents. Each test acts as the scheduler of a real program, over a socket
//! pair and in a temporary spool.

mod accounts;
mod discard;
mod examples;
mod expirer;
mod full_disk;
mod hold;
mod maildir;
mod mbox;
mod ownership;
mod pipe;
mod protocol;
mod recordings;
mod reroute;
mod runner;
mod signals;
mod support;
mod term;
