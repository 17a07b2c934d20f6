//! What becomes of memory that is freed. glibc keeps what a thread frees for that thread, and larger pieces the more
//! often they were asked for: after a flood of logins, of 19 MiB each, a server would hold hundreds of MiB for ever.
#![cfg_attr(
    target_env = "gnu",
    expect(unsafe_code, reason = "`mallopt` has no safe wrapper")
)]

/// Pieces from this size on go back to the system as soon as they are freed.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 256 << 10;
/// As much may be free at the end of a heap before it goes back.
#[cfg(target_env = "gnu")]
const FREE: libc::c_int = 1 << 20;
/// Heaps that threads share.
#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 4;

/// Lets freed memory go back to the system, in this process; before there are threads. False where the allocator does not
/// take it, or is another one than glibc's, which has habits of its own.
pub fn return_freed_memory() -> bool {
    #[cfg(target_env = "gnu")]
    {
        let wanted = [
            (libc::M_MMAP_THRESHOLD, LARGE),
            (libc::M_TRIM_THRESHOLD, FREE),
            (libc::M_ARENA_MAX, HEAPS),
        ];
        // SAFETY: `mallopt` takes two numbers, and knows these parameters.
        wanted
            .into_iter()
            .all(|(name, value)| unsafe { libc::mallopt(name, value) } == 1)
    }
    #[cfg(not(target_env = "gnu"))]
    false
}
