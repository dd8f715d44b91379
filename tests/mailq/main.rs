//! The real `mailq`: on recorded answers of the original scheduler, on hostile ones, and on a
//! scheduler that runs.

mod console;
mod hostile;
mod live;
mod player;
mod recordings;
mod refusals;
mod support;
mod version_2;
