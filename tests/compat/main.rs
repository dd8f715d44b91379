//! Recordings of ZMailer's scheduler, agents and routers at work, against this scheduler.
//!
//! | file | what is compared |
//! |---|---|
//! | [`control_files`] | what is read from the control files that a real router wrote, and from all their later states |
//! | [`damaged_files`] | the verdicts on files that are no good |
//! | [`sessions`] | what agents are told, line by line, in sessions with the original's scheduler |
//! | [`order`] | the order of jobs where the original's is no matter of chance |
//! | [`retries`], [`expiry`] | when something is tried again, and what is noted when it is given up |
//! | [`mailq_v1`], [`mailq_lines`] | the queue, as MAILQ version 1 shows it |
//! | [`mailq_v2`] | sessions of MAILQ version 2 |
//!
//! The recordings are under `tests/data/compat`. Where we differ on purpose the test says so in a
//! table; `docs/zmailer.md` has the reasons.
//!
//! Recorded vectors that are tests of the modules themselves, and are not repeated here:
//!
//! | vectors | where |
//! |---|---|
//! | spool ids | `src/spool/id.rs` |
//! | hash folders, names in datagrams | `src/spool/name.rs` |
//! | patterns | `src/config/pattern.rs` |
//! | intervals | `src/config/units.rs` |
//! | selection of clauses, errors in configurations | `src/config/tests.rs` |
//! | forms of durations | `src/time.rs` |
//! | answers to challenges, lines of the auth file, address lists | `src/mailq/login.rs`, `auth_file.rs`, `acl.rs` |
//! | forms of agents' lines | `src/agent/protocol.rs` |
//! | agents' answers to jobs, and control files after them | `tests/agents/recordings.rs` |

mod control_files;
mod damaged_files;
mod expiry;
mod mailq_lines;
mod mailq_v1;
mod mailq_v2;
mod order;
mod recording;
mod replay;
mod retries;
mod sessions;
mod support;
mod talk;
mod world;
