//! Tests of the real `mailq`: with recorded answers of ZMailer's scheduler, with hostile ones, and
//! with a running scheduler.

mod console;
mod fake_scheduler;
mod fake_server;
mod hostile;
mod logins;
mod messages;
mod real_scheduler;
mod recordings;
mod stats;
mod support;
mod terminal;
mod unreachable_server;
mod version_2;
