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
mod memory;
mod sigaction;
#[cfg(feature = "signals")]
mod signals;
pub mod users;
mod accounts;
mod impersonation;
mod files;
mod folder;
mod folder_watch;
mod host;
mod service_manager;
mod syslog;

pub use accounts::Accounts;
pub use agent_exec::become_agent;
pub use daemonize::{ReadyPipe, daemonize, drop_groups, redirect_output};
pub use descriptors::{
    close_inherited_on_exec, connect_unix, is_hung_up, is_readable_within, peer_user, set_blocking,
    unacknowledged_len,
};
pub use files::{
    begin_write_out, device_and_inode, if_exists, is_name_of, keeps_order, leads_to, may_create_in,
    open_nofollow, open_regular, read_part, read_up_to, rename_new, replace_file, try_posix_lock,
    with_suffix, write_out,
};
pub use folder::{FileFacts, Folder};
pub use folder_watch::{FolderEvent, FolderWatch, WatchedFolder};
pub use host::{StatVfs, host_name, load_averages, random_number, statvfs, time_since_boot};
pub use impersonation::Impersonation;
pub use inherited_state::reset_inherited_state;
pub use launch::{ChildProcess, LaunchFailures, Launcher};
pub use limits::{lift_file_size_limit, lift_processor_limit, raise_file_limit};
pub use memory::release_free_memory;
pub use process::{
    ChildEnd, ProcessPriority, clock_ticks, process_exists, reap, send_signal, set_priority,
    set_process_name, use_batch_policy,
};
pub use service_manager::{notify_service_manager, take_passed_datagram_socket};
pub use sigaction::{ignore_signal, is_ignored};
#[cfg(feature = "signals")]
pub use signals::Signals;
pub use syslog::{SYSLOG_SOCKET, SyslogLevel, SyslogSocket, syslog_line};
pub use users::{Account, find_account};

use std::ffi::{CString, OsStr, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::ptr;

/// Converts the result of a call that returns 0, or -1 and sets `errno`.
fn succeeded(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Converts a text for a call.
fn c_string(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

/// Strings as an array of pointers with a null pointer at the end.
fn pointers(texts: &[CString]) -> Vec<*mut c_char> {
    texts.iter().map(|text| text.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}
