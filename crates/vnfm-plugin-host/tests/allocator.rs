//! In its own test program, because it measures the memory of the process.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use vnfm_plugin_host::return_freed_memory;

/// Resident memory of the process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim()
        .trim_end_matches("kB")
        .trim()
        .parse::<usize>()
        .unwrap()
        << 10
}

#[test]
#[cfg_attr(
    not(target_env = "gnu"),
    ignore = "another allocator has habits of its own"
)]
fn memory_freed_by_many_threads_is_returned() {
    assert!(return_freed_memory());
    let before = resident();
    // Like password checks: 19 MiB each, on any of many long-lived threads.
    let ended = std::sync::Arc::new(std::sync::Barrier::new(17));
    for number in 0..16_u8 {
        let ended = ended.clone();
        std::thread::spawn(move || {
            for _ in 0..4 {
                let piece = vec![number + 1; 19 << 20];
                assert!(piece.iter().step_by(4096).all(|byte| *byte == number + 1));
            }
            ended.wait();
            ended.wait();
        });
    }
    ended.wait();
    let kept = resident().saturating_sub(before);
    ended.wait();
    assert!(kept < 32 << 20, "{} MiB are kept", kept >> 20);
}
