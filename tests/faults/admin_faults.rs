//! What is done beside operations: each act of a table is cut short by SIGKILL at moments spread over the time that it
//! takes, and each file of the data folder goes. Afterwards the next process starts, the act is done again, and I1 to I8
//! hold; nothing that a crash leaves lies in the folder, and no secret in any file there.
//!
//! ```text
//! child: start ─ "ready" ─ act ─ "done"        file: child killed ─ file gone ─┬─ harmless: it starts
//!           └── SIGKILL at k/n of the act                                      └─ refused by name ─ put back
//! then:  start ─ holds ─ act again ─ holds ─ checks
//! ```
//! A new act is a row of [`TASKS`], a new file one of [`FILES`].

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use vnfm_types::LcmOperationType::{Instantiate, Terminate};

use crate::admin_tasks::{AdminTask, TASKS, TaskContext};
use crate::exhaustive::Choice;
use crate::process::{Process, Ran};
use crate::report::{Failure, Report};
use crate::site::{Site, create, delete, perform};
use crate::vnf::{Facts, Target, Vnf};
use crate::world::Control;
use crate::{admin_tasks, check};

/// The argument that makes this program a child.
pub(crate) const ACT: &str = "--act";
/// Into so many parts the time of an act is cut.
const KILL_POINTS: u32 = 8;
/// How long a child may take that nobody kills.
const TIMEOUT: Duration = Duration::from_secs(30);
const READY: &str = "ready";
const DONE: &str = "done";

/// Files of the data folder, and whether a start without one is refused.
const FILES: &[(&str, bool)] = &[
    ("vnfm.db", true),
    ("vnfm.db-wal", true),
    ("secrets.key", true),
    ("vnfm.db-shm", false),
    ("vnfm.db-acked", false),
    ("vnfm.db.lock", false),
];
/// All that lies in a data folder between two processes.
const KNOWN: &[&str] = &[
    "vnfm.db",
    "vnfm.db-wal",
    "vnfm.db-shm",
    "vnfm.db-acked",
    "vnfm.db.lock",
    "secrets.key",
    "packages",
    "plugins",
];

/// What a child is told, by its standard input.
#[derive(Serialize, Deserialize)]
struct Order {
    data: PathBuf,
    control: String,
    world: u32,
    facts: Facts,
    act: String,
}

/// Runs all of it at a site of its own.
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
        Ok(()) => report.hold("Beside", began.elapsed()),
        Err(why) => report.fail(Failure {
            operation: act.to_owned(),
            step: "beside".to_owned(),
            fault: fault.to_owned(),
            why: format!("{why:#}"),
        }),
    }
}

/// How long an act takes that nobody cuts short.
fn measure(site: &Site, act: &AdminTask) -> Result<Duration> {
    let mut child = TaskChild::start(site, act)?;
    let began = Instant::now();
    ensure!(
        child.next_line(TIMEOUT)?.as_deref() == Some(DONE),
        "`{}` does not end",
        act.name
    );
    let took = began.elapsed();
    drop(child);
    check_after(site, site.start()?, act, true)?;
    Ok(took)
}

/// The process dies in the middle of the act, and another one comes.
fn run_kill_case(site: &Site, target: &Target, act: &AdminTask, at: Duration) -> Result<()> {
    let mut child = TaskChild::start(site, act)?;
    let ended = child.next_line(at)?.is_some();
    drop(child); // SIGKILL
    let process = site
        .start()
        .context("I7: the next process does not start")?;
    let mark = check::mark(site, &process)?;
    check_after(site, process, act, ended)?;
    // Again, and to its end: what is left of the first time is no hindrance.
    measure(site, act).context("I7: it is not done again")?;
    check_instance(site, target, mark)
}

/// A file of the data folder is gone after a crash.
fn run_removal_case(site: &Site, target: &Target, file: &str, refused: bool) -> Result<()> {
    let subscription = TASKS
        .iter()
        .find(|act| act.leaves_wal)
        .context("no act leaves a log")?;
    let mut child = TaskChild::start(site, subscription)?;
    ensure!(
        child.next_line(TIMEOUT)?.as_deref() == Some(DONE),
        "the act does not end"
    );
    drop(child);
    let log = std::fs::read(site.data().join("vnfm.db-wal")).unwrap_or_default();
    ensure!(!log.is_empty(), "a process that is killed leaves a log");
    let (path, backup) = (site.data().join(file), site.data().with_extension("kept"));
    std::fs::rename(&path, &backup).with_context(|| format!("there is no `{file}`"))?;
    let started = site.start();
    if refused {
        let Err(error) = started.map(drop) else {
            bail!("it starts without `{file}`")
        };
        let message = format!("{error:#}");
        ensure!(
            message.contains(file),
            "the refusal does not name `{file}`: {message}"
        );
        std::fs::rename(&backup, &path)?;
    } else {
        drop(started.with_context(|| format!("it does not start without `{file}`"))?);
        std::fs::remove_file(&backup)?;
    }
    let process = site
        .start()
        .context("I7: it does not start although everything is back")?;
    let mark = check::mark(site, &process)?;
    check_after(site, process, subscription, true)?;
    check_instance(site, target, mark)
}

/// What holds of the act itself, and of the folder once the process has ended.
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

/// I1 to I8 of the instance beside which all of it was done.
fn check_instance(site: &Site, target: &Target, mark: check::Mark) -> Result<()> {
    let process = site.start()?;
    check::all(site, &process, target, mark)
}

fn context(process: &Process, data: &Path, facts: &Facts) -> Result<TaskContext> {
    let (store, packages) = process.storage()?;
    let engine = process.engine()?;
    Ok(TaskContext {
        engine,
        store,
        packages,
        data: data.to_owned(),
        facts: facts.clone(),
    })
}

/// What a restore brings back is as new as can be: nothing that was checked before is forgotten by it.
fn prepare(site: &Site, act: &AdminTask) -> Result<()> {
    if act.offline.is_none() {
        return Ok(());
    }
    let process = site.start()?;
    let context = context(&process, &site.data(), site.facts())?;
    process.finish(admin_tasks::create_backup(&context))
}

/// A child that does an act; killed when it is dropped.
struct TaskChild {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl TaskChild {
    /// Starts one, which is about to begin when this returns.
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
            other => bail!("a child that was to do `{}` said {other:?}", act.name),
        }
    }

    /// What it says next, if it says it in time.
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

/// The child's side.
pub(crate) fn act() -> Result<()> {
    let order: Order = serde_json::from_reader(std::io::stdin().lock())?;
    let act = TASKS
        .iter()
        .find(|act| act.name == order.act)
        .context("there is no such act")?;
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

/// Nothing is cleaned up: the next thing that happens is SIGKILL.
fn park() -> ! {
    loop {
        std::thread::park();
    }
}
