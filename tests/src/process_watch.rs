//! Observes the processes of this machine during a scenario: command lines and environments, `kubeadm` runs by host, and
//! the contents of temporary files that hooks put on hosts.
//!
//! Hosts are namespaces of this machine: their processes are visible here, and their files through the
//! root of their first process.

#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::planted::Processes;

/// Interval at which processes are observed.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Commands of `kubeadm` that change a host.
const CHANGES: &[&str] = &["init", "join", "reset"];

/// Everything that was observed of the processes.
#[derive(Debug, Default)]
pub struct Observations {
    /// Every command line and environment.
    pub processes: Processes,
    /// Every observed content of the watched files.
    pub files: BTreeSet<Vec<u8>>,
    /// Runs of `kubeadm` that change a host, by host, in order.
    pub kubeadms: BTreeMap<String, Vec<String>>,
    /// Concurrent runs on one host.
    pub concurrent: Vec<String>,
    known: BTreeSet<String>,
}

impl Observations {
    /// No two `kubeadm` ran on a host at a time; one host ran `kubeadm init` and two ran `kubeadm join`, each once.
    ///
    /// # Panics
    /// If that is not so.
    pub fn assert_each_joined_once(&self) {
        assert_eq!(self.concurrent, [""; 0]);
        let verbs: Vec<_> = self
            .kubeadms
            .values()
            .map(|verbs| verbs.join(" "))
            .collect();
        assert_eq!(verbs, ["init", "join", "join"], "{:?}", self.kubeadms);
    }
}

/// A thread that observes until it is ended.
#[derive(Debug)]
pub struct ProcessWatch {
    stop: Arc<AtomicBool>,
    scans: Arc<AtomicUsize>,
    seen: Arc<Mutex<Observations>>,
    thread: JoinHandle<()>,
}

impl ProcessWatch {
    /// Starts observing, including these files on each new host with a folder below `hosts`.
    pub fn begin(hosts: &Path, files: &[&str]) -> Self {
        let (hosts, stop) = (hosts.to_owned(), Arc::<AtomicBool>::default());
        let files: Vec<_> = files.iter().map(|file| (*file).to_owned()).collect();
        let (scans, seen) = (
            Arc::<AtomicUsize>::default(),
            Arc::<Mutex<Observations>>::default(),
        );
        let (stopped, counted, shared) = (stop.clone(), scans.clone(), seen.clone());
        let others: BTreeSet<_> = running(&hosts).into_keys().collect();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let mut new_hosts = running(&hosts);
                new_hosts.retain(|host, _| !others.contains(host));
                lock(&shared).scan(&new_hosts, &files);
                counted.fetch_add(1, Ordering::Relaxed);
                std::thread::park_timeout(POLL_INTERVAL);
            }
        });
        Self {
            stop,
            scans,
            seen,
            thread,
        }
    }

    /// Number of scans so far.
    pub fn scans(&self) -> usize {
        self.scans.load(Ordering::Relaxed)
    }

    /// Contents of the watched files so far.
    pub fn files(&self) -> BTreeSet<Vec<u8>> {
        lock(&self.seen).files.clone()
    }

    /// Stops observing, and returns what was observed.
    #[expect(clippy::unwrap_used, reason = "see above")]
    pub fn end(self) -> Observations {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap();
        std::mem::take(&mut *lock(&self.seen))
    }
}

fn lock(seen: &Mutex<Observations>) -> MutexGuard<'_, Observations> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observations {
    fn scan(&mut self, hosts: &BTreeMap<String, PathBuf>, files: &[String]) {
        self.processes.look();
        self.scan_kubeadm(hosts);
        for host in hosts.values() {
            let found = files
                .iter()
                .filter_map(|file| std::fs::read(host.join(file)).ok());
            self.files
                .extend(found.filter(|content| !content.is_empty()));
        }
    }

    fn scan_kubeadm(&mut self, hosts: &BTreeMap<String, PathBuf>) {
        let network = |root: &Path| std::fs::read_link(root.with_file_name("ns/net")).ok();
        let of_host: BTreeMap<PathBuf, &String> = hosts
            .iter()
            .filter_map(|(name, root)| network(root).map(|network| (network, name)))
            .collect();
        let running: BTreeMap<String, Kubeadm> = kubeadms().collect();
        let mut now = BTreeMap::<&str, Vec<&str>>::new();
        // A child looks like its parent until it executes its program.
        let own = running
            .iter()
            .filter(|(_, one)| !running.contains_key(&one.parent));
        for (id, one) in own {
            let network = std::fs::read_link(format!("/proc/{id}/ns/net"));
            let Some(host) = network.ok().and_then(|network| of_host.get(&network)) else {
                continue;
            };
            now.entry(host).or_default().push(&one.verb);
            if self.known.insert(format!("{id} since {}", one.since)) {
                self.kubeadms
                    .entry((*host).clone())
                    .or_default()
                    .push(one.verb.clone());
            }
        }
        let several = now.into_iter().filter(|(_, verbs)| verbs.len() > 1);
        self.concurrent
            .extend(several.map(|(host, verbs)| format!("{host}: {verbs:?}")));
    }
}

/// The running hosts with a folder below `hosts`, and the root of each as seen from here.
pub fn running(hosts: &Path) -> BTreeMap<String, PathBuf> {
    let folders = std::fs::read_dir(hosts).into_iter().flatten().flatten();
    let known = folders.filter_map(|host| {
        let pid = std::fs::read_to_string(host.path().join("pid")).ok()?;
        let root = Path::new("/proc").join(pid.trim()).join("root");
        Some((host.file_name().to_string_lossy().into_owned(), root))
    });
    known
        .filter(|(_, root)| root.join("run").is_dir())
        .collect()
}

/// A `kubeadm` process that is running.
struct Kubeadm {
    verb: String,
    parent: String,
    since: String,
}

fn kubeadms() -> impl Iterator<Item = (String, Kubeadm)> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| {
        let line = std::fs::read(process.path().join("cmdline")).ok()?;
        let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let verb = (words.next()? == "kubeadm")
            .then(|| words.next())??
            .into_owned();
        // Single phases are run by others.
        if !CHANGES.contains(&verb.as_str()) || words.next().is_some_and(|word| word == "phase") {
            return None;
        }
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        // After the name, which may contain anything: state, parent, …; field 22 is the start time.
        let fields: Vec<_> = stat.rsplit(')').next()?.split_whitespace().collect();
        let field = |at: usize| fields.get(at).map(|field| (*field).to_owned());
        let found = Kubeadm {
            verb,
            parent: field(1)?,
            since: field(19)?,
        };
        Some((process.file_name().to_string_lossy().into_owned(), found))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::ProcessWatch;
    use crate::programs::until;

    /// A process that looks like `kubeadm join` until it reads a line.
    fn join(folder: &Path) -> Child {
        std::fs::write(folder.join("join"), "read line").unwrap();
        let mut shell = Command::new("sh");
        shell
            .arg0("kubeadm")
            .arg("join")
            .current_dir(folder)
            .env("KEY", "seen-by-the-watch");
        let child = shell.stdin(Stdio::piped()).spawn().unwrap();
        let line = format!("/proc/{}/cmdline", child.id());
        until("it runs", Duration::from_secs(10), || {
            std::fs::read(&line)
                .unwrap()
                .starts_with(b"kubeadm")
                .then_some(())
        });
        child
    }

    #[test]
    fn kubeadm_runs_are_recorded_and_concurrent_ones_reported() {
        let folder = tempfile::tempdir().unwrap();
        let (host, file) = (folder.path().join("one"), folder.path().join("join.yaml"));
        let relative = file
            .strip_prefix("/")
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let story = |concurrent: bool| {
            let watch = ProcessWatch::begin(folder.path(), &[&relative]);
            std::fs::create_dir(&host).unwrap();
            std::fs::write(host.join("pid"), format!("{}\n", std::process::id())).unwrap();
            std::fs::write(&file, "the token").unwrap();
            let mut children = vec![join(folder.path())];
            let scans_done = || watch.scans();
            let enough = |before| {
                let more = || (scans_done() > before + 1).then_some(());
                until("a look", Duration::from_secs(10), more);
            };
            enough(scans_done());
            if !concurrent {
                children[0].kill().unwrap();
                children[0].wait().unwrap();
                enough(scans_done());
            }
            children.push(join(folder.path()));
            enough(scans_done());
            for mut child in children {
                let _ = child.kill(); // one may have ended
                child.wait().unwrap();
            }
            std::fs::remove_dir_all(&host).unwrap();
            watch.end()
        };
        let seen = story(false);
        assert_eq!(
            (&seen.kubeadms["one"], seen.concurrent.len()),
            (&vec!["join".to_owned(); 2], 0)
        );
        assert!(
            seen.files.contains(b"the token".as_slice()) && seen.processes.saw("seen-by-the-watch")
        );
        let seen = story(true);
        assert!(
            seen.concurrent[0].contains("one: [\"join\", \"join\"]"),
            "{:?}",
            seen.concurrent
        );
    }
}
