//! Checks the rules for hooks by injecting faults at every call that a hook makes.
//!
//! | rule | how it is checked |
//! |---|---|
//! | succeeds | without faults, the hook succeeds and runs no command that the test host does not know |
//! | handles faults | each call fails before or after its effect: the hook succeeds or returns a retryable error |
//! | survives crashes | the VNFM is killed at each call, before or after its effect |
//! | converges | after each fault, the next attempt reaches the same end state, without leftovers |
//! | is idempotent | after a success, another attempt changes nothing |
//! | stops | cancelled at each call, it succeeds or fails with `cancelled`, and sleeps no longer than a few seconds |
//! | can be undone | with `check_undo`: after each fault, unless the hook has ruled out a rollback, the undo handler restores the state before it |
//! | leaks no secrets | no secret is in a command line, log line, progress report, error or message |

use super::host::TestHost;
use super::report::{TrialReport, Violations};
use super::request::TestRequest;
use crate::context::join_all_limited;
use crate::driver::MgmtDriver;
use crate::error::DriverError;
use crate::messages::effects::Effects;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

type StateOf = Box<dyn Fn(&TestHost, &Effects) -> Value + Send + Sync>;

type UndoStateOf = Box<dyn Fn(&TestHost) -> Value + Send + Sync>;

/// A test that runs a hook once for each possible fault; created by [`trial`].
///
/// ```
/// use std::time::Duration;
/// use vnfm_plugin_sdk::testkit::{TestHost, Trial, TrialReport, Uploaded, request, trial_each};
/// # use vnfm_plugin_sdk::prelude::*;
/// # use std::sync::Arc;
/// # struct Drain;
/// # impl MgmtDriver for Drain {
/// #     type Config = NoConfig;
/// #     fn new(_: NoConfig) -> Result<Self, DriverError> { Ok(Self) }
/// #     fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
/// #         hooks.on("heal_start", Self::drain).on_undo("heal_start", Self::uncordon)
/// #     }
/// # }
/// # impl Drain {
/// #     async fn mark(cx: HookContext, r: HookRequest<NoParams>, text: &str) -> Result<Effects, DriverError> {
/// #         for vnfc in r.vnfcs() {
/// #             cx.ssh(vnfc.ssh("CP1", "root")?).put(Upload::new("/run/drained", text)).await?;
/// #         }
/// #         Ok(Effects::none())
/// #     }
/// #     async fn drain(self: Arc<Self>, cx: HookContext, r: HookRequest<NoParams>) -> Result<Effects, DriverError> {
/// #         Self::mark(cx, r, "yes").await
/// #     }
/// #     async fn uncordon(self: Arc<Self>, cx: HookContext, r: HookRequest<NoParams>) -> Result<Effects, DriverError> {
/// #         Self::mark(cx, r, "no").await
/// #     }
/// # }
/// // `Drain` writes `yes` into a file of each host, its undo handler `no`.
/// fn is_drained(host: &TestHost) -> bool {
///     host.uploads().last().map(Uploaded::text).as_deref() == Some("yes")
/// }
///
/// let setup = || (TestHost::new(), request("heal_start").vnfc("VDU1", "web-1", &[("CP1", "10.0.0.1")]));
/// let trial: Trial<Drain> = trial_each(setup);
/// let report: TrialReport = trial
///     .compare_by(|host, _| is_drained(host).into())
///     .check_undo(|host| is_drained(host).into())
///     .max_sleep_after_cancel(Duration::from_secs(5))
///     .every_nth_call(1)
///     .concurrency(4)
///     .run()
///     .unwrap();
/// assert_eq!((report.calls, report.faults), (1, 5));
/// ```
#[must_use = "a trial does nothing until it is run"]
pub struct Trial<D> {
    setup: Box<dyn Fn() -> (TestHost, TestRequest) + Send + Sync>,
    secrets: Vec<String>,
    max_sleep_after_cancel: Duration,
    every_nth_call: usize,
    concurrency: usize,
    state: StateOf,
    undo_state: Option<UndoStateOf>,
    driver: PhantomData<fn() -> D>,
}

impl<D> fmt::Debug for Trial<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trial({} concurrently)", self.concurrency)
    }
}

/// Tests the hook of `request` on hosts that `new_host` creates, a new one for each fault.
///
/// ```
/// use vnfm_plugin_sdk::testkit::{TestHost, Reply, request, trial};
/// # use vnfm_plugin_sdk::prelude::*;
/// # use std::sync::Arc;
/// # struct Greeter;
/// # impl MgmtDriver for Greeter {
/// #     type Config = NoConfig;
/// #     fn new(_: NoConfig) -> Result<Self, DriverError> { Ok(Self) }
/// #     fn hooks(hooks: Hooks<Self>) -> Hooks<Self> { hooks.on("instantiate_end", Self::end) }
/// # }
/// # impl Greeter {
/// #     async fn end(self: Arc<Self>, cx: HookContext, r: HookRequest<NoParams>) -> Result<Effects, DriverError> {
/// #         for vnfc in r.vnfcs() {
/// #             cx.ssh(vnfc.ssh("CP1", "root")?).check("greet", "echo hello").await?;
/// #         }
/// #         Ok(Effects::none())
/// #     }
/// # }
/// let new_host = || TestHost::new().ssh("10.0.0.1", "echo", Reply::ok("hello\n"));
/// let request = request("instantiate_end").vnfc("VDU1", "web-1", &[("CP1", "10.0.0.1")]);
/// let report = trial::<Greeter>(new_host, request).secret("pass-phrase").run().unwrap();
/// assert_eq!(report.calls, 1);
/// ```
pub fn trial<D: MgmtDriver>(
    new_host: impl Fn() -> TestHost + Send + Sync + 'static,
    request: TestRequest,
) -> Trial<D> {
    trial_each(move || (new_host(), request.clone()))
}

/// Like [`trial`], with a request per host, for hosts whose addresses differ.
pub fn trial_each<D: MgmtDriver>(
    setup: impl Fn() -> (TestHost, TestRequest) + Send + Sync + 'static,
) -> Trial<D> {
    Trial {
        setup: Box::new(setup),
        secrets: Vec::new(),
        max_sleep_after_cancel: Duration::from_secs(10),
        every_nth_call: 1,
        concurrency: 1,
        state: Box::new(default_state),
        undo_state: None,
        driver: PhantomData,
    }
}

/// The effects, the last content of every file and the names of the checkpoints.
fn default_state(host: &TestHost, effects: &Effects) -> Value {
    let files: BTreeMap<_, _> = host
        .uploads()
        .into_iter()
        .map(|file| {
            (
                format!("{}:{}", file.address, file.path),
                (file.text(), file.mode),
            )
        })
        .collect();
    let checkpoints: Vec<_> = host.checkpoints().into_keys().collect();
    json!({ "effects": effects, "files": files, "checkpoints": checkpoints })
}

/// A fault, with the number of the call at which it is injected.
#[derive(Debug, Clone, Copy)]
enum InjectedFault {
    FailBefore(usize),
    FailAfter(usize),
    CrashBefore(usize),
    CrashAfter(usize),
    CancelAt(usize),
}

impl InjectedFault {
    fn inject(self, host: &TestHost) {
        match self {
            Self::FailBefore(n) => host.fail_before(n),
            Self::FailAfter(n) => host.fail_after(n),
            Self::CrashBefore(n) => host.crash_before(n),
            Self::CrashAfter(n) => host.crash_after(n),
            Self::CancelAt(n) => host.cancel_after(n - 1),
        }
    }

    /// Describes the fault and the call, as it was in the run without faults.
    fn describe(self, calls: &[String]) -> String {
        let (n, effect) = match self {
            Self::FailBefore(n) => (n, "fails before its effect"),
            Self::FailAfter(n) => (n, "loses its response"),
            Self::CrashBefore(n) => (n, "does not happen: the VNFM is killed before it"),
            Self::CrashAfter(n) => (n, "is the last one: the VNFM is killed after it"),
            Self::CancelAt(n) => (n, "is the first one after the operation is cancelled"),
        };
        let call = n
            .checked_sub(1)
            .and_then(|n| calls.get(n))
            .map_or("?", String::as_str);
        format!("call {n} ({call}) {effect}")
    }
}

impl<D: MgmtDriver> Trial<D> {
    /// Adds a secret, which must not occur in anything that is logged or shown.
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secrets.push(secret.into());
        self
    }

    /// Sets how long the hook may sleep after its operation is cancelled; the default is 10 s.
    pub fn max_sleep_after_cancel(mut self, limit: Duration) -> Self {
        self.max_sleep_after_cancel = limit;
        self
    }

    /// Injects faults only at every `n`th call, for slow hosts.
    pub fn every_nth_call(mut self, n: usize) -> Self {
        self.every_nth_call = n.max(1);
        self
    }

    /// Sets how many runs are in progress at a time; the default is 1.
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.concurrency = runs.max(1);
        self
    }

    /// Sets the state that must be the same after every run. The default is the effects, the files on the hosts and
    /// the names of the checkpoints.
    pub fn compare_by(
        mut self,
        state: impl Fn(&TestHost, &Effects) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.state = Box::new(state);
        self
    }

    /// Also tests the undo handler ([`Hooks::on_undo`](crate::Hooks::on_undo)): after each fault, it must restore `state`
    /// to what it was before the hook started. Use it for hooks such as a `heal_start` that drains a node. A hook that has
    /// ruled out a rollback ([`HookContext::rule_out_rollback`](crate::HookContext::rule_out_rollback)) is not undone.
    pub fn check_undo(
        mut self,
        state: impl Fn(&TestHost) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.undo_state = Some(Box::new(state));
        self
    }

    /// Runs the hook once for each possible fault.
    ///
    /// # Errors
    ///
    /// All violations that were found, not only the first.
    pub fn run(self) -> Result<TrialReport, Violations> {
        futures::executor::block_on(self.run_async())
    }

    /// Like [`Trial::run`], for hosts that need an async runtime.
    ///
    /// # Errors
    ///
    /// Those of [`Trial::run`]: all violations, not only the first.
    pub async fn run_async(self) -> Result<TrialReport, Violations> {
        let mut violations = Vec::new();
        let (expected, calls) = self
            .run_without_faults(&mut violations)
            .await
            .map_err(|message| Violations(vec![message]))?;
        let faults = (1..=calls.len())
            .step_by(self.every_nth_call)
            .flat_map(|n| {
                [
                    InjectedFault::FailBefore(n),
                    InjectedFault::FailAfter(n),
                    InjectedFault::CrashBefore(n),
                    InjectedFault::CrashAfter(n),
                    InjectedFault::CancelAt(n),
                ]
            });
        let runs = faults.map(|fault| self.run_with(fault, &calls, &expected));
        let outcomes = join_all_limited(self.concurrency, runs).await;
        let faults = outcomes.len();
        violations.extend(outcomes.into_iter().flatten());
        if violations.is_empty() {
            Ok(TrialReport {
                calls: calls.len(),
                faults,
            })
        } else {
            Err(Violations(violations))
        }
    }

    /// Runs the hook twice without faults; returns its end state and its calls.
    async fn run_without_faults(
        &self,
        violations: &mut Vec<String>,
    ) -> Result<(Value, Vec<String>), String> {
        let (host, request) = (self.setup)();
        let result = host.run_async::<D>(request.clone()).await;
        violations.extend(self.find_leak(&host, &result));
        let effects = result.map_err(|error| format!("fails without any fault: {error}"))?;
        let unknown = host.unknown_commands();
        if !unknown.is_empty() {
            return Err(format!(
                "runs commands that no rule of the test host matches: {unknown:?}"
            ));
        }
        let state = (self.state)(&host, &effects);
        let calls = host
            .calls()
            .iter()
            .map(|(service, request)| describe_call(service, request))
            .collect();
        let again = host.run_async::<D>(request.attempt(2)).await;
        violations.extend(match again {
            Err(error) => Some(format!("after a success, another attempt fails: {error}")),
            Ok(effects) => difference(&state, &(self.state)(&host, &effects))
                .map(|member| format!("after a success, another attempt changes {member}")),
        });
        Ok((state, calls))
    }

    /// Runs the hook, and its undo handler, with one fault; returns a violation.
    async fn run_with(
        &self,
        fault: InjectedFault,
        calls: &[String],
        expected: &Value,
    ) -> Option<String> {
        let mut violation = self.retry_after(fault, expected).await.err();
        if let (None, Some(state)) = (&violation, &self.undo_state) {
            violation = self.undo_after(fault, state).await.err();
        }
        violation.map(|message| format!("{}: {message}", fault.describe(calls)))
    }

    /// Runs the hook with a fault, then its undo handler twice.
    async fn undo_after(&self, fault: InjectedFault, state: &UndoStateOf) -> Result<(), String> {
        let (host, request) = (self.setup)();
        let before = state(&host);
        fault.inject(&host);
        // A rollback may follow any result.
        let _ = host.run_async::<D>(request.clone()).await;
        host.clear_cancel();
        if host.rollback_ruled_out().is_some() {
            return Ok(());
        }
        for run in ["its undo handler", "a second run of its undo handler"] {
            let undone = host.run_async::<D>(request.clone().undo()).await;
            if let Some(leak) = self.find_leak(&host, &undone) {
                return Err(leak);
            }
            undone.map_err(|error| format!("then {run} fails: {error}"))?;
            if let Some(member) = difference(&before, &state(&host)) {
                return Err(format!(
                    "after {run}, {member} differs from before the hook"
                ));
            }
        }
        Ok(())
    }

    /// Runs the hook with a fault, then once more if it failed.
    async fn retry_after(&self, fault: InjectedFault, expected: &Value) -> Result<(), String> {
        let (host, request) = (self.setup)();
        fault.inject(&host);
        let first = host.run_async::<D>(request.clone()).await;
        if let Some(leak) = self.find_leak(&host, &first) {
            return Err(leak);
        }
        let slept = host.slept_while_cancelled();
        if slept > self.max_sleep_after_cancel {
            return Err(format!(
                "then the hook sleeps another {} s",
                slept.as_secs()
            ));
        }
        let effects = match first {
            Ok(effects) => effects,
            Err(error) => {
                check_error(fault, &error)?;
                host.clear_cancel();
                let second = host.run_async::<D>(request.attempt(2)).await;
                second.map_err(|error| format!("then the next attempt fails: {error}"))?
            }
        };
        let state = (self.state)(&host, &effects);
        difference(expected, &state).map_or(Ok(()), |member| {
            Err(format!("then the end state differs in {member}"))
        })
    }

    /// Looks for secrets in everything that is logged or shown.
    fn find_leak(&self, host: &TestHost, result: &Result<Effects, DriverError>) -> Option<String> {
        let shown_result = match result {
            Ok(effects) => json!([effects.message, effects.metadata]).to_string(),
            Err(error) => format!("{error} {}", error.last_lines.join("\n")),
        };
        self.secrets.iter().find_map(|secret| {
            let mut leaks = host.find_leaks(secret);
            leaks.extend(
                shown_result
                    .contains(secret.as_str())
                    .then(|| shown_result.clone()),
            );
            let leak = leaks.first()?.replace(secret.as_str(), "[the secret]");
            Some(format!("leaks a secret: {leak}"))
        })
    }
}

/// Checks that a hook may fail with `error` after this fault.
fn check_error(fault: InjectedFault, error: &DriverError) -> Result<(), String> {
    match fault {
        InjectedFault::CancelAt(_) if error.code == "cancelled" => Ok(()),
        InjectedFault::CancelAt(_) => Err(format!(
            "then the hook fails with something else than `cancelled`: {error}"
        )),
        _ if error.retryable => Ok(()),
        _ => Err(format!(
            "then the hook returns an error that is not retryable: {error}"
        )),
    }
}

/// A short description of a call: service, host and main argument.
fn describe_call(service: &str, request: &Value) -> String {
    let address = request["host"]["address"].as_str();
    let argument = ["command", "path", "url", "key"]
        .iter()
        .find_map(|name| request[name].as_str());
    [Some(service), address, argument]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

/// The path of the first member in which two values differ.
fn difference(expected: &Value, found: &Value) -> Option<String> {
    if expected == found {
        return None;
    }
    let (Value::Object(a), Value::Object(b)) = (expected, found) else {
        return Some("the value".to_owned());
    };
    let mut names = a.keys().chain(b.keys());
    names.find_map(|name| match (a.get(name), b.get(name)) {
        (Some(_), None) => Some(format!("`{name}` (missing)")),
        (None, Some(_)) => Some(format!("`{name}` (unexpected)")),
        (Some(a), Some(b)) => difference(a, b).map(|inner| match inner.as_str() {
            "the value" => format!("`{name}`"),
            inner => format!("`{name}`, {inner}"),
        }),
        (None, None) => None,
    })
}
