//! Makes glibc return freed memory to the system. By default it keeps freed memory in per-thread arenas and
//! raises its mmap threshold with each large allocation: after a burst of logins, at 19 MiB each, a server would
//! hold hundreds of MiB indefinitely.
#![cfg_attr(
    target_env = "gnu",
    expect(unsafe_code, reason = "`mallopt` has no safe wrapper")
)]

/// Allocations of this size and more go back to the system as soon as they are freed.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 256 << 10;
/// Free memory at the end of a heap that is kept before it goes back.
#[cfg(target_env = "gnu")]
const FREE: libc::c_int = 1 << 20;
/// Number of arenas that threads share.
#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 4;

/// Returns freed memory of this process to the system. Call it before threads are started. Returns false if the allocator
/// rejects the settings or is not glibc's.
pub fn return_freed_memory() -> bool {
    #[cfg(target_env = "gnu")]
    {
        let settings = [
            (libc::M_MMAP_THRESHOLD, LARGE),
            (libc::M_TRIM_THRESHOLD, FREE),
            (libc::M_ARENA_MAX, HEAPS),
        ];
        // SAFETY: `mallopt` takes two numbers, and knows these parameters.
        settings
            .into_iter()
            .all(|(name, value)| unsafe { libc::mallopt(name, value) } == 1)
    }
    #[cfg(not(target_env = "gnu"))]
    false
}
