//! The real `mailq`: on recorded answers of the original scheduler, on hostile ones, and on a
//! scheduler that runs.

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
