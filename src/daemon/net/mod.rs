//! Sockets: MAILQ clients in both versions, operators, and notices of routers.
//!
//! | file | what |
//! |---|---|
//! | [`listen`] | all sockets that are listened on |
//! | [`clients`] | connections, their answers and timeouts |
//! | [`accounts`] | the auth file with the logins |
//! | [`lookup_worker`] | lookups on disk for clients |
//! | [`write_buffer`] | output for a receiver that may be slow |
//! | [`rendezvous_dump`] | the dump on SIGUSR2, for clients that cannot connect |

pub mod listen;
pub mod clients;
pub mod accounts;
pub mod lookup_worker;
pub mod write_buffer;
pub mod rendezvous_dump;
