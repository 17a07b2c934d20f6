//! The ports of a process with the probe in front of them. What only reads passes; what changes something is met.

use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{
    Change, Claim, Code, CommandOutput, Declaration, Effects, ErrorKind, Fence, HookHost,
    HookRequest, HostPin, HostServices, HttpRequest, HttpResponse, InstanceRecord, JournalRow,
    MgmtDriver, MgmtDrivers, News, OpRecord, OpenStep, OutboxRow, PackageRecord, PinnedKey,
    PortError, RemoteFile, SecretJson, SshCommand, SshTarget, StepStatus, Store, StoreError,
    SubscriptionRecord, Usage, Use, VimRecord,
};
use vnfm_core::query::Query;
use vnfm_store::SqliteStore;
use vnfm_types::{AuditEntry, CancelMode, LogLine, Tombstone};

use crate::probe::{Probe, without_ids};

/// How long a database may not answer.
const STORE_TIMEOUT: Duration = Duration::from_mins(2);

/// What a struck call says.
pub(crate) const INJECTED: Code = Code {
    name: "faults.told-to",
    kind: ErrorKind::Unavailable,
    means: "the fault machine told it to fail",
    next: "nothing",
};

/// The database.
pub(crate) struct ProbedStore {
    pub(crate) inner: Arc<SqliteStore>,
    pub(crate) probe: Probe,
}

fn unavailable(why: &str) -> StoreError {
    StoreError::Unavailable(why.to_owned())
}

/// What a transaction is, in a few words, and the step that it begins: how one ends and what comes next share one.
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

/// The operation that a transaction is of.
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

#[async_trait]
impl Store for ProbedStore {
    fn installation_id(&self) -> &str {
        self.inner.installation_id()
    }
    async fn write(&self, fence: Option<&Fence>, changes: Vec<Change>) -> Result<(), StoreError> {
        let (name, begins) = describe(&changes);
        for change in &changes {
            if let Change::AddOp(record) = change {
                self.probe.own(&record.op.id, &record.op.vnf_instance_id);
            }
        }
        let operation_of = operation_of(fence, &changes);
        if let Some(step) = begins {
            self.probe.enter(&operation_of, &step);
        }
        let call = format!("store {name}");
        let work = self.inner.write(fence, changes);
        self.probe
            .through((&operation_of, &call), STORE_TIMEOUT, work, unavailable)
            .await
    }
    async fn claim(
        &self,
        owner: &str,
        lease: Duration,
        op_id: Option<&str>,
    ) -> Result<Option<Claim>, StoreError> {
        let work = self.inner.claim(owner, lease, op_id);
        let operation_of = op_id.unwrap_or_default();
        self.probe
            .through(
                (operation_of, "store claim"),
                STORE_TIMEOUT,
                work,
                unavailable,
            )
            .await
    }
    async fn renew(
        &self,
        fence: &Fence,
        lease: Duration,
    ) -> Result<Option<CancelMode>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.renew(fence, lease).await
    }
    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        let work = self.inner.release(fence);
        self.probe
            .through(
                (&fence.op_id, "store release"),
                STORE_TIMEOUT,
                work,
                unavailable,
            )
            .await
    }
    async fn instance(&self, tenant: &str, id: &str) -> Result<InstanceRecord, StoreError> {
        let _busy = self.probe.busy();
        self.inner.instance(tenant, id).await
    }
    async fn instances(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<InstanceRecord>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.instances(tenant, query).await
    }
    async fn op(&self, tenant: &str, id: &str) -> Result<OpRecord, StoreError> {
        let _busy = self.probe.busy();
        self.inner.op(tenant, id).await
    }
    async fn ops(&self, tenant: &str, query: &Query) -> Result<Vec<OpRecord>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.ops(tenant, query).await
    }
    async fn journal(&self, op_id: &str) -> Result<Vec<JournalRow>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.journal(op_id).await
    }
    async fn open_steps(&self) -> Result<Vec<OpenStep>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.open_steps().await
    }
    async fn left_in_order(&self, op_id: &str) -> Result<Vec<String>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.left_in_order(op_id).await
    }
    async fn checkpoint(
        &self,
        op_id: &str,
        step: &str,
        key: &str,
    ) -> Result<Option<SecretJson>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.checkpoint(op_id, step, key).await
    }
    async fn vim(&self, tenant: &str, id_or_name: &str) -> Result<VimRecord, StoreError> {
        let _busy = self.probe.busy();
        self.inner.vim(tenant, id_or_name).await
    }
    async fn vims(&self, tenant: &str) -> Result<Vec<VimRecord>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.vims(tenant).await
    }
    async fn uses(&self, tenant: &str, vim_id: &str) -> Result<Vec<Use>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.uses(tenant, vim_id).await
    }
    async fn package_record(&self, tenant: &str, id: &str) -> Result<PackageRecord, StoreError> {
        let _busy = self.probe.busy();
        self.inner.package_record(tenant, id).await
    }
    async fn package_records(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<PackageRecord>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.package_records(tenant, query).await
    }
    async fn append_log(&self, op_id: &str, lines: Vec<LogLine>) -> Result<(), StoreError> {
        if lines.is_empty() {
            return Ok(());
        }
        let work = self.inner.append_log(op_id, lines);
        self.probe
            .through((op_id, "store log"), STORE_TIMEOUT, work, unavailable)
            .await
    }
    async fn log(&self, op_id: &str, after: u64) -> Result<Vec<LogLine>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.log(op_id, after).await
    }
    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.outbox(after, limit).await
    }
    async fn events(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.events(tenant, after, limit).await
    }
    async fn subscription(&self, tenant: &str, id: &str) -> Result<SubscriptionRecord, StoreError> {
        let _busy = self.probe.busy();
        self.inner.subscription(tenant, id).await
    }
    async fn subscriptions(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<SubscriptionRecord>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.subscriptions(tenant, query).await
    }
    async fn subscribers(&self) -> Result<Vec<SubscriptionRecord>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.subscribers().await
    }
    async fn news(&self, seen: News) -> News {
        self.inner.news(seen).await
    }
    async fn audit(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.audit(tenant, after, limit).await
    }
    async fn tombstones(&self, tenant: &str) -> Result<Vec<Tombstone>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.tombstones(tenant).await
    }
    async fn usage(&self, tenant: &str) -> Result<Usage, StoreError> {
        let _busy = self.probe.busy();
        self.inner.usage(tenant).await
    }
    async fn tenants(&self) -> Result<Vec<String>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.tenants().await
    }
    async fn host_key(&self, pin: &HostPin) -> Result<Option<PinnedKey>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.host_key(pin).await
    }

    async fn host_keys(&self, tenant: &str) -> Result<Vec<PinnedKey>, StoreError> {
        let _busy = self.probe.busy();
        self.inner.host_keys(tenant).await
    }
}

/// SSH and HTTP for hooks.
pub(crate) struct ProbedHosts<H> {
    pub(crate) inner: H,
    pub(crate) probe: Probe,
}

impl<H> ProbedHosts<H> {
    fn error(target: &SshTarget) -> impl Fn(&str) -> PortError {
        let action = format!("work on `{}`", target.address);
        move |why| PortError::new(&INJECTED, action.clone(), why)
    }
}

/// What stands for the one of several instances that has hosts.
pub(crate) const WITH_HOSTS: &str = "hosts";

/// How long an upload may take.
const UPLOAD_TIMEOUT: Duration = Duration::from_mins(10);

#[async_trait]
impl<H: HostServices> HostServices for ProbedHosts<H> {
    async fn ssh_run(
        &self,
        target: &SshTarget,
        command: &SshCommand,
    ) -> Result<CommandOutput, PortError> {
        let host = self.probe.host(&target.server_id);
        let line = without_ids(&self.probe.without_instance(&command.command));
        let line: String = line.chars().take(60).collect();
        let call = format!("ssh.run {host}: {line}");
        let limit = Duration::from_secs(command.deadline_seconds.into());
        let work = self.inner.ssh_run(target, command);
        self.probe
            .through((WITH_HOSTS, &call), limit, work, Self::error(target))
            .await
    }

    async fn ssh_put(&self, target: &SshTarget, file: &RemoteFile) -> Result<(), PortError> {
        let host = self.probe.host(&target.server_id);
        let call = format!("ssh.put {host}: {}", without_ids(&file.path));
        let work = self.inner.ssh_put(target, file);
        self.probe
            .through(
                (WITH_HOSTS, &call),
                UPLOAD_TIMEOUT,
                work,
                Self::error(target),
            )
            .await
    }

    async fn ssh_wait(&self, target: &SshTarget, deadline_seconds: u32) -> Result<(), PortError> {
        let call = format!("ssh.wait {}", self.probe.host(&target.server_id));
        let limit = Duration::from_secs(deadline_seconds.into());
        let work = self.inner.ssh_wait(target, deadline_seconds);
        self.probe
            .through((WITH_HOSTS, &call), limit, work, Self::error(target))
            .await
    }

    async fn http(&self, request: &HttpRequest) -> Result<HttpResponse, PortError> {
        let limit = Duration::from_secs(request.deadline_seconds.unwrap_or(60).into());
        let error = |why: &str| PortError::new(&INJECTED, "send a hook's request", why);
        let call = format!("ssh.http {}", request.method);
        self.probe
            .through((WITH_HOSTS, &call), limit, self.inner.http(request), error)
            .await
    }
}

/// The vendors' hooks.
pub(crate) struct ProbedHooks<M> {
    pub(crate) inner: M,
    pub(crate) probe: Probe,
}

impl<M: MgmtDrivers> MgmtDrivers for ProbedHooks<M> {
    fn find(
        &self,
        implementation: &str,
        plugin: Option<&str>,
    ) -> Result<Arc<dyn MgmtDriver>, PortError> {
        let inner = self.inner.find(implementation, plugin)?;
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

    async fn call(
        &self,
        request: HookRequest,
        host: Arc<dyn HookHost>,
    ) -> Result<Effects, PortError> {
        let call = format!("hook {}", request.hook);
        let error = |why: &str| PortError::new(&INJECTED, "run a hook", why);
        // Its own calls are counted; the hook itself waits for them and is not in flight.
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
