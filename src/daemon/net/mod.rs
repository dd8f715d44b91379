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

pub(crate) mod listen;
pub(crate) mod clients;
pub(crate) mod accounts;
pub(crate) mod lookup_worker;
pub(crate) mod write_buffer;
pub(crate) mod rendezvous_dump;
