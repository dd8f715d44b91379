//! System calls that the standard library lacks. The only `unsafe` code is here.
//!
//! Each module wraps a few calls of the kernel or of libc in functions that are safe to use. This
//! crate decides nothing but how a call is made; it must not know of mail, of a spool or of a
//! configuration. What a call may wait for is said where it is not obvious.
//!
//! Begin with [`launch`]: it starts agents, with [`agent_exec`] on the other side of the start. The
//! other modules stand for themselves.
#![allow(unsafe_code)]
#![warn(unreachable_pub)]

mod launch;
mod agent_exec;
mod process;
mod daemonize;
mod inherited_state;
mod descriptors;
mod limits;
mod sigaction;
#[cfg(feature = "signals")]
mod signals;
pub mod users;
mod impersonation;
mod peer;
mod locks;
mod file_identity;
mod rename;
mod host;

pub use agent_exec::become_agent;
pub use daemonize::{ReadyPipe, daemonize, drop_groups, redirect_output, set_umask};
pub use descriptors::{close_inherited_on_exec, is_hung_up, set_blocking};
pub use file_identity::{device_and_inode, is_same_file};
pub use host::{FileSystem, file_system, load_averages, random_number, time_since_boot};
pub use impersonation::{Impersonation, host_name};
pub use inherited_state::reset_inherited_state;
pub use launch::{ChildProcess, Launcher};
pub use limits::{lift_file_size_limit, lift_processor_limit, raise_file_limit};
pub use locks::try_posix_lock;
pub use peer::peer_user;
pub use process::{
    ChildEnd, ProcessPriority, clock_ticks, process_exists, reap, send_signal, set_priority,
};
pub use rename::rename_new;
pub use sigaction::is_ignored;
#[cfg(feature = "signals")]
pub use signals::Signals;
pub use users::{Account, find_account};

/// Converts the result of a call that returns 0, or -1 and sets `errno`.
fn succeeded(result: i32) -> std::io::Result<()> {
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
