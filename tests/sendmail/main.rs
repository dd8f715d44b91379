//! Tests of the program `sendmail` with the real binary: what it writes to the spool, how programs
//! call it, what it refuses, and what other users can do.

mod callers;
mod input;
mod obstacles;
mod programs;
mod support;
mod users;
