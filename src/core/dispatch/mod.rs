//! Which agent gets which job.
//!
//! [`ring::Ring`] has the threads of a clause and the agents that deliver for them. A ready thread
//! gets an agent in [`start_agents`]; a hungry agent gets its next job in [`next_job`].

pub mod agent;
pub mod ring;

mod next_job;
mod next_job_by_message;
pub mod start_agents;

pub mod agent_waitlist;
pub mod fair_share;
pub mod suspended_ring;

pub mod jobs;
pub mod window;

pub mod agent_log;
