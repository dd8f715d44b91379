//! What the reports of agents mean, and the end of an agent.

mod agent_said;
pub mod agent_report;

pub mod agent_exit;
mod alternatives;
pub mod notes;
pub mod sender_reports;
mod reread;
