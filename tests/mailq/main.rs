//! Tests of the real `mailq`: with recorded answers of ZMailer's scheduler, with hostile ones, and
//! with a running scheduler.

mod console;
mod hostile;
mod live;
mod logins;
mod played;
mod player;
mod recordings;
mod refusals;
mod support;
mod terminal;
mod version_2;
