//! The ports of a process with the probe in front of them. Reads pass; calls that change something may be struck.

use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{
    Change, Code, CommandOutput, Declaration, DriverId, Effects, ErrorKind, Fence, FileCopy,
    HookDriverRef, HookHost, HookRequest, HostServices, HttpRequest, HttpResponse, MgmtDriver,
    MgmtDrivers, PinnedTarget, PortError, RemoteFile, SshCommand, StepStatus, StoreError, Watcher,
};
use vnfm_tests::intercepted_store::{Intercept, Intercepted, StoreCall};

use crate::probe::Probe;
use crate::stable_names::without_ids;

/// How long a database call may take.
const STORE_TIMEOUT: Duration = Duration::from_mins(2);

/// The error of a struck call.
pub(crate) const INJECTED: Code = Code {
    name: "faults.injected",
    kind: ErrorKind::Unavailable,
    means: "the fault machine injected a failure",
    next: "nothing",
};

fn unavailable(why: &str) -> StoreError {
    StoreError::Unavailable(why.to_owned())
}

/// Names a transaction and the step that it begins. The end of one step and the start of the next share a transaction.
fn describe(changes: &[Change]) -> (String, Option<String>) {
    let (mut parts, mut begins, mut other) = (Vec::new(), None, None);
    for change in changes {
        match change {
            Change::AddOp(_) => return ("begin".to_owned(), None),
            Change::Journal(row) => {
                match row.status {
                    StepStatus::Started => begins = Some(row.step.clone()),
                    StepStatus::Undoing => begins = Some(format!("undo {}", row.step)),
                    _ => {}
                }
                parts.push(format!("journal {:?}", row.status).to_lowercase());
            }
            Change::PutOp { record, .. } => {
                parts.push(format!("state {}", record.op.operation_state));
            }
            change => {
                let text = format!("{change:?}");
                let variant = text.split(|c: char| !c.is_alphanumeric()).next();
                other = other.or_else(|| variant.map(str::to_lowercase));
            }
        }
    }
    if parts.is_empty() {
        parts.push(other.unwrap_or_else(|| "nothing".to_owned()));
    }
    (parts.join(", "), begins)
}

/// The operation that a transaction belongs to.
fn operation_of(fence: Option<&Fence>, changes: &[Change]) -> String {
    let operation_of = |change: &Change| match change {
        Change::Journal(row) => Some(row.op_id.clone()),
        Change::AddOp(record) => Some(record.op.id.clone()),
        Change::PutOp { record, .. } => Some(record.op.id.clone()),
        _ => None,
    };
    let fenced = fence.map(|fence| fence.op_id.clone());
    fenced
        .or_else(|| changes.iter().find_map(operation_of))
        .unwrap_or_default()
}

/// The database behind the probe.
pub(crate) type ProbedStore = Intercepted<StoreProbe>;

/// Passes writes through the probe; reads only count as in flight.
pub(crate) struct StoreProbe(pub(crate) Probe);

impl Intercept for StoreProbe {
    /// Operation and name of a write that the probe may strike; absent for all others.
    type Call = Option<(String, String)>;

    fn before(&self, call: StoreCall<'_>) -> Self::Call {
        let (operation, name) = match call {
            StoreCall::Write { fence, changes } => {
                for change in changes {
                    if let Change::AddOp(record) = change {
                        self.0.own(&record.op.id, &record.op.vnf_instance_id);
                    }
                }
                let (name, begins) = describe(changes);
                let operation = operation_of(fence, changes);
                if let Some(step) = begins {
                    self.0.enter(&operation, &step);
                }
                (operation, name)
            }
            StoreCall::Claim(op_id) => (op_id.unwrap_or_default().to_owned(), "claim".to_owned()),
            StoreCall::Release(fence) => (fence.op_id.clone(), "release".to_owned()),
            StoreCall::AppendLog { op_id, lines } if !lines.is_empty() => {
                (op_id.to_owned(), "log".to_owned())
            }
            _ => return None,
        };
        Some((operation, format!("store {name}")))
    }

    async fn around<T: Send>(
        &self,
        call: Self::Call,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let Some((operation, name)) = call else {
            let _busy = self.0.busy();
            return work.await;
        };
        self.0
            .through((&operation, &name), STORE_TIMEOUT, work, unavailable)
            .await
    }
}

/// SSH and HTTP of hooks.
pub(crate) struct ProbedHosts<H> {
    pub(crate) inner: H,
    pub(crate) probe: Probe,
}

impl<H> ProbedHosts<H> {
    fn error(target: &PinnedTarget) -> impl Fn(&str) -> PortError {
        let action = format!("work on `{}`", target.host.address);
        move |why| PortError::new(&INJECTED, action.clone(), why)
    }

    /// A call that transfers a file.
    async fn transfer(
        &self,
        target: &PinnedTarget,
        call: &str,
        work: impl Future<Output = Result<(), PortError>> + Send,
    ) -> Result<(), PortError> {
        let error = Self::error(target);
        self.probe
            .through((WITH_HOSTS, call), UPLOAD_TIMEOUT, work, error)
            .await
    }
}

/// Stands for the only instance of several that has hosts.
pub(crate) const WITH_HOSTS: &str = "hosts";

/// How long an upload may take.
const UPLOAD_TIMEOUT: Duration = Duration::from_mins(10);

/// The command that shows a host's time.
const TIME: &str = "date +%s.%N";

#[async_trait]
impl<H: HostServices> HostServices for ProbedHosts<H> {
    async fn ssh_run(
        &self,
        target: &PinnedTarget,
        command: &SshCommand,
    ) -> Result<CommandOutput, PortError> {
        let host = self.probe.host(&target.host.server_id);
        let line = without_ids(&self.probe.without_instance(&command.line));
        let line: String = line.chars().take(60).collect();
        let call = format!("ssh.run {host}: {line}");
        let limit = Duration::from_secs(command.deadline_seconds.into());
        let work = async {
            let mut output = self.inner.ssh_run(target, command).await?;
            if command.line.starts_with(TIME) {
                // The hosts have the time of the process, whose clock jumps.
                output.stdout = self.probe.time();
            }
            Ok(output)
        };
        self.probe
            .through((WITH_HOSTS, &call), limit, work, Self::error(target))
            .await
    }

    async fn ssh_put(&self, target: &PinnedTarget, file: &RemoteFile) -> Result<(), PortError> {
        let host = self.probe.host(&target.host.server_id);
        let call = format!("ssh.put {host}: {}", without_ids(&file.path));
        let work = self.inner.ssh_put(target, file);
        self.transfer(target, &call, work).await
    }

    async fn ssh_fetch(&self, target: &PinnedTarget, copy: &FileCopy) -> Result<(), PortError> {
        let host = self.probe.host(&target.host.server_id);
        let call = format!("ssh.fetch {host}");
        let work = self.inner.ssh_fetch(target, copy);
        self.transfer(target, &call, work).await
    }

    async fn ssh_send(&self, target: &PinnedTarget, copy: &FileCopy) -> Result<(), PortError> {
        let host = self.probe.host(&target.host.server_id);
        let call = format!("ssh.send {host}");
        let work = self.inner.ssh_send(target, copy);
        self.transfer(target, &call, work).await
    }

    async fn ssh_wait(
        &self,
        target: &PinnedTarget,
        deadline_seconds: u32,
        watcher: &dyn Watcher,
    ) -> Result<(), PortError> {
        let call = format!("ssh.wait {}", self.probe.host(&target.host.server_id));
        let limit = Duration::from_secs(deadline_seconds.into());
        let work = self.inner.ssh_wait(target, deadline_seconds, watcher);
        self.probe
            .through((WITH_HOSTS, &call), limit, work, Self::error(target))
            .await
    }

    async fn http(&self, request: &HttpRequest) -> Result<HttpResponse, PortError> {
        let limit = request.deadline();
        let error = |why: &str| PortError::new(&INJECTED, "send a hook's request", why);
        let call = format!("ssh.http {}", request.method);
        self.probe
            .through((WITH_HOSTS, &call), limit, self.inner.http(request), error)
            .await
    }
}

pub(crate) struct ProbedHooks<M> {
    pub(crate) inner: M,
    pub(crate) probe: Probe,
}

impl<M: MgmtDrivers> MgmtDrivers for ProbedHooks<M> {
    fn resolve(&self, wanted: &HookDriverRef<'_>) -> Result<Arc<dyn MgmtDriver>, PortError> {
        let inner = self.inner.resolve(wanted)?;
        Ok(Arc::new(ProbedHook {
            inner,
            probe: self.probe.clone(),
        }))
    }

    fn list(&self) -> Vec<Declaration> {
        self.inner.list()
    }
}

struct ProbedHook {
    inner: Arc<dyn MgmtDriver>,
    probe: Probe,
}

/// Longer than any hook may take.
const HOOK_TIMEOUT: Duration = Duration::from_hours(24);

#[async_trait]
impl MgmtDriver for ProbedHook {
    fn declaration(&self) -> &Declaration {
        self.inner.declaration()
    }

    fn id(&self) -> DriverId {
        self.inner.id()
    }

    async fn call(
        &self,
        request: HookRequest,
        host: Arc<dyn HookHost>,
    ) -> Result<Effects, PortError> {
        let call = format!("hook {}", request.hook);
        let error = |why: &str| PortError::new(&INJECTED, "run a hook", why);
        // The hook's own calls are counted; the hook itself is not in flight.
        let operation_of = request.instance.id.clone();
        self.probe
            .around(
                (&operation_of, &call),
                HOOK_TIMEOUT,
                self.inner.call(request, host),
                error,
            )
            .await
    }
}
