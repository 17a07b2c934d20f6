//! How much memory a process holds, looked at all the time, and whether it comes back after each case.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// After a case memory may take so long to come back.
const RECOVERY_TIME: Duration = Duration::from_secs(10);
/// Cases after which a process is warm.
pub(crate) const WARM: usize = 100;
/// What a process may hold more than when it was warm: a fifth, and so much.
const HEADROOM: u64 = 16 << 20;

/// What one process held over its life.
pub(crate) struct Memory {
    process: u32,
    samples: Arc<Mutex<Vec<(Instant, u64)>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    ends: Vec<(usize, Instant)>,
}

impl Memory {
    /// Looks at a process from now on.
    pub(crate) fn of(process: u32) -> Self {
        let (samples, over): (Arc<Mutex<Vec<_>>>, Arc<AtomicBool>) =
            (Arc::default(), Arc::default());
        let (samples_log, ended) = (samples.clone(), over.clone());
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Acquire) {
                if let Some(bytes) = resident(process) {
                    let mut samples_log =
                        samples_log.lock().unwrap_or_else(PoisonError::into_inner);
                    samples_log.push((Instant::now(), bytes));
                }
                std::thread::park_timeout(POLL_INTERVAL);
            }
        });
        Self {
            process,
            samples,
            over,
            thread: Some(thread),
            ends: Vec::new(),
        }
    }

    /// A case has ended.
    pub(crate) fn case_ended(&mut self, number: usize) {
        self.ends.push((number, Instant::now()));
    }

    /// The most that was held in any of the looks.
    pub(crate) fn peak(&self) -> u64 {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0)
    }

    /// The most that was held since then.
    pub(crate) fn peak_since(&self, then: Instant) -> u64 {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let since = samples.iter().rev().take_while(|(at, _)| *at >= then);
        since.map(|(_, bytes)| *bytes).max().unwrap_or(0)
    }

    /// What is held now.
    pub(crate) fn now(&self) -> u64 {
        resident(self.process).unwrap_or(0)
    }

    /// Cases after which memory did not come back in time, with what was held; and the first of them is told of alone,
    /// for what it has left behind is there after the others, too.
    pub(crate) fn leaks(&self) -> Vec<(usize, String)> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, warm_at)) = self.ends.get(WARM - 1) else {
            return Vec::new();
        };
        let before = |at: &&(Instant, u64)| at.0 <= *warm_at;
        let warm = samples
            .iter()
            .take_while(before)
            .map(|(_, bytes)| *bytes)
            .max()
            .unwrap_or(0);
        let most = warm + warm / 5 + HEADROOM;
        for (number, end) in &self.ends[WARM..] {
            let after = samples
                .iter()
                .filter(|(at, _)| at >= end && *at <= *end + RECOVERY_TIME);
            let Some(least) = after.map(|(_, bytes)| *bytes).min() else {
                continue;
            };
            if least > most {
                let why = format!(
                    "memory: {} MiB at all times of the ten seconds after the case, warm it was {} MiB",
                    least >> 20,
                    warm >> 20
                );
                return vec![(*number, why)];
            }
        }
        Vec::new()
    }

    /// By how much the process has grown since it was warm, in percent, and from what.
    pub(crate) fn growth(&self) -> Option<(u64, u64)> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, warm_at) = self.ends.get(WARM - 1)?;
        let warm = samples
            .iter()
            .take_while(|at| at.0 <= *warm_at)
            .map(|(_, bytes)| *bytes)
            .max()?;
        let last = samples
            .iter()
            .rev()
            .take(20)
            .map(|(_, bytes)| *bytes)
            .min()?;
        Some((warm, last.saturating_sub(warm) * 100 / warm.max(1)))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join(); // it only looks
        }
    }
}

/// What a process holds, in bytes; nothing where it is gone.
fn resident(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim()
        .trim_end_matches("kB")
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kib| kib << 10)
}
