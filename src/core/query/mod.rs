//! Read-only views of the state, and the reason why mail waits.

mod scheduled;

pub mod rank;
pub mod why;

pub mod age_survey;
pub mod replay_support;
pub mod thread_survey;
pub mod view;
