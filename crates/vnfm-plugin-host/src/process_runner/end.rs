//! The error of a hook whose process ended without a result: signal or exit code, exceeded limit, last lines.

use super::phase::Phase;
use crate::config::ProcessLimits;
use crate::errors::{CRASHED, DEADLINE, KILLED, LIMIT, PROTOCOL};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::{BTreeSet, VecDeque};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;
use vnfm_core::ports::{Code, PortError};

/// How the process of a hook ended.
pub(crate) enum Ended {
    /// By itself or by a signal; `None` if the status is unknown.
    Exited(Option<ExitStatus>),
    /// Killed at the deadline, when the hook had this many processes.
    TimedOut { limit: Duration, processes: usize },
    /// Killed because it sent something that is not a message.
    Garbled(String),
}

impl Ended {
    /// The error of the hook.
    pub(crate) fn into_error(
        self,
        action: String,
        phase: Phase,
        tail: &Tail,
        limits: &ProcessLimits,
    ) -> PortError {
        let (code, detail) = match self {
            Self::Exited(status) => exited(status, phase, tail, limits),
            Self::TimedOut { limit, processes } => {
                (&DEADLINE, timed_out(limit, processes, phase, limits))
            }
            Self::Garbled(detail) => (
                &PROTOCOL,
                format!("it sent its host something that is not a message: {detail}"),
            ),
        };
        PortError::new(code, action, format!("{detail}{}", tail.text()))
    }
}

fn exited(
    status: Option<ExitStatus>,
    phase: Phase,
    tail: &Tail,
    limits: &ProcessLimits,
) -> (&'static Code, String) {
    let when = phase.describe();
    let Some(status) = status else {
        return (&CRASHED, format!("its process ended {when}"));
    };
    let Some(signal) = status.signal() else {
        let code = status.code().unwrap_or_default();
        return (
            &CRASHED,
            format!("its process ended {when} with exit code {code}"),
        );
    };
    let name = signal_name(signal);
    let ended = format!("its process was killed by {name} {when}");
    match signal {
        libc::SIGXCPU => (
            &LIMIT,
            format!("{ended}: more than {} s of CPU time", limits.cpu_seconds),
        ),
        libc::SIGXFSZ => (
            &LIMIT,
            format!("{ended}: a file of more than {} MiB", limits.file_mib),
        ),
        libc::SIGABRT if tail.contains_text("memory allocation of ") => (
            &LIMIT,
            format!(
                "{ended}: more than {} MiB of address space",
                limits.memory_mib
            ),
        ),
        libc::SIGKILL => (&KILLED, ended),
        _ => (&CRASHED, ended),
    }
}

fn timed_out(limit: Duration, processes: usize, phase: Phase, limits: &ProcessLimits) -> String {
    let seconds = limit.as_secs_f64();
    let detail = format!(
        "it did not end within {seconds:.1} s; it was killed {}",
        phase.describe()
    );
    match u64::try_from(processes) {
        Ok(count) if count > 1 => {
            format!(
                "{detail}, with {count} processes (its limit is {})",
                limits.processes
            )
        }
        _ => detail,
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

/// The last lines that a process wrote to its standard error and output.
#[derive(Default)]
pub(crate) struct Tail {
    lines: VecDeque<String>,
    rest: Vec<u8>,
}

const MAX_LAST_LINES: usize = 20;
const MAX_LINE_LEN: usize = 1000;

impl Tail {
    /// Appends output, and returns the lines that it completed.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut completed = Vec::new();
        for byte in bytes {
            if *byte != b'\n' && self.rest.len() < MAX_LINE_LEN {
                self.rest.push(*byte);
            } else {
                completed.extend(self.line());
            }
        }
        completed
    }

    fn line(&mut self) -> Option<String> {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.rest))
            .trim_end()
            .to_owned();
        if line.is_empty() {
            return None;
        }
        if self.lines.len() == MAX_LAST_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line.clone());
        Some(line)
    }

    fn contains_text(&self, part: &str) -> bool {
        let rest = String::from_utf8_lossy(&self.rest);
        rest.contains(part) || self.lines.iter().any(|line| line.contains(part))
    }

    fn text(&self) -> String {
        let rest = String::from_utf8_lossy(&self.rest);
        let all: Vec<_> = self
            .lines
            .iter()
            .map(String::as_str)
            .chain([rest.trim()])
            .collect();
        let text = all.join("\n");
        if text.trim().is_empty() {
            String::new()
        } else {
            format!("; last lines:\n{}", text.trim_end())
        }
    }
}

/// Number of a hook's running processes, without our own that supervise it.
pub(crate) fn count_processes(supervisor: Pid) -> usize {
    let all = Stat::all();
    let (groups, own) = (groups(&all, supervisor), supervisor.as_raw_nonzero().get());
    let hooks = all
        .iter()
        .filter(|stat| stat.is_running && stat.number != own);
    hooks
        .filter(|stat| groups.contains(&stat.group) && !stat.is_first())
        .count()
}

/// Kills all processes of a hook whose supervisor did not.
pub(crate) fn kill_all(supervisor: Pid) {
    for group in groups(&Stat::all(), supervisor) {
        let group = Pid::from_raw(group).filter(|group| !group.is_init());
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
    }
}

/// The process groups of the supervisor and of its children.
fn groups(all: &[Stat], supervisor: Pid) -> BTreeSet<i32> {
    let supervisor = supervisor.as_raw_nonzero().get();
    let children = all
        .iter()
        .filter(|stat| stat.parent == supervisor)
        .map(|stat| stat.group);
    children.chain([supervisor]).collect()
}

/// The fields of `/proc/PID/stat` that matter here.
struct Stat {
    number: i32,
    is_running: bool,
    parent: i32,
    group: i32,
}

impl Stat {
    fn all() -> Vec<Self> {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let texts = processes.filter_map(|process| {
            let number = process
                .file_name()
                .to_string_lossy()
                .bytes()
                .all(|b| b.is_ascii_digit());
            number
                .then(|| std::fs::read_to_string(process.path().join("stat")).ok())
                .flatten()
        });
        texts.filter_map(|text| Self::parse(&text)).collect()
    }

    /// Parses `pid (name) state parent group …`; the name may contain anything.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.rsplit(')').next()?.split_whitespace();
        let is_running = !matches!(fields.next()?, "Z" | "X");
        let number = text.split_whitespace().next()?.parse().ok()?;
        let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Self {
            number,
            is_running,
            parent,
            group,
        })
    }

    /// Whether it is the init process of a PID namespace.
    fn is_first(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.number));
        let status = status.unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        numbers.is_some_and(|numbers| {
            let numbers: Vec<_> = numbers.split_whitespace().collect();
            numbers.len() > 1 && numbers.last() == Some(&"1")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Stat, Tail, groups};
    use rustix::process::Pid;

    #[test]
    fn the_tail_keeps_the_last_lines() {
        let mut tail = Tail::default();
        let mut text = (0..30)
            .map(|n| format!("line {n}"))
            .collect::<Vec<_>>()
            .join("\n");
        text.push('\n');
        assert_eq!(tail.push(text.as_bytes()).len(), 30);
        assert!(tail.push(b"and no ").is_empty());
        tail.push(b"end");
        let text = tail.text();
        assert!(text.starts_with("; last lines:\nline 10\n"), "{text}");
        assert!(text.ends_with("line 29\nand no end"), "{text}");
        assert!(tail.contains_text("no end") && !tail.contains_text("line 9\n"));
    }

    #[test]
    fn processes_are_counted_by_group_whatever_their_name() {
        let stat = |text: &str| Stat::parse(text).unwrap();
        assert!(stat("77 (a) b) S 1 42 42 0").is_running);
        assert_eq!(stat("77 (a) b) S 1 42 42 0").group, 42);
        assert!(!stat("77 (a) Z 1 42 42 0").is_running);
        let all = [stat("8 (hook) S 7 8 1 0"), stat("9 (other) S 1 9 9 0")];
        let supervisor = Pid::from_raw(7).unwrap();
        assert_eq!(
            groups(&all, supervisor).into_iter().collect::<Vec<_>>(),
            [7, 8]
        );
    }
}
