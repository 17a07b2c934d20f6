//! Real kills: this program starts itself as a child, which drives the operation until the fault strikes and
//! is then killed by SIGKILL.

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::plan::Plan;
use crate::process::{Process, Ran};
use crate::site::Site;
use crate::vnf::{Act, Facts, Target, begin};
use crate::world::Control;

/// Makes this program a child that drives one operation.
pub(crate) const DRIVE: &str = "--drive";
/// The program that begins operations, if not this one: that of an earlier version.
pub(crate) static FIRST_PROGRAM: OnceLock<PathBuf> = OnceLock::new();
const STRUCK: &str = "struck";
const DONE: &str = "done";

/// What a child reads from standard input. An earlier version reads it too: the members are fixed.
#[derive(Serialize, Deserialize)]
struct Order {
    data: PathBuf,
    control: String,
    world: u32,
    facts: Facts,
    target: Target,
    act: Act,
    plan: Plan,
}

/// Lets a child drive the operation and kills it; whether `plan` struck.
pub(crate) fn killed(site: &Site, target: &Target, act: Act, plan: &Plan) -> Result<bool> {
    let order = Order {
        data: site.data(),
        control: site.control().url().to_owned(),
        world: site.control().process(),
        facts: site.facts().clone(),
        target: target.clone(),
        act,
        plan: plan.clone(),
    };
    let program = FIRST_PROGRAM
        .get()
        .cloned()
        .map_or_else(std::env::current_exe, Ok)?;
    let mut child = Command::new(program)
        .arg(DRIVE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the program that is to be killed")?;
    let written = child.stdin.take().context("no standard input")?;
    serde_json::to_writer(written, &order)?;
    let mut line = String::new();
    let stdout = child.stdout.take().context("no standard output")?;
    BufReader::new(stdout).read_line(&mut line)?;
    child.kill()?; // SIGKILL
    child.wait()?;
    match line.trim() {
        STRUCK => Ok(true),
        DONE => Ok(false),
        other => bail!("a child that was to be killed said `{other}`"),
    }
}

/// Drives the operation, as the child.
pub(crate) fn drive() -> Result<()> {
    let order: Order = serde_json::from_reader(std::io::stdin().lock())?;
    let process = Process::start(&order.data, &Control::at(&order.control, order.world))?;
    process
        .probe()
        .begin(&order.target.instance, Some(order.plan));
    let engine = process.engine()?;
    let ran = process.run(async {
        let op = begin(&engine, &order.facts, &order.target, order.act).await?;
        engine.drive(&op).await?;
        anyhow::Ok(())
    })?;
    let struck = matches!(ran, Ran::Ended);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", if struck { STRUCK } else { DONE })?;
    out.flush()?;
    drop(out);
    // Wait for SIGKILL without cleaning up.
    loop {
        std::thread::park();
    }
}
