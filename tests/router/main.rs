//! Tests of the program `router`, on spools of their own.

mod aliases;
mod configuration;
mod crashes;
mod daemon;
mod messages;
mod support;
mod traces;
