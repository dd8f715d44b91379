//! This scheduler, compared with recordings of ZMailer's scheduler, agents and routers.
//!
//! | file | what is compared |
//! |---|---|
//! | [`control_files`] | the contents of a real router's control files, in all their states |
//! | [`damaged_files`] | what happens to malformed files |
//! | [`sessions`] | the lines that agents get in sessions with ZMailer's scheduler |
//! | [`order`] | the order of jobs where ZMailer's is not random |
//! | [`retries`], [`expiry`] | retry times, and the notes about expired recipients |
//! | [`mailq_v1`], [`mailq_lines`] | the queue that MAILQ version 1 shows |
//! | [`mailq_v2`] | sessions of MAILQ version 2 |
//!
//! The recordings are under `tests/data/compat`. A test lists intended differences in a table;
//! `docs/zmailer.md` has the reasons.
//!
//! Other recorded vectors are in the tests of the modules themselves:
//!
//! | vectors | where |
//! |---|---|
//! | spool ids | `src/spool/id.rs` |
//! | hash folders, names in datagrams | `src/spool/name.rs` |
//! | patterns | `src/config/pattern.rs` |
//! | intervals | `src/config/units.rs` |
//! | selection of clauses, errors in configurations | `src/config/tests.rs` |
//! | forms of durations | `src/time.rs` |
//! | answers to challenges, auth file, address lists | `login.rs`, `auth_file.rs`, `acl.rs` in `src/mailq/` |
//! | forms of agents' lines | `src/agent/protocol.rs` |
//! | agents' answers to jobs, and control files after them | `tests/agents/recordings.rs` |

extern crate zsched_core;

mod control_files;
// Not all of it is used here.
#[allow(dead_code)]
#[path = "../../src/core/tests/world.rs"]
mod core_world;
mod damaged_files;
mod expiry;
mod mailq_lines;
mod mailq_session;
mod mailq_v1;
mod mailq_v2;
mod order;
mod recording;
mod replay;
mod retries;
mod sessions;
mod support;
mod world;
