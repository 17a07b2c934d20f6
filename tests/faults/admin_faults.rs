//! Faults of administrative tasks: each task is killed by SIGKILL at points spread over its run time, and each file of
//! the data folder is removed. Afterwards the next process starts, the task is repeated, and I1 to I8 hold; the data
//! folder contains no leftovers of a crash, and no file there contains a secret.
//!
//! ```text
//! child: start ─ "ready" ─ task ─ "done"       file: child killed ─ removed ───┬─ harmless: it starts
//!           └── SIGKILL at k/n of the task                                     └─ refused by name ─ put back
//! then:  start ─ check ─ task again ─ check ─ I1 to I8
//! ```
//! To add a task, add it to [`TASKS`]; to add a file, to [`FILES`].

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use vnfm_store::{BackupFolders, FileDir};
use vnfm_types::LcmOperationType::{Instantiate, Terminate};

use crate::admin_tasks::{AdminTask, TASKS, TaskContext};
use crate::exhaustive::Choice;
use crate::process::{Process, Ran};
use crate::report::{Failure, Report};
use crate::site::{Site, create, delete, perform};
use crate::vnf::{Facts, Target, Vnf};
use crate::world::Control;
use crate::{admin_tasks, check};

/// Makes this program a child that runs one task.
pub(crate) const ACT: &str = "--act";
/// Number of points at which each task is killed.
const KILL_POINTS: u32 = 8;
/// Limit for a child that is not killed.
const TIMEOUT: Duration = Duration::from_secs(30);
const READY: &str = "ready";
const DONE: &str = "done";

/// Files of the data folder, and whether a start without the file is refused.
const FILES: &[(&str, bool)] = &[
    ("vnfm.db", true),
    ("vnfm.db-wal", true),
    ("secrets.key", true),
    ("vnfm.db-shm", false),
    ("vnfm.db-acked", false),
    ("vnfm.db.lock", false),
];
/// Everything that a data folder may contain between two processes.
const KNOWN: &[&str] = &[
    "vnfm.db",
    "vnfm.db-wal",
    "vnfm.db-shm",
    "vnfm.db-acked",
    "vnfm.db.lock",
    "secrets.key",
    "packages",
    "plugins",
    "files",
];

/// What a child reads from standard input.
#[derive(Serialize, Deserialize)]
struct Order {
    data: PathBuf,
    control: String,
    world: u32,
    facts: Facts,
    act: String,
}

/// Runs all cases at a site of their own.
pub(crate) fn run(choice: &Choice) -> Result<Report> {
    let began = Instant::now();
    let mut report = Report::new(choice.seed);
    let site = Site::build()?;
    let process = site.start()?;
    let target = create(&process, site.facts(), Vnf::B)?;
    perform(&process, site.facts(), &target, Instantiate)?;
    drop(process);
    let moments = KILL_POINTS
        .div_ceil(u32::try_from(choice.share).unwrap_or(KILL_POINTS))
        .max(1);
    let wanted = |name: &str| {
        choice
            .only
            .as_ref()
            .is_none_or(|only| name.contains(only.as_str()))
    };
    for act in TASKS {
        let took = match measure(&site, act) {
            Ok(took) => took,
            Err(why) => {
                record(&mut report, act.name, "none", || Err(why));
                continue;
            }
        };
        for moment in 0..moments {
            let fault = format!("KilledAt {} of {moments} in {}", moment + 1, act.name);
            if wanted(&fault) {
                let at = took * (2 * moment + 1) / (2 * moments);
                record(&mut report, act.name, &fault, || {
                    run_kill_case(&site, &target, act, at)
                });
            }
        }
    }
    for (file, refused) in FILES {
        let fault = format!("Removed {file}");
        if wanted(&fault) {
            record(&mut report, "start", &fault, || {
                run_removal_case(&site, &target, file, *refused)
            });
        }
    }
    let process = site.start()?;
    perform(&process, site.facts(), &target, Terminate)?;
    delete(&process, &target)?;
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}

fn record(report: &mut Report, act: &str, fault: &str, case: impl FnOnce() -> Result<()>) {
    let began = Instant::now();
    match case() {
        Ok(()) => report.hold("Administration", began.elapsed()),
        Err(why) => report.fail(Failure {
            operation: act.to_owned(),
            step: "administration".to_owned(),
            fault: fault.to_owned(),
            why: format!("{why:#}"),
        }),
    }
}

/// Runs a task without interruption; its duration.
fn measure(site: &Site, act: &AdminTask) -> Result<Duration> {
    let mut child = TaskChild::start(site, act)?;
    let began = Instant::now();
    ensure!(
        child.next_line(TIMEOUT)?.as_deref() == Some(DONE),
        "`{}` does not finish",
        act.name
    );
    let took = began.elapsed();
    drop(child);
    check_after(site, site.start()?, act, true)?;
    Ok(took)
}

/// Kills the process during the task and starts the next one.
fn run_kill_case(site: &Site, target: &Target, act: &AdminTask, at: Duration) -> Result<()> {
    let mut child = TaskChild::start(site, act)?;
    let ended = child.next_line(at)?.is_some();
    drop(child); // SIGKILL
    let process = site
        .start()
        .context("I7: the next process does not start")?;
    let mark = check::mark(site, &process)?;
    check_after(site, process, act, ended)?;
    // Leftovers of the first run must not prevent a second, complete one.
    measure(site, act).context("I7: the task cannot be repeated")?;
    check_instance(site, target, mark)
}

/// Removes a file of the data folder after a crash.
fn run_removal_case(site: &Site, target: &Target, file: &str, refused: bool) -> Result<()> {
    let subscription = TASKS
        .iter()
        .find(|act| act.leaves_wal)
        .context("no act leaves a log")?;
    let mut child = TaskChild::start(site, subscription)?;
    ensure!(
        child.next_line(TIMEOUT)?.as_deref() == Some(DONE),
        "the task does not finish"
    );
    drop(child);
    let log = std::fs::read(site.data().join("vnfm.db-wal")).unwrap_or_default();
    ensure!(
        !log.is_empty(),
        "the killed process left no write-ahead log"
    );
    let (path, backup) = (site.data().join(file), site.data().with_extension("kept"));
    std::fs::rename(&path, &backup).with_context(|| format!("`{file}` is missing"))?;
    let started = site.start();
    if refused {
        let Err(error) = started.map(drop) else {
            bail!("the process starts without `{file}`")
        };
        let message = format!("{error:#}");
        ensure!(
            message.contains(file),
            "the refusal does not name `{file}`: {message}"
        );
        std::fs::rename(&backup, &path)?;
    } else {
        drop(started.with_context(|| format!("the process does not start without `{file}`"))?);
        std::fs::remove_file(&backup)?;
    }
    let process = site
        .start()
        .context("I7: the process does not start with all files restored")?;
    let mark = check::mark(site, &process)?;
    check_after(site, process, subscription, true)?;
    check_instance(site, target, mark)
}

/// Checks the task's own result, and the data folder after the process has ended.
fn check_after(site: &Site, process: Process, act: &AdminTask, ended: bool) -> Result<()> {
    let context = context(&process, &site.data(), site.facts())?;
    process.finish((act.holds)(&context, ended))?;
    drop((context, process));
    let names = site
        .data()
        .read_dir()?
        .map(|entry| entry.map(|entry| entry.file_name()));
    for name in names {
        let name = name?.to_string_lossy().into_owned();
        ensure!(KNOWN.contains(&name.as_str()), "a crash left `{name}`");
    }
    check::files(&site.data())
}

/// Checks I1 to I8 for the instance that exists meanwhile.
fn check_instance(site: &Site, target: &Target, mark: check::Mark) -> Result<()> {
    let process = site.start()?;
    check::all(site, &process, target, mark)
}

fn context(process: &Process, data: &Path, facts: &Facts) -> Result<TaskContext> {
    let (store, packages) = process.storage()?;
    let engine = process.engine()?;
    let files = FileDir::open(&data.join("files"), Arc::new(vnfm::SystemClock), 0)?;
    let files = Arc::new(files);
    Ok(TaskContext {
        engine,
        store,
        folders: BackupFolders { packages, files },
        data: data.to_owned(),
        facts: facts.clone(),
    })
}

/// Creates a current backup for a restore, so that restoring it loses nothing that was checked before.
fn prepare(site: &Site, act: &AdminTask) -> Result<()> {
    if act.offline.is_none() {
        return Ok(());
    }
    let process = site.start()?;
    let context = context(&process, &site.data(), site.facts())?;
    process.finish(admin_tasks::create_backup(&context))
}

/// A child that runs a task; killed on drop.
struct TaskChild {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl TaskChild {
    /// Starts a child, which is ready to begin on return.
    fn start(site: &Site, act: &AdminTask) -> Result<Self> {
        prepare(site, act)?;
        let order = Order {
            data: site.data(),
            control: site.control().url().to_owned(),
            world: site.control().process(),
            facts: site.facts().clone(),
            act: act.name.to_owned(),
        };
        let mut child = Command::new(std::env::current_exe()?)
            .arg(ACT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the program that is to be killed")?;
        serde_json::to_writer(child.stdin.take().context("no standard input")?, &order)?;
        let stdout = BufReader::new(child.stdout.take().context("no standard output")?);
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            stdout
                .lines()
                .map_while(Result::ok)
                .all(|line| sender.send(line).is_ok())
        });
        let mut acting = Self { child, lines };
        match acting.next_line(TIMEOUT)?.as_deref() {
            Some(READY) => Ok(acting),
            other => bail!("the child for `{}` printed {other:?}", act.name),
        }
    }

    /// The next line that it prints, if in time.
    fn next_line(&mut self, within: Duration) -> Result<Option<String>> {
        match self.lines.recv_timeout(within) {
            Ok(line) => Ok(Some(line)),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                bail!("a child ended before it was killed: {}", self.child.wait()?)
            }
        }
    }
}

impl Drop for TaskChild {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended by itself
        let _ = self.child.wait();
    }
}

/// Runs the task, as the child.
pub(crate) fn act() -> Result<()> {
    let order: Order = serde_json::from_reader(std::io::stdin().lock())?;
    let act = TASKS
        .iter()
        .find(|act| act.name == order.act)
        .context("unknown task")?;
    if let Some(offline) = act.offline {
        print_line(READY)?;
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(offline(&order.data))?;
    } else {
        let process = Process::start(&order.data, &Control::at(&order.control, order.world))?;
        let context = context(&process, &order.data, &order.facts)?;
        print_line(READY)?;
        match process.run((act.work)(&context))? {
            Ran::Through(done) => done?,
            Ran::Ended => bail!("a fault struck where none was planned"),
        }
        print_line(DONE)?;
        park();
    }
    print_line(DONE)?;
    park()
}

fn print_line(word: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word}")?;
    Ok(out.flush()?)
}

/// Waits for SIGKILL without cleaning up.
fn park() -> ! {
    loop {
        std::thread::park();
    }
}
