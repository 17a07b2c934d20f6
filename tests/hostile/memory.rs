//! Samples the memory of a process, and checks that it is released after each case.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long memory may take to be released after a case.
const RECOVERY_TIME: Duration = Duration::from_secs(10);
/// Number of cases after which a process is warm.
pub(crate) const WARM: usize = 100;
/// Allowed memory above the warm level, in addition to a fifth of it, in bytes.
const HEADROOM: u64 = 16 << 20;

/// The memory of one process over time.
pub(crate) struct Memory {
    process: u32,
    samples: Arc<Mutex<Vec<(Instant, u64)>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    ends: Vec<(usize, Instant)>,
}

impl Memory {
    pub(crate) fn sample(process: u32) -> Self {
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

    /// Notes the end of a case.
    pub(crate) fn case_ended(&mut self, number: usize) {
        self.ends.push((number, Instant::now()));
    }

    /// The maximum of all samples, in bytes.
    pub(crate) fn peak(&self) -> u64 {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0)
    }

    /// The maximum of the samples since `then`, in bytes.
    pub(crate) fn peak_since(&self, then: Instant) -> u64 {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let since = samples.iter().rev().take_while(|(at, _)| *at >= then);
        since.map(|(_, bytes)| *bytes).max().unwrap_or(0)
    }

    /// The current value, in bytes.
    pub(crate) fn now(&self) -> u64 {
        resident(self.process).unwrap_or(0)
    }

    /// The first case after which memory was not released in time. Later cases are not reported, because its
    /// leak affects them as well.
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
                    "memory: at least {} MiB during the ten seconds after the case, {} MiB when warm",
                    least >> 20,
                    warm >> 20
                );
                return vec![(*number, why)];
            }
        }
        Vec::new()
    }

    /// The warm level in bytes, and the growth since then in percent.
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

/// Resident memory of a process, in bytes; `None` if it has ended.
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
