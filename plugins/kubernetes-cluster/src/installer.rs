//! The phases that installation and joins share. Each is idempotent: it inspects the host and does what is missing.

use crate::kubectl::KUBECTL;
use crate::machine::{Facts, Machine, StepState};
use crate::plan::{Node, Plan};
use futures::lock::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use vnfm_plugin_sdk::prelude::*;

pub(crate) const CA: &str = "/etc/kubernetes/pki/ca.crt";
const READY_TIMEOUT: Duration = Duration::from_mins(10);
/// How long one `kubectl wait` for the nodes lasts: its watch may hang when an API server joins or leaves, the next does not.
const READY_WAIT: Duration = Duration::from_secs(5);
/// Interval between two waits that fail at once.
const READY_RETRY_INTERVAL: Duration = Duration::from_millis(300);

/// How many hosts of a cluster are worked on at a time.
pub(crate) const PARALLEL_HOSTS: usize = 20;

/// Runs the phases on the hosts of one cluster.
#[derive(Debug)]
pub(crate) struct Installer<'a> {
    pub(crate) cx: &'a HookContext,
    pub(crate) plan: &'a Plan,
    percent: AtomicU8,
    /// SHA-256 of files of the package, by path.
    pub(crate) hashes: Mutex<BTreeMap<String, String>>,
}

impl<'a> Installer<'a> {
    /// An installer at 0 %.
    pub(crate) fn new(cx: &'a HookContext, plan: &'a Plan) -> Self {
        Self {
            cx,
            plan,
            percent: AtomicU8::new(0),
            hashes: Mutex::default(),
        }
    }

    /// Reports progress; the percentage never decreases, although hosts work in parallel.
    pub(crate) async fn report(&self, percent: u8, message: &str) {
        let percent = self
            .percent
            .fetch_max(percent, Ordering::Relaxed)
            .max(percent);
        self.cx.progress(percent, message).await;
    }

    /// Finds out how far an earlier attempt got with `init` or `join`.
    pub(crate) async fn earlier_attempt(
        &self,
        host: &Machine<'_>,
        step: &str,
    ) -> Result<EarlierAttempt, DriverError> {
        let mut state = host.state(step).await?;
        if state == StepState::Running {
            let name = &host.node.name;
            self.cx.info(&format!(
                "`{step}` is still running on `{name}`: waiting for it"
            ));
            match host.finish(step).await {
                Ok(()) => return Ok(EarlierAttempt::JustFinished),
                Err(error) if error.code.starts_with(step) => state = StepState::Lost,
                Err(error) => return Err(error),
            }
        }
        let facts = host.facts().await?;
        let needs_admin = self.plan.is_control_plane(host.node);
        let complete = facts.has_joined() && (!needs_admin || facts.is("admin"));
        if complete && matches!(state, StepState::Done(0) | StepState::Absent) {
            return Ok(EarlierAttempt::AlreadyDone(facts));
        }
        if facts.has_traces() {
            let name = &host.node.name;
            self.cx
                .warn(&format!("`{step}` is incomplete on `{name}`: resetting it"));
            return Ok(EarlierAttempt::Incomplete(facts));
        }
        Ok(EarlierAttempt::NotStarted(facts))
    }

    /// Waits until these nodes are Ready.
    pub(crate) async fn ready(
        &self,
        master: &Machine<'_>,
        nodes: impl Iterator<Item = &Node>,
    ) -> Result<(), DriverError> {
        self.report(85, "waiting for the nodes to be ready").await;
        let nodes: Vec<_> = nodes.map(|node| format!("node/{}", node.name)).collect();
        let line = format!(
            "{KUBECTL} wait --for=condition=Ready {} --timeout={}s",
            nodes.join(" "),
            READY_WAIT.as_secs(),
        );
        let began = Instant::now();
        loop {
            let output = master.try_run("ready", &line, Secret::default()).await?;
            if output.ok() {
                return Ok(());
            }
            if began.elapsed() >= READY_TIMEOUT {
                return Err(master.failure("ready", output.exit_code, &output.stderr));
            }
            let reason = output.stderr.trim();
            // Another failure comes immediately: a node is not listed yet, or the API server restarts.
            let pause = if reason.contains("timed out") {
                Duration::ZERO
            } else {
                READY_RETRY_INTERVAL
            };
            self.cx.pause(reason, pause).await?;
        }
    }

    /// Waits for a login to all hosts; the vendor's script does the rest.
    pub(crate) async fn reach_all(&self, hosts: &[Machine<'_>]) -> Result<(), DriverError> {
        let reached = hosts.iter().map(Machine::reach);
        first_failure(join_all_limited(PARALLEL_HOSTS, reached).await)
    }
}

/// How far an earlier attempt got.
pub(crate) enum EarlierAttempt {
    /// There are no traces of it; with the facts about the host.
    NotStarted(Facts),
    /// It was interrupted or failed: the host must be reset before another attempt.
    Incomplete(Facts),
    /// It was complete before this attempt.
    AlreadyDone(Facts),
    /// It completed while we waited for it.
    JustFinished,
}

/// The first error, in the order of the hosts.
pub(crate) fn first_failure(results: Vec<Result<(), DriverError>>) -> Result<(), DriverError> {
    let mut errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    if errors.is_empty() {
        return Ok(());
    }
    Err(errors.swap_remove(0))
}

/// Reads the control plane's CA certificate.
pub(crate) async fn read_ca(master: &Machine<'_>) -> Result<String, DriverError> {
    Ok(master.run("init", &format!("cat {CA}")).await?.stdout)
}
