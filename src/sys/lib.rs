//! System calls that the standard library lacks. The only `unsafe` code is here.
#![allow(unsafe_code)]

mod as_agent;
mod daemonize;
mod descriptors;
mod dispositions;
mod host;
mod identity;
mod inherited;
mod launch;
mod limits;
mod locks;
mod peer;
mod process;
mod rename;
mod same_file;
#[cfg(feature = "signals")]
mod signals;
pub mod users;

pub use as_agent::become_agent;
pub use daemonize::{Starter, daemonize, drop_groups, redirect_output, set_umask};
pub use descriptors::{close_inherited_on_exec, has_hung_up, let_writes_wait};
pub use dispositions::is_ignored;
pub use host::{FileSystem, file_system, load_averages, random_number, time_since_boot};
pub use identity::{Impersonation, host_name};
pub use inherited::shed_inherited;
pub use launch::{ChildProcess, Launcher};
pub use limits::{lift_file_size_limit, lift_processor_limit, raise_file_limit};
pub use locks::try_posix_lock;
pub use peer::peer_user;
pub use process::{
    ChildEnd, ProcessPriority, clock_ticks, process_exists, reap, send_signal, set_priority,
};
pub use rename::rename_new;
pub use same_file::{file_identity, leads_to};
#[cfg(feature = "signals")]
pub use signals::Signals;
pub use users::{Account, find_account};

/// Converts the result of a call that returns 0, or -1 and sets `errno`.
fn succeeded(result: i32) -> std::io::Result<()> {
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
