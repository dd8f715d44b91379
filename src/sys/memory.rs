//! Memory of the process.

/// Returns free memory to the system, where the C library can (`malloc_trim`).
///
/// It takes some milliseconds where much is free.
pub fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it has no preconditions, and may be called from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
