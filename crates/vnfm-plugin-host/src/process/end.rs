//! How the process of a hook ended, when it did not end with an answer: in words that lead on.

use super::Phase;
use crate::config::ProcessLimits;
use crate::errors::{CRASHED, DEADLINE, KILLED, LIMIT, PROTOCOL};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::{BTreeSet, VecDeque};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;
use vnfm_core::ports::{Code, PortError};

/// How it ended.
pub(crate) enum Ended {
    /// By itself or by a signal; nothing where that is not known.
    Gone(Option<ExitStatus>),
    /// By us, when its time was over; it had so many processes then.
    Late { limit: Duration, processes: usize },
    /// By us, since it said what no process of ours says.
    Garbled(String),
}

impl Ended {
    /// The error of the hook.
    pub(crate) fn into_error(
        self,
        doing: String,
        phase: Phase,
        tail: &Tail,
        limits: &ProcessLimits,
    ) -> PortError {
        let (code, what) = match self {
            Self::Gone(status) => gone(status, phase, tail, limits),
            Self::Late { limit, processes } => (&DEADLINE, late(limit, processes, phase, limits)),
            Self::Garbled(what) => (
                &PROTOCOL,
                format!("it wrote to its host what is no message: {what}"),
            ),
        };
        PortError::new(code, doing, format!("{what}{}", tail.told()))
    }
}

fn gone(
    status: Option<ExitStatus>,
    phase: Phase,
    tail: &Tail,
    limits: &ProcessLimits,
) -> (&'static Code, String) {
    let when = phase.words();
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
    let ended = format!("its process ended {when} by {name}");
    match signal {
        libc::SIGXCPU => (
            &LIMIT,
            format!("{ended}: more than {} s on a processor", limits.cpu_seconds),
        ),
        libc::SIGXFSZ => (
            &LIMIT,
            format!("{ended}: a file of more than {} MiB", limits.file_mib),
        ),
        libc::SIGABRT if tail.holds("memory allocation of ") => (
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

fn late(limit: Duration, processes: usize, phase: Phase, limits: &ProcessLimits) -> String {
    let seconds = limit.as_secs_f64();
    let what = format!(
        "it did not end within {seconds:.1} s; it was killed {}",
        phase.words()
    );
    match u64::try_from(processes) {
        Ok(many) if many > 1 => {
            format!(
                "{what}, with {many} processes (its limit is {})",
                limits.processes
            )
        }
        _ => what,
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

/// The last lines of what a process writes to its standard error and output.
#[derive(Default)]
pub(crate) struct Tail {
    lines: VecDeque<String>,
    rest: Vec<u8>,
}

const LAST_LINES: usize = 20;
const LONGEST_LINE: usize = 1000;

impl Tail {
    /// Takes what was read, and returns the lines that it completed.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut whole = Vec::new();
        for byte in bytes {
            if *byte != b'\n' && self.rest.len() < LONGEST_LINE {
                self.rest.push(*byte);
            } else {
                whole.extend(self.line());
            }
        }
        whole
    }

    fn line(&mut self) -> Option<String> {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.rest))
            .trim_end()
            .to_owned();
        if line.is_empty() {
            return None;
        }
        if self.lines.len() == LAST_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line.clone());
        Some(line)
    }

    fn holds(&self, part: &str) -> bool {
        let rest = String::from_utf8_lossy(&self.rest);
        rest.contains(part) || self.lines.iter().any(|line| line.contains(part))
    }

    fn told(&self) -> String {
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

/// How many processes a hook has that are not dead yet, without those of ours that wait for it.
pub(crate) fn census(supervisor: Pid) -> usize {
    let all = Stat::all();
    let (groups, own) = (groups(&all, supervisor), supervisor.as_raw_nonzero().get());
    let hooks = all.iter().filter(|stat| stat.lives && stat.number != own);
    hooks
        .filter(|stat| groups.contains(&stat.group) && !stat.is_first())
        .count()
}

/// Kills all processes of a hook whose supervisor does not do it.
pub(crate) fn kill_all(supervisor: Pid) {
    for group in groups(&Stat::all(), supervisor) {
        let group = Pid::from_raw(group).filter(|group| !group.is_init());
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
    }
}

/// The supervisor's own process group, and those of its children.
fn groups(all: &[Stat], supervisor: Pid) -> BTreeSet<i32> {
    let supervisor = supervisor.as_raw_nonzero().get();
    let children = all
        .iter()
        .filter(|stat| stat.parent == supervisor)
        .map(|stat| stat.group);
    children.chain([supervisor]).collect()
}

/// What `/proc/PID/stat` says.
struct Stat {
    number: i32,
    lives: bool,
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
        texts.filter_map(|text| Self::of(&text)).collect()
    }

    /// `pid (name) state parent group …`; a name may hold anything.
    fn of(text: &str) -> Option<Self> {
        let mut fields = text.rsplit(')').next()?.split_whitespace();
        let lives = !matches!(fields.next()?, "Z" | "X");
        let number = text.split_whitespace().next()?.parse().ok()?;
        let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Self {
            number,
            lives,
            parent,
            group,
        })
    }

    /// Whether it is the first process of a namespace.
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
    fn the_last_lines_are_kept_whole() {
        let mut tail = Tail::default();
        let mut text = (0..30)
            .map(|n| format!("line {n}"))
            .collect::<Vec<_>>()
            .join("\n");
        text.push('\n');
        assert_eq!(tail.push(text.as_bytes()).len(), 30);
        assert!(tail.push(b"and no ").is_empty());
        tail.push(b"end");
        let told = tail.told();
        assert!(told.starts_with("; last lines:\nline 10\n"), "{told}");
        assert!(told.ends_with("line 29\nand no end"), "{told}");
        assert!(tail.holds("no end") && !tail.holds("line 9\n"));
    }

    #[test]
    fn a_process_is_counted_by_its_group_whatever_its_name_is() {
        let stat = |text: &str| Stat::of(text).unwrap();
        assert!(stat("77 (a) b) S 1 42 42 0").lives);
        assert_eq!(stat("77 (a) b) S 1 42 42 0").group, 42);
        assert!(!stat("77 (a) Z 1 42 42 0").lives);
        let all = [stat("8 (hook) S 7 8 1 0"), stat("9 (other) S 1 9 9 0")];
        let supervisor = Pid::from_raw(7).unwrap();
        assert_eq!(
            groups(&all, supervisor).into_iter().collect::<Vec<_>>(),
            [7, 8]
        );
    }
}
